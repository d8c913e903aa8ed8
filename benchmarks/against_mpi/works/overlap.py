"""Computing while a large exchange is under way: `begin`, compute, `end`, against one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..variants import OURS, WORD, Array, ComparisonJob, Prepared, Variant, Work, each, values
from .blocks import KIB, MIB, shown, space

BYTES = {"quick": (64 * KIB,), "all": (MIB, 16 * MIB), "hosts": (256 * KIB, MIB)}

AFTERWARDS = "pybsp, sync and then compute"
EXCHANGE = "pybsp, the exchange alone"
COMPUTE = "the computation alone"
PIECE = 1 << 14  # words that the computation goes over again and again: they stay in the cache


def works(sizes: str) -> Iterator[Work]:
    for size in BYTES[sizes]:
        yield Work(
            "overlap", size, f"{shown(size)} to every other under computing as long", overlap, partial(space, size)
        )


def overlap(job: ComparisonJob, size: int) -> Prepared:
    """The computation is as long as the exchange that is measured first; equal on all processors."""
    bsp = job.bsp
    words = size // WORD
    base, out = values(words, job.pid), np.zeros((job.p, words))
    piece = values(PIECE, 1)
    rows = [(d, out[d]) for d in job.partners]
    read: list[Array] = []

    def send(number: int) -> None:
        for d, row in rows:
            np.add(base, number + d, row)
            bsp.send(d, row)

    def receive() -> None:
        read[:] = [message.payload for message in bsp.inbox]
        for payload in read:
            payload.sum()

    def compute() -> None:
        for _ in range(passes):
            piece.sum()

    def exchange(number: int) -> None:
        send(number)
        bsp.sync()
        receive()

    def afterwards(number: int) -> None:
        send(number)
        bsp.sync()
        compute()
        receive()

    def ours(number: int) -> None:
        send(number)
        bsp.begin()
        compute()
        bsp.end()
        receive()

    def shortest(run: Callable[[int], None]) -> float:
        times = []
        for number in range(7):
            begin = time.perf_counter()
            run(number)
            times.append(time.perf_counter() - begin)
        return min(times)

    passes = 100
    of_one = shortest(lambda _: compute()) / passes
    passes = max(job.comm.allgather(max(1, round(shortest(exchange) / of_one))))
    got = lambda: [payload.copy() for payload in read]  # noqa: E731
    variants = {
        OURS: Variant(each(ours), got),
        AFTERWARDS: Variant(each(afterwards), got),
        EXCHANGE: Variant(each(exchange), got),
        COMPUTE: Variant(each(lambda _: compute())),
    }
    return Prepared(variants, [(OURS, other) for other in list(variants)[1:]], sent=size * len(rows))
