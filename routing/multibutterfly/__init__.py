"""The multibutterfly (*Deterministic Routing of h-relations on the Multibutterfly*).

    network.py          random splitters; ports that are shared
    expansion.py        Fact 1, Lemma 1; the expansion of splitters, measured
    wiring.py           what carries values along edges
    protocol.py         section 3, written against a wiring
    lemmas.py           section 4, checked at every stage
    route.py            a relation in one process
    adversary.py        relations that are hard
    bits.py             the bit and word models, the worm mode
    small_buffers.py    the variant with N^epsilon groups
    options.py, router.py, ranks.py
                        over the processors of a transport

For the packet simulator the network is `pybsp.routing.networks.Multibutterfly`.
"""

from __future__ import annotations

from .expansion import Measured as Measured
from .expansion import least_d as least_d
from .expansion import least_delta as least_delta
from .expansion import measure as measure
from .expansion import repetitions as repetitions
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
