"""The heat equation on a square plate, by explicit (Jacobi) steps on an n * n grid whose top edge is hot.

The grid is cut into blocks, one a processor, as is cheapest on the machine (`ebsp.stencil_grid`); in each step every
processor gets the points around its block, by a pattern.

Supersteps:

    pattern     h = 0: the array is registered, and who needs which points of whom is settled once
    step        h = the edges that a block has in common with others: 2 * n between two others where blocks are of whole
                rows; the points, w = 6 * n * n / p, are the work of the superstep that follows. One superstep a step;
                `Pattern.cost` has it exactly
    gather      all blocks go to processor 0: h = n * n less its own block; none where p = 1

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


def main(bsp: pybsp.BSP, n: int = 128, steps: int = 100) -> Plate | None:
    """The n * n temperatures after that many steps, on processor 0."""
    layout = Block((n, n), ebsp.stencil_grid(bsp.machine, (n, n), flops=6, boundary=HOT))
    plate = bsp.array(layout)
    frame, points = layout.beside(bsp.pid)
    u = np.zeros(np.add(plate.local.shape, 2))  # this processor's block, in a frame of what lies around it
    u[0] = HOT * (layout.part(bsp.pid)[0].start == 0)
    views = u[1:-1, 1:-1], u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]

    with bsp.superstep("pattern"):
        edges = plate.global_pattern(points)
    for _ in range(steps):
        with bsp.superstep("step"):
            ticket = edges.get()
        u[frame] = ticket.value
        views[0][:] = plate.local[:] = advanced(*views)
        bsp.work(6 * plate.local.size)

    with bsp.label("gather"):
        blocks = collectives.gather(bsp, plate.local)
    if blocks is None:
        return None
    result = np.empty((n, n))
    for pid, part in enumerate(blocks):
        result[layout.part(pid)] = part
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
