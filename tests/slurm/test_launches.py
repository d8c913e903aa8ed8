"""The launch table of docs/howto/slurm.md on a real Slurm: each cell works or says what to type; how steps end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ..test_readme import blocks
from . import emulated
from .emulated import Cluster, Ended, cluster, pythons

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(bool(emulated.missing), reason=f"no Slurm: {emulated.missing}"),
]

GREETING = """
import socket, sys
import pybsp

def main(bsp):
    bsp.send(0, socket.gethostname())
    bsp.sync()
    if bsp.pid == 0:
        print("p", bsp.p, *[message.payload for message in bsp.inbox], *sys.argv[1:])

pybsp.run(main)
"""
FAILING = """
import pybsp

def main(bsp):
    bsp.sync()
    if bsp.pid == 2:
        raise ValueError("of processor 2")
    bsp.sync()

pybsp.run(main)
"""
DYING = """
import os, signal, time
import pybsp

def main(bsp):
    bsp.sync()
    if bsp.pid == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    bsp.sync()

pybsp.run(main)
"""
WAITING = """
import time
import pybsp

def main(bsp):
    bsp.sync()
    if bsp.pid == 0:
        print("all are here", flush=True)
        time.sleep(600)
    bsp.sync()

pybsp.run(main)
"""
LEAVING = """
import os, sys
import pybsp

if os.environ["SLURM_PROCID"] == "3":
    sys.exit(0)
pybsp.run(lambda bsp: bsp.sync())
"""
ALONE = """
import os, time
import pybsp

pybsp.simulate(lambda bsp: bsp.sync(), p=2)
time.sleep(int(os.environ["SLURM_PROCID"]))
print("ends", flush=True)
"""
AMONG_TEXTS = """
import os
import pybsp

# Of each size places that are free, with something behind them that is not alike.
kept = [[os.urandom(size) for _ in range(40)][::2] for size in range(256, 4096, 16)]
pybsp.run(lambda bsp: bsp.sync())
print("done")
"""
PLACED = """
import os, socket
import pybsp
from pybsp.processes import slurm

def main(bsp):
    bsp.send(0, (socket.gethostname(), int(os.environ["SLURM_NODEID"]), slurm.tasks_here()))
    bsp.sync()
    if bsp.pid == 0:
        print("placed", [message.payload for message in bsp.inbox])

pybsp.run(main, machine=pybsp.BSPMachine.nominal(3))
"""
STARTED = """
import socket, sys
import pybsp

n = int(sys.argv[1]) if sys.argv[1:] else None
hosts = sys.argv[2] if sys.argv[2:] else None
print(pybsp.start_ranks(lambda bsp: socket.gethostname(), n=n, hosts=hosts).results)
"""
SAVING = """
import os, time
import pybsp

def main(bsp):
    state = bsp.restore(0)
    for step in range(state, 100):
        if bsp.pid == 0 and step == 5:
            print("under way", flush=True)
        bsp.sync()
        time.sleep(0 if state else 0.1)
        bsp.checkpoint(step + 1)
    return step

found = pybsp.run(main)
print("ended", found)
"""
PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "slurm.md"
MARKED = """
import pytest

@pytest.mark.bsp(p=2)
@pytest.mark.parametrize("k", [1, 2])
def test_x(bsp, k):
    bsp.sync()
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    programs = {
        "greeting": GREETING,
        "failing": FAILING,
        "leaving": LEAVING,
        "alone": ALONE,
        "dying": DYING,
        "waiting": WAITING,
        "among_texts": AMONG_TEXTS,
        "placed": PLACED,
        "started": STARTED,
        "saving": SAVING,
        "test_marked": MARKED,
    }
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(dedent(text))
    with cluster(folder) as running:
        yield running


def python(family: str) -> str:
    if family not in pythons():
        pytest.skip(f"no Python with {family}: PYBSP_PYTHONS names none")
    return pythons()[family]


