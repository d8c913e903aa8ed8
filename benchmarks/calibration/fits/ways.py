"""o_way, g_way, first, late and after: exchanges by the ways of data, and what they take more at first or later.

An exchange takes T = l + o_msg*m + g*h + o_item*n + the o_way of each of its ways + their mean g_way*h. After c seconds
of computing, for which others have waited v seconds, it takes sqrt(s(c)*s(v))*L + w(c)*W more, where s(v) counts as no
more than s(c): L is the `late` of what sends nothing, or of what sends (whose v is no less than these points have at
such a c below 4 ms), and W that of its ways, what they take more after the longest computing that was measured: of
those in one exchange the dearest, and on top of it a get's, an agreement's and a making's. The share w(c) is one for
all ways: their code, that of ten functions, is in no cache early, what all exchanges need late. What sends nothing has
a share of its own. Where other ways went before it takes W(0) more, `first` of its ways, put together likewise.

Each is fitted once those before it are known, by least squares of the residuals relative to T: o_way, with o_item or
g_way; first, of all ways but mail and records, whose code is that of each exchange; what is late of what sends nothing,
and of mail, after each time of computing; then late of each way, and their shares. What is late never falls with the
computing: where times do, as a disturbance of a visit makes them, the nearest that rise count (`rising`). Of the
longest computing there are few samples, in which some processors slept: late of ways is fitted once more from all of
them, by their shares, and then these.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

import numpy as np

from pybsp.machines.bsp import BESIDE, FURTHER, LATE, BSPMachine
from pybsp.ways import WAY, named, with_lent

from ..estimates import Estimate
from ..patterns import WORD, waited
from ..samples import Point, Sample, grouped
from .bootstrap import Table, uncertain
from .bsp import slope
from .intervals import Array

# The ways of the patterns (patterns.py); others send mail alone.
OF_PATTERN = {
    "empty": (),
    **dict.fromkeys(("queue", "queue-and-own"), ("queue",)),
    **{name: (name,) for name in ("put", "get", "record", "collective", "agreement", "note")},
    "pattern-get": ("pattern",),
    "pattern-put": ("pattern",),
    "gather": ("collective",),
    "making": ("agreement", "making"),
    "riding": ("mail", "note"),
    "pattern+note": ("pattern", "note"),
    "put+get": ("put", "get"),
    "pattern+queue": ("pattern", "queue"),
}
FITTED = (
    "put",
    "get",
    "queue",
    "pattern",
    "note",
    "collective",
    "agreement",
    "making",
    "lent",
)  # ways, beside mail, in this order: notes take what collectives do until they are known; a record what nothing does
SEVERAL = {"put+get": FURTHER, "pattern+note": BESIDE}  # what ways cost beside others, by the pattern that shows it
LARGE = ("put", "get", "making")  # those of them that are measured with many words, or indices, too
MANY = 10_000  # words
ALIKE = 1e-9  # of a determinant, relative, below which there is one number of words alone, or items
LEAST_SHARE = 1e-4  # which has a logarithm
UNIT = 1e-6  # seconds of late, by which what it adds is counted
Name = TypeVar("Name")


def names_of(point: Point) -> tuple[str, ...]:
    """The ways in which a point's data goes, as the ledger has them."""
    ways = sum(WAY[name] for name in OF_PATTERN.get(point.pattern, ("mail",)))
    return named(with_lent(ways, point.h, point.busiest))


def predict(machine: BSPMachine, point: Point) -> float:
    """Seconds of a point's exchange."""
    ways = sum(WAY[name] for name in names_of(point))
    waiting = waited(point.delay, machine.p)
    fresh = ways if point.experiment == "first" else 0
    counted = point.h, point.busiest, point.M, point.items
    return machine.exchanging(*counted, ways, point.delay, 0.0, fresh, waiting, indices_of(point))


def indices_of(point: Point) -> float:
    """Words of the indices that each processor sends where a pattern is made."""
    return point.size / WORD if point.pattern == "making" else 0.0


