"""Commands that look at machine files: `pybsp show`, `pybsp compare`, `pybsp export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.text import Text

from pybsp.errors import UsageError
from pybsp.files import replacing, require_different

from . import compare, export, machine_file, plots, report
from .command import raw_path
from .samples import Raw, read


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add them to pybsp's commands."""
    show = commands.add_parser("show", help="print a machine file: parameters, intervals, errors, flags")
    show.add_argument("machine", help="a file written by pybsp calibrate")
    show.add_argument("--plot", metavar="FILE", help="also draw one page of plots (.pdf, .png, .svg)")
    show.add_argument("--raw", metavar="FILE", help="the raw samples, for the plots (default: beside the machine file)")
    show.set_defaults(action=_piped(_show))

    both = commands.add_parser("compare", help="compare two machine files")
    both.add_argument("a", help="a file written by pybsp calibrate")
    both.add_argument("b", help="another")
    both.set_defaults(action=_piped(_compare))

    written = commands.add_parser("export", help="write a machine file's figures as other programs read them")
    written.add_argument("machine", help="a file written by pybsp calibrate")
    written.add_argument("--format", required=True, choices=export.FORMATS, help="whose form")
    written.add_argument("--layer", choices=tuple(report.LAYERS), help="whose messages (default: raw, which is mpi4py)")
    written.add_argument(
        "--where", choices=("intra", "inter"), help="within or between nodes, where both were measured"
    )
    written.add_argument(
        "--raw", metavar="FILE", help="the raw samples, for extra-p (default: beside the machine file)"
    )
    written.add_argument("-o", metavar="FILE", dest="output", help="where to (default: standard output)")
    written.set_defaults(action=_piped(_export))


def _show(options: argparse.Namespace) -> int:
    calibration = machine_file.read(options.machine)
    require_different([("--plot", options.plot)], _read_files(options))
    report.show(calibration, report.console())
    if options.plot is not None:
        raw, why = _raw(options)
        if raw is None:
            print(f"pybsp show: {why}; what is drawn from samples is left out", file=sys.stderr)
        plots.page(calibration, raw, options.plot)
    return 0


def _compare(options: argparse.Namespace) -> int:
    where = report.console()
    first, second = machine_file.read(options.a), machine_file.read(options.b)
    for part in compare.tables(first, second, options.a, options.b):
        where.print(part, highlight=False, soft_wrap=isinstance(part, Text))
    return 0


def _export(options: argparse.Namespace) -> int:
    calibration = machine_file.read(options.machine)
    require_different([("-o", options.output)], _read_files(options))
    raw, why = _raw(options) if options.format == "extra-p" else (None, "")
    written = export.export(calibration, options.format, options.layer, options.where, raw, why)
    for note in written.notes:
        print(f"pybsp export: {note}", file=sys.stderr)
    if options.output is None:
        print(written.text, end="")
        return 0
    try:
        with replacing(options.output) as file:
            file.write(written.text)
    except OSError as error:
        raise UsageError(f"-o {options.output}: cannot be written ({error.strerror})") from error
    return 0


def _read_files(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """What is read, and what it is called."""
    beside = "the raw samples beside it", raw_path(options.machine)
    return [("the machine file", options.machine), ("--raw", options.raw), beside]


def _raw(options: argparse.Namespace) -> tuple[Raw | None, str]:
    """The raw samples, or why there are none."""
    if options.raw is not None:
        return read(options.raw), ""
    path = Path(raw_path(options.machine))
    if not path.exists():
        return None, f"there are no raw samples beside {options.machine} ({path}); name them with --raw"
    return read(path), ""


def _piped(action: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The action, ending well when the reader of its output has seen enough."""

    def acts(options: argparse.Namespace) -> int:
        try:
            status = action(options)
            sys.stdout.flush()
        except BrokenPipeError:
            report.silence()
            return 0
        return status

    return acts
