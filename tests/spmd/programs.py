"""What the programs of these tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


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
