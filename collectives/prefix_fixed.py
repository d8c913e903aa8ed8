"""Prefix in the fixed order: each processor climbs the tree with two sums, its group's and that up to itself.

In each superstep a processor gets the sums of the other parts of its group. Those below, with its own prefix, are its
prefix in the group; all of them, with its own part's, the group's sum, which goes on to the groups above. A group that
ends with the last processor has none above: there only what lies below a part is sent, and no sum of all is made.

An exclusive prefix is climbed by the same messages. It begins with nothing, so that the first processor of a part has
an operation less: it is the prefix of the processor before, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from . import fixed_order, groups
from .counted.groups import counted as counted_groups
from .operators import Operator
from .plan import Plan
from .primitive import NOTHING, Call, combined, sources
from .values import packed, taken


@lru_cache(maxsize=64)
def plan(p: int, degree: int, items: int = 1, exclusive: bool = False) -> Plan:
    """Who sends its part's sum (the items 0 to items - 1) to whom."""
    levels = [*fixed_order.levels(p, degree)]
    found = groups.plan(p, levels, _worker(exclusive), below=True, items=items)
    works = np.zeros((len(found) + 1, p), np.int64)
    for k, (step, level, end) in enumerate(zip(found, levels[::-1], _ends_of_sums(p, degree), strict=True), 1):
        below = step.destinations[step.sources < step.destinations]
        works[k] = items * np.bincount(below, minlength=p)
        if exclusive:
            works[k, level.starts] -= items * (works[k, level.starts] > 0)
        works[k, :end] += items * np.bincount(step.destinations, minlength=p)[:end]
    return replace(found, works=works)


def _ends_of_sums(p: int, degree: int) -> list[int]:
    """Of each superstep, from which processor on the sum of a group is not made: it is that of the last group."""
    return [(2**depth - 1) * p >> depth for depth in reversed(fixed_order.depths(p, degree)[:-1])]


@lru_cache(maxsize=4096)
def counted(p: int, degree: int, exclusive: bool = False) -> tuple[tuple[Superstep, ...], int]:
    """What the supersteps of `plan` are charged for with a word, and the flop after them, without making it."""
    return counted_groups(fixed_order.levels(p, degree), _worker(exclusive), below=True)


def _worker(exclusive: bool) -> Callable[[groups.Level], int]:
    return _exclusive_work if exclusive else _work


def _work(level: groups.Level) -> int:
    """Operations of a processor in the last part of a group: those below go into its prefix, and into the sum."""
    others, last = level.parts[:-1], level.parts[-1]
    return max(2 * (int(others.max(initial=1)) - 1), int(last) - 1)


def _exclusive_work(level: groups.Level) -> int:
    """Operations of the busiest processor where nothing lies before the first one of a part, in that."""
    number = np.arange(level.group.size) - np.searchsorted(level.group, level.group)  # of each part in its group
    below = np.where(number > 0, number - 1 + (level.lengths > 1), 0)
    sums = np.where(level.group < level.group[-1], level.parts[level.group] - 1, 0)
    return int((below + sums).max())


def cost(machine: Machine, words: float, degree: int, exclusive: bool = False) -> Cost:
    """What it costs for values of so many words; a message counts whole ones."""
    each = math.ceil(words)
    steps, after = counted(machine.p, degree, exclusive)
    return Cost(machine, (step.times(each)._replace(w=step.w * words) for step in steps), after * words)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: float, exclusive: bool = False) -> int:
    """The degree that costs least."""
    return min(fixed_order.degrees(machine.p), key=lambda degree: cost(machine, words, degree, exclusive).seconds)


def run(call: Call, value: Any, op: Operator, degree: int, words: float, exclusive: bool = False) -> Supersteps[Any]:
    """Run it with values of so many words; an exclusive one is `NOTHING` on processor 0."""
    bsp = call.bsp
    p, pid = bsp.p, bsp.pid
    fold = partial(fixed_order.total, p)
    upto, whole = NOTHING if exclusive else value, taken(value, call.name)  # an op may write into objects that it gets
    for step, end in zip(plan(p, degree), _ends_of_sums(p, degree), strict=True):
        # 1. The sum of the part that this processor is in goes to the other parts of the group, or to those above.
        if sends := step.sends(pid):
            payload = packed(whole, call.name)
            for dest, _, _ in sends:
                call.send(dest, payload)
        letters = yield from call.sync(sources(step.receives(pid)))
        # 2. The sums of the parts below make the prefix in the group.
        if below := [letter for letter in letters if letter.source < pid]:
            upto = combined(call, below, upto, op, words, fold)
        # 3. All of them make the sum of the group, unless the group ends with the last processor.
        if letters and pid < end:
            whole = combined(call, letters, whole, op, words, fold)
    return upto
