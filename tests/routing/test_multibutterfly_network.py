"""Random splitters, their expansion, and the multibutterfly for packets."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from pybsp.benchmarks.studies.theory.expansion import least_d, least_delta, measure, repetitions
from pybsp.errors import RoutingError, UsageError
from pybsp.routing.multibutterfly import LocalWiring, Multibutterfly
from pybsp.routing.networks import network
from pybsp.routing.relations import bit_reversal, permutation, random_relation

SIZES = [(1, 1), (2, 3), (4, 1), (8, 3), (16, 9), (32, 8), (64, 11), (128, 40), (256, 16)]


@pytest.mark.parametrize(("N", "d"), SIZES)
def test_inputs_have_d_edges_to_either_side_and_outputs_have_two_d(N: int, d: int) -> None:
    built = Multibutterfly(N, d, 5)
    assert built.heads.shape == (built.n, N, 2 * d)
    for c in range(built.n):
        width = N >> c
        ends = built.heads[c].reshape(N, 2, d)
        block = np.arange(N) // width
        for side in range(2):
            np.testing.assert_array_equal(ends[:, side] // (width // 2), np.repeat(2 * block + side, d).reshape(N, d))
        np.testing.assert_array_equal(np.bincount(built.heads[c].ravel(), minlength=N), 2 * d)
        # Each edge k of all inputs: a butterfly's, two to an output.
        for k in range(d):
            np.testing.assert_array_equal(np.bincount(ends[:, :, k].ravel(), minlength=N), 2)


@pytest.mark.parametrize(("N", "d"), SIZES)
def test_edges_are_parallel_only_where_there_are_fewer_than_d_outputs_and_then_evenly(N: int, d: int) -> None:
    built = Multibutterfly(N, d, 5)
    for c in range(built.n):
        outputs = N >> (c + 1)
        for side in built.splitter(c, (1 << c) - 1):
            for ends in side:
                times = np.bincount(ends, minlength=outputs)
                assert times.max() <= -(-d // outputs)
                assert times.min() >= d // outputs


def test_equal_seeds_give_equal_networks_and_others_do_not() -> None:
    np.testing.assert_array_equal(Multibutterfly(64, 5, 7).heads, Multibutterfly(64, 5, 7).heads)
    assert (Multibutterfly(64, 5, 7).heads != Multibutterfly(64, 5, 8).heads).mean() > 0.5


def test_splitters_are_random() -> None:
    """The outputs that two inputs have in common are spread as those of random sets of d outputs."""
    N, d = 256, 8
    outputs = N // 2
    heads = Multibutterfly(N, d, 1).heads[0, :, :d]
    joined = np.zeros((N, outputs), np.int64)
    joined[np.arange(N)[:, None], heads] = 1
    common = (joined @ joined.T)[np.triu_indices(N, 1)]
    for shared in range(4):
        expected = math.comb(d, shared) * math.comb(outputs - d, d - shared) / math.comb(outputs, d)
        assert np.mean(common == shared) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("N", "d"), SIZES)
def test_the_wiring_brings_values_to_the_other_end_and_back(N: int, d: int) -> None:
    built = Multibutterfly(N, d, 5)
    wiring = LocalWiring(built)
    edges = np.random.default_rng(1).integers(max(built.n * N * 2 * d, 1), size=50 if built.n else 0)
    slots, came = wiring.forward(edges, edges)
    assert (np.diff(slots) >= 0).all()
    c, node = np.divmod(slots, N * 2 * d)
    column, edge = np.divmod(came, N * 2 * d)
    np.testing.assert_array_equal(c, column)
    np.testing.assert_array_equal(node // (2 * d), built.heads.reshape(built.n, N * 2 * d)[column, edge])
    back, same = wiring.back(slots, came)
    np.testing.assert_array_equal(back, np.sort(edges))
    np.testing.assert_array_equal(same, back)


def test_columns_from_another_than_the_first_are_wired_by_themselves() -> None:
    built = Multibutterfly(16, 3, 0)
    part = LocalWiring(built, 1, 3)
    assert part.columns == 2
    edges = np.arange(2 * 16 * 6)
    (slots,) = part.forward(edges)
    (whole,) = LocalWiring(built).forward(edges + 16 * 6)
    np.testing.assert_array_equal(slots, whole - 16 * 6)


# -- expansion


def test_the_papers_example_satisfies_fact_1_and_lemma_1() -> None:
    alpha, beta = 1 / (48 * math.e**2), 24.0
    assert 2 * alpha * beta == pytest.approx(math.exp(-2))
    assert 39 < least_d(alpha, beta) < 40
    assert least_delta(beta, 40, 8) == pytest.approx(1 / 33)
    assert repetitions(1 / 33, 40, 8) == 165
    assert (32 / 33) ** 165 <= 8 / (32 * 40) < (32 / 33) ** 164


def slowly(side: NDArray[np.int32], alpha: float, R: int) -> tuple[float, float]:
    beta = delta = math.inf
    for k in range(1, math.floor(alpha * len(side)) + 1):
        for chosen in combinations(range(len(side)), k):
            neighbours = [set(side[i].tolist()) for i in chosen]
            beta = min(beta, len(set.union(*neighbours)) / k)
            good = 0
            for i in range(k):
                others = set().union(*neighbours[:i], *neighbours[i + 1 :])
                good += sum(end not in others for end in side[chosen[i]].tolist()) >= R
            delta = min(delta, good / k)
    return beta, delta


@pytest.mark.whole
@pytest.mark.parametrize(("N", "d", "R"), [(2, 3, 2), (4, 3, 2), (8, 3, 2), (8, 6, 3), (16, 3, 2), (16, 9, 4)])
@pytest.mark.parametrize("alpha", [0.125, 0.25, 0.375])
def test_small_splitters_are_measured_exactly(N: int, d: int, R: int, alpha: float) -> None:
    splitter = Multibutterfly(N, d, 2).splitter(0)
    found = measure(splitter, alpha, R)
    slow = [slowly(side, alpha, R) for side in splitter]
    assert found == (min(beta for beta, _ in slow), min(delta for _, delta in slow), True)
    if found.beta < math.inf:
        assert found.delta >= least_delta(found.beta, d, R)  # Lemma 1


def test_samples_are_upper_bounds_and_find_the_worst_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        splitter = Multibutterfly(16, 5, seed).splitter(0)
        exact = measure(splitter, 0.25, 3)
        with monkeypatch.context() as patch:
            patch.setattr("pybsp.benchmarks.studies.theory.expansion.EXACT", 0)
            sampled = measure(splitter, 0.25, 3, seed=seed)
        assert not sampled.exact
        assert exact.beta <= sampled.beta <= exact.beta + 0.5
        assert exact.delta <= sampled.delta <= exact.delta + 0.25


def test_greedy_sets_are_worse_than_random_ones() -> None:
    splitter = Multibutterfly(256, 12, 0).splitter(0)
    greedy = measure(splitter, 1 / 32, 8, samples=20)
    rng = np.random.default_rng(0)
    random = min(len(np.unique(splitter[0][rng.choice(256, 8, replace=False)])) / 8 for _ in range(200))
    assert greedy.beta < random


# -- packets


@pytest.mark.parametrize("p", [1, 2, 4, 64])
def test_packets_take_log_p_links_and_arrive(p: int) -> None:
    net = network("multibutterfly", p)
    for relation in (permutation(p, 3, 1), bit_reversal(p, 2), random_relation(p, 4, 1)):
        for ports in ("multi", "single"):
            traffic = net.route(relation, ports=ports, limit=1000)
            away = relation.sources != relation.destinations
            assert (traffic.delivered[away] >= net.diameter).all()
            assert (traffic.delivered[~away] == 0).all()
            assert traffic.link_load.sum() == net.diameter * away.sum()
    assert len(net.tails) == p * net.diameter * 8
    assert (net.tails[::8] // p == np.repeat(np.arange(net.diameter), p)).all()


def test_the_cut_of_the_first_column_is_p_times_d() -> None:
    net = network("multibutterfly", 32)
    upper = (np.arange(net.nodes) % 32) < 16
    first = net.tails < 32
    assert (upper[net.tails[first]] != upper[net.heads[first]]).sum() == net.bisection
    assert (upper[net.tails[~first & (net.heads >= 32)]] == upper[net.heads[~first & (net.heads >= 32)]]).all()


# -- what does not fit


def test_what_does_not_fit_is_an_error() -> None:
    for N, near in ((0, "1 and 2"), (12, "8 and 16"), (-4, "1 and 2")):
        with pytest.raises(RoutingError, match=f"N must be a power of two, got {N}; {near} would fit"):
            Multibutterfly(N, 4)
    with pytest.raises(RoutingError, match=r"N must be a whole number, a power of two, got 4.0$"):
        Multibutterfly(4.0, 4)  # type: ignore[arg-type]
    for d in (0, 2.5):
        with pytest.raises(UsageError, match=f"d: expected a whole number from 1 on, got {d}"):
            Multibutterfly(4, d)  # type: ignore[arg-type]
    with pytest.raises(RoutingError, match="p must be a power of two, got 48; 32 and 64 would fit"):
        network("multibutterfly", 48)
