"""The command `pybsp` (`python -m pybsp` is the same program)."""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import leftovers, page, report, simulation
from ._version import __version__
from .configured import TYPES, configured
from .errors import BSPError, LauncherError, UsageError
from .ledger import require_place
from .machine import BSPMachine, LogPMachine
from .routing.choice import named
from .starting import default_count, explained, refuse_shadow, start
from .supervise import supervise

# Modules that add commands of their own: `add_commands(commands)`.
PARTS = (
    ".doctor",
    ".benchmarks.calibration.command",
    ".benchmarks.calibration.viewing",
    ".benchmarks.emulation.command",
)


INTERRUPTED = 130  # the exit status after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, 1 after a failure, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.action(options)
    except BSPError as error:
        print(f"pybsp {options.command}: {error}", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pybsp", description="Run BSP programs and look at what they cost.")
    parser.add_argument("--version", action="version", version=f"pybsp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a program on MPI ranks")
    run.add_argument("-n", type=_count, help="processors (default: tasks of the allocation, else cores)")
    run.add_argument("--router", metavar="NAME", help="of programs that name none (PYBSP_ROUTER)")
    run.add_argument("--hosts", metavar="A,B:2", help="where the ranks run, by the MPI library's own launcher")
    run.add_argument("--label-output", action="store_true", help="each line carries the number of its processor")
    run.add_argument("--explain", action="store_true", help="print what would be run, and what said so; run nothing")
    run.add_argument(
        "--calibrate",
        action="store_true",
        help="measure first what the ledger predicts by, in at most 10 s, where no earlier run on these processors has",
    )
    _program_options(run)
    run.set_defaults(action=_run)

    simulate = commands.add_parser("simulate", help="run a program on virtual processors in one process")
    simulate.add_argument("-p", type=_count, required=True, help="processors")
    simulate.add_argument("--measure", action="store_true", help="count the time of computing as work")
    _program_options(simulate)
    simulate.set_defaults(action=_simulate)

    show = commands.add_parser("report", help="print a ledger: what each superstep cost")
    show.add_argument("ledger", nargs="+", help="a file written by --ledger")
    show.add_argument("--all", action="store_true", help="a line for each superstep, not for each label")
    show.add_argument(
        "--html", metavar="FILE", help="write a page of it, with pictures; two ledgers stand side by side"
    )
    show.set_defaults(action=_report)

    for part in PARTS:
        importlib.import_module(part, __package__).add_commands(commands)
    return parser


def _report(options: argparse.Namespace) -> int:
    try:
        if options.html:
            return page.write(options.ledger, options.html)
        return max([report.report(ledger, options.all) for ledger in options.ledger])
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _program_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ledger", metavar="FILE", help="write what each BSP superstep cost, as JSON")
    parser.add_argument("--machine", metavar="FILE", help="the machine file to predict by (PYBSP_MACHINE)")
    parser.add_argument("--checked", action="store_true", help="check what is too dear for every superstep")
    parser.add_argument("program", help="a Python file that calls pybsp.run or pybsp.logp.run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def _count(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number


def _environment(options: argparse.Namespace) -> dict[str, str]:
    """What the options say, as the environment variables that `run` reads."""
    found = {}
    if not Path(options.program).is_file():
        raise LauncherError(f"program {options.program}: there is no such file")
    if options.machine:
        # A LogP program needs no BSP machine.
        present = [kind for kind in (BSPMachine, LogPMachine) if kind.is_in(options.machine)]
        (present or [BSPMachine])[0].load(options.machine)
        found["PYBSP_MACHINE"] = str(Path(options.machine).resolve())
    if options.checked:
        found["PYBSP_CHECKED"] = "1"
    if options.ledger:
        require_place(options.ledger, "--ledger")
        found["PYBSP_LEDGER"] = str(Path(options.ledger).resolve())
    return found


def _run(options: argparse.Namespace) -> int:
    said = configured({key: getattr(options, key.replace("-", "_")) for key in TYPES}, options.program)
    for key, what in said.items():
        setattr(options, key.replace("-", "_"), what.value if key != "checked" else what.value not in ("0", False))
    environment = _environment(options)
    refuse_shadow(options.program)
    if options.router:
        named(options.router)
        environment["PYBSP_ROUTER"] = options.router
    os.environ.update(environment)
    ranks = options.n or default_count()
    starting = start(
        ranks, [options.program, *options.arguments], tuple(environment), options.hosts or "", options.label_output
    )
    if options.explain:
        print(explained(said, starting))
        return 0
    if options.calibrate:
        if "machine" in said:
            source = said["machine"].source.split()[-1]
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
    status = supervise(command)
    if status:
        removed = leftovers.remove()
        if removed.files:
            freed = f"{removed.bytes / 1e6:.1f} MB"
            print(f"pybsp run: removed {freed} that dead jobs had left in {leftovers.SHARED_MEMORY}", file=sys.stderr)
    return status


def _simulate(options: argparse.Namespace) -> int:
    environment = _environment(options)
    ledger = environment.pop("PYBSP_LEDGER", None)
    os.environ.update(environment)
    simulation.set_options(simulation.SimulateOptions(options.p, options.measure, ledger))
    sys.argv = [options.program, *options.arguments]
    sys.path.insert(0, str(Path(options.program).resolve().parent))
    try:
        runpy.run_path(options.program, run_name="__main__")
    except BSPError as error:  # the program's, not one about how this command was used
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        simulation.set_options(None)
    return 0
