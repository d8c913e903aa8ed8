"""A LogP machine straight from the model: every processor looked at in every step. Slow, and independent of the engine.

A program is a list of operations for each processor:

    ("send", dest)      ("recv",)       ("until", t)    recv until t steps from then, or t steps ago
    ("compute", k)      ("poll",)       ("send", dest, words)

Long messages by LogGP: each word but the first passes the ports of both ends in G_word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybsp import LogPMachine
from pybsp.logp import Schedule

Operation = tuple[Any, ...]
Programs = Sequence[Sequence[Operation]]

STEP, SUBMIT = "step", "submit"


@dataclass
class Packet:
    source: int
    dest: int
    content: Any
    submission: int
    further: int  # steps of the words behind the first
    acceptance: int = -1
    delivery: int = -1
    acquisition: int = -1


@dataclass
class One:
    """A processor."""

    pid: int
    buffer: list[Packet] = field(default_factory=list)
    result: list[Any] = field(default_factory=list)
    register: Packet | None = None
    submitted: int = -(10**9)
    may_submit: int = 0
    leaves: int = -(10**9)  # the last word of the message before
    acquired: int = -(10**9)
    busy: int = 0
    stalled: int = 0
    waits: bool = False  # in recv, without a time
    finished: int | None = None


class Reference:
    """One execution; what is compared with the engine's are its attributes after `run`."""

    def __init__(self, machine: LogPMachine, schedule: Schedule, programs: Programs) -> None:
        self.machine, self.schedule = machine, schedule
        self.ones = [One(pid) for pid in range(machine.p)]
        self.packets: list[Packet] = []
        self.most = [0] * machine.p
        self.now = 0
        self._programs = programs

    def run(self, starts: Sequence[int]) -> str:
        """To the end: "ended", "deadlock" or "unreceived"."""
        schedule, capacity = self.schedule, self.machine.capacity
        schedule.begin(self.machine)
        lives = [self._live(one, starts[one.pid]) for one in self.ones]
        while True:
            now = self.now
            # Deliveries.
            for packet in self.packets:
                if packet.delivery == now:
                    self.ones[packet.dest].buffer.append(packet)
            # Processors.
            for one, life in zip(self.ones, lives, strict=True):
                if one.finished is None and one.register is None:
                    self._advance(one, life)
            # Acceptances.
            for dest in range(self.machine.p):
                pending = sorted(
                    (one.register for one in self.ones if one.register and one.register.dest == dest),
                    key=lambda packet: (packet.submission, packet.source),
                )
                room = capacity - len(self._in_transit(dest))
                if room < len(pending):
                    order = schedule.acceptances(dest, [p.source for p in pending], room) if room else ()
                    pending = [pending[k] for k in order]
                for packet in pending:
                    taken = {other.delivery for other in self._in_transit(dest)}
                    packet.acceptance = now
                    packet.delivery = schedule.delivery(packet.source, dest, now + packet.further, taken)
                    source = self.ones[packet.source]
                    source.register = None
                    source.leaves = now + packet.further
                    self._advance(source, lives[packet.source])
                self.most[dest] = max(self.most[dest], len(self._in_transit(dest)))
            for one in self.ones:
                one.stalled += one.register is not None
            if all(one.finished is not None for one in self.ones):
                return "ended" if all(packet.acquisition >= 0 for packet in self.packets) else "unreceived"
            if all(one.finished is not None or one.waits for one in self.ones) and not any(
                packet.delivery > now for packet in self.packets
            ):
                return "deadlock"
            self.now += 1

    def _in_transit(self, dest: int) -> list[Packet]:
        return [p for p in self.packets if p.dest == dest and p.acceptance >= 0 and p.delivery > self.now]

    def _advance(self, one: One, life: Iterator[str]) -> None:
        if next(life, None) is None:
            one.finished = self.now

    def _live(self, one: One, start: int) -> Iterator[str]:
        while self.now < start:
            yield STEP
        for count, operation in enumerate(self._programs[one.pid]):
            match operation:
                case "send", dest, *words:
                    yield from self._send(one, dest, (one.pid, count), self._further(*words))
                    got: Any = None
                case ("compute", steps):
                    yield from self._work(one, steps)
                    got = None
                case ("poll",):
                    got = None
                    if one.buffer:
                        got = yield from self._acquire(one)
                    else:
                        yield from self._work(one, 1)
                case ("recv",):
                    one.waits = True
                    while not one.buffer:
                        yield STEP
                    one.waits = False
                    got = yield from self._acquire(one)
                case ("until", steps):
                    got = yield from self._until(one, self.now + steps)
            one.result.append((got, self.now))

    def _send(self, one: One, dest: int, content: Any, further: int) -> Iterator[str]:
        o, G = self.machine.o, self.machine.G
        submission = max(self.now + o, one.submitted + G, one.may_submit)
        while self.now < submission:
            one.busy += self.now >= submission - o
            yield STEP
        one.submitted = submission + further  # the gap begins when the last word has left, but for stalls
        one.register = Packet(one.pid, dest, content, submission, further)
        self.packets.append(one.register)
        yield SUBMIT
        one.may_submit = one.leaves + 1

    def _further(self, words: int = 1) -> int:
        """With whole steps a word, or with sixteenths of a step."""
        return -int(-(words - 1) * (self.machine.G_word or 0) // 1)

    def _work(self, one: One, steps: int) -> Iterator[str]:
        for _ in range(steps):
            one.busy += 1
            yield STEP

    def _acquire(self, one: One) -> Any:
        """The first in the buffer, from the step on in which the gap is over."""
        while self.now < one.acquired + self.machine.G + one.buffer[0].further:
            yield STEP
        one.acquired = self.now
        packet = one.buffer.pop(0)
        yield from self._work(one, self.machine.o)
        packet.acquisition = self.now
        return packet.source, packet.content

    def _until(self, one: One, until: int) -> Any:
        if until < self.now:
            return (yield from self._acquire(one)) if one.buffer else None
        while not (one.buffer and self.now >= one.acquired + self.machine.G + one.buffer[0].further):
            if self.now == until:
                return None
            yield STEP
        return (yield from self._acquire(one))
