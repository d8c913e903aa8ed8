"""The trees of a prefix (prefix_trees.py)."""

from __future__ import annotations

from functools import lru_cache

from ...machines.cost import Superstep
from .. import tree


def last_work(size: int, degree: int) -> int:
    """Operations after the last sync."""
    levels = tree.height(size, degree)
    return (size - 1) // degree ** (levels - 1) if levels else 0


@lru_cache(maxsize=4096)
def counted(sizes: tuple[int, ...], degree: int, words: float) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, without making it."""
    most = max(sizes)
    each = -(-round(8 * words) // 8)
    kinds = [(size, sizes.count(size)) for size in set(sizes)]
    steps = []
    work, stride = 0, 1
    for _ in range(tree.height(most, degree)):
        fan = min(degree - 1, (most - 1) // stride)
        sent = 0
        for size, intervals in kinds:
            reach = min(fan, (size - 1) // stride)  # size - j*stride processors have one j*stride above, j = 1..reach
            sent += intervals * (reach * size - stride * reach * (reach + 1) // 2)
        steps.append(Superstep(fan * each, fan * each, fan, sent * each, work * words, fan * stride))
        work, stride = fan, stride * degree
    return tuple(steps)
