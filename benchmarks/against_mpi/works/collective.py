"""Collectives of arrays, and sorting: `pybsp.collectives` against MPI's own, and against a sample sort by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pybsp.collectives import allreduce, broadcast, prefix, reduce, sample_sort

from ..variants import OURS, WORD, Array, ComparisonJob, Prepared, Work, compared, layout, values

BROADCAST = {"quick": (1, 1 << 13), "all": (1, 1 << 9, 1 << 13, 1 << 17, 1 << 20), "hosts": (1, 16, 1 << 9, 1 << 15)}
PREFIX = {"quick": (1, 1000), "all": (1, 1000, 100_000), "hosts": (1, 16, 1000, 30_000)}
REDUCTION = {"quick": (1000,), "all": (1, 1 << 9, 1 << 17, 1 << 20), "hosts": (1, 16, 1 << 9, 1 << 15)}
SORT = {"quick": 10_000, "all": 1_000_000, "hosts": 100_000}

BCAST, SCAN, ALLREDUCE, REDUCE = "raw Bcast", "raw Scan", "raw Allreduce", "raw Reduce"
SORT_BY_HAND = "sample sort by hand, raw Alltoallv"
NUMPY = "numpy's sort of all, one processor"


def works(sizes: str) -> Iterator[Work]:
    for words in BROADCAST[sizes]:
        yield Work("broadcast", words, f"broadcast of {_words(words)}", broadcasting, partial(_space, 8, words))
    for words in PREFIX[sizes]:
        yield Work("prefix", words, f"prefix sums of {_words(words)}", prefixing, partial(_space, 8, words))
    for words in REDUCTION[sizes]:
        yield Work("allreduce", words, f"allreduce of {_words(words)}", allreducing, partial(_space, 8, words))
    for words in REDUCTION[sizes]:
        yield Work("reduce", words, f"reduce of {_words(words)}", reducing, partial(_space, 8, words))
    keys = SORT[sizes]
    yield Work("sort", keys, f"sorting {keys:,} float64 keys a processor", sorting, partial(_space, 12, keys))


def _words(words: int) -> str:
    return f"{words:,} word{'s' * (words > 1)}"


def _space(copies: int, words: int, p: int) -> int:
    return copies * WORD * words * p


def broadcasting(job: ComparisonJob, words: int) -> Prepared:
    """From each processor in turn: else a root would be on its way with the next before the last one has arrived.

    Into the array that is there, as MPI does, and into a new one, which takes longer where its memory is new too.
    """
    from mpi4py import MPI

    bsp, comm, p, pid = job.bsp, job.comm, job.p, job.pid
    base, data = values(words, pid), np.zeros(words)
    read: list[Array] = [data]

    def ours(number: int, out: Array | None = data) -> None:
        root = number % p
        if pid == root:
            np.add(base, number, data)
        read[0] = broadcast(bsp, data, root, out=out)
        read[0].sum()

    def new(number: int) -> None:
        ours(number, None)

    def raw(number: int) -> None:
        root = number % p
        if pid == root:
            np.add(base, number, data)
        comm.Bcast([data, words, MPI.DOUBLE], root)
        read[0] = data
        data.sum()

    def pickled(number: int) -> None:
        root = number % p
        if pid == root:
            np.add(base, number, data)
        read[0] = comm.bcast(data if pid == root else None, root)
        read[0].sum()

    runs = {OURS: ours, "pybsp, into a new array": new, BCAST: raw, "pickle bcast": pickled}
    return compared(runs, lambda: [read[0].copy()], sent=WORD * words if words > 1000 else 0)


def prefixing(job: ComparisonJob, words: int) -> Prepared:
    """Sums of arrays, elementwise. Who is last waits for all; the others of MPI's may be repetitions ahead."""
    return _summing(job, words, prefix, SCAN, job.comm.Scan, job.comm.scan)


def allreducing(job: ComparisonJob, words: int) -> Prepared:
    """Sums of arrays, elementwise, on all processors."""
    return _summing(job, words, allreduce, ALLREDUCE, job.comm.Allreduce, job.comm.allreduce)


