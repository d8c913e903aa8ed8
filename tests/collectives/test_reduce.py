"""reduce and allreduce: what they cost, and whose values come together."""

# ruff: noqa: B023 - a program that is made in a loop runs within its turn

from __future__ import annotations

import dataclasses
import importlib
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import BSPMachine, Cost
from pybsp.collectives import allreduce, broadcast, by_blocks, prefix, reduce
from pybsp.collectives.counted.blocks import counted as counted_blocks

from ..costs import UP_TO_64, assert_ledger_is, machine
from ..tiers import some, some_of

allreduce_module = importlib.import_module("pybsp.collectives.allreduce")


def whole(a: Any, b: Any) -> Any:
    """No ufunc: values are not cut."""
    return a + b


@pytest.mark.fast("2-sum-some")
@pytest.mark.parametrize("ps", UP_TO_64)
@pytest.mark.parametrize(("which", "form"), [(0, "sum"), (1, "sum"), (2, "sum"), (1, "max")])
def test_the_ledger_is_the_cost_for_p_up_to_64(which: int, form: str, ps: tuple[int, ...]) -> None:
    for p in ps:
        parameters = dataclasses.replace(machine(p, which), cost=form)
        root, degree = (3 * p) // 4, 2 + p % 6
        n = [0, 1, p - 1, p, p + 1, 3 * p][(p + which) % 6]

        def main(bsp: pybsp.BSP) -> None:
            reduce(bsp, bsp.pid, operator.add, root)
            reduce(bsp, np.arange(float(n)), np.add, root, degree)
            reduce(bsp, np.arange(float(n)), np.add, root)
            reduce(bsp, np.arange(n + p, dtype=np.int16), np.add, root, algorithm="blocks")
            allreduce(bsp, np.arange(n + p, dtype=np.int8), np.add, algorithm="blocks")
            allreduce(bsp, "text", max)
            allreduce(bsp, np.arange(float(n)), whole, degree)
            allreduce(bsp, np.arange(n, dtype=np.int8), whole)
            allreduce(bsp, np.arange(n, dtype=np.float32), np.add)
            allreduce(bsp, np.arange(50 * p, dtype=np.int16), np.add)

        cost = reduce.cost(parameters) + reduce.cost(parameters, n, degree, root)
        cost += reduce.cost(parameters, n, root=root, items=n)
        cost += reduce.cost(parameters, (n + p) / 4, root=root, items=n + p, algorithm="blocks")
        cost += allreduce.cost(parameters, (n + p) / 8, items=n + p, algorithm="blocks")
        cost += Cost(parameters) if p == 1 else objects(parameters)
        cost += allreduce.cost(parameters, n, degree) + allreduce.cost(parameters, -(-n // 8))
        cost += allreduce.cost(parameters, n / 2, items=n) + allreduce.cost(parameters, 50 * p / 4, items=50 * p)
        assert_ledger_is(cost, main, p=p, machine=parameters)


def objects(parameters: BSPMachine) -> Cost:
    """Of combining short texts: messages are pickles, the degree is chosen as for a word, and each use is a flop."""
    size = len(pickle.dumps("text", 5))
    _, chosen = allreduce_module.choose(parameters, 1)
    one, two = (allreduce.cost(parameters, words, chosen) for words in (1, -(-size // 8)))
    return Cost(parameters, [b._replace(w=a.w) for a, b in zip(one, two, strict=True)], one.after)


def test_every_degree_costs_what_the_ledger_says() -> None:
    for p, degree in some_of([(q, d) for q in (6, 17, 30) for d in range(2, q + 2)]):
        parameters = machine(p, 2)

        def main(bsp: pybsp.BSP, d: int = degree) -> None:
            reduce(bsp, np.ones(3), np.add, 1, d)
            allreduce(bsp, np.ones(3), np.add, d)

        cost = reduce.cost(parameters, 3, degree) + allreduce.cost(parameters, 3, degree)
        assert_ledger_is(cost, main, p=p, machine=parameters)


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
    degrees = range(2, p + 1)
    least = min(reduce.cost(m, words, degree).seconds for degree in degrees)
    assert reduce.cost(m, words).seconds == pytest.approx(least, rel=1e-12)
    trees = min(allreduce.plan(p, degree).cost(m, words).seconds for degree in degrees)
    assert allreduce.cost(m, words).seconds == pytest.approx(trees, rel=1e-12)
    if words >= p:
        root, copying = p // 2, words / r
        blocks = allreduce.plan(p, algorithm="blocks", items=words).cost(m).seconds
        trees = blocks if blocks + copying < trees else trees
        blocks = reduce.plan(p, root=root, algorithm="blocks", items=words).cost(m).seconds
        least = blocks if blocks + copying < least else least
        assert reduce.cost(m, words, root=root, items=words).seconds == pytest.approx(least, rel=1e-12)
    assert allreduce.cost(m, words, items=words).seconds == pytest.approx(trees, rel=1e-12)


def test_the_closed_form_is_what_the_plan_counts() -> None:
    for p in some_of([*range(1, 65), 100, 243]):
        for degree in [*range(2, 12), p // 2, p - 1, p, p + 3]:
            if degree < 2:
                continue
            plan = allreduce.plan(p, degree)
            closed, after = allreduce_module.counted(p, degree)
            assert [s._replace(locality=0) for s in plan.counted()] == [s._replace(locality=0) for s in closed]
            assert after == plan.after
            assert all(a.locality <= b.locality for a, b in zip(plan.counted(), closed, strict=True))


def test_the_closed_form_of_blocks_is_what_their_plan_counts() -> None:
    for p in some_of([*range(1, 20), 33, 64]):
        for k in (p, p + 1, 2 * p - 1, 97, 5 * p):
            for root in (None, 0, p // 2, p - 1):
                for nbytes in (1, 8, 12):
                    if k < p:
                        continue
                    planned = by_blocks.plan(p, k, root).counted(nbytes / 8)
                    closed = counted_blocks(p, k, nbytes, root)
                    assert [s._replace(locality=0) for s in planned] == [s._replace(locality=0) for s in closed]
                    assert all(a.locality <= b.locality for a, b in zip(planned, closed, strict=True))


def test_blocks_are_chosen_where_what_they_save_is_more_than_a_superstep_and_a_copy() -> None:
    on = BSPMachine(3, g=1.0, l=100.0, r=1.0)
    # In one superstep 2k words and 2k flop; by blocks 4/3 k words, 2/3 k flop, a copy of k words, and l.
    assert allreduce.cost(on, 99, items=99).supersteps == 1
    assert allreduce.cost(on, 102, items=102).supersteps == 2
    assert allreduce.cost(on, 102).supersteps == 1


def test_between_two_processors_nothing_goes_in_pieces() -> None:
    for r in (1.0, 1e9):
        on = BSPMachine(2, g=1e-9, l=1e-5, r=r)
        for items in (1 << 13, 1 << 20, 1 << 27):
            for primitive in (allreduce, reduce, prefix):
                assert primitive.cost(on, items, items=items).supersteps == 1


def combined(plan: Any, p: int) -> list[tuple[int, ...]]:
    """The pids whose values each processor has combined, in order, when the plan has run."""
    have: list[tuple[int, ...]] = [(pid,) for pid in range(p)]
    for step in plan:
        after = []
        for pid in range(p):
            parts = sorted([(source, have[source]) for source, _, _ in step.receives(pid)] + [(pid, have[pid])])
            after.append(tuple(q for _, part in parts for q in part))
        have = after
    return have


def test_plans_combine_the_values_in_order() -> None:
    for p in some_of([*range(1, 40), 61, 64]):
        for degree in (2, 3, 4, 7, p + 1):
            for root in {0, p // 2, p - 1}:
                assert combined(reduce.plan(p, degree, root), p)[root] == tuple(range(p))
            assert combined(allreduce.plan(p, degree), p) == [tuple(range(p))] * p


def test_a_reduction_is_a_broadcast_turned_round() -> None:
    for p in (2, 5, 16, 30):
        for degree in (2, 3, 5):
            there = [
                sorted((s, d) for s, d, _ in step.messages()) for step in reversed(broadcast.plan(p, degree, p // 3))
            ]
            back = [sorted((d, s) for s, d, _ in step.messages()) for step in reduce.plan(p, degree, p // 3)]
            assert there == back


@pytest.mark.whole
def test_an_allreduce_has_logarithmic_height_and_fans_out_by_its_degree() -> None:
    for p in range(2, 100):
        for degree in range(2, 9):
            steps = allreduce.plan(p, degree).counted()
            assert degree ** len(steps) >= p > degree ** (len(steps) - 1)
            assert all(step.h_in <= degree - 1 and step.h_out <= 2 * (degree - 1) for step in steps)
            if round(p ** (1 / len(steps))) ** len(steps) == p and degree == round(p ** (1 / len(steps))):
                assert all(step.h_out == degree - 1 for step in steps)


@pytest.mark.whole
def test_a_thousand_processors() -> None:
    p = 1024
    parameters = machine(p, 1)

    def main(bsp: pybsp.BSP) -> Any:
        return reduce(bsp, bsp.pid, operator.add), allreduce(bsp, bsp.pid, operator.add)

    total = p * (p - 1) // 2
    cost = reduce.cost(parameters) + allreduce.cost(parameters)
    results = assert_ledger_is(cost, main, p=p, machine=parameters)
    assert results == [(total, total)] + [(None, total)] * (p - 1)


@pytest.mark.fast
@pytest.mark.parametrize("items", [2.5, -1, "3", [3], None])
@pytest.mark.parametrize("primitive", [reduce, allreduce, prefix])
def test_costs_of_no_number_of_items_are_refused(primitive: Any, items: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=r"\.cost: argument items: expected a whole number of at least 0, got"):
        primitive.cost(machine(4), 3, items=items)
