"""sort: every algorithm gives the same, with values, stable or not; keys of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.collectives import sort
from pybsp.collectives.sort import short
from tests.conftest import Spmd, on_processors

from ..costs import MACHINES, machine

ALGORITHMS = (None, "allgather", "bitonic", "sample")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_key_a_processor(spmd: Spmd, algorithm: str | None) -> None:
    keys: dict[str, list[Any]] = {
        "ints": [(5 * pid + 2) % 7 for pid in range(spmd.p)],
        "texts": ["bcadhgfe"[pid] * (1 + pid % 3) for pid in range(spmd.p)],
        "floats": [float("nan") if pid == 1 else 1.0 / (pid + 1) for pid in range(spmd.p)],
    }

    def main(bsp: pybsp.BSP, kind: str) -> Any:
        key, value = sort(bsp, keys[kind][bsp.pid], values=bsp.pid, algorithm=algorithm)
        return key, value, sort(bsp, keys[kind][bsp.pid], stable=True, algorithm=algorithm)

    for kind, brought in keys.items():
        order: Any = np.argsort(np.array(brought), kind="stable")
        for which in range(len(MACHINES)) if algorithm is None else [1]:
            results = spmd(main, kind, machine=machine(spmd.p, which))
            assert repr([key for key, _, _ in results]) == repr([brought[k] for k in order])
            assert repr([key for _, _, key in results]) == repr([brought[k] for k in order])
            # A value goes with its key.
            assert [repr(brought[value]) for _, value, _ in results] == [repr(key) for key, _, _ in results]


@on_processors
def test_blocks_of_as_many_keys_as_short_ones_have_take_one_superstep_and_of_one_more_two(bsp: pybsp.BSP) -> None:
    longest = short(bsp.machine, 8)
    for keys, supersteps in ((longest, 1), (longest + 1, 2)) if longest > 0 else ():
        before = len(bsp.ledger)
        block = np.arange(float(keys)) * bsp.p + bsp.p - bsp.pid
        found = sort(bsp, block)
        assert len(bsp.ledger) - before == supersteps
        assert found.tolist() == list(range(bsp.pid * keys + 1, (bsp.pid + 1) * keys + 1))


@on_processors
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["i8", "U3", "O"])
def test_blocks_keep_their_sizes_and_equal_keys_their_order(bsp: pybsp.BSP, algorithm: str | None, dtype: str) -> None:
    def block(pid: int, case: int) -> Any:
        n = (4, pid % 3 * 5, 9 * (pid == bsp.p - 1), 0, 40)[case]
        keys = np.random.default_rng([pid, case]).integers(0, 9, n)
        return keys.astype(str).astype(dtype) if dtype == "U3" else keys.astype(dtype)

    for case in range(5):
        blocks = [block(pid, case) for pid in range(bsp.p)]
        mine = blocks[bsp.pid]
        before = mine.copy()
        where = np.stack([np.full(mine.size, bsp.pid), np.arange(mine.size)], axis=1)
        keys, places = sort(bsp, mine, values=where, stable=True, algorithm=algorithm)
        alone = sort(bsp, mine, algorithm=algorithm)
        bsp.sync()
        assert (mine == before).all()
        assert (keys.dtype, alone.dtype, places.shape) == (mine.dtype, mine.dtype, (mine.size, 2))
        assert keys.flags.writeable
        assert alone.tolist() == keys.tolist()
        whole = [(key, pid, index) for pid, keys in enumerate(blocks) for index, key in enumerate(keys.tolist())]
        first = sum(keys.size for keys in blocks[: bsp.pid])
        expected = sorted(whole)[first : first + mine.size]
        assert [(key, pid, index) for key, (pid, index) in zip(keys.tolist(), places.tolist(), strict=True)] == expected


def test_an_algorithm_that_there_is_not(spmd: Spmd) -> None:
    known = '"allgather", "bitonic", "sample"'
    for error in spmd.errors(lambda bsp: sort(bsp, bsp.pid, algorithm="quick")):
        assert f"sort: argument algorithm: expected None, the cheapest, or {known}, got 'quick'" in str(error)


def test_arguments_that_differ(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    for differing, argument in (
        (lambda pid: {"algorithm": "allgather" if pid else "sample"}, "algorithm"),
        (lambda pid: {"stable": not pid}, "stable"),
        (lambda pid: {"values": None if pid else 3}, "values"),
    ):

        def main(bsp: pybsp.BSP, differing: Any = differing) -> None:
            sort(bsp, bsp.pid, **differing(bsp.pid))

        assert all(f"sort: argument {argument}: expected the same" in str(error) for error in spmd.errors(main))


def test_keys_that_do_not_compare(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is compared")
    for algorithm in ALGORITHMS:
        errors = spmd.errors(lambda bsp, how: sort(bsp, {}, algorithm=how), algorithm)
        assert all("sort: argument keys: " in str(error) for error in errors)
