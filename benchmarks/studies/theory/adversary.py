"""Relations that are hard for a multibutterfly, and the set of relations with which it is studied."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pybsp.routing.multibutterfly import Multibutterfly
from pybsp.routing.relation import Relation
from pybsp.routing.relations import bit_reversal, permutation, random_relation, transpose

from .expansion import worst


def shifted(p: int, h: int) -> Relation:
    """All h packets of processor i go to i + floor(p/2): of each input of the first splitters, all to one side."""
    sources = np.repeat(np.arange(p), h)
    return Relation(sources, (sources + p // 2) % p, p)


def funnel(p: int, h: int, k: int) -> Relation:
    """Every processor sends floor(h/k) packets, all to the first floor(p/k): few destinations in a subtree."""
    sources = np.repeat(np.arange(p), h // k)
    return Relation(sources, np.arange(len(sources)) % max(p // k, 1), p)


def crossed(p: int, h: int, k: int) -> Relation:
    """The first p/k processors send h packets each to the last p/k in reverse order: one block of rows to another."""
    sources = np.repeat(np.arange(max(p // k, 1)), h)
    return Relation(sources, p - 1 - sources, p)


def colliding(network: Multibutterfly, L: int, h: int) -> Relation:
    """Half the ports send h packets each to the upper half of the rows, the others to the lower one: a full h-relation.

    The former are chosen greedily, given the splitter: each next has the most edges to outputs that had one neighbour.
    """
    p = network.N // L
    if p == 1:
        return shifted(p, h)
    half = -(-network.N // 2 // L)  # ports in the upper rows
    side = network.splitter(0)[0][: p * L : L]
    up = np.zeros(1, np.int64)
    while len(up) < half:
        up = np.append(up, worst(side, up, by_beta=False))
    sources = np.concatenate((up, np.setdiff1d(np.arange(p), up)))
    return Relation(np.repeat(sources, h), np.repeat(np.arange(p), h), p)


def cases(network: Multibutterfly, L: int, h: int, seed: int = 0) -> Iterator[tuple[str, Relation]]:
    """Relations of the N/L ports by name: random ones, and hard ones."""
    p = network.N // L
    yield "random permutation, h times", permutation(p, h, seed)
    yield "random h-relation", random_relation(p, h, seed)
    if not p & (p - 1):
        yield "bit reversal", bit_reversal(p, h)
    if math.isqrt(p) ** 2 == p:
        yield "transpose", transpose(p, h)
    yield "shifted by p/2", shifted(p, h)
    yield "all to few of a subtree", funnel(p, h, min(h, 4))
    yield "a block to a block", crossed(p, h, 4)
    yield "colliding", colliding(network, L, h)
