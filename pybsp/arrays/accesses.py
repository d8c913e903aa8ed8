"""Puts and gets between the call and the array: what goes out with a sync, and what is done with what arrives.

A few values that go to items at equal distances are a run, which is written out at the call as it travels; nothing else
goes to most destinations. A put of other values, and the index arrays of puts and gets, lie in a buffer for their
destination: a record has the array's number, the index, where its values lie, and their shape. A run beside it is a
record too: number, first item, distance and the values themselves. At the sync the gets' requests arrive with the puts.
Every processor reads what it was asked for first, then writes what was put, by source and call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import scatter
from ..errors import UsageError
from ..ground.chunk import Counted
from ..ground.copying import copy
from ..messages.mail import MUCH, SHORTEST
from ..messages.outgoing import Outgoing, words_of
from ..supersteps.participant import Participant, Texts
from ..transport import GETS, PUTS, READS, REPLIES, Bytes, Parcel, Section, new_tuple
from ..transport.memory import NOTHING, BufferPool, Growing, aligned
from ..transport.wire import (
    AREA,
    PLAIN_HEADER,
    PUT_HEADER,
    WORD,
    add_run,
    end_runs,
    plain_puts,
    plain_reads,
    puts_alone,
    read_reads,
    run_at,
    runs_of,
)
from ..ways import BY_GET, BY_PUT
from .indices import restore, store

if TYPE_CHECKING:
    from .array import Array, Ticket


# Bytes of an array, at most, that lies where other processors of the node can read it: beyond, time goes with its size,
# and computing in shared memory may be slower.
READ_THERE = 1 << 18

# What puts and counts of gets take of a board's area, at most, that go there as they are (plain sections).
_LAID_PUTS = AREA >> 2  # bytes
_FEW = 32  # of records, and of destinations

Puts = dict[int, bytearray | Outgoing]


class Accesses(Participant):
    """The puts and gets of one processor.

    Args:
        arrays: that can be reached, by number.
        own: this processor's pid.

    Attributes:
        puts: that go out with the next sync, by destination: runs as they travel, or records; one object, so that
            others may look whether there are any.
        requested: tickets of gets that are out, by source, in the order of calls: from `pack` until their replies come.
        asking: whether anything is requested by this exchange.
        there: gets from memory that this processor sees: source, ticket, the array, what of it.
    """

    __slots__ = (
        "_arrays",
        "_called",
        "_counts",
        "_gets",
        "_own",
        "_pool",
        "_read",
        "_tickets",
        "asking",
        "puts",
        "requested",
        "there",
    )

    def __init__(self, pool: BufferPool, arrays: Mapping[int, Array], own: int) -> None:
        self._pool, self._arrays, self._own = pool, arrays, own
        self.puts: Puts = {}
        self._gets: dict[int, Outgoing] = {}
        self._tickets: dict[int, list[Ticket]] = {}
        self.requested: dict[int, list[Ticket]] = {}
        self.asking = False
        self.there: list[tuple[int, Ticket, NDArray[Any], Any]] = []
        self._counts: dict[int, list[int]] = {}  # of these, by source
        self._read: list[tuple[int, Ticket, NDArray[Any]]] = []
        self._called = 0  # gets in this superstep

    def put_run(self, dest: int, number: int, first: int, step: int, items: NDArray[Any], size: int) -> bool:
        """Put a run to dest's array of that number: `size` bytes of items, copied now.

        Returns:
            False where much goes there already: copying that thrice takes more time than saying where it lies.
        """
        out = self.puts.get(dest)
        if isinstance(out, Outgoing):
            if size > SHORTEST and out.words >= MUCH:
                return False
            out.records.append((number, first, step, items.tobytes()))
            out.words += words_of(size)
            return True
        if out is None:
            self.puts[dest] = add_run(None, number, first, step, items.tobytes())
        elif size > SHORTEST and len(out) >= WORD * MUCH:
            return False
        else:
            add_run(out, number, first, step, items.tobytes())
        return True

    def put(self, dest: int) -> Outgoing:
        """Where another put to dest is to be recorded."""
        out = self.puts.get(dest)
        if isinstance(out, Outgoing):
            return out
        found = self.puts[dest] = Outgoing(self._pool)
        if out is not None:
            found.records, found.words = [*runs_of(out)], end_runs(out)[0]
        return found

    def get(self, source: int, ticket: Ticket, number: int, at: Any) -> None:
        """Ask source for what `at` selects of its array of that number."""
        out = self._gets.get(source)
        if out is None:
            out = self._gets[source] = Outgoing(self._pool)
            self._tickets[source] = []
        out.records.append((number, store(at, out)))
        self._tickets[source].append(ticket)
        self._called = ticket.number = self._called + 1

    def get_there(self, source: int, ticket: Ticket, shape: tuple[int, ...], there: NDArray[Any], at: Any) -> None:
        """Read what `at` selects of source's array where it lies, of that shape; source is told what that counts."""
        size = math.prod(shape) * there.itemsize
        counts = self._counts.get(source)
        if counts is None:
            counts = self._counts[source] = [0, 0]
        if size:
            counts[0] += (size + 7) >> 3  # `words_of`, as below: in fewer steps
            counts[1] += 1
        self.there.append(
            (source, ticket, there, at if at is None or isinstance(at, (int, slice)) else fixed_index(at))
        )
        self._called = ticket.number = self._called + 1

    def sent(self) -> Sequence[str]:
        return ["array.put"] * bool(self.puts) + ["array.get"] * bool(self._gets or self.there)

    def pack_puts(self, parcels: dict[int, Parcel], sent: Counted) -> Counted:
        """`pack` of the puts, which need not be entered among what has a part in the superstep's end.

        Returns:
            What is sent with them, added to what is sent without.
        """
        words, messages, items, ways = sent
        for dest, out in self.puts.items():
            if isinstance(out, bytearray):
                section = new_tuple(Section, (None, *end_runs(out), np.frombuffer(out, np.uint8, -1, PLAIN_HEADER)))
            else:
                section = _section(out, len(out.records))
            if dest in parcels:
                parcels[dest][PUTS] = section
            else:
                parcels[dest] = {PUTS: section}
            if dest != self._own:
                words, messages = words + section[1], messages + section[2]
        self.puts.clear()
        return words, messages, items, ways | BY_PUT

    def lay_puts(self) -> Texts:
        """`pack_puts`, where that is little, and for others.

        Returns:
            Plain sections, and the puts are still there; none, where it cannot be.
        """
        texts: Texts = {}
        room = _LAID_PUTS
        for dest, out in self.puts.items():
            if len(texts) > _FEW or dest == self._own:
                return {}
            if isinstance(out, bytearray):
                if len(out) > room or end_runs(out)[1] > _FEW:
                    return {}
                text = out
            else:
                if max(WORD * out.words, out.used) > room or len(out.records) > _FEW:
                    return {}
                text = plain_puts(out.records, out.words, out.filled())
            texts[dest] = text
            room -= len(text)
        return texts if room >= 0 else {}

    def lay(self, texts: Texts, own: Parcel) -> tuple[int, int] | None:
        if self._gets or len(self._counts) > _FEW:
            return None
        for source, counts in self._counts.items():
            if source != self._own:  # its own reads count nothing
                texts[source] = plain_reads(counts)
        return 0, BY_GET if self.there else 0

    def laid(self) -> None:
        self._counts = {}

    def pack(self, parcels: dict[int, Parcel]) -> None:
        self.asking = bool(self._gets or self.there)
        if self._gets:
            for dest, out in self._gets.items():
                parcels.setdefault(dest, {})[GETS] = _section(out, 0)  # a get counts at its source
            self.requested, self._gets, self._tickets = self._tickets, {}, {}
        for source, counts in self._counts.items():
            parcels.setdefault(source, {})[READS] = Section(counts, 0, 0, None)
        self._counts = {}

    def replies(self, arrived: Iterable[tuple[int, Parcel]]) -> tuple[dict[int, Parcel], tuple[int, int]]:
        """Read what was asked for, before any put is written.

        Returns:
            A parcel for each processor that asked; words and messages of what other ones read here themselves.
        """
        found: dict[int, Parcel] = {}
        words = messages = 0
        for source, parcel in arrived:
            if GETS in parcel:
                found[source] = self._reply(parcel[GETS])
            if READS in parcel and source != self._own:
                counts = read_reads(parcel[READS])
                words, messages = words + counts[0], messages + counts[1]
        return found, (words, messages)

    def read(self) -> tuple[int, int]:
        """Read what lies where this processor sees it; returns words and messages of it, without its own."""
        words = messages = 0
        there, self.there = self.there, []
        for source, ticket, array, at in there:
            chosen = array if at is None else array[at]
            if type(chosen) is np.ndarray:
                value = chosen if chosen.flags.owndata else chosen.copy()  # the one copy, of a list numpy's own
            else:  # of a single item numpy makes something of its own, such as a shorter string
                value = np.empty((), array.dtype)
                value[()] = chosen
            if source != self._own and value.size:
                words, messages = words + ((value.nbytes + 7) >> 3), messages + 1
            self._read.append((source, ticket, value))
        return words, messages

    def _reply(self, requests: Section) -> Parcel:
        buffer = Growing(self._pool)
        words = messages = 0
        for number, stored in requests.descriptors:
            array = self._arrays[number]
            if not array.whole():
                raise UsageError(f"array.get: {array.resized()} (on processor {self._own})")
            local = array.local
            chosen = local if stored is None else local[restore(stored, requests.data)]
            values = np.asarray(chosen, local.dtype)  # the dtype: a single string would come out shorter
            offset = buffer.reserve(values.nbytes)
            if values.nbytes:
                copy(values, np.ndarray(values.shape, values.dtype, buffer.array, offset))
                words += words_of(values.nbytes)
                messages += 1
        return {REPLIES: Section(None, words, messages, buffer.filled())}

    def fill(self, arrived: Iterable[tuple[int, Parcel]]) -> None:
        """Hand the values to the tickets; into arrays of the program's by source, then by call."""
        self._called = 0
        placed: list[tuple[int, int, Ticket, NDArray[Any]]] = []
        for source, ticket, value in self._read:
            if ticket.into is None:
                ticket.give(value)
            else:
                placed.append((source, ticket.number, ticket, value))
        self._read.clear()
        requested, self.requested = self.requested, {}
        for source, parcel in arrived:
            values = parcel[REPLIES].data
            data = (NOTHING if values is None else values).view()
            data.flags.writeable = False
            at = 0
            for ticket in requested[source]:
                if ticket.into is None:
                    at = aligned(at + ticket.fill(data, at))
                else:
                    placed.append((source, ticket.number, ticket, np.ndarray(*ticket.form, data, at)))
                    at = aligned(at + placed[-1][3].nbytes)
        if not placed:
            return
        placed.sort(key=_by_source_and_call)
        for _, _, ticket, value in placed:
            ticket.give(value)

    def values(self, arrived: Iterable[tuple[int, Parcel]]) -> list[tuple[Bytes, Sequence[NDArray[Any]]]]:
        """The data of each source, and the values in it, before they are handed over: all of it may be written to."""
        found: list[tuple[Bytes, Sequence[NDArray[Any]]]] = []
        for source, parcel in arrived:
            data = parcel[REPLIES].data
            if data is not None and data.size:
                values, at = [], 0
                for ticket in self.requested[source]:
                    values.append(value := np.ndarray(*ticket.form, data, at))
                    at = aligned(at + value.nbytes)
                found.append((data, values))
        return found

    def write(self, section: Section) -> None:
        """Write one source's puts, in the order of its calls."""
        data = NOTHING if section.data is None else section.data
        if section.descriptors:
            self._write_records(section.descriptors, data)
        else:
            self._write_runs(data.data, 0)

    def write_plain(self, sections: Sequence[tuple[int, Section]]) -> Counted | None:
        """`write`, where puts are all that has come, in plain sections; returns what they count.

        Returns:
            None where something else has come; nothing was done then.
        """
        alone = puts_alone(sections)
        if alone is None:
            return None
        words, messages, found = alone
        for text, records, at in found:
            if records is None:
                self._write_runs(text, at)
            else:
                self._write_records(records, np.frombuffer(text, np.uint8, -1, at))
        return words, messages, 0, 0

    def _write_runs(self, text: bytes | memoryview, at: int) -> None:
        """Write what is put to items at equal distances, from there on in a plain section."""
        arrays, end = self._arrays, len(text)
        while at < end:
            number, first, step, size = run_at(text, at)
            at += PUT_HEADER
            array = arrays[number]
            if not array.whole():
                raise UsageError(f"array.put: {array.resized()} (on processor {self._own})")
            local = array.local
            if scatter is None or not scatter(local, first, step, text, at, size):
                values = np.frombuffer(text, local.dtype, size // local.itemsize, at)
                items = local if local.ndim == 1 else local.reshape(-1)  # a view: all arrays are C-contiguous
                try:
                    items[first : first + step * values.size : step] = values
                except ValueError:
                    self._require_writeable(array)
                    raise
            at += size + WORD - 1 & -WORD

    def _write_records(self, records: Iterable[tuple[Any, ...]], data: Bytes) -> None:
        values: NDArray[Any]
        for number, place, far, last in records:
            array = self._arrays[number]
            if not array.whole():
                raise UsageError(f"array.put: {array.resized()} (on processor {self._own})")
            local = array.local
            try:
                if type(last) is tuple:  # the shape of values that lie so far in the data
                    values = np.ndarray(last, local.dtype, data, far)
                    local[() if place is None else restore(place, data)] = values
                else:  # a run
                    values = np.frombuffer(last, local.dtype)
                    local.reshape(-1)[place : place + far * values.size : far] = values  # a view, as above
            except ValueError:
                self._require_writeable(array)
                raise

    def _require_writeable(self, array: Array) -> None:
        if locked := array.locked():
            raise UsageError(f"array.put: {locked}") from None


_by_source_and_call = itemgetter(0, 1)


def _section(out: Outgoing, messages: int) -> Section:
    return new_tuple(Section, (out.records, out.words, messages, out.filled() if out.used else None))


def fixed_index(at: Any) -> Any:
    """An index as it is now: arrays in it, which the program may change, are copied."""
    if isinstance(at, tuple):
        return tuple(map(fixed_index, at))
    return np.array(at, np.intp) if isinstance(at, (list, np.ndarray)) else at
