"""What primitives of one superstep show each other (one_superstep.py): a value in a record, described as it lies there.

A record holds one value for all; or, where each destination gets its own, a table that says where its value lies. The
values have the layouts of record_layouts.py; arrays that are too large for a record may lie beside it
(transport/overflow.py).
"""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ..ground.chunk import pack_counts
from ..ground.copying import record
from ..ground.short_records import FLOAT, FLOATS, HEAD, INT_END, KIND_BITS, NOTHING, write_number
from ..rides.shown import ELSEWHERE, NOT_SHOWN, Counts, Shown
from ..ways import BY_RECORD
from .record_layouts import (
    ALIGN,
    BESIDE,
    BYTES,
    DESCRIBED,
    DESCRIPTION,
    KIND_MASK,
    LONG_HEAD,
    PICKLE,
    SHAPES,
    Array,
    array_head,
    describe,
    is_described,
    read,
    read_description,
    read_long,
    write_long,
)

LONG = -1.0  # instead of words: it has no room in a record, or is no array that can be described
_WORD = Struct("=q")
_FIRST = Struct("=qq16s")  # a head, and all that describes an array of one axis at most
_FIRST_BYTES = 16

# How an array is written: words, bytes of its record, what packs its head and description (None: it has no room there),
# their code, the description (empty: there is none), its place.
_Form = tuple[float, int, Any, int, bytes, Any]
_UNFIT: _Form = (LONG, 0, None, 0, b"", None)


