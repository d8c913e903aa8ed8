"""The examples agree with a sequential result wherever they run, and cost what their docstrings say."""

from __future__ import annotations

import sys
from math import ceil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import pybsp
from examples import heat, linear_algebra, pagerank, wordcount
from pybsp import collectives

from .launching import mpiexec, python, run

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {
    "pagerank": ["--modules", "60"],
    "wordcount": ["--files", "30"],
    "heat": ["--size", "20", "--steps", "30"],
    "linear_algebra": ["--size", "50"],
}
TINY = {
    "pagerank": ["--modules", "3"],
    "wordcount": ["--files", "3"],
    "heat": ["--size", "3", "--steps", "4"],
    "linear_algebra": ["--size", "3"],
}
WAYS = {
    "mpiexec -n 3": [*mpiexec(3), sys.executable],
    "pybsp run -n 2": [sys.executable, "-m", "pybsp", "run", "-n", "2"],
    "pybsp simulate -p 7": [sys.executable, "-m", "pybsp", "simulate", "-p", "7"],
}


def of_label(simulation: pybsp.Simulation, label: str) -> list[pybsp.Record]:
    return [record for record in simulation.ledger if record.label == label]


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SMALL) == set(TINY)


@pytest.mark.fast("wordcount-mpiexec -n 3")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SMALL)
def test_agrees_with_the_sequential_result(name: str, way: str) -> None:
    ended = run([*WAYS[way], str(EXAMPLES / f"{name}.py"), *SMALL[name]])
    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert ended.out.count("agrees with") == 1


@pytest.mark.whole
@pytest.mark.parametrize("name", TINY)
def test_runs_on_more_processors_than_the_input_has_items(name: str) -> None:
    ways = ([*mpiexec(5), sys.executable], WAYS["pybsp simulate -p 7"])
    for way in ways:
        ended = run([*way, str(EXAMPLES / f"{name}.py"), *TINY[name]], PYBSP_CHECKED="1")
        assert ended.code == 0, ended.err
        assert ended.out.count("agrees with") == 1


@pytest.mark.whole
def test_pagerank_of_the_whole_library_prints_its_ranking_and_its_cost() -> None:
    ended = run([*mpiexec(4), *python(EXAMPLES / "pagerank.py")], PYBSP_MACHINE="")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("PageRank of the import graph of Python ")
    assert "p = 4, " in ended.out
    table = [line.split()[0] for line in ended.out.splitlines()[-7:-1]]
    assert table == ["names", "edges", "pattern", "iterate", "check", "total"]
    assert ended.out.endswith("`pybsp run --calibrate` measures the machine first, and finds it again\n")


@pytest.mark.parametrize(
    ("example", "wrong"),
    [
        (pagerank, lambda n, *_: np.ones(n)),
        (heat, lambda n, steps: np.ones((n, n))),
    ],
)
def test_a_wrong_result_is_an_error(example: ModuleType, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "sequential", wrong)
    with pytest.raises(ArithmeticError, match="differs from the sequential"):
        pybsp.simulate(example.main, 4, p=2)


@pytest.mark.whole
def test_a_wrong_result_makes_the_job_exit_non_zero(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        f"import sys, pybsp\nsys.path.insert(0, {str(EXAMPLES)!r})\nimport heat\n"
        "heat.sequential = lambda n, steps: 0\npybsp.run(heat.main, 6, 2)\n"
    )
    ended = run([*mpiexec(3), *python(program)])
    assert ended.code != 0
    assert ended.err.count("ArithmeticError: heat: differs from the sequential result") == 1


@pytest.mark.whole
def test_pagerank_ranks_alike_for_every_p(capsys: pytest.CaptureFixture[str]) -> None:
    rankings = [pybsp.simulate(pagerank.main, 60, p=p).results[0] for p in (1, 2, 5, 61)]
    for ranking in rankings:
        assert ranking.edges == rankings[0].edges > 0
        assert ranking.iterations == rankings[0].iterations
        assert ranking.ranks == pytest.approx(rankings[0].ranks, abs=1e-14)
        assert sum(ranking.ranks.values()) == pytest.approx(1)


@pytest.mark.whole
def test_pagerank_takes_one_superstep_an_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    done = pybsp.simulate(pagerank.main, 60, p=3)
    assert len(of_label(done, "iterate")) == done.results[0].iterations + 1
    assert len(of_label(done, "names")) == 1
    assert len(done.ledger) == done.results[0].iterations + 5


def test_pageranks_totals_count_beside_its_shares(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagerank, "imports", lambda text, package: [])  # so there are no shares
    p = 3
    done = pybsp.simulate(pagerank.main, 12, p=p)
    assert {(record.h, record.M) for record in of_label(done, "iterate")} == {(2 * (p - 1), 2 * (p - 1) * p)}


def test_pagerank_finds_imports_of_every_form() -> None:
    text = "import a, b.c\nfrom d import e\ndef f():\n    from . import g\n    from ..h import i\n"
    assert set(pagerank.imports(text, "x.y")) == {"a", "b.c", "d", "d.e", "x.y", "x.y.g", "x.h", "x.h.i"}


def test_pagerank_names_modules_as_python_does() -> None:
    assert pagerank.module_name("os.py") == "os"
    assert pagerank.module_name("xml/sax/__init__.py") == "xml.sax"
    assert {"os", "ast", "xml.sax.handler"} <= set(map(pagerank.module_name, pagerank.source_files()))


def test_wordcount_counts_alike_for_every_p(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [pybsp.simulate(wordcount.main, 30, p=p).results[0] for p in (1, 2, 5, 31)]
    assert len(counts[0]) == wordcount.TOP
    assert all(count == counts[0] for count in counts)


@pytest.mark.parametrize(("p", "shared"), [(2, 20), (3, 40), (4, 20), (7, 40)])
def test_heat_costs_the_edges_of_the_largest_block_a_step(
    p: int, shared: int, capsys: pytest.CaptureFixture[str]
) -> None:
    n, steps = 20, 10
    done = pybsp.simulate(heat.main, n, steps, p=p)
    work = 6 * (100 if p == 4 else ceil(n / p) * n)
    # The points are computed after the exchange: in the next superstep, the last ones in that of the gather.
    assert [(record.work, record.h) for record in of_label(done, "step")] == [(0, shared)] + [(work, shared)] * (
        steps - 1
    )
    assert [record.work for record in of_label(done, "gather")] == [work]
    assert len(done.ledger) == steps + 1


def test_heat_is_equal_bit_for_bit_for_every_p(capsys: pytest.CaptureFixture[str]) -> None:
    results = [pybsp.simulate(heat.main, 20, 30, p=p).results[0] for p in (1, 2, 5, 21)]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("p", [2, 3, 7, 60])
def test_linear_algebra_costs_what_its_docstring_says(p: int, capsys: pytest.CaptureFixture[str]) -> None:
    n = 50
    done = pybsp.simulate(linear_algebra.main, n, p=p)
    rows = ceil(n / p)
    assert [record.h for record in of_label(done, "matvec")] == [(p - 1) * rows]
    dots = of_label(done, "dot")
    assert [record.h for record in dots] == [step.h for step in collectives.allreduce.cost(done.ledger.machine)]
    assert dots[0].work == 2 * rows * n + 2 * rows
    assert [record.h for record in of_label(done, "check")] == [n - n // p]


def test_linear_algebra_gives_all_processors_the_same_dot_product(capsys: pytest.CaptureFixture[str]) -> None:
    for p in (1, 2, 7):
        dots = {result.dot for result in pybsp.simulate(linear_algebra.main, 50, p=p).results}
        assert len(dots) == 1
