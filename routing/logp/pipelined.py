"""Sends at agreed times: one message a period from each processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...logp.processor import Message
from .combine_broadcast import combine_broadcast
from .phases import Phases, period, wait_until


def pipelined(
    phases: Phases,
    sends: Sequence[tuple[int, int, Any]],
    start: int,
    slots: int,
    expected: int | None = None,
    spacing: int | None = None,
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
        spacing: the period, at least G, equal on all processors; None: `period(machine)`. With a smaller one
            acquisitions may have to wait until the last send.

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
    spacing, o = period(machine) if spacing is None else spacing, machine.o
    own = len(received)
    for slot, dest, payload in sends:
        prepare = start + slot * spacing - o
        while proc.time <= prepare - o and (message := phases.recv(prepare - o)) is not None:
            received.append(message)
        wait_until(proc, prepare)
        phases.send(dest, payload)
    if not slots:
        return received
    delivered = start + (slots - 1) * spacing + machine.L
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
    proc = phases.proc
    counts = np.bincount(np.array(dests, np.int64), minlength=proc.p)
    return int(combine_broadcast(phases, counts, np.add)[proc.pid])
