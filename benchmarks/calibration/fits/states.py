"""Of a machine that goes to and fro between two states, the samples of the one in which it was longer.

On some virtual machines the same exchange takes twice as long, or four times, for seconds or minutes, as if the cores
had moved: medians of points are then of the one state or the other by chance, and no machine has parameters that fit
both. The reference superstep, which is timed again and again (experiment "repeat"), tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..samples import Point, Sample

RATIO = 1.4  # of the two states' times, at least
SHARE = 0.05  # of the time, that each lasts, at least
NEAR = 0.2  # relative, of a state's median, within which
MOST = 0.8  # of its samples are
LASTS = 8  # samples, on average, between two changes, at least
FEWEST = 24  # samples of the reference


class States(NamedTuple):
    """Two states of a machine.

    seconds: of the reference superstep, in the state that lasted longer, and in the other.
    share: of the reference's samples, in the former.
    """

    seconds: tuple[float, float]
    share: float


def of_one_state(
    samples: Sequence[Sample], others: Sequence[Sample]
) -> tuple[list[Sample], list[Sample], States | None]:
    """The samples that were taken in the state that lasted longer; all, where there is one state.

    A point of which all samples are of the other state keeps these.

    Args:
        samples: with those of the reference.
        others: of the same launches.
    """
    reference = sorted(
        (one for one in samples if one.point.experiment == "repeat" and one.point.h),
        key=lambda one: (one.launch, one.at),
    )
    seconds = np.array([one.seconds for one in reference])
    high = _in_the_higher(seconds)
    if high is None:
        return list(samples), list(others), None
    usual = np.mean(high) > 0.5
    launches, times = np.array([(one.launch, one.at) for one in reference]).T
    states = States(
        (float(np.median(seconds[high == usual])), float(np.median(seconds[high != usual]))),
        float(np.mean(high == usual)),
    )

    def chosen(among: Sequence[Sample]) -> list[Sample]:
        fit = np.zeros(len(among), bool)
        for launch in {one.launch for one in among}:
            mine = launches == launch
            numbers = [number for number, one in enumerate(among) if one.launch == launch]
            if mine.any():
                at = np.array([among[number].at for number in numbers])
                fit[numbers] = high[mine][_nearest(times[mine], at)] == usual
            else:
                fit[numbers] = True
        there: set[Point] = {one.point for one, good in zip(among, fit.tolist(), strict=True) if good}
        return [one for one, good in zip(among, fit.tolist(), strict=True) if good or one.point not in there]

    return chosen(samples), chosen(others), states


def _in_the_higher(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_] | None:
    """Which of these times, in their order, are of the state that takes longer; None: there is one state."""
    if len(seconds) < FEWEST or seconds.min() <= 0:
        return None
    ordered = np.sort(np.log(seconds))
    count = np.arange(1, len(ordered))
    # Where the means of both sides are the farthest apart, weighed by how many there are.
    below = np.cumsum(ordered)[:-1]
    distance = (below / count - (ordered.sum() - below) / (len(ordered) - count)) ** 2 * count * (len(ordered) - count)
    limit = ordered[int(np.argmax(distance)) + 1]
    high = np.log(seconds) >= limit
    if min(np.mean(high), 1 - np.mean(high)) < SHARE:
        return None
    medians = [float(np.median(seconds[side])) for side in (~high, high)]
    if medians[1] < RATIO * medians[0]:
        return None
    for side, median in zip((~high, high), medians, strict=True):
        if np.mean(np.abs(seconds[side] / median - 1) < NEAR) < MOST:
            return None
    changes = np.count_nonzero(np.diff(high))
    return high if changes * LASTS <= len(high) else None


def _nearest(times: npt.NDArray[np.float64], at: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """For each of `at` the index of the nearest of the times, which ascend."""
    after = np.clip(np.searchsorted(times, at), 1, max(len(times) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(times) - 1)
    return np.where(at - times[before] <= times[after] - at, before, after)
