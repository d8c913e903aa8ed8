"""The LogP machine, to the letter: processors as greenlets, the medium as events in whole steps.

Within a step deliveries come first and free capacity, then processors submit, then the medium accepts (*BSP vs LogP*,
section 2.2). A processor runs ahead of the medium as long as nothing it does depends on it: it computes, prepares
messages and acquires those that are there without waiting, and gives way where it submits, or has nothing to acquire.
"""

from __future__ import annotations

import heapq
import html
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NoReturn, Protocol, overload

import greenlet
import numpy as np

from ..errors import DeadlockError, ProcessorError, UnreceivedError, UsageError, brief, usage_error
from ..ground.failures import note_place
from ..ground.instead import hinting
from ..machines.logp import LogPMachine
from . import wording
from .arguments import MOST_STEPS, destination, whole, whole_steps
from .payload import arriving, read
from .processor import Message
from .schedule import Schedule
from .task import ProgramTask
from .trace import Times, Trace
from .words import streaming, words

LANES = 64  # of a picture; of more processors several are in one
BINS = 240  # of its time


@dataclass(frozen=True, repr=False)
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

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
        >>> simulation = pybsp.logp.simulate(program, machine=machine)
        >>> simulation.results[0], simulation.time, simulation.stalled, simulation.max_in_transit
        (14, 24, 0, 3)
        >>> simulation.busy.tolist(), simulation.idle.tolist(), simulation.machine == machine
        ([3, 1, 1, 1], [21, 23, 23, 23], True)
    """

    results: list[Any]
    time: int
    finished: Times
    busy: Times
    stalls: Times
    idle: Times
    in_transit: Times
    trace: Trace

    def __repr__(self) -> str:
        return (
            f"<simulation: {self.machine.p} processors, {self.time} steps, stalled {self.stalled}, "
            f"{len(self.trace)} messages, at most {self.max_in_transit} in transit to one>"
        )

    def _repr_html_(self) -> str:
        from ..ground.drawing import Axis, lanes

        groups = -(-self.machine.p // LANES)  # of several in a lane their means
        firsts = np.arange(0, self.machine.p, groups)
        parts = np.stack([np.zeros(self.machine.p), self.busy, self.stalls, self.idle])
        sizes = np.diff(np.append(firsts, self.machine.p))
        ends = np.cumsum(np.add.reduceat(parts, firsts, axis=1) / sizes, axis=0)
        # One part after the other: of each bin what is below a part's end, less what is below its beginning.
        bins = np.linspace(0, max(self.time, 1), BINS, endpoint=False)
        below = np.clip((ends[:, :, None] - bins) * BINS / max(self.time, 1), 0, 1)
        along = Axis(0, self.time, "steps, in all")
        drawn = lanes(list(np.diff(below, axis=0)), ["busy", "stalled", "idle"], along, "processor", self.machine.p)
        when = "When each did what: <code>pybsp.logp.Timeline.of(simulation)</code>"
        head = html.escape(repr(self)[1:-1])
        return f'<p><b>{head}</b></p><div style="max-width:640px">{drawn}</div><p>{when}</p>'

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


_current: Callable[[], Any] = greenlet.getcurrent

_Submission = tuple[int, "SimulatedProcessor", int, Any, int]  # pid, processor, dest, payload, words


class Task(Protocol):
    """What a processor does, as far as the medium knows it."""

    def switch(self, now: int, /) -> Any:
        """Go on, until something has to wait for the medium."""


class _Events:
    """The events of one time."""

    __slots__ = ("deliveries", "submissions", "wakes")

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, int, int, Any]] = []  # dest, number, source, payload
        self.wakes: list[tuple[SimulatedProcessor, int]] = []  # and which of its waits
        self.submissions: list[_Submission] = []


@hinting("proc")
class SimulatedProcessor:
    """A processor of the simulated machine; see `Processor` for what its methods promise."""

    timed = True

    def __init__(self, engine: Engine, pid: int, clock: int) -> None:
        self.p, self.pid, self.machine = engine.machine.p, pid, engine.machine
        self._engine, self._clock = engine, clock
        self._started = clock
        self._o, self._G = engine.machine.o, engine.machine.G
        self._long = bool(engine.machine.G_word)  # whether sizes take time
        self._sized = engine.sized or self._long
        self._next_submission = self._next_acquisition = clock  # may not begin before
        self._buffer: deque[tuple[int, int, Any]] = deque()  # delivered and not acquired: number, source, payload
        self._busy = self._stalled = 0
        self._waits = 0  # so many waits have begun; a wake for an earlier one is void
        self._waiting = False  # for a delivery
        self._acquired = False  # a message before
        self._task: ProgramTask | None = None
        self.stalls = 0

    def __repr__(self) -> str:
        return f"<processor {self.pid} of {self.p}, step {self._clock}>"

    @property
    def time(self) -> int:
        return self._clock

    @property
    def stalled_seconds(self) -> float:
        return self._stalled * self.machine.step

    def send(self, dest: int, payload: Any) -> None:
        if _current() is not self._task:
            self._refuse("proc.send")
        if type(dest) is not int or not 0 <= dest < self.p or dest == self.pid:
            dest = destination(dest, self.p, self.pid)
        arrives = arriving(payload)
        count = words(payload) if self._sized else 1
        engine, at = self._engine, self._clock + self._o
        if at < self._next_submission:
            at = self._next_submission
        self._busy += self._o
        engine.at(at).submissions.append((self.pid, self, dest, arrives, count))
        self._accepted(at, engine.give_way(), count)

    def _accepted(self, at: int, accepted: int, count: int) -> None:
        """What was submitted at a time has been accepted."""
        stream = streaming(self.machine, count) if count > 1 else 0
        self._next_submission = at + stream + self._G
        if accepted > at:
            self.stalls += 1
            self._stalled += accepted - at
            # The register is free when the medium has taken the message with its last word, at the end of that step.
            if accepted + stream >= self._next_submission:
                self._next_submission = accepted + stream + 1
        self._clock = accepted

    def recv(self, until: int | None = None) -> Message | None:
        if _current() is not self._task:
            self._refuse("proc.recv")
        if until is not None:
            until = whole_steps("proc.recv", "until", until)
            if until < self._clock:
                return self._acquire() if self._arrived() else None
            if self._next_acquisition > until:
                self._clock = until
                return None
        if not self._buffer:
            engine = self._engine
            if until is None or engine.wake(self, until):
                self._waiting = True
                engine.give_way()
            if not self._buffer:
                assert until is not None
                self._clock = until
                return None
        if until is not None and self._long and self._next_begin(self._buffer[0][0]) > until:
            self._clock = until
            return None
        return self._acquire()

    def poll(self) -> Message | None:
        if _current() is not self._task:
            self._refuse("proc.poll")
        if self._arrived():
            return self._acquire()
        self._clock += 1
        self._busy += 1
        return None

    def _arrived(self) -> bool:
        """Whether a message has arrived by now; the medium may not have come so far."""
        engine = self._engine
        if not self._buffer and engine.wake(self, self._clock):
            engine.give_way()
        return bool(self._buffer)

    def _acquire(self) -> Message:
        """Acquire what was delivered first; it is there, or will be when this processor can begin."""
        number, source, payload = self._buffer.popleft()
        engine = self._engine
        begin = max(self._clock, engine.delivery[number], self._next_begin(number))
        self._next_acquisition = begin + self._G
        self._acquired = True
        self._clock = begin + self._o
        self._busy += self._o
        engine.acquisition[number] = self._clock
        return Message(source, read(payload))

    def _next_begin(self, number: int) -> int:
        """When the port can have taken in that message, after the one before it."""
        if not self._long or not self._acquired:
            return self._next_acquisition
        return self._next_acquisition + streaming(self.machine, self._engine.words[number])

    def compute(self, steps: int) -> None:
        if _current() is not self._task:
            self._refuse("proc.compute")
        steps = whole_steps("proc.compute", "steps", steps, 0)
        self._clock += steps
        self._busy += steps

    def _refuse(self, operation: str) -> NoReturn:
        raise UsageError(
            f"{operation}: called outside of the program of processor {self.pid}: by another processor's, in a "
            "simulation inside of it, or after its end; send messages instead"
        )


class Engine:
    """One execution of a LogP machine.

    Args:
        machine: its parameters; max{2, o} <= G <= L.
        schedule: what decides where the model leaves a choice.
        sized: whether the trace has the sizes of messages also where they take no time; else they are 1 there.
    """

    def __init__(self, machine: LogPMachine, schedule: Schedule, sized: bool = False) -> None:
        self.machine, self._schedule, self.sized = machine, schedule, sized
        self._agenda: dict[int, _Events] = {}
        self._times: list[int] = []  # a heap of the agenda's
        self._tasks: Sequence[Task] = []
        self._hub = greenlet.getcurrent()  # of `run`
        self._now = -1  # deliveries up to this step have been made
        self._ended = False
        p = machine.p
        self._in_transit, self._most = [0] * p, [0] * p
        self._taken: list[set[int]] = [set() for _ in range(p)]  # steps at which something will be delivered
        self._pending: list[list[tuple[int, _Submission]]] = [[] for _ in range(p)]  # number, submission
        self.words: list[int] = []
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
            SystemExit: so, too; with a status of success if all processors called sys.exit.
            ProcessorError: some called sys.exit with such a status, and others did not.
            DeadlockError: processors wait for messages that nobody will send.
            UnreceivedError: messages were left that nobody received.
            UsageError: the execution takes 2^63 steps or more.
        """
        p = self.machine.p
        assert len(bodies) == p
        self._hub = greenlet.getcurrent()
        self._schedule.begin(self.machine)
        processors = [SimulatedProcessor(self, pid, 0 if starts is None else starts[pid]) for pid in range(p)]
        results: list[Any] = [None] * p
        exits: list[tuple[SimulatedProcessor, SystemExit]] = []

        def run_processor(processor: SimulatedProcessor, now: int) -> None:
            try:
                results[processor.pid] = bodies[processor.pid](processor)
            except (Exception, SystemExit) as error:
                if self._ended:
                    raise
                # It may have run ahead of others that fail before.
                if self.wake(processor, processor.time):
                    self.give_way()
                if isinstance(error, SystemExit) and not error.code:
                    exits.append((processor, error))  # whether it is a good end, the others show
                    return
                place = f"processor {processor.pid} of {p} of the LogP machine"
                note_place(error, f"(on {place}, time {processor.time})")
                raise

        self._tasks = tasks = [ProgramTask(partial(run_processor, processor), self._hub) for processor in processors]
        for processor, task in zip(processors, tasks, strict=True):
            processor._task = task
            self.at(processor._clock).wakes.append((processor, 0))
        try:
            self._simulate(processors)
        finally:
            self._ended = True
            # As it is now: what is ended here may still compute.
            waiting = [(processor.pid, processor.time) for processor in processors if not tasks[processor.pid].dead]
            for pid, _ in waiting:
                tasks[pid].end()
        if exits:
            processor, left_by = exits[0]
            if len(exits) == p:
                raise left_by
            # Some ended alone, which is no good end of a program, whatever status they asked for.
            raise exit_error(processor, left_by) from left_by
        if waiting:
            raise DeadlockError(wording.deadlock(p, waiting, self._left()))
        left = self._left()
        if left:
            raise UnreceivedError(wording.unreceived(left))
        return self._result(processors, results)

    def play(self, processors: Sequence[SimulatedProcessor], tasks: Sequence[Task]) -> Simulation:
        """Let processors do what they do, from time 0, in tasks that are known to end."""
        self._schedule.begin(self.machine)
        self._tasks = tasks
        for processor in processors:
            self.at(0).wakes.append((processor, 0))
        self._simulate(processors)
        return self._result(processors, [None] * len(processors))

    @property
    def stalled(self) -> bool:
        """Whether a message has had to wait for its acceptance."""
        return self._acceptance != self._submission

    def _left(self) -> dict[int, int]:
        """Messages that were not acquired: how many, by destination."""
        counts = Counter(dest for dest, acquired in zip(self._dest, self.acquisition, strict=True) if acquired < 0)
        return dict(sorted(counts.items()))

    def _simulate(self, processors: Sequence[SimulatedProcessor]) -> None:
        """Go from event to event until nothing more can happen."""
        times, agenda, tasks, pending = self._times, self._agenda, self._tasks, self._pending
        while times:
            now = self._now = heapq.heappop(times)
            events = agenda[now]
            # 1. Deliveries, which free capacity.
            ready: list[SimulatedProcessor] = []
            congested: set[int] = set()
            for dest, number, source, payload in events.deliveries:
                self.delivery[number] = now
                self._taken[dest].discard(now)
                self._in_transit[dest] -= 1
                if pending[dest]:
                    congested.add(dest)
                processor = processors[dest]
                processor._buffer.append((number, source, payload))
                if processor._waiting:
                    ready.append(processor)
            # 2. Processors go on: those that waited for a message, and those whose time has come.
            for processor, wait in events.wakes:
                if processor._waits == wait and not (processor._waiting and processor._buffer):
                    ready.append(processor)
            for processor in ready:
                processor._waiting = False
                processor._waits += 1
                tasks[processor.pid].switch(now)
            # 3. Submissions are accepted while there is room; they are taken by pid, whatever order they were made in.
            accepted: list[SimulatedProcessor] = []
            if events.submissions:
                if len(events.submissions) > 1:
                    events.submissions.sort(key=itemgetter(0))  # the pid
                for submission in events.submissions:
                    dest = submission[2]
                    pending[dest].append((len(self._source), submission))
                    congested.add(dest)
                    self._source.append(submission[0])
                    self._dest.append(dest)
                    self.words.append(submission[4])
                    self._submission.append(now)
                    self._acceptance.append(-1)
                    self.delivery.append(-1)
                    self.acquisition.append(-1)
            # Whether there is room for all that are submitted in this step is known when all have been seen.
            for dest in sorted(congested):
                self._accept_waiting(now, dest, accepted)
            # 4. Their processors go on. What they do now cannot change this step any more.
            for processor in accepted:
                tasks[processor.pid].switch(now)
            del agenda[now]

    def _accept_waiting(self, now: int, dest: int, accepted: list[SimulatedProcessor]) -> None:
        pending = self._pending[dest]
        room = self.machine.capacity - self._in_transit[dest]
        if room >= len(pending):
            chosen, self._pending[dest] = pending, []
        elif room:
            selected = self._schedule.acceptances(dest, _Sources(pending), room)
            indices = self._checked(selected, len(pending), room)
            chosen = [pending[k] for k in indices]
            for k in sorted(indices, reverse=True):
                del pending[k]
        else:
            return
        taken, L, decide = self._taken[dest], self.machine.L, self._schedule.delivery
        for number, (pid, processor, _, payload, count) in chosen:
            # The latency begins with the last word.
            sent = now + streaming(self.machine, count) if count > 1 else now
            answer: Any = decide(pid, dest, sent, taken)
            at = answer if type(answer) is int else whole(answer)
            if at is None or at in taken or not sent < at <= sent + L:
                raise UsageError(
                    f"{type(self._schedule).__name__}.delivery: expected a free step from {sent + 1} to {sent + L} for "
                    f"a message from processor {pid} to {dest} accepted at {sent}, got {answer!r}"
                    + (", which is taken" if at in taken else "")
                )
            taken.add(at)
            self._acceptance[number] = now
            self.at(at).deliveries.append((dest, number, pid, payload))
            accepted.append(processor)
        self._in_transit[dest] += len(chosen)
        self._most[dest] = max(self._most[dest], self._in_transit[dest])

    def _checked(self, answer: Any, n: int, room: int) -> Sequence[int]:
        """A schedule's answer of acceptances: `room` different indices below n."""
        if type(answer) is range:
            if len(answer) == room and min(answer) >= 0 and max(answer) < n:
                return answer
        elif isinstance(answer, (list, tuple, np.ndarray)):
            indices = [k for k in map(whole, answer) if k is not None and 0 <= k < n]
            if len(answer) == room == len(set(indices)):
                return indices
        expected = f"{room} different indices below {n}"
        raise usage_error(f"{type(self._schedule).__name__}.acceptances", expected, brief(answer, 200))

    def at(self, time: int) -> _Events:
        """What happens at a time that has not passed."""
        events = self._agenda.get(time)
        if events is None:
            events = self._agenda[time] = _Events()
            heapq.heappush(self._times, time)
        return events

    def wake(self, processor: SimulatedProcessor, time: int) -> bool:
        """Let the processor go on at a time, after that step's deliveries; False if they have been made."""
        if time <= self._now:
            return False
        self.at(time).wakes.append((processor, processor._waits))
        return True

    def give_way(self) -> int:
        """Let the current processor wait; returns the time at which it goes on."""
        if self._ended:
            _current().exit()
        now: int = self._hub.switch()
        return now

    def _result(self, processors: Sequence[SimulatedProcessor], results: list[Any]) -> Simulation:
        time = max(processor._clock for processor in processors)
        if max(time, self._now) > MOST_STEPS:
            raise UsageError(wording.too_long(self.machine.step))
        finished, began, busy, stalls = (
            np.array([getattr(processor, name) for processor in processors], np.int64)
            for name in ("_clock", "_started", "_busy", "_stalled")
        )
        records = (
            self._source,
            self._dest,
            self._submission,
            self._acceptance,
            self.delivery,
            self.acquisition,
            self.words,
        )
        trace = Trace(self.machine, *(np.array(values, np.int64) for values in records))
        in_transit = np.array(self._most, np.int64)
        return Simulation(results, time, finished, busy, stalls, time - began - busy - stalls, in_transit, trace)


def exit_error(processor: SimulatedProcessor, error: SystemExit) -> ProcessorError:
    """What a processor's sys.exit is, where it is no end of the whole program."""
    status = f" with status {error.code!r}" if error.code else ""
    text = f"pybsp.logp: processor {processor.pid} called sys.exit{status} at time {processor.time}"
    return ProcessorError(text, processor.pid, 0, "")


class _Sources(Sequence[int]):
    """The sources of pending messages."""

    __slots__ = ("_pending",)

    def __init__(self, pending: Sequence[tuple[int, _Submission]]) -> None:
        self._pending = pending

    def __len__(self) -> int:
        return len(self._pending)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [submission[0] for _, submission in self._pending[index]]
        return self._pending[index][1][0]