def fitting() -> tuple[str, str]:
    """This session's Python, and the kind of srun that fits its library."""
    family, place = next(iter(pythons().items()))
    return place, "pmix" if family == "Open MPI" else "pmi2"


def four_on_two_nodes(ended: Ended) -> None:
    assert ended.code == 0, ended
    assert re.findall(r"^p .*", ended.out, re.MULTILINE) == ["p 4 n1 n1 n2 n2"], ended


def says_what_to_type(ended: Ended, kind: str, fits: str, library: str) -> None:
    assert ended.code != 0, ended
    assert "p 1" not in ended.out, ended
    assert ended.err.count("pybsp.errors.LauncherError: ") == 1, ended
    assert f"Slurm's srun with --mpi={kind}, " in ended.err, ended
    assert f"the MPI library that Python loads is '{library}" in ended.err, ended
    assert f"type `srun --kill-on-bad-exit=1 --mpi={fits} python program.py`" in ended.err, ended
    assert "SyncError" not in ended.err, ended


CELLS = {  # library and kind: the kind that is advised, or "" where it works
    ("MPICH", "none"): "pmi2",
    ("MPICH", "pmi2"): "",
    ("MPICH", "pmix"): "pmi2",
    ("Open MPI", "none"): "pmix",
    ("Open MPI", "pmi2"): "pmix",
    ("Open MPI", "pmix"): "",
    ("Intel", "none"): "pmi2",
    ("Intel", "pmi2"): "",
    ("Intel", "pmix"): "",
}


@pytest.mark.parametrize(("family", "kind"), CELLS)
def test_srun_works_or_says_what_to_type(slurm: Cluster, family: str, kind: str) -> None:
    ended = slurm.run(f"srun -Q --mpi={kind} -N2 -n4 {python(family)} greeting.py")
    if CELLS[family, kind]:
        says_what_to_type(ended, kind, CELLS[family, kind], family)
    else:
        four_on_two_nodes(ended)


def test_mpich_starts_whatever_lies_in_memory(slurm: Cluster) -> None:
    """It sends its address with what lies after it, in requests that Slurm would cut (pybsp/transport/pmi.py)."""
    ended = slurm.run(f"srun -Q --kill-on-bad-exit=1 --mpi=pmi2 -N2 -n4 {python('MPICH')} among_texts.py")
    assert ended == Ended(0, "done\n" * 4, ""), ended


@pytest.mark.parametrize("family", ["MPICH", "Open MPI", "Intel"])
def test_the_librarys_launcher_works_in_an_allocation(slurm: Cluster, family: str) -> None:
    place = Path(python(family))
    four_on_two_nodes(slurm.run(f"salloc -Q -N2 -n4 {place.parent}/mpiexec -n 4 {place} greeting.py"))


@pytest.mark.parametrize("family", ["MPICH", "Open MPI", "Intel"])
def test_pybsp_run_takes_all_tasks_of_an_allocation(slurm: Cluster, family: str) -> None:
    four_on_two_nodes(slurm.run(f"salloc -Q -N2 -n4 {python(family)} -m pybsp run greeting.py"))


def test_the_readmes_commands_run_an_example_on_all_tasks(slurm: Cluster) -> None:
    """By the environment that is there, in place of the one that the first of them makes."""
    place, _ = fitting()
    install, allocate, run = blocks("bash")[0].splitlines()
    assert "pip install" in install
    pybsp, _, rest = run.partition(" ")
    assert pybsp.endswith("/bin/pybsp")
    assert pybsp.removesuffix("pybsp") in install
    ended = slurm.run(f"cd {emulated.CHECKOUT} && {allocate} --quiet {place} -m pybsp {rest}")
    assert ended.code == 0, ended
    assert re.search(r"\b8 processors\b|p = 8\b", ended.out), ended


