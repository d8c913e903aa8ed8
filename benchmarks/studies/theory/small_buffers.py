"""Routing with buffers whose size does not depend on h: in groups of N^epsilon, level by level.

At each level the rows fall into blocks (at first one of N rows), and each block into G groups of rows:

    1. In each block every row packs its messages to the same group together, at most `pack` of them in a parcel.
    2. The parcels of a group are dealt out to its active rows in turn, as they come by source row. Parcel number q so
       goes to row q mod (its active rows); the numbers are a prefix sum over the rows of the block.
    3. The parcels are an O(G)-relation, which the block's own part of the network routes: its rows, and the columns of
       splitters that lie within it.

Then the groups are blocks; the last have one active row each, where all messages are at their ends.

With pack = ceil(h/G) a row has less than a parcel for each group beside h/pack <= G full ones: at most 2G, and likewise
those that a group receives are 2G for each of its active rows. Further on a row may hold as many messages as were in
2G parcels, so h is taken anew at every level, and what comes out is stated.

Source: proof of Theorem 1 of *Deterministic Routing of h-relations on the Multibutterfly*, end. It has parcels
delivered to arbitrary nodes of the group; dealing them out is what keeps that an O(G)-relation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pybsp.routing.multibutterfly.network import Multibutterfly
from pybsp.routing.multibutterfly.parameters import Parameters
from pybsp.routing.multibutterfly.wiring import Ints
from pybsp.routing.relation import Relation

from .bits import Count, count


class Level(NamedTuple):
    """What one level takes."""

    rows: int  # of a block
    groups: int  # in a block
    messages_of_row: int  # that one row has at its beginning, at most
    pack: int  # messages in a parcel, at most
    h: int  # of the relation of the parcels
    size: int  # bits of data in a parcel: its messages with their addresses
    prefix: int  # bit steps to number the parcels: a prefix sum for each group over a block's rows, up and down a tree
    took: Count  # by the relation of the parcels
    at: Ints  # the row in which each message is at its end, shape (m,)


def route(
    network: Multibutterfly, relation: Relation, L: int, size: int, epsilon: float, parameters: Parameters
) -> list[Level]:
    """The levels of a relation, at most ceil(1/epsilon); each begins when all of the one before is done.

    Args:
        relation: of N/L processors; processor i is row i*L.
        L: rows of which one is active, a power of two.
        size: bits of data of a message, X, at least 1.
        epsilon: groups are N^epsilon, or the nearest power of two; above 0, at most 1.

    Raises:
        BlockedError: parcels never arrive.
    """
    N, n = network.N, network.n
    columns = max(1, round(epsilon * n))  # of splitters, at each level
    at, ends = relation.sources * L, relation.destinations * L
    levels: list[Level] = []
    rows, h = N, relation.h
    while rows > L and h:
        groups = min(1 << columns, rows // L)
        levels.append(_level(network, at, ends, L, size, rows, groups, h, parameters))
        at = levels[-1].at
        rows //= groups
    return levels


def _level(
    network: Multibutterfly,
    at: Ints,
    ends: Ints,
    L: int,
    size: int,
    rows: int,
    groups: int,
    h: int,
    parameters: Parameters,
) -> Level:
    """One level, from where each message is now; h is that of the messages."""
    group_rows = rows // groups
    group = ends // group_rows  # over all blocks
    # 1. Messages of a row to a group, in parcels.
    pack = -(-h // groups)
    order = np.lexsort((at, group))
    first = np.diff(at[order], prepend=-1).astype(bool) | np.diff(group[order], prepend=-1).astype(bool)
    start = np.flatnonzero(first)
    number = np.arange(len(order)) - np.repeat(start, np.diff(start, append=len(order)))
    begins = number % pack == 0  # a parcel
    parcel = np.empty(len(order), np.int64)
    parcel[order] = np.cumsum(begins) - 1
    sources, to = at[order][begins], group[order][begins]

    # 2. Dealt out to the active rows of their group.
    active = group_rows // L
    rank = np.arange(len(to)) - np.searchsorted(to, to)
    goals = to * group_rows + rank % active * L

    # 3. Their relation, in each block.
    relation = Relation(sources // L, goals // L, network.N // L)
    begin = network.n - (rows.bit_length() - 1)
    bits = pack * (size + network.n)
    counted = count(network, sources, goals, relation.h, bits, parameters, begin=begin)
    digits = int(np.bincount(to).max()).bit_length()
    prefix = 2 * (rows.bit_length() - 1 + groups) * digits
    messages_of_row = int(np.bincount(at).max())
    return Level(rows, groups, messages_of_row, pack, relation.h, bits, prefix, counted, goals[parcel])
