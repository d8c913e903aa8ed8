"""Records that a processor shows to all others of a board (transport/meeting.py): numbers, and what begins others.

A record lies at the beginning of an area: the signature of a call, what it is, and the data. Only its own processor
writes it; whatever else primitives show is theirs (collectives/record_layouts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np

from .dtypes import SCALARS

HEAD, FLOATS, INTS = Struct("=qq"), Struct("=qqd"), Struct("=qqq")
SIGNATURE = Struct("=q")
NOTHING, FLOAT, FLOAT64, INT, INT64, SCALAR = range(6)
KIND_BITS = 4  # of what a record is; higher ones say more
NUMBERS = frozenset({float, int, np.float64, np.int64})  # the types of numbers that have a layout
INT_END = 1 << 63  # ints beyond have none
WORD_SCALARS = frozenset(one for one in SCALARS if np.dtype(one).itemsize <= FLOATS.size - HEAD.size)
# What `Pad.show_record` shows: a float, an int of 64 bits, or such of numpy's; None: nothing; or bytes: what comes
# behind the signature, and behind that the data, which is there already.
Showable = float | np.float64 | int | np.int64 | bytes | None


def write_record(part: memoryview, at: int, signature: int, value: Showable) -> None:
    """Write what is shown, but the data behind bytes."""
    if type(value) is bytes:
        SIGNATURE.pack_into(part, at, signature)
        part[at + SIGNATURE.size : at + SIGNATURE.size + len(value)] = value
    elif value is None:
        HEAD.pack_into(part, at, signature, NOTHING)
    elif not write_number(part, at, signature, value):
        raise TypeError(f"a record: expected a float, an int of 64 bits, None or bytes, got {value!r:.60}")


def write_number(part: memoryview, at: int, signature: int, value: Any) -> bool:
    """Write the record of a number that has a layout, as those of `NUMBERS` and `WORD_SCALARS`; whether it is one."""
    kind = type(value)
    if kind is float:
        FLOATS.pack_into(part, at, signature, FLOAT, value)
    elif kind is np.float64:
        FLOATS.pack_into(part, at, signature, FLOAT64, value)
    elif kind is int and -INT_END <= value < INT_END:
        INTS.pack_into(part, at, signature, INT, value)
    elif kind is np.int64:
        INTS.pack_into(part, at, signature, INT64, int(value))
    elif kind in WORD_SCALARS:
        text = value.tobytes()
        HEAD.pack_into(part, at, signature, SCALAR | ord(value.dtype.char) << KIND_BITS)
        part[at + HEAD.size : at + HEAD.size + len(text)] = text
    else:
        return False
    return True


def read_records(
    parts: Sequence[memoryview],
    at: int,
    signature: int,
    like: bytes | None,
    sources: Sequence[int],
    members: Sequence[int],
) -> list[Any] | None:
    """What the sources show, as of `Pad.show_record`; None: one shows something else, or a signature differs."""
    for member in members:
        if HEAD.unpack_from(parts[member], at)[0] != signature:
            return None
    found: list[Any] = []
    for source in sources:
        if like is not None:
            if parts[source][at + SIGNATURE.size : at + SIGNATURE.size + len(like)] != like:
                return None
            found.append(None)
            continue
        _, kind, number = FLOATS.unpack_from(parts[source], at)
        if kind == FLOAT:
            found.append(number)
        elif kind == FLOAT64:
            found.append(np.float64(number))
        elif kind in (INT, INT64):
            whole = INTS.unpack_from(parts[source], at)[2]
            found.append(whole if kind == INT else np.int64(whole))
        else:
            return None
    return found
