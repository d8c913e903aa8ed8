"""Tables of what was found, for people; everything in them is in the JSON, and nothing else is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .variants import OURS
from .works import catalogue

WIDTH = 175  # where the output is no terminal
CHANGED = 0.2  # relative: a machine whose bandwidth or latency moves by more is another one
CROWDED = 0.75  # of the bandwidth of one process, in cache: below it, two disturb each other there
BUSY = 0.5  # load for each core, beside which figures say little

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def three(value: float) -> str:
    """To three digits, and without an exponent where it is large."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def seconds(value: float) -> str:
    """A time with its unit."""
    unit, size = _unit(value)
    return f"{three(value / size)} {unit}"


def _unit(value: float) -> tuple[str, float]:
    return next((entry for entry in _UNITS if value >= entry[1]), _UNITS[-1])


def spread(found: Mapping[str, float]) -> str:
    """A time with its quartiles, in one unit."""
    unit, size = _unit(found["median"])
    return f"{three(found['median'] / size)} {unit} ({three(found['low'] / size)} to {three(found['high'] / size)})"


def ratio(found: Mapping[str, float]) -> str:
    """A ratio with its interval."""
    return f"{three(found['median'])} ({three(found['low'])} to {three(found['high'])})"


def rate(variant: Mapping[str, float]) -> str:
    """What a variant of one processor brings across in a second: million messages, or bytes."""
    if "items_per_second" in variant:
        return f"{three(1e-6 * variant['items_per_second'])} M/s"
    return f"{three(1e-9 * variant['bytes_per_second'])} GB/s" if "bytes_per_second" in variant else ""


def verdict(found: Mapping[str, Any]) -> str:
    """Whether a bar is reached."""
    if found["median"] > found["bar"]:
        return "missed"
    return "reached" if found["high"] <= found["bar"] else "reached, its interval not"


def show(console: Console, content: Mapping[str, Any]) -> None:
    """All tables."""
    if not console.is_terminal:
        console.width = WIDTH
    for run in content["runs"]:
        for line in heading(run):
            console.print(line, highlight=False)
        if run.get("guidelines"):
            console.print(guidelines(run))
            for line in violated(run):
                console.print(line, highlight=False)
            continue
        console.print(rows(run))
        if run["over_h"]:
            console.print(over_h(run))
    if content["growth"]:
        console.print(over_p(content["growth"]))
    if not all(run.get("guidelines") for run in content["runs"]) or not content["runs"]:
        console.print(figures(content))


def heading(run: Mapping[str, Any]) -> Iterator[str]:
    """Where a run was made, and in which state the machine was."""
    machine, network = run["machine"], run["network"]
    where = f"p = {run['p']} on {machine['cores']} cores"
    if network:
        where += (
            f", {network['hosts']} emulated hosts, {seconds(network['latency'])}, {1e-6 * network['rate']:g} Mbit/s "
            f"({network['emulator']})"
        )
    chosen_by = "a calibrated machine file" if run["calibrated"] else "a nominal machine: PYBSP_MACHINE names none"
    yield f"{where}; {run['library']}, threads {run['threads']}; collectives choose by {chosen_by}"
    yield (
        f"{machine['processor']}, {machine['system']}; Python {machine['python']}, numpy {machine['numpy']}, mpi4py "
        f"{machine['mpi4py']}, pybsp {machine['pybsp']}; {machine['date']}"
    )
    yield from _states(run["state"], machine["cores"], run["p"])


def _states(states: Mapping[str, Any], cores: int, p: int) -> Iterator[str]:
    begin, end = states["begin"], states["end"]
    for text in begin["copy"]:
        sides = [
            f"{begin['copy'][text][side]:.3g} GB/s {side} ({end['copy'][text][side]:.3g} at the end)"
            for side in begin["copy"][text]
        ]
        yield f"numpy's copy of {text}: {', '.join(sides)}"
    if begin["half_round_trip"] is not None:
        both = [seconds(state["half_round_trip"]) for state in (begin, end)]
        yield f"half a round trip of 8 bytes, raw: {both[0]} ({both[1]} at the end)"
    both = [seconds(state["plain_python"]) for state in (begin, end)]
    yield f"np.broadcast_to(x, (1024,)), plain Python: {both[0]} ({both[1]} at the end)"
    changes = [
        abs(end["copy"][text][side] / begin["copy"][text][side] - 1)
        for text in begin["copy"]
        for side in begin["copy"][text]
    ]
    if begin["half_round_trip"]:
        changes.append(abs(end["half_round_trip"] / begin["half_round_trip"] - 1))
    remarks = [
        f"the machine changed under this run: by {max(changes):.0%}"
        if max(changes) > CHANGED
        else "the machine was the same at the end"
    ]
    small = next(iter(begin["copy"]))
    if 1 < p <= cores:
        share = min(state["copy"][small]["all at once"] / state["copy"][small]["one process"] for state in (begin, end))
        remarks.append(
            f"processes disturb each other in cache ({share:.2g} of one's bandwidth), as where they share a core"
            if share < CROWDED
            else "processes do not disturb each other in cache"
        )
    busy = max(begin["load"], end["load"] - 1) > BUSY * cores
    load = f"load {begin['load']:.1f} at the beginning, {end['load']:.1f} at the end"
    yield f"{'; '.join(remarks)}; {load}{', a busy machine: times say little' if busy else ''}"


