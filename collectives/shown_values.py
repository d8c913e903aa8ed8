"""What primitives of one superstep show each other (one_superstep.py): a value in a record, described as it lies there.

A record holds one value for all; or, where each destination gets its own, a table that says where its value lies. The
values have the layouts of record_layouts.py.
"""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any

import numpy as np

from ..shown import Shown
from .record_layouts import (
    ALIGN,
    AXES,
    BYTES,
    DESCRIBED,
    DESCRIPTION,
    FLOAT,
    FLOATS,
    FORMS,
    HEAD,
    KIND_BITS,
    KIND_MASK,
    NOTHING,
    PICKLE,
    SHAPES,
    Array,
    read,
    write_number,
)

LONG = -1  # instead of words: it has no room in a record, or is no array that can be described
_WORD = Struct("=q")


class ShownValues:
    """The values in all records, as one processor writes and reads them.

    Args:
        shown: the records.
        table: whether each destination gets its own value.
    """

    def __init__(self, shown: Shown, table: bool) -> None:
        self._parts, self._mine, self._own, self._most = shown.parts, shown.mine, shown.pid, shown.most
        # A head, and where the value for each processor lies behind the beginning of the record.
        self._table = HEAD.size + _WORD.size * len(shown.parts) + ALIGN - 1 & -ALIGN if table else 0
        # Arrays by dtype, shape and place: what describes them, their place, and words. What others have, by whose it
        # is, place and description.
        self._written: dict[Any, tuple[bytes, Array, int]] = {}
        self._read: dict[Any, tuple[Array, int]] = {}

    def write(self, at: int, sign: int, payloads: list[tuple[int, Any]]) -> int:
        """Write this processor's record: for destinations what `packed` made, the same for all where there is no table.

        Returns:
            The words of all messages; `LONG`: they have no room.
        """
        if not payloads:
            HEAD.pack_into(self._mine, at, sign, NOTHING)
            return 0
        if not self._table:
            payload = payloads[0][1]
            if type(payload) is float:
                FLOATS.pack_into(self._mine, at, sign, FLOAT, payload)
                return len(payloads)
            words, _ = self._write(at, sign, payload, self._most)
            return LONG if words == LONG else words * len(payloads)
        total, begin, end = 0, at + self._table, at + self._most
        for dest, payload in payloads:
            words, size = self._write(begin, sign, payload, end - begin)
            if words == LONG:
                return LONG
            _WORD.pack_into(self._mine, at + HEAD.size + _WORD.size * dest, begin - at)
            total += words
            begin += size + ALIGN - 1 & -ALIGN
        HEAD.pack_into(self._mine, at, sign, NOTHING)  # last: it has this head where all of it is there
        return total

    def _write(self, at: int, sign: int, payload: Any, room: int) -> tuple[int, int]:
        """Write a value where there is so much room; its words, and its bytes in all."""
        kind = type(payload)
        if kind is np.ndarray:
            return self._write_array(at, sign, payload, room)
        mine, words, size = self._mine, 1, FLOATS.size
        if size > room:
            return LONG, 0
        if not write_number(mine, at, sign, payload):
            # What is pickled already, or another number.
            code, text = (BYTES, payload) if kind is bytes else (PICKLE, pickle.dumps(payload, 5))
            size = HEAD.size + len(text)
            if size > room:
                return LONG, 0
            HEAD.pack_into(mine, at, sign, code | len(text) << KIND_BITS)
            mine[at + HEAD.size : at + size] = text
            if code == BYTES:
                words = (len(text) + 7) >> 3
        return words, size

    def _write_array(self, at: int, sign: int, array: Array, room: int) -> tuple[int, int]:
        key = array.dtype, array.shape, at
        found = self._written.get(key)
        if found is None:
            axes, nbytes = array.ndim, array.nbytes
            if array.dtype.kind not in "biufc" or axes >= len(FORMS):
                return LONG, 0
            text = FORMS[axes].pack(array.dtype.str.encode(), axes, *array.shape)
            if HEAD.size + len(text) + nbytes > room:
                return LONG, 0
            if len(self._written) >= SHAPES:
                self._written.clear()
            place: Array = np.ndarray(array.shape, array.dtype, self._mine, at + HEAD.size + len(text))
            found = self._written[key] = text, place, (nbytes + 7) >> 3
        text, place, words = found
        size = len(text)
        end = HEAD.size + size + place.nbytes
        if end > room:
            return LONG, 0
        DESCRIPTION[size].pack_into(self._mine, at, sign, DESCRIBED | size << KIND_BITS, text)
        place[...] = array
        return words, end

    def read(self, k: int, at: int) -> tuple[Any, int]:
        """What processor k shows to this one, as `packed` made it, and its words; arrays are read-only views."""
        part = self._parts[k]
        if self._table:
            at += _WORD.unpack_from(part, at + HEAD.size + _WORD.size * self._own)[0]
        _, code, number = FLOATS.unpack_from(part, at)
        if code == FLOAT:
            return number, 1
        kind, size, begin = code & KIND_MASK, code >> KIND_BITS, at + HEAD.size
        if kind == DESCRIBED:
            key = k, at, bytes(part[begin : begin + size])
            found = self._read.get(key)
            if found is None:
                form, _, *shape = FORMS[key[2][AXES]].unpack_from(key[2])
                if len(self._read) >= SHAPES:
                    self._read.clear()
                array: Array = np.ndarray(shape, form.rstrip(b"\0").decode(), part, begin + size)
                array.flags.writeable = False
                found = self._read[key] = array, (array.nbytes + 7) >> 3
            return found
        if kind == BYTES:
            return bytes(part[begin : begin + size]), (size + 7) >> 3
        return read(part, at), 1
