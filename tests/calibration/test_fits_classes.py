"""Parameters within and between nodes, apart; and which form of the two predicts."""

from __future__ import annotations

import dataclasses

import pytest

from pybsp.benchmarks.calibration.fits.bsp import fit_bsp
from pybsp.benchmarks.calibration.fits.classes import _injection, fit_classes
from pybsp.benchmarks.calibration.patterns import counted, traffic
from pybsp.benchmarks.calibration.samples import Point

from .generated import Seconds, sampled, swept

NODES = (0, 0, 1, 1, 2, 2)
P = len(NODES)
L, ALONE, O_MSG, INTRA, INTER, INJECTION = 1e-4, 5e-6, 2e-6, 1e-9, 2e-8, 6e7  # ALONE: l of a machine of one node


def seconds(together: str) -> Seconds:
    def of(point: Point) -> float:
        words = traffic(point, P, NODES)
        within = INTRA * words.h_intra
        between = max(INTER * words.h_inter, words.node / INJECTION)
        latency = ALONE if point.where == "intra" else L
        return latency + O_MSG * point.busiest + (max(within, between) if together == "max" else within + between)

    return of


def points(experiment: str, where: str, patterns: tuple[str, ...] = ("exchange",)) -> list[Point]:
    return [
        counted(Point(experiment, pattern, "bsp", where, size=8 * w, messages=m), P, NODES)
        for pattern in patterns
        for m in (1, 8)
        for w in (1, 64, 1024, 16384)
    ]


@pytest.mark.parametrize("together", ["max", "sum"])
def test_classes_are_told_apart_and_predict(together: str) -> None:
    of = seconds(together)
    empty = sampled([Point("bsp", "empty", "bsp"), Point("class", "empty", "bsp", "intra")], of)
    bsp = fit_bsp(sampled(swept(P), of), [])
    assert bsp is not None
    classes = [point for where in ("intra", "inter", "inter-all") for point in points("class", where)]
    held_out = points("held-out", "", ("exchange", "halo", "shift", "random"))
    found = fit_classes(sampled(classes, of) + empty, sampled(held_out, of), NODES, bsp)
    assert found is not None
    assert set(found.fits) == {"intra", "inter", "inter-all"}
    for where, g in (("intra", INTRA), ("inter", INTER)):
        assert found.fits[where].g.value == pytest.approx(g, rel=0.01)
        assert found.fits[where].o_msg.value == pytest.approx(O_MSG, rel=0.01)
        assert found.fits[where].l.value == pytest.approx(ALONE if where == "intra" else L, rel=0.01)
    assert found.fits["inter-all"].g.value == pytest.approx(2 / INJECTION, rel=0.01)  # two on a node share it
    assert found.injection is not None
    assert found.injection.value == pytest.approx(INJECTION, rel=0.01)
    assert found.errors[together].median < 0.05
    assert found.errors[together].median < found.errors["plain"].median
    other = {"max": "sum", "sum": "max"}[together]
    assert found.errors[together].median <= found.errors[other].median


def test_a_rate_whose_interval_has_no_end_is_at_most_ten_times_what_was_found() -> None:
    samples = sampled(points("class", "inter-all"), seconds("max"))
    found = fit_bsp(samples, [])
    assert found is not None
    low, high = (found.g._replace(low=of * found.g.value) for of in (-1, 0.5))
    for g, most in ((low, 10), (high, 2)):
        rate = _injection({"inter-all": dataclasses.replace(found, g=g)}, samples, NODES)
        assert rate is not None
        assert rate.high == pytest.approx(most * rate.value)
        assert rate.low == pytest.approx(rate.value * g.value / g.high)


def test_nothing_of_classes_measured_is_none() -> None:
    of = seconds("max")
    bsp = fit_bsp(sampled(swept(P), of), [])
    assert bsp is not None
    assert fit_classes([], [], NODES, bsp) is None
    assert fit_classes(sampled([Point("bsp", "empty", "bsp")], of), [], NODES, bsp) is None
    only = fit_classes(sampled(points("class", "inter"), of), sampled(points("held-out", ""), of), NODES, bsp)
    assert only is not None
    assert set(only.fits) == {"inter"}
    assert only.errors == {}
    assert only.injection is None


def test_a_class_with_two_lines_predicts_by_the_size_of_a_message() -> None:
    """Large messages between nodes take another way, which is set up for longer and is faster."""
    jump, later, faster = 1024, 2e-4, 2e-9

    def of(point: Point) -> float:
        words = traffic(point, P, NODES)
        large = point.busiest > 0 and point.h / point.busiest >= jump and point.where != "intra"
        between = (faster if large else INTER) * words.h_inter
        latency = ALONE if point.where == "intra" else later if large else L
        return latency + O_MSG * point.busiest + max(INTRA * words.h_intra, between)

    def sizes(experiment: str, where: str) -> list[Point]:
        return [
            counted(Point(experiment, "exchange", "bsp", where, size=8 * w, messages=m), P, NODES)
            for m in (1, 4, 16)
            for w in (1, 16, 128, 512, 1024, 4096, 16384, 65536)
        ]

    empty = sampled([Point("bsp", "empty", "bsp"), Point("class", "empty", "bsp", "intra")], of)
    bsp = fit_bsp(sampled(swept(P), of), [])
    assert bsp is not None
    classes = [point for where in ("intra", "inter", "inter-all") for point in sizes("class", where)]
    found = fit_classes(sampled(classes, of) + empty, sampled(sizes("held-out", ""), of), NODES, bsp)
    assert found is not None
    assert found.errors["max"].median < 0.02
    assert found.errors["max"].p95 < 0.1
