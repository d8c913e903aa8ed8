"""Deterministic routing: every relation is delivered, without a stall, within formula (2) and Theorem 2."""

from __future__ import annotations

from functools import reduce
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import LogPMachine
from pybsp.benchmarks.studies import logp_sorted as theorem
from pybsp.logp import Simulation, simulate
from pybsp.routing.logp import sorted as routing
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.sorted import Runs, bound, degrees, direct_bound, join, route_sorted, runs_of, slowdown
from pybsp.routing.logp.sorting.networks import depth

Relation = tuple[np.ndarray, np.ndarray]  # sources, destinations
EXECUTIONS = [("latest", 0), ("earliest", 0), ("adversary", 0), ("random", 0), ("random", 1), ("random", 2)]
# ceil(L/G) = 1, 1 with o = G, 2, 3, 4, 10, 25; 2o below and above G.
PARAMETERS = [(4, 1, 4), (6, 6, 6), (8, 3, 4), (9, 4, 4), (16, 1, 4), (20, 0, 2), (50, 2, 2)]


def relations(p: int, h: int) -> dict[str, Relation]:
    rng = np.random.default_rng(p * h)
    everybody = np.repeat(np.arange(p), h)
    some = rng.integers(0, h + 1, p)
    return {
        "random": (everybody, rng.integers(0, p, p * h)),
        "permutations": (everybody, rng.permuted(np.tile(np.arange(p), (h, 1)), axis=1).T.ravel()),
        "one permutation": (everybody, np.repeat(rng.permutation(p), h)),
        "all to one": (np.arange(h) % p, np.zeros(h, int)),
        "one to all": (np.full(h, p - 1), np.arange(h) % p),
        "unbalanced": (np.repeat(np.arange(p), some), rng.integers(0, (p + 2) // 3, some.sum())),
        "last slot": (np.repeat(np.arange(p), 2), np.tile([1 % p, 0], p)),
    }


def routed(proc: Any, packets: list[list[tuple[int, int]]]) -> tuple[int, list[tuple[int, int]]]:
    began = proc.time
    messages = route_sorted(Phases(proc), packets[proc.pid])
    return began, sorted((message.source, message.payload) for message in messages)


def route(machine: LogPMachine, relation: Relation, schedule: str = "latest", seed: int = 0, **more: Any) -> Simulation:
    """Route a relation whose messages carry their numbers; everything must come, and nobody stall."""
    packets: list[list[tuple[int, int]]] = [[] for _ in range(machine.p)]
    expected: list[list[tuple[int, int]]] = [[] for _ in range(machine.p)]
    for number, (source, dest) in enumerate(zip(*(ends.tolist() for ends in relation), strict=True)):
        packets[source].append((dest, number))
        expected[dest].append((source, number))
    run = simulate(routed, machine=machine, schedule=schedule, seed=seed, args=(packets,), **more)
    assert [messages for _, messages in run.results] == [sorted(messages) for messages in expected]
    assert run.stalled == 0
    assert run.max_in_transit <= machine.capacity
    return run


def last_joining(run: Simulation) -> int:
    joined: list[int] = [began for began, _ in run.results]
    return max(joined)


@pytest.mark.fast("1-(4, 1, 4)", "2-(6, 6, 6)", "3-(8, 3, 4)", "5-(9, 4, 4)", "8-(16, 1, 4)", "13-(20, 0, 2)")
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 13])
def test_every_relation_arrives_within_the_bound_in_every_execution(p: int, parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    machine = LogPMachine(p=p, L=L, o=o, G=G)
    rng = np.random.default_rng(p)
    for h in (0, 1, 2, 7, 3 * p):
        for k, relation in enumerate(relations(p, h).values()):
            r, s = degrees(p, *relation)
            schedule, seed = EXECUTIONS[(k + h) % len(EXECUTIONS)]
            starts = rng.integers(0, 3 * L, p).tolist() if k % 2 else None
            run = route(machine, relation, schedule, seed, starts=starts)
            assert run.time - last_joining(run) <= bound(machine, r, s)
            run.trace._check()


@pytest.mark.whole
@pytest.mark.fast("8-30-(4, 1, 4)", "9-4-(6, 6, 6)", "16-60-(8, 3, 4)")
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@pytest.mark.parametrize(("p", "h"), [(8, 30), (9, 4), (16, 60)])
def test_no_execution_stalls(p: int, h: int, parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    machine = LogPMachine(p=p, L=L, o=o, G=G)
    relation = relations(p, h)["random"]
    for schedule, seed in EXECUTIONS:
        run = route(machine, relation, schedule, seed)
        assert run.time <= bound(machine, *degrees(p, *relation))


@pytest.mark.whole
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_routings_that_follow_each_other_do_not_stall(parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    machine = LogPMachine(p=7, L=L, o=o, G=G)
    dests = [np.random.default_rng(h).integers(0, 7, (7, h)) for h in (1, 9, 0, machine.capacity, 20)]

    def program(proc: Any) -> None:
        phases = Phases(proc)
        for dest in dests:
            packets = [(int(to), k) for k, to in enumerate(dest[proc.pid])]
            assert sorted(route_sorted(phases, packets)) == [tuple(s) for s in np.argwhere(dest == proc.pid).tolist()]

    for schedule, seed in EXECUTIONS:
        run = simulate(program, machine=machine, schedule=schedule, seed=seed, starts=[5 * pid for pid in range(7)])
        assert run.stalled == 0
        assert run.max_in_transit <= machine.capacity


@pytest.mark.whole
@pytest.mark.parametrize("p", [31, 64])
def test_a_large_relation_is_routed_by_columnsort(p: int) -> None:
    machine = LogPMachine(p=p, L=30, o=2, G=5)
    h = 150
    relation = relations(p, h)["random"]
    run = route(machine, relation, "random", 5)
    assert 0.8 * bound(machine, *degrees(p, *relation)) < run.time <= bound(machine, *degrees(p, *relation))


@pytest.mark.fast("3", "8")
@pytest.mark.parametrize("p", [2, 3, 8, 13, 17])
def test_supersteps_are_within_theorem_2(p: int) -> None:
    rng = np.random.default_rng(p)
    for k, (L, o, G) in enumerate(theorem.PARAMETERS):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        h = theorem.sizes(p)[k % len(theorem.sizes(p))]
        for name, relation in list(theorem.RELATIONS.items())[k % 2 :: 2]:
            schedule, seed = EXECUTIONS[k % len(EXECUTIONS)]
            work = rng.integers(0, L + 1, p).tolist()
            point = theorem.measure(machine, relation(p, h, rng), name, work, schedule, seed)
            assert point.share <= 1
            assert point.constant < theorem.LIMIT
            if point.sort:
                assert point.sort < point.aks
                assert point.cubesort > 0


def test_the_slowdown_is_constant_for_many_messages_and_logarithmic_for_few() -> None:
    for p in (64, 61, 1024):
        machine = LogPMachine(p=p, L=32, o=1, G=4)
        few, many = slowdown(machine, 1), slowdown(machine, p * p)
        assert depth(p) < few
        assert many < 3
        # What the routing is allowed shrinks with it.
        allowed = [bound(machine, h, h) / (4 * h + 32) for h in (1, 2 * p * p)]
        assert allowed[1] < 8 < allowed[0]


# -- h within the capacity ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 7, 30, 64])
@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_a_relation_within_the_capacity_goes_directly(p: int, capacity: int) -> None:
    machine = LogPMachine(p=p, L=4 * capacity, o=2, G=4)
    for name, relation in relations(p, capacity).items():
        r, s = degrees(p, *relation)
        if max(r, s) <= capacity:
            for schedule, seed in EXECUTIONS:
                run = route(machine, relation, schedule, seed)
                assert run.time <= direct_bound(machine, r, s), name
                # One combine-and-broadcast, and each message once.
                assert len(run.trace.source) == 2 * (p - 1) + np.sum(relation[0] != relation[1])
            if r:
                assert direct_bound(machine, r, s) <= bound(machine, r, s)


def test_what_exceeds_the_capacity_is_not_sent_directly() -> None:
    machine = LogPMachine(p=20, L=12, o=1, G=4)
    relation = np.arange(1, 5), np.zeros(4, int)  # s = 4, the capacity is 3
    run = route(machine, relation)
    assert len(run.trace.source) > 4 * 19


@pytest.mark.whole
def test_shared_counters_may_hide_a_small_relation_but_no_large_one() -> None:
    machine = LogPMachine(p=200, L=12, o=1, G=4)  # four destinations share a counter at most, the capacity is 3
    permutation = np.arange(200), np.random.default_rng(0).permutation(200)
    route(machine, permutation)
    few = np.arange(60), np.arange(60) + 1
    assert len(route(machine, few).trace.source) == 2 * 199 + 60
    many = np.arange(60), np.full(60, 63)
    assert len(route(machine, many).trace.source) > 60 + 4 * 199


def test_counters_do_not_overflow() -> None:
    machine = LogPMachine(p=300, L=500, o=1, G=2)  # capacity 250: counters of a byte
    counts = [routing._digest(machine, [7] * 200) for _ in range(300)]
    most, total = reduce(routing._most_and_sum, [(200, count) for count in counts])
    assert most == 200
    assert total[7] > machine.capacity
    assert total.nbytes == routing.DIGEST
    wide = LogPMachine(p=300, L=5000, o=1, G=2)  # two bytes
    most, total = reduce(routing._most_and_sum, [(7, routing._digest(wide, [9] * 7)) for _ in range(300)])
    assert total[9] == 2100 <= wide.capacity
    assert total.nbytes == routing.DIGEST


# -- parts --------------------------------------------------------------------------------------------------------


def test_runs_of_pieces_join_to_those_of_the_whole() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        keys = np.sort(rng.integers(0, rng.integers(1, 8), rng.integers(0, 20))).tolist()
        cuts = [0, *sorted(rng.integers(0, len(keys) + 1, 4).tolist()), len(keys)]
        pieces = [runs_of(keys[first:last]) for first, last in pairwise(cuts)]
        whole = runs_of(keys)
        assert whole.longest == max((len(list(run)) for _, run in groupby(keys)), default=0)
        assert reduce(join, pieces) == whole
        assert join(pieces[0], reduce(join, pieces[1:])) == whole
    assert runs_of([]) == Runs(-1, 0, -1, 0, 0)


def test_nothing_to_send_takes_one_combine_and_broadcast() -> None:
    for p in (1, 2, 9):
        machine = LogPMachine(p=p, L=16, o=1, G=4)
        nothing = np.zeros(0, int), np.zeros(0, int)
        run = route(machine, nothing)
        assert len(run.trace.source) == 2 * (p - 1)
        assert run.time <= bound(machine, 0, 0)
        to_oneself = np.arange(p), np.arange(p)
        assert route(machine, to_oneself).time == run.time


def test_a_destination_that_does_not_exist_is_an_error() -> None:
    def program(proc: Any) -> None:
        route_sorted(Phases(proc), [(proc.p, "x")] if proc.pid == 1 else [])

    with pytest.raises(pybsp.UsageError, match=r"route_sorted: packets: expected destinations 0 to 2, got 3"):
        simulate(program, machine=LogPMachine(p=3, L=16, o=1, G=4))


def test_payloads_of_any_kind_arrive() -> None:
    def program(proc: Any) -> Any:
        payloads = [np.arange(proc.pid), {"from": proc.pid}, b"x" * proc.pid, None]
        packets = [((proc.pid + k) % proc.p, payload) for k, payload in enumerate(payloads * 3)]
        found = route_sorted(Phases(proc), packets)
        return sorted((message.source, type(message.payload).__name__, str(message.payload)) for message in found)

    machine = LogPMachine(p=5, L=8, o=1, G=4)
    late = simulate(program, machine=machine)
    assert all(len(found) == 12 for found in late.results)
    assert late.results == simulate(program, machine=machine, schedule="random", seed=4).results
    assert (2, "dict", "{'from': 2}") in late.results[3]


class Untimed:
    """A processor that promises no times, like an MPI rank."""

    timed = False

    def __init__(self, proc: Any) -> None:
        self.p, self.pid, self.machine = proc.p, proc.pid, proc.machine
        self.stalls, self.stalled_seconds = 0, 0.0
        self.send, self.recv, self.poll, self.compute = proc.send, proc.recv, proc.poll, proc.compute
        self._proc = proc

    @property
    def time(self) -> int:
        return int(self._proc.time) * 7 % 1000  # of no use to anybody


@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_without_times_everything_arrives_too(p: int) -> None:
    machine = LogPMachine(p=p, L=8, o=1, G=4)
    for h in (0, 1, 2, 40):
        for relation in relations(p, h).values():
            packets: list[list[tuple[int, int]]] = [[] for _ in range(p)]
            for number, (source, dest) in enumerate(zip(*(ends.tolist() for ends in relation), strict=True)):
                packets[source].append((dest, number))

            def program(proc: Any, packets: Any = packets) -> list[Any]:
                return sorted(route_sorted(Phases(Untimed(proc)), packets[proc.pid]))

            timed = route(machine, relation).results
            assert simulate(program, machine=machine, schedule="random").results == [found for _, found in timed]
