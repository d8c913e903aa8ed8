"""`python -m tests.steady` says which tests are ever red."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import steady


@pytest.mark.whole
def test_it_counts_the_runs_in_which_a_test_is_red(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "test_one.py"
    program.write_text(
        "from pathlib import Path\n"
        f"seen = Path({str(seen)!r})\n"
        "def test_red_at_first():\n"
        "    first = not seen.exists()\n"
        "    seen.touch()\n"
        "    assert not first\n"
        "def test_green():\n"
        "    pass\n"
    )
    assert steady.main(["--runs", "2", "--busy", "1", "--", str(program), "-p", "no:cacheprovider", "-n0"]) == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [line.rpartition(", ")[2] for line in lines[:2]] == ["1 red", "0 red"]
    assert len(lines) == 3
    assert lines[2].startswith("1 of 2: FAILED ")
    assert lines[2].endswith("test_one.py::test_red_at_first")
    assert "assert not first\nE       assert not True" in printed.err


@pytest.mark.whole
def test_a_run_that_ends_badly_without_a_red_test_is_red() -> None:
    assert steady.red(["no_such_file.py"]) != set()
