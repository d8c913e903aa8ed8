"""What checked mode leaves where received data was: NaN in floating-point numbers, which no sum hides, else bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..transport import Bytes

POISON = 0xA5  # in every byte: far outside of any array, as an index


def poison(data: Bytes, arrays: Iterable[NDArray[Any]] = ()) -> None:
    """Fill memory with what is no longer valid.

    Args:
        data: the memory.
        arrays: what of it is known to hold numbers.
    """
    data.fill(POISON)
    for array in arrays:
        _poison_numbers(array)


def _poison_numbers(array: NDArray[Any]) -> None:
    if array.dtype.names:
        for name in array.dtype.names:
            _poison_numbers(array[name])
    elif array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype.kind == "c":
        array.fill(complex(np.nan, np.nan))
