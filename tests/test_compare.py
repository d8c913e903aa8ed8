"""The comparison with raw MPI: every variant of every work reads the right data, and what is printed is in the JSON."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybsp.benchmarks.against_mpi import command
from pybsp.benchmarks.against_mpi.command import joined, main
from pybsp.benchmarks.against_mpi.figures import FIGURES, figure_for
from pybsp.benchmarks.against_mpi.growth import growth
from pybsp.benchmarks.against_mpi.report import figures, ratio, seconds, spread
from pybsp.benchmarks.against_mpi.summary import CONFIDENCE, outside
from pybsp.benchmarks.against_mpi.summary import ratio as ratio_of
from pybsp.benchmarks.against_mpi.works import catalogue
from pybsp.transport.sparse import rounds

from .clusters import ALL_DEVICES
from .launching import mpiexec, python, run
from .sparse_counts import messages
from .test_emulate import on_hosts

COMPARE = [sys.executable, "-m", "pybsp.benchmarks.against_mpi"]
TINY = ["--quick", "--rounds", "3", "--seconds", "0.2"]

# What each processor is to read in repetition k, from what the works say of themselves, without running any of them.
EXPECTED = """
import sys
import numpy as np
import pybsp
from pybsp.benchmarks.against_mpi.variants import ComparisonJob
from pybsp.benchmarks.against_mpi.works import catalogue

def base(n, pid):
    return np.arange(n) + 7.0 * pid

def indices(n, pid):
    rng = np.random.default_rng((n, pid))
    return [rng.integers(0, n, n) for _ in range(3)]

def relation(n, p, pid, k):
    def of(s):
        rng = np.random.default_rng((n, s))
        dests = [rng.integers(0, p, n) for _ in range(3)][k % 3]
        return (base(n, s) + k)[dests == pid]
    return [np.concatenate([of(s) for s in range(p)])]

def sends(n, p, pid, k):
    def of(s):
        dests = np.random.default_rng(s).integers(0, p, n)
        return (np.arange(n) + k % 2 * n)[dests == pid]
    return [np.concatenate([of(s) for s in range(p)])]

def scattered(n, p, pid, k):
    found = np.zeros(n)
    for place, value in zip(indices(n, (pid - 1) % p)[k % 3], base(n, (pid - 1) % p) + k):
        found[place] = value
    return [found]

def riding(p, k):
    firsts = [7.0 * s + k for s in range(p)]
    return np.array([sum(firsts), max(firsts), min(firsts), firsts[k % p]])

def keys(n, pid):
    return np.random.default_rng((n, pid)).integers(0, 1 << 40, n)

def expected(work, p, pid, k):
    n, words = work.size, work.size // 8
    others = [s for s in range(p) if s != pid] or [0]
    before, behind = (pid - 1) % p, (pid + 1) % p
    return {
        "words": lambda: [(base(p * n, s) + k)[n * pid : n * (pid + 1)] for s in others],
        "shift": lambda: [base(n, before) + k],
        "tuple": lambda: [np.array([before, 7.0 * before + k])],
        "tagged": lambda: [np.array([(7.0 * s + k, k) for s in range(p * (pid == 0))]).reshape(-1, 2)],
        "sends": lambda: sends(n, p, pid, k),
        "relation": lambda: relation(n, p, pid, k),
        "blocks": lambda: [base(words, s) + k + pid for s in others],
        "overlap": lambda: [base(words, s) + k + pid for s in others],
        "rooms": lambda: [base(words, s) + k + pid for s in others],
        "columns": lambda: [
            (base(p * words, s) + k).reshape(-1, 64 * p)[:, 64 * pid : 64 * (pid + 1)] for s in others
        ],
        "put": lambda: [base(words, before) + k],
        "get": lambda: [base(words, behind) + k],
        "scattered put": lambda: scattered(n, p, pid, k),
        "scattered get": lambda: [(base(n, behind) + k)[indices(n, pid)[k % 3]]],
        "broadcast": lambda: [base(n, k % p) + k],
        "broadcast number": lambda: [base(1, k % p) + k],
        "prefix": lambda: [sum(base(n, s) + k for s in range(pid + 1))],
        "prefix number": lambda: [sum(base(1, s) + k for s in range(pid + 1))],
        "allreduce": lambda: [sum(base(n, s) + k for s in range(p))],
        "allreduce number": lambda: [sum(base(1, s) + k for s in range(p))],
        "reduce": lambda: [sum(base(n, s) + k for s in range(p))] * (pid == k % p),
        "reduce number": lambda: [sum(base(1, s) + k for s in range(p))] * (pid == k % p),
        "riding": lambda: relation(n, p, pid, k) + [riding(p, k)],
        "sort": lambda: [np.sort(np.concatenate([keys(n, s) for s in range(p)])) + k],
    }[work.name]()

