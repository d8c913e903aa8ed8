"""Which router a run has: from what `router=` says, through what is known of the machine, to the router itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from ..errors import RoutingError, brief
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..transport import Transport
from ..transport.router import Direct, Router
from ..transport.sparse import pays_from
from .sparse import SparseRouter

if TYPE_CHECKING:
    from .forwarding.options import Forwarding
    from .logp.options import LogPRouting
    from .multibutterfly.options import MultibutterflyRouting

    Routing = str | LogPRouting | Forwarding | MultibutterflyRouting  # what `router=` of a run may be

_PLAIN = (  # without options
    "direct",
    "sparse",
)


@cache
def _with_options() -> Mapping[str, Routing]:
    """Those whose options are loaded only where such a router is asked for."""
    from .forwarding.options import hypercube_router, two_phase_router
    from .logp.options import ALGORITHMS, LogPRouting
    from .multibutterfly.options import multibutterfly_router

    return {
        "two-phase": two_phase_router(),
        "hypercube": hypercube_router(),
        "multibutterfly": multibutterfly_router(),
        **{f"logp-{name}": LogPRouting(name) for name in ALGORITHMS},
    }


def named(routing: Routing) -> Routing:
    """What was asked for by its name, if it was; a RoutingError where there is none of that name."""
    if isinstance(routing, str) and routing in _PLAIN:
        return routing
    others = _with_options()
    if isinstance(routing, tuple(map(type, others.values()))):
        return routing
    if not isinstance(routing, str) or routing not in others:
        names = ", ".join(sorted([*_PLAIN, *others]))
        raise RoutingError(
            f"router: expected one of {names} or what a function pybsp.routing.*_router gives, got {brief(routing)}"
        )
    return others[routing]


def name_of(routing: Routing) -> str:
    """Its name, for the ledger."""
    return routing if isinstance(routing, str) else routing.name


def resolved(routing: Routing, machine: BSPMachine | EBSPMachine, no_shared_memory: bool = True) -> Routing:
    """What was asked for, with all that a router needs to know of the machine.

    On a machine that was measured `direct` becomes `sparse` from the p on where heads to all would cost more than a
    sparse exchange with few partners; unless some processors meet in shared memory, which `sparse` makes no use of.
    (l is more than a latency, and o_msg more than what a head takes: rather both alike.)

    Args:
        no_shared_memory: whether no two processors do.

    Raises:
        RoutingError: there is none of that name.
        UsageError: the LogP machine in force cannot be used.
    """
    chosen = named(routing)
    if not isinstance(chosen, str):
        return chosen.on(machine)
    if chosen == "direct" and no_shared_memory and isinstance(machine, BSPMachine) and machine.calibrated:
        return "sparse" if machine.p >= pays_from(machine.l, machine.o_msg) else "direct"
    return chosen


def router(routing: Routing, transport: Transport) -> Router:
    """The router over a transport; `routing` has been resolved."""
    if isinstance(routing, str):
        return SparseRouter(transport) if routing == "sparse" else Direct(transport)
    from .forwarding.options import Forwarding
    from .multibutterfly.options import MultibutterflyRouting

    if isinstance(routing, Forwarding):
        if routing.name == "two-phase":
            from .forwarding.two_phase import TwoPhaseRouter

            return TwoPhaseRouter(transport, routing)
        from .forwarding.hypercube import HypercubeRouter

        return HypercubeRouter(transport, routing)
    if isinstance(routing, MultibutterflyRouting):
        from .multibutterfly.router import MultibutterflyRouter

        return MultibutterflyRouter(transport, routing)
    from .logp.router import LogPRouter

    return LogPRouter(transport, routing)
