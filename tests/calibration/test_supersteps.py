"""Supersteps and kernels timed: exactly on virtual processors, on MPI ranks the same list everywhere."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.benchmarks.calibration import sampling
from pybsp.benchmarks.calibration import supersteps as bench_module
from pybsp.benchmarks.calibration.design import all_points
from pybsp.benchmarks.calibration.samples import EXCHANGE, Point, Sample
from pybsp.benchmarks.calibration.supersteps import Bench, drift
from pybsp.errors import UsageError

from ..launching import mpiexec, python, run

QUICK = sampling.sampling_level("quick")
FEW = replace(QUICK, batch=2)  # samples of a point in a visit
MACHINE = pybsp.BSPMachine(p=4, g=3e-8, l=2e-4, r=5e8, o_msg=4e-6, o_item=5e-8)


def time_all(bsp: pybsp.BSP, nodes: tuple[int, ...] | None) -> tuple[list[Sample], tuple[int, int], bool]:
    bench = Bench(bsp, FEW, launch=2, nodes=nodes)
    steady = bench.warm()
    bench.pilot()
    timed, dropped = bench.affordable(all_points(bsp.p, "quick", nodes=nodes))
    samples = [sample for visit in range(2) for point in timed for sample in bench.measure(point, visit)]
    return samples, (len(timed), len(dropped)), steady


@pytest.mark.usefixtures("nobody_computes")
@pytest.mark.parametrize(("p", "nodes"), [(1, None), (2, None), (4, (0, 0, 1, 1)), (5, None)])
def test_virtual_processors_give_the_machine_back_exactly(p: int, nodes: tuple[int, ...] | None) -> None:
    machine = replace(MACHINE, p=p)
    done = pybsp.simulate(time_all, nodes, p=p, machine=machine)
    samples, (timed, dropped), steady = done.results[0]
    assert all(result == done.results[0] for result in done.results)
    assert steady
    assert dropped == 0
    assert len({sample.point for sample in samples}) == timed
    for sample in samples:
        q = sample.point
        expected = q.work / machine.r if q.experiment == "rate" else machine.time(0, q.h, q.busiest, q.items)
        assert sample.seconds == pytest.approx(expected, rel=1e-9), q
        assert sample.launch == 2
        assert sample.batch in (0, 1)


@pytest.mark.whole
@pytest.mark.usefixtures("nobody_computes")
def test_measuring_twice_gives_the_same_samples() -> None:
    first, again = (pybsp.simulate(time_all, None, p=3, machine=replace(MACHINE, p=3)) for _ in range(2))
    assert first.results == again.results
    assert first.time == again.time


def test_a_kernel_has_a_sample_of_each_processor() -> None:
    point = Point("rate", "dot", size=1 << 14, work=2048.0)
    (samples, *_) = pybsp.simulate(lambda bsp: Bench(bsp, QUICK).measure(point, 0), p=3, machine=MACHINE3).results
    assert [sample.pid for sample in samples] == [0, 1, 2] * QUICK.batch
    assert {sample.at for sample in samples[:3]} == {samples[0].at}
    assert [sample.at for sample in samples[::3]] == sorted(sample.at for sample in samples[::3])


MACHINE3 = replace(MACHINE, p=3)


def test_the_indices_of_a_pattern_that_is_made_go_to_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else calibration on several hosts would say that they take no time."""
    went: list[int] = []
    pattern = pybsp.Array.pattern

    def noted(self: pybsp.Array, *args: Any) -> Any:
        found = pattern(self, *args)
        went.append(found.index_bytes)
        return found

    monkeypatch.setattr(pybsp.Array, "pattern", noted)
    point = Point("way", "making", "bsp", EXCHANGE, size=8 * 20, messages=1)
    pybsp.simulate(lambda bsp: Bench(bsp, FEW).measure(point, 0), p=3, machine=MACHINE3)
    assert set(went) == {8 * 20}


