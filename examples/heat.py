"""The heat equation on a square plate, by explicit (Jacobi) steps on an n * n grid whose top edge is hot.

The grid is cut into blocks, one a processor, as is cheapest on the machine (`ebsp.stencil_grid`); in each step
neighbours exchange the edges of their blocks.

Supersteps, where p > 1 (a collective takes none on one processor):

    step        h = the edges that a block has in common with others: 2 * n between two others where blocks are of whole
                rows; the points, w = 6 * n * n / p, are the work of the superstep that follows. One superstep a step;
                `ebsp.stencil.cost` has it exactly
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
from pybsp import collectives
from pybsp.collectives import ebsp
from pybsp.layouts import Block

Plate = NDArray[np.float64]  # of temperatures

DIFFUSION = 0.2  # k * dt / dx**2; the scheme is stable up to 0.25
HOT = 100.0
AROUND = HOT, 0.0, 0.0, 0.0  # what lies around the plate, in the north, south, west and east


def main(bsp: pybsp.BSP, n: int = 128, steps: int = 100) -> Plate | None:
    """The n * n temperatures after that many steps, on processor 0."""
    layout = ebsp.stencil_grid(bsp.machine, (n, n), flops=6, boundary=AROUND).layout((n, n))
    block = np.zeros(layout.local_shape(bsp.pid))
    with bsp.label("step"):
        block = ebsp.stencil(bsp, block, steps, (n, n), advanced, boundary=AROUND, flops=6)
    with bsp.label("gather"):
        result = collectives.redistribute(bsp, block, layout, Block((n, n), (1, 1)))
    if bsp.pid > 0:
        return None
    if not np.array_equal(result, sequential(n, steps)):
        raise ArithmeticError("heat: differs from the sequential result")
    print(f"p = {bsp.p}, {n} * {n} points, {steps} steps: mean temperature {result.mean():.6f}")
    print("agrees with the sequential result bit for bit")
    return result


def advanced(centre: Plate, north: Plate, south: Plate, west: Plate, east: Plate) -> Plate:
    """Points after a step, of them and their neighbours: 6 flops a point."""
    around = north + south + west + east
    return (1 - 4 * DIFFUSION) * centre + DIFFUSION * around


def sequential(n: int, steps: int) -> Plate:
    """The same on one processor."""
    u = np.zeros((n + 2, n + 2))
    u[0] = HOT
    for _ in range(steps):
        u[1:-1, 1:-1] = advanced(u[1:-1, 1:-1], u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:])
    return u[1:-1, 1:-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The heat equation on a square plate.")
    parser.add_argument("--size", type=int, default=128, help="grid points a side (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="time steps (default: %(default)s)")
    options = parser.parse_args()
    pybsp.run(main, n=options.size, steps=options.steps)
