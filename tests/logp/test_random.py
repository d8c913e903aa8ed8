"""A relation in random batches: within Theorem 3's time, and where the batches are too large still correct."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pybsp import LogPMachine
from pybsp.benchmarks.studies.logp_random import grid, sweep
from pybsp.errors import UsageError
from pybsp.logp import Message, Processor, simulate
from pybsp.routing.logp import random as theorem_3
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.random import (
    batches_of,
    cost,
    failure,
    round_length,
    rounds,
    route_random,
    theorem_beta,
    worst_case,
)
from pybsp.routing.logp.sorted import bound as sorted_bound
from pybsp.routing.logp.sorted import route_sorted, synchronisation_bound

from ..tiers import some

Ints = NDArray[np.int64]
SCHEDULES = ("latest", "earliest", "adversary", "random")
# Capacity 1 to 8; o = 0, o = G, G < 2o, and a G that does not divide L.
PARAMETERS = [(2, 0, 2), (8, 8, 8), (8, 1, 8), (8, 3, 4), (9, 4, 4), (10, 3, 4), (16, 0, 2), (16, 2, 2), (40, 5, 5)]


def relation(p: int, h: int, seed: int = 0) -> list[list[tuple[int, Any]]]:
    """The packets of each processor: h from and h to each, none to itself."""
    rng = np.random.default_rng((p, h, seed))
    # Shifts by 1 to p - 1, renamed.
    name = rng.permutation(p)
    packets: list[list[tuple[int, Any]]] = [[] for _ in range(p)]
    for k in range(h):
        shift = int(rng.integers(1, p))
        for pid in range(p):
            packets[name[pid]].append((int(name[(pid + shift) % p]), k))
    return packets


def delivered(results: list[list[Message]]) -> list[tuple[int, int, Any]]:
    return sorted((m.source, pid, m.payload) for pid, received in enumerate(results) for m in received)


def expected_messages(packets: list[list[tuple[int, Any]]]) -> list[tuple[int, int, Any]]:
    return sorted((pid, dest, payload) for pid, own in enumerate(packets) for dest, payload in own)


def alone(
    proc: Processor, packets: list[list[tuple[int, Any]]], h: int, beta: float | None, seed: int
) -> list[Message]:
    """Steps 1 to 3 alone: all begin at time 0, and know how much they will receive."""
    expected = sum(dest == proc.pid for own in packets for dest, _ in own)
    return route_random(
        Phases(proc), packets[proc.pid], h, expected=expected, beta=beta, seed=seed, start=proc.machine.o
    )


def too_many(packets: list[list[tuple[int, Any]]], machine: LogPMachine, R: int, seed: int) -> tuple[bool, bool]:
    """Whether some X_r(j), some Y_r(j) is above ceil(L/G), by the batches that `alone` draws."""
    sent, received = np.zeros((2, machine.p, R), np.int64)
    for pid, own in enumerate(packets):
        batch = batches_of(seed, pid, 1, R, len(own))
        np.add.at(sent[pid], batch, 1)
        np.add.at(received, (np.array([dest for dest, _ in own]), batch), 1)
    return bool((sent > machine.capacity).any()), bool((received > machine.capacity).any())


@pytest.mark.parametrize(("L", "o", "G"), PARAMETERS)
@pytest.mark.parametrize("beta", [None, 0.05, 1.0])
def test_nobody_stalls_unless_a_round_brings_a_processor_too_much(L: int, o: int, G: int, beta: float | None) -> None:
    seen = set()
    for p in (11, 16):
        machine = LogPMachine(p, L, o, G)
        for h in (machine.capacity + 1, p - 1):
            packets = relation(p, h)
            R = rounds(machine, h, theorem_beta(machine) if beta is None else beta)
            many = too_many(packets, machine, R, 7) if R < 10**5 else (False, False)
            for schedule in SCHEDULES:
                sim = simulate(alone, machine=machine, schedule=schedule, args=(packets, h, beta, 7))
                sim._check()
                assert delivered(sim.results) == expected_messages(packets)
                assert sim.time <= worst_case(machine, h, beta)
                if not any(many):
                    assert sim.stalled == 0
                    assert sim.time == cost(machine, h, beta) == R * 2 * (L + o)
                seen.add((*many, sim.stalled > 0))
    assert beta is None or any(many for *many, _ in seen)
    assert (False, False, True) not in seen


@pytest.mark.parametrize(("L", "o", "G"), [(64, 4, 4), (30, 0, 2), (60, 4, 4), (128, 8, 8)])
@pytest.mark.parametrize(("p", "h"), [(24, 17), (31, 30), (64, 40)])
def test_theorem_3(L: int, o: int, G: int, p: int, h: int) -> None:
    machine = LogPMachine(p, L, o, G)
    assert machine.capacity < h < p
    alpha = 4 * (1 + theorem_beta(machine))
    assert failure(machine, h, theorem_beta(machine)) <= 1 / p
    packets = relation(p, h)
    sim = simulate(alone, machine=machine, schedule="adversary", args=(packets, h, None, 1))
    assert sim.stalled == 0
    assert sim.time <= (alpha + 4) * G * h


def test_theorem_3_over_a_grid_of_machines() -> None:
    points = list(grid(most=450))
    assert len({(point.p, *point.parameters) for point in points}) > 5
    for point in points:
        assert point.share <= 1
        assert point.time <= point.until_known


@pytest.mark.whole
def test_counting_the_draws_says_what_the_simulator_finds() -> None:
    rows = list(sweep((16, 12, 16, 1, 4), runs=some(20), simulated=3))  # which compares them, run by run
    assert rows[0].either > rows[-1].either
    assert all(row.either <= row.bound for row in rows)


def test_the_constants_of_theorem_3() -> None:
    machine = LogPMachine(p=256, L=64, o=2, G=4)  # ceil(L/G) = 16 = 2 log p
    assert 4 * (1 + theorem_beta(machine)) == pytest.approx(4 * math.e * 2 ** ((1 + 3) / 2))
    assert 4 * (1 + theorem_beta(machine, c2=3)) == pytest.approx(4 * math.e * 2 ** ((3 + 3) / 2))
    # R, h <= p and 2Rp (e/(1+beta))^ceil(L/G) <= p^-c2.
    for c2 in (1, 2, 3):
        for h in (17, 100, 256):
            assert rounds(machine, h, theorem_beta(machine, c2)) <= 256 * 256 / 2
            assert failure(machine, h, theorem_beta(machine, c2)) <= 256.0**-c2
    assert (rounds(machine, 32, 1.0), round_length(machine), cost(machine, 32, 1.0)) == (4, 132, 528)
    assert failure(machine, 32, 1.0) == pytest.approx(2 * 4 * 256 * (math.e / 4) ** (16 / 2))


def test_cost_is_within_alpha_and_one_round() -> None:
    for L, o, G in PARAMETERS:
        for p in (2, 7, 64):
            machine = LogPMachine(p, L, o, G)
            for h in range(machine.capacity, 3 * machine.capacity):
                for beta in (0.3, 1.0, 2.9):
                    assert cost(machine, h, beta) <= (4 * (1 + beta) + 4) * G * h


def everyway(
    proc: Processor, packets: list[list[tuple[int, Any]]], h: int, beta: float | None, joins: list[int]
) -> list[list[Message]]:
    proc.compute(joins[proc.pid])
    phases = Phases(proc)
    mine = packets[proc.pid]
    return [
        route_random(phases, mine, h, beta=beta),
        route_random(phases, mine, beta=beta),
        route_random(phases, mine, h + 1, beta=beta, seed=2),
        route_random(phases, mine, beta=beta, seed=2),
    ]


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize(("L", "o", "G"), PARAMETERS)
def test_any_relation_whether_h_is_known_or_not(p: int, L: int, o: int, G: int) -> None:
    rng = np.random.default_rng(p + L)
    machine = LogPMachine(p, L, o, G)
    for most in (0, 1, 3, 12, 3 * p):
        packets = [[(int(d), k) for k, d in enumerate(rng.integers(0, p, rng.integers(0, most + 1)))] for _ in range(p)]
        away = [(pid, dest) for pid, own in enumerate(packets) for dest, _ in own if dest != pid]
        h = max((sum(pair[end] == pid for pair in away) for pid in range(p) for end in (0, 1)), default=0)
        sim = simulate(
            everyway,
            machine=machine,
            schedule=SCHEDULES[most % 4],
            seed=3,
            args=(packets, h, (None, 0.1)[most % 2], rng.integers(0, 99, p).tolist()),
        )
        sim._check()
        for way in range(4):
            assert delivered([results[way] for results in sim.results]) == expected_messages(packets)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_left_over_messages_and_stalls_are_survived(schedule: str) -> None:
    # Half of the processors have a message for processor 0, beside a balanced relation.
    machine, p = LogPMachine(p=32, L=8, o=2, G=4), 32
    packets = [[(0 if pid else 1, 6), *own] if pid < 16 else own for pid, own in enumerate(relation(p, 6))]
    h = 6 + 15
    sim = simulate(everyway, machine=machine, schedule=schedule, args=(packets, h, 0.01, [0] * p))
    sim._check()
    assert sim.stalled > 0
    for way in range(4):
        assert delivered([results[way] for results in sim.results]) == expected_messages(packets)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_execution_takes_longer_than_the_worst_case(schedule: str) -> None:
    machine, h = LogPMachine(p=12, L=12, o=3, G=3), 11
    # One destination after the other, the same for all.
    packets = [[(dest, 0) for dest in range(12) if dest != pid] for pid in range(12)]
    stalled = 0
    for seed in range(10):
        sim = simulate(alone, machine=machine, schedule=schedule, seed=seed, args=(packets, h, 1e-9, seed))
        sim._check()
        assert delivered(sim.results) == expected_messages(packets)
        assert sim.time <= worst_case(machine, h, 1e-9)
        stalled += sim.stalled
    assert stalled or schedule == "earliest"


def test_the_batches_depend_on_seed_processor_and_phase_alone() -> None:
    first = batches_of(1, 2, 3, 1000, 50)
    assert np.array_equal(first, batches_of(1, 2, 3, 1000, 50))
    for other in ((0, 2, 3), (1, 1, 3), (1, 2, 4)):
        assert not np.array_equal(first, batches_of(*other, 1000, 50))
    machine, packets = LogPMachine(p=16, L=16, o=1, G=4), relation(16, 12)
    one, same, another = (simulate(alone, machine=machine, args=(packets, 12, 1.0, seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.trace.submission, same.trace.submission)
    assert not np.array_equal(one.trace.submission, another.trace.submission)


def test_small_relations_go_directly_and_large_ones_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = LogPMachine(p=8, L=16, o=1, G=4)
    sim = simulate(alone, machine=machine, args=(relation(8, 4), 4, None, 0))
    assert sim.stalled == 0
    assert sim.time <= 2 * 1 + 4 * 3 + 16
    sorts: list[int] = []

    def sorting(phases: Phases, packets: list[tuple[int, Any]]) -> list[Message]:
        sorts.append(len(packets))
        return []

    monkeypatch.setattr(theorem_3, "route_sorted", sorting)
    simulate(alone, machine=machine, args=(relation(8, 7), 7, 0.5, 0))
    assert not sorts
    simulate(alone, machine=machine, args=(relation(8, 8), 8, 0.5, 0))
    assert not sorts  # the batches cost less
    simulate(alone, machine=machine, args=(relation(8, 8), 8, 20.0, 0))
    assert sorts == [8] * 8


@pytest.mark.parametrize("beta", [1.0, None])
def test_batches_that_cost_less_are_taken_for_large_relations_too(beta: float | None) -> None:
    p = h = 16
    machine = LogPMachine(p, L=64, o=1, G=4)
    packets = relation(p, h)
    chosen = theorem_3.choose_beta(machine, h, beta)
    assert chosen is not None
    assert beta is None or chosen == beta
    batches = simulate(alone, machine=machine, args=(packets, h, beta, 0))
    sorting = simulate(lambda proc: route_sorted(Phases(proc), packets[proc.pid]), machine=machine)
    assert batches.time < sorting.time


@pytest.mark.parametrize(
    ("p", "h", "L"),
    [(16, 15, 32), (16, 16, 32), (16, 32, 64), pytest.param(64, 64, 32, marks=pytest.mark.whole)],
)
def test_by_default_batches_take_a_fraction_of_what_sorting_takes(p: int, h: int, L: int) -> None:
    """As every program has it, h being counted."""
    machine, packets = LogPMachine(p, L, o=1, G=4), relation(p, h)
    batches = simulate(lambda proc: route_random(Phases(proc), packets[proc.pid]), machine=machine)
    sorting = simulate(lambda proc: route_sorted(Phases(proc), packets[proc.pid]), machine=machine)
    assert 3 * batches.time < sorting.time


@pytest.mark.parametrize(("each", "L"), [(4, 60), (16, 60), (16, 32), (64, 60), (64, 32)])
def test_hot_spots_take_little_longer_than_by_sorting_at_worst(each: int, L: int) -> None:
    machine = LogPMachine(13, L, o=1, G=4)
    packets: list[list[tuple[int, Any]]] = [[(0, k) for k in range(each)] if pid else [] for pid in range(13)]
    batches = simulate(lambda proc: route_random(Phases(proc), packets[proc.pid]), machine=machine)
    sorting = simulate(lambda proc: route_sorted(Phases(proc), packets[proc.pid]), machine=machine)
    assert batches.time < sorting.time + synchronisation_bound(machine)  # of the count of h


@pytest.mark.whole
@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("p", "h", "L", "G"), [(16, 64, 32, 4), (32, 64, 16, 4), (16, 128, 64, 4), (13, 14, 20, 5)])
def test_the_time_of_batches_is_what_is_expected_of_them(p: int, h: int, L: int, G: int, beta: float) -> None:
    machine, packets = LogPMachine(p, L, o=1, G=G), relation(p, h)
    expected = theorem_3.expected_time(machine, h, beta)
    for schedule in ("latest", "adversary"):
        for seed in range(2):
            took = simulate(alone, machine=machine, schedule=schedule, args=(packets, h, beta, seed)).time
            assert cost(machine, h, beta) <= took
            assert took == pytest.approx(expected, rel=0.1)


def test_what_is_left_of_batches_takes_a_gap_each_and_a_latency_on_top() -> None:
    machine = LogPMachine(13, L=40, o=2, G=5)
    most, some = theorem_3.left_over(machine, 60, 0.5)
    assert 0 < some <= 1 < most
    assert theorem_3.expected_time(machine, 60, 0.5) == cost(machine, 60, 0.5) + round(5 * most + some * 44)
    assert theorem_beta(LogPMachine(1, L=40, o=2, G=5)) == 0.0


def test_what_is_left_of_batches_is_counted_exactly_where_it_can_be() -> None:
    """Two rounds of two messages and a capacity of one: half of the processors have one left, of 2p at most p."""
    machine = LogPMachine(2, L=2, o=0, G=2)
    most, some = theorem_3.left_over(machine, 2, 1e-9)
    R, both = rounds(machine, 2, 1e-9), 1 / 3  # of two messages in three rounds, in the same one: about a third
    assert R == 3
    each = 1 - (1 - both**2) ** R  # rounds taken as independent
    assert some == pytest.approx(min(1, 2 * 2 * each))
    assert most >= some
    large, small = (theorem_3.left_over(machine, h, 0.5)[0] / h for h in (40960, 4096))
    assert large == pytest.approx(small)
    assert theorem_3.left_over(LogPMachine(4, L=16, o=1, G=4), 3, 9.0) == (0.0, 0.0)
    wide = LogPMachine(4, L=10_000, o=1, G=2)  # 5000 in transit
    assert theorem_3.left_over(wide, 4000, 0.1) == (0.0, 0.0)
    assert 0 < theorem_3.left_over(wide, 8000, 0.1)[0] < 1000


def test_sorting_is_taken_where_its_bound_is_below_the_batches_cost() -> None:
    machine = LogPMachine(4, L=16, o=1, G=4)
    assert theorem_3.choose_beta(machine, 500, None, 1) is None
    assert theorem_3.cost(machine, 500, 20.0) > sorted_bound(machine, 500, 500)
    assert theorem_3.choose_beta(machine, 500, 20.0) is None


def test_few_packets_of_each_that_make_a_large_h_are_sorted() -> None:
    """Sorting takes what each sends; h is of what one receives: known, as both are counted."""
    p, machine = 64, LogPMachine(64, L=32, o=1, G=4)
    packets: list[list[tuple[int, Any]]] = [[(0, k) for k in range(8)] if pid else [] for pid in range(p)]
    h = 8 * (p - 1)
    assert theorem_3.choose_beta(machine, h) is not None
    assert theorem_3.choose_beta(machine, h, None, 8) is None

    def counted(proc: Processor) -> list[Message]:
        return route_random(Phases(proc), packets[proc.pid])

    counting = simulate(counted, machine=machine)
    batches = simulate(lambda proc: route_random(Phases(proc), packets[proc.pid], h), machine=machine)
    assert counting.time < batches.time
    assert delivered(counting.results) == expected_messages(packets)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "error_text"),
    [
        ({"h": 1}, "argument h: processor 0 has 2 packets, more than h = 1"),
        ({"h": -1}, "argument h: expected a whole number"),
        ({"h": 2.0}, "argument h: expected a whole number"),
        ({"h": 2, "beta": 0}, "argument beta: expected a number above 0"),
        ({"h": 2, "seed": -1}, "argument seed: expected a whole number of at least 0, got -1"),
        ({"h": 2, "beta": math.nan}, "argument beta: expected a number above 0"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], error_text: str) -> None:
    def program(proc: Processor) -> None:
        route_random(Phases(proc), [(1 - proc.pid, 0)] * 2, **arguments)

    with pytest.raises(UsageError, match=f"route_random: {error_text}"):
        simulate(program, machine=LogPMachine(p=2, L=8, o=1, G=4))


@pytest.mark.parametrize(
    ("p", "dest", "error_text"),
    [(4, 4, "packets: expected destinations 0 to 3, got 4"), (60_000, 1, "ceil\\(L/G\\) = 1 and p = 60000.*rounds")],
)
def test_destinations_and_machines_that_cannot_be_are_refused(p: int, dest: int, error_text: str) -> None:
    class Lonely:
        pid = 0
        timed = True
        machine = LogPMachine(p, L=4, o=1, G=4)

    proc: Any = Lonely()
    proc.p = p
    with pytest.raises(UsageError, match=error_text):
        route_random(Phases(proc), [(dest, 0)], 2, start=1)
