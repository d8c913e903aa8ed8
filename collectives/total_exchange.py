"""Total exchange: each processor has a value for each other one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .one_superstep import exchange_of, one_for_each, owned, priced, run, word_counts
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, Call, primitive
from .values import own_argument, packed


@lru_cache(maxsize=8)
def plan(p: int) -> Plan:
    """Processor i sends its value j (item j of its own) to processor j."""
    if p == 1:
        return joined(p, ())
    pids = np.arange(p)
    destinations = np.tile(pids, p)
    return joined(p, [Step.of(np.repeat(pids, p), destinations, destinations, destinations + 1)])


def cost(machine: Machine, words: ArrayLike = 1) -> Cost:
    """What it costs, exactly; words of every value, or of that from i to j, shape (p, p)."""
    counts = word_counts("total_exchange.cost", words, (machine.p, machine.p))
    return priced(machine, plan(machine.p), lambda step: counts[step.sources, step.destinations])


def _small(bsp: BSP, values: Any) -> Any:
    name = "total_exchange"
    exchange = bsp.prepared.get(name) or exchange_of(bsp, name, name, {}, plan(bsp.p), True, "values")
    values = one_for_each(name, values, bsp.p)
    own = own_argument(values[bsp.pid])
    came = exchange(values)
    if came is not NOT_SMALL:
        owned(came).insert(bsp.pid, own)
    return came


@primitive(cost, plan, _small)
def total_exchange(bsp: BSP, values: Any) -> Supersteps[list[Any]]:
    """Send each processor a value of its own; collective.

    Args:
        bsp: the processor.
        values: a sequence of p values, one for each processor, or an array whose first axis is p. Values are numbers,
            arrays of any shapes and dtypes, or any picklable objects.

    Returns:
        A list of p values by source: `values[pid]` itself (of a read-only array a copy), and others of one's own, which
            may be written to.

    Raises:
        UsageError: values that are not p; one that cannot be pickled.

    BSP cost: one superstep with h = the largest number of words that one processor sends to, or gets from, the others;
    nothing where p = 1.

    Source: *Communication primitives for BSP computers*, section 3, step (1)i of 2D-BCAST from every processor at once.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.total_exchange(bsp, [10 * bsp.pid + dest for dest in range(bsp.p)])
        >>> pybsp.simulate(main, p=3).results
        [[0, 10, 20], [1, 11, 21], [2, 12, 22]]
    """
    call = Call(bsp, "total_exchange")
    call.takes(int(bsp.p > 1))
    values = one_for_each("total_exchange", values, bsp.p)
    own = own_argument(values[bsp.pid])
    # 1. All send each other their values.
    found = yield from run(call, plan(bsp.p), bsp.pid, lambda dest: packed(values[dest], "total_exchange", "values"))
    found.insert(bsp.pid, own)
    return found
