"""Product of dense matrices in 2.5 dimensions."""

from __future__ import annotations

from math import isqrt

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


class Layers:
    """c grids of q * q ranks; see examples/textbook/matrix_product.py."""

    def __init__(self, comm: MPI.Intracomm, c: int) -> None:
        q = self.q = isqrt(comm.size // c)
        if c < 1 or c * q * q != comm.size:
            raise ValueError(f"matrix_product: expected layers * q * q = p = {comm.size}, got layers = {c}")
        cart = comm.Create_cart([c, q, q])
        self.c, (self.l, self.i, self.j) = c, cart.coords
        self.pile, self.column, self.row = (cart.Sub([k == axis for k in range(3)]) for axis in range(3))


def product(layers: Layers, a: Matrix, b: Matrix) -> Matrix:
    across, down = gathered(layers.row, np.ascontiguousarray(a.T)), gathered(layers.column, b)
    partial, pile = across.T @ down, layers.pile
    n, width = partial.shape
    rows = np.diff(np.arange(pile.size + 1) * n // pile.size)
    part = np.empty((rows[pile.rank], width))
    pile.Reduce_scatter(partial, part, rows * width)
    return part


def gathered(comm: MPI.Intracomm, block: Matrix) -> Matrix:
    """The blocks of all, below each other."""
    counts = np.empty(comm.size, int)
    comm.Allgather(np.array(len(block)), counts)
    whole = np.empty((counts.sum(), block.shape[1]))
    comm.Allgatherv(block, [whole, counts * block.shape[1]])
    return whole
