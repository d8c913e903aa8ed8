"""bitonic_sort: its cost is what the ledger counts; its supersteps are those of the paper."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.collectives.baselines.bitonic_sort_few import bitonic_sort_few
from pybsp.collectives.bitonic_network import reach, schedule
from pybsp.collectives.bitonic_sort import bitonic_sort, choose

from ..costs import assert_ledger_is, machine

EVERY_P = range(1, 65)


def keys_of(p: int) -> list[int]:
    """One key a processor, with ties."""
    return [(7 * pid + 3) % (2 * p // 3 + 1) for pid in range(p)]


@pytest.mark.parametrize("p", EVERY_P)
def test_one_key_a_processor_costs_what_cost_says(p: int) -> None:
    keys = keys_of(p)

    def main(bsp: pybsp.BSP, levels: int | None) -> Any:
        return bitonic_sort(bsp, keys[bsp.pid], levels)

    for levels in (None, 1 + p % 3):
        on = machine(p, p % 3)
        assert assert_ledger_is(bitonic_sort.cost(on, 1, levels), main, levels, p=p, machine=on) == sorted(keys)


@pytest.mark.whole
@pytest.mark.parametrize("p", EVERY_P)
def test_blocks_cost_what_cost_says(p: int) -> None:
    random = np.random.default_rng(p)
    on = machine(p)
    lopsided = np.where(np.arange(p) == p // 2, 5, 0)
    for levels, counts in ((None, np.full(p, 3)), (1, random.integers(0, 7, p)), (2, lopsided), (1, np.zeros(p, int))):
        blocks = [random.integers(0, 20, n) for n in counts]

        def main(bsp: pybsp.BSP, levels: int | None, blocks: list[Any]) -> Any:
            return bitonic_sort(bsp, blocks[bsp.pid], levels)

        predicted = bitonic_sort.cost(on, 1, levels, counts)
        results = assert_ledger_is(predicted, main, levels, blocks, p=p, machine=on)
        assert [len(result) for result in results] == counts.tolist()
        assert np.concatenate(results).tolist() == np.sort(np.concatenate(blocks)).tolist()


@pytest.mark.parametrize("p", [1, 2, 7, 16, 33])
def test_values_and_places_count_with_their_keys_in_whole_words_a_message(p: int) -> None:
    on = machine(p)
    for counts in (np.full(p, 5), (np.arange(p) * 5 + 1) % 6):

        def main(bsp: pybsp.BSP, counts: Any = counts) -> Any:
            n = counts[bsp.pid]
            return bitonic_sort(bsp, np.ones(n, "i2"), values=np.ones((n, 3), "i1"), stable=True)[0].size

        predicted = bitonic_sort.cost(on, 5 / 8, None, counts, stable=True)
        assert assert_ledger_is(predicted, main, p=p, machine=on) == counts.tolist()


def test_equal_blocks_cost_as_counts_of_each_processor_do() -> None:
    one, each = (bitonic_sort.cost(machine(24), 2, None, counts) for counts in (10, [10] * 24))
    assert list(one) == list(each)
    assert one.seconds == each.seconds


@pytest.mark.parametrize("p", [*EVERY_P, 100, 1000])
def test_the_plan_costs_what_cost_says(p: int) -> None:
    for levels in (1, 2, 3, 6) if p < 100 else (1, 4):
        plan = bitonic_sort.plan(p, levels)
        assert list(plan.cost(machine(p))) == list(bitonic_sort.cost(machine(p), 1, levels))
        assert plan.cost(machine(p)).seconds == bitonic_sort.cost(machine(p), 1, levels).seconds


def test_the_choice_costs_least_of_all_levels() -> None:
    for p in (1, 2, 13, 64, 100):
        for which in (0, 1, 2):
            on = machine(p, which)
            levels = range(1, max(1, (p - 1).bit_length()) + 1)
            for n in (1, 50):
                costs = [bitonic_sort.cost(on, 1, one, n).seconds for one in levels]
                assert bitonic_sort.cost(on, 1, None, n).seconds == min(costs)
                assert choose(on, n) == levels[int(np.argmin(costs))]


def test_a_choice_among_all_levels_of_4096_processors_takes_no_time() -> None:
    began = time.process_time()
    predicted = bitonic_sort.cost(machine(4096))
    assert time.process_time() - began < 10
    assert predicted.supersteps == sum(-(-stage // choose(machine(4096))) for stage in range(1, 13))


def test_a_merge_stage_takes_its_levels_over_the_melted_ones_as_even_as_can_be() -> None:
    for p in (2, 5, 64, 1000, 4096):
        stages = (p - 1).bit_length()
        for levels in range(1, stages + 1):
            steps = schedule(p, levels)
            assert len(steps) == sum(-(-stage // levels) for stage in range(1, stages + 1))
            assert [mask for masks in steps for mask in masks] == [mask for masks in schedule(p, 1) for mask in masks]
            sizes = [len(masks) for masks in steps]
            for stage in range(1, stages + 1):
                mine = [sizes.pop(0) for _ in range(-(-stage // levels))]
                assert sum(mine) == stage
                assert max(mine) - min(mine) <= 1
                assert max(mine) <= levels


def test_figure_3_two_levels_a_superstep_on_16_processors() -> None:
    """P = 16, L/g = 4: what processors 0 (boxes) and 12 (diamonds) simulate in the last merge stage."""
    first, second = schedule(16, 2)[-2:]

    def nodes(pid: int) -> list[list[int]]:
        """Of each level of the stage, the columns whose comparators the processor simulates."""
        return [sorted((pid ^ reach(masks[k + 1 :])).tolist()) for masks in (first, second) for k in range(len(masks))]

    assert nodes(0) == [[0, 4], [0], [0, 1], [0]]
    assert nodes(12) == [[8, 12], [12], [12, 13], [12]]
    # They are those that its key at the end depends on, followed back through the levels of each superstep.
    for pid in range(16):
        for masks, simulated in ((first, nodes(pid)[:2]), (second, nodes(pid)[2:])):
            needed = {pid}
            for mask, columns in zip(reversed(masks), reversed(simulated), strict=True):
                assert needed == set(columns)
                needed |= {column ^ mask for column in needed}
            step = bitonic_sort.plan(16, 2)[-2 if masks == first else -1]
            assert [source for source, _, _ in step.receives(pid)] == sorted(needed - {pid})
            assert [dest for dest, _, _ in step.sends(pid)] == sorted(needed - {pid})

    # The keys that they need: of 0, 4, 8 and 12 in the figure, where the other half comes in reverse order.
    before, after = bitonic_sort.plan(16, 2)[-2:]
    assert [source for source, _, _ in before.receives(0)] == [4, 23 - 12, 23 - 8]
    assert [source for source, _, _ in before.receives(12)] == [7 - 4, 7 - 0, 8]
    assert [source for source, _, _ in after.receives(0)] == [1, 2, 3]
    assert [source for source, _, _ in after.receives(12)] == [13, 14, 15]
    # L/(2g) comparators of the first level, half as many of the second.
    assert bitonic_sort.cost(machine(16), 1, 2)[-1].w == 2 + 1


@pytest.mark.whole
def test_1024_keys_on_as_many_processors() -> None:
    on = machine(1024, 2)
    keys = np.random.default_rng(0).random(1024)

    def main(bsp: pybsp.BSP) -> Any:
        return bitonic_sort(bsp, keys[bsp.pid], 2)

    results = assert_ledger_is(bitonic_sort.cost(on, 1, 2), main, p=1024, machine=on)
    assert results == np.sort(keys).tolist()


@pytest.mark.fast
@pytest.mark.parametrize("counts", [-1, [1, 2], [[1]], 1.5, [1, 2, -3]])
def test_counts_that_are_none_are_refused(counts: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=r"bitonic_sort\.cost: argument counts: expected None, a number of keys"):
        bitonic_sort.cost(machine(3), 1, None, counts)


# -- the baseline -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", EVERY_P)
def test_the_sort_on_few_processors_costs_what_its_cost_says(p: int) -> None:
    keys = keys_of(p)

    def main(bsp: pybsp.BSP, levels: int) -> Any:
        return bitonic_sort_few(bsp, keys[bsp.pid], levels)

    for levels in (1 + p % 3, 6):
        on = machine(p)
        assert assert_ledger_is(bitonic_sort_few.cost(on, 1, levels), main, levels, p=p, machine=on) == sorted(keys)


def test_the_sort_on_few_processors_sends_as_much_and_computes_more() -> None:
    for p in (16, 256, 1000):
        for levels in (2, 4):
            all_of_them, few = (sort.cost(machine(p), 1, levels) for sort in (bitonic_sort, bitonic_sort_few))
            assert few.supersteps == all_of_them.supersteps + 1
            assert max(step.h for step in few) <= 2**levels
            assert max(step.h for step in all_of_them) == 2**levels - 1
            assert max(step.w for step in few) == levels * 2 ** (levels - 1)
            assert max(all_of_them.after, *(step.w for step in all_of_them)) == 2**levels - 1
            assert few.w > all_of_them.w


def test_the_few_processors_are_one_for_each_butterfly() -> None:
    steps = bitonic_sort_few.plan(256, 4)
    assert all(np.unique(step.destinations).size <= 256 // 4 for step in steps[3:-1])
    assert np.unique(steps[-1].sources).size == 256 // 16
