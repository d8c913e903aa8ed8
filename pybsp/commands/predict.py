"""`pybsp predict`: what a program would take on another machine, and on more processors than there are here.

The program runs on virtual processors, one after the other, so that each one's computing is measured alone, and for
each number of them in a process of its own; the other machine's parameters say what each exchange takes. Of a ledger,
computing is as it was measured in that run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError, harmless
from ..ground import settings
from ..ground.argument_types import count, some_text
from ..ground.console import TableConsole
from ..ground.drawing import table as html_table
from ..ground.files import require_outputs, working_folder
from ..ledger.ledger_file import is_ledger, read
from ..ledger.pictures import note, safe
from ..ledger.prediction import (
    Prediction,
    Predictions,
    by,
    in_order,
    of_runs,
    predicted,
    require_exchange,
)
from ..ledger.prediction_pictures import pictures, row_name
from ..ledger.records import TOTAL
from ..machines.bsp import SCALED, BSPMachine
from ..machines.in_force import resized
from ..processes import process
from ..processes.forked import RepeatedInput, forked
from ..runs import machine_cache, simulation
from ..runs.predicting import measuring
from .fitting import WIDTH, fitted
from .page import framed, put
from .table import NO_RUN

# What a narrow table leaves out first comes first.
LEAST_TELLING = ("supersteps", "+- [s]", "latency", "imbalance", "exchange", "computing", "efficiency")
_WITH_P = re.compile(r"\{(?:(\d+) ?\* ?)?p(?: ?\* ?(\d+))?\}")  # {p}, {100*p}, {p*100}
_OTHERWISE_WITH_P = re.compile(r"\{(?:[\d\s.+*/()_-]|(?<=\d)e)*p(?:[\d\s.+*/()p_-]|(?<=\d)e)*\}")  # {p+1}, {1e3*p}


# -- the command -------------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of the command."""
    parser.add_argument("target", metavar="PROGRAM|LEDGER", help="a program, or a ledger file")
    parser.add_argument(
        "arguments",
        nargs="*",
        help="the program's, where {p} is the number of processors, {100*p} or {p*100} as often 100",
    )
    parser.add_argument(
        "-p", nargs="+", action="extend", type=count, metavar="P", help="numbers of processors, for a program"
    )
    parser.add_argument(
        "--machine", type=some_text, metavar="FILE", help="a machine file of the other machine (PYBSP_MACHINE)"
    )
    parser.add_argument(
        "--scale",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=FACTOR",
        help=f"what if: of {', '.join(SCALED)} so many times",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page of it, with pictures")
    parser.set_defaults(action=_predict)


def _predict(options: argparse.Namespace) -> int:
    if not Path(options.target).is_file():
        why = "expected a file" if Path(options.target).exists() else "there is no such file"
        raise UsageError(f"{options.target}: {why}")
    path = settings.text(settings.MACHINE) if options.machine is None else options.machine
    own = None if path else _own_machine(options.target)
    if not path and own is None:
        raise UsageError(
            "--machine: expected a machine file of the machine that is asked about: write one there with "
            "`pybsp calibrate -n 4 -o machine.json`, or `pybsp.BSPMachine(...).save('machine.json')`" + _measured_here()
        )
    machine = own or BSPMachine.load(path)
    path = path or options.target
    factors = _factors(options.scale)
    try:
        machine, faster = machine.scaled(**factors), factors.get("r", 1.0)
    except UsageError as error:
        raise UsageError(f"--scale: {' '.join(options.scale)}: {error}") from None
    if options.html is not None:
        require_outputs([("--html", options.html)], [("--machine", path), ("what is predicted", options.target)])
    of_ledger = _means_ledger(options.target)
    require_exchange(f"--machine: {path}", machine)
    remarks, failed = list(_left_out(machine, path, factors, of_ledger)), list[UsageError]()
    if not of_ledger and process.is_busy(process.load(), process.allowed_cores()):
        remarks.append(
            f"The load average before was {process.load():.3g}, on {process.allowed_cores()} cores: what else ran has "
            "taken caches, and on systems other than Linux cores too, from the processors whose turn it was, which is "
            "in their computing and in the imbalance. Predict on an idle machine."
        )
    if of_ledger:
        if options.p or options.arguments:
            raise UsageError(f"{options.target}: a ledger has its own p, and no arguments; for others give the program")
        runs = read(options.target)["runs"]
        tables = [_of_ledger(number, run, machine, faster) for number, run in enumerate(runs, 1)]
        remarks = remarks if runs else [NO_RUN]
        if any("after" not in run for run in runs):
            remarks.append("Left out, too: what was computed after the last superstep, which older files do not have.")
    else:
        if not options.p:
            raise UsageError("-p: expected the numbers of processors to predict for, as -p 1 2 4 8")
        tables = [_of_program(options, machine, faster, failed)]
    if any(one.in_parts for table in tables for one in table.found):
        remarks.append(
            "Left out, too: which part of the machine (bsp.split) takes longest. Of those in one superstep the largest "
            "of each count is priced, as if one part had them all: too much where they do different things."
        )
    if not all(math.isfinite(one.time) for table in tables for one in table.found):
        by = (
            f"--scale: {' '.join(options.scale)}: with these factors"
            if factors
            else f"--machine: {path}: by this machine"
        )
        raise UsageError(f"{by} it would take longer than any number of seconds: expected others")
    if options.html is not None:
        _write(options, tables, remarks)
    console = TableConsole(WIDTH)
    for one in tables:
        console.print(harmless(one.title), highlight=False, markup=False, soft_wrap=True)
        cells = dict(zip(one.head, zip(*one.rows, strict=True), strict=True))
        for part in fitted(cells, console.room, LEAST_TELLING, sums="label" in cells):
            console.put(part)
    for line in remarks:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if failed:
        raise UsageError("\n".join(map(str, failed)))
    return 0


def _own_machine(target: str) -> BSPMachine | None:
    """The calibrated `BSPMachine` that all runs of a ledger have; None where that is none, or no ledger."""
    runs = read(target)["runs"] if _means_ledger(target) else []
    if not runs or not runs[0]["machine"]["calibrated"] or "g1" in runs[0]["machine"]:
        return None
    machine, p = runs[0]["machine"], runs[0]["p"]
    same = all((run["machine"], run["p"]) == (machine, p) for run in runs)
    return BSPMachine.of_json(machine, p, f"ledger file {target}", "runs[0].machine") if same else None


def _means_ledger(target: str) -> bool:
    """Whether it is taken for a ledger: what else is JSON is refused as one."""
    return target.endswith(".json") or is_ledger(target)


def _measured_here() -> str:
    """Where machine files of this machine are, in words, if runs have measured it."""
    with contextlib.suppress(OSError, RuntimeError):
        if any(machine_cache.folder().glob("*.json")):
            return f"; those that `pybsp run --calibrate` has measured here are in {machine_cache.folder()}"
    return ""


def _factors(texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, figure = text.partition("=")
        try:
            factor = float(figure)
        except ValueError:
            factor = 0.0
        if name not in SCALED or not 0 < factor < float("inf"):
            raise UsageError(f"--scale: expected one of {', '.join(SCALED)}, = and a factor above 0, got {text!r}")
        if name in found:
            raise UsageError(f"--scale: expected {name} once, got {' '.join(texts)}")
        found[name] = factor
    return found


def _left_out(machine: BSPMachine, path: str, factors: dict[str, float], of_ledger: bool) -> Iterator[str]:
    """What the prediction does not know."""
    whose = (
        f"{path}, which is for p = {machine.own_p or machine.p}"
        if machine.calibrated
        else f"{path}, which nobody has measured"
    )
    if factors:
        whose += "; " + ", ".join(f"{name} times {factor:g}" for name, factor in factors.items())
    yield f"Exchange by {harmless(whose)}; g, l and the o's are taken to be the same for every p but 1."
    alone = by(machine)
    if alone.error_median is not None and alone.error_p95 is not None:
        yield (
            f"+- is {100 * alone.error_p95:.3g} % of the exchange: of supersteps that nothing was fitted from "
            f"95 % were as near (half of them within {100 * alone.error_median:.3g} %)."
        )
    elif machine.calibrated:
        yield "There is no error bar: the machine file has none."
    yield (
        "Left out: that the other machine's cores and caches are others than those that computing was measured on "
        "(--scale r=2: twice as fast), that processors of one host share its memory, contention in its network and "
        "runs of LogP programs."
    )
    if not of_ledger:
        yield (
            "What a process does once, as imports in main, is the computing of one processor here, and of all ranks "
            "there, side by side: it takes as long, and the imbalance is less."
        )


class PredictionTable(NamedTuple):
    """A table, and the predictions that it is of: over p, or label by label."""

    title: str
    head: list[str]
    rows: list[list[str]]
    found: Predictions

    @property
    def over_p(self) -> bool:
        return self.head[0] == "p"


# -- of a program ------------------------------------------------------------------------------------------------------


def _of_program(
    options: argparse.Namespace, machine: BSPMachine, faster: float, failed: list[UsageError]
) -> PredictionTable:
    """The table of those p for which the program does not fail; `failed` gets the errors of others."""
    weak = any(map(_WITH_P.search, options.arguments))
    repeated = None if sys.stdin is None or os.isatty(0) else RepeatedInput()
    arguments = {p: [_for_p(text, p) for text in options.arguments] for p in sorted(set(options.p))}
    found = []
    for p, of_p in arguments.items():
        execution = partial(_executed, [options.target, *of_p], resized(machine, p), faster, repeated)
        try:
            found.append(forked(execution, f"{options.target}: failed for p = {p}"))
        except UsageError as error:  # which that of another p need not be, as where a grid has to be square
            failed.append(error)
    if not found:
        raise failed[0]
    scaling = "weak scaling" if weak else "the same input for each p"
    of_all = Predictions(found, machine, weak)
    return PredictionTable(f"{' '.join([options.target, *options.arguments])}: {scaling}", *of_all.table(), of_all)


def _for_p(text: str, p: int) -> str:
    """An argument of the program, for p processors."""
    found = _WITH_P.sub(lambda match: str(int(match[1] or 1) * p * int(match[2] or 1)), text)
    if _OTHERWISE_WITH_P.search(found):
        raise UsageError(f"argument {text!r}: expected {{p}}, {{100*p}} or {{p*100}}, with whole numbers")
    return found


def _executed(program: Sequence[str], machine: BSPMachine, faster: float, repeated: RepeatedInput | None) -> Prediction:
    """What a program takes on a machine; executed here, in a process for this alone.

    So each number of processors finds everything as it was, and does once what ranks do once, as imports.
    """
    if repeated is not None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(repeated))
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        os.dup2(nowhere.fileno(), 1)  # for processes that it starts
        runs = _runs(program, machine)
    if not runs:
        raise UsageError(
            f"{program[0]}: expected a program that calls pybsp.run, and it has not, for p = {machine.p}, or its main "
            "has called sys.exit: let main return; on ranks there is more: of pybsp.logp.run `pybsp run --trace "
            "t.json`, then `pybsp report t.json --machine FILE`; of pybsp.attach `pybsp run --ledger l.json`, then "
            "`pybsp predict l.json`"
        )
    return of_runs([run.ledger for run in runs], machine, faster)


def _runs(program: Sequence[str], machine: BSPMachine) -> Sequence[simulation.Simulation]:
    """The runs of a program on virtual processors, whose machine is that one; a UsageError where it fails."""
    p = machine.p
    sys.argv = list(program)
    sys.path.insert(0, str((working_folder() / program[0]).resolve().parent))
    try:
        with measuring(machine) as runs:
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise UsageError(f"{program[0]}: ended with {end.code!r} for p = {p}") from end
    except Exception as error:
        what = harmless(f"{type(error).__name__}: {error}")
        raise UsageError(f"{program[0]}: failed for p = {p}: {what}; see `pybsp simulate -p {p}`") from error
    return runs


# -- of a ledger -------------------------------------------------------------------------------------------------------


def _of_ledger(number: int, run: dict[str, Any], machine: BSPMachine, faster: float) -> PredictionTable:
    machine = resized(machine, run["p"])
    parts_after = [run["parts_after"]] if "parts_after" in run else []
    of_parts = sum(parts.seconds for parts in parts_after)  # files of before pybsp 0.4 have no more
    longest, mean = run.get("after", (of_parts, of_parts))
    index_bytes = {int(number): size for number, size in run.get("index_bytes", {}).items()}
    there = predicted(in_order(run["supersteps"], index_bytes), machine, faster, (longest, mean), parts_after)
    here = {one.label: one.measured for one in run["supersteps"].totals()}
    after = longest + sum(parts.exchange for parts in parts_after)
    before = [here[label] if one.supersteps else after for label, one in there.labels.items()]
    head = ["label", "supersteps", "time there [s]", "+- [s]", "time here [s]", "here/there"]
    head += ["imbalance", "computing", "exchange", "latency"]
    rows = [
        [
            *(TOTAL if one is there else row_name(one), f"{one.supersteps}", f"{one.time:.4g}", one.bar),
            *(f"{here:.4g}", f"{here / one.time:.3g}" if one.time else "-"),
            *(f"{one.imbalance:.3g}", *(f"{100 * part:.3g} %" for part in one.parts)),
        ]
        for one, here in zip((*there.labels.values(), there), (*before, sum(before)), strict=True)
    ]
    where = "virtual processors" if run["virtual"] else f"ranks on {', '.join(sorted(set(run['hosts'])))}"
    return PredictionTable(f"run {number}: p = {run['p']} {where}", head, rows, Predictions([there], machine))


# -- the page ----------------------------------------------------------------------------------------------------------


def _write(options: argparse.Namespace, tables: Sequence[PredictionTable], remarks: Sequence[str]) -> None:
    parts = []
    for one in tables:
        parts.append(f"<h2>{safe(one.title, 2000)}</h2>")
        parts += pictures(one.found) if one.over_p else ()
        parts.append(html_table(one.head, one.rows, last=not one.over_p))
    put(framed(f"Prediction of {Path(options.target).name}", [*parts, *map(note, remarks)]), options.html)
