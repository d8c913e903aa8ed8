"""The network of bitonic sort, in supersteps (bitonic_sort.py says which network it is)."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from . import tree
from .plan import Step

Masks = tuple[int, ...]  # of consecutive levels: processor i is compared with i XOR mask
Integers = NDArray[np.int64]


@lru_cache(maxsize=256)
def schedule(p: int, levels: int, first: int = 0) -> tuple[Masks, ...]:
    """The levels of each superstep: a merge stage of s levels takes ceil(s / levels), as even as can be.

    first: so many merge stages are left out, as they are melted into one superstep, `gathering(first)`.
    """
    found: list[Masks] = []
    for stage in range(first + 1, tree.height(p, 2) + 1):
        masks = (2**stage - 1, *(2**k for k in reversed(range(stage - 1))))
        groups = -(-stage // levels)
        cuts = [-(-stage * group // groups) for group in range(groups + 1)]
        found += [masks[first:last] for first, last in pairwise(cuts)]
    return tuple(found)


def gathering(first: int) -> Masks:
    """The superstep into which the first stages are melted: groups of 2^first processors, who all get the same keys."""
    return tuple(2**k for k in reversed(range(first)))


@lru_cache(maxsize=1024)
def reach(masks: Masks) -> Integers:
    """The XOR of every subset of the masks, shape (2^levels,); the first mask is the highest bit of the index."""
    found = np.zeros(1, np.int64)
    for mask in reversed(masks):
        found = np.concatenate((found, found ^ mask))
    return found


def melted(p: int, masks: Masks) -> Step:
    """One superstep: everybody sends its key to whoever simulates a comparator that the key may pass."""
    here, there = np.divmod(np.arange(p * 2 ** len(masks)), 2 ** len(masks))
    there = here ^ reach(masks)[there]
    return Step.of(here[there < p], there[there < p])
