"""Trees that all processors climb at once (groups.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...machines.cost import Superstep
from ..groups import Level


def counted(
    levels: Iterable[Level], work: Callable[[Level], int], below: bool = False
) -> tuple[tuple[Superstep, ...], int]:
    """What the supersteps of `plan` are charged for with a word, and the flop after them, without making it."""
    steps, works = [], []
    for level in levels:
        steps.append(_charged(level, below))
        works.append(work(level))
    steps.reverse()
    works = [0, *reversed(works)]
    return tuple(step._replace(w=float(w)) for step, w in zip(steps, works, strict=False)), works[-1]


def _charged(level: Level, below: bool) -> Superstep:
    """What a level is charged for."""
    parts, group, _, lengths = level
    first = np.cumsum(parts) - parts
    into = parts[group] - 1
    out = into.copy()
    # Who serves the last place of the larger parts in a smaller one: number part mod its length.
    low = np.minimum.reduceat(lengths, first)[group]
    large = np.flatnonzero(lengths > low)
    serving = large % low[large]
    width = int(serving.max(initial=0)) + 1
    of_place = np.bincount(group[large] * width + serving, minlength=parts.size * width)
    extra = of_place.reshape(parts.size, width).max(axis=1)[group]
    if below:
        last = first[-1]
        number = np.arange(parts[-1])
        into[last:], out[last:] = number, number[::-1]
        served = np.zeros((parts[-1], width), np.int64)
        in_last = large >= last
        served[large[in_last] - last, serving[in_last]] = 1
        extra[last:] = served[::-1].cumsum(axis=0)[::-1].max(axis=1)
    out += np.where(lengths == low, extra, 0)
    most, sent = int(out.max()), int((lengths * into).sum())
    far = int(np.add.reduceat(lengths, first).max()) - 1
    return Superstep(most, int(into.max()), max(most, int(into.max())), sent, 0.0, far)
