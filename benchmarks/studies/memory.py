"""Memory: that it stays flat over many supersteps, and what a large exchange takes.

    python -m pybsp.benchmarks.studies.memory [-n 2] [--supersteps 1000000] [--bytes 1073741824]

Bytes of all processors together, by what the system says of each (proportional set size, where memory that several
share is divided among them). For the first: what is resident after a tenth of the supersteps and at the end, per
superstep and processor; the ledger keeps 88 bytes of each. For the second: every processor sends so many bytes to the
next one, several times in a row; what is resident then beside the program's arrays and what was before, over the bytes
sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pybsp
from pybsp import collectives

from .frame import Study, on_ranks


def resident() -> int:
    """Bytes of this process; without files, as libraries, whose share depends on who else uses them at the time."""
    found = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    if "Pss_Anon" not in found:
        raise RuntimeError("/proc/self/smaps_rollup has no Pss_Anon")
    return sum(int(found[name].split()[0]) << 10 for name in ("Pss_Anon", "Pss_Shmem"))


def together(bsp: pybsp.BSP) -> int:
    """Bytes of all processors."""
    return int(collectives.allreduce(bsp, resident(), np.add))


def many_supersteps(bsp: pybsp.BSP, supersteps: int) -> dict[str, Any]:
    """Supersteps without and with messages: bytes that each leaves behind, per processor."""
    payload = np.zeros(1000)

    def some(count: int) -> None:
        for k in range(count):
            if k % 100 == 0:
                bsp.send((bsp.pid + 1) % bsp.p, payload)
            bsp.sync()

    some(supersteps // 10)
    before = together(bsp)
    some(supersteps - supersteps // 10)
    after = together(bsp)
    left = (after - before) / (supersteps - supersteps // 10) / bsp.p
    return {"supersteps": supersteps, "bytes of a superstep": left}


def large_exchange(bsp: pybsp.BSP, size: int) -> dict[str, Any]:
    """The most that is resident beside the program's arrays, over the bytes sent."""
    block = np.ones(size, np.uint8)  # all of it touched
    bsp.sync()
    before = together(bsp)
    most = 0
    for k in range(5):
        block[0] = k
        bsp.send((bsp.pid + 1) % bsp.p, block)
        bsp.sync()
        received = bsp.inbox[0].payload
        assert received.size == size
        assert received[0] == k
        assert int(received[:: 1 << 12].sum(dtype=np.int64)) == k + len(received[:: 1 << 12]) - 1
        most = max(most, together(bsp))  # nobody fills memory with the next one before all have looked
        del received
    return {"bytes": size, "times the data": (most - before) / (size * bsp.p)}


def on_these(supersteps: int, size: int) -> list[dict[str, Any]]:
    """Both, on the ranks of this job."""
    return pybsp.run(lambda bsp: [many_supersteps(bsp, supersteps), large_exchange(bsp, size)])


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__)
    study.add_argument("-n", type=int, default=2, help="processors")
    study.add_argument("--supersteps", type=int, default=1_000_000)
    study.add_argument("--bytes", type=int, default=1 << 30, help="that each processor sends")
    options = study.begin(arguments)
    many, large = on_ranks(on_these, options.supersteps, options.bytes, n=options.n)
    print(f"{many['supersteps']} supersteps: {many['bytes of a superstep']:.1f} bytes each stay, on every processor")
    print(f"{large['bytes']} bytes from every processor: {large['times the data']:.2f} times that, beside the arrays")


if __name__ == "__main__":
    main()
