"""Theorem 1 of *BSP vs LogP*, by the ledger: LogP programs on simulated BSP machines, over a grid of parameters.

    python -m pybsp.benchmarks.studies.logp_on_bsp [--most 64] [--most-stalling 16]

In steps, which are operations on the BSP machine. For every p, over all LogP machines, programs, and BSP machines with
g/G and l/L from 0 to 16: the ledger's time over its bound (`logp_on_bsp.seconds`); and the constant, over (1 + g/G +
l/L) T, T being the time of the LogP execution that was realised: with the end of the run (`logp_on_bsp.ending`) added
to T, and without it, where T is at least 10 times that. Of programs that stall the constant is over (1 + (l+g)/G depth)
T, the depth being that of the bitonic sorting network, and beside it over the paper's ((l+g)/G) log2 p T. Every trace
is checked against the model. The script fails where a bound or a constant is exceeded.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pybsp
from pybsp import BSPMachine, Ledger, LogPMachine
from pybsp.logp import Processor
from pybsp.routing import logp_on_bsp
from pybsp.routing.logp_on_bsp import ending

from .frame import Study, table

STALLING_LIMIT = 24.0  # what the constant for programs that stall is below, for every point of the grid
PROCESSORS = (2, 3, 5, 8, 13, 16, 32, 64)
# (L, o, G): ceil(L/G) = 1, 1, 2, 2, 3, 4, 8, 16, 32; L odd and even; overheads of none, and up to a gap.
PARAMETERS = (
    (4, 0, 4), (3, 3, 3), (5, 1, 4), (3, 0, 2), (7, 1, 3),
    (16, 4, 4), (64, 5, 8), (31, 2, 2), (256, 3, 8),
)  # fmt: skip
RATIOS = (0.0, 0.25, 1.0, 4.0, 16.0)  # of g/G and l/L
STALLING_RATIOS = ((0.25, 0.25), (1.0, 1.0), (1.0, 16.0), (16.0, 1.0))
LONG = 10  # times the end of the run


# -- programs -----------------------------------------------------------------------------------------------------


def computing(proc: Processor, steps: int) -> None:
    """Nothing is sent."""
    proc.compute(steps)


def ring(proc: Processor, steps: int) -> None:
    """A message goes to the next processor when one has come: bound by the latency."""
    while proc.time < steps:
        proc.send((proc.pid + 1) % proc.p, None)
        proc.recv()
    # Some have begun a round more than their neighbours.
    proc.send((proc.pid + 1) % proc.p, proc.time)
    while (message := proc.recv()) is not None and message.payload is None:
        pass


def stream(proc: Processor, steps: int) -> None:
    """A message every max{G, 2o} steps from and to each processor: bound by the gap, ceil(L/G) in transit to each."""
    period = max(proc.machine.G, 2 * proc.machine.o)
    left = rounds = max(1, steps // period)
    for number in range(rounds):
        proc.compute(number * period - proc.time)
        proc.send((proc.pid + 1 + number % (proc.p - 1)) % proc.p, None)
        left -= proc.recv(until=(number + 1) * period - proc.machine.o) is not None
    while left:
        proc.recv()
        left -= 1


def bursts(proc: Processor, steps: int) -> None:
    """In each cycle another processor is sent ceil(L/G) messages at once, or as many as p allows: the largest h."""
    p, o, cycle = proc.p, proc.machine.o, -(-proc.machine.L // 2)
    places = [1 + 2 * k for k in range(proc.machine.capacity) if 1 + 2 * k < p]  # a processor sends every other cycle
    cycles = max(p, steps // cycle)
    left = len(places) * sum(number % p == proc.pid for number in range(cycles))
    for number in range(cycles):
        if (proc.pid - number) % p in places:
            begin = number * cycle
            while left and proc.recv(until=begin - o) is not None:
                left -= 1
            proc.compute(max(begin - proc.time, 0))
            proc.send(number % p, None)
    while left:
        proc.recv()
        left -= 1


def to_one(proc: Processor, steps: int) -> None:
    """All send to one, as fast as they can: but for the first ceil(L/G), who sends stalls."""
    each = max(1, steps // (proc.machine.G * (proc.p - 1)))
    for _ in range(each):
        if proc.pid:
            proc.send(0, None)
    for _ in range(0 if proc.pid else each * (proc.p - 1)):
        proc.recv()


def to_some(proc: Processor, steps: int) -> None:
    """Each sends to a few of the others, who change: now and then some stall."""
    rounds = max(1, steps // max(proc.machine.G, 2 * proc.machine.o) // 2)
    few = max(1, proc.p // 4)

    def dest(pid: int, number: int) -> int:
        return (number * few + pid % few) % proc.p

    for number in range(rounds):
        if dest(proc.pid, number) != proc.pid:
            proc.send(dest(proc.pid, number), None)
    pairs = itertools.product(range(proc.p), range(rounds))
    for _ in range(sum(dest(pid, number) == proc.pid != pid for pid, number in pairs)):
        proc.recv()


STALL_FREE = (computing, ring, stream, bursts)
STALLING = (to_one, to_some, ring)
Program = Callable[[Processor, int], None]


# -- measurements -------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """One program on one BSP machine: the ledger's time."""

    where: str
    share: float  # over its bound
    constant: float  # over the theorem's expression, with the end of the run added to T
    alone: float = 0.0  # without it; 0 where T is not long enough
    paper: float = 0.0  # of programs that stall: over the paper's expression


