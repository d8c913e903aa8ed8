"""The (N, d)-multibutterfly with random splitters (*Deterministic Routing of h-relations on the Multibutterfly*)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import RoutingError, UsageError, brief
from ...ground.convert import is_whole
from ..relation import Relation
from ..seeds import generator

Ints = NDArray[np.int64]
Narrow = NDArray[np.int32]

SWEEPS = 4  # of swaps, over the edges of a splitter


class Multibutterfly:
    """N rows, log N + 1 columns of nodes (r, c), and 2^c splitters between the columns c and c + 1.

    Each input of a splitter has d edges to upper outputs (rows of the block's first half) and d to lower ones; each
    output has 2d. The d edges of an input to a side go to d outputs; where there are fewer than d of them they are
    parallel, to each output as many as to each other, or one more.

    Args:
        N: rows, a power of two.
        d: a positive whole number.
        seed: of the random splitters; equal ones give equal networks.

    Attributes:
        heads: of edge e = side*d + k of node (r, c) the row of its end in column c + 1, at [c, r, e]; shape
            (log N, N, 2d). Side 0 is the upper. The edges k of all inputs of a splitter to a side end at all its
            outputs, at each twice: they are one of the d butterflies that make up the network.

    Raises:
        RoutingError: N is no power of two.
        UsageError: d is no whole number from 1 on.

    Cost: O(d^2 N log N) time, O(d N log N) space.

    Source: section 2; Upfal, *An O(log N) deterministic packet-routing scheme* (1992).

    Examples:
        >>> from pybsp.routing.multibutterfly import Multibutterfly
        >>> network = Multibutterfly(N=16, d=4, seed=1)
        >>> network.heads.shape, network.splitter(0, 0).shape
        ((4, 16, 8), (2, 16, 4))
    """

    def __init__(self, N: int, d: int, seed: int = 0) -> None:
        if not is_whole(N):
            raise RoutingError(f"Multibutterfly: N must be a whole number, a power of two, got {brief(N)}")
        if N < 1 or N & (N - 1):
            below = 1 << max(N, 1).bit_length() - 1
            raise RoutingError(f"Multibutterfly: N must be a power of two, got {N}; {below} and {2 * below} would fit")
        if not is_whole(d, 1):
            raise UsageError(f"Multibutterfly: d: expected a whole number from 1 on, got {brief(d)}")
        self.N, self.d, self.seed = int(N), int(d), seed
        self.n = self.N.bit_length() - 1
        rng = generator("multibutterfly", seed)
        self.heads: Narrow = np.empty((self.n, N, 2 * d), np.int32)
        for c in range(self.n):
            width = N >> c
            first = np.arange(1 << c) * width  # row of each splitter
            for side in range(2):
                ends = _side(1 << c, width // 2, d, rng) + (first + side * width // 2)[:, None, None]
                self.heads[c, :, side * d : (side + 1) * d] = ends.reshape(N, d)

    def __repr__(self) -> str:
        return f"Multibutterfly(N={self.N}, d={self.d}, seed={self.seed})"

    @cached_property
    def inward(self) -> Narrow:
        """Of in-edge j of node (r, c + 1) its tail, as tail row * 2d + e, at [c, r, j]; by that; shape of `heads`."""
        ends = self.heads.reshape(self.n, self.N * 2 * self.d)
        return np.argsort(ends, axis=1, kind="stable").astype(np.int32).reshape(self.heads.shape)

    def splitter(self, c: int, j: int = 0) -> Narrow:
        """Splitter j of those between columns c and c + 1: the output, 0 to N/2^(c+1) - 1, of edge k of input i.

        Returns:
            At [side, i, k]; shape (2, N/2^c, d).
        """
        width = self.N >> c
        ends = self.heads[c, j * width : (j + 1) * width].reshape(width, 2, self.d).swapaxes(0, 1)
        relative: Narrow = ends - ends.min(axis=(1, 2), keepdims=True)
        return relative


def _side(splitters: int, outputs: int, d: int, rng: np.random.Generator) -> Ints:
    """The edges of random splitters to one of their sides: outputs, shape (splitters, 2 outputs, d)."""
    inputs = np.arange(2 * outputs)
    d_whole = d - d % outputs
    whole = np.broadcast_to((inputs[:, None] + np.arange(d_whole)) % outputs, (splitters, 2 * outputs, d_whole))
    return np.concatenate((whole, _simple(splitters, outputs, d % outputs, rng)), axis=2)


def _simple(splitters: int, outputs: int, d: int, rng: np.random.Generator) -> Ints:
    """The same for d <= outputs, without parallel edges.

    From shifts, drawn for each half of the inputs put in random order, by random swaps: two inputs exchange the ends of
    their edges k, unless then edges were parallel.
    """
    shape = (splitters, 2 * outputs)
    place = np.argsort(rng.random(shape), axis=1)
    shifts = np.argsort(rng.random((splitters, 2, outputs)), axis=2)[:, :, :d]
    ends: Ints = (place % outputs)[:, :, None] + np.take_along_axis(shifts, (place // outputs)[:, :, None], axis=1)
    ends = (ends % outputs).reshape(splitters * 2 * outputs, d)
    first = np.arange(splitters)[:, None] * 2 * outputs
    for _ in range(SWEEPS):
        for k in range(d):
            pairs = (np.argsort(rng.random(shape), axis=1) + first).reshape(-1, 2)
            a, b = pairs.T
            new_a, new_b = ends[b, k], ends[a, k]
            parallel = (ends[a] == new_a[:, None]).any(axis=1) | (ends[b] == new_b[:, None]).any(axis=1)
            ends[a, k], ends[b, k] = np.where(parallel, new_b, new_a), np.where(parallel, new_a, new_b)
    return ends.reshape(*shape, d)


def share(relation: Relation, L: int) -> Relation:
    """Processors that share ports, L to each: an h-relation of p as an hL-relation of the p/L ports.

    Returns:
        The relation of ceil(p/L) ports, in which processor i is part of port floor(i/L).

    Raises:
        UsageError: L below 1.

    Source: section 3, "The case when all input/output ports are active".

    Examples:
        >>> from pybsp.routing import relations
        >>> from pybsp.routing.multibutterfly import share
        >>> shared = share(relations.permutation(8), L=4)
        >>> shared.p, shared.h
        (2, 4)
    """
    if not isinstance(L, (int, np.integer)) or L < 1:
        raise UsageError(f"share: L: expected a whole number of at least 1, got {brief(L)}")
    return Relation(relation.sources // L, relation.destinations // L, -(-relation.p // L))
