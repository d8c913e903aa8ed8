"""broadcast and broadcast_items: what they cost, and who sends what to whom."""

# ruff: noqa: B023 - a program that is made in a loop runs within its turn

from __future__ import annotations

import dataclasses
import importlib
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import BSPMachine, Cost
from pybsp.collectives import broadcast, broadcast_groups, broadcast_items
from pybsp.collectives.counted.broadcast_groups import counted as counted_groups

from ..costs import UP_TO_64, assert_ledger_is, machine
from ..tiers import some, some_of

items_module = importlib.import_module("pybsp.collectives.broadcast_items")
MACHINES = [(0, "sum"), (1, "sum"), (2, "sum"), (1, "max")]


def sizes(p: int) -> list[int]:
    """Words: none, one, fewer than processors, as many, and more."""
    return sorted({0, 1, 2, (p + 1) // 2, max(p - 1, 0), p, p + 1, 3 * p + 2})


@pytest.mark.whole
@pytest.mark.parametrize("ps", UP_TO_64)
@pytest.mark.parametrize(("which", "form"), MACHINES)
def test_the_ledger_is_the_cost_for_p_up_to_64(which: int, form: str, ps: tuple[int, ...]) -> None:
    for p in ps:
        parameters = dataclasses.replace(machine(p, which), cost=form)
        root, degree = (3 * p) // 4, 2 + p % 5
        some = sizes(p)[(p + which) % 4 :: 4]

        def main(bsp: pybsp.BSP) -> None:
            for k in some:
                value = np.arange(float(k)) if bsp.pid == root else None
                broadcast(bsp, value, root)
                broadcast(bsp, value, root, degree)
                broadcast_items(bsp, value, root)
            broadcast(bsp, 1.5, root)
            broadcast(bsp, True, root, degree)

        cost = Cost(parameters)
        for k in some:
            cost += broadcast.cost(parameters, k) + broadcast.cost(parameters, k, degree, root)
            cost += broadcast_items.cost(parameters, k)
        cost += broadcast.cost(parameters) + broadcast.cost(parameters, 1, degree)
        assert_ledger_is(cost, main, p=p, machine=parameters)


def test_an_object_costs_its_pickle() -> None:
    parameters = machine(7)
    words = len(pickle.dumps(["x" * 50, None], 5))
    words = -(-words // 8)
    assert_ledger_is(
        broadcast.cost(parameters, words, 3),
        lambda bsp: broadcast(bsp, ["x" * 50, None], 2, 3),
        p=7,
        machine=parameters,
    )


@pytest.mark.whole
@settings(deadline=None, max_examples=some(150))
@given(
    st.integers(2, 40),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([0.0, 1.0, 4.0, 16.0, 50.0, 300.0]),
    st.sampled_from([0.1, 1.0, 3.0, 1e3]),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from(["sum", "max"]),
    st.sampled_from([0, 1, 2, 7, 30, 100]),
)
def test_the_degree_chosen_costs_least_of_all(
    p: int, g: float, latency: float, r: float, o_msg: float, form: str, words: int
) -> None:
    m = BSPMachine(p, g, latency, r, o_msg, cost=form)
    trees = min(broadcast.cost(m, words, degree).seconds for degree in range(2, p + 1))
    spread = min(Cost(m, items_module.counted(p, words, degree)).seconds for degree in range(2, p + 1))
    assert broadcast_items.cost(m, words).seconds == pytest.approx(spread, rel=1e-12)
    groups = broadcast.cost(m, words, algorithm="groups").seconds
    assert groups == pytest.approx(fewest_seconds(m, words), rel=1e-12)
    divisible = words > 1 and p > 2
    least = min(trees, spread, groups) if divisible else trees
    assert broadcast.cost(m, words).seconds == pytest.approx(least, rel=1e-12)


def fewest_seconds(m: BSPMachine, words: int) -> float:
    """Of all numbers of pieces up to 2 sqrt(p), with trees of all degrees."""
    few = range(2, min(math.isqrt(4 * m.p), m.p, words) + 1)
    ways = [(c, d) for c in few or [1] for d in range(2, -(-m.p // c) + 2)]
    cheapest = min(Cost(m, counted_groups(m.p, words, c, d)).seconds for c, d in ways)
    return min(cheapest, Cost(m, counted_groups(m.p, words, *broadcast_groups.choose(m, words))).seconds)


def test_groups_cost_less_than_all_else_where_messages_cost_much() -> None:
    on = BSPMachine(64, g=8e-9, l=2e-5, r=1e9, o_msg=5e-6)
    others = min(broadcast.cost(on, 10_000, algorithm=how).seconds for how in ("trees", "2d"))
    assert others / broadcast.cost(on, 10_000).seconds == pytest.approx(1.8, abs=0.05)
    assert broadcast.cost(on, 10_000).seconds == broadcast.cost(on, 10_000, algorithm="groups").seconds


@pytest.mark.whole
def test_every_algorithm_costs_what_the_ledger_says() -> None:
    for p in some_of([1, 2, 3, 4, 5, 7, 8, 13, 16, 24]):
        for which in range(3):
            parameters = machine(p, which)
            root, some = p // 2, sizes(p)[(p + which) % 3 :: 3]

            def main(bsp: pybsp.BSP) -> None:
                for k in some:
                    value = np.arange(float(k)) if bsp.pid == root else None
                    for algorithm in ("trees", "2d", "groups"):
                        broadcast(bsp, value, root, algorithm=algorithm)
                        broadcast(bsp, value, root, 3, algorithm)

            cost = Cost(parameters)
            for k in some:
                for algorithm in ("trees", "2d", "groups"):
                    cost += broadcast.cost(parameters, k, None, root, algorithm)
                    cost += broadcast.cost(parameters, k, 3, root, algorithm)
            assert_ledger_is(cost, main, p=p, machine=parameters)


@pytest.mark.whole
def test_the_closed_form_of_groups_is_what_their_plan_counts() -> None:
    for p in some_of([*range(1, 20), 33, 64]):
        for k in {1, 2, 3, p - 1, p, p + 1, 101} - {0}:
            for c in {1, 2, 3, 5, p // 2, p - 1, p}:
                if not 1 <= c <= min(p, k):
                    continue
                for degree in (2, 3, 5):
                    planned = broadcast_groups.plan(p, k, c, degree).counted()
                    closed = counted_groups(p, k, c, degree)
                    assert [s._replace(locality=0) for s in planned] == [s._replace(locality=0) for s in closed]
                    assert all(a.locality <= b.locality for a, b in zip(planned, closed, strict=True))


@pytest.mark.whole
def test_every_degree_costs_what_the_ledger_says() -> None:
    for p in (6, 17):
        parameters = machine(p, 2)
        for degree in range(2, p + 2):
            cost = broadcast.cost(parameters, 3, degree)
            assert_ledger_is(cost, lambda bsp, d=degree: broadcast(bsp, np.ones(3), 1, d), p=p, machine=parameters)


@pytest.mark.whole
def test_the_closed_form_is_what_the_plan_counts() -> None:
    for p in some_of([*range(1, 65), 100, 128]):
        for k in {*sizes(p), p // 3, 5 * p}:
            for degree in (2, 3, 5):
                planned = broadcast_items.plan(p, k, degree).counted()
                closed = items_module.counted(p, k, degree)
                assert [s._replace(locality=0) for s in planned] == [s._replace(locality=0) for s in closed]
                assert all(a.locality <= b.locality for a, b in zip(planned, closed, strict=True))


def knows(plan: Any, p: int, root: int, k: int) -> list[set[int]]:
    """The items of each processor when the plan has run; nothing is sent that the sender does not have."""
    have: list[set[int]] = [set() for _ in range(p)]
    have[root] = set(range(k))
    for step in plan:
        arrived = []
        for source, dest, items in step.messages():
            assert source != dest
            assert have[source] >= set(items)
            arrived.append((dest, items))
        for dest, items in arrived:
            assert not have[dest] & set(items), "sent twice"
            have[dest] |= set(items)
    return have


def test_plans_bring_every_item_to_every_processor_once() -> None:
    for p in some_of([*range(1, 20), 27, 32, 61]):
        for root in {0, p // 2, p - 1}:
            for degree in (2, 3, 7, p + 1):
                assert knows(broadcast.plan(p, degree, root), p, root, 1) == [{0}] * p
                plan = broadcast.plan(p, degree, root, "groups", 3 * p, -(-p // 3))
                assert knows(plan, p, root, 3 * p) == [set(range(3 * p))] * p
                for k in sizes(p):
                    assert knows(broadcast_items.plan(p, k, degree, root), p, root, k) == [set(range(k))] * p


def test_a_tree_has_logarithmic_height_and_fans_out_by_its_degree() -> None:
    for p in range(1, 70):
        for degree in range(2, 9):
            plan = broadcast.plan(p, degree, p // 3)
            assert degree ** len(plan) >= p
            assert not len(plan) or degree ** (len(plan) - 1) < p
            assert all(step.h_out <= degree - 1 and step.h_in == 1 for step in plan.counted())


def test_figure_2_fewer_items_than_processors() -> None:
    # P = 12, k = 3: a = 4; processor 0 sends m_j to j*a; trees in the groups; then to those congruent modulo a.
    spread, *trees, exchange = broadcast_items.plan(12, 3, 2)
    assert spread.messages() == [(0, 4, range(1, 2)), (0, 8, range(2, 3))]
    assert [step.messages() for step in trees] == [
        [(0, 2, range(1)), (4, 6, range(1, 2)), (8, 10, range(2, 3))],
        [(4 * j + i, 4 * j + i + 1, range(j, j + 1)) for j in range(3) for i in (0, 2)],
    ]
    assert exchange.messages() == [
        (j, i, range(j // 4, j // 4 + 1)) for j in range(12) for i in range(j % 4, 12, 4) if i not in (j, 0)
    ]


def test_as_many_items_as_processors_or_more_take_two_supersteps() -> None:
    scattered, exchanged = broadcast_items.plan(4, 10, 2)
    assert scattered.messages() == [(0, 1, range(3, 6)), (0, 2, range(6, 9)), (0, 3, range(9, 10))]
    first = {0: range(3), 1: range(3, 6), 2: range(6, 9), 3: range(9, 10)}
    assert exchanged.messages() == [(s, d, first[s]) for s in range(4) for d in (1, 2, 3) if s != d]
    for p in range(2, 40):
        for k in (p, p + 1, 2 * p - 1, 5 * p):
            steps = broadcast_items.plan(p, k).counted()
            block = -(-k // p)
            assert [step.h_out for step in steps] == [k - block, block * (p - 1)]
            assert steps[1].h_in <= k
            assert block * (p - 1) < 2 * k


@pytest.mark.whole
def test_a_thousand_processors() -> None:
    p = 1024
    for which in range(3):
        parameters = machine(p, which)

        def main(bsp: pybsp.BSP) -> Any:
            value = np.arange(3.0) if bsp.pid == 700 else None
            return broadcast(bsp, value, 700).sum() + broadcast_items(bsp, value, 700).sum()

        cost = broadcast.cost(parameters, 3) + broadcast_items.cost(parameters, 3)
        assert assert_ledger_is(cost, main, p=p, machine=parameters) == [6.0] * p
