"""How the nodes of a square mesh are numbered (*The E-BSP model*, section 2, figure 1).

row-major       rows one after the other, each from left to right
snake           rows one after the other, from left to right and from right to left in turn (figure 1a)
peano           what the paper calls the Peano scheme (figure 1b): drawn 4 x 4 it is the curve of Hilbert, four
                quadrants of half the side. Numbers that differ by d are at distance 3 sqrt(d) at most
true peano      the curve of Peano, nine blocks of a third of the side: at distance 3.27 sqrt(d) at most
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...errors import UsageError
from .fit import fit
from .network import Ints


class Indexing(NamedTuple):
    """A way to number the nodes of a square.

    rule: which numbers of nodes fit.
    size: the nodes of the n-th square that fits, from `first` on.
    curve: the rows and columns of all nodes of a square of a side, by number.
    """

    name: str
    rule: str
    size: Callable[[int], int]
    first: int
    curve: Callable[[int], tuple[Ints, Ints]]

    def side(self, p: int) -> int:
        """The side of the square of p nodes; a RoutingError that names the nearest p where this does not fit."""
        n = fit(f"mesh under {self.name} indexing", p, self.rule, self.size, self.first)
        return math.isqrt(self.size(n))

    def coordinates(self, p: int) -> Ints:
        """Row and column of each number, shape (p, 2); a RoutingError where p does not fit."""
        return np.stack(self.curve(self.side(p)), axis=1)

    def numbers(self, p: int) -> Ints:
        """The inverse: the node in each row and column, shape (side, side); a RoutingError where p does not fit."""
        rows, columns = self.curve(side := self.side(p))
        found = np.empty((side, side), np.int64)
        found[rows, columns] = np.arange(p)
        return found


def _row_major(side: int) -> tuple[Ints, Ints]:
    rows, columns = np.indices((side, side))
    return rows.ravel(), columns.ravel()


def _snake(side: int) -> tuple[Ints, Ints]:
    rows, columns = _row_major(side)
    return rows, np.where(rows % 2, side - 1 - columns, columns)


def _hilbert(side: int) -> tuple[Ints, Ints]:
    """From the upper left corner to the upper right one."""
    rows = columns = np.zeros(1, np.int64)
    n = 1
    while n < side:
        # Down the upper left quadrant, across the two lower ones, and up the upper right one.
        r, c, last = rows, columns, n - 1
        rows = np.concatenate((c, n + r, n + r, last - c))
        columns = np.concatenate((r, c, n + c, n + last - r))
        n *= 2
    return rows, columns


def _peano(side: int) -> tuple[Ints, Ints]:
    """From the upper left corner to the lower right one."""
    rows = columns = np.zeros(1, np.int64)
    n = 1
    while n < side:
        # The blocks go down, up and down; a block is mirrored so that it begins where the one before ended.
        down, across = _snake(3)[::-1]
        r, c = rows, columns
        rows = np.concatenate([n * i + (n - 1 - r if j % 2 else r) for i, j in zip(down, across, strict=True)])
        columns = np.concatenate([n * j + (n - 1 - c if i % 2 else c) for i, j in zip(down, across, strict=True)])
        n *= 3
    return rows, columns


INDEXINGS = {
    indexing.name: indexing
    for indexing in (
        Indexing("row-major", "a square", lambda n: n**2, 1, _row_major),
        Indexing("snake", "a square", lambda n: n**2, 1, _snake),
        Indexing("peano", "a power of 4", lambda n: 4**n, 0, _hilbert),
        Indexing("true peano", "a power of 9", lambda n: 9**n, 0, _peano),
    )
}


def indexing(name: str) -> Indexing:
    """The indexing of that name; a UsageError where there is none."""
    if not isinstance(name, str) or name not in INDEXINGS:
        raise UsageError(f"mesh: indexing: expected one of {', '.join(INDEXINGS)}, got {name!r}")
    return INDEXINGS[name]
