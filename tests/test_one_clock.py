"""What supersteps took, of processors that have one clock."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pybsp
from pybsp.arrays.pattern import Pattern
from pybsp.ground.chunk import COLUMNS
from pybsp.ledger import account
from pybsp.ledger.account import Account
from pybsp.ledger.log import INDICES, MEAN, MEASURED, SECONDS, Log, by_one_clock, combine, ridden, spans
from pybsp.ledger.trace import Tracer
from pybsp.messages.mail import Mail
from pybsp.parts.totals import Stay, Stays
from pybsp.rides.ride import Supersteps
from pybsp.supersteps import superstep

from .launching import Program, mpiexec, python, run
from .test_aggregated import pretending


def noted(*supersteps: tuple[float, float], began: float = 0.0) -> Log:
    """The log of a processor that computed, and took, so many seconds in each superstep."""
    log = Log()
    log.begin_at(began)
    for seconds, measured in supersteps:
        log.note(0.0, 0.0, seconds, measured, 0, 0, 0, 0, 0, 0, 0)
    return log


def combined(*logs: Log) -> NDArray[np.float64]:
    last = len(logs[0])
    return combine([np.column_stack((log.table(log.combined), log.begins(log.combined, last))) for log in logs])


def test_who_ends_a_superstep_late_does_not_count_twice() -> None:
    """The second processor ends the first superstep 4 s late, so that the first one waits for it in the next."""
    rows = combined(noted((1, 10), (2, 7)), noted((1, 14), (2, 3)))
    assert rows[:, MEASURED].tolist() == [14, 3]
    assert rows[:, SECONDS].tolist() == [1, 2]
    assert combine([np.zeros((2, COLUMNS)) + 1, np.zeros((2, COLUMNS)) + 2]).shape == (2, COLUMNS)


def test_computing_goes_from_the_last_end_to_the_last_entry() -> None:
    """The first processor ends early and computes longest: what it computes meanwhile is in the exchange before."""
    rows = combined(noted((1, 10), (6, 8)), noted((1, 13), (1, 5)))
    assert rows[:, SECONDS].tolist() == [1, 3]
    assert rows[:, MEASURED].tolist() == [13, 5]
    assert rows[:, MEAN].tolist() == [1, 2]  # of 3 and 1 s


def test_who_begins_late_is_waited_for() -> None:
    rows = combined(noted((1, 12), began=100.0), noted((1, 2), began=110.0))
    assert (rows[0, SECONDS], rows[0, MEASURED]) == (1, 2)


def test_a_clock_is_put_right_where_it_has_a_superstep_end_before_all_have_entered_it() -> None:
    """The first processor enters at 6 and 12 s, and ends at 9 and 15 s."""
    seconds, measured = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[4.0, 5.0], [3.0, 2.0]])
    for other, found in (([5.0, 11.0], [5.0, 11.0]), ([1.0, 8.0], [3.0, 10.0]), ([9.0, 15.0], [7.0, 14.0])):
        begins = np.array([[5.0, 10.0], [100.0 + other[0], 100.0 + other[1]]])
        assert by_one_clock(begins, seconds, measured, [0.0, 100.0]).tolist() == [[5.0, 10.0], found]


def test_what_is_left_out_between_two_supersteps_is_in_neither() -> None:
    log = noted((1, 10), began=5.0)
    log.begin_at(20.0)
    log.begin_at(30.0)  # this one counts
    log.note(0.0, 0.0, 1.0, 2.0, 0, 0, 0, 0, 0, 0, 0)
    log.note(0.0, 0.0, 1.0, 2.0, 0, 0, 0, 0, 0, 0, 0)
    assert log.begins(log.combined, 3).tolist() == [5, 30, 32]
    assert log.begins(log.combined, 2).tolist() == [5, 30]


def test_a_part_that_is_entered_again_and_again_looks_at_the_rows_of_one_stay_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    for stay in range(50):
        log.begin_at(100.0 * stay)
        log.note(0.0, 0.0, 1.0, 2.0, 0, 0, 0, 0, 0, 0, 0)
        log.note(0.0, 0.0, 1.0, 3.0, 0, 0, 0, 0, 0, 0, 0)
    asked: list[int] = []
    pieces = Log.pieces

    def counted(self: Log, first: int, last: int) -> Any:
        asked.append(first)
        return pieces(self, first, last)

    monkeypatch.setattr(Log, "pieces", counted)
    assert log.timed(98)[:, COLUMNS].tolist() == [4900, 4902]
    assert log.timed(97)[:, COLUMNS].tolist() == [4802, 4900, 4902]
    assert min(asked) == 96


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_where_some_are_combined_the_rest_begin_when_they_did(at: int) -> None:
    log = noted((1, 10), (1, 3), began=5.0)
    log.begin_at(40.0)
    for _ in range(3):
        log.note(0.0, 0.0, 1.0, 7.0, 0, 0, 0, 0, 0, 0, 0)
    expected = [5.0, 15.0, 40.0, 47.0, 54.0]
    assert log.begins(log.combined, 5).tolist() == expected
    log.put([np.full((at, COLUMNS), 9.0)])
    assert log.begins(log.combined, 5).tolist() == expected[at:]


def test_what_parts_took_before_a_run_goes_on_is_not_taken_off_what_it_goes_on_with() -> None:
    resumed = Log()
    resumed.note_away(1.0)
    resumed.resume(noted((1, 10), (1, 3), began=5.0).as_saved())
    assert resumed.table(0, 2)[:, SECONDS].tolist() == [1.0, 1.0]


def test_rows_of_a_run_that_goes_on_have_no_clock_but_what_comes_then_has() -> None:
    resumed = Log()
    resumed.resume(noted((1, 10), (1, 3), began=5.0).as_saved())
    resumed.begin_at(90.0)
    resumed.note(0.0, 0.0, 1.0, 7.0, 0, 0, 0, 0, 0, 0, 0)
    assert np.array_equal(resumed.begins(resumed.combined, 3), [np.nan, np.nan, 90], equal_nan=True)
    assert np.array_equal(resumed.timed(1)[:, COLUMNS], [np.nan, 90], equal_nan=True)
    assert np.isnan(resumed.timed(1, virtual=True)[:, COLUMNS]).all()
    rows = combined(resumed, noted((4, 12), (5, 6), (2, 9), began=80.0))
    assert rows[:, MEASURED].tolist() == [12, 6, 9]  # each one's own, and from 98 to 107
    assert rows[:, SECONDS].tolist() == [4, 5, 2]
    resumed.put([np.full((1, COLUMNS), 9.0)])
    assert np.array_equal(resumed.begins(resumed.combined, 3), [np.nan, 90], equal_nan=True)
    assert resumed.timed(0)[:, COLUMNS].tolist()[2] == 90


def test_stays_in_parts_before_a_run_goes_on_have_no_clock() -> None:
    stays = Stays()
    inner = Stay(1, (0, 1), noted((1, 2), began=6.0).timed(0), 0)
    stays.all.append(Stay(0, (0, 1), noted((1, 10), (1, 3), began=5.0).timed(0), 1, (inner,)))
    (again,) = Stays.of_saved(stays.as_saved()).all
    for rows, saved in (again.rows, stays.all[0].rows), (again.inner[0].rows, inner.rows):
        assert np.array_equal(rows[:, :COLUMNS], saved[:, :COLUMNS])
        assert np.isnan(rows[:, COLUMNS]).all()


def test_spans_of_processors_that_begin_together_are_the_largest() -> None:
    rng = np.random.default_rng(0)
    seconds = rng.random((3, 5))
    measured = seconds.max(axis=0) + rng.random((3, 5))
    for begins in np.zeros((3, 5)), np.full((3, 5), np.nan):
        computing, whole, mean = spans(begins, seconds, measured)
        assert (computing == seconds.max(axis=0)).all()
        assert (whole == measured.max(axis=0)).all()
        assert (mean == seconds.mean(axis=0)).all()


def test_who_begins_late_and_computes_as_long_as_others_is_in_balance_with_them() -> None:
    begins, seconds = np.array([[0.0], [5.0]]), np.array([[3.0], [3.0]])
    computing, whole, mean = spans(begins, seconds, np.array([[9.0], [4.0]]))
    assert [float(one[0]) for one in (computing, whole, mean)] == [3.0, 4.0, 3.0]
    *_, mean = spans(begins, np.array([[4.0], [2.0]]), np.array([[9.0], [4.0]]))
    assert mean.tolist() == [2.0]  # what the first one computes beyond the second's 2 is in the exchange before


def supersteps_of(p: int, latency: float, computing: NDArray[np.float64]) -> tuple[list[Any], ...]:
    """When p processors begin supersteps, enter their exchanges and end them: all hear of each after a latency."""
    begins: list[Any] = []
    enters: list[Any] = []
    ends: list[Any] = []
    begin = np.zeros(p)
    for seconds in computing:
        enter = begin + seconds
        others = [max(np.delete(enter, pid)) + latency for pid in range(p)]
        end = np.maximum(enter, others)
        for column, instants in zip((begins, enters, ends), (begin, enter, end), strict=True):
            column.append(instants)
        begin = end
    return begins, enters, ends


def rows_of(begins: Any, enters: Any, ends: Any) -> list[NDArray[np.float64]]:
    """The rows of each processor, with when they began by its own clock."""
    begins, enters, ends = map(np.array, (begins, enters, ends))
    tables = np.ones((begins.shape[1], len(begins), COLUMNS + 1))
    tables[:, :, COLUMNS] = begins.T
    tables[:, :, SECONDS], tables[:, :, MEASURED] = (enters - begins).T, (ends - begins).T
    return list(tables)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_by_clocks_that_were_compared_supersteps_take_what_they_take_by_one(p: int) -> None:
    rng = np.random.default_rng(p)
    begins, enters, ends = supersteps_of(p, 1e-3, 4e-3 * rng.random((40, p)) * (rng.random((40, 1)) < 0.7))
    ahead = [0.0, *rng.normal(size=p - 1)]
    expected = combine(rows_of(begins, enters, ends))
    found = combine(rows_of(*(np.array(instants) + ahead for instants in (begins, enters, ends))), ahead)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found[:, MEASURED].sum() == pytest.approx(np.max(ends[-1]))
    own = combine([table[:, :COLUMNS] for table in rows_of(begins, enters, ends)])
    assert own[:, MEASURED].sum() > 1.05 * np.max(ends[-1])  # what each one's own seconds would come to


def test_clocks_that_drift_are_right_to_a_latency_where_all_compute_alike() -> None:
    """They were compared at the end: at the beginning they are off by ten latencies."""
    begins, enters, ends = supersteps_of(2, 1e-3, np.full((200, 2), 1e-2))
    drift = 1e-2 / np.max(ends[-1])
    apart = (np.array(instants) * (1, 1 + drift) - (0, 1e-2) for instants in (begins, enters, ends))
    found = combine(rows_of(*apart), [0.0, 0.0])
    assert found[:, MEASURED].sum() == pytest.approx(np.max(ends[-1]), rel=1e-2)
    exchange = found[:, MEASURED] - found[:, SECONDS]
    assert (exchange >= -1e-9).all()
    assert (exchange <= 2.001e-3).all()


def test_the_log_of_a_trace_begins_when_the_program_does() -> None:
    account = Account(SimpleNamespace(time=lambda: 0.0))
    engine: Any = SimpleNamespace(account=account, pid=0)
    Tracer(engine)
    account.log.note(0.0, 0.0, 1.0, 2.0, 0, 0, 0, 0, 0, 0, 0)
    assert account.log.begins(0, 1).tolist() == [account.log.left]


def test_what_rides_beside_a_call_of_another_group_is_said() -> None:
    assert ridden([(0, {"prefix": 4}, "prefix"), (0, {"allreduce": 4}, "allreduce"), (0, {}, "prefix")]) == {}
    beside = [(0, {"prefix": 4}, "prefix"), (0, {"allreduce": 4, "prefix": 7}, "allreduce")]
    assert ridden(beside) == {0: {"prefix": 11, "allreduce": 4}}
    assert ridden([(1, {"prefix": 4}, ""), (2, {INDICES: 8}, "")]) == {1: {"prefix": 4}, 2: {INDICES: 8}}


def test_words_that_nobody_noted_are_those_of_the_call_that_the_superstep_is_of() -> None:
    """A processor that has seen nothing but records notes none of what rides, nor its own record."""
    beside = [(0, {"prefix": 33, "allgather": 4}, "allgather"), (0, {"allgather": 12}, "allgather")]
    assert ridden(beside, lambda: {0: 51}) == {0: {"prefix": 33, "allgather": 18}}
    of_the_program = [(0, {"prefix": 4}, "")]
    assert ridden(of_the_program, lambda: {0: 51}) == {0: {"prefix": 4}}
    of_two_groups = [*beside, (0, {"reduce": 1}, "reduce")]
    assert ridden(of_two_groups, lambda: {0: 51}) == {0: {"prefix": 33, "allgather": 16, "reduce": 1}}


@pytest.mark.parametrize("way", ["mail", "pattern", "ride"])
def test_the_exchange_begins_when_all_is_packed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To pack takes an hour here."""
    late = 0.0

    def slowly(pack: Callable[..., Any]) -> Callable[..., Any]:
        def packed(*args: Any) -> Any:
            nonlocal late
            late += 3600
            return pack(*args)

        return packed

    def riding(bsp: pybsp.BSP) -> Supersteps[None]:
        bsp.stream("riding").send(0, "text")
        yield

    def main(bsp: pybsp.BSP) -> pybsp.Record:
        array = bsp.array(3)
        bsp.sync()
        pattern = array.pattern([0, 0], [2, 1])
        bsp.sync()
        for one in Mail, Pattern:
            monkeypatch.setattr(one, "pack", slowly(one.pack))
        for module in account, superstep:
            monkeypatch.setattr(module, "clock", lambda: time.perf_counter() + late)
        if way == "ride":
            bsp.carry_out("riding", riding(bsp))
        else:
            bsp.send(0, ["text"]) if way == "mail" else pattern.get()
            bsp.sync()
        return bsp.ledger[-1]

    record = pybsp.run(main)
    assert record.seconds >= 3600
    assert record.exchange < 3600


