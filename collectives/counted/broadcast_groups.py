"""Broadcast of c pieces to c groups (broadcast_groups.py)."""

from __future__ import annotations

from functools import lru_cache

from ...machines.cost import Superstep
from .. import tree


@lru_cache(maxsize=4096)
def counted(p: int, k: int, c: int, degree: int) -> tuple[Superstep, ...]:
    """What its supersteps are charged for with k >= c words.

    Groups and pieces come in two sizes, the larger ones first, so that group 0 has the largest of both.
    """
    low, large = divmod(p, c)  # so many groups have a processor more
    piece, longer = divmod(k, c)  # so many pieces have a word more
    most, far = piece + (longer > 0), p - 1
    steps = []
    if c > 1:
        # 1. The root sends all pieces but its own.
        steps.append(Superstep(k - most, piece + (longer > 1), c - 1, k - most, 0.0, far))
    # 2. All trees go down together. The words of the pieces of the large groups, and of the small ones:
    of_large = large * piece + min(large, longer)
    of_small = k - of_large
    size = low + (large > 0)
    for level in reversed(range(tree.height(size, degree))):
        fan = min(degree, -(-size // degree**level)) - 1
        sent = of_large * _edges(low + 1, degree, level) + of_small * _edges(low, degree, level)
        steps.append(Superstep(fan * most, most, fan, sent, 0.0, far))
    if c > 1:
        # 3. All but the root get the other pieces.
        served = [(_served(c, low, large, group), piece + (group < longer)) for group in {0, 1, large, longer, c - 1}]
        messages = max(c - 1, *(copies for copies, _ in served))
        received = p * k - (k * low + of_large) - (k - most)
        steps.append(
            Superstep(max(copies * words for copies, words in served), k - piece, messages, received, 0.0, far)
        )
    return tuple(steps)


def _edges(size: int, degree: int, level: int) -> int:
    """Messages of a level of the tree of a group."""
    parts = -(-size // int(degree**level))
    return parts - -(-parts // degree)


def _served(c: int, low: int, large: int, group: int) -> int:
    """How many processors the busiest of a group sends its piece to in step 3."""
    if group >= c:
        return 0
    # Its first processor serves the first ones of the others, but for the root; the next ones those with their place.
    first, next_ones = c - 1 - (group > 0), c - 1 if low > 1 else 0
    if group < large:
        # Its last one, those of the other large groups.
        return max(first, next_ones, large - 1)
    # The last ones of the large groups are served by all members in turn.
    return max(first + -(-large // low), next_ones + -(-(large - 1) // low) if next_ones and large else next_ones)
