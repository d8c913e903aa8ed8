"""What the simulator moves packets on: nodes, links, and the way of a packet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Rule(NamedTuple):
    """A way that the compiled kernel knows.

    kind: 0, the lowest bit in which numbers of nodes differ, link at * d + bit; 1, in the order of the axes of a grid.
    d: bits, or axes.
    wrap: whether the grid's lines are rings: the shorter way round, of equal ones up from even coordinates.
    sides: of the grid, shape (d,); coordinates: of its nodes, shape (nodes, d).
    links: at port 2i down axis i, at 2i + 1 up, of each node; shape (nodes * 2d,).
    """

    kind: int
    d: int
    wrap: bool
    sides: Ints
    coordinates: Ints
    links: Ints


class Graph:
    """A directed graph whose links carry one packet in a step, and a rule by which packets find their ends.

    Attributes:
        name: for people.
        nodes: number of nodes.
        tails, heads: the nodes at which each link begins and ends, shape (links,); two links for an edge.
        diameter: the most links that `step` has a packet take.
    """

    name: str
    nodes: int
    tails: Ints
    heads: Ints
    diameter: int

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def begin(self, at: Ints, to: Ints, rng: np.random.Generator) -> Ints:
        """What `step` remembers of each packet (a whole number), before its first; shape (m,)."""
        return np.zeros(len(at), np.int64)

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The link by which each packet goes on from node `at`, which is not its end `to`; and what is remembered."""
        raise NotImplementedError

    def rule(self) -> Rule | None:
        """`step` as the compiled kernel has it, where it does; it is then not called."""
        return None

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        """The links that each packet takes from `at` to `to`, at most `diameter`; `state` as `step` at `at` left it."""
        raise NotImplementedError
