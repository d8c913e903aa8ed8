"""One message from node to node, or one from each rank to each: both in one job, in turns.

    python -m pybsp.benchmarks.studies.aggregation --hosts 4 --ranks-per-host 2 4 --latency 1ms --rate 200mbit
    mpiexec -f hosts -n 64 python -m pybsp.benchmarks.studies.aggregation

Seconds of an empty superstep, of one in which every processor sends 64 words, or 64 KiB, to every other one, and of one
in which each sends 8 words to the next; a round's time is the slowest processor's. Medians, and the median of the
rounds' ratios with its interval of 95 %. The rule of `transport/aggregated.py` (`pays`) comes from these tables.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pybsp
from pybsp.benchmarks.against_mpi.summary import ratio
from pybsp.benchmarks.emulation.link import parse_rate, parse_time
from pybsp.benchmarks.studies.emulated import EMULATORS, Network, command, environment
from pybsp.transport.mpi import load, under_launcher

SETTING = "PYBSP_AGGREGATE"
ROUNDS = 31
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
            samples: list[list[float]] = [[], []]
            for turn in range(rounds):
                for way in (0, 1) if turn % 2 else (1, 0):
                    samples[way].append(batch(ways[way], work, count) / count)
            found.append({"work": name, "each": samples[0], "aggregated": samples[1]})
    return found


def show(runs: Sequence[dict[str, Any]]) -> None:
    """One table of all runs, as Markdown."""
    print("| nodes | what | each to each | aggregated | ratio (95 %) |\n|---|---|---|---|---|")
    for run in runs:
        for row in run["rows"]:
            over = ratio(row["aggregated"], row["each"])
            each, aggregated = (f"{1e3 * np.median(row[way]):.3g} ms" for way in ("each", "aggregated"))
            interval = f"{over.median:.3g} ({over.low:.3g} to {over.high:.3g})"
            print("|", " | ".join([run["where"], row["work"], each, aggregated, interval]), "|")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pybsp.benchmarks.studies.aggregation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--hosts", type=int, default=4, help="emulated hosts (default 4)")
    parser.add_argument("--ranks-per-host", type=int, nargs="+", default=[2], metavar="R", help="default 2")
    parser.add_argument("--latency", default="1ms", help="between the hosts, one way (default 1ms)")
    parser.add_argument("--rate", default="200mbit", help="of each host's line (default 200mbit)")
    parser.add_argument("--emulator", choices=EMULATORS, default="pybsp")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--json", metavar="FILE", help="keep all samples")
    parser.add_argument("--worker", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if under_launcher() and not options.worker:
        comm = load().COMM_WORLD
        runs = [{"where": f"{comm.size} ranks", "rows": measured(options.rounds)}]
        if comm.rank:
            return 0
    elif options.worker:
        rows = measured(options.rounds)
        if load().COMM_WORLD.rank == 0:
            Path(options.worker).write_text(json.dumps(rows))
        return 0
    else:
        runs = []
        for ranks in options.ranks_per_host:
            latency, rate = round(1e6 * parse_time(options.latency)), round(1e-6 * parse_rate(options.rate))
            network = Network(options.hosts, latency, rate, ranks, emulator=options.emulator)
            with tempfile.TemporaryDirectory() as folder:
                result = Path(folder) / "rows.json"
                program = [sys.executable, "-m", "pybsp.benchmarks.studies.aggregation", "--worker", str(result)]
                program += ["--rounds", str(options.rounds)]
                subprocess.run(
                    command(program, options.hosts * ranks, network), check=True, timeout=600, env=environment()
                )
                rows = json.loads(result.read_text())
            runs.append({"where": f"{options.hosts} x {ranks}, {options.latency}, {options.rate}", "rows": rows})
    show(runs)
    if options.json:
        Path(options.json).write_text(json.dumps(runs, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