def rows(run: Mapping[str, Any]) -> Table:
    """The comparison of one run."""
    table = Table(
        title="time of a repetition, median (quartiles); rate of a processor, and over a copy's; ratio, ours over "
        "theirs, median of the rounds' (95 %)"
    )
    for name in ("what", "form", "time", "rate", "of memory", "ratio", "at most", "rounds"):
        table.add_column(name, no_wrap=name in ("time", "rate", "ratio"))
    for row in run["works"]:
        table.add_section()
        if "skipped" in row:
            table.add_row(row["title"], f"skipped: {row['skipped']}")
            continue
        what, rounds = row["title"], str(row["rounds"])
        ratios = {found["against"]: found for found in row["ratios"]}
        for name, variant in row["forms"].items():
            found = ratios.get(name)
            bar = ""
            if found is not None and "bar" in found:
                bar = f"{found['bar']:g}: {verdict(found)}"
            memory = f"{variant['of_memory']:.2g}" if "of_memory" in variant else ""
            table.add_row(
                what, name, spread(variant), rate(variant), memory, _ratio_cell(found), bar, rounds if what else ""
            )
            what = ""
    return table


def _ratio_cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return ratio(found) if found["of"] == OURS else f"{ratio(found)}, of the above"


def guidelines(run: Mapping[str, Any]) -> Table:
    """Collectives against the same by other means."""
    table = Table(
        title="self-consistent guidelines: time of a call, median (quartiles); ratio, the collective over the same by "
        "other means, median of the rounds' (95 %)"
    )
    for name in ("what", "by", "time", "ratio", "", "rounds"):
        table.add_column(name, no_wrap=name in ("time", "ratio"))
    for row in run["works"]:
        table.add_section()
        if "skipped" in row:
            table.add_row(row["title"], f"skipped: {row['skipped']}")
            continue
        table.add_row(row["title"], "itself", spread(row["forms"][OURS]), "", "", str(row["rounds"]))
        for found in row["ratios"]:
            name = found["against"]
            said = "violated" if found["slower"] else ""
            table.add_row("", name, spread(row["forms"][name]), ratio(found), said, "")
    return table


def violated(run: Mapping[str, Any]) -> Iterator[str]:
    """How many guidelines are violated, and which, the worst first."""
    found = [(row["title"], entry) for row in run["works"] for entry in row.get("ratios", ())]
    worse = sorted((pair for pair in found if pair[1]["slower"]), key=lambda pair: -pair[1]["median"])
    yield f"guidelines: {len(found)}; violated, slower beyond the spread of the rounds: {len(worse)}"
    for title, entry in worse:
        yield f"  {title}, by {entry['against']}: {ratio(entry)}"


def over_h(run: Mapping[str, Any]) -> Table:
    """Cost over h: what a word takes."""
    table = Table(title=f"cost over h, p = {run['p']}: time of a superstep, and of it for each word")
    for name in ("work", "words to others", "pybsp", "a word", "by raw MPI", "a word", "ratio"):
        table.add_column(name)
    for row in run["over_h"]:
        table.add_row(
            row["work"],
            f"{row['h']:,.0f}",
            seconds(row["ours"]),
            seconds(row["ours"] / row["h"]),
            seconds(row["raw"]),
            seconds(row["raw"] / row["h"]),
            f"{row['ratio']:.3g}",
        )
    return table


def over_p(growth: Sequence[Mapping[str, Any]]) -> Table:
    """Cost over p: virtual processors."""
    table = Table(
        title="cost over p: each sends in a superstep; messages of a processor between hosts; virtual processors"
    )
    for name in (
        "sent",
        "p",
        "h",
        "words in all",
        "messages, direct",
        "messages, sparse",
        "time here, for each processor",
    ):
        table.add_column(name)
    pattern = ""
    for row in growth:
        if row["pattern"] != pattern:
            table.add_section()
        shown = row["pattern"] if row["pattern"] != pattern else ""
        pattern = row["pattern"]
        table.add_row(shown, *(f"{row[key]:,}" for key in ("p", "h", "M", "direct", "sparse")), seconds(row["seconds"]))
    return table


def figures(content: Mapping[str, Any]) -> Table:
    """Every figure that is wanted, and what these runs say of it."""
    titles = {(work.name, work.size): work.title for sizes in ("hosts", "all") for work in catalogue(sizes)}
    table = Table(title="figures to reach: times as long as the other")
    for name in ("what", "against", "where", "at most", "found", ""):
        table.add_column(name, overflow="fold")
    for figure in content["figures"]:
        cells = [titles[figure["work"], figure["size"]], figure["against"], figure["where"], f"{figure['bar']:g}"]
        if not figure["found"]:
            table.add_row(*cells, "not in this run", figure["command"])
        for found in figure["found"]:
            table.add_row(*cells, ratio(found), verdict({**found, "bar": figure["bar"]}))
    return table
