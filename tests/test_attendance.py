"""Which rank ended first, and without a word: what `pybsp run` says when one was killed, and when none was."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from textwrap import dedent
from typing import Any

import pytest

from pybsp.ground import settings
from pybsp.processes import attendance, process
from pybsp.processes.attendance import Attendance

from .launching import Program, ended_well, python, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="such sockets are Linux's")


def joined(listening: Attendance, rank: int) -> socket.socket:
    """What a rank has joined with, when it has been heard."""
    line, before = socket.socket(socket.AF_UNIX), len(listening._heard)
    line.connect("\0" + os.environ[settings.ATTENDANCE])
    line.sendall(f"{rank} {1000 + rank}\n".encode())
    while len(list(filter(None, listening._heard.values()))) == before:
        time.sleep(0.001)
    return line


def test_ranks_of_this_host_have_ended_when_their_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI_LOCALNRANKS", "2")
    ranks = [subprocess.Popen(["sleep", "100"], env={"PMI_RANK": f"{rank}"}) for rank in (70, 71)]
    try:
        siblings = process.Siblings(os.getpid())
        assert siblings.ended(100) == []
        ranks[1].kill()
        os.waitid(os.P_PID, ranks[1].pid, os.WEXITED | os.WNOWAIT)  # its launcher has not looked yet
        assert siblings.ended(100) == [71]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ("2 0 1", "processor 2 (process 1002) was the first to end"),
        ("1 0. 2.", "processor 1 (process 1001) was the first to end"),
        ("1. 0 2", ""),  # whose status may be why the launcher has ended the others
        ("0 2 1!", ""),  # has ended the job
        ("0. 1. 2.", ""),
        ("0 1", ""),  # another one has not come: it may have ended before
        ("0- 1- 2- 2 0 1", "processor 2 (process 1002) was the first to end"),  # each has executed another program
        ("1 0 2 1. 0. 2.", ""),
        ("0- 1- 2-", ""),  # one that does not join
    ],
)
def test_the_first_to_end_is_named_if_it_took_no_leave(ends: str, first: str) -> None:
    with Attendance(3) as listening:
        listening.listen()
        lines = [(joined(listening, int(end[0])), end[1:]) for end in ends.split()]
        for line, how in lines:
            if how:
                line.send(how.encode())
            line.close()
    assert settings.ATTENDANCE not in os.environ
    assert listening.first_gone().startswith(first)
    assert bool(listening.first_gone()) == bool(first)


def test_a_rank_that_stays_is_waited_for_no_longer_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "ENDING", 0.05)
    with Attendance(2) as listening:
        listening.listen()
        stays, ends = joined(listening, 0), joined(listening, 1)
        ends.close()
    assert listening.first_gone().startswith("processor 1 ")
    stays.close()


PROGRAM = """
    import os, signal, sys
    import pybsp

    def main(bsp):
        bsp.sync()
        if bsp.pid == {pid}:
            {end}
        bsp.sync()

    pybsp.run(main)
"""


LABELLED = ["--label-output"]


@pytest.mark.parametrize(
    ("pid", "options"), [(0, []), pytest.param(2, [], marks=pytest.mark.whole), pytest.param(1, LABELLED)]
)
def test_a_rank_that_is_killed_is_named(program: Program, pid: int, options: list[str]) -> None:
    path = program(PROGRAM.format(pid=pid, end="os.kill(os.getpid(), signal.SIGKILL)"))
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "3", *options, str(path)])
    assert ended.code != 0
    assert f"pybsp run: processor {pid} (process " in ended.err
    assert ended.err.count("was the first to end, by no exit of Python's: killed, as the system does where") == 1


@pytest.mark.whole
@pytest.mark.parametrize(
    "source", ["import sys\nsys.exit(3)", "import pybsp, sys\npybsp.run(lambda bsp: bsp.sync())\nsys.exit(3)"]
)
def test_behind_labels_no_rank_is_blamed_that_ends_by_itself(program: Program, source: str) -> None:
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "2", *LABELLED, str(program(source))])
    assert ended.code == 3, ended
    assert "first to end" not in ended.err


@pytest.mark.whole
@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("os._exit(4)", "pybsp: processor 1 called os._exit(4) before the job has ended\n"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("bsp.abort('enough')", "enough"),
        ("pid = os.fork()\n            if not pid: os._exit(0)", ""),
    ],
)
def test_of_a_rank_that_has_told_why_it_ends_no_more_is_said(program: Program, end: str, text: str) -> None:
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "3", str(program(PROGRAM.format(pid=1, end=end)))])
    assert (ended.code != 0) == bool(text), ended
    assert text in ended.err
    assert "first to end" not in ended.err
    assert ended.err.count("called os._exit") == ("os._exit(4)" in end)


def test_ranks_beyond_the_files_that_may_be_open_are_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = socket.socket.accept

    def refused(line: socket.socket) -> Any:
        if len(listening._heard) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(line)

    monkeypatch.setattr(socket.socket, "accept", refused)
    with Attendance(2) as listening:
        listening.listen()
        joined(listening, 0).close()
        with socket.socket(socket.AF_UNIX) as other:
            other.connect("\0" + os.environ[settings.ATTENDANCE])
    assert listening.first_gone() == ""


def test_where_names_of_sockets_are_refused_nobody_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(line: socket.socket, name: str) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refused)
    with Attendance(1) as listening:
        listening.listen()
        assert settings.ATTENDANCE not in os.environ
    assert listening.first_gone() == ""


def test_outside_of_pybsp_run_nobody_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "_joined", [])
    for name in ("", "nobody listens here"):
        monkeypatch.setenv(settings.ATTENDANCE, name)
        attendance.join()
    assert attendance._joined == []


def test_a_rank_that_ends_without_a_run_says_so_as_long_as_it_is_there() -> None:
    code = """
        from pybsp.processes import process
        own = process._left(process.launched()[1])
        print(process._taken(own))
        process.leave()
        print(process._taken(own))
    """
    assert ended_well(run(python("-c", dedent(code)))).split() == ["False", "True"]
