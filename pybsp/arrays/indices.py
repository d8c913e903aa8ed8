"""Indices of puts and gets, as records have them: what is not an array stays what it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ground.copying import copy
from ..transport.memory import NOTHING, Growing


class _Stored:
    """An index array's place in the buffer: picklable, while slices and ints stay what they are."""

    __slots__ = ("offset", "shape")

    def __init__(self, offset: int, shape: tuple[int, ...]) -> None:
        self.offset, self.shape = offset, shape

    def __reduce__(self) -> tuple[type, tuple[int, tuple[int, ...]]]:
        return _Stored, (self.offset, self.shape)


def store(at: Any, buffer: Growing) -> Any:
    """An index for a record: its arrays are copied into the buffer."""
    if isinstance(at, tuple):
        return tuple(store(part, buffer) for part in at)
    if isinstance(at, (list, np.ndarray)):
        array = np.asarray(at)
        offset = buffer.reserve(8 * array.size)
        if array.size:
            copy(array, np.ndarray(array.shape, np.int64, buffer.array, offset))
        return _Stored(offset, array.shape)
    return at


def restore(stored: Any, data: Any) -> Any:
    """The index of a record, whose arrays lie in that data."""
    if isinstance(stored, tuple):
        return tuple(restore(part, data) for part in stored)
    if isinstance(stored, _Stored):
        return np.ndarray(stored.shape, np.int64, NOTHING if data is None else data, stored.offset)
    return stored
