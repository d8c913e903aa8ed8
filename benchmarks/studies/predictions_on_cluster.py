"""Predictions on emulated clusters: of exchanges by label, and of whole programs by `pybsp predict` on this machine.

    python -m pybsp.benchmarks.studies.predictions_on_cluster --hosts 4 --latencies 500 2000 --rates 50 200
    python -m pybsp.benchmarks.studies.predictions_on_cluster --hosts 2 --ranks 2          # two ranks of each host
    python -m pybsp.benchmarks.studies.predictions_on_cluster --hosts 2 --programs 'program.py ARGUMENTS' ...

In each round the cluster is calibrated (`--quick`), and then each program runs on it once, with the machine file of
that round, since machines change their state within minutes. Figures are medians over the rounds. A whole program is
predicted where nothing of the cluster is but that file; measured is what the cluster's ledger has in all.

Bars: the median error of labels at most 10 %, 90 % of them within 25 % (15 % and 30 % for several ranks of a host); of
whole programs 10 %, and all within 25 %. Ranks of all hosts share this machine's cores: what computes long is to be
measured with no more ranks than there are cores.
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

from pybsp.ledger.ledger_file import read

from .frame import EmulatedNetwork, Study, run_program
from .predictions import ALONE, BARS, ROOT, Figure, figures, named, show, verdict

EXAMPLES = ROOT / "examples"
PROGRAMS = (  # all of `predictions.every_program`, of sizes that several hosts on two cores take
    "heat.py --size 100 --steps 60",
    "pagerank.py --modules 60",
    "linear_algebra.py --size 200",
    "textbook/fft.py --size 5000",
    "textbook/record_sort.py --records 2000",
    "textbook/lu.py --size 60",
    "textbook/sparse_cg.py --side 8",
    "textbook/kmeans.py --points 5000",
    "textbook/graph.py --vertices 500 --edges 1000",
    "textbook/inner_product.py --size 20000",
    "textbook/matrix_product.py --size 60",
    "textbook/sieve.py --size 50000",
    "wordcount.py --files 60",
)
SEVERAL = (0.15, 0.30, 0.90)  # the bars of labels, where a host has several ranks
WHOLE = (0.10, 0.25, 1.0)
LIMIT = 600.0  # seconds of a launch


class Whole(NamedTuple):
    """A whole program: seconds predicted and measured, and the part of computing in the first, medians of rounds."""

    program: str
    predicted: float
    measured: float
    computing: float

    @property
    def error(self) -> float:
        """Relative to what was measured."""
        return abs(self.predicted / self.measured - 1)


def predicted(program: Sequence[str], p: int, machine: str) -> tuple[float, float]:
    """What `pybsp predict` says of it here: seconds, and the part of computing."""
    options = ["-p", str(p), "--machine", machine, "--", *program]
    command = [sys.executable, "-m", "pybsp", "predict", *options]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (row,) = (line.strip("\u2502 ").split("\u2502") for line in said.splitlines() if line.startswith("\u2502"))
    return float(row[2]), float(row[7].strip(" %")) / 100


def measure(network: EmulatedNetwork, programs: Sequence[str], rounds: int) -> tuple[list[Figure], list[Whole]]:
    """The figures of labels, and of whole programs."""
    p = network.p
    ledgers: dict[str, list[Path]] = {}
    of_whole: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            file = str(Path(folder, f"{number}.json"))
            run_program(["-m", "pybsp", "calibrate", "--quick", "-o", file], p, network, LIMIT)
            for place, program in enumerate(programs):
                path = Path(folder, f"{place}-{number}-ledger.json")
                run_program(program.split(), p, network, LIMIT, PYBSP_MACHINE=file, PYBSP_LEDGER=str(path))
                ledgers.setdefault(program, []).append(path)
                seconds, computing = predicted(program.split(), p, file)
                measured = sum(run["supersteps"].total.measured + run["after"][0] for run in read(path)["runs"])
                of_whole.setdefault(program, []).append((seconds, measured, computing))
        return figures(ledgers), [Whole(name, *map(median, zip(*of, strict=True))) for name, of in of_whole.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("--hosts", type=int, default=2)
    study.add_argument("--ranks", type=int, default=1, help="of each host")
    study.add_argument("--latencies", type=int, nargs="+", default=[1000], help="microseconds")
    study.add_argument("--rates", type=int, nargs="+", default=[200], help="Mbit/s, as many as latencies, or one")
    study.add_argument("--rounds", type=int, default=3)
    study.add_argument("--emulator", default="script")
    study.add_argument("--programs", nargs="+", help="each with its arguments in one word (default: examples)")
    options = study.begin(arguments)
    programs = options.programs or [*(str(EXAMPLES / program) for program in PROGRAMS), f"{ALONE} --quick"]
    rates = options.rates * len(options.latencies) if len(options.rates) == 1 else options.rates
    if len(rates) != len(options.latencies):
        study.error("--rates: expected as many as latencies, or one")
    bars = SEVERAL if options.ranks > 1 else BARS
    os.environ.pop("PYBSP_LEDGER", None)
    for latency, rate in zip(options.latencies, rates, strict=True):
        network = EmulatedNetwork(options.hosts, latency, rate, options.ranks, options.emulator)
        labels, programs_found = measure(network, programs, options.rounds)
        setting = f"{options.hosts} x {options.ranks} ranks, {latency} us, {rate} Mbit/s"
        show(study, labels, setting, bars)
        study.rows(
            f"programs, {setting}",
            f"{setting}: whole programs, predicted here",
            "program | computing [.0%] | ms predicted [.2f] | ms measured [.2f] | predicted/measured [.2f]",
            programs_found,
            lambda of: (named(of[0]), of.computing, 1e3 * of.predicted, 1e3 * of.measured, of.predicted / of.measured),
        )
        study.show(verdict("programs", [one.error for one in programs_found], WHOLE))
    study.end()


if __name__ == "__main__":
    main()
