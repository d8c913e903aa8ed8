"""What dead jobs have left in shared memory is removed; what anybody may use, and all else, stays."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import rmtree, which
from typing import Any

import pytest

from pybsp.processes import leftovers
from pybsp.processes.leftovers import Removed, remove

from .launching import LIMIT, Program, ended_well, finish, mpiexec, python, run, start

if sys.platform != "linux":
    pytest.skip("only Linux has /dev/shm and leases", allow_module_level=True)

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT or which("unshare") is None, reason="needs root, and unshare")
PYBSP_RUN = python("-m", "pybsp", "run")
NOBODY = 65534

SEEN = {  # as the libraries have left them
    "MPICH": "mpich_shm_26ae2230_0",
    "MPICH, threads": "mpich_vci_26ae2230_12",
    "Open MPI 5": "sm_segment.vm.0.e320001.1",
    "Open MPI 4": "vader_segment.my-host.example.org.1000.5a2f0001.0",
    "Open MPI, window": "osc_sm.my-host.e320001.0.6",
    "UCX": "ucx_shm_posix_6f68e7d0",
}
NAME = SEEN["MPICH"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in shared memory."""
    path = Path(tempfile.mkdtemp(prefix="pybsp-test-", dir=leftovers.SHARED_MEMORY))
    yield path
    rmtree(path)


def leave(folder: Path, name: str = NAME, size: int = 10_000) -> Path:
    """What a library leaves."""
    path = folder / name
    path.write_bytes(b"x" * size)
    path.chmod(0o600)
    return path


# -- what is removed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEEN.values(), ids=SEEN)
def test_what_nobody_uses_is_removed(folder: Path, name: str) -> None:
    path = leave(folder, name)
    assert remove(str(folder)) == Removed(1, 12288, 0)
    assert not path.exists()


def test_all_is_counted(folder: Path) -> None:
    for name in SEEN.values():
        leave(folder, name, 4096)
    with open(leave(folder, "mpich_shm_1_1")):
        assert remove(str(folder)) == Removed(len(SEEN), 4096 * len(SEEN), 1)


def test_a_folder_that_is_not_there() -> None:
    assert remove("/nowhere/shm") == Removed(0, 0, 0)


# -- what stays ------------------------------------------------------------------------------------------------------


@pytest.mark.fast
@pytest.mark.parametrize(
    "name",
    [
        "mpich_shar_tmpAbCdEf",
        "mpich_shm_26ae2230",
        "my_mpich_shm_1_0",
        "mpich_shm_1_0.bak",
        "sem.abc",
        "psm_4f2a",
        "data",
    ],
)
def test_other_names_stay(folder: Path, name: str) -> None:
    path = leave(folder, name)
    assert remove(str(folder)) == Removed(0, 0, 0)
    assert path.exists()


HOLDS = """
import mmap, os, sys

path, how = sys.argv[1:]
write = "write" in how
file = os.open(path, os.O_RDWR if write else os.O_RDONLY)
if "mapped" in how:
    memory = mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if write else 0))
    for number in os.listdir("/proc/self/fd"):  # also the descriptor that `memory` has
        try:
            if os.path.samestat(os.fstat(int(number)), os.stat(path)):
                os.close(int(number))
        except OSError:
            pass
print("holds", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, how: str, *prefix: str) -> Iterator[None]:
    """While a process holds a file."""
    command = [*prefix, *python("-c", HOLDS, str(path), how)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        yield
        holder.stdin.close()


@pytest.mark.parametrize("how", ["open to read", "open to write", "mapped to read", "mapped to write"])
@pytest.mark.parametrize(
    "prefix",
    [
        [],
        pytest.param(["unshare", "--pid", "--fork", "--mount-proc"], marks=as_root),
        pytest.param(["unshare", "--user", "--pid", "--fork"], marks=as_root),
    ],
    ids=["process", "other container", "other user namespace"],
)
def test_what_a_live_process_holds_stays(folder: Path, prefix: list[str], how: str) -> None:
    path = leave(folder)
    if "--user" in prefix:
        folder.chmod(0o755)
        path.chmod(0o666)
    with held(path, how, *prefix):
        assert remove(str(folder)) == Removed(0, 0, 1)
        assert path.exists()
    assert remove(str(folder)).files == 1


@pytest.mark.whole
@as_root
def test_what_a_process_holds_stays_that_may_not_be_examined(folder: Path) -> None:
    path = leave(folder)
    os.chown(path, NOBODY, NOBODY)
    os.chown(folder, NOBODY, NOBODY)
    code = f"""import os
