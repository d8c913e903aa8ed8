"""An exchange whose cost grows with the partners of a processor, not with p: dynamic sparse data exchange.

    1. A head goes to each partner, that is, to each processor that something is sent to, by synchronous sends: they end
       when it has been received. What arrives is received meanwhile, from whomever.
    2. When all heads of a processor have been received it takes part in a dissemination: ceil(log2 p) rounds, in
       round i a word to processor pid + 2^i and one from pid - 2^i. So it ends when all processors have come that far,
       and then everything has arrived. The words say what the processors do, combined: the least and the largest kind,
       and the flags of all.
    3. Only if they do not all do the same, or somebody says something, do all tell all, by another dissemination.

Messages of a processor: its partners and ceil(log2 p), instead of p - 1; the time is that of a head and its
acknowledgement, and ceil(log2 p) latencies, instead of one latency. Like every exchange it implies that all
have entered.

Source: Hoefler, Siebert, Lumsdaine, *Scalable communication protocols for dynamic sparse data exchange* (2010), with a
dissemination (Hensgen, Finkel, Manber, 1988) as the barrier.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..errors import DeliveryError
from ..processes.process import MOST_PROCESSORS
from . import KIND, wire
from .wire import EXCHANGE, FLAGS, LARGEST, LEAST, SPARSE_WORD

if TYPE_CHECKING:
    from mpi4py import MPI

    from .waiting import Waiter


def rounds(p: int) -> int:
    """The rounds of a dissemination among p processors."""
    return (p - 1).bit_length()


def pays_from(latency: float, o_msg: float) -> int:
    """The least p for which heads to all cost more than a sparse exchange with few partners.

    Args:
        latency: seconds from one processor to another.
        o_msg: seconds that a message takes of a processor's time, sent and received.

    Returns:
        `sys.maxsize` where messages cost nothing, or so little that no MPI has so many processors.
    """
    if o_msg <= 0:
        return sys.maxsize
    # Messages that are saved, against latencies that are added: doubled until it pays, then halved to the first p.
    p = 2
    while (p - 1 - rounds(p)) * o_msg <= (2 + rounds(p)) * latency:
        p *= 2
        if p > MOST_PROCESSORS:
            return sys.maxsize
    low, high = p // 2, p
    while high - low > 1:
        middle = (low + high) // 2
        if (middle - 1 - rounds(middle)) * o_msg <= (2 + rounds(middle)) * latency:
            low = middle
        else:
            high = middle
    return high


class SparseExchange:
    """One exchange, as one processor sees it.

    Args:
        comm, ranks, pid: of the transport.
        tags: of heads and of words. That of heads is not the last exchange's: others may be one exchange ahead.
        number: of the exchange, which its messages carry.
        heads: by destination.
        sizes: of those that follow as messages of their own, empty here.
        kind: what this processor is doing, with its flags, wire.HAS_NOTE where it has a note.

    Attributes:
        arrived: heads by source.
        late: sources of those that follow, with their bytes.
        least, most: of the kinds of all processors.
        flags: those that any of them has.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        ranks: Sequence[int],
        pid: int,
        tags: tuple[int, int],
        number: int,
        heads: dict[int, bytes],
        sizes: dict[int, int],
        kind: int,
    ) -> None:
        from mpi4py import MPI

        self._comm, self._ranks, self._pid, self._tags = comm, ranks, pid, tags
        self._pids = {rank: d for d, rank in enumerate(ranks)}
        self._status = MPI.Status()
        self._any, self._byte, self._testall = MPI.ANY_SOURCE, MPI.BYTE, MPI.Request.Testall
        self.arrived: dict[int, memoryview] = {}
        self.least = self.most = kind & KIND
        self.flags = kind & ~KIND
        self.late: list[tuple[int, int]] = []
        self._number = number
        self._round = -1
        # Of a round; both are used again in the next one, when the two requests are complete (`over`).
        self._out, self._in = (memoryview(bytearray(SPARSE_WORD)).cast("q") for _ in range(2))
        self._heads = [(ranks[d], wire.sparse_head(number, sizes.get(d, 0), head)) for d, head in heads.items()]
        self.sending: list[Any] = []
        self.receiving: list[Any] = []

    def post(self) -> None:
        """Send the heads."""
        specs = [[head, len(head), self._byte] for _, head in self._heads]
        ranks = [rank for rank, _ in self._heads]
        # Synchronous: such a send is complete when its receiver has it, not when it has left. `over` rests on that.
        self.sending.extend(map(self._comm.Issend, specs, ranks, repeat(self._tags[0])))

    def over(self, _: object = None) -> bool:
        """Whether it is; does what can be done now."""
        comm, status, byte, (head_tag, word_tag) = self._comm, self._status, self._byte, self._tags
        # 1. Heads.
        # From whomever: nobody knows who sends. The probe takes the message out of MPI's queue, so nothing else can
        # receive it.
        while (message := comm.Improbe(self._any, head_tag, status)) is not None:
            head = memoryview(bytearray(status.Get_count(byte)))
            message.Recv([head, len(head), byte])
            source = self._pids[status.Get_source()]
            number, size, manifest = wire.read_sparse_head(head)
            # Who is one exchange ahead sends with the other tag, and nobody is two ahead: another number is a defect.
            self._check(source, number)
            if size:
                self.late.append((source, size))
            else:
                self.arrived[source] = manifest
        # 2. The dissemination; the largest and the smallest may be combined twice, so any p will do. It begins when all
        # heads of this processor have been received: synchronous sends end only then. So when a processor has heard of
        # all others, by way of however many, nothing of this exchange is under way to it any more.
        p = len(self._ranks)
        while self._testall(self.sending) and self._testall(self.receiving):
            if self._round >= 0:
                self._check((self._pid - (1 << self._round)) % p, self._in[EXCHANGE])
                self.least, self.most = min(self.least, self._in[LEAST]), max(self.most, self._in[LARGEST])
                self.flags |= self._in[FLAGS]
            self._round += 1
            if self._round == rounds(p):
                return True
            before, behind = (self._pid - (1 << self._round)) % p, (self._pid + (1 << self._round)) % p
            out = self._out
            out[LEAST], out[LARGEST], out[FLAGS], out[EXCHANGE] = self.least, self.most, self.flags, self._number
            # One word in and one out at a time: those of two rounds between the same two stay in order, in MPI.
            self.receiving.clear()
            self.sending.clear()
            self.receiving.extend(map(comm.Irecv, [[self._in, SPARSE_WORD, byte]], [self._ranks[before]], [word_tag]))
            self.sending.extend(map(comm.Isend, [[self._out, SPARSE_WORD, byte]], [self._ranks[behind]], [word_tag]))
        return False

    def awaited(self) -> list[int]:
        """Ranks of those whose word is awaited: they may be waiting themselves."""
        # Before the dissemination: receivers that have not taken this processor's heads.
        if self._round < 0:
            return [rank for (rank, _), one in zip(self._heads, self.sending, strict=False) if not one.Get_status()]
        if all(one.Get_status() for one in self.receiving):
            return []
        return [self._ranks[(self._pid - (1 << self._round)) % len(self._ranks)]]

    def _check(self, source: int, number: int) -> None:
        if number != self._number:
            raise DeliveryError(
                f"in sparse exchange {self._number} processor {self._pid} got what processor {source} had said in "
                f"exchange {number}"
            )