def test_pybsp_run_takes_fewer_tasks_with_labels_and_a_router(slurm: Cluster) -> None:
    place, kind = fitting()
    options = "run -n 2 --label-output --router sparse"
    ended = slurm.run(
        f"salloc -Q -N2 -n4 {place} -m pybsp {options} greeting.py && "
        f"salloc -Q -N2 -n4 {place} -m pybsp {options} --explain greeting.py"
    )
    assert ended.code == 0, ended
    assert "0: p 2 n1 n2" in ended.out, ended
    assert f"srun --mpi={kind} --ntasks=2" in ended.out, ended


def test_pybsp_run_in_a_batch_script(slurm: Cluster) -> None:
    place, _ = fitting()
    ended = slurm.run(f"sbatch -Q --wait -N2 -n4 -o batch.txt --wrap '{place} -m pybsp run greeting.py'; cat batch.txt")
    four_on_two_nodes(ended)


def test_a_job_saves_before_its_end_and_goes_on_when_it_is_queued_again(slurm: Cluster) -> None:
    """By the batch file of the page; the signal comes at once, and the job does not wait in the queue."""
    place, _ = fitting()
    batch = PAGE.read_text().split("## Save before the end")[1].split("```sh\n")[1].split("```")[0]
    for theirs, ours in (
        (
            "--nodes=4 --ntasks-per-node=16 --time=12:00:00",
            "--nodes=2 --ntasks-per-node=2 --time=10 -J saving -o s.txt",
        ),
        ("pybsp run --checkpoint /scratch/$USER:$HOME/checkpoints", f"{place} -m pybsp run --checkpoint $PWD/saved"),
        ("program.py", "saving.py"),
    ):
        assert theirs in batch
        batch = batch.replace(theirs, ours)
    (slurm.folder / "saving.sh").write_text(batch)
    until = "for _ in $(seq 1500); do {} && break; sleep 0.1; done"
    ended = slurm.run(
        f"sbatch -Q saving.sh; {until.format('grep -qs under s.txt')}; scancel --batch -s TERM -n saving; "
        + until.format("squeue -h -n saving -o %T | grep -q PENDING")
        + "; "
        # Slurm has a job wait before it starts again, since nodes refuse one that starts in the second in which they
        # were told that it has ended ("Job credential revoked"): they are idle, and that second is over.
        + until.format("[ $(sinfo -h -o %T) = idle ]")
        + "; sleep 1.1; "
        # Again and again: the time at which it may start is set once more when it has been queued.
        + until.format(
            "{ scontrol update JobId=$(squeue -h -n saving -o %i) StartTime=now 2> err.txt; grep -qs ended s.txt; }"
        )
        + "; cat s.txt"
    )
    assert ended.out.index("was told to end: saved in") < ended.out.index("goes on from"), ended
    assert "ended 99" in ended.out, ended
    assert ended.out.count("under way") == 1, ended


@pytest.mark.parametrize("family", ["MPICH", "Open MPI", "Intel"])
def test_a_script_in_an_allocation_starts_ranks_on_all_of_its_nodes(slurm: Cluster, family: str) -> None:
    ended = slurm.run(f"salloc -Q -N2 --ntasks-per-node=2 {python(family)} started.py")
    assert ended == Ended(0, "['n1', 'n1', 'n2', 'n2']\n", ""), ended


@pytest.mark.parametrize("family", ["MPICH", "Open MPI", "Intel"])
@pytest.mark.parametrize("kind", ["none", "pmi2", "pmix"])
def test_ranks_start_in_a_step_of_one_task(slurm: Cluster, kind: str, family: str) -> None:
    """As in `srun --pty bash`: its resources serve the ranks."""
    place = python(family)
    ended = slurm.run(f"srun -Q --mpi={kind} -n1 {place} -m pybsp run -n 3 greeting.py")
    assert (ended.code, ended.err) == (0, ""), ended
    assert re.match(r"p 3( n1 n1 n1| n2 n2 n2)\n$", ended.out), ended


