"""Where processors that meet by messages show each other records: in heads (heads.py), behind their words.

A record takes the memory of one head, for both parities: what others show is written over by the next heads, when this
processor enters the next exchange. Its own lies beside what is sent, and is copied in the exchange, so that nobody
waits outside of one until the last has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pad import Pad
from .wire import HEAD, LONGEST_HEAD, WORD

if TYPE_CHECKING:
    from .heads import Heads
    from .waiting import Waiter


class HeadPad(Pad):
    """The records in the heads of a transport."""

    pipe = None
    _areas = (WORD, WORD)

    def __init__(self, heads: Heads, pid: int, waiter: Waiter) -> None:
        self._heads, self._waiter = heads, waiter
        self._parts = heads.parts
        self._own_part = self._parts[pid]
        self._size = 0  # of the next record, as far as it was asked for

    @property
    def number(self) -> int:  # type: ignore[override]
        """Of the last exchange."""
        return self._heads.number

    def shown(self) -> tuple[list[memoryview], tuple[int, int], int]:
        return self._heads.parts, self._areas, LONGEST_HEAD - WORD

    def parity(self, size: int) -> int:
        self._size = max(size, self._size)
        return 0

    def taken(self) -> int:
        """Bytes of a head that has this processor's record; the next one is asked for anew."""
        size, self._size = WORD + self._size, 0
        return size

    def _show(self, kind: int) -> bool:
        size = self.taken()
        if size <= HEAD:
            return self._heads.show(kind, self._waiter)
        return self._heads.show_long(kind, size, self._waiter)
