"""Where processors that meet by messages show each other records: in heads (heads.py), behind their words.

A record takes the memory of one head, for both parities: what others show is written over by the next heads, when this
processor enters the next exchange. Its own is written when the heads that showed the last one have left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pad import Pad
from .wire import HEAD, LONGEST_HEAD, WORD

if TYPE_CHECKING:
    from .heads import Heads
    from .waiting import Waiter


NEVER = -1  # no exchange has that number


class HeadPad(Pad):
    """The records in the heads of a transport."""

    pipe = None
    _areas = (WORD, WORD)

    def __init__(self, heads: Heads, pid: int, waiter: Waiter) -> None:
        self._heads, self._waiter = heads, waiter
        self._parts = heads.parts
        self._own_part = self._parts[pid]
        self._ready = NEVER  # the exchange after which the record was asked for; its bytes
        self._size = 0

    @property
    def number(self) -> int:  # type: ignore[override]
        """Of the last exchange."""
        return self._heads.number

    def shown(self) -> tuple[list[memoryview], tuple[int, int], int]:
        return self._heads.parts, self._areas, LONGEST_HEAD - WORD

    def parity(self, size: int) -> int:
        if self._ready != self._heads.number:  # else it may be written already
            self._heads.see_off(self._waiter)
            self._ready, self._size = self._heads.number, 0
        self._size = max(size, self._size)
        return 0

    def size(self) -> int:
        """Bytes of a head that has this processor's record, none where none was asked for."""
        return WORD + self._size if self._ready == self._heads.number else WORD

    def _show(self, kind: int) -> bool:
        size = self.size()
        self._ready = NEVER  # numbers of exchanges come again
        if size <= HEAD:
            return self._heads.show(kind, self._waiter)
        return self._heads.show_long(kind, size, self._waiter)
