"""total_exchange: every kind of value, any sizes, and what goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pybsp
from pybsp.collectives.allgather import allgather
from pybsp.collectives.total_exchange import total_exchange
from tests.conftest import Spmd
from tests.tiers import some

from ..costs import charged, counted
from .programs import plain

DTYPES = ["f8", "i2", "U3", "M8[s]", "c16", "S5", "O", "i4,f4"]


def value_of(source: int, dest: int, seed: int) -> Any:
    """A value that tells whence and where to: a number, an array of any dtype and size, an object, nothing."""
    mark = seed + 8 * source + dest
    kind = mark % 5
    if kind == 0:
        return float(mark)
    if kind == 1:
        return {"mark": mark, "text": "x" * mark}
    if kind == 2:
        return None
    return np.arange(mark % 7).astype("f8").astype(DTYPES[mark % len(DTYPES)])


def exchanged(bsp: pybsp.BSP, seed: int) -> Any:
    return plain(total_exchange(bsp, [value_of(bsp.pid, dest, seed) for dest in range(bsp.p)]))


@settings(
    max_examples=some(20),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 1000))
def test_every_processor_gets_its_value_from_every_other(spmd: Spmd, seed: int) -> None:
    for pid, result in enumerate(spmd(exchanged, seed)):
        assert result == plain([value_of(source, pid, seed) for source in range(spmd.p)])


def test_an_array_is_exchanged_along_its_first_axis(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        numbers = total_exchange(bsp, np.arange(bsp.p) + 10.0 * bsp.pid)
        rows = total_exchange(bsp, np.full((bsp.p, 2), bsp.pid))
        return [float(number) for number in numbers], [row.tolist() for row in rows]

    p = spmd.p
    assert spmd(main) == [([10.0 * s + pid for s in range(p)], [[s, s] for s in range(p)]) for pid in range(p)]


def test_results_are_the_callers_own_and_outlive_the_next_sync(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        values = [np.full(4, bsp.pid) for _ in range(bsp.p)]
        got = total_exchange(bsp, values)
        exchanged(bsp, 3)
        exchanged(bsp, 4)
        content = plain(got)
        for array in got:
            array += 1
        return got[bsp.pid] is values[bsp.pid], content

    assert spmd(main) == [(True, plain([np.full(4, s) for s in range(spmd.p)]))] * spmd.p


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        total_exchange(bsp, [np.zeros(bsp.pid + 2 * dest) for dest in range(bsp.p)])
        total_exchange(bsp, range(bsp.p))
        bsp.sync()
        pids = np.arange(bsp.p)
        cost = total_exchange.cost(bsp.machine, pids[:, None] + 2 * pids) + total_exchange.cost(bsp.machine)
        return counted(bsp.ledger, work=False), charged(cost, work=False)

    for counts, predicted in spmd(main):
        assert counts == predicted


@pytest.mark.parametrize("values", [None, 1.0, "abcdefgh", {1: 1}, {1, 2}, [], np.zeros((99, 1))], ids=str)
def test_values_that_are_not_one_for_each_are_refused_everywhere(spmd: Spmd, values: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        total_exchange(bsp, values if bsp.pid == bsp.p - 1 else [1] * bsp.p)

    for error in spmd.errors(main):
        assert error is not None
        assert "total_exchange: argument values: expected a sequence or an array of " in str(error)


def test_a_value_that_cannot_be_pickled_is_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        total_exchange(bsp, [(lambda: 1) if bsp.pid == 0 else 1] * bsp.p)

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or "total_exchange: argument values: expected something that can be pickled" in str(error)
        assert spmd.p == 1 or "give the data that it is made from, as list(values) of a generator" in str(error)


def test_another_primitive_is_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            allgather(bsp, 1)
        else:
            total_exchange(bsp, [1] * bsp.p)

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or ("allgather" in str(error) and "total_exchange" in str(error))
