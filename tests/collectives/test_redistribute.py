"""What redistribution moves is what numpy says, at the cost that it names; and that of known cases."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine, collectives
from pybsp.layouts import Block, BlockCyclic, Cyclic, Layout

from ..costs import assert_ledger_is, machine
from ..tiers import some_of


def layouts(shape: Any, p: int) -> list[Layout]:
    """Some layouts of an array, on p processors or fewer."""
    if not isinstance(shape, tuple):
        sizes = np.diff(np.sort([0, *(k * k % (shape + 1) for k in range(1, p)), shape]))
        return [Block(shape, p), Cyclic(shape, p), BlockCyclic(shape, max(p - 1, 1), 3), Block(shape, p, sizes=sizes)]
    grids = [(q, p // q) for q in range(1, p + 1) if p % q == 0]
    return [*(Block(shape, grid) for grid in grids), *(BlockCyclic(shape, grid, (2, 2)) for grid in grids)]


@pytest.mark.parametrize("p", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("shape", [0, 2, 13, (13, 14)])
@pytest.mark.parametrize("row", [(), (3,)])
def test_the_ledger_is_the_cost(p: int, shape: Any, row: tuple[int, ...]) -> None:
    whole = np.arange(np.prod((*np.atleast_1d(shape), *row)), dtype="f4").reshape(*np.atleast_1d(shape), *row)
    for one, other in some_of(list(itertools.product(layouts(shape, p), repeat=2))):

        def main(bsp: pybsp.BSP, one: Layout = one, other: Layout = other) -> Any:
            return collectives.redistribute(bsp, whole[one.part(bsp.pid)], one, other)

        words = 1.5 if row else 0.5
        cost = collectives.redistribute.cost(machine(p), one, other, words)
        results = assert_ledger_is(cost, main, p=p, machine=machine(p))
        for pid, result in enumerate(results):
            np.testing.assert_array_equal(result, whole[other.part(pid)])


def test_known_cases_cost_what_the_textbook_says() -> None:
    p, n = 8, 64
    on = BSPMachine.nominal(p)
    # From blocks to cyclic, as in a fast Fourier transform: each keeps a p-th of its own.
    (step,) = collectives.redistribute.cost(on, Block(n * p, p), Cyclic(n * p, p))
    assert (step.h_out, step.h_in, step.messages) == (n - n // p, n - n // p, p - 1)
    # A transpose of a matrix in rows.
    rows, columns = Block((n, n), (p, 1)), Block((n, n), (1, p))
    (step,) = collectives.redistribute.cost(on, rows, columns, words=2)
    assert step.h == 2 * (n // p) ** 2 * (p - 1)
    # From rows to rows with other sizes: the last processor gives its own to the one before.
    (step,) = collectives.redistribute.cost(on, Block(n, p), Block(n, p, sizes=[*[8] * 6, 16, 0]))
    assert (step.h_out, step.h_in, step.messages, step.M) == (8, 8, 1, 8)
    assert collectives.redistribute.plan(p, Block(n, p), Cyclic(n, p))[0].sends(0) == [(k, 0, 1) for k in range(1, 8)]
    assert len(collectives.redistribute.plan(p, Cyclic(n, p), BlockCyclic(n, p, 1))) == 0  # it is the same


def test_an_array_may_go_to_fewer_processors_and_back() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        one, other = Block(10, bsp.p), Block(10, 2)
        few = collectives.redistribute(bsp, np.arange(10)[one.part(bsp.pid)], one, other)
        back = collectives.redistribute(bsp, few, other, one)
        return few.tolist(), back.tolist()

    results = pybsp.simulate(main, p=5).results
    assert [few for few, _ in results] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [], [], []]
    assert [back for _, back in results] == [[2 * k, 2 * k + 1] for k in range(5)]


def test_maps_are_kept_for_a_few_layouts_alone() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for n in range(40):
            mine = np.arange(n)[Block(n, bsp.p).part(bsp.pid)]
            for _ in range(2):
                dealt = collectives.redistribute(bsp, mine, Block(n, bsp.p), Cyclic(n, bsp.p))
            assert dealt.tolist() == list(range(bsp.pid, n, bsp.p))
        return len(bsp.prepared["redistribute"])

    assert pybsp.simulate(main, p=2).results == [16, 16]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda m: collectives.redistribute.cost(m, Block(8, 3), Block(8, 2)), "from_layout"),
        (lambda m: collectives.redistribute.cost(m, Block(8, 2), Block(9, 2)), "to_layout"),
        (lambda m: collectives.redistribute.cost(m, Block(8, 2), Block((2, 4), (1, 2))), "to_layout"),
        (lambda m: collectives.redistribute.cost(m, 8, Block(8, 2)), "from_layout"),  # type: ignore[arg-type]
        (lambda m: collectives.redistribute.cost(m, Block(8, 2), Cyclic(8, 2), -1), "words"),
    ],
)
def test_costs_of_what_does_not_fit_are_refused(call: Any, argument: str) -> None:
    with pytest.raises(pybsp.UsageError, match=f"redistribute.cost: argument {argument}: expected"):
        call(BSPMachine.nominal(2))


def test_an_array_in_a_file_is_an_array(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine = np.memmap(tmp_path / f"{bsp.pid}", np.int64, "w+", shape=(2,))
        mine[:] = 2 * bsp.pid, 2 * bsp.pid + 1
        return collectives.redistribute(bsp, mine, Block(4, 2), Cyclic(4, 2)).tolist()

    assert pybsp.simulate(main, p=2).results == [[0, 2], [1, 3]]


def test_what_hides_its_items_or_is_an_array_of_the_machine_is_refused_with_the_way_out() -> None:
    def main(bsp: pybsp.BSP, masked: bool) -> None:
        given: Any = np.ma.masked_array(np.arange(2)) if masked else bsp.array(Block(4, 2))
        collectives.redistribute(bsp, given, Block(4, 2), Cyclic(4, 2))

    for masked, way_out in ((True, r"use .compressed\(\)"), (False, r"; x\.local is")):
        with pytest.raises(pybsp.UsageError, match=way_out):
            pybsp.simulate(main, masked, p=2)
