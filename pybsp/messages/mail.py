"""Messages: `bsp.send` and `bsp.inbox`.

A message is copied once, at the call, into a buffer for its destination; a record says where in the buffer it lies.
Received arrays and memoryviews are read-only views of what arrived. Small things (numbers, short pickles) lie in
the record itself.

Where the compiled core was built, small arrays, numbers, bytes and short pickles that go to a destination, and nothing
else before them, are packed: `outgoing` has a bytearray of them (transport/wire.py), which becomes records when
something else follows. Records that say all are written out for a board's exchange (`Mail.write`).
"""

from __future__ import annotations

import array
import math
import pickle
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ..compiled import core
from ..errors import BoundsError, UsageError, brief
from ..ground.convert import indices_of
from ..ground.copying import beside, copy
from ..ground.dtypes import SCALARS, SIMPLE, dtype_of, form_of
from ..ground.instead import hinting
from ..ground.pickles import unpickled
from ..ground.public import Listed, Public
from ..transport import MAIL, Bytes, Parcel, Section, new_tuple, wire
from ..transport.memory import ALIGN, NOTHING, BufferPool
from ..transport.neighbours import INLINE_DATA_NEAR
from ..ways import BY_COLLECTIVE, BY_MAIL
from .outgoing import Outgoing, words_of

# Kinds of records: (kind, tag, bytes, ...), where a negative kind has a pickled tag. Numbers without tags that are sent
# one after the other are one record; so is packed mail.
NUMBER, ARRAY, BYTES, BUFFER, PICKLE, SHORT_PICKLE, SHORT_ARRAY, NUMBERS, SHORT_BYTES, PACKED, SCALAR = range(1, 12)
# Pickles and arrays of so many bytes, at most, lie in the record: copying them thrice takes less time than saying where
# they lie. Where a destination gets much, only the shortest do, and of bytes these alone.
SHORT = 1 << 14
SHORTEST, MUCH = 1 << 10, 1 << 12  # bytes; words

_ARRAYS = frozenset({ARRAY, SHORT_ARRAY})
_COMPLETE = frozenset({NUMBER, SHORT_PICKLE, SHORT_ARRAY, SHORT_BYTES, SCALAR})  # nothing of these lies elsewhere
_FLOATS = frozenset("efd")  # of formats of memoryviews
_HEADER = bytes(wire.PACKED_HEADER)
_NOTHING_SENT: Mapping[int, object] = {}
PLAIN_NUMBERS = frozenset({int, float, complex, bool})
_LONG_SCALARS = frozenset({np.datetime64, np.timedelta64, np.longdouble, np.clongdouble})  # and a dtype's text
_PICKLED = frozenset({str, tuple, list, dict, set, frozenset, type(None)})  # no numbers, and no buffers
Packing: TypeAlias = Callable[..., bool]
PLAIN_TAGS = frozenset({type(None), int, str, float, bool, bytes})  # which marshal writes


class Message(NamedTuple):
    """A received message; arrays are read-only and valid until the next sync.

    Examples:
        >>> def main(bsp):
        ...     bsp.send(0, bsp.pid, tag="pid")
        ...     bsp.sync()
        ...     return list(bsp.inbox)
        >>> pybsp.simulate(main, p=2).results[0]
        [Message(source=0, tag='pid', payload=0), Message(source=1, tag='pid', payload=1)]
    """

    source: int
    tag: Any
    payload: Any


