"""What the routers that forward share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...transport import FREE, JOINED, KIND, Arrival, Charge, Parcel, Parcels, Transport
from ...transport.virtual import VirtualTransport
from .intermediates import intermediates
from .load import Load, elapsed
from .options import Forwarding
from .packets import GOAL, Packets, cut, put_together


class ForwardingRouter(ABC):
    """Supersteps by packets that other processors pass on.

    Args:
        transport: of virtual processors or MPI ranks.
        routing: the options.

    Attributes: of the supersteps so far, at this processor; what a run does beside supersteps is not counted.
        rounds: exchanges.
        words: that this processor has sent, of others' packets too.
        congestion: words that it sent or received in one exchange, at most.
        last: what it sent and received in each exchange of the last superstep.
    """

    meets_to_close = False

    def __init__(self, transport: Transport, routing: Forwarding) -> None:
        self.name, self._routing = routing.name, routing
        self._transport = transport
        self._pid, self._p, self._pool = transport.pid, transport.p, transport.pool
        self._supersteps = 0
        self.rounds = self.words = self.congestion = 0
        self.last: Sequence[Load] = ()

    def __repr__(self) -> str:
        return f"<router: {self.name}>"

    @abstractmethod
    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """See `Router` in pybsp/transport/router.py."""

    def part(self, transport: Transport, members: Sequence[int]) -> ForwardingRouter:
        return type(self)(transport, self._routing)

    def close(self) -> None:  # noqa: B027 - nothing is held
        pass

    def _cut(self, parcels: Parcels, q: int, charge: Charge) -> Packets:
        """The packets of the parcels, on their way to intermediate processors 0 to q - 1."""
        packets = cut(parcels, self._pid, self._routing.packet, self._pool)
        if len(packets):
            sources, numbers = np.full(len(packets), self._pid), np.arange(len(packets))
            packets.table[:, GOAL] = intermediates(q, self._routing.seed, self._supersteps, sources, numbers)
        self._supersteps += charge.counts
        return packets

    def _arrival(
        self,
        kinds: Sequence[int],
        notes: Sequence[Any] | None,
        packets: Packets,
        sent: Parcels,
        charge: Charge,
        loads: Sequence[Load],
    ) -> Arrival:
        """With all packets at their ends: what the superstep brings. Its exchanges are counted, and take their time.

        Args:
            kinds: what each processor was doing, with flags.
            notes: of each; None where nobody has one.
            sent: the parcels of this processor.
            loads: of this processor, in each exchange.
        """
        if differ(kinds):
            return Arrival(kinds, notes, (), {})
        arrived = put_together(packets, self._pid, sent.get(self._pid), self._pool)
        if charge.counts:
            self._count(loads)
            if isinstance(self._transport, VirtualTransport):
                handled = np.maximum(_counts(sent.items(), self._pid), _counts(arrived, self._pid))
                self._transport.together((charge.seconds, loads, handled), self._elapse)
        uniform = notes is None and not any(kind & ~KIND for kind in kinds)
        return Arrival(None if uniform else kinds, notes, arrived, {})

    def _count(self, loads: Sequence[Load]) -> None:
        self.last = loads
        self.rounds += len(loads)
        self.words += sum(load.words_out for load in loads)
        self.congestion = max([self.congestion, *(max(load.words_out, load.words_in) for load in loads)])

    def _elapse(self, brought: Sequence[Any]) -> Sequence[Any]:
        """The last virtual processor has come: let the clock run."""
        assert isinstance(self._transport, VirtualTransport)
        seconds, loads, handled = zip(*brought, strict=True)
        messages, items = np.max(handled, axis=0).tolist()
        table = np.array(loads, np.int64).swapaxes(0, 1)
        transport = self._transport
        transport.elapse(transport.time() + elapsed(transport.machine, table, max(seconds), messages, items))
        return [None] * self._p


def differ(kinds: Sequence[int]) -> bool:
    """Whether not all processors were of one kind: then all raise next, and nobody looks at what would arrive."""
    return any((kind ^ kinds[0]) & KIND for kind in kinds)


def _counts(parcels: Iterable[tuple[int, Parcel]], pid: int) -> tuple[int, int]:
    """Messages of the program, and items of queues, to or from other processors; see `Section`."""
    messages = items = 0
    for other, parcel in parcels:
        if other != pid:
            for stream, section in parcel.items():
                messages += section.messages if stream < JOINED else 1
                items += section.messages if stream >= JOINED else 0
    return messages, items
