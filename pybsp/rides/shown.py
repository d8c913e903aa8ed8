"""Supersteps in which each processor shows all others a short record: what a small collective is made of.

Such a superstep needs no parcel: each writes its record where all see it, and reads those that it wants. A record
begins with the signature of the call (ride.py), so a call that differs is found as elsewhere. Not in checked mode, on
virtual processors, or with a router that forwards: there a collective rides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..ground.chunk import UNCOUNTED, Counted, clock, unpack_counts
from ..ground.copying import copy
from ..ground.failures import note_label
from ..ground.short_records import FLOATS, Showable, write_record
from ..ledger.account import COUNTS, NOTHING
from ..messages.mail import Message, are_arrays, unpack
from ..transport import LETTERS, QUIET, RIDES, Arrival, Bytes, Parcel, Section
from ..transport.arena import SMALLEST, SharedPool
from ..transport.media.showing import Showing
from ..transport.overflow import MOST
from ..transport.router import Direct
from ..transport.wire import AREA, BY_MESSAGE, LONGEST_HEAD, WORD
from ..ways import BY_COLLECTIVE, BY_NOTE, BY_RECORD
from .ride import Letter, Ride, Stream, Supersteps, signature

if TYPE_CHECKING:
    from ..ledger.log import Log
    from ..supersteps.superstep import SuperstepEngine
    from ..transport.pipe import Pipe

Result = TypeVar("Result")

NOT_SHOWN: Final = object()
ELSEWHERE: Final = BY_MESSAGE  # where memory lies that others do not see
letter_source = itemgetter(0)


Counts = bytes  # words out and in, messages out and in, as `chunk.pack_counts` makes it
# A superstep of a climb (collectives/small_climbs.py): who hears this processor, who it hears from, these and itself,
# counts.
Turn = tuple[list[int], list[int], list[int], Counts]
Came = tuple[Arrival, float, Counted]  # instead of a record: seconds of computing before it, what this processor sent
Begin = Callable[[str, dict[str, str], int], int]
Read = Callable[[int], tuple[Any, Counts]]  # of the records at that place: see `Shown.hear`
ReadOne = Callable[[int, int], tuple[Any, float]]  # of a processor's record, where it begins


class Shown:
    """The records of all processors of a machine, as one of them sees them; made by `Shown.of`.

    Attributes:
        parts: where they write, by processor, as bytes.
        words: the same as words of 8 bytes.
        places: where a record begins there, in bytes, by the parity of an exchange's number.
        most: bytes of a record.
        parity: of the next superstep, whose record is written then: see `Pad.parity`.
        pids: of the processors.
        others: all but this processor.
        idle: the scheme of a call (collectives/small_climbs.py) for which this processor needs nobody, and keeps in
            step.
    """

    @property
    def ready(self) -> bool:
        """Whether the next superstep may be one of what primitives of one superstep show or send each other (`swap`).

        Not where a trace is made of what is sent, and not where something else has to go with it.
        """
        engine = self._engine
        return not engine.registrations.declared and engine.tracer is None and engine.gate.limit > 0

    def __init__(self, engine: SuperstepEngine, transport: Showing) -> None:
        self._engine, self._pad, self._rides, self._account = engine, transport.pad, engine.rides, engine.account
        self.parity = transport.pad.parity
        self._show, self._show_record = transport.show, transport.show_record
        self._leave_exchange = transport.left
        self.parts, self.places, self.most = self._pad.shown()
        self.words = [part.cast("q") for part in self.parts]
        self.mine, self.pid = self.parts[engine.pid], engine.pid
        self.pids: Sequence[int] = range(engine.p)
        self.others = [pid for pid in self.pids if pid != engine.pid]
        self._theirs = [self.words[pid] for pid in self.others]
        self._members = tuple(self.others)  # of the board
        self._came: Came | None = None
        self.idle: list[Turn] = []

    @classmethod
    def of(cls, engine: SuperstepEngine) -> Shown | None:
        """Of a machine; None where its processors do not meet so, which all of them find alike."""
        transport = engine.transport
        if not isinstance(transport, Showing) or not isinstance(engine.router, Direct) or engine.checked:
            return None
        transport.pad.begin()
        return cls(engine, transport)

    def quiet(self) -> Arrival:
        """An exchange of what rides alone, in which this processor says nothing."""
        arrival = self._show(RIDES)
        return QUIET if arrival is None else arrival

    def signature(self, name: str, arguments: dict[str, str]) -> int:
        """That of a call."""
        return signature(name, arguments)

    @property
    def latest(self) -> int:
        """Where the records of the last superstep begin, in bytes."""
        return self.places[self._pad.number & 1]

    def memory(self, size: int) -> tuple[int, Bytes]:
        """Memory of so many bytes where all see it, and its place in this processor's part; else none, `ELSEWHERE`."""
        pool = self._engine.pool
        if self._pad.pipe is None or not isinstance(pool, SharedPool):  # or a node shares it, of several
            return ELSEWHERE, np.empty(0, np.uint8)
        memory = pool.take(max(size, SMALLEST))
        return pool.place(memory), memory[:size]

    def lay_beside(self, array: NDArray[Any]) -> int:
        """Copy an array, which is shown with the next superstep, to where it can be read as a record is: its place in
        this processor's part; `ELSEWHERE`: there is no room.
        """
        overflow = self._pad.overflow
        if overflow is None:
            return ELSEWHERE
        place, memory = overflow.take(self._pad.number + 1, array.nbytes)
        if place != ELSEWHERE:
            copy(array, np.ndarray(array.shape, array.dtype, memory))
        return place

    def pipe(self) -> int:
        """Where this processor's pipe lies (transport/pipe.py); `ELSEWHERE`: it has none."""
        pipe = self._pad.pipe
        return ELSEWHERE if pipe is None else pipe.place()

    def _pipe(self) -> Pipe:
        pipe = self._pad.pipe
        assert pipe is not None
        return pipe

    def send_through(self, name: str, at: int, place: int, array: NDArray[Any]) -> None:
        """Send an array through the pipe, when the superstep has ended whose record says so.

        It is the computing of what follows, as reading a record is. Others wait for it, so whatever is raised here ends
        the run.

        Args:
            name: of the function, for errors.
            at, place: as of `Pipe.send`.
        """
        try:
            # Copies more than once only where the array is not contiguous.
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._pipe().send(self._members, at, place, data)
        except BaseException as error:
            self._left(error, name)

    def receive_through(
        self, name: str, source: int, at: int, place: int, room: Callable[[], NDArray[Any]]
    ) -> NDArray[Any]:
        """Receive what a processor sends through its pipe: see `send_through`.

        Args:
            room: makes the array that is received into.
        """
        try:
            array = room()
            self._pipe().receive(self.pids[source], at, place, array.reshape(-1).view(np.uint8))
            return array
        except BaseException as error:
            self._left(error, name)

    @property
    def begin(self) -> Begin:
        """What begins a call: see `Rides.begin_shown`."""
        return self._engine.rides.begin_shown

    @property
    def traced(self) -> bool:
        """Whether `trace` is to hear of all records."""
        return self._engine.tracer is not None

    def trace(self, name: str, dests: Sequence[int], words: int) -> None:
        """The superstep that ends now is one of a collective, and these read so many words of this one's record."""
        tracer = self._engine.tracer
        assert tracer is not None
        tracer.shown(name, dests, words)

    @property
    def log(self) -> Log:
        """The engine's: what is charged to `work` there is as by `BSP.work`. A trace has one of its own."""
        return self._account.log

    def sync(self, name: str, label: float, signature: int, at: int, counts: Counts) -> None:
        """End a superstep, once this processor's record is written.

        Args:
            name, label: label it where the program has no label; see `label`.
            signature: with which all records are to begin.
            at: where this one begins, in bytes.
            counts: of this processor.
        """
        # Time counts here: it is what a collective of a number takes.
        engine = self._engine
        place = at >> 3
        try:
            log = self._account.log
            arrival: Arrival | None
            if self._rides.riding:
                parcels, sent = engine.pack_rides()
                log.entered = clock()
                arrival = self._show(RIDES, parcels) or QUIET
            else:
                sent = NOTHING
                arrival = self._show(RIDES, None, log, label, counts)
            if arrival is None:  # it is noted
                for words in self._theirs:
                    if words[place] != signature:
                        engine.agreement.differ(self._differs(name, place, signature))
                return
        except BaseException as error:
            self._leave(error, name)
            raise
        self._go_on(name, arrival, log.entered, sent, counts, self._differs(name, place, signature))

    def hear(self, name: str, label: float, signature: int, at: int, read: Read) -> Any:
        """`sync` of a processor that does not know whether the others show anything.

        Args:
            name, label, signature, at: as of `sync`.
            read: of the records at that place, what is wanted of them, and what this processor counts.

        Returns:
            What was read, which is the computing of what follows, and may be views of records until the next sync;
            `NOT_SHOWN` where one does not show anything: then what came is `heard`, or `swap` goes on.
        """
        log = self._account.log
        try:
            arrival: Arrival | None
            if self._rides.riding:
                parcels, sent = self._engine.pack_rides()
                log.entered = clock()
                arrival = self._show(RIDES, parcels) or QUIET
                log.over = clock()
            else:
                sent = NOTHING
                arrival = self._show(RIDES, None, log, 0.0, UNCOUNTED)
        except BaseException as error:
            self._leave(error, name)
            raise
        return self._hear(name, label, signature, at, read, arrival, sent)

    def _hear(
        self,
        name: str,
        label: float,
        signature: int,
        at: int,
        read: Read,
        arrival: Arrival | None,
        sent: Counted,
    ) -> Any:
        """`hear`, when the exchange has ended."""
        log = self._account.log
        try:
            place = at >> 3
            for words in self._theirs:
                if words[place] != signature:
                    if arrival is None:
                        self._engine.agreement.differ(self._differs(name, place, signature))
                    self._came = arrival, log.entered - log.left, sent
                    return NOT_SHOWN
            found, counts = read(at)
            if arrival is None:
                log.note_row(label, log.over, counts)  # reading is the computing of what follows, as in `sync`
                return found
        except BaseException as error:
            self._leave(error, name)
            raise
        self._go_on(name, arrival, log.entered, sent, counts)
        return found

    def show_record(
        self,
        name: str,
        label: float,
        signature: int,
        counts: Counts,
        value: Showable,
        sources: tuple[int, ...],
        read: Read | None = None,
        like: bytes | None = None,
    ) -> Any:
        """`sync`, or `hear`, of a processor whose record is written here: in half the time.

        Args:
            name, label, signature: as of `sync`.
            counts: of this processor, if what it reads is what this finds.
            value: what it shows.
            sources: whose records are wanted.
            read: as of `hear`, if this processor does not know whether the others show anything, or what.
            like: as of `Pad.show_record`.

        Returns:
            Of each source its number, or None if it is like that, where this is so of all. Else what `hear` returns;
            without `read` None: the records are to be read, as after `sync`.
        """
        if self._rides.riding:
            return self._show_beside(name, label, signature, counts, value, read)
        log = self._account.log
        try:
            found = self._show_record(RIDES, log, label, counts, signature, value, like, sources, self._members)
            if isinstance(found, list):
                return found
            arrival: Arrival | None = found
            at = self.latest
            if read is None:
                differs = self._differs(name, at >> 3, signature)
                if arrival is None:
                    if differs:
                        self._engine.agreement.differ(differs)
                    log.note_row(label, log.over, counts)
                    return None
        except BaseException as error:
            self._leave(error, name)
            raise
        if read is not None:
            return self._hear(name, label, signature, at, read, arrival, NOTHING)
        assert arrival is not None
        self._go_on(name, arrival, log.entered, NOTHING, counts, differs)
        return None

    def _show_beside(
        self, name: str, label: float, signature: int, counts: Counts, value: Showable, read: Read | None
    ) -> Any:
        """`show_record` where something goes beside it."""
        at = self.places[self.parity(FLOATS.size)]
        write_record(self.mine, at, signature, value)
        if read is not None:
            return self.hear(name, label, signature, at, read)
        self.sync(name, label, signature, at, counts)
        return None

    def heard(self, name: str, steps: Callable[[], Supersteps[Result]]) -> Result:
        """The call rides, and begins with what came instead of a record."""
        engine = self._engine
        engine.rides.take_back()
        ride = engine.rides.start(name, steps())
        engine.take_rides(name, *self.taken())
        return ride.finish()

    def taken(self) -> Came:
        """What came instead of a record, once: kept, its senders could not use its memory again."""
        came, self._came = self._came, None
        assert came is not None
        return came

    def swap(
        self, name: str, signature: int, at: int, sent: tuple[int, int], expected: Sequence[int], read: ReadOne
    ) -> list[Any]:
        """The end of a superstep in which this processor shows what it has, and some others send it (`trade`).

        `hear` has found that not all show theirs.

        Args:
            name, signature, at: as of `hear`.
            sent: what this processor's record counts, words and messages.
            expected: the processors that one message each comes from, in order.
            read: what such a processor shows to this one, as it would be sent, and its words.

        Returns:
            What they have, in that order; arrays are read-only views, until the next sync.
        """
        arrival, seconds, riding = self.taken()
        words, messages = sent
        self._engine.rides.count(name, words)
        sent_in_all = riding[0] + words, riding[1] + messages, 0, riding[3] | (BY_RECORD if messages else 0)
        return self._ride_on(name, signature, at, arrival, seconds, sent_in_all, expected, read)

    def trade(
        self,
        name: str,
        label: float,
        signature: int,
        at: int,
        sends: Sequence[tuple[int, Any]],
        expected: Sequence[int],
        read: ReadOne,
    ) -> list[Any]:
        """End a superstep in which some have something for others, and this one sends it: a record has no room.

        Args:
            name, signature, at, expected, read: as of `swap`.
            label: as of `sync`.
            sends: destinations, other processors, and payloads as of `BSP.send`.

        Returns:
            As `swap`.
        """
        engine = self._engine
        rides = engine.rides
        try:
            words = -sum(rides.mail.words(dest) for dest in rides.mail.outgoing)  # of what rides beside it
            for dest, payload in sends:
                rides.mail.send(self.pids[dest], payload, signature)
            words += sum(rides.mail.words(dest) for dest in rides.mail.outgoing)
            parcels, sent = engine.pack_rides()
            enter = clock()
            arrival = engine.route(RIDES, None, parcels, COUNTS)
            came: list[Message] = []
            got = None if rides.riding else _letters(arrival, came)
            if got is not None and len(came) == len(expected):
                payloads = {source: payload for source, of_call, payload in came if of_call == signature}
                sources = [self.pids[number] for number in expected]
                if payloads.keys() == set(sources):
                    engine.account.log.note_own(label, enter, clock(), sent, got)
                    rides.count(name, words)
                    engine.rode(name)
                    return [payloads[pid] for pid in sources]
        except BaseException as error:
            self._leave(error, name)
            raise
        rides.count(name, words)
        return self._ride_on(name, signature, at, arrival, enter - engine.account.log.left, sent, expected, read)

    def _ride_on(
        self,
        name: str,
        signature: int,
        at: int,
        arrival: Arrival,
        seconds: float,
        sent: Counted,
        expected: Sequence[int],
        read: ReadOne,
    ) -> list[Any]:
        """The end of `swap` and `trade` where some show and others send, something rides too, or calls differ."""
        engine = self._engine
        rides = engine.rides
        stream = Stream(rides, name, signature)
        ride = Ride(rides, name, _arrived(stream))
        ride.advance()
        ride.streams.append(stream)
        rides.riding.append(ride)
        words, letters = 0.0, []
        for source in expected:
            if self.words[source][at >> 3] == signature:
                payload, size = read(source, at)
                words += size
                letters.append(Letter(source, None, payload))
        self._take(name, arrival, seconds, sent, (int(words), len(letters), 0, 0))
        letters += [letter._replace(source=self.pids.index(letter.source)) for letter in ride.value]
        letters.sort(key=letter_source)
        if (sources := [letter.source for letter in letters]) != expected:
            odd = sorted(set(expected).symmetric_difference(sources)) or sources
            pid = self.pids[odd[0]]
            engine.agreement.differ(f"{name}: processor {pid} is in another call than processor {engine.pid}")
        return [letter.payload for letter in letters]

    def label(self, name: str) -> float:
        """The number of a label in the ledger."""
        labels = self._engine.account.log.labels
        return float(labels.setdefault(name, len(labels)))

    def _differs(self, name: str, place: int, signature: int) -> str:
        """A complaint, where another processor shows no record with this signature there."""
        for words in self._theirs:
            if words[place] != signature:
                return f"{name}: another processor is in another call than processor {self._engine.pid}"
        return ""

    def _go_on(
        self, name: str, arrival: Arrival, enter: float, sent: Counted, counts: Counts, differs: str = ""
    ) -> bool:
        """End a superstep in which something rides too, here or elsewhere; returns what `sync_rides` does.

        Args:
            sent: what that counts here.
            counts: of the records.
            differs: see `SuperstepEngine.take_rides`.
        """
        engine = self._engine
        words_out, words_in, messages_out, messages_in, _ = map(int, unpack_counts(counts))
        engine.rides.count(name, words_out)
        seconds = enter - engine.account.log.left
        sent = sent[0] + words_out, sent[1] + messages_out, 0, sent[3] | BY_RECORD
        return self._take(name, arrival, seconds, sent, (words_in, messages_in, 0, 0), differs)

    def _take(
        self, name: str, arrival: Arrival, seconds: float, sent: Counted, got: Counted, differs: str = ""
    ) -> bool:
        """`SuperstepEngine.take_rides`."""
        return self._engine.take_rides(name, arrival, seconds, sent, got, differs)

    def _left(self, error: BaseException, name: str) -> NoReturn:
        """An exception has left a pipe, in which others may wait: as `MPITransport.left` of an exchange."""
        try:
            self._leave_exchange(error)
        except BaseException as known:
            self._leave(known, name)
            raise
        raise AssertionError  # of no kind that is answered

    def _leave(self, error: BaseException, name: str) -> None:
        note_label(error, self._engine.account.label or name)
        self._engine.agreement.leave(error)


