"""The pruned butterfly, whose leaves are the processors (*BSP vs LogP*, section 5, Table 1)."""

from __future__ import annotations

import numpy as np

from .bits import bit_length
from .fit import fit
from .network import Ints
from .ports import Ported


class PrunedButterfly(Ported):
    """A binary tree over p leaves, whose every node of height l is 2^floor(l/2) switches: of a butterfly's links
    upwards, switches of even height keep one of two. So a subtree of 4^i leaves has 2^i links upwards, and the root
    sqrt(p) switches.

    Args:
        p: processors, a power of four.

    Raises:
        RoutingError: another p.

    Nodes are numbered by height, then by tree node, then by switch. Ports: 0 up, from switch j of an even height to
    switch j; 0 and 1 up, from one of an odd height to 2j and 2j + 1; 2 and 3 down, left and right.

    Routing: up to the least subtree that holds the end, at an odd height by either link, drawn; then down, where there
    is but one way. As ways up are drawn, every h-relation spreads over a subtree's links: no second phase is needed.

    Source: Bay and Bilardi, *Deterministic on-line routing on area-universal networks*, 1995, which draws nothing.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.PrunedButterfly(16)
        >>> network.diameter, network.degree
        (8, 4)
        >>> network.route(relations.permutation(network.p)).steps
        9
    """

    ordered = True

    def __init__(self, p: int) -> None:
        n = 2 * fit("pruned butterfly", p, "a power of four", lambda n: 1 << 2 * n)
        self.p = p = int(p)
        self.n = n  # height of the root
        self.name = f"pruned butterfly of {p}"
        self.places = np.arange(p)
        switches = [1 << height // 2 for height in range(n + 1)]  # of a tree node
        sizes = [count << n - height for height, count in enumerate(switches)]
        first = np.cumsum([0, *sizes])
        self._height = np.repeat(np.arange(n + 1), sizes)
        number = np.arange(first[-1]) - first[self._height]
        self._tree, switch = number >> self._height // 2, number & (1 << self._height // 2) - 1

        heads = np.full((first[-1], 4), -1)
        for height in range(n):
            here = np.arange(first[height], first[height + 1])
            up = first[height + 1] + (self._tree[here] >> 1) * switches[height + 1]
            ups = height % 2 + 1
            for port in range(ups):
                above = up + switch[here] * ups + port
                heads[here, port] = above
                # The same edges downwards: of each switch above, one to its left tree node and one to its right.
                heads[above, 2 + (self._tree[here] & 1)] = here
        self.wire(heads)
        self.gamma, self.delta = float(np.sqrt(p)), float(n)
        self.diameter = 2 * n  # up to the root and down, which is also the most between two leaves of the graph

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        height = self._height[at]
        above = to >> height == self._tree[at]
        down = 2 + (to >> np.maximum(height - 1, 0) & 1)
        up = rng.integers(2, size=len(at)) & height
        return self.link(at, np.where(above, down, up)), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        height = self._height[at]
        return height + 2 * bit_length(self._tree[at] ^ to >> height)

    @property
    def bisection(self) -> int:
        """sqrt(p): cut between the root's switches and half of the tree."""
        return 1 << self.n // 2 if self.p > 1 else 0
