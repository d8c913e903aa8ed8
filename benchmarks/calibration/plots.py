"""A calibration on one page of plots, to be looked at before its figures are believed.

T against h with what is predicted, its error band and segments; relative residuals; held-out supersteps, predicted
against measured; the LogP signature; the samples over time; how they are distributed.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pybsp.errors import UsageError
from pybsp.ground.files import writing

from . import machine_file, report, words
from .estimates import Estimate
from .fits.intervals import batch_medians
from .results import Calibration, LogPFit
from .samples import Point, Raw, Sample, grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".pdf", ".png", ".svg")
PAGE = (15.0, 9.5)  # inches
STYLE: dict[Any, Any] = {"font.size": 8, "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True}
# Told apart by people who do not see red and green alike (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#999999")
MARKERS = "os^Dvp*X<>"
MOST_LINES = 3  # predicted lines, each for another number of messages
MOST_DOTS = 20_000  # samples that are drawn over time
WIDE = 5.0  # the largest ratio over the smallest from which on an axis is logarithmic
FEW = 8  # samples that a distribution is drawn of, at least


def page(calibration: Calibration, raw: Raw | None, path: str | os.PathLike[str]) -> None:
    """Draw the page into a file.

    Args:
        calibration: what a machine file holds.
        raw: the samples that it was computed from; without them, what is drawn from samples is left out.
        path: a .pdf, .png or .svg file.

    Raises:
        UsageError: another kind of file, it cannot be written, or matplotlib is missing.
    """
    require_kind(path)
    figure = draw(calibration, raw)
    with writing(path, f"plots: {path}") as file:
        figure.savefig(file.buffer, format=Path(path).suffix[1:].lower(), dpi=130)


def require_kind(path: str | os.PathLike[str]) -> None:
    """Refuse another kind of file."""
    if Path(path).suffix.lower() not in KINDS:
        raise UsageError(f"plots: expected a file that ends in {', '.join(KINDS)}, got {path}")


def draw(calibration: Calibration, raw: Raw | None) -> Figure:
    """The page as a matplotlib figure (see `page`); a UsageError where matplotlib is missing."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(f"plots need matplotlib ({error}): pip install matplotlib") from error

    samples = [] if raw is None else raw.samples
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=PAGE, layout="constrained")
        grid = figure.subplots(2, 3)
        _against_h(grid[0][0], calibration, samples)
        _residuals(grid[0][1], calibration, samples)
        _held_out(grid[0][2], calibration)
        _signature(grid[1][0], calibration)
        _over_time(grid[1][1], samples)
        _distribution(grid[1][2], samples)
        flags = len(dict.fromkeys(calibration.all_flags()))
        summary = f"{flags} flag{'s' * (flags != 1)}, in words by `pybsp show`" if flags else "no flags"
        heading = "\n".join(textwrap.wrap(report.heading(calibration.about), 180))
        figure.suptitle(f"{heading}\n{summary}", fontsize=8)
    return figure


def _nothing(axes: Axes, why: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color="#666666", wrap=True)


def _of(samples: Sequence[Sample], chosen: Callable[[Point], bool]) -> dict[Point, list[Sample]]:
    """The samples of the chosen points that took any time, point by point."""
    return grouped((sample for sample in samples if sample.seconds > 0 and chosen(sample.point)), attrgetter("point"))


def _medians(samples: Sequence[Sample]) -> dict[Point, float]:
    """Median of the batches' medians of each superstep that parameters were fitted from."""
    points = _of(samples, lambda point: point.experiment == "bsp")
    return {point: float(np.median(list(batch_medians(found).values()))) for point, found in points.items()}


def _looks(names: Sequence[str]) -> Mapping[str, Any]:
    """Colour and marker of each pattern."""
    return {
        name: {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]} for n, name in enumerate(names)
    }


