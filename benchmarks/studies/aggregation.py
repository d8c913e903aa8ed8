"""One message from node to node, or one from each rank to each: both in one job, in turns.

    python -m pybsp.benchmarks.studies.aggregation --hosts 4 --ranks-per-host 2 4 --latency 1ms --rate 200mbit
    mpiexec -f hosts -n 64 python -m pybsp.benchmarks.studies.aggregation

Seconds of an empty superstep, of one in which every processor sends 64 words, or 64 KiB, to every other one, and of one
in which each sends 8 words to the next; a round's time is the slowest processor's. Medians, and the median of the
rounds' ratios with its interval of 95 %. The rule of `transport/placement.py` (`pays`) comes from these tables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

import pybsp
from pybsp.benchmarks.against_mpi.summary import ratio
from pybsp.benchmarks.emulation.link import parse_rate, parse_time
from pybsp.transport.launcher import load, under_launcher

from .frame import EMULATORS, EmulatedNetwork, Study, bounded, in_turns, on_ranks, table

SETTING = "PYBSP_AGGREGATE"
WAYS = ("each", "aggregated")
LASTS = 0.05  # seconds that a round of either lasts about


def empty(bsp: pybsp.BSP) -> None:
    bsp.sync()


def to_every_other(bsp: pybsp.BSP, words: int) -> None:
    payload = np.full(words, float(bsp.pid))
    for dest in range(bsp.p):
        if dest != bsp.pid:
            bsp.send(dest, payload)
    bsp.sync()
    for message in bsp.inbox:
        message.payload.sum()


def to_the_next(bsp: pybsp.BSP) -> None:
    bsp.send((bsp.pid + 1) % bsp.p, np.full(8, float(bsp.pid)))
    bsp.sync()
    bsp.inbox[0].payload.sum()


WORKS: dict[str, Callable[[pybsp.BSP], None]] = {
    "empty superstep": empty,
    "64 words to every other": partial(to_every_other, words=64),
    "8 words to the next": to_the_next,
    "64 KiB to every other": partial(to_every_other, words=1 << 13),
}


def measured(rounds: int) -> list[dict[str, Any]]:
    """On the ranks that are there; collective."""
    comm = load().COMM_WORLD
    with ExitStack() as open_until_the_end:
        ways: list[pybsp.BSP] = []
        for wish in "01":
            os.environ[SETTING] = wish
            ways.append(open_until_the_end.enter_context(pybsp.attach(comm)))

        def batch(bsp: pybsp.BSP, work: Callable[[pybsp.BSP], None], count: int) -> float:
            bsp.sync()
            begin = time.perf_counter()
            for _ in range(count):
                work(bsp)
            return float(max(comm.allgather(time.perf_counter() - begin)))

        found = []
        for name, work in WORKS.items():
            count = 1
            while (seconds := batch(ways[0], work, count)) < LASTS / 2:
                count = max(2 * count, int(count * LASTS / seconds))
            variants = {how: partial(batch, way, work, count) for how, way in zip(WAYS, ways, strict=True)}
            samples = {how: np.divide(of, count).tolist() for how, of in in_turns(variants, rounds, 0).items()}
            found.append({"work": name, **samples})
    return found


def rows(runs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Of all runs, a row for each work."""
    for run in runs:
        for row in run["rows"]:
            times = (f"{1e3 * np.median(row[how]):.3g} ms" for how in WAYS)
            yield run["where"], row["work"], *times, bounded(ratio(row["aggregated"], row["each"]))


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("--hosts", type=int, default=4, help="emulated hosts")
    study.add_argument("--ranks-per-host", type=int, nargs="+", default=[2], metavar="R")
    study.add_argument("--latency", default="1ms", help="between the hosts, one way")
    study.add_argument("--rate", default="200mbit", help="of each host's line")
    study.add_argument("--emulator", choices=EMULATORS, default="pybsp")
    study.add_argument("--rounds", type=int, default=31)
    options = study.begin(arguments)
    runs = []
    if under_launcher():
        comm = load().COMM_WORLD
        runs.append({"where": f"{comm.size} ranks", "rows": measured(options.rounds)})
        if comm.rank:
            return
    else:
        latency, rate = round(1e6 * parse_time(options.latency)), round(1e-6 * parse_rate(options.rate))
        for ranks in options.ranks_per_host:
            network = EmulatedNetwork(options.hosts, latency, rate, ranks, emulator=options.emulator)
            found = on_ranks(measured, options.rounds, n=options.hosts * ranks, network=network, limit=600)
            runs.append({"where": f"{options.hosts} x {ranks}, {options.latency}, {options.rate}", "rows": found})
    study.show(table("", "nodes | what | each to each | aggregated | ratio (95 %)", rows(runs)))
    study.end(runs)


if __name__ == "__main__":
    main()
