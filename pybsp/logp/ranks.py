"""A LogP processor as an MPI rank.

A message is one nonblocking MPI message where it fits into a slot (wire.py), else its data follows. Whatever comes for
this processor, from whom it may, falls into the next of a ring of slots, which are receives that have been posted, so
that looking for a message is one test. MPI keeps messages of one pair in order.

No thread works in the background: a processor makes *progress* - what has come goes into its input buffer, requests
for credits are answered - in every call of its methods, also while it waits there. What the program computes beside
that holds up those that wait for a credit from this processor, as it holds up its own acquisitions.

The capacity constraint is kept by credits of the destination:

    "global"    at most `machine.capacity` messages are in flight to a destination, from all processors together: it
                grants so many credits, ahead to those that send (leases.py). A lone sender has all of them, and
                sends capacity messages in a round trip; of several each has a share; where there are more than
                credits, one after the other gets one. With two processors a destination has one sender, and
                "per-pair" is the same.
    "window"    likewise, with as many credits as keep a lone sender at a message each G: ceil(round trip / G), where a
                round trip is 2 (L + 2 o). That is more than the model's capacity, ceil(L / G): it bounds what is in
                flight, and not as the model does.
    "per-pair"  each sender has at most `machine.capacity` messages under way to a destination that are not
                acknowledged. Whatever goes back acknowledges what has arrived; where nothing does, a message of its own
                acknowledges each half of the capacity. All senders together may exceed the capacity (p - 1)-fold.
    None        there is no limit; a sender waits only where MPI itself takes no more.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, overload

import numpy as np

from ..errors import BSPError, DeadlockError, ProcessorError, UsageError
from ..ground.instead import hinting
from ..machines.logp import LogPMachine
from ..processes.process import keep_from_children
from ..transport import DRAIN, MAIL, Parcel, Section, wire
from ..transport.medium import MPITransport
from ..transport.waiting import SPIN
from . import wording
from .arguments import CAPACITIES, destination, whole_steps
from .departures import DATA, MOST, Departures
from .leases import GRANT, GRANTS, LEAVE, RECALL, REQUEST, Leases
from .processor import Message
from .wire import (
    BYTES,
    FLOAT,
    FLOATS,
    HEAD,
    INT,
    INT_END,
    LENGTHS,
    LONG,
    LONG_RECORD,
    RECORD_ROOM,
    ROOM,
    SLOT,
    Long,
    decode,
    encode,
    words_of,
)

SLOTS = 8
NAP = 200e-6  # seconds, the longest sleep while time passes: others may wait for a credit
SLACK = 60e-6  # seconds by which the system prolongs a sleep; what is left after it is spun, as a yield may take long
NONE = -(1 << 62)  # no message at all may go beyond what is known
PATIENCE = 10e-3  # seconds that a processor waits before it reports that, for the detection of deadlocks

# Kinds of messages; leases.py and termination.py have more.
ACKNOWLEDGEMENT, FAILED = range(1, 3)


_message = tuple.__new__


def window(machine: LogPMachine) -> int:
    """Messages in flight to a destination that keep a lone sender at one each G: a round trip over G."""
    return max(1, -(-2 * (machine.L + 2 * machine.o) // machine.G))


class Observer(Protocol):
    """Who detects the end of a program, as a processor sees it."""

    def idle(self, since: int) -> None:
        """This processor waits for a message, for long, since that time."""

    def resumed(self) -> None:
        """It does so no longer."""

    def heard(self, kind: int, source: int, body: bytes) -> None:
        """A message for the detection has come."""


@dataclass(frozen=True, slots=True)
class TimeNotes:
    """What is called to note times: looked up in slots, as each message pays for it."""

    send_begins: Callable[[], None]
    send_ends: Callable[[int], None]
    arrives: Callable[[int, int], None]
    acquisition_begins: Callable[[], None]
    acquisition_ends: Callable[[], None]


@hinting("proc")
class RankProcessor:
    """A LogP processor on the ranks of a transport. See `Processor` for what its methods promise.

    Beside the transport's own exchanges; one at a time on a transport, made and closed by all of its processors. The
    transport outlives it.

    Args:
        transport: the processors.
        machine: equal on all processors.
        capacity: "global", "window", "per-pair" or None, see above; equal on all processors.
        pace: whether gaps are kept, and overheads and computing take the machine's steps.

    Attributes:
        paced: `pace`.
        stalls: messages that waited because the destination, or ("per-pair") this pair, had as many in flight as the
            capacity allows.
        stalled_seconds: how long they waited in all, with the round trip for the credit.
        credit_seconds: how long sends waited for the round trip of a first credit that was free.
        deadline: of `time.perf_counter`; what waits for others longer than until then raises TimeoutError. None: never.
        max_in_flight: credits of this destination that were out at a time, at most: it bounds the messages in flight to
            it. None where the destination grants none (see above).
    """

    timed = False  # nothing bounds a message's delay, and clocks do not agree

    def __init__(
        self,
        transport: MPITransport,
        machine: LogPMachine,
        capacity: str | None = "global",
        pace: bool = False,
    ) -> None:
        from mpi4py import MPI

        if capacity not in CAPACITIES:
            raise UsageError(f'argument capacity: expected "global", "window", "per-pair" or None, got {capacity!r}')
        self.p, self.pid, self.machine, self.paced = transport.p, transport.pid, machine, pace
        self.stalls, self.stalled_seconds, self.credit_seconds = 0, 0.0, 0.0
        self.observer: Observer | None = None
        self._notes: TimeNotes | None = None  # of times, where they are kept: see recording.py
        self.deadline: float | None = None
        self.failure: BSPError | None = None  # known to all; whatever is called next raises it
        self._transport, self._waiter = transport, transport.waiter
        self._comm, self._ranks, self._tag = transport.channel(wire.BESIDE)
        self._byte, self._testall = MPI.BYTE, MPI.Request.Testall
        p = self.p
        # Acquired first: what arrived first. (source, record kind, what decode takes)
        self._inbox: deque[tuple[int, int, Any]] = deque()
        # Of a source whose message lacks data: that, and what came after it. (requests, record kind, body)
        self._incomplete: dict[int, deque[tuple[list[Any], int, Any]]] = {}
        self._taken = [0] * p  # messages from each, beside those of the program
        # Flow control.
        limited = capacity is not None and p > 1
        self._granting = limited and capacity in ("global", "window") and p > 2
        self._pairwise = limited and not self._granting
        self._quick = limited and not pace
        self._capacity = window(machine) if capacity == "window" else machine.capacity
        # Messages to each, and what the heads of its messages say: how many of these have arrived, or credits for them.
        self._to, self._known = [0] * p, [0] * p
        self._from = [0] * p  # messages from each
        announced: list[int] = [0] * p
        self._leases = Leases(self._capacity, self._from, announced, self._known, self._to, self._tell_of_credits)
        # How many of its messages to each may go beyond what is known.
        self._beyond = [self._capacity if self._pairwise else NONE] * p
        heads = self._leases.allowed if self._granting else self._from
        departures = Departures(self._comm, self._ranks, self._tag, self.pid, heads, announced)
        self._departures, self._leaving, self._acknowledged = departures, departures.leaving, departures.announced
        self._submit, self.post = departures.submit, departures.post
        self._owed = (self._capacity + 1) // 2  # messages that an acknowledgement of its own is sent for
        self._closing = False
        # Time.
        self._step, self._start = machine.step, time.perf_counter()
        self._o, self._gap = machine.o * machine.step, machine.G * machine.step
        self._may_submit = self._may_acquire = self._start
        # Slots, and what tests them.
        self._ring: list[tuple[bytearray, Any, Callable[..., bool]]] = []
        self._full: Callable[..., bool] = bool
        if p > 1:
            for _ in range(SLOTS):
                buffer = bytearray(SLOT)
                slot = self._comm.Recv_init([buffer, SLOT, MPI.BYTE], MPI.ANY_SOURCE, self._tag)
                self._ring.append((buffer, slot, slot.Test))
            MPI.Prequest.Startall([slot for _, slot, _ in self._ring])
            transport.beside(self)
            self._at = 0
            self._buffer, self._slot, self._full = self._ring[0]
        keep_from_children(self)

    def __repr__(self) -> str:
        return f"<processor {self.pid} of {self.p}>"

    def refuse(self, why: str) -> None:
        """Nothing may be called in this process."""
        self.failure = UsageError(f"pybsp.logp.run: {why}")

    # -- what programs call -------------------------------------------------------------------------------------------

    @property
    def time(self) -> int:
        return int((time.perf_counter() - self._start) / self._step)

    @property
    def max_in_flight(self) -> int | None:
        return self._leases.most if self._granting else None

    def send(self, dest: int, payload: Any) -> None:
        notes = self._notes
        if notes is not None:
            notes.send_begins()
        if self.failure is not None:
            raise self.failure
        if type(dest) is not int or not 0 <= dest < self.p or dest == self.pid:
            dest = destination(dest, self.p, self.pid)
        kind = type(payload)
        if kind is float:
            record_kind, body = FLOAT, payload
        elif kind is int and -INT_END <= payload < INT_END:
            record_kind, body = INT, payload
        else:
            record_kind, body = encode(payload, self._transport.pool)
        if not self._quick or self._leaving or self._to[dest] - self._known[dest] >= self._beyond[dest]:
            self._admit(dest)
        self._to[dest] += 1
        self._submit(dest, record_kind, body)
        if self.paced:
            self._may_submit = time.perf_counter() + self._gap
        if notes is not None:
            notes.send_ends(dest)

    @overload
    def recv(self) -> Message: ...

    @overload
    def recv(self, until: int | None) -> Message | None: ...

    def recv(self, until: int | None = None) -> Message | None:
        notes = self._notes
        if notes is not None:
            notes.acquisition_begins()
        if self.failure is not None:
            raise self.failure
        if until is not None:
            until = whole_steps("proc.recv", "until", until)
        if not self._inbox:
            if self._full():
                self._take()
            if not self._inbox and not self._await(until):
                return None
        if self.paced and not self._may_begin(until):
            return None
        source, record_kind, body = self._inbox.popleft()
        try:
            return _message(Message, (source, body if record_kind <= BYTES else decode(record_kind, source, body)))
        finally:
            if notes is not None:
                notes.acquisition_ends()  # also of what cannot be read

    def poll(self) -> Message | None:
        notes = self._notes
        if notes is not None:
            notes.acquisition_begins()
        if self.failure is not None:
            raise self.failure
        self._progress()
        if not self._inbox:
            if self.paced:
                self._pass(time.perf_counter() + self._step)
            return None
        if self.paced:
            self._may_begin(None)
        source, record_kind, body = self._inbox.popleft()
        try:
            return _message(Message, (source, body if record_kind <= BYTES else decode(record_kind, source, body)))
        finally:
            if notes is not None:
                notes.acquisition_ends()  # also of what cannot be read

    def compute(self, steps: int) -> None:
        if self.failure is not None:
            raise self.failure
        steps = whole_steps("proc.compute", "steps", steps, 0)
        if self.paced:
            self._pass(time.perf_counter() + steps * self._step)
        else:
            self._progress()

    # -- sending ------------------------------------------------------------------------------------------------------

    def _admit(self, dest: int) -> None:
        """Wait until a message may be submitted: for its overhead, the gap, the capacity, and room in MPI."""
        if self._leaving and not self._has_room(None) and not self._waiter.until(self._has_room, None, self.deadline):
            raise TimeoutError
        if self._granting and self._lacks(dest):
            self._leases.ask(dest)  # that travels while the message is prepared
        if self.paced:
            self._pass(max(time.perf_counter() + self._o, self._may_submit))
        if self._granting or self._pairwise:
            self._stall(dest)
        else:
            self._progress()

    def _lacks(self, dest: int) -> bool:
        """Whether as many messages as may be are under way to dest, as far as is known."""
        if self._granting:
            return not self._leases.has_credit(dest)
        return self._to[dest] - self._known[dest] >= self._capacity

    def _stall(self, dest: int) -> None:
        """Wait until another message may be under way to dest."""
        if self._lacks(dest):
            self._progress()  # this processor may not have looked
        if not self._lacks(dest):
            return
        leases, begin = self._leases, time.perf_counter()
        self._answer = 0  # the kind of the grant that is waited for
        if self._granting:
            leases.needs = dest
            leases.ask(dest)
        try:
            self._wait(lambda: not self._lacks(dest))
        finally:
            leases.needs = -1
        waited = time.perf_counter() - begin
        if self._answer == GRANT:
            self.credit_seconds += waited
        else:
            self.stalls += 1
            self.stalled_seconds += waited

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _await(self, until: int | None) -> bool:
        """Wait for a message; whether one has come before the time has passed."""
        if until is not None:
            deadline = self._start + until * self._step
            self._progress()
            return self._wait(self._has_message, deadline)
        observer = self.observer
        if observer is None:
            if self.p == 1:
                raise DeadlockError(wording.deadlock(1, [(0, self.time)], {}))
            self._wait(self._has_message)
        elif not self._wait(self._has_message, (begin := time.perf_counter()) + PATIENCE):
            observer.idle(int((begin - self._start) / self._step))
            try:
                self._wait(self._has_message)
            finally:
                observer.resumed()
        return True

    def _has_message(self) -> bool:
        return bool(self._inbox)

    def _may_begin(self, until: int | None) -> bool:
        """Wait for the gap, and acquire; False if that cannot begin before the time has passed."""
        if until is not None:
            deadline = max(self._start + until * self._step, time.perf_counter())
            if self._may_acquire > deadline:
                self._pass(deadline)
                return False
        self._pass(self._may_acquire)
        begin = time.perf_counter()
        self._may_acquire = begin + self._gap
        self._pass(begin + self._o)
        return True

    # -- progress -----------------------------------------------------------------------------------------------------

    def _progress(self) -> None:
        """Take what has come."""
        while self._full():
            self._take()
        if self._incomplete:
            self._collect()
        if self._leaving:
            self._departures.see_off()
        if self.failure is not None:
            raise self.failure

    def _wait(self, condition: Callable[[], bool], deadline: float | None = None) -> bool:
        """Make progress until a condition holds; False if the deadline came first.

        Raises:
            TimeoutError: there is none, and the processor's own came first.
        """
        until = self._waiter.until
        limit = self.deadline if deadline is None else deadline
        while not condition():
            if self.failure is not None:
                raise self.failure
            if self._incomplete or self._leaving:
                self._progress()
                if condition():
                    break
            if self._incomplete:
                if until(self._moved, None, limit):
                    continue
            elif self._full() or until(self._full, None, limit):
                self._take()
                continue
            if deadline is None:
                raise TimeoutError
            return False
        return True

    def _moved(self, _: Any) -> bool:
        """Whether anything has come, also data of a long message."""
        if self._full():
            self._take()
            return True
        return self._collect()

    def _pass(self, moment: float) -> None:
        """Make progress until a moment of the clock."""
        clock = time.perf_counter
        self._progress()
        while (left := moment - clock()) > 0:
            if left > SPIN:
                time.sleep(min(left - SLACK, NAP))
            self._progress()

    def _take(self) -> None:
        """Read the slot that has been filled, and post it again."""
        buffer = self._buffer
        kind, record_kind, length, source, arrived, body = FLOATS.unpack_from(buffer)
        if record_kind == INT:
            (body,) = LONG.unpack_from(buffer, HEAD.size)
        elif record_kind != FLOAT:
            body = bytes(buffer[HEAD.size : HEAD.size + length])
        self._slot.Start()
        self._at = at = (self._at + 1) % SLOTS
        self._buffer, self._slot, self._full = self._ring[at]
        self._known[source] = arrived
        if kind == DATA:
            if record_kind == LONG_RECORD:
                self._fetch(source, body)
            elif source in self._incomplete:
                self._incomplete[source].append(([], record_kind, body))
            else:
                self._arrive(source, record_kind, body)
            return
        self._taken[source] += 1
        if self._closing:
            return  # nobody waits for an answer
        leases = self._leases
        if kind in GRANTS:
            if leases.needs == source:
                self._answer = kind
            leases.granted(source, kind, *LONG.unpack(body))
            self._beyond[source] = 0 if leases.limits[source] == math.inf else NONE
        elif kind == REQUEST:
            leases.asked(source)
        elif kind == RECALL:
            leases.recalled(source)
            self._beyond[source] = 0 if leases.limits[source] == math.inf else NONE
        elif kind == LEAVE:
            leases.gone(source, *LONG.unpack(body))
        elif kind == FAILED:
            if self.failure is None:
                self.failure = ProcessorError(body.decode(errors="replace"), source, 0, "")
        elif kind != ACKNOWLEDGEMENT and self.observer is not None:
            self.observer.heard(kind, source, body)

    def _fetch(self, source: int, body: bytes) -> None:
        """Receive the data of a long message."""
        length, size = LENGTHS.unpack_from(body)
        message = Long(body[LENGTHS.size :], self._transport.pool.take(size) if size else None)
        parts = message.parts()
        if length > RECORD_ROOM:
            message.record = record = bytearray(length)
            parts.insert(0, np.frombuffer(record, np.uint8))
        rank, tag = self._ranks[source], self._tag + 1
        requests = [self._comm.Irecv([part, part.size, self._byte], rank, tag) for part in parts]
        self._incomplete.setdefault(source, deque()).append((requests, LONG_RECORD, message))

    def _collect(self) -> bool:
        """Let what is complete arrive; whether anything was."""
        found = False
        for source, waiting in list(self._incomplete.items()):
            while waiting and (not waiting[0][0] or self._testall(waiting[0][0])):
                _, record_kind, body = waiting.popleft()
                self._arrive(source, record_kind, body)
                found = True
            if not waiting:
                del self._incomplete[source]
        return found

    def _has_room(self, _: Any) -> bool:
        """Whether MPI has few enough messages that have not left; progress is made."""
        self._progress()
        return len(self._leaving) < MOST

    def _arrive(self, source: int, record_kind: int, body: Any) -> None:
        """A message is in the input buffer."""
        if self._notes is not None:
            self._notes.arrives(source, 1 if record_kind <= INT else words_of(record_kind, body))
        self._from[source] = arrived = self._from[source] + 1
        self._inbox.append((source, record_kind, body))
        if self._pairwise:
            if arrived - self._acknowledged[source] >= self._owed and not self._closing:
                self.post(source, ACKNOWLEDGEMENT)
        elif self._granting and not self._closing:
            self._leases.came(source)

    def rest(self) -> None:
        """Nothing is sent for long, and nothing looked at: give back what others may need."""
        if self._granting:
            for dest in range(self.p):
                self._leases.leave(dest)
                self._beyond[dest] = NONE

    def _tell_of_credits(self, dest: int, kind: int, number: int) -> None:
        self.post(dest, kind, b"" if kind in (REQUEST, RECALL) else LONG.pack(number))

    # -- the end ------------------------------------------------------------------------------------------------------

    def tell_failure(self, summary: str) -> None:
        """Make all others leave what they wait in."""
        for dest in range(self.p):
            if dest != self.pid:
                self.post(dest, FAILED, summary.encode(errors="backslashreplace")[:ROOM])

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Make progress until a condition holds that what comes can change."""
        self._progress()
        self._wait(condition)
        if self.failure is not None:
            raise self.failure

    def counts(self) -> tuple[int, int, int]:
        """Messages that this processor has sent, that have arrived here, and that it has not received of these."""
        return sum(self._to), sum(self._from), len(self._inbox)

    def close(self) -> None:
        """Take what is under way, and give back what this holds. Collective; nothing is sent or received afterwards."""
        if self.p == 1:
            self._refuse_calls()
            return
        self.rest()
        self._closing = True
        counts: dict[int, Parcel] = {
            dest: {MAIL: Section(posted, 0, 0, None)}
            for dest in range(self.p)
            if (posted := self._to[dest] + self._departures.posted[dest])
        }
        arrival = self._transport.exchange(DRAIN, None, counts)
        expected = {source: parcel[MAIL].descriptors for source, parcel in arrival.parcels}
        self.failure = None
        self._wait(lambda: all(self._came(source) == count for source, count in expected.items()))
        if not self._has_left(None):
            self._waiter.until(self._has_left, None)
        for _, slot, _ in self._ring:
            slot.Cancel()
            slot.Wait()
        self.forget()
        self._transport.alone(self)
        self._transport.exchange(DRAIN, None, {})  # what follows on this transport must not fall into slots of this one

    # What it has under way when an exception has left the run: see pybsp/transport/revocation.py.

    @property
    def comm(self) -> Any:
        return self._comm

    def give_up(self) -> None:
        self._closing = True

    def awaited(self) -> tuple[list[int], list[int]]:
        return [], []  # a message may come from anybody

    def receiving(self) -> list[Any]:
        long = [request for waiting in self._incomplete.values() for requests, _, _ in waiting for request in requests]
        return [*(slot for _, slot, _ in self._ring), *long]

    def sending(self) -> list[Any]:
        return self._departures.requests()

    def forget(self) -> None:
        while self._ring:
            self._ring.pop()[1].Free()
        self._departures.forget()
        self._incomplete.clear()
        self._refuse_calls()

    def _refuse_calls(self) -> None:
        """What the program calls after the end of its run is an error: memory that it would use may be gone."""
        pid = self.pid  # not of self, which would refer to itself, and stay until a collector comes

        def refused(*_: Any, **__: Any) -> NoReturn:
            raise UsageError(
                f"pybsp.logp.run: the proc of processor {pid} was called after the end of its run; call the proc that "
                "the program is given, in its run"
            )

        for name in ("send", "recv", "poll", "compute"):
            setattr(self, name, refused)

    def _came(self, source: int) -> int:
        """Messages of all kinds from a source."""
        return self._from[source] + self._taken[source]

    def _has_left(self, _: Any) -> bool:
        return self._departures.over()
