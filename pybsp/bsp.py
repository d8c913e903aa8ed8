"""The BSP programming interface: what a program sees of its processor.

Data goes one way:

    program -> pools (mail, queues, puts and gets) -> router -> transport, and back at the sync
"""

from __future__ import annotations

import dataclasses
import operator
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, SupportsIndex

import numpy as np
from greenlet import GreenletExit
from numpy.typing import DTypeLike, NDArray

from . import agreement, arrays, process, settings
from .arrays import Array, Ticket
from .errors import BSPError, CostError, UsageError, describe, where
from .ledger import COLUMNS, Ledger, Log, combine, shares
from .machine import BSPMachine, EBSPMachine
from .mail import PLAIN_NUMBERS, SHORT, Inbox, Mail
from .outcome import managed
from .outgoing import Outgoing
from .queues import Freed, Queue
from .transport import (
    END,
    FAIL,
    FLAG_GETS,
    GETS,
    JOINED,
    KIND,
    LEDGER,
    MAIL,
    PUTS,
    QUIET,
    REPLIES,
    REPLY,
    SPLIT,
    SYNC,
    Arrival,
    Charge,
    Parcel,
    Segment,
    Transport,
)
from .transport.memory import POISON
from .transport.router import Direct, Router

_NONE: dict[int, Parcel] = {}
_EMPTY = Inbox()
_COUNTS = Charge(0.0, counts=True)  # on ranks, where no virtual clock runs
_NOTHING = (0, 0, 0)  # words, messages, items
_NO_TICKETS: dict[int, list[Ticket]] = {}
_SYNCED = "called bsp.sync()"
_CHUNK = Log.CHUNK
_clock = time.perf_counter


