"""How many steps routing takes on the linear array: proofs are in docs/studies/ebsp-networks.md."""

from __future__ import annotations

import numpy as np

from pybsp.routing.networks.graph import Ints
from pybsp.routing.relation import Relation


def least_steps(relation: Relation) -> int:
    """The steps of the fastest schedule for a relation on the linear array, which are those of furthest first.

    Time and memory are those of arrays of shape (p, p).

    Source: *The E-BSP model*, Theorem 3.
    """
    sources, destinations, last = relation.sources, relation.destinations, relation.p - 1
    return max(_up(sources, destinations, relation.p), _up(last - sources, last - destinations, relation.p))


def _up(sources: Ints, destinations: Ints, p: int) -> int:
    """max{n(i, j) + j - i - 1} of the packets that go up."""
    up = destinations > sources
    cells = np.bincount(sources[up] * p + destinations[up], minlength=p * p).reshape(p, p)
    through = cells.cumsum(axis=0)[:, ::-1].cumsum(axis=1)[:, ::-1]  # n(i, j)
    i, j = np.indices((p, p), sparse=True)
    return int(np.where((j > i) & (through > 0), through + j - i - 1, 0).max())
