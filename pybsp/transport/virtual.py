"""Processors as greenlets in this process, taking turns: deterministic, any number, without MPI.

A processor runs until it enters an exchange, then the next one that can runs. Parcels are handed over as they are
(what they hold was copied when it was sent). Time is virtual: an exchange that ends a superstep takes what the
machine says it costs.
"""

from __future__ import annotations

import gc
import math
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from threading import get_ident
from typing import Any
from weakref import WeakSet

import greenlet

from ..errors import AbortError, BSPError, SyncError, UsageError
from ..ground.failures import Failure, processor_error
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from . import FLAG_GETS, FLAG_PACKETS, FREE, JOINED, KIND, Arrival, Charge, Parcel, Parcels
from .memory import BufferPool

Carry = Callable[[float, float, Mapping[tuple[int, int], int]], float]
"""What a superstep takes on a network: its beginning, the time of computing, and the words from and to processors."""

NOBODY: Sequence[tuple[int, Parcel]] = ()
_source = itemgetter(0)  # of what comes in
_GOES_ON = FLAG_GETS | FLAG_PACKETS  # another exchange belongs to the superstep


class VirtualProcessor(greenlet.greenlet):
    """What a virtual processor runs in."""

    pid = 0


def is_virtual() -> bool:
    """Whether this is called on a virtual processor, in a greenlet of its program's own too."""
    return current_pid() is not None


def current_pid() -> int | None:
    """The number of the virtual processor that this is called on; None: on none."""
    return _pid_of(greenlet.getcurrent())


def _pid_of(one: greenlet.greenlet | None) -> int | None:
    """Of the virtual processor that a greenlet is, or is one of."""
    while one is not None and not isinstance(one, VirtualProcessor):
        one = one.parent
    return None if one is None else one.pid


def _nothing() -> list[int]:
    return [0] * 6


class MachineFailed(BaseException):
    """The machine has failed, by its `VirtualMeeting.ends_at`: raised on all its processors."""


class Scheduler:
    """Runs each greenlet in turn until it waits.

    Where nobody can go on, processors wait for each other in different machines: the circle of them is an error on all
    that wait, as on ranks (crossing.py), and in whatever exchange they enter after it. Where one of them tells of a
    failure, that is the error.

    Attributes:
        ready: those that can go on.
        meetings: all that there are.
        where: each processor is, in words, by pid: only where they may be in different machines.
        lost: makes that error; None before.
        thread: in which all of them run.
    """

    def __init__(self) -> None:
        self.ready: deque[greenlet.greenlet] = deque()
        self.meetings: WeakSet[VirtualMeeting] = WeakSet()
        self.where: dict[int, Callable[[], str]] = {}
        self.lost: Callable[[], BSPError] | None = None
        self.thread = get_ident()
        self._hub = greenlet.getcurrent()

    def require_thread(self) -> None:
        """Refuse a call from a thread that the program has started: no greenlet goes on in another than its own."""
        if get_ident() != self.thread:
            raise UsageError(
                "pybsp.simulate: expected supersteps to end in the thread that the program runs in, got the end of one "
                "(bsp.sync, a collective or the like) in another; let that thread compute alone, or run on ranks"
            )

    def wait(self) -> None:
        """Let others run until somebody has put the current greenlet back among the ready ones."""
        ready = self.ready
        if ready and ready[0]:
            ready.popleft().switch()
        elif self.lost:
            raise self.lost()
        else:
            # Nobody is ready, or one that has not begun: the hub begins it, for a new greenlet starts at the recursion
            # depth of the one that switches to it.
            self._hub.switch()

    def run(self, bodies: Sequence[Any]) -> None:
        """Run all bodies to their ends, in order, each until it waits.

        Raises:
            SyncError: all of those left wait for one that will not come.
        """
        tasks = [VirtualProcessor(body, self._hub) for body in bodies]
        for pid, task in enumerate(tasks):
            task.pid = pid
        # By pid, so that all runs take turns alike.
        self.ready.extend(tasks)
        young, *older = gc.get_threshold()
        if young:
            # A full collection walks what all processors hold: let as many more objects be made between two of them.
            gc.set_threshold(max(young, 64 * len(tasks)), *older)
        try:
            while self.ready:
                self.ready.popleft().switch()
            # Nobody is ready, so each of those left waits for one that has ended, or that waits too.
            if self.where and (circle := self._circle()):
                from .crossing import crossed  # nobody else needs it

                failures = self._failures(len(tasks))
                self._lose(
                    partial(processor_error, failures) if any(failures) else partial(SyncError, str(crossed(circle)))
                )
            if not all(task.dead for task in tasks):
                waiting = [pid for pid, task in enumerate(tasks) if not task.dead]
                raise SyncError(f"processors {waiting[:10]} wait for others that will not come")
        finally:
            gc.set_threshold(young, *older)
            for task in tasks:
                if not task.dead:
                    task.throw(greenlet.GreenletExit)

    def _circle(self) -> Sequence[tuple[int, str]]:
        """Processors each of which waits for the next one, and where; none where one waits for one that is gone."""
        awaited = {pid: other for meeting in self.meetings for pid, other in meeting.waits()}
        found: list[int] = []
        one = min(awaited, default=-1)
        while one in awaited and one not in found:
            found.append(one)
            one = awaited[one]
        return [(pid, self.where[pid]()) for pid in found[found.index(one) :]] if one in awaited else ()

    def _failures(self, p: int) -> Sequence[Failure | None]:
        """The failures that processors tell of, by pid."""
        found: list[Failure | None] = [None] * p
        for meeting in self.meetings:
            for pid, note in zip(meeting.pids, meeting.notes, strict=True):
                if isinstance(note, Failure):
                    found[pid] = note
        return found

    def _lose(self, error: Callable[[], BSPError]) -> None:
        """All that wait learn that nobody can go on."""
        self.lost = error
        everybody = [one for meeting in self.meetings for one in meeting.leave()]
        for waiting in sorted(everybody, key=lambda one: _pid_of(one) or 0):
            waiting.throw(error())