def test_start_ranks_in_a_step_of_one_task(slurm: Cluster) -> None:
    place, _ = fitting()
    ended = slurm.run(f"srun -Q -n1 -c2 {place} started.py 2")
    assert ended.code == 0, ended
    assert ended.out in ("['n1', 'n1']\n", "['n2', 'n2']\n"), ended


def test_several_tasks_start_no_ranks_each(slurm: Cluster) -> None:
    place, kind = fitting()
    ended = slurm.run(f"srun -Q -n4 {place} -m pybsp run -n 2 greeting.py")
    assert ended.code == 2, ended
    assert ended.out == "", ended
    advice = f"type `srun --kill-on-bad-exit=1 --mpi={kind} python greeting.py`"
    assert ended.err.count(f"each of which would start ranks of its own: {advice}") == 4, ended
    ended = slurm.run(f"srun -Q -n2 {place} started.py 2")
    assert ended.code != 0, ended
    assert "start this program without srun, or as the one task of a step (`srun -n 1`)" in ended.err, ended


def test_pytest_in_a_step_says_once_a_rank_what_to_type(slurm: Cluster) -> None:
    place, kind = fitting()
    command = f"{place} -m pytest -q -p no:cacheprovider -p pybsp.pytest_plugin test_marked.py"
    ended = slurm.run(f"srun -Q --mpi=none -n2 {command}")
    assert ended.code != 0, ended
    assert ended.err.count("ERROR: ") == 2, ended
    assert ended.err.count(f"--mpi={kind} python program.py`") == 2, ended
    assert "LauncherError" not in ended.out + ended.err, ended
    ended = slurm.run(f"srun -Q --kill-on-bad-exit=1 --mpi={kind} -n2 {command}")
    assert ended.code == 0, ended
    assert ended.out.count("2 passed") == 2, ended


def test_the_doctor_says_that_it_is_in_a_step(slurm: Cluster) -> None:
    place, _ = fitting()
    ended = slurm.run(f"srun -Q -n1 {place} -m pybsp doctor -n 2")
    assert "in a step, whose resources the ranks of `pybsp run` share" in ended.out, ended
    assert re.search(r"ranks: +2 processors: 2 on n[12]; messages arrive whole", ended.out), ended


# Intel MPI's launcher goes to hosts that are named by ssh, which these have not.
@pytest.mark.parametrize("family", ["MPICH", "Open MPI"])
def test_ranks_run_where_hosts_says(slurm: Cluster, family: str) -> None:
    place = python(family)
    ended = slurm.run(f"salloc -Q -N2 -n4 {place} -m pybsp run -n 3 --hosts n1,n2:2 greeting.py")
    assert (ended.code, ended.out) == (0, "p 3 n1 n2 n2\n"), ended
    ended = slurm.run(f"salloc -Q -N2 -n4 {place} started.py 4 n1,n2")
    assert (ended.code, ended.err) == (0, ""), ended
    assert [ended.out.count(host) for host in ("n1", "n2")] == [2, 2], ended


def test_hosts_outside_of_the_allocation_are_refused(slurm: Cluster) -> None:
    place, _ = fitting()
    for command, status in (("-m pybsp run -n 2 --hosts n1,n9 greeting.py", 2), ("started.py 2 n1,n9", 1)):
        ended = slurm.run(f"salloc -Q -N2 -n4 {place} {command}")
        assert (ended.code, ended.out) == (status, ""), ended
        assert "expected hosts of this Slurm allocation, which are n1, n2, got 'n9'" in ended.err, ended


def test_an_allocation_alone_is_no_step(slurm: Cluster) -> None:
    place, _ = fitting()
    ended = slurm.run(f"salloc -Q -N2 -n4 {place} greeting.py")
    assert ended.code == 0, ended
    assert ended.out == "p 1 ctl\n"


