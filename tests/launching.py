"""Starting programs as a user does, with a time limit, and without leaving processes behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from pybsp.processes.mpiexec import launcher

LIMIT = 240  # seconds for a job that ends by itself: it takes some, beside others that keep the cores busy too

Program = Callable[[str], Path]  # writes a program: the fixture of that name


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def mpiexec(p: int) -> list[str]:
    """The command that starts p ranks with the launcher that belongs to the MPI library."""
    return launcher(p)


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def finish(job: subprocess.Popen[str], limit: float = LIMIT) -> Ended:
    """Wait for a command; one that hangs fails the test with what it printed."""
    try:
        out, err = job.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, err = job.communicate()
        raise AssertionError(f"no end within {limit} s\nstdout:\n{out}\nstderr:\n{err}") from None
    return Ended(job.returncode, out, err)


def run(command: list[str], limit: float = LIMIT, /, **environment: str) -> Ended:
    """Start a command and wait for it."""
    return finish(start(command, **environment), limit)


def python(program: Path | str, *arguments: str) -> list[str]:
    """The command that runs a program with this Python."""
    return [sys.executable, str(program), *arguments]


def ranks(p: int, path: Path, limit: float = LIMIT, /, **environment: str) -> Ended:
    """Run a program on p ranks."""
    return run([*mpiexec(p), *python(path)], limit, **environment)


def sessions_passed(p: int, directory: Path, limit: float, /, *arguments: str, **environment: str) -> None:
    """A pytest session on p ranks passes on each: its arguments are pytest's.

    What is shown else is what the rank printed that ended first: the others may have waited for it until their time
    was up.
    """
    command = [*mpiexec(p), *python(Path(__file__).parent / "one_rank.py", str(directory), *arguments)]
    try:
        ended = run(command, limit, **environment)
    except AssertionError as late:
        ended = Ended(-1, "", str(late))
    codes = [directory / f"exit-{rank}" for rank in range(p)]
    logs = [directory / f"rank-{rank}.txt" for rank in range(p)]
    texts = [log.read_text() if log.exists() else "(never started)" for log in logs]
    bad = [rank for rank, code in enumerate(codes) if not code.exists() or code.read_text() != "0"]
    bad.sort(key=lambda rank: codes[rank].stat().st_mtime if codes[rank].exists() else float("inf"))
    printed = f"mpiexec -n {p} ended with {ended.code} and printed:\n{ended.out[-1000:]}{ended.err[-1000:]}"
    assert not bad, f"ranks {bad} failed; rank {bad[0]} printed:\n{texts[bad[0]][-6000:]}\n{printed}"
    assert ended.code == 0, printed
    assert all(" passed" in text for text in texts)


def in_turn(programs: Mapping[str, str]) -> str:
    """A program that runs several, by name, one after the other: their ranks start once."""
    texts = {name: dedent(text) for name, text in programs.items()}
    return f"for name, text in {texts!r}.items():\n    exec(compile(text, name, 'exec'), {{'__name__': '__main__'}})\n"


def ended_well(ended: Ended) -> str:
    """What was printed by a command that ended well."""
    assert ended.code == 0, ended
    return ended.out


def failed_once(ended: Ended, error: str) -> None:
    """The job failed, and all it printed of it is one traceback, of that error."""
    printed = ended.out + ended.err
    assert ended.code != 0, printed
    assert ended.err.count("Traceback") == 1, printed
    assert re.search(rf"^{re.escape(error)}", ended.err, re.MULTILINE), printed
    assert "Exception ignored" not in ended.err, printed