def bsp_machine(p: int, g: float, l: float) -> BSPMachine:  # noqa: E741
    """A machine whose operation takes a step."""
    return BSPMachine(p=p, g=g, l=l, r=1.0)


def depth(p: int) -> int:
    """Of the bitonic sorting network."""
    levels = (p - 1).bit_length()
    return levels * (levels + 1) // 2


def points(p: int, L: int, o: int, G: int, program: Program, steps: int, stalls: bool) -> Iterator[Point]:
    """A program on all BSP machines.

    Without stalls all costs follow from the ledger of one run, as nothing depends on them. With stalls each machine has
    a run, as the sort's and the prefix's supersteps are chosen for it.
    """
    machine = LogPMachine(p, L, o, G)
    end = ending(machine, stalls)
    main = logp_on_bsp(program, machine, stalls=stalls, trace=True)

    @cache
    def realised(on: BSPMachine) -> tuple[Ledger, int]:
        ran = pybsp.simulate(main, steps, machine=on)
        execution = logp_on_bsp.execution(ran.results)
        execution._check()
        return ran.ledger, execution.time

    for of_g, of_l in STALLING_RATIOS if stalls else itertools.product(RATIOS, RATIOS):
        there = bsp_machine(p, of_g * G, of_l * L)
        ledger, took = realised(there if stalls else bsp_machine(p, 1, 1))
        time = sum(there.elapsed(record.work, record.h, record.messages) for record in ledger)
        rate = (there.l + there.g) / G
        expression = 1 + rate * depth(p) if stalls else 1 + of_g + of_l
        yield Point(
            f"{program.__name__}, (L, o, G) = {(L, o, G)}, g/G = {of_g:g}, l/L = {of_l:g}",
            time / logp_on_bsp.seconds(there, machine, took, stalls),
            time / (expression * (took + end)),
            time / (expression * took) if took >= LONG * end else 0.0,
            time / (rate * (p - 1).bit_length() * (took + end)) if stalls else 0.0,
        )


def grid(p: int, stalls: bool = False) -> Iterator[Point]:
    """All LogP machines and programs for p processors, short ones and long ones."""
    for L, o, G in PARAMETERS:
        end = ending(LogPMachine(p, L, o, G), stalls)
        programs = (
            itertools.product(STALLING, [3 * L + end]) if stalls else itertools.product(STALL_FREE, (L, LONG * end))
        )
        for program, steps in programs:
            yield from points(p, L, o, G, program, steps, stalls)


def show(study: Study, title: str, sizes: list[int], stalls: bool) -> Point:
    """Measure, and print a row for each p; returns the largest figures of all."""
    rows, largest = [], Point("", 0.0, 0.0)
    for p in study.each(sizes):
        found = list(grid(p, stalls))
        worst = max(found, key=lambda point: point.constant)
        most: list[Any] = [max(point[k] for point in found) for k in range(1, 5)]
        rows.append((p, len(found), most[0], *(value or None for value in most[1 : 4 if stalls else 3]), worst.where))
        largest = Point(worst.where, *(max(pair) for pair in zip(largest[1:], most, strict=True)))
    of_paper = " | of the paper's [.2f]" if stalls else ""
    study.show(
        table(title, f"p | runs | time / bound [.3f] | constant [.2f] | of T alone [.2f]{of_paper} | where", rows),
        f"largest time / bound {largest.share:.3f}, constant {largest.constant:.2f}, of T alone {largest.alone:.2f}\n",
    )
    return largest


def main() -> None:
    """Measure, and print the tables."""
    study = Study(__doc__)
    study.add_argument("--most", type=int, default=64, help="largest number of processors")
    study.add_argument("--most-stalling", type=int, default=16, help="likewise, for programs that stall")
    options = study.begin()
    one = show(study, "Theorem 1: stall-free programs", [p for p in PROCESSORS if p <= options.most], False)
    other = show(study, "Programs that stall", [p for p in PROCESSORS if p <= options.most_stalling], True)
    if max(one.share, other.share) > 1:
        sys.exit("beyond the bound")
    if max(one.constant, one.alone / (1 + 1 / LONG)) > logp_on_bsp.CONSTANT:
        sys.exit(f"the constant of Theorem 1 is above {logp_on_bsp.CONSTANT:g}")
    if other.constant > STALLING_LIMIT:
        sys.exit(f"the constant for programs that stall is above {STALLING_LIMIT:g}")


if __name__ == "__main__":
    main()
