"""Routers, as the BSP interface sees them: what carries the parcels of a superstep. And `direct`, the simplest.

All others are in routing/, which is built on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from . import FREE, Arrival, Charge, Parcels, Transport


class Router(Protocol):
    """Carries the parcels of one superstep; all processors call `route` together.

    Attributes:
        name: by which it is chosen.
        meets_to_close: whether `close` is an exchange, in which each processor waits for the others.
    """

    name: str
    meets_to_close: bool

    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """Like `Transport.exchange`: see there for arguments and result.

        Where the processors were not all of one kind, parcels may be missing.
        """

    def part(self, transport: Transport, members: Sequence[int]) -> Router:
        """The router of a part: some of the processors, and their transport."""

    def close(self) -> None:
        """Give back what the router holds; all its processors do so, and do not use it afterwards."""


class Direct:
    """Every parcel goes straight to its destination: the exchange of the transport, unchanged. BSP cost: g*h + l."""

    name = "direct"
    meets_to_close = False

    def __init__(self, transport: Transport) -> None:
        self.route = transport.exchange

    def __repr__(self) -> str:
        return f"<router: {self.name}>"

    def part(self, transport: Transport, members: Sequence[int]) -> Direct:
        return Direct(transport)

    def close(self) -> None:
        pass
