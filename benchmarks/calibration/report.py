"""A calibration as tables for people: every figure with its unit and 95 % interval, then flags in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pybsp.ground.console import TableConsole

from . import words
from .estimates import Estimate, Flag
from .results import BSPFit, Calibration, Classes, EBSPFit, Errors, ExchangeFit, HeldOut, LogPFit, Noise

PREFIXES = {
    "s": ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p")),
    "flop/s": ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    "words/s": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}
PLACES = {
    "": "",
    "intra": "within nodes",
    "inter": "between nodes, one processor on each",
    "inter-all": "between nodes, all processors",
}
LAYERS = {"raw": "mpi4py", "logp": "our LogP layer"}
UNKNOWN = "-"


def console() -> Console:
    """Where reports are printed."""
    return TableConsole(140, heeds=False)


def show(calibration: Calibration, where: Console) -> None:
    """Print all tables and flags."""
    put(tables(calibration), where)


def put(parts: Iterable[RenderableType], where: Console) -> None:
    """Print tables, and lines of text of any length."""
    for part in parts:
        where.print(part, highlight=False, soft_wrap=isinstance(part, Text))


def tables(calibration: Calibration) -> list[RenderableType]:
    """What is printed of a calibration, part by part: tables, and lines of text."""
    parts: list[RenderableType] = [Text(heading(calibration.about))]
    if calibration.bsp is not None:
        parts += _bsp(calibration.bsp)
    if calibration.exchange is not None:
        parts += _exchange(calibration.exchange)
    if calibration.ebsp is not None:
        parts += _ebsp(calibration.ebsp)
    if calibration.classes is not None:
        parts += _classes(calibration.classes)
    for fit in calibration.logp:
        parts += _logp(fit)
    if calibration.held_out is not None:
        parts.append(_held_out(calibration.held_out))
        parts.append(Text("Held-out supersteps are of patterns and sizes that nothing was fitted from."))
    return [*parts, Text(_noise(calibration.noise)), *_flags(calibration)]


def of_machines(figures: Mapping[str, tuple[str, Estimate]]) -> list[RenderableType]:
    """What is printed of a machine file that has machines alone, which somebody has saved."""
    table = new_table("Parameters", ["parameter"], ["value"], ["unit"])
    for name, (unit, estimate) in figures.items():
        value, _, best = figure(estimate, unit)
        add_row(table, name, value, best)
    return [table, Text("They are as they were saved: no calibration is in this file, and no intervals.")]


def heading(about: dict[str, Any]) -> str:
    """Which machine was calibrated, when and how, on one line."""
    counts = Counter(about["hosts"])
    hosts = [f"{name} ({count})" if count > 1 else name for name, count in counts.items()]
    more = f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
    kind = "virtual processors" if about.get("virtual") else "processors"
    parts = [f"p = {about['p']} {kind} on {', '.join(hosts[:8])}{more}"]
    parts += [str(about["date"])] if about.get("date") else []
    parts += [f"{name} {about[name]}" for name in ("level", "launches", "seed", "method") if name in about]
    parts += [f"{name} {version}" for name, version in about.get("versions", {}).items()]
    return ", ".join(parts)


def unit_of(value: float, unit: str) -> tuple[float, str]:
    """A factor and the unit's name that a value is best read in: (1e-6, "us/word") of 3.2e-6 "s/word".

    Args:
        value: in SI units.
        unit: begins with "s", "flop/s" or "words/s"; any other is left alone.
    """
    base = next((name for name in PREFIXES if unit == name or unit.startswith(f"{name}/")), None)
    if base is None:
        return 1.0, unit
    sizes = PREFIXES[base]
    zero = next(pair for pair in sizes if pair[0] == 1.0)
    if not value or not math.isfinite(value):
        return zero[0], zero[1] + unit
    factor, prefix = next((pair for pair in sizes if abs(value) >= pair[0]), sizes[-1])
    return factor, prefix + unit


def figure(estimate: Estimate | None, unit: str) -> tuple[str, str, str]:
    """An estimate as its value, its interval and the unit of both; "-" where one is not known."""
    if estimate is None or math.isnan(estimate.value):
        return UNKNOWN, UNKNOWN, unit
    factor, name = unit_of(estimate.value or estimate.high, unit)
    value, low, high = (f"{x / factor:.4g}" for x in estimate)
    return value, f"{low} to {high}" if math.isfinite(estimate.high - estimate.low) else UNKNOWN, name


def _cell(estimate: Estimate | None) -> str:
    """A time and its interval in one cell of a table."""
    value, interval, unit = figure(estimate, "s")
    if value == UNKNOWN:
        return UNKNOWN
    return f"{value} {unit} ({interval})"


def new_table(title: str, left: Sequence[str], right: Sequence[str] = (), last: Sequence[str] = ()) -> Table:
    """A table with columns adjusted to the left, to the right, and to the left again."""
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    for name in last:
        table.add_column(name)
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of plain text, which goes on in another line where it has no room: a figure that is cut is another."""
    table.add_row(*(Text(cell, overflow="fold") for cell in cells))  # text: a bracket in it is no markup


