"""Optimal broadcast (Karp, Sahay, Santos, Schauser: *Optimal broadcast and summation in the LogP model*, 1993).

Every processor that has the value sends it on to ever new ones, one each gap, until all have it. A message that a
processor begins to prepare at t is acquired by t + 2o + L, so the k-th message of a processor informed at t informs
another at t + 2o + L + kG, k = 0, 1, ... The p smallest such times make the tree. It is the best possible: all that
have the value send all the time, to processors that do not have it. Each gets one message, so none stalls.

Time: `time(machine)` steps exactly where every message takes L ("latest"), at most that in any execution.

Run it:

    mpiexec -n 4 python examples/logp/broadcast.py
    pybsp simulate -p 16 examples/logp/broadcast.py
"""

from __future__ import annotations

import heapq
from functools import lru_cache
from typing import Any, NamedTuple

import pybsp
from pybsp import LogPMachine
from pybsp.logp import Processor


class Tree(NamedTuple):
    """Who informs whom; processors are numbered in the order in which they are informed.

    informed: when each has the value, in steps, at the latest.
    children: to whom each sends it, in this order.
    """

    informed: list[int]
    children: list[list[int]]


@lru_cache(maxsize=16)
def tree(machine: LogPMachine) -> Tree:
    """The optimal tree of p processors, in O(p log p)."""
    hop = 2 * machine.o + machine.L
    informed = [0]
    children: list[list[int]] = [[] for _ in range(machine.p)]
    free = [(hop, 0)]  # when the next message of each processor that has the value will inform another
    for new in range(1, machine.p):
        at, sender = heapq.heappop(free)
        informed.append(at)
        children[sender].append(new)
        heapq.heappush(free, (at + machine.G, sender))
        heapq.heappush(free, (at + hop, new))
    return Tree(informed, children)


def time(machine: LogPMachine) -> int:
    """Steps from the root's first until the last processor has the value."""
    return tree(machine).informed[-1]


def broadcast(proc: Processor, value: Any, root: int = 0) -> Any:
    """Give all processors the root's value; `value` is ignored elsewhere."""
    number = (proc.pid - root) % proc.p
    if number > 0:
        value = proc.recv().payload
    for child in tree(proc.machine).children[number]:
        proc.send((child + root) % proc.p, value)
    return value


def main(proc: Processor) -> str:
    """Broadcast a greeting of processor 0; the processor that hears it last says when."""
    heard: str = broadcast(proc, "hello" if proc.pid == 0 else None)
    if heard != "hello":
        raise ArithmeticError(f"broadcast: differs from the root's value: {heard!r}")
    if proc.pid == proc.p - 1:
        when = f"; the last heard at step {proc.time}" if proc.timed else ""
        print(f"p = {proc.p}: all agree with processor 0; predicted: {time(proc.machine)} steps{when}")
    return heard


if __name__ == "__main__":
    pybsp.logp.run(main)
