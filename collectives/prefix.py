"""Prefix along d-ary trees (*Communication primitives for BSP computers*, section 3)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ..bsp import BSP
from ..cost import Cost, Machine, Superstep
from ..rides import Supersteps
from . import prefix_fixed, prefix_trees, tree
from .plan import Plan
from .prefix_2d import choose as choose_2d
from .prefix_2d import cost as cost_2d
from .prefix_2d import run as run_2d
from .primitive import (
    NOT_SMALL,
    Call,
    Operator,
    Order,
    check_operator,
    checked_order,
    climbed,
    descriptor,
    detached,
    elementwise,
    fan_out,
    in_turn,
    integer,
    is_array,
    item_words,
    primitive,
    taken,
)
from .small import Prepared, climb


def plan(p: int, degree: int, order: Order = "any") -> Plan:
    """Who sends the sum of the processors up to itself, d^t of them, to whom in superstep t.

    In the fixed order: the sum of its part of a group (prefix_fixed.py).
    """
    p = integer("prefix.plan", "p", p, 1)
    if checked_order("prefix.plan", order) == "fixed":
        return prefix_fixed.plan(p, degree)
    return prefix_trees.plan((p,), degree)


@lru_cache(maxsize=4096)
def counted(p: int, degree: int, words: float) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, without making it: it has up to p^2/2 messages."""
    return prefix_trees.counted((p,), degree, words)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int, order: Order = "any") -> int:
    """The degree that costs least."""
    if order == "fixed":
        return prefix_fixed.choose(machine, words)
    return min(tree.degrees(machine.p), key=lambda degree: _trees(machine, words, degree, order).seconds)


def _trees(machine: Machine, words: int, degree: int, order: Order) -> Cost:
    if order == "fixed":
        return prefix_fixed.cost(machine, words, degree)
    p = machine.p
    return Cost(machine, counted(p, degree, words), prefix_trees.last_work(p, degree) * words)


def cost(machine: Machine, words: float = 1, degree: int | None = None, items: int = 0, order: Order = "any") -> Cost:
    """What it costs, exactly, for values of so many words, where op keeps their size and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        words: of a value; where items are given, bytes / 8, so that it may be no whole number.
        degree: of the trees; None: what `prefix` would choose.
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
        order: "any" or "fixed".
    """
    order = checked_order("prefix.cost", order)
    whole = math.ceil(item_words("prefix.cost", "words", words))
    if (given := fan_out("prefix.cost", degree)) is not None:
        return _trees(machine, whole, given, order)
    trees = _trees(machine, whole, choose(machine, whole, order), order)
    if items > 1 and machine.p > 2:
        rows = cost_2d(machine, items, words / items, order=order)
        if rows.seconds < trees.seconds:
            return rows
    return trees


def _prepare(bsp: BSP, value: Any, op: Operator, order: Order, _: int) -> Prepared | None:
    name = check_operator("prefix", op)
    if checked_order("prefix", order) == "fixed" or (is_array(value) and value.size > 1 and bsp.p > 2):
        return None
    kind, words = descriptor(value)
    agreed = {"value": kind, "op": name, "degree": None, "order": order}
    return Prepared(agreed, plan(bsp.p, choose(bsp.machine, words, order)).steps, in_turn, words)


def _small(bsp: BSP, value: Any, op: Operator, degree: int | None = None, order: Order = "any") -> Any:
    return climb(bsp, "prefix", value, op, order, _prepare) if degree is None else NOT_SMALL


@primitive(cost, plan, _small)
def prefix(bsp: BSP, value: Any, op: Operator, degree: int | None = None, order: Order = "any") -> Supersteps[Any]:
    """The inclusive prefix sums of the processors' values; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only.
        degree: d of the trees, at least 2; p or more: one superstep, in which each sends to all above it. None: the
            cheapest on `bsp.machine` for the size of the value (for objects: for one word), where long arrays under a
            ufunc go by 2D-PREFIX (`prefix_2d`). Equal on all processors.
        order: "any": sums are made as what carries them has them, so bits of floating-point sums depend on the degree,
            and on the machine that chooses it. "fixed": they depend on p and the values alone (fixed_order.py), and the
            last processor's are those of `allreduce`; the degree is rounded down to a power of two. Equal on all
            processors.

    Returns:
        value_0 op value_1 op ... op value_pid; on processor 0 a copy of the value.

    Raises:
        UsageError: degree, order, op's name, or dtype and shape differ or are out of range; op raised.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words and as many flop; in the fixed
    order up to twice the words where p is no power of two, and twice the flop. `prefix.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3. There one tree is climbed and descended, in 2 log_d
    p supersteps; here the trees that end at each processor are climbed all at once, in half as many with the same h.

    Examples:
        >>> import operator
        >>> from pybsp import collectives
        >>> pybsp.simulate(lambda bsp: collectives.prefix(bsp, "abcd"[bsp.pid], operator.add), p=4).results
        ['a', 'ab', 'abc', 'abcd']
    """
    given = fan_out("prefix", degree)
    name = check_operator("prefix", op)
    order = checked_order("prefix", order)
    kind, words = descriptor(value)
    call = Call(bsp, "prefix", order, value=kind, op=name, degree=given)
    own = taken(value, "prefix")
    if given is None and is_array(value) and elementwise(op) and value.size > 1 and bsp.p > 2:
        each = value.itemsize / 8
        best = _trees(bsp.machine, words, choose(bsp.machine, words, order), order).seconds
        if cost_2d(bsp.machine, value.size, each, order=order).seconds < best:
            chosen = choose_2d(bsp.machine, value.size, each, order)
            return (yield from run_2d(call, own.reshape(-1), op, chosen, each, order)).reshape(value.shape)
    chosen = given or choose(bsp.machine, words, order)
    if order == "fixed":
        return detached((yield from prefix_fixed.run(call, own, op, chosen, words)), value)
    return detached((yield from climbed(call, plan(bsp.p, chosen), own, op, words)), value)
