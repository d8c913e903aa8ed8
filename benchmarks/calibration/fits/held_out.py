"""How wrong predictions are: against points that nothing was fitted from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from ..flags import flag, left_out
from ..results import HeldOut, Predicted
from ..samples import Point, Sample, grouped
from .bootstrap import Table
from .bsp import errors
from .intervals import batch_medians, median_interval

MEDIAN = 0.15  # of |relative error|; above it there is a flag
WORST = 0.25  # 95th percentile; above it there is a flag


def held_out(samples: Sequence[Sample], predict: Callable[[Point], float]) -> HeldOut | None:
    """Predicted against measured seconds of each point; None where none was measured.

    Args:
        samples: of experiment "held-out".
        predict: seconds of a point, by the machine that programs will be predicted by.
    """
    of_point = grouped(samples, attrgetter("point"))
    table = Table.of(samples)
    points = []
    for point in table.points:
        medians = list(batch_medians(of_point[point]).values())
        measured = median_interval(medians)
        points.append(Predicted(point.pattern, point.size, point.h, point.busiest, measured, predict(point)))
    if not points:
        return None
    patterns = {
        name: errors(
            [p.predicted for p in points if p.pattern == name], [p.measured.value for p in points if p.pattern == name]
        )
        for name in sorted({point.pattern for point in points})
    }
    everything = errors([point.predicted for point in points], [point.measured.value for point in points])
    flags = left_out(table.left_out)
    for name, found in (("", everything), *patterns.items()):
        if found.median > MEDIAN or found.p95 > WORST:
            flags.append(flag("held-out", name, pattern=name, found=found))
    return HeldOut(everything, patterns, tuple(points), tuple(flags))
