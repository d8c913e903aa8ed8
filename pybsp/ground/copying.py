"""Copies into memory that other processors of the node read.

A core that writes to a line of 64 bytes which another core has read must have it to itself first. Where the two are
close, as by a cache in common, that takes next to no time; where they are far, up to 26 ns a line, one after the other,
where a copy takes 1.4. Streaming stores (copies.c) write whole lines past the caches, and wait for nobody: 2.5 ns. But
where cores are close, streaming, and reading from memory what was streamed, take two and a half times as long as
without. Which it is differs from machine to machine, and on virtual ones from one minute to the next: large copies are
timed, and tell. What is larger than caches streams in any case, as plain stores fetch lines before they write them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import lay
from ..compiled import stream as stream
from .chunk import clock

STREAMED = 1 << 13  # bytes of a text on a board, or of an array in a record, that is worth it
LEAST, LARGE = 1 << 15, 1 << 22  # bytes of a copy that is worth it, and of one that streams in any case
SLOW = 0.25e-9  # seconds a byte from which on streaming is tried
TRIES = 3  # copies by which the ways are compared: any one may have waited for memory, or for its turn on a core
LOOKS = 16  # copies that stream, after which the first bytes of one are stored plainly
LOOK = 1 << 16  # bytes of those
FILLED = 32  # blocks that programs fill in place, of which one is copied, to see how long that takes
PATIENCE = 1 << 12  # slow copies, at most, until streaming is tried again after it was no better


class Stores:
    """How copies are to be stored, as far as those before them tell.

    Attributes:
        streaming: whether the next one is to stream.
        looking: whether the first `LOOK` bytes of that are to be stored plainly, and timed.
        rates: seconds a byte of slow plain copies, one after the other, or of those that streamed.
        filled: blocks that programs have filled in place, or beside it.
    """

    def __init__(self) -> None:
        self.streaming = self.looking = False
        self.rates: list[float] = []
        self.filled = 0
        self._plain = 0.0  # the least of plain ones when streaming was tried
        self._left, self._patience = 0, TRIES  # slow copies until it may be tried again; and how many the next time

    def slow(self, rate: float) -> None:
        """A plain copy was slow."""
        if self._left:
            self._left -= 1
            return
        self.rates.append(rate)
        if len(self.rates) == TRIES:
            self._plain = min(self.rates)
            self._turn(streaming=True)

    def streamed(self, rate: float) -> None:
        """A copy has streamed."""
        self.rates.append(rate)
        if len(self.rates) == TRIES and min(self.rates) > self._plain / 2:  # something else is slow
            self._give_up()
        self.looking = len(self.rates) >= LOOKS

    def looked(self, rate: float) -> None:
        """The first bytes of a copy were stored plainly."""
        if rate < min(self.rates):  # the cores have come together, or it was something else
            self._give_up()
            return
        del self.rates[TRIES:]
        self.looking, self._patience = False, TRIES

    def _give_up(self) -> None:
        self._left, self._patience = self._patience, min(2 * self._patience, PATIENCE)
        self._turn(streaming=False)

    def _turn(self, streaming: bool) -> None:
        self.streaming, self.looking, self.rates = streaming, False, []


_stores = Stores()  # of this process: where its core is, and those of the others, is one thing for all that it copies


def copy(values: NDArray[Any], into: NDArray[Any], whole: int = 0) -> None:
    """Copy values, which cast and broadcast to that, into a contiguous array.

    Args:
        whole: bytes of what these are a piece of.
    """
    size = into.nbytes
    if size < LEAST or stream is None:
        into[...] = values
        return
    whole = max(size, whole)
    if not streams(whole):
        begin = clock()
        into[...] = values
        seconds = clock() - begin
        if seconds > SLOW * size and _alike(values, into):
            _stores.slow(seconds / size)
        elif _stores.rates:  # of some before, which say nothing
            _stores.rates.clear()
        return
    if not _alike(values, into):
        into[...] = values
        return
    source, there = values.reshape(-1).view(np.uint8), into.reshape(-1).view(np.uint8)
    if whole >= LARGE:
        stream(there, source)
        return
    begin = clock()
    if _stores.looking:
        there[:LOOK] = source[:LOOK]
        _stores.looked((clock() - begin) / min(size, LOOK))
        source, there, begin = source[LOOK:], there[LOOK:], clock()
    stream(there, source)
    if there.size >= LEAST and _stores.streaming:
        _stores.streamed((clock() - begin) / there.size)


def record(values: NDArray[Any], into: NDArray[Any]) -> None:
    """Copy an array into a record of its dtype and shape; one of `STREAMED` bytes and more in the way that is quicker,
    as the core finds out for texts on boards. Of few bytes it takes as long as numpy's assignment.
    """
    if lay is None or not lay(into, values):
        into[...] = values


def streams(whole: int) -> bool:
    """Whether a copy of so many bytes is to stream, if that is possible."""
    return whole >= LARGE or _stores.streaming


def beside(size: int) -> bool:
    """Whether so many bytes, which a program is to fill in memory that others read, are better filled in memory of its
    own and copied from there: its own stores do not stream.
    """
    if stream is None or not LEAST <= size < LARGE:
        return False
    _stores.filled += 1
    return _stores.streaming or _stores.filled % FILLED == 0


def _alike(values: NDArray[Any], into: NDArray[Any]) -> bool:
    """Whether the bytes of one are to be those of the other."""
    return values.dtype == into.dtype and values.shape == into.shape and bool(values.flags.c_contiguous)
