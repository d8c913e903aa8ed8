"""`pybsp show`: every figure with its unit and interval, flags in words, nothing clamped or left out silently."""

from __future__ import annotations

import dataclasses
import io
import math
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

import pybsp
from pybsp.benchmarks.calibration import machine_file, report
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.results import Calibration, Errors, Noise
from pybsp.cli import main

from ..launching import run
from .example import ABOUT, bsp_fit, calibration


def printed(found: Calibration, width: int = 140) -> str:
    """What is printed, with single spaces."""
    stream = io.StringIO()
    report.show(found, Console(file=stream, width=width))
    return re.sub(r" +", " ", stream.getvalue())


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (3.2e-6, "s/word", (1e-6, "us/word")),
        (4.5e-5, "s", (1e-6, "us")),
        (2.0, "s", (1.0, "s")),
        (-3e-9, "s", (1e-9, "ns")),
        (1.5e9, "flop/s", (1e9, "Gflop/s")),
        (250.0, "words/s", (1.0, "words/s")),
        (0.0, "s", (1.0, "s")),
        (0.0, "flop/s", (1.0, "flop/s")),
        (math.inf, "s", (1.0, "s")),
        (17.0, "bytes", (1.0, "bytes")),
    ],
)
def test_a_figure_is_read_in_a_fitting_unit(value: float, unit: str, expected: tuple[float, str]) -> None:
    assert report.unit_of(value, unit) == expected


def test_value_and_interval_are_in_one_unit() -> None:
    assert report.figure(Estimate(1.2e-6, 9e-7, 1.5e-6), "s") == ("1.2", "0.9 to 1.5", "us")


def test_a_zero_value_is_read_in_its_interval_s_unit() -> None:
    assert report.figure(Estimate(0.0, 0.0, 3e-9), "s/word") == ("0", "0 to 3", "ns/word")


def test_what_is_not_known_is_no_number() -> None:
    assert report.figure(None, "s") == ("-", "-", "s")
    assert report.figure(Estimate(math.nan, math.nan, math.nan), "s") == ("-", "-", "s")
    assert report.figure(Estimate(1e-6, -math.inf, math.inf), "s") == ("1", "-", "us")


def test_a_negative_figure_is_shown_as_it_is() -> None:
    assert report.figure(Estimate(-2e-6, -3e-6, -1e-6), "s") == ("-2", "-3 to -1", "us")


@pytest.mark.parametrize(
    "row",
    [
        "│ l │ 45 │ 42.75 to 47.25 │ us │",
        "│ o_msg │ 2.5 │ 2.375 to 2.625 │ us/message │",
        "│ g │ 3 │ 2.85 to 3.15 │ ns/word │",
        "│ r │ 1.5 │ 1.425 to 1.575 │ Gflop/s │",
        "│ 1024 │ 45 us (42.75 to 47.25) │ 2.5 us (2.375 to 2.625) │ 3 ns (2.85 to 3.15) │",
        "│ many-to-one │ 6 │ 5.7 to 6.3 │ ns/word │ worst │",
        "│ axpy │ 64 KiB │ 1.5 │ 1.425 to 1.575 │ Gflop/s │ 3;",
        "│ g1 │ 10 │ -20 to 40 │ ps/word │",
        "│ E-BSP │ held out │ 2 │ 6.0% │ 14.0% │ +2.0% │",
        "│ within nodes │ 45 us (42.75 to 47.25) │",
        "│ L │ 42 │ 42 to 50 │ us │",
        "│ G_word │ 4 │ 3.8 to 4.2 │ ns/word │",
        "│ 256 KiB │ 624.3 us (593.1 to 655.5) │ 29.21 us (27.75 to 30.68) │ - │ 140.1 us (133.1 to 147.1) │",
        "│ halo │ 2 │ 5.0% │ 12.0% │ +1.0% │",
    ],
)
def test_every_kind_of_figure_is_shown(row: str) -> None:
    assert row in printed(calibration())


@pytest.mark.parametrize(
    "error_text",
    [
        "p = 4 processors on alpha (2), beta (2), 2026-01-02T03:04:05+00:00",
        "MPI MPICH [4.2]",
        "at most twice g from 512 words on",
        "l = 46 us by Theil-Sen",
        "l = 44 us by differences",
        "not kept: programs predict by BSP",
        "A node sends or receives at most 250 Mwords/s (237.5 to 262.5)",
        "Sent eagerly: up to 64 KiB; the round trip jumps at 64 KiB.",
        "more than 5 senders makes them wait (ceil(L/G) = 5)",
        "mean/median of the samples 1.04",
        "1 of 30 points did not converge",
    ],
)
def test_what_is_no_table_is_said(error_text: str) -> None:
    assert error_text in printed(calibration())


