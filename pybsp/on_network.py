"""The supersteps of a program on a network: what each takes, in steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .errors import RoutingError, UsageError
from .machine import BSPMachine
from .routing.choice import Routing

if TYPE_CHECKING:
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
        machine: gamma and delta of the network as g and l, in steps, and r = 1: by this a ledger predicts. Another
            machine, given to `simulate`, predicts in its own units, which should be steps; its r is the rate of work.

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
        >>> Steps(networks.Hypercube(8)).machine.g
        1.0
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self.machine = BSPMachine(p=network.p, g=network.gamma, l=network.delta, r=1.0)

    def __call__(self, computing: float, words: Mapping[tuple[int, int], int]) -> float:
        """The steps of a superstep.

        Args:
            computing: steps of it, of the processor that has most.
            words: from and to processors.
        """
        from .routing.relation import Relation  # what few programs need

        if not words:
            return computing + self._network.diameter
        pairs, counts = np.array(list(words)), np.array(list(words.values()))
        # In the order of their sources, so that it does not matter who entered first.
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        sources, destinations = np.repeat(pairs[order], counts[order], axis=0).T
        steps = self._network.route(Relation(sources, destinations, self._network.p)).steps
        return computing + max(steps, self._network.diameter)


def steps_of(network: Network | str, p: int, router: Routing, measure: bool) -> Steps:
    """The steps of supersteps on this network, for `simulate`.

    Raises:
        UsageError: no network; a router, or a way to measure, that does not go with one.
        RoutingError: it has another number of processors, or there is none of that name.
    """
    from .routing.networks.by_name import network as by_name  # what few programs need
    from .routing.networks.network import Network

    made = by_name(network, p) if isinstance(network, str) else network
    if not isinstance(made, Network):
        raise UsageError(
            f"pybsp.simulate: argument network: expected a network or the name of one, got {network!r:.80}"
        )
    if made.p != p:
        raise RoutingError(f"pybsp.simulate: argument network: expected one of p = {p} processors, got {made!r}")
    if router != "direct":
        raise UsageError(
            f'pybsp.simulate: argument router: expected "direct" where a network routes, got {router!r:.80}'
        )
    if measure:
        raise UsageError(
            "pybsp.simulate: argument measure: expected False where a network routes: seconds are no steps"
        )
    return Steps(made)
