"""What carries values along the edges of a multibutterfly: the protocol is written against a `Wiring`.

A process holds the nodes of some rows, in all columns. The numbers by which it knows them and their edges:

    node    c * rows + (r - low)
    port    2 * node + side: what is at a node for one side, 0 upper or 1 lower
    edge    port * d + k for edge k = 0 to d - 1 of the node to that side, into column c + 1
    slot    (c * rows + (r - low)) * 2d + j for in-edge j = 0 to 2d - 1 of node (r, c + 1); of a node, the in-edges are
            in the order of the rows, sides and k of their other ends
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .network import Ints as Ints
from .network import Multibutterfly
from .network import Narrow as Narrow


class Wiring(Protocol):
    """The edges between the nodes held in this process, and those to nodes held elsewhere.

    All calls are collective: every process makes the same ones in the same order. Records that go along the same edge
    keep their order, so that a run is the same however the rows are spread.

    Attributes:
        low: the first row whose nodes are held here.
        rows: how many are.
        columns: of splitters.
        d: edges of a node to either side.
        first: of each slot, whether its in-edge is the first of those parallel to it; shape (columns * rows * 2d,).
    """

    low: int
    rows: int
    columns: int
    d: int
    first: NDArray[np.bool_]

    def forward(self, edges: Ints, *values: Ints) -> tuple[Ints, ...]:
        """Records along edges.

        Args:
            edges: of each record, shape (m,).
            values: whole numbers, each of shape (m,).

        Returns:
            Of what arrives here the slots, ascending, and the values.
        """

    def back(self, slots: Ints, *values: Ints) -> tuple[Ints, ...]:
        """Records the other way: from slots; returns edges, ascending, and values."""

    def carry(self, edges: Ints, messages: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
        """`forward` for messages, by their numbers, and the rows to which they go; with their data, where it travels.

        Message -1 is none, but the notice that a ghost is gone.
        """

    def total(self, *numbers: int) -> tuple[int, ...]:
        """The sum of each over all processes."""


class LocalWiring:
    """All nodes in one process: permutations.

    Args:
        network: whose edges.
        begin, end: the columns of splitters; those from another than the first on are several networks side by side.

    Attributes:
        edge, slot: of each slot its edge, and of each edge its slot.
    """

    def __init__(self, network: Multibutterfly, begin: int = 0, end: int | None = None) -> None:
        self.low, self.rows, self.d = 0, network.N, network.d
        inward = network.inward.reshape(network.n, network.N * 2 * network.d)[begin:end]
        self.columns = len(inward)
        base = np.arange(self.columns)[:, None] * 2 * self.d * network.N
        self.edge: Ints = (inward + base).ravel()
        self.slot: Ints = (outward(network)[begin:end] + base).ravel()
        self.first = firsts(inward, self.d)

    def forward(self, edges: Ints, *values: Ints) -> tuple[Ints, ...]:
        return _sorted(self.slot[edges], values)

    def back(self, slots: Ints, *values: Ints) -> tuple[Ints, ...]:
        return _sorted(self.edge[slots], values)

    def carry(self, edges: Ints, messages: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
        slots, messages, ends = self.forward(edges, messages, ends)
        return slots, messages, ends

    def total(self, *numbers: int) -> tuple[int, ...]:
        return numbers


@lru_cache(maxsize=8)
def outward(network: Multibutterfly) -> Narrow:
    """Of edge e of node (r, c) its in-edge, as head row * 2d + j, at [c, r*2d + e]; shape (columns, N * 2d)."""
    inward = network.inward.reshape(network.n, network.N * 2 * network.d)
    result = np.empty_like(inward)
    np.put_along_axis(result, inward, np.arange(inward.shape[1], dtype=inward.dtype)[None], axis=1)
    return result


def firsts(inward: Narrow, d: int) -> NDArray[np.bool_]:
    """Of each in-edge of some nodes, whether it is the first of those parallel; given tail row * 2d + e of each."""
    tails = (inward // d).reshape(-1, 2 * d)
    return np.not_equal(np.diff(tails, axis=1, prepend=-1), 0).ravel()


def _sorted(at: Ints, values: tuple[Ints, ...]) -> tuple[Ints, ...]:
    order = np.argsort(at, kind="stable")
    return at[order], *(value[order] for value in values)
