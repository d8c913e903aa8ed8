"""The trees of a prefix, in one or more intervals of consecutive processors at once.

In superstep t each processor knows the sum of the d^t processors up to itself (of its interval), sends it to those d^t,
2d^t, ... (d-1)d^t above, and from those that it gets makes the sum of d^(t+1).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from . import tree
from .plan import Plan, Step, joined


@lru_cache(maxsize=64)
def plan(sizes: tuple[int, ...], degree: int) -> Plan:
    """Who sends its sum (item 0) to whom; the intervals of these sizes lie side by side."""
    size = np.array(sizes)
    starts = np.cumsum(size) - size
    start = np.repeat(starts, size)
    end = start + np.repeat(size, size)
    here = np.arange(end.size)
    steps = []
    work, stride = 0, 1
    for _ in range(tree.height(max(sizes), degree)):
        fan = min(degree - 1, (max(sizes) - 1) // stride)
        there = here[:, None] + stride * np.arange(1, fan + 1)
        inside = there < end[:, None]
        steps.append(Step.of(np.broadcast_to(here[:, None], there.shape)[inside], there[inside], work=work))
        work, stride = fan, stride * degree
    return joined(here.size, steps, work)
