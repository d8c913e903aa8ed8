"""work charges, expect asserts costs: each processor its own, without talking to the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from tests.conftest import Spmd

from .programs import Caught, caught


def expecting(bsp: pybsp.BSP, **most: Any) -> Caught:
    """Two supersteps with 6 words in 2 messages to the right and 10 + pid flop, under an expectation."""

    def block() -> None:
        with bsp.expect(**most):
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(5))
            bsp.work(10)
            bsp.sync()
            bsp.work(bsp.pid)
            bsp.send((bsp.pid + 1) % bsp.p, 1)
            bsp.sync()

    return caught(block)


@pytest.mark.parametrize(("name", "cost"), [("supersteps", 2), ("h", 6), ("messages", 2)])
def test_expect_allows_the_cost_and_refuses_less_with_both_figures(spmd: Spmd, name: str, cost: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return expecting(bsp, **{name: cost}), expecting(bsp, **{name: cost - 1}), expecting(bsp)

    for pid, (enough, short, free) in enumerate(spmd(main)):
        assert enough.kind is free.kind is None
        if spmd.p == 1 and name != "supersteps":
            assert short.kind is None  # what a processor sends to itself counts nothing
        else:
            assert short.kind is pybsp.CostError
            assert f"bsp.expect on processor {pid}: {name}: expected at most {cost - 1}, counted {cost}" in short.text


def test_expect_checks_each_processors_own_work(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.work(1000)  # before the block: not its cost
        return expecting(bsp, work=10)

    for pid, error in enumerate(spmd(main)):
        assert error.kind is (pybsp.CostError if pid else None)
        assert not pid or f"work: expected at most 10, counted {10.0 + pid}" in error.text


def test_expect_names_everything_that_was_too_much(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return expecting(bsp, supersteps=1, work=3, h=1000)

    for error in spmd(main):
        assert error.kind is pybsp.CostError
        assert "supersteps: expected at most 1, counted 2" in error.text
        assert "work: expected at most 3, counted 1" in error.text
        assert "h:" not in error.text


def test_expect_counts_words_received_too(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def block() -> None:
            with bsp.expect(h=1):
                bsp.send(0, 5)
                bsp.sync()

        return caught(block).kind

    too_much = pybsp.CostError if spmd.p > 2 else None
    assert spmd(main) == [too_much] + [None] * (spmd.p - 1)


def test_expectations_nest(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.expect(supersteps=3):
            bsp.sync()
            with bsp.expect(supersteps=1):
                bsp.sync()
            assert expecting(bsp, supersteps=2).kind is None

    errors = spmd.errors(main)
    assert [type(error) for error in errors] == [pybsp.CostError] * spmd.p
    assert "supersteps: expected at most 3, counted 4" in str(errors[0])


def test_an_error_in_the_block_is_not_hidden_by_its_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def block() -> None:
            with bsp.expect(supersteps=0):
                bsp.sync()
                raise LookupError

        return caught(block).kind

    assert spmd(main) == [LookupError] * spmd.p


@pytest.mark.parametrize("flops", [-1, float("nan"), -0.5])
def test_negative_work_is_an_error(spmd: Spmd, flops: float) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        error = caught(bsp.work, flops)
        bsp.work(0)
        bsp.sync()
        return error, bsp.ledger[0].work

    for error, work in spmd(main):
        assert error.kind is pybsp.UsageError
        assert error.text.startswith("bsp.work: argument flops: expected a number of at least 0, got ")
        assert work == 0
