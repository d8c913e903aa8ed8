"""Medians, quartiles, and ratios round by round.

What disturbs a machine for a while disturbs all variants of a round; so variants are compared within rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95


class Spread(NamedTuple):
    """Of samples: the median, and the quartiles."""

    median: float
    low: float
    high: float


class Ratio(NamedTuple):
    """The median of ratios, and an interval that covers the true one at `CONFIDENCE`, or all of too few ratios."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread:
    """Of one variant's times."""
    low, median, high = np.percentile(samples, (25, 50, 75)).tolist()
    return Spread(median, low, high)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Of two variants' times in the same rounds."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    skipped = outside(len(ratios))
    return Ratio(float(np.median(ratios)), ratios[skipped], ratios[-1 - skipped])


def slower(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether one of two variants takes longer beyond the spread: by the interval, and in three rounds of four."""
    return ratio(ours, theirs).low > 1 and spread([a / b for a, b in zip(ours, theirs, strict=True)]).low > 1


def outside(count: int) -> int:
    """How many samples are left out on each side of the interval of their median, whatever their distribution.

    The true median lies below the smallest but k of n samples where at most k of n fair coins show heads.
    """
    allowed = (1 - CONFIDENCE) / 2 * 2**count
    below, k = 1, 0
    while k < (count - 1) // 2 and (below := below + math.comb(count, k + 1)) <= allowed:
        k += 1
    return k
