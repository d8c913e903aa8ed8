"""The torus of any dimension: the array whose lines are closed to rings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .array import Gridded, equal_sides
from .graph import Rule
from .network import Ints


class Torus(Gridded):
    """Nodes are the points of a grid, the last axis fastest; those next to each other on the ring along an axis are
    joined. Sides of 2 have one edge, not two.

    Args:
        sides: how many nodes there are along each axis.

    Raises:
        UsageError: no sides, or one below 1.

    Port 2i of a node leads down along axis i, port 2i + 1 up.

    Routing in the order of the dimensions, the shorter way round each. Where both are as long (half of an even side),
    packets go up from even coordinates and down from odd ones, so that uniform traffic loads all links of an axis
    alike, where the side is a multiple of 4 or odd: with side/8 of what a processor sends, if it is even.

    Virtual channels: two. On a ring a packet is on the first while its way leads past the end of the ring, then on the
    second, so that no packets wait for each other in a circle.

    Source: Dally and Seitz, *Deadlock-free message routing in multiprocessor interconnection networks*, 1987.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Torus((4, 4, 4))
        >>> network.p, network.diameter, network.degree, network.bisection
        (64, 6, 6, 32)
        >>> network.route(relations.permutation(network.p)).steps
        5
    """

    channels = 2

    def __init__(self, sides: Sequence[int]) -> None:
        super().__init__("torus", sides)
        self.join(np.where(self._sides == 2, -1, self.beside(-1)), self.beside(1))
        self.diameter = sum(side // 2 for side in self.sides)

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        here = self.coordinates[at]
        way = (self.coordinates[to] - here) % self._sides  # how far up
        axis = (way != 0).argmax(axis=1)
        each = np.arange(len(at))
        up, side = way[each, axis], self._sides[axis]
        goes_up = (2 * up < side) | ((2 * up == side) & (here[each, axis] % 2 == 0)) | (side == 2)
        return self.link(at, 2 * axis + goes_up), state

    def rule(self) -> Rule | None:
        return self._rule(wrap=True) if type(self).step is Torus.step else None

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        up = (self.coordinates[to] - self.coordinates[at]) % self._sides
        return np.asarray(np.minimum(up, self._sides - up).sum(axis=1))

    def channel(self, at: Ints, to: Ints, link: Ints, hops: Ints) -> Ints:
        here, there, end = self.coordinates[at], self.coordinates[self.heads[link]], self.coordinates[to]
        axis = (here != there).argmax(axis=1)
        each = np.arange(len(at))
        here, there, end = here[each, axis], there[each, axis], end[each, axis]
        side = self._sides[axis]
        up = ((there - here) % side == 1) & (side > 2)
        down = ((here - there) % side == 1) & (side > 2)
        return np.where((up & (here > end)) | (down & (here < end)), 0, 1)

    @property
    def bisection(self) -> int:
        """Edges that must be cut to divide the processors into halves: two of each ring across a side, one where it is
        2. Where the side is odd, its middle layer is divided in the same way along another."""
        return _halved(self.p, tuple(side for side in self.sides if side > 1))


def _halved(nodes: int, sides: tuple[int, ...]) -> int:
    """The least cut of a torus of these sides."""
    cuts = []
    for axis, side in enumerate(sides):
        layer = nodes // side
        rest = _halved(layer, sides[:axis] + sides[axis + 1 :]) if side % 2 else 0
        cuts.append(layer * (1 if side == 2 else 2) + rest)
    return min(cuts, default=0)


class SquareTorus(Torus):
    """The torus of d dimensions with equal sides.

    Args:
        p: processors, a d-th power.
        d: dimensions, from 1 on.

    Raises:
        RoutingError: p is no d-th power.
        UsageError: d is below 1.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.SquareTorus(64, d=3)
        >>> network.diameter, network.degree
        (6, 6)
        >>> network.route(relations.permutation(network.p)).steps
        5
    """

    def __init__(self, p: int, d: int = 2) -> None:
        super().__init__(equal_sides("torus", p, d))