class VirtualMeeting:
    """What the processors of one virtual machine (or of a part of it) share: who has come, and with what."""

    def __init__(
        self,
        p: int,
        scheduler: Scheduler,
        machine: BSPMachine | EBSPMachine,
        clock: float = 0.0,
        carry: Carry | None = None,
        pids: Sequence[int] = (),
    ) -> None:
        self.p, self.scheduler, self.machine, self.clock = p, scheduler, machine, clock
        self.carry = carry
        self.pids = pids or range(p)  # of the processors in the whole machine
        self.pairs: defaultdict[tuple[int, int], int] = defaultdict(int)  # words from and to, where a network carries
        self.ends_at = math.inf  # virtual seconds
        self.failed = False
        self.generation = 0
        self.seconds = 0.0  # of computing, of the slowest processor in the superstep that goes on
        self.traffic: defaultdict[int, list[int]] = defaultdict(
            _nothing
        )  # pid: words, messages, items of queues, each out and in
        self.last: tuple[Sequence[int] | None, Sequence[Any] | None, dict[int, list[tuple[int, Parcel]]]]
        self.outcome: Sequence[Any] | Exception = ()
        self.parts: dict[Any, VirtualMeeting] = {}
        self.alike: dict[
            int, tuple[Any, float]
        ] = {}  # what all make in the superstep that goes on, and how long it took
        # Of swaps: what lies ready, by (from, to), and who waits, for whom.
        self.handed: defaultdict[tuple[int, int], deque[Any]] = defaultdict(deque)
        self.expecting: dict[tuple[int, int], greenlet.greenlet] = {}
        self.arrived: float = 0
        self._clear()
        scheduler.meetings.add(self)

    def together(self, pid: int, brought: Any, act: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        """See `VirtualTransport.together`."""
        self.scheduler.require_thread()
        self.brought[pid] = brought
        self.arrived += 1
        if self.arrived < self.p:
            self.waiting.append(greenlet.getcurrent())
            self.scheduler.wait()
        else:
            try:
                self.outcome = act(self.brought)
            except Exception as error:  # all raise it
                self.outcome = error
            self.generation += 1
            self.scheduler.ready.extend(self.waiting)
            self._clear()
        outcome = self.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome[pid]

    def swap(self, pid: int, partner: int, brought: Any) -> Any:
        """Hand this over to the partner, and wait for what it hands over."""
        self.scheduler.require_thread()
        # First in, first out, by direction: two processors swap in the same order, here and there.
        self.handed[pid, partner].append(brought)
        waiting = self.expecting.pop((partner, pid), None)
        if waiting is not None:
            self.scheduler.ready.append(waiting)
        mine = self.handed[partner, pid]
        if not mine:
            self.expecting[pid, partner] = greenlet.getcurrent()
            self.scheduler.wait()
        return mine.popleft()

    def waits(self) -> Iterator[tuple[int, int]]:
        """Who waits here, and for whom, the first where there are several; numbers in the whole machine."""
        came = {_pid_of(one) for one in self.waiting}
        missing = min((pid for pid in self.pids if pid not in came), default=-1)
        for pid in came:
            assert pid is not None
            yield pid, missing
        for pid, partner in self.expecting:
            yield self.pids[pid], self.pids[partner]

    def leave(self) -> Sequence[greenlet.greenlet]:
        """Nobody goes on here any more, whoever comes; returns those that wait."""
        waiting = [*self.waiting, *self.expecting.values()]
        self._clear()
        self.expecting.clear()
        self.arrived = -math.inf
        return waiting

    def _clear(self) -> None:
        self.kinds = [0] * self.p
        self.notes: list[Any] = [None] * self.p
        self.inbound: dict[int, list[tuple[int, Parcel]]] = {}
        self.brought: list[Any] = [None] * self.p
        self.waiting: list[greenlet.greenlet] = []
        self.arrived = 0
        self.has_notes = False

    def _count(self) -> None:
        """Add what this exchange carries to the traffic of the superstep."""
        # Time counts here: of a total exchange there are p * p parcels.
        traffic, carry = self.traffic, self.carry
        for dest, parcels in self.inbound.items():
            words_in = messages_in = items_in = 0
            for source, parcel in parcels:
                if source == dest:
                    continue
                words = messages = items = 0
                for stream, (_, size, count, _) in parcel.items():
                    words += size
                    if stream < JOINED:
                        messages += count
                    else:  # what a queue sends to one processor is one message
                        messages += 1
                        items += count
                if messages:
                    there = traffic[source]
                    there[0] += words
                    there[2] += messages
                    there[4] += items
                    words_in += words
                    messages_in += messages
                    items_in += items
                    if carry is not None:
                        self.pairs[self.pids[source], self.pids[dest]] += max(words, 1)
            here = traffic[dest]
            here[1] += words_in
            here[3] += messages_in
            here[5] += items_in

    def close(self, charge: Charge) -> None:
        """The last has come: let the clock run, lay out the result, wake the others."""
        first = self.kinds[0]
        uniform = not self.has_notes and not first & ~KIND and self.kinds.count(first) == self.p
        for parcels in self.inbound.values():
            # By source, as on ranks, and not by who had its turn first.
            if len(parcels) > 1:
                parcels.sort(key=_source)
        if charge.counts:
            self._count()
        # Time runs at a superstep's end alone; its exchanges before that only add to the traffic.
        if charge.counts and not any(kind & _GOES_ON for kind in self.kinds):
            h = max((max(t[0], t[1]) for t in self.traffic.values()), default=0)
            messages = max((max(t[2], t[3]) for t in self.traffic.values()), default=0)
            items = max((max(t[4], t[5]) for t in self.traffic.values()), default=0)
            words = sum(t[0] for t in self.traffic.values())
            if self.carry is None:
                self.clock += self.machine.elapsed(self.seconds, h, messages, words, items)
            else:
                self.clock += self.carry(self.clock, self.seconds, self.pairs)
                self.pairs = defaultdict(int)
            self.seconds = 0.0
            self.traffic = defaultdict(_nothing)
        self.alike.clear()
        self.failed = self.clock > self.ends_at
        self.generation += 1
        # All read it before it changes: the next exchange closes only when all have entered it.
        self.last = (None if uniform else self.kinds, self.notes if self.has_notes else None, self.inbound)
        # In the order in which they came: who takes turns how depends on nothing else.
        self.scheduler.ready.extend(self.waiting)
        self._clear()


class VirtualTransport:
    """One virtual processor. See `Transport` for what its methods promise."""

    def __init__(self, meeting: VirtualMeeting, pid: int, root: VirtualTransport | None = None) -> None:
        self.p, self.pid = meeting.p, pid
        self.pool: BufferPool = root.pool if root else BufferPool()
        self._meeting = meeting

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        meeting, pid = self._meeting, self.pid
        meeting.scheduler.require_thread()
        meeting.kinds[pid] = kind
        if note is not None:
            meeting.notes[pid] = note
            meeting.has_notes = True
        for dest, parcel in parcels.items():
            # Not copied: what a parcel holds was copied when it was sent.
            meeting.inbound.setdefault(dest, []).append((pid, parcel))
        if charge.seconds > meeting.seconds:
            meeting.seconds = charge.seconds
        meeting.arrived += 1
        if meeting.arrived < self.p:
            meeting.waiting.append(greenlet.getcurrent())
            meeting.scheduler.wait()
        else:
            meeting.close(charge)
        if meeting.failed:
            raise MachineFailed
        kinds, notes, inbound = meeting.last
        return Arrival(kinds, notes, inbound.get(pid, NOBODY), {})

    def post(self, kind: int, note: object, parcels: Parcels) -> Callable[..., Arrival]:
        return partial(self.exchange, kind, note, parcels)

    def swap(
        self, partner: int, kind: int, note: object, parcel: Parcel | None, grace: float | None = None
    ) -> tuple[int, Any, Parcel]:
        found: tuple[int, Any, Parcel] = self._meeting.swap(self.pid, partner, (kind, note, parcel or {}))
        return found

    @property
    def alike(self) -> dict[int, tuple[Any, float]]:
        """What is made once for all of them until the next exchange, by a key, and the seconds that it took."""
        return self._meeting.alike

    @property
    def machine(self) -> BSPMachine | EBSPMachine:
        """The machine by which virtual time runs."""
        return self._meeting.machine

    def together(self, brought: Any, act: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        """Meet all processors, where a router has another medium than `exchange`.

        Args:
            brought: what this processor brings.
            act: called by the last to come with what all brought, by pid; gives what each gets. What it raises all do.
        """
        return self._meeting.together(self.pid, brought, act)

    def elapse(self, time: float) -> None:
        """Let the clock show this time, in seconds, if it is behind it."""
        self._meeting.clock = max(self._meeting.clock, time)

    def subset(self, members: Sequence[int], context: int) -> VirtualTransport:
        meeting = self._meeting
        # All members ask between the same two exchanges, and the first one makes it: the same members later are another
        # part.
        key = (meeting.generation, tuple(members))
        part = meeting.parts.get(key)
        if part is None:
            pids = [meeting.pids[member] for member in members]
            part = VirtualMeeting(len(members), meeting.scheduler, meeting.machine, meeting.clock, meeting.carry, pids)
            # Of an earlier exchange: all of its members have it.
            meeting.parts = {k: v for k, v in meeting.parts.items() if k[0] == meeting.generation}
            meeting.parts[key] = part
        return VirtualTransport(part, members.index(self.pid), self)

    def watch_crossing(self, where: Callable[[], str]) -> None:
        self._meeting.scheduler.where[self._meeting.pids[self.pid]] = where

    one_clock = None

    @property
    def hosts(self) -> Sequence[str]:
        return [os.uname().nodename] * self.p

    def clocks(self) -> list[float]:
        return []  # there is nothing to compare

    def time(self) -> float:
        return self._meeting.clock

    def abort(self, message: str) -> None:
        raise AbortError(message)

    def revoke(self, cause: BaseException) -> None:
        """All others of the machine are taken down with this processor."""

    @property
    def revoked(self) -> bool:
        return self._meeting.scheduler.lost is not None

    @property
    def settled(self) -> BSPError | None:
        lost = self._meeting.scheduler.lost
        return None if lost is None else lost()

    def free(self) -> None:
        pass
