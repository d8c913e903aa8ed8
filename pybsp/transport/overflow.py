"""Where a processor of a board shows what has no room in its record: buffers of its arena, at places that the record
says.

As records do, they alternate by the parity of exchanges: who has entered one has read what was shown in the one before,
so that what lay there in the last one but one may be written over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .memory import Bytes
from .wire import BY_MESSAGE

if TYPE_CHECKING:
    from .window import Window

MOST = 1 << 22  # bytes that a processor shows in an exchange so: they stay its own until the last exchange but one


class Overflow:
    """The buffers of one processor of a board.

    Attributes:
        buffers: by the parity of the exchange whose they were last.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self.buffers: tuple[list[Bytes], list[Bytes]] = ([], [])
        self._numbers, self._taken = [-1, -1], [0, 0]

    def take(self, number: int, size: int) -> tuple[int, Bytes]:
        """So many bytes for what is shown in the next exchange, of that number, and their place in this processor's
        part; BY_MESSAGE: there is no room.
        """
        which = number & 1
        buffers = self.buffers[which]
        # The first of an exchange: all others have entered the last one, and so have read what lay here in the one
        # before that.
        if self._numbers[which] != number:
            self._numbers[which], self._taken[which] = number, 0
            buffers.clear()  # the arena has them again
        pool = self._window.pool
        if self._taken[which] + size > MOST:
            return BY_MESSAGE, pool.take(0)
        buffer = pool.take(size)
        place = pool.place(buffer)
        if place != BY_MESSAGE:
            self._taken[which] += size
            buffers.append(buffer)  # referred to, so that the arena gives it to nobody until then
        return place, buffer

    def forget(self) -> None:
        """Nothing is shown any more."""
        for buffers in self.buffers:
            buffers.clear()
