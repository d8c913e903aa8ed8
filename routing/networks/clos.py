"""The k-ary fat tree of data centres: a folded Clos network of equal switches, under equal-cost multi-path routing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError, brief
from ...ground.convert import is_whole
from .fit import fit
from .network import Ints, Network

SPREADS = ("ecmp", "packets")


class KaryFatTree(Network):
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches, all with k ports; k^3/4 processors.

    Args:
        p: processors, k^3/4 for an even k: 2, 16, 54, 128, 250, 432, 1024, ...
        spread: "ecmp" (equal-cost multi-path: a hash of source, destination and `salt` chooses the way up, so that all
            packets of a pair go one way and in order) or "packets" (each packet draws its own).
        salt: a number from 0 on; another one spreads the pairs in another way.

    Raises:
        RoutingError: another p.
        UsageError: another spread; a salt that is none.

    Nodes are processors, then edge switches by pod, then aggregation switches by pod, then core switches: core switch
    (k/2) i + j is joined to aggregation switch i of each pod.

    Source: Al-Fares, Loukissas, Vahdat, *A scalable, commodity data center network architecture*, 2008; ECMP: RFC 2992.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.KaryFatTree(16)
        >>> network.k, network.diameter, network.degree, network.bisection
        (4, 6, 4, 8)
        >>> network.route(relations.permutation(network.p)).steps
        7
    """

    ordered = True

    def __init__(self, p: int, spread: str = "ecmp", salt: int = 0) -> None:
        self.half = half = fit("k-ary fat tree", p, "k^3/4 for an even k", lambda n: 2 * n**3, 1)
        if not isinstance(spread, str) or spread not in SPREADS:
            raise UsageError(f"k-ary fat tree: spread: expected one of {', '.join(SPREADS)}, got {spread!r}")
        if not is_whole(salt, 0) or salt >= 1 << 63:
            raise UsageError(f"k-ary fat tree: salt: expected a whole number from 0 to 2**63 - 1, got {brief(salt)}")
        self._salt = mixed(np.array([salt], np.uint64))
        self.k, self.p, self.spread = 2 * half, int(p), spread
        self.name = f"{self.k}-ary fat tree of {p}"
        self.places = np.arange(self.p)
        each = self.k * half  # edge switches, and aggregation switches
        self._edge, self._over, self._core = self.p, self.p + each, self.p + 2 * each
        self.nodes = self._core + half * half
        # Links up, by their lower end and then by choice; then those down, in the order of those up.
        switch = np.repeat(np.arange(each), half)
        pod, number, choice = switch // half, switch % half, np.tile(np.arange(half), each)
        lower = np.concatenate((self.places, self._edge + switch, self._over + switch))
        upper = np.concatenate(
            (self._edge + self.places // half, self._over + pod * half + choice, self._core + number * half + choice)
        )
        self.tails, self.heads = np.concatenate((lower, upper)), np.concatenate((upper, lower))
        self.gamma = 1.0  # each switch has as many links up as down; the hashes of ECMP spread a few flows unevenly
        self.delta, self.diameter = 6.0, 6

    def begin(self, at: Ints, to: Ints, rng: np.random.Generator) -> Ints:
        """The number by which a packet chooses its way up."""
        ways = self.half * self.half
        if self.spread == "packets":
            return rng.integers(ways, size=len(at))
        return np.asarray(
            mixed(mixed(at.astype(np.uint64) + self._salt) + to.astype(np.uint64)) % np.uint64(ways), np.int64
        )

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        half, level, p = self.half, self._level(at), self.p
        above, edge, pod = self._meeting(at, to), to // half, to // (half * half)
        up = np.select(
            [level == 0, level == 1],
            [at, (at - self._edge) * half + state % half],
            (at - self._over) * half + state // half,
        )
        # A link down is the twin of the one up from what is below.
        spine, last = np.divmod(at - self._core, half)
        down = np.select(
            [level == 1, level == 2],
            [to, edge * half + (at - self._over) % half],
            (pod * half + spine) * half + last,
        )
        return np.where(level < above, level * p + up, (level + 2) * p + down), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        above = self._meeting(at, to)
        return np.where(at == to, 0, 2 * above - self._level(at))

    def _level(self, at: Ints) -> Ints:
        """0 of processors, 1, 2 and 3 of edge, aggregation and core switches."""
        return (at >= self._edge).astype(np.int64) + (at >= self._over) + (at >= self._core)

    def _meeting(self, at: Ints, to: Ints) -> Ints:
        """The level at which the way from a node to a processor turns down: the node's own, if it leads down."""
        half, level = self.half, self._level(at)
        edge = np.where(level == 0, at // half, at - self._edge)
        pod = np.where(level <= 1, edge // half, (at - self._over) // half)
        above = np.where(edge == to // half, 1, np.where(pod == to // (half * half), 2, 3))
        return np.where(level <= 1, above, np.where((level == 2) & (pod == to // (half * half)), 2, 3))

    @property
    def bisection(self) -> int:
        return self.p // 2


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each: the finalizer of MurmurHash3."""
    for _ in range(2):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return numbers ^ (numbers >> np.uint64(33))