class WayFit(NamedTuple):
    """What the ways of data cost.

    o_way: seconds, by way.
    g_way: seconds of each word beyond g, of those ways that were measured with few and with many.
    o_item: seconds of each item of a queue; None where queues were not measured.
    """

    o_way: dict[str, Estimate]
    g_way: dict[str, Estimate]
    o_item: Estimate | None


def fit_ways(samples: Sequence[Sample], machine: BSPMachine, seed: int = 0) -> WayFit:
    """o_way of the ways that were measured, with the o_item of queues beside that, and the g_way of others."""
    plain = dataclasses.replace(machine, o_item=0.0)
    found, of_words = dict[str, Estimate](), dict[str, Estimate]()
    o_item = None
    for way in FITTED:
        before = with_ways(machine, WayFit(found, of_words, o_item))
        table = Table.of([sample for sample in samples if _last(sample.point) == way])
        queued = [machine.items_charged(point.h, point.busiest, point.items, 0) for point in table.points]
        items = np.array(queued)
        words = np.array([point.h or indices_of(point) for point in table.points])
        if table.points and np.ptp(items):
            found[way], o_item = uncertain(table, _line(items, _predictions(table, plain)), seed)
        elif way in LARGE and words.max(initial=0) > MANY > words.min():
            found[way], of_words[way] = uncertain(table, _line(words, _predictions(table, before)), seed)
        elif table.points:
            (found[way],) = uncertain(table, _excess(table, before), seed)
    for several in FURTHER, BESIDE:
        before = with_ways(machine, WayFit(found, of_words, o_item))
        before = dataclasses.replace(before, o_way=(*before.o_way, (several, 0.0)))
        found |= _beyond(several, [one for one in samples if _last(one.point) == several], before, seed)
    return WayFit(found, of_words, o_item)


def fit_first(samples: Sequence[Sample], machine: BSPMachine, seed: int = 0) -> dict[str, Estimate]:
    """What an exchange takes more by each way where others went before, the machine's o_way known."""
    found: dict[str, Estimate] = {}
    for way in FITTED:
        of_way = [sample for sample in samples if _last(sample.point) == way]
        found |= _beyond(way, of_way, with_first(machine, found), seed)
    return found


# By seconds of computing: of `late` of what sends nothing, of what sends, and of ways.
Shares = dict[float, tuple[Estimate, Estimate, Estimate]]


def fit_late(samples: Sequence[Sample], machine: BSPMachine, seed: int = 0) -> tuple[dict[str, Estimate], Shares]:
    """late, and the shares of it by seconds of computing; of the longest they are 1. Nothing of no samples.

    What the longest computing was disturbed by is in late itself, as there is nothing beyond it, and in those of ways.
    """
    delays = sorted({sample.point.delay for sample in samples})
    if not delays:
        return {}, {}
    later = {name: _later([one for one in samples if _late_name(one.point) == name], machine, seed) for name in LATE}
    plain = {name: [*of_delays.values()][-1] for name, of_delays in later.items() if of_delays}
    parts = [_parts(later[name], plain.get(name)) for name in LATE]
    empty, sending = (_in_all(one or other, delays) for one, other in (parts, parts[::-1]))
    shares: Shares = {delay: (empty[delay], sending[delay], ONE) for delay in delays}
    found = dict(plain)
    for name in FITTED:
        of_name = [one for one in samples if one.point.delay == delays[-1] and _late_name(one.point) == name]
        found |= _beyond(name, of_name, with_late(machine, found, {delays[-1]: ONES}), seed)
    with_shares = _shares(samples, machine, found, shares, seed)
    for name in [one for one in FITTED if one in found]:
        table = Table.of([one for one in samples if _late_name(one.point) == name])
        by = [with_late(machine, {**found, name: Estimate(late, late, late)}, with_shares) for late in (0.0, UNIT)]
        (times,) = uncertain(table, _excess(table, by[0], _predictions(table, by[1])), seed)
        found[name] = Estimate(*(UNIT * one for one in times))
    return found, _shares(samples, machine, found, shares, seed)


