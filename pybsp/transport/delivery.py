"""The end of an exchange: when all manifests are here, each stream of each source is brought where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import JOINED, KIND, Arrival, Parcel, Section, wire
from .flight import InFlight
from .memory import BufferPool, Bytes
from .wire import BY_MESSAGE, DATA, MANIFESTS, Arrived, Contents

if TYPE_CHECKING:
    from .board import Board
    from .waiting import Waiter

NOT_JOINED: dict[int, Bytes] = {}


class Delivery:
    """The delivery of one transport, as one processor sees it.

    Args:
        ranks, pid: of the transport.
        flight: its messages.
        board, places: where its neighbours meet, and the place there of each processor.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        pid: int,
        flight: InFlight,
        board: Board | None = None,
        places: Sequence[int] = (),
    ) -> None:
        self._ranks, self._pid, self._flight, self._board, self._places = ranks, pid, flight, board, places
        self.memory = BufferPool()  # for what is received

    def complete(
        self,
        kinds: list[int],
        note: object,
        own: Parcel | None,
        manifests: dict[int, memoryview],
        late: Sequence[tuple[int, int]],
        waiter: Waiter,
    ) -> Arrival:
        """What an exchange brings.

        Args:
            kinds: what each processor does, by pid.
            note, own: this processor's note to all, and its parcel to itself.
            manifests: those that are here, by source.
            late: source and bytes of those that come as messages.
        """
        if late:
            manifests = self.fetched(manifests, late, waiter)
        contents: dict[int, tuple[int, Contents]] = {}
        notes: list[Any] | None = None
        for s, manifest in manifests.items():
            source_note, contents[s] = wire.read(manifest)
            if source_note is not None:
                notes = notes or [None] * len(kinds)
                notes[s] = source_note
        if note is not None:
            notes = notes or [None] * len(kinds)
            notes[self._pid] = note
        arrived, joined = self.deliver(contents, manifests, own, waiter)
        kind = kinds[self._pid]
        uniform = notes is None and not kind & ~KIND and kinds.count(kind) == len(kinds)
        return Arrival(None if uniform else kinds, notes, arrived, joined)

    def fetched(
        self, here: dict[int, memoryview], late: Sequence[tuple[int, int]], waiter: Waiter
    ) -> dict[int, memoryview]:
        """Manifests by source: those that are here, and those that come as messages.

        Args:
            late: source, bytes.
        """
        here = {**here, **{s: memoryview(bytearray(size)) for s, size in late}}
        # Of sizes that are known, so nothing is probed for; with a tag of their own, so data is not taken for them.
        self._flight.receive([(self._ranks[s], here[s]) for s, _ in late], MANIFESTS)
        self._flight.collect(waiter)
        return here

    def deliver(
        self,
        contents: dict[int, tuple[int, Contents]],
        manifests: dict[int, memoryview],
        own: Parcel | None,
        waiter: Waiter,
    ) -> tuple[Arrived, dict[int, Bytes]]:
        """Find data that is here, put inline data in its place, and receive all other.

        Args:
            contents: by source: bytes of data, and what is in the parcel.
            manifests: likewise.
            own: what this processor sends to itself.

        Returns:
            The parcels by source that these fill, and the joined streams.
        """
        arrived, joined = self._posted(contents, manifests, own)
        flight = self._flight
        # All that was announced is received before the exchange is over: no message is left for the next one.
        if flight.arriving:
            flight.collect(waiter)
        # Sends need not be complete: their requests keep the memory that they read.
        if flight.leaving:
            flight.let_go(waiter)
        return arrived, joined

    def _posted(
        self, contents: dict[int, tuple[int, Contents]], manifests: dict[int, memoryview], own: Parcel | None
    ) -> tuple[Arrived, dict[int, Bytes]]:
        """See `deliver`; messages are posted here and not waited for."""
        if own is None and not any(total for total, _ in contents.values()):
            parcels = [
                (
                    s,
                    {
                        stream: Section(descriptors, words, count, None)
                        for stream, descriptors, words, count, _, _ in contents[s][1]
                    },
                )
                for s in sorted(contents)
                if contents[s][1]
            ]
            return parcels, {}
        ranks, take = self._ranks, self.memory.take
        if own is not None:
            contents[self._pid] = wire.contents(own)
        # The items of a queue, from all sources, are received right behind each other: one array.
        totals: dict[int, int] = {}
        shared = set()  # streams of which something lies in shared memory: where it is alone it need not be joined
        for _, content in contents.values():
            for stream, _, _, _, size, at in content:
                if stream >= JOINED:
                    totals[stream] = totals.get(stream, 0) + size
                    if at >= 0:
                        shared.add(stream)
        joined = {stream: take(total) for stream, total in totals.items() if stream not in shared}
        used = dict.fromkeys(joined, 0)
        arrived: Arrived = []
        places: list[tuple[int, Bytes]] = []
        # By source, however they came: a program gets its messages in one order on every medium.
        for s in sorted(contents):
            parcel: Parcel = {}
            total, content = contents[s]
            # What is left of the data that came with the manifest.
            inline = wire.data_with(manifests[s], total, content) if s != self._pid else None
            for stream, descriptors, words, messages, size, at in content:
                place: Bytes | None
                if at >= 0:
                    assert self._board is not None
                    # Not copied: its sender keeps it until nobody here refers to it (`Board.read`).
                    place = self._board.read(self._places[s], at, size)
                elif stream in joined:
                    place = joined[stream][used[stream] : used[stream] + size]
                    used[stream] += size
                else:
                    # Memory that nobody else reads: it is used again when the program refers to it no more (memory.py).
                    place = take(size) if size and s != self._pid else None
                if inline is not None:
                    if place is not None:
                        place[:] = inline[:size]  # a copy: the manifest's memory is used again
                    inline = inline[size:]
                elif s != self._pid and at == BY_MESSAGE:
                    if place is not None:
                        places.append((ranks[s], place))
                elif s == self._pid and own is not None:
                    data = own[stream].data
                    if place is None or data is None:
                        place = data  # mail to oneself is handed over
                    else:
                        place[:] = data  # copied, as MPI would, so that the queue is one array
                parcel[stream] = Section(descriptors, words, messages, place)
            if parcel:
                arrived.append((s, parcel))
        # In the order in which each source sends them: MPI gives the first message to the first receive of a tag.
        if places:
            self._flight.receive(places, DATA)
        return arrived, joined
