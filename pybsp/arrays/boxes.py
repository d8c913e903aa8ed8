"""What ints and slices of a laid-out array are on its owners: ints and slices again, one box for each of them.

An owner copies a box as it lies there, and no index travels for it; no item is looked at.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..layouts import Axis, Layout

Along = tuple[int, slice | None, int | slice]  # of an axis: a part of it, where in the result, and where in that part


class Box(NamedTuple):
    """What an owner has of some items.

    Attributes:
        owner: the processor.
        where: among the items, an index of an array of their shape.
        at: in the owner's part.
        shape: of the box.
    """

    owner: int
    where: Any
    at: Any
    shape: tuple[int, ...]


def boxes(layout: Layout, indices: Sequence[int | slice]) -> tuple[tuple[int, ...], list[Box]] | None:
    """The shape of the items that an index selects, and what each owner has of them, by owner.

    Args:
        indices: of each axis an int, or a slice; all within the array.

    Returns:
        None where some of it is no box: a slice that descends, or blocks that are dealt out.

    Examples:
        >>> from pybsp.arrays.boxes import boxes
        >>> from pybsp.layouts import Cyclic
        >>> shape, pieces = boxes(Cyclic((10, 4), (3, 1)), (slice(0, 10, 2), 1))
        >>> shape, pieces[1]
        ((5,), Box(owner=1, where=(slice(2, 3, None),), at=(slice(1, 2, None), 1), shape=(1,)))
    """
    along: list[list[Along]] = []
    shape = []
    for axis, index in zip(layout._axes, indices, strict=True):
        if isinstance(index, slice):
            numbers = range(axis.n)[index]
            found = _of_slice(axis, numbers)
            if found is None:
                return None
            along.append(found)
            shape.append(len(numbers))
        else:
            part_of, local = axis.places(np.intp(operator.index(index) % axis.n))  # type: ignore[arg-type]
            along.append([(int(part_of), None, int(local))])
    whole = []
    for places in itertools.product(*along):
        owner = 0
        for parts, (part, _, _) in zip(layout.grid, places, strict=True):
            owner = owner * parts + part
        where = tuple(one for _, one, _ in places if one is not None)
        at = tuple(one for _, _, one in places)
        lengths = tuple(len(range(one.start, one.stop, one.step or 1)) for one in where)
        whole.append(Box(owner, where, at if len(at) > 1 else at[0], lengths))
    return tuple(shape), sorted(whole, key=operator.attrgetter("owner"))


def _of_slice(axis: Axis, numbers: range) -> list[Along] | None:
    """The parts of an axis that have some of these items."""
    count, step = len(numbers), numbers.step
    if not count:
        return []
    if step < 0 or not (axis.strided or axis.whole):
        return None
    if axis.strided:  # after so many of them comes the same part again
        period = axis.parts // math.gcd(step, axis.parts)
        found: list[Along] = []
        for k in range(min(period, count)):
            local, part = divmod(numbers[k], axis.parts)
            where = range(k, count, period)
            found.append((part, _slice(k, period, len(where)), _slice(local, step * period // axis.parts, len(where))))
        return found
    found = []
    first, last = (int(axis.owner(np.intp(number))) for number in (numbers[0], numbers[-1]))  # type: ignore[arg-type]
    for part in range(first, last + 1):
        begin = axis.begin(part)
        before, end = (min(max(-((numbers[0] - edge) // step), 0), count) for edge in (begin, begin + axis.size(part)))
        if before < end:
            local = numbers[before] - begin
            found.append((part, _slice(before, 1, end - before), _slice(local, step, end - before)))
    return found


def _slice(first: int, step: int, count: int) -> slice:
    """So many numbers from the first on."""
    last = first + (count - 1) * step
    return slice(first, last + 1) if step == 1 or count == 1 else slice(first, last + 1, step)
