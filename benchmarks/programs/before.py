"""Supersteps of the examples, as they are and as they were.

PageRank and the heat equation before there were layouts and patterns; products of a matrix and vectors before they were
made of collectives.

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
from typing import Any, NamedTuple

import numpy as np

import pybsp
from pybsp.benchmarks.against_mpi.summary import ratio, spread
from pybsp.benchmarks.studies.frame import Study, in_turns, on_ranks

from .cases import lines_of

ROOT = Path(__file__).resolve().parents[2]
LAYOUTS, COLLECTIVES = "d27383f^", "714c221^"  # before the first that made examples with them
LIBRARY = "pybsp_before_{}"  # as which the library of a commit is loaded, beside that of today, by the commit's number


class Compared(NamedTuple):
    """A superstep that is compared: the program, its label, and the commit of the program before."""

    name: str
    label: str
    commit: str


COMPARED = (
    Compared("pagerank", "iterate", LAYOUTS),
    Compared("heat", "step", LAYOUTS),
    Compared("linear_algebra", "matvec", COLLECTIVES),
    Compared("linear_algebra", "dot", COLLECTIVES),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    study = Study(__doc__, keep="--json", quick="few rounds: to see that it works")
    study.prog = "python -m pybsp.benchmarks.programs.before"
    study.add_argument("-n", type=int, default=2, help="processors")
    study.add_argument("--hosts", action="store_true", help="on as many emulated hosts: see --latency and --rate")
    study.add_argument("--rounds", type=int, default=11, help="of each program")
    before = f"{LAYOUTS}, and {COLLECTIVES} for linear_algebra"
    study.add_argument("--commit", help=f"of all examples and the library before (default: {before})")
    study.add_network(latency=1000, rate=200)
    options = study.begin(arguments)
    network = study.network(options.n) if options.hosts else None
    rounds = 2 if options.quick else options.rounds
    compared = [one._replace(commit=options.commit or one.commit) for one in COMPARED]
    commits = list(dict.fromkeys(one.commit for one in compared))
    with tempfile.TemporaryDirectory() as folder:
        for number, commit in enumerate(commits):
            unpack(commit, Path(folder, str(number)), LIBRARY.format(number))
        pairs = []
        for one in compared:
            number = commits.index(one.commit)
            texts = source(one.name, ROOT), source(one.name, Path(folder, str(number)))
            pairs.append(Pair(f"{one.name}, {one.label}", one.label, *texts, number))
        found: list[dict[str, Any]] = on_ranks(measured, pairs, folder, rounds, n=options.n, network=network)
    study.rows(
        "before",
        f"{options.n} processors, medians of supersteps",
        "superstep | now [us] | before [us] | ratio | its interval | lines | before | words | before",
        found,
        shown,
    )
    study.end()
    return 0


class Pair(NamedTuple):
    """Both versions of a program.

    superstep, label: what is compared, for people, and in the ledger.
    text, before: of the programs.
    library: the number of that of the one before.
    """

    superstep: str
    label: str
    text: str
    before: str
    library: int


def unpack(commit: str, folder: Path, library: str) -> None:
    """Put what a commit has into a folder, or exit; its library, whose imports are relative, gets that name."""
    command = ["git", "-C", str(ROOT), "archive", commit]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"before: {' '.join(command)}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        if hasattr(tarfile, "data_filter"):  # 3.10.12, 3.11.4 and later ones want to know
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)
    (folder / "pybsp").rename(folder / library)


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


def measured(asked: Sequence[Sequence[Any]], folder: str, rounds: int) -> list[dict[str, Any]]:
    """Run both versions of each program in turns, on each of the ranks.

    Args:
        asked: as `Pair`.
        folder: what was unpacked, by the numbers of the libraries.
        rounds: of each.
    """
    from mpi4py import MPI

    pairs = [Pair(*one) for one in asked]
    names = {pair.library: LIBRARY.format(pair.library) for pair in pairs}
    sys.path += [str(Path(folder, str(number))) for number in names]
    libraries = {number: importlib.import_module(name) for number, name in names.items()}
    found = []
    with contextlib.ExitStack() as attached:
        bsp = attached.enter_context(pybsp.attach(MPI.COMM_WORLD.Dup()))
        machines = {
            number: attached.enter_context(library.attach(MPI.COMM_WORLD.Dup()))
            for number, library in libraries.items()
        }

        def timed(main: Callable[[Any], Any], bsp: Any, label: str) -> float:
            before = len(bsp.ledger)
            with contextlib.redirect_stdout(io.StringIO()):
                main(bsp)
            records = [record for record in bsp.ledger[before:] if record.label == label]
            words[main] = sum(record.h for record in records)
            return float(np.median([record.measured for record in records]))

        words: dict[Any, int] = {}
        for pair in pairs:
            main = loaded(pair.text).main
            old_main = loaded(pair.before.replace("pybsp", names[pair.library])).main
            now = partial(timed, main, bsp, pair.label)
            before = partial(timed, old_main, machines[pair.library], pair.label)
            samples = in_turns({"now": now, "before": before}, rounds)
            found.append(
                {
                    "superstep": pair.superstep,
                    "seconds": samples["now"],
                    "before seconds": samples["before"],
                    "lines": lines_of(pair.text),
                    "before lines": lines_of(pair.before),
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
