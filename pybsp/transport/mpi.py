"""Processors as MPI ranks.

Processors of one node meet in shared memory (shared.py), and may have one of them speak to other nodes (aggregated.py).
Apart from that an exchange is one small message from each processor to each other one, its *head*, by persistent
requests (half the time of an Alltoall, and one latency instead of log p of them): what the sender is doing, and a
*manifest* of what follows. A little data goes along with the manifest, in one message; more follows at once, without
waiting for an answer: the receiver knows from the manifests how much comes from whom, and receives it where it is to be
read.

What a processor says in an exchange has its number (the last 16 bits, in a head): what has another number, or another
size than was said, is an error (DeliveryError). All requests are kept where they are found when an exception comes in
between (revocation.py), and are made by `extend` of a `map`, in one step of the interpreter: no handler of a signal
runs between a request and its place in the list.

Only tests and non-blocking calls are used, see waiting.py. Processors of different transports share one communicator; a
context, part of the tag, keeps them apart, so a split needs no MPI collective.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import warnings
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from itertools import repeat
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn
from zlib import crc32

import numpy as np

from .. import process, settings
from ..errors import AbortError, DeliveryError, LauncherError, ProcessorError, UsageError
from ..failures import Failure
from ..process import SIZES
from ..process import launched as launched
from . import (
    FAIL,
    FREE,
    JOINED,
    KIND,
    KINDS,
    LENGTH,
    MAIL,
    NUMBER,
    NUMBERS,
    QUIET,
    SYNC,
    Arrival,
    Bytes,
    Charge,
    Parcel,
    Parcels,
    Segment,
    aggregated,
    made,
)
from .aggregated import Aggregated, Layout
from .memory import BufferPool
from .patience import Absence, Patience, Witness
from .revocation import Member, Revocation, RevokedError
from .shared import BY_MESSAGE, CONTEXTS, NO_BOARD, WITH_MANIFEST, Board, Node, abandon, wanted
from .sparse import SAYS, Sparse, tell_all
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI

# Bytes of a head: one word, and the manifest where it fits. Over TCP, libfabric reports a longer message as sent only
# when it has been acknowledged, a second latency later.
HEAD = 128
STRIDE = HEAD // 8
INLINE = HEAD - 8
ALONG = 1024  # bytes of data, at most, that go along with a manifest: a copy on each side is cheaper than a message
NEAR_ALONG = 1 << 14  # and on a node
MOST_ALONG = 1 << 14  # and where a measured machine says that messages are dear
COPYING = 1e-10  # seconds that copying a byte takes
WATCH = 0.2  # seconds between looks at whether ranks that are waited for can still come
DRAIN = 0.2  # seconds that a launcher gets to read what was printed, before an abort makes it drop the rest
TAGS = 12  # of a context: three for exchanges, two for what runs beside them, four if sparse, three if aggregated
# Bytes of an exchange, at most, that leave without this processor's help: they are in the network's buffers. What is
# more may wait for its next call of MPI, and its receivers with it.
LEAVES = 1 << 16
PROBES = 8  # until what has come is found: the first lets MPI fetch it
CHUNK = 1 << 30  # bytes of one MPI message: counts beyond 2^31 do not work everywhere

_SAID = KINDS | NUMBERS << NUMBER  # of a head's word: all but the size

_source = itemgetter(0)
_dumps, _loads = pickle.dumps, pickle.loads
_NOT_JOINED: dict[int, Bytes] = {}


def under_launcher() -> bool:
    """Whether a launcher started this process: one that says how many there are, or PMIx (as srun has it)."""
    return "PMIX_RANK" in os.environ or any(os.environ.get(size, "").isdigit() for size in SIZES)


def load() -> ModuleType:
    """The module mpi4py.MPI, with MPI initialised.

    MPI that a host program set up is used as it is. Where pybsp is first, it asks for SERIALIZED threads: one thread
    calls MPI at a time, and MULTIPLE costs MPICH 2 us a call.

    Raises:
        ImportError, RuntimeError: no MPI library can be loaded.
        LauncherError: the library cannot start under this launcher.
    """
    import mpi4py

    # Open MPI's UCX component prints an error at each window, before another component makes it.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    level = mpi4py.rc.thread_level
    if level == "multiple":  # mpi4py's default: nobody asked for anything else
        level = "serialized"
    if "mpi4py.MPI" not in sys.modules:
        mpi4py.rc.thread_level = level
        initialize, finalize = mpi4py.rc.initialize, mpi4py.rc.finalize
        # Look first which library it is: MPICH's init would end the process under Open MPI's launcher. And where mpi4py
        # finalizes MPI, it does so in processes too that this one has forked, which speak as this rank then.
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        with warnings.catch_warnings():
            # mpi4py warns on each rank of a launcher that does not belong to the library; _foreign says what to do.
            warnings.filterwarnings("ignore", message="suspicious MPI", category=RuntimeWarning)
            from mpi4py import MPI
        mpi4py.rc.initialize, mpi4py.rc.finalize = initialize, finalize
    from mpi4py import MPI

    if not MPI.Is_initialized():  # as above, or the host has set mpi4py.rc.initialize = False
        speaks_pmix = os.environ.get("MPIR_CVAR_PMI_VERSION", "").lower() == "pmix"
        if "OMPI_COMM_WORLD_SIZE" in os.environ and "MPICH" in MPI.Get_library_version() and not speaks_pmix:
            raise _foreign(launched()[0], "the MPI library would see none of the others")
        MPI.Init_thread(getattr(MPI, f"THREAD_{level.upper()}"))
        process.at_end(lambda: None if MPI.Is_finalized() else MPI.Finalize())
    return MPI


def threads_allowed() -> bool:
    """Whether another thread than the main one may call MPI, one at a time."""
    from mpi4py import MPI

    return bool(MPI.Query_thread() >= MPI.THREAD_SERIALIZED)


def check_launcher(size: int) -> None:
    """Raise LauncherError where a launcher started several processes and the library sees one."""
    expected, _ = launched()
    if size == 1 and expected > 1:
        raise _foreign(expected, "MPI says of each that it is rank 0 of 1")


def _foreign(expected: int, why: str) -> LauncherError:
    from mpi4py import MPI

    library = " ".join(MPI.Get_library_version().rstrip("\x00").split("\n")[0].split(",")[0].split())
    launcher = "MPICH's (Hydra)" if "PMI_SIZE" in os.environ else "Open MPI's"
    return LauncherError(
        f"pybsp: the launcher started {expected} processes, but {why}: the launcher is {launcher}, the MPI library "
        f"that Python loads is {library!r}. Use the mpiexec that belongs to the library (`pybsp run -n {expected} "
        f"program.py` finds the one beside {sys.executable}), or set MPI4PY_MPIABI / install the wheel that belongs to "
        "the launcher"
    )


def abort_job() -> NoReturn:
    """End all ranks of the job, also those outside of a communicator that is in use."""
    from mpi4py import MPI

    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(DRAIN)
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.COMM_WORLD.Abort(1)
    os._exit(1)  # MPICH's Abort can return before the launcher has ended this process


class MPITransport:
    """The ranks of one communicator, or some of them. See `Transport` for what its methods promise."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        ranks: Sequence[int],
        pid: int,
        context: int = 0,
        waiter: Waiter | None = None,
        owns: bool = False,
        node: Node | None = None,
        parent: Board | None = None,
        layout: Layout | None = None,
        revocation: Revocation | None = None,
    ) -> None:
        from mpi4py import MPI

        self.p, self.pid = len(ranks), pid
        self.waiter = waiter or Waiter()
        # Requests, as `receiving` and `sending` have them.
        self._arriving: list[Any] = []  # receives of this exchange
        self._leaving: list[Any] = []  # sends of it, but heads
        self._receives: list[Any] = []
        self._short: dict[int, Any] = {}
        self._long: dict[int, Any] = {}
        self._unfinished: deque[list[Any]] = deque()  # of earlier exchanges: data that may still be leaving
        self._sparse: Sparse | None = None
        self._far: Aggregated | None = None
        self._thread: threading.Thread | None = None
        self.comm, self._revocation = comm, revocation
        if revocation is not None:
            revocation.members.append(self)
        self.along = ALONG  # bytes of data that go along with a manifest to another node, at most
        self._own_memory = BufferPool()  # for what is received
        self.pool = self._own_memory  # for what is sent
        self._comm, self._ranks, self._owns, self._node = comm, list(ranks), owns, node
        self._layout = layout
        self._context = context
        self._pairs: dict[int, MPITransport] = {}  # of this processor and one other; made by the first swap
        self._byte = MPI.BYTE
        self._startall, self._testall = MPI.Prequest.Startall, MPI.Request.Testall
        self._head_tag, self._manifest_tag, self._data_tag = (TAGS * context + k for k in range(3))
        self._bytes_out = memoryview(bytearray(self.p * HEAD))
        self._bytes_in = memoryview(bytearray(self.p * HEAD))
        self._words_out, self._words_in = self._bytes_out.cast("q"), self._bytes_in.cast("q")
        # Those on this node meet on a board, the others by messages.
        self._board: Board | None = None
        self._near: list[int] = []
        self._near_place = [-1] * self.p  # of each processor, on the board
        if node is not None and context < CONTEXTS:
            near = [d for d in range(self.p) if ranks[d] in node.places]
            if len(near) > 1:
                self._board = self._make_board(node, near, context, parent)
            if self._board is not None:
                self._near, self.pool = near, node.window.pool
                for k, d in enumerate(near):
                    self._near_place[d] = k
        self._place = self.pool.place
        # Those of other nodes: one for all of a node, or each.
        groups = layout.groups(ranks) if layout is not None and context < CONTEXTS else []
        if groups:
            self._far = Aggregated(comm, ranks, pid, groups, self._board, self._head_tag + 9)
        # Each begins with the next one, so that not all send to the same processor at once.
        others = [] if groups else [(pid + k) % self.p for k in range(1, self.p)]
        self._peers = [d for d in others if d not in self._near]
        self._board_of_all = None if self._peers or self._far is not None else self._board
        tag = self._head_tag
        for d in self._peers:
            into, out = (part[d * HEAD : (d + 1) * HEAD] for part in (self._bytes_in, self._bytes_out))
            self._receives.append(comm.Recv_init([into, HEAD, MPI.BYTE], ranks[d], tag))
            self._short[d] = comm.Send_init([out, 8, MPI.BYTE], ranks[d], tag)
            self._long[d] = comm.Send_init([out, HEAD, MPI.BYTE], ranks[d], tag)
        self._all_short = list(self._short.values())
        self._quiet = self._receives + self._all_short
        self._heads_out: list[Any] = []  # of the last exchange: others have them, and nobody waited for the word of it
        self._head_at = [d * STRIDE for d in range(self.p)]
        self._connected = False
        self._posted = 0  # bytes of this exchange's manifests and data that go as messages
        self._number = 0  # of the last exchange with heads
        self._sparse_number = 0  # and of the last sparse one
        self._expected: list[int] = []  # bytes of what arrives
        self._statuses: list[MPI.Status] = []
        self._new_status = MPI.Status
        self._control: MPI.Intracomm | None = None

    @classmethod
    def duplicate(
        cls,
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
            UsageError: they are set differently; on all.
        """
        from mpi4py import MPI

        waiter = Waiter()
        wanted()  # as the waiter, refuses a wrong setting before others are met
        aggregated.wanted()  # likewise
        copy, request = comm.Idup()
        deadline = float("inf") if grace is None else time.perf_counter() + grace
        while not waiter.until(MPI.Request.Test, request, min(deadline, time.perf_counter() + WATCH)):
            if time.perf_counter() > deadline:
                raise TimeoutError
            if watch is not None:
                watch()
        copy.Set_errhandler(MPI.ERRORS_RETURN)
        own = settings.told(settings.OF_TRANSPORT) if grace is None else None
        # Ranks that are set alike, as nearly always, find that by one word of each.
        words = array("q", [0]) * copy.size
        mine = array("q", [crc32(repr(own).encode())])
        request = copy.Iallgather([mine, 8, MPI.BYTE], [words, 8, MPI.BYTE])
        waiter.until(MPI.Request.Test, request)
        said: list[Any] = [own] * copy.size if words.count(words[0]) == len(words) else copy.allgather(own)
        if None not in said:
            try:
                settings.agree(operation, settings.OF_TRANSPORT, said)
            except UsageError:
                copy.Free()
                raise
            waiter = Waiter()
        return cls._over(copy, graceful, waiter)

    @classmethod
    def _over(cls, control: MPI.Intracomm, graceful: Callable[[], float], waiter: Waiter) -> MPITransport:
        """On a duplicate of a communicator that is used for revocation alone; collective."""
        copy = control.Dup()
        copy.Set_errhandler(control.Get_errhandler())
        node = Node.of(copy)
        layout = Layout.of(copy, node)
        revocation = Revocation(control, waiter, graceful) if copy.size > 1 else None
        if revocation is not None:
            waiter.look = revocation.look
        made = cls(copy, range(copy.size), copy.rank, 0, waiter, True, node, None, layout, revocation)
        made._control = control
        return made

    def renewed(self) -> MPITransport:
        """A transport of the same processors, on a fresh communicator and in fresh shared memory.

        Collective, after a revocation that is settled.
        """
        assert self._revocation is not None
        revocation = self._revocation
        barrier = revocation.comm.Ibarrier()  # the others may come late, and are waited for as ever
        if not barrier.Test():
            self.waiter.until(type(barrier).Test, barrier, looks=False)
        abandon(self._node, revocation.comm)
        return self._over(revocation.comm, revocation.grace, Waiter())

    def _make_board(self, node: Node, near: list[int], context: int, parent: Board | None) -> Board | None:
        """Collective over those that are near; None where one of them has no room for it."""
        ranks = [self._ranks[d] for d in near]
        own = self._ranks[self.pid]
        number = node.number(context)
        if parent is not None:
            # They may have met on different boards of this context before.
            numbers = array("q", [number]) * len(near)
            found = memoryview(numbers)
            tag = self._manifest_tag
            others = [k for k, rank in enumerate(ranks) if rank != own]
            into = [[found[k : k + 1], 8, self._byte] for k in others]
            mine = [array("q", [number]), 8, self._byte]
            there = [ranks[k] for k in others]
            self._arriving.extend(map(self._comm.Irecv, into, there, repeat(tag)))
            self._leaving.extend(map(self._comm.Isend, repeat(mine), there, repeat(tag)))
            self._wait([*self._arriving, *self._leaving])
            self._arriving, self._leaving = [], []
            if NO_BOARD in numbers:
                return None
            number = max(numbers)
        return node.board(ranks, own, context, number, parent, self.waiter)

    def exchange(
        self,
        kind: int,
        note: object,
        parcels: Parcels,
        charge: Charge = FREE,
        grace: float | None = None,
    ) -> Arrival:
        try:
            if self._unfinished:
                self._see_off(keep=1)
            board = self._board_of_all
            if board is not None and note is None and grace is None:
                if parcels or kind & ~KIND:
                    return self._trade(kind, parcels, board)
                if board.meet(kind):  # the superstep in which this processor sends nothing
                    return QUIET
                return self._receive(kind, None, {})
            if parcels or note is not None or grace is not None or kind & ~KIND or (self._peers and self._near):
                self._post_out(kind, note, parcels)
                return self._finish(kind, note, parcels, grace)
            if self._far is not None:
                if self._far.meet(kind, self.waiter):
                    return QUIET
                self._leaving = self._far.sends
                return self._receive(kind, None, {})
            if self.p == 1:
                return QUIET
            self._see_off_heads()
            number = self._number = self._number + 1 & NUMBERS
            word, words = kind | number << NUMBER, self._words_out
            for at in self._head_at:
                words[at] = word
            self._words_in[self.pid * STRIDE] = word
            self._heads_out = self._all_short
            self._startall(self._quiet)
            # Only for what others send: testing those requests alone takes half the time.
            if not self._testall(self._receives):
                self._wait(self._receives)
            self._let_heads_go()
            if self._words_in[::STRIDE].tolist().count(word) == self.p:
                return QUIET
            return self._receive(kind, None, {})
        except BaseException as error:
            return self.left(error, kind, note)

    def left(self, error: BaseException, kind: int = 0, note: object = None) -> Arrival:
        """An exception has left an exchange, of that kind and note: see revocation.py.

        Returns:
            Where this processor tells of a failure: what all say.

        Raises:
            the exception where it came from here; what all know of where another processor was left by one.
        """
        revocation = self._revocation
        if revocation is None:
            raise error
        if not isinstance(error, RevokedError):
            revocation.revoke(error)
            raise error
        try:
            if kind == FAIL and revocation.settled is None and isinstance(note, Failure):
                words = revocation.agree(note, revocation.grace())
                kinds = [FAIL if isinstance(word, Failure) else SYNC for word in words]
                if self.p == revocation.p:
                    return Arrival(kinds, words, (), {})
            elif revocation.cause is None:
                revocation.agree(None)
            revocation.refuse()
        except TimeoutError as late:
            if kind == FAIL:
                raise
            self.abort(f"pybsp: processor {self.pid} learned of a failure: {late}; ending the job (PYBSP_GRACE)")
        raise AssertionError  # the two do not return

    def _let_heads_go(self) -> None:
        """Do not wait for the word that heads have arrived; but for the first ones, which open connections."""
        if self._testall(self._heads_out):
            self._heads_out = []
        elif not self._connected:
            self._see_off_heads()
        self._connected = True

    def _see_off_heads(self) -> None:
        """Before their memory is used again."""
        if self._heads_out and not self._testall(self._heads_out):
            self._wait(self._heads_out)

    def _let_go(self) -> None:
        """Do not wait for the word that a little data has arrived at another node: it takes another latency.

        On a node it is no more than the receiver's next look; and this processor may be about to compute.
        """
        if not self._testall(self._leaving) and not self.waiter.briefly(self._testall, self._leaving):
            self._unfinished.append(self._leaving)
        self._leaving = []
        if not self._unfinished:
            self.waiter.moving.discard(id(self))
        elif self._board_of_all is not None or self._posted + (0 if self._far is None else self._far.posted) > LEAVES:
            self._see_off(keep=0)

    def _see_off(self, keep: int) -> None:
        """Forget data that has left; wait for it, but for that of the last `keep` exchanges.

        The receivers have it: what is missing is only the word that it arrived. Until then its buffers, to which the
        requests refer, are not used again.

        Raises:
            RevokedError: an exchange was left by an exception.
        """
        if self._revocation is not None and self._revocation.cause is not None:
            raise RevokedError
        unfinished = self._unfinished
        while unfinished and (self._testall(unfinished[0]) or len(unfinished) > keep):
            self._wait(unfinished[0])
            unfinished.popleft()
        if not unfinished:
            self.waiter.moving.discard(id(self))

    def _wait(self, requests: list[Any], deadline: float | None = None) -> bool:
        return self.waiter.until(self._testall, requests, deadline)

    def exchange_sparse(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """As `exchange`, by messages to partners alone (sparse.py); all processors call this instead."""
        try:
            return self._exchange_sparse(kind, note, parcels, grace)
        except BaseException as error:
            return self.left(error, kind, note)

    def _exchange_sparse(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        deadline = None if grace is None else time.perf_counter() + grace
        if self._unfinished:
            self._see_off(keep=1)
        comm, ranks, first = self._comm, self._ranks, self._head_tag + 5
        self._sparse_number += 1
        self._posted = 0
        heads: dict[int, bytes] = {}
        long: list[tuple[int, bytes]] = []
        messages: list[tuple[int, Bytes]] = []
        for d, parcel in parcels.items():
            if d != self.pid:
                late: list[Bytes] = []
                manifest = _describe(None, parcel, self.along, late)
                messages += [(ranks[d], data) for data in late]
                if len(manifest) <= CHUNK:
                    heads[d] = manifest
                else:
                    heads[d] = b""
                    long.append((ranks[d], manifest))
        sizes = {ranks.index(rank): len(text) for rank, text in long}
        tags = first + self._sparse_number % 2, first + 2
        said = kind | (0 if note is None else SAYS)
        exchange = self._sparse = Sparse(comm, ranks, self.pid, tags, self._sparse_number, heads, sizes, said)
        self._post_manifests(long)
        self._post_data(messages)
        exchange.begin()
        if not exchange.over() and not self.waiter.until(exchange.over, None, deadline):
            raise TimeoutError
        self._sparse = None
        kinds: list[int] | None = None
        notes: list[Any] | None = None
        if exchange.least == exchange.most and exchange.flags and not exchange.flags & SAYS:
            kinds = [exchange.most | exchange.flags] * self.p  # some ask for data: which ones does not matter
        elif exchange.least != exchange.most or exchange.flags:
            told = tell_all(comm, ranks, self.pid, first + 3, (kind, note), self.waiter, self._leaving)
            kinds = [one for one, _ in told]
            if any(text is not None for _, text in told):
                notes = [text for _, text in told]
        manifests = self._fetch(exchange.arrived, exchange.late)
        contents = {s: _read(manifest)[1] for s, manifest in manifests.items()}
        arrived, joined = self._post(contents, manifests, parcels.get(self.pid))
        self._collect()
        if self._leaving:
            self._let_go()
        if kinds is None and not arrived:
            return QUIET
        return Arrival(kinds, notes, arrived, joined)

    def begin(self, kind: int, note: object, parcels: Parcels) -> Callable[..., Arrival]:
        try:
            if self._unfinished:
                self._see_off(keep=1)
            self._post_out(kind, note, parcels)
        except BaseException as error:
            self.left(error, kind, note)
        if (not self._peers and self._far is None) or not threads_allowed():
            return partial(self._complete, kind, note, parcels)
        # Messages move on only while MPI is called: a thread does so. It sleeps, as the program computes.
        waiter, own = self.waiter, Waiter("sleep")
        self.waiter = own
        self.waiter.look, self.waiter.moving = waiter.look, waiter.moving
        own.patience, own.overdue, own.since = waiter.patience, waiter.overdue, float("inf")
        future: Future[Arrival] = Future()

        def work() -> None:
            try:
                future.set_result(self._finish(kind, note, parcels, None))
            except BaseException as error:
                future.set_exception(error)

        self._thread = threading.Thread(target=work, name="pybsp exchange", daemon=True)
        self._thread.start()

        def complete(charge: Charge = FREE, grace: float | None = None) -> Arrival:
            own.since = time.perf_counter()  # nobody waited before
            try:
                return future.result(grace)
            except FutureTimeout:
                return self.left(TimeoutError(), kind, note)
            except BaseException as error:
                return self.left(error, kind, note)
            finally:
                self._halt()
                self.waiter = waiter

        return complete

    def _complete(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """End an exchange that was begun."""
        try:
            return self._finish(kind, note, parcels, grace)
        except BaseException as error:
            return self.left(error, kind, note)

    def _halt(self) -> None:
        """The exchange that a thread has gone on with is over, or revoked: then it ends at its next look."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _post_out(self, kind: int, note: object, parcels: Parcels) -> None:
        """Hand over what this processor says and sends."""
        self._posted = 0
        ranks, board = self._ranks, self._board
        plain = b"" if note is None else _dumps((note, ()), 5)
        # 1. Those on this node find manifests, and data, in shared memory.
        late_texts: list[tuple[int, bytes]] = []
        texts, shared, messages = self._describe_near(note, parcels)
        if self._far is not None:
            here = {self.pid, *self._near}
            manifests: dict[int, bytes] = {}
            for d, parcel in parcels.items():
                if d not in here:
                    late: list[Bytes] = []
                    manifests[d] = _describe(note, parcel, self.along, late)
                    messages += [(ranks[d], data) for data in late]
            late_texts = self._far.enter(kind, plain, manifests, texts, shared, self._leaving)
        elif board is not None:
            late_texts = board.enter(kind, texts, shared)
        long = [(ranks[self._near[k]], text) for k, text in late_texts]
        # 2. The heads for the others, with the manifests that fit.
        self._see_off_heads()
        number = self._number = self._number + 1 & NUMBERS
        said = kind | number << NUMBER
        heads = []
        for d in self._peers:
            sent = parcels.get(d)
            if sent is None:
                manifest = plain
            else:
                late = []
                manifest = _describe(note, sent, self.along, late)
                messages += [(ranks[d], data) for data in late]
            size = len(manifest)
            self._words_out[d * STRIDE] = said | size << LENGTH
            if 0 < size <= INLINE:
                self._bytes_out[d * HEAD + 8 : d * HEAD + 8 + size] = manifest
                heads.append(self._long[d])
            else:
                heads.append(self._short[d])
                if size:
                    long.append((ranks[d], manifest))
        if heads:
            self._words_in[self.pid * STRIDE] = said | (note is not None or self.pid in parcels) << LENGTH
            self._heads_out = heads
            self._startall(self._receives + heads)
        # 3. What is longer, behind all heads, which everybody waits for; without waiting.
        self._post_manifests(long)
        self._post_data(messages)

    def _describe_near(
        self, note: object, parcels: Parcels
    ) -> tuple[list[tuple[int, bytes]], list[Bytes], list[tuple[int, Bytes]]]:
        """For those on this node: (place on the board, manifest), data in shared memory, (rank, data) by message."""
        texts: list[tuple[int, bytes]] = []
        shared: list[Bytes] = []
        messages: list[tuple[int, Bytes]] = []
        late: list[Bytes] = []
        if note is not None:
            plain = _dumps((note, ()), 5)
            texts = [(k, plain) for k, d in enumerate(self._near) if d != self.pid and d not in parcels]
        for d, parcel in parcels.items():
            k = self._near_place[d]
            if k >= 0 and d != self.pid:
                texts.append((k, _describe(note, parcel, NEAR_ALONG, late, self._place, shared)))
                if late:
                    messages += [(self._ranks[d], data) for data in late]
                    late.clear()
        return texts, shared, messages

    def _post_manifests(self, manifests: list[tuple[int, bytes]]) -> None:
        """Those that go as messages, by rank."""
        self._send(manifests, self._manifest_tag)

    def _post_data(self, messages: list[tuple[int, Bytes]]) -> None:
        self._send(messages, self._data_tag)

    def _send(self, messages: Sequence[tuple[int, bytes | Bytes]], tag: int) -> None:
        if not messages:
            return
        chunks = [(rank, chunk) for rank, data in messages for chunk in _chunks(data)]
        self._posted += sum(len(chunk) for _, chunk in chunks)
        if self._board is not None:
            self.waiter.moving.add(id(self))
        specs = [[chunk, len(chunk), self._byte] for _, chunk in chunks]
        self._leaving.extend(map(self._comm.Isend, specs, [rank for rank, _ in chunks], repeat(tag)))

    def _receive_into(self, places: Sequence[tuple[int, memoryview | Bytes]], tag: int) -> None:
        """Post receives, by rank."""
        chunks = [(rank, chunk) for rank, place in places for chunk in _chunks(place)]
        specs = [[chunk, len(chunk), self._byte] for _, chunk in chunks]
        self._arriving.extend(map(self._comm.Irecv, specs, [rank for rank, _ in chunks], repeat(tag)))
        self._expected += [len(chunk) for _, chunk in chunks]

    def _collect(self) -> None:
        """Wait for what has been posted to be received.

        Raises:
            DeliveryError: it has not the size that was said.
        """
        requests = self._arriving
        if not requests:
            return
        while len(self._statuses) < len(requests):
            self._statuses.append(self._new_status())
        statuses = self._statuses[: len(requests)]
        if not self._testall(requests, statuses):
            self.waiter.until(partial(self._testall, statuses=statuses), requests)
        expected, byte = self._expected, self._byte
        self._arriving, self._expected = [], []
        if (got := [status.Get_count(byte) for status in statuses]) != expected:
            raise DeliveryError(f"processor {self.pid} was to receive messages of {expected} bytes, and got {got}")

    def _fetch(self, here: dict[int, memoryview], late: Sequence[tuple[int, int]]) -> dict[int, memoryview]:
        """Manifests by source: those that are here, and those that come as messages.

        Args:
            late: source, bytes.
        """
        if late:
            here = {**here, **{s: memoryview(bytearray(size)) for s, size in late}}
            self._receive_into([(self._ranks[s], here[s]) for s, _ in late], self._manifest_tag)
            self._collect()
        return here

    def _trade(self, kind: int, parcels: Parcels, board: Board) -> Arrival:
        """An exchange without notes where all are near."""
        texts: list[tuple[int, bytes]] = []
        shared: list[Bytes] = []
        large: list[Bytes] = []
        self._posted = 0
        own, place = self.pid, self._place
        for d, parcel in parcels.items():
            if d != own:  # whose place on the board is d too
                mail = parcel.get(MAIL)
                if mail is not None and mail[3] is None and len(parcel) == 1:
                    texts.append((d, _dumps(mail[:], 5)))  # as _describe has it
                    continue
                texts.append((d, _describe(None, parcel, NEAR_ALONG, large, place, shared)))
                if large:
                    self._post_data([(self._ranks[d], data) for data in large])
                    large.clear()
        late = board.enter(kind, texts, shared)
        if late:
            self._post_manifests([(self._ranks[d], text) for d, text in late])
        manifests = board.gather(kind)
        if manifests is not None and not self._leaving:
            arrived = self._short_way(manifests, board)
            if arrived is not None:
                if own in parcels:
                    arrived.append((own, parcels[own]))  # handed over
                    arrived.sort(key=_source)
                kinds = [kind] * self.p if kind & ~KIND else None
                return made(Arrival, (kinds, None, arrived, _NOT_JOINED))
        board.finish()
        return self._receive(kind, None, parcels)

    def _short_way(self, manifests: list[tuple[int, memoryview]], board: Board) -> list[tuple[int, Parcel]] | None:
        """Where all are near: the parcels of manifests whose data came with them, or is to be read where it lies.

        None where there is other data.
        """
        arrived = []
        for k, text in manifests:
            found = _loads(text)
            if len(found) == 4:
                arrived.append((k, {MAIL: made(Segment, found)}))
                continue
            note, contents = found
            if note is not None:
                return None
            parcel = {}
            end = len(text)
            for entry in reversed(contents):
                if len(entry) == 4:
                    stream, meta, words, messages = entry
                    data = None
                else:
                    stream, meta, words, messages, size, at = entry
                    if at >= 0:
                        data = board.read(k, at, size)
                    elif at == WITH_MANIFEST:
                        end -= size
                        data = np.frombuffer(text, np.uint8, size, end).copy()  # the manifest's memory is used again
                    elif size:
                        return None
                    else:
                        data = None
                parcel[stream] = made(Segment, (meta, words, messages, data))
            arrived.append((k, parcel))
        return arrived

    def _finish(
        self,
        kind: int,
        note: object,
        parcels: Parcels,
        grace: float | None,
    ) -> Arrival:
        """Wait for the others, and receive."""
        deadline = None if grace is None else time.perf_counter() + grace
        if self._far is not None:
            if not self._far.wait(self.waiter, deadline):
                raise TimeoutError
            return self._receive(kind, note, parcels)
        if not self._peers and self._board is not None:
            if not self._board.wait(deadline):
                raise TimeoutError
        elif not self._all_here() and not self.waiter.until(self._all_here, None, deadline):
            raise TimeoutError
        if self._peers:
            self._let_heads_go()
        if self._board is not None:
            self._board.finish()
        elif note is None and not self._leaving and not kind & ~KIND and self.pid not in parcels:
            arrived = self._short_heads(kind)
            if arrived is not None:
                return made(Arrival, (None, None, arrived, _NOT_JOINED))
        return self._receive(kind, note, parcels)

    def _short_heads(self, kind: int) -> list[tuple[int, Parcel]] | None:
        """The short way where none are near, all do the same, and what they send is mail in their heads; else None."""
        arrived: list[tuple[int, Parcel]] = []
        said = kind | self._number << NUMBER
        for s, word in enumerate(self._words_in[::STRIDE].tolist()):
            if word & _SAID != said:
                return None
            size = word >> LENGTH
            if size and s != self.pid:
                if size > INLINE:
                    return None
                found = _loads(self._bytes_in[s * HEAD + 8 : s * HEAD + 8 + size])
                if len(found) != 4:
                    return None
                arrived.append((s, {MAIL: made(Segment, found)}))
        return arrived

    def _all_here(self, _: object = None) -> bool:
        """Whether the others have come: those of other nodes by their heads."""
        if self._peers and not self._testall(self._receives):
            return False
        return self._board is None or self._board.here()

    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """With all heads here: read the manifests, receive the data."""
        p, board = self.p, self._board
        words = [kind] * p
        # 4. The manifests; those that did not fit are messages.
        manifests: dict[int, memoryview] = {}
        late: list[tuple[int, int]] = []
        if board is not None:
            for k, word in enumerate(board.words):
                words[self._near[k]] = word & KINDS
            for k, at, size in board.manifests():
                if at == BY_MESSAGE:
                    late.append((self._near[k], size))
                else:
                    manifests[self._near[k]] = board.text(k, at, size)
        if self._far is not None:
            manifests.update(self._far.read(words))
        for s in self._peers:
            word = self._words_in[s * STRIDE]
            if word >> NUMBER & NUMBERS != self._number:
                raise DeliveryError(
                    f"in exchange {self._number} processor {self.pid} got what processor {s} had said in exchange "
                    f"{word >> NUMBER & NUMBERS}"
                )
            words[s] = word & KINDS
            size = word >> LENGTH
            if size > INLINE:
                late.append((s, size))
            elif size:
                manifests[s] = self._bytes_in[s * HEAD + 8 : s * HEAD + 8 + size]
        manifests = self._fetch(manifests, late)
        contents: dict[int, tuple[int, _Contents]] = {}
        notes: list[Any] | None = None
        for s, manifest in manifests.items():
            said, contents[s] = _read(manifest)
            if said is not None:
                notes = notes or [None] * p
                notes[s] = said
        if note is not None:
            notes = notes or [None] * p
            notes[self.pid] = note
        # 5. The data, each stream of each source where it is to be read.
        arrived, joined = self._post(contents, manifests, parcels.get(self.pid))
        self._collect()
        if self._leaving:
            self._let_go()
        uniform = notes is None and not kind & ~KIND and words.count(kind) == p
        return Arrival(None if uniform else words, notes, arrived, joined)

    def _post(
        self, contents: dict[int, tuple[int, _Contents]], manifests: dict[int, memoryview], own: Parcel | None
    ) -> tuple[list[tuple[int, Parcel]], dict[int, Bytes]]:
        """Find data that is here, put what came along in its place, and post the receives of all other.

        Args:
            contents: by source: bytes of data, and what is in the parcel.

        Returns:
            The parcels by source that these fill, and the joined streams.
        """
        if own is None and not any(total for total, _ in contents.values()):
            arrived = [
                (s, {stream: Segment(meta, words, count, None) for stream, meta, words, count, _, _ in contents[s][1]})
                for s in sorted(contents)
                if contents[s][1]
            ]
            return arrived, {}
        ranks, take = self._ranks, self._own_memory.take
        if own is not None:
            contents[self.pid] = _contents(own)
        totals: dict[int, int] = {}
        apart = set()  # streams of which something lies in shared memory: where it is alone it need not be joined
        for _, content in contents.values():
            for stream, _, _, _, size, at in content:
                if stream >= JOINED:
                    totals[stream] = totals.get(stream, 0) + size
                    if at >= 0:
                        apart.add(stream)
        joined = {stream: take(total) for stream, total in totals.items() if stream not in apart}
        used = dict.fromkeys(joined, 0)
        arrived = []
        places: list[tuple[int, Bytes]] = []
        for s in sorted(contents):
            parcel: Parcel = {}
            along: Bytes | None = None  # what is left of the data that came with the manifest
            total, content = contents[s]
            if content and content[0][5] == WITH_MANIFEST:
                along = np.frombuffer(manifests[s], np.uint8, total, len(manifests[s]) - total)
            for stream, meta, words, messages, size, at in content:
                place: Bytes | None
                if at >= 0:
                    assert self._board is not None
                    place = self._board.read(self._near.index(s), at, size)
                elif stream in joined:
                    place = joined[stream][used[stream] : used[stream] + size]
                    used[stream] += size
                else:
                    place = take(size) if size and s != self.pid else None
                if along is not None:
                    if place is not None:
                        place[:] = along[:size]  # a copy: the manifest's memory is used again
                    along = along[size:]
                elif s != self.pid and at == BY_MESSAGE:
                    if place is not None:
                        places.append((ranks[s], place))
                elif s == self.pid and own is not None:
                    data = own[stream].data
                    if place is None or data is None:
                        place = data  # mail to oneself is handed over
                    else:
                        place[:] = data  # copied, as MPI would, so that the queue is one array
                parcel[stream] = Segment(meta, words, messages, place)
            if parcel:
                arrived.append((s, parcel))
        if places:
            self._receive_into(places, self._data_tag)
        return arrived, joined

    def swap(
        self, partner: int, kind: int, note: object, parcel: Parcel | None, grace: float | None = None
    ) -> tuple[int, Any, Parcel]:
        pair = self._pairs.get(partner)
        if pair is None:
            # In the same context, by messages: two processors meet in the same order, there and here, and MPI keeps it.
            ranks = [self._ranks[self.pid], self._ranks[partner]]
            pair = self._pairs[partner] = MPITransport(
                self._comm, ranks, 0, self._context, self.waiter, revocation=self._revocation
            )
        arrival = pair.exchange(kind, note, {1: parcel} if parcel else {}, grace=grace)
        return (
            kind if arrival.kinds is None else arrival.kinds[1],
            None if arrival.notes is None else arrival.notes[1],
            arrival.parcels[0][1] if arrival.parcels else {},
        )

    def subset(self, members: Sequence[int], context: int) -> MPITransport:
        try:
            return self._subset(members, context)
        except BaseException as error:
            self.left(error)
            raise

    def _subset(self, members: Sequence[int], context: int) -> MPITransport:
        ranks = [self._ranks[m] for m in members]
        node = self._node if self._board is not None else None
        pid = members.index(self.pid)
        try:
            part = MPITransport(
                self._comm,
                ranks,
                pid,
                context,
                self.waiter,
                node=node,
                parent=self._board,
                layout=self._layout,
                revocation=self._revocation,
            )
        except BaseException as error:
            self.left(error)  # raises
        part.along = self.along
        return part

    @property
    def apart(self) -> bool:
        """Whether no two processors of the communicator meet in shared memory."""
        return self._layout is None or len(set(self._layout.nodes)) == len(self._layout.nodes)

    def tune(self, o_msg: float) -> None:
        """A message is measured to take so many seconds of a processor's time."""
        self.along = min(max(ALONG, int(o_msg / (2 * COPYING))), MOST_ALONG)

    def channel(self) -> tuple[MPI.Intracomm, list[int], int]:
        """The communicator, the ranks by pid, and the first of two tags, for messages outside of exchanges."""
        return self._comm, self._ranks, self._head_tag + 3

    def time(self) -> float:
        return time.perf_counter()

    def abort(self, message: str) -> None:
        from mpi4py import MPI

        if MPI.COMM_WORLD.size == 1:
            raise AbortError(message)  # nobody else to end, and perhaps a notebook to keep
        print(message, file=sys.stderr)
        abort_job()

    @property
    def settled(self) -> ProcessorError | None:
        return None if self._revocation is None else self._revocation.settled

    @property
    def revoked(self) -> bool:
        return self._revocation is not None and self._revocation.cause is not None

    def revoke(self, cause: BaseException) -> None:
        if self._revocation is not None:
            self._revocation.revoke(cause)

    def beside(self, member: Member) -> None:
        """Something else has requests on the communicator, until the transport is freed or `alone` is called."""
        if self._revocation is not None:
            self._revocation.members.append(member)

    def alone(self, member: Member) -> None:
        """It has none any more."""
        if self._revocation is not None and member in self._revocation.members:
            self._revocation.members.remove(member)

    def awaited(self) -> tuple[list[int], list[int]]:
        if self._sparse is not None:
            return self._sparse.awaited(), []
        near = [] if self._board is None else [self._near[k] for k in self._board.behind()]
        peers = [d for d, one in zip(self._peers, self._receives, strict=False) if not one.Get_status()]
        absent = [self._ranks[d] for d in (*near, *peers)]
        known = [self._ranks[d] for d in (*self._near, *self._peers)]
        if self._far is not None and not absent:
            absent = self._far.awaited()
        return absent, known

    def patience(self, witness: Witness, nodes: Sequence[object], warn_after: float, timeout: float) -> None:
        """Report a wait that takes longer than `warn_after`, end one that takes longer than `timeout`; see patience.py.

        Args:
            witness: gives the words.
            nodes: of each processor, something that tells its node.
            warn_after, timeout: seconds.
        """
        patience = Patience(self.pid, nodes, self._absence, witness, warn_after, timeout)
        self.waiter.patience, self.waiter.overdue = patience.first, patience.overdue

    def _absence(self) -> Absence:
        """Who has not come to whichever exchange goes on, on this communicator."""
        absent: set[int] = set()
        known: set[int] = set()
        for member in () if self._revocation is None else self._revocation.members:
            missing, seen = member.awaited()
            if missing:  # others are idle
                absent.update(missing)
                known.update(seen)
        return Absence(absent, known - absent - {self.pid})

    def hear(self) -> None:
        """Learn of what another processor has left, without waiting."""
        try:
            if self._revocation is not None:
                for _ in range(PROBES):
                    self._revocation.look()
        except BaseException as error:
            self.left(error)

    def receiving(self) -> list[Any]:
        far, sparse = self._far, self._sparse
        return [
            *self._receives,
            *self._arriving,
            *(() if far is None else far.receiving),
            *(() if sparse is None else sparse.receiving),
        ]

    def sending(self) -> list[Any]:
        far, sparse = self._far, self._sparse
        return [
            *self._short.values(),
            *self._long.values(),
            *self._leaving,
            *(request for sends in self._unfinished for request in sends),
            *(() if far is None else far.sending),
            *(() if sparse is None else sparse.sending),
        ]

    def give_up(self) -> None:
        self._halt()
        self._unfinished.append([])  # so that every exchange asks what is the matter

    def forget(self) -> None:
        self._free_requests()
        self._leaving, self._arriving, self._expected = [], [], []

    def _free_requests(self) -> None:
        while self._receives:
            self._receives.pop().Free()
        for requests in (self._short, self._long):
            while requests:
                requests.popitem()[1].Free()
        if self._far is not None:
            self._far.free()

    def free(self) -> None:
        if self.revoked:
            # What it held on the communicator is gone, once that is settled; shared memory stays while it is read.
            return
        try:
            for pair in self._pairs.values():
                pair.free()
            self._see_off(keep=0)
            self._see_off_heads()
        except RevokedError:
            return
        self._free_requests()
        if self._revocation is not None:
            self._revocation.members.remove(self)
        if self._board is not None:
            self._board.retire()
        if self._owns:
            if self._node is not None:
                self._node.free()
            self._comm.Free()
            if self._control is not None:
                self._control.Free()


_Contents = list[tuple[int, Any, int, int, int, int]]  # stream, as in Segment, bytes, and where they lie


def _contents(parcel: Parcel) -> tuple[int, _Contents]:
    """What is in a parcel, with the bytes of all its data before it."""
    total, contents = 0, []
    for stream, (meta, words, messages, data) in parcel.items():
        size = 0 if data is None else data.size
        total += size
        contents.append((stream, meta, words, messages, size, BY_MESSAGE))
    return total, contents


def _describe(
    note: object,
    parcel: Parcel,
    along: int,
    late: list[Bytes],
    place: Callable[[Bytes], int] | None = None,
    shared: list[Bytes] | None = None,
) -> bytes:
    """The manifest of a parcel, with which a little data goes along: pickled, (note, what is in it); where it is mail
    without data alone, that segment.

    Args:
        along: bytes of data that do, at most.
        late: gets the data that is to go as messages.
        place: says where data lies in shared memory, if its destination can read it there.
        shared: gets the data that does.
    """
    if note is None and len(parcel) == 1:
        mail = parcel.get(MAIL)
        if mail is not None and mail[3] is None:
            return _dumps(mail[:], 5)  # a tuple, which takes fewer bytes than a named one
    brief = []
    for stream, segment in parcel.items():
        if segment[3] is not None:
            break
        brief.append((stream, segment[0], segment[1], segment[2]))
    else:
        return _dumps((note, brief), 5)  # bytes count: what fits into a head takes no message of its own
    if len(parcel) == 1 and segment[3] is not None and segment[3].size > along and place is not None:
        # One piece of data, as below.
        at = place(segment[3])
        if at != BY_MESSAGE and shared is not None:
            shared.append(segment[3])
            return _dumps((note, [(stream, segment[0], segment[1], segment[2], segment[3].size, at)]), 5)
    total, contents = _contents(parcel)
    if total <= along:
        contents = [(*entry[:5], WITH_MANIFEST) for entry in contents]
        data_along = [segment.data.data for segment in parcel.values() if segment.data is not None]
        return _dumps((note, contents), 5) + b"".join(data_along)
    for k, (stream, (meta, words, messages, data)) in enumerate(parcel.items()):
        if data is not None and data.size:
            at = BY_MESSAGE if place is None else place(data)
            if at == BY_MESSAGE or shared is None:
                late.append(data)
            else:
                contents[k] = stream, meta, words, messages, data.size, at
                shared.append(data)
    return _dumps((note, contents), 5)


def _read(manifest: memoryview) -> tuple[Any, tuple[int, _Contents]]:
    """The note of a manifest, and the contents with the bytes of all data before them."""
    found = _loads(manifest)
    if len(found) == 4:
        return None, (0, [(MAIL, *found[:3], 0, BY_MESSAGE)])
    note, contents = found
    if contents and len(contents[0]) == 4:
        return note, (0, [(*entry, 0, BY_MESSAGE) for entry in contents])
    return note, (sum(entry[4] for entry in contents), contents)


def _chunks(data: Any) -> Iterable[Any]:
    """Of bytes, as many as a message may have."""
    size = len(data)
    if size <= CHUNK:
        return (data,) if size else ()
    data = memoryview(data)
    return [data[at : at + CHUNK] for at in range(0, size, CHUNK)]
