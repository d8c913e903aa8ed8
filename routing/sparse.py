"""Router `sparse`: every parcel straight to its destination; a processor that has few partners sends few messages."""

from __future__ import annotations

from collections.abc import Sequence

from ..transport import Transport
from ..transport.medium import MPITransport


class SparseRouter:
    """Supersteps by dynamic sparse data exchange (pybsp/transport/media/sparse.py) on MPI ranks; elsewhere as `direct`.

    All go by messages: also processors of one node do not meet in shared memory, nor does one speak for others.

    BSP cost: g*h + l, where l is that of a head, its acknowledgement and ceil(log2 p) words, one after the other,
    instead of p - 1 heads: it pays where p is large and partners are few.
    """

    name = "sparse"
    meets_to_close = False

    def __init__(self, transport: Transport) -> None:
        self.route = transport.sparse.exchange if isinstance(transport, MPITransport) else transport.exchange

    def __repr__(self) -> str:
        return f"<router: {self.name}>"

    def part(self, transport: Transport, members: Sequence[int]) -> SparseRouter:
        return SparseRouter(transport)

    def close(self) -> None:
        pass
