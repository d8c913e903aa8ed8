"""How well exchanges are predicted: predicted over measured, by label, of programs that ran on ranks.

    python -m pybsp.benchmarks.studies.predictions --machine machine.json examples/*.py benchmarks/programs/alone.py

Each program runs some times, in turns with the others, since machines change their state within minutes; a label's
figure is the median over its runs of the sum over its supersteps. Bars (p = 2, a `--quick` calibration): the median of
the errors at most 10 %, 90 % of the labels within 25 %.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pybsp.ledger import read

from .frame import Study

BARS = (0.10, 0.25, 0.90)  # the median error; an error, and the part of the labels that are to be within it


class Figure(NamedTuple):
    """Of one label of a program: medians over runs of predicted over measured, and of seconds."""

    program: str
    label: str
    supersteps: int
    ratio: float
    measured: float

    @property
    def error(self) -> float:
        """Relative to what was measured."""
        return abs(self.ratio - 1)


def figures(ledgers: dict[str, list[Path]]) -> list[Figure]:
    """Those of all labels, from each program's ledgers."""
    found = []
    for program, paths in ledgers.items():
        by_label: dict[str, list[tuple[int, float, float]]] = {}
        for path in paths:
            for run in read(path)["runs"]:
                for total in run["supersteps"].totals():
                    by_label.setdefault(total.label, []).append(
                        (total.supersteps, total.exchange_predicted / total.exchange, total.exchange)
                    )
        for label, of in by_label.items():
            found.append(Figure(program, label, of[0][0], median(r for _, r, _ in of), median(s for *_, s in of)))
    return found


def verdict(found: Sequence[Figure]) -> str:
    """The bars, and whether they are held."""
    errors = [figure.error for figure in found]
    middle, within = median(errors), sum(error <= BARS[1] for error in errors) / len(errors)
    held = "held" if middle <= BARS[0] and within >= BARS[2] else "not held"
    return (
        f"{len(found)} labels: median error {middle:.0%} (bar {BARS[0]:.0%}), {within:.0%} of labels within "
        f"{BARS[1]:.0%} (bar {BARS[2]:.0%}): {held}"
    )


def measure(programs: Sequence[str], n: int, rounds: int, environment: dict[str, str], folder: str) -> list[Figure]:
    """Run all programs, in turns."""
    ledgers: dict[str, list[Path]] = {}
    for number in range(rounds):
        for program in programs:
            path = Path(folder) / f"{len(ledgers)}-{number}-{Path(program).stem}.json"
            command = [sys.executable, "-m", "pybsp", "run", "-n", str(n), "--ledger", str(path), *program.split()]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
            ledgers.setdefault(program, []).append(path)
    return figures(ledgers)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the programs, and print the table."""
    study = Study(__doc__, keep="--json")
    study.add_argument("-n", type=int, default=2, help="ranks")
    study.add_argument("--rounds", type=int, default=5, help="runs of each program")
    study.add_argument("--machine", help="the machine file to predict by; as runs find it where none is given")
    study.add_argument("programs", nargs="+", help="programs, each with its arguments in one word")
    options = study.begin(arguments)
    environment = {"PYBSP_MACHINE": options.machine} if options.machine else {}
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.programs, options.n, options.rounds, environment, folder)
    study.rows(
        "predictions",
        "exchanges, by label",
        "program | label | supersteps | exchange, ms [.3f] | predicted over measured [.2f]",
        found,
        lambda one: (Path(one.program.split()[0]).stem, one.label, one.supersteps, one.measured * 1e3, one.ratio),
    )
    study.show(verdict(found))
    study.end()


if __name__ == "__main__":
    main()
