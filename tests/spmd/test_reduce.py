"""reduce and allreduce: the values of all processors, combined in the order of pids."""

from __future__ import annotations

import functools
import gc
import hashlib
import operator
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import pybsp
from pybsp.collectives import allreduce, prefix, reduce
from tests.conftest import Spmd

from ..costs import MACHINES, charged, counted, machine
from .programs import plain
from .values import COMBINATIONS, arrays_in, as_array, examples, first, second, stirred

N = [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 100]


def wanted(case: str, n: int, p: int) -> Any:
    op, value = COMBINATIONS[case]
    total = functools.reduce(op, [value(pid, n) for pid in range(p)])
    if isinstance(value(0, n), np.ndarray) and isinstance(total, np.generic):
        total = np.asarray(total)
    return plain(as_array(total))


def run(bsp: pybsp.BSP, case: str, n: int, root: int, degree: int | None) -> Any:
    op, value_of = COMBINATIONS[case]
    value = value_of(bsp.pid, n)
    before = plain(value)
    results = [reduce(bsp, value, op, root, degree), allreduce(bsp, value, op, degree)]
    stirred(bsp)
    assert results[0] is None or bsp.pid == root
    seen = [plain(as_array(result)) for result in results]
    for result in results:
        for array in arrays_in(result):
            assert array.flags.writeable
            if isinstance(result, np.ndarray) and array.dtype.names is None and not array.dtype.hasobject:
                array[...] = np.zeros((), array.dtype)
    assert plain(value) == before
    return seen


