"""The network of *Experiences with a model for parallel computation*: a hypercube that an application is joined to."""

from __future__ import annotations

import numpy as np

from .hypercube import Hypercube
from .network import Ints, Network


class ApplicationCube(Network):
    """A hypercube of communication nodes, and an application node on each, joined to it by one link each way.

    Processors are the application nodes. Packets enter the cube and leave it one a step each, and make two links more
    than in the bare cube. What a processor sends itself goes to its cube node and back, as in the paper's test program,
    which knows only the channels *to.router* and *from.router*. So an application node is two nodes here, its processes
    *send* and *receive*:

        0 to p - 1          the cube's nodes; links 0 to p*n - 1 are the cube's
        p to 2p - 1         where packets begin; link p*n + v goes from node p + v to v
        2p to 3p - 1        where they end; link p*n + p + v goes from node v to 2p + v

    Of two phases the first ends at nodes of the cube, drawn at random, and the second begins there.

    Args:
        p: application nodes, a power of two.
        order: of a packet's dimensions in the cube, "random" or "fixed"; see `Hypercube`.

    Raises:
        RoutingError: p is no power of two.
        UsageError: another order.

    Source: sections 2.1 and 2.2, figures 1 and 2.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.ApplicationCube(16)
        >>> network.diameter, network.degree
        (6, 5)
        >>> network.route(relations.permutation(network.p)).steps
        6
    """

    def __init__(self, p: int, order: str = "random") -> None:
        self.cube = cube = Hypercube(p, order)
        self.p = p = cube.p
        self.n = cube.n
        self.nodes = 3 * p
        self.name = f"hypercube of {p} with application nodes"
        self._inner = inner = np.arange(p)
        self.places = p + inner
        self._ends = 2 * p + inner
        self.tails = np.concatenate((cube.tails, self.places, inner))
        self.heads = np.concatenate((cube.heads, inner, self._ends))
        self.gamma, self.delta = 1.0, float(self.n + 2)
        self.diameter = self.n + 2

    @property
    def ends(self) -> Ints:
        return self._ends

    @property
    def middles(self) -> Ints:
        return self._inner

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        p, outer = self.p, self.p * self.n
        here, there = at % p, to % p
        links = np.where(at >= p, outer + here, outer + p + here)  # into the cube, and out of it
        within = np.flatnonzero((at < p) & (here != there))
        links[within], _ = self.cube.step(here[within], there[within], state[within], rng)
        return links, state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        p = self.p
        outside = (at != to) * ((at >= p).astype(np.int64) + (to >= p))
        return np.asarray(self.cube.distance(at % p, to % p, state) + outside, np.int64)

    @property
    def bisection(self) -> int:
        return self.cube.bisection
