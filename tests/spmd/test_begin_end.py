"""The split form of a sync: `bsp.begin`, computing, `bsp.end`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from tests.conftest import Spmd

from .programs import caught, plain


def exchanged(bsp: pybsp.BSP, split: bool) -> list[Any]:
    """All ways of communicating in some supersteps, each ended by `begin` and `end`, or by `sync`."""
    p, pid = bsp.p, bsp.pid
    x, q = bsp.array(50), bsp.queue(np.int64)
    seen: list[Any] = []

    def end() -> None:
        if split:
            bsp.begin()
            seen.append(sum(range(100)))
            bsp.end()
        else:
            bsp.sync()
            seen.append(sum(range(100)))

    end()
    for k in (1, 40, 5000):
        for dest in range(p):
            bsp.send(dest, np.arange(k) + pid, tag=(k, dest))
        q.send(np.arange(k * p) % p, np.arange(k * p) + pid)
        x.put((pid + 1) % p, np.full(50, k + pid))
        ticket = x.get((pid + 2) % p)
        end()
        seen += [[plain(m) for m in bsp.inbox], plain(q.values), plain(q.sources), plain(x.local), plain(ticket.value)]
    return seen


def test_begin_and_end_bring_what_sync_brings(spmd: Spmd) -> None:
    assert spmd(exchanged, True) == spmd(exchanged, False)


def test_some_processors_may_call_sync_instead(spmd: Spmd) -> None:
    split, plainly = spmd(exchanged, True), spmd(exchanged, False)
    assert spmd(lambda bsp: exchanged(bsp, bsp.pid % 2 == 0)) == [
        split[pid] if pid % 2 == 0 else plainly[pid] for pid in range(spmd.p)
    ]


def test_after_end_processors_wait_as_before(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> bool:
        transport: Any = bsp._superstep.transport
        before = getattr(transport, "waiter", None)
        for size in (0, 1, 100_000):
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(size))
            bsp.begin()
            bsp.end()
        return getattr(transport, "waiter", None) is before

    assert spmd(main) == [True] * spmd.p


def test_what_arrived_last_is_there_until_end(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[Any]:
        q = bsp.queue(np.int64)
        seen: list[Any] = []
        for k in range(4):
            bsp.send((bsp.pid + 1) % bsp.p, np.full(4000, k))
            q.send((bsp.pid + 1) % bsp.p, np.full(3000, k))
            bsp.begin()
            seen.append(([int(m.payload.sum()) for m in bsp.inbox], int(q.values.sum())))
            bsp.end()
        return seen

    assert spmd(main) == [[([], 0), ([0], 0), ([4000], 3000), ([8000], 6000)]] * spmd.p


def test_a_pattern_reads_at_begin_and_a_get_by_end(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        x, left_alone = bsp.array(3, np.int64), bsp.array(3, np.int64)
        bsp.sync()
        pattern = x.pattern(right, None)
        bsp.sync()
        x.local[:] = left_alone.local[:] = 1
        at_begin, meanwhile, alone = pattern.get(), x.get(right, at=0), left_alone.get(right)
        x.put(right, 4, at=2)
        bsp.begin()
        x.local[:] = 2
        x.local[:] = 3
        bsp.end()
        return at_begin.value.tolist(), int(meanwhile.value), alone.value.tolist(), x.local.tolist()

    for at_begin, meanwhile, alone, local in spmd(main):
        assert (at_begin, alone, local) == ([1] * 3, [1] * 3, [3, 3, 4])
        assert meanwhile in ((1, 2, 3) if spmd.mpi else (3,))


def test_between_begin_and_end_nothing_is_sent(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[Any]:
        x, q = bsp.array(3), bsp.queue()
        bsp.sync()
        bsp.begin()
        calls: list[Any] = [
            lambda: bsp.send(0, 1),
            lambda: bsp.room(0, 1),
            lambda: q.send(0, 1.0),
            lambda: q.send([0], [1.0]),
            lambda: x.put(0, [1.0] * 3),
            lambda: x.get(0),
            bsp.sync,
            bsp.begin,
            bsp.queue,
            lambda: bsp.array(3),
            lambda: bsp.split(0).__enter__(),
        ]
        errors = [caught(call) for call in calls]
        bsp.end()
        bsp.send(bsp.pid, "afterwards")
        bsp.sync()
        assert bsp.inbox[0].payload == "afterwards"
        return errors

    for errors in spmd(main):
        assert all(error.kind is pybsp.UsageError and "call bsp.end() first" in error.text for error in errors), errors


def test_end_without_begin_is_an_error(spmd: Spmd) -> None:
    error = spmd(lambda bsp: caught(bsp.end))[0]
    assert error.kind is pybsp.UsageError
    assert "expected bsp.begin() before it" in error.text


def test_a_program_that_never_ends_what_it_began_is_told_so(spmd: Spmd) -> None:
    errors = spmd.errors(lambda bsp: bsp.begin())
    assert all(isinstance(error, (pybsp.UsageError, pybsp.ProcessorError)) for error in errors), errors
    assert any("test_begin_end.py" in str(error) and "never ended" in str(error) for error in errors), errors


@pytest.mark.parametrize("others", ["end", "sync"])
def test_a_failure_between_begin_and_end_reaches_all(spmd: Spmd, others: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.send((bsp.pid + 1) % bsp.p, np.ones(3000))
        if bsp.pid == bsp.p - 1:
            bsp.begin()
            raise LookupError("between")
        if others == "end":
            bsp.begin()
            bsp.end()
        else:
            bsp.sync()
        bsp.sync()

    *first, last = spmd.errors(main)
    assert isinstance(last, LookupError)
    if spmd.mpi:
        assert all(isinstance(error, pybsp.ProcessorError) and "between" in str(error) for error in first), first


@pytest.mark.parametrize("others", ["fail", "split", "end"])
def test_a_failure_between_begin_and_end_where_another_errs_too_leaves_nobody_waiting(spmd: Spmd, others: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor has nobody to differ from")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid > 0:
            bsp.begin()
            raise LookupError("between")
        if others == "fail":
            raise ValueError("before")
        if others == "split":
            with bsp.split(0):
                pass

    first, *rest = spmd.errors(main)
    assert first is None or isinstance(first, ValueError if others == "fail" else pybsp.SyncError), first
    assert all(isinstance(error, LookupError) for error in rest), rest
    assert spmd(around) == [(pid - 1) % spmd.p for pid in range(spmd.p)]


def around(bsp: pybsp.BSP) -> object:
    bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
    bsp.sync()
    return bsp.inbox[0].payload


def test_one_that_begins_where_another_ends_is_found(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor has nobody to differ from")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.begin()
            bsp.end()

    errors = spmd.errors(main)
    assert all(isinstance(error, pybsp.SyncError) for error in errors if error is not None), errors
    assert "called bsp.begin() in superstep 0, at " in str(errors[0])
    assert "test_begin_end.py" in str(errors[0])


def test_of_one_that_begins_and_ends_the_program_its_line_is_said_once(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor has nobody to differ from")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.begin()
        else:
            collectives.allreduce(bsp, 1, np.add)

    line = main.__code__.co_firstlineno + 2
    assert f"processor 0 called bsp.begin() in superstep 0, at {__file__}:{line}; " in str(spmd.errors(main)[-1])


def test_the_ledger_counts_one_superstep_with_the_work_of_both_sides(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.send((bsp.pid + 1) % bsp.p, np.ones(10))
        bsp.work(3)
        bsp.begin()
        bsp.work(4)
        bsp.end()
        (record,) = bsp.ledger
        return record.work, record.h, record.messages

    h = 10 if spmd.p > 1 else 0
    assert spmd(main) == [(7.0, h, min(h, 1))] * spmd.p
