"""LU decomposition with partial pivoting, P A = L U, of a dense matrix dealt out cyclically over a grid of processors.

(R. H. Bisseling, Parallel Scientific Computation, chapter 2.)

Supersteps of a step k, on a grid of R rows and C columns, for n * n items:

    allreduce   the largest item of column k, w = ceil((n - k) / R): `collectives.allreduce.cost` of 2 words on R
                processors; none where R = 1
    broadcast   the pivot's row and column k go along the rows of the grid: `collectives.broadcast.cost` of
                ceil((n - k) / R) + 1 words on C processors; none where C = 1
    allreduce   rows k and r, the pivot's, go down and up the columns, to change places: `collectives.allreduce.cost` of
                2 * (ceil(n / C) + 1) words on R processors; none where R = 1. Then the update,
                w = ceil((n - k - 1) / R) * (2 * ceil((n - k - 1) / C) + 1)

and

    check       the items go to processor 0: h = n * n less its own

Run it:

    mpiexec -n 4 python examples/textbook/lu.py --size 200
    pybsp simulate -p 6 examples/textbook/lu.py
"""

from __future__ import annotations

import argparse
from math import isqrt

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Cyclic

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]


def lu(bsp: pybsp.BSP, grid: pybsp.Grid, part: Matrix, n: int) -> Ints:
    """Write L and U over this processor's part of A; returns the order of A's rows in P A.

    Raises:
        ArithmeticError: A is singular; on all processors.
    """
    rows, columns, s, t = grid.rows, grid.columns, grid.column.pid, grid.row.pid
    a = np.column_stack((part, np.empty(len(part))))  # with a place for column k, which moves with the rows
    order, row_numbers = np.arange(n), -1j * np.arange(s, n, rows)[:, None]
    for k in range(n):
        # This processor's rows and columns from k on begin with i and j, those behind k with the others.
        i, below = -(-(k - s) // rows), -(-(k + 1 - s) // rows)
        j, right = -(-(k - t) // columns), -(-(k + 1 - t) // columns)  # column k, where it is here, is j:right

        # The pivot, and its row r; all get to know r with column k.
        items = np.abs(a[i:, j:right]) + row_numbers[i:]  # the largest one: of equal sizes that of the first row
        best = collectives.allreduce(grid.column, items.max(initial=-1, keepdims=True), np.maximum)
        bsp.work(items.size)
        column = np.concatenate((a[i:, j:right].ravel(), -best[0].imag))
        column = collectives.broadcast(grid.row, column, k % columns)
        a[i:, -1], r = column[:-1], int(column[-1])
        order[[k, r]] = order[[r, k]]

        # Rows k and r change places.
        both = np.zeros((2, a.shape[1]))  # each has a part of both rows, or nothing: they are the sum
        for values, row in zip(both, (k, r), strict=True):
            if row % rows == s:
                values[:] = a[row // rows]
        both = collectives.allreduce(grid.column, both, np.add)
        for values, row in zip(both, (r, k), strict=True):
            if row % rows == s:
                a[row // rows] = values

        upper, pivot = both[1, right:-1], both[1, -1]
        if pivot == 0:
            raise ArithmeticError(f"lu: the matrix is singular: column {k} has no pivot")
        multipliers = a[below:, -1] / pivot
        a[below:, right:-1] -= np.outer(multipliers, upper)
        a[below:, j:right] = multipliers[:, None]
        bsp.work(multipliers.size * (2 * upper.size + 1))
    part[:] = a[:, :-1]
    return order


def main(bsp: pybsp.BSP, n: int = 50, rows: int | None = None) -> Ints:
    """The order of the rows of a random matrix in P A, on a grid of so many rows (None: as square as can be)."""
    rows = rows or next(rows for rows in range(isqrt(bsp.p), 0, -1) if bsp.p % rows == 0)
    grid = bsp.grid(rows, bsp.p // rows)
    layout = Cyclic((n, n), (grid.rows, grid.columns))
    whole = np.random.default_rng(n).normal(size=(n, n))
    part = whole[layout.part(bsp.pid)].copy()
    order = lu(bsp, grid, part, n)
    with bsp.label("check"):
        parts = collectives.gather(bsp, part)
    if parts is not None:
        found = np.empty((n, n))
        for pid, piece in enumerate(parts):
            found[layout.part(pid)] = piece
        lower, upper = np.tril(found, -1) + np.eye(n), np.triu(found)
        if not np.allclose(lower @ upper, whole[order]) or np.abs(lower).max() > 1:
            raise ArithmeticError("lu: L U differs from the matrix with its rows in order")
        print(f"p = {grid.rows} * {grid.columns}, n = {n}: log |det A| = {np.log(np.abs(np.diag(upper))).sum():.9f}")
        print("agrees with the matrix: P A = L U")
    return order


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="LU decomposition of a random dense matrix.")
    parser.add_argument("--size", type=int, default=50, help="rows of the matrix (default: %(default)s)")
    parser.add_argument("--rows", type=int, help="rows of the grid of processors (default: as square as can be)")
    options = parser.parse_args()
    pybsp.run(main, n=options.size, rows=options.rows)
