"""DUPLICATE (duplicate.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...machines.cost import Cost, Machine, Superstep
from .. import tree
from ..duplicate_shares import Counts, count, fan_at, sent_at, slots, spreading, worked
from .broadcast_items import counted as counted_spread


@lru_cache(maxsize=1024)
def counted_prefix(p: int, degree: int) -> tuple[Superstep, ...]:
    """What the supersteps of `plan_prefix` are charged for, without making it; w: additions after the superstep."""
    steps = []
    for level in range(tree.height(p, degree)):
        sent = sent_at(p, degree, level)
        most = int(sent.max())
        steps.append(
            Superstep(most, most, most, int(sent.sum()), float(most), fan_at(p, degree, level) * degree**level)
        )
    return tuple(steps)


def counted(p: int, copies: Sequence[Counts], degree: int, nbytes: int) -> tuple[tuple[Superstep, ...], float]:
    """What the supersteps of `plan` are charged for, and the work after them, without its messages: up to p^2."""
    counts = count(p, copies, degree, nbytes)
    before = worked(p, degree, max(map(len, copies)))
    if p == 1:
        return (), before[0] + counts.moved.work
    spread: list[list[Superstep]] = [[] for _ in range(spreading(p, degree))]
    for _, width, size in counts.intervals:
        for slot, step in slots(counted_spread(width, size, degree), len(spread)):
            spread[slot].append(step)
    prefix = [step._replace(w=work) for step, work in zip(counted_prefix(p, degree), before, strict=True)]
    return (*prefix, counts.moved.counted(1), *map(_at_once, spread)), counts.after


def _at_once(steps: Sequence[Superstep]) -> Superstep:
    """One superstep of all intervals, which have no processor in common."""
    return Superstep(
        max((step.h_out for step in steps), default=0),
        max((step.h_in for step in steps), default=0),
        max((step.messages for step in steps), default=0),
        sum(step.M for step in steps),
        0.0,
        max((step.locality for step in steps), default=0),
    )


@lru_cache(maxsize=256)
def one_item(p: int, degree: int) -> tuple[tuple[Superstep, ...], float]:
    """What the degree is chosen by: one item of one word on processor 0, of which all get one copy."""
    none = np.empty(0, np.int64)
    return counted(p, [np.array([p]), *[none] * (p - 1)], degree, 16)


def bound(machine: Machine, nbytes: int, items: int, total: int, degree: int) -> Cost:
    """At most so much for any copies."""
    p = machine.p
    in_set = min(items, total)  # records of S_i
    in_all = min(items + 2, total)  # of processor i, two of which were split
    before = worked(p, degree, items)
    if p == 1:
        return Cost(machine, (), before[0] + in_all)
    prefix = counted_prefix(p, degree)
    size = -(-in_set * nbytes // 8)
    block = -(-total // p)
    alone = -(-nbytes // 8)  # a record in a message of its own
    # Three messages, of which two may be filled up to a word; each record that comes is a copy or more, or S_i comes.
    out, into = (-(-in_all * nbytes // 8) + 2) * (total > 0), max(block * alone, size)
    messages = min(p - 1, max(min(3, total), block))
    moved = Superstep(out, into, messages, min(p * in_all, total) * alone, prefix[-1].w + in_all, p - 1)
    steps = [*(step._replace(w=work) for step, work in zip(prefix, before, strict=True)), moved]
    if levels := spreading(p, degree):
        widest = p - 2
        dealt = Superstep(size, size, min(size, widest), min(p // 2, total) * size, 0.0, p - 1)
        fan = min(degree, -(-widest // 2)) - 1 if size else 0
        level = Superstep(fan, min(fan, 1), fan, min(widest, widest * fan), 0.0, p - 1)
        exchanged = Superstep(2 * size, size, 2 * min(size, widest), widest * size, 0.0, p - 1)
        steps += [dealt, *[level] * (levels - 2), exchanged]
    return Cost(machine, steps, float(in_set))
