"""A ledger as a table: supersteps by label, what they cost, and how far off the prediction was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .decoding import harmless
from .ledger import Record, Supersteps, read

# What a title shows of a machine, as far as it has it.
UNITS = {"g": "s/word", "l": "s", "g1": "s/word", "g2": "s/word", "s": "s", "r": "flop/s", "o_msg": "s", "o_item": "s"}
BARS = {"+- median [s]": "error_median", "+- p95 [s]": "error_p95"}


def report(path: str, every: bool) -> int:
    """Print the tables of all runs in a ledger file."""
    console = Console()
    if not console.is_terminal:
        console.width = 170  # in a file or a pipe nothing is cut
    for number, run in enumerate(read(path)["runs"], 1):
        console.print(Text(harmless(_title(number, run))), highlight=False, soft_wrap=True)
        console.print(_table(run["supersteps"], run["machine"], every))
        if any(run["machine"].get(key) is not None for key in BARS.values()):
            console.print(
                "+- is the median and the 95th percentile of the errors of the machine file's predictions of "
                "supersteps that nothing was fitted from.",
                highlight=False,
                soft_wrap=True,
            )
        if not run["machine"]["calibrated"]:
            console.print(
                "The predictions are by nominal parameters, which nobody has measured on this machine.",
                highlight=False,
            )
        if not run["virtual"] and not run["supersteps"].numbers()[:, 1].all():
            console.print(
                "Where w is 0 the program charged no work, and the prediction contains the computing measured.",
                highlight=False,
                soft_wrap=True,
            )
        if run["virtual"]:
            console.print("Times are virtual: measured is what the machine's parameters say.", highlight=False)
    return 0


def _title(number: int, run: dict[str, Any]) -> str:
    machine, hosts = run["machine"], sorted(set(run["hosts"]))
    kind = "virtual processors" if run["virtual"] else "MPI ranks"
    figures = ", ".join(f"{name} = {machine[name]:.3g} {unit}" for name, unit in UNITS.items() if name in machine)
    return (
        f"run {number}: p = {run['p']} {kind} on {', '.join(hosts)}, {run['date']}, router {run['router']}; "
        f"{figures}; {', '.join(f'{k} {v}' for k, v in run['versions'].items())}"
    )


def _table(records: Supersteps, machine: dict[str, Any], every: bool) -> Table:
    table = Table()
    table.add_column("superstep" if every else "supersteps", justify="right")
    table.add_column("label")
    known = {name: machine[key] for name, key in BARS.items() if machine.get(key) is not None}
    errors = list(known.values())
    rows = records.numbers()
    labels, figures = rows[:, 0].astype(np.int64), rows[:, 1:]
    counted = ["h", "M", "messages"] + ["items"] * bool(figures[:, -1].any())
    for name in (
        *("w [flop]", "computing [s]"),
        *(f"{key} [words]" if key in ("h", "M") else key for key in counted),
        *("predicted [s]", *known, "measured [s]"),
    ):
        table.add_column(Text(name), justify="right")  # a unit in brackets is no markup
    table.add_column("measured/predicted", justify="right")

    def add(first: int, label: str, totals: Sequence[float]) -> None:
        table.add_row(str(first), Text(label), *_row(totals, counted, errors))

    if every:
        for number, (label, row) in enumerate(zip(labels.tolist(), figures.tolist(), strict=True)):
            add(number, harmless(records.names[label]) or "-", row)
    else:
        count = len(records.names)
        sums = np.stack([np.bincount(labels, column, count) for column in figures.T], axis=1)
        for number, label, row in zip(np.bincount(labels).tolist(), records.names, sums.tolist(), strict=True):
            add(number, harmless(label) or "-", row)
    table.add_section()
    with np.errstate(over="ignore"):
        add(len(records), "total", figures.sum(axis=0).tolist())
    return table


def _row(totals: Sequence[float], counted: Sequence[str], errors: Sequence[float]) -> list[str]:
    total = dict(zip(Record._fields[1:], totals, strict=True))
    predicted, measured = total["predicted"], total["measured"]
    return [
        f"{total['work']:.4g}",
        f"{total['seconds']:.4g}",
        *(f"{total[key]:.0f}" for key in counted),
        f"{predicted:.4g}",
        *(f"{error * predicted:.2g}" for error in errors),
        f"{measured:.4g}",
        f"{measured / predicted:.3g}" if predicted else "-",
    ]
