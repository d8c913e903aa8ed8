"""A ledger as one page of HTML that needs nothing else: no network, no script. Two ledgers stand side by side.

What the page holds is bounded, however long the ledger: supersteps go together in bins, labels beyond the dearest into
one row, and of very many runs the first are shown. Each of these is said where it happens.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decoding import harmless
from .drawing import COLOURS, Axis, bars, lanes, lines, points, shades
from .errors import UsageError
from .files import replacing
from .ledger import Record, Supersteps, read
from .report import BARS, columns, headline, notes, predicting, title

# With these a page has at most 5 MB, whatever the labels are made of.
BINS = 240  # of supersteps, in a picture; fewer where there are more than two runs
FEWEST = 48
ROWS = 60  # labels of a table
RUNS = 8  # of a ledger
LONGEST = 120  # characters of a label that are shown, and of a colour's name
_NAME = 40
TRACES = 2_000_000  # characters of pictures of traces, in a page
_NOTES = 40  # lines below a run's headline
_NAMED = len(COLOURS) - 1  # labels with a colour of their own

_STYLE = """
body{font:14px/1.45 sans-serif;color:#222;margin:1.5em auto;max-width:1400px;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;overflow-wrap:anywhere}h3{font-size:1em;margin:1.2em 0 .3em}
.beside{display:grid;grid-auto-columns:minmax(0,1fr);grid-auto-flow:column;gap:2em}
.beside>section{min-width:0}svg{width:100%;max-width:860px;height:auto;display:block}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:12px}
td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid #e4e4e4;white-space:nowrap}
td:first-child,th:first-child{text-align:left;max-width:24em;overflow:hidden;text-overflow:ellipsis}
tr.total td{font-weight:bold;border-top:2px solid #888}.headline{font-size:1.05em;font-weight:bold}
.few{display:flex;flex-wrap:wrap;gap:.5em}.few figure{margin:0;width:300px}.few figcaption{font-size:12px}
.legend span{margin-right:1em;font-size:12px;overflow-wrap:anywhere}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}.note{color:#555;font-size:13px}
"""
# Belt and braces: whatever a label holds, a page of this policy neither loads nor runs anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write(ledgers: Sequence[str], place: str) -> int:
    """Write the page of one ledger file or of two; returns the command's exit status.

    Raises:
        UsageError: more than two ledgers; one that cannot be read or is none; the page cannot be written.
    """
    if len(ledgers) > 2:
        raise UsageError(f"--html: expected one ledger, or two to stand side by side, got {len(ledgers)}")
    text = page(ledgers, [read(path)["runs"] for path in ledgers])
    try:
        with replacing(place) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--html: {place}: cannot be written ({error.strerror})") from error
    return 0


def page(names: Sequence[str], ledgers: Sequence[list[dict[str, Any]]]) -> str:
    """The page of these ledgers, which have names: the runs of each, as `ledger.read` gives them."""
    heading = " and ".join(_safe(Path(name).name) for name in names)
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{heading}</title><style>{_STYLE}</style></head><body><h1>Ledger {heading}</h1>",
    ]
    for runs in ledgers:
        for run in runs:
            predicting(run)
    shown = sum(min(len(runs), RUNS) for runs in ledgers)
    left = TRACES
    bins = max(FEWEST, min(BINS, 2 * BINS // max(shown, 1)))
    for number, beside in enumerate(islice(zip_longest(*ledgers), RUNS), 1):
        both = [run["supersteps"] for run in beside if run is not None]
        if len(both) > 1:
            parts.append(_compared(number, names, both))
        parts.append('<div class="beside">')
        for run in beside:
            shown_here = "" if run is None else "".join(_run(number, run, bins))
            pictures = (
                "" if run is None or "trace" not in run else "".join(_traced(run["trace"], run["supersteps"].total.M))
            )
            if pictures and (left := left - len(pictures)) < 0:
                pictures = _note("The pictures of this run's trace are left out: the page would be too large.")
            parts.append(f"<section>{shown_here}{pictures}</section>")
        parts.append("</div>")
    longest = max(map(len, ledgers))
    if longest > RUNS:
        parts.append(_note(f"These are the first {RUNS} of {longest} runs; `pybsp report` prints all."))
    if not longest:
        parts.append(_note("No BSP run is in it."))
    parts.append("</body></html>\n")
    return "".join(parts)


def _run(number: int, run: dict[str, Any], bins: int) -> Iterator[str]:
    """What is shown of one run."""
    records, machine, virtual = run["supersteps"], run["machine"], run["virtual"]
    total = records.total
    yield f"<h2>{_safe(title(number, run), 2000)}</h2>"
    yield f'<p class="headline">{_safe(headline(total, machine, virtual), 2000)}</p>'
    said = list(notes(run))
    yield "".join(map(_note, said[:_NOTES]))
    if len(said) > _NOTES:
        yield _note(f"and {len(said) - _NOTES} more such lines, which `pybsp report` prints")
    if not len(records):
        return
    steps = _Steps(records, bins)
    yield from steps.pictures(machine["calibrated"] or virtual)
    yield "<h3>Costs by label</h3>"
    yield _costs(records, total, machine)


class _Steps:
    """The supersteps of a run, in bins."""

    def __init__(self, records: Supersteps, bins: int) -> None:
        numbers = records.numbers()
        column = {name: numbers[:, at] for at, name in enumerate(("label", *Record._fields[1:-1]))}
        self.count = len(numbers)
        self.edges = np.linspace(0, self.count, min(self.count, bins) + 1).astype(int)
        self.wide = np.diff(self.edges)
        self.measured, self.mean = column["measured"], column["seconds_mean"]
        self.computing, self.predicted = column["seconds"], column["exchange_predicted"]
        labels = column["label"].astype(np.int64)
        dear = np.argsort(-np.bincount(labels, self.measured, len(records.names)), kind="stable")[:_NAMED]
        self.names = [_label(records.names[one], _NAME) for one in dear]
        colour = np.full(len(records.names), len(dear))
        colour[dear] = np.arange(len(dear))
        self.kinds = colour[labels]
        if len(records.names) > len(dear):
            self.names.append(f"{len(records.names) - len(dear)} other labels")

    def binned(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of each bin."""
        with np.errstate(over="ignore"):
            return np.nan_to_num(np.add.reduceat(values, self.edges[:-1]) / self.wide, posinf=np.finfo(float).max)

    def pictures(self, predicted: bool) -> Iterator[str]:
        """Of time by label and by what it goes to, of imbalance, of predictions if there are any."""
        along = Axis(0, self.count, "superstep", counts=True)
        most = int(self.wide.max())
        each = "seconds" if most == 1 else f"seconds (mean of {most})"
        yield "<h3>Time by superstep and label</h3>"
        layers = np.stack(
            [self.binned(np.where(self.kinds == kind, self.measured, 0.0)) for kind in range(len(self.names))]
        )
        yield bars(layers, self.names, along, each, self._hints(layers, self.names), len(self.names) - 1)

        yield "<h3>Time by what it goes to</h3>"
        exchange = np.maximum(self.measured - self.computing, 0.0)
        waiting = np.maximum(self.computing - self.mean, 0.0)
        layers = np.stack([self.binned(values) for values in (self.mean, waiting, exchange)])
        names = ["computing (mean)", "waiting for the slowest", "exchange"]
        yield bars(layers, names, along, each, self._hints(layers, names), len(names) - 1)

        yield "<h3>Imbalance of computing (largest over mean)</h3>"
        largest, mean = self.binned(self.computing), self.binned(self.mean)
        ratio = np.divide(largest, mean, out=np.ones_like(largest), where=mean > 0)
        middle = (self.edges[:-1] + self.edges[1:]) / 2
        yield lines(middle, [ratio], [""], along, Axis.over(ratio, "largest/mean"))

        yield "<h3>Exchange, predicted against measured</h3>"
        if not predicted:
            yield _note("There is no machine to predict by; `pybsp run --calibrate` measures one first.")
            return
        exchange = self.measured - self.computing
        drawn = (exchange > 0) & (self.predicted > 0)
        if drawn.any():
            yield points(
                exchange[drawn], self.predicted[drawn], self.kinds[drawn], self.names, "measured [s]", "predicted [s]"
            )
        if not drawn.all():
            yield _note(
                f"{np.count_nonzero(~drawn)} supersteps without an exchange, measured or predicted, are left out."
            )

    def _hints(self, layers: NDArray[np.float64], names: Sequence[str]) -> list[str]:
        """What is said of each bin, a line for each layer that is in it."""
        found = []
        for first, end, column in zip(self.edges, self.edges[1:], layers.T, strict=False):
            head = f"superstep {first}" if end - first == 1 else f"supersteps {first} to {end - 1}, mean"
            found.append(
                "\n".join(
                    [head, *(f"{name}: {value:.3g} s" for name, value in zip(names, column, strict=True) if value)]
                )
            )
        return found


def _traced(trace: dict[str, Any], sent: int) -> Iterator[str]:
    """The pictures of what `--trace` has kept of a run, in which so many words were sent."""
    p, lane = trace["p"], trace["lane"]
    along = Axis(0.0, trace["seconds"] or 1.0, "seconds")
    together = "processor" if lane == 1 else f"processor (lanes of {lane})"
    figures = {name: np.array(trace[name]) for name in ("computing", "waiting", "exchange", "sent", "kinds")}
    rows, bins = figures["sent"].shape
    in_lane = np.minimum(lane, p - lane * np.arange(rows))[:, None]
    a_bin = in_lane * (trace["seconds"] / bins or 1.0)

    yield "<h3>Timeline by processor: what it does</h3>"
    with np.errstate(over="ignore"):
        shares = np.stack([figures[name] / a_bin for name in ("computing", "waiting", "exchange")])
        shares /= np.maximum(1.0, shares.sum(axis=0))
    names = ["computing", "waiting for the slowest", "exchange"]
    yield lanes(list(np.nan_to_num(shares)), names, along, together, p)

    yield "<h3>Timeline by processor: label</h3>"
    labels = [_label(name, _NAME) for name in trace["labels"][: len(COLOURS)]]
    kinds = np.minimum(figures["kinds"], len(labels) - 1)
    yield lanes([(kinds == kind).astype(float) for kind in range(len(labels))], labels, along, together, p)

    yield "<h3>Timeline by processor: words sent</h3>"
    yield shades(figures["sent"], along, Axis(0, p, together, counts=True))

    yield "<h3>Words from each processor to each</h3>"
    table = np.zeros((len(labels), rows, rows))
    for kind, source, dest, words in trace["words"]:
        table[min(kind, len(labels) - 1), source, dest] += words
    whole = table.sum(axis=0)
    pictures = [("all labels", whole)] if whole.any() else []
    pictures += [(name, cells) for name, cells in zip(labels, table, strict=True) if cells.any()][: len(COLOURS)]
    if not pictures:
        yield _note("Nothing was sent.")
    yield '<div class="few">'
    for name, cells in pictures:
        shown = shades(cells, Axis(0, p, "to", counts=True), Axis(0, p, "from", counts=True), 300)
        yield f"<figure><figcaption>{html.escape(name)}: {cells.sum():.6g} words</figcaption>{shown}</figure>"
    yield "</div>"
    left = sent - int(whole.sum())
    if left > 0:
        yield _note(
            f"{left} more words, of {sent}, went from memory to memory that processors share: small collectives, and "
            "gets from one's own node. Who sent them to whom is not kept."
        )


def _costs(records: Supersteps, total: Record, machine: dict[str, Any]) -> str:
    """The table by label, in the order in which they first come; of very many the dearest."""
    shown = columns(total, machine["calibrated"], {n: machine[key] for n, key in BARS.items() if machine.get(key)})
    rows = records.totals()
    left = len(rows) - ROWS
    if left > 0:
        rows = sorted(rows, key=lambda row: row.measured, reverse=True)[:ROWS]
    head = "".join(f"<th>{_safe(name)}</th>" for name in ("label", "supersteps", *shown, "part of time"))

    def line(record: Record, kind: str = "") -> str:
        part = record.measured / total.measured if total.measured else 0.0
        cells = [_label(record.label), str(record.supersteps), *(column(record) for column in shown.values())]
        cells.append(f"{100 * part:.1f} %")
        return f"<tr{kind}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"

    body = "".join(map(line, rows)) + line(total, ' class="total"')
    table = f'<div class="table"><table><tr>{head}</tr>{body}</table></div>'
    return table + (_note(f"The {ROWS} dearest; {left} more labels are in the total.") if left > 0 else "")


def _compared(number: int, names: Sequence[str], both: Sequence[Supersteps]) -> str:
    """The table of two runs by label, where both have it, and of their totals."""
    first, second = ({row.label: row for row in records.totals()} for records in both)
    common = sorted((label for label in first if label in second), key=lambda label: -first[label].measured)[:ROWS]
    figures = {"computing [s]": "seconds", "exchange [s]": "exchange", "measured [s]": "measured"}
    head = "<th>label</th>" + "".join(f"<th>{name}: first</th><th>second</th><th>second/first</th>" for name in figures)

    def line(a: Record, b: Record, kind: str = "") -> str:
        cells = [_label(a.label)]
        for name in figures.values():
            one, other = getattr(a, name), getattr(b, name)
            cells += [f"{one:.4g}", f"{other:.4g}", f"{other / one:.3g}" if one > 0 else "-"]
        return f"<tr{kind}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"

    body = "".join(line(first[label], second[label]) for label in common)
    body += line(both[0].total, both[1].total, ' class="total"')
    return (
        f"<h2>Run {number}: first {_safe(names[0])}, second {_safe(names[1])}</h2>"
        f'<div class="table"><table><tr>{head}</tr>{body}</table></div>'
    )


def _label(label: str, longest: int = LONGEST) -> str:
    """A label as it is shown, not yet escaped."""
    found = harmless(label[: longest + 1]) or "-"
    return found if len(found) <= longest else f"{found[: longest - 3]}..."


def _safe(text: str, longest: int = LONGEST) -> str:
    """Text that can be no markup."""
    found = harmless(text)
    return html.escape(found if len(found) <= longest else f"{found[: longest - 3]}...")


def _note(text: str) -> str:
    return f'<p class="note">{_safe(text, 2000)}</p>'
