"""Bitonic sort (bitonic_sort.py)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...machines.cost import Superstep
from .. import tree
from ..bitonic_network import Integers, Masks, gathering, schedule


class Coset(NamedTuple):
    """Of each of 2^k columns: how many of the processors are in its coset, and the greatest distance among them."""

    members: Integers
    locality: int


@lru_cache(maxsize=1024)
def _coset(p: int, masks: Masks) -> Coset:
    column = np.arange(2 ** tree.height(p, 2))
    members = (column < p).astype(np.int64)
    last, first = np.where(column < p, column, -1), np.where(column < p, column, p)
    for mask in masks:
        members = members + members[column ^ mask]
        last = np.maximum(last, last[column ^ mask])
        first = np.minimum(first, first[column ^ mask])
    return Coset(members, int((last - first)[:p].max()))


def network(p: int, levels: int, sizes: Integers, nbytes: int, first: int = 0) -> list[Superstep]:
    """What the supersteps of the network are charged for with blocks of these sizes; the work in each is that of the
    levels before it.
    """
    column = np.arange(2 ** tree.height(p, 2))
    counts = np.zeros(column.size, np.int64)
    counts[:p] = sizes
    most = int(sizes.max())
    work, steps = 0, []
    for masks in supersteps(p, levels, first):
        members, locality = _coset(p, masks)
        words = -(-counts * nbytes // 8)
        into = words
        for mask in masks:
            into = into + into[column ^ mask]
        out = (words * (members - 1))[:p]
        steps.append(
            Superstep(
                int(out.max()),
                int((into - words)[:p].max()),
                int(members[:p].max()) - 1,
                int(out.sum()),
                work,
                locality,
            )
        )
        if first and not steps[1:]:
            # A group's keys fill its processors from the first on.
            work = _merging(p, first) * most
            group = counts.reshape(-1, 2**first)
            below = np.arange(2**first) * most
            counts = np.clip(group.sum(axis=1, keepdims=True) - below, 0, most).ravel()
            continue
        work = (2 ** len(masks) - 1) * most
        # The lower-numbered of a pair is filled first; infinities, which are not sent, go to the other.
        for mask in masks:
            both = counts + counts[column ^ mask]
            counts = np.where(column < column ^ mask, np.minimum(both, most), both - np.minimum(both, most))
    return steps


def supersteps(p: int, levels: int, first: int) -> tuple[Masks, ...]:
    """The masks of each superstep, that of the melted first stages included."""
    return (gathering(first), *schedule(p, levels, first)) if first else schedule(p, levels)


def _merging(p: int, first: int) -> int:
    """Comparisons for each key of a block, in merging the 2^first blocks of a group."""
    return min(1 << first, p) * first


@lru_cache(maxsize=4096)
def _copies(p: int, masks: Masks) -> tuple[int, int, int]:
    """How many processors a block goes to, at most, and all blocks together; and how far."""
    members, locality = _coset(p, masks)
    return int(members[:p].max()) - 1, int(members[:p].sum()) - p, locality


@lru_cache(maxsize=4096)
def equal(p: int, levels: int, n: int, nbytes: int, first: int = 0) -> tuple[Superstep, ...]:
    """`network` with blocks of n keys: they stay as long as they are."""
    words, work, steps = -(-n * nbytes // 8), 0, []
    for masks in supersteps(p, levels, first):
        most, total, locality = _copies(p, masks)
        steps.append(Superstep(words * most, words * most, most, words * total, work, locality))
        work = (_merging(p, first) if first and not steps[1:] else 2 ** len(masks) - 1) * n
    return tuple(steps)


def last_work(p: int, levels: int, n: int, first: int = 0) -> int:
    """Comparators that a processor simulates after the last sync."""
    steps = schedule(p, levels, first)
    return ((2 ** len(steps[-1]) - 1) if steps else _merging(p, first)) * n
