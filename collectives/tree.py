"""The d-ary tree over processors: groups of d^t consecutive ones, each with a leader.

The leader of a group is its first processor, or `root` where the group holds it. At level t the leader of each group of
d^(t+1) exchanges a message with the leaders of the (up to d) groups of d^t in it: down the tree to broadcast, up to
reduce. The height is ceil(log_d p), and no processor exchanges more than d - 1 messages at a level.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..errors import UsageError, brief
from .plan import Numbers


@lru_cache(maxsize=1024)
def height(p: int, degree: int) -> int:
    """ceil(log_d p), in integers; a UsageError of a degree below 2."""
    if degree < 2:
        raise UsageError(f"plan: argument degree: expected a whole number of at least 2, got {brief(degree)}")
    levels, reach = 0, 1
    while reach < p:
        levels, reach = levels + 1, reach * degree
    return levels


@lru_cache(maxsize=1024)
def degrees(p: int) -> tuple[int, ...]:
    """The degrees worth a thought, from the highest tree to the flattest: no other costs less.

    Trees of two levels, where d >= sqrt(p), have ceil(p/d) groups of d: for each ceil(p/d) the smallest d will do.
    """
    least = math.isqrt(p - 1) + 1  # ceil(sqrt(p))
    two_levels = {-(-p // groups) for groups in range(2, least + 1)}
    return tuple(sorted({2, *range(2, least), *(d for d in two_levels if d >= least), max(p, 2)}))


def edges(p: int, degree: int, level: int, root: int = 0) -> tuple[Numbers, Numbers]:
    """The messages of a level: the leaders of the groups of d^(level+1), and those of the groups in them."""
    size = degree**level
    first = np.arange(0, p, size, dtype=np.int64)
    reach = min(size * degree, p)
    above = first // reach * reach
    parents = np.where(above // reach == root // reach, root, above)
    children = np.where(first // size == root // size, root, first)
    moving = parents != children
    return parents[moving].astype(np.int32), children[moving].astype(np.int32)
