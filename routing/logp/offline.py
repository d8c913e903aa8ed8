"""An h-relation that is known beforehand, by 1-relations (*BSP vs LogP*, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import UsageError
from ...logp.processor import Message, Processor
from ...machines.logp import LogPMachine
from ..decomposition import decompose, relation
from .combine_broadcast import combine_broadcast, common_start
from .phases import Phases, period
from .pipelined import pipelined

Ints = NDArray[np.int64]


def cost(machine: LogPMachine, h: int, both: bool = True) -> int:
    """Steps that an h-relation takes at most, from when the first messages are prepared.

    2o + G(h-1) + L where h <= ceil(L/G), as nobody need acquire before it has sent all; or where no processor sends
    and receives (both=False). Else 4o + max(G, 2o)(h-1) + L: each message takes a processor that sends and receives o
    steps twice, an acquisition waits for a preparation at most once, and that preparation and what is left of the
    window before it, too short for the acquisition, are less than 2o.
    """
    if h == 0:
        return 0
    spacing = _spacing(machine, h, both)
    return (2 + 2 * (both and h > machine.capacity)) * machine.o + spacing * (h - 1) + machine.L


def _spacing(machine: LogPMachine, h: int, both: bool) -> int:
    return period(machine) if both and h > machine.capacity else machine.G


@dataclass(frozen=True, eq=False)
class Timetable:
    """A relation decomposed: which message goes when. Messages to oneself cost nothing and are not routed.

    Attributes:
        p: processors.
        h: messages, at most, from or to one processor.
        both: whether some processor both sends and receives.
        first: the messages of processor i are first[i] to first[i+1] - 1, in the order in which they were given.
        destinations, slots: of these; slots are the numbers of the 1-relations, 0 to h - 1, and -1 to oneself.
        expected: messages that each processor gets from others.
    """

    p: int
    h: int
    both: bool
    first: Ints
    destinations: Ints
    slots: Ints
    expected: Ints

    def cost(self, machine: LogPMachine) -> int:
        """Steps at most, as `offline.cost` has it."""
        return cost(machine, self.h, self.both)


def timetable(sources: ArrayLike, destinations: ArrayLike, p: int) -> Timetable:
    """The timetable of a relation; of one that comes again, the same.

    Args:
        sources, destinations: of message i, integers 0 to p - 1, shape (m,).
        p: processors.

    Raises:
        UsageError: as `decompose`.
    """
    out, into = relation("timetable", sources, destinations, p)
    return _timetable(out.tobytes(), into.tobytes(), int(p))


@lru_cache(maxsize=32)
def _timetable(sources: bytes, destinations: bytes, p: int) -> Timetable:
    out, into = np.frombuffer(sources, np.int64), np.frombuffer(destinations, np.int64)
    away = out != into
    slots = np.full(len(out), -1)
    slots[away] = decompose(out[away], into[away], p)
    sent, expected = np.bincount(out[away], minlength=p), np.bincount(into[away], minlength=p)
    order = np.argsort(out, kind="stable")
    first, dests, slots = np.searchsorted(out[order], np.arange(p + 1)), into[order], slots[order]
    for shared in (first, dests, slots, expected):
        shared.flags.writeable = False
    return Timetable(
        p=p,
        h=int(max(sent.max(), expected.max())),
        both=bool((sent * expected).any()),
        first=first,
        destinations=dests,
        slots=slots,
        expected=expected,
    )


def learn(phases: Phases, packets: Sequence[tuple[int, Any]]) -> Timetable:
    """The timetable of the relation that these packets are, where it is not known beforehand; collective.

    A combine-and-broadcast gathers who sends to whom, in order; after it all processors compute the same timetable.

    Args:
        phases: this processor's.
        packets: (dest, payload) of this processor.

    LogP cost: a combine-and-broadcast whose messages grow to a word for each packet of the relation and one for each
    processor. That is the price of not knowing the relation, and no part of `cost`. Where long messages cost more
    (LogGP) it is dearer than the routing itself: a program should keep the timetable of a relation that recurs.
    """
    proc = phases.proc
    mine = np.array([dest for dest, _ in packets], np.int64)
    sent, destinations = combine_broadcast(phases, (np.array([len(mine)]), mine), _joined)
    return timetable(np.repeat(np.arange(proc.p), sent), destinations, proc.p)


def _joined(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    return np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))


def route_offline(
    phases: Phases, packets: Sequence[tuple[int, Any]], timetable: Timetable, start: int | None = None
) -> list[Message]:
    """Route a relation by its timetable: the message of slot i goes at start + i*period; collective.

    Nobody stalls, in any execution: the messages of a slot are a 1-relation, and at most ceil(L/G) slots are less than
    L apart. That also holds for what comes before and after, as nobody leaves while a message is in transit.

    Args:
        phases: this processor's.
        packets: (dest, payload) of this processor, in the order in which the timetable has them.
        timetable: equal on all processors.
        start: when the messages of slot 0 are submitted; equal on all processors, each at start - o at the latest, with
            the gap kept. None: processors come when they like and agree on a time (`common_start`), which costs a
            combine-and-broadcast.

    Returns:
        the messages for this processor, in any order.

    Raises:
        UsageError: other packets than the timetable's.

    LogP cost: from start - o `timetable.cost(machine)`: at most 2o + G(h-1) + L where h <= ceil(L/G) or nobody both
    sends and receives, else 4o + max(G, 2o)(h-1) + L.

    Source: section 4.2.
    """
    proc = phases.proc
    mine = slice(*timetable.first[proc.pid : proc.pid + 2]) if timetable.p == proc.p else slice(0, 0)
    dests = [dest for dest, _ in packets]
    if timetable.p != proc.p or dests != timetable.destinations[mine].tolist():
        raise UsageError(
            f"route_offline: argument packets: processor {proc.pid} of {proc.p} has packets to {dests}, the timetable, "
            f"for {timetable.p} processors, has {timetable.destinations[mine].tolist()}; make one of this relation"
        )
    received = [Message(proc.pid, payload) for dest, payload in packets if dest == proc.pid]
    if not timetable.h:
        return received
    if start is None:
        start = common_start(phases)
    slots = timetable.slots[mine]
    away = [(int(slots[i]), *packets[i]) for i in np.argsort(slots) if slots[i] >= 0]
    spacing = _spacing(proc.machine, timetable.h, timetable.both)
    return received + pipelined(phases, away, start, timetable.h, int(timetable.expected[proc.pid]), spacing)


def offline_program(sources: ArrayLike, destinations: ArrayLike, p: int) -> Callable[..., list[Message]]:
    """A LogP program that routes a relation known before it is run.

    Args:
        sources, destinations: of message i, integers 0 to p - 1, shape (m,).
        p: processors.

    Returns:
        program(proc, payloads=None): payloads has one for each message of the relation, shape (m,), and is looked at
        for this processor's own alone; None: their numbers i. It returns the messages for this processor. All
        processors have to begin at time 0.

    Raises:
        UsageError: as `decompose`; and by the program, on a machine of another p.

    LogP cost: as `route_offline`, from the beginning.
    """
    out, _ = relation("offline_program", sources, destinations, p)
    known = timetable(sources, destinations, p)
    order = np.argsort(out, kind="stable")

    def program(proc: Processor, payloads: Sequence[Any] | None = None) -> list[Message]:
        if proc.p != p:
            raise UsageError(f"offline_program: the relation is one of {p} processors, the machine has {proc.p}")
        mine = range(int(known.first[proc.pid]), int(known.first[proc.pid + 1]))
        packets = [
            (int(known.destinations[k]), int(order[k]) if payloads is None else payloads[order[k]]) for k in mine
        ]
        return route_offline(Phases(proc), packets, known, start=proc.machine.o)

    return program
