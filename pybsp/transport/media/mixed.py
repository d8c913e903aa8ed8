"""Some processors of a transport meet on a board, and those of other nodes by messages."""

from __future__ import annotations

import time

from .. import FREE, Arrival, Charge, Parcels
from ..board import Board
from ..flight import InFlight
from ..heads import Heads
from ..host_pads import MixedPad
from ..medium import Communicator
from ..neighbours import Neighbours
from ..wire import DATA, MANIFESTS
from .showing import Showing


class Mixed(Showing):
    """Processors of several nodes, each of which has heads for all of other nodes."""

    board: Board
    pad: MixedPad

    def __init__(
        self, on: Communicator, ranks: list[int], pid: int, context: int, flight: InFlight, neighbours: Neighbours
    ) -> None:
        super().__init__(on, ranks, pid, context, flight, neighbours)
        self._neighbours = neighbours
        # Each begins with the next one, so that not all send to the same processor at once.
        others = [(pid + k) % self.p for k in range(1, self.p)]
        peers = [d for d in others if d not in neighbours.near]
        self._heads = self._persistent = Heads(flight, ranks, pid, context, peers)
        self.pad = MixedPad(self._heads, pid, self.waiter, neighbours, self._here)

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        try:
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            self._post(kind, note, parcels)
            return self._complete(kind, note, parcels, grace)
        except BaseException as error:
            return self.left(error, kind, note)

    def _post(self, kind: int, note: object, parcels: Parcels, shows: bool = False) -> None:
        flight, heads, board = self._flight, self._heads, self.board
        flight.posted = 0
        size = self.pad.taken() if shows else 0
        # The order is free: a processor needs both a status and a head of all others before it reads anything.
        # 1. Those on this node find manifests, and data, in shared memory.
        texts, shared, messages = self._neighbours.describe(note, parcels)
        late = (
            board.enter_with(self.pad.record(size), kind, texts, shared) if shows else board.enter(kind, texts, shared)
        )
        long = self._neighbours.by_rank(late)
        # 2. The heads for the others, with the manifests that fit.
        manifests, far = heads.describe(note, parcels, self.inline_data)
        has_own = note is not None or self.pid in parcels
        if shows:
            heads.send_showing(kind, size, manifests, has_own, self.waiter)
        else:
            heads.send(kind, manifests, has_own, self.waiter)
        # 3. What is longer, behind all heads, which everybody waits for; without waiting.
        flight.send(long, MANIFESTS)
        flight.send([*messages, *far], DATA)

    def _post_showing(self, kind: int, parcels: Parcels) -> None:
        self._post(kind, None, parcels, shows=True)

    def _complete(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        deadline = None if grace is None else time.perf_counter() + grace
        if not self._here() and not self.waiter.until(self._here, None, deadline):
            raise TimeoutError
        # Nobody waits for the heads to leave: the next exchange does, before it writes in their memory.
        self._heads.let_go(self.waiter)
        # With all here: what the board lent in the last exchange, and nobody still borrows, is free.
        self.board.finish()
        return self._receive(kind, note, parcels)

    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """With all others here."""
        kinds = [kind] * self.p
        manifests: dict[int, memoryview] = {}
        long: list[tuple[int, int]] = []
        if self._neighbours.read(kinds, manifests, long):
            self._neighbours.records(kind, self.pad.rows)
        self._heads.read(kinds, manifests, long)
        return self._delivery.complete(kinds, note, parcels.get(self.pid), manifests, long, self.waiter)

    def _here(self, _: object = None) -> bool:
        """Whether all others have come."""
        # Both, before anything is read: a processor of this node is not met by a head, nor one of another on the board.
        return self._heads.here() and self.board.here()

    def _awaited(self) -> tuple[list[int], list[int]]:
        absent = [*self._neighbours.awaited(), *self._heads.awaited()]
        known = [*self._neighbours.near, *self._heads.peers]
        return [self._ranks[d] for d in absent], [self._ranks[d] for d in known]
