"""Router `direct`: every parcel goes straight to its destination, in one exchange."""

from __future__ import annotations

from collections.abc import Sequence

from ..transport import Transport


class Direct:
    """The exchange of the transport, unchanged. BSP cost: g*h + l."""

    name = "direct"

    def __init__(self, transport: Transport) -> None:
        self.route = transport.exchange

    def part(self, transport: Transport, members: Sequence[int]) -> Direct:
        return Direct(transport)

    def close(self) -> None:
        pass
