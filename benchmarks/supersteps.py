"""Supersteps and messages against raw mpi4py at the same work, interleaved in one run.

    python -m pybsp.benchmarks.supersteps [--output FILE]

starts itself under mpiexec with 2 and with 8 processors, then runs 4096 virtual ones, and prints a table: medians,
the spread (5th to 95th percentile) of each side, and the ratio of the two, pair by pair. Both sides fill what they
send and read what they received.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pybsp
from pybsp.cli import launcher

Sample = Callable[[], float]  # runs once; seconds per operation on this processor

WORD = 8
MESSAGES = 100_000
BLOCK = 1 << 20


def _timed(operation: Callable[[], object], repeats: int) -> float:
    operation()  # whatever ran before must not decide whose data is in the caches
    start = time.perf_counter()
    for _ in range(repeats):
        operation()
    return (time.perf_counter() - start) / repeats


def empty_superstep(bsp: pybsp.BSP, comm: Any, repeats: int) -> tuple[Sample, Sample]:
    """An empty superstep against an Alltoall of p int32."""
    from mpi4py import MPI

    out, into = np.zeros(bsp.p, np.int32), np.zeros(bsp.p, np.int32)
    sends, receives = [out, 1, MPI.INT], [into, 1, MPI.INT]
    return (
        lambda: _timed(bsp.sync, repeats),
        lambda: _timed(lambda: comm.Alltoall(sends, receives), repeats),
    )


def fine_grain(bsp: pybsp.BSP, comm: Any) -> tuple[Sample, Sample]:
    """100,000 messages of 8 bytes to random destinations: a queue against alltoall of lists of Python floats."""
    rng = np.random.default_rng(bsp.pid)
    dests = rng.integers(0, bsp.p, MESSAGES)
    values = rng.random(MESSAGES)
    dest_list, value_list = dests.tolist(), values.tolist()
    queue = bsp.queue(np.float64)
    bsp.sync()

    def ours() -> float:
        queue.send(dests, values)
        bsp.sync()
        return float(queue.values.sum())

    def raw() -> float:
        lists: list[list[float]] = [[] for _ in range(bsp.p)]
        for dest, value in zip(dest_list, value_list, strict=True):
            lists[dest].append(value)
        return sum(sum(part) for part in comm.alltoall(lists))

    return lambda: _timed(ours, 3), lambda: _timed(raw, 3)


def blocks(bsp: pybsp.BSP, comm: Any) -> tuple[Sample, Sample]:
    """A block of 1 MiB to every other rank: send to read, against Alltoallv on preallocated buffers."""
    from mpi4py import MPI

    words, p = BLOCK // WORD, bsp.p
    data = np.random.default_rng(bsp.pid).random(words)
    counts = [0 if d == bsp.pid else words for d in range(p)]
    displacements = [words * d for d in range(p)]
    out, into = np.zeros(words * p), np.zeros(words * p)
    sends = [out, counts, displacements, MPI.DOUBLE]
    receives = [into, counts, displacements, MPI.DOUBLE]
    others = [d for d in range(p) if d != bsp.pid]

    def ours() -> float:
        for d in others:
            bsp.send(d, data)
        bsp.sync()
        return sum(float(m.payload.sum()) for m in bsp.inbox)

    def raw() -> float:
        for d in others:
            out[words * d : words * (d + 1)] = data
        comm.Alltoallv(sends, receives)
        return sum(float(into[words * d : words * (d + 1)].sum()) for d in others)

    return lambda: _timed(ours, 10), lambda: _timed(raw, 10)


def measure(bsp: pybsp.BSP, names: list[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Interleave both sides of each comparison; a sample is the slowest processor's."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    sides: dict[str, tuple[Sample, Sample]] = {}
    for name in names:
        if name == "empty":
            sides[name] = empty_superstep(bsp, comm, 2000 if bsp.p <= 2 else 300)
        elif name == "fine":
            sides[name] = fine_grain(bsp, comm)
        else:
            sides[name] = blocks(bsp, comm)
    samples: dict[str, dict[str, list[float]]] = {name: {"ours": [], "raw": []} for name in names}
    for round_number in range(rounds + 2):
        for name, (ours, raw) in sides.items():
            order = [("ours", ours), ("raw", raw)]
            for side, sample in order if round_number % 2 else reversed(order):
                bsp.sync()  # and no Barrier: MPICH's would let the ranks go milliseconds apart where they share cores
                seconds = comm.allreduce(sample(), MPI.MAX)
                if round_number >= 2:  # the first rounds warm up
                    samples[name][side].append(seconds)
    comm.Free()
    return samples


def ring(bsp: pybsp.BSP, supersteps: int) -> float:
    """One word to the neighbour in each superstep."""
    total = 0.0
    neighbour = (bsp.pid + 1) % bsp.p
    for _ in range(supersteps):
        bsp.send(neighbour, 1.0)
        bsp.sync()
        total += bsp.inbox[0].payload
    return total


def virtual(p: int, supersteps: int, rounds: int) -> list[float]:
    """Seconds of a ring of virtual processors."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        results = pybsp.simulate(ring, supersteps, p=p).results
        found.append(time.perf_counter() - start)
        if results != [float(supersteps)] * p:
            raise RuntimeError("the ring gave wrong results")
    return found


