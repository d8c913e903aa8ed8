"""How long to sample: the timer's grain, the operations in a sample, when a median is known well enough.

Source: the notes' practice of measuring (ReproMPI, SKaMPI, LibLSB): a sample lasts 100 times what the timer can tell
apart; looks at 20, 40, 80, ... samples; stops when the interval of the median is narrow; batches are made longer
while successive ones resemble each other.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pybsp.errors import UsageError

from .fits.intervals import CORRELATED, lag1, median_interval
from .samples import Sample

LEVELS = ("quick", "default", "thorough")
WIDTH = 0.05  # of the 95 % interval of a point's median, relative to it, that suffices


@dataclass(frozen=True)
class SamplingLevel:
    """What a level affords.

    Args:
        level: "quick", "default" or "thorough".
        batch: samples of one visit to a point.
        first: samples of a point before one looks whether they suffice; then twice as many, and so on.
        most: samples of a point at most, in one launch.
        point: seconds of sampling for a point at most, in one launch, once it has 8 samples.
        slowest: seconds; a point whose superstep is expected to take longer is left out.
        visit: seconds; a visit takes fewer samples than `batch` (1 at least) where they would take longer.
        warm: seconds for warming up, at most.
    """

    level: str
    batch: int
    first: int
    most: int
    point: float
    slowest: float
    visit: float
    warm: float


_SAMPLING_LEVELS = {
    "quick": SamplingLevel("quick", batch=5, first=20, most=160, point=0.15, slowest=0.03, visit=0.15, warm=2.0),
    "default": SamplingLevel("default", batch=5, first=20, most=320, point=0.4, slowest=0.15, visit=0.3, warm=5.0),
    "thorough": SamplingLevel("thorough", batch=10, first=40, most=1280, point=0.8, slowest=0.4, visit=0.8, warm=10.0),
}


def sampling_level(level: str) -> SamplingLevel:
    """The sampling of a level; a UsageError where there is no such level."""
    if level not in _SAMPLING_LEVELS:
        raise UsageError(f"sampling_level: argument level: expected one of {', '.join(LEVELS)}, got {level!r}")
    return _SAMPLING_LEVELS[level]


class Timer(NamedTuple):
    """The grain of a clock, in seconds; both are 0 where only the program's charges make it go.

    Args:
        overhead: of one reading.
        resolution: the smallest step that it shows.
    """

    overhead: float
    resolution: float

    @property
    def runs(self) -> bool:
        """Whether it goes by itself, as a virtual machine's does not."""
        return self.overhead > 0 or self.resolution > 0

    def repeats(self, seconds: float) -> int:
        """Operations of so many seconds in one sample, which lasts at least 100 times the clock's grain."""
        grain = 100 * max(self.overhead, self.resolution)
        return max(1, math.ceil(grain / seconds)) if seconds > 0 else 1


def timer(clock: Callable[[], float]) -> Timer:
    """Measure a clock: the median cost of a reading, and the smallest step seen."""
    blocks, each = 20, 100  # readings
    costs = np.empty(blocks)
    steps = np.empty((blocks, each))
    for block in range(blocks):
        start = clock()
        stamps = [clock() for _ in range(each)]
        costs[block] = (stamps[-1] - start) / each
        steps[block] = np.diff([start, *stamps])
    moved = steps[steps > 0]
    return Timer(float(np.median(costs)), float(moved.min()) if moved.size else 0.0)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without the garbage collector."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def lasting(values: Sequence[float]) -> tuple[int, np.ndarray]:
    """Medians of batches of successive values, of the shortest length at which they do not resemble each other.

    Args:
        values: samples, in the order of time.

    Returns:
        the length, and the medians; the length is that of the last look where fewer than 8 batches would be left.
    """
    series = np.asarray(values, np.float64)
    length = 1
    while True:
        count = series.size // length
        medians = np.median(series[series.size - count * length :].reshape(count, length), axis=1)
        if count < 16 or lag1(medians) <= CORRELATED:
            return length, medians
        length *= 2


@dataclass
class PointProgress:
    """The samples of one point in one launch so far, and whether they suffice.

    Args:
        settings: of the level.
        values: seconds of one operation, in the order of time.
        spent: seconds that they took.
        converged: whether the interval of the median was narrow enough at a look.
    """

    settings: SamplingLevel
    values: list[float] = field(default_factory=list)
    spent: float = 0.0
    converged: bool = False
    _look: int = 0

    def add(self, samples: Sequence[Sample]) -> None:
        """What a visit gave; of a kernel's samples the slowest processor's count."""
        slowest: dict[float, Sample] = {}
        for sample in samples:
            if sample.at not in slowest or sample.seconds > slowest[sample.at].seconds:
                slowest[sample.at] = sample
        self.values += [sample.seconds for sample in slowest.values()]
        self.spent += sum(sample.seconds * sample.repeats for sample in slowest.values())
        look = self._look or self.settings.first
        if len(self.values) >= look:
            self.converged = self.width() <= WIDTH
            while look <= len(self.values):
                look *= 2
        self._look = look

    def width(self) -> float:
        """Of the 95 % interval of the median, relative to it; infinite where the samples give none."""
        if not self.values:
            return math.inf
        _, medians = lasting(self.values)
        return median_interval(medians).width

    @property
    def done(self) -> bool:
        """Whether nothing more is to be sampled: it suffices, or it is the most that the level affords."""
        if self.converged or len(self.values) >= self.settings.most:
            return True
        return self.spent >= self.settings.point and len(self.values) >= min(8, self.settings.first)
