"""What all media of MPI ranks have in common: how a transport begins and ends, and what happens when it is left.

A medium is how the processors of a transport meet. There is one class for each, with an exchange of its own (media/);
mpi.py chooses one when a transport is made. They are put together from

    board.py, neighbours.py    shared memory
    heads.py                   a small message from each to each
    leaders.py                 a message from each node to each
    sparse.py                  messages to partners, and a dissemination
    flight.py                  what follows, as messages
    delivery.py                what all that brings

Only tests and non-blocking calls are used, see waiting.py. Transports of different processors share one communicator; a
context, part of the tag, keeps them apart, so a split needs no MPI collective.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..errors import AbortError, BSPError, ProcessorError, SyncError, UsageError
from ..ground.announcing import announce
from ..ground.failures import Failure
from ..processes import process
from . import FAIL, FREE, KIND, QUIET, SYNC, Arrival, Charge, Parcel, Parcels, wire
from .clocks import clocks
from .crossing import Crossing
from .delivery import Delivery
from .flight import InFlight
from .launcher import abort_job, threads_allowed
from .memory import BufferPool
from .neighbours import Neighbours
from .patience import NEVER, Absence, Patience, Witness
from .placement import Placement
from .revocation import SLACK, Member, Revocation, RevokedError
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI

    from .board import Board

INLINE_DATA = 1024  # bytes of data, at most, inline in a manifest: a copy on each side is cheaper than a message
INLINE_DATA_MOST = 1 << 14  # and where a measured machine says that messages are dear
COPYING = 1e-10  # seconds that copying a byte takes
PROBES = 8  # until what has come is found: the first lets MPI fetch it


class Communicator(Protocol):
    """What the transports on one communicator share (mpi.py)."""

    comm: MPI.Intracomm
    placement: Placement
    waiter: Waiter
    revocation: Revocation | None
    whole: MPITransport  # that of all ranks

    def transport(self, ranks: Sequence[int], pid: int, context: int, parent: MPITransport) -> MPITransport:
        """The transport of some of a transport's processors; collective over them."""

    def pair(self, ranks: Sequence[int], context: int) -> MPITransport:
        """The transport of this processor, the first, and one other, by messages."""

    def sparse(
        self, transport: MPITransport, ranks: Sequence[int], context: int, flight: InFlight, delivery: Delivery
    ) -> SparseExchanges:
        """How the processors of a transport meet by messages to partners alone."""

    def renewed(self, waits: float | None) -> MPITransport:
        """The transport of all, on another communicator."""

    def free(self) -> None:
        """Collective."""


class Persistent(Protocol):
    """Something with persistent requests: heads.py, leaders.py."""

    receiving: list[Any]

    @property
    def sending(self) -> list[Any]: ...

    def open(self) -> None:
        """Make them."""

    def see_off(self, waiter: Waiter) -> None:
        """Wait until those of the last exchange are complete."""

    def free(self) -> None:
        """None is active any more."""


class Quiet(Protocol):
    """What most exchanges of a program take alone."""

    def meet(self, kind: int, waiter: Waiter) -> bool:
        """An exchange in which this processor says nothing; returns whether all did the same, and nobody did."""


class SparseExchanges(Protocol):
    """See media/sparse.py."""

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival: ...

    number: int  # of the last one

    def awaited(self) -> list[int] | None:
        """Ranks that are waited for; None: no such exchange goes on."""

    def receiving(self) -> Sequence[Any]: ...

    def sending(self) -> Sequence[Any]: ...


class _Aside:
    """What a thread does in place of the program's, which may be left by an exception as it starts it.

    Attributes:
        arrivals, errors: of what it has done.
    """

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.errors: list[BaseException] = []
        self._halted = False
        self._working = threading.Lock()

    # Done by the thread.
    def work(self, complete: Callable[[], Arrival]) -> None:
        try:
            with self._working:
                if not self._halted:
                    self.arrivals.append(complete())
        except BaseException as error:
            self.errors.append(error)

    def halt(self) -> None:
        """Wait until it is done; never begin it where it has not begun: nobody knows whether the thread was started."""
        self._halted = True
        with self._working:
            pass


