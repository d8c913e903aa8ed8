"""How well exchanges are predicted: predicted over measured, by label, of programs that ran on ranks.

    python -m pybsp.benchmarks.studies.predictions --machine machine.json
    python -m pybsp.benchmarks.studies.predictions 'program.py ARGUMENTS' ...

Without programs these are all of examples/, examples/textbook/ and benchmarks/programs/. Each program runs some times,
in turns with the others, since machines change their state within minutes; a label's figure is the median over its runs
of the sum over its supersteps. Bars (p = 2, a `--quick` calibration): the median of the errors at most 10 %, 90 % of
the labels within 25 %. Beside them stands what the machine allows: the same figures where half of a program's own runs,
every other one, predict its other runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pybsp import Record
from pybsp.ledger.ledger_file import read

from .frame import Study, run_program

ROOT = Path(__file__).resolve().parents[2]
ALONE = ROOT / "benchmarks" / "programs" / "alone.py"  # those of benchmarks/programs/
BARS = (0.10, 0.25, 0.90)  # the median error; an error, and the part of the labels that are to be within it


class Figure(NamedTuple):
    """Of one label of a program: medians over runs."""

    program: str
    label: str
    supersteps: int
    ratio: float  # predicted over measured
    measured: float  # seconds
    repeated: float | None  # the ratio where every other run predicts the rest; None of a single run

    @property
    def error(self) -> float:
        """Relative to what was measured."""
        return abs(self.ratio - 1)


def every_program() -> list[str]:
    """All of examples/, examples/textbook/ and benchmarks/programs/, without arguments."""
    folders = ROOT / "examples", ROOT / "examples" / "textbook"
    return [str(path) for folder in folders for path in sorted(folder.glob("*.py"))] + [str(ALONE)]


def named(program: str) -> str:
    """A program as tables have it: the name of its file, and its arguments."""
    path, *more = program.split()
    return " ".join([Path(path).stem, *more])


def figures(ledgers: dict[str, list[Path]]) -> list[Figure]:
    """Those of all labels, from each program's ledgers."""
    found = []
    for program, paths in ledgers.items():
        by_label: dict[str, list[Record]] = {}
        for total in (total for path in paths for run in read(path)["runs"] for total in run["supersteps"].totals()):
            by_label.setdefault(total.label, []).append(total)
        for label, of in by_label.items():
            seconds = [total.exchange for total in of]
            ratio = median(total.exchange_predicted / total.exchange for total in of)
            found.append(Figure(program, label, of[0].supersteps, ratio, median(seconds), repeated(seconds)))
    return found


def repeated(seconds: Sequence[float]) -> float | None:
    """How the median of every other run predicts the rest: predicted over measured, the median over these."""
    if len(seconds) == 1:
        return None
    by = median(seconds[::2])
    return median(by / measured for measured in seconds[1::2])


def verdict(what: str, errors: Sequence[float], bars: tuple[float, float, float] = BARS) -> str:
    """The bars, and whether they are held."""
    middle, within = median(errors), sum(error <= bars[1] for error in errors) / len(errors)
    held = "held" if middle <= bars[0] and within >= bars[2] else "not held"
    return (
        f"{len(errors)} {what}: median error {middle:.1%} (bar {bars[0]:.0%}), {within:.0%} within {bars[1]:.0%} "
        f"(bar {bars[2]:.0%}): {held}"
    )


def show(study: Study, found: Sequence[Figure], setting: str, bars: tuple[float, float, float] = BARS) -> None:
    """Print the figures of labels, and whether they are within the bars."""
    study.rows(
        f"labels, {setting}",
        f"{setting}: exchange by label",
        "program | label | supersteps | ms of exchange [.3f] | predicted/measured [.2f] | by its own other runs [.2f]",
        found,
        lambda of: (named(of.program), of.label or "-", of.supersteps, 1e3 * of.measured, of.ratio, of.repeated),
    )
    study.show(verdict("labels", [one.error for one in found], bars))
    own = [abs(one.repeated - 1) for one in found if one.repeated is not None]
    if own:
        study.show(verdict("labels by their own other runs", own, bars))


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("-n", type=int, default=2, help="ranks")
    study.add_argument("--rounds", type=int, default=15, help="runs of each program")
    study.add_argument("--machine", help="the machine file to predict by (default: as runs find it)")
    study.add_argument("programs", nargs="*", help="programs, each with its arguments in one word (default: all)")
    options = study.begin(arguments)
    programs = options.programs or every_program()
    variables = {"PYBSP_MACHINE": options.machine} if options.machine else {}
    ledgers: dict[str, list[Path]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = [(number, program) for number in range(options.rounds) for program in programs]
        for number, program in study.each(cases):
            path = Path(folder, f"{programs.index(program)}-{number}.json")
            run_program(program.split(), options.n, PYBSP_LEDGER=str(path), **variables)
            ledgers.setdefault(program, []).append(path)
        found = figures(ledgers)
    show(study, found, f"{options.n} ranks here")
    study.end()


if __name__ == "__main__":
    os.environ.pop("PYBSP_LEDGER", None)
    main()
