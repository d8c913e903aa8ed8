"""Sorting one key a processor, or a block of keys, by what costs least (*Communication primitives*, section 4).

    "allgather"     every processor gets all keys, sorts them, and keeps its part: one superstep
    "bitonic"       bitonic sort, whose first s merge stages are one superstep among groups of 2^s processors: each gets
                    the keys of its group, merges them, and keeps its part. What follows is bitonic_sort.py's.
    "sample"        sample_sort.py, and a superstep that gives each processor as many keys as it brought

All-gather is bitonic sort with all stages melted: s = ceil(log2 p). A stage alone would send the whole of a group's
keys to its first level's comparators too; melted they travel once, and no superstep is left between them.

What costs least depends on the largest block, so all learn how large blocks are before. What sample sort costs depends
on the keys too: it is compared by what keys in random order cost (`typical`), and `cost` gives its bound. A block that
is short (`short`) goes to all in that superstep, instead of its size: where all of them are, that is the all-gather.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..ground.convert import no_mask
from ..ground.short_records import INT_END
from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import PLAINLY, Supersteps
from ..rides.shown import Shown
from . import tree
from .algorithms import named
from .allgather import plan as plan_allgather
from .allreduce import allreduce
from .allreduce import choose as choose_allreduce
from .allreduce import supersteps as supersteps_of_allreduce
from .arguments import flag, integer, item_words
from .bitonic_network import gathering, melted, schedule
from .bitonic_sort import extremes, key_counts, local_work, plan_returned, returned, supersteps
from .bitonic_sort import run as run_bitonic
from .counted.bitonic_sort import equal, last_work, network
from .one_superstep import Exchange, new_exchange
from .plan import Plan, Step, joined, to_all
from .prefix import choose as choose_prefix
from .prefix import plan as plan_prefix
from .prefix import prefix
from .prefix import run as run_prefix
from .primitive import NOT_SMALL, Call, primitive, remember
from .regular_sampling import most as most_sampled
from .rows import KeyedRows, Rows, joined_rows
from .sample_sort import cost as cost_sample
from .sample_sort import plan as plan_sample
from .sample_sort import run as run_sample
from .sample_sort import table
from .sample_sort import typical as typical_sampled
from .values import packed, unpacked

Counts = NDArray[np.int64]
SHORT = 1 << 20  # keys of a short block, at most, whatever it costs
ALGORITHMS = ("allgather", "bitonic", "sample")


class Way(NamedTuple):
    """An algorithm; of bitonic sort, how many first stages are one superstep, and levels of the others."""

    algorithm: str
    first: int = 0
    levels: int = 1


_TO_ALL = Way("allgather")


class Widths(NamedTuple):
    """Bytes of a key, of a value (None: there are none), and of the place of a key, where equal ones stay in order."""

    key: int
    value: int | None
    place: int

    @property
    def row(self) -> int:
        """What travels as one, but in sample sort."""
        return self.key + (self.value or 0) + self.place


# -- who sends what to whom ---------------------------------------------------------------------------------------


def plan(
    p: int, algorithm: str = "bitonic", first: int = 0, levels: int = 1, moved: ArrayLike | None = None, degree: int = 2
) -> Plan:
    """Who sends what to whom.

    Args:
        p: processors.
        algorithm: "allgather" and "bitonic": item 0 is a key, or a block. "sample": items are samples, then keys (by
            their places in the sender's sorted block), sums, and keys again (by their ranks).
        first: of "bitonic": how many merge stages the first superstep has, 0 to ceil(log2 p).
        levels: of "bitonic": of a later superstep.
        moved: of "sample": keys that go from processor i to j, shape (p, p), those that stay included.
        degree: of the prefix of "sample".
    """
    how = named("sort.plan", algorithm, ALGORITHMS)
    if how == "allgather":
        steps = [Step(step.sources, step.destinations, step.first * 0, step.last * 0 + 1) for step in plan_allgather(p)]
        return joined(p, steps)
    if how == "sample":
        counts = table("sort.plan", np.zeros((p, p), np.int64) if moved is None else moved)
        if p == 1:
            return joined(p, ())
        return joined(p, [*plan_sample(p, counts), *plan_prefix(p, degree), _balancing(counts.sum(0), counts.sum(1))])
    first = integer("sort.plan", "first", first, 0, tree.height(p, 2))
    masks = schedule(p, integer("sort.plan", "levels", levels, 1), first)
    return joined(p, [melted(p, each) for each in ((gathering(first), *masks) if first else masks)])


def _balancing(counts: Counts, targets: Counts) -> Step:
    """Keys in order, of which processors have `counts`, to where `targets` are to be; items are ranks."""
    ends, cuts = np.cumsum(counts), np.cumsum(targets)
    points = np.unique(np.concatenate([[0], ends, cuts]))
    begin, end = points[:-1], points[1:]
    return Step.of(np.searchsorted(ends, begin, "right"), np.searchsorted(cuts, begin, "right"), begin, end)


# -- cost ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def choose(machine: Machine, n: int, widths: Widths, lone: bool, even: bool, algorithm: str | None = None) -> Way:
    """What costs least, sample sort by what is typical.

    Args:
        machine: whose costs.
        n: keys of a processor, at most.
        widths: of a key and what travels with it.
        lone: whether it is one key that is in no array.
        even: whether all have n; if not, what it costs with n is compared.
        algorithm: the one to be used; None: any.
    """
    height = tree.height(machine.p, 2)
    ways = [Way("allgather")] if algorithm in (None, "allgather") else []
    if algorithm in (None, "bitonic"):
        ways += [Way("bitonic", first, levels) for first in range(height) for levels in range(1, height + 1)]
        ways += [Way("bitonic")] * (height == 0)
    if algorithm == "sample" or (algorithm is None and not lone):
        ways.append(Way("sample"))
    sizes = np.full(machine.p, n)

    def expected(way: Way) -> float:
        if way.algorithm == "sample":
            return typical(machine, n, widths).seconds
        return _cost(machine, sizes, widths, even, way).seconds

    return min(ways, key=expected)


@lru_cache(maxsize=1024)
def short(machine: Machine, row: int) -> int:
    """Keys of a short block, at most, where a key and what travels with it has so many bytes; -1: there are none.

    As many as go to all, and are merged, at no more than it costs to learn sizes and to send a block to one processor,
    which any algorithm does. Where one block is long, what the others have sent in vain costs no more than a superstep
    in which sizes go.
    """
    p = machine.p
    if p == 1 or supersteps_of_allreduce(p, choose_allreduce(machine, 2)) > 1:
        return -1
    sizes_first = allreduce.cost(machine, 2)
    going = Cost(machine, [to_all(np.full(p, 1))]).seconds

    def is_long(n: int) -> bool:
        sizes, words = np.full(p, n), -(-n * row // 8)
        learned = _learning(machine, sizes, row, n)
        other = sizes_first + Cost(machine, [Superstep(words, words, 1, p * words, 0.0, 1)], local_work(n))
        in_vain = Cost(machine, [to_all(np.full(p, words))]).seconds - going
        return in_vain > going or (learned + _merged(machine, sizes)).seconds > other.seconds

    most = 1
    while most < SHORT and not is_long(most):
        most *= 2
    return bisect_left(range(most), True, key=is_long) - 1


def _learning(machine: Machine, sizes: Counts, row: int, most: int) -> Cost:
    """The superstep in which blocks of at most so many keys go to all, and of others their sizes."""
    are_short = sizes <= most
    steps = [to_all(np.where(are_short, -(-sizes * row // 8), 1))] * (machine.p > 1)
    return Cost(machine, (), local_work(int(sizes[are_short].max(initial=0)))) + Cost(machine, steps)


def _merged(machine: Machine, sizes: Counts) -> Cost:
    """Merging the blocks of all, on all."""
    return Cost(machine, (), int(sizes.sum()) * tree.height(machine.p, 2))


def _cost(machine: Machine, sizes: Counts, widths: Widths, even: bool, way: Way, moved: Counts | None = None) -> Cost:
    """What a way costs; where sizes are equal but need not be (even is false), at most."""
    p, n = machine.p, int(sizes.max())
    if way.algorithm == "sample":
        return _sampled(machine, sizes, widths, moved)
    if way.algorithm == "allgather":
        return _learning(machine, sizes, widths.row, n) + _merged(machine, sizes)
    local = Cost(machine, (), local_work(n))
    unequal = int(sizes.min()) < n
    find = network(p, way.levels, sizes, widths.row, way.first) if unequal else None
    steps = find or equal(p, way.levels, n, widths.row, way.first)
    total_cost = local + Cost(machine, steps, last_work(p, way.levels, n, way.first))
    if unequal:
        total_cost += prefix.cost(machine, 1) + plan_returned(sizes).cost(machine, widths.row / 8)
    elif not even and p > 1:
        block = -(-n * widths.row // 8)
        requests = Superstep(0, 0, p - 1, 0, 0.0, p - 1)
        total_cost += prefix.cost(machine, 1) + Cost(machine, [requests, Superstep(block, block, p - 1, block * p)])
    return total_cost


def _sampled(machine: Machine, sizes: Counts, widths: Widths, moved: Counts | None) -> Cost:
    """Sample sort: exactly where it is known which keys move, else at most."""
    p = machine.p
    sort_cost = cost_sample(machine, None if moved is not None else sizes, moved, widths.key, widths.value)
    if p == 1:
        return sort_cost
    row = widths.key + (widths.value or 0)
    if moved is not None:
        step = _balancing(moved.sum(0), moved.sum(1))
        return sort_cost + prefix.cost(machine, 1) + Cost(machine, [step.counted(row / 8)])
    total, n = int(sizes.sum()), int(sizes.max())
    largest = most_sampled(p, sizes)

    # A message may be filled up to a word.
    out, into, all_of_them = (-(-keys * row // 8) + min(p - 1, keys) for keys in (largest, n, total))
    step_bound = Superstep(out, into, p - 1, all_of_them + p * (p - 1) * (row % 8 > 0), 0.0, p - 1)
    return sort_cost + prefix.cost(machine, 1) + Cost(machine, [step_bound])


def typical(machine: Machine, n: int, widths: Widths) -> Cost:
    """About what sample sort costs where all have n keys in random order."""
    p = machine.p
    sort_cost = typical_sampled(machine, n, [widths.key] if widths.value is None else [widths.key, widths.value])
    if p == 1:
        return sort_cost
    # Few keys are not where they belong by then, of what is in random order.
    return sort_cost + prefix.cost(machine, 1) + Cost(machine, [Superstep(0, 0, 0, 0)])


def cost(
    machine: Machine,
    words: float = 1,
    counts: ArrayLike | None = None,
    algorithm: str | None = None,
    values: float | None = None,
    stable: bool = False,
    moved: ArrayLike | None = None,
) -> Cost:
    """What it costs: exactly, but for "sample" where it is not given which keys move; that is then an upper bound.

    Args:
        machine: its p is that of the processors.
        words: of a key: bytes / 8. The pickles of objects have sizes of their own.
        counts: keys of each processor, shape (p,), or of all where they are equal; None: one key, which is in no array.
        algorithm: "allgather", "bitonic" or "sample"; None: what `sort` would choose.
        values: words of a value; None: there are none.
        stable: whether equal keys stay in order, which adds a word to each key but in "sample".
        moved: of "sample": keys that go from processor i to j in it, shape (p, p), those that stay included.

    Raises:
        UsageError: counts of another shape or below 0; no such algorithm.
    """
    name, p = "sort.cost", machine.p
    requested = named(name, algorithm, ALGORITHMS)
    value = None if values is None else round(8 * item_words(name, "values", values))
    widths = Widths(round(8 * item_words(name, "words", words)), value, 8 * flag(name, "stable", stable))
    sizes = key_counts(name, counts, p)
    n, lone = int(sizes.max()), counts is None
    even = int(sizes.min()) == n
    agreeing = Cost(machine) if lone or requested in ("allgather", "sample") else allreduce.cost(machine, 2)
    most = short(machine, widths.row) if requested is None and not lone else -1
    if most >= 0:
        agreeing = _learning(machine, sizes, widths.row, most)
        if n <= most:
            return agreeing + _merged(machine, sizes)
    if not n and requested not in ("allgather", "sample"):
        return agreeing
    way = choose(machine, n, widths, lone, even, requested)
    which = None if moved is None else table(name, moved)
    return agreeing + _cost(machine, sizes, widths, True, way, which)


# -- sorting ------------------------------------------------------------------------------------------------------


def _small(bsp: BSP, keys: Any, values: Any = None, stable: bool = False, algorithm: str | None = None) -> Any:
    """Keys without values, where an all-gather of them is the cheapest."""
    if values is not None or algorithm is not None or (stable is not False and flag("sort", "stable", stable)):
        return NOT_SMALL
    if type(keys) is float or (type(keys) is int and -INT_END <= keys < INT_END):
        return _small_numbers(bsp, keys)
    if isinstance(keys, np.ndarray) and type(keys) is not np.ndarray:
        no_mask("sort", "keys", keys)
        keys = keys.view(np.ndarray)
    if type(keys) is np.ndarray and keys.ndim == 1 and keys.dtype.kind in "biufc":
        shown = bsp.shown  # `is_at_once` of an all-gather, in fewer steps
        return _small_blocks(bsp, shown, keys) if bsp.p > 1 and shown is not None and shown.ready else NOT_SMALL
    return NOT_SMALL


def _small_numbers(bsp: BSP, key: float) -> Any:
    kind = type(key)
    remembered = ("sort", kind)
    found: tuple[Exchange, int] | None = bsp.prepared.get(remembered)
    if found is None:
        way, p = choose(bsp.machine, 1, Widths(8, None, 0), True, True), bsp.p
        if not _all_to_all(way, p):
            return NOT_SMALL
        exchange = new_exchange(bsp, "sort", {**_agreed(f"one {kind.__name__}"), **SHORT_WAY}, plan_allgather(p))
        found = remember(bsp, remembered, (exchange, _merging(way, p, p)))
    exchange, flops = found
    keys = exchange(key)
    if keys is NOT_SMALL:
        return keys
    keys.insert(bsp.pid, key)
    bsp.work(flops)
    if kind is float and isnan(sum(keys)) and any(map(isnan, keys)):
        return np.sort(np.array(keys), kind="stable")[bsp.pid].item()
    keys.sort()
    return keys[bsp.pid]


def _small_blocks(bsp: BSP, shown: Shown, keys: NDArray[Any]) -> Any:
    p, pid, machine, n = bsp.p, bsp.pid, bsp.machine, keys.size
    dtype, log = keys.dtype, shown.log
    remembered = ("sort", dtype)
    found: tuple[dict[str, Any], int, Exchange] | None = bsp.prepared.get(remembered)
    if found is None:
        agreed, longest = _agreed(f"array of {dtype}"), short(machine, dtype.itemsize)
        if longest < 0:
            return NOT_SMALL
        exchange = new_exchange(bsp, "sort", {**agreed, **SHORT_WAY}, plan_allgather(p))
        found = remember(bsp, remembered, (agreed, longest, exchange))
    agreed, longest, exchange = found
    # 1. As in `run`: a short block goes to all, of another one its size.
    block: NDArray[Any] | None = None
    if n <= longest:
        log.work += local_work(n)
        block = keys
        if n > 1:  # as numpy.sort does, in fewer steps
            block = keys.copy()
            block.sort()
    blocks = exchange(n if block is None else block)
    way = _TO_ALL
    if block is None or int in map(type, blocks):
        sizes = [n, *(one if type(one) is int else len(one) for one in blocks)]
        most, least = max(sizes), min(sizes)
        chosen = ("sort", dtype, most, least == most)
        way = bsp.prepared.get(chosen) or remember(
            bsp, chosen, choose(machine, most, Widths(dtype.itemsize, None, 0), False, least == most)
        )
        if not _all_to_all(way, p) or (way.algorithm == "bitonic" and least < most):
            return bsp.carry_out("sort", _chosen(bsp, keys, agreed, way, most, least))
        # 2. The blocks of all go to all.
        log.work += local_work(n)
        block = np.sort(keys)
        blocks = exchange(block)
    # 3. All merge them; the part of this processor's ranks is its own.
    begin = sum(map(len, blocks[:pid]))
    blocks.insert(pid, block)
    merged = np.concatenate(blocks) if dtype.isnative else np.concatenate(blocks, dtype=dtype)
    merged.sort(kind="stable")  # which merges runs
    log.work += _merging(way, p, merged.size)
    return merged[begin : begin + n].copy()


def _all_to_all(way: Way, p: int) -> bool:
    """Whether equal blocks go to all in its one superstep: by an all-gather, or the comparator of two processors."""
    return way.algorithm == "allgather" or (way.algorithm == "bitonic" and p == 2)


def _merging(way: Way, p: int, n: int) -> int:
    """Comparisons in merging the blocks, of n keys in all, that have come to all."""
    return n * tree.height(p, 2) if way.algorithm == "allgather" else n // 2


# What is shown are bare keys, and what is sent are rows: who starts a sort where others call it is told so.
SHORT_WAY = {PLAINLY: "yes"}


def _agreed(keys: str) -> dict[str, Any]:
    """The arguments that are equal on all processors, of keys alone."""
    return {"algorithm": None, "stable": False, "keys": keys, "values": "None"}


def _chosen(
    bsp: BSP, keys: NDArray[Any], agreed: dict[str, Any], way: Way, most: int, least: int
) -> Supersteps[NDArray[Any]]:
    """The rest of `sort`, of keys alone."""
    keyed = KeyedRows.of("sort", keys, None, False, bsp.pid)
    found: NDArray[Any] = keyed.given_back(
        (yield from _by(Call(bsp, "sort", **agreed), keyed, False, way, most, least))
    )
    return found


@primitive(cost, plan, _small, groups=False)
def sort(
    bsp: BSP, keys: Any, values: Any = None, stable: bool = False, algorithm: str | None = None
) -> Supersteps[Any]:
    """Sort the keys of all processors, a key or a block each, by the algorithm that costs least; collective.

    Args:
        bsp: the processor.
        keys: one key: a number, a string, or any object that compares with <; or an array of shape (n,), of any dtype
            that numpy sorts, n from 0 up, which may differ. NaN and NaT come last, as in numpy. The type of the key, or
            the dtype, is equal on all processors.
        values: travel with the keys: an array of shape (n, ...), its dtype and the rest of its shape equal on all
            processors; with one key, one value: a number, an array or an object, its type, dtype and shape equal.
        stable: equal keys stay in the order of processors, then of indices. Equal on all processors.
        algorithm: "allgather", "bitonic" or "sample" (sort.py); None: the cheapest on `bsp.machine` for the largest
            block. Equal on all processors.

    Returns:
        As many keys as this processor brought, in the same form: processor 0 has the smallest, and so on. With values:
        (keys, values).

    Raises:
        UsageError: keys that do not compare, are a list or of two dimensions; values of another length; no such
            algorithm; an argument that differs where it must be equal.

    BSP cost: "allgather": a superstep with h = (p-1) * words of a block. "bitonic": one with h = (2^s - 1) * words,
    and ceil(t / levels) for each merge stage t > s, with h <= (2^levels - 1) * words; s and levels are the cheapest.
    "sample": the two of `sample_sort`, a `prefix`, and one that brings each processor as many keys as it had. Where it
    is chosen for arrays, or "bitonic" is asked for, all learn before how large blocks are: an `allreduce` of 2 words;
    where that is one superstep, and none is asked for, one in which short blocks go to all instead of their sizes, and
    the only one if all are short. Where sizes differ, after "bitonic" a `prefix` and two supersteps. `sort.cost` has it
    exactly; of "sample", which is compared by what keys in random order cost, as a bound.

    Source: *Communication primitives for BSP computers*, section 4; the first stages in one superstep are derived.

    Examples:
        >>> from pybsp import collectives
        >>> keys = [31, 4, 15, 9]
        >>> pybsp.simulate(lambda bsp: collectives.sort(bsp, keys[bsp.pid]), p=4).results
        [4, 9, 15, 31]
        >>> def main(bsp):
        ...     return collectives.sort(bsp, np.array([keys[bsp.pid], bsp.pid]), algorithm="sample").tolist()
        >>> pybsp.simulate(main, p=4).results
        [[0, 1], [2, 3], [4, 9], [15, 31]]
    """
    requested = named("sort", algorithm, ALGORITHMS)
    stable = flag("sort", "stable", stable)
    keyed = KeyedRows.of("sort", keys, values, stable, bsp.pid)
    call = Call(bsp, "sort", algorithm=requested, stable=stable, **keyed.kinds)
    return keyed.given_back((yield from run(call, keyed, stable, requested)))


def run(call: Call, keyed: KeyedRows, stable: bool, requested: str | None) -> Supersteps[Rows]:
    """Choose an algorithm where none is asked for, and run it; returns as many rows as were brought."""
    bsp, rows = call.bsp, keyed.rows
    if requested == "allgather":
        return (yield from _by_allgather(call, keyed, _sorted_here(call, keyed)))
    if requested == "sample":
        return (yield from _by_sampling(call, keyed, stable))
    dtypes = rows.dtype
    value = dtypes["value"].itemsize if keyed.value is not None else None
    widths = Widths(dtypes["key"].itemsize, value, 8 * stable)
    # All learn the largest and the smallest block, by which they choose.
    longest = short(bsp.machine, widths.row) if requested is None and not keyed.lone else -1
    if longest >= 0:
        found = yield from _learned(call, keyed, longest)
        if not isinstance(found, tuple):
            return found
        most, least = found
    else:
        most, least = (1, 1) if keyed.lone else (yield from extremes(call, rows.size))
    if not most:
        return rows
    way = choose(bsp.machine, most, widths, keyed.lone, least == most, requested)
    return (yield from _by(call, keyed, stable, way, most, least))


def _by(call: Call, keyed: KeyedRows, stable: bool, way: Way, most: int, least: int) -> Supersteps[Rows]:
    """Run what was chosen, for blocks of at most and at least so many rows."""
    bsp = call.bsp
    if way.algorithm == "sample":
        return (yield from _by_sampling(call, keyed, stable))
    # 1. A block is sorted where it is.
    rows = _sorted_here(call, keyed)
    if way.algorithm == "allgather":
        return (yield from _by_allgather(call, keyed, rows))
    # 2. The merge stages; then blocks of the largest size become blocks of the sizes that were brought.
    call.ends(supersteps(bsp.machine, way.levels, way.first, returning=least < most))
    rows = yield from run_bitonic(call, keyed, rows, most, way.levels, way.first)
    return (yield from returned(call, rows, keyed.rows.size, most)) if least < most else rows


def _sorted_here(call: Call, keyed: KeyedRows) -> Rows:
    """The block of this processor, sorted."""
    call.bsp.work(local_work(keyed.rows.size))
    return keyed.rows if keyed.lone else keyed.in_order(keyed.rows)


def _learned(call: Call, keyed: KeyedRows, longest: int) -> Supersteps[Rows | tuple[int, int]]:
    """Its part, where no block has more than so many rows; else the largest and the smallest block of all."""
    n = keyed.rows.size
    rows = _sorted_here(call, keyed) if n <= longest else None
    if rows is not None:
        call.follows()  # it is over after this superstep, unless another block is longer
    # 1. A short block goes to all others, of another one its size.
    found = yield from _all_of(call, n if rows is None else packed(rows, call.name, "keys"))
    if rows is not None and int not in map(type, found):
        return _part(call, keyed, rows, found)
    sizes = [n, *(one if type(one) is int else len(one) for one in found)]
    return max(sizes), min(sizes)


def _by_allgather(call: Call, keyed: KeyedRows, rows: Rows) -> Supersteps[Rows]:
    """All get the blocks of all, and merge them."""
    if call.bsp.p == 1:
        return rows
    # 1. The block goes to all others.
    call.ends(1)
    return _part(call, keyed, rows, (yield from _all_of(call, packed(rows, call.name, "keys"))))


def _all_of(call: Call, payload: Any) -> Supersteps[list[Any]]:
    """What all others have, by pid."""
    others = [other for other in range(call.bsp.p) if other != call.bsp.pid]
    call.send_all(others, payload)
    letters = yield from call.sync(others)
    return [unpacked(letter.payload) for letter in letters]


def _part(call: Call, keyed: KeyedRows, rows: Rows, blocks: list[Rows]) -> Rows:
    """Of the blocks of all, here those of the others, the keys of this processor's ranks."""
    p, pid = call.bsp.p, call.bsp.pid
    begin = sum(len(block) for block in blocks[:pid])
    blocks.insert(pid, rows)
    merged = keyed.in_order(joined_rows(blocks), runs=True)
    call.bsp.work(merged.size * tree.height(p, 2))
    part: Rows = merged[begin : begin + rows.size]
    return part


def _by_sampling(call: Call, keyed: KeyedRows, stable: bool) -> Supersteps[Rows]:
    """Sample sort, after which the processors get as many keys as they brought."""
    bsp = call.bsp
    p, pid = bsp.p, bsp.pid
    values = np.ascontiguousarray(keyed.rows["value"]) if keyed.value is not None else None
    trees = choose_prefix(bsp.machine, 1)
    call.ends(2 + len(plan_prefix(p, trees[1])) + 1)
    keys, values, sizes = yield from run_sample(call, np.ascontiguousarray(keyed.rows["key"]), values, stable)
    dtype = keyed.rows.dtype
    rows = np.empty(keys.size, [(field, dtype[field]) for field in ("key", "value") if field in (dtype.names or ())])
    rows["key"] = keys
    if values is not None:
        rows["value"] = values
    if p == 1:
        return rows
    # 1. The rank of the first key here.
    upto = yield from run_prefix(call, keys.size, np.add, trees, 1)
    begin = int(upto) - keys.size
    # 2. Each rank goes where it belongs; all know who brought how many keys, since the samples came.
    cuts = np.minimum(np.maximum(np.concatenate([[0], np.cumsum(sizes)]) - begin, 0), keys.size).tolist()
    for dest in range(p):
        if dest != pid and cuts[dest] < cuts[dest + 1]:
            call.send(dest, packed(rows[cuts[dest] : cuts[dest + 1]], call.name, "keys"))
    letters = yield from call.sync()
    blocks = [unpacked(letter.payload) for letter in letters]
    blocks.insert(sum(letter.source < pid for letter in letters), rows[cuts[pid] : cuts[pid + 1]])
    return joined_rows(blocks)
