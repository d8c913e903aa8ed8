"""Broadcast on a mesh: copies are made close by, then moved to where they go on (*The E-BSP model*, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from ...bsp import BSP
from ...machines.cost import Cost, Machine, Superstep
from ...rides.ride import Supersteps
from .. import dissemination
from ..arguments import integer, processor
from ..plan import Numbers, Plan, Step, joined
from ..primitive import Call, primitive
from .partition import checked_machine
from .tree_broadcast import FanOuts, Trees, cheapest, checked_fan_outs, edges, sizes, trimmed
from .tree_broadcast import counted as counted_by_tree

Given = Sequence[int] | Literal["cheapest"] | None


def levels(start: Numbers, fan_outs: FanOuts, root: int) -> list[tuple[Numbers, Numbers]]:
    """(sources, destinations) of the supersteps that take a value from the leader of each tree to all of the tree.

    As in `tree_broadcast.levels`, but each leader sends to its neighbours, which send on to the leaders of the groups.
    """
    found = []
    ends = np.searchsorted(start, start, "right")  # of the trees
    for size, fan_out in sizes(fan_outs):
        parents, children = edges(start, size, fan_out, root)
        # The group that each child's leader serves: it begins at `first` and has `groups` groups of `size` in it.
        first = start[children] + (children - start[children]) // (size * fan_out) * (size * fan_out)
        end = np.minimum(first + size * fan_out, ends[children])
        groups = -(-(end - first) // size)
        # The neighbours are the first processors from the leader on; where those are too few, the last of the group.
        window = np.minimum(parents, end - groups)
        own, number = (parents - first) // size, (children - first) // size
        neighbour = window + number - (number > own)
        neighbour += neighbour >= parents
        neighbour = np.where(parents == children, parents, neighbour).astype(np.int32)
        # 1. The leader sends its copy to its neighbours.
        found.append((parents, neighbour))
        # 2. Redistribution: each neighbour sends its copy to the leader of a group.
        if size > 1:
            found.append((neighbour, children))
    return found


def counted(trees: Trees, size: int, fan_out: int) -> list[Superstep]:
    """What the supersteps of a level are charged for, in trees with their first processors as roots."""
    far = counted_by_tree(trees, size, fan_out)
    near = far._replace(locality=far.messages)
    if size == 1:
        return [near]
    moved = Superstep(far.h_in, far.h_in, 1, far.M, 0.0, far.messages * (size - 1))
    return [near, moved]


def cubic(p: int) -> FanOuts:
    """Three fan-outs of P^(1/3), or the next whole number."""
    q = round(p ** (1 / 3))
    return trimmed(p, (q + (q**3 < p),) * 3)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int) -> FanOuts:
    """The fan-outs with which broadcasting so many words in this way costs least, of all there are."""
    trees = ((1, machine.p, words),)

    def price(size: int, fan_out: int) -> float:
        return sum(map(machine.predict, counted(trees, size, fan_out)))

    return cheapest(machine.p, price)[1]


def _cheapest(fan_outs: Given) -> bool:
    return isinstance(fan_outs, str) and fan_outs == "cheapest"  # an array would be compared item by item


def plan(p: int, fan_outs: Sequence[int] | None = None, root: int = 0) -> Plan:
    """Who sends the value (item 0) to whom; fan_outs None: the paper's three."""
    root = processor("mesh_broadcast.plan", "root", root, p)
    return _plan(p, cubic(p) if fan_outs is None else checked_fan_outs("mesh_broadcast.plan", p, fan_outs), root)


@lru_cache(maxsize=256)
def _plan(p: int, fan_outs: FanOuts, root: int) -> Plan:
    start = np.zeros(p, np.int32)
    # Where each neighbour is the leader that it would send to, nothing is moved.
    return joined(p, filter(len, (Step.of(*level) for level in levels(start, fan_outs, root))))


def cost(machine: Machine, words: int = 1, fan_outs: Given = None, root: int = 0) -> Cost:
    """What broadcasting so many words costs, exactly; fan_outs None: with the paper's three."""
    words = integer("mesh_broadcast.cost", "words", words, 0)
    chosen: Any = choose(machine, words) if _cheapest(fan_outs) else fan_outs
    return plan(machine.p, chosen, root).cost(machine, words)


@primitive(cost, plan)
def mesh_broadcast(
    bsp: BSP, value: Any, root: int = 0, fan_outs: Given = None, machine: Machine | None = None
) -> Supersteps[Any]:
    """Give all processors the value of one, by copies that are made close by and then moved; collective.

    For each fan-out q_i the leader of each group of q_i * ... * q_d consecutive processors sends the value to q_i - 1
    neighbours; then, in a redistribution, each of these sends it to the leader of one of the q_i groups in the group
    (the first processor, or the root). After the last fan-out all have it, and nothing is moved. With three fan-outs
    of P^(1/3) that makes five supersteps. Processors beyond p, and what only they would need, are left out.

    Args:
        bsp: the processor.
        value: root only (ignored elsewhere): a number, an array, or any picklable object.
        root: whose value; equal on all processors.
        fan_outs: q_1 to q_d, each at least 1, with a product of at least p; None: the paper's three of P^(1/3), or the
            next whole number; "cheapest": of all there are, those that cost least on the machine. Equal on all
            processors.
        machine: the root's counts: by which it chooses the cheapest, a `BSPMachine` or an `EBSPMachine` with p =
            bsp.p; None: `bsp.machine`.

    Returns:
        On the root its own object (of a read-only array a copy); elsewhere a value of its own, which may be
        written to.

    Raises:
        UsageError: root is no processor, fan_outs are not what they must be, or these differ; a machine for another p;
            a value that cannot be pickled.

    BSP cost: at most 5 supersteps (those in which nothing is sent are left out), three with h <= (q - 1) * words and
    locality below q = ceil(P^(1/3)), two with h = words; `mesh_broadcast.cost` has it exactly.

    Source: *The E-BSP model*, section 4.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> pybsp.simulate(lambda bsp: ebsp.mesh_broadcast(bsp, "news" if bsp.pid == 0 else None), p=5).results
        ['news', 'news', 'news', 'news', 'news']
    """
    root = processor("mesh_broadcast", "root", root, bsp.p)
    by = checked_machine("mesh_broadcast", machine, bsp)
    given: FanOuts | None = cubic(bsp.p)
    if _cheapest(fan_outs):
        given = None
    elif fan_outs is not None:
        given = checked_fan_outs("mesh_broadcast", bsp.p, fan_outs)

    def chosen(words: int) -> FanOuts:
        return choose(by, words) if given is None else given

    call = Call(bsp, "mesh_broadcast", root=root, fan_outs=given)
    return (yield from dissemination.run_whole(call, value, root, chosen, partial(_plan, bsp.p)))
