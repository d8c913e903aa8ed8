"""scatter, gather and allgather: every kind of value, every root, and what goes wrong."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pybsp
from pybsp.collectives.allgather import allgather
from pybsp.collectives.gather import gather
from pybsp.collectives.scatter import scatter
from tests.conftest import Spmd
from tests.tiers import some

from ..costs import charged, counted
from .programs import caught, plain

PAIR = np.dtype([("a", "i4"), ("b", "f4")])


class Stubborn:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise RuntimeError("not me")


def value_of(kind: str, pid: int) -> Any:
    """A value that tells whose it is; arrays differ in shape and dtype."""
    return {
        "int": pid,
        "bool": pid % 2 == 0,
        "numpy number": np.float32(pid) / 3,
        "date": np.datetime64("2020-01-01") + np.timedelta64(pid, "D"),
        "array": np.arange(pid * 3, dtype=np.int16 if pid % 2 else np.float64).reshape(3, pid),
        "structure": np.zeros(2, PAIR),
        "strided": np.arange(12).reshape(3, 4).T[pid % 3 :],
        "text": "text" * pid,
        "bytes": bytes([pid]) * 5,
        "objects": np.array([None, "x", pid], object),
        "nested": {"array": np.arange(pid), "of": (pid, [None])},
        "mixed": [pid, np.arange(pid), "s"][pid % 3],
    }[kind]


KINDS = ["int", "bool", "numpy number", "date", "array", "structure", "strided", "text", "bytes", "objects", "nested"]
KINDS += ["mixed"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_processor_gets_its_value_and_the_root_gets_all_back(spmd: Spmd, kind: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for root in range(bsp.p):
            values = [value_of(kind, pid) for pid in range(bsp.p)] if bsp.pid == root else None
            mine = scatter(bsp, values, root)
            back = gather(bsp, mine, root=root)
            found.append((plain(mine), plain(back), plain(allgather(bsp, mine))))
        return found

    everything = [value_of(kind, pid) for pid in range(spmd.p)]
    for pid, found in enumerate(spmd(main)):
        for root, (mine, back, by_all) in enumerate(found):
            assert mine == plain(everything[pid])
            assert back == plain(everything if pid == root else None)
            assert by_all == plain(everything)


def test_an_array_is_scattered_along_its_first_axis(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        rows = scatter(bsp, np.arange(3 * bsp.p).reshape(bsp.p, 3) if bsp.pid == 0 else None)
        number = scatter(bsp, np.arange(bsp.p) / 2 if bsp.pid == 0 else None)
        turned = scatter(bsp, deque(range(bsp.p)))
        return rows.tolist(), type(number), float(number), turned

    assert spmd(main) == [([3 * i, 3 * i + 1, 3 * i + 2], np.float64, i / 2, i) for i in range(spmd.p)]


def test_results_are_the_callers_own_and_outlive_the_next_sync(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine = np.full(4, bsp.pid)
        last = bsp.p - 1
        got = [allgather(bsp, mine), gather(bsp, mine, last) or [], [scatter(bsp, [np.ones(3)] * bsp.p, last)]]
        same = got[0][bsp.pid] is mine
        for _ in range(2):
            for dest in range(bsp.p):
                bsp.send(dest, np.full(4, -1))
            bsp.sync()
        content = plain(got)
        for arrays in got:
            for array in arrays:
                array += 1
        return same, content

    p = spmd.p
    for pid, (same, content) in enumerate(spmd(main)):
        all_of_them = [np.full(4, q) for q in range(p)]
        assert same
        assert content == plain([all_of_them, all_of_them if pid == p - 1 else [], [np.ones(3)]])


def test_the_own_value_is_the_object_itself(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine, stubborn = [bsp.pid], Stubborn()  # what does not travel needs no pickle
        gathered = gather(bsp, stubborn if bsp.pid == 0 else mine)
        values = [stubborn, *range(1, bsp.p)]
        return [
            gathered is None or gathered[0] is stubborn,
            scatter(bsp, values) is stubborn or bsp.pid > 0,
            allgather(bsp, mine)[bsp.pid] is mine,
        ]

    assert spmd(main) == [[True] * 3] * spmd.p


def test_the_ledger_is_the_cost(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        root = bsp.p // 2
        mine = np.zeros(3 * bsp.pid + 1, np.float32)
        back = gather(bsp, mine, root)
        scatter(bsp, back, root)
        allgather(bsp, mine)
        bsp.sync()
        words = [-(-(3 * pid + 1) // 2) for pid in range(bsp.p)]
        predicted = (
            gather.cost(bsp.machine, words, root)
            + scatter.cost(bsp.machine, words, root)
            + allgather.cost(bsp.machine, words)
        )
        return counted(bsp.ledger, work=False), charged(predicted, work=False)

    for counts, predicted in spmd(main):
        assert counts == predicted


KIND = st.sampled_from(KINDS)
CALL = st.tuples(st.sampled_from(["scatter", "gather", "allgather"]), st.integers(0, 40), st.lists(KIND, min_size=8))


def random_calls(bsp: pybsp.BSP, calls: list[tuple[str, int, list[str]]]) -> list[Any]:
    results: list[Any] = []
    for name, number, kinds in calls:
        root = number % bsp.p
        values = [value_of(kind, pid) for pid, kind in enumerate(kinds[: bsp.p])]
        if name == "scatter":
            results.append(scatter(bsp, values if bsp.pid == root else None, root))
        elif name == "gather":
            results.append(gather(bsp, values[bsp.pid], root))
        else:
            results.append(allgather(bsp, values[bsp.pid]))
    return [plain(result) for result in results]


@settings(
    max_examples=some(20),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(calls=st.lists(CALL, min_size=1, max_size=4))
def test_any_sequence_of_calls_gives_what_it_says(spmd: Spmd, calls: list[tuple[str, int, list[str]]]) -> None:
    for pid, results in enumerate(spmd(random_calls, calls)):
        for (name, number, kinds), result in zip(calls, results, strict=True):
            values = [value_of(kind, q) for q, kind in enumerate(kinds[: spmd.p])]
            alone = name == "gather" and pid != number % spmd.p
            assert result == plain(values[pid] if name == "scatter" else None if alone else values)


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    ["too few", 3, None, {"a": 1}, np.float64(1), iter(()), np.zeros((0, 2)), "string"],
    ids=["too few", "number", "None", "dict", "float64", "iterator", "array", "string"],
)
def test_values_that_are_not_one_for_each_are_refused_everywhere(spmd: Spmd, values: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        given = list(range(bsp.p - 1)) if isinstance(values, str) and values == "too few" else values
        scatter(bsp, given if bsp.pid == 0 else None)

    errors = spmd.errors(main)
    assert isinstance(errors[0], pybsp.UsageError)
    for error in errors:
        assert error is not None
        assert "scatter: argument values: expected a sequence or an array of " in str(error)


@pytest.mark.parametrize("root", [-1, 64, 1.5, "0", None, True])
def test_a_root_that_is_no_processor_is_refused(spmd: Spmd, root: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return [caught(call, bsp, [0] * bsp.p, root) for call in (scatter, gather)]

    for found in spmd(main):
        for name, error in zip(("scatter", "gather"), found, strict=True):
            assert error.kind is pybsp.UsageError
            assert f"{name}: argument root: expected a processor" in error.text


@pytest.mark.parametrize("call", [scatter, gather], ids=lambda call: call.__name__)
def test_roots_that_differ_are_an_error_everywhere(spmd: Spmd, call: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        call(bsp, [0] * bsp.p, bsp.pid % 2)

    errors = spmd.errors(main)
    for error in errors:
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or (call.__name__ in str(error) and "root" in str(error))


@pytest.mark.parametrize("call", [scatter, gather, allgather], ids=lambda call: call.__name__)
def test_a_value_that_cannot_be_pickled_is_an_error_everywhere(spmd: Spmd, call: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        last = bsp.pid == bsp.p - 1
        if call is scatter:
            scatter(bsp, [Stubborn()] * bsp.p if last else None, bsp.p - 1)
        else:
            call(bsp, Stubborn() if last else 1)

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or f"{call.__name__}: argument value" in str(error)


def test_what_came_goes_with_the_result(spmd: Spmd) -> None:
    """What a record has no room for is read where its sender put it; who keeps that slows every later exchange."""

    def main(bsp: pybsp.BSP) -> bool:
        gather(bsp, np.zeros(1 << 14))
        for _ in range(3):
            bsp.sync()
        board = getattr(bsp._superstep.transport, "board", None)
        return board is not None and board.reads()

    assert not any(spmd(main))


def test_different_primitives_are_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            gather(bsp, 1)
        else:
            allgather(bsp, 1)

    for error in spmd.errors(main):
        assert (error is None) == (spmd.p == 1)
        assert spmd.p == 1 or "gather" in str(error)


def test_a_processor_that_only_syncs_is_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.sync()
        else:
            allgather(bsp, 1)

    errors = spmd.errors(main)
    for error in errors:
        assert (error is None) == (spmd.p == 1)