def test_points_that_take_too_long_are_left_out_by_what_the_pilot_saw() -> None:
    slow = replace(MACHINE, g=1e-6)

    def main(bsp: pybsp.BSP) -> tuple[list[Point], list[Point]]:
        bench = Bench(bsp, QUICK)
        bench.pilot()
        return bench.affordable(all_points(bsp.p, "quick"))

    timed, dropped = pybsp.simulate(main, p=4, machine=slow).results[0]
    assert timed
    assert dropped
    assert all(q.experiment == "rate" or slow.time(0, q.h, q.busiest, q.items) <= QUICK.slowest for q in timed)
    assert all(slow.time(0, q.h, q.busiest, q.items) > QUICK.slowest for q in dropped)


def test_a_sample_is_of_as_many_supersteps_as_it_says_where_the_clock_is_coarse() -> None:
    def main(bsp: pybsp.BSP) -> list[Sample]:
        bench = Bench(bsp, QUICK)
        bench.timer = sampling.Timer(overhead=1e-7, resolution=1e-5)
        return bench.measure(Point("bsp", "empty", "bsp"), 0)

    l = 3e-4  # noqa: E741 - 100 times the resolution lasts as long as 3.3 of these
    samples = pybsp.simulate(main, p=4, machine=replace(MACHINE, l=l)).results[0]
    assert [sample.repeats for sample in samples] == [4] * QUICK.batch
    assert [sample.seconds for sample in samples] == pytest.approx([l] * QUICK.batch)
    assert np.diff([sample.at for sample in samples]) == pytest.approx(4 * l)


def test_visits_of_slow_points_take_fewer_samples() -> None:
    slow = replace(MACHINE, l=QUICK.visit / 2.5)

    def main(bsp: pybsp.BSP) -> int:
        return len(Bench(bsp, QUICK).measure(Point("bsp", "empty", "bsp"), 0))

    assert pybsp.simulate(main, p=4, machine=slow).results[0] == 2
    assert pybsp.simulate(main, p=4, machine=MACHINE).results[0] == QUICK.batch


def test_warming_up_is_given_up_where_supersteps_go_on_to_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(MACHINE, p=2)

    def main(bsp: pybsp.BSP) -> bool:
        return Bench(bsp, replace(QUICK, warm=0.05)).warm()

    assert pybsp.simulate(main, p=2, machine=machine).results == [True, True]
    monkeypatch.setattr(bench_module, "drift", lambda values: 0.03)
    assert pybsp.simulate(main, p=2, machine=machine).results == [False, False]


def test_drift_is_what_a_line_through_the_values_rises_by() -> None:
    assert drift([1.0, 1.0, 1.0, 1.0, 1.0]) == 0
    assert drift([1.0, 1.1, 1.2, 1.3, 1.4]) == pytest.approx(0.4 / 1.2)
    assert drift([1.4, 1.3, 1.2, 1.1, 1.0]) == pytest.approx(0.4 / 1.2)
    assert drift([1.0, 1.2, 1.0, 1.2, 1.0]) == pytest.approx(0, abs=1e-12)


def test_garbage_collection_is_off_while_timing_and_as_it_was_after(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    reading = pybsp.BSP.time

    def time(self: pybsp.BSP) -> float:
        seen.append(gc.isenabled())
        return reading(self)

    def main(bsp: pybsp.BSP) -> None:
        bench = Bench(bsp, QUICK)
        seen.clear()
        bench.measure(Point("bsp", "empty", "bsp"), 0)

    monkeypatch.setattr(pybsp.BSP, "time", time)
    assert gc.isenabled()
    pybsp.simulate(main, p=1, machine=replace(MACHINE, p=1))
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_what_is_no_kernel_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"expected a kernel of axpy, dot, matmul, sort, got 'fft'"):
        pybsp.simulate(lambda bsp: Bench(bsp, QUICK).measure(Point("rate", "fft"), 0), p=1)


# -- on MPI ranks ------------------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys, time
from dataclasses import replace
import pybsp
from pybsp.benchmarks.calibration import design, samples, sampling, supersteps

supersteps.KERNELS["nap"] = lambda size: lambda: time.sleep(0.01)

