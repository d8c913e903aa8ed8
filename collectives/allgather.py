"""Allgather: all processors get the values of all."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .one_superstep import exchange_of, owned, run, word_counts
from .plan import Plan, Step, joined, to_all
from .primitive import NOT_SMALL, Call, primitive
from .values import own_argument, packed


@lru_cache(maxsize=8)
def plan(p: int) -> Plan:
    """Processor i sends its value (item i) to all others."""
    if p == 1:
        return joined(p, ())
    pids = np.arange(p)
    sources = np.repeat(pids, p)
    return joined(p, [Step.of(sources, np.tile(pids, p), sources, sources + 1)])


def cost(machine: Machine, words: ArrayLike = 1) -> Cost:
    """What it costs, exactly; words of every value, or of each, shape (p,)."""
    counts = word_counts("allgather.cost", words, (machine.p,))
    return Cost(machine, () if machine.p == 1 else (to_all(counts),))


def _small(bsp: BSP, value: Any) -> Any:
    name = "allgather"
    exchange = bsp.prepared.get(name) or exchange_of(bsp, name, name, {}, plan(bsp.p), argument="value")
    value = own_argument(value)
    came = exchange(value)
    if came is not NOT_SMALL:
        owned(came).insert(bsp.pid, value)
    return came


@primitive(cost, plan, _small)
def allgather(bsp: BSP, value: Any) -> Supersteps[list[Any]]:
    """Give all processors the values of all; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; shapes, dtypes and types may differ between processors.

    Returns:
        A list of p values by pid: one's own value itself (of a read-only array a copy), and others of one's own, which
            may be written to.

    Raises:
        UsageError: a value that cannot be pickled.

    BSP cost: one superstep with h <= (p-1) * words of the largest value; nothing where p = 1.

    Source: *Communication primitives for BSP computers*, section 3, step (1)ii of 2D-BCAST, with any values.

    Examples:
        >>> from pybsp import collectives
        >>> pybsp.simulate(lambda bsp: collectives.allgather(bsp, "abc"[bsp.pid]), p=3).results[0]
        ['a', 'b', 'c']
    """
    call = Call(bsp, "allgather")
    call.takes(int(bsp.p > 1))
    value = own_argument(value)
    mine = packed(value, "allgather") if bsp.p > 1 else value
    # 1. All send their values to all others.
    found = yield from run(call, plan(bsp.p), bsp.pid, lambda _: mine)
    found.insert(bsp.pid, value)
    return found
