"""Sieve of Eratosthenes: how many primes there are up to n.

The numbers are in blocks. Each processor finds the primes up to the square root of n by itself, which is less work than
to wait for them, and strikes out their multiples in its block.

Supersteps:

    count       w = the multiples in a block, about n/p * log(log(n)); then `collectives.allreduce.cost` of a number

Run it:

    mpiexec -n 4 python examples/textbook/sieve.py --size 10000000
    pybsp simulate -p 64 examples/textbook/sieve.py
"""

from __future__ import annotations

import argparse
from math import isqrt

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Block


def count(bsp: pybsp.BSP, n: int) -> int:
    """How many primes there are up to n, on every processor."""
    (mine,) = Block(n + 1, bsp.p).part(bsp.pid)
    primes, struck = primes_in(mine.start, mine.stop)
    bsp.work(struck)
    return int(collectives.allreduce(bsp, primes.size, np.add))


def primes_in(begin: int, end: int) -> tuple[NDArray[np.int64], int]:
    """The primes from begin to end - 1, on one processor, and how many multiples were struck out."""
    prime, struck = np.ones(end - begin, bool), 0
    prime[: max(2 - begin, 0)] = False
    for q in primes_up_to(isqrt(max(end - 1, 0))):
        first = max(q * q, -(-begin // q) * q) - begin
        prime[first::q] = False
        struck += len(range(first, prime.size, q))
    return np.asarray(np.flatnonzero(prime) + begin), struck


def primes_up_to(n: int) -> list[int]:
    """The primes up to n, on one processor."""
    prime = np.ones(n + 1, bool)
    prime[:2] = False
    for q in range(2, isqrt(n) + 1):
        if prime[q]:
            prime[q * q :: q] = False
    return [int(q) for q in np.flatnonzero(prime)]


def main(bsp: pybsp.BSP, n: int = 100_000) -> int:
    """The number of primes up to n."""
    if n < 0:
        raise ValueError(f"sieve: expected a size of at least 0, got {n}")
    with bsp.label("count"):
        found = count(bsp, n)
    if bsp.pid == 0:
        if found != len(primes_up_to(n)):
            raise ArithmeticError(f"sieve: differs from the sequential result: got {found} primes up to {n}")
        print(f"p = {bsp.p}: {found} primes up to {n}")
        print("agrees with the sequential result")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The number of primes up to SIZE.")
    parser.add_argument("--size", type=int, default=100_000, help="the largest number (default: %(default)s)")
    pybsp.run(main, n=parser.parse_args().size)
