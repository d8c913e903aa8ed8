"""When a fit has a flag, on either side of each bound, and the figures that it names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pybsp.benchmarks.calibration.estimates import Estimate, Flag
from pybsp.benchmarks.calibration.fits import bsp, ebsp
from pybsp.benchmarks.calibration.fits.bootstrap import Table
from pybsp.benchmarks.calibration.results import Errors, Segment
from pybsp.benchmarks.calibration.samples import Point, Sample

US = 1e-6


def known(value: float) -> Estimate:
    return Estimate(value, 0.99 * value, 1.01 * value)


def verdict(adopted: bool, low: float, points: int = 9) -> list[Flag]:
    wrong = {"ebsp": Errors(0.021, 0.5, 0.0, points), "bsp": Errors(0.043, 0.6, 0.0, points)}
    return [ebsp._verdict(adopted, wrong, Estimate(1.0, low, 2.0))]


def compared(differences: dict[str, float], theil_sen: dict[str, float]) -> list[Flag]:
    """Of an empty superstep of 5 us, a line that begins at 3 us, and a g of 2 us."""
    line = Segment(0, known(3 * US), known(0.0), known(2 * US))
    return bsp._compare(known(5 * US), known(2 * US), [line], differences, theil_sen)


def far_off(*off: float, spread: float = 0.0) -> list[Flag]:
    """Of points that take 4 us, in two batches by so much more and less, and by the fit so much less."""
    points = [Point("bsp", f"pattern {k}", "bsp", h_out=k, busiest=k) for k in range(len(off))]
    batches = ((0, 1 - spread), (1, 1 + spread))
    table = Table.of([Sample(point, 0, n, 1, 4 * US * t, 0.0) for point in points for n, t in batches])
    return bsp._fit(table, table.medians(), 4 * US * (1 - np.array(off)), 1)


BOUNDS: dict[str, tuple[Callable[[], list[Flag]], str]] = {
    "below 0": (
        lambda: bsp._sign("g", known(-1e-9), 0, [0]),
        "g comes out negative, -1 ns a word (-990 ps to -1.01 ns)",
    ),
    "of messages from a size on": (
        lambda: bsp._sign("g", known(-1e-9), 1, [0, 127.5]),
        "g of messages from 1 KiB on comes out negative, -1 ns a word",
    ),
    "known poorly": (
        lambda: bsp._sign("o_msg", Estimate(2 * US, 1 * US, 3.1 * US), 0, [0]),
        "o_msg is known poorly: 2 us a message (1 us to 3.1 us)",
    ),
    "known well enough": (lambda: bsp._sign("o_msg", Estimate(2.0, 1.0, 3.0), 0, [0]), ""),
    "nothing": (lambda: bsp._sign("o_msg", Estimate(0.0, -1.0, 1.0), 0, [0]), ""),
    "empty is quicker": (
        lambda: bsp._empty(known(7 * US), known(10 * US)),
        "an empty superstep takes 7 us, one that sends something 10 us beside its messages and words",
    ),
    "empty is slower": (
        lambda: bsp._empty(known(10 * US), known(7 * US)),
        "an empty superstep takes 10 us, one that sends something 7 us beside its messages and words",
    ),
    "empty is nearly as quick": (lambda: bsp._empty(known(7.6 * US), known(10 * US)), ""),
    "empty may be as quick": (lambda: bsp._empty(known(7 * US), Estimate(10 * US, 7.05 * US, 12 * US)), ""),
    "a pattern": (
        lambda: bsp._patterns({"halo": known(1.3e-9), "shift": known(0.5e-9)}, known(1e-9)),
        "g of pattern halo is 1.3 ns a word, 1.3 times the g of all patterns (1 ns)",
    ),
    "a pattern where g is 0": (
        lambda: bsp._patterns({"halo": known(1e-9)}, known(0.0)),
        "g of pattern halo is 1 ns a word, many times the g of all patterns (0 s)",
    ),
    "a pattern like others": (lambda: bsp._patterns({"halo": known(1.2e-9), "shift": known(0)}, known(1e-9)), ""),
    "no pattern": (lambda: bsp._patterns({}, known(0.0)), ""),
    "l by differences": (
        lambda: compared({"l": 5.6 * US}, {}),
        "l from differences is 5.6 us, from least squares 5 us, over 10 % apart: not a straight line",
    ),
    "l by differences, nearly": (lambda: compared({"l": 5.4 * US}, {}), ""),
    "g by differences": (
        lambda: compared({"g": 1.7 * US}, {}),
        "g from differences is 1.7 us, from least squares 2 us, over 10 % apart: not a straight line",
    ),
    "l by Theil-Sen, which is the line's": (lambda: compared({}, {"l": 3 * US, "g": 2 * US}), ""),
    "l by Theil-Sen, which is that of empty supersteps": (
        lambda: compared({}, {"l": 5 * US}),
        "l from Theil-Sen is 5 us, from least squares 3 us, over 10 % apart: a few points",
    ),
    "E-BSP is kept": (
        lambda: verdict(True, 0.5),
        "E-BSP is kept: held-out supersteps are off by 2.1% (median) under E-BSP and 4.3% under BSP",
    ),
    "E-BSP is not kept": (
        lambda: verdict(False, 0.5),
        "BSP is kept, not E-BSP: held-out supersteps are off by 2.1% (median) under E-BSP and 4.3% under BSP",
    ),
    "E-BSP's g1 may be 0": (
        lambda: verdict(False, 0.0),
        "BSP is kept, not E-BSP: held-out supersteps are off by 2.1% (median) under E-BSP and 4.3% under BSP and g1",
    ),
    "nothing held out": (lambda: verdict(False, 0.5, 0), "nothing was held out to compare E-BSP with BSP by"),
    "points are off": (
        lambda: far_off(0.0, 0.3, -0.5),
        "2 of 3 points are over 25% off the fit; the worst, pattern 2 of 2 messages and 2 words, took 4 us, by the fit "
        "6 us",
    ),
    "all are a little off": (  # sqrt(10/9) of 6 %, against sqrt(pi/2) of 1 %; as scipy's f.sf
        lambda: far_off(*[0.06, -0.06] * 5, spread=0.01),
        "supersteps depart from the fit by 6.3% (root mean square), their medians differ by 1.3% by chance: lack of "
        "fit (F-test, p = 1e-05)",
    ),
    "all are off by little": (lambda: far_off(*[0.04, -0.04] * 5, spread=0.01), ""),
    "all are off by chance": (lambda: far_off(*[0.06, -0.06] * 5, spread=0.04), ""),
    "one point, which has no freedom": (lambda: far_off(0.06, spread=0.01), ""),
    "points are nearly right": (lambda: far_off(0.24, -0.24), ""),
    "a point is as far off as it may be": (lambda: far_off(0.25, 0.0), ""),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", BOUNDS)
def test_a_flag_is_raised_beyond_its_bound_and_names_the_figures(name: str) -> None:
    flags, text = BOUNDS[name][0](), BOUNDS[name][1]
    assert [flag.text[: len(text) or None] for flag in flags] == [text] * bool(text)
