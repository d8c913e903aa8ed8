"""Probes (crossing.py) on their way, counted: nobody waits for one, so some come after the wait that they ask about.

They go over the communicator of a revocation, where none is left once one is settled: each processor sends them before
its last word, and they are received before that. MPI wants it empty when it is freed: MPICH makes an error of what was
not received, and another communicator could get it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from .wire import PROBE

if TYPE_CHECKING:
    from mpi4py import MPI

    from .waiting import Waiter


class Probes:
    """What one processor has sent and received.

    Args:
        comm: of all processors; what else goes over it has other tags.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self._comm, self._byte, self._status = comm, MPI.BYTE, MPI.Status()
        self._sum = MPI.INT64_T
        self._sent = array("q", [0]) * comm.size  # by rank
        self._received = 0
        self._requests: list[Any] = []

    def send(self, rank: int, text: bytes) -> None:
        """Returns at once."""
        self._requests = [request for request in self._requests if not request.Test()]
        self._requests.append(self._comm.Isend([text, len(text), self._byte], rank, PROBE))
        self._sent[rank] += 1

    def receive(self, source: int) -> bytearray | None:
        """One that has come from there, if one has."""
        message = self._comm.Improbe(source, PROBE, self._status)
        if message is None:
            return None
        text = bytearray(self._status.Get_count(self._byte))
        message.Recv([text, len(text), self._byte])
        self._received += 1
        return text

    def see_off(self, waiter: Waiter) -> None:
        """Receive all that are on their way. Collective; nobody sends one after that.

        Raises:
            what waits raise.
        """
        from mpi4py import MPI

        expected = array("q", [0])
        # By all, as only senders know; not blocking, as a wait has to look for failures.
        counting = self._comm.Ireduce_scatter_block([self._sent, 1, self._sum], [expected, 1, self._sum])
        if not counting.Test():
            waiter.until(MPI.Request.Test, counting)

        def all_here(_: object) -> bool:
            while self._received < expected[0]:
                if self.receive(MPI.ANY_SOURCE) is None:
                    return False
            return True

        if not all_here(None):
            waiter.until(all_here, None)
        MPI.Request.Waitall(self._requests)  # each is received, so none waits
        self._requests.clear()
