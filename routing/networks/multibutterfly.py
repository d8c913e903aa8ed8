"""The multibutterfly, its rows the processors, for packets that draw their edges at random."""

from __future__ import annotations

import numpy as np

from ..multibutterfly.network import Multibutterfly as Splitters
from .fit import fit
from .network import Ints, Network


class Multibutterfly(Network):
    """The (p, d)-multibutterfly, wrapped: the nodes in column log p are those in column 0.

    Node c*p + r is in row r of column c; processor r is at node r, where its packets enter and leave. Links go one way,
    from column to column: link (2*node + side)*d + k is edge k to that side.

    Args:
        p: processors, a power of two.
        d: edges of a node to either side; a packet draws one of them.
        seed: of the random splitters.

    Raises:
        RoutingError: p is no power of two.

    Source: section 2 of *Deterministic Routing of h-relations on the Multibutterfly*; the protocol of section 3, which
    does not draw but asks, is `pybsp.routing.multibutterfly`.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Multibutterfly(16)
        >>> network.diameter, network.degree
        (4, 8)
        >>> network.route(relations.permutation(network.p)).steps
        5
    """

    adaptive = False

    def __init__(self, p: int, d: int = 4, seed: int = 0) -> None:
        self.n = fit("multibutterfly", p, "a power of two", lambda n: 1 << n)
        self.p, self.d = int(p), d
        self.name = f"multibutterfly of {p}, d = {d}"
        self.places = np.arange(p)
        self.nodes = p * max(self.n, 1)
        heads = Splitters(self.p, d, seed).heads.astype(np.int64)
        self.tails = np.repeat(np.arange(p * self.n), 2 * d)
        self.heads = (heads + (np.arange(1, self.n + 1) % max(self.n, 1) * p)[:, None, None]).ravel()
        self.gamma, self.delta = 1.0, float(self.n)
        self.diameter = self.n

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        side = to >> self.n - 1 - at // self.p & 1
        return (2 * at + side) * self.d + rng.integers(self.d, size=len(at)), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        return np.where(at == to, 0, self.n - at // self.p)

    @property
    def bisection(self) -> int:
        """p*d: the edges in column 0 that change the first bit of the row. Random wiring may have a smaller cut."""
        return self.p * self.d if self.n else 0
