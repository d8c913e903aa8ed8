"""`pybsp compare`: what differs by more than intervals say, in one unit, predictions and errors beside it."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from pathlib import Path

import pytest
from rich.console import Console

from pybsp.benchmarks.calibration import compare, machine_file
from pybsp.benchmarks.calibration.compare import Row
from pybsp.benchmarks.calibration.estimates import Estimate, Flag
from pybsp.benchmarks.calibration.results import Calibration, Segment
from pybsp.cli import main

from .example import about, calibration


def other(**of_bsp: object) -> Calibration:
    """The example with another BSP fit."""
    found = calibration()
    assert found.bsp is not None
    return dataclasses.replace(found, bsp=dataclasses.replace(found.bsp, **of_bsp))  # type: ignore[arg-type]


def printed(a: Calibration, b: Calibration, width: int = 140) -> str:
    stream = io.StringIO()
    for part in compare.tables(a, b):
        Console(file=stream, width=width).print(part, highlight=False)
    return re.sub(r" +", " ", stream.getvalue())


@pytest.mark.parametrize(
    ("a", "b", "verdict", "ratio"),
    [
        (Estimate(1.0, 0.9, 1.1), Estimate(1.15, 1.05, 1.25), "within intervals", 1.15),
        (Estimate(1.25, 1.0, 1.5), Estimate(1.0, 0.9, 1.1), "within intervals", 0.8),
        (Estimate(1.0, 0.9, 1.1), Estimate(2.0, 1.8, 2.2), "differs", 2.0),
        (Estimate(2.0, 1.8, 2.2), Estimate(1.0, 0.9, 1.1), "differs", 0.5),
        (Estimate(1.0, 0.9, 1.1), Estimate(-1.0, -2.0, -0.5), "differs", None),
        (Estimate(0.0, 0.0, 0.0), Estimate(1.0, 0.9, 1.1), "differs", None),
        (Estimate(1.0, 0.9, 1.1), None, "only in a", None),
        (None, Estimate(1.0, 0.9, 1.1), "only in b", None),
        (Estimate(1.0, -math.inf, math.inf), Estimate(2.0, 1.9, 2.1), "not known", 2.0),
        (Estimate(math.nan, math.nan, math.nan), Estimate(2.0, 1.9, 2.1), "not known", None),
    ],
)
def test_a_verdict_is_by_the_intervals(
    a: Estimate | None, b: Estimate | None, verdict: str, ratio: float | None
) -> None:
    row = Row("x", "s", a, b)
    assert row.verdict == verdict
    assert row.ratio == (None if ratio is None else pytest.approx(ratio))


def test_a_calibration_is_equal_to_itself() -> None:
    assert {row.verdict for row in compare.rows(calibration(), calibration())} == {"within intervals"}


def test_what_changed_differs_and_nothing_else() -> None:
    rows = compare.rows(calibration(), other(l=about(60e-6)))
    assert [row.name for row in rows if row.verdict == "differs"] == ["l"]


def test_both_are_shown_in_one_unit() -> None:
    text = printed(calibration(), other(l=about(1.5e-3)))
    assert "│ l │ 0.045 │ 0.04275 to 0.04725 │ 1.5 │ 1.425 to 1.575 │ ms │ 33.3 │ differs │" in text


def test_on_a_narrow_screen_no_figure_is_cut() -> None:
    text = printed(calibration(), other(l=Estimate(1.5e-3, -7.0625e-7, 3e-3)), width=80)
    assert [line for line in text.splitlines() if line.startswith("│") and "…" in line] == []


def test_figures_of_all_parts_are_compared() -> None:
    names = {row.name for row in compare.rows(calibration(), calibration())}
    assert {"g, many-to-one", "r, axpy of 65536 bytes", "g1 (E-BSP)", "g, inter-all", "injection of a node"} <= names
    assert {"L, mpi4py", "L, our LogP layer", "G_word, mpi4py"} <= names


def test_predictions_use_the_segments() -> None:
    dear = Segment(1024, about(45e-6), about(2.5e-6), about(6e-9))
    fit = calibration().bsp
    assert fit is not None
    text = printed(calibration(), other(segments=(fit.segments[0], dear)))
    assert re.search(r"│ 32 │ 53.65 us │ 53.65 us │ 1 │", text)
    assert re.search(r"│ 131072 │ 1.232 ms │ 2.412 ms │ 1.96 │", text)


def test_what_the_two_are_of_is_said_where_it_differs() -> None:
    changed = dataclasses.replace(calibration(), about={**calibration().about, "p": 8, "versions": {"pybsp": "9"}})
    text = printed(calibration(), changed)
    assert "│ p │ 4 │ 8 │" in text
    assert "│ versions: pybsp │ 0.1.0 │ 9 │" in text
    assert "seed" not in text
    assert "total exchange" not in text  # of four processors it is another than of eight


def test_flags_that_only_one_has_are_said() -> None:
    text = printed(other(flags=()), calibration())
    assert "Flags of b alone:" in text
    assert "two regimes [12 and 3 ns]" in text
    assert "Flags of a alone:" not in text
    assert "few-launches" not in text


def test_a_part_that_one_has_not_got_is_named() -> None:
    bare = dataclasses.replace(calibration(), bsp=None, held_out=None, classes=None, ebsp=None, logp=())
    assert {row.verdict for row in compare.rows(calibration(), bare)} == {"only in a"}
    assert "│ halo │ 5.0% │ 12.0% │ - │ - │" in printed(calibration(), bare)
    assert "Neither has been held to" in printed(bare, bare)


def test_flags_with_the_same_code_about_something_else_are_not_the_same() -> None:
    text = printed(other(flags=(Flag("regimes", "of l", "l"),)), calibration())
    assert "- of l" in text


def test_compare_reads_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    machine_file.write(calibration(), a)
    machine_file.write(other(g=about(9e-9)), b)
    assert main(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert f"a: {a}" in out
    assert "differs" in out
    assert main(["compare", a, str(tmp_path / "c.json")]) == 2
    assert "c.json" in capsys.readouterr().err
