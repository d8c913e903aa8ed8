"""What a message between MPI ranks looks like: small ones go with their head, in one MPI message.

Payloads arrive as in BSP: what has no shorter record here takes that of `messages/mail.py`.
"""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any

import numpy as np

from ..ground.pickles import unpickled
from ..messages.mail import Inbox, is_number
from ..transport import Bytes, Section
from ..transport.memory import ALIGN, BufferPool
from ..transport.wire import CHUNK
from .words import packed

SLOT = 1024  # bytes of one MPI message; what is longer follows in others
HEAD = Struct(
    "=BBHIq"
)  # kind, record kind, length of what follows, source; messages from the destination that arrived here, or its credits
FLOATS, INTS = Struct("=BBHIqd"), Struct("=BBHIqq")  # with a number behind it
ROOM = SLOT - HEAD.size
LENGTHS = Struct("=qq")  # of a record, and of the data behind it
RECORD_ROOM = ROOM - LENGTHS.size

# Record kinds of a payload.
FLOAT, INT, BYTES, ARRAY, NUMBER, PICKLE, RECORD, LONG_RECORD = range(8)

LONG, _SHORT = Struct("=q"), Struct("=H")
INT_END = 1 << 63  # smaller ints, and not below its negative, go as numbers
_OBJECTS = frozenset({int, tuple, list, dict, set, frozenset, str, bool, complex, type(None)})
_REMEMBERED = 256  # descriptions of arrays that are remembered

_descriptions: dict[Any, bytes] = {}


class Long:
    """A payload that is too long for one MPI message: a record of `messages/mail.py`, and its data."""

    __slots__ = ("data", "record")

    def __init__(self, record: bytes | bytearray, data: Bytes | None) -> None:
        self.record, self.data = record, data

    @property
    def nbytes(self) -> int:
        """Of the data."""
        return 0 if self.data is None else self.data.size

    def parts(self) -> list[Bytes]:
        """The data, cut into MPI messages."""
        return [] if self.data is None else [self.data[at : at + CHUNK] for at in range(0, self.data.size, CHUNK)]


def encode(payload: Any, pool: BufferPool) -> tuple[int, bytes | Long]:
    """The record kind of a payload that is no number (see `INT_END`), and a copy; a UsageError if it has no pickle."""
    kind = type(payload)
    if kind is bytes and len(payload) <= ROOM:
        return BYTES, payload
    if kind is np.ndarray and payload.nbytes <= ROOM - 256 and payload.dtype.kind in "biufcmMSU":
        description = _description(payload.dtype, payload.shape)
        if len(description) < 256:
            return ARRAY, description + payload.tobytes()
    elif kind in _OBJECTS or isinstance(payload, np.generic):
        buffers: list[pickle.PickleBuffer] = []
        try:
            data = pickle.dumps(payload, 5, buffer_callback=buffers.append)
        except Exception:
            data = b""
        if data and not buffers and len(data) <= ROOM:
            return NUMBER if is_number(payload) else PICKLE, data
    section = packed(payload, pool)
    record, content = _padded(pickle.dumps(section.descriptors[0], 5)), section.data
    size = 0 if content is None else content.size
    if len(record) + size > RECORD_ROOM:
        return LONG_RECORD, Long(record, content)
    return RECORD, LENGTHS.pack(len(record), size) + record + (b"" if content is None else content.tobytes())


def _description(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Of an array, with its own length before it."""
    key = dtype.str, shape
    description = _descriptions.get(key)
    if description is None:
        if len(_descriptions) >= _REMEMBERED:
            _descriptions.clear()
        text = _padded(pickle.dumps(key, 5), _SHORT.size)
        description = _descriptions[key] = _SHORT.pack(len(text)) + text
    return description


def _padded(text: bytes, before: int = 0) -> bytes:
    """A pickle with what aligns the data behind it."""
    return text + bytes(-(before + len(text)) % ALIGN)


def decode(record_kind: int, source: int, body: Any) -> Any:
    """The payload; `body` is what `encode` gave, or the number that it was."""
    if record_kind <= BYTES:
        return body
    if record_kind in (NUMBER, PICKLE):
        return unpickled(body, source)
    if record_kind == ARRAY:
        (length,) = _SHORT.unpack_from(body)
        code, shape = pickle.loads(body[2 : 2 + length])
        return np.ndarray(shape, code, body, 2 + length)
    if not isinstance(body, Long):
        length, size = LENGTHS.unpack_from(body)
        at = LENGTHS.size + length
        body = Long(body[LENGTHS.size : at], np.frombuffer(body, np.uint8, size, at) if size else None)
    record = pickle.loads(body.record)
    return Inbox([(source, Section([record], 0, 1, body.data))])[0].payload


def words_of(record_kind: int, body: Any) -> int:
    """Words of 8 bytes that a payload counts, as `words.words` counts them before it is sent."""
    if record_kind in (FLOAT, INT, NUMBER):
        return 1
    if record_kind in (BYTES, PICKLE):
        size = len(body)
    elif record_kind == ARRAY:
        (length,) = _SHORT.unpack_from(body)
        size = len(body) - _SHORT.size - length
    else:
        record = body.record if record_kind == LONG_RECORD else body[LENGTHS.size :]
        size = pickle.loads(record)[2]
    return (size + 7) >> 3
