"""What disturbs a machine is seen in its samples, and said in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pybsp.benchmarks.calibration.fits import noise as of_noise
from pybsp.benchmarks.calibration.fits.noise import noise
from pybsp.benchmarks.calibration.samples import Point, Raw, Sample

from ..tiers import some
from .generated import line, sampled, swept

QUIET = line(1e-4, 5e-6, 1e-8)
REPEAT = [Point("repeat", "empty", "bsp"), Point("repeat", "exchange", "bsp", size=16384, h_out=6144, busiest=3)]
ABOUT: dict[str, Any] = {"p": 4, "nodes": [0] * 4, "cores": [4] * 4, "load": [0.1]}


def supersteps(
    change: Callable[[Sample], float] = lambda sample: 1.0, seed: int = 0, batches: int = 12
) -> list[Sample]:
    """Three launches with 5 % of noise, each sample's time changed by a factor."""
    samples = sampled(REPEAT + swept(), QUIET, batches=batches, noise=0.05, seed=seed)
    return [sample._replace(seconds=sample.seconds * change(sample)) for sample in samples]


def rates(of: Callable[[int, np.random.Generator], float], p: int = 4) -> list[Sample]:
    rng = np.random.default_rng(5)
    return [
        Sample(Point("rate", kernel, size=size, work=1e6), launch, batch, 1, 1e-3 * of(pid, rng), 0.0, pid)
        for kernel in ("axpy", "dot")
        for size in (1 << 15, 1 << 22)
        for launch in range(2)
        for batch in range(10)
        for pid in range(p)
    ]


def codes(samples: list[Sample], **about: Any) -> set[str]:
    return {flag.code for flag in noise(Raw({**ABOUT, **about}, samples))[1]}


def middle(samples: list[Sample]) -> dict[int, float]:
    """The middle of each launch's time."""
    return {launch: max(s.at for s in samples if s.launch == launch) / 2 for launch in {s.launch for s in samples}}


@pytest.mark.whole
def test_a_quiet_machine_raises_no_flag() -> None:
    for seed in range(some(5)):
        samples = supersteps(seed=seed) + rates(lambda pid, rng: 1 + 0.02 * float(rng.standard_normal()))
        found, flags = noise(Raw(ABOUT, samples))
        assert [flag for flag in flags if flag.code != "not-converged"] == []
        assert found.mean_over_median == pytest.approx(1, abs=0.02)
        assert found.drift == pytest.approx(1, abs=0.1)
        assert abs(found.correlation) < 0.1
        assert found.points == 2 + len(swept()) + 4


def test_a_link_whose_rate_changes_half_way_is_drift() -> None:
    halves = middle(supersteps())
    slower = supersteps(lambda s: (1e-4 + 2e-8 * s.point.h) / (1e-4 + 1e-8 * s.point.h) if s.at > halves[0] else 1.0)
    found, flags = noise(Raw(ABOUT, slower))
    drift = [flag for flag in flags if flag.code == "drift"]
    assert any("supersteps of many words" in flag.text for flag in drift)
    assert any("the reference superstep (exchange)" in flag.text for flag in drift)
    assert not any("(empty)" in flag.text for flag in drift)
    assert found.drift is not None
    assert found.drift > 1.1


def test_a_link_whose_rate_changes_between_launches_is_seen() -> None:
    assert "launches-differ" in codes(supersteps(lambda sample: 1.5 if sample.launch == 2 else 1.0))
    assert "launches-differ" not in codes(supersteps(lambda sample: 1.03 if sample.launch == 2 else 1.0))


@pytest.mark.whole
def test_few_launches_are_said() -> None:
    one = [sample for sample in supersteps() if sample.launch == 0]
    assert "few-launches" in codes(one)
    assert "few-launches" not in codes(supersteps())


def test_a_slow_processor_is_named() -> None:
    _, flags = noise(Raw(ABOUT, rates(lambda pid, rng: 2.0 if pid == 2 else 1.0)))
    (flag,) = [flag for flag in flags if flag.code == "slow-processor"]
    assert flag.about == "processor 2"
    assert "2 times slower" in flag.text


def test_of_two_processors_the_slow_one_is_named() -> None:
    _, flags = noise(Raw(ABOUT, rates(lambda pid, rng: 2.0 if pid == 1 else 1.0, p=2)))
    assert [flag.about for flag in flags if flag.code == "slow-processor"] == ["processor 1"]


