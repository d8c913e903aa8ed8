"""Arrays and queues: which there are, and which were made and freed since the last sync.

All processors make and free the same ones in the same order. What each has made is *declared* with the next sync, where
it is compared (`agreement.look_through`) and takes effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import where
from .participant import Participant
from .queues import Queue

if TYPE_CHECKING:
    from ..arrays.array import Array
    from ..arrays.pattern import Pattern

# What was done, to what, what all get to know of it (the shape of an array, what a pattern tells), the line.
Declaration = tuple[str, str, Any, str]


class Registrations(Participant):
    """The arrays and queues of one processor.

    Attributes:
        arrays: that may be put to and got from, by number.
        queues: by number, which is their stream's, from JOINED on.
        declared: since the last sync.
        leaving: freed by all, and gone once this sync has delivered.
        order: all that are there, in the order in which they were made; what was freed is no longer.
    """

    __slots__ = ("_array_count", "_freed", "_new", "_unused", "arrays", "declared", "leaving", "order", "queues")

    def __init__(self) -> None:
        self.arrays: dict[int, Array] = {}
        self.queues: list[Queue] = []
        self.declared: list[Declaration] = []
        self.order: dict[Array | Queue, None] = {}
        self._array_count = 0
        self._new: list[Array | Pattern] = []
        self._freed: list[Array | Pattern | Queue] = []
        self.leaving: list[Array | Pattern | Queue] = []
        self._unused: list[int] = []  # places of queues that are gone

    def next_array(self) -> int:
        """The number of the next array, or pattern: they are not used again."""
        number = self._array_count
        self._array_count += 1
        return number

    def add_array(self, array: Array, place: int, line: str) -> None:
        """Register an array, made at that line; it can be reached from the next sync on.

        Args:
            place: where it lies in shared memory.
        """
        self._new.append(array)
        self.order[array] = None
        self.declared.append(("array of", array.kind, (array.local.shape, place), line))

    def add_pattern(self, pattern: Pattern, line: str) -> None:
        """Register a pattern, made at that line."""
        self._new.append(pattern)
        self.declared.append(("pattern of", f"array {pattern.array.number}", pattern.declared, line))

    def next_queue(self) -> int:
        """The number of the next queue: the last one that has become free, equal on all as all free alike."""
        return self._unused.pop() if self._unused else len(self.queues)

    def add_queue(self, queue: Queue, line: str) -> None:
        """Register a queue, made at that line; it can be used at once."""
        self.queues[queue.number : queue.number + 1] = [queue]
        self.order[queue] = None
        self.declared.append(("queue of", str(queue.dtype), None, line))

    def free(self, registered: Array | Pattern | Queue, what: str) -> None:
        """Free it at the line that the program is in; `what` says so."""
        self._freed.append(registered)
        self.order = {one: None for one in self.order if one is not registered}
        self.declared.append((what, str(registered.number), None, where()))

    def accept(self, shapes: list[list[Any]]) -> None:
        """All have declared the same: it takes effect.

        Args:
            shapes: and places, of each new array, or what each new pattern tells, on each processor.
        """
        for one, of_all in zip(self._new, shapes, strict=True):
            one.accept(of_all, self.arrays)
        # A put or get after free in the same superstep is legal, so the array goes after this sync's delivery.
        self.leaving += self._freed
        self._new, self._freed, self.declared = [], [], []

    def end(self) -> None:
        """The machine has ended: what the program has of it is its own."""
        self.arrays.clear()
        self.order.clear()
        self.queues, self.leaving, self._new, self._freed = [], [], [], []

    def let_go(self) -> list[Queue]:
        """What was freed goes, as this sync has delivered; returns the queues, whose content goes with the next one."""
        leaving, self.leaving = self.leaving, []
        queues = [registered for registered in leaving if isinstance(registered, Queue)]
        self._unused += [queue.number for queue in queues]
        for registered in leaving:
            registered.leave()
            if not isinstance(registered, Queue):
                self.arrays.pop(registered.number, None)
        return queues
