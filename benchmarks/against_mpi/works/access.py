"""Puts and gets: to and from the next processor, a contiguous block, or random places."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..variants import OURS, WORD, Array, ComparisonJob, Prepared, Work, compared, layout, values
from .blocks import KIB, MIB, shown

BYTES = {"quick": (64 * KIB,), "all": (8 * KIB, MIB, 16 * MIB), "hosts": (8 * KIB, MIB)}
SCATTERED = 100_000
TURNS = 3  # sets of indices, taken in turns

ALLTOALLV = "raw Alltoallv into place"
ASKED = "raw Alltoall of ranges, Alltoallv"
TWO = "two raw Alltoallv, indices and values"
NUMPY = "numpy's fancy index, one processor"
BARE = "the same, without filling and reading"
PICKLE = "pickle sendrecv"


def works(sizes: str) -> Iterator[Work]:
    for kind, make in (("put", put), ("get", get)):
        for size in BYTES[sizes]:
            yield Work(kind, size, f"{kind} of {shown(size)}", make, partial(_space, size))
    space = partial(_space, WORD * SCATTERED)
    yield Work("scattered put", SCATTERED, f"put with {SCATTERED:,} random indices", scattered_put, space)
    yield Work("scattered get", SCATTERED, f"get with {SCATTERED:,} random indices", scattered_get, space)


def _space(size: int, p: int) -> int:
    return 8 * p * size


class _Pair:
    """An Alltoallv in which each sends to one processor and receives from one."""

    def __init__(self, job: ComparisonJob, out: Array, into: Array, back: bool = False) -> None:
        from mpi4py import MPI

        kind = MPI.DOUBLE if out.dtype == np.float64 else MPI.INT64_T
        to, source = (job.previous, job.next) if back else (job.next, job.previous)
        counts, starts = layout([out.size * (d == to) for d in range(job.p)])
        counts_in, starts_in = layout([into.size * (s == source) for s in range(job.p)])
        self._out, self._how = out, (counts, starts, kind)
        self._into = [into, counts_in, starts_in, kind]
        self._alltoallv = job.comm.Alltoallv

    def __call__(self, out: Array | None = None) -> None:
        """Send what was given first, or something as large."""
        self._alltoallv([self._out if out is None else out, *self._how], self._into)


def put(job: ComparisonJob, size: int) -> Prepared:
    """A block into the next processor's array."""
    bsp, comm, words = job.bsp, job.comm, size // WORD
    x = job.array(words)
    base, filled, place = values(words, job.pid), np.zeros(words), np.zeros(words)
    send = _Pair(job, filled, place)
    read: list[Array] = [place]
    whole = slice(0, words)

    def ours(number: int) -> None:
        np.add(base, number, filled)
        x.put(job.next, filled, at=whole)
        bsp.sync()
        read[0] = x.local
        x.local.sum()

    def raw(number: int) -> None:
        np.add(base, number, filled)
        send()
        read[0] = place
        place.sum()

    def pickled(number: int) -> None:
        np.add(base, number, filled)
        read[0] = comm.sendrecv(filled, job.next, 0, None, job.previous, 0)
        read[0].sum()

    runs = {OURS: ours, ALLTOALLV: raw, PICKLE: pickled}
    return compared(runs, lambda: [read[0].copy()], sent=size)


def get(job: ComparisonJob, size: int) -> Prepared:
    """A block of the next processor's array, which that fills. Raw MPI has to say which, unless it is known."""
    from mpi4py import MPI

    bsp, comm, words = job.bsp, job.comm, size // WORD
    x = job.array(words)
    base, filled, place = values(words, job.pid), np.zeros(words), np.zeros(words)
    answer = _Pair(job, filled, place, back=True)
    ranges, asked = np.zeros((job.p, 2), np.int64), np.zeros((job.p, 2), np.int64)
    read: list[Array] = [place]
    whole = slice(0, words)

    def ours(number: int) -> None:
        np.add(base, number, x.local)
        ticket = x.get(job.next, at=whole)
        bsp.sync()
        read[0] = ticket.value
        read[0].sum()

    def raw(number: int) -> None:
        np.add(base, number, filled)
        ranges[job.next] = 0, words
        comm.Alltoall([ranges, 2, MPI.INT64_T], [asked, 2, MPI.INT64_T])
        answer()
        read[0] = place
        place.sum()

    def known(number: int) -> None:
        np.add(base, number, filled)
        answer()
        read[0] = place
        place.sum()

    def pickled(number: int) -> None:
        np.add(base, number, filled)
        requested = comm.sendrecv(whole, job.next, 0, None, job.previous, 0)
        read[0] = comm.sendrecv(filled[requested], job.previous, 1, None, job.next, 1)
        read[0].sum()

    runs = {OURS: ours, ALLTOALLV: known, ASKED: raw, PICKLE: pickled}
    return compared(runs, lambda: [read[0].copy()], sent=size)