def _figures(title: str, rows: Iterable[tuple[str, Estimate | None, str, str]]) -> Table:
    """A table of name, estimate, unit and meaning."""
    table = new_table(title, ["parameter"], ["value", "95 % interval"], ["unit", "what it is"])
    for name, estimate, unit, meaning in rows:
        add_row(table, name, *figure(estimate, unit), meaning)
    return table


def _bsp(fit: BSPFit) -> list[RenderableType]:
    found = _figures(
        "BSP: T = w/r + l + o_msg*messages + g*h" + (" + o_item*items" if fit.o_item is not None else ""),
        [
            ("l", fit.l, "s", "a superstep that sends nothing"),
            ("o_msg", fit.o_msg, "s/message", "a message of the busiest processor, beside its words"),
            ("g", fit.g, "s/word", "a word (8 bytes) of large messages, all patterns"),
            *([("o_item", fit.o_item, "s/item", "an item of a queue, beside its words")] if fit.o_item else []),
            ("r", fit.r, "flop/s", "the slowest processor while all compute"),
        ],
    )
    half = ""
    if fit.n_half is None and fit.segments:
        half = "No message that was measured is so large that a word of it costs at most twice g (n_1/2)."
    elif fit.n_half is not None:
        size = f"{fit.n_half} word{'s' * (fit.n_half != 1)}"
        half = f"A word of a message costs at most twice g from {size} on (n_1/2)."
    parts: list[RenderableType] = [found, *([Text(half)] if half else [])]
    others = [
        f"{name} = {with_unit(value, 's' if name == 'l' else 's/message' if name == 'o_msg' else 's/word')} by {method}"
        for method, values in (("Theil-Sen", fit.theil_sen), ("differences", fit.differences))
        for name, value in values.items()
    ]
    if others:
        parts.append(Text(f"For comparison: {', '.join(others)}."))
    if fit.residuals.points:
        parts.append(Text(f"The points that this was fitted from are off by {_errors(fit.residuals)}."))
    if len(fit.segments) > 1:
        parts.append(_segments(fit))
    if fit.patterns:
        table = new_table("g of each pattern alone", ["pattern"], ["g", "95 % interval"], ["unit", ""])
        for name, estimate in fit.patterns.items():
            add_row(table, name, *figure(estimate, "s/word"), "worst" if name == fit.worst else "")
        parts.append(table)
    if fit.rates:
        right = ["working set", "rate", "95 % interval"]
        table = new_table("r: all processors computing at once", ["kernel"], right, ["unit", "slowest processor"])
        for rate in fit.rates:
            slowest = f"{rate.slowest}; the fastest is {rate.spread:.3g} times as fast"
            add_row(table, rate.kernel, words.size(rate.size), *figure(rate.rate, "flop/s"), slowest)
        parts.append(table)
    return parts


