"""The paper's network, and what routing on it and on the bare cube takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pybsp.benchmarks.studies import valiant_brebner
from pybsp.benchmarks.studies.valiant_brebner import Point, fits, permuted
from pybsp.errors import RoutingError
from pybsp.routing.networks.application_cube import ApplicationCube
from pybsp.routing.networks.hypercube import Hypercube
from pybsp.routing.relation import Relation
from pybsp.routing.relations import bit_reversal, random_relation, transpose, uniform_destinations

SIZES = (1, 2, 8, 64)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("p", SIZES)
def test_an_application_node_has_one_link_each_way(p: int) -> None:
    network = ApplicationCube(p)
    into, out = network.places, network.ends
    assert np.bincount(network.tails, minlength=network.nodes)[into].tolist() == [1] * p
    assert np.bincount(network.heads, minlength=network.nodes)[out].tolist() == [1] * p
    assert not np.isin(network.heads, into).any()
    assert not np.isin(network.tails, out).any()
    assert network.degree == network.n + 1


@pytest.mark.parametrize("two_phase", [False, True])
@pytest.mark.parametrize("p", SIZES)
def test_packets_enter_and_leave_one_a_step(p: int, two_phase: bool) -> None:
    h = 7
    traffic = ApplicationCube(p).route(random_relation(p, h), two_phase=two_phase)
    outer = p * (p.bit_length() - 1)
    assert traffic.link_load[outer:].tolist() == [h] * 2 * p  # every packet, those to oneself too
    assert traffic.steps >= h + 1
    assert traffic.node_traffic[2 * p :].tolist() == [h] * p
    assert np.bincount(traffic.delivered).max() <= p


@pytest.mark.parametrize("p", SIZES)
def test_one_packet_takes_two_links_more_than_in_the_bare_cube(p: int) -> None:
    network = ApplicationCube(p)
    for source, destination in {(0, 0), (0, p - 1), (p // 2, p // 3)}:
        alone = network.route(Relation([source], [destination], p))
        bits = (source ^ destination).bit_count()
        assert (
            alone.steps
            == bits + 2
            == int(network.distance(*(np.array([x]) for x in (p + source, 2 * p + destination, 0)))[0])
        )
        assert alone.steps <= network.diameter
        assert alone.node_traffic[:p].sum() == bits + 1


def test_the_next_dimension_is_drawn_among_those_that_differ() -> None:
    network = ApplicationCube(8)
    m = 6000
    links, _ = network.step(np.full(m, 1), np.full(m, 16 + 7), np.zeros(m, np.int64), rng())  # from 001 to 111
    assert network.heads[links].min() == 3
    shares = np.bincount(network.heads[links], minlength=8) / m
    assert set(np.flatnonzero(shares)) == {3, 5}
    assert shares[3] == pytest.approx(0.5, abs=0.03)
    fixed, _ = ApplicationCube(8, "fixed").step(np.array([1]), np.array([16 + 7]), np.zeros(1, np.int64), rng())
    assert network.heads[fixed].tolist() == [3]


def test_two_phases_meet_within_the_cube() -> None:
    p, h = 16, 50
    network = ApplicationCube(p)
    relation = Relation(np.zeros(h, np.int64), np.full(h, p - 1), p)  # all from one to one
    one, two = network.route(relation), network.route(relation, two_phase=True)
    assert one.node_traffic[0] == h
    # In the second phase packets begin at drawn nodes of the cube, and each is counted there.
    assert (two.node_traffic[:p] > 0).all()
    assert two.link_load[-1] == h
    assert two.steps > one.steps


@pytest.mark.parametrize("network", [ApplicationCube(1), ApplicationCube(16)])
@pytest.mark.parametrize("two_phase", [False, True])
def test_an_empty_relation_takes_no_step(network: ApplicationCube, two_phase: bool) -> None:
    assert network.route(Relation([], [], network.p), two_phase=two_phase).steps == 0


@pytest.mark.parametrize("p", [0, 3, 12])
def test_p_that_is_no_power_of_two_is_refused(p: int) -> None:
    with pytest.raises(RoutingError, match=r"power of two.*would fit"):
        ApplicationCube(p)


@pytest.mark.parametrize("n", [2, 4, 6, 8, 10, 12])
@pytest.mark.parametrize("permutation", [bit_reversal, transpose])
def test_greedy_sends_half_a_root_of_the_packets_over_one_link(permutation: Callable[[int], Relation], n: int) -> None:
    traffic = Hypercube(1 << n, "fixed").route(permutation(1 << n))
    assert traffic.max_link_load == 2 ** (n // 2 - 1)
    assert traffic.steps == 2 ** (n // 2 - 1) + n // 2


def test_two_phases_take_steps_linear_in_n_where_greedy_takes_exponentially_many() -> None:
    row = permuted(bit_reversal(1 << 12), runs=2)
    assert row.greedy == 38
    for steps in (row.two_phase, row.two_phase_drawn):
        assert 12 <= steps <= 2.5 * 12


def test_drawn_order_of_the_transpose_sends_too_much_through_equal_halves() -> None:
    n = 10
    network, equal = Hypercube(1 << n, "random"), np.arange(1 << n // 2) * ((1 << n // 2) + 1)
    found = [network.route(transpose(1 << n), seed=seed).node_traffic for seed in range(10)]
    assert np.mean([traffic[equal] for traffic in found]) == pytest.approx(valiant_brebner.through_zero(n), rel=0.05)
    assert valiant_brebner.through_zero(n) > 2 * np.mean(found)


def test_mean_traffic_of_a_node_is_what_the_paper_multiplies_out() -> None:
    n, h = 6, 200
    p = 1 << n
    traffic = ApplicationCube(p).route(uniform_destinations(p, h))
    # Half of the n dimensions on average: h/2 over an inner link, h (1 + n/2) through a node.
    inner = traffic.link_load[: p * n]
    assert inner.mean() == pytest.approx(h / 2, rel=0.02)
    assert traffic.node_traffic[:p].mean() == pytest.approx(h * (1 + n / 2), rel=0.02)


def test_fits_give_back_what_points_are_made_of() -> None:
    line_points = [
        Point(n, h, 1, 1.5 * h + 2.0 * n + 3.0, (0.5 + 0.9 * n) * h, (1.0 + 0.5 * n) * h)
        for n in range(2, 9)
        for h in (1, 4, 16, 64)
    ]
    found = fits([*line_points, Point(9, 1, 1, 1e6, 1e6, 1e6)], (2, 8), (1, 64))  # n = 9 is out of range
    assert found.shifted.coefficients == pytest.approx((1.5, 2.0, 3.0))
    assert found.shifted.residual == pytest.approx(0, abs=1e-9)
    assert found.busiest.coefficients == pytest.approx((0.5, 0.9))
    assert found.mean.coefficients == pytest.approx((1.0, 0.5))
    assert found.r.residual > 0.1
    papers = [Point(n, h, 1, 1.22 * h + 1.6 * n, 0, 0) for n in (2, 3) for h in (1, 2)]
    assert fits(papers, (2, 3), (1, 2)).r.paper == pytest.approx(0, abs=1e-9)


@pytest.mark.whole
def test_the_papers_r_is_phase_2_on_its_network() -> None:
    setting = valiant_brebner.SETTINGS[0]
    points = valiant_brebner.sweep(setting, False, range(2, 7), valiant_brebner.HS, 1 << 13)
    found = fits(points, (2, 6), (1, 64))
    assert found.r.coefficients == pytest.approx(valiant_brebner.PAPER_R, abs=0.1)
    assert found.r.paper < 1.1 * found.r.residual + 0.1
    # d is that of the busiest node: the mean grows by half a packet for each dimension.
    assert found.mean.coefficients == pytest.approx((1.0, 0.5), abs=0.05)


def test_times_follow_the_papers_model_with_its_constants() -> None:
    """With the paper's own r and d in the place of simulated ones, T is its model's, and the barrier's."""
    points = [
        Point(n, h, 1, 1.22 * h + 1.6 * n, (1.1 + 0.7 * n) * h, (1 + 0.5 * n) * h) for n in (2, 3) for h in (50, 100)
    ]
    for row in valiant_brebner.seconds(points):
        a, b = row.model
        assert row.busiest[0] == pytest.approx(a, abs=0.1)
        assert row.busiest[1] - row.barrier == pytest.approx(b, abs=0.5)
        assert row.barrier == pytest.approx(2 * row.n * (12.8 + 14.5))
        assert row.rates[1] == pytest.approx(row.m * 100 / (row.busiest[0] * 100 + row.busiest[1]) * 1e6)


def test_the_papers_rates_are_those_of_its_measured_lines() -> None:
    for n, rates in valiant_brebner.PAPER_RATES.items():
        for m, rate, (a, b) in zip(valiant_brebner.LENGTHS, rates, valiant_brebner.PAPER_MEASURED[n], strict=True):
            assert m * 100 / (100 * a + b) * 1e6 == pytest.approx(rate, rel=0.005)


@pytest.mark.whole
def test_the_script_prints_keeps_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written, drawn = tmp_path / "kept.json", tmp_path / "drawn.png"
    monkeypatch.setattr(valiant_brebner, "HS", (4, 16, 64))
    monkeypatch.setattr(sys, "argv", ["x", "--quick", "--json", str(written), "--plot", str(drawn)])
    valiant_brebner.main()
    text = capsys.readouterr().out
    assert "T(n, m, h) = a h + b" in text
    assert "Theorem 1" in text
    content = json.loads(written.read_text())
    assert len(content["points"]) == 4
    assert [row["greedy"] for row in content["permutations"]["transpose"]][:4] == [2, 4, 7, 12]
    assert drawn.stat().st_size > 10_000
