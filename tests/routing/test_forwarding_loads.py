"""What forwarding costs by its formulas: random intermediate processors make every relation a random one."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

import pybsp
from pybsp.benchmarks.studies import forwarding
from pybsp.benchmarks.studies.frame import table
from pybsp.routing import Relation, relations
from pybsp.routing.forwarding import hypercube, two_phase
from pybsp.routing.forwarding.intermediates import _mixed, intermediates
from pybsp.routing.forwarding.load import elapsed

PAGE = Path(__file__).parent.parent.parent / "docs" / "studies" / "routers.md"
SIZES = (1, 2, 3, 5, 8, 13, 16, 64)


def h_of(loads: NDArray[np.int64]) -> list[int]:
    """Of each exchange."""
    found: list[int] = loads[:, :, :2].max(axis=(1, 2)).tolist()
    return found


@pytest.mark.parametrize("p", SIZES)
def test_all_words_arrive_and_nothing_else_does(p: int) -> None:
    relation = relations.random_relation(p, 30, seed=p)
    words = np.random.default_rng(p).integers(9, size=len(relation))
    away = relation.sources != relation.destinations
    net = np.bincount(relation.destinations[away], words[away], p) - np.bincount(relation.sources[away], words[away], p)
    for loads in (two_phase.loads(relation, words), hypercube.loads(relation, words), hypercube.greedy_loads(relation)):
        assert (loads[:, :, 0].sum(axis=1) == loads[:, :, 1].sum(axis=1)).all()
    for loads in (two_phase.loads(relation, words), hypercube.loads(relation, words)):
        assert ((loads[:, :, 1] - loads[:, :, 0]).sum(axis=0) == net).all()


@pytest.mark.parametrize("p", SIZES)
def test_nobody_sends_anything(p: int) -> None:
    nothing = Relation([], [], p)
    itself = Relation(np.arange(p), np.arange(p), p)
    n = p.bit_length() - 1
    for relation in (nothing, itself):
        assert two_phase.loads(relation).shape == (1, p, 4)
        assert hypercube.loads(relation).shape == (max(1, n + 2 * (p > 1 << n)), p, 4)
        assert not two_phase.loads(relation).any()
        assert not hypercube.loads(relation).any()


@pytest.mark.parametrize("make", [relations.transpose, relations.bit_reversal, relations.permutation])
def test_permutations_cost_no_more_than_random_relations(make: Callable[..., Relation]) -> None:
    p, h = 256, 64
    relation = make(p, h)
    greedy = max(h_of(hypercube.greedy_loads(relation)))
    if make is not relations.permutation:
        assert greedy == 8 * h  # of half the sqrt(p) processors whose packets meet
    random = relations.uniform_destinations(p, h)
    for router in (two_phase, hypercube):
        assert max(h_of(router.loads(relation))) <= 1.1 * max(h_of(router.loads(random)))
    assert len(h_of(hypercube.loads(relation))) == 16


@pytest.mark.fast("16")
@pytest.mark.parametrize("p", [4, 16, 64])
def test_with_many_packets_the_cost_is_as_the_module_says(p: int) -> None:
    h, n = 20_000, p.bit_length() - 1
    sources = np.tile(np.arange(p), h)
    relation = Relation(sources, p - 1 - sources, p)  # in which nobody keeps its packets
    machine = pybsp.BSPMachine(p, g=1e-8, l=1e-4, r=1e9)
    stay = 1 - 1 / p
    assert two_phase.cost(machine, relation) == pytest.approx(2 * (machine.g * h * stay + machine.l), rel=0.03)
    assert hypercube.cost(machine, relation) == pytest.approx(n * machine.g * h + 2 * n * machine.l, rel=0.03)


def test_intermediate_processors_are_uniform_and_independent() -> None:
    p, m = 16, 160_000
    sources, numbers = np.repeat(np.arange(16), m // 16), np.tile(np.arange(m // 16), 16)
    via = intermediates(p, 3, 7, sources, numbers)
    assert via.min() == 0
    assert via.max() == p - 1
    for other in (sources, numbers % p, np.roll(via, 1), intermediates(p, 3, 8, sources, numbers)):
        pairs = np.bincount(via * p + other, minlength=p * p)
        expected = m / (p * p)
        chi2 = ((pairs - expected) ** 2 / expected).sum()
        assert 150 < chi2 < 370  # 255 degrees of freedom: 5 standard deviations of 22.6
    assert (intermediates(p, 3, 7, sources[5:9], numbers[5:9]) == via[5:9]).all()


def test_words_that_are_none_are_an_error() -> None:
    relation = relations.permutation(4)
    wrong: list[Any] = [1.5, -1, [1, 2], "x"]
    for words in wrong:
        with pytest.raises(pybsp.UsageError, match="two-phase loads: argument words: expected a whole number"):
            two_phase.loads(relation, words)


@pytest.mark.whole
def test_the_docs_have_the_figures_of_the_study() -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(table("", forwarding.ROWS, (row for p in (13, 16, 1024) for row in forwarding.rows(p, 64, 0))))
    balances = [forwarding.balance(p, packets, 0) for p in (4, 16, 64) for packets in forwarding.PACKETS]
    console.print(table("", forwarding.BALANCE, balances))
    assert isinstance(console.file, io.StringIO)
    lines = [line.strip() for line in console.file.getvalue().splitlines() if line.strip().startswith("|")]
    page = PAGE.read_text().splitlines()
    assert len(lines) > 60
    assert [line for line in lines if line not in page] == []


def test_intermediates_are_mixed_by_splitmix64() -> None:
    """Its first numbers from the seed 0, as its author's program prints them (S. Vigna, splitmix64.c, 2015)."""
    states = np.uint64(0x9E3779B97F4A7C15) * np.arange(3, dtype=np.uint64)
    assert [hex(one) for one in _mixed(states).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_an_exchange_takes_what_its_words_and_its_messages_take_each_of_their_busiest_processor() -> None:
    machine = pybsp.BSPMachine(p=2, g=1.0, l=100.0, r=1.0, o_msg=1000.0, o_item=0.125)
    # Of two processors, words out and in, messages out and in.
    few_words = [[0, 2, 5, 1], [2, 0, 1, 5]]
    many_in = [[3, 9, 1, 3], [9, 3, 3, 1]]
    assert elapsed(machine, np.array([few_words])) == 2 + 5 * 1000 + 100
    assert elapsed(machine, np.array([many_in])) == 9 + 3 * 1000 + 100
    both = elapsed(machine, np.array([few_words, many_in]), seconds=7.0, messages=2, items=8)
    assert both == 7 + 2 + 5 * 1000 + 100 + 9 + 3 * 1000 + 100 + 2 * 1000 + 1