def main(bsp):
    from mpi4py import MPI
    job = ComparisonJob(bsp, MPI.COMM_WORLD.Dup())
    held = []
    for work in catalogue("quick"):
        prepared = work.make(job, work.size)
        for name, variant in prepared.variants.items():
            for k in (1, 2):
                variant.batch(k, 1)
                if variant.got is not None and not (bsp.pid and name.startswith("numpy")):
                    wanted = expected(work, bsp.p, bsp.pid, k)
                    got = list(variant.got())
                    assert len(got) == len(wanted), (work.title, name, len(got), len(wanted))
                    for one, other in zip(got, wanted):
                        np.testing.assert_array_equal(one, other, f"{work.title}, {name}, {k}")
                    held.append((work.name, name))
                elif variant.got is not None:
                    variant.got()
                if variant.after is not None:
                    variant.after()
        job.close()
    job.comm.Free()
    return held

held = pybsp.run(main)
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 0:
    print(len({work for work, _ in held}), len(set(held)))
"""

WRONG = """
import sys
import numpy as np
import pybsp
from pybsp.benchmarks.against_mpi.variants import Variant, ComparisonJob, Prepared, Work, each
from pybsp.benchmarks.against_mpi.measuring import Pace, measured

def make(job, size):
    read = [0]
    def right(k):
        read[0] = k
    def wrong(k):
        read[0] = k + (job.pid == 1)
    got = lambda: [np.array(read)]
    return Prepared({"right": Variant(each(right), got), "wrong": Variant(each(wrong), got)}, [("right", "wrong")])

def main(bsp):
    from mpi4py import MPI
    measured(ComparisonJob(bsp, MPI.COMM_WORLD), Work("made", 1, "made up", make), Pace(2, 0.1, 1e-4))

