"""`pybsp run`: a program on MPI ranks.

It loads neither numpy nor MPI, which the ranks do: it is there as soon as Python is.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..checkpoints import asked as checkpoints
from ..checkpoints import restarts
from ..checkpoints.notice import ENDED, NoticeFile, new_file
from ..errors import UsageError
from ..ground import settings
from ..ground.argument_types import count, processor, some_text
from ..processes import leftovers, slurm
from ..processes.attendance import Attendance
from ..processes.mpiexec import default_count, whence_count
from ..processes.supervise import end_children, supervise
from ..runs import threads
from .configured import TYPES, Choice, configured
from .programs import INTERRUPTED, add_count, add_program, environment_of, expecting
from .starting import Start, explained, refuse_shadow, start

LAUNCHER_FAILED = 255  # MPICH's, where it fails itself


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `run`."""
    add_count(parser, "-n", "-p", "processors (default: tasks of the allocation, else cores)")
    parser.add_argument("--router", type=some_text, metavar="NAME", help="of programs that name none (PYBSP_ROUTER)")
    parser.add_argument(
        "--hosts", type=some_text, metavar="A,B:2", help="where the ranks run, by the MPI library's own launcher"
    )
    parser.add_argument("--label-output", action="store_true", help="each line carries the number of its processor")
    parser.add_argument("--explain", action="store_true", help="print what would be run, and what said so; run nothing")
    _checkpoint_options(parser)
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure first what the ledger predicts by, in at most 10 s, where no earlier run on these processors has "
        "or that was on a busy machine or is far off",
    )
    parser.add_argument("--progress", action="store_true", help="show on stderr how far the run is (PYBSP_PROGRESS)")
    add_program(parser)
    parser.set_defaults(action=_run)


def _checkpoint_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        type=some_text,
        metavar="DIR",
        help="a folder for checkpoints, or LOCAL:SHARED, one of each host and one of all",
    )
    parser.add_argument(
        "--every", type=some_text, help="supersteps between them, or a time as 30s, or mtbf=24h (the default)"
    )
    parser.add_argument("--keep", type=count, metavar="K", help="how many are kept (default: 2)")
    parser.add_argument("--restarts", type=count, metavar="N", help="start a job that has died again, so often at most")
    parser.add_argument(
        "--record", type=processor, metavar="PID", help="record what this processor gets, for pybsp replay"
    )


def _run(options: argparse.Namespace) -> int:
    choices = configured({key: getattr(options, key.replace("-", "_")) for key in TYPES}, options.program)
    before = dict(os.environ)
    for key, what in choices.items():
        setattr(options, key.replace("-", "_"), what.value if key != "checked" else what.value not in ("0", False))
    environment = environment_of(options, choices) | _of_checkpoints(options)
    settings.progress()
    slurm.require_nodes(f"--hosts {options.hosts}", options.hosts or "")
    refuse_shadow(options.program)
    if options.progress:
        environment[settings.PROGRESS] = "terminal" if sys.stderr.isatty() else "lines"
    if options.router:
        from ..routing.choice import named

        named(options.router)
        environment["PYBSP_ROUTER"] = options.router
    if folders := environment.get(settings.CHECKPOINT) or os.environ.get(settings.CHECKPOINT):
        environment[settings.NOTICE] = str(new_file(Path(folders.split(os.pathsep)[-1]).absolute()))
    os.environ.update(environment)
    if options.n is None:
        choices = {"n": Choice(default_count(), whence_count()), **choices}
    ranks = choices["n"].value
    options.n = ranks
    if options.record is not None and options.record >= ranks:
        raise UsageError(f"--record: expected a processor's number below {ranks}, got {options.record}")
    if _all_here(options):
        os.environ.update(threads.of_ranks(ranks))

    def begin() -> Start:
        program = [options.program, *options.arguments]
        return start(ranks, program, tuple(environment), options.hosts or "", options.label_output)

    starting = begin()
    if options.explain:
        print(explained(choices, before, starting))
        return 0
    if options.calibrate:
        if "machine" in choices:
            source = choices["machine"].source.split()[-1]
            raise UsageError(f"--calibrate: {source} names the machine file to predict by; leave out one of the two")
        with tempfile.TemporaryDirectory(prefix="pybsp-") as folder:
            status, path = _calibrated(starting.launcher, folder)
            if status == INTERRUPTED:
                return status
            if path is not None:
                environment[settings.MACHINE] = path
                os.environ.update(environment)
                starting = begin()
            return _started(options, starting.command)
    return _started(options, starting.command)


def _calibrated(launcher: Sequence[str], folder: str) -> tuple[int, str | None]:
    """Measure the machine where no file fits it; an exit status, and a machine file that could not be cached."""
    first = importlib.import_module("pybsp.benchmarks.calibration.first")
    status, path = first.ready(launcher, folder)
    if status not in (0, INTERRUPTED):
        print(f"pybsp run: --calibrate failed (exit status {status}); the program runs without", file=sys.stderr)
    return status, path


