"""An h-relation as h 1-relations: edge colouring of a bipartite multigraph.

By Hall's theorem any h-relation falls apart into h partial permutations (*BSP vs LogP*, section 4.2).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..compiled import kernels
from ..errors import UsageError, brief, usage_error
from ..ground.convert import is_whole
from ..processes.process import MOST_PROCESSORS

Ints = NDArray[np.int64]

CACHED = 1 << 15  # edges that one works on fastest


def decompose(sources: ArrayLike, destinations: ArrayLike, p: int) -> Ints:
    """The 1-relation of each message of an h-relation.

    Args:
        sources, destinations: of message i, integers 0 to p - 1, shape (m,). A source may be its own destination.
        p: processors.

    Returns:
        Shape (m,): numbers 0 to h - 1, where h is the maximum number of messages from or to one processor. No two
        messages of one number share a source or a destination. Equal arguments give equal results, in every process.

    Raises:
        UsageError: no integers, other shapes, or numbers that are no processor's.

    Cost: O(m log h) for the splits, and O(n log n) expected, n <= 2m/h + 2, for each 1 in the binary form of h.

    Source: Hall's theorem, by splitting along Euler cycles as in Gabow, *Using Euler partitions to edge color bipartite
    multigraphs* (1976), with the perfect matchings of Goel, Kapralov and Khanna, *Perfect matchings in O(n log n) time
    in regular bipartite graphs* (2010).

    Examples:
        >>> from pybsp.routing import decompose
        >>> decompose([0, 0, 1, 1], [0, 1, 0, 1], p=2).tolist()
        [0, 1, 1, 0]
    """
    out, into = relation("decompose", sources, destinations, p)
    if not len(out):
        return np.empty(0, np.int64)

    # 1. Processors that have few messages are taken together, so that n*h is at most 2(m + h).
    sent, received = np.bincount(out, minlength=p), np.bincount(into, minlength=p)
    h = int(max(sent.max(), received.max()))
    rows, columns = _together(sent, h), _together(received, h)
    n = 1 + int(max(rows[-1], columns[-1]))
    order, pair = _sorted(rows[out] * n + columns[into], n * n)
    new = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]])
    copies = np.diff(np.r_[new, len(pair)])

    # 2. Dummies make it h from, and h to, all of the n.
    edges = Edges(*np.divmod(pair[new], n), copies)
    lacking = [h - np.bincount(*each, n).astype(np.int64) for each in ((rows, sent), (columns, received))]
    if lacking[0].any():
        edges = _joined(edges, _dummies(*lacking))

    # 3. The messages of a pair take the colours of the pair, in order.
    coloured = _colour(edges, n, h)
    ranks, pairs = _sorted(coloured.row * n + coloured.column, n * n)
    if len(ranks) > len(out):  # without dummies
        first = np.searchsorted(pairs, pair[new])
        ranks = ranks[np.repeat(first - new, copies) + np.arange(len(out))]
    colours = np.empty(len(out), np.int64)
    colours[order] = coloured.copies[ranks]
    return colours


def relation(operation: str, sources: ArrayLike, destinations: ArrayLike, p: int) -> tuple[Ints, Ints]:
    """These as arrays of equal length; UsageError as `decompose` has it."""
    if not is_whole(p, 1) or p > MOST_PROCESSORS:
        raise UsageError(f"{operation}: p must be a whole number from 1 to {MOST_PROCESSORS}, got {brief(p)}")
    arrays = []
    for name, given in (("sources", sources), ("destinations", destinations)):
        numbers = regular(operation, name, given)
        if numbers.ndim != 1 or not (numbers.dtype.kind in "iu" or numbers.size == 0):
            raise UsageError(
                f"{operation}: {name} must be integers of shape (m,), got {numbers.dtype} of shape {numbers.shape}"
            )
        wrong = (numbers < 0) | (numbers >= p)
        if wrong.any():
            raise usage_error(f"{operation}: {name}", f"processors 0 to {p - 1}", numbers[wrong][0])
        arrays.append(numbers.astype(np.int64))
    out, into = arrays
    if len(out) != len(into):
        raise usage_error(operation, f"as many destinations as sources, {len(out)}", len(into))
    return out, into


def regular(operation: str, argument: str, given: ArrayLike) -> NDArray[Any]:
    """An argument as an array; UsageError where its rows differ in length."""
    try:
        return np.asarray(given)
    except ValueError as error:
        expected = "an array, or lists of equal lengths"
        raise usage_error(f"{operation}: {argument}", expected, brief(given)) from error


def _sorted(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """The stable order of numbers from 0 to bound - 1, and the numbers in it."""
    bits, places = (bound - 1).bit_length(), len(keys).bit_length()
    kernel = _kernel(len(keys))
    if kernel is None or bits + places > 64:
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
    order, found = np.empty((2, len(keys)), np.int64)
    kernel.stable_order(np.ascontiguousarray(keys), order, found, bits, places)
    return order, found


def _kernel(size: int) -> ModuleType | None:
    """The compiled kernels, which number so many edges by 32 bits."""
    return kernels() if size < 1 << 31 else None


class Edges(NamedTuple):
    """Edges of a bipartite multigraph, sorted by row; in `_colour`'s result each is single, and `copies` its colour."""

    row: Ints
    column: Ints
    copies: Ints