pybsp.run(main)
"""


@pytest.mark.whole
@pytest.mark.fast("2")
@pytest.mark.parametrize("p", [1, 2, 3])
def test_every_form_reads_what_it_should(p: int, tmp_path: Path) -> None:
    program = tmp_path / "expected.py"
    program.write_text(EXPECTED)
    ended = run([*mpiexec(p), *python(program)], 200)
    assert ended.code == 0, ended.err
    works, variants = map(int, ended.out.split())
    assert works == len({work.name for work in catalogue("quick")} - {"empty"})
    assert variants >= 2 * works


@pytest.mark.whole
def test_forms_that_do_not_read_the_same_are_an_error(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    ended = run([*mpiexec(2), *python(program)])
    assert ended.code != 0
    assert "made up: 'wrong' did not read what 'right' read on processor 1, in repetition 1" in ended.err


@pytest.mark.whole
@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_json_has_what_the_table_has(p: int, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    ended = run([*COMPARE, "-n", str(p), *TINY, "--json", str(path), "--plot", f"{path}.png"], 250)
    assert ended.code == 0, ended.err
    content = json.loads(path.read_text())
    (found,) = content["runs"]
    assert found["p"] == p
    assert [(row["work"], row["size"]) for row in found["works"]] == [(w.name, w.size) for w in catalogue("quick")]
    lines = " ".join(ended.out.split())
    for row in found["works"]:
        for variant in row["forms"].values():
            assert len(variant["samples"]) == row["rounds"] == 3
            assert min(variant["samples"]) > 0
            assert variant["median"] == sorted(variant["samples"])[1]
            assert spread(variant) in lines
        assert row["ratios"]
        for entry in row["ratios"]:
            one, other = (row["forms"][entry[key]]["samples"] for key in ("of", "against"))
            assert entry["median"] == pytest.approx(np.median(np.array(one) / np.array(other)))
            assert ratio(entry) in lines
    for row in found["over_h"]:
        assert seconds(row["ours"] / row["h"]) in lines
    assert [row["work"] for row in found["over_h"]] == (["relation"] * 3 + ["blocks"] * 3) * (p > 1)
    for row in content["growth"]:
        assert seconds(row["seconds"]) in lines
    for text in (
        "GB/s one process",
        "np.broadcast_to(x, (1024,))",
        "load",
        found["library"],
        "not calibrated" if found["calibrated"] else "nominal",
    ):
        assert text in lines
    assert Path(f"{path}.png").stat().st_size > 10_000
    if p == 2:
        # Whatever is wanted at p = 2 is measured by one command (16 MiB: without --quick).
        pairs = {(row["work"], entry["against"]) for row in found["works"] for entry in row["ratios"]}
        assert {(figure.work, figure.against) for figure in FIGURES} <= pairs
        barred = {(row["work"], row["size"]): e["bar"] for row in found["works"] for e in row["ratios"] if "bar" in e}
        words = 1.2 if found["family"] == "MPICH" else 2.0
        assert barred.items() >= {("words", 64): words, ("blocks", 1 << 20): 0.85, ("relation", 100_000): 1.0}.items()
        # --show prints the same again.
        again = run([*COMPARE, "--show", str(path)])
        assert again.code == 0, again.err
        assert again.out == ended.out


@pytest.mark.whole
def test_it_runs_on_the_ranks_of_a_launcher(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    ended = run([*mpiexec(2), *COMPARE, *TINY, "--only", "empty", "words=64", "growth", "--json", str(path)], 120)
    assert ended.code == 0, ended.err
    content = json.loads(path.read_text())
    assert [row["work"] for row in content["runs"][0]["works"]] == ["empty", "words"]
    assert content["growth"]
    assert ended.out.count("figures to reach") == 1


@pytest.mark.whole
@on_hosts
def test_it_runs_across_emulated_hosts(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    link = ["--hosts", "4", "--latency", "1ms", "--rate", "200mbit"]
    ended = run([*COMPARE, *link, *TINY, "--only", "empty", "shift", "--json", str(path)], 120, **ALL_DEVICES)
    assert ended.code == 0, ended.err
    content = json.loads(path.read_text())
    (found,) = content["runs"]
    assert (found["p"], found["network"]["hosts"]) == (4, 4)
    empty = found["works"][0]
    barrier = next(entry for entry in empty["ratios"] if entry["against"] == "raw Barrier")
    assert barrier["bar"] == 0.7
    assert empty["forms"]["pybsp"]["median"] > 1e-3  # what takes less did not cross the network


@pytest.mark.whole
def test_another_mpi_library_than_asked_for_is_refused() -> None:
    ended = run([*COMPARE, "-n", "1", *TINY, "--only", "empty"], 60)
    assert ended.code == 0, ended.err
    other = "openmpi" if "MPICH" in ended.out.splitlines()[0] else "mpich"
    ended = run([*COMPARE, "-n", "1", *TINY, "--only", "empty", "--mpi", other], 60)
    assert ended.code == 2
    assert f"--mpi {other}: Python loads" in ended.err


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "--only: expected one of empty, words"),
        (["--only", "blocks=3"], "--only: expected blocks of size 1024, "),
        (["-n", "0"], "-n: expected numbers of at least 1, got [0]"),
        (["--rounds", "0"], "--rounds: expected a number above 0, got 0"),
        (["--seconds", "nan"], "--seconds: expected a number above 0, got nan"),
        (["--hosts", "4", "-n", "3"], "-n: 4 hosts with 1 ranks each are 4 processors"),
        (["--hosts", "4", "--latency", "1"], "expected a time such as"),
        (["--json", "/nowhere/at/all.json"], "--json: expected a file that can be written"),
        (["--json", "/"], "--json: expected a file that can be written, got /"),
        (["--json", ""], "--json: expected a file that can be written, got ''"),
        (["--json", "/tmp/x.svg", "--plot", "/tmp/x.svg"], "--plot: expected another file than that of --json"),
        (["--plot", "figure.txt"], "--plot: expected a file that ends in one of .pdf"),
        (["--guidelines", "--only", "blocks"], "--only: expected one of broadcast, reduce"),
        (["--guidelines", "--plot", "figure.png"], "--plot: --guidelines are not drawn"),
        (["--show", "/nowhere/at/all.json"], "--show: expected a file that --json wrote"),
    ],
)
def test_wrong_usage_says_what_is_wrong(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as ended:  # of what the options themselves say
        status = int(ended.code or 0)
    assert status == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "rate", "emulator"),
    [(True, "200mbit", "script"), (False, "200mbit", "pybsp"), (True, "unlimited", "pybsp")],
)
def test_hosts_are_those_of_the_script_where_there_is_one_that_can(
    script: bool, rate: str, emulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script:
        (tmp_path / "cluster").write_text("")
    monkeypatch.setenv("PYBSP_CLUSTER", str(tmp_path / "cluster"))
    ran: list[dict[str, Any]] = []
    monkeypatch.setattr(command, "_measure", lambda study, _: ran.append(study.options.network))
    main(["--hosts", "2", "--rate", rate])
    assert [network["emulator"] for network in ran] == [emulator]


def test_runs_without_the_compiled_core_stand_beside_those_with_it() -> None:
    def ran(compiled: bool, median: float) -> dict[str, Any]:
        entry = {"of": "pybsp", "against": "raw Allreduce", "median": median, "low": median, "high": median}
        return {
            "p": 2,
            "family": "MPICH",
            "network": None,
            "machine": {"cores": 2, "compiled": compiled},
            "works": [{"work": "allreduce number", "size": 1, "ratios": [entry]}],
        }

    def cells(*runs: dict[str, Any]) -> list[str]:
        shown = figures(joined([{"runs": [run], "growth": []} for run in runs]))
        rows = zip(*([*column.cells] for column in shown.columns), strict=True)
        return next([str(cell) for cell in row[-3:]] for row in rows if str(row[0]) == "allreduce of a float64")

    assert cells(ran(True, 1.25), ran(False, 3.5)) == ["1.25 (1.25 to 1.25)", "reached", "3.5 (3.5 to 3.5)"]
    assert cells(ran(True, 1.75)) == ["1.75 (1.75 to 1.75)", "missed", ""]
    assert cells(ran(False, 3.5))[::2] == ["not in this run", "3.5 (3.5 to 3.5)"]


def test_show_refuses_what_is_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    for text in ("{}", "[1]", "no json"):
        path.write_text(text)
        assert main(["--show", str(path)]) == 2
        assert "expected a file that --json wrote" in capsys.readouterr().err


def test_the_interval_of_a_median_covers_it_and_is_no_wider_than_needed() -> None:
    def coverage(n: int, k: int) -> float:
        return 1 - sum(math.comb(n, i) for i in range(k + 1)) / 2.0 ** (n - 1)

    for n in range(6, 80):
        k = outside(n)
        assert coverage(n, k) >= CONFIDENCE > coverage(n, k + 1)
    assert [outside(n) for n in range(1, 6)] == [0] * 5
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(1000):
        one, other = rng.lognormal(math.log(0.7), 0.3, 41), np.ones(41)
        found = ratio_of(one.tolist(), other.tolist())
        inside += found.low <= 0.7 <= found.high
    assert inside / 1000 > 0.93


def test_bars_hold_where_they_are_wanted() -> None:
    def bar(p: int, family: str, cores: int, against: str, **network: Any) -> float | None:
        link = {"hosts": p, **network} if network else None
        found = figure_for(
            {"p": p, "family": family, "machine": {"cores": cores}, "network": link}, "empty", 0, "pybsp", against
        )
        return None if found is None else found.most

    counts, barrier = "raw Alltoall of p int32", "raw Barrier"
    assert bar(2, "MPICH", 2, counts) == 0.3
    assert bar(2, "Open MPI", 2, counts) == 1.6
    assert bar(8, "MPICH", 2, counts) == 0.4
    assert bar(8, "MPICH", 8, counts) is None
    assert bar(4, "MPICH", 2, barrier, latency=1e-3, rate=2e8) == 0.7
    assert bar(4, "MPICH", 2, barrier, latency=2e-3, rate=2e8) is None
    assert bar(4, "MPICH", 2, barrier) is None


@pytest.mark.parametrize("p", [1, 2, 5, 8, 100, 1024])
def test_a_sparse_exchange_sends_to_partners_and_a_logarithm(p: int) -> None:
    for partners in (0, 1, 4):
        if partners < p:
            assert messages(p, partners) == partners + rounds(p)
    assert rounds(1024) == 10


@pytest.mark.whole
def test_growth_counts_what_was_sent() -> None:
    rows = growth(quick=True)
    assert {row["p"] for row in rows} == {4, 16, 64}
    for row in rows:
        assert row["M"] == row["p"] * row["h"]
        assert row["direct"] == row["p"] - 1
        assert row["seconds"] > 0
    assert {row["h"] for row in rows} == {0, 1, 4, 16}


def test_the_help_names_the_works(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(work.name in said for work in catalogue("all"))
