"""Broadcast of c pieces to c groups: 2D-BCAST(c, P) of pieces of a long value.

2D-BCAST spreads k >= P words over all processors, each of which then sends to all: 2(P-1) messages. With c pieces, each
of which goes down a tree in a group of P/c processors, they are 2(c-1) and those of the tree: where a message costs
much beside its words, c near sqrt(P) takes a fraction of them, for at most half as many words again.

    1. The root, in group 0, sends piece j to the first processor of group j.
    2. That broadcasts it in its group, down a tree.
    3. Each processor gets the other pieces from those with its place in the other groups.

With c = k it is case 2 of 2D-BCAST(k, P), with c = 1 a tree.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import dissemination, tree
from .blocks import begins
from .counted.broadcast_groups import counted
from .dissemination import Copy
from .plan import Plan, Step, joined
from .primitive import Call

Ints = NDArray[np.int64]


@lru_cache(maxsize=64)
def plan(p: int, k: int, c: int, degree: int, root: int = 0) -> Plan:
    """Who sends which of the k words to whom; c is at most p and k."""
    # Processors count from the root.
    return joined(p, (step.from_root(p, root) for step in steps(p, k, c, degree)))


def steps(p: int, k: int, c: int, degree: int) -> list[Step]:
    """The supersteps from root 0."""
    start, words = begins(p, c), begins(k, c)
    sizes, piece = np.diff(start), np.arange(c)
    found = []
    # 1. The root sends piece j to the first processor of group j.
    if c > 1:
        found.append(Step.of(0, start[:-1], words[:-1], words[1:]))
    # 2. Each of these broadcasts its piece in its group; all trees go down together.
    for level in reversed(range(tree.height(int(sizes.max()), degree))):
        edges = [start[j] + np.stack(tree.edges(int(sizes[j]), degree, level)) for j in range(c)]
        of = np.repeat(piece, [pairs.shape[1] for pairs in edges])
        parents, children = np.concatenate(edges, axis=1)
        found.append(Step.of(parents, children, words[of], words[of + 1]))
    # 3. Each processor sends its piece to those of the other groups with its place in the group. A place that a smaller
    # group lacks is served by its members in turn.
    if c > 1:
        group = np.repeat(piece, sizes)
        place = np.arange(p) - start[group]
        receiver, of = np.repeat(np.arange(p), c), np.tile(piece, p)
        at = place[receiver]
        at = np.where(at < sizes[of], at, group[receiver] % sizes[of])
        needing = (receiver > 0) & (of != group[receiver])  # the root has all
        sender, receiver, of = (start[of] + at)[needing], receiver[needing], of[needing]
        found.append(Step.of(sender, receiver, words[of], words[of + 1]))
    return found


def pieces(p: int, k: int) -> list[int]:
    """The numbers of pieces worth a thought.

    Up to 2 sqrt(p) all; beyond, of those with groups of one size, the fewest and the most.
    """
    few = math.isqrt(4 * p)
    ends = {end for size in range(1, p // few + 2) for end in (-(-p // size), p // size)}
    return sorted(c for c in {*range(2, few + 1), *ends} if 2 <= c <= min(p, k))


@lru_cache(maxsize=1024)
def degrees(p: int) -> tuple[int, ...]:
    """The degrees worth a thought for trees of p: of each height the smallest."""
    heights = range(1, max(tree.height(p, 2), 1) + 1)
    return tuple(min(d for d in range(2, max(p, 2) + 1) if tree.height(p, d) <= height) for height in heights)


@lru_cache(maxsize=1024)
def choose(machine: Machine, k: int, degree: int | None = None) -> tuple[int, int]:
    """How many pieces, and the degree of the trees, that cost least for k words; (1, degree): nothing to be cut."""
    p = machine.p
    candidates = [(c, d) for c in pieces(p, k) or [1] for d in ((degree,) if degree else degrees(-(-p // c)))]
    return min(candidates, key=lambda by: Cost(machine, counted(p, k, *by)).seconds)


def run(call: Call, copy: Copy, root: int) -> Supersteps[None]:
    """Follow the plan, from where this processor has something of the value."""
    yield from dissemination.follow(call, copy, plan(call.bsp.p, copy.words, *copy.envelope.by, root))
