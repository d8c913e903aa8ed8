"""Reduction to all: along p d-ary trees at once, or by blocks (after *Communication primitives*, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..cost import Cost, Machine, Superstep
from . import tree
from .plan import Plan, Step, joined
from .primitive import (
    Operator,
    Supersteps,
    apart,
    check_operator,
    climbed,
    combined,
    elementwise,
    fan_out,
    form,
    is_array,
    item_words,
    primitive,
    sources,
    taken,
)

Ints = NDArray[np.int64]


@lru_cache(maxsize=64)
def plan(p: int, degree: int) -> Plan:
    """Who sends the sum of its group (item 0) to whom: groups of consecutive processors, small ones first.

    All processors are one group; a group is cut into at most `degree` groups whose sizes differ by at most one. A
    processor gets the sums of the other parts of its group from those there with its place; a place that a smaller part
    lacks is served by its members in turn.
    """
    steps: list[Step] = []
    works: list[int] = []
    for parts, group, starts, lengths in _levels(p, degree):
        # Every processor receives from every part of its group but its own.
        part = np.repeat(np.arange(starts.size), lengths)
        place = np.arange(p) - starts[part]
        count = parts[group[part]]
        receiver = np.repeat(np.arange(p), count)
        first = (np.cumsum(parts) - parts)[group[part]]
        other = np.repeat(first, count) + np.arange(receiver.size) - np.repeat(np.cumsum(count) - count, count)
        at = place[receiver]
        at = np.where(at < lengths[other], at, part[receiver] % lengths[other])
        wanted = other != part[receiver]
        steps.append(Step.of((starts[other] + at)[wanted], receiver[wanted]))
        works.append(int(parts.max()) - 1)
    # From the bottom up; what a superstep brings is combined before the next sync.
    steps.reverse()
    works = [0, *reversed(works)]
    steps = [Step(s.sources, s.destinations, s.first, s.last, work) for s, work in zip(steps, works, strict=False)]
    return joined(p, steps, works[-1])


def _levels(p: int, degree: int) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """From the top: into how many parts each group is cut; of each part its group, first processor and length."""
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
        yield parts, group, starts, np.diff(cuts)


@lru_cache(maxsize=4096)
def counted(p: int, degree: int) -> tuple[tuple[Superstep, ...], int]:
    """What the supersteps of `plan` are charged for with a word, and the flop after them, without making it.

    It has up to p^2 messages. Locality is the largest there can be.
    """
    steps: list[Superstep] = []
    works: list[int] = []
    for parts, group, _, lengths in _levels(p, degree):
        first = np.cumsum(parts) - parts
        sizes = np.add.reduceat(lengths, first)
        low = np.minimum.reduceat(lengths, first)
        # Who serves the last place of the larger parts in a smaller one: number part mod its length.
        large = np.flatnonzero(lengths > low[group])
        serving = large % low[group[large]]
        extra = np.zeros(parts.size, np.int64)
        if large.size:
            width = int(serving.max()) + 1
            of_place = np.bincount(group[large] * width + serving, minlength=parts.size * width)
            extra = of_place.reshape(parts.size, width).max(axis=1)
        out = int((parts - 1 + extra).max())
        into = int(parts.max()) - 1
        sent = int((sizes * (parts - 1)).sum())
        far = int((sizes - 1).max())
        steps.append(Superstep(out, into, max(out, into), sent, 0.0, far))
        works.append(into)
    steps.reverse()
    works = [0, *reversed(works)]
    return tuple(step._replace(w=float(w)) for step, w in zip(steps, works, strict=False)), works[-1]


def _trees(machine: Machine, words: int, degree: int) -> Cost:
    steps, after = counted(machine.p, degree)
    return Cost(machine, (step.times(words) for step in steps), after * words)


@lru_cache(maxsize=64)
def plan_blocks(p: int, k: int) -> Plan:
    """Block j of the k items goes to processor j, is combined there, and comes back to all: two supersteps."""
    cuts = np.arange(p + 1) * k // p
    here, there = np.repeat(np.arange(p), p), np.tile(np.arange(p), p)
    some = cuts[there] < cuts[there + 1]
    out = Step.of(here[some], there[some], cuts[there][some], cuts[there + 1][some])
    work = (p - 1) * int(np.diff(cuts).max())
    back = Step.of(there[some], here[some], cuts[there][some], cuts[there + 1][some], work)
    return joined(p, (out, back))


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: float, items: int = 0) -> int:
    """The degree that costs least; 0 where blocks cost less still (items: that op works on one by one)."""
    p, whole = machine.p, math.ceil(words)
    best = min(tree.degrees(p), key=lambda degree: _trees(machine, whole, degree).seconds)
    if items >= p > 2:
        blocks = plan_blocks(p, items).cost(machine, words / items)
        if blocks.seconds < _trees(machine, whole, best).seconds:
            return 0
    return best


def cost(machine: Machine, words: float = 1, degree: int | None = None, items: int = 0) -> Cost:
    """What it costs, exactly, for values of so many words, where op keeps their size and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        words: of a value; where items are given, bytes / 8, so that it may be no whole number.
        degree: of the trees; None: what `allreduce` would choose.
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
    """
    whole = math.ceil(item_words("allreduce.cost", "words", words))
    chosen = fan_out("allreduce.cost", degree) or choose(machine, words, items)
    if chosen == 0:
        return plan_blocks(machine.p, items).cost(machine, words / items)
    return _trees(machine, whole, chosen)


@primitive(cost, plan)
def allreduce(bsp: BSP, value: Any, op: Operator, degree: int | None = None) -> Any:
    """Combine the values of all processors, in the order of pids, on every one of them; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only.
        degree: d of the trees, at least 2; None: the cheapest on `bsp.machine` for the size of the value (for objects:
            for one word), where long arrays under a ufunc go by blocks. Equal on all processors.

    Returns:
        value_0 op value_1 op ... op value_{p-1}. With p = 1 a copy of the value.

    Raises:
        UsageError: degree, op's name, or dtype and shape differ or are out of range; op raised.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words where d divides p, at most twice that where it does
    not, and as many flop; by blocks 2 supersteps with h < words each. `allreduce.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3; all trees at once, so it takes half the supersteps
    of a reduction and a broadcast.
    """
    given = fan_out("allreduce", degree)
    name = check_operator("allreduce", op)
    kind, words = form(value)
    items = value.size if is_array(value) and elementwise(op) else 0
    steps = Supersteps(bsp, "allreduce", value=kind, op=name, degree=given)
    own = taken(value, "allreduce")
    chosen = given or choose(bsp.machine, own.nbytes / 8 if items else words, items)
    return apart(run(steps, own, op, chosen, words), value)


def run(steps: Supersteps, value: Any, op: Operator, chosen: int, words: float) -> Any:
    """Run it with what `choose` chose, for values of so many words."""
    if chosen == 0:
        return _by_blocks(steps, value, op, value.itemsize / 8)
    return climbed(steps, plan(steps.bsp.p, chosen), value, op, words)


def _by_blocks(steps: Supersteps, value: Any, op: Operator, words: float) -> Any:
    bsp = steps.bsp
    out, back = plan_blocks(bsp.p, value.size)
    flat = value.reshape(-1)
    cuts = np.arange(bsp.p + 1) * value.size // bsp.p
    # 1. Block j goes to processor j, which combines the p blocks.
    for dest, first, last in out.sends(bsp.pid):
        steps.send(dest, flat[first:last])
    mine = flat[cuts[bsp.pid] : cuts[bsp.pid + 1]]
    letters = steps.sync(sources(out.receives(bsp.pid)))
    mine = combined(steps, letters, mine, op, mine.size * words)
    # 2. The sum of a block goes to all.
    for dest, _, _ in back.sends(bsp.pid):
        steps.send(dest, mine)
    due = back.receives(bsp.pid)
    letters = steps.sync(sources(due))
    result = np.empty(value.shape, mine.dtype)
    into = result.reshape(-1)
    into[cuts[bsp.pid] : cuts[bsp.pid + 1]] = mine
    for letter, (_, first, last) in zip(letters, due, strict=True):
        into[first:last] = letter.payload
    return result
