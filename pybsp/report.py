"""A ledger as a table: supersteps by label, what they cost, and how far off the prediction was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .ledger import read


def report(path: str, every: bool) -> int:
    """Print the tables of all runs in a ledger file."""
    console = Console()
    if not console.is_terminal:
        console.width = 140  # in a file or a pipe nothing is cut
    for number, run in enumerate(read(path)["runs"], 1):
        console.print(_title(number, run), highlight=False, soft_wrap=True)
        console.print(_table(run["supersteps"], every))
        if not run["machine"]["calibrated"]:
            console.print(
                "The predictions are by nominal parameters, which nobody has measured on this machine.",
                highlight=False,
            )
        if not run["virtual"] and not all(record["work"] for record in run["supersteps"]):
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
    return (
        f"run {number}: p = {run['p']} {kind} on {', '.join(hosts)}, {run['date']}, router {run['router']}; "
        f"g = {machine['g']:.3g} s/word, l = {machine['l']:.3g} s, r = {machine['r']:.3g} flop/s, "
        f"o_msg = {machine['o_msg']:.3g} s; {', '.join(f'{k} {v}' for k, v in run['versions'].items())}"
    )


def _table(records: Sequence[dict[str, Any]], every: bool) -> Table:
    table = Table()
    table.add_column("superstep" if every else "supersteps", justify="right")
    table.add_column("label")
    for name in ("w [flop]", "computing [s]", "h [words]", "M [words]", "messages", "predicted [s]", "measured [s]"):
        table.add_column(name, justify="right")
    table.add_column("measured/predicted", justify="right")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for number, record in enumerate(records):
        groups.setdefault(number if every else record["label"], []).append(record)
    for number, group in groups.items():
        table.add_row(str(number if every else len(group)), group[0]["label"] or "-", *_row(group))
    table.add_section()
    table.add_row(str(len(records)), "total", *_row(records))
    return table


def _row(group: Sequence[dict[str, Any]]) -> list[str]:
    def total(key: str) -> Any:
        return sum(record[key] for record in group)

    predicted, measured = total("predicted"), total("measured")
    return [
        f"{total('work'):.4g}",
        f"{total('seconds'):.4g}",
        f"{total('h'):d}",
        f"{total('M'):d}",
        f"{total('messages'):d}",
        f"{predicted:.4g}",
        f"{measured:.4g}",
        f"{measured / predicted:.3g}" if predicted else "-",
    ]
