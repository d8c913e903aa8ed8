"""The multibutterfly: expansion, how few rows must be active, stages, congestion; and where the protocol blocks.

    python -m pybsp.benchmarks.studies.multibutterfly [--quick] [--json FILE]

Everything is simulated and counted; only the times depend on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import pybsp
from pybsp.benchmarks.studies.theory.adversary import cases
from pybsp.benchmarks.studies.theory.expansion import least_d, least_delta, measure, repetitions
from pybsp.errors import RoutingError
from pybsp.routing.multibutterfly import (
    BlockedError,
    Lemmas,
    Multibutterfly,
    Parameters,
    h_bar,
    route,
    share,
)
from pybsp.routing.relation import Relation
from pybsp.routing.relations import bit_reversal, permutation, random_relation

from .frame import Study, cells, table

R = 8
D, L = 20, 32  # by the table of the smallest L, the least d at which this L does for every h
HS = (1, 2, 7, 64)
Row = list[Any]


class Section(NamedTuple):
    """A table."""

    title: str
    columns: str
    rows: list[Row]


def bounds(quick: bool) -> Section:
    """Fact 1, Lemma 1, Theorem 2: the paper's example."""
    alpha, beta, d, delta = 1 / (48 * math.e**2), 24.0, 40, 1 / 33
    rows: list[Row] = [
        ["Fact 1: d greater than", "40 will do", least_d(alpha, beta)],
        ["Lemma 1: 1/delta at most", "33", 1 / least_delta(beta, d, R)],
        ["L = 2/alpha", "", 2 / alpha],
        ["Theorem 2: Z at least", "", repetitions(delta, d, R)],
        ["h-bar for h = 64", "", h_bar(64, d, R)],
    ]
    title = "The paper's example: d = 40, alpha = 1/(48 e^2), beta = 24, R = 8, delta = 1/33"
    return Section(title, " | paper | here", rows)


def expansion(quick: bool) -> Section:
    """Splitters of random networks."""
    rows: list[Row] = []
    for N, c, part in ((16, 0, 4), (16, 0, 8), (1024, 0, 256), (1024, 0, 128), (1024, 0, 64), (1024, 3, 32)):
        alpha = 1 / part
        for d in (12, 16, 24, 40) if N > 16 else (12, 40):
            found = [
                measure(Multibutterfly(N, d, seed).splitter(c), alpha, R, 20 if quick else 60) for seed in range(3)
            ]
            beta, delta = min(one.beta for one in found), min(one.delta for one in found)
            lemma = max(least_delta(beta, d, R), 0.0)
            sets = "all" if found[0].exact else "sampled"
            rows.append([f"{N >> c} to {N >> c}", d, f"1/{part}", sets, beta, lemma, delta])
    columns = "splitter | d | alpha | sets | beta | delta by Lemma 1 | delta"
    return Section("Expansion and the neighbour property (R = 8), the least of 3 networks", columns, rows)


class Trial(NamedTuple):
    """A case: whether it was delivered, whether Lemmas 2 and 3 held, and the most of an S(x) left a stage on."""

    delivered: bool
    holds: bool
    decay: float


def trials(N: int, d: int, spacing: int, h: int, seeds: Iterable[int], parameters: Parameters) -> Iterator[Trial]:
    """All cases on some networks."""
    for seed in seeds:
        network = Multibutterfly(N, d, seed)
        for _, relation in cases(network, spacing, h, seed):
            lemmas = Lemmas()
            delivered = holds = True
            try:
                route(network, relation, spacing, parameters, lemmas)
            except BlockedError:
                delivered = False
            except RoutingError:
                holds = False
                delivered = arrives(network, relation, spacing, parameters)
            decay = max((share ** (1 / age) for age, share in enumerate(lemmas.decay) if age), default=0.0)
            yield Trial(delivered, holds and decay <= parameters.R / (32 * d), decay)


def arrives(network: Multibutterfly, relation: Relation, spacing: int, parameters: Parameters) -> bool:
    """Whether all is delivered, lemmas or not."""
    try:
        route(network, relation, spacing, parameters)
    except BlockedError:
        return False
    return True


OUTCOME = "cases | delivered | Lemmas 2 and 3 hold | largest share left a stage on"


def outcome(found: Sequence[Trial]) -> Row:
    """What OUTCOME names."""
    delivered, holds, decay = zip(*found, strict=True)
    return [len(found), sum(delivered), sum(holds), max(decay)]


def smallest(N: int, d: int, h: int, seeds: Iterable[int]) -> int:
    """The smallest L, a power of two, at which all is well, and at all larger ones that leave two ports; 0: none."""
    spacing = N // 2
    while spacing and all(found.delivered and found.holds for found in trials(N, d, spacing, h, seeds, Parameters(R))):
        spacing //= 2
    return 0 if spacing == N // 2 else max(2 * spacing, 1)


