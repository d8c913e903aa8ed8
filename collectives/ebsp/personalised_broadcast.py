"""Personalised broadcast: one processor sends each of the others an item of its own (*The E-BSP model*, section 1)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ...bsp import BSP
from ...machines.cost import Cost, Machine
from ...rides.ride import Supersteps
from ..arguments import processor
from ..one_superstep import priced, word_counts
from ..plan import Plan
from ..primitive import Call, primitive
from ..scatter import dealt
from ..scatter import plan as plan_scatter


def plan(p: int, root: int = 0) -> Plan:
    """Who sends what to whom: the root sends each of the others its value."""
    return plan_scatter(p, processor("personalised_broadcast.plan", "root", root, p))


def cost(machine: Machine, words: ArrayLike = 1, root: int = 0) -> Cost:
    """What it costs, exactly, for so many words a value, or for those of each processor's value, shape (p,)."""
    counts = word_counts("personalised_broadcast.cost", words, (machine.p,))
    return priced(machine, plan(machine.p, root), lambda step: counts[step.destinations])


@primitive(cost, plan)
def personalised_broadcast(bsp: BSP, values: Any, root: int = 0) -> Supersteps[Any]:
    """Give each processor its own of p distinct values that one processor has; collective.

    It is `scatter` by its name in the paper, which charges it as the (p - 1, p - 1, 1)-relation that it is.

    Args:
        bsp: the processor.
        values: root only (ignored elsewhere): a sequence of p values, or an array whose first axis is p. Values are
            numbers, arrays of any shapes and dtypes, or any picklable objects.
        root: whose values; equal on all processors.

    Returns:
        Value i on processor i: on the root `values[root]` itself (of a read-only array a copy), elsewhere a value of
        its own, which may be written to.

    Raises:
        UsageError: root is no processor, or differs; values that are not p; one that cannot be pickled.

    BSP cost: one superstep with M = h = the words of all values but the root's own; nothing where p = 1. On a linear
    array that takes O(p) for values of a word, where a full h-relation takes O(p^2).

    Source: *The E-BSP model*, sections 1 and 3.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> def main(bsp):
        ...     return ebsp.personalised_broadcast(bsp, [0, 10, 20] if bsp.pid == 0 else None)
        >>> pybsp.simulate(main, p=3).results
        [0, 10, 20]
    """
    name = "personalised_broadcast"
    root = processor(name, "root", root, bsp.p)
    return (yield from dealt(Call(bsp, name, root=root), values, root))
