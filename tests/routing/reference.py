"""A store-and-forward network straight from the simulator's words: every queue a list, one packet at a time. Slow, and
independent of the simulator. And networks to try both on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp.routing.networks.network import Network

Ints = NDArray[np.int64]


class Outcome(NamedTuple):
    """As `Traffic`, in lists."""

    steps: int
    delivered: list[int]
    queue_length: list[int]
    link_load: list[int]
    node_traffic: list[int]


class Waiting(NamedTuple):
    """A packet in a queue, and how far it had to go when it came."""

    packet: int
    left: int


def simulate(
    network: Network, begin: Sequence[int], end: Sequence[int], queue: str, ports: str, rng: np.random.Generator
) -> Outcome:
    """What `pybsp.routing.networks.simulator.simulate` is to give."""
    tails, heads = network.tails.tolist(), network.heads.tolist()
    links = range(len(tails))
    at = list(begin)
    state = network.begin(np.array(begin, np.int64), np.array(end, np.int64), rng).tolist()
    way: dict[int, int] = {}
    queues: dict[int, list[Waiting]] = {}
    delivered = [0] * len(at)
    load, traffic = [0] * len(tails), [0] * network.nodes
    longest = [0] * (len(tails) if ports == "multi" else network.nodes)
    t = 0

    def enter(packets: list[int]) -> None:
        """They choose their links (all at a time, as they draw from one generator), and wait for them in order."""
        if not packets:
            return
        here, there, before = (np.array([of[i] for i in packets], np.int64) for of in (at, end, state))
        chosen, after = network.step(here, there, before, rng)
        left = network.distance(here, there, after)
        for i, link, remembered, far in zip(packets, chosen.tolist(), after.tolist(), left.tolist(), strict=True):
            assert tails[link] == at[i]
            way[i], state[i] = link, remembered
            queues.setdefault(link if ports == "multi" else at[i], []).append(Waiting(i, far))
        for place, waiting in queues.items():
            longest[place] = max(longest[place], len(waiting))

    for node in begin:
        traffic[node] += 1
    enter([i for i in range(len(at)) if at[i] != end[i]])
    while any(queues.values()):
        t += 1
        # Of each queue one packet is offered.
        offers: dict[int, Waiting] = {}  # by link
        for waiting in queues.values():
            if waiting:
                furthest = max(each.left for each in waiting)
                first = waiting[0] if queue == "fifo" else next(each for each in waiting if each.left == furthest)
                offers[way[first.packet]] = first
        # Of those that are offered to a node, it takes one.
        if ports == "single":
            for node in range(network.nodes):
                to_node = [link for link in offers if heads[link] == node]
                for link in sorted(to_node, key=lambda link: (link + t) % len(tails))[1:]:
                    del offers[link]
        # They are over.
        further = []
        for link in links:
            if link in offers:
                taken = offers[link]
                i = taken.packet
                queues[link if ports == "multi" else at[i]].remove(taken)
                at[i] = heads[link]
                load[link] += 1
                traffic[at[i]] += 1
                if at[i] == end[i]:
                    delivered[i] = t
                else:
                    further.append(i)
        enter(further)
    return Outcome(t, delivered, longest, load, traffic)


class Graph(Network):
    """Any strongly connected graph. A packet takes a shortest way, of those that there are the one that its state says.

    Args:
        nodes: their number.
        links: (tail, head) of each; there may be several between two nodes.
        places: of the processors; None: all nodes.
        draws: whether a packet draws its link among those that lead on.
    """

    def __init__(
        self, nodes: int, links: Sequence[tuple[int, int]], places: Sequence[int] | None = None, draws: bool = False
    ) -> None:
        self.name, self.nodes, self.draws = "graph", nodes, draws
        self.tails, self.heads = np.array(links, np.int64).reshape(-1, 2).T
        self.places = np.arange(nodes) if places is None else np.array(places)
        self.p = len(self.places)
        far = np.full((nodes, nodes), nodes)
        far[self.tails, self.heads] = 1
        np.fill_diagonal(far, 0)
        for middle in range(nodes):
            far = np.minimum(far, far[:, [middle]] + far[[middle]])
        assert far.max(initial=0) < nodes
        self.far = far
        self.diameter = int(far.max(initial=0))
        self.leading = {
            (node, end): [k for k, (a, b) in enumerate(links) if a == node and far[b, end] == far[node, end] - 1]
            for node in range(nodes)
            for end in range(nodes)
        }

    def begin(self, at: Ints, to: Ints, rng: np.random.Generator) -> Ints:
        return at + 2 * to

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        if self.draws:
            state = state + rng.integers(100, size=len(at))
        ways = [self.leading[node, end] for node, end in zip(at.tolist(), to.tolist(), strict=True)]
        chosen = [way[remembered % len(way)] for way, remembered in zip(ways, state.tolist(), strict=True)]
        return np.array(chosen, np.int64), state + 1

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        distances: Ints = self.far[at, to]
        return distances


def random_graph(nodes: int, more: int, seed: int, draws: bool = False) -> Graph:
    """A cycle through all nodes, and more links between any two; processors on about half of the nodes."""
    rng = np.random.default_rng(seed)
    cycle = rng.permutation(nodes).tolist()
    links = list(zip(cycle, cycle[1:] + cycle[:1], strict=True)) if nodes > 1 else []
    if nodes > 1:
        tails = rng.integers(nodes, size=more)
        heads = (tails + rng.integers(1, nodes, size=more)) % nodes
        links += zip(tails.tolist(), heads.tolist(), strict=True)
    order = rng.permutation(len(links)).tolist()
    return Graph(nodes, [links[k] for k in order], rng.permutation(nodes)[: (nodes + 1) // 2].tolist(), draws)
