"""A ledger as one page of HTML that needs nothing else: no network, no script. Two ledgers stand side by side.

What the page holds is bounded, however long the ledger: supersteps go together in bins, labels beyond the dearest into
one row, and of very many runs the first are shown. Each of these is said where it happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..ground.drawing import table
from ..ground.files import writing
from ..ledger.ledger_file import read
from ..ledger.pictures import (
    ROWS,
    BinnedSupersteps,
    colours_of,
    costs,
    headline,
    more_labels,
    note,
    safe,
    shown_label,
    traced,
)
from ..ledger.records import TOTAL, Record, Supersteps
from .table import NO_RUN, doubted, notes, predicting, title

# With these a page has at most 5 MB, whatever the labels are made of.
BINS = 240  # of supersteps, in a picture; fewer where there are more than two runs
FEWEST = 48
RUNS = 8  # of a ledger
TRACES = 2_000_000  # characters of pictures of traces, in a page
_NOTES = 40  # lines below a run's headline

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
    return put(page(ledgers, [read(path)["runs"] for path in ledgers]), place)


def put(text: str, place: str) -> int:
    """Write a page, or raise a UsageError, and say so; returns the command's exit status."""
    with writing(place, f"--html: {place}") as file:
        file.write(text)
    print(f"written: {place}")
    return 0


def page(names: Sequence[str], ledgers: Sequence[list[dict[str, Any]]]) -> str:
    """The page of these ledgers, which have names: the runs of each, as `ledger_file.read` gives them."""
    parts: list[str] = []
    for runs in ledgers:
        for run in runs:
            predicting(run)
    colours = colours_of(run["supersteps"] for runs in ledgers for run in runs[:RUNS])
    shown = sum(min(len(runs), RUNS) for runs in ledgers)
    left = TRACES
    bins = max(FEWEST, min(BINS, 2 * BINS // max(shown, 1)))
    for number, beside in enumerate(islice(zip_longest(*ledgers), RUNS), 1):
        both = [run["supersteps"] for run in beside if run is not None]
        if len(both) > 1:
            parts.append(_compared(number, names, both))
        parts.append('<div class="beside">')
        for run in beside:
            shown_here = "" if run is None else "".join(_run(number, run, bins, colours))
            pictures = ""
            if run is not None and "trace" in run:
                total = run["supersteps"].total
                pictures = "".join(traced(run["trace"], total.M, colours))
                if any(parts is not None and parts.M for parts in (total.parts, run.get("parts_after"))):
                    pictures += note("What parts of the machine (bsp.split) sent is in none of these pictures.")
            if pictures and (left := left - len(pictures)) < 0:
                pictures = note("The pictures of this run's trace are left out: the page would be too large.")
            parts.append(f"<section>{shown_here}{pictures}</section>")
        parts.append("</div>")
    longest = max(map(len, ledgers))
    if longest > RUNS:
        parts.append(note(f"These are the first {RUNS} of {longest} runs; `pybsp report` prints all."))
    if not longest:
        parts.append(note(NO_RUN))
    return framed(f"Ledger {' and '.join(Path(name).name for name in names)}", parts)


def framed(title: str, parts: Iterable[str]) -> str:
    """The page of that title, with these parts."""
    heading = safe(title, 300)
    head = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{heading}</title><style>{_STYLE}</style></head><body><h1>{heading}</h1>"
    )
    return f"{head}{''.join(parts)}</body></html>\n"


def _run(number: int, run: dict[str, Any], bins: int, colours: Mapping[str, str]) -> Iterator[str]:
    """What is shown of one run."""
    records, machine, virtual = run["supersteps"], run["machine"], run["virtual"]
    total = records.total
    yield f"<h2>{safe(title(number, run), 2000)}</h2>"
    yield f'<p class="headline">{safe(headline(total, machine, virtual, run["router"]), 2000)}</p>'
    lines = [*doubted(run), *notes(run)]
    yield "".join(map(note, lines[:_NOTES]))
    if len(lines) > _NOTES:
        yield note(f"and {len(lines) - _NOTES} more such lines, which `pybsp report` prints")
    if not len(records):
        return
    steps = BinnedSupersteps(records, bins, colours)
    yield from steps.pictures(machine["calibrated"] or virtual)
    yield "<h3>Costs by label</h3>"
    yield costs(records, total, machine)


def _compared(number: int, names: Sequence[str], both: Sequence[Supersteps]) -> str:
    """The table of two runs by label, the dearest first, and of their totals."""
    by_label = [{row.label: row for row in records.totals()} for records in both]
    most = {label: max(of[label].measured for of in by_label if label in of) for of in by_label for label in of}
    labels = sorted(most, key=lambda label: most[label], reverse=True)
    figures = {"computing [s]": "seconds", "exchange [s]": "exchange", "measured [s]": "measured"}
    head = ["label", *(text for name in figures for text in (f"{name}: first", "second", "second/first"))]

    def line(first: str, rows: Sequence[Record | None]) -> list[str]:
        cells = [first]
        for name in figures.values():
            one, other = (None if row is None else getattr(row, name) for row in rows)
            cells += ["-" if figure is None else f"{figure:.4g}" for figure in (one, other)]
            cells.append(f"{other / one:.3g}" if one and one > 0 and other is not None else "-")
        return cells

    lines = [line(shown_label(label), [of.get(label) for of in by_label]) for label in labels[:ROWS]]
    lines.append(line(TOTAL, [records.total for records in both]))
    heading = f"<h2>Run {number}: first {safe(names[0])}, second {safe(names[1])}</h2>"
    return heading + table(head, lines, last=True) + more_labels(len(labels) - ROWS)
