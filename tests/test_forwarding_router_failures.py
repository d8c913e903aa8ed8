"""Runs whose supersteps are forwarded fail as others do: said once, and no rank is left behind."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from .launching import LIMIT, Ended, failed_once, mpiexec, python, run

ROUTERS = ("two-phase", "hypercube")


def job(directory: Path, text: str, p: int, grace: str = "1000") -> Ended:
    """Run a program on p ranks."""
    path = directory / "program.py"
    path.write_text("import os, time\nimport pybsp\n" + dedent(text))
    return run([*mpiexec(p), *python(path)], LIMIT, PYBSP_GRACE=grace)


@pytest.mark.whole
@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("failing", [1, 4])
def test_a_processor_raises_while_others_send(tmp_path: Path, router: str, failing: int) -> None:
    ended = job(
        tmp_path,
        f"""
        def main(bsp):
            for dest in range(bsp.p):
                bsp.send(dest, bytes(5000))
            bsp.sync()
            if bsp.pid == {failing}:
                raise ValueError("boom")
            bsp.send({failing}, bytes(500000))
            bsp.sync()
        pybsp.run(main, router="{router}")
        """,
        5,
    )
    failed_once(ended, "ValueError: boom")
    assert f"(on processor {failing} of 5, in superstep 1)" in ended.err


@pytest.mark.whole
@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("absent", [0, 4])
def test_others_that_never_come_end_the_job(tmp_path: Path, router: str, absent: int) -> None:
    ended = job(
        tmp_path,
        f"""
        def main(bsp):
            bsp.sync()
            if bsp.pid == 2:
                raise ValueError("boom")
            if bsp.pid == {absent}:
                time.sleep(1000)
            bsp.sync()
        pybsp.run(main, router="{router}")
        """,
        5,
        grace="1",
    )
    failed_once(ended, "ValueError: boom")
    assert "not all others reached a sync within 1 s (PYBSP_GRACE); ending the job" in ended.err


@pytest.mark.whole
@pytest.mark.fast("two-phase")
@pytest.mark.parametrize("router", ROUTERS)
def test_a_rank_that_ends_while_others_begin_another_run_is_an_error(tmp_path: Path, router: str) -> None:
    ended = job(
        tmp_path,
        f"""
        def main(bsp):
            bsp.send(0, 1.0)
            bsp.sync()
            return bsp.pid
        if pybsp.run(main, router="{router}") != 3:
            pybsp.run(main, router="{router}")
        """,
        4,
    )
    failed_once(ended, "pybsp.errors.SyncError: the processors did not do the same")
    assert "processor 3 left the job" in ended.err