def _summing(job: ComparisonJob, words: int, collective: Any, name: str, of_buffers: Any, of_objects: Any) -> Prepared:
    """A collective of pybsp, against two of MPI, by which every processor has a sum."""
    from mpi4py import MPI

    bsp = job.bsp
    base, data, sums = values(words, job.pid), np.zeros(words), np.zeros(words)
    read: list[Array] = [sums]

    def ours(number: int) -> None:
        np.add(base, number, data)
        read[0] = collective(bsp, data, np.add)
        read[0].sum()

    def raw(number: int) -> None:
        np.add(base, number, data)
        of_buffers([data, words, MPI.DOUBLE], [sums, words, MPI.DOUBLE], MPI.SUM)
        read[0] = sums
        sums.sum()

    def pickled(number: int) -> None:
        np.add(base, number, data)
        read[0] = of_objects(data, MPI.SUM)
        read[0].sum()

    runs = {OURS: ours, name: raw, f"pickle {of_objects.__name__}": pickled}
    return compared(runs, lambda: [read[0].copy()], sent=WORD * words if words > 1000 else 0)


def reducing(job: ComparisonJob, words: int) -> Prepared:
    """Sums of arrays, elementwise, on each processor in turn, as of `broadcasting`."""
    from mpi4py import MPI

    bsp, comm, p, pid = job.bsp, job.comm, job.p, job.pid
    base, data, sums = values(words, pid), np.zeros(words), np.zeros(words)
    read: list[Array | None] = [sums]

    def ours(number: int) -> None:
        np.add(base, number, data)
        found = reduce(bsp, data, np.add, number % p)
        if found is not None:
            found.sum()
        read[0] = found

    def raw(number: int) -> None:
        root = number % p
        np.add(base, number, data)
        comm.Reduce([data, words, MPI.DOUBLE], [sums, words, MPI.DOUBLE], MPI.SUM, root)
        if pid == root:
            sums.sum()
        read[0] = sums if pid == root else None

    def pickled(number: int) -> None:
        np.add(base, number, data)
        found = comm.reduce(data, MPI.SUM, number % p)
        if found is not None:
            found.sum()
        read[0] = found

    runs = {OURS: ours, REDUCE: raw, "pickle reduce": pickled}
    return compared(
        runs, lambda: [found.copy() for found in read if found is not None], sent=WORD * words if words > 1000 else 0
    )


def sorting(job: ComparisonJob, count: int) -> Prepared:
    """Random keys; all variants leave their input as it is. What numpy sorts lies ready in processor 0."""
    comm, p = job.comm, job.p
    drawn = [np.random.default_rng((count, pid)).integers(0, 1 << 40, count).astype(np.float64) for pid in range(p)]
    base, keys = drawn[job.pid], np.zeros(count)
    everything = np.concatenate(drawn) if job.pid == 0 else keys[:0]
    filled = np.zeros_like(everything)
    del drawn
    by_hand = SampleSort(comm, count)
    read: list[Array] = [keys]

    def ours(number: int) -> None:
        np.add(base, number, keys)
        read[0] = sample_sort(job.bsp, keys)
        read[0].sum()

    def raw(number: int) -> None:
        np.add(base, number, keys)
        read[0] = by_hand(keys)
        read[0].sum()

    def alone(number: int) -> None:
        read[0] = everything[:0]
        if job.pid == 0:
            np.add(everything, number, filled)
            read[0] = np.sort(filled)
            read[0].sum()

    def got() -> list[Array]:
        """All keys: where a part ends is each variant's own matter."""
        parts: Sequence[Array] = comm.allgather(read[0])
        return [np.concatenate(parts)]

    return compared({OURS: ours, SORT_BY_HAND: raw, NUMPY: alone}, got, sent=WORD * count, items=count)


class SampleSort:
    """Sorting by regular samples, as one writes it with numpy and mpi4py; buffers are used again."""

    def __init__(self, comm: Any, count: int) -> None:
        self._comm, self._p = comm, comm.size
        self._all = np.zeros(self._p * self._p)
        self._counts_in = np.zeros(self._p, np.int32)
        self._into = np.zeros(2 * count)
        self._places = count * np.arange(self._p) // self._p

    def __call__(self, keys: Array) -> Array:
        """This processor's part of all keys in order."""
        from mpi4py import MPI

        comm, p = self._comm, self._p
        run = np.sort(keys)
        comm.Allgather([run[self._places], p, MPI.DOUBLE], [self._all, p, MPI.DOUBLE])
        splitters = np.sort(self._all)[p // 2 + p :: p][: p - 1]
        ends = [*np.searchsorted(run, splitters, "right").tolist(), run.size]
        counts, starts = layout(np.diff(ends, prepend=0))
        comm.Alltoall([counts, 1, MPI.INT], [self._counts_in, 1, MPI.INT])
        counts_in, starts_in = layout(self._counts_in)
        total = int(counts_in.sum())
        if total > self._into.size:
            self._into = np.zeros(2 * total)
        comm.Alltoallv([run, counts, starts, MPI.DOUBLE], [self._into, counts_in, starts_in, MPI.DOUBLE])
        return np.sort(self._into[:total])
