"""What the simulator moves packets on: nodes, links, and the way of a packet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Graph:
    """A directed graph whose links carry one packet in a step, and a rule by which packets find their ends.

    Attributes:
        name: for people.
        nodes: number of nodes.
        tails, heads: the nodes at which each link begins and ends, shape (links,); two links for an edge.
    """

    name: str
    nodes: int
    tails: Ints
    heads: Ints

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def begin(self, at: Ints, to: Ints, rng: np.random.Generator) -> Ints:
        """What `step` remembers of each packet (a whole number), before its first; shape (m,)."""
        return np.zeros(len(at), np.int64)

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The link by which each packet goes on from node `at`, which is not its end `to`; and what is remembered."""
        raise NotImplementedError

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        """The links that each packet takes from `at` to `to`, at most `diameter`; `state` as `step` at `at` left it."""
        raise NotImplementedError

    @property
    def diameter(self) -> int:
        """The most links that `step` has a packet take."""
        raise NotImplementedError
