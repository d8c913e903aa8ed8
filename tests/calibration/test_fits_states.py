"""Machines that go to and fro between two states while they are measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pybsp.benchmarks.calibration.analysis import analyse
from pybsp.benchmarks.calibration.fits.bsp import fit_bsp
from pybsp.benchmarks.calibration.fits.states import _nearest, of_one_state
from pybsp.benchmarks.calibration.patterns import counted
from pybsp.benchmarks.calibration.samples import Point, Raw, Sample

from .generated import line, sampled, swept

P = 4
REFERENCE = counted(Point("repeat", "exchange", "bsp", size=8 * 2048, messages=1), P)
ABOUT = {"p": P, "seed": 0, "hosts": ["here"] * P, "nodes": [0] * P, "cores": [P] * P, "launches": 2, "level": "quick"}


def measured(slow: Callable[[float], bool], noise: float = 0.03) -> list[Sample]:
    """Of a machine that takes twice as long at some times, which are shares of a launch."""
    points: list[Point] = []
    for number, point in enumerate(swept(P, words=(1, 128, 8192))):
        points += [REFERENCE] * (number % 8 == 0) + [point]
    plain = sampled(points, line(1e-5, 1e-6, 1e-9), 2, 20, noise=noise)
    ends = {launch: max(one.at for one in plain if one.launch == launch) for launch in (0, 1)}
    return [one._replace(seconds=one.seconds * (1 + slow(one.at / ends[one.launch]))) for one in plain]


def test_samples_of_the_state_that_lasted_longer_are_taken() -> None:
    both = measured(lambda share: 0.3 < share < 0.7)
    found, others, states = of_one_state(both, both[:1000])
    assert states is not None
    assert states.seconds[1] == pytest.approx(2 * states.seconds[0], rel=0.05)
    assert states.share == pytest.approx(0.6, abs=0.03)
    assert 0.5 < len(found) / len(both) < 0.7
    assert set(others) <= set(found)
    fit, mixed = fit_bsp([one for one in found if one.point.experiment == "bsp"], []), fit_bsp(both, [])
    assert fit is not None
    assert mixed is not None
    assert (fit.l.value, mixed.l.value) == pytest.approx((1e-5, 1.5e-5), rel=0.05)
    assert fit.g.value == pytest.approx(1e-9, rel=0.05)
    assert fit.residuals.p95 < 0.1
    slow = analyse(Raw(dict(ABOUT), measured(lambda share: share < 0.8), [{"event": "finished"}]))
    (flag,) = [flag for flag in slow.flags if flag.code == "two-states"]
    assert "80% of the time" in flag.text or "79% of the time" in flag.text
    assert slow.bsp is not None
    assert slow.bsp.g.value == pytest.approx(2e-9, rel=0.05)


def test_a_point_that_was_only_timed_in_the_other_state_stays() -> None:
    both = measured(lambda share: 0.3 < share < 0.7)
    ends = {launch: max(one.at for one in both if one.launch == launch) for launch in (0, 1)}
    point = next(one.point for one in both if one.point.pattern == "shift")
    left = [one for one in both if one.point != point or 0.35 < one.at / ends[one.launch] < 0.65]
    found, _, states = of_one_state(left, [])
    assert states is not None
    assert [one for one in found if one.point == point] == [one for one in left if one.point == point]


def test_a_launch_that_says_nothing_of_its_state_is_taken_whole() -> None:
    both = measured(lambda share: 0.3 < share < 0.7)
    point = both[-1].point
    third = [one._replace(launch=2) for one in both if one.point == point and one.launch == 1]
    _, others, states = of_one_state(both, [*both, *third])
    assert states is not None
    assert [one for one in others if one.launch == 2] == third
    assert len(others) < len(both)


def test_two_dozen_samples_of_the_reference_tell_states_apart_and_fewer_do_not() -> None:
    each = [Sample(REFERENCE, 0, 0, 1, 1.0 + (k < 10), float(k)) for k in range(24)]
    assert of_one_state(each, [])[2] is not None
    assert of_one_state(each[1:], [])[2] is None


@pytest.mark.parametrize(
    "slow",
    [
        lambda share: False,
        lambda share: 0.5 < share < 0.51,  # too short
        lambda share: int(share * 1000) % 2 == 0,  # no states that last
    ],
    ids=["one", "a moment", "by turns"],
)
def test_one_state_is_one_state(slow: Callable[[float], bool]) -> None:
    samples = measured(slow)
    found, others, states = of_one_state(samples, samples[:10])
    assert (found, others, states) == (samples, samples[:10], None)


def test_times_that_scatter_are_no_states() -> None:
    assert of_one_state(measured(lambda share: False, noise=0.8), [])[2] is None
    rng = np.random.default_rng(0)
    few = [Sample(REFERENCE, 0, n, 1, 1.0 + (n > 5), float(n)) for n in range(12)]
    assert of_one_state(few, [])[2] is None
    drifting = [Sample(REFERENCE, 0, n, 1, 1.0 + n / 100 + 0.01 * rng.random(), float(n)) for n in range(200)]
    assert of_one_state(drifting, [])[2] is None


@pytest.mark.parametrize("times", [[1.0], [1.0, 3.0], [0.0, 1.0, 5.0, 6.0, 7.0]], ids=len)
def test_the_nearest_time_is_found_the_earlier_of_two(times: list[float]) -> None:
    at = np.linspace(-2, 9, 45)
    expected = [min(range(len(times)), key=lambda k, one=one: abs(times[k] - one)) for one in at.tolist()]  # type: ignore[misc]
    assert _nearest(np.array(times), at).tolist() == expected
