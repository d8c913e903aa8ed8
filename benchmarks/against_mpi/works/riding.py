"""Collectives that ride in the superstep of a queue exchange, against the exchange alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pybsp.collectives import allreduce, broadcast

from ..variants import OURS, Array, ComparisonJob, Prepared, Variant, Work, against, each, values

COUNTS = {"quick": (1000,), "all": (1, 1000, 100_000), "hosts": (1, 1000)}
TURNS = 3  # sets of destinations, taken in turns
OPS = np.add, np.maximum, np.minimum

ALONE = "pybsp, the queue exchange alone"
APART = "pybsp, the exchange, then each by a plain call"
RAW = "raw Allreduce three times and Bcast, alone"


def works(sizes: str) -> Iterator[Work]:
    for count in COUNTS[sizes]:
        title = f"3 allreduces and a broadcast of a float64 beside {count:,} message{'s' * (count > 1)} of a queue"
        yield Work("riding", count, title, riding, lambda p, count=count: 200 * p * count)  # type: ignore[misc]


def riding(job: ComparisonJob, count: int) -> Prepared:
    """What the exchange alone leaves out is made up for where it is compared, and not timed."""
    from mpi4py import MPI

    bsp, comm, p, pid, queue = job.bsp, job.comm, job.p, job.pid, job.queue()
    rng = np.random.default_rng((count, pid))
    turns = [rng.integers(0, p, count) for _ in range(TURNS)]
    base, filled = values(count, pid), np.zeros(count)
    first = base.item(0)
    out, into = np.zeros(1), np.zeros(1)
    sends, receives = [out, 1, MPI.DOUBLE], [into, 1, MPI.DOUBLE]
    raw_ops = MPI.SUM, MPI.MAX, MPI.MIN
    arrived: list[Array] = [filled]
    numbers: list[Any] = []
    last = [0]
    # Among few processors all of it is over with the exchange.
    more = range(max(allreduce.cost(bsp.machine).supersteps, broadcast.cost(bsp.machine).supersteps) - 1)

    def send(number: int) -> None:
        np.add(base, number, filled)
        queue.send(turns[number % TURNS], filled)

    def receive() -> None:
        arrived[0] = queue.values
        arrived[0].sum()

    def ours(number: int) -> None:
        send(number)
        value, root = first + number, number % p
        tickets = [allreduce.start(bsp, value, op) for op in OPS]
        tickets.append(broadcast.start(bsp, value if pid == root else None, root, like=0.0))
        bsp.sync()
        receive()
        for _ in more:
            bsp.sync()
        numbers[:] = [ticket.value for ticket in tickets]

    def alone(number: int) -> None:
        last[0] = number
        send(number)
        bsp.sync()
        receive()

    def plain(number: int) -> None:
        value, root = first + number, number % p
        numbers[:] = [allreduce(bsp, value, op) for op in OPS]
        numbers.append(broadcast(bsp, value if pid == root else None, root))

    def apart(number: int) -> None:
        alone(number)
        plain(number)

    def raw(number: int) -> None:
        last[0], root = number, number % p
        numbers.clear()
        for op in raw_ops:
            out[0] = first + number
            comm.Allreduce(sends, receives, op)
            numbers.append(into.item())
        comm.Bcast(sends, root)
        numbers.append(out.item())

    def got() -> list[Array]:
        return [arrived[0].copy(), np.array(numbers)]

    def got_alone() -> list[Array]:
        found = arrived[0].copy()
        plain(last[0])
        return [found, np.array(numbers)]

    def got_raw() -> list[Array]:
        found = np.array(numbers)
        alone(last[0])
        return [arrived[0].copy(), found]

    variants = {
        OURS: Variant(each(ours), got),
        ALONE: Variant(each(alone), got_alone),
        APART: Variant(each(apart), got),
        RAW: Variant(each(raw), got_raw),
    }
    return Prepared(variants, against(ALONE, APART, RAW))
