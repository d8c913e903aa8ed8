"""l, o_msg, g and o_item from timed supersteps, r from timed kernels.

T = l + o_msg*m + g*h, with m the busiest processor's messages and h its words; least squares of relative residuals over
the medians of all points and launches. Where the cost changes with the size of the messages there are several such
lines (`segments`).

T(0) is in none of them, as an empty superstep may take another path: on shared memory one with any message takes many
times as long. The fit's `l` is T(0) itself; each line has the l of supersteps that send something.

What a queue adds is fitted last, the lines given: T - (l + o_msg*m + g*h) = o_item*n, with n the busiest processor's
items, which travel as one message to each destination.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import combinations
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from ..estimates import Estimate, Flag
from ..flags import flag, left_out, regimes
from ..results import BSPFit, Errors, Rate, Segment
from ..samples import Point, Sample, grouped
from .bootstrap import Table, uncertain
from .intervals import Array, f_tail
from .least_squares import condition, nonnegative, relative
from .segments import MAX_CONDITION, cut

DISAGREES = 0.10  # relative difference of two ways to get one figure, above which there is a flag
RESIDUAL = 0.25  # relative, of one point, above which there is a flag
MISFIT = 0.05  # root mean square, where the replicates do not explain it, above which there is a flag
NOT_FIT = 0.01  # probability of such a misfit by chance, below which there is a flag
UNEVEN = 1.25  # the fastest processor's rate over the slowest's
ROUNDING = 1e-6  # of a time, that a parameter may be of either sign by
TRIPLES = 4000
NAMES = ("l", "o_msg", "g")


def fit_bsp(
    samples: Sequence[Sample], rate_samples: Sequence[Sample], seed: int = 0, queue_samples: Sequence[Sample] = ()
) -> BSPFit | None:
    """BSP parameters; None where no superstep with messages was measured, or all alike.

    Args:
        samples: of experiment "bsp".
        rate_samples: of experiment "rate", pid by pid.
        seed: of the bootstrap.
        queue_samples: of experiment "queue", for o_item.
    """
    table = Table.of([*samples, *queue_samples])
    fit = None if table.launches == 0 else fit_supersteps(table, seed)
    if fit is None:
        return None
    rates, r, flags = fit_rates(rate_samples, seed)
    return dataclasses.replace(fit, rates=rates, r=r, flags=(*fit.flags, *flags))


def predict(fit: BSPFit, h: float, messages: float, items: float = 0) -> float:
    """Seconds of a superstep in which nothing is computed, as `pybsp.BSPMachine` with the same segments says."""
    if not h or not messages:
        return fit.l.value
    segment = segment_of(fit.segments, h / messages)
    queued = 0.0 if fit.o_item is None else fit.o_item.value * items
    return segment.l.value + segment.o_msg.value * messages + segment.g.value * h + queued


def segment_of(segments: Sequence[Segment], words: float) -> Segment:
    """The line for messages of so many words."""
    return [segment for segment in segments if segment.words <= words or segment is segments[0]][-1]


def design_of(points: Sequence[Point]) -> Array:
    """Columns 1, m, h."""
    return np.array([(1.0, point.busiest, point.h) for point in points], dtype=np.float64).reshape(-1, 3)


def mean_size(points: Sequence[Point]) -> Array:
    """Words of a message, mean of the busiest processor; 0 where nothing is sent."""
    return np.array([point.h / point.busiest if point.busiest else 0.0 for point in points])


def across(medians: Array) -> Array:
    """Mean over the launches that have the point, (..., points); NaN where none has."""
    count = np.isfinite(medians).sum(axis=-1)
    return np.where(count > 0, np.nansum(medians, axis=-1) / np.maximum(count, 1), np.nan)


def fit_supersteps(table: Table, seed: int = 0) -> BSPFit | None:
    """What `fit_bsp` says of the supersteps; `r` and `rates` are empty."""
    sending = table.only(lambda point: point.busiest > 0 and not point.items)
    if len({point.h for point in sending.points}) < 2:
        return None
    flags = left_out(table.left_out)
    design, sizes, medians = design_of(sending.points), mean_size(sending.points), sending.medians()
    times = across(medians)
    free = [0, 1, 2]
    if condition(design, times) > MAX_CONDITION:
        free = [0, 2]
        flags.append(flag("unidentifiable bsp", "o_msg", condition=condition(design, times), most=MAX_CONDITION))
        if condition(design[:, free], times) > MAX_CONDITION:
            return None
    begins = cut(sizes, design[:, free], times)
    member = np.searchsorted(begins, sizes, side="right") - 1
    model = _Model(table.points, begins, free)
    lines = model.nonnegative(table.medians())
    estimates = uncertain(table, model.figures, seed)
    spread = estimates[: 3 * len(begins)]
    segments = []
    for index, begin in enumerate(begins):
        figures = []
        for column, name in enumerate(NAMES):
            value, estimate = float(lines[index, column]), spread[3 * index + column]
            figures.append(Estimate(value, min(estimate.low, value), max(estimate.high, value)))
            share = float(np.max(design[member == index, column] / times[member == index], initial=0))
            if abs(estimate.value) * share > ROUNDING:
                flags += _sign(name, estimate, index, begins)
        segments.append(Segment(math.ceil(begin), *figures))
    patterns = dict(zip(model.patterns, estimates[3 * len(begins) :], strict=False))
    empty, *queued = estimates[3 * len(begins) + len(patterns) :]
    l = empty if np.isfinite(empty.value) else segments[0].l  # noqa: E741
    g, o_msg = segments[-1].g, segments[0].o_msg
    fitted = np.einsum("pk,pk->p", design, lines[member])
    small, large = (_theil_sen(design[member == end], times[member == end], free, seed) for end in (0, member.max()))
    others = {"l": small[0], "o_msg": small[1], "g": large[2]}
    theil_sen = {name: float(value) for name, value in others.items() if math.isfinite(value)}
    differences = _differences(sending.points, times, member, empty.value)
    flags += _empty(l, segments[0].l)
    flags += regimes(segments)
    flags += _patterns(patterns, g)
    flags += _compare(l, g, segments, differences, theil_sen)
    flags += _fit(sending, medians, fitted, 3 * len(segments))
    o_item = None
    if queued:
        o_item, more = _of_items(table, model, lines, queued[0])
        flags += more
    return BSPFit(
        l=l,
        o_msg=o_msg,
        g=g,
        segments=tuple(segments),
        patterns=patterns,
        worst=max(patterns, key=lambda name: patterns[name].value, default=""),
        n_half=_half(segments, sizes),
        r=None,
        rates=(),
        theil_sen=theil_sen,
        differences=differences,
        residuals=errors(fitted, times),
        flags=tuple(flags),
        o_item=o_item,
    )


class _Model:
    """The lines, their segments given: figures from medians."""

    def __init__(self, points: Sequence[Point], begins: Sequence[float], free: Sequence[int]) -> None:
        self._design, self._free = design_of(points), list(free)
        self._items = np.array([float(point.items) for point in points])
        self._empty = self._design[:, 1] == 0
        self._segment = np.searchsorted(begins, mean_size(points), side="right") - 1
        sending = ~self._empty & (self._items == 0)
        self._of_segment = [sending & (self._segment == index) for index in range(len(begins))]
        large = self._of_segment[-1] & (self._design[:, 2] > 0)
        self.patterns = sorted({point.pattern for point, there in zip(points, large, strict=True) if there})
        self._of_pattern = [np.array([p.pattern == name for p in points]) & large for name in self.patterns]
        self.queued = self._items > 0

    def figures(self, medians: Array) -> Array:
        """(..., points, launches) -> l, o_msg, g of each segment; g of each pattern; T(0); o_item, if queues are there.

        What the times do not determine is NaN.
        """
        lines = np.stack([self._line(medians, among) for among in self._of_segment], axis=-2)
        rest = medians - (lines[..., -1, None, None, :2] * self._design[:, None, :2]).sum(axis=-1)
        found = [slope(self._design[a, 2], medians[..., a, :], rest[..., a, :]) for a in self._of_pattern]
        empty = medians[..., self._empty, :]
        count = np.isfinite(empty).sum(axis=(-1, -2))
        found.append(np.where(count > 0, np.nansum(empty, axis=(-1, -2)) / np.maximum(count, 1), np.nan))
        if self.queued.any():
            found.append(self.item(medians, lines))
        return np.concatenate([lines.reshape(*lines.shape[:-2], -1), np.stack(found, axis=-1)], axis=-1)

    def item(self, medians: Array, lines: Array) -> Array:
        """o_item, lines of (..., segments, 3) given."""
        times, left = medians[..., self.queued, :], medians[..., self.queued, :] - self.without(lines)[..., None]
        return slope(self._items[self.queued], times, left)

    def without(self, lines: Array) -> Array:
        """Seconds of the supersteps with queues, but for what the items add."""
        of = lines[..., self._segment[self.queued], :]
        return np.asarray((of * self._design[self.queued]).sum(axis=-1))

    def _line(self, medians: Array, among: npt.NDArray[np.bool_]) -> Array:
        times = medians[..., among, :]
        rows = np.repeat(self._design[among], times.shape[-1], axis=0)
        found = np.zeros((*times.shape[:-2], 3))
        found[..., self._free] = relative(rows[:, self._free], times.reshape(*times.shape[:-2], -1))
        return found

    def nonnegative(self, medians: Array) -> Array:
        """(segments, 3): no parameter below 0, which no machine could predict by."""
        lines = np.zeros((len(self._of_segment), 3))
        for index, among in enumerate(self._of_segment):
            rows = np.repeat(self._design[among], medians.shape[-1], axis=0)
            lines[index, self._free] = nonnegative(rows[:, self._free], medians[among].ravel())
        return lines


def slope(amount: Array, times: Array, left: Array) -> Array:
    """Seconds of each of so many, least squares of left - slope*amount relative to the times; NaN where none is there.

    Args:
        amount: (points,).
        times, left: (..., points, launches).
    """
    there = np.isfinite(left)
    weight = np.where(there, (amount[:, None] / np.where(there, times, 1.0)) ** 2, 0.0)
    total = weight.sum(axis=(-1, -2))
    found = np.sum(weight * np.where(there, left, 0.0) / amount[:, None], axis=(-1, -2))
    return np.asarray(np.where(total > 0, found / np.where(total > 0, total, 1.0), np.nan))


def _of_items(table: Table, model: _Model, lines: Array, estimate: Estimate) -> tuple[Estimate, list[Flag]]:
    """o_item that predictions use, not below 0, by the lines that they use; flags."""
    flags = []
    medians = table.medians()
    value = max(0.0, float(model.item(medians, lines)))
    times = across(medians[model.queued])
    points = [point for point, queued in zip(table.points, model.queued, strict=True) if queued]
    items = np.array([point.items for point in points])
    if abs(estimate.value) * float(np.max(items / times)) > ROUNDING:
        flags += _sign("o_item", estimate, 0, [0.0])
    fitted = model.without(lines) + value * items
    off = 1 - fitted / times
    worst = int(np.argmax(np.abs(off)))
    if abs(off[worst]) > RESIDUAL:
        flags.append(_far_off("residual queues", "o_item", points[worst], off, times[worst], fitted[worst]))
    return Estimate(value, min(estimate.low, value), max(estimate.high, value)), flags


def fit_rates(samples: Sequence[Sample], seed: int = 0) -> tuple[tuple[Rate, ...], Estimate | None, list[Flag]]:
    """The table of rates; the r that predictions use; flags.

    r is the geometric mean of the vector kernels' rates ("axpy" and "dot"), in cache and out of it: of supersteps whose
    kernel is not known, each is wrong by the same factor at worst. The table says which to use where it is known.
    """
    kernels = grouped(samples, attrgetter("point"))
    rates, flags = [], []
    for point, of in sorted(kernels.items(), key=lambda item: (item[0].pattern, item[0].size)):
        by_pid = {pid: Table.of(own) for pid, own in sorted(grouped(of, attrgetter("pid")).items())}
        median = {pid: float(across(table.medians())[0]) for pid, table in by_pid.items() if table.points}
        if not median or point.work <= 0:
            continue
        slowest = max(median, key=lambda pid: median[pid])
        time = uncertain(by_pid[slowest], lambda medians: across(medians)[..., 0:1], seed)[0]
        low = max(time.low, time.value / 10)  # an interval of seconds may reach 0, one of flop/s not infinity
        rate = Estimate(point.work / time.value, point.work / time.high, point.work / low)
        spread = median[slowest] / min(median.values())
        rates.append(Rate(point.pattern, point.size, rate, slowest, spread))
        if spread > UNEVEN:
            flags.append(flag("uneven-rates", "r", pid=slowest, kernel=point.pattern, size=point.size, spread=spread))
    usual = [rate.rate for rate in rates if rate.kernel in ("axpy", "dot")] or [rate.rate for rate in rates]
    if not usual:
        return tuple(rates), None, flags
    r = Estimate(*(float(np.exp(np.mean(np.log(ends)))) for ends in zip(*usual, strict=True)))
    slow, fast = min(rates, key=lambda rate: rate.rate.value), max(rates, key=lambda rate: rate.rate.value)
    if fast.rate.value > 2 * slow.rate.value:
        flags.append(flag("one-rate", "r", slow=slow, fast=fast, r=r.value))
    return tuple(rates), r, flags


def errors(predicted: Sequence[float] | Array, measured: Sequence[float] | Array) -> Errors:
    """Of predictions, those that are finite; of 0 points where there are none."""
    off = np.asarray(predicted, dtype=np.float64) / np.asarray(measured, dtype=np.float64) - 1
    off = off[np.isfinite(off)]
    if not len(off):
        return Errors(0.0, 0.0, 0.0, 0)
    return Errors(float(np.median(np.abs(off))), float(np.quantile(np.abs(off), 0.95)), float(np.median(off)), len(off))


def _sign(name: str, estimate: Estimate, index: int, begins: Sequence[float]) -> list[Flag]:
    """Flags of an unconstrained estimate: below 0, or no better known than that it is small."""
    begin = 8 * math.ceil(begins[index]) if index else 0
    if estimate.value < 0:
        return [flag("negative", name, name=name, begin=begin, found=estimate)]
    if estimate.value > 0 and estimate.width > 1:
        return [flag("wide", name, name=name, begin=begin, found=estimate)]
    return []


def _empty(empty: Estimate, sending: Estimate) -> list[Flag]:
    """A flag where T(0) says nothing of what supersteps with messages begin with."""
    low, high = sorted((empty, sending))
    if high.value - low.value <= RESIDUAL * high.value or low.high >= high.low:
        return []
    return [flag("empty", "l", empty=empty.value, sending=sending.value)]


def _patterns(patterns: dict[str, Estimate], g: Estimate) -> list[Flag]:
    worst = max(patterns, key=lambda name: patterns[name].value, default="")
    if not worst or patterns[worst].value <= (1 + RESIDUAL) * g.value:
        return []
    times = patterns[worst].value / g.value if g.value else math.inf
    return [flag("pattern", "g", name=worst, found=patterns[worst].value, times=times, g=g.value)]


def _half(segments: Sequence[Segment], sizes: Array) -> int | None:
    """The smallest size measured whose words cost at most twice g, when its messages are many."""
    last = segments[-1].g.value
    for words in np.unique(np.ceil(sizes[sizes > 0])):
        segment = segment_of(segments, words)
        if segment.o_msg.value / words + segment.g.value <= 2 * last:
            return int(words)
    return None


def _theil_sen(design: Array, times: Array, free: Sequence[int], seed: int) -> Array:
    """Medians of the solutions of as many equations as there are parameters, of triples of points drawn at random.

    `scipy.stats.theilslopes` has one regressor: slopes between pairs of points. Here are two (messages and words), and
    an intercept, which it takes three points to determine (Dang, Peng, Wang and Zhang, *Theil-Sen estimators in a
    multiple linear regression model*).
    """
    found = np.full(3, np.nan)
    there = np.isfinite(times)
    design, times = design[there][:, free], times[there]
    count, columns = design.shape
    if count < columns:
        return found
    chosen = np.array(list(combinations(range(count), columns)) if math.comb(count, columns) <= TRIPLES else [])
    if not len(chosen):
        chosen = np.argsort(np.random.default_rng(seed).random((TRIPLES, count)), axis=1)[:, :columns]
    rows = design[chosen] / times[chosen][..., None]
    length = np.sqrt(np.sum(rows**2, axis=1, keepdims=True))
    rows = rows / np.where(length > 0, length, 1.0)
    values = np.linalg.svd(rows, compute_uv=False)
    fine = values[:, -1] * MAX_CONDITION > values[:, 0]  # three points nearly on a line say nothing
    if fine.any():
        solved = np.linalg.solve(rows[fine], np.ones((int(fine.sum()), columns, 1)))[..., 0] / length[fine, 0]
        found[list(free)] = np.median(solved, axis=0)
    return found


def _differences(points: Sequence[Point], times: Array, member: npt.NDArray[np.intp], empty: float) -> dict[str, float]:
    """l = max(T(0), (k*T(m) - T(k*m))/(k - 1)) of small messages; g = (T(m, w') - T(m, w))/(h' - h) of large ones.

    Args:
        points, times, member: of supersteps that send something.
        empty: T(0), NaN where it was not measured.
    """
    intercepts, slopes = [], []
    last = int(member.max())
    for a, b in combinations(range(len(points)), 2):
        if points[a].pattern != points[b].pattern or not (points[a].h and points[b].h):
            continue
        (small, t), (large, t2) = sorted(((points[a], times[a]), (points[b], times[b])), key=lambda pair: pair[0].h)
        if not math.isfinite(t + t2):
            continue
        if small.size == large.size and member[a] == member[b] == 0 and small.busiest and large.busiest > small.busiest:
            k = large.busiest / small.busiest
            if abs(large.h / small.h - k) < 1e-9 * k:
                intercepts.append((t2, (k * t - t2) / (k - 1)))
        if small.busiest == large.busiest and member[a] == member[b] == last and large.h > small.h:
            slopes.append((t2 - t) / (large.h - small.h))
    found = {}
    if intercepts:
        # Of the shorter half of the supersteps: a small difference of long times says nothing of l.
        shortest = sorted(intercepts)[: (len(intercepts) + 1) // 2]
        found["l"] = float(np.fmax(np.median([intercept for _, intercept in shortest]), empty))
    if slopes:
        found["g"] = float(np.median(slopes))
    return found


def _compare(
    l: Estimate,  # noqa: E741
    g: Estimate,
    segments: Sequence[Segment],
    differences: dict[str, float],
    theil_sen: dict[str, float],
) -> list[Flag]:
    """Flags where other ways to the same figure lead more than a tenth away, and out of its interval.

    l from differences is compared with the larger of T(0) and the first line's l; l from Theil-Sen, which has no empty
    superstep either, with the line's.
    """
    flags = []
    most = max(l, segments[0].l)
    for code, other in (("not-linear bsp", differences), ("not-robust", theil_sen)):
        for name, estimate in (("l", most if code == "not-linear bsp" else segments[0].l), ("g", g)):
            value = other.get(name)
            if value is None or abs(value - estimate.value) <= DISAGREES * abs(estimate.value):
                continue
            if estimate.low <= value <= estimate.high:
                continue
            flags.append(flag(code, name, name=name, other=value, found=estimate.value))
    return flags


def _fit(table: Table, medians: Array, fitted: Array, parameters: int) -> list[Flag]:
    """Lack of fit: residuals of the medians against what batches and launches differ by; single points far off."""
    flags = []
    times = across(medians)
    off = 1 - fitted / times
    worst = int(np.nanargmax(np.abs(off)))
    if abs(off[worst]) > RESIDUAL:
        point = table.points[worst]
        flags.append(_far_off("residual", point.pattern, point, off, times[worst], fitted[worst]))
    freedom = len(off) - parameters
    noise, within = _pure_error(table)
    if freedom > 0 and within > 0 and noise > 0:
        misfit = math.sqrt(float(np.nansum(off**2)) / freedom)
        probability = f_tail((misfit / noise) ** 2, freedom, within)
        if probability < NOT_FIT and misfit > MISFIT:
            flags.append(flag("lack-of-fit", misfit=misfit, noise=noise, probability=probability))
    return flags


def _far_off(sentence: str, about: str, worst: Point, off: Array, took: float, fitted: float) -> Flag:
    """A flag of the point that is furthest off, and of how many are."""
    count = int(np.sum(np.abs(off) > RESIDUAL))
    return flag(sentence, about, count=count, all=len(off), most=RESIDUAL, point=worst, took=took, fitted=fitted)


def _pure_error(table: Table) -> tuple[float, int]:
    """Standard error of a point's time, relative, pooled over the points; and its degrees of freedom.

    From the launches where there are several, else from the batches.
    """
    values = table.medians() if table.launches > 1 else table.batches[:, 0, :]
    count = np.isfinite(values).sum(axis=-1)
    values, count = values[count > 1], count[count > 1]
    if not len(values):
        return 0.0, 0
    mean = across(values)
    squares = np.nansum((values / mean[:, None] - 1) ** 2, axis=-1)
    # A median of normal values varies by pi/2 times what their mean does.
    factor = 1.0 if table.launches > 1 else math.pi / 2
    freedom = int(np.sum(count - 1))
    return math.sqrt(factor * float(squares.sum()) / freedom / float(np.mean(count))), freedom
