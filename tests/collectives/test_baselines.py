"""What the papers argue against: it gives the same results, at the cost that it says."""

# ruff: noqa: B023 - a program that is made in a loop runs within its turn

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine, Cost
from pybsp.collectives import broadcast_items, prefix_2d
from pybsp.collectives.baselines.broadcast_one_at_a_time import broadcast_one_at_a_time
from pybsp.collectives.baselines.prefix_pipelined import prefix_pipelined

from ..costs import UP_TO_64, assert_ledger_is, machine
from ..tiers import some_of


@pytest.mark.fast("0-some", "1-some", "2-some")
@pytest.mark.parametrize("ps", UP_TO_64)
@pytest.mark.parametrize("which", range(3))
def test_the_ledger_is_the_cost_for_p_up_to_64(which: int, ps: tuple[int, ...]) -> None:
    for p in ps:
        parameters = machine(p, which)
        degree, root = 2 + p % 5, p // 2
        k = [0, 1, 2, 5][(p + which) % 4]

        def main(bsp: pybsp.BSP) -> Any:
            column = [chr(97 + (bsp.pid + j) % 26) for j in range(k)]
            numbers = [1] * k
            arrays = [np.arange(5.0) + j for j in range(k)]
            prefix_pipelined(bsp, numbers, operator.add)
            prefix_pipelined(bsp, arrays, np.add, degree)
            prefix_pipelined(bsp, arrays, np.add)
            broadcast_one_at_a_time(bsp, numbers, root)
            got = broadcast_one_at_a_time(bsp, arrays if bsp.pid == root else None, root)
            assert all((a == b).all() for a, b in zip(got, arrays, strict=True))
            return broadcast_one_at_a_time(bsp, column if bsp.pid == root else None, root, degree) if k == 0 else []

        cost = prefix_pipelined.cost(parameters, k) + prefix_pipelined.cost(parameters, k, 5 if k else 1, degree)
        cost += prefix_pipelined.cost(parameters, k, 5 if k else 1)
        cost += broadcast_one_at_a_time.cost(parameters, k) + broadcast_one_at_a_time.cost(parameters, k, 5)
        if k == 0:
            cost += broadcast_one_at_a_time.cost(parameters, 0, 1, degree)
        assert_ledger_is(cost, main, p=p, machine=parameters)


def test_their_results_are_those_of_what_improves_on_them() -> None:
    for p in some_of([1, 2, 3, 5, 8, 13, 27]):
        for k in (0, 1, 4, 20):

            def main(bsp: pybsp.BSP) -> Any:
                column = [chr(97 + (bsp.pid * 7 + j) % 26) for j in range(k)]
                before = list(column)
                mine = column if bsp.pid == bsp.p - 1 else None
                results = [
                    (prefix_pipelined(bsp, column, operator.add, degree), prefix_2d(bsp, column, operator.add))
                    for degree in (None, 2, 3, bsp.p + 2)
                ]
                assert all(a == b for a, b in results)
                assert column == before
                spread = [broadcast_one_at_a_time(bsp, mine, bsp.p - 1), broadcast_items(bsp, mine, bsp.p - 1)]
                return results[0][0], spread

            columns = [[chr(97 + (pid * 7 + j) % 26) for j in range(k)] for pid in range(p)]
            sums = [list(itertools.accumulate((column[j] for column in columns), operator.add)) for j in range(k)]
            for pid, (total, spread) in enumerate(pybsp.simulate(main, p=p).results):
                assert total == [of_row[pid] for of_row in sums]
                assert spread == [columns[-1]] * 2


def test_the_closed_form_is_what_the_plan_counts() -> None:
    m = machine(1)
    for p in (1, 2, 3, 5, 8, 16, 27):
        for k in (0, 1, 2, 9):
            for degree in (2, 3, 4, p + 1):
                for words in (1, 0.5, 3):
                    planned = prefix_pipelined.plan(p, k, degree).cost(m, words)
                    cost = prefix_pipelined.cost(machine(p), k, words, degree)
                    assert (tuple(planned), planned.after) == (tuple(cost), cost.after)


def test_results_of_a_pipelined_prefix_survive_the_next_syncs() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        columns = np.arange(12.0).reshape(4, 3) + bsp.pid
        results = [prefix_pipelined(bsp, columns, op, 2) for op in (np.add, lambda a, b: a, lambda a, b: b)]
        for _ in range(3):
            bsp.send((bsp.pid + 1) % bsp.p, np.full(100, 9.0))
            bsp.sync()
        return [[row.tolist() for row in result] for result in results]

    p = 5
    all_columns = np.arange(12.0).reshape(4, 3) + np.arange(p)[:, None, None]
    for pid, results in enumerate(pybsp.simulate(main, p=p, checked=True).results):
        expected = [all_columns[: pid + 1].sum(axis=0), all_columns[0], all_columns[pid]]
        assert results == [rows.tolist() for rows in expected]


def test_what_improves_on_them_costs_less_where_latency_is_high() -> None:
    for p in (16, 64, 256):
        m = BSPMachine(p, 1.0, 64.0, 1e9)
        for k in (8, p, 4 * p):
            spread, pipelined = broadcast_items.cost(m, k), prefix_pipelined.cost(m, k)
            assert spread.seconds < broadcast_one_at_a_time.cost(m, k).seconds
            assert prefix_2d.cost(m, k).seconds < pipelined.seconds
            assert isinstance(pipelined, Cost)
            assert pipelined.supersteps >= k
