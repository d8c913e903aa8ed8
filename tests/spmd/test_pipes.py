"""Broadcasts of arrays that have no room on the board, nor beside it: where all meet on one they go through a pipe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.collectives import allreduce, broadcast, small_spreads
from pybsp.rides.shown import ELSEWHERE
from pybsp.transport import overflow
from pybsp.transport.pipe import PIECE, RING
from pybsp.ways import BY_RECORD
from tests.conftest import Spmd

from ..costs import charged, counted
from .programs import LONG, caught, plain

SIZES = (LONG - 2, LONG, PIECE // 8 * 3, PIECE // 8 * 3 + 1, RING // 8, RING // 8 + 1, RING // 4 + 5)


@pytest.fixture(autouse=True)
def nothing_lies_beside_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overflow, "MOST", -1)


def test_long_arrays_arrive_whatever_their_size_and_whoever_has_them(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for number, size in enumerate(SIZES * 2):
            root = number % bsp.p
            value = np.arange(size) * (number + 1)
            got = broadcast(bsp, value if bsp.pid == root else None, root)
            found.append(np.array_equal(got, value) and got.flags.writeable and got.dtype == value.dtype)
            got[:] = -1  # it is this processor's own
        return found

    assert spmd(main) == [[True] * 2 * len(SIZES)] * spmd.p


def test_groups_have_theirs_beside_each_other(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(range(bsp.pid % 2, bsp.p, 2))
        found = []
        for number, size in enumerate(SIZES):
            # The group of the even ones has others' sizes, and one that takes more supersteps.
            mine = size if bsp.pid % 2 else SIZES[-number]
            root = number % group.p
            value = np.arange(mine) * (number + 1) - bsp.pid % 2
            got = broadcast(group, value if group.pid == root else None, root)
            found.append(np.array_equal(got, value))
            if number % 3 == 0 and not bsp.pid % 2:
                got = broadcast(group, value if group.pid == root else None, root, degree=2)
            elif number % 3 == 0:
                got = broadcast(group, value if group.pid == root else None, root)
            found.append(np.array_equal(got, value) and got.flags.writeable)
            found.append(broadcast(bsp, np.full(RING // 8 + 1, number) if bsp.pid == 0 else None)[-1] == number)
        return all(found), {record.label: record.ways for record in bsp.ledger}

    results = spmd(main)
    assert all(found for found, _ in results)
    assert all(ways == results[0][1] for _, ways in results)


def test_one_after_the_other_from_one_processor(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        value, root = np.zeros(RING // 4), bsp.p - 1
        found = []
        for number in range(20):
            if bsp.pid == root:
                value[:] = number
            broadcast(bsp, value, root, out=value)
            found.append(bool((value == number).all()))
        return all(found)

    assert spmd(main) == [True] * spmd.p


def test_what_is_there_and_what_is_on_its_way_stays(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        p, pid = bsp.p, bsp.pid
        after = (pid + 1) % p
        bsp.send(after, np.full(LONG, pid))
        bsp.sync()
        came = bsp.inbox[0].payload
        bsp.send(after, np.full(LONG, -pid))
        ticket = allreduce.start(bsp, np.full(LONG, pid), np.add, degree=2)
        spread = broadcast(bsp, np.arange(2 * LONG) if pid == p - 1 else None, p - 1)
        still = bool((came == (pid - 1) % p).all())
        total = ticket.finish()
        bsp.sync()
        return still, int(spread.sum()), int(total[-1]), int(bsp.inbox[0].payload[-1])

    p = spmd.p
    total = LONG * (2 * LONG - 1)
    assert spmd(main) == [(True, total, p * (p - 1) // 2, -((pid - 1) % p)) for pid in range(p)]


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for _ in range(2):
            broadcast(bsp, np.zeros(LONG + 1) if bsp.pid == 0 else None)
        bsp.sync()
        cost = broadcast.cost(bsp.machine, LONG + 1)
        return counted(bsp.ledger, work=False), charged(cost + cost, work=False)

    for counts, cost in spmd(main):
        assert counts == cost


def test_what_has_to_go_with_something_else_goes_through_none(spmd: Spmd) -> None:
    """And all else does, where there is one."""

    def main(bsp: pybsp.BSP) -> Any:
        shown = bsp._superstep.shown
        piped = shown is not None and shown.pipe() != ELSEWHERE
        ways = []
        for declares in False, True, False:
            if declares:
                bsp.array(3)
            before = len(bsp.ledger)
            broadcast(bsp, np.zeros(LONG) if bsp.pid == 0 else None)
            ways.append({record.ways for record in bsp.ledger[before:]})
        return piped, ways

    machine = pybsp.BSPMachine(p=spmd.p, g=1e-9, l=1.0, r=1e9)  # on which one superstep is the cheapest
    for piped, (alone, beside, again) in spmd(main, machine=machine):
        assert alone == again
        assert (alone == {BY_RECORD}) == piped
        assert BY_RECORD not in beside


def test_parts_have_their_own(spmd: Spmd) -> None:
    """One after the other, each left at once: whoever is late still copies what another part is done with."""

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        kept = bsp.split(bsp.pid % 2)
        for number in range(6):
            for split in (kept, bsp.split(bsp.pid // 2)):
                with split as part:
                    value = np.full(RING // 8 + number, number) if part.pid == 0 else None
                    got = broadcast(part, value)
                found.append(len(got) == RING // 8 + number and bool((got == number).all()))
        return all(found)

    assert spmd(main) == [True] * spmd.p


@pytest.mark.whole
def test_arrays_of_all_kinds(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        values: list[Any] = [
            np.arange(2 * LONG, dtype=">i4").reshape(2, -1, order="F"),
            np.arange(4 * LONG).reshape(-1, 4)[::2, 1:3],
            np.zeros((9 * LONG,), bool),
            np.arange(LONG) * 1j,
            np.arange(LONG).astype("M8[s]"),
            np.zeros(LONG, [("a", "i4"), ("b", "f8")]),
        ]
        values[0].flags.writeable = False
        return [plain(broadcast(bsp, value if bsp.pid == 0 else None)) == plain(value) for value in values]

    assert spmd(main) == [[True] * 6] * spmd.p


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(2 * LONG, np.int8)])
def test_an_array_for_the_result_that_does_not_fit_is_said(spmd: Spmd, wrong: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        out = None if bsp.pid == 0 else wrong
        error = caught(broadcast, bsp, np.zeros(2 * LONG) if bsp.pid == 0 else None, out=out)
        return error.kind, error.text, broadcast(bsp, bsp.pid)

    for pid, (kind, text, still) in enumerate(spmd(main)):
        assert kind is (None if pid == 0 else pybsp.UsageError)
        assert still == 0
        if pid:
            assert text.startswith("broadcast: argument out: expected an array of the result's shape")


def broadcast_for_which_there_is_no_room(bsp: pybsp.BSP, error: Exception) -> None:
    """A long broadcast, where the last processor raises the error when it makes room for what comes."""

    def raising(*_: Any) -> Any:
        raise error

    room = vars(small_spreads)["room"]
    if bsp.pid == bsp.p - 1:
        vars(small_spreads)["room"] = raising
    try:
        broadcast(bsp, np.zeros(RING) if bsp.pid == 0 else None)
    finally:
        vars(small_spreads)["room"] = room


def test_who_has_no_memory_for_what_comes_keeps_nobody_waiting(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        try:
            broadcast_for_which_there_is_no_room(bsp, MemoryError("none is left"))
            raise MemoryError("none is left")  # where they do not all meet on one board
        except MemoryError:
            pass  # a program that goes on
        bsp.sync()
        raise MemoryError("none is left")

    for error in spmd.errors(main):
        assert isinstance(error, (MemoryError, pybsp.BSPError))


def test_what_is_raised_in_a_pipe_ends_the_run_of_all(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        wrong = ZeroDivisionError("raised in a pipe")
        broadcast_for_which_there_is_no_room(bsp, wrong)
        if bsp.pid == bsp.p - 1:
            raise wrong  # where they do not all meet on one board
        bsp.sync()

    errors = spmd.errors(main)
    for pid, error in enumerate(errors):
        assert isinstance(error, ZeroDivisionError if pid == len(errors) - 1 else pybsp.ProcessorError)
        assert "raised in a pipe" in str(error)
