"""The theorems of *Communication primitives for BSP computers*, by count: what docs/studies/theorems.md states."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.benchmarks.studies import theorems
from pybsp.benchmarks.studies.theorems import THEOREMS, Copies, Theorem, bsp_machine
from pybsp.collectives.bitonic_sort import bitonic_sort
from pybsp.collectives.broadcast import broadcast
from pybsp.collectives.broadcast_items import broadcast_items
from pybsp.collectives.broadcast_items import choose as choose_spread
from pybsp.collectives.duplicate import duplicate
from pybsp.collectives.plan import Plan
from pybsp.collectives.prefix import prefix
from pybsp.collectives.prefix_2d import prefix_2d

from ..costs import assert_ledger_is

PAGE = Path(__file__).parent.parent.parent / "docs" / "studies" / "theorems.md"


def stated(*first: str) -> list[float]:
    """The numbers in the row of a table of the page that begins with these cells."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if tuple(cells[: len(first)]) == first:
            return [float(cell) for cell in cells[len(first) :] if re.fullmatch(r"[\d.]+", cell)]
    raise AssertionError(f"the page has no row of {first}")


@pytest.mark.whole
@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.name)
def test_cost_stays_within_the_stated_constant_times_the_bound(theorem: Theorem) -> None:
    found = theorems.constants(theorem)
    counted = [float(theorems.rounded_up(constant.value)) for constant in found.values()]
    assert all(np.less_equal(counted, stated(theorem.name, theorem.bound))), found
    assert max(counted[:3]) < theorems.LIMIT  # g h + L, and its parts


@pytest.mark.whole
def test_computing_stays_within_the_stated_constants() -> None:
    for statement, found in zip(theorems.STATEMENTS, theorems.statements(), strict=True):
        constant = float(theorems.rounded_up(found.value))
        assert constant <= stated(statement.primitive, statement.ratio)[0] < theorems.LIMIT, statement


def test_time_is_what_the_machine_makes_of_the_cost() -> None:
    machine = bsp_machine(100, 16, 10.0)
    for theorem in THEOREMS:
        cost = theorem.cost(machine, theorem.cases(100)[-1])
        assert theorems.quantities(cost, machine)[-1] == pytest.approx(cost.seconds)


@pytest.mark.whole
def test_running_times_of_figure_5_are_the_papers_times_a_constant() -> None:
    rows = list(theorems.figure_5())
    assert len(rows) == 3 * len(theorems.PROBLEMS)
    for row in rows:
        assert max(row.ratios) < theorems.LIMIT, row
        assert row.last_doubling < 1.03, row


def test_what_the_paper_argues_against_loses_more_the_larger_l_over_g_is() -> None:
    rows = list(theorems.comparisons())
    for smaller, larger in pairwise(rows):
        assert larger.one_at_a_time > smaller.one_at_a_time > 1
        assert larger.pipelined > smaller.pipelined > 1
        assert larger.few_work > smaller.few_work
    assert all(row.pipelined > 0.25 * row.ratio and row.few > 1 for row in rows)


# -- what the constants are counted from --------------------------------------------------------------------------


def _some_copies(bsp: pybsp.BSP, lists: list[Any]) -> Any:
    return duplicate(bsp, np.arange(float(lists[bsp.pid].size)), lists[bsp.pid])


@pytest.mark.whole
def test_ledger_of_1024_processors_is_the_cost_and_the_plan() -> None:
    p, k = 1024, 16
    on = bsp_machine(p, 16)
    items = np.arange(float(k))
    copies = Copies(p, 4, "P of one processor's items").lists()
    runs: list[tuple[Any, Callable[..., Any], tuple[Any, ...]]] = [
        (broadcast.cost(on), lambda bsp: broadcast(bsp, 1.0), ()),
        (broadcast_items.cost(on, k), lambda bsp: broadcast_items(bsp, items), ()),
        (prefix.cost(on), lambda bsp: prefix(bsp, 1.0, np.add), ()),
        (prefix_2d.cost(on, k), lambda bsp: prefix_2d(bsp, items, np.add), ()),
        (duplicate.cost(on, copies=copies), _some_copies, (copies,)),
    ]
    for cost, main, args in runs:
        assert_ledger_is(cost, main, *args, p=p, machine=on)


@pytest.mark.whole
def test_ledger_of_a_sort_on_256_processors_is_the_cost() -> None:
    on = bsp_machine(256, 16)
    assert_ledger_is(bitonic_sort.cost(on), lambda bsp: bitonic_sort(bsp, float(-bsp.pid)), p=256, machine=on)


def assert_plan_is(plan: Plan, cost: pybsp.Cost) -> None:
    """The messages of a plan, counted, are the cost in closed form, in which locality is only a bound."""
    assert [step[:5] for step in plan.counted(1)] == [step[:5] for step in cost]
    assert plan.after == cost.after


@pytest.mark.parametrize("degree", [2, 8, 16])
def test_plans_for_4096_processors_are_the_costs(degree: int) -> None:
    p = 4096
    on = bsp_machine(p, 16)
    assert_plan_is(broadcast.plan(p, degree), broadcast.cost(on, 1, degree))
    assert_plan_is(prefix.plan(p, degree), prefix.cost(on, 1, degree))
    assert_plan_is(prefix_2d.plan(p, 5, degree), prefix_2d.cost(on, 5, degree=degree))
    assert_plan_is(bitonic_sort.plan(p, degree.bit_length() - 1), bitonic_sort.cost(on, 1, degree.bit_length() - 1))
    copies = Copies(p, 4, "0 to 7").lists()
    assert_plan_is(duplicate.plan(p, copies, degree), duplicate.cost(on, copies=copies, degree=degree))


@pytest.mark.whole
def test_plans_of_many_items_are_the_costs() -> None:
    on = bsp_machine(4096, 16)
    few = bsp_machine(1500, 16)
    assert_plan_is(broadcast_items.plan(4096, 60, choose_spread(on, 60)), broadcast_items.cost(on, 60))
    assert_plan_is(broadcast_items.plan(1500, 2000), broadcast_items.cost(few, 2000))  # these have p^2 messages
    assert_plan_is(prefix_2d.plan(1500, 2000, 2), prefix_2d.cost(few, 2000))
