"""Inner product, sieve and k-means."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.kmeans import Points, cluster_sums, moved
from examples.textbook.sieve import primes_in

Vector = NDArray[np.float64]


def inner_product(comm: MPI.Intracomm, x: Vector, y: Vector) -> float:
    total = np.array(x @ y)
    comm.Allreduce(MPI.IN_PLACE, total)
    return float(total)


def count(comm: MPI.Intracomm, n: int) -> int:
    begin, end = ((n + 1) * k // comm.size for k in (comm.rank, comm.rank + 1))
    total = np.array(primes_in(begin, end)[0].size)
    comm.Allreduce(MPI.IN_PLACE, total)
    return int(total)


def kmeans(comm: MPI.Intracomm, points: Points, centres: Points, steps: int) -> Points:
    for _ in range(steps):
        sums = cluster_sums(points, centres)
        comm.Allreduce(MPI.IN_PLACE, sums)
        centres = moved(sums, centres)
    return centres
