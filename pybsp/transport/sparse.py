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
from typing import TYPE_CHECKING, Any

from . import KIND

if TYPE_CHECKING:
    from mpi4py import MPI

    from .waiting import Waiter

SAYS = 1 << 8  # a flag beside the kind: this processor says something to all
WORDS = 24  # bytes of what a dissemination carries


def rounds(p: int) -> int:
    """Of a dissemination among p processors."""
    return (p - 1).bit_length()


def pays_from(latency: float, o_msg: float) -> int:
    """The least p for which heads to all cost more than a sparse exchange with few partners.

    Args:
        latency: seconds from one processor to another.
        o_msg: seconds that a message takes of a processor's time, sent and received.

    Returns:
        `sys.maxsize` where messages cost nothing.
    """
    if o_msg <= 0:
        return sys.maxsize
    p = 2
    while (p - 1 - rounds(p)) * o_msg <= (2 + rounds(p)) * latency:
        p *= 2
    low, high = p // 2, p
    while high - low > 1:
        middle = (low + high) // 2
        if (middle - 1 - rounds(middle)) * o_msg <= (2 + rounds(middle)) * latency:
            low = middle
        else:
            high = middle
    return high


class Sparse:
    """One exchange, as one processor sees it.

    Args:
        comm, ranks, pid: of the transport.
        tags: of heads and of words. That of heads is not the last exchange's: others may be one exchange ahead.
        heads: by destination.
        kind: what this processor is doing, with its flags, SAYS where it says something.

    Attributes:
        arrived: heads by source.
        least, most: of the kinds of all processors.
        flags: those that any of them has.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        ranks: Sequence[int],
        pid: int,
        tags: tuple[int, int],
        heads: dict[int, bytes],
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
        self._round = -1
        self._out, self._in = (memoryview(bytearray(WORDS)).cast("q") for _ in range(2))
        self._requests: list[Any] = [
            comm.Issend([head, len(head), self._byte], ranks[d], tags[0]) for d, head in heads.items()
        ]

    def over(self, _: object = None) -> bool:
        """Whether it is; does what can be done now."""
        comm, status, byte, (head_tag, word_tag) = self._comm, self._status, self._byte, self._tags
        # 1. Heads.
        while (message := comm.Improbe(self._any, head_tag, status)) is not None:
            head = memoryview(bytearray(status.Get_count(byte)))
            message.Recv([head, len(head), byte])
            self.arrived[self._pids[status.Get_source()]] = head
        # 2. The dissemination; the largest and the smallest may be combined twice, so any p will do.
        p = len(self._ranks)
        while self._testall(self._requests):
            if self._round >= 0:
                self.least, self.most = min(self.least, self._in[0]), max(self.most, self._in[1])
                self.flags |= self._in[2]
            self._round += 1
            if self._round == rounds(p):
                return True
            before, behind = (self._pid - (1 << self._round)) % p, (self._pid + (1 << self._round)) % p
            self._out[0], self._out[1], self._out[2] = self.least, self.most, self.flags
            self._requests = [
                comm.Irecv([self._in, WORDS, byte], self._ranks[before], word_tag),
                comm.Isend([self._out, WORDS, byte], self._ranks[behind], word_tag),
            ]
        return False


def tell_all(comm: MPI.Intracomm, ranks: Sequence[int], pid: int, tag: int, said: object, waiter: Waiter) -> list[Any]:
    """Step 3: what each processor says, by pid; all call it."""
    from mpi4py import MPI

    p, status, byte = len(ranks), MPI.Status(), MPI.BYTE
    known = {pid: pickle.dumps(said, 5)}
    for i in range(rounds(p)):
        before, behind = ranks[(pid - (1 << i)) % p], ranks[(pid + (1 << i)) % p]
        text = pickle.dumps(known, 5)
        request = comm.Isend([text, len(text), byte], behind, tag)
        found: list[Any] = []

        def come(source: int, found: list[Any] = found) -> bool:
            found[:] = [comm.Improbe(source, tag, status)]
            return found[0] is not None

        if not come(before):
            waiter.until(come, before)
        heard = memoryview(bytearray(status.Get_count(byte)))
        found[0].Recv([heard, len(heard), byte])
        known.update(pickle.loads(heard))
        if not request.Test():
            waiter.until(MPI.Request.Test, request)
    return [pickle.loads(known[d]) for d in range(p)]
