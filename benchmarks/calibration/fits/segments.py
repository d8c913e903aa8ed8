"""Where the cost of a message changes with its size: one straight line for small messages, another for large ones.

MPI sends small messages with their head, larger ones eagerly, the largest after a rendezvous: each has an l, an o_msg
and a g of its own, and between them times may jump. Points are ordered by the mean size of their messages, and cut
where it pays: dynamic programming over the cuts, a further segment only where it explains what noise does not (the
Bayesian information criterion) and lowers the error by a fifth. Where larger messages take far less time than smaller
ones there is a cut in any case, as no line says that; on either side of it there are as many segments as elsewhere.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .intervals import Array

MOST = 4  # segments
FEWEST = 6  # points of a segment
GOOD = 0.01  # relative residual, root mean square, that no further segment improves on
GAIN = 0.8  # of the residual, that a further segment must reach
FALLS = 0.6  # of the time of as many smaller messages, the next in size, below which larger ones go in another way
NEGATIVE = 0.05  # share of a time, root mean square over the points, that a parameter may come out below 0
MAX_CONDITION = 60.0  # condition number of a segment's design


def cut(size: Array, design: Array, times: Array) -> list[float]:
    """Sizes at which segments begin, ascending; the first is 0.

    Args:
        size: words of a message, mean of each point; of 0 words, they belong to the first segment.
        design: (points, parameters).
        times: seconds, (points,).
    """
    steps = np.unique(size[size > 0])
    if len(steps) < 2:
        return [0.0]
    # A cut is never between sizes 2 % apart: mean sizes of random patterns scatter.
    groups = [steps[:1]]
    for step in steps[1:]:
        if step / groups[-1][-1] < 1.02:
            groups[-1] = np.append(groups[-1], step)
        else:
            groups.append(np.array([step]))
    begins = [0.0] + [math.sqrt(a[-1] * b[0]) for a, b in pairwise(groups)]
    for number, (smaller, larger) in enumerate(pairwise(groups), 1):
        beyond = size > begins[number]
        if min(np.sum(beyond), np.sum(~beyond)) >= FEWEST and _falls(size, design, times, smaller, larger):
            sides = [cut(size[side], design[side], times[side]) for side in (~beyond, beyond)]
            return [*sides[0], begins[number], *sides[1][1:]]
    error = _errors(np.searchsorted(begins, size, side="right") - 1, len(begins), design / times[:, None])
    count = len(begins)
    best = {1: (error[0], [[0]] * (count + 1))}
    for number in range(2, MOST + 1):
        before, ways = best[number - 1]
        total, how = np.full(count + 1, np.inf), [[0]] * (count + 1)
        for last in range(number, count + 1):
            sums = before[:last] + error[:last, last]
            first = int(np.argmin(sums))
            total[last], how[last] = sums[first], [*ways[first], first]
        best[number] = (total, how)
    points, columns = design.shape
    chosen, left = [0], float(error[0, count])
    for number in range(2, MOST + 1):
        total, how = best[number]
        now = float(total[count])
        if math.isfinite(left) and math.sqrt(left / points) < GOOD:
            break
        if not math.isfinite(now):
            continue
        pays = points * math.log(max(left, 1e-30) / max(now, 1e-30)) > (columns + 1) * (
            number - len(chosen)
        ) * math.log(points)
        if not math.isfinite(left) or (pays and now < GAIN**2 * left):
            chosen, left = how[count], now
    return [begins[first] for first in chosen]


def _falls(size: Array, design: Array, times: Array, smaller: Array, larger: Array) -> bool:
    """Whether larger messages take far less time than as many smaller ones, of whatever number both were timed."""
    number = design[:, :-1].sum(axis=1)  # of messages, and a constant
    few, many = (np.isin(size, sizes) for sizes in (smaller, larger))
    ratios = [
        np.median(times[many & (number == one)]) / np.median(times[few & (number == one)])
        for one in np.intersect1d(number[few], number[many])
    ]
    return bool(ratios) and max(ratios) < FALLS


def _errors(group: npt.NDArray[np.intp], count: int, rows: Array) -> Array:
    """Sum of squared relative residuals of one fit to the points of groups first..last - 1, for all first < last.

    Infinite where these are too few points, or do not tell the parameters apart. Of normal equations that are summed up
    over the groups: only differences of a hundredth matter here.
    """
    columns = rows.shape[1]
    length = np.sqrt(np.sum(rows**2, axis=0))
    rows = rows / np.where(length > 0, length, 1.0)
    matrix, right = np.zeros((count + 1, columns, columns)), np.zeros((count + 1, columns))
    np.add.at(matrix, group + 1, rows[:, :, None] * rows[:, None, :])
    np.add.at(right, group + 1, rows)
    points = np.cumsum(np.bincount(group + 1, minlength=count + 1))
    first, last = np.triu_indices(count + 1, 1)
    matrix, right = np.cumsum(matrix, axis=0), np.cumsum(right, axis=0)
    matrix, right, points = matrix[last] - matrix[first], right[last] - right[first], points[last] - points[first]
    scale = np.sqrt(np.maximum(np.diagonal(matrix, axis1=1, axis2=2), 1e-300))
    matrix, right = matrix / scale[:, :, None] / scale[:, None, :], right / scale
    values = np.linalg.eigvalsh(matrix)
    fine = (points >= FEWEST) & (values[:, 0] * MAX_CONDITION**2 > values[:, -1])
    found = np.linalg.solve(np.where(fine[:, None, None], matrix, np.eye(columns)), right[..., None])[..., 0]
    # A straight line that takes something away for a message or a word fits what is no protocol's cost.
    fine &= (found > -NEGATIVE * np.sqrt(points)[:, None]).all(axis=1) | ((first == 0) & (last == count))
    error = np.full((count + 1, count + 1), np.inf)
    error[first, last] = np.where(fine, np.maximum(points - np.sum(right * found, axis=1), 0.0), np.inf)
    return error[:count]
