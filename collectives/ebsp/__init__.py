"""The algorithms of *The E-BSP model* (Juurlink and Wijshoff), sections 4 and 5; one a file.

They count unbalanced communication and distance: what they choose (fan-outs, the shape of a grid) is the cheapest on a
machine that prices an (M, k1, k2)-relation with its locality, `pybsp.EBSPMachine`.
"""

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
