"""Collectives on arrays that are divided among processors, on every kind of processor; and what they refuse."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from tests.conftest import Spmd, on_processors

from .programs import plain
from .values import stirred


def block_of(pid: int) -> Any:
    """Some numbers, of which many are equal; none on processor 1."""
    return np.random.default_rng(pid).integers(0, 9, 0 if pid == 1 else 5 + 3 * pid).astype("f4")


def test_complex_nans_of_all_processors_are_one_key(spmd: Spmd) -> None:
    forms = [complex(1, np.nan), complex(np.nan, 0), complex(np.nan, np.nan), 2j, 1.0]

    def main(bsp: pybsp.BSP) -> Any:
        keys, counts = collectives.unique(bsp, np.array([forms[bsp.pid % 5], forms[-bsp.pid % 4]]), return_counts=True)
        return keys.tolist(), counts.tolist()

    found = spmd(main)
    whole = np.array([form for pid in range(spmd.p) for form in (forms[pid % 5], forms[-pid % 4])])
    keys, counts = np.unique(whole, return_counts=True)
    assert plain(np.array([key for part, _ in found for key in part])) == plain(keys)
    assert [count for _, part in found for count in part] == counts.tolist()


def test_long_segments_of_times_have_their_unit(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        lasting, flags = np.full(40, 2, "m8[s]"), np.zeros(40, np.bool_)
        return collectives.segmented_prefix(bsp, lasting, flags, np.add)

    for pid, found in enumerate(spmd(main)):
        assert found.dtype == np.dtype("m8[s]")
        assert found.astype(int).tolist() == [2 * (40 * pid + k + 1) for k in range(40)]


def test_values_in_another_byte_order_have_prefix_sums_as_numpy_makes_them(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return collectives.segmented_prefix(
            bsp, np.arange(3, dtype=">f8"), np.array([bsp.pid == 0, False, False]), np.add
        )

    for pid, found in enumerate(spmd(main)):
        assert found.dtype == np.cumsum(np.arange(3, dtype=">f8")).dtype
        assert found.tolist() == [3.0 * pid, 3.0 * pid + 1, 3.0 * pid + 3]


@pytest.mark.parametrize("dtype", [">U2", "<U2", "S3"])
def test_distinct_texts_have_the_dtype_of_the_blocks(spmd: Spmd, dtype: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        longer = dtype.replace("2", "4").replace("3", "5")
        return collectives.unique(bsp, np.array(["b", "a", "cc"], longer if bsp.pid == 1 else dtype))

    longest = dtype if spmd.p == 1 else dtype.replace("2", "4").replace("3", "5")
    assert {part.dtype.str for part in spmd(main)} == {np.dtype(longest).str}


def test_a_subclass_of_arrays_of_plain_data_is_a_column_of_that(spmd: Spmd) -> None:
    class Named(np.ndarray):
        pass

    def main(bsp: pybsp.BSP) -> Any:
        return collectives.prefix_2d(bsp, np.arange(4, dtype="i2").view(Named), np.add)

    for pid, found in enumerate(spmd(main)):
        assert (type(found), found.dtype, found.tolist()) == (np.ndarray, np.int16, [(pid + 1) * k for k in range(4)])


MASKS: dict[str, Callable[[pybsp.BSP, Any], Any]] = {
    "histogram, bins": lambda bsp, masked: collectives.histogram(bsp, np.ones(2), bins=masked),
    "scatter_blocks, counts": lambda bsp, masked: collectives.scatter_blocks(bsp, np.arange(bsp.p), masked.astype(int)),
    "prefix_2d, column": lambda bsp, masked: collectives.prefix_2d(bsp, masked, np.add),
    "duplicate, items": lambda bsp, masked: collectives.duplicate(bsp, masked, [1] * bsp.p),
    "duplicate, copies": lambda bsp, masked: collectives.duplicate(bsp, [1] * bsp.p, masked.astype(int)),
    "argsort, keys": lambda bsp, masked: collectives.argsort(bsp, masked),
    "sort, keys": lambda bsp, masked: collectives.sort(bsp, masked),
    "sort, values": lambda bsp, masked: collectives.sort(bsp, np.ones(bsp.p), masked),
    "sample_sort, keys": lambda bsp, masked: collectives.sample_sort(bsp, masked),
    "sample_sort, values": lambda bsp, masked: collectives.sample_sort(bsp, np.ones(bsp.p), masked),
}


@pytest.mark.parametrize("case", MASKS)
def test_a_mask_that_would_be_lost_is_refused(spmd: Spmd, case: str) -> None:
    name, argument = case.split(", ")
    errors = spmd.errors(lambda bsp: MASKS[case](bsp, np.ma.masked_less(np.arange(1.0, bsp.p + 1), 1)))
    found = [error for error in errors if isinstance(error, pybsp.UsageError)]
    assert found
    assert all(f"{name}: argument {argument}: expected an array without a mask" in str(error) for error in found)


def test_they_say_of_blocks_what_numpy_says_of_the_whole(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        block = block_of(bsp.pid)
        counts = [(bsp.pid + dest) % 3 for dest in range(bsp.p)]
        found = {
            "sort": collectives.balanced_sort(bsp, block, 2 * block),
            "argsort": collectives.argsort(bsp, block),
            "unique": collectives.unique(bsp, block, return_counts=True),
            "indices": collectives.unique(bsp, block, return_inverse=True)[1],
            "sums": collectives.group_by(bsp, block, 3 * block, np.add)[1],
            "least": collectives.argmin(bsp, block),
            "greatest": collectives.argmax(bsp, block),
            "top": collectives.top_k(bsp, block, 4),
            "bottom": collectives.top_k(bsp, block, 4, largest=False),
            "histogram": collectives.histogram(bsp, block, 5),
            "segments": collectives.segmented_prefix(bsp, block, block == 3, np.maximum),
            "before": collectives.exclusive_prefix(bsp, np.arange(2) + bsp.pid, np.add),
            "scattered": collectives.reduce_scatter(bsp, np.arange(7) * bsp.pid, np.add),
            "permutation": collectives.random_permutation(bsp, 11, seed=3),
            "all": collectives.allgather_blocks(bsp, block),
            "root": collectives.gather_blocks(bsp, block, bsp.p - 1),
            "part": collectives.scatter_blocks(bsp, np.arange(10) if bsp.pid == 0 else None),
            "exchanged": collectives.total_exchange_blocks(bsp, np.full(sum(counts), bsp.pid), counts),
        }
        stirred(bsp)
        return found

    results, p = spmd(main), spmd.p
    blocks = [block_of(pid) for pid in range(p)]
    whole = np.concatenate(blocks)
    order = np.argsort(whole, kind="stable")
    keys, indices, counts = np.unique(whole, return_inverse=True, return_counts=True)

    def joined(name: str, column: int | None = None) -> Any:
        parts = [result[name] if column is None else result[name][column] for result in results]
        return plain(np.concatenate(parts))

    assert joined("sort", 0) == plain(whole[order])
    assert joined("sort", 1) == plain(2 * whole[order])
    assert joined("argsort") == plain(order)
    assert joined("unique", 0) == plain(keys)
    assert joined("unique", 1) == plain(counts)
    assert joined("indices") == plain(indices)
    assert joined("sums") == plain(3 * keys * counts.astype("f4"))
    running, segments = whole[0], []
    for value in whole:
        running = value if value == 3 else max(running, value)
        segments.append(running)
    assert joined("segments") == plain(np.array(segments))
    assert sorted(np.concatenate([result["permutation"] for result in results]).tolist()) == [*range(11)]
    assert joined("scattered") == plain(np.arange(7) * sum(range(p)))
    assert joined("part") == plain(np.arange(10))
    sizes = np.array([block.size for block in blocks])
    for pid, result in enumerate(results):
        assert plain(result["least"]) == plain((whole.min(), int(whole.argmin())))
        assert plain(result["greatest"]) == plain((whole.max(), int(whole.argmax())))
        assert plain(result["top"]) == plain(np.sort(whole)[::-1][:4])
        assert plain(result["bottom"]) == plain(np.sort(whole)[:4])
        assert plain(result["histogram"]) == plain(np.histogram(whole, 5))
        assert plain(result["before"]) == plain(np.arange(2) * pid + pid * (pid - 1) // 2)
        assert plain(result["all"]) == plain((whole, sizes))
        assert plain(result["root"]) == plain((whole, sizes) if pid == p - 1 else None)
        came = np.array([(pid + source) % 3 for source in range(p)])
        assert plain(result["exchanged"]) == plain((np.repeat(np.arange(p), came), came))


ONE = np.arange(3.0)
MASKED = np.ma.masked_array([1.0], [True])
BAD: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "no axes": (collectives.allgather_blocks, (3,), "argument array: expected an array of shape (n, ...), got int"),
    "ragged": (collectives.gather_blocks, ([[1], [1, 2]],), "argument array: expected an array of shape (n, ...)"),
    "masked": (collectives.argmin, (MASKED,), "argument array: expected an array without a mask"),
    "none": (
        collectives.top_k,
        (None, 1),
        "argument values: expected an array of shape (n, ...), got NoneType None; l",
    ),
    "objects": (collectives.top_k, (np.array([None]), 1), "argument values: expected an array of shape (n, ...) of pl"),
    "too many": (collectives.top_k, (ONE, -1), "argument k: expected a whole number of at least 0, got -1"),
    "no memory": (collectives.top_k, (ONE, 10**12), "argument k: expected a whole number, for float64, from 0 to"),
    "counts": (collectives.total_exchange_blocks, (ONE, [7]), "argument counts: expected"),
    "fractions": (collectives.reduce_scatter, (ONE, np.add, [1.5, 1.5]), "argument counts: expected"),
    "sum": (collectives.reduce_scatter, (ONE, sum), "argument op: expected an associative function"),
    "degree": (collectives.exclusive_prefix, (1, np.add, 0, 1), "argument degree: expected a whole number of at least"),
    "flags": (collectives.segmented_prefix, (ONE, [1, 0, 1], np.add), "argument flags: expected bool, one for each of"),
    "function": (collectives.segmented_prefix, (1, True, max), "argument op: expected a numpy ufunc"),
    "other dtype": (collectives.segmented_prefix, (ONE, ONE > 1, np.less), "argument op: expected one that keeps"),
    "no sums": (collectives.segmented_prefix, (np.array(["a"]), [True], np.multiply), "argument op: raised"),
    "two axes": (collectives.balanced_sort, (np.eye(2),), "argument keys: expected an array of one axis"),
    "short": (collectives.balanced_sort, (ONE, ONE[:2]), "argument values: expected one for each of the 3 keys"),
    "uncomparable": (collectives.argsort, (np.array([None, 1]),), "argument keys: raised TypeError"),
    "dict": (collectives.unique, ({1: 2},), "argument keys: expected an array of one axis, got dict {1: 2}; [key] is"),
    "no values": (collectives.group_by, (ONE, None, np.add), "argument values: expected one for each key, got None"),
    "no ufunc": (collectives.group_by, (ONE, ONE, max), "argument op: expected a numpy ufunc"),
    "rule": (collectives.histogram, (ONE, "auto"), "argument bins: expected how many"),
    "no bins": (collectives.histogram, (ONE, 0), "argument bins: expected what np.histogram takes"),
    "range": (collectives.histogram, (ONE, 3, (2, 1)), "argument range: expected what np.histogram takes"),
    "infinite": (collectives.histogram, (ONE + np.inf,), "argument values: raised ValueError"),
    "complex": (collectives.histogram, (ONE * 1j,), "argument values: expected real numbers"),
    "weights": (collectives.histogram, (ONE, 3, None, [1]), "argument weights: expected a number for each of the 3"),
    "no flag": (collectives.balanced_sort, (ONE, None, ONE), "argument stable: expected True or False, got float64 of"),
    "no flag of sort": (collectives.sort, (ONE, None, ONE), "argument stable: expected True or False, got float64 of"),
    "no flag of unique": (collectives.unique, (ONE, ONE), "argument return_counts: expected True or False"),
    "no other flag of unique": (
        collectives.unique,
        (ONE, True, ONE),
        "argument return_inverse: expected True or False",
    ),
    "no flag of histogram": (collectives.histogram, (ONE, 3, None, None, ONE), "argument density: expected True or"),
    "no flag of top_k": (collectives.top_k, (ONE, 1, ONE), "argument largest: expected True or False, got float64 of"),
    "seed": (collectives.random_permutation, (5, -1), "argument seed: expected a whole number of at least 0"),
    "large": (collectives.random_permutation, (10**9, 1), "argument n: expected a whole number from 0 to 999999999"),
    "nothing": (collectives.argmax, (np.zeros(0),), "argument array: expected an element on one processor at least"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_an_error_everywhere(spmd: Spmd, case: str) -> None:
    function, arguments, text = BAD[case]

    def main(bsp: pybsp.BSP) -> None:
        function(bsp, *arguments)

    for error in spmd.errors(main):
        assert f"{function.__name__}: {text}" in str(error)


@pytest.mark.parametrize("name", ["sort", "sample_sort", "balanced_sort", "argsort", "unique", "group_by"])
def test_texts_that_numpy_does_not_find_in_another_array_are_refused_with_the_way_out(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        keys = np.array(["long enough to lie outside of the array"], np.dtypes.StringDType())
        getattr(collectives, name)(bsp, keys, *([ONE[:1], np.add] if name == "group_by" else []))

    for error in spmd.errors(main):
        assert f"{name}: argument keys: " in str(error)
        assert "StringDType" in str(error)
        assert "keys.astype(object) can be sorted" in str(error)


def test_texts_that_are_in_no_record_are_refused_by_the_argument_that_they_are(spmd: Spmd) -> None:
    texts = np.array(["a", "b", "c"], np.dtypes.StringDType())
    for error in spmd.errors(lambda bsp: collectives.sort(bsp, ONE, texts)):
        assert "sort: argument values: StringDType is not" in str(error)
        assert "values.astype(object) can be sorted" in str(error)


@pytest.mark.parametrize("bins", [4, 100_000])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_value_without_bins_is_named_with_the_processor_that_has_it(spmd: Spmd, value: float, bins: int) -> None:
    last = spmd.p - 1

    def main(bsp: pybsp.BSP) -> None:
        collectives.histogram(bsp, np.where((bsp.pid == last) & (ONE == 1), value, ONE), bins)

    *others, error = spmd.errors(main)
    assert isinstance(error, pybsp.UsageError)
    assert "is not finite" in str(error)
    if spmd.p > 1 and sys.version_info >= (3, 11):  # before, exceptions take no notes
        assert f"processor {last} of {spmd.p}, in superstep" in "".join(error.__notes__)
    assert all(isinstance(one, pybsp.ProcessorError) and f"processor {last}" in str(one) for one in others)


DIFFERENT: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...], str]] = {
    "dtype": (collectives.allgather_blocks, (ONE,), (ONE.astype("f4"),), "array"),
    "row": (collectives.total_exchange_blocks, (ONE,), (np.zeros((3, 2)),), "array"),
    "root": (collectives.gather_blocks, (ONE, 0), (ONE, 1), "root"),
    "shape": (collectives.reduce_scatter, (ONE, np.add), (np.arange(4.0), np.add), "array"),
    "counts": (collectives.reduce_scatter, (ONE[:0], np.add, None), (ONE, np.add, None), "array"),
    "op": (collectives.exclusive_prefix, (1, np.add), (1, np.maximum), "op"),
    "values": (collectives.segmented_prefix, (1, True, np.add), (1.0, True, np.add), "values"),
    "keys": (collectives.argsort, (ONE,), (np.arange(3),), "keys"),
    "balanced": (collectives.balanced_sort, (ONE,), (np.arange(3),), "keys"),
    "stable": (collectives.balanced_sort, (ONE, None, True), (ONE, None, False), "stable"),
    "counted": (collectives.unique, (ONE, True), (ONE, False), "return_counts"),
    "indexed": (collectives.unique, (ONE, True, True), (ONE, True), "return_inverse"),
    "sums": (collectives.group_by, (ONE, ONE, np.add), (ONE, ONE, np.maximum), "op"),
    "extremes": (collectives.argmin, (ONE,), (np.arange(3),), "array"),
    "k": (collectives.top_k, (ONE, 1), (ONE, 2), "k"),
    "largest": (collectives.top_k, (ONE, 1), (ONE, 1, False), "largest"),
    "edges": (collectives.histogram, (ONE, [0, 1, 2]), (ONE, [0, 1, 3]), "bins"),
    "seed": (collectives.random_permutation, (50, 1), (50, 2), "seed"),
    "a few": (collectives.random_permutation, (1, 1), (2, 1), "n"),
    "none": (collectives.random_permutation, (0, 1), (0, 2), "seed"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_arguments_that_differ_are_an_error_everywhere(spmd: Spmd, case: str) -> None:
    function, mine, theirs, argument = DIFFERENT[case]
    if spmd.p == 1:
        return

    def main(bsp: pybsp.BSP) -> None:
        function(bsp, *(theirs if bsp.pid == bsp.p - 1 else mine))
        bsp.sync()

    for error in spmd.errors(main):
        assert f"{function.__name__}: argument {argument}: expected the same on all processors" in str(error)


@on_processors
@pytest.mark.parametrize("degree", [2, 99])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_number_that_processor_0_gets_beside_arrays_is_an_array(bsp: pybsp.BSP, degree: int, dtype: Any) -> None:
    value = np.full((2, 3), bsp.pid + 1, dtype)
    before = collectives.exclusive_prefix(bsp, value, np.maximum, -1, degree)
    assert np.array_equal(before, np.full((2, 3), bsp.pid or -1))
    assert before.dtype == dtype
    out = np.zeros((2, 3))
    assert collectives.exclusive_prefix(bsp, value, np.maximum, -1, degree, out=out) is out
    assert np.array_equal(out, before)


@pytest.mark.parametrize("degree", [2, 99])
def test_an_array_for_what_processor_0_does_not_get_is_an_error_that_asks_for_it(spmd: Spmd, degree: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return collectives.exclusive_prefix(bsp, np.ones(3), np.maximum, degree=degree, out=np.zeros(3))

    for error in spmd.errors(main):
        assert "exclusive_prefix: argument initial: expected what processor 0 gets in out" in str(error)


@pytest.mark.parametrize("function", ["allgather_blocks", "argsort", "balanced_sort", "unique"])
def test_where_a_block_is_an_empty_list_the_error_says_of_which_dtype_that_is(spmd: Spmd, function: str) -> None:
    if spmd.p == 1:
        return
    for error in spmd.errors(lambda bsp: getattr(collectives, function)(bsp, [] if bsp.pid else [3, 1])):
        assert "float64 on processor" in str(error)
        assert "; an empty list is float64: np.empty(0, dtype) is of another one" in str(error)
