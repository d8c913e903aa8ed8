"""The command `pybsp` (`python -m pybsp` is the same program)."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from . import leftovers, logp_report, page, report, settings, simulation, slurm, threads
from ._version import __version__
from .argument_types import ProgramAction, count, processor, some_text
from .checkpoints import asked as checkpoints
from .checkpoints import restarts
from .checkpoints.notice import NoticeFile, new_file
from .checkpoints.record import RecordReader
from .checkpoints.saver import ENDED
from .configured import TYPES, Choice, configured
from .errors import BSPError, CheckpointError, LauncherError, UsageError
from .failures import outcome
from .files import require_outputs, require_place
from .machine import BSPMachine, LogPMachine
from .mpiexec import default_count, whence_count
from .routing.choice import named
from .starting import explained, refuse_shadow, start
from .supervise import end_children, supervise

# Modules that add commands of their own: `add_commands(commands)`.
PARTS = (
    ".doctor",
    ".predict",
    ".benchmarks.calibration.command",
    ".benchmarks.calibration.viewing",
    ".benchmarks.emulation.command",
)


RUNNING = ("run", "simulate", "replay")  # commands whose output, and errors, are a program's
INTERRUPTED = 130  # the exit status after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, 1 after a failure, 2 for wrong usage."""
    _open_outputs()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):  # argparse says nothing of what cannot be written
            options = _parser().parse_args(arguments)
    except SystemExit:
        try:
            print(printed.getvalue(), end="", flush=True)  # of --help and --version
        except OSError as error:
            return _not_written("pybsp", error)
        raise
    prints = options.command not in RUNNING or getattr(options, "explain", False)  # what is printed is all its own
    if prints and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of labels and names of files that its encoding has not
    try:
        status: int = options.action(options)
        if prints:
            sys.stdout.flush()
    except BSPError as error:
        prefix = f"pybsp {options.command}: "
        print(prefix + str(error).removeprefix(prefix), file=sys.stderr)
        return 2
    except BrokenPipeError as error:
        if options.command == "run" and not prints:
            raise
        return _not_written(f"pybsp {options.command}", error)
    except OSError as error:
        if not prints or error.errno != errno.ENOSPC:
            raise
        return _not_written(f"pybsp {options.command}", error)
    return status


def _open_outputs() -> None:
    """Outputs that are closed lead nowhere: else the next file that is opened, as a ledger, would be one of them."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.set_inheritable(number, True)
            if nowhere != number:
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pybsp", description="Run BSP programs and look at what they cost.")
    parser.add_argument("--version", action="version", version=f"pybsp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a program on MPI ranks")
    run.add_argument("-n", type=count, help="processors (default: tasks of the allocation, else cores)")
    run.add_argument("--router", type=some_text, metavar="NAME", help="of programs that name none (PYBSP_ROUTER)")
    run.add_argument(
        "--hosts", type=some_text, metavar="A,B:2", help="where the ranks run, by the MPI library's own launcher"
    )
    run.add_argument("--label-output", action="store_true", help="each line carries the number of its processor")
    run.add_argument("--explain", action="store_true", help="print what would be run, and what said so; run nothing")
    _checkpoint_options(run)
    run.add_argument(
        "--calibrate",
        action="store_true",
        help="measure first what the ledger predicts by, in at most 10 s, where no earlier run on these processors has",
    )
    run.add_argument("--progress", action="store_true", help="show on stderr how far the run is (PYBSP_PROGRESS)")
    _program_options(run)
    run.set_defaults(action=_run)

    simulate = commands.add_parser("simulate", help="run a program on virtual processors in one process")
    simulate.add_argument("-p", type=count, required=True, help="processors")
    simulate.add_argument("--measure", action="store_true", help="count the time of computing as work")
    _program_options(simulate)
    simulate.set_defaults(action=_simulate)

    show = commands.add_parser(
        "report", help="print a ledger, or a LogP trace: what it cost, beside what was predicted"
    )
    show.add_argument("ledger", nargs="+", help="a file written by --ledger; of LogP programs, by --trace")
    show.add_argument("--all", action="store_true", help="a line for each superstep, not for each label")
    show.add_argument(
        "--html", metavar="FILE", help="write a page of it, with pictures; two ledgers stand side by side"
    )
    show.add_argument("--machine", type=some_text, metavar="FILE", help="predict LogP runs by this machine file")
    show.set_defaults(action=_report)

    again = commands.add_parser("replay", help="run one processor of a recorded job alone")
    again.add_argument("folder", metavar="DIR", help="that of `pybsp run --checkpoint DIR --record PID`")
    again.add_argument("--pid", type=processor, required=True, help="the processor")
    again.add_argument("--debug", action="store_true", help="under Python's debugger, from its first line on")
    again.set_defaults(action=_replay)

    for part in PARTS:
        importlib.import_module(part, __package__).add_commands(commands)
    return parser


def _report(options: argparse.Namespace) -> int:
    traces = [path for path in options.ledger if logp_report.is_trace(path)]
    if options.machine is not None and not traces:
        raise UsageError(
            "--machine: expected a file of LogP runs, which `pybsp run --trace` writes of LogP programs; "
            f"{' and '.join(options.ledger)} {'is none' if len(options.ledger) == 1 else 'are none'}"
        )
    if options.html is not None:
        require_outputs(
            [("--html", options.html)],
            [*((f"the ledger {path}", path) for path in options.ledger), ("--machine", options.machine)],
        )
    if traces:
        return _report_traces(options, traces)
    if options.html is not None:
        return page.write(options.ledger, options.html)
    return max([report.report(ledger, options.all) for ledger in options.ledger])


def _not_written(command: str, error: OSError) -> int:
    """Nothing more is printed; the exit status: nothing has failed where the reader has seen enough, and gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"{command}: standard output cannot be written ({error.strerror})", file=sys.stderr)
    return 1


