"""order="fixed": bits that depend on p and the values alone, whatever carries them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pybsp
from pybsp import BSPMachine
from pybsp.collectives import allreduce, exclusive_prefix, prefix, prefix_2d, reduce
from tests.conftest import Spmd

from ..costs import charged, counted
from .programs import plain
from .values import COMBINATIONS, as_array, stirred

Floats = NDArray[np.float64]

# (g, l): all in one superstep, degrees in between, the tree of degree 2, and blocks from ever shorter arrays on.
PRICES = [(1e-12, 1.0), (1e-9, 1e-2), (1e-7, 1e-5), (1e-3, 1e-3), (1.0, 2.0), (1.0, 1e-9)]
DEGREES = [2, 3, 4, 5, 7, 8, 10**30]


def value_of(pid: int, n: int) -> Floats:
    """Numbers whose sums depend on the order of additions."""
    rng = np.random.default_rng(1000 * n + pid)
    return rng.standard_normal(n) * 10.0 ** rng.integers(-2, 3, n)


def tree(values: list[Any], upto: int, op: Any = np.add) -> Any:
    """The sum of the values up to one, by the definition of the order."""

    def node(depth: int, number: int) -> list[Any]:
        first, last = (end * len(values) // 2**depth for end in (number, number + 1))
        if last - first < 2:
            return values[first : min(last, upto + 1)]
        halves = node(depth + 1, 2 * number) + node(depth + 1, 2 * number + 1)
        return halves if len(halves) < 2 else [op(*halves)]

    return node(0, 0)[0]


def bits(value: Any) -> bytes | None:
    return None if value is None else np.asarray(value).tobytes()


def whole(a: Any, b: Any) -> Any:
    """No ufunc: values are not cut."""
    return a + b


def combine(bsp: pybsp.BSP, n: int, order: Any, degree: int | None, op: Any = np.add) -> list[bytes | None]:
    value: Any = value_of(bsp.pid, n)
    number = float(value[0])
    return [
        bits(result)
        for result in (
            reduce(bsp, value, op, bsp.p - 1, degree, order=order),
            reduce(bsp, number, op, 0, degree, order=order),
            allreduce(bsp, value, op, degree, order=order),
            allreduce(bsp, number, op, degree, order=order),
            prefix(bsp, value, op, degree, order=order),
            prefix(bsp, number, op, degree, order=order),
            prefix_2d(bsp, value, op, degree, order=order),
            exclusive_prefix(bsp, value, op, value, degree, order=order),
        )
    ]


def wanted(p: int, n: int) -> list[list[bytes | None]]:
    values = [value_of(pid, n) for pid in range(p)]
    found = []
    for pid in range(p):
        sums = [bits(upto) for q in (p - 1, pid) for upto in (tree(values, q), tree(values, q)[0])]
        total, first, mine, my_first = sums
        last = pid == p - 1
        before = bits(tree(values, max(pid - 1, 0)))  # processor 0 gets its own value, as the first one
        found.append([total if last else None, None if pid else first, total, first, mine, my_first, mine, before])
    return found


@pytest.mark.whole
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_bits_are_those_of_one_tree_on_every_machine(spmd: Spmd, n: int) -> None:
    for g, latency in PRICES:
        machine = BSPMachine(spmd.p, g, latency, 1e9)
        for op in (np.add, whole):
            assert spmd(combine, n, "fixed", None, op, machine=machine) == wanted(spmd.p, n)


def test_bits_of_long_arrays_are_those_of_one_tree(spmd: Spmd) -> None:
    expected = wanted(spmd.p, 100_000)
    for g, latency in (PRICES[0], PRICES[-1]):
        machine = BSPMachine(spmd.p, g, latency, 1e9)
        assert spmd(combine, 100_000, "fixed", None, machine=machine) == expected


@pytest.mark.parametrize("n", [1, 9])
def test_bits_are_those_of_one_tree_with_every_degree(spmd: Spmd, n: int) -> None:
    for degree in DEGREES:
        assert spmd(combine, n, "fixed", degree) == wanted(spmd.p, n)


def test_the_default_order_follows_the_machine(spmd: Spmd) -> None:
    if spmd.p < 4:
        pytest.skip("there is one order, or none that a machine makes cheaper")
    machines = [BSPMachine(spmd.p, g, latency, 1e9) for g, latency in PRICES]
    found = [spmd(combine, 1000, "any", None, whole, machine=machine) for machine in machines]
    for place in (0, 2, 4):  # reduce, allreduce and prefix of arrays: of a thousand sums some show it
        assert len({tuple(of_one[place] for of_one in of_all) for of_all in found}) > 1
    assert all(len({of_one[2] for of_one in of_all}) == 1 for of_all in found)  # an allreduce is equal on all


def bracketed(bsp: pybsp.BSP, degree: int | None) -> list[Any]:
    def bracket(a: str, b: str) -> str:
        return f"({a}{b})"

    own = chr(97 + bsp.pid)
    column = prefix_2d(bsp, [own] * 3, bracket, degree, order="fixed")
    column += prefix_2d(bsp, [own] * 20, bracket, order="fixed")
    assert len(set(column)) == 1
    total = allreduce(bsp, own, bracket, degree, order="fixed")
    root = reduce(bsp, own, bracket, 0, degree, "fixed")
    before = exclusive_prefix(bsp, own, bracket, "", degree, order="fixed")
    return [root, total, prefix(bsp, own, bracket, degree, order="fixed"), column[0], before]


def test_brackets_are_those_of_a_balanced_tree(spmd: Spmd) -> None:
    letters = [chr(97 + pid) for pid in range(spmd.p)]
    upto = [tree(letters, pid, lambda a, b: f"({a}{b})") for pid in range(spmd.p)]
    of_p = {1: "a", 2: "(ab)", 3: "(a(bc))", 4: "((ab)(cd))", 5: "((ab)(c(de)))", 8: "(((ab)(cd))((ef)(gh)))"}
    assert upto[-1] == of_p[spmd.p]
    for degree in (None, *DEGREES):
        expected = [[None if pid else upto[-1], upto[-1], *[upto[pid]] * 2, ["", *upto][pid]] for pid in range(spmd.p)]
        assert spmd(bracketed, degree) == expected


@pytest.mark.whole
def test_any_value_is_combined_as_by_default(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, case: str, degree: int | None, order: Any) -> list[Any]:
        op, value_of = COMBINATIONS[case]
        value = value_of(bsp.pid, 9)
        before = plain(value)
        results = [
            reduce(bsp, value, op, bsp.p // 2, degree, order),
            allreduce(bsp, value, op, degree, order),
            prefix(bsp, value, op, degree, order),
            prefix_2d(bsp, [value] * 3, op, degree, order),
            exclusive_prefix(bsp, value, op, value, degree, order=order),
        ]
        stirred(bsp)
        assert not any(result is value for result in results if isinstance(value, np.ndarray))
        assert plain(value) == before
        return [plain(as_array(result)) for result in results]

    for case, degree in zip(COMBINATIONS, itertools.cycle((None, 2, spmd.p + 2)), strict=False):
        assert spmd(main, case, degree, "fixed") == spmd(main, case, degree, "any"), case


def test_an_operator_may_write_into_objects_that_it_gets(spmd: Spmd) -> None:
    def extended(a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return a

    def main(bsp: pybsp.BSP) -> tuple[list[int], list[int], list[int]]:
        own = [bsp.pid]
        before = exclusive_prefix(bsp, own, extended, [], 2, order="fixed")
        return prefix(bsp, own, extended, 2, "fixed"), before, own

    assert spmd(main) == [(list(range(pid + 1)), list(range(pid)), [pid]) for pid in range(spmd.p)]


def test_results_are_the_callers_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[bool]:
        value = np.ones(2 if bsp.p > 2 else 1)
        results = (call(bsp, value, np.add, order="fixed") for call in (allreduce, prefix, prefix_2d, exclusive_prefix))
        return [result.flags.writeable and not np.shares_memory(result, value) for result in results]

    assert spmd(main) == [[True] * 4] * spmd.p


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, n: int, degree: int | None) -> Any:
        value = value_of(bsp.pid, n)
        reduce(bsp, value, np.add, bsp.p // 2, degree, "fixed")
        allreduce(bsp, value, np.add, degree, "fixed")
        prefix(bsp, value, np.add, degree, "fixed")
        prefix_2d(bsp, value, np.add, degree, "fixed")
        exclusive_prefix(bsp, value, np.add, degree=degree, order="fixed")
        bsp.sync()
        return counted(bsp.ledger)

    for (g, latency), n, degree in zip(PRICES, (1, 2, 7, 20, 3, 40), (None, None, None, None, 5, None), strict=True):
        m = BSPMachine(spmd.p, g, latency, 1e9)
        cost = reduce.cost(m, n, degree, spmd.p // 2, "fixed", n) + allreduce.cost(m, n, degree, n, "fixed")
        cost += prefix.cost(m, n, degree, n, "fixed") + prefix_2d.cost(m, n, 1, degree, "fixed")
        cost += exclusive_prefix.cost(m, n, degree, n, order="fixed")
        for result in spmd(main, n, degree, machine=m):
            assert result == charged(cost)
