"""k items broadcast one after the other, which 2D-BCAST improves on (*Communication primitives*, section 3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...bsp import BSP
from ...machines.cost import Cost, Machine
from ...rides.ride import Supersteps
from ..arguments import fan_out, processor, repeats, sequence
from ..broadcast import broadcast
from ..broadcast import choose as choose_broadcast
from ..plan import Plan, joined
from ..primitive import primitive
from ..values import own_argument


@lru_cache(maxsize=16)
def plan(p: int, k: int, degree: int, root: int = 0) -> Plan:
    """Who sends what to whom: their number first, then each item, by a tree."""
    return joined(p, tuple(broadcast.plan(p, degree, root)) * (1 + repeats("broadcast_one_at_a_time.plan", "k", k)))


def cost(machine: Machine, k: int, words: int = 1, degree: int | None = None) -> Cost:
    """What it costs, exactly: their number, then k items of so many words, along the cheapest tree for a word."""
    k = repeats("broadcast_one_at_a_time.cost", "k", k)
    chosen = fan_out("broadcast_one_at_a_time.cost", degree) or choose_broadcast(machine, 1, False)[1]
    total = broadcast.cost(machine, 1, chosen)
    each = broadcast.cost(machine, words, chosen)
    return Cost(machine, (*total, *tuple(each) * k))


@primitive(cost, plan)
def broadcast_one_at_a_time(bsp: BSP, items: Any, root: int = 0, degree: int | None = None) -> Supersteps[list[Any]]:
    """Give all processors the items of one, by k broadcasts in sequence; collective.

    Args:
        bsp: the processor.
        items: root only: a sequence of k numbers or arrays.
        root: whose items; equal on all processors.
        degree: d of the trees, at least 2; None: the cheapest for a word. Equal on all processors.

    Returns:
        The list of the items.

    BSP cost: k + 1 times that of a broadcast: O(k L log p / log(L/g)).

    Examples:
        >>> from pybsp.collectives import baselines
        >>> def main(bsp):
        ...     return baselines.broadcast_one_at_a_time(bsp, [1, 2, 3] if bsp.pid == 0 else None)
        >>> simulation = pybsp.simulate(main, p=3)
        >>> simulation.results[2], len(simulation.ledger)
        ([1, 2, 3], 4)
    """
    root = processor("broadcast_one_at_a_time", "root", root, bsp.p)
    chosen = fan_out("broadcast_one_at_a_time", degree) or choose_broadcast(bsp.machine, 1, False)[1]
    mine = (
        [own_argument(item) for item in sequence("broadcast_one_at_a_time", "items", items)] if bsp.pid == root else []
    )
    k = yield from broadcast.steps(bsp, len(mine), root, chosen)
    received: list[Any] = [None] * k
    for j in range(k):
        received[j] = yield from broadcast.steps(bsp, mine[j] if bsp.pid == root else None, root, chosen)
    return received
