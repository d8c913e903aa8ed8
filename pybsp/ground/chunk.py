"""The open chunk of a log: rows, one for each superstep that has ended, and what is known of the one that goes on.

`Chunk` is the base of `Log`: the compiled one of pybsp/core.c where that was built, whose exchanges note their
supersteps themselves (transport/meeting.py), else the class here, its twin.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from ..compiled import core

COLUMNS = 11  # of a row: ledger/log.py names them
clock = time.perf_counter

# Words, messages, items of queues, ways (ways.py). No NamedTuple: to make one takes 0.1 us more, twice a superstep.
Counted = tuple[int, int, int, int]

# The columns from WORDS_OUT on, as bytes: those of a superstep are often those of the last one, and to pack a number
# takes 10 ns. In most no items travel.
_pack_all = struct.Struct("=7d").pack
_WITHOUT_ITEMS = struct.Struct("=4d16xd")
pack_counts, unpack_counts = _WITHOUT_ITEMS.pack, _WITHOUT_ITEMS.unpack  # words, messages, out and in; ways
NO_COUNTS = pack_counts(0, 0, 0, 0, 0)
UNCOUNTED = b""  # of what is noted elsewhere
_pack_counted_row = struct.Struct(f"=4d{len(NO_COUNTS)}s").pack_into


class Noting:
    """What the compiled chunk is too.

    Attributes:
        memory: of the rows; zeros from `end` on.
        end: where the next row begins in it, in numbers.
        label_number: of the superstep that goes on; its number in the log.
        work: flop charged to it.
        left: when the last one ended, by `clock`.
        entered: when the exchange began that ends it.
        over: when one of records was over, which are still to be read.
    """

    memory: bytearray
    end: int
    label_number: float
    work: float
    left: float
    entered: float
    over: float

    def note_row(self, label: float, leave: float, counts: bytes) -> None:
        """A superstep has ended, on ranks; its exchange began at `entered`.

        Args:
            label: the number of its label, where the program has none.
            leave: when its exchange ended.
            counts: what `pack_counts` makes.
        """
        _pack_counted_row(
            self.memory,
            8 * self.end,
            self.label_number or label,
            self.work,
            self.entered - self.left,
            leave - self.left,
            counts,
        )
        self.work, self.left = 0.0, leave
        self.end += COLUMNS
        if 8 * self.end == len(self.memory):
            self.turn()

    def note_own(self, label: float, enter: float, leave: float, sent: Counted, got: Counted) -> None:
        """The same.

        Args:
            enter: when its exchange began.
        """
        self.entered = enter
        words_out, messages_out, items_out, ways = sent
        words_in, messages_in, items_in, _ = got
        self.note_row(
            label, leave, _pack_all(words_out, words_in, messages_out, messages_in, items_out, items_in, ways)
        )

    def turn(self) -> None:
        """The chunk is full: begin another."""
        raise NotImplementedError


if TYPE_CHECKING or core is None:

    class Chunk(Noting):
        """The base of a log."""

        def __init__(self) -> None:
            self.memory, self.end = bytearray(), 0
            self.label_number = self.work = self.left = self.entered = self.over = 0.0

else:

    class Chunk(core.Chunk, Noting):
        """The compiled base of a log."""
