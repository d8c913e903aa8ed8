"""What other tools would make of the same samples: their formulas, to compare with.

    bspbench    (BSPedupack; Bisseling, *Parallel scientific computation*, section 1.6) times relations of h = 0 to
                256 messages of one word each, means of 100, and puts a straight line through p <= h <= 256 by plain
                least squares: l and g. What a message costs is part of its g.
    BSPonMPI    (its bompiprobe) times n messages of w bytes, 2n of w and n of 2w, w = 20 kB, and takes means:
                l = max(T(0), 2*T(n,w) - T(2n,w)), g = (T(n,2w) - T(n,w))/(n*w), o_msg = (T(2n,w) - T(n,2w))/n.

bspbench's r is the mean of the processors' rates in an axpy of 1024 elements; BSPonMPI measures none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from pybsp.errors import usage_error

from ..samples import Point, Sample

MOST_H = 256  # of bspbench
AXPY = 3 * 1024 * 8  # bytes of its largest vectors
MESSAGE = 20_000  # bytes of BSPonMPI's


def bspbench(samples: Iterable[Sample]) -> dict[str, float]:
    """l, g, o_msg (always 0) and, where axpy was timed, r, by bspbench's method.

    Args:
        samples: of total exchanges ("bsp", "exchange"); of axpy ("rate").

    Returns:
        "l" seconds, "g" seconds a word, "o_msg" seconds, "r" flop/s, "points" how many values of h it is of.

    Raises:
        UsageError: fewer than two values of h with messages of the smallest size.
    """
    samples = list(samples)
    times = _means(samples)
    smallest = min((point.size for point in times if point.size), default=0)
    line = {point.h: time for point, time in times.items() if point.size == smallest and point.h}
    p = max((point.M // point.h for point in times if point.h), default=0)
    inside = {h: time for h, time in line.items() if p <= h <= MOST_H}
    if len(inside) >= 2:
        line = inside  # else there are none there but what there is
    if len(line) < 2:
        expected = f"total exchanges of at least two values of h, all of messages of {smallest} bytes"
        raise usage_error("method bspbench", expected, len(line), "calibrate with --only bsp, or take another method")
    h, seconds = np.array(list(line)), np.array(list(line.values()))
    g = float(((h - h.mean()) * (seconds - seconds.mean())).sum() / ((h - h.mean()) ** 2).sum())
    found = {"l": float(seconds.mean() - g * h.mean()), "g": g, "o_msg": 0.0, "points": float(len(line))}
    rate = _rate(samples)
    return found if rate is None else {**found, "r": rate}


def bsponmpi(samples: Iterable[Sample]) -> dict[str, float]:
    """l, g and o_msg by BSPonMPI's two-point formulas.

    Where 2n messages or 2w bytes were not timed, the next larger multiples a*n and b*w are taken, and the same
    differences: l = max(T(0), (a*T(n,w) - T(a*n,w))/(a-1)), g = (T(n,b*w) - T(n,w))/((b-1)*n*w), o_msg =
    (T(a*n,w) - T(n,w))/((a-1)*n) - g*w.

    Args:
        samples: of total exchanges ("bsp", "exchange") and of the empty superstep.

    Returns:
        "l" seconds, "g" seconds a word, "o_msg" seconds, "points" that it is of.

    Raises:
        UsageError: no three such points.
    """
    times = _means(samples)
    empty = [time for point, time in times.items() if not point.M]
    exact = {(point.busiest, point.h): time for point, time in times.items() if point.M}
    size = {(point.busiest, point.h): point.size for point in times if point.M}
    best: tuple[float, dict[str, float]] = (math.inf, {})
    for n, h in exact:
        more = _multiples((m, n) for m, words in exact if words * n == h * m)  # of the same size
        larger = _multiples((words, h) for m, words in exact if m == n)
        if not more or not larger:
            continue
        a, b = more[0], larger[0]
        here, many, long = exact[n, h], exact[a * n, a * h], exact[n, b * h]
        g = (long - here) / ((b - 1) * h)
        l = max([*empty, (a * here - many) / (a - 1)])  # noqa: E741 - the model's own name
        o_msg = (many - here) / ((a - 1) * n) - g * h / n
        # The size nearest to BSPonMPI's, then the factors nearest to 2, then the most messages.
        key = abs(math.log(size[n, h] / MESSAGE)) + 0.1 * (a + b) - 1e-6 * n
        if key < best[0]:
            best = (key, {"l": l, "g": g, "o_msg": o_msg, "points": 3.0 + bool(empty)})
    if not best[1]:
        expected = "total exchanges of n messages of w bytes, of a multiple of n, and of a multiple of w"
        way_out = "calibrate at a higher level, or take another method"
        raise usage_error("method bsponmpi", expected, f"none such among {len(exact)} exchanges", way_out)
    return best[1]


METHODS: Mapping[str, Callable[[Iterable[Sample]], dict[str, float]]] = {"bspbench": bspbench, "bsponmpi": bsponmpi}


def _means(samples: Iterable[Sample]) -> dict[Point, float]:
    """Seconds of the exchanges and the empty superstep, means as both tools take."""
    values: dict[Point, list[float]] = defaultdict(list)
    for point, *_, seconds, _at, _pid in samples:
        if point.experiment == "bsp" and (point.pattern == "exchange" or not point.M):
            values[point].append(seconds)
    return {point: sum(times) / len(times) for point, times in sorted(values.items())}


def _multiples(pairs: Iterable[tuple[int, int]]) -> list[int]:
    return sorted(whole // part for whole, part in pairs if whole > part and whole % part == 0)


def _rate(samples: Iterable[Sample]) -> float | None:
    """Mean rate of the processors in the axpy whose working set is nearest to bspbench's largest."""
    axpy = [s for s in samples if (s.point.experiment, s.point.pattern) == ("rate", "axpy") and s.seconds > 0]
    if not axpy:
        return None
    size = min({s.point.size for s in axpy}, key=lambda bytes_: abs(math.log(bytes_ / AXPY)))
    times: dict[int, list[float]] = defaultdict(list)
    for sample in axpy:
        if sample.point.size == size:
            times[sample.pid].append(sample.seconds / sample.point.work)
    return sum(len(own) / sum(own) for own in times.values()) / len(times)
