"""LU decomposition with partial pivoting, dealt out cyclically over a grid."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]

BEST = np.dtype([("size", np.float64), ("row", np.int32)], align=True)


def grid_of(comm: MPI.Intracomm, rows: int = 0) -> tuple[MPI.Cartcomm, MPI.Cartcomm]:
    """The ranks of this one's row and column, on a grid of so many rows (0: as square as can be)."""
    cart = comm.Create_cart(MPI.Compute_dims(comm.size, [rows, 0]))
    return cart.Sub([False, True]), cart.Sub([True, False])


def lu(row: MPI.Intracomm, column: MPI.Intracomm, part: Matrix, n: int) -> Ints:
    rows, columns, s, t = column.size, row.size, column.rank, row.rank
    # A place more in each row, for its item of column k, which changes places with it.
    a = np.column_stack((part, np.zeros(len(part))))
    order, best = np.arange(n), np.empty(1, BEST)
    for k in range(n):
        i, j = -(-(k - s) // rows), -(-(k - t) // columns)
        below, right = -(-(k + 1 - s) // rows), -(-(k + 1 - t) // columns)
        packet = np.empty(len(a) - i + 1)
        if t == k % columns:
            best[0] = -1, n
            packet[:-1] = a[i:, j]
            if i < len(a):
                place = int(np.abs(packet[:-1]).argmax())
                best[0] = abs(packet[place]), s + rows * (i + place)
            column.Allreduce(MPI.IN_PLACE, [best, 1, MPI.DOUBLE_INT], MPI.MAXLOC)
            packet[-1] = best["row"][0]
        row.Bcast(packet, k % columns)
        a[i:, -1], r = packet[:-1], int(packet[-1])
        order[k], order[r] = order[r], order[k]
        if s == k % rows == r % rows:
            a[[k // rows, r // rows]] = a[[r // rows, k // rows]]
        elif s == k % rows:
            column.Sendrecv_replace(a[k // rows], r % rows)
        elif s == r % rows:
            column.Sendrecv_replace(a[r // rows], k % rows)
        upper = a[k // rows, right:] if s == k % rows else np.empty(a.shape[1] - right)
        column.Bcast(upper, k % rows)
        if upper[-1] == 0:
            raise ArithmeticError(f"lu: the matrix is singular: column {k} has no pivot")
        multipliers = (a[below:, -1] / upper[-1])[:, None]
        a[below:, right:-1] -= multipliers * upper[:-1]
        a[below:, j:right] = multipliers
    part[:] = a[:, :-1]
    return order
