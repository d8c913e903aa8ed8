"""The dragonfly: groups of routers, all of a group joined to each other, and a link between any two groups."""

from __future__ import annotations

import numpy as np

from ...errors import RoutingError, UsageError, brief
from ...ground.convert import is_whole
from .fit import fit
from .network import Ints, Network


class Dragonfly(Network):
    """a h + 1 groups of a routers, each router with t processors and h links to other groups.

    Args:
        p: processors; without a shape that is balanced, a = 2t = 2h: 6, 72, 342, 1056, ...
        shape: (a, t, h); p is a t (a h + 1).

    Raises:
        RoutingError: another p.
        UsageError: another shape.

    Nodes are processors, then routers by group. Global link k of a group (router k // h) leads to the group k + 1
    further on, round all groups.

    Routing: to the router of the group that has the link to the end's group, over it, and on to the end. Two phases go
    by a router drawn of all (Valiant), as the link between two groups is all that greedy routing uses between them.

    Virtual channels: two, before the link between groups, and over and behind it.

    Source: Kim, Dally, Scott, Abts, *Technology-driven, highly-scalable dragonfly topology*, 2008.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> network = networks.Dragonfly(72)
        >>> network.shape, network.groups, network.nodes, network.diameter, network.degree
        ((4, 2, 2), 9, 108, 5, 7)
        >>> network.route(relations.permutation(network.p)).steps
        8
    """

    channels = 2

    def __init__(self, p: int, shape: tuple[int, int, int] | None = None) -> None:
        if shape is None:
            n = fit("dragonfly", p, "2 n^2 (2 n^2 + 1), or shape= be given", lambda n: 2 * n * n * (2 * n * n + 1), 1)
            shape = 2 * n, n, n
        if not isinstance(shape, tuple) or len(shape) != 3 or not all(is_whole(x, 1) for x in shape):
            raise UsageError(f"dragonfly: shape: expected three whole numbers from 1 on, (a, t, h), got {brief(shape)}")
        self.shape = a, t, h = int(shape[0]), int(shape[1]), int(shape[2])
        self.groups = groups = a * h + 1
        routers = a * groups
        if p != routers * t:
            raise RoutingError(
                f"dragonfly: p must be a t (a h + 1) = {routers * t} for shape {self.shape}, got {brief(p)}"
            )
        self.p = p = int(p)
        self.name = f"dragonfly of {p}"
        self.nodes = p + routers
        self.places = np.arange(p)
        # The links of a router: to its processors, to the others of its group, and h to other groups.
        router = np.arange(routers)
        group, number = router // a, router % a
        others = (number[:, None] + np.arange(1, a)) % a + (group * a)[:, None]
        k = number[:, None] * h + np.arange(h)  # of a group's links to others
        far = (group[:, None] + k + 1) % groups
        back = (group[:, None] - far) % groups - 1  # the same link's number at its other end
        beyond = far * a + back // h
        heads = np.concatenate(((router * t)[:, None] + np.arange(t), p + others, p + beyond), axis=1)
        self._each = heads.shape[1]
        self.tails = np.concatenate((self.places, np.repeat(p + router, self._each)))
        self.heads = np.concatenate((p + self.places // t, heads.ravel()))
        self.gamma = max(1.0, (a * t) ** 2 / p)  # of the link between two groups, where all send anywhere
        self.diameter = 5 if a > 1 else 3  # of the routes between processors, and the most between two of the graph
        self.delta = float(self.diameter)

    @property
    def middles(self) -> Ints:
        """The routers."""
        return np.arange(self.p, self.nodes)

    def _where(self, node: Ints) -> Ints:
        """The router that a node is, or is joined to."""
        return np.where(node < self.p, node // self.shape[1], node - self.p)

    def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        a, t, h = self.shape
        here, there = self._where(at), self._where(to)
        group, number = np.divmod(here, a)
        k = (there // a - group) % self.groups - 1  # the group's link to the end's group; -1: it is the end's group
        nearer = np.where(k < 0, there % a, k // h)  # the router of this group that is next on the way
        link = np.where(
            nearer != number,
            t + (nearer - number) % a - 1,
            np.where(k < 0, to % t, t + a - 1 + k % h),
        )
        return np.where(at < self.p, at, self.p + here * self._each + link), state

    def distance(self, at: Ints, to: Ints, state: Ints) -> Ints:
        a, _, h = self.shape
        here, there = self._where(at), self._where(to)
        k, back = (there // a - here // a) % self.groups - 1, (here // a - there // a) % self.groups - 1
        within = (here != there).astype(np.int64)
        across = 1 + (here % a != k // h) + (there % a != back // h)
        ends = (at < self.p).astype(np.int64) + (to < self.p)
        return np.asarray(np.where(at == to, 0, ends + np.where(k < 0, within, across)))

    def channel(self, at: Ints, to: Ints, link: Ints, hops: Ints) -> Ints:
        a = self.shape[0]
        return np.asarray(self._where(self.heads[link]) // a == self._where(to) // a, np.int64)

    @property
    def bisection(self) -> int:
        """Edges of a division by groups: a bound. Of an odd number of groups the middle one is divided, so that the
        links between groups that its routers have go to their own side."""
        a, t, h = self.shape
        low, odd = divmod(self.groups, 2)
        middle = a // 2 * (a - a // 2) + a % 2 * (t // 2 + h // 2)
        return low * low + odd * middle