class Mail:
    """The messages of one superstep that this processor sends.

    Args:
        short: arrays of so many bytes, at most, lie in their records.
        stream: in which they travel.
        packs: whether mail is packed, where the compiled core was built.

    Attributes:
        operation: by which errors name who sends.
        outgoing: what goes to each destination; a bytearray is packed.
        packed: whether all of these are.
        runs: for a destination, untagged `PLAIN_NUMBERS`, if such was sent last: what is appended is sent.
    """

    def __init__(
        self,
        pool: BufferPool,
        operation: str = "bsp.send",
        short: int = SHORT,
        stream: int = MAIL,
        *,
        packs: bool = False,
    ) -> None:
        self._pool, self.operation, self._short, self._stream = pool, operation, short, stream
        self._beside = "tag" if stream == MAIL else "note"
        self._way = BY_MAIL if stream == MAIL else BY_COLLECTIVE
        self.outgoing: dict[int, Outgoing | bytearray] = {}
        self.packed = True
        self.runs: dict[int, list[Any]] = {}
        # Adds a payload to packed mail, maybe with a tag of `PLAIN_TAGS`, and whether bytes are a pickle, or an array's
        # content comes later; says whether it did. None: nothing is packed.
        self.pack_payload: Packing | None = core.pack if core is not None and packs else None
        # Arrays that the program fills: by destination, where in packed mail they go; or whose, in which memory, and
        # where they go, and memory for some (`beside`).
        self._rooms: dict[int, list[tuple[int, NDArray[Any]]]] = {}
        self._in_place: list[tuple[Outgoing, Bytes, int, NDArray[Any]]] = []
        self._filled = BufferPool()

    def send(self, dest: int, payload: Any, tag: Any) -> None:
        """Copy a message, which `pack_payload` has not packed, for a destination that has been checked."""
        sign, pack = 1, self.pack_payload
        if tag is not None and type(tag) not in PLAIN_TAGS:
            tag, sign, pack = self._pickled(tag, self._beside), -1, None
        kind = type(payload)
        if kind in _PICKLED:
            self._send_object(dest, sign, tag, payload, pack)
            return
        if kind is not np.ndarray:
            self._send_other(dest, sign, tag, payload, pack)
            return
        if (
            pack is not None
            and not payload.flags.c_contiguous
            and payload.nbytes <= self._short
            # To lay it out once more takes less time than a record of it.
            and pack(self.outgoing, dest, np.ascontiguousarray(payload), tag)
        ):
            return
        dtype, size = payload.dtype, payload.nbytes
        code = dtype.char
        form = code if code in SIMPLE and dtype.isnative else None if dtype.hasobject else form_of(dtype)
        if form is None:
            self._send_object(dest, sign, tag, payload, pack)
            return
        out = self._records(dest)
        if size <= self._short and (size <= SHORTEST or out.words < MUCH) and type(form) is str and dtype.itemsize:
            out.records.append((sign * SHORT_ARRAY, tag, size, payload.tobytes(), form, payload.shape))
            out.words += (size + 7) >> 3
            if self.runs:
                self.runs.pop(dest, None)
        else:
            self._send_array(dest, out, sign, tag, payload, form)

    def send_all(self, dests: Sequence[int], payload: Any, tag: Any) -> int:
        """`send` to some destinations, at least one: a record that holds all there is to say is made once.

        Returns:
            Words of the message.
        """
        first, *others = dests
        before = self.words(first)
        self.send(first, payload, tag)
        out = self._records(first)
        record, words = out.records[-1], out.words - before
        complete, long = abs(record[0]) in _COMPLETE, record[2] > SHORTEST
        for dest in others:
            one = self._records(dest)
            if not complete or (long and one.words >= MUCH):
                self.send(dest, payload, tag)
                continue
            self._add(dest, one, record, words)
        return words

    def words(self, dest: int) -> int:
        """Words of the records for a destination."""
        out = self.outgoing.get(dest)
        return out.words if isinstance(out, Outgoing) else 0

    def _records(self, dest: int) -> Outgoing:
        """What goes to a destination, as records; what was packed is the first of them."""
        packed = self.outgoing.get(dest)
        if isinstance(packed, Outgoing):
            return packed
        out = self.outgoing[dest] = Outgoing(self._pool)
        self.packed = False
        if packed is not None:
            section = wire.packed_section(packed)
            out.records.append((PACKED, None, len(packed), section.descriptors))
            out.words, out.packed = section.words, section.messages - 1
        return out

    def _send_other(self, dest: int, sign: int, tag: Any, payload: Any, pack: Packing | None) -> None:
        kind = type(payload)
        if tag is None and kind in PLAIN_NUMBERS:
            run = self.runs.get(dest)
            if run is None:
                out, run = self._records(dest), []
                self.runs[dest] = run
                out.runs = (*out.runs, run)
                out.records.append((NUMBERS, None, 8, run))
            run.append(payload)
            return
        if is_number(payload):
            if kind in PLAIN_NUMBERS:
                record: tuple[Any, ...] = (sign * NUMBER, tag, 8, payload)
            elif kind in SCALARS or kind in _LONG_SCALARS:  # numpy's own pickle of it takes as long as the exchange
                code = payload.dtype.char if kind in SCALARS else payload.dtype.str
                record = (sign * SCALAR, tag, 8, payload.tobytes(), code)
            else:  # of a program's own class
                record = (sign * SHORT_PICKLE, tag, 8, self._pickled(payload, "payload"))
            self._add(dest, self._records(dest), record, 1)
        elif kind is bytes:
            size, out = len(payload), self._records(dest)
            if size <= SHORTEST:
                record = (sign * SHORT_BYTES, tag, size, payload)
            else:
                record = (sign * BYTES, tag, size, out.append(payload))
            self._add(dest, out, record, words_of(size))
        elif not isinstance(payload, (np.ndarray, np.generic)) and (view := _buffer(payload)) is not None:
            size = view.nbytes
            # numpy reads a contiguous buffer of any format; memoryview.cast only those of the native ones.
            content = np.frombuffer(view, np.uint8) if size and view.c_contiguous else view.tobytes()
            out = self._records(dest)
            record = (sign * BUFFER, tag, size, out.append(content), view.format, view.shape)
            self._add(dest, out, record, words_of(size))
        elif kind is np.memmap:  # an array whose pickle says no more, and is copied three times
            plain = payload.view(np.ndarray)
            self._send_array(dest, self._records(dest), sign, tag, plain, form_of(plain.dtype))
        else:
            self._send_object(dest, sign, tag, payload, pack)

    def _add(self, dest: int, out: Outgoing, record: tuple[Any, ...], words: int) -> None:
        """One record more of what goes to a destination."""
        out.records.append(record)
        out.words += words
        self.runs.pop(dest, None)

    def _send_array(self, dest: int, out: Outgoing, sign: int, tag: Any, payload: Any, form: Any) -> None:
        size, dtype = payload.nbytes, payload.dtype
        offset = out.reserve(size)
        if size:
            # The one copy; it also packs an array that is not contiguous. Structures go as they are, gaps included.
            raw = dtype if dtype.names is None else np.dtype((np.void, dtype.itemsize))
            copy(payload if raw is dtype else payload.view(raw), np.ndarray(payload.shape, raw, out.array, offset))
        # As `_add`, whose call takes its time where so much has gone through the caches.
        out.records.append((sign * ARRAY, tag, size, offset, form, payload.shape))
        out.words += (size + 7) >> 3
        if self.runs:
            self.runs.pop(dest, None)

    def room(self, dest: int, shape: tuple[int, ...], dtype: np.dtype[Any], tag: Any) -> NDArray[Any]:
        """An array that goes to a destination (which has been checked) as the program fills it."""
        # It begins as `send`, whose time is that of many programs: a call for the two would take 0.05 us more there.
        sign, pack = 1, self.pack_payload
        if tag is not None and type(tag) not in PLAIN_TAGS:
            tag, sign, pack = self._pickled(tag, "tag", operation="bsp.room"), -1, None
        size = dtype.itemsize * math.prod(shape)
        before = self.outgoing.get(dest, _HEADER)
        if pack is not None and size <= wire.PACKED_ONE and isinstance(before, (bytes, bytearray)):
            small: NDArray[Any] = np.empty(shape, dtype)
            at = len(before) + wire.WORD * (1 + len(shape))
            if pack(self.outgoing, dest, small, tag, True):  # its content is copied there as the superstep ends
                self._rooms.setdefault(dest, []).append((at, small))
                self.packed = False
                return small
        out = self._records(dest)
        offset = out.reserve(size)
        memory, at = (self._filled.take(size), 0) if beside(size) else (out.array, offset)
        room: NDArray[Any] = np.ndarray(shape, dtype, memory, at) if size else np.empty(shape, dtype)
        code = dtype.str if dtype.names is None and dtype.kind != "V" else dtype
        self._add(dest, out, (sign * ARRAY, tag, size, offset, code, shape), words_of(size))
        self._in_place.append((out, memory, offset, room))
        return room

    def _send_object(self, dest: int, sign: int, tag: Any, payload: Any, pack: Packing | None) -> None:
        buffers: list[pickle.PickleBuffer] = []
        data = self._pickled(payload, "payload", buffers)
        size = len(data)
        if not buffers and size <= SHORT:
            if pack is None or not pack(self.outgoing, dest, data, tag, True):
                self._add(dest, self._records(dest), (sign * SHORT_PICKLE, tag, size, data), words_of(size))
            return
        out = self._records(dest)
        places = [(out.append(data), size)]
        for buffer in buffers:
            raw = buffer.raw()
            places.append((out.append(raw), raw.nbytes))
            size += raw.nbytes
        self._add(dest, out, (sign * PICKLE, tag, size, places), words_of(size))

    def pack(self, pid: int = -1) -> tuple[dict[int, Parcel], tuple[int, int, int, int]]:
        """Start afresh.

        Returns:
            What was sent, by destination; words and messages of it to others than `pid`, no items of queues,
            and the way.
        """
        if self._rooms:
            self._close_rooms()
        if self._in_place:
            self._close_in_place()
        parcels: dict[int, Parcel] = {}
        words = messages = 0
        for dest, out in self.outgoing.items():
            if isinstance(out, bytearray):
                section = wire.packed_section(out)
                parcels[dest] = {self._stream: section}
                if dest != pid:
                    words += section.words
                    messages += section.messages
                continue
            size, count = _counted(out)
            data = out.filled() if out.used else None
            parcels[dest] = {self._stream: new_tuple(Section, (out.records, size, count, data))}
            if dest != pid:
                words += size
                messages += count
        self._clear()
        return parcels, (words, messages, 0, self._way if parcels else 0)

    def write(self) -> bool:
        """Make packed mail of rooms and records too, so that a board takes it as it is; whether all is such now.

        Not where data lies beside records, or they are much. The rest has plain numbers, texts and bytes, which marshal
        writes as they are; of numpy's objects it would write the bytes alone.
        """
        if self._in_place:
            return False
        if self._rooms:
            self._close_rooms()
        for dest, out in self.outgoing.items():
            if type(out) is not Outgoing:
                continue
            if out.used:
                return False
            words, messages = _counted(out)
            if max(words, messages) > MUCH:
                return False
            try:
                self.outgoing[dest] = wire.written(out.records, words, messages)
            except ValueError:  # the dtype of an empty array of structures
                return False
        self.packed = True
        self.runs.clear()
        return True

    def lend(self, pid: int) -> tuple[dict[int, bytearray], list[Bytes]] | None:
        """Start afresh where what was sent is for others, and is packed mail, or much that lies in shared memory.

        Returns:
            What says so to each destination, for which a board has room, and the data. None where something is
            other: then it is still to be sent.
        """
        if pid in self.outgoing or len(self.outgoing) > wire.ITEMS:
            return None
        if self._rooms:
            self._close_rooms()
        if self._in_place:
            self._close_in_place()
        texts: dict[int, bytearray] = {}
        lent: list[Bytes] = []
        room = wire.AREA
        for dest, out in self.outgoing.items():
            if isinstance(out, bytearray):
                text = out
            else:
                data, used = out.array, out.used
                at = -1 if used <= INLINE_DATA_NEAR else self._pool.begins(data)
                if at < 0:
                    return None
                words, messages = _counted(out) if out.runs or out.packed else (out.words, len(out.records))
                try:
                    text = wire.lent_text(out.records, words, messages, used + ALIGN - 1 & -ALIGN, at)
                except ValueError:  # a dtype that no text says
                    return None
                lent.append(data)
            texts[dest] = text
            room -= len(text) + ALIGN - 1 & -ALIGN
        if room < 0:
            return None
        self._clear()
        return texts, lent

    def _clear(self) -> None:
        self.outgoing.clear()
        self.packed = True
        self.runs.clear()

    def _close_rooms(self) -> None:
        """Copy what the program has filled into packed mail, which may be the first of records by now."""
        for dest, rooms in self._rooms.items():
            out = self.outgoing[dest]
            packed = bytearray(out.records[0][3]) if isinstance(out, Outgoing) else out
            for at, room in rooms:
                np.copyto(np.ndarray(room.shape, room.dtype, packed, at), room)
                room.flags.writeable = False  # what is written there now would be lost
            if isinstance(out, Outgoing):
                out.records[0] = (*out.records[0][:3], bytes(packed))
        self._rooms.clear()

    def _close_in_place(self) -> None:
        for out, memory, offset, room in self._in_place:
            if memory is not out.array and room.size:  # which has moved since, to make room for more; or it lies beside
                copy(room, np.ndarray(room.shape, room.dtype, out.array, offset))
            room.flags.writeable = False  # others read it now
        self._in_place.clear()

    def _pickled(
        self, thing: Any, argument: str, buffers: list[pickle.PickleBuffer] | None = None, operation: str = ""
    ) -> bytes:
        try:
            return pickle.dumps(thing, 5, buffer_callback=None if buffers is None else buffers.append)
        except Exception as error:
            raise UsageError(
                f"{operation or self.operation}: argument {argument}: expected something that can be pickled, got "
                f"{type(thing).__name__} ({error}); send the data that it is made from instead"
            ) from error


