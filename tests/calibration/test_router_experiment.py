"""The paper's router experiment: on virtual processors its lines are the machine's own."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

import pybsp
from pybsp.benchmarks.studies.router_experiment import MEASURED, Asked, Experiment, line, model, relation
from pybsp.processes.mpiexec import launcher
from tests.launching import run


@pytest.mark.parametrize("p", [2, 3, 8])
def test_everyone_sends_h_packets_and_receives_h_from_others(p: int) -> None:
    found = relation(p, 50, np.random.default_rng(1))
    assert found.shape == (50, p)
    assert (np.sort(found, axis=1) == np.arange(p)).all()
    assert (found != np.arange(p)).all()


@pytest.mark.parametrize("by", ["mail", "queue"])
def test_the_line_is_the_machines_on_virtual_processors(by: str) -> None:
    asked = Asked(by=(by,), degrees=(1, 7, 40), repetitions=2)
    machine = pybsp.BSPMachine(p=4, g=2e-6, l=1e-3, r=1e9)
    times = pybsp.simulate(lambda bsp: Experiment(bsp, asked).times(), machine=machine).results[0]
    for size in asked.sizes:
        found = line(asked.degrees, np.array(times[by][str(size)]))
        assert found.a.value == pytest.approx(2e-6 * math.ceil(size / 8))
        assert found.b.value == pytest.approx(1e-3)
        assert found.misfit < 1e-9
        assert found.a.low == pytest.approx(found.a.high)


@pytest.mark.whole
def test_the_interval_of_a_noisy_line_holds_the_truth() -> None:
    degrees = (1, 2, 5, 10, 20, 50, 100, 200, 400)
    truth = 3e-6 * np.array(degrees) + 2e-4
    rng = np.random.default_rng(3)
    inside = 0
    for seed in range(200):
        times = truth[:, None] * rng.lognormal(-0.02, 0.2, (len(degrees), 20))  # of mean 1
        found = line(degrees, times, seed)
        inside += found.a.low <= 3e-6 <= found.a.high
    assert 0.90 <= inside / 200 <= 0.985


def test_the_papers_model_gives_the_papers_table() -> None:
    stated = {
        (4, 8): (51.9, 41),
        (4, 16): (67.5, 82),
        (4, 32): (98.8, 164),
        (4, 64): (161.2, 328),
        (8, 8): (62.0, 61),
        (8, 16): (77.6, 123),
        (8, 32): (108.9, 246),
        (8, 64): (171.3, 492),
    }
    assert stated.keys() == MEASURED.keys()
    for (p, size), (a, b) in stated.items():
        found = model(p, size)
        assert 1e6 * found[0] == pytest.approx(a, abs=0.1)  # 98.71 is 98.8 there
        assert 1e6 * found[1] == pytest.approx(b, abs=0.6)


@pytest.mark.whole
def test_it_runs_on_the_ranks_of_a_launcher(tmp_path: object) -> None:
    path = f"{tmp_path}/found.json"
    arguments = ["--h", "1", "30", "--repetitions", "2", "--bytes", "8", "--by", "mail", "queue", "--output", path]
    ended = run([*launcher(2), sys.executable, "-m", "pybsp.benchmarks.studies.router_experiment", *arguments])
    assert ended.code == 0, ended.err
    with open(path) as file:
        found = json.load(file)
    times = np.array(found["runs"][0]["routers"]["direct"]["queue"]["8"])
    assert found["runs"][0]["p"] == 2
    assert times.shape == (2, 2)
    assert (times > 0).all()
    assert ended.out.count("direct") == 2
