"""Theorem 3 of *The E-BSP model*: what routing takes on the linear array, to the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp import EBSPMachine
from pybsp.benchmarks.studies.ebsp_networks import end_to_end, nearest_first, samples, shift
from pybsp.benchmarks.studies.theory.linear_array_steps import least_steps
from pybsp.routing.networks.array import LinearArray
from pybsp.routing.relation import Relation

from ..tiers import some


@st.composite
def relations(draw: Any) -> Relation:
    """Any bag of packets on up to 12 processors, some of them many times."""
    p = draw(st.integers(1, 12))
    processor = st.integers(0, p - 1)
    bundles = draw(st.lists(st.tuples(processor, processor, st.integers(1, 9)), max_size=15))
    sources, destinations, numbers = np.array(bundles, np.int64).reshape(-1, 3).T
    return Relation(np.repeat(sources, numbers), np.repeat(destinations, numbers), p)


def theorem(relation: Relation) -> float:
    """The theorem's bound, as the machine has it."""
    return EBSPMachine.linear_array(relation.p).time(relation.M, relation.k1, relation.k2, relation.locality)


def steps(relation: Relation, queue: str) -> int:
    """Of routing."""
    return LinearArray(relation.p).route(relation, queue=queue).steps


def largest(relation: Relation) -> int:
    """Packets over the busiest link."""
    link = np.arange(relation.p - 1)
    low, high = np.sort((relation.sources, relation.destinations), axis=0)[:, :, None]
    over = (low <= link) & (link < high)
    up = (relation.destinations > relation.sources)[:, None]
    return int(max((over & up).sum(axis=0).max(initial=0), (over & ~up).sum(axis=0).max(initial=0)))


def check(relation: Relation) -> None:
    """All that the module says."""
    furthest, fifo = steps(relation, "furthest-first"), steps(relation, "fifo")
    assert furthest == least_steps(relation) <= fifo
    far = relation.locality
    if far:
        assert furthest <= fifo <= largest(relation) + far - 1 <= theorem(relation)
        assert furthest <= min(min(relation.k1, relation.k2) * far, relation.M + far - 1)
    else:
        assert fifo == 0


@pytest.mark.whole
@settings(max_examples=some(300), deadline=None)
@given(relations())
def test_furthest_first_takes_the_least_steps_and_no_discipline_more_than_theorem_3(relation: Relation) -> None:
    check(relation)


@pytest.mark.whole
@pytest.mark.parametrize("p", [2, 3, 17, 64, 101])
def test_theorem_3_holds_for_sampled_relations(p: int) -> None:
    for relation in samples(np.random.default_rng(p), p, 60):
        check(relation)


@settings(max_examples=some(100), deadline=None)
@given(relations())
def test_no_order_of_queues_takes_more(relation: Relation) -> None:
    # FIFO breaks ties at the start by the packets' numbers, so that a permutation of these is another discipline.
    order = np.random.default_rng(len(relation)).permutation(len(relation))
    shuffled = Relation(relation.sources[order], relation.destinations[order], relation.p)
    assert least_steps(shuffled) == least_steps(relation)
    check(shuffled)


@pytest.mark.parametrize("p", [2, 3, 10, 61])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_where_the_bound_is_tight(p: int, k: int) -> None:
    far = end_to_end(p, k)
    assert steps(far, "furthest-first") == steps(far, "fifo") == theorem(far) == k + p - 2
    # First come, first served meets the bound with k_min*L = M, where furthest first saves p - 2 steps.
    near = nearest_first(p, k)
    assert steps(near, "fifo") == theorem(near) == k * (p - 1) + p - 2
    assert steps(near, "furthest-first") == k * (p - 1)
    # With k_min*L below M the sharper bound k_min*L is met.
    each = shift(p, max(p // 2, 1), k)
    assert steps(each, "furthest-first") == min(k * each.locality, len(each) + each.locality - 1)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_nothing_to_route_takes_nothing(p: int) -> None:
    nothing = np.empty(0, np.int64)
    assert least_steps(Relation(nothing, nothing, p)) == steps(Relation(nothing, nothing, p), "furthest-first") == 0
    own = np.arange(p)
    assert least_steps(Relation(own, own, p)) == steps(Relation(own, own, p), "fifo") == 0


@pytest.mark.parametrize("p", [2, 3, 64, 257])
def test_a_personalised_broadcast_takes_p_steps_less_one(p: int) -> None:
    assert steps(nearest_first(p, 1), "furthest-first") == p - 1 <= theorem(nearest_first(p, 1)) == 2 * p - 3
