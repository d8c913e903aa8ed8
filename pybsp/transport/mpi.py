"""Processors as MPI ranks.

An exchange is one small message from each processor to each other one, its *head*, by persistent requests (half the
time of an Alltoall, and one latency instead of log p of them): what the sender is doing, and a *manifest* of what
follows. A little data goes along with the manifest, in one message; more follows at once, without waiting for an
answer: the receiver knows from the manifests how much comes from whom, and receives it where it is to be read.

Only tests and non-blocking calls are used, see waiting.py. Processors of different transports share one communicator; a
context, part of the tag, keeps them apart, so a split needs no MPI collective.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..errors import AbortError, LauncherError
from . import FREE, JOINED, KIND, Arrival, Bytes, Charge, Parcel, Parcels, Segment
from .memory import BufferPool
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI

# Bytes of a head: one word, and the manifest where it fits. Over TCP, libfabric reports a longer message as sent only
# when it has been acknowledged, a second latency later.
HEAD = 128
STRIDE = HEAD // 8
INLINE = HEAD - 8
ALONG = 1024  # bytes of data, at most, that go along with a manifest: a copy on each side is cheaper than a message
LENGTH = 8  # bits that the manifest's length is shifted by, above the kind
DRAIN = 0.2  # seconds that a launcher gets to read what was printed, before an abort makes it drop the rest
TAGS = 8  # of a context: three for exchanges, the others for what runs beside them
CHUNK = 1 << 30  # bytes of one MPI message: counts beyond 2^31 do not work everywhere

QUIET = Arrival(None, None, (), {})
_LAUNCHER_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
_LAUNCHER_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")


def launched() -> tuple[int, int]:
    """Number of processes that a launcher started beside this one (1 without a launcher), and this one's number."""
    for size, rank in zip(_LAUNCHER_SIZES, _LAUNCHER_RANKS, strict=True):
        if os.environ.get(size, "").isdigit():
            return int(os.environ[size]), int(os.environ.get(rank, "0"))
    return 1, 0


def under_launcher() -> bool:
    """Whether a launcher started this process: one that says how many there are, or PMIx (as srun has it)."""
    return "PMIX_RANK" in os.environ or any(os.environ.get(size, "").isdigit() for size in _LAUNCHER_SIZES)


