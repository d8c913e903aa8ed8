"""`sample_sort` on several ranks against numpy's sort of all keys in one process, interleaved in one run.

    python -m pybsp.benchmarks.studies.sorting [-n 2] [--keys 1000000] [--dtype float64] [--output FILE]

starts itself under mpiexec and prints a table: medians, the spread (5th to 95th percentile) of each side, and the ratio
of the two, pair by pair. Each rank has so many random keys; numpy sorts the keys of all ranks, which lie ready in
rank 0, while the others wait. Both sides leave their input as it was.
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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import pybsp
from pybsp.cli import launcher
from pybsp.collectives.sample_sort import sample_sort

from ..calibration.placement import processor

BAR = 1.0  # sample_sort takes less than so many times what numpy takes
WARM_UP = 3  # rounds


def random_keys(n: int, dtype: str, seed: int) -> NDArray[Any]:
    """Random keys over the whole range of an integer dtype, or from 0 to 1."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
    return rng.random(n).astype(dtype)


def measure(bsp: pybsp.BSP, n: int, dtype: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of both sides in each round: of sample_sort the slowest rank's."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    keys = random_keys(n, dtype, bsp.pid)
    everything = np.concatenate([random_keys(n, dtype, pid) for pid in range(bsp.p)]) if bsp.pid == 0 else keys[:0]

    def ours() -> float:
        bsp.sync()
        start = time.perf_counter()
        part = sample_sort(bsp, keys)
        seconds = time.perf_counter() - start
        gathered = comm.gather(part) if round_number == 0 else None
        if gathered is not None and not np.array_equal(np.concatenate(gathered), np.sort(everything)):
            raise RuntimeError("sample_sort gave wrong results")
        return seconds

    def numpys() -> float:
        bsp.sync()
        start = time.perf_counter()
        if bsp.pid == 0:
            np.sort(everything)
        return time.perf_counter() - start

    samples: dict[str, list[float]] = {"sample_sort": [], "numpy": []}
    for round_number in range(rounds + WARM_UP):
        sides = [("sample_sort", ours), ("numpy", numpys)]
        for side, run in sides if round_number % 2 else reversed(sides):
            seconds = comm.allreduce(run(), MPI.MAX)
            if round_number >= WARM_UP:
                samples[side].append(seconds)
    comm.Free()
    return samples


def _worker(options: argparse.Namespace) -> None:
    samples = pybsp.run(measure, options.keys, options.dtype, options.rounds)
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 0:
        library = " ".join(MPI.Get_library_version().strip("\x00 \n").split("\n")[0].split())
        Path(options.worker).write_text(json.dumps({"library": library, "samples": samples}))


def _milliseconds(samples: NDArray[np.float64]) -> str:
    median, low, high = (1e3 * np.percentile(samples, q) for q in (50, 5, 95))
    return f"{median:.4g} ({low:.4g} to {high:.4g})"


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=2, metavar="P", help="ranks (default 2)")
    parser.add_argument("--keys", type=int, default=10**6, help="keys of each rank (default 1000000)")
    parser.add_argument("--dtype", default="float64", help="of the keys (default float64)")
    parser.add_argument("--rounds", type=int, default=41, help="samples of each side (default 41)")
    parser.add_argument("--output", metavar="FILE", help="keep all samples, as JSON")
    parser.add_argument("--worker", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        _worker(options)
        return
    with tempfile.TemporaryDirectory(prefix="pybsp-sorting-") as directory:
        scratch = Path(directory) / "samples.json"
        command = [
            *launcher(options.n),
            sys.executable,
            "-m",
            "pybsp.benchmarks.studies.sorting",
            "--worker",
            str(scratch),
        ]
        command += ["--keys", str(options.keys), "--dtype", options.dtype, "--rounds", str(options.rounds)]
        subprocess.run(command, check=True, timeout=900)
        found = json.loads(scratch.read_text())
    ours, numpys = (np.array(found["samples"][side]) for side in ("sample_sort", "numpy"))
    ratios = ours / numpys
    table = Table(title=f"sorting {options.keys} {options.dtype} keys a rank: median (5th to 95th percentile)")
    for column in ("p", "sample_sort, ms", "numpy's sort of all keys, ms", "ratio", "bar"):
        table.add_column(column)
    table.add_row(
        str(options.n),
        _milliseconds(ours),
        _milliseconds(numpys),
        f"{np.median(ratios):.2f} ({np.percentile(ratios, 5):.2f} to {np.percentile(ratios, 95):.2f})",
        f"below {BAR:g}",
    )
    console = Console()
    if not console.is_terminal:
        console.width = 150
    console.print(
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; {found['library']}, numpy {np.__version__}, "
        f"Python {platform.python_version()}"
    )
    console.print(table)
    if options.output:
        kept = {"host": platform.node(), "processor": processor(), "cores": os.cpu_count(), "numpy": np.__version__}
        kept |= {"p": options.n, "keys": options.keys, "dtype": options.dtype, **found}
        Path(options.output).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
