"""How quiet the machine was, and what disturbed it: drift, launches that differ, slow processors, shared cores."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from ..estimates import Flag
from ..flags import flag
from ..results import Noise
from ..samples import Point, Raw, Sample, grouped
from ..sampling import WIDTH, lasting
from .bootstrap import COMPARED, Table
from .bsp import UNEVEN
from .intervals import lag1, median_interval, median_seconds

DRIFT = 0.10  # end over start, above which there is a flag
SURE = 3.0  # standard errors that a difference must exceed
BUSY = 0.5  # load average before it began, above which there is a flag
NOISY = 1.25  # mean over median, above which there is a flag


def noise(raw: Raw) -> tuple[Noise, tuple[Flag, ...]]:
    """Of all samples; flags are machine-wide."""
    samples = [sample for sample in raw.samples if sample.seconds > 0]
    points = grouped(samples, attrgetter("point"))
    supersteps = [sample for sample in samples if sample.point.experiment not in ("rate", "logp")]
    drift, flags = _drift(supersteps)
    skew = [np.mean([one.seconds for one in of]) / median_seconds(of) for of in points.values() if len(of) >= 5]
    quiet = Noise(
        mean_over_median=float(np.median(skew)) if skew else 1.0,
        drift=drift,
        correlation=lag1(Table.of(supersteps, doubled=False).batches) if supersteps else 0.0,
        unconverged=sum(_unconverged(of) for of in points.values()),
        points=len(points),
    )
    flags += _launches(supersteps)
    flags += _crowded(raw)
    flags += _processors([sample for sample in samples if sample.point.experiment == "rate"])
    if quiet.mean_over_median > NOISY:
        flags.append(flag("noisy", skew=quiet.mean_over_median))
    if quiet.unconverged:
        flags.append(flag("not-converged", unconverged=quiet.unconverged, points=quiet.points))
    return quiet, tuple(flags)


def _unconverged(samples: Sequence[Sample]) -> bool:
    """Whether the median's interval is too wide in the typical launch; of a kernel, that of its slowest processor."""
    series = grouped(samples, attrgetter("pid", "launch"))
    slowest = max(series, key=lambda key: median_seconds(series[key]))[0]
    # As the sampling itself looks at them: samples that resemble their neighbours tell less than so many.
    own = ([sample.seconds for sample in of] for (pid, _), of in series.items() if pid == slowest)
    widths = [median_interval(lasting(values)[1]).width for values in own]
    return float(np.median(widths)) > WIDTH


def _drift(samples: Sequence[Sample]) -> tuple[float | None, list[Flag]]:
    """Seconds at the end of a launch over those at its start: of the reference points, and of all large supersteps."""
    flags: list[Flag] = []
    worst: float | None = None
    large = [s for s in samples if s.point.h and s.point.experiment != "repeat"]
    middle = float(np.median([sample.point.h for sample in large])) if large else 0.0
    groups = {
        **grouped((s for s in samples if s.point.experiment == "repeat"), attrgetter("launch", "point.pattern")),
        **grouped((s for s in large if s.point.h > middle), lambda sample: (sample.launch, "")),
    }
    for (launch, pattern), of in sorted(groups.items()):
        found = _end_over_start(of)
        if found is None:
            continue
        ratio, error = found
        if pattern and (worst is None or abs(math.log(ratio)) > abs(math.log(worst))):
            worst = ratio
        if abs(ratio - 1) > DRIFT and abs(math.log(ratio)) > SURE * error:
            flags.append(flag("drift", pattern=pattern, ratio=ratio, launch=launch))
    return worst, flags


def _end_over_start(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """The ratio of the last third of the time to the first, and the standard error of its logarithm."""
    usual = {point: median_seconds(of) for point, of in grouped(samples, attrgetter("point")).items()}
    begin, end = min(s.at for s in samples), max(s.at for s in samples)
    early = [s for s in samples if s.at <= begin + (end - begin) / 3]
    late = [s for s in samples if s.at >= end - (end - begin) / 3]
    both = {s.point for s in early} & {s.point for s in late}  # a point seen once only says nothing
    parts = [_batches([s for s in part if s.point in both], usual) for part in (early, late)]
    if min(map(len, parts)) < 3:
        return None
    start, final = (float(np.median(part)) for part in parts)
    error = math.sqrt(sum(math.pi / 2 * float(np.var(part, ddof=1)) / len(part) for part in parts))
    return math.exp(final - start), error


def _batches(samples: Sequence[Sample], usual: dict[Point, float]) -> list[float]:
    """Logarithms of batch medians over what is usual for their points."""
    batches = grouped(samples, attrgetter("point", "batch"))
    return [math.log(median_seconds(of) / usual[point]) for (point, _), of in batches.items()]


def _launches(samples: Sequence[Sample]) -> list[Flag]:
    """Launches that differ as a whole."""
    if not samples:
        return []
    medians = Table.of(samples).medians()
    launches = medians.shape[1]
    if launches < COMPARED:
        return [flag("few-launches", launches=launches, enough=COMPARED)]
    whole = medians[np.isfinite(medians).all(axis=1)]
    if not len(whole):
        return []
    ratios = np.median(whole / np.median(whole, axis=1, keepdims=True), axis=0)
    fast, slow = int(np.argmin(ratios)), int(np.argmax(ratios))
    if ratios[slow] / ratios[fast] <= 1 + DRIFT:
        return []
    return [flag("launches-differ", slow=slow, fast=fast, ratio=ratios[slow] / ratios[fast])]


def _crowded(raw: Raw) -> list[Flag]:
    """More processors than cores on a node, or somebody else's work."""
    nodes, cores, load = (raw.about.get(name, []) for name in ("nodes", "cores", "load"))
    flags = []
    for node, ranks in sorted(Counter(nodes).items()) if cores else ():
        shared = cores[nodes.index(node)]
        if ranks > shared:
            flags.append(flag("oversubscribed", ranks=ranks, cores=shared, node=node))
    for node, running in enumerate(load):
        if running is not None and running > BUSY:
            flags.append(flag("not-dedicated", node=node, load=running))
    return flags


def _processors(samples: Sequence[Sample]) -> list[Flag]:
    """Processors that compute more slowly than the others, or whose times scatter as no other's do."""
    ratios, skews = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    for of_point in grouped(samples, attrgetter("point")).values():
        by_pid = grouped(of_point, attrgetter("pid"))
        medians = {pid: median_seconds(of) for pid, of in by_pid.items()}
        for pid, of in by_pid.items():
            others = [median for other, median in medians.items() if other != pid]
            if others:
                ratios[pid].append(medians[pid] / float(np.median(others)))
            if len(of) >= 5:
                skews[pid].append(float(np.mean([one.seconds for one in of])) / medians[pid])
    flags = []
    for pid in sorted({sample.pid for sample in samples}):
        ratio, skew = (float(np.median(of[pid] or 1.0)) for of in (ratios, skews))
        if ratio > UNEVEN:
            flags.append(flag("slow-processor", pid, pid=pid, ratio=ratio))
        if skew > NOISY:
            flags.append(flag("shared-core", pid, pid=pid, skew=skew))
    return flags
