"""Relations: the figures of E-BSP, 1-relations, and a superstep as the ledger counts it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp.errors import UsageError
from pybsp.machines.cost import Superstep
from pybsp.routing import Relation, relations

from ..tiers import some

Packets = list[tuple[int, int]]

CASES = st.integers(1, 9).flatmap(lambda p: st.tuples(st.just(p), st.lists(st.tuples(*[st.integers(0, p - 1)] * 2))))


def relation_of(packets: Packets, p: int) -> Relation:
    return Relation([source for source, _ in packets], [destination for _, destination in packets], p)


def pairs(relation: Relation) -> Packets:
    return list(zip(relation.sources.tolist(), relation.destinations.tolist(), strict=True))


# -- figures


@given(CASES)
def test_figures_are_those_of_the_definitions(case: tuple[int, Packets]) -> None:
    p, packets = case
    relation = relation_of(packets, p)
    sent, received = Counter(source for source, _ in packets), Counter(to for _, to in packets)
    assert relation.M == len(relation) == len(packets)
    assert relation.sent.tolist() == [sent[pid] for pid in range(p)]
    assert relation.received.tolist() == [received[pid] for pid in range(p)]
    assert relation.k1 == max(sent.values(), default=0)
    assert relation.k2 == max(received.values(), default=0)
    assert relation.h == max(relation.k1, relation.k2)
    assert relation.locality == max((abs(to - source) for source, to in packets), default=0)
    assert relation.full == ({*relation.sent.tolist(), *relation.received.tolist()} == {relation.h})


def test_figures_of_a_small_relation() -> None:
    relation = Relation([0, 0, 0, 1, 4], [1, 1, 0, 4, 1], 5)
    assert (relation.M, relation.k1, relation.k2, relation.h, relation.locality) == (5, 3, 3, 3, 3)
    assert repr(relation) == "<relation of p = 5: M = 5, k1 = 3, k2 = 3, locality 3>"
    assert repr(Relation([1, 0], [0, 1], 2)) == "<relation of p = 2: M = 2, k1 = 1, k2 = 1, locality 1, full>"


@pytest.mark.parametrize("p", [1, 2, 7])
def test_a_relation_without_packets(p: int) -> None:
    relation = Relation([], [], p)
    assert (relation.M, relation.k1, relation.k2, relation.h, relation.locality) == (0, 0, 0, 0, 0)
    assert relation.full
    assert relation.decompose().shape == (0,)
    assert relation.one_relations() == []
    assert relation.superstep() == Superstep(0, 0, 0, 0)
    assert not relation.matrix().any()


def test_a_relation_does_not_change() -> None:
    sources = np.array([0, 1])
    relation = Relation(sources, [1, 0], 2)
    sources[:] = 7
    assert relation.sources.tolist() == [0, 1]
    for array in (relation.sources, relation.destinations, relation.sent, relation.received):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_some_of_the_packets() -> None:
    relation = Relation([0, 1, 2, 2], [3, 1, 0, 2], 4)
    assert pairs(relation[1:3]) == [(1, 1), (2, 0)]
    assert pairs(relation[np.array([3, 0])]) == [(2, 2), (0, 3)]
    assert pairs(relation[relation.sources == 2]) == [(2, 0), (2, 2)]
    assert pairs(relation.moving()) == [(0, 3), (2, 0)]
    assert relation[:0].p == relation.moving().p == 4


# -- 1-relations


@given(CASES)
@settings(deadline=None)
def test_one_relations_are_h_and_have_all_packets(case: tuple[int, Packets]) -> None:
    p, packets = case
    relation = relation_of(packets, p)
    parts = relation.one_relations()
    assert len(parts) == relation.h
    assert all(part.h == 1 and part.p == p for part in parts)
    assert Counter(pair for part in parts for pair in pairs(part)) == Counter(packets)
    colours = relation.decompose()
    assert [pairs(relation[colours == colour]) for colour in range(relation.h)] == [pairs(part) for part in parts]


# -- matrices


@given(CASES)
def test_a_matrix_of_packets_and_back(case: tuple[int, Packets]) -> None:
    p, packets = case
    matrix = relation_of(packets, p).matrix()
    assert matrix.shape == (p, p)
    assert matrix.sum() == len(packets)
    assert pairs(Relation.from_matrix(matrix)) == sorted(packets)


def test_a_matrix_of_any_whole_numbers() -> None:
    assert pairs(Relation.from_matrix([[0, 2], [1, 0]])) == [(0, 1), (0, 1), (1, 0)]
    for kind in "bBhHiIlLqQ":
        assert Relation.from_matrix(np.full((3, 3), 2, kind)).M == 18
    assert Relation.from_matrix([[0]]).M == 0


# -- the ledger


def ledger(relation: Relation, words: int, queue: bool) -> Superstep:
    """What the ledger records where a program on virtual processors sends the packets."""

    def main(bsp: pybsp.BSP) -> None:
        q = bsp.queue(f"V{8 * words}") if queue else None
        bsp.sync()
        mine = relation.destinations[relation.sources == bsp.pid]
        if q is not None:
            q.send(mine, np.zeros(len(mine), f"V{8 * words}"))
        else:
            for dest in mine.tolist():
                bsp.send(dest, np.zeros(words))
        bsp.sync()

    record = pybsp.simulate(main, p=relation.p).ledger[1]
    return Superstep(
        record.h_out, record.h_in, record.messages, record.M, 0.0, relation.moving().locality, record.items
    )


@pytest.mark.parametrize("queue", [False, True])
@given(CASES, st.integers(1, 3))
@settings(max_examples=some(60), deadline=None)
def test_a_superstep_is_what_the_ledger_records(queue: bool, case: tuple[int, Packets], words: int) -> None:
    p, packets = case
    relation = relation_of(packets, p)
    assert relation.superstep(words, queue) == ledger(relation, words, queue)


def test_packets_to_oneself_count_in_a_relation_but_not_in_its_superstep() -> None:
    relation = Relation([0, 0, 0, 1], [0, 0, 1, 2], 3)
    assert (relation.M, relation.k1, relation.k2) == (4, 3, 2)
    assert relation.superstep() == Superstep(h_out=1, h_in=1, messages=1, M=2, locality=1)
    assert Relation([2, 2], [2, 2], 3).superstep(5) == Superstep(0, 0, 0, 0)


def test_a_queue_sends_one_message_to_each_destination() -> None:
    relation = Relation([0, 0, 0, 1], [1, 1, 2, 2], 3)
    assert relation.superstep(2) == Superstep(h_out=6, h_in=4, messages=3, M=8, locality=2)
    assert relation.superstep(2, queue=True) == Superstep(h_out=6, h_in=4, messages=2, M=8, locality=2, items=3)


def test_a_machine_predicts_the_superstep() -> None:
    machine = pybsp.BSPMachine(p=4, g=1e-6, l=1e-3, r=1e9)
    assert machine.predict(relations.one_to_all(4, 10).superstep()) == pytest.approx(1e-3 + 30e-6)


# -- size


@pytest.mark.whole
def test_ten_million_packets_in_seconds() -> None:
    rng = np.random.default_rng(0)
    sources, destinations = rng.integers(0, 16384, (2, 10**7))
    began = time.process_time()
    relation = Relation(sources, destinations, 16384)
    found = (relation.M, relation.k1, relation.k2, relation.h, relation.locality, relation.full, relation.superstep().M)
    assert time.process_time() - began < 5  # 0.6 s where nothing else runs
    assert found[0] == 10**7 > found[-1]
    assert found[1] == np.unique(sources, return_counts=True)[1].max()


# -- what is refused


@pytest.mark.fast
@pytest.mark.parametrize(
    ("call", "error_text"),
    [
        (lambda: Relation([0], [1], 0), "Relation: p must be a whole number from 1 to 2147483647, got 0"),
        (lambda: Relation([0, 1], [1], 2), "Relation: expected as many destinations as sources, 2, got 1"),
        (lambda: Relation([0, 1], [1, 4], 4), "Relation: destinations: expected processors 0 to 3, got 4"),
        (lambda: Relation([-1], [0], 2), "Relation: sources: expected processors 0 to 1, got -1"),
        (lambda: Relation([0.0], [1], 2), "Relation: sources must be integers"),
        (lambda: Relation([[0]], [[1]], 2), "of shape \\(1, 1\\)"),
        (lambda: Relation([[0, 1], [1]], [0, 1], 2), "Relation: sources: expected an array, or lists of equal lengths"),
        (lambda: Relation([0], [0], 2**70), "Relation: p must be a whole number from 1 to 2147483647, got 11805916"),
        (lambda: Relation.from_matrix([[0, 1]]), "from_matrix: packets: expected whole numbers of shape \\(p, p\\)"),
        (lambda: Relation.from_matrix([[0.5]]), "got float64 of shape \\(1, 1\\)"),
        (lambda: Relation.from_matrix([[0, -2], [1, 0]]), "packets: expected numbers from 0 to 2147483647, got -2"),
        (
            lambda: Relation.from_matrix([[0, 2**40], [1, 0]]),
            "packets: expected numbers from 0 to .*, got 1099511627776",
        ),
        (
            lambda: Relation.from_matrix(np.full((1, 1), 2**63, np.uint64)),
            "packets: expected numbers from 0 to 2147483",
        ),
        (lambda: Relation.from_matrix(np.zeros((1, 1), "m8[s]")), r"whole numbers of shape \(p, p\), got timedelta64"),
        (
            lambda: Relation.from_matrix([[1, 2], [3]]),
            r"packets: expected an array, or lists of equal lengths, got \[\[1",
        ),
        (
            lambda: Relation.from_matrix(np.zeros((0, 0), np.int64)),
            "p must be a whole number from 1 to 2147483647, got 0",
        ),
        (lambda: Relation([0], [1], 2).superstep(-1), "words: expected a whole number of at least 0, got -1"),
        (lambda: Relation([0], [1], 2).superstep(1.5), "words: expected a whole number"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_relation_is_refused(call: Callable[[], object], error_text: str) -> None:
    with pytest.raises(UsageError, match=error_text):
        call()
