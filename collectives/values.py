"""Values of primitives: how they travel, and whose memory they are; and the argument out, where a result may go."""

from __future__ import annotations

import math
import pickle
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, argument_error
from ..ground.pickles import unpickled
from .operators import Operator, elementwise

PLAIN_NUMBERS = frozenset({bool, int, float, complex})


class Descriptor(NamedTuple):
    """How a value travels: the word for what it is, and the words that it counts.

    kind: "number", "object", an array's dtype and shape, or the shape of what a ufunc makes an array of; equal on all
        processors where all have one.
    words: of 8 bytes; of an object 1, as its pickle differs from processor to processor.
    """

    kind: str
    words: int


def descriptor(value: Any, op: Operator | None = None) -> Descriptor:
    """The descriptor of a value that all processors have one of, and combine by that op."""
    if is_array(value):
        return _of_array(value.dtype, value.shape)
    if isinstance(value, (list, tuple, np.ndarray)) and elementwise(op):  # which would stretch one to another's shape
        with suppress(ValueError):  # rows of different lengths
            return Descriptor(f"object{list(np.shape(value))}", 1)
    return Descriptor("number" if is_number(value) else "object", 1)


@lru_cache(maxsize=1024)
def _of_array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Descriptor:
    # Kept: numpy takes microseconds to name a dtype.
    return Descriptor(f"{dtype}{list(shape)}", -(-dtype.itemsize * math.prod(shape) // 8))


def is_array(value: Any) -> bool:
    """Whether it travels as an array: of plain data, and of no subclass, whose other data would be lost.

    Nor of `np.record`s, which numpy takes for other records of these fields wherever it compares dtypes.
    """
    return type(value) is np.ndarray and not value.dtype.hasobject and value.dtype.type is not np.record


def is_number(value: Any) -> bool:
    """Whether it travels as one word."""
    return type(value) in (int, float, complex, bool) or (
        isinstance(value, np.generic) and value.dtype.kind in "biufcmM"
    )


def packed(value: Any, name: str, argument: str = "value") -> Any:
    """A value as it is sent: numbers and arrays as they are, an object as its pickle.

    An object is pickled here rather than by `bsp.send`, so that arrays in it arrive as its own and not as views that
    end with the next sync.

    Raises:
        UsageError: it cannot be pickled.
    """
    if is_array(value) or is_number(value):
        return value
    try:
        return pickle.dumps(value, 5)
    except Exception as error:
        expected = "something that can be pickled"
        way_out = "give the data that it is made from, as list(values) of a generator"
        raise argument_error(name, argument, expected, f"{type(value).__name__} ({error})", way_out) from error


def unpacked(payload: Any) -> Any:
    """What `packed` packed; an array is a view that ends with the next sync."""
    return unpickled(payload) if isinstance(payload, bytes) else payload


def own_result(value: Any) -> Any:
    """A value that outlives the next sync: an array that is a view of what arrived is copied."""
    if isinstance(value, np.ndarray) and not (value.flags.owndata and value.flags.writeable):
        return value.copy()
    return value


def own_argument(value: Any) -> Any:
    """An argument that outlives the next sync: a read-only array, which may be what arrived, is copied."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def taken(value: Any, name: str, argument: str = "value") -> Any:
    """An argument that is worked on after the next sync: `own_argument`; of an object, a copy, as it may hold views.

    Raises:
        UsageError: an object that cannot be pickled.
    """
    return own_argument(value) if is_number(value) or is_array(value) else unpacked(packed(value, name, argument))


def alone(op: Operator, value: Any) -> Any:
    """A result that op has had no part in: under a ufunc a number of numpy's, as it is where op made it."""
    if isinstance(op, np.ufunc) and type(value) in PLAIN_NUMBERS:
        if type(value) is float:
            return np.float64(value)
        number: Any = np.asarray(value)[()]
        return number if isinstance(number, np.generic) else value  # an int of more than 64 bits stays
    return value


def detached(result: Any, value: Any) -> Any:
    """A result that is not the caller's array itself."""
    return result.copy() if result is value and isinstance(value, np.ndarray) else result


def checked_out(name: str, out: Any) -> None:
    """The argument out; a UsageError where it is no array that can be written to."""
    if out is not None and not (type(out) is np.ndarray and out.flags.writeable):
        got = "a read-only one" if type(out) is np.ndarray else f"{type(out).__name__}"
        raise argument_error(name, "out", "an array that can be written to", got)


def room(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Where a result of that form can be made: out, where it has it; else a new array, for `placed` to copy."""
    if out is not None and out.shape == shape and out.dtype == dtype and out.flags.c_contiguous:
        return cast("NDArray[Any]", out)
    return np.empty(shape, dtype)


def placed(name: str, result: Any, out: Any) -> Any:
    """A result in the array out, where one was given.

    Raises:
        UsageError: it is no array, has another shape, a dtype that out's cannot hold, or a mask.
    """
    if out is None or result is out:
        return result
    if type(result) is not np.ndarray and isinstance(result, np.ma.MaskedArray):
        way_out = "give no out, or .filled() values"
        raise argument_error(name, "out", "a result without a mask", "a masked one, whose mask would be lost", way_out)
    if not (
        isinstance(result, np.ndarray)
        and result.shape == out.shape
        and np.can_cast(result.dtype, out.dtype, "same_kind")
    ):
        got = f"{result.dtype}{list(result.shape)}" if isinstance(result, np.ndarray) else type(result).__name__
        raise UsageError(
            f"{name}: argument out: expected an array of the result's shape, and of a dtype that it can be cast to; "
            f"got {out.dtype}{list(out.shape)} for {got}"
        )
    out[...] = result
    return out
