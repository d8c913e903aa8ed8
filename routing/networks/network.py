"""What a network is: processors on some nodes of a graph, its figures, and how it routes a relation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import RoutingError, brief, usage_error
from ...ground.convert import whole
from ..relation import Relation
from ..seeds import Seed, generator
from .graph import Graph
from .graph import Ints as Ints
from .simulator import Traffic, simulate


class Network(Graph):
    """A graph with processors on some of its nodes.

    Subclasses set the attributes, and say where a packet goes (`step`), how far it is (`distance`), and the figures.

    Attributes:
        p: processors.
        places: the node of each processor, shape (p,).
        ordered: whether packets cannot wait for each other in a circle where links have one virtual channel.
        adaptive: whether all links that lead nearer, by `distance` without what `step` remembers, are on ways to the
            end, so that packets may choose among them.
        gamma: gamma(p) of *BSP vs LogP*, Table 1, with constant 1: steps for each of the h packets of an h-relation.
        delta: delta(p) there, with constant 1: steps beside those.
        name, nodes, tails, heads, diameter: a `Graph`'s.

    Examples:
        >>> from pybsp.routing.networks import network
        >>> cube = network("hypercube", 16)
        >>> cube.p, cube.nodes, len(cube.tails), cube.degree, cube.diameter, cube.bisection, cube.gamma, cube.delta
        (16, 16, 64, 4, 4, 8, 1.0, 4.0)
        >>> torus = network("2d-torus", 16)
        >>> around = torus.link(np.array([3]), np.array([3]))  # from the end of a row to its beginning
        >>> torus.channels, torus.channel(np.array([3]), np.array([1]), around, np.array([0])).tolist()
        (2, [0])
    """

    p: int
    places: Ints
    ordered: bool = False
    adaptive: bool = True
    gamma: float
    delta: float

    # -- where packets end

    @property
    def ends(self) -> Ints:
        """The node at which packets for each processor end, shape (p,): its place, if the network says no other."""
        return self.places

    @property
    def middles(self) -> Ints:
        """The nodes of which two phases draw those between: the places, if the network says no other."""
        return self.places

    # -- virtual channels, where buffers are finite

    @property
    def channels(self) -> int:
        """Virtual channels of a link with which no packets wait for each other in a circle; `channel` says which."""
        return 1 if self.ordered else max(self.diameter, 1)

    def channel(self, at: Ints, to: Ints, link: Ints, hops: Ints) -> Ints:
        """The virtual channel of `link` by which each packet goes on from `at` to `to`, after so many hops.

        If a network says no other, that is their number: whom a packet waits for has come further, on any network.
        """
        return np.zeros_like(hops) if self.ordered else hops

    # -- figures

    @property
    def bisection(self) -> int:
        """Edges (pairs of links) that must be cut to divide the processors into halves."""
        raise NotImplementedError

    @property
    def degree(self) -> int:
        """Links that leave a node, at most."""
        return int(np.bincount(self.tails, minlength=self.nodes).max(initial=0))

    # -- routing

    def route(
        self,
        relation: Relation,
        queue: str = "fifo",
        ports: str = "multi",
        two_phase: bool = False,
        seed: Seed = 0,
        limit: int | None = None,
    ) -> Traffic:
        """Route the packets of a relation.

        Args:
            relation: of p processors.
            queue: "fifo" or "furthest-first": which packet of a queue goes first. The latter takes 8 bytes for
                each queue and distance: 0.3 GB for a linear array of 4096.
            ports: "multi" (a node uses all its links in a step) or "single" (it sends one packet and receives one).
            two_phase: each packet first goes to a node drawn of `middles` (Valiant); when all are there, to its end.
            seed: of what is drawn.
            limit: steps after which it gives up with a RuntimeError; None: never.

        Raises:
            RoutingError: a relation of another number of processors.
            UsageError: no relation, another queue, or ports; a limit or two_phase that is none.

        Source: store-and-forward routing as in *Experiences with a model for parallel computation*, section 2.1.

        Examples:
            >>> from pybsp.routing import relations
            >>> from pybsp.routing.networks import network
            >>> traffic = network("hypercube", 64).route(relations.bit_reversal(64, h=10), two_phase=True, seed=1)
            >>> traffic.max_link_load, int(traffic.delivered.max()) == traffic.steps
            (19, True)
        """
        if not isinstance(relation, Relation):
            raise usage_error(f"{self.name}: route: relation", "a Relation", brief(relation, 80))
        if relation.p != self.p:
            raise RoutingError(
                f"{self.name}: route: expected a relation of p = {self.p} processors, got one of p = {relation.p}"
            )
        check_two_phase(f"{self.name}: route", two_phase)
        steps = None if limit is None else whole(limit)
        if limit is not None and (steps is None or steps < 0):
            raise usage_error(f"{self.name}: route: limit", "a whole number from 0 on, or None", brief(limit, 80))
        rng = generator(f"{self.name}: route", seed)
        begin, end = self.places[relation.sources], self.ends[relation.destinations]
        how: dict[str, Any] = {"queue": queue, "ports": ports, "rng": rng, "limit": steps}
        if not two_phase:
            return simulate(self, begin, end, **how)
        via = self.middles[rng.integers(len(self.middles), size=len(begin))]
        return simulate(self, begin, via, **how) + simulate(self, via, end, **how)


def check_network(operation: str, network: Any) -> Network:
    """The argument network; a UsageError where it is none."""
    if not isinstance(network, Network):
        raise usage_error(f"{operation}: network", "a Network", brief(network, 80))
    return network


def check_two_phase(operation: str, two_phase: object) -> None:
    """The argument two_phase; a UsageError where it is neither True nor False."""
    if not isinstance(two_phase, (bool, np.bool_)):
        raise usage_error(f"{operation}: two_phase", "True or False", brief(two_phase, 80))
