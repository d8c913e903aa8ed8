"""The d-ary tree over processors: groups of d^t consecutive ones, each with a leader.

The leader of a group is its first processor, or `root` where the group holds it. At level t the leader of each group of
d^(t+1) exchanges a message with the leaders of the (up to d) groups of d^t in it: down the tree to broadcast, up to
reduce. The height is ceil(log_d p), and no processor exchanges more than d - 1 messages at a level.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .plan import Numbers


def height(p: int, degree: int) -> int:
    """ceil(log_d p), in integers."""
    levels, reach = 0, 1
    while reach < p:
        levels, reach = levels + 1, reach * degree
    return levels


@lru_cache(maxsize=1024)
def degrees(p: int) -> tuple[int, ...]:
    """The degrees worth a thought: for each height the smallest that reaches it, from the highest tree to the flattest.

    Of two degrees with equal heights the smaller one has no greater h: (d-1)*(T-1) + ceil(p / d^(T-1)) - 1.
    """
    found: list[int] = []
    for levels in range(height(p, 2), 0, -1):
        degree = max(2, round(p ** (1 / levels)) - 1)
        while degree**levels < p:
            degree += 1
        if height(p, degree) == levels and (not found or found[-1] != degree):
            found.append(degree)
    return tuple(found) or (2,)


def edges(p: int, degree: int, level: int, root: int = 0) -> tuple[Numbers, Numbers]:
    """The messages of a level: the leaders of the groups of d^(level+1), and those of the groups in them."""
    size = degree**level
    first = np.arange(0, p, size, dtype=np.int64)
    above = first // (size * degree) * (size * degree)
    parents = np.where(above // (size * degree) == root // (size * degree), root, above)
    children = np.where(first // size == root // size, root, first)
    apart = parents != children
    return parents[apart].astype(np.int32), children[apart].astype(np.int32)
