"""split: BSP machines of a subset of the processors, which synchronise independently, and nest."""

from __future__ import annotations

import contextlib
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.ledger.ledger_file import read
from pybsp.ledger.log import Log
from pybsp.supersteps.superstep import SuperstepEngine
from tests.conftest import Spmd

from ..costs import in_file
from .programs import caught


def test_equal_colors_make_one_part_ordered_by_pid(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 3) as part:
            part.send((part.pid + 1) % part.p, bsp.pid)
            part.sync()
            return part.p, part.pid, [m.payload for m in part.inbox], part.machine.p

    for pid, (p, number, inbox, machine_p) in enumerate(spmd(main)):
        members = list(range(pid % 3, spmd.p, 3))
        assert (p, members[number], machine_p) == (len(members), pid, len(members))
        assert inbox == [members[number - 1]]


def test_any_hashable_value_is_a_color_and_none_is_no_part(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        colors = [None, "red", ("a", 1), 2.5]
        with bsp.split(colors[bsp.pid % 4]) as part:
            inside = part and (part.p, part.pid)
        bsp.send(0, 1)  # the whole goes on, for those without a part too
        bsp.sync()
        return inside, len(bsp.inbox), caught(bsp.split, [1])

    for pid, (inside, messages, error) in enumerate(spmd(main)):
        members = list(range(pid % 4, spmd.p, 4))
        assert inside == (None if pid % 4 == 0 else (len(members), members.index(pid)))
        assert messages == (spmd.p if pid == 0 else 0)
        assert error.kind is pybsp.UsageError
        assert error.text.startswith("bsp.split: argument color: expected a hashable value, got list")


def test_the_key_orders_the_processors_of_a_part_then_pid(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        numbers = []
        for key in (-bsp.pid, bsp.pid % 2, 7, None, f"{99 - bsp.pid}"):
            with bsp.split(0, key) as part:
                numbers.append(part.pid)
        return numbers

    p = spmd.p
    evens_first = [*range(0, p, 2), *range(1, p, 2)]
    for pid, numbers in enumerate(spmd(main)):
        assert numbers == [p - 1 - pid, evens_first.index(pid), pid, pid, p - 1 - pid]


def test_keys_that_do_not_compare_are_an_error_on_every_processor(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(0, "a" if bsp.pid else 1):
            bsp.work(1)

    errors = spmd.errors(main)
    if spmd.p == 1:
        assert errors == [None]
    else:
        assert all(isinstance(error, pybsp.BSPError) for error in errors)
        assert "bsp.split: argument key: expected keys that compare" in str(errors[0])


def test_parts_synchronise_independently_a_different_number_of_times(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        color = bsp.pid % 3
        got = []
        with bsp.split(color) as part:
            for k in range(5 * color + 1):
                part.send((part.pid + 1) % part.p, (color, k))
                part.sync()
                got += [m.payload for m in part.inbox]
        bsp.send((bsp.pid + 1) % bsp.p, color)
        bsp.sync()
        return got, [m.payload for m in bsp.inbox]

    for pid, (got, after) in enumerate(spmd(main)):
        assert got == [(pid % 3, k) for k in range(5 * (pid % 3) + 1)]
        assert after == [(pid - 1) % spmd.p % 3]


def test_parts_nest(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        trail = []
        with bsp.split(bsp.pid % 2) as half:
            half.send(0, bsp.pid)
            half.sync()
            trail.append([m.payload for m in half.inbox])
            with half.split(half.pid // 2) as pair:
                pair.send(pair.p - 1, ("pair", bsp.pid))
                pair.sync()
                trail.append([m.payload for m in pair.inbox])
                with pair.split(pair.pid) as alone:
                    alone.send(0, "me")
                    alone.sync()
                    trail.append([alone.p, len(alone.inbox)])
                pair.send(0, "back")
                pair.sync()
                trail.append([len(pair.inbox)])
            half.send(half.p - 1, 1)
            half.sync()
            trail.append([len(half.inbox)])
        return trail

    for pid, trail in enumerate(spmd(main)):
        half = list(range(pid % 2, spmd.p, 2))
        me = half.index(pid)
        pair = half[me // 2 * 2 : me // 2 * 2 + 2]
        assert trail == [
            half if me == 0 else [],
            [("pair", other) for other in pair] if pid == pair[-1] else [],
            [1, 1],
            [len(pair) if pid == pair[0] else 0],
            [len(half) if me == len(half) - 1 else 0],
        ]


def test_parts_have_arrays_and_queues_of_their_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            x, q = part.array(part.p, np.int64), part.queue(np.int64)
            q.send(np.arange(part.p), bsp.pid)
            part.sync()
            first = q.values.tolist()
            for dest in range(part.p):
                x.put(dest, bsp.pid, at=part.pid)
            ticket = x.get(part.p - 1)
            part.sync()
            return first, x.local.tolist(), ticket.value.tolist()

    for pid, (first, local, old) in enumerate(spmd(main)):
        members = list(range(pid % 2, spmd.p, 2))
        assert first == local == members
        assert old == [0] * len(members)


def test_many_splits_one_after_the_other(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        total = 0
        for k in range(30):
            with bsp.split((bsp.pid + k) % (1 + k % 3)) as part:
                part.send(0, 1)
                part.sync()
                total += len(part.inbox)
        return total

    results = spmd(main)
    assert sum(results) == 30 * spmd.p


def test_using_the_parent_inside_the_block_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, q = bsp.array(1), bsp.queue(np.int64)
        bsp.sync()
        with bsp.split(bsp.pid % 2) as part:
            errors = [
                caught(bsp.sync),
                caught(bsp.send, 0, 1),
                caught(x.put, 0, 1.0),
                caught(x.get, 0),
                caught(x.free),
                caught(q.send, 0, 1),
                caught(q.send, [0], [1]),
                caught(bsp.array, 1),
                caught(bsp.queue),
                caught(lambda: bsp.ledger),
                caught(lambda: bsp.split(0)),
                caught(bsp.superstep("x").__enter__),
            ]
        bsp.sync()  # usable again
        return errors, caught(part.sync), caught(part.send, 0, 1), len(bsp.inbox), len(q)

    for errors, sync_after, send_after, messages, items in spmd(main):
        for error in errors:
            assert error.kind is pybsp.UsageError
            assert "a part made by bsp.split is in use" in error.text
        assert sync_after.kind is send_after.kind is pybsp.UsageError
        assert "ended" in sync_after.text
        assert (messages, items) == (0, 0)


def test_something_sent_before_split_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.send(0, 1)
        error = caught(lambda: bsp.split(0).__enter__())
        bsp.sync()
        return error, len(bsp.inbox)

    for pid, (error, messages) in enumerate(spmd(main)):
        assert error.kind is pybsp.UsageError
        assert error.text.startswith("bsp.split: ")
        assert messages == (spmd.p if pid == 0 else 0)


def test_something_sent_in_a_part_after_its_last_sync_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(0) as part:
            if part.pid == part.p - 1:
                part.send(0, 1)
        bsp.sync()

    errors = spmd.errors(main)
    assert type(errors[-1]) is pybsp.UsageError
    assert "after the last sync" in str(errors[-1])
    assert [type(error) for error in errors[:-1]] == [pybsp.ProcessorError] * (spmd.p - 1)


def test_an_error_inside_a_part_fails_everybody(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(bsp.pid % 2) as part:
            part.sync()
            if bsp.pid == bsp.p - 1:
                raise LookupError("lost")
            part.sync()
        bsp.sync()
        bsp.sync()

    errors = spmd.errors(main)
    assert type(errors[-1]) is LookupError
    for error in errors[:-1]:
        assert type(error) is pybsp.ProcessorError
        assert "LookupError: lost" in str(error)


def test_a_part_whose_processors_do_different_things_fails_everybody(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(bsp.pid // 2) as part:
            if bsp.pid == 1:
                part.sync()
        bsp.sync()

    errors = spmd.errors(main)
    if spmd.p == 1:
        assert errors == [None]
        return
    assert [type(error) for error in errors[:2]] == [pybsp.SyncError] * 2
    assert all(isinstance(error, pybsp.ProcessorError) for error in errors[2:])
    assert "test_split.py:" in str(errors[0])


def test_one_splits_while_the_others_sync(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            with bsp.split(0):
                pass
        else:
            bsp.sync()

    errors = spmd.errors(main)
    if spmd.p == 1:
        assert errors == [None]
        return
    assert [type(error) for error in errors] == [pybsp.SyncError] * spmd.p
    for error in errors:
        assert "called bsp.sync()" in str(error)
        assert f"processor {spmd.p - 1} called bsp.split()" in str(error)
        assert "test_split.py:" in str(error)


def test_leaving_the_block_early_by_return(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def inner() -> int:
            with bsp.split(bsp.pid % 2) as part:
                return int(part.p)

        size = inner()
        bsp.sync()
        return size

    assert spmd(main) == [len(range(pid % 2, spmd.p, 2)) for pid in range(spmd.p)]


def test_keys_that_are_false_are_keys(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> int:
        with bsp.split("all", key="" if bsp.pid == bsp.p - 1 else "a") as part:
            return int(part.pid)

    assert spmd(main) == [*range(1, spmd.p), 0]


class Own:
    """An object that equals itself alone."""


OWN = Own()


def test_a_color_that_cannot_be_sent_or_does_not_equal_its_copies_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[Any]:
        found = [caught(bsp.split, lambda: 0), caught(bsp.split, 0, key=lambda: 0)]
        found += [caught(bsp.split, color) for color in (np.nan, (np.nan, 1), frozenset([np.nan]), OWN)]
        bsp.sync()
        return found

    for found in spmd(main):
        assert [error.kind for error in found] == [pybsp.UsageError] * 6
        assert all("pickled" in error.text for error in found[:2])
        assert all("argument color: expected a value that equals a copy of it" in error.text for error in found[2:])


def test_what_is_made_after_a_part_counts_for_the_next_sync_alone(spmd: Spmd) -> None:
    """A virtual processor is out of its part, and makes an array, before others have looked at who is in which."""

    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid) as part:
            part.sync()
        array = bsp.array(bsp.pid)
        bsp.sync()
        return array.shapes

    assert spmd(main) == [[(pid,) for pid in range(spmd.p)]] * spmd.p


def test_a_part_is_kept_and_entered_again_without_a_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        halves = bsp.split(bsp.pid % 2)
        lone = bsp.split(0 if bsp.pid == bsp.p - 1 else None)
        made = len(bsp.ledger)
        totals = []
        for k in range(6):
            bsp.send((bsp.pid + 1) % bsp.p, k)  # stays pending while the part goes on
            with halves as part:
                queue = part.queue(np.int64)
                queue.send(0, bsp.pid + k)
                part.sync()
                totals.append(int(queue.values.sum()))
                with part.split(0, -part.pid) as turned:
                    turned.sync()
            with lone as single:
                assert (single is None) == (bsp.pid < bsp.p - 1)
            bsp.sync()
            assert [message.payload for message in bsp.inbox] == [k]
        return totals, made, len(bsp.ledger), caught(part.sync)

    for pid, (totals, made, supersteps, error) in enumerate(spmd(main)):
        members = list(range(pid % 2, spmd.p, 2))
        assert totals == [sum(members) + k * len(members) if pid == members[0] else 0 for k in range(6)]
        assert (made, supersteps) == (2, 8)
        assert "enter it by `with part as machine:`" in error.text


def test_kept_parts_that_overlap_are_entered_in_turns(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        pairs = [bsp.split((bsp.pid + shift) // 2) for shift in range(2)]
        found = []
        for _ in range(3):
            for pair in pairs:
                with pair as part:
                    part.send(0, bsp.pid)
                    part.sync()
                    found.append([message.payload for message in part.inbox])
        return found

    for pid, found in enumerate(spmd(main)):
        expected = []
        for shift in range(2):
            members = [q for q in range(spmd.p) if (q + shift) // 2 == (pid + shift) // 2]
            expected.append(members if pid == members[0] else [])
        assert found == expected * 3


@pytest.mark.parametrize("how", ["raised in it", "sent last"])
def test_a_kept_part_that_failed_is_not_entered_again(spmd: Spmd, how: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        kept, machine = bsp.split(0), bsp

        def use(fails: bool) -> None:
            nonlocal machine
            with kept as machine:
                if fails and how == "sent last":
                    machine.send(0, "never synced")
                elif fails:
                    raise ValueError("mine")
                else:
                    machine.sync()

        first = caught(use, bsp.pid == 0)
        bsp.sync()
        again = caught(use, False), caught(machine.sync)
        with bsp.split(0) as another:
            another.send(0, bsp.pid)
            another.sync()
            return first, again, len(another.inbox)

    for pid, (first, again, received) in enumerate(spmd(main)):
        kinds = [ValueError if how == "raised in it" else pybsp.UsageError, pybsp.ProcessorError]
        assert first.kind is kinds[pid > 0]
        assert again[0].text.startswith(f"bsp.split: this part failed ({first.kind.__name__}: ")
        assert again[0].text.endswith(") and is not entered again; make another by bsp.split")
        assert again[1].text.startswith("bsp.sync: the part has failed")
        assert received == (0 if pid else spmd.p)


@pytest.mark.parametrize("how", ["in the part", "in another part", "left already", "ended already"])
def test_one_in_a_kept_part_and_another_elsewhere_is_an_error_on_all(spmd: Spmd, how: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor waits for nobody")

    def main(bsp: pybsp.BSP) -> None:
        ends = 0 if bsp.pid in (0, bsp.p - 1) else None
        kept, other = bsp.split(ends), bsp.split(ends)
        with kept:
            pass
        if bsp.pid == bsp.p - 1:
            with kept as part:
                if how != "left already":
                    part.sync()
        elif bsp.pid == 0 and how == "in another part":
            with other as part:
                part.sync()
        elif how == "ended already":
            return
        bsp.sync()

    spmd(enters_parts_late)  # what a run before has said of where it is, is over
    errors = spmd.errors(main)
    assert all(isinstance(error, pybsp.SyncError) for error in errors)
    assert all("wait for each other in different machines" in str(error) for error in errors)
    assert ["superstep 9" in str(error) for error in errors] == [False] * spmd.p, errors[0]


def test_waits_that_cross_are_found_beside_parts_that_nobody_has_entered(spmd: Spmd) -> None:
    """Their boards begin where earlier parts of some of their processors have ended, which others never were in."""
    if spmd.p < 3:
        pytest.skip("one is in the earlier part, one in the later one, and one in both")

    def main(bsp: pybsp.BSP) -> None:
        last = bsp.p - 1
        with bsp.split(0 if bsp.pid < last else None) as part:
            for _ in range(3 * (part is not None)):
                part.sync()
        del part
        ends = 0 if bsp.pid in (0, last) else None
        idle = bsp.split(ends), bsp.split(ends)
        pair = bsp.split(ends)
        if bsp.pid == 0:
            with pair as part:
                part.sync()
        bsp.sync()
        assert idle

    errors = spmd.errors(main)
    assert all("wait for each other in different machines" in str(error) for error in errors), errors


@pytest.mark.parametrize("how", ["chained", "by an operator", "handled"])
def test_a_failure_in_a_part_that_came_while_another_was_handled_stays_in_the_part(spmd: Spmd, how: str) -> None:
    def divided(a: float, b: float) -> float:
        raise ZeroDivisionError

    def fail(part: pybsp.BSP) -> None:
        if how == "by an operator":
            collectives.allreduce(part, 1.0, divided)
        elif part.pid == 0:
            try:
                int("x")
            except ValueError:
                if how == "chained":
                    raise KeyError("boom") from None
                part.send(part.p, 1)  # to nobody
        part.sync()

    def main(bsp: pybsp.BSP) -> Any:
        found = "done"
        try:
            with bsp.split(bsp.pid % 2) as part:
                if bsp.pid % 2 and (part.p > 1 or how != "by an operator"):
                    fail(part)
                part.sync()
        except Exception as error:
            found = type(error).__name__
        bsp.sync()
        return found

    found = spmd(main)
    assert found[::2] == ["done"] * len(found[::2])
    of_op = len(found[1::2]) > 1 or how != "by an operator"
    assert all((one == "done") != of_op for one in found[1::2])


def test_an_exception_as_a_part_is_left_leaves_the_whole_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(log: Log) -> dict[str, float]:
        raise TimeoutError("of a signal's handler")

    def main(bsp: pybsp.BSP) -> Any:
        with pytest.raises(TimeoutError), bsp.split(0):
            monkeypatch.setattr(Log, "take_kinds", interrupted)
        monkeypatch.undo()
        return collectives.allreduce(bsp, 7, max)

    assert pybsp.simulate(main, p=1).results == [7]


def test_the_context_of_a_part_that_others_may_still_be_in_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(engine: SuperstepEngine, error: BaseException) -> None:
        raise TimeoutError("the others did not come within the grace period")

    def main(bsp: pybsp.BSP) -> Any:
        parts: list[Any] = [bsp.split(0)]
        monkeypatch.setattr(SuperstepEngine, "report_failure", alone)
        with pytest.raises(ValueError, match="boom"), parts.pop():
            raise ValueError("boom")
        monkeypatch.undo()
        for _ in range(4):
            parts = [*parts[-1:], bsp.split(0)]
        return [part._part.context for part in parts], [part.context for part in bsp._superstep.parts.all.values()]

    ((kept, there),) = pybsp.simulate(main, p=1).results
    assert 1 not in there  # that of the part which failed
    assert set(kept) <= set(there)


@pytest.mark.whole
def test_who_waits_in_a_kept_part_learns_of_a_failure_outside_of_it(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, pause: float) -> None:
        kept = bsp.split(0)
        bsp.sync()
        if bsp.pid == 0:
            time.sleep(pause)  # by now the others ask whom they wait for where that one waits
            raise ValueError("boom")
        with kept as part:
            part.sync()

    for pause in (0.15, 0.25, 0.5):
        errors = spmd.errors(main, pause)
        kinds = [type(error) for error in errors]
        assert kinds == [ValueError] + [pybsp.ProcessorError] * (spmd.p - 1), errors
        assert all("boom" in str(error) for error in errors)


@pytest.mark.whole
def test_who_waits_in_the_whole_learns_of_a_failure_in_a_kept_part(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        kept = bsp.split(0)
        if bsp.pid == 0:
            with kept as part:
                time.sleep(0.3)
                raise ValueError(f"boom on {part.p}")
        bsp.sync()

    kinds = [type(error) for error in spmd.errors(main)]
    assert kinds == [ValueError] + [pybsp.ProcessorError] * (spmd.p - 1)


@pytest.mark.whole
def test_waits_that_cross_are_found_after_failures_in_a_part_that_were_caught(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor waits for nobody")

    def main(bsp: pybsp.BSP) -> None:
        kept = bsp.split(0)
        with contextlib.suppress(ValueError), bsp.split(0) as part:
            with part.split(0) as inner:
                inner.sync()
            raise ValueError("on all, and caught on all")
        bsp.sync()
        if bsp.pid == 0:
            with kept as part:
                part.sync()
        bsp.sync()

    errors = spmd.errors(main)
    assert all("wait for each other in different machines" in str(error) for error in errors), errors


def enters_parts_late(bsp: pybsp.BSP) -> None:
    for _ in range(8):
        bsp.sync()
    with bsp.split(bsp.pid % 2) as part:
        part.sync()


def test_totals_have_what_parts_did_under_the_label_of_their_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for words in (1, 2):
            with bsp.superstep("split"), bsp.split(0) as part:
                part.send(0, np.zeros(10 * words))
                part.sync()
        with bsp.superstep("together"):
            bsp.send(0, 1.0)
        totals = {total.label: total.parts for total in bsp.ledger.totals()}
        whole = bsp.ledger.total.parts
        assert totals["split"] is not None
        assert totals["split"] == whole
        return totals["split"].supersteps, totals["split"].h, totals["together"]

    assert spmd(main) == [(2, 30 * (spmd.p - 1) if spmd.p > 1 else 0, None)] * spmd.p


def test_what_parts_did_stands_in_the_ledger_of_the_whole(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        halves = bsp.split(bsp.pid % 2)
        bsp.sync()
        before = bsp.ledger.parts
        with halves as part:
            for k in range(2 + bsp.pid % 2):
                part.work(100)
                part.send(0, np.zeros(10 * k))
                part.sync()
            asked = len(part.ledger)
            with part.split(0) as nested:
                nested.send(nested.p - 1, 1.0)
                nested.sync()
        bsp.sync()
        with halves as part:
            part.sync()
        bsp.sync()
        parts = bsp.ledger.parts
        records = list(bsp.ledger)
        assert [record.parts for record in records] == [parts.get(number) for number in range(len(records))]
        assert bsp.ledger[2].parts == parts[2]
        assert bsp.ledger.to_dict()["supersteps"][2]["parts"]["h"] == parts[2].h
        written = in_file(bsp.ledger)
        assert json.loads(json.dumps(written))["parts"]["2"]["supersteps"] == parts[2].supersteps
        assert parts[2].predicted > 0
        assert parts[2].measured > 0
        return before, asked, {number: totals[:5] for number, totals in parts.items()}

    p = spmd.p
    evens, odds = -(-p // 2) - 1, p // 2 - 1  # processors beside the one that gets all
    for pid, (before, asked, parts) in enumerate(spmd(main)):
        assert before == {}
        assert asked == 2 + pid % 2
        # With the split of the part, and that part's own superstep, in which its processor 0 gets all.
        counted = (2 + 2, 200, 10 * evens + evens), (3 + 2, 300, 30 * odds + odds)
        assert parts[2][:3] == tuple(max(column) for column in zip(*counted[: min(p, 2)], strict=True))
        assert parts[3] == (1, 0, 0, 0, 0)


def test_to_ask_for_the_ledger_between_two_stays_leaves_the_record_as_it_is(spmd: Spmd, tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, asks: bool) -> Any:
        halves = bsp.split(bsp.pid % 2)
        for supersteps in (2, 3, 1):
            with halves as part:
                for _ in range(supersteps + bsp.pid % 2):
                    part.work(10.0)
                    part.send(0, np.zeros(4))
                    part.sync()
            if asks:
                len(bsp.ledger)
        bsp.sync()
        with halves as part:
            part.sync()
        bsp.sync()
        return [one.parts and one.parts._replace(predicted=0, measured=0, seconds=0) for one in bsp.ledger]

    assert spmd(main, True) == spmd(main, False)
    found = spmd(main, True)[0]
    assert [None if one is None else one.supersteps for one in found] == [None, 6 + 3 * (spmd.p > 1), 1]


def test_what_parts_did_after_the_last_superstep_has_no_record_in_the_ledger(spmd: Spmd, tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            part.sync()
        early = bsp.ledger
        found = early.parts, early.total.parts, early.totals()[0].parts, len(early.to_dict()["labels"])
        if bsp.pid == 0:
            early.save(tmp_path / "ledger.json")
            (run,) = read(tmp_path / "ledger.json")["runs"]
            assert run["supersteps"].parts == {}
        bsp.sync()
        return found, bsp.ledger.parts[1].supersteps

    assert spmd(main) == [(({}, None, None, 1), 1)] * spmd.p


def test_work_after_the_last_superstep_of_a_part_is_of_the_wholes(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        halves = bsp.split(bsp.pid % 2)
        for work in (100, 7):
            with halves as part:
                part.work(work)
                part.sync()
                part.work(30 + bsp.pid)
            bsp.work(1000)
            bsp.sync()
        return [(record.work, record.parts.work) for record in bsp.ledger if record.parts is not None]

    most = 1030 + spmd.p - 1
    assert spmd(main) == [[(most, 100), (most, 7)]] * spmd.p


def test_virtual_time_counts_work_after_the_last_superstep_of_a_part_once() -> None:
    def main(bsp: pybsp.BSP) -> float:
        with bsp.split(0) as part:
            part.work(3e9)
        bsp.work(2e9)
        bsp.sync()
        return bsp.time()

    machine = pybsp.BSPMachine(p=2, g=0, l=0, r=1e9)
    assert pybsp.simulate(main, machine=machine).results == [5.0, 5.0]


def test_parts_groups_and_the_parents_record_take_a_machine_that_has_an_exchange_of_its_own() -> None:
    alone = pybsp.BSPMachine(p=4, g=1e-9, l=1e-6, r=1e9)
    machine = pybsp.BSPMachine(p=4, g=2e-9, l=2e-6, r=1e9, exchange=alone)

    def main(bsp: pybsp.BSP) -> tuple[float, ...]:
        with bsp.split(bsp.pid % 2) as part:
            part.send(0, 1.0)
            part.sync()
            of_part = part.machine
        machines = of_part, bsp.grid(2, 2).row.machine
        bsp.sync()
        assert len(bsp.ledger) > 0
        return tuple(one.exchange.g for one in machines if isinstance(one, pybsp.BSPMachine) and one.exchange)

    assert pybsp.simulate(main, p=4, machine=machine).results == [(1e-9, 1e-9)] * 4


@pytest.mark.whole
def test_the_exchanges_of_parts_are_no_computing_of_the_superstep_around_them(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        halves = bsp.split(bsp.pid % 2)
        with halves as part:
            for _ in range(3):
                part.work(1e6)
                time.sleep(0.02 * (part.pid == 0))  # computing of one, for which the others of its part wait
                part.send((part.pid + 1) % part.p, np.zeros(10))
                part.sync()
            with part.split(0) as nested:
                nested.sync()
        bsp.sync()
        bsp.sync()
        return bsp.ledger[1], bsp.ledger.total

    for record, total in spmd(main):
        parts = record.parts
        assert parts is not None
        assert total.parts == parts
        # Were exchanges of parts computing, for which others wait thrice, it would be 40 ms less. Beside other work
        # those of a part leave its exchanges one after the other, so that what they compute overlaps.
        assert record.exchange >= (-0.02 if spmd.mpi else 0)
        assert parts.exchange >= (-0.02 if spmd.mpi else 0)
        assert record.seconds >= parts.seconds
        assert parts.exchange_predicted > 0
        assert record.exchange_predicted > parts.exchange_predicted
        assert record.predicted == pytest.approx(record.seconds + record.exchange_predicted)


def test_waiting_and_exchanges_in_parts_are_exchange_of_the_whole() -> None:
    def main(bsp: pybsp.BSP) -> None:
        halves = bsp.split(bsp.pid % 2)
        bsp.work(5e8)
        for stay in range(2):
            with halves as part:
                for _ in range(2):
                    part.work(1e9 * (part.pid == stay))  # each computes while the other waits
                    part.send(0, np.zeros(10 * part.pid))
                    part.sync()
                with part.split(0) as nested:
                    nested.sync()
                part.work(1e8)
        bsp.sync()

    machine = pybsp.BSPMachine(p=4, g=0.125, l=2.0, r=1e9)
    record = pybsp.simulate(main, machine=machine).ledger[1]
    parts = record.parts
    assert parts is not None
    assert parts.supersteps == 8
    assert parts.seconds == pytest.approx(4.0)
    assert parts.exchange == pytest.approx(parts.exchange_predicted)
    assert parts.exchange == pytest.approx(8 * 2.0 + 4 * 1.25)
    # One's computing is 0.5, twice 1.0 and twice 0.1; the parts' longest 4.0 in all.
    assert record.seconds == pytest.approx(4.0)
    assert record.measured == pytest.approx(0.5 + parts.measured + 0.2 + 2.0)
    assert record.exchange_predicted == pytest.approx(parts.exchange + 2.0)


@pytest.mark.parametrize("cost", ["sum", "max"])
@pytest.mark.parametrize("seed", range(12))
def test_what_parts_of_parts_did_is_predicted_and_measured_once(seed: int, cost: str) -> None:
    """All processors compute alike; how often, and what, they exchange depends on the part that they are in."""

    def supersteps(machine: Any, draw: random.Random, depth: int) -> None:
        for _ in range(draw.randrange(1, 4)):
            machine.work(draw.randrange(5) * 1e6)
            for _ in range(draw.randrange(3) if depth else 0):
                color = [0, machine.pid % 2, machine.pid // 2][draw.randrange(3)]
                with machine.split(color) as part:
                    supersteps(part, draw, depth - 1)
                    for _ in range(color):
                        part.send(0, np.zeros(1000 * color))
                        part.sync()
                    if draw.random() < 0.3:
                        assert len(part.ledger)
                    if draw.random() < 0.5:
                        with part.split(0) as last:  # after the last superstep of the part around it
                            last.work(1e6)
                            last.sync()
            machine.sync()

    def main(bsp: pybsp.BSP) -> None:
        supersteps(bsp, random.Random(seed), 3)

    simulation = pybsp.simulate(main, machine=pybsp.BSPMachine(p=5, g=1e-7, l=1e-4, r=1e9, cost=cost))
    assert simulation.ledger.predicted == pytest.approx(simulation.time)
    assert simulation.ledger.measured == pytest.approx(simulation.time)
    for number, parts in simulation.ledger.parts.items():
        record = simulation.ledger[number]
        assert parts.exchange == pytest.approx(parts.exchange_predicted, abs=1e-12)
        assert record.exchange == pytest.approx(record.exchange_predicted, abs=1e-12)
        assert record.waiting == pytest.approx(0, abs=1e-12)


def test_what_is_computed_in_parts_of_parts_counts_once(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        stays = bsp.split(0)
        begin = time.perf_counter()
        with stays as outer:
            with outer.split(0) as middle:
                with middle.split(0) as inner:
                    while bsp.pid == 0 and time.perf_counter() < begin + 0.05:
                        pass
                    inner.sync()
                middle.sync()
                assert len(middle.ledger) == 2
                with middle.split(0) as inner:  # after the last superstep of the part around it
                    inner.sync()
            outer.sync()
        bsp.sync()
        passed = time.perf_counter() - begin
        return bsp.ledger[1], passed

    records, passed = zip(*spmd(main, **({} if spmd.mpi else {"measure": True})), strict=True)
    for record in records:
        assert record.parts.supersteps == 7  # with the splits of parts
        # What was computed was counted three times.
        assert record.parts.seconds <= record.seconds < 2 * max(passed)
        assert record.parts.measured < 2 * max(passed)


def test_contexts_are_used_again(spmd: Spmd) -> None:
    """Those of parts that others follow in their place, and those that some processors forget late."""

    def context_of(part: Any) -> int:
        return int(part._part.context)

    def main(bsp: pybsp.BSP) -> tuple[list[int], list[int]]:
        one_after_the_other, all_at_once = [], []
        for _ in range(10):
            part = bsp.split(0)  # the one before is forgotten when there is this one
            one_after_the_other.append(context_of(part))
        parts = [bsp.split(bsp.pid % 2) for _ in range(5)]
        if bsp.pid % 3:
            parts.clear()
        for _ in range(3):
            part = bsp.split(0)
            all_at_once.append(context_of(part))
        parts.clear()
        for _ in range(4):
            part = bsp.split(None if bsp.pid == bsp.p - 1 else 0)
            with part as machine:
                if machine is not None:
                    machine.send(0, bsp.pid)
                    machine.sync()
                    all_at_once.append(context_of(part))
        return one_after_the_other, all_at_once

    for pid, (one_after_the_other, all_at_once) in enumerate(spmd(main)):
        assert set(one_after_the_other) == {1, 2}
        assert max(all_at_once[3:], default=0) <= 3 if pid < spmd.p - 1 else len(all_at_once) == 3
