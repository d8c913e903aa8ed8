"""The fixed order: a balanced binary tree over p processors that says how values are combined, whatever carries them.

Node i of depth t holds the processors from i*p div 2^t up to (i+1)*p div 2^t; its halves are the nodes 2i and 2i + 1 of
the next depth, and one without processors is passed over. So pids stay in order, no value takes part in more than
ceil(log2 p) operations on its way to the total, and the bits depend on p and the values alone. A prefix goes by the
same tree without the processors above its own: the last one's is the total.

What carries sums of whole nodes can keep to it: blocks, trees that have all values in one superstep, and those whose
degree is a power of two; other degrees are rounded down to one.

An op must give an element the same bits wherever it lies in an array, as blocks cut arrays. The arithmetic of numpy
does, but for which of two NaNs goes on; np.fmax and np.fmin do not where zeros of both signs meet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from .arguments import Order, integer
from .groups import Level
from .operators import Fold, Operator, Parts, in_turn


def total(p: int, parts: Parts, op: Operator) -> Any:
    """Combine sums of nodes that follow each other, each with the number of one of its processors."""
    pids = [pid for pid, _ in parts]

    def of(depth: int, node: int, first: int, last: int) -> Any:
        if last - first == 1:
            return parts[first][1]
        middle = bisect_left(pids, _middle(p, depth, node), first, last)
        if middle == last:
            return of(depth + 1, 2 * node, first, last)
        if middle == first:
            return of(depth + 1, 2 * node + 1, first, last)
        return op(of(depth + 1, 2 * node, first, middle), of(depth + 1, 2 * node + 1, middle, last))

    return of(0, 0, 0, len(parts))


def fold(p: int, order: Order) -> Fold:
    """What combines values in this order of p processors."""
    return in_turn if order == "any" else partial(total, p)


def accumulate(p: int, behind: Callable[[int, int, int], None]) -> None:
    """Make prefix sums of p values where they lie.

    Args:
        p: values.
        behind: called with (before, first, last): puts the sum at `before` in front of those at first to last - 1.
    """

    def of(depth: int, node: int) -> None:
        first, last = node * p >> depth, (node + 1) * p >> depth
        if last - first > 1:
            of(depth + 1, 2 * node)
            of(depth + 1, 2 * node + 1)
            middle = _middle(p, depth, node)  # both halves have a processor where the node has two
            behind(middle - 1, middle, last)

    of(0, 0)


@lru_cache(maxsize=1024)
def operations(p: int) -> int:
    """How many `accumulate` takes: about p/2 log2 p."""
    lengths: list[int] = []
    accumulate(p, lambda before, first, last: lengths.append(last - first))
    return sum(lengths)


def _middle(p: int, depth: int, node: int) -> int:
    """The first processor of a node's upper half."""
    return (2 * node + 1) * p >> (depth + 1)


@lru_cache(maxsize=1024)
def degrees(p: int) -> tuple[int, ...]:
    """The degrees that there are, from the highest tree to the flattest."""
    return tuple(2**t for t in range(1, max(_height(p), 1) + 1))


def depths(p: int, degree: int) -> tuple[int, ...]:
    """From the top, between which depths of the tree the levels of one of a degree lie; the first may be smaller."""
    degree = integer("plan", "degree", degree, 2)
    height = _height(p)
    at_once = height if degree >= p else degree.bit_length() - 1
    return (0, *range((height - 1) % at_once + 1, height + 1, at_once)) if height else (0,)


def levels(p: int, degree: int) -> Iterator[Level]:
    """From the top: how the nodes of a depth are cut into those of the next depth that a degree reaches."""
    for above, below in pairwise(depths(p, degree)):
        cuts = np.arange(2**below + 1) * p >> below
        lengths = np.diff(cuts)
        filled = np.flatnonzero(lengths)
        group = filled >> (below - above)
        yield Level(np.bincount(group), group, cuts[filled], lengths[filled])


def _height(p: int) -> int:
    """ceil(log2 p)."""
    return (p - 1).bit_length()
