"""LogP runs of a trace file: measured beside predicted, as a table, and as a page of HTML."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from ..errors import UsageError, harmless
from ..ground.console import TableConsole
from ..ground.decoding import decode, each, fields, one_of, read_json, untouched, versioned
from ..ground.drawing import Axis, table
from ..ledger.chrome import FORMAT, VERSION
from ..ledger.pictures import note, safe
from ..logp.replay import predict
from ..logp.timeline import PARTS
from ..logp.traced_run import TracedRun, run_of
from ..machines.logp import LogPMachine
from .fitting import WIDTH, fitted

# What a narrow table leaves out first comes first.
LEAST_TELLING = ("words sent", "acquired", "sent", "G [s]", "stalled [s]", "o [s]", "waiting [s]", "computing [s]")
ROWS = 64  # processors of a table
RUNS = 8  # of a file, on a page

_FILE = fields({"format": one_of(FORMAT), "version": one_of(VERSION), "logp": each(run_of)}, others=untouched)


def is_trace(path: str) -> bool:
    """Whether a file begins as traces do; all else is taken for a ledger, a pipe too, of which nothing is read here."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return FORMAT.encode() in file.read(100)
    except OSError:
        return False


def read(path: str, machine: LogPMachine | None = None) -> list[TracedRun]:
    """The LogP runs of a trace file, with what the model predicts of them.

    Args:
        path: of the file.
        machine: to predict by; None: that of each run, if it was measured. Where that predicts nothing, the run says
            why.

    Raises:
        UsageError: it cannot be read, is none, or has no LogP run, or the machine that is given predicts nothing; the
            text says what was expected where.
    """
    origin, way_out = f"trace file {path}", "write one with `pybsp run --trace FILE`"
    content = versioned(read_json(path, "trace file"), origin, FORMAT, VERSION, way_out)
    found: list[TracedRun] = decode(content, origin, _FILE)["logp"]
    if not found:
        raise UsageError(f"{origin}: it has no LogP run; of BSP runs `pybsp report` shows the ledger (--ledger)")
    for number, run in enumerate(found):
        own = run.timeline.machine
        by = machine or (own if own.calibrated else None)
        if by is None:
            continue
        try:
            predicted = predict(run.timeline, dataclasses.replace(by, p=run.timeline.p))
        except UsageError as error:
            if machine is not None:
                raise UsageError(f"{origin}: logp[{number}]: {error}") from error
            found[number] = dataclasses.replace(run, unpredicted=str(error))
        else:
            found[number] = dataclasses.replace(run, predicted=predicted)
    return found


def report(path: str, machine: LogPMachine | None, wide: bool = False) -> int:
    """Print the tables of all LogP runs of a trace file, as `table.report` those of a ledger; the exit status."""
    console = TableConsole(WIDTH, wide)
    for number, run in enumerate(read(path, machine), 1):
        for line in (title(number, run), headline(run)):
            console.put(Text(line))
        head, rows = cells(run)
        columns = dict(zip(head, zip(*rows, strict=True), strict=True))
        for part in fitted(columns, console.room, LEAST_TELLING, "pybsp report --wide"):
            console.put(part)
        for line in notes(run):
            console.put(Text(line))
    return 0


def page_parts(path: str, machine: LogPMachine | None) -> Iterator[str]:
    """What a page has of the LogP runs of a trace file."""
    runs = read(path, machine)
    for number, run in enumerate(runs[:RUNS], 1):
        yield f"<h2>{safe(title(number, run), 2000)}</h2>"
        yield f'<p class="headline">{safe(headline(run), 2000)}</p>'
        yield from map(note, notes(run))
        yield from pictures(run)
        yield "<h3>Time by processor</h3>"
        yield table(*cells(run), last=True)
    if len(runs) > RUNS:
        yield note(f"These are the first {RUNS} of {len(runs)} runs; `pybsp report` prints all.")


