"""Two calibrations side by side: what differs by more than their intervals say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from . import machine_file, report
from .estimates import Estimate
from .results import Calibration, LogPFit

SIZES = (1, 32, 1024, 1 << 17)  # words of a message, in the supersteps that are predicted by both


class Row(NamedTuple):
    """One figure of both; None where one has not got it."""

    name: str
    unit: str
    a: Estimate | None
    b: Estimate | None

    @property
    def ratio(self) -> float | None:
        """b over a; None where that says nothing."""
        if self.a is None or self.b is None or not self.a.value or not self.b.value / self.a.value > 0:
            return None
        return self.b.value / self.a.value

    @property
    def verdict(self) -> str:
        """Whether the two are different: where their 95 % intervals have nothing in common."""
        if self.a is None and self.b is None:
            return ""
        if self.a is None or self.b is None:
            return "only in a" if self.b is None else "only in b"
        if not all(map(math.isfinite, (*self.a, *self.b))):
            return "not known"
        disjoint = self.a.low > self.b.high or self.b.low > self.a.high
        return "differs" if disjoint else "within intervals"


def tables(a: Calibration, b: Calibration, name_a: str = "a", name_b: str = "b") -> list[RenderableType]:
    """What is printed: what the two are of, all figures, and supersteps as both predict them.

    Args:
        a, b: the calibrations.
        name_a, name_b: what to call them.
    """
    parts: list[RenderableType] = [Text(f"a: {name_a}\nb: {name_b}"), _about(a.about, b.about)]
    table = report.new_table("Parameters", ["parameter"], ["a", "95 % interval", "b", "95 % interval"], ["unit"])
    table.add_column("b/a", justify="right")
    table.add_column("")
    for row in rows(a, b):
        (one, one_interval), (other, other_interval), unit = _together(row)
        ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
        report.add_row(table, row.name, one, one_interval, other, other_interval, unit, ratio, row.verdict)
    parts.append(table)
    predicted = _predicted(a, b)
    if predicted is not None:
        parts.append(predicted)
    parts.append(_errors(a, b))
    parts += _flags("a", a, b) + _flags("b", b, a)
    return parts


def of_machines(a: str, b: str) -> list[RenderableType]:
    """What is printed of two machine files of which one has no calibration: the figures that both have."""
    one, other = machine_file.figures(a), machine_file.figures(b)
    table = report.new_table("Parameters", ["parameter"], ["a", "b"], ["unit"])
    table.add_column("b/a", justify="right")
    for name in (name for name in one if name in other):
        row = Row(name, one[name][0], one[name][1], other[name][1])
        (first, _), (second, _), unit = _together(row)
        report.add_row(table, name, first, second, unit, "-" if row.ratio is None else f"{row.ratio:.3g}")
    note = Text("These are the ones that both have; not both have a calibration, and intervals.")
    return [Text(f"a: {a}\nb: {b}"), table, note]


def _flags(name: str, one: Calibration, other: Calibration) -> list[RenderableType]:
    """Flags that only the first has."""
    known = {(flag.code, flag.about) for flag in other.all_flags()}
    only = [flag for flag in dict.fromkeys(one.all_flags()) if (flag.code, flag.about) not in known]
    title = [Text(f"Flags of {name} alone:", style="bold")] if only else []
    return [*title, *(Text(f"- {flag.text}") for flag in only)]


def rows(a: Calibration, b: Calibration) -> list[Row]:
    """All figures that at least one of them has."""
    one, other = dict(_figures(a)), dict(_figures(b))
    names = list(dict.fromkeys([*one, *other]))
    return [Row(name, unit, one.get((name, unit)), other.get((name, unit))) for name, unit in names]


def _figures(found: Calibration) -> Iterator[tuple[tuple[str, str], Estimate]]:
    named: list[tuple[str, str, Estimate | None]] = []
    if found.bsp is not None:
        fit = found.bsp
        named += [("l", "s", fit.l), ("o_msg", "s/message", fit.o_msg), ("g", "s/word", fit.g), ("r", "flop/s", fit.r)]
        named += [("o_item", "s/item", fit.o_item)]
        named += [(f"g, {pattern}", "s/word", value) for pattern, value in fit.patterns.items()]
        named += [(f"r, {rate.kernel} of {rate.size} bytes", "flop/s", rate.rate) for rate in fit.rates]
    if found.ebsp is not None:
        named += [("g1 (E-BSP)", "s/word", found.ebsp.g1), ("g2 (E-BSP)", "s/word", found.ebsp.g2)]
        named += [("s (E-BSP)", "s", found.ebsp.s), ("o_msg (E-BSP)", "s/message", found.ebsp.o_msg)]
    if found.classes is not None:
        for where, part in found.classes.fits.items():
            named += [(f"l, {where}", "s", part.l), (f"o_msg, {where}", "s/message", part.o_msg)]
            named.append((f"g, {where}", "s/word", part.g))
        named.append(("injection of a node", "words/s", found.classes.injection))
    for signature in found.logp:
        named += [(f"{name}, {_of(signature)}", unit, value) for name, unit, value in _logp(signature)]
    yield from (((name, unit), value) for name, unit, value in named if value is not None)


def _logp(fit: LogPFit) -> list[tuple[str, str, Estimate | None]]:
    return [
        ("L", "s", fit.L),
        ("o_s", "s", fit.o_s),
        ("o_r", "s", fit.o_r),
        ("G", "s", fit.G),
        ("g of LogP", "s", fit.g),
        ("G_word", "s/word", fit.G_word),
    ]


def _of(fit: LogPFit) -> str:
    return f"{report.LAYERS[fit.layer]}{f' {fit.where}' if fit.where else ''}"


def _together(row: Row) -> tuple[tuple[str, str], tuple[str, str], str]:
    """Value and interval of both in one unit."""
    largest = max((estimate.value for estimate in (row.a, row.b) if estimate is not None), key=abs)
    factor, unit = report.unit_of(largest, row.unit)
    cells = []
    for estimate in (row.a, row.b):
        if estimate is None or math.isnan(estimate.value):
            cells.append((report.UNKNOWN, report.UNKNOWN))
        else:
            value, low, high = (f"{x / factor:.4g}" for x in estimate)
            cells.append((value, f"{low} to {high}"))
    return cells[0], cells[1], unit


def _about(a: dict[str, Any], b: dict[str, Any]) -> Table:
    """What is different in how, where and of what they were measured; p, hosts and date always."""
    table = report.new_table("What they are of", ["", "a", "b"])
    flat_a, flat_b = _flat(a), _flat(b)
    for name in dict.fromkeys([*flat_a, *flat_b]):
        one, other = flat_a.get(name, report.UNKNOWN), flat_b.get(name, report.UNKNOWN)
        if name in ("p", "hosts", "date") or one != other:
            report.add_row(table, name, one, other)
    return table


def _flat(about: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in about.items():
        if isinstance(value, dict):
            found.update({f"{name}: {inner}": _short(part) for inner, part in value.items()})
        else:
            found[name] = _short(value)
    return found


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _predicted(a: Calibration, b: Calibration) -> Table | None:
    """A total exchange of messages of some sizes: both machines' predictions, segments and all."""
    if a.bsp is None or b.bsp is None or a.about["p"] != b.about["p"] or a.about["p"] < 2:
        return None
    if any(not math.isfinite(fit.g.value) for fit in (a.bsp, b.bsp)):
        return None
    others = a.about["p"] - 1
    machines = [machine_file.bsp_machine(fit, one.about) for fit, one in ((a.bsp, a), (b.bsp, b))]
    title = "A total exchange as both predict it"
    table = report.new_table(title, ["words of a message"], ["a", "b", "b/a"])
    for size in (0, *SIZES):
        one, other = (machine.elapsed(0.0, others * size, others if size else 0) for machine in machines)
        ratio = f"{other / one:.3g}" if one > 0 else "-"
        report.add_row(table, str(size), report.with_unit(one, "s"), report.with_unit(other, "s"), ratio)
    return table


def _errors(a: Calibration, b: Calibration) -> RenderableType:
    found = [one.held_out for one in (a, b)]
    if all(part is None for part in found):
        return Text("Neither has been held to supersteps that nothing was fitted from.")
    table = report.new_table("Errors of predictions of held-out supersteps", ["pattern"])
    for name in ("a: median", "a: p95", "b: median", "b: p95"):
        table.add_column(name, justify="right")
    patterns = dict.fromkeys(name for part in found if part is not None for name in part.patterns)
    for pattern in (*patterns, "all"):
        cells = []
        for part in found:
            errors = None if part is None else part.all if pattern == "all" else part.patterns.get(pattern)
            cells += ["-", "-"] if errors is None else [f"{errors.median:.1%}", f"{errors.p95:.1%}"]
        report.add_row(table, pattern, *cells)
    return table
