"""From the beginning of a program to its end, good or bad: nothing hangs, and every processor learns what happened."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.runs import watch
from tests.conftest import Spmd

from .programs import caught


def test_nprocs_and_pid(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return bsp.p, bsp.pid, bsp.machine.p

    assert spmd(main) == [(spmd.p, pid, spmd.p) for pid in range(spmd.p)]


def test_arguments_and_results_are_each_processors_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, a: int, *rest: int, key: str) -> Any:
        return a, rest, key, bsp.pid

    assert spmd(main, 1, 2, 3, key="k") == [(1, (2, 3), "k", pid) for pid in range(spmd.p)]


def test_the_machine_is_that_of_the_argument_on_every_processor(spmd: Spmd) -> None:
    machine = pybsp.BSPMachine(p=spmd.p, g=0.1 + 0.2, l=1e-3, r=3.0)
    assert spmd(lambda bsp: bsp.machine, machine=machine) == [machine] * spmd.p


def test_run_may_be_called_any_number_of_times(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> int:
        bsp.send(0, 1)
        bsp.sync()
        return len(bsp.inbox)

    for _ in range(5):
        assert spmd(main) == [spmd.p] + [0] * (spmd.p - 1)


@pytest.fixture
def without_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watch._writer, "wrote", -watch.RECENTLY)  # the run writes down where it is as it begins
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_what_a_run_has_had_is_free_without_the_garbage_collector(spmd: Spmd) -> None:
    """That counts objects, and knows nothing of the bytes that one of them has."""
    seen: list[weakref.ref[Any]] = []

    def main(bsp: pybsp.BSP) -> None:
        array, queue, part = bsp.array(50), bsp.queue(), bsp.split(bsp.pid % 2)
        bsp.sync()
        pattern = array.pattern(0, np.arange(5))
        bsp.sync()
        queue.send(np.arange(bsp.p), np.ones(bsp.p))
        bsp.send((bsp.pid + 1) % bsp.p, np.ones(50_000))
        found, ticket = pattern.get(), collectives.allreduce.start(bsp, np.ones(3), np.add)
        with part as half:
            of_half = half.array(20)
            half.sync()
        collectives.allreduce(bsp, 1.0, np.add)
        bsp.sync()
        things = (bsp, array, array.local, queue, queue.values, part, half, of_half.local, pattern, found.value, ticket)
        seen.extend(map(weakref.ref, (*things, bsp.inbox[0].payload)))
        bsp.sync()

    spmd(main)
    assert len(seen) == 12 * (1 if spmd.mpi else spmd.p)
    assert [k for k, one in enumerate(seen) if one() is not None] == []


@pytest.mark.usefixtures("without_collector")
def test_a_part_that_failed_is_free_without_the_garbage_collector(spmd: Spmd) -> None:
    """What the program catches refers, by its traceback, to where the part was made."""
    seen: list[weakref.ref[Any]] = []

    def attempt(bsp: pybsp.BSP) -> tuple[int, Any]:
        halves: Any = bsp.split(0)
        context = halves._part.context
        try:
            with halves as part:
                seen.extend(map(weakref.ref, (halves, part, part._superstep.parts)))
                if bsp.pid == 0:
                    raise LookupError
                part.sync()
        except (LookupError, pybsp.ProcessorError) as error:
            return context, traceback.extract_tb(error.__traceback__)[0].name  # which stays the program's
        raise AssertionError

    def main(bsp: pybsp.BSP) -> Any:
        found = [attempt(bsp) for _ in range(5)]
        bsp.split(0)  # in which the last one is given back
        bsp.sync()
        return found, sum(one() is not None for one in seen)

    assert spmd(main) == [([(1, "attempt")] * 5, 0)] * spmd.p
    assert len(seen) == 15 * (1 if spmd.mpi else spmd.p)


@pytest.mark.parametrize("where", ["in the part", "after it"])
def test_no_part_outlives_a_run_that_failed(spmd: Spmd, where: str) -> None:
    seen: list[weakref.ref[Any]] = []

    def main(bsp: pybsp.BSP) -> None:
        halves: Any = bsp.split(0)
        for name, machine in (("in the part", halves), ("after it", nullcontext(bsp))):
            with machine as part:
                seen.append(weakref.ref(halves._part.parts))  # which nothing else refers to
                if bsp.pid == 0 and name == where:
                    raise LookupError
                part.sync()

    for _ in range(3):
        assert [error is None for error in spmd.errors(main)] == [False] * spmd.p
    gc.collect()
    assert [one() for one in seen] == [None] * len(seen)


def test_a_run_after_a_failed_one_begins_afresh(spmd: Spmd) -> None:
    def bad(bsp: pybsp.BSP) -> None:
        bsp.send(0, "of the failed run")
        if bsp.pid == bsp.p - 1:
            raise LookupError
        bsp.sync()

    def good(bsp: pybsp.BSP) -> int:
        bsp.sync()
        return len(bsp.inbox)

    assert None not in spmd.errors(bad)
    assert spmd(good) == [0] * spmd.p


@pytest.mark.parametrize("who", ["first", "last", "all but the last"])
def test_one_ended_while_the_others_sync_is_detected_on_every_processor(spmd: Spmd, who: str) -> None:
    """Sync mismatched with the end, on one and on all but one; the text says who did what, and at which line."""
    p = spmd.p
    ended = {"first": [0], "last": [p - 1], "all but the last": list(range(p - 1))}[who]

    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        if bsp.pid not in ended:
            with bsp.superstep("lonely"):
                pass

    errors = spmd.errors(main)
    if p == 1:
        assert errors == [None]
        return
    assert [type(error) for error in errors] == [pybsp.SyncError] * p
    texts = {str(error) for error in errors}
    assert len(texts) == 1
    (text,) = texts
    syncing = [pid for pid in range(p) if pid not in ended]
    assert f"{_pids(syncing)} called bsp.sync() in superstep 1" in text
    assert '"lonely"' in text
    assert "test_lifecycle.py:" in text
    assert f"{_pids(ended)} ended in superstep 1" in text


def _pids(numbers: list[int]) -> str:
    """As errors say it; the numbers are consecutive."""
    if len(numbers) == 1:
        return f"processor {numbers[0]}"
    return f"processors {numbers[0]}-{numbers[-1]}"


def test_sync_while_another_asks_for_the_ledger_is_detected_on_every_processor(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return bsp.sync() if bsp.pid else bsp.ledger

    errors = spmd.errors(main)
    if spmd.p == 1:
        assert errors == [None]
        return
    assert [type(error) for error in errors] == [pybsp.SyncError] * spmd.p
    assert "processor 0 asked for bsp.ledger (as all must, also where one prints it)" in str(errors[0])
    assert "called bsp.sync()" in str(errors[0])


@pytest.mark.parametrize("pid", ["first", "last"])
def test_one_raises_and_the_others_learn_who_what_and_where(spmd: Spmd, pid: str) -> None:
    failing = 0 if pid == "first" else spmd.p - 1

    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        with bsp.superstep("middle"):
            if bsp.pid == failing:
                raise ZeroDivisionError("by nothing")
        bsp.sync()

    errors = spmd.errors(main)
    assert type(errors[failing]) is ZeroDivisionError
    for number, error in enumerate(errors):
        if number != failing:
            assert isinstance(error, pybsp.ProcessorError)
            assert (error.pid, error.superstep, error.label) == (failing, 1, "middle")
            assert f'processor {failing} failed in superstep 1 ("middle"): ZeroDivisionError: by nothing' in str(error)


def test_several_raise_and_the_others_learn_of_the_lowest(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid % 2 == 1 or bsp.p == 1:
            raise KeyError(bsp.pid)
        bsp.sync()

    for pid, error in enumerate(spmd.errors(main)):
        if pid % 2 == 1 or spmd.p == 1:
            assert type(error) is KeyError
            assert error.args == (pid,)
        else:
            assert isinstance(error, pybsp.ProcessorError)
            assert error.pid == 1


def test_one_raises_when_the_others_have_ended(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            raise KeyError("late")

    errors = spmd.errors(main)
    assert type(errors[-1]) is KeyError
    assert [type(error) for error in errors[:-1]] == [pybsp.ProcessorError] * (spmd.p - 1)


def test_a_program_that_catches_the_error_cannot_go_on(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        if bsp.pid == bsp.p - 1:
            raise KeyError("gone")
        first = caught(bsp.sync)
        assert first.kind is pybsp.ProcessorError
        again = [caught(bsp.sync), caught(bsp.send, 0, 1), caught(bsp.array, 1)]
        assert [error.kind for error in again] == [pybsp.UsageError] * 3
        assert all("the run has failed" in error.text for error in again)
        return "as if nothing had happened"

    errors = spmd.errors(main)
    assert type(errors[-1]) is KeyError
    assert [type(error) for error in errors[:-1]] == [pybsp.ProcessorError] * (spmd.p - 1)


def test_nothing_of_a_failed_superstep_is_delivered(spmd: Spmd) -> None:
    last = spmd.p - 1
    seen: dict[int, Any] = {}

    def main(bsp: pybsp.BSP) -> None:
        x, q = bsp.array(2, np.int64), bsp.queue(np.int64)
        bsp.send(0, "before")
        bsp.sync()
        for dest in range(bsp.p):
            x.put(dest, 7)
            bsp.send(dest, "lost")
        ticket = x.get(0)
        q.send(np.arange(bsp.p), 1)
        if bsp.pid == last and bsp.p > 1:
            raise KeyError("half-way")
        if bsp.p == 1:
            return
        error = caught(bsp.sync)
        seen[bsp.pid] = (
            error.kind,
            x.local.tolist(),
            [m.payload for m in bsp.inbox],
            len(q),
            caught(lambda: ticket.value).kind,
        )

    errors = spmd.errors(main)
    assert None not in errors
    if spmd.p > 1:
        assert type(errors[-1]) is KeyError
        assert seen or spmd.mpi
    for kind, local, inbox, items, ticket in seen.values():
        assert kind is pybsp.ProcessorError
        assert local == [0, 0]
        assert inbox == []  # what came with the last sync ends with this one
        assert items == 0
        assert ticket is pybsp.TicketError


@pytest.mark.parametrize("operation", ["bsp.send", "queue.send", "queue.send of arrays", "array.put", "array.get"])
def test_something_sent_after_the_last_sync_is_an_error(spmd: Spmd, operation: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x, q = bsp.array(1), bsp.queue(np.int64)
        bsp.sync()
        if bsp.pid == bsp.p - 1:
            calls: dict[str, Callable[[], Any]] = {
                "bsp.send": lambda: bsp.send(0, 1),
                "queue.send": lambda: q.send(0, 1),
                "queue.send of arrays": lambda: q.send([0], [1]),
                "array.put": lambda: x.put(0, 1.0),
                "array.get": lambda: x.get(0),
            }
            calls[operation]()

    errors = spmd.errors(main)
    assert type(errors[-1]) is pybsp.UsageError
    assert str(errors[-1]).startswith(
        f"{operation.split(' of ')[0]}: something was sent in superstep 1, after the last sync"
    )
    assert [type(error) for error in errors[:-1]] == [pybsp.ProcessorError] * (spmd.p - 1)


def test_nothing_may_be_called_after_the_run_has_ended(spmd: Spmd) -> None:
    kept: list[Any] = []

    def main(bsp: pybsp.BSP) -> None:
        x, q = bsp.array(1), bsp.queue(np.int64)
        bsp.sync()
        kept[:] = [bsp, x, q]

    spmd(main)
    bsp, x, q = kept
    calls = [bsp.sync, lambda: bsp.send(0, 1), lambda: x.put(0, 1.0), lambda: q.send(0, 1), lambda: bsp.array(1)]
    for call in calls:
        error = caught(call)
        assert error.kind is pybsp.UsageError
        assert "the run has ended" in error.text


def test_labels_that_differ_are_an_error_in_checked_mode_alone(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.superstep("odd" if bsp.pid % 2 else "even"):
            pass

    errors = spmd.errors(main)
    if spmd.checked and spmd.p > 1:
        assert [type(error) for error in errors] == [pybsp.SyncError] * spmd.p
        assert '"odd"' in str(errors[0])
        assert '"even"' in str(errors[0])
        assert "test_lifecycle.py:" in str(errors[0])
    else:
        assert errors == [None] * spmd.p


def test_a_label_that_is_no_str_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        number: Any = 5
        return caught(lambda: bsp.superstep(number))

    for error in spmd(main):
        assert error.kind is pybsp.UsageError
        assert "bsp.superstep: argument label: expected a str, got int 5" in error.text


def test_a_superstep_block_that_raises_does_not_sync(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def block() -> None:
            with bsp.superstep("broken"):
                bsp.send(0, 1)
                raise LookupError

        error = caught(block)
        before = len(bsp.inbox)
        bsp.sync()
        return error.kind, before, len(bsp.inbox)

    assert spmd(main) == [(LookupError, 0, 0 if pid else spmd.p) for pid in range(spmd.p)]


def test_an_unknown_router_is_an_error_on_every_processor(spmd: Spmd) -> None:
    error = caught(spmd, lambda bsp: None, router="carrier pigeon")
    assert error.kind is pybsp.RoutingError
    assert "direct" in error.text
    assert "'carrier pigeon'" in error.text


def test_abort_ends_virtual_processors_from_any_of_them_without_a_sync(spmd: Spmd) -> None:
    """On MPI ranks it ends the job; tests/test_failures.py looks at that from outside."""
    if spmd.mpi:
        pytest.skip("ends the whole job")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            bsp.abort("enough")
        bsp.sync()

    with pytest.raises(pybsp.AbortError, match=f"processor {spmd.p - 1} aborted in superstep 0: enough"):
        pybsp.simulate(main, p=spmd.p, checked=spmd.checked)


def test_abort_ends_virtual_processors_from_the_operator_of_a_collective() -> None:
    def main(bsp: pybsp.BSP, start: bool) -> None:
        def op(a: int, b: int) -> int:
            return bsp.abort("enough")

        if start:
            collectives.allreduce.start(bsp, 1, op)
            bsp.sync()
        collectives.allreduce(bsp, 1, op)

    for start in (False, True):
        with pytest.raises(pybsp.AbortError, match="aborted in superstep 1: enough"):
            pybsp.simulate(main, start, p=2)


@pytest.mark.parametrize(
    ("left", "text"),
    [
        ("bsp.send(0, 1), bsp.send(bsp.p - 1, np.ones(3))", "2 messages, 4 words"),
        ("queue.send(0, [1.0, 2.0])", "2 items, 2 words, to processor 0"),
        ("x.put(0, 1.0, at=0)", "1 message, 1 word, to processor 0"),
        ("x.get(0)", "requests, to processor 0"),
    ],
)
def test_what_would_never_arrive_is_counted(spmd: Spmd, left: str, text: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x, queue = bsp.array(2), bsp.queue()
        bsp.sync()
        eval(left, {"bsp": bsp, "np": np, "x": x, "queue": queue})

    if "bsp.p" in left:
        text += ", to processor 0" if spmd.p == 1 else f", to processors 0, {spmd.p - 1}"
    for error in spmd.errors(main):
        assert f"after the last sync, and would never arrive ({text}); call bsp.sync() before" in str(error)


def test_of_what_others_would_be_asked_for_nothing_is_counted(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(2)
        bsp.sync()
        pattern = x.pattern(0, [0, 1])
        bsp.sync()
        pattern.get()

    for pid, error in enumerate(spmd.errors(main)):
        assert ("would never arrive;" in str(error)) == (pid > 0), error
