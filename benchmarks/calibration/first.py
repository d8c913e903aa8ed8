"""`pybsp run --calibrate`: before a program runs, the machine that its ledger predicts by, where none fits is measured.

That is g, l and the o's, with the rates of computing and some supersteps held out: what can be had in 10 s in all. The
machine file goes to the user's cache (pybsp/runs/machine_cache.py), where the run that follows, and later ones, find
it. One that came from a busy machine, or is far off, is measured again on a quiet one, and the better of the two stays.

    python -m pybsp.benchmarks.calibration.first ARGUMENT      on the ranks, started by `ready`
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pybsp
from pybsp import collectives
from pybsp.errors import UsageError
from pybsp.ground import settings
from pybsp.processes import process
from pybsp.runs.launch import place_of
from pybsp.runs.machine_cache import DOUBTFUL, Place

from .harness import LaunchSpec, finish, ignore_settings, launch_on_ranks
from .worker import status

SECONDS = 6.5  # of measuring: starting the ranks, warming up and fitting take 2 to 4 more
USELESS = 0.5  # error of held-out supersteps, median, above which a machine file is not kept
PARTS = ("rate", "bsp", "held-out", "queue", "way")


class Quality(NamedTuple):
    """What a machine file is worth: the smaller the better.

    busy: whether others used the machine when it was measured.
    off: the error of held-out supersteps, median; 0 where the file says nothing.
    """

    busy: bool
    off: float

    @classmethod
    def of(cls, path: Path) -> Quality:
        """Raises UsageError where the file cannot be read."""
        machine = pybsp.BSPMachine.load(path)
        return cls(machine.busy, (machine.exchange or machine).error_median or 0.0)

    @property
    def doubtful(self) -> bool:
        """Whether measuring again may give better figures."""
        return self.busy or self.off > DOUBTFUL


def ready(command: Sequence[str], folder: str) -> tuple[int, str | None]:
    """See to it that there is a machine file for what a command starts.

    Args:
        command: that starts ranks, without the program.
        folder: where samples lie meanwhile, and the machine file where the cache cannot be written.

    Returns:
        the exit status; the machine file, where it is not in the cache.
    """
    from .command import have_scipy, launched

    have_scipy()
    beside = Path(folder) / "machine.json"
    job = LaunchSpec(str(beside.with_suffix(".csv")), level="quick", only=PARTS, budget=SECONDS, seconds=SECONDS)
    worker = [*process.running("pybsp.benchmarks.calibration.first"), json.dumps(dataclasses.asdict(job))]
    status = launched([*command, *worker], lambda line: print(line, end=""))
    return status, str(beside) if beside.exists() else None


def on_ranks(job: LaunchSpec) -> None:
    """Measure what fits no cached file; collective."""
    ignore_settings(but=[settings.ROUTER])  # the program's messages go by it

    def look(bsp: pybsp.BSP) -> tuple[str, int, Place]:
        assert isinstance(bsp.machine, pybsp.BSPMachine)
        place = place_of(bsp._superstep.transport, settings.text(settings.ROUTER))  # type: ignore[arg-type]
        return collectives.broadcast(bsp, _reason(bsp.machine, place) if bsp.pid == 0 else ""), bsp.pid, place

    reason, pid, place = pybsp.run(look)
    if not reason:
        return
    if pid == 0:
        print(f"pybsp run: {reason}: measuring g, l and the o's first (at most 10 s)", file=sys.stderr)
    launch_on_ranks(dataclasses.replace(job, router=place.router))
    if pid == 0:
        finish(job.raw)
        keep(job.raw, place)


def _reason(machine: pybsp.BSPMachine, place: Place) -> str:
    """Why to measure, on processor 0; "" where there is no reason to."""
    if not machine.calibrated:
        return f"no machine file fits these {len(place.hosts)} processors"
    path = place.path()
    try:
        before = Quality.of(path)
    except UsageError as damaged:
        return str(damaged)
    if not before.doubtful or process.is_busy(process.load(), place.cores[0]):
        return ""
    why = "was measured on a busy machine" if before.busy else f"is {before.off:.0%} off held-out supersteps"
    return f"{path} {why}, and this one is quiet"


def keep(raw: str, place: Place) -> None:
    """Write the machine file of some samples to the cache, or beside them where that cannot be, or is no use."""
    from . import machine_file
    from .analysis import analyse
    from .samples import read

    calibration = analyse(read(raw))
    content = machine_file.to_json(calibration)
    if "bsp" not in content:
        print(
            "pybsp run: g and l could not be measured in so short a time; `pybsp calibrate -o machine.json` takes "
            "longer, and `pybsp run --machine machine.json` predicts by it",
            file=sys.stderr,
        )
        return
    beside = Path(raw).with_suffix(".json")
    machine_file.write(calibration, beside)
    # Of whole supersteps: where exchanges share memory their words cost nothing.
    machine = pybsp.BSPMachine.load(beside)
    off = (machine.exchange or machine).error_median
    path: Path | str = "the user's cache"
    try:
        path = place.path()
        if off is not None and off > USELESS:
            use = "it serves this run alone, as a busy machine says little of a quiet one"
        elif _is_better(path, beside):
            beside.unlink()
            use = f"{path} of before is better, and stays; to measure anew remove it"
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            machine_file.write(calibration, path)
            beside.unlink()
            use = f"kept in {path}; to measure anew remove it"
    except (OSError, RuntimeError, UsageError) as failure:
        reason = str(failure) if isinstance(failure, UsageError) else f"machine file {path}: {failure}"
        way = "set XDG_CACHE_HOME to a folder that can be written" if isinstance(failure, OSError) else ""
        use = f"it serves this run alone, as it cannot be kept: {reason}" + f"; {way}" * bool(way)
    error = "" if off is None else f", {off:.0%} off held-out supersteps (median)"
    print(f"pybsp run: g = {machine.g:.3g} s/word, l = {machine.l:.3g} s{error}; {use}", file=sys.stderr)


def _is_better(before: Path, now: Path) -> bool:
    """Whether a machine file of before is there, and better than one of now."""
    try:
        return before.exists() and Quality.of(before) < Quality.of(now)
    except UsageError:
        return False


def main(arguments: Sequence[str]) -> int:
    """On a rank; returns the exit status."""
    return status("pybsp run: --calibrate", lambda: on_ranks(LaunchSpec(**json.loads(arguments[0]))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
