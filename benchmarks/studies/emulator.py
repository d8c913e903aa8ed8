"""Is `pybsp emulate` the cluster that it claims to be? It against its figures, and against another emulator.

    python -m pybsp.benchmarks.studies.emulator --latency 2ms --rate 200mbit
    python -m pybsp.benchmarks.studies.emulator --latency 2ms --rate 200mbit --reference /path/to/cluster
    python -m pybsp.benchmarks.studies.emulator --latency 0 --rate 10gbit

MPI programs in turns, round by round, on either emulator: half the round trip of 8 bytes between two hosts; the rate of
one stream between two hosts, from the difference between two sizes, and that over the line rate net of framing (of 9014
bytes of a full frame, 8948 are the program's); a total exchange of 8 hosts with 1, 16 and 128 KiB to each. The
reference is a script with the interface of ours: `-n HOSTS -l MICROSECONDS -b MBIT_PER_S -- COMMAND`.

Above what a switch in user space can forward, the figures are the emulator's and not the link's: the last command
measures that limit.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.table import Table

from pybsp.benchmarks.emulation.link import parse_rate, parse_time
from pybsp.benchmarks.emulation.switch import MTU

from .frame import EmulatedNetwork, Study, cells, on_ranks, spread, table

HOSTS = 8
ROUND_TRIPS = 100
STREAM_SECONDS = 0.1  # what the smaller stream takes at the line rate,
STREAM_BYTES = 1 << 23  # where it is not larger than this
STREAMS = 5
EXCHANGES = {1: 15, 16: 9, 128: 5}  # KiB to each: repetitions
FRAME = MTU + 14
PAYLOAD = MTU - 20 - 32  # IP's head, TCP's with time stamps


def measured(rate: float) -> dict[str, list[float]]:
    """The program that both emulators run; rank 0 has what it found."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank = comm.rank
    found: dict[str, list[float]] = {"half round trip": [], "stream": []}
    token = np.zeros(8, np.uint8)
    first = min(STREAM_BYTES, int(STREAM_SECONDS * rate / 8))
    data = np.ones(2 * first, np.uint8) if rank < 2 else token

    def timed(name: str, run: Callable[[], object], over: float = 1.0) -> None:
        begin = time.perf_counter()
        run()
        found.setdefault(name, []).append((time.perf_counter() - begin) / over)

    def there_and_back(part: np.ndarray[Any, Any]) -> None:
        if rank == 0:
            comm.Send(part, 1)
            comm.Recv(token, 1)
        else:
            comm.Recv(part, 0)
            comm.Send(token, 0)

    comm.Barrier()
    if rank < 2:
        for _ in range(3):
            there_and_back(data)
        for _ in range(ROUND_TRIPS):
            timed("half round trip", lambda: there_and_back(token), 2)
        for _ in range(STREAMS):
            for size in (first, 2 * first):
                timed(f"stream of {size}", lambda size=size: there_and_back(data[:size]))  # type: ignore[misc]
        few, many = (np.median(found.pop(f"stream of {size}")) for size in (first, 2 * first))
        found["stream"] = [8e-6 * first / float(many - few)]
    wait(comm)
    for kib, times in EXCHANGES.items():
        out = np.ones(1024 * kib * comm.size, np.uint8)
        into = np.empty_like(out)
        comm.Alltoall(out, into)
        for _ in range(times):
            comm.Barrier()
            timed(f"exchange of {kib} KiB", lambda out=out, into=into: comm.Alltoall(out, into))  # type: ignore[misc]
    return found


def wait(comm: Any) -> None:
    """A barrier whose waiting leaves the cores to the ranks that are measured, and to the emulator."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def compare(study: Study, networks: dict[str, str], options: argparse.Namespace) -> Table:
    """The emulators in turns, and a table."""
    rate, latency = parse_rate(options.rate), parse_time(options.latency)
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in networks}
    for _ in study.each(range(options.rounds)):
        for name, emulator in networks.items():
            network = EmulatedNetwork(HOSTS, round(1e6 * latency), round(1e-6 * rate), emulator=emulator)
            for what, values in on_ranks(measured, rate, n=HOSTS, network=network, limit=300).items():
                samples[name].setdefault(what, []).extend(values)
    stream = f"{1e-6 * rate * PAYLOAD / FRAME:.4g}"
    by_link = {"half round trip": f"{1e3 * latency:g} and software", "stream": stream}
    rows = []
    for what in samples["pybsp"]:
        unit, name = (1.0, "Mbit/s") if what == "stream" else (1e-3, "ms")
        taken = [samples[emulator][what] for emulator in networks]
        ratio = [f"{np.median(taken[0]) / np.median(taken[1]):.3f}"] if options.reference else []
        rows.append(cells((what, name, *(spread(values, unit) for values in taken), *ratio, by_link.get(what, ""))))
    title = f"{HOSTS} hosts, {options.latency}, {options.rate}: medians (5th to 95th percentile)"
    return table(title, cells(("what", "unit", *networks, *["ratio"] * bool(options.reference), "by the link")), rows)


def main() -> None:
    study = Study(__doc__)
    study.add_argument("--latency", default="2ms")
    study.add_argument("--rate", default="200mbit")
    study.add_argument("--rounds", type=int, default=3)
    study.add_argument("--reference", metavar="SCRIPT", help="another emulator")
    options = study.begin()
    networks = {"pybsp": "pybsp"}
    if options.reference:
        os.environ["PYBSP_CLUSTER"] = options.reference
        networks["reference"] = "script"
    study.show(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        compare(study, networks, options),
    )


if __name__ == "__main__":
    main()