def test_flags_are_in_words_with_brackets_and_under_their_part() -> None:
    text = printed(calibration())
    flags = text[text.index("What is to be known") :].splitlines()
    assert flags[1:] == [
        "- 2 launches: intervals are those of batches [few-launches]",
        "BSP:",
        "- g is not constant beyond 8 KiB: two regimes [12 and 3 ns] [regimes]",
        "E-BSP:",
        "- BSP is kept, not E-BSP [ebsp-dropped]",
    ]


def test_brackets_in_a_table_are_no_markup() -> None:
    fit = dataclasses.replace(bsp_fit(), patterns={"[red]exchange": bsp_fit().g})
    assert "│ [red]exchange │" in printed(dataclasses.replace(calibration(), bsp=fit))


def test_every_flag_of_every_part_is_printed() -> None:
    found = calibration()
    text = printed(found)
    assert all(flag.text in text for flag in found.all_flags())


def test_errors_of_no_points_are_no_figures() -> None:
    found = calibration()
    assert found.held_out is not None
    none = dataclasses.replace(found.held_out, patterns={"halo": Errors(0.0, 0.0, 0.0, 0)})
    (row,) = [line for line in printed(dataclasses.replace(found, held_out=none)).splitlines() if "halo" in line]
    assert "%" not in row
    assert row.count(" - ") == 3


def test_parts_that_were_not_measured_are_left_out() -> None:
    nothing = Calibration(dict(ABOUT), None, None, None, (), None, Noise(1.0, None, 0.0, 0, 0))
    text = printed(nothing)
    assert "No flags" in text
    assert not any(part in text for part in ("BSP:", "E-BSP", "LogP", "held-out", "nan", "None"))


def test_one_processor_has_no_messages() -> None:
    unknown = Estimate(math.nan, math.nan, math.nan)
    fit = dataclasses.replace(
        bsp_fit(),
        g=unknown,
        o_msg=unknown,
        segments=(),
        patterns={},
        worst="",
        n_half=None,
        theil_sen={},
        differences={},
        residuals=Errors(0.0, 0.0, 0.0, 0),
    )
    text = printed(
        Calibration({**ABOUT, "p": 1, "hosts": ["alpha"]}, fit, None, None, (), None, Noise(1, None, 0, 0, 3))
    )
    assert "│ g │ - │ - │ s/word │" in text
    assert "nan" not in text
    assert "twice g" not in text
    assert "fitted from are off" not in text


def test_on_a_narrow_screen_no_figure_is_broken() -> None:
    text = printed(calibration(), width=80)
    for figure in ("42.75 to 47.25", "us/message", "1.425 to 1.575", "Gflop/s", "-20 to 40"):
        assert figure in text
    assert max(map(len, text.splitlines()[1:])) <= 200  # lines of text wrap by themselves; tables do not


def test_show_prints_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine_file.write(calibration(), tmp_path / "machine.json")
    assert main(["show", str(tmp_path / "machine.json")]) == 0
    assert "42.75 to 47.25" in capsys.readouterr().out


def test_show_names_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


@pytest.mark.whole
def test_show_ends_well_when_its_reader_has_seen_enough(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    machine_file.write(calibration(), path)
    ended = run(["sh", "-c", f"{sys.executable} -m pybsp show {path}; echo status $? >&2"])
    cut = run(["sh", "-c", f"({sys.executable} -m pybsp show {path}; echo status $? >&2) | head -c 10"])
    assert ended.err == cut.err == "status 0\n"


def test_a_file_of_saved_machines_is_shown_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = str(tmp_path / "machine.json"), str(tmp_path / "other.json")
    pybsp.BSPMachine(p=8, g=8e-9, l=2e-5, r=1e10, o_msg=1e-6, rates=(("fft", 2e9),)).save(path)
    pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6).save(path)

    def rows() -> dict[str, list[str]]:
        lines = capsys.readouterr().out.splitlines()
        cells = [[cell.strip() for cell in line.split("\u2502")[1:-1]] for line in lines if line.startswith("\u2502")]
        return {name: rest for name, *rest in cells}

    assert main(["show", path]) == 0
    assert rows() == {
        "p": ["8", "processors"],
        "l": ["20", "us"],
        "o_msg": ["1", "us/message"],
        "o_item": ["0", "s/item"],
        "g": ["8", "ns/word"],
        "r": ["10", "Gflop/s"],
        "r, fft": ["2", "Gflop/s"],
        "p (LogP)": ["2", "processors"],
        "L (LogP)": ["16", "us"],
        "o (LogP)": ["1", "us"],
        "G (LogP)": ["4", "us"],
    }
    machine_file.write(calibration(), other)
    assert main(["compare", path, other]) == 0
    found, measured = rows(), pybsp.BSPMachine.load(other)
    assert found["g"] == ["8", f"{measured.g / 1e-9:.4g}", "ns/word", f"{measured.g / 8e-9:.3g}"]
    assert {"p", "l", "o_msg", "g", "r"} <= set(found)
    assert "r, fft" not in found
    assert main(["show", path, "--plot", str(tmp_path / "page.svg")]) == 2
    assert 'it holds no "calibration"' in capsys.readouterr().err