class BSP:
    """One processor of a BSP machine; made by `pybsp.run`, `pybsp.simulate`, `pybsp.attach` and `bsp.split`.

    Attributes:
        p: processors.
        pid: this one, 0 to p - 1.
        machine: the parameters in force, equal bit for bit on all processors.
        inbox: the messages that arrived with the last sync.

    Examples:
        >>> def main(bsp):
        ...     bsp.send(0, bsp.pid**2)
        ...     bsp.sync()
        ...     return [message.payload for message in bsp.inbox]
        >>> pybsp.simulate(main, p=3).results
        [[0, 1, 4], [], []]
    """

    def __init__(
        self,
        transport: Transport,
        routing: Router,
        machine: BSPMachine | EBSPMachine,
        checked: bool,
        virtual: bool = False,
        measure: bool = False,
        context: int = 0,
    ) -> None:
        self.p, self.pid, self.machine = transport.p, transport.pid, machine
        self.inbox: Inbox = _EMPTY
        self._transport = transport
        self._router, self._route = routing, routing.route
        self._checked, self._virtual, self._measure, self._context = checked, virtual, measure, context
        self._plain = not (checked or virtual)
        self._brief = False  # whether sync may go the short way: open, and nothing is in use but messages
        self._begun: _Begun | None = None
        self._before = 0.0  # virtual time at which the superstep's exchange began
        self._pool = transport.pool
        self._limit = self.p  # destinations below it are valid; 0 while nothing may be called
        self._closed = ""  # why nothing may be called
        self._failed: BSPError | None = None  # agreed by all processors
        self._members: list[int] = []  # of a part: which of all processors they are
        self._part: BSP | None = None  # the part that is in use
        self._machines: dict[int, BSPMachine | EBSPMachine] = {}  # of parts, by their size
        # The pools: what goes out with the next sync.
        # When checked no array lies in a record: views of those could not be poisoned.
        self._mail = Mail(self._pool, short=-1 if checked else SHORT)
        self._outgoing, self._runs = self._mail.outgoing, self._mail.runs
        self._outgoing_pools: dict[Queue, None] = {}
        self._puts: dict[int, Outgoing] = {}
        self._gets: dict[int, Outgoing] = {}
        self._tickets: dict[int, list[Ticket]] = {}
        # Registrations.
        self._declared: list[tuple[str, str, Any, str]] = []
        self._new: list[Array] = []
        self._freed: list[Array | Queue] = []
        self._leaving: list[Array | Queue] = []  # freed, and gone once this sync has delivered
        self._arrays: dict[int, Array] = {}
        self._array_count = 0
        self._queues: list[Queue] = []  # by stream, from JOINED on
        self._unused: list[int] = []  # places among them of queues that are gone
        self._filled: list[Queue | Freed] = []  # queues whose content goes at the next sync
        self._fresh: Sequence[tuple[int, Parcel]] = ()  # what arrived last, to be poisoned when checked
        # The ledger.
        self._log = Log()
        self._label = ""
        self._label_number = 0.0
        self._work = 0.0
        self._part_seconds = 0.0
        self._begin()

    @property
    def router(self) -> Router:
        """What carries this processor's messages; some routers count what they do (see `pybsp.routing`).

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.router.name, p=2, router="two-phase").results
            ['two-phase', 'two-phase']
        """
        return self._router

    def _begin(self) -> None:
        """The program begins on this processor: its clocks run from here."""
        self._started = self._transport.time()
        self._left = time.perf_counter()

    # -- messages -------------------------------------------------------------------------------------------------

    def send(self, dest: SupportsIndex, payload: Any, tag: Any = None) -> None:
        """Send a message, copied now, which is in dest's inbox after the next sync.

        Args:
            dest: a processor, 0 to p - 1, this one included.
            payload: a numpy array or a buffer (they travel without pickle), or any picklable object.
            tag: any picklable value.

        Raises:
            UsageError: a wrong dest, or something that cannot be pickled. Nothing is sent then.

        BSP cost: one message of ceil(bytes / 8) words; a number counts one word, another object its pickle.

        Examples:
            >>> def main(bsp):
            ...     bsp.send((bsp.pid + 1) % bsp.p, np.arange(3) * bsp.pid, tag="row")
            ...     bsp.sync()
            ...     ((source, tag, payload),) = bsp.inbox
            ...     return source, tag, payload.tolist()
            >>> pybsp.simulate(main, p=3).results
            [(2, 'row', [0, 2, 4]), (0, 'row', [0, 0, 0]), (1, 'row', [0, 1, 2])]
        """
        if type(dest) is not int or not 0 <= dest < self._limit:
            dest = self._processor("bsp.send", "dest", dest)
        if self._runs and tag is None and type(payload) in PLAIN_NUMBERS:
            run = self._runs.get(dest)
            if run is not None:
                run.append(payload)
                return
        self._mail.send(dest, payload, tag)

    def room(
        self, dest: SupportsIndex, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, tag: Any = None
    ) -> NDArray[Any]:
        """An array to be filled until the next sync, with which it is sent: `send` without its copy.

        On a node it is shared memory: its destination reads it where it was filled. Its content is undefined at first;
        from the sync on it can only be read, and is no longer to be used.

        Args:
            dest: a processor, 0 to p - 1, this one included.
            shape: an int or a tuple of ints.
            dtype: plain data of a fixed size.
            tag: any picklable value.

        Raises:
            UsageError: a wrong argument. Nothing is sent then.

        BSP cost: one message of ceil(bytes / 8) words.

        Examples:
            >>> def main(bsp):
            ...     bsp.room((bsp.pid + 1) % bsp.p, 4)[:] = bsp.pid
            ...     bsp.sync()
            ...     return bsp.inbox[0].payload.tolist()
            >>> pybsp.simulate(main, p=2).results
            [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
        """
        if type(dest) is not int or not 0 <= dest < self._limit:
            dest = self._processor("bsp.room", "dest", dest)
        made = _plain_dtype("bsp.room", dtype)
        if type(shape) is int and shape >= 0:
            return self._mail.room(dest, (shape,), made, tag)
        try:
            sizes = tuple(operator.index(one) for one in (shape if isinstance(shape, tuple) else (shape,)))
        except TypeError:
            sizes = (-1,)
        if any(one < 0 for one in sizes):
            raise UsageError(
                f"bsp.room: argument shape: expected an int or a tuple of ints of at least 0, got {shape!r}"
            )
        return self._mail.room(dest, sizes, made, tag)

    def queue(self, dtype: DTypeLike = np.float64) -> Queue:
        """Make a typed queue; all processors alike. It may be used at once, and is compared at the next sync.

        Raises:
            UsageError: a dtype that has no fixed size, or is not plain data.

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue(np.int64)
            ...     queue.send(np.arange(bsp.p), 10 * bsp.pid)
            ...     bsp.sync()
            ...     return queue.values.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0, 10, 20], [0, 10, 20], [0, 10, 20]]
        """
        self._check_open("bsp.queue")
        made = _plain_dtype("bsp.queue", dtype)
        if made.itemsize == 0 or made.subdtype is not None:
            raise UsageError(
                f"bsp.queue: argument dtype: expected items of at least one byte and no sub-array, got {made}; "
                "use a structured dtype"
            )
        line = where()
        place = self._unused.pop() if self._unused else len(self._queues)
        queue = Queue(self, JOINED + place, made, line)
        self._queues[place : place + 1] = [queue]
        self._brief = False
        self._declared.append(("queue of", str(made), None, line))
        return queue

    def _free_queue(self, queue: Queue) -> None:
        self._freed.append(queue)
        self._brief = False
        self._declared.append(("free of queue", str(queue._stream - JOINED), None, where()))

    def array(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> Array:
        """Make an array of zeros and register it, on all processors alike; shapes may differ.

        `local` is usable at once; put and get from the next sync on.

        Raises:
            UsageError: a dtype that has no fixed size or is not plain data, or a shape that is none.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array((2, 3), dtype=np.int64)
            ...     bsp.sync()
            ...     x.put((bsp.pid + 1) % bsp.p, bsp.pid, at=(0, slice(1, 3)))
            ...     bsp.sync()
            ...     return x.local.tolist()
            >>> pybsp.simulate(main, p=2).results
            [[[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
        """
        self._check_open("bsp.array")
        made = _plain_dtype("bsp.array", dtype)
        try:
            local = np.zeros(shape, made)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"bsp.array: argument shape: expected an int or a tuple of ints of at least 0, got {shape!r} ({error})"
            ) from None
        line = where()
        array = Array(self, self._array_count, local, line)
        self._array_count += 1
        self._new.append(array)
        self._brief = False
        self._declared.append(("array of", str(made), local.shape, line))
        return array

    def _free_array(self, array: Array) -> None:
        self._freed.append(array)
        self._brief = False
        self._declared.append(("free of array", str(array._number), None, where()))

    # -- supersteps -----------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """End the superstep: what was sent, put and asked for arrives; collective.

        Raises:
            ProcessorError: another processor failed.
            SyncError: another processor ended, or did something else, or registered something else.

        BSP cost: w + g*h + l.

        Examples:
            >>> def main(bsp):
            ...     bsp.send(0, bsp.pid)
            ...     before = len(bsp.inbox)
            ...     bsp.sync()
            ...     return before, len(bsp.inbox)
            >>> pybsp.simulate(main, p=3).results
            [(0, 3), (0, 0), (0, 0)]
        """
        if not self._brief:
            self._check_open("bsp.sync")
            self._end_superstep(SYNC, None, _SYNCED)
            return
        # The short way of a processor that says nothing, or sends messages alone. Time counts here: it is what an
        # empty superstep takes.
        try:
            enter = _clock()
            self.inbox = _EMPTY
            if self._outgoing:
                parcels, sent = self._mail.pack(self.pid)
                arrival = self._route(SYNC, None, parcels, _COUNTS)
            else:
                sent = _NOTHING
                arrival = self._route(SYNC, None, _NONE, _COUNTS)
            log = self._log
            if arrival is not QUIET:
                if arrival[0] is not None:
                    self._take(arrival, SYNC, _SYNCED, enter, sent)
                    return
                got = self._deliver(arrival) if arrival[2] else _NOTHING
                left, leave = self._left, _clock()
                words, messages, _ = sent
                log.note(  # by position, as below: names would take 35 ns
                    self._label_number,
                    self._work,
                    enter - left,
                    leave - left,
                    words,
                    got[0],
                    messages,
                    got[1],
                    0,
                    got[2],
                )
                self._work = 0.0
                self._left = leave
                return
            left, leave = self._left, _clock()
            numbers, at = log.numbers, log.end  # columns by position, as in ledger.py: a name is a look-up
            if self._label_number:
                numbers[at] = self._label_number
            if self._work:
                numbers[at + 1] = self._work
                self._work = 0.0
            numbers[at + 2] = enter - left
            numbers[at + 3] = leave - left
            if sent is not _NOTHING:
                numbers[at + 4], numbers[at + 6], _ = sent
            log.end = at + COLUMNS
            if log.end == _CHUNK:
                log.turn()
            self._left = leave
        except BaseException as error:
            self._leave(error)
            raise

    def begin(self) -> None:
        """End the superstep's sending, without waiting: what was sent travels while the program goes on; collective.

        Until `bsp.end` the program computes, with what arrived last too, and neither sends, puts, gets nor syncs. Some
        processors may call `bsp.sync` instead of the two.

        Between hosts the exchange goes on in a thread, which calls MPI: do not call it yourself meanwhile. Where the
        job's MPI allows no other thread (below MPI_THREAD_SERIALIZED), the rest of it waits for `end`; and with another
        router than `direct` all of it does.

        Raises:
            UsageError: between `begin` and `end` already.

        BSP cost: with `end`, that of `sync`; the exchange and the computation between the two overlap as far as the
        machine lets them.

        Examples:
            >>> def main(bsp):
            ...     bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
            ...     bsp.begin()
            ...     bsp.work(1e6)  # computes while the message travels
            ...     bsp.end()
            ...     return bsp.inbox[0].payload
            >>> pybsp.simulate(main, p=3).results
            [2, 0, 1]
        """
        self._check_open("bsp.begin")
        try:
            parcels, counts, flags, note, tickets = self._prepare(None)
            enter = _clock()
            if isinstance(self._router, Direct) and not self._virtual:
                complete = self._transport.begin(SYNC | flags, note, parcels)
            else:
                complete = partial(self._route, SYNC | flags, note, parcels)
        except BaseException as error:
            self._leave(error)
            raise
        self._begun = _Begun(complete, enter, _clock(), counts, tickets, where())
        self._close("bsp.begin() has ended the sending of this superstep; call bsp.end() first")

    def end(self) -> None:
        """What travelled since `bsp.begin` arrives: this ends the superstep; collective.

        Raises:
            UsageError: without `begin` before it.
            ProcessorError, SyncError: as `sync`.

        BSP cost: `begin` has it.

        Examples:
            >>> try:
            ...     pybsp.simulate(lambda bsp: bsp.end(), p=2)
            ... except pybsp.UsageError as error:
            ...     print(error)
            bsp.end: expected bsp.begin() before it in this superstep; bsp.sync() does both
        """
        begun = self._begun
        if begun is None:
            self._check_open("bsp.end")
            raise UsageError("bsp.end: expected bsp.begin() before it in this superstep; bsp.sync() does both")
        self._complete(begun, _clock())

    def _complete(self, begun: _Begun, enter: float, grace: float | None = None) -> None:
        """Carry what `begin` began to its end; `grace` as of `Transport.exchange`."""
        self._begun = None
        self._limit, self._closed = self.p, ""
        if self._filled or self._checked:
            self._forget()
        self.inbox = _EMPTY
        seconds = begun.enter - self._left + enter - begun.leave  # of computing
        what = f"called bsp.begin() at {begun.line}"
        try:
            if self._virtual:
                charge = self._charge(enter)
                seconds = charge.seconds
                arrival = begun.complete(charge)
            else:
                arrival = begun.complete(charge=_COUNTS, grace=grace)
            self._take(arrival, SYNC, what, enter, begun.counts, begun.tickets, seconds)
        except BaseException as error:
            self._leave(error)
            raise

    def _end_superstep(self, kind: int, note: Any, what: str) -> Sequence[Any] | None:
        """End the superstep by an exchange of that kind; returns what each processor said to all."""
        try:
            enter = _clock()
            charge = self._charge(enter) if self._virtual else _COUNTS
            # 1. What the program left in the pools.
            parcels, counts, flags, note, tickets = self._prepare(note)
            # 2. The exchange. Its errors leave the pools empty and deliver nothing. What arrived last is given up
            #    first, so that its memory can be received into again.
            if self._filled or self._checked:
                self._forget()
            self.inbox = _EMPTY
            arrival = self._route(kind | flags, note, parcels, charge)
            seconds = charge.seconds if self._virtual else enter - self._left
            return self._take(arrival, kind, what, enter, counts, tickets, seconds)
        except BaseException as error:
            self._leave(error)
            raise

    def _leave(self, error: BaseException) -> None:
        """An exception leaves a superstep's end: unless all know of it, what was under way there is lost to all."""
        settled = self._transport.settled
        if settled is None:
            if self._failed is None:
                self._transport.revoke(error)
        elif self._failed is None:
            self._break(settled)

    def _charge(self, enter: float) -> Charge:
        """On virtual processors: what the superstep's computing has taken."""
        computed = enter - self._left if self._measure else self._work / self.machine.r
        charge = Charge(self._part_seconds + computed, counts=True)
        self._part_seconds = 0.0
        self._before = self._transport.time()
        return charge

    def _prepare(self, note: Any) -> tuple[dict[int, Parcel], tuple[int, int, int], int, Any, dict[int, list[Ticket]]]:
        """Parcels from the pools, what they count, flags of the kind, the whole note, and the tickets of gets."""
        parcels, counts, flags = _NONE, _NOTHING, 0
        tickets = self._tickets
        if self._outgoing or self._outgoing_pools or self._puts or self._gets:
            parcels = self._pack()
            counts = _count(parcels.items(), self.pid)
            if self._gets:
                flags = FLAG_GETS
                self._gets, self._tickets = {}, {}
        if self._declared or self._checked:
            note = (note, self._declared or None, (self._label, where()) if self._checked else None)
        elif note is not None:
            note = (note, None, None)
        return parcels, counts, flags, note, tickets

    def _take(
        self,
        arrival: Arrival,
        kind: int,
        what: str,
        enter: float,
        sent: tuple[int, int, int] = _NOTHING,
        tickets: dict[int, list[Ticket]] = _NO_TICKETS,
        seconds: float | None = None,
    ) -> Sequence[Any] | None:
        """What an exchange brought: agreement, replies, deliveries, and the ledger's row."""
        words_out, messages_out, items_out = sent
        words_in = messages_in = items_in = 0
        notes: Sequence[Any] | None = None
        getting = False
        if arrival.kinds is not None:
            notes = self._settle(arrival, kind, what)
            getting = any(word & ~KIND for word in arrival.kinds)
        # 3. What arrived.
        arrived = arrival.parcels
        if getting:
            counts = self._answer(arrived, tickets)
            words_out, messages_out = words_out + counts[0], messages_out + counts[1]
            words_in, messages_in = counts[2:]
        if arrived:
            words, messages, items_in = self._deliver(arrival)
            words_in, messages_in = words_in + words, messages_in + messages
        if self._leaving:
            for made in self._leaving:
                if isinstance(made, Queue):
                    self._unused.append(made._stream - JOINED)
                    self._filled.append(made._leave())  # what arrived for it goes with the next sync
                else:
                    del self._arrays[made._number]
            self._leaving = []
        # 4. The ledger.
        leave = _clock()
        measured = self._transport.time() - self._before if self._virtual else leave - self._left
        if seconds is None:
            seconds = enter - self._left
        self._log.note(
            label=self._label_number,
            work=self._work,
            seconds=seconds,
            measured=measured,
            words_out=words_out,
            words_in=words_in,
            messages_out=messages_out,
            messages_in=messages_in,
            items_out=items_out,
            items_in=items_in,
        )
        self._work = 0.0
        self._left = leave
        self._brief = self._plain and not (self._filled or self._leaving)
        return notes

    def _pack(self) -> dict[int, Parcel]:
        parcels = self._mail.pack()[0] if self._outgoing else {}
        if self._outgoing_pools:
            for queue in self._outgoing_pools:
                queue.pack(parcels)
            self._outgoing_pools = {}
        if self._puts:
            arrays.pack(self._puts, PUTS, parcels)
            self._puts = {}
        if self._gets:
            arrays.pack(self._gets, GETS, parcels)
        return parcels

    def _settle(self, arrival: Arrival, kind: int, what: str, line: str = "") -> Sequence[Any] | None:
        """Check that all did the same, and registered the same; registrations take effect. Returns what each said."""
        try:
            notes = agreement.settle(self._route, arrival, kind, what, self._superstep, self._label, line)
            if notes is None:
                return None
            said = agreement.look_through(notes, self._superstep)
        except BSPError as error:
            self._break(error)
            raise
        if said.shapes is not None:
            self._register(said.shapes)
        own: Sequence[Any] = said.own
        return own

    def _register(self, shapes: list[list[tuple[int, ...]]]) -> None:
        for array, of_all in zip(self._new, shapes, strict=True):
            array._shapes = of_all
            self._arrays[array._number] = array
        # A put or get after free in the same superstep is legal, so the array goes after this sync's delivery.
        self._leaving = self._freed
        self._new, self._freed, self._declared = [], [], []

    def _answer(
        self, arrived: Sequence[tuple[int, Parcel]], tickets: dict[int, list[Ticket]]
    ) -> tuple[int, int, int, int]:
        """Answer the gets, and fill this processor's tickets: the second exchange of a superstep with gets."""
        requests = [(source, parcel[GETS]) for source, parcel in arrived if GETS in parcel]
        parcels = arrays.replies(self._arrays, requests, self._pool)
        arrival = self._route(REPLY, None, parcels, Charge(0.0, counts=True))
        if arrival.kinds is not None:
            self._settle(arrival, REPLY, "answered gets")
        for source, parcel in arrival.parcels:
            arrays.fill(tickets[source], parcel[REPLIES])
        if self._checked:
            self._fresh = list(arrival.parcels)
        return (*_count(parcels.items(), self.pid)[:2], *_count(arrival.parcels, self.pid)[:2])

    def _deliver(self, arrival: Arrival) -> tuple[int, int, int]:
        """Hand what arrived to the inbox, the arrays and the queues; returns what it counts, as `_count`."""
        if len(arrival[2]) == 1 and self._plain:
            ((source, parcel),) = arrival[2]
            if len(parcel) == 1 and MAIL in parcel and source != self.pid:  # what follows does the same, in more time
                segment = parcel[MAIL]
                self.inbox = Inbox([(source, segment)])
                return segment[1], segment[2], 0
        mail: list[tuple[int, Segment]] = []
        queued: dict[int, list[tuple[int, Segment]]] | None = None
        words = messages = items = 0
        own = self.pid
        for source, parcel in arrival[2]:
            for stream, segment in parcel.items():
                if stream == MAIL:
                    mail.append((source, segment))
                elif stream == PUTS:
                    arrays.write(self._arrays, segment)
                elif stream >= JOINED:
                    if queued is None:
                        queued = {}
                    queued.setdefault(stream, []).append((source, segment))
                    if source != own:
                        messages += 1 - segment[2]
                        items += segment[2]
                if source != own:
                    words += segment[1]
                    messages += segment[2]
        if mail:
            self.inbox = Inbox(mail)
        if queued is not None:
            for stream, segments in queued.items():
                queue = self._queues[stream - JOINED]
                queue.deliver(segments, arrival.joined.get(stream))
                self._filled.append(queue)
                self._brief = False
        if self._checked:
            self._fresh = [*self._fresh, *arrival.parcels]
        return words, messages, items

    def _forget(self) -> None:
        """What arrived with the last sync is no longer there; in checked mode, views that were kept are poisoned."""
        for queue in self._filled:
            queue._clear()
        self._filled = []
        if self._checked:
            for _, parcel in self._fresh:
                for segment in parcel.values():
                    if segment.data is not None and segment.data.size:
                        segment.data.fill(POISON)
            self._fresh = ()

    def _move(self) -> None:
        """The memory in which data arrived goes: what arrived last moves out of it."""
        self.inbox = self.inbox.copied() if len(self.inbox) else _EMPTY
        for queue in self._filled:
            queue.move()
        self._fresh = ()

    def superstep(self, label: str) -> _Labelled:
        """A labelled superstep: syncs when the block ends normally. Syncs inside the block carry the label too.

        Collective, with the same label on all processors (compared when checked).

        Raises:
            UsageError: a label that is no str; and what `sync` raises.

        Examples:
            >>> def main(bsp):
            ...     with bsp.superstep("sum"):
            ...         bsp.send(0, bsp.pid)
            ...     return bsp.ledger[0].label, len(bsp.inbox)
            >>> pybsp.simulate(main, p=3).results
            [('sum', 3), ('sum', 0), ('sum', 0)]
        """
        if not isinstance(label, str):
            raise UsageError(f"bsp.superstep: argument label: expected a str, got {type(label).__name__} {label!r}")
        return _Labelled(self, label)

    def _set_label(self, label: str) -> None:
        self._label = label
        labels = self._log.labels
        self._label_number = float(labels.setdefault(label, len(labels)))

    # -- parts ----------------------------------------------------------------------------------------------------

    def split(self, color: Any, key: Any = None) -> _Split:
        """A BSP machine of a subset of the processors, which synchronises independently: `with bsp.split(c) as part`.

        Collective, and itself a superstep with h = 0. While the block lasts, only the part is used.

        Args:
            color: processors with equal colors make one part; any hashable value. None: no part (`part` is None).
            key: orders the processors of a part, then pid; None: by pid.

        Raises:
            UsageError: something was sent since the last sync.
            SyncError: another processor did something else.

        Examples:
            >>> def main(bsp):
            ...     with bsp.split(color=bsp.pid % 2) as part:
            ...         part.send(0, bsp.pid)
            ...         part.sync()
            ...         return part.p, part.pid, [message.payload for message in part.inbox]
            >>> pybsp.simulate(main, p=5).results
            [(3, 0, [0, 2, 4]), (2, 0, [1, 3]), (3, 1, []), (2, 1, []), (3, 2, [])]
        """
        self._check_open("bsp.split")
        if self._leftover():
            raise UsageError(
                "bsp.split: split is a superstep of its own in which nothing is sent, but something was sent "
                "since the last sync; call bsp.sync() first"
            )
        try:
            hash(color)
        except TypeError:
            raise UsageError(
                f"bsp.split: argument color: expected a hashable value, got {type(color).__name__}"
            ) from None
        try:
            pickle.dumps((color, key), 5)
        except Exception as error:
            raise UsageError(
                f"bsp.split: arguments color and key: expected values that can be pickled, got {color!r:.60} and "
                f"{key!r:.60} ({error})"
            ) from None
        if color != color:
            raise UsageError(f"bsp.split: argument color: expected a value that equals itself, got {color!r}")
        return _Split(self, color, key)

    # -- costs ----------------------------------------------------------------------------------------------------

    def work(self, flops: float) -> None:
        """Charge work to this superstep, on this processor; others may charge other amounts.

        Args:
            flops: floating-point operations, at least 0.

        Raises:
            UsageError: no such number.

        Examples:
            >>> def main(bsp):
            ...     bsp.work(1000 * bsp.pid)
            ...     bsp.sync()
            >>> pybsp.simulate(main, p=3).ledger[0].work
            2000.0
        """
        if not isinstance(flops, (int, float, np.number)) or not flops >= 0:
            raise UsageError(f"bsp.work: argument flops: expected a number of at least 0, got {flops!r}")
        self._work += flops

    def time(self) -> float:
        """Seconds since the program began; virtual on virtual processors.

        Examples:
            >>> def main(bsp):
            ...     bsp.work(1e6)
            ...     return bsp.time()
            >>> machine = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)
            >>> pybsp.simulate(main, machine=machine).results
            [0.001, 0.001]
        """
        now = self._transport.time() - self._started
        if self._virtual:
            running = time.perf_counter() - self._left if self._measure else self._work / self.machine.r
            now += self._part_seconds + running
        return now

    @managed
    def expect(
        self,
        supersteps: int | None = None,
        h: int | None = None,
        messages: int | None = None,
        work: float | None = None,
    ) -> Iterator[None]:
        """Assert what the block costs at most on this processor, without talking to the others.

        Args:
            supersteps: syncs.
            h: words, the larger of sent and received in each superstep, summed.
            messages: likewise; what a queue sends to one processor is one.
            work: flop charged.

        Raises:
            CostError: it cost more; the text has both figures.

        Examples:
            >>> def main(bsp):
            ...     with bsp.expect(supersteps=1, h=2):
            ...         bsp.send((bsp.pid + 1) % bsp.p, [1.0, 2.0, 3.0])
            ...         bsp.sync()
            >>> try:
            ...     pybsp.simulate(main, p=2)
            ... except pybsp.CostError as error:
            ...     print(error)
            bsp.expect on processor 0: h: expected at most 2, counted 6
        """
        for name, most in (("supersteps", supersteps), ("h", h), ("messages", messages), ("work", work)):
            if most is not None and not (isinstance(most, (int, float, np.number)) and most >= 0):
                raise UsageError(f"bsp.expect: argument {name}: expected None or a number of at least 0, got {most!r}")
        work_before = self._work
        with self._log.counting() as counts:
            yield
            counts.update()
        counted = {
            "supersteps": (counts.supersteps, supersteps),
            "h": (counts.h, h),
            "messages": (counts.messages, messages),
            "work": (counts.work + self._work - work_before, work),
        }
        over = [
            f"{name}: expected at most {most}, counted {got}"
            for name, (got, most) in counted.items()
            if most is not None and got > most
        ]
        if over:
            raise CostError(f"bsp.expect on processor {self.pid}: " + "; ".join(over))

    @property
    def ledger(self) -> Ledger:
        """The records of all supersteps so far, combined over the processors. Collective, and no superstep.

        Examples:
            >>> def main(bsp):
            ...     bsp.send(0, np.zeros(100))
            ...     bsp.sync()
            ...     (record,) = bsp.ledger
            ...     return record.h, record.M
            >>> pybsp.simulate(main, p=4).results
            [(300, 300), (300, 300), (300, 300), (300, 300)]
        """
        self._check_open("bsp.ledger")
        self._exchange_ledger()
        return Ledger(self.machine, self._log, self._virtual)

    def _exchange_ledger(self, everybody: bool = True) -> None:
        """Combine what the log has new, in rounds of a bounded size: in each, processors combine a share of the rows.

        Args:
            everybody: whether all get what was combined, or processor 0 alone.
        """
        entered = time.perf_counter()
        log, first, what = self._log, self._log.combined, "asked for bsp.ledger"
        log.update_counts()
        while True:
            round_ = shares(first, len(log), self.p)
            last = round_[-1][1] if round_ else first
            said = (log.fresh_labels(last), None, None) if self.pid == 0 else None
            rows = {dest: _rows(log.table(*share)) for dest, share in enumerate(round_)}
            arrival = self._meet(LEDGER, said, rows)
            notes = self._settle(arrival, LEDGER, what)
            assert notes is not None
            log.names += notes[0]
            if not round_:
                break
            mine: dict[int, Parcel] = {}
            if self.pid < len(round_):
                combined = _rows(combine(_table(parcel) for _, parcel in arrival.parcels))
                mine = dict.fromkeys(range(self.p if everybody else 1), combined)
            arrival = self._meet(LEDGER, None, mine)
            self._settle(arrival, LEDGER, what)
            log.put(_table(parcel) for _, parcel in arrival.parcels)
            first = last
            if first == len(log):
                break
        self._left += time.perf_counter() - entered  # what the ledger takes is no part of what it measures

    # -- life cycle -----------------------------------------------------------------------------------------------

    @property
    def pending(self) -> str:
        """What was sent since the last sync, in words ("bsp.send, queue.send"); empty where nothing was.

        What is made of supersteps of its own, as the collectives are, asks this before it begins.

        Examples:
            >>> def main(bsp):
            ...     bsp.send(0, "text")
            ...     pending = bsp.pending
            ...     bsp.sync()
            ...     return pending, bsp.pending
            >>> pybsp.simulate(main, p=1).results
            [('bsp.send', '')]
        """
        return self._leftover()

    @property
    def _superstep(self) -> int:
        """The number of the superstep that goes on, from 0."""
        return len(self._log)

    def abort(self, message: str) -> NoReturn:
        """End the whole job now, from any processor, without a sync.

        Raises:
            AbortError: where there is no MPI job of several ranks to end.

        Examples:
            >>> def main(bsp):
            ...     if bsp.pid == 1:
            ...         bsp.abort("no more input")
            >>> try:
            ...     pybsp.simulate(main, p=2)
            ... except pybsp.AbortError as error:
            ...     print(error)
            pybsp: processor 1 aborted in superstep 0: no more input
        """
        text = f"pybsp: processor {self.pid} aborted in {describe(self._superstep, self._label)}: {message}"
        self._transport.abort(text)
        raise SystemExit(1)

    def _check_open(self, operation: str) -> None:
        if not self._limit:
            raise UsageError(f"{operation}: {self._closed}") from self._failed

    def _processor(self, operation: str, argument: str, pid: Any) -> int:
        """A processor's number that is no plain int in range: an integer of numpy, or an error."""
        if isinstance(pid, np.integer) and 0 <= pid < self._limit:
            return int(pid)
        raise self._refusal(operation, argument, pid)

    def _refusal(self, operation: str, argument: str, pid: Any) -> UsageError:
        """The error for a processor that there is none of, or for a machine that cannot be used now."""
        self._check_open(operation)
        return UsageError(f"{operation}: argument {argument}: expected a processor from 0 to {self.p - 1}, got {pid!r}")

    def _break(self, error: BSPError) -> None:
        """All processors know of this error: nothing more is exchanged."""
        if self._members:
            numbers = ", ".join(str(pid) for pid in self._members[:16]) + ", ..." * (len(self._members) > 16)
            error.args = (f"{error} (in a part made by bsp.split; its processors, from 0, are {numbers} of all)",)
        self._failed = error
        self._close(f"the run has failed: {error}")

    def _close(self, why: str) -> None:
        self._limit, self._closed, self._brief = 0, why, False

    def _leftover(self) -> str:
        """What was sent since the last sync, in words."""
        names = {
            "bsp.send": self._outgoing,
            "queue.send": self._outgoing_pools,
            "array.put": self._puts,
            "array.get": self._gets,
        }
        return ", ".join(name for name, pool in names.items() if pool)

    def _finish(self, line: str = "") -> None:
        """The program has ended here: meet the others, who must have ended too."""
        if self._failed is not None:
            raise self._failed  # a program that caught the error cannot go on without the others
        if self._begun is not None:
            line = self._begun.line
            self._complete(self._begun, _clock())
            raise UsageError(f"bsp.begin: called at {line}, and never ended; call bsp.end() before the program ends")
        left = self._leftover()
        if left:
            raise UsageError(
                f"{left}: something was sent in {describe(self._superstep, self._label)}, after the last sync, "
                "and would never arrive; call bsp.sync() before the program ends"
            )
        self._settle(self._meet(END, None, {}), END, "ended", line)
        what = "part" if self._members else "run"
        self._close(f"the {what} has ended; nothing can be sent or synced after it")

    def _report_failure(self, error: BaseException) -> Arrival | None:
        """Tell the others that this processor failed; returns what all were doing, and said.

        None where there is another error, which all know of: nobody is met after it.

        Raises:
            TimeoutError: they did not come within the grace period.
        """
        failure = agreement.failure_of(error, self._superstep, agreement.label_of(error, self._label))
        grace = None if self._virtual else grace_period()
        if self._begun is not None:
            with suppress(BSPError):  # the others see this failure next
                self._complete(self._begun, _clock(), grace)
        if self._failed is not None:
            return None
        if (error.__context__ is not None or self._part is not None) and not self._virtual:
            # It came while another was handled, perhaps while an exchange was left: on a full stack, or by a handler of
            # a signal; or on the way in or out of a part, which others are in. Nobody knows then where this one was.
            self._transport.revoke(error)
        try:
            # Of what is revoked the transport tells all, where no router can.
            route = self._transport.exchange if self._transport.revoked else self._route
            arrival = route(FAIL, failure, {}, grace=grace)
        except BaseException as other:
            self._leave(other)
            if self._transport.settled is not None:
                return None
            raise
        self._close("the run has failed")
        return arrival

    def _meet(self, kind: int, note: Any, parcels: dict[int, Parcel]) -> Arrival:
        """An exchange beside supersteps."""
        try:
            return self._route(kind, note, parcels)
        except BaseException as error:
            self._leave(error)
            raise