def test_the_doctor_proves_ranks_in_an_allocation(slurm: Cluster) -> None:
    place, kind = fitting()
    ended = slurm.run(f"salloc -Q -N2 -n4 {place} -m pybsp doctor -n 4")
    assert "4 processors: 2 on n1, 2 on n2; messages arrive whole" in ended.out, ended
    assert f"`srun --kill-on-bad-exit=1 --mpi={kind} python program.py` fits the library" in ended.out, ended


def test_a_failing_rank_ends_the_step_with_one_traceback(slurm: Cluster) -> None:
    place, kind = fitting()
    ended = slurm.run(f"srun -Q --mpi={kind} -N2 -n4 {place} failing.py")
    assert ended.code != 0, ended
    assert ended.err.count("Traceback") == 1, ended
    assert "ValueError: of processor 2" in ended.err, ended


def test_a_task_of_another_node_that_ends_without_a_run_is_missed(slurm: Cluster) -> None:
    place, kind = fitting()
    ended = slurm.run(f"srun -Q --mpi={kind} -N2 -n4 {place} leaving.py")
    assert ended.code != 0, ended
    assert ended.err.count("Traceback") == 1, ended
    assert "processor 3 left the job" in ended.err, ended


@pytest.mark.parametrize("fits", [True, False])
def test_tasks_that_make_no_run_end_well_each_at_its_time(slurm: Cluster, fits: bool) -> None:
    place, kind = fitting()
    ended = slurm.run(f"PYBSP_GRACE=0.1 srun -Q --mpi={kind if fits else 'none'} -N2 -n4 {place} alone.py")
    assert (ended.code, sorted(ended.out.split()), ended.err) == (0, ["ends"] * 4, ""), ended


def test_pybsp_run_ends_all_when_a_rank_is_killed(slurm: Cluster) -> None:
    place, _ = fitting()
    ended = slurm.run(f"salloc -Q -N2 -n4 {place} -m pybsp run dying.py")
    assert ended.code != 0, ended
    assert ended.err.count("srun: error: n2: task 2: Killed") == 1, ended
    assert "pybsp" not in ended.err, ended
    assert "Traceback" not in ended.err, ended


@pytest.mark.parametrize("nodes", [1, 2])
def test_plain_srun_ends_when_a_rank_is_killed_beside_another_of_its_node(slurm: Cluster, nodes: int) -> None:
    place, kind = fitting()
    ended = slurm.run(f"PYBSP_GRACE=2 srun -Q --mpi={kind} -N{nodes} -n4 {place} dying.py")
    assert ended.code != 0, ended
    assert ended.err.count("the process of processor 2 has ended, and the launcher ends no others") == 1, ended
    assert "Traceback" not in ended.err, ended


def test_an_uneven_step_has_its_tasks_where_slurms_variables_say(slurm: Cluster) -> None:
    place, kind = fitting()
    ended = slurm.run(f"srun -Q --mpi={kind} -N2 -n3 {place} placed.py")
    assert ended.code == 0, ended
    assert ended.out == "placed [('n1', 0, 2), ('n1', 0, 2), ('n2', 1, 1)]\n"


def test_a_calibration_under_srun_measures_the_steps_placement(slurm: Cluster) -> None:
    place, kind = fitting()
    command = "calibrate --quick --only bsp --budget 8 --output machine.json"
    ended = slurm.run(f"srun -Q --mpi={kind} -N2 -n4 {place} -m pybsp {command}")
    assert ended.code == 0, ended
    assert ended.err.count("written: ") + ended.out.count("written: ") == 1, ended
    found = json.loads((slurm.folder / "machine.json").read_text())
    assert found["bsp"]["p"] == 4
    assert found["placement"] == {"hosts": ["n1", "n1", "n2", "n2"], "nodes": [0, 0, 1, 1]}
    # A run of the same placement takes it, and says nothing of another one.
    ended = slurm.run(f"PYBSP_MACHINE=machine.json srun -Q --mpi={kind} -N2 -n4 {place} greeting.py")
    four_on_two_nodes(ended)
    assert "placement" not in ended.err, ended


