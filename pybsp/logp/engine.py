"""The LogP machine, to the letter: processors as greenlets, the medium as events in whole steps.

Within a step deliveries come first and free capacity, then processors submit, then the medium accepts (*BSP vs LogP*,
section 2.2). A processor runs ahead of the medium as long as nothing it does depends on it: it computes, prepares
messages and acquires those that are there without waiting, and gives way where it submits, or has nothing to acquire.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import greenlet
import numpy as np

from ..errors import DeadlockError, UnreceivedError, UsageError
from ..machine import LogPMachine
from .payload import copied
from .processor import Message
from .schedule import Schedule
from .trace import Steps, Trace


@dataclass(frozen=True)
class Simulation:
    """What a simulated execution gives; times in steps.

    Attributes:
        results: of each processor, by pid.
        time: when the last processor ended.
        finished: when each ended, shape (p,), as those that follow.
        busy: steps that each prepared, acquired and computed.
        stalls: steps that each stalled.
        idle: steps that each waited, or had ended, until `time`.
        in_transit: the largest number of messages in transit to each at a time.
        trace: every message's submission, acceptance, delivery and acquisition.
    """

    results: list[Any]
    time: int
    finished: Steps
    busy: Steps
    stalls: Steps
    idle: Steps
    in_transit: Steps
    trace: Trace

    @property
    def machine(self) -> LogPMachine:
        return self.trace.machine

    @property
    def stalled(self) -> int:
        """Steps that all processors stalled."""
        return int(self.stalls.sum())

    @property
    def max_in_transit(self) -> int:
        """The largest number of messages in transit to one destination at a time."""
        return int(self.in_transit.max(initial=0))

    def _check(self) -> None:
        """`Trace._check`, and that what was counted is what the trace says."""
        trace = self.trace
        trace._check()
        assert (trace.in_transit() == self.in_transit).all(), "the maximum in transit was counted wrongly"
        waited = np.bincount(trace.source, trace.acceptance - trace.submission, trace.p).astype(np.int64)
        assert (waited == self.stalls).all(), "stalled steps were counted wrongly"
        handled = np.bincount(trace.source, minlength=trace.p) + np.bincount(trace.dest, minlength=trace.p)
        assert (self.busy >= trace.machine.o * handled).all(), "busy steps were counted wrongly"
        assert (self.idle >= 0).all(), "a processor was busy or stalled for longer than the execution took"


_Submission = tuple[int, "SimulatedProcessor", int, Any]  # pid, processor, dest, payload


class _Step:
    """What happens at one time."""

    __slots__ = ("deliveries", "submissions", "wakes")

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, int, int, Any]] = []  # dest, number, source, payload
        self.wakes: list[tuple[SimulatedProcessor, int]] = []  # and which of its waits
        self.submissions: list[_Submission] = []


class SimulatedProcessor:
    """A processor of the simulated machine; see `Processor` for what its methods promise."""

    timed = True

    def __init__(self, engine: Engine, pid: int, clock: int) -> None:
        self.p, self.pid, self.machine = engine.machine.p, pid, engine.machine
        self._engine, self._clock = engine, clock
        self._started = clock
        self._o, self._G = engine.machine.o, engine.machine.G
        self._next_submission = self._next_acquisition = clock  # may not begin before
        self._buffer: deque[tuple[int, int, Any]] = deque()  # delivered and not acquired: number, source, payload
        self._busy = self._stalled = 0
        self._waits = 0  # so many waits have begun; a wake for an earlier one is void
        self._waiting = False  # for a delivery
        self._until: int | None = None

    @property
    def time(self) -> int:
        return self._clock

    def send(self, dest: int, payload: Any) -> None:
        if type(dest) is not int or not 0 <= dest < self.p or dest == self.pid:
            dest = self._destination(dest)
        payload = copied(payload)
        engine, at = self._engine, self._clock + self._o
        if at < self._next_submission:
            at = self._next_submission
        self._busy += self._o
        engine.at(at).submissions.append((self.pid, self, dest, payload))
        accepted = engine.give_way()
        self._next_submission = at + self._G
        if accepted > at:
            self._stalled += accepted - at
            # The register is free when the medium has taken the message, at the end of that step.
            if accepted >= self._next_submission:
                self._next_submission = accepted + 1
        self._clock = accepted

    def _destination(self, dest: Any) -> int:
        if isinstance(dest, np.integer) and 0 <= dest < self.p and dest != self.pid:
            return int(dest)
        raise UsageError(
            f"proc.send: argument dest: expected another processor, from 0 to {self.p - 1} and not {self.pid} itself, "
            f"got {dest!r}; keep what is for this processor in a variable"
        )

    def recv(self, until: int | None = None) -> Message | None:
        if until is not None:
            until = max(_steps("proc.recv", "until", until, None), self._clock)
        if not self._buffer:
            engine = self._engine
            if until is not None and (self._next_acquisition > until or not engine.wake(self, until)):
                self._clock = until
                return None
            self._waiting, self._until = True, until
            engine.give_way()
            if not self._buffer:
                assert until is not None
                self._clock = until
                return None
        elif until is not None and self._next_acquisition > until:
            self._clock = until
            return None
        return self._acquire()

    def poll(self) -> Message | None:
        if not self._buffer and self._engine.wake(self, self._clock):
            self._engine.give_way()
        if not self._buffer:
            self._clock += 1
            self._busy += 1
            return None
        return self._acquire()

    def _acquire(self) -> Message:
        """Acquire what was delivered first; it is there, or will be when this processor can begin."""
        number, source, payload = self._buffer.popleft()
        engine = self._engine
        begin = max(self._clock, engine.delivery[number], self._next_acquisition)
        self._next_acquisition = begin + self._G
        self._clock = begin + self._o
        self._busy += self._o
        engine.acquisition[number] = self._clock
        return Message(source, payload)

    def compute(self, steps: int) -> None:
        steps = _steps("proc.compute", "steps", steps, 0)
        self._clock += steps
        self._busy += steps


class Engine:
    """One execution of a LogP machine.

    Args:
        machine: its parameters; max{2, o} <= G <= L.
        schedule: what decides where the model leaves a choice.
    """

    def __init__(self, machine: LogPMachine, schedule: Schedule) -> None:
        self.machine, self._schedule = machine, schedule
        self._agenda: dict[int, _Step] = {}
        self._times: list[int] = []  # a heap of the agenda's
        self._tasks: list[greenlet.greenlet] = []
        self._now = -1  # deliveries up to this step have been made
        self._hub = greenlet.getcurrent()
        p = machine.p
        self._in_transit, self._most = [0] * p, [0] * p
        self._taken: list[set[int]] = [set() for _ in range(p)]  # steps at which something will be delivered
        self._pending: list[list[tuple[int, _Submission]]] = [[] for _ in range(p)]  # number, submission
        self._source: list[int] = []
        self._dest: list[int] = []
        self._submission: list[int] = []
        self._acceptance: list[int] = []
        self.delivery: list[int] = []
        self.acquisition: list[int] = []

    def run(
        self, bodies: Sequence[Callable[[SimulatedProcessor], Any]], starts: Sequence[int] | None = None
    ) -> Simulation:
        """Run a body on each processor, from time 0 or from the given starts, to the ends of all.

        Raises:
            what a body raised, first in time.
            DeadlockError: processors wait for messages that nobody will send.
            UnreceivedError: messages were left that nobody received.
        """
        p = self.machine.p
        assert len(bodies) == p
        self._schedule.begin(self.machine)
        processors = [SimulatedProcessor(self, pid, 0 if starts is None else starts[pid]) for pid in range(p)]
        results: list[Any] = [None] * p

        def begun(processor: SimulatedProcessor) -> Callable[[int], None]:
            def run_processor(now: int) -> None:
                try:
                    results[processor.pid] = bodies[processor.pid](processor)
                except Exception as error:
                    if hasattr(error, "add_note"):
                        error.add_note(
                            f"(on processor {processor.pid} of {p} of the LogP machine, time {processor.time})"
                        )
                    raise

            return run_processor

        tasks = self._tasks = [greenlet.greenlet(begun(processor), self._hub) for processor in processors]
        for processor in processors:
            self.at(processor._clock).wakes.append((processor, 0))
        try:
            self._simulate(processors)
        finally:
            waiting = [pid for pid, task in enumerate(tasks) if not task.dead]
            for pid in waiting:
                tasks[pid].throw(greenlet.GreenletExit)
        if waiting:
            raise DeadlockError(
                f"pybsp.logp: {_processors(waiting)} in recv for messages that nobody will send: all others have "
                "ended, and nothing is in transit"
            )
        lost = np.array(self.acquisition, np.int64) < 0
        if lost.any():
            left = np.bincount(np.array(self._dest)[lost], minlength=p)
            raise UnreceivedError(
                f"pybsp.logp: the program has ended, and {int(left.sum())} messages were not received: "
                + ", ".join(f"{left[pid]} to processor {pid}" for pid in np.flatnonzero(left)[:10])
                + "; each message needs a recv, or a poll that finds it"
            )
        return self._result(processors, results)

    def _simulate(self, processors: Sequence[SimulatedProcessor]) -> None:
        """Go from event to event until nothing more can happen."""
        times, agenda, tasks = self._times, self._agenda, self._tasks
        while times:
            now = self._now = heapq.heappop(times)
            step = agenda[now]
            # 1. Deliveries, which free capacity.
            ready: list[SimulatedProcessor] = []
            congested: set[int] = set()
            for dest, number, source, payload in step.deliveries:
                self.delivery[number] = now
                self._taken[dest].discard(now)
                self._in_transit[dest] -= 1
                if self._pending[dest]:
                    congested.add(dest)
                processor = processors[dest]
                processor._buffer.append((number, source, payload))
                if processor._waiting:
                    ready.append(processor)
            # 2. Processors go on: those that waited for a message, and those whose time has come.
            for processor, wait in step.wakes:
                if processor._waits == wait and not (processor._waiting and processor._buffer):
                    ready.append(processor)
            for processor in ready:
                processor._waiting = False
                processor._waits += 1
                tasks[processor.pid].switch(now)
            # 3. Submissions are accepted while there is room; they are taken by pid, whatever order they were made in.
            accepted: list[SimulatedProcessor] = []
            if step.submissions:
                if len(step.submissions) > 1:
                    step.submissions.sort(key=_pid)
                for submission in step.submissions:
                    self._submit(now, submission, congested, accepted)
            for dest in sorted(congested):
                self._accept_waiting(now, dest, accepted)
            # 4. Their processors go on. What they do now cannot change this step any more.
            for processor in accepted:
                tasks[processor.pid].switch(now)
            del agenda[now]

    def _submit(
        self, now: int, submission: _Submission, congested: set[int], accepted: list[SimulatedProcessor]
    ) -> None:
        pid, processor, dest, payload = submission
        number = len(self._source)
        self._source.append(pid)
        self._dest.append(dest)
        self._submission.append(now)
        self._acceptance.append(-1)
        self.delivery.append(-1)
        self.acquisition.append(-1)
        # Whether there is room for all that are submitted in this step is known when all have been seen.
        self._pending[dest].append((number, submission))
        congested.add(dest)

    def _accept_waiting(self, now: int, dest: int, accepted: list[SimulatedProcessor]) -> None:
        pending = self._pending[dest]
        room = self.machine.capacity - self._in_transit[dest]
        if room >= len(pending):
            chosen, self._pending[dest] = pending, []
        elif room:
            indices = list(self._schedule.acceptances(dest, [submission[0] for _, submission in pending], room))
            left = set(range(len(pending))).difference(indices)
            if len(indices) != room or len(left) != len(pending) - room:
                raise UsageError(
                    f"{type(self._schedule).__name__}.acceptances: expected {room} different indices below "
                    f"{len(pending)}, got {indices}"
                )
            chosen = [pending[k] for k in indices]
            self._pending[dest] = [pending[k] for k in sorted(left)]
        else:
            return
        taken, L, decide = self._taken[dest], self.machine.L, self._schedule.delivery
        for number, (pid, processor, _, payload) in chosen:
            at = decide(pid, dest, now, taken)
            if at in taken or not now < at <= now + L:
                raise UsageError(
                    f"{type(self._schedule).__name__}.delivery: expected a free step from {now + 1} to {now + L} for a "
                    f"message to processor {dest}, got {at!r}"
                )
            taken.add(at)
            self._acceptance[number] = now
            self.at(at).deliveries.append((dest, number, pid, payload))
            accepted.append(processor)
        self._in_transit[dest] += len(chosen)
        self._most[dest] = max(self._most[dest], self._in_transit[dest])

    def at(self, time: int) -> _Step:
        """What happens at a time that has not passed."""
        step = self._agenda.get(time)
        if step is None:
            step = self._agenda[time] = _Step()
            heapq.heappush(self._times, time)
        return step

    def wake(self, processor: SimulatedProcessor, time: int) -> bool:
        """Let the processor go on at a time, after that step's deliveries; False if they have been made."""
        if time <= self._now:
            return False
        self.at(time).wakes.append((processor, processor._waits))
        return True

    def give_way(self) -> int:
        """Let the current processor wait; returns the time at which it goes on."""
        now: int = self._hub.switch()
        return now

    def _result(self, processors: Sequence[SimulatedProcessor], results: list[Any]) -> Simulation:
        finished, began, busy, stalls = (
            np.array([getattr(processor, name) for processor in processors], np.int64)
            for name in ("_clock", "_started", "_busy", "_stalled")
        )
        time = int(finished.max(initial=0))
        records = (self._source, self._dest, self._submission, self._acceptance, self.delivery, self.acquisition)
        trace = Trace(self.machine, *(np.array(values, np.int64) for values in records))
        in_transit = np.array(self._most, np.int64)
        return Simulation(results, time, finished, busy, stalls, time - began - busy - stalls, in_transit, trace)


def _pid(submission: _Submission) -> int:
    return submission[0]


def _steps(operation: str, argument: str, steps: Any, least: int | None) -> int:
    """A whole number of steps."""
    if isinstance(steps, (int, np.integer)) and not isinstance(steps, bool) and (least is None or steps >= least):
        return int(steps)
    expected = "a whole number of steps" + ("" if least is None else f" of at least {least}")
    raise UsageError(
        f"{operation}: argument {argument}: expected {expected}, got {steps!r}; times are counted in steps"
    )


def _processors(pids: Sequence[int]) -> str:
    """`processors 0, 3 and 5 wait`."""
    shown = ", ".join(str(pid) for pid in pids[:10]) + (f" and {len(pids) - 10} more" if len(pids) > 10 else "")
    return f"processor {shown} waits" if len(pids) == 1 else f"processors {shown} wait"
