"""What the routing algorithms have in common: phases, and time."""

from __future__ import annotations

from collections import deque
from typing import Any, overload

from ...logp.processor import Message, Processor
from ...machines.logp import LogPMachine


class Phases:
    """A processor's messages, told apart by phase: processors enter a phase at different times.

    All processors begin the same phases in the same order. A message that arrives in another phase than its own is
    acquired and kept until it is asked for.

    Attributes:
        proc: the processor; while phases are used, only they send and receive there.
    """

    def __init__(self, proc: Processor) -> None:
        self.proc = proc
        self._number = 0
        self._by_phase: dict[int, deque[Message]] = {}
        self._sent: int | None = None  # when the last message was accepted

    def begin(self) -> int:
        """The next phase; returns its number."""
        self._number += 1
        return self._number

    def send(self, dest: int, payload: Any) -> None:
        """Send a message of this phase; as `Processor.send`."""
        self.proc.send(dest, (self._number, payload))
        self._sent = self.proc.time

    def may_submit(self) -> int:
        """The earliest time at which a message can be submitted that is sent now."""
        machine, now = self.proc.machine, self.proc.time
        return now + machine.o if self._sent is None else max(now + machine.o, self._sent + machine.G)

    @overload
    def recv(self, *, phase: int | None = None) -> Message: ...

    @overload
    def recv(self, until: int | None, *, phase: int | None = None) -> Message | None: ...

    def recv(self, until: int | None = None, *, phase: int | None = None) -> Message | None:
        """The next message of this phase, or of an earlier one by its number; `until` as in `Processor.recv`."""
        number = self._number if phase is None else phase
        while (message := self._take(number)) is None:
            if not self._keep(self.proc.recv(until)):
                return None
        return message

    def poll(self) -> Message | None:
        """As `Processor.poll`; None too where a message of another phase has arrived first."""
        message = self._take(self._number)
        if message is None and self._keep(self.proc.poll()):
            message = self._take(self._number)
        return message

    def _keep(self, arrived: Message | None) -> bool:
        """Put a message, if there is one, to those of its phase."""
        if arrived is None:
            return False
        number, payload = arrived.payload
        self._by_phase.setdefault(number, deque()).append(Message(arrived.source, payload))
        return True

    def _take(self, phase: int) -> Message | None:
        messages = self._by_phase.get(phase)
        if messages is None:
            return None
        message = messages.popleft()
        if not messages:
            del self._by_phase[phase]
        return message


def wait_until(proc: Processor, time: int) -> None:
    """On a timed machine: let time pass, without acquiring what arrives, until then. Else nothing."""
    if proc.timed and time > proc.time:
        proc.compute(time - proc.time)


def period(machine: LogPMachine) -> int:
    """max(G, 2o): the steps that each message takes a processor that both sends and acquires one."""
    return max(machine.G, 2 * machine.o)
