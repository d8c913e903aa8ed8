"""Routing in groups: messages come to their groups, and at last to their ends, with buffers that do not grow with h."""

from __future__ import annotations

import numpy as np
import pytest

from pybsp.benchmarks.studies.theory.small_buffers import Level, route
from pybsp.routing import Relation
from pybsp.routing.multibutterfly import Multibutterfly, Parameters
from pybsp.routing.relations import all_to_one, bit_reversal, hot_spot, random_relation

L, N = 64, 1024
FEW = Parameters(Z=4)
NETWORK = Multibutterfly(N, 16)
RELATIONS = {
    "random": random_relation(N // L, 40, seed=1),
    "bit reversal": bit_reversal(N // L, 40),
    "all to one": all_to_one(N // L, 4),
    "hot spot": hot_spot(N // L, 20, seed=2),
    "permutation": random_relation(N // L, 1),
    "one message": Relation([3], [12], N // L),
}
every_relation = pytest.mark.parametrize("name", RELATIONS)
every_epsilon = pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.4, 1.0])


def levels(relation: Relation, epsilon: float, size: int = 5) -> list[Level]:
    return route(NETWORK, relation, L, size, epsilon, FEW)


@pytest.mark.whole
@every_relation
@every_epsilon
def test_messages_come_to_their_groups_and_at_last_to_their_ends(name: str, epsilon: float) -> None:
    relation = RELATIONS[name]
    rows = N
    for level in levels(relation, epsilon):
        assert level.rows == rows
        rows //= level.groups
        assert np.array_equal(level.at // rows, relation.destinations * L // rows)
        assert np.all(level.at % L == 0)  # active rows alone
    assert rows == L
    assert np.array_equal(level.at, relation.destinations * L)


@pytest.mark.whole
@every_relation
@every_epsilon
def test_parcels_are_a_relation_of_order_groups(name: str, epsilon: float) -> None:
    relation = RELATIONS[name]
    found = levels(relation, epsilon)
    assert found[0].h <= 2 * found[0].groups
    for level in found:
        assert level.pack == -(-relation.h // level.groups)
        assert level.size == level.pack * (5 + 10)
        sends, receives = level.groups + level.messages_of_row // level.pack, 2 * level.groups
        assert level.h <= max(sends, receives)


@pytest.mark.whole
def test_storage_does_not_depend_on_h() -> None:
    def storage(h: int) -> int:
        return max(level.took.storage for level in levels(random_relation(N // L, h, seed=1), 0.2))

    assert storage(64) == storage(256) == storage(512)


def test_one_level_of_one_message_a_parcel_is_the_plain_protocol() -> None:
    relation = random_relation(N // L, 8, seed=4)
    (level,) = levels(relation, 1.0)
    assert (level.groups, level.pack, level.h) == (16, 1, 8)
    assert level.size == 5 + 10


def test_a_relation_without_messages_has_no_levels() -> None:
    assert levels(Relation([], [], N // L), 0.3) == []
