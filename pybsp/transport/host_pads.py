"""Where processors of several hosts show each other records: in heads (heads.py), on boards and in heads, or in what
leaders send each other (leaders.py).

What others show lies in memory of this processor, a row for each of them, for both parities: it is written over when
this processor enters the next exchange. Its own lies there too, and is copied in the exchange, so that nobody waits
outside of one until the last has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .pad import Pad
from .wire import LONGEST_HEAD, WORD

if TYPE_CHECKING:
    from .heads import Heads
    from .leaders import Leaders
    from .neighbours import Neighbours
    from .waiting import Waiter


class HostPad(Pad):
    """The records of all processors, in rows.

    Args:
        rows: by processor; a word, and behind it a record.
        pid: of this one.
        waiter: how it waits.
    """

    pipe = overflow = None
    _areas = (WORD, WORD)

    def __init__(self, rows: list[memoryview], pid: int, waiter: Waiter) -> None:
        self.rows = self._parts = rows
        self._own_part, self._waiter = rows[pid], waiter
        self._size = 0  # of the next record, as far as it was asked for

    def shown(self) -> tuple[list[memoryview], tuple[int, int], int]:
        return self._parts, self._areas, LONGEST_HEAD - WORD

    def parity(self, size: int) -> int:
        self._size = max(size, self._size)
        # One row serves both: the exchange has sent copies, and waited for all others' before it returned.
        return 0

    def begin(self) -> None:
        # On a board what a processor says instead of a record lies over its last one; in a row it need not: a manifest
        # that is a message of its own leaves it there.
        for row in self.rows:
            row[WORD : 2 * WORD] = bytes(WORD)

    def taken(self) -> int:
        """Bytes of a row that has this processor's record; the next one is asked for anew."""
        size, self._size = WORD + self._size, 0
        return size

    def record(self, size: int) -> memoryview:
        """This processor's, of a row of so many bytes."""
        return self._own_part[WORD:size]


class HeadPad(HostPad):
    """The records in the heads of a transport."""

    def __init__(self, heads: Heads, pid: int, waiter: Waiter) -> None:
        super().__init__(heads.parts, pid, waiter)
        self._heads = heads

    @property
    def number(self) -> int:  # type: ignore[override]
        """Of the last exchange."""
        return self._heads.number

    def _show(self, kind: int) -> bool:
        return self._heads.show(kind, self.taken(), self._waiter)


class MixedPad(HeadPad):
    """The records in heads, and on the board of a node.

    Args:
        heads: for processors of other nodes.
        neighbours: those of this node.
        here: whether all others have come, there and here.
    """

    def __init__(
        self, heads: Heads, pid: int, waiter: Waiter, neighbours: Neighbours, here: Callable[[object], bool]
    ) -> None:
        super().__init__(heads, pid, waiter)
        self._neighbours, self._here = neighbours, here

    def _show(self, kind: int) -> bool:
        neighbours, size = self._neighbours, self.taken()
        # Both copy the record: the row is this processor's own again when it returns.
        neighbours.board.enter_with(self.record(size), kind, [], [])
        far = self._heads.show(kind, size, self._waiter, self._here)  # until all have come, there and here
        neighbours.board.finish()
        return neighbours.records(kind, self.rows) and far


class LeadersPad(HostPad):
    """The records that leaders bring.

    Args:
        leaders: of the transport, which has p processors.
        neighbours: those of this node; None where this processor is alone.
    """

    def __init__(self, leaders: Leaders, pid: int, p: int, waiter: Waiter, neighbours: Neighbours | None) -> None:
        self._table = np.zeros((p, LONGEST_HEAD), np.uint8)
        super().__init__([row.data for row in self._table], pid, waiter)
        self._leaders, self._neighbours = leaders, neighbours

    @property
    def number(self) -> int:  # type: ignore[override]
        """Of the last exchange."""
        return self._leaders.number

    def _show(self, kind: int) -> bool:
        record, neighbours = self.record(self.taken()), self._neighbours
        far = self._leaders.show(kind, record, self.rows, self._table, self._waiter)
        return (neighbours is None or neighbours.records(kind, self.rows)) and far
