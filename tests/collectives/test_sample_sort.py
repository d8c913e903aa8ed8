"""sample_sort costs what it says, and no processor gets more than its bound, whatever the keys are."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pybsp
from pybsp import BSPMachine, Superstep, UsageError, collectives
from pybsp.collectives import regular_sampling
from pybsp.collectives.sample_sort import sample_sort

from ..costs import charged, counted, machine


def assert_cost(blocks: list[NDArray[Any]], itemsize: int, values: int | None, m: BSPMachine) -> None:
    """The ledger is the cost for the keys that moved, and not above the bound for the sizes of the blocks."""
    p, sizes = len(blocks), [block.size for block in blocks]
    origin = np.dtype([("pid", np.int16), ("more", np.uint8, (values or 2) - 2)])

    def main(bsp: pybsp.BSP, traced: bool) -> Any:
        keys, origins = blocks[bsp.pid], np.zeros(sizes[bsp.pid], origin)
        origins["pid"] = bsp.pid
        found = sample_sort(bsp, keys, origins) if traced else (sample_sort(bsp, keys), None)
        bsp.sync()
        return found

    ran = traced = pybsp.simulate(main, True, p=p, machine=m)
    if values is None:
        ran = pybsp.simulate(main, False, p=p, machine=m)
    counts = np.array([np.bincount(origins["pid"], minlength=p) for _, origins in traced.results]).T
    cost = sample_sort.cost(m, counts=counts, itemsize=itemsize, values=values)
    assert counted(ran.ledger) == charged(cost)
    assert ran.time == pytest.approx(cost.seconds + m.l, rel=1e-9)
    assert np.array_equal(np.concatenate([keys for keys, _ in ran.results]), np.sort(np.concatenate(blocks)))
    bound = sample_sort.cost(m, sizes, itemsize=itemsize, values=values)
    assert bound.supersteps == cost.supersteps == (2 if p > 1 else 0)
    for step, limit in zip(cost, bound, strict=True):
        assert all(a <= b for a, b in zip(step[:-1], limit[:-1], strict=True))
    assert cost.after <= bound.after
    assert cost.seconds <= bound.seconds


@pytest.mark.whole
@pytest.mark.parametrize("p", range(1, 65))
def test_the_ledger_is_the_cost_for_the_counts_of_keys(p: int) -> None:
    rng = np.random.default_rng(p)
    sizes = rng.integers(0, 60, p) if p % 2 else np.full(p, 20)
    blocks = [rng.integers(0, 50, n) for n in sizes]
    assert_cost(blocks, 8, 3, machine(p, p % 3))
    if p <= 16:  # keys that go alone, and of less than a word
        assert_cost(blocks, 8, None, machine(p, p % 3))
        assert_cost([block.astype(np.int8) for block in blocks], 1, None, machine(p))
        assert_cost([block.astype(np.float16) for block in blocks], 2, 13, machine(p))


KEYS: dict[str, Callable[[np.random.Generator, int, int], NDArray[Any]]] = {
    "random": lambda rng, n, pid: rng.random(n),
    "equal": lambda rng, n, pid: np.zeros(n),
    "two": lambda rng, n, pid: rng.integers(0, 2, n),
    "skewed": lambda rng, n, pid: rng.random(n) ** 20,
    "in order": lambda rng, n, pid: pid + rng.random(n),
    "reversed": lambda rng, n, pid: -pid + rng.random(n),
    "interleaved": lambda rng, n, pid: np.arange(n) * 64 + pid,
    "just after the samples": lambda rng, n, pid: np.where(np.arange(n) % max(1, n // 8) == 0, np.arange(n), 0.5),
    "one wide": lambda rng, n, pid: rng.random(n) * (1000 if pid == 0 else 1),
    "nan": lambda rng, n, pid: np.where(rng.random(n) < 0.7, np.nan, rng.random(n)),
    "nan but for one": lambda rng, n, pid: np.where(np.arange(n) == n // 2, rng.random(), np.nan),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("p", [2, 3, 8, 13, 32])
def test_no_processor_gets_more_than_the_bound(p: int, name: str) -> None:
    rng = np.random.default_rng(p)

    def received(blocks: list[NDArray[Any]]) -> list[int]:
        def main(bsp: pybsp.BSP) -> int:
            return int(sample_sort(bsp, blocks[bsp.pid]).size)

        return pybsp.simulate(main, p=p).results

    for n in (1, p - 1, 4 * p + 1, 300):
        largest = max(received([KEYS[name](rng, n, pid).astype("f8") for pid in range(p)]))
        assert largest <= regular_sampling.most(p, [n] * p) <= 2 * n
    for sizes in (rng.integers(0, 300, p).tolist(), [1000, *[3] * (p - 1)], [*[0] * (p - 1), 500]):
        largest = max(received([KEYS[name](rng, n, pid).astype("f8") for pid, n in enumerate(sizes)]))
        limit = regular_sampling.most(p, sizes)
        assert largest <= limit
        assert limit <= 2 * sum(sizes) / p + math.ceil(max(sizes) / p)


@pytest.mark.whole
@pytest.mark.parametrize("p", [2, 3, 7])
def test_whatever_the_keys_between_the_samples_are_the_bound_holds_and_is_nearly_reached(p: int) -> None:
    # Blocks of the same samples, where the keys between two samples are next to the lower or to the upper one.
    n, rng, largest = 20 * p + 1, np.random.default_rng(p), 0
    for _ in range(60):
        blocks = []
        for _ in range(p):
            at = rng.integers(0, 3, p + 1).cumsum() * 10.0
            near = np.where(rng.random(p) < 0.5, at[:-1] + 0.1, at[1:] - 0.1)
            blocks.append(np.append(at[:1], np.stack([*[near] * 19, at[1:]], 1)))
        assert {block.size for block in blocks} == {n}

        def main(bsp: pybsp.BSP, blocks: list[NDArray[Any]] = blocks) -> int:
            return int(sample_sort(bsp, blocks[bsp.pid]).size)

        largest = max(largest, *pybsp.simulate(main, p=p).results)
    assert 1.25 * n < largest <= regular_sampling.most(p, [n] * p) < 2 * n


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("most", [2, 30, 1000])
@pytest.mark.fast
def test_splitters_are_the_samples_whose_ranks_are_likely_to_be_nearest_to_their_targets(p: int, most: int) -> None:
    rng = np.random.default_rng(p + most)
    for _ in range(10):
        sizes = rng.choice([0, 1, p, p + 1, p + 2, 9, 40], p).tolist()
        blocks = [np.sort(rng.integers(0, most, n)) for n in sizes]
        places = [regular_sampling.sample_places(p, n).tolist() for n in sizes]
        samples = sorted((block[at], pid, at) for pid, block in enumerate(blocks) for at in places[pid])
        twice = []  # the rank of each sample: of each block as many keys as its samples before and after it allow
        for sample in samples:
            rank = 2 * sample[2]
            for pid in set(range(p)) - {sample[1]}:
                before = [at for at in places[pid] if (blocks[pid][at], pid, at) < sample]
                after = [at for at in places[pid] if at not in before]
                rank += (before[-1] + 1 if before else 0) + (after[0] if after else sizes[pid])
            twice.append(rank)
        twice.append(2 * sum(sizes))
        expected = []
        for number in range(1, p):
            _, nearest = min((abs(rank * p - 2 * number * sum(sizes)), -at) for at, rank in enumerate(twice))
            expected += samples[-nearest : 1 - nearest]
        for pid in range(p):
            found = regular_sampling.split(
                np.concatenate([b[at] for b, at in zip(blocks, places, strict=True)]), sizes, pid
            )
            assert list(zip(found.keys, found.owners, found.places, strict=True)) == expected
            assert found.passed.tolist() == [sum(s < one for s in samples if s[1] == pid) for one in expected]


@pytest.mark.parametrize("p", [2, 5, 8])
def test_selecting_and_sorting_cut_alike(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(p)
    for name, make in 4 * list(KEYS.items()):
        blocks = [make(rng, int(rng.integers(0, 300)), pid).astype("f4") for pid in range(p)]

        def main(bsp: pybsp.BSP, blocks: list[NDArray[Any]] = blocks) -> list[float]:
            part: list[float] = sample_sort(bsp, blocks[bsp.pid]).tolist()
            return part

        found = []
        for selecting in (0, 64):
            monkeypatch.setattr(import_module("pybsp.collectives.sample_sort"), "SELECTING", selecting)
            found.append(repr(pybsp.simulate(main, p=p).results))
        assert found[0] == found[1], name


@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize("name", ["random", "two", "in order", "reversed", "just after the samples", "nan"])
@pytest.mark.fast
def test_keys_that_are_only_selected_lie_on_their_sides_of_the_cuts(p: int, name: str) -> None:
    rng = np.random.default_rng(p)
    for n in (p + 2, 40, 400, 1600):
        sizes = [n, *rng.integers(0, 2 * n, p - 1).tolist()]
        blocks = [KEYS[name](rng, size, pid).astype("f8") for pid, size in enumerate(sizes)]
        places = [regular_sampling.sample_places(p, size) for size in sizes]
        sorted_blocks = [np.sort(block) for block in blocks]
        samples = np.concatenate([block[at] for block, at in zip(sorted_blocks, places, strict=True)])
        for pid, (block, as_sorted) in enumerate(zip(blocks, sorted_blocks, strict=True)):
            if sizes[pid] <= p + 1:
                continue  # as few are sorted
            regular_sampling.select(block, places[pid][1:-1])
            assert np.array_equal(block[places[pid][1:-1]], as_sorted[places[pid][1:-1]], equal_nan=True)
            splitters = regular_sampling.split(samples, sizes, pid)
            cuts = regular_sampling.cut_selected(block, places[pid], splitters, pid)
            assert cuts.tolist() == regular_sampling.cut_sorted(as_sorted, splitters, pid).tolist()
            pieces = [np.sort(piece) for piece in np.split(block, cuts)]
            assert np.array_equal(np.concatenate(pieces), as_sorted, equal_nan=True)


def test_the_cost_of_equal_blocks_in_closed_form() -> None:
    m = BSPMachine(p=4, g=1.0, l=10.0, r=1.0)
    first, second = sample_sort.cost(m, 1024)
    assert first == Superstep(15, 15, 3, 60, 10240, 3)
    assert second[:4] == (1024, 4 * 1024 // 4 + 256 + 3 * 255, 3, 4096)
    assert second.w == 20 * math.log2(20) + 3 * 10
    cost = sample_sort.cost(m, counts=np.full((4, 4), 256))
    assert cost[0] == first
    assert cost[1] == Superstep(768, 768, 3, 3072, second.w, 3)
    assert cost.after == 2048
    assert sample_sort.cost(m, counts=np.full((4, 4), 256), itemsize=1, values=24)[1][:4] == (2400, 2400, 6, 9600)
    assert sample_sort.cost(machine(1), 1024).after == 10240


def test_the_plan_says_who_sends_what_to_whom() -> None:
    samples, keys = sample_sort.plan(2, [[3, 4], [0, 2]])
    assert samples.messages() == [(0, 1, range(3)), (1, 0, range(2))]
    assert keys.messages() == [(0, 1, range(3, 7))]
    assert len(sample_sort.plan(1, [[5]])) == 0


@pytest.mark.fast
@pytest.mark.parametrize("counts", [3, [1, 2], [[1, 2]], [[1.0]], [[-1]], [[[1]]]], ids=str)
def test_counts_that_are_no_table_are_refused(counts: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=r"sample_sort\.cost: argument counts: expected"):
        sample_sort.cost(machine(1), counts=counts)
    with pytest.raises(pybsp.UsageError, match=r"sample_sort\.plan: argument counts: expected"):
        sample_sort.plan(3, [[1]])


@pytest.mark.fast
@pytest.mark.parametrize("keys", [None, -1, 1.5, [1, 2], "n"], ids=str)
def test_numbers_of_keys_that_are_none_are_refused(keys: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=r"sample_sort\.cost: argument keys: expected .*or give counts"):
        sample_sort.cost(machine(3), keys)
    with pytest.raises(pybsp.UsageError, match=r"sample_sort\.cost: argument itemsize"):
        sample_sort.cost(machine(3), 1, itemsize=-1)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["sample_sort", "balanced_sort", "argsort", "unique", "group_by"])
def test_what_is_wrong_in_a_cost_or_a_plan_of_sorting_is_said_of_the_primitive_that_was_asked(name: str) -> None:
    function = getattr(collectives, name)
    with pytest.raises(UsageError, match=rf"^{name}\.plan: argument counts: expected whole numbers"):
        function.plan(4, [1, 2])
    with pytest.raises(UsageError, match=rf"^{name}\.plan: argument counts: expected shape \(4, 4\), got"):
        function.plan(4, np.ones((2, 2), int))
    with pytest.raises(UsageError, match=rf"^{name}\.cost: argument counts: expected whole numbers"):
        function.cost(BSPMachine.nominal(4), 3, counts=[1.5])
