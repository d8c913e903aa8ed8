"""An h-relation falls apart into exactly h partial permutations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pybsp.errors import UsageError
from pybsp.routing import decompose, decomposition

from ..tiers import some

Ints = NDArray[np.int64]


def degree(sources: Ints, destinations: Ints, p: int) -> int:
    return int(max(np.bincount(sources, minlength=p).max(), np.bincount(destinations, minlength=p).max()))


def checked(sources: Any, destinations: Any, p: int) -> Ints:
    """The colours, after a look at whether they decompose the relation."""
    sources, destinations = np.asarray(sources, np.int64), np.asarray(destinations, np.int64)
    colours = decompose(sources, destinations, p)
    assert colours.shape == sources.shape
    assert colours.dtype == np.int64
    if len(colours):
        assert sorted(set(colours.tolist())) == list(range(degree(sources, destinations, p)))
    for ends in (sources, destinations):
        assert len(set((colours * p + ends).tolist())) == len(colours)
    return colours


@pytest.mark.whole
@given(st.integers(1, 12).flatmap(lambda p: st.tuples(st.just(p), st.lists(st.tuples(*[st.integers(0, p - 1)] * 2)))))
@settings(max_examples=some(300), deadline=None)
def test_any_relation(case: tuple[int, list[tuple[int, int]]]) -> None:
    p, messages = case
    checked([source for source, _ in messages], [dest for _, dest in messages], p)


@pytest.mark.parametrize("p", [1, 2, 3, 5, 7, 16, 31])
@pytest.mark.parametrize("h", [0, 1, 2, 3, 7, 8, 15, 16, 17, 63, 100])
def test_regular_relations_of_every_degree(p: int, h: int) -> None:
    rng = np.random.default_rng(p * 1000 + h)
    checked(rng.permutation(np.repeat(np.arange(p), h)), rng.permutation(np.repeat(np.arange(p), h)), p)


@pytest.mark.parametrize("p", [2, 3, 16, 31, 100])
@pytest.mark.parametrize("h", [1, 4, 7, 48, 64])
def test_more_messages_than_fit_the_cache(p: int, h: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decomposition, "CACHED", 32)
    rng = np.random.default_rng(p * 1000 + h)
    everybody = np.repeat(np.arange(p), h)
    checked(everybody, rng.permutation(everybody), p)
    checked(everybody, (everybody + np.tile(np.arange(h), p)) % p, p)  # of many short cycles
    checked(rng.integers(0, p, 50 * h), rng.integers(0, p, 50 * h), p)


def test_one_pair_of_many_messages() -> None:
    assert sorted(checked([3] * 1000, [4] * 1000, 5).tolist()) == list(range(1000))


def test_many_to_one_and_one_to_many() -> None:
    everybody, one = np.arange(1000), np.full(1000, 17)
    checked(everybody, one, 1000)
    checked(one, everybody, 1000)
    checked(np.r_[everybody, one], np.r_[one, everybody], 1000)


def test_hot_spots_among_small_processors() -> None:
    rng = np.random.default_rng(5)
    dests = rng.integers(0, 2000, 20_000)
    checked(rng.integers(0, 2000, 20_000), np.where(rng.random(20_000) < 0.4, 11, dests), 2000)
    checked(rng.integers(0, 2000, 20_000), np.minimum(rng.zipf(1.3, 20_000) - 1, 1999), 2000)


def test_nothing() -> None:
    for p in (1, 5):
        assert decompose([], [], p).shape == (0,)


def test_the_same_relation_the_same_colours() -> None:
    rng = np.random.default_rng(1)
    sources, dests = rng.integers(0, 50, 999), rng.integers(0, 50, 999)
    first = decompose(sources, dests, 50)
    assert np.array_equal(first, decompose(sources.astype(np.int32), dests.tolist(), 50))


@pytest.mark.whole
def test_a_million_messages_in_seconds() -> None:
    rng = np.random.default_rng(3)
    sources, destinations = np.repeat(np.arange(1000), 1000), rng.permutation(np.repeat(np.arange(1000), 1000))
    began = time.process_time()
    colours = decompose(sources, destinations, 1000)
    assert time.process_time() - began < 15  # 1.5 s where nothing else runs
    for ends in (sources, destinations):
        assert np.all(np.bincount(colours * 1000 + ends) == 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("call", "error_text"),
    [
        (lambda: decompose([0], [1], 0), "p must be a whole number from 1 to 2147483647, got 0"),
        (lambda: decompose([0], [1], 2**40), "p must be a whole number from 1 to 2147483647, got 1099511627776"),
        (lambda: decompose([0], [1], 2**70), "p must be a whole number from 1 to 2147483647, got 118059"),
        (lambda: decompose([0], [1], True), "p must be a whole number"),
        (lambda: decompose([0, 1], [1], 2), "expected as many destinations as sources, 2, got 1"),
        (lambda: decompose([0, 2], [1, 1], 2), "sources: expected processors 0 to 1, got 2"),
        (lambda: decompose([0, 1], [-1, 1], 2), "destinations: expected processors 0 to 1, got -1"),
        (lambda: decompose([0.5], [1], 2), "sources must be integers of shape"),
        (lambda: decompose([[0]], [[1]], 2), "of shape \\(1, 1\\)"),
        (lambda: decompose(["a"], [1], 2), "must be integers"),
    ],
)
def test_what_is_no_relation_is_refused(call: Callable[[], object], error_text: str) -> None:
    with pytest.raises(UsageError, match=error_text):
        call()
