"""Exclusive prefix, along d-ary trees or by blocks: what lies before a processor (section 3)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import argument_error
from ..ground.short_records import INT_END, NUMBERS
from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from . import exclusive_blocks, prefix_fixed, prefix_trees, tree
from .algorithms import cheapest, items_of, named, trees_or_blocks
from .arguments import Order, checked_order, fan_out, integer, item_words
from .blocks import Ints
from .counted.prefix_trees import counted as counted_trees
from .one_superstep import Exchange, new_exchange
from .operators import Operator, applied, check_operator, elementwise, guarded
from .plan import Plan, joined
from .prefix_2d import climbed_before
from .primitive import NOT_SMALL, Call, primitive, remember
from .values import alone, checked_out, descriptor, detached, is_array, is_number, placed, taken

ALGORITHMS = ("trees", "blocks")


def plan(p: int, degree: int = 2, algorithm: str = "trees", items: int = 0, order: Order = "any") -> Plan:
    """Who sends what to whom: along trees the sum of the processors up to itself, d^t of them in superstep t.

    Args:
        p: processors.
        degree: of the trees.
        algorithm: "trees" or "blocks".
        items: of the array that goes by blocks.
        order: "any" or "fixed", in which it is that of its part of a group (prefix_fixed.py).
    """
    name = "exclusive_prefix.plan"
    p = integer(name, "p", p, 1)
    requested = _ordered(name, named(name, algorithm, ALGORITHMS), order)
    if requested == "blocks":
        return exclusive_blocks.plan(p, integer(name, "items", items, p))
    return prefix_fixed.plan(p, degree, exclusive=True) if order == "fixed" else trees(p, degree)


def _ordered(name: str, requested: str | None, order: Order) -> str | None:
    """The algorithm that is asked for, in that order.

    Raises:
        UsageError: it has none that is fixed.
    """
    if requested == "blocks" and order == "fixed":
        raise argument_error(name, "order", '"any" with algorithm="blocks"', '"fixed"')
    return requested


@lru_cache(maxsize=64)
def trees(p: int, degree: int) -> Plan:
    """Who sends what to whom along trees."""
    scheme = prefix_trees.plan((p,), degree)
    works = _works(p, degree)
    return joined(p, [replace(step, work=work) for step, work in zip(scheme, works, strict=False)], works[-1])


def _works(p: int, degree: int) -> list[int]:
    """Operations of the last processor before each sync, and after the last one.

    Of f sums that come it makes one, in f - 1 operations, and puts it in front of its exclusive sum, which it has not
    in the first superstep, and of its inclusive one, which goes nowhere behind the last.
    """
    levels = tree.height(p, degree)
    fans = [min(degree - 1, (p - 1) // degree**level) for level in range(levels)]
    return [0, *(fan - 1 + (level > 0) + (level < levels - 1) for level, fan in enumerate(fans))]


def last_works(p: int, degree: int) -> Ints:
    """Operations of each processor after the last sync, shape (p,)."""
    levels = tree.height(p, degree)
    if levels == 0:
        return np.zeros(p, np.int64)
    came = np.minimum(degree - 1, np.arange(p) // degree ** (levels - 1))
    return np.where(came > 0, came - 1 + (levels > 1), 0)


@lru_cache(maxsize=4096)
def counted(p: int, degree: int, words: float) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, without making it: it has up to p^2/2 messages."""
    steps = zip(counted_trees((p,), degree, words), _works(p, degree), strict=False)
    return tuple(step._replace(w=work * words) for step, work in steps)


def _trees(machine: Machine, words: float, degree: int) -> Cost:
    return Cost(machine, counted(machine.p, degree, words), _works(machine.p, degree)[-1] * words)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: float) -> int:
    """The degree of the trees that costs least."""
    return min(tree.degrees(machine.p), key=lambda degree: _trees(machine, words, degree).seconds)


@lru_cache(maxsize=1024)
def choose_way(
    machine: Machine, words: float, items: int, requested: str | None, given: int | None, order: Order = "any"
) -> tuple[str, int]:
    """What costs least: ("trees", degree), or ("blocks", 0) where op works on the items of an array one by one."""
    if order == "fixed":
        return "trees", given or prefix_fixed.choose(machine, math.ceil(words), True)
    if requested == "blocks":
        return "blocks", 0
    whole, blocks = math.ceil(words), None
    if requested is None and items >= machine.p > 1:
        blocks = partial(exclusive_blocks.cost, machine, items, words / items)
    return cheapest(machine, words, [given or choose(machine, whole)], partial(_trees, machine, whole), blocks)


