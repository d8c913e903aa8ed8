"""Supersteps as pictures and tables of HTML: of a ledger in a notebook, of a ledger file on a page (commands/page.py).

All that programs say is escaped here, or in ground/drawing.py. How much there is to see does not grow with the
supersteps.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import harmless
from ..ground.drawing import COLOURS, Axis, bars, lanes, lines, points, shades, table
from .records import TOTAL, in_table

if TYPE_CHECKING:
    from .records import Record, Supersteps

ROWS = 60  # labels of a table
LONGEST = 120  # characters of a label that are shown, and of a colour's name
_BINS = 120  # of supersteps, in a notebook
_NAME = 40
_NAMED = len(COLOURS) - 1  # labels with a colour of their own
OTHERS = COLOURS[-1]  # of all others
BARS = {"+- median [s]": "error_median", "+- p95 [s]": "error_p95"}


def of_ledger(records: Supersteps, machine: dict[str, Any], p: int, virtual: bool, network: str) -> str:
    """A ledger of p processors, as a notebook shows it."""
    total = records.total
    parts = [f"<p><b>{safe(headline(total, machine, virtual), 2000)}</b></p>", *map(note, doubts(machine, p))]
    if network:
        parts.append(note(steps_of(network)))
    if len(records):
        pictures = BinnedSupersteps(records, _BINS, colours_of([records])).pictures(machine["calibrated"] or virtual)
        parts += ['<div style="max-width:640px">', *pictures, "</div>", costs(records, total, machine)]
    return "".join(parts)


def headline(total: Record, machine: dict[str, Any], virtual: bool = False, router: str = "direct") -> str:
    """What a run comes to, in a line: how well its exchange was predicted, where by a machine that was measured."""
    parts = (
        f"computing {total.seconds:.4g} s (imbalance {total.imbalance:.3g}: {total.waiting:.4g} s of waiting), "
        f"exchange {total.exchange:.4g} s"
    )
    if not machine["calibrated"]:
        return parts if virtual else f"{parts}; no machine to predict by: {_way_out(router)}"
    ratio = ratio_of(total)
    return f"exchange predicted/measured: {ratio} ({total.exchange_predicted:.4g} s predicted); {parts}"


def doubts(machine: dict[str, Any], p: int) -> Iterator[str]:
    """Why the predictions of a run of p processors by that machine may be off, whatever was measured."""
    if not machine["calibrated"]:
        return
    if (own := machine.get("p", p)) != p:
        yield f"The machine's figures are of p = {own}, and this run has p = {p}: they predict another machine."
    if machine.get("busy"):
        yield (
            "The machine was measured while it was busy with other things, which is in its figures; `pybsp run "
            "--calibrate` measures again when it is quiet."
        )


def steps_of(network: str) -> str:
    """What times are of a run on a network."""
    return f"Times are steps of the network ({harmless(network)}): each s stands for one."


def _way_out(router: str) -> str:
    """How this machine is measured, as a run with that router meets it."""
    with_it = "" if router == "direct" else f" --router {harmless(router)}"
    return f"`pybsp run --calibrate{with_it}` measures this one first, `pybsp calibrate` thoroughly"


def ratio_of(total: Record) -> str:
    """Exchange predicted over measured; "-" where none was measured."""
    return f"{total.exchange_predicted / total.exchange:.3g}" if total.exchange > 0 else "-"


class BinnedSupersteps:
    """The supersteps of a run, in bins; the labels have the colours of their page."""

    def __init__(self, records: Supersteps, bins: int, colours: Mapping[str, str]) -> None:
        numbers = records.numbers()
        column = {name: numbers[:, at] for at, name in enumerate(records.columns)}
        self.count = len(numbers)
        self.edges = np.linspace(0, self.count, min(self.count, bins) + 1).astype(int)
        self.wide = np.diff(self.edges)
        self.measured, self.mean = column["measured"], column["seconds_mean"]
        self.computing, self.predicted = column["seconds"], column["exchange_predicted"]
        self.names, kinds = _with_colours(records.names, colours)
        self.kinds = kinds[column["label"].astype(np.int64)]
        self.colours = [*(colours[name] for name in self.names), OTHERS]
        if left := int(np.count_nonzero(kinds == len(self.names))):
            self.names.append(f"{left} other label{'s' * (left != 1)}")

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
        yield bars(layers, self.names, along, each, self._hints(layers, self.names), self.colours)

        yield "<h3>Time by what it goes to</h3>"
        exchange = np.maximum(self.measured - self.computing, 0.0)
        waiting = np.maximum(self.computing - self.mean, 0.0)
        layers = np.stack([self.binned(values) for values in (self.mean, waiting, exchange)])
        names = ["computing (mean)", "waiting for the slowest", "exchange"]
        yield bars(layers, names, along, each, self._hints(layers, names))

        yield "<h3>Imbalance of computing (largest over mean)</h3>"
        largest, mean = self.binned(self.computing), self.binned(self.mean)
        with np.errstate(over="ignore"):
            ratio = np.divide(largest, mean, out=np.ones_like(largest), where=mean > 0)
        ratio = np.nan_to_num(ratio, posinf=np.finfo(float).max)
        middle = (self.edges[:-1] + self.edges[1:]) / 2
        yield lines(middle, [ratio], [""], along, Axis.over(ratio, "largest/mean"))

        yield "<h3>Exchange, predicted against measured</h3>"
        if not predicted:
            yield note("There is no machine to predict by.")
            return
        exchange = self.measured - self.computing
        drawn = (exchange > 0) & (self.predicted > 0)
        if drawn.any():
            x, y, kinds = exchange[drawn], self.predicted[drawn], self.kinds[drawn]
            yield points(x, y, kinds, self.names, "measured [s]", "predicted [s]", self.colours)
        if not drawn.all():
            yield note(
                f"{np.count_nonzero(~drawn)} supersteps without an exchange, measured or predicted, are left out."
            )

    def _hints(self, layers: NDArray[np.float64], names: Sequence[str]) -> list[str]:
        """The text of each bin, a line for each layer that is in it."""
        found = []
        for first, end, column in zip(self.edges, self.edges[1:], layers.T, strict=False):
            head = f"superstep {first}" if end - first == 1 else f"supersteps {first} to {end - 1}, mean"
            shown = (f"{name}: {value:.3g} s" for name, value in zip(names, column, strict=True) if value)
            found.append("\n".join([head, *shown]))
        return found


def colours_of(runs: Iterable[Supersteps]) -> dict[str, str]:
    """The colour of each label in all pictures of a page, by its name there, of those that take most of a run."""
    shares: dict[str, float] = {}
    for records in runs:
        whole = records.total.measured or 1.0
        for row in records.totals():
            name = shown_label(row.label, _NAME)
            shares[name] = max(shares.get(name, 0.0), row.measured / whole)
    dearest = sorted(shares, key=lambda name: shares[name], reverse=True)[:_NAMED]
    return dict(zip(dearest, COLOURS, strict=False))


def _with_colours(labels: Sequence[str], colours: Mapping[str, str]) -> tuple[list[str], NDArray[np.int64]]:
    """Names that have a colour, of those of labels, and of each label the number of its name; of others the next."""
    shown = [shown_label(label, _NAME) for label in labels]
    there = {*shown}
    names = [name for name in colours if name in there]
    number = {name: at for at, name in enumerate(names)}
    return names, np.array([number.get(name, len(names)) for name in shown], np.int64)


def traced(trace: dict[str, Any], sent: int, colours: Mapping[str, str]) -> Iterator[str]:
    """The pictures of what `--trace` has kept of a run.

    Args:
        trace: as `trace.Trace.summary` says it.
        sent: words of the run.
        colours: of labels, as `colours_of` gives them.
    """
    p, lane = trace["p"], trace["lane"]
    along = Axis(0.0, trace["seconds"] or 1.0, "seconds")
    together = "processor" if lane == 1 else f"processor (lanes of {lane})"
    figures = {name: np.array(trace[name]) for name in ("computing", "waiting", "exchange", "sent", "kinds")}
    rows, bins = figures["sent"].shape
    in_lane = np.minimum(lane, p - lane * np.arange(rows))[:, None]
    a_bin = in_lane * (trace["seconds"] / bins or 1.0)

    yield "<h3>Timeline by processor: what it does</h3>"
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.stack([figures[name] / a_bin for name in ("computing", "waiting", "exchange")])
        shares /= np.maximum(1.0, shares.sum(axis=0))
    names = ["computing", "waiting for the slowest", "exchange"]
    yield lanes(list(np.nan_to_num(shares)), names, along, together, p)

    yield "<h3>Timeline by processor: label</h3>"
    names, number = _with_colours(trace["labels"], colours)
    kinds = np.where(figures["kinds"] < 0, -1, number[figures["kinds"]])
    drawn = [(kinds == kind).astype(float) for kind in range(len(names) + 1)]
    yield lanes(drawn, [*names, "other labels"], along, together, p, [*(colours[name] for name in names), OTHERS])

    yield "<h3>Timeline by processor: words sent</h3>"
    yield shades(figures["sent"], along, Axis(0, p, together, counts=True))

    yield "<h3>Words from each processor to each</h3>"
    labels = [shown_label(name, _NAME) for name in trace["labels"][: len(COLOURS)]]
    each = np.zeros((len(labels), rows, rows))
    for kind, source, dest, words in trace["words"]:
        each[min(kind, len(labels) - 1), source, dest] += words
    whole = each.sum(axis=0)
    pictures = [("all labels", whole)] if whole.any() else []
    pictures += [(name, cells) for name, cells in zip(labels, each, strict=True) if cells.any()][: len(COLOURS)]
    if not pictures:
        yield note("Nothing was sent.")
    yield '<div class="few">'
    for name, cells in pictures:
        shown = shades(cells, Axis(0, p, "to", counts=True), Axis(0, p, "from", counts=True), 300)
        yield f"<figure><figcaption>{html.escape(name)}: {cells.sum():.6g} words</figcaption>{shown}</figure>"
    yield "</div>"
    left = sent - int(whole.sum())
    if left > 0:
        yield note(
            f"{left} more words, of {sent}, came before a checkpoint of a run without a trace, or pybsp was 0.2, where "
            "what is read in another's memory was not kept: who sent them to whom is not known."
        )


def costs(records: Supersteps, total: Record, machine: dict[str, Any]) -> str:
    """The table by label, in the order in which they first come; of very many the dearest."""
    shown = columns(total, machine["calibrated"], bars_of(machine))
    rows = records.totals()
    left = len(rows) - ROWS
    if left > 0:
        rows = sorted(rows, key=lambda row: row.measured, reverse=True)[:ROWS]

    def line(record: Record) -> list[str]:
        part = record.measured / total.measured if total.measured else 0.0
        cells = [
            TOTAL if record is total else shown_label(record.label),
            str(record.supersteps),
            *(column(record) for column in shown.values()),
        ]
        return [*cells, f"{100 * part:.1f} %"]

    head = ["label", "supersteps", *shown, "part of time"]
    return table(head, map(line, [*rows, total]), last=True) + more_labels(left)


def more_labels(left: int) -> str:
    """What is said below a table that has so many labels less than there are."""
    return note(f"The {ROWS} dearest; {left} more labels are in the total.") if left > 0 else ""


def bars_of(machine: dict[str, Any]) -> dict[str, float]:
    """The relative errors of a machine's predictions, by the name of their column; none where it does not know them."""
    return {name: machine[key] for name, key in BARS.items() if machine.get(key) is not None}


