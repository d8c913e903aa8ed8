"""The protocol for all virtual processors at once: what their exchanges would carry is counted, and nothing is sent.

Every exchange, message and packet is that of `RankWiring` on as many processors, and virtual time runs by the same
sums; a run costs what one process does with all rows, not p times what one does with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...transport.memory import BufferPool
from ..forwarding.packets import DEST, WORDS, Packets
from .network import Multibutterfly
from .options import MultibutterflyRouting
from .protocol import BlockedError, Protocol
from .ranks import first_rows
from .wiring import Ints, LocalWiring

Tick = Callable[[int, int, int, int], None]
"""An exchange is over: h, messages and items of the processor with most of each, and all words."""

local_wiring = lru_cache(maxsize=4)(LocalWiring)


class CountedWiring:
    """All rows in one process, and what goes between the processors that share them.

    Args:
        network, p: whose rows, and processors.
        at: where each message is, shape (messages,); kept up to date.
        data: words that the packet of each message counts, shape (messages,).
        stream: data stays where it is while messages select their paths, until `deliver`.
        tick: called for each exchange.

    Attributes:
        supersteps: so far.
        words, congestion: as in `RankWiring`, of each processor, shape (p,).
    """

    def __init__(self, network: Multibutterfly, p: int, at: Ints, data: Ints, stream: bool, tick: Tick) -> None:
        self._wiring = local_wiring(network)
        self.low, self.rows, self.columns, self.d = 0, network.N, network.n, network.d
        self.first = self._wiring.first
        self._p, self._at, self._data, self._stream, self._tick = p, at, data, stream, tick
        self._owner = np.repeat(np.arange(p), np.diff(first_rows(network.N, p)))
        self._hops: list[tuple[Ints, Ints, Ints, Ints]] = []  # from which column, from and to whom, and which messages
        self.supersteps = 0
        self.words, self.congestion = np.zeros((2, p), np.int64)

    def forward(self, edges: Ints, *values: Ints) -> tuple[Ints, ...]:
        self._count(self._of(edges), self._of(self._wiring.slot[edges]), 1 + len(values))
        return self._wiring.forward(edges, *values)

    def back(self, slots: Ints, *values: Ints) -> tuple[Ints, ...]:
        self._count(self._of(slots), self._of(self._wiring.edge[slots]), 1 + len(values))
        return self._wiring.back(slots, *values)

    def carry(self, edges: Ints, messages: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
        source, dest, real = self._of(edges), self._of(self._wiring.slot[edges]), messages >= 0
        if self._stream:
            self._hops.append((edges[real] // (self.rows * 2 * self.d), source[real], dest[real], messages[real]))
        self._count(source, dest, 3, None if self._stream else messages)
        self._at[messages[real]] = dest[real]
        return self._wiring.carry(edges, messages, ends)

    def total(self, *numbers: int) -> tuple[int, ...]:
        self.supersteps += 1
        self._tick(0, 0, 0, 0)
        return numbers

    def deliver(self) -> None:
        """Data that stayed behind follows the paths of its messages, a column in a superstep."""
        if self._stream:
            columns, source, dest, messages = map(np.concatenate, zip(*self._hops, strict=True))
            for column in range(self.columns):
                here = columns == column
                self._count(source[here], dest[here], 0, messages[here])

    def _of(self, places: Ints) -> Ints:
        """The processors of edges or slots."""
        return self._owner[places // (2 * self.d) % self.rows]

    def _count(self, source: Ints, dest: Ints, fields: int, messages: Ints | None = None) -> None:
        """One exchange of records of so many fields, along with the packets of these messages; None: of none."""
        p, away = self._p, np.flatnonzero(source != dest)
        pairs, of, records = np.unique(source[away] * p + dest[away], return_inverse=True, return_counts=True)
        words = (fields * records + 1) // 2  # of 8 bytes; fields are int32
        parcels, items = np.ones_like(pairs), np.zeros_like(pairs)
        if messages is not None:
            moving = messages[away] >= 0
            np.add.at(words, of[moving], self._data[messages[away][moving]])
            items[of[moving]] = 1
        ends = pairs // p, pairs % p
        h, most, joined = (
            np.array([np.bincount(end, counts, p) for end in ends]).astype(np.int64)
            for counts in (words, parcels + items, items)
        )
        self.supersteps += 1
        self.words += h[0]
        np.maximum(self.congestion, h.max(axis=0), out=self.congestion)
        self._tick(int(h.max()), int(most.max()), int(joined.max()), int(words.sum()))


class Run(NamedTuple):
    """All packets over one network.

    h: of the relation.
    blocked: why they have not all come; None: they have.
    stages, supersteps: of the protocol, and exchanges.
    words, congestion: of each processor, shape (p,).
    """

    h: int
    blocked: BlockedError | None
    stages: int
    supersteps: int
    words: Ints
    congestion: Ints


def route_at_once(
    routing: MultibutterflyRouting,
    networks: Sequence[Callable[[], Multibutterfly]],
    ports: Callable[[int], Ints],
    brought: Sequence[Packets],
    size: int,
    tick: Tick,
) -> tuple[list[Run], list[Packets]]:
    """The packets of all processors, over one network after the other until none is blocked.

    Args:
        networks: which make those that are tried.
        ports: of each processor, in a network of so many rows.
        brought: of each processor.
        size: bytes of the longest packet.

    Returns:
        the runs, one for each network that was tried, and the packets that have come to each processor.
    """
    p, pool = len(brought), BufferPool()
    packets = Packets()
    packets.receive([some.bundle(np.arange(len(some)), pool).section() for some in brought if len(some)])
    dest = packets.table[:, DEST].astype(np.int64)
    data = packets.table[:, WORDS].astype(np.int64)
    at = np.repeat(np.arange(p), [len(some) for some in brought])
    runs: list[Run] = []
    for network in networks:
        away = np.flatnonzero(dest != at)
        tick(0, 0, 0, 0)
        h = int(max(np.bincount(ends[away], minlength=p).max() for ends in (at, dest)))
        net = network()
        port = ports(net.N)
        wiring = CountedWiring(net, p, at, data, size > routing.stream, tick)
        protocol = Protocol(wiring, h, routing.parameters, port[at[away]], port[dest[away]], away)
        blocked: BlockedError | None = None
        try:
            protocol.run()
        except BlockedError as error:
            blocked = error
        wiring.deliver()
        runs.append(Run(h, blocked, protocol.stage, 1 + wiring.supersteps, wiring.words, wiring.congestion))
        if blocked is None:
            break
    there = packets.bundles(at.astype(np.int32), pool)
    arrived = [Packets() for _ in range(p)]
    for q, bundle in there.items():
        arrived[q].add(*bundle)
    return runs, arrived
