"""2D-BCAST (broadcast_items.py)."""

from __future__ import annotations

from functools import lru_cache

from ...machines.cost import Superstep
from .. import tree
from . import broadcast_groups


@lru_cache(maxsize=4096)
def counted(p: int, k: int, degree: int) -> tuple[Superstep, ...]:
    """What its supersteps are charged for with k words."""
    far = p - 1
    if p == 1:
        return ()
    if 0 < k < p:
        return broadcast_groups.counted(p, k, k, degree)
    if k == 0:
        # A tree of messages without words.
        levels = [-(-p // degree**level) for level in reversed(range(tree.height(p, degree)))]
        return tuple(Superstep(0, 0, min(degree, parts) - 1, 0, 0.0, far) for parts in levels)
    block = -(-k // p)
    holders = -(-k // block)
    rest = k - (holders - 1) * block  # what the last of them holds
    scattered = Superstep(k - block, block if holders > 2 else rest, holders - 1, k - block, 0.0, far)
    into = k if holders < p else k - rest
    out = block * (p - 1)
    return scattered, Superstep(out, into, p - 1, out + (k - block) * (p - 2), 0.0, far)
