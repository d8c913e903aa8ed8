"""What a processor's supersteps are made of: what goes out with the end of one, the exchange, what arrives, its cost.

Data goes one way:

    mail, participants (queues, puts and gets, registrations) -> router -> transport, and back at the sync

`BSP` checks what the user says and comes here with it. Arrays, queues, and whatever is to travel with the program's own
supersteps, talk to this, and not to `BSP`.

(`pybsp.Superstep`, in machines/cost.py, is what one superstep of an algorithm costs.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from ..arrays.accesses import READ_THERE, Accesses
from ..arrays.array import Array
from ..arrays.global_array import GlobalArray
from ..arrays.pattern import Patterns
from ..errors import BSPError, UsageError, describe, where
from ..ground.chunk import Counted, clock
from ..ground.convert import few
from ..ground.failures import Failure, came_in_an_exchange, failure_of, label_of, note_label
from ..ground.settings import GRACE, seconds
from ..layouts import Layout
from ..ledger.account import COUNTS, NOTHING, Account
from ..messages.agreement import Agreement, doing, flags_of
from ..messages.mail import SHORT, Inbox, Mail, arrays_of
from ..messages.poison import poison
from ..parts.living import Contexts, LivingParts
from ..rides.ride import Rides, refuse_under_way
from ..rides.shown import ELSEWHERE, AsShown, Shown
from ..transport import (
    END,
    FLAG_COMPARE,
    FLAG_GETS,
    FLAG_MEET,
    FLAG_MORE,
    GETS,
    INDICES,
    JOINED,
    LETTERS,
    MAIL,
    NOTES,
    PUTS,
    READS,
    REPLIES,
    REPLY,
    RIDES,
    SYNC,
    Arrival,
    Bytes,
    Charge,
    Parcel,
    Section,
    Transport,
    new_tuple,
)
from ..transport.delivery import NOT_JOINED
from ..transport.media.near import Near
from ..transport.router import Direct, Router
from ..transport.wire import (
    AREA,
    ITEMS,
    LAID_MOST,
    lay_beside,
    packed_section,
    parcels_of,
    reads_alone,
    sections_by_stream,
)
from ..transport.wire import source as source_of
from ..ways import AGREED, BY_COLLECTIVE, BY_GET, BY_MAIL, BY_NOTE, BY_PATTERN, BY_PUT, BY_QUEUE, MAKING
from .gate import Gate
from .participant import Participant, Saving, Texts
from .queues import Queue
from .registrations import Registrations

if TYPE_CHECKING:
    from ..groups.rides import GroupRides
    from ..ledger.trace import Tracer

_NONE: dict[int, Parcel] = {}
_NOTHING_OWN: Parcel = {}
_OF_NOTHING = ("empty", "zero-size", "size 0", "not enough values", "(0,")  # in errors about what has no items
_LABEL = Participant()  # of a superstep with a label of its own, which its end takes off
_SYNCED = "called bsp.sync()"
_REPLIES = Charge(0.0, counts=True)
_SENDING = (
    "bsp.send",
    "queue.send",
    "array.put",
    "array.get",
    "pattern.put",
    "pattern.get",
)  # in this order errors list them
_WAYS = {  # of streams that are no queue's and no pattern's
    MAIL: BY_MAIL,
    PUTS: BY_PUT,
    GETS: BY_GET,
    READS: BY_GET,
    REPLIES: BY_GET,
    LETTERS: BY_COLLECTIVE,
    NOTES: BY_NOTE,
    INDICES: MAKING,
}


class _Begun(NamedTuple):
    """A superstep between `begin` and `complete`.

    complete: waits for its exchange.
    enter, leave: when this processor entered and left the beginning of that.
    sent: what it counts.
    line: where `begin` was called.
    """

    complete: Callable[..., Arrival]
    enter: float
    leave: float
    sent: Counted
    line: str


class SuperstepEngine:
    """The superstep that goes on on one processor, from the first one of a machine to the last.

    Args:
        transport, router: of the machine.
        account: where its cost is noted.
        checked: whether to check what is too dear for every superstep.
        context: tells its transport apart from those of other parts with the same processors.
        members: of a part, which of all processors they are.

    Attributes:
        accesses: the puts and gets.
        gate: whether something may be called.
        mail: the messages that go out with its end.
        participants: what else has a part in its end; whatever has enters itself here. None is entered twice.
        patterns: of arrays.
        rides: functions that ride in its supersteps.
        shown: the way of short records; None where there is none.
        as_shown: on virtual processors, what ranks would note of it; None where they would have no such way.
        saver: of checkpoints; None where there are none.
        tracer: keeps what a trace is made of; None where none is asked for.
        flags: that the next end of a superstep tells the others.
        inbox: the messages that arrived with the last one.
        part: that of the part that is in use.
        parts: of this machine, that there are.
        contexts: of this processor's transports, of whatever machine; one set for all of them.
        group_rides: what is called on groups; None before there is one.
    """

    __slots__ = (
        "_begun",
        "_empty",
        "_fast",
        "_fresh",
        "_labelled",
        "_letters",
        "_meet",
        "_near",
        "_noted",
        "_outgoing",
        "_puts",
        "_root",
        "accesses",
        "account",
        "agreement",
        "as_shown",
        "checked",
        "context",
        "contexts",
        "flags",
        "gate",
        "group_rides",
        "inbox",
        "mail",
        "p",
        "part",
        "participants",
        "parts",
        "patterns",
        "pid",
        "pool",
        "registrations",
        "rides",
        "route",
        "router",
        "saver",
        "shown",
        "tracer",
        "transport",
    )

    def __init__(
        self,
        transport: Transport,
        router: Router,
        account: Account,
        checked: bool,
        context: int = 0,
        members: Sequence[int] = (),
    ) -> None:
        self.p, self.pid, self.pool = transport.p, transport.pid, transport.pool
        self.transport, self.router, self.route = transport, router, router.route
        self.account, self.checked, self.context = account, checked, context
        self.gate = Gate(self.p, "part" if members else "run")
        self.agreement = Agreement(transport, router.route, self.gate, account, members)
        # When checked no array lies in a record: views of those could not be poisoned.
        self.mail = Mail(self.pool, short=-1 if checked else SHORT, packs=not checked)
        self._outgoing = self.mail.outgoing
        self.participants: dict[Participant, None] = {}
        self.registrations = Registrations()
        self.accesses = Accesses(self.pool, self.registrations.arrays, self.pid)
        self._puts = self.accesses.puts
        self.patterns = Patterns(self)
        self.rides = Rides(self)
        self.agreement.called = self.rides.called
        self._labelled = False  # whether the superstep that ends has a label of its own, which is still to be taken off
        self._letters: list[tuple[int, Section]] = []  # for the rides
        self._noted: dict[int, Any] = {}
        self.shown = Shown.of(self)
        self.as_shown: AsShown | None = None
        self.inbox = self._empty = Inbox((), self._outgoing)
        # When checked: what arrived last, to be poisoned, and the arrays of it whose dtype is known.
        self._fresh: list[tuple[Bytes, Sequence[NDArray[Any]]]] = []
        self._begun: _Begun | None = None
        self.part: SuperstepEngine | None = None
        self.saver: Saving | None = None
        self.tracer: Tracer | None = None
        self.flags = 0
        self.parts = LivingParts()
        self.contexts = Contexts(context)
        self._root: SuperstepEngine | None = None
        self.group_rides: GroupRides | None = None
        self._fast = not (checked or account.virtual)
        # What ends an empty superstep, and what exchanges packed mail alone, in fewer steps; None where nothing does.
        near = transport if isinstance(transport, Near) and isinstance(router, Direct) else None
        self._meet = None if near is None else near.meet
        self._near = near if self.mail.pack_payload is not None else None

    # -- what goes out ------------------------------------------------------------------------------------------------

    def accessing(self) -> Accesses:
        """The gets, one of which is about to be added."""
        self.participants[self.accesses] = None
        return self.accesses

    def registering(self) -> Registrations:
        """The arrays and queues, one of which is about to be made or freed."""
        self.participants[self.registrations] = None
        return self.registrations

    def array(self, local: NDArray[Any], layout: Layout | None = None, place: int = ELSEWHERE) -> Array:
        """Register an array, perhaps of a layout; all processors alike.

        Args:
            place: where its memory lies in this processor's part of shared memory.
        """
        registrations, line = self.registering(), where()
        number = registrations.next_array()
        array = Array(self, number, local, line) if layout is None else GlobalArray(self, number, local, line, layout)
        registrations.add_array(array, place, line)
        return array

    def new_array(self, local: NDArray[Any], layout: Layout | None = None) -> Array:
        """Register an array of zeros that nobody has yet: where others can read it there, it lies in shared memory."""
        place = ELSEWHERE
        if self.shown is not None and 0 < local.nbytes <= READ_THERE:
            place, memory = self.shown.memory(local.nbytes)
            if place != ELSEWHERE:
                np.ndarray(local.nbytes, np.uint8, memory)[:] = 0  # not every dtype has a 0
                local = np.ndarray(local.shape, local.dtype, memory)
        return self.array(local, layout, place)

    def queue(self, dtype: np.dtype[Any]) -> Queue:
        """Make a queue; all processors alike."""
        registrations, line = self.registering(), where()
        queue = Queue(self, registrations.next_queue(), dtype, line)
        registrations.add_queue(queue, line)
        return queue

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """What pickle asks for: of all that a program has of its machine, as each refers to this."""
        raise TypeError(
            "a copy of bsp: there is none, nor of its groups, grids and parts, which are of this processor alone; send "
            "or return what the program has computed"
        )

    def pending(self) -> str:
        """What was sent since the last sync, in words; empty where nothing was."""
        names = ["bsp.send"] * bool(self._outgoing) + [*self.accesses.sent()]
        for one in self.participants:
            names += one.sent()
        return ", ".join(name for name in _SENDING if name in names)

    def label(self, label: str) -> None:
        """Label the superstep that goes on, and none after it."""
        self.account.label_this(label)
        self.participants[_LABEL] = None

    # -- its end ------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """`BSP.sync`."""
        # The fast path is that of a processor which says nothing, or sends messages and puts alone. Nothing but this
        # line decides: whatever else has a part in the end of the superstep is among the participants. What came by a
        # queue is too, until it is forgotten. Where participants have little to send there is a shorter way than `end`.
        if self.participants or not self._fast or not self.gate.limit:
            if self.rides.starting is not None:
                raise UsageError(
                    f"bsp.sync: called within {self.rides.starting.name}, which rides: its function ends a superstep "
                    "by each `yield`, and an operator ends none"
                )
            if _LABEL in self.participants and self.gate.limit:
                self._sync_labelled()
                return
            near = self._near
            if near is not None and self.gate.limit and self._sync_laid(near):
                return
            self.gate.check("bsp.sync")
            self.end(SYNC, None, _SYNCED)
            self.rode()
            if self.rides.riding or self._letters or self._noted:
                self._go_on()
            return
        # Time counts here: it is what an empty superstep takes. To pack is computing: the exchange begins after it.
        try:
            self.inbox = self._empty
            log, sent = self.account.log, NOTHING
            if self._outgoing or self._puts:
                near, exchanged = self._near, None
                if near is not None and self.tracer is None:
                    if not self._puts:
                        if self.mail.packed or self.mail.write():
                            if self.pid in self._outgoing:
                                exchanged = self._exchange_beside_own(near)
                            else:
                                exchanged = near.exchange_mail(SYNC, self._outgoing, log)
                        elif (laid := self.mail.lend(self.pid)) is not None:
                            exchanged = near.exchange_mail(SYNC, laid[0], log, laid[1])
                            assert exchanged is not None  # there is room
                    elif not self._outgoing and (texts := self.accesses.lay_puts()):
                        self._puts.clear()
                        log.entered = clock()
                        exchanged = near.exchange_mail(SYNC, texts)
                        assert exchanged is not None  # there is room
                        (words, messages, _, _), found = exchanged
                        sent = words, messages, 0, BY_PUT
                        if not isinstance(found, Arrival):
                            got = self.accesses.write_plain(found) or self._deliver_plain(found, _NOTHING_OWN)
                            if got is not None:
                                log.note_own(0.0, log.entered, self.patterns.since() or clock(), sent, got)
                                if self._noted:
                                    self._go_on()  # nothing rides here: it says so
                                return
                        exchanged = sent, arrival_of(found)
                if exchanged is not None:
                    sent, came = exchanged
                    if not isinstance(came, Arrival):  # mail alone, or nothing: it is noted
                        if came:
                            self.inbox = Inbox(came, self._outgoing)
                        return
                    arrival = came
                else:
                    parcels, sent = self.mail.pack(self.pid)
                    if self._puts:
                        sent = self.accesses.pack_puts(parcels, sent)
                    if self.tracer is not None:
                        self.tracer.count(parcels)
                    log.entered = clock()
                    arrival = self.route(SYNC, None, parcels, COUNTS)
            elif self._meet is not None:
                quiet = self._meet(SYNC, log)
                if quiet is None:
                    return  # it is noted
                arrival = quiet
            else:
                log.entered = clock()
                arrival = self.route(SYNC, None, _NONE, COUNTS)
            if arrival[0] is not None:
                self._take(arrival, SYNC, _SYNCED, log.entered - log.left, sent)
            else:
                got = self._deliver(arrival) if arrival[2] else NOTHING
                log.note_own(0.0, log.entered, self.patterns.since() or clock(), sent, got)
            if self._letters or self._noted:
                self._go_on()  # nothing rides here: it says so
        except BaseException as error:
            self.agreement.leave(error)
            raise

    def _sync_labelled(self) -> None:
        """`sync` of a superstep with a label of its own, which is no reason for a longer way."""
        number = self.account.superstep
        del self.participants[_LABEL]
        self._labelled = True
        try:
            self.sync()
        finally:
            if self.account.superstep == number:  # it has not ended
                self._labelled = False
                self.participants[_LABEL] = None
            self._end_label()

    def _end_label(self) -> None:
        """The superstep has ended, and its label with it; before what rides goes on, which may give the next one."""
        if self._labelled:
            self._labelled = False
            self.account.label_this(self.account.lasting)

    def _exchange_beside_own(self, near: Near) -> tuple[Counted, Arrival | tuple[tuple[int, Section], ...]] | None:
        """`Near.exchange_mail` of packed mail, some of which is for this processor itself: that is handed over."""
        own = self._outgoing.pop(self.pid)
        assert isinstance(own, bytearray)
        exchanged = near.exchange_mail(SYNC, self._outgoing, self.account.log)
        if exchanged is None:
            self._outgoing[self.pid] = own
            return None
        counts, came = exchanged
        section = packed_section(own)
        if isinstance(came, Arrival):
            return counts, _beside(came, self.pid, {MAIL: section})
        return counts, tuple(sorted([*came, (self.pid, section)], key=source_of))

    def _lay(self, riding: bool) -> tuple[Texts, Parcel, int, int] | None:
        """What goes out where others than mail and puts have a part in the end of the superstep, and little goes out.

        Args:
            riding: whether something rides.

        Returns:
            Texts for others, by destination; what is for this processor itself; items of queues; and ways. None where
            it cannot be. Nothing has gone yet, in either case.
        """
        outgoing, puts, rides = self._outgoing, self._puts, self.rides
        if self.tracer is not None or (riding and (rides.mail.outgoing or self.group_rides is not None)):
            return None
        texts: Texts = {}
        own: Parcel = {}
        items = ways = 0
        if outgoing:
            if not (self.mail.packed or self.mail.write()):
                return None
            texts = {dest: out for dest, out in outgoing.items() if isinstance(out, bytearray)}  # all of them are
            if self.pid in texts:
                own[MAIL] = packed_section(texts.pop(self.pid))
            ways = BY_MAIL
        if puts:
            laid = self.accesses.lay_puts()
            if not laid:
                return None
            lay_beside(texts, laid)
            ways |= BY_PUT
        for one in self.participants:
            if one is not rides:
                laid = {} if texts else texts
                found = one.lay(laid, own)
                if found is None:
                    return None
                if laid is not texts:
                    lay_beside(texts, laid)
                items, ways = items + found[0], ways | found[1]
        if riding:
            ways |= rides.notes.lay(texts)  # beside what is there
        # Packed mail for one processor may be more than there is room for.
        if len(texts) > ITEMS or sum(map(len, texts.values())) > (LAID_MOST if riding or len(texts) > 1 else AREA):
            return None
        return texts, own, items, ways

    def _sync_laid(self, near: Near) -> bool:
        """`sync` in fewer steps, of what `_lay` finds.

        Returns:
            Whether it found something; where it did not, nothing was done.
        """
        riding = self.rides in self.participants
        laid = self._lay(riding)
        if laid is None:
            return False
        texts, own, items, ways = laid
        try:
            for one in self.participants:
                one.laid()
            self.participants.clear()
            self._outgoing.clear()
            self._puts.clear()
            self.inbox = self._empty
            reads = bool(self.accesses.there)
            kind = SYNC | FLAG_GETS if reads else SYNC
            log, enter = self.account.log, clock()
            counts: Counted = NOTHING
            read = NOTHING
            sections: tuple[tuple[int, Section], ...] = ()
            got = arrival = None
            if texts or riding:  # what rides is waited for: as a rule something comes
                exchanged = near.exchange_mail(kind, texts)
                assert exchanged is not None  # there is room
                counts, came = exchanged
                if not isinstance(came, Arrival):
                    sections = came
                    if not reads:
                        got = self._deliver_plain(came, own)
                    elif not (own or riding) and (by_others := reads_alone(came)) is not None:
                        read, got = self._reply(_NONE, by_others), NOTHING
                if got is None:
                    arrival = _beside(arrival_of(came, self._noted), self.pid, own)
            elif self._meet is not None and not (own or ways or reads or self.patterns.awaited):
                arrival = self._meet(SYNC, log)  # what arrived before is forgotten, and no more
                if arrival is None:
                    return True  # it is noted
            else:
                arrival = _beside(self.route(kind, None, _NONE, COUNTS), self.pid, own)
            sent = counts[0], counts[1], items, ways
            if arrival is not None and arrival[0] is not None:
                self._take(arrival, SYNC, _SYNCED, enter - log.left, sent)
            else:
                if arrival is not None:
                    # Where this processor reads what others have, so do all others, without a word beside it.
                    if reads:
                        read = self._answer(arrival[2])
                    got = self._deliver(arrival) if arrival[2] else NOTHING
                    if sections and self._noted:  # they count too, beside what was delivered
                        got = sum(one[1] for _, one in sections), sum(one[2] for _, one in sections), got[2], 0
                assert got is not None
                if self.patterns.awaited:
                    self.patterns.complete()
                if reads:
                    sent = sent[0] + read[0], sent[1] + read[1], items, ways
                    got = got[0] + read[2], got[1] + read[3], got[2], 0
                log.note_own(0.0, enter, self.patterns.since() or clock(), sent, got)
        except BaseException as error:
            self.agreement.leave(error)
            raise
        if riding:
            self.rode()
        if riding or self._letters or self._noted:
            self._go_on()
        return True

    def sync_own(self, name: str) -> None:
        """`BSP.own_superstep`."""
        if self.tracer is not None:
            self.tracer.called(name)
        account = self.account
        label = account.label
        if not label:
            account.label_this(name)
        try:
            self.sync()
        except BaseException as error:
            note_label(error, account.label)
            raise
        # It ends no superstep of the program's: the label stays, for that alone where it did before.
        if label is account.lasting:
            account.label_this(label)
        else:
            self.label(label)

    def sync_rides(self, name: str, more: bool | None = None) -> bool:
        """End a superstep of what rides alone, labelled with that name where the program has no label.

        What the program has sent goes out with its own next sync, and what arrived for it stays until then. What it
        registered takes effect; what it freed goes with its own sync, which may still bring something for it.

        Args:
            more: whether what it is for goes on after it, where that was called on groups: processors may have called
                different functions there. None: it was not.

        Returns:
            Whether what was called on some group goes on after it.
        """
        self.gate.check(name)
        if self.tracer is not None:
            self.tracer.called(name)
        account = self.account
        try:
            parcels, sent = self.pack_rides()
            note, declared = None, self.registrations.declared
            if declared or self.checked:
                # Labels of the program: names of what is called are compared with its arguments (rides/ride.py).
                note = (None, declared or None, (account.label, where()) if self.checked else None)
                sent = _agreed(sent)
            flags = self.flags | (FLAG_MORE if more else 0)
            enter = clock()
            charge = account.charge(enter)
            if more is False and self.shown is not None and note is None and not (parcels or flags):
                arrival = self.shown.quiet()
            else:
                arrival = self.route(RIDES | flags, note, parcels, charge)
            seconds = charge.seconds if account.virtual else enter - account.log.left
        except BaseException as error:
            note_label(error, account.label or name)
            self.agreement.leave(error)
            raise
        return self.take_rides(name, arrival, seconds, sent)

    def sync_ride(self, name: str) -> bool:
        """`sync_rides` for the only one that rides, which is on the machine: in most plain calls, and in less time."""
        rides, account = self.rides, self.account
        if (
            self.shown is None
            or self.registrations.declared
            or self.group_rides is not None
            or self.tracer is not None
            or self.flags
            or rides.notes.pending()
            or not self.gate.limit
        ):
            return self.sync_rides(name)
        try:
            parcels, sent = rides.mail.pack(self.pid)
            enter = clock()
            arrival = self.route(RIDES, None, parcels, COUNTS)
            got = rides.take_letters(arrival)
            if got is not None:
                account.log.note_own(self.shown.label(name), enter, clock(), sent, got)
        except BaseException as error:
            note_label(error, account.label or name)
            self.agreement.leave(error)
            raise
        if got is None:
            return self.take_rides(name, arrival, enter - account.log.left, sent)
        rides.words = {}
        rides.go_on()
        return False

    def pack_rides(self) -> tuple[dict[int, Parcel], Counted]:
        """Parcels of what rides, and what they count."""
        parcels: dict[int, Parcel] = {}
        self.rides.pack(parcels)
        if self.tracer is not None:
            self.tracer.count(parcels)
        counts = _count(parcels.items(), self.pid)
        return parcels, counts if self.as_shown is None else self.as_shown.counted(parcels, counts)

    def take_rides(
        self, name: str, arrival: Arrival, seconds: float, sent: Counted, got: Counted = NOTHING, differs: str = ""
    ) -> bool:
        """What an exchange brought that ends such a superstep; see `sync_rides`.

        Args:
            seconds: of computing before it.
            sent: what this processor sent.
            got: what it got that is not in the arrival.
            differs: a complaint, if another processor called something else.
        """
        account = self.account
        label = account.label
        if not label:
            account.label_this(name)
        try:
            alike = arrival.kinds is None or doing(arrival.kinds) == {RIDES}
            what = "" if alike else self.rides.going_on(name)
            self._take(arrival, RIDES, what, seconds, sent, got)
            if differs:
                self.agreement.differ(differs)
        except BaseException as error:
            note_label(error, account.label)
            self.agreement.leave(error)
            raise
        account.label_this(label)  # it ended no superstep of the program's
        self.rode(name)
        self._go_on()
        return arrival.kinds is not None and flags_of(arrival.kinds) & FLAG_MORE != 0

    def rode(self, own: str = "") -> None:
        """A superstep has ended, of the program or of what is called so: note what rode in it."""
        rides = self.rides
        if rides.words:
            # Where there are groups, something else may have ridden on other processors.
            if not own or self.group_rides is not None or any(ride.name != own for ride in rides.riding):
                self.account.log.rode(rides.words, own)
            rides.words = {}

    def _go_on(self) -> None:
        """What rides goes on, after the exchange: its work is the next superstep's."""
        self._end_label()
        letters, self._letters = self._letters, []
        noted, self._noted = self._noted, {}
        self.rides.deliver(letters, noted)

    def end(self, kind: int, note: Any, what: str) -> Sequence[Any] | None:
        """End the superstep by an exchange of that kind; returns what each processor said to all.

        Args:
            note: what this one says.
            what: it is doing, in words, for those that do something else.
        """
        account = self.account
        try:
            # 1. What the program left to go out.
            parcels, counts, flags, note = self._pack(note)
            # 2. What arrived last is given up, so that its memory can be received into again.
            if self.participants or self.checked:
                self._forget()
            self.inbox = self._empty
            # 3. The exchange. Its errors leave nothing to go out and deliver nothing.
            enter = clock()
            charge = account.charge(enter)
            arrival = self.route(kind | flags, note, parcels, charge)
            seconds = charge.seconds if account.virtual else enter - account.log.left
            return self._take(arrival, kind, what, seconds, counts)
        except BaseException as error:
            self.agreement.leave(error)
            raise

    def begin(self) -> None:
        """End the superstep's sending, without waiting; nothing may be called until `complete`."""
        try:
            parcels, counts, flags, note = self._pack(None)
            enter = clock()
            if isinstance(self.router, Direct) and not self.account.virtual:
                complete = self.transport.post(SYNC | flags, note, parcels)
            else:
                complete = partial(self.route, SYNC | flags, note, parcels)
            self._begun = _Begun(complete, enter, clock(), counts, where())
        except BaseException as error:
            self.agreement.leave(error)
            raise
        self.gate.close("bsp.begin() has ended the sending of this superstep; call bsp.end() first")

    def complete(self, grace: float | None = None) -> bool:
        """End what `begin` began, where something was; returns whether it was. `grace` is `Transport.exchange`'s."""
        begun, enter = self._begun, clock()
        if begun is None:
            return False
        account = self.account
        try:
            self._begun = None
            self.gate.open()
            self._forget()
            self.inbox = self._empty
            charge = account.charge(enter)
            away = begun.leave - begun.enter
            seconds = charge.seconds if account.virtual else enter - account.log.left - away
            arrival = begun.complete(charge=charge, grace=grace)
            self._take(arrival, SYNC, "called bsp.begin()", seconds, begun.sent, line=begun.line)
        except BaseException as error:
            self.agreement.leave(error)
            raise
        self.rode()
        if self.rides.riding or self._letters or self._noted:
            self._go_on()
        return True

    def _pack(self, note: Any) -> tuple[dict[int, Parcel], Counted, int, Any]:
        """Parcels of all that goes out, what they count, flags of the kind, and the whole note."""
        parcels, counts, flags = _NONE, NOTHING, self.flags
        declared = self.registrations.declared
        if self.rides.unheard:
            self.rides.unheard = False
            flags |= FLAG_COMPARE
        if self._outgoing or self._puts or self.participants:
            parcels = self.mail.pack()[0] if self._outgoing else {}
            if self._puts:
                self.accesses.pack_puts(parcels, NOTHING)
            for one in self.participants:
                one.pack(parcels)
            counts = _count(parcels.items(), self.pid)
            if self.tracer is not None:
                self.tracer.count(parcels)
            if self.accesses.asking:
                flags |= FLAG_GETS
                self.accesses.asking = False
        if declared or self.checked:
            note = (note, declared or None, (self.account.label, where()) if self.checked else None)
        elif note is not None:
            note = (note, None, None)
        return parcels, counts if note is None else _agreed(counts), flags, note

    def _forget(self) -> None:
        """What the participants got with the last sync is gone; when checked, all views that were kept are poisoned."""
        for one in self.participants:
            one.forget()
        self.participants.clear()
        if self.checked:
            for data, arrays in self._fresh:
                poison(data, arrays)
            self._fresh = []

    def _take(
        self,
        arrival: Arrival,
        kind: int,
        what: str,
        seconds: float,
        sent: Counted,
        got: Counted = NOTHING,
        line: str = "",
    ) -> Sequence[Any] | None:
        """What an exchange brought: agreement, replies, deliveries, and the ledger's row; what each processor said.

        Args:
            seconds: of computing before it.
            sent: what this processor's parcels counted.
            got: what came to it beside the arrival.
            line: at which it ended the superstep, where that is not the one that goes on.
        """
        words_out, messages_out, items_out, ways = sent
        words_in, messages_in, items_in, _ = got
        notes: Sequence[Any] | None = None
        getting = False
        if arrival.kinds is not None:
            notes = self.settle(arrival, kind, what, line)
            flags = flags_of(arrival.kinds)
            getting = flags & FLAG_GETS != 0
            if flags & FLAG_COMPARE and kind != RIDES:
                self.agreement.compare()
            if self.saver is not None and flags & FLAG_MEET:
                self.saver.heard()
        # 4. What arrived. What gets ask for is read before puts are written.
        arrived = arrival.parcels
        if getting:
            counts = self._answer(arrived)
            words_out, messages_out = words_out + counts[0], messages_out + counts[1]
            words_in, messages_in = words_in + counts[2], messages_in + counts[3]
        if arrived:
            words, messages, items_in, _ = self._deliver(arrival)
            words_in, messages_in = words_in + words, messages_in + messages
        if self.patterns.awaited:
            self.patterns.complete()
        if self.registrations.leaving and kind != RIDES:
            for queue in self.registrations.let_go():
                self.participants[queue] = None  # what arrived for it goes with the next sync
        # 5. The ledger.
        sent, got = (words_out, messages_out, items_out, ways), (words_in, messages_in, items_in, 0)
        self.account.note(seconds, sent, got, self.patterns.since())
        return notes

    def _answer(self, arrived: Sequence[tuple[int, Parcel]]) -> tuple[int, int, int, int]:
        """Answer the gets, and fill this processor's tickets."""
        parcels, by_others = self.accesses.replies(arrived)
        if self.tracer is not None:
            self.tracer.count(parcels)
            self.tracer.read(arrived)
        return self._reply(parcels, by_others)

    def _reply(self, parcels: dict[int, Parcel], by_others: tuple[int, int]) -> tuple[int, int, int, int]:
        """The second exchange, in which these parcels go.

        Args:
            by_others: words and messages of what they read here themselves.
        """
        words_out, messages_out = by_others
        # Who reads in memory of others does so before this exchange, and nothing is written there before it.
        words_in, messages_in = self.accesses.read()
        arrival = self.route(REPLY, None, parcels, _REPLIES)
        if arrival.kinds is not None:
            self.settle(arrival, REPLY, "answered gets")
        if self.checked:
            self._fresh = self.accesses.values(arrival.parcels)
        self.accesses.fill(arrival.parcels)
        if not parcels and not arrival.parcels:
            return words_out, messages_out, words_in, messages_in
        sent, got = _count(parcels.items(), self.pid), _count(arrival.parcels, self.pid)
        return words_out + sent[0], messages_out + sent[1], words_in + got[0], messages_in + got[1]

    def _deliver(self, arrival: Arrival) -> Counted:
        """Hand what arrived to the inbox, the arrays and the queues; returns what it counts, as `_count`."""
        source, parcel = arrival[2][0]
        if self._fast and len(parcel) == 1:
            ((stream, section),) = parcel.items()
            if len(arrival[2]) == 1 and source != self.pid and stream in (MAIL, PUTS):
                # What follows does the same, in more time.
                if stream == MAIL:
                    self.inbox = Inbox([(source, section)], self._outgoing)
                else:
                    self.accesses.write(section)
                return section[1], section[2], 0, 0
            if stream <= PUTS or stream >= JOINED:
                counts = self._deliver_alike(stream, arrival)
                if counts is not None:
                    return counts
        mail: list[tuple[int, Section]] = []
        queued: dict[int, list[tuple[int, Section]]] | None = None
        patterned: list[tuple[int, int, Section]] | None = None
        put: list[Section] = []  # where what patterns get comes first: the program may get it into what is put to
        words = messages = items = 0
        own = self.pid
        for source, parcel in arrival[2]:
            for stream, section in parcel.items():
                if stream == MAIL:
                    mail.append((source, section))
                elif stream == LETTERS:
                    self._letters.append((source, section))
                elif stream == NOTES:
                    self._noted[source] = section[0]
                elif stream == PUTS:
                    put.append(section)
                elif stream >= JOINED:
                    if queued is None:
                        queued = {}
                    queued.setdefault(stream, []).append((source, section))
                    if source != own:
                        messages += 1 - section[2]
                        items += section[2]
                elif stream < 0 or stream == INDICES:
                    if patterned is None:
                        patterned = []
                    patterned.append((source, stream, section))
                if source != own:
                    words += section[1]
                    messages += section[2]
        if mail:
            self.inbox = Inbox(mail, self._outgoing)
        if queued is not None:
            for stream, sections in queued.items():
                queue = self.registrations.queues[stream - JOINED]
                queue.deliver(sections, arrival.joined.get(stream))
                self.participants[queue] = None  # until it is forgotten
        if patterned is not None:
            self.patterns.bring(patterned)
        if self.patterns.awaited:
            self.patterns.complete()
        for section in put:
            self.accesses.write(section)
        if patterned is not None:
            self.patterns.write(patterned)
        if self.checked:
            self._fresh += [
                (section.data, self._arrays(stream, section))
                for _, parcel in arrival.parcels
                for stream, section in parcel.items()
                if section.data is not None and section.data.size
            ]
        return words, messages, items, 0

    def _deliver_alike(self, stream: int, arrival: Arrival) -> Counted | None:
        """`_deliver` in less time, where one stream has come from all who sent: messages, puts, a queue or a pattern.

        Returns:
            None where others have come too; nothing was done then.
        """
        sections = []
        for source, parcel in arrival[2]:
            if len(parcel) > 1 or stream not in parcel:
                return None
            sections.append((source, parcel[stream]))
        return self._deliver_stream(stream, sections, arrival[3].get(stream))

    def _deliver_plain(self, came: tuple[tuple[int, Section], ...], own: Parcel) -> Counted | None:
        """The same of plain sections, as `Near.exchange_mail` brings them, and what is for this processor itself.

        Returns:
            What that counts; None where several patterns put, which is by source first, or some are made: nothing was
            done then, beside taking the notes.
        """
        found = sections_by_stream(came, self._noted)
        for stream, section in own.items():
            sections = found.setdefault(stream, [])
            sections.append((self.pid, section))
            sections.sort(key=source_of)
        if len(found) == 1:  # as most often
            ((stream, sections),) = found.items()
            if PUTS < stream < JOINED:
                return None
            words, messages, items, _ = self._deliver_stream(stream, sections, None)
        elif [*map(_turn, found)].count(1) > 1 or any(PUTS < stream < JOINED for stream in found):
            return None
        else:
            words = messages = items = 0
            for stream in sorted(found, key=_turn):
                if stream == PUTS and self.patterns.awaited:
                    self.patterns.complete()
                of_stream = self._deliver_stream(stream, found[stream], None)
                words, messages, items = words + of_stream[0], messages + of_stream[1], items + of_stream[2]
        if self._noted:  # they count too
            words, messages = sum([one[1] for _, one in came]), sum([one[2] for _, one in came])
        return words, messages, items, 0

    def _deliver_stream(self, stream: int, sections: list[tuple[int, Section]], joined: Bytes | None) -> Counted:
        """Hand over what one stream has brought, by source."""
        own = self.pid
        words = messages = others = 0
        for source, section in sections:
            if source != own:
                words += section[1]
                messages += section[2]
                others += 1
        if stream >= JOINED:
            queue = self.registrations.queues[stream - JOINED]
            queue.deliver(sections, joined)
            self.participants[queue] = None  # until it is forgotten
            return words, others, messages, 0  # its messages are items
        if stream < 0:  # a pattern's
            self.patterns.take_alike(stream, sections)
        elif stream == MAIL:
            self.inbox = Inbox(sections, self._outgoing)
        else:
            for _, section in sections:
                self.accesses.write(section)
        return words, messages, 0, 0

    def _arrays(self, stream: int, section: Section) -> Sequence[NDArray[Any]]:
        """The arrays in the data of a section whose dtype is known, and of which the program may keep views."""
        assert section.data is not None
        if stream == MAIL:
            return arrays_of(section)
        if stream >= JOINED:
            return [section.data.view(self.registrations.queues[stream - JOINED].dtype)]
        return []

    def take_inbox(self, arrived: Sequence[tuple[int, Section]]) -> None:
        """These messages are in the inbox, as if they had arrived with the last sync."""
        self.inbox = Inbox(arrived, self._outgoing) if arrived else self._empty

    def move(self) -> None:
        """The memory in which data arrived goes: what arrived last moves out of it."""
        self.inbox = self.inbox.copied() if len(self.inbox) else self._empty
        for one in self.participants:
            one.move()
        self._fresh = []

    # -- beside supersteps --------------------------------------------------------------------------------------------

    def meet(self, kind: int, note: Any, parcels: dict[int, Parcel]) -> Arrival:
        """An exchange of all that is no end of a superstep."""
        return self.agreement.meet(kind, note, parcels)

    def settle(self, arrival: Arrival, kind: int, what: str, line: str = "") -> Sequence[Any] | None:
        """Check that all did the same, and registered the same; registrations take effect. Returns what each said."""
        registered = self.agreement.settle(arrival, kind, what, line)
        if registered is None:
            return None
        if registered.shapes is not None:
            self.registrations.accept(registered.shapes)
        own: Sequence[Any] = registered.own
        return own

    def finish(self, line: str = "") -> None:
        """The program has ended here, at that line: meet the others, who must have ended too."""
        if self.gate.failed is not None:
            raise self.gate.failed  # a program that caught the error cannot go on without the others
        if self.gate.misused:
            raise UsageError(self.gate.misused)
        is_part = bool(self.agreement.members)
        before, machine = ("before the part ends", "part") if is_part else ("before the program ends", "bsp")
        if self._begun is not None:
            line = self._begun.line
            self.complete()
            raise UsageError(f"bsp.begin: called at {line}, and never ended; call {machine}.end() {before}")
        way_out = f"call {machine}.sync() until ticket.done {before}"
        refuse_under_way("bsp.split" if is_part else "pybsp.run", self.rides, way_out)
        left = self.pending()
        if left:
            raise UsageError(
                f"{left}: something was sent in {self.account.described()}, after the last sync, "
                f"and would never arrive{self._left_behind()}; call {machine}.sync() {before}"
            )
        arrival = self.meet(END | (FLAG_COMPARE if self.rides.unheard else 0), None, {})
        self.settle(arrival, END, "ended", line)
        if arrival.kinds is not None and flags_of(arrival.kinds) & FLAG_COMPARE:
            self.agreement.compare()
        self.gate.close(f"the {self.gate.of} has ended; nothing can be sent or synced after it", "ended")

    def _left_behind(self) -> str:
        """What would never arrive, and to whom, in words; empty where others have to say what they ask for."""
        parcels = self._pack(None)[0]
        if not parcels:
            return ""
        sections = [section for parcel in parcels.values() for section in parcel.items()]
        items = sum(section.messages for stream, section in sections if stream >= JOINED)
        messages = sum(section.messages for stream, section in sections if stream < JOINED)
        counts = [(items, "item"), (messages, "message"), (sum(section.words for _, section in sections), "word")]
        what = ", ".join(f"{n} {name}{'s' * (n != 1)}" for n, name in counts if n)
        return f" ({what or 'requests'}, to processor{'s' * (len(parcels) != 1)} {few(sorted(parcels))})"

    def report_failure(self, error: BaseException) -> Arrival | None:
        """Tell the others that this processor failed; returns what all were doing, and said.

        None where there is another error, which all know of: nobody is met after it.

        Raises:
            TimeoutError: they did not come within the grace period.
        """
        account = self.account
        failure = failure_of(error, account.superstep, label_of(error, account.label))
        grace = None if account.virtual else seconds(GRACE)
        crossing = self.root.account.stays is not None and not account.virtual
        if crossing:
            self.transport.watch_crossing(str)  # others wait elsewhere: they learn of this, not that waits cross
        try:
            return self._tell(error, failure, grace)
        finally:
            if crossing:
                self.watch_crossing()  # where a part's failure is caught, the program goes on

    def _tell(self, error: BaseException, failure: Failure, grace: float | None) -> Arrival | None:
        """`report_failure`."""
        account = self.account
        with suppress(BSPError):  # the others see this failure next
            self.complete(grace)
        if self.gate.failed is not None:
            return None
        if (came_in_an_exchange(error.__context__) or self.part is not None) and not account.virtual:
            # It came while another one left an exchange: on a full stack, or by a handler of a signal; or on the way in
            # or out of a part, which others are in. Nobody knows then where this one was.
            self.transport.revoke(error)
        return self.agreement.tell(failure, grace)

    @property
    def root(self) -> SuperstepEngine:
        """That of the machine that this is a part of; itself where it is none."""
        return self._root or self

    def belongs_to(self, whole: SuperstepEngine) -> None:
        """This is a part of the other."""
        self._root = whole.root

    def watch_crossing(self) -> None:
        """Processors may wait for each other in different machines from now on."""
        self.transport.watch_crossing(self.root.whereabouts)

    def give_back(self, which: Iterable[SuperstepEngine] | None = None) -> None:
        """Give back parts, or all: all their processors do so after the same exchange, in the same order."""
        try:
            for part in [*self.parts.all.values()] if which is None else which:
                del self.parts.all[part.context]
                part.give_back()
                if not part.transport.revoked:
                    part.router.close()
                    part.transport.free()
                part.dissolve()
                self.contexts.discard(part.context)
        except BaseException as error:
            if self.router.meets_to_close:
                self.agreement.leave(error)  # others may wait in there
            raise

    def dissolve(self) -> None:
        """This machine has ended: what is of it no longer refers to it.

        So its memory is free with the last of it that the program has, without the garbage collector, which counts
        objects and not bytes. What the program still calls says that the run has ended.
        """
        for part in self.parts.all.values():
            part.dissolve()
        self.parts.end()
        if self._root is None and self.account.stays is not None:
            self.transport.watch_crossing(str)  # which outlives the run
        self.gate.over = self.gate.over or "ended"
        ended = cast("SuperstepEngine", _EndedMachine(self.gate))
        self.rides.end(ended)
        self.patterns.end(ended)
        self.registrations.end()
        self.participants.clear()
        self.shown = self.as_shown = self.group_rides = self.saver = self.tracer = None

    # -- where it is, for those that wait -----------------------------------------------------------------------------

    def described(self, error: BaseException) -> str:
        """The superstep that an exception has left, in words."""
        return describe(self.account.superstep, label_of(error, self.account.label))

    def explained(self, error: BaseException) -> str:
        """What may explain an exception of the program, in words: it looked for what has not arrived, or writes to it.

        A queue's values are an array, of which numpy says that it is empty, or read-only, and no more.
        """
        text = ""
        with suppress(Exception):  # of the program's own exception
            text = str(error)
        if isinstance(error, ValueError) and "read-only" in text:
            return "; if it is about an array that has arrived: that is read-only; values.copy() may be written to"
        nothing_there = isinstance(error, ValueError) and any(word in text for word in _OF_NOTHING)
        looked = nothing_there or isinstance(error, (LookupError, StopIteration))
        pending = self.pending() if looked and not isinstance(error, BSPError) else ""
        return (
            f"; if it is about what was sent in it ({pending}): that has not arrived; call bsp.sync() first"
            if pending
            else ""
        )

    def _innermost(self) -> SuperstepEngine:
        """The engine of the innermost part in use."""
        return self if self.part is None else self.part._innermost()

    def whereabouts(self) -> str:
        """The superstep that goes on, of the innermost part, in words."""
        inner = self._innermost()
        return inner.account.described() + " of a part" * bool(inner.agreement.members)

    def heard(self) -> str:
        """When all others were last heard of: whoever leaves an exchange knows that they entered it."""
        account = self._innermost().account
        ended = f"superstep {account.superstep - 1} ended" if account.superstep else "it began"
        return f"was last heard of when {ended}, {time.perf_counter() - account.log.left:.0f} s ago"


