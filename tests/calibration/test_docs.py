"""docs/explanation/calibration.md says what each field, flag, column and option is."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from pathlib import Path

import pytest

from pybsp import BSPMachine, EBSPMachine
from pybsp.benchmarks.calibration import command, estimates, export, results
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.flags import SENTENCES
from pybsp.benchmarks.calibration.samples import COLUMNS

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


def test_every_figure_of_a_machine_is_documented_with_its_unit() -> None:
    for part, kind in (("bsp", BSPMachine), ("ebsp", EBSPMachine)):
        for name in {field.name for field in dataclasses.fields(kind)} - {"calibrated", "cost", "hosts", "network"}:
            assert f"`{part}.{name}`" in DOCS or f"`.{name}`" in DOCS, (part, name)
    assert all(f'"{name}"' in DOCS for name in Estimate._fields)


def test_every_flag_is_documented() -> None:
    assert len(CODES) > 30
    assert {code for code in CODES if f"`{code}`" not in DOCS} == set()


def test_every_column_of_raw_samples_is_documented() -> None:
    assert {name for name in COLUMNS if f"`{name}`" not in DOCS} == set()


def test_every_option_and_format_is_documented() -> None:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    options = {action.option_strings[0] for action in parser._actions} - {"-h"}
    assert len(options) > 10
    assert {option for option in options if f"`{option}" not in DOCS} == set()
    assert {form for form in export.FORMATS if f"`{form}`" not in DOCS} == set()
