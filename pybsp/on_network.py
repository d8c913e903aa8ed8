"""The supersteps of a program on a network: what each takes, in steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .errors import RoutingError, UsageError, argument_error, brief
from .machines.bsp import BSPMachine

if TYPE_CHECKING:
    from .routing.choice import Routing
    from .routing.networks.graph import Ints
    from .routing.networks.injections import Injections
    from .routing.networks.network import Network


class Steps:
    """What supersteps take on a network, in steps.

    The computing of the processor that has most of it, one flop a step; then all words of the superstep as packets that
    are there at once (a message without words is a packet too), greedily and first in, first out: as many steps as
    `Network.route` says, and as the diameter at least, which the barrier takes. Parts that work at the same time do not
    get in each other's way.

    Args:
        network: which.

    Attributes:
        network: as given.
        machine: gamma and delta of the network as g and l, in steps, and r = 1: by this a ledger predicts. Another
            machine, given to `simulate`, predicts in its own units, which should be steps; its r is the rate of work.

    Given to `simulate` as its network, it keeps what was carried: `injections`.

    Source: *BSP vs LogP*, section 5.

    Examples:
        >>> from pybsp import collectives
        >>> from pybsp.routing import networks
        >>> def main(bsp):
        ...     bsp.work(100)
        ...     return collectives.total_exchange(bsp, [0.0] * bsp.p)
        >>> simulation = pybsp.simulate(main, network=networks.Torus((4, 4, 4)))
        >>> simulation.time, simulation.ledger[0].measured, simulation.ledger[0].predicted
        (150.0, 150.0, 356.0)
        >>> from pybsp.on_network import Steps
        >>> steps = Steps(networks.Hypercube(8))
        >>> steps.machine.g, pybsp.simulate(main, network=steps).time, steps.injections().packets
        (1.0, 106.0, 56)
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._carried: list[tuple[int, Ints, Ints]] = []  # when words are ready, from and to whom, and how many
        self.machine = BSPMachine(p=network.p, g=network.gamma, l=network.delta, r=1.0)

    def __repr__(self) -> str:
        return f"<steps on {self.network!r}: {len(self._carried)} supersteps with words>"

    def injections(self) -> Injections:
        """The trace of the program that was simulated last: all its words as packets, ready when the computing before
        them was done; to carry by `pybsp.routing.networks.flow`.

        Raises:
            UsageError: nothing was carried.

        Examples:
            >>> from pybsp.on_network import Steps
            >>> from pybsp.routing import networks
            >>> def main(bsp):
            ...     for work in 3, 10:
            ...         bsp.work(work)
            ...         bsp.send((bsp.pid + 1) % bsp.p, np.zeros(5))
            ...         bsp.sync()
            >>> steps = Steps(networks.Torus((4, 4)))
            >>> pybsp.simulate(main, network=steps).time
            25.0
            >>> trace = steps.injections()
            >>> np.unique(trace.times).tolist(), networks.flow(steps.network, trace).steps
            ([3, 19], 25)
        """
        from .routing.networks.injections import Injections
        from .routing.relation import Relation

        p = self.network.p
        words = (np.repeat(pairs, counts, axis=0).T for _, pairs, counts in self._carried)
        relations = [Relation(sources, destinations, p) for sources, destinations in words]
        return Injections.supersteps(relations, [ready for ready, _, _ in self._carried])

    def forget(self) -> None:
        """What was carried: a program begins."""
        self._carried = []

    def __call__(self, begin: float, computing: float, words: Mapping[tuple[int, int], int]) -> float:
        """The steps of a superstep.

        Args:
            begin: when it begins.
            computing: steps of it, of the processor that has most.
            words: from and to processors.
        """
        from .routing.relation import Relation  # what few programs need

        if not words:
            return computing + self.network.diameter
        pairs, counts = np.array(list(words)), np.array(list(words.values()))
        # In the order of their sources, so that it does not matter who entered first.
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        pairs, counts = pairs[order], counts[order]
        self._carried.append((math.ceil(begin + computing), pairs, counts))
        sources, destinations = np.repeat(pairs, counts, axis=0).T
        steps = self.network.route(Relation(sources, destinations, self.network.p)).steps
        return computing + max(steps, self.network.diameter)


def steps_of(network: Network | Steps | str, p: int, router: Routing, measure: bool) -> Steps:
    """The steps of supersteps on this network, for `simulate`.

    Raises:
        UsageError: no network; a router, or a way to measure, that does not go with one.
        RoutingError: it has another number of processors, or there is none of that name.
    """
    from .routing.networks.by_name import network as by_name  # what few programs need
    from .routing.networks.network import Network

    steps = network if isinstance(network, Steps) else None
    chosen = by_name(network, p) if isinstance(network, str) else steps.network if steps else network
    if not isinstance(chosen, Network):
        raise argument_error("pybsp.simulate", "network", "a network or the name of one", brief(network, 80))
    if chosen.p != p:
        raise RoutingError(f"pybsp.simulate: argument network: expected one of p = {p} processors, got {chosen!r}")
    if router != "direct":
        raise argument_error("pybsp.simulate", "router", '"direct" where a network routes', brief(router, 80))
    if measure:
        raise UsageError(
            "pybsp.simulate: argument measure: expected False where a network routes: seconds are no steps"
        )
    steps = steps or Steps(chosen)
    steps.forget()
    return steps
