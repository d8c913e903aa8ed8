"""The wrapped butterfly, each of its nodes a processor (*BSP vs LogP*, section 5, Table 1).

Wrapped, as then all nodes are alike: each has degree 4, and there are no first and last levels that see half the
traffic.
"""

from __future__ import annotations

import numpy as np

from .bits import bit_length
from .fit import fit
from .network import Ints
from .ports import Ported


class Butterfly(Ported):
    """n levels of 2^n nodes; node level * 2^n + row is joined to the same row and to that which differs in bit `level`
    of the next level, after the last of which the first comes again.

    Args:
        p: processors, n * 2^n for n from 2 on: 8, 24, 64, 160, 384, ...

    Raises:
        RoutingError: another p.

    Ports: 0 up along the row, 1 up across, 2 and 3 down likewise. With n = 2 the two levels are joined twice.

    Greedy routing: up until the row is right, across where the bit is not; then along the row, the shorter way round.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Butterfly(24)
        >>> network.diameter, network.degree
        (4, 4)
        >>> network.route(relations.permutation(network.p)).steps
        5
    """

    def __init__(self, p: int) -> None:
        self.n = n = fit("butterfly", p, "n * 2^n for n >= 2", lambda n: n << n, 2)
        self.p = p = int(p)
        self.name = f"butterfly of {p}"
        self.places = np.arange(p)
        level, row = np.divmod(self.places, 1 << n)
        up, down = (level + 1) % n, (level - 1) % n
        heads = (up << n | row, up << n | row ^ (1 << level), down << n | row, down << n | row ^ (1 << down))
        self.wire(np.stack(heads, axis=1))
        self.gamma = self.delta = float(np.log2(p))
        self.diameter = n + n // 2  # n up and n/2 along the row, which is also the graph's diameter

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        level, wrong, left = self._left(at, to)
        across = wrong >> level & 1
        along = np.where(2 * left <= self.n, 0, 2)
        return self.link(at, np.where(wrong > 0, across, along)), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        level, wrong, left = self._left(at, to)
        # The bits that are wrong, by how many levels up they are put right: the last of them ends the way up.
        turned = (wrong >> level | wrong << (self.n - level)) & ((1 << self.n) - 1)
        ups = bit_length(turned)
        left = (left - ups) % self.n
        return ups + np.minimum(left, self.n - left)

    def _left(self, at: Ints, to: Ints) -> tuple[Ints, Ints, Ints]:
        """The level, the bits of the row that are wrong, and how many levels up the end is."""
        level = at >> self.n
        return level, (at ^ to) & ((1 << self.n) - 1), ((to >> self.n) - level) % self.n

    @property
    def bisection(self) -> int:
        """2^n: cut where a bit of the row is changed. That this is least: Bornstein and others, *On the bisection width
        and expansion of butterfly networks*, 2001."""
        return 1 << self.n
