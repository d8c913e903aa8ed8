"""What processors do on a board in most exchanges (board.py has the rest): this is what the time of a superstep is.

`Meeting` is the base of `Board`: the compiled one of pybsp/core.c where that was built, else the class here, its twin.
Both do the same to the same memory. The compiled one calls `_met` and `_shown`, which are the twin's, where it
waited in vain, or others did something else.

The rules of the protocol stand at their lines. tests/model explores all orders in which ranks can take these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..compiled import core
from ..ground.chunk import NO_COUNTS, Chunk, Counted, clock
from . import Section
from .lending import Lent, same_until
from .memory import ALIGN, Bytes
from .pad import Pad
from .wire import (
    AREA,
    BORROWS,
    BY_MESSAGE,
    BYTES,
    HAS,
    KIND_AND_FLAGS,
    SHOWS,
    SLOT,
    SOMETHING,
    STATUS_EPOCH_SHIFT,
    TAG,
    TAG_EPOCH_SHIFT,
)

if TYPE_CHECKING:
    from .waiting import Waiter


class Twin(Pad):
    """The methods of a board that are compiled where that is possible."""

    # For the compiled one: this processor's borrows as bytes, how many pieces of data they speak of, and the exchange
    # before which they stay the same, if all that is read here is old; the bits of what is lent, and before which these
    # do.
    _settled: bytes | None
    _lent_word: int
    _lent_until: int
    _own: int
    _waiter: Waiter
    _fence: Callable[[], object] | None
    _mine: memoryview
    _theirs: list[memoryview]
    _own_slots: Sequence[memoryview]
    _free: int
    _tags: list[int]
    _neighbours: list[tuple[int, memoryview, list[memoryview], memoryview]]
    _borrows: list[list[memoryview]]
    _got: list[tuple[int, int, Bytes]]
    _lent: Lent
    _lending: dict[int, list[Bytes]]
    _borrowing: dict[int, Any]

    def meet(self, kind: int, log: Chunk | None = None, label: float = 0.0, counts: bytes = NO_COUNTS) -> bool:
        """An exchange in which this processor says nothing.

        Args:
            log: to note its superstep in, if all did the same.
            label, counts: as of `Chunk.note_row`.

        Returns:
            Whether all did the same, and nobody said anything.
        """
        if log is None:
            return self._meet(kind)
        log.entered = clock()
        quiet = self._meet(kind)
        log.over = clock()
        if quiet and counts:
            log.note_row(label, log.over, counts)
        return quiet

    def _meet(self, kind: int) -> bool:
        number = self.number = self.number + 1
        word = number << STATUS_EPOCH_SHIFT | kind
        # Two of everything are enough: a processor that enters exchange k + 2 has seen all others in k + 1, which they
        # entered when they had read everything of k. So nobody reads any more what is written over here.
        parity = number & 1
        quiet = True
        if (self._got or self._borrowing) and (flag := self._post_borrowed(parity)):
            word, quiet = word | flag, False
        if self._fence:
            self._fence()
        self._mine[parity] = word
        # Equal means that the other is in this exchange, does the same, and says, sends and borrows nothing. One that
        # does anything else has another word, for which one waits below; none has a smaller one for good.
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] != word:
                tries -= 1
                if not tries:
                    quiet = False
                    break
        if not quiet:
            return self._met(word)
        if self._fence:
            self._fence()
        if self._lending:
            self._lent.clear()  # nobody borrows anything: all that was lent is free
        return True

    def _met(self, word: int) -> bool:
        """The end of `meet` where this processor has to wait, or others said or did something else."""
        self.wait()
        parity, alike = self.number & 1, not word & BORROWS
        for status in self._theirs:
            alike &= status[parity] == word
        if not alike:
            self.finish()
            return all((found ^ word) & ~BORROWS == 0 for found in self.words)  # they may still read what was sent
        if self._fence:
            self._fence()
        if self._lending:
            self._lent.clear()
        return True

    def _show(self, kind: int) -> bool:
        # The area is free, as in `enter`: all others have entered the last exchange, so none reads what was there.
        number = self.number = self.number + 1
        word = posted = number << STATUS_EPOCH_SHIFT | kind | SHOWS
        parity = number & 1
        if self._got or self._borrowing:
            posted |= self._post_borrowed(parity)
        if self._fence:
            self._fence()
        self._mine[parity] = posted
        alike = posted == word
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] != word:
                tries -= 1
                if not tries:
                    alike = False
                    break
        if not alike:
            return self._shown(posted)
        if self._fence:
            self._fence()
        if self._lending:
            self._lent.clear()  # nobody borrows anything: all that was lent is free
        return True

    def _shown(self, posted: int) -> bool:
        """The end of `show`, as `_met`."""
        self.wait()
        word, parity = posted & ~BORROWS, self.number & 1
        alike = posted == word
        for status in self._theirs:
            alike &= status[parity] == word
        if not alike:
            self.finish()
            return all(found & ~BORROWS == word for found in self.words)
        if self._fence:
            self._fence()
        if self._lending:
            self._lent.clear()
        return True

    def enter(
        self, kind: int, manifests: Sequence[tuple[int, bytes]], data: list[Bytes], ahead: int = 0
    ) -> list[tuple[int, bytes]]:
        """Say what this processor does, and hand over manifests.

        Args:
            manifests: (for which processor of the board, text); the number after the last is for other nodes.
            data: that the manifests refer to in this processor's part.
            ahead: bytes at the beginning of its area that have a record: the manifests lie behind it, or elsewhere.

        Returns:
            The manifests that have to go as messages, since the area was full.
        """
        number = self.number = self.number + 1
        parity = number & 1
        slots, at = self._own_slots[parity], self._areas[parity]
        end = at + AREA
        at += ahead
        part = self._own_part
        late = []
        last, last_at = None, 0
        tag = number << TAG_EPOCH_SHIFT
        # A processor with anything to say writes a tag for every other one. So no other one takes missing data for no
        # data: a tag with another number is an error there (DeliveryError).
        if len(manifests) < len(self._tags):  # else each gets one below
            for at_tag in self._tags:
                slots[at_tag] = tag
        for k, manifest in manifests:
            size = len(manifest)
            if manifest is last and last_at != BY_MESSAGE:  # a note to all
                place = last_at
            elif at + size <= end:
                place = at
                part[at : at + size] = manifest
                at += size + ALIGN - 1 & -ALIGN
            else:
                place = self._lay(manifest, data)
                if place == BY_MESSAGE:
                    late.append((k, manifest))
            last, last_at = manifest, place
            slot = SLOT * k
            slots[slot] = place
            slots[slot + TAG] = tag | HAS
            slots[slot + BYTES] = size
        if data:
            self._lend(data)  # before anybody can read it
        self._free = at
        word = number << STATUS_EPOCH_SHIFT | kind | SOMETHING  # as `_post_status` does
        if self._got or self._borrowing:
            word |= self._post_borrowed(parity)
        # The status is written last: a processor that sees it finds all that is written above.
        if self._fence:
            self._fence()
        self._mine[parity] = word
        return late

    def post(
        self, kind: int, outgoing: dict[int, Any], log: Chunk | None = None, data: list[Bytes] | None = None
    ) -> Counted | None:
        """`enter`, in fewer steps, with bytes for others: the compiled one does so.

        Args:
            outgoing: what they are, by processor of the board; packed mail is a bytearray. Empty afterwards.
            log: of which this begins to end the superstep.
            data: as of `enter`; None: there is none.

        Returns:
            What the packed mail counts; None where nothing was done: something is no bytes, or there is no room.
        """
        return None

    def gather(self, kind: int, log: Chunk | None = None) -> Sequence[tuple[int, memoryview | Section]] | None:
        """Wait for all others; the fast path on, where all do the same and nothing comes by message.

        Args:
            log: to note the superstep in, which `post` began to end, if nothing but packed mail has come, or such as
                lies in shared memory.

        Returns:
            (from whom, manifest); of packed mail, plain sections, and mail that lies in shared memory the compiled one
            returns the section, and where nothing else came, all in a tuple: with a log nothing but mail, without
            nothing that lies there. Or None: `finish` and `manifests` say more.
        """
        number = self.number
        # A number in a status only grows: a larger one means that the other is ahead, and left this exchange behind.
        parity, least, own = number & 1, number << STATUS_EPOCH_SHIFT, SLOT * self._own
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] < least:
                tries -= 1
                if not tries:
                    self.wait()
                    break
        if self._fence:
            self._fence()  # what lies beside a status is read after it
        found: list[tuple[int, memoryview | Section]] = []
        reading = 1  # what is sent in this exchange is still to be read
        for k, status, slots_of, part in self._neighbours:
            word = status[parity]
            if word & KIND_AND_FLAGS != kind:
                return None
            if word & SOMETHING:
                slots = slots_of[parity]
                tag = slots[own + TAG]
                if tag >> TAG_EPOCH_SHIFT != number:
                    self._undelivered(k, tag >> TAG_EPOCH_SHIFT)
                if tag & HAS:
                    at = slots[own]
                    if at < 0:
                        return None
                    found.append((k, part[at : at + slots[own + BYTES]]))
            if word & BORROWS:
                reading |= self._borrows[k][parity][self._own]
        # All others have posted in this exchange what they borrow: what none of them borrows is free.
        if self._lending:
            self._reclaim(reading)
        return found

    def _lend(self, data: list[Bytes]) -> None:
        """Data goes out in this exchange, or has gone until now."""
        self._lent_until = 0
        self._lent.lend(self.number, data)

    def _reclaim(self, reading: int) -> None:
        """What all others read of this processor's data, as bits, in this exchange: the rest is free."""
        lent, number = self._lent, self.number
        lent.reclaim(number, reading)
        word = self._lent_word = lent.word
        self._lent_until = 0 if word & 1 else same_until(word, number)

    def here(self, _: object = None) -> bool:
        """Whether all others have entered the exchange."""
        parity, least = self.number & 1, self.number << STATUS_EPOCH_SHIFT
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] < least:
                tries -= 1
                if not tries:
                    return False
        return True

    # -- of board.py --------------------------------------------------------------------------------------------------

    words: list[int]

    def wait(self, deadline: float | None = None) -> bool:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def _post_borrowed(self, parity: int) -> int:
        raise NotImplementedError

    def _lay(self, text: bytes, data: list[Bytes]) -> int:
        raise NotImplementedError

    def _undelivered(self, k: int, number: int) -> NoReturn:
        raise NotImplementedError


if TYPE_CHECKING or core is None:

    class Meeting(Twin):
        """The base of a board.

        Args:
            parts: of all processors of the board, as bytes.
            own: which of them is this processor's.
            number: of the last exchange.
            waiter: how this processor waits.
            got, lending, borrowing: as of `Board`.
            dropped: as lending.py has it.
            status, borrows, slots, areas: where they lie in a part, in bytes; pairs are by parity.
        """

        def __init__(
            self,
            parts: list[memoryview],
            own: int,
            number: int,
            waiter: Waiter,
            got: list[tuple[int, int, Bytes]],
            lending: dict[int, list[Bytes]],
            borrowing: dict[int, Any],
            dropped: dict[int, object],
            status: int,
            borrows: tuple[int, int],
            slots: tuple[int, int],
            areas: tuple[int, int],
        ) -> None:
            self.number, self._settled, self._lent_word, self._lent_until = number, None, 0, 0

else:

    class Meeting(core.Meeting, Twin):
        """The compiled base of a board."""
