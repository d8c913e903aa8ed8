"""Running a command under mpiexec across emulated hosts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from pybsp.errors import LauncherError
from pybsp.runs import threads

from .hosts import LAUNCHER_ADDRESS, Hosts, address, missing
from .link import Change, Link
from .switch import Switch

LOCK = "/run/pybsp-emulate.lock"
LOCK_SECONDS = 600.0
GRACE = 10  # seconds that a program has to end by itself after Ctrl-C
LAST_GRACE = 3  # seconds that mpiexec then has to end it

TCP = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPICH_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}  # how MPICH is to talk

# What mpiexec starts instead of ssh: [options] address command...
_ENTER = """#!/bin/sh
while case $1 in -*) ;; *) false ;; esac; do shift; done
case $1 in
{pids}
esac
shift
exec nsenter --target "$pid" --net --uts --ipc --mount --pid -- sh -c "$*"
"""


def emulate(
    command: Sequence[str], hosts: int, ranks_per_host: int, link: Link, changes: Sequence[Change] = ()
) -> tuple[int, float]:
    """Run `mpiexec -n hosts*ranks_per_host command` across emulated hosts. One cluster at a time: waits for its turn.

    Args:
        command: the program and its arguments; it is looked for beside this Python first, then on PATH.
        hosts: 1 to 64.
        ranks_per_host: ranks of one host may share memory; ranks of two talk TCP.
        link: what lies between the hosts.
        changes: how it changes, in time since mpiexec was started.

    Returns:
        mpiexec's exit status (128 + the signal that ended it; 130 after Ctrl-C), and the seconds by which frames came
        late, on average: where that is not small against the latency, this machine is too slow for the link.

    Raises:
        LauncherError: the command, or something that it needs, is missing; the text says what.
    """
    require_command(command[0])
    mpiexec = find_mpiexec()
    with turn(), Hosts(hosts) as running:
        switch = Switch(running.ports, link, changes)
        with _enter(running.pids) as enter, _signals() as (wake, seen):
            there = ",".join(address(i) for i in range(hosts))
            launcher = ["-launcher", "ssh", "-launcher-exec", enter, "-localhost", LAUNCHER_ADDRESS]
            placed = ["-hosts", there, "-ppn", str(ranks_per_host), "-n", str(hosts * ranks_per_host)]
            # All hosts share this one's cores.
            ours = threads.of_ranks(hosts * ranks_per_host)
            job = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", mpiexec, *launcher, *placed, *command],
                env={**os.environ, **ours, **TCP, "PATH": _search()},
            )
            try:
                with _promptly():
                    status = _serve(switch, job, wake, seen)
            finally:
                job.kill()
                job.wait()
    return status, switch.lateness


def _search() -> str:
    """Where commands are looked for: beside this Python first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def require_command(name: str) -> None:
    """Raise LauncherError for a command that the hosts, who have the files of this one, would not find either.

    Args:
        name: its first word, which may be an option of mpiexec.
    """
    if name.startswith("-") or shutil.which(name, path=_search()):
        return
    python = f"; a program in Python goes as: -- python {name}" if name.endswith(".py") else ""
    raise LauncherError(
        f"command {name}: expected one that can be executed, beside {sys.executable} or on PATH, found none{python}"
    )


def find_mpiexec() -> str:
    """MPICH's mpiexec; a LauncherError that says all that is missing for an emulated cluster."""
    lacking = missing()
    found = shutil.which("mpiexec", path=_search())
    if found is None:
        lacking.append(f"mpiexec beside {sys.executable} or on PATH (pip install mpich brings one)")
    else:
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if "hydra" not in version.lower():
            first = (version.strip().splitlines() or ["something else"])[0]
            lacking.append(f"MPICH's mpiexec, Hydra ({found} is {first}; pip install mpich brings Hydra)")
    if lacking or found is None:
        raise LauncherError(f"an emulated cluster cannot run here; it needs {'; '.join(lacking)}")
    return found


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Hold the lock that lets one cluster run at a time."""
    with contextlib.ExitStack() as stack:
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, lock)
        deadline = time.monotonic() + LOCK_SECONDS
        reported = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LauncherError(f"another emulated cluster has been running for {LOCK_SECONDS:g} s") from None
            if not reported:
                print("pybsp emulate: waits for another emulated cluster to end", file=sys.stderr, flush=True)
                reported = True
            time.sleep(0.1)
        yield


@contextlib.contextmanager
def _enter(pids: Sequence[int]) -> Iterator[str]:
    """The path of the program that mpiexec starts instead of ssh; it lies in memory, so it ends with this process."""
    cases = "\n".join(f"{address(i)}) pid={pid} ;;" for i, pid in enumerate(pids))
    script = os.memfd_create("enter", 0)
    try:
        os.write(script, _ENTER.format(pids=cases).encode())
        yield f"/proc/{os.getpid()}/fd/{script}"
    finally:
        os.close(script)


@contextlib.contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """A file descriptor that becomes readable when a signal has come, and the list that the signals are added to."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    wake, woken = socket.socketpair()
    wake.setblocking(False)
    woken.setblocking(False)
    numbers = (signal.SIGCHLD, signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with wake, woken:
        former = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, note) for number in numbers}
        try:
            yield wake.fileno(), seen
        finally:
            signal.alarm(0)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former)


@contextlib.contextmanager
def _promptly() -> Iterator[None]:
    """Run before all that is not urgent, where the system permits it.

    Waiting ranks poll, and among more of them than cores a switch of ordinary priority would get its turn late: with 8
    ranks on 2 cores, exchanges of small messages took 1.5 times as long.
    """
    former = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, *former)


def _serve(switch: Switch, job: subprocess.Popen[bytes], wake: int, seen: list[int]) -> int:
    """Forward frames until mpiexec has ended; returns its exit status."""
    ending = 0  # the first signal that asked for the end
    requested = False  # whether mpiexec was asked to end
    while job.poll() is None:
        switch.run(wake)
        os.read(wake, 4096)
        while seen:
            number = seen.pop(0)
            if number == signal.SIGCHLD:
                continue
            if number == signal.SIGINT and not ending:
                signal.alarm(GRACE)  # a terminal has given Ctrl-C to mpiexec as well
            elif not requested:
                requested = True
                job.terminate()
                signal.alarm(LAST_GRACE)
            else:
                job.kill()
            ending = ending or number
    if ending:
        return 128 + ending
    return 128 - job.returncode if job.returncode < 0 else job.returncode