class _Begun(NamedTuple):
    """A superstep between `bsp.begin` and `bsp.end`; `complete` waits for its exchange."""

    complete: Callable[..., Arrival]
    enter: float
    leave: float
    counts: tuple[int, int, int]
    tickets: dict[int, list[Ticket]]
    line: str


class _Labelled:
    """The context of `bsp.superstep`."""

    __slots__ = ("_bsp", "_label", "_outer")

    def __init__(self, bsp: BSP, label: str) -> None:
        self._bsp, self._label = bsp, label

    def __enter__(self) -> None:
        bsp = self._bsp
        if not bsp._limit:
            bsp._check_open("bsp.superstep")
        self._outer = bsp._label
        bsp._set_label(self._label)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        bsp = self._bsp
        try:
            if error is None:
                bsp.sync()
            else:
                agreement.note_label(error, self._label)
        except BaseException as late:
            agreement.note_label(late, self._label)
            raise
        finally:
            if bsp._failed is None:
                bsp._set_label(self._outer)


class _Split:
    """The context of `bsp.split`."""

    def __init__(self, parent: BSP, color: Any, key: Any) -> None:
        self._parent, self._color, self._key = parent, color, key
        self.part: BSP | None = None

    def __enter__(self) -> Any:
        parent = self._parent
        parent._check_open("bsp.split")
        label = parent._label
        parent._set_label(label or "split")
        mine = (self._color, self._key, parent._context)
        notes = parent._end_superstep(SPLIT, mine, "called bsp.split()")
        try:
            parent._set_label(label)
            assert notes is not None
            return None if self._color is None else self._open(notes)
        except BaseException as error:
            # Others may be in the part already, where nobody would tell them.
            parent._leave(error)
            raise

    def _open(self, notes: Sequence[Any]) -> BSP:
        parent = self._parent
        members = agreement.parts(notes)[self._color]
        context = 1 + max(note[2] for note in notes)
        machine = parent._machines.get(len(members))
        if machine is None:  # to check its parameters takes a sixth of a split
            machine = parent._machines[len(members)] = dataclasses.replace(parent.machine, p=len(members))
        transport = parent._transport.subset(members, context)
        self.part = BSP(
            transport,
            parent._router.part(transport, members),
            machine,
            parent._checked,
            parent._virtual,
            parent._measure,
            context,
        )
        self.part._members = [parent._members[m] if parent._members else m for m in members]
        self._parent_computed = time.perf_counter() - parent._left
        parent._part = self.part
        parent._close("a part made by bsp.split is in use; leave its with block first")
        return self.part

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        part, parent = self.part, self._parent
        if part is None:
            return
        try:
            self._close(part, error)
        except BaseException as late:
            if part._failed is None and not isinstance(late, UsageError):
                parent._leave(late)
            raise

    def _close(self, part: BSP, error: BaseException | None) -> None:
        parent = self._parent
        usable = True
        spent = part.time()  # before others are waited for
        try:
            if isinstance(error, KeyboardInterrupt) or _killed(error) or not process.takes_part():
                usable = False
            elif error is None:
                try:
                    part._finish()
                except UsageError as late:
                    usable = self._tell(part, late)
                    raise
            elif part._failed is None:
                usable = self._tell(part, error)
        finally:
            parent._part = None
            if parent._failed is None:
                parent._limit, parent._closed = parent.p, ""
            if parent._virtual:
                parent._part_seconds += spent
                parent._left = time.perf_counter() - self._parent_computed
            if usable and not part._transport.revoked:
                part._router.close()
                part._transport.free()

    def _tell(self, part: BSP, error: BaseException) -> bool:
        """Tell the part of a failure; whether the part could be told. All processors are told next."""
        if part._transport.revoked:
            return False
        try:
            part._report_failure(error)
        except TimeoutError:
            return False
        return True


