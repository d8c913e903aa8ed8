"""What DUPLICATE(P) costs, and that it does so on many processors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pybsp
from pybsp import BSPMachine, EBSPMachine, UsageError
from pybsp.collectives.duplicate import duplicate

from ..costs import MACHINES, assert_ledger_is, machine

Lists = list[NDArray[np.int64]]


def distributions(p: int) -> dict[str, Lists]:
    """Copies of few and many items on p processors, from balanced to all on one."""
    random = np.random.default_rng(p)
    none = np.zeros(0, np.int64)
    return {
        "equal": [np.full(2, 3)] * p,
        "one item": [none] * (p // 3) + [np.array([0, 10 * p + 1])] + [none] * (p - p // 3 - 1),
        "one processor": [np.full(p + 1, 2)] + [np.zeros(2, np.int64)] * (p - 1),
        "some processors": [random.integers(0, 12, 9) if pid % 5 == 2 else none for pid in range(p)],
        "skewed": [(random.pareto(0.6, 3) * random.integers(0, 2, 3)).clip(0, 500).astype(np.int64) for _ in range(p)],
        "none": [np.zeros(1, np.int64)] * p,
    }


def run(bsp: pybsp.BSP, copies: Lists, dtype: Any, degree: int | None) -> Any:
    own = copies[bsp.pid]
    first = sum(len(part) for part in copies[: bsp.pid])
    return duplicate(bsp, np.arange(first, first + own.size).astype(dtype), own, degree=degree)


def assert_balanced(results: list[Any], copies: Lists, dtype: Any) -> None:
    """Each has its block of the repeated items."""
    counts = np.concatenate(copies)
    whole = np.repeat(np.arange(counts.size).astype(dtype), counts)
    block = -(-whole.size // len(copies))
    for pid, part in enumerate(results):
        np.testing.assert_array_equal(part, whole[pid * block : (pid + 1) * block])


@pytest.mark.parametrize("p", range(1, 65))
def test_the_ledger_is_as_said(p: int) -> None:
    cases = distributions(p)
    for turn, (name, copies) in list(enumerate(cases.items()))[p % 2 :: 2]:
        which, dtype = (p + turn) % len(MACHINES), (np.float64, np.int16)[turn % 2]
        degree = (None, 2, 3, None, p + 1)[(p + turn) % 5]
        host = machine(p, which)
        cost = duplicate.cost(host, np.dtype(dtype).itemsize / 8, copies, degree=degree)
        results = assert_ledger_is(cost, run, copies, dtype, degree, p=p, machine=host)
        assert_balanced(results, copies, dtype)
        # The number of supersteps is the same for any copies.
        assert len(cost) == len(duplicate.cost(host, 1, cases["equal"], degree=degree)), name


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 7, 16, 37, 64, 200])
def test_the_plan_is_what_is_charged(p: int) -> None:
    for copies in distributions(p).values():
        for degree in (2, 3, p + 1):
            for words in (1, 0.5, 4):
                cost = duplicate.cost(machine(p), words, copies, degree=degree)
                planned = duplicate.plan(p, copies, degree, words).cost(machine(p))
                assert [step[:5] for step in planned] == [step[:5] for step in cost]
                assert planned.after == cost.after


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 7, 16, 37, 64, 200])
def test_without_the_copies_the_cost_is_a_bound(p: int) -> None:
    for copies in distributions(p).values():
        items, total = max(map(len, copies)), sum(int(own.sum()) for own in copies)
        for degree in (None, 2, 3):
            for words in (1, 0.5, 4):
                exact = duplicate.cost(machine(p), words, copies, degree=degree)
                bound = duplicate.cost(machine(p), words, items=items, total=total, degree=degree)
                assert bound.supersteps == exact.supersteps
                assert all(np.all(np.less_equal(one, most)) for one, most in zip(exact, bound, strict=True))
                assert bound.after >= exact.after


@pytest.mark.whole
def test_a_thousand_processors() -> None:
    p, host = 1024, machine(1024)
    copies = distributions(p)["skewed"]
    copies[7] = np.full(40, 1000)
    cost = duplicate.cost(host, 1, copies)
    assert_balanced(assert_ledger_is(cost, run, copies, np.float64, None, p=p, machine=host), copies, np.float64)


@pytest.mark.fast("4", "64")
@pytest.mark.parametrize("p", [4, 16, 64, 1000, 1024])
def test_communication_stays_within_the_theorem(p: int) -> None:
    # O(g*(N + M)/P + L*log P/log d) with d = min(L/g, P); an item and the number of its copies are two words.
    for ratio in (1, 4, 16, 256):
        host = BSPMachine(p=p, g=1.0, l=float(ratio), r=1e30)
        for n in (1, p // 2, p):
            zero = np.zeros(n, np.int64)
            few = np.zeros(n, np.int64)
            few[0] = 10 * p
            for copies in ([zero] * p, [zero + 1] * p, [zero + 2, *[zero] * (p - 1)], [few, *[zero] * (p - 1)]):
                total = sum(int(own.sum()) for own in copies)
                latency = ratio * math.log2(p) / max(1.0, math.log2(min(ratio, p)))
                assert duplicate.cost(host, 1, copies).seconds < 8 * ((n * p + total) / p + latency)


def test_the_degree_falls_with_the_latency() -> None:
    copies = distributions(256)["equal"]
    supersteps = [
        duplicate.cost(BSPMachine(256, 1.0, float(latency), 1e9), 1, copies).supersteps for latency in (1, 16, 4096)
    ]
    assert supersteps == sorted(supersteps, reverse=True)
    assert supersteps[-1] == 1 + 1 + 3


def test_costs_on_another_machine() -> None:
    cost = duplicate.cost(EBSPMachine(16, 1e-6, 1e-7, 1e-3), 1, distributions(16)["one item"])
    assert cost.seconds > 16e-6


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"copies": [[1]] * 3}, "copies"),
        ({"copies": 3}, "copies"),
        ({"copies": [[1], [1], [-1], [1]]}, "copies"),
        ({"copies": [[1], [1], [0.5], [1]]}, "copies"),
        ({}, "copies"),
        ({"items": 3}, "copies"),
        ({"items": -1, "total": 3}, "items"),
        ({"items": 1, "total": -1}, "total"),
        ({"copies": [[1]] * 4, "words": -1}, "words"),
        ({"copies": [[1]] * 4, "words": "1"}, "words"),
        ({"copies": [[1]] * 4, "degree": 1}, "degree"),
    ],
)
def test_wrong_arguments_of_the_cost_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"duplicate.cost.*{named}"):
        duplicate.cost(machine(4), **arguments)