def main(bsp):
    level = sampling.sampling_level("quick")
    bench = supersteps.Bench(bsp, level)
    naps = [sample.seconds for sample in bench.measure(samples.Point("rate", "nap", work=1.0), 0)]
    bench.warm()
    bench.pilot()
    kept, dropped = bench.affordable(design.all_points(bsp.p, "quick"))
    begin = bsp.time()
    # Of others than these nobody below asks for the shortest time, which beside other work takes some visits.
    visits = [
        (visit, point)
        for visit in range(3)
        for point in design.order(kept, 0, 0, visit)
        if visit == 0 or point.experiment in ("bsp", "queue")
    ]
    found = []
    for visit, point in visits:
        bench.settings = replace(level, batch=1) if point.delay else level  # one sample after each long computing
        found += bench.measure(point, visit)
    mine = json.dumps(found)
    bsp.send(0, mine)
    bsp.sync()
    if bsp.pid == 0:
        equal = all(m.payload == mine for m in bsp.inbox)
        about = {"equal": equal, "dropped": len(dropped), "timer": bench.timer, "begin": begin, "end": bsp.time()}
        with open(sys.argv[1], "w") as file:
            json.dump({"samples": found, "naps": naps, **about}, file)

pybsp.run(main)
"""


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.whole)])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What MPI ranks measured."""
    folder: Path = tmp_path_factory.mktemp("measured")
    (folder / "program.py").write_text(PROGRAM)
    ended = run([*mpiexec(request.param), *python(folder / "program.py", str(folder / "out.json"))], 90)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    found["p"] = request.param
    found["samples"] = [Sample(Point(*point), *rest) for point, *rest in found["samples"]]
    return found


def taken(found: dict[str, Any], experiment: str, typical: Callable[[list[float]], Any] = min) -> dict[Point, float]:
    """Seconds of each point: the shortest that was seen, as others may want the cores while tests run."""
    points: dict[Point, list[float]] = {}
    for sample in found["samples"]:
        if sample.point.experiment == experiment:
            points.setdefault(sample.point, []).append(sample.seconds)
    return {point: float(typical(values)) for point, values in points.items()}


def test_all_ranks_have_the_same_samples_of_all_points(measured: dict[str, Any]) -> None:
    assert measured["equal"]
    seen = {sample.point for sample in measured["samples"]}
    assert len(seen) + measured["dropped"] == len(all_points(measured["p"], "quick"))
    for experiment in {point.experiment for point in seen}:
        for point, seconds in taken(measured, experiment, np.median).items():
            # Of an exchange computing is taken off, of an uneven superstep an empty one: beside other work nothing may
            # be left. What they come to is held exactly on virtual processors, above.
            assert seconds > 0 or point.uneven or point.where == EXCHANGE, point


def test_times_are_of_the_wall_and_not_of_the_cpu(measured: dict[str, Any]) -> None:
    assert len(measured["naps"]) == QUICK.batch * measured["p"]
    assert min(measured["naps"]) >= 0.01


def test_a_sample_lasts_a_hundred_times_what_the_clock_tells_apart(measured: dict[str, Any]) -> None:
    grain = 100 * max(measured["timer"])
    assert 0 < grain < 1e-3
    # K is chosen by the visit before; a superstep may have become faster since, so compare the bulk.
    # Exchanges alone are timed one by one, as ledgers time them.
    samples = [sample for sample in measured["samples"] if sample.point.where != EXCHANGE]
    assert np.mean([sample.seconds * sample.repeats >= grain for sample in samples]) > 0.6
    assert all(sample.repeats % 2 == 0 for sample in samples if measured["p"] == 2 and sample.pid < 0)


def test_samples_follow_one_another_in_time(measured: dict[str, Any]) -> None:
    times = [sample.at for sample in measured["samples"] if sample.pid <= 0]
    assert times == sorted(times)
    assert measured["begin"] <= times[0]
    assert times[-1] <= measured["end"]
    spent = sum(sample.seconds * sample.repeats for sample in measured["samples"] if sample.pid <= 0)
    assert spent <= 1.5 * (measured["end"] - measured["begin"])


def test_more_words_take_longer_than_few_or_none(measured: dict[str, Any]) -> None:
    found = taken(measured, "bsp")
    exchanged = {q: seconds for q, seconds in found.items() if q.pattern == "exchange"}
    empty = next(seconds for q, seconds in found.items() if q.pattern == "empty")
    largest = max(exchanged, key=lambda q: q.h)
    assert exchanged[largest] > min(exchanged.values())
    assert exchanged[largest] > empty
    # No memory moves a word in 10 ps, and no network worth the name takes a microsecond.
    assert 1e-11 < exchanged[largest] / largest.h < 1e-6


