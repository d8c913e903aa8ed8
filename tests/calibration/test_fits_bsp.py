"""l, o_msg and g from samples whose parameters are known: recovered, as sure as can be, flagged where they mislead."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pybsp import BSPMachine
from pybsp.benchmarks.calibration.fits import segments
from pybsp.benchmarks.calibration.fits.bootstrap import Table
from pybsp.benchmarks.calibration.fits.bsp import fit_bsp, fit_rates, predict
from pybsp.benchmarks.calibration.fits.held_out import held_out
from pybsp.benchmarks.calibration.fits.segments import cut
from pybsp.benchmarks.calibration.patterns import counted
from pybsp.benchmarks.calibration.results import BSPFit
from pybsp.benchmarks.calibration.samples import Point, Sample

from .generated import Seconds, jumping, line, sampled, swept


def fitted(points: list[Point], seconds: Seconds, **more: float) -> BSPFit:
    fit = fit_bsp(sampled(points, seconds, **more), [])  # type: ignore[arg-type]
    assert fit is not None
    return fit


def codes(fit: BSPFit) -> set[str]:
    return {flag.code for flag in fit.flags}


@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize(
    ("l", "o_msg", "g"),
    [(1e-4, 5e-6, 1e-8), (5e-3, 1e-7, 4e-7), (1e-6, 3e-6, 1e-10), (2e-5, 0.0, 1e-9)],
)
def test_noiseless_parameters_are_recovered(p: int, l: float, o_msg: float, g: float) -> None:  # noqa: E741
    fit = fitted(swept(p), line(l, o_msg, g))
    assert fit.l.value == pytest.approx(l, rel=0.01)
    assert fit.g.value == pytest.approx(g, rel=0.01)
    assert fit.o_msg.value == pytest.approx(o_msg, rel=0.01, abs=1e-12)
    assert len(fit.segments) == 1
    assert fit.theil_sen["g"] == pytest.approx(g, rel=0.01)
    assert fit.differences["l"] == pytest.approx(l, rel=0.01)
    assert fit.differences["g"] == pytest.approx(g, rel=0.01)
    assert all(estimate.value == pytest.approx(g, rel=0.01) for estimate in fit.patterns.values())
    assert fit.residuals.p95 < 1e-9
    assert fit.flags == ()


def test_segments_are_found_where_messages_change_their_cost() -> None:
    words = (1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536)
    truth = ((0, 5e-5, 2e-6, 2e-8), (100, 8e-5, 6e-6, 1e-8), (3000, 4e-4, 2e-5, 4e-9))
    fit = fitted(swept(words=words), jumping(*truth))
    assert len(fit.segments) == 3
    for segment, (_, l, o_msg, g) in zip(fit.segments, truth, strict=True):  # noqa: E741
        assert segment.l.value == pytest.approx(l, rel=0.01)
        assert segment.o_msg.value == pytest.approx(o_msg, rel=0.01)
        assert segment.g.value == pytest.approx(g, rel=0.01)
    assert 64 < fit.segments[1].words <= 128
    assert 2048 < fit.segments[2].words <= 4096
    assert (fit.l.value, fit.o_msg.value, fit.g.value) == pytest.approx((5e-5, 2e-6, 4e-9), rel=0.01)
    (flag,) = [flag for flag in fit.flags if flag.code == "regimes"]
    assert "three regimes" in flag.text
    assert "KiB" in flag.text


@pytest.mark.whole
def test_a_straight_line_with_noise_is_not_cut() -> None:
    points = swept()
    many = [fitted(points, line(1e-4, 5e-6, 1e-8), noise=0.05, spikes=0.02, seed=seed) for seed in range(20)]
    assert sum(len(fit.segments) > 1 for fit in many) <= 1
    assert not any("regimes" in codes(fit) and len(fit.segments) == 1 for fit in many)


@pytest.mark.whole
def test_segments_with_noise_are_found() -> None:
    truth = ((0, 1e-4, 5e-6, 2e-8), (1000, 3e-4, 2e-5, 1e-8))
    points = swept(words=(1, 16, 128, 512, 1024, 4096, 16384, 65536))
    fits = [fitted(points, jumping(*truth), noise=0.05, launch=0.02, seed=seed) for seed in range(20)]
    assert all(len(fit.segments) == 2 for fit in fits)
    assert np.median([fit.g.value for fit in fits]) == pytest.approx(1e-8, rel=0.02)
    assert sum(fit.g.low <= 1e-8 <= fit.g.high for fit in fits) >= 17  # of 20 at 95 %: fewer in 2 cases of 100


def test_a_machine_with_these_segments_predicts_the_same() -> None:
    fit = fitted(swept(), jumping((0, 1e-4, 5e-6, 2e-8), (1000, 3e-4, 2e-5, 1e-8)))
    rows = tuple((float(s.words), s.l.value, s.o_msg.value, s.g.value) for s in fit.segments)
    machine = BSPMachine(4, fit.g.value, fit.l.value, 1e9, fit.o_msg.value, segments=rows)
    for h, messages in ((0, 0), (12, 3), (3 * 500, 3), (3 * 2000, 3), (10**6, 7)):
        assert predict(fit, h, messages) == pytest.approx(machine.time(0, h, messages), rel=1e-12)


def test_a_design_that_cannot_tell_messages_from_the_superstep_is_flagged() -> None:
    points = swept(2, patterns=("shift",), messages=(1,))  # one message each, always; and T(0) left out
    fit = fitted([point for point in points if point.h], line(1e-4, 5e-6, 1e-8))
    assert "unidentifiable" in codes(fit)
    assert fit.o_msg.value == 0
    assert fit.g.value == pytest.approx(1e-8, rel=0.01)
    assert fit.l.value == pytest.approx(1.05e-4, rel=0.01)


def test_a_negative_parameter_is_flagged_with_its_figure() -> None:
    fit = fitted(swept(), lambda point: 1e-4 + 1e-8 * point.h - min(2e-7 * point.busiest, 5e-5))
    (flag,) = [flag for flag in fit.flags if flag.code == "negative"]
    assert flag.about == "o_msg"
    assert "-200 ns" in flag.text
    assert all(segment.o_msg.value >= 0 for segment in fit.segments)
    assert fit.o_msg.low < fit.o_msg.value == 0


def test_a_curve_is_flagged() -> None:
    fit = fitted(swept(), lambda point: 1e-4 + 2e-6 * point.busiest + 1e-9 * point.h**1.35)
    assert codes(fit) & {"not-linear", "regimes"}
    congested = fitted(
        swept(8), lambda point: (1e-4 + 1e-8 * point.h) * (2 if point.pattern == "many-to-one" and point.h else 1)
    )
    assert {"lack-of-fit", "residual", "pattern"} <= codes(congested)
    assert congested.worst == "many-to-one"
    assert congested.patterns["many-to-one"].value > 1.5 * congested.patterns["shift"].value


def test_a_parameter_less_sure_than_its_size_is_flagged() -> None:
    fit = fitted(swept(), line(1e-4, 1e-9, 1e-8), noise=0.1)
    assert any(flag.code in ("wide", "negative") and flag.about == "o_msg" for flag in fit.flags)
    assert fit.o_msg.low <= 1e-9 <= fit.o_msg.high


def test_n_half_is_the_smallest_measured_size_whose_words_cost_at_most_twice_g() -> None:
    # o_msg/w + g <= 2g from w = o_msg/g = 500 words on
    assert fitted(swept(words=(1, 128, 499, 501, 4096)), line(1e-4, 5e-6, 1e-8)).n_half == 501
    assert fitted(swept(words=(1, 4, 16, 64, 256)), line(1e-4, 5e-6, 1e-8)).n_half is None


def test_the_same_samples_give_the_same_bits() -> None:
    samples = sampled(swept(), line(1e-4, 5e-6, 1e-8), noise=0.05, launch=0.02)
    assert fit_bsp(samples, [], seed=3) == fit_bsp(samples, [], seed=3)
    first, other = fit_bsp(samples, [], seed=3), fit_bsp(samples[: len(samples) // 3], [], seed=4)
    assert first is not None
    assert other is not None
    assert first.g != other.g


@pytest.mark.whole
@pytest.mark.parametrize(("launches", "batches", "launch"), [(1, 6, 0.0), (3, 5, 0.03)])
def test_intervals_cover_the_truth_in_93_to_97_percent(launches: int, batches: int, launch: float) -> None:
    # Of 600 data sets of three figures each; benchmarks/studies/calibration_coverage.py has 2,000 of more kinds.
    from pybsp.benchmarks.studies import calibration_coverage as study

    noise = study.noise_of(launches=launches, batches=batches, launch=launch)
    ours, drawn = study.coverage(noise, sets=300, compare=launch > 0)
    assert 0.93 <= np.mean(list(ours.values())) <= 0.97
    if launch:
        assert np.mean(list(drawn.values())) < 0.90  # the simpler way does not


def test_samples_that_are_missing_or_not_above_zero_do_not_move_medians() -> None:
    samples = sampled(swept(), line(1e-4, 5e-6, 1e-8), each=5)
    below = {0: 0.0, 1: -1e-3}  # a difference of two times may be so by noise
    some = [s._replace(seconds=below.get(n // 9 % 2, 0.0)) if n % 9 == 0 else s for n, s in enumerate(samples) if n % 5]
    fit = fit_bsp(some, [])
    assert fit is not None
    assert fit.g.value == pytest.approx(1e-8, rel=0.01)
    assert fit.flags == ()
    assert fit_bsp([], []) is None
    assert fit_bsp(sampled([Point("bsp", "empty", "bsp")], line(1e-4, 0, 0)), []) is None


def test_points_whose_median_is_not_above_zero_are_left_out_by_name() -> None:
    samples = sampled(swept(), line(1e-4, 5e-6, 1e-8))
    gone = [s._replace(seconds=-1e-6) if s.point.pattern == "shift" and s.point.h <= 16 else s for s in samples]
    fit = fit_bsp(gone, [])
    assert fit is not None
    (flag,) = fit.flags
    assert (flag.code, flag.about) == ("not-positive", "shift")
    assert "shift of 1 messages and 1 words (launch 0); shift of 1 messages and 1 words (launch 1)" in flag.text
    assert fit.o_msg.value == pytest.approx(5e-6, rel=0.01)
    one = [s._replace(seconds=-s.seconds) if s.point.pattern == "shift" and s.launch == 1 else s for s in samples]
    fit = fit_bsp(one, [])
    assert fit is not None
    assert [flag.code for flag in fit.flags] == ["not-positive"]
    assert fit.g.value == pytest.approx(1e-8, rel=0.01)


def test_samples_that_scatter_about_nothing_leave_figures_finite() -> None:
    rng = np.random.default_rng(5)
    samples = [
        s._replace(seconds=s.seconds + 3e-4 * float(rng.standard_normal())) if s.point.pattern == "shift" else s
        for s in sampled(swept(), line(1e-4, 5e-6, 1e-8), launches=1)
    ]
    fit = fit_bsp(samples, [])
    assert fit is not None
    for estimate in (fit.l, fit.o_msg, fit.g, *fit.patterns.values()):
        assert np.isfinite(estimate).all()
        assert estimate.low <= estimate.value <= estimate.high
    assert fit.g.low <= 1e-8 <= fit.g.high


def test_an_empty_superstep_may_take_another_path() -> None:
    truth = ((0, 2e-5, 4e-6, 1e-8), (1000, 6e-5, 6e-6, 2e-9))
    sends = jumping(*truth)
    fit = fitted(
        swept(words=(1, 16, 128, 512, 1024, 4096, 16384, 65536)), lambda point: sends(point) if point.h else 3e-6
    )
    assert fit.l.value == pytest.approx(3e-6, rel=1e-9)
    assert len(fit.segments) == 2
    for segment, (_, l, o_msg, g) in zip(fit.segments, truth, strict=True):  # noqa: E741
        assert (segment.l.value, segment.o_msg.value, segment.g.value) == pytest.approx((l, o_msg, g), rel=1e-6)
    assert fit.residuals.p95 < 1e-9
    assert codes(fit) == {"regimes", "empty"}
    (flag,) = [flag for flag in fit.flags if flag.code == "empty"]
    assert "3 us, one that sends something 20 us" in flag.text
    assert fit.differences["l"] == pytest.approx(2e-5, rel=1e-6)
    assert predict(fit, 0, 0) == pytest.approx(3e-6)
    assert predict(fit, 30, 3) == pytest.approx(2e-5 + 3 * 4e-6 + 30 * 1e-8, rel=1e-6)


def queues(p: int = 4, items: tuple[int, ...] = (100, 1000, 20000)) -> list[Point]:
    return [counted(Point("queue", "queue", "bsp", size=8, messages=n), p) for n in items]


def with_items(seconds: Seconds, o_item: float) -> Seconds:
    return lambda point: seconds(point) + o_item * point.items


@pytest.mark.whole
@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("o_item", [2e-8, 1e-6])
def test_what_an_item_of_a_queue_costs_is_recovered(p: int, o_item: float) -> None:
    truth = with_items(jumping((0, 1e-4, 5e-6, 2e-8), (1000, 3e-4, 2e-5, 1e-8)), o_item)
    fit = fit_bsp(sampled(swept(p), truth), [], 0, sampled(queues(p), truth))
    assert fit is not None
    assert fit.o_item is not None
    assert fit.o_item.value == pytest.approx(o_item, rel=1e-6)
    assert codes(fit) == {"regimes"}
    for point in queues(p):
        assert predict(fit, point.h, point.busiest, point.items) == pytest.approx(truth(point), rel=1e-6)
    without = fit_bsp(sampled(swept(p), truth), [])
    assert without is not None
    assert without.o_item is None
    assert (without.l.value, without.g.value, without.patterns.keys()) == (
        fit.l.value,
        fit.g.value,
        fit.patterns.keys(),
    )
    assert without.differences == fit.differences


@pytest.mark.whole
def test_the_interval_of_an_item_contains_what_is_not_known_of_the_lines() -> None:
    truth = with_items(line(1e-4, 5e-6, 1e-8), 3e-8)
    found = []
    for seed in range(40):
        more = {"noise": 0.05, "launch": 0.02, "seed": seed}
        every = sampled(swept() + queues(), truth, **more)  # type: ignore[arg-type]
        kinds = [[s for s in every if (s.point.items > 0) == queued] for queued in (False, True)]
        fit = fit_bsp(kinds[0], [], 0, kinds[1])
        assert fit is not None
        assert fit.o_item is not None
        found.append(fit.o_item)
    assert np.median([estimate.value for estimate in found]) == pytest.approx(3e-8, rel=0.02)
    assert sum(estimate.low <= 3e-8 <= estimate.high for estimate in found) >= 35  # of 40 at 95 %: fewer in 1 of 100


def test_queues_that_cost_less_than_their_words_are_flagged() -> None:
    truth = line(1e-4, 5e-6, 1e-8)
    fit = fit_bsp(sampled(swept(), truth), [], 0, sampled(queues(), with_items(truth, -6e-9)))
    assert fit is not None
    assert fit.o_item is not None
    assert fit.o_item.value == 0
    assert fit.o_item.low < 0
    assert codes(fit) == {"negative", "residual"}
    assert {flag.about for flag in fit.flags} == {"o_item"}
    assert "o_item comes out negative, -6 ns an item" in fit.flags[0].text


def rates(factors: dict[int, float], flops: dict[tuple[str, int], float]) -> list[Sample]:
    return [
        Sample(Point("rate", kernel, size=size, work=1e6), launch, batch, 1, 1e6 / rate * factors[pid], 0.0, pid)
        for (kernel, size), rate in flops.items()
        for launch in range(3)
        for batch in range(4)
        for pid in factors
    ]


def test_the_rate_is_the_slowest_processor_s() -> None:
    flops = {("axpy", 1 << 15): 2e9, ("axpy", 1 << 26): 5e8, ("dot", 1 << 15): 2e9, ("matmul", 1 << 20): 4e10}
    table, r, flags = fit_rates(rates({0: 1.0, 1: 2.0, 2: 1.0}, flops))
    assert len(table) == 4
    assert {rate.slowest for rate in table} == {1}
    assert all(rate.spread == pytest.approx(2) for rate in table)
    assert table[0].rate.value == pytest.approx(1e9)
    assert r is not None
    assert r.value == pytest.approx((1e9 * 2.5e8 * 1e9) ** (1 / 3))
    assert {flag.code for flag in flags} == {"uneven-rates", "one-rate"}
    assert all(rate.rate.low <= rate.rate.value <= rate.rate.high < 2 * rate.rate.value for rate in table)
    _, alike, quiet = fit_rates(rates({0: 1.0, 1: 1.0}, dict.fromkeys(flops, 1e9)))
    assert alike is not None
    assert alike.value == pytest.approx(1e9)
    assert quiet == []


def test_batches_that_resemble_their_neighbours_are_doubled() -> None:
    rng = np.random.default_rng(1)
    slow = np.repeat(rng.standard_normal(40), 8)  # eight batches in a row alike
    points = [Point("bsp", "empty", "bsp")]
    alike = [Sample(points[0], 0, n, 1, 1 + 0.05 * x, 0.0) for n, x in enumerate(slow.tolist())]
    free = [sample._replace(batch=int(n)) for sample, n in zip(alike, rng.permutation(320), strict=True)]
    assert Table.of(alike).batches.shape[-1] <= 40
    assert Table.of(free).batches.shape[-1] == 320
    assert Table.of(alike, doubled=False).batches.shape[-1] == 320


def test_cuts_need_enough_points_on_either_side() -> None:
    sizes = np.array([0.0, 1, 2, 4, 8, 16, 32])
    design = np.stack([np.ones(7), np.ones(7), sizes], axis=1)
    assert cut(sizes, design[:, [0, 2]], np.array([1.0, 1, 1, 1, 5, 9, 17])) == [0.0]
    assert cut(np.zeros(3), design[:3], np.ones(3)) == [0.0]


def test_there_is_a_cut_where_time_falls_whatever_states_the_machine_was_in() -> None:
    # Medians of a virtual machine whose cores changed their places meanwhile: words, messages, us.
    medians = (
        *((1, 1, 0.6), (1, 8, 0.36), (32, 1, 0.66), (32, 1, 1.98), (32, 8, 1.67), (32, 8, 2.26), (96, 1, 0.79)),
        *((96, 8, 1.35), (256, 1, 0.61), (256, 8, 9.09), (1024, 1, 4.92), (1024, 2, 2.99), (2048, 1, 6.89)),
        *((4096, 1, 17.13), (4096, 2, 33.09), (14336, 1, 55.88), (14336, 2, 68.44), (16384, 1, 8.6), (16384, 1, 10.5)),
        *((16384, 2, 12.92), (32768, 1, 11.72), (32768, 2, 14.04), (65536, 1, 12.73), (65536, 2, 15.89)),
    )
    words, messages, times = np.array(medians, float).T
    design = np.stack([np.ones(len(words)), messages, messages * words], axis=1)
    begins = cut(words, design, times)
    assert begins[0] == 0
    assert [14336 < begin < 16384 for begin in begins[1:]] == [True]
    # As long for one of the numbers of messages: that may be a state of the machine, too.
    times[(words == 16384) & (messages == 2)] = times[(words == 14336) & (messages == 2)]
    assert cut(words, design, times) == [0]


def test_there_are_cuts_below_one_where_time_falls_too() -> None:
    words = np.repeat([1.0, 4.0, 64.0, 256.0, 4096.0, 16384.0], 6)
    messages = np.tile(np.arange(1.0, 7.0), 6)
    way = np.searchsorted([16, 1024], words)
    times = np.array([1.0, 50.0, 5.0])[way] * messages
    assert cut(words, np.stack([np.ones(len(words)), messages], axis=1), times) == pytest.approx([0, 16, 1024])


def test_sizes_nearer_than_two_percent_are_in_one_segment() -> None:
    messages = np.tile(np.arange(1.0, 7.0), 4)
    design = np.stack([np.ones(24), messages], axis=1)
    for larger, begins in (101.0, [0, math.sqrt(101 * 200)]), (103.0, [0, math.sqrt(100 * 103)]):
        words = np.repeat([50.0, 100.0, larger, 200.0], 6)
        assert cut(words, design, np.where(words > 100, 9.0, 1.0) * messages) == pytest.approx(begins)


def test_two_sizes_are_two_segments_where_enough_messages_were_timed() -> None:
    words, messages = np.repeat([1.0, 1000.0], 6), np.tile(np.arange(1.0, 7.0), 2)
    design = np.stack([np.ones(12), messages], axis=1)
    assert len(cut(words, design, np.where(words > 1, 500 + 9 * messages, 1 + messages))) == 2
    assert cut(words, design, 1 + messages) == [0]


def test_held_out_errors_are_of_what_was_predicted() -> None:
    points = swept(patterns=("halo", "random"), messages=(1,), words=(16, 1024), experiment="held-out")
    points = [point for point in points if point.h]
    samples = sampled(points, line(1e-4, 0, 1e-8), launches=1)
    found = held_out(samples, lambda point: (1e-4 + 1e-8 * point.h) * (1.3 if point.pattern == "halo" else 1.0))
    assert found is not None
    assert found.patterns["halo"].bias == pytest.approx(0.3)
    assert found.patterns["random"].p95 < 1e-9
    assert found.all.median == pytest.approx(0.15)
    assert found.all.points == len(found.points) == 4
    assert any("too long" in flag.text and flag.about == "halo" for flag in found.flags)
    assert not any(flag.about == "random" for flag in found.flags)
    assert held_out([], lambda point: math.nan) is None


def test_the_error_of_a_segment_is_that_of_a_fit_to_its_points_alone() -> None:
    rng = np.random.default_rng(7)
    group = np.repeat(np.arange(5), [7, 5, 1, 6, 9])
    design = np.stack([np.ones(len(group)), rng.uniform(1, 4, len(group)), 100 * rng.uniform(1, 9, len(group))], axis=1)
    times = design @ [3.0, 1.0, 0.02] * np.exp(0.05 * rng.standard_normal(len(group)))
    rows = (design / times[:, None])[shuffled := rng.permutation(len(group))]
    errors = segments._errors(group[shuffled], 5, rows)
    assert errors.shape == (5, 6)
    for first in range(5):
        for last in range(6):
            of = rows[(first <= group[shuffled]) & (group[shuffled] < last)]
            if len(of) < segments.FEWEST:
                assert errors[first, last] == np.inf
            else:
                _, (residual,), *_ = np.linalg.lstsq(of, np.ones(len(of)), rcond=None)
                assert errors[first, last] == pytest.approx(residual)
    lines = np.repeat([[1.0, 2.0, 3.0]], 7, axis=0)  # points that tell no parameter from another
    assert segments._errors(np.zeros(7, int), 1, lines)[0, 1] == np.inf
    falling = np.stack([np.ones(20), np.linspace(1, 2, 20)], axis=1)  # each word takes something away
    rows = falling / (falling @ [4.0, -1.0])[:, None]
    errors = segments._errors(np.repeat([0, 1], 10), 2, rows)
    assert errors[0, 2] == pytest.approx(0, abs=1e-9)  # of all together that is taken
    assert errors[0, 1] == errors[1, 2] == np.inf


@pytest.mark.parametrize(
    ("noise", "jump", "found"),
    [
        (0.05, 0.15, [0]),  # 30 % less error: by less than a fifth of its root
        (0.05, 0.2, [0, 512**0.5]),
        (0.0, 0.03, [0]),  # within a hundredth of all times already
        (0.0, 0.05, [0, 512**0.5]),
    ],
)
@pytest.mark.fast
def test_a_cut_lowers_the_error_by_a_fifth_and_one_within_a_hundredth_is_good(
    noise: float, jump: float, found: list[float]
) -> None:
    words = np.repeat(2.0 ** np.arange(10), 40)
    factor = (1 + noise * np.tile([1, -1], len(words) // 2)) * np.where(words > 16, 1 + jump, 1)
    assert cut(words, np.stack([np.ones(len(words)), words], axis=1), (10 + words) * factor) == pytest.approx(found)


def test_there_are_at_most_four_segments() -> None:
    words, way = np.repeat(2.0 ** np.arange(15), 4), np.repeat(np.arange(5), 12)
    times = np.array([1, 40, 400, 3000, 30000])[way] + words
    begins = cut(words, np.stack([np.ones(len(words)), words], axis=1), times)
    assert begins == pytest.approx([0, 32**0.5, 2048**0.5, 2**11.5])
