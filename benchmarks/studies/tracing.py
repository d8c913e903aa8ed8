"""What `--trace` adds to an empty superstep.

    python -m pybsp.benchmarks.studies.tracing [-n 2]

One job, in which runs with a trace and runs without take turns; each has many empty supersteps, and a run's figure is
its median. Wanted: at most 5 % more with a trace, and nothing without. What is written when a run has ended is no
superstep, and has its own column: it is bounded, however long the run was.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import pybsp

from .frame import Study, in_turns, on_ranks, spread

MOST = 1.05  # times as long, with a trace


def empty(bsp: pybsp.BSP, supersteps: int) -> float:
    """Seconds of an empty superstep, the median of them."""
    clock = time.perf_counter
    at = np.empty(supersteps + 1)
    for number in range(supersteps + 1):
        bsp.sync()
        at[number] = clock()
    return float(np.median(np.diff(at)))


def measured(trace: str, rounds: int, supersteps: int) -> dict[str, list[float]]:
    """Seconds of an empty superstep, and of whole runs, with a trace and without; on each of the ranks."""
    whole: dict[str, list[float]] = {"run with": [], "run without": []}

    def run(how: str) -> float:
        os.environ["PYBSP_TRACE"] = trace if how == "with" else ""
        begin = time.perf_counter()
        found = pybsp.run(empty, supersteps)
        whole[f"run {how}"].append(time.perf_counter() - begin)
        return float(found)

    found = in_turns({how: partial(run, how) for how in ("with", "without")}, rounds)
    return {**found, **{name: seconds[1:] for name, seconds in whole.items()}}


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("-n", type=int, default=2, help="ranks")
    study.add_argument("--rounds", type=int, default=21)
    study.add_argument("--supersteps", type=int, default=20_000, help="of a run")
    options = study.begin(arguments)
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "trace.json")
        found = on_ranks(measured, trace, options.rounds, options.supersteps, n=options.n)
    ratios = np.divide(found["with"], found["without"])
    study.rows(
        "tracing",
        f"an empty superstep, p = {options.n}, {options.rounds} runs of {options.supersteps} each",
        "trace | empty superstep [us] | whole run [ms]",
        [(how, spread(found[how], 1e-6), spread(found[f"run {how}"], 1e-3)) for how in ("without", "with")],
    )
    middle = float(np.median(ratios))
    study.tell("ratio", middle, f"with over without: {spread(ratios)}: {'held' if middle <= MOST else 'not held'}")
    study.end()


if __name__ == "__main__":
    main()
