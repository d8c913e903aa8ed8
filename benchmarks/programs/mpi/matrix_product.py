"""Product of dense matrices in 2.5 dimensions."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def product(row: MPI.Intracomm, column: MPI.Intracomm, pile: MPI.Intracomm, a: Matrix, b: Matrix) -> Matrix:
    across, down = gathered(row, np.ascontiguousarray(a.T)), gathered(column, b)
    partial = across.T @ down
    n, width = partial.shape
    counts = [((k + 1) * n // pile.size - k * n // pile.size) * width for k in range(pile.size)]
    part = np.empty((counts[pile.rank] // max(width, 1), width))
    pile.Reduce_scatter(partial, part, counts)
    return part


def gathered(comm: MPI.Intracomm, block: Matrix) -> Matrix:
    """The blocks of all, below each other."""
    counts = np.array(comm.allgather(len(block)))
    whole = np.empty((counts.sum(), block.shape[1]))
    comm.Allgatherv(block, [whole, counts * block.shape[1]])
    return whole
