"""Runs whose supersteps go by LogP messages fail as others do: said once, and no rank is left behind."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

import pybsp

from .launching import LIMIT, Ended, failed_once, mpiexec, python, run

ALGORITHMS = ("sorted", "offline", "random")


def job(directory: Path, text: str, p: int, grace: str = "1000") -> Ended:
    """Run a program on p ranks."""
    path = directory / "program.py"
    path.write_text("import os, time\nimport pybsp\nfrom pybsp.routing import logp_router\n" + dedent(text))
    return run([*mpiexec(p), *python(path)], LIMIT, PYBSP_GRACE=grace)


@pytest.mark.whole
@pytest.mark.fast("offline")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_processor_raises_while_others_send(tmp_path: Path, algorithm: str) -> None:
    ended = job(
        tmp_path,
        f"""
        def main(bsp):
            for dest in range(bsp.p):
                bsp.send(dest, bytes(5000))
            bsp.sync()
            if bsp.pid == 2:
                raise ValueError("boom")
            bsp.send(2, bytes(5000))
            bsp.sync()
        pybsp.run(main, router="logp-{algorithm}")
        """,
        4,
    )
    failed_once(ended, "ValueError: boom")
    assert "(on processor 2 of 4, in superstep 1)" in ended.err


@pytest.mark.whole
@pytest.mark.parametrize("capacity", ["global", "per-pair", None])
def test_others_that_never_come_end_the_job(tmp_path: Path, capacity: str | None) -> None:
    ended = job(
        tmp_path,
        f"""
        def main(bsp):
            bsp.sync()
            if bsp.pid == 2:
                raise ValueError("boom")
            if bsp.pid == 1:
                time.sleep(1000)
            bsp.sync()
        pybsp.run(main, router=logp_router("sorted", capacity={capacity!r}))
        """,
        4,
        grace="1",
    )
    failed_once(ended, "ValueError: boom")
    assert "not all others reached a sync within 1 s (PYBSP_GRACE); ending the job" in ended.err


@pytest.mark.whole
def test_different_options_are_an_error_at_the_beginning(tmp_path: Path) -> None:
    ended = job(
        tmp_path,
        """
        RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
        pybsp.run(lambda bsp: None, router=logp_router("sorted", seed=RANK // 2))
        """,
        3,
    )
    failed_once(ended, "pybsp.errors.UsageError: pybsp.run: argument router: expected the same on all processors")


@pytest.mark.whole
def test_the_ledger_says_which_router_it_was(tmp_path: Path) -> None:
    ended = job(
        tmp_path,
        """
        os.environ["PYBSP_LEDGER"] = "ledger.json"
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        def main(bsp):
            bsp.send(0, 1.0)
            bsp.sync()
        pybsp.run(main, router=logp_router("offline"))
        """,
        2,
    )
    assert ended.code == 0, ended.err
    assert '"router": "logp-offline"' in (tmp_path / "ledger.json").read_text()


@pytest.mark.parametrize("rate", [1e9, 1e-10])
def test_computing_of_more_steps_than_can_be_counted_is_an_error_of_the_router(rate: float) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.work(1e300 * bsp.pid)
        bsp.sync()

    machine = pybsp.BSPMachine(2, 1e-8, 1e-6, rate)
    with pytest.raises(pybsp.UsageError, match=r'router "logp-sorted": .* 2\^63 steps or more: .*compute less'):
        pybsp.simulate(main, machine=machine, router="logp-sorted")