def allgather(
    comm: MPI.Intracomm,
    ranks: Sequence[int],
    pid: int,
    tag: int,
    own: object,
    waiter: Waiter,
    sends: list[Any],
) -> list[Any]:
    """Step 3: gather what each processor has, by pid; collective. `sends` gets requests that may not be complete."""
    from mpi4py import MPI

    p, status, byte = len(ranks), MPI.Status(), MPI.BYTE
    known = {pid: pickle.dumps(own, 5)}
    before_these = len(sends)  # before these: data, whose receivers take it when they have all notes
    # After round i each knows what 2^(i+1) have: its own, and those of the processors before it.
    for i in range(rounds(p)):
        before, behind = ranks[(pid - (1 << i)) % p], ranks[(pid + (1 << i)) % p]
        text = pickle.dumps(known, 5)
        sends.extend(map(comm.Isend, [[text, len(text), byte]], [behind], [tag]))
        found: list[Any] = []

        def come(source: int, found: list[Any] = found) -> bool:
            found[:] = [comm.Improbe(source, tag, status)]
            return found[0] is not None

        if not come(before):
            waiter.until(come, before)
        received = memoryview(bytearray(status.Get_count(byte)))
        # The message that was probed, whatever else has come with that tag meanwhile.
        found[0].Recv([received, len(received), byte])
        known.update(pickle.loads(received))
        these = sends[before_these:]
        if not MPI.Request.Testall(these):
            waiter.until(MPI.Request.Testall, these)
    return [pickle.loads(known[d]) for d in range(p)]
