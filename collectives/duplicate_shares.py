"""Who sends what to whom in DUPLICATE (duplicate.py): copies are numbered, and processor q gets ceil(M/P) of them.

In the order of figure 4: a processor's first copies go to l_i, the next ones, S_i, to those between, the last to r_i,
so that copies stay in order over the processors. The text begins S_i with the first item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import tree
from .broadcast_items import plan as plan_spread
from .plan import Plan, Step, joined

Counts = NDArray[np.int64]


class Share(NamedTuple):
    """The copies number first to last - 1, which go to dest; of each processor where these are arrays."""

    dest: Any
    first: Any
    last: Any


def shares(first: Any, last: Any, block: int) -> tuple[Share, Share, Share]:
    """Where copies number first to last - 1 go: to l_i, to l_i + 1 (the set S_i), and to r_i; some may be empty."""
    left = first // block  # l_i
    right = np.maximum(last - 1, first) // block  # r_i
    begin = np.minimum((left + 1) * block, last)
    end = np.maximum(right * block, begin)
    return Share(left, first, begin), Share(left + 1, begin, end), Share(right, end, last)


def cut(ends: Counts, first: Any, last: Any) -> tuple[Any, Any]:
    """From which item to before which are copies number first to last - 1; those of item j end before ends[j]."""
    begin = np.searchsorted(ends, first, "right")
    return begin, np.where(np.less(first, last), np.searchsorted(ends, last, "left") + 1, begin)


@lru_cache(maxsize=32)
def plan_prefix(p: int, degree: int) -> tuple[Step, ...]:
    """Step (2): prefix sums from both ends, so that all know the total as well.

    In superstep t a processor knows the sums of the d^t processors that end, and that begin, with itself. It sends the
    one to those d^t, 2d^t, ..., (d-1)d^t above, and the other to those as far below.
    """
    here = np.arange(p)[:, None]
    steps = []
    for level in range(tree.height(p, degree)):
        offsets = degree**level * np.arange(1, fan_at(p, degree, level) + 1)
        there = here + np.concatenate([-offsets, offsets])
        inside = (there >= 0) & (there < p)
        steps.append(Step.of(np.broadcast_to(here, there.shape)[inside], there[inside]))
    return tuple(steps)


def sent_at(p: int, degree: int, level: int) -> Counts:
    """Messages that each processor sends, and receives, in superstep `level` of step (2)."""
    here, fan, stride = np.arange(p), fan_at(p, degree, level), degree**level
    sent: Counts = np.minimum(fan, here // stride) + np.minimum(fan, (p - 1 - here) // stride)
    return sent


def fan_at(p: int, degree: int, level: int) -> int:
    """To how many processors above one sends at most."""
    return int(min(degree - 1, (p - 1) // degree**level))


def spreading(p: int, degree: int) -> int:
    """Supersteps of step (3)iii: none, or two and the trees of the widest interval; S_i has at least 2 words."""
    widest = p - 2
    return 2 + tree.height(-(-widest // 2), degree) if widest > 1 else 0


def slots(steps: Sequence[Any], levels: int) -> Iterator[tuple[int, Any]]:
    """In which superstep of (3)iii each of an interval's own is: its last in the last, as all end together."""
    yield from enumerate(steps[:-1])
    if steps:
        yield levels - 1, steps[-1]


class Moved(NamedTuple):
    """What depends on the copies.

    moved: messages of steps (3)ii and (4), and the work before them. intervals: (first, width, words of S_i). after:
    work of step (3)v. before, behind: these works of each processor.
    """

    moved: Step
    intervals: list[tuple[int, int, int]]
    after: float
    before: Counts
    behind: Counts


def count(p: int, copies: Sequence[Counts], degree: int, nbytes: int) -> Moved:
    """Steps (3) and (4) for records of so many bytes."""
    levels = tree.height(p, degree)
    added = sent_at(p, degree, levels - 1) if levels else np.zeros(p, np.int64)  # the last sums of step (2)
    first, last, block = _numbered(copies)
    flat = np.concatenate(copies)
    ends = np.cumsum(flat[flat > 0])
    parts = shares(first, last, block)
    sizes = []
    for part in parts:
        begin, end = cut(ends, part.first, part.last)
        sizes.append(end - begin)
    sent, before = [size > 0 for size in sizes], sum(sizes) + added
    moved = Step.of(
        np.concatenate([np.flatnonzero(there) for there in sent]),
        np.concatenate([part.dest[there] for part, there in zip(parts, sent, strict=True)]),
        0,
        np.concatenate([-(-size[there] * nbytes // 8) for size, there in zip(sizes, sent, strict=True)]),
        work=float(before.max()),
    )
    middle, size, owners = parts[1], sizes[1], np.flatnonzero(sent[1])
    widths = (middle.last - middle.first) // block
    intervals = [(int(middle.dest[i]), int(widths[i]), -(-int(size[i]) * nbytes // 8)) for i in owners]
    behind = np.zeros(p, np.int64)
    for (start, width, _), records in zip(intervals, size[owners], strict=True):
        behind[start : start + width] = records
    return Moved(moved, intervals, float(size.max()), before, behind)


def _numbered(copies: Sequence[Counts]) -> tuple[Counts, Counts, int]:
    """The number of each processor's first copy, that after its last, and ceil(M/P)."""
    last = np.cumsum([int(own.sum()) for own in copies])
    total = int(last[-1])
    return np.concatenate([[0], last[:-1]]), last, max(1, -(-total // len(copies)))


def plan(p: int, copies: Sequence[Counts], degree: int, nbytes: int) -> Plan:
    """Who sends which words to whom, where processor i has items to be copied copies[i] times, in records of nbytes.

    A message's items are words: sums in step (2), words of items and copies after it.
    """
    counts = count(p, copies, degree, nbytes)
    items = [len(own) for own in copies]
    before = worked(p, degree, max(items))
    if p == 1:
        return joined(p, (), before[0] + counts.moved.work)
    spread: list[list[Step]] = [[] for _ in range(spreading(p, degree))]
    for first, width, size in counts.intervals:
        for slot, step in slots(plan_spread(width, size, degree), len(spread)):
            spread[slot].append(Step(step.sources + first, step.destinations + first, step.first, step.last))
    prefix = [replace(step, work=work) for step, work in zip(plan_prefix(p, degree), before, strict=True)]
    additions = [sent_at(p, degree, level) for level in range(len(prefix) - 1)]
    works = np.array([items, *additions, counts.before, *[[0] * p] * len(spread), counts.behind])
    return joined(p, [*prefix, counts.moved, *map(_side_by_side, spread)], counts.after, works)


def _side_by_side(steps: Sequence[Step]) -> Step:
    """One superstep of all intervals."""
    empty = np.empty(0, np.int32)
    return Step.of(
        np.concatenate([empty, *(step.sources for step in steps)]),
        np.concatenate([empty, *(step.destinations for step in steps)]),
        np.concatenate([empty, *(step.first for step in steps)]),
        np.concatenate([empty, *(step.last for step in steps)]),
    )


def worked(p: int, degree: int, items: int) -> list[float]:
    """Work before the syncs of step (2): that of step (1), then the additions. On one processor, that of step (1)."""
    levels = range(tree.height(p, degree) - 1)
    return [float(items), *(float(sent_at(p, degree, level).max()) for level in levels)]