def _by_pattern(axes: Axes, places: Mapping[Point, tuple[float, float]]) -> None:
    """A mark for each point, by what its pattern looks like."""
    for pattern, look in _looks(sorted({point.pattern for point in places})).items():
        found = [place for point, place in places.items() if point.pattern == pattern]
        axes.plot(*zip(*found, strict=True), linestyle="", markersize=4, alpha=0.8, label=pattern, **look)


def _predictor(calibration: Calibration) -> Callable[[float, float], float] | None:
    """Seconds of a superstep of h words and so many messages, as programs predict it."""
    fit = calibration.bsp
    if fit is None or not np.isfinite([fit.l.value, fit.o_msg.value, fit.g.value]).all():
        return None
    machine = machine_file.bsp_machine(fit, calibration.about)
    return lambda h, messages: machine.elapsed(0.0, h, messages)


def _against_h(axes: Axes, calibration: Calibration, samples: Sequence[Sample]) -> None:
    axes.set_title("Supersteps: T against h (medians, and as predicted)")
    medians, predict = _medians(samples), _predictor(calibration)
    sending = {point: seconds for point, seconds in medians.items() if point.h}
    if not sending:
        return _nothing(axes, "T against h: there are no samples of supersteps that send anything")
    _by_pattern(axes, {point: (point.h, seconds) for point, seconds in sending.items()})
    if predict is not None:
        _lines(axes, calibration, list(sending), predict)
    axes.set(xscale="log", yscale="log", xlabel="h [words]", ylabel="T [s]")
    axes.legend(fontsize=6)
    return None


def _lines(
    axes: Axes, calibration: Calibration, points: Sequence[Point], predict: Callable[[float, float], float]
) -> None:
    """What is predicted for some numbers of messages, with the error band of held-out supersteps."""
    assert calibration.bsp is not None
    counts = sorted({point.busiest for point in points if point.busiest})
    chosen = dict.fromkeys(counts[n] for n in np.linspace(0, len(counts) - 1, MOST_LINES).round().astype(int))
    starts = [row.words for row in calibration.bsp.segments if row.words]
    errors = None if calibration.held_out is None else calibration.held_out.all
    for style, messages in zip(("-", "--", ":"), chosen, strict=False):
        reach = [point.h for point in points if point.busiest == messages]
        ends = [start * messages for start in starts if min(reach) < start * messages < max(reach)]
        h = np.unique([*np.geomspace(min(reach), max(reach), 200), *ends, *(end * (1 - 1e-9) for end in ends)])
        seconds = np.array([predict(words_, messages) for words_ in h])
        axes.plot(
            h,
            seconds,
            style,
            color="black",
            linewidth=0.9,
            label=f"predicted, {messages} message{'s' * (messages != 1)}",
        )
        if errors is not None:
            below, above = seconds / (1 + errors.p95), seconds * (1 + errors.p95)
            axes.fill_between(h, below, above, color="black", alpha=0.08, linewidth=0)
        for end in ends:
            axes.axvline(end, color="#999999", linewidth=0.6, linestyle=style)
    axes.axhline(calibration.bsp.l.value, color="#d55e00", linewidth=0.8, label="l")
    if errors is not None:
        axes.plot([], [], color="black", alpha=0.15, linewidth=5, label=f"p95 of errors: {errors.p95:.0%}")
    if starts:
        axes.plot([], [], color="#999999", linewidth=0.6, label="a segment begins")


def _residuals(axes: Axes, calibration: Calibration, samples: Sequence[Sample]) -> None:
    axes.set_title("Residuals of the points that parameters were fitted from")
    medians, predict = _medians(samples), _predictor(calibration)
    sending = {point: seconds for point, seconds in medians.items() if point.h and point.busiest}
    if predict is None or not sending:
        return _nothing(axes, "Residuals: there are no samples of supersteps that send anything, or no fit")
    points = {
        point: (point.h / point.busiest, predict(point.h, point.busiest) / seconds - 1)
        for point, seconds in sending.items()
    }
    _by_pattern(axes, points)
    axes.axhline(0, color="black", linewidth=0.8)
    for error in (-0.25, 0.25):
        axes.axhline(error, color="#d55e00", linewidth=0.8, linestyle="--", label="25 %" if error > 0 else None)
    axes.set(
        xscale="log", xlabel="mean size of a message, h/messages [words]", ylabel="(predicted - measured)/measured"
    )
    axes.legend(fontsize=6)
    return None