class _ListedSequence(Listed, ABCMeta):
    """The class of a sequence that is `Public`."""


@hinting("bsp.inbox")
class Inbox(Public, Sequence[Message], metaclass=_ListedSequence):
    """The messages that arrived with the last sync: ordered by source, then by send; read as often as wanted.

    Examples:
        >>> def main(bsp):
        ...     bsp.send(0, np.zeros(10))
        ...     bsp.sync()
        ...     if bsp.pid == 0:
        ...         print(len(bsp.inbox), bsp.inbox.nbytes, bsp.inbox[-1].source)
        ...         print([message.payload.sum().item() for message in bsp.inbox])
        >>> simulation = pybsp.simulate(main, p=3)
        3 240 2
        [0.0, 0.0, 0.0]
    """

    __slots__ = ("_arrived", "_outgoing", "_read")
    _public = ("nbytes", "count", "index")

    def __init__(
        self, arrived: Sequence[tuple[int, Section]] = (), outgoing: Mapping[int, object] = _NOTHING_SENT
    ) -> None:
        self._arrived, self._outgoing = arrived, outgoing  # what goes out is for errors
        self._read: list[Message] | None = None

    def __len__(self) -> int:
        return sum(section.messages for _, section in self._arrived)

    @property
    def nbytes(self) -> int:
        """Bytes of data in all messages (a number is 8)."""
        return sum(_nbytes(section.descriptors) for _, section in self._arrived)

    @property
    def arrived(self) -> Sequence[tuple[int, Section]]:
        """What came with the last sync, by source: numbers and arrays packed, or records."""
        return [(source, section._replace(descriptors=_read(section.descriptors))) for source, section in self._arrived]

    def copied(self) -> Inbox:
        """The same messages, in memory of this processor's own."""
        return Inbox([(source, section.copied()) for source, section in self._arrived])

    def _messages(self) -> list[Message]:
        if self._read is None:
            messages: list[Message] = []
            for source, section in self._arrived:
                unpack(source, section, messages)
            self._read = messages
        return self._read

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages())

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if not isinstance(index, (slice, int, np.integer)):
            raise UsageError(
                f"bsp.inbox[...]: expected an int or a slice, got {type(index).__name__} {brief(index, 40)}; messages "
                f"with that tag are [m for m in bsp.inbox if m.tag == {brief(index, 40)}]"
            )
        try:
            return self._messages()[index]
        except IndexError:
            assert not isinstance(index, slice)  # none is outside
            way_out = "`len(bsp.inbox)` tells it, and iterating needs no index"
            if self._outgoing:
                way_out = "what was sent since the last sync (bsp.send) has not arrived; call bsp.sync() first"
            expected = indices_of(len(self), "message", "none has arrived")
            raise BoundsError(f"bsp.inbox[{brief(int(index))}]: expected {expected}; {way_out}") from None

    def __repr__(self) -> str:
        return f"<inbox: {len(self)} messages, {self.nbytes} bytes>"


