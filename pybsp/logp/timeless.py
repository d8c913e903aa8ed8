"""An execution of a LogP program without time: what each processor does follows from the order in which it receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import greenlet

from ..errors import DeadlockError, UnreceivedError, UsageError
from ..ground.instead import hinting
from ..machines.logp import LogPMachine
from .arguments import destination, whole_steps
from .payload import arriving, copied, read
from .processor import Message
from .task import ProgramTask

_current: Callable[[], Any] = greenlet.getcurrent

Name = tuple[int, int]  # of a message: its source, and how many that had sent before
Order = list[list[Name]]  # what each processor acquires


class TimeLookedAtError(Exception):
    """A processor has asked for what depends on time."""


class Sent(NamedTuple):
    """A message; `after` counts the acquisitions of each processor that came before its sending."""

    name: Name
    payload: Any
    after: list[int]


@hinting("proc")
class TimelessProcessor:
    """A processor of a LogP machine without time. What depends on time ends the execution."""

    timed = True

    def __init__(self, machine: LogPMachine, pid: int) -> None:
        self.p, self.pid, self.machine = machine.p, pid, machine
        self._task: ProgramTask | None = None

    def __repr__(self) -> str:
        return f"<processor {self.pid} of {self.p}>"

    def compute(self, steps: int) -> None:
        self._require_own("proc.compute")
        whole_steps("proc.compute", "steps", steps, 0)

    def poll(self) -> NoReturn:
        self._look_at_time()

    @property
    def time(self) -> NoReturn:
        self._look_at_time()

    @property
    def stalls(self) -> NoReturn:
        self._look_at_time()

    @property
    def stalled_seconds(self) -> NoReturn:
        self._look_at_time()

    def _look_at_time(self) -> NoReturn:
        raise NotImplementedError

    def _require_own(self, operation: str) -> None:
        if _current() is not self._task:
            raise UsageError(f"{operation}: called outside of the program of processor {self.pid}")


class _TimelessProcessor(TimelessProcessor):
    """One of an execution."""

    def __init__(self, execution: TimelessExecution, pid: int) -> None:
        super().__init__(execution.machine, pid)
        self._execution, self._sent = execution, 0
        self._after = [0] * self.p

    def send(self, dest: int, payload: Any) -> None:
        self._require_own("proc.send")
        dest = destination(dest, self.p, self.pid)
        message = Sent((self.pid, self._sent), arriving(payload), list(self._after))
        self._sent += 1
        self._execution.sent[dest].append(message)
        self._execution.there[dest][message.name] = message

    def recv(self, until: int | None = None) -> Message:
        self._require_own("proc.recv")
        if until is not None:
            self._look_at_time()
        message = self._execution.acquire(self.pid)
        self._after = list(map(max, self._after, message.after))
        self._after[self.pid] += 1
        self._execution.acquired(self.pid, message.name, self._after)
        # A copy, as what was sent is of use afterwards: who receives it may change it.
        return Message(message.name[0], copied(read(message.payload)))

    def _look_at_time(self) -> NoReturn:
        self._execution.give_up()


class TimelessExecution:
    """One execution, without time.

    Args:
        machine: how many processors; its times count for nothing.
        given: what each processor acquires first; then whatever was sent to it first.

    Attributes:
        order: what each has acquired.
        sent: messages to each, in the order of sending.
        there: of these, those that it has not acquired.
    """

    def __init__(self, machine: LogPMachine, given: Order) -> None:
        self.machine, self._given = machine, given
        p = machine.p
        self.order: Order = [[] for _ in range(p)]
        self.sent: list[list[Sent]] = [[] for _ in range(p)]
        self.there: list[dict[Name, Sent]] = [{} for _ in range(p)]
        self._after: list[list[list[int]]] = [[] for _ in range(p)]  # of each acquisition: what came before, and itself
        self._timed = self._ended = False
        self._hub = greenlet.getcurrent()

    def run(self, bodies: Sequence[Callable[[Any], Any]]) -> list[Any]:
        """Run a body on each processor; returns their results.

        Raises:
            TimeLookedAtError: a processor did.
            what a body raised; DeadlockError; UnreceivedError.
        """
        p = self.machine.p
        self._hub = greenlet.getcurrent()
        results: list[Any] = [None] * p
        processors = [_TimelessProcessor(self, pid) for pid in range(p)]

        def run_processor(pid: int) -> None:
            results[pid] = bodies[pid](processors[pid])

        tasks = [ProgramTask(partial(run_processor, pid), self._hub) for pid in range(p)]
        for processor, task in zip(processors, tasks, strict=True):
            processor._task = task
        ready = list(range(p))
        try:
            while ready and not self._timed:
                for pid in ready:
                    if not self._timed:
                        tasks[pid].switch()
                ready = [pid for pid in range(p) if not tasks[pid].dead and self._next(pid) is not None]
        finally:
            self._ended = True
            waiting = [pid for pid in range(p) if not tasks[pid].dead]
            for pid in waiting:
                tasks[pid].end()
        if self._timed:
            raise TimeLookedAtError
        if waiting:
            raise DeadlockError(f"processors {waiting} wait for messages")
        if any(self.there):
            raise UnreceivedError("messages are left")
        return results

    def acquire(self, pid: int) -> Sent:
        """What a processor acquires next; it waits until that is there."""
        while (name := self._next(pid)) is None:
            self._give_way()
        return self.there[pid].pop(name)

    def acquired(self, pid: int, name: Name, after: list[int]) -> None:
        self.order[pid].append(name)
        self._after[pid].append(after)

    def give_up(self) -> NoReturn:
        self._timed = True
        while True:
            self._give_way()

    def _give_way(self) -> None:
        if self._ended:
            _current().exit()
        self._hub.switch()

    def _next(self, pid: int) -> Name | None:
        given, count = self._given[pid], len(self.order[pid])
        if count < len(given):
            return given[count] if given[count] in self.there[pid] else None
        return next(iter(self.there[pid]), None)

    def alternatives(self) -> Iterator[tuple[int, Order]]:
        """Beginnings of other executions: the processor that acquires another message there, last, and all that each
        has acquired until then."""
        for pid, order in enumerate(self.order):
            place, end = {name: number for number, name in enumerate(order)}, len(order)
            for number in range(len(order)):
                others = [m.name for m in self.sent[pid] if place.get(m.name, end) > number and m.after[pid] <= number]
                if others:
                    before = [
                        names[: sum(after[pid] <= number for after in afters)]
                        for names, afters in zip(self.order, self._after, strict=True)
                    ]
                    for name in others:
                        yield pid, [*before[:pid], [*before[pid], name], *before[pid + 1 :]]
