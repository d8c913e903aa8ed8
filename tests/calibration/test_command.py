"""`pybsp calibrate` as people use it: under mpiexec, interrupted, resumed, with little time; programs that use it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from pybsp import BSPMachine
from pybsp.benchmarks.calibration import command, machine_file
from pybsp.benchmarks.calibration.harness import PARTS
from pybsp.benchmarks.calibration.samples import Writer, read
from pybsp.cli import main
from pybsp.errors import UsageError
from pybsp.runs.latency import Latency, as_now

from ..launching import LIMIT, finish, mpiexec, python, run, start

PYBSP = python("-m", "pybsp")
EXCHANGES = """
import numpy as np
import pybsp


def main(bsp):
    for words in (1, 50, 5000):
        with bsp.superstep(f"{words} words"):
            bsp.send(1 - bsp.pid, np.ones(words))
    print(bsp.machine.g)


pybsp.run(main)
"""


def calibrate(*options: str, limit: float = LIMIT) -> tuple[int, str, str]:
    ended = run([*PYBSP, "calibrate", *options], limit)
    return ended.code, ended.out, ended.err


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine file from two launches of two ranks."""
    path = tmp_path_factory.mktemp("command") / "machine.json"
    code, out, err = calibrate(
        *("-n", "2", "--quick", "--only", "bsp,rate,held-out", "--budget", "12", "--launches", "2", "-o", str(path))
    )
    assert code == 0, err
    assert f"written: {path}" in out
    assert "left" in err  # it said how far it was
    return path


def test_outputs_of_other_names_have_samples_of_other_names() -> None:
    names = {output: command.raw_path(output) for output in ("m.json", "m", "cluster-2.4", "cluster-2.8", "a.b/m")}
    assert names == {
        "m.json": "m.csv",
        "m": "m.csv",
        "cluster-2.4": "cluster-2.4.csv",
        "cluster-2.8": "cluster-2.8.csv",
        "a.b/m": "a.b/m.csv",
    }


@pytest.mark.whole
def test_a_calibration_is_a_machine_that_programs_load(machine: Path) -> None:
    calibration = machine_file.read(machine)
    loaded = BSPMachine.load(machine)
    assert calibration.bsp is not None
    assert calibration.held_out is not None
    assert loaded.p == 2
    assert loaded.g == calibration.bsp.g.value > 0
    assert loaded.error_p95 == calibration.held_out.all.p95
    assert loaded.hosts == tuple(calibration.about["hosts"])
    assert calibration.about["nodes"] == [0, 0]
    raw = read(machine.with_suffix(".csv"))
    assert {sample.launch for sample in raw.samples} == {0, 1}
    assert raw.events[-1] == {"event": "finished"}


