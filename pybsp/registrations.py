"""Arrays and queues: which there are, and which were made and freed since the last sync.

All processors make and free the same ones in the same order. What each has made is *declared* with the next sync, where
it is compared (`agreement.look_through`) and takes effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import where
from .participant import Participant
from .queues import Queue

if TYPE_CHECKING:
    from .arrays import Array

Declaration = tuple[str, str, Any, str]  # what was done, to what, the shape of an array, the line


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
        self._new: list[Array] = []
        self._freed: list[Array | Queue] = []
        self.leaving: list[Array | Queue] = []
        self._unused: list[int] = []  # places of queues that are gone

    def next_array(self) -> int:
        """The number of the next array: they are not used again."""
        number = self._array_count
        self._array_count += 1
        return number

    def add_array(self, array: Array, line: str) -> None:
        """Register an array, made at that line; it can be reached from the next sync on."""
        self._new.append(array)
        self.order[array] = None
        self.declared.append(("array of", str(array.local.dtype), array.local.shape, line))

    def next_queue(self) -> int:
        """The number of the next queue: the last one that has become free, equal on all as all free alike."""
        return self._unused.pop() if self._unused else len(self.queues)

    def add_queue(self, queue: Queue, line: str) -> None:
        """Register a queue, made at that line; it can be used at once."""
        self.queues[queue.number : queue.number + 1] = [queue]
        self.order[queue] = None
        self.declared.append(("queue of", str(queue.dtype), None, line))

    def free(self, registered: Array | Queue, what: str) -> None:
        """Free it at the line that the program is in; `what` says so."""
        self._freed.append(registered)
        del self.order[registered]
        self.declared.append((what, str(registered.number), None, where()))

    def accept(self, shapes: list[list[tuple[int, ...]]]) -> None:
        """All have declared the same: it takes effect.

        Args:
            shapes: of each new array, on each processor.
        """
        for array, of_all in zip(self._new, shapes, strict=True):
            array.accept(of_all)
            self.arrays[array.number] = array
        # A put or get after free in the same superstep is legal, so the array goes after this sync's delivery.
        self.leaving += self._freed
        self._new, self._freed, self.declared = [], [], []

    def let_go(self) -> list[Queue]:
        """What was freed goes, as this sync has delivered; returns the queues, whose content goes with the next one."""
        leaving, self.leaving = self.leaving, []
        queues = [registered for registered in leaving if isinstance(registered, Queue)]
        self._unused += [queue.number for queue in queues]
        for registered in leaving:
            registered.leave()
            if not isinstance(registered, Queue):
                del self.arrays[registered.number]
        return queues