ENDS = {  # what ends a job of that name
    "scancel": "scancel -n {name}",
    "SIGTERM": "scancel -s TERM -n {name}",
    "SIGINT": "scancel -s INT -n {name}",
    # Limits are minutes; the controller looks every half minute which are over.
    "time limit": "scontrol update JobId=$(squeue -h -n {name} -o %i) EndTime=now+1",
}


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_step_ends_all_ranks_with_one_message(slurm: Cluster, end: str) -> None:
    place, kind = fitting()
    name = f"waiting-{end.replace(' ', '-')}"
    job = slurm.start(f"exec srun -Q -J {name} -t 5 --mpi={kind} -N2 -n4 {place} waiting.py")
    slurm.printed(job, "all are here")
    assert slurm.run(ENDS[end].format(name=name)).code == 0
    ended = slurm.finish(job)
    assert ended.code != 0, ended
    assert "Traceback" not in ended.err, ended
    if end == "SIGINT":  # which Python sees
        assert ended.err.count("was interrupted; ending the job") == 1, ended
    else:
        assert "pybsp" not in ended.err, ended
        assert len(re.findall(r"CANCELLED AT \S+" + " DUE TO TIME LIMIT" * (end == "time limit"), ended.err)) == 1, (
            ended
        )
    # Slurm has processes end, and sees that they have, after srun has ended.
    left = f"for _ in $(seq 300); do squeue -h -n {name} | grep -q . || exit 0; sleep 0.1; done; exit 1"
    assert slurm.run(left).code == 0


BY_COMMAND = {  # what ends a job in which `pybsp run` started the ranks
    "sbatch, scancel": "scancel -n {name}",
    "sbatch, scancel of the script too": "scancel --full -n {name}",
    "salloc, scancel": "scancel -n {name}",
    "salloc, Ctrl-C": "kill -INT -- -$(cat {name}.pid)",
}


@pytest.mark.parametrize("end", BY_COMMAND)
def test_what_ends_pybsp_run_ends_all_ranks(slurm: Cluster, end: str) -> None:
    place, _ = fitting()
    name = "by-command-" + "".join(letter if letter.isalnum() else "-" for letter in end)
    program = f"{place} -m pybsp run waiting.py"
    if end.startswith("sbatch"):
        job = slurm.start(f"touch {name}.txt; sbatch -Q -J {name} -t 5 -W -N2 -n4 -o {name}.txt --wrap '{program}'")
        ready = f"grep -q 'all are here' {name}.txt"
    else:  # a terminal sends an interrupt to all processes in its foreground, a process group
        command = f"echo $$ >{name}.pid; exec salloc -Q -J {name} -t 5 -N2 -n4 {program} >{name}.txt 2>&1"
        job = slurm.start(f"touch {name}.txt; setsid -w bash -c '{command}'")
        ready = f"grep -q 'all are here' {name}.txt"
    waits = "for _ in $(seq 600); do {} && exit 0; sleep 0.1; done; exit 1"
    assert slurm.run(waits.format(ready)).code == 0, slurm.run(f"cat {name}.txt")
    assert slurm.run(BY_COMMAND[end].format(name=name)).code == 0
    ended = slurm.finish(job)
    printed = (slurm.folder / f"{name}.txt").read_text()
    assert ended.code != 0, (ended, printed)
    assert "Traceback" not in printed, printed
    if "Ctrl-C" in end:
        assert printed.count("was interrupted; ending the job") <= 1, printed
    assert slurm.run(waits.format(f"! squeue -h -n {name} | grep -q .")).code == 0
    assert slurm.run(waits.format("! pgrep -f waiting.py")).code == 0
