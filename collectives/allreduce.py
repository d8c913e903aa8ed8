"""Reduction to all: along p d-ary trees at once, or by blocks (after *Communication primitives*, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from ..bsp import BSP
from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from . import by_blocks, fixed_order, groups, tree
from .algorithms import cheapest, items_of, named, trees_or_blocks
from .arguments import Order, checked_order, fan_out, integer, item_words
from .counted.blocks import counted as counted_blocks
from .counted.groups import counted as counted_groups
from .operators import Operator, check_operator
from .plan import Plan
from .primitive import Call, climbed, primitive
from .record_layouts import Array
from .riding import quick_starts, starts
from .small_climbs import PreparedClimb, climbs, quick_climbs
from .values import alone, checked_out, descriptor, detached, placed, taken

ALGORITHMS = ("trees", "blocks")


def plan(p: int, degree: int = 2, order: Order = "any", algorithm: str = "trees", items: int = 0) -> Plan:
    """Who sends what to whom: the sum of its group (item 0) along trees; the items of an array by blocks.

    Args:
        p: processors.
        degree: of the trees.
        order: "any" or "fixed", which is of trees too.
        algorithm: "trees" or "blocks".
        items: of the array that is cut into blocks.
    """
    if named("allreduce.plan", algorithm, ALGORITHMS) == "blocks":
        return by_blocks.plan(p, integer("allreduce.plan", "items", items, p))
    return trees(p, degree, checked_order("allreduce.plan", order))


@lru_cache(maxsize=64)
def trees(p: int, degree: int, order: Order = "any") -> Plan:
    """Who sends the sum of its group (item 0) to whom: groups of consecutive processors, small ones first.

    All processors are one group; a group is cut into at most `degree` groups whose sizes differ by at most one. A
    processor gets the sums of the other parts of its group from those there with its place; a place that a smaller part
    lacks is served by its members in turn.
    """
    return groups.plan(p, _levels(p, degree, order), _work)


def _levels(p: int, degree: int, order: Order) -> Iterator[groups.Level]:
    return groups.balanced(p, degree) if order == "any" else fixed_order.levels(p, degree)


def _work(level: groups.Level) -> int:
    """Operations by which the sums of the parts of a group become its own."""
    return int(level.parts.max()) - 1


@lru_cache(maxsize=4096)
def counted(p: int, degree: int, order: Order = "any") -> tuple[tuple[Superstep, ...], int]:
    """What the supersteps of `plan` are charged for with a word, and the flop after them, without making it."""
    return counted_groups(_levels(p, degree, order), _work)


def _trees(machine: Machine, words: int, degree: int, order: Order) -> Cost:
    steps, after = counted(machine.p, degree, order)
    return Cost(machine, (step.times(words) for step in steps), after * words)


def _blocks(machine: Machine, words: float, items: int) -> Cost:
    return Cost(machine, counted_blocks(machine.p, items, round(8 * words / items) if items else 0))


@lru_cache(maxsize=1024)
def choose(
    machine: Machine, words: float, items: int = 0, order: Order = "any", algorithm: str | None = None
) -> tuple[str, int]:
    """What costs least: ("trees", degree), or ("blocks", 0) where op works on at least p items one by one."""
    if algorithm == "blocks":
        return "blocks", 0
    p, whole = machine.p, math.ceil(words)
    degrees = tree.degrees(p) if order == "any" else fixed_order.degrees(p)
    blocks = partial(_blocks, machine, words, items) if algorithm is None and items >= p > 1 else None
    return cheapest(machine, words, degrees, lambda degree: _trees(machine, whole, degree, order), blocks)


def cost(
    machine: Machine,
    words: float = 1,
    degree: int | None = None,
    items: int = 0,
    order: Order = "any",
    algorithm: str | None = None,
) -> Cost:
    """What it costs, exactly, for values of so many words, where op keeps their size and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        words: of a value; where items are given, bytes / 8, so that it may be no whole number.
        degree: of the trees; None: what `allreduce` would choose.
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
        order: "any" or "fixed".
        algorithm: "trees" or "blocks"; None: what `allreduce` would choose.
    """
    name = "allreduce.cost"
    order = checked_order(name, order)
    whole = math.ceil(item_words(name, "words", words))
    given = fan_out(name, degree)
    items = integer(name, "items", items, 0)
    requested = trees_or_blocks(name, algorithm, ALGORITHMS, given, items, machine.p, "a value")
    how, chosen = ("trees", given) if given else choose(machine, words, items, order, requested)
    return _blocks(machine, words, items) if how == "blocks" else _trees(machine, whole, chosen, order)


def _prepare(bsp: BSP, value: Any, op: Operator, order: Order, given: int | None, _: int) -> PreparedClimb | None:
    name = check_operator("allreduce", op, value)
    order = checked_order("allreduce", order)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    size = value.nbytes / 8 if items else words
    how, degree = (
        ("trees", fan_out("allreduce", given)) if given is not None else choose(bsp.machine, size, items, order)
    )
    if how != "trees":
        return None
    agreed = {"value": kind, "op": name, "degree": given, "algorithm": None, "order": order}
    return PreparedClimb(agreed, trees(bsp.p, degree, order).steps, fixed_order.fold(bsp.p, order), words)


@primitive(
    cost,
    plan,
    climbs("allreduce", _prepare),
    starts("allreduce", _prepare),
    quick=quick_climbs("allreduce"),
    quick_start=quick_starts("allreduce"),
)
def allreduce(
    bsp: BSP,
    value: Any,
    op: Operator,
    degree: int | None = None,
    order: Order = "any",
    algorithm: str | None = None,
    *,
    out: Array | None = None,
) -> Supersteps[Any]:
    """Combine the values of all processors, in the order of pids, on every one of them; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which gets arrays read-only. Under a ufunc Python's ints are of 64 bits, as numpy has them, and wrap; a
            function of Python's, as `operator.add`, is exact. `np.add` of truth values is an or, as numpy has it: to
            count them, give numbers (`int(x)`, `x.astype(int)`).
        degree: d of the trees, at least 2; None: the cheapest on `bsp.machine` for the size of the value (for objects:
            for one word), where long arrays under a ufunc go by blocks. Equal on all processors.
        order: "any": sums are made as what carries them has them, so bits of floating-point sums depend on the degree,
            and on the machine that chooses it. "fixed": they depend on p and the values alone (fixed_order.py); the
            degree is rounded down to a power of two. Equal on all processors.
        algorithm: "trees"; "blocks" (block j of an array of at least p items is combined on processor j, and goes to
            all); None: the cheapest. Equal on all processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to;
            it may be the value. None: a new one.

    Returns:
        value_0 op value_1 op ... op value_{p-1}. All processors get the same bits, in either order: each element of the
        result is made by the same operations on the same values everywhere, or by one processor. With p = 1 a copy of
        the value.

    Raises:
        UsageError: degree, order, algorithm, op's name, or dtype and shape differ or are out of range; op raised;
            values that the algorithm cannot cut.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words where p is a power of d, at most twice that
    elsewhere, and as many flop; by blocks 2 supersteps with h <= (p-1) * the words of the largest block, ceil(n/p)
    items, and as many flop. `allreduce.cost` has it exactly.

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
    name = check_operator("allreduce", op, value)
    order = checked_order("allreduce", order)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    requested = trees_or_blocks("allreduce", algorithm, ALGORITHMS, given, items, bsp.p, kind, op)
    call = Call(bsp, "allreduce", order, value=kind, op=name, degree=given, algorithm=algorithm)
    checked_out("allreduce", out)
    own = taken(value, "allreduce")
    choice = (
        ("trees", given) if given else choose(bsp.machine, own.nbytes / 8 if items else words, items, order, requested)
    )
    call.ends(supersteps(bsp.p, choice, items, order))
    result = detached((yield from run(call, own, op, choice, words, order, out)), value)
    return placed(call.name, alone(op, result), out)


def supersteps(p: int, choice: tuple[str, int], items: int = 0, order: Order = "any") -> int:
    """How many `run` takes, of values of so many items."""
    how, degree = choice
    return len(by_blocks.plan(p, items) if how == "blocks" else trees(p, degree, order))


def run(
    call: Call,
    value: Any,
    op: Operator,
    choice: tuple[str, int],
    words: float,
    order: Order = "any",
    out: Array | None = None,
) -> Supersteps[Any]:
    """Run it with what `choose` chose, for values of so many words; the result is made in `out` where it fits."""
    p = call.bsp.p
    how, degree = choice
    fold = fixed_order.fold(p, order)
    if how == "blocks":
        return (yield from by_blocks.run(call, value, op, value.itemsize / 8, fold, out=out))
    return (yield from climbed(call, trees(p, degree, order), value, op, words, fold))
