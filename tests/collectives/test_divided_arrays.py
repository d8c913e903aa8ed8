"""What numpy says of a whole array, collectives say of its blocks, at the cost that they name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.collectives import regular_sampling

from ..costs import assert_ledger_is, charged, counted, machine
from ..tiers import some

Blocks = list[NDArray[Any]]


def quick(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """So many examples of a property, always the same ones; a third of them in the fast tier."""
    return settings(max_examples=some(examples), derandomize=True, database=None, phases=[Phase.generate])


def of_dtype(dtype: str, rng: np.random.Generator, n: int, few: int) -> NDArray[Any]:
    """Some n items of a dtype, of few kinds; NaN and NaT among those that have them."""
    numbers = rng.integers(-few, few + 1, n)
    if dtype in ("f8", "f4", "c16"):
        return np.where(rng.random(n) < 0.05, np.nan, numbers).astype(dtype)
    if dtype == "M8[s]":
        return np.where(rng.random(n) < 0.05, np.datetime64("NaT", "s"), numbers.astype(dtype))
    if dtype == "object":
        return np.array([*(f"{number:x}" for number in numbers.tolist()), None], object)[:-1]
    return abs(numbers).astype(dtype)


PLAIN = ["f8", "i8", "f4", "i1", "u2", "?", "c16", "M8[s]", ">i4", "U3"]


@st.composite
def divided(draw: st.DrawFn, dtypes: tuple[str, ...] = tuple(PLAIN)) -> Blocks:
    """Blocks of one dtype on some processors; few items, or none at all, on some of them."""
    dtype = draw(st.sampled_from(dtypes))
    sizes = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 20, 65]), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    few = draw(st.sampled_from([1, 4, 100]))
    return [of_dtype(dtype, rng, n, few) for n in sizes]


def whole(blocks: Blocks) -> NDArray[Any]:
    """The array that is divided."""
    return np.concatenate(blocks, dtype=blocks[0].dtype)


def same(a: Any, b: Any) -> bool:
    """Equal dtypes, shapes and items, NaN equal to NaN."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and repr(a.tolist()) == repr(b.tolist())


def within(steps: Any, bound: Any) -> bool:
    """Whether a cost is in no part above another one."""
    assert steps.supersteps == bound.supersteps
    assert steps.after <= bound.after
    pairs = zip(steps, bound, strict=True)
    return all(
        max(a.h_out - b.h_out, a.h_in - b.h_in, a.messages - b.messages, a.M - b.M, a.w - b.w) <= 0 for a, b in pairs
    )


# -- prefixes and sums --------------------------------------------------------------------------------------------