HOURS_APART = """\
    import sys, time
    import pybsp

    def main(bsp):
        with bsp.superstep("first"):
            bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        begin = time.perf_counter()
        for _ in range(20):
            with bsp.superstep("loop"):
                bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        took = time.perf_counter() - begin
        with bsp.split(0) as part:
            for _ in range(3):
                part.sync()
        bsp.sync()
        loop = next(total for total in bsp.ledger.totals() if total.label == "loop")
        longest = max(sum(one) for one in ((r.measured, r.seconds, r.waiting) for r in bsp.ledger))
        return took - 1 < loop.measured < took + 1 and longest < 60

    def talks(proc):
        for _ in range(5):
            proc.send((proc.pid + 1) % proc.p, 0)
            proc.recv()

    run = pybsp.run(main)
    pybsp.logp.run(talks)
    sys.exit(0 if run else "what supersteps took is no time that went by")
"""


@pytest.mark.whole
def test_hosts_whose_clocks_are_hours_apart_count_what_went_by(program: Program, tmp_path: Path) -> None:
    """Of four ranks two see the clock of a machine that has been up for an hour more."""
    later = ["unshare", "--time", "--monotonic", "3600", "--", sys.executable]
    if shutil.which("unshare") is None or subprocess.run([*later, "-c", ""], capture_output=True).returncode:
        pytest.skip("no namespace of time, which needs Linux 5.6 and root")
    path = program(HOURS_APART)
    launcher, trace = mpiexec(2), tmp_path / "trace.json"
    ended = run(
        [*launcher, *python(path), ":", *launcher[1:], *later, str(path)],
        PYBSP_TRACE=str(trace),
        **pretending(2, "0"),
    )
    assert ended.code == 0, ended
    moments = [event["ts"] for event in json.loads(trace.read_text())["traceEvents"] if "ts" in event]
    assert max(moments) - min(moments) < 600e6  # microseconds