from pybsp.processes import leftovers
os.setuid({NOBODY})
print(leftovers.remove({str(folder)!r}).files)"""
    with held(path, "mapped to write"):
        assert ended_well(run(python("-c", code))) == "0\n"
        assert path.exists()
    assert ended_well(run(python("-c", code))) == "1\n"


@as_root
def test_files_of_other_users_stay(folder: Path) -> None:
    path = leave(folder)
    os.chown(path, NOBODY, NOBODY)
    assert remove(str(folder)) == Removed(0, 0, 1)
    assert path.exists()


def test_a_file_that_is_just_being_created_stays(folder: Path) -> None:
    path = leave(folder, size=0)
    assert remove(str(folder)) == Removed(0, 0, 1)
    assert path.exists()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink(leave(path.parent, "data"), path)])
def test_what_is_no_file_stays(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / NAME)
    assert remove(str(folder)) == Removed(0, 0, 1)
    assert os.path.lexists(folder / NAME)


def test_on_a_file_system_that_others_may_reach_all_stays(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    if kind == "tmpfs\n":
        pytest.skip("temporary files are in memory here")
    path = leave(tmp_path)
    assert remove(str(tmp_path)) == Removed(0, 0, 1)
    assert path.exists()


def test_without_leases_all_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: int, command: int, argument: Any = 0) -> int:
        raise OSError(errno.EINVAL, "no leases here")

    path = leave(folder)
    monkeypatch.setattr(leftovers.fcntl, "fcntl", refused)  # type: ignore[attr-defined]
    assert remove(str(folder)) == Removed(0, 0, 1)
    assert path.exists()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
def test_a_file_stays_that_somebody_opens_in_between(folder: Path, monkeypatch: pytest.MonkeyPatch, flags: int) -> None:
    """Between the proof and its removal; who does waits, and then has a file that is there."""
    path = leave(folder)
    control = fcntl.fcntl
    opened = []
    opening = threading.Thread(target=lambda: opened.append(os.open(path, flags)))

    def in_between(file: int, command: int, argument: Any = 0) -> Any:
        result = control(file, command, argument)
        if command == fcntl.F_SETLEASE:
            opening.start()
            while control(file, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
                time.sleep(0.001)
        return result

    monkeypatch.setattr(leftovers.fcntl, "fcntl", in_between)  # type: ignore[attr-defined]
    signals: list[int] = []
    before = signal.signal(signal.SIGIO, lambda number, frame: signals.append(number))  # would end this process
    try:
        assert remove(str(folder)) == Removed(0, 0, 1)
    finally:
        signal.signal(signal.SIGIO, before)
    opening.join()
    os.close(*opened)
    assert path.exists()
    assert not signals


@pytest.mark.timeout(30)
def test_who_is_proving_the_same_is_not_waited_for(folder: Path) -> None:
    path = leave(folder)
    file = os.open(path, os.O_RDONLY)
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    assert remove(str(folder)) == Removed(0, 0, 1)
    os.close(file)
    assert remove(str(folder)).files == 1


# -- jobs: in a /dev/shm of their own, as others run jobs here too ---------------------------------------------------


NEXT = "import pybsp; pybsp.run(lambda bsp: bsp.sync())"


class Private:
    """A /dev/shm that nobody else has.

    Attributes:
        shm: where it is seen from outside.
        inside: the command that runs another one inside.
    """

    def __init__(self, keeper: int) -> None:
        self.shm = Path(f"/proc/{keeper}/root/dev/shm")
        self.inside = ["nsenter", f"--mount=/proc/{keeper}/ns/mnt"]

    def names(self) -> list[str]:
        return sorted(os.listdir(self.shm))

    def run_next(self, p: int = 2) -> None:
        """One more job, which ends well."""
        ended_well(run([*self.inside, *mpiexec(p), *python("-c", NEXT)], LIMIT))


@pytest.fixture
def private() -> Iterator[Private]:
    script = "mount -t tmpfs -o size=256m tmpfs /dev/shm && echo ready && exec cat"
    command = ["unshare", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        if keeper.stdout.readline() != "ready\n":
            pytest.skip("no mount namespaces here")
        yield Private(keeper.pid)
        keeper.stdin.close()


ENDS = """
import os, signal, sys, time, pybsp
from mpi4py import MPI

