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
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pybsp.benchmarks.emulation.link import parse_rate, parse_time
from pybsp.benchmarks.emulation.switch import MTU

HOSTS = 8
ROUND_TRIPS = 100
STREAM_SECONDS = 0.1  # what the smaller stream takes at the line rate,
STREAM_BYTES = 1 << 23  # where it is not larger than this
STREAMS = 5
EXCHANGES = {1: 15, 16: 9, 128: 5}  # KiB to each: repetitions
FRAME = MTU + 14
PAYLOAD = MTU - 20 - 32  # IP's head, TCP's with time stamps


def worker(path: str, rate: float) -> None:
    """The program that both emulators run; rank 0 writes what it found."""
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
    if rank == 0:
        Path(path).write_text(json.dumps(found))


def wait(comm: Any) -> None:
    """A barrier whose waiting leaves the cores to the ranks that are measured, and to the emulator."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def ours(options: argparse.Namespace) -> list[str]:
    """The command that runs a program on our emulator."""
    link = ["--latency", options.latency, "--rate", options.rate]
    return [sys.executable, "-m", "pybsp", "emulate", "-n", str(HOSTS), *link, "--"]


def reference(options: argparse.Namespace) -> list[str]:
    """The command that runs a program on the other one."""
    link = ["-l", f"{1e6 * parse_time(options.latency):g}", "-b", f"{1e-6 * parse_rate(options.rate):g}"]
    return [options.reference, "-n", str(HOSTS), *link, "--"]


def measured(command: list[str], rate: float) -> dict[str, list[float]]:
    """What the worker finds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        arguments = ["--worker", str(path), "--rate", f"{1e-3 * rate:.0f}kbit"]
        # Both find this Python's mpiexec first.
        search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        subprocess.run(
            [*command, sys.executable, __file__, *arguments],
            check=True,
            timeout=300,
            env={**os.environ, "PATH": search},
        )
        found: dict[str, list[float]] = json.loads(path.read_text())
        return found


def compare(console: Console, options: argparse.Namespace) -> None:
    """Both emulators in turns, and a table."""
    rate = parse_rate(options.rate)
    commands = {"pybsp": ours(options)}
    if options.reference:
        commands["reference"] = reference(options)
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            for what, values in measured(command, rate).items():
                samples[name].setdefault(what, []).extend(values)
    table = Table(title=f"{HOSTS} hosts, {options.latency}, {options.rate}: medians (5th to 95th percentile)")
    for column in ("what", "unit", *commands, *(["ratio"] if options.reference else []), "by the link"):
        table.add_column(column)
    goodput = 1e-6 * rate * PAYLOAD / FRAME
    for what in samples["pybsp"]:
        factor, unit = (1.0, "Mbit/s") if what == "stream" else (1e3, "ms")
        taken = [factor * np.array(samples[name][what]) for name in commands]
        cells = [f"{np.median(v):.4g} ({np.percentile(v, 5):.4g} to {np.percentile(v, 95):.4g})" for v in taken]
        if options.reference:
            cells.append(f"{np.median(taken[0]) / np.median(taken[1]):.3f}")
        link = {"half round trip": f"{1e3 * parse_time(options.latency):g} and software", "stream": f"{goodput:.4g}"}
        table.add_row(what, unit, *cells, link.get(what, ""))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--latency", default="2ms")
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reference", metavar="SCRIPT", help="another emulator")
    parser.add_argument("--worker", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, parse_rate(options.rate))
        return
    console = Console()
    console.print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    compare(console, options)


if __name__ == "__main__":
    main()
