"""The hypercube of 2^n nodes, each a processor (*Experiences with a model for parallel computation*, section 2)."""

from __future__ import annotations

import numpy as np

from ...errors import UsageError
from .fit import fit
from .graph import Rule
from .network import Ints, Network

ORDERS = ("fixed", "random")


class Hypercube(Network):
    """Nodes whose numbers differ in one bit are joined; link v*n + i goes from v to v with bit i changed.

    Args:
        p: processors, a power of two.
        order: of a packet's dimensions: "fixed" (lowest first: greedy routing), or "random": the next is drawn among
            those in which the destination differs (Valiant and Brebner, as in section 2.2).

    Raises:
        RoutingError: p is no power of two.
        UsageError: another order.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Hypercube(16)
        >>> network.diameter, network.degree
        (4, 4)
        >>> network.route(relations.permutation(network.p)).steps
        4
    """

    def __init__(self, p: int, order: str = "fixed") -> None:
        self.n = n = fit("hypercube", p, "a power of two", lambda n: 1 << n)
        if not isinstance(order, str) or order not in ORDERS:
            raise UsageError(f"hypercube: order: expected one of {', '.join(ORDERS)}, got {order!r}")
        self.p = self.nodes = p = int(p)
        self.order = order
        self.ordered = order == "fixed"
        self.name = f"hypercube of {p}"
        self.places = np.arange(p)
        self.tails = np.repeat(self.places, n)
        self.heads = (self.places[:, None] ^ (1 << np.arange(n))).ravel()
        self.gamma, self.delta = 1.0, float(n)
        self.diameter = n

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        differ = at ^ to
        if self.order == "random":
            # Of the bits that differ all but one drawn are cleared, from the lowest on.
            drawn = (rng.random(len(at)) * np.bitwise_count(differ)).astype(np.int64)
            for _ in range(int(drawn.max(initial=0))):
                differ = np.where(drawn > 0, differ & (differ - 1), differ)
                drawn -= 1
        return at * self.n + np.bitwise_count((differ & -differ) - 1), state

    def rule(self) -> Rule | None:
        if type(self).step is not Hypercube.step or self.order != "fixed":
            return None
        none = self.places[:0]
        return Rule(0, self.n, False, none, none, none)

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        return np.asarray(np.bitwise_count(at ^ to), np.int64)

    @property
    def bisection(self) -> int:
        return self.p // 2
