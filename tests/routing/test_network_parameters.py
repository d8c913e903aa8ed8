"""Table 1 by measurement: its fits, its relations, and Observation 1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pybsp.benchmarks.studies import network_parameters as study
from pybsp.routing.networks import network

TWO_PHASE = [topology for topology in study.TOPOLOGIES if topology.two_phase]


def test_a_line_is_found_again() -> None:
    line = study.fit_line((1, 2, 4, 8), [3.5 * h + 7 for h in (1, 2, 4, 8)])
    assert (line.gamma, line.delta, line.worst) == pytest.approx((3.5, 7, 0))


def test_a_power_is_found_again_and_what_is_none_has_an_error() -> None:
    x = np.array([16, 64, 256, 1024.0])
    found = study.fit_growth(x, 3 * x**0.5)
    assert found == pytest.approx((3, 0.5, 0))
    logs = 2 * np.log2(x)
    assert study.fit_growth(np.log2(x), logs) == pytest.approx((2, 1, 0))
    assert study.fit_growth(x, logs).error > 0.01


@pytest.mark.parametrize("gamma", [0.3, 1.0, 7.0, 200.0])
@pytest.mark.parametrize("delta", [0.0, 0.1, 1.0, 6.5, 40.0, 1000.0])
def test_no_g_and_l_are_more_than_twice_the_lower_bounds(gamma: float, delta: float) -> None:
    best = study.best(gamma, delta)
    assert max(1, np.ceil(best.L / best.G - 1e-9)) == best.c
    assert np.isclose(best.L, best.c * gamma + delta)
    assert all(1 <= ratio <= 2 for ratio in best.ratios)


@pytest.mark.parametrize("topology", TWO_PHASE, ids=lambda topology: topology.title)
def test_bad_permutations_are_permutations_and_worse_for_greedy_routing_than_random_ones(
    topology: study.Topology,
) -> None:
    p = max(p for p in topology.p if p <= 1024)
    net = network(topology.name, p)
    relation = study.bad_relation(net, 3)
    assert relation.full
    assert relation.h == 3
    greedy, two = (study.route(topology, net, two_phase, True, 32, 0) for two_phase in (False, True))
    assert greedy > 1.3 * study.route(topology, net, False, False, 32, 0)
    if topology.ports == "multi":
        assert greedy > two


@pytest.mark.whole
def test_the_study_prints_its_tables_and_keeps_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [
        topology._replace(h=(1, 4, 16)) for topology in study.TOPOLOGIES if topology.name in ("2d-array", "butterfly")
    ]
    monkeypatch.setattr(study, "TOPOLOGIES", small)
    study.main(["--seeds", "1", "--most", "256", "--json", str(tmp_path / "kept.json")])
    printed = capsys.readouterr().out
    assert "Observation 1" in printed
    rows = json.loads((tmp_path / "kept.json").read_text())["rows"]
    assert [row["routing"] for row in rows] == ["greedy", "greedy", "two phases", "greedy", "two phases"]
    mesh = rows[0]
    assert mesh["p"] == [16, 64, 256]
    assert mesh["gamma"]["p"]["power"] == pytest.approx(0.5, abs=0.1)
    for line, p in zip(mesh["lines"], mesh["p"], strict=True):
        # Half of the packets change halves: sqrt(p)/4 of a processor's cross the middle over each link, and no fewer.
        assert line["gamma"] > 0.9 * p**0.5 / 4
