"""Where each processor shows all others a record, in one exchange: on a board (board.py), or on several hosts
(host_pads.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ground.chunk import NO_COUNTS, Chunk, clock
from ..ground.short_records import FLOATS, Showable, read_records, write_record

if TYPE_CHECKING:
    from .overflow import Overflow
    from .pipe import Pipe


class Pad:
    """The records of all processors of a transport, as one of them sees them.

    Attributes:
        number: of the last exchange.
        pipe: through which long data goes to all others; None: there is none.
        overflow: where what has no room in a record is shown; None: nowhere.
    """

    number: int
    pipe: Pipe | None
    overflow: Overflow | None
    _own_part: memoryview
    _parts: list[memoryview]
    _areas: tuple[int, int]

    def shown(self) -> tuple[list[memoryview], tuple[int, int], int]:
        """Where a record is for all to see: their parts, where it begins there, by parity, and its bytes at most."""
        raise NotImplementedError

    def parity(self, size: int) -> int:
        """That of the next exchange, whose record may be written now; of so many bytes, the largest number that is said
        before the exchange.
        """
        # On a board all others have entered the last exchange, so that none reads what lies in the area of the next.
        return self.number + 1 & 1

    def begin(self) -> None:
        """A run begins, which numbers its calls from 1: no record of an earlier one is to be taken for one of it."""

    def show(self, kind: int, log: Chunk | None = None, label: float = 0.0, counts: bytes = NO_COUNTS) -> bool:
        """An exchange in which each shows all others a record, which it has written to its area of this parity.

        What others show is there until this processor enters its next exchange.

        Args:
            log: where to note when it began and was over, and, if all did the same, its superstep.
            label, counts: as of `Twin.meet`; counts of no bytes: no superstep is noted.

        Returns:
            Whether all did so.
        """
        if log is None:
            return self._show(kind)
        log.entered = clock()
        alike = self._show(kind)
        log.over = clock()
        if alike and counts:
            log.note_row(label, log.over, counts)
        return alike

    def show_record(
        self,
        kind: int,
        log: Chunk,
        label: float,
        counts: bytes,
        signature: int,
        value: Showable,
        like: bytes | None,
        sources: tuple[int, ...],
        members: tuple[int, ...],
    ) -> list[Any] | bool:
        """`show` of a record, which is written here.

        Args:
            log, label, counts: as of `Twin.meet`.
            signature: with which the record begins.
            value: what it is.
            like: what comes behind the signature in the records of the sources; None: numbers are expected.
            sources: processors whose records are wanted.
            members: those whose records have that signature, all or a group; this one may be left out.

        Returns:
            Of each source its number, or None where it is like that: if all is so it is noted. Else whether all showed
            a record.
        """
        # Written before the exchange is entered, which is what lets others read it.
        at = self._areas[self.parity(FLOATS.size)]  # more has been said where there is data behind bytes
        write_record(self._own_part, at, signature, value)
        log.entered = clock()
        alike = self._show(kind)
        log.over = clock()  # reading is the computing of what follows
        if not alike:
            return False
        # Read before this processor enters its next exchange; only then can anybody enter the one after it, whose
        # records are written over these.
        found = read_records(self._parts, at, signature, like, sources, members)
        if found is None:
            return True
        log.note_row(label, log.over, counts)
        return found

    def _show(self, kind: int) -> bool:
        """The exchange of `show`."""
        raise NotImplementedError
