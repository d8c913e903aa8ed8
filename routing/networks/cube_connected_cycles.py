"""The cube-connected cycles, each of whose nodes is a processor (*BSP vs LogP*, section 5, Table 1)."""

from __future__ import annotations

import numpy as np

from .bits import bit_length
from .fit import fit
from .network import Ints
from .ports import Ported


class CubeConnectedCycles(Ported):
    """A cycle of n nodes for each node of a cube of 2^n; node row * n + i is joined to the next and the last of its
    cycle, and to node i of the row that differs in bit i.

    Args:
        p: processors, n * 2^n for n from 2 on: 8, 24, 64, 160, 384, ...

    Raises:
        RoutingError: another p.

    Ports: 0 on along the cycle, 1 back, 2 across. With n = 2 the two nodes of a cycle are joined twice.

    Greedy routing: across wherever the bit is wrong, else on along the cycle until the row is right; then along the
    cycle, the shorter way round.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.CubeConnectedCycles(24)
        >>> network.diameter, network.degree
        (6, 3)
        >>> network.route(relations.permutation(network.p)).steps
        6
    """

    def __init__(self, p: int) -> None:
        self.n = n = fit("cube-connected cycles", p, "n * 2^n for n >= 2", lambda n: n << n, 2)
        self.p = p = int(p)
        self.name = f"cube-connected cycles of {p}"
        self.places = np.arange(p)
        row, i = np.divmod(self.places, n)
        heads = (row * n + (i + 1) % n, row * n + (i - 1) % n, (row ^ (1 << i)) * n + i)
        self.wire(np.stack(heads, axis=1))
        self.gamma = self.delta = float(np.log2(p))
        # n across, n - 1 on, and n/2 along the cycle: 1 more than the graph's, 2 n + n/2 - 2, from n = 4 on.
        self.diameter = 2 * n - 1 + n // 2

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        i, wrong, left = self._left(at, to)
        along = np.where((wrong > 0) | (2 * left <= self.n), 0, 1)
        return self.link(at, np.where(wrong >> i & 1 > 0, 2, along)), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        i, wrong, left = self._left(at, to)
        # The bits that are wrong, by how many nodes on they are put right: the last of them ends the way on.
        turned = (wrong >> i | wrong << (self.n - i)) & ((1 << self.n) - 1)
        on = np.maximum(bit_length(turned) - 1, 0)
        left = (left - on) % self.n
        return on + np.bitwise_count(wrong) + np.minimum(left, self.n - left)

    def _left(self, at: Ints, to: Ints) -> tuple[Ints, Ints, Ints]:
        """The place in the cycle, the bits of the row that are wrong, and how many places on the end is."""
        row, i = np.divmod(at, self.n)
        row_to, i_to = np.divmod(to, self.n)
        return i, np.bitwise_xor(row, row_to), (i_to - i) % self.n

    @property
    def bisection(self) -> int:
        """2^(n - 1): cut where a bit of the row is changed. That this is least: Manabe, Hagihara and Tokura,
        1984."""
        return 1 << self.n - 1
