"""python -m tests.steady: run the tests several times beside busy loops; which were ever red, and how long each took.

What failed, and why, goes to stderr. What comes after `--` goes to pytest: `python -m tests.steady --runs 3 --busy 2
-- --all`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"  # it ends when this process is gone


@contextmanager
def beside_busy_loops(number: int) -> Iterator[None]:
    """So many processes that compute for nothing."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP, str(os.getpid())]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def red(arguments: list[str]) -> set[str]:
    """The tests that fail in one run of pytest, or what else made it end badly."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--color=no", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    starts = ("FAILED ", "ERROR ")
    found = {line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(starts)}
    if done.returncode:
        sys.stderr.write(done.stdout[done.stdout.find("\n=") + 1 :])  # failures and summary, without a dot a test
    return found or ({f"pytest ended with status {done.returncode}"} if done.returncode else set())


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 where a test was ever red, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.steady", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of the tests (default: %(default)s)")
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="busy loops (default: one for each core)")
    parser.add_argument("pytest", nargs="*", help="for pytest, after --: files, or --all")
    options = parser.parse_args(arguments)
    failed: Counter[str] = Counter()
    with beside_busy_loops(options.busy):
        for number in range(1, options.runs + 1):
            begin = time.monotonic()
            found = red(options.pytest)
            failed.update(found)
            print(f"run {number}: {time.monotonic() - begin:.0f} s, {len(found)} red", flush=True)
    for name, count in failed.most_common():
        print(f"{count} of {options.runs}: {name}")
    return min(len(failed), 1)


if __name__ == "__main__":
    sys.exit(main())
