"""Places in an array: index arrays, and the slices that say the same where the indices are regular.

A slice is read and written at the speed of a copy, and takes no memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.copying import copy

Places = slice | NDArray[np.intp]
FEW = 4  # groups that are looked for one by one
MARKED = 16  # times as many places as numbers, at most, of which each gets a mark


def as_places(indices: NDArray[Any]) -> Places:
    """The slice that selects what these indices do, where there is one; indices: of at least 0, shape (m,)."""
    if not indices.size:
        return slice(0, 0)
    first = int(indices[0])
    step = int(indices[1]) - first if indices.size > 1 else 1
    ends = step > 0 and int(indices[-1]) == first + step * (indices.size - 1)
    if ends and (indices.size < 3 or bool((indices[1:] - indices[:-1] == step).all())):
        return slice(first, first + step * (indices.size - 1) + 1, step)
    return indices.astype(np.intp)  # a copy: what they came from goes


def count_of(places: Places) -> int:
    """How many places these are."""
    return len(range(places.start, places.stop, places.step or 1)) if isinstance(places, slice) else places.size


def taken(array: NDArray[Any], places: Places) -> NDArray[Any]:
    """A copy of what is at these places of an array of one axis; they are not checked."""
    return array[places].copy() if isinstance(places, slice) else array.take(places, mode="clip")


def take(array: NDArray[Any], places: Places, out: NDArray[Any]) -> None:
    """Copy what is at these places of an array of one axis, which are not checked, into a contiguous one."""
    if isinstance(places, slice):
        copy(array[places], out)
    else:
        array.take(places, out=out, mode="clip")  # mode: the default one would copy twice


def distinct(numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The distinct ones of some numbers of at least 0 and below `most`, ascending."""
    if most > MARKED * numbers.size:
        return np.unique(numbers)
    return _marked(numbers, most).nonzero()[0]  # in a tenth of the time of sorting


def among(numbers: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.intp]] | None:
    """The distinct ones, likewise, and where each number is among these; None where all differ.

    Examples:
        >>> from pybsp.arrays.places import among
        >>> among(np.array([7, 5, 7]), 10)
        (array([5, 7]), array([1, 0, 1]))
        >>> among(np.array([7, 5]), 10)
    """
    if (numbers[1:] > numbers[:-1]).all():
        return None
    if most > MARKED * numbers.size:
        found, inverse = np.unique(numbers, return_inverse=True)
        return None if found.size == numbers.size else (found, inverse)
    marks = _marked(numbers, most)
    found = marks.nonzero()[0]
    if found.size == numbers.size:
        return None
    where = np.empty(most, np.intp)
    where[found] = np.arange(found.size)
    return found, where[numbers]


def _marked(numbers: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """For each number whether it is there."""
    marks = np.zeros(most, bool)
    marks[numbers] = True
    return marks


def by_group(keys: NDArray[Any]) -> list[tuple[int, NDArray[np.intp]]]:
    """For each key, ascending, where it stands in `keys`, ascending; keys: of at least 0, shape (m,)."""
    if not keys.size:
        return []
    most = int(keys.max())
    if most < FEW:  # a look at all for each of few takes a third of the time of sorting
        found = [(key, (keys == key).nonzero()[0]) for key in range(most + 1)]
        return [one for one in found if one[1].size]
    if most < 1 << 16:  # numpy sorts small unsigned integers by radix
        keys = keys.astype(np.uint8 if most < 1 << 8 else np.uint16)
    order = np.arange(keys.size)
    if not (keys[1:] >= keys[:-1]).all():
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    cuts = [0, *((keys[1:] != keys[:-1]).nonzero()[0] + 1).tolist(), keys.size]
    return [(int(keys[a]), order[a:b]) for a, b in pairwise(cuts)]
