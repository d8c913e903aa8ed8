"""Conjugate gradients with a sparse matrix in two dimensions: a 3-D Poisson problem, or one of a Matrix Market file.

The vectors are in blocks. Processor i * C + j of the R * C has the entries whose row is in a block of the processors of
row i of the grid, and whose column in one of column j: the fan-out of the vector stays within columns of the grid, the
fan-in of partial sums within rows, and both are patterns, settled once. (R. H. Bisseling, Parallel Scientific
Computation, section 4.3, with Cartesian distribution; M. R. Hestenes and E. Stiefel, 1952.)

Supersteps, for n rows and Z entries that a processor has, U and V the distinct rows and columns of them:

    entries     h <= 2 * (entries that a processor finds, or has): a place, in a word, and a value
    pattern     h = 0: the vectors are registered, and who needs what of whom is settled once
    product     2: h = what others need of a processor's block, `fan_out.cost(machine)`; and the partial sums for other
                processors, `fan_in.cost(machine, "put")`, of which w = 2 * Z; a processor gets at most V words in the
                first, and sends at most U in the second
    dot         w = 2 * n/p, then `collectives.allreduce.cost` of a number; two an iteration, and one before them, with
                w = 6 * n/p an iteration for the vectors
    check       the solution goes to processor 0: h = n less its own

Run it:

    mpiexec -n 4 python examples/textbook/sparse_cg.py --side 40
    mpiexec -n 4 python examples/textbook/sparse_cg.py --matrix some.mtx.gz
    python examples/textbook/graph.py --matrix packages.mtx  # that of a graph which is there: of packages here
    mpiexec -n 4 python examples/textbook/sparse_cg.py --matrix packages.mtx
    pybsp simulate -p 64 examples/textbook/sparse_cg.py
"""

from __future__ import annotations

import argparse
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy import io, sparse

import pybsp
from pybsp import collectives
from pybsp.layouts import Block

Vector = NDArray[np.float64]

ENTRY = np.dtype([("row", np.int32), ("column", np.int32), ("value", np.float64)])


class Matrix:
    """A sparse n * n matrix over the grid; made by all processors, of the entries that each one has found."""

    def __init__(self, bsp: pybsp.BSP, n: int, entries: NDArray[np.void]) -> None:
        self.bsp, self.layout = bsp, Block(n, bsp.p)
        queue = bsp.queue(ENTRY)
        with bsp.superstep("entries"):
            queue.send(owners(self.layout, entries), entries)
        rows, columns, self.local = compressed(queue.values)
        self.x, self.y = bsp.array(self.layout), bsp.array(self.layout)
        with bsp.superstep("pattern"):
            self.fan_out, self.fan_in = self.x.global_pattern(columns), self.y.global_pattern(rows)

    def product(self, x: Vector) -> Vector:
        """This processor's block of A x, of its block of x; it is there until the next product."""
        self.x.local[:], self.y.local[:] = x, 0
        with self.bsp.superstep("product"):
            needed = self.fan_out.get()
            self.bsp.sync()
            self.fan_in.put(self.local @ needed.value, np.add)
            self.bsp.work(2 * self.local.nnz)
        return self.y.local


def conjugate_gradients(a: Matrix, b: Vector, iterations: int, tolerance: float = 0.0) -> tuple[Vector, int]:
    """This processor's block of x, A x = b, and the iterations after which |b - A x| <= tolerance * |b|."""
    bsp, x, r, direction = a.bsp, np.zeros_like(b), b.copy(), b.copy()
    rho = first = dot(bsp, r, r)
    for k in range(iterations):
        if rho <= tolerance**2 * first:
            return x, k
        q = a.product(direction)
        alpha = rho / dot(bsp, direction, q)
        x += alpha * direction
        r -= alpha * q
        old, rho = rho, dot(bsp, r, r)
        direction *= rho / old
        direction += r
        bsp.work(6 * x.size)
    return x, iterations


def dot(bsp: pybsp.BSP, x: Vector, y: Vector) -> float:
    """x . y, equal on all processors."""
    bsp.work(2 * x.size)
    with bsp.label("dot"):
        return float(collectives.allreduce(bsp, x @ y, np.add))


