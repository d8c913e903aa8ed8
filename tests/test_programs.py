"""The textbook's programs and the same in mpi4py have the same results on any number of ranks; lines are counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from examples.textbook import inner_product
from pybsp.benchmarks.programs.cases import lines, lines_of

from .launching import run


def test_lines_with_code_alone_are_counted() -> None:
    text = 'def f(x):\n    """Of x.\n\n    More.\n    """\n    # why\n\n    return (x +\n            1)  # what\n'
    assert lines_of(text) == 3
    assert lines((inner_product.inner_product,)) == 3


@pytest.mark.whole
@pytest.mark.parametrize("n", [1, 4])
def test_both_have_the_same_results_and_the_table_has_a_row_for_each(n: int, tmp_path: Path) -> None:
    kept = tmp_path / "programs.json"
    command = [sys.executable, "-m", "pybsp.benchmarks.programs", "-n", str(n), "--quick", "--rounds", "3"]
    ended = run([*command, "--seconds", "0.1", "--json", str(kept)], PYBSP_MACHINE="")
    assert ended.code == 0, ended.err
    rows = json.loads(kept.read_text())["programs"]
    assert len(rows) >= 11
    for row in rows:
        assert row["program"] in ended.out
        assert row["lines"] > 2
        assert row["mpi4py lines"] > 3
        assert len(row["seconds"]) == len(row["mpi4py seconds"]) == 3
    assert "lines of all programs" in ended.out