def _killed(error: BaseException | None) -> bool:
    """Whether the virtual machine is being taken down around this processor."""
    return isinstance(error, GreenletExit)


def _rows(table: NDArray[np.float64]) -> Parcel:
    """Rows of a log as what is sent: plain data, which counts nothing."""
    return {REPLIES: Segment(None, 0, 0, table.reshape(-1).view(np.uint8))}


def _table(parcel: Parcel) -> NDArray[np.float64]:
    data = parcel[REPLIES].data
    assert data is not None
    return data.view(np.float64).reshape(-1, COLUMNS)


def checks_wanted(checked: bool | None) -> bool:
    """Whether to check what is too dear for every superstep: the argument, else PYBSP_CHECKED."""
    return settings.text(settings.CHECKED) != "0" if checked is None else checked


def grace_period() -> float:
    """Seconds that a failing processor waits for the others before it ends the job."""
    text = settings.text(settings.GRACE)
    try:
        grace = float(text)
    except ValueError:
        grace = -1.0
    if not grace >= 0:
        raise UsageError(f"PYBSP_GRACE: expected seconds, a number of at least 0, got {text!r}")
    return grace


def _count(parcels: Any, pid: int) -> tuple[int, int, int]:
    """Words, messages and items of queues, without what a processor sends to itself: that crosses no network."""
    words = messages = items = 0
    for other, parcel in parcels:
        if other != pid:
            for stream, segment in parcel.items():
                words += segment[1]
                if stream < JOINED:
                    messages += segment[2]
                else:  # what a queue sends to one processor travels as one message
                    messages += 1
                    items += segment[2]
    return words, messages, items


def _plain_dtype(operation: str, dtype: DTypeLike) -> np.dtype[Any]:
    try:
        made = np.dtype(dtype)
    except TypeError as error:
        raise UsageError(f"{operation}: argument dtype: expected a numpy dtype, got {dtype!r} ({error})") from None
    if made.hasobject:
        raise UsageError(
            f"{operation}: argument dtype: expected plain data, got {made}, whose items are Python objects; "
            "send objects with bsp.send"
        )
    return made
