"""`pybsp report`: a ledger, or a LogP trace, as text or as a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..ground.argument_types import some_text
from ..ground.files import require_outputs
from ..machines.logp import LogPMachine
from . import logp_report, page, table


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `report`."""
    parser.add_argument("ledger", nargs="+", help="a file written by --ledger; of LogP programs, by --trace")
    parser.add_argument("--all", action="store_true", help="a line for each superstep, not for each label")
    parser.add_argument("--wide", action="store_true", help="all columns, also beyond a terminal's width")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page of it, with pictures; two ledgers stand side by side"
    )
    parser.add_argument("--machine", type=some_text, metavar="FILE", help="predict LogP runs by this machine file")
    parser.set_defaults(action=_report)


def _report(options: argparse.Namespace) -> int:
    traces = [path for path in options.ledger if logp_report.is_trace(path)]
    if options.machine is not None and not traces and all(Path(path).exists() for path in options.ledger):
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
    return max([table.report(ledger, options.all, options.wide) for ledger in options.ledger])


def _report_traces(options: argparse.Namespace, traces: Sequence[str]) -> int:
    """Of LogP runs."""
    if len(options.ledger) > 1:
        raise UsageError(f"expected one trace file, got {' '.join(options.ledger)}")
    machine = None if options.machine is None else LogPMachine.load(options.machine)
    if options.html is None:
        return logp_report.report(traces[0], machine, options.wide)
    heading = f"Trace {Path(traces[0]).name}"
    return page.put(page.framed(heading, logp_report.page_parts(traces[0], machine)), options.html)
