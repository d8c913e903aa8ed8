"""What a program does to sys.stdout and sys.stderr costs words: no result, and no job hangs for them."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import IO

import pytest

from pybsp.ground.announcing import announce, announce_error, flush

from .clusters import ENVIRONMENT, missing, on_hosts
from .launching import LIMIT, ended_well, ranks, run

FULL = Path("/dev/full")
STATES = ["full", "none", "closed"]

# Puts something in the place of an output, which then cannot be written.
SPOIL = """
import os, sys, time
import pybsp

RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)

def spoil(state, *outputs):
    for output in outputs:
        file = open("/dev/full" if state == "full" else os.devnull, "w")
        file.write("a program's own words")
        if state == "closed":
            file.close()
        setattr(sys, output, None if state == "none" else file)

def tell(text):
    os.write(1, f"{text}\\n".encode())

def leave():
    for output in ("stdout", "stderr"):
        setattr(sys, output, None)  # Python itself would end with another status
"""


def spoiled(state: str) -> IO[str] | None:
    if state == "none":
        return None
    file = FULL.open("w")
    if state == "closed":
        file.close()
    return file


@pytest.mark.parametrize("state", STATES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of what is left in the full one
def test_words_go_to_standard_error_or_to_that_of_the_process(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", own)
    monkeypatch.setattr(sys, "stderr", spoiled(state))
    announce("a notice")
    announce_error(ValueError("its text"))
    assert own.getvalue() == "a notice\nValueError: its text\n"
    monkeypatch.setattr(sys, "__stderr__", spoiled(state))
    monkeypatch.setattr(sys, "stdout", spoiled(state))
    announce("nobody hears it")
    flush()
    given = io.StringIO()
    monkeypatch.setattr(sys, "stderr", given)
    announce("two\nlines")
    assert given.getvalue() == "two\nlines\n"


@pytest.mark.skipif(not FULL.exists(), reason="a system without /dev/full")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("others", ["meet", pytest.param("compute", marks=pytest.mark.whole)])
def test_a_rank_that_fails_ends_the_job_whatever_its_outputs_are(others: str, state: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        SPOIL
        + f"""
def main(bsp):
    if bsp.pid == 1:
        spoil({state!r}, "stdout", "stderr")
        raise ValueError("boom")
    while {others == "compute"}:
        time.sleep(1)
    bsp.sync()

pybsp.run(main)
"""
    )
    ended = ranks(2, path, LIMIT, PYBSP_GRACE="1")
    assert ended.code != 0
    assert "ValueError: boom" in ended.err, ended
    assert ("ending the job" in ended.err) == (others == "compute"), ended


@pytest.mark.skipif(not FULL.exists(), reason="a system without /dev/full")
@pytest.mark.fast("full")
@pytest.mark.parametrize("state", STATES)
def test_a_program_runs_whatever_its_outputs_are(state: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        SPOIL
        + f"""
spoil({state!r}, "stdout", "stderr")

def main(bsp):
    bsp.sync()
    if bsp.pid == 0:
        time.sleep(0.5)  # the other one says that it waits
    bsp.sync()
    return bsp.p

tell(pybsp.run(main))
leave()
"""
    )
    ended = ranks(2, path, LIMIT, PYBSP_WARN_AFTER="0.2")
    assert ended_well(ended) == "2\n2\n"
    assert ended.err.count("pybsp: processor 1 has waited ") == 1, ended
    assert "Exception ignored" not in ended.err


@pytest.mark.whole
@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("state", STATES)
def test_a_rank_of_another_host_that_ends_without_a_run_is_missed_whatever_its_outputs_are(
    state: str, tmp_path: Path
) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        SPOIL
        + f"""
if RANK == 1:
    spoil({state!r}, "stdout")
    sys.exit()
pybsp.run(lambda bsp: bsp.sync())
"""
    )
    ended = run(on_hosts(2, [sys.executable, str(path)]), LIMIT, **ENVIRONMENT)
    assert ended.code != 0
    assert "SyncError" in ended.err, ended