def is_number(payload: Any) -> bool:
    """Whether a payload counts one word, whatever it takes: a number of Python or numpy."""
    return type(payload) in PLAIN_NUMBERS or (isinstance(payload, np.generic) and payload.dtype.kind in "biufcmM")


def _buffer(payload: Any) -> memoryview | None:
    """A view of a payload that is a buffer; None where it is none, or has a layout that only pickle keeps."""
    if isinstance(payload, (str, bytes, tuple, list, dict, set, frozenset)):
        return None
    try:
        view = memoryview(payload)
    except (TypeError, BufferError, ValueError):
        return None
    return view


def _counted(out: Outgoing) -> tuple[int, int]:
    """Words and messages that it counts."""
    words, messages = out.words, len(out.records) + out.packed
    for run in out.runs:
        words += len(run)
        messages += len(run) - 1
    return words, messages


def _read(descriptors: Any) -> Any:
    """Descriptors of which records are no longer written out."""
    return wire.records_of(descriptors) if type(descriptors) is bytes and descriptors[wire.WRITTEN] else descriptors


def _nbytes(descriptors: Any) -> int:
    descriptors = _read(descriptors)
    if type(descriptors) is bytes:
        records = wire.packed_records(descriptors)
        return sum(8 if kind == wire.SCALAR_KIND else size for kind, _, size, *_ in records)
    special = {NUMBERS: lambda record: 8 * len(record[3]), PACKED: lambda record: _nbytes(record[3])}
    return sum(special[record[0]](record) if record[0] in special else record[2] for record in descriptors)


