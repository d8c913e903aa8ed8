"""scatter, gather, allgather and total_exchange cost what they say, for any p."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine, Superstep
from pybsp.collectives.allgather import allgather
from pybsp.collectives.gather import gather
from pybsp.collectives.scatter import scatter
from pybsp.collectives.total_exchange import total_exchange

from ..costs import assert_ledger_is, machine

P = range(1, 65)


def bytes_for(p: int) -> list[int]:
    """Sizes of values in bytes, 0 and parts of words among them."""
    return [5 * pid % 23 for pid in range(p)]


def words(sizes: Any) -> Any:
    return -(-np.asarray(sizes) // 8)


@pytest.mark.whole
@pytest.mark.parametrize("p", P)
def test_what_scatter_and_gather_cost(p: int) -> None:
    root, sizes = p * 2 // 3, bytes_for(p)

    def scattered(bsp: pybsp.BSP) -> int:
        values = [np.zeros(size, np.uint8) for size in sizes]
        return int(scatter(bsp, values if bsp.pid == root else None, root).size)

    def gathered(bsp: pybsp.BSP) -> Any:
        values = gather(bsp, np.zeros(sizes[bsp.pid], np.uint8), root)
        return values and [value.size for value in values]

    m = machine(p, p % 3)
    assert assert_ledger_is(scatter.cost(m, words(sizes), root), scattered, p=p, machine=m) == sizes
    results = assert_ledger_is(gather.cost(m, words(sizes), root), gathered, p=p, machine=m)
    assert results == [sizes if pid == root else None for pid in range(p)]


@pytest.mark.whole
@pytest.mark.parametrize("p", P)
def test_what_allgather_and_total_exchange_cost(p: int) -> None:
    sizes = bytes_for(p)
    table = (np.add.outer(5 * np.arange(p), 3 * np.arange(p)) % 29).tolist()

    def gathered(bsp: pybsp.BSP) -> list[int]:
        return [value.size for value in allgather(bsp, np.zeros(sizes[bsp.pid], np.uint8))]

    def exchanged(bsp: pybsp.BSP) -> list[int]:
        return [value.size for value in total_exchange(bsp, [np.zeros(n, np.uint8) for n in table[bsp.pid]])]

    m = machine(p, p % 3)
    assert assert_ledger_is(allgather.cost(m, words(sizes)), gathered, p=p, machine=m) == [sizes] * p
    assert (
        assert_ledger_is(total_exchange.cost(m, words(table)), exchanged, p=p, machine=m)
        == np.transpose(table).tolist()
    )


@pytest.mark.parametrize("p", [1, 2, 7, 64])
def test_a_number_is_a_word_and_one_number_of_words_is_that_of_all_values(p: int) -> None:
    m = machine(p)
    assert_ledger_is(scatter.cost(m), lambda bsp: scatter(bsp, range(p)), p=p, machine=m)
    assert_ledger_is(gather.cost(m, 1), lambda bsp: gather(bsp, 1.5), p=p, machine=m)
    assert_ledger_is(allgather.cost(m, 1), lambda bsp: allgather(bsp, True), p=p, machine=m)
    assert_ledger_is(total_exchange.cost(m, 3), lambda bsp: total_exchange(bsp, np.zeros((p, 3))), p=p, machine=m)


def test_costs_in_closed_form() -> None:
    m = BSPMachine(p=8, g=1.0, l=10.0, r=1.0)
    (step,) = scatter.cost(m, 5, root=3)
    assert step == Superstep(35, 5, 7, 35, 0, 4)
    (step,) = gather.cost(m, 5, root=3)
    assert step == Superstep(5, 35, 7, 35, 0, 4)
    (step,) = allgather.cost(m, 5)
    assert step == Superstep(35, 35, 7, 280, 0, 7)
    assert total_exchange.cost(m, 5).seconds == 35 + 10
    assert scatter.cost(BSPMachine(p=1, g=1.0, l=10.0, r=1.0), 5).supersteps == 0


def test_plans_say_who_sends_what_to_whom() -> None:
    assert scatter.plan(3, 1)[0].messages() == [(1, 0, range(1)), (1, 2, range(2, 3))]
    assert gather.plan(3, 1)[0].messages() == [(0, 1, range(1)), (2, 1, range(2, 3))]
    assert allgather.plan(2)[0].messages() == [(0, 1, range(1)), (1, 0, range(1, 2))]
    assert total_exchange.plan(2)[0].messages() == [(0, 1, range(1, 2)), (1, 0, range(1))]
    assert [len(call.plan(1)) for call in (scatter, gather, allgather, total_exchange)] == [0] * 4


@pytest.mark.fast
@pytest.mark.parametrize("words", [-1, 1.5, [1, 2], [[1] * 4] * 3, "1", None, [1, 1, 1, -1], True])
def test_words_that_are_none_are_refused(words: Any) -> None:
    for call in (scatter, gather, allgather, total_exchange):
        with pytest.raises(pybsp.UsageError, match=rf"{call.__name__}\.cost: argument words: expected"):
            call.cost(machine(4), words)


@pytest.mark.whole
def test_many_processors() -> None:
    m = machine(1024)
    cost = scatter.cost(m, 2) + gather.cost(m, 2)

    def main(bsp: pybsp.BSP) -> Any:
        return gather(bsp, scatter(bsp, np.arange(2048).reshape(1024, 2)))

    results = assert_ledger_is(cost, main, p=1024, machine=m)
    assert np.array_equal(results[0], np.arange(2048).reshape(1024, 2))
