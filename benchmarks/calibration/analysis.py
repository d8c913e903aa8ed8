"""From a raw file to a calibration: the same samples give the same bits, on any machine and at any time."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from pybsp.errors import UsageError
from pybsp.machines.bsp import BSPMachine

from . import machine_file
from .estimates import Estimate, Flag
from .fits import methods
from .fits.bsp import fit_bsp, fit_rates
from .fits.classes import fit_classes
from .fits.ebsp import fit_ebsp
from .fits.held_out import held_out
from .fits.intervals import batch_medians, median_interval
from .fits.logp import fit_logp
from .fits.noise import noise
from .fits.states import of_one_state
from .fits.ways import fit_first, fit_late, fit_ways, predict, with_first, with_late, with_ways
from .flags import flag
from .results import After, BSPFit, Calibration, Errors, ExchangeFit, LogPFit, Segment
from .samples import Raw, Sample, grouped

HELD_OUT = ("held-out", "held-out-way", "held-out-after")
METHODS = ("pybsp", *methods.METHODS)
UNKNOWN = Estimate(math.nan, math.nan, math.nan)
FIGURES = {
    "rate": "r",
    "bsp": "g, l and o_msg",
    "unbalanced": "g1, g2 and s",
    "held-out": "the errors of predictions",
    "class": "the classes within and between nodes",
    "queue": "o_item",
    **dict.fromkeys(("way", "held-out-way"), "o_way and g_way"),
    **dict.fromkeys(("after", "held-out-after"), "exchanges after computing"),
    "logp": "L, o and G",
}


def analyse(raw: Raw, method: str = "pybsp") -> Calibration:
    """Everything that samples say, but nothing that they do not: parts that were not measured are None.

    Args:
        raw: the samples.
        method: how g, l and o_msg are fitted: "pybsp", or as other tools do: "bspbench", "bsponmpi".

    Raises:
        UsageError: no such method, or samples that it cannot do with.
    """
    if method not in METHODS:
        raise UsageError(f"analyse: argument method: expected one of {', '.join(METHODS)}, got {method!r}")
    about, seed = {**raw.about, "method": method}, int(raw.about["seed"])
    samples, exchanges, states = of_one_state(raw.samples, raw.exchanges)
    by = grouped(samples, attrgetter("point.experiment"))
    supersteps, rates, unseen = by.get("bsp", []), by.get("rate", []), by.get("held-out", [])
    fit = fit_bsp(supersteps, rates, seed, by.get("queue", [])) or _without_messages(
        supersteps, rates, about["p"], seed
    )
    if fit is not None and method != "pybsp":
        fit = _by_other(fit, method, supersteps + rates)
    usable = fit if fit is not None and math.isfinite(fit.g.value) else None
    validation = ebsp = classes = None
    if usable is not None:
        machine = machine_file.bsp_machine(usable, about)
        validation = held_out(unseen, lambda point: machine.elapsed(0.0, point.h, point.busiest, point.M, point.items))
        if by.get("unbalanced"):
            ebsp = fit_ebsp(supersteps + by["unbalanced"], usable, unseen, about["p"], seed)
        if by.get("class"):
            empty = [sample for sample in supersteps if not sample.point.h]
            classes = fit_classes(by["class"] + empty, unseen, about["nodes"], usable, seed)
    signatures: list[LogPFit] = []
    for layer, where in sorted({(s.point.layer, s.point.where) for s in by.get("logp", [])}):
        found = fit_logp(by["logp"], layer, where, seed)
        if found is not None:
            signatures.append(found)
    quiet, disturbed = noise(raw)
    flags = (
        *_circumstances(raw),
        *(_unused(usable) if usable is not None else ()),
        *_logp_used(signatures),
        *disturbed,
    )
    if states is not None:
        usual, other = states.seconds
        flags = (*flags, flag("two-states", usual=usual, other=other, share=states.share))
    exchange = _exchange(exchanges, raw.about, seed) if method == "pybsp" else None
    return Calibration(about, fit, ebsp, classes, tuple(signatures), validation, quiet, flags, exchange)


def _exchange(exchanges: Sequence[Sample], about: dict[str, Any], seed: int) -> ExchangeFit | None:
    """The same from the exchanges alone; None where they were not noted, or too few."""
    anywhere = (sample._replace(point=sample.point._replace(where="")) for sample in exchanges)
    by = grouped(anywhere, attrgetter("point.experiment"))
    fit = fit_bsp(by.get("bsp", []), (), seed, by.get("queue", []))
    if fit is None or not math.isfinite(fit.l.value):
        return None
    plain = machine_file.bsp_machine(fit, about)
    ways = fit_ways(by.get("way", []) + by.get("queue", []), plain, seed)
    soon = with_ways(plain, ways)
    first = fit_first(by.get("first", []), soon, seed)
    soon = with_first(soon, first)
    late, shares = fit_late(by.get("after", []), soon, seed)
    machine = with_late(soon, late, shares)
    unseen = [sample for name in HELD_OUT for sample in by.get(name, [])]
    without = {"o_way": with_late(with_first(plain, first), late, shares), "late": soon}
    return ExchangeFit(
        dataclasses.replace(fit, o_item=ways.o_item or fit.o_item),
        _off(unseen, machine),
        ways.o_way,
        ways.g_way,
        late,
        tuple(After(seconds, *of_delay) for seconds, of_delay in shares.items()),
        {name: errors for name, other in without.items() if (errors := _off(unseen, other)) is not None},
        first,
    )


def _off(unseen: Sequence[Sample], machine: BSPMachine) -> Errors | None:
    """Errors of a machine's predictions of exchanges that were held out."""
    validation = held_out(unseen, lambda point: predict(machine, point))
    return None if validation is None else validation.all


