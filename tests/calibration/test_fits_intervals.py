"""Medians, their intervals, and the distributions that intervals are made with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pybsp.benchmarks.calibration.fits import bootstrap
from pybsp.benchmarks.calibration.fits.intervals import (
    batch_medians,
    double_batches,
    f_tail,
    lag1,
    median_interval,
    t_quantile,
)
from pybsp.benchmarks.calibration.fits.least_squares import condition, nonnegative, relative
from pybsp.benchmarks.calibration.samples import Point, Sample


def test_the_interval_of_a_median_is_of_order_statistics() -> None:
    # n = 20: floor((20 - 1.96*sqrt(20))/2) = 5, ceil(1 + (20 + 1.96*sqrt(20))/2) = 16
    assert median_interval(list(range(1, 21))) == (10.5, 5, 16)
    assert median_interval([3.0, 1.0, 2.0]) == (2, 1, 3)
    assert median_interval([7.0]) == (7, 7, 7)
    assert math.isnan(median_interval([]).value)


@pytest.mark.whole
@pytest.mark.parametrize("n", [3, 5, 9])
def test_medians_drawn_again_vary_as_medians_do_when_they_are_shrunk(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.standard_normal((4000, n))
    again = np.median(values[np.arange(4000)[:, None, None], rng.integers(n, size=(4000, 100, n))], axis=-1)
    varies = math.sqrt(float(np.var(again, axis=1).mean()))
    assert varies * bootstrap._shrink(n) == pytest.approx(float(np.std(np.median(values, axis=1))), rel=0.06)
    assert bootstrap._shrink(n + 1) == pytest.approx((bootstrap._shrink(n) + bootstrap._shrink(n + 2)) / 2)


@pytest.mark.parametrize("n", [6, 20, 40, 81])
def test_the_interval_of_a_median_covers_it(n: int) -> None:
    rng = np.random.default_rng(n)
    found = [median_interval(rng.exponential(size=n)) for _ in range(4000)]
    covered = np.mean([one.low <= math.log(2) <= one.high for one in found])
    low = max(math.floor((n - 1.96 * math.sqrt(n)) / 2), 1)
    exact = 1 - 2 * sum(math.comb(n, k) for k in range(low)) / 2**n  # of so many values below the median
    assert covered == pytest.approx(exact, abs=0.01)
    assert exact >= 0.95


def test_correlated_samples_are_covered_badly_unless_they_are_batched() -> None:
    rng = np.random.default_rng(0)
    series = np.empty((400, 1280))
    state = rng.standard_normal(400)
    for column in series.T:
        state = 0.9 * state + math.sqrt(1 - 0.81) * rng.standard_normal(400)
        column[:] = state
    naive = np.mean([(i := median_interval(row)).low <= 0 <= i.high for row in series])
    assert naive < 0.6
    covered = []
    for row in series:
        batches = row
        while lag1(batches) > 0.2:
            batches = double_batches(batches)
        interval = median_interval(batches)
        covered.append(interval.low <= 0 <= interval.high)
    assert np.mean(covered) > 0.9


def test_lag1_of_independent_rows_is_zero_and_of_a_trend_is_large() -> None:
    rng = np.random.default_rng(1)
    rows = 1 + 0.1 * rng.standard_normal((500, 6))
    assert lag1(rows) == pytest.approx(0, abs=0.05)
    rows[:, 4:] = np.nan  # rows that ended early
    assert lag1(rows) == pytest.approx(0, abs=0.05)
    assert lag1(1 + np.linspace(0, 1, 50)) > 0.8
    assert lag1(np.ones((3, 5))) == 0
    assert lag1(np.ones(2)) == 0


def test_doubling_keeps_what_is_left_over() -> None:
    doubled = double_batches(np.array([[1.0, 3, 5, 7, 9], [2, 4, 6, np.nan, np.nan]]))
    np.testing.assert_array_equal(doubled, [[2, 6, 9], [3, 6, np.nan]])


def test_medians_of_batches() -> None:
    point = Point("bsp", "empty")
    times = {(0, 0): [1.0, 9.0, 2.0], (0, 1): [4.0], (1, 0): [5.0, 7.0]}
    samples = [Sample(point, la, ba, 1, t, 0.0) for (la, ba), of in times.items() for t in of]
    assert batch_medians(samples[::-1]) == {(0, 0): 2.0, (0, 1): 4.0, (1, 0): 6.0}


def test_quantiles_of_t_and_tails_of_f_are_those_of_tables() -> None:
    for freedom, quantile in ((1, 12.7062), (2, 4.30265), (4, 2.77645), (10, 2.22814), (1000, 1.96234)):
        assert t_quantile(float(freedom)) == pytest.approx(quantile, rel=1e-5)
    for value, above, below, tail in (
        (4.2565, 2, 9, 0.05),
        (10.5670, 3, 5, 0.0133),
        (1.0, 7, 7, 0.5),
        (5.99, 1, 6, 0.05),
    ):
        assert f_tail(value, above, below) == pytest.approx(tail, rel=0.01)
    assert f_tail(0, 3, 3) == 1


def test_least_squares_finds_exact_parameters_and_says_when_it_cannot() -> None:
    rng = np.random.default_rng(0)
    design = np.stack([np.ones(20), rng.integers(1, 50, 20), 2.0 ** np.arange(20)], axis=1)
    truth = np.array([1e-4, 5e-6, 1e-9])
    times = np.tile(design @ truth, (5, 2, 1))
    times[:, 1, 3:7] = np.nan
    np.testing.assert_allclose(relative(design, times), np.broadcast_to(truth, (5, 2, 3)), rtol=1e-8)
    assert condition(design, design @ truth) < 60
    same = design[:, [0, 0]]
    assert np.isnan(relative(same, design @ truth)).all()
    assert condition(same, design @ truth) == math.inf
    assert condition(design[:2], (design @ truth)[:2]) == math.inf


def test_least_squares_is_not_drawn_towards_samples_that_happen_to_be_fast() -> None:
    rng = np.random.default_rng(0)
    times = np.exp(0.2 * rng.standard_normal((2000, 50)))
    found = relative(np.ones((50, 1)), times)[:, 0]
    assert np.mean(found) == pytest.approx(1, rel=0.005)  # weights of 1/T^2 would give 0.94 of it


def test_least_squares_are_those_of_logarithms() -> None:
    times = np.exp(0.2 * np.random.default_rng(0).standard_normal((20, 30)))
    times[:10, 20:] = np.nan
    assert relative(np.full((30, 1), 7.0), times)[:, 0] * 7 == pytest.approx(np.exp(np.nanmean(np.log(times), axis=1)))


def test_a_time_that_is_far_off_has_little_say_however_far() -> None:
    for far in (30.0, 1e3, 1e6):
        assert relative(np.ones((11, 1)), np.array([1.0] * 10 + [far]))[0] == pytest.approx(
            1 + 0.63 / far, abs=0.1 / far
        )


def test_parameters_held_at_zero_leave_the_best_of_the_rest() -> None:
    design = np.stack([np.ones(10), np.arange(10.0), np.arange(10.0) ** 2], axis=1)
    times = design @ np.array([5.0, -0.4, 0.1])
    found = nonnegative(design, times)
    assert found[1] == 0
    np.testing.assert_allclose(found[[0, 2]], relative(design[:, [0, 2]], times))
    np.testing.assert_allclose(nonnegative(design, design @ np.array([5.0, 0.4, 0.1])), [5.0, 0.4, 0.1])


def table(*rows: list[float]) -> bootstrap.Table:
    """Of one launch: a row for each point, filled up with what is missing."""
    batches = np.full((len(rows), 1, max(map(len, rows))), np.nan)
    for line, row in zip(batches[:, 0], rows, strict=True):
        line[: len(row)] = row
    return bootstrap.Table(tuple(Point("bsp", "empty", size=n) for n in range(len(rows))), batches)


def test_medians_are_of_what_is_there() -> None:
    found = table([1.0, 3.0], [5.0], [4.0, 1.0, 2.0], []).medians()
    np.testing.assert_array_equal(found[:, 0], [2.0, 5.0, 2.0, np.nan])
    assert table([1.0, 3.0]).medians() == [[2.0]]
    assert np.isnan(table([], []).medians()).all()


def test_as_many_batches_are_drawn_again_as_there_are() -> None:
    for_two, for_three = table([1.0, 2.0], [1.0, 2.0, 3.0]).drawn(np.random.default_rng(0), 50)[..., 0].T
    assert {*((for_two - 1.5) / bootstrap._shrink(2)).round(9).tolist()} == {-0.5, 0.0, 0.5}
    assert {*((for_three - 2.0) / bootstrap._shrink(3)).round(9).tolist()} == {-1.0, 0.0, 1.0}


def test_the_correction_for_few_batches_is_that_of_normal_values() -> None:
    assert (bootstrap._shrink(0), bootstrap._shrink(1), bootstrap._shrink(2)) == (1.0, 1.0, math.sqrt(2))
    assert bootstrap._shrink(4) == (bootstrap._shrink(3) + bootstrap._shrink(5)) / 2
    assert bootstrap._shrink(5) == pytest.approx(1 / 1.2, rel=0.05)  # "a fifth more"


def test_an_interval_is_that_of_three_launches_and_of_fewer_that_of_the_draws() -> None:
    drawn, nothing = np.array([1.0, 3.0, np.nan]), np.array([])
    three = bootstrap.interval(2.0, nothing, np.array([1.0, 2.0, 3.0, np.nan]), 1.0)
    assert three == pytest.approx((2.0, 2.0 - 4.30265 / math.sqrt(3), 2.0 + 4.30265 / math.sqrt(3)), rel=1e-5)
    two = bootstrap.interval(2.0, drawn, np.array([1.0, 2.0]), 10.0)
    assert two == pytest.approx((2.0, 2.0 - 2.22814, 2.0 + 2.22814), rel=1e-5)
    assert bootstrap.interval(2.0, nothing, nothing, 10.0) == (2.0, 2.0, 2.0)


def test_a_figure_is_known_as_well_as_the_points_that_it_hangs_on_in_tenths() -> None:
    few, many = [1.0, 2.0, 3.0], [float(n) for n in range(6)]
    of = table(few, many)
    times = np.array([[4.0, 4.0], [4.0, 2.0], [2.0, 4.0], [2.0, 2.0]] * 25)[..., np.newaxis]
    assert bootstrap.freedoms(of, times, times[:, 1])[0] == pytest.approx(4.4)  # 2 + sqrt(6)
    assert bootstrap.freedoms(of, times, times[:, 0])[0] == 2.0
    # What is not known of some replicates, and a figure's size, do not matter.
    of_some = np.where(np.arange(100)[:, np.newaxis] < 30, np.nan, times[:, 1])
    assert bootstrap.freedoms(of, times, of_some + 1000.0) == bootstrap.freedoms(of, times, of_some)
