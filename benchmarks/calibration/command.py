"""The command `calibrate`: it measures under mpiexec, or starts that itself; it analyses, writes and shows."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pybsp.errors import BSPError, UsageError, usage_error
from pybsp.ground.argument_types import add_np, count, whole_number
from pybsp.ground.decoding import LARGEST
from pybsp.ground.failures import quiet
from pybsp.ground.files import require_different, require_place
from pybsp.processes import process

if TYPE_CHECKING:
    from .harness import LaunchSpec
    from .results import Calibration
    from .samples import Raw

METHODS = ("pybsp", "bspbench", "bsponmpi")
STARTING = 2.0  # seconds that a launch takes beside measuring, and the analysis
SHORTEST = 20.0  # seconds of a budget for which another launch is worth its start
GRACE = 5.0  # seconds that mpiexec gets to end its ranks
LINE_EVERY = 5.0  # seconds, where the progress goes to no terminal
LARGEST_WORD = 1 << 16  # bytes: messages are of thousands of words


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `pybsp calibrate`, and what it does."""
    parser.description = (
        "Measure the parameters of this machine, on MPI ranks: `pybsp calibrate -n 4` starts them, several "
        "times; `mpiexec -n 4 pybsp calibrate` measures on those that there are. Raw samples lie beside the machine "
        "file as they come."
    )
    parser.formatter_class = _Help
    parser.add_argument("-n", type=count, help="processors to start (default: cores)")
    add_np(parser)
    parser.add_argument("-o", "--output", default="machine.json", metavar="FILE", help="default: machine.json")
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", dest="level", action="store_const", const="quick", help="in less than a minute")
    level.add_argument("--thorough", dest="level", action="store_const", const="thorough", help="about 20 minutes")
    parser.add_argument("--only", type=_parts, action="extend", metavar="PARTS", help="some of")
    parser.add_argument("--word", type=_word, metavar="BYTES", help="sizes are multiples of so many bytes (default: 8)")
    parser.add_argument("--budget", type=_seconds, metavar="SECONDS", help="for all of it")
    parser.add_argument("--launches", type=count, help="how often ranks are started (default: 1 quick, 3, 5 thorough)")
    parser.add_argument("--seed", type=_seed, help="of orders and of resampling (default: 0)")
    parser.add_argument("--resume", action="store_true", help="go on with a calibration that was interrupted")
    parser.add_argument(
        "--from", dest="samples", metavar="RAW", help="measure nothing: analyse raw samples again, to the same bits"
    )
    parser.add_argument("--trace", metavar="FILE", help="write when each point was timed, in Chrome's trace form")
    parser.add_argument("--method", choices=METHODS, default="pybsp", help="how l and g are fitted (default: pybsp)")
    parser.set_defaults(action=_calibrate)


