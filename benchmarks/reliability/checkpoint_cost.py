"""What a checkpoint takes, beside numpy.save and fsync of the same bytes, and what a superstep pays where none is due.

    mpiexec -n 2 python -m pybsp.benchmarks.reliability.checkpoint_cost [--mib 256] [--rounds 5] [--folder DIR]

Rounds of both are interleaved; each is timed from a moment at which all ranks begin until the last has ended, with
fsync, and, of a checkpoint, its manifest. Of supersteps: empty ones with and without a `bsp.checkpoint` of which none
is due, and with no checkpoints asked for, in turns.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import pybsp
from pybsp import collectives

from ..studies.frame import Study

SUPERSTEPS = 20_000


def writing(bsp: pybsp.BSP, mebibytes: int, rounds: int, folder: str) -> list[tuple[float, float, float]]:
    """Seconds of numpy.save with fsync, of a checkpoint until it counts, and for which the program waits for that."""
    values = np.random.default_rng(bsp.pid).random(mebibytes << 17)
    state: Any = bsp.restore(None)
    path, times = Path(folder) / f"plain-{bsp.pid}.npy", []
    saver = bsp._superstep.saver
    assert state is None
    assert saver is not None
    for _ in range(rounds + 1):
        bsp.sync()
        begin = time.perf_counter()
        with path.open("wb") as file:
            np.save(file, values)
            file.flush()
            os.fsync(file.fileno())
        bsp.sync()
        plain = time.perf_counter() - begin
        path.unlink()
        bsp.sync()
        begin = time.perf_counter()
        bsp.checkpoint({"values": values})
        waited = time.perf_counter() - begin
        saver.close()  # as at the end of a run: it counts from here on
        bsp.sync()
        whole = time.perf_counter() - begin
        times.append([plain, whole, waited])
    every = collectives.allgather(bsp, np.array(times[1:]))
    return [tuple(row) for row in np.max(every, axis=0).tolist()]


def supersteps(bsp: pybsp.BSP, offers: bool) -> float:
    """Seconds of a superstep, in the median of five thousand at a time."""
    state = bsp.restore({"step": 0})
    found = []
    for _ in range(SUPERSTEPS // 5000):
        begin = time.perf_counter()
        if offers:
            for _ in range(5000):
                bsp.sync()
                bsp.checkpoint(state)
        else:
            for _ in range(5000):
                bsp.sync()
        found.append((time.perf_counter() - begin) / 5000)
    return statistics.median(found)


def main() -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("--mib", type=int, default=256, help="of each rank; 0: supersteps alone")
    study.add_argument("--rounds", type=int, default=5, help="of writing")
    study.add_argument("--folder", default=tempfile.gettempdir(), help="where checkpoints are written")
    options = study.begin()
    from mpi4py import MPI

    # A new one, so that no run goes on from what another has left.
    place = tempfile.mkdtemp(prefix="pybsp-checkpoint-cost-", dir=options.folder) if MPI.COMM_WORLD.rank == 0 else ""
    place = MPI.COMM_WORLD.bcast(place)
    if options.mib:
        times = pybsp.run(
            writing, options.mib, options.rounds, options.folder, checkpoint=os.path.join(place, "a"), every=1
        )
        plain, whole, waited = (statistics.median(column) for column in zip(*times, strict=True))
    turns: list[list[float]] = [[], [], []]
    for _ in range(5):
        turns[0].append(pybsp.run(supersteps, False))
        turns[1].append(pybsp.run(supersteps, True))
        turns[2].append(pybsp.run(supersteps, True, checkpoint=os.path.join(place, "b"), every="1h"))
    without, off, none_due = (1e6 * statistics.median(one) for one in turns)
    if MPI.COMM_WORLD.rank == 0:
        shutil.rmtree(place)
        if options.mib:
            study.rows(
                "writing",
                f"{options.mib} MiB a rank, in seconds",
                "numpy.save, fsync [.3f] | checkpoint [.3f] | times as long [.2f] | the program waits [.3f]",
                [(plain, whole, whole / plain, waited)],
            )
        study.rows(
            "supersteps",
            "a superstep, in us",
            "without [.2f] | more with bsp.checkpoint [+.2f] | more where checkpoints are written, none due [+.2f]",
            [(without, off - without, none_due - without)],
        )
        study.end()


if __name__ == "__main__":
    main()
