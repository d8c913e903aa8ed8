"""Reduction along a d-ary tree, the broadcast turned round (*Communication primitives*, section 3); or by blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..bsp import BSP
from ..ground.short_records import NUMBERS
from ..machines.cost import Cost, Machine
from ..rides.ride import Ride, Supersteps
from . import by_blocks, fixed_order, tree
from .algorithms import cheapest, items_of, named, trees_or_blocks
from .arguments import Order, checked_order, fan_out, integer, item_words, of_python, processor, root_of
from .counted.blocks import counted as counted_blocks
from .operators import Operator, check_operator
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, Call, climbed, primitive
from .record_layouts import Array
from .riding import start
from .small_climbs import PreparedClimb, climb
from .values import alone, checked_out, descriptor, detached, placed, taken

ALGORITHMS = ("trees", "blocks")


def plan(
    p: int, degree: int = 2, root: int = 0, order: Order = "any", algorithm: str = "trees", items: int = 0
) -> Plan:
    """Who sends what to whom: the sum of its group (item 0) up a tree; the items of an array by blocks.

    Args:
        p: processors.
        degree: of the tree.
        root: who gets the result.
        order: "any" or "fixed", which is of trees too.
        algorithm: "trees" or "blocks".
        items: of the array that is cut into blocks.
    """
    processor("reduce.plan", "root", root, p)
    if named("reduce.plan", algorithm, ALGORITHMS) == "blocks":
        return by_blocks.plan(p, integer("reduce.plan", "items", items, p), root)
    return trees(p, degree, root, checked_order("reduce.plan", order))


@lru_cache(maxsize=256)
def trees(p: int, degree: int, root: int = 0, order: Order = "any") -> Plan:
    """Who sends the sum of its group (item 0) to whom: level by level to the root."""
    if order == "fixed":
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
def choose(
    machine: Machine,
    words: float,
    items: int = 0,
    order: Order = "any",
    root: int = 0,
    algorithm: str | None = None,
) -> tuple[str, int]:
    """What costs least: ("trees", degree), or ("blocks", 0) where op works on at least p items one by one."""
    if algorithm == "blocks":
        return "blocks", 0
    p, whole = machine.p, math.ceil(words)
    degrees = tree.degrees(p) if order == "any" else fixed_order.degrees(p)
    # The root changes little or nothing: degrees are compared for one, or each root would need all plans.
    best = min(degrees, key=lambda degree: trees(p, degree, 0, order).cost(machine, whole).seconds)
    blocks = partial(_blocks, machine, words, items, root) if algorithm is None and items >= p > 1 else None
    return cheapest(machine, words, [best], lambda degree: trees(p, degree, root, order).cost(machine, whole), blocks)


def _blocks(machine: Machine, words: float, items: int, root: int) -> Cost:
    return Cost(machine, counted_blocks(machine.p, items, round(8 * words / items) if items else 0, root))


def cost(
    machine: Machine,
    words: float = 1,
    degree: int | None = None,
    root: int = 0,
    order: Order = "any",
    items: int = 0,
    algorithm: str | None = None,
) -> Cost:
    """What it costs, exactly, for values of so many words, where op keeps their size and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        words: of a value; where items are given, bytes / 8, so that it may be no whole number.
        degree: of the tree; None: what `reduce` would choose.
        root: who gets the result.
        order: "any" or "fixed".
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
        algorithm: "trees" or "blocks"; None: what `reduce` would choose.
    """
    name = "reduce.cost"
    whole = math.ceil(item_words(name, "words", words))
    order = checked_order(name, order)
    root = processor(name, "root", root, machine.p)
    given = fan_out(name, degree)
    items = integer(name, "items", items, 0)
    requested = trees_or_blocks(name, algorithm, ALGORITHMS, given, items, machine.p, "a value")
    how, chosen = ("trees", given) if given else choose(machine, words, items, order, root, requested)
    if how == "blocks":
        return _blocks(machine, words, items, root)
    return trees(machine.p, chosen, root, order).cost(machine, whole)


def _prepare(bsp: BSP, value: Any, op: Operator, order: Order, given: int | None, root: int) -> PreparedClimb | None:
    name = check_operator("reduce", op, value)
    order = checked_order("reduce", order)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    size = value.nbytes / 8 if items else words
    how, degree = (
        ("trees", fan_out("reduce", given)) if given is not None else choose(bsp.machine, size, items, order, root)
    )
    if how != "trees":
        return None
    agreed = {"value": kind, "op": name, "root": root, "degree": given, "algorithm": None, "order": order}
    return PreparedClimb(agreed, trees(bsp.p, degree, root, order).steps, fixed_order.fold(bsp.p, order), words)


def _small(
    bsp: BSP,
    value: Any,
    op: Operator,
    root: int = 0,
    degree: int | None = None,
    order: Order = "any",
    algorithm: str | None = None,
    *,
    out: Array | None = None,
) -> Any:
    if type(root) is not int:
        root = of_python(root)
    if algorithm is not None or type(root) is not int or not 0 <= root < bsp.p:
        return NOT_SMALL
    found = climb(bsp, "reduce", value, op, order, degree, _prepare, root, out if bsp.pid == root else None)
    return found if found is NOT_SMALL or bsp.pid == root else None


def _riding(
    bsp: BSP,
    value: Any,
    op: Operator,
    root: int = 0,
    degree: int | None = None,
    order: Order = "any",
    algorithm: str | None = None,
    *,
    out: Array | None = None,
) -> Ride[Any] | None:
    root = of_python(root)
    if algorithm is not None or type(root) is not int or not 0 <= root < bsp.p:
        return None
    return start(bsp, "reduce", value, op, order, degree, _prepare, root, out if bsp.pid == root else None)


def _quick(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The plain call, for `primitive`: it finds what `climb` has prepared, as most calls do."""

    def at_once(
        bsp: BSP,
        value: Any,
        op: Operator,
        root: int = 0,
        degree: int | None = None,
        order: Order = "any",
        algorithm: str | None = None,
        *,
        out: Array | None = None,
    ) -> Any:
        if degree is None and out is None and algorithm is None and type(root) is int:
            kind, found = type(value), None
            others = (None, root) if root else ()
            try:
                if kind in NUMBERS:  # most often to processor 0
                    found = bsp.prepared.get(("reduce", op, order, *others) if root else ("reduce", op, order))
                elif kind is np.ndarray:
                    found = bsp.prepared.get(("reduce", op, order, value.dtype, value.shape, *others))
            except (AttributeError, TypeError):
                pass  # bsp is no processor, or an argument cannot be hashed: see there
            if found is not None and found is not NOT_SMALL:
                result = found(value)
                if result is not NOT_SMALL:
                    if bsp.pid != root:
                        return None
                    return result.copy() if result is value and kind is np.ndarray else result
        return otherwise(bsp, value, op, root, degree, order, algorithm, out=out)

    return at_once