def _together(messages: Ints, h: int) -> Ints:
    """A group for each processor, such that no group has more than h messages, and two adjacent ones have."""
    ends = np.cumsum(messages)
    steps = ends.tolist()
    starts = [0]
    before = 0
    while (start := bisect_right(steps, before + h)) < len(steps):
        starts.append(start)
        before = steps[start - 1]
    group = np.zeros(len(messages), np.int64)
    group[starts[1:]] = 1
    return np.cumsum(group)


def _dummies(rows: Ints, columns: Ints) -> Edges:
    """Edges with so many ends at each row and column (sums are equal): at most 2n distinct ones."""
    row_ends, column_ends = np.cumsum(rows), np.cumsum(columns)
    ends = np.union1d(row_ends, column_ends)
    ends = ends[ends > 0]
    return Edges(np.searchsorted(row_ends, ends), np.searchsorted(column_ends, ends), np.diff(ends, prepend=0))


def _joined(*parts: Edges) -> Edges:
    """All these edges, equal ones as one, sorted by row."""
    row, column, copies = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    pair = row * (1 + column.max(initial=0)) + column
    order, pair = _sorted(pair, int(pair.max(initial=0)) + 1)
    row, column, copies = row[order], column[order], copies[order]
    new = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]][: len(pair)])
    return Edges(row[new], column[new], np.add.reduceat(copies, new) if len(new) else copies)


def _colour(edges: Edges, n: int, degree: int) -> Edges:
    """Colours 0 to degree - 1 of a regular multigraph of n rows and n columns."""
    if degree & (degree - 1) == 0:
        return _halve_all(edges, degree)
    if degree % 2:
        # An odd degree: a perfect matching gets the last colour.
        matching = _matching(edges, n, degree)
        copies = edges.copies.copy()
        copies[matching] -= 1
        left = copies > 0
        rest = _colour(Edges(edges.row[left], edges.column[left], copies[left]), n, degree - 1)
        last = Edges(edges.row[matching], edges.column[matching], np.full(n, degree - 1))
        return Edges(*(np.concatenate(arrays) for arrays in zip(rest, last, strict=True)))
    # An even degree: of two halves, one is coloured; some of its colours then make the other's degree a power of two,
    # so that matchings are needed in the first alone.
    half, order = degree // 2, _sorted(edges.column, n)[0]
    whole = 1 << (half - 1).bit_length()
    halves, _, size = _halves(edges, order)
    first = _colour(Edges(*(array[:size] for array in halves)), n, half)
    staying = first.copies < degree - whole
    moved = Edges(first.row[~staying], first.column[~staying], np.ones(np.count_nonzero(~staying), np.int64))
    second = _halve_all(_joined(Edges(*(array[size:] for array in halves)), moved), whole)
    second = second._replace(copies=second.copies + degree - whole)
    return Edges(*(np.concatenate((array[staying], more)) for array, more in zip(first, second, strict=True)))


def _halve_all(edges: Edges, degree: int) -> Edges:
    """Colours of a regular multigraph whose degree is a power of two: halves of halves, all at a time."""
    order, left = _sorted(edges.column, int(edges.column.max(initial=0)) + 1)[0], degree
    size = int(edges.copies.sum())
    kernel = _kernel(size)
    if kernel is not None:
        origin, colour = np.empty((2, size), np.int64)
        kernel.halve_all(np.ascontiguousarray(edges.copies), order, degree, CACHED, origin, colour)
        return Edges(edges.row[origin], edges.column[origin], colour)
    while (edges.copies > 1).any():
        edges, order, _ = _halves(edges, order)
        left //= 2
    n = len(order) // degree
    colour = np.empty_like(order)
    colour[_matchings(order, n, left)] = np.arange(len(order)) // n
    return edges._replace(copies=colour)