def _unpack_packed(source: int, mail: bytes | list[Any], messages: list[Message]) -> None:
    """Add the messages of packed mail, or of a list of numbers, which come from there: the twin of the compiled one."""
    if isinstance(mail, list):
        messages += [new_tuple(Message, (source, None, number)) for number in mail]
        return
    for kind, code, size, shape, at, tag in wire.packed_records(mail):
        payload: Any
        if kind in (wire.BYTES_KIND, wire.PICKLE_KIND):
            payload = mail[at : at + size]
            if kind == wire.PICKLE_KIND:
                payload = unpickled(payload, source)
        else:
            payload = np.ndarray(shape, code, mail, at)
            if kind != wire.ARRAY_KIND:
                payload = payload.item() if kind == wire.NUMBER_KIND else payload[()]
        messages.append(Message(source, tag, payload))


if core is None:
    unpack_packed: Callable[[int, bytes | list[Any], list[Message]], None] = _unpack_packed
else:
    core.know(np.ndarray, np.dtype, Message, Section, np.generic, np.float64, np.int64, unpickled)
    unpack_packed = core.unpack


def are_arrays(records: Sequence[tuple[Any, ...]]) -> bool:
    """Whether all that records describe are arrays."""
    return all(abs(record[0]) in _ARRAYS for record in records)


