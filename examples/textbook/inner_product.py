"""Inner product of two vectors in blocks: x . y for x = y = (1, 2, ... n), which is n (n + 1) (2 n + 1) / 6.

(R. H. Bisseling, Parallel Scientific Computation, section 1.3.)

Supersteps:

    inner       w = 2 * ceil(n/p), then `collectives.allreduce.cost` of a number; none on one processor

Run it:

    mpiexec -n 4 python examples/textbook/inner_product.py
    pybsp simulate -p 64 examples/textbook/inner_product.py --size 1000
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Block

Vector = NDArray[np.float64]


def inner_product(bsp: pybsp.BSP, x: Vector, y: Vector) -> float:
    """x . y on every processor, of this one's parts of both."""
    bsp.work(2 * x.size)
    return float(collectives.allreduce(bsp, x @ y, np.add))


def main(bsp: pybsp.BSP, n: int = 1000) -> float:
    """1 + 4 + ... + n * n, equal bit for bit on all processors."""
    if n < 0:
        raise ValueError(f"inner_product: expected a size of at least 0, got {n}")
    (mine,) = Block(n, bsp.p).part(bsp.pid)
    x = np.arange(1.0, n + 1)[mine]
    with bsp.label("inner"):
        found = inner_product(bsp, x, x)
    expected = n * (n + 1) * (2 * n + 1) // 6
    if not np.isclose(found, expected, rtol=1e-12):
        raise ArithmeticError(f"inner_product: got {found}, expected {expected}")
    if bsp.pid == 0:
        print(f"p = {bsp.p}, n = {n}: x . x = {found:.0f}")
        print("agrees with the sum in closed form")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Inner product of two vectors.")
    parser.add_argument("--size", type=int, default=1000, help="length of the vectors (default: %(default)s)")
    pybsp.run(main, n=parser.parse_args().size)
