"""The mesh of trees, whose leaves are the processors (*BSP vs LogP*, section 5, Table 1)."""

from __future__ import annotations

import numpy as np

from .bits import bit_length
from .fit import fit
from .network import Ints
from .ports import Ported


class MeshOfTrees(Ported):
    """A square of k x k leaves; over the leaves of each row and of each column there is a complete binary tree.

    Args:
        p: processors, a power of four: k is a power of two. Processor r * k + c is the leaf in row r and column c.

    Raises:
        RoutingError: another p.

    After the p leaves come the inner nodes of the rows' trees, k - 1 of each, then those of the columns'; of a tree,
    the root is number 1, the children of x are 2x and 2x + 1, and its leaves would be k to 2k - 1. Ports: of a leaf 0
    to its row's tree, 1 to its column's; of an inner node 0 up, 1 and 2 down.

    Greedy routing: through the row's tree to the column of the end, through that column's tree to the row. A tree has
    at most k h packets of an h-relation to carry, whatever the relation.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.MeshOfTrees(16)
        >>> network.diameter, network.degree
        (8, 3)
        >>> network.route(relations.permutation(network.p)).steps
        9
    """

    ordered = True

    def __init__(self, p: int) -> None:
        self.n = n = fit("mesh of trees", p, "a power of four", lambda n: 1 << 2 * n)  # levels of a tree
        self.p = p = int(p)
        self.name = f"mesh of trees of {p}"
        self.places = leaves = np.arange(p)
        self.k = k = 1 << n

        # Of each node its number in its row's tree, that in its column's, and these trees: 0 where it is in none.
        row, column = np.divmod(leaves, k)
        line, inner = (x.ravel() for x in np.meshgrid(np.arange(k), np.arange(1, k), indexing="ij"))
        none = np.zeros_like(inner)
        self._in_row = np.concatenate((k + column, inner, none))
        self._in_column = np.concatenate((k + row, none, inner))
        self._row = np.concatenate((row, line, none))
        self._column = np.concatenate((column, none, line))

        rows, columns = p - 1, p + k * (k - 1) - 1  # to these a tree's first node, and the number in it, are added
        heads = np.full((p + 2 * len(inner), 3), -1)
        if n:
            heads[:p, 0] = rows + row * (k - 1) + (k + column) // 2
            heads[:p, 1] = columns + column * (k - 1) + (k + row) // 2
            for start, leaf in ((rows, line * k), (columns, line)):
                stride = 1 if start == rows else k
                here = start + line * (k - 1) + inner
                heads[here, 0] = np.where(inner > 1, start + line * (k - 1) + inner // 2, -1)
                for port in (1, 2):
                    child = 2 * inner + port - 1
                    heads[here, port] = np.where(child < k, start + line * (k - 1) + child, leaf + (child - k) * stride)
        self.wire(heads)
        self.gamma, self.delta = float(k), float(2 * n)
        self.diameter = 4 * n  # up and down two trees, which is also the most between two leaves of the graph

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        in_row = self._in_row[at]
        x = np.where(in_row > 0, in_row, self._in_column[at])
        end = self.k + np.where(in_row > 0, to % self.k, to // self.k)
        below = self.n + 1 - bit_length(x)  # levels of the tree below the node
        down = 1 + (end >> np.maximum(below - 1, 0) & 1)
        inner = np.where(end >> below == x, down, 0)
        return self.link(at, np.where(below > 0, inner, x == end)), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        x, y = self._in_row[at], self._in_column[at]
        # From an inner node of a row's tree, the column's tree begins at that row's leaf, and the other way round.
        y = np.where(y > 0, y, self.k + self._row[at])
        x = np.where(x > 0, x, self.k + self._column[at])
        return self._to_leaf(x, self.k + to % self.k) + self._to_leaf(y, self.k + to // self.k)

    def _to_leaf(self, x: Ints, leaf: Ints) -> Ints:
        """Links of a tree from a node to a leaf."""
        below = self.n + 1 - bit_length(x)
        return below + 2 * bit_length(x ^ leaf >> below)

    @property
    def bisection(self) -> int:
        """k: cut one edge at the root of each row's tree."""
        return self.k if self.p > 1 else 0
