"""What the interval between checkpoints is worth where failures come: expected times, and the mean of simulated ones.

    python -m pybsp.benchmarks.reliability.intervals

A program of ten hours, on virtual processors that fail once an hour; prints the table of docs/howto/checkpoints.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import pybsp

MINUTES = 600  # of computing, one a superstep
SEEDS = 10
MACHINE = pybsp.BSPMachine(p=1, g=1e-9, l=1e-9, r=1e9)
INTERVALS = ("2min", "5min", "mtbf=1h", "30min", "60min")
FORMAT = "| `{}` | {:.1f} h | {:.1f} +- {:.1f} h | {:.0f} |"


def main(bsp: pybsp.BSP) -> None:
    for minute in range(bsp.restore(0), MINUTES):
        bsp.work(60 * MACHINE.r)
        bsp.sync()
        bsp.checkpoint(minute + 1)


def row(every: str) -> str:
    """A row of the table: the interval, the expected time, the mean with its standard error, failures in the mean."""
    runs = [
        pybsp.simulate(
            main,
            machine=MACHINE,
            failures=pybsp.Failures(mtbf=3600, checkpoint=60, restart=120, seed=seed),
            every=every,
        )
        for seed in range(SEEDS)
    ]
    hours = np.array([run.time for run in runs]) / 3600
    error = hours.std(ddof=1) / np.sqrt(SEEDS)
    failed = np.mean([run.failures for run in runs])
    return FORMAT.format(every, runs[0].expected / 3600, hours.mean(), error, failed)


def table(intervals: Sequence[str] = INTERVALS) -> str:
    """The table, as Markdown."""
    head = f"| `every` | expected | mean of {SEEDS} seeds | failures |\n|---|---|---|---|\n"
    return head + "\n".join(map(row, intervals))


if __name__ == "__main__":
    print(table())
