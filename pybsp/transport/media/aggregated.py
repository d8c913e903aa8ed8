"""The processors of a transport meet on a board of each node, and one of each speaks for it to the other nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .. import Arrival, Parcels, wire
from ..flight import InFlight
from ..host_pads import LeadersPad
from ..leaders import Leaders
from ..medium import ByRequests, Communicator
from ..memory import Bytes
from ..neighbours import Neighbours
from ..wire import DATA, MANIFESTS
from .showing import Showing


class Aggregated(ByRequests, Showing):
    """Processors of several nodes, some of which have more than one.

    Args:
        groups: the processors of each node, as `Placement` has them.
        neighbours: None where this one is alone on its node.
    """

    pad: LeadersPad

    def __init__(
        self,
        on: Communicator,
        ranks: list[int],
        pid: int,
        context: int,
        flight: InFlight,
        neighbours: Neighbours | None,
        groups: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(on, ranks, pid, context, flight, neighbours)
        self._neighbours = neighbours
        self._leaders = self._persistent = self._quiet = Leaders(ranks, pid, context, groups, self.board, flight)
        self.pad = LeadersPad(self._leaders, pid, self.p, self.waiter, neighbours)

    def _post(self, kind: int, note: object, parcels: Parcels, record: memoryview | None = None) -> None:
        flight, ranks, neighbours = self._flight, self._ranks, self._neighbours
        texts: list[tuple[int, bytes]] = []
        shared: list[Bytes] = []
        messages: list[tuple[int, Bytes]] = []
        here = {self.pid}
        if neighbours is not None:
            texts, shared, messages = neighbours.describe(note, parcels)
            here.update(neighbours.near)
        manifests: dict[int, bytes] = {}
        for d, parcel in parcels.items():
            if d not in here:
                late: list[Bytes] = []
                manifests[d] = wire.manifest(note, parcel, self.inline_data, late)
                # Manifests go by way of the leaders; data goes straight to its rank, which waits for the manifest
                # first.
                messages += [(ranks[d], data) for data in late]
        plain = b"" if note is None else wire.note_to_all(note)
        # In there the status is written, after all that it promises (`Board.enter`).
        late_texts = self._leaders.enter(kind, plain, manifests, texts, shared, record)
        # What is longer goes from rank to rank, while the leaders meet.
        if neighbours is not None:
            flight.send(neighbours.by_rank(late_texts), MANIFESTS)
        flight.send(messages, DATA)

    def _post_showing(self, kind: int, parcels: Parcels) -> None:
        self._post(kind, None, parcels, self.pad.record(self.pad.taken()))

    def _complete(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        if not self._leaders.wait(self.waiter, None if grace is None else time.perf_counter() + grace):
            raise TimeoutError
        return self._receive(kind, note, parcels)

    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """With all others here."""
        kinds = [kind] * self.p
        manifests: dict[int, memoryview] = {}
        late: list[tuple[int, int]] = []
        if self._neighbours is not None and self._neighbours.read(kinds, manifests, late):
            self._neighbours.records(kind, self.pad.rows)
        # The board has what this node's processors do, the release what all others do; both stay until the next
        # exchange.
        manifests.update(self._leaders.read(kinds, self.pad.rows))
        return self._delivery.complete(kinds, note, parcels.get(self.pid), manifests, late, self.waiter)

    def _awaited(self) -> tuple[list[int], list[int]]:
        near = [] if self._neighbours is None else self._neighbours.near
        absent = [] if self._neighbours is None else self._neighbours.awaited()
        # Who is missing on this node is known on it; of other nodes only their leaders are waited for.
        missing = [self._ranks[d] for d in absent] or self._leaders.awaited()
        return missing, [self._ranks[d] for d in near]

    def waits_for(self) -> Sequence[int]:
        leader = self._leaders.awaited_leader()
        return super().waits_for() or ([] if leader is None else [leader])
