"""`pybsp predict`: what a program would take on another machine, and on more processors than there are here.

The program runs on virtual processors, one after the other, so that each one's computing is measured alone, and for
each number of them in a process of its own; the other machine's parameters say what each exchange takes. Of a ledger,
computing is as it was measured in that run.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import io
import math
import os
import re
import runpy
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import UsageError, harmless
from ..ground import settings
from ..ground.argument_types import count, some_text
from ..ground.console import TableConsole
from ..ground.drawing import Axis, bars, lines
from ..ground.drawing import table as html_table
from ..ground.files import require_outputs, working_folder
from ..ledger.ledger import index_words, overlaps
from ..ledger.ledger_file import is_ledger, read
from ..ledger.pictures import note, safe, shown_label
from ..ledger.records import PartTotals, Record
from ..machines.bsp import BSPMachine, others_waited
from ..machines.in_force import resized
from ..processes import process
from ..processes.forked import RepeatedInput, forked
from ..rides.shown import shown_by
from ..runs import heap, machine_cache, simulation, threads
from ..ways import Used
from .fitting import WIDTH, fitted
from .page import framed, put
from .table import NO_RUN

SCALED = ("g", "l", "o_msg", "o_item", "r")  # numbers of a machine, and tables of it
SCALED_TABLES = ("o_way", "g_way", "late", "first")
_NAMES = (*SCALED, *SCALED_TABLES)
# What a narrow table leaves out first comes first.
LEAST_TELLING = ("supersteps", "+- [s]", "latency", "imbalance", "exchange", "computing", "efficiency")
_WITH_P = re.compile(r"\{(?:(\d+) ?\* ?)?p(?: ?\* ?(\d+))?\}")  # {p}, {100*p}, {p*100}
_OTHERWISE_WITH_P = re.compile(r"\{(?:[\d\s.+*/()_-]|(?<=\d)e)*p(?:[\d\s.+*/()p_-]|(?<=\d)e)*\}")  # {p+1}, {1e3*p}


class Prediction(NamedTuple):
    """What a program takes, or the supersteps of a label.

    label: of the supersteps; "" of all.
    p: processors.
    supersteps: their number.
    computing, waiting: seconds: the busiest processor's in each superstep, and what that is above the mean.
    exchange: seconds, the latency included.
    latency: seconds of it that supersteps take in which nothing is sent.
    """

    label: str
    p: int
    supersteps: int
    computing: float
    waiting: float
    exchange: float
    latency: float

    @property
    def time(self) -> float:
        """Seconds of all."""
        return self.computing + self.exchange

    @property
    def imbalance(self) -> float:
        """The largest computing over the mean."""
        mean = self.computing - self.waiting
        return self.computing / mean if mean > 0 else 1.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """Of the time: computing, exchange beyond latency, latency."""
        whole = self.time or 1.0
        return self.computing / whole, (self.exchange - self.latency) / whole, self.latency / whole


class InRun(NamedTuple):
    """A superstep among those of its run.

    since, fresh: as of `Used.since`.
    indices: bytes of those of patterns that were made in it.
    """

    record: Record
    since: float
    fresh: int
    indices: int


def predicted(
    records: Iterable[InRun],
    machine: BSPMachine,
    faster: float = 1.0,
    label: str = "",
    after: tuple[float, float] = (0.0, 0.0),
    parts_after: Iterable[PartTotals] = (),
) -> Prediction:
    """What these supersteps take on a machine. One processor exchanges nothing, and waits for nobody.

    Args:
        records: as `in_order` gives them: their computing, words, messages and items count.
        machine: has as many processors as they are of.
        faster: so many times as fast is its computing.
        label: of the prediction.
        after: seconds of computing after the last of them: the longest, and the mean.
        parts_after: what parts did after the last of them; their computing is in `after`.
    """
    if machine.p == 1:
        machine = BSPMachine(p=1, g=0.0, l=0.0, r=machine.r)
    empty = machine.exchanging(0.0)
    longest, mean = after
    sums = [0, longest / faster, (longest - mean) / faster, 0.0, 0.0]
    for parts in parts_after:
        exchange = _exchange_of_parts(parts, machine, faster)
        sums[3], sums[4] = sums[3] + exchange, sums[4] + min(parts.supersteps * empty, exchange)
    for record, since, fresh, indices in records:
        computing = record.seconds / faster
        of_parts, latency = 0.0, empty
        if record.parts is not None:
            of_parts = _exchange_of_parts(record.parts, machine, faster)
            latency += record.parts.supersteps * empty
        before = computing + of_parts if overlaps(machine) else computing
        # What parts compute no processor may have computed alone: nothing says how long others waited for the whole.
        mean = computing if record.parts is not None else record.seconds_mean / faster
        waited = others_waited(computing, mean, machine.p)
        exchange = of_parts + _exchange(record, machine, before, since / faster, fresh, 1, waited, indices)
        of_one = (1, computing, record.waiting / faster, exchange, min(latency, exchange))
        sums = [a + b for a, b in zip(sums, of_one, strict=True)]
    return Prediction(label, machine.p, int(sums[0]), *sums[1:])


def in_order(records: Iterable[Record], index_bytes: Mapping[int, int] = types.MappingProxyType({})) -> list[InRun]:
    """The records of a run, each with what else its prediction needs.

    Args:
        records: all of them.
        index_bytes: by the number of a record, as `Ledger.index_bytes`.
    """
    of_all, numbers = list(records), dict[str, int]()
    labels = [numbers.setdefault(one.label, len(numbers)) for one in of_all]
    counted = [(one.h, one.messages, one.seconds, label) for one, label in zip(of_all, labels, strict=True)]
    columns = np.array(counted, np.float64).reshape(-1, 4).T
    since, fresh = Used().since(np.array([one.ways for one in of_all], np.int64), *columns)
    indices = [index_bytes.get(number, 0) for number in range(len(of_all))]
    return [*map(InRun, of_all, since.tolist(), fresh.tolist(), indices)]


def _exchange_of_parts(parts: PartTotals, machine: BSPMachine, faster: float) -> float:
    """Seconds that the exchanges of parts take, as if all were alike, and all members: the ledger has their sums."""
    number = parts.supersteps
    return number * _exchange(parts, machine, parts.seconds / faster / number, 0.0, 0, number, 0.0) if number else 0.0


def _exchange(
    counts: Record | PartTotals,
    machine: BSPMachine,
    computing: float = 0.0,
    since: float = 0.0,
    fresh: int = 0,
    supersteps: int = 1,
    waiting: float | None = None,
    indices: int = 0,
) -> float:
    """Seconds that an exchange takes: each of so many supersteps, of which these are the counts."""
    h, messages, words, items = (count / supersteps for count in (counts.h, counts.messages, counts.M, counts.items))
    if overlaps(machine):
        return machine.elapsed(computing, h, messages, words, items) - computing
    of_each = index_words(indices, machine.p)
    return machine.exchanging(h, messages, words, items, counts.ways, computing, since, fresh, waiting, of_each)


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
        help=f"what if: of {', '.join(_NAMES)} so many times",
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
        machine, faster = _scaled(machine, factors), factors.get("r", 1.0)
    except UsageError as error:
        raise UsageError(f"--scale: {' '.join(options.scale)}: {error}") from None
    if options.html is not None:
        require_outputs([("--html", options.html)], [("--machine", path), ("what is predicted", options.target)])
    of_ledger = _means_ledger(options.target)
    if machine.calibrated and machine.p == 1 and _by(machine).g == _by(machine).o_msg == 0.0:
        raise UsageError(
            f"--machine: {path}: measured with p = 1, where nothing is sent, so it has no g: expected a file of more "
            "processors; `pybsp calibrate -n 2 -o machine.json` writes one"
        )
    remarks = list(_left_out(machine, path, factors, of_ledger))
    if not of_ledger and process.is_busy(process.load(), process.allowed_cores()):
        remarks.append(
            f"The load average before was {process.load():.3g}, on {process.allowed_cores()} cores: what else ran is "
            "in the computing of the processors whose turn it was, and in the imbalance. Predict on an idle machine."
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
        tables = [_of_program(options, machine, faster)]
    if any(one.in_parts for one in tables):
        remarks.append(
            "Left out, too: which part of the machine (bsp.split) takes longest. Of those in one superstep the largest "
            "of each count is priced, as if one part had them all: too much where they do different things."
        )
    if not all(math.isfinite(row.time) for one in tables for row in one.predictions):
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
    return 0


def _own_machine(target: str) -> BSPMachine | None:
    """The calibrated machine that all runs of a ledger have; None where that is none, or no ledger."""
    runs = read(target)["runs"] if _means_ledger(target) else []
    if not runs or not runs[0]["machine"]["calibrated"] or "g" not in runs[0]["machine"]:
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
        if name not in _NAMES or not 0 < factor < float("inf"):
            raise UsageError(f"--scale: expected one of {', '.join(_NAMES)}, = and a factor above 0, got {text!r}")
        if name in found:
            raise UsageError(f"--scale: expected {name} once, got {' '.join(texts)}")
        found[name] = factor
    return found


def _scaled(machine: BSPMachine, factors: dict[str, float]) -> BSPMachine:
    """The machine with parameters so many times as large."""
    times = {name: factors.get(name, 1.0) for name in SCALED}
    rows = tuple(
        (words, latency * times["l"], o_msg * times["o_msg"], g * times["g"])
        for words, latency, o_msg, g in machine.segments
    )
    exchange = None if machine.exchange is None else _scaled(machine.exchange, factors)
    figures: dict[str, Any] = {name: getattr(machine, name) * factor for name, factor in times.items()}
    for name in SCALED_TABLES:
        figures[name] = tuple((way, seconds * factors.get(name, 1.0)) for way, seconds in getattr(machine, name))
    rates = tuple((kind, rate * times["r"]) for kind, rate in machine.rates)
    return dataclasses.replace(machine, segments=rows, exchange=exchange, rates=rates, **figures)


def _left_out(machine: BSPMachine, path: str, factors: dict[str, float], of_ledger: bool) -> Iterator[str]:
    """What the prediction does not know."""
    whose = f"{path}, which is for p = {machine.p}" if machine.calibrated else f"{path}, which nobody has measured"
    if factors:
        whose += "; " + ", ".join(f"{name} times {factor:g}" for name, factor in factors.items())
    yield f"Exchange by {harmless(whose)}; g, l and the o's are taken to be the same for every p but 1."
    by = _by(machine)
    if by.error_median is not None and by.error_p95 is not None:
        yield (
            f"+- is {100 * by.error_p95:.3g} % of the exchange: of supersteps that nothing was fitted from "
            f"95 % were as near (half of them within {100 * by.error_median:.3g} %)."
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
    """A table, and the predictions that it is of."""

    title: str
    head: list[str]
    rows: list[list[str]]
    predictions: list[Prediction]
    weak: bool = False  # whether work grows with p
    in_parts: bool = False  # whether parts of the machine had supersteps


# -- of a program ------------------------------------------------------------------------------------------------------


def _of_program(options: argparse.Namespace, machine: BSPMachine, faster: float) -> PredictionTable:
    weak = any(map(_WITH_P.search, options.arguments))
    repeated = None if sys.stdin is None or os.isatty(0) else RepeatedInput()
    found, in_parts = [], False
    for p in sorted(set(options.p)):
        arguments = [_for_p(text, p) for text in options.arguments]
        execution = partial(_executed, [options.target, *arguments], resized(machine, p), faster, repeated)
        prediction, has_parts = forked(execution, f"{options.target}: failed for p = {p}")
        found.append(prediction)
        in_parts = in_parts or has_parts
    first = found[0]
    head = ["p", "supersteps", "time [s]", "+- [s]", f"speed-up over p = {first.p}", "efficiency"]
    head += ["imbalance", "computing", "exchange", "latency"]
    rows = []
    for one in found:
        more = one.p / first.p
        speedup = speedup_of(one, first, weak)
        rows.append(
            [
                *(f"{one.p}", f"{one.supersteps}", f"{one.time:.4g}", _bar(one, machine)),
                *(f"{speedup:.4g}", f"{100 * speedup / more:.3g} %", f"{one.imbalance:.3g}"),
                *(f"{100 * part:.3g} %" for part in one.parts),
            ]
        )
    scaling = "weak scaling" if weak else "the same input for each p"
    title = f"{' '.join([options.target, *options.arguments])}: {scaling}"
    return PredictionTable(title, head, rows, found, weak, in_parts)


def _in_parts(parts: Iterable[PartTotals]) -> bool:
    """Whether parts of the machine had supersteps."""
    return any(one.supersteps for one in parts)


def speedup_of(one: Prediction, first: Prediction, weak: bool) -> float:
    """How many times as fast as the first; of weak scaling, where work grows with p, as much in the same time is p."""
    return first.time / one.time * (one.p / first.p if weak else 1.0) if one.time else 1.0


def _for_p(text: str, p: int) -> str:
    """An argument of the program, for p processors."""
    found = _WITH_P.sub(lambda match: str(int(match[1] or 1) * p * int(match[2] or 1)), text)
    if _OTHERWISE_WITH_P.search(found):
        raise UsageError(f"argument {text!r}: expected {{p}}, {{100*p}} or {{p*100}}, with whole numbers")
    return found


def _bar(one: Prediction, machine: BSPMachine) -> str:
    error = _by(machine).error_p95
    return "-" if error is None else f"{error * one.exchange:.2g}"


def _by(machine: BSPMachine) -> BSPMachine:
    """The machine whose parameters predict exchanges; see `_exchange`."""
    return machine if machine.exchange is None or overlaps(machine) else machine.exchange


def _executed(
    program: Sequence[str], machine: BSPMachine, faster: float, repeated: RepeatedInput | None
) -> tuple[Prediction, bool]:
    """What a program takes on a machine, and whether it has parts; executed here, in a process for this alone.

    So each number of processors finds everything as it was, and does once what ranks do once, as imports.
    """
    if repeated is not None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(repeated))
    gc.collect()
    gc.disable()  # its pauses would count as one processor's computing, for which all others wait
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
    parts_after = [run.ledger.parts_after for run in runs if run.ledger.parts_after is not None]
    longest, mean = (sum(run.ledger.after[k] for run in runs) for k in (0, 1))
    begins = accumulate((len(run.ledger) for run in runs), initial=0)
    indices = {k + n: size for k, run in zip(begins, runs, strict=False) for n, size in run.ledger.index_bytes.items()}
    records = in_order((record for run in runs for record in run.ledger), indices)
    prediction = predicted(records, machine, faster, after=(longest, mean), parts_after=parts_after)
    return prediction, any(_in_parts([*run.ledger.parts.values(), *parts_after]) for run in runs)


def _runs(program: Sequence[str], machine: BSPMachine) -> Sequence[simulation.Simulation]:
    """The runs of a program on virtual processors, whose machine is that one; a UsageError where it fails."""
    runs: list[simulation.Simulation] = []
    p, cores = machine.p, process.allowed_cores()
    shown = shown_by(machine.hosts)
    simulation.set_options(simulation.SimulateOptions(p, measure=True, machine=machine, runs=runs, shown=shown))
    sys.argv = list(program)
    sys.path.insert(0, str((working_folder() / program[0]).resolve().parent))
    heap.reuse_freed()
    try:
        with threads.limited(cores, cores):  # a thread for each: a rank has a core of its own
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
    labels: dict[str, list[InRun]] = {}
    records = in_order(run["supersteps"], {int(number): size for number, size in run.get("index_bytes", {}).items()})
    for one in records:
        labels.setdefault(one.record.label, []).append(one)
    found = [predicted(of_label, machine, faster, label) for label, of_label in labels.items()]
    of_labels = {one.label: one.measured for one in run["supersteps"].totals()}
    before = [of_labels[label] for label in labels]
    parts_after = [run["parts_after"]] if "parts_after" in run else []
    of_parts = sum(parts.seconds for parts in parts_after)  # files of before pybsp 0.4 have no more
    longest, mean = run.get("after", (of_parts, of_parts))
    if longest or parts_after:
        found.append(predicted([], machine, faster, "(after the last)", (longest, mean), parts_after))
        before.append(longest + sum(parts.exchange for parts in parts_after))
    found.append(predicted(records, machine, faster, "total", (longest, mean), parts_after))
    before.append(sum(before))
    head = ["label", "supersteps", "time there [s]", "+- [s]", "time here [s]", "here/there"]
    head += ["imbalance", "computing", "exchange", "latency"]
    rows = [
        [
            *(shown_label(one.label), f"{one.supersteps}", f"{one.time:.4g}", _bar(one, machine)),
            *(f"{here:.4g}", f"{here / one.time:.3g}" if one.time else "-"),
            *(f"{one.imbalance:.3g}", *(f"{100 * part:.3g} %" for part in one.parts)),
        ]
        for one, here in zip(found, before, strict=True)
    ]
    where = "virtual processors" if run["virtual"] else f"ranks on {', '.join(sorted(set(run['hosts'])))}"
    in_parts = _in_parts([*run["supersteps"].parts.values(), *parts_after])
    return PredictionTable(f"run {number}: p = {run['p']} {where}", head, rows, found, in_parts=in_parts)


# -- the page ----------------------------------------------------------------------------------------------------------


def _write(options: argparse.Namespace, tables: Sequence[PredictionTable], remarks: Sequence[str]) -> None:
    parts = []
    for one in tables:
        parts.append(f"<h2>{safe(one.title, 2000)}</h2>")
        parts += _pictures(one.predictions, one.weak) if one.head[0] == "p" else ()
        parts.append(html_table(one.head, one.rows, last=one.head[0] == "label"))
    put(framed(f"Prediction of {Path(options.target).name}", [*parts, *map(note, remarks)]), options.html)


def _pictures(found: Sequence[Prediction], weak: bool) -> Iterator[str]:
    """Time, speed-up, efficiency and imbalance over p, and what the time goes to."""
    p = np.array([float(one.p) for one in found])
    time = np.array([one.time for one in found])
    if len(found) > 1 and (time > 0).all():
        along = Axis.over(p, "p", log=True)
        ideal = np.full_like(time, time[0]) if weak else time[0] * p[0] / p
        up = Axis.over(np.concatenate([time, ideal]), "seconds", log=True)
        best = f"that of p = {found[0].p}" + ", divided" * (not weak)
        yield "<h3>Time</h3>"
        yield lines(p, [time, ideal], ["predicted", best], along, up)
        speedup, more = np.array([speedup_of(one, found[0], weak) for one in found]), p / p[0]
        yield f"<h3>Speed-up over p = {found[0].p}</h3>"
        up = Axis.over(np.concatenate([speedup, more]), "speed-up", log=True)
        yield lines(p, [speedup, more], ["predicted", "as many times as processors"], along, up)
        yield "<h3>Efficiency</h3>"
        yield lines(p, [speedup / more], [""], along, Axis.over(speedup / more, "speed-up a processor"))
        imbalance = np.array([one.imbalance for one in found])
        yield "<h3>Imbalance of computing (largest over mean)</h3>"
        yield lines(p, [imbalance], [""], along, Axis.over(imbalance, "largest/mean"))
    yield "<h3>What it goes to</h3>"
    layers = np.array([one.parts for one in found]).T
    names = ["computing", "exchange", "latency"]
    hints = [f"p = {one.p}: {one.time:.4g} s" for one in found]
    along = Axis(0, len(found), "p", counts=True, each=tuple(str(one.p) for one in found))
    yield bars(layers, names, along, "part of time", hints)
