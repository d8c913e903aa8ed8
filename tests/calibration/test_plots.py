"""The page of plots: all of a calibration on it, as programs predict; what is said where it cannot be drawn."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybsp import UsageError
from pybsp.benchmarks.calibration import machine_file, plots
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.results import Calibration, Noise
from pybsp.benchmarks.calibration.samples import Point, Raw, Sample, Writer
from pybsp.cli import main

from .example import ABOUT, LATENCY, LIMIT, calibration, predicted_seconds, raw

NOTHING = Calibration(dict(ABOUT), None, None, None, (), None, Noise(1.0, None, 0.0, 0, 0))


def labels(axes: Any) -> set[str]:
    """What the legend says."""
    return {text.get_text() for text in axes.get_legend().get_texts()}


def line(axes: Any, label: str) -> tuple[Any, Any]:
    """The data of a line."""
    found = next(one for one in axes.get_lines() if one.get_label() == label)
    return np.asarray(found.get_xdata(), dtype=float), np.asarray(found.get_ydata(), dtype=float)


@pytest.mark.whole
def test_the_page_has_six_plots_with_something_on_each() -> None:
    figure = plots.draw(calibration(), raw())
    assert len(figure.axes) == 6
    assert all(axes.get_legend() is not None for axes in figure.axes)
    assert "3 flags" in figure.get_suptitle()


def test_lines_are_what_programs_predict_with_a_jump_at_the_segment() -> None:
    axes = plots.draw(calibration(), raw()).axes[0]
    h, seconds = line(axes, "predicted, 1 message")
    assert seconds == pytest.approx([predicted_seconds(words, 1) for words in h])
    assert LIMIT in h
    h, seconds = line(axes, "predicted, 8 messages")
    assert seconds == pytest.approx([predicted_seconds(words, 8) for words in h])
    assert 8 * LIMIT in h
    assert line(axes, "l")[1].tolist() == [LATENCY, LATENCY]
    assert {"exchange", "permutation", "p95 of errors: 12%", "a segment begins"} <= labels(axes)


def test_points_are_medians_of_the_samples() -> None:
    h, seconds = line(plots.draw(calibration(), raw()).axes[0], "permutation")
    expected = {8 * 1024.0: predicted_seconds(8 * 1024, 8), 1.0: predicted_seconds(1, 1)}
    for words, value in expected.items():
        assert seconds[h.tolist().index(words)] == pytest.approx(value, rel=0.03)


def test_residuals_are_relative() -> None:
    found = calibration()
    assert found.bsp is not None
    twice = dataclasses.replace(
        found.bsp,
        segments=tuple(
            dataclasses.replace(s, l=s.l.scaled(2), o_msg=s.o_msg.scaled(2), g=s.g.scaled(2))
            for s in found.bsp.segments
        ),
    )
    _, residuals = line(plots.draw(dataclasses.replace(found, bsp=twice), raw()).axes[1], "exchange")
    assert residuals == pytest.approx(np.ones(len(residuals)), abs=0.1)


def test_held_out_supersteps_are_predicted_against_measured() -> None:
    found = calibration()
    assert found.held_out is not None
    axes = plots.draw(found, None).axes[2]
    bars: Any = axes.containers[0]
    drawn = bars.lines[0]
    assert list(drawn.get_xdata()) == [point.measured.value for point in found.held_out.points]
    assert list(drawn.get_ydata()) == [point.predicted for point in found.held_out.points]
    assert "halo: 5%, p95 12%" in labels(axes)


def test_the_signature_has_both_layers_and_the_eager_limit() -> None:
    shown = labels(plots.draw(calibration(), None).axes[3])
    assert {"gap, mpi4py", "gap, LogP layer", "o_r, mpi4py", "eager up to 64 KiB, mpi4py"} <= shown


def test_samples_over_time_mark_the_reference_and_launches() -> None:
    axes = plots.draw(calibration(), raw()).axes[4]
    assert "repeat: one superstep again and again" in labels(axes)
    assert "another launch" in axes.get_xlabel()
    assert sum(len(np.asarray(dots.get_offsets())) for dots in axes.collections) == len(raw().samples)


def test_distributions_end_at_all_samples() -> None:
    axes = plots.draw(calibration(), raw()).axes[5]
    curves = [one for one in axes.get_lines() if "(" in str(one.get_label())]
    assert len(curves) == 4  # rate, bsp, repeat, logp
    for one in curves:
        ratios, part = np.asarray(one.get_xdata(), dtype=float), np.asarray(one.get_ydata(), dtype=float)
        assert part[-1] == 1
        assert (np.diff(ratios) >= 0).all()


@pytest.mark.parametrize("found", [NOTHING, dataclasses.replace(calibration(), bsp=None, held_out=None, logp=())])
def test_what_was_not_measured_is_said_in_its_place(found: Calibration) -> None:
    figure = plots.draw(found, None)
    texts_shown = [axes.texts[0].get_text() for axes in figure.axes if axes.texts]
    assert len(texts_shown) == 6
    assert any("LogP signature: it was not measured" in text for text in texts_shown)


@pytest.mark.whole
def test_a_single_point_and_unknown_figures_can_be_drawn(tmp_path: Path) -> None:
    found = calibration()
    assert found.bsp is not None
    unknown = Estimate(float("nan"), float("nan"), float("nan"))
    found = dataclasses.replace(found, bsp=dataclasses.replace(found.bsp, g=unknown, o_msg=unknown, segments=()))
    point = Point("bsp", "exchange", "bsp", size=8, messages=1, h_out=3, h_in=3, busiest=3)
    plots.page(found, Raw(dict(ABOUT), [Sample(point, 0, 0, 1, 1e-5, 0.0)]), tmp_path / "page.png")
    plots.page(calibration(), Raw(dict(ABOUT), [Sample(point, 0, 0, 1, 1e-5, 0.0)]), tmp_path / "page.png")


@pytest.mark.whole
@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_page_is_written_as_the_file_s_name_says(tmp_path: Path, kind: str, begin: bytes) -> None:
    plots.page(calibration(), raw(), tmp_path / f"page.{kind}")
    assert (tmp_path / f"page.{kind}").read_bytes().startswith(begin)


@pytest.mark.whole
def test_another_kind_of_file_or_one_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.pdf, \.png, \.svg.*page\.doc"):
        plots.page(calibration(), None, tmp_path / "page.doc")
    with pytest.raises(UsageError, match="cannot be written"):
        plots.page(calibration(), None, tmp_path / "none" / "page.png")


@pytest.mark.parametrize(
    ("page", "why"), [("none/page.svg", "--plot: expected a file that can be written"), ("page.doc", "ends in .pdf")]
)
def test_show_looks_where_a_page_is_to_be_before_it_prints(
    page: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine_file.write(calibration(), tmp_path / "machine.json")
    assert main(["show", str(tmp_path / "machine.json"), "--plot", str(tmp_path / page)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, why in printed.err) == ("", True)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install matplotlib"):
        plots.page(calibration(), None, tmp_path / "page.png")


@pytest.mark.whole
def test_show_draws_from_the_samples_beside_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine, page = str(tmp_path / "machine.json"), tmp_path / "page.svg"
    machine_file.write(calibration(), machine)
    assert main(["show", machine, "--plot", str(page)]) == 0
    assert "no raw samples" in capsys.readouterr().err
    without = len(page.read_bytes())
    samples = raw()
    writer = Writer(tmp_path / "machine.csv", samples.about)
    writer.write(samples.samples)
    writer.close()
    assert main(["show", machine, "--plot", str(page)]) == 0
    assert capsys.readouterr().err == ""
    assert len(page.read_bytes()) > 2 * without
