"""Medians with their interval, and how far one batch tells of the next.

The interval of a median is that of the order statistics (Le Boudec, *Performance evaluation*, section 2.2): it assumes
nothing about the distribution but that the values are independent, which samples close in time are not. Take medians of
batches, and double the batch while `lag1` says that the batches still resemble their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from statistics import median

import numpy as np
import numpy.typing as npt

from ..estimates import Estimate
from ..samples import Sample, grouped

Array = npt.NDArray[np.float64]

Z = 1.959964  # of 95 %, two-sided
CORRELATED = 0.2  # lag-1 correlation above which batches are doubled


def median_interval(values: Sequence[float] | Array) -> Estimate:
    """The median of independent values and its 95 % interval.

    Of fewer than 6 values no two order statistics enclose the median with 95 %: the interval is their whole range
    (n = 5: 94 %, 4: 88 %, 3: 75 %, 2: 50 %). Of none, all three figures are not a number.
    """
    ordered = np.sort(values)
    n = len(ordered)
    if not n:
        return Estimate(math.nan, math.nan, math.nan)
    low = math.floor((n - Z * math.sqrt(n)) / 2)
    high = math.ceil(1 + (n + Z * math.sqrt(n)) / 2)
    return Estimate(float(np.median(ordered)), float(ordered[max(low, 1) - 1]), float(ordered[min(high, n) - 1]))


def median_seconds(samples: Sequence[Sample]) -> float:
    """Of some samples, one at least."""
    return median([sample.seconds for sample in samples])


def batch_medians(samples: Sequence[Sample]) -> dict[tuple[int, int], float]:
    """Median seconds of each (launch, batch), in order; the samples are of one point."""
    batches = grouped(samples, attrgetter("launch", "batch"))
    return {key: median_seconds(batches[key]) for key in sorted(batches)}


def lag1(values: Array) -> float:
    """Correlation of each value with the next along the last axis, pooled over all others; NaN is what is missing.

    Missing values come last in their row. A row of n independent values has -1/n on the average; that is added back.
    0 where no row has three values, or where none varies.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64)).reshape(-1, np.shape(values)[-1])
    counts = np.isfinite(rows).sum(axis=1)
    rows, counts = rows[counts >= 3], counts[counts >= 3]
    if not len(rows):
        return 0.0
    mean = np.nansum(rows, axis=1, keepdims=True) / counts[:, None]
    deviations = np.nan_to_num(rows / mean - 1)  # relative: every point counts alike
    spread = np.sum(deviations**2, axis=1)
    if not spread.sum() > 1e-24:
        return 0.0
    together = np.sum(deviations[:, 1:] * deviations[:, :-1], axis=1)
    return float((together.sum() + np.sum(spread / counts)) / spread.sum())


def double_batches(values: Array) -> Array:
    """Two successive batches made one, along the last axis; what is left over stays by itself."""
    length = values.shape[-1]
    even, odd = values[..., 0::2], values[..., 1::2]
    if length % 2:
        odd = np.concatenate([odd, np.full((*values.shape[:-1], 1), np.nan)], axis=-1)
    both: Array = np.where(np.isnan(odd), even, (even + odd) / 2)
    return both


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def f_tail(value: float, above: float, below: float) -> float:
    """Probability that an F(above, below) exceeds a value."""
    from scipy.special import fdtrc

    return float(fdtrc(above, below, max(value, 0.0)))
