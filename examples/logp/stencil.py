"""The heat equation on a ring of n points, by explicit (Jacobi) steps; the points are distributed in blocks.

In each step a processor sends its last point to the right, its first to the left, works on the points between while
those of its neighbours travel, and then on its two ends. Everybody sends to the right first, so that a processor is not
sent two messages at once. Nothing but its neighbours' messages holds a processor back: no barrier. So a
neighbour may be one step ahead, and a message says which step it is of.

Time: a step takes 2o + G + max(L, G + w) + e, with w steps for the points between and e for the ends, where every
message takes L ("latest") and the blocks are equal. Messages that come early save no more than that, and may cost a
gap where a neighbour's next message overtakes one that is waited for.

A neighbour's messages of two successive steps are submitted more than 2G apart, so with ceil(L/G) = 2 no more than one
from each side is in transit to a processor, and never more than two from each: no execution stalls where ceil(L/G) is
2, or at least 4.

Run it:

    mpiexec -n 4 python examples/logp/stencil.py --points 1000 --steps 50
    pybsp simulate -p 16 examples/logp/stencil.py
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import LogPMachine
from pybsp.logp import Processor

DIFFUSION = 0.3
FLOPS = 4  # a point; a flop takes a step


def time(machine: LogPMachine, n: int, steps: int) -> int:
    """Steps of the machine where every message takes L: exact where min(p, n) divides n, else at most that."""
    blocks = min(machine.p, n)
    largest = -(-n // blocks)
    if blocks == 1:
        return steps * FLOPS * n
    between, ends = FLOPS * max(largest - 2, 0), FLOPS * min(largest, 2)
    return steps * (2 * machine.o + machine.G + max(machine.L, machine.G + between) + ends)


def stencil(proc: Processor, block: NDArray[np.float64], blocks: int, steps: int) -> NDArray[np.float64]:
    """The block after so many steps.

    Args:
        block: this processor's points, at least one; they stay as they are.
        blocks: processors 0 to blocks - 1 take part, in this order around the ring; equal on all of them, as are steps.
    """
    right, left = (proc.pid + 1) % blocks, (proc.pid - 1) % blocks
    u = np.concatenate([block[-1:], block, block[:1]])  # with a halo: alone on the ring, it is its own neighbour
    arrived: dict[tuple[int, str], float] = {}  # the neighbours' points, by step and side
    for step in range(steps):
        if blocks > 1:
            proc.send(right, (step, "left", float(u[-2])))
            proc.send(left, (step, "right", float(u[1])))
        proc.compute(FLOPS * max(block.size - 2, 0))
        if blocks > 1:
            while (step, "left") not in arrived or (step, "right") not in arrived:
                of, side, value = proc.recv().payload
                arrived[of, side] = value
            u[0], u[-1] = arrived.pop((step, "left")), arrived.pop((step, "right"))
        else:
            u[0], u[-1] = u[-2], u[1]
        proc.compute(FLOPS * min(block.size, 2))
        u[1:-1] = advanced(u)
    return u[1:-1]


def advanced(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """All points that have two neighbours, a step later."""
    return (1 - 2 * DIFFUSION) * u[1:-1] + DIFFUSION * (u[:-2] + u[2:])


def initial(n: int) -> NDArray[np.float64]:
    """One hot point."""
    u = np.zeros(n)
    u[0] = 100.0
    return u


def sequential(n: int, steps: int) -> NDArray[np.float64]:
    """The same on one processor."""
    u = initial(n)
    for _ in range(steps):
        u = advanced(np.concatenate([u[-1:], u, u[:1]]))
    return u


def main(proc: Processor, n: int = 256, steps: int = 50) -> NDArray[np.float64] | None:
    """This processor's temperatures after so many steps; None where it has no points."""
    blocks = min(proc.p, n)
    if proc.pid >= blocks:
        return None
    own = slice(proc.pid * n // blocks, (proc.pid + 1) * n // blocks)
    block = stencil(proc, initial(n)[own], blocks, steps)
    if not np.array_equal(block, sequential(n, steps)[own]):
        raise ArithmeticError("stencil: differs from the sequential result")
    if proc.pid == 0:
        when = f"; done at step {proc.time}" if proc.timed else ""
        print(f"p = {proc.p}, {n} points, {steps} steps: agrees with the sequential result bit for bit")
        print(f"predicted: {time(proc.machine, n, steps)} steps{when}")
    return block


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The heat equation on a ring, in the LogP model.")
    parser.add_argument("--points", type=int, default=256, help="points of the ring (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="time steps (default: %(default)s)")
    options = parser.parse_args()
    pybsp.logp.run(main, n=options.points, steps=options.steps)
