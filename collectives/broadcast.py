"""Broadcast along a d-ary tree (*Communication primitives for BSP computers*, section 3), or in pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ..bsp import BSP
from ..errors import argument_error
from ..ground.short_records import NUMBERS
from ..machines.cost import Cost, Machine
from ..rides.ride import Ride, Start, Supersteps
from . import broadcast_groups, dissemination, tree
from .algorithms import named
from .arguments import fan_out, integer, of_python, processor, root_of
from .broadcast_items import choose as choose_items
from .broadcast_items import plan as plan_items
from .broadcast_items import run as run_items
from .counted.broadcast_groups import counted as counted_groups
from .counted.broadcast_items import counted as counted_items
from .dissemination import Carry, Copy
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, Call, primitive, sources
from .record_layouts import Array, is_described
from .riding import MOST
from .riding import spread as spread_riding
from .small_spreads import spread
from .values import checked_out, descriptor, is_array, is_number, placed

ALGORITHMS = ("trees", "2d", "groups")


def plan(p: int, degree: int = 2, root: int = 0, algorithm: str = "trees", words: int = 1, pieces: int = 2) -> Plan:
    """Who sends what to whom: the value (item 0) along a tree; words of it by the others.

    Args:
        p: processors.
        degree: of the trees.
        root: whose value.
        algorithm: "trees", "2d" or "groups".
        words: of the value.
        pieces: that "groups" makes of it, at most p and its words.
    """
    processor("broadcast.plan", "root", root, p)
    how = named("broadcast.plan", algorithm, ALGORITHMS)
    if how == "2d":
        return plan_items(p, words, degree, root)
    if how == "groups":
        words = integer("broadcast.plan", "words", words, 0)
        return broadcast_groups.plan(p, words, integer("broadcast.plan", "pieces", pieces, 1, p), degree, root)
    return trees(p, degree, root)


@lru_cache(maxsize=256)
def trees(p: int, degree: int, root: int = 0) -> Plan:
    """Who sends the value (item 0) to whom: d - 1 copies a superstep from every processor that has it."""
    levels = reversed(range(tree.height(p, degree)))
    return joined(p, (Step.of(*tree.edges(p, degree, level, root)) for level in levels))


def _seconds(machine: Machine, words: int, how: str, by: Any) -> float:
    return _cost(machine, words, how, by, 0).seconds


def _cost(machine: Machine, words: int, how: str, by: Any, root: int) -> Cost:
    if how == "trees":
        return trees(machine.p, by, root).cost(machine, words)
    if how == "2d":
        return Cost(machine, counted_items(machine.p, words, by))
    return Cost(machine, counted_groups(machine.p, words, *by))


@lru_cache(maxsize=1024)
def choose(
    machine: Machine,
    words: int,
    divisible: bool = True,
    algorithm: str | None = None,
    degree: int | None = None,
) -> tuple[str, Any]:
    """How to broadcast so many words at least cost.

    Args:
        machine: whose costs.
        words: of the value.
        divisible: whether it may be cut.
        algorithm: the one to be used; None: the cheapest, or trees of the degree that is given.
        degree: of the trees; None: the cheapest.

    Returns:
        ("trees", degree), ("2d", degree) or ("groups", (pieces, degree)).
    """
    ways: list[tuple[str, Any]] = []
    if algorithm in (None, "trees"):
        degrees = [degree] if degree else tree.degrees(machine.p)
        ways += [("trees", min(degrees, key=lambda d: _seconds(machine, words, "trees", d)))]
    cut = divisible and words > 1 and machine.p > 2 and degree is None
    if algorithm == "2d" or (algorithm is None and cut):
        ways += [("2d", degree or choose_items(machine, words))]
    if algorithm == "groups" or (algorithm is None and cut):
        ways += [("groups", broadcast_groups.choose(machine, words, degree))]
    return min(ways, key=lambda way: _seconds(machine, words, *way))


def cost(
    machine: Machine, words: int = 1, degree: int | None = None, root: int = 0, algorithm: str | None = None
) -> Cost:
    """What broadcasting so many words costs, exactly.

    Args:
        machine: its p is that of the processors.
        words: of the value; more than one may be cut.
        degree: of the trees; None: what `broadcast` would choose.
        root: whose value.
        algorithm: "trees", "2d" or "groups"; None: what `broadcast` would choose.
    """
    words = integer("broadcast.cost", "words", words, 0)
    root = processor("broadcast.cost", "root", root, machine.p)
    requested = named("broadcast.cost", algorithm, ALGORITHMS)
    return _cost(machine, words, *choose(machine, words, True, requested, fan_out("broadcast.cost", degree)), root)


def _flat(bsp: BSP, words: int, divisible: bool) -> bool:
    """Whether so many words go to all in one superstep."""
    how, by = choose(bsp.machine, words, divisible)
    return how == "trees" and by >= bsp.p


def _small(
    bsp: BSP,
    value: Any,
    root: int = 0,
    degree: int | None = None,
    algorithm: str | None = None,
    like: Any = None,
    *,
    out: Array | None = None,
) -> Any:
    if type(root) is not int:
        root = of_python(root)
    if degree is not None or algorithm is not None or type(root) is not int:
        return NOT_SMALL
    if out is not None:
        checked_out("broadcast", out)
    kind = None
    if like is not None:  # nothing needs it here, but that all say the same and the root's value is so
        if not (is_number(like) or (is_array(like) and like.nbytes <= MOST)):
            return NOT_SMALL
        _check_like(value, like, bsp.pid == root)
        kind = descriptor(like).kind
    spreading = bsp.prepared.get(("broadcast", root, kind))
    if spreading is not None:
        result = spreading(value, out)
        return result if out is None or result is NOT_SMALL else placed("broadcast", result, out)

    agreed = {"root": root, "degree": None, "algorithm": None} | ({} if kind is None else {"like": kind})

    def steps() -> Supersteps[Any]:
        return broadcast.steps(bsp, None, root, like=like)

    result = spread(bsp, "broadcast", value, root, agreed, partial(_flat, bsp), steps, kind, out)
    return result if out is None or result is NOT_SMALL else placed("broadcast", result, out)


def _pipes(
    bsp: Any, value: Any, root: Any = 0, degree: Any = None, algorithm: Any = None, like: Any = None, *, out: Any = None
) -> bool:
    return (
        degree is None
        and algorithm is None
        and like is None
        and is_array(value)
        and is_described(value)
        and _flat(bsp, (value.nbytes + 7) >> 3, True)
    )


def _riding(
    bsp: BSP,
    value: Any,
    root: int = 0,
    degree: int | None = None,
    algorithm: str | None = None,
    like: Any = None,
    *,
    out: Array | None = None,
) -> Ride[Any] | None:
    if out is not None or algorithm is not None:
        return None
    root, degree = of_python(root), of_python(degree)
    if type(root) is not int or not 0 <= root < bsp.p or (degree is not None and type(degree) is not int):
        return None
    if not is_number(like) and not (is_array(like) and like.dtype.kind in "biufc" and 0 < like.nbytes <= MOST):
        return None
    kind, words = descriptor(like)
    how, by = choose(bsp.machine, words, not is_number(like), None, fan_out("broadcast", degree))
    if how != "trees" or by < bsp.p:
        return None
    _check_like(value, like, bsp.pid == root)
    agreed = {"root": root, "degree": degree, "algorithm": None, "like": kind}
    return spread_riding(bsp, "broadcast", value, root, agreed, like, words)


def _quick_start(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """`start`, for `primitive`: of numbers it finds what is prepared, as most calls do."""

    def at_once(
        bsp: BSP,
        value: Any,
        root: int = 0,
        degree: int | None = None,
        algorithm: str | None = None,
        like: Any = None,
        *,
        out: Array | None = None,
    ) -> Any:
        if type(like) in NUMBERS and type(root) is int and degree is None and out is None and algorithm is None:
            try:
                rider: Start | None = bsp.prepared.get(("start", "broadcast", root, None))
            except AttributeError:  # bsp is no processor: see there
                rider = None
            if rider is not None and (type(value) in NUMBERS or bsp.pid != root):
                return rider(value, None)
        return otherwise(bsp, value, root, degree, algorithm, like, out=out)

    return at_once


@primitive(cost, plan, _small, _riding, _pipes, quick_start=_quick_start)
def broadcast(
    bsp: BSP,
    value: Any,
    root: int = 0,
    degree: int | None = None,
    algorithm: str | None = None,
    like: Any = None,
    *,
    out: Array | None = None,
) -> Supersteps[Any]:
    """Give all processors the value of one; collective.

    Args:
        bsp: the processor.
        value: root only (ignored elsewhere): a number, an array, or any picklable object.
        root: whose value; equal on all processors.
        degree: d of the tree, at least 2 (more than p is p): every processor that has the value sends d - 1 copies in a
            superstep. None: the cheapest on `bsp.machine`, where large arrays and objects go in pieces. Equal on all
            processors.
        algorithm: "trees", of whole values; "2d", 2D-BCAST as `broadcast_items` has it; "groups", c pieces to c groups
            of processors, with the cheapest c (broadcast_groups.py); degree is that of their trees. None: the cheapest,
            or a tree where a degree is given. Equal on all processors.
        like: a number, or an array of the dtype and shape of the root's value, on all processors: then all know from
            the start what comes, and `start` gives every one of them a ticket that knows its supersteps.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to.
            None: a new one.

    Returns:
        On the root its own object (of a read-only array a copy, as what arrives ends with the next sync); elsewhere a
        value of its own, which may be written to.

    Raises:
        UsageError: root is no processor, degree is below 2, there is no such algorithm, or these differ; a value that
            cannot be pickled.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words; 2D-BCAST of k words has two with
    h = k - ceil(k/p) and ceil(k/p) * (p-1), below 2k, and at most 2(p-1) messages, where k >= p; c groups have two with
    h < k and h < 2k, and 2(c-1) messages, and between them those of a tree of pieces over ceil(p/c) processors.
    `broadcast.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.broadcast(bsp, {"tolerance": 1e-3} if bsp.pid == 0 else None)
        >>> pybsp.simulate(main, p=3).results[2]
        {'tolerance': 0.001}
        >>> machine = pybsp.BSPMachine(p=64, g=1e-8, l=1e-5, r=1e9)
        >>> collectives.broadcast.cost(machine, words=1).supersteps
        1
        >>> collectives.broadcast.plan(8, degree=4)
        <plan: 2 supersteps on 8 processors, 7 messages>
    """
    root = root_of("broadcast", root, bsp)
    given = fan_out("broadcast", degree)
    requested = named("broadcast", algorithm, ALGORITHMS)
    checked_out("broadcast", out)
    if like is not None:
        _check_like(value, like, bsp.pid == root)
    more = {} if like is None else {"like": descriptor(like).kind}
    call = Call(bsp, "broadcast", root=root, degree=given, algorithm=requested, **more)

    def choice(words: int, divisible: bool) -> tuple[str, Any]:
        return choose(bsp.machine, words, divisible, requested, given)

    return placed("broadcast", (yield from dissemination.run(call, value, root, choice, _WAYS, like, out)), out)


def _check_like(value: Any, like: Any, is_root: bool) -> None:
    """The argument like, and on the root the value that is to be like it."""
    if not (is_number(like) or is_array(like)):
        expected = "a number or an array of plain data, as the root's value"
        raise argument_error("broadcast", "like", expected, type(like).__name__, "without it the value may be anything")
    if is_root and (is_number(value), descriptor(value).kind) != (is_number(like), descriptor(like).kind):
        expected = f"{descriptor(like).kind}, as argument like says"
        raise argument_error("broadcast", "value", expected, descriptor(value).kind)


def run(call: Call, copy: Copy, root: int) -> Supersteps[None]:
    """The tree, from where this processor has the value, or waits for it at its place."""
    levels = trees(call.bsp.p, copy.envelope.by, root)
    if not copy.superstep:
        call.takes(len(levels))
    dissemination.began(call, copy, levels)
    for level in levels[copy.superstep :]:
        # A processor that has the value makes d - 1 copies of it, and sends one to each of its children.
        for child, _, _ in level.sends(call.bsp.pid):
            call.send(child, copy.part(0, 1), copy.note)
        due = level.receives(call.bsp.pid)  # nothing, to who has the value
        copy.take((yield from call.sync(sources(due))), due)


_WAYS: dict[str, Carry] = {"trees": run, "2d": run_items, "groups": broadcast_groups.run}
