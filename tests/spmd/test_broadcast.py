"""broadcast and broadcast_items: every processor gets what the root has, whatever it is, as its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import pybsp
from pybsp import BSPMachine
from pybsp.collectives import broadcast, broadcast_items
from tests.conftest import Spmd

from ..costs import MACHINES, charged, counted, machine
from .programs import plain
from .values import KINDS, arrays_in, examples, stirred, value_of

CALLS: dict[str, Callable[..., Any]] = {
    "broadcast": broadcast,
    "2": lambda bsp, value, root: broadcast(bsp, value, root, 2),
    "3": lambda bsp, value, root: broadcast(bsp, value, root, 3),
    "all": lambda bsp, value, root: broadcast(bsp, value, root, bsp.p + 5),
    "items": broadcast_items,
    "trees": lambda bsp, value, root: broadcast(bsp, value, root, algorithm="trees"),
    "2d": lambda bsp, value, root: broadcast(bsp, value, root, algorithm="2d"),
    "groups": lambda bsp, value, root: broadcast(bsp, value, root, algorithm="groups"),
    "groups of 3": lambda bsp, value, root: broadcast(bsp, value, root, 3, "groups"),
}


LIKES: dict[str, Callable[[int], Any]] = {
    "number": lambda k: 1.5 * k,
    "of numpy": lambda k: np.int32(7 + k),
    "long": lambda k: 3**400 + k,
    "array": lambda k: np.arange(3.0) + k,
    "of two axes": lambda k: np.full((2, 5), k, np.int16),
    "records": lambda k: np.array([(k, 2.0)], "i4, f8"),
    "no items": lambda k: np.zeros((0, 3)),
    "several KiB": lambda k: np.arange(2000.0) + k,
}


@pytest.mark.parametrize("kind", LIKES)
def test_a_plain_call_that_says_what_comes_brings_and_costs_what_one_without_does(spmd: Spmd, kind: str) -> None:
    def main(bsp: pybsp.BSP, says: bool) -> Any:
        like = LIKES[kind](0) if says else None
        found = []
        for root in (0, bsp.p - 1):
            for k in range(3):
                value = LIKES[kind](k + root) if bsp.pid == root else None
                found.append(broadcast(bsp, value, root, like=like))
                stirred(bsp)
        costs = [(one.label, one.h, one.M, one.messages) for one in bsp.ledger]
        return [np.asarray(one).tolist() for one in found], [type(one) for one in found], costs

    expected = [np.asarray(LIKES[kind](k + root)).tolist() for root in (0, spmd.p - 1) for k in range(3)]
    for says in (True, False):
        for values, _, _ in spmd(main, says):
            assert values == expected
    assert spmd(main, True) == spmd(main, False)


@pytest.mark.parametrize("plain_before", [False, True])
def test_what_a_plain_call_says_of_what_comes_is_compared_and_holds_on_the_root(spmd: Spmd, plain_before: bool) -> None:
    def main(bsp: pybsp.BSP, value: Any, likes: tuple[Any, Any]) -> None:
        for _ in range(2 * plain_before):
            broadcast(bsp, likes[0], like=likes[0])
        broadcast(bsp, value, like=likes[bsp.pid == bsp.p - 1])

    (error, *_) = spmd.errors(main, 2, (np.zeros(3), np.zeros(3)))
    assert "broadcast: argument value: expected float64[3], as argument like says, got number" in str(error)
    if spmd.p > 1:
        for likes in ((0.5, np.zeros(3)), (np.zeros(3), np.zeros(4)), (np.zeros(3), None)):
            errors = spmd.errors(main, likes[0], likes)
            assert all(isinstance(one, pybsp.UsageError) for one in errors), errors
            assert all("broadcast: argument like: expected the same on all" in str(one) for one in errors), errors


def test_every_processor_gets_the_roots_value_as_its_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, kind: str, n: int, root: int, how: str) -> Any:
        value = value_of(kind, n, 5) if bsp.pid == root else "ignored"
        result = CALLS[how](bsp, value, root)
        stirred(bsp)
        for array in arrays_in(result):
            assert array.flags.writeable
        assert bsp.pid != root or result is value
        return plain(result)

    @examples(
        spmd,
        st.sampled_from(KINDS),
        st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 31, 100]),
        st.integers(0, 7),
        st.sampled_from(sorted(CALLS)),
        st.sampled_from(range(len(MACHINES))),
        most=40,
    )
    def check(kind: str, n: int, root: int, how: str, which: int) -> None:
        results = spmd(main, kind, n, root % spmd.p, how, machine=machine(spmd.p, which))
        wanted = value_of(kind, n, 5)
        if isinstance(wanted, np.ndarray) and type(wanted) is np.ndarray:
            wanted = np.ascontiguousarray(wanted).reshape(wanted.shape)
        assert results == [plain(wanted)] * spmd.p

    check()


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_value_arrives(spmd: Spmd, kind: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        root = bsp.p - 1
        results = [call(bsp, value_of(kind, 6, 1) if bsp.pid == root else None, root) for call in CALLS.values()]
        stirred(bsp)
        return [plain(result) for result in results]

    assert spmd(main) == [[plain(value_of(kind, 6, 1))] * len(CALLS)] * spmd.p


def test_arrays_of_items_without_bytes_arrive(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for dtype in ("V0", np.dtype([]), [("rows", "f8", (0, 2))]):
            like = np.zeros((2, 3), dtype)
            value = like if bsp.pid == bsp.p - 1 else None
            results = [call(bsp, value, bsp.p - 1) for call in CALLS.values()]
            results.append(broadcast(bsp, value, bsp.p - 1, like=like))
            found += [(result.shape, result.dtype == like.dtype) for result in results]
        return found

    assert spmd(main) == [[((2, 3), True)] * (3 * (len(CALLS) + 1))] * spmd.p


def test_a_dtype_of_another_package_arrives(spmd: Spmd) -> None:
    rational = pytest.importorskip("numpy._core._rational_tests").rational  # as bfloat16 of ml_dtypes is one

    def main(bsp: pybsp.BSP) -> Any:
        value = np.arange(6).astype(rational) if bsp.pid == 0 else None
        results = [call(bsp, value, 0) for call in CALLS.values()]
        return [result.dtype == np.dtype(rational) and result.tolist() == list(range(6)) for result in results]

    assert spmd(main) == [[True] * len(CALLS)] * spmd.p


def test_a_read_only_root_array_arrives_writable(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        value = np.arange(20)
        value.flags.writeable = False
        results = [call(bsp, value, 0) for call in CALLS.values()]
        for result in results:
            result += 1
        return [result.tolist() for result in results], value.tolist()

    assert spmd(main) == [([list(range(1, 21))] * len(CALLS), list(range(20)))] * spmd.p


def test_what_arrived_with_the_last_sync_can_be_broadcast(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, how: str) -> Any:
        bsp.send(bsp.pid, np.arange(50.0) + bsp.pid)
        bsp.sync()
        result = CALLS[how](bsp, bsp.inbox[0].payload, bsp.p - 1)
        stirred(bsp)
        return result.tolist()

    for how in CALLS:
        assert spmd(main, how) == [(np.arange(50.0) + spmd.p - 1).tolist()] * spmd.p


def test_the_root_array_is_not_changed_by_what_others_write(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        value = np.zeros(30)
        for call in CALLS.values():
            result = call(bsp, value if bsp.pid == 0 else None, 0)
            if bsp.pid:
                result += bsp.pid
            bsp.sync()
        return value.tolist()

    assert spmd(main)[0] == [0.0] * 30


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, n: int, root: int, degree: int | None) -> Any:
        value = np.arange(float(n)) if bsp.pid == root else None
        broadcast(bsp, value, root, degree)
        if degree is None:
            broadcast_items(bsp, value, root)
        bsp.sync()
        return counted(bsp.ledger, work=False)

    p = spmd.p
    for which, n, degree in ((0, 1, None), (1, p - 1, None), (2, 40, None), (1, 7, 2), (1, 3, 3), (0, 0, None)):
        parameters: BSPMachine = machine(p, which)
        cost = broadcast.cost(parameters, n, degree)
        if degree is None:
            cost += broadcast_items.cost(parameters, n)
        results = spmd(main, n, p // 2, degree, machine=parameters)
        assert all(result == charged(cost, work=False) for result in results)


def test_parts_of_a_split_broadcast_on_their_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            small = broadcast(part, bsp.pid, part.p - 1)
            large = broadcast_items(part, np.full(9, bsp.pid), part.p - 1)
        return small, large.tolist()

    def last(pid: int) -> int:
        return max(q for q in range(spmd.p) if q % 2 == pid % 2)

    assert spmd(main) == [(last(pid), [last(pid)] * 9) for pid in range(spmd.p)]


def test_a_queue_or_array_made_before_is_registered_by_it(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        array, queue = bsp.array(3), bsp.queue(np.int64)
        value = broadcast(bsp, 7, 0, 2)
        if bsp.p == 1:
            bsp.sync()
        array.put(0, 1.0, at=0)
        queue.send((bsp.pid + 1) % bsp.p, 4)
        bsp.sync()
        return value, array.local.tolist(), queue.values.tolist()

    assert spmd(main) == [(7, [0.0 if pid else 1.0, 0.0, 0.0], [4]) for pid in range(spmd.p)]


def test_an_algorithm_that_there_is_not_or_that_differs(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP, one: Any, other: Any) -> None:
        broadcast(bsp, np.arange(50.0), algorithm=one if bsp.pid else other)

    for error in spmd.errors(main, "tree", "tree"):
        said = 'broadcast: argument algorithm: expected None, the cheapest, or "trees", "2d", "groups", got \'tree\''
        assert said in str(error)
    if spmd.p > 1:
        for one, other in (("2d", "groups"), ("trees", None), (None, "2d")):
            said = "broadcast: argument algorithm: expected the same on all processors"
            assert all(said in str(error) for error in spmd.errors(main, one, other))
