"""Jobs of cases: each ends within its time, as is stated, and leaves no process behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import launching

from .kinds import Kind
from .media import Library, Medium, environment
from .outcomes import RECOVERS, Outcome, said
from .points import CASE

GRACE = 3.0  # seconds; what counts is that it is there, and the machine may be busy


class Tally(NamedTuple):
    """What came of the points of a medium: how many there are, outcomes of those tried, and what is wrong."""

    points: int
    outcomes: Counter[str]
    wrong: list[str]


def left_behind(mark: str) -> list[int]:
    """Processes with a word on their command line, or in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in seen and state != "Z":
                found.append(int(entry.name))
    return found


def gone(mark: str, limit: float = 30) -> list[int]:
    """Those that are still there after a while; they are killed."""
    until = time.monotonic() + limit
    while (left := left_behind(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


def tried(
    medium: Medium,
    library: Library,
    error: str,
    *,
    every: int,
    visits: int,
    seed: int,
    victim: int,
    failing: int = -1,
    patience: float = 60,
    say: Callable[[str], None] = lambda text: None,
) -> Tally:
    """Raise at every `every`-th point of a medium's exchanges, in as many jobs as that ends.

    Args:
        error: of `points.RAISES`.
        failing: another processor, which fails before: then the points are those at which the victim learns of it.
        patience: seconds of a case, at most.
    """
    points, first = 0, 0
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pybsp-faults-") as directory:
        while True:
            report = Path(directory) / f"from-{first}"
            command = [*library.command(medium.p), "-m", "tests.faults.points", str(report), error]
            for option, value in (
                ("router", medium.router),
                ("victim", victim),
                ("failing", failing),
                ("visits", visits),
                ("every", every),
                ("seed", seed),
                ("first", first),
            ):
                command += [f"--{option}", str(value)]
            code, printed = _watched(command, report, environment(medium, GRACE), patience)
            lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
            case, point = -1, ""
            done = True
            for line in lines:
                points = line.get("points", points)
                if "point" in line:
                    case, point, done = line["case"], line["point"], False
                if "outcome" in line:
                    done = True
                    word, _, _ = line["outcome"].partition(":")
                    outcomes[word] += 1
                    if word == "wrong":
                        wrong.append(f"{point}: {line['outcome']}")
                        say(wrong[-1])
            left = gone(directory)
            if left:
                wrong.append(f"{point}: processes {left} were left")
            if done and code == 0 and lines:
                return Tally(points, outcomes, wrong)
            if case < first:
                wrong.append(f"the job did not begin: status {code}: {printed[-3000:]}")
                return Tally(points, outcomes, wrong)
            # This case ended the job.
            word = "hung" if code is None else "ended" if code != 0 else "status 0"
            outcomes[word] += 1
            say(f"{point}: {word}: {printed[-300:]}")
            if word != "ended":
                wrong.append(f"{point}: {word}: {printed[-3000:]}")
            elif (tracebacks := said(printed.rpartition(CASE)[2])) != (
                0 if "was interrupted; ending the job" in printed else 1
            ):
                wrong.append(f"{point}: ended with {tracebacks} tracebacks: {printed[-3000:]}")
            first = case + 1


def _watched(command: list[str], report: Path, variables: dict[str, str], patience: float) -> tuple[int | None, str]:
    """Status and output of a job; None if a case took longer than the patience."""
    with open(report.with_suffix(".out"), "w+") as out:
        job = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **variables},
        )
        seen, since = -1, time.monotonic()
        code: int | None
        while (code := job.poll()) is None:
            size = report.stat().st_size if report.exists() else 0
            if size != seen:
                seen, since = size, time.monotonic()
            elif time.monotonic() - since > patience:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                break
            time.sleep(0.02)
        out.seek(0)
        return code, out.read()


def suits(kind: Kind, medium: Medium) -> bool:
    """Whether a kind of fault is there on a medium."""
    if kind.media == "bsp":
        return medium.router != "logp.run"
    return kind.media == "all" or ("PYBSP_SHARED", "0") in medium.environment


def left(kind: Kind, medium: Medium, library: Library, limit: float = 240) -> str:
    """A job with a kind of fault that nobody catches: what is wrong with its end, or ""."""
    return _shown(["left", kind.name], kind.outcome, medium, library, limit)


def caught(kinds: Sequence[Kind], medium: Medium, library: Library, limit: float = 300) -> str:
    """A job in which these are caught, one after the other, and a good run follows each: what is wrong, or ""."""
    return _shown(["caught", *(kind.name for kind in kinds)], RECOVERS, medium, library, limit)


def _shown(arguments: list[str], outcome: Outcome, medium: Medium, library: Library, limit: float) -> str:
    mark = f"pybsp-fault-{uuid.uuid4().hex}"
    variables = {**environment(medium, GRACE), "FAULTS_ROUTER": medium.router, "FAULTS_MARK": mark}
    command = [*library.command(medium.p), "-m", "tests.faults.program", *arguments]
    try:
        ended = launching.run(command, limit, **variables)
    except AssertionError as hung:
        gone(mark, 0)
        return f"hung: {hung}"
    finally:
        Path(tempfile.gettempdir(), f"{mark}-acted").unlink(missing_ok=True)
        shutil.rmtree(Path(tempfile.gettempdir(), f"{mark}-checkpoints"), ignore_errors=True)
    missed = outcome.missed(ended, medium.p)
    if not missed and (left := gone(mark)):
        missed = f"processes {left} were left"
    return missed and f"{missed}\n{ended.out[-1000:]}{ended.err[-3000:]}"
