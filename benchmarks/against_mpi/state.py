"""The state of the machine: a virtual one changes, and what that does to figures is seen here.

The bandwidth of numpy's copy, of one process while the others wait, and of all at once; half of the round trip of 8
bytes between the first rank and the last, by raw mpi4py; how fast Python itself runs here; the load.
"""

from __future__ import annotations

import os
import platform
import time
import timeit
from pathlib import Path
from typing import Any

import numpy as np

from pybsp.compiled import core

from ..calibration.placement import processor
from ..studies.frame.study import about
from .variants import ComparisonJob

SIZES = {"256 KiB": 1 << 18, "64 MiB": 1 << 26}
SECONDS = 0.03  # a measurement takes about so long
REPEATS = 5
ROUND_TRIPS = 200
PLAIN = 500  # calls in a row


def state(job: ComparisonJob) -> dict[str, Any]:
    """Collective; processor 0's is the one to keep.

    Returns:
        copy: by size, GB/s of each process: one alone, and all at once (the slowest).
        half_round_trip: seconds; None with one processor.
        plain_python: seconds of `np.broadcast_to(x, (1024,))`, which is interpreted; of processor 0 alone.
        load: of the last minute.
    """
    load = os.getloadavg()[0]
    copies = {}
    for text, size in SIZES.items():
        source, into = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        alone = _copying(source, into) if job.pid == 0 else 0.0
        job.bsp.sync()
        everybody = job.comm.allgather(_copying(source, into))
        copies[text] = {"one process": alone, "all at once": min(everybody)}
    plain = _plain_python() if job.pid == 0 else 0.0
    job.bsp.sync()
    return {"copy": copies, "half_round_trip": _half_round_trip(job), "plain_python": plain, "load": load}


def _plain_python() -> float:
    """Seconds, median."""
    x = np.zeros(1)
    found = timeit.repeat(lambda: np.broadcast_to(x, (1024,)), number=PLAIN, repeat=REPEATS)
    return float(np.median(found)) / PLAIN


def _copying(source: np.ndarray[Any, Any], into: np.ndarray[Any, Any]) -> float:
    """GB/s, median."""
    np.copyto(into, source)
    begin = time.perf_counter()
    np.copyto(into, source)
    count = max(1, int(SECONDS / REPEATS / (time.perf_counter() - begin)))
    found = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _ in range(count):
            np.copyto(into, source)
        found.append(1e-9 * count * source.size / (time.perf_counter() - begin))
    return float(np.median(found))


def _half_round_trip(job: ComparisonJob) -> float | None:
    """Seconds, median."""
    from mpi4py import MPI

    comm, last, token = job.comm, job.p - 1, np.zeros(1)
    if not last:
        return None
    found = []
    if job.pid in (0, last):
        other, message = last - job.pid, [token, 1, MPI.DOUBLE]
        for _ in range(ROUND_TRIPS):
            begin = time.perf_counter()
            if job.pid == 0:
                comm.Send(message, other)
                comm.Recv(message, other)
            else:
                comm.Recv(message, other)
                comm.Send(message, other)
            found.append((time.perf_counter() - begin) / 2)
    job.bsp.sync()
    return float(np.median(found)) if found else None


def machine() -> dict[str, Any]:
    """What does not change: of this host, and of what runs here."""
    import mpi4py

    return {
        **about(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "mpi4py": mpi4py.__version__,
        "compiled": core is not None,
    }


def available() -> int:
    """Bytes of memory that can be had; very many where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 60
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 1 << 60)
