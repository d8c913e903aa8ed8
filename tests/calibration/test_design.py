"""What is timed: messages and words apart, on both sides of the thresholds; held-out sizes are fitted from nowhere."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pybsp.benchmarks.calibration.design import ALONE, PARTS, all_points, order
from pybsp.benchmarks.calibration.patterns import relations
from pybsp.benchmarks.calibration.samples import EXCHANGE
from pybsp.benchmarks.calibration.sampling import LEVELS
from pybsp.errors import UsageError


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("p", [2, 3, 4, 8])
def test_the_fit_can_tell_l_o_msg_and_g_apart(p: int, level: str) -> None:
    points = [point for point in all_points(p, level, ["bsp"]) if point.experiment == "bsp"]
    design = np.array([[1.0, point.busiest, point.h] for point in points])
    assert np.linalg.cond(design / np.linalg.norm(design, axis=0)) < 10
    assert sum(point.pattern == "empty" for point in points) == 1
    for low, high in ((1, 1 << 10), (1 << 10, 1 << 14), (1 << 14, 1 << 21)):  # in each regime by itself, too
        regime = np.array([[1.0, q.busiest, q.h] for q in points if low <= q.size < high])
        assert np.linalg.matrix_rank(regime / np.linalg.norm(regime, axis=0)) == 3


@pytest.mark.parametrize("level", LEVELS)
def test_unbalanced_supersteps_tell_g1_and_g2_apart(level: str) -> None:
    points = [q for q in all_points(8, level, ["bsp", "unbalanced"]) if q.experiment in ("bsp", "unbalanced")]
    design = np.array([[q.M / 8, q.h, q.busiest, 1.0] for q in points])
    assert np.linalg.cond(design / np.linalg.norm(design, axis=0)) < 30
    assert {"senders-1", "senders-2", "senders-4", "scatter", "few"} <= {q.pattern for q in points}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("word", [1, 4, 8, 24])
def test_nothing_is_fitted_from_what_is_held_out(level: str, word: int) -> None:
    points = all_points(6, level, word=word)
    held_out = [q for q in points if q.experiment == "held-out"]
    fitted = [q for q in points if q.experiment in ("bsp", "unbalanced")]
    assert {q.pattern for q in held_out} == {"halo", "two-phase", "sample-sort", "random"}
    assert not {q.size for q in held_out if q.size > 64} & {q.size for q in fitted}
    assert not {q.pattern for q in held_out} & {q.pattern for q in fitted}


@pytest.mark.parametrize("level", LEVELS)
def test_sizes_lie_on_both_sides_of_the_thresholds(level: str) -> None:
    sizes = {q.size for q in all_points(4, level) if q.experiment == "bsp" and q.pattern == "exchange"}
    for threshold in (1 << 10, 1 << 13, 1 << 16):
        assert min(sizes) < threshold < max(sizes)
    assert len([s for s in sizes if 1024 < s <= 65536]) >= 2


@pytest.mark.parametrize("level", LEVELS)
def test_no_point_is_planned_twice(level: str) -> None:
    for p in (1, 2, 5):
        points = all_points(p, level, nodes=[0] * (p - 1) + [1])
        assert len(set(points)) == len(points)


def test_equal_relations_are_timed_once() -> None:
    for p in (2, 3, 5):
        points = all_points(p, "default")
        keys = Counter(
            (
                q.experiment,
                q.pattern if q.where == EXCHANGE or q.pattern == "queue" else "",
                q.delay,
                q.size * (q.pattern == "making"),  # of so many indices, which are no words
                tuple(tuple(part.tobytes() for part in s) for s in relations(q, p)),
            )
            for q in points
            if q.experiment not in ("rate", "repeat")
        )
        assert max(keys.values()) == 1
    different = {q.pattern for q in all_points(2, "default") if q.experiment == "bsp"}
    assert different == {"empty", "exchange", "many-to-one"}
    assert len({q.pattern for q in all_points(5, "default") if q.experiment == "bsp"}) == 6


def test_the_order_is_shuffled_by_the_seed_and_nothing_else() -> None:
    first, again, other = (all_points(4, "default", seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)
    h = [q.h for q in first]
    assert abs(np.corrcoef(np.arange(len(h)), h)[0, 1]) < 0.3


def test_a_round_visits_all_in_a_new_order_with_the_repeated_points_throughout() -> None:
    points = all_points(4, "default")
    rounds = [order(points, 0, 0, visit) for visit in range(2)]
    assert rounds[0] != rounds[1]
    assert rounds[0] == order(points, 0, 0, 0)
    for visited in rounds:
        assert set(visited) == set(points)
        counts = Counter(visited)
        assert all(counts[q] == 1 for q in points if q.experiment != "repeat")
        places = [n for n, q in enumerate(visited) if q.experiment == "repeat"]
        assert places[0] == 0
        assert max(np.diff(places)) <= 17


def test_only_what_is_asked_for_is_planned() -> None:
    for part in PARTS:
        found = {q.experiment for q in all_points(4, "quick", [part], nodes=(0, 0, 1, 1))}
        assert found == {*(ALONE if part == "way" else [part]), "repeat"}


def test_classes_need_several_nodes_with_several_processors_on_one() -> None:
    def classes(*nodes: int) -> set[str]:
        return {q.where for q in all_points(len(nodes), "quick", ["class"], nodes=nodes) if q.experiment == "class"}

    assert classes(0, 0, 1, 1) == {"intra", "inter", "inter-all"}
    assert classes(0, 0, 1) == {"intra", "inter", "inter-all"}
    assert classes(0, 0, 0) == classes(0, 1, 2) == set()


def test_one_processor_has_rates_and_an_empty_superstep() -> None:
    found = all_points(1, "quick")
    assert {(q.experiment, q.pattern) for q in found if q.experiment != "rate"} == {
        ("bsp", "empty"),
        ("repeat", "empty"),
    }
    assert {q.pattern for q in found if q.experiment == "rate"} == {"axpy", "dot", "matmul", "sort"}


def test_levels_grow() -> None:
    counts = [len(all_points(8, level)) for level in LEVELS]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("level", LEVELS)
def test_kernels_work_in_cache_and_well_out_of_it(level: str) -> None:
    for kernel in ("axpy", "dot"):
        sizes = [q.size for q in all_points(2, level, ["rate"]) if q.pattern == kernel]
        assert min(sizes) <= 1 << 15
        assert max(sizes) >= 1 << 26


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"argument level: expected one of quick, default, thorough, got 'fast'"):
        all_points(2, "fast")
    with pytest.raises(UsageError, match=r"argument only: expected some of rate, bsp.*got logp"):
        all_points(2, "quick", ["logp"])
    with pytest.raises(UsageError, match=r"argument word: .* got 0"):
        all_points(2, "quick", word=0)
    with pytest.raises(UsageError, match=r"node of each of the 4 processors, got 3"):
        all_points(4, "quick", nodes=(0, 0, 1))
