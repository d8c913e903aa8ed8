"""2D-BCAST(k, P): many words from one processor to all (*Communication primitives for BSP computers*, section 3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..bsp import BSP
from ..cost import Cost, Machine, Superstep
from ..rides import Supersteps
from . import dissemination, tree
from .plan import Plan, Step, joined
from .primitive import integer, primitive, processor


@lru_cache(maxsize=64)
def plan(p: int, k: int, degree: int = 2, root: int = 0) -> Plan:
    """Who sends which of the k words to whom; `degree` is that of the trees of case 2."""
    processor("broadcast_items.plan", "root", root, p)
    k = integer("broadcast_items.plan", "k", k, 0)
    if k >= p:
        steps = _many(p, k)
    elif k > 0:
        steps = _few(p, k, degree)
    else:
        # Nothing to spread: the tree says so to all.
        steps = [Step.of(*tree.edges(p, degree, level), 0, 0) for level in reversed(range(tree.height(p, degree)))]
    # Processors count from the root.
    rotated = [Step.of((s.sources + root) % p, (s.destinations + root) % p, s.first, s.last) for s in steps]
    return joined(p, rotated)


def _many(p: int, k: int) -> list[Step]:
    """Case 1, k >= P."""
    if p == 1:
        return []
    block = -(-k // p)
    holders = np.arange(-(-k // block))
    first = holders * block
    last = np.minimum(first + block, k)
    # (1)i. Processor 0 keeps the first ceil(k/P) words and sends word j to processor j div ceil(k/P).
    scattered = Step.of(0, holders, first, last)
    # (1)ii. Each processor sends what it holds to every other one; the root, which has all, needs none.
    others = np.arange(1, p)
    exchanged = Step.of(
        np.repeat(holders, p - 1), np.tile(others, holders.size), np.repeat(first, p - 1), np.repeat(last, p - 1)
    )
    return [scattered, exchanged]


def _few(p: int, k: int, degree: int) -> list[Step]:
    """Case 2, k < P: k groups of consecutive processors, whose sizes differ by at most one."""
    start = np.arange(k + 1) * p // k
    sizes = np.diff(start)
    word = np.arange(k)
    steps = []
    # (2)i. Processor 0 sends word j to the first processor of group j.
    if k > 1:
        steps.append(Step.of(0, start[:-1], word, word + 1))
    # (2)ii. Each of these broadcasts its word in its group; all trees go down together.
    for level in reversed(range(tree.height(int(sizes.max()), degree))):
        edges = [(start[j] + np.stack(tree.edges(int(sizes[j]), degree, level)), j) for j in range(k)]
        steps.append(
            Step.of(
                np.concatenate([pair[0] for pair, _ in edges]),
                np.concatenate([pair[1] for pair, _ in edges]),
                (words := np.concatenate([np.full(pair.shape[1], j) for pair, j in edges])),
                words + 1,
            )
        )
    # (2)iii. Each processor sends its word to those of the other groups with its place in the group. A place that a
    # smaller group lacks is served by its members in turn.
    if k > 1:
        group = np.repeat(word, sizes)
        place = np.arange(p) - start[group]
        receiver, word_of = np.repeat(np.arange(p), k), np.tile(word, p)
        at = place[receiver]
        lacking = at >= sizes[word_of]
        at = np.where(lacking, group[receiver] % sizes[word_of], at)
        needing = receiver > 0  # the root has all
        sender, word_of = (start[word_of] + at)[needing], word_of[needing]
        steps.append(Step.of(sender, receiver[needing], word_of, word_of + 1))
    return steps


@lru_cache(maxsize=4096)
def counted(p: int, k: int, degree: int) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, without making it: it has up to p^2 messages.

    Locality is the largest there can be.
    """
    far = p - 1
    if p == 1:
        return ()
    if k >= p:
        block = -(-k // p)
        holders = -(-k // block)
        rest = k - (holders - 1) * block  # what the last of them holds
        scattered = Superstep(k - block, block if holders > 2 else rest, holders - 1, k - block, 0.0, far)
        into = k if holders < p else k - rest
        out = block * (p - 1)
        return scattered, Superstep(out, into, p - 1, out + (k - block) * (p - 2), 0.0, far)
    if k == 0:
        return plan(p, k, degree).counted(1)
    sizes = np.diff(np.arange(k + 1) * p // k)
    low, most = int(sizes.min()), int(sizes.max())
    steps = []
    if k > 1:
        steps.append(Superstep(k - 1, 1, k - 1, k - 1, 0.0, far))
    for level in reversed(range(tree.height(most, degree))):
        groups = -(-sizes // degree**level)
        sent = int((groups - -(-groups // degree)).sum())
        fan = min(degree, -(-most // degree**level)) - 1
        steps.append(Superstep(fan, 1, fan, sent, 0.0, far))
    if k > 1:
        # A member of a group serves those with its place in the other groups (not the root), and in a smaller group
        # some of those that have a place which the group lacks.
        large = np.flatnonzero(sizes > low)
        lacking = np.bincount(large % low, minlength=low) if large.size else np.zeros(low, np.int64)
        serves = k - 1 + lacking
        serves[0] -= 0 if sizes[0] == low else 1
        out = max(int(serves.max()), k - 1)
        steps.append(Superstep(out, k - 1, out, (p - 1) * (k - 1), 0.0, far))
    return tuple(steps)


@lru_cache(maxsize=1024)
def choose(machine: Machine, words: int) -> int:
    """The degree of the trees that costs least on the machine."""
    p = machine.p
    if words >= p:
        return 2  # case 1 has no trees
    degrees = tree.degrees(-(-p // max(words, 1)))  # of the largest group
    return min(degrees, key=lambda degree: Cost(machine, counted(p, words, degree)).seconds)


def cost(machine: Machine, words: int = 1) -> Cost:
    """What 2D-BCAST costs for so many words, exactly, from any root."""
    words = integer("broadcast_items.cost", "words", words, 0)
    return Cost(machine, counted(machine.p, words, choose(machine, words)))


@primitive(cost, plan)
def broadcast_items(bsp: BSP, items: Any, root: int = 0) -> Supersteps[Any]:
    """Give all processors the items of one, by spreading them over the processors first; collective.

    Args:
        bsp: the processor.
        items: root only (ignored elsewhere): an array of any shape and dtype, or any picklable object, which goes as
            its pickle. It is cut into words, so k is its size in words.
        root: whose items; equal on all processors.

    Returns:
        On the root its own object (of a read-only array a copy); elsewhere an array or object of its own, which may be
        written to.

    Raises:
        UsageError: root is no processor, or differs; items that cannot be pickled.

    BSP cost: k >= p: 2 supersteps, h = k - ceil(k/p) and ceil(k/p)*(p-1). k < p: two supersteps of h < 2k and a tree
    over p/k processors between them; the degree of the tree is the cheapest. `broadcast` takes this or a tree of whole
    values, whichever costs less.

    Source: *Communication primitives for BSP computers*, section 3, algorithm 2D-BCAST(k, P).

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.broadcast_items(bsp, np.arange(6.0) if bsp.pid == 0 else None).sum().item()
        >>> pybsp.simulate(main, p=4).results
        [15.0, 15.0, 15.0, 15.0]
    """
    root = processor("broadcast_items", "root", root, bsp.p)

    def choice(words: int, _: bool) -> tuple[str, int]:
        return "spread", choose(bsp.machine, words)

    return (
        yield from dissemination.run(
            bsp, "broadcast_items", items, root, None, choice, lambda _, degree, words: plan(bsp.p, words, degree, root)
        )
    )
