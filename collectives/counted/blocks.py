"""Reduction by blocks (blocks.py)."""

from __future__ import annotations

from functools import lru_cache

from ...machines.cost import Superstep


@lru_cache(maxsize=4096)
def counted(p: int, k: int, nbytes: int, root: int | None = None) -> tuple[Superstep, ...]:
    """What its supersteps are charged for with k >= p items of so many bytes."""
    if p == 1:
        return ()
    few, large = divmod(k, p)  # so many blocks have an item more
    small, most = (-(-items * nbytes // 8) for items in (few, few + (large > 0)))
    total = small * (p - large) + most * large
    flop = (p - 1) * (few + (large > 0)) * nbytes / 8
    # 1. Everybody sends all blocks but its own, and gets its own from all.
    out, into, far = total - small, most * (p - 1), p - 1
    scattered = Superstep(out, into, p - 1, total * (p - 1), 0.0, far)
    # 2. The same turned round, or but one block from each.
    if root is None:
        return scattered, Superstep(into, out, p - 1, total * (p - 1), flop, far)
    stays = most if (root + 1) * k // p - root * k // p > few else small
    largest = most if large > (stays > small) else small  # of the others
    return scattered, Superstep(largest, total - stays, p - 1, total - stays, flop, far)
