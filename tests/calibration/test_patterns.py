"""Who sends how much to whom: by count, the same everywhere, and what the ledger says of it."""

from __future__ import annotations

import numpy as np
import pytest

import pybsp
from pybsp.benchmarks.calibration import patterns, sampling, supersteps
from pybsp.benchmarks.calibration.patterns import counted, relations, traffic
from pybsp.benchmarks.calibration.samples import Point
from pybsp.errors import UsageError

ALL = (*patterns._PATTERNS, "senders-1")
SIZES = (1, 2, 3, 4, 7, 8, 13)


def point(pattern: str, size: int = 48, messages: int = 1, where: str = "", experiment: str = "bsp") -> Point:
    return Point(experiment, pattern, "bsp", where, size=size, messages=messages)


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("pattern", ALL)
def test_a_relation_has_each_pair_once_sorted_and_none_with_itself(pattern: str, p: int) -> None:
    if pattern == "senders-1" and p == 1:
        return
    for m in (1, 5):
        for relation in relations(point(pattern, messages=m), p):
            pairs = list(zip(relation.sources.tolist(), relation.dests.tolist(), strict=True))
            assert pairs == sorted(set(pairs))
            assert all(source != dest and 0 <= source < p and 0 <= dest < p for source, dest in pairs)
            assert relation.counts.min(initial=1) > 0
            assert relation.sizes.min(initial=1) > 0


@pytest.mark.parametrize(
    ("pattern", "p", "m", "figures"),
    [
        ("empty", 4, 0, (0, 0, 0, 0)),
        ("exchange", 4, 3, (54, 54, 216, 9)),
        ("permutation", 5, 3, (18, 18, 90, 3)),
        ("shift", 6, 2, (12, 12, 72, 2)),
        ("many-to-one", 4, 2, (12, 36, 36, 6)),
        ("scatter", 4, 2, (36, 12, 36, 6)),
        ("senders-2", 8, 2, (12, 12, 24, 2)),
        ("halo", 9, 1, (24, 24, 216, 4)),
        ("two-phase", 4, 1, (18, 12, 45, 3)),
    ],
)
def test_a_pattern_sends_what_it_says(pattern: str, p: int, m: int, figures: tuple[int, ...]) -> None:
    found = counted(point(pattern, messages=m), p)
    assert (found.h_out, found.h_in, found.M, found.busiest) == figures


def test_a_permutation_is_one_cycle_and_differs_from_size_to_size() -> None:
    seen = set()
    for size in (8, 16, 24, 32):
        (relation,) = relations(point("permutation", size), 8)
        place, steps = 0, 0
        while steps == 0 or place:
            place = int(relation.dests[relation.sources == place][0])
            steps += 1
        assert steps == 8
        seen.add(tuple(relation.dests.tolist()))
    assert len(seen) > 1


@pytest.mark.parametrize("pattern", ALL)
def test_patterns_in_which_some_only_send_are_known_as_such(pattern: str) -> None:
    if pattern in ("random", "queue", "sample-sort", "two-phase", "empty", "gather"):
        return  # as programs do it; of a gather exchanges alone are timed
    everywhere = [relation.per_processor(p) for p in (4, 7, 9) for relation in relations(point(pattern), p)]
    only_send = any(((sent > 0) & (received == 0)).any() for _, _, sent, received, _, _ in everywhere)
    assert point(pattern).uneven == only_send


def test_a_sample_sort_sends_parts_of_varying_size_that_are_right_on_the_average() -> None:
    relation = relations(point("sample-sort", 8 * 1000), 16)[0]
    words = relation.words()
    assert np.mean(words) == pytest.approx(1000, rel=0.2)
    assert np.std(words) > 50


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_what_is_counted_is_what_the_ledger_counts(p: int) -> None:
    def main(bsp: pybsp.BSP, points: list[Point]) -> None:
        bench = supersteps.Bench(bsp, sampling.sampling_level("quick"))
        for one in points:
            for operation in bench._supersteps(one):
                with bsp.superstep(one.pattern):
                    bsp.sync()  # queues are declared before
                operation(bsp)

    patterns_ = [pattern for pattern in ALL if pattern != "senders-1" or p > 1]
    points = [point(pattern, size, m) for pattern in patterns_ for m in (1, 3) for size in (8, 20)]
    records = iter(pybsp.simulate(main, points, p=p, machine=pybsp.BSPMachine(p=p, g=1, l=1, r=1)).ledger)
    seen = [record for record in records if not record.label and (record.M or record.h == 0)]
    expected = [(step, one.pattern == "queue") for one in points for step in relations(one, p)]
    found = [(r.h_out, r.h_in, r.M, r.messages, r.items) for r in seen][-len(expected) :]
    for (step, queued), figures in zip(expected, found, strict=True):
        out, into, sent, received, put, got = step.per_processor(p, queued)
        most = max(sent.max(), received.max()), max(put.max(), got.max())
        assert figures == (out.max(), into.max(), out.sum(), *most)


def test_items_of_a_queue_are_counted_apart_from_its_messages() -> None:
    found = counted(point("queue", messages=1000), 4)
    assert (found.M, found.busiest) == (4 * 1000 * 6, 3)
    assert found.h_out == 1000 * 6
    assert found.items == max(found.h_out, found.h_in) // 6
    assert counted(point("exchange", messages=1000), 4).items == 0


def test_classes_stay_within_nodes_or_cross_them() -> None:
    nodes = (0, 0, 1, 1, 1)

    def pairs(where: str) -> set[tuple[int, int]]:
        (relation,) = relations(point("exchange", where=where), 5, nodes)
        return set(zip(relation.sources.tolist(), relation.dests.tolist(), strict=True))

    assert pairs("intra") == {(0, 1), (1, 0), (2, 3), (2, 4), (3, 2), (3, 4), (4, 2), (4, 3)}
    assert pairs("inter") == {(0, 2), (2, 0)}
    assert pairs("inter-all") == {(0, 2), (2, 0), (1, 3), (3, 1)}


def test_traffic_of_nodes_is_counted() -> None:
    found = traffic(point("exchange", 8, 2), 4, (0, 0, 1, 1))
    assert tuple(found) == (2, 4, 8)  # each to one within and to two beyond, two words each; of a node two send
    assert tuple(traffic(point("exchange", 8, 2), 4, (0, 0, 0, 0))) == (6, 0, 0)
    assert tuple(traffic(point("exchange", 8, 3, where="inter"), 4, (0, 0, 1, 1))) == (0, 3, 3)


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"expected a pattern of empty, exchange.*got 'ring'"):
        relations(point("ring"), 4)
    with pytest.raises(UsageError, match=r"senders-1 to senders-2, got 3"):
        relations(point("senders-3"), 4)
    with pytest.raises(UsageError, match=r"needs the node of each of the 4 processors"):
        relations(point("exchange", where="intra"), 4)
    with pytest.raises(UsageError, match='"intra", "inter" or "inter-all", got \'near\''):
        relations(point("exchange", where="near"), 4, (0, 0, 1, 1))
    with pytest.raises(UsageError, match=r"no whole mean"):
        counted(point("two-phase", 8), 4)
