"""A ring: every value goes once around, from each processor to the next, until all have seen all.

Each processor sends its own value to the right, and passes on what comes from the left, p - 1 messages in all.

Time: (p-1)(2o + L) where every message takes L ("latest"), at most that in any execution. Only one processor sends to
each, G steps apart at least, so that no more than ceil(L/G) are ever in transit and none stalls. Messages may overtake
each other, so that each says whose value it is. (All-to-all in staggered order takes 2o + L but once, yet p - 1
different partners.)

Run it:

    mpiexec -n 4 python examples/logp/ring.py
    pybsp simulate -p 16 examples/logp/ring.py
"""

from __future__ import annotations

from typing import Any

import pybsp
from pybsp import LogPMachine
from pybsp.logp import Processor


def time(machine: LogPMachine) -> int:
    """Steps until all have all values, where every message takes L."""
    return (machine.p - 1) * (2 * machine.o + machine.L)


def ring(proc: Processor, value: Any) -> list[Any]:
    """All processors' values, by pid."""
    values = [value] * proc.p
    right = (proc.pid + 1) % proc.p
    if proc.p > 1:
        proc.send(right, (proc.pid, value))
    for _ in range(proc.p - 1):
        owner, value = proc.recv().payload
        values[owner] = value
        if owner != right:  # it has come all the way around
            proc.send(right, (owner, value))
    return values


def main(proc: Processor) -> list[int]:
    """Collect the squares of all processor numbers."""
    squares = ring(proc, proc.pid**2)
    if squares != [pid**2 for pid in range(proc.p)]:
        raise ArithmeticError("ring: differs from the squares of the processors' numbers")
    if proc.pid == 0:
        when = f"; complete at step {proc.time}" if proc.timed else ""
        print(f"p = {proc.p}: what went around agrees with what was sent")
        print(f"predicted: {time(proc.machine)} steps{when}")
    return squares


if __name__ == "__main__":
    pybsp.logp.run(main)
