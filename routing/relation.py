"""Routing relations: which packets go from where to where (*The E-BSP model*, section 2)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import brief, usage_error
from ..ground.convert import is_whole
from ..machines.cost import Superstep
from . import decomposition

Ints = NDArray[np.int64]

MOST = 2**31 - 1  # packets from one processor to another


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

    A relation is seen in three ways: by Definitions 1 and 2 of *The E-BSP model* (M, k1, k2, locality), which count
    every packet; by a network, which routes it (`Network.route`); and by the ledger, which counts words, and none of
    what a processor sends to itself (`superstep`).

    Cost: 10^7 packets take less than a second, all figures included, and `decompose` 7 to 21 seconds (on a VM).

    Examples:
        >>> from pybsp.routing import Relation
        >>> relation = Relation(sources=[0, 0, 1, 2], destinations=[1, 2, 2, 2], p=3)
        >>> relation
        <relation of p = 3: M = 4, k1 = 2, k2 = 3, locality 2>
        >>> relation.M, relation.k1, relation.k2, relation.h, relation.locality, relation.full
        (4, 2, 3, 3, 2, False)
        >>> relation.sent.tolist(), relation.received.tolist()
        ([2, 1, 1], [0, 1, 3])
        >>> len(relation), relation[:2].destinations.tolist()
        (4, [1, 2])
    """

    def __init__(self, sources: ArrayLike, destinations: ArrayLike, p: int) -> None:
        self.sources, self.destinations = decomposition.relation("Relation", sources, destinations, p)
        self.p = int(p)
        self.sources.flags.writeable = self.destinations.flags.writeable = False

    @classmethod
    def from_matrix(cls, packets: ArrayLike) -> Relation:
        """The relation with packets[i, j] packets from i to j, in the order of sources, then destinations.

        Args:
            packets: whole numbers from 0 to 2^31 - 1, shape (p, p), p at least 1.

        Raises:
            UsageError: another shape, or other numbers.

        Examples:
            >>> from pybsp.routing import Relation
            >>> relation = Relation.from_matrix([[0, 2], [1, 0]])
            >>> relation.sources.tolist(), relation.destinations.tolist()
            ([0, 0, 1], [1, 1, 0])
        """
        matrix = decomposition.regular("Relation.from_matrix", "packets", packets)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype.kind not in "iu":
            expected = "whole numbers of shape (p, p)"
            raise usage_error("Relation.from_matrix: packets", expected, f"{matrix.dtype} of shape {matrix.shape}")
        wrong = (matrix < 0) | (matrix > MOST)
        if wrong.any():
            raise usage_error("Relation.from_matrix: packets", f"numbers from 0 to {MOST}", matrix[wrong][0])
        sources, destinations = np.nonzero(matrix)
        copies = matrix[sources, destinations].astype(np.int64)
        return cls(np.repeat(sources, copies), np.repeat(destinations, copies), len(matrix))

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, chosen: slice | NDArray[Any]) -> Relation:
        """Some of the packets: by a slice, a mask, or their numbers."""
        return Relation(self.sources[chosen], self.destinations[chosen], self.p)

    def __repr__(self) -> str:
        return (
            f"<relation of p = {self.p}: M = {self.M}, k1 = {self.k1}, k2 = {self.k2}, locality {self.locality}"
            f"{', full' if self.full else ''}>"
        )

    # -- figures

    @property
    def M(self) -> int:
        """Packets in all."""
        return len(self.sources)

    @cached_property
    def sent(self) -> Ints:
        """Packets from each processor, shape (p,)."""
        return _counts(self.sources, self.p)

    @cached_property
    def received(self) -> Ints:
        """Packets to each processor, shape (p,)."""
        return _counts(self.destinations, self.p)

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
        """The largest difference between the numbers of a source and its destination; 0 where nothing is sent."""
        return int(np.abs(self.destinations - self.sources).max(initial=0))

    @property
    def full(self) -> bool:
        """Whether every processor sends and receives exactly h packets."""
        return self.h * self.p == self.M

    # -- 1-relations

    def decompose(self) -> Ints:
        """For each packet the number of its 1-relation, 0 to h - 1; see `pybsp.routing.decompose`.

        Examples:
            >>> from pybsp.routing import Relation
            >>> Relation([0, 0, 1, 1], [0, 1, 0, 1], p=2).decompose().tolist()
            [0, 1, 1, 0]
        """
        return decomposition.decompose(self.sources, self.destinations, self.p)

    def one_relations(self) -> list[Relation]:
        """The relation as h relations in which each processor sends and receives at most one packet.

        Examples:
            >>> from pybsp.routing import Relation
            >>> parts = Relation([0, 0, 1, 1], [0, 1, 0, 1], p=2).one_relations()
            >>> [(part.h, part.M) for part in parts]
            [(1, 2), (1, 2)]
        """
        order = np.argsort(colours := self.decompose(), kind="stable")
        ends = np.cumsum(_counts(colours, self.h))
        return [self[packets] for packets in np.split(order, ends[:-1])] if self.M else []

    # -- as others see it

    def matrix(self) -> Ints:
        """Packets from i to j, shape (p, p); `from_matrix` makes them a relation again.

        Examples:
            >>> from pybsp.routing import Relation
            >>> Relation([0, 0, 1], [1, 1, 0], p=2).matrix().tolist()
            [[0, 2], [1, 0]]
        """
        return _counts(self.sources * self.p + self.destinations, self.p**2).reshape(self.p, self.p)

    def moving(self) -> Relation:
        """The packets whose destinations are not their sources: those that go over a network.

        Examples:
            >>> from pybsp.routing import Relation
            >>> Relation([0, 1, 1], [0, 0, 1], p=2).moving().M
            1
        """
        return self[self.sources != self.destinations]

    def superstep(self, words: int = 1, queue: bool = False) -> Superstep:
        """What the ledger counts where a program sends these packets in one superstep.

        Args:
            words: of each packet.
            queue: whether they are items of a queue, of which those from one processor to another are one message;
                else each is a message of its own (`bsp.send`).

        What a processor sends to itself counts nothing.

        Raises:
            UsageError: words is no whole number of at least 0.

        Examples:
            >>> from pybsp.routing import Relation
            >>> relation = Relation([0, 0, 1], [1, 1, 1], p=2)
            >>> relation.superstep(words=10), relation.superstep(queue=True).messages
            (Superstep(h_out=20, h_in=20, messages=2, M=20, w=0.0, locality=1, items=0), 1)
        """
        if not is_whole(words, 0):
            raise usage_error("Relation.superstep: words", "a whole number of at least 0", brief(words))
        moving = self.moving()
        messages = moving
        if queue:
            pairs = np.unique(moving.sources * self.p + moving.destinations)
            messages = Relation(pairs // self.p, pairs % self.p, self.p)
        return Superstep(
            h_out=moving.k1 * int(words),
            h_in=moving.k2 * int(words),
            messages=messages.h,
            M=moving.M * int(words),
            locality=moving.locality,
            items=moving.h if queue else 0,
        )


def _counts(numbers: Ints, size: int) -> Ints:
    """How often each of 0 to size - 1 occurs, read-only."""
    counts = np.bincount(numbers, minlength=size)
    counts.flags.writeable = False
    return counts
