"""The multibutterfly (*Deterministic Routing of h-relations on the Multibutterfly*).

    network.py          random splitters; ports that are shared
    wiring.py           what carries values along edges
    protocol.py         section 3, written against a wiring
    lemmas.py           section 4, checked at every stage
    route.py            a relation in one process
    options.py, router.py, ranks.py
                        over the processors of a transport

For the packet simulator the network is `pybsp.routing.networks.Multibutterfly`.
"""

from __future__ import annotations

from .lemmas import Lemmas as Lemmas
from .network import Multibutterfly as Multibutterfly
from .network import share as share
from .protocol import BlockedError as BlockedError
from .protocol import Outcome as Outcome
from .protocol import Parameters as Parameters
from .protocol import Protocol as Protocol
from .protocol import h_bar as h_bar
from .route import route as route
from .wiring import LocalWiring as LocalWiring
from .wiring import Wiring as Wiring