@quick(24)
@given(st.integers(1, 12), st.sampled_from([None, 2, 3, 20]), st.integers(0, 2))
def test_an_exclusive_prefix_is_what_lies_before(p: int, degree: int | None, which: int) -> None:
    m, values = machine(p, which), [f"<{pid}>" for pid in range(p)]
    numbers = [5.0 * pid % 7 for pid in range(p)]
    found = assert_ledger_is(
        collectives.exclusive_prefix.cost(m, 1, degree),
        lambda bsp: collectives.exclusive_prefix(bsp, numbers[bsp.pid], max, -1.0, degree),
        p=p,
        machine=m,
    )
    assert found == [-1.0, *itertools.accumulate(numbers, max)][:p]

    def main(bsp: pybsp.BSP) -> Any:
        text = collectives.exclusive_prefix(bsp, values[bsp.pid], lambda a, b: a + b, degree=degree)
        column = np.array([[bsp.pid, 1], [2, 3]], np.int8)
        before = column.copy()
        sums = collectives.exclusive_prefix(bsp, column, np.add, degree=degree)
        assert same(column, before)
        sums += 0  # of one's own
        nothing = collectives.exclusive_prefix(bsp, np.zeros((0, 2)), np.add, degree=degree).shape
        return text, sums, nothing, collectives.exclusive_prefix(bsp, np.array(2.0), np.multiply, degree=degree)

    for pid, (text, sums, nothing, power) in enumerate(pybsp.simulate(main, p=p, machine=m).results):
        assert text == ("".join(values[:pid]) or None)
        assert same(sums, np.array([[pid * (pid - 1) // 2, pid], [2 * pid, 3 * pid]], np.int8))
        assert nothing == (0, 2)
        assert same(power, np.array(2.0**pid))


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("dtype", ["i2", "f8", "c16"])
def test_an_exclusive_prefix_of_long_arrays_goes_by_blocks_and_costs_what_cost_says(p: int, dtype: str) -> None:
    m = machine(p, 1)
    for shape in ((p,), (4 * p - 1,), (3, p)):
        items = math.prod(shape)

        def main(bsp: pybsp.BSP, shape: tuple[int, ...]) -> Any:
            value = (np.arange(math.prod(shape)) + 10 * bsp.pid).astype(dtype).reshape(shape)
            return collectives.exclusive_prefix(bsp, value, np.add, algorithm="blocks")

        expected = collectives.exclusive_prefix.cost(m, items * np.dtype(dtype).itemsize / 8, None, items, "blocks")
        for pid, found in enumerate(assert_ledger_is(expected, main, shape, p=p, machine=m)):
            assert same(found, (np.arange(items) * pid + 5 * pid * (pid - 1)).astype(dtype).reshape(shape))
        planned = collectives.exclusive_prefix.plan(p, algorithm="blocks", items=items)
        assert planned.cost(m, np.dtype(dtype).itemsize / 8).seconds == pytest.approx(expected.seconds, rel=1e-12)


@pytest.mark.parametrize("p", [3, 8, 64])
def test_long_arrays_take_the_cheapest_exclusive_prefix(p: int) -> None:
    m = pybsp.BSPMachine(p=p, g=1e-8, l=1e-5, r=1e9)
    cost = partial(collectives.exclusive_prefix.cost, m)
    inclusive = collectives.prefix.cost(m, 1 << 20, items=1 << 20)
    assert cost(1 << 20, items=1 << 20).seconds == cost(1 << 20, None, 1 << 20, "blocks").seconds < inclusive.seconds
    assert cost(8, items=8).seconds == cost(8).seconds


@pytest.mark.parametrize("dtype", ["f4", "c16", "longdouble"])
def test_the_sums_of_arrays_without_axes_go_on_as_arrays(dtype: str) -> None:
    m = machine(13, 0)
    words = max(1, np.dtype(dtype).itemsize // 8)
    found = assert_ledger_is(
        collectives.exclusive_prefix.cost(m, words, degree=2),
        lambda bsp: collectives.exclusive_prefix(bsp, np.array(bsp.pid, dtype), np.add, degree=2),
        p=13,
        machine=m,
    )
    assert all(same(sums, np.array(pid * (pid - 1) // 2, dtype)) for pid, sums in enumerate(found))


@pytest.mark.parametrize(
    ("op", "value", "first"),
    [
        (np.add, 3, np.int64(0)),
        (np.multiply, np.float32(3), np.float32(1)),
        (np.bitwise_and, np.array([1, 2], np.uint8), np.array([255, 255], np.uint8)),
        (np.logical_and, True, np.bool_(True)),
        (np.logaddexp, 3, np.float64(-np.inf)),
        (np.logaddexp, np.array([1, 2]), np.array([-np.inf, -np.inf])),
        (np.maximum, 3, None),
        (max, 3, None),
        (np.add, "a", None),
    ],
)
def test_processor_0_gets_the_identity_where_there_is_one(op: Any, value: Any, first: Any) -> None:
    found = pybsp.simulate(collectives.exclusive_prefix, value, op, p=1).results[0]
    assert type(found) is type(first)
    assert same(found, first)


def segmented(values: NDArray[Any], flags: NDArray[np.bool_], op: Any) -> NDArray[Any]:
    """One element after the other."""
    sums = values.copy()
    for at in range(1, len(values)):
        if not flags[at]:
            sums[at] = op(sums[at - 1], values[at])
    return sums


@quick(24)
@given(divided(("i8", "i1", "f8", "u2")), st.sampled_from(["add", "maximum", "left"]), st.booleans(), st.floats(0, 1))
def test_a_segmented_prefix_begins_anew_at_flags(blocks: Blocks, name: str, wide: bool, often: float) -> None:
    p, m = len(blocks), machine(len(blocks))
    rng = np.random.default_rng(len(whole(blocks)))
    flags = [rng.random(len(block)) < often**3 for block in blocks]
    if wide:
        blocks = [np.stack([block, block[::-1]], 1) for block in blocks]
    op: Any = {"add": np.add, "maximum": np.maximum, "left": np.bitwise_or}[name]
    if name == "left" and blocks[0].dtype.kind == "f":
        op = np.fmin
    words = blocks[0].itemsize * (1 + wide) / 8
    found = assert_ledger_is(
        collectives.segmented_prefix.cost(m, [*map(len, blocks)], words),
        lambda bsp: collectives.segmented_prefix(bsp, blocks[bsp.pid], flags[bsp.pid], op),
        p=p,
        machine=m,
    )
    with np.errstate(over="ignore"):
        expected = segmented(whole(blocks), whole(flags), op)
    assert same(np.concatenate(found), expected)


def test_a_segmented_prefix_of_a_number_a_processor_keeps_its_type() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        sums = collectives.segmented_prefix(bsp, bsp.pid, bsp.pid in (2, 5), np.add)
        return sums, collectives.segmented_prefix(bsp, np.float32(bsp.pid), False, np.add)

    results = pybsp.simulate(main, p=7).results
    assert [sums for sums, _ in results] == [0, 1, 2, 5, 9, 5, 11]
    assert {(type(sums), type(single)) for sums, single in results} == {(int, np.float32)}


def test_segments_of_all_lengths_are_summed_from_left_to_right() -> None:
    rng = np.random.default_rng(1)
    values = rng.random(3000)
    flags = np.zeros(3000, np.bool_)
    flags[np.cumsum([3, 1, 31, 32, 33, 34, 500, 2, 64, 1])] = True
    found = pybsp.simulate(collectives.segmented_prefix, values, flags, np.add, p=1).results[0]
    assert same(found, segmented(values, flags, np.add))


@quick(24)
@given(st.integers(1, 6), st.integers(0, 40), st.booleans(), st.booleans(), st.integers(0, 99), st.sampled_from("fib"))
def test_a_reduction_by_blocks_is_a_block_of_the_sum(
    p: int, n: int, even: bool, wide: bool, seed: int, kind: str
) -> None:
    rng, m = np.random.default_rng(seed), machine(p, seed % 3)
    dtype = {"f": "f8", "i": "i2", "b": "?"}[kind]
    shape = (n, 3) if wide else (n,)
    arrays = [rng.integers(0, 5, shape).astype(dtype) for _ in range(p)]
    counts = None if even else rng.multinomial(n, [1 / p] * p).tolist()
    cuts = np.arange(p + 1) * n // p if counts is None else np.cumsum([0, *counts])
    op: Any = {"f": np.add, "i": lambda a, b: np.where(b != 0, b, a), "b": np.logical_and}[kind]
    words = np.dtype(dtype).itemsize * (3 if wide else 1) / 8
    for order in ("any", "fixed"):
        found = assert_ledger_is(
            collectives.reduce_scatter.cost(m, n, words, counts),
            lambda bsp, order=order: collectives.reduce_scatter(bsp, arrays[bsp.pid], op, counts, order),
            p=p,
            machine=m,
        )
        total = arrays[0]
        for array in arrays[1:]:
            total = op(total, array)
        for pid, part in enumerate(found):
            assert same(part, total[cuts[pid] : cuts[pid + 1]])


def test_a_reduction_by_blocks_in_the_fixed_order_has_the_bits_of_allreduce() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        array = np.random.default_rng(bsp.pid).random(23)
        every = collectives.allreduce(bsp, array, np.add, order="fixed")
        return collectives.reduce_scatter(bsp, array, np.add, order="fixed"), every

    results = pybsp.simulate(main, p=7).results
    assert np.concatenate([part for part, _ in results]).tobytes() == results[0][1].tobytes()


# -- blocks in one array ------------------------------------------------------------------------------------------


@quick(24)
@given(divided((*PLAIN, "object")), st.integers(0, 5), st.booleans())
def test_blocks_arrive_as_one_array_with_their_counts(blocks: Blocks, root: int, wide: bool) -> None:
    p, m = len(blocks), machine(len(blocks))
    root %= p
    if wide:
        blocks = [np.stack([block, block[::-1]], 1) for block in blocks]
    plain = not blocks[0].dtype.hasobject
    words, sizes = blocks[0].itemsize * (1 + wide) / 8, [len(block) for block in blocks]
    cuts = np.cumsum([0, *sizes])

    def ran(cost: Any, main: Callable[[pybsp.BSP], Any]) -> list[Any]:
        if plain:  # an object counts what its pickle does
            return assert_ledger_is(cost, main, p=p, machine=m)
        return pybsp.simulate(main, p=p, machine=m).results

    for array, counts in ran(
        collectives.allgather_blocks.cost(m, sizes, words),
        lambda bsp: collectives.allgather_blocks(bsp, blocks[bsp.pid]),
    ):
        assert same(array, whole(blocks))
        assert same(counts, np.array(sizes))
        assert array.flags.owndata
    gathered = ran(
        collectives.gather_blocks.cost(m, sizes, words, root),
        lambda bsp: collectives.gather_blocks(bsp, blocks[bsp.pid], root),
    )
    assert [found is None for found in gathered] == [pid != root for pid in range(p)]
    assert same(gathered[root][0], whole(blocks))
    assert same(gathered[root][1], np.array(sizes))
    scattered = ran(
        collectives.scatter_blocks.cost(m, sizes, words, root),
        lambda bsp: collectives.scatter_blocks(bsp, whole(blocks) if bsp.pid == root else None, sizes, root),
    )
    assert all(same(part, block) for part, block in zip(scattered, blocks, strict=True))
    matrix = np.diff([np.arange(p + 1) * n // p for n in sizes])
    exchanged = ran(
        collectives.total_exchange_blocks.cost(m, matrix, words),
        lambda bsp: collectives.total_exchange_blocks(bsp, blocks[bsp.pid]),
    )
    for pid, (array, counts) in enumerate(exchanged):
        pieces = [block[n * pid // p : n * (pid + 1) // p] for block, n in zip(blocks, sizes, strict=True)]
        assert same(array, whole(pieces))
        assert same(counts, matrix[:, pid])
    assert cuts[-1] == len(whole(blocks))


def test_a_total_exchange_of_blocks_goes_by_the_counts() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        counts = [bsp.pid * (dest != 1) + dest for dest in range(bsp.p)]
        array, came = collectives.total_exchange_blocks(bsp, 100 * bsp.pid + np.arange(sum(counts)), counts)
        back, _ = collectives.total_exchange_blocks(bsp, array, came)
        return came.tolist(), back.tolist() == (100 * bsp.pid + np.arange(sum(counts))).tolist()

    assert pybsp.simulate(main, p=3).results == [([0, 1, 2], True), ([1, 1, 1], True), ([2, 3, 4], True)]


# -- what lies where ----------------------------------------------------------------------------------------------


@quick(30)
@given(divided(), st.booleans())
def test_the_least_and_the_greatest_are_numpys(blocks: Blocks, wide: bool) -> None:
    p, m = len(blocks), machine(len(blocks))
    if wide:
        blocks = [np.stack([block, block[::-1]], 1) for block in blocks]
    everything = whole(blocks)
    for name in ("argmin", "argmax"):
        function: Any = getattr(collectives, name)
        if not everything.size:
            with pytest.raises(pybsp.UsageError, match=f"{name}: argument array: expected an element on one processor"):
                pybsp.simulate(lambda bsp, function=function: function(bsp, blocks[bsp.pid]), p=p)
            continue
        found = assert_ledger_is(
            function.cost(m, max(block.size for block in blocks), blocks[0].itemsize),
            lambda bsp, function=function: function(bsp, blocks[bsp.pid]),
            p=p,
            machine=m,
        )
        index = int(getattr(np, name)(everything))
        for value, at in found:
            assert at == index
            assert same(value, everything.reshape(-1)[index])


@quick(24)
@given(divided(), st.sampled_from([0, 1, 2, 5, 30, 500]), st.booleans())
def test_the_k_greatest_and_the_k_least_are_the_ends_of_the_sorted_array(blocks: Blocks, k: int, largest: bool) -> None:
    m = machine(len(blocks))
    local = max(block.size + (n := min(k, block.size)) * math.log2(max(n, 1)) for block in blocks)
    cost = collectives.top_k.cost(m, k, max(block.size for block in blocks), blocks[0].itemsize)
    assert (cost[0].w if len(blocks) > 1 else cost.after) == local
    found = assert_ledger_is(
        cost, lambda bsp: collectives.top_k(bsp, blocks[bsp.pid], k, largest), p=len(blocks), machine=m
    )
    for part in found:
        assert same(part, np.sort(whole(blocks))[:: -1 if largest else 1][:k])


@quick(30)
@given(
    divided(("f8", "i8", "f4", "i1", "u2", "?", ">i4")),
    st.sampled_from([1, 4, 10, 300, (-3, 0, 0.5, 9), (0, 1)]),
    st.sampled_from([None, (0, 10), (-5.5, 2.25)]),
    st.sampled_from([None, "f8", "i4", "c16"]),
    st.booleans(),
)
def test_a_histogram_is_numpys(blocks: Blocks, bins: Any, limits: Any, weight: str | None, density: bool) -> None:
    p, m = len(blocks), machine(len(blocks))
    blocks = [np.nan_to_num(block) for block in blocks]
    weights = [None if weight is None else (np.arange(len(block)) % 7).astype(weight) for block in blocks]
    everything = whole(blocks)
    with np.errstate(all="ignore"):
        heavy = None if weight is None else np.concatenate([one for one in weights if one is not None])
        expected, edges = np.histogram(
            everything + np.uint8(0) if everything.dtype == bool else everything,
            bins,
            limits,
            weights=heavy,
            density=density,
        )
        searched = isinstance(bins, int) and limits is None
        found = assert_ledger_is(
            collectives.histogram.cost(
                m,
                max(map(len, blocks)),
                len(edges) - 1,
                blocks[0].itemsize,
                searched,
                16 if weight == "c16" else 8 if weight != "i4" else 4,
            ),
            lambda bsp: collectives.histogram(bsp, blocks[bsp.pid], bins, limits, weights[bsp.pid], density),
            p=p,
            machine=m,
        )
    for found_counts, found_edges in found:
        assert same(found_edges, edges)
        assert found_counts.dtype == expected.dtype
        assert np.allclose(found_counts, expected, rtol=1e-12, equal_nan=True)


def test_a_density_of_a_bin_without_width_is_infinite_and_no_warning() -> None:
    for found, _ in pybsp.simulate(collectives.histogram, np.ones(1), (0, 1, 1), None, None, True, p=1).results:
        assert found.tolist() == [0, np.inf]


@pytest.mark.parametrize("dtype", ["f2", "f4", "longdouble"])
def test_a_density_is_float64_whatever_values_and_weights_are(dtype: str) -> None:
    values, weights = np.array([0, 1, 1, 3], dtype), np.array([1, 2, 3, 4], "f4")
    expected, _ = np.histogram(values, 3, weights=weights, density=True)
    for found, _ in pybsp.simulate(collectives.histogram, values, 3, None, weights, True, p=1).results:
        assert same(found, expected)
        assert found.dtype == np.float64


# -- order --------------------------------------------------------------------------------------------------------


def moved(blocks: Blocks) -> NDArray[np.int64]:
    """How many keys the sample sort sends from processor i to j."""
    p = len(blocks)

    def main(bsp: pybsp.BSP) -> Any:
        return collectives.sample_sort(bsp, blocks[bsp.pid], np.full(len(blocks[bsp.pid]), bsp.pid), stable=True)[1]

    return np.array([np.bincount(origins, minlength=p) for origins in pybsp.simulate(main, p=p).results]).T


@quick(30)
@given(divided((*PLAIN, "object")), st.sampled_from([None, "f4"]), st.booleans())
def test_a_balanced_sort_divides_the_sorted_keys_equally(blocks: Blocks, values: str | None, stable: bool) -> None:
    p, m, dtype = len(blocks), machine(len(blocks)), blocks[0].dtype
    everything, itemsize = whole(blocks), blocks[0].itemsize
    starts = np.cumsum([0, *map(len, blocks)])

    def main(bsp: pybsp.BSP) -> Any:
        block = blocks[bsp.pid]
        if values is None:
            return collectives.balanced_sort(bsp, block, stable=stable), None
        return collectives.balanced_sort(bsp, block, (starts[bsp.pid] + np.arange(len(block))).astype(values), stable)

    size = None if values is None else 4
    if dtype.hasobject:
        results = pybsp.simulate(main, p=p, machine=m).results
    else:
        cost = collectives.balanced_sort.cost(m, counts=moved(blocks), itemsize=itemsize, values=size)
        assert within(cost, collectives.balanced_sort.cost(m, [*map(len, blocks)], itemsize=itemsize, values=size))
        results = assert_ledger_is(cost, main, p=p, machine=m)
    n, order = len(everything), np.argsort(everything, kind="stable")
    assert [len(keys) for keys, _ in results] == np.diff(np.arange(p + 1) * n // p).tolist()
    assert same(whole([keys for keys, _ in results]), everything[order])
    if values is not None:
        origins = np.concatenate([going for _, going in results]).astype(np.int64)
        assert same(everything[origins], everything[order])
        assert not stable or same(origins, order)


@quick(24)
@given(divided((*PLAIN, "object")))
def test_argsort_gives_the_stable_order_of_all(blocks: Blocks) -> None:
    p, m = len(blocks), machine(len(blocks))
    n, order = len(whole(blocks)), np.argsort(whole(blocks), kind="stable")

    def main(bsp: pybsp.BSP) -> Any:
        return collectives.argsort(bsp, blocks[bsp.pid])

    if blocks[0].dtype.hasobject:
        results = pybsp.simulate(main, p=p, machine=m).results
    else:
        cost = collectives.argsort.cost(m, counts=moved(blocks), itemsize=blocks[0].itemsize)
        assert within(cost, collectives.argsort.cost(m, [*map(len, blocks)], itemsize=blocks[0].itemsize))
        results = assert_ledger_is(cost, main, p=p, machine=m)
    cuts = np.arange(p + 1) * n // p
    for pid, part in enumerate(results):
        assert same(part, order[cuts[pid] : cuts[pid + 1]])


def brought(blocks: Blocks, parts: Blocks) -> NDArray[np.int64]:
    """How many distinct keys of processor i went to j."""
    return np.array([[np.isin(np.unique(block), part).sum() for part in parts] for block in blocks])


@quick(30)
@given(divided((*PLAIN, "object")), st.booleans(), st.booleans())
def test_the_distinct_keys_are_numpys(blocks: Blocks, return_counts: bool, return_inverse: bool) -> None:
    p, m = len(blocks), machine(len(blocks))

    def main(bsp: pybsp.BSP) -> Any:
        found = collectives.unique(bsp, blocks[bsp.pid], return_counts, return_inverse)
        return found if return_counts or return_inverse else (found,)

    simulation = pybsp.simulate(lambda bsp: (main(bsp), bsp.sync()), p=p, machine=m)
    parts, *others = zip(*(result for result, _ in simulation.results), strict=True)
    expected, *numbers = np.unique(whole(blocks), return_inverse=True, return_counts=True)
    assert same(whole([*parts]), expected)
    asked = [column for column, flag in zip(numbers, (return_inverse, return_counts), strict=True) if flag]
    assert all(same(np.concatenate(found), column) for found, column in zip(others, asked, strict=True))
    if return_inverse:
        assert [len(inverse) for inverse in others[0]] == [*map(len, blocks)]
    plain = blocks[0].dtype.kind not in "Oc" and not (expected != expected).any()
    if plain:
        itemsize, sizes, matrix = blocks[0].itemsize, [*map(len, blocks)], brought(blocks, [*parts])
        cost = partial(
            collectives.unique.cost, itemsize=itemsize, return_counts=return_counts, return_inverse=return_inverse
        )
        assert counted(simulation.ledger) == charged(cost(m, sizes, matrix))
        assert within(cost(m, sizes, matrix), cost(m, sizes))
        back = collectives.unique.plan(p, matrix, return_inverse)[2:]
        assert [step.counted(step.last - step.first)[:4] for step in back] == [
            s[:4] for s in cost(m, sizes, matrix)[2:]
        ]


@pytest.mark.parametrize("p", [1, 2, 5])
def test_structures_are_distinct_keys_and_keys_of_groups_as_for_numpy(p: int) -> None:
    rng, dtype = np.random.default_rng(p), np.dtype([("name", "U2"), ("x", "f8")], align=True)
    blocks = [np.empty(pid * 7, dtype) for pid in range(p)]
    for block in blocks:
        block["name"], block["x"] = rng.integers(3, size=len(block)), rng.integers(4, size=len(block))

    def main(bsp: pybsp.BSP) -> Any:
        mine = blocks[bsp.pid]
        sums = collectives.group_by(bsp, mine, np.ones(len(mine), int), np.add)
        return *collectives.unique(bsp, mine, True, True), *sums

    keys, inverse, counts, groups, sums = zip(*pybsp.simulate(main, p=p).results, strict=True)
    expected, indices, numbers = np.unique(whole(blocks), return_inverse=True, return_counts=True)
    assert whole([*inverse]).tolist() == indices.tolist()
    assert whole([*keys]).tolist() == whole([*groups]).tolist() == expected.tolist()
    assert whole([*counts]).tolist() == whole([*sums]).tolist() == numbers.tolist()


@pytest.mark.parametrize("p", [2, 5, 8])
def test_no_processor_gets_more_distinct_keys_than_the_bound(p: int) -> None:
    rng = np.random.default_rng(p)
    for spread in (1, 3, 40, 1000):
        blocks = [np.unique(rng.integers(0, spread * (1 + pid % 2), 60)) for pid in range(p)]

        def main(bsp: pybsp.BSP, blocks: Blocks = blocks) -> list[float]:
            keys, _ = collectives.unique(bsp, blocks[bsp.pid], return_counts=True)
            bsp.sync()
            return [*keys.tolist()]

        simulation = pybsp.simulate(main, p=p)
        sizes = [len(block) for block in blocks]
        assert simulation.ledger[1].h_in <= 2 * (regular_sampling.most(p, sizes) + p - 1)


@quick(24)
@given(divided(), st.sampled_from(["add", "maximum", "logical_or"]), st.sampled_from(["i1", "f8"]), st.booleans())
def test_the_values_of_equal_keys_are_combined(blocks: Blocks, name: str, dtype: str, wide: bool) -> None:
    p, m, op = len(blocks), machine(len(blocks)), getattr(np, name)
    rng = np.random.default_rng(len(whole(blocks)))
    values = [rng.integers(0, 100, (len(block), 2) if wide else len(block)).astype(dtype) for block in blocks]

    def main(bsp: pybsp.BSP) -> Any:
        return collectives.group_by(bsp, blocks[bsp.pid], values[bsp.pid], op)

    simulation = pybsp.simulate(lambda bsp: (main(bsp), bsp.sync()), p=p, machine=m)
    parts, combined = zip(*(result for result, _ in simulation.results), strict=True)
    keys, inverse = np.unique(whole(blocks), return_inverse=True)
    together = whole(values)
    expected = [op.reduce(together[inverse == at], axis=0) for at in range(len(keys))]
    assert same(whole([*parts]), keys)
    if keys.size:
        assert same(np.concatenate(combined), np.array(expected))
    if blocks[0].dtype.kind != "c" and not (keys != keys).any():
        sizes, size = [*map(len, blocks)], combined[0].itemsize * (1 + wide)
        cost = collectives.group_by.cost(m, sizes, brought(blocks, [*parts]), blocks[0].itemsize, size)
        assert counted(simulation.ledger) == charged(cost)
        assert within(cost, collectives.group_by.cost(m, sizes, None, blocks[0].itemsize, size))


@pytest.mark.parametrize("p", [2, 3, 5])
def test_the_values_of_equal_keys_are_combined_in_order(p: int) -> None:
    """Of copysign the first says how large, the last which sign: processors one after the other, in each by index."""
    rng = np.random.default_rng(p)
    blocks = [rng.integers(0, 4, 100) for _ in range(p)]
    values = [rng.random(100) * rng.choice([-1.0, 1.0], 100) for _ in range(p)]

    def main(bsp: pybsp.BSP) -> Any:
        return collectives.group_by(bsp, blocks[bsp.pid], values[bsp.pid], np.copysign)

    keys, combined = (np.concatenate(part) for part in zip(*pybsp.simulate(main, p=p).results, strict=True))
    together = [np.concatenate(values)[np.concatenate(blocks) == key] for key in keys]
    assert keys.tolist() == [0, 1, 2, 3]
    assert combined.tolist() == [np.copysign(of_key[0], of_key[-1]) for of_key in together]


# -- chance -------------------------------------------------------------------------------------------------------


@quick(24)
@given(st.integers(1, 9), st.sampled_from([0, 1, 2, 5, 8, 9, 100, 1000]), st.sampled_from([0, 1, 7, 2**70]))
def test_a_random_permutation_has_each_number_once(p: int, n: int, seed: int) -> None:
    m = machine(p)
    cost = collectives.random_permutation.cost(m, n, seed)
    parts = assert_ledger_is(cost, lambda bsp: collectives.random_permutation(bsp, n, seed), p=p, machine=m)
    assert within(cost, collectives.random_permutation.cost(m, n))
    assert [len(part) for part in parts] == np.diff(np.arange(p + 1) * n // p).tolist()
    assert sorted(np.concatenate(parts).tolist()) == [*range(n)]
    if n >= 100:
        assert np.concatenate(parts).tolist() != [*range(n)]


@pytest.mark.whole
@pytest.mark.parametrize("p", [1, 2, 3])
def test_every_order_is_equally_likely(p: int) -> None:
    """The statistic has 23 degrees of freedom: 70 is passed once in a million. The seeds are always the same."""
    found: dict[tuple[int, ...], int] = {}

    def main(bsp: pybsp.BSP) -> list[list[int]]:
        return [collectives.random_permutation(bsp, 4, seed).tolist() for seed in range(480)]

    parts = pybsp.simulate(main, p=p).results
    for blocks in zip(*parts, strict=True):
        order = tuple(itertools.chain(*blocks))
        found[order] = found.get(order, 0) + 1
    expected = 480 / 24
    assert len(found) == 24
    assert sum((count - expected) ** 2 / expected for count in found.values()) < 70


# -- in the program's supersteps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 3])
def test_what_is_started_is_done_with_the_arguments_of_its_start(p: int) -> None:
    """They ride together, and take the supersteps of the longest."""

    def calls(array: NDArray[Any], flags: NDArray[np.bool_]) -> list[tuple[Any, ...]]:
        return [
            (collectives.exclusive_prefix, array[:2], np.add),
            (collectives.segmented_prefix, array, flags, np.add),
            (collectives.reduce_scatter, array[:4], np.add),
            (collectives.balanced_sort, array, array),
            (collectives.argsort, array),
            (collectives.unique, array, True, True),
            (collectives.group_by, array, array, np.add),
            (collectives.argmin, array),
            (collectives.argmax, array),
            (collectives.top_k, array, 3),
            (collectives.histogram, array, 4, None, array),
            (collectives.allgather_blocks, array),
            (collectives.gather_blocks, array),
            (collectives.scatter_blocks, array),
            (collectives.total_exchange_blocks, array),
        ]

    def main(bsp: pybsp.BSP) -> Any:
        rng = np.random.default_rng(bsp.pid)
        array, flags = rng.integers(0, 9, 5 + bsp.pid).astype(float), rng.random(5 + bsp.pid) < 0.5
        alone = [repr(function(bsp, *arguments)) for function, *arguments in calls(array.copy(), flags.copy())]
        tickets = [function.start(bsp, *arguments) for function, *arguments in calls(array, flags)]
        array[:], flags[:] = -1, False
        supersteps = 0
        while not all(ticket.done for ticket in tickets):
            bsp.sync()
            supersteps += 1
        return supersteps, [t.name for t, a in zip(tickets, alone, strict=True) if repr(t.value) != a]

    assert pybsp.simulate(main, p=p).results == [(4 if p > 1 else 0, [])] * p


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_an_extreme_of_a_dtype_without_an_order_is_an_error_also_on_empty_blocks(name: str) -> None:
    """The others would wait, in the call, for processors that have left it."""
    records = np.zeros(2, [("a", np.int32), ("b", np.float64)])

    def main(bsp: pybsp.BSP) -> str:
        try:
            getattr(collectives, name)(bsp, records[: 2 * bsp.pid])
        except pybsp.UsageError as error:
            return str(error)
        return ""

    for said in pybsp.simulate(main, p=2).results:
        assert f"{name}: argument array: raised TypeError" in said
