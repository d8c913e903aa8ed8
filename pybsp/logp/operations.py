"""A processor of the simulated machine that does a list of operations: no program, and no greenlet."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from ..errors import UsageError
from ..machines.logp import LogPMachine
from .engine import Engine, SimulatedProcessor
from .trace import Trace
from .words import streaming

CALC, SEND, RECV = range(3)
ANY = -1  # source, or tag, of a RECV
MOST_TIME = 1 << 62  # times are less

Channel = tuple[int, int]  # to one processor: source and tag, or ANY


class Operation(NamedTuple):
    """What a processor does.

    size: nanoseconds of CALC, bytes of a message. requires, irequires: numbers of the operations of the same processor
    that are over, and that have begun, before this one begins. peer and tag of a RECV may be ANY.
    """

    kind: int
    size: int
    peer: int = 0
    tag: int = 0
    requires: tuple[int, ...] = ()
    irequires: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.kind == CALC:
            return f"calc {self.size}"
        return f"{'send' if self.kind == SEND else 'recv'} {self.size}b {'to' if self.kind == SEND else 'from'} " + (
            f"{self.peer} tag {self.tag}" if self.tag else f"{self.peer}"
        )


def channels_to(operations: Iterable[Operation]) -> set[Channel]:
    """What a processor receives from."""
    return {(one.peer, one.tag) for one in operations if one.kind == RECV}


def receiving(channels: Set[Channel], source: int, tag: int) -> list[Channel]:
    """Those of a processor's channels that such a message may come by."""
    return [one for one in ((source, tag), (source, ANY), (ANY, tag), (ANY, ANY)) if one in channels]


def waits_of(operations: Sequence[Operation]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Of a processor's operations, for how many each waits; by whom its end is awaited, and by whom its begin."""
    counts = [len(one.requires) + len(one.irequires) for one in operations]
    at_end: list[list[int]] = [[] for _ in operations]
    at_begin: list[list[int]] = [[] for _ in operations]
    for number, one in enumerate(operations):
        for other in one.requires:
            at_end[other].append(number)
        for other in one.irequires:
            at_begin[other].append(number)
    return counts, at_end, at_begin


class ListProcessor(SimulatedProcessor):
    """Does its operations, as its engine lets it go on; it is its own task."""

    def __init__(self, engine: Engine, pid: int, operations: Sequence[Operation]) -> None:
        super().__init__(engine, pid, 0)
        self._operations = operations
        self._waits_for, self._at_end, self._at_begin = waits_of(operations)
        self._ready = [number for number, count in enumerate(self._waits_for) if not count]  # a heap
        self._channels = channels_to(operations)
        self._any = any(ANY in channel for channel in self._channels)
        self._posted: dict[Channel, deque[int]] = {}  # receives that have begun
        self._receives = 0  # of these
        self._early: dict[Channel, int] = {}  # acquired before their receive began: how many
        self._sending: tuple[int, int, int] | None = None  # operation, submission, words

    def switch(self, now: int) -> None:
        """Go on, as what was waited for has come."""
        if self._sending is not None:
            number, at, count = self._sending
            self._sending = None
            self._accepted(at, now, count)
            self._release(self._at_end[number])
        while self._ready or self._receives:
            if self._ready:
                if self._begin(heapq.heappop(self._ready)):
                    return
            elif self._buffer:
                message = self._acquire()
                channel = message.source, message.payload
                if self._any:
                    # A message that nothing receives is that of a channel of its own.
                    channel = next(iter(receiving(self._channels, *channel)), channel)
                self._match(channel)
            else:
                self._waiting = True
                return

    def _begin(self, number: int) -> bool:
        """Begin an operation; whether that waits for its acceptance."""
        one = self._operations[number]
        self._release(self._at_begin[number])
        if one.kind == CALC:
            steps = round(one.size * 1e-9 / self.machine.step)
            self._clock += steps
            self._busy += steps
            if self._clock >= MOST_TIME:
                raise UsageError(
                    f"pybsp.logp: operation {number + 1} of rank {self.pid} ({one}) would end at 2**62 "
                    f"steps or later: argument machine: expected a longer step than {self.machine.step} s"
                )
            self._release(self._at_end[number])
        elif one.kind == SEND:
            count = max(1, (one.size + 7) >> 3)
            at = max(self._clock + self._o, self._next_submission)
            self._busy += self._o
            self._engine.at(at).submissions.append((self.pid, self, one.peer, one.tag, count))
            self._sending = number, at, count
            return True
        else:
            key = one.peer, one.tag
            if self._early.get(key):
                self._early[key] -= 1
                self._release(self._at_end[number])
            else:
                self._posted.setdefault(key, deque()).append(number)
                self._receives += 1
        return False

    def _match(self, key: Channel) -> None:
        waiting = self._posted.get(key)
        if waiting:
            self._receives -= 1
            self._release(self._at_end[waiting.popleft()])
        else:
            self._early[key] = self._early.get(key, 0) + 1

    def _release(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._waits_for[number] -= 1
            if not self._waits_for[number]:
                heapq.heappush(self._ready, number)


def operations_of(trace: Trace, unit: float, starts: Sequence[int] | None = None) -> list[list[Operation]]:
    """Of an execution whose messages were all acquired, each processor's operations, one after the other.

    Args:
        trace: the execution.
        unit: how much of CALC is a step: its nanoseconds, or 1, to count in steps.
        starts: at which each processor began: until then it computes; None: 0.
    """
    events: list[list[_Event]] = [[] for _ in range(trace.p)]
    columns = (trace.source, trace.dest, trace.submission, trace.acceptance, trace.delivery, trace.acquisition)
    o = trace.machine.o
    for source, dest, submission, acceptance, delivery, acquisition, words in zip(
        *(column.tolist() for column in (*columns, trace.words)), strict=True
    ):
        events[source].append(_Event(submission - o, acceptance, SEND, dest, submission, words))
        events[dest].append(_Event(acquisition - o, acquisition, RECV, source, delivery, words))
    begins = starts or [0] * trace.p
    return [_operations(trace.machine, sorted(those), unit, start) for those, start in zip(events, begins, strict=True)]


class _Event(NamedTuple):
    """A message, as one of its processors has it; ready: when it was prepared, or delivered.

    Without overheads several begin at a time: the first is what was over first.
    """

    begin: int
    ended: int
    kind: int
    peer: int
    ready: int
    words: int


def _operations(machine: LogPMachine, events: Sequence[_Event], unit: float, start: int) -> list[Operation]:
    """One after the other; between two so much computing as explains the time of the second."""
    found: list[Operation] = []
    o, G = machine.o, machine.G
    time = next_submission = next_acquisition = start
    received = False

    def add(kind: int, size: int, peer: int = 0) -> None:
        found.append(Operation(kind, size, peer, requires=(len(found) - 1,) if found else ()))

    if start:
        add(CALC, round(start * unit))
    for begin, ended, kind, peer, ready, words in events:
        further = streaming(machine, words)
        if kind == SEND:
            least = max(time, next_submission - o)
        else:
            least = max(time, next_acquisition + further * received, ready)
        if begin > least:
            add(CALC, round((begin - time) * unit))
        add(kind, 8 * words, peer)
        if kind == SEND:
            time, next_submission = ended, max(ready + further + G, ended + further + 1 if ended > ready else 0)
        else:
            time, next_acquisition, received = begin + o, begin + G, True
    return found
