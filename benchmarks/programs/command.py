"""Options, ranks, tables.

For each program: the time of ours over that of mpi4py's, round by round; lines of both; and predicted over measured
time of the exchanges of ours, where the machine in force has been measured (`pybsp run --calibrate`, PYBSP_MACHINE).

    python -m pybsp.benchmarks.programs -n 2 --json node.json
    python -m pybsp.benchmarks.programs -n 4 --hosts --json hosts.json
    python -m pybsp.benchmarks.programs --page node.json hosts.json     # both in one table, as the docs have it
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pybsp
from pybsp.benchmarks.against_mpi.summary import ratio, spread
from pybsp.benchmarks.studies.frame import Study, in_turns, on_ranks, read_figures, table
from pybsp.errors import UsageError

PROGRAMS = ("inner product", "sieve", "k-means", "FFT", "sort", "CG", "LU", "search", "components", "matrix product")
KEYS = {"program", "wanted", "seconds", "mpi4py seconds", "lines", "mpi4py lines", "predicted", "exchange"}  # of a row
ROOT = Path(__file__).resolve().parents[2]  # the checkout, which has the examples


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    study = Study(__doc__, keep="--json", quick="small inputs: to see that it works")
    study.prog = "python -m pybsp.benchmarks.programs"
    study.add_argument("-n", type=int, default=2, help="processors")
    study.add_argument("--hosts", action="store_true", help="on as many emulated hosts: see --latency and --rate")
    study.add_argument("--rounds", type=int, default=11, help="of each program")
    study.add_argument("--seconds", type=float, default=20.0, help="that a program's rounds take at most")
    study.add_argument("--only", default="", help="programs whose names have this in them")
    study.add_argument("--page", nargs=2, metavar=("NODE", "HOSTS"), help="a table of two files of --json; no more")
    study.add_network(latency=1000, rate=200)
    options = study.begin(arguments)
    try:
        checked(options)
        files = [programs_of(file) for file in options.page or ()]
    except UsageError as error:
        print(f"{study.prog}: {error}", file=sys.stderr)
        return 2
    if options.page:
        node, hosts = files
        head = "program | two ranks | wanted | predicted | four hosts | its interval | predicted | lines | mpi4py"
        study.show(table("", head, page(node, hosts)))
        return 0
    network = study.network(options.n) if options.hosts else None
    # BLAS and FFT of one processor are compared with those of one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    found: list[dict[str, Any]] = on_ranks(
        measured, options.quick, options.rounds, options.seconds, options.only, n=options.n, network=network
    )
    if not found:
        print(f"{study.prog}: --only: no program's name has {options.only!r} in it", file=sys.stderr)
        return 2
    study.rows(
        "programs",
        f"{options.n} processors, medians of rounds",
        "program | pybsp, ms | mpi4py, ms | ratio | its interval | lines | mpi4py | predicted/measured",
        found,
        shown,
    )
    ours, theirs = lines_together(found)
    study.show(f"lines of all programs: {ours}, mpi4py {theirs}: {ours / theirs:.2f}")
    study.end()
    return 0


def checked(options: argparse.Namespace) -> None:
    """Check options before anything is started; a UsageError where they do not fit."""
    if options.n < 1:
        raise UsageError(f"-n: expected a number of at least 1, got {options.n}")
    for name in ("rounds", "seconds"):
        value = getattr(options, name)
        if not value > 0:
            raise UsageError(f"--{name}: expected a number above 0, got {value:g}")
    # Sizes, behind a comma, are known when the programs are made.
    if not any(options.only in name or options.only.startswith(f"{name},") for name in PROGRAMS):
        raise UsageError(f"--only: expected a part of one of {', '.join(PROGRAMS)}, got {options.only}")


def programs_of(file: str) -> list[dict[str, Any]]:
    """The programs in a file of --json; a UsageError where it cannot be read, or is none."""

    def fits(content: dict[str, Any]) -> bool:
        rows = content.get("programs")
        return isinstance(rows, list) and all(isinstance(row, dict) and set(row) >= KEYS for row in rows)

    rows: list[dict[str, Any]] = read_figures(file, "--page", fits)["programs"]
    return rows


def lines_together(found: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Lines of all programs, ours and mpi4py's: of those that are run on several inputs once."""
    each = {row["program"].partition(",")[0]: row for row in found}
    ours, theirs = (sum(row[key] for row in each.values()) for key in ("lines", "mpi4py lines"))
    return ours, theirs