def spacings(quick: bool) -> Section:
    """The smallest L for each d."""
    rows: list[Row] = []
    for N in (256,) if quick else (1024,):
        for d in (8, 9, 10, 12, 16, 20, 24, 32, 40):
            found = [smallest(N, d, h, range(2 if quick else 4)) for h in HS]
            estimate = d / math.log(d / R) if d > R else math.inf
            rows.append([N, d, estimate, *(least or "none" for least in found)])
    columns = cells(("N", "d", "d / ln(d/R)", *(f"L, h = {h}" for h in HS)))
    title = "The smallest L (a power of two) at which every case is delivered, and Lemmas 2 (rho = R/(32 d)) and 3 hold"
    return Section(title, columns, rows)


def ends(quick: bool) -> Section:
    """From delivered to blocked as L falls; and what Z, Y and the order of the sides do to it."""
    rows: list[Row] = []
    N = 256
    for name, parameters in (
        ("Z = 200, Y = 3", Parameters(R)),
        ("Z = 1, Y = 3", Parameters(R, Z=1)),
        ("Z = 200, Y = 1", Parameters(R, Y=1)),
        ("Z = 1, Y = 1", Parameters(R, Z=1, Y=1)),
        ("Z = 200, Y = 3, lower after upper", Parameters(R, in_turn=True)),
        ("R = 16, Z = 200, Y = 3", Parameters(16)),
    ):
        d = 40 if parameters.R == 16 else D
        for spacing in (16, 32) if quick else (8, 16, 32, 64):
            found = [one for h in HS for one in trials(N, d, spacing, h, range(2), parameters)]
            rows.append([name, d, spacing, *outcome(found)])
    return Section(f"Cases delivered, by L and the parameters (N = {N})", f" | d | L | {OUTCOME}", rows)


def fresh(quick: bool) -> Section:
    """The d and L that were chosen on a few networks, on others."""
    N, seeds = (256, range(1000, 1004)) if quick else (1024, range(1000, 1020))
    rows = [[N, h, len(seeds), *outcome(list(trials(N, D, L, h, seeds, Parameters(R))))] for h in (1, 7, 64)]
    return Section(f"Networks that were not used to find d = {D} and L = {L}", f"N | h | networks | {OUTCOME}", rows)


