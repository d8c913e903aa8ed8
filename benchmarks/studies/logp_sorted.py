"""Theorem 2 of *BSP vs LogP*, by count: supersteps on simulated LogP machines, routed by `logp-sorted`'s algorithm.

    python -m pybsp.benchmarks.studies.logp_sorted [--most 64] [--schedule latest]

A superstep is local work, the synchronisation of Proposition 2, and the routing of section 4.2. For every p, over all
machines, relations and degrees: the largest share that it took of what formula (2) allows; and over w + (max(G, 2o)h +
L) S(L, G, p, h), with the depth of the network for log p in S, which is the constant of Theorem 2, and so with the
paper's own S, read in several ways; and, where the first is largest, T_sort over the time of one exchange, beside what
the paper's own sorting schemes would take: the AKS network with its known constant, and Cubesort with 1 for its unknown
one. Nothing stalls, or the script fails.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp import LogPMachine
from pybsp.benchmarks.studies.theory.sorting_bounds import aks_time, cubesort_time
from pybsp.logp import Processor, simulate
from pybsp.logp.schedule import SCHEDULES
from pybsp.routing.logp.combine_broadcast import combine_broadcast
from pybsp.routing.logp.phases import Phases, period
from pybsp.routing.logp.sorted import degrees, route_sorted, slowdown, superstep_bound
from pybsp.routing.logp.sorting import choose
from pybsp.routing.logp.sorting.steps import sequential

from .frame import Study, heads, table

Ints = NDArray[np.int64]
Pairs = tuple[Ints, Ints]  # sources, destinations

LIMIT = 8.0  # what the constant of Theorem 2 is below, for every point of the grid
PROCESSORS = (2, 3, 5, 8, 13, 16, 31, 32, 61, 64)
# (L, o, G): ceil(L/G) = 1, 1, 1, 2, 3, 4, 8, 16, 50; overheads of none, below half a gap, and up to a gap.
PARAMETERS = (
    (4, 0, 4), (4, 4, 4), (40, 20, 40), (8, 3, 4), (12, 1, 4),
    (16, 1, 4), (64, 5, 8), (32, 2, 2), (1000, 10, 20),
)  # fmt: skip


# Sources and destinations of messages, by p, h and what is drawn.
RELATIONS: dict[str, Callable[[int, int, np.random.Generator], Pairs]] = {
    # Each processor sends h messages to random others.
    "uniform": lambda p, h, rng: (np.repeat(np.arange(p), h), rng.integers(0, p, p * h)),
    # h permutations on top of each other: an h-relation with nothing to spare.
    "permutations": lambda p, h, rng: (
        np.repeat(np.arange(p), h),
        rng.permuted(np.tile(np.arange(p), (h, 1)), axis=1).T.ravel(),
    ),
    # For processor 0, in equal parts of all; of the last processor, in equal parts for all.
    "all_to_one": lambda p, h, _: (np.arange(h) % p, np.zeros(h, np.int64)),
    "one_to_all": lambda p, h, _: (np.full(h, p - 1), np.arange(h) % p),
    # From 0 to h messages of each processor, for a third of them.
    "unbalanced": lambda p, h, rng: (
        np.repeat(np.arange(p), sent := rng.integers(0, h + 1, p)),
        rng.integers(0, (p + 2) // 3, sent.sum()),
    ),
}


class Point(NamedTuple):
    """A superstep: times in steps, from the last joining of the synchronisation."""

    p: int
    parameters: tuple[int, int, int]
    relation: str
    h: int
    plan: str
    superstep: int  # its time, with the work
    share: float  # of what formula (2) and Proposition 2 allow
    constant: float  # of Theorem 2
    of_paper: dict[str, float]  # so, with the paper's S
    sort: float  # T_sort over the time of exchanging r messages once; and the same of the paper's schemes
    aks: float
    cubesort: float


def superstep(proc: Processor, packets: list[list[tuple[int, int]]], work: list[int]) -> int:
    """A BSP superstep; returns how many messages came."""
    phases = Phases(proc)
    proc.compute(work[proc.pid])
    combine_broadcast(phases, True, lambda first, second: first and second)
    return len(route_sorted(phases, packets[proc.pid]))


def measure(
    machine: LogPMachine, relation: Pairs, name: str, work: list[int], schedule: str = "latest", seed: int = 0
) -> Point:
    """Simulate a superstep, in which nobody may stall, and no message be lost or beyond the capacity."""
    p = machine.p
    packets: list[list[tuple[int, int]]] = [[] for _ in range(p)]
    for number, (source, dest) in enumerate(zip(*(ends.tolist() for ends in relation), strict=True)):
        packets[source].append((dest, number))
    run = simulate(superstep, machine=machine, schedule=schedule, seed=seed, args=(packets, work))
    assert run.stalled == 0
    assert run.max_in_transit <= machine.capacity
    assert run.results == np.bincount(relation[1], minlength=p).tolist()
    r, s = degrees(p, *relation)
    h, w = max(r, s), max(work)
    exchange = period(machine) * h + machine.L
    scheme = choose(machine, r)
    sorts = (scheme.time, aks_time, cubesort_time)
    return Point(
        p,
        (machine.L, machine.o, machine.G),
        name,
        h,
        scheme.name,
        run.time,
        run.time / superstep_bound(machine, w, r, s),
        run.time / (w + exchange * slowdown(machine, h)) if h else 0.0,
        {name: run.time / bound for name, bound in bounds_of_paper(machine, w, h).items()} if h else {},
        *(time(machine, r) / (period(machine) * r + machine.L) if r else 0.0 for time in sorts),
    )


def bounds_of_paper(machine: LogPMachine, w: int, h: int) -> dict[str, float]:
    """w + (Gh + L) S(L, G, p, h), as Theorem 2 has it, 1 for the constants of its O; p at least 2, h at least 1.

    And the same read in other ways: max(G, 2o) for G; S without its first term, that of waiting; without w.
    """
    logarithm, found = math.log2(machine.p), {}
    for gap, of_gap in ((machine.G, "G"), (period(machine), "max(G, 2o)")):
        step = gap * h + machine.L
        wait = machine.L * logarithm / (step * math.log2(1 + machine.capacity))
        cubesort = (math.log2(machine.p * h) / math.log2(h + 1)) ** 2 * max(
            1, math.ceil(sequential(h, machine.p) / step)
        )
        sort = min(logarithm, cubesort)
        found[of_gap] = w + step * (wait + sort)
        found[f"{of_gap}, no waiting"] = w + step * sort
        found[f"{of_gap}, no waiting, no w"] = step * sort
    return found


def sizes(p: int) -> list[int]:
    """Degrees: from 1 to two times p, and one at which columnsort of so many columns would apply, up to 150."""
    return sorted({1, 2, 4, 10, p // 2 or 1, p, 2 * p, min(2 * p * p, 150)})


def grid(p: int, schedule: str = "latest", seed: int = 0) -> Iterator[Point]:
    """All machines, relations and degrees for p processors."""
    rng = np.random.default_rng(p)
    for L, o, G in PARAMETERS:
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        for h in sizes(p):
            for name, relation in RELATIONS.items():
                work = rng.integers(0, L + 1, p).tolist()
                yield measure(machine, relation(p, h, rng), name, work, schedule, seed)


def main() -> None:
    """Measure, and print the table."""
    study = Study(__doc__)
    study.add_argument("--most", type=int, default=64, help="largest number of processors")
    study.add_argument("--schedule", choices=SCHEDULES, default="latest")
    study.add_argument("--seed", type=int, default=0, help="of the random schedule")
    options = study.begin()
    rows, readings, share, constant = [], [], 0.0, 0.0
    for p in study.each(p for p in PROCESSORS if p <= options.most):
        points = list(grid(p, options.schedule, options.seed))
        most = max(points, key=lambda point: point.constant)
        within = max(point.share for point in points)
        where = f"{most.parameters}, {most.h}, {most.relation}, {most.plan}"
        of_paper = {name: max(point.of_paper.get(name, 0.0) for point in points) for name in most.of_paper}
        rows.append((p, len(points), within, most.constant, of_paper["G"], most.sort, most.aks, most.cubesort, where))
        readings.append((p, *of_paper.values()))
        share, constant = max(share, within), max(constant, most.constant)
    head = (
        "p | supersteps | time / bound [.3f] | constant [.2f] | with log p [.2f] | sort [.1f] | AKS [.0f] | "
        "Cubesort [.1f] | where: (L, o, G), h, relation, plan"
    )
    study.show(
        table(f"Theorem 2: supersteps on LogP, schedule {options.schedule}", head, rows),
        f"largest time / bound {share:.3f}, largest constant {constant:.2f}",
        table("The constant with the paper's S, by how it is read", f"p | {heads(most.of_paper, '.2f')}", readings),
    )
    if share > 1 or constant >= LIMIT:
        sys.exit(f"beyond formula (2), or the constant not below {LIMIT:g}")


if __name__ == "__main__":
    main()
