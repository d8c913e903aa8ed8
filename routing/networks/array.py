"""The d-dimensional array, and the linear array (*BSP vs LogP*, section 5; *The E-BSP model*, section 3).

Greedy routing, in the order of the dimensions: a packet goes along the first axis to its place there, then along the
second, and so on. With d <= 2 no link has more than p^(1/d) h packets of an h-relation to carry. With d >= 3 some have
far more for some permutations (d = 3: half a layer, p^(2/3) / 2), and two phases are the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import UsageError, brief
from ...ground.convert import is_whole
from .fit import fit
from .graph import Rule
from .network import Ints
from .ports import Ported


def sides_of(name: str, sides: Sequence[int]) -> tuple[int, ...]:
    """These sides of a grid; UsageError where they are none."""
    if not np.iterable(sides) or not len(sides) or not all(is_whole(side, 1) for side in sides):
        raise UsageError(f"{name}: sides: expected one or more whole numbers from 1 on, got {brief(sides)}")
    return tuple(int(side) for side in sides)


def equal_sides(name: str, p: int, d: int) -> tuple[int, ...]:
    """The sides of a grid of d dimensions with p nodes; RoutingError, UsageError where p or d do not fit."""
    if not is_whole(d, 1):
        raise UsageError(f"{d}-d {name}: d: expected a whole number from 1 on, got {brief(d)}")
    return (fit(f"{d}-d {name}", p, f"side^{d} for a whole side", lambda n: n**d, 1),) * d


class Gridded(Ported):
    """Nodes are the points of a grid, the last axis fastest; port 2i of a node leads down along axis i, 2i + 1 up.

    Attributes:
        sides: how many nodes there are along each axis.
        coordinates: of each node, shape (p, d).
    """

    def __init__(self, name: str, sides: Sequence[int]) -> None:
        self.sides = sides_of(name, sides)
        self.p = math.prod(self.sides)
        self.name = f"{name} of {' x '.join(map(str, self.sides))}"
        self.places = np.arange(self.p)
        self.coordinates = np.stack(np.unravel_index(self.places, self.sides), axis=1)
        self._sides = np.array(self.sides)
        self.gamma = self.delta = float(max(self.sides))

    def beside(self, way: int) -> Ints:
        """The node that is next to each along each axis, round the ends, up (1) or down (-1); shape (p, d)."""
        strides = np.array([math.prod(self.sides[axis + 1 :]) for axis in range(len(self.sides))])
        found: Ints = self.places[:, None] + ((self.coordinates + way) % self._sides - self.coordinates) * strides
        return found

    def join(self, down: Ints, up: Ints) -> None:
        """Set nodes and links: each node's neighbours along each axis, shape (p, d); -1: none."""
        self.wire(np.stack((down, up), axis=2).reshape(self.p, -1))

    def _rule(self, wrap: bool) -> Rule:
        return Rule(1, len(self.sides), wrap, self._sides, np.ascontiguousarray(self.coordinates), self._links)


class Array(Gridded):
    """Nodes are the points of a grid, the last axis fastest; those next to each other along an axis are joined.

    Args:
        sides: how many nodes there are along each axis.

    Raises:
        UsageError: no sides, or one below 1.

    Port 2i of a node leads down along axis i, port 2i + 1 up.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Array((3, 4, 5))
        >>> network.diameter, network.degree
        (9, 6)
        >>> network.route(relations.permutation(network.p)).steps
        8
    """

    ordered = True

    def __init__(self, sides: Sequence[int]) -> None:
        super().__init__("array", sides)
        down = np.where(self.coordinates > 0, self.beside(-1), -1)
        self.join(down, np.where(self.coordinates < self._sides - 1, self.beside(1), -1))
        self.diameter = sum(self.sides) - len(self.sides)

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        way = self.coordinates[to] - self.coordinates[at]
        axis = (way != 0).argmax(axis=1)
        up = way[np.arange(len(at)), axis] > 0
        return self.link(at, 2 * axis + up), state

    def rule(self) -> Rule | None:
        return self._rule(wrap=False) if type(self).step is Array.step else None

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        return np.asarray(np.abs(self.coordinates[to] - self.coordinates[at]).sum(axis=1))

    @property
    def bisection(self) -> int:
        """Edges that must be cut to divide the processors into halves.

        Across the longest side; where that is odd, its middle layer is divided in the same way. That this is least was
        shown by Azizoglu and Egecioglu (*The bisection width and the isoperimetric number of arrays*, 2004).
        """
        cut, layer = 0, self.p
        for side in sorted(self.sides, reverse=True):
            if side > 1:
                layer //= side
                cut += layer
            if side % 2 == 0:
                break
        return cut


class LinearArray(Array):
    """Processors 0 to p - 1 in a row, each joined to the next.

    Args:
        p: processors, from 1 on.

    Raises:
        RoutingError: p below 1.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.LinearArray(10)
        >>> network.diameter, network.degree
        (9, 2)
        >>> network.route(relations.permutation(network.p)).steps
        8
    """

    def __init__(self, p: int) -> None:
        super().__init__((fit("linear array", p, "1 or more", lambda n: n, 1),))
        self.name = f"linear array of {p}"


class SquareArray(Array):
    """The array of d dimensions with equal sides.

    Args:
        p: processors, a d-th power.
        d: dimensions, from 1 on.

    Raises:
        RoutingError: p is no d-th power.
        UsageError: d is below 1.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.SquareArray(27, d=3)
        >>> network.diameter, network.degree
        (6, 6)
        >>> network.route(relations.permutation(network.p)).steps
        5
    """

    def __init__(self, p: int, d: int = 2) -> None:
        super().__init__(equal_sides("array", p, d))
