"""A ledger as a table: supersteps by label, what they cost, and how well the exchange was predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from .console import TableConsole
from .decoding import harmless
from .ledger import CIRCUMSTANCES
from .ledger_file import read
from .pictures import bars_of, columns, headline
from .records import Record, Supersteps

# What a title shows of a machine, as far as it has it.
UNITS = {"g": "s/word", "l": "s", "g1": "s/word", "g2": "s/word", "s": "s", "r": "flop/s", "o_msg": "s", "o_item": "s"}

NO_RUN = "No BSP run is in it."


def report(path: str, every: bool) -> int:
    """Print the tables of all runs in a ledger file."""
    console = TableConsole(240)
    runs = read(path)["runs"]
    if not runs:
        console.print(Text(NO_RUN), highlight=False)
    for number, run in enumerate(runs, 1):
        predicting(run)
        console.print(Text(harmless(title(number, run))), highlight=False, soft_wrap=True)
        console.print(
            Text(headline(run["supersteps"].total, run["machine"], run["virtual"])), highlight=False, soft_wrap=True
        )
        console.print(_table(run["supersteps"], run["machine"], every))
        for note in notes(run):
            console.print(Text(note), highlight=False, soft_wrap=True)
    return 0


def predicting(run: dict[str, Any]) -> None:
    """Let the machine of a run be the one that its ledger predicts exchanges by."""
    if not run["virtual"] and run["machine"].get("exchange"):
        run["machine"].update(run["machine"]["exchange"])


def placed(run: dict[str, Any]) -> Iterator[str]:
    """How the ranks of a run were placed, host by host: cores, threads and load, as far as the file has them."""
    for host in dict.fromkeys(run["hosts"]):
        ranks = [pid for pid, other in enumerate(run["hosts"]) if other == host]
        cores, threads, load = (run.get(name, [0])[ranks[0] if name in run else 0] for name in CIRCUMSTANCES)
        if not cores:
            continue
        line = (
            f"{harmless(host)}: {counted(len(ranks), 'rank')} on {counted(cores, 'core')}, "
            f"{counted(threads, 'thread')} a rank, load average {load:.3g} before"
        )
        if len(ranks) > cores:
            line += "; more ranks than cores: they wait for their turns, which the exchange contains"
        elif len(ranks) * threads > cores and len(ranks) > 1:
            line += "; more threads than cores: they wait for their turns"
        yield line


def rode(run: dict[str, Any]) -> Iterator[str]:
    """What collectives sent that rode in the supersteps of a run, by their names; nothing where none did."""
    words: Counter[str] = Counter()
    supersteps: Counter[str] = Counter()
    for of_superstep in run.get("riding", {}).values():
        words.update(of_superstep)
        supersteps.update(of_superstep.keys())
    if words:
        shares = (
            f"{harmless(name)} {counted(words[name], 'word')} in {counted(supersteps[name], 'superstep')}"
            for name in sorted(words)
        )
        yield f"Riding in the supersteps above, from all processors: {', '.join(shares)}."


def counted(number: int, noun: str) -> str:
    """So many of them: "1 rank", "2 ranks"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def notes(run: dict[str, Any]) -> Iterator[str]:
    """Remarks below a run's table."""
    yield from placed(run)
    if run.get("kinds"):
        yield f"work by kind: {'; '.join(_of_kinds(run))}"
    parts = run["supersteps"].total.parts
    if parts is not None:
        by = f", predicted {parts.exchange_predicted:.4g} s" if run["machine"]["calibrated"] else ""
        column = "by w/r" if run["machine"]["calibrated"] else "w"
        more = f'; charged in them: {parts.work:.4g} flop, which "{column}" has not' if parts.work else ""
        yield (
            f"parts of the machine: {counted(parts.supersteps, 'superstep')} of their own in "
            f"{counted(len(run['supersteps'].parts), 'superstep')} of the whole, which contain them: computing "
            f"{parts.seconds:.4g} s, exchange {parts.exchange:.4g} s{by}; h = {parts.h} words, M = {parts.M}{more}"
        )
    if indices := run.get("index_bytes"):
        yield (
            f"Indices of patterns, which count no words: {sum(indices.values()):,} bytes, in "
            f"{counted(len(indices), 'superstep')}."
        )
    yield from rode(run)
    if bars_of(run["machine"]):
        yield (
            "+- is the median and the 95th percentile of the errors of the machine file's predictions of supersteps "
            "that nothing was fitted from."
        )
    if saved := run.get("checkpoints"):
        size, seconds = sum(one["bytes"] for one in saved) / 1e6, [one["seconds"] for one in saved]
        yield (
            f"{counted(len(saved), 'checkpoint')} of {size:.3g} MB in all, for which the program waited "
            f"{sum(seconds):.3g} s, {max(seconds):.3g} s at most; no superstep's time has that."
        )
    if run["virtual"]:
        yield "Times are virtual: what is measured is what the machine's parameters say."


def _of_kinds(run: dict[str, Any]) -> Iterator[str]:
    """Flop of each kind of work, and the seconds that they take by the machine's rate."""
    sums: dict[str, float] = {}
    for kinds in run["kinds"].values():
        for kind, flops in kinds.items():
            sums[kind] = sums.get(kind, 0.0) + flops
    machine = run["machine"]
    for kind, flops in sums.items():
        rate = machine.get("rates", {}).get(kind, machine.get("r"))
        seconds = f", {flops / rate:.4g} s by w/r" if rate and machine["calibrated"] else ""
        yield f"{harmless(kind)} {flops:.4g} flop{seconds}"


def title(number: int, run: dict[str, Any]) -> str:
    """A run in a line: where, when, by which machine, with which versions."""
    machine, hosts = run["machine"], sorted(set(run["hosts"]))
    kind = "virtual processors" if run["virtual"] else "MPI ranks"
    figures = ", ".join(f"{name} = {machine[name]:.3g} {unit}" for name, unit in UNITS.items() if name in machine)
    if not machine["calibrated"] and not run["virtual"]:
        figures = "no machine file"
    return (
        f"run {number}: p = {run['p']} {kind} on {', '.join(hosts)}, {run['date']}, router {run['router']}; "
        f"{figures}; {', '.join(f'{k} {v}' for k, v in run['versions'].items())}"
    )


def _table(records: Supersteps, machine: dict[str, Any], every: bool) -> Table:
    table = Table()
    table.add_column("superstep" if every else "supersteps", justify="right")
    table.add_column("label")
    total = records.total
    shown = columns(total, machine["calibrated"], bars_of(machine))
    for name in shown:
        table.add_column(Text(name), justify="right")  # a unit in brackets is no markup

    def add(number: int, label: str, record: Record) -> None:
        table.add_row(str(number), Text(label), *(column(record) for column in shown.values()))

    if every:
        for number, record in enumerate(records):
            add(number, harmless(record.label) or "-", record)
    else:
        for record in records.totals():
            add(record.supersteps, harmless(record.label) or "-", record)
    table.add_section()
    add(total.supersteps, "total", total)
    return table
