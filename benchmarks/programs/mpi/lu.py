"""LU decomposition with partial pivoting, dealt out cyclically over a grid."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]


def lu(row: MPI.Intracomm, column: MPI.Intracomm, a: Matrix, n: int) -> Ints:
    """`row` and `column` are those of this rank in the grid."""
    rows, columns, s, t = column.size, row.size, column.rank, row.rank
    order = np.arange(n)
    own, other = np.empty(a.shape[1] + 1), np.empty(a.shape[1] + 1)
    best = np.empty(1, np.dtype([("size", np.float64), ("row", np.int32)], align=True))
    for k in range(n):
        i, j = -(-(k - s) // rows), -(-(k - t) // columns)
        below, right = -(-(k + 1 - s) // rows), -(-(k + 1 - t) // columns)
        packet = np.empty(len(a) - i + 1)
        if t == k % columns:
            best[0] = -1, n
            if i < len(a):
                sizes = np.abs(a[i:, j])
                place = int(sizes.argmax())
                best[0] = sizes[place], s + rows * (i + place)
            column.Allreduce(MPI.IN_PLACE, [best, 1, MPI.DOUBLE_INT], MPI.MAXLOC)
            packet[:-1], packet[-1] = a[i:, j], best["row"][0]
        row.Bcast(packet, k % columns)
        r = int(packet[-1])
        order[k], order[r] = order[r], order[k]
        if s == r % rows:
            own[:-1], own[-1] = a[r // rows], packet[r // rows - i]
        if s == k % rows != r % rows:
            other[:-1], other[-1] = a[k // rows], packet[0]
            column.Send(other, r % rows)
        elif s == r % rows != k % rows:
            column.Recv(other, k % rows)
            a[r // rows], packet[r // rows - i] = other[:-1], other[-1]
        elif s == k % rows:
            a[r // rows], packet[r // rows - i] = a[k // rows].copy(), packet[0]
        column.Bcast(own, r % rows)
        if s == k % rows:
            a[k // rows] = own[:-1]
        if own[-1] == 0:
            raise ArithmeticError(f"lu: the matrix is singular: column {k} has no pivot")
        multipliers = packet[below - i : -1] / own[-1]
        a[below:, right:] -= multipliers[:, None] * own[right:-1]
        if t == k % columns:
            a[below:, j] = multipliers
    return order
