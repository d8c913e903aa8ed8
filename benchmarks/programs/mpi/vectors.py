"""Inner product, sieve and k-means."""

from __future__ import annotations

from math import isqrt

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.kmeans import Points, cluster_sums, moved
from examples.textbook.sieve import primes_up_to

Vector = NDArray[np.float64]


def inner_product(comm: MPI.Intracomm, x: Vector, y: Vector) -> float:
    total = np.array(x @ y)
    comm.Allreduce(MPI.IN_PLACE, total)
    return float(total)


def sieve(comm: MPI.Intracomm, n: int) -> NDArray[np.int64]:
    first, last = ((n + 1) * k // comm.size for k in (comm.rank, comm.rank + 1))
    prime = np.ones(last - first, bool)
    prime[: max(2 - first, 0)] = False
    for q in primes_up_to(isqrt(n)):
        prime[max(q * q, -(-first // q) * q) - first :: q] = False
    return np.asarray(np.flatnonzero(prime) + first)


def count(comm: MPI.Intracomm, n: int) -> int:
    total = np.array(sieve(comm, n).size)
    comm.Allreduce(MPI.IN_PLACE, total)
    return int(total)


def kmeans(comm: MPI.Intracomm, points: Points, centres: Points, steps: int) -> Points:
    for _ in range(steps):
        sums = cluster_sums(points, centres)
        comm.Allreduce(MPI.IN_PLACE, sums)
        centres = moved(sums, centres)
    return centres
