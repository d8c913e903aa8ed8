"""Supersteps that carry nothing, or little: what is measured is latency."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

from pybsp.bsp import BSP
from pybsp.ledger.account import Account
from pybsp.supersteps.superstep import SuperstepEngine
from pybsp.transport import SYNC
from pybsp.transport.router import Direct

from ..variants import OURS, Array, Batch, ComparisonJob, Prepared, Variant, Work, against, each, layout, values

WORDS = 64
SHIFTED = 8
CONTEXT = 31  # of a second machine of the same processors: no split here uses it

EXCHANGE = "pybsp's bare exchange"
CHECKED = "pybsp, checked mode"
COUNTS = "raw Alltoall of p int32"
BARRIER = "raw Barrier"
FLAGS = "flags in shared memory, by hand"
ALLTOALL = "raw Alltoall"
ALLTOALLV = "raw Alltoallv, counts known"
SENDRECV = "raw Sendrecv"
PICKLE = "pickle alltoall"


def works(_: str) -> Iterator[Work]:
    yield Work("empty", 0, "empty superstep", empty)
    yield Work("words", WORDS, f"{WORDS} words to every other, send to read", words)
    yield Work("shift", SHIFTED, f"{SHIFTED} words to the next one (a 1-relation)", shift)
    yield Work("tuple", 0, "a tuple to the next one", of_object)
    yield Work("tagged", 0, "a number with a tag to processor 0, from all", tagged)


def empty(job: ComparisonJob, _: int) -> Prepared:
    """Nothing is sent. The bare exchange is the transport's, without what `sync` adds: the ledger and the checks."""
    from mpi4py import MPI

    bsp, comm = job.bsp, job.comm
    out, into = np.zeros(job.p, np.int32), np.zeros(job.p, np.int32)
    sends, receives = [out, 1, MPI.INT], [into, 1, MPI.INT]
    exchange = bsp._transport.exchange

    def ours(first: int, count: int) -> None:
        sync = bsp.sync
        for _ in repeat(None, count):
            sync()

    def bare(first: int, count: int) -> None:
        nothing: dict[int, Any] = {}
        for _ in repeat(None, count):
            exchange(SYNC, None, nothing)

    def counts(first: int, count: int) -> None:
        alltoall = comm.Alltoall
        for _ in repeat(None, count):
            alltoall(sends, receives)

    def barrier(first: int, count: int) -> None:
        meet = comm.Barrier
        for _ in repeat(None, count):
            meet()

    # The same processors again, in checked mode.
    transport = bsp._transport.subset(list(range(job.p)), CONTEXT)
    superstep = SuperstepEngine(transport, Direct(transport), Account(transport), checked=True, context=CONTEXT)
    careful = BSP(superstep, bsp.machine)
    job.closing.append(transport.free)

    def checked(first: int, count: int) -> None:
        sync = careful.sync
        for _ in repeat(None, count):
            sync()

    variants = {
        OURS: Variant(ours),
        EXCHANGE: Variant(bare),
        CHECKED: Variant(checked),
        COUNTS: Variant(counts),
        BARRIER: Variant(barrier),
    }
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if here.size == job.p:
        variants[FLAGS] = Variant(_flags(job))
    here.Free()
    pairs = [(OURS, variant) for variant in variants if variant not in (OURS, CHECKED)]
    return Prepared(variants, [*pairs, (CHECKED, OURS)])


def _flags(job: ComparisonJob) -> Batch:
    """A flag of each in shared memory, waited for by spinning and then yielding: the least that Python can do."""
    comm, p, pid = job.comm, job.p, job.pid
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    name = None
    if pid == 0:
        handle, name = tempfile.mkstemp(prefix="pybsp-compare-", dir=folder)
        os.ftruncate(handle, 64 * p)
        os.close(handle)
    name = comm.bcast(name)
    with open(name, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 64 * p)
    comm.allgather(None)
    if pid == 0:
        os.unlink(name)
    # Two flags a processor, of even and of odd numbers, on a cache line of its own.
    rows = [memoryview(shared)[64 * k : 64 * k + 16].cast("q") for k in range(p)]
    mine, theirs = rows[pid], [row for k, row in enumerate(rows) if k != pid]
    spins = 200 if p <= (os.cpu_count() or 1) else 1
    reached = 0

    def batch(first: int, count: int) -> None:
        nonlocal reached
        for _ in repeat(None, count):
            reached += 1
            parity = reached & 1
            mine[parity] = reached
            for other in theirs:
                tries = spins
                while other[parity] < reached:
                    tries -= 1
                    if tries < 0:
                        os.sched_yield()

    return batch