def test_kernels_compute_no_faster_than_processors_can(measured: dict[str, Any]) -> None:
    rates = {q: q.work / seconds for q, seconds in taken(measured, "rate").items()}
    assert {q.pattern for q in rates} == {"axpy", "dot", "matmul", "sort"}
    assert all(1e7 < rate < 1e12 for rate in rates.values())
    assert all(math.isfinite(rate) for rate in rates.values())
    pids = {sample.pid for sample in measured["samples"] if sample.point.experiment == "rate"}
    assert pids == set(range(measured["p"]))


def test_many_messages_at_once_cost_less_through_a_queue_than_one_by_one(measured: dict[str, Any]) -> None:
    queue = {q: seconds / q.items for q, seconds in taken(measured, "queue").items()}
    single = {q: seconds / q.busiest for q, seconds in taken(measured, "bsp").items() if q.pattern == "exchange"}
    assert queue
    assert single
    assert max(queue.values()) < min(single.values())


# -- how long to sample ------------------------------------------------------------------------------------------------


def test_a_clock_is_measured_for_what_it_shows() -> None:
    reading = iter(range(10**6))
    coarse = sampling.timer(lambda: next(reading) // 4 * 1e-6)
    assert coarse.resolution == pytest.approx(1e-6)
    assert coarse.overhead == pytest.approx(0.25e-6, rel=0.05)
    still = sampling.timer(lambda: 7.0)
    assert tuple(still) == (0.0, 0.0)
    assert not still.runs
    assert coarse.repeats(1e-5) == 10
    assert coarse.repeats(1.0) == 1
    assert still.repeats(0.0) == 1


def sampled(values: Any) -> list[Sample]:
    return [Sample(Point("bsp", "empty"), 0, 0, 2, float(value), float(n)) for n, value in enumerate(values)]


def test_sampling_stops_when_the_median_is_known_and_only_at_looks() -> None:
    rng = np.random.default_rng(0)
    steady = sampling.PointProgress(QUICK)
    steady.add(sampled(rng.normal(1.0, 0.01, 19) * 1e-6))
    assert (steady.converged, steady.done) == (False, False)
    steady.add(sampled([1e-6]))
    assert (steady.converged, steady.done) == (True, True)
    wild = sampling.PointProgress(QUICK)
    while not wild.done:
        wild.add(sampled(rng.exponential(1e-6, 5)))
        assert len(wild.values) <= QUICK.most
    assert not wild.converged
    assert len(wild.values) == QUICK.most


def test_sampling_stops_when_the_seconds_of_a_point_are_spent() -> None:
    rng = np.random.default_rng(1)
    slow = sampling.PointProgress(QUICK)
    while not slow.done:
        slow.add(sampled(rng.exponential(QUICK.point / 4, 2)))
    assert not slow.converged
    assert 8 <= len(slow.values) < QUICK.first


def test_of_a_kernel_the_slowest_processor_counts() -> None:
    progress = sampling.PointProgress(QUICK)
    point = Point("rate", "dot", work=1.0)
    progress.add([Sample(point, 0, 0, 2, seconds, 5.0, pid) for pid, seconds in enumerate((1.0, 3.0, 2.0))])
    assert progress.values == [3.0]
    assert progress.spent == 6.0


def test_samples_that_resemble_their_neighbours_do_not_pass_for_independent_ones() -> None:
    rng = np.random.default_rng(2)
    independent = rng.normal(0, 1, 640)
    series = np.empty(640)
    series[0] = independent[0]
    for n in range(1, 640):
        series[n] = 0.9 * series[n - 1] + math.sqrt(1 - 0.81) * independent[n]
    assert sampling.lasting((10 + independent).tolist())[0] == 1
    length, medians_ = sampling.lasting((10 + series).tolist())
    assert length >= 8
    assert medians_.size == 640 // length


def test_a_level_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(UsageError, match=r"one of quick, default, thorough, got 'slow'"):
        sampling.sampling_level("slow")