@primitive(cost, plan, _small, _riding, quick=_quick)
def reduce(
    bsp: BSP,
    value: Any,
    op: Operator,
    root: int = 0,
    degree: int | None = None,
    order: Order = "any",
    algorithm: str | None = None,
    *,
    out: Array | None = None,
) -> Supersteps[Any]:
    """Combine the values of all processors, in the order of pids, on one of them; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only.
        root: who gets the result; equal on all processors.
        degree: d of the tree, at least 2; None: the cheapest on `bsp.machine` for the size of the value (for objects:
            for one word), where long arrays under a ufunc go by blocks. Equal on all processors.
        order: "any": sums are made as the tree has them, so bits of floating-point sums depend on the degree, and on
            the machine that chooses it. "fixed": they depend on p and the values alone (fixed_order.py), and are those
            of `allreduce`; the degree is rounded down to a power of two. Equal on all processors.
        algorithm: "trees"; "blocks" (block j of an array of at least p items is combined on processor j, and goes to
            the root); None: the cheapest. Equal on all processors.
        out: keyword only; root only (ignored elsewhere): an array for the result, if that is one, of its shape and of a
            dtype that it can be cast to; it may be the value. None: a new one.

    Returns:
        On the root value_0 op value_1 op ... op value_{p-1}; None elsewhere. With p = 1 a copy of the value.

    Raises:
        UsageError: root, degree, order, algorithm, op's name, or dtype and shape differ or are out of range; op raised;
            values that the algorithm cannot cut.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words, and as many flop; by blocks 2 supersteps with
    h <= (p-1) * the words of the largest block, ceil(n/p) items, and as many flop. `reduce.cost` has it exactly.

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
    root = root_of("reduce", root, bsp)
    given = fan_out("reduce", degree)
    name = check_operator("reduce", op, value)
    order = checked_order("reduce", order)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    requested = trees_or_blocks("reduce", algorithm, ALGORITHMS, given, items, bsp.p, kind, op)
    call = Call(bsp, "reduce", order, value=kind, op=name, root=root, degree=given, algorithm=algorithm)
    if bsp.pid == root:
        checked_out("reduce", out)
    own = taken(value, "reduce")
    size = own.nbytes / 8 if items else words
    choice = ("trees", given) if given else choose(bsp.machine, size, items, order, root, requested)
    how, by = choice
    call.takes(len(by_blocks.plan(bsp.p, items, root) if how == "blocks" else trees(bsp.p, by, root, order)))
    total = yield from run(call, own, op, root, choice, words, order, out)
    return placed("reduce", alone(op, detached(total, value)), out) if bsp.pid == root else None


def run(
    call: Call,
    value: Any,
    op: Operator,
    root: int,
    choice: tuple[str, int],
    words: float,
    order: Order = "any",
    out: Array | None = None,
) -> Supersteps[Any]:
    """Run it with what `choose` chose, for values of so many words; what it returns counts on the root alone."""
    p = call.bsp.p
    how, degree = choice
    fold = fixed_order.fold(p, order)
    if how == "blocks":
        return (yield from by_blocks.run(call, value, op, value.itemsize / 8, fold, root, out))
    return (yield from climbed(call, trees(p, degree, root, order), value, op, words, fold))