def _held_out(axes: Axes, calibration: Calibration) -> None:
    axes.set_title("Held-out supersteps: predicted against measured")
    found = calibration.held_out
    if found is None or not found.points:
        return _nothing(axes, "Held-out supersteps: none were measured")
    for pattern, look in _looks(sorted({point.pattern for point in found.points})).items():
        of = [point for point in found.points if point.pattern == pattern]
        measured = [point.measured for point in of]
        error = found.patterns.get(pattern)
        label = pattern if error is None else f"{pattern}: {error.median:.0%}, p95 {error.p95:.0%}"
        values = [estimate.value for estimate in measured]
        predicted = [point.predicted for point in of]
        axes.errorbar(values, predicted, xerr=_bars(measured), linestyle="", markersize=4, label=label, **look)
    both = [x for point in found.points for x in (point.measured.value, point.predicted) if x > 0]
    ends = np.array([min(both) / 1.3, max(both) * 1.3])
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, ends * 0.75, ends * 1.25, color="black", alpha=0.08, linewidth=0, label="25 %")
    axes.set(xscale="log", yscale="log", xlabel="measured T [s]", ylabel="predicted T [s]")
    axes.legend(fontsize=6)
    return None


def _bars(estimates: Sequence[Estimate]) -> list[list[float]]:
    """What error bars reach down and up; none where an interval has no ends."""
    down = [max(0.0, one.value - one.low) if np.isfinite(one.low) else 0.0 for one in estimates]
    return [down, [max(0.0, one.high - one.value) if np.isfinite(one.high) else 0.0 for one in estimates]]


def _signature(axes: Axes, calibration: Calibration) -> None:
    axes.set_title("LogP signature by the size of a message")
    shown = [fit for fit in calibration.logp if fit.sizes]
    if not shown:
        return _nothing(axes, "LogP signature: it was not measured")
    kinds: dict[str, Callable[[Any], Estimate | None]] = {
        "round trip/2": lambda row: row.round_trip.scaled(0.5),
        "gap": lambda row: row.gap,
        "o_s": lambda row: row.o_s,
        "o_r": lambda row: row.o_r,
    }
    styles = ("-", "--", ":", "-.")
    for fit, style in zip(shown, styles, strict=False):
        for (name, get), colour, marker in zip(kinds.items(), COLOURS, MARKERS, strict=False):
            # A logarithmic axis has no place for what came out negative; the flags say that it did.
            pairs = [(row.size, at) for row in fit.sizes if (at := get(row)) is not None and at.value > 0]
            if pairs:
                sizes, values = zip(*pairs, strict=True)
                label = f"{name}, {_whose(fit)}"
                axes.errorbar(
                    sizes,
                    [at.value for at in values],
                    yerr=_bars(values),
                    color=colour,
                    marker=marker,
                    markersize=3,
                    linestyle=style,
                    linewidth=0.9,
                    label=label,
                )
        if fit.eager_limit is not None:
            label = f"eager up to {words.size(fit.eager_limit)}, {_whose(fit)}"
            axes.axvline(fit.eager_limit, color="#d55e00", linewidth=0.8, linestyle=style, label=label)
    axes.set(xscale="log", yscale="log", xlabel="bytes of a message", ylabel="seconds")
    axes.legend(fontsize=5.5)
    return None


def _whose(fit: LogPFit) -> str:
    return {"raw": "mpi4py", "logp": "LogP layer"}[fit.layer] + (f" {fit.where}" if fit.where else "")


