"""Processors that wait for long say for whom; a timeout ends what somebody never reaches; a signal asks a rank."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.errors import SyncError, UsageError
from pybsp.ground import settings
from pybsp.processes import process
from pybsp.runs import signals, watch, world
from pybsp.transport.medium import MPITransport
from pybsp.transport.patience import AGAIN, ANNOUNCES, Absence, Patience
from pybsp.transport.revocation import SLACK
from pybsp.transport.waiting import LOOK, SOMEBODY, TRIES, TURN, TURNS, Waiter

from .launching import LIMIT, Ended, Program, failed_once, finish, mpiexec, python, run, start
from .test_aggregated import pretending
from .test_failures import all_gone

SHARED: dict[str, str] = {}
MESSAGES = {"PYBSP_SHARED": "0"}
AGGREGATED = pretending(2, "1")
NODES = pretending(2, "0")
media = pytest.mark.parametrize(
    "medium", [SHARED, MESSAGES, NODES, AGGREGATED], ids=["shared", "messages", "nodes", "far"]
)

HEAD = """\
import os, signal, sys, time
from pathlib import Path
import pybsp
RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
HERE = Path(__file__).parent
sys.stderr.flush()
os.dup2(os.open(HERE / f"said-{RANK}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
def say(*what):
    sys.stdout.write(" ".join(map(str, what)) + "\\n")  # in one piece, however it is buffered
    sys.stdout.flush()
def told(what="has waited"):
    return [line for path in HERE.glob("said-*") for line in path.read_text().splitlines() if what in line]
def until_told(what="has waited", times=1):
    while len(told(what)) < times:
        time.sleep(0.01)
"""


def job(p: int, folder: Path, text: str, **environment: str) -> Ended:
    """Run a program on p ranks; what they print as errors is in files, which they read themselves."""
    path = folder / "program.py"
    path.write_text(HEAD + dedent(text))
    return run([*mpiexec(p), *python(path)], LIMIT, **environment)


def told(folder: Path, what: str = "has waited") -> list[str]:
    """What the ranks of such a program said."""
    paths = sorted(folder.glob("said-*"))
    return [line for path in paths for line in path.read_text().splitlines() if what in line]


# -- reports ------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@media
def test_a_processor_that_does_not_come_is_reported_with_its_superstep_and_line(
    medium: dict[str, str], tmp_path: Path
) -> None:
    ended = job(
        4,
        tmp_path,
        """
        def main(bsp):
            bsp.sync()
            with bsp.superstep("exchange"):
                bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
                if bsp.pid == 3:
                    until_told('in superstep 1 ("exchange")')
            bsp.sync()
            return bsp.pid
        say(pybsp.run(main))
        """,
        PYBSP_WARN_AFTER="1",
        **medium,
    )
    assert (ended.code, sorted(ended.out.split())) == (0, ["0", "1", "2", "3"]), told(tmp_path, "")
    lines = told(tmp_path, 'in superstep 1 ("exchange"), at ')
    first = HEAD.count("\n") + 1  # of the program
    place = re.escape(f'superstep 1 ("exchange"), at {tmp_path}/program.py:')
    # The line of the with statement, for who is at its end; and where it looks for the report, for who is not.
    assert any(
        re.match(rf"pybsp: processor \d has waited \d+ s in {place}{first + 3}, for processors? [\d-]+; ", line)
        for line in lines
    ), lines
    looking = f"({first - 4}|{first - 2}|{first - 1})"
    seen = rf"; processor 3 \(this node, process \d+\) was seen \d s ago in {place}{looking}(;|$)"
    assert any(re.search(seen, line) for line in lines), lines
    reporters = [line.split()[2] for line in lines if line.startswith("pybsp: processor")]
    assert len(set(reporters)) == len(reporters) < 4  # each at most once in a wait


@pytest.mark.whole
def test_a_part_that_waits_is_reported_as_one(tmp_path: Path) -> None:
    ended = job(
        3,
        tmp_path,
        """
        def main(bsp):
            with bsp.split(0 if bsp.pid else None) as part:
                if bsp.pid == 2:
                    until_told("; processor 2 (")
                if part is not None:
                    part.sync()
        pybsp.run(main)
        """,
        PYBSP_WARN_AFTER="1",
    )
    assert ended.code == 0
    waits = r"processor 1 \(this node, process \d+\) was seen \d s ago, waiting in superstep 0 of a part, at "
    assert any(re.search(waits, line) for line in told(tmp_path, "; processor 2 ("))


@pytest.mark.whole
def test_a_sparse_exchange_names_who_does_not_wait(tmp_path: Path) -> None:
    ended = job(
        4,
        tmp_path,
        """
        def main(bsp):
            if bsp.pid == 1:
                until_told("; processor 1 (")
            bsp.sync()
        pybsp.run(main, router="sparse")
        """,
        PYBSP_WARN_AFTER="0.5",
        **MESSAGES,
    )
    assert ended.code == 0
    assert "was seen" in told(tmp_path, "; processor 1 (")[0]


@pytest.mark.whole
def test_what_travels_while_the_program_computes_is_not_waited_for(tmp_path: Path) -> None:
    ended = job(
        2,
        tmp_path,
        """
        def main(bsp):
            bsp.sync()
            if bsp.pid == 1:
                until_told("has waited")
            bsp.send(1 - bsp.pid, b"x")
            bsp.begin()
            if bsp.pid == 0:
                time.sleep(2.5)
                say(told("in superstep 1"))
            bsp.end()
        pybsp.run(main)
        """,
        PYBSP_WARN_AFTER="1",
        **MESSAGES,
    )
    assert (ended.code, ended.out.strip()) == (0, "[]")
    assert told(tmp_path, "in superstep 1")


@pytest.mark.whole
def test_a_logp_program_that_waits_says_who_does_not(tmp_path: Path) -> None:
    ended = job(
        2,
        tmp_path,
        """
        def main(proc):
            if proc.pid == 0:
                return proc.recv().payload
            until_told()
            proc.send(0, 5)
        say(pybsp.logp.run(main))
        """,
        PYBSP_WARN_AFTER="0.5",
    )
    assert (ended.code, sorted(ended.out.split())) == (0, ["5", "None"])
    assert re.match(
        r"pybsp: processor 0 has waited \d+ s in at|pybsp: processor 0 has waited \d+ s at ", told(tmp_path)[0]
    )
    assert "processor 1 (this node" in told(tmp_path)[0]


@pytest.mark.whole
def test_between_runs_nobody_counts(tmp_path: Path) -> None:
    ended = job(
        2,
        tmp_path,
        """
        from pybsp.runs import watch, world
        def patience(bsp=None):
            overdue = world._world.waiter.overdue.__self__
            return overdue._announces, overdue.first, len(watch.running)
        during = pybsp.run(patience)
        between = patience()
        during_again = pybsp.logp.run(patience)
        say(during, between, during_again, patience() == between)
        """,
        PYBSP_WARN_AFTER="8",
    )
    assert ended.code == 0
    assert ANNOUNCES == 0.75
    assert set(ended.out.splitlines()) == {"(6.0, 6.0, 1) (inf, 10.0, 0) (6.0, 6.0, 1) True"}


@pytest.mark.whole
def test_nobody_is_watched_where_no_report_is_wanted(tmp_path: Path) -> None:
    ended = job(
        2,
        tmp_path,
        """
        from pybsp.runs import world
        import threading
        def main(bsp):
            return world._world.waiter.overdue.__self__._announces, threading.active_count()
        say(pybsp.run(main))
        """,
        PYBSP_WARN_AFTER="0",
    )
    assert set(ended.out.splitlines()) == {"(inf, 1)"}


# -- timeouts -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("medium", [SHARED, MESSAGES], ids=["shared", "messages"])
def test_a_stopped_rank_is_reported_and_the_timeout_ends_the_job(medium: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        dedent("""
            import os, signal, pybsp
            def main(bsp):
                bsp.sync()
                if bsp.pid == 1:
                    os.kill(os.getpid(), signal.SIGSTOP)
                bsp.sync()
            pybsp.run(main, timeout=3)
        """)
    )
    ended = run([*mpiexec(3), *python(path)], LIMIT, PYBSP_WARN_AFTER="1", PYBSP_GRACE="1", **medium)
    assert ended.code != 0
    stopped = r"processor 1 \(this node, process \d+, stopped\) was seen \d+ s ago in superstep \d, at \S+program.py:\d"
    assert re.search(rf"^pybsp: processor 0 has waited .*{stopped}", ended.err, re.MULTILINE), ended.err
    assert re.search(
        rf"^pybsp.errors.SyncError: a superstep has not ended .* 3 s: .*{stopped}", ended.err, re.MULTILINE
    )
    assert (ended.err.count("Traceback"), ended.err.count("ending the job")) == (1, 1), ended.err
    all_gone(tmp_path)


LATE = """
def late(bsp):
    if bsp.pid == 1:
        until_told("has waited")
        time.sleep(0.5)  # it was said just before the timeout
def main(bsp):
    bsp.sync()
    {body}
try:
    pybsp.run(main, timeout=1)
except pybsp.BSPError as error:
    say(type(error).__name__, "timeout of 1 s" in str(error))
def ring(bsp):
    bsp.send((bsp.pid + 1) % bsp.p, 5)
    bsp.sync()
    return bsp.inbox[0].payload
say("later", pybsp.run(ring))
"""
BODIES = {
    "end": "late(bsp)",
    "data": "late(bsp); bsp.send((bsp.pid + 1) % 3, bytes(10**6)); bsp.sync(); bsp.sync()",
    "begin": "late(bsp); bsp.begin(); bsp.end()",
    "part": "\n    with bsp.split(bsp.pid // 2) as part:\n        late(bsp); part.sync()",
}


@pytest.mark.whole
@pytest.mark.fast("data-messages")
@pytest.mark.parametrize(
    ("body", "medium"),
    [("end", SHARED), ("end", MESSAGES), ("data", MESSAGES), ("begin", MESSAGES), ("part", SHARED)],
    ids=["end-shared", "end-messages", "data-messages", "begin-messages", "part-shared"],
)
def test_one_that_comes_too_late_fails_the_run_on_all_and_a_later_run_works(
    body: str, medium: dict[str, str], tmp_path: Path
) -> None:
    ended = job(3, tmp_path, LATE.format(body=BODIES[body]), PYBSP_WARN_AFTER="1", PYBSP_GRACE="30", **medium)
    printed = sorted(re.findall("SyncError .*|ProcessorError .*|later .*", ended.out))  # libraries may print, too
    assert ended.code == 0, (printed, told(tmp_path, ""))
    assert "SyncError True" in printed
    assert [line.replace("Sync", "Processor") for line in printed] == ["ProcessorError True"] * 3 + ["later 5"] * 3


@pytest.mark.whole
def test_the_timeout_is_the_same_on_all_processors(tmp_path: Path) -> None:
    ended = job(2, tmp_path, "pybsp.run(lambda bsp: None, timeout=10 + RANK)")
    assert ended.code != 0
    (line,) = told(tmp_path, "pybsp.errors.UsageError")
    assert "argument timeout: expected the same on all processors, got [10.0, 11.0]" in line


@pytest.mark.whole
def test_attach_takes_a_timeout(tmp_path: Path) -> None:
    ended = job(
        2,
        tmp_path,
        """
        from mpi4py import MPI
        try:
            with pybsp.attach(MPI.COMM_WORLD, timeout=1) as bsp:
                if bsp.pid == 1:
                    until_told()
                    time.sleep(0.5)
                bsp.sync()
        except pybsp.BSPError as error:
            say(f"{type(error).__name__},{isinstance(error, pybsp.SyncError)}")
        MPI.COMM_WORLD.Barrier()
        """,
        PYBSP_WARN_AFTER="1",
    )
    assert (ended.code, sorted(ended.out.split())) == (0, ["LearnedSyncError,True", "SyncError,True"])


@pytest.mark.fast
@pytest.mark.parametrize("wrong", [0, -1, "long", float("nan")])
def test_a_wrong_timeout_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="argument timeout: expected None or seconds, more than 0"):
        pybsp.run(lambda bsp: None, timeout=wrong)  # type: ignore[arg-type]


def test_virtual_processors_take_a_timeout_and_need_none() -> None:
    assert pybsp.simulate(lambda bsp: bsp.sync() or bsp.pid, p=3, timeout=1e-9).results == [0, 1, 2]


@pytest.mark.parametrize(
    ("variable", "value"), [("PYBSP_GRACE", "soon"), ("PYBSP_WARN_AFTER", "-1"), ("PYBSP_WARN_AFTER", "soon")]
)
def test_seconds_that_are_none_are_refused(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"{variable}: expected .*{value!r}"):
        settings.seconds(variable)


@pytest.mark.fast
@pytest.mark.parametrize("value", ["-1", "SIGNAL", "kill", "\u00b2", "1" * 5000])
def test_a_signal_that_is_none_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBSP_REPORT_SIGNAL", value)
    with pytest.raises(UsageError, match=f"PYBSP_REPORT_SIGNAL: expected .*{value!r:.60}"):
        signals.configured_signal()


@pytest.mark.parametrize("value", ["0", "none"])
def test_no_signal_may_be_wanted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBSP_REPORT_SIGNAL", value)
    assert signals.configured_signal() is None


def test_where_no_report_is_wanted_nobody_is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBSP_WARN_AFTER", "0")
    assert watch.limits(None) == (float("inf"), float("inf"))
    assert watch.limits(5) == (float("inf"), 5)


@pytest.mark.parametrize(("after", "reports"), [("0", []), ("1", ["1.0"])])
def test_a_rank_that_waits_for_others_as_it_ends_says_so_after_the_seconds_asked_for_or_never(
    after: str, reports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def popen(command: list[str], **_: Any) -> AbstractContextManager[None]:
        seconds, text = command[-2:]
        assert "processor 0 has ended without a run, and has waited 1 s for the others" in text
        started.append(seconds)
        return nullcontext()

    monkeypatch.setenv("PYBSP_WARN_AFTER", after)
    monkeypatch.setattr(subprocess, "Popen", popen)
    with world._reporting_wait():
        assert started == reports


# -- who reports, and when ----------------------------------------------------------------------------------------


class Witness:
    """Says what it was asked for."""

    def __init__(self, patient: Iterable[int] = ()) -> None:
        self.long, self.told = set(patient), 0
        self.gone: list[int] = []

    def announce(self) -> None:
        self.told += 1

    def patient(self, pids: Iterable[int]) -> set[int]:
        return self.long & set(pids)

    def describe(self, waited: float, absent: Sequence[int]) -> str:
        return f"{waited:g} s for {list(absent)}"

    def ended(self) -> list[int]:
        return self.gone


def patience(pid: int, absent: set[int], present: set[int], witness: Witness, **limits: Any) -> Patience:
    """Of a processor of a job on two nodes of three."""
    return Patience(pid, "aaabbb", lambda: Absence(absent, present), witness, **limits)


@pytest.mark.parametrize(
    ("pid", "absent", "present", "patient", "speaks"),
    [
        (0, {2}, {1, 3, 4, 5}, [], True),  # the lowest
        (1, {2}, {0, 3, 4, 5}, [], False),
        (1, {0}, {2, 3, 4, 5}, [], True),  # the lowest that has come
        (3, {2}, {0, 1, 4, 5}, [], False),
        (3, {5}, {0, 1, 2, 4}, [], True),  # the lowest of the node where somebody is missing
        (4, {5}, {0, 1, 2, 3}, [], False),
        (4, {2}, set(), [], True),  # nothing is known of the others
        (4, {2}, set(), [3], False),  # but that one of its node waits as long
        (5, set(), set(), [], True),
        (5, {4}, {3}, [4], False),
        (2, {0}, set(), [0], False),  # who waits in another exchange
    ],
)
def test_the_lowest_reports_of_all_and_of_the_node_where_somebody_is_missing(
    pid: int, absent: set[int], present: set[int], patient: list[int], speaks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    one = patience(pid, absent, present, Witness(patient), warn_after=60)
    assert one.overdue(100, 161) == float("inf")
    assert capsys.readouterr().err == (f"pybsp: 61 s for {sorted(absent)}\n" if speaks else "")


def test_a_wait_is_reported_once_and_the_next_one_again(capsys: pytest.CaptureFixture[str]) -> None:
    witness = Witness()
    one = patience(0, {1}, set(), witness, warn_after=60, timeout=200)
    assert one.first == 60 * ANNOUNCES
    assert one.overdue(100, 100 + 60 * ANNOUNCES) == 160  # others see that it waits
    assert (witness.told, capsys.readouterr().err) == (1, "")
    assert one.overdue(100, 160) == 300
    assert one.overdue(100, 170) == 300
    assert capsys.readouterr().err == "pybsp: 60 s for [1]\n"
    assert one.overdue(500, 560) == 700
    assert (witness.told, capsys.readouterr().err) == (2, "pybsp: 60 s for [1]\n")


def test_one_ends_the_wait_and_the_others_a_second_later() -> None:
    with pytest.raises(SyncError, match=r"timeout of 3 s: 3 s for \[2\]"):
        patience(0, {2}, {1}, Witness(), timeout=3).overdue(0, 3)
    other = patience(1, {2}, {0}, Witness(), timeout=3)
    assert other.overdue(0, 3) == 3 + SLACK
    with pytest.raises(SyncError):
        other.overdue(0, 3 + SLACK)


def test_a_wait_that_does_not_count_yet_is_asked_for_again() -> None:
    one = patience(0, {1}, set(), Witness(), timeout=3)
    assert one.overdue(float("inf"), 50) == 51
    assert one.overdue(48, 50) == 50 + 3 * ANNOUNCES - 2


def test_who_waits_longer_than_the_grace_period_ends_the_job_where_others_have_ended() -> None:
    witness = Witness()
    lost: list[Sequence[int]] = []
    one = Patience(0, "aaabbb", lambda: Absence({1}, set()), witness, 60, grace=10, lost=lost.append)
    assert one.first == 10
    assert one.overdue(100, 110) == 120
    witness.gone = [2]
    assert one.overdue(100, 115) == 120
    assert one.overdue(100, 120) == 120 + AGAIN  # what it sent last may be on its way
    assert lost == []
    one.overdue(100, 120 + AGAIN)
    assert lost == [[2]]


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (True, "pybsp: the process of processor 2, 5 has ended, and the launcher ends no others; ending the job"),
        (False, ""),
    ],
)
def test_each_that_finds_processes_gone_ends_the_job_and_the_first_says_so(
    monkeypatch: pytest.MonkeyPatch, first: bool, text: str
) -> None:
    ended: list[str] = []
    waited: list[float] = []
    monkeypatch.setattr(process, "speaks", lambda: first)
    monkeypatch.setattr(time, "sleep", waited.append)
    there: Any = SimpleNamespace(abort=ended.append)
    MPITransport._lost(there, [2, 5])
    assert [said.startswith(text) for said in ended] == [True]
    assert bool(ended[0]) == first
    assert waited == ([] if first else [SLACK])  # until the first has said it


ENDED = """
import os, signal, sys, time, pybsp

def main(bsp):
    bsp.sync()
    if bsp.pid == 1 and sys.argv[1:] == ["in a run"]:
        os.kill(os.getpid(), signal.SIGKILL)
    bsp.sync()

pybsp.run(main)
if pybsp.processes.process.launched()[1] == 1:
    os.kill(os.getpid(), signal.SIGKILL)
pybsp.run(main) if sys.argv[1:] == ["before another"] else None
"""


@pytest.mark.whole
@pytest.mark.parametrize("where", ["in a run", "before another", "at the end"])
def test_a_process_that_ends_where_the_launcher_ends_no_others_ends_the_job(where: str, program: Program) -> None:
    """As under plain srun: here the launcher sees shells alone, which go on."""
    command = shlex.join(python(program(ENDED), where))
    ended = run([*mpiexec(3), "sh", "-c", f"{command}; sleep {LIMIT}"], PYBSP_GRACE="1", PYBSP_WARN_AFTER="0")
    assert ended.code != 0, ended
    assert re.findall(r"^pybsp.*", ended.err, re.MULTILINE) == [
        "pybsp: the process of processor 1 has ended, and the launcher ends no others; ending the job (srun does so "
        "sooner with --kill-on-bad-exit=1)"
    ], ended


@pytest.mark.parametrize("mode", ["spin", "yield"])
def test_who_waits_without_sleep_looks_beside_it_once_in_a_millisecond(mode: str) -> None:
    waiter, tested, looks = Waiter(mode), [0], [0]

    def look() -> None:
        looks[0] += 1

    def test(_: None) -> bool:
        tested[0] += 1
        return time.perf_counter() > end

    waiter.look = look
    begin = time.perf_counter()
    end = begin + 30 * LOOK
    assert waiter.until(test, None)
    assert 1 <= looks[0] <= (time.perf_counter() - begin) / LOOK + 1
    assert tested[0] > 2 * looks[0]


@pytest.mark.parametrize(("a_yield", "naps"), [(2 * TURN, 1), (0.0, 0)])
def test_who_gave_up_its_core_to_whom_it_waited_for_naps_once_so_as_to_be_given_another(
    a_yield: float, naps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks that take turns on a core need 80 us for a superstep, while another core may be idle."""
    waiter, yielded = Waiter("polite"), [False]
    slept: list[float] = []
    now = itertools.count()
    away = 0.0  # on a clock of its own: no other process takes this one's core in between

    def clock() -> float:
        return 1e-7 * next(now) + away

    def give_up() -> None:
        nonlocal away
        away += a_yield
        yielded[0] = True

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(os, "sched_yield", give_up)
    assert waiter.until(lambda _: yielded[0], None)
    assert not slept
    for _ in range(2):
        assert waiter.until(lambda _: True, None)
    assert len(slept) == naps


@pytest.mark.parametrize(
    ("longest", "last", "naps", "share"),
    [(2 * TURN, 2 * TURN, 1, 0.5), (2 * TURN, TURN / 2, 0, 0.5), (SOMEBODY / 2, SOMEBODY / 2, 0, 1.0), (0, 0, 0, 0.5)],
)
def test_so_does_who_gave_it_up_in_the_compiled_core_where_it_looks_for_less_then_and_for_more_after_waits_alone(
    longest: float, last: float, naps: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    waiter = Waiter("polite")
    if longest <= SOMEBODY:
        waiter.turns(2 * SOMEBODY, 0.0)
    waiter.turns(longest, last)
    assert (len(slept), waiter.tries) == (naps, round(TRIES * share))


def test_the_compiled_core_yields_where_waits_do_and_mpi_has_nothing_to_move_on() -> None:
    waiter = Waiter("polite")
    assert (waiter.turns(0.0, 0.0), Waiter("spin").turns(0.0, 0.0)) == (TURNS, 0)
    waiter.moving.add(1)
    assert waiter.turns(0.0, 0.0) == 0


# -- where others were seen ---------------------------------------------------------------------------------------


@pytest.fixture
def seen() -> Iterable[watch.Watch]:
    watch._address.cache_clear()  # a memory of its own: nothing is there that another test of this process wrote
    one = watch.Watch(alone=False)
    one._superstep = lambda: "superstep 7"
    yield one
    one.end()


def test_a_sighting_that_is_not_whole_is_not_believed(seen: watch.Watch) -> None:
    assert seen._read(seen.address) is None
    seen._write()
    first = seen._read(seen.address)
    assert first is not None
    assert first.text.startswith("superstep 7, at ")
    seen._superstep = lambda: "superstep 8"
    seen._write()
    second = seen._read(seen.address)
    assert second is not None
    assert second.text.startswith("superstep 8, at ")
    os.pwrite(seen.address.file, b"torn", seen._turn * watch.COPY_BYTES + 30)
    assert seen._read(seen.address) == first


@pytest.mark.parametrize(
    ("name", "other"), [("uname", lambda: SimpleNamespace(nodename="another")), ("readlink", lambda _: "pid:[1]")]
)
def test_processes_of_another_host_or_container_cannot_be_seen(
    name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = watch._node()
    assert here == watch._node()
    monkeypatch.setattr(os, name, other)
    assert watch._node() != here


def test_a_text_that_is_too_long_is_cut(seen: watch.Watch) -> None:
    seen._superstep = lambda: "\N{GREEK SMALL LETTER PI}" * watch.COPY_BYTES
    seen._write()
    found = seen._read(seen.address)
    assert found is not None
    assert found.text.count("\N{GREEK SMALL LETTER PI}") > watch.COPY_BYTES // 2 - 20


def test_what_has_become_of_a_process_is_said() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = watch._stat(child.pid)[1]
        address = watch.Address(watch._node(), child.pid, started, 99)
        assert watch._state(address) == ""
        assert watch._state(address._replace(started="1")) == "has ended"  # another process of that number
        child.send_signal(signal.SIGSTOP)
        until = time.monotonic() + 10
        while watch._state(address) != "stopped" and time.monotonic() < until:
            time.sleep(0.01)
        assert watch._state(address) == "stopped"
        child.kill()
    assert watch._state(address) == "has ended"


# -- the signal ---------------------------------------------------------------------------------------------------

ASKED = """
def until_told_by_all(bsp):
    (HERE / f"ready-{bsp.pid}").touch()  # the file is there before it returns
    until_told("pybsp: processor", times=bsp.p)
def main(bsp):
    bsp.sync()
    with bsp.superstep("stuck"):
        until_told_by_all(bsp)
pybsp.run(main)
"""


@pytest.mark.fast("pybsp run")
@pytest.mark.parametrize("command", ["mpiexec", "pybsp run"])
def test_a_signal_to_the_launcher_makes_all_ranks_print_their_places_and_stacks(command: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(HEAD + ASKED)
    ours = [sys.executable, "-m", "pybsp", "run", "-n", "2", str(path)]
    started = start([*mpiexec(2), *python(path)] if command == "mpiexec" else ours)
    until = time.monotonic() + 30
    while len(list(tmp_path.glob("ready-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(started.pid, signal.SIGUSR1)
    ended = finish(started, 30)
    assert ended.code == 0, ended
    for pid in (0, 1):
        said = (tmp_path / f"said-{pid}").read_text()
        assert "most recent call first" in said
        assert "in until_told" in said
        assert re.search(
            rf'^pybsp: processor {pid} of 2, process \d+: superstep 1 \("stuck"\), at \S+program.py:\d+$',
            said,
            re.MULTILINE,
        ), said


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="files have names in Unicode")
def test_a_program_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"bad\xff.py")
    path.write_text(
        dedent("""
            import os, signal, pybsp
            def main(bsp):
                os.kill(os.getpid(), signal.SIGUSR1)
                bsp.sync()
            def fails(proc):
                if proc.pid:
                    raise ValueError(__file__)
                proc.recv()
            pybsp.run(main)
            try:
                pybsp.logp.run(fails)
            except pybsp.ProcessorError as error:
                print(ascii(error), flush=True)
                raise
        """)
    )
    ended = run([*mpiexec(2), *python(path)])
    failed_once(ended, f"ValueError: {tmp_path}/bad\\udcff.py")
    assert "processor 1 failed: ValueError: " in ended.out
    for pid in (0, 1):
        assert re.search(rf"pybsp: processor {pid} of 2, .* superstep 0, at \S+bad\\udcff.py:\d+$", ended.err, re.M)


def alone(program: str, **environment: str) -> Ended:
    """Run a program without a launcher."""
    return run([sys.executable, "-c", "import os, signal, pybsp\n" + dedent(program)], 30, **environment)


def test_another_signal_may_be_asked_for_and_between_runs_it_is_answered_too() -> None:
    ended = alone("pybsp.run(lambda bsp: None); os.kill(os.getpid(), signal.SIGALRM)", PYBSP_REPORT_SIGNAL="alrm")
    assert (ended.code, ended.err.count("most recent call first")) == (0, 1)
    assert re.search(r"^pybsp: process \d+: between runs, at <string>:2$", ended.err, re.MULTILINE)


@pytest.mark.fast("signal.signal(signal.SIGUSR1, lambda *a: print('mine'))")
@pytest.mark.parametrize(
    "theirs",
    [
        "signal.signal(signal.SIGUSR1, lambda *a: print('mine'))",
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN); print('mine')",
        "from mpi4py import MPI; import faulthandler, sys\n"
        "faulthandler.register(signal.SIGUSR1, sys.stdout); print('mine', flush=True)",
    ],
)
def test_a_handler_of_the_program_stays(theirs: str) -> None:
    ended = alone(f"{theirs}\npybsp.run(lambda bsp: None)\nos.kill(os.getpid(), signal.SIGUSR1)")
    assert (ended.code, ended.err, ended.out.splitlines()[0]) == (0, "", "mine")


@pytest.mark.whole
def test_no_handler_is_set_where_none_is_wanted() -> None:
    ended = alone("pybsp.run(lambda bsp: None)\nos.kill(os.getpid(), signal.SIGUSR2)", PYBSP_REPORT_SIGNAL="none")
    assert (ended.code, ended.err) == (-signal.SIGUSR2, "")
    assert (
        alone("pybsp.run(lambda bsp: None)\nprint(signal.getsignal(signal.SIGUSR1))", PYBSP_REPORT_SIGNAL="0").out
        == "0\n"
    )


# -- keywords -----------------------------------------------------------------------------------------------------


def test_the_table_of_keywords_is_that_of_the_functions() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "settings.md").read_text()
    table = page[page.index("| keyword |") :].split("\n\n")[0]
    (_, *names, _), _, *rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    functions: dict[str, Callable[..., object]] = {
        "run": pybsp.run,
        "simulate": pybsp.simulate,
        "predict": pybsp.predict,
        "start_ranks": pybsp.start_ranks,
        "attach": pybsp.attach,
        "logp.run": pybsp.logp.run,
    }
    assert names == list(functions)
    for column, name in enumerate(names, 1):
        listed = {row[0] for row in rows if row[column] == "x"}
        found = inspect.signature(functions[name]).parameters.values()
        assert listed == {one.name for one in found if one.kind is one.KEYWORD_ONLY}, name


def test_a_keyword_that_may_have_been_meant_for_the_program_is_refused() -> None:
    def main(bsp: pybsp.BSP, timeout: float = 0.0, *, checked: bool = False) -> tuple[float, bool]:
        return timeout, checked

    with pytest.raises(UsageError, match=r"argument timeout: expected it to be for pybsp\.run alone"):
        pybsp.run(main, timeout=5)
    with pytest.raises(UsageError, match=r"argument checked: expected it to be for pybsp\.simulate alone"):
        pybsp.simulate(main, 5.0, p=1, checked=True)
    assert pybsp.simulate(main, 5.0, p=1, timeout=7).results == [(5.0, False)]


STARTS: list[Callable[..., Any]] = [pybsp.run, partial(pybsp.simulate, p=2), partial(pybsp.start_ranks, n=1)]


@pytest.mark.parametrize("begin", STARTS, ids=["run", "simulate", "start_ranks"])
def test_an_array_under_a_keyword_of_ours_is_refused_by_name(begin: Callable[..., Any]) -> None:
    def takes(bsp: pybsp.BSP, *, router: Any = None, machine: Any = None, checked: Any = None) -> None:
        raise AssertionError

    for name in ("router", "machine", "checked"):
        with pytest.raises(UsageError, match=rf"argument {name}: expected it to be for .* alone"):
            begin(takes, **{name: np.arange(2)})


async def asynchronous(bsp: Any) -> None:
    bsp.sync()


def generator(bsp: Any) -> Any:
    yield bsp.sync()


@pytest.mark.fast
@pytest.mark.parametrize(("program", "what"), [(asynchronous, "an async one"), (generator, "a generator")])
@pytest.mark.parametrize(
    "begin",
    [*STARTS, partial(pybsp.logp.simulate, p=2), partial(pybsp.logp.check, p=2), pybsp.logp.run],
    ids=["run", "simulate", "start_ranks", "logp.simulate", "logp.check", "logp.run"],
)
def test_a_program_that_would_run_nothing_is_refused(begin: Callable[..., Any], program: Any, what: str) -> None:
    with pytest.raises(UsageError, match=rf"argument (main|program): expected a function of a .*, got {what}, "):
        begin(program)


def test_an_array_is_no_flag() -> None:
    wrong: Any = np.arange(2)
    with pytest.raises(UsageError, match="argument checked: expected True or False, got int64"):
        pybsp.run(lambda bsp: None, checked=wrong)
    with pytest.raises(UsageError, match="argument checked: expected True or False, got int64"):
        pybsp.simulate(lambda bsp: None, p=2, checked=wrong)
    with pytest.raises(UsageError, match="argument measure: expected True or False, got int64"):
        pybsp.simulate(lambda bsp: None, p=2, measure=wrong)


@pytest.mark.whole
def test_a_probe_of_a_run_before_this_one_is_no_failure(tmp_path: Path) -> None:
    ended = job(
        2,
        tmp_path,
        """
        from pybsp.transport.wire import PROBE
        def main(bsp):
            if bsp.pid == 0:
                comm = bsp._transport._on.revocation.comm
                late = comm.Isend(b"of a wait that is over", 1, PROBE)
                time.sleep(0.1)  # the other one waits, and looks
            bsp.sync()
            if bsp.pid == 0:
                late.Wait()
        pybsp.run(main)
        say("well")
        """,
    )
    assert (ended.code, ended.out.split()) == (0, ["well"] * 2), ended.err


@pytest.mark.whole
def test_a_probe_of_the_last_wait_is_received_before_its_communicator_is_freed(tmp_path: Path) -> None:
    ended = job(
        3,
        tmp_path,
        """
        from mpi4py import MPI
        from pybsp.transport.mpi import RanksOf
        free = RanksOf.free
        def looked_at(ranks):
            MPI.COMM_WORLD.Barrier()
            until = time.perf_counter() + 0.2
            while not (found := ranks.revocation.comm.Iprobe()) and time.perf_counter() < until:
                pass
            say("left" if found else "none")
            free(ranks)
        RanksOf.free = looked_at
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            with bsp.split(0):
                pass  # from here on waits may cross, and those that last ask
            if bsp.pid == 0:
                bsp._transport._on.revocation.look = bsp._transport.waiter.look = lambda: None  # it need not look
                time.sleep(1)
        """,
    )
    assert (ended.code, ended.out.split()) == (0, ["none"] * 3), ended.err


def test_a_process_is_gone_where_it_has_ended_or_another_one_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    address: Any = SimpleNamespace(process=1, started="7")
    for state, started, gone in [("S", "7", False), ("Z", "7", True), ("X", "7", True), ("S", "8", True)]:
        monkeypatch.setattr(watch, "_stat", lambda process, of=(state, started): of)
        assert watch._is_gone(address) == gone