def cost(
    machine: Machine,
    words: float = 1,
    degree: int | None = None,
    items: int = 0,
    algorithm: str | None = None,
    order: Order = "any",
) -> Cost:
    """What it costs, exactly, for values of so many words, where op keeps their size and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        words: of a value; where items are given, bytes / 8, so that it may be no whole number.
        degree: of the trees; None: what `exclusive_prefix` would choose.
        items: of a value that is an array, where op is a ufunc; 0: op takes values whole.
        algorithm: "trees" or "blocks"; None: what `exclusive_prefix` would choose.
        order: "any" or "fixed".
    """
    name = "exclusive_prefix.cost"
    order = checked_order(name, order)
    words, given = item_words(name, "words", words), fan_out(name, degree)
    items = integer(name, "items", items, 0)
    requested = _ordered(name, trees_or_blocks(name, algorithm, ALGORITHMS, given, items, machine.p, "a value"), order)
    how, by = choose_way(machine, words, items, requested, given, order)
    if how == "blocks":
        return exclusive_blocks.cost(machine, items, words / max(items, 1))
    if order == "fixed":
        return prefix_fixed.cost(machine, math.ceil(words), by, True)
    return _trees(machine, math.ceil(words), by)


ABSENT: Any = object()  # nothing was prepared; None stands for what takes more supersteps


class PreparedPrefix(NamedTuple):
    """What a plain call is made of that depends on its arguments alone; `first`: what processor 0 gets, or None."""

    exchange: Exchange
    words: int
    first: Any


def _prepare(bsp: BSP, value: Any, op: Operator, degree: int | None) -> PreparedPrefix | None:
    """None: it is not one superstep."""
    given = fan_out("exclusive_prefix", degree)
    name = check_operator("exclusive_prefix", op, value)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    size = value.nbytes / 8 if items else words
    how, by = choose_way(bsp.machine, size, items, None if given is None else "trees", given)
    if how != "trees" or len(scheme := trees(bsp.p, by)) != 1:
        return None
    agreed = {"value": kind, "op": name, "degree": given, "algorithm": None, "order": "any"}
    return PreparedPrefix(new_exchange(bsp, "exclusive_prefix", agreed, scheme), words, _identity(op, value))


def _small(
    bsp: BSP,
    value: Any,
    op: Operator,
    initial: Any = None,
    degree: int | None = None,
    algorithm: str | None = None,
    *,
    order: Order = "any",
    out: Any = None,
) -> Any:
    name, pid = "exclusive_prefix", bsp.pid
    if algorithm is not None or checked_order(name, order) == "fixed":
        return NOT_SMALL
    if degree is not None and type(degree) is not int:
        degree = fan_out(name, degree)  # 2.0 is no degree, and would be found as 2
    kind = type(value)
    # What processor 0 gets depends on the dtype that numpy makes of a number.
    if kind is int:
        key: Any = (name, op, degree, kind, None if -INT_END <= value < INT_END else np.asarray(value).dtype)
    elif kind in NUMBERS:
        key = (name, op, degree, kind)
    elif is_array(value):
        key = (name, op, degree, value.dtype, value.shape)
    elif is_number(value):
        key = (name, op, degree, kind, value.dtype if isinstance(value, np.generic) else None)
    else:
        return NOT_SMALL
    try:
        found: PreparedPrefix | None = bsp.prepared.get(key, ABSENT)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return NOT_SMALL
    if found is ABSENT:
        found = remember(bsp, key, _prepare(bsp, value, op, degree))
    if found is None:
        return NOT_SMALL
    if out is not None:
        checked_out(name, out)
    before: Any = None
    if pid == 0:
        before = _first(found.first, value, initial, out)
    came = found.exchange(value)
    if came is NOT_SMALL:
        return came
    if came:
        before = came[0]
        if len(came) > 1:
            before = applied(name, reduce, guarded(bsp.notes.gate, op), came)
            bsp.work((len(came) - 1) * found.words)
        if kind is np.ndarray and isinstance(before, np.generic):
            before = np.array(before)  # numpy's operators make numbers of arrays without axes
    if isinstance(before, np.ndarray) and (before is found.first or not before.flags.owndata):
        before = before.copy()
    before = alone(op, before)
    return before if out is None else placed(name, before, out)


