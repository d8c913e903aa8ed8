"""Commands that look at machine files: `pybsp show`, `pybsp compare`, `pybsp export`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.text import Text

from pybsp.ground.files import require_outputs, writing

from . import compare, export, machine_file, plots, report
from .command import raw_path
from .results import Calibration
from .samples import Raw, read

_EDITED = "This is what was measured; programs go by what was edited: "


def add_show(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pybsp show`."""
    parser.add_argument("machine", help="a file written by pybsp calibrate, or by a machine's save")
    parser.add_argument("--plot", metavar="FILE", help="also draw one page of plots (.pdf, .png, .svg)")
    parser.add_argument(
        "--raw", metavar="FILE", help="the raw samples, for the plots (default: beside the machine file)"
    )
    parser.set_defaults(action=_piped(_show))


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pybsp compare`."""
    parser.add_argument("a", help="a file written by pybsp calibrate, or by a machine's save")
    parser.add_argument("b", help="another")
    parser.set_defaults(action=_piped(_compare))


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pybsp export`."""
    parser.add_argument("machine", help="a file written by pybsp calibrate")
    parser.add_argument("--format", required=True, choices=export.FORMATS, help="whose form")
    parser.add_argument("--layer", choices=tuple(report.LAYERS), help="whose messages (default: raw, which is mpi4py)")
    parser.add_argument("--where", choices=("intra", "inter"), help="within or between nodes, where both were measured")
    parser.add_argument("--raw", metavar="FILE", help="the raw samples, for extra-p (default: beside the machine file)")
    parser.add_argument("-o", metavar="FILE", dest="output", help="where to (default: standard output)")
    parser.set_defaults(action=_piped(_export))


def _show(options: argparse.Namespace) -> int:
    if options.plot is None and not machine_file.is_calibrated(options.machine):
        report.put(report.of_machines(machine_file.figures(options.machine)), report.console())
        return 0
    calibration = machine_file.read(options.machine)
    edited = machine_file.edited(options.machine, calibration)
    require_outputs([("--plot", options.plot)], _read_files(options))
    if options.plot is not None:
        plots.require_kind(options.plot)
    report.show(calibration, report.console())
    if edited:
        report.put([Text(_EDITED + "; ".join(edited))], report.console())
    if options.plot is not None:
        raw, why = _raw(options, calibration)
        if raw is None:
            print(f"pybsp show: {why}; what is drawn from samples is left out", file=sys.stderr)
        plots.page(calibration, raw, options.plot)
    return 0


def _compare(options: argparse.Namespace) -> int:
    if machine_file.is_calibrated(options.a) and machine_file.is_calibrated(options.b):
        first, second = machine_file.read(options.a), machine_file.read(options.b)
        parts = compare.tables(first, second, options.a, options.b)
    else:
        parts = compare.of_machines(options.a, options.b)
    report.put(parts, report.console())
    return 0


def _export(options: argparse.Namespace) -> int:
    calibration = machine_file.read(options.machine)
    if edited := machine_file.edited(options.machine, calibration):
        print(f"pybsp export: {_EDITED}{'; '.join(edited)}", file=sys.stderr)
    require_outputs([("-o", options.output)], _read_files(options))
    raw, why = _raw(options, calibration) if options.format == "extra-p" else (None, "")
    written = export.export(calibration, options.format, options.layer, options.where, raw, why)
    for note in written.notes:
        print(f"pybsp export: {note}", file=sys.stderr)
    if options.output is None:
        print(written.text, end="")
        return 0
    with writing(options.output, f"-o {options.output}") as file:
        file.write(written.text)
    return 0


def _read_files(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """What is read, and what it is called."""
    beside = "the raw samples beside it", raw_path(options.machine)
    return [("the machine file", options.machine), ("--raw", options.raw), beside]


def _raw(options: argparse.Namespace, calibration: Calibration) -> tuple[Raw | None, str]:
    """The raw samples of a calibration, or why there are none."""
    path = raw_path(options.machine) if options.raw is None else options.raw
    if options.raw is None and not Path(path).exists():
        return None, f"there are no raw samples beside {options.machine} ({path}); name them with --raw"
    raw = read(path)
    begun, own = raw.about.get("date"), calibration.about.get("date")
    if begun != own:  # a later calibration may have begun to write to the file
        return None, (
            f"{path} holds the samples of a calibration that began at {begun}, and {options.machine} is of one that "
            f"began at {own}; name its own with --raw"
        )
    return raw, ""


def _piped(action: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The action, ending well when the reader of its output has seen enough."""

    def acts(options: argparse.Namespace) -> int:
        try:
            status = action(options)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still to be flushed: the exit raises nothing
            return 0
        return status

    return acts
