"""The rows of a multibutterfly spread over the processors of a transport: a call of the wiring is a superstep."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from ...messages.outgoing import words_of
from ...transport import JOINED, MAIL, Charge, Parcel, Section, Transport
from ..forwarding.packets import GOAL, Packets
from .network import Multibutterfly
from .wiring import Ints, Narrow, firsts, outward


def first_rows(size: int, p: int) -> Ints:
    """The first row of each processor, and N: processor q holds q*N//p to (q + 1)*N//p - 1 in every column."""
    return np.arange(p + 1) * size // p


class Cables:
    """Where the edges of the nodes that a processor holds end. The same in every run, so made once.

    Attributes:
        low, rows: the first row held here, and how many.
        head: of each edge that leaves a node here, the processor at its end, and the number of the slot there.
        tail: of each slot of a node here, the processor at the other end, and the number of the edge there.
        first: as in `Wiring`.
    """

    def __init__(self, network: Multibutterfly, p: int, pid: int) -> None:
        begins = first_rows(network.N, p)
        rows, ports = np.diff(begins), 2 * network.d
        self.low, self.rows = int(begins[pid]), int(rows[pid])
        here = slice(self.low * ports, (self.low + self.rows) * ports)
        column = np.repeat(np.arange(network.n), self.rows * ports)

        def ends(other: Narrow) -> tuple[Ints, Ints]:
            """By the numbers within their columns of the other ends: whose they are, and their numbers there."""
            row, port = np.divmod(other.astype(np.int64), ports)
            owner = np.searchsorted(begins, row, side="right") - 1
            return owner, (column * rows[owner] + row - begins[owner]) * ports + port

        inward = network.inward.reshape(network.n, -1)[:, here].ravel()
        self.head, self.tail = ends(outward(network)[:, here].ravel()), ends(inward)
        self.first = firsts(inward, network.d)


cables = lru_cache(maxsize=256)(Cables)


class RankWiring:
    """The wiring over the processors of a transport; each call is one exchange, in which silence is not sent.

    Args:
        kind, charge: of every exchange.
        packets: which begin here; what is GOAL in their table is the number of the message.
        stream: data stays where it is while messages select their paths, until `deliver`.

    Attributes:
        packets: which are here now.
        supersteps: so far.
        words, congestion: that this processor has sent; and has sent or received in one superstep, at most. The data of
            a packet counts what the program's words count, all else the words of 8 bytes that it is.
    """

    def __init__(
        self, network: Multibutterfly, transport: Transport, kind: int, charge: Charge, packets: Packets, stream: bool
    ) -> None:
        self._cables = cables(network, transport.p, transport.pid)
        self.low, self.rows, self.columns, self.d = self._cables.low, self._cables.rows, network.n, network.d
        self.first = self._cables.first
        self._transport, self._kind, self._charge = transport, kind, charge
        self.packets, self._stream = packets, stream
        self._hops: list[tuple[Ints, Ints, Ints]] = []  # from which column, to whom, and which messages
        self.supersteps = self.words = self.congestion = 0

    def forward(self, edges: Ints, *values: Ints) -> tuple[Ints, ...]:
        return self._across(self._cables.head, edges, values)

    def back(self, slots: Ints, *values: Ints) -> tuple[Ints, ...]:
        return self._across(self._cables.tail, slots, values)

    def carry(self, edges: Ints, messages: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
        if self._stream:
            real = messages >= 0
            column = edges[real] // (self.rows * 2 * self.d)
            self._hops.append((column, self._cables.head[0][edges[real]], messages[real]))
        slots, messages, ends = self._across(self._cables.head, edges, (messages, ends), moving=not self._stream)
        return slots, messages, ends

    def total(self, *numbers: int) -> tuple[int, ...]:
        self.supersteps += 1
        notes = self._transport.exchange(self._kind, numbers, {}, self._charge).notes
        assert notes is not None
        return tuple(map(sum, zip(*notes, strict=True)))

    def deliver(self) -> None:
        """Data that stayed behind follows the paths of its messages, a column in a superstep."""
        if not self._stream:
            return
        columns, owners, messages = (np.concatenate(arrays) for arrays in zip(*self._hops, strict=True))
        for column in range(self.columns):
            here = columns == column
            self._swap(owners[here], np.empty((0, np.count_nonzero(here)), np.int64), messages[here])

    def _across(
        self, cables: tuple[Ints, Ints], at: Ints, values: tuple[Ints, ...], moving: bool = False
    ) -> tuple[Ints, ...]:
        """Records along edges or back, sorted by where they arrive; `moving`: with the data of their messages."""
        owner, number = cables
        arrived = self._swap(owner[at], np.stack((number[at], *values)), values[0] if moving else None)
        return tuple(arrived[:, np.argsort(arrived[0], kind="stable")])

    def _swap(self, owner: Ints, records: Ints, messages: Ints | None) -> Ints:
        """One exchange.

        Args:
            owner: to which processor each record goes, shape (m,).
            records: whole numbers below 2^31, shape (fields, m).
            messages: whose packets go along with the records, or -1; None: none do.

        Returns:
            The records for this processor, those of one source in order; shape (fields, m').
        """
        pid, fields = self._transport.pid, len(records)
        order = np.argsort(owner, kind="stable")
        owner, narrow = owner[order], records[:, order].astype(np.int32)
        cuts = np.searchsorted(owner, np.arange(self._transport.p + 1)).tolist()
        here = [narrow[:, cuts[pid] : cuts[pid + 1]]]
        parcels: dict[int, Parcel] = {}
        for q, (begin, end) in enumerate(itertools.pairwise(cuts)):
            if begin < end and q != pid:
                data = narrow[:, begin:end].ravel().view(np.uint8)
                parcels[q] = {MAIL: Section(end - begin, words_of(data.size), 1, data)}
        if messages is not None:
            moving = (messages[order] >= 0) & (owner != pid)
            self._load(owner[moving], messages[order][moving], parcels)
        self.supersteps += 1
        _, _, arrived, joined = self._transport.exchange(self._kind, None, parcels, self._charge)
        for _, parcel in arrived:
            count, _, _, some = parcel[MAIL]
            here.append((np.empty(0, np.uint8) if some is None else some).view(np.int32).reshape(fields, count))
        self.packets.receive([parcel[JOINED] for _, parcel in arrived if JOINED in parcel], joined.get(JOINED))
        loads = [
            sum(s.words for parcel in side for s in parcel.values())
            for side in (parcels.values(), dict(arrived).values())
        ]
        self.words += loads[0]
        self.congestion = max(self.congestion, *loads)
        return np.concatenate(here, axis=1).astype(np.int64)

    def _load(self, owner: Ints, messages: Ints, parcels: dict[int, Parcel]) -> None:
        """Put the packets of these messages, sorted by where they go, into the parcels; the others stay."""
        pool = self._transport.pool
        numbers = self.packets.table[:, GOAL]
        by_number = np.argsort(numbers)
        places = by_number[np.searchsorted(numbers, messages, sorter=by_number)]
        for q in np.unique(owner).tolist():
            parcels[q][JOINED] = self.packets.bundle(places[owner == q], pool).section()
        stay = np.ones(len(self.packets), bool)
        stay[places] = False
        staying = self.packets.bundle(np.flatnonzero(stay), pool)  # what has left is forgotten
        self.packets = Packets()
        self.packets.add(*staying)
