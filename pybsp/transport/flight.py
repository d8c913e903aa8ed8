"""The messages of exchanges, apart from heads: posted, received, and seen off.

What is sent follows the heads, or the board, at once, without waiting for an answer: the receiver knows from them how
much comes from whom, and receives it where it is to be read. A message has to have the size that was announced there.

All requests are in lists where a revocation finds them when an exception comes in between (revocation.py). They are
made by `extend` of a `map`, in one step of the interpreter: no handler of a signal runs between a request and its place
in the list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..errors import DeliveryError
from . import wire
from .memory import Bytes
from .revocation import Revocation, RevokedError

if TYPE_CHECKING:
    from mpi4py import MPI

    from .waiting import Waiter

Text = bytes | memoryview | Bytes

# Bytes of an exchange, at most, that leave without this processor's help: they are in the network's buffers. What is
# more may wait for its next call of MPI, and its receivers with it.
SENT_WITHOUT_PROGRESS = 1 << 16


class InFlight:
    """The messages of one transport, as one processor sees them.

    Args:
        comm: of the transport.
        pid: this processor, for errors.
        context: of the transport.
        revocation: of the communicator; None where there are no others.

    Attributes:
        moving: of the waiter (see there) where waits do not call MPI by themselves, as some are on a board; else None.
        sent_without_progress: bytes of an exchange that leave without this processor's help; -1: none do.
        arriving: receives of this exchange.
        leaving: sends of it.
        unfinished: sends of earlier exchanges, whose data may still be leaving. Not empty: an exchange has to ask first
            (`see_off`). It is the same object for good.
        posted: bytes that were sent in this exchange.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        pid: int,
        context: int,
        revocation: Revocation | None,
    ) -> None:
        from mpi4py import MPI

        self.comm, self._pid, self._context, self._revocation = comm, pid, context, revocation
        self.moving: set[int] | None = None
        self.sent_without_progress = SENT_WITHOUT_PROGRESS
        self.arriving: list[Any] = []
        self.leaving: list[Any] = []
        self.unfinished: deque[list[Any]] = deque()
        self.posted = 0
        self._expected: list[int] = []  # bytes of what arrives
        self._statuses: list[MPI.Status] = []
        self._byte, self.testall, self._new_status = MPI.BYTE, MPI.Request.Testall, MPI.Status

    # -- sent --------------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[tuple[int, Text]], use: int) -> None:
        """Send (rank, data), with the tag of that use; returns at once. The requests keep the memory."""
        if not messages:
            return
        # Two ranks' messages of one tag stay in order, in MPI: those of two exchanges too, and the chunks of one text.
        chunks = [(rank, chunk) for rank, data in messages for chunk in wire.chunks(data)]
        self.posted += sum(len(chunk) for _, chunk in chunks)
        if self.moving is not None:
            self.moving.add(id(self))
        specs = [[chunk, len(chunk), self._byte] for _, chunk in chunks]
        tag = wire.tag(self._context, use)
        self.leaving.extend(map(self.comm.Isend, specs, [rank for rank, _ in chunks], repeat(tag)))

    def let_go(self, waiter: Waiter) -> None:
        """Do not wait for the word that a little data has arrived at another node: it takes another latency.

        On a node it is no more than the receiver's next look; and this processor may be about to compute.
        """
        if not self.testall(self.leaving) and not waiter.briefly(self.testall, self.leaving):
            self.unfinished.append(self.leaving)
        self.leaving = []
        if not self.unfinished:
            self._rest()
        elif self.posted > self.sent_without_progress:
            self.see_off(0, waiter)

    def see_off(self, keep: int, waiter: Waiter) -> None:
        """Forget data that has left; wait for it, but for that of the last `keep` exchanges.

        The receivers of an exchange that is over have it, as they could not leave theirs without it: what is missing is
        only the word that it arrived. Until then its buffers, to which the requests refer, are not used again.

        Raises:
            RevokedError: an exchange was left by an exception.
        """
        if self._revocation is not None and self._revocation.cause is not None:
            raise RevokedError
        unfinished = self.unfinished
        while unfinished and (self.testall(unfinished[0]) or len(unfinished) > keep):
            waiter.until(self.testall, unfinished[0])
            unfinished.popleft()
        if not unfinished:
            self._rest()

    def _rest(self) -> None:
        """Nothing is leaving any more."""
        if self.moving is not None:
            self.moving.discard(id(self))

    # -- received ----------------------------------------------------------------------------------------------------

    def receive(self, places: Sequence[tuple[int, memoryview | Bytes]], use: int) -> None:
        """Post receives: of each (rank, memory of the announced size), with the tag of that use."""
        chunks = [(rank, chunk) for rank, place in places for chunk in wire.chunks(place)]
        specs = [[chunk, len(chunk), self._byte] for _, chunk in chunks]
        tag = wire.tag(self._context, use)
        self.arriving.extend(map(self.comm.Irecv, specs, [rank for rank, _ in chunks], repeat(tag)))
        self._expected += [len(chunk) for _, chunk in chunks]

    def collect(self, waiter: Waiter) -> None:
        """Wait for what has been posted to be received; a DeliveryError where it has not the announced size."""
        requests = self.arriving
        if not requests:
            return
        statuses = self.statuses()
        if not self.testall(requests, statuses):
            waiter.until(partial(self.testall, statuses=statuses), requests)
        self.check(statuses)

    def statuses(self) -> list[MPI.Status]:
        """One for each receive that is posted."""
        missing = len(self.arriving) - len(self._statuses)
        if missing > 0:
            self._statuses += [self._new_status() for _ in range(missing)]
        return self._statuses[: len(self.arriving)]

    def check(self, statuses: Sequence[MPI.Status]) -> None:
        """All that was posted has been received, with these statuses; a DeliveryError of any other size."""
        expected, byte = self._expected, self._byte
        self.arriving, self._expected = [], []
        # A shorter message would leave what was in the memory before; a longer one is an error of MPI.
        if (got := [status.Get_count(byte) for status in statuses]) != expected:
            raise DeliveryError(f"processor {self._pid} was to receive messages of {expected} bytes, and got {got}")

    # -- a revocation's view, see `Member` ---------------------------------------------------------------------------

    def give_up(self) -> None:
        self.unfinished.append([])  # so that every exchange asks what is the matter

    def awaited(self) -> tuple[list[int], list[int]]:
        return [], []

    def receiving(self) -> list[Any]:
        return self.arriving

    def sending(self) -> list[Any]:
        return [*self.leaving, *(request for sends in self.unfinished for request in sends)]

    def forget(self) -> None:
        self.leaving, self.arriving, self._expected = [], [], []
