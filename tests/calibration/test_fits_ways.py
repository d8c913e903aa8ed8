"""o_way, g_way, first, late and after from exchanges whose parameters are known."""

from __future__ import annotations

import dataclasses
import math

import pytest

from pybsp import BSPMachine
from pybsp.benchmarks.calibration.design import all_points
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.fits.ways import (
    FITTED,
    ONE,
    _parts,
    fit_first,
    fit_late,
    fit_ways,
    predict,
    with_first,
    with_late,
    with_ways,
)
from pybsp.benchmarks.calibration.samples import Sample
from pybsp.ways import BY_MAIL

PLAIN = BSPMachine(2, 1e-9, 1e-6, 1e9, o_msg=2e-6, segments=((0.0, 2e-5, 2e-6, 1e-9),))
MACHINE = dataclasses.replace(
    PLAIN,
    o_item=1e-8,
    o_way=tuple({**{way: (n + 1) * 1e-5 for n, way in enumerate(FITTED)}, "further": 4e-6, "beside": 5e-6}.items()),
    g_way=(("put", 3e-10), ("get", 7e-10), ("making", 2e-8)),
    late=tuple({"empty": 3e-5, "sending": 8e-5, **{way: (n + 2) * 1e-5 for n, way in enumerate(FITTED)}}.items()),
    first=tuple((way, (n + 3) * 1e-5) for n, way in enumerate(FITTED)),
    after=(
        (4e-5, 1.2e-5, 0.03, 0.01, 0.05),
        (1e-4, 3e-5, 0.04, 0.012, 0.1),
        (3e-4, 9e-5, 0.05, 0.02, 0.2),
        (1e-3, 3e-4, 0.08, 0.1, 0.5),
        (5e-3, 4.5e-3, 0.1, 0.3, 0.6),
        # Of ways there are no samples here: a power of the seconds between two others.
        (2e-2, 1.8e-2, 0.2, 0.4, 0.6 ** (math.log(6e-2 / 2e-2) / math.log(6e-2 / 5e-3))),
        (6e-2, 3e-2, 1.0, 1.0, 1.0),
    ),
)


def samples(*experiments: str, level: str = "quick") -> list[Sample]:
    points = [one for one in all_points(2, level, ["way", "queue"]) if one.experiment in experiments]
    if "first" in experiments:
        points = [one._replace(experiment="first") for one in all_points(2, level, ["way"]) if one.experiment == "way"]
    return [Sample(one, 0, batch, 1, predict(MACHINE, one), 0.0) for one in points for batch in range(4)]


@pytest.mark.parametrize("level", ["quick", "default", "thorough"])
def test_what_ways_and_long_computing_cost_is_recovered(level: str) -> None:
    fit = fit_ways(samples("way", "queue", level=level), PLAIN)
    assert {way: found.value for way, found in fit.o_way.items()} == pytest.approx(dict(MACHINE.o_way), rel=1e-6)
    assert {way: found.value for way, found in fit.g_way.items()} == pytest.approx(dict(MACHINE.g_way), rel=1e-6)
    assert fit.o_item is not None
    assert fit.o_item.value == pytest.approx(MACHINE.o_item, rel=1e-6)
    soon = with_ways(PLAIN, fit)
    first = fit_first(samples("first", level=level), soon)
    assert {way: found.value for way, found in first.items()} == pytest.approx(dict(MACHINE.first), rel=1e-6)
    soon = with_first(soon, first)
    late, shares = fit_late(samples("after", level=level), soon)
    assert {name: found.value for name, found in late.items()} == pytest.approx(dict(MACHINE.late), rel=1e-6)
    found = with_late(soon, late, shares)
    for row, expected in zip(found.after, MACHINE.after, strict=True):
        assert row == pytest.approx(expected, rel=1e-6)
    for sample in samples("held-out-way", "held-out-after", level=level):
        assert predict(found, sample.point) == pytest.approx(sample.seconds, rel=1e-6)