def _matchings(order: Ints, n: int, degree: int) -> Ints:
    """Graphs without equal edges, whose degree is a power of two, as matchings, one after the other.

    Args:
        order: as for `_halves`.
        n: rows of each graph.
        degree: of each.

    Returns:
        the edges, n of each matching.
    """
    found: list[Ints] = []
    todo: list[tuple[Ints, Ints, int]] = [(order, np.arange(len(order)), degree)]
    while todo:
        order, edges, degree = todo.pop()
        half = len(order) // 2
        if len(order) > max(CACHED, n * degree):
            # Several graphs, half of them at a time.
            todo += [(order[half:] - half, edges[half:], degree), (order[:half], edges[:half], degree)]
        elif degree > 1:
            chosen = _alternately(order)
            number = np.cumsum(chosen)
            number = np.where(chosen, number - 1, half + np.arange(len(order)) - number)
            by_column = number[order]
            first = by_column < half
            order = np.concatenate((by_column[first], by_column[~first]))
            todo.append((order, np.concatenate((edges[chosen], edges[~chosen])), degree // 2))
        else:
            found.append(edges)
    return np.concatenate(found)


def _halves(edges: Edges, order: Ints) -> tuple[Edges, Ints, int]:
    """Two halves, with half the edges of each row and column in each, where these have even degrees.

    Args:
        edges: of any number of graphs, one after the other, each sorted by row.
        order: which sorts those of each graph by column.

    Returns:
        the edges of the first halves and then the second, their order, and how many are of the first.
    """
    kernel = _kernel(2 * len(order))
    if kernel is not None:
        into = np.empty((3, 2 * len(order)), np.int64)
        first, size = kernel.halves(np.ascontiguousarray(edges.copies), order, *into)
        origin, copies, order = into[:, :size]
        return Edges(edges.row[origin], edges.column[origin], copies), order, first
    # Of c equal edges each half gets c // 2; what remains is simple, and all degrees are even.
    odd = np.flatnonzero(edges.copies & 1)
    mask = np.zeros(len(order), np.int64)
    if len(odd):
        single = np.cumsum(edges.copies & 1) - 1
        by_column = single[order[(edges.copies[order] & 1).astype(bool)]]
        mask[odd] = _alternately(by_column)
    counts = (edges.copies // 2 + mask, (edges.copies + 1) // 2 - mask)
    chosen = [np.flatnonzero(copies) for copies in counts]
    first = len(chosen[0])
    orders = []
    for start, each in zip((0, first), counts, strict=True):
        number = np.cumsum(each > 0) - 1 + start
        orders.append(number[order[each[order] > 0]])
    both = np.concatenate(chosen)
    copies = np.concatenate([each[at] for each, at in zip(counts, chosen, strict=True)])
    return Edges(edges.row[both], edges.column[both], copies), np.concatenate(orders), first


def _alternately(by_column: Ints) -> NDArray[np.bool_]:
    """A mask of every other edge along closed tours; of each tour its least edge is in it.

    Edges 2i and 2i+1 share a row, and the edges by_column[2i] and by_column[2i+1] a column: each edge is followed by
    its mate at the one end, and then at the other.
    """
    mate = np.empty_like(by_column)
    mate[by_column[::2]] = by_column[1::2]
    mate[by_column[1::2]] = by_column[::2]
    # Two steps on from each edge; those of a tour form two cycles, and its mate in the row is of the other.
    cycle = _cycles(mate.reshape(-1, 2)[:, ::-1].ravel())
    # Each cycle by its least edge, which is written last.
    least = np.empty(1 + cycle.max(initial=0), np.int64)
    least[cycle[::-1]] = np.arange(len(cycle) - 1, -1, -1)
    cycle = least[cycle]
    one, other = cycle[::2], cycle[1::2]
    return np.stack((one < other, other < one), axis=1).ravel()


def _cycles(ahead: Ints) -> Ints:
    """A number for each cycle of a permutation: of each element the one of its cycle."""
    size = len(ahead)
    if size <= CACHED:
        return _least(ahead)
    # Walks from one of every 16 elements, each until it comes to where another began, so that every element is visited
    # once; then the same for the walks.
    walks = np.arange(size // 16)
    starts = walks * 16 + (walks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(60)).astype(np.int64)
    number = np.full(size, -1)
    number[starts] = walks
    follows = np.empty_like(walks)
    at = ahead[starts]
    while len(at):
        met = number[at]
        on = met < 0
        follows[walks[~on]] = met[~on]
        walks, at = walks[on], at[on]
        number[at] = walks
        at = ahead[at]
    cycle: Ints = _cycles(follows)[number]
    # Cycles in which no walk began are short.
    rest = np.flatnonzero(number < 0)
    number[rest] = np.arange(len(rest))
    cycle[rest] = size + _least(number[ahead[rest]])
    return cycle


def _least(ahead: Ints) -> Ints:
    """Of each element of a permutation the least one of its cycle, in steps that double."""
    least: Ints = np.arange(len(ahead))
    while True:
        further = np.minimum(least, least[ahead])
        if np.array_equal(further, least):
            return least
        least = further
        ahead = ahead[ahead]


def _matching(edges: Edges, n: int, degree: int) -> Ints:
    """A perfect matching of a regular multigraph: its edges, by row.

    From a row without a partner a random walk, along any edge to a column and back to the row that has the column, ends
    after 2 + n/(rows left) steps on average at a column that is free, and is (without its loops) an augmenting path.
    """
    ends = np.repeat(np.arange(len(edges.row)), edges.copies)
    columns = edges.column[ends].tolist()
    rng = random.Random(n)
    rows = list(range(n))
    rng.shuffle(rows)
    owner = [-1] * n
    leaving, taken = [0] * n, [0] * n  # by which edge a walk left a row last; the row's of the matching
    draw = rng.random
    for start in rows:
        row = start
        while row >= 0:
            leaving[row] = edge = row * degree + int(draw() * degree)
            row = owner[columns[edge]]
        row = start
        while row >= 0:
            taken[row] = leaving[row]
            column = columns[taken[row]]
            owner[column], row = row, owner[column]
    return ends[taken]
