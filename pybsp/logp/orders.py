"""Orders of receiving: all results that a program can have which does not look at time, without any time.

What a processor does then follows from the messages that it has received, in their order. An execution is one sequence
of messages for each processor; what it acquires, the k-th message of a source, is the same in every execution in which
that source has received the same. Two acquisitions depend on each other only at one processor, or where one comes
before the sending of the other's message. So executions that differ in the times of acquisitions alone are one, and
each such one is run once:

    from an execution E, for each acquisition e and each message m that was sent to the same processor, not after e, and
    is acquired later: all of E but what comes after e, m in the place of e, and any continuation of that

gives all the others. For if an execution T has not been reached, take the E that has most in common with it, C (what
comes before a member is one). The first acquisition of T beyond C has a message m that was sent in C. Its processor has
acquired another one in E instead, e; so all of C is before what follows e, and the execution with m in the place of e
has more in common with T.

Every execution of the LogP machine has one of these orders. Not every order need be one that it admits in time.

Source: Flanagan, Godefroid, *Dynamic partial-order reduction for model checking software* (POPL 2005), whose races
these are; Abdulla, Aronis, Jonsson, Sagonas, *Optimal dynamic partial order reduction* (POPL 2014): each once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..machines.logp import LogPMachine
from .timeless import Name, Order, TimelessExecution, TimeLookedAtError


class Orders:
    """All orders of receiving of a program, each once.

    Args:
        machine: how many processors.
        bodies: of each.
        most: how many to run at most.

    Attributes:
        count: how many were run.
        complete: whether these were all.
    """

    def __init__(self, machine: LogPMachine, bodies: Sequence[Callable[[Any], Any]], most: int) -> None:
        self._machine, self._bodies, self._most = machine, bodies, most
        self.count, self.complete = 0, False

    def __iter__(self) -> Iterator[tuple[Order, list[Any] | Exception]]:
        """Each, with its results, or what it raised.

        Raises:
            TimeLookedAtError: a processor did: the orders say nothing then.
        """
        # By a processor and what it acquires first: the executions in which it does.
        known: dict[tuple[int, tuple[Name, ...]], list[Order]] = {}
        complete = True
        beginnings: list[tuple[int, Order]] = [(0, [[] for _ in range(self._machine.p)])]
        while beginnings:
            pid, beginning = beginnings.pop()
            if any(_begins(order, beginning) for order in known.get((pid, tuple(beginning[pid])), ())):
                continue
            if self.count == self._most:
                return
            execution = TimelessExecution(self._machine, beginning)
            self.count += 1
            outcome: list[Any] | Exception
            try:
                outcome = execution.run(self._bodies)
            except TimeLookedAtError:
                raise
            except Exception as error:
                outcome = error
            order = execution.order
            yield order, outcome
            for one, names in enumerate(order):
                for end in range(len(names) + 1):
                    known.setdefault((one, tuple(names[:end])), []).append(order)
            alternatives = list(execution.alternatives())
            # No two at one processor begin the same execution.
            if max(Counter(pid for pid, _ in alternatives).values(), default=0) >= self._most:
                complete = False
                del alternatives[self._most :]
            beginnings += alternatives
        self.complete = complete


def _begins(order: Order, beginning: Order) -> bool:
    return all(names[: len(first)] == first for names, first in zip(order, beginning, strict=True))
