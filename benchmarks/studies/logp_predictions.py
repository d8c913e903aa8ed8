"""How well LogP programs are predicted: measured over predicted, of examples/logp on emulated clusters of four hosts.

    python -m pybsp.benchmarks.studies.logp_predictions FOLDER [--settings 1000:100 2000:1000 5000:100] [--rounds 15]
    python -m pybsp.benchmarks.studies.logp_predictions FOLDER --table

A setting is a latency in microseconds and a rate in Mbit/s. Each cluster is calibrated (`pybsp calibrate --quick
--only logp`) where FOLDER has no machine file of it yet; then each example runs on it, in turn with the others, and
what it took is kept in FOLDER. `--table` measures nothing. Predicted: `pybsp.logp.simulate` on the machine of the
file, with G = o where G is below o, and from when each rank began, at a moment on which they have agreed. Measured:
from the first one's begin to the last one's end, with pace=True, so that what a program computes takes its steps; the
ratio is the median over the rounds. Bars: the median of the errors at most 10 %, 90 % within 25 %.
"""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pybsp import LogPMachine, logp
from pybsp.logp import Processor, simulate

from .frame import EmulatedNetwork, Study, on_ranks, run_program, spread
from .logp_examples import EXAMPLES
from .predictions import verdict

HOSTS = 4
NUMBERS = 100_000  # of the summation: so many that all take part
AHEAD = 0.02  # seconds from an agreement to the moment that was agreed on
LIMIT = 300.0  # seconds of a calibration, and of the runs on a cluster
Program = Callable[[Processor], Any]


class Setting(NamedTuple):
    """An emulated cluster: latency in microseconds, rate in Mbit/s."""

    latency: int
    rate: int

    @property
    def network(self) -> EmulatedNetwork:
        """Its hosts, with a rank each."""
        return EmulatedNetwork(HOSTS, self.latency, self.rate)


def setting_of(text: str) -> Setting:
    """The one that an option names."""
    latency, rate = map(int, text.split(":"))
    return Setting(latency, rate)


SETTINGS = (Setting(1000, 100), Setting(2000, 1000), Setting(5000, 100))


class Round(NamedTuple):
    """One run of a program: seconds from the first one's begin to the last one's end; and to each one's begin."""

    seconds: float
    begins: list[float]


def programs() -> dict[str, Program]:
    """The examples, without what they print and compare."""
    of = {path.stem: runpy.run_path(str(path)) for path in EXAMPLES.glob("*.py")}

    def stencil(proc: Processor, n: int = 256, steps: int = 50) -> Any:
        own = slice(proc.pid * n // proc.p, (proc.pid + 1) * n // proc.p)
        return of["stencil"]["stencil"](proc, of["stencil"]["initial"](n)[own], proc.p, steps)

    def squares(items: range) -> list[int]:
        """Their sum, at once: what adding them takes is in the steps that the program computes."""
        first, end = ((n - 1) * n * (2 * n - 1) // 6 for n in (items.start, items.stop))
        return [end - first]

    def greetings(proc: Processor) -> list[str]:
        return [f"from {proc.pid} to {dest}" for dest in range(proc.p)]

    return {
        "broadcast": lambda proc: of["broadcast"]["broadcast"](proc, "hello"),
        "summation": lambda proc: of["summation"]["summation"](proc, NUMBERS, squares),
        "all-to-all, staggered": lambda proc: of["all_to_all"]["staggered"](proc, greetings(proc)),
        "all-to-all, obvious": lambda proc: of["all_to_all"]["obvious"](proc, greetings(proc)),
        "ring": lambda proc: of["ring"]["ring"](proc, proc.pid**2),
        "stencil": stencil,
        "many to one": lambda proc: of["many_to_one"]["many_to_one"](proc, 4),
    }


def machine_of(path: str | Path) -> LogPMachine:
    """The machine of a file, which `simulate` takes."""
    machine = LogPMachine.load(path)
    return replace(machine, G=max(2, machine.o, machine.G))


def measured(path: str, rounds: int) -> dict[str, list[Round]]:
    """On ranks: what each program took, in each round."""
    logp.run(lambda _: None)  # loads MPI, as the layer wants it
    from mpi4py import MPI

    comm, machine, found = MPI.COMM_WORLD, machine_of(path), programs()
    taken: dict[str, list[Round]] = {name: [] for name in found}
    for turn in range(rounds + 1):
        for name, program in found.items():

            def timed(proc: Processor, program: Program = program) -> tuple[float, float]:
                moment = comm.allreduce(time.perf_counter(), MPI.MAX) + AHEAD
                time.sleep(max(0.0, moment - time.perf_counter()))  # ranks that spin would take the cores of others
                begin = time.perf_counter()
                program(proc)
                return begin, time.perf_counter()

            begin, end = logp.run(timed, machine=machine, capacity="per-pair", pace=True)
            begins, last = comm.allgather(begin), comm.allreduce(end, MPI.MAX)
            first = min(begins)
            if turn:  # the first warms up
                taken[name].append(Round(last - first, [one - first for one in begins]))
    return taken


def predicted(program: Program, machine: LogPMachine, begins: Sequence[float]) -> float:
    """Seconds of a program whose processors begin so late."""
    starts = [round(begin / machine.step) for begin in begins]
    return simulate(program, machine=machine, starts=starts).time * machine.step


def main() -> None:
    """Calibrate, measure, and print what was predicted beside what was measured."""
    study = Study(__doc__)
    study.add_argument("folder", type=Path, metavar="FOLDER", help="of machine files and measured times")
    study.add_argument("--settings", type=setting_of, nargs="+", default=SETTINGS)
    study.add_argument("--rounds", type=int, default=15)
    study.add_argument("--table", action="store_true", help="measure nothing")
    options = study.begin()
    if not EXAMPLES.is_dir():
        study.error(f"there is no folder {EXAMPLES}; run it from a checkout")
    if not options.folder.is_dir():
        study.error(f"FOLDER: expected a folder, got {options.folder}")
    rows, errors = [], []
    for setting in options.settings:
        machine_file = options.folder / f"l{setting.latency}-b{setting.rate}.json"
        kept = machine_file.with_suffix(".times.json")
        if not options.table:
            if not machine_file.exists():
                calibration = ["-m", "pybsp", "calibrate", "--quick", "--only", "logp", "-o", str(machine_file)]
                run_program(calibration, HOSTS, setting.network, LIMIT)
            found = on_ranks(
                measured, str(machine_file.resolve()), options.rounds, n=HOSTS, network=setting.network, limit=LIMIT
            )
            kept.write_text(json.dumps(found))
        if not kept.exists():
            study.error(f"there is no {kept}: run it without --table first")
        machine, times = machine_of(machine_file), json.loads(kept.read_text())
        for name, program in programs().items():
            runs = [Round(*one) for one in times[name]]
            predictions = [predicted(program, machine, run.begins) for run in runs]
            ratios = [run.seconds / one for run, one in zip(runs, predictions, strict=True)]
            errors.append(abs(median(ratios) - 1))
            seconds = 1e3 * median(run.seconds for run in runs)
            rows.append((*setting, name, 1e3 * median(predictions), seconds, spread(ratios)))
    head = "latency, us | Mbit/s | program | predicted, ms [.2f] | measured, ms [.2f] | ratio (5th to 95th percentile)"
    study.rows("predictions", f"examples/logp on {HOSTS} emulated hosts, a rank each", head, rows)
    study.show(verdict("programs", errors))


if __name__ == "__main__":
    main()