def _indices(job: ComparisonJob, count: int) -> list[Array]:
    """Into an array of as many elements; some several times."""
    rng = np.random.default_rng((count, job.pid))
    return [rng.integers(0, count, count) for _ in range(TURNS)]


def _count_exchange(job: ComparisonJob, count: int) -> Any:
    """Send the next processor the number of elements that it gets: raw MPI needs it to receive."""
    from mpi4py import MPI

    out, into = np.zeros(job.p, np.int32), np.zeros(job.p, np.int32)

    def tell() -> None:
        out[job.next] = count
        job.comm.Alltoall([out, 1, MPI.INT], [into, 1, MPI.INT])

    return tell


def scattered_put(job: ComparisonJob, count: int) -> Prepared:
    """Values to random places of the next processor's array; numpy's own on processor 0, while the others wait."""
    bsp, x, turns = job.bsp, job.array(count), _indices(job, count)
    base, filled, placed, own = values(count, job.pid), np.zeros(count), np.zeros(count), np.zeros(count)
    asked, arrived = np.zeros(count, np.int64), np.zeros(count)
    tell = _count_exchange(job, count)
    send_indices, send_values = _Pair(job, turns[0], asked), _Pair(job, filled, arrived)
    read: list[Array] = [placed]

    def ours(number: int) -> None:
        np.add(base, number, filled)
        x.put(job.next, filled, at=turns[number % TURNS])
        bsp.sync()
        read[0] = x.local
        x.local.sum()

    def raw(number: int) -> None:
        np.add(base, number, filled)
        tell()
        send_indices(turns[number % TURNS])
        send_values()
        placed[asked] = arrived
        read[0] = placed
        placed.sum()

    def alone(number: int) -> None:
        if job.pid == 0:
            np.add(base, number, filled)
            own[turns[number % TURNS]] = filled
            own.sum()

    def bare(number: int) -> None:
        if job.pid == 0:
            own[turns[number % TURNS]] = filled

    def got() -> list[Array]:
        """The next one that is asked begins with zeros again, since some places are never written."""
        found = [read[0].copy()]
        read[0].fill(0)
        return found

    runs = {OURS: ours, TWO: raw, NUMPY: alone, BARE: bare}
    return compared(runs, got, silent=(NUMPY, BARE), items=count)


def scattered_get(job: ComparisonJob, count: int) -> Prepared:
    """Values from random places of the next processor's array, which that fills."""
    bsp, x, turns = job.bsp, job.array(count), _indices(job, count)
    base, filled, answers = values(count, job.pid), np.zeros(count), np.zeros(count)
    asked, arrived, own = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
    tell, ask = _count_exchange(job, count), _Pair(job, turns[0], asked)
    answer = _Pair(job, answers, arrived, back=True)
    read: list[Array] = [arrived]

    def ours(number: int) -> None:
        np.add(base, number, x.local)
        ticket = x.get(job.next, at=turns[number % TURNS])
        bsp.sync()
        read[0] = ticket.value
        read[0].sum()

    def raw(number: int) -> None:
        np.add(base, number, filled)
        tell()
        ask(turns[number % TURNS])
        np.take(filled, asked, out=answers, mode="clip")
        answer()
        read[0] = arrived
        arrived.sum()

    def alone(number: int) -> None:
        if job.pid == 0:
            np.add(base, number, filled)
            np.take(filled, turns[number % TURNS], out=own, mode="clip")
            own.sum()

    def bare(number: int) -> None:
        if job.pid == 0:
            np.take(filled, turns[number % TURNS], out=own, mode="clip")

    runs = {OURS: ours, TWO: raw, NUMPY: alone, BARE: bare}
    return compared(runs, lambda: [read[0].copy()], silent=(NUMPY, BARE), items=count)
