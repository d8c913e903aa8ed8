"""The shuffle-exchange, each of whose nodes is a processor (*BSP vs LogP*, section 5, Table 1)."""

from __future__ import annotations

import numpy as np

from .bits import bit_length
from .fit import fit
from .network import Ints
from .ports import Ported


class ShuffleExchange(Ported):
    """Nodes of n bits; each is joined to that which differs in the lowest bit, and to those with the bits rotated by
    one to the left (shuffle) and to the right.

    Args:
        p: processors, a power of two.

    Raises:
        RoutingError: another p.

    Ports: 0 exchange, 1 shuffle, 2 the shuffle's way back, which greedy routing does not use. With p = 4 nodes 1 and 2
    are joined twice.

    Greedy routing: n times the lowest bit is put right, with a shuffle between; after k shuffles the lowest bit is that
    which will be bit n - 1 - k. A shuffle of a node onto itself is no step. What a packet remembers is 2k, and 1 more
    if the link that it waits for is a shuffle.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.ShuffleExchange(16)
        >>> network.diameter, network.degree
        (7, 3)
        >>> network.route(relations.permutation(network.p)).steps
        7
    """

    adaptive = False

    def __init__(self, p: int) -> None:
        self.n = n = fit("shuffle-exchange", p, "a power of two", lambda n: 1 << n)
        self.p = p = int(p)
        self.name = f"shuffle-exchange of {p}"
        self.places = v = np.arange(p)
        top = max(n - 1, 0)
        heads = (v ^ 1 if n else v, (v << 1 | v >> top) & (p - 1), v >> 1 | (v & 1) << top)
        self.wire(np.stack(heads, axis=1))
        self.gamma = self.delta = float(n)
        self.diameter = max(2 * n - 1, 0)  # n exchanges and n - 1 shuffles, which is also the graph's diameter

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        done = (state + 1) // 2
        # In nodes of equal bits shuffles change nothing, and are done up to the next bit that is wrong in the end.
        still = (at == 0) | (at == self.p - 1)
        done = np.where(still, self.n - bit_length((at ^ to) & ((1 << self.n - done) - 1)), done)
        right = (at ^ to >> (self.n - 1 - done)) & 1 == 0
        return self.link(at, np.where(right, 1, 0)), 2 * done + right

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        # The way is followed, as it ends where a packet comes by its end early.
        at, state = at.copy(), state // 2 * 2
        taken = np.zeros(len(at), np.int64)
        rng = np.random.default_rng(0)  # nothing is drawn
        while len(on := np.flatnonzero(at != to)):
            links, state[on] = self.step(at[on], to[on], state[on], rng)
            at[on] = self.heads[links]
            taken[on] += 1
        return taken

    @property
    def bisection(self) -> int:
        """Edges cut between the nodes of fewer ones and those of more, of which only exchanges are between them.

        Of n/2 ones, half the nodes go to either side, by the cycles that shuffles make. Least for p <= 16, and no more
        than a bound beyond: for p = 64 there is a cut of 10, and this has 12. The bisection grows as p / log p
        (Leighton, *Complexity issues in VLSI*, 1983), this cut as p / sqrt(log p), but up to p = 2^24 it is smaller
        than the cut that shows the former.
        """
        if self.p == 1:
            return 0
        turned = cycle = self.places
        for _ in range(self.n - 1):
            turned = (turned << 1 | turned >> self.n - 1) & (self.p - 1)
            cycle = np.minimum(cycle, turned)
        few = np.zeros(self.p, bool)
        few[np.lexsort((cycle, np.bitwise_count(self.places)))[: self.p // 2]] = True
        return int((few[self.tails] != few[self.heads]).sum()) // 2
