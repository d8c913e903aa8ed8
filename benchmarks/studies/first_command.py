"""The README's first command on a machine that nobody has measured: exchange predicted over measured.

    python -m pybsp.benchmarks.studies.first_command [--runs 10]

Each run has a user's cache of its own, which is empty, so that `pybsp run --calibrate` measures the machine; as many
ranks as cores run PageRank, and `pybsp report` prints the ratio. Wanted: within a factor of 1.5, no word of a nominal
machine, at most 10 s of measuring.

Beside it stands what the labels of several supersteps computed, over the median of the runs: where that is 2, something
else has slowed a core down for as long, which no figure of the machine can know.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pybsp.ledger.ledger_file import read

from .frame import Study

FACTOR, SECONDS = 1.5, 10.0  # wanted
ROOT = Path(__file__).resolve().parents[2]
MEASURED = re.compile(r"g = (\S+) s/word, l = (\S+) s(?:, (\d+)% off)?")


class First(NamedTuple):
    """A first run."""

    ratio: float  # predicted over measured
    labels: dict[str, float]  # the same by label
    computing: float  # seconds of it in labels of several supersteps
    g: float
    l: float  # noqa: E741
    held_out: str
    measuring: float  # seconds more than the next run, which finds the machine file
    nominal: bool

    @property
    def within(self) -> bool:
        """Whether it is as wanted."""
        return 1 / FACTOR <= self.ratio <= FACTOR and not self.nominal


def first(program: str) -> First:
    """Run the command with an empty cache, and again with what that has left."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        ledger = Path(folder, "ledger.json")
        run = [sys.executable, "-m", "pybsp", "run", "--calibrate", "--ledger", str(ledger), program]
        said, seconds = [], []
        for number in range(2):
            begin = time.perf_counter()
            done = subprocess.run(run, check=True, capture_output=True, text=True, env=environment)
            seconds.append(time.perf_counter() - begin)
            said.append(done.stderr + done.stdout)
            if number == 0:
                report = [sys.executable, "-m", "pybsp", "report", str(ledger)]
                shown = subprocess.run(report, check=True, capture_output=True, text=True, env=environment)
                said[0] += shown.stdout + shown.stderr
                (found,) = read(ledger)["runs"]
        steps = found["supersteps"]
        match = MEASURED.search(said[0])
        g, latency, off = match.groups("-") if match else ("nan", "nan", "-")
        return First(
            steps.total.exchange_predicted / steps.total.exchange,
            {row.label: row.exchange_predicted / row.exchange for row in steps.totals() if row.exchange > 0},
            sum(row.seconds for row in steps.totals() if row.supersteps > 1),
            float(g),
            float(latency),
            off,
            seconds[0] - seconds[1],
            "nominal" in said[0],
        )


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("--runs", type=int, default=10)
    study.add_argument("--program", default=str(ROOT / "examples" / "pagerank.py"))
    options = study.begin(arguments)
    found = [first(options.program) for _ in study.each(range(options.runs))]
    labels = list(found[0].labels)
    usual = median(run.computing for run in found) or 1.0
    study.rows(
        "first command",
        "exchange predicted over measured, each run with an empty cache",
        " | ".join(["run", "all [.2f]", *(f"{label or '-'} [.2f]" for label in labels)])
        + " | computing [.2f] | g [.3g] | l [.3g] | off held-out | measuring [.1f] | within",
        [
            (
                str(number),
                run.ratio,
                *(run.labels.get(label, float("nan")) for label in labels),
                run.computing / usual,
                *(run.g, run.l, f"{run.held_out} %", run.measuring, "yes" if run.within else "no"),
            )
            for number, run in enumerate(found, 1)
        ],
    )
    good = sum(run.within for run in found)
    longest = max(run.measuring for run in found)
    study.show(
        f"{good} of {len(found)} within {FACTOR}; measuring took at most {longest:.1f} s "
        f"({'held' if longest <= SECONDS else 'not held'})"
    )
    study.end()


if __name__ == "__main__":
    main()
