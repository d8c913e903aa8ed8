"""DUPLICATE(P): every processor gets its block of what np.repeat makes of all items."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import ProcessorError, UsageError
from pybsp.collectives.duplicate import duplicate
from tests.conftest import Spmd
from tests.tiers import some

from .programs import plain

FIGURE_4 = [[5, 3], [6, 1], [2, 1], [6, 3], [1, 1], [1, 1], [1, 1], [5, 2]]
PADDED = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})


def run(bsp: pybsp.BSP, items: list[Any], copies: list[Any], **options: Any) -> Any:
    """Each processor with its own items."""
    return duplicate(bsp, items[bsp.pid], copies[bsp.pid], **options)


def blocks(items: list[Any], copies: list[Any]) -> list[Any]:
    """The sequential reading: all items, repeated, in blocks of ceil(M/p)."""
    p = len(items)
    whole: Any
    total = sum(sum(counts) for counts in copies)
    block = -(-total // p)
    if isinstance(items[0], np.ndarray):
        whole = np.repeat(np.concatenate(items), np.concatenate(copies).astype(int), axis=0)
    else:
        pairs = [
            (item, k) for own, counts in zip(items, copies, strict=True) for item, k in zip(own, counts, strict=True)
        ]
        whole = [item for item, k in pairs for _ in range(k)]
    return [whole[q * block : (q + 1) * block] for q in range(p)]


def spread_out(counts: list[int], p: int) -> list[np.ndarray[Any, Any]]:
    """Counts for p processors, as equally many each as can be."""
    return [np.array(part, np.int64) for part in np.array_split(np.array(counts, np.int64), p)]


COUNT = st.one_of(st.integers(0, 3), st.just(0), st.integers(0, 60))
LISTS = st.lists(st.lists(COUNT, max_size=5), min_size=8, max_size=8)


@pytest.mark.parametrize("kind", ["array", "list"])
def test_each_processor_gets_its_block_of_the_repeated_items(spmd: Spmd, kind: str) -> None:
    # On MPI all ranks must draw the same examples: nothing may depend on time, and a failure is not shrunk there.
    @settings(
        max_examples=some(40),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
    )
    @given(LISTS, st.sampled_from([None, 2, 3, 9]))
    def check(lists: list[list[int]], degree: int | None) -> None:
        copies = lists[: spmd.p]
        if kind == "array":
            items: list[Any] = [np.arange(len(own)) + 100.5 * pid for pid, own in enumerate(copies)]
        else:
            items = [[(pid, k) for k in range(len(own))] for pid, own in enumerate(copies)]
        assert plain(spmd(run, items, copies, degree=degree)) == plain(blocks(items, copies))

    check()


def test_nobody_gets_more_than_its_share_however_the_copies_are_distributed(spmd: Spmd) -> None:
    p = spmd.p
    cases: list[list[list[int]]] = [
        [[0] * 3] * p,  # none
        [[]] * p,  # no items
        [[1] * (pid == p - 1) for pid in range(p)],  # fewer than processors
        [[0, 10 * p + 1, 0] if pid == p // 2 else [] for pid in range(p)],  # all of one item, not divisible
        [[1] * (20 * p) if pid == 0 else [0] for pid in range(p)],  # many items of one processor
        [[0, 4], [3]] * (p // 2) + [[7]] * (p % 2),  # on all of them
    ]
    for copies in cases:
        items = [np.arange(len(own)) + 1000 * pid for pid, own in enumerate(copies)]
        assert plain(spmd(run, items, copies)) == plain(blocks(items, copies))


def test_figure_4_of_the_paper(spmd: Spmd) -> None:
    if spmd.p != 8:
        return
    names = np.array([f"d{number}" for number in range(1, 17)]).reshape(8, 2)
    found = spmd(run, list(names), FIGURE_4, expand=False)
    assert [list(zip(items.tolist(), counts.tolist(), strict=True)) for items, counts in found] == [
        [("d1", 5)],
        [("d2", 3), ("d3", 2)],
        [("d3", 4), ("d4", 1)],
        [("d5", 2), ("d6", 1), ("d7", 2)],
        [("d7", 4), ("d8", 1)],
        [("d8", 2), ("d9", 1), ("d10", 1), ("d11", 1)],
        [("d12", 1), ("d13", 1), ("d14", 1), ("d15", 2)],
        [("d15", 3), ("d16", 2)],
    ]


def test_items_beside_their_counts_need_no_room_for_the_copies(spmd: Spmd) -> None:
    p, many = spmd.p, 10**15
    found = spmd(run, [["a", "b"]] * p, [[many, 0]] + [[0, 0]] * (p - 1), expand=False)
    assert [items for items, _ in found] == [["a"]] * (many // -(-many // p)) + [["a"]] * (many % -(-many // p) > 0)
    assert sum(counts.sum() for _, counts in found) == many
    assert all(counts.dtype == np.int64 and counts.max() <= -(-many // p) for _, counts in found)


@pytest.mark.parametrize(
    "whole",
    [
        np.arange(36, dtype=np.int8).reshape(12, 3),
        np.arange(12, dtype=">f4"),
        np.arange(12).astype("M8[s]"),
        np.array(list("abcdefghijkl")),
        np.array([(k, k / 2) for k in range(12)], PADDED),
        np.arange(12) % 3 == 0,
        np.empty((12, 0)),
        np.array([{k} for k in range(12)] + [None], object)[:12],
        np.array([[k, str(k)] for k in range(12)], object),
        np.arange(24)[::2],
    ],
    ids=lambda whole: f"{whole.dtype}{list(whole.shape)}" if whole.dtype != PADDED else "padded",
)
def test_items_of_any_dtype_and_shape(spmd: Spmd, whole: np.ndarray[Any, Any]) -> None:
    items = np.array_split(whole, spmd.p)
    copies = spread_out([0, 40, 1, 1, 0, 7, 2, 2, 30, 1, 1, 1], spmd.p)
    found = spmd(run, items, copies)
    expected = blocks(items, copies)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    assert {(part.dtype, part.shape[1:]) for part in found} == {(whole.dtype, whole.shape[1:])}


def test_results_are_the_callers_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        items = np.arange(4.0) + 10 * bsp.pid
        found = duplicate(bsp, items, [1, 2, 3, 0] if bsp.pid else [60, 0, 1, 0])
        pairs, counts = duplicate(bsp, items, np.array([1, 1, 1, 1], np.uint8), expand=False)
        arrays = duplicate(bsp, [np.arange(3)], [4 * (bsp.pid == 0)])
        before = plain([found, pairs, counts, arrays])
        bsp.sync()
        assert plain([found, pairs, counts, arrays]) == before
        for array in (found, pairs, counts, *arrays):
            array += 1
        return items.tolist() == [10 * bsp.pid + k for k in range(4)]

    assert all(spmd(main))


def test_a_processor_without_items_may_give_any_empty_ones(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        if bsp.pid == bsp.p - 1:
            return duplicate(bsp, np.array([[1.0, 2.0]], np.float32), [1])
        return duplicate(bsp, [np.empty(0), [], (), np.empty((0, 7), np.int8)][bsp.pid % 4], [])

    found = spmd(main)
    assert [part.shape for part in found] == [(1, 2)] + [(0, 2)] * (spmd.p - 1)
    assert {part.dtype for part in found} == {np.dtype(np.float32)}
    assert spmd(run, [[]] * spmd.p, [[]] * spmd.p) == [[]] * spmd.p


def test_where_no_processor_has_items_the_copies_are_of_the_type_of_processor_0(spmd: Spmd) -> None:
    kinds = [np.empty((0, 7), np.int8), [], np.empty(0)]
    found = spmd(lambda bsp: duplicate(bsp, kinds[bsp.pid % 3], []))
    assert [(part.shape, part.dtype) for part in found] == [((0, 7), np.int8)] * spmd.p


def test_a_number_of_items_that_nobody_copies_leaves_nothing(spmd: Spmd) -> None:
    found = spmd(run, [np.arange(3, dtype=np.int16)] * spmd.p, [[0, 0, 0]] * spmd.p, expand=False)
    assert plain(found) == plain([(np.empty(0, np.int16), np.empty(0, np.int64))] * spmd.p)


WRONG: list[tuple[Any, Any, dict[str, Any], str, str]] = [
    ([1, 2], [1, -1], {}, "copies", "-1 for item 1"),
    ([1, 2], [1], {}, "copies", "of which there are 2"),
    ([1], [[1]], {}, "copies", "shape (1, 1)"),
    ([1, 2], [[1], [1, 2]], {}, "copies", "[[1], [1, 2]]"),
    ([1, 2], 3, {}, "copies", "np.full"),
    ([1, 2], None, {}, "copies", "shape ()"),
    ([1, 2], [1.0, 2.0], {}, "copies", "float64"),
    ([1, 2], [True, False], {}, "copies", "bool"),
    ([1, 2], ["1", "2"], {}, "copies", "<U1"),
    ([1, 2], [2**62, 2**62], {}, "copies", "at most"),
    ([1, 2], [1, 2**64], {}, "copies", "object"),
    (np.float64(1), [1], {}, "items", "float64"),
    (np.array(1.0), [1], {}, "items", "no axis"),
    ("ab", [1, 1], {}, "items", "str"),
    ({1: 2}, [1], {}, "items", "dict"),
    ([1, 2], [1, 2], {"degree": 1}, "degree", "at least 2"),
]


@pytest.mark.parametrize(("items", "copies", "options", "argument", "got"), WRONG)
def test_wrong_arguments_of_one_processor_are_an_error_on_every_one(
    spmd: Spmd, items: Any, copies: Any, options: dict[str, Any], argument: str, got: str
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            duplicate(bsp, items, copies, **options)
        else:
            duplicate(bsp, [1, 2], [3, 4])

    errors = spmd.errors(main)
    assert isinstance(errors[-1], UsageError)
    assert got in str(errors[-1])
    assert all(isinstance(error, ProcessorError) for error in errors[:-1])
    assert all("duplicate" in str(error) and f"argument {argument}" in str(error) for error in errors)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (lambda pid: {"items": np.arange(2.0) if pid else np.arange(2)}, "items"),
        (lambda pid: {"items": np.zeros((2, 3)) if pid else np.zeros(2)}, "items"),
        (lambda pid: {"items": [1, 2] if pid else np.arange(2)}, "items"),
        (lambda pid: {"degree": 2 + pid}, "degree"),
    ],
    ids=["dtype", "shape", "kind", "degree"],
)
def test_arguments_that_differ_are_an_error_on_every_processor(spmd: Spmd, options: Any, argument: str) -> None:
    if spmd.p == 1:
        return

    def main(bsp: pybsp.BSP) -> None:
        duplicate(bsp, **{"items": np.arange(2), "copies": [1, 1], **options(bsp.pid)})

    errors = spmd.errors(main)
    assert all(error is not None and "duplicate" in str(error) for error in errors)
    assert all(f"argument {argument}" in str(error) for error in errors)


def test_dtypes_that_never_meet_in_a_block_are_an_error_all_the_same(spmd: Spmd) -> None:
    p = spmd.p
    if p == 1:
        return
    items = [np.zeros(2, np.float32 if pid == p - 1 else np.float64) for pid in range(p)]
    texts = {str(error) for error in spmd.errors(run, items, [[1, 1]] * p)}
    assert len(texts) == 1
    found = re.search(
        r"duplicate: argument items: expected the same on all processors that have items, got an array of float64, "
        r"items of shape \(\), on processor (\d) and an array of float32, items of shape \(\), on processor (\d); ",
        texts.pop(),
    )
    assert found is not None
    assert int(found[1]) < int(found[2]) == p - 1


def test_items_that_cannot_be_pickled_are_an_error_on_every_processor(spmd: Spmd) -> None:
    if spmd.p == 1:
        return  # nothing travels

    def main(bsp: pybsp.BSP) -> None:
        duplicate(bsp, [lambda: 0], [5 * bsp.p if bsp.pid == 0 else 0])

    for error in spmd.errors(main):
        assert "duplicate: argument items: expected something that can be pickled" in str(error)


def test_the_ledger_is_as_said(spmd: Spmd) -> None:
    p = spmd.p

    def main(bsp: pybsp.BSP, items: list[Any], copies: list[Any], degree: int | None) -> Any:
        run(bsp, items, copies, degree=degree)
        cost = duplicate.cost(bsp.machine, 3, copies, degree=degree)
        return [(r.h_out, r.h_in, r.messages, r.M) for r in bsp.ledger] == [
            (s.h_out, s.h_in, s.messages, s.M) for s in cost
        ]

    for counts in ([1] * 6, [0] * 5 + [70], list(range(3 * p))):
        copies = spread_out(counts, p)
        items = [np.zeros((own.size, 3)) for own in copies]
        assert all(spmd(main, items, copies, None))
        assert all(spmd(main, items, copies, 2))
