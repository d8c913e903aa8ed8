"""The algorithms of *The E-BSP model* (Juurlink and Wijshoff), sections 4 and 5; one a file.

They count unbalanced communication and distance: what they choose (fan-outs, the shape of a grid) is the cheapest on a
machine that prices an (M, k1, k2)-relation with its locality, `pybsp.EBSPMachine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .gossip import gossip as gossip
    from .items_broadcast import items_broadcast as items_broadcast
    from .matrix_multiplication import matrix_multiplication as matrix_multiplication
    from .matrix_multiplication import matrix_multiplication_grid as matrix_multiplication_grid
    from .mesh_broadcast import mesh_broadcast as mesh_broadcast
    from .partition import Grid as Grid
    from .personalised_broadcast import personalised_broadcast as personalised_broadcast
    from .stencil import stencil as stencil
    from .stencil import stencil_grid as stencil_grid
    from .tree_broadcast import tree_broadcast as tree_broadcast

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".gossip": ("gossip",),
            ".items_broadcast": ("items_broadcast",),
            ".matrix_multiplication": ("matrix_multiplication", "matrix_multiplication_grid"),
            ".mesh_broadcast": ("mesh_broadcast",),
            ".partition": ("Grid",),
            ".personalised_broadcast": ("personalised_broadcast",),
            ".stencil": ("stencil", "stencil_grid"),
            ".tree_broadcast": ("tree_broadcast",),
        },
        of_programs=True,
    )
