"""prefix and prefix_2d: value_0 op ... op value_pid on every processor."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import pybsp
from pybsp.collectives import prefix, prefix_2d
from tests.conftest import Spmd

from ..costs import MACHINES, charged, counted, machine
from .programs import plain
from .values import COMBINATIONS, PAIR, add, array_of, arrays_in, as_array, composed, examples, first, second, stirred

N = [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 100]


def emptied(thing: Any) -> None:
    """Write into all arrays of a result."""
    for array in arrays_in(thing):
        assert array.flags.writeable
        if array.dtype.names is None and not array.dtype.hasobject:
            array[...] = np.zeros((), array.dtype)


def run(bsp: pybsp.BSP, case: str, n: int, degree: int | None) -> Any:
    op, value_of = COMBINATIONS[case]
    value = value_of(bsp.pid, n)
    before = plain(value)
    result = prefix(bsp, value, op, degree)
    stirred(bsp)
    seen = plain(as_array(result))
    if isinstance(value, np.ndarray):
        emptied(result)
    assert plain(value) == before
    return seen


def wanted(case: str, n: int, p: int) -> list[Any]:
    op, value = COMBINATIONS[case]
    totals = itertools.accumulate([value(pid, n) for pid in range(p)], op)
    array = isinstance(value(0, n), np.ndarray)
    return [plain(as_array(np.asarray(t) if array and isinstance(t, np.generic) else t)) for t in totals]


@pytest.mark.parametrize("case", COMBINATIONS)
def test_processor_i_gets_the_values_up_to_its_own_in_order(spmd: Spmd, case: str) -> None:
    for degree in (None, 2, 3, spmd.p + 2):
        assert spmd(run, case, 6, degree) == wanted(case, 6, spmd.p)


def test_any_size_degree_and_machine(spmd: Spmd) -> None:
    @examples(
        spmd,
        st.sampled_from(sorted(COMBINATIONS)),
        st.sampled_from(N),
        st.sampled_from([None, None, 2, 3, 4, 5, 8, 10**30]),
        st.sampled_from(range(len(MACHINES))),
        most=40,
    )
    def check(case: str, n: int, degree: int | None, which: int) -> None:
        assert spmd(run, case, n, degree, machine=machine(spmd.p, which)) == wanted(case, n, spmd.p)

    check()


COLUMNS: dict[str, tuple[Any, Any]] = {
    "sums": (np.add, lambda pid, k: (np.arange(k) * 3 + pid) / 4),
    "short sums wrap": (np.add, lambda pid, k: np.full(k, 100 + pid, np.int8)),
    "bool sums": (np.add, lambda pid, k: np.arange(k) % 8 == pid),
    "complex": (np.add, lambda pid, k: np.full(k, pid + 1j)),
    "times": (np.maximum, lambda pid, k: (np.arange(k) * 5 + pid * 3).astype("M8[s]")),
    "NaN": (np.maximum, lambda pid, k: np.where(np.arange(k) % 5 == pid, np.nan, (np.arange(k) * 7 + pid * 5) % 11)),
    "conjunction": (np.logical_and, lambda pid, k: (np.arange(k) % 4 != pid % 4) * 2.5),
    "two axes": (np.add, lambda pid, k: np.arange(3.0 * k).reshape(k, 3) + pid),
    "fortran": (np.subtract, lambda pid, k: np.zeros((k, 2), order="F")),
    "no columns": (np.add, lambda pid, k: np.zeros((k, 0))),
    "reversed": (np.add, lambda pid, k: (np.arange(2 * k) + pid)[::-2]),
    "matrices": (np.matmul, lambda pid, k: np.array([[1, pid % 3], [pid % 2, 1.0]]) + np.zeros((k, 1, 1))),
    "matrices by function": (
        lambda a, b: a @ b,
        lambda pid, k: np.array([[1, pid], [0, 1]]) + np.zeros((k, 1, 1), int),
    ),
    "first rows": (first, lambda pid, k: np.arange(2 * k).reshape(k, 2) + pid),
    "second rows": (second, lambda pid, k: np.arange(2 * k).reshape(k, 2) + pid),
    "numbers by function": (max, lambda pid, k: (np.arange(k) * 7 + pid * 5) % 11),
    "affine functions": (composed, lambda pid, k: array_of(PAIR, (k, 1), pid + 1)),
    "strings": (add, lambda pid, k: [chr(97 + pid) * (1 + j % 2) for j in range(k)]),
    "big ints": (add, lambda pid, k: [10**25 * pid + j for j in range(k)]),
    "tuple of objects": (second, lambda pid, k: tuple({"a": np.arange(2) + j} for j in range(k))),
    "arrays in a list": (add, lambda pid, k: [np.arange(3) + pid + j for j in range(k)]),
    "object array": (add, lambda pid, k: np.array([*(chr(97 + pid) * j for j in range(k)), None][:k], object)),
}


def rows(case: str, k: int, p: int) -> list[Any]:
    """What prefix_2d gives on each processor, row by row."""
    op, column_of = COLUMNS[case]
    columns = [column_of(pid, k) for pid in range(p)]
    plain_array = isinstance(columns[0], np.ndarray) and not columns[0].dtype.hasobject
    if plain_array and isinstance(op, np.ufunc) and k:
        return [plain(as_array(total)) for total in itertools.accumulate(columns, op)]
    totals = [list(itertools.accumulate([column[j] for column in columns], op)) for j in range(k)]
    lists = [[of_row[pid] for of_row in totals] for pid in range(p)]
    if plain_array:
        return [plain(np.array(of_pid, columns[0].dtype).reshape(columns[0].shape)) for of_pid in lists]
    if isinstance(columns[0], np.ndarray):
        return [plain(np.array([*of_pid, None], object)[:-1]) for of_pid in lists]
    return [plain(of_pid) for of_pid in lists]


def run_2d(bsp: pybsp.BSP, case: str, k: int, degree: int | None) -> Any:
    op, column_of = COLUMNS[case]
    column = column_of(bsp.pid, k)
    before = plain(column)
    result = prefix_2d(bsp, column, op, degree)
    stirred(bsp)
    seen = plain(as_array(result))
    if isinstance(result, np.ndarray) and not result.dtype.hasobject:
        emptied(result)
    assert plain(column) == before
    return seen


@pytest.mark.parametrize("case", COLUMNS)
def test_each_row_of_a_matrix_gets_its_prefix_sums(spmd: Spmd, case: str) -> None:
    for k in sorted({0, 1, 2, spmd.p - 1, spmd.p, 2 * spmd.p + 1}):
        assert spmd(run_2d, case, k, None) == rows(case, k, spmd.p)


def test_any_number_of_rows_degree_and_machine(spmd: Spmd) -> None:
    @examples(
        spmd,
        st.sampled_from(sorted(COLUMNS)),
        st.sampled_from(N),
        st.sampled_from([None, 2, 3, 5, 10**30]),
        st.sampled_from(range(len(MACHINES))),
        most=40,
    )
    def check(case: str, k: int, degree: int | None, which: int) -> None:
        assert spmd(run_2d, case, k, degree, machine=machine(spmd.p, which)) == rows(case, k, spmd.p)

    check()


def test_what_arrived_with_the_last_sync_can_be_summed(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        calls: list[Any] = [lambda v, f: prefix(bsp, v, f, 2), lambda v, f: prefix_2d(bsp, v, f)]
        results = []
        for n in (2, 40):
            for op in (np.add, add):
                for call in calls:
                    bsp.send(bsp.pid, np.full(n, bsp.pid + 1.0))
                    bsp.sync()
                    results.append(call(bsp.inbox[0].payload, op))
        stirred(bsp)
        return [set(result.tolist()) for result in results]

    assert spmd(main) == [[{(pid + 1) * (pid + 2) / 2}] * 8 for pid in range(spmd.p)]


def test_a_result_is_never_the_array_that_was_given(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for machine_n in (1, 5, 100):
            value = np.ones(machine_n)
            for op in (np.add, first, second):
                for degree in (None, 2, 9):
                    assert not np.shares_memory(prefix(bsp, value, op, degree), value)
                    assert not np.shares_memory(prefix_2d(bsp, value, op, degree), value)

    spmd(main)


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, n: int, degree: int | None, items: int) -> Any:
        prefix(bsp, np.arange(float(n)), np.add, degree)
        prefix_2d(bsp, np.arange(n, dtype=np.int32), np.add, degree)
        bsp.sync()
        return counted(bsp.ledger, work=False)

    p = spmd.p
    for which, n, degree in ((0, 1, None), (1, p, None), (2, 40, None), (1, p - 1, 2), (1, 3, 3), (0, 0, None)):
        parameters = machine(p, which)
        cost = prefix.cost(parameters, n, degree, n) + prefix_2d.cost(parameters, n, 0.5, degree)
        results = spmd(main, n, degree, n, machine=parameters)
        assert all(result == charged(cost, work=False) for result in results)


def test_parts_of_a_split_sum_on_their_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            return prefix(part, str(bsp.pid), add), prefix_2d(part, np.arange(9), np.add)[8]

    for pid, (text, total) in enumerate(spmd(main)):
        before = range(pid % 2, pid + 1, 2)
        assert (text, total) == ("".join(map(str, before)), 8 * len(before))


def test_an_algorithm_by_name(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        value = np.arange(7).reshape(7, 1) + bsp.pid
        found = [prefix(bsp, value, np.add, degree, algorithm=how) for how in ("2d", "trees") for degree in (None, 3)]
        return [sums.ravel().tolist() for sums in found], found[0].shape

    for pid, (found, shape) in enumerate(spmd(main)):
        assert found == [[sum(k + q for q in range(pid + 1)) for k in range(7)]] * 4
        assert shape == (7, 1)


def test_an_algorithm_that_does_not_fit(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, value: Any, op: Any, algorithm: str) -> None:
        prefix(bsp, value, op, algorithm=algorithm)

    for value, op, algorithm, said in (
        (np.arange(3), np.add, "blocks", 'argument algorithm: expected None, the cheapest, or "trees", "2d", got'),
        (np.arange(3), lambda a, b: a + b, "2d", "argument op: expected a numpy ufunc"),
        (3, np.add, "2d", 'argument algorithm: "2d" cuts values'),
    ):
        assert all(said in str(error) for error in spmd.errors(main, value, op, algorithm))


@pytest.mark.parametrize("shape", [(0,), (4, 0), (4, 1)])
def test_columns_without_elements_stay_what_they_are(spmd: Spmd, shape: tuple[int, ...]) -> None:
    def main(bsp: pybsp.BSP) -> tuple[Any, Any]:
        found = prefix_2d(bsp, np.zeros(shape, np.uint16), np.logical_or)
        return found.dtype.char, found.shape

    assert spmd(main) == [("?" if pid and 0 not in shape else "H", shape) for pid in range(spmd.p)]


@pytest.mark.parametrize("order", ["any", "fixed"])
def test_ints_of_an_array_of_objects_have_no_end(spmd: Spmd, order: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        column = np.array([1 << 62, 1 << 80, -1], object)
        return prefix_2d(bsp, column, np.add, order=order).tolist()

    for pid, found in enumerate(spmd(main)):
        assert found == [(pid + 1) * one for one in (1 << 62, 1 << 80, -1)]
