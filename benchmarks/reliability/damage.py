"""Checkpoints on disks that fail: full, unwritable, gone; a rank killed as it writes; a bit flipped, a part missing.

    python -m pybsp.benchmarks.reliability.damage [--rounds 3] [--cases flipped=100 near_flipped missing]

Each case runs jobs of the random program (random_program.py) on two ranks, in a small file system in memory (which
takes root), and compares the result with that of virtual processors. Right is the same result, after the last whole
checkpoint or from the beginning, or an error that names the file. Prints a row for each; status 1 if any is wrong.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .kills import MARK, processes
from .random_program import expected

PROGRAM = Path(__file__).parent / "random_program.py"
SUPERSTEPS, P = 60, 2


@contextmanager
def small_disk(bytes_: int) -> Iterator[Path]:
    """A folder on a file system of so many bytes; needs root."""
    place = tempfile.mkdtemp(prefix="pybsp-small-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={bytes_}", "tmpfs", place], check=True)
    try:
        yield Path(place)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


class DamageCase:
    """The jobs of one case: a folder for checkpoints, and results.

    Attributes:
        near: a folder of each host's own, which the jobs have where `with_near` is set.
    """

    def __init__(self, seed: int, place: Path, results: Path) -> None:
        self.seed, self.folder, self.result = seed, place / "checkpoints", results / f"{seed}.json"
        self.printed, self.mark = "", f"{os.getpid()}-{seed}"
        self.near, self.with_near = place / "near", False

    def start(self, supersteps: int = SUPERSTEPS, pause: int = 10, restarts: int = 0) -> subprocess.Popen[str]:
        folders = f"{self.near}:{self.folder}" if self.with_near else str(self.folder)
        options = ["-n", str(P), "--checkpoint", folders, "--every", "2"]
        if restarts:
            options += ["--restarts", str(restarts)]
        arguments = [str(self.seed), str(supersteps), str(pause), str(self.result)]
        return subprocess.Popen(
            [sys.executable, "-m", "pybsp", "run", *options, str(PROGRAM), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, MARK: self.mark},
        )

    def finish(self, job: subprocess.Popen[str]) -> int:
        self.printed += job.communicate(timeout=300)[0]
        return job.returncode

    def run(self, supersteps: int = SUPERSTEPS) -> int:
        return self.finish(self.start(supersteps))

    def right(self) -> bool:
        """Whether the result is that of the whole program."""
        return self.result.exists() and json.loads(self.result.read_text()) == expected(self.seed, P, SUPERSTEPS)

    def newest(self) -> Path:
        return max(self.folder.glob("run-0/*/manifest.json"), key=lambda one: int(one.parent.name)).parent


def full(case: DamageCase, draws: random.Random) -> bool:
    """The disk fills up as the job runs: checkpoints are lost, and the result is right."""
    ballast = case.folder.parent / "ballast"
    job = case.start()
    while job.poll() is None and not list(case.folder.glob("run-0/*/manifest.json")):
        time.sleep(0.02)
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(bytes(1 << 14))
            file.flush()
    return case.finish(job) == 0 and case.right() and "this checkpoint is lost" in case.printed


def gone(case: DamageCase, draws: random.Random) -> bool:
    """The folder vanishes as the job runs: it goes on, with new ones."""
    job = case.start()
    while job.poll() is None and not list(case.folder.glob("run-0/*/manifest.json")):
        time.sleep(0.02)
    shutil.rmtree(case.folder, ignore_errors=True)
    return case.finish(job) == 0 and case.right()


def unwritable(case: DamageCase, draws: random.Random) -> bool:
    """The folder is none: an error that names it, before the program."""
    case.folder.write_text("a file")
    return case.run() != 0 and str(case.folder) in case.printed and not case.result.exists()


def killed(case: DamageCase, draws: random.Random) -> bool:
    """Ranks are killed while parts of a checkpoint are there and its manifest is not."""
    for _ in range(5):
        job = case.start(pause=2)
        while job.poll() is None:
            places = [one for one in case.folder.glob("run-0/*") if not (one / "manifest.json").exists()]
            if places and draws.random() < 0.3:
                for pid in processes(case.mark, ranks=True):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                break
        case.finish(job)
    return case.run() == 0 and case.right()


def flip(path: Path, draws: random.Random) -> None:
    """Let one bit of a file be another."""
    content = bytearray(path.read_bytes())
    bit = draws.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def flipped(case: DamageCase, draws: random.Random) -> bool:
    """One bit of the newest checkpoint is another: it is noticed, or lies in none of what is read."""
    case.run(SUPERSTEPS // 2)
    case.result.unlink()
    path = draws.choice(sorted(case.newest().iterdir()))
    flip(path, draws)
    noticed = case.run() == 0 and case.right()
    return noticed and (str(path) in case.printed or f"goes on from {path.parent}" in case.printed)


def missing(case: DamageCase, draws: random.Random) -> bool:
    """A part of the newest checkpoint is missing: the one before is used, and the file is named."""
    case.run(SUPERSTEPS // 2)
    case.result.unlink()
    path = case.newest() / f"{draws.randrange(P)}.part"
    path.unlink()
    return case.run() == 0 and case.right() and str(path) in case.printed


def cut(case: DamageCase, draws: random.Random) -> bool:
    """A part of every checkpoint is cut off: an error that names it."""
    case.run(SUPERSTEPS // 2)
    case.result.unlink()
    for path in case.folder.glob("run-0/*/1.part"):
        os.truncate(path, draws.randrange(path.stat().st_size))
    return case.run() != 0 and "1.part: expected" in case.printed and not case.result.exists()


def near_stale(case: DamageCase, draws: random.Random) -> bool:
    """The near folder has another job's checkpoints, of the same program: they are not used."""
    case.with_near = True
    seed, folder = case.seed, case.folder
    case.seed, case.folder = seed + 1000, folder.with_name("another")
    case.run()
    case.seed, case.folder = seed, folder
    if draws.random() < 0.5:  # after some of its own in the shared folder
        case.with_near = False
        case.run(SUPERSTEPS // 2)
        case.with_near = True
    case.result.unlink(missing_ok=True)
    return case.run() == 0 and case.right()


def near_flipped(case: DamageCase, draws: random.Random) -> bool:
    """One bit of the near folder's newest checkpoint is another: the shared one has it whole."""
    case.with_near = True
    case.run(SUPERSTEPS // 2)
    case.result.unlink()
    newest = case.newest()
    path = draws.choice(sorted((case.near / "run-0" / newest.name).iterdir()))
    flip(path, draws)
    return case.run() == 0 and case.right() and f"goes on from {newest}" in case.printed


def near_gone(case: DamageCase, draws: random.Random) -> bool:
    """The near folder is gone, as on a new host: the shared one has all."""
    case.with_near = True
    case.run(SUPERSTEPS // 2)
    case.result.unlink()
    shutil.rmtree(case.near)
    return case.run() == 0 and case.right() and f"goes on from {case.newest().parent}" in case.printed


CASES: list[Callable[[DamageCase, random.Random], bool]] = [
    full,
    gone,
    unwritable,
    killed,
    flipped,
    missing,
    cut,
    near_stale,
    near_flipped,
    near_gone,
]


def rounds_of(texts: list[str], rounds: int) -> dict[str, int]:
    """How many rounds of which case: of "name" so many as of others, of "name=7" seven."""
    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in {one.__name__ for one in CASES} or not (number or "1").isdecimal():
            raise SystemExit(f"--cases: expected NAME or NAME=ROUNDS, of {[one.__name__ for one in CASES]}, got {text}")
        found[name] = int(number or rounds)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each case (default: 3)")
    parser.add_argument(
        "--cases", nargs="+", default=[one.__name__ for one in CASES], help="which, and NAME=ROUNDS of one how often"
    )
    options = parser.parse_args()
    status, all_rounds = 0, rounds_of(options.cases, options.rounds)
    for case in CASES:
        right, rounds = 0, all_rounds.get(case.__name__, 0)
        for seed in range(1, rounds + 1):
            with small_disk(1 << 21) as place, tempfile.TemporaryDirectory() as results:
                jobs = DamageCase(seed, place, Path(results))
                ok = case(jobs, random.Random(f"{case.__name__} {seed}"))
                right += ok
                if not ok:
                    status = 1
                    print(f"{case.__name__}, seed {seed}: {jobs.printed[-2000:]}")
        if rounds:
            print(f"| {case.__name__} | {(case.__doc__ or '').strip()} | {right} of {rounds} |", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
