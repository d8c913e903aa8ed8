"""Regular sampling: splitters that divide sorted blocks evenly, from a few samples of each; pure functions.

Keys are ordered by (key, processor, place in the processor's sorted block), so that no two are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[Any]
Counts = NDArray[np.int64]


class Splitters(NamedTuple):
    """The keys that divide what goes to processor t from what goes to t + 1, for t = 0 to p - 2.

    keys: shape (m,), m <= p - 1: the last ones are missing where nothing is left for the last processors.
    owners, places: whose sample it is, and where in the owner's sorted block.
    passed: how many samples of this processor come before it.
    """

    keys: Keys
    owners: Counts
    places: Counts
    passed: Counts


def sample_places(p: int, n: int) -> Counts:
    """Where in a sorted block of n keys its samples are: first, last, p - 1 evenly between; or all, if few."""
    return np.arange(n) if n <= p + 1 else np.arange(p + 1) * (n - 1) // p


def most(p: int, sizes: ArrayLike) -> int:
    """The most keys that a processor can get, for blocks of these sizes, shape (p,); at most 2*n for p blocks of n.

    With g_i the largest gap between the samples of block i, a sample's rank is known but for g_i - 1 keys of each block
    that is not its own, and its estimate is the middle of what is possible. The estimates of neighbours are at most
    max g_i apart, so each splitter's is within half of that of its target. Between two splitters there are then at most

        N/p + max g_i + (the sum of all g_i - 1 but the smallest).
    """
    n = np.asarray(sizes, np.int64)
    gaps = np.where(n > 0, np.maximum(1, -(-(n - 1) // p)), 0)
    loose = np.maximum(gaps - 1, 0)
    total = int(n.sum())
    return min(total, total // p + int(gaps.max()) + int(loose.sum() - loose.min()))


def split(samples: Keys, sizes: Sequence[int], pid: int) -> Splitters:
    """The splitters, from the samples of all processors in order of pid.

    The rank of a sample lies between two sums over the blocks: of the places of the last samples before it and the
    first ones after it. Splitter t is the sample for which the middle of the two is nearest to t*N/p.
    """
    p = len(sizes)
    places = [sample_places(p, n) for n in sizes]
    owners = np.repeat(np.arange(p), [at.size for at in places])
    place = np.concatenate(places)
    before = np.concatenate([np.concatenate(([-1], at[:-1]))[: at.size] for at in places]) + 1
    after = np.concatenate([np.concatenate((at[1:], [n]))[: at.size] for at, n in zip(places, sizes, strict=True)])
    # Equal keys stay ordered by processor, then place.
    order = np.argsort(samples, kind="stable")
    owners, place, before, after = owners[order], place[order], before[order], after[order]
    # Twice the middle: what each block adds when its sample has passed. In its own block a sample's rank is its place.
    steps = (place + 1 - before) + (after - place)
    doubled = np.cumsum(steps) - steps + (place - before)
    # The end of all keys is a sample too, with rank N.
    total = sum(sizes)
    doubled = np.append(doubled, 2 * total)
    targets = 2 * np.arange(1, p) * total
    above = np.searchsorted(doubled * p, targets)
    below = np.maximum(above - 1, 0)
    chosen = np.where(targets - doubled[below] * p < doubled[above] * p - targets, below, above)
    chosen = chosen[chosen < owners.size]
    passed = np.cumsum(owners == pid) - (owners == pid)
    return Splitters(samples[order[chosen]], owners[chosen], place[chosen], passed[chosen])


def cut_sorted(block: Keys, splitters: Splitters, pid: int) -> Counts:
    """Where the splitters cut a sorted block."""
    left = np.searchsorted(block, splitters.keys, "left")
    right = np.searchsorted(block, splitters.keys, "right")
    cuts = np.where(splitters.owners < pid, left, right)
    return np.where(splitters.owners == pid, splitters.places, cuts)


def divide(part: Keys, smaller: NDArray[np.bool_], cut: int) -> None:
    """Bring the smaller keys, `cut` in number, before the others."""
    wrong = cut - np.count_nonzero(smaller[:cut])
    if wrong > part.size // 16:
        part.partition(cut)
    elif wrong:
        # A splitter is mostly next to a sample, so that few keys have to change places.
        late, early = cut + np.flatnonzero(smaller[cut:]), np.flatnonzero(~smaller[:cut])
        part[late], part[early] = part[early], part[late]


def cut_selected(block: Keys, places: Counts, splitters: Splitters, pid: int) -> Counts:
    """Where the splitters would cut the block if it were sorted; the keys are brought to their sides of the cuts."""
    cuts, last, done = [], places.size - 1, 0
    for key, owner, place, passed in zip(*splitters, strict=True):
        # The cut lies between two samples, whose places are known; only the first and the last are not in theirs.
        low = max(done, int(places[passed - 1]) + 1 if passed > 1 else 0)
        high = block.size if passed >= last else int(places[passed])
        part = block[low:high]
        if owner == pid:
            cut = int(place)
            if low < cut < high:
                part.partition(cut - low)
        elif passed > last:
            cut = high
        else:
            if key != key:  # NaN, which comes last
                smaller = part == part if owner < pid else np.ones(part.size, np.bool_)
            else:
                smaller = part < key if owner < pid else part <= key
            cut = low + int(np.count_nonzero(smaller))
            divide(part, smaller, cut - low)
        cuts.append(cut)
        done = cut
    return np.array(cuts, np.int64)


def select(block: Keys, places: Counts) -> None:
    """Bring the keys at these places of the sorted block there, and the others to their sides of them."""
    # By halves: numpy selects one key with vector instructions, and several without.
    parts = [(0, block.size, 0, places.size)]
    while parts:
        low, high, first, last = parts.pop()
        if first < last:
            middle = (first + last) // 2
            place = int(places[middle])
            block[low:high].partition(place - low)
            parts += [(low, place, first, middle), (place + 1, high, middle + 1, last)]
