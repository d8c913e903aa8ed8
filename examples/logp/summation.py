"""Optimal summation (Karp, Sahay, Santos, Schauser: *Optimal broadcast and summation in the LogP model*, 1993).

The broadcast's tree backwards in time: a processor adds numbers of its own until the sum of another arrives, adds it,
and goes on; its own sum leaves when it is due. An addition takes a step. Adding a sum that arrived takes o + 1, so a
processor takes one every max(G, o + 1) steps at most, the last of them in its last o + 1 steps. One that must be done
at t thus has its last child done at t - (2o + L + 1), the one before max(G, o + 1) earlier, and so on. Of all these
the p with the latest deadlines t_0 = T, t_1, ... are used. A processor that has k children adds t_i - k(o + 1) of
its own; all together sum

    n(T) = T + 1 + sum over i = 1..p-1 of max(0, t_i - o)

numbers, since processor i brings t_i + 1 and costs its parent o + 1. That is the most possible. A message has always
arrived when its receiver asks for it, so every execution takes exactly T steps; and as the messages for one processor
are submitted at least G apart, none stalls. The order of arrival is not the same in all: the addition has to commute.

Run it:

    mpiexec -n 4 python examples/logp/summation.py --items 1000
    pybsp simulate -p 16 examples/logp/summation.py
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import pybsp
from pybsp import LogPMachine
from pybsp.logp import Processor


class Part(NamedTuple):
    """What one processor does of a summation.

    items: range of the numbers that are its own.
    due: when its sum is complete, in steps.
    children: how many other processors' sums it adds.
    parent: to whom its sum goes; None at the root, and where a processor has nothing to do.
    """

    items: range
    due: int
    children: int
    parent: int | None


def period(machine: LogPMachine) -> int:
    """Steps between two acquisitions, each with an addition behind it."""
    return max(machine.G, machine.o + 1)


@lru_cache(maxsize=16)
def tree(machine: LogPMachine) -> tuple[list[int], list[int]]:
    """How long before the end each processor's sum is due, in ascending order; and its parent (0 for the root)."""
    hop = 2 * machine.o + machine.L + 1
    early, parents = [0], [0]
    free = [(hop, 0)]
    for new in range(1, machine.p):
        before, parent = heapq.heappop(free)
        early.append(before)
        parents.append(parent)
        heapq.heappush(free, (before + period(machine), parent))
        heapq.heappush(free, (before + hop, new))
    return early, parents


def most(machine: LogPMachine, steps: int) -> int:
    """The most numbers that can be summed in so many steps."""
    early, _ = tree(machine)
    return steps + 1 + sum(max(0, steps - before - machine.o) for before in early[1:])


def time(machine: LogPMachine, n: int) -> int:
    """The fewest steps in which n numbers can be summed, by bisection."""
    low, high = 0, max(n - 1, 0)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if most(machine, middle) >= n else (middle + 1, high)
    return low


@lru_cache(maxsize=16)
def parts(machine: LogPMachine, n: int) -> list[Part]:
    """What each processor does, to sum n numbers."""
    steps = time(machine, n)
    early, parents = tree(machine)
    due = [steps - before for before in early]
    active = [pid == 0 or due[pid] > machine.o for pid in range(machine.p)]  # a sum of fewer is not worth its overhead
    children = [0] * machine.p
    for pid in range(1, machine.p):
        children[parents[pid]] += active[pid]
    spare = most(machine, steps) - n  # fewer than are active: one less for some of them
    planned, first = [], 0
    for pid in range(machine.p):
        count = 0
        if active[pid]:
            count = due[pid] - children[pid] * (machine.o + 1) + 1 - (pid < spare)
        planned.append(
            Part(
                items=range(first, first + count),
                due=due[pid],
                children=children[pid],
                parent=parents[pid] if active[pid] and pid > 0 else None,
            )
        )
        first += count
    return planned


def summation(proc: Processor, n: int, numbers: Callable[[range], Sequence[int]]) -> int | None:
    """The sum of n numbers, on processor 0; None elsewhere.

    Args:
        n: how many; equal on all processors.
        numbers: gives those of a range within 0..n-1. Each processor asks for its own only.
    """
    machine, part = proc.machine, parts(proc.machine, n)[proc.pid]
    if proc.pid > 0 and part.parent is None:
        return None
    total = sum(numbers(part.items))
    if part.children == 0:
        proc.compute(part.due)
    for child in range(part.children):
        # Numbers of its own, until the next sum has arrived; the last has when o + 1 steps are left.
        until = part.due - (machine.o + 1) - (part.children - 1 - child) * period(machine)
        between = until if child == 0 else period(machine) - (machine.o + 1)
        proc.compute(between)
        total += proc.recv().payload
        proc.compute(1)
    if part.parent is None:
        return total
    proc.send(part.parent, total)
    return None


def squares(items: range) -> list[int]:
    """The numbers that `main` adds."""
    return [item * item for item in items]


def main(proc: Processor, n: int = 1000) -> int | None:
    """Sum the squares of 0..n-1."""
    total = summation(proc, n, squares)
    if total is None:
        return None
    if total != sum(squares(range(n))):
        raise ArithmeticError("summation: differs from the sequential result")
    when = f"; complete at step {proc.time}" if proc.timed else ""
    print(f"p = {proc.p}: {n} squares, sum {total}, agrees with the sequential result")
    print(f"predicted: {time(proc.machine, n)} steps{when}")
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Optimal summation in the LogP model.")
    parser.add_argument("--items", type=int, default=1000, help="numbers to add (default: %(default)s)")
    pybsp.logp.run(main, n=parser.parse_args().items)
