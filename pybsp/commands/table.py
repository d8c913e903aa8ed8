"""A ledger as a table: supersteps by label, what they cost, and how well the exchange was predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ..errors import harmless
from ..ground.console import TableConsole
from ..ledger.ledger_file import read
from ..ledger.pictures import bars_of, columns, doubts, headline, steps_of
from ..ledger.records import CIRCUMSTANCES, TOTAL, PartTotals, Supersteps, in_table
from ..processes.process import is_busy
from ..runs.machine_cache import DOUBTFUL
from .fitting import WIDTH, fitted

# What a title shows of a machine, as far as it has it.
UNITS = {"g": "s/word", "l": "s", "g1": "s/word", "g2": "s/word", "s": "s", "r": "flop/s", "o_msg": "s", "o_item": "s"}
# What a narrow table leaves out first comes first.
LEAST_TELLING = (
    *("+- p95 [s]", "+- median [s]", "by w/r [s]", "w [flop]", "items", "M [words]", "messages", "waiting [s]"),
    *("predicted [s]", "imbalance", "h [words]", "predicted/measured", "computing [s]", "exchange [s]"),
)
_MOVED = 0.1  # of the latency of a machine file: what a run has found is said if it differs by more
_LITTLE = 0.01  # of all supersteps: what is computed after them is said if it is more

NO_RUN = "No BSP run is in it."


def report(path: str, every: bool, wide: bool = False) -> int:
    """Print the tables of all runs in a ledger file: all columns, or those for which a terminal has room."""
    console = TableConsole(WIDTH, wide)
    runs = read(path)["runs"]
    if not runs:
        console.put(Text(NO_RUN))
    for number, run in enumerate(runs, 1):
        predicting(run)
        console.put(Text(harmless(title(number, run))))
        console.put(Text(headline(run["supersteps"].total, run["machine"], run["virtual"], run["router"])))
        for doubt in doubted(run):
            console.put(Text(doubt))
        for part in _tables(run["supersteps"], run["machine"], every, console.room):
            console.put(part)
        for note in notes(run):
            console.put(Text(note))
    return 0


def predicting(run: dict[str, Any]) -> None:
    """Let the machine of a run be the one that its ledger predicts exchanges by."""
    alone = run["machine"].get("exchange")
    if alone and not run["virtual"]:
        run["machine"].update({**alone, "exchange": alone})


def doubted(run: dict[str, Any]) -> Iterator[str]:
    """Why what a run's headline says is to be doubted; below it."""
    yield from doubts(run["machine"], run["p"])
    busy = [
        f"{harmless(host)} (load average {load:.3g}, {counted(cores, 'core')})"
        for host, (cores, _, load) in _circumstances(run)
        if cores and is_busy(load, cores)
    ]
    if busy:
        yield f"Busy before the run began: {', '.join(busy)}. What others did is in all that was measured."


def _circumstances(run: dict[str, Any]) -> Iterator[tuple[str, tuple[int, int, float]]]:
    """Of each host of a run cores, threads of a rank and load; 0 where its file does not say."""
    for host in dict.fromkeys(run["hosts"]):
        pid = run["hosts"].index(host)
        cores, threads, load = (run[name][pid] if name in run else 0 for name in CIRCUMSTANCES)
        yield host, (cores, threads, load)


def placed(run: dict[str, Any]) -> Iterator[str]:
    """How the ranks of a run were placed, host by host: cores, threads and load, as far as the file has them."""
    for host, (cores, threads, load) in _circumstances(run):
        ranks = run["hosts"].count(host)
        if not cores:
            continue
        line = (
            f"{harmless(host)}: {counted(ranks, 'rank')} on {counted(cores, 'core')}, "
            f"{counted(threads, 'thread')} a rank, load average {load:.3g} before"
        )
        if ranks > cores:
            line += "; more ranks than cores: they wait for their turns, which the exchange contains"
        elif ranks * threads > cores and ranks > 1:
            line += "; more threads than cores: they wait for their turns"
        yield line


