"""Where processors that meet by messages show each other records: in heads (heads.py), behind their words.

A record takes the memory of one head, for both parities: what others show is written over by the next heads, when this
processor enters the next exchange. Its own is written when the heads that showed the last one have left.

Nobody says how long a record is. So that a short one takes no more than a short head, random words mark where it would
end, in the last word of each length: one that is longer writes over all of that.
"""

from __future__ import annotations

import os
from sys import byteorder
from typing import TYPE_CHECKING

from .pad import Pad
from .wire import HEAD, LONGEST_HEAD, WORD

if TYPE_CHECKING:
    from .heads import Heads
    from .waiting import Waiter

SHORTER = (HEAD, 2 * HEAD, 4 * HEAD, 8 * HEAD)  # bytes of heads with records, up to the end of their mark


class HeadPad(Pad):
    """The records in the heads of a transport."""

    pipe = None
    _areas = (WORD, WORD)

    def __init__(self, heads: Heads, pid: int, waiter: Waiter) -> None:
        self._heads, self._waiter = heads, waiter
        self._parts = heads.parts
        self._own_part = self._parts[pid]
        self._words = self._own_part.cast("q")
        self._mark = int.from_bytes(os.urandom(WORD), byteorder, signed=True)
        self._set_marks()
        self._ready = heads.number  # after which exchange the memory was free, and its marks were set

    @property
    def number(self) -> int:  # type: ignore[override]
        """Of the last exchange."""
        return self._heads.number

    def shown(self) -> tuple[list[memoryview], tuple[int, int], int]:
        return self._heads.parts, self._areas, LONGEST_HEAD - WORD

    def parity(self) -> int:
        """That of the next exchange, whose record may be written now: heads do not tell them apart."""
        if self._ready != self._heads.number:  # else it may be written already
            self._heads.see_off(self._waiter)
            self._set_marks()
            self._ready = self._heads.number
        return 0

    def _show(self, kind: int) -> bool:
        size = self.size()
        if size == HEAD:
            return self._heads.show(kind, self._waiter)
        return self._heads.show_long(kind, size, self._waiter)

    def size(self) -> int:
        """Bytes of a head that has all of this processor's record."""
        words, mark = self._words, self._mark
        for size in SHORTER:
            if words[size // WORD - 1] == mark:
                return size
        return LONGEST_HEAD

    def _set_marks(self) -> None:
        for size in SHORTER:
            self._words[size // WORD - 1] = self._mark
