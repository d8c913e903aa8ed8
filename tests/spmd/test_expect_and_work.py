"""work charges, expect asserts costs: each processor its own, without talking to the others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pybsp
from tests.conftest import Spmd, on_processors

from ..costs import in_file
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


@on_processors
@pytest.mark.parametrize(("name", "cost"), [("supersteps", 2), ("h", 6), ("messages", 2)])
def test_expect_allows_the_cost_and_refuses_less_with_both_figures(bsp: pybsp.BSP, name: str, cost: int) -> None:
    enough, short, free = expecting(bsp, **{name: cost}), expecting(bsp, **{name: cost - 1}), expecting(bsp)
    assert enough.kind is free.kind is None
    if bsp.p == 1 and name != "supersteps":
        assert short.kind is None  # what a processor sends to itself counts nothing
    else:
        assert short.kind is pybsp.CostError
        assert f"bsp.expect on processor {bsp.pid}: {name}: expected at most {cost - 1}, counted {cost}" in short.text


@on_processors
def test_expect_checks_each_processors_own_work(bsp: pybsp.BSP) -> None:
    bsp.work(1000)  # before the block: not its cost
    error = expecting(bsp, work=10)
    assert error.kind is (pybsp.CostError if bsp.pid else None)
    assert not bsp.pid or f"work: expected at most 10, counted {10.0 + bsp.pid}" in error.text


@on_processors
def test_expect_names_everything_that_was_too_much(bsp: pybsp.BSP) -> None:
    error = expecting(bsp, supersteps=1, work=3, h=1000)
    assert error.kind is pybsp.CostError
    assert "supersteps: expected at most 1, counted 2" in error.text
    assert "work: expected at most 3, counted 1" in error.text
    assert "h:" not in error.text


@on_processors
def test_expect_says_where_most_was_counted_and_where_its_block_begins(bsp: pybsp.BSP) -> None:
    def block() -> None:
        bsp.work(1000)
        with bsp.expect(h=1, work=4):
            bsp.sync()
            bsp.ledger  # noqa: B018 - rows that are combined are of all processors
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(3))
            with bsp.superstep("most"):
                bsp.send((bsp.pid + 1) % bsp.p, np.zeros(10))
                bsp.work(2)
            bsp.work(5)

    first = len(bsp.ledger)
    error = caught(block)
    expected = f'h: expected at most 1, counted 13 (13 in superstep {first + 1} ("most")); ' * (bsp.p > 1)
    expected += f"work: expected at most 4, counted 7.0 (5 in superstep {first + 2}); the block begins at {__file__}:"
    assert error.text.startswith(f"bsp.expect on processor {bsp.pid}: {expected}")
    assert int(error.text[-2:]) == block.__code__.co_firstlineno % 100 + 2
    bsp.sync()


@pytest.mark.parametrize("call", ["bsp.expect(h=0)", "bsp.superstep('a')"])
@pytest.mark.parametrize("after", ["bsp.sync()", "bsp.send(0, 1)", "None"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_call_for_a_block_without_with_is_an_error(spmd: Spmd, call: str, after: str, begun: bool) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if begun:
            bsp.begin()
        exec(call)
        if begun:
            bsp.end()
        eval(after)

    for error in spmd.errors(main):
        assert f"{call} at <string>:1: expected a block, without which it does nothing; write `with {call}:`" in str(
            error
        )


def test_a_block_that_outlives_the_function_or_the_run_changes_no_word_of_it(spmd: Spmd) -> None:
    outlived: list[Any] = []

    def main(bsp: pybsp.BSP, blocks: list[Any]) -> None:
        blocks.append(bsp.superstep("late"))
        outlived.append(bsp)

    spmd(main, outlived)
    machines = [one for one in outlived if isinstance(one, pybsp.BSP)]
    del outlived[:]
    for bsp in machines:
        assert "ended in superstep" in repr(bsp)
        with pytest.raises(pybsp.UsageError, match="the run has ended"):
            bsp.sync()

    def held_until_its_end(bsp: pybsp.BSP) -> None:
        block = bsp.superstep("late")
        bsp.sync()
        assert block

    for error in spmd.errors(held_until_its_end):
        assert "bsp.superstep('late')" in str(error)
        assert "gate.py" not in str(error)


@on_processors
def test_a_block_may_be_entered_later_and_often_and_be_refused(bsp: pybsp.BSP) -> None:
    block, expected = bsp.superstep("later"), bsp.expect(supersteps=2)
    bsp.sync()
    with expected:
        for _ in range(2):
            with block:
                pass
    bsp.begin()
    assert caught(bsp.superstep("early").__enter__).kind is pybsp.UsageError
    bsp.end()
    bsp.sync()


@on_processors
def test_expect_counts_words_received_too(bsp: pybsp.BSP) -> None:
    def block() -> None:
        with bsp.expect(h=1):
            bsp.send(0, 5)
            bsp.sync()

    assert caught(block).kind is (pybsp.CostError if bsp.p > 2 and bsp.pid == 0 else None)


@on_processors
@pytest.mark.parametrize("asks", [False, True])
def test_expect_counts_what_is_done_in_parts_and_in_parts_of_them(bsp: pybsp.BSP, asks: bool) -> None:
    halves, of_half = bsp.split(bsp.pid % 2), len(range(bsp.pid % 2, bsp.p, 2))
    cost = {"supersteps": 5, "h": 26 * (of_half > 1), "messages": 3 * (of_half > 1), "work": 30 + bsp.pid}

    def send(part: pybsp.BSP, words: int) -> None:
        part.work(10)
        part.send((part.pid + 1) % part.p, np.zeros(words))
        part.sync()

    def block(**most: int) -> None:
        with bsp.expect(**most):
            with halves as part:
                send(part, 5)
                if asks:
                    part.ledger  # noqa: B018 - rows that are combined are of all its processors
                with part.label("inner"), part.split(0) as inner, inner.label("most"):
                    send(inner, 20)
                    send(inner, 1)
                part.work(bsp.pid)  # of the whole's superstep
            bsp.sync()

    less = caught(block, **dict.fromkeys(cost, 1)).text
    assert less.startswith(f"bsp.expect on processor {bsp.pid}: supersteps: expected at most 1, counted 5; ")
    assert caught(block, **cost).kind is None
    assert f"; work: expected at most 1, counted {30.0 + bsp.pid} (1" in less
    if of_half > 1:
        place = 'superstep 0 ("most") of a part, in superstep 2 ("inner") of a part, in superstep 1'
        assert f"; h: expected at most 1, counted 26 (20 in {place}); messages: expected at most 1, counted 3 " in less


@on_processors
def test_expect_in_a_part_that_is_in_use_counts_that_too(bsp: pybsp.BSP) -> None:
    def block() -> None:
        with bsp.split(0) as part:
            part.work(100)
            with bsp.expect(supersteps=0, work=6):
                part.work(5)
                part.sync()
                part.work(2)

    assert "supersteps: expected at most 0, counted 1; work: expected at most 6, counted 7.0 (5" in caught(block).text
    bsp.sync()


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


@on_processors
def test_an_error_in_the_block_is_not_hidden_by_its_cost(bsp: pybsp.BSP) -> None:
    def block() -> None:
        with bsp.expect(supersteps=0):
            bsp.sync()
            raise LookupError

    assert caught(block).kind is LookupError


@on_processors
@pytest.mark.parametrize("flops", [-1, float("nan"), -0.5, float("inf"), 10**400])
def test_work_that_is_no_number_of_at_least_0_is_an_error(bsp: pybsp.BSP, flops: float) -> None:
    expected = r"^bsp\.work: argument flops: expected a number of at least 0, and at most 1e\+300, got "
    with pytest.raises(pybsp.UsageError, match=expected):
        bsp.work(flops)
    with pytest.raises(
        pybsp.UsageError, match=r'^bsp\.work: argument kind: expected a text without control characters, as "sort", got'
    ):
        bsp.work(1, kind="two\nlines")
    bsp.work(0)
    bsp.sync()
    assert bsp.ledger[0].work == 0


@on_processors
@pytest.mark.filterwarnings("error")
def test_work_of_numbers_of_few_bits_is_summed_in_64(bsp: pybsp.BSP) -> None:
    charged: list[Any] = [np.float32(2**24), np.float32(1), np.float16(60000), np.float16(60000), np.int8(100), 1]
    for flops in charged:
        bsp.work(flops)
    bsp.sync()
    assert bsp.ledger[0].work == 2**24 + 120_102


def test_work_of_a_kind_goes_by_the_machines_rate_of_it(spmd: Spmd) -> None:
    machine = pybsp.BSPMachine(p=spmd.p, g=1e-9, l=1e-6, r=1e6, rates=(("sort", 1e5), ("dot", 2e6)))

    def main(bsp: pybsp.BSP) -> Any:
        bsp.work(1000.0)
        bsp.work(100.0 * (bsp.pid + 1), kind="sort")
        bsp.work(100.0, kind="sort")
        bsp.work(500.0, kind="unknown")
        bsp.sync()
        with bsp.split(0) as part:
            part.work(200.0, kind="dot")  # of the whole's superstep, in which the part ends
        bsp.grid(1, bsp.p).row.work(50.0, kind="dot")
        bsp.sync()
        bsp.sync()
        ledger = bsp.ledger
        assert bsp.ledger.kinds == ledger.kinds
        return ledger.kinds, [record.charged for record in ledger], json.loads(json.dumps(in_file(ledger)))

    most = 100.0 * spmd.p + 100
    for kinds, charged, written in spmd(main, machine=machine):
        assert kinds == {0: {"sort": most, "unknown": 500.0}, 2: {"dot": 250.0}}
        assert charged == pytest.approx([1000 / 1e6 + most / 1e5 + 500 / 1e6, 0, 250 / 2e6, 0])
        assert written["kinds"]["0"] == kinds[0]
        assert written["machine"]["rates"] == {"sort": 1e5, "dot": 2e6}


@pytest.mark.parametrize("asks", [False, True])
def test_work_in_parts_is_charged_by_the_machines_rates_of_its_kinds(spmd: Spmd, asks: bool) -> None:
    machine = pybsp.BSPMachine(p=spmd.p, g=1e-9, l=1e-6, r=1e6, rates=(("sort", 1e5), ("dot", 2e6)))

    def main(bsp: pybsp.BSP) -> Any:
        halves = bsp.split(bsp.pid % 2)
        for _ in range(2):
            with halves as part:
                part.sync()
                part.work(1000.0 * (part.pid + 1))
                part.work(200.0 - 100.0 * (part.pid > 0), kind="sort")
                part.sync()
                if asks:
                    part.ledger  # noqa: B018 - rows that are combined are of all its processors
                part.work(3000.0)
                part.sync()
                with part.split(0) as inner:
                    inner.work(500.0, kind="dot")
                    inner.sync()
                part.sync()
            if asks:
                bsp.ledger  # noqa: B018 - what is combined is so for good
            bsp.sync()
        total = bsp.ledger.total
        assert total.parts is not None
        return [one.charged for one in bsp.ledger.parts.values()], total.parts.charged, total.charged

    largest = -(-spmd.p // 2)
    of_sort = max([1000 / 1e6 + 200 / 1e5, *(1000 * n / 1e6 + 100 / 1e5 for n in range(2, largest + 1))])
    of_one = of_sort + 3000 / 1e6 + 500 / 2e6
    for of_each, total, of_the_whole in spmd(main, machine=machine):
        assert of_each == pytest.approx([of_one, of_one])
        assert total == pytest.approx(2 * of_one)
        assert of_the_whole == 0.0


def test_charged_is_what_the_work_of_one_processor_takes(spmd: Spmd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pybsp.ledger.log, "_GATHERED", 2 * spmd.p)  # rows of a round: 2 on each
    machine = pybsp.BSPMachine(p=spmd.p, g=1e-9, l=1e-6, r=1e6, rates=(("sort", 1e7), ("dot", 1e5)))
    works = [(0, "dot"), (3000, ""), (20000, "sort"), (100, "dot"), (700, "unknown"), (2500, "")]

    def of(pid: int, step: int) -> list[tuple[int, str]]:
        return [works[(pid + step) % 6], works[(pid * step) % 6]]

    def main(bsp: pybsp.BSP) -> Any:
        for step in range(5 * bsp.p):
            for flops, kind in of(bsp.pid, step):
                bsp.work(flops, kind=kind)
            bsp.sync()
        bsp.work(1000, kind="ab"[bsp.pid % 2])
        bsp.sync()
        return [record.charged for record in bsp.ledger]

    def seconds(flops: int, kind: str) -> float:
        return flops / {"sort": 1e7, "dot": 1e5}.get(kind, 1e6)

    expected = [
        max(sum(seconds(*work) for work in of(pid, step)) for pid in range(spmd.p)) for step in range(5 * spmd.p)
    ]
    for found in spmd(main, machine=machine):
        assert found == pytest.approx([*expected, 1e-3])


def test_a_rate_is_measured_where_all_charge_that_kind_alone(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.work(1000, kind="sort" if bsp.pid == 0 else "")
        bsp.sync()
        bsp.work(1000, kind="count")
        bsp.sync()
        return set(bsp.ledger.rates)

    assert spmd(main) == [{"sort", "count"} if spmd.p == 1 else {"count"}] * spmd.p


def test_a_rate_is_measured_where_parts_compute_nothing(spmd: Spmd) -> None:
    machine = pybsp.BSPMachine(p=spmd.p, g=1e-9, l=1e-6, r=1e6, rates=(("sort", 1e5), ("count", 2e6)))

    def main(bsp: pybsp.BSP) -> Any:
        halves = bsp.split(bsp.pid % 2)
        for kind in "sort", "count":
            with halves as part:
                if kind == "sort":
                    part.work(9e6)
                    part.sync()
                part.work(1e3, kind=kind)  # of the whole's superstep
            bsp.sync()
        return bsp.ledger.rates, bsp.ledger.virtual

    for rates, virtual in spmd(main, machine=machine):
        assert set(rates) == {"count"}
        assert not virtual or rates["count"] == pytest.approx(2e6)


def test_a_kind_of_work_that_is_no_text_is_an_error(spmd: Spmd) -> None:
    for error in spmd(lambda bsp: caught(bsp.work, 1.0, kind=3)):
        assert error.kind is pybsp.UsageError
        assert error.text.startswith("bsp.work: argument kind: expected a text")
