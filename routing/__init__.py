"""Routers: how a set of messages gets from sources to destinations.

A router realises what one exchange of a transport asks for: parcels from every processor to some others. Each
delivers exactly what `direct` delivers, so any program runs on any of them.

    direct.py    every parcel straight to its destination
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..errors import RoutingError
from ..transport import Arrival, Charge, Parcels, Transport
from .direct import Direct


class Router(Protocol):
    """Carries the parcels of one superstep; all processors call `route` together."""

    name: str

    def route(self, kind: int, note: object, parcels: Parcels, charge: Charge) -> Arrival:
        """Like `Transport.exchange`: see there for arguments and result."""


_ROUTERS: dict[str, Callable[[Transport], Router]] = {"direct": Direct}


def router(name: str, transport: Transport) -> Router:
    """The router of that name over a transport.

    Raises:
        RoutingError: there is none of that name.
    """
    if not isinstance(name, str) or name not in _ROUTERS:
        raise RoutingError(f"router: expected one of {', '.join(sorted(_ROUTERS))}, got {name!r}")
    return _ROUTERS[name](transport)