def test_a_hogged_core_is_named() -> None:
    # Now and then the other process has the core for a while.
    _, flags = noise(Raw(ABOUT, rates(lambda pid, rng: 5.0 if pid == 3 and rng.random() < 0.3 else 1.0)))
    assert [flag.about for flag in flags if flag.code == "shared-core"] == ["processor 3"]


@pytest.mark.whole
def test_more_processors_than_cores_are_said() -> None:
    assert "oversubscribed" in codes(supersteps(), cores=[2] * 4)
    assert "oversubscribed" not in codes(supersteps(), cores=[4] * 4)
    assert "oversubscribed" in codes(supersteps(), nodes=[0, 0, 0, 1], cores=[2] * 4)
    assert "oversubscribed" not in codes(supersteps(), nodes=[0, 0, 1, 1], cores=[2] * 4)
    # Of each processor, as the raw file has them: node 1 has fewer.
    assert "oversubscribed" in codes(supersteps(), nodes=[0, 0, 1, 1], cores=[2, 2, 1, 1])
    assert "oversubscribed" not in codes(supersteps(), nodes=[0, 1, 1, 1], cores=[1, 3, 3, 3])


@pytest.mark.whole
def test_a_busy_machine_is_said() -> None:
    assert "not-dedicated" in codes(supersteps(), load=[1.7])
    assert "not-dedicated" not in codes(supersteps(), load=[None])


@pytest.mark.whole
def test_samples_that_scatter_are_said() -> None:
    rng = np.random.default_rng(2)
    assert "noisy" in codes(supersteps(lambda sample: 1 + 9 * (rng.random() < 0.1)))


def test_points_that_are_not_known_well_are_counted() -> None:
    few = sampled(swept(), QUIET, batches=2, each=2, noise=0.3)
    found, flags = noise(Raw(ABOUT, few))
    assert found.unconverged > found.points / 2
    assert any(flag.code == "not-converged" and str(found.unconverged) in flag.text for flag in flags)


def test_samples_that_resemble_their_neighbours_do_not_pass_for_many() -> None:
    rng = np.random.default_rng(4)
    point = Point("bsp", "empty", "bsp")
    deviations = 0.1 * rng.standard_normal(16)
    series = np.repeat(deviations, 40)
    free = rng.permutation(series)  # the same times, but each tells something new
    for times, converged in ((series, False), (free, True)):
        found, _ = noise(Raw(ABOUT, [Sample(point, 0, n, 1, 1e-3 * (1 + x), n) for n, x in enumerate(times.tolist())]))
        assert found.unconverged == (not converged)


def test_batches_that_follow_one_another_show_as_correlation() -> None:
    rng = np.random.default_rng(3)
    level: dict[tuple[int, int], float] = {}
    slow = 0.0
    for launch in range(3):
        for batch in range(12):
            slow = 0.9 * slow + 0.1 * float(rng.standard_normal())
            level[launch, batch] = float(np.exp(slow))
    found, _ = noise(Raw(ABOUT, supersteps(lambda sample: level[sample.launch, sample.batch])))
    assert found.correlation > 0.3


def test_nothing_measured_is_no_error() -> None:
    found, flags = noise(Raw({"p": 2}))
    assert (found.points, found.drift, found.unconverged, flags) == (0, None, 0, ())


def of_one_point(point: Point, seconds: list[float], launch: int = 0, begun: float = 0.0) -> list[Sample]:
    return [Sample(point, launch, batch, 1, taken, begun + batch) for batch, taken in enumerate(seconds)]


@pytest.mark.parametrize(
    ("seconds", "found"),
    [([1, 1, 1, 1, 3], 1.4), ([1, 1, 1, 3], 1.0), ([1, 1, 1, 3, 0], 1.0), ([1, 1, 1, 1, 3, 0], 1.4)],
)
@pytest.mark.fast
def test_means_and_medians_are_compared_where_five_samples_took_time(seconds: list[float], found: float) -> None:
    assert noise(Raw(ABOUT, of_one_point(REPEAT[0], seconds)))[0].mean_over_median == pytest.approx(found)


