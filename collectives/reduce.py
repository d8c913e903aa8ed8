"""Reduction along a d-ary tree: the broadcast turned round (*Communication primitives*, section 3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..bsp import BSP
from ..cost import Cost, Machine
from . import tree
from .plan import Plan, Step, joined
from .primitive import (
    Operator,
    Supersteps,
    apart,
    check_operator,
    climbed,
    fan_out,
    form,
    integer,
    primitive,
    processor,
    taken,
)


@lru_cache(maxsize=256)
def plan(p: int, degree: int, root: int = 0) -> Plan:
    """Who sends the sum of its group (item 0) to whom: level by level to the root."""
    processor("reduce.plan", "root", root, p)
    steps: list[Step] = []
    fan = 0
    for level in range(tree.height(p, degree)):
        parents, children = tree.edges(p, degree, level, root)
        steps.append(Step.of(children, parents, work=fan))
        fan = min(degree, -(-p // degree**level)) - 1
    return joined(p, steps, fan)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int) -> int:
    """The degree that costs least."""
    return min(tree.degrees(machine.p), key=lambda degree: plan(machine.p, degree).cost(machine, words).seconds)


def cost(machine: Machine, words: int = 1, degree: int | None = None, root: int = 0) -> Cost:
    """What reducing values of so many words costs, exactly, where op keeps their size and takes a flop a word."""
    words = integer("reduce.cost", "words", words, 0)
    chosen = fan_out("reduce.cost", degree) or choose(machine, words)
    return plan(machine.p, chosen, root).cost(machine, words)


@primitive(cost, plan)
def reduce(bsp: BSP, value: Any, op: Operator, root: int = 0, degree: int | None = None) -> Any:
    """Combine the values of all processors, in the order of pids, on one of them; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only.
        root: who gets the result; equal on all processors.
        degree: d of the tree, at least 2; None: the cheapest on `bsp.machine` for the size of the value (for objects:
            for one word). Equal on all processors.

    Returns:
        On the root value_0 op value_1 op ... op value_{p-1}; None elsewhere. With p = 1 a copy of the value.

    Raises:
        UsageError: root, degree, op's name, or dtype and shape differ or are out of range; op raised.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words, and as many flop; `reduce.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3 (broadcast and reduction).
    """
    root = processor("reduce", "root", root, bsp.p)
    given = fan_out("reduce", degree)
    name = check_operator("reduce", op)
    kind, words = form(value)
    steps = Supersteps(bsp, "reduce", value=kind, op=name, root=root, degree=given)
    scheme = plan(bsp.p, given or choose(bsp.machine, words), root)
    total = climbed(steps, scheme, taken(value, "reduce"), op, words)
    return apart(total, value) if bsp.pid == root else None
