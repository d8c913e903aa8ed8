"""Who sends how much to whom: the relations that supersteps are timed with, and programs are tried on.

All is a function of the point, p and the nodes alone, so it is equal on all processors and in an analysis later. What
is random has a seed made from the point itself.

    empty           nothing
    exchange        m messages from each to each other one
    permutation     m messages from each to the next on a random cycle through all
    sparse          m messages from each, each to somebody else at random
    shift           m messages from each to the one half of the processors further
    many-to-one     m messages from each other one to processor 0
    scatter         m messages from processor 0 to each other one
    senders-K       m messages from each of K processors, to K others
    few             m messages from each of a quarter of the processors, each to somebody at random
    halo            one message to each neighbour on a grid that wraps around, as a stencil sends them
    two-phase       a broadcast in two supersteps: a scatter of p parts, then each sends its part to all; the figures
                    are those of one superstep, the mean of the two
    sample-sort     to each other one a part whose size varies, as random splitters make them; `size` on average
    random          as sparse, of other sizes; nothing is fitted from it
    queue           m items from each, to all at random, through a queue
    queue-and-own   words of each, as items, to the next on a random cycle, and as many to itself
    put, get        one access of each to the next on the cycle
    pattern-get, pattern-put
                    the same by a pattern that has as many items of its own
    collective      each has something for each other one, as a collective sends it
    record          a sum of small vectors, in one superstep: each has one for each other
    gather          each other one has something for processor 0, as a collective sends it
    agreement       arrays are made and freed
    making          a pattern of so many words is made, and another freed
    note            a sum of small vectors that is started: each has one for each other
    riding          mail as of a permutation, beside which a sum of as many words rides
    pattern+note    values of a pattern instead of mail
    put+get, pattern+queue
                    both at once, of as many words
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp.errors import UsageError
from pybsp.machines.bsp import others_waited

from .samples import EXCHANGE, Point

WORD = 8  # bytes that the ledger counts as one
QUEUED = ("queue", "queue-and-own")  # patterns that go through queues
Whole = NDArray[np.int64]
SLEEPING = 5e-2  # seconds of computing that are long: who comes early sleeps meanwhile
# The shares of computing that half of the processors are spared, from so many seconds of it on: no program is even. So
# who comes early waits for 12 us to 0.3 ms, nearly 5 ms, and so long that it sleeps.
EARLY = ((SLEEPING, 0.5), (4e-3, 0.9), (0.0, 0.3))


def spared(delay: float) -> float:
    """Seconds that half of the processors compute less before a superstep, in turns, and wait for the others."""
    return next(share for least, share in EARLY if delay >= least) * delay


def waited(delay: float, p: int) -> float:
    """What processors wait so for one that computes the longest, mean over all but that one: as ledgers have it."""
    longer = spared(delay)
    return others_waited(longer, longer / 2, p)


class PatternRelation(NamedTuple):
    """What one superstep sends: for each pair of processors that has something, how many messages of how many bytes.

    Sorted by source, then destination; no pair twice, none with itself.
    """

    sources: Whole
    dests: Whole
    counts: Whole
    sizes: Whole

    def sends(self, pid: int) -> list[tuple[int, int, int]]:
        """What a processor sends: (destination, messages, bytes of each)."""
        mine = self.sources == pid
        rows = zip(self.dests[mine].tolist(), self.counts[mine].tolist(), self.sizes[mine].tolist(), strict=True)
        return list(rows)

    def words(self) -> Whole:
        """Words of each pair, as the ledger counts them."""
        return self.counts * -(-self.sizes // WORD)

    def per_processor(self, p: int, queued: bool = False) -> tuple[Whole, ...]:
        """Of each processor: words, messages and items of queues, each out and in.

        Args:
            p: processors.
            queued: whether all goes through a queue: what one sends to another is one message then.
        """
        nothing = np.zeros_like(self.counts)
        messages, items = (nothing + 1, self.counts) if queued else (self.counts, nothing)
        return tuple(
            np.bincount(index, values, p).astype(np.int64)
            for values in (self.words(), messages, items)
            for index in (self.sources, self.dests)
        )


EMPTY = PatternRelation(*np.zeros((4, 0), np.int64))


class NodeTraffic(NamedTuple):
    """What supersteps of several processors a node are charged for; words.

    h_intra, h_inter: that one processor sends or receives, at most, within its node and beyond.
    node: that one node sends to others or receives from them, at most.
    """

    h_intra: float
    h_inter: float
    node: float


def relations(point: Point, p: int, nodes: Sequence[int] | None = None) -> tuple[PatternRelation, ...]:
    """The relations of a point's successive supersteps: one, unless the pattern is an algorithm of several.

    Args:
        point: of it count the pattern, where, size and messages.
        p: processors.
        nodes: the node of each processor; needed where the point is within or between nodes.

    Raises:
        UsageError: no such pattern, or nodes that are missing.
    """
    where = "" if point.where == EXCHANGE else point.where
    if where and nodes is None:
        raise UsageError(
            f"relations: argument nodes: a point {point.where!r} needs the node of each of the {p} processors, got None"
        )
    return _relations(point.pattern, where, point.size, point.messages, p, tuple(nodes or ()))


def counted(point: Point, p: int, nodes: Sequence[int] | None = None) -> Point:
    """The point with h_out, h_in, M, busiest and items as its relations have them: counted, by no formula.

    Raises:
        UsageError: as `relations`; or an algorithm whose supersteps have no whole mean.
    """
    steps = relations(point, p, nodes)
    totals = [0] * 5
    for step in steps:
        out, into, sent, received, put, got = step.per_processor(p, point.pattern in QUEUED)
        figures = (out.max(), into.max(), out.sum(), max(sent.max(), received.max()), max(put.max(), got.max()))
        totals = [total + int(figure) for total, figure in zip(totals, figures, strict=True)]
    if any(total % len(steps) for total in totals):
        raise UsageError(f"counted: {point.pattern} of {point.size} bytes on {p} processors has no whole mean {totals}")
    h_out, h_in, M, busiest, items = (total // len(steps) for total in totals)
    if point.pattern == "pattern+queue" and p > 1:
        items = point.size // WORD  # beside what goes by the pattern
    return point._replace(h_out=h_out, h_in=h_in, M=M, busiest=busiest, items=items)


def traffic(point: Point, p: int, nodes: Sequence[int]) -> NodeTraffic:
    """What a superstep of the point sends within and between nodes (the mean of its supersteps, where several)."""
    place = np.asarray(nodes)
    found = np.zeros(3)
    steps = relations(point, p, nodes)
    for step in steps:
        words = step.words()
        crosses = place[step.sources] != place[step.dests]
        for index, part in enumerate((words * ~crosses, words * crosses)):
            found[index] += max(np.bincount(end, part, p).max() for end in (step.sources, step.dests))
        found[2] += max(np.bincount(place[end], words * crosses).max(initial=0) for end in (step.sources, step.dests))
    return NodeTraffic(*(found / len(steps)).tolist())


# -- the patterns ----------------------------------------------------------------------------------------------------


class _Terms(NamedTuple):
    """What a pattern is made from: m, the size, p, and a generator that all processors have alike."""

    m: int
    size: int
    p: int
    rng: np.random.Generator


_Pairs = tuple[Whole, Whole]


@lru_cache(maxsize=512)
def _relations(
    pattern: str, where: str, size: int, m: int, p: int, nodes: tuple[int, ...]
) -> tuple[PatternRelation, ...]:
    seed = zlib.crc32(f"{pattern} {where} {size} {m} {p}".encode())
    terms = _Terms(m, size, p, np.random.default_rng(seed))
    if where and pattern != "empty":
        return (_between(_classes(where, np.asarray(nodes)), m, size),)
    if pattern.startswith("senders-") and pattern[8:].isdecimal():
        return _senders(terms, int(pattern[8:]))
    if pattern not in _PATTERNS:
        raise UsageError(f"relations: argument point: expected a pattern of {', '.join(_PATTERNS)}, got {pattern!r}")
    return _PATTERNS[pattern](terms)


def _between(pairs: _Pairs, counts: Whole | int, sizes: Whole | int) -> PatternRelation:
    """A relation of pairs that are sorted and different."""
    sources, dests = pairs
    return PatternRelation(
        sources,
        dests,
        np.broadcast_to(np.asarray(counts, np.int64), sources.shape),
        np.broadcast_to(np.asarray(sizes, np.int64), sources.shape),
    )


def _of(matrix: NDArray[np.bool_]) -> _Pairs:
    sources, dests = np.nonzero(matrix)
    return sources.astype(np.int64), dests.astype(np.int64)


def _empty(terms: _Terms) -> tuple[PatternRelation, ...]:
    return (EMPTY,)


def _exchange(terms: _Terms) -> tuple[PatternRelation, ...]:
    return (_between(_of(~np.eye(terms.p, dtype=bool)), terms.m, terms.size),)


def _to(dests: Whole, terms: _Terms) -> tuple[PatternRelation, ...]:
    """Each sends to one other."""
    sources = np.arange(terms.p)
    others = dests != sources
    return (_between((sources[others], dests[others]), terms.m, terms.size),)


def _permutation(terms: _Terms) -> tuple[PatternRelation, ...]:
    cycle = terms.rng.permutation(terms.p)
    dests = np.empty(terms.p, np.int64)
    dests[cycle] = np.roll(cycle, -1)
    return _to(dests, terms)


def _twice(terms: _Terms) -> tuple[PatternRelation, ...]:
    (relation,) = _permutation(terms)
    return (relation._replace(counts=2 * relation.counts),)


def _riding(terms: _Terms) -> tuple[PatternRelation, ...]:
    """A permutation, beside which each tells each other one as much."""
    (mail,) = _permutation(terms)
    (notes,) = _exchange(terms)
    twice = np.isin(notes.sources * terms.p + notes.dests, mail.sources * terms.p + mail.dests)
    return (notes._replace(counts=notes.counts + twice * terms.m),)


def _items(terms: _Terms) -> tuple[PatternRelation, ...]:
    (relation,) = _permutation(terms)
    items = np.full_like(relation.counts, terms.size // WORD)
    return (relation._replace(counts=items, sizes=np.full_like(items, WORD)),)


def _shift(terms: _Terms) -> tuple[PatternRelation, ...]:
    return _to((np.arange(terms.p) + terms.p // 2) % terms.p, terms)


def _sparse(terms: _Terms) -> tuple[PatternRelation, ...]:
    return _to_others(np.arange(terms.p), terms)


def _to_others(senders: Whole, terms: _Terms) -> tuple[PatternRelation, ...]:
    """Each message goes to somebody else than its sender, at random; nowhere where there is nobody else."""
    sources = np.repeat(senders, terms.m)
    ahead = terms.rng.integers(1, terms.p, sources.size) if terms.p > 1 else 0
    return (_counted_pairs(sources, (sources + ahead) % terms.p, 1, terms),)


def _counted_pairs(sources: Whole, dests: Whole, each: int, terms: _Terms) -> PatternRelation:
    """Pairs that may be there several times, and stand for so many messages each time; none with itself counts."""
    matrix = np.zeros((terms.p, terms.p), np.int64)
    np.add.at(matrix, (sources, dests), each)
    np.fill_diagonal(matrix, 0)
    return _between(_of(matrix > 0), matrix[matrix > 0], terms.size)


def _many_to_one(terms: _Terms) -> tuple[PatternRelation, ...]:
    sources = np.arange(1, terms.p)
    return (_between((sources, np.zeros_like(sources)), terms.m, terms.size),)


def _scatter(terms: _Terms) -> tuple[PatternRelation, ...]:
    dests = np.arange(1, terms.p)
    return (_between((np.zeros_like(dests), dests), terms.m, terms.size),)


def _senders(terms: _Terms, senders: int) -> tuple[PatternRelation, ...]:
    if not 1 <= senders <= terms.p // 2:
        raise UsageError(f"relations: argument point: expected senders-1 to senders-{terms.p // 2}, got {senders}")
    sources = np.arange(senders)
    return (_between((sources, sources + terms.p // 2), terms.m, terms.size),)


def _few(terms: _Terms) -> tuple[PatternRelation, ...]:
    return _to_others(terms.rng.permutation(terms.p)[: max(1, terms.p // 4)], terms)


def grid(p: int) -> tuple[int, int]:
    """Rows and columns of the squarest grid of p processors."""
    rows = next(side for side in range(math.isqrt(p), 0, -1) if p % side == 0)
    return rows, p // rows


def _halo(terms: _Terms) -> tuple[PatternRelation, ...]:
    rows, columns = grid(terms.p)
    pid = np.arange(terms.p)
    row, column = np.divmod(pid, columns)
    near = [((row + dr) % rows) * columns + (column + dc) % columns for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    return (_counted_pairs(np.tile(pid, 4), np.concatenate(near), terms.m, terms),)


def _two_phase(terms: _Terms) -> tuple[PatternRelation, ...]:
    return *_scatter(terms), *_exchange(terms)


def _sample_sort(terms: _Terms) -> tuple[PatternRelation, ...]:
    # p parts of p*p*size bytes in whole words, by p - 1 splitters out of a sample of 8 from each processor.
    p, words = terms.p, max(1, terms.size // WORD)
    sample = np.sort(terms.rng.random(8 * p))
    cuts = np.concatenate([[0.0], sample[7::8][: p - 1], [1.0]])
    shares = terms.rng.multinomial(p * words, np.diff(cuts), size=p)
    np.fill_diagonal(shares, 0)
    return (_between(_of(shares > 0), 1, shares[shares > 0] * WORD),)


_PATTERNS: dict[str, Callable[[_Terms], tuple[PatternRelation, ...]]] = {
    "empty": _empty,
    "exchange": _exchange,
    "permutation": _permutation,
    "sparse": _sparse,
    "shift": _shift,
    "many-to-one": _many_to_one,
    "scatter": _scatter,
    "few": _few,
    "halo": _halo,
    "two-phase": _two_phase,
    "sample-sort": _sample_sort,
    "random": _sparse,
    "queue": _sparse,
    "queue-and-own": _items,
    **dict.fromkeys(("put", "get", "pattern-get", "pattern-put"), _permutation),
    **dict.fromkeys(("record", "collective", "note"), _exchange),
    **dict.fromkeys(("agreement", "making"), _empty),
    "gather": _many_to_one,
    **dict.fromkeys(("put+get", "pattern+queue"), _twice),
    **dict.fromkeys(("riding", "pattern+note"), _riding),
}


def _classes(where: str, nodes: Whole) -> _Pairs:
    """Pairs within nodes; between one processor of each node; or between nodes, each with those of its rank there."""
    together = nodes[:, None] == nodes[None, :]
    rank = np.array([np.count_nonzero(nodes[:pid] == node) for pid, node in enumerate(nodes)])
    if where == "intra":
        return _of(together & ~np.eye(nodes.size, dtype=bool))
    if where == "inter":
        return _of(~together & (rank[:, None] == 0) & (rank[None, :] == 0))
    if where == "inter-all":
        return _of(~together & (rank[:, None] == rank[None, :]))
    raise UsageError(f'relations: argument point: expected where to be "intra", "inter" or "inter-all", got {where!r}')
