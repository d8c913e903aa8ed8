"""bitonic_sort: as many keys as were brought, in the order that numpy gives all of them; errors on every processor."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pybsp
from pybsp.collectives.baselines.bitonic_sort_few import bitonic_sort_few
from pybsp.collectives.bitonic_sort import bitonic_sort
from tests.conftest import Spmd
from tests.tiers import some

from ..costs import charged, counted
from .programs import plain

RECORD = np.dtype([("a", "f4"), ("b", "U2")])
DTYPES = ["?", "i1", "u8", ">i4", "f2", "f8", ">f8", "g", "F", "D", "M8[s]", "m8[D]", "U3", "S2", "V3", "O", RECORD]
P = 8  # the most processors that these tests run on


def filled(dtype: Any, numbers: Any) -> Any:
    """Keys from small numbers; 9 is NaN or NaT, 8 infinity, where there is such a thing."""
    dtype = np.dtype(dtype)
    numbers = np.asarray(numbers, np.int64)
    if dtype.names:
        keys = np.zeros(numbers.size, dtype)
        keys["a"], keys["b"] = filled("f4", numbers), (numbers % 3).astype("U2")
    elif dtype.kind == "V":
        keys = np.array([bytes([n, 0, n]) for n in numbers], dtype)
    else:
        keys = numbers.astype(dtype)
        if dtype.kind in "fc":
            keys[numbers == 9], keys[numbers == 8] = np.nan, np.inf
            if dtype.kind == "c":
                keys += 1j * filled(keys.real.dtype, numbers % 4)
        elif dtype.kind in "mM":
            keys[numbers == 9] = "NaT"
    return keys


class Case(NamedTuple):
    dtype: Any
    blocks: list[list[int]]  # of P processors
    levels: int | None
    values: tuple[int, ...] | None  # the inner shape
    stable: bool


NUMBERS = st.integers(0, 9)
BLOCKS = st.one_of(
    st.lists(st.lists(NUMBERS, max_size=5), min_size=P, max_size=P),
    st.integers(0, 4).flatmap(
        lambda n: st.lists(st.lists(NUMBERS, min_size=n, max_size=n), min_size=P, max_size=P),
    ),
)
CASES = st.builds(
    Case,
    st.sampled_from(DTYPES),
    BLOCKS,
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, (), (2,), (0,)]),
    st.booleans(),
)


def test_blocks_are_sorted_as_numpy_sorts_all_keys(spmd: Spmd) -> None:
    # On MPI all ranks must draw the same cases: nothing may depend on time, and a failure is not shrunk there.
    @settings(
        max_examples=some(30),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
    )
    @given(CASES)
    def check(case: Case) -> None:
        keys = [filled(case.dtype, block) for block in case.blocks[: spmd.p]]
        ends = np.cumsum([0, *map(len, keys)])
        every, place = np.concatenate(keys, dtype=keys[0].dtype), np.arange(ends[-1])
        inner = case.values or ()
        values = np.broadcast_to(place.reshape(-1, *(1 for _ in inner)), (place.size, *inner)).astype("i4")

        def main(bsp: pybsp.BSP) -> Any:
            mine = values[ends[bsp.pid] : ends[bsp.pid + 1]]
            given = None if case.values is None else mine
            got = bitonic_sort(bsp, keys[bsp.pid].copy(), case.levels, given, case.stable)
            found = got if case.values is not None else (got,)
            assert all(part.flags.writeable and part.flags.owndata for part in found)
            return found

        results = spmd(main)
        assert [len(found[0]) for found in results] == [len(block) for block in keys]
        assert {found[0].dtype for found in results} == {keys[0].dtype}
        order = np.argsort(every, kind="stable")
        found = np.concatenate([result[0] for result in results], dtype=every.dtype)
        if case.stable or not every.dtype.names:
            assert plain(found) == plain(every[order])
        if case.values is not None:
            assert {(result[1].dtype, result[1].shape[1:]) for result in results} == {(np.dtype("i4"), inner)}
            came_from = np.concatenate([result[1] for result in results])
            assert came_from.shape == (place.size, *inner)
            if 0 not in inner:
                moved = came_from.reshape(place.size, math.prod(inner))[:, 0]
                assert sorted(moved) == place.tolist()
                assert plain(every[moved]) == plain(found)
                assert not case.stable or moved.tolist() == order.tolist()

    check()


ONES: list[Callable[[int], Any]] = [  # of 0 to 6, in this order
    lambda n: n > 3,
    int,
    float,
    lambda n: float("nan") if n == 6 else n / 2,
    lambda n: complex(n // 3, n % 3),
    str,
    lambda n: b"\0" * n,
    lambda n: (n // 2, "ab"[n % 2]),
    Decimal,
    np.float32,
    lambda n: np.datetime64("NaT" if n == 6 else f"2020-01-{n + 1:02}", "D"),
    lambda n: np.str_("x" * n),
    lambda n: np.array((n // 2, n), "i2,f4")[()],
]


@pytest.mark.parametrize("make", ONES)
def test_of_one_key_each_a_processor_gets_the_key_of_its_rank(spmd: Spmd, make: Callable[[int], Any]) -> None:
    numbers = [(5 * k + 3) % 7 for k in range(spmd.p)]

    def main(bsp: pybsp.BSP, levels: int | None) -> Any:
        key = make(numbers[bsp.pid])
        return repr(bitonic_sort(bsp, key, levels)), repr(bitonic_sort_few(bsp, key, levels or 1))

    expected = [(repr(make(n)),) * 2 for n in sorted(numbers)]
    for levels in (None, 2):
        assert spmd(main, levels) == expected


def test_beside_one_key_travels_one_value_of_any_kind_and_ties_stay_in_order(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        key = -(bsp.pid // 2)
        number = bitonic_sort(bsp, float(key), values=bsp.pid, stable=True)
        array = bitonic_sort(bsp, key, values=np.full((2, 3), bsp.pid), stable=True)
        thing = bitonic_sort(bsp, str(9 + key), values={"from": np.array([bsp.pid])}, stable=True)
        array[1][...] += 1  # it is the caller's own
        return plain(number), plain(array), plain(thing)

    ranked = sorted(range(spmd.p), key=lambda pid: -(pid // 2))
    expected = [
        (
            plain((float(-(pid // 2)), pid)),
            plain((-(pid // 2), np.full((2, 3), pid + 1))),
            plain((str(9 - pid // 2), {"from": np.array([pid])})),
        )
        for pid in ranked
    ]
    assert spmd(main) == expected


def test_a_key_in_an_array_without_axes_is_one_key(spmd: Spmd) -> None:
    results = spmd(lambda bsp: bitonic_sort(bsp, np.array(-bsp.pid)))
    assert [plain(result) for result in results] == [plain(np.int64(pid)) for pid in range(1 - spmd.p, 1)]


def test_the_ledger_is_as_the_cost_says(spmd: Spmd) -> None:
    p = spmd.p
    counts = [(3 * pid + 1) % 5 for pid in range(p)]
    machine = pybsp.BSPMachine(p=p, g=1e-9, l=4e-9, r=1e9)

    def main(bsp: pybsp.BSP, levels: int | None) -> Any:
        costs, seen = [], [0]

        def ran(cost: pybsp.Cost) -> None:
            bsp.sync()
            costs.append(charged(cost))
            seen.append(len(bsp.ledger))

        bitonic_sort(bsp, float(bsp.pid), levels)
        ran(bitonic_sort.cost(machine, 1, levels))
        bitonic_sort(bsp, np.arange(6.0), levels)
        ran(bitonic_sort.cost(machine, 1, levels, 6))
        mine = np.arange(counts[bsp.pid], dtype=np.int16)
        bitonic_sort(bsp, mine, levels, values=mine, stable=True)
        ran(bitonic_sort.cost(machine, 1 / 2, levels, counts, stable=True))
        bitonic_sort_few(bsp, -bsp.pid, levels or 3)
        ran(bitonic_sort_few.cost(machine, 1, levels or 3))
        ledger = [counted(bsp.ledger[first:last]) for first, last in pairwise(seen)]
        return ledger, costs

    for levels in (None, 1, 2):
        for ledger, costs in spmd(main, levels, machine=machine):
            assert ledger == costs


# -- errors -------------------------------------------------------------------------------------------------------


def assert_all_say(errors: list[BaseException | None], *texts: str) -> None:
    assert all(isinstance(error, pybsp.BSPError) for error in errors), errors
    assert all(any(text in str(error) for error in errors) for text in texts), errors
    assert all("bitonic_sort" in str(error) and "keys" in str(error) for error in errors), errors


@pytest.mark.parametrize("sort", [bitonic_sort, lambda bsp, keys: bitonic_sort_few(bsp, keys, 2)])
def test_keys_that_do_not_compare_are_an_error_on_every_processor(spmd: Spmd, sort: Any) -> None:
    errors = spmd.errors(lambda bsp: sort(bsp, None if bsp.pid == spmd.p - 1 else "key"))
    if spmd.p == 1:
        assert errors == [None]
    else:
        assert_all_say(errors, "argument keys: expected keys that compare with <, got TypeError: '<' not supported")


def test_a_block_of_keys_that_do_not_compare_is_an_error_on_every_processor(spmd: Spmd) -> None:
    odd = np.array([1, "a", None], object)
    errors = spmd.errors(lambda bsp: bitonic_sort(bsp, odd if bsp.pid == 0 else odd[:1]))
    assert_all_say(errors, "argument keys: expected keys that compare with <, got TypeError")


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([3, 1, 2], "got a list; np.array(keys) makes an array of a list"),
        (np.ones((2, 2)), "got an array of shape (2, 2)"),
        ({3, 1}, "got a set; np.array(list(keys)) makes an array of it"),  # which < does not put in order
        (range(3), "got a range; np.array(list(keys)) makes an array of it"),
        (map(int, "312"), "got a map; np.array(list(keys)) makes an array of it"),
        (2**70, "argument keys: expected an int of 64 bits, got one of 71"),
    ],
)
def test_what_is_neither_a_key_nor_an_array_of_keys_is_refused(spmd: Spmd, keys: Any, text: str) -> None:
    assert_all_say(spmd.errors(lambda bsp: bitonic_sort(bsp, keys if bsp.pid == 0 else 1)), text)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="this numpy has no such strings")
def test_keys_that_no_record_can_hold_are_refused_with_a_way_out(spmd: Spmd) -> None:
    keys = np.array(["b", "a"], "T")
    assert_all_say(spmd.errors(lambda bsp: bitonic_sort(bsp, keys)), "keys.astype(object) can be sorted")


def test_the_baseline_takes_no_arrays(spmd: Spmd) -> None:
    errors = spmd.errors(lambda bsp: bitonic_sort_few(bsp, np.ones(3), 1))
    assert_all_say(errors, "bitonic_sort_few: argument keys: expected one key, got an array of shape (3,)")


@pytest.mark.parametrize("values", [np.ones(3), np.ones(()), [1, 2], 5])
def test_values_of_another_length_are_an_error(spmd: Spmd, values: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bitonic_sort(bsp, np.arange(2), values=values if bsp.pid == 0 else np.ones(2))

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.BSPError)
        assert "bitonic_sort: argument values: expected an array of shape (2, ...), a value a key, got" in str(error)


@pytest.mark.parametrize("levels", [0, -1, 1.5, True, "2"])
def test_levels_below_one_are_an_error(spmd: Spmd, levels: Any) -> None:
    for sort in (bitonic_sort, bitonic_sort_few):
        for error in spmd.errors(lambda bsp, sort=sort: sort(bsp, 1, levels)):
            assert isinstance(error, pybsp.UsageError)
            assert f"{sort.__name__}: argument levels: expected a whole number of at least 1, got" in str(error)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("keys", lambda bsp, odd: bitonic_sort(bsp, 1 if odd else 1.0)),
        ("keys", lambda bsp, odd: bitonic_sort(bsp, 1.0 if odd else np.ones(1))),
        ("keys", lambda bsp, odd: bitonic_sort(bsp, np.ones(2, "f4" if odd else "f8"))),
        ("levels", lambda bsp, odd: bitonic_sort(bsp, 1, 1 if odd else 2)),
        ("levels", lambda bsp, odd: bitonic_sort(bsp, 1, 1 if odd else None)),
        ("values", lambda bsp, odd: bitonic_sort(bsp, np.ones(2), values=np.ones(2) if odd else None)),
        ("values", lambda bsp, odd: bitonic_sort(bsp, np.ones(2), values=np.ones((2, 1 + odd)))),
        ("stable", lambda bsp, odd: bitonic_sort(bsp, 1, stable=odd)),
        ("stable", lambda bsp, odd: bitonic_sort(bsp, np.ones(bsp.pid), stable=odd)),
        ("levels", lambda bsp, odd: bitonic_sort_few(bsp, 1, 1 if odd else 2)),
        ("keys", lambda bsp, odd: bitonic_sort_few(bsp, 1 if odd else 1.0, 2)),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_arguments_that_differ_are_an_error_that_names_them(
    spmd: Spmd, argument: str, call: Callable[[pybsp.BSP, bool], Any], first: bool
) -> None:
    if spmd.p == 1:
        return
    for error in spmd.errors(lambda bsp: call(bsp, bsp.pid == (0 if first else spmd.p - 1))):
        assert isinstance(error, pybsp.BSPError)
        assert "bitonic_sort" in str(error)
        assert argument in str(error)
