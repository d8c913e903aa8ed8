"""All processors of a transport meet by messages."""

from __future__ import annotations

import time

from .. import KIND, Arrival, Parcels, new_tuple
from ..delivery import NOT_JOINED
from ..flight import InFlight
from ..heads import Heads
from ..host_pads import HeadPad
from ..medium import ByRequests, Communicator
from ..wire import DATA
from .showing import Showing


class ByMessages(ByRequests, Showing):
    """Processors of different nodes, or of one where no shared memory is to be had."""

    pad: HeadPad

    def __init__(self, on: Communicator, ranks: list[int], pid: int, context: int, flight: InFlight) -> None:
        super().__init__(on, ranks, pid, context, flight)
        # Each begins with the next one, so that not all send to the same processor at once.
        peers = [(pid + k) % self.p for k in range(1, self.p)]
        self._heads = self._persistent = self._quiet = Heads(flight, ranks, pid, context, peers)
        self.pad = HeadPad(self._heads, pid, self.waiter)

    def _post(self, kind: int, note: object, parcels: Parcels, shows: bool = False) -> None:
        flight, has_own = self._flight, note is not None or self.pid in parcels
        flight.posted = 0
        manifests, messages = self._heads.describe(note, parcels, self.inline_data)
        if shows:
            self._heads.send_showing(kind, self.pad.taken(), manifests, has_own, self.waiter)
        else:
            self._heads.send(kind, manifests, has_own, self.waiter)
        # Data goes behind the heads: who reads a manifest then posts the receives for what it announces, in its order.
        flight.send(messages, DATA)

    def _post_showing(self, kind: int, parcels: Parcels) -> None:
        self._post(kind, None, parcels, shows=True)

    def _complete(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        heads = self._heads
        deadline = None if grace is None else time.perf_counter() + grace
        if not heads.here() and not self.waiter.until(heads.here, None, deadline):
            raise TimeoutError
        # Nobody waits for the heads to leave: the next exchange does, before it writes in their memory.
        heads.let_go(self.waiter)
        # With no data of its own on the way, and nothing for itself, its messages are all in the heads: those of others
        # are too, if each is mail alone and fits.
        if note is None and not self._flight.leaving and not kind & ~KIND and self.pid not in parcels:
            arrived = heads.mail_alone(kind)
            if arrived is not None:
                return new_tuple(Arrival, (None, None, arrived, NOT_JOINED))
        return self._receive(kind, note, parcels)

    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """With all heads here."""
        kinds = [kind] * self.p
        manifests: dict[int, memoryview] = {}
        late: list[tuple[int, int]] = []
        self._heads.read(kinds, manifests, late)
        return self._delivery.complete(kinds, note, parcels.get(self.pid), manifests, late, self.waiter)

    def _awaited(self) -> tuple[list[int], list[int]]:
        return [self._ranks[d] for d in self._heads.awaited()], [self._ranks[d] for d in self._heads.peers]
