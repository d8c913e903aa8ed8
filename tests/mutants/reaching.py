"""Which tests reach a line: a map made by coverage.py, of one run, and kept in a file."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from coverage.numbits import numbits_to_nums

from ..tiers import ON_RANKS
from .contexts import VARIABLE
from .statements import FOLDERS, ROOT, files

CONFIGURATION = f"""\
[run]
data_file = {{folder}}/coverage
parallel = true
context = ${{{{{VARIABLE}}}}}
concurrency = greenlet, thread
patch = _exit, execv, fork
sigterm = true
disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse
source = {{sources}}
"""

OURS = re.compile(r"(\d+ ranks: )?tests/")  # and not those of a session that a test starts
IMPORT = ""  # the test during which modules are imported that all tests need
# Tests that run tests: what they reach is known of each of those.
STARTERS = ("tests/test_under_mpiexec.py", "tests/test_aggregated.py::test_spmd_tests_pass")


class Map:
    """Which tests reach which line.

    Args:
        path: the file in which it is kept.
    """

    def __init__(self, path: Path) -> None:
        self._reached: dict[str, defaultdict[str, set[int]]] = {file: defaultdict(set) for file in files()}
        for part in json.loads(path.read_text()).values():
            for file, tests in part.items():
                for test, lines in tests.items():
                    if test == IMPORT or OURS.match(test):
                        self._reached[file][test].update(lines)

    def tests(self, file: str, line: int) -> list[str]:
        """Those that reach a line; where it runs on import, or where no process lived to tell of it, the file."""
        found = [test for test, lines in self._reached[file].items() if line in lines]
        return list(filter(None, self._reached[file] if not found or IMPORT in found else found))


def parts() -> list[str]:
    """What is run at once, for a map that is made in several goes."""
    paths = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("**/test_*.py"))
    ranks = f"{STARTERS[0]}::test_spmd_tests_pass_on_mpi_ranks[{ON_RANKS}]"
    return [*(path for path in paths if path != STARTERS[0]), ranks]


def make(path: Path, workers: int) -> None:
    """Run tests with coverage and keep who reached what; what is in the file already is left as it is."""
    found = json.loads(path.read_text()) if path.exists() else {}
    writing = Lock()

    def one(part: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run(part, Path(folder))
            reached = gathered(Path(folder))
        with writing:
            found[part] = reached
            path.write_text(json.dumps(found))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, [part for part in parts() if part not in found]))


def run(part: str, folder: Path) -> None:
    """Run tests, which leave what they reach in a folder."""
    configuration = folder / "coveragerc"
    sources = ", ".join(str(ROOT / name) for name in FOLDERS)
    configuration.write_text(CONFIGURATION.format(folder=folder, sources=sources))
    environment = {
        **os.environ,
        "COVERAGE_PROCESS_START": str(configuration),  # of every Python from here on
        "PYTEST_PLUGINS": "tests.mutants.contexts",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        VARIABLE: "",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", part]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)


def gathered(folder: Path) -> dict[str, dict[str, list[int]]]:
    """By file and test the lines reached, from all data files of a folder; those that were cut short are left out."""
    known, reached = set(files()), defaultdict[str, dict[str, set[int]]](lambda: defaultdict(set))
    for data in sorted(folder.glob("coverage*")):
        if data.suffix.endswith("rc") or data.name == "coveragerc":
            continue
        try:
            rows = list(
                sqlite3.connect(data).execute(
                    "select file.path, context.context, line_bits.numbits from line_bits"
                    " join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
                )
            )
        except sqlite3.DatabaseError:
            continue
        for path, context, bits in rows:
            # Of a process that a test starts: that test's name, a bar, and on ranks the name of the test that runs.
            test = context.removesuffix("|").rpartition("|")[2]
            file = str(Path(path).resolve().relative_to(ROOT))
            if file in known and not test.startswith(STARTERS):
                reached[file][test].update(numbits_to_nums(bits))
    return {file: {test: sorted(lines) for test, lines in tests.items()} for file, tests in reached.items()}
