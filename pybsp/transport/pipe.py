"""Pipes: what one processor of a board has for several, and has no room on the board, goes to them piece by piece.

A pipe is a ring of pieces in its processor's part. Its processor copies the next piece into it while the others copy
the last ones out of it: both cores copy at once, and what lies in a pipe stays in their caches. A word in each part
says how far its processor is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ground.copying import copy, streams
from .memory import Bytes
from .wire import BY_MESSAGE, WORD

if TYPE_CHECKING:
    from .waiting import Waiter
    from .window import Window

# Bytes of a piece, and of all that a pipe holds. Pieces of 64 KiB in rings of 512 KiB took twice as long: in turns, the
# processors waited for each other.
PIECE, RING = 1 << 17, 1 << 20


class Pipe:
    """The pipe of one processor of a board, and its way to those of the others.

    Args:
        parts, words: of all processors of the board.
        own: which of them is this processor's.
        window: in which its part is.
        waiter: how it waits.
        fence: what keeps loads and stores in order; None: the machine does.

    Attributes:
        memory: the ring, when the pipe has been used.
    """

    def __init__(
        self,
        parts: Sequence[memoryview],
        words: Sequence[memoryview[int]],
        own: int,
        window: Window,
        waiter: Waiter,
        fence: Callable[[], None] | None,
    ) -> None:
        self._parts, self._words, self._own, self._window = parts, words, own, window
        self._waiter, self._fence = waiter, fence
        self.memory: Bytes | None = None

    def place(self) -> int:
        """Where the ring lies in this processor's part; BY_MESSAGE: there is no room for it now."""
        pool = self._window.pool
        memory = pool.take(RING) if self.memory is None else self.memory
        place = pool.place(memory)
        if place != BY_MESSAGE:  # else it is no ring, and there may be room the next time
            self.memory = memory
        return place

    def send(self, dests: Sequence[int], at: int, place: int, data: Bytes) -> None:
        """Copy data, at least a byte, into the ring, once all have entered an exchange.

        Args:
            dests: at least one other processor; each of them `receive`s it.
            at: where the word lies in each part, which is 0 when its processor enters the exchange: this one's says how
                many bytes have been in the ring, that of each other one how many it has copied.
            place: of the ring.
        """
        words, index, size = self._words, at // WORD, data.size
        mine, copied = words[self._own], 0
        ring: Bytes = np.ndarray(RING, np.uint8, self._parts[self._own], place)

        def have(least: int) -> bool:
            nonlocal copied
            copied = min(words[k][index] for k in dests)
            return copied >= least

        for begin in range(0, size, PIECE):
            end = min(begin + PIECE, size)
            # A piece is written over when all dests have it. Those of the pipe's last use its dests have: they have
            # entered this exchange since.
            if copied < end - RING and not have(end - RING):
                self._wait(have, end - RING)
            lies = begin % RING
            piece, there = data[begin:end], ring[lies : lies + end - begin]
            if not lies or streams(size):
                copy(piece, there, size)
            else:  # one piece of each ring tells how they are to be stored: to time all would take a twentieth more
                there[:] = piece
            if self._fence:
                self._fence()
            mine[index] = end  # last, as a status: who sees it finds the bytes before it

    def receive(self, k: int, at: int, place: int, into: Bytes) -> None:
        """Copy what processor k sends; the arguments are those of its `send`."""
        theirs, mine, index = self._words[k], self._words[self._own], at // WORD
        ring: Bytes = np.ndarray(RING, np.uint8, self._parts[k], place)

        def there(least: int) -> bool:
            return theirs[index] >= least

        size = into.size
        for begin in range(0, size, PIECE):
            end = min(begin + PIECE, size)
            if not there(end):
                self._wait(there, end)
            if self._fence:
                self._fence()  # the bytes are read after the word
            lies = begin % RING
            into[begin:end] = ring[lies : lies + end - begin]
            if self._fence:
                self._fence()
            mine[index] = end  # from now on they may be written over

    def _wait(self, test: Callable[[int], bool], least: int) -> None:
        for _ in range(self._waiter.tries):
            if test(least):
                return
        self._waiter.until(test, least)
