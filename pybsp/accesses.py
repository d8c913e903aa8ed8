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

from .indices import restore, store
from .outgoing import Outgoing, words_of
from .participant import Participant
from .transport import GETS, PUTS, REPLIES, Bytes, Parcel, Section
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
                parcels.setdefault(dest, {})[PUTS] = _section(out, len(out.records))
            self._puts = {}
        if self._gets:
            for dest, out in self._gets.items():
                parcels.setdefault(dest, {})[GETS] = _section(out, 0)  # a get counts at its source
            self.asked, self._gets, self._tickets = self._tickets, {}, {}

    def replies(self, arrived: Iterable[tuple[int, Parcel]]) -> dict[int, Parcel]:
        """Read what was asked for, before any put is written: a parcel for each processor that asked."""
        return {source: self._reply(parcel[GETS]) for source, parcel in arrived if GETS in parcel}

    def _reply(self, requests: Section) -> Parcel:
        buffer = Growing(self._pool)
        words = messages = 0
        for number, stored in requests.descriptors:
            local = self._arrays[number].local
            chosen = local if stored is None else local[restore(stored, requests.data)]
            values = np.asarray(chosen, local.dtype)  # the dtype: a single string would come out shorter
            offset = buffer.reserve(values.nbytes)
            if values.nbytes:
                np.copyto(np.ndarray(values.shape, values.dtype, buffer.array, offset), values)
                words += words_of(values.nbytes)
                messages += 1
        return {REPLIES: Section(None, words, messages, buffer.filled())}

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

    def values(self, arrived: Iterable[tuple[int, Parcel]]) -> list[tuple[Bytes, Sequence[NDArray[Any]]]]:
        """The data of each source, and the values in it, before they are handed over: all of it may be written to."""
        found: list[tuple[Bytes, Sequence[NDArray[Any]]]] = []
        for source, parcel in arrived:
            data = parcel[REPLIES].data
            if data is not None and data.size:
                values, at = [], 0
                for ticket in self.asked[source]:
                    values.append(value := np.ndarray(*ticket.form, data, at))
                    at = aligned(at + value.nbytes)
                found.append((data, values))
        return found

    def write(self, section: Section) -> None:
        """Write one source's puts, in the order of its calls."""
        data = NOTHING if section.data is None else section.data
        for number, stored, offset, shape in section.descriptors:
            local = self._arrays[number].local
            values: NDArray[Any] = np.ndarray(shape, local.dtype, data, offset)
            local[() if stored is None else restore(stored, data)] = values


def _section(out: Outgoing, messages: int) -> Section:
    return Section(out.records, out.words, messages, out.filled() if out.used else None)
