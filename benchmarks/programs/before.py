"""PageRank's and the heat equation's supersteps, as they are and as they were before there were layouts and patterns.

`python -m pybsp.benchmarks.programs.before`, in a checkout with its history: the examples of an earlier commit run with
the library of that commit, in turns with those of today, on the same ranks.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
import types
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pybsp
from pybsp.benchmarks.against_mpi.summary import ratio, spread
from pybsp.benchmarks.studies.frame import Study, in_turns, on_ranks

from .cases import lines_of

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "d27383f^"  # the one before the first that made examples with them
LIBRARY = "pybsp_before"  # as which its library is loaded, beside that of today
PROGRAMS = {"pagerank": "iterate", "heat": "step"}  # and the label of the superstep that is compared


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    study = Study(__doc__, keep="--json", quick="few rounds: to see that it works")
    study.prog = "python -m pybsp.benchmarks.programs.before"
    study.add_argument("-n", type=int, default=2, help="processors")
    study.add_argument("--hosts", action="store_true", help="on as many emulated hosts: see --latency and --rate")
    study.add_argument("--rounds", type=int, default=11, help="of each program")
    study.add_argument("--commit", default=BEFORE, help="of examples and library before (default: %(default)s)")
    study.add_network(latency=1000, rate=200)
    options = study.begin(arguments)
    network = study.network(options.n) if options.hosts else None
    rounds = 2 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        unpack(options.commit, Path(folder))
        texts = {name: (source(name, ROOT), source(name, Path(folder))) for name in PROGRAMS}
        found: list[dict[str, Any]] = on_ranks(measured, texts, folder, rounds, n=options.n, network=network)
    study.rows(
        "before",
        f"{options.n} processors, medians of supersteps",
        "superstep | now [us] | before [us] | ratio | its interval | lines | before | words | before",
        found,
        shown,
    )
    study.end()
    return 0


def unpack(commit: str, folder: Path) -> None:
    """Put what a commit has into a folder; its library is `LIBRARY` there, which works as it imports itself relatively.

    Raises:
        SystemExit: git does not have it.
    """
    command = ["git", "-C", str(ROOT), "archive", commit]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"before: {' '.join(command)}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "pybsp").rename(folder / LIBRARY)


def source(name: str, checkout: Path) -> str:
    """The text of an example."""
    return (checkout / "examples" / f"{name}.py").read_text()


def shown(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    now, before = row["seconds"], row["before seconds"]
    return [
        row["superstep"],
        f"{1e6 * spread(now).median:.0f}",
        f"{1e6 * spread(before).median:.0f}",
        f"{(of := ratio(now, before)).median:.2f}",
        f"{of.low:.2f} to {of.high:.2f}",
        row["lines"],
        row["before lines"],
        row["words"],
        row["before words"],
    ]


def measured(texts: dict[str, tuple[str, str]], folder: str, rounds: int) -> list[dict[str, Any]]:
    """Run both versions of each program in turns, on each of the ranks."""
    from mpi4py import MPI

    sys.path.append(folder)
    library = importlib.import_module(LIBRARY)
    found = []
    with pybsp.attach(MPI.COMM_WORLD.Dup()) as bsp, library.attach(MPI.COMM_WORLD.Dup()) as old:

        def timed(main: Callable[[Any], Any], bsp: Any, label: str) -> float:
            before = len(bsp.ledger)
            with contextlib.redirect_stdout(io.StringIO()):
                main(bsp)
            records = [record for record in bsp.ledger[before:] if record.label == label]
            words[main] = sum(record.h for record in records)
            return float(np.median([record.measured for record in records]))

        words: dict[Any, int] = {}
        for name, (text, old_text) in texts.items():
            main, old_main = loaded(text).main, loaded(old_text.replace("pybsp", LIBRARY)).main
            now, before = partial(timed, main, bsp, PROGRAMS[name]), partial(timed, old_main, old, PROGRAMS[name])
            samples = in_turns({"now": now, "before": before}, rounds)
            found.append(
                {
                    "superstep": f"{name}, {PROGRAMS[name]}",
                    "seconds": samples["now"],
                    "before seconds": samples["before"],
                    "lines": lines_of(text),
                    "before lines": lines_of(old_text),
                    "words": words[main],
                    "before words": words[old_main],
                }
            )
    return found


def loaded(text: str) -> Any:
    """A program's module."""
    module = types.ModuleType("example")
    sys.modules["example"] = module  # where its classes look for what their annotations name
    exec(text, module.__dict__)
    return module


if __name__ == "__main__":
    sys.exit(main())