# `BSP.sync` is this method itself, and Python names it by this where it is given arguments.
SuperstepEngine.sync.__qualname__ = "BSP.sync"


class _EndedMachine:
    """In the place of an engine that has been dissolved, for calls that begin at what was its."""

    def __init__(self, gate: Gate) -> None:
        self.gate, self.registrations = gate, Registrations()
        self.participants: dict[Participant, None] = {}

    def sync_rides(self, name: str, more: bool | None = None) -> bool:
        self.gate.check(name)
        return False

    sync_ride = sync_rides


def _turn(stream: int) -> int:
    """When what a stream has brought is handed over: first what patterns get, which may go into what is put to; what
    they put comes last.
    """
    return 0 if stream >= 0 else 2 * (stream & 1) - 1


def _agreed(counts: Counted) -> Counted:
    words, messages, items, ways = counts
    return words, messages, items, ways | AGREED


def arrival_of(came: Arrival | tuple[tuple[int, Section], ...], noted: dict[int, Any] | None = None) -> Arrival:
    """What `Near.exchange_mail` brings, as an arrival; `noted`: as of `wire.parcels_of`."""
    if isinstance(came, Arrival):
        return came
    return new_tuple(Arrival, (None, None, parcels_of(came, noted), NOT_JOINED))


def _beside(arrival: Arrival, pid: int, own: Parcel) -> Arrival:
    """An arrival, and what a processor has for itself beside what others have sent."""
    if not own:
        return arrival
    kinds, notes, parcels, joined = arrival
    # What others have sent to a queue may be one array, which has not what comes from here.
    joined = {stream: data for stream, data in joined.items() if stream not in own}
    return new_tuple(Arrival, (kinds, notes, sorted([*parcels, (pid, own)], key=source_of), joined))


def _count(parcels: Iterable[tuple[int, Parcel]], pid: int) -> Counted:
    """Words, messages and items of queues, without what a processor sends to itself: that crosses no network; ways."""
    words = messages = items = ways = 0
    for other, parcel in parcels:
        for stream, section in parcel.items():
            ways |= BY_QUEUE if stream >= JOINED else _WAYS.get(stream, BY_PATTERN)
            if other != pid:
                words += section[1]
                if stream < JOINED:
                    messages += section[2]
                else:  # what a queue sends to one processor travels as one message
                    messages += 1
                    items += section[2]
    return words, messages, items, ways