def test_words_of_one_number_alone_say_nothing_of_a_word() -> None:
    """A budget may be too short for the others."""
    measured = samples("way", "queue")
    for size in (20_000, 100_000):
        left = [one for one in measured if one.point.pattern != "get" or one.point.size == 8 * size]
        fit = fit_ways(left, PLAIN)
        assert "get" not in fit.g_way
        assert fit.o_way["get"].value == pytest.approx(dict(MACHINE.o_way)["get"] + 7e-10 * size, rel=1e-6)
        assert fit.g_way["put"].value == pytest.approx(3e-10, rel=1e-6)
    left = [one for one in measured if one.point.pattern != "queue-and-own" or one.point.size == 8 * 40]
    left = [one for one in left if one.point.pattern != "queue"]
    assert math.isfinite(dict(with_ways(PLAIN, fit_ways(left, PLAIN)).o_way)["queue"])


def test_where_nothing_was_measured_nothing_is_said() -> None:
    assert fit_ways([], PLAIN) == ({}, {}, None)
    assert fit_late([], PLAIN) == ({}, {})
    assert fit_first([], PLAIN) == {}


@pytest.mark.parametrize(("pattern", "name"), [("empty", 2), ("exchange", 3)])
def test_a_disturbed_measurement_stands_for_itself_and_does_not_lift_or_lower_all_others(
    pattern: str, name: int
) -> None:
    """What is late after 100 us came out far too large, and after the longest computing far too small."""
    measured, late = samples("after"), dict(MACHINE.late)
    measured = [one for one in measured if one.batch == 0 or one.point.delay < 6e-2]  # as it takes the most time
    for delay, factor in ((1e-4, 30.0), (6e-2, 0.1)):
        (share,) = (row[name] for row in MACHINE.after if row[0] == delay)
        more = (factor - 1) * share * late["empty" if pattern == "empty" else "sending"]
        measured = [
            one._replace(seconds=one.seconds + more)
            if (one.point.pattern, one.point.delay) == (pattern, delay)
            else one
            for one in measured
        ]
    found = with_late(MACHINE, *fit_late(measured, dataclasses.replace(MACHINE, late=(), after=())))
    seconds = [found.exchanging(0, computing=row[0], waiting=row[1]) - MACHINE.l for row in MACHINE.after]
    if pattern == "exchange":
        counted = [found.exchanging(1, 1, ways=BY_MAIL, computing=row[0], waiting=row[1]) for row in MACHINE.after]
        seconds = [one - MACHINE.exchanging(1, 1) for one in counted]
    right = [row[name] * late["empty" if pattern == "empty" else "sending"] for row in MACHINE.after]
    assert seconds[0] == pytest.approx(right[0], rel=1e-6)
    assert seconds == sorted(seconds)
    assert seconds[4] == pytest.approx(right[4], rel=1e-6)
    assert seconds[-1] == pytest.approx(right[-2], rel=1e-6)


def test_no_share_of_what_is_late_is_above_1_nor_below_that_of_less_computing() -> None:
    shares = {seconds: (Estimate(share, share, share), ONE, ONE) for seconds, share in ((1.0, 1.5), (2.0, 1.2))}
    assert [row[2:] for row in with_late(PLAIN, {}, {**shares, 3.0: (ONE, ONE, ONE)}).after] == [(1.0, 1.0, 1.0)] * 3


def test_shares_are_those_of_what_is_late_at_last_if_anything_is() -> None:
    later = {1.0: Estimate(2.0, 1.0, 3.0), 2.0: Estimate(4.0, 3.0, 5.0)}
    assert _parts(later, later[2.0]) == {1.0: Estimate(0.5, 0.25, 0.75), 2.0: Estimate(1.0, 0.75, 1.25)}
    assert _parts(later, Estimate(0.0, 0.0, 1.0)) == _parts(later, None) == {}
