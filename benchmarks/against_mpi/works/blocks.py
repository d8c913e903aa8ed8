"""Blocks from each processor to every other one: what is measured is bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..variants import OURS, WORD, Array, ComparisonJob, Prepared, Variant, Work, against, each, layout, values

KIB, MIB = 1 << 10, 1 << 20
BYTES = {
    "quick": (KIB, 64 * KIB, MIB),
    "all": (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB),
    "hosts": (KIB, 16 * KIB, 256 * KIB, MIB),
}
ROOMS = {"quick": (64 * KIB, MIB), "all": (64 * KIB, MIB, 16 * MIB), "hosts": (MIB,)}
COLUMNS = {"quick": (64 * KIB,), "all": (64 * KIB, MIB, 16 * MIB), "hosts": (64 * KIB, MIB)}

ALLTOALLV = "raw Alltoallv"
PICKLE = "pickle alltoall"
COPY = "numpy copy, all at once"
ALONE = "numpy copy, one processor"


def works(sizes: str) -> Iterator[Work]:
    for size in BYTES[sizes]:
        yield Work("blocks", size, f"{shown(size)} to every other, filled in place", blocks, partial(space, size))
    for size in ROOMS[sizes]:
        yield Work("rooms", size, f"{shown(size)} to every other, filled in `bsp.room`", rooms, partial(space, size))
    for size in COLUMNS[sizes]:
        title = f"{shown(size)} to every other, columns of a matrix"
        yield Work("columns", size, title, columns, partial(space, size))


def shown(size: int) -> str:
    """Bytes, for people."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} bytes"


def space(size: int, p: int) -> int:
    """Bytes of all processors: what is sent and received, by us, by MPI, copied, and as pickles."""
    return p * (6 * p + 1) * size


def _in_place(job: ComparisonJob, words: int, *buffers: Array) -> Iterator[list[Any]]:
    """As Alltoallv takes arrays in which each processor has a block of so many words, but this one's is not sent."""
    from mpi4py import MPI

    counts, _ = layout([words * (d in job.partners) for d in range(job.p)])
    starts = words * np.arange(job.p, dtype=np.int32)
    return ([buffer, counts, starts, MPI.DOUBLE] for buffer in buffers)


def blocks(job: ComparisonJob, size: int) -> Prepared:
    """A program that has its data where it computes it; raw MPI sends it from there."""
    bsp, comm, p, partners = job.bsp, job.comm, job.p, job.partners
    words = size // WORD
    base = values(words, job.pid)
    out, into = np.zeros((p, words)), np.zeros((p, words))
    sends, receives = _in_place(job, words, out, into)
    rows = [(d, out[d]) for d in partners]
    unpickled: list[Array] = []

    def fill(number: int) -> None:
        for d, row in rows:
            np.add(base, number + d, row)

    def ours(number: int) -> None:
        fill(number)
        for d, row in rows:
            bsp.send(d, row)
        bsp.sync()
        for message in bsp.inbox:
            message.payload.sum()

    def raw(number: int) -> None:
        fill(number)
        comm.Alltoallv(sends, receives)
        for s in partners:
            into[s].sum()

    def pickled(number: int) -> None:
        fill(number)
        empty: list[Array | None] = [None] * p
        for d, row in rows:
            empty[d] = row
        unpickled[:] = comm.alltoall(empty)
        for s in partners:
            unpickled[s].sum()

    def copied(_: int) -> None:
        for d, row in rows:
            np.copyto(into[d], row)

    def alone(number: int) -> None:
        if job.pid == 0:
            copied(number)

    variants = {
        OURS: Variant(each(ours), lambda: [m.payload.copy() for m in bsp.inbox]),
        ALLTOALLV: Variant(each(raw), lambda: [into[s].copy() for s in partners]),
        PICKLE: Variant(each(pickled), lambda: [unpickled[s] for s in partners]),
        COPY: Variant(each(copied)),
        ALONE: Variant(each(alone)),
    }
    return Prepared(variants, against(ALLTOALLV, PICKLE, COPY, ALONE), sent=size * len(partners))


def rooms(job: ComparisonJob, size: int) -> Prepared:
    """A program that computes its data where it is sent from: raw MPI's own buffer, or what `bsp.room` gives."""
    bsp, partners = job.bsp, job.partners
    words = size // WORD
    base = values(words, job.pid)
    theirs = blocks(job, size).variants[ALLTOALLV]

    def ours(number: int) -> None:
        for d in partners:
            np.add(base, number + d, bsp.room(d, words))
        bsp.sync()
        for message in bsp.inbox:
            message.payload.sum()

    variants = {OURS: Variant(each(ours), lambda: [m.payload.copy() for m in bsp.inbox]), ALLTOALLV: theirs}
    return Prepared(variants, against(ALLTOALLV), sent=size * len(partners))


def columns(job: ComparisonJob, size: int) -> Prepared:
    """A program whose data does not lie as it is to be sent: MPI's buffer has to be packed, `send` packs."""
    bsp, comm, p, partners = job.bsp, job.comm, job.p, job.partners
    wide = 64  # columns of a block
    high = size // WORD // wide
    base = values(p * high * wide, job.pid).reshape(high, p * wide)
    matrix = np.zeros_like(base)
    out, into = np.zeros((p, high, wide)), np.zeros((p, high, wide))
    sends, receives = _in_place(job, high * wide, out, into)
    parts = [(d, matrix[:, wide * d : wide * (d + 1)]) for d in partners]
    unpickled: list[Array] = []

    def ours(number: int) -> None:
        np.add(base, number, matrix)
        for d, part in parts:
            bsp.send(d, part)
        bsp.sync()
        for message in bsp.inbox:
            message.payload.sum()

    def raw(number: int) -> None:
        np.add(base, number, matrix)
        for d, part in parts:
            out[d] = part
        comm.Alltoallv(sends, receives)
        for s in partners:
            into[s].sum()

    def pickled(number: int) -> None:
        np.add(base, number, matrix)
        empty: list[Array | None] = [None] * p
        for d, part in parts:
            empty[d] = part
        unpickled[:] = comm.alltoall(empty)
        for s in partners:
            unpickled[s].sum()

    variants = {
        OURS: Variant(each(ours), lambda: [m.payload.copy() for m in bsp.inbox]),
        ALLTOALLV: Variant(each(raw), lambda: [into[s].copy() for s in partners]),
        PICKLE: Variant(each(pickled), lambda: [unpickled[s] for s in partners]),
    }
    return Prepared(variants, against(ALLTOALLV, PICKLE), sent=size * len(partners))
