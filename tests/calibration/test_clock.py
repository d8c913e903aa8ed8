"""How far clocks are apart: found, and never wrong by more than a message may take."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.benchmarks.calibration.clock import answer, ask
from pybsp.benchmarks.calibration.layers import LogPLayer
from pybsp.ground.clocks import SHORTEST, Clock, offset
from pybsp.logp import Processor, simulate

from ..launching import mpiexec, python, run


def questions(ahead: float, there: np.ndarray, back: np.ndarray) -> Clock:
    """What is found of a clock that is ahead, by messages that take so long each way."""
    asked = np.arange(len(there), dtype=float)
    return offset(asked, asked + there + ahead, asked + there + back)


def test_an_offset_is_exact_where_both_ways_take_as_long() -> None:
    way = np.full(8, 2e-3)
    found = questions(5.0, way, way)
    assert found.offset == pytest.approx(5.0)
    assert found.round_trip == pytest.approx(4e-3)
    assert found.own(3.5) == pytest.approx(8.5)


def test_round_trips_that_were_held_up_are_left_out() -> None:
    way = np.full(10, 1e-3)
    there = way + np.array([0, 50e-3] * 5)
    assert questions(-3.0, there, way).offset == pytest.approx(-3.0)
    assert questions(-3.0, way, there).offset == pytest.approx(-3.0)


def test_the_offset_is_that_of_the_four_shortest_round_trips() -> None:
    there, back = np.full(12, 9e-3), np.full(12, 5e-3)
    there[[1, 4, 6, 11]] = 1e-3, 3e-3, 5e-3, 7e-3  # there it takes longer, by -4, -2, 0 and 2 ms
    assert questions(0.0, there, back).offset == pytest.approx(-0.5e-3)
    assert questions(0.0, there[[1, 4, 6]], back[[1, 4, 6]]).offset == pytest.approx(-1e-3)


def test_the_offset_is_never_wrong_by_more_than_half_a_round_trip() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        there, back = random.exponential(1e-3, 12), 0.5e-3 + random.exponential(0.2e-3, 12)
        found = questions(1.0, there, back)
        worst = np.sort(there + back)[SHORTEST - 1]
        assert abs(found.offset - 1.0) <= worst / 2
        assert found.round_trip == pytest.approx((there + back).min())


def test_clocks_of_processors_that_are_apart_are_found_so_by_both() -> None:
    offsets = [0.0, 2e-3, -0.5, 7.0]

    def program(proc: Processor) -> list[Clock]:
        layer = LogPLayer(proc)
        true = layer.clock
        layer.clock = lambda: true() + offsets[proc.pid]
        return [ask(layer, pid) for pid in range(1, proc.p)] if proc.pid == 0 else [answer(layer, 0)]

    machine = LogPMachine(4, L=50, o=3, G=10, step=1e-6)
    asked, *answered = simulate(program, machine=machine).results
    assert [clock for (clock,) in answered] == asked
    for clock, ahead in zip(asked, offsets[1:], strict=True):
        assert clock.offset == pytest.approx(ahead, abs=1e-9)
        assert clock.round_trip == pytest.approx(2e-6 * (50 + 2 * 3), abs=1e-9)


PROGRAM = """\
import json, time
from pybsp import logp
from pybsp.benchmarks.calibration.clock import answer, ask
from pybsp.benchmarks.calibration.layers import LogPLayer, RawLayer

AHEAD = 12.5

def shifted(layer):
    start = layer.clock()
    time.sleep(0.05)
    slept = layer.clock() - start
    layer.clock = lambda: time.perf_counter() + AHEAD * layer.pid
    clocks = [ask(layer, pid) for pid in range(1, layer.p)] if layer.pid == 0 else [answer(layer, 0)]
    return slept, clocks

ours = logp.run(lambda proc: shifted(LogPLayer(proc)))
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()
found = comm.gather((shifted(RawLayer(comm)), ours))
if comm.rank == 0:
    print(json.dumps(found))
"""


@pytest.mark.whole
def test_clocks_of_ranks_of_one_host_are_found_to_agree(tmp_path: Path) -> None:
    """They are one clock, which the last rank reads with what was added on purpose."""
    path = tmp_path / "clocks.py"
    path.write_text(PROGRAM)
    ended = run([*mpiexec(3), *python(path)])
    assert ended.code == 0, ended.err
    for layer in zip(*json.loads(ended.out), strict=True):
        assert all(slept >= 0.05 for slept, _ in layer)  # of the wall: one of CPU time would stand still
        (_, asked), *others = layer
        assert [clock for _, (clock,) in others] == asked
        for pid, clock in enumerate((Clock(*one) for one in asked), 1):
            assert clock.offset == pytest.approx(12.5 * pid, abs=0.5)
            assert clock.round_trip < 1.0
