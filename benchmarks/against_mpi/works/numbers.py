"""Collectives of one float64: `pybsp.collectives` against MPI's own on preallocated arrays of one item.

A program has the number as a Python float and wants one: MPI's forms write it to their array and read it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pybsp.collectives import allreduce, broadcast, prefix, reduce

from ..variants import OURS, Array, ComparisonJob, Prepared, Variant, Work, against, each, values
from .collective import ALLREDUCE, BCAST, REDUCE, SCAN


def works(_: str) -> Iterator[Work]:
    yield Work("allreduce number", 1, "allreduce of a float64", allreducing)
    yield Work("prefix number", 1, "prefix sum of a float64", prefixing)
    yield Work("broadcast number", 1, "broadcast of a float64", broadcasting)
    yield Work("reduce number", 1, "reduce of a float64", reducing)


def allreducing(job: ComparisonJob, _: int) -> Prepared:
    """Sums on all processors."""
    return _summing(job, allreduce, ALLREDUCE, job.comm.Allreduce, job.comm.allreduce)


def prefixing(job: ComparisonJob, _: int) -> Prepared:
    """Who is last waits for all; the others of MPI's may be repetitions ahead."""
    return _summing(job, prefix, SCAN, job.comm.Scan, job.comm.scan)


def _summing(job: ComparisonJob, collective: Any, name: str, of_buffers: Any, of_objects: Any) -> Prepared:
    """A collective of pybsp, against two of MPI, by which every processor has a sum."""
    from mpi4py import MPI

    bsp, (base, read, got) = job.bsp, _number(job)
    out, into, sends, receives = _buffers()

    def ours(number: int) -> None:
        read[0] = collective(bsp, base + number, np.add)

    def raw(number: int) -> None:
        out[0] = base + number
        of_buffers(sends, receives, MPI.SUM)
        read[0] = into.item()

    def pickled(number: int) -> None:
        read[0] = of_objects(base + number, MPI.SUM)

    return _compared({OURS: ours, name: raw, f"pickle {of_objects.__name__}": pickled}, got)


def broadcasting(job: ComparisonJob, _: int) -> Prepared:
    """From each processor in turn: else a root would be on its way with the next before the last one has arrived."""
    bsp, comm, p, pid, (base, read, got) = job.bsp, job.comm, job.p, job.pid, _number(job)
    data, _into, spec, _receives = _buffers()

    def ours(number: int) -> None:
        root = number % p
        read[0] = broadcast(bsp, base + number if pid == root else None, root)

    def raw(number: int) -> None:
        root = number % p
        if pid == root:
            data[0] = base + number
        comm.Bcast(spec, root)
        read[0] = data.item()

    def pickled(number: int) -> None:
        root = number % p
        read[0] = comm.bcast(base + number if pid == root else None, root)

    return _compared({OURS: ours, BCAST: raw, "pickle bcast": pickled}, got)


def reducing(job: ComparisonJob, _: int) -> Prepared:
    """To each processor in turn, as of `broadcasting`."""
    from mpi4py import MPI

    bsp, comm, p, pid, (base, read, got) = job.bsp, job.comm, job.p, job.pid, _number(job)
    out, into, sends, receives = _buffers()

    def ours(number: int) -> None:
        read[0] = reduce(bsp, base + number, np.add, number % p)

    def raw(number: int) -> None:
        root = number % p
        out[0] = base + number
        comm.Reduce(sends, receives if pid == root else None, MPI.SUM, root)
        read[0] = into.item() if pid == root else None

    def pickled(number: int) -> None:
        read[0] = comm.reduce(base + number, MPI.SUM, number % p)

    return _compared({OURS: ours, REDUCE: raw, "pickle reduce": pickled}, got)


def _number(job: ComparisonJob) -> tuple[float, list[Any], Callable[[], list[Array]]]:
    """Where the values begin here, the place of what was read, and how to compare that: None is nothing."""
    read: list[Any] = [None]
    return values(1, job.pid).item(), read, lambda: [np.array([found]) for found in read if found is not None]


def _buffers() -> tuple[Array, Array, list[Any], list[Any]]:
    """An item to send and one to receive, and both as MPI takes them."""
    from mpi4py import MPI

    out, into = np.zeros(1), np.zeros(1)
    return out, into, [out, 1, MPI.DOUBLE], [into, 1, MPI.DOUBLE]


def _compared(forms: dict[str, Callable[[int], None]], got: Callable[[], list[Array]]) -> Prepared:
    variants = {name: Variant(each(run), got) for name, run in forms.items()}
    return Prepared(variants, against(*[name for name in variants if name != OURS]))
