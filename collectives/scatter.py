"""Scatter: the root has a value for each processor."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import processor, root_of
from .one_superstep import exchange_at, one_for_each, owned, priced, run, word_counts
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, Call, primitive
from .values import own_argument, packed


@lru_cache(maxsize=256)
def plan(p: int, root: int = 0) -> Plan:
    """The root sends value i (item i) to processor i."""
    if p == 1:
        return joined(p, ())
    pids = np.arange(p)
    return joined(p, [Step.of(root, pids, pids, pids + 1)])


def cost(machine: Machine, words: ArrayLike = 1, root: int = 0) -> Cost:
    """What it costs, exactly; words of every value, or of each, shape (p,)."""
    root = processor("scatter.cost", "root", root, machine.p)
    counts = word_counts("scatter.cost", words, (machine.p,))
    return priced(machine, plan(machine.p, root), lambda step: counts[step.destinations])


def _small(bsp: BSP, values: Any, root: int = 0) -> Any:
    root, exchange = exchange_at(bsp, "scatter", root, plan, True, "values")
    own: Any = None
    if bsp.pid == root:
        values = one_for_each("scatter", values, bsp.p)
        own = own_argument(values[root])
    came = exchange(values)
    if came is NOT_SMALL:
        return came
    return own if bsp.pid == root else owned(came)[0]


@primitive(cost, plan, _small)
def scatter(bsp: BSP, values: Any, root: int = 0) -> Supersteps[Any]:
    """Give each processor its own of the root's values; collective.

    Args:
        bsp: the processor.
        values: root only (ignored elsewhere): a sequence of p values, or an array whose first axis is p. Values are
            numbers, arrays of any shapes and dtypes, or any picklable objects.
        root: whose values; equal on all processors.

    Returns:
        Value i on processor i. On the root `values[root]` itself (of a read-only array a copy), elsewhere a value of
        its own, which may be written to.

    Raises:
        UsageError: root is no processor, or differs; values that are not p; one that cannot be pickled.

    BSP cost: one superstep with h = the words of all values but the root's own; nothing where p = 1.

    Source: *Communication primitives for BSP computers*, section 3, step (1)i of 2D-BCAST, with any values.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.scatter(bsp, ["one", 2.0, [3]] if bsp.pid == 0 else None)
        >>> pybsp.simulate(main, p=3).results
        ['one', 2.0, [3]]
    """
    root = root_of("scatter", root, bsp)
    return (yield from dealt(Call(bsp, "scatter", root=root), values, root))


def dealt(call: Call, values: Any, root: int) -> Supersteps[Any]:
    """Run it under the name of `call`."""
    call.takes(int(call.bsp.p > 1))
    bsp = call.bsp
    own: Any = None
    if bsp.pid == root:
        values = one_for_each(call.name, values, bsp.p)
        own = own_argument(values[root])
    # 1. The root sends each processor its value.
    came = yield from run(call, plan(bsp.p, root), bsp.pid, lambda dest: packed(values[dest], call.name, "values"))
    return own if bsp.pid == root else came[0]