def shown_label(label: str, longest: int = LONGEST) -> str:
    """A label as it is shown, not yet escaped."""
    found = harmless(in_table(label[: longest + 1]))
    return found if len(found) <= longest else f"{found[: longest - 3]}..."


def safe(text: str, longest: int = LONGEST) -> str:
    """Text that can be no markup."""
    found = harmless(text)
    return html.escape(found if len(found) <= longest else f"{found[: longest - 3]}...")


def note(text: str) -> str:
    return f'<p class="note">{safe(text, 2000)}</p>'


def columns(total: Record, predicted: bool, errors: dict[str, float]) -> dict[str, Callable[[Record], str]]:
    """The columns of a table: what there is to say of a run with that total.

    Args:
        total: of the run.
        predicted: whether there is a machine to predict by.
        errors: relative ones of its predictions, by the column's name.
    """

    def whole(name: str) -> Callable[[Record], str]:
        return lambda record: f"{getattr(record, name):.0f}"

    def seconds(name: str) -> Callable[[Record], str]:
        return lambda record: f"{getattr(record, name):.4g}"

    def bar(error: float) -> Callable[[Record], str]:
        return lambda record: f"{error * record.exchange_predicted:.2g}"

    found = {"h [words]": whole("h"), "M [words]": whole("M"), "messages": whole("messages")}
    if total.items:
        found["items"] = whole("items")
    found["computing [s]"] = seconds("seconds")
    if total.work:
        found["by w/r [s]" if predicted else "w [flop]"] = seconds("charged" if predicted else "work")
    found["imbalance"] = lambda record: f"{record.imbalance:.3g}"
    found["waiting [s]"] = seconds("waiting")
    found["exchange [s]"] = seconds("exchange")
    if predicted:
        found["predicted [s]"] = seconds("exchange_predicted")
        found.update({name: bar(error) for name, error in errors.items()})
        found["predicted/measured"] = ratio_of
    return found
