"""Tables of what was found, for people; everything in them is in the JSON, and nothing else is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from rich.table import Table

from pybsp.benchmarks.studies.frame import Study, heads, table

from .variants import OURS
from .works import catalogue

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


def show(study: Study, content: Mapping[str, Any]) -> None:
    """All tables."""
    for run in content["runs"]:
        if run.get("guidelines"):
            study.show(*heading(run), guidelines(run), *violated(run))
            continue
        study.show(*heading(run), rows(run), *([over_h(run)] if run["over_h"] else []))
    if content["growth"]:
        study.show(over_p(content["growth"]))
    if not content["runs"] or not all(run.get("guidelines") for run in content["runs"]):
        study.show(figures(content))


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
    core = "with the compiled core" if machine["compiled"] else "without the compiled core"
    yield f"{where}; {core}; {run['library']}, threads {run['threads']}; collectives choose by {chosen_by}"
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
    cells: list[tuple[object, ...]] = []
    for row in run["works"]:
        if "skipped" in row:
            cells.append((row["title"], f"skipped: {row['skipped']}", *[None] * 6))
            continue
        ratios = {found["against"]: found for found in row["ratios"]}
        what, rounds = row["title"], row["rounds"]
        for name, variant in row["forms"].items():
            found = ratios.get(name)
            bar = f"{found['bar']:g}: {verdict(found)}" if found is not None and "bar" in found else None
            times = (spread(variant), rate(variant), variant.get("of_memory"))
            cells.append((what, name, *times, _ratio_cell(found), bar, rounds))
            what = rounds = None  # once for all forms
    return table(
        "time of a repetition, median (quartiles); rate of a processor, and over a copy's; ratio, ours over theirs, "
        "median of the rounds' (95 %)",
        "what | form | time | rate | of memory [.2g] | ratio | at most | rounds",
        cells,
    )


def _ratio_cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return ratio(found) if found["of"] == OURS else f"{ratio(found)}, of the above"


def guidelines(run: Mapping[str, Any]) -> Table:
    """Collectives against the same by other means."""
    lines: list[tuple[Any, ...]] = []
    for row in run["works"]:
        if "skipped" in row:
            lines.append((row["title"], f"skipped: {row['skipped']}", "", "", "", ""))
            continue
        lines.append((row["title"], "itself", spread(row["forms"][OURS]), "", "", row["rounds"]))
        for found in row["ratios"]:
            name = found["against"]
            verdict = "violated" if found["slower"] else ""
            lines.append(("", name, spread(row["forms"][name]), ratio(found), verdict, ""))
    return table(
        "self-consistent guidelines: time of a call, median (quartiles); ratio, the collective over the same by other "
        "means, median of the rounds' (95 %)",
        "what | by | time | ratio | verdict | rounds",
        lines,
    )


def violated(run: Mapping[str, Any]) -> Iterator[str]:
    """How many guidelines are violated, and which, the worst first."""
    found = [(row["title"], entry) for row in run["works"] for entry in row.get("ratios", ())]
    worse = sorted((pair for pair in found if pair[1]["slower"]), key=lambda pair: -pair[1]["median"])
    yield f"guidelines: {len(found)}; violated, slower beyond the spread of the rounds: {len(worse)}"
    for title, entry in worse:
        yield f"  {title}, by {entry['against']}: {ratio(entry)}"


def over_h(run: Mapping[str, Any]) -> Table:
    """Cost over h: what a word takes."""

    def each(seconds_of: float, h: float) -> tuple[str, str]:
        return seconds(seconds_of), seconds(seconds_of / h)

    return table(
        f"cost over h, p = {run['p']}: time of a superstep, and of it for each word",
        "work | words to others [,.0f] | pybsp | a word | by raw MPI | a word | ratio [.3g]",
        (
            (row["work"], row["h"], *each(row["ours"], row["h"]), *each(row["raw"], row["h"]), row["ratio"])
            for row in run["over_h"]
        ),
    )


def over_p(growth: Sequence[Mapping[str, Any]]) -> Table:
    """Cost over p: virtual processors."""
    return table(
        "cost over p: each sends in a superstep; messages of a processor between hosts; virtual processors",
        f"sent | {heads(('p', 'h', 'words in all', 'messages, direct', 'messages, sparse'), ',')} | "
        "time here, for each processor",
        (
            (*(row[name] for name in ("pattern", "p", "h", "M", "direct", "sparse")), seconds(row["seconds"]))
            for row in growth
        ),
    )


def figures(content: Mapping[str, Any]) -> Table:
    """Every figure that is wanted, and what these runs say: with the compiled core, and beside it without."""
    titles = {(work.name, work.size): work.title for sizes in ("hosts", "all") for work in catalogue(sizes)}
    rows = []
    for of in content["figures"]:
        wanted = (titles[of["work"], of["size"]], of["against"], of["where"], of["bar"])
        core = [(ratio(one), verdict({**one, "bar": of["bar"]})) for one in of["found"] if one["compiled"]]
        without = [ratio(one) for one in of["found"] if not one["compiled"]]
        if not core:
            core = [("not in this run", of["command"])]
        pairs = zip_longest(core, without, fillvalue=None)
        rows += [(*wanted, *(one or ("", "")), other or "") for one, other in pairs]
    head = "what | against | where | at most [g] | found | verdict, or what measures it | without the core"
    return table("figures to reach: times as long as the other", head, rows)
