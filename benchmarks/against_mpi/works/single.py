"""A loop of single sends: what Python takes for each message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..variants import OURS, ComparisonJob, Prepared, Variant, Work, against, each

SENDS = {"quick": 1000, "all": 10_000, "hosts": 10_000}

LOOP = "pybsp, the sends alone"
FLOOR = "a method that appends, alone"
BY_QUEUE = "pybsp, queue.send in the loop"
PICKLE = "lists, pickle alltoall"


class Floor:
    """A method with the arguments of `bsp.send` that does as little as one can that remembers something."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self._append = self.payloads.append

    def send(self, dest: Any, payload: Any, tag: Any = None) -> None:
        """Remember the payload."""
        self._append(payload)


def works(sizes: str) -> Iterator[Work]:
    count = SENDS[sizes]
    yield Work("sends", count, f"{count:,} numbers in a loop of single sends, random destinations", sends)


def sends(job: ComparisonJob, count: int) -> Prepared:
    """Floats one by one; what is sent are other objects in each of two turns."""
    bsp, comm, queue, floor = job.bsp, job.comm, job.queue(), Floor()
    dests = np.random.default_rng(job.pid).integers(0, job.p, count).tolist()
    payloads = [[float(turn * count + k) for k in range(count)] for turn in (0, 1)]
    read: list[float] = []

    def loop(number: int) -> None:
        send = bsp.send
        for dest, payload in zip(dests, payloads[number % 2], strict=True):
            send(dest, payload)

    def finish() -> None:
        bsp.sync()
        read[:] = [message.payload for message in bsp.inbox]
        sum(read)

    def ours(number: int) -> None:
        loop(number)
        finish()

    def floored(number: int) -> None:
        send = floor.send
        for dest, payload in zip(dests, payloads[number % 2], strict=True):
            send(dest, payload)

    def queued(number: int) -> None:
        send = queue.send
        for dest, payload in zip(dests, payloads[number % 2], strict=True):
            send(dest, payload)
        bsp.sync()
        read[:] = queue.values.tolist()
        sum(read)

    def pickled(number: int) -> None:
        lists: list[list[float]] = [[] for _ in range(job.p)]
        for dest, payload in zip(dests, payloads[number % 2], strict=True):
            lists[dest].append(payload)
        read[:] = [payload for part in comm.alltoall(lists) for payload in part]
        sum(read)

    got = lambda: [np.array(read)]  # noqa: E731
    variants = {
        OURS: Variant(each(ours), got),
        BY_QUEUE: Variant(each(queued), got),
        PICKLE: Variant(each(pickled), got),
        LOOP: Variant(each(loop), after=finish),
        FLOOR: Variant(each(floored), after=floor.payloads.clear),
    }
    return Prepared(variants, [*against(BY_QUEUE, PICKLE), (LOOP, FLOOR)], items=count)
