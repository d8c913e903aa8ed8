"""2D-BCAST(k, P): many words from one processor to all (*Communication primitives for BSP computers*, section 3)."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import broadcast_groups, dissemination, tree
from .arguments import integer, processor, root_of
from .counted.broadcast_items import counted
from .dissemination import Copy
from .plan import Plan, Step, joined
from .primitive import Call, primitive
from .values import checked_out, placed


@lru_cache(maxsize=64)
def plan(p: int, k: int, degree: int = 2, root: int = 0) -> Plan:
    """Who sends which of the k words to whom; `degree` is that of the trees of case 2."""
    processor("broadcast_items.plan", "root", root, p)
    k = integer("broadcast_items.plan", "k", k, 0)
    if k >= p:
        steps = _many(p, k)
    elif k > 0:
        steps = broadcast_groups.steps(p, k, k, degree)  # case 2, k < P: a word to each of k groups
    else:
        # Nothing to spread: the tree says so to all.
        steps = [Step.of(*tree.edges(p, degree, level), 0, 0) for level in reversed(range(tree.height(p, degree)))]
    return joined(p, (step.from_root(p, root) for step in steps))


def _many(p: int, k: int) -> list[Step]:
    """Case 1, k >= P."""
    if p == 1:
        return []
    block = -(-k // p)
    holders = np.arange(-(-k // block))
    first = holders * block
    last = np.minimum(first + block, k)
    # (1)i. Processor 0 keeps the first ceil(k/P) words and sends word j to processor j div ceil(k/P).
    scattered = Step.of(0, holders, first, last)
    # (1)ii. Each processor sends what it holds to every other one; the root, which has all, needs none.
    others = np.arange(1, p)
    exchanged = Step.of(
        np.repeat(holders, p - 1), np.tile(others, holders.size), np.repeat(first, p - 1), np.repeat(last, p - 1)
    )
    return [scattered, exchanged]


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int) -> int:
    """The degree of the trees that costs least on the machine."""
    p = machine.p
    if words >= p:
        return 2  # case 1 has no trees
    degrees = tree.degrees(-(-p // max(words, 1)))  # of the largest group
    return min(degrees, key=lambda degree: Cost(machine, counted(p, words, degree)).seconds)


def cost(machine: Machine, words: int = 1) -> Cost:
    """What 2D-BCAST costs for so many words, exactly, from any root."""
    words = integer("broadcast_items.cost", "words", words, 0)
    return Cost(machine, counted(machine.p, words, choose(machine, words)))


@primitive(cost, plan)
def broadcast_items(bsp: BSP, items: Any, root: int = 0, *, out: NDArray[Any] | None = None) -> Supersteps[Any]:
    """Give all processors the items of one, by spreading them over the processors first; collective.

    Args:
        bsp: the processor.
        items: root only (ignored elsewhere): an array of any shape and dtype, or any picklable object, which goes as
            its pickle. It is cut into words, so k is its size in words.
        root: whose items; equal on all processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to.
            None: a new one.

    Returns:
        On the root its own object (of a read-only array a copy); elsewhere an array or object of its own, which may be
        written to.

    Raises:
        UsageError: root is no processor, or differs; items that cannot be pickled.

    BSP cost: k >= p: 2 supersteps, h = k - ceil(k/p) and ceil(k/p)*(p-1). k < p: two supersteps of h < 2k and a tree
    over p/k processors between them (k = 1: the tree alone); the degree of the tree is the cheapest. `broadcast` takes
    this or a tree of whole values, whichever costs less.

    Source: *Communication primitives for BSP computers*, section 3, algorithm 2D-BCAST(k, P).

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.broadcast_items(bsp, np.arange(6.0) if bsp.pid == 0 else None).sum().item()
        >>> pybsp.simulate(main, p=4).results
        [15.0, 15.0, 15.0, 15.0]
    """
    root = root_of("broadcast_items", root, bsp)
    checked_out("broadcast_items", out)
    call = Call(bsp, "broadcast_items", root=root)
    choice = partial(_choice, bsp.machine)
    found = yield from dissemination.run(call, items, root, choice, {"2d": run}, out=out, argument="items")
    return placed("broadcast_items", found, out)


def _choice(machine: Machine, words: int, _: bool) -> tuple[str, int]:
    return "2d", choose(machine, words)


def run(call: Call, copy: Copy, root: int) -> Supersteps[None]:
    """Follow the plan, from where this processor has something of the value."""
    yield from dissemination.follow(call, copy, plan(call.bsp.p, copy.words, copy.envelope.by, root))
