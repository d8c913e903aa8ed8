"""Puts and gets between the call and the array: what goes out with a sync, and what is done with what arrives.

A put's values, and the index arrays of puts and gets, lie in a buffer for their destination; a record says where. At
the sync the gets' requests arrive with the puts. Every processor reads what it was asked for first, then writes what
was put, by source and call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .outgoing import Outgoing, words_of
from .participant import Participant
from .transport import GETS, PUTS, REPLIES, Parcel, Segment
from .transport.memory import NOTHING, BufferPool, Growing, aligned

if TYPE_CHECKING:
    from .arrays import Array, Ticket


class Accesses(Participant):
    """The puts and gets of one processor.

    Args:
        arrays: that can be reached, by number.

    Attributes:
        asked: tickets of gets that are out, by source, in the order of calls: from `pack` until their replies come.
    """

    __slots__ = ("_arrays", "_gets", "_pool", "_puts", "_tickets", "asked")

    def __init__(self, pool: BufferPool, arrays: Mapping[int, Array]) -> None:
        self._pool, self._arrays = pool, arrays
        self._puts: dict[int, Outgoing] = {}
        self._gets: dict[int, Outgoing] = {}
        self._tickets: dict[int, list[Ticket]] = {}
        self.asked: dict[int, list[Ticket]] = {}

    def put(self, dest: int) -> Outgoing:
        """Where a put to dest is to be recorded."""
        out = self._puts.get(dest)
        if out is None:
            out = self._puts[dest] = Outgoing(self._pool)
        return out

    def get(self, source: int, ticket: Ticket, number: int, at: Any) -> None:
        """Ask source for what `at` selects of its array of that number."""
        out = self._gets.get(source)
        if out is None:
            out = self._gets[source] = Outgoing(self._pool)
            self._tickets[source] = []
        out.records.append((number, store(at, out)))
        self._tickets[source].append(ticket)

    def sent(self) -> Sequence[str]:
        return ["array.put"] * bool(self._puts) + ["array.get"] * bool(self._gets)

    def pack(self, parcels: dict[int, Parcel]) -> None:
        if self._puts:
            for dest, out in self._puts.items():
                parcels.setdefault(dest, {})[PUTS] = _segment(out, len(out.records))
            self._puts = {}
        if self._gets:
            for dest, out in self._gets.items():
                parcels.setdefault(dest, {})[GETS] = _segment(out, 0)  # a get counts at its source
            self.asked, self._gets, self._tickets = self._tickets, {}, {}

    def replies(self, arrived: Iterable[tuple[int, Parcel]]) -> dict[int, Parcel]:
        """Read what was asked for, before any put is written: a parcel for each processor that asked."""
        return {source: self._reply(parcel[GETS]) for source, parcel in arrived if GETS in parcel}

    def _reply(self, requests: Segment) -> Parcel:
        buffer = Growing(self._pool)
        words = messages = 0
        for number, stored in requests.meta:
            local = self._arrays[number].local
            chosen = local if stored is None else local[_restore(stored, requests.data)]
            values = np.asarray(chosen, local.dtype)  # the dtype: a single string would come out shorter
            offset = buffer.reserve(values.nbytes)
            if values.nbytes:
                np.copyto(np.ndarray(values.shape, values.dtype, buffer.array, offset), values)
                words += words_of(values.nbytes)
                messages += 1
        return {REPLIES: Segment(None, words, messages, buffer.filled())}

    def fill(self, arrived: Iterable[tuple[int, Parcel]]) -> None:
        """Hand the values to the tickets of each source, in the order of the gets."""
        asked, self.asked = self.asked, {}
        for source, parcel in arrived:
            values = parcel[REPLIES].data
            data = (NOTHING if values is None else values).view()
            data.flags.writeable = False
            at = 0
            for ticket in asked[source]:
                at = aligned(at + ticket.fill(data, at))

    def write(self, segment: Segment) -> None:
        """Write one source's puts, in the order of its calls."""
        data = NOTHING if segment.data is None else segment.data
        for number, stored, offset, shape in segment.meta:
            local = self._arrays[number].local
            values: NDArray[Any] = np.ndarray(shape, local.dtype, data, offset)
            local[() if stored is None else _restore(stored, data)] = values


def _segment(out: Outgoing, messages: int) -> Segment:
    return Segment(out.records, out.words, messages, out.filled() if out.used else None)


class _Stored:
    """An index array's place in the buffer: picklable, while slices and ints stay what they are."""

    __slots__ = ("offset", "shape")

    def __init__(self, offset: int, shape: tuple[int, ...]) -> None:
        self.offset, self.shape = offset, shape

    def __reduce__(self) -> tuple[type, tuple[int, tuple[int, ...]]]:
        return _Stored, (self.offset, self.shape)


def store(at: Any, buffer: Growing) -> Any:
    """An index for a record: its arrays are copied into the buffer."""
    if isinstance(at, tuple):
        return tuple(store(part, buffer) for part in at)
    if isinstance(at, (list, np.ndarray)):
        array = np.asarray(at)
        offset = buffer.reserve(8 * array.size)
        if array.size:
            np.copyto(np.ndarray(array.shape, np.int64, buffer.array, offset), array, casting="unsafe")
        return _Stored(offset, array.shape)
    return at


def _restore(stored: Any, data: Any) -> Any:
    if isinstance(stored, tuple):
        return tuple(_restore(part, data) for part in stored)
    if isinstance(stored, _Stored):
        return np.ndarray(stored.shape, np.int64, NOTHING if data is None else data, stored.offset)
    return stored