def main(bsp):
    bsp.sync()
    sys.stdout.write("pid %d\\n" % os.getpid())
    sys.stdout.flush()
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    {end}
    time.sleep(600)

pybsp.run(main)
"""
NEVER = "pass"
ENDINGS = {
    "a rank is killed": "bsp.pid or os.kill(os.getpid(), signal.SIGKILL)",
    "all are killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "bsp.pid or MPI.COMM_WORLD.Abort(3)",
    "the launcher is killed": NEVER,
}


class Job:
    """Two ranks of a job in private shared memory, that have begun, and end by themselves or wait for ever."""

    def __init__(self, command: list[str], program: Program, end: str) -> None:
        path = program(ENDS.format(end=end))
        self._word = path.parent / "end"
        self._word.unlink(missing_ok=True)
        self.process = start([*command, str(path), str(self._word)])
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(2)]
        if not all(line.startswith("pid ") for line in lines):
            self.process.kill()
            raise AssertionError(lines, finish(self.process))
        self.pids = [int(line.split()[1]) for line in lines]

    def end(self) -> None:
        """Let it end by itself."""
        self._word.touch()

    def kill(self) -> None:
        """Kill all ranks."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def gone(self) -> bool:
        """Whether no rank is alive."""
        return not any(alive(pid) for pid in self.pids)


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait for what will happen soon."""
    until = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.whole
@as_root
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_next_run_removes_what_a_killed_job_has_left(private: Private, program: Program, ending: str) -> None:
    job = Job([*private.inside, *mpiexec(2), sys.executable], program, ending)
    assert private.names()  # else this test is of nothing
    job.end()
    if ending == NEVER:
        job.process.kill()
        job.kill()
    assert finish(job.process, LIMIT).code != 0
    wait_for(job.gone)
    leave(private.shm)
    private.run_next()
    assert private.names() == []


@pytest.mark.whole
@as_root
def test_the_next_run_leaves_a_live_job_alone(private: Private, program: Program) -> None:
    job = Job([*private.inside, *mpiexec(2), sys.executable], program, NEVER)
    try:
        names = private.names()
        assert names
        leave(private.shm)
        private.run_next()
        assert private.names() == names
    finally:
        job.process.terminate()
        job.kill()
        finish(job.process, LIMIT)


@pytest.mark.whole
@as_root
def test_jobs_start_while_others_remove(private: Private) -> None:
    removing = "from pybsp.processes.leftovers import remove\nprint('removing', flush=True)\nwhile True: remove()"
    with ExitStack() as stack:
        for _ in range(2):
            remover = start([*private.inside, *python("-c", removing)])
            stack.callback(finish, remover)
            stack.callback(remover.kill)
            assert remover.stdout is not None
            assert remover.stdout.readline() == "removing\n"
        for _ in range(3):
            private.run_next(3)


@pytest.mark.whole
@as_root
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_pybsp_run_cleans_up_behind_a_job_that_died(private: Private, program: Program, ending: str) -> None:
    job = Job([*private.inside, *PYBSP_RUN, "-n", "2"], program, ending)
    leave(private.shm, size=2_000_000)
    job.end()
    if ending == NEVER:
        supervisor = job.process.pid
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        for pid in job.pids:  # Open MPI's ranks do not notice
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    ended = finish(job.process, LIMIT)
    assert ended.code not in (0, None)
    assert private.names() == []
    assert job.gone()
    said = re.findall(r"pybsp run: removed (.*) MB that dead jobs had left in /dev/shm\n", ended.err)
    assert len(said) == 1, ended
    assert float(said[0]) >= 2


@as_root
def test_pybsp_run_says_nothing_where_nothing_was_left(private: Private, program: Program) -> None:
    ended = run([*private.inside, *PYBSP_RUN, "-n", "1", str(program("import sys; sys.exit(7)"))], LIMIT)
    assert ended.code == 7
    assert "removed" not in ended.err
