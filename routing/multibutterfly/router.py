"""Router `multibutterfly`: the packets of a superstep cross an (N, d)-multibutterfly whose rows the processors share.

    1. All say what they do, how many packets they send, and to whom how many bytes.
    2. They agree on h, the most packets from or to one of them.
    3. The protocol of section 3 runs over the processors; each of its exchanges is a superstep. Data goes with its
       packets, or, where packets are long, afterwards along the paths that they selected.

On virtual processors one process does what all of them do in 2 and 3 (at_once.py), in the same virtual time.

Source: *Deterministic Routing of h-relations on the Multibutterfly*, section 3, and the proof of Theorem 1 for long
messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ...transport import FREE, KIND, MAIL, Arrival, Charge, Parcels, Section, Transport
from ...transport.virtual import VirtualTransport
from ..forwarding.packets import CELL, CELLS, DEST, GOAL, Packets, cut, put_together
from .at_once import Run, route_at_once
from .network import Multibutterfly
from .options import MultibutterflyRouting
from .protocol import BlockedError, Protocol
from .ranks import RankWiring, first_rows
from .wiring import Ints

NETWORKS = 8  # that are tried, with one seed after the other

network_of = lru_cache(maxsize=16)(Multibutterfly)


class ProtocolExecution(NamedTuple):
    """What it took to route the packets of a superstep of the program; the last two figures are of this processor.

    kind: what the processors were doing, as in `pybsp.transport`.
    h: packets from or to one processor, at most; size: bytes of one, at most.
    delivered: False where some were blocked, and went on over another network, in the next execution.
    stages: of the protocol.
    supersteps: exchanges, after the one in which all say what they do.
    words: sent.
    congestion: words sent or received in an exchange, at most.
    """

    kind: int
    h: int
    size: int
    delivered: bool
    stages: int
    supersteps: int
    words: int
    congestion: int


class MultibutterflyRouter:
    """Supersteps by the protocol of the multibutterfly.

    Attributes:
        executions: of the supersteps so far in which packets were sent; what the run does beside supersteps included.
    """

    name = "multibutterfly"
    meets_to_close = False

    def __init__(self, transport: Transport, routing: MultibutterflyRouting) -> None:
        self._transport, self._routing = transport, routing
        self.executions: list[ProtocolExecution] = []

    def __repr__(self) -> str:
        return f"<router: {self.name}>"

    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        transport, pid = self._transport, self._transport.pid
        # 1. Kinds and headers of all, and who sends packets to whom.
        packets = cut(parcels, pid, self._routing.packet, transport.pool)
        to = np.bincount(packets.table[:, DEST], minlength=transport.p)
        size = int(packets.table[:, CELLS].max(initial=0)) * CELL
        header = (note, len(packets), size) if len(packets) or note is not None else None
        counts = {dest: {MAIL: Section(int(to[dest]), 1, 1, None)} for dest in np.flatnonzero(to).tolist()}
        kinds, headers, coming, _ = transport.exchange(kind, header, counts, charge, grace)
        notes = None
        received = Packets()
        if kinds is not None:
            each = [one or (None, 0, 0) for one in headers or [None] * transport.p]
            if any(note is not None for note, _, _ in each):
                notes = [note for note, _, _ in each]
            sent = [packets for _, packets, _ in each]
            # Where the processors do different things all raise next, and nobody looks at what would arrive.
            if any(sent) and not any((one ^ kinds[0]) & KIND for one in kinds):
                comes = sum(parcel[MAIL].descriptors for _, parcel in coming)
                longest = max(size for _, _, size in each)
                packets.table[:, GOAL] = sum(sent[:pid]) + np.arange(len(packets))
                charge = Charge(0.0, charge.counts)
                if isinstance(transport, VirtualTransport):
                    received = self._at_once(transport, kind & KIND, charge, packets, longest)
                else:
                    received = self._across(kind & KIND, charge, packets, comes, longest)
            if notes is None and not kinds[0] & ~KIND and list(kinds).count(kinds[0]) == len(kinds):
                kinds = None
        return Arrival(kinds, notes, put_together(received, pid, parcels.get(pid), transport.pool), {})

    def _across(self, kind: int, charge: Charge, packets: Packets, comes: int, size: int, attempt: int = 0) -> Packets:
        """Packets over the network.

        Args:
            kind, charge: of each exchange.
            packets: that are here; what is GOAL in their table is a number of each.
            comes: packets whose end is here.
            size: bytes of the longest of all.
            attempt: 0 on the first network.

        Returns:
            Those that have come.

        Raises:
            RoutingError: packets are blocked on every network tried.
        """
        transport, routing, pid = self._transport, self._routing, self._transport.pid
        # 2. h, of the packets that are not at their ends.
        table = packets.table[packets.table[:, DEST] != pid]
        table = table[np.argsort(table[:, GOAL])]  # where some were blocked they lie otherwise
        most = max(len(table), comes - (len(packets) - len(table)))
        of_all = transport.exchange(kind, most, {}, charge).notes
        assert of_all is not None
        h = max(of_all)

        # 3. The protocol.
        network = network_of(routing.rows(transport.p), routing.d, routing.seed + attempt)
        ports = self._ports(network.N)
        wiring = RankWiring(network, transport, kind, charge, packets, stream=size > routing.stream)
        begins, ends = np.full(len(table), ports[pid]), ports[table[:, DEST]]
        protocol = Protocol(wiring, h, routing.parameters, begins, ends, table[:, GOAL].astype(np.int64))
        blocked: BlockedError | None = None
        try:
            protocol.run()
        except BlockedError as error:  # on all processors
            blocked = error
        wiring.deliver()
        took = protocol.stage, 1 + wiring.supersteps, wiring.words, wiring.congestion
        self.executions.append(ProtocolExecution(kind, h, size, blocked is None, *took))
        if blocked is None:
            return wiring.packets
        # Packets that are blocked go on from where they are, over another network.
        if attempt + 1 == NETWORKS:
            raise blocked
        return self._across(kind, charge, wiring.packets, comes, size, attempt + 1)

    def _at_once(self, transport: VirtualTransport, kind: int, charge: Charge, packets: Packets, size: int) -> Packets:
        """`_across` for all virtual processors, by the last of them to come."""
        routing, pid = self._routing, transport.pid

        def tick(h: int, messages: int, items: int, words: int) -> None:
            if charge.counts:
                transport.elapse(transport.time() + transport.machine.elapsed(0.0, h, messages, words, items))

        def run(brought: Sequence[Packets]) -> Sequence[tuple[list[Run], Packets]]:
            rows, d = routing.rows(transport.p), routing.d
            networks = [partial(network_of, rows, d, routing.seed + attempt) for attempt in range(NETWORKS)]
            runs, arrived = route_at_once(routing, networks, self._ports, brought, size, tick)
            return [(runs, some) for some in arrived]

        runs: list[Run]
        arrived: Packets
        runs, arrived = transport.together(packets, run)
        for h, blocked, stages, supersteps, words, congestion in runs:
            took = stages, supersteps, int(words[pid]), int(congestion[pid])
            self.executions.append(ProtocolExecution(kind, h, size, blocked is None, *took))
        if blocked is not None:
            raise blocked
        return arrived

    def _ports(self, size: int) -> Ints:
        """The row of each processor: among its own the first that is a multiple of L."""
        L = self._routing.L
        return -(-first_rows(size, self._transport.p)[:-1] // L) * L

    def part(self, transport: Transport, members: Sequence[int]) -> MultibutterflyRouter:
        return MultibutterflyRouter(transport, self._routing)

    def close(self) -> None:
        pass
