"""`sample_sort` on several ranks against numpy's sort of all keys in one process, interleaved in one run.

    python -m pybsp.benchmarks.studies.sorting [-n 2] [--keys 1000000] [--dtype float64] [--output FILE]

starts itself under mpiexec and prints a table: medians, the spread (5th to 95th percentile) of each side, and the ratio
of the two, pair by pair. Each rank has so many random keys; numpy sorts the keys of all ranks, which lie ready in
rank 0, while the others wait. Both sides leave their input as it was.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp.collectives.sample_sort import sample_sort

from ..calibration.placement import processor
from .frame import Study, in_turns, library, on_ranks, spread, table

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

    def checked() -> None:
        gathered = comm.gather(sample_sort(bsp, keys))
        if gathered is not None and not np.array_equal(np.concatenate(gathered), np.sort(everything)):
            raise RuntimeError("sample_sort gave wrong results")

    def timed(run: Callable[[], object]) -> float:
        bsp.sync()
        start = time.perf_counter()
        run()
        return float(comm.allreduce(time.perf_counter() - start, MPI.MAX))

    checked()
    sides = {"sample_sort": partial(sample_sort, bsp, keys), "numpy": partial(np.sort, everything)}
    samples = in_turns({side: partial(timed, run) for side, run in sides.items()}, rounds, WARM_UP)
    comm.Free()
    return samples


def on_these(n: int, dtype: str, rounds: int) -> dict[str, Any]:
    """What the ranks of this job find."""
    samples = pybsp.run(measure, n, dtype, rounds)
    return {"library": library(), "samples": samples}


def main() -> None:
    """Run the comparison and print it."""
    study = Study(__doc__, keep="--output")
    study.add_argument("-n", type=int, default=2, metavar="P", help="ranks")
    study.add_argument("--keys", type=int, default=10**6, help="keys of each rank")
    study.add_argument("--dtype", default="float64", help="of the keys")
    study.add_argument("--rounds", type=int, default=41, help="samples of each side")
    options = study.begin()
    found = on_ranks(on_these, options.keys, options.dtype, options.rounds, n=options.n, limit=900)
    ours, numpys = (np.array(found["samples"][side]) for side in ("sample_sort", "numpy"))
    study.show(
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; {found['library']}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
        table(
            f"sorting {options.keys} {options.dtype} keys a rank: median (5th to 95th percentile)",
            "p | sample_sort, ms | numpy's sort of all keys, ms | ratio | bar",
            [f"{options.n} | {spread(ours, 1e-3)} | {spread(numpys, 1e-3)} | {spread(ours / numpys)} | below {BAR:g}"],
        ),
    )
    content = {"processor": processor(), "cores": os.cpu_count()}
    study.end(content | {"p": options.n, "keys": options.keys, "dtype": options.dtype, **found})


if __name__ == "__main__":
    main()
