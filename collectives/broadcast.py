"""Broadcast along a d-ary tree (*Communication primitives for BSP computers*, section 3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..bsp import BSP
from ..cost import Cost, Machine
from ..rides import Supersteps
from . import dissemination, tree
from .broadcast_items import choose as choose_spread
from .broadcast_items import counted as counted_spread
from .broadcast_items import plan as plan_spread
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, fan_out, integer, primitive, processor
from .small import spread


@lru_cache(maxsize=256)
def plan(p: int, degree: int, root: int = 0) -> Plan:
    """Who sends the value (item 0) to whom: d - 1 copies a superstep from every processor that has it."""
    processor("broadcast.plan", "root", root, p)
    levels = reversed(range(tree.height(p, degree)))
    return joined(p, (Step.of(*tree.edges(p, degree, level, root)) for level in levels))


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int, divisible: bool = True) -> tuple[str, int]:
    """How to broadcast so many words at least cost: ("tree", degree), or ("spread", degree) for 2D-BCAST."""
    p = machine.p
    degree = min(tree.degrees(p), key=lambda d: plan(p, d).cost(machine, words).seconds)
    if divisible and words > 1 and p > 2:
        spread_degree = choose_spread(machine, words)
        whole = plan(p, degree).cost(machine, words).seconds
        if Cost(machine, counted_spread(p, words, spread_degree)).seconds < whole:
            return "spread", spread_degree
    return "tree", degree


def cost(machine: Machine, words: int = 1, degree: int | None = None, root: int = 0) -> Cost:
    """What broadcasting so many words costs, exactly; degree None: of what `broadcast` would choose."""
    words = integer("broadcast.cost", "words", words, 0)
    root = processor("broadcast.cost", "root", root, machine.p)
    how, chosen = choose(machine, words) if (given := fan_out("broadcast.cost", degree)) is None else ("tree", given)
    if how == "tree":
        return plan(machine.p, chosen, root).cost(machine, words)
    return Cost(machine, counted_spread(machine.p, words, chosen))


def _small(bsp: BSP, value: Any, root: int = 0, degree: int | None = None) -> Any:
    def flat(words: int, divisible: bool) -> bool:
        how, chosen = choose(bsp.machine, words, divisible)
        return how == "tree" and chosen >= bsp.p

    if degree is not None:
        return NOT_SMALL
    agreed = {"root": root, "degree": None}
    return spread(bsp, "broadcast", value, root, agreed, flat, lambda: broadcast.start(bsp, value, root))


@primitive(cost, plan, _small)
def broadcast(bsp: BSP, value: Any, root: int = 0, degree: int | None = None) -> Supersteps[Any]:
    """Give all processors the value of one; collective.

    Args:
        bsp: the processor.
        value: root only (ignored elsewhere): a number, an array, or any picklable object.
        root: whose value; equal on all processors.
        degree: d of the tree, at least 2 (more than p is p): every processor that has the value sends d - 1 copies in a
            superstep. None: the cheapest on `bsp.machine`, where large arrays and objects go by 2D-BCAST
            (`broadcast_items`). Equal on all processors.

    Returns:
        On the root its own object (of a read-only array a copy, as what arrives ends with the next sync); elsewhere a
        value of its own, which may be written to.

    Raises:
        UsageError: root is no processor, degree is below 2, or these differ; a value that cannot be pickled.

    BSP cost: ceil(log_d p) supersteps, each with h <= (d-1) * words; `broadcast.cost` has it exactly.

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
    root = processor("broadcast", "root", root, bsp.p)
    given = fan_out("broadcast", degree)

    def choice(words: int, divisible: bool) -> tuple[str, int]:
        return choose(bsp.machine, words, divisible) if given is None else ("tree", given)

    def plans(how: str, chosen: int, words: int) -> Plan:
        return plan(bsp.p, chosen, root) if how == "tree" else plan_spread(bsp.p, words, chosen, root)

    return (yield from dissemination.run(bsp, "broadcast", value, root, given, choice, plans))
