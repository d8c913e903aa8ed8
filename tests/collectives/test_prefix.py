"""prefix and prefix_2d: what they cost, and who sends what to whom."""

# ruff: noqa: B023 - a program that is made in a loop runs within its turn

from __future__ import annotations

import dataclasses
import importlib
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import BSPMachine, Cost
from pybsp.collectives import prefix, prefix_2d

from ..costs import UP_TO_64, assert_ledger_is, machine
from ..tiers import some, some_of

prefix_module = importlib.import_module("pybsp.collectives.prefix")
rows_module = importlib.import_module("pybsp.collectives.prefix_2d")


def whole(a: Any, b: Any) -> Any:
    """No ufunc: values are not cut."""
    return a + b


@pytest.mark.fast("1-max-some")
@pytest.mark.parametrize("ps", UP_TO_64)
@pytest.mark.parametrize(("which", "form"), [(0, "sum"), (1, "sum"), (2, "sum"), (1, "max")])
def test_the_ledger_is_the_cost_for_p_up_to_64(which: int, form: str, ps: tuple[int, ...]) -> None:
    for p in ps:
        parameters = dataclasses.replace(machine(p, which), cost=form)
        degree = 2 + p % 6
        n = [0, 1, 2, p // 2, p - 1, p, p + 1, 3 * p][(p + 3 * which) % 8]
        size = np.dtype(["f8", "f4", "i1", "c16"][p % 4])
        words = size.itemsize / 8

        def main(bsp: pybsp.BSP) -> None:
            prefix(bsp, bsp.pid, operator.add)
            prefix(bsp, np.arange(float(n)), np.add, degree)
            prefix(bsp, np.ones(n, size), whole)
            prefix(bsp, np.ones(n, size), np.add)
            prefix(bsp, np.ones(n + 1, size), np.add, algorithm="2d")
            prefix(bsp, np.ones(n + 1, size), np.add, algorithm="trees")
            prefix_2d(bsp, np.ones(n, size), np.add)
            prefix_2d(bsp, np.ones((n, 3), size), whole, degree)

        cost = prefix.cost(parameters) + prefix.cost(parameters, n, degree)
        cost += prefix.cost(parameters, n * words) + prefix.cost(parameters, n * words, items=n)
        cost += prefix.cost(parameters, (n + 1) * words, items=n + 1, algorithm="2d")
        cost += prefix.cost(parameters, (n + 1) * words, items=n + 1, algorithm="trees")
        cost += prefix_2d.cost(parameters, n, words) + prefix_2d.cost(parameters, n, 3 * words, degree)
        assert_ledger_is(cost, main, p=p, machine=parameters)


@pytest.mark.whole
def test_every_degree_costs_what_the_ledger_says() -> None:
    for p, degree in some_of([(q, d) for q in (6, 17, 30) for d in range(2, q + 2)]):
        parameters = machine(p, 2)

        def main(bsp: pybsp.BSP, d: int = degree) -> None:
            prefix(bsp, np.ones(3), np.add, d)
            prefix_2d(bsp, np.ones(3), np.add, d)

        cost = prefix.cost(parameters, 3, degree) + prefix_2d.cost(parameters, 3, 1, degree)
        assert_ledger_is(cost, main, p=p, machine=parameters)


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
    degrees = range(2, p + 1)
    trees = min(prefix.cost(m, words, degree).seconds for degree in degrees)
    assert prefix.cost(m, words).seconds == pytest.approx(trees, rel=1e-12)
    rows = min(prefix_2d.cost(m, words, 1, degree).seconds for degree in degrees)
    assert prefix_2d.cost(m, words).seconds == pytest.approx(rows, rel=1e-12)
    best = rows if words > 1 and rows + words / r < trees else trees  # the rows are put together by a copy
    assert prefix.cost(m, words, items=words).seconds == pytest.approx(best, rel=1e-12)


def test_of_rows_the_degree_that_costs_least_is_chosen_not_the_smallest() -> None:
    p, words = 27, 3  # rows of 9 processors
    for latency in (0.0, 1e3):
        m = BSPMachine(p, 1.0, latency, 1e9)
        costs = {degree: prefix_2d.cost(m, words, 1, degree).seconds for degree in range(2, p + 1)}
        assert prefix_2d.cost(m, words).seconds == pytest.approx(min(costs.values()), rel=1e-12)
    assert min(costs.values()) < costs[2]


@pytest.mark.whole
def test_the_closed_forms_are_what_the_plans_count() -> None:
    for p in some_of([*range(1, 50), 64, 100]):
        for degree in (2, 3, 5, p + 1):
            for words in (1, 0.125, 2.5):
                cost = prefix.plan(p, degree).cost(machine(p), words)
                closed = prefix.cost(machine(p), words, degree) if words == 1 else None
                assert tuple(cost) == prefix_module.counted(p, degree, words)
                assert closed is None or (tuple(closed), closed.after) == (tuple(cost), cost.after)
            for k in {0, 1, 2, p // 2, max(p - 1, 0), p, p + 1, 3 * p}:
                for words in (1, 0.5, 0.125, 4):
                    planned = prefix_2d.plan(p, k, degree).counted(words)
                    closed_2d = rows_module.counted(p, k, degree, words)
                    assert [s._replace(locality=0) for s in planned] == [s._replace(locality=0) for s in closed_2d]
                    assert all(a.locality <= b.locality for a, b in zip(planned, closed_2d, strict=True))


def test_plans_bring_each_processor_the_values_up_to_its_own_in_order() -> None:
    for p in some_of([*range(1, 40), 61, 64]):
        for degree in (2, 3, 4, 7, p + 1):
            have: list[tuple[int, ...]] = [(pid,) for pid in range(p)]
            for step in prefix.plan(p, degree):
                have = [
                    tuple(q for source, _, _ in step.receives(pid) for q in have[source]) + have[pid]
                    for pid in range(p)
                ]
            assert have == [tuple(range(pid + 1)) for pid in range(p)]


def test_a_prefix_has_logarithmic_height_and_fans_out_by_its_degree() -> None:
    for p in range(2, 100):
        for degree in range(2, 9):
            steps = prefix.plan(p, degree).counted()
            assert degree ** len(steps) >= p > degree ** (len(steps) - 1)
            assert all(max(step.h, step.w) <= degree - 1 for step in steps)


def test_the_flattest_prefix_is_one_superstep_in_which_each_sends_to_all_above() -> None:
    (step,) = prefix.plan(6, 6)
    assert step.messages() == [(s, d, range(1)) for s in range(6) for d in range(s + 1, 6)]


def test_the_steps_of_2d_prefix_with_fewer_rows_than_processors() -> None:
    # k = 2, P = 8, q = P/k = 4: element (i, j) goes to (i*P + j) div k, which holds k of a row, and back at the end.
    p, k = 8, 2
    routed, *trees, back = prefix_2d.plan(p, k, 2)
    there = [(j, (i * p + j) // k, range(i, i + 1)) for j in range(p) for i in range(k) if j != (i * p + j) // k]
    assert routed.messages() == there
    assert [step.messages() for step in trees] == [
        [(s, s + 1, range(1)) for s in (0, 1, 2, 4, 5, 6)],
        [(s, s + 2, range(1)) for s in (0, 1, 4, 5)],
    ]
    assert sorted((d, s, items.start) for s, d, items in back.messages()) == sorted(
        (s, d, items.start) for s, d, items in there
    )


def test_2d_prefix_carries_the_exclusive_sums_along() -> None:
    # One row on 9 processors, degree 3: two levels. The last processor makes two sums of the 2 messages of the first
    # level (1 + 1), and the exclusive sum of the 2 of the second (1 + 1), which it puts in front of the one it has.
    steps = prefix_2d.plan(9, 1, 3).counted()
    assert [step.w for step in steps] == [0, 0, 2, 3]
    # On 27 a level in between takes an operation more, for both sums.
    assert [step.w for step in prefix_2d.plan(27, 1, 3).counted()] == [0, 0, 2, 3, 3]


def test_the_steps_of_2d_prefix_with_as_many_rows_or_more() -> None:
    p, k = 4, 8
    there, back = prefix_2d.plan(p, k)
    assert there.messages() == [(j, q, range(2 * q, 2 * q + 2)) for j in range(p) for q in range(p) if j != q]
    assert back.messages() == [(q, j, range(2 * q, 2 * q + 2)) for q in range(p) for j in range(p) if j != q]


@pytest.mark.whole
def test_2d_prefix_stays_within_the_papers_bounds_for_any_k() -> None:
    for p in range(2, 60):
        for k in (1, 2, 3, p // 2, p - 1, p, p + 1, 2 * p - 1, 5 * p):
            if k < 1:
                continue
            steps = prefix_2d.plan(p, k, 2).counted()
            assert max(steps[0].h, steps[-1].h) <= 2 * k
            assert k < p or len(steps) == 2


@pytest.mark.whole
def test_a_thousand_processors() -> None:
    p = 1024
    parameters = machine(p, 1)

    def main(bsp: pybsp.BSP) -> Any:
        return prefix(bsp, bsp.pid, operator.add), prefix_2d(bsp, np.arange(3) + bsp.pid, np.add).tolist()

    cost = prefix.cost(parameters) + prefix_2d.cost(parameters, 3)
    results = assert_ledger_is(cost, main, p=p, machine=parameters)
    sums = [pid * (pid + 1) // 2 for pid in range(p)]
    assert results == [(total, [total + j * (pid + 1) for j in range(3)]) for pid, total in enumerate(sums)]


def test_adding_costs_is_running_one_after_the_other() -> None:
    parameters = machine(9, 0)
    both = prefix.cost(parameters, 5, 3) + Cost(parameters) + prefix.cost(parameters, 2, 2)
    assert both.supersteps == prefix.cost(parameters, 5, 3).supersteps + prefix.cost(parameters, 2, 2).supersteps
    assert both.w == prefix.cost(parameters, 5, 3).w + prefix.cost(parameters, 2, 2).w