class _Help(argparse.HelpFormatter):
    """Behind the text of --only its parts, for which more is loaded than other commands need."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.dest != "only":
            return action.help
        from .harness import PARTS

        return f"{action.help} {', '.join(PARTS)}"


def raw_path(output: str) -> str:
    """Where the raw samples of a machine file lie."""
    path = Path(output)
    # Only that suffix goes: cluster-2.4 and cluster-2.8 are two files.
    return str(path.with_suffix(".csv") if path.suffix == ".json" else path.with_name(f"{path.name}.csv"))


def _calibrate(options: argparse.Namespace) -> int:
    from pybsp.processes.process import launched as processes
    from pybsp.transport.launcher import under_launcher

    have_scipy()
    if options.trace is not None:
        require_place(options.trace, "--trace")
    if options.samples is not None:
        return _again(options)
    if under_launcher():
        try:
            return _on_these(options, processes()[1] == 0)
        except BSPError as error:  # all ranks know of it, one says it
            if not quiet(error):
                print(f"pybsp calibrate: {error}", file=sys.stderr)
            return 2
    try:
        return _start(options)
    except KeyboardInterrupt:  # between launches, or in the analysis
        raw = raw_path(options.output)
        print(f"pybsp calibrate: interrupted{f'; {_resumable(raw)}' if Path(raw).exists() else ''}", file=sys.stderr)
        return 130


def have_scipy() -> None:
    """Before anything is measured; a UsageError where scipy is not there."""
    try:
        importlib.import_module("scipy.special")
    except ImportError:
        raise UsageError("it needs scipy, which the extra `calibrate` has: pip install scipy") from None


# -- without measuring -------------------------------------------------------------------------------------------------


def _again(options: argparse.Namespace) -> int:
    from .samples import read

    requested = ("only", "word", "budget", "launches", "seed")
    given = {
        "-n": options.n is not None,
        f"--{options.level}": options.level is not None,
        **{f"--{name}": getattr(options, name) is not None for name in requested},
        "--resume": options.resume,
    }
    unused = [name for name, there in given.items() if there]
    if unused:
        raise UsageError(f"--from: measures nothing; expected no {', '.join(unused)} beside it")
    _writable(options)
    return _finish(read(options.samples), options)


# -- on the ranks that there are ---------------------------------------------------------------------------------------


def _on_these(options: argparse.Namespace, first: bool) -> int:
    import pybsp

    from .harness import finish, from_first, ignore_settings, launch_on_ranks
    from .samples import read

    def asked() -> LaunchSpec:
        if options.n is not None:
            raise UsageError("-n: these are ranks of mpiexec already; leave -n out, or mpiexec")
        if options.launches not in (None, 1):
            raise UsageError(f"--launches: mpiexec has started the ranks once, got {options.launches}; use -n instead")
        return _job(options, 1)

    def agreed(bsp: pybsp.BSP) -> LaunchSpec:
        # Only processor 0 looks at options and files, and says what is wrong.
        job: LaunchSpec = from_first(bsp, asked() if bsp.pid == 0 else None)
        return job

    ignore_settings()
    job = pybsp.run(agreed)
    text = f"\npybsp calibrate: {_resumable(job.raw)}" if first else ""
    with _progress() as tell, _interrupted_by(signal.SIGINT, text=text):
        launch_on_ranks(job, tell if first else None)
    if not first:
        return 0
    if job.launch + 1 == job.launches:
        finish(job.raw)
    return _finish(read(job.raw), options)


@contextlib.contextmanager
def _interrupted_by(*numbers: int, text: str = "") -> Iterator[None]:
    """These signals end this as Ctrl-C does; a text says so, as what follows Ctrl-C is the end of the job."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if text:
            print(text, file=sys.stderr, flush=True)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _resumable(raw: str) -> str:
    return f"what was sampled is kept in {raw}: --resume goes on with it, --from makes a machine file of it"


# -- with mpiexec ------------------------------------------------------------------------------------------------------


def _start(options: argparse.Namespace) -> int:
    from pybsp.processes.mpiexec import default_count, launcher

    from .harness import LAUNCHES, finish
    from .samples import read

    begun = time.monotonic()
    level = options.level or "default"
    launches = options.launches or LAUNCHES[level]
    if options.budget is not None and options.launches is None:
        launches = max(1, min(launches, int(options.budget / SHORTEST)))
    job = _job(options, launches)
    n = options.n or (read(job.raw).about["p"] if job.goes_on else default_count())
    command = launcher(n)
    status = 0
    with _progress() as tell:
        for number in range(job.launch, job.launches):
            this = dataclasses.replace(job, launch=number, goes_on=job.goes_on or number > 0)
            if this.budget is not None:
                left = this.budget - (time.monotonic() - begun)
                this = dataclasses.replace(this, seconds=max(left / (job.launches - number) - STARTING, 0.5))
            status = _launch([*command, *process.running(_WORKER)], this, tell)
            if status != 0:
                break
    if status == 2 or not Path(job.raw).exists():
        return status or 1
    if status == 0:
        finish(job.raw)
        return _finish(read(job.raw), options)
    why = "interrupted" if status == 130 else f"a launch failed (exit status {status})"
    raw = read(job.raw)
    print(f"pybsp calibrate: {why}; {_resumable(job.raw)}", file=sys.stderr)
    if raw.samples:
        _finish(raw, options, partial=True)
    return 130 if status == 130 else 1


_WORKER = "pybsp.benchmarks.calibration.worker"


def _launch(command: list[str], job: LaunchSpec, tell: Callable[[float, float], None]) -> int:
    """One launch: its exit status, 130 if it was interrupted."""
    from .worker import argument

    def hear(line: str) -> None:
        with contextlib.suppress(ValueError, TypeError):
            done, left = json.loads(line)
            rest = job.launches - job.launch - 1
            length = job.seconds if math.isfinite(job.seconds) else 0.0
            tell((job.launch + done) / job.launches, left + rest * length)

    return launched([*command, argument(job)], hear)