def _exchange(fit: ExchangeFit) -> list[RenderableType]:
    """What ledgers predict by."""
    if not fit.o_way:
        return []
    of = fit.fit
    found = _figures(
        "Exchanges alone, without what a program does to send and to read: what ledgers predict by",
        [
            ("l", of.l, "s", "one that sends nothing"),
            ("o_msg", of.o_msg, "s/message", "a small message, beside its words"),
            ("g", of.g, "s/word", "a word of large messages"),
            *([("o_item", of.o_item, "s/item", "an item of a queue, beside its words")] if of.o_item else []),
        ],
    )
    table = new_table(
        "Exchanges alone: seconds by the way of data",
        ["way"],
        ["o_way", "g_way: of a word", "at first", "after long computing"],
    )
    for name in dict.fromkeys([*fit.late, *fit.o_way]):
        columns = fit.o_way, fit.g_way, fit.first, fit.late
        add_row(table, name, *(_cell(of[name]) if name in of else "" for of in columns))
    parts: list[RenderableType] = [
        found,
        *([_segments(of, "Exchanges alone, by the size of a message")] if len(of.segments) > 1 else []),
        table,
    ]
    if fit.errors is not None:
        without = "".join(f"; without {name} by {_errors(errors)}" for name, errors in fit.without.items())
        parts.append(Text(f"Predictions of exchanges that were held out are off by {_errors(fit.errors)}{without}."))
    return parts


def _segments(fit: BSPFit, of: str = "By the size of a message, h/messages; what costs use") -> Table:
    table = new_table(of, [], ["from words", "l", "o_msg", "g"])
    for row in fit.segments:
        add_row(table, str(row.words), *map(_cell, (row.l, row.o_msg, row.g)))
    return table


def _ebsp(fit: EBSPFit) -> list[RenderableType]:
    verdict = "kept: pybsp.EBSPMachine.load reads it" if fit.kept else "not kept: programs predict by BSP"
    parts: list[RenderableType] = []
    if fit.g1 is None:
        condition = f"condition number of the scaled design: {words.number(fit.condition)}"
        parts.append(Text(f"E-BSP: T = g1*M/p + g2*h + o_msg*messages + s could not be fitted ({condition})."))
    else:
        rows = [
            ("g1", fit.g1, "s/word", "a word of M/p, the mean of what a processor sends"),
            ("g2", fit.g2, "s/word", "a word of h, the most that one processor sends or receives"),
            ("o_msg", fit.o_msg, "s/message", "a message of the busiest processor, beside its words"),
            ("s", fit.s, "s", "a superstep that sends nothing"),
        ]
        parts.append(_figures(f"E-BSP: T = g1*M/p + g2*h + o_msg*messages + s ({verdict})", rows))
    if fit.errors:
        names = {"bsp": "BSP", "ebsp": "E-BSP", "bsp unbalanced": "BSP", "ebsp unbalanced": "E-BSP"}
        table = _error_table("E-BSP and BSP on the same supersteps", "model", "supersteps")
        for name, errors in fit.errors.items():
            add_row(
                table,
                names.get(name, name),
                "unbalanced" if "unbalanced" in name else "held out",
                *_error_cells(errors),
            )
        parts.append(table)
    return parts


def _classes(found: Classes) -> list[RenderableType]:
    table = new_table("Several processors a node: supersteps", ["where"], ["l", "o_msg", "g of a word"])
    for fit in found.fits.values():
        add_row(table, PLACES[fit.where], *map(_cell, (fit.l, fit.o_msg, fit.g)))
    parts: list[RenderableType] = [table]
    if found.injection is not None:
        value, interval, unit = figure(found.injection, "words/s")
        parts.append(
            Text(f"A node sends or receives at most {value} {unit} ({interval}), all its processors together.")
        )
    if found.errors:
        names = {
            "plain": "one g for all words",
            "max": "l + max(g_intra*h_intra, g_inter*h_inter, busiest node's words / its rate)",
            "sum": "l + the sum of the three",
        }
        table = _error_table("Models of several processors a node, on held-out supersteps", "model")
        for name, errors in found.errors.items():
            add_row(table, names.get(name, name), *_error_cells(errors))
        parts.append(table)
    return parts


def logp_title(fit: LogPFit) -> str:
    """Whose messages, and between which processors."""
    return f"messages of {LAYERS[fit.layer]}" + (f", {PLACES[fit.where]}" if fit.where else "")


