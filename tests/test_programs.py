"""The textbook's programs and the same in mpi4py have the same results on any number of ranks; lines are counted."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

import pytest

import pybsp
from examples.textbook import inner_product
from pybsp.benchmarks.programs.cases import cases, lines, lines_of
from pybsp.benchmarks.programs.command import PROGRAMS, lines_together, main, page
from pybsp.ledger.ledger_file import read

from .launching import run


def test_lines_with_code_alone_are_counted() -> None:
    text = 'def f(x):\n    """Of x.\n\n    More.\n    """\n    # why\n\n    return (x +\n            1)  # what\n'
    assert lines_of(text) == 3
    assert lines_of('"""A module.\n\nMore.\n"""\n\nx = 1\n') == 1
    assert lines((inner_product.inner_product,)) == 3


def test_mpi4pys_programs_take_no_processor_of_ours() -> None:
    """What they take from examples/textbook sends nothing: it is made without one."""
    from pybsp.benchmarks.programs import mpi

    for module in pkgutil.iter_modules(mpi.__path__):
        taken = vars(importlib.import_module(f"{mpi.__name__}.{module.name}"))
        for name, thing in taken.items():
            if getattr(thing, "__module__", "").startswith("examples."):
                assert "bsp" not in inspect.signature(thing).parameters, name


def test_all_programs_together_have_at_most_seven_tenths_of_the_lines() -> None:
    from mpi4py import MPI

    with pybsp.attach(MPI.COMM_SELF) as bsp:
        counted = [
            {"program": one.name, "lines": lines(one.our_source), "mpi4py lines": lines(one.their_source)}
            for one in cases(bsp, MPI.COMM_SELF, quick=True)
        ]
    assert {str(one["program"]).partition(",")[0] for one in counted} == set(PROGRAMS)
    ours, theirs = lines_together(counted)
    assert ours / theirs <= 0.7


def test_figures_of_a_node_and_of_hosts_make_the_table_of_the_docs() -> None:
    def row(program: str, seconds: list[float], predicted: float | None, wanted: float | None = None) -> dict[str, Any]:
        return {
            "program": program,
            "wanted": wanted,
            "seconds": seconds,
            "mpi4py seconds": [1.0] * len(seconds),
            "lines": 3,
            "mpi4py lines": 4,
            "predicted": predicted,
            "exchange": 2.0,
        }

    node = [row("LU, p x 1", [1.5] * 9, 1.0, 1.1), row("LU, 1 x p", [2.0] * 9, None)]
    found = page(node, [row("LU, p x 1", [0.5] * 9, 3.0)])
    assert found == [
        ["LU, p x 1", "1.50", "1.1", "0.50", "0.50", "0.50 to 0.50", "1.50", 3, 4],
        ["LU, 1 x p", "2.00", None, "not measured", None, None, None, 3, 4],
        ["all", None, None, None, None, None, None, 3, 4],
    ]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "--only: expected a part of one of inner product, sieve, "),
        (["-n", "0"], "-n: expected a number of at least 1, got 0"),
        (["--rounds", "0"], "--rounds: expected a number above 0, got 0"),
        (["--seconds", "nan"], "--seconds: expected a number above 0, got nan"),
        (["--page", "nowhere.json", "other.json"], "--page: expected a file that --json wrote, got nowhere.json"),
        (["--page", "other.json", "other.json"], "--page: expected a file that --json wrote, got other.json"),
        (["--page", "rows.json", "rows.json"], "--page: expected a file that --json wrote, got rows.json"),
    ],
)
def test_wrong_usage_says_what_is_wrong(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.json").write_text('{"runs": []}')
    Path("rows.json").write_text('{"programs": [{"program": "sieve"}]}')
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


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
        assert row["lines"] >= 2
        assert row["mpi4py lines"] > 3
        assert len(row["seconds"]) == len(row["mpi4py seconds"]) == 3
    assert "lines of all programs" in ended.out


@pytest.mark.whole
def test_on_pybsp_alone_they_have_a_ledger(tmp_path: Path) -> None:
    kept = tmp_path / "ledger.json"
    program = str(Path(__file__).parent.parent / "benchmarks" / "programs" / "alone.py")
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "2", "--ledger", str(kept), program, "--quick"])
    assert ended.code == 0, ended.err
    (found,) = read(kept)["runs"]
    assert {"level", "dot", "product", "sample_sort"} <= {total.label for total in found["supersteps"].totals()}


@pytest.mark.whole
def test_examples_are_compared_with_what_they_and_the_library_were_before(tmp_path: Path) -> None:
    kept = tmp_path / "before.json"
    command = [sys.executable, "-m", "pybsp.benchmarks.programs.before", "--quick", "--json", str(kept)]
    ended = run(command, PYBSP_MACHINE="")
    if "before: git" in ended.err:
        pytest.skip("a clone without this history")
    assert ended.code == 0, ended.err
    pagerank, heat, matvec, dot = json.loads(kept.read_text())["before"]
    assert pagerank["words"] < pagerank["before words"]
    assert heat["words"] == heat["before words"]
    assert matvec["words"] == matvec["before words"]
    assert dot["words"] == dot["before words"] == 1
    assert all(row["lines"] < row["before lines"] for row in (pagerank, heat, matvec))
    assert len(heat["seconds"]) == len(heat["before seconds"]) == 2
    ended = run([*command, "--commit", "nowhere"])
    assert ended.code == 1
    assert "before: git" in ended.err
