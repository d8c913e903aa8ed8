"""The README's program does what the README says, and its commands are what CI runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .launching import mpiexec, python, run

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_first_program_prints_what_the_readme_shows(tmp_path: Path) -> None:
    program = tmp_path / "squares.py"
    program.write_text(blocks("python")[0])
    assert len([line for line in program.read_text().splitlines() if line.strip()]) == 10
    ways = [
        [sys.executable, "-m", "pybsp", "run", "-n", "4", str(program)],
        [*mpiexec(4), *python(program)],
        [sys.executable, "-m", "pybsp", "simulate", "-p", "4", str(program)],
    ]
    for command in ways:
        ended = run(command)
        assert (ended.code, ended.out) == (0, blocks("text")[0]), ended.err


def test_first_two_shell_blocks_make_an_environment_and_run_the_job_and_the_tests() -> None:
    job, tests = blocks("sh")[:2]
    assert "-m venv" in job
    assert "[mpich,calibrate]" in job
    assert "examples/pagerank.py" in job
    assert "-m venv" in tests
    assert "-m pytest" in tests


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 150
