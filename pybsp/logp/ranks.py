"""A LogP processor as an MPI rank.

A message is one nonblocking MPI message where it fits into a slot (wire.py), else its data follows. Whatever comes for
this processor, from whom it may, falls into the next of a ring of slots, which are receives that have been posted, so
that looking for a message is one test. MPI keeps messages of one pair in order.

No thread works in the background: a processor makes *progress* - what has come goes into its input buffer, requests
for credits are answered - in every call of its methods, also while it waits there. What the program computes beside
that holds up those that wait for a credit from this processor, as it holds up its own acquisitions.

The capacity constraint is kept by credits of the destination:

    "global"    a sender asks the destination, which grants at most `machine.capacity` credits at a time, first come,
                first served; a credit is free again when the message has arrived in the input buffer. So a message
                costs three MPI messages and three latencies instead of one, and a credit is held for two of them:
                the destination gets at most capacity messages in two latencies. With two processors a destination has
                one sender, and the next is the same.
    "per-pair"  each sender has at most `machine.capacity` messages under way to a destination that it has not heard of
                as arrived. That is told with whatever goes back, and by a message of its own for each half of the
                capacity where nothing does. All senders together may exceed the capacity (p - 1)-fold.
    None        nothing is kept; a sender waits only where MPI itself takes no more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np

from ..errors import BSPError, DeadlockError, ProcessorError, UsageError
from ..machine import LogPMachine
from ..transport import DRAIN, MAIL, Parcel, Section
from ..transport.medium import MPITransport
from ..transport.waiting import SPIN
from . import wording
from .arguments import CAPACITIES, destination, whole_steps
from .processor import Message
from .wire import (
    BYTES,
    FLOAT,
    FLOATS,
    HEAD,
    INT,
    INT_END,
    INTS,
    LENGTHS,
    LONG,
    LONG_RECORD,
    RECORD_ROOM,
    ROOM,
    SLOT,
    Long,
    decode,
    encode,
)

SLOTS = 8
LEAVING = 64  # messages that MPI has not sent yet, at most: MPICH takes a time for each that grows with their number
NAP = 200e-6  # seconds, the longest sleep while time passes: others may wait for a credit
SLACK = 60e-6  # seconds by which the system prolongs a sleep; what is left after it is spun, as a yield may take long
PATIENCE = 10e-3  # seconds that a processor waits before it tells so, for the detection of deadlocks

# Kinds of messages; termination.py has more.
DATA, REQUEST, GRANT, LATE_GRANT, ACKNOWLEDGEMENT, FAILED = range(6)


_Short = tuple[Callable[[], None], Callable[[], bool], bytearray]  # start, test, buffer
_message = tuple.__new__


class Observer(Protocol):
    """Who detects the end of a program, as a processor sees it."""

    def idle(self, since: int) -> None:
        """This processor waits for a message, for long, since that time."""

    def resumed(self) -> None:
        """This processor waits no longer."""

    def heard(self, kind: int, source: int, body: bytes) -> None:
        """A message for the detection has come."""


class RankProcessor:
    """A LogP processor on the ranks of a transport. See `Processor` for what its methods promise.

    Beside the transport's own exchanges; one at a time on a transport, made and closed by all of its processors. The
    transport outlives it.

    Args:
        transport: the processors.
        machine: equal on all processors.
        capacity: "global", "per-pair" or None, see above; equal on all processors.
        pace: whether gaps are kept, and overheads and computing take the machine's steps.

    Attributes:
        stalls: messages that waited because the destination, or ("per-pair") this pair, had as many in flight as the
            capacity allows.
        stalled_seconds: how long they waited in all, with the round trip for the credit.
        credit_seconds: how long sends waited for the round trip of a credit that was free.
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
            raise UsageError(f'argument capacity: expected "global", "per-pair" or None, got {capacity!r}')
        self.p, self.pid, self.machine, self._paced = transport.p, transport.pid, machine, pace
        self.stalls, self.stalled_seconds, self.credit_seconds = 0, 0.0, 0.0
        self.observer: Observer | None = None
        self.deadline: float | None = None
        self.failure: BSPError | None = None  # known to all; whatever is called next raises it
        self._transport, self._waiter = transport, transport.waiter
        self._comm, self._ranks, self._tag = transport.channel()
        self._byte, self._isend, self._testall = MPI.BYTE, self._comm.Isend, MPI.Request.Testall
        p = self.p
        # Acquired first: what arrived first. (source, encoding, body)
        self._inbox: deque[tuple[int, int, Any]] = deque()
        # Of a source whose message lacks data: that, and what came after it. (requests, encoding, body)
        self._incomplete: dict[int, deque[tuple[list[Any], int, Any]]] = {}
        self._leaving: deque[tuple[Any, Any]] = deque()  # requests of sends, and their buffers
        self._short: list[_Short | None] = [None] * p
        self._shorts: list[Any] = []  # their requests
        self._posted, self._taken = [0] * p, [0] * p  # to and from each, beside the messages of the program
        # Flow control.
        limited = capacity is not None and p > 1
        self._granting = limited and capacity == "global" and p > 2
        self._pairwise = limited and not self._granting
        self._quick = self._pairwise and not pace
        self._capacity = machine.capacity
        self._to, self._known = [0] * p, [0] * p  # messages to each, and those that are known to have arrived
        self._from, self._acknowledged = [0] * p, [0] * p  # messages from each, and those acknowledged to it
        self._owed = (self._capacity + 1) // 2  # messages that are acknowledged by a message of its own
        self._out = self._most_out = 0  # credits
        self._asking: deque[int] = deque()  # who waits for one
        self._answer: int | None = None
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

    # -- what programs call -------------------------------------------------------------------------------------------

    @property
    def time(self) -> int:
        return int((time.perf_counter() - self._start) / self._step)

    @property
    def max_in_flight(self) -> int | None:
        return self._most_out if self._granting else None

    def send(self, dest: int, payload: Any) -> None:
        if self.failure is not None:
            raise self.failure
        if type(dest) is not int or not 0 <= dest < self.p or dest == self.pid:
            dest = destination(dest, self.p, self.pid)
        kind = type(payload)
        if kind is float:
            encoding, body = FLOAT, payload
        elif kind is int and -INT_END <= payload < INT_END:
            encoding, body = INT, payload
        else:
            encoding, body = encode(payload, self._transport.pool)
        if not self._quick or self._leaving or self._to[dest] - self._known[dest] >= self._capacity:
            self._admit(dest)
        self._submit(dest, encoding, body)
        if self._paced:
            self._may_submit = time.perf_counter() + self._gap

    @overload
    def recv(self) -> Message: ...

    @overload
    def recv(self, until: int | None) -> Message | None: ...

    def recv(self, until: int | None = None) -> Message | None:
        if self.failure is not None:
            raise self.failure
        if until is not None:
            until = whole_steps("proc.recv", "until", until)
        if not self._inbox:
            if self._full():
                self._take()
            if not self._inbox and not self._await(until):
                return None
        if self._paced and not self._may_begin(until):
            return None
        source, encoding, body = self._inbox.popleft()
        return _message(Message, (source, body if encoding <= BYTES else decode(encoding, source, body)))

    def poll(self) -> Message | None:
        if self.failure is not None:
            raise self.failure
        self._progress()
        if not self._inbox:
            if self._paced:
                self._pass(time.perf_counter() + self._step)
            return None
        if self._paced:
            self._may_begin(None)
        source, encoding, body = self._inbox.popleft()
        return _message(Message, (source, body if encoding <= BYTES else decode(encoding, source, body)))

    def compute(self, steps: int) -> None:
        if self.failure is not None:
            raise self.failure
        steps = whole_steps("proc.compute", "steps", steps, 0)
        if self._paced:
            self._pass(time.perf_counter() + steps * self._step)
        else:
            self._progress()

    # -- sending ------------------------------------------------------------------------------------------------------

    def _admit(self, dest: int) -> None:
        """Wait until a message may be submitted: for its overhead, the gap, the capacity, and room in MPI."""
        if self._leaving and not self._has_room(None) and not self._waiter.until(self._has_room, None, self.deadline):
            raise TimeoutError
        if self._granting:
            self._answer = None
            self._post(dest, REQUEST)  # it travels while the message is prepared
        if self._paced:
            self._pass(max(time.perf_counter() + self._o, self._may_submit))
        if self._granting:
            self._obtain()
        elif self._pairwise:
            self._stall(dest)
        else:
            self._progress()

    def _stall(self, dest: int) -> None:
        """Wait until fewer messages than the capacity are under way to dest."""

        def fits() -> bool:
            return self._to[dest] - self._known[dest] < self._capacity

        if fits():
            return
        self._progress()
        if fits():
            return  # this processor had not looked
        begin = time.perf_counter()
        self._wait(fits)
        self.stalls += 1
        self.stalled_seconds += time.perf_counter() - begin

    def _obtain(self) -> None:
        """Wait for the credit that was asked for."""
        begin = time.perf_counter()
        self._wait(lambda: self._answer is not None)
        waited = time.perf_counter() - begin
        if self._answer == GRANT:
            self.credit_seconds += waited
        else:
            self.stalls += 1
            self.stalled_seconds += waited

    def _submit(self, dest: int, encoding: int, body: Any) -> None:
        """Hand a message to MPI."""
        self._to[dest] += 1
        if encoding <= INT:
            short = self._short[dest]
            if short is None:
                short = self._short[dest] = self._make_short(dest)
            start, test, buffer = short
            if test():  # the last has left
                self._acknowledged[dest] = arrived = self._from[dest]
                (FLOATS if encoding == FLOAT else INTS).pack_into(buffer, 0, DATA, encoding, 8, self.pid, arrived, body)
                start()
                return
            body = (FLOATS if encoding == FLOAT else INTS).pack(0, 0, 0, 0, 0, body)[HEAD.size :]
        elif encoding == LONG_RECORD:
            self._submit_long(dest, body)
            return
        self._put(dest, DATA, encoding, body)

    def _make_short(self, dest: int) -> _Short:
        """A persistent request for messages with a number, which are most."""
        buffer = bytearray(FLOATS.size)
        request = self._comm.Send_init([buffer, len(buffer), self._byte], self._ranks[dest], self._tag)
        self._shorts.append(request)
        return request.Start, request.Test, buffer

    def _submit_long(self, dest: int, body: Long) -> None:
        lengths, record = LENGTHS.pack(len(body.record), body.nbytes), body.record
        parts = body.parts()
        if len(record) <= RECORD_ROOM:
            lengths += record
        else:
            parts.insert(0, np.frombuffer(record, np.uint8))
        self._put(dest, DATA, LONG_RECORD, lengths)
        for part in parts:
            request = self._isend([part, part.size, self._byte], self._ranks[dest], self._tag + 1)
            self._leaving.append((request, part))

    def _post(self, dest: int, kind: int, body: bytes = b"") -> None:
        """Send what is no message of the program."""
        self._posted[dest] += 1
        self._put(dest, kind, BYTES, body)

    def _put(self, dest: int, kind: int, encoding: int, body: bytes) -> None:
        """Send what fits into a slot."""
        self._acknowledged[dest] = arrived = self._from[dest]
        text = HEAD.pack(kind, encoding, len(body), self.pid, arrived) + body
        request = self._isend([text, len(text), self._byte], self._ranks[dest], self._tag)
        if not request.Test():
            self._leaving.append((request, text))

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
            self._see_off()
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
                    return True
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
        kind, encoding, length, source, arrived, body = FLOATS.unpack_from(buffer)
        if encoding == INT:
            (body,) = LONG.unpack_from(buffer, HEAD.size)
        elif encoding != FLOAT:
            body = bytes(buffer[HEAD.size : HEAD.size + length])
        self._slot.Start()
        self._at = at = (self._at + 1) % SLOTS
        self._buffer, self._slot, self._full = self._ring[at]
        self._known[source] = arrived
        if kind == DATA:
            if encoding == LONG_RECORD:
                self._fetch(source, body)
            elif source in self._incomplete:
                self._incomplete[source].append(([], encoding, body))
            else:
                self._arrive(source, encoding, body)
            return
        self._taken[source] += 1
        if self._closing:
            return  # nobody waits for an answer
        if kind == REQUEST:
            if self._out < self._capacity:
                self._grant(source, GRANT)
            else:
                self._asking.append(source)
        elif kind in (GRANT, LATE_GRANT):
            self._answer = kind
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
                _, encoding, body = waiting.popleft()
                self._arrive(source, encoding, body)
                found = True
            if not waiting:
                del self._incomplete[source]
        return found

    def _has_room(self, _: Any) -> bool:
        """Whether MPI has few enough messages that have not left; progress is made."""
        self._progress()
        return len(self._leaving) < LEAVING

    def _see_off(self) -> None:
        """Forget what has left."""
        while self._leaving and self._leaving[0][0].Test():
            self._leaving.popleft()

    def _arrive(self, source: int, encoding: int, body: Any) -> None:
        """A message is in the input buffer."""
        self._from[source] = arrived = self._from[source] + 1
        self._inbox.append((source, encoding, body))
        if self._pairwise:
            if arrived - self._acknowledged[source] >= self._owed and not self._closing:
                self._post(source, ACKNOWLEDGEMENT)
        elif self._granting:
            self._out -= 1
            if self._asking and not self._closing:
                self._grant(self._asking.popleft(), LATE_GRANT)

    def _grant(self, source: int, kind: int) -> None:
        self._out += 1
        if self._out > self._most_out:
            self._most_out = self._out
        self._post(source, kind)

    # -- the end ------------------------------------------------------------------------------------------------------

    def tell(self, dest: int, kind: int, body: bytes) -> None:
        """A message for the detection of the end."""
        self._post(dest, kind, body)

    def tell_failure(self, summary: str) -> None:
        """Make all others leave what they wait in."""
        for dest in range(self.p):
            if dest != self.pid:
                self._post(dest, FAILED, summary.encode()[:ROOM])

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
            return
        self._closing = True
        counts: dict[int, Parcel] = {
            dest: {MAIL: Section(posted, 0, 0, None)}
            for dest in range(self.p)
            if (posted := self._to[dest] + self._posted[dest])
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
        return [*self._shorts, *(request for request, _ in self._leaving)]

    def forget(self) -> None:
        while self._ring:
            self._ring.pop()[1].Free()
        while self._shorts:
            self._shorts.pop().Free()
        self._incomplete.clear()
        self._leaving.clear()

    def _came(self, source: int) -> int:
        """Messages of all kinds from a source."""
        return self._from[source] + self._taken[source]

    def _has_left(self, _: Any) -> bool:
        self._see_off()
        return not self._leaving and bool(self._testall(self._shorts))
