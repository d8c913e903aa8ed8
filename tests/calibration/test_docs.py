"""docs/explanation/calibration.md says what each field, flag, column and option is."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from pybsp import BSPMachine, EBSPMachine
from pybsp.benchmarks.calibration import command, estimates, export, machine_file, results
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.flags import SENTENCES
from pybsp.benchmarks.calibration.samples import COLUMNS, Writer

from .example import calibration, raw

ROOT = Path(__file__).parent.parent.parent
DOCS = (ROOT / "docs" / "explanation" / "calibration.md").read_text()
KINDS = [
    kind
    for module in (results, estimates)
    for _, kind in inspect.getmembers(module, dataclasses.is_dataclass)
    if kind.__module__ == module.__name__
]
CODES = {sentence.split(" ")[0] for sentence in SENTENCES}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_calibration_is_documented(kind: type) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert {name for name in names if f"`{name}`" not in DOCS and f'"{name}"' not in DOCS} == set()


NO_FIGURES = {"calibrated", "cost", "hosts", "network", "own_p", "busy"}  # fields of machines that are measured nowhere


def test_every_figure_of_a_machine_is_documented_with_its_unit() -> None:
    for part, kind in (("bsp", BSPMachine), ("ebsp", EBSPMachine)):
        for name in {field.name for field in dataclasses.fields(kind)} - NO_FIGURES:
            assert f"`{part}.{name}`" in DOCS or f"`.{name}`" in DOCS, (part, name)
    assert all(f'"{name}"' in DOCS for name in Estimate._fields)


def test_every_flag_is_documented() -> None:
    assert len(CODES) > 30
    assert {code for code in CODES if f"`{code}`" not in DOCS} == set()


def test_every_column_of_raw_samples_is_documented() -> None:
    assert {name for name in COLUMNS if f"`{name}`" not in DOCS} == set()


def test_machine_files_and_samples_are_read_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```$", (ROOT / "docs/howto/calibration.md").read_text(), re.M | re.S)
    machine_file.write(calibration(), tmp_path / "machine.json")
    writer = Writer(tmp_path / "machine.csv", raw().about)
    writer.write(raw().samples)
    writer.event("ended", launch=0)
    writer.close()
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    empty = [one.seconds for one in raw().samples if one.point[:2] == ("bsp", "empty")]
    assert capsys.readouterr().out.splitlines() == [
        "machine.json 2026-01-02T03:04:05+00:00 g = 3e-09 s/word, 2.85e-09 to 3.15e-09",
        f"{len(raw().samples)} samples, {len(empty)} of an empty superstep, the shortest {min(empty):.3g} s",
    ]


def test_every_option_and_format_is_documented() -> None:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    options = {action.option_strings[0] for action in parser._actions} - {"-h"}
    assert len(options) > 10
    assert {option for option in options if f"`{option}" not in DOCS} == set()
    assert {form for form in export.FORMATS if f"`{form}`" not in DOCS} == set()
