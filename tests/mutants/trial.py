"""A mutant against the tests that reach it, in a copy of the repository: those of the fast tier, and the rest."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pybsp.processes.mpiexec import launcher

from .reaching import Map
from .statements import ROOT, Mutant

FAST, WHOLE, SURVIVED = "fast", "whole", "survived"
LIMIT = {FAST: 600, WHOLE: 1200}  # seconds for all that are run of it: what is not caught by then has survived
EACH = 60  # seconds for one test; a test that hangs fails
RANKS = re.compile(r"(\d+) ranks: (.*)")


class Outcome(NamedTuple):
    """What became of a mutant."""

    caught: str  # FAST, WHOLE, SURVIVED
    by: str  # the test that failed first
    reached: int  # tests of the fast tier that reach it
    seconds: float


class Copy:
    """The repository as it is here, in a folder of its own.

    Args:
        folder: where.
        fast: the names of the fast tier's cases.
    """

    def __init__(self, folder: Path, fast: frozenset[str]) -> None:
        self.folder, self._fast = folder, fast
        self._fails_anyway: set[str] = set()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        for built in (ROOT / "pybsp").glob("*.so"):  # with the compiled core other lines are reached: those of the map
            shutil.copy2(built, folder / "pybsp")

    def tried(self, mutant: Mutant, reaching: Map, whole: bool) -> Outcome:
        """Run what reaches a mutant until something fails.

        Args:
            whole: whether to go on with the whole matrix where the fast tier does not catch it.
        """
        begin = time.monotonic()
        tests = in_order(reaching.tests(mutant.file, mutant.line), mutant.file)
        quick = [test for test in tests if test in self._fast or RANKS.fullmatch(test)]
        caught, by = FAST, self._caught(mutant, quick, FAST)
        if not by and whole:
            caught, by = WHOLE, self._caught(mutant, functions(tests), WHOLE)
        return Outcome(caught if by else SURVIVED, by, len(quick), round(time.monotonic() - begin, 1))

    def _caught(self, mutant: Mutant, tests: list[str], tier: str) -> str:
        """The first test that fails, and passes without the mutant; or the empty text."""
        path, until = self.folder / mutant.file, time.monotonic() + LIMIT[tier]
        text, known = path.read_text(), set(functions(tests))
        while True:
            try:
                path.write_text(mutant.applied(text))
                by = self._fails([test for test in tests if test not in self._fails_anyway], tier, until)
            finally:
                path.write_text(text)
            # Where nothing can be collected, no test has a name.
            alone = [by] if by.partition("[")[0] in known else tests[:1]
            if not by or not self._fails(alone, tier, time.monotonic() + LIMIT[tier]):
                return by
            print(f"fails without a mutant too: {alone[0]}", flush=True)
            self._fails_anyway.update((alone[0], alone[0].partition("[")[0]))

    def _fails(self, tests: list[str], tier: str, until: float) -> str:
        """The first test that fails, or the empty text: here, and then on ranks, of few processors first."""
        groups: defaultdict[int, list[str]] = defaultdict(list)
        for test in tests:
            on_ranks = RANKS.fullmatch(test)
            groups[int(on_ranks[1]) if on_ranks else 0].append(on_ranks[2] if on_ranks else test)
        for p, names in sorted(groups.items(), key=lambda group: (group[0] > 0, abs(group[0] - 3))):
            by = self._run(p, names, until - time.monotonic(), ["--all"] if tier == WHOLE else [])
            if by:
                return by
        return ""

    def _run(self, p: int, tests: list[str], limit: float, options: list[str]) -> str:
        shutil.rmtree(self.folder / ".trial", ignore_errors=True)
        (self.folder / ".trial").mkdir()
        (self.folder / ".trial" / "tests").write_text("\n".join(tests))
        arguments = [*options, "@.trial/tests"]
        if p:
            command = [*launcher(p), sys.executable, "tests/one_rank.py", ".trial", *arguments]
        else:
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
            command += [f"--timeout={EACH}", *arguments]
        # On a path pytest finds the package of an editable install, and warns of it where it is imported already, as on
        # pretended nodes.
        quiet = "-W ignore::pytest.PytestAssertRewriteWarning"
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTEST_ADDOPTS": quiet}
        job = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
        )  # fmt: skip
        try:
            output, _ = job.communicate(timeout=max(limit, 1))
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGTERM)  # as a launcher ends its ranks then
            with suppress(subprocess.TimeoutExpired):
                job.communicate(timeout=20)
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
            return ""
        for log in (self.folder / ".trial").glob("rank-*.txt"):
            output += log.read_text(errors="replace")
        failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", output, re.MULTILINE)
        statuses = [path.read_text() for path in (self.folder / ".trial").glob("exit-*")]
        well = job.returncode == 0 and (not p or statuses == ["0"] * p)
        if well:
            return ""
        return (f"{p} ranks: " if p else "") + (failed[1] if failed else output.strip().split("\n")[-1][:200])


def fast_tier() -> frozenset[str]:
    """The names of its cases, but for those on ranks."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(filter(None, found.stdout.split("\n")))


def functions(tests: Iterable[str]) -> list[str]:
    """All cases of these tests."""
    return list(dict.fromkeys(test.partition("[")[0] for test in tests))


def in_order(tests: Iterable[str], file: str) -> list[str]:
    """Tests of the same area first: whose files are named as the code's, or lie in a folder so named."""
    words = set(re.findall(r"[a-z]{3,}", file)) - {"pybsp", "benchmarks"}

    def far(test: str) -> tuple[int, str]:
        return -len(words & set(re.findall(r"[a-z]{3,}", test.partition("::")[0]))), test

    return sorted(tests, key=far)
