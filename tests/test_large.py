"""Large counts on MPI ranks: messages of more than 2 GiB, alone and together, and a ledger of a million supersteps."""

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


STRINGS = """
import pybsp

COUNT, SIZE = 145_000, 15_000  # 2.17 GB

def text(k):
    return f"{k} ".ljust(SIZE, "x")

def main(bsp):
    if bsp.pid == 1:
        for k in range(COUNT):
            bsp.send(0, text(k))
    bsp.sync()
    for k, message in enumerate(bsp.inbox):
        assert (message.source, message.payload) == (1, text(k)), k
    if bsp.pid == 0:
        print("arrived", len(bsp.inbox), flush=True)

pybsp.run(main)
"""


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_many_messages_of_more_than_2_gib_together(tmp_path: Path) -> None:
    if available() < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GiB of free memory, {available() >> 30} are available")
    program = tmp_path / "program.py"
    program.write_text(STRINGS)
    ended = run([*mpiexec(2), *python(program)], 550)
    assert ended.code == 0, ended.err[-3000:]
    assert ended.out == "arrived 145000\n"


LEDGER = """
import pybsp

SUPERSTEPS = 1_000_000

def memory(name):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))

def main(bsp):
    bsp.sync()
    assert len(bsp.ledger) == 1
    before = memory("VmRSS")
    for _ in range(SUPERSTEPS):
        bsp.sync()
    after = memory("VmRSS")
    assert after - before < 100 * SUPERSTEPS, (before, after)
    assert len(bsp.ledger) == SUPERSTEPS + 1
    most = memory("VmHWM")
    assert most - after < 64 << 20, (after, most)  # beyond its own
    return True

assert pybsp.run(main)
"""


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.timeout(1200)
def test_a_ledger_of_a_million_supersteps_takes_little_memory(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LEDGER)
    ended = run([*mpiexec(2), *python(program)], 1150)
    assert (ended.code, ended.out, ended.err) == (0, "", ""), ended
