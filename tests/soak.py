"""Random programs, for as long as wanted, on real ranks in all configurations, against a sequential model of BSP.

    python tests/soak.py --minutes 60 --seed 1
    python tests/soak.py --replay 1000017                 # one job again
    python tests/soak.py --minutes 10 --mpiexec PATH --python PATH     # with another MPI library

A job is an mpiexec of tests/soak_programs.py with a configuration (processors, shared memory, pretended nodes, ways to
wait) and programs, all of which follow from its seed. The first one that ends badly, or does not end, is printed with
its seed, and ends this with exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PRETENDED = ROOT / "tests" / "pretended"
LIMIT = 240.0  # seconds of a job; it takes some, so one that takes all of them hangs
PRINTED = 6000  # characters of what a failed job printed


class Configuration(NamedTuple):
    """How a job runs.

    Args:
        p: processors.
        settings: variables of the environment.
    """

    p: int
    settings: dict[str, str]

    def __str__(self) -> str:
        return " ".join([f"p={self.p}", *(f"{name}={value}" for name, value in self.settings.items())])


def configuration(seed: int) -> Configuration:
    """That of the job with this seed."""
    rng = random.Random(f"configuration {seed}")
    p, settings = rng.choice([1, 2, 2, 3, 3, 4, 4, 5]), {}
    shared = rng.choice(["", "", "", "0", "0", "8440000", "9300000", "20000000"])
    if shared:
        settings["PYBSP_SHARED"] = shared
    if p > 2 and shared != "0" and rng.random() < 0.4:
        settings["PRETENDED_NODES"] = str(rng.randint(1, p - 1))
        settings["PYBSP_AGGREGATE"] = rng.choice(["1", "1", "0"])
    if rng.random() < 0.2:
        settings["PRETENDED_WEAK"] = "1"
        settings.setdefault("PRETENDED_NODES", str(p))
    if rng.random() < 0.4:
        settings["PYBSP_WAIT"] = rng.choice(["spin", "yield", "sleep"] if p < 3 else ["yield", "sleep"])
    return Configuration(p, settings)


class Ended(NamedTuple):
    """How a job ended; `hung` if it had to be ended."""

    code: int
    out: str
    err: str
    hung: bool


def job(seed: int, mpiexec: list[str], python: str, limit: float) -> Ended:
    """Run the job with this seed."""
    p, settings = configuration(seed)
    paths = [str(PRETENDED), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(paths)}
    command = [*mpiexec, "-n", str(p), python, "-m", "tests.soak_programs", str(seed), str(limit)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ran:
        hung = False
        try:
            out, err = ran.communicate(timeout=limit + 20)  # the ranks say where they are, and end
        except BaseException as error:
            os.killpg(ran.pid, signal.SIGKILL)
            out, err = ran.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            hung = True
    return Ended(ran.returncode, out, err, hung or "Timeout (" in err)


def failed(ended: Ended) -> str:
    """What is wrong with how a job ended; empty where nothing is."""
    if ended.hung:
        return "hangs"
    if ended.code:
        return f"ends with status {ended.code}"
    return "" if ended.out.strip() else "ends with status 0 and nothing done"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="for how long (default: 1, without --jobs)")
    parser.add_argument("--jobs", type=int, help="how many jobs, at most")
    parser.add_argument("--seed", type=int, default=0, help="of all jobs (default: 0)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run the job with this seed alone")
    parser.add_argument("--mpiexec", help="the launcher, with options (default: the one beside --python)")
    parser.add_argument("--python", default=sys.executable, help="of the ranks (default: this one)")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds of a job (default: {LIMIT:g})")
    options = parser.parse_args()
    mpiexec = shlex.split(options.mpiexec) if options.mpiexec else [str(Path(options.python).parent / "mpiexec")]
    minutes = options.minutes if options.minutes is not None else 1.0 if options.jobs is None else float("inf")
    end = time.monotonic() + 60 * minutes
    totals: Counter[str] = Counter()
    number = 0
    while number == 0 or (options.replay is None and time.monotonic() < end and number != options.jobs):
        seed = options.seed * 1_000_000 + number if options.replay is None else options.replay
        begun = time.monotonic()
        ended = job(seed, mpiexec, options.python, options.limit)
        wrong = failed(ended)
        print(
            f"{seed}: {configuration(seed)}: {wrong or ended.out.strip()} ({time.monotonic() - begun:.1f} s)",
            flush=True,
        )
        if wrong:
            print(f"{ended.out[-PRINTED:]}\n{ended.err[-PRINTED:]}\nagain: python tests/soak.py --replay {seed}")
            return 1
        totals.update({"jobs": 1, **json.loads(ended.out.strip().splitlines()[-1])})
        number += 1
    print(", ".join(f"{name}: {count}" for name, count in totals.items()) + ", differences: 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
