"""Theorem 3 of *BSP vs LogP*: how often random batches fail, beside the bound; and the time, beside alpha*G*h.

    python -m pybsp.benchmarks.studies.logp_random [--runs 1000] [--simulated 50] [--plot FILE.png] [--output FILE.json]

Every processor sends and receives exactly h messages, the theorem's worst case. A sweep of beta: the share of runs in
which some X_r(j), or some Y_r(j), is above C = ceil(L/G) (messages are left for Step 3; a stall is possible), by what
the processors draw; and in which somebody did stall, simulated: of all runs under "latest", else of the first. A grid
of machines with the theorem's own beta. Beyond the theorem, h of at least p: batches with the beta that is chosen, and
with 1, beside sorting and what is expected of them (`--only large`). And what it takes to decompose a million messages.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from pybsp import LogPMachine
from pybsp.logp import Message, Processor, simulate
from pybsp.logp.schedule import SCHEDULES
from pybsp.routing import decompose
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.random import (
    batches_of,
    choose_beta,
    cost,
    expected_time,
    failure,
    rounds,
    route_random,
    theorem_beta,
    worst_case,
)
from pybsp.routing.logp.sorted import route_sorted

from .bsp_and_logp import shifted
from .frame import Study, heads, table

Ints = NDArray[np.int64]
Case = tuple[int, int, int, int, int]  # p, h, L, o, G
BETAS = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
# ceil(L/G) is 8, 16 and 20, which is 1.3, 2.7 and 3.3 times log p.
SWEPT: tuple[Case, ...] = ((64, 60, 32, 2, 4), (64, 60, 64, 2, 4), (64, 60, 80, 2, 4))
# (L, o, G): o = 0, o = G, G < 2o, and a G that does not divide L; ceil(L/G) from 4 to 64.
PARAMETERS = ((16, 1, 4), (32, 4, 4), (64, 0, 2), (64, 3, 4), (63, 5, 8), (128, 2, 8), (128, 2, 2))
PROCESSORS = (8, 16, 31, 64, 128, 256)


def balanced(p: int, h: int, seed: int = 0) -> Ints:
    """h from each processor, and h to each, none to itself: destinations, shape (p, h)."""
    return shifted(p, h, np.random.default_rng((p, h, seed)))


def program(proc: Processor, dests: Ints, seed: int, beta: float | None, expected: int | None) -> list[Message]:
    """All begin at time 0; `expected` None: they find out that all has come."""
    packets = [(dest, k) for k, dest in enumerate(dests[proc.pid].tolist())]
    start = proc.machine.o
    return route_random(Phases(proc), packets, dests.shape[1], expected=expected, beta=beta, seed=seed, start=start)


def drawn(dests: Ints, capacity: int, R: int, seed: int) -> tuple[bool, bool]:
    """Whether messages are left for Step 3, and whether a stall is possible, by what is drawn in the first phase."""
    p, h = dests.shape
    batches = np.stack([batches_of(seed, pid, 1, R, h) for pid in range(p)])
    sent = np.bincount((np.arange(p)[:, None] * R + batches).ravel(), minlength=p * R)
    received = np.bincount((dests * R + batches).ravel(), minlength=p * R)
    return bool(sent.max() > capacity), bool(received.max() > capacity)


class Swept(NamedTuple):
    """A row of the sweep: shares of the runs, and times over Gh."""

    beta: float
    R: int
    left_over: float
    possible: float
    either: float
    bound: float
    stalled: dict[str, float]  # by schedule: under "latest" of all runs, else of the first
    time: float  # of Step 2, over Gh
    longest: float  # of those simulated, with Step 3 and stalls
    alpha: float


def sweep(case: Case, runs: int, simulated: int) -> Iterator[Swept]:
    """All beta for (p, h, L, o, G); the counts must admit all executions."""
    p, h, L, o, G = case
    machine, relation = LogPMachine(p=p, L=L, o=o, G=G), balanced(p, h)
    for beta in BETAS:
        R = rounds(machine, h, beta)
        events = [drawn(relation, machine.capacity, R, seed) for seed in range(runs)]
        stalled = dict.fromkeys(SCHEDULES, 0)
        longest = 0
        for seed in range(runs):
            for schedule in SCHEDULES if seed < simulated else SCHEDULES[:1] if any(events[seed]) else ():
                sim = simulate(program, machine=machine, schedule=schedule, seed=seed, args=(relation, seed, beta, h))
                stalled[schedule] += sim.stalled > 0
                longest = max(longest, sim.time)
                if any(events[seed]):
                    assert sim.time <= worst_case(machine, h, beta)
                else:
                    assert (sim.stalled, sim.time) == (0, cost(machine, h, beta))
        left_over, possible, either = (sum(of) / runs for of in zip(*((*e, any(e)) for e in events), strict=True))
        bound = failure(machine, h, beta)
        of_runs = {name: count / (runs if name == "latest" else max(simulated, 1)) for name, count in stalled.items()}
        times = cost(machine, h, beta) / (G * h), longest / (G * h)
        yield Swept(beta, R, left_over, possible, either, bound, of_runs, *times, 4 * (1 + beta))


class Point(NamedTuple):
    """A point of the grid of Theorem 3."""

    p: int
    parameters: tuple[int, int, int]
    h: int
    c1: float  # ceil(L/G) / log2 p
    alpha: float
    time: float  # over Gh, at most of all schedules
    until_known: float  # and with the combine-and-broadcast that tells all that it has ended
    stalled: int
    share: float  # of alpha + 4, one round more than the theorem's: R is a whole number


def grid(most: int) -> Iterator[Point]:
    """The theorem's beta for c2 = 1; ceil(L/G) < h < p."""
    for p, (L, o, G) in product(PROCESSORS, PARAMETERS):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        C, alpha = machine.capacity, 4 * (1 + theorem_beta(machine))
        for h in sorted({h for h in (C + 1, 2 * C, p // 2, p - 1) if C < h < p and p * h <= most}):
            args = (balanced(p, h), 1, None)
            ended = [simulate(program, machine=machine, schedule=s, args=(*args, h)) for s in SCHEDULES]
            time = max(sim.time for sim in ended) / (G * h)
            until_known = simulate(program, machine=machine, args=(*args, None)).time / (G * h)
            stalled = max(sim.stalled for sim in ended)
            c1 = C / float(np.log2(p))
            yield Point(p, (L, o, G), h, c1, alpha, time, until_known, stalled, time / (alpha + 4))


def large(cases: Sequence[tuple[int, int, int]], G: int = 4, o: int = 1) -> Iterator[tuple[object, ...]]:
    """Relations of h >= p, by batches, which count h, and by sorting: random permutations; 8 messages of each to one.

    What is expected of the batches is without what counting takes.
    """
    for p, L, h in cases:
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        one = np.zeros((p, 8), np.int64)
        for name, dests, degree in (("permutations", balanced(p, h), h), ("to one", one, 8 * (p - 1))):

            def packets(proc: Processor, dests: Ints = dests) -> list[tuple[int, Any]]:
                return [(dest, 0) for dest in dests[proc.pid].tolist() if dest != proc.pid]

            sorting = simulate(lambda proc, of=packets: route_sorted(Phases(proc), of(proc)), machine=machine).time
            chosen = choose_beta(machine, degree, None, dests.shape[1])
            for beta in (None, 1.0) if chosen is not None else (None,):
                sim = simulate(
                    lambda proc, of=packets, beta=beta: route_random(Phases(proc), of(proc), beta=beta), machine=machine
                )
                used = chosen if beta is None else beta
                expected = 0 if used is None else expected_time(machine, degree, used)
                text = f"{beta:g}" if beta else "none: sorts" if used is None else f"none: {used:.2g}"
                yield name, p, L, degree, text, sim.time, sim.stalled, expected, sorting, sorting / sim.time


def decompositions(messages: int) -> Iterator[tuple[str, int, int, float]]:
    """A relation of so many messages, its p and h, and the seconds of computing that `decompose` takes."""
    rng = np.random.default_rng(1)
    for p in (2, 1000, messages // 10, messages // 3):
        ends = np.repeat(np.arange(p), messages // p)
        yield "each sends and receives h", *decomposed(rng.permutation(ends), rng.permutation(ends), p)
    for p in (1000, messages // 10):
        sources, destinations = rng.integers(0, p, (2, messages))
        yield "random", *decomposed(sources, destinations, p)
        hot = np.where(rng.random(messages) < 0.3, 5, destinations)
        yield "random, 30 % to one", *decomposed(sources, hot, p)


def decomposed(sources: Ints, destinations: Ints, p: int) -> tuple[int, int, float]:
    began = time.process_time()
    colours = decompose(sources, destinations, p)
    took = time.process_time() - began
    for ends in (sources, destinations):
        assert np.unique(colours * p + ends).size == colours.size
    return p, int(colours.max()) + 1, took


def sweep_table(case: Case, found: Sequence[Swept], runs: int, simulated: int) -> Table:
    p, h, L, o, G = case
    return table(
        f"p = {p}, h = {h}, L = {L}, o = {o}, G = {G}, C = ceil(L/G) = {-(-L // G)}: shares of {runs} runs; "
        f"stalled, by schedule: under latest of all, else of {simulated}",
        f"beta [g] | R | {heads(('left over', 'Y > C', 'either', 'bound', *SCHEDULES), '.3g')} | "
        f"{heads(('2(L+o)R/Gh', 'longest/Gh', 'alpha'), '.2f')}",
        ((*r[:6], *(r.stalled.get(s, 0.0) for s in SCHEDULES), *r[7:]) for r in found),
    )


def grid_table(points: Sequence[Point]) -> Table:
    rows = []
    for p in sorted({point.p for point in points}):
        mine = [point for point in points if point.p == p]
        worst = max(mine, key=lambda point: point.time / point.alpha)
        most = (worst.time / worst.alpha, max(point.share for point in mine))
        figures = (worst.c1, worst.alpha, worst.time, worst.until_known)
        stalled = sum(point.stalled > 0 for point in mine)
        rows.append((p, len(mine), stalled, *most, f"{worst.parameters}, {worst.h}", *figures))
    return table(
        "Theorem 3, beta for c2 = 1: time over Gh beside alpha, worst of each p",
        "p | points | stalled | time/(alpha Gh) [.3f] | time/((alpha+4)Gh) [.3f] | where: (L, o, G), h | "
        f"{heads(('c1', 'alpha', 'time/Gh', 'told/Gh'), '.2f')}",
        rows,
    )


def draw(pyplot: Any, found: dict[Case, list[Swept]], points: Sequence[Point]) -> Any:
    """Shares and bound against beta; time over Gh against alpha."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for (case, rows), colour in zip(found.items(), "bgr", strict=False):
        p, h, L, _, G = case
        betas = [row.beta for row in rows]
        left.plot(
            betas, [row.either or None for row in rows], colour + "o-", label=f"p = {p}, h = {h}, C = {-(-L // G)}"
        )
        left.plot(betas, [max(row.stalled.values(), default=0) or None for row in rows], colour + "x:")
        left.plot(betas, [min(row.bound, 1) for row in rows], colour + "--")
        right.plot([row.alpha for row in rows], [row.longest for row in rows], colour + "o-")
    for style, label in (("ko-", "more than C sent or received"), ("kx:", "stalled, worst schedule"), ("k--", "bound")):
        left.plot([], [], style, label=label)
    left.set(xlabel="beta", ylabel="share of runs", yscale="log", ylim=(1e-4, 1.5), title="Failures of the rounds")
    right.plot([point.alpha for point in points], [point.time for point in points], "k.", label="Theorem 3's beta")
    ends = [4, max(point.alpha for point in points)]
    right.plot(ends, ends, "k--", label="alpha")
    right.set(xlabel="alpha = 4(1+beta)", ylabel="time / Gh", xscale="log", yscale="log", title="Longest of all runs")
    return figure


def main() -> None:
    """Run the study; print the tables, keep and draw them."""
    study = Study(__doc__, keep="--output", plot="the curves")
    study.add_argument("--runs", type=int, default=1000, help="for each beta")
    study.add_argument("--simulated", type=int, default=50, help="of these, under each schedule but latest")
    study.add_argument("--most", type=int, default=1 << 14, help="messages of a point of the grid")
    study.add_argument("--only", choices=("large",), help="that table alone")
    study.add_argument("--messages", type=int, default=10**6, help="to decompose")
    options = study.begin()
    if not 0 <= options.simulated <= options.runs or options.runs < 1 or options.messages < 10:
        study.error("expected --runs of at least 1, --simulated of 0 to --runs, --messages of at least 10")
    study.results = {"runs": options.runs, "simulated": options.simulated}
    study.rows(
        "large",
        "h of at least p, counted; G = 4, o = 1: steps",
        "relation | p | L | h | beta | batches | stalled | expected | sorting | sorting/batches [.2f]",
        list(large(((16, 32, 64), (64, 32, 64), (64, 60, 64)))),
    )
    if options.only:
        study.end()
        return
    title = f"decompose, {options.messages:,} messages"
    study.rows("decompose", title, "relation | p | h | seconds [.2f]", list(decompositions(options.messages)))
    found: dict[Case, list[Swept]] = {}
    for case in study.each(SWEPT):
        found[case] = list(sweep(case, options.runs, options.simulated))
        study.show(sweep_table(case, found[case], options.runs, options.simulated))
    study.results["sweep"] = [{"case": case, "rows": of} for case, of in found.items()]
    points = list(grid(options.most))
    share = max(point.share for point in points)
    above = sum(point.time > point.alpha for point in points)
    study.tell(
        "grid",
        points,
        grid_table(points),
        f"{len(points)} points: largest time / (alpha + 4)Gh {share:.3f}; above alpha Gh: {above}",
    )
    study.end(draw=lambda pyplot: draw(pyplot, found, points))
    if share > 1:
        sys.exit("a point beyond the constant of Theorem 3")


if __name__ == "__main__":
    main()
