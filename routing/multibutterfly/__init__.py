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
    from .lemmas import Lemmas as Lemmas
    from .network import Multibutterfly as Multibutterfly
    from .network import share as share
    from .parameters import Parameters as Parameters
    from .protocol import BlockedError as BlockedError
    from .protocol import Outcome as Outcome
    from .protocol import Protocol as Protocol
    from .protocol import h_bar as h_bar
    from .route import route as route
    from .wiring import LocalWiring as LocalWiring
    from .wiring import Wiring as Wiring

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".lemmas": ("Lemmas",),
            ".network": ("Multibutterfly", "share"),
            ".parameters": ("Parameters",),
            ".protocol": ("BlockedError", "Outcome", "Protocol", "h_bar"),
            ".route": ("route",),
            ".wiring": ("LocalWiring", "Wiring"),
        },
    )
