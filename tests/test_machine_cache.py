"""Machine files in the user's cache: found by where a run is, written by `pybsp run --calibrate`, never a crash."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from threading import Thread

import pytest

from pybsp import BSPMachine, simulate
from pybsp.benchmarks.calibration import analysis
from pybsp.benchmarks.calibration.first import Quality, _reason, keep
from pybsp.benchmarks.calibration.harness import LaunchSpec, finish, ignore_settings, launch_on_virtual
from pybsp.benchmarks.calibration.results import Errors
from pybsp.benchmarks.calibration.samples import read
from pybsp.cli import main as command
from pybsp.commands import table
from pybsp.ground import settings
from pybsp.ledger.ledger_file import read as read_ledger
from pybsp.machines.machine_file import replace_file
from pybsp.processes import process
from pybsp.runs.machine_cache import Place, find

from .launching import LIMIT, Program, ended_well, mpiexec, python, run, start
from .launching import finish as ended

HERE = Place(["here", "here"], [0, 0], "MPICH Version: 5.0.2")
MACHINE = BSPMachine(2, g=1e-9, l=2e-6, r=1e9, o_msg=1e-6, hosts=("here", "here"))
PYBSP = [sys.executable, "-m", "pybsp"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def kept(place: Place = HERE, machine: BSPMachine = MACHINE) -> Path:
    """A machine file of that place."""
    path = place.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    machine.save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "placement": {"hosts": list(machine.hosts)}}))
    return path


def test_a_machine_file_is_found_by_p_placement_library_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(HERE) == (None, None)
    kept()
    assert find(HERE) == (MACHINE, None)
    assert find(HERE._replace(nodes=[5, 5])) == (MACHINE, None)  # the numbers of nodes say nothing
    for other in (
        Place(["here"] * 4, [0] * 4, HERE.library),
        HERE._replace(hosts=["there", "there"]),
        HERE._replace(hosts=["here", "there"]),
        HERE._replace(nodes=[0, 1]),
        HERE._replace(library="Open MPI v5.0.6"),
        HERE._replace(router="two-phase"),
        HERE._replace(cores=[1, 1]),
    ):
        assert find(other) == (None, None), other
    for setting in ("PYBSP_SHARED", "PYBSP_WAIT", "PYBSP_AGGREGATE"):
        with monkeypatch.context() as changed:
            changed.setenv(setting, "0")
            assert find(HERE) == (None, None), setting


def test_what_is_measured_obeys_no_option_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {settings.GRACE, settings.WARN_AFTER, settings.REPORT_SIGNAL}
    for but in (set(), {settings.ROUTER}):
        for name in settings.OF_RUN:
            monkeypatch.setenv(name, "set")
        ignore_settings(but=[*but])
        assert {name for name in settings.OF_RUN if name in os.environ} == waiting | but
        for name in settings.OF_RUN:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.whole
def test_a_run_by_another_router_measures_that_and_no_option_of_the_program_is_obeyed(
    program: Program, cache: Path, tmp_path: Path
) -> None:
    path, saved = program(PROGRAM), tmp_path / "saved"
    options = ["--checkpoint", str(saved), "--trace", str(tmp_path / "trace.json"), "--router", "two-phase"]
    first = run([*PYBSP, "run", "-n", "2", "--calibrate", *options, str(path)])
    assert first.out.startswith("True"), first
    assert "measuring g, l" in first.err
    assert [folder.name for folder in saved.glob("run-*")] == ["run-0"]  # the program's
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"]["runs"] == 1
    again = run([*PYBSP, "run", "-n", "2", "--router", "direct", str(path)])
    assert again.out.startswith("False"), again


def test_a_machine_file_that_is_written_again_is_read_again() -> None:
    kept()
    assert find(HERE)[0] == MACHINE
    other = BSPMachine(2, g=7e-9, l=2e-6, r=1e9, hosts=MACHINE.hosts)
    kept(machine=other)
    assert find(HERE)[0] == other


DAMAGED = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "no JSON": lambda text: "\x00" * 100,
    "NaN": lambda text: text.replace("1e-09", "NaN"),
    "endless": lambda text: text.replace("1e-09", "1e999"),
    "another version": lambda text: text.replace('"version": 1', '"version": 9'),
    "of other hosts": lambda text: text.replace('"here"', '"there"'),
    "of another p": lambda text: text.replace('"p": 2', '"p": 3'),
}


@pytest.mark.fast
@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_machine_file_is_a_warning_that_names_it(change: object) -> None:
    assert callable(change)
    path = kept()
    path.write_text(change(path.read_text()))
    machine, warning = find(HERE)
    assert machine is None
    assert warning is not None
    assert warning.startswith(f"machine file {path}: ")
    assert "`pybsp run --calibrate` replaces it" in warning
    assert find(HERE) == (None, None), "a program of many runs is warned once"
    path.write_text("")
    assert find(HERE)[1] is not None


def test_a_cache_that_cannot_be_is_no_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file")
    assert find(HERE) == (None, None)
    path = cache.with_name("other") / "x"
    monkeypatch.setattr(Place, "path", lambda self: path)
    path.mkdir(parents=True)  # a folder where the file should be
    machine, warning = find(HERE)
    assert machine is None
    assert f"machine file {path}: cannot be read" in str(warning)


def test_a_folder_in_the_place_of_a_machine_file_is_to_be_removed() -> None:
    HERE.path().mkdir(parents=True)
    machine, warning = find(HERE)
    assert machine is None
    assert warning is not None
    assert str(HERE.path()) in warning
    assert warning.endswith("nothing is predicted by it: remove that folder")


def test_who_reads_while_many_write_finds_a_whole_file() -> None:
    path = kept()
    content = json.loads(path.read_text())

    def write() -> None:
        for _ in range(10):
            replace_file(path, content)  # as a calibration does

    writers = [Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    found = [find(HERE) for _ in range(50)]
    for writer in writers:
        writer.join()
    assert found == [(MACHINE, None)] * 50
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("off", "load", "again"), [(0.24, 1.0, ""), (0.26, 1.0, "is 26% off"), (0.1, 1.1, "was measured on a busy machine")]
)
def test_what_a_busy_machine_has_given_is_measured_again_on_a_quiet_one(
    monkeypatch: pytest.MonkeyPatch, off: float, load: float, again: str
) -> None:
    path = kept(machine=dataclasses.replace(MACHINE, error_median=off, error_p95=0.9))
    place = HERE._replace(cores=[2, 2])
    path.rename(place.path())
    content = json.loads(place.path().read_text())
    content["calibration"] = {"about": {"cores": [2, 2], "load": [load]}}
    place.path().write_text(json.dumps(content))
    machine, _ = find(place)
    assert machine is not None
    monkeypatch.setattr(process, "load", lambda: 0.9)
    assert (again in _reason(machine, place), not again) == (True, not _reason(machine, place))
    monkeypatch.setattr(process, "load", lambda: 1.1)  # it would be no better
    assert _reason(machine, place) == ""


@pytest.mark.parametrize(("off", "rough"), [(0.2, False), (0.3, True)])
def test_a_report_says_where_predictions_are_rough(tmp_path: Path, off: float, rough: bool) -> None:
    machine = dataclasses.replace(MACHINE, error_median=off, error_p95=0.9)
    ledger = simulate(lambda bsp: bsp.sync(), machine=machine).ledger
    ledger.save(tmp_path / "ledger.json")
    (found,) = read_ledger(tmp_path / "ledger.json")["runs"]
    lines = list(table.notes({**found, "virtual": False}))
    assert any("of the machine file half were more than 30 % off" in line for line in lines) == rough


def test_of_two_machine_files_that_of_a_quiet_machine_is_better_and_then_that_which_is_nearer() -> None:
    assert sorted([Quality(True, 0.1), Quality(False, 0.4), Quality(False, 0.2)]) == [
        Quality(False, 0.2),
        Quality(False, 0.4),
        Quality(True, 0.1),
    ]


@pytest.mark.whole
def test_what_was_measured_is_kept_in_the_cache_or_beside_the_samples_where_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "samples.csv"
    truth = BSPMachine(2, g=1e-9, l=2e-6, r=1e9, o_msg=1e-6, o_item=1e-8)
    launch_on_virtual(LaunchSpec(str(raw), level="quick", only=("queue", "bsp")), truth)
    finish(str(raw))
    place = Place([os.uname().nodename] * 2, [0, 0], "MPICH")
    keep(str(raw), place)
    machine, _ = find(place)
    assert machine is not None
    assert machine.l == pytest.approx(truth.l, rel=1e-6)
    printed = capsys.readouterr().err
    assert f"kept in {place.path()}; to measure anew remove it" in printed
    assert f"g = {machine.g:.3g} s/word, l = {machine.l:.3g} s" in printed  # of whole supersteps
    assert not raw.with_suffix(".json").exists()

    was = place.path().read_text()
    with monkeypatch.context() as better:
        qualities = iter([Quality(False, 0.0), Quality(False, 0.3)])
        better.setattr(Quality, "of", lambda path: next(qualities))
        keep(str(raw), place)
    assert "of before is better, and stays" in capsys.readouterr().err
    assert place.path().read_text() == was
    assert not raw.with_suffix(".json").exists()

    calibration = analysis.analyse(read(raw))
    assert calibration.exchange is not None
    wrong = dataclasses.replace(calibration.exchange, errors=Errors(0.51, 0.6, 0.0, 9))
    place.path().unlink()
    with monkeypatch.context() as busy:
        busy.setattr(analysis, "analyse", lambda raw: dataclasses.replace(calibration, exchange=wrong))
        keep(str(raw), place)
    assert find(place) == (None, None)
    assert BSPMachine.load(raw.with_suffix(".json")).exchange is not None
    assert "51% off held-out supersteps (median); it serves this run alone" in capsys.readouterr().err

    place.path().parent.rmdir()
    place.path().parent.write_text("no folder")
    keep(str(raw), place)
    assert BSPMachine.load(raw.with_suffix(".json")) == machine
    said = capsys.readouterr().err
    assert f"it serves this run alone, as it cannot be kept: machine file {place.path()}: " in said
    assert "; set XDG_CACHE_HOME to a folder that can be written\n" in said


def test_a_machine_file_that_is_named_leaves_nothing_to_calibrate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, machine = tmp_path / "program.py", tmp_path / "machine.json"
    program.write_text("raise SystemExit(3)")
    MACHINE.save(machine)
    assert command(["run", "-n", "1", "--calibrate", "--machine", str(machine), str(program)]) == 2
    assert "--calibrate: --machine names the machine file" in capsys.readouterr().err
    monkeypatch.setenv("PYBSP_MACHINE", str(machine))
    assert command(["run", "-n", "1", "--calibrate", str(program)]) == 2
    assert "--calibrate: PYBSP_MACHINE names the machine file" in capsys.readouterr().err


PROGRAM = """
    import pybsp
    from pybsp.runs.launch import place_of
    def main(bsp):
        bsp.sync()
        machine = bsp.machine
        if bsp.pid == 0:
            print(machine.calibrated, machine.g, machine.l)
        if bsp.pid == 0 and not bsp._superstep.account.virtual:
            print(place_of(bsp._superstep.transport, "direct").path())
    pybsp.run(main)
    """


@pytest.mark.whole
def test_a_run_measures_its_machine_once_and_later_ones_find_it(program: Program, cache: Path, tmp_path: Path) -> None:
    path = program(PROGRAM)
    first = run([*PYBSP, "run", "-n", "2", "--calibrate", str(path)])
    assert first.out.startswith("True"), first
    assert "no machine file fits these 2 processors: measuring" in first.err
    file = Path(first.out.splitlines()[1])
    assert file.parent == cache / "pybsp" / "machines"
    busy = "it serves this run alone, as a busy machine says little" in first.err
    assert file.exists() != busy
    assert (f"kept in {file}" in first.err) != busy
    # Whatever was measured, these are found now.
    file.parent.mkdir(parents=True, exist_ok=True)
    dataclasses.replace(MACHINE, g=0.125, l=0.25).save(file)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "placement": {"hosts": [os.uname().nodename] * 2}}))
    found = f"True 0.125 0.25\n{file}\n"
    for command_line in ([*PYBSP, "run", "-n", "2", "--calibrate", str(path)], [*mpiexec(2), *python(path)]):
        ended_now = run(command_line)
        assert (ended_now.code, ended_now.out, ended_now.err) == (0, found, "")
    assert ended_well(run([*PYBSP, "simulate", "-p", "2", str(path)])).startswith("False")  # as on every machine
    named = tmp_path / "named.json"
    BSPMachine(2, g=0.5, l=0.75, r=1.0).save(named)
    assert ended_well(run([*mpiexec(2), *python(path)], PYBSP_MACHINE=str(named))).startswith("True 0.5 0.75\n")
    file.write_text(file.read_text()[:100])
    damaged = run([*mpiexec(2), *python(path)])
    assert (damaged.code, damaged.out.split()[0]) == (0, "False")
    assert damaged.err.count(f"pybsp: machine file {file}: is not JSON") == 1


@pytest.mark.whole
def test_a_cache_that_cannot_be_written_costs_no_run(program: Program, cache: Path) -> None:
    cache.write_text("no folder")
    job = start([*PYBSP, "run", "-n", "2", "--calibrate", str(program(PROGRAM))])
    found = ended(job, LIMIT)
    assert found.code == 0, found
    assert found.out.startswith("True")  # by a file for this run alone
    busy = "it serves this run alone, as a busy machine says little" in found.err  # where nothing is to be kept
    assert busy or f"it serves this run alone, as it cannot be kept: machine file {cache}" in found.err


def test_what_measures_is_the_pybsp_that_asks_for_it(tmp_path: Path) -> None:
    """Also in a checkout, whose pybsp is not installed and has no compiled core, or beside a folder of that name."""
    (tmp_path / "pybsp").mkdir()
    (tmp_path / "pybsp" / "__init__.py").write_text("raise SystemExit(3)")
    assert run(["env", "-C", str(tmp_path), *process.running("pybsp._version")]).code == 0