def _relative(samples: Sequence[Sample]) -> dict[Point, list[tuple[Sample, float]]]:
    """Each sample over the median of all samples of its point, and processor."""
    found: dict[Point, list[tuple[Sample, float]]] = {}
    for point, of in _of(samples, lambda point: True).items():
        for alike in grouped(of, attrgetter("pid")).values():
            middle = float(np.median([sample.seconds for sample in alike]))
            found.setdefault(point, []).extend((sample, sample.seconds / middle) for sample in alike)
    return found


def _over_time(axes: Axes, samples: Sequence[Sample]) -> None:
    axes.set_title("Samples over time, each over its point's median")
    if not samples:
        return _nothing(axes, "Samples over time: there are no samples")
    begins, end = {}, 0.0
    for launch in sorted({sample.launch for sample in samples}):
        begins[launch] = end
        end += max(sample.at for sample in samples if sample.launch == launch)
    everything = [pair for pairs in _relative(samples).values() for pair in pairs]
    step = -(-len(everything) // MOST_DOTS)
    names = sorted({sample.point.experiment for sample, _ in everything} - {"repeat"})
    for n, name in enumerate([*names, "repeat"]):
        of = [pair for pair in everything if pair[0].point.experiment == name]
        shown = of if name == "repeat" else of[::step]
        if not shown:
            continue
        look: dict[str, Any] = {"s": 3, "color": COLOURS[n % (len(COLOURS) - 1)], "alpha": 0.5, "linewidths": 0}
        if name == "repeat":
            look = {"s": 14, "color": "#d55e00", "marker": "x", "linewidths": 0.7}
        label = "repeat: one superstep again and again" if name == "repeat" else name
        times = [begins[sample.launch] + sample.at for sample, _ in shown]
        axes.scatter(times, [ratio for _, ratio in shown], rasterized=True, label=label, **look)
    for begin in list(begins.values())[1:]:
        axes.axvline(begin, color="black", linewidth=0.8)
    axes.axhline(1, color="black", linewidth=0.8)
    note = "; lines: another launch" if len(begins) > 1 else ""
    axes.set(xlabel=f"seconds since the begin{note}", ylabel="sample/median")
    _ratio_scale(axes.set_yscale, [ratio for _, ratio in everything])
    axes.legend(fontsize=6, markerscale=2)
    return None


def _ratio_scale(set_scale: Callable[[str], None], ratios: Sequence[float]) -> None:
    """Logarithmic where ratios are far apart; few labels fit on such an axis where they are not."""
    if max(ratios) / min(ratios) > WIDE:
        set_scale("log")


def _distribution(axes: Axes, samples: Sequence[Sample]) -> None:
    axes.set_title("Distribution of some points' samples")
    chosen: dict[str, list[float]] = {}
    for point, pairs in sorted(_relative(samples).items(), key=lambda item: -len(item[1])):
        name = f"{point.experiment} {point.layer}".strip() if point.experiment == "logp" else point.experiment
        if name not in chosen and len(pairs) >= FEW:
            chosen[name] = sorted(ratio for _, ratio in pairs)
            name_of = f"{name}: {point.pattern}" + (f", {words.size(point.size)}" if point.size else "")
            axes.plot(
                chosen[name],
                np.arange(1, len(pairs) + 1) / len(pairs),
                color=COLOURS[(len(chosen) - 1) % len(COLOURS)],
                linewidth=1,
                drawstyle="steps-post",
                label=f"{name_of} ({len(pairs)})",
            )
    if not chosen:
        return _nothing(axes, f"Distribution: no point has {FEW} samples")
    axes.axvline(1, color="black", linewidth=0.8)
    _ratio_scale(axes.set_xscale, [ratio for ratios in chosen.values() for ratio in ratios])
    axes.set(xlabel="sample/median", ylabel="part of the samples that is at most this")
    axes.legend(fontsize=6)
    return None