def _report_traces(options: argparse.Namespace, traces: Sequence[str]) -> int:
    """Of LogP runs."""
    if len(options.ledger) > 1:
        raise UsageError(f"expected one trace file, got {' '.join(options.ledger)}")
    machine = None if options.machine is None else LogPMachine.load(options.machine)
    if options.html is None:
        return logp_report.report(traces[0], machine)
    heading = f"Trace {Path(traces[0]).name}"
    return page.put(page.framed(heading, logp_report.page_parts(traces[0], machine)), options.html)


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


def _program_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ledger", metavar="FILE", help="write what each BSP superstep cost, as JSON")
    parser.add_argument("--trace", metavar="FILE", help="write what each processor did, for ui.perfetto.dev")
    parser.add_argument(
        "--machine", type=some_text, metavar="FILE", help="the machine file to predict by (PYBSP_MACHINE)"
    )
    parser.add_argument("--checked", action="store_true", help="check what is too dear for every superstep")
    parser.add_argument(
        "program",
        nargs=argparse.PARSER,
        action=ProgramAction,
        help="a Python file that calls pybsp.run or pybsp.logp.run, and its arguments",
    )


def _environment(options: argparse.Namespace) -> dict[str, str]:
    """What the options say, as the environment variables that `run` reads."""
    found = {}
    if not Path(options.program).is_file():
        why = "expected a file" if Path(options.program).exists() else "there is no such file"
        raise LauncherError(f"program {options.program}: {why}")
    if options.machine is not None:
        # A LogP program needs no BSP machine.
        present = [kind for kind in (BSPMachine, LogPMachine) if kind.is_in(options.machine)]
        (present or [BSPMachine])[0].load(options.machine)
        found["PYBSP_MACHINE"] = str(Path(options.machine).resolve())
    if options.checked:
        found["PYBSP_CHECKED"] = "1"
    require_outputs(
        [("--ledger", options.ledger), ("--trace", options.trace)],
        [("--machine", options.machine), ("the program", options.program)],
    )
    if options.ledger is not None:
        found[settings.LEDGER] = str(Path(options.ledger).resolve())
    if options.trace is not None:
        found[settings.TRACE] = str(Path(options.trace).resolve())
    return found


def _run(options: argparse.Namespace) -> int:
    choices = configured({key: getattr(options, key.replace("-", "_")) for key in TYPES}, options.program)
    before = dict(os.environ)
    for key, what in choices.items():
        setattr(options, key.replace("-", "_"), what.value if key != "checked" else what.value not in ("0", False))
    environment = _environment(options) | _of_checkpoints(options)
    for name in (settings.LEDGER, settings.TRACE):
        if name not in environment and os.environ.get(name):
            require_place(os.environ[name], f"environment variable {name}")
    settings.progress()
    slurm.require_nodes(f"--hosts {options.hosts}", options.hosts or "")
    refuse_shadow(options.program)
    if options.progress:
        environment[settings.PROGRESS] = "terminal" if sys.stderr.isatty() else "lines"
    if options.router:
        named(options.router)
        environment["PYBSP_ROUTER"] = options.router
    if folders := environment.get(settings.CHECKPOINT) or os.environ.get(settings.CHECKPOINT):
        environment[settings.NOTICE] = str(new_file(Path(folders.split(os.pathsep)[-1]).absolute()))
    os.environ.update(environment)
    if options.n is None:
        choices = {"n": Choice(default_count(), whence_count()), **choices}
    ranks = choices["n"].value
    if options.record is not None and options.record >= ranks:
        raise UsageError(f"--record: expected a processor's number below {ranks}, got {options.record}")
    if not options.hosts and not slurm.allocated():
        os.environ.update(threads.of_ranks(ranks))
    starting = start(
        ranks, [options.program, *options.arguments], tuple(environment), options.hosts or "", options.label_output
    )
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
                environment["PYBSP_MACHINE"] = path
                os.environ.update(environment)
                starting = start(
                    ranks,
                    [options.program, *options.arguments],
                    tuple(environment),
                    options.hosts or "",
                    options.label_output,
                )
            return _started(options, starting.command)
    return _started(options, starting.command)


