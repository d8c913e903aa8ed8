"""The tests in tests/spmd/ on MPI ranks: each p is one mpiexec with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from .launching import mpiexec, python
from .tiers import ON_RANKS, SIZES

HERE = Path(__file__).parent
LIMIT = 1500  # seconds for one p; a hanging test is ended by pytest-timeout before


@pytest.mark.fast(str(ON_RANKS))
@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("p", SIZES)
def test_spmd_tests_pass_on_mpi_ranks(p: int, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    every = ["--all"] if pytestconfig.getoption("--all") else []
    command = [*mpiexec(p), *python(HERE / "one_rank.py", str(tmp_path), *every, str(HERE / "spmd"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as job:
        try:
            output, _ = job.communicate(timeout=LIMIT)
            late = ""
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            output, _ = job.communicate()
            late = f"no end within {LIMIT} s; "
    logs = {rank: tmp_path / f"rank-{rank}.txt" for rank in range(p)}
    texts = {rank: log.read_text() if log.exists() else "(never started)" for rank, log in logs.items()}
    codes = {rank: tmp_path / f"exit-{rank}" for rank in range(p)}
    bad = [rank for rank in range(p) if not codes[rank].exists() or codes[rank].read_text() != "0"]
    failed = bool(bad) or bool(late) or job.returncode != 0
    assert not failed, (
        f"{late}mpiexec -n {p} ended with {job.returncode}; ranks {bad} failed; rank {bad[0] if bad else 0} printed:\n"
        f"{texts[bad[0] if bad else 0][-6000:]}\nmpiexec printed:\n{output.decode()[-1000:]}"
    )
    assert all(" passed" in text for text in texts.values())