@pytest.mark.parametrize("case", COMBINATIONS)
def test_values_are_combined_in_the_order_of_pids(spmd: Spmd, case: str) -> None:
    for root, degree in ((spmd.p - 1, None), (0, 2), (spmd.p // 2, 3), (0, spmd.p + 2)):
        results = spmd(run, case, 6, root, degree)
        expected = wanted(case, 6, spmd.p)
        nothing = plain(None)
        assert results == [[expected if pid == root else nothing, expected] for pid in range(spmd.p)]


def test_any_size_root_degree_and_machine(spmd: Spmd) -> None:
    @examples(
        spmd,
        st.sampled_from(sorted(COMBINATIONS)),
        st.sampled_from(N),
        st.integers(0, 7),
        st.sampled_from([None, None, 2, 3, 4, 5, 8, 10**30]),
        st.sampled_from(range(len(MACHINES))),
    )
    def check(case: str, n: int, root: int, degree: int | None, which: int) -> None:
        root %= spmd.p
        results = spmd(run, case, n, root, degree, machine=machine(spmd.p, which))
        expected = wanted(case, n, spmd.p)
        nothing = plain(None)
        assert results == [[expected if pid == root else nothing, expected] for pid in range(spmd.p)]

    check()


def test_what_arrived_with_the_last_sync_can_be_combined(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        totals = []
        for op in (np.add, first, second, lambda a, b: a + b):
            for degree in (None, 2):
                for call in (reduce, allreduce):
                    bsp.send(bsp.pid, np.arange(40.0) + bsp.pid)
                    bsp.sync()
                    totals.append(call(bsp, bsp.inbox[0].payload, op, degree=degree))
        stirred(bsp)
        return [None if total is None else total[0] for total in totals]

    p = spmd.p
    each = [p * (p - 1) / 2] * 4 + [0.0] * 4 + [p - 1.0] * 4 + [p * (p - 1) / 2] * 4
    others = [None if k % 2 == 0 else total for k, total in enumerate(each)]
    assert spmd(main) == [each] + [others] * (p - 1)


def test_an_operator_cannot_write_into_the_values_it_gets(spmd: Spmd) -> None:
    def in_place(a: Any, b: Any) -> Any:
        a += b
        return a

    def main(bsp: pybsp.BSP, call: Any) -> None:
        call(bsp, np.arange(3.0), in_place)

    for call in (reduce, allreduce):
        errors = spmd.errors(main, call)
        if spmd.p == 1:
            assert errors == [None]
        else:
            assert all("argument op: raised ValueError: output array is read-only" in str(e) for e in errors)


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, n: int, root: int, degree: int | None) -> Any:
        reduce(bsp, np.arange(float(n)), np.add, root, degree)
        allreduce(bsp, np.arange(float(n)), np.add, degree)
        allreduce(bsp, "text", first, degree)
        bsp.sync()
        return counted(bsp.ledger, work=False)[:-1]

    p = spmd.p
    for which, n, degree in ((0, 1, None), (1, p, None), (2, 40, None), (1, 7, 2), (1, 3, 3), (0, 0, None)):
        parameters = machine(p, which)
        numbers = reduce.cost(parameters, n, degree, p // 2, items=n) + allreduce.cost(parameters, n, degree, n)
        results = spmd(main, n, p // 2, degree, machine=parameters)
        objects = allreduce.cost(parameters, 1, degree).supersteps
        for result in results:
            assert result[: len(numbers)] == charged(numbers, work=False)[:-1]
            assert len(result) == len(numbers) + objects


def test_parts_of_a_split_reduce_on_their_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            return reduce(part, str(bsp.pid), lambda a, b: a + b, part.p - 1), allreduce(part, np.ones(9), np.add)[8]

    for pid, (text, ones) in enumerate(spmd(main)):
        members = range(pid % 2, spmd.p, 2)
        assert text == ("".join(map(str, members)) if pid == members[-1] else None)
        assert ones == len(members)


@pytest.mark.parametrize("order", ["any", "fixed"])
def test_an_allreduce_gives_all_processors_the_same_bits(spmd: Spmd, order: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        # Sums that no order but one rounds like this.
        values = np.random.default_rng(bsp.pid).normal(size=61) * 10.0 ** (np.arange(61) % 17)
        said = [
            allreduce(bsp, values[:n], np.add, order=order, **how).tobytes()
            for n in (1, 7, 61)
            for how in ({}, {"degree": 2}, {"degree": 3}, {"algorithm": "blocks"})
            if "algorithm" not in how or n >= bsp.p
        ]
        return [*said, np.float64(allreduce(bsp, float(values[0]), np.add, order=order)).tobytes()]

    for which in range(len(MACHINES)):
        first_of_all, *others = spmd(main, machine=machine(spmd.p, which))
        assert others == [first_of_all] * (spmd.p - 1)


def test_blocks_give_what_trees_give(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        value = np.arange(3 * bsp.p, dtype=np.int32).reshape(3, bsp.p) + bsp.pid
        for op in (np.add, np.maximum, np.true_divide, np.equal):
            for root in (0, bsp.p - 1):
                by_blocks, by_trees = (
                    plain(reduce(bsp, value, op, root, order="fixed", algorithm=how)) for how in ("blocks", "trees")
                )
                assert by_blocks == by_trees
            by_blocks, by_trees = (
                plain(allreduce(bsp, value, op, order="fixed", algorithm=how)) for how in ("blocks", "trees")
            )
            assert by_blocks == by_trees

    spmd(main)


def test_an_algorithm_that_does_not_fit(spmd: Spmd) -> None:
    many, few = np.arange(spmd.p), np.arange(spmd.p - 1)
    for name, call in (("reduce", reduce), ("allreduce", allreduce)):
        for value, op, degree, algorithm, said in (
            (many, np.add, None, "block", 'argument algorithm: expected None, the cheapest, or "trees", "blocks", got'),
            (many, np.add, 2, "blocks", 'argument degree: expected None with algorithm="blocks"'),
            (few, np.add, None, "blocks", 'argument algorithm: "blocks" cuts values'),
            (many, first, None, "blocks", "argument op: expected a numpy ufunc"),
            (3, np.add, None, "blocks", 'argument algorithm: "blocks" cuts values'),
        ):

            def main(bsp: pybsp.BSP, *case: Any, call: Any = call) -> None:
                value, op, degree, algorithm = case
                call(bsp, value, op, degree=degree, algorithm=algorithm)

            for error in spmd.errors(main, value, op, degree, algorithm):
                assert f"{name}: {said}" in str(error)


def test_algorithms_that_differ_are_an_error_on_all(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("there is one processor")

    def main(bsp: pybsp.BSP, call: Any) -> None:
        call(bsp, np.arange(3 * bsp.p), np.add, algorithm="blocks" if bsp.pid else "trees")

    for call in (reduce, allreduce):
        assert all("argument" in str(error) for error in spmd.errors(main, call))


def test_a_wrong_operator_is_all_that_is_wrong(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with pytest.raises(pybsp.UsageError, match="argument op: expected an associative function") as raised:
            allreduce(bsp, 1.0, np.sqrt)
        return raised.value.__context__

    assert spmd(main) == [None] * spmd.p


@pytest.mark.parametrize("value", [1, 1.0, np.zeros(5), np.zeros(3000)], ids=["int", "float", "short", "long"])
def test_what_operators_hold_that_are_made_for_each_call_is_given_back(spmd: Spmd, value: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def call(wrap: Any) -> weakref.ref[Any]:
            weights = np.ones(5)

            def op(a: Any, b: Any) -> Any:
                return a + b * weights[0]

            allreduce(bsp, value, wrap(op))
            reduce(bsp, value, wrap(op))
            ticket = allreduce.start(bsp, value, wrap(op))
            bsp.sync()
            ticket.finish()
            return weakref.ref(weights)

        refs = [call(wrap) for wrap in (lambda op: op, functools.partial) for _ in range(20)]
        gc.collect()
        return sum(one() is not None for one in refs)

    assert max(spmd(main)) <= 8


def test_values_that_are_short_on_some_processors_and_long_on_others_are_combined(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        text = chr(97 + bsp.pid) * (300_000 if bsp.pid % 2 else 3)  # more than a record has room for, or less
        results = [
            allreduce(bsp, text, operator.add),
            allreduce(bsp, text, operator.add, degree=2),
            reduce(bsp, text, operator.add, bsp.p - 1),
            prefix(bsp, text, operator.add),
        ]
        return [None if result is None else hash_of(result) for result in results]

    texts = [chr(97 + pid) * (300_000 if pid % 2 else 3) for pid in range(spmd.p)]
    whole = hash_of("".join(texts))
    for pid, results in enumerate(spmd(main)):
        last = whole if pid == spmd.p - 1 else None
        assert results == [whole, whole, last, hash_of("".join(texts[: pid + 1]))]


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_array_without_axes_stays_one_whatever_the_operator_makes(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        value = np.array(bsp.pid + 1.0)
        results = [allreduce(bsp, value, op) for op in (np.add, operator.add, lambda a, b: float(a + b))]
        total = results[0].copy()
        results[0] += 1
        return [type(result) for result in results], total == allreduce(bsp, value, np.add), value.item()

    last = float if spmd.p > 1 else np.ndarray
    for pid, found in enumerate(spmd(main)):
        assert found == ([np.ndarray, np.ndarray, last], True, pid + 1.0)


@pytest.mark.parametrize("n", [10, 3000, 40_000])
def test_arguments_are_given_back(spmd: Spmd, n: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        calls: list[Any] = [
            lambda value: allreduce(bsp, value, np.add),
            lambda value: allreduce(bsp, value, lambda a, b: a + b, order="fixed"),
            lambda value: reduce(bsp, value, np.add),
            lambda value: prefix(bsp, value, np.maximum),
        ]
        left = []
        for call in calls:
            value = np.ones(n)
            left.append(weakref.ref(value))
            call(value)
            del value
        bsp.sync()
        bsp.sync()
        gc.collect()
        return [one() is not None for one in left]

    assert spmd(main) == [[False] * 4] * spmd.p
