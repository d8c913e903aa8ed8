"""Reduction to all: along p d-ary trees at once, or by blocks (after *Communication primitives*, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..bsp import BSP
from ..cost import Cost, Machine, Superstep
from ..rides import Supersteps
from . import fixed_order, groups, tree
from .plan import Plan, Step, joined
from .primitive import (
    NOT_SMALL,
    Call,
    Fold,
    Operator,
    Order,
    check_operator,
    checked_order,
    climbed,
    combined,
    descriptor,
    detached,
    elementwise,
    fan_out,
    in_turn,
    is_array,
    item_words,
    primitive,
    sources,
    taken,
)
from .small import Prepared, climb


@lru_cache(maxsize=64)
def plan(p: int, degree: int, order: Order = "any") -> Plan:
    """Who sends the sum of its group (item 0) to whom: groups of consecutive processors, small ones first.

    All processors are one group; a group is cut into at most `degree` groups whose sizes differ by at most one. A
    processor gets the sums of the other parts of its group from those there with its place; a place that a smaller part
    lacks is served by its members in turn.
    """
    return groups.plan(p, _levels(p, degree, checked_order("allreduce.plan", order)), _work)


def _levels(p: int, degree: int, order: Order) -> Iterator[groups.Level]:
    return groups.balanced(p, degree) if order == "any" else fixed_order.levels(p, degree)


def _work(level: groups.Level) -> int:
    """Operations by which the sums of the parts of a group become its own."""
    return int(level.parts.max()) - 1


@lru_cache(maxsize=4096)
def counted(p: int, degree: int, order: Order = "any") -> tuple[tuple[Superstep, ...], int]:
    """What the supersteps of `plan` are charged for with a word, and the flop after them, without making it."""
    return groups.counted(_levels(p, degree, order), _work)


def _trees(machine: Machine, words: int, degree: int, order: Order) -> Cost:
    steps, after = counted(machine.p, degree, order)
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
def choose(machine: Machine, words: float, items: int = 0, order: Order = "any") -> int:
    """The degree that costs least; 0 where blocks cost less still (items: that op works on one by one)."""
    p, whole = machine.p, math.ceil(words)
    degrees = tree.degrees(p) if order == "any" else fixed_order.degrees(p)
    best = min(degrees, key=lambda degree: _trees(machine, whole, degree, order).seconds)
    if items >= p > 2:
        blocks = plan_blocks(p, items).cost(machine, words / items)
        if blocks.seconds < _trees(machine, whole, best, order).seconds:
            return 0
    return best


def cost(machine: Machine, words: float = 1, degree: int | None = None, items: int = 0, order: Order = "any") -> Cost:
    """What it costs, exactly, for values of so many words, where op keeps their size and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        words: of a value; where items are given, bytes / 8, so that it may be no whole number.
        degree: of the trees; None: what `allreduce` would choose.
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
        order: "any" or "fixed".
    """
    order = checked_order("allreduce.cost", order)
    whole = math.ceil(item_words("allreduce.cost", "words", words))
    chosen = fan_out("allreduce.cost", degree) or choose(machine, words, items, order)
    if chosen == 0:
        return plan_blocks(machine.p, items).cost(machine, words / items)
    return _trees(machine, whole, chosen, order)


def _prepare(bsp: BSP, value: Any, op: Operator, order: Order, _: int) -> Prepared | None:
    name = check_operator("allreduce", op)
    kind, words = descriptor(value)
    items = value.size if is_array(value) and elementwise(op) else 0
    chosen = choose(bsp.machine, value.nbytes / 8 if items else words, items, checked_order("allreduce", order))
    if chosen == 0:
        return None
    agreed = {"value": kind, "op": name, "degree": None, "order": order}
    return Prepared(agreed, plan(bsp.p, chosen, order).steps, _fold(bsp.p, order), words)


def _small(bsp: BSP, value: Any, op: Operator, degree: int | None = None, order: Order = "any") -> Any:
    return climb(bsp, "allreduce", value, op, order, _prepare) if degree is None else NOT_SMALL


@primitive(cost, plan, _small)
def allreduce(bsp: BSP, value: Any, op: Operator, degree: int | None = None, order: Order = "any") -> Supersteps[Any]:
    """Combine the values of all processors, in the order of pids, on every one of them; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only.
        degree: d of the trees, at least 2; None: the cheapest on `bsp.machine` for the size of the value (for objects:
            for one word), where long arrays under a ufunc go by blocks. Equal on all processors.
        order: "any": sums are made as what carries them has them, so bits of floating-point sums depend on the degree,
            and on the machine that chooses it. "fixed": they depend on p and the values alone (fixed_order.py); the
            degree is rounded down to a power of two. Equal on all processors.

    Returns:
        value_0 op value_1 op ... op value_{p-1}, the same bits on all. With p = 1 a copy of the value.

    Raises:
        UsageError: degree, order, op's name, or dtype and shape differ or are out of range; op raised.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words where d divides p, at most twice that where it does
    not, and as many flop; by blocks 2 supersteps with h < words each. `allreduce.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3; all trees at once, so it takes half the supersteps
    of a reduction and a broadcast.

    Examples:
        >>> import operator
        >>> from pybsp import collectives
        >>> pybsp.simulate(lambda bsp: collectives.allreduce(bsp, bsp.pid, operator.add), p=5).results
        [10, 10, 10, 10, 10]
        >>> def main(bsp):
        ...     return collectives.allreduce(bsp, np.arange(3) * bsp.pid, np.maximum).tolist()
        >>> pybsp.simulate(main, p=4).results[0]
        [0, 3, 6]
    """
    given = fan_out("allreduce", degree)
    name = check_operator("allreduce", op)
    order = checked_order("allreduce", order)
    kind, words = descriptor(value)
    items = value.size if is_array(value) and elementwise(op) else 0
    call = Call(bsp, "allreduce", order, value=kind, op=name, degree=given)
    own = taken(value, "allreduce")
    chosen = given or choose(bsp.machine, own.nbytes / 8 if items else words, items, order)
    return detached((yield from run(call, own, op, chosen, words, order)), value)


def run(call: Call, value: Any, op: Operator, chosen: int, words: float, order: Order = "any") -> Supersteps[Any]:
    """Run it with what `choose` chose, for values of so many words."""
    p = call.bsp.p
    fold = _fold(p, order)
    if chosen == 0:
        return (yield from _by_blocks(call, value, op, value.itemsize / 8, fold))
    return (yield from climbed(call, plan(p, chosen, order), value, op, words, fold))


def _fold(p: int, order: Order) -> Fold:
    return in_turn if order == "any" else partial(fixed_order.total, p)


def _by_blocks(call: Call, value: Any, op: Operator, words: float, fold: Fold) -> Supersteps[Any]:
    bsp = call.bsp
    out, back = plan_blocks(bsp.p, value.size)
    flat = value.reshape(-1)
    cuts = np.arange(bsp.p + 1) * value.size // bsp.p
    # 1. Block j goes to processor j, which combines the p blocks.
    for dest, first, last in out.sends(bsp.pid):
        call.send(dest, flat[first:last])
    mine = flat[cuts[bsp.pid] : cuts[bsp.pid + 1]]
    letters = yield from call.sync(sources(out.receives(bsp.pid)))
    mine = combined(call, letters, mine, op, mine.size * words, fold)
    # 2. The sum of a block goes to all.
    for dest, _, _ in back.sends(bsp.pid):
        call.send(dest, mine)
    due = back.receives(bsp.pid)
    letters = yield from call.sync(sources(due))
    result = np.empty(value.shape, mine.dtype)
    into = result.reshape(-1)
    into[cuts[bsp.pid] : cuts[bsp.pid + 1]] = mine
    for letter, (_, first, last) in zip(letters, due, strict=True):
        into[first:last] = letter.payload
    return result
