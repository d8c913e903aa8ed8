"""What a message of the simulator carries: copied when it is sent, and what BSP would deliver."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.pickles import unpickled
from ..messages.mail import Inbox
from .words import packed

_IMMUTABLE = frozenset({int, float, complex, bool, str, bytes, type(None)})
_PICKLED = frozenset({tuple, list, dict, set, frozenset})


class UnreadablePayload:
    """What arrives of an object whose pickle cannot be read."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def copied(payload: Any) -> Any:
    """The payload as it arrives on ranks, too: what cannot change is itself, an array a read-only copy, other objects
    pickled.

    Raises:
        UsageError: it cannot be pickled.
        what reading its pickle raised.
    """
    return read(arriving(payload))


def sendable(payload: Any) -> Any:
    """`arriving`, of which all can be pickled, for what sends it on: its receiver raises what its pickle raised here.

    Raises:
        UsageError: it cannot be pickled.
    """
    arrived = arriving(payload)
    if type(arrived) is UnreadablePayload:
        try:
            pickle.loads(pickle.dumps(arrived))
        except Exception:
            return UnreadablePayload(RuntimeError(f"{type(arrived.error).__name__}: {arrived.error}"))
    return arrived


def read(arrived: Any) -> Any:
    """What its receiver has of a payload; the error is the receiver's, as on ranks, and not the sender's."""
    if type(arrived) is UnreadablePayload:
        raise arrived.error
    return arrived


def arriving(payload: Any) -> Any:
    """`copied`, or an UnreadablePayload; a UsageError where it cannot be pickled."""
    if _is_immutable(payload):
        return payload
    if type(payload) is np.ndarray and not payload.dtype.hasobject:
        return _copied_array(payload)
    if type(payload) is tuple and all(map(_is_plain, payload)):
        return tuple(map(_copied_plain, payload))
    if type(payload) in _PICKLED:
        buffers: list[pickle.PickleBuffer] = []
        try:
            data = pickle.dumps(payload, 5, buffer_callback=buffers.append)
        except Exception:  # reported as every other below
            pass
        else:
            try:
                return unpickled(data, buffers=[buffer.raw().tobytes() for buffer in buffers])
            except Exception as error:
                return UnreadablePayload(error)
    section = packed(payload)
    try:
        return Inbox([(-1, section)])[0].payload
    except Exception as error:
        return UnreadablePayload(error)


def _is_immutable(payload: Any) -> bool:
    kind = type(payload)
    return (
        kind in _IMMUTABLE
        or (kind is tuple and all(map(_is_immutable, payload)))
        or (isinstance(payload, np.generic) and payload.dtype.kind in "biufcmM")
    )


def _is_plain(payload: Any) -> bool:
    """Arrays, also in tuples with what cannot change, such as a routed message with its number.

    Of arrays only those whose memory pickle leaves where it is: it copies others, which may be written to then.
    """
    if type(payload) is np.ndarray:
        return payload.flags.c_contiguous and payload.itemsize > 0 and payload.dtype.kind in "biufcSU"
    return all(map(_is_plain, payload)) if type(payload) is tuple else _is_immutable(payload)


def _copied_plain(payload: Any) -> Any:
    """What pickling would give, sooner."""
    if type(payload) is np.ndarray:
        return _copied_array(payload)
    return tuple(map(_copied_plain, payload)) if type(payload) is tuple else payload


def _copied_array(array: NDArray[Any]) -> NDArray[Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