def predicted(row: dict[str, Any]) -> str:
    """The predicted over the measured time of the exchanges."""
    known = row["predicted"] is not None and row["exchange"]
    return f"{row['predicted'] / row['exchange']:.2f}" if known else "not measured"


def page(node: Sequence[dict[str, Any]], hosts: Sequence[dict[str, Any]]) -> list[list[object]]:
    """The rows of the docs' table, of what was measured on a node and on hosts."""
    on_hosts = {row["program"]: row for row in hosts}
    rows: list[list[object]] = []
    for row in node:
        other = on_hosts.get(row["program"])
        between = None if other is None else ratio(other["seconds"], other["mpi4py seconds"])
        rows.append(
            [
                row["program"],
                f"{ratio(row['seconds'], row['mpi4py seconds']).median:.2f}",
                row["wanted"] and str(row["wanted"]),
                predicted(row),
                between and f"{between.median:.2f}",
                between and f"{between.low:.2f} to {between.high:.2f}",
                other and predicted(other),
                row["lines"],
                row["mpi4py lines"],
            ]
        )
    ours, theirs = lines_together(node)
    return [*rows, ["all", None, None, None, None, None, None, ours, theirs]]


def shown(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    return [
        row["program"],
        f"{1e3 * spread(row['seconds']).median:.3g}",
        f"{1e3 * spread(row['mpi4py seconds']).median:.3g}",
        f"{(of := ratio(row['seconds'], row['mpi4py seconds'])).median:.2f}",
        f"{of.low:.2f} to {of.high:.2f}",
        row["lines"],
        row["mpi4py lines"],
        predicted(row),
    ]


def measured(quick: bool, rounds: int, seconds: float, only: str) -> list[dict[str, Any]]:
    """Run all programs in turns, on each of the ranks; a RuntimeError where results of two differ."""
    sys.path.insert(0, str(ROOT))
    from mpi4py import MPI

    from .cases import cases, lines

    comm = MPI.COMM_WORLD.Dup()
    found = []

    def timed(run: Callable[[], Any]) -> float:
        comm.Barrier()
        begin = time.perf_counter()
        run()
        return float(comm.allreduce(time.perf_counter() - begin, MPI.MAX))

    with pybsp.attach(comm) as bsp:
        for case in cases(bsp, comm, quick):
            if only not in case.name:
                continue
            check(comm, case)
            once = timed(case.ours) + timed(case.theirs)
            count = max(3, min(rounds, int(seconds / once)))
            before = len(bsp.ledger)
            samples = in_turns({"ours": partial(timed, case.ours), "theirs": partial(timed, case.theirs)}, count)
            records = bsp.ledger[before:]
            calibrated = isinstance(bsp.machine, pybsp.BSPMachine) and bsp.machine.calibrated
            found.append(
                {
                    "program": case.name,
                    "wanted": case.wanted,
                    "seconds": samples["ours"],
                    "mpi4py seconds": samples["theirs"],
                    "lines": lines(case.our_source),
                    "mpi4py lines": lines(case.their_source),
                    "predicted": sum(record.exchange_predicted for record in records) if calibrated else None,
                    "exchange": sum(record.exchange for record in records),
                }
            )
    return found


def check(comm: Any, case: Any) -> None:
    """Both programs have the same result, or it is a RuntimeError."""
    ours, theirs = np.asarray(case.ours()), np.asarray(case.theirs())
    if not case.placed:  # the same order, cut anywhere
        ours, theirs = (np.concatenate(comm.allgather(part)) for part in (ours, theirs))
    same = np.array_equal(ours, theirs) if case.equal else np.allclose(ours, theirs)
    if not all(comm.allgather(same)):
        raise RuntimeError(f"{case.name}: the programs' results differ")
