"""A known relation goes by its 1-relations: in time, and without a stall in any execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pybsp import LogPMachine
from pybsp.errors import UsageError
from pybsp.logp import Message, Processor, Simulation, check, simulate
from pybsp.routing.logp.combine_broadcast import cost as cb_cost
from pybsp.routing.logp.offline import Timetable, cost, learn, offline_program, route_offline, timetable
from pybsp.routing.logp.phases import Phases

Ints = NDArray[np.int64]
SCHEDULES = ("latest", "earliest", "adversary", "random")
SIZES = (1, 2, 3, 5, 8, 13)
# Capacity 1 to 8; o = 0, o = G, G < 2o, and a G that does not divide L.
PARAMETERS = [(2, 0, 2), (8, 8, 8), (8, 1, 8), (8, 3, 4), (9, 4, 4), (10, 3, 4), (16, 0, 2), (16, 2, 2), (40, 5, 5)]


def relations(p: int) -> list[tuple[Ints, Ints]]:
    """From nothing to many messages: at random, balanced, and with senders that do not receive."""
    rng = np.random.default_rng(p)
    given = [(rng.integers(0, p, m), rng.integers(0, p, m)) for m in (0, 1, p, 4 * p, 15 * p)]
    given += [(np.repeat(np.arange(p), h), rng.permutation(np.repeat(np.arange(p), h))) for h in (1, 2, 9)]
    if p > 1:
        given += [(s % (p // 2), p - 1 - d % (p - p // 2)) for s, d in given[2:5]]
    return given


def delivered(results: list[list[Message]]) -> list[tuple[int, int, Any]]:
    return sorted((m.source, pid, m.payload) for pid, received in enumerate(results) for m in received)


def expected_messages(sources: Ints, dests: Ints) -> list[tuple[int, int, Any]]:
    return sorted(zip(sources.tolist(), dests.tolist(), range(len(sources)), strict=True))


def stall_free(sim: Simulation) -> None:
    sim._check()
    assert sim.stalled == 0
    assert sim.max_in_transit <= sim.machine.capacity


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize(("L", "o", "G"), PARAMETERS)
def test_within_the_bound_without_a_stall(p: int, L: int, o: int, G: int) -> None:
    machine = LogPMachine(p, L, o, G)
    for sources, dests in relations(p):
        known = timetable(sources, dests, p)
        for schedule in SCHEDULES:
            sim = simulate(offline_program(sources, dests, p), machine=machine, schedule=schedule, seed=3)
            stall_free(sim)
            assert delivered(sim.results) == expected_messages(sources, dests)
            assert sim.time <= known.cost(machine)
            if schedule == "latest" and (known.h <= machine.capacity or not known.both):
                assert sim.time == known.cost(machine)


def test_what_stays_has_no_slot() -> None:
    known = timetable([1, 0, 0, 1], [1, 1, 0, 0], 2)
    assert list(zip(known.destinations.tolist(), known.slots.tolist(), strict=True)) == [
        (1, 0),
        (0, -1),
        (1, -1),
        (0, 0),
    ]


def test_the_bounds_are_those_of_section_4_2() -> None:
    machine = LogPMachine(p=9, L=10, o=3, G=4)  # capacity 3
    assert [cost(machine, h) for h in (0, 1, 3)] == [0, 2 * 3 + 10, 2 * 3 + 4 * 2 + 10]
    assert cost(machine, 4) == 4 * 3 + 6 * 3 + 10
    assert cost(machine, 4, both=False) == 2 * 3 + 4 * 3 + 10


def test_an_execution_needs_more_than_the_papers_time_where_a_processor_sends_and_receives() -> None:
    # 2o + G(h-1) + L leaves no time to prepare and to acquire h messages, 2oh steps, where h is large.
    machine, h = LogPMachine(p=4, L=8, o=4, G=4), 50
    sources = np.repeat(np.arange(4), h)
    sim = simulate(offline_program(sources, (sources + 1) % 4, 4), machine=machine)
    assert 2 * 4 * h <= sim.time <= cost(machine, h)
    assert cost(machine, h, both=False) < 2 * 4 * h


@pytest.mark.whole
def test_no_execution_stalls() -> None:
    rng = np.random.default_rng(8)
    sources, dests = rng.integers(0, 6, 80), rng.integers(0, 6, 80)

    def program(proc: Processor) -> list[Any]:
        return sorted(offline_program(sources, dests, 6)(proc))

    found = check(program, machine=LogPMachine(p=6, L=9, o=2, G=4), executions=60)
    assert found.ok
    assert found.stall_free


def unknown(proc: Processor, packets: list[list[tuple[int, Any]]], joins: list[int], times: int) -> list[Any]:
    phases, results = Phases(proc), []
    proc.compute(joins[proc.pid])
    for k in range(times):
        # Another relation each time; the processors have left the last one at different times.
        mine = packets[(proc.pid + k) % proc.p]
        results.append(route_offline(phases, mine, learn(phases, mine)))
    return results


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize(("L", "o", "G"), PARAMETERS)
def test_relations_that_are_learnt_first_follow_each_other_without_a_stall(p: int, L: int, o: int, G: int) -> None:
    rng = np.random.default_rng(L)
    machine = LogPMachine(p, L, o, G)
    packets = [[(int(d), (pid, i)) for i, d in enumerate(rng.integers(0, p, rng.integers(0, 9)))] for pid in range(p)]
    for schedule in SCHEDULES:
        sim = simulate(
            unknown, machine=machine, schedule=schedule, args=(packets, rng.integers(0, 99, p).tolist(), 3), seed=5
        )
        stall_free(sim)
        for k in range(3):
            packets_of = [packets[(pid + k) % p] for pid in range(p)]
            expected = sorted((pid, dest, load) for pid in range(p) for dest, load in packets_of[pid])
            assert delivered([results[k] for results in sim.results]) == expected


def again(proc: Processor, known: list[Timetable], joins: list[int]) -> None:
    phases = Phases(proc)
    proc.compute(joins[proc.pid])
    for each in known:
        dests = each.destinations[each.first[proc.pid] : each.first[proc.pid + 1]].tolist()
        received = route_offline(phases, [(dest, None) for dest in dests], each)
        assert len(received) == np.count_nonzero(each.destinations == proc.pid)


@pytest.mark.whole
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("L", "o", "G"), PARAMETERS)
def test_known_relations_follow_each_other_without_a_stall(L: int, o: int, G: int, schedule: str) -> None:
    rng = np.random.default_rng(L)
    for p in (2, 7, 16):
        known = [timetable(rng.integers(0, p, m), rng.integers(0, p, m), p) for m in (p, 9 * p, 2, 3 * p)]
        stall_free(
            simulate(
                again, machine=LogPMachine(p, L, o, G), schedule=schedule, args=(known, rng.integers(0, 99, p).tolist())
            )
        )


def test_learning_costs_a_combine_and_broadcast() -> None:
    machine = LogPMachine(p=13, L=16, o=2, G=4)
    packets = [[((pid + 1 + i) % 13, i) for i in range(7)] for pid in range(13)]

    def program(proc: Processor) -> Timetable:
        return learn(Phases(proc), packets[proc.pid])

    sim = simulate(program, machine=machine)
    assert sim.time <= cb_cost(machine)
    assert all(known is sim.results[0] for known in sim.results)  # a relation that comes again is not decomposed again
    assert sim.results[0].h == 7


def test_payloads_are_those_of_the_relation() -> None:
    payloads = [np.arange(i) for i in range(6)]
    program = offline_program([0, 1, 2, 2, 0, 1], [1, 2, 0, 1, 2, 1], 3)
    sim = simulate(program, machine=LogPMachine(p=3, L=8, o=1, G=4), args=(payloads,))
    got = [sorted((m.source, len(m.payload)) for m in received) for received in sim.results]
    assert got == [[(2, 2)], [(0, 0), (1, 5), (2, 3)], [(0, 4), (1, 1)]]


def test_what_is_no_relation_is_refused() -> None:
    with pytest.raises(UsageError, match="timetable: destinations: expected processors 0 to 2, got 3"):
        timetable([0, 1], [1, 3], 3)
    with pytest.raises(UsageError, match="offline_program: sources must be integers"):
        offline_program([0.0], [1], 3)
    with pytest.raises(UsageError, match="offline_program: the relation is one of 3 processors, the machine has 4"):
        simulate(offline_program([0], [1], 3), machine=LogPMachine(p=4, L=8, o=1, G=4))


def test_packets_that_are_not_the_timetables_are_refused() -> None:
    def program(proc: Processor, known: Timetable) -> None:
        route_offline(Phases(proc), [(1 - proc.pid, None)], known)

    for known in (timetable([0, 1], [1, 1], 2), timetable([0, 1], [1, 0], 3)):
        with pytest.raises(UsageError, match=r"route_offline: argument packets: processor . of 2 has packets"):
            simulate(program, machine=LogPMachine(p=2, L=8, o=1, G=4), args=(known,))
