"""Networks whose nodes have numbered ports."""

from __future__ import annotations

import numpy as np

from .network import Ints, Network


class Ported(Network):
    """A network given by the neighbour at each port of each node; `step` names ports."""

    def wire(self, neighbours: Ints) -> None:
        """Set nodes and links.

        Args:
            neighbours: the node at each port of each node, shape (nodes, ports); -1 or the node itself: none.
        """
        self.nodes, self._ports = neighbours.shape
        there = (neighbours >= 0) & (neighbours != np.arange(self.nodes)[:, None])
        self.tails = np.nonzero(there)[0]
        self.heads = neighbours[there]
        self._links = np.full(neighbours.size, -1)
        self._links[there.ravel()] = np.arange(len(self.heads))

    def link(self, at: Ints, port: Ints) -> Ints:
        """The link at each of these ports."""
        return np.asarray(self._links[at * self._ports + port])
