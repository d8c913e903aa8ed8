"""Matrix-vector product and dot product: y = A x and x . y, for a dense n * n matrix A (the Hilbert matrix).

A is distributed by block rows, vectors in blocks alike. (R. H. Bisseling, Parallel Scientific Computation, sections 1.3
and 4.3, of which this is the one-dimensional case.)

Supersteps, where p > 1 (a collective takes none on one processor):

    matvec      all get all blocks of x: h = (p - 1) * ceil(n/p); the product with the whole of x,
                w = 2 * ceil(n/p) * n, is the work of the superstep that follows
    dot         w = 2 * ceil(n/p); all get the sum of the partial ones: `collectives.allreduce.cost` of a number
    check       all blocks of y go to processor 0: h = n less its own block

Run it:

    mpiexec -n 4 python examples/linear_algebra.py
    pybsp run -n 4 examples/linear_algebra.py --size 4000
    pybsp simulate -p 64 examples/linear_algebra.py
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Block

Vector = NDArray[np.float64]


class Products(NamedTuple):
    """What each processor returns: its block of A x, and x . A x, which is equal bit for bit on all."""

    y: Vector
    dot: float


def main(bsp: pybsp.BSP, n: int = 1000) -> Products:
    """A x and x . A x for the Hilbert matrix and x = (1, 1/2, ... 1/n)."""
    mine = np.arange(n)[Block(n, bsp.p).part(bsp.pid)]
    x = 1 / (mine + 1)
    y = matrix_vector(bsp, hilbert(mine, n), x)
    product = dot(bsp, x, y)

    with bsp.label("check"):
        whole_y = collectives.gather_blocks(bsp, y)
    if whole_y is not None:
        check(n, whole_y[0], product)
        print(f"p = {bsp.p}, n = {n}: x . A x = {product:.12f}")
        print("agrees with numpy")
    return Products(y, product)


def matrix_vector(bsp: pybsp.BSP, a: Vector, x: Vector) -> Vector:
    """This processor's block of A x, of its rows of A and its block of x."""
    with bsp.label("matvec"):
        whole_x, _ = collectives.allgather_blocks(bsp, x)
    bsp.work(2 * a.size)
    return np.asarray(a @ whole_x)


def dot(bsp: pybsp.BSP, x: Vector, y: Vector) -> float:
    """x . y, of this processor's blocks of both."""
    bsp.work(2 * x.size)
    with bsp.label("dot"):
        return float(collectives.allreduce(bsp, x @ y, np.add))


def hilbert(rows: NDArray[np.intp], n: int) -> Vector:
    """Those rows of the Hilbert matrix, 1 / (i + j + 1) for i, j from 0."""
    return np.asarray(1 / (rows[:, None] + np.arange(n) + 1))


def check(n: int, y: Vector, product: float) -> None:
    """Compare with numpy on one processor; sums are rounded differently, so not bit for bit."""
    x = 1 / (np.arange(n) + 1)
    expected = hilbert(np.arange(n), n) @ x
    if not (np.allclose(y, expected, rtol=1e-12, atol=0) and np.isclose(product, x @ expected, rtol=1e-12, atol=0)):
        raise ArithmeticError(f"linear_algebra: differs from numpy: x . A x = {product}, expected {x @ expected}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A dense matrix-vector product and a dot product.")
    parser.add_argument("--size", type=int, default=1000, help="rows of the matrix (default: %(default)s)")
    options = parser.parse_args()
    pybsp.run(main, n=options.size)
