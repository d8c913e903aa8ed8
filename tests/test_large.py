"""Single messages of more than 2 GiB on MPI ranks: counts of 32 bits must not be in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from .launching import mpiexec, python, run

NEEDED = 12 << 30  # bytes

PROGRAM = """
import sys
import numpy as np, pybsp

SIZE = (1 << 31) + 12_345  # bytes, odd

def main(bsp):
    last = bsp.pid == bsp.p - 1
    if sys.argv[1] == "send":
        if bsp.pid == 0:
            big = np.zeros(SIZE, np.uint8)
            big[[0, 1 << 30, (1 << 31) - 1, 1 << 31, -1]] = 1, 2, 3, 4, 5
            bsp.send(bsp.p - 1, big, tag="big")
            del big
        bsp.sync()
        if not last:
            return 0
        (message,) = bsp.inbox
        got = message.payload
        assert message.tag == "big"
    else:
        x = bsp.array(SIZE if last else 0, np.uint8)
        bsp.sync()
        if bsp.pid == 0:
            big = np.zeros(SIZE, np.uint8)
            big[[0, 1 << 30, (1 << 31) - 1, 1 << 31, -1]] = 1, 2, 3, 4, 5
            x.put(bsp.p - 1, big)
            del big
        bsp.sync()
        got = x.local
        if not last:
            return 0
    assert got.shape == (SIZE,)
    assert got[[0, 1 << 30, (1 << 31) - 1, 1 << 31, -1]].tolist() == [1, 2, 3, 4, 5]
    assert np.count_nonzero(got) == 5
    print("arrived", got.size, flush=True)
    return got.size

pybsp.run(main)
"""


def available() -> int:
    """Bytes of memory that can be had without swapping; 0 where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)


@pytest.mark.whole
@pytest.mark.parametrize("operation", ["send", "put"])
@pytest.mark.timeout(200)
def test_one_message_of_more_than_2_gib(operation: str, tmp_path: Path) -> None:
    if available() < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GiB of free memory, {available() >> 30} are available")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = run([*mpiexec(2), *python(program, operation)], 150)
    assert ended.code == 0, ended.err[-3000:]
    assert ended.out == f"arrived {(1 << 31) + 12_345}\n"