def launched(command: list[str], hear: Callable[[str], None]) -> int:
    """Run a command that starts ranks, and hear each line that it prints.

    Returns:
        its exit status, 130 if it was interrupted; no rank outlives it.
    """
    # In a process group of its own, so that Ctrl-C ends it in an orderly way.
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert child.stdout is not None
    try:
        with _interrupted_by(signal.SIGTERM, signal.SIGHUP):
            for line in child.stdout:
                hear(line)
            return child.wait()
    except KeyboardInterrupt:
        return 130
    finally:
        _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    """End mpiexec and its ranks, if they have not ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)


# -- what is common ----------------------------------------------------------------------------------------------------


def _job(options: argparse.Namespace, launches: int) -> LaunchSpec:
    """What is to be measured: as asked for, or as the calibration that was interrupted has it."""
    from .harness import PARTS, SECONDS, LaunchSpec
    from .samples import read

    _writable(options)
    raw, level = raw_path(options.output), options.level or "default"
    before = read(raw) if Path(raw).exists() and Path(raw).stat().st_size else None
    ended = 0 if before is None else sum(event.get("event") == "ended" for event in before.events)
    over = before is None or any(event.get("event") == "finished" for event in before.events)
    if not options.resume:
        if before is not None and not over:
            raise UsageError(
                f"{raw} holds {len(before.samples)} samples of a calibration that was interrupted: --resume goes on "
                "with it; delete the file to begin anew"
            )
        lost = set() if before is None else {*(before.about.get("only") or PARTS)} - {*(options.only or PARTS)}
        if lost:
            raise usage_error(
                "--only",
                f"the parts that {options.output} has, which this would replace",
                f"no {', '.join(part for part in PARTS if part in lost)}",
                f"name another file (-o), or delete {raw} to have none of them",
            )
        return LaunchSpec(
            raw,
            launches=launches,
            level=level,
            only=tuple(dict.fromkeys(options.only or ())),
            word=options.word or 8,
            seed=options.seed or 0,
            budget=options.budget,
            seconds=_share(SECONDS[level] if options.budget is None else options.budget - STARTING, launches),
        )
    if before is None:
        raise UsageError(f"--resume: there are no samples to go on with in {raw}")
    about = before.about
    missing = [name for name in ("level", "only", "word", "launches", "budget") if name not in about]
    if missing:
        raise usage_error(f"--resume: raw samples {raw}: line 1", "what was asked for", f"no {', '.join(missing)}")
    for name in ("level", "only", "word", "seed"):
        requested = getattr(options, name)
        if requested is not None and (list(requested) if name == "only" else requested) != about[name]:
            raise UsageError(f"--resume: the calibration in {raw} has {name} = {about[name]!r}, got {requested!r}")
    budget = options.budget or about["budget"]
    planned = ended + launches if over else max(options.launches or about["launches"], ended + 1)
    return LaunchSpec(
        raw,
        launch=ended,
        launches=planned,
        level=about["level"],
        only=tuple(about["only"]),
        word=about["word"],
        seed=about["seed"],
        budget=budget,
        seconds=_share(SECONDS[about["level"]] if budget is None else budget - STARTING, launches if over else planned),
        goes_on=True,
    )


def _share(seconds: float, launches: int) -> float:
    return max(seconds / launches, 0.5)


def _finish(raw: Raw, options: argparse.Namespace, partial: bool = False) -> int:
    """Analyse, write and show. Of an interrupted calibration nothing is written that predicts nothing."""
    from . import machine_file, report
    from .analysis import analyse
    from .trace import write

    if options.trace is not None:
        write(raw, options.trace)
    calibration: Calibration = analyse(raw, options.method)
    content = machine_file.to_json(calibration)
    written = not partial or "bsp" in content
    if written:
        machine_file.write(calibration, options.output)
    report.show(calibration, report.console())
    print(f"written: {options.output}" if written else f"not written: {options.output}, as there are too few samples")
    return 0


def _writable(options: argparse.Namespace) -> None:
    output = options.output
    require_place(output, "-o")
    if Path(output).suffix == ".csv":
        raise usage_error("-o", "a name that does not end in .csv, as the raw samples' does", output)
    require_different(
        [("-o", output), ("--trace", options.trace)],
        [("--from", options.samples), ("the raw samples beside -o", raw_path(output))],
    )


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[float, float], None]]:
    """A bar on stderr, or lines where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def line(done: float, left: float) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_EVERY:
                last = time.monotonic()
                print(f"calibrating: {done:.0%}, {_time(left)} left", file=sys.stderr, flush=True)

        yield line
        return
    columns = (TextColumn("calibrating"), BarColumn(), TextColumn("{task.percentage:.0f} %, {task.fields[left]} left"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, left="?")
        yield lambda done, left: bar.update(task, completed=done, left=_time(left))


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _word(text: str) -> int:
    return whole_number(text, 1, LARGEST_WORD, "whole bytes")


def _seed(text: str) -> int:
    return whole_number(text, 0, LARGEST, "a whole number")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds, above 0, got {text!r}")
    return value


def _parts(text: str) -> tuple[str, ...]:
    from .harness import PARTS

    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, got {text!r}")
    return parts
