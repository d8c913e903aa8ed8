"""Records that processors show each other (shown.py): the layouts of small values, and who writes and reads them."""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ground.dtypes import dtype_of, form_of
from ..ground.pickles import unpickled
from ..ground.short_records import FLOAT, FLOAT64, FLOATS, HEAD, INT, INT64, INTS, KIND_BITS, SCALAR, write_number
from ..rides.shown import Shown

# What a record is, beside those of short_records.py; how many bytes a pickle, a description or bytes have is in the
# higher bits.
ARRAY, PICKLE, DESCRIBED, BYTES, PIPED, BESIDE = range(SCALAR + 1, SCALAR + 7)
KIND_MASK = (1 << KIND_BITS) - 1
_CODE = Struct("=q")
AN_ARRAY = _CODE.pack(ARRAY)  # behind the signature, where that says what array it is
ALIGN = 16  # bytes, of an array in a record
# What describes an array, by the number of its axes: dtype, that number, shape. No pickle, which takes as long as all
# else: a program's arrays may grow or shrink with each call. The dtype of structures follows, as mail has it.
FORMS = [Struct(f"=7sB{axes}q{8 * (axes + 1) % 16}x") for axes in range(9)]
AXES = 7  # the byte in which that number is


class Descriptions(dict[int, Struct]):
    """By the bytes of a description: a head, and what describes an array."""

    def __missing__(self, size: int) -> Struct:
        found = self[size] = Struct(f"=qq{size}s")
        return found


DESCRIPTION = Descriptions()
# Of an array that lies beside the records, or goes through a pipe: a head, where that is, of a pipe how many bytes have
# been in it, and what describes the array.
LONG_HEAD, READY = Struct("=qqqq"), 24
SHAPES = 1024  # that are remembered

Array = NDArray[Any]


def is_described(array: Array) -> bool:
    """Whether `describe` says all of an array: not of objects, and types of other packages."""
    dtype = array.dtype
    if array.ndim >= len(FORMS) or not dtype.itemsize:
        return False
    if dtype.kind == "V":
        return dtype.names is not None and not dtype.hasobject and type(form_of(dtype)) is str
    return dtype.kind in "biufcmMSU" and len(dtype.str) <= AXES


def describe(array: Array) -> bytes:
    """What describes an array: a multiple of `ALIGN` bytes."""
    dtype = array.dtype
    if dtype.names is None:
        return FORMS[array.ndim].pack(dtype.str.encode(), array.ndim, *array.shape)
    text: bytes = form_of(dtype).encode()
    return FORMS[array.ndim].pack(b"", array.ndim, *array.shape) + text + bytes(-len(text) % ALIGN)


def array_head(text: bytes) -> bytes:
    """What comes behind the signature in the record of an array with that description."""
    return _CODE.pack(DESCRIBED | len(text) << KIND_BITS) + text


def read_description(text: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and dtype of the array that is so described."""
    form = FORMS[text[AXES]]
    code, _, *shape = form.unpack_from(text)
    return tuple(shape), dtype_of((code if text[0] else text[form.size :]).rstrip(b"\0").decode())


def write_long(part: memoryview, at: int, mine: int, kind: int, place: int, text: bytes) -> None:
    """Write the record of an array of that description which lies there: `BESIDE`, or `PIPED`."""
    LONG_HEAD.pack_into(part, at, mine, kind | len(text) << KIND_BITS, place, 0)
    part[at + LONG_HEAD.size : at + LONG_HEAD.size + len(text)] = text


def read_long(part: memoryview, at: int, size: int) -> tuple[int, bytes]:
    """Where that array lies, and its description, of so many bytes."""
    begin = at + LONG_HEAD.size
    return LONG_HEAD.unpack_from(part, at)[2], bytes(part[begin : begin + size])


def show(shown: Shown, at: int, mine: int, value: Any) -> bool:
    """Write the record of a number, or of what an operator made of numbers; whether it has room for that."""
    if write_number(shown.mine, at, mine, value):
        shown.parity(FLOATS.size)
        return True
    text = pickle.dumps(value, 5)
    if len(text) > shown.most - HEAD.size:
        return False
    shown.parity(HEAD.size + len(text))
    HEAD.pack_into(shown.mine, at, mine, PICKLE | len(text) << KIND_BITS)
    shown.mine[at + HEAD.size : at + HEAD.size + len(text)] = text
    return True


def read(part: memoryview, at: int) -> Any:
    """A number, or what was pickled, in a processor's record."""
    _, code, number = FLOATS.unpack_from(part, at)
    if code == FLOAT:
        return number
    if code == FLOAT64:
        return np.float64(number)
    if code == INT:
        return INTS.unpack_from(part, at)[2]
    if code == INT64:
        return np.int64(INTS.unpack_from(part, at)[2])
    begin = at + HEAD.size
    if code & KIND_MASK == SCALAR:
        return np.frombuffer(part, chr(code >> KIND_BITS), 1, begin)[0]
    return unpickled(part[begin : begin + (code >> KIND_BITS)])
