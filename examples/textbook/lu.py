"""LU decomposition with partial pivoting, P A = L U, of a dense matrix dealt out cyclically over a grid of processors.

(R. H. Bisseling, Parallel Scientific Computation, chapter 2.)

Supersteps of a step k, on a grid of R rows and C columns, for n * n items:

    broadcast   column k goes along the rows of the grid: `collectives.broadcast.cost` of ceil((n - k) / R) words on C
                processors, or where another way is the cheapest for rows that have a word less, the larger h of both in
                each superstep; none where C = 1. Then each looks for the largest item of it, w = ceil((n - k) / R)
    allreduce   down and up the columns go the largest items' rows, of which one is the pivot's, and row k, with which
                that one changes places: `collectives.allreduce.cost` of 2 * (ceil(n / C) + 2) words on R processors;
                none where R = 1. Then the update, w = ceil((n - k - 1) / R) * (2 * ceil((n - k - 1) / C) + 1)

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


def pivot_of(x: Matrix, y: Matrix) -> Matrix:
    """Of two pairs of rows, which end with their item of column k and their number: the pivot's, and row k.

    The first of a pair is a candidate for the pivot's row; the second is row k, or zeros.
    """
    both = x + y
    both[0] = max(x[0], y[0], key=lambda row: (abs(row[-2]), -row[-1]))
    return both


def grid_of(bsp: pybsp.BSP, rows: int | None = None) -> pybsp.Grid:
    """The processors as a grid of so many rows (None: as square as can be)."""
    rows = rows or next(rows for rows in range(isqrt(bsp.p), 0, -1) if bsp.p % rows == 0)
    return bsp.grid(rows, bsp.p // rows)


def lu(bsp: pybsp.BSP, grid: pybsp.Grid, part: Matrix, n: int) -> Ints:
    """Write L and U over this processor's part of A; returns the order of A's rows in P A.

    Raises:
        ArithmeticError: A is singular; on all processors.
    """
    rows, columns, s, t = grid.rows, grid.columns, grid.column.pid, grid.row.pid
    # Two places more in each row: for its item of column k, which changes places with it, and for its number.
    a = np.column_stack((part, np.zeros(len(part)), np.arange(s, n, rows)))
    order, mine = np.arange(n), np.empty((2, a.shape[1]))
    for k in range(n):
        # This processor's rows and columns from k on begin with i and j, those behind k with below and right.
        i, below = -(-(k - s) // rows), -(-(k + 1 - s) // rows)
        j, right = -(-(k - t) // columns), -(-(k + 1 - t) // columns)

        # Column k, and the largest item of it here.
        a[i:, -2] = collectives.broadcast(grid.row, a[i:, j] if j < right else None, k % columns)
        mine[0] = a[i + np.abs(a[i:, -2]).argmax()] if i < len(a) else 0
        mine[1] = a[i] if i < below else 0
        bsp.work(len(a) - i)

        # The pivot, and its row r, which changes places with row k.
        both = collectives.allreduce(grid.column, mine, pivot_of) if rows > 1 else mine
        r = int(both[0, -1])
        order[k], order[r] = order[r], order[k]
        for row, values in ((r, both[1]), (k, both[0])):
            if row % rows == s:
                a[row // rows, :-1] = values[:-1]

        upper, pivot = both[0, right:-2], both[0, -2]
        if pivot == 0:
            raise ArithmeticError(f"lu: the matrix is singular: column {k} has no pivot")
        multipliers = (a[below:, -2] / pivot)[:, None]
        a[below:, right:-2] -= multipliers * upper
        a[below:, j:right] = multipliers
        bsp.work(multipliers.size * (2 * upper.size + 1))
    part[:] = a[:, :-2]
    return order


def main(bsp: pybsp.BSP, n: int = 50, rows: int | None = None) -> Ints:
    """The order of the rows of a random matrix in P A, on a grid of so many rows (None: as square as can be)."""
    if n < 1:
        raise ValueError(f"lu: expected a size of at least 1, got {n}")
    if rows is not None and (rows < 1 or bsp.p % rows):
        raise ValueError(f"lu: expected rows of the grid that divide p = {bsp.p}, got {rows}")
    grid = grid_of(bsp, rows)
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