def unpack(source: int, section: Section, messages: list[Message]) -> None:
    """Add the messages of a section, which come from there."""
    descriptors = section.descriptors
    if type(descriptors) is bytes:
        if not descriptors[wire.WRITTEN]:
            unpack_packed(source, descriptors, messages)
            return
        descriptors = wire.records_of(descriptors)
    data = NOTHING
    if section.data is not None:
        data = section.data.view()
        data.flags.writeable = False
    for record in descriptors:
        kind, tag = record[0], record[1]
        payload: Any
        if kind == SHORT_ARRAY:
            shape = record[5]
            # Of one dimension this is the quicker way.
            dtype = dtype_of(record[4]) if record[4][0] == "[" else record[4]
            payload = np.frombuffer(record[3], dtype) if len(shape) == 1 else np.ndarray(shape, dtype, record[3])
            messages.append(new_tuple(Message, (source, tag, payload)))
            continue
        if kind == SHORT_PICKLE:
            messages.append(new_tuple(Message, (source, tag, unpickled(record[3], source))))
            continue
        if kind in (NUMBERS, PACKED):
            unpack_packed(source, record[3], messages)
            continue
        if kind < 0:
            kind, tag = -kind, unpickled(tag, source)
        if kind in (NUMBER, SHORT_BYTES):
            payload = record[3]
        elif kind == SHORT_ARRAY:
            payload = np.ndarray(record[5], dtype_of(record[4]), record[3])
        elif kind == SCALAR:
            payload = np.frombuffer(record[3], record[4])[0]
        elif kind == ARRAY:
            payload = np.ndarray(record[5], dtype_of(record[4]), data, record[3])
        elif kind == BYTES:
            payload = data[record[3] : record[3] + record[2]].tobytes()  # a copy: bytes cannot be a view
        elif kind == SHORT_PICKLE:
            payload = unpickled(record[3], source)
        elif kind == PICKLE:
            (start, length), *places = record[3]
            buffers = [data[at : at + n] for at, n in places]
            payload = unpickled(data[start : start + length].data, source, buffers)
        else:
            _, _, size, offset, code, shape = record
            payload = _memoryview(data[offset : offset + size], code, shape)
        messages.append(new_tuple(Message, (source, tag, payload)))