def test_what_drifts_is_named_with_its_launch_and_how_much() -> None:
    steady, slower = [1.0] * 10, [1.0] * 6 + [1.25] * 4
    samples = of_one_point(REPEAT[0], steady) + of_one_point(REPEAT[1], steady)
    samples += of_one_point(REPEAT[0], steady, 1) + of_one_point(REPEAT[1], slower, 1)
    found, flags = noise(Raw(ABOUT, samples))
    assert found.drift == pytest.approx(1.25)
    (text,) = [flag.text for flag in flags if flag.code == "drift"]
    assert text.endswith(
        "the reference superstep (exchange) took 1.25 times as long at the end of launch 1 as at its start"
    )


def test_a_launch_of_which_too_little_is_known_hides_no_drift_of_the_next() -> None:
    samples = of_one_point(REPEAT[0], [1.0]) + of_one_point(REPEAT[0], [1.0] * 6 + [1.25] * 4, 1, begun=1000.0)
    found, flags = noise(Raw(ABOUT, samples))
    assert found.drift == pytest.approx(1.25)
    assert [flag.code for flag in flags if flag.code == "drift"] == ["drift"]


def test_what_is_measured_at_the_end_of_a_launch_only_says_nothing_of_drift() -> None:
    samples = of_one_point(REPEAT[0], [1.0] * 6 + [1.25, 1.5, 1.25, 1.5])
    beside = of_one_point(REPEAT[1], [1.0, 9.0, 1.0], begun=7.0)
    assert of_noise._end_over_start(samples + beside) == of_noise._end_over_start(samples)


def test_large_supersteps_are_those_of_more_words_than_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[set[int]] = []
    monkeypatch.setattr(of_noise, "_end_over_start", lambda samples: looked_at.append({s.point.h for s in samples}))
    points = [Point("bsp", "exchange", "bsp", size=8 * h, h_out=h) for h in (0, 10, 20, 30)]
    noise(Raw(ABOUT, [sample for point in points for sample in of_one_point(point, [1.0] * 3)]))
    assert looked_at == [{30}]


def test_launches_without_a_point_in_common_are_not_compared() -> None:
    points = [Point("bsp", "exchange", "bsp", size=8 * h, h_out=h) for h in (1, 2, 3)]
    samples = [one for launch, point in enumerate(points) for one in of_one_point(point, [10.0**launch], launch)]
    assert "launches-differ" not in codes(samples)


@pytest.mark.parametrize(("errors", "flagged"), [(2.9, False), (3.1, True)])
def test_a_drift_is_flagged_from_three_standard_errors_on(
    monkeypatch: pytest.MonkeyPatch, errors: float, flagged: bool
) -> None:
    monkeypatch.setattr(of_noise, "_end_over_start", lambda _: (1.2, math.log(1.2) / errors))
    _, flags = noise(Raw(ABOUT, of_one_point(REPEAT[0], [1.0] * 10)))
    assert any(flag.code == "drift" for flag in flags) == flagged


def test_flags_say_which_node_and_which_launch() -> None:
    def text(code: str, samples: list[Sample], **about: Any) -> list[str]:
        return [flag.text for flag in noise(Raw({**ABOUT, **about}, samples))[1] if flag.code == code]

    samples = supersteps(lambda sample: {0: 1.0, 1: 0.8, 2: 1.2}[sample.launch])
    (differ,) = text("launches-differ", samples)
    assert differ.startswith("launches differ: supersteps of launch 2 took 1.5 times as long as those of launch 1")
    (shared,) = text("oversubscribed", [], nodes=[0, 1, 1, 1], cores=[1, 2, 2, 2])
    assert shared.startswith("3 processors share 2 core(s) on node 1:")
    (busy,) = text("not-dedicated", [], load=[None, 0.5, 0.75])
    assert busy == "node 2 was busy before the calibration began: a load average of 0.75"
    assert text("few-launches", supersteps()[:8])[0].startswith("1 launch:")


def test_a_processor_whose_kernels_have_few_samples_shares_no_core() -> None:
    point = Point("rate", "axpy", size=1 << 15, work=1e6)
    for seconds, skewed in (([1, 1, 1, 1, 3], True), ([1, 1, 1, 3], False)):
        samples = [Sample(point, 0, n, 1, one, 0.0, pid) for pid in range(2) for n, one in enumerate(seconds)]
        flags = [flag for flag in noise(Raw(ABOUT, samples))[1] if flag.code == "shared-core"]
        assert [(flag.about, "1.4 times" in flag.text) for flag in flags] == [
            (f"processor {pid}", True) for pid in range(2) if skewed
        ]
