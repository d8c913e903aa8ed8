"""Bitonic sort on the leaders of butterflies alone (*Communication primitives for BSP computers*, end of section 4).

The paper argues against it: a merge stage is cut into the same supersteps as in `bitonic_sort`, but each group of
2^levels columns that are compared with each other is the work of one processor, its leader. A processor sends about as
much, and no comparator is simulated twice, but a leader simulates levels * 2^(levels-1) of them, against 2^levels - 1
there, while all others wait.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...bsp import BSP
from ...machines.cost import Cost, Machine
from ...rides.ride import Supersteps
from .. import tree
from ..arguments import integer, item_words
from ..bitonic_network import Masks, reach, schedule
from ..plan import Plan, Step, joined
from ..primitive import Call, primitive
from ..rows import KeyedRows, Rows, joined_rows
from ..values import packed, unpacked


@lru_cache(maxsize=256)
def leaders(p: int, levels: int) -> tuple[NDArray[np.int64], ...]:
    """Where the key of each column is before and after each superstep, shape (p,) each.

    At first and at last it is at home; in between with the leader of its group, the lowest-numbered column there.
    """
    column = np.arange(2 ** tree.height(p, 2))
    found = [column[:p]]
    for masks in schedule(p, levels):
        lowest = column
        for mask in masks:
            lowest = np.minimum(lowest, lowest[column ^ mask])
        found.append(lowest[:p])
    return (*found, column[:p]) if len(found) > 1 else (column[:p],)


def comparators(masks: Masks) -> int:
    """That a leader simulates."""
    return len(masks) << len(masks) - 1


@lru_cache(maxsize=64)
def plan(p: int, levels: int) -> Plan:
    """Who sends how many keys to whom (items: their places in the message); the last superstep brings them home."""
    where = leaders(p, levels)
    work = [0, *(comparators(masks) for masks in schedule(p, levels))]
    steps = []
    for before, after, done in zip(where, where[1:], work, strict=False):
        pairs, count = np.unique(np.stack((before, after)), axis=1, return_counts=True)
        steps.append(Step.of(pairs[0], pairs[1], 0, count, done))
    return joined(p, steps)


def cost(machine: Machine, words: float = 1, levels: int = 1) -> Cost:
    """What it costs, exactly, for keys of so many words."""
    words = item_words("bitonic_sort_few.cost", "words", words)
    levels = integer("bitonic_sort_few.cost", "levels", levels, 1)
    steps = plan(machine.p, levels)
    return Cost(machine, [step.counted(words)._replace(w=step.work) for step in steps])


@primitive(cost, plan)
def bitonic_sort_few(bsp: BSP, keys: Any, levels: int) -> Supersteps[Any]:
    """Sort one key a processor on about p / 2^levels of them; collective.

    Args:
        bsp: the processor.
        keys: a number, a string, or any object that compares with <; its type is equal on all processors.
        levels: consecutive levels of a merge stage melted into a superstep, at least 1. Equal on all processors.

    Returns:
        The key of rank pid.

    Raises:
        UsageError: a key that does not compare or is an array; levels below 1; an argument that differs.

    BSP cost: merge stage s takes ceil(s / levels) supersteps, each with h <= 2^levels words, and levels * 2^(levels-1)
    comparators; one more superstep brings the keys home. `bitonic_sort_few.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, end of section 4.

    Examples:
        >>> from pybsp.collectives import baselines
        >>> keys = [31, 4, 15, 9]
        >>> pybsp.simulate(lambda bsp: baselines.bitonic_sort_few(bsp, keys[bsp.pid], levels=1), p=4).results
        [4, 9, 15, 31]
    """
    levels = integer("bitonic_sort_few", "levels", levels, 1)
    keyed = KeyedRows.of("bitonic_sort_few", keys, None, False, bsp.pid).one_key()
    call = Call(bsp, "bitonic_sort_few", levels=levels, **keyed.kinds)
    rows, mine = keyed.rows, np.array([bsp.pid])
    where = leaders(bsp.p, levels)
    for masks, before, after in zip((*schedule(bsp.p, levels), None), where, where[1:], strict=False):
        # 1. Keys go to the leaders of their columns.
        rows_of = {}
        for leader in np.unique(after[mine]).tolist():
            rows_of[leader] = rows[after[mine] == leader]
            if leader != bsp.pid:
                call.send(leader, packed(rows_of[leader], "bitonic_sort_few", "keys"))
        mine = np.flatnonzero(after == bsp.pid)
        due = np.unique(before[mine]).tolist()
        letters = yield from call.sync([source for source in due if source != bsp.pid])
        came = {letter.source: unpacked(letter.payload) for letter in letters}
        came[bsp.pid] = rows_of.get(bsp.pid, rows[:0])
        rows = joined_rows([came[source] for source in due] or [rows[:0]])
        if masks is not None and mine.size:
            # 2. A leader simulates all comparators of its columns.
            by_source = np.argsort(before[mine], kind="stable")
            rows = _simulated(keyed, rows[np.argsort(by_source)], masks, mine)
            bsp.work(comparators(masks))
    return keyed.given_back(rows)


def _simulated(keyed: KeyedRows, rows: Rows, masks: Masks, mine: NDArray[np.int64]) -> Rows:
    """The keys of a leader's columns after these levels."""
    columns = np.sort(mine[0] ^ reach(masks))  # those of p and more come last, and hold infinity
    order = keyed.order(rows)
    rank = np.full(columns.size, rows.size)
    rank[order] = np.arange(rows.size)
    for mask in masks:
        other = rank[np.searchsorted(columns, columns ^ mask)]
        rank = np.where(columns < columns ^ mask, np.minimum(rank, other), np.maximum(rank, other))
    after: Rows = rows[order[rank[: rows.size]]]
    return after
