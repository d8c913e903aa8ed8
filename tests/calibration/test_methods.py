"""Other tools' formulas on our samples."""

from __future__ import annotations

import pytest

from pybsp.benchmarks.calibration.design import all_points
from pybsp.benchmarks.calibration.fits.methods import METHODS, bspbench, bsponmpi
from pybsp.benchmarks.calibration.samples import Point, Sample
from pybsp.benchmarks.studies import calibration_methods
from pybsp.benchmarks.studies.theory.synthetic import Noise, SyntheticSupersteps, noisy
from pybsp.errors import UsageError

from .generated import exchanges

LINE = SyntheticSupersteps(l=1e-4, o_msg=5e-6, g=1e-8)


def samples(machine: SyntheticSupersteps, points: list[Point]) -> list[Sample]:
    return noisy({point: machine.time(point) for point in points}, Noise())


def test_bspbench_takes_what_a_message_costs_for_the_cost_of_its_word() -> None:
    found = bspbench(samples(LINE, exchanges(4)))
    assert found["l"] == pytest.approx(1e-4)
    assert found["g"] == pytest.approx(5e-6 + 1e-8)
    assert found["o_msg"] == 0


def test_bspbench_fits_one_word_messages_from_h_of_p_to_256() -> None:
    inside, outside = exchanges(4, (8,), (4, 16, 256)), exchanges(4, (8, 64), (1, 2, 3, 300, 1000))
    times = {point: LINE.time(point) for point in inside}
    times.update(dict.fromkeys(outside, 7.0))  # taken in, this would show
    assert bspbench(noisy(times, Noise()))["points"] == 3
    assert bspbench(noisy(times, Noise()))["g"] == pytest.approx(5.01e-6)


def test_bspbench_is_plain_least_squares_of_means() -> None:
    # By hand: h = 4, 8, 12, t = 1, 1, 4; mean h 8, t 2; g = (4*1 + 0 + 4*2)/32, l = 2 - 8*g.
    points = exchanges(4, (8,), (4, 8, 12))[1:]
    times = [(0.5, 1.5), (1.0, 1.0), (2.0, 6.0)]
    given = [Sample(q, 0, 0, 1, t, 0.0) for q, pair in zip(points, times, strict=True) for t in pair]
    found = bspbench(given)
    assert found["g"] == pytest.approx(12 / 32)
    assert found["l"] == pytest.approx(-1)


def test_bspbench_takes_the_mean_rate_of_the_processors() -> None:
    axpy, larger = Point("rate", "axpy", size=24576, work=2000.0), Point("rate", "axpy", size=1 << 26, work=1e6)
    rates = [Sample(axpy, 0, 0, 1, seconds, 0.0, pid) for pid, seconds in ((0, 1e-6), (1, 4e-6))]
    smaller = larger._replace(size=8)
    given = samples(LINE, exchanges(4)) + rates + [Sample(other, 0, 0, 1, 1.0, 0.0, 0) for other in (smaller, larger)]
    assert bspbench(given)["r"] == pytest.approx((2e9 + 0.5e9) / 2)
    assert "r" not in bspbench(samples(LINE, exchanges(4)))


def test_bsponmpi_gives_a_line_back() -> None:
    found = bsponmpi(samples(LINE, exchanges(4)))
    assert found["l"] == pytest.approx(1e-4)
    assert found["o_msg"] == pytest.approx(5e-6)
    assert found["g"] == pytest.approx(1e-8)


def test_bsponmpi_takes_its_formulas_from_t_of_n_and_2n_messages_and_2w_bytes() -> None:
    # Any times: T(0) = 1, T(n,w) = 7, T(2n,w) = 12, T(n,2w) = 9, with n = 3 and w = 2560 words.
    points = exchanges(4, (20480, 40960), (3, 6))
    times = {0: 1.0, 3 * 2560: 7.0}
    given = {q: times.get(q.h, 12.0 if q.busiest == 6 else 9.0) for q in points}
    found = bsponmpi(noisy(given, Noise()))
    assert found["l"] == pytest.approx(2 * 7 - 12)
    assert found["g"] == pytest.approx((9 - 7) / (3 * 2560))
    assert found["o_msg"] == pytest.approx((12 - 9) / 3)


def test_bsponmpi_takes_the_empty_superstep_where_that_is_longer() -> None:
    given = {q: 5.0 if not q.h else LINE.time(q) for q in exchanges(4)}
    assert bsponmpi(noisy(given, Noise()))["l"] == 5.0


@pytest.mark.parametrize("level", ["quick", "default", "thorough"])
@pytest.mark.parametrize("p", [2, 4, 8])
def test_every_level_has_the_points_that_the_methods_need(level: str, p: int) -> None:
    given = samples(LINE, [point for point in all_points(p, level) if point.experiment == "bsp"])
    assert bspbench(given)["l"] == pytest.approx(1e-4)
    assert bsponmpi(given)["g"] == pytest.approx(1e-8, rel=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_too_few_points_are_an_error_that_says_which(name: str) -> None:
    with pytest.raises(UsageError, match=f"method {name}: expected total exchanges"):
        METHODS[name](samples(LINE, exchanges(4, (8,), (1,))))


def test_the_table_of_errors_has_ours_exact_without_noise_and_better_with_it() -> None:
    exact, noisy_ = (calibration_methods.synthetic("", LINE, noise) for noise in (Noise(), calibration_methods.NOISE))
    for one in calibration_methods.estimated(exact.samples).values():
        assert one is not None
        assert one.l == pytest.approx(1e-4)
    errors = {
        name: calibration_methods.errors(noisy_.samples, one.predict)
        for name, one in calibration_methods.estimated(noisy_.samples).items()
        if one is not None
    }
    assert all(errors.values())
    assert errors["ours"] == min(errors.values(), key=lambda pair: pair[0] if pair else 0.0)
