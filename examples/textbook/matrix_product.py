"""Product of dense matrices in 2.5 dimensions, C = A B: more copies of what is computed, fewer words sent.

The p = c * q * q processors are c layers of grids of q * q. A layer multiplies its share of A's columns with that of
B's rows; the layers' products are added up. Each item of A and B is on one processor before, and of C after, so that
replication is of the partial products: c of n * n items. c = 1 is the product on a grid, c = p^(1/3) the
three-dimensional one. (E. Solomonik and J. Demmel, Communication-optimal parallel 2.5D matrix multiplication and LU
factorization algorithms, 2011; W. F. McColl and A. Tiskin, Memory-efficient matrix multiplication in the BSP model,
1999.)

Supersteps, where the sizes divide, for b = n * n / p words of a processor:

    rows        A along rows: h = (q - 1) * b
    columns     B along columns: h = (q - 1) * b; then w = 2 * n^3 / p
    layers      the products are added up over the layers: h = (c - 1) * b, `collectives.reduce_scatter.cost` of
                n * n / q / q words on c processors

so that h = (2 * sqrt(p / c) + c - 3) * n * n / p in all: least for c = p^(1/3).

    check       the blocks go to processor 0: h = n * n less its own, and a few words for their places, as they are
                pickled together

Run it:

    mpiexec -n 4 python examples/textbook/matrix_product.py --layers 4
    pybsp simulate -p 64 examples/textbook/matrix_product.py --layers 4
"""

from __future__ import annotations

import argparse
from math import isqrt

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Block

Matrix = NDArray[np.float64]


class Layers:
    """c grids of q * q processors: processor (l * q + i) * q + j is in layer l, row i and column j.

    Attributes:
        row, column, pile: the groups of those that differ in j, in i, and in l alone.
    """

    def __init__(self, bsp: pybsp.BSP, c: int) -> None:
        q = self.q = isqrt(bsp.p // c) if c > 0 else 0
        if c * q * q != bsp.p:
            raise ValueError(f"matrix_product: expected layers * q * q = p = {bsp.p}, got layers = {c}")
        self.c, (self.l, self.i, self.j) = c, (int(k) for k in np.unravel_index(bsp.pid, (c, q, q)))
        self.row, self.pile = bsp.grid(c * q, q).row, bsp.grid(c, q * q).column
        self.column = bsp.group(range(self.l * q * q + self.j, (self.l + 1) * q * q, q)) if q > 1 else self.row


def parts_of(layers: Layers, n: int) -> tuple[tuple[slice, slice], tuple[slice, slice], tuple[slice, slice]]:
    """Which part of A, B and C this processor has: rows and columns of each."""
    (rows,), (columns,) = Block(n, layers.q).part(layers.i), Block(n, layers.q).part(layers.j)
    shares = Block(n, layers.c * layers.q)  # of A's columns and B's rows
    ((a_columns,), (b_rows,)) = (shares.part(layers.l * layers.q + k) for k in (layers.j, layers.i))
    (of_pile,) = Block(rows.stop - rows.start, layers.c).part(layers.l)
    c_rows = slice(rows.start + of_pile.start, rows.start + of_pile.stop)
    return (rows, a_columns), (b_rows, columns), (c_rows, columns)


def product(bsp: pybsp.BSP, layers: Layers, a: Matrix, b: Matrix) -> Matrix:
    """This processor's part of A B, of its parts of both."""
    with bsp.label("rows"):
        across, _ = collectives.allgather_blocks(layers.row, np.ascontiguousarray(a.T))
    with bsp.label("columns"):
        down, _ = collectives.allgather_blocks(layers.column, b)
    partial = across.T @ down
    bsp.work(2 * across.size * down.shape[1])
    with bsp.label("layers"):
        return np.asarray(collectives.reduce_scatter(layers.pile, partial, np.add))


def main(bsp: pybsp.BSP, n: int = 60, layers: int | None = None) -> Matrix | None:
    """The product of two random n * n matrices, on processor 0, by so many layers (None: as few as can be)."""
    if n < 1:
        raise ValueError(f"matrix_product: expected a size of at least 1, got {n}")
    if layers is None:
        layers = next(c for c in range(1, bsp.p + 1) if bsp.p % c == 0 and isqrt(bsp.p // c) ** 2 == bsp.p // c)
    places = Layers(bsp, layers)
    a, b = np.random.default_rng(n).normal(size=(2, n, n))
    of_a, of_b, of_c = parts_of(places, n)
    part = product(bsp, places, a[of_a], b[of_b])
    with bsp.label("check"):
        parts = collectives.gather(bsp, (of_c, part))
    if parts is None:
        return None
    found = np.full((n, n), np.nan)
    for index, piece in parts:
        found[index] = piece
    if not np.allclose(found, a @ b):
        raise ArithmeticError("matrix_product: differs from numpy's")
    print(f"p = {layers} * {places.q} * {places.q}, n = {n}: trace {np.trace(found):.9f}")
    print("agrees with numpy's")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Product of two random dense matrices.")
    parser.add_argument("--size", type=int, default=60, help="rows of the matrices (default: %(default)s)")
    parser.add_argument("--layers", type=int, help="layers of processors, each a square (default: fewest)")
    options = parser.parse_args()
    pybsp.run(main, n=options.size, layers=options.layers)
