"""What each generator of relations promises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp.errors import RoutingError, UsageError
from pybsp.routing import Relation, relations
from pybsp.routing.networks import LinearArray

from ..tiers import some

pytestmark = pytest.mark.fast  # all of their many cases, which take a millisecond each
SIZES = [1, 2, 3, 5, 8, 13, 16, 31]
SEEDED: dict[str, Callable[..., Relation]] = {
    "random_relation": lambda seed: relations.random_relation(50, 4, seed),
    "uniform_destinations": lambda seed: relations.uniform_destinations(50, 4, seed),
    "permutation": lambda seed: relations.permutation(50, 2, seed),
    "hot_spot": lambda seed: relations.hot_spot(50, 4, seed=seed),
    "unbalanced": lambda seed: relations.unbalanced(50, 200, 20, 10, seed),
    "local": lambda seed: relations.local(50, 4, 6, seed),
}


def pairs(relation: Relation) -> list[tuple[int, int]]:
    return list(zip(relation.sources.tolist(), relation.destinations.tolist(), strict=True))


# -- full relations


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("h", [0, 1, 7])
def test_full_relations_have_exactly_h_from_and_to_every_processor(p: int, h: int) -> None:
    every = [relations.random_relation(p, h), relations.permutation(p, h), relations.local(p, h, 2)]
    if p & (p - 1) == 0:
        every.append(relations.bit_reversal(p, h))
    if math.isqrt(p) ** 2 == p:
        every.append(relations.transpose(p, h))
    for relation in every:
        assert relation.p == p
        assert relation.full
        assert relation.h == h


def test_every_pair_is_as_likely_as_any_other_in_a_random_relation() -> None:
    p, h = 8, 100_000
    counts = relations.random_relation(p, h).matrix()
    assert (counts - h / p).std() / math.sqrt(h / p) == pytest.approx(1, abs=0.3)  # binomial; 64 cells


def test_a_permutation_is_one_repeated() -> None:
    relation = relations.permutation(100, 3, seed=1)
    rounds = relation.destinations.reshape(3, 100)
    assert (rounds == rounds[0]).all()
    assert sorted(rounds[0].tolist()) == list(range(100))


def test_bit_reversal_reverses_the_bits() -> None:
    assert pairs(relations.bit_reversal(8)) == [(0, 0), (1, 4), (2, 2), (3, 6), (4, 1), (5, 5), (6, 3), (7, 7)]
    for n in (0, 1, 5):
        for source, destination in pairs(relations.bit_reversal(1 << n)):
            assert f"{destination:0{n}b}" == f"{source:0{n}b}"[::-1] or n == 0


def test_transpose_changes_rows_and_columns() -> None:
    for k in (1, 2, 3, 8):
        matrix = np.arange(k * k).reshape(k, k)
        assert relations.transpose(k * k).destinations.tolist() == matrix.T.ravel().tolist()
    for source, destination in pairs(relations.transpose(64)):  # 3 bits and 3 bits
        assert destination == (source & 7) << 3 | source >> 3


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("locality", [0, 1, 3, 10, 100])
def test_local_relations_stay_within_their_locality(p: int, locality: int) -> None:
    relation = relations.local(p, 50, locality)
    assert relation.full
    assert relation.locality <= min(locality, p - 1)
    if 4 * locality < p:
        assert relation.locality == locality  # in 50 rounds some packet goes as far as it may


# -- others


@pytest.mark.parametrize("p", SIZES)
def test_uniform_destinations_and_hot_spots_have_h_from_every_processor(p: int) -> None:
    for relation in (relations.uniform_destinations(p, 6), relations.hot_spot(p, 6)):
        assert relation.sent.tolist() == [6] * p
    assert relations.uniform_destinations(p, 0).M == relations.hot_spot(p, 0).M == 0


def test_destinations_are_uniform() -> None:
    p, h = 100, 1000
    received = relations.uniform_destinations(p, h).received
    assert (received - h).std() / math.sqrt(h) == pytest.approx(1, abs=0.3)
    assert received.min() < h < received.max()


@pytest.mark.parametrize("share", [0, 0.25, 1])
def test_a_hot_spot_gets_its_share(share: float) -> None:
    p, h, spot = 100, 1000, 17
    received = relations.hot_spot(p, h, share, spot).received
    expected = p * h * (share + (1 - share) / p)
    assert received[spot] == pytest.approx(expected, rel=0.1)
    assert np.delete(received, spot).max() < 1.2 * h


def test_one_to_all_and_all_to_one() -> None:
    assert pairs(relations.one_to_all(4, root=1)) == [(1, 0), (1, 2), (1, 3)]
    assert pairs(relations.all_to_one(4, root=3)) == [(0, 3), (1, 3), (2, 3)]
    assert pairs(relations.one_to_all(3, 2)) == [(0, 1), (0, 2)] * 2
    for make in (relations.one_to_all, relations.all_to_one):
        assert make(1, 5).M == make(5, 0).M == 0


@given(st.data())
@settings(max_examples=some(200), deadline=None)
def test_unbalanced_relations_have_exactly_these_figures(data: st.DataObject) -> None:
    p = data.draw(st.integers(1, 12), "p")
    k1 = data.draw(st.integers(0, 20), "k1")
    k2 = data.draw(st.integers(-(-k1 // p), k1 * p), "k2")  # else there is no such relation
    M = data.draw(st.integers(max(k1, k2), p * min(k1, k2)), "M")
    relation = relations.unbalanced(p, M, k1, k2, data.draw(st.integers(0, 99), "seed"))
    assert (relation.p, relation.M, relation.k1, relation.k2) == (p, M, k1, k2)


def test_any_processor_may_be_the_busiest_of_an_unbalanced_relation() -> None:
    busiest = {int(relations.unbalanced(5, 8, 6, 2, seed).sent.argmax()) for seed in range(60)}
    assert busiest == set(range(5))


# -- seeds


@pytest.mark.parametrize("name", SEEDED)
def test_the_same_seed_the_same_relation(name: str) -> None:
    make = SEEDED[name]
    assert pairs(make(3)) == pairs(make(3)) == pairs(make(np.random.default_rng(3)))
    assert pairs(make(3)) != pairs(make(4))
    rng = np.random.default_rng(3)
    assert pairs(make(rng)) != pairs(make(rng))


# -- what is refused


@pytest.mark.parametrize(
    ("call", "error_text"),
    [
        (lambda: relations.random_relation(0, 1), "random_relation: p: expected a whole number of at least 1, got 0"),
        (lambda: relations.random_relation(4, -1), "random_relation: h: expected a whole number of at least 0, got -1"),
        (lambda: relations.permutation(4, 1.5), "permutation: h: expected a whole number"),  # type: ignore[arg-type]
        (lambda: relations.uniform_destinations(True, 1), "uniform_destinations: p: expected a whole number"),
        (lambda: relations.hot_spot(4, 1, 1.5), "hot_spot: share: expected a number from 0 to 1, got 1.5"),
        (lambda: relations.hot_spot(4, 1, "all"), "hot_spot: share: expected a number from 0 to 1, got 'all'"),  # type: ignore[arg-type]
        (lambda: relations.hot_spot(4, 1, share=True), "hot_spot: share: expected a number from 0 to 1, got True"),
        (lambda: relations.hot_spot(4, 1, np.complex64(1)), "hot_spot: share: expected a number from"),  # type: ignore[arg-type]
        (lambda: relations.hot_spot(4, 1, 0.5, 4), "hot_spot: spot: expected a whole number from 0 to 3, got 4"),
        (lambda: relations.one_to_all(4, 1, -1), "one_to_all: root: expected a whole number from 0 to 3, got -1"),
        (lambda: relations.all_to_one(4, 1, 4), "all_to_one: root: expected a whole number from 0 to 3, got 4"),
        (lambda: relations.unbalanced(4, 13, 3, 5), "unbalanced: M: expected a whole number from 5 to 12, got 13"),
        (lambda: relations.unbalanced(4, 4, 3, 5), "unbalanced: M: expected a whole number from 5 to 12, got 4"),
        (lambda: relations.unbalanced(4, 4, -1, 5), "unbalanced: k1: expected a whole number of at least 0, got -1"),
        (lambda: relations.unbalanced(2, 4, 1, 3), "no relation"),
        (lambda: relations.local(4, 1, -1), "local: locality: expected a whole number of at least 0, got -1"),
        (lambda: relations.bit_reversal(4, -1), "bit_reversal: h: expected a whole number of at least 0, got -1"),
    ],
)
def test_arguments_out_of_range_are_refused(call: Callable[[], object], error_text: str) -> None:
    with pytest.raises(UsageError, match=error_text):
        call()


@pytest.mark.parametrize(
    ("call", "error_text"),
    [
        (lambda: relations.bit_reversal(12), "bit_reversal: p must be a power of two, got 12; 8 and 16 would fit"),
        (lambda: relations.bit_reversal(0), "bit_reversal: p must be a power of two, got 0; 1 would fit"),
        (lambda: relations.transpose(8), "transpose: p must be a square, got 8; 4 and 9 would fit"),
        (lambda: relations.transpose(0), "transpose: p must be a square, got 0; 1 would fit"),
    ],
)
def test_p_that_does_not_fit_is_refused_with_what_would(call: Callable[[], object], error_text: str) -> None:
    with pytest.raises(RoutingError, match=error_text):
        call()


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_a_seed_that_is_none_is_an_error_that_says_where(seed: Any) -> None:
    for call, name in (
        (lambda: relations.random_relation(4, 1, seed), "random_relation"),
        (lambda: relations.permutation(4, seed=seed), "permutation"),
        (lambda: LinearArray(4).route(relations.one_to_all(4), seed=seed), "route"),
    ):
        with pytest.raises(UsageError, match=f"{name}: argument seed: expected a whole number"):
            call()
