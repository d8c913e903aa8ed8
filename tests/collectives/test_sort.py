"""sort: its cost is what the ledger counts, and it chooses what costs least."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine, Cost
from pybsp.collectives import allreduce, bitonic_sort, sort
from pybsp.collectives.bitonic_sort import local_work
from pybsp.collectives.counted.bitonic_sort import equal, last_work, network
from pybsp.collectives.plan import to_all

from ..costs import assert_ledger_is, charged, machine
from ..tiers import some_of

sorting = import_module("pybsp.collectives.sort")  # the package has the function by that name
short = sorting.short

PS = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 24)


def moved(blocks: list[Any], parts: list[Any]) -> Any:
    """Keys, all of them different, that go from processor i to j."""
    return np.array([[np.isin(block, part).sum() for part in parts] for block in blocks])


def test_one_number_a_processor_is_shown_to_all_nowhere_but_where_that_costs_least() -> None:
    near = BSPMachine(4, g=1e-9, l=3e-9, r=1e9)  # numbers of two words would go to all there
    assert len(sort.cost(near, words=1)) == 2
    assert len(sort.cost(near, words=2)) == 1
    there = SimpleNamespace(machine=near, p=4, prepared={})
    assert all(sorting._small(there, key) is sorting.NOT_SMALL for key in (1.0, 1))


def test_one_number_a_processor_that_costs_least_to_show_is_shown_and_no_array_is_taken_for_one() -> None:
    others: dict[type, list[Any]] = {float: [0.5, 4.5, 2.5], int: [7, -3, 2]}
    prepared = {("sort", kind): (lambda key, found=found: [*found], 6) for kind, found in others.items()}
    worked: list[int] = []
    there: Any = SimpleNamespace(p=4, pid=1, shown=None, prepared=prepared, work=worked.append)
    assert sorting._small(there, 3.5) == 2.5
    assert sorting._small(there, 5) == 2
    assert worked == [6, 6]
    assert sorting._small(there, np.arange(2.0)) is sorting.NOT_SMALL
    assert sorting._small(there, 1 << 63) is sorting.NOT_SMALL  # which has no room in a word


@pytest.mark.parametrize("which", range(3))
def test_one_key_a_processor_costs_what_cost_says(which: int) -> None:
    for p in some_of(PS):
        on = machine(p, which)
        keys = [(7 * pid + 3) % (2 * p // 3 + 1) for pid in range(p)]

        def main(bsp: pybsp.BSP, algorithm: str | None, keys: list[int]) -> Any:
            return sort(bsp, keys[bsp.pid], algorithm=algorithm)

        for algorithm in (None, "allgather", "bitonic"):
            cost = sort.cost(on, algorithm=algorithm)
            assert assert_ledger_is(cost, main, algorithm, keys, p=p, machine=on) == sorted(keys)


@pytest.mark.parametrize("which", range(3))
def test_blocks_cost_what_cost_says(which: int) -> None:
    for p in some_of(PS)[which % 2 :: 2]:
        on = machine(p, which)
        random = np.random.default_rng(p)
        for counts in (
            np.full(p, 3),
            random.integers(0, 7, p),
            np.where(np.arange(p) == p // 2, 5, 0),
            np.zeros(p, int),
        ):
            keys = random.permutation(int(counts.sum())).astype("i4")
            blocks = np.split(keys, np.cumsum(counts)[:-1])

            def main(bsp: pybsp.BSP, algorithm: str | None, blocks: list[Any], stable: bool) -> Any:
                block = blocks[bsp.pid]
                return sort(bsp, block, values=np.stack([block, block], 1), stable=stable, algorithm=algorithm)[0]

            ways = [("allgather", False), ("bitonic", True), ("bitonic", False), (None, False)]
            for algorithm, stable in ways[: 4 if p < 5 else 3]:  # of more None may be "sample", whose cost is a bound
                cost = sort.cost(on, 0.5, counts, algorithm, 1, stable)
                parts = assert_ledger_is(cost, main, algorithm, blocks, stable, p=p, machine=on)
                assert [len(part) for part in parts] == counts.tolist()
                assert np.concatenate(parts).tolist() == sorted(keys.tolist())


@pytest.mark.parametrize("which", range(3))
def test_sample_sort_costs_what_cost_says_and_no_more_than_its_bound(which: int) -> None:
    for p in some_of(PS)[which % 2 :: 2]:
        on = machine(p, which)
        random = np.random.default_rng(p)
        for counts in (np.full(p, 31), random.integers(0, 60, p)):
            keys = random.permutation(int(counts.sum())).astype("i4")
            blocks = np.split(keys, np.cumsum(counts)[:-1])
            sampled = pybsp.simulate(lambda bsp, b: pybsp.collectives.sample_sort(bsp, b[bsp.pid]), blocks, p=p).results

            def main(bsp: pybsp.BSP, blocks: list[Any]) -> Any:
                return sort(bsp, blocks[bsp.pid], algorithm="sample")

            exact = sort.cost(on, 0.5, counts, "sample", moved=moved(blocks, sampled))
            parts = assert_ledger_is(exact, main, blocks, p=p, machine=on)
            assert [len(part) for part in parts] == counts.tolist()
            assert np.concatenate(parts).tolist() == sorted(keys.tolist())
            bound = sort.cost(on, 0.5, counts, "sample")
            assert bound.supersteps == exact.supersteps
            pairs = zip(charged(bound), charged(exact), strict=True)
            assert all(more >= less for row, other in pairs for more, less in zip(row, other, strict=True))


def test_what_is_chosen_is_what_costs_least() -> None:
    for p in (1, 2, 3, 5, 8, 16):
        for which in range(3):
            on = machine(p, which)
            learning = [pybsp.Superstep(p - 1, p - 1, p - 1, p * (p - 1), 0.0, p - 1)]  # a word from each to each
            for n in (1, 4, 1000):
                costs = {how: sort.cost(on, 1, n, how).seconds for how in ("allgather", "bitonic", "sample")}
                costs["bitonic"] -= allreduce.cost(on, 2).seconds
                widths = sorting.Widths(8, None, 0)
                bound, costs["sample"] = costs["sample"], sorting.typical(on, n, widths).seconds
                found, longest = sort.cost(on, 1, n).seconds, short(on, 8)
                if n <= longest:
                    assert found == costs["allgather"] <= allreduce.cost(on, 2).seconds + min(costs.values())
                else:
                    agreeing = allreduce.cost(on, 2) if longest < 0 else Cost(on, learning)
                    chosen = sorting.choose(on, n, widths, False, True).algorithm
                    assert costs[chosen] == pytest.approx(min(costs.values()), rel=1e-9)
                    costs["sample"] = bound
                    assert found - agreeing.seconds == pytest.approx(costs[chosen], rel=1e-9)

                def main(bsp: pybsp.BSP, n: int) -> None:
                    sort(bsp, np.arange(n) * bsp.p + bsp.p - bsp.pid)

                if n < 1000 and (n <= longest or chosen != "sample"):
                    assert_ledger_is(sort.cost(on, 1, n), main, n, p=p, machine=on)
            alone = min(sort.cost(on, algorithm=how).seconds for how in ("allgather", "bitonic"))
            assert sort.cost(on).seconds == alone
            for first in range((p - 1).bit_length() + 1):
                for levels in range(1, 5):
                    one = Cost(on, equal(p, levels, 1, 8, first), last_work(p, levels, 1, first))
                    assert alone <= one.seconds * (1 + 1e-12)


@pytest.mark.parametrize(("p", "n"), [(3, 3000), (4, 2000)])
def test_keys_in_random_order_are_sorted_by_what_costs_least_for_them(p: int, n: int) -> None:
    on = BSPMachine(p=p, g=1e-7, l=1e-5, r=1e9)

    def main(bsp: pybsp.BSP, algorithm: str | None = None) -> None:
        sort(bsp, np.random.default_rng(bsp.pid).random(n), algorithm=algorithm)
        bsp.sync()  # its record has the work after the last of its own supersteps

    cheapest = min(pybsp.simulate(main, how, p=p, machine=on).time for how in ("allgather", "bitonic", "sample"))
    assert pybsp.simulate(main, p=p, machine=on).time <= 1.2 * cheapest


@pytest.mark.parametrize("p", [2, 3, 5, 8])
@pytest.mark.parametrize(("g", "r"), [(1e-3, 1e9), (1e-6, 1e2), (1e-6, 1e9)])
def test_what_goes_in_vain_costs_no_more_than_a_superstep(p: int, g: float, r: float) -> None:
    """And what all merge is no more than what any other way takes: a block sent to one, when sizes are known."""
    on = BSPMachine(p, g, 1.0, r, 1e-3)

    def fits(n: int) -> bool:
        of_words, of_sizes = (Cost(on, [to_all(np.full(p, words))]).seconds for words in (n, 1))
        to_one = Cost(on, [pybsp.Superstep(n, n, 1, p * n)]).seconds
        by_others = allreduce.cost(on, 2).seconds + to_one + local_work(n) / r
        return of_words <= 2 * of_sizes and sort.cost(on, 1, n, "allgather").seconds <= by_others * (1 + 1e-12)

    longest = short(on, 8)
    assert fits(longest)
    assert not fits(longest + 1)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_short_blocks_are_sorted_in_the_superstep_in_which_sizes_are_learned(p: int) -> None:
    on = machine(p, 2)
    longest = short(on, 8)
    assert 100 < longest < 2000

    def main(bsp: pybsp.BSP, counts: list[int]) -> Any:
        return sort(bsp, np.arange(float(counts[bsp.pid])) * -bsp.p - bsp.pid)

    for counts in ([longest] * p, [longest, *[0] * (p - 1)], [longest + 1] * p, [longest + 1, *[longest] * (p - 1)]):
        cost = sort.cost(on, 1, counts)
        parts = assert_ledger_is(cost, main, counts, p=p, machine=on)
        assert [len(part) for part in parts] == counts
        keys = np.concatenate([np.arange(float(n)) * -p - pid for pid, n in enumerate(counts)])
        assert np.concatenate(parts).tolist() == sorted(keys.tolist())
        assert (cost.supersteps == 1) == (max(counts) == longest)


def test_melted_first_stages_cost_up_to_six_times_less_than_bitonic_sort() -> None:
    ratios = [
        bitonic_sort.cost(on).seconds / sort.cost(on).seconds
        for p in (4, 16, 64, 256, 1024)
        for on in (BSPMachine(p, g, 1.0, 1e6, o_msg) for g in (1e-3, 1e-1, 1.0) for o_msg in (0.0, 1e-2))
    ]
    assert min(ratios) >= 1
    assert max(ratios) > 6


def test_the_closed_form_is_what_the_plan_and_the_network_count() -> None:
    for p in some_of(PS):
        for first in range((p - 1).bit_length() + 1):
            for levels in (1, 2, 3):
                steps = equal(p, levels, 5, 12, first)
                by_network = network(p, levels, np.full(p, 5), 12, first)
                assert list(steps) == by_network
                planned = sort.plan(p, "bitonic", first, levels).counted(7.5)
                assert [step[:4] for step in planned] == [step[:4] for step in steps]
        assert sort.plan(p, "allgather").counted(3) == tuple(
            step._replace(w=0.0, locality=p - 1) for step in sort.cost(machine(p), 3, algorithm="allgather")
        )


def test_the_plan_of_sampling_is_what_its_cost_counts() -> None:
    for p in (1, 2, 5, 8):
        which = np.random.default_rng(p).integers(0, 9, (p, p))
        on = BSPMachine(p, 1.0, 1.0, 1e3)
        planned = sort.plan(p, "sample", moved=which, degree=p + 1).counted()
        cost = sort.cost(on, 1, which.sum(1), "sample", moved=which)
        assert [step[:4] for step in planned][:2] == [step[:4] for step in cost][:2]
        assert [step[:4] for step in planned][-1:] == [step[:4] for step in cost][-1:]


def test_what_cannot_be_is_refused() -> None:
    on = machine(3)
    for call in (
        lambda: sort.cost(on, algorithm="quick"),
        lambda: sort.plan(3, "quick"),
        lambda: sort.cost(on, counts=[1, 2]),
        lambda: sort.cost(on, counts=-1),
        lambda: sort.plan(3, first=3),
        lambda: sort.plan(3, levels=0),
    ):
        with pytest.raises(pybsp.UsageError, match=r"sort\.(cost|plan): argument (algorithm|counts|first|levels): "):
            call()
