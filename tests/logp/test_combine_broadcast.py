"""Combine-and-broadcast: every processor gets the combination in the order of pids, without a stall, in time."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from pybsp import LogPMachine
from pybsp.logp import Processor, Simulation, simulate
from pybsp.routing.logp.combine_broadcast import (
    bound,
    combine_broadcast,
    combine_start,
    cost,
    degree,
    descent,
    lower_bound,
    tree,
)
from pybsp.routing.logp.phases import Phases

SCHEDULES = ("latest", "earliest", "adversary", "random")
SIZES = (1, 2, 3, 4, 5, 8, 13, 31)
# Capacity 1, 2, 3 and more; o = 0, o = G, and a G that does not divide L.
PARAMETERS = [(2, 0, 2), (8, 8, 8), (8, 1, 8), (8, 1, 4), (9, 4, 4), (10, 3, 4), (16, 0, 2), (16, 2, 2), (40, 5, 5)]


def joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """An operation that does not commute."""
    return a + b


def program(proc: Processor, joins: list[int], times: int = 1) -> list[Any]:
    phases = Phases(proc)
    proc.compute(joins[proc.pid])
    return [combine_broadcast(phases, (proc.pid + k,), joined) for k in range(times)]


def run(
    machine: LogPMachine, schedule: str, joins: list[int] | None = None, times: int = 1, seed: int = 1
) -> Simulation:
    done = simulate(program, machine=machine, schedule=schedule, seed=seed, args=(joins or [0] * machine.p, times))
    done._check()
    return done


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("fan_out", [2, 3, 8])
def test_subtrees_are_intervals_of_pids_and_the_tree_is_as_low_as_can_be(p: int, fan_out: int) -> None:
    nodes = tree(p, fan_out)
    depths, sizes = [0] * p, [1] * p
    for pid in reversed(range(1, p)):
        father = nodes[pid].father
        assert father is not None
        sizes[father] += sizes[pid]
    for pid, node in enumerate(nodes):
        assert len(node.children) <= fan_out
        ends = [pid + 1] + [child + sizes[child] for child in node.children]
        assert [*node.children, pid + sizes[pid]] == ends
        for k, child in enumerate(node.children):
            assert nodes[child].father == pid
            assert nodes[child].left == (k % 2 == 0)
            depths[child] = depths[pid] + 1
    assert sizes[0] == p
    height = max(depths)
    assert sum(fan_out**level for level in range(height)) < p


@pytest.mark.whole
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_all_get_the_combination_in_the_order_of_pids_without_a_stall(parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    for p, schedule in itertools.product(SIZES, SCHEDULES):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        draw = random.Random(p)
        joins = [draw.randrange(5 * L) for _ in range(p)]
        done = run(machine, schedule, joins, times=3)
        expected = [tuple(pid + k for pid in range(p)) for k in range(3)]
        assert done.results == [expected] * p
        assert done.stalled == 0
        assert done.max_in_transit <= machine.capacity


@pytest.mark.whole
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_the_time_from_the_last_joining_is_within_the_bound(parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    for p, schedule in itertools.product(SIZES, SCHEDULES):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        for late in (0, p - 1, p // 2):  # which joins long after the others
            joins = [0] * p
            joins[late] = 7 * L + 3
            for moments in ([0] * p, joins):
                done = run(machine, schedule, moments)
                assert done.time - max(moments) <= bound(machine), (p, schedule, moments)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_the_cost_is_exact_under_the_schedule_latest(parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    for p in SIZES:
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        draw = random.Random(p)
        joins = [draw.randrange(3 * L) for _ in range(p)]
        assert cost(machine) == run(machine, "latest").time
        assert cost(machine, joins) == run(machine, "latest", joins).time - max(joins)


def test_the_bound_holds_by_cost_on_large_machines() -> None:
    for p, (L, o, G) in itertools.product((100, 257, 1000, 1024), PARAMETERS):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        assert lower_bound(machine) <= cost(machine) <= bound(machine)


def test_the_papers_constant_is_too_small_for_one_level_and_for_many() -> None:
    machine = LogPMachine(p=5, L=16, o=4, G=4)  # a root with ceil(L/G) = 4 children
    level = 2 * (2 * machine.o + machine.L + machine.G * (machine.capacity - 1))
    paper = 3 * (machine.L + machine.o) * math.log(machine.p) / math.log(1 + machine.capacity)
    assert paper < cost(machine) <= level <= bound(machine)
    machine = LogPMachine(p=1024, L=16, o=4, G=4)
    assert 3 / 8 * bound(machine) < cost(machine) <= bound(machine)


def test_the_bound_is_8_times_l_and_o_for_each_level_of_a_tree_and_for_one_at_least() -> None:
    bounds = [bound(LogPMachine(p, L=9, o=2, G=3)) / (8 * (9 + 2)) for p in (1, 2, 4, 16, 64)]
    assert bounds == pytest.approx([0, 1, 1, 2, 3])


def test_fathers_hear_of_their_children_in_turn_where_one_message_may_be_in_transit() -> None:
    machine = LogPMachine(p=15, L=6, o=2, G=6)
    assert degree(machine) == 2
    nodes = tree(15, 2)
    trace = run(machine, "random", list(range(15)), times=2).trace
    up = [k for k in range(len(trace)) if nodes[trace.source[k]].father == trace.dest[k]]
    assert len(up) == 2 * 14
    for k in up:
        turn = trace.submission[k] % (2 * machine.L)
        assert turn == (0 if nodes[trace.source[k]].left else machine.L)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_a_common_start_is_a_time_at_which_all_can_submit(parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters

    def starting(proc: Processor, joins: list[int]) -> Any:
        phases = Phases(proc)
        proc.compute(joins[proc.pid])
        total, start = combine_start(phases, proc.pid, max)
        return total, start, phases.may_submit(), proc.time

    for p, schedule, seed in itertools.product((1, 2, 3, 6, 17), SCHEDULES, range(3)):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        draw = random.Random(seed)
        joins = [draw.randrange(4 * L) for _ in range(p)]
        done = simulate(starting, machine=machine, schedule=schedule, seed=seed, args=(joins,))
        assert done.stalled == 0
        assert {result[:2] for result in done.results} == {(p - 1, done.results[0][1])}
        start = done.results[0][1]
        for _, _, earliest, ended in done.results:
            assert earliest <= start
            assert ended + G <= start
        assert start <= max(joins) + bound(machine) + descent(machine) + 2 * G


def test_a_processor_that_fails_in_the_operation_ends_the_simulation() -> None:
    def wrong(proc: Processor) -> None:
        combine_broadcast(Phases(proc), None, max)

    with pytest.raises(TypeError):
        simulate(wrong, p=3)