def _without_messages(supersteps: Sequence[Sample], rates: Sequence[Sample], p: int, seed: int) -> BSPFit | None:
    """What is known where too few messages were timed: with p = 1 nobody is there to send to; else g is not known."""
    empty = [sample for sample in supersteps if not sample.point.h]
    if not empty and not rates:
        return None
    latency = median_interval(list(batch_medians(empty).values())) if empty else UNKNOWN
    nothing = Estimate(0.0, 0.0, 0.0) if p == 1 and empty else UNKNOWN
    table, r, flags = fit_rates(rates, seed)
    if len(empty) < len(supersteps):
        flags.append(flag("unidentifiable g", "g"))
    return BSPFit(
        l=latency,
        o_msg=nothing,
        g=nothing,
        segments=(),
        patterns={},
        worst="",
        n_half=None,
        r=r,
        rates=table,
        theil_sen={},
        differences={},
        residuals=Errors(0.0, 0.0, 0.0, 0),
        flags=tuple(flags),
    )


def _by_other(fit: BSPFit, method: str, samples: Sequence[Sample]) -> BSPFit:
    """The fit with l, g and o_msg by another tool's method; it says nothing of intervals."""
    figures = methods.METHODS[method](samples)
    found: dict[str, Any] = {name: Estimate(value, value, value) for name, value in figures.items() if name != "points"}
    only = Segment(0, found["l"], found["o_msg"], found["g"])
    flags = (*fit.flags, flag("method", method=method))
    return dataclasses.replace(fit, **found, segments=(only,), flags=flags, o_item=None)


def _circumstances(raw: Raw) -> list[Flag]:
    """What the raw file says of itself: cut, not finished, what time was too short for."""
    flags: list[Flag] = []
    about, kinds = raw.about, Counter(str(event.get("event")) for event in raw.events)
    if about["p"] == 1:
        flags.append(flag("one-processor"))
    if raw.missing:
        flags.append(flag("cut", missing=raw.missing))
    if not kinds["finished"]:
        flags.append(flag("unfinished", ended=kinds["ended"], launches=about.get("launches", 1)))
    if kinds["unsteady"]:
        flags.append(flag("unsteady"))
    flags += _slow(raw)
    flags += _short_of_time(raw)
    experiments = {sample.point.experiment for sample in raw.samples}
    if "bsp" in experiments and "rate" not in experiments:
        flags.append(flag("no-rate", "r"))
    return flags


def _slow(raw: Raw) -> list[Flag]:
    left_out = [point for event in raw.events if event.get("event") == "pilot" for point in event.get("slow", [])]
    if not left_out:
        return []
    level = f"level {raw.about['level']}" if "level" in raw.about else "its level"
    counts = Counter(f"{point[0]} {point[1]}" for point in left_out)
    patterns = ", ".join(f"{n} of {name}" for name, n in sorted(counts.items()))
    return [flag("left-out", level=level, patterns=patterns, largest=max(int(point[4]) for point in left_out))]


def _short_of_time(raw: Raw) -> list[Flag]:
    """Which figures the budget was too small for."""
    flags = []
    budget = raw.about.get("budget")
    sampled = {sample.point.short for sample in raw.samples + raw.exchanges}
    for event in ("not-measured", "not-converged"):
        missed = {
            tuple(point)
            for found in raw.events
            if found.get("event") == event
            for point in found.get("points", [])
            if event == "not-converged" or tuple(point) not in sampled
        }
        if not missed or (event == "not-converged" and budget is None):
            continue  # without a budget, `noise` says how many did not
        counts = Counter(_figures(point) for point in missed)
        points = "; ".join(f"{n} point{'s' * (n > 1)} for {name}" for name, n in sorted(counts.items()))
        limit = "" if budget is None else f"a budget of {budget:g} s: "
        flags.append(flag(event if event == "not-measured" else "budget", limit=limit, points=points))
    return flags


def _figures(point: tuple[Any, ...]) -> str:
    name = FIGURES.get(str(point[0]), str(point[0]))
    return f"{name} ({'mpi4py' if point[2] == 'raw' else 'LogP layer'})" if point[0] == "logp" else name


def _unused(fit: BSPFit) -> list[Flag]:
    """Parameters for which predictions take 0; other tools' methods may give such."""
    return [
        flag("negative unused", name, name=name, found=found.value)
        for row in fit.segments
        for name, found in (("l", row.l), ("o_msg", row.o_msg), ("g", row.g))
        if found.value < 0
    ]


def _logp_used(fits: Sequence[LogPFit]) -> list[Flag]:
    """Where a LogP machine for programs takes something else than what was fitted, or there is none."""
    fit = machine_file.used_logp(fits)
    if fit is None:
        return []
    if machine_file.logp_part(fit, 2) is None:
        return [flag("no-logp", "L")]
    if fit.L.value <= 0:
        return [flag("L-hidden", "L", L=fit.L.value, half=fit.L_high.value)]
    return []
