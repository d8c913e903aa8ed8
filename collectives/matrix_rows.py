"""Which processor holds what of the rows of 2D-PREFIX (prefix_2d.py), and how many operations that takes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from . import fixed_order, tree
from .arguments import Order
from .blocks import Ints, even_cuts
from .counted.prefix_trees import last_work


@lru_cache(maxsize=64)
def rows_of(p: int, k: int) -> tuple[Ints, Ints]:
    """Case 2: the first processor of each row's interval, and their numbers, which differ by at most one."""
    cuts = even_cuts(k, p)
    return cuts[:-1], np.diff(cuts)


@lru_cache(maxsize=64)
def owned_by(p: int, k: int) -> tuple[Ints, Ints, Ints]:
    """Case 2, by processor: its row, and the columns first to last - 1 of that row that it holds."""
    starts, sizes = rows_of(p, k)
    row = np.repeat(np.arange(k), sizes)
    place = np.arange(p) - starts[row]
    # Column t of a row with q processors is at place t*q div P.
    first = -(-place * p // sizes[row])
    last = -(-(place + 1) * p // sizes[row])
    return row, first, last


def row_operations(p: int, order: Order) -> int:
    """Case 1: operations that the prefix of a row takes."""
    return p - 1 if order == "any" else fixed_order.operations(p)


def busiest(p: int, k: int, degree: int) -> tuple[int, int]:
    """Case 2: operations of the busiest processor before the trees, and behind them.

    Those of a level of the trees but the last are one a message, and from the second level on one more
    (`primitive.climbed`).
    """
    starts, sizes = rows_of(p, k)
    row, first, last = owned_by(p, k)
    owned = last - first
    place = np.arange(p) - starts[row]
    most = int(sizes.max())
    levels = tree.height(most, degree)
    came = np.minimum(place // degree ** (levels - 1), last_work(most, degree))
    ahead = np.where(came, came - (levels == 1), 0)
    return int(owned.max()) - 1, int(np.where(place, ahead + owned, 0).max())
