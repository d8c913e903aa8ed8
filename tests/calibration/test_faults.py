"""Faults on purpose, on real ranks: a calibration says so. More: studies/calibration_faults.py."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pybsp.benchmarks.studies.calibration_faults import TOKEN, calibrated, faults, hogged, pid_of, slowed
from tests.launching import mpiexec, start

RATES = ("--quick", "--only", "rate", "--budget", "8")


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="ranks are found by /proc")
def test_a_slow_rank_is_flagged(tmp_path: Path) -> None:
    flags = calibrated(faults()["slow-rank"], tmp_path / "machine.json", RATES)
    assert "processor 1" in {flag.about for flag in flags if flag.code == "slow-processor"}


@pytest.mark.whole
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not say which cores there are")
def test_more_ranks_than_cores_are_flagged(tmp_path: Path) -> None:
    flags = calibrated(faults()["oversubscribed"], tmp_path / "machine.json", RATES)
    assert "oversubscribed" in {flag.code for flag in flags}


@pytest.mark.whole
def test_two_ranks_on_two_cores_are_not_oversubscribed(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    flags = calibrated(faults()["quiet"], tmp_path / "machine.json", RATES)
    assert "oversubscribed" not in {flag.code for flag in flags}


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="ranks are found by /proc")
def test_a_fault_is_for_the_ranks_of_its_token_alone() -> None:
    program = "from mpi4py import MPI\nimport time\nprint(MPI.COMM_WORLD.rank, flush=True)\ntime.sleep(60)"
    job = start([*mpiexec(2), sys.executable, "-c", program], **{TOKEN: "this-one"})
    assert job.stdout is not None
    try:
        assert sorted(job.stdout.read(4)) == ["\n", "\n", "0", "1"]  # the launcher may mix the lines
        pid = pid_of("this-one", 1)
        assert pid is not None
        assert pid not in {job.pid, os.getpid(), pid_of("this-one", 0)}
        assert pid_of("another", 1) is None
    finally:
        job.terminate()
        job.communicate(timeout=20)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found by /proc")
@pytest.mark.parametrize("fault", [hogged, slowed])
def test_what_a_fault_starts_ends_with_it(fault: Callable[[str], AbstractContextManager[None]]) -> None:
    processes, threads = children(), threading.active_count()
    with fault("no-rank-has-this"):
        assert (children(), threading.active_count()) != (processes, threads)
    assert (children(), threading.active_count()) == (processes, threads)


def children() -> set[str]:
    """Processes that this one has started."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(stat.parent.name)
    return found