def _calibrated(launcher: Sequence[str], folder: str) -> tuple[int, str | None]:
    """Measure the machine where no file fits it; an exit status, and a machine file that could not be cached."""
    first = importlib.import_module(".benchmarks.calibration.first", __package__)
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
            return _until_done(command, os.environ[settings.CHECKPOINT], options.restarts, notices)
        return _once(command, _Signals(notices), notices)

    here = not options.hosts and not slurm.allocated()  # what ranks of other hosts have written is not seen here
    status = _expecting(settings.text(settings.LEDGER) if here else "", options, job)
    notices.remove()
    if status:
        removed = leftovers.remove()
        if removed.files:
            freed = f"{removed.bytes / 1e6:.1f} MB"
            print(f"pybsp run: removed {freed} that dead jobs had left in {leftovers.SHARED_MEMORY}", file=sys.stderr)
    return status


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


def _once(command: Sequence[str], signals: _Signals, notices: NoticeFile) -> int:
    """Run a job; its status, which says of one with checkpoints that it was told to end only where that is so.

    Launchers that end the others when a rank dies do it with the same signal, and so with the same status.
    """
    status = supervise(command, signals)
    return restarts.KILLED if status == ENDED and not (signals.come or notices.answered()) else status


def _until_done(command: Sequence[str], folders: str, restarts_: int, notices: NoticeFile) -> int:
    signals = _Signals(notices)

    def job() -> int:
        status = _once(command, signals, notices)
        if status:
            end_children()
            leftovers.remove()
        return status

    places = [Path(one) for one in folders.split(os.pathsep)]
    status = restarts.until_done(job, lambda: signals.come, places, restarts_)
    leftovers.remove()  # a file that was empty when its rank was killed stays until somebody looks again
    return status


def _simulate(options: argparse.Namespace) -> int:
    environment = _environment(options)
    ledger, trace = environment.pop(settings.LEDGER, None), environment.pop(settings.TRACE, None)
    os.environ.update(environment)
    chosen = simulation.SimulateOptions(options.p, options.measure, ledger, trace=trace)
    return _expecting(ledger or "", options, lambda: _run_here([options.program, *options.arguments], chosen))


def _expecting(ledger: str, options: argparse.Namespace, act: Callable[[], int]) -> int:
    """Run a program, and say so where it ends well and no run has seen to the ledger; "": none is asked for."""
    if not ledger:
        return act()
    with tempfile.TemporaryDirectory(prefix="pybsp-") as folder:
        receipt = Path(folder) / "receipt"
        os.environ[settings.RECEIPT] = str(receipt)
        status: object = 1
        try:
            status = found = act()
        except SystemExit as end:
            status = end.code
            raise
        finally:
            os.environ.pop(settings.RECEIPT, None)
            if not status and not receipt.exists():
                print(
                    f"pybsp {options.command}: no BSP run has written the ledger {ledger}; pybsp.run(main) in "
                    f"{options.program} would, where main does not call sys.exit",
                    file=sys.stderr,
                )
    return found


def _replay(options: argparse.Namespace) -> int:
    folder = Path(options.folder.split(os.pathsep)[-1]).resolve()
    header = RecordReader(folder / "run-0" / "record", options.pid).header
    for place in Path(header.folder), Path(header.folder, header.program[0]):
        if not place.exists():
            raise CheckpointError(
                f"{folder}: {header.program[0]} was recorded in {header.folder}, and {place} is not there any more; "
                "put it back: a processor runs again where it ran"
            )
    os.chdir(header.folder)
    replay = simulation.Replay(folder, options.pid, options.debug)
    return _run_here(header.program, simulation.SimulateOptions(header.p, replay=replay))


def _run_here(program: Sequence[str], options: simulation.SimulateOptions) -> int:
    """Execute a program and its arguments in this process."""
    simulation.set_options(options)
    sys.argv = list(program)
    sys.path.insert(0, str(Path(program[0]).resolve().parent))
    try:
        runpy.run_path(program[0], run_name="__main__")
    except BSPError as error:  # the program's, not one about how this command was used
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    except SystemExit as end:
        if not outcome(end).lone_exit:
            raise
        sys.excepthook(type(end), end, end.__traceback__)  # which Python would not call
        return end.code if isinstance(end.code, int) else 1
    finally:
        simulation.set_options(None)
    return 0
