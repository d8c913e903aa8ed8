"""Samples of machines whose parameters are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pybsp.benchmarks.calibration.fits.logp import words
from pybsp.benchmarks.calibration.patterns import counted
from pybsp.benchmarks.calibration.samples import Point, Sample
from pybsp.benchmarks.studies.theory.synthetic import SIZES, LogGP, Noise, logp_points, noisy, played

Seconds = Callable[[Point], float]


def swept(
    p: int = 4,
    experiment: str = "bsp",
    patterns: Sequence[str] = ("exchange", "permutation", "shift", "many-to-one"),
    messages: Sequence[int] = (1, 4, 16),
    words: Sequence[int] = (1, 16, 128, 1024, 8192, 65536),
) -> list[Point]:
    """The empty superstep, and each pattern with each number of messages and words."""
    return [Point(experiment, "empty", "bsp")] + [
        counted(Point(experiment, pattern, "bsp", size=8 * w, messages=m), p)
        for pattern in patterns
        for m in messages
        for w in words
    ]


def unbalanced(p: int = 4, experiment: str = "unbalanced") -> list[Point]:
    """Supersteps in which some send more than others."""
    points = swept(p, experiment, ("senders-1", "senders-2", "scatter", "few"), (1, 4), (16, 256, 4096, 65536))
    return [point for point in points if point.h]


def sampled(
    points: Sequence[Point],
    seconds: Seconds,
    launches: int = 3,
    batches: int = 5,
    each: int = 3,
    noise: float = 0.0,
    launch: float = 0.0,
    spikes: float = 0.0,
    seed: int = 0,
) -> list[Sample]:
    """Samples with log-normal noise, launches that differ, and delays of some five times the superstep's time."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(launches):
        factor, at = np.exp(launch * rng.standard_normal()), 0.0
        for batch in range(batches):
            for point in points:
                time = seconds(point) * factor
                taken = time * np.exp(noise * rng.standard_normal(each))
                taken += (rng.random(each) < spikes) * rng.exponential(5 * time, each)
                for one in taken.tolist():
                    found.append(Sample(point, number, batch, 1, one, at))
                    at += one
    return found


def line(l: float, o_msg: float, g: float) -> Seconds:  # noqa: E741
    """BSP."""
    return lambda point: l + o_msg * point.busiest + g * point.h


def ebsp(g1: float, g2: float, s: float, p: int, o_msg: float = 0.0) -> Seconds:
    """E-BSP."""
    return lambda point: s + o_msg * point.busiest + g1 * point.M / p + g2 * point.h


def jumping(*segments: tuple[float, float, float, float]) -> Seconds:
    """Lines by the size of messages: (words from which on, l, o_msg, g)."""

    def seconds(point: Point) -> float:
        words = point.h / point.busiest if point.busiest else 0.0
        _, l, o_msg, g = [segment for segment in segments if segment[0] <= words][-1]  # noqa: E741
        return l + o_msg * point.busiest + g * point.h

    return seconds


def exchanges(p: int, sizes: Sequence[int] = SIZES, messages: Sequence[int] = (1, 2, 4, 8, 16, 64)) -> list[Point]:
    """Total exchanges: each processor sends m messages of a size, to all others in turn; and the empty superstep."""
    found = [Point("bsp", "exchange", "bsp")]
    for size in sizes:
        for m in messages:
            h = m * words(size)
            found.append(Point("bsp", "exchange", "bsp", "", size, m, 0.0, h, h, p * h, m))
    return found


def logp_samples(machine: LogGP, noise: Noise, seed: int = 0, points: Iterable[Point] | None = None) -> list[Sample]:
    """Of the LogP signature."""
    chosen = logp_points(machine) if points is None else points
    return noisy({point: played(machine, point) for point in chosen}, noise, seed)
