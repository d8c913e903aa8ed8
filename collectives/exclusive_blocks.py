"""Exclusive prefix of long arrays by blocks: case 1 of 2D-PREFIX (prefix_2d.py), whose sums go one processor further.

Processor q has block q of all arrays but the last one's, makes their prefix sums, and sends each to who it lies before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from .blocks import even_cuts
from .operators import Operator
from .plan import Plan, joined
from .prefix_2d import case_1, case_1_plan
from .primitive import Call


@lru_cache(maxsize=32)
def plan(p: int, n: int) -> Plan:
    """Who sends which of n items, at least p, to whom."""
    return joined(p, ()) if p == 1 else case_1_plan(p, n, further=1)


@lru_cache(maxsize=1024)
def counted(p: int, n: int, words: float) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, for items of so many words, without making it."""
    if p == 1:
        return ()
    items = np.diff(even_cuts(p, n))
    block = -(-items * round(8 * words) // 8)
    # Of p - 1 arrays each owner gets and sends its blocks, but what it has, or is for it.
    came, sent = (block * (p - 2 + (np.arange(p) == whole)) for whole in (p - 1, 0))
    out, into = (int(block.sum() - some.min()) for some in (block[:-1], block[1:]))
    work = int(items.max()) * (p - 2) * words
    return (
        Superstep(out, int(came.max()), p - 1, int(came.sum()), 0.0, p - 1),
        Superstep(int(sent.max()), into, p - 1, int(sent.sum()), work, p - 1),
    )


def cost(machine: Machine, n: int, words: float) -> Cost:
    """What it costs for n items of so many words."""
    return Cost(machine, counted(machine.p, n, words))


def run(call: Call, value: NDArray[Any], op: Operator, words: float) -> Supersteps[NDArray[Any] | None]:
    """Run it with an array of one axis, whose items have so many words; None on processor 0."""
    p = call.bsp.p
    return None if p == 1 else (yield from case_1(call, plan(p, value.size), value, op, words, further=1))
