"""What leaves a LogP processor on an MPI rank: its messages, while MPI has not sent them yet.

All that travels acknowledges, in its head, what has arrived from whom it goes to, or says what credits that has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from .wire import BYTES, FLOAT, FLOATS, HEAD, INT, INTS, LENGTHS, LONG, LONG_RECORD, RECORD_ROOM, Long

MOST = 64  # messages that MPI has not sent yet, at most: MPICH takes a time for each that grows with their number
DATA = 0  # the kind of a message of the program

_Short = tuple[Callable[[], None], Callable[[], bool], bytearray]  # start, test, buffer


class Departures:
    """The sends of one processor.

    Args:
        comm, ranks, tag: where it sends: processors' ranks, and the tag; the data of long messages has the next one.
        pid: of this processor.
        heads: what the head of a message to each says, a number that grows; whoever counts changes it.
        announced: what it said last.

    Attributes:
        announced: see above.
        posted: messages to each that are none of the program.
        leaving: requests that have not left yet, as far as is known, and their buffers; but for those with a
            number or nothing, of which each destination has one request.
    """

    def __init__(
        self, comm: MPI.Intracomm, ranks: Sequence[int], tag: int, pid: int, heads: Sequence[int], announced: list[int]
    ) -> None:
        self._comm, self._ranks, self._tag, self._pid, self._heads = comm, ranks, tag, pid, heads
        self._isend, self._byte = comm.Isend, MPI.BYTE
        self.announced, self.posted = announced, [0] * len(heads)
        self._short: list[_Short | None] = [None] * len(heads)
        self._persistent: list[MPI.Prequest] = []
        self.leaving: deque[tuple[MPI.Request, Any]] = deque()

    def submit(self, dest: int, record_kind: int, body: Any) -> None:
        """Send a message of the program.

        Args:
            body: the number, the record, or a `Long`.
        """
        if record_kind <= INT:
            start, test, buffer = self._short[dest] or self._make_short(dest)
            if test():  # the last has left
                self.announced[dest] = head = self._heads[dest]
                (FLOATS if record_kind == FLOAT else INTS).pack_into(
                    buffer, 0, DATA, record_kind, 8, self._pid, head, body
                )
                start()
                return
            body = (FLOATS if record_kind == FLOAT else INTS).pack(0, 0, 0, 0, 0, body)[HEAD.size :]
        elif record_kind == LONG_RECORD:
            self._submit_long(dest, body)
            return
        self._put(dest, DATA, record_kind, body)

    def post(self, dest: int, kind: int, body: bytes = b"") -> None:
        """Send what is no message of the program."""
        self.posted[dest] += 1
        if len(body) in (0, LONG.size):
            start, test, buffer = self._short[dest] or self._make_short(dest)
            if test():
                self.announced[dest] = head = self._heads[dest]
                HEAD.pack_into(buffer, 0, kind, BYTES, len(body), self._pid, head)
                buffer[HEAD.size : HEAD.size + len(body)] = body
                start()
                return
        self._put(dest, kind, BYTES, body)

    def see_off(self) -> None:
        """Forget what has left."""
        while self.leaving and self.leaving[0][0].Test():
            self.leaving.popleft()

    def over(self) -> bool:
        """Whether all has left."""
        self.see_off()
        return not self.leaving and bool(MPI.Request.Testall(self._persistent))

    def requests(self) -> list[MPI.Request]:
        """Of all that is leaving."""
        return [*self._persistent, *(request for request, _ in self.leaving)]

    def forget(self) -> None:
        """Give requests back to MPI; all has left, or been cancelled."""
        while self._persistent:
            self._persistent.pop().Free()
        self.leaving.clear()

    def _make_short(self, dest: int) -> _Short:
        """A persistent request for messages with a number, or with nothing, which are most."""
        buffer = bytearray(FLOATS.size)
        request = self._comm.Send_init([buffer, len(buffer), self._byte], self._ranks[dest], self._tag)
        self._persistent.append(request)
        self._short[dest] = short = request.Start, request.Test, buffer
        return short

    def _submit_long(self, dest: int, body: Long) -> None:
        lengths, record = LENGTHS.pack(len(body.record), body.nbytes), body.record
        parts = body.parts()
        if len(record) <= RECORD_ROOM:
            lengths += record
        else:
            parts.insert(0, np.frombuffer(record, np.uint8))
        self._put(dest, DATA, LONG_RECORD, lengths)
        for part in parts:
            request = self._isend([part, part.size, self._byte], self._ranks[dest], self._tag + 1)
            self.leaving.append((request, part))

    def _put(self, dest: int, kind: int, record_kind: int, body: bytes | bytearray) -> None:
        """Send what fits into a slot."""
        self.announced[dest] = head = self._heads[dest]
        text = HEAD.pack(kind, record_kind, len(body), self._pid, head) + body
        request = self._isend([text, len(text), self._byte], self._ranks[dest], self._tag)
        if not request.Test():
            self.leaving.append((request, text))
