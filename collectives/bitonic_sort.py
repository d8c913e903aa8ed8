"""Bitonic sort with levels melted into supersteps (*Communication primitives for BSP computers*, section 4).

The network is the normalised one, which sorts for any p: merge stage s works on blocks of 2^s processors, its first
level compares processor i with its mirror i XOR (2^s - 1), the others i with i XOR 2^(s-2), ..., i XOR 1, and the
lower-numbered always keeps the smaller key. Processors from p up to the next power of two would hold infinity for ever,
so nothing is compared with them. In a merge stage of the paper the keys of the upper half come in reverse order, and
the first level too compares i with i XOR 2^(s-1); which comparators a processor simulates is the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..bsp import BSP
from ..errors import argument_error, brief
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import tree
from .allreduce import allreduce
from .allreduce import choose as choose_allreduce
from .allreduce import run as run_allreduce
from .arguments import flag, integer, item_words, numbers
from .bitonic_network import Integers, Masks, melted, reach, schedule
from .counted.bitonic_sort import equal, last_work, network
from .plan import Plan, Step, joined
from .prefix import choose as choose_prefix
from .prefix import plan as plan_prefix
from .prefix import prefix
from .prefix import run as run_prefix
from .primitive import Call, primitive
from .rows import KeyedRows, Rows, joined_rows
from .values import packed, unpacked


@lru_cache(maxsize=32)
def plan(p: int, levels: int) -> Plan:
    """Who sends its key (item 0; or its block of keys) to whom."""
    levels = integer("bitonic_sort.plan", "levels", levels, 1)
    work = [0.0, *(2.0 ** len(masks) - 1 for masks in schedule(p, levels))]
    steps = [melted(p, masks) for masks in schedule(p, levels)]
    numbered = zip(steps, work, strict=False)
    return joined(p, (Step(s.sources, s.destinations, s.first, s.last, w) for s, w in numbered), work[-1])


# -- cost ---------------------------------------------------------------------------------------------------------


def choose(machine: Machine, n: int = 1, nbytes: int = 8) -> int:
    """The levels that cost least with blocks of n keys of so many bytes."""
    p = machine.p
    candidates = range(1, max(tree.height(p, 2), 1) + 1)
    return min(
        candidates,
        key=lambda levels: Cost(machine, equal(p, levels, n, nbytes), last_work(p, levels, n)).seconds,
    )


def local_work(n: int) -> int:
    """Comparisons in sorting n keys."""
    return n * tree.height(n, 2)


def plan_returned(sizes: Integers) -> Plan:
    """From blocks of the largest size to blocks of the sizes that came: requests without items, then the keys."""
    most = int(sizes.max())
    ends = np.cumsum(sizes)
    offsets = ends - sizes
    some = np.flatnonzero(sizes)
    first, last = offsets[some] // most, (ends[some] - 1) // most
    count = last - first + 1
    who = np.repeat(some, count)
    holder = np.repeat(first, count) + np.arange(who.size) - np.repeat(np.cumsum(count) - count, count)
    begin, end = np.maximum(offsets[who], holder * most), np.minimum(ends[who], (holder + 1) * most)
    return joined(sizes.size, (Step.of(who, holder, 0, 0), Step.of(holder, who, begin, end)))


def key_counts(name: str, counts: ArrayLike | None, p: int) -> Integers:
    """The argument counts of a cost, as the keys of each processor; else a UsageError."""
    sizes = numbers(1 if counts is None else counts)
    if sizes.shape not in ((), (p,)) or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        expected = f"None, a number of keys, or one for each of {p} processors"
        raise argument_error(name, "counts", expected, brief(counts))
    return np.broadcast_to(sizes.astype(np.int64), (p,))


def cost(
    machine: Machine, words: float = 1, levels: int | None = None, counts: ArrayLike | None = None, stable: bool = False
) -> Cost:
    """What it costs, exactly, unless keys or values are objects, whose pickles differ.

    Args:
        machine: its p is that of the processors.
        words: of a key and its value: bytes / 8.
        levels: None: what `bitonic_sort` would choose.
        counts: keys of each processor, shape (p,), or of all where they are equal; None: one key, which is in no array.
        stable: adds a word to each key.

    Raises:
        UsageError: levels below 1, or counts of another shape or below 0.
    """
    name, p = "bitonic_sort.cost", machine.p
    given = None if levels is None else integer(name, "levels", levels, 1)
    nbytes = round(8 * item_words(name, "words", words)) + 8 * flag(name, "stable", stable)
    sizes = key_counts(name, counts, p)
    n = int(sizes.max())
    total = Cost(machine) if counts is None else allreduce.cost(machine, 2)
    if not n:
        return total
    chosen = given or choose(machine, n, nbytes)
    unequal = int(sizes.min()) < n
    steps = network(p, chosen, sizes, nbytes) if unequal else equal(p, chosen, n, nbytes)
    total += Cost(machine, (), local_work(n))
    total += Cost(machine, steps, last_work(p, chosen, n))
    if unequal:
        total += prefix.cost(machine, 1)
        total += plan_returned(sizes).cost(machine, nbytes / 8)
    return total


# -- sorting ------------------------------------------------------------------------------------------------------


@primitive(cost, plan)
def bitonic_sort(
    bsp: BSP, keys: Any, levels: int | None = None, values: Any = None, stable: bool = False
) -> Supersteps[Any]:
    """Sort one key a processor, or blocks of keys by merge-split; collective.

    Args:
        bsp: the processor.
        keys: one key: a number, a string, or any object that compares with <; or an array of shape (n,), of any dtype
            that numpy sorts, n from 0 up, which may differ. NaN and NaT come last, as in numpy. The type of the key, or
            the dtype, is equal on all processors.
        levels: consecutive levels of a merge stage melted into a superstep, at least 1 (all of a stage where it has
            fewer). None: the cheapest on `bsp.machine`. Equal on all processors.
        values: travel with the keys: an array of shape (n, ...), its dtype and the rest of its shape equal on all
            processors; with one key, one value: a number, an array or an object, its type, dtype and shape equal.
        stable: equal keys stay in the order of processors, then of indices. Equal on all processors.

    Returns:
        As many keys as this processor brought, in the same form: processor 0 has the smallest, and so on. With values:
        (keys, values).

    Raises:
        UsageError: keys that do not compare, are a list or of two dimensions; values of another length; levels below 1;
            an argument that differs where it must be equal.

    BSP cost: merge stage s takes ceil(s / levels) supersteps, each with h <= (2^levels - 1) * words of a block and
    (2^levels - 1) * n comparators. Arrays take an `allreduce` of 2 words and a local sort before; where their sizes
    differ, a `prefix` and two supersteps after bring each processor as many keys as it had. One key a processor and
    levels = log(L/g): O(L log^2 p / log(L/g)). `bitonic_sort.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 4.

    Examples:
        >>> from pybsp import collectives
        >>> keys = [31, 4, 15, 9]
        >>> pybsp.simulate(lambda bsp: collectives.bitonic_sort(bsp, keys[bsp.pid]), p=4).results
        [4, 9, 15, 31]
        >>> def main(bsp):
        ...     block = np.array([keys[bsp.pid], bsp.pid])
        ...     return collectives.bitonic_sort(bsp, block).tolist()
        >>> pybsp.simulate(main, p=4).results
        [[0, 1], [2, 3], [4, 9], [15, 31]]
    """
    given = None if levels is None else integer("bitonic_sort", "levels", levels, 1)
    stable = flag("bitonic_sort", "stable", stable)
    keyed = KeyedRows.of("bitonic_sort", keys, values, stable, bsp.pid)
    call = Call(bsp, "bitonic_sort", levels=given, stable=stable, **keyed.kinds)
    rows, most, least = keyed.rows, 1, 1
    if not keyed.lone:
        # 1. All learn the largest and the smallest block.
        most, least = yield from extremes(call, rows.size)
        rows = keyed.in_order(rows)
        bsp.work(local_work(most))
    if most:
        # 2. The merge stages.
        by = given or choose(bsp.machine, most, rows.dtype.itemsize)
        call.ends(supersteps(bsp.machine, by, returning=least < most))
        rows = yield from run(call, keyed, rows, most, by)
        # 3. Blocks of the largest size become blocks of the sizes that were brought.
        if least < most:
            rows = yield from returned(call, rows, keyed.rows.size, most)
    return keyed.given_back(rows)


def run(call: Call, keyed: KeyedRows, rows: Rows, most: int, levels: int, first: int = 0) -> Supersteps[Rows]:
    """The merge stages on sorted blocks of at most so many rows; `first` of them are one superstep."""
    if first:
        rows = yield from _gathered(call, keyed, rows, most, first)
    for masks in schedule(call.bsp.p, levels, first):
        rows = yield from _simulated(call, keyed, rows, masks, most)
    return rows


def supersteps(machine: Machine, levels: int, first: int = 0, returning: bool = False) -> int:
    """How many `run` takes, and `returned` with those."""
    p = machine.p
    more = len(plan_prefix(p, choose_prefix(machine, 1)[1])) + 2 if returning else 0
    return bool(first) + len(list(schedule(p, levels, first))) + more


def _gathered(call: Call, keyed: KeyedRows, rows: Rows, most: int, first: int) -> Supersteps[Rows]:
    """The first stages in one superstep: the 2^first processors of a group get all its keys, and keep their part."""
    p, pid = call.bsp.p, call.bsp.pid
    begin = pid >> first << first
    group = range(begin, min(begin + 2**first, p))
    # 1. The block goes to the whole group.
    payload = packed(rows, call.name, "keys") if len(group) > 1 else rows
    for mate in group:
        if mate != pid:
            call.send(mate, payload)
    letters = yield from call.sync([mate for mate in group if mate != pid])
    # 2. All merge the same blocks.
    blocks = {pid: rows} | {letter.source: unpacked(letter.payload) for letter in letters}
    merged = keyed.in_order(joined_rows([blocks[mate] for mate in group]), runs=True)
    call.bsp.work(len(group) * most * first)
    return merged[(pid - begin) * most : (pid - begin + 1) * most]


def extremes(call: Call, size: int) -> Supersteps[tuple[int, int]]:
    """The largest and the smallest block of all processors."""
    chosen = choose_allreduce(call.bsp.machine, 2)
    most, least = yield from run_allreduce(call, np.array([size, -size]), np.maximum, chosen, 2)
    return int(most), -int(least)


def _simulated(call: Call, keyed: KeyedRows, rows: Rows, masks: Masks, most: int) -> Supersteps[Rows]:
    """One superstep: what this processor has after these levels."""
    p, pid = call.bsp.p, call.bsp.pid
    columns = pid ^ reach(masks)
    place = np.flatnonzero(columns < p)
    place = place[np.argsort(columns[place])]
    mates = columns[place].tolist()
    # 1. The block goes to all whose comparators it may pass.
    blocks = {pid: rows}
    if len(mates) > 1:
        payload = packed(rows, call.name, "keys")
        for mate in mates:
            if mate != pid:
                call.send(mate, payload)
    others = [mate for mate in mates if mate != pid]
    letters = yield from call.sync(others)
    blocks |= {letter.source: unpacked(letter.payload) for letter in letters}
    call.bsp.work((2 ** len(masks) - 1) * most)
    if not others:
        return rows
    # 2. All who simulate a comparator on the same keys rank them alike, equal ones by processor.
    sizes = [len(blocks[mate]) for mate in mates]
    everything = joined_rows([blocks[mate] for mate in mates])
    if len(masks) == 1:
        everything = keyed.in_order(everything, runs=True)
        return everything[:most] if pid < others[0] else everything[most:]
    order = keyed.order(everything)
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    starts = np.cumsum(sizes) - sizes
    ranks = np.full((columns.size, most), order.size)  # a rank beyond all is infinity
    ranks[np.repeat(place, sizes), np.arange(order.size) - np.repeat(starts, sizes)] = rank
    # 3. The comparators whose outcome comes here: half as many at every level. Blocks are sorted, so that the j-th
    # smallest of one against the j-th largest of the other splits two into a lower and an upper half.
    for mask in masks:
        one, other = ranks.reshape(2, -1, most)
        low = not pid & 1 << mask.bit_length() - 1
        ranks = np.minimum(one, other[:, ::-1]) if low else np.maximum(one, other[:, ::-1])
        ranks.sort(axis=1)
    after: Rows = everything[order[ranks[0, : np.searchsorted(ranks[0], order.size)]]]
    return after


def returned(call: Call, rows: Rows, size: int, most: int) -> Supersteps[Rows]:
    """The keys of ranks offset to offset + size - 1; the key of rank r is with processor r div most."""
    bsp = call.bsp
    # 1. How many keys the processors below have.
    end = int((yield from run_prefix(call, size, np.add, choose_prefix(bsp.machine, 1), 1)))
    begin = end - size
    holders = range(begin // most, -(-end // most)) if size else range(0)
    # 2. Processors ask for the ranks that they want.
    for holder in holders:
        if holder != bsp.pid:
            call.send(holder, b"", (max(begin, holder * most), min(end, (holder + 1) * most)))
    # 3. They get them.
    first = bsp.pid * most
    letters = yield from call.sync()
    for letter in letters:
        requested = rows[letter.note[0] - first : letter.note[1] - first]
        call.send(letter.source, packed(requested, call.name, "keys"))
    letters = yield from call.sync([holder for holder in holders if holder != bsp.pid])
    came = {letter.source: unpacked(letter.payload) for letter in letters}
    came[bsp.pid] = rows[max(begin - first, 0) : max(end - first, 0)]
    return joined_rows([came[holder] for holder in holders] or [rows[:0]])