def title(number: int, run: TracedRun) -> str:
    """A run in a line: where, when, by which machine, with which versions."""
    timeline, machine = run.timeline, run.timeline.machine
    by = machine if run.predicted is None else run.predicted.machine
    kind = "virtual processors" if run.virtual else f"MPI ranks on {', '.join(sorted(set(run.hosts)))}"
    figures = ", ".join(f"{name} = {getattr(by, name) * by.step:.3g} s" for name in ("L", "o", "G"))
    if by.G_word is not None:
        figures += f", G_word = {by.G_word:.3g} s"
    if run.predicted is None and not run.unpredicted and not run.virtual:
        figures = "no machine file"
    pace = ", with pace" if timeline.paced and not run.virtual else ""
    return harmless(
        f"run {number}: p = {timeline.p} {kind}, {run.date}, capacity {run.capacity} ({machine.capacity}){pace}; "
        f"{figures}; {', '.join(f'{k} {v}' for k, v in run.versions.items())}"
    )


def headline(run: TracedRun) -> str:
    """What a run comes to, in a line: how long it took, and how well that was predicted."""
    timeline, predicted = run.timeline, run.predicted
    count = f"{timeline.sent.sum()} messages of {timeline.words_sent.sum()} words"
    seconds = timeline.seconds
    if predicted is None:
        return f"{run.kind} {seconds:.4g} s; {count}"
    error = f"{run.kind}/predicted {_ratio(seconds, predicted.seconds)}"
    if predicted.seconds > 0:
        error += f" (error {abs(seconds / predicted.seconds - 1):.1%})"
    return f"{error}: {run.kind} {seconds:.4g} s, predicted {predicted.seconds:.4g} s; {count}"


def notes(run: TracedRun) -> Iterator[str]:
    """What is to be said below a run's table."""
    timeline, predicted = run.timeline, run.predicted
    if timeline.left_out:
        yield (
            f"{timeline.left_out} more messages are not in it: this is the run's beginning, until a processor had as "
            "many as are kept."
        )
    if timeline.uncertain:
        yield (
            f"Clocks of nodes are compared by messages: times of two nodes may be off by {timeline.uncertain:.2g} s, "
            "half of the round trips, at most."
        )
    if run.unpredicted:
        yield f"There is no prediction ({run.unpredicted}): --machine FILE takes another machine."
    if run.virtual:
        yield "Times are virtual. What was computed is the least that explains when messages were sent and acquired."
    if predicted is not None:
        yield (
            "Predicted: the same operations on the simulated machine, in each processor's order, with what it computed "
            f"between them as {run.kind}. Cells are {run.kind} / predicted."
        )
    elif not run.virtual and not run.unpredicted:
        yield "There is no machine to predict by: --machine FILE takes one that `pybsp calibrate` wrote."


def cells(run: TracedRun) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table: a row for each processor, or group of them, and one of all."""
    timeline, predicted = run.timeline, run.predicted
    both = [timeline] if predicted is None else [timeline, predicted]
    spent = [one.spent() for one in both]
    ends = [1e-9 * one.finished for one in both]
    head = ["processor", "sent", "acquired", "words sent", *(f"{part} [s]" for part in PARTS), "end [s]"]
    if predicted is not None:
        head.append(f"{run.kind}/predicted")
    group = -(-timeline.p // ROWS)
    counts = timeline.sent, timeline.acquired, timeline.words_sent

    def row(name: str, own: slice, times: list[float]) -> list[str]:
        found = [name, *(str(int(count[own].sum())) for count in counts)]
        found += [_beside([float(one[part][own].sum()) for one in spent]) for part in PARTS]
        found.append(_beside(times))
        return found if predicted is None else [*found, _ratio(*times)]

    rows = []
    for low in range(0, timeline.p, group):
        own = slice(low, min(low + group, timeline.p))
        name = str(low) if group == 1 else f"{low} to {own.stop - 1}"
        rows.append(row(name, own, [float(each[own].max()) for each in ends]))
    rows.append(row("all", slice(None), [float(each.max()) for each in ends]))
    return head, rows


def _beside(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.4g}" for value in values)


def _ratio(measured: float, predicted: float) -> str:
    return f"{measured / predicted:.3g}" if predicted > 0 else "-"


def pictures(run: TracedRun) -> Iterator[str]:
    """What each processor does as time goes by: as measured, and below it, on the same axis, as predicted."""
    both = [(run.kind, run.timeline)]
    both += [] if run.predicted is None else [("predicted", run.predicted)]
    longest = max(float(timeline.finished.max(initial=0)) for _, timeline in both) or 1.0
    along = Axis(0.0, longest * 1e-9, "seconds")
    for name, timeline in both:
        yield f"<h3>Timeline by processor, {name}</h3>"
        yield timeline.drawn(longest, along)
