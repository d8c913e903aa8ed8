"""What ranks cost that a notebook, or pytest, starts: the first run, further ones, large arguments, tests.

    python -m pybsp.benchmarks.studies.started_ranks [--ranks 4] [--rounds 20] [--only first warm array tests]

- first: from before `import pybsp` in a new process to the result of `start_ranks`, and until the ranks have ended; and
  to the first result of `ranks`, which a notebook sees.
- warm: a call on ranks that are there, of a program with one superstep of small messages.
- array: a call with an array of 100 MB, against a copy of it in this process, by turns; the program reads one number.
  The first such call makes the memory that it goes through.
- tests: pytest on 200 small tests, on virtual processors and on ranks, by turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pybsp

from .frame import Study, spread, table, timed

PARTS = ("first", "warm", "array", "tests")
MS = 1e-3

FIRST = """
import time
began = time.perf_counter()
import pybsp
def main(bsp):
    bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
    bsp.sync()
    return bsp.inbox[0].payload
ranks = pybsp.ranks({p})
assert sorted(ranks.run(main).results) == list(range({p}))
print(time.perf_counter() - began)
ranks.close()
print(time.perf_counter() - began)
"""

TESTS = """
import pytest

@pytest.mark.bsp(p={p})
@pytest.mark.parametrize("k", range({count}))
def test_small(bsp, k):
    bsp.send((bsp.pid + 1) % bsp.p, k * bsp.pid)
    bsp.sync()
    assert bsp.inbox[0].payload == k * ((bsp.pid - 1) % bsp.p)
"""


def ring(bsp: pybsp.BSP) -> int:
    bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
    bsp.sync()
    return int(bsp.inbox[0].payload)


def head(bsp: pybsp.BSP, x: NDArray[np.float64]) -> float:
    return float(x[0])


def first(p: int, rounds: int) -> dict[str, list[float]]:
    """Seconds to the first result of new ranks, and until they have ended."""
    found: list[list[float]] = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", FIRST.format(p=p)], capture_output=True, text=True, check=True)
        found.append([float(line) for line in done.stdout.split()])
    return {"first result": [one[0] for one in found], "with the end of the ranks": [one[1] for one in found]}


def warm(ranks: pybsp.Ranks, rounds: int) -> dict[str, list[float]]:
    ranks.run(ring)
    return {"warm call": [timed(lambda: ranks.run(ring))[1] for _ in range(rounds)]}


def array(ranks: pybsp.Ranks, rounds: int) -> dict[str, list[float]]:
    x = np.random.default_rng(1).random(12_500_000)
    ranks.run(ring)
    found: dict[str, list[float]] = {"first call with 100 MB": [timed(lambda: ranks.run(head, x))[1]]}
    pairs = [(timed(x.copy)[1], timed(lambda: ranks.run(head, x))[1]) for _ in range(rounds)]
    found["copy of 100 MB"], found["call with 100 MB"] = map(list, zip(*pairs, strict=True))
    return found


def tests(p: int, count: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"tests on virtual processors": [], "tests on ranks": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_small.py"
        path.write_text(TESTS.format(p=p, count=count))
        plain = [sys.executable, "-m", "pytest", "-q", "-p", "pybsp.pytest_plugin", "-p", "no:cacheprovider", str(path)]
        for _, (kind, command) in product(range(rounds), zip(found, (plain, [*plain, "--bsp-ranks"]), strict=True)):
            found[kind].append(timed(partial(subprocess.run, command, capture_output=True, check=True))[1])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("--ranks", type=int, default=4)
    study.add_argument("--rounds", type=int, default=20, help="of calls; a fifth of it of what takes a second")
    study.add_argument("--tests", type=int, default=200)
    study.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = study.begin(arguments)
    p, rounds, few = options.ranks, options.rounds, max(options.rounds // 5, 1)
    found: dict[str, list[float]] = {}
    if "first" in options.only:
        found |= first(p, few)
    if {"warm", "array"} & {*options.only}:
        with pybsp.ranks(p) as ranks:
            if "warm" in options.only:
                found |= warm(ranks, 5 * rounds)
            if "array" in options.only:
                found |= array(ranks, rounds)
    if "tests" in options.only:
        found |= tests(p, options.tests, few)
    title = f"{p} ranks on this computer; {options.tests} tests; median (5 to 95 %)"
    rows = [(name, spread(seconds, MS), len(seconds)) for name, seconds in found.items()]
    study.tell("seconds", found, table(title, "what | ms | times", rows))
    if "array" in options.only:
        ratio = np.median(found["call with 100 MB"]) / np.median(found["copy of 100 MB"])
        study.tell("ratio", ratio, f"a call with 100 MB takes {ratio:.2f} times a copy")
    study.end()


if __name__ == "__main__":
    main()
