"""Orders of receiving of one processor after the other: they prove equal results where others notice none of them.

If every processor sends the same in all orders in which it can receive, then what the others do makes no difference to
any: an order of receiving is any combination of one order for each, and results are equal in all if each processor's
are in its own. So the numbers of orders of two hot spots add up, where all executions (`orders.py`) multiply them.

Which orders a processor can have follows from one execution. Each does the same operations in all, so only the number
of acquisitions tells which of its sends it has come to; and with n acquisitions of one processor the others come as far
as they can, in any order. A message that has been sent then can be its next one.

What a program has acquired cannot be told from what it will do with it: two prefixes of an order that lead to equal
states are not known to, as a state is in a program's frames. So orders are not merged there.

Source: Flanagan, Godefroid, *Dynamic partial-order reduction for model checking software* (POPL 2005): acquisitions
at two processors are independent where neither changes what the other can acquire.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import greenlet

from ..machines.logp import LogPMachine
from .arguments import destination
from .differences import difference
from .payload import arriving, copied, read
from .processor import Message
from .task import ProgramTask
from .timeless import Name, Order, TimelessExecution, TimelessProcessor

_current: Callable[[], Any] = greenlet.getcurrent


class _Send(NamedTuple):
    """What a processor sends after so many acquisitions."""

    dest: int
    payload: Any
    after: int


class _LocalProcessor(TimelessProcessor):
    """A processor that receives what it is given, and does what it did before, or gives up."""

    def __init__(
        self, machine: LogPMachine, pid: int, given: Sequence[tuple[Name, Any]], sends: Sequence[_Send]
    ) -> None:
        super().__init__(machine, pid)
        self._given, self._sends = given, sends
        self._acquired = self._sent = 0

    def send(self, dest: int, payload: Any) -> None:
        self._require_own("proc.send")
        send = _Send(destination(dest, self.p, self.pid), arriving(payload), self._acquired)
        if self._sent == len(self._sends) or difference(self._sends[self._sent], send, "") is not None:
            self._give_up()
        self._sent += 1

    def recv(self, until: int | None = None) -> Message:
        self._require_own("proc.recv")
        if until is not None or self._acquired == len(self._given):
            self._give_up()
        name, payload = self._given[self._acquired]
        self._acquired += 1
        return Message(name[0], copied(read(payload)))

    def run(self, body: Callable[[Any], Any]) -> tuple[bool, Any]:
        """Whether it has done what it did before; and its result, or what it raised."""
        results: list[Any] = []
        self._hub = greenlet.getcurrent()
        self._task = task = ProgramTask(lambda: results.append(body(self)), self._hub)
        try:
            task.switch()
        except Exception as error:
            return True, error
        if not task.dead:
            self._over = True
            task.end()
            return False, None
        return self._sent == len(self._sends) and self._acquired == len(self._given), results[0]

    _over = False

    def _give_up(self) -> NoReturn:
        while True:
            if self._over:
                _current().exit()
            self._hub.switch()

    _look_at_time = _give_up


class LocalOrders:
    """All orders of receiving of each processor, by itself.

    Args:
        machine, bodies: the program.
        execution, results: one, and what came out.
        most: how many orders to run at most.
        sampled: how many of a processor that has more.

    Attributes:
        count: how many were run, with that of the execution.
        complete: whether these were all.
        local: whether each processor did the same in all. If not, they say nothing of what others could receive.
        largest: how many orders the processor has that has most.
    """

    def __init__(
        self,
        machine: LogPMachine,
        bodies: Sequence[Callable[[Any], Any]],
        execution: TimelessExecution,
        results: list[Any],
        most: int,
        sampled: int,
    ) -> None:
        self._machine, self._bodies, self._results = machine, bodies, results
        self._most, self._sampled = most, sampled
        self._order = execution.order
        self._payloads = {message.name: message.payload for messages in execution.sent for message in messages}
        sends = sorted(
            (message.name, dest, message.after[message.name[0]])
            for dest, messages in enumerate(execution.sent)
            for message in messages
        )
        self._sends: list[list[_Send]] = [[] for _ in range(machine.p)]
        for name, dest, after in sends:
            self._sends[name[0]].append(_Send(dest, self._payloads[name], after))
        self.count, self.complete, self.local, self.largest = 1, False, True, 1

    def __iter__(self) -> Iterator[tuple[Order, list[Any] | Exception]]:
        """Each that is not the execution's, with its results, or what a processor raised; until one is not local."""
        yield self._order, self._results
        complete = True
        for pid in sorted(range(self._machine.p), key=lambda pid: -len(self._order[pid])):
            if len(self._order[pid]) < 2:
                break
            earliest = self._earliest(pid)
            number = _number(earliest, self._most)
            self.largest = max(self.largest, number)
            if number - 1 <= self._most - self.count:
                orders = _all(earliest)
            else:
                complete = False
                orders = _some(earliest, min(self._sampled, self._most - self.count), pid)
            for names in orders:
                if names == self._order[pid]:
                    continue
                given = [(name, self._payloads[name]) for name in names]
                processor = _LocalProcessor(self._machine, pid, given, self._sends[pid])
                self.local, result = processor.run(self._bodies[pid])
                if not self.local:
                    return
                self.count += 1
                order: Order = [[] for _ in self._order]
                order[pid] = names
                yield order, result if isinstance(result, Exception) else self._with(pid, result)
        self.complete = complete

    def _with(self, pid: int, result: Any) -> list[Any]:
        return [*self._results[:pid], result, *self._results[pid + 1 :]]

    def _earliest(self, pid: int) -> dict[Name, int]:
        """Of each message to a processor, how many it acquires before that one is sent, at least."""
        earliest: dict[Name, int] = {}
        p, sends = self._machine.p, self._sends
        acquired, sent, there = [0] * p, [0] * p, [0] * p
        most = list(map(len, self._order))
        for number in range(most[pid] + 1):
            going = [pid] if number else list(range(p))
            while going:
                one = going.pop()
                limit = number if one == pid else most[one]
                while True:
                    while sent[one] < len(sends[one]) and sends[one][sent[one]].after <= acquired[one]:
                        dest = sends[one][sent[one]].dest
                        there[dest] += 1
                        going.append(dest)
                        if dest == pid:
                            earliest[one, sent[one]] = number
                        sent[one] += 1
                    if not there[one] or acquired[one] == limit:
                        break
                    there[one] -= 1
                    acquired[one] += 1
        return earliest


def _number(earliest: Mapping[Name, int], most: int) -> int:
    """How many orders there are; some number above most where there are more."""
    found = 1
    for number in range(len(earliest)):
        found *= sum(least <= number for least in earliest.values()) - number
        if found > most:
            break
    return found


def _all(earliest: Mapping[Name, int]) -> Iterator[list[Name]]:
    beginnings: list[tuple[list[Name], list[Name]]] = [([], sorted(earliest))]
    while beginnings:
        names, others = beginnings.pop()
        if not others:
            yield names
        for k, name in enumerate(others):
            if earliest[name] <= len(names):
                beginnings.append(([*names, name], others[:k] + others[k + 1 :]))


def _some(earliest: Mapping[Name, int], count: int, seed: int) -> Iterator[list[Name]]:
    draw = random.Random(seed)
    for _ in range(count):
        names: list[Name] = []
        others = sorted(earliest)
        while others:
            names.append(draw.choice([name for name in others if earliest[name] <= len(names)]))
            others.remove(names[-1])
        yield names
