"""What the routing algorithms have in common: phases, and sends at agreed times."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from ...logp.processor import Message, Processor
from ...machine import LogPMachine


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
        self._kept: dict[int, deque[Message]] = {}
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
        wanted = self._number if phase is None else phase
        while (message := self._take(wanted)) is None:
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
        self._kept.setdefault(number, deque()).append(Message(arrived.source, payload))
        return True

    def _take(self, phase: int) -> Message | None:
        kept = self._kept.get(phase)
        if kept is None:
            return None
        message = kept.popleft()
        if not kept:
            del self._kept[phase]
        return message


def wait_until(proc: Processor, time: int) -> None:
    """On a timed machine: let time pass, without acquiring what arrives, until then. Else nothing."""
    if proc.timed and time > proc.time:
        proc.compute(time - proc.time)


def period(machine: LogPMachine) -> int:
    """max(G, 2o): the steps that each message takes a processor that both sends and acquires one."""
    return max(machine.G, 2 * machine.o)


def pipelined(
    phases: Phases,
    sends: Sequence[tuple[int, int, Any]],
    start: int,
    slots: int,
    expected: int | None = None,
    apart: int | None = None,
) -> list[Message]:
    """One message a period: those of slot i are submitted at start + i*period; a phase of its own; collective.

    On a timed machine these are the times exactly: acquisitions are made in between, where they delay no send. Nobody
    returns before all messages are out of transit, so that what follows cannot meet them. Where the messages of each
    slot are a 1-relation at most ceil(L/G) are in transit to a processor, as the period is at least G.

    Args:
        phases: this processor's.
        sends: (slot, dest, payload), slots ascending and distinct, 0 to slots - 1. What goes to oneself takes no time.
        start: time of slot 0, equal on all processors; each must come G before it (`common_start` sees to both).
            Without meaning where the machine is not timed.
        slots: equal on all processors.
        expected: messages that come from others; None where it is not known. Then time tells that all have come, and on
            a machine that is not timed a combine-and-broadcast of the numbers of messages.
        apart: the period, at least G, equal on all processors; None: `period(machine)`. With a smaller one acquisitions
            may have to wait until the last send.

    Returns:
        the messages for this processor, in any order.

    LogP cost: from start - o, at most 4o + (slots - 1)*max(G, 2o) + L (an acquisition waits for at most one
    preparation); 2o + (slots - 1)*max(G, 2o) + L where no processor both sends and receives.
    """
    proc, machine = phases.proc, phases.proc.machine
    number = phases.begin()
    received = [Message(proc.pid, payload) for _, dest, payload in sends if dest == proc.pid]
    sends = [send for send in sends if send[1] != proc.pid]
    if not proc.timed:
        for _, dest, payload in sends:
            phases.send(dest, payload)
        if expected is None:
            expected = _count(phases, [dest for _, dest, _ in sends])
        received += [phases.recv(phase=number) for _ in range(expected)]
        return received
    apart, o = period(machine) if apart is None else apart, machine.o
    own = len(received)
    for slot, dest, payload in sends:
        prepare = start + slot * apart - o
        while proc.time <= prepare - o and (message := phases.recv(prepare - o)) is not None:
            received.append(message)
        wait_until(proc, prepare)
        phases.send(dest, payload)
    if not slots:
        return received
    delivered = start + (slots - 1) * apart + machine.L
    if expected is not None:
        received += [phases.recv() for _ in range(own + expected - len(received))]
        wait_until(proc, delivered - o)
        return received
    while (message := phases.recv(delivered)) is not None:
        received.append(message)
    while sends and o and (message := phases.poll()) is not None:  # there in time, but this processor was sending
        received.append(message)
    return received


def _count(phases: Phases, dests: Sequence[int]) -> int:
    """How many messages others have sent here, when each says to whom it did."""
    from .combine_broadcast import combine_broadcast

    proc = phases.proc
    counts = np.bincount(np.array(dests, np.int64), minlength=proc.p)
    return int(combine_broadcast(phases, counts, np.add)[proc.pid])