@pytest.mark.whole
def test_the_raw_samples_give_the_same_bits_again(machine: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    code, _, err = calibrate("--from", str(machine.with_suffix(".csv")), "-o", str(again))
    assert code == 0, err
    assert again.read_bytes() == machine.read_bytes()


@pytest.mark.whole
def test_a_raw_file_that_was_cut_gives_what_is_whole(machine: Path, tmp_path: Path) -> None:
    whole = machine.with_suffix(".csv").read_bytes()
    cut = tmp_path / "cut.csv"
    cut.write_bytes(whole[: len(whole) // 2])
    code, out, err = calibrate("--from", str(cut), "-o", str(tmp_path / "cut.json"))
    assert code == 0, err
    assert "could not be read" in out
    assert "did not come to its end" in out
    assert BSPMachine.load(tmp_path / "cut.json").p == 2


@pytest.mark.whole
def test_predictions_of_a_run_are_by_the_file_that_pybsp_machine_names(machine: Path, tmp_path: Path) -> None:
    program, ledger = tmp_path / "program.py", tmp_path / "ledger.json"
    program.write_text(EXCHANGES)
    job = run([*mpiexec(2), *python(program)], PYBSP_MACHINE=str(machine), PYBSP_LEDGER=str(ledger))
    assert job.code == 0, job.err
    loaded = BSPMachine.load(machine)
    assert job.out.count(str(loaded.g)) == 2
    assert job.err == ""
    (ledger_run,) = json.loads(ledger.read_text())["runs"]
    assert ledger_run["machine"]["calibrated"]
    assert ledger_run["machine"]["error_p95"] == loaded.error_p95
    latency = ledger_run.get("latency")
    found = loaded if latency is None else as_now(loaded, Latency(**latency))
    for step in ledger_run["supersteps"]:
        counted = [step[name] for name in ("h", "messages", "M", "items", "ways", "seconds")]
        assert step["exchange_predicted"] == found.exchanging(*counted)
        assert step["predicted"] == step["seconds"] + step["exchange_predicted"]
    assert "+- p95 [s]" in run([*PYBSP, "report", str(ledger)]).out


@pytest.mark.whole
def test_collectives_choose_by_the_file_that_pybsp_machine_names(tmp_path: Path) -> None:
    program, path = tmp_path / "program.py", tmp_path / "machine.json"
    program.write_text(
        "import pybsp\nfrom pybsp import collectives\n"
        "def main(bsp):\n    collectives.broadcast(bsp, bytes(800) if bsp.pid == 0 else None)\n"
        "    steps = len(bsp.ledger)\n    if bsp.pid == 0:\n        print(steps, 'supersteps')\n"
        "pybsp.run(main)\n"
    )
    # Alike but for the row of messages of 8 words and more: there latency is all, or a message is.
    for row, supersteps in (((8, 1.0, 0.0, 1e-9), 1), ((8, 1e-9, 1.0, 1e-9), 2)):
        BSPMachine(4, 1e-9, 1e-4, 1e9, segments=((0, 1e-4, 1e-6, 1e-9), row)).save(path)
        job = run([*mpiexec(4), *python(program)], PYBSP_MACHINE=str(path))
        assert (job.code, job.out) == (0, f"{supersteps} supersteps\n"), job.err


@pytest.mark.whole
def test_a_machine_file_of_another_placement_warns(machine: Path, tmp_path: Path) -> None:
    program, other = tmp_path / "program.py", tmp_path / "other.json"
    program.write_text(EXCHANGES)
    content = json.loads(machine.read_text())
    content["placement"] = {"hosts": ["here", "there"], "nodes": [0, 1]}
    other.write_text(json.dumps(content))
    job = run([*mpiexec(2), *python(program)], PYBSP_MACHINE=str(other))
    assert job.code == 0
    assert job.err.count("this run has them on one host: its predictions are for another placement") == 1


@pytest.mark.whole
def test_ranks_that_mpiexec_started_are_measured_once(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    options = ["--quick", "--only", "raw,logp", "--budget", "16", "-o", str(path)]
    job = run([*mpiexec(2), *PYBSP, "calibrate", *options], 100)
    assert job.code == 0, job.err
    assert job.out.count(f"written: {path}") == 1
    calibration = machine_file.read(path)
    assert calibration.bsp is None
    assert {fit.layer for fit in calibration.logp} == {"raw", "logp"}
    assert {sample.launch for sample in read(path.with_suffix(".csv")).samples} == {0}


@pytest.mark.whole
def test_a_budget_that_is_too_small_says_which_figures_it_was_too_small_for(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    code, out, err = calibrate("-n", "2", "--budget", "4", "-o", str(path))
    assert code == 0, err
    flags = {flag.code: flag.text for flag in machine_file.read(path).flags}
    assert flags["not-measured"].startswith("a budget of 4 s: no time was left for")
    assert "L, o and G (mpi4py)" in flags["not-measured"] + flags.get("budget", "")
    assert "a budget of 4 s" in out


@pytest.mark.whole
def test_one_processor_explains_what_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    code, out, err = calibrate("-n", "1", "--quick", "--budget", "5", "-o", str(path))
    assert code == 0, err
    assert "p = 1: r and an empty superstep are all that there is to measure" in out
    assert BSPMachine.load(path).p == 1


def ranks(path: Path) -> list[int]:
    """Processes that have to do with a file."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(path).encode() in command:
                found.append(int(entry.name))
    return found


def no_rank_is_left(path: Path, limit: float = LIMIT) -> None:
    until = time.monotonic() + limit
    while ranks(path):
        assert time.monotonic() < until, "ranks are left"
        time.sleep(0.1)


def wait_for_samples(raw: Path, rows: int = 200, limit: float = LIMIT) -> None:
    until = time.monotonic() + limit
    while not raw.exists() or raw.read_text().count("\n") < rows:
        assert time.monotonic() < until, "no samples came"
        time.sleep(0.05)


@pytest.mark.whole
def test_ctrl_c_to_mpiexec_keeps_what_there_is_too(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    job = start([*mpiexec(2), *PYBSP, "calibrate", "--quick", "--only", "bsp", "-o", str(path)])
    wait_for_samples(path.with_suffix(".csv"))
    job.send_signal(signal.SIGINT)
    ended = finish(job)
    assert ended.code != 0
    assert "--resume goes on with it" in ended.err
    assert "Traceback" not in ended.err
    no_rank_is_left(path)
    assert len(read(path.with_suffix(".csv")).samples) > 100


@pytest.mark.whole
def test_ctrl_c_keeps_what_there_is_and_resume_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    raw = path.with_suffix(".csv")
    options = ["-n", "2", "--quick", "--only", "bsp", "--seed", "3", "-o", str(path)]
    job = start([*PYBSP, "calibrate", *options])
    wait_for_samples(raw)
    job.send_signal(signal.SIGINT)
    ended = finish(job)
    assert ended.code == 130
    assert f"is kept in {raw}: --resume goes on with it" in ended.err
    assert "Traceback" not in ended.err
    no_rank_is_left(path)
    no_rank_is_left(raw)
    before = read(raw).samples
    assert len(before) > 100

    code, _, err = calibrate(*options)
    assert code == 2
    assert "--resume goes on with it; delete the file to begin anew" in err
    assert read(raw).samples == before

    code, _, err = calibrate("--resume", "--thorough", "-o", str(path))
    assert code == 2
    assert "level = 'quick', got 'thorough'" in err

    code, out, err = calibrate("--resume", "-o", str(path))
    assert code == 0, err
    whole = read(raw)
    assert whole.samples[: len(before)] == before
    assert len(whole.samples) > len(before)
    assert {sample.launch for sample in whole.samples} == {0}
    assert whole.about["seed"] == 3
    assert "did not come to its end" not in out
    assert machine_file.read(path).bsp is not None


def test_resuming_does_the_launches_that_are_missing_or_further_ones(tmp_path: Path) -> None:
    about = {"p": 2, "hosts": ["here"] * 2, "nodes": [0, 0], "level": "default", "only": [], "word": 8, "seed": 0}
    about |= {"launches": 3, "budget": None}
    writer = Writer(tmp_path / "machine.csv", about)
    writer.event("ended", launch=0)

    def planned(*options: str) -> tuple[int, int, float]:
        parser = argparse.ArgumentParser()
        command.add_options(parser)
        read_options = parser.parse_args(["--resume", "-o", str(tmp_path / "machine.json"), *options])
        job = command._job(read_options, read_options.launches or 3)
        return job.launch, job.launches, job.seconds

    assert planned() == (1, 3, 80.0)
    assert planned("--launches", "5")[:2] == (1, 5)
    assert planned("--launches", "1")[:2] == (1, 2)
    for launch in (1, 2):
        writer.event("ended", launch=launch)
    writer.event("finished")
    assert planned() == (3, 6, 80.0)
    assert planned("--launches", "1") == (3, 4, 240.0)
    writer.close()


def test_a_part_that_is_measured_again_takes_no_others_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"p": 2, "hosts": ["here"] * 2, "nodes": [0, 0], "level": "quick", "only": [], "word": 8, "seed": 0}
    writer = Writer(tmp_path / "machine.csv", about | {"launches": 1, "budget": None})
    writer.event("finished")
    writer.close()
    before = (tmp_path / "machine.csv").read_bytes()
    path = tmp_path / "machine.json"

    def planned(*options: str) -> tuple[str, ...]:
        parser = argparse.ArgumentParser()
        command.add_options(parser)
        return command._job(parser.parse_args(["-o", str(path), *options]), 1).only

    with pytest.raises(
        UsageError,
        match=rf"--only: expected the parts that {path} has, which .*, got no rate, .*, raw; name another file \(-o\)",
    ):
        planned("--only", "bsp,logp")
    assert (tmp_path / "machine.csv").read_bytes() == before
    assert planned() == ()
    assert planned("--only", ",".join(PARTS)) == tuple(PARTS)
    (tmp_path / "machine.csv").unlink()
    assert planned("--only", "logp") == ("logp",)


def test_ctrl_c_while_nothing_is_measured_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_start", interrupted)
    for variable in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    assert main(["calibrate", "-o", str(tmp_path / "machine.json")]) == 130
    assert capsys.readouterr().err == "pybsp calibrate: interrupted\n"
    (tmp_path / "machine.csv").write_text("")
    assert main(["calibrate", "-o", str(tmp_path / "machine.json")]) == 130
    assert "machine.csv: --resume goes on with it" in capsys.readouterr().err


@pytest.mark.whole
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_a_calibration_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    raw = tmp_path / "machine.csv"
    job = start([*PYBSP, "calibrate", "-n", "2", "--quick", "--only", "bsp", "-o", str(tmp_path / "machine.json")])
    wait_for_samples(raw)
    job.send_signal(number)
    finish(job)
    no_rank_is_left(raw)


@pytest.mark.parametrize(
    ("options", "error_text"),
    [
        (["--only", "g"], "expected some of rate, bsp"),
        (["--budget", "0"], "expected seconds, above 0"),
        (["-n", "0"], "-n: expected a whole number from 1 to 2147483647, got '0'"),
        (["-n", "99999999999999999999"], "-n: expected a whole number from 1 to 2147483647"),
        (["--launches", "²"], "--launches: expected a whole number from 1 to 2147483647"),
        (["--seed", "-1"], "--seed: expected a whole number from 0 to 9007199254740992"),
        (["--seed", "9007199254740993"], "--seed: expected a whole number from 0 to 9007199254740992"),
        (["--word", "4611686018427387904"], "--word: expected whole bytes from 1 to 65536"),
        (["--quick", "--thorough"], "not allowed with"),
        (["--from", "nothing.csv"], "nothing.csv: cannot be read"),
        (["--from", "nothing.csv", "-n", "2"], "--from: measures nothing; expected no -n beside it"),
        (["--from", "a.csv", "--quick", "--seed", "1", "--resume"], "expected no --quick, --seed, --resume beside it"),
        (["--resume", "-o", "new.json"], "there are no samples to go on with"),
        (["-o", "no folder/machine.json"], "-o: expected a file that can be written"),
        (["-o", "/"], "-o: expected a file that can be written, got /"),
        (["-o", "."], "-o: expected a file that can be written, got ."),
        (["-o", "machine.csv"], "does not end in .csv"),
        (["--method", "guess"], "invalid choice: 'guess'"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    error_text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as refused:  # as argparse does
        sys.exit(main(["calibrate", *options]))
    assert refused.value.code == 2
    assert error_text in capsys.readouterr().err


@pytest.mark.whole
def test_ranks_of_mpiexec_are_not_started_again(tmp_path: Path) -> None:
    for options, error_text in (
        (["-n", "2"], "-n: these are ranks of mpiexec already"),
        (["--launches", "2"], "--launches: mpiexec has started the ranks once, got 2"),
        (["--resume"], "no samples to go on"),
    ):
        ended = run([*mpiexec(2), *PYBSP, "calibrate", *options, "-o", str(tmp_path / "machine.json")])
        assert ended.code != 0
        assert ended.err.count(error_text) == 1
        assert "Traceback" not in ended.err


def test_help_names_all_parts_that_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["calibrate", "--help"])
    assert f"--only PARTS some of {', '.join(PARTS)} --word" in " ".join(capsys.readouterr().out.split())


@pytest.mark.whole
def test_without_scipy_it_ends_before_it_measures_and_says_what_to_install(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['scipy'] = None; from pybsp.cli import main; sys.exit(main(sys.argv[1:]))"
    output = tmp_path / "machine.json"
    ended = run([sys.executable, "-c", blocked, "calibrate", "-n", "1", "--quick", "-o", str(output)])
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("pybsp calibrate: it needs scipy")
    assert "pip install scipy" in ended.err
    assert list(tmp_path.iterdir()) == []
