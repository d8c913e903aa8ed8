"""Router `hypercube`: packets along the dimensions of a cube, stored and forwarded (Valiant and Brebner).

The processors 0 to q - 1 are the nodes of a cube of n = floor(log2 p) dimensions, q = 2^n. A processor talks to its
neighbours in the cube alone. A superstep is

    1. n rounds: in round k each processor swaps with its neighbour in dimension k, and hands over the packets that
       cross it on the way to their random intermediate processors. With them goes a header: the kinds and notes of the
       processors that it has met, and whether any has packets. It doubles from round to round, so after n rounds all
       know (this is the barrier; where nobody has packets, it is all).
    2. n rounds likewise, from the intermediate processors to the ends.

Where p is no power of two, each of the processors q to p - 1 has a twin in the cube, q less: it hands over all its
packets before step 1, and gets what is for it after step 2, with the header. So there is a round more at each end,
and a twin bears the load of two; intermediate processors are those of the cube.

BSP cost: the sum of g*h_i + l over 2n rounds (2n + 2 where p is no power of two). A packet crosses each dimension with
probability 1/2, so h_i is about h/2 for an h-relation of many packets, whatever the relation is: T = n*g*h + 2n*l. The
paper counts (1.1 + 0.7n)h packets through a node for phase 2 alone, where all links work at the same time.

Source: the paper on a BSP router for transputers, section 2.1. There the next dimension is drawn among those that a
packet has to cross, as each packet goes alone; here all packets cross dimension k in round k, in bulk.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...machines.bsp import BSPMachine
from ...machines.ebsp import EBSPMachine
from ...transport import FLAG_PACKETS, FREE, MAIL, PASS, Arrival, Charge, Parcel, Parcels, Transport
from ..relation import Relation
from .intermediates import intermediates
from .load import NOTHING, Ints, Load, Routes, elapsed, exchanged, routes
from .options import Forwarding
from .packets import DEST, GOAL, Packets
from .router import ForwardingRouter, differ


class Header(NamedTuple):
    """The kinds and notes of successive processors of the cube, and of their twins.

    kinds: of those in the cube, with flags, one byte each.
    twins: of their twins.
    notes: (pid, note) of those that have one.
    moving: whether any of them has packets.
    """

    kinds: bytes
    twins: bytes
    notes: tuple[tuple[int, Any], ...]
    moving: bool

    def wire(self) -> tuple[int, Any]:
        """As a kind and a note: one byte, where all are of one kind and nobody has a note."""
        flag = FLAG_PACKETS if self.moving else 0
        kinds = self.kinds + self.twins
        if not self.notes and kinds.count(kinds[0]) == len(kinds):
            return kinds[0] | flag, None
        return PASS | flag, (self.kinds, self.twins, self.notes)


def received_header(kind: int, note: Any, size: int, twins: int) -> Header:
    """The header that came over the wire, of so many processors of the cube, and so many twins."""
    moving = bool(kind & FLAG_PACKETS)
    if note is not None:
        kinds, of_twins, notes = note
        return Header(kinds, of_twins, notes, moving)
    byte = bytes([kind & ~FLAG_PACKETS])
    return Header(byte * size, byte * twins, (), moving)


class HypercubeRouter(ForwardingRouter):
    """See above."""

    def __init__(self, transport: Transport, routing: Forwarding) -> None:
        super().__init__(transport, routing)
        self._n = self._p.bit_length() - 1
        self._q = 1 << self._n
        self._twins = self._p - self._q  # processors 0 to twins - 1 have one

    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        until = None if grace is None else time.perf_counter() + grace
        packets = self._cut(parcels, self._q, charge)
        notes = () if note is None else ((self._pid, note),)
        header = Header(bytes([kind]), b"", notes, len(packets) > 0)
        through = self._through_twin if self._pid >= self._q else self._through_cube
        header, loads = through(header, packets, until)
        kinds = list(header.kinds + header.twins)
        all_notes: list[Any] | None = None
        if header.notes:
            all_notes = [None] * self._p
            for pid, what in header.notes:
                all_notes[pid] = what
        return self._arrival(kinds, all_notes, packets, parcels, charge, loads)

    def _through_cube(self, header: Header, packets: Packets, until: float | None) -> tuple[Header, list[Load]]:
        """A processor of the cube. The packets are those that are for it then, if they go on to their ends."""
        pid, loads = self._pid, []
        twin = pid + self._q if pid < self._twins else None
        # 0. From the twin.
        if self._twins:
            load = NOTHING
            if twin is not None:
                theirs, load = self._swap(twin, (PASS, None), packets, np.zeros(len(packets), bool), until)
                its = received_header(*theirs, 1, 0)
                header = Header(header.kinds, its.kinds, header.notes + its.notes, header.moving or its.moving)
            loads.append(load)
        # 1. To the intermediate processors.
        for k in range(self._n):
            crossing = (packets.table[:, GOAL] ^ pid) >> k & 1 == 1
            theirs, load = self._swap(pid ^ 1 << k, header.wire(), packets, crossing, until)
            first = (pid ^ 1 << k) >> k << k  # of the half that the neighbour speaks for
            twins = min(max(self._twins - first, 0), 1 << k)
            header = _combined(header, received_header(*theirs, 1 << k, twins), pid >> k & 1 == 1)
            loads.append(load)
        # 2. To the ends, or their twins.
        if self._going(header):
            for k in range(self._n):
                crossing = (packets.table[:, DEST] % self._q ^ pid) >> k & 1 == 1
                _, load = self._swap(pid ^ 1 << k, (PASS, None), packets, crossing, None)
                loads.append(load)
        # 3. To the twin.
        if self._twins:
            load = NOTHING
            if twin is not None:
                _, load = self._swap(twin, header.wire(), packets, packets.table[:, DEST] == twin, None)
            loads.append(load)
        return header, loads or [NOTHING]  # one processor: a superstep all the same

    def _through_twin(self, header: Header, packets: Packets, until: float | None) -> tuple[Header, list[Load]]:
        """A processor beyond the cube; likewise."""
        home = self._pid - self._q
        _, first = self._swap(home, header.wire(), packets, np.ones(len(packets), bool), until)
        theirs, last = self._swap(home, (PASS, None), packets, np.zeros(len(packets), bool), until)
        header = received_header(*theirs, self._q, self._twins)
        between = 2 * self._n if self._going(header) else self._n
        return header, [first, *[NOTHING] * between, last]

    def _going(self, header: Header) -> bool:
        """Whether packets go on to their ends, by the header of all."""
        return header.moving and not differ(header.kinds + header.twins)

    def _swap(
        self, partner: int, wire: tuple[int, Any], packets: Packets, crossing: NDArray[np.bool_], until: float | None
    ) -> tuple[tuple[int, Any], Load]:
        """Meet a neighbour: hand over the packets that cross, and take over its. Returns its header, and the load."""
        chosen = crossing.nonzero()[0]
        parcel: Parcel = {}
        if len(chosen):
            parcel[MAIL] = packets.bundle(chosen, self._pool).section()
            packets.keep(~crossing)
        grace = None if until is None else max(0.0, until - time.perf_counter())
        kind, note, theirs = self._transport.swap(partner, *wire, parcel, grace)
        packets.receive(list(theirs.values()))
        words_out, words_in = (segment[MAIL].words if segment else 0 for segment in (parcel, theirs))
        return (kind, note), Load(words_out, words_in, len(parcel), len(theirs))


def _combined(mine: Header, theirs: Header, upper: bool) -> Header:
    """The header of two halves, of which `mine` is the upper or the lower one."""
    low, high = (theirs, mine) if upper else (mine, theirs)
    return Header(low.kinds + high.kinds, low.twins + high.twins, low.notes + high.notes, low.moving or high.moving)


# -- cost -------------------------------------------------------------------------------------------------------------


def loads(relation: Relation, words: ArrayLike = 1, seed: int = 0, superstep: int = 0) -> Ints:
    """What each processor sends and receives in each round, shape (rounds, p, 4), with the columns of `Load`; exact.

    Args, raises: as for `two_phase.loads`.
    """
    found = routes("hypercube loads", relation, words)
    q = 1 << relation.p.bit_length() - 1
    via = intermediates(q, seed, superstep, found.sources, found.numbers)
    return _along(relation.p, found, (via, found.destinations) if len(via) else (via,))


def greedy_loads(relation: Relation, words: ArrayLike = 1) -> Ints:
    """The same without intermediate processors: every packet goes straight along the dimensions, in n rounds."""
    found = routes("greedy loads", relation, words)
    return _along(relation.p, found, (found.destinations,))


def _along(p: int, found: Routes, phases: Sequence[Ints]) -> Ints:
    """The loads where packets go to each of these goals in turn."""
    n = p.bit_length() - 1
    q = 1 << n
    at, rounds = found.sources, []

    def go(to: Ints) -> None:
        nonlocal at
        rounds.append(exchanged(p, at, to, found.words))
        at = to

    if p > q:
        go(at % q)
    for goals in phases:
        for k in range(n):
            go(at ^ (at ^ goals % q) & 1 << k)
    if p > q:
        go(found.destinations)
    return np.array(rounds or [np.zeros((1, 4), np.int64)])


def cost(
    machine: BSPMachine | EBSPMachine, relation: Relation, words: ArrayLike = 1, seed: int = 0, superstep: int = 0
) -> float:
    """Seconds of a superstep on this router: the sum of g*h_i + l over the exchanges of `loads`; see there."""
    return elapsed(machine, loads(relation, words, seed, superstep))
