"""Matrix-vector product and dot product: y = A x and x . y, for a dense n * n matrix A (the Hilbert matrix).

A is distributed by block rows, vectors in blocks alike. (R. H. Bisseling, Parallel Scientific Computation, sections 1.3
and 4.3, of which this is the one-dimensional case.)

Supersteps:

    vector      registers x: h = 0
    matvec      each processor gets the other blocks of x: h = (p - 1) * ceil(n/p); the product with the whole of x,
                w = 2 * ceil(n/p) * n, is the work of the superstep that follows
    dot         w = 2 * ceil(n/p); each sends its partial sum to all: h = p - 1
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

Vector = NDArray[np.float64]


class Products(NamedTuple):
    """What each processor returns: its block of A x, and x . A x, which is equal bit for bit on all."""

    y: Vector
    dot: float


def main(bsp: pybsp.BSP, n: int = 1000) -> Products:
    """A x and x . A x for the Hilbert matrix and x = (1, 1/2, ... 1/n)."""
    mine = np.arange(bsp.pid * n // bsp.p, (bsp.pid + 1) * n // bsp.p)
    a = hilbert(mine, n)
    with bsp.superstep("vector"):
        x = bsp.array(mine.size)
        x.local[:] = 1 / (mine + 1)

    y = matrix_vector(bsp, a, x)
    product = dot(bsp, x.local, y)

    with bsp.superstep("check"):
        bsp.send(0, y)
    if bsp.pid == 0:
        whole_y = np.concatenate([message.payload for message in bsp.inbox])
        check(n, whole_y, product)
        print(f"p = {bsp.p}, n = {n}: x . A x = {product:.12f}")
        print("agrees with numpy")
    return Products(y, product)


def matrix_vector(bsp: pybsp.BSP, a: Vector, x: pybsp.Array) -> Vector:
    """This processor's block of A x, of its rows of A."""
    with bsp.superstep("matvec"):
        tickets = [x.get(source) for source in range(bsp.p)]
    whole_x = np.concatenate([ticket.value for ticket in tickets])
    bsp.work(2 * a.size)
    return np.asarray(a @ whole_x)


def dot(bsp: pybsp.BSP, x: Vector, y: Vector) -> float:
    """x . y, of this processor's blocks of both."""
    with bsp.superstep("dot"):
        partial = float(x @ y)
        bsp.work(2 * x.size)
        for dest in range(bsp.p):
            bsp.send(dest, partial)
    return float(sum(message.payload for message in bsp.inbox))


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
