"""One clock for all processors: offsets found, and errors that hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.benchmarks.calibration.clock import KEPT, Clock, offset, synchronise
from pybsp.benchmarks.calibration.layers import LogPLayer
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
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.round_trip == pytest.approx(4e-3)
    assert found.bound == pytest.approx(2e-3)


def test_round_trips_that_were_held_up_are_left_out() -> None:
    way = np.full(10, 1e-3)
    there = way + np.array([0, 50e-3] * 5)
    assert questions(-3.0, there, way).offset == pytest.approx(-3.0)
    assert questions(-3.0, way, there).offset == pytest.approx(-3.0)


def test_the_offset_is_never_wrong_by_more_than_the_bound() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        there, back = random.exponential(1e-3, 12), 0.5e-3 + random.exponential(0.2e-3, 12)
        found = questions(1.0, there, back)
        kept = np.sort(there + back)[KEPT - 1]
        assert abs(found.offset - 1.0) <= kept / 2
        assert found.round_trip == pytest.approx((there + back).min())


def test_a_clock_serves_for_times_that_its_error_is_small_against() -> None:
    clock = Clock(offset=1.0, error=10e-6)
    assert clock.serves(200e-6)
    assert not clock.serves(199e-6)
    assert clock.own(clock.common(3.5)) == pytest.approx(3.5)


def test_clocks_of_processors_that_are_apart_are_brought_together() -> None:
    apart = [0.0, 2e-3, -0.5, 7.0]

    def program(proc: Processor) -> tuple[Clock, float]:
        layer = LogPLayer(proc)
        true = layer.clock
        layer.clock = lambda: true() + apart[proc.pid]
        clock = synchronise(layer)
        return clock, clock.common(layer.clock()) - true()

    machine = LogPMachine(4, L=50, o=3, G=10, step=1e-6)
    results = simulate(program, machine=machine).results
    for pid, (clock, wrong) in enumerate(results):
        assert clock.offset == pytest.approx(apart[pid], abs=1e-9)
        assert wrong == pytest.approx(0, abs=1e-9)
        assert clock.round_trip == pytest.approx(2e-6 * (50 + 2 * 3) if pid else 0, abs=1e-9)


PROGRAM = """\
import json, time
from pybsp import logp
from pybsp.benchmarks.calibration.clock import synchronise
from pybsp.benchmarks.calibration.layers import LogPLayer, RawLayer

AHEAD = 12.5

def shifted(layer):
    layer.clock = lambda: time.perf_counter() + AHEAD * layer.pid
    return synchronise(layer)

ours = logp.run(lambda proc: shifted(LogPLayer(proc)))
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()
found = comm.gather((shifted(RawLayer(comm)), ours))
if comm.rank == 0:
    print(json.dumps(found))
"""


def test_clocks_of_ranks_of_one_host_are_found_to_agree(tmp_path: Path) -> None:
    """They are one clock, which the last rank reads with what was added on purpose."""
    path = tmp_path / "clocks.py"
    path.write_text(PROGRAM)
    ended = run([*mpiexec(3), *python(path)])
    assert ended.code == 0, ended.err
    for pid, both in enumerate(json.loads(ended.out)):
        for clock in (Clock(*one) for one in both):
            # Those of a round trip somewhat longer than the shortest are kept as well.
            assert abs(clock.offset - 12.5 * pid) <= clock.bound + clock.error
            assert clock.round_trip < 1.0
