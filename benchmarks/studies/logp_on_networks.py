"""LogP machines on networks: which L and G they have, with messages as packets (*BSP vs LogP*, section 5).

    python -m pybsp.benchmarks.studies.logp_on_networks [--quick] [--most 1024] [--json FILE]

The paper: the best stall-free LogP machine on a network has G* = c' gamma(p) and L* = c (gamma(p) + delta(p)). For G =
ceil(c' gamma), at least 2 (which the model wants), programs in which every processor sends a message every G steps, by
one permutation after the other, for three times as long as messages are on their way: random permutations, and a bad
one again and again. Besides, sorted routing (Theorem 2) of a random relation, whose processors send when messages have
come to them. L is the least from the longest delivery of the first two on with which all three run: no message takes
longer, and none stalls, or the script fails. c is L over gamma + delta, of Table 1 with constant 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pybsp import LogPMachine
from pybsp.errors import RoutingError
from pybsp.logp import Processor, simulate
from pybsp.routing import NetworkSchedule
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.sorted import route_sorted
from pybsp.routing.networks import Network, network

from .frame import Study
from .network_parameters import bad_relation

SORTED = 256  # processors, at most, of which sorted routing is simulated


class Case(NamedTuple):
    """A network, how packets go, and the factor c' that is asked for."""

    name: str
    p: tuple[int, ...]
    two_phase: bool
    factor: float


SQUARES, POWERS, CYCLES = (16, 64, 256, 1024), (16, 64, 256, 1024), (24, 64, 160, 384, 896)
CASES = (
    Case("2d-array", SQUARES, False, 0.5),
    Case("2d-array", SQUARES, False, 1.0),
    Case("hypercube", POWERS, False, 2.0),
    Case("hypercube", POWERS, True, 2.0),
    Case("butterfly", CYCLES, False, 1.0),
    Case("butterfly", CYCLES, True, 1.0),
    Case("butterfly", CYCLES, True, 2.0),
)


class Found(NamedTuple):
    """The machine on a network: random, bad, sorting are the longest deliveries; sorting None where it was not run."""

    p: int
    gamma: float
    delta: float
    G: int
    L: int
    random: int
    bad: int
    sorting: int | None


def stream(proc: Processor, permutations: np.ndarray, G: int) -> None:
    """A message every G steps, by one permutation after the other; then all that was sent here is received."""
    for k, dest in enumerate(permutations[:, proc.pid].tolist()):
        if proc.time < k * G:
            proc.compute(k * G - proc.time)
        if dest != proc.pid:
            proc.send(dest, k)
    here = permutations == proc.pid
    for _ in range(np.count_nonzero(here) - np.count_nonzero(here[:, proc.pid])):
        proc.recv()


def sort(proc: Processor, dests: np.ndarray) -> None:
    """A relation by sorted routing."""
    route_sorted(Phases(proc), [(int(dest), proc.pid) for dest in dests[proc.pid]])


def bad_permutation(net: Network) -> np.ndarray:
    """A permutation that is bad for greedy routing: on the square array its transpose."""
    if net.name.startswith("array"):
        side = math.isqrt(net.p)
        return np.arange(net.p).reshape(side, side).T.ravel()
    return bad_relation(net, 1).destinations


def measure(case: Case, p: int, seed: int) -> Found:
    """The machine of a network."""
    net = network(case.name, p)
    G = max(2, math.ceil(case.factor * net.gamma))
    rng = np.random.default_rng(seed)
    rounds = 6 + 3 * math.ceil((net.gamma + net.delta) / G)
    streams = np.array([rng.permutation(p) for _ in range(rounds)]), np.tile(bad_permutation(net), (rounds, 1))

    def longest(L: int, program: Any, *args: Any) -> int:
        schedule = NetworkSchedule(net, two_phase=case.two_phase, seed=seed)
        done = simulate(program, machine=LogPMachine(p=p, L=L, o=1, G=G), schedule=schedule, args=args)
        if done.stalled:
            raise SystemExit(f"{net} stalled, L = {L}, G = {G}")
        return int(schedule.steps.max(initial=0))

    random, bad = (longest(10 * rounds * p, stream, permutations, G) for permutations in streams)
    dests = rng.integers(p, size=(p, 2))

    def sorting_from(L: int) -> tuple[int, int]:
        """The least L from this one on with which no message is late, and the longest delivery."""
        try:
            return L, longest(L, sort, dests)
        except RoutingError:
            return sorting_from(L + 1)

    L, sorting = max(random, bad, G), None
    if p <= SORTED:
        L, sorting = sorting_from(L)
    for permutations in streams:
        longest(L, stream, permutations, G)
    return Found(p, net.gamma, net.delta, G, L, random, bad, sorting)


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    study = Study(__doc__, keep="--json", quick="p to 64, in seconds")
    study.add_argument("--most", type=int, default=1024, help="the largest p")
    options = study.begin(arguments)
    most = 64 if options.quick else options.most
    runs = [(case, p) for case in CASES for p in case.p if p <= most]
    found = [(case, measure(case, p, 1)) for case, p in study.each(runs)]
    study.rows(
        "machines",
        "LogP machines on networks; L is the longest delivery, c = L/(gamma + delta), c' = G/gamma",
        "network | routing | p | gamma [.1f] | delta [.1f] | G | L | c' [.2f] | c [.2f] | random | bad | sorting",
        [
            (
                *(case.name, "two phases" if case.two_phase else "greedy", *of[:5]),
                *(of.G / of.gamma, of.L / (of.gamma + of.delta), *of[5:]),
            )
            for case, of in found
        ],
    )
    study.end()


if __name__ == "__main__":
    main()
