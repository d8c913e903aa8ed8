"""Routers: how a set of messages gets from sources to destinations.

A router realises what one exchange of a transport asks for: parcels from every processor to some others. Each
delivers exactly what `direct` delivers, so any program runs on any of them.

    direct.py          every parcel straight to its destination
    sparse.py          the same, where partners are few and processors many
    forwarding/        by way of random processors, in two exchanges or along a hypercube
    multibutterfly/    over a multibutterfly whose rows the processors share
    logp/              by LogP messages alone

What they route, and what networks (`pybsp.routing.networks`) route packet by packet, is a `Relation` (relation.py);
`pybsp.routing.relations` makes some to try them with.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from ..errors import RoutingError
from ..machine import BSPMachine, EBSPMachine
from ..transport import FREE, Arrival, Charge, Parcels, Transport
from ..transport.sparse import pays_from
from .decomposition import decompose as decompose
from .direct import Direct
from .forwarding.options import Forwarding
from .forwarding.options import hypercube_router as hypercube_router
from .forwarding.options import two_phase_router as two_phase_router
from .logp.options import ALGORITHMS, LogPRouting
from .logp.options import logp_router as logp_router
from .logp_on_bsp import logp_on_bsp as logp_on_bsp
from .multibutterfly.options import MultibutterflyRouting
from .multibutterfly.options import multibutterfly_router as multibutterfly_router
from .relation import Relation as Relation
from .sparse import Sparse

if TYPE_CHECKING:
    from . import networks as networks
    from . import relations as relations

Routing = str | LogPRouting | Forwarding | MultibutterflyRouting  # what `router=` of a run may be


def __getattr__(name: str) -> ModuleType:
    """`networks` and `relations` are imported when they are first asked for: programs need neither."""
    if name in ("networks", "relations"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Router(Protocol):
    """Carries the parcels of one superstep; all processors call `route` together."""

    name: str

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


_ROUTINGS: dict[str, Routing] = {
    "direct": "direct",
    "sparse": "sparse",
    "two-phase": two_phase_router(),
    "hypercube": hypercube_router(),
    "multibutterfly": multibutterfly_router(),
    **{f"logp-{name}": LogPRouting(name) for name in ALGORITHMS},
}


def named(routing: Routing) -> Routing:
    """What was asked for by its name, if it was.

    Raises:
        RoutingError: there is none of that name.
    """
    if isinstance(routing, LogPRouting | Forwarding | MultibutterflyRouting):
        return routing
    if not isinstance(routing, str) or routing not in _ROUTINGS:
        raise RoutingError(
            f"router: expected one of {', '.join(sorted(_ROUTINGS))} or what a function pybsp.routing.*_router gives, "
            f"got {routing!r}"
        )
    return _ROUTINGS[routing]


def name_of(routing: Routing) -> str:
    """Its name, for the ledger."""
    return routing if isinstance(routing, str) else routing.name


def resolved(routing: Routing, machine: BSPMachine | EBSPMachine, apart: bool = True) -> Routing:
    """What was asked for, with all that a router needs to know of the machine.

    On a machine that was measured `direct` becomes `sparse` from the p on where heads to all would cost more than a
    sparse exchange with few partners; unless some processors meet in shared memory, which `sparse` makes no use of.
    (l is more than a latency, and o_msg more than what a head takes: rather both alike.)

    Args:
        apart: whether no two processors do.

    Raises:
        RoutingError: there is none of that name.
        UsageError: the LogP machine in force cannot be used.
    """
    chosen = named(routing)
    if not isinstance(chosen, str):
        return chosen.on(machine)
    if chosen == "direct" and apart and isinstance(machine, BSPMachine) and machine.calibrated:
        return "sparse" if machine.p >= pays_from(machine.l, machine.o_msg) else "direct"
    return chosen


def router(routing: Routing, transport: Transport) -> Router:
    """The router over a transport; `routing` has been resolved."""
    if isinstance(routing, str):
        return Sparse(transport) if routing == "sparse" else Direct(transport)
    if isinstance(routing, Forwarding):
        if routing.name == "two-phase":
            from .forwarding.two_phase import TwoPhase

            return TwoPhase(transport, routing)
        from .forwarding.hypercube import Hypercube

        return Hypercube(transport, routing)
    if isinstance(routing, MultibutterflyRouting):
        from .multibutterfly.router import MultibutterflyRouter

        return MultibutterflyRouter(transport, routing)
    from .logp.router import LogPRouter

    return LogPRouter(transport, routing)