def permutations(quick: bool) -> Section:
    """How often a random permutation blocks; and how often two messages to 2L outputs lack R edges of their own."""
    rows: list[Row] = []
    for N, seeds, times in ((256, 2, 100),) if quick else ((1024, 4, 500), (4096, 4, 150)):
        networks = [Multibutterfly(N, D, seed) for seed in range(1000, 1000 + seeds)]
        for spacing in (L, 2 * L):
            done = [
                arrives(network, permutation(N // spacing, 1, seed), spacing, Parameters(R))
                for network in networks
                for seed in range(times)
            ]
            outputs = 2 * spacing
            pairs = sum(math.comb(D, x) * math.comb(outputs - D, D - x) for x in range(D - R + 1, D + 1))
            estimate = N / outputs * pairs / math.comb(outputs, D)
            rows.append([N, spacing, len(done), len(done) - sum(done), estimate * len(done)])
    title = f"Random permutations, h = 1 (d = {D})"
    return Section(title, "N | L | permutations | blocked | estimate", rows)


def waiting(quick: bool) -> Section:
    """Messages that wait for some stages, since phase 1 has but one repetition; and what Y does for them."""
    rows: list[Row] = []
    N, h = (256, 16) if quick else (1024, 16)
    networks = [Multibutterfly(N, D, seed) for seed in range(3 if quick else 8)]
    for senders in (8,) if quick else (16, 24, 32):
        for Y in (1, 2, 3):
            stages, waited, decay = [], 0, 0.0
            for network in networks:
                lemmas = Lemmas()
                relation = gathered(N, senders, h, network.seed)
                try:
                    stages.append(route(network, relation, 1, Parameters(R, Z=1, Y=Y), lemmas).stages)
                except BlockedError:
                    continue
                ages = [(age, share) for age, share in enumerate(lemmas.decay) if age and share]
                waited = max([waited, *(age for age, _ in ages)])
                decay = max([decay, *(share ** (1 / age) for age, share in ages)])
            bound = N.bit_length() + (math.log2(N) / math.log2(1 / decay) if decay else 0)  # log N + 1 + ...
            found = [waited, decay, max(stages), bound] if stages else ["-"] * 4
            rows.append([N, senders, Y, len(networks), len(stages), *found])
    columns = "N | ports | Y | cases | delivered | stages waited | rho | stages | by Theorem 2"
    title = f"Z = 1: ports that send {h} messages each to the upper half (d = {D}); of the cases delivered the most"
    return Section(title, columns, rows)


def gathered(N: int, senders: int, h: int, seed: int) -> Relation:
    """Random ports send h packets each to a random port of the upper half."""
    rng = np.random.default_rng(seed)
    sources, destinations = rng.permutation(N)[:senders], rng.permutation(N // 2)[:senders]
    return Relation(np.repeat(sources, h), np.repeat(destinations, h), N)


def all_rows(quick: bool) -> Section:
    """All rows active: blocked; and L of them to a port."""
    rows: list[Row] = []
    for N in (64, 256) if quick else (64, 256, 1024):
        network = Multibutterfly(N, D, 0)
        for name, relation in (
            ("random permutation", permutation(N)),
            ("random 4-relation", random_relation(N, 4)),
            ("bit reversal, 4 times", bit_reversal(N, 4)),
        ):
            try:
                alone: Any = f"{route(network, relation).stages} stages"
            except BlockedError as error:
                alone = f"blocked: {error.left} of {len(relation)} left"
            outcome = route(network, share(relation, L), L, lemmas=True)
            rows.append([N, name, alone, outcome.stages, int(outcome.through.max())])
    columns = f"N | relation | a port in every row | {L} rows to a port: stages | messages through a node"
    return Section(f"All rows send and receive (d = {D})", columns, rows)


def stages(quick: bool) -> Section:
    """Theorem 2 at the smallest L."""
    rows: list[Row] = []
    for N in (256, 1024) if quick else (64, 256, 1024, 4096, 16384):
        network = Multibutterfly(N, D, 0)
        for h in HS:
            of = []
            for _, relation in cases(network, L, h):
                lemmas = Lemmas(R / (32 * D))
                of.append((relation.h, route(network, relation, L, lemmas=lemmas), lemmas.worst))
            most = max(outcome.stages for _, outcome, _ in of)
            W = max(outcome.W / h for h, outcome, _ in of)
            through = max(int(outcome.through.max()) / h for h, outcome, _ in of)
            bar = max(h_bar(h, D, R) / h for h, _, _ in of)
            active = max(worst for _, _, worst in of)
            rows.append([N, h, len(of), most, most / network.n, W, bar, through, 2 * bar, active])
    columns = "N | h | cases | stages | / log N | W/h | h-bar/h | messages at a node / h | 2 h-bar/h | |S(x)|/|U|"
    title = (
        f"Stages, weights and congestion (d = {D}, L = {L}), the most of all cases; all lemmas checked at every stage"
    )
    return Section(title, columns, rows)


def times(quick: bool) -> Section:
    """How long the simulation takes."""
    rows: list[Row] = []
    for N, d in ((1024, 16),) if quick else ((4096, 16), (4096, 40)):
        begin = time.perf_counter()
        network = Multibutterfly(N, d, 0)
        network.inward  # noqa: B018
        built = time.perf_counter() - begin
        for name, relation in (
            ("random 64-relation of every 32nd row", random_relation(N // L, 64)),
            ("64 times a permutation of every 32nd row", permutation(N // L, 64)),
            ("random 64-relation of all rows, 32 to a port", share(random_relation(N, 64), L)),
            ("64 times a permutation of all rows, 32 to a port", share(permutation(N, 64), L)),
        ):
            for checked in (False, True):
                begin = time.perf_counter()
                route(network, relation, L, lemmas=checked)
                rows.append([N, d, name, len(relation), checked, built, time.perf_counter() - begin])
    columns = "N | d | relation | messages | lemmas checked | network (s) | routing (s)"
    return Section("Time", columns, rows)


def virtual(quick: bool) -> Section:
    """The router of virtual processors, which runs the protocol once for all of them."""
    rows: list[Row] = []
    for p in (16, 64) if quick else (64, 256):
        begin = time.process_time()
        simulation = pybsp.simulate(scattered, p=p, router="multibutterfly")
        rows.append([p, len(simulation.ledger), 1e3 * simulation.time, time.process_time() - begin])
    columns = "p | supersteps | virtual time (ms) | seconds"
    return Section("Supersteps in which each virtual processor sends two messages to random ones", columns, rows)


def scattered(bsp: pybsp.BSP) -> None:
    """Six supersteps."""
    draw = np.random.default_rng(bsp.pid)
    for _ in range(6):
        for dest in draw.integers(bsp.p, size=2).tolist():
            bsp.send(dest, 1.0)
        bsp.sync()


SECTIONS = (bounds, expansion, spacings, fresh, permutations, ends, waiting, all_rows, stages, times, virtual)


def cell(value: object) -> str:
    """A value as it is shown."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main(sections: Sequence[Callable[[bool], Section]] = SECTIONS, text: str | None = __doc__) -> None:
    """Make some of the tables, as the command line asks for."""
    study = Study(text, keep="--json", quick="smaller networks, fewer seeds")
    known = {section.__name__: section for section in sections}
    study.add_argument("--only", nargs="+", default=list(known), choices=known, help="these tables")
    options = study.begin()
    sections_shown = []
    for make in study.each(known[name] for name in known if name in options.only):
        section = make(options.quick)
        sections_shown.append(section)
        study.show(table(section.title, section.columns, (list(map(cell, row)) for row in section.rows)))
    study.end(sections_shown)


if __name__ == "__main__":
    main()
