"""Trees that all processors climb at once: groups of consecutive processors, cut into parts level by level.

Going up, each processor of a group gets the sums of the other parts of its group from processors with its place there;
a place that a smaller part lacks is served by that part's members in turn. The sizes of the parts of a group differ by
at most one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import tree
from .plan import Plan, Step, joined

Ints = NDArray[np.int64]


class Level(NamedTuple):
    """Into how many parts each group is cut, shape (groups,); of each part its group, first processor and length."""

    parts: Ints
    group: Ints
    starts: Ints
    lengths: Ints


def balanced(p: int, degree: int) -> Iterator[Level]:
    """From the top: all processors are one group; a group is cut into at most `degree` parts of equal size."""
    cuts = np.array([0, p])
    height = tree.height(p, degree)
    for level in reversed(range(height)):
        fan = -(-p // degree**level) if level == height - 1 else degree
        sizes = np.diff(cuts)
        parts = np.minimum(fan, sizes)
        group = np.repeat(np.arange(sizes.size), parts)
        number = np.arange(group.size) - np.repeat(np.cumsum(parts) - parts, parts)
        starts = cuts[group] + number * sizes[group] // parts[group]
        cuts = np.append(starts, p)
        yield Level(parts, group, starts, np.diff(cuts))


def plan(p: int, levels: Iterable[Level], work: Callable[[Level], int], below: bool = False, items: int = 1) -> Plan:
    """Who sends the sum of its part (the items 0 to items - 1) to whom.

    Args:
        p: processors.
        levels: from the top.
        work: operations on an item by which the busiest processor combines what a level brings.
        below: the last group of a level needs only what lies below each of its parts, as its own sum goes nowhere.
        items: of a sum.
    """
    steps, works = [], []
    for level in levels:
        steps.append(Step.of(*_messages(level, below), 0, items))
        works.append(work(level) * items)
    # From the bottom up; what a superstep brings is combined before the next sync.
    steps.reverse()
    works = [0, *reversed(works)]
    return joined(p, [replace(step, work=work) for step, work in zip(steps, works, strict=False)], works[-1])


def _messages(level: Level, below: bool) -> tuple[Ints, Ints]:
    """The sources and destinations of a level."""
    parts, group, starts, lengths = level
    here = np.arange(lengths.sum())
    # Every processor receives from every part of its group but its own.
    part = np.repeat(np.arange(starts.size), lengths)
    place = here - starts[part]
    count = parts[group[part]]
    receiver = np.repeat(here, count)
    first = (np.cumsum(parts) - parts)[group[part]]
    other = np.repeat(first, count) + np.arange(receiver.size) - np.repeat(np.cumsum(count) - count, count)
    at = place[receiver]
    at = np.where(at < lengths[other], at, part[receiver] % lengths[other])
    chosen = other != part[receiver]
    if below:
        chosen &= (other < part[receiver]) | (group[other] < group[-1])
    return (starts[other] + at)[chosen], receiver[chosen]
