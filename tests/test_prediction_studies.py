"""The studies of predictions run every program that there is, and say whether the bars are held."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

import pybsp
from pybsp import BSPMachine
from pybsp.benchmarks.studies import first_uses, predictions, predictions_on_cluster
from pybsp.benchmarks.studies.frame import EmulatedNetwork, Study
from pybsp.benchmarks.studies.frame import study as study_module
from pybsp.ledger.ledger_file import append_run

from .costs import in_file

ROOT = Path(__file__).parent.parent
SQUARES = """
import sys
import pybsp

def main(bsp, n):
    with bsp.superstep("ring"):
        bsp.send((bsp.pid + 1) % bsp.p, n)
pybsp.run(main, int(sys.argv[1]))
"""


def test_all_examples_and_programs_are_among_those_that_are_measured() -> None:
    there = {*(ROOT / "examples").glob("*.py"), *(ROOT / "examples" / "textbook").glob("*.py")}
    there.add(ROOT / "benchmarks" / "programs" / "alone.py")
    assert {Path(program) for program in predictions.every_program()} == there
    on_cluster = {(ROOT / "examples" / program.split()[0]) for program in predictions_on_cluster.PROGRAMS}
    assert on_cluster == there - {predictions.ALONE}


@pytest.mark.whole
def test_a_study_of_programs_that_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, machine = tmp_path / "squares.py", tmp_path / "machine.json"
    program.write_text(SQUARES)
    BSPMachine(2, g=1e-9, l=1e-6, r=1e9).save(machine)
    line = ["-n", "2", "--rounds", "2", "--machine", str(machine), "--json", str(tmp_path / "kept.json")]
    predictions.main([*line, f"{program} 3", f"{program} 4"])
    printed = capsys.readouterr().out
    assert "squares 3" in printed
    assert "2 labels: median error" in printed
    assert "2 labels by their own other runs: median error" in printed
    assert (tmp_path / "kept.json").exists()


def test_each_program_has_a_ledger_of_its_own_in_each_round_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_program(program: Sequence[str], *about: object, PYBSP_LEDGER: str = "", **variables: str) -> None:
        if PYBSP_LEDGER:
            ledger = pybsp.simulate(lambda bsp: [bsp.sync(), bsp.sync(), bsp.work(1e9)], p=2).ledger
            append_run(Path(PYBSP_LEDGER), in_file(ledger), first=False)

    monkeypatch.setattr(predictions_on_cluster, "run_program", run_program)
    monkeypatch.setattr(predictions_on_cluster, "predicted", lambda *about: (1.0, 0.5))
    labels, whole = predictions_on_cluster.measure(EmulatedNetwork(2, 1000, 200), ["one", "two"], 3)
    assert [(one.program, one.supersteps) for one in labels] == [("one", 2), ("two", 2)]
    # Of one run each, with what it computes after the last superstep.
    assert [one.measured for one in whole] == [pytest.approx(labels[0].measured + 1.0)] * 2


def test_every_other_run_predicts_the_rest() -> None:
    assert predictions.repeated([2.0]) is None
    assert predictions.repeated([2.0, 4.0]) == 0.5
    assert predictions.repeated([1.0, 2.0, 3.0, 8.0, 2.0]) == 0.625  # 2 of 1, 3, 2; over 2 and over 8


def test_first_uses_of_ways_are_told_from_later_ones() -> None:
    run = [("mail", 5.0, 4.0), ("mail", 2.0, 1.0), ("mail", 3.0, 1.0), ("mail", 2.0, 1.0), ("mail, late", 7.0, 6.0)]
    (found,) = first_uses.summed([run, run])
    assert found == ("mail", 5e6, 4e6, 2e6, 1e6, 7e6, 6e6)


@pytest.mark.whole
def test_a_study_of_first_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBSP_MACHINE", "")  # what it is set to goes with the test
    machine = tmp_path / "machine.json"
    BSPMachine(2, g=1e-9, l=1e-6, r=1e9).save(machine)
    first_uses.main(["--runs", "1", "--machine", str(machine), "--json", str(tmp_path / "kept.json")])
    assert "making" in (tmp_path / "kept.json").read_text()


def test_figures_that_a_full_disk_does_not_take_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(study_module, "replacing", full)
    study = Study("Figures.", keep="--json")
    study.begin(["--json", str(tmp_path / "kept.json")])
    with pytest.raises(SystemExit, match=r"kept\.json: No space left on device$"):
        study.end({"figure": 1})