COMPARISONS = {
    "empty": ("empty superstep", "Alltoall of p int32", 1.6),
    "fine": ("100,000 8-byte messages by queue", "alltoall of lists of floats", 0.2),
    "blocks": ("1 MiB to every other rank, send to read", "Alltoallv, filled and read", 1.2),
}


def _worker(names: list[str], rounds: int, output: str) -> None:
    import mpi4py

    mpi4py.rc.thread_level = "serialized"  # for both sides
    samples = pybsp.run(measure, names, rounds)
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 0:
        library = " ".join(MPI.Get_library_version().strip("\x00 \n").split("\n")[0].split())
        Path(output).write_text(json.dumps({"library": library, "samples": samples}))


def _row(table: Table, what: str, p: int, against: str, samples: dict[str, list[float]], bar: float) -> None:
    ours, raw = np.array(samples["ours"]), np.array(samples["raw"])
    ratios = ours / raw
    table.add_row(
        what,
        str(p),
        _microseconds(ours),
        against,
        _microseconds(raw),
        f"{np.median(ratios):.2f} ({np.percentile(ratios, 5):.2f} to {np.percentile(ratios, 95):.2f})",
        f"at most {bar:g}",
    )


def _microseconds(samples: Any) -> str:
    median, low, high = (1e6 * np.percentile(samples, q) for q in (50, 5, 95))
    return f"{median:.4g} ({low:.4g} to {high:.4g})"


def main() -> None:
    """Run all comparisons and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", metavar="FILE", help="keep all samples, as JSON")
    parser.add_argument("--rounds", type=int, default=21, help="samples of each side (default 21)")
    parser.add_argument("--worker", nargs=2, metavar=("NAMES", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        _worker(options.worker[0].split(","), options.rounds, options.worker[1])
        return
    table = Table(title="times in microseconds: median (5th to 95th percentile)")
    for column in ("pybsp", "p", "time", "raw mpi4py", "time", "ratio", "bar"):
        table.add_column(column)
    kept: dict[str, Any] = {"host": platform.node(), "cores": os.cpu_count(), "comparisons": {}}
    scratch = Path(f"/tmp/pybsp-supersteps-{os.getpid()}.json")
    for p, names in ((2, "empty,fine,blocks"), (8, "empty")):
        command = [*launcher(p), sys.executable, "-m", "pybsp.benchmarks.supersteps"]
        subprocess.run(
            [*command, "--rounds", str(options.rounds), "--worker", names, str(scratch)], check=True, timeout=900
        )
        found = json.loads(scratch.read_text())
        scratch.unlink()
        kept["library"] = found["library"]
        for name, samples in found["samples"].items():
            what, against, bar = COMPARISONS[name]
            _row(table, what, p, against, samples, 1.5 if p == 8 else bar)
            kept["comparisons"][f"{name}, p = {p}"] = samples
    seconds = virtual(4096, 50, 3)
    kept["comparisons"]["ring, 4096 virtual processors"] = {"ours": seconds}
    table.add_row(
        "50 supersteps, one word to a neighbour", "4096 virtual", _microseconds(seconds), "-", "-", "-", "below 5 s"
    )
    console = Console()
    if not console.is_terminal:
        console.width = 170
    console.print(
        f"{kept['library']}, numpy {np.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    )
    console.print(table)
    if options.output:
        Path(options.output).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
