"""The square mesh, whose processors are numbered by an indexing (*The E-BSP model*, section 3)."""

from __future__ import annotations

import math

import numpy as np

from ...errors import UsageError
from .array import Array
from .indexing import indexing as indexing_of
from .network import Ints

ORDERS = ("rows first", "columns first", "spread")


class Mesh(Array):
    """sqrt(p) x sqrt(p) nodes, each joined to those beside, above and below it; processor i is where an indexing has i.

    A packet goes along its column to some row, along that row to its destination's column, and along that one to its
    destination. Which row that is, the order says:

        rows first      its source's: greedy routing in the order of the dimensions, first along rows
        columns first   its destination's: the same, first along columns
        spread          one drawn from some that are near its source or its destination, see below

    An (M, k1, k2)-relation can have in one row sqrt(p) processors that send k1 packets each, which greedy routing would
    leave in that row. Spreading, k = max{k1, k2} and s = sqrt(M/k):

    1. The mesh is cut into bands of about s rows. Where k1 >= k2, the row of a packet is drawn from the band of its
       source, else from that of its destination. So
    2. with k1 >= k2, the s processors of a band that lie in one column have k1*s packets at most to send to its rows;
    3. no row expects more than M/s packets, as each of the band's has s rows to go along;
    4. a column has k2*sqrt(p) packets at most to deliver, and k2*sqrt(p) <= sqrt(k1*k2*p).

    With k1 < k2 it is the same backwards in time. As k*s = M/s = sqrt(M*k) and M <= min{k1, k2}*p, each part takes
    O(sqrt(k1*k2*p)) steps: Lemma 4. Where no packet goes further than 2*s rows or columns, nothing is drawn. Rows first
    (or columns first, with k1 < k2) then takes k1 + k2 times the furthest that a packet goes along an axis at most, by
    Theorem 3 in each row and column, if the two parts are done one after the other: O(k*s) too, and Theorem 5.

    Args:
        p: processors, as many as the indexing fits.
        indexing: "row-major" and "snake" (p a square), "peano" (a power of 4: the paper's scheme, the curve of Hilbert)
            or "true peano" (a power of 9).
        order: one of the above.

    Raises:
        RoutingError: p does not fit.
        UsageError: another indexing, or order.

    Source: *The E-BSP model*, Lemma 4 and Theorem 5, which refer to Sibeyn and Kaufmann (*Deterministic 1-k routing on
    meshes*, 1993) for the routing. Theirs sorts packets to spread them; here their rows are drawn.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Mesh(16)
        >>> network.diameter, network.degree
        (6, 4)
        >>> network.route(relations.permutation(network.p)).steps
        6
    """

    def __init__(self, p: int, indexing: str = "peano", order: str = "rows first") -> None:
        if not isinstance(order, str) or order not in ORDERS:
            raise UsageError(f"mesh: order: expected one of {', '.join(ORDERS)}, got {order!r}")
        scheme = indexing_of(indexing)
        self.side = scheme.side(p)
        super().__init__((self.side, self.side))
        self.name = f"{self.side} x {self.side} mesh, {indexing} indexing, {order}"
        self.order = order
        self.ordered = self.adaptive = order != "spread"
        rows, columns = scheme.coordinates(p).T
        self.places = rows * self.side + columns
        self.diameter = (3 if order == "spread" else 2) * (self.side - 1)

    def begin(self, at: Ints, to: Ints, rng: np.random.Generator) -> Ints:
        """The row along which each packet is to go."""
        above, below = at // self.side, to // self.side
        if self.order == "rows first":
            return above
        if self.order == "columns first":
            return below
        if not len(at):
            return above
        k1, k2 = (int(np.bincount(ends).max()) for ends in (at, to))
        near = above if k1 >= k2 else below
        band = math.sqrt(len(at) / max(k1, k2))
        if np.abs(self.coordinates[at] - self.coordinates[to]).max() <= 2 * band:
            return near
        bands = max(round(self.side / band), 1)
        bounds = np.arange(bands + 1) * self.side // bands
        of = np.searchsorted(bounds, near, "right") - 1
        return rng.integers(bounds[of], bounds[of + 1])

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        (row, column), (last, target) = self.coordinates[at].T, self.coordinates[to].T
        across = column != target
        goal = np.where(across, state, last)
        axis = across & (row == goal)
        up = np.where(axis, target > column, goal > row)
        return self.link(at, 2 * axis + up), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        (row, column), (last, target) = self.coordinates[at].T, self.coordinates[to].T
        goal = np.where(column != target, state, last)
        left: Ints = np.abs(goal - row) + np.abs(target - column) + np.abs(last - goal)
        return left
