"""What the programs of these tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pybsp.transport.wire import AREA

LONG = AREA // 8  # words of an array that has no room on the board


class Caught(NamedTuple):
    """An exception as a value that a program can return: its class and its text."""

    kind: type[BaseException] | None
    text: str


def caught(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Caught:
    """What a call raises; kind is None where it raises nothing."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return Caught(type(error), str(error))
    return Caught(None, "")


def plain(thing: Any) -> Any:
    """A copy that compares with ==, by type, dtype, shape and content: of arrays, memoryviews and what is nested."""
    if isinstance(thing, np.ndarray):
        if thing.dtype.hasobject:
            return (type(thing).__name__, "objects", thing.shape, plain(thing.ravel().tolist()))
        gaps = thing.dtype.names is not None or thing.dtype.char in "gG"  # bytes that hold no value are undefined
        return (type(thing).__name__, str(thing.dtype), thing.shape, repr(thing.tolist()) if gaps else thing.tobytes())
    if isinstance(thing, np.generic):
        return (type(thing).__name__, str(thing.dtype), thing.tobytes())
    if isinstance(thing, memoryview):
        return ("memoryview", thing.format, thing.shape, thing.tobytes())
    if isinstance(thing, dict):
        return {key: plain(value) for key, value in thing.items()}
    if isinstance(thing, tuple | list):
        return type(thing).__name__, [plain(part) for part in thing]
    return type(thing).__name__, thing


def filled(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> Any:
    """Values that tell where they come from."""
    numbers = seed * 100 + np.arange(int(np.prod(shape)))
    values = np.zeros(numbers.size, dtype)
    if dtype.names:
        values["a"], values["b"] = numbers, -numbers
    else:
        values[:] = numbers
    return values.reshape(shape)


def index(where: tuple[str, list[int]], shape: tuple[int, ...]) -> Any:
    """A valid index of that kind into the shape; all of it where there is none."""
    kind, numbers = where
    n = shape[0]
    if 0 in shape:
        return slice(0, 0) if kind == "slice" else np.array([], np.int64) if kind == "array" else None
    if kind == "int":
        return numbers[0] % (2 * n) - n
    if kind == "slice":
        return slice(numbers[0] % (n + 1), numbers[1] % (n + 1))
    if kind == "reversed":
        return slice(None, None, -1 - numbers[0] % 2)
    if kind == "array":
        return np.array([number % n for number in numbers])
    if kind == "list":
        return [number % (2 * n) - n for number in numbers]
    if kind == "last axis":
        return (Ellipsis, numbers[0] % shape[-1])
    if kind == "tuple":
        return tuple(np.array([(k + number) % m for number in numbers]) for k, m in enumerate(shape))
    return None


def whole(at: Any) -> Any:
    """None means all of it, which numpy writes otherwise."""
    return Ellipsis if at is None else at