def _later(samples: Sequence[Sample], machine: BSPMachine, seed: int) -> dict[float, Estimate]:
    """By seconds of computing, what exchanges take more after so many of it: no less than after fewer."""
    found = dict[float, Estimate]()
    by_delay = grouped(samples, attrgetter("point.delay"))
    for delay in sorted(by_delay):
        found |= _beyond(delay, by_delay[delay], machine, seed)
    values = rising([max(0.0, one.value) for one in found.values()], [len(by_delay[delay]) for delay in found])
    return {
        delay: Estimate(value, min(one.low, value), max(one.high, value))
        for (delay, one), value in zip(found.items(), values, strict=True)
    }


def _parts(later: dict[float, Estimate], late: Estimate | None) -> dict[float, Estimate]:
    """What is late by seconds of computing, as shares of late; none where nothing is."""
    if late is None or not late.value:
        return {}
    return {
        delay: Estimate(*(end / late.value for end in (one.value, one.low, one.high))) for delay, one in later.items()
    }


def _in_all(shares: dict[float, Estimate], delays: Sequence[float]) -> dict[float, Estimate]:
    """The shares after all delays, of which the last one's is 1: where there is none, what lies between two others."""
    known = {**shares, delays[-1]: ONE}
    rows = sorted(known)
    logs = np.log(np.maximum([known[row] for row in rows], LEAST_SHARE))
    return {
        delay: known.get(delay)
        or Estimate(*(float(np.exp(np.interp(np.log(delay), np.log(rows), column))) for column in logs.T))
        for delay in delays
    }


def rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest values that never fall, by weighted absolute deviations (isotonic regression).

    So one that a disturbance made too large, or too small, moves those beside it little.

    Examples:
        >>> from pybsp.benchmarks.calibration.fits.ways import rising
        >>> rising([1.0, 60.0, 2.0, 3.0, 9.0], [1.0] * 5)
        [1.0, 2.0, 2.0, 3.0, 9.0]
    """
    pools: list[tuple[float, list[tuple[float, float]]]] = []  # of neighbours: their median; values and weights
    for own in zip(values, weights, strict=True):
        pool = [own]
        while pools and pools[-1][0] > _median(pool):
            pool += pools.pop()[1]
        pools.append((_median(pool), pool))
    return [median for median, pool in pools for _ in pool]


def _median(weighted: Sequence[tuple[float, float]]) -> float:
    """Of values with weights: the lower one of two, as disturbances make exchanges take longer."""
    values, weights = zip(*weighted, strict=True)
    return float(np.quantile(values, 0.5, weights=weights, method="inverted_cdf"))


def _shares(
    samples: Sequence[Sample], machine: BSPMachine, found: dict[str, Estimate], shares: Shares, seed: int
) -> Shares:
    """The shares of late, by seconds of computing, with those of what ways add."""
    delays = [*shares]
    plain = {name: seconds for name, seconds in found.items() if name in LATE}
    ways: dict[float, Estimate] = {}
    for delay in delays[:-1]:
        of_delay = [one for one in samples if one.point.delay == delay and _late_name(one.point) not in LATE]
        before, whole = (with_late(machine, late, {delay: shares[delay]}) for late in (plain, found))
        table = Table.of([one for one in of_delay if predict(whole, one.point) > predict(before, one.point)])
        if table.points:
            (ways[delay],) = uncertain(table, _excess(table, before, _predictions(table, whole)), seed)
    of_all = _in_all(ways, delays)  # of some delays there are no samples of ways
    return {delay: (empty, sending, of_all[delay]) for delay, (empty, sending, _) in shares.items()}


ONE = Estimate(1.0, 1.0, 1.0)
ONES = ONE, ONE, ONE


def with_ways(machine: BSPMachine, fit: WayFit) -> BSPMachine:
    """The machine with these parameters, where none is below 0."""
    o_way, g_way = (
        tuple((way, max(0.0, found.value)) for way, found in of.items() if math.isfinite(found.value))
        for of in (fit.o_way, fit.g_way)
    )
    item = machine.o_item if fit.o_item is None else max(0.0, fit.o_item.value)
    return dataclasses.replace(machine, o_way=o_way, g_way=g_way, o_item=item)


def with_first(machine: BSPMachine, first: dict[str, Estimate]) -> BSPMachine:
    """The machine with these parameters, where none is below 0."""
    least = {way: max(0.0, found.value) for way, found in first.items()}
    return dataclasses.replace(machine, first=tuple(least.items()))


def with_late(machine: BSPMachine, late: dict[str, Estimate], shares: Shares) -> BSPMachine:
    """The machine with these parameters, where none is below 0, and no share below that of less computing."""
    least = {name: max(0.0, found.value) for name, found in late.items()}
    given = np.clip([[share.value for share in of_delay] for of_delay in shares.values()], LEAST_SHARE, 1.0)
    columns = [rising(column, [1.0] * len(column)) for column in given.reshape(-1, len(ONES)).T.tolist()]
    after = tuple(
        (seconds, waited(seconds, machine.p), *of_delay)
        for seconds, of_delay in zip(shares, zip(*columns, strict=True), strict=True)
    )
    return dataclasses.replace(machine, late=tuple(least.items()), after=after)


def _last(point: Point) -> str:
    """The way that a point tells something of, those before it known; "" where nothing is sent."""
    names = names_of(point)
    if point.pattern in SEVERAL:
        return SEVERAL[point.pattern]
    if names[-1:] == ("lent",) and names[0] != "mail":
        return "+".join(names)  # what is lent is known from mail alone, as the dearer of two counts at first
    return names[-1] if names else ""


def _late_name(point: Point) -> str:
    """What of `late` a point tells, those before it known."""
    return {"": "empty", "mail": "sending"}.get(_last(point), _last(point))


def _beyond(name: Name, samples: Sequence[Sample], machine: BSPMachine, seed: int) -> dict[Name, Estimate]:
    """Seconds that exchanges take beyond what a machine says, by that name; nothing of no samples."""
    table = Table.of(samples)
    return {name: uncertain(table, _excess(table, machine), seed)[0]} if table.points else {}


def _predictions(table: Table, machine: BSPMachine) -> Array:
    return np.array([predict(machine, point) for point in table.points])


def _excess(table: Table, machine: BSPMachine, whole: Array | None = None) -> Callable[[Array], Array]:
    """From medians: seconds beyond what a machine says; with what another says, as a share of the difference."""
    predicted = _predictions(table, machine)
    amount = np.ones(len(predicted)) if whole is None else whole - predicted

    def figures(medians: Array) -> Array:
        return slope(amount, medians, medians - predicted[:, None])[..., None]

    return figures


def _line(items: Array, predicted: Array) -> Callable[[Array], Array]:
    """From medians: seconds beyond what a machine says, and those of an item, or word."""

    def figures(medians: Array) -> Array:
        there = np.isfinite(medians)
        weight = np.where(there, 1 / np.where(there, medians, 1.0) ** 2, 0.0)
        left, n = np.where(there, medians - predicted[:, None], 0.0), items[:, None]
        moments = [(weight * n**k).sum(axis=(-1, -2)) for k in range(3)]
        zeroth, first = ((weight * n**k * left).sum(axis=(-1, -2)) for k in range(2))
        whole = moments[0] * moments[2]
        determinant = whole - moments[1] ** 2
        determinant = np.where(determinant > ALIKE * whole, determinant, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (moments[0] * first - moments[1] * zeroth) / determinant
            return np.stack([(moments[2] * zeroth - moments[1] * first) / determinant, each], axis=-1)

    return figures
