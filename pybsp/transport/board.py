"""Where the processors of one node that share a transport meet: a board in shared memory (window.py, wire.py).

In an exchange each writes what it does into its own part, its *status* last, and waits for the statuses of the others.
What it says and sends lies beside it, or is read where it lies in its arena: on a node data is copied once, and
received by knowing where it is.

Memory model: data is written before the status, and read after it. `Win.Sync` is the barrier between the two on both
sides. Processors of the x86 family keep this order by themselves (of different words only a store and a later load
change places), and Python changes none: it is left out there.

What happens in most exchanges is in meeting.py. The rules of the protocol stand at their lines. tests/model explores
all orders in which ranks can take these steps.
"""

from __future__ import annotations

import os
import platform
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ..errors import DeliveryError
from . import Section, new_tuple, wire
from .lending import Borrowed, Lent, dropped, same_until
from .meeting import Meeting
from .memory import ALIGN, Bytes, referred_to
from .overflow import Overflow
from .pipe import Pipe
from .wire import (
    AREA,
    BORROWS,
    BY_MESSAGE,
    BYTES,
    HAS,
    SHOWS,
    SIZE,
    SLOT,
    SOMETHING,
    STATUS_EPOCH_SHIFT,
    TAG,
    TAG_EPOCH_SHIFT,
    WORD,
    read_lent,
)

if TYPE_CHECKING:
    from .waiting import Waiter
    from .window import Window

CROWDED = 100  # turns of others on the core, before waiting goes on as in waiting.py
WEAK = platform.machine().lower() not in ("x86_64", "amd64", "i686", "i386")  # may change the order of loads and stores
SOON = 4  # exchanges that borrowed data may be old before it is watched


