"""The simulation of programs that stall: cycles of G steps, with sorting and prefix (*BSP vs LogP*, section 3).

A processor submits one message a cycle at most, and is suspended there until the message is accepted. At the end of a
cycle the submissions that wait are sorted by destination, those for one destination in order of submission, then of
processors, and get their ranks. A destination has as many *slots* as its capacity, each with the time at which it is
free: that of a delivery. The message of rank i takes the i-th slot, and is accepted when that is free. All that is
accepted before the end of the next cycle is decided now, so that a processor whose message is accepted in the next
cycle goes on in that cycle.

Messages travel once an *epoch*, as many cycles as fit into ceil(L/2) steps: those accepted in an epoch are delivered
in the first steps of the next one, as in the simulation of Theorem 1, and with the same h. So what a destination says
of its slots is short, as they lie together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...bsp import BSP
from ...collectives.allreduce import allreduce
from ...collectives.bitonic_sort import bitonic_sort
from ...collectives.prefix import prefix
from ...logp.payload import copied
from ...machines.cost import Cost, Machine, Superstep
from ...machines.logp import LogPMachine
from .control import height
from .cycles import Cycles, length
from .processor import CycleProcessor

Row = NDArray[np.int64]
# How a destination describes its slots: how many have been free since the cycle began; of those that are free later,
# and before the end of the next cycle, two runs of consecutive times; and when the next message that is accepted in
# this cycle is delivered. Before it: whether this is the first of a group, and the rank of a message.
FIRST, RANK, FREE, RUN, SECOND_RUN, NEXT, WIDTH = 0, 1, 2, 3, 5, 7, 8
ACCEPTED, COUNT = -2, -3  # tags
ARITY = 2  # of the tree of control: a cycle is dear, and two words more do not matter


class StallingCycles(Cycles):
    """One execution on this BSP processor, of any program."""

    label = "logp stalling cycle"

    def __init__(self, bsp: BSP, machine: LogPMachine, body: Callable[[CycleProcessor], Any]) -> None:
        super().__init__(bsp, machine, body, cycle_length(machine), ARITY)
        self._epoch = epoch_length(machine)
        self._pending: tuple[int, int, Any] | None = None  # dest, submission, payload
        self._accepted = -1  # when the last one was
        self._outbox: list[tuple[int, int, int, Any]] = []  # acceptance, submission, dest, payload
        self._slots = deque([0] * machine.capacity)  # from when on each is free, ascending
        self._last = -1  # the last delivery that is planned
        self._plan: deque[tuple[int, int]] = deque()  # of messages that have not come: the slot's time, the delivery

    def submit(self, dest: int, payload: Any) -> int:
        """A message is submitted; returns when it was accepted."""
        self._submitted = True
        if type(payload) is np.ndarray:
            payload = copied(payload)  # it travels later; all else has been copied
        self._pending = dest, self.processor.time, payload
        while not self.may_go_on():
            self.processor.suspend()
        return self._accepted

    def may_go_on(self) -> bool:
        return self._pending is None and super().may_go_on()

    def awaited(self) -> int:
        return len(self._plan)

    def exchange(self, words: list[tuple[int, int]]) -> None:
        """End the cycle: decide what is accepted until the end of the next one; end the epoch, if it does."""
        end = (self.cycle + 1) * self.length
        if self.machine.p == 1:
            self._synced(words)
            return
        self._decide(end, words)
        if end % self._epoch == 0:
            for acceptance, submission, dest, payload in self._outbox:
                if acceptance < end:
                    self.bsp.send(dest, payload, submission)
            self._outbox = [message for message in self._outbox if message[0] >= end]
            # The order of submission is that of acceptance, and of delivery.
            for submission, source, payload in self._synced([]):
                slot, delivery = self._plan.popleft()
                self.processor.deliver(delivery, source, submission, max(submission, slot), payload)

    def _decide(self, end: int, words: list[tuple[int, int]]) -> None:
        """Whether this processor's message is accepted before the end of the next cycle, and what is planned here."""
        bsp, p = self.bsp, self.machine.p
        # 0. Whether anybody waits at all.
        if not allreduce(bsp, int(self._pending is not None), np.maximum):
            self._synced(words)
            return
        # 1. Sort the submissions by destination, then time, then processor; who has none comes last.
        dest, submission = (p, 0) if self._pending is None else self._pending[:2]
        key = bitonic_sort(bsp, (dest * end + submission) * p + bsp.pid)
        rest, source = divmod(key, p)
        dest, submission = divmod(rest, end)
        here = dest < p
        # 2. The first of each group, who has none of the same at its left, asks the destination.
        neighbours = [pid for pid in (bsp.pid - 1, bsp.pid + 1) if 0 <= pid < p]
        beside = dict(self._step([(pid, dest) for pid in neighbours]))
        first = here and beside.get(bsp.pid - 1) != dest
        last = here and beside.get(bsp.pid + 1) != dest
        asked = self._step([(dest, 1)] if first else [])
        answer = self._step([(head, self._slot_row(end)) for head, _ in asked])
        # 3. The answer goes to all of the group, each with its rank.
        row = answer[0][1].copy() if first else np.zeros(WIDTH, np.int64)
        row[FIRST], row[RANK] = (1, 0) if first or not here else (0, 1)
        row = prefix(bsp, row, _segmented)
        # 4. Processors learn when their messages are accepted, and destinations how many there are.
        if here and (accepted := acceptance(self.machine, end, row, submission)) is not None:
            bsp.send(source, accepted, ACCEPTED)
        if last:
            bsp.send(dest, int(row[RANK]) + 1, COUNT)
        for tag, _, number in self._synced(words):
            if tag == COUNT:
                self._take(number, end)
            elif self._pending is not None:
                dest, submission, payload = self._pending
                self._outbox.append((number, submission, dest, payload))
                self._pending, self._accepted = None, number

    def _step(self, messages: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """A superstep with these messages, as (destination, payload); returns those that came, by source."""
        for dest, payload in messages:
            self.bsp.send(dest, payload)
        with self.bsp.superstep(self.label):
            pass
        return [(source, payload) for source, _, payload in self.bsp.inbox]

    def _next(self, time: int) -> int:
        """When the next message is delivered if it is accepted at a time."""
        return max((time // self._epoch + 1) * self._epoch, self._last + 1)

    def _slot_row(self, end: int) -> Row:
        """This destination's slots, as it describes them to those that ask."""
        begin, ahead = end - self.length, end + self.length
        row = np.zeros(WIDTH, np.int64)
        row[FREE] = sum(slot <= begin for slot in self._slots)
        row[NEXT] = self._next(begin)
        later = [slot for slot in self._slots if begin < slot < ahead]
        if later:
            # Times begin anew only with an epoch, and at most one of these begins between.
            run = sum(slot - later[0] == number for number, slot in enumerate(later))
            row[RUN : RUN + 2] = later[0], run
            row[SECOND_RUN : SECOND_RUN + 2] = (later[run], len(later) - run) if run < len(later) else (0, 0)
        return row

    def _take(self, count: int, end: int) -> None:
        """So many messages wait for this destination: plan those that are accepted before the end of the next cycle."""
        for _ in range(count):
            slot = self._slots[0]
            if slot >= end + self.length:
                break
            # A slot that is free in this cycle is taken in it, since all that wait were submitted by its end.
            self._last = self._next(slot if slot >= end else end - 1)
            self._slots.popleft()
            self._slots.append(self._last)
            self._plan.append((slot, self._last))


def acceptance(machine: LogPMachine, end: int, row: Row, submission: int) -> int | None:
    """When a message is accepted; None: not before the end of the next cycle.

    Args:
        machine: the LogP machine.
        end: of this cycle.
        row: the slots of its destination, with the message's rank.
        submission: of the message.
    """
    rank, free, following = int(row[RANK]), int(row[FREE]), int(row[NEXT])
    if rank < free:
        return submission
    number, early = rank - free, free
    for first, count in row[RUN:NEXT].reshape(2, 2).tolist():
        if 0 <= number < count:
            return max(submission, int(first) + number)
        number -= count
        early += min(max(end - first, 0), count)
    # The slots of the messages that are accepted in this cycle are free again when those are delivered.
    again = rank - machine.capacity
    slot = following + again
    return slot if 0 <= again < early and slot < end + cycle_length(machine) else None


def _segmented(left: Row, right: Row) -> Row:
    return right if right[FIRST] else left + right


def cycle_length(machine: LogPMachine) -> int:
    """Steps of a cycle: G, or ceil(L/2) where that is less."""
    return min(machine.G, length(machine))


def epoch_length(machine: LogPMachine) -> int:
    """Steps of an epoch: as many cycles as fit into ceil(L/2) steps."""
    cycle = cycle_length(machine)
    return length(machine) // cycle * cycle


def cost(machine: Machine, logp: LogPMachine) -> Cost:
    """What an epoch costs at most, for messages of one word.

    A cycle costs an `allreduce` of a word, a sort of one key a processor, a `prefix` of 8 words, and four supersteps
    with h <= 8; where no message waits to be accepted, an `allreduce` and one superstep.

    Args:
        machine: the BSP machine; its p is that of the processors.
        logp: the LogP machine.
    """
    p, cycle, epoch = machine.p, cycle_length(logp), epoch_length(logp)
    if p == 1:
        return Cost(machine, (Superstep(0, 0, 0, 0, cycle),) * (epoch // cycle))

    def relations(*degrees: int) -> Cost:
        return Cost(machine, [Superstep(h, h, h, p * h, 0.0, p - 1) for h in degrees])

    deciding = (
        Cost(machine, (), cycle)
        + allreduce.cost(machine, 1)
        + bitonic_sort.cost(machine, 1)
        + relations(2, 1, WIDTH)
        + prefix.cost(machine, WIDTH)
        + relations(2 + ARITY)
    )
    travelling = relations(max(logp.capacity, 1 - (1 - epoch) // logp.G))
    return sum([deciding] * (epoch // cycle), start=Cost(machine)) + travelling


def seconds(machine: Machine, logp: LogPMachine, time: int) -> float:
    """See `pybsp.routing.logp_on_bsp.seconds`."""
    cycles = time // cycle_length(logp) + 2 * height(machine.p, ARITY) + 2
    return -(-cycles * cycle_length(logp) // epoch_length(logp)) * cost(machine, logp).seconds
