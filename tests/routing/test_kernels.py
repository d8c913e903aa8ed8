"""The compiled kernels give what their twins in numpy give, bit for bit; and pybsp works without them."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp import compiled
from pybsp.benchmarks.studies import compiled_kernels
from pybsp.errors import UsageError
from pybsp.routing import Relation, decompose, decomposition, relations
from pybsp.routing.networks import Array, Hypercube, Mesh, Network, Torus, simulator
from pybsp.routing.networks.graph import Ints

from ..tiers import some

pytestmark = pytest.mark.skipif(compiled.kernels() is None, reason="the kernels were not built: no compiler")


def both_routes(net: Network, relation: Relation) -> None:
    fast = net.route(relation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator, "kernels", lambda: None)
        slow = net.route(relation)
    assert fast.steps == slow.steps
    for one, other in zip(fast[1:], slow[1:], strict=True):
        assert isinstance(one, np.ndarray)
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


@given(
    sides=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    ring=st.booleans(),
    packets=st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 9999)), max_size=200),
)
@settings(max_examples=some(200), deadline=None)
def test_packets_on_arrays_and_tori(sides: list[int], ring: bool, packets: list[tuple[int, int]]) -> None:
    net: Network = (Torus if ring else Array)(sides)
    sources, destinations = np.array(packets, np.int64).reshape(-1, 2).T % net.p
    both_routes(net, Relation(sources, destinations, net.p))


@pytest.mark.parametrize("p", [1, 2, 64, 256])
def test_packets_on_cubes(p: int) -> None:
    for relation in (relations.random_relation(p, 9, seed=1), relations.hot_spot(p, 5, seed=2), Relation([], [], p)):
        both_routes(Hypercube(p), relation)


def test_a_limit_of_steps_holds_in_kernels() -> None:
    relation = relations.all_to_one(4)
    assert Array((4,)).route(relation, limit=3).steps == 3
    with pytest.raises(RuntimeError, match="1 packets are on their way after 2 steps on array of 4"):
        Array((4,)).route(relation, limit=2)


@pytest.mark.parametrize("queue", ["fifo", "furthest-first"])
def test_what_is_no_limit_or_no_choice_of_phases_is_refused(queue: str) -> None:
    cube, relation = Hypercube(4), relations.all_to_one(4)
    for limit in (-1, 1.5, "3", True):
        with pytest.raises(
            UsageError, match=f"route: limit: expected a whole number from 0 on, or None, got {limit!r}"
        ):
            cube.route(relation, queue, limit=limit)  # type: ignore[arg-type]
    wrong: list[Any] = ["no", [], 1]
    for two_phase in wrong:
        with pytest.raises(UsageError, match="route: two_phase: expected True or False, got "):
            cube.route(relation, queue, two_phase=two_phase)
    numbers: dict[str, Any] = {"limit": np.int64(9), "two_phase": np.bool_(False)}
    assert cube.route(relation, queue, **numbers).steps == 2


def test_a_network_with_a_step_of_its_own_is_not_taken_for_the_one_it_is_made_from() -> None:
    class Waiting(Array):
        def step(self, at: Ints, to: Ints, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Waiting((2, 2)).route(relations.permutation(4, seed=1))
    assert Mesh(16).rule() is None
    assert Hypercube(4, "random").rule() is None


@given(
    p=st.integers(1, 40),
    m=st.integers(0, 3000),
    few=st.integers(1, 40),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=some(150), deadline=None)
def test_decompositions(p: int, m: int, few: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sources, destinations = rng.integers(min(p, few), size=m), rng.integers(p, size=m)
    fast = decompose(sources, destinations, p)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decomposition, "kernels", lambda: None)
        slow = decompose(sources, destinations, p)
    assert fast.dtype == slow.dtype
    assert np.array_equal(fast, slow)


def decomposed(relation: Relation) -> None:
    fast = decompose(relation.sources, relation.destinations, relation.p)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decomposition, "kernels", lambda: None)
        slow = decompose(relation.sources, relation.destinations, relation.p)
    assert np.array_equal(fast, slow)


@pytest.mark.parametrize(("p", "h"), [(1024, 128), pytest.param(700, 96, marks=pytest.mark.whole)])
def test_a_large_decomposition(p: int, h: int) -> None:
    """Large enough for the twin to walk along cycles, the kernel along several tours at a time, and both by halves."""
    decomposed(relations.random_relation(p, h, seed=3))


@pytest.mark.parametrize("shifts", [(0, 1), (0, 1, 5, 40_000)])
def test_tours_that_are_as_long_as_can_be(shifts: tuple[int, ...]) -> None:
    """Of two edges at each processor one tour has all; walks then meet in each way in which they can."""
    p = 40_009
    sources, step = np.tile(np.arange(p), len(shifts)), np.repeat(shifts, p)
    decomposed(Relation(sources, (sources + step) % p, p))


@pytest.mark.whole
@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler for the programs in C")
def test_programs_in_c_find_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    compiled_kernels.main(["--quick", "--rounds", "1"])  # which fails where they do not
    assert "numpy/kernel" in capsys.readouterr().out
