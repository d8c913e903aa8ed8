"""A program across hosts that share no memory, where emulated hosts are at hand."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from .clusters import ENVIRONMENT, missing, on_hosts
from .launching import python, run

pytestmark = [pytest.mark.whole, pytest.mark.skipif(bool(missing), reason=missing)]

LIMIT = 120  # seconds of a job; others may have to end theirs first

PROGRAM = """
import socket, sys
import numpy as np
import pybsp

def main(bsp):
    x, q = bsp.array(4), bsp.queue(np.int64)
    right = (bsp.pid + 1) % bsp.p
    bsp.send(right, np.full(100_000, bsp.pid))
    q.send(np.arange(bsp.p), np.full(bsp.p, bsp.pid))
    bsp.sync()
    with bsp.superstep("put"):
        assert (bsp.inbox[0].payload == (bsp.pid - 1) % bsp.p).all()
        assert q.values.tolist() == list(range(bsp.p))
        x.put(right, bsp.pid)
        if "fails" in sys.argv and bsp.pid == 2:
            raise ValueError("boom")
    assert (type(bsp._transport).__name__ == "Aggregated") == (bsp.p > 4)
    assert (x.local == (bsp.pid - 1) % bsp.p).all()
    bsp.send(0, socket.gethostname())
    bsp.sync()
    return [m.payload for m in bsp.inbox]

hosts = pybsp.run(main)
if hosts:
    print("hosts", *hosts)
"""


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("each", [1, 3])  # ranks of a host; of three, the first speaks for all
def test_a_program_runs_across_hosts(tmp_path: Path, each: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(PROGRAM))
    ended = run(on_hosts(4, python(path), each), LIMIT, **ENVIRONMENT)
    assert ended.code == 0, ended
    hosts = re.search(r"^hosts (.*)$", ended.out, re.MULTILINE)
    assert hosts, ended
    assert len(set(hosts.group(1).split())) == 4


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("each", [1, 3])
def test_a_failure_on_one_host_ends_the_job_on_all(tmp_path: Path, each: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(PROGRAM))
    ended = run(on_hosts(4, python(path, "fails"), each), LIMIT, **ENVIRONMENT)
    assert ended.code != 0
    assert ended.err.count("Traceback") == 1, ended.err
    assert "ValueError: boom" in ended.err


@pytest.mark.timeout(LIMIT + 30)
def test_a_rank_that_leaves_without_python_ends_the_job_on_all_hosts(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import os, pybsp\npybsp.run(lambda bsp: os._exit(3) if bsp.pid == 1 else bsp.sync())\n")
    ended = run(on_hosts(2, python(path)), LIMIT, **ENVIRONMENT)
    assert ended.code != 0
    assert "pybsp: processor 1 called os._exit(3) before the job has ended" in ended.err


COLLECTIVES = """
import operator
import numpy as np
import pybsp
from pybsp import collectives

def main(bsp):
    p, pid = bsp.p, bsp.pid
    for n in (0, 1, 3, 1000, 100_000):
        data = np.random.default_rng(n).random((p, n))
        for ways in (collectives.broadcast, collectives.broadcast_items):
            assert np.array_equal(ways(bsp, data[1] if pid == 1 else None, 1), data[1])
        sums = np.cumsum(data, axis=0)
        assert np.array_equal(collectives.prefix(bsp, data[pid], np.add), sums[pid])
        assert np.array_equal(collectives.prefix_2d(bsp, data[pid], np.add), sums[pid])
        assert np.allclose(collectives.allreduce(bsp, data[pid], np.add), sums[-1])
        assert np.array_equal(collectives.bitonic_sort(bsp, data[pid]), np.sort(data.ravel())[pid * n : (pid + 1) * n])
        parts = collectives.gather(bsp, collectives.sample_sort(bsp, data[pid]))
        assert pid or np.array_equal(np.concatenate(parts), np.sort(data.ravel()))
    assert collectives.prefix(bsp, "abcd"[pid], operator.add) == "abcd"[: pid + 1]
    return collectives.gather(bsp, collectives.duplicate(bsp, [pid], [pid]))

pieces = pybsp.run(main, machine=pybsp.BSPMachine(p=4, g=3.3e-7, l=2e-3, r=1e9))
if pieces:
    print("copies", pieces)
"""


@pytest.mark.timeout(LIMIT + 30)
def test_collectives_run_across_hosts(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(COLLECTIVES))
    ended = run(on_hosts(4, python(path)), LIMIT, **ENVIRONMENT)
    assert ended.code == 0, ended
    assert "copies [[1, 2], [2, 3], [3, 3], []]" in ended.out, ended


COMPUTES_ON = """
import os, sys
import numpy as np
import pybsp

def main(bsp):
    data = np.arange(1 << 19)  # 4 MiB
    bsp.sync()
    if bsp.pid == 0:
        bsp.send(1, data)
    bsp.sync()
    if bsp.pid == 0:
        while not os.path.exists(sys.argv[1]):  # no call of MPI
            pass
    if bsp.pid == 1:
        assert np.array_equal(bsp.inbox[0].payload, data)
        open(sys.argv[1], "w").close()

pybsp.run(main)
"""


@pytest.mark.timeout(LIMIT + 30)
def test_who_receives_a_large_message_does_not_wait_for_its_sender_to_compute(tmp_path: Path) -> None:
    """Else the sender would compute for ever."""
    path = tmp_path / "program.py"
    path.write_text(dedent(COMPUTES_ON))
    ended = run(on_hosts(2, python(path, str(tmp_path / "received"))), LIMIT, **ENVIRONMENT)
    assert ended.code == 0, ended


KEEPS = """
import sys
import numpy as np
import pybsp

def main(bsp):
    q = bsp.queue()  # refers to bsp, and bsp to it
    for dest in range(bsp.p):
        bsp.send(dest, np.arange(3000))
    bsp.sync()
    if "fails" in sys.argv and bsp.pid == 1:
        raise ValueError("boom")
    bsp.sync()
    for dest in range(bsp.p):
        bsp.send(dest, np.full(3000, bsp.pid))
    bsp.sync()
    return [message.payload for message in bsp.inbox] if "keeps" in sys.argv else []

kept = pybsp.run(main)
sys.stdout.write(f"sums {[int(one.sum()) for one in kept]}\\n")  # in one piece
"""


@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("what", ["", "keeps", "fails"])
def test_two_ranks_on_each_of_two_hosts_leave_no_shared_memory_behind(tmp_path: Path, what: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(KEEPS))
    # MPI between hosts cannot be finalized with a window that was not freed.
    ended = run(on_hosts(2, python(path, what), 2), LIMIT, **ENVIRONMENT)
    assert (ended.code != 0) == (what == "fails"), ended
    assert "inalize" not in ended.err + ended.out, ended
    if what == "keeps":
        assert ended.out.count("sums [0, 3000, 6000, 9000]") == 4, ended
    if what == "fails":
        assert ended.err.count("Traceback") == 1, ended.err