def moved(run: dict[str, Any]) -> Iterator[str]:
    """That the cores of a run were nearer to each other, or farther apart, than when its machine file was measured."""
    latency = run.get("latency")
    if latency and abs(latency["now"] - latency["file"]) > _MOVED * latency["file"]:
        yield (
            f"an exchange of nothing took {1e6 * latency['now']:.2g} us when the run began, and "
            f"{1e6 * latency['file']:.2g} us when its machine was measured: exchanges are predicted by the former"
        )


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
    yield from moved(run)
    if run.get("kinds"):
        yield f"work by kind: {'; '.join(_of_kinds(run))}"
    longest, mean = run.get("after", (0.0, 0.0))
    if longest > _LITTLE * run["supersteps"].total.measured:
        yield f"After the last superstep: computing {longest:.4g} s (mean {mean:.4g} s), which no sum contains."
    within = f"in {counted(len(run['supersteps'].parts), 'superstep')} of the whole, which contain them"
    after = "after the last superstep of the whole, which no record and no sum contains"
    for parts, place in (run["supersteps"].total.parts, within), (run.get("parts_after"), after):
        if parts is not None:
            yield f"parts of the machine: {_of_parts(parts, place, run['machine']['calibrated'])}"
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
    if not run["virtual"] and (off := run["machine"].get("error_median") or 0.0) > DOUBTFUL:
        yield (
            f"These predictions are rough: of the machine file half were more than {100 * off:.3g} % off. On a quiet "
            "machine `pybsp run --calibrate` measures again what it has kept, and `pybsp calibrate` takes longer."
        )
    if saved := run.get("checkpoints"):
        size, seconds = sum(one["bytes"] for one in saved) / 1e6, [one["seconds"] for one in saved]
        yield (
            f"{counted(len(saved), 'checkpoint')} of {size:.3g} MB in all, for which the program waited "
            f"{sum(seconds):.3g} s, {max(seconds):.3g} s at most; no superstep's time has that."
        )
    if run["virtual"]:
        if run.get("network"):
            yield steps_of(run["network"])
        else:
            yield "Times are virtual: what is measured is what the machine's parameters say."


def _of_parts(parts: PartTotals, place: str, calibrated: bool) -> str:
    """What parts of the machine did in that place."""
    by = f", predicted {parts.exchange_predicted:.4g} s" if calibrated else ""
    takes = f", {parts.charged:.4g} s by w/r" if calibrated and parts.charged else ""
    more = f'; charged in them: {parts.work:.4g} flop{takes}, which "{"by w/r" if calibrated else "w"}" has not'
    return (
        f"{counted(parts.supersteps, 'superstep')} of their own {place}: computing {parts.seconds:.4g} s, "
        f"exchange {parts.exchange:.4g} s{by}; h = {parts.h} words, M = {parts.M}{more * bool(parts.work)}"
    )


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
    if not run["virtual"] and machine.get("exchange"):
        figures += " (g, l and the o's of exchanges alone)"
    if not machine["calibrated"] and not run["virtual"]:
        figures = "no machine file"
    by = f"network {run['network']}" if run.get("network") else f"router {run['router']}"
    return (
        f"run {number}: p = {run['p']} {kind} on {', '.join(hosts)}, {run['date']}, {by}; "
        f"{figures}; {', '.join(f'{k} {v}' for k, v in run['versions'].items())}"
    )


def _tables(records: Supersteps, machine: dict[str, Any], every: bool, width: int) -> Iterator[RenderableType]:
    """The table, and what it leaves out to fit into so many columns of text; 0: into any."""
    total, rows = records.total, list(records if every else records.totals())
    numbers = [*(range(len(rows)) if every else (row.supersteps for row in rows)), total.supersteps]
    cells = {
        "superstep" if every else "supersteps": list(map(str, numbers)),
        "label": [*(harmless(in_table(row.label)) for row in rows), TOTAL],
    }
    for name, column in columns(total, machine["calibrated"], bars_of(machine)).items():
        cells[name] = [column(row) for row in (*rows, total)]
    yield from fitted(cells, width, LEAST_TELLING, "pybsp report --wide")
