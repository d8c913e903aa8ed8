"""Sorting many keys a processor by regular sampling, in two supersteps."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import UsageError, argument_error
from ..ground.convert import no_mask, what
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import flag, integer, numbers
from .one_superstep import word_counts
from .plan import Plan, Step, joined, to_all
from .primitive import Call, pids_of, primitive
from .regular_sampling import Counts, Keys, cut_selected, cut_sorted, most, sample_places, select, split
from .values import packed, unpacked

NAME = "sample_sort"

# Up to this many processors, keys that numpy selects and sorts with vector instructions are not sorted but only
# partitioned before they are sent: what arrives has to be sorted anyway.
SELECTING = 8


class BlockHeader(NamedTuple):
    """What processors send each other about their blocks, beside the samples.

    n: keys. dtype: of the keys. values: dtype and shape of a value, if there are values.
    """

    n: int
    dtype: np.dtype[Any]
    values: tuple[np.dtype[Any], tuple[int, ...]] | None


def encoded(block: BlockHeader) -> str:
    """As it travels: a text, as those of many processors are mostly equal, and each is decoded once."""
    return pickle.dumps(tuple(block)).hex()


@lru_cache(maxsize=1024)
def decoded(note: str) -> BlockHeader:
    """The header that this is the text of."""
    return BlockHeader(*pickle.loads(bytes.fromhex(note)))


class Sorted(NamedTuple):
    """A processor's part of all keys in order, the values that go with it, and how many keys each processor brought."""

    keys: Keys
    values: NDArray[Any] | None
    sizes: list[int]


# -- the cost -----------------------------------------------------------------------------------------------------


def sorting(n: int) -> float:
    """Comparisons to sort n keys."""
    return n * math.log2(n) if n else 0.0


def splitting(p: int, n: int, samples: int) -> float:
    """Comparisons to sort all samples, and to find p - 1 splitters in a block."""
    return sorting(samples) + (p - 1) * math.log2(max(n, 1))


def merging(p: int, n: int) -> float:
    """Comparisons to merge n keys that are p sorted runs."""
    return n * math.log2(p)


def table(name: str, counts: ArrayLike) -> Counts:
    """The argument counts: shape (p, p), whole numbers of at least 0; else a UsageError."""
    matrix = numbers(counts)
    if (
        matrix.ndim != 2
        or matrix.shape[0] != matrix.shape[1]
        or matrix.dtype.kind not in "iu"
        or (matrix.size and matrix.min() < 0)
    ):
        expected = "whole numbers of at least 0 of shape (p, p), the keys that go from i to j"
        raise argument_error(name, "counts", expected, what(matrix))
    return matrix.astype(np.int64)


def plan(p: int, counts: ArrayLike) -> Plan:
    """Who sends what to whom: samples (items of the sender's), then keys (items: places in the sender's sorted block).

    Args:
        p: processors.
        counts: keys that go from processor i to j, shape (p, p), those that stay included.
    """
    return plan_of(NAME, p, counts)


def plan_of(name: str, p: int, counts: ArrayLike) -> Plan:
    """`plan`, for the primitive of this name, which begins with it."""
    moved = table(f"{name}.plan", counts)
    if len(moved) != p:
        raise argument_error(f"{name}.plan", "counts", f"shape ({p}, {p})", moved.shape)
    if p == 1:
        return joined(p, ())
    pids = np.arange(p)
    sources, destinations = np.repeat(pids, p), np.tile(pids, p)
    samples = np.array([sample_places(p, n).size for n in moved.sum(1).tolist()])
    last = np.cumsum(moved, axis=1)
    sent = moved.ravel() > 0
    return joined(
        p,
        [
            Step.of(sources, destinations, 0, samples[sources]),
            Step.of(sources[sent], destinations[sent], (last - moved).ravel()[sent], last.ravel()[sent]),
        ],
    )


def cost(
    machine: Machine,
    keys: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    itemsize: int = 8,
    values: int | None = None,
) -> Cost:
    """What it costs: exactly if the counts are given, else the supersteps exactly, and no less h, M, messages and work.

    Args:
        machine: by which seconds are counted.
        keys: on each processor, a number or shape (p,). Unneeded with counts.
        counts: keys that go from processor i to j, shape (p, p), those that stay included.
        itemsize: bytes of a key.
        values: bytes of a value; None where no values go with the keys.

    Raises:
        UsageError: neither keys nor counts, or what they cannot be.
    """
    return cost_of(NAME, machine, keys, counts, itemsize, values)


