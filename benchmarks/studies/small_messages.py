"""Where the time of a superstep of small messages goes: the phases that a program sees, and a profile.

    mpiexec -n 2 python -m pybsp.benchmarks.studies.small_messages [--words 64] [--rounds 3000] [--profile]

Every processor fills an array, sends it to the next one, syncs, and reads what came (its sum). Microseconds of the
phases on processor 0: median, and 5th to 95th percentile; beside them what a look at the clock and the sum alone take.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Sequence

import numpy as np

import pybsp

from .frame import Study, table

PHASES = ("fill", "send", "sync", "read")


def measure(bsp: pybsp.BSP, words: int, rounds: int, profile: bool) -> dict[str, list[float]]:
    """Seconds of the phases, of each round."""
    data, dest, clock = np.zeros(words), (bsp.pid + 1) % bsp.p, time.perf_counter
    found = []

    def superstep(number: int) -> None:
        started = clock()
        data[:] = number
        filled = clock()
        bsp.send(dest, data)
        sent = clock()
        bsp.sync()
        synced = clock()
        for message in bsp.inbox:
            message.payload.sum()
        found.append((started, filled, sent, synced, clock()))

    for number in range(rounds):
        superstep(number)
    phases = dict(zip(PHASES, np.diff(np.array(found)).T.tolist(), strict=True))
    if profile:
        profiler = cProfile.Profile()
        profiler.enable()
        for number in range(rounds):
            superstep(number)
        profiler.disable()
        if bsp.pid == 0:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(24)
    phases["the clock alone"] = [-(clock() - clock()) for _ in range(rounds)]
    alone = []
    for _ in range(rounds):
        started = clock()
        data.sum()
        alone.append(clock() - started)
    phases["the sum alone"] = alone
    return phases


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__)
    study.add_argument("--words", type=int, default=64)
    study.add_argument("--rounds", type=int, default=3000)
    study.add_argument("--profile", action="store_true")
    options = study.begin(arguments)
    phases, pid = pybsp.run(lambda bsp: (measure(bsp, options.words, options.rounds, options.profile), bsp.pid))
    if pid == 0:
        rows = []
        for name, seconds in phases.items():
            low, median, high = 1e6 * np.percentile(seconds, (5, 50, 95))
            rows.append((name, median, f"{low:.2f} to {high:.2f}"))
        study.show(table(f"{options.words} words to the next processor", "phase | us [.2f] | 5 to 95 %", rows))


if __name__ == "__main__":
    main()
