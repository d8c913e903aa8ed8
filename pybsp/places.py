"""Places in an array: index arrays, and the slices that say the same where the indices are regular.

A slice is read and written at the speed of a copy, and takes no memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = slice | NDArray[np.intp]


def as_places(indices: NDArray[Any]) -> Places:
    """The slice that selects what these indices do, where there is one; indices: of at least 0, shape (m,)."""
    if not indices.size:
        return slice(0, 0)
    first = int(indices[0])
    step = int(indices[1]) - first if indices.size > 1 else 1
    if step > 0 and int(indices[-1]) == first + step * (indices.size - 1) and bool((np.diff(indices) == step).all()):
        return slice(first, first + step * (indices.size - 1) + 1, step)
    return indices.astype(np.intp)  # a copy: what they came from goes


def count_of(places: Places) -> int:
    """How many places these are."""
    return len(range(places.start, places.stop, places.step or 1)) if isinstance(places, slice) else places.size


def take(array: NDArray[Any], places: Places, out: NDArray[Any]) -> None:
    """Copy what is at these places of an array of one axis; they are not checked."""
    if isinstance(places, slice):
        out[...] = array[places]
    else:
        array.take(places, out=out, mode="clip")  # mode: the default one would copy twice


def by_group(keys: NDArray[Any]) -> list[tuple[int, NDArray[np.intp]]]:
    """For each key, ascending, where it stands in `keys`, ascending; keys: of at least 0, shape (m,)."""
    if not keys.size:
        return []
    if (keys[1:] >= keys[:-1]).all():
        order = np.arange(keys.size)
    else:  # numpy sorts small unsigned integers by radix
        order = np.argsort(keys.astype(np.uint16) if keys.max() < 1 << 16 else keys, kind="stable")
    sorted_keys = keys[order]
    cuts = [0, *((sorted_keys[1:] != sorted_keys[:-1]).nonzero()[0] + 1).tolist(), keys.size]
    return [(int(sorted_keys[a]), order[a:b]) for a, b in pairwise(cuts)]
