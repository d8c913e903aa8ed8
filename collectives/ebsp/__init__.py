"""The algorithms of *The E-BSP model* (Juurlink and Wijshoff), sections 4 and 5; one a file.

They count unbalanced communication and distance: what they choose (fan-outs, the shape of a grid) is the cheapest on a
machine that prices an (M, k1, k2)-relation with its locality, `pybsp.EBSPMachine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .gossip import gossip
    from .items_broadcast import items_broadcast
    from .matrix_multiplication import matrix_multiplication, matrix_multiplication_grid
    from .mesh_broadcast import mesh_broadcast
    from .partition import Grid
    from .personalised_broadcast import personalised_broadcast
    from .stencil import stencil, stencil_grid
    from .tree_broadcast import tree_broadcast

__all__ = [
    "Grid",
    "gossip",
    "items_broadcast",
    "matrix_multiplication",
    "matrix_multiplication_grid",
    "mesh_broadcast",
    "personalised_broadcast",
    "stencil",
    "stencil_grid",
    "tree_broadcast",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".gossip": ("gossip",),
            ".items_broadcast": ("items_broadcast",),
            ".matrix_multiplication": (
                "matrix_multiplication",
                "matrix_multiplication_grid",
            ),
            ".mesh_broadcast": ("mesh_broadcast",),
            ".partition": ("Grid",),
            ".personalised_broadcast": ("personalised_broadcast",),
            ".stencil": (
                "stencil",
                "stencil_grid",
            ),
            ".tree_broadcast": ("tree_broadcast",),
        },
        of_programs=True,
    )
