"""Routing relations: which packets go from where to where (*The E-BSP model*, section 2)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import decomposition

Ints = NDArray[np.int64]


class Relation:
    """A bag of packets, each from one of p processors to one.

    Args:
        sources, destinations: of packet i, whole numbers 0 to p - 1, shape (m,). A source may be its own destination.
        p: processors.

    Attributes:
        sources, destinations: as given, read-only.
        p: processors.

    Raises:
        UsageError: no whole numbers, other shapes, or numbers that are no processor's.

    Source: Definitions 1 and 2 of *The E-BSP model*: a routing distribution, and (M, k1, k2)-relations.
    """

    def __init__(self, sources: ArrayLike, destinations: ArrayLike, p: int) -> None:
        self.sources, self.destinations = decomposition.relation("Relation", sources, destinations, p)
        self.p = p

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def M(self) -> int:
        """Packets in all."""
        return len(self.sources)

    @cached_property
    def sent(self) -> Ints:
        """Packets from each processor, shape (p,)."""
        return np.bincount(self.sources, minlength=self.p)

    @cached_property
    def received(self) -> Ints:
        """Packets to each processor, shape (p,)."""
        return np.bincount(self.destinations, minlength=self.p)

    @property
    def k1(self) -> int:
        """Packets that one processor sends, at most."""
        return int(self.sent.max())

    @property
    def k2(self) -> int:
        """Packets that one processor receives, at most."""
        return int(self.received.max())

    @property
    def h(self) -> int:
        """The larger of k1 and k2."""
        return max(self.k1, self.k2)

    @cached_property
    def locality(self) -> int:
        """The largest difference between the numbers of a source and its destination."""
        return int(np.abs(self.destinations - self.sources).max(initial=0))

    @property
    def full(self) -> bool:
        """Whether every processor sends and receives exactly h packets."""
        return bool((self.sent == self.h).all() and (self.received == self.h).all())

    def decompose(self) -> Ints:
        """For each packet the number of its 1-relation, 0 to h - 1; see `pybsp.routing.decompose`."""
        return decomposition.decompose(self.sources, self.destinations, self.p)