class Board(Meeting):
    """Where the processors of one node that share a transport meet, as one of them sees it.

    Numbers of exchanges in a context only grow, also from one part of the processors to the next that uses the context:
    a part begins at the largest number that any of its members has used there. So a status that an earlier part has
    left behind is never taken for one of this part.

    Args:
        window: of the node.
        ranks: in the window, of those processors that are on this node.
        own: which of them this one is.
        context: of the transport.
        number: of the last exchange; of all the same, and no less than any of them has used in this context.
        parent: the board of the processors that these are a part of.
        waiter: how this one waits.

    Attributes:
        words: what each of them was doing in the last exchange that was not quiet, with flags.
        release: the leader's words for that; the first processor of the board is the leader, where they have one.
    """

    def __init__(
        self,
        window: Window,
        ranks: Sequence[int],
        own: int,
        context: int,
        number: int,
        parent: Board | None,
        waiter: Waiter,
    ) -> None:
        of = [window.words[rank] for rank in ranks]
        lies = wire.board(window.size, context)
        self._lent, self._borrowed = Lent(), Borrowed(len(ranks))
        # Empty, in most exchanges; the last: number, whose, data of the last few exchanges.
        got: list[tuple[int, int, Bytes]] = []
        self._got, self._lending, self._borrowing = got, self._lent.data, self._borrowed.entries
        super().__init__(
            [window.parts[rank] for rank in ranks],
            own,
            number,
            waiter,
            got,
            self._lending,
            self._borrowing,
            dropped,
            WORD * lies.status.start,
            (WORD * lies.borrows[0].start, WORD * lies.borrows[1].start),
            (WORD * lies.slots[0].start, WORD * lies.slots[1].start),
            lies.areas,
        )
        self._window, self._own, self._parent, self._waiter = window, own, parent, waiter
        self._beginning = number
        self._ranks = list(ranks)
        self.words = [0] * len(ranks)
        self._parts: list[memoryview] = [window.parts[rank] for rank in ranks]
        self._others = [k for k in range(len(ranks)) if k != own]
        # Only processor k writes its status, borrows and slots; only the first one writes the release.
        self._status = [words[lies.status] for words in of]
        self._mine = self._status[own]
        self._theirs = [self._status[k] for k in self._others]
        self.release = of[0][lies.release]
        self._borrows = [[words[row] for row in lies.borrows] for words in of]
        self._slots = [[words[slots] for slots in lies.slots] for words in of]
        self._own_part, self._own_slots = self._parts[own], self._slots[own]
        self._tags = [SLOT * k + TAG for k in self._others]
        self._neighbours = [(k, self._status[k], self._slots[k], self._parts[k]) for k in self._others]
        self._areas = lies.areas
        self._free = 0  # where this exchange's area is free
        self._fence = window.sync if WEAK else None
        self._nobody = [0] * len(ranks)
        self.pipe: Pipe = Pipe(self._parts, of, own, window, waiter, self._fence)
        self.overflow: Overflow = Overflow(window)

    def speak_outside(self) -> None:
        """There are other nodes, for which this processor may have something."""
        self._tags.append(SLOT * len(self._ranks) + TAG)

    def shown(self) -> tuple[list[memoryview], tuple[int, int], int]:
        return self._parts, self._areas, AREA

    def enter_showing(
        self, kind: int, manifests: Sequence[tuple[int, bytes]], data: list[Bytes]
    ) -> list[tuple[int, bytes]]:
        """`enter`, where this processor shows a record too."""
        return self.enter(kind, manifests, data, AREA)

    def enter_with(
        self, record: memoryview, kind: int, manifests: Sequence[tuple[int, bytes]], data: list[Bytes]
    ) -> list[tuple[int, bytes]]:
        """`enter`, where this processor shows a record too, whose bytes are said ahead of it: see `record`."""
        # This area is free, as in `enter`.
        at, size = self._areas[self.number + 1 & 1], len(record)
        start = at + WORD
        SIZE.pack_into(self._own_part, at, size)
        self._own_part[start : start + size] = record
        ahead = WORD + size + ALIGN - 1 & -ALIGN
        if manifests:
            return self.enter(kind | SHOWS, manifests, data, ahead)
        self.number += 1
        self._free = at + ahead
        self._post_status(kind | SHOWS)
        return []

    def record(self, k: int) -> memoryview:
        """What a processor shows in this exchange, by `enter_with`."""
        # As a text: written over in the exchange after the next.
        part, at = self._parts[k], self._areas[self.number & 1]
        start = at + WORD
        return part[start : start + SIZE.unpack_from(part, at)[0]]

    def enter_quiet(self, kind: int) -> int:
        """Enter an exchange in which this processor says nothing; returns its status."""
        self.number += 1
        # Nothing lies in this parity's area: a leader's text may begin there (`let_go`).
        self._free = self._areas[self.number & 1]
        return self._post_status(kind)

    def let_go(self, text: bytes | None) -> bool:
        """Let all others go on; the leader calls it when they are here.

        Args:
            text: for all; None where all did the same and nobody said anything: then they see this one's status.

        Returns:
            False if the text has to go as messages, since the area was full.
        """
        # One release serves both parities: the leader writes the next one when all have entered the next exchange, and
        # a processor that has entered that one has read this.
        place, release = 0, self.release
        word = self._mine[self.number & 1]
        if text is not None:
            # It lies behind this leader's own manifests, in the area of this parity. That is written over in the
            # exchange after the next, when all have entered the next one, and so have read this.
            word |= SOMETHING
            size, place = len(text), self._free
            if size <= self._areas[self.number & 1] + AREA - place:
                self._parts[self._own][place : place + size] = text
            else:
                data: list[Bytes] = []
                place = self._lay(text, data)
                if data:
                    self._lend(data)
            # Where the text lies stands there before the word that says that it does.
            release[1], release[2] = place, size
        if self._fence:
            self._fence()
        release[0] = word  # last, as a status
        return place != BY_MESSAGE

    def wait(self, deadline: float | None = None) -> bool:
        """Wait for all others; False if the deadline (of `time.perf_counter`) came first."""
        here, turn = self.here, os.sched_yield
        if self._waiter.tries == 1:
            # More ranks than cores: the others need this core, one look for each turn of theirs is enough.
            for _ in range(CROWDED):
                if here():
                    return True
                turn()
        return here() or self._waiter.until(here, None, deadline)

    def behind(self) -> list[int]:
        """The processors that have not entered the exchange; none where this one has entered none here yet.

        Before the first one statuses are those of earlier parts in this context, of which some had fewer exchanges.
        """
        if self.number == self._beginning:
            return []
        # The number of a status only grows: one that is ahead has entered this exchange too.
        parity, least = self.number & 1, self.number << STATUS_EPOCH_SHIFT
        return [k for k in self._others if self._status[k][parity] < least]

    def led(self) -> bool:
        """Whether the leader has let this processor go on."""
        least, release = self.number << STATUS_EPOCH_SHIFT, self.release
        # A release too has a number that only grows.
        tries = self._waiter.tries
        while release[0] < least:
            tries -= 1
            if not tries:
                return False
        return True

    def finish(self) -> None:
        """All others are here: what was read by all is used again."""
        if self._fence:
            self._fence()
        # They stay what they are until this processor enters the next exchange: only then can anybody enter the one
        # after it, which writes this parity again.
        parity = self.number & 1
        self.words = [status[parity] for status in self._status]
        if not self._lending:
            return
        # What this exchange sends is still to be read (bit 0). All others have posted what they borrow, so what no bit
        # speaks of is free.
        reading = 1
        for k in self._others:
            if self.words[k] & BORROWS:
                reading |= self._borrows[k][parity][self._own]
        self._reclaim(reading)

    def manifests(self, outside: bool = False) -> list[tuple[int, int, int]]:
        """The manifests for this processor: from whom, where in that one's part (or BY_MESSAGE), and bytes.

        Args:
            outside: return the manifests for other nodes instead.

        Raises:
            DeliveryError: somebody says something, and does not say to this one what.
        """
        # The steps of `Twin.gather`, which looks at each status only once: a call for the two would take 0.05 us more
        # for each neighbour in most exchanges.
        parity, own = self.number & 1, SLOT * (len(self._ranks) if outside else self._own)
        found = []
        for k in self._others:
            if self.words[k] & SOMETHING:
                slots = self._slots[k][parity]
                # Who says anything has written a tag for all: an old one is no "nothing for you".
                tag = slots[own + TAG]
                if tag >> TAG_EPOCH_SHIFT != self.number:
                    self._undelivered(k, tag >> TAG_EPOCH_SHIFT)
                if tag & HAS:
                    found.append((k, slots[own], slots[own + BYTES]))
        return found

    def _undelivered(self, k: int, number: int) -> NoReturn:
        raise DeliveryError(
            f"in exchange {self.number} on a node processor {self._own} of its board found what processor {k} had said "
            f"in exchange {number}"
        )

    def text(self, k: int, at: int, size: int) -> memoryview:
        """Bytes of a processor's part."""
        # Not copied: it is read before this processor enters its next exchange, and written over in the one after that.
        return self._parts[k][at : at + size]

    def read(self, k: int, at: int, size: int) -> Bytes:
        """Data in a processor's part, as it lies there."""
        # It stays its sender's memory: as long as anything here refers to it, `borrows` says so.
        data: Bytes = np.ndarray(size, np.uint8, self._parts[k], at)
        self._got.append((self.number, k, data))
        return data

    def _borrow(self, k: int, text: bytes) -> Section:
        """The section of mail that lies in a processor's part, for the compiled core."""
        records, words, messages, size, at = read_lent(text)
        data: Bytes = np.ndarray(size, np.uint8, self._parts[k], at)  # as `read` does
        self._got.append((self.number, k, data))
        return new_tuple(Section, (records, words, messages, data))

    def forget(self) -> None:
        """Nothing is sent any more: lent data belongs to its readers."""
        self._lent.clear()
        self.pipe.memory = None
        self.overflow.forget()

    def reads(self) -> bool:
        """Whether somebody here refers to data that others sent."""
        self._settled = None
        self._watch(self.number + SOON)
        self._borrowed.words(self.number)
        return bool(self._borrowing)

    def _watch(self, number: int) -> None:
        """Forget data that nothing refers to any more; watch from now on what is some exchanges old.

        Most data never gets that old: looking at its reference count takes less time than watching it.
        """
        late = number - SOON
        recent = []
        for entry in referred_to(self._got):
            if entry[0] > late:
                recent.append(entry)
            else:
                self._borrowed.borrow(entry[1], entry[0], entry[2])
        self._got[:] = recent  # in place: the compiled one knows the list

    def retire(self) -> None:
        """The part has ended: what may still be read of it is from now on the parent's."""
        parent = self._parent
        if parent is None:
            return
        read = [buffer for buffers in self.overflow.buffers for buffer in buffers]
        if self.pipe.memory is not None:
            read.append(self.pipe.memory)
        if read:
            self._lend(read)  # others may still copy the last of it
        # What is borrowed is in the order of exchanges: what comes from here counts as of the last one of the parent.
        self._watch(self.number + SOON)
        parent._watch(parent.number + SOON)
        # Both sides count it by the parent's last exchange from now on, so a bit means the same data to both.
        if self._lending:
            parent._lend(self._lent.clear())
        parent._settled = None
        self._borrowed.hand_over(parent._borrowed, parent.number, [parent._ranks.index(rank) for rank in self._ranks])

    def _post_status(self, what: int) -> int:
        word = self.number << STATUS_EPOCH_SHIFT | what
        parity = self.number & 1
        if self._got or self._borrowing:
            word |= self._post_borrowed(parity)
        if self._fence:
            self._fence()
        # The status is written last: who sees it finds what it borrows beside it.
        self._mine[parity] = word
        return word

    def _lay(self, text: bytes, data: list[Bytes]) -> int:
        """Put a text that the area has no place for in a buffer, which is added to `data`; returns where it lies."""
        buffer = self._window.pool.take(len(text))
        place = self._window.pool.place(buffer)
        if place != BY_MESSAGE:
            # It is lent, as data is: its memory is free when no reader refers to it.
            buffer[:] = np.frombuffer(text, np.uint8)
            data.append(buffer)
        return place

    def _post_borrowed(self, parity: int) -> int:
        """Post whose data is still referred to here; returns the flag that says so, or 0."""
        number = self.number
        if self._got:
            self._watch(number)
        words = self._borrowed.words(number) if self._borrowing else self._nobody
        self._settled = None
        if not self._got and not self._borrowing:
            return 0
        row = list(words)
        until = 0 if self._got else min(same_until(word, number) for word in row)
        if until:
            self._settled = array("q", [*row, len(self._borrowing), until]).tobytes()  # if nothing comes, or is dropped
        for sent, k, _ in self._got:
            row[k] |= 1 << number - sent  # at most SOON: what is older is in the words
        borrows = self._borrows[self._own][parity]
        # All of them, the zeros too: what stood there is of the exchange before the last.
        for k, word in enumerate(row):
            borrows[k] = word
        return BORROWS