def owners(layout: Block, entries: NDArray[np.void]) -> NDArray[np.intp]:
    """The processors of these entries of a matrix whose vectors are in blocks: a grid as square as can be."""
    columns = next(layout.p // rows for rows in range(isqrt(layout.p), 0, -1) if layout.p % rows == 0)
    row, column = layout.owner(entries["row"]), layout.owner(entries["column"])
    return np.asarray(row // columns * columns + column % columns)


def compressed(entries: NDArray[np.void]) -> tuple[NDArray[np.intp], NDArray[np.intp], sparse.csr_matrix]:
    """The distinct rows and columns of entries, and the matrix of these alone."""
    (rows, i), (columns, j) = (np.unique(entries[name], return_inverse=True) for name in ("row", "column"))
    matrix = sparse.csr_matrix((entries["value"], (i, j)), (rows.size, columns.size))
    return rows.astype(np.intp), columns.astype(np.intp), matrix


def poisson(side: int, rows: slice) -> NDArray[np.void]:
    """The entries in those rows of the 7-point Laplace operator on side * side * side points."""
    points = np.arange(rows.start, rows.stop)
    coordinates = np.unravel_index(points, (side,) * 3)
    found = [entries_of(points, points, 6.0)]
    for coordinate, step in zip(coordinates, (side * side, side, 1), strict=True):
        found.append(entries_of(points[coordinate > 0], points[coordinate > 0] - step, -1.0))
        found.append(entries_of(points[coordinate < side - 1], points[coordinate < side - 1] + step, -1.0))
    return np.concatenate(found)


def read(file: str) -> sparse.coo_array:
    """The real symmetric matrix in a Matrix Market file."""
    matrix = sparse.coo_array(io.mmread(file, spmatrix=False))
    n, columns = matrix.shape
    if np.iscomplexobj(matrix.data) or n == 0 or n != columns or (matrix != matrix.T).nnz:
        raise ValueError(
            f"sparse_cg: --matrix: expected a real symmetric matrix, got {matrix.dtype} of shape {matrix.shape}"
        )
    return matrix


def entries_of(rows: NDArray[np.intp], columns: NDArray[np.intp], values: float | Vector) -> NDArray[np.void]:
    entries = np.empty(rows.size, ENTRY)
    entries["row"], entries["column"], entries["value"] = rows, columns, values
    return entries


def main(
    bsp: pybsp.BSP, side: int = 8, matrix: str | None = None, iterations: int = 1000, tolerance: float = 1e-8
) -> Vector | None:
    """The solution of A x = b for a known x, on processor 0."""
    if side < 1:
        raise ValueError(f"sparse_cg: expected a side of at least 1 point, got {side}")
    n, entries = side**3, np.empty(0, ENTRY)
    if matrix is None:
        entries = poisson(side, Block(n, bsp.p).part(bsp.pid)[0])
    elif bsp.pid == 0:
        whole = read(matrix)
        n, entries = whole.shape[0], entries_of(whole.row, whole.col, whole.data)
    with bsp.label("size"):
        n = collectives.broadcast(bsp, n if bsp.pid == 0 else None)
    a = Matrix(bsp, n, entries)
    expected = np.cos(np.arange(n))
    b = a.product(expected[a.layout.part(bsp.pid)]).copy()
    x, taken = conjugate_gradients(a, b, iterations, tolerance)
    with bsp.label("check"):
        found = collectives.gather_blocks(bsp, x)
    if found is None:
        return None
    difference = np.linalg.norm(found[0] - expected) / np.linalg.norm(expected)
    if not difference < 1e4 * tolerance:
        raise ArithmeticError(f"sparse_cg: the solution differs by {difference:.1e} after {taken} iterations")
    print(f"p = {bsp.p}, {n} rows: {taken} iterations, difference {difference:.1e}")
    print("agrees with the solution that b was made of")
    return found[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Conjugate gradients for a sparse symmetric matrix.")
    parser.add_argument("--side", type=int, default=8, help="Poisson problem of SIDE^3 points (default: %(default)s)")
    parser.add_argument("--matrix", help="a symmetric positive definite matrix, in a Matrix Market file, instead")
    options = parser.parse_args()
    pybsp.run(main, side=options.side, matrix=options.matrix)
