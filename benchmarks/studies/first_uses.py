"""What a way of data costs when a run first uses it, beside later uses and what is predicted of both.

    python -m pybsp.benchmarks.studies.first_uses --machine machine.json [-n 2] [--runs 20]

Each run is of fresh ranks. In it each way (pybsp/ways.py) is used some times in a row, without computing between, and
once more after a second of computing that leaves nothing in caches. A figure is the median over the runs.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

import pybsp
from pybsp import collectives

from .frame import Study, on_ranks

TIMES = 8  # uses of each way
WORDS = 1000
COMPUTING = 1.0  # seconds, at least


def uses() -> Any:
    """Of each way the exchanges, measured and predicted; on ranks, which return what processor 0 does."""

    def main(bsp: pybsp.BSP) -> Any:
        for name, use in _ways(bsp).items():
            for _ in range(TIMES):
                with bsp.superstep(name):
                    use()
            _compute()
            with bsp.superstep(f"{name}, late"):
                use()
        return [(one.label, one.exchange, one.exchange_predicted) for one in bsp.ledger if one.label]

    return pybsp.run(main)


def _ways(bsp: pybsp.BSP) -> dict[str, Callable[[], object]]:
    """What uses each way once, between two syncs."""
    dest, values = (bsp.pid + 1) % bsp.p, np.zeros(WORDS)
    array, queue = bsp.array(WORDS), bsp.queue(np.float64)
    owners = np.full(WORDS, dest)
    bsp.sync()
    pattern = array.pattern(owners, np.arange(WORDS))
    bsp.sync()
    return {
        "mail": lambda: bsp.send(dest, values),
        "put": lambda: array.put(dest, values),
        "get": lambda: array.get(dest),
        "queue": lambda: queue.send(owners, values),
        "pattern": lambda: pattern.put(values),
        "collective": lambda: collectives.gather_blocks.start(bsp, values),
        "making": lambda: array.pattern(owners, np.arange(WORDS)),
    }


def _compute() -> None:
    """Compute for a while, by much code and much data."""
    with open(ast.__file__, encoding="utf-8") as file:
        text = file.read()
    end = time.perf_counter() + COMPUTING
    while time.perf_counter() < end:
        ast.parse(text)


def summed(runs: Sequence[Sequence[tuple[str, float, float]]]) -> list[tuple[Any, ...]]:
    """Of each way microseconds, measured and predicted: of its first use, later ones, a late one; medians over runs."""
    found: dict[str, list[list[float]]] = {}
    for run in runs:
        of_one: dict[str, list[tuple[float, float]]] = {}
        for label, measured, predicted in run:
            of_one.setdefault(label, []).append((measured, predicted))
        for label, (first, *others) in of_one.items():
            if not label.endswith(", late"):
                later = map(median, zip(*others, strict=True))
                found.setdefault(label, []).append([*first, *later, *of_one[f"{label}, late"][0]])
    return [(way, *(1e6 * median(column) for column in zip(*rows, strict=True))) for way, rows in found.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("-n", type=int, default=2, help="ranks")
    study.add_argument("--runs", type=int, default=20)
    study.add_argument("--machine", help="the machine file to predict by (default: as runs find it)")
    options = study.begin(arguments)
    if options.machine:
        os.environ["PYBSP_MACHINE"] = options.machine
    found = summed([on_ranks(uses, n=options.n) for _ in study.each(range(options.runs))])
    study.rows(
        "uses",
        f"{options.n} ranks, {options.runs} runs: microseconds of exchange",
        "way | first [.0f] | predicted [.0f] | later [.0f] | predicted [.0f] | after computing [.0f] | predicted [.0f]",
        found,
    )
    study.end()


if __name__ == "__main__":
    main()
