"""How packets choose their links where they see queues: minimal adaptive routing, Valiant's, UGAL."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import UsageError
from .graph import Ints
from .network import Network

Choice = Callable[[Ints, Ints, Ints, np.random.Generator], Ints]

ROUTINGS = ("greedy", "adaptive", "valiant", "ugal")


class Ways:
    """The ways of packets, hop by hop.

    Attributes:
        channels: virtual channels, so that no packets wait for each other in a circle.
        via: the node between to which each packet is on its way, shape (packets,); -1: to its end.

    Source: UGAL: Singh, *Load-balanced routing in interconnection networks*, 2005.
    """

    def __init__(self, network: Network, routing: str | Choice, packets: int) -> None:
        self._network, self._routing = network, routing
        self._two_phases = routing in ("valiant", "ugal")
        self._by_hops = routing == "adaptive" or callable(routing)
        self.channels = max(network.diameter, 1) if self._by_hops else network.channels * (1 + self._two_phases)
        if not network.adaptive and routing in ("adaptive", "ugal"):
            raise UsageError(
                f"flow: routing: {network.name} has no {routing} routing, as how far a packet is depends on its way; "
                "expected greedy, valiant, or a function"
            )
        self._out = _out_links(network)
        self._state = np.zeros(packets, np.int64)
        self._hops = np.zeros(packets, np.int64)  # in its phase
        self.via = np.full(packets, -1, np.int64)

    def choose(
        self, packets: Ints, at: Ints, end: Ints, waiting: Ints, fresh: bool, rng: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """The link by which each packet goes on, and its virtual channel.

        Args:
            packets: their numbers; at, end: where they are and go to, which is not there.
            waiting: packets that wait for each link.
            fresh: whether they begin here.
        """
        network = self._network
        if callable(self._routing):
            link = np.asarray(self._routing(at, end, waiting, rng))
            fits = link.shape == at.shape and np.issubdtype(link.dtype, np.integer)
            fits = fits and bool(((link >= 0) & (link < len(network.tails))).all())
            if not fits or (network.tails[link] != at).any():
                raise UsageError("flow: routing: the function gave links that do not begin where the packets are")
            link = link.astype(np.int64)
        elif self._routing == "adaptive":
            link = self._least(at, end, waiting, rng)
        if self._by_hops:
            if not fresh:
                self._hops[packets] += 1
            return link, self._hops[packets]

        begin = packets
        if fresh and self._two_phases:
            via = self._between(at, end, waiting, rng)
            self.via[packets] = np.where((via == at) | (via == end), -1, via)
        elif not fresh:
            self._hops[packets] += 1
            begin = packets[self.via[packets] == at]
            self.via[begin] = -1
        via = self.via[packets]
        target = np.where(via >= 0, via, end)
        if len(begin):
            turning = np.isin(packets, begin, assume_unique=True)
            self._state[begin] = network.begin(at[turning], target[turning], rng)
            self._hops[begin] = 0
        link, self._state[packets] = network.step(at, target, self._state[packets], rng)
        channel = network.channel(at, target, link, self._hops[packets])
        return link, channel + network.channels * (via < 0) if self._two_phases else channel

    def _least(self, at: Ints, end: Ints, waiting: Ints, rng: np.random.Generator) -> Ints:
        """Of all links that lead nearer that for which the fewest packets wait; of equals one is drawn.

        Raises:
            UsageError: by the network's `distance` none does: the packet would go round for ever.
        """
        network, out = self._network, self._out[at]
        none = np.zeros(out.size, np.int64)
        ends = np.repeat(end, out.shape[1])
        beyond = network.distance(network.heads[out.ravel()], ends, none).reshape(out.shape)
        nearer = (out >= 0) & (beyond < network.distance(at, end, none[: len(at)])[:, None])
        if not nearer.any(axis=1).all():
            stuck = int(nearer.any(axis=1).argmin())
            raise UsageError(
                f"flow: routing: adaptive: expected a link that leads nearer from each node, by `distance` of "
                f"{network.name}, and none does from node {at[stuck]} to {end[stuck]}; with `adaptive` False it is "
                "refused"
            )
        seen = np.where(nearer, waiting[out] + rng.random(out.shape), np.inf)
        return np.asarray(out[np.arange(len(at)), seen.argmin(axis=1)])

    def _between(self, at: Ints, end: Ints, waiting: Ints, rng: np.random.Generator) -> Ints:
        """A node drawn for each packet; by UGAL, the end where the way there promises to be as fast.

        Where a node has one link alone, the queues are those of the node behind it.
        """
        network = self._network
        via = network.middles[rng.integers(len(network.middles), size=len(at))]
        if self._routing == "valiant":
            return via
        none = np.zeros(len(at), np.int64)
        only = self._out[at, 1] < 0 if self._out.shape[1] > 1 else none == 0
        seen = np.where(only, network.heads[self._out[at, 0]], at)

        def queue(target: Ints) -> Ints:
            found = none.copy()
            on = np.flatnonzero(seen != target)
            state = network.begin(seen[on], target[on], rng)
            found[on] = waiting[network.step(seen[on], target[on], state, rng)[0]]
            return found

        far = network.distance(at, via, none) + network.distance(via, end, none)
        return np.where(queue(end) * network.distance(at, end, none) <= queue(via) * far, end, via)


def _out_links(network: Network) -> Ints:
    """The links that leave each node, shape (nodes, degree); -1: no more."""
    order = np.argsort(network.tails, kind="stable")
    tails = network.tails[order]
    found = np.full((network.nodes, network.degree), -1, np.int64)
    found[tails, np.arange(len(tails)) - np.searchsorted(tails, tails)] = order
    return found
