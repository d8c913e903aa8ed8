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
    from . import networks as networks
    from . import relations as relations
    from .decomposition import decompose as decompose
    from .forwarding.options import Forwarding as Forwarding
    from .forwarding.options import hypercube_router as hypercube_router
    from .forwarding.options import two_phase_router as two_phase_router
    from .logp.on_network import NetworkSchedule as NetworkSchedule
    from .logp.options import LogPRouting as LogPRouting
    from .logp.options import logp_router as logp_router
    from .logp_on_bsp import logp_on_bsp as logp_on_bsp
    from .multibutterfly.options import MultibutterflyRouting as MultibutterflyRouting
    from .multibutterfly.options import multibutterfly_router as multibutterfly_router
    from .relation import Relation as Relation

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".networks": (),
            ".relations": (),
            ".decomposition": ("decompose",),
            ".forwarding.options": ("Forwarding", "hypercube_router", "two_phase_router"),
            ".logp.on_network": ("NetworkSchedule",),
            ".logp.options": ("LogPRouting", "logp_router"),
            ".logp_on_bsp": ("logp_on_bsp",),
            ".multibutterfly.options": ("MultibutterflyRouting", "multibutterfly_router"),
            ".relation": ("Relation",),
        },
    )
