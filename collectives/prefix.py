"""Prefix along d-ary trees (*Communication primitives for BSP computers*, section 3)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..bsp import BSP
from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from . import prefix_fixed, prefix_trees, tree
from .algorithms import divisible, items_of, joining, named
from .arguments import Order, checked_order, fan_out, integer, item_words
from .counted.prefix_trees import counted as counted_trees
from .counted.prefix_trees import last_work
from .operators import Operator, check_operator, in_turn
from .plan import Plan
from .prefix_2d import choose as choose_2d
from .prefix_2d import cost as cost_2d
from .prefix_2d import plan as plan_2d
from .prefix_2d import run as run_2d
from .primitive import Call, climbed, primitive
from .record_layouts import Array
from .riding import quick_starts, starts
from .small_climbs import PreparedClimb, climbs, quick_climbs
from .values import alone, checked_out, descriptor, detached, placed, taken

ALGORITHMS = ("trees", "2d")


def plan(p: int, degree: int = 2, order: Order = "any", algorithm: str = "trees", items: int = 0) -> Plan:
    """Who sends what to whom: sums (item 0) along trees; the items of an array by 2D-PREFIX.

    Along trees it is the sum of the processors up to itself, d^t of them in superstep t; in the fixed order that of its
    part of a group (prefix_fixed.py).

    Args:
        p: processors.
        degree: of the trees.
        order: "any" or "fixed".
        algorithm: "trees" or "2d".
        items: of the array that goes by 2D-PREFIX.
    """
    p = integer("prefix.plan", "p", p, 1)
    order = checked_order("prefix.plan", order)
    if named("prefix.plan", algorithm, ALGORITHMS) == "2d":
        return plan_2d(p, integer("prefix.plan", "items", items, 1), degree, order)
    return prefix_fixed.plan(p, degree) if order == "fixed" else prefix_trees.plan((p,), degree)


@lru_cache(maxsize=4096)
def counted(p: int, degree: int, words: float) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, without making it: it has up to p^2/2 messages."""
    return counted_trees((p,), degree, words)


def _trees(machine: Machine, words: int, degree: int, order: Order) -> Cost:
    if order == "fixed":
        return prefix_fixed.cost(machine, words, degree)
    p = machine.p
    return Cost(machine, counted(p, degree, words), last_work(p, degree) * words)


@lru_cache(maxsize=1024)
def choose(
    machine: Machine, words: float, items: int = 0, order: Order = "any", algorithm: str | None = None
) -> tuple[str, int]:
    """What costs least: ("trees", degree), or ("2d", degree) where op works on the items of an array one by one.

    2D-PREFIX is charged for joining its pieces too (algorithms.py).
    """
    p, whole = machine.p, math.ceil(words)
    ways: list[tuple[str, int]] = []
    if algorithm in (None, "trees"):
        if order == "fixed":
            ways.append(("trees", prefix_fixed.choose(machine, whole)))
        else:
            ways.append(
                ("trees", min(tree.degrees(p), key=lambda degree: _trees(machine, whole, degree, order).seconds))
            )
    if algorithm == "2d" or (algorithm is None and items > 1 and p > 1):
        ways.append(("2d", choose_2d(machine, items, words / items if items else 1, order)))

    def seconds(how: str, degree: int) -> float:
        more = joining(machine, words) if how == "2d" else 0.0
        return _cost(machine, words, items, order, how, degree).seconds + more

    return min(ways, key=lambda way: seconds(*way))


def _cost(machine: Machine, words: float, items: int, order: Order, how: str, degree: int) -> Cost:
    if how == "2d":
        return cost_2d(machine, items, words / items if items else 1, degree, order)
    return _trees(machine, math.ceil(words), degree, order)


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
        degree: of the trees; None: what `prefix` would choose.
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
        order: "any" or "fixed".
        algorithm: "trees" or "2d"; None: what `prefix` would choose.
    """
    name = "prefix.cost"
    order = checked_order(name, order)
    words = item_words(name, "words", words)
    given = fan_out(name, degree)
    items = integer(name, "items", items, 0)
    requested = _requested(name, algorithm, given, items, "a value")
    how, chosen = (requested, given) if requested and given else choose(machine, words, items, order, requested)
    return _cost(machine, words, items, order, how, chosen)


def _requested(
    name: str, algorithm: str | None, degree: int | None, items: int, value: str, op: Any = np.add
) -> str | None:
    """Which algorithm is asked for; a degree alone asks for trees.

    Raises:
        UsageError: there is none of that name, or it cannot cut the value.
    """
    requested = named(name, algorithm, ALGORITHMS) or (None if degree is None else "trees")
    if requested == "2d":
        divisible(name, requested, items, 1, value, op)
    return requested


def _prepare(bsp: BSP, value: Any, op: Operator, order: Order, given: int | None, _: int) -> PreparedClimb | None:
    name = check_operator("prefix", op, value)
    if checked_order("prefix", order) == "fixed":
        return None
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    how, degree = (
        ("trees", fan_out("prefix", given))
        if given is not None
        else choose(bsp.machine, value.nbytes / 8 if items else words, items, order)
    )
    if how != "trees":
        return None
    agreed = {"value": kind, "op": name, "degree": given, "algorithm": None, "order": order}
    return PreparedClimb(agreed, prefix_trees.plan((bsp.p,), degree).steps, in_turn, words)


@primitive(
    cost,
    plan,
    climbs("prefix", _prepare),
    starts("prefix", _prepare),
    quick=quick_climbs("prefix"),
    quick_start=quick_starts("prefix"),
)
def prefix(
    bsp: BSP,
    value: Any,
    op: Operator,
    degree: int | None = None,
    order: Order = "any",
    algorithm: str | None = None,
    *,
    out: Array | None = None,
) -> Supersteps[Any]:
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
        algorithm: "trees"; "2d", 2D-PREFIX of the items of an array under a ufunc, as `prefix_2d` has it, where degree
            is that of its trees; None: the cheapest, or trees where a degree is given. Equal on all processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to;
            it may be the value. None: a new one.

    Returns:
        value_0 op value_1 op ... op value_pid; on processor 0 a copy of the value. Under a ufunc a number is one of
        numpy's, on processor 0 too.

    Raises:
        UsageError: degree, order, algorithm, op's name, or dtype and shape differ or are out of range; op raised; a
            value that the algorithm cannot cut.

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
    name = check_operator("prefix", op, value)
    order = checked_order("prefix", order)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    requested = _requested("prefix", algorithm, given, items, kind, op)
    call = Call(bsp, "prefix", order, value=kind, op=name, degree=given, algorithm=algorithm)
    checked_out("prefix", out)
    own = taken(value, "prefix")
    size = own.nbytes / 8 if items else words
    choice = (requested, given) if requested and given else choose(bsp.machine, size, items, order, requested)
    how, by = choice
    call.takes(len(plan_2d(bsp.p, items, by, order) if how == "2d" else plan(bsp.p, by, order)))
    result = detached((yield from run(call, own, op, choice, words, order)), value)
    return placed("prefix", alone(op, result), out)


def run(
    call: Call, value: Any, op: Operator, choice: tuple[str, int], words: float, order: Order = "any"
) -> Supersteps[Any]:
    """Run it with what `choose` chose, for values of so many words."""
    how, degree = choice
    if how == "2d":
        rows = yield from run_2d(call, value.reshape(-1), op, degree, value.itemsize / 8, order)
        return rows.reshape(value.shape)
    if order == "fixed":
        return (yield from prefix_fixed.run(call, value, op, degree, words))
    return (yield from climbed(call, prefix_trees.plan((call.bsp.p,), degree), value, op, words))