class MPITransport(ABC):
    """The ranks of one communicator, or some of them. See `Transport` for what its methods promise.

    Args:
        on: what is shared with the other transports there.
        ranks: of its processors, by pid.
        pid: this one.
        context: tells it apart from others of these processors.
        flight: its messages.
        neighbours: its processors on this node, where they meet in shared memory.

    Attributes:
        inline_data: bytes of data, at most, that are inline in a manifest to another node.
        pool: for what is sent.
    """

    moves_by_mpi: ClassVar[bool] = True  # what goes on meanwhile (`post`) does so only while MPI is called

    def __init__(
        self,
        on: Communicator,
        ranks: Sequence[int],
        pid: int,
        context: int,
        flight: InFlight,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.p, self.pid = len(ranks), pid
        self.waiter = on.waiter
        self.pool: BufferPool
        self.inline_data = INLINE_DATA
        self._on, self._ranks, self._context = on, list(ranks), context
        self.whose: tuple[Any, ...] = ("machine", context, *sorted(ranks))
        # The same deque for good: an exchange sees whether there is anything to wait for without a call.
        self._flight, self._unfinished = flight, flight.unfinished
        self.board: Board | None = None
        if neighbours is None:
            self._delivery = Delivery(self._ranks, pid, flight)
            self.pool = self._delivery.memory
        else:
            self.board = neighbours.board
            flight.moving = on.waiter.moving
            self._delivery = Delivery(self._ranks, pid, flight, neighbours.board, neighbours.places)
            self.pool = neighbours.pool
        self._persistent: Persistent | None = None
        self._pairs: dict[int, MPITransport] = {}  # of this processor and one other; made by the first swap
        self._sparse: SparseExchanges | None = None
        self._aside: _Aside | None = None

    def open(self) -> None:
        """Make the persistent requests. A revocation finds them from here on, however few there are by then."""
        if self._on.revocation is not None:
            self._on.revocation.members.append(self)
        if self._persistent is not None:
            self._persistent.open()

    # -- exchanges ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """See `Transport.exchange`. Every exception that leaves it goes through `left`."""

    @abstractmethod
    def _post(self, kind: int, note: object, parcels: Parcels) -> None:
        """Begin an exchange: post what this processor says and sends."""

    @abstractmethod
    def _complete(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        """Complete an exchange: wait for the others, up to the grace period (then a TimeoutError), and receive."""

    @property
    def sparse(self) -> SparseExchanges:
        """How these processors meet by messages to partners alone; all of them meet so instead, or none."""
        if self._sparse is None:
            self._sparse = self._on.sparse(self, self._ranks, self._context, self._flight, self._delivery)
        return self._sparse

    def post(self, kind: int, note: object, parcels: Parcels) -> Callable[..., Arrival]:
        try:
            # Of the exchanges before the last nothing is leaving any more, so what is bound for sends does not pile up.
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            self._post(kind, note, parcels)
        except BaseException as error:
            self.left(error, kind, note)
        if not self.moves_by_mpi or not threads_allowed():
            return partial(self._complete_posted, kind, note, parcels)
        # Messages move on only while MPI is called: a thread does so. It sleeps, as the program computes. Only one
        # thread calls MPI: between `post` and what completes it the program exchanges nothing.
        waiter, own = self.waiter, Waiter("sleep")
        self.waiter = own
        self.waiter.look, self.waiter.moving = waiter.look, waiter.moving
        own.patience, own.overdue, own.since = waiter.patience, waiter.overdue, float("inf")
        aside = self._aside = _Aside()
        arrivals, errors = aside.arrivals, aside.errors
        work = partial(aside.work, partial(self._complete, kind, note, parcels, None))
        thread = threading.Thread(target=work, name="pybsp exchange", daemon=True)
        thread.start()

        def complete(charge: Charge = FREE, grace: float | None = None) -> Arrival:
            own.since = time.perf_counter()  # nobody waited before
            try:
                thread.join(grace)  # whatever has ended it: nobody waits for a word that does not come
                if thread.is_alive():
                    raise TimeoutError
                if errors:
                    raise errors[0]
                if not arrivals:
                    raise BSPError("the thread that went on with the exchange ended without completing it")
                return arrivals[0]
            except BaseException as error:
                return self.left(error, kind, note)
            finally:
                self._halt()
                self.waiter = waiter

        return complete

    def _complete_posted(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """Complete an exchange that was posted."""
        try:
            return self._complete(kind, note, parcels, grace)
        except BaseException as error:
            return self.left(error, kind, note)

    def _halt(self) -> None:
        """The exchange that a thread has gone on with is over, or revoked: then it ends at its next look."""
        if self._aside is not None:
            self._aside.halt()
            self._aside = None

    @property
    def entered(self) -> int:
        """The number of the last exchange that this processor has entered, modulo 2^16; see crossing.py."""
        sparse = 0 if self._sparse is None else self._sparse.number
        return self._number() + sparse & wire.EPOCH_MASK

    def _number(self) -> int:
        """Of the last exchange in this medium, modulo 2^16; equal on all processors."""
        return 0

    def waits_for(self) -> Sequence[int]:
        """See crossing.py."""
        return list(self.awaited()[0])

    def watch_crossing(self, where: Callable[[], str]) -> None:
        """Processors may enter parts without all others from now on: waits that cross are found (crossing.py).

        Args:
            where: this processor is, in words.
        """
        revocation = self._on.revocation
        if revocation is not None and revocation.crossing is None:
            revocation.crossing = Crossing(revocation, where)
        elif revocation is not None and revocation.crossing is not None:
            revocation.crossing.where = where  # of the run that goes on

    def swap(
        self, partner: int, kind: int, note: object, parcel: Parcel | None, grace: float | None = None
    ) -> tuple[int, Any, Parcel]:
        pair = self._pairs.get(partner)
        if pair is None:
            # In the same context, by messages: two processors meet in the same order, there and here, and MPI keeps it.
            ranks = [self._ranks[self.pid], self._ranks[partner]]
            pair = self._pairs[partner] = self._on.pair(ranks, self._context)
        arrival = pair.exchange(kind, note, {1: parcel} if parcel else {}, grace=grace)
        return (
            kind if arrival.kinds is None else arrival.kinds[1],
            None if arrival.notes is None else arrival.notes[1],
            arrival.parcels[0][1] if arrival.parcels else {},
        )

    def subset(self, members: Sequence[int], context: int) -> MPITransport:
        try:
            ranks = [self._ranks[m] for m in members]
            part = self._on.transport(ranks, members.index(self.pid), context, self)
        except BaseException as error:
            self.left(error)
            raise
        part.inline_data = self.inline_data
        return part

    # -- what others know of it --------------------------------------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        return self._on.comm

    @property
    def all_remote(self) -> bool:
        """Whether no two processors of the communicator meet in shared memory."""
        nodes = self._on.placement.nodes
        return len(set(nodes)) == len(nodes)

    @property
    def hosts(self) -> list[str]:
        """The name of each processor's host."""
        return [self._on.placement.hosts[rank] for rank in self._ranks]

    @property
    def cores(self) -> list[int]:
        """For each processor, how many cores the ranks of its host may run on."""
        return [self._on.placement.cores[rank] for rank in self._ranks]

    @property
    def nodes(self) -> list[int]:
        """A number for each processor, equal for those that meet in shared memory."""
        return [self._on.placement.nodes[rank] for rank in self._ranks]

    def tune(self, o_msg: float) -> None:
        """A message is measured to take so many seconds of a processor's time."""
        self.inline_data = min(max(INLINE_DATA, int(o_msg / (2 * COPYING))), INLINE_DATA_MOST)

    def channel(self, use: int) -> tuple[MPI.Intracomm, list[int], int]:
        """The communicator, the ranks by pid, and the tag of a use (wire.py), for messages outside of exchanges."""
        return self._on.comm, self._ranks, wire.tag(self._context, use)

    @property
    def one_clock(self) -> bool:
        # Who shares memory has the same system's clock; hosts may have the same name and different ones.
        return len(set(self.nodes)) == 1

    def clocks(self) -> list[float]:
        try:
            found = clocks(self)
        except BaseException as error:
            self.left(error)
            raise
        return [found[node].offset if node in found else 0.0 for node in self.nodes] if self.pid == 0 else []

    def time(self) -> float:
        return time.perf_counter()

    def patience(self, witness: Witness, nodes: Sequence[object], warn_after: float, timeout: float) -> None:
        """Report a wait that takes longer than `warn_after`, end one that takes longer than `timeout`; see patience.py.

        Args:
            witness: gives the words.
            nodes: of each processor, something that tells its node.
            warn_after, timeout: seconds.
        """
        grace = NEVER if self._on.revocation is None else self._on.revocation.grace()
        patience = Patience(self.pid, nodes, self._absence, witness, warn_after, timeout, grace, self._lost)
        self.waiter.patience, self.waiter.overdue = patience.first, patience.overdue

    def _lost(self, ended: Sequence[int]) -> None:
        """End the job, of which the launcher has let processes end alone: the first that finds it says so."""
        text = ""
        if process.speaks():
            text = (
                f"pybsp: the process of processor {', '.join(map(str, ended))} has ended, and the launcher ends no "
                "others; ending the job (srun does so sooner with --kill-on-bad-exit=1)"
            )
        else:
            time.sleep(SLACK)
        self.abort(text)

    def _absence(self) -> Absence:
        """Who has not come to whichever exchange goes on, on this communicator."""
        absent: set[int] = set()
        known: set[int] = set()
        for member in () if self._on.revocation is None else self._on.revocation.members:
            missing, seen = member.awaited()
            if missing:  # others are idle
                absent.update(missing)
                known.update(seen)
        return Absence(absent, known - absent - {self.pid})

    # -- when it is left by an exception, see revocation.py ----------------------------------------------------------

    def left(self, error: BaseException, kind: int = 0, note: object = None) -> Arrival:
        """An exception has left an exchange, of that kind and note.

        Returns:
            Where this processor tells of a failure: what all say.

        Raises:
            the exception where it came from here; what all know of where another processor was left by one.
        """
        revocation = self._on.revocation
        if revocation is None:
            raise error
        # It comes from here: what was under way can be neither completed nor told from what comes next, so the others
        # learn that nothing of it counts.
        if not isinstance(error, RevokedError):
            revocation.revoke(error)
            # Others wait in a part, or in the whole, for a processor that tells of its failure elsewhere: what they are
            # to learn is the failure, and not that these waits cross.
            if kind != FAIL or not isinstance(error, SyncError):
                raise error
        try:
            # This processor was telling of a failure of its own: it does so where all meet, and learns what the others
            # say.
            if kind == FAIL and revocation.settled is None and isinstance(note, Failure):
                words = revocation.agree(note, revocation.grace())
                kinds = [FAIL if isinstance(word, Failure) else SYNC for word in words]
                if self.p == revocation.p:
                    return Arrival(kinds, words, (), {})
            # It learns of a failure here for the first time, and has none of its own.
            elif revocation.cause is None:
                revocation.agree(None)
            revocation.refuse()
        except TimeoutError as late:
            if kind == FAIL:
                raise
            self.abort(f"pybsp: processor {self.pid} learned of a failure: {late}; ending the job (PYBSP_GRACE)")
        raise AssertionError  # the two do not return

    def abort(self, message: str) -> None:
        from mpi4py import MPI

        if not process.takes_part():  # Open MPI would wait for ever
            raise UsageError(f"bsp.abort: {process.why_no_processor()}")
        if MPI.COMM_WORLD.size == 1:
            raise AbortError(message)  # nobody else to end, and perhaps a notebook to keep
        if message:
            announce(message)
        abort_job(message)

    @property
    def settled(self) -> ProcessorError | None:
        return None if self._on.revocation is None else self._on.revocation.settled

    @property
    def ended(self) -> bool:
        """Whether a processor has ended its program, as it said when all met because of an exception."""
        return self._on.revocation is not None and self._on.revocation.ended

    @property
    def revoked(self) -> bool:
        return self._on.revocation is not None and self._on.revocation.cause is not None

    def revoke(self, cause: BaseException) -> None:
        if self._on.revocation is not None:
            self._on.revocation.revoke(cause)

    def hear(self) -> None:
        """Learn whether another processor has left an exchange, without waiting."""
        try:
            if self._on.revocation is not None:
                for _ in range(PROBES):
                    self._on.revocation.look()
        except BaseException as error:
            self.left(error)

    def beside(self, member: Member) -> None:
        """Something else has requests on the communicator, until the transport is freed or `alone` is called."""
        if self._on.revocation is not None:
            self._on.revocation.members.append(member)

    def alone(self, member: Member) -> None:
        """The member has no requests any more."""
        if self._on.revocation is not None and member in self._on.revocation.members:
            self._on.revocation.members.remove(member)

    def renewed(self, waits: float | None = None) -> MPITransport:
        """A transport of the same processors, on a fresh communicator and in fresh shared memory.

        Collective, after a revocation that is settled.

        Args:
            waits: seconds, for all to come; None: as long as it takes.

        Raises:
            TimeoutError: not all have come.
        """
        return self._on.renewed(waits)

    # -- a revocation's view, see `Member` ---------------------------------------------------------------------------

    def awaited(self) -> tuple[list[int], list[int]]:
        awaited = None if self._sparse is None else self._sparse.awaited()
        return self._awaited() if awaited is None else (awaited, [])

    def _awaited(self) -> tuple[list[int], list[int]]:
        """See `awaited`: the answer in exchanges of this medium."""
        return [], []

    def receiving(self) -> list[Any]:
        persistent = () if self._persistent is None else self._persistent.receiving
        sparse = () if self._sparse is None else self._sparse.receiving()
        return [*persistent, *self._flight.receiving(), *sparse]

    def sending(self) -> list[Any]:
        persistent = () if self._persistent is None else self._persistent.sending
        sparse = () if self._sparse is None else self._sparse.sending()
        return [*persistent, *self._flight.sending(), *sparse]

    def give_up(self) -> None:
        self._halt()
        self._flight.give_up()

    def forget(self) -> None:
        if self._persistent is not None:
            self._persistent.free()
        self._flight.forget()

    # -- the end -----------------------------------------------------------------------------------------------------

    def free(self) -> None:
        if self.revoked:
            # Its requests are gone when the revocation is settled; shared memory stays as long as somebody reads it.
            return
        try:
            for pair in self._pairs.values():
                pair.free()
            # Nothing may be under way when the context, and with it the tags, are used again.
            self._flight.see_off(0, self.waiter)
            if self._persistent is not None:
                self._persistent.see_off(self.waiter)
            revocation = self._on.revocation
            if self is self._on.whole and revocation is not None:
                revocation.crossing = None  # which would send more
                revocation.probes.see_off(self.waiter)
        except RevokedError:
            return
        if self._persistent is not None:
            self._persistent.free()
        if self._on.revocation is not None:
            self._on.revocation.members.remove(self)
        # Data of its exchanges may still be read: the parent accounts for it from now on.
        if self.board is not None:
            self.board.retire()
        if self is self._on.whole:
            self._on.free()


class ByRequests(MPITransport):
    """A medium with persistent requests, which has a shorter way where this processor says nothing: `Quiet.meet`."""

    _quiet: Quiet

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        try:
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            if parcels or note is not None or grace is not None or kind & ~KIND:
                self._post(kind, note, parcels)
                return self._complete(kind, note, parcels, grace)
            if self._quiet.meet(kind, self.waiter):
                return QUIET
            return self._receive(kind, None, parcels)
        except BaseException as error:
            return self.left(error, kind, note)

    @abstractmethod
    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """Receive, with all others here."""
