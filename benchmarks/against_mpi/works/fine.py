"""h-relations of small messages: 8 bytes each, to random destinations, in whole arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..variants import OURS, WORD, Array, ComparisonJob, Prepared, Work, compared, values

COUNTS = {
    "quick": (1, 1000, 100_000),
    "all": (1, 10, 100, 1000, 10_000, 100_000, 1_000_000),
    "hosts": (1, 100, 10_000, 100_000),
}
TURNS = 3  # sets of destinations, taken in turns

BY_HAND = "argsort, bincount, raw Alltoallv"
PICKLE = "lists, pickle alltoall"


def works(sizes: str) -> Iterator[Work]:
    for count in COUNTS[sizes]:
        title = f"{count:,} message{'s' * (count > 1)} of 8 bytes, random destinations"
        yield Work("relation", count, title, relation, lambda p, count=count: 200 * p * count)  # type: ignore[misc]


def relation(job: ComparisonJob, count: int) -> Prepared:
    """A queue, against the same counting sort by hand, and against what one would write without arrays."""
    from mpi4py import MPI

    bsp, comm, p, queue = job.bsp, job.comm, job.p, job.queue()
    rng = np.random.default_rng((count, job.pid))
    turns = [rng.integers(0, p, count) for _ in range(TURNS)]
    base, filled = values(count, job.pid), np.zeros(count)
    packed, into = np.zeros(count), np.zeros(2 * count)
    sort_type = np.uint8 if p <= 1 << 8 else np.uint16
    counts_in, starts = np.zeros(p, np.int32), np.zeros(p, np.int32)
    starts_in = np.zeros(p, np.int32)
    read: list[Array] = [into]

    def ours(number: int) -> None:
        np.add(base, number, filled)
        queue.send(turns[number % TURNS], filled)
        bsp.sync()
        read[0] = queue.values
        read[0].sum()

    def by_hand(number: int) -> None:
        nonlocal into
        np.add(base, number, filled)
        dests = turns[number % TURNS]
        order = np.argsort(dests.astype(sort_type), kind="stable")
        counts = np.bincount(dests, minlength=p).astype(np.int32)
        np.take(filled, order, out=packed, mode="clip")
        comm.Alltoall([counts, 1, MPI.INT], [counts_in, 1, MPI.INT])
        np.cumsum(counts[:-1], out=starts[1:])
        np.cumsum(counts_in[:-1], out=starts_in[1:])
        total = int(counts_in.sum())
        if total > into.size:
            into = np.zeros(2 * total)
        comm.Alltoallv([packed, counts, starts, MPI.DOUBLE], [into, counts_in, starts_in, MPI.DOUBLE])
        read[0] = into[:total]
        read[0].sum()

    def pickled(number: int) -> None:
        np.add(base, number, filled)
        lists: list[list[float]] = [[] for _ in range(p)]
        for dest, value in zip(turns[number % TURNS].tolist(), filled.tolist(), strict=True):
            lists[dest].append(value)
        read[0] = np.array([value for part in comm.alltoall(lists) for value in part])
        read[0].sum()

    runs = {OURS: ours, BY_HAND: by_hand, PICKLE: pickled}
    return compared(runs, lambda: [read[0].copy()], sent=WORD * count, items=count)