def cost_of(
    name: str, machine: Machine, keys: ArrayLike | None, counts: ArrayLike | None, itemsize: int, values: int | None
) -> Cost:
    """`cost`, for the primitive of this name, which begins with it."""
    name, p = f"{name}.cost", machine.p
    itemsize = integer(name, "itemsize", itemsize, 0)
    sizes = [itemsize] if values is None else [itemsize, integer(name, "values", values, 0)]
    if counts is None:
        return _bounded(machine, word_counts(name, keys, (p,), "keys", "or give counts"), sizes)
    moved = table(name, counts)
    schedule = plan(p, moved)
    n, into = moved.sum(1).tolist(), moved.sum(0).tolist()
    after = max(merging(p, arrived) for arrived in into)
    if p == 1:
        return Cost(machine, (), sorting(n[0]))
    samples, exchange = schedule
    first = samples.counted(itemsize / 8)._replace(w=max(map(sorting, n)))
    words = sum(-(-(exchange.last - exchange.first).astype(np.int64) * size // 8) for size in sizes)
    second = exchange.counted(words)
    sampled = sum(sample_places(p, block).size for block in n)
    second = second._replace(messages=second.messages * len(sizes), w=max(splitting(p, block, sampled) for block in n))
    return Cost(machine, (first, second), after)


def _bounded(machine: Machine, sizes: Counts, itemsizes: list[int]) -> Cost:
    """The cost of blocks of these sizes, at most."""
    into, total = most(len(sizes), sizes), int(sizes.sum())
    return _of_blocks(machine, sizes, itemsizes, (int(sizes.max()), min(into, total), total), into)


def typical(machine: Machine, n: int, itemsizes: list[int]) -> Cost:
    """About what blocks of n keys in random order cost; itemsizes: of a key, and of a value."""
    p = machine.p
    away = n - n // p
    return _of_blocks(machine, np.full(p, n), itemsizes, (away, away, p * away), n)


def _of_blocks(machine: Machine, sizes: Counts, itemsizes: list[int], moved: tuple[int, int, int], into: int) -> Cost:
    """The cost of blocks of these sizes.

    Args:
        moved: keys that leave a processor, that come to one, and that move in all.
        into: keys that a processor has in the end.
    """
    p = len(sizes)
    if p == 1:
        return Cost(machine, (), sorting(int(sizes[0])))
    n = sizes.tolist()

    # Every message may be rounded up to whole words; without keys there is no message.
    def words(keys: int, messages: int) -> int:
        return sum(-(-keys * size // 8) + (min(messages, keys) if size % 8 else 0) for size in itemsizes)

    sampled = [sample_places(p, block).size for block in n]
    counted = -(-np.array(sampled) * itemsizes[0] // 8)
    first = to_all(counted)._replace(w=max(map(sorting, n)))
    out, came, total = moved
    second = first._replace(
        h_out=words(out, p - 1),
        h_in=words(came, p - 1),
        messages=(p - 1) * len(itemsizes),
        M=words(total, p * (p - 1)),
        w=max(splitting(p, block, sum(sampled)) for block in n),
    )
    return Cost(machine, (first, second), merging(p, into))


# -- the program --------------------------------------------------------------------------------------------------


def as_given(argument: str, given: Any, name: str = NAME) -> NDArray[Any]:
    """An argument as an array; a UsageError where it makes none."""
    try:
        return np.asarray(given)
    except Exception as error:
        raise argument_error(name, argument, "an array or a list of one dtype", f"{what(given)} ({error})") from None


def checked(keys: Any, values: Any, name: str = NAME) -> tuple[Keys, NDArray[Any] | None]:
    """The arguments keys, shape (n,), and values, n of them, as arrays; else a UsageError."""
    no_mask(name, "keys", keys)
    no_mask(name, "values", values)
    arrays = [as_given(argument, given, name) for argument, given in (("keys", keys), ("values", values))]
    if arrays[0].ndim != 1:
        got, way_out = what(arrays[0]), "use .ravel(), or a structured dtype for keys of several parts"
        if not arrays[0].ndim:
            got, way_out = what(keys), "[key] is one of a key, list(keys) one of a set or a generator"
        raise argument_error(name, "keys", "an array of one axis", got, way_out)
    if arrays[0].dtype.kind == "T":  # np.searchsorted, as of numpy 2.4, takes the texts of one array for the other's
        raise UsageError(
            f"{name}: argument keys: expected keys that numpy finds in another array, got {what(arrays[0])}; "
            "keys.astype(object) can be sorted, and travels as pickles"
        )
    if values is None:
        return arrays[0], None
    if arrays[1].ndim < 1 or len(arrays[1]) != len(arrays[0]):
        expected = f"one for each of the {len(arrays[0])} keys along the first axis"
        raise argument_error(name, "values", expected, what(arrays[1]))
    return arrays[0], arrays[1]


def common(argument: str, dtypes: Sequence[tuple[int, np.dtype[Any]]], own: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that these processors have in common: equal, or strings of any lengths; else a UsageError."""
    if not dtypes:
        return own
    first, found = dtypes[0]
    for pid, dtype in dtypes[1:]:
        if dtype == found:
            continue
        if dtype.kind != found.kind or dtype.kind not in "US":
            raise UsageError(
                f"{NAME}: argument {argument}: expected the same dtype on all processors that have {argument}, got "
                f"{found} on processor {first} and {dtype} on processor {pid}; convert with .astype"
            )
        found = np.result_type(found, dtype)
    return found


def agreed(
    bsp: BSP, blocks: Sequence[BlockHeader], own: BlockHeader
) -> tuple[np.dtype[Any], np.dtype[Any] | None, tuple[int, ...]]:
    """What all blocks have in common: dtype of keys, dtype and shape of a value. An empty block goes with any other.

    Where all are empty, those of the first processor are all processors'.
    """
    every = [*zip(pids_of(bsp, range(bsp.p)), blocks, strict=True)]
    filled = [(pid, block) for pid, block in every if block.n] or every[:1]
    dtype = common("keys", [(pid, block.dtype) for pid, block in filled], own.dtype)
    forms = [(pid, block.values) for pid, block in filled if block.values is not None]
    if own.values is None:
        return dtype, None, ()
    shape = forms[0][1][1] if forms else own.values[1]
    for pid, (_, other) in forms:
        if other != shape:
            got = f"{shape} on processor {forms[0][0]} and {other} on processor {pid}"
            raise argument_error(NAME, "values", "values of the same shape on all processors", got)
    return dtype, common("values", [(pid, form[0]) for pid, form in forms], own.values[0]), shape


def run_together(runs: Sequence[NDArray[Any]], empty: NDArray[Any]) -> NDArray[Any]:
    """The runs as one array of the dtype of `empty`; what has no items may have another dtype or shape."""
    return np.concatenate([empty, *(run for run in runs if len(run))], dtype=empty.dtype)


@primitive(cost, plan)
def sample_sort(bsp: BSP, keys: Any, values: Any = None, stable: bool = False) -> Supersteps[Any]:
    """Sort the keys of all processors: processor 0 gets the smallest, processor p - 1 the largest; collective.

    For many keys a processor, p^2 or more; `bitonic_sort` is for few.

    Args:
        bsp: the processor.
        keys: shape (n,), where n may differ from processor to processor and be 0; they are left as they are. Any dtype
            that numpy sorts, in its order (NaN and NaT last), and objects that compare with <. Processors that have
            keys must have the same dtype; strings may differ in length. Where none has any, it is processor 0's.
        values: None, or what goes with the keys: shape (n, ...) of any dtype; on all processors or on none.
        stable: whether equal keys stay in order: by processor, then as they were there. Equal on all processors.

    Returns:
        The processor's part of the sorted keys, or (keys, values); arrays of its own. How many these are depends on the
        keys: for p blocks of n keys at most 2*n, for others at most `regular_sampling.most`.

    Raises:
        UsageError: keys or values of a wrong shape; keys that do not compare; dtypes or shapes of values that differ;
            values on some processors only; what cannot be pickled.

    BSP cost: two supersteps; none where p = 1. The first has h <= (p+1)*(p-1) keys; to gather the samples and broadcast
    splitters would cost more. In the second a processor sends at most its keys, and gets at most
    `regular_sampling.most`, whatever the keys are: equal ones are ordered by processor and place. Work is charged in
    comparisons: n*log2(n) before the first; m*log2(m) to sort all m samples, and p - 1 searches, before the second;
    n*log2(p) to merge n keys after it (the same where a block is first only partitioned, and what came is sorted).
    `sample_sort.cost` has it exactly for given counts of keys, else as a bound.

    Source: Shi and Schaeffer, *Parallel sorting by regular sampling* (1992), with a sample more of each block, its last
    key: keys that are in order already then stay where they are, if the blocks are equal.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     keys = np.random.default_rng(bsp.pid).integers(100, size=50)
        ...     return collectives.sample_sort(bsp, keys)
        >>> parts = pybsp.simulate(main, p=4).results
        >>> together = np.concatenate(parts)
        >>> len(together), bool((np.diff(together) >= 0).all())
        (200, True)
    """
    stable = flag(NAME, "stable", stable)
    call = Call(bsp, NAME, values="None" if values is None else "given", stable=stable)
    call.ends(2)
    merged, carried, _ = yield from run(call, *checked(keys, values), stable)
    return merged if carried is None else (merged, carried)


def run(call: Call, block: Keys, carried: NDArray[Any] | None, stable: bool) -> Supersteps[Sorted]:
    """Sort blocks of keys, with values or without."""
    bsp = call.bsp
    p, pid = bsp.p, bsp.pid
    n, places = block.size, sample_places(p, block.size)
    mine = BlockHeader(n, block.dtype, None if carried is None else (carried.dtype, carried.shape[1:]))
    # numpy sorts these with vector instructions where the processor has them; others by merging the runs that it finds.
    vectorised = block.dtype.kind in "iuf" and block.dtype.isnative and not stable
    kind: Any = None if vectorised else "stable"
    selecting = vectorised and carried is None and 1 < p <= SELECTING and n > p + 1

    # 1. Sort the block, and take its samples.
    if carried is not None:
        order = call.own(partial(np.argsort, block, kind=kind), "keys")
        block, carried = block.take(order), carried.take(order, axis=0)  # rows by `take`: half the time of an index
    elif selecting:
        block = block.copy()
        select(block, places[1:-1])
    else:
        block = call.own(partial(np.sort, block, kind=kind), "keys")
    bsp.work(sorting(n))
    if p == 1:
        return Sorted(block, carried, [n])
    samples = block[places]
    if selecting:
        # The smallest and the largest need not be in their places.
        samples[0], samples[-1] = np.fmin.reduce(block[: places[1]]), np.max(block[places[-2] :])

    # 2. All get the samples of all.
    others = [dest for dest in range(p) if dest != pid]
    call.send_all(others, packed(samples, call.name, "keys"), encoded(mine))
    letters = yield from call.sync(others)
    blocks = [decoded(letter.note) for letter in letters]
    blocks.insert(pid, mine)
    pieces = [unpacked(letter.payload) for letter in letters]
    pieces.insert(pid, samples)
    dtype, value_dtype, shape = agreed(bsp, blocks, mine)

    # 3. They determine the splitters, which cut the block.
    sizes, empty = [other.n for other in blocks], np.empty(0, dtype)
    if selecting:
        splitters = call.own(lambda: split(run_together(pieces, empty), sizes, pid), "keys")
        cuts = cut_selected(block, places, splitters, pid)
    else:
        splitters = call.alike(lambda: call.own(lambda: split(run_together(pieces, empty), sizes, pid), "keys"))
        cuts = call.own(partial(cut_sorted, block, splitters, pid), "keys")
    bounds = [0, *cuts.tolist(), *[n] * (p - cuts.size)]
    bsp.work(splitting(p, n, sum(piece.size for piece in pieces)))

    # 4. Each part goes where it belongs.
    outgoing = []
    for dest in others:
        part = slice(bounds[dest], bounds[dest + 1])
        if part.start < part.stop:
            outgoing.append((dest, packed(block[part], call.name, "keys")))
            if carried is not None:
                outgoing.append((dest, packed(carried[part], call.name, "values")))
    for dest, payload in outgoing:
        call.send(dest, payload)
    letters = yield from call.sync()

    # 5. Merge what came, and what stayed: sorted runs in order of their sources.
    stayed = slice(bounds[pid], bounds[pid + 1])
    before = sum(letter.source < pid for letter in letters)
    arrived = [unpacked(letter.payload) for letter in letters]
    if carried is None:
        merged = run_together([*arrived[:before], block[stayed], *arrived[before:]], np.empty(0, dtype))
        call.own(partial(merged.sort, kind=kind), "keys")
        bsp.work(merging(p, merged.size))
        return Sorted(merged, None, sizes)
    merged = run_together([*arrived[:before:2], block[stayed], *arrived[before::2]], np.empty(0, dtype))
    carried = run_together(
        [*arrived[1:before:2], carried[stayed], *arrived[before + 1 :: 2]], np.empty((0, *shape), value_dtype)
    )
    order = call.own(partial(np.argsort, merged, kind="stable"), "keys")
    bsp.work(merging(p, merged.size))
    return Sorted(merged.take(order), carried.take(order, axis=0), sizes)
