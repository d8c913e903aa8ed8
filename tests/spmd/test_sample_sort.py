"""sample_sort: sorted as numpy sorts, for every dtype, any block sizes, with values, stable; and what goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pybsp
from pybsp.collectives.allgather import allgather
from pybsp.collectives.regular_sampling import most
from pybsp.collectives.sample_sort import sample_sort
from tests.conftest import Spmd
from tests.tiers import some

from ..costs import charged, counted

PAIR = np.dtype([("a", "i2"), ("b", "f4")])
DTYPES: list[Any] = [
    "f8",
    "f4",
    "f2",
    "g",
    ">f8",
    "i8",
    "i2",
    "u1",
    "?",
    "c16",
    "M8[s]",
    "m8[D]",
    "U6",
    "S6",
    PAIR,
    "O",
]
SHAPES = ["random", "few", "equal", "in order", "reversed", "nan"]


def keys_of(dtype: Any, shape: str, n: int, pid: int, seed: int = 0) -> NDArray[Any]:
    """Keys of any dtype, ties among them."""
    rng = np.random.default_rng([seed, pid])
    numbers = {
        "random": rng.integers(0, 1000, n),
        "few": rng.integers(0, 3, n),
        "equal": np.full(n, 7),
        "in order": np.arange(n) + 50 * pid,
        "reversed": 1000 - 50 * pid - np.arange(n),
        "nan": np.where(rng.random(n) < 0.5, rng.integers(0, 9, n), -1),
    }[shape]
    made = np.dtype(dtype)
    if made == PAIR:
        pairs = np.zeros(n, PAIR)
        pairs["a"], pairs["b"] = numbers % 10, numbers // 10
        return pairs
    if made.kind == "O":
        return np.array([(int(number), "x") for number in numbers] + [None], object)[:-1]
    if made.kind in "iu":
        return (numbers % 100).astype(made)
    keys = numbers.astype("i8").astype(made)
    if shape == "nan" and made.kind in "fcmM":
        keys[numbers < 0] = np.array("nan" if made.kind in "fc" else "nat").astype(made)
    return keys


def same(mine: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether two arrays are equal, any NaN to any other: numpy's sorts do not keep which one it is."""
    return (mine.dtype, mine.shape, repr(mine.tolist())) == (expected.dtype, expected.shape, repr(expected.tolist()))


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_of_every_dtype_come_out_as_numpy_sorts_them(spmd: Spmd, shape: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for dtype in DTYPES:
            keys = keys_of(dtype, shape, 30, bsp.pid)
            before = keys.copy()
            found.append(sample_sort(bsp, keys))
            assert same(keys, before)
            assert found[-1].flags.writeable
            assert not np.shares_memory(found[-1], keys)
        return found

    results = spmd(main)
    for number, dtype in enumerate(DTYPES):
        everything = np.concatenate([keys_of(dtype, shape, 30, pid) for pid in range(spmd.p)], dtype=dtype)
        parts = [result[number] for result in results]
        assert same(np.concatenate(parts, dtype=dtype), np.sort(everything, kind="stable"))
        assert {part.dtype for part in parts} == {np.dtype(dtype)}
        assert max(len(part) for part in parts) <= most(spmd.p, [30] * spmd.p) <= 60


@settings(
    max_examples=some(20),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.sampled_from(SHAPES),
    sizes=st.lists(st.sampled_from([0, 1, 2, 5, 9, 40, 100]), min_size=8, max_size=8),
    seed=st.integers(0, 99),
    carried=st.booleans(),
    stable=st.booleans(),
)
def test_blocks_of_any_sizes_are_sorted(
    spmd: Spmd, dtype: Any, shape: str, sizes: list[int], seed: int, carried: bool, stable: bool
) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        keys = keys_of(dtype, shape, sizes[bsp.pid], bsp.pid, seed)
        if not carried:
            return sample_sort(bsp, keys, stable=stable), None
        return sample_sort(bsp, keys, np.stack([np.full(keys.size, bsp.pid), np.arange(keys.size)], 1), stable)

    results = spmd(main)
    p, sizes = spmd.p, sizes[: spmd.p]
    blocks = [keys_of(dtype, shape, n, pid, seed) for pid, n in enumerate(sizes)]
    everything = np.concatenate(blocks, dtype=dtype)
    merged = np.concatenate([keys for keys, _ in results], dtype=dtype)
    order = np.argsort(everything, kind="stable")
    assert same(merged, everything[order])
    assert max(len(keys) for keys, _ in results) <= most(p, sizes)
    if carried:
        origins = np.concatenate([origin for _, origin in results])
        starts = np.cumsum([0, *sizes])
        assert same(everything[starts[origins[:, 0]] + origins[:, 1]], merged)
        expected = np.stack([np.repeat(np.arange(p), sizes), np.concatenate([np.arange(n) for n in sizes])], 1)
        if stable:
            assert origins.tolist() == expected[order].tolist()
        else:
            assert sorted(origins.tolist()) == expected.tolist()


@pytest.mark.parametrize("values", ["texts", "objects", "structures", "rows", "nothing"])
def test_values_of_any_kind_go_with_their_keys(spmd: Spmd, values: str) -> None:
    def values_of(pid: int) -> NDArray[Any]:
        numbers = keys_of("f8", "random", 20, pid)
        return {
            "texts": numbers.astype("U8"),
            "objects": np.array([{"at": number} for number in numbers.tolist()], object),
            "structures": np.array([(number % 7, number) for number in numbers.tolist()], PAIR),
            "rows": np.stack([numbers, -numbers], 1),
            "nothing": np.zeros((20, 0)),
        }[values]

    def main(bsp: pybsp.BSP) -> Any:
        return sample_sort(bsp, keys_of("f8", "random", 20, bsp.pid), values_of(bsp.pid), stable=True)

    results = spmd(main)
    keys = np.concatenate([keys_of("f8", "random", 20, pid) for pid in range(spmd.p)])
    together = np.concatenate([values_of(pid) for pid in range(spmd.p)])
    order = np.argsort(keys, kind="stable")
    assert np.concatenate([part for part, _ in results]).tolist() == keys[order].tolist()
    assert same(np.concatenate([going for _, going in results]), together[order])


def test_lists_are_keys_and_an_empty_one_goes_with_any_dtype(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        some = bsp.pid == bsp.p - 1
        keys = sample_sort(bsp, [3, 1, 2] * 9 if some else [])
        texts, values = sample_sort(bsp, ["b", "a"] if some else [], [[1, 2], [3, 4]] if some else [])
        nothing = sample_sort(bsp, [], [])
        return keys, texts, values, nothing

    results = spmd(main)
    assert np.concatenate([keys for keys, *_ in results]).tolist() == [1] * 9 + [2] * 9 + [3] * 9
    assert [text for _, texts, _, _ in results for text in texts] == ["a", "b"]
    assert [value.tolist() for _, _, values, _ in results for value in values] == [[3, 4], [1, 2]]
    for keys, texts, values, nothing in results:
        assert keys.dtype == np.int64
        assert texts.dtype == np.dtype("U1")
        assert values.shape[1:] == (2,)
        assert [part.size for part in nothing] == [0, 0]


def test_where_no_processor_has_keys_all_get_the_dtype_of_processor_0(spmd: Spmd) -> None:
    kinds = [np.empty(0, "U3"), np.empty(0), np.empty(0, int)]
    found = spmd(lambda bsp: sample_sort(bsp, kinds[bsp.pid % 3], kinds[(bsp.pid + 1) % 3]))
    assert [(keys.dtype, values.dtype) for keys, values in found] == [(np.dtype("U3"), np.dtype(float))] * spmd.p


def test_strings_may_differ_in_length(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return sample_sort(bsp, [chr(98 + k) * (bsp.pid + 1) for k in range(20)])

    results = spmd(main)
    expected = sorted(chr(98 + k) * (pid + 1) for k in range(20) for pid in range(spmd.p))
    assert [text for part in results for text in part] == expected
    assert {part.dtype for part in results} == {np.dtype(f"U{spmd.p}")}


def test_keys_that_are_in_order_already_stay_where_they_are(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        keys = np.arange(100) + 100 * bsp.pid
        part = sample_sort(bsp, keys)
        bsp.sync()
        return part.tolist() == keys.tolist(), [record.h for record in bsp.ledger][1:]

    moved = [0, 0] if spmd.p > 1 else []
    assert spmd(main) == [(True, moved)] * spmd.p


def test_the_ledger_is_the_cost_for_the_counts_of_keys(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, itemsize: int, values: int | None) -> Any:
        keys = keys_of(f"i{itemsize}", "few", 7 * bsp.pid, bsp.pid)
        carried = np.stack([np.full(keys.size, bsp.pid, np.int32)] * ((values or 0) // 4), 1) if values else None
        with bsp.split(0, bsp.pid) as part:  # the ledger of the sort alone
            sorted_keys = sample_sort(part, keys, carried, stable=True)
            part.sync()
            ledger = list(part.ledger)
        origins = sample_sort(bsp, keys, np.full(keys.size, bsp.pid), stable=True)[1]
        counts = np.array(allgather(bsp, np.bincount(origins, minlength=bsp.p))).T
        bsp.sync()
        cost = sample_sort.cost(bsp.machine, counts=counts, itemsize=itemsize, values=values)
        most_of_it = sample_sort.cost(bsp.machine, 7 * np.arange(bsp.p), itemsize=itemsize, values=values)
        within = all(
            max(r.h_out, r.h_in) <= s.h and r.messages <= s.messages and r.M <= s.M
            for r, s in zip(ledger, most_of_it, strict=False)
        )
        size = len(sorted_keys if carried is None else sorted_keys[0])
        return counted(ledger, work=False), charged(cost, work=False), within, size == counts[:, bsp.pid].sum()

    for itemsize, values in ((8, None), (1, None), (2, 12)):
        for found, predicted, within, size in spmd(main, itemsize, values):
            assert found == predicted
            assert within
            assert size


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (np.zeros((2, 2)), "expected an array of one axis, got float64 of shape (2, 2)"),
        (3.0, "expected an array of one axis, got float 3.0; [key] is one of a key"),
        ([[1], [2, 3]], "expected an array or a list of one dtype"),
        (np.array([1, "a", None], object), "raised TypeError"),
        (np.array([lambda: 1], object), ""),
    ],
    ids=["two axes", "a number", "ragged", "objects that do not compare", "no pickle"],
)
def test_keys_that_cannot_be_sorted_are_an_error_everywhere(spmd: Spmd, keys: Any, text: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        sample_sort(bsp, keys if bsp.pid == bsp.p - 1 else np.arange(3))

    for error in spmd.errors(main):
        if text or spmd.p > 1:
            assert error is not None
            assert "sample_sort: argument keys: " in str(error)
            assert text in str(error)


def test_keys_of_two_processors_that_do_not_compare_are_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        sample_sort(bsp, np.array([1, 2] if bsp.pid % 2 else ["a", "b"], object))

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or "sample_sort: argument keys: raised TypeError" in str(error)


@pytest.mark.parametrize("argument", ["keys", "values"])
def test_dtypes_that_differ_are_an_error_everywhere(spmd: Spmd, argument: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        mixed = np.arange(5, dtype="f4" if bsp.pid == bsp.p - 1 else "i8")
        if argument == "keys":
            sample_sort(bsp, mixed)
        else:
            sample_sort(bsp, np.arange(5), mixed)

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or f"sample_sort: argument {argument}: expected the same dtype" in str(error)


def test_values_that_do_not_fit_are_an_error_everywhere(spmd: Spmd) -> None:
    def other_length(bsp: pybsp.BSP) -> None:
        sample_sort(bsp, np.arange(5), np.arange(4 if bsp.pid == 0 else 5))

    def other_shape(bsp: pybsp.BSP) -> None:
        sample_sort(bsp, np.arange(5), np.zeros((5, bsp.pid % 2)))

    def on_some(bsp: pybsp.BSP) -> None:
        sample_sort(bsp, np.arange(5), np.arange(5) if bsp.pid == 0 else None)

    for main, alone in ((other_length, True), (other_shape, False), (on_some, False)):
        for error in spmd.errors(main):
            assert (error is not None) == (alone or spmd.p > 1)
            assert error is None or "sample_sort: argument values: expected" in str(error)


def test_stable_on_some_processors_only_is_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        sample_sort(bsp, np.arange(5), stable=bsp.pid == 0)

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or "sample_sort: argument stable: expected the same on all processors" in str(error)
