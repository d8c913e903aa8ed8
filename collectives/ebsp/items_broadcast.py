"""Broadcast of N items by spreading, broadcasting, permuting, and a butterfly (*The E-BSP model*, section 4)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...bsp import BSP
from ...machines.cost import Cost, Machine
from ...rides.ride import Supersteps
from .. import dissemination
from ..arguments import flag, integer, processor
from ..dissemination import Copy
from ..plan import Plan, Step, joined
from ..primitive import Call, primitive
from .mesh_broadcast import counted as counted_on_mesh
from .mesh_broadcast import levels as levels_on_mesh
from .partition import checked_machine
from .tree_broadcast import FanOuts, Trees, cheapest, checked_fan_outs, leaders, trimmed
from .tree_broadcast import counted as counted_by_tree
from .tree_broadcast import levels as levels_by_tree

TREE, MESH = "words by tree", "words by mesh"  # how phase 2 broadcasts


class PacketLayout(NamedTuple):
    """Where the N items go: K packets of them, K a power of two, where the paper has K = min(N, P) items.

    A packet is a run of floor(N/K) or ceil(N/K) items. In phases 1 and 2, K groups of consecutive processors have one
    packet each; the group of position v has packet `packet[v]`, which is v with its bits in reverse, so that what a
    processor has in phase 4 is always a run. In phases 3 and 4, floor(P/K) blocks of consecutive processors have all
    packets each: a block has a processor for each position, in order, and a second one for some, where K does not
    divide P.

    bounds: shape (K+1,), the first item of each packet, and the end.
    packet: shape (K,), which packet each position has.
    groups: shape (K,), the processors of each group; as many as have the position in all blocks.
    blocks: shape (blocks, K), the processors at each position of each block.
    """

    bounds: NDArray[np.int64]
    packet: NDArray[np.int64]
    groups: NDArray[np.int64]
    blocks: NDArray[np.int64]


@lru_cache(maxsize=64)
def layout(p: int, k: int) -> PacketLayout:
    """Where k items go on p processors."""
    packets = 1 << (max(1, min(k, p)).bit_length() - 1)
    reverse = np.zeros(1, np.int64)
    while reverse.size < packets:
        reverse = np.concatenate([2 * reverse, 2 * reverse + 1])
    blocks = np.ones((p // packets, packets), np.int64)
    # The processors that are left over go to positions that lie evenly, one each, and to the blocks in turn.
    rest = np.arange(p % packets)
    blocks[rest % len(blocks), rest * packets // max(1, rest.size)] += 1
    return PacketLayout(np.arange(packets + 1) * k // packets, reverse, blocks.sum(axis=0), blocks)


def plan(p: int, k: int, fan_outs: FanOuts | None = None, redistributed: bool = False, root: int = 0) -> Plan:
    """Who sends which of the k items to whom; supersteps in which nothing is sent are left out.

    Args:
        p: processors.
        k: items.
        fan_outs: of phase 2, for the processors of the largest group; None: all of it in one superstep.
        redistributed: whether phase 2 is that of `mesh_broadcast`, not that of `tree_broadcast`.
        root: the processor that has the items.
    """
    k = integer("items_broadcast.plan", "k", k, 0)
    root = processor("items_broadcast.plan", "root", root, p)
    largest = int(layout(p, k).groups.max())
    given = (largest,) if fan_outs is None else checked_fan_outs("items_broadcast.plan", largest, fan_outs)
    return _plan(p, k, trimmed(largest, given), flag("items_broadcast.plan", "redistributed", redistributed), root)


@lru_cache(maxsize=64)
def _plan(p: int, k: int, fan_outs: FanOuts, redistributed: bool, root: int) -> Plan:
    bounds, packet, groups, blocks = layout(p, k)
    packets = packet.size
    position = np.arange(packets)
    # 1. The root sends each packet to the first processor of its group.
    group = np.repeat(position, groups)
    start = (np.cumsum(groups) - groups)[group].astype(np.int32)
    heads = np.unique(leaders(start, p, root))
    steps = [Step.of(root, heads, bounds[packet], bounds[packet + 1])]
    # 2. Each of these broadcasts its packet in its group.
    for sources, destinations in (levels_on_mesh if redistributed else levels_by_tree)(start, fan_outs, root):
        number = packet[group[destinations]]
        steps.append(Step.of(sources, destinations, bounds[number], bounds[number + 1]))
    # 3. The packets are permuted: from the groups, each of one packet, to the blocks, each of all packets.
    counts = blocks.ravel()
    place = np.tile(position, len(blocks)).repeat(counts)  # the position of each processor
    number = packet[group]
    steps.append(Step.of(np.arange(p), np.argsort(place, kind="stable"), bounds[number], bounds[number + 1]))
    # 4. The butterfly: what one has goes to the position that differs in the highest bit, then in the next, and so on.
    # A second processor at a position gets the same from the second one opposite, or where there is none from the
    # first.
    ends = np.cumsum(counts)
    block = np.arange(len(blocks)).repeat(blocks.sum(axis=1))
    which = np.arange(p) - (ends - counts)[block * packets + place]
    for superstep in range(packets.bit_length() - 1):
        stride = packets >> (superstep + 1)
        opposite = block * packets + (place ^ stride)
        sources = ends[opposite] - counts[opposite] + np.minimum(which, counts[opposite] - 1)
        number = packet[(place ^ stride) % (2 * stride)]
        steps.append(Step.of(sources, np.arange(p), bounds[number], bounds[number + (1 << superstep)]))
    # The root has all and needs none of it back.
    return joined(p, filter(len, (_without(step, root) for step in steps)))


def _without(step: Step, root: int) -> Step:
    """A step without the messages to the root."""
    others = step.destinations != root
    return Step(step.sources[others], step.destinations[others], step.first[others], step.last[others])


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int) -> tuple[str, FanOuts]:
    """How phase 2 costs least on the machine: along a tree or as on a mesh, and with which fan-outs."""
    bounds, packet, groups, _ = layout(machine.p, words)
    kinds, numbers = np.unique(np.stack([groups, np.diff(bounds)[packet]]), axis=1, return_counts=True)
    trees: Trees = tuple(zip(numbers.tolist(), *kinds.tolist(), strict=True))
    largest = int(groups.max())

    def by_tree(size: int, fan_out: int) -> float:
        return machine.predict(counted_by_tree(trees, size, fan_out))

    def by_mesh(size: int, fan_out: int) -> float:
        return sum(map(machine.predict, counted_on_mesh(trees, size, fan_out)))

    (seconds, fan_outs), (others, other) = cheapest(largest, by_tree), cheapest(largest, by_mesh)
    return (TREE, fan_outs) if seconds <= others else (MESH, other)


def cost(machine: Machine, words: int, root: int = 0) -> Cost:
    """What broadcasting so many words costs, exactly."""
    words = integer("items_broadcast.cost", "words", words, 0)
    how, fan_outs = choose(machine, words)
    return plan(machine.p, words, fan_outs, how == MESH, root).cost(machine)


@primitive(cost, plan)
def items_broadcast(bsp: BSP, items: Any, root: int = 0, machine: Machine | None = None) -> Supersteps[Any]:
    """Give all processors the N items of one, mostly by messages between processors close by; collective.

    Args:
        bsp: the processor.
        items: root only (ignored elsewhere): an array of any shape and dtype, or any picklable object, which goes as
            its pickle. It is cut into words, so N is its size in words.
        root: whose items; equal on all processors.
        machine: the root's counts: by which it chooses the fan-outs of phase 2, a `BSPMachine` or an `EBSPMachine` with
            p = bsp.p; None: `bsp.machine`.

    Returns:
        On the root its own object (of a read-only array a copy); elsewhere an array or object of its own, which may be
        written to.

    Raises:
        UsageError: root is no processor, or differs; a machine for another p; items that cannot be pickled.

    BSP cost: with K the power of two at or below min(N, p): a superstep with h <= N; where p is above K, a broadcast
    of ceil(N/K) words among about p/K processors, and where p is at least 2*K a permutation of ceil(N/K) words; and
    log2 K supersteps with h <= 2^i * ceil(N/K), twice that where K does not divide p, and locality K / 2^(i+1), at
    most twice that where K does not divide p. `items_broadcast.cost` has it exactly.

    Source: *The E-BSP model*, section 4, Theorem 6.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> def main(bsp):
        ...     return ebsp.items_broadcast(bsp, np.arange(100.0) if bsp.pid == 0 else None).sum().item()
        >>> pybsp.simulate(main, p=4).results
        [4950.0, 4950.0, 4950.0, 4950.0]
    """
    root = processor("items_broadcast", "root", root, bsp.p)
    by = checked_machine("items_broadcast", machine, bsp)

    call = Call(bsp, "items_broadcast", root=root)

    def follow(call: Call, copy: Copy, root: int) -> Supersteps[None]:
        envelope = copy.envelope
        yield from dissemination.follow(call, copy, _plan(bsp.p, copy.words, envelope.by, envelope.how == MESH, root))

    return (
        yield from dissemination.run(
            call, items, root, lambda words, _: choose(by, words), {TREE: follow, MESH: follow}
        )
    )
