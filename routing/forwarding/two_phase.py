"""Router `two-phase`: by way of random intermediate processors, in two exchanges (Valiant).

A superstep is

    1. an exchange that brings each packet to a processor drawn at random;
    2. an exchange that brings it from there to its end.

Packets for one processor travel together. The first exchange also carries the kinds and notes of all, and whether
anybody has packets: where nobody has, it is the only one.

BSP cost: 2(g*h' + l), h' being what one processor sends or receives in one of the exchanges: about h(1 - 1/p) for an
h-relation of many more packets than processors, whatever the relation is. Any p.

Source: Valiant, *A scheme for fast parallel communication*, as the paper on a BSP router for transputers has it in
its section 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...machines.bsp import BSPMachine
from ...machines.ebsp import EBSPMachine
from ...messages.agreement import once
from ...transport import FLAG_PACKETS, FREE, JOINED, Arrival, Charge, Parcels
from ..relation import Relation
from .intermediates import intermediates
from .load import Ints, Load, elapsed, exchanged, routes
from .packets import DEST, GOAL, Packets
from .router import ForwardingRouter, differ


class TwoPhaseRouter(ForwardingRouter):
    """See above."""

    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        packets = self._cut(parcels, self._p, charge)
        # 1. To the intermediate processors.
        flag = FLAG_PACKETS if len(packets) else 0
        packets, arrival, load = self._exchange(kind | flag, note, packets, GOAL, grace)
        loads = [load]
        kinds, moving = plain(arrival.kinds) if arrival.kinds is not None else ([kind] * self._p, False)
        # 2. To their ends.
        if moving and not differ(kinds):
            packets, _, load = self._exchange(kind, None, packets, DEST, None)
            loads.append(load)
        return self._arrival(kinds, arrival.notes, packets, parcels, charge, loads)

    def _exchange(
        self, kind: int, note: object, packets: Packets, to: int, grace: float | None
    ) -> tuple[Packets, Arrival, Load]:
        """Packets to the processors in that column; returns those that come here."""
        bundles = packets.bundles(packets.table[:, to], self._pool)
        parcels = {dest: {JOINED: bundle.section()} for dest, bundle in bundles.items()}
        arrival = self._transport.exchange(kind, note, parcels, grace=grace)
        segments = {source: parcel[JOINED] for source, parcel in arrival.parcels if parcel}
        received = Packets()
        received.receive(list(segments.values()), arrival.joined.get(JOINED))
        out = [bundle.words for dest, bundle in bundles.items() if dest != self._pid]
        into = [segment.words for source, segment in segments.items() if source != self._pid]
        return received, arrival, Load(sum(out), sum(into), len(out), len(into))


@once
def plain(kinds: Sequence[int]) -> tuple[list[int], bool]:
    """What all were doing, without the flag of packets; and whether anybody has some."""
    return [kind & ~FLAG_PACKETS for kind in kinds], any(kind & FLAG_PACKETS for kind in kinds)


# -- cost -------------------------------------------------------------------------------------------------------------


def loads(relation: Relation, words: ArrayLike = 1, seed: int = 0, superstep: int = 0) -> Ints:
    """What each processor sends and receives in each exchange, shape (2, p, 4), with the columns of `Load`; exact.

    Args:
        relation: the packets, in the order in which each source sends to its destinations.
        words: that a packet counts, or that each does, shape (m,).
        seed: of the router.
        superstep: of the run, from 0; one with gets counts as two.

    Raises:
        UsageError: words that are none.
    """
    p, found = relation.p, routes("two-phase loads", relation, words)
    if not len(found.sources):
        return np.zeros((1, p, 4), np.int64)  # of which all know after the first exchange
    via = intermediates(p, seed, superstep, found.sources, found.numbers)
    return np.array(
        [
            exchanged(p, found.sources, via, found.words),
            exchanged(p, via, found.destinations, found.words),
        ]
    )


def cost(
    machine: BSPMachine | EBSPMachine, relation: Relation, words: ArrayLike = 1, seed: int = 0, superstep: int = 0
) -> float:
    """Seconds of a superstep on this router: the sum of g*h_i + l over the exchanges of `loads`; see there."""
    return elapsed(machine, loads(relation, words, seed, superstep))
