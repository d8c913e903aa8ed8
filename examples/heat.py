"""The heat equation on a square plate, by explicit (Jacobi) steps on an n * n grid whose top edge is hot.

The rows are distributed in blocks. Above and below its block a processor has a halo: a copy of its neighbours' nearest
rows (at the ends, of the plate's edge), which they put there at the end of each step.

Supersteps:

    arrays      registers the grid: h = 0
    step        w = 6 * ceil(n/p) * n; h = 2 * n words, sent and received by a block between two others (0 for p = 1,
                n where there are two blocks); one superstep a step
    gather      all blocks go to processor 0: h = n * n less its own block

Run it:

    mpiexec -n 4 python examples/heat.py
    pybsp run -n 4 examples/heat.py --size 300 --steps 500
    pybsp simulate -p 64 examples/heat.py
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import pybsp

DIFFUSION = 0.2  # k * dt / dx**2; the scheme is stable up to 0.25
HOT = 100.0


def main(bsp: pybsp.BSP, n: int = 128, steps: int = 100) -> NDArray[np.float64] | None:
    """The n * n temperatures after that many steps, on processor 0."""
    blocks = min(bsp.p, n)  # processors beyond the rows own none
    rows = (bsp.pid + 1) * n // blocks - bsp.pid * n // blocks if bsp.pid < blocks else 0
    above = bsp.pid - 1 if 0 < bsp.pid < blocks else None
    below = bsp.pid + 1 if bsp.pid + 1 < blocks else None

    with bsp.superstep("arrays"):
        grid = bsp.array((rows + 2, n + 2))
        u = grid.local
        if bsp.pid == 0:
            u[0] = HOT

    for _ in range(steps):
        with bsp.superstep("step"):
            advance(u)
            bsp.work(6 * rows * n)
            if above is not None:
                grid.put(above, u[1, 1:-1], at=(-1, slice(1, n + 1)))
            if below is not None:
                grid.put(below, u[-2, 1:-1], at=(0, slice(1, n + 1)))

    with bsp.superstep("gather"):
        bsp.send(0, u[1:-1, 1:-1])
    if bsp.pid != 0:
        return None
    result = np.concatenate([message.payload for message in bsp.inbox])
    if not np.array_equal(result, sequential(n, steps)):
        raise ArithmeticError("heat: differs from the sequential result")
    print(f"p = {bsp.p}, {n} * {n} points, {steps} steps: mean temperature {result.mean():.6f}")
    print("agrees with the sequential result bit for bit")
    return result


def advance(u: NDArray[np.float64]) -> None:
    """One step of all points that have four neighbours: 6 flops a point."""
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    u[1:-1, 1:-1] = (1 - 4 * DIFFUSION) * u[1:-1, 1:-1] + DIFFUSION * around


def sequential(n: int, steps: int) -> NDArray[np.float64]:
    """The same on one processor."""
    u = np.zeros((n + 2, n + 2))
    u[0] = HOT
    for _ in range(steps):
        advance(u)
    return u[1:-1, 1:-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The heat equation on a square plate.")
    parser.add_argument("--size", type=int, default=128, help="grid points a side (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="time steps (default: %(default)s)")
    options = parser.parse_args()
    pybsp.run(main, n=options.size, steps=options.steps)