def load() -> ModuleType:
    """The module mpi4py.MPI, with MPI initialised.

    MPI that a host program set up is used as it is. Where pybsp is first, it asks for FUNNELED threads: only one
    thread calls MPI, and MULTIPLE costs MPICH 2 us a call.

    Raises:
        ImportError, RuntimeError: no MPI library can be loaded.
        LauncherError: the library cannot start under this launcher.
    """
    import mpi4py

    level = mpi4py.rc.thread_level
    if level == "multiple":  # mpi4py's default: nobody asked for anything else
        level = "funneled"
    if "mpi4py.MPI" not in sys.modules:
        mpi4py.rc.thread_level = level
        initialize = mpi4py.rc.initialize
        if "OMPI_COMM_WORLD_SIZE" in os.environ:
            mpi4py.rc.initialize = False  # look first which library it is: MPICH's init would end the process
        with warnings.catch_warnings():
            # mpi4py warns on each rank of a launcher that does not belong to the library; _foreign says what to do.
            warnings.filterwarnings("ignore", message="suspicious MPI", category=RuntimeWarning)
            from mpi4py import MPI
        mpi4py.rc.initialize = initialize
    from mpi4py import MPI

    if not MPI.Is_initialized():  # as above, or the host has set mpi4py.rc.initialize = False
        speaks_pmix = os.environ.get("MPIR_CVAR_PMI_VERSION", "").lower() == "pmix"
        if "OMPI_COMM_WORLD_SIZE" in os.environ and "MPICH" in MPI.Get_library_version() and not speaks_pmix:
            raise _foreign(launched()[0], "the MPI library would see none of the others")
        MPI.Init_thread(getattr(MPI, f"THREAD_{level.upper()}"))
        atexit.register(lambda: None if MPI.Is_finalized() else MPI.Finalize())
    return MPI


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
    ) -> None:
        from mpi4py import MPI

        self.p, self.pid = len(ranks), pid
        self.waiter = waiter or Waiter()
        self.pool = BufferPool()
        self._comm, self._ranks, self._owns = comm, list(ranks), owns
        self._context = context
        self._pairs: dict[int, MPITransport] = {}  # of this processor and one other; made by the first swap
        self._byte = MPI.BYTE
        self._startall, self._testall = MPI.Prequest.Startall, MPI.Request.Testall
        self._head_tag, self._manifest_tag, self._data_tag = (TAGS * context + k for k in range(3))
        self._bytes_out = memoryview(bytearray(self.p * HEAD))
        self._bytes_in = memoryview(bytearray(self.p * HEAD))
        self._words_out, self._words_in = self._bytes_out.cast("q"), self._bytes_in.cast("q")
        # Each begins with the next one, so that not all send to the same processor at once.
        self._peers = [(pid + k) % self.p for k in range(1, self.p)]
        head_in = [self._bytes_in[d * HEAD : (d + 1) * HEAD] for d in range(self.p)]
        head_out = [self._bytes_out[d * HEAD : (d + 1) * HEAD] for d in range(self.p)]
        tag = self._head_tag
        self._receives = [comm.Recv_init([head_in[d], HEAD, MPI.BYTE], ranks[d], tag) for d in self._peers]
        self._short = {d: comm.Send_init([head_out[d], 8, MPI.BYTE], ranks[d], tag) for d in self._peers}
        self._long = {d: comm.Send_init([head_out[d], HEAD, MPI.BYTE], ranks[d], tag) for d in self._peers}
        self._quiet = self._receives + list(self._short.values())
        self._unfinished: deque[list[Any]] = deque()  # of earlier exchanges: data that may still be leaving
        self._quiet_kind = 0  # the kind that all heads hold, without manifests
        self._quiet_words: list[int] = []

    @classmethod
    def duplicate(cls, comm: MPI.Intracomm, grace: float | None = None) -> MPITransport:
        """The transport of all ranks of a communicator, on a duplicate of it.

        Raises:
            TimeoutError: not all ranks have come within the grace period (seconds; None waits for ever).
        """
        from mpi4py import MPI

        waiter = Waiter()
        copy, request = comm.Idup()
        if not waiter.until(MPI.Request.Test, request, None if grace is None else time.perf_counter() + grace):
            raise TimeoutError
        copy.Set_errhandler(MPI.ERRORS_RETURN)
        return cls(copy, range(copy.size), copy.rank, waiter=waiter, owns=True)

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
        if parcels or note is not None or grace is not None or kind & ~KIND:
            return self._exchange(kind, note, parcels, grace)
        # The superstep in which this processor sends nothing.
        if kind != self._quiet_kind:
            self._hush(kind)
        requests = self._quiet
        self._startall(requests)
        if not self._testall(requests):
            # What has to be waited for is what others send: testing those requests alone takes half the time.
            self._wait(self._receives)
            if not self._testall(requests):
                self._wait(requests)
        if self._words_in[::STRIDE].tolist() == self._quiet_words:
            return QUIET
        return self._receive(kind, None, {}, [])

    def _hush(self, kind: int) -> None:
        """Make all heads say: this kind, no manifest."""
        for d in range(self.p):
            self._words_out[d * STRIDE] = kind
        self._words_in[self.pid * STRIDE] = kind
        self._quiet_kind, self._quiet_words = kind, [kind] * self.p

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

    def _exchange(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        deadline = None if grace is None else time.perf_counter() + grace
        self._quiet_kind = 0
        heads, sends = list(self._receives), []
        bulky: list[tuple[int, Parcel]] = []
        comm, ranks, byte = self._comm, self._ranks, self._byte
        plain = b"" if note is None else pickle.dumps((note, ()), 5)
        # 1. The heads, with the manifests that fit.
        for d in self._peers:
            parcel = parcels.get(d)
            if parcel is None:
                manifest = plain
            else:
                contents = _contents(parcel)
                manifest = pickle.dumps((note, contents), 5)
                if _nbytes(contents) <= ALONG:
                    manifest += b"".join([s.data.data for s in parcel.values() if s.data is not None])
                else:
                    bulky.append((ranks[d], parcel))
            size = len(manifest)
            self._words_out[d * STRIDE] = kind | size << LENGTH
            if 0 < size <= INLINE:
                self._bytes_out[d * HEAD + 8 : d * HEAD + 8 + size] = manifest
                heads.append(self._long[d])
            else:
                heads.append(self._short[d])
                if size:
                    sends.append(comm.Isend([manifest, size, byte], ranks[d], self._manifest_tag))
        self._words_in[self.pid * STRIDE] = kind | (note is not None or self.pid in parcels) << LENGTH
        self._startall(heads)
        # 2. The data, without waiting.
        for rank, parcel in bulky:
            for segment in parcel.values():
                sends += [comm.Isend([c, c.size, byte], rank, self._data_tag) for c in _chunks(segment.data)]
        if not self._testall(heads) and not self._wait(heads, deadline):
            raise TimeoutError
        return self._receive(kind, note, parcels, sends)

    def _receive(self, kind: int, note: object, parcels: Parcels, sends: list[Any]) -> Arrival:
        """With all heads here: read the manifests, receive the data."""
        comm, ranks, byte, p = self._comm, self._ranks, self._byte, self.p
        words = self._words_in[::STRIDE].tolist()
        # 3. The manifests that did not fit.
        manifests: dict[int, memoryview] = {}
        requests = []
        for s in self._peers:
            size = words[s] >> LENGTH
            if size > INLINE:
                manifests[s] = memoryview(bytearray(size))
                requests.append(comm.Irecv([manifests[s], size, byte], ranks[s], self._manifest_tag))
            elif size:
                manifests[s] = self._bytes_in[s * HEAD + 8 : s * HEAD + 8 + size]
        if requests:
            self._wait(requests)
        contents: dict[int, Any] = {}
        notes: list[Any] | None = None
        for s, manifest in manifests.items():
            said, contents[s] = pickle.loads(manifest)
            if said is not None:
                notes = notes or [None] * p
                notes[s] = said
        if note is not None:
            notes = notes or [None] * p
            notes[self.pid] = note
        # 4. The data, each stream of each source where it is to be read.
        arrived, joined, requests = self._post(contents, manifests, parcels.get(self.pid))
        if requests and not self._testall(requests):
            self._wait(requests)
        if sends and not (self._testall(sends) or self.waiter.briefly(self._testall, sends)):
            self._unfinished.append(sends)
        kinds = [word & (1 << LENGTH) - 1 for word in words]
        uniform = notes is None and not kind & ~KIND and kinds.count(kind) == p
        return Arrival(None if uniform else kinds, notes, arrived, joined)

    def _post(
        self, contents: dict[int, Any], manifests: dict[int, memoryview], own: Parcel | None
    ) -> tuple[list[tuple[int, Parcel]], dict[int, Bytes], list[Any]]:
        """Put data that came along in its place, and post the receives of all other.

        Returns:
            The parcels by source that these fill, the joined streams, and the requests.
        """
        comm, ranks, byte, tag, take = self._comm, self._ranks, self._byte, self._data_tag, self.pool.take
        if own is not None:
            contents[self.pid] = _contents(own)
        totals: dict[int, int] = {}
        for content in contents.values():
            for stream, _, _, _, size in content:
                if stream >= JOINED:
                    totals[stream] = totals.get(stream, 0) + size
        joined = {stream: take(total) for stream, total in totals.items()}
        used = dict.fromkeys(totals, 0)
        arrived: list[tuple[int, Parcel]] = []
        requests: list[Any] = []
        for s in sorted(contents):
            parcel: Parcel = {}
            along: Bytes | None = None  # what is left of the data that came with the manifest
            if s != self.pid and 0 < (total := _nbytes(contents[s])) <= ALONG:
                along = np.frombuffer(manifests[s], np.uint8, total, len(manifests[s]) - total)
            for stream, meta, words, messages, size in contents[s]:
                place: Bytes | None
                if stream >= JOINED:
                    place = joined[stream][used[stream] : used[stream] + size]
                    used[stream] += size
                else:
                    place = take(size) if size and s != self.pid else None
                if along is not None:
                    if place is not None:
                        place[:] = along[:size]  # a copy: the manifest's memory is used again
                    along = along[size:]
                elif s != self.pid:
                    for chunk in _chunks(place):
                        requests.append(comm.Irecv([chunk, chunk.size, byte], ranks[s], tag))  # noqa: PERF401
                elif own is not None:
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
            # In the same context: two processors meet in the same order, there and here, and MPI keeps that order.
            pair = self._pairs[partner] = self.subset([self.pid, partner], self._context)
        arrival = pair.exchange(kind, note, {1: parcel} if parcel else {}, grace=grace)
        return (
            kind if arrival.kinds is None else arrival.kinds[1],
            None if arrival.notes is None else arrival.notes[1],
            arrival.parcels[0][1] if arrival.parcels else {},
        )

    def subset(self, members: Sequence[int], context: int) -> MPITransport:
        ranks = [self._ranks[m] for m in members]
        part = MPITransport(self._comm, ranks, members.index(self.pid), context, self.waiter)
        part.pool = self.pool
        return part

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
        for request in (*self._quiet, *self._long.values()):
            request.Free()
        if self._owns:
            self._comm.Free()


def _contents(parcel: Parcel) -> list[tuple[int, Any, int, int, int]]:
    return [
        (stream, meta, words, messages, 0 if data is None else data.size)
        for stream, (meta, words, messages, data) in parcel.items()
    ]


def _nbytes(contents: Sequence[tuple[int, Any, int, int, int]]) -> int:
    """Of all data in a parcel."""
    return sum(size for _, _, _, _, size in contents)


def _chunks(data: Bytes | None) -> Iterable[Bytes]:
    if data is None or not data.size:
        return ()
    if data.size <= CHUNK:
        return (data,)
    return [data[at : at + CHUNK] for at in range(0, data.size, CHUNK)]
