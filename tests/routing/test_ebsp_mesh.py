"""The mesh: ways, indexings, and Lemma 4 and Theorem 5 of *The E-BSP model* with constants."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp import EBSPMachine
from pybsp.benchmarks.studies.ebsp_networks import SHAPES, corner, placed, samples, shift
from pybsp.errors import RoutingError, UsageError
from pybsp.routing.networks.indexing import INDEXINGS
from pybsp.routing.networks.mesh import ORDERS, Mesh
from pybsp.routing.relation import Relation
from pybsp.routing.relations import local, random_relation

from ..tiers import some

# A packet that goes from corner to corner takes 2*(side - 1) steps. On larger meshes many packets from each processor
# to the one 2 * 4^j further on take up to 3/sqrt(2) = 2.12 times h*sqrt(L).
CONSTANT = 2.0


def theorem_5(relation: Relation) -> float:
    """Its expression with constants 1, as the machine has it."""
    return EBSPMachine.mesh(relation.p).time(relation.M, relation.k1, relation.k2, relation.locality)


@pytest.mark.parametrize("name", INDEXINGS)
@pytest.mark.parametrize("order", ORDERS)
def test_every_packet_finds_its_end_and_knows_how_far_it_is(name: str, order: str) -> None:
    p = 81 if name == "true peano" else 64
    net = Mesh(p, name, order)
    rng = np.random.default_rng(0)
    # The first processors send to all, so that spreading has something to spread.
    at, to = net.places[np.repeat(np.arange(9), p)], net.places[np.tile(np.arange(p), 9)]
    state = net.begin(at, to, rng)
    assert order != "spread" or (state != at // net.side).any()
    left = np.where(at == to, 0, net.distance(at, to, state))
    assert left.max() <= net.diameter
    for _ in range(int(left.max())):
        on = np.flatnonzero(at != to)
        link, state[on] = net.step(at[on], to[on], state[on], rng)
        np.testing.assert_array_equal(net.tails[link], at[on])
        at[on] = net.heads[link]
        left[on] -= 1
        np.testing.assert_array_equal(left[on], np.where(at == to, 0, net.distance(at, to, state))[on])
    np.testing.assert_array_equal(at, to)


@pytest.mark.parametrize("p", [1, 4, 64])
def test_figures_are_those_of_a_square(p: int) -> None:
    side = math.isqrt(p)
    net = Mesh(p, "peano")
    assert (net.p, net.diameter, net.bisection) == (p, 2 * (side - 1), side if p > 1 else 0)
    assert net.degree == min(4, 2 * (side - 1))
    np.testing.assert_array_equal(np.sort(net.places), np.arange(p))


def test_all_orders_deliver_the_same_and_nothing_takes_nothing() -> None:
    nothing = np.empty(0, np.int64)
    for order in ORDERS:
        net = Mesh(16, order=order)
        assert net.route(Relation(nothing, nothing, 16)).steps == 0
        assert net.route(Relation(np.arange(16), np.arange(16), 16)).steps == 0
        assert Mesh(1, order=order).route(Relation([0, 0], [0, 0], 1)).steps == 0
        # One packet takes as many steps as its ends are apart.
        for end in range(16):
            hops = int(np.abs(net.coordinates[net.places[3]] - net.coordinates[net.places[end]]).sum())
            assert net.route(Relation([3], [end], 16)).steps == hops


@pytest.mark.parametrize("p", [64, 256])
@pytest.mark.parametrize("sides", [(1, 1), (4, 4), (1, 4), (4, 1), (2, 16), (16, 1), (1, 64), (64, 1)])
def test_lemma_4_spreading_takes_at_most_twice_the_root_of_k1_k2_p(p: int, sides: tuple[int, int]) -> None:
    k1, k2 = sides
    rng = np.random.default_rng(p + k1)
    M = min(k1, k2) * p
    net = Mesh(p, "row-major", "spread")
    for sending, receiving in product(SHAPES, repeat=2):
        ends = np.repeat(placed(rng, net.side, receiving, M // k2), k2)
        relation = Relation(np.repeat(placed(rng, net.side, sending, M // k1), k1), rng.permutation(ends), p)
        assert (relation.k1, relation.k2, relation.M) == (k1, k2, M)
        assert net.route(relation, queue="furthest-first").steps <= CONSTANT * math.sqrt(k1 * k2 * p)


@pytest.mark.parametrize(("sending", "receiving"), [("row", "scattered"), ("scattered", "column")])
def test_without_spreading_the_constant_grows(sending: str, receiving: str) -> None:
    """sqrt(P) processors in a row, sqrt(P) packets each: greedy routing takes Theta(P), spreading P^(3/4)."""
    ratios: dict[str, list[float]] = {order: [] for order in ORDERS}
    for p in (64, 1024):
        rng = np.random.default_rng(p)
        side = math.isqrt(p)
        k1, k2 = (side, 1) if sending == "row" else (1, side)
        sources = np.repeat(placed(rng, side, sending, p // k1), k1)
        relation = Relation(sources, rng.permutation(np.repeat(placed(rng, side, receiving, p // k2), k2)), p)
        for order in ORDERS:
            steps = Mesh(p, "row-major", order).route(relation, queue="furthest-first").steps
            ratios[order].append(steps / math.sqrt(k1 * k2 * p))
    # Both stay in the row that they begin in, or end in the column that they have to go along.
    assert ratios["rows first"][1] > 1.5 * ratios["rows first"][0]
    assert ratios["spread"][1] < 1.2 * ratios["spread"][0]


@pytest.mark.whole
@pytest.mark.parametrize("name", ["peano", "snake"])
def test_theorem_5_holds_with_constant_2_for_sampled_relations(name: str) -> None:
    net = Mesh(256, name, "spread")
    for relation in samples(np.random.default_rng(2), 256, 80):
        if relation.locality:
            steps = net.route(relation, queue="furthest-first").steps
            assert steps <= CONSTANT * theorem_5(relation)


@pytest.mark.whole
@pytest.mark.parametrize("h", [4, 32])
def test_theorem_5_is_for_the_peano_scheme_and_under_snake_locality_is_no_help(h: int) -> None:
    p, far = 1024, 16
    relation = shift(p, far, h)
    steps = {name: Mesh(p, name, "spread").route(relation, queue="furthest-first").steps for name in ("peano", "snake")}
    assert steps["peano"] <= CONSTANT * theorem_5(relation)
    # Along a row, those of 16 processors go over one link.
    assert steps["snake"] >= far * h > 2 * steps["peano"]


@settings(max_examples=some(60), deadline=None)
@given(st.integers(1, 12), st.integers(1, 63), st.integers(0, 99), st.sampled_from(["peano", "snake", "row-major"]))
def test_balanced_and_local_relations_are_not_spread(h: int, far: int, seed: int, name: str) -> None:
    """Rows first takes k1 times the furthest along a row, and k2 times the furthest along a column, at most."""
    relation = local(64, h, far, seed)
    net = Mesh(64, name, "spread")
    traffic = net.route(relation, queue="furthest-first")
    rows_first = Mesh(64, name).route(relation, queue="furthest-first")
    np.testing.assert_array_equal(traffic.delivered, rows_first.delivered)
    hops = np.abs(net.coordinates[net.places[relation.sources]] - net.coordinates[net.places[relation.destinations]])
    assert traffic.steps <= h * int(hops.max(axis=0).sum())


@pytest.mark.parametrize("p", [16, 256])
def test_the_y_pram_charges_too_little_for_a_corner_that_sends_to_all_outside(p: int) -> None:
    found = corner(p)
    for steps in found.steps.values():
        assert found.bound <= steps <= CONSTANT * found.theorem_5


def test_two_phases_and_single_ports_deliver_too() -> None:
    relation = random_relation(64, 3, 1)
    for order, ports, two_phase in product(ORDERS, ("multi", "single"), (False, True)):
        traffic = Mesh(64, "snake", order).route(relation, ports=ports, two_phase=two_phase, limit=2000)
        assert traffic.steps > 0


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "error_text"),
    [
        ((12, "snake"), "mesh under snake indexing: p must be a square, got 12; 9 and 16 would fit"),
        ((9,), "mesh under peano indexing: p must be a power of 4, got 9; 4 and 16 would fit"),
        ((16, "hilbert"), "mesh: indexing: expected one of row-major, snake, peano, true peano, got 'hilbert'"),
        ((16, "snake", np.arange(2)), "mesh: order: expected one of rows first, columns first, spread, got array"),
        (
            (16, np.arange(2), "spread"),
            "mesh: indexing: expected one of .*, true peano, got array",
        ),
        ((16, "snake", "spiral"), "mesh: order: expected one of rows first, columns first, spread, got 'spiral'"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[Any, ...], error_text: str) -> None:
    with pytest.raises(UsageError if "expected one of" in error_text else RoutingError, match=error_text):
        Mesh(*arguments)
