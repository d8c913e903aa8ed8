"""Does a calibration say that something was wrong with the machine? Faults on purpose, and the flags that they raise.

    python -m pybsp.benchmarks.studies.calibration_faults [--only hogged-core slow-rank ...] [--output FOLDER]

    quiet            two processors here, nothing else: none of the flags below
    hogged-core      the same; another process computes all the time, on one of the cores
    slow-rank        the same; one processor is stopped for three of every four milliseconds
    oversubscribed   twice as many processors as cores
    quiet-link       two emulated hosts of `pybsp emulate`, 1 ms and 200 Mbit/s: no drift
    changed-link     the same, and half-way the line's rate falls to 50 Mbit/s

Each is a `pybsp calibrate --quick`, of 45 seconds. It first waits until the load average has fallen, as a busy machine
is flagged before anything is measured; what is looked for is what was measured. The last two need root; they are left
out where no cluster can be emulated.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from pybsp.benchmarks.calibration.estimates import Flag
from pybsp.benchmarks.calibration.machine_file import read
from pybsp.benchmarks.emulation.launch import find_mpiexec
from pybsp.errors import LauncherError

from .frame import EmulatedNetwork, Study, run_program

TOKEN = "PYBSP_FAULT"  # in the environment of the ranks that a fault is for
STOPPED, RUNS = 3e-3, 1e-3  # seconds that a slow rank is stopped, and runs, in turn
IDLE = 0.4  # load average below which a machine is quiet
LONGEST = 300.0  # seconds
HALF_WAY = 20  # seconds of a --quick calibration
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")

DISTURBED = frozenset({"shared-core", "slow-processor", "uneven-rates", "noisy", "drift", "oversubscribed"})


@contextlib.contextmanager
def hogged(token: str, core: int | None = None) -> Iterator[None]:
    """Another process computes all the time, on one core: the first that there is."""
    core = min(os.sched_getaffinity(0)) if core is None else core
    program = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    hog = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        hog.kill()
        hog.wait()


@contextlib.contextmanager
def slowed(token: str, rank: int = 1) -> Iterator[None]:
    """A rank is stopped and continued in turn, as long as it runs; the token is in its environment."""
    over = threading.Event()

    def stop_and_go() -> None:
        with contextlib.suppress(OSError):  # this thread before all others: a crowd would make its turns irregular
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        pid = None
        looked = 0.0
        while not over.is_set():
            if pid is None:
                if time.monotonic() - looked > 0.1:
                    pid, looked = pid_of(token, rank), time.monotonic()
                over.wait(0.02)
                continue
            try:
                os.kill(pid, signal.SIGSTOP)
                try:
                    time.sleep(STOPPED)
                finally:
                    os.kill(pid, signal.SIGCONT)
                time.sleep(RUNS)
            except ProcessLookupError:
                pid = None  # the next launch has another

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def pid_of(token: str, rank: int) -> int | None:
    """The process of a rank that was started with a token in its environment, once it is there."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not folder.name.isdigit():
                continue
            variables = (folder / "environ").read_bytes().split(b"\0")
            ours = f"{TOKEN}={token}".encode() in variables
            if ours and any(f"{name}={rank}".encode() in variables for name in RANKS):
                return int(folder.name)
    return None


class Fault(NamedTuple):
    """What is done to a calibration; and flags, one of which must be raised, or of none, none of `DISTURBED` may be."""

    expected: frozenset[str]
    processors: int  # 0: on emulated hosts
    beside: Callable[[str], AbstractContextManager[object]] = contextlib.nullcontext  # what goes on meanwhile
    changes: tuple[str, ...] = ()  # of the emulated link


def faults() -> dict[str, Fault]:
    """All of them, by name."""
    cores = len(os.sched_getaffinity(0))
    return {
        "quiet": Fault(frozenset(), 2),
        "hogged-core": Fault(frozenset({"shared-core", "slow-processor"}), 2, hogged),
        "slow-rank": Fault(frozenset({"slow-processor"}), 2, slowed),
        "oversubscribed": Fault(frozenset({"oversubscribed"}), 2 * cores),
        "quiet-link": Fault(frozenset(), 0),
        "changed-link": Fault(frozenset({"drift"}), 0, changes=(f"{HALF_WAY}s:rate=50mbit",)),
    }


def calibrated(fault: Fault, path: Path, arguments: Sequence[str] = ("--quick",)) -> tuple[Flag, ...]:
    """The flags of a calibration under a fault; its machine file is left at the path."""
    token = uuid.uuid4().hex
    program = ["-m", "pybsp", "calibrate", "-o", str(path), *arguments]
    network = None if fault.processors else EmulatedNetwork(2, 1000, 200, emulator="pybsp", changes=fault.changes)
    with fault.beside(token):
        run_program(program, fault.processors or 2, network, LONGEST, **{TOKEN: token})
    return read(path).all_flags()


def main() -> int:
    """Run all, and say which were flagged."""
    study = Study(__doc__)
    known = faults()
    study.add_argument("--only", nargs="+", choices=known, default=list(known), metavar="FAULT", help=", ".join(known))
    study.add_argument("--output", type=Path, metavar="FOLDER", help="keep machine files and raw samples")
    study.add_argument("--wait", type=float, default=240, help="seconds for the load to fall, at most")
    options = study.begin()
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in study.each(options.only):
            fault = known[name]
            if not fault.processors:
                try:
                    find_mpiexec()
                except LauncherError as error:
                    study.show(f"{name}: left out: {error}")
                    continue
            path = folder / f"{name}.json"
            for left in (path, path.with_suffix(".csv")):
                left.unlink(missing_ok=True)
            begun = time.monotonic()
            while os.getloadavg()[0] > IDLE and time.monotonic() - begun < options.wait:
                time.sleep(2)
            load = os.getloadavg()[0]
            raised = calibrated(fault, path)
            looked_for = fault.expected or DISTURBED
            seen = [flag for flag in raised if flag.code in looked_for]
            good = bool(seen) == bool(fault.expected)
            missed += not good
            which = f"{'one of' if fault.expected else 'none of'} {', '.join(sorted(looked_for))}"
            study.show(
                f"{name}: {('flagged' if fault.expected else 'none') if good else 'MISSED'} (load before {load:.2f}, "
                f"looked for {which})",
                *(f"    {flag.code}: {flag.text}" for flag in seen),
                f"    also: {', '.join(sorted({flag.code for flag in raised} - looked_for))}",
            )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
