"""Routers: how a set of messages gets from sources to destinations.

A router realises what one exchange of a transport asks for: parcels from every processor to some others. Each
delivers exactly what `direct` delivers (pybsp/transport/router.py), so any program runs on any of them.

    choice.py          which router a run has
    sparse.py          as `direct`, where partners are few and processors many
    forwarding/        by way of random processors, in two exchanges or along a hypercube
    multibutterfly/    over a multibutterfly whose rows the processors share
    logp/              by LogP messages alone

What they route, and what networks (`pybsp.routing.networks`) route packet by packet, is a `Relation` (relation.py);
`pybsp.routing.relations` makes some to try them with. `logp_on_bsp/` is no router: BSP programs that run LogP programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..transport.router import Direct, Router
    from . import networks, relations
    from .choice import Routing, name_of, named, resolved, router
    from .decomposition import decompose
    from .forwarding.options import Forwarding, hypercube_router, two_phase_router
    from .logp.on_network import NetworkSchedule
    from .logp.options import LogPRouting, logp_router
    from .logp_on_bsp import logp_on_bsp
    from .multibutterfly.options import MultibutterflyRouting, multibutterfly_router
    from .relation import Relation
    from .sparse import SparseRouter

__all__ = [
    "Direct",
    "Forwarding",
    "LogPRouting",
    "MultibutterflyRouting",
    "NetworkSchedule",
    "Relation",
    "Router",
    "Routing",
    "SparseRouter",
    "decompose",
    "hypercube_router",
    "logp_on_bsp",
    "logp_router",
    "multibutterfly_router",
    "name_of",
    "named",
    "networks",
    "relations",
    "resolved",
    "router",
    "two_phase_router",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".networks": (),
            ".relations": (),
            "..transport.router": (
                "Direct",
                "Router",
            ),
            ".choice": (
                "Routing",
                "name_of",
                "named",
                "resolved",
                "router",
            ),
            ".decomposition": ("decompose",),
            ".forwarding.options": (
                "Forwarding",
                "hypercube_router",
                "two_phase_router",
            ),
            ".logp.on_network": ("NetworkSchedule",),
            ".logp.options": (
                "LogPRouting",
                "logp_router",
            ),
            ".logp_on_bsp": ("logp_on_bsp",),
            ".multibutterfly.options": (
                "MultibutterflyRouting",
                "multibutterfly_router",
            ),
            ".relation": ("Relation",),
            ".sparse": ("SparseRouter",),
        },
    )
