"""E-BSP: g1, g2 and s told apart where the patterns allow it, kept where it predicts better, refused otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pybsp.benchmarks.calibration.fits.bsp import fit_bsp
from pybsp.benchmarks.calibration.fits.ebsp import _misfit, fit_ebsp
from pybsp.benchmarks.calibration.fits.least_squares import relative
from pybsp.benchmarks.calibration.results import EBSPFit

from .generated import Seconds, ebsp, jumping, line, sampled, swept, unbalanced

HELD_OUT = (("halo", "two-phase", "sample-sort", "random", "scatter"), (1,), (40, 700, 9000))


def fitted(seconds: Seconds, p: int = 4, uneven: bool = True, noise: float = 0.0, seed: int = 0) -> EBSPFit:
    points = swept(p)
    samples = sampled(points, seconds, noise=noise, seed=seed)
    bsp = fit_bsp(samples, [])
    assert bsp is not None
    if uneven:
        samples += sampled(unbalanced(p), seconds, noise=noise, seed=seed + 1)
    held_out = [point for point in swept(p, "held-out", *HELD_OUT) if point.h]
    fit = fit_ebsp(samples, bsp, sampled(held_out, seconds, noise=noise, seed=seed + 2), p)
    assert fit is not None
    return fit


@pytest.mark.parametrize("p", [4, 8])
@pytest.mark.parametrize(
    ("g1", "g2", "s", "o_msg"),
    [(5e-8, 1e-8, 1e-4, 5e-6), (1e-8, 1e-8, 1e-4, 0.0), (4e-7, 1e-9, 5e-3, 1e-6), (1e-8, 0.0, 1e-5, 1e-6)],
)
def test_noiseless_parameters_are_recovered(p: int, g1: float, g2: float, s: float, o_msg: float) -> None:
    fit = fitted(ebsp(g1, g2, s, p, o_msg), p)
    assert fit.g1 is not None
    assert fit.g2 is not None
    assert fit.s is not None
    assert fit.o_msg is not None
    assert fit.g1.value == pytest.approx(g1, rel=0.01)
    assert fit.g2.value == pytest.approx(g2, rel=0.01, abs=1e-4 * g1)
    assert fit.s.value == pytest.approx(s, rel=0.01)
    assert fit.o_msg.value == pytest.approx(o_msg, rel=0.01, abs=1e-11)
    assert fit.kept
    assert fit.condition <= 30
    assert fit.errors["ebsp"].p95 < 0.01
    # The bar: where sends are unbalanced, at most half of BSP's error.
    assert fit.errors["bsp unbalanced"].points
    assert fit.errors["ebsp unbalanced"].median <= fit.errors["bsp unbalanced"].median / 2


def test_noise_leaves_e_bsp_kept_where_it_is_right() -> None:
    fit = fitted(ebsp(5e-8, 1e-8, 1e-4, 8, 1e-6), 8, noise=0.05)
    assert fit.kept
    assert fit.g1 is not None
    assert fit.g1.low <= 5e-8 <= fit.g1.high
    assert fit.errors["ebsp unbalanced"].median <= fit.errors["bsp unbalanced"].median / 2


@pytest.mark.fast("0.0")
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_where_bsp_is_right_g1_is_zero_and_bsp_is_kept(noise: float) -> None:
    fits = [fitted(line(1e-4, 5e-6, 1e-8), 8, noise=noise, seed=10 * seed) for seed in range(10 if noise else 1)]
    assert not any(fit.kept for fit in fits)
    for fit in fits:
        assert fit.g1 is not None
        assert fit.g2 is not None
        assert fit.g1.value == pytest.approx(0, abs=1e-9)
        assert fit.g2.value == pytest.approx(1e-8, rel=0.1)
    assert sum(fit.g1.low <= 1e-15 and fit.g1.high >= -1e-15 for fit in fits if fit.g1) >= len(fits) - 1
    assert "ebsp-dropped" in {flag.code for fit in fits for flag in fit.flags}


def test_a_fit_from_balanced_patterns_alone_is_refused() -> None:
    points = swept(patterns=("exchange", "shift"))
    seconds = ebsp(5e-8, 1e-8, 1e-4, 4)
    samples = sampled(points, seconds)
    bsp = fit_bsp(samples, [])
    assert bsp is not None
    fit = fit_ebsp(samples, bsp, [], 4)
    assert fit is not None
    assert (fit.g1, fit.g2, fit.s, fit.o_msg, fit.kept) == (None, None, None, None, False)
    assert fit.condition > 30
    (flag,) = fit.flags
    assert flag.code == "unidentifiable"
    assert "cannot be told apart" in flag.text


def test_protocols_of_a_bsp_machine_do_not_make_a_g1() -> None:
    fit = fitted(jumping((0, 1e-4, 5e-6, 2e-8), (1000, 4e-4, 2e-5, 1e-8)), 8)
    assert not fit.kept
    assert fit.g1 is not None
    assert fit.g1.low <= 1e-15


def test_a_negative_g1_is_flagged_with_its_figure() -> None:
    fit = fitted(lambda point: 1e-4 + 2e-8 * point.h - 1e-8 * point.M / 4)
    (flag,) = [flag for flag in fit.flags if flag.code == "negative"]
    assert flag.about == "g1"
    assert "-10 ns" in flag.text
    assert fit.g1 is not None
    assert fit.g1.value == 0
    assert fit.g1.low == pytest.approx(-1e-8, rel=0.01)
    assert not fit.kept


def test_intervals_of_few_patterns_are_as_wide_as_their_residuals_and_freedom_have_it() -> None:
    times = np.array([1.0, 1.2, 0.9, 1.3])
    mean = float(relative(np.ones((4, 1)), times)[0])
    residuals = (times / mean - 1) / (1 - 1 / 4)  # each pattern has a quarter of the leverage
    error = mean * math.sqrt(float((residuals**2).sum())) / 4
    (half,) = _misfit(np.ones((4, 1)), times)
    assert half == pytest.approx(3.18245 * error, rel=1e-4)  # of t with three degrees of freedom


def test_without_held_out_samples_bsp_is_kept() -> None:
    samples = sampled(swept() + unbalanced(), ebsp(5e-8, 1e-8, 1e-4, 4))
    bsp = fit_bsp(samples, [])
    assert bsp is not None
    fit = fit_ebsp(samples, bsp, [], 4)
    assert fit is not None
    assert not fit.kept
    assert any("nothing was held out" in flag.text for flag in fit.flags)
    assert fit_ebsp([], bsp, [], 4) is None
