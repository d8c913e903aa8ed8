"""Broadcast along a tree whose levels have fan-outs of their own (*The E-BSP model*, section 4, figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...bsp import BSP
from ...errors import UsageError, argument_error, brief
from ...machines.cost import Cost, Machine, Superstep
from ...rides.ride import Supersteps
from .. import dissemination
from ..arguments import integer, processor
from ..plan import Numbers, Plan, Step, joined
from ..primitive import Call, primitive
from .partition import checked_machine

FanOuts = tuple[int, ...]
Trees = tuple[tuple[int, int, int], ...]  # (how many, processors of each, words that each broadcasts)


# -- levels of a tree ---------------------------------------------------------------------------------------------


def leaders(start: Numbers, size: int, root: int) -> Numbers:
    """For each processor the leader of its group of so many: the first of them, or the root.

    start: for each processor the first one of its tree, shape (p,), ascending; groups count from there.
    """
    pid = np.arange(start.size)
    first = start + (pid - start) // size * size
    return np.where(first == first[root], root, first).astype(np.int32)


def edges(start: Numbers, size: int, fan_out: int, root: int) -> tuple[Numbers, Numbers]:
    """A level: the leaders of the groups of size * fan_out, and those of the groups in them (themselves too)."""
    firsts = np.flatnonzero((np.arange(start.size) - start) % size == 0)
    return leaders(start, size * fan_out, root)[firsts], leaders(start, size, root)[firsts]


def levels(start: Numbers, fan_outs: FanOuts, root: int) -> list[tuple[Numbers, Numbers]]:
    """(sources, destinations) of the supersteps that take a value from the leader of each tree to all of the tree."""
    return [edges(start, size, fan_out, root) for size, fan_out in sizes(fan_outs)]


def sizes(fan_outs: FanOuts) -> list[tuple[int, int]]:
    """(q_(i+1) * ... * q_d, q_i) for each level, from the top: the size of a group below, and how many of them."""
    below, found = 1, []
    for fan_out in reversed(fan_outs):
        found.append((below, fan_out))
        below *= fan_out
    return found[::-1]


def trimmed(p: int, fan_outs: FanOuts) -> FanOuts:
    """Without the levels in which a tree of p processors sends nothing."""
    below, found = 1, []
    for fan_out in reversed(fan_outs):
        if below < p and fan_out > 1:
            found.append(min(fan_out, -(-p // below)))
            below *= found[-1]
    return tuple(found[::-1])


# -- choosing the fan-outs ----------------------------------------------------------------------------------------


def counted(trees: Trees, size: int, fan_out: int) -> Superstep:
    """What a level is charged for, in trees that run side by side with their first processors as roots."""
    h_out = h_in = messages = M = far = 0
    for number, members, words in trees:
        below = -(-members // size)
        if below > 1:
            most = min(below, fan_out) - 1
            h_out, h_in, messages = max(h_out, most * words), max(h_in, words), max(messages, most)
            M += number * words * (below - (-(-members // (size * fan_out))))
            far = max(far, most * size)
    return Superstep(h_out, h_in, messages, M, 0.0, far)


def cheapest(size: int, price: Callable[[int, int], float]) -> tuple[float, FanOuts]:
    """The least seconds in which a tree over so many processors can broadcast, and its fan-outs.

    A shortest path over all sequences of fan-outs, from groups of one to the whole tree: size * ln(size) prices.

    Args:
        size: processors of the tree.
        price: seconds of the level in which leaders of groups of a * b reach those of groups of a.
    """
    seconds = [0.0] * max(size, 2)
    choice = [1] * max(size, 2)
    for below in reversed(range(1, size)):
        top = -(-size // below)
        best, at = price(below, top), top
        for fan_out in range(2, top):
            if (total := seconds[below * fan_out] + price(below, fan_out)) < best:
                best, at = total, fan_out
        seconds[below], choice[below] = best, at
    fan_outs, below = [], 1
    while below < size:
        fan_outs.append(choice[below])
        below *= choice[below]
    return seconds[1], tuple(fan_outs[::-1])


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int) -> FanOuts:
    """The fan-outs with which broadcasting so many words costs least, of all there are."""
    trees = ((1, machine.p, words),)
    return cheapest(machine.p, lambda size, fan_out: machine.predict(counted(trees, size, fan_out)))[1]


# -- arguments ----------------------------------------------------------------------------------------------------


def checked_fan_outs(name: str, p: int, fan_outs: Any) -> FanOuts:
    """An argument that is fan-outs, whole numbers from 1 on, that reach p processors, trimmed; else a UsageError."""
    try:
        given = tuple(fan_outs)
    except TypeError:
        given = (fan_outs, None)  # what is no sequence fails below, by its own name
    what = "a sequence of whole numbers"
    try:
        given = tuple(integer(name, "fan_outs", fan_out, 1) for fan_out in given)
    except UsageError as error:
        raise argument_error(name, "fan_outs", f"{what} of at least 1", brief(fan_outs)) from error
    product = 1
    for fan_out in given:
        product *= fan_out
    if product < p:
        expected = f"{what} whose product is at least p = {p}"
        raise argument_error(name, "fan_outs", expected, f"{brief(fan_outs)}, which reaches {product} processors")
    return trimmed(p, given)


# -- the primitive ------------------------------------------------------------------------------------------------


def plan(p: int, fan_outs: Sequence[int], root: int = 0) -> Plan:
    """Who sends the value (item 0) to whom: a superstep for each fan-out above 1 that p processors have a use for."""
    root = processor("tree_broadcast.plan", "root", root, p)
    return _plan(p, checked_fan_outs("tree_broadcast.plan", p, fan_outs), root)


@lru_cache(maxsize=256)
def _plan(p: int, fan_outs: FanOuts, root: int) -> Plan:
    start = np.zeros(p, np.int32)
    return joined(p, (Step.of(*level) for level in levels(start, fan_outs, root)))


def cost(machine: Machine, words: int = 1, fan_outs: Sequence[int] | None = None, root: int = 0) -> Cost:
    """What broadcasting so many words costs, exactly; fan_outs None: with those that cost least on the machine."""
    words = integer("tree_broadcast.cost", "words", words, 0)
    chosen = choose(machine, words) if fan_outs is None else fan_outs
    return plan(machine.p, chosen, root).cost(machine, words)


@primitive(cost, plan)
def tree_broadcast(
    bsp: BSP, value: Any, root: int = 0, fan_outs: Sequence[int] | None = None, machine: Machine | None = None
) -> Supersteps[Any]:
    """Give all processors the value of one, along a tree with a fan-out for each level; collective.

    In superstep i the leader of each group of q_i * ... * q_d consecutive processors sends the value to the leaders of
    the q_i groups in it: the first processors, or the root. So superstep i is a (q_1 * ... * q_i, q_i, 1)-relation
    with locality q_i * ... * q_d. Groups of which p leaves nothing are left out.

    Args:
        bsp: the processor.
        value: root only (ignored elsewhere): a number, an array, or any picklable object.
        root: whose value; equal on all processors.
        fan_outs: q_1 to q_d, each at least 1, with a product of at least p; equal on all processors. None: of all there
            are, those that cost least on the machine (on a linear array q_1 = p).
        machine: the root's counts: by which it chooses, a `BSPMachine` or an `EBSPMachine` with p = bsp.p; None:
            `bsp.machine`.

    Returns:
        On the root its own object (of a read-only array a copy); elsewhere a value of its own, which may be
        written to.

    Raises:
        UsageError: root is no processor, fan_outs are not what they must be, or these differ; a machine for another p;
            a value that cannot be pickled.

    BSP cost: d supersteps, with h = (q_i - 1) * words in the i-th; `tree_broadcast.cost` has it exactly.

    Source: *The E-BSP model*, section 4, figure 2.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> def main(bsp):
        ...     return ebsp.tree_broadcast(bsp, "news" if bsp.pid == 0 else None, fan_outs=(2, 3))
        >>> pybsp.simulate(main, p=6).results
        ['news', 'news', 'news', 'news', 'news', 'news']
    """
    root = processor("tree_broadcast", "root", root, bsp.p)
    given = None if fan_outs is None else checked_fan_outs("tree_broadcast", bsp.p, fan_outs)
    by = checked_machine("tree_broadcast", machine, bsp)

    def chosen(words: int) -> FanOuts:
        return choose(by, words) if given is None else given

    call = Call(bsp, "tree_broadcast", root=root, fan_outs=given)
    return (yield from dissemination.run_whole(call, value, root, chosen, partial(_plan, bsp.p)))
