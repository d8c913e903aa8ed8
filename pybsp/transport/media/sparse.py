"""The processors of a transport meet by messages to partners alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .. import FREE, QUIET, Arrival, Charge, Parcels, wire
from ..delivery import Delivery
from ..flight import InFlight
from ..medium import MPITransport
from ..memory import Bytes
from ..sparse import SparseExchange, allgather
from ..wire import DATA, HAS_NOTE, MANIFESTS


class Sparse:
    """Dynamic sparse data exchanges (sparse.py), beside what a transport has of its own.

    All processors meet so, or none: which one is for whoever uses the transport. Its exchanges and these are one after
    the other, on the same communicator, and share what is in flight.

    Args:
        transport: of these processors.
        ranks, context: of it.
        flight, delivery: likewise.
    """

    def __init__(
        self, transport: MPITransport, ranks: Sequence[int], context: int, flight: InFlight, delivery: Delivery
    ) -> None:
        self._transport, self._ranks, self._context = transport, ranks, context
        self._flight, self._delivery = flight, delivery
        self.number = 0  # of the last exchange
        self._exchange: SparseExchange | None = None  # that goes on

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        try:
            return self._met(kind, note, parcels, grace)
        except BaseException as error:
            return self._transport.left(error, kind, note)

    def _met(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        deadline = None if grace is None else time.perf_counter() + grace
        flight, ranks, pid, waiter = self._flight, self._ranks, self._transport.pid, self._transport.waiter
        if flight.unfinished:
            flight.see_off(1, waiter)
        self.number += 1
        flight.posted = 0
        heads: dict[int, bytes] = {}
        sizes: dict[int, int] = {}
        long: list[tuple[int, bytes]] = []
        messages: list[tuple[int, Bytes]] = []
        for d, parcel in parcels.items():
            if d != pid:
                late: list[Bytes] = []
                manifest = wire.manifest(None, parcel, self._transport.inline_data, late)
                messages += [(ranks[d], data) for data in late]
                heads[d] = manifest
                if len(manifest) > wire.CHUNK:
                    heads[d], sizes[d] = b"", len(manifest)
                    long.append((ranks[d], manifest))
        flagged = kind | (0 if note is None else HAS_NOTE)
        # Others may be one exchange ahead, and not two: their heads have the other tag, and are not taken for these.
        head_tag = wire.tag(self._context, wire.SPARSE_HEADS + self.number % 2)
        tags = head_tag, wire.tag(self._context, wire.SPARSE_WORDS)
        exchange = self._exchange = SparseExchange(flight.comm, ranks, pid, tags, self.number, heads, sizes, flagged)
        # The order is free: each has a tag of its own, and what follows a head is received by the size that it says.
        flight.send(long, MANIFESTS)
        flight.send(messages, DATA)
        exchange.post()
        if not exchange.over() and not waiter.until(exchange.over, None, deadline):
            raise TimeoutError
        # All have come, and every head for this processor is here; none of its requests is active any more.
        self._exchange = None
        kinds: list[int] | None = None
        notes: list[Any] | None = None
        if exchange.least == exchange.most and exchange.flags and not exchange.flags & HAS_NOTE:
            kinds = [exchange.most | exchange.flags] * len(ranks)  # some ask for data: which ones does not matter
        elif exchange.least != exchange.most or exchange.flags:
            tag = wire.tag(self._context, wire.SPARSE_NOTES)
            of_all = allgather(flight.comm, ranks, pid, tag, (kind, note), waiter, flight.leaving)
            kinds = [one for one, _ in of_all]
            if any(text is not None for _, text in of_all):
                notes = [text for _, text in of_all]
        manifests = exchange.arrived
        # Their sends were posted beside the heads, so they come without another word.
        if exchange.late:
            manifests = self._delivery.fetched(manifests, exchange.late, waiter)
        contents = {s: wire.read(manifest)[1] for s, manifest in manifests.items()}
        arrived, joined = self._delivery.deliver(contents, manifests, parcels.get(pid), waiter)
        if kinds is None and not arrived:
            return QUIET
        return Arrival(kinds, notes, arrived, joined)

    # -- what is known of it outside ---------------------------------------------------------------------------------

    def awaited(self) -> list[int] | None:
        return None if self._exchange is None else self._exchange.awaited()

    def receiving(self) -> Sequence[Any]:
        return () if self._exchange is None else self._exchange.receiving

    def sending(self) -> Sequence[Any]:
        return () if self._exchange is None else self._exchange.sending
