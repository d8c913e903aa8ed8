"""Processors as MPI ranks: the transport of all of them, and which medium each transport has.

What a medium is, and what they have in common, is in medium.py; what goes between ranks, in wire.py.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .._version import __version__
from ..errors import UsageError
from ..ground import settings
from . import placement, window
from .delivery import Delivery
from .flight import InFlight
from .media.aggregated import Aggregated
from .media.alone import Alone
from .media.messages import ByMessages
from .media.mixed import Mixed
from .media.near import Near
from .media.sparse import Sparse
from .medium import MPITransport
from .neighbours import Neighbours
from .node import Node, abandon
from .placement import Placement
from .revocation import Revocation
from .waiting import Waiter
from .wire import CONTEXTS, MANIFESTS, NO_BOARD, WORD

if TYPE_CHECKING:
    from mpi4py import MPI

WATCH = 0.2  # seconds between looks at whether ranks that are waited for can still come


def duplicate(
    comm: MPI.Intracomm,
    operation: str,
    grace: float | None = None,
    watch: Callable[[], object] | None = None,
    graceful: Callable[[], float] = lambda: 10.0,
) -> MPITransport:
    """The transport of all ranks of a communicator, on a duplicate of it; collective.

    Args:
        operation: what it is made for, for errors.
        grace: seconds for a rank that comes to tell a failure; its settings, which may be what is wrong, do not
            count.
        watch: is called now and then while others are waited for.
        graceful: gives the grace period of failures, in seconds.

    Raises:
        TimeoutError: not all ranks have come within the grace period.
        UsageError: they are set differently, or of several versions of pybsp; on all.
    """
    from mpi4py import MPI

    waiter = Waiter()
    window.configured_bytes()  # as the waiter, refuses a wrong setting before others are met
    placement.configured()  # likewise
    copy, request = comm.Idup()
    deadline = float("inf") if grace is None else time.perf_counter() + grace
    while not waiter.until(MPI.Request.Test, request, min(deadline, time.perf_counter() + WATCH)):
        if time.perf_counter() > deadline:
            raise TimeoutError
        if watch is not None:
            watch()
    copy.Set_errhandler(MPI.ERRORS_RETURN)
    own = (__version__, settings.set_here(settings.OF_TRANSPORT)) if grace is None else None
    # Ranks that are set alike, as nearly always, find that by one word of each.
    words = array("q", [0]) * copy.size
    mine = array("q", [crc32(repr(own).encode())])
    request = copy.Iallgather([mine, 8, MPI.BYTE], [words, 8, MPI.BYTE])
    waiter.until(MPI.Request.Test, request)
    of_all: list[Any] = [own] * copy.size if words.count(words[0]) == len(words) else copy.allgather(own)
    if None not in of_all:
        try:
            _require_one_version(operation, [one[0] if isinstance(one, tuple) else "0.4 or older" for one in of_all])
            settings.agree(operation, settings.OF_TRANSPORT, [one[1] for one in of_all])
        except UsageError:
            copy.Free()
            raise
        waiter = Waiter()
    return RanksOf(copy, graceful, waiter).whole


def _require_one_version(operation: str, versions: Sequence[str]) -> None:
    """Refuse ranks of several versions of pybsp, which need not understand each other."""
    for pid, version in enumerate(versions):
        if version != versions[0]:
            raise UsageError(
                f"{operation}: expected the same pybsp on all processors, got {version} on processor {pid}, "
                f"{versions[0]} on processor 0; install one version where all hosts find it"
            )


class RanksOf:
    """What the transports on one communicator share: where its ranks are, and how they wait and are revoked.

    Made collectively. Each transport is made by all of its processors at the same time, and of the same medium.

    Args:
        control: a duplicate of the communicator of a program, that is used for revocation alone.
        graceful: gives the grace period of failures, in seconds.
        waiter: how this processor waits.

    Attributes:
        comm: another duplicate, which all transports here use.
        whole: the transport of all its ranks.
    """

    def __init__(self, control: MPI.Intracomm, graceful: Callable[[], float], waiter: Waiter) -> None:
        self._control, self.waiter = control, waiter
        self.comm = control.Dup()
        self.comm.Set_errhandler(control.Get_errhandler())
        self._node = Node.of(self.comm)
        self.placement = Placement.of(self.comm, self._node)
        self.revocation = Revocation(control, waiter, graceful) if self.comm.size > 1 else None
        if self.revocation is not None:
            waiter.look = self.revocation.look
        self.whole = self.transport(range(self.comm.size), self.comm.rank, 0)

    def transport(
        self, ranks: Sequence[int], pid: int, context: int, parent: MPITransport | None = None
    ) -> MPITransport:
        """The transport of some of a transport's processors, or of all ranks; collective over them.

        A part meets on a board only where those that it is a part of do: then its memory is theirs in the end.
        """
        ranks = list(ranks)
        flight = InFlight(self.comm, pid, context, self.revocation)
        neighbours = None
        if self._node is not None and context < CONTEXTS and (parent is None or parent.board is not None):
            neighbours = self._neighbours(self._node, ranks, pid, context, flight, parent)
        groups = self.placement.groups(ranks) if context < CONTEXTS else []
        transport: MPITransport
        if len(ranks) == 1:
            transport = Alone(self, ranks, pid, context, flight)
        elif groups:
            transport = Aggregated(self, ranks, pid, context, flight, neighbours, groups)
        elif neighbours is None:
            transport = ByMessages(self, ranks, pid, context, flight)
        elif len(neighbours.near) == len(ranks):
            transport = Near(self, ranks, pid, context, flight, neighbours)
        else:
            transport = Mixed(self, ranks, pid, context, flight, neighbours)
        transport.open()
        return transport

    def _neighbours(
        self, node: Node, ranks: list[int], pid: int, context: int, flight: InFlight, parent: MPITransport | None
    ) -> Neighbours | None:
        """Collective over those on this node; None where it is one, or where one of them has no room for a board."""
        near = [d for d, rank in enumerate(ranks) if rank in node.places]
        if len(near) == 1:
            return None
        here = [ranks[d] for d in near]
        number = node.number(context)
        if parent is not None:
            # They may have met on different boards of this context before: numbers go on from the largest.
            number = self._largest(number, [rank for rank in here if rank != ranks[pid]], flight)
        if number == NO_BOARD:
            return None
        board = node.board(here, ranks[pid], context, number, None if parent is None else parent.board, self.waiter)
        return Neighbours(board, ranks, pid, near, node.window.pool)

    def _largest(self, number: int, others: list[int], flight: InFlight) -> int:
        """The largest number of these ranks and this one; NO_BOARD where any has that."""
        numbers = array("q", [number]) * len(others)
        into = memoryview(numbers).cast("B")
        mine = array("q", [number]).tobytes()
        if self.revocation is not None:
            self.revocation.members.append(flight)  # until there is a transport that has it
        flight.receive([(rank, into[k * WORD : (k + 1) * WORD]) for k, rank in enumerate(others)], MANIFESTS)
        flight.send([(rank, mine) for rank in others], MANIFESTS)
        self.waiter.until(flight.testall, [*flight.arriving, *flight.leaving])
        flight.forget()
        if self.revocation is not None:
            self.revocation.members.remove(flight)
        return NO_BOARD if NO_BOARD in (number, *numbers) else max(number, *numbers)

    def pair(self, ranks: Sequence[int], context: int) -> MPITransport:
        """The transport of this processor, the first, and one other, by messages."""
        pair = ByMessages(self, list(ranks), 0, context, InFlight(self.comm, 0, context, self.revocation))
        pair.whose = ("pair", *pair.whose[1:])
        pair.open()
        return pair

    def sparse(
        self, transport: MPITransport, ranks: Sequence[int], context: int, flight: InFlight, delivery: Delivery
    ) -> Sparse:
        """How the processors of a transport meet by messages to partners alone."""
        return Sparse(transport, ranks, context, flight, delivery)

    def renewed(self, waits: float | None) -> MPITransport:
        """The transport of all, on a fresh communicator and in fresh shared memory; see `MPITransport.renewed`."""
        assert self.revocation is not None
        revocation = self.revocation
        barrier = revocation.comm.Ibarrier()  # the others may come late, and are waited for as ever
        deadline = None if waits is None else time.perf_counter() + waits
        if not barrier.Test() and not self.waiter.until(type(barrier).Test, barrier, deadline, looks=False):
            raise TimeoutError("not all processors came to where the transport of the next run is made")
        # The boards stay while something of theirs is read, and know the waiter: by that they would refer to what has
        # failed, whose frames have what is read.
        self.waiter.retire()
        abandon(self._node, revocation.comm)
        return RanksOf(revocation.comm, revocation.grace, Waiter()).whole

    def free(self) -> None:
        """Collective."""
        if self._node is not None:
            self._node.free()
        self.comm.Free()
        self._control.Free()
