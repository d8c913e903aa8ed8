"""How sure a fit is: batches drawn again, or launches compared, the fit taken anew each time.

Two things make a fitted figure uncertain. Batches of one launch differ: each replicate draws every point's batches
again, takes their medians and refits. And launches differ (placement, memory, what else runs), all points of a launch
alike, by more than batches tell; a calibration has one to five. Drawing three launches with replacement gives 95 %
intervals that cover the truth in far fewer cases (benchmarks/studies/calibration_coverage.py counts); so each launch
is fitted alone, and Student's t for so few says how far the mean of these fits may be from the truth. With fewer than
three launches there is nothing to compare: the interval is that of the batches, and a flag says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

from ..estimates import Estimate
from ..samples import Point, Sample
from .intervals import CORRELATED, Array, double_batches, lag1, t_quantile

Fit = Callable[[Array], Array]  # medians (..., points, launches), NaN where none -> figures (..., figures)

REPLICATES = 400
FEWEST = 3  # batches of a point in a launch; of fewer, each sample stands for a batch
COMPARED = 3  # launches from which on they are compared
LARGE = 99  # batches beyond which the correction for few of them is that of so many
FEWEST_DOUBLED = 4  # batches that doubling leaves of a row, at least
FALLEN = 0.1  # of a median, that none drawn again is below


@dataclass(frozen=True)
class Table:
    """Batch medians by point and launch.

    Args:
        points: the rows.
        batches: seconds, (points, launches, batches); what is missing is NaN, and comes last.
        left_out: points and launches whose median is not above 0: nothing that relative residuals could use. A time
            that is a difference of two may come out so, or one that the timer is too coarse to see.
    """

    points: tuple[Point, ...]
    batches: Array
    left_out: tuple[tuple[Point, int], ...] = ()

    @classmethod
    def of(cls, samples: Sequence[Sample], doubled: bool = True) -> Table:
        """Group samples; batches are doubled, if asked for, while those of a point resemble their neighbours."""
        rows: dict[Point, dict[int, dict[int, list[float]]]] = {}
        for sample in samples:
            launch = rows.setdefault(sample.point, {}).setdefault(sample.launch, {})
            launch.setdefault(sample.batch, []).append(sample.seconds)
        launches = sorted({launch for row in rows.values() for launch in row})
        cells = []
        for visited in rows.values():
            for number in launches:
                visits = visited.get(number, {})
                cell = [median(visits[batch]) for batch in sorted(visits)]
                cells.append(cell if len(cell) >= FEWEST else [time for b in sorted(visits) for time in visits[b]])
        padded = np.full((len(cells), max(map(len, cells), default=0)), np.nan)
        for line, cell in zip(padded, cells, strict=True):
            line[: len(cell)] = cell
        batches = padded.reshape(len(rows), len(launches), padded.shape[1])
        while doubled and batches.shape[-1] >= 2 * FEWEST_DOUBLED and lag1(batches) > CORRELATED:
            batches = _long_ones_doubled(batches)
        nothing = _median(batches) <= 0
        batches[nothing] = np.nan
        there = np.isfinite(batches).any(axis=(1, 2))
        points = tuple(rows)
        left_out = tuple((points[row], launches[column]) for row, column in np.argwhere(nothing).tolist())
        return cls(tuple(p for p, some in zip(points, there, strict=True) if some), batches[there], left_out)

    def only(self, which: Callable[[Point], bool]) -> Table:
        """The rows of some points, without `left_out`."""
        chosen = [which(point) for point in self.points]
        return Table(
            tuple(p for p, c in zip(self.points, chosen, strict=True) if c), self.batches[np.array(chosen, bool)]
        )

    @property
    def launches(self) -> int:
        """How many."""
        return int(self.batches.shape[1])

    def medians(self) -> Array:
        """Of the batches: (points, launches)."""
        return _median(self.batches)

    def drawn(self, rng: np.random.Generator, replicates: int) -> Array:
        """Medians of batches drawn again within each point and launch: (replicates, points, launches).

        They spread about the medians as these do about the truth: few batches drawn again spread more, or less.
        """
        counts = np.isfinite(self.batches).sum(axis=-1)
        shape = (replicates, *self.batches.shape)
        picks = (rng.random(shape, dtype=np.float32) * counts[..., None]).astype(np.int32)
        picks = np.minimum(picks, np.maximum(counts - 1, 0)[..., None].astype(np.int32))
        again = np.take_along_axis(np.broadcast_to(self.batches, shape), picks, axis=-1)
        # As many draws as there are batches; all draws of an empty row are NaN anyway.
        again[..., np.arange(shape[-1]) >= np.maximum(counts, 1)[..., None]] = np.nan
        medians = self.medians()
        factors = np.array([_shrink(min(n, LARGE)) for n in range(counts.max(initial=0) + 1)])
        # One that is drawn at nothing or less, as differences may be, would have all the say.
        return np.asarray(np.maximum(medians + (_median(again) - medians) * factors[counts], FALLEN * medians))


def _long_ones_doubled(batches: Array) -> Array:
    """Batches doubled in the rows that have enough: one that converged after few visits must not end as one value."""
    long = np.isfinite(batches).sum(axis=-1, keepdims=True) >= 2 * FEWEST_DOUBLED
    double = double_batches(batches)
    empty = np.full((*batches.shape[:-1], batches.shape[-1] - double.shape[-1]), np.nan)
    mixed = np.where(long, np.concatenate([double, empty], axis=-1), batches)
    return mixed[..., : np.isfinite(mixed).sum(axis=-1).max()]


def _median(batches: Array) -> Array:
    """Along the last axis, of what is not NaN; NaN of nothing."""
    counts = np.isfinite(batches).sum(axis=-1)
    if not batches.shape[-1]:
        return np.full(batches.shape[:-1], np.nan)
    ordered = np.sort(batches, axis=-1)  # NaN last
    low = np.take_along_axis(ordered, np.maximum(counts - 1, 0)[..., None] // 2, axis=-1)[..., 0]
    high = np.take_along_axis(ordered, np.minimum(counts // 2, batches.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    middle: Array = (low + np.where(counts > 0, high, low)) / 2
    return np.where(counts > 0, middle, np.nan)


def uncertain(table: Table, fit: Fit, seed: int) -> list[Estimate]:
    """Each figure of a fit with its 95 % interval; the same seed gives the same bits.

    Args:
        table: what is fitted.
        fit: the figures from medians, over any leading axes.
        seed: of the draws.
    """
    medians = table.medians()
    value = fit(medians)
    alone = fit(np.where(np.eye(table.launches, dtype=bool)[:, None, :], medians, np.nan))
    if (np.isfinite(alone).sum(axis=0) >= COMPARED).all():  # what the draws would say is contained
        drawn, freedom = np.empty((0, len(value))), np.ones(len(value))
    else:
        times = table.drawn(np.random.default_rng(seed), REPLICATES)
        drawn = fit(times)
        freedom = freedoms(table, times, drawn)
    return [interval(*figures) for figures in zip(value, drawn.T, alone.T, freedom, strict=True)]


def interval(value: float, drawn: Array, alone: Array, freedom: float) -> Estimate:
    """The 95 % interval of a figure.

    Args:
        value: the figure.
        drawn: the same of each replicate of `Table.drawn`.
        alone: the same of each launch alone; NaN where a launch does not determine it.
        freedom: how well the replicates' spread is known; see `freedoms`.
    """
    known = alone[np.isfinite(alone)]
    if len(known) >= COMPARED:
        half = t_quantile(len(known) - 1.0) * float(np.std(known, ddof=1)) / math.sqrt(len(known))
    else:
        drawn = drawn[np.isfinite(drawn)]
        half = t_quantile(freedom) * float(np.std(drawn)) if len(drawn) else 0.0
    return Estimate(float(value), float(value) - half, float(value) + half)


def freedoms(table: Table, times: Array, drawn: Array) -> Array:
    """Degrees of freedom of the replicates' spread, by figure: few where a figure hangs on few points of few batches.

    That of one median of K values is known about as well as a variance with min(K - 1, 2 + sqrt(K)) degrees of freedom
    (measured for normal values, K = 3 to 20); what a point contributes to a figure's variance is seen from how the two
    go together over the replicates, and contributions are added as Satterthwaite has it. Rounded to tenths.

    Args:
        table: what the replicates are of.
        times: medians of each replicate, (replicates, points, launches).
        drawn: figures of each, (replicates, figures).
    """
    counts = np.isfinite(table.batches).sum(axis=-1).ravel()
    each = np.minimum(counts - 1, 2 + np.sqrt(counts))
    rows = times.reshape(len(times), -1)[:, counts > 1]
    rows, each = rows - rows.mean(axis=0), each[counts > 1]
    varies = np.mean(rows**2, axis=0)
    count = np.maximum(np.isfinite(drawn).sum(axis=0), 1)
    figures = np.nan_to_num(drawn - np.nansum(drawn, axis=0) / count)
    shared = (figures.T @ rows / max(len(rows), 1)) ** 2 / np.where(varies > 0, varies, np.inf)
    total, weighed = shared.sum(axis=1), (shared**2 / each).sum(axis=1)
    found = np.where(weighed > 0, total**2 / np.where(weighed > 0, weighed, 1.0), 1e3)
    return np.round(np.clip(found, 1.0, 1e3), 1)


@cache
def _shrink(count: int) -> float:
    """What the spread of a median's replicates is to be multiplied by, for so many values.

    The median of 5 values drawn again from 5 varies by a fifth more than the median of 5 does, of two values a third
    less. From the order statistics of normal values: the median of an odd number drawn again is the i-th smallest with
    a binomial probability. Between odd numbers, the mean.
    """
    if count < 2:
        return 1.0
    if count == 2:
        return math.sqrt(2)
    if count % 2 == 0:
        return (_shrink(count - 1) + _shrink(min(count + 1, LARGE))) / 2
    half = (count - 1) // 2
    least = [  # probability that the median drawn is at most the i-th smallest
        sum(math.comb(count, k) * (i / count) ** k * (1 - i / count) ** (count - k) for k in range(half + 1, count + 1))
        for i in range(count + 1)
    ]
    ordered = np.sort(np.random.default_rng(count).standard_normal((20000, count)), axis=1)
    chance = np.diff(least)
    varies = np.mean(ordered**2 @ chance - (ordered @ chance) ** 2)
    return math.sqrt(float(np.var(ordered[:, half]) / varies))
