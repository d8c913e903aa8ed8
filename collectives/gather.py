"""Gather: the root gets the values of all processors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import processor, root_of
from .one_superstep import exchange_at, owned, priced, run, word_counts
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, Call, primitive
from .values import own_argument, packed


@lru_cache(maxsize=256)
def plan(p: int, root: int = 0) -> Plan:
    """Processor i sends its value (item i) to the root."""
    if p == 1:
        return joined(p, ())
    pids = np.arange(p)
    return joined(p, [Step.of(pids, root, pids, pids + 1)])


def cost(machine: Machine, words: ArrayLike = 1, root: int = 0) -> Cost:
    """What it costs, exactly; words of every value, or of each, shape (p,)."""
    root = processor("gather.cost", "root", root, machine.p)
    counts = word_counts("gather.cost", words, (machine.p,))
    return priced(machine, plan(machine.p, root), lambda step: counts[step.sources])


def _small(bsp: BSP, value: Any, root: int = 0) -> Any:
    root, exchange = exchange_at(bsp, "gather", root, plan, argument="value")
    value = own_argument(value)
    came = exchange(value)
    return came if came is NOT_SMALL else _on_root(bsp, owned(came), value, root)


def _on_root(bsp: BSP, came: list[Any], value: Any, root: int) -> list[Any] | None:
    if bsp.pid != root:
        return None
    came.insert(root, value)
    return came


@primitive(cost, plan, _small)
def gather(bsp: BSP, value: Any, root: int = 0) -> Supersteps[list[Any] | None]:
    """Give the root the values of all processors; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; shapes, dtypes and types may differ between processors.
        root: who gets them; equal on all processors.

    Returns:
        On the root a list of p values by pid: its own value itself (of a read-only array a copy), and others of its
            own, which may be written to.
        None elsewhere.

    Raises:
        UsageError: root is no processor, or differs; a value that cannot be pickled.

    BSP cost: one superstep with h = the words of all values but the root's own; nothing where p = 1.

    Source: the reverse of `scatter`.

    Examples:
        >>> from pybsp import collectives
        >>> pybsp.simulate(lambda bsp: collectives.gather(bsp, bsp.pid**2), p=3).results
        [[0, 1, 4], None, None]
    """
    root = root_of("gather", root, bsp)
    call = Call(bsp, "gather", root=root)
    call.takes(int(bsp.p > 1))
    value = own_argument(value)
    # 1. All send their values to the root.
    came = yield from run(call, plan(bsp.p, root), bsp.pid, lambda _: packed(value, "gather"))
    return _on_root(bsp, came, value, root)