def has_pickles(section: Section) -> bool:
    """Whether reading the messages of a section reads pickles, or takes bytes for Python's objects (no send has it do
    that): who has written it may then have any code run."""
    return _has_pickles(_read(section.descriptors))


def _has_pickles(descriptors: Any) -> bool:
    if type(descriptors) is bytes:
        return any(kind == wire.PICKLE_KIND or code == "O" for kind, code, *_ in wire.packed_records(descriptors))
    return any(
        record[0] < 0
        or record[0] in (SHORT_PICKLE, PICKLE)
        or (record[0] in (ARRAY, SHORT_ARRAY) and dtype_of(record[4]).hasobject)
        or (record[0] == PACKED and _has_pickles(record[3]))
        for record in descriptors
    )


def arrays_of(section: Section) -> list[NDArray[Any]]:
    """The arrays in the data of a section, and the buffers of floating-point numbers, which may be written to."""
    data = section.data
    found: list[NDArray[Any]] = []
    if data is None:
        return found
    for record in section.descriptors:
        kind = abs(record[0])
        if kind == ARRAY or (kind == BUFFER and record[4] in _FLOATS):
            found.append(np.ndarray(record[5], dtype_of(record[4]), data, record[3]))
    return found


def _memoryview(data: Bytes, code: str, shape: tuple[int, ...]) -> memoryview:
    view = data.data
    if code == "B" and len(shape) == 1:
        return view
    if 0 in shape:
        return memoryview(array.array(code if code in "bBuhHiIlLqQfd" else "B")).toreadonly()
    try:
        return view.cast(code, shape)  # type: ignore[call-overload, no-any-return]
    except (ValueError, TypeError):
        return view  # a format that memoryview itself cannot make: its bytes