def _logp(fit: LogPFit) -> list[RenderableType]:
    table = _figures(
        f"LogP: {logp_title(fit)}",
        [
            ("L", fit.L, "s", "latency, round trip/2 - o_s - o_r; between the two below"),
            ("L, least", fit.L_low, "s", "if overheads do not overlap with the flight"),
            ("L, most", fit.L_high, "s", "half a round trip"),
            ("o_s", fit.o_s, "s", "overhead of sending the smallest message"),
            ("o_r", fit.o_r, "s", "overhead of receiving it"),
            ("o", fit.o, "s", "their mean"),
            ("G", fit.G, "s", "gap between messages, the smallest"),
            ("g", fit.g, "s", "the network's own part of G"),
            ("G_word", fit.G_word, "s/word", "each further word (8 bytes) of a long message"),
        ],
    )
    limit = "every size measured was" if fit.eager_limit is None else f"up to {words.size(fit.eager_limit)}"
    knee = "no burst that was measured made a sender wait"
    if fit.capacity is not None:
        knee = f"a burst of more than {fit.capacity} senders makes them wait"
    expected = "" if fit.expected is None else f" (ceil(L/G) = {fit.expected})"
    jumps = f"; the round trip jumps at {', '.join(map(words.size, fit.jumps))}" if fit.jumps else ""
    parts: list[RenderableType] = [table, Text(f"Sent eagerly: {limit}{jumps}. Capacity: {knee}{expected}.")]
    if fit.sizes:
        signature = new_table(f"By size: {logp_title(fit)}", [], ["size", "round trip", "o_s", "o_r", "gap"])
        for row in fit.sizes:
            add_row(signature, words.size(row.size), *map(_cell, (row.round_trip, row.o_s, row.o_r, row.gap)))
        parts.append(signature)
    return parts


def _held_out(found: HeldOut) -> Table:
    title = "How wrong the predictions are: held-out supersteps"
    table = _error_table(title, "pattern")
    for name, errors in found.patterns.items():
        add_row(table, name, *_error_cells(errors))
    table.add_section()
    add_row(table, "all", *_error_cells(found.all))
    return table


def _error_table(title: str, *left: str) -> Table:
    return new_table(title, left, ["points", "median error", "p95", "bias (+: too long)"])


def _error_cells(errors: Errors) -> tuple[str, str, str, str]:
    if not errors.points:  # their errors are no 0 %
        return "0", "-", "-", "-"
    return str(errors.points), f"{errors.median:.1%}", f"{errors.p95:.1%}", f"{errors.bias:+.1%}"


def _errors(errors: Errors) -> str:
    return f"{errors.median:.1%} (median), {errors.p95:.1%} (95th percentile), {errors.points} points"


def _noise(noise: Noise) -> str:
    drift = "" if noise.drift is None else f"at the end it took {noise.drift:.3g} times as long as at the start; "
    return (
        f"Noise: mean/median of the samples {noise.mean_over_median:.3g}; {drift}successive batches correlate by "
        f"{noise.correlation:.2f}; {noise.unconverged} of {noise.points} points did not converge."
    )


def _flags(calibration: Calibration) -> list[RenderableType]:
    """All flags in words, part by part."""
    groups: list[tuple[str, tuple[Flag, ...]]] = [("", calibration.flags)]
    if calibration.bsp is not None:
        groups.append(("BSP", calibration.bsp.flags))
    if calibration.ebsp is not None:
        groups.append(("E-BSP", calibration.ebsp.flags))
    if calibration.classes is not None:
        classes = calibration.classes
        of_fits = (flag for fit in classes.fits.values() for flag in fit.flags)
        groups.append(("Several processors a node", (*classes.flags, *of_fits)))
    groups += [(f"LogP, {logp_title(fit)}", fit.flags) for fit in calibration.logp]
    if calibration.held_out is not None:
        groups.append(("Predictions", calibration.held_out.flags))
    lines: list[RenderableType] = []
    for name, flags in groups:
        lines += [Text(f"{name}:")] if name and flags else []
        lines += [Text(f"- {flag.text}  [{flag.code}]") for flag in dict.fromkeys(flags)]
    if not lines:
        return [Text("No flags: nothing was found that speaks against these figures.")]
    return [Text("What is to be known about these figures:", style="bold"), *lines]


def with_unit(value: float, unit: str) -> str:
    """A figure in the unit that it is best read in."""
    factor, name = unit_of(value, unit)
    return f"{value / factor:.4g} {name}"
