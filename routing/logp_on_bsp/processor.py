"""The LogP processor that a BSP processor simulates, one cycle after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import greenlet
import numpy as np

from ...errors import UsageError
from ...ground.instead import hinting
from ...logp.arguments import destination, whole_steps
from ...logp.payload import read, sendable
from ...logp.processor import Message
from ...logp.task import ProgramTask
from ...machines.logp import LogPMachine


class DeliveredMessage(NamedTuple):
    """A message that has been, or will be, delivered to this processor."""

    delivery: int
    number: int  # of its record
    source: int
    payload: Any


@hinting("proc")
class CycleProcessor:
    """A LogP processor; see `pybsp.logp.Processor` for what its methods promise.

    Its program runs in a greenlet, until its clock needs to pass the end of the cycle. All that will be delivered
    before the end is known by then.

    Args:
        machine: its LogP machine.
        pid: this processor.
        program: what runs in the greenlet.
        submit: called at a message's submission with (dest, payload); returns when the medium accepts it.

    Attributes:
        task: the greenlet.
        end: of the cycle.
        charged: busy steps of the cycle so far.
        waiting: whether the program waits for a message, however long that takes.
        busy, stalled: steps so far.
        sent, acquired: messages so far.
        input_buffer: messages by delivery; those that are still to be delivered come last.
        closed: whether the program may not go on any more.
        records: of each message to this processor: source, submission, acceptance, delivery, acquisition.
    """

    timed = True

    def __init__(
        self, machine: LogPMachine, pid: int, program: Callable[[], None], submit: Callable[[int, Any], int]
    ) -> None:
        self._hub = greenlet.getcurrent()
        self.task = ProgramTask(program, self._hub)
        self.p, self.pid, self.machine = machine.p, pid, machine
        self.end = self.charged = 0
        self.waiting = False
        self.busy = self.stalled = self.stalls = self.sent = self.acquired = 0
        self.input_buffer: deque[DeliveredMessage] = deque()
        self.records: list[list[int]] = []
        self._submit = submit
        self._clock = 0
        self._next_submission = self._next_acquisition = 0  # may not begin before
        self.closed = False

    def __repr__(self) -> str:
        return f"<processor {self.pid} of {self.p}, step {self._clock}>"

    @property
    def time(self) -> int:
        return self._clock

    @property
    def stalled_seconds(self) -> float:
        return self.stalled * self.machine.step

    def send(self, dest: int, payload: Any) -> None:
        self._check_current("proc.send")
        if type(dest) is not int or not 0 <= dest < self.p or dest == self.pid:
            dest = destination(dest, self.p, self.pid)
        if type(payload) is not np.ndarray or payload.dtype.hasobject:
            payload = sendable(payload)  # an array is copied at its submission; the program waits until then
        o = self.machine.o
        at = max(self._clock + o, self._next_submission)
        # 1. Preparation ends with the submission.
        self._pass(at - o, busy=False)
        self._pass(at, busy=True)
        self._reach()
        # 2. The medium accepts.
        self.sent += 1
        accepted = self._submit(dest, payload)
        self._next_submission = at + self.machine.G
        if accepted > at:
            self.stalls += 1
            self.stalled += accepted - at
            # The register is free when the medium has taken the message, at the end of that step.
            self._next_submission = max(self._next_submission, accepted + 1)
        self._clock = accepted

    @overload
    def recv(self) -> Message: ...

    @overload
    def recv(self, until: int | None) -> Message | None: ...

    def recv(self, until: int | None = None) -> Message | None:
        self._check_current("proc.recv")
        if until is not None:
            until = whole_steps("proc.recv", "until", until)
            if until < self._clock:
                return self._acquire(self._begin()) if self._arrived() else None
            if self._next_acquisition > until:
                self._pass(until, busy=False)
                return None
        while not self.input_buffer:
            # Nothing is delivered before the cycle ends.
            if until is not None and until < self.end:
                self._clock = until
                return None
            self.waiting = until is None
            self.suspend()
            self.waiting = False
        begin = self._begin()
        if until is not None and begin > until:
            self._pass(until, busy=False)
            return None
        return self._acquire(begin)

    def poll(self) -> Message | None:
        self._check_current("proc.poll")
        if self._arrived():
            return self._acquire(self._begin())
        self._pass(self._clock + 1, busy=True)
        return None

    def compute(self, steps: int) -> None:
        self._check_current("proc.compute")
        self._pass(self._clock + whole_steps("proc.compute", "steps", steps, 0), busy=True)

    def _arrived(self) -> bool:
        """Whether a message has been delivered by now."""
        self._reach()
        return bool(self.input_buffer) and self.input_buffer[0].delivery <= self._clock

    def _begin(self) -> int:
        """When the first message there can be begun to be acquired."""
        return max(self._clock, self.input_buffer[0].delivery, self._next_acquisition)

    def _acquire(self, begin: int) -> Message:
        delivered = self.input_buffer.popleft()
        self._next_acquisition = begin + self.machine.G
        self._pass(begin, busy=False)
        self._pass(begin + self.machine.o, busy=True)
        self.records[delivered.number][4] = self._clock
        self.acquired += 1
        return Message(delivered.source, read(delivered.payload))

    def _pass(self, time: int, busy: bool) -> None:
        """Let the clock run up to a time, in as many cycles as that takes."""
        while True:
            now = min(time, self.end)
            if busy:
                self.charged += now - self._clock
                self.busy += now - self._clock
            self._clock = now
            if now == time:
                return
            self.suspend()

    def _reach(self) -> None:
        """Be in the cycle of this time, not at the end of the one before."""
        while self._clock >= self.end:
            self.suspend()

    def suspend(self) -> None:
        """Let the BSP processor go on to the next cycle."""
        self._hub.switch()

    def _check_current(self, operation: str) -> None:
        """Only the processor's own program may use it, and not after the end of the execution."""
        if greenlet.getcurrent() is not self.task:
            raise UsageError(
                f"{operation}: called outside of the program of processor {self.pid}: by another processor's, or after "
                "its end; send messages instead"
            )
        if self.closed:
            self.task.exit()

    def deliver(self, delivery: int, source: int, submission: int, acceptance: int, payload: Any) -> None:
        """Append a message to the input buffer."""
        self.input_buffer.append(DeliveredMessage(delivery, len(self.records), source, payload))
        self.records.append([source, submission, acceptance, delivery, -1])
