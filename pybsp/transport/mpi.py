"""Processors as MPI ranks.

Processors of one node meet in shared memory (shared.py), and may have one of them speak to other nodes (aggregated.py).
Apart from that an exchange is one small message from each processor to each other one, its *head*, by persistent
requests (half the time of an Alltoall, and one latency instead of log p of them): what the sender is doing, and a
*manifest* of what follows. A little data goes along with the manifest, in one message; more follows at once, without
waiting for an answer: the receiver knows from the manifests how much comes from whom, and receives it where it is to be
read.

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
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn
from zlib import crc32

import numpy as np

from .. import process, settings
from ..errors import AbortError, LauncherError, UsageError
from ..process import SIZES
from ..process import launched as launched
from . import (
    FREE,
    JOINED,
    KIND,
    KINDS,
    LENGTH,
    MAIL,
    QUIET,
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
from .shared import BY_MESSAGE, CONTEXTS, WITH_MANIFEST, Board, Node, wanted
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
CHUNK = 1 << 30  # bytes of one MPI message: counts beyond 2^31 do not work everywhere

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
    ) -> None:
        from mpi4py import MPI

        self.p, self.pid = len(ranks), pid
        self.waiter = waiter or Waiter()
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
                self._near, self.pool = near, node.window.pool
                for k, d in enumerate(near):
                    self._near_place[d] = k
                self._board = self._make_board(node, near, context, parent)
        self._place = self.pool.place
        # Those of other nodes: one for all of a node, or each.
        groups = layout.groups(ranks) if layout is not None and context < CONTEXTS else []
        self._far = Aggregated(comm, ranks, pid, groups, self._board, self._head_tag + 9) if groups else None
        # Each begins with the next one, so that not all send to the same processor at once.
        others = [] if groups else [(pid + k) % self.p for k in range(1, self.p)]
        self._peers = [d for d in others if d not in self._near]
        self._board_of_all = None if self._peers or self._far is not None else self._board
        head_in = [self._bytes_in[d * HEAD : (d + 1) * HEAD] for d in range(self.p)]
        head_out = [self._bytes_out[d * HEAD : (d + 1) * HEAD] for d in range(self.p)]
        tag = self._head_tag
        self._receives = [comm.Recv_init([head_in[d], HEAD, MPI.BYTE], ranks[d], tag) for d in self._peers]
        self._short = {d: comm.Send_init([head_out[d], 8, MPI.BYTE], ranks[d], tag) for d in self._peers}
        self._long = {d: comm.Send_init([head_out[d], HEAD, MPI.BYTE], ranks[d], tag) for d in self._peers}
        self._all_short = list(self._short.values())
        self._quiet = self._receives + self._all_short
        self._heads_out: list[Any] = []  # of the last exchange: others have them, and nobody waited for the word of it
        self._connected = False
        self._posted = 0  # bytes of this exchange's manifests and data that go as messages
        self._unfinished: deque[list[Any]] = deque()  # of earlier exchanges: data that may still be leaving
        self._sparse_count = 0  # sparse exchanges
        self._quiet_kind = 0  # the kind that all heads hold, without manifests
        self._quiet_words: list[int] = []

    @classmethod
    def duplicate(
        cls,
        comm: MPI.Intracomm,
        operation: str,
        grace: float | None = None,
        watch: Callable[[], object] | None = None,
    ) -> MPITransport:
        """The transport of all ranks of a communicator, on a duplicate of it.

        Args:
            operation: what it is made for, for errors.
            grace: seconds for a rank that comes to tell a failure; its settings, which may be what is wrong, do not
                count.
            watch: is called now and then while others are waited for.

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
        node = Node.of(copy)
        return cls(copy, range(copy.size), copy.rank, waiter=waiter, owns=True, node=node, layout=Layout.of(copy, node))

    def _make_board(self, node: Node, near: list[int], context: int, parent: Board | None) -> Board:
        """Collective over those that are near."""
        ranks = [self._ranks[d] for d in near]
        own = self._ranks[self.pid]
        number = node.number(context)
        if parent is not None:
            # They may have met on different boards of this context before.
            numbers = array("q", [number]) * len(near)
            found = memoryview(numbers)
            tag = self._manifest_tag
            others = [k for k, rank in enumerate(ranks) if rank != own]
            requests = [self._comm.Irecv([found[k : k + 1], 8, self._byte], ranks[k], tag) for k in others]
            mine = array("q", [number])
            requests += [self._comm.Isend([mine, 8, self._byte], ranks[k], tag) for k in others]
            if not self._testall(requests):
                self._wait(requests)
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
        if self._unfinished:
            self._see_off(keep=1)
        board = self._board_of_all
        if board is not None and note is None and grace is None:
            if parcels or kind & ~KIND:
                return self._trade(kind, parcels, board)
            if board.meet(kind):  # the superstep in which this processor sends nothing
                return QUIET
            return self._receive(kind, None, {}, [])
        if parcels or note is not None or grace is not None or kind & ~KIND or (self._peers and self._near):
            return self._exchange(kind, note, parcels, grace)
        if self._far is not None:
            if self._far.meet(kind, self.waiter):
                return QUIET
            return self._receive(kind, None, {}, self._far.sends)
        if self.p == 1:
            return QUIET
        self._see_off_heads()
        if kind != self._quiet_kind:
            self._hush(kind)
        self._startall(self._quiet)
        self._heads_out = self._all_short
        # Only for what others send: testing those requests alone takes half the time.
        if not self._testall(self._receives):
            self._wait(self._receives)
        self._let_heads_go()
        if self._words_in[::STRIDE].tolist() == self._quiet_words:
            return QUIET
        return self._receive(kind, None, {}, [])

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

    def _hush(self, kind: int) -> None:
        """Make all heads say: this kind, no manifest."""
        for d in range(self.p):
            self._words_out[d * STRIDE] = kind
        self._words_in[self.pid * STRIDE] = kind
        self._quiet_kind, self._quiet_words = kind, [kind] * self.p

    def _let_go(self, sends: list[Any]) -> None:
        """Do not wait for the word that a little data has arrived: it takes another latency."""
        if self._testall(sends) or self.waiter.briefly(self._testall, sends):
            return
        if self._posted + (0 if self._far is None else self._far.posted) <= LEAVES:
            self._unfinished.append(sends)
        else:
            self._wait(sends)

    def _see_off(self, keep: int) -> None:
        """Forget data that has left; wait for it, but for that of the last `keep` exchanges.

        The receivers have it: what is missing is only the word that it arrived. Until then its buffers, to which the
        requests refer, are not used again.
        """
        unfinished = self._unfinished
        while unfinished and (self._testall(unfinished[0]) or len(unfinished) > keep):
            self._wait(unfinished.popleft())

    def _wait(self, requests: list[Any], deadline: float | None = None) -> bool:
        return self.waiter.until(self._testall, requests, deadline)

    def exchange_sparse(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """As `exchange`, by messages to partners alone (sparse.py); all processors call this instead."""
        deadline = None if grace is None else time.perf_counter() + grace
        if self._unfinished:
            self._see_off(keep=1)
        comm, ranks, first = self._comm, self._ranks, self._head_tag + 5
        self._sparse_count += 1
        self._posted = 0
        heads: dict[int, bytes] = {}
        sends: list[Any] = []
        for d, parcel in parcels.items():
            if d != self.pid:
                late: list[Bytes] = []
                heads[d] = _describe(None, parcel, self.along, late)
                sends += self._post_data([(ranks[d], data) for data in late])
        tags = first + self._sparse_count % 2, first + 2
        exchange = Sparse(comm, ranks, self.pid, tags, heads, kind | (0 if note is None else SAYS))
        if not exchange.over() and not self.waiter.until(exchange.over, None, deadline):
            raise TimeoutError
        kinds: list[int] | None = None
        notes: list[Any] | None = None
        if exchange.least == exchange.most and exchange.flags and not exchange.flags & SAYS:
            kinds = [exchange.most | exchange.flags] * self.p  # some ask for data: which ones does not matter
        elif exchange.least != exchange.most or exchange.flags:
            said = tell_all(comm, ranks, self.pid, first + 3, (kind, note), self.waiter)
            kinds = [one for one, _ in said]
            if any(text is not None for _, text in said):
                notes = [text for _, text in said]
        contents = {s: _read(head)[1] for s, head in exchange.arrived.items()}
        arrived, joined, requests = self._post(contents, exchange.arrived, parcels.get(self.pid))
        if requests and not self._testall(requests):
            self._wait(requests)
        if sends:
            self._let_go(sends)
        if kinds is None and not arrived:
            return QUIET
        return Arrival(kinds, notes, arrived, joined)

    def begin(self, kind: int, note: object, parcels: Parcels) -> Callable[..., Arrival]:
        if self._unfinished:
            self._see_off(keep=1)
        sends = self._post_out(kind, note, parcels)
        if (not self._peers and self._far is None) or not threads_allowed():
            return lambda charge=FREE, grace=None: self._finish(kind, note, parcels, sends, grace)
        # Messages move on only while MPI is called: a thread does so. It sleeps, as the program computes.
        waiter, self.waiter = self.waiter, Waiter("sleep")
        future: Future[Arrival] = Future()

        def work() -> None:
            try:
                future.set_result(self._finish(kind, note, parcels, sends, None))
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=work, name="pybsp exchange", daemon=True)
        thread.start()

        def complete(charge: Charge = FREE, grace: float | None = None) -> Arrival:
            try:
                arrival = future.result(grace)
            except FutureTimeout:
                raise TimeoutError from None
            finally:
                self.waiter = waiter
            thread.join()
            return arrival

        return complete

    def _exchange(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        return self._finish(kind, note, parcels, self._post_out(kind, note, parcels), grace)

    def _post_out(self, kind: int, note: object, parcels: Parcels) -> list[Any]:
        """Hand over what this processor says and sends. Returns the requests of all but heads."""
        self._quiet_kind = self._posted = 0
        sends: list[Any] = []
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
            late_texts = self._far.enter(kind, plain, manifests, texts, shared, sends)
        elif board is not None:
            late_texts = board.enter(kind, texts, shared)
        long = [(ranks[self._near[k]], text) for k, text in late_texts]
        # 2. The heads for the others, with the manifests that fit.
        self._see_off_heads()
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
            self._words_out[d * STRIDE] = kind | size << LENGTH
            if 0 < size <= INLINE:
                self._bytes_out[d * HEAD + 8 : d * HEAD + 8 + size] = manifest
                heads.append(self._long[d])
            else:
                heads.append(self._short[d])
                if size:
                    long.append((ranks[d], manifest))
        if heads:
            self._words_in[self.pid * STRIDE] = kind | (note is not None or self.pid in parcels) << LENGTH
            self._startall(self._receives + heads)
        self._heads_out = heads
        # 3. What is longer, behind all heads, which everybody waits for; without waiting.
        if long:
            sends += self._post_manifests(long)
        if messages:
            sends += self._post_data(messages)
        return sends

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

    def _post_manifests(self, manifests: list[tuple[int, bytes]]) -> list[Any]:
        """Those that go as messages, by rank."""
        comm, byte, tag = self._comm, self._byte, self._manifest_tag
        self._posted += sum(len(text) for _, text in manifests)
        return [comm.Isend([text, len(text), byte], rank, tag) for rank, text in manifests]

    def _post_data(self, messages: list[tuple[int, Bytes]]) -> list[Any]:
        comm, byte, tag = self._comm, self._byte, self._data_tag
        self._posted += sum(data.size for _, data in messages)
        return [comm.Isend([c, c.size, byte], rank, tag) for rank, data in messages for c in _chunks(data)]

    def _trade(self, kind: int, parcels: Parcels, board: Board) -> Arrival:
        """An exchange without notes where all are near."""
        texts: list[tuple[int, bytes]] = []
        shared: list[Bytes] = []
        large: list[Bytes] = []
        sends: list[Any] = []
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
                    sends += self._post_data([(self._ranks[d], data) for data in large])
                    large.clear()
        late = board.enter(kind, texts, shared)
        if late:
            sends += self._post_manifests([(self._ranks[d], text) for d, text in late])
        manifests = board.gather(kind)
        if manifests is not None and not sends:
            arrived = self._short_way(manifests, board)
            if arrived is not None:
                if own in parcels:
                    arrived.append((own, parcels[own]))  # handed over
                    arrived.sort(key=_source)
                kinds = [kind] * self.p if kind & ~KIND else None
                return made(Arrival, (kinds, None, arrived, _NOT_JOINED))
        board.finish()
        return self._receive(kind, None, parcels, sends)

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
        sends: list[Any],
        grace: float | None,
    ) -> Arrival:
        """Wait for the others, and receive."""
        deadline = None if grace is None else time.perf_counter() + grace
        if self._far is not None:
            if not self._far.wait(self.waiter, deadline):
                raise TimeoutError
            return self._receive(kind, note, parcels, sends)
        if not self._peers and self._board is not None:
            if not self._board.wait(deadline):
                raise TimeoutError
        elif not self._all_here() and not self.waiter.until(self._all_here, None, deadline):
            raise TimeoutError
        if self._peers:
            self._let_heads_go()
        if self._board is not None:
            self._board.finish()
        elif note is None and not sends and not kind & ~KIND and self.pid not in parcels:
            arrived = self._short_heads(kind)
            if arrived is not None:
                return made(Arrival, (None, None, arrived, _NOT_JOINED))
        return self._receive(kind, note, parcels, sends)

    def _short_heads(self, kind: int) -> list[tuple[int, Parcel]] | None:
        """The short way where none are near, all do the same, and what they send is mail in their heads; else None."""
        arrived: list[tuple[int, Parcel]] = []
        for s, word in enumerate(self._words_in[::STRIDE].tolist()):
            if word & KINDS != kind:
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

    def _receive(self, kind: int, note: object, parcels: Parcels, sends: list[Any]) -> Arrival:
        """With all heads here: read the manifests, receive the data."""
        comm, ranks, byte, p, board = self._comm, self._ranks, self._byte, self.p, self._board
        words = self._words_in[::STRIDE].tolist() if self._peers else [kind] * p
        # 4. The manifests; those that did not fit are messages.
        manifests: dict[int, memoryview] = {}
        requests = []
        late = []
        if board is not None:
            for s, word in zip(self._near, board.words, strict=True):
                words[s] = word & KINDS
            for k, at, size in board.manifests():
                if at == BY_MESSAGE:
                    late.append((self._near[k], size))
                else:
                    manifests[self._near[k]] = board.text(k, at, size)
        if self._far is not None:
            manifests.update(self._far.read(words))
        for s in self._peers:
            size = words[s] >> LENGTH
            if size > INLINE:
                late.append((s, size))
            elif size:
                manifests[s] = self._bytes_in[s * HEAD + 8 : s * HEAD + 8 + size]
        for s, size in late:
            manifests[s] = memoryview(bytearray(size))
            requests.append(comm.Irecv([manifests[s], size, byte], ranks[s], self._manifest_tag))
        if requests:
            self._wait(requests)
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
        arrived, joined, requests = self._post(contents, manifests, parcels.get(self.pid))
        if requests and not self._testall(requests):
            self._wait(requests)
        if sends:
            self._let_go(sends)
        kinds = [word & KINDS for word in words] if self._peers else words
        uniform = notes is None and not kind & ~KIND and kinds.count(kind) == p
        return Arrival(None if uniform else kinds, notes, arrived, joined)

    def _post(
        self, contents: dict[int, tuple[int, _Contents]], manifests: dict[int, memoryview], own: Parcel | None
    ) -> tuple[list[tuple[int, Parcel]], dict[int, Bytes], list[Any]]:
        """Find data that is here, put what came along in its place, and post the receives of all other.

        Args:
            contents: by source: bytes of data, and what is in the parcel.

        Returns:
            The parcels by source that these fill, the joined streams, and the requests.
        """
        if own is None and not any(total for total, _ in contents.values()):
            arrived = [
                (s, {stream: Segment(meta, words, count, None) for stream, meta, words, count, _, _ in contents[s][1]})
                for s in sorted(contents)
                if contents[s][1]
            ]
            return arrived, {}, []
        comm, ranks, byte, tag, take = self._comm, self._ranks, self._byte, self._data_tag, self._own_memory.take
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
        requests: list[Any] = []
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
                    for chunk in _chunks(place):
                        requests.append(comm.Irecv([chunk, chunk.size, byte], ranks[s], tag))  # noqa: PERF401
                elif s == self.pid and own is not None:
                    data = own[stream].data
                    if place is None or data is None:
                        place = data  # mail to oneself is handed over
                    else:
                        place[:] = data  # copied, as MPI would, so that the queue is one array
                parcel[stream] = Segment(meta, words, messages, place)
            if parcel:
                arrived.append((s, parcel))
        return arrived, joined, requests

    def swap(
        self, partner: int, kind: int, note: object, parcel: Parcel | None, grace: float | None = None
    ) -> tuple[int, Any, Parcel]:
        pair = self._pairs.get(partner)
        if pair is None:
            # In the same context, by messages: two processors meet in the same order, there and here, and MPI keeps it.
            ranks = [self._ranks[self.pid], self._ranks[partner]]
            pair = self._pairs[partner] = MPITransport(self._comm, ranks, 0, self._context, self.waiter)
        arrival = pair.exchange(kind, note, {1: parcel} if parcel else {}, grace=grace)
        return (
            kind if arrival.kinds is None else arrival.kinds[1],
            None if arrival.notes is None else arrival.notes[1],
            arrival.parcels[0][1] if arrival.parcels else {},
        )

    def subset(self, members: Sequence[int], context: int) -> MPITransport:
        ranks = [self._ranks[m] for m in members]
        node = self._node if self._board is not None else None
        pid = members.index(self.pid)
        part = MPITransport(
            self._comm, ranks, pid, context, self.waiter, node=node, parent=self._board, layout=self._layout
        )
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

    def free(self) -> None:
        for pair in self._pairs.values():
            pair.free()
        self._see_off(keep=0)
        self._see_off_heads()
        for request in (*self._quiet, *self._long.values()):
            request.Free()
        if self._far is not None:
            self._far.free()
        if self._board is not None:
            self._board.retire()
        if self._owns:
            if self._node is not None:
                self._node.free()
            self._comm.Free()


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


def _chunks(data: Bytes | None) -> Iterable[Bytes]:
    if data is None or not data.size:
        return ()
    if data.size <= CHUNK:
        return (data,)
    return [data[at : at + CHUNK] for at in range(0, data.size, CHUNK)]