def shown_by(hosts: Sequence[str]) -> int:
    """Bytes that a rank may show, of ranks on these hosts; 0 where these are not known: nobody has measured there what
    that takes.
    """
    if not hosts:
        return 0
    return AREA if len({*hosts}) == 1 else LONGEST_HEAD - WORD


class AsShown:
    """What ranks would note of small collectives, on virtual processors: `with calling()` around one.

    Args:
        room: bytes that a rank may show.

    Attributes:
        now: whether such a call goes on.
    """

    def __init__(self, room: int) -> None:
        self._room, self.now = room, False
        self._most: float = room

    def calling(self, pipes: bool | None) -> AsShown:
        """For a call; `pipes`: whether it is of an array, which goes through a pipe where it has no room beside its
        record; None: arrays that have no room there are sent.
        """
        self._most = self._room
        if self._room == AREA and pipes is not False:  # between hosts there are none, and nothing lies beside records
            self._most = math.inf if pipes else MOST
        return self

    def _fits(self, section: Section) -> bool:
        """Whether a section has room: arrays, beside a record; else all of it, in one."""
        size, records = 8 * section.words, section.descriptors
        return size <= self._room or (size <= self._most and type(records) is list and are_arrays(records))

    def __enter__(self) -> None:
        self.now = True

    def __exit__(self, *_: object) -> None:
        self.now = False

    def counted(self, parcels: Mapping[int, Parcel], counts: Counted) -> Counted:
        """What a superstep counts here, where that is sent."""
        words, messages, items, ways = counts
        fits = all(self._fits(section) for parcel in parcels.values() for section in parcel.values())
        of_collectives = ways and not ways & ~(BY_COLLECTIVE | BY_NOTE)
        return (words, messages, items, BY_RECORD) if self.now and fits and of_collectives else counts


def _letters(arrival: Arrival, found: list[Message]) -> Counted | None:
    """The messages of what rides, and what they count; None where something else has come."""
    if arrival[0] is not None:
        return None
    words = messages = 0
    for source, parcel in arrival[2]:
        if len(parcel) != 1 or LETTERS not in parcel:
            return None
        section = parcel[LETTERS]
        words, messages = words + section[1], messages + section[2]
        unpack(source, section, found)
    return words, messages, 0, 0


def _arrived(stream: Stream) -> Supersteps[list[Letter]]:
    """What comes in one superstep."""
    yield
    return stream.arrived
