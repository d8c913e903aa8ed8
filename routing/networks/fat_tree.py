"""The fat tree, whose leaves are the processors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...errors import UsageError, brief
from .bits import bit_length
from .fit import fit
from .network import Ints, Network


class FatTree(Network):
    """A complete binary tree whose edges are several links each.

    Args:
        p: processors, a power of two.
        capacities: links upwards, and as many downwards, of a node of height 0 (a leaf), 1, ..., log p - 1. None: 1, 2,
            2, 4, 4, 8, ..., the pruned butterfly's; [2^l for l in range(log p)] is the fat tree of full bandwidth.

    Raises:
        RoutingError: another p.
        UsageError: other capacities.

    Node x - 1 is number x of a heap: the root is 1, the children of x are 2x and 2x + 1, and processor i is leaf p + i.
    Routing: up to the least subtree that holds the end, and down; of parallel links one is drawn.

    Source: Leiserson, *Fat-trees: universal networks for hardware-efficient supercomputing*, 1985.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.FatTree(16)
        >>> network.diameter, network.degree
        (8, 8)
        >>> network.route(relations.permutation(network.p)).steps
        9
    """

    ordered = True

    def __init__(self, p: int, capacities: Sequence[int] | None = None) -> None:
        self.n = n = fit("fat tree", p, "a power of two", lambda n: 1 << n)
        self.p = p = int(p)
        self.name = f"fat tree of {p}"
        given = [1 << (height + 1) // 2 for height in range(n)] if capacities is None else capacities
        if (
            not np.iterable(given)
            or len(given) != n
            or not all(isinstance(c, (int, np.integer)) and c >= 1 for c in given)
        ):
            raise UsageError(
                f"fat tree: capacities: expected log p = {n} whole numbers from 1 on, got {brief(capacities)}"
            )
        self.capacities = np.array(given, np.int64)
        self.nodes = 2 * p - 1
        self.places = np.arange(p) + p - 1

        # Of each node but the root, its links up, then those from above.
        child = np.arange(2, 2 * p)
        self._capacity = np.zeros(2 * p, np.int64)  # by number in the heap
        self._capacity[2:] = self.capacities[n + 1 - bit_length(child)]
        self._first = np.cumsum(2 * self._capacity) - 2 * self._capacity
        ends = np.stack((child, child // 2), axis=1) - 1
        each = np.repeat(self._capacity[2:], 2)
        self.tails, self.heads = np.repeat(ends.ravel(), each), np.repeat(ends[:, ::-1].ravel(), each)
        self.gamma = float((2.0 ** np.arange(n) / self.capacities).max(initial=1.0))  # a subtree's leaves for each link
        self.delta = float(n)
        self.diameter = 2 * n  # up to the root and down, which is also the most between two leaves of the graph

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        x, end, below = self._where(at, to)
        down = end >> below == x
        lower = np.where(down, end >> np.maximum(below - 1, 0), x)  # the edge's lower end
        capacity = self._capacity[lower]
        drawn = (rng.random(len(at)) * capacity).astype(np.int64)
        return self._first[lower] + np.where(down, capacity, 0) + drawn, state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        x, end, below = self._where(at, to)
        return below + 2 * bit_length(x ^ end >> below)

    def _where(self, at: Ints, to: Ints) -> tuple[Ints, Ints, Ints]:
        """Node and end as numbers of the heap, and the node's height."""
        return at + 1, to + 1, self.n + 1 - bit_length(at + 1)

    @cached_property
    def bisection(self) -> int:
        """Edges that must be cut to divide the processors into halves: the least over all ways to do so.

        Over heights: what it costs to have a of a subtree's leaves on the other side than its root. O(p^2).
        """
        cost = np.array([0, np.inf])
        for capacity in self.capacities:
            child = np.minimum(cost, cost[::-1] + capacity)
            size = len(child)
            cost = np.full(2 * size - 1, np.inf)
            for a in range(size):
                np.minimum(cost[a : a + size], child[a] + child, out=cost[a : a + size])
        return int(cost[self.p // 2]) if self.p > 1 else 0
