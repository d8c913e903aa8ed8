"""Reduction along a d-ary tree: the broadcast turned round (*Communication primitives*, section 3)."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..bsp import BSP
from ..cost import Cost, Machine
from ..rides import Supersteps
from . import fixed_order, tree
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
    descriptor,
    detached,
    fan_out,
    in_turn,
    integer,
    primitive,
    processor,
    taken,
)
from .small import Prepared, climb


@lru_cache(maxsize=256)
def plan(p: int, degree: int, root: int = 0, order: Order = "any") -> Plan:
    """Who sends the sum of its group (item 0) to whom: level by level to the root."""
    processor("reduce.plan", "root", root, p)
    if checked_order("reduce.plan", order) == "fixed":
        return _plan_fixed(p, degree, root)
    steps: list[Step] = []
    fan = 0
    for level in range(tree.height(p, degree)):
        parents, children = tree.edges(p, degree, level, root)
        steps.append(Step.of(children, parents, work=fan))
        fan = min(degree, -(-p // degree**level)) - 1
    return joined(p, steps, fan)


def _plan_fixed(p: int, degree: int, root: int) -> Plan:
    """The same with the nodes of the fixed order for groups; a group's leader is its first processor, or the root."""
    steps: list[Step] = []
    fan = 0
    for parts, group, starts, lengths in reversed(list(fixed_order.levels(p, degree))):
        holds = (starts <= root) & (root < starts + lengths)
        above = starts[np.cumsum(parts) - parts]
        above[group[holds]] = root
        steps.append(Step.of(np.where(holds, root, starts), above[group], work=fan))
        fan = int(parts.max()) - 1
    return joined(p, steps, fan)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int, order: Order = "any") -> int:
    """The degree that costs least."""
    p = machine.p
    degrees = tree.degrees(p) if order == "any" else fixed_order.degrees(p)
    return min(degrees, key=lambda degree: plan(p, degree, 0, order).cost(machine, words).seconds)


def cost(machine: Machine, words: int = 1, degree: int | None = None, root: int = 0, order: Order = "any") -> Cost:
    """What reducing values of so many words costs, exactly, where op keeps their size and takes a flop a word."""
    words = integer("reduce.cost", "words", words, 0)
    order = checked_order("reduce.cost", order)
    chosen = fan_out("reduce.cost", degree) or choose(machine, words, order)
    return plan(machine.p, chosen, root, order).cost(machine, words)


def _prepare(bsp: BSP, value: Any, op: Operator, order: Order, root: int) -> Prepared | None:
    name = check_operator("reduce", op)
    kind, words = descriptor(value)
    chosen = choose(bsp.machine, words, checked_order("reduce", order))
    agreed = {"value": kind, "op": name, "root": root, "degree": None, "order": order}
    return Prepared(agreed, plan(bsp.p, chosen, root, order).steps, _fold(bsp.p, order), words)


def _small(bsp: BSP, value: Any, op: Operator, root: int = 0, degree: int | None = None, order: Order = "any") -> Any:
    if degree is not None or type(root) is not int or not 0 <= root < bsp.p:
        return NOT_SMALL
    found = climb(bsp, "reduce", value, op, order, _prepare, root)
    return found if found is NOT_SMALL or bsp.pid == root else None


def _fold(p: int, order: Order) -> Fold:
    return in_turn if order == "any" else partial(fixed_order.total, p)


@primitive(cost, plan, _small)
def reduce(
    bsp: BSP, value: Any, op: Operator, root: int = 0, degree: int | None = None, order: Order = "any"
) -> Supersteps[Any]:
    """Combine the values of all processors, in the order of pids, on one of them; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only.
        root: who gets the result; equal on all processors.
        degree: d of the tree, at least 2; None: the cheapest on `bsp.machine` for the size of the value (for objects:
            for one word). Equal on all processors.
        order: "any": sums are made as the tree has them, so bits of floating-point sums depend on the degree, and on
            the machine that chooses it. "fixed": they depend on p and the values alone (fixed_order.py), and are those
            of `allreduce`; the degree is rounded down to a power of two. Equal on all processors.

    Returns:
        On the root value_0 op value_1 op ... op value_{p-1}; None elsewhere. With p = 1 a copy of the value.

    Raises:
        UsageError: root, degree, order, op's name, or dtype and shape differ or are out of range; op raised.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words, and as many flop; `reduce.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3 (broadcast and reduction).

    Examples:
        >>> from pybsp import collectives
        >>> pybsp.simulate(lambda bsp: collectives.reduce(bsp, bsp.pid, max, root=1), p=3).results
        [None, 2, None]
        >>> def main(bsp):
        ...     return collectives.reduce(bsp, 0.1 * (bsp.pid + 1), np.add, order="fixed")
        >>> float(pybsp.simulate(main, p=3).results[0])
        0.6
    """
    root = processor("reduce", "root", root, bsp.p)
    given = fan_out("reduce", degree)
    name = check_operator("reduce", op)
    order = checked_order("reduce", order)
    kind, words = descriptor(value)
    call = Call(bsp, "reduce", order, value=kind, op=name, root=root, degree=given)
    scheme = plan(bsp.p, given or choose(bsp.machine, words, order), root, order)
    fold = _fold(bsp.p, order)
    total = yield from climbed(call, scheme, taken(value, "reduce"), op, words, fold)
    return detached(total, value) if bsp.pid == root else None