class Alike(NamedTuple):
    """Arrays of one form, one for all destinations: how this processor shows its own, and finds those of the sources.

    words, counts: of all messages that go out, and of the superstep. text: what comes behind the signature. size: bytes
    of a record.
    places, views: by parity, of its array, and of those of the sources, which are read-only.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    words: float
    counts: Counts
    text: bytes
    size: int
    places: list[Array]
    views: list[list[Array]]


class ShownValues:
    """The values in all records, as one processor writes and reads them.

    Args:
        shown: the records.
        dests: whom this processor has something for, in order.
        sources: who has something for this processor, in order.
        table: whether each destination gets its own value.

    Attributes:
        most: bytes of a record.
        words: of all messages that this processor's record stands for; set by who calls, before `read_all`.
    """

    def __init__(self, shown: Shown, dests: list[int], sources: list[int], table: bool) -> None:
        self._shown = shown
        self._parts, self._mine, self._own, self.most = shown.parts, shown.mine, shown.pid, shown.most
        self._dests, self._sources, self._source_pids = dests, sources, tuple(sources)
        self._out, self._in = out, into = float(len(dests)), float(len(sources))
        self._of_numbers = pack_counts(out, into, out, into, BY_RECORD)
        self.words = 0.0
        self._alike: Alike | None = None
        self._last: tuple[np.dtype[Any], tuple[int, ...]] | None = None  # form of the last array that was none of these
        # A head, and where the value for each processor lies behind the beginning of the record.
        self._table = HEAD.size + _WORD.size * len(shown.parts) + ALIGN - 1 & -ALIGN if table else 0
        # Arrays by dtype, shape and place: how they are written. What others have, by whose it is, place and
        # description.
        self._written: dict[tuple[np.dtype[Any], tuple[int, ...], int], _Form] = {}
        self._read: dict[tuple[int, int, bytes], tuple[Array, float]] = {}

    @classmethod
    def of_words(cls, shown: Shown, dests: list[int], sources: list[int]) -> ShownValues:
        """Where all values are of a word, one for all destinations."""
        found = cls(shown, dests, sources, False)
        found.words = found._out
        return found

    def write_table(self, at: int, sign: int, payloads: list[Any]) -> float:
        """Write this processor's record: what `packed` made for each destination.

        Returns:
            The words of all; `LONG`: they have no room.
        """
        total, begin, end = 0.0, at + self._table, at + self.most
        for dest, payload in zip(self._dests, payloads, strict=True):
            words, size = self.write(begin, sign, payload, end - begin)
            if words == LONG:
                return LONG
            _WORD.pack_into(self._mine, at + HEAD.size + _WORD.size * dest, begin - at)
            total += words
            begin += size + ALIGN - 1 & -ALIGN
        self._shown.parity(begin - at)
        self.write_nothing(at, sign)  # last: it has this head where all of it is there
        return total

    def write_nothing(self, at: int, sign: int) -> None:
        """Write a record without a value."""
        HEAD.pack_into(self._mine, at, sign, NOTHING)

    def write(self, at: int, sign: int, payload: Any, room: int) -> tuple[float, int]:
        """Write a value where there is so much room, the same each time; its words or `LONG`, and its bytes in all."""
        kind = type(payload)
        if kind is np.ndarray:
            key = payload.dtype, payload.shape, at
            words, size, pack, code, text, place = self._written.get(key) or self._form(payload, at, room)
            if pack is None:
                return self._write_beside(at, sign, payload, room, text)
            pack(self._mine, at, sign, code, text)
            record(payload, place)
            return words, size
        mine, words, size = self._mine, 1.0, FLOATS.size
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
                words = float((len(text) + 7) >> 3)
        return words, size

    def _write_beside(self, at: int, sign: int, array: Array, room: int, text: bytes) -> tuple[float, int]:
        """`write` of an array that has that description, and no room in a record; without one it has none at all."""
        size = LONG_HEAD.size + len(text)
        if not text or size > room or (place := self._shown.lay_beside(array)) == ELSEWHERE:
            return LONG, 0
        write_long(self._mine, at, sign, BESIDE, place, text)
        return float((array.nbytes + 7) >> 3), size

    def show(self, name: str, label: float, sign: int, payloads: list[Any]) -> list[Any]:
        """End a superstep in which the destinations get these, which are sent where they have no room.

        Args:
            name, label, sign: as of `Shown.hear`.
            payloads: as `packed` made them: one for each destination, or one for all; none where there are none.

        Returns:
            What the sources have, in order; arrays are read-only views, until the next sync.
        """
        value: Any = payloads[0] if payloads else None
        kind, counts, shown, alike = type(value), self._of_numbers, self._shown, self._alike
        views: list[Array] | None = None
        like: bytes | None = None
        if self._table:
            return self._show(name, label, sign, payloads)
        if kind is float or kind is np.float64 or (kind is int and -INT_END <= value < INT_END):
            self.words = self._out
        elif value is None:
            self.words = 0.0
            if alike is not None:
                like, views, counts = alike.text, alike.views[shown.parity(HEAD.size)], alike.counts
        else:
            if alike is None or kind is not np.ndarray or value.shape != alike.shape or value.dtype is not alike.dtype:
                return self._show(name, label, sign, payloads)
            which = shown.parity(alike.size)
            record(value, alike.places[which])
            value = like = alike.text
            views, counts, self.words = alike.views[which], alike.counts, alike.words
        found = shown.show_record(name, label, sign, counts, value, self._source_pids, self.read_all, like)
        if found is NOT_SHOWN:
            return self.swap(name, sign)
        came: list[Any] = found
        return came if views is None or not came or came[0] is not None else views.copy()

    def _show(self, name: str, label: float, sign: int, payloads: list[Any]) -> list[Any]:
        """`show`, of whatever it is."""
        shown, number = self._shown, len(self._dests)
        at = shown.places[shown.parity(0)]
        if self._table:
            words = self.write_table(at, sign, payloads)
        else:
            words, size = self.write(at, sign, payloads[0], self.most)
            shown.parity(size)
            words *= number
        if words < 0.0:
            return self.trade(name, label, sign, payloads if self._table else payloads * number)
        self.words = words
        if not self._table and type(payloads[0]) is np.ndarray:
            self._see(payloads[0])
        found = shown.hear(name, label, sign, at, self.read_all)
        if found is NOT_SHOWN:
            return self.swap(name, sign)
        came: list[Any] = found
        return came

    def trade(self, name: str, label: float, sign: int, payloads: list[Any]) -> list[Any]:
        """`show` of what has no room in a record, and is sent: a value for each destination."""
        at = self._shown.places[self._shown.parity(0)]
        sends = list(zip(self._dests, payloads, strict=True))
        return self._shown.trade(name, label, sign, at, sends, self._sources, self.read)

    def swap(self, name: str, sign: int) -> list[Any]:
        """The end of a superstep in which this processor shows its value, and another one sends its own.

        Returns:
            As `show`.
        """
        at = self._shown.latest
        return self._shown.swap(name, sign, at, (int(self.words), len(self._dests)), self._sources, self.read)

    def _see(self, array: Array) -> None:
        """An array is shown: if it is the second one in a row of its form, the next one may be of that too."""
        dtype, shape = form = array.dtype, array.shape
        if dtype.names is not None:
            return  # the fields of a dtype may get other names
        if form != self._last:
            self._last = form
            return
        if self._alike is not None and form == (self._alike.dtype, self._alike.shape):
            return  # another object for the same dtype
        text = describe(array)
        if HEAD.size + len(text) + array.nbytes > self.most:
            return
        behind = [place + HEAD.size + len(text) for place in self._shown.places]
        views = [[np.ndarray(shape, dtype, self._parts[k], place) for k in self._sources] for place in behind]
        for view in (view for of_parity in views for view in of_parity):
            view.flags.writeable = False
        words = (array.nbytes + 7) >> 3
        out, into = words * self._out, words * self._in
        self._alike = Alike(
            dtype,
            shape,
            out,
            pack_counts(out, into, self._out, self._in, BY_RECORD),
            array_head(text),
            HEAD.size + len(text) + array.nbytes,
            [np.ndarray(shape, dtype, self._mine, place) for place in behind],
            views,
        )

    def _form(self, array: Array, at: int, room: int) -> _Form:
        """How an array like this one is written there, from now on."""
        if len(self._written) >= SHAPES:
            self._written.clear()
        nbytes, form = array.nbytes, _UNFIT
        if is_described(array):
            text = describe(array)
            form = LONG, 0, None, 0, text, None
            begin = HEAD.size + len(text)
            if begin + nbytes <= room:
                place: Array = np.ndarray(array.shape, array.dtype, self._mine, at + begin)
                code = DESCRIBED | len(text) << KIND_BITS
                form = float((nbytes + 7) >> 3), begin + nbytes, DESCRIPTION[len(text)].pack_into, code, text, place
        self._written[array.dtype, array.shape, at] = form
        return form

    def read_all(self, at: int) -> tuple[list[Any], Counts]:
        """What the sources show to this processor, as of `read`, and what the superstep counts here."""
        words, found = 0.0, []
        for source in self._sources:
            value, of_value = self.read(source, at)
            words += of_value
            found.append(value)
        if found and not (self._dests or self._table):
            # Who shows nothing learns from those who do what may come next.
            first = found[0]
            if type(first) is np.ndarray and all(
                type(one) is np.ndarray and one.shape == first.shape and one.dtype is first.dtype for one in found
            ):
                self._see(first)
            else:
                self._last = self._alike = None
        return found, pack_counts(self.words, words, self._out, self._in, BY_RECORD)

    def read(self, k: int, at: int) -> tuple[Any, float]:
        """What processor k shows to this one, as `packed` made it, and its words; arrays are read-only views."""
        part = self._parts[k]
        if self._table:
            at += _WORD.unpack_from(part, at + HEAD.size + _WORD.size * self._own)[0]
        _, code, text = _FIRST.unpack_from(part, at)
        if code == FLOAT:
            return FLOATS.unpack_from(part, at)[2], 1.0
        kind, size = code & KIND_MASK, code >> KIND_BITS
        if kind == DESCRIBED:
            if size > _FIRST_BYTES:
                text = DESCRIPTION[size].unpack_from(part, at)[2]
            return self._read.get((k, at, text)) or self._array(k, at, text, at + HEAD.size + size)
        if kind == BESIDE:
            place, text = read_long(part, at, size)
            return self._read.get((k, place, text)) or self._array(k, place, text, place)
        if kind == BYTES:
            return bytes(part[at + HEAD.size : at + HEAD.size + size]), float((size + 7) >> 3)
        return read(part, at), 1.0

    def _array(self, k: int, at: int, text: bytes, begin: int) -> tuple[Array, float]:
        """The array that is so described at a place, and begins there, and its words."""
        if len(self._read) >= SHAPES:
            self._read.clear()
        array: Array = np.ndarray(*read_description(text), self._parts[k], begin)
        array.flags.writeable = False
        found = self._read[k, at, text] = array, float((array.nbytes + 7) >> 3)
        return found