def words(job: ComparisonJob, size: int) -> Prepared:
    """So many words to each."""
    from mpi4py import MPI

    bsp, comm, p, pid, partners = job.bsp, job.comm, job.p, job.pid, job.partners
    base = values(p * size, pid).reshape(p, size)
    out, into = np.zeros((p, size)), np.zeros((p, size))
    rows = [(d, out[d]) for d in partners]
    arrived = [into[s] for s in partners]
    sends, receives = [out, size, MPI.DOUBLE], [into, size, MPI.DOUBLE]
    add, total = np.add, np.add.reduce
    unpickled: list[Array] = []

    def ours(number: int) -> None:
        add(base, number, out)
        for d, row in rows:
            bsp.send(d, row)
        bsp.sync()
        for message in bsp.inbox:
            total(message.payload)

    def raw(number: int) -> None:
        add(base, number, out)
        comm.Alltoall(sends, receives)
        for row in arrived:
            total(row)

    def pickled(number: int) -> None:
        add(base, number, out)
        unpickled[:] = comm.alltoall(list(out))
        for s in partners:
            total(unpickled[s])

    variants = {
        OURS: Variant(each(ours), lambda: [m.payload.copy() for m in bsp.inbox]),
        ALLTOALL: Variant(each(raw), lambda: [row.copy() for row in arrived]),
        PICKLE: Variant(each(pickled), lambda: [unpickled[s] for s in partners]),
    }
    return Prepared(variants, against(ALLTOALL, PICKLE))


def shift(job: ComparisonJob, size: int) -> Prepared:
    """Some words to the next processor. An Alltoall does it for programs that do not know who sends to whom."""
    from mpi4py import MPI

    bsp, comm, p, pid = job.bsp, job.comm, job.p, job.pid
    base = values(size, pid)
    out, into = np.zeros((p, size)), np.zeros((p, size))
    row, arrived = out[job.next], into[job.previous]
    all_out, all_into = [out, size, MPI.DOUBLE], [into, size, MPI.DOUBLE]
    counts, starts = layout([size * (d == job.next) for d in range(p)])
    counts_in, starts_in = layout([size * (s == job.previous) for s in range(p)])
    one_out = [row, counts, starts, MPI.DOUBLE]
    one_into = [arrived, counts_in, starts_in, MPI.DOUBLE]
    add, total = np.add, np.add.reduce
    unpickled: list[Array] = []

    def ours(number: int) -> None:
        add(base, number, row)
        bsp.send(job.next, row)
        bsp.sync()
        total(bsp.inbox[0].payload)

    def alltoall(number: int) -> None:
        add(base, number, row)
        comm.Alltoall(all_out, all_into)
        total(arrived)

    def alltoallv(number: int) -> None:
        add(base, number, row)
        comm.Alltoallv(one_out, one_into)
        total(arrived)

    def sendrecv(number: int) -> None:
        add(base, number, row)
        comm.Sendrecv([row, size, MPI.DOUBLE], job.next, 0, [arrived, size, MPI.DOUBLE], job.previous, 0)
        total(arrived)

    def pickled(number: int) -> None:
        add(base, number, row)
        unpickled[:] = [comm.sendrecv(row, job.next, 0, None, job.previous, 0)]
        total(unpickled[0])

    received = lambda: [arrived.copy()]  # noqa: E731
    variants = {
        OURS: Variant(each(ours), lambda: [bsp.inbox[0].payload.copy()]),
        ALLTOALL: Variant(each(alltoall), received),
        ALLTOALLV: Variant(each(alltoallv), received),
        SENDRECV: Variant(each(sendrecv), received),
        "pickle sendrecv": Variant(each(pickled), lambda: unpickled),
    }
    return Prepared(variants, against(*list(variants)[1:]))


def of_object(job: ComparisonJob, _: int) -> Prepared:
    """What only pickle takes: a text and two numbers."""
    bsp, comm, pid = job.bsp, job.comm, job.pid
    got: list[Array] = []

    def ours(number: int) -> None:
        bsp.send(job.next, ("a tuple", pid, 7.0 * pid + number))
        bsp.sync()
        got[:] = [np.array(bsp.inbox[0].payload[1:])]

    def pickled(number: int) -> None:
        sent = ("a tuple", pid, 7.0 * pid + number)
        got[:] = [np.array(comm.sendrecv(sent, job.next, 0, None, job.previous, 0)[1:])]

    variants = {OURS: Variant(each(ours), lambda: got), "pickle sendrecv": Variant(each(pickled), lambda: got)}
    return Prepared(variants, against("pickle sendrecv"))


def tagged(job: ComparisonJob, _: int) -> Prepared:
    """Each processor says which repetition its number is of; processor 0 is one of them."""
    bsp, comm, p, pid = job.bsp, job.comm, job.p, job.pid
    out, into = np.zeros(2), np.zeros((p, 2))
    got: list[Array] = []

    def ours(number: int) -> None:
        bsp.send(0, 7.0 * pid + number, tag=number)
        bsp.sync()
        got[:] = [np.array([(payload, tag) for _, tag, payload in bsp.inbox]).reshape(-1, 2)]

    def raw(number: int) -> None:
        out[:] = 7.0 * pid + number, number
        comm.Gather(out, into)
        got[:] = [into[: p * (pid == 0)].copy()]

    def pickled(number: int) -> None:
        got[:] = [np.array(comm.gather((7.0 * pid + number, number)) or []).reshape(-1, 2)]

    variants = {
        OURS: Variant(each(ours), lambda: got),
        "raw Gather": Variant(each(raw), lambda: got),
        "pickle gather": Variant(each(pickled), lambda: got),
    }
    return Prepared(variants, against("raw Gather", "pickle gather"))