@primitive(cost, plan, _small)
def exclusive_prefix(
    bsp: BSP,
    value: Any,
    op: Operator,
    initial: Any = None,
    degree: int | None = None,
    algorithm: str | None = None,
    *,
    order: Order = "any",
    out: NDArray[Any] | None = None,
) -> Supersteps[Any]:
    """The prefix sums of the processors' values without a processor's own; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; of an array, dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise on arrays) or a function of two values,
            which must not change them.
        initial: what processor 0 gets, as nothing lies before it; no other processor uses it. None: the identity of op,
            of the value's dtype and shape, where op is a ufunc that has one, as 0 of np.add; else None. Beside arrays a
            number is an array of their shape.
        degree: d of the trees, at least 2; p or more: one superstep, in which each sends to all above it. None: the
            cheapest on `bsp.machine` for the size of the value (for objects: for one word), where long arrays under a
            ufunc go by blocks. Equal on all processors.
        algorithm: "trees"; "blocks", of an array of at least p items under a ufunc, as `prefix_2d` has them; None: the
            cheapest, or trees where a degree is given. Equal on all processors.
        order: keyword only. "any": sums are made as what carries them has them. "fixed": along trees alone, and bits
            depend on p and the values alone: they are those of `prefix` on the processor before, in that order. Equal
            on all processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to.
            None: a new one.

    Returns:
        value_0 op value_1 op ... op value_{pid-1}; on processor 0 `initial`. Arrays are of its own.

    Raises:
        UsageError: degree, algorithm, order, op's name, or dtype and shape differ or are out of range; op raised; a
            value that the algorithm cannot cut.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words and d flop a word, in the fixed order as `prefix`;
    by blocks two with h below words + p and (p-2)/p flop a word. `exclusive_prefix.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3, as `prefix`; the trees carry the exclusive sums
    along, so that no superstep shifts them. MPI's Exscan.

    Examples:
        >>> import operator
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return int(collectives.exclusive_prefix(bsp, 10 + bsp.pid, np.add))
        >>> pybsp.simulate(main, p=4).results
        [0, 10, 21, 33]
        >>> def main(bsp):
        ...     return collectives.exclusive_prefix(bsp, "abcd"[bsp.pid], operator.add, initial="")
        >>> pybsp.simulate(main, p=4).results
        ['', 'a', 'ab', 'abc']
    """
    given = fan_out("exclusive_prefix", degree)
    name = check_operator("exclusive_prefix", op, value)
    kind, words = descriptor(value, op)
    items = items_of(value, op)
    order = checked_order("exclusive_prefix", order)
    requested = trees_or_blocks("exclusive_prefix", algorithm, ALGORITHMS, given, items, bsp.p, kind, op)
    requested = _ordered("exclusive_prefix", requested, order)
    call = Call(bsp, "exclusive_prefix", order, value=kind, op=name, degree=given, algorithm=algorithm)
    checked_out("exclusive_prefix", out)
    own = taken(value, "exclusive_prefix")
    if is_array(value):
        own = own.copy()  # the caller may change it once it is sent
        own.flags.writeable = False
    first = None
    if bsp.pid == 0:
        first = _first(None if initial is not None else _identity(op, value), value, initial, out)
    size = value.nbytes / 8 if items else words
    how, by = choose_way(bsp.machine, size, items, requested, given, order)
    if order == "fixed":
        call.takes(len(prefix_fixed.plan(bsp.p, by, exclusive=True)))
        before = yield from prefix_fixed.run(call, own, op, by, words, exclusive=True)
    elif how == "blocks":
        call.takes(len(exclusive_blocks.plan(bsp.p, items)))
        before = yield from exclusive_blocks.run(call, own.reshape(-1), op, own.itemsize / 8)
        before = before if before is None else before.reshape(own.shape)
    else:
        call.takes(len(trees(bsp.p, by)))
        before = yield from run(call, own, op, by, words)
    if bsp.pid == 0:
        before = first
    elif is_array(value) and isinstance(before, np.generic):
        before = np.array(before)  # numpy's operators make numbers of arrays without axes
    return placed("exclusive_prefix", alone(op, before), out)


def run(call: Call, value: Any, op: Operator, degree: int, words: float) -> Supersteps[Any]:
    """Climb the trees with values of so many words; None on processor 0."""
    return (yield from climbed_before(call, trees(call.bsp.p, degree), value, op, words))


def _first(identity: Any, value: Any, initial: Any, out: Any) -> Any:
    """What processor 0 gets: the argument initial, or the identity of op; a UsageError where out gets neither."""
    if initial is None:
        if identity is None and out is not None:
            expected = "what processor 0 gets in out, as nothing lies before it and op has no identity"
            raise argument_error("exclusive_prefix", "initial", expected, "None")
        return identity
    first = detached(taken(initial, "exclusive_prefix", "initial"), initial)
    if is_array(value) and is_number(first) and {value.dtype.kind, np.asarray(first).dtype.kind} <= set("biufc"):
        return np.full(value.shape, first, np.result_type(value.dtype, first))
    return first


def _identity(op: Operator, value: Any) -> Any:
    """The identity of op as such a value; None where there is none."""
    if not (isinstance(op, np.ufunc) and elementwise(op)) or op.identity is None:
        return None
    if not is_number(value) and not (is_array(value) and value.dtype.kind not in "USV"):
        return None
    given = np.asarray(value)
    # That of np.logaddexp is no integer; -1, of np.bitwise_and, is all bits of an unsigned number too.
    dtype = np.result_type(given.dtype, op.identity) if isinstance(op.identity, float) else given.dtype
    identity = np.array(op.identity).astype(dtype)
    return np.broadcast_to(identity, given.shape).copy() if is_array(value) else identity[()]