def _started(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Start the program's ranks, and wait for them."""
    sys.stdout.flush()
    if sys.platform != "linux" and not options.calibrate:  # nothing is left behind there
        os.execvp(command[0], command)
    path = os.environ.get(settings.NOTICE)
    notices = NoticeFile(Path(path) if path else None)

    def job() -> int:
        if options.restarts:
            return _until_done(command, os.environ[settings.CHECKPOINT], options, notices)
        return _once(command, _Signals(notices), options, notices)

    here = _all_here(options)  # what ranks of other hosts have written is not seen
    copies = options.n if here and not options.restarts else 1  # what a job that died has left says nothing of the next
    ledger, trace = (settings.text(name) if here else "" for name in (settings.LEDGER, settings.TRACE))
    status = expecting(ledger, trace, options, job, copies)
    notices.remove()
    if not status and here and options.record is None:
        _complain_of_none(settings.text(settings.CHECKPOINT), options.program)
    if status:
        removed = leftovers.remove()
        if removed.files:
            freed = f"{removed.bytes / 1e6:.1f} MB"
            print(f"pybsp run: removed {freed} that dead jobs had left in {leftovers.SHARED_MEMORY}", file=sys.stderr)
    return status


def _complain_of_none(folders: str, program: str) -> None:
    """Say so where checkpoints were asked for and no run has begun to have any."""
    shared = folders.split(os.pathsep)[-1]
    if shared and not any(Path(shared).glob("run-*/jobs")):
        print(
            f"pybsp run: nothing was saved in {shared}: no main in {program} has called bsp.restore(default), and then "
            "bsp.checkpoint(state) where it can go on from",
            file=sys.stderr,
        )


def _of_checkpoints(options: argparse.Namespace) -> dict[str, str]:
    """What the options for checkpoints say, as environment variables."""
    if options.restarts and sys.platform != "linux":
        raise UsageError(
            f"--restarts: expected Linux, where a dead job can be waited for to its last process, got {sys.platform}; "
            "leave it out, and type the same command again when the job has died: it goes on from its last checkpoint"
        )
    if options.checkpoint:
        folders, _ = checkpoints.given("pybsp run", options.checkpoint.split(os.pathsep), options.every)
        for folder in folders or ():
            _require_folder(folder)
        found = {settings.CHECKPOINT: os.pathsep.join(folders or ())}
        if options.record is not None:
            found[settings.RECORD] = str(options.record)
        if options.keep:
            found[settings.CHECKPOINT_KEEP] = str(options.keep)
        return found | ({settings.CHECKPOINT_EVERY: options.every} if options.every else {})
    if options.restarts or options.every or options.keep or options.record is not None:
        raise UsageError(
            "--restarts, --every, --keep and --record: expected --checkpoint DIR too: where a job goes on from"
        )
    return {}


def _require_folder(folder: str) -> None:
    """Refuse a place where no folder for checkpoints can be, before each rank does."""
    there = next(place for place in (Path(folder), *Path(folder).parents) if os.path.exists(place))
    if not there.is_dir():
        raise UsageError(f"--checkpoint {folder}: expected a folder, or a place for one, got the file {there}")


class _Signals:
    """Which signals have come: where the job heeds notices, the first SIGTERM is one; the next one ends it.

    Args:
        notices: the file for them.
    """

    def __init__(self, notices: NoticeFile) -> None:
        self.come, self._notices = False, notices

    def __call__(self, number: int) -> int:
        first, self.come = not self.come, True
        # Of a notice nothing goes on to the launcher, which would kill the ranks.
        return 0 if first and number == signal.SIGTERM and self._notices.give() else number


def _all_here(options: argparse.Namespace) -> bool:
    """Whether all ranks are of this host."""
    return not options.hosts and not slurm.allocated()


def _once(command: Sequence[str], signals: _Signals, options: argparse.Namespace, notices: NoticeFile) -> int:
    """Run a job; its status, which says of one with checkpoints that it was told to end only where that is so.

    Launchers that end the others when a rank dies do it with the same signal, and so with the same status.
    """
    if _all_here(options):
        with Attendance(options.n) as attendance:
            status = supervise(command, signals, attendance.listen)
        # Launchers that cannot write what ranks print fail themselves, and take these with them.
        failed = status in (-signal.SIGPIPE, 128 + signal.SIGPIPE, LAUNCHER_FAILED)
        if status and not (failed or signals.come) and (rank := attendance.first_gone()):
            print(f"pybsp run: {rank}", file=sys.stderr)
    else:
        status = supervise(command, signals)
    return restarts.KILLED if status == ENDED and not (signals.come or notices.answered()) else status


def _until_done(command: Sequence[str], folders: str, options: argparse.Namespace, notices: NoticeFile) -> int:
    signals = _Signals(notices)

    def job() -> int:
        status = _once(command, signals, options, notices)
        if status:
            end_children()
            leftovers.remove()
        return status

    places = [Path(one) for one in folders.split(os.pathsep)]
    status = restarts.until_done(job, lambda: signals.come, places, options.restarts)
    leftovers.remove()  # a file that was empty when its rank was killed stays until somebody looks again
    return status
