"""The multibutterfly (*Deterministic Routing of h-relations on the Multibutterfly*).

    network.py          random splitters; ports that are shared
    wiring.py           what carries values along edges
    protocol.py         section 3, written against a wiring
    lemmas.py           section 4, checked at every stage
    route.py            a relation in one process
    options.py, router.py, ranks.py, at_once.py
                        over the processors of a transport; for all virtual ones at once

For the packet simulator the network is `pybsp.routing.networks.Multibutterfly`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .lemmas import Lemmas
    from .network import Multibutterfly, share
    from .parameters import Parameters
    from .protocol import BlockedError, Outcome, Protocol, h_bar
    from .route import route
    from .wiring import LocalWiring, Wiring

__all__ = [
    "BlockedError",
    "Lemmas",
    "LocalWiring",
    "Multibutterfly",
    "Outcome",
    "Parameters",
    "Protocol",
    "Wiring",
    "h_bar",
    "route",
    "share",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".lemmas": ("Lemmas",),
            ".network": (
                "Multibutterfly",
                "share",
            ),
            ".parameters": ("Parameters",),
            ".protocol": (
                "BlockedError",
                "Outcome",
                "Protocol",
                "h_bar",
            ),
            ".route": ("route",),
            ".wiring": (
                "LocalWiring",
                "Wiring",
            ),
        },
    )
