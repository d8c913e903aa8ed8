"""Sample sort of records: each a key and 24 bytes that belong to it.

Each processor sorts its records and takes samples; all know all samples, and so the splitters between processors; the
records go where they belong, and are merged. (H. Shi and J. Schaeffer, Parallel sorting by regular sampling, 1992.)

Supersteps, for n records a processor:

    sort        2, and none on one processor: h = (p - 1) * (p + 1) words of samples; then at most 2 * n records go to a
                processor, each 4 words: `collectives.sample_sort.cost` has it exactly, with the comparisons
    order       every processor's number of records, first and last key go to all, pickled: about 6 * (p - 1) words

Run it:

    mpiexec -n 4 python examples/textbook/record_sort.py --records 100000
    pybsp simulate -p 64 examples/textbook/record_sort.py --records 5000
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives

RECORD = np.dtype([("key", np.int64), ("payload", np.int64, 3)])
Records = NDArray[np.void]


def record_sort(bsp: pybsp.BSP, records: Records) -> Records:
    """This processor's part of the records of all in the order of their keys."""
    return np.rec.fromarrays(collectives.sample_sort(bsp, records["key"], records["payload"]), RECORD)


def random_records(n: int, pid: int) -> Records:
    """n records of a processor, whose payloads can be computed from their keys."""
    records = np.empty(n, RECORD)
    records["key"] = np.random.default_rng(pid).integers(-(2**62), 2**62, n)
    records["payload"] = payload_of(records["key"])
    return records


def payload_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    return keys[:, None] ^ np.arange(1, 4)


def main(bsp: pybsp.BSP, n: int = 1000) -> Records:
    """This processor's part of n * p sorted records."""
    if n < 0:
        raise ValueError(f"record_sort: expected at least 0 records, got {n}")
    records = random_records(n, bsp.pid)
    with bsp.label("sort"):
        ordered = record_sort(bsp, records)
    keys = ordered["key"]
    with bsp.label("order"):
        ends = collectives.allgather(bsp, (keys.size, keys[:1].tolist(), keys[-1:].tolist()))
    bounds = [key for _, first, last in ends for key in first + last]
    together = (sum(size for size, *_ in ends), bounds, bool((np.diff(keys) >= 0).all()))
    if together != (n * bsp.p, sorted(bounds), True) or (ordered["payload"] != payload_of(keys)).any():
        raise ArithmeticError("record_sort: the records are not in order, or not with their payloads")
    if bsp.pid == 0:
        print(f"p = {bsp.p}: {n * bsp.p} records, from {min(bounds, default=None)} to {max(bounds, default=None)}")
        print("agrees with the order of keys")
    return ordered


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Sample sort of random records.")
    parser.add_argument("--records", type=int, default=1000, help="records a processor (default: %(default)s)")
    pybsp.run(main, n=parser.parse_args().records)
