"""LU decomposition with partial pivoting, P A = L U, of a dense matrix dealt out cyclically over a grid of processors.

(R. H. Bisseling, Parallel Scientific Computation, chapter 2.)

Supersteps of a step k, on a grid of R rows and C columns, for n * n items:

    pivot       the largest item of column k, w = ceil((n - k) / R): `collectives.allreduce.cost` of 2 words on R
                processors; none where R = 1
    column      the pivot's row and column k go along the rows of the grid: `collectives.broadcast.cost` of
                ceil((n - k) / R) + 1 words on C processors; none where C = 1
    rows        row k goes to the owners of row r, the pivot's, and row r down the columns, to be row k:
                h = (R - 1) * (ceil(n / C) + 1). Then the update,
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


def lu(bsp: pybsp.BSP, grid: pybsp.Grid, a: Matrix, n: int) -> Ints:
    """Write L and U over this processor's part of A; returns the order of A's rows in P A.

    Raises:
        ArithmeticError: A is singular; on all processors.
    """
    s, t = grid.column.pid, grid.row.pid
    order = np.arange(n)
    for k in range(n):
        # This processor's rows and columns from k on begin with these, and those behind k.
        i, j = -(-(k - s) // grid.rows), -(-(k - t) // grid.columns)
        below, right = -(-(k + 1 - s) // grid.rows), -(-(k + 1 - t) // grid.columns)
        has_column = t == k % grid.columns

        with bsp.label("pivot"):
            best = np.full(1, -1, complex)  # numpy compares size, the real part, then the row
            if has_column and i < len(a):
                sizes = np.abs(a[i:, j])
                place = int(sizes.argmax())
                best[0] = complex(sizes[place], -s - grid.rows * (i + place))
                bsp.work(sizes.size)
            best = collectives.allreduce(grid.column, best, np.maximum)
        with bsp.label("column"):
            column = np.concatenate((a[i:, j], -best.imag)) if has_column else None
            column = np.array(collectives.broadcast(grid.row, column, k % grid.columns))
        r = int(column[-1])
        order[[k, r]] = order[[r, k]]

        with bsp.superstep("rows"):
            if s == k % grid.rows:
                grid.column.send(r % grid.rows, np.concatenate((a[k // grid.rows], column[:1])), "to r")
            if s == r % grid.rows:
                here = r // grid.rows
                values = np.concatenate((a[here], column[here - i : here - i + 1]))
                for place in range(grid.rows):
                    grid.column.send(place, values, "to k")
        moved = {message.tag: message.payload for message in bsp.inbox}
        if s == r % grid.rows:
            a[here], column[here - i] = moved["to r"][:-1], moved["to r"][-1]
        if s == k % grid.rows:
            a[k // grid.rows] = moved["to k"][:-1]
        pivot, upper = moved["to k"][-1], moved["to k"][right:-1]
        if pivot == 0:
            raise ArithmeticError(f"lu: the matrix is singular: column {k} has no pivot")
        multipliers = column[below - i : -1] / pivot
        a[below:, right:] -= np.outer(multipliers, upper)
        if has_column:
            a[below:, j] = multipliers
        bsp.work(multipliers.size * (2 * (a.shape[1] - right) + 1))
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
