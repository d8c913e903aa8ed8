"""`pybsp predict`: a program, or a ledger, on another machine."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import pybsp
from pybsp.cli import main as command
from pybsp.commands.predict import _runs
from pybsp.ledger.ledger import Ledger
from pybsp.ledger.ledger_file import append_run, read
from pybsp.ledger.log import INDICES, SECONDS, Log, combine
from pybsp.ledger.prediction import Prediction, Predictions, in_order, of_runs, predicted
from pybsp.ledger.prediction_pictures import pictures
from pybsp.ledger.records import PartTotals, Record, Supersteps
from pybsp.machines.bsp import BSPMachine
from pybsp.processes import process
from pybsp.processes.forked import forked
from pybsp.runs import machine_cache, threads
from pybsp.runs.predicting import threads_of
from pybsp.ways import BY_MAIL, BY_PUT, BY_QUEUE, BY_RECORD, MAKING, named

from .costs import in_file
from .launching import ended_well, run
from .test_aggregated import pretending

MACHINE = BSPMachine(4, g=1e-3, l=1.0, r=1e9, o_msg=0.25, o_item=0.125, error_median=0.05, error_p95=0.2)
PROGRAM = """
import sys
import numpy as np
import pybsp
def main(bsp, n):
    print("heard by nobody")
    assert bsp.machine.p == bsp.p and bsp.machine.l == {l}
    with bsp.superstep("ring"):
        bsp.send((bsp.pid + 1) % bsp.p, np.zeros(n))
    bsp.sync()
pybsp.run(main, int(sys.argv[1]))
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A program and a machine file."""
    program, machine = tmp_path / "program.py", tmp_path / "machine.json"
    program.write_text(PROGRAM.format(l=1.0))
    MACHINE.save(machine)
    return str(program), str(machine)


def rows(printed: str) -> list[list[str]]:
    """The cells of the tables' lines."""
    return [re.split(r" *│ *", line.strip("│ \n")) for line in printed.splitlines() if line.startswith("│")]


def test_a_programs_time_is_its_computing_here_and_its_exchange_there(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, machine = files
    assert command(["predict", program, "1000", "-p", "3", "4", "2", "--machine", machine]) == 0
    printed = capsys.readouterr().out
    assert "heard by nobody" not in printed
    found = rows(printed)
    assert [row[:2] for row in found] == [["2", "2"], ["3", "2"], ["4", "2"]]
    # Two supersteps of latency 1 s, 1000 words in a message of 1.25 s; computing takes next to nothing.
    assert [float(row[2]) for row in found] == pytest.approx([3.25] * 3, abs=0.2)
    assert [float(row[3]) for row in found] == pytest.approx([0.65] * 3)
    assert [float(row[4]) for row in found] == pytest.approx([1] * 3, rel=0.1)
    assert float(found[2][5].rstrip(" %")) == pytest.approx(100 * 2 / 4, rel=0.1)
    assert [float(row[9].rstrip(" %")) for row in found] == pytest.approx([200 / 3.25] * 3, rel=0.1)
    for said in ("the same input for each p", "which is for p = 4", "+- is 20 % of the exchange", "Left out: "):
        assert said in printed


def test_one_processor_exchanges_nothing_and_waits_for_nobody(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, machine = files
    assert command(["predict", program, "1000", "-p", "1", "2", "--machine", machine]) == 0
    alone, two = rows(capsys.readouterr().out)
    assert float(alone[2]) < 0.2 < float(two[2])
    assert [float(alone[column].rstrip(" %")) for column in (3, 8, 9)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("load", "said"), [(0.3, False), (1.7, True)])
def test_a_prediction_on_a_busy_machine_says_so(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, load: float, said: bool
) -> None:
    program, machine = files
    monkeypatch.setattr(process, "load", lambda: load)
    monkeypatch.setattr(process, "allowed_cores", lambda: 2)
    assert command(["predict", program, "10", "-p", "2", "--machine", machine]) == 0
    assert ("The load average before was 1.7, on 2 cores" in capsys.readouterr().out) == said


@pytest.mark.whole
def test_computing_after_the_last_superstep_counts(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, machine = files
    path = tmp_path / "tail.py"
    path.write_text(
        "import pybsp, time\ndef main(bsp):\n    bsp.sync()\n    time.sleep(0.5 * (bsp.pid == 0))\npybsp.run(main)\n"
    )
    assert command(["predict", str(path), "-p", "2", "--machine", machine]) == 0
    ((_, supersteps, time, _, _, _, imbalance, *_),) = rows(capsys.readouterr().out)
    assert supersteps == "1"
    assert float(time) == pytest.approx(1.5, abs=0.2)  # a latency of 1 s, and then processor 0
    assert float(imbalance) == pytest.approx(2, abs=0.1)


def test_a_machine_of_the_programs_own_is_none_that_a_prediction_warns_of(
    files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, machine = files
    path = tmp_path / "own.py"
    path.write_text("import pybsp\npybsp.run(lambda bsp: bsp.sync(), machine=pybsp.BSPMachine(p=4, g=9, l=9, r=1e9))\n")
    assert command(["predict", str(path), "-p", "2", "--machine", machine]) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    assert float(rows(printed.out)[0][2]) == pytest.approx(1.0, abs=0.1)  # by --machine
    assert command(["simulate", "-p", "2", str(path)]) == 0
    assert "the argument machine: p: expected 2, as this run has, got 4" in capfd.readouterr().err


def test_each_number_of_processors_finds_the_process_as_it_was(
    files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the program, and what it starts, prints is not shown."""
    _, machine = files
    monkeypatch.chdir(tmp_path)
    Path("moving.py").write_text(
        "import os, pybsp, subprocess\n"
        "assert 'LEFT' not in os.environ\n"
        "os.environ['LEFT'] = '1'\n"
        "subprocess.run(['echo', 'heard by nobody'])\n"
        "os.chdir('/')\n"
        "pybsp.run(lambda bsp: bsp.sync())\n"
    )
    assert command(["predict", "moving.py", "-p", "1", "2", "--machine", machine, "--html", "page.html"]) == 0
    printed = capfd.readouterr().out
    assert [row[0] for row in rows(printed)] == ["1", "2"]
    assert "heard by nobody" not in printed
    assert Path("page.html").exists()


def test_each_number_of_processors_imports_anew_and_none_here(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ranks do for every p: what reads arguments at its import, and what takes long."""
    _, machine = files
    (tmp_path / "read_first.py").write_text("import sys, time\nN = int(sys.argv[1])\ntime.sleep(0.05)\n")
    program = tmp_path / "importing.py"
    program.write_text(
        "import numpy as np, pybsp\n"
        "def main(bsp):\n"
        "    import read_first\n"
        "    bsp.send((bsp.pid + 1) % bsp.p, np.zeros(read_first.N))\n"
        "    bsp.sync()\n"
        "pybsp.run(main)\n"
    )
    assert command(["predict", str(program), "{1000*p}", "-p", "2", "4", "--machine", machine]) == 0
    printed = capsys.readouterr().out
    # A latency of 1 s, a message of 0.25 s, 2000 and 4000 words.
    assert [float(row[2]) for row in rows(printed)] == pytest.approx([3.25, 5.25], abs=0.3)
    assert all(float(row[6]) > 1.2 for row in rows(printed))  # one processor's import
    assert "What a process does once, as imports in main, is the computing of one processor here" in printed
    assert "read_first" not in sys.modules


def test_each_number_of_processors_reads_the_same_input(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, machine = files
    monkeypatch.setenv("COLUMNS", "200")  # room for all columns, however many digits the times have
    program = tmp_path / "reading.py"
    program.write_text(
        "import pybsp, sys\n"
        "def main(bsp, n):\n"
        "    for _ in range(n):\n"
        "        bsp.sync()\n"
        "pybsp.run(main, int(input()) + sum(map(int, sys.stdin)))\n"
    )
    line = [sys.executable, "-m", "pybsp", "predict", str(program), "-p", "1", "2", "4", "--machine", machine]
    done = subprocess.run(line, input="2\n3\n4\n", capture_output=True, text=True, timeout=60, check=True)
    assert [row[1] for row in rows(done.stdout)] == ["9", "9", "9"]


def test_an_input_that_nobody_reads_need_not_end(files: tuple[str, str]) -> None:
    program, machine = files
    line = [sys.executable, "-m", "pybsp", "predict", program, "1", "-p", "1", "2", "--machine", machine]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as predicting:
        assert predicting.wait(60) == 0


def test_ctrl_c_ends_the_program_and_then_the_prediction(files: tuple[str, str], tmp_path: Path) -> None:
    _, machine = files
    program = tmp_path / "waiting.py"
    program.write_text(
        "import pathlib, sys, time\n"
        "try:\n"
        "    pathlib.Path(sys.argv[1]).touch()\n"
        "    time.sleep(60)\n"
        "finally:\n"
        "    pathlib.Path(sys.argv[1]).unlink()\n"
    )
    begun = tmp_path / "begun"
    line = [sys.executable, "-m", "pybsp", "predict", str(program), str(begun), "-p", "2", "--machine", machine]
    with subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True) as predicting:
        while not begun.exists():
            time.sleep(0.01)
        predicting.send_signal(signal.SIGINT)
        assert predicting.wait(30) == -signal.SIGINT
    assert not begun.exists()


def test_labels_that_look_like_rows_of_tables_keep_their_own_time_and_are_in_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for label in "total", "-", "", "(after the last)", '"total"', "other":
            with bsp.superstep(label):
                bsp.work(7.0)
        bsp.work(3.0)

    path, machine, out = tmp_path / "ledger.json", tmp_path / "machine.json", tmp_path / "page.html"
    here = BSPMachine(2, g=1.0, l=10.0, r=1.0)
    here.save(machine)
    ledger = pybsp.simulate(main, machine=here).ledger
    ledger.save(path)
    names = ['"total"', '"-"', "-", '"(after the last)"', '""total""', "other"]
    assert command(["predict", str(path), "--machine", str(machine)]) == 0
    found = rows(capsys.readouterr().out)
    assert [row[0] for row in found] == [*names, "(after the last)", "total"]
    assert [row[2] for row in found] == [row[4] for row in found] == ["17"] * 6 + ["3", "105"]
    prediction = ledger.predict(here)
    assert prediction.time == 105.0
    assert [one.time for one in prediction.labels.values()] == [17.0] * 6 + [3.0]
    assert command(["report", str(path)]) == 0
    printed = rows(capsys.readouterr().out)
    assert command(["report", str(path), "--html", str(out)]) == 0
    for text in out.read_text(), ledger._repr_html_(), prediction._repr_html_():
        shown = [html.unescape(name) for name in re.findall(r"<tr[^>]*><td>(.*?)</td>", text)]
        assert [name for name in shown if name != "(after the last)"] == [*names, "total"]
    assert [row[1] for row in printed] == [*names, "total"]


@pytest.mark.whole
def test_weak_scaling_is_by_an_argument_that_goes_with_p(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, machine = files
    assert command(["predict", program, "{500*p}", "-p", "2", "8", "--machine", machine]) == 0
    printed = capsys.readouterr().out
    found = rows(printed)
    assert "weak scaling" in printed
    assert [float(row[2]) for row in found] == pytest.approx([3.25, 6.25], abs=0.2)
    assert float(found[1][4]) == pytest.approx(4 * 3.25 / 6.25, rel=0.1)
    assert float(found[1][5].rstrip(" %")) == pytest.approx(100 * 3.25 / 6.25, rel=0.1)


@pytest.mark.parametrize("scales", [["--scale", "g=0.5", "l=2"], ["--scale", "g=0.5", "--scale", "l=2"]])
def test_what_if_scales_parameters_and_the_program_sees_them(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], scales: list[str]
) -> None:
    program, machine = files
    Path(program).write_text(PROGRAM.format(l=2.0))
    assert command(["predict", program, "1000", "-p", "2", "-p", "1", "--machine", machine, *scales]) == 0
    printed = capsys.readouterr().out
    assert [row[0] for row in rows(printed)] == ["1", "2"]
    assert float(rows(printed)[1][2]) == pytest.approx(4 + 0.5 + 0.25, abs=0.2)
    assert "g times 0.5, l times 2" in printed


def main_of_ledger(bsp: pybsp.BSP) -> None:
    q = bsp.queue()
    with bsp.superstep("items"):
        bsp.work(5.0 * (bsp.pid + 1))
        q.send((bsp.pid + 1) % bsp.p, np.ones(8))
    bsp.sync()


@pytest.mark.parametrize("scale", [[], ["--scale", "r=2"]])
def test_a_ledger_on_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str], scale: list[str]) -> None:
    path, machine = tmp_path / "ledger.json", tmp_path / "machine.json"
    here = BSPMachine(2, g=1.0, l=10.0, r=1.0)
    pybsp.simulate(main_of_ledger, machine=here).ledger.save(path)
    exchange = BSPMachine(4, g=2.0, l=3.0, r=1.0, o_msg=4.0, o_item=0.5)
    dataclasses.replace(BSPMachine(4, g=7.0, l=7.0, r=1.0), exchange=exchange).save(machine)
    page = tmp_path / "page.html"
    assert command(["predict", str(path), "--machine", str(machine), "--html", str(page), *scale]) == 0
    printed = capsys.readouterr().out
    items, unlabelled, total = rows(printed)
    computing = 5.0 if scale else 10.0
    there = computing + 3 + 16 + 4 + 4
    assert items[:6] == ["items", "1", f"{there:g}", "-", "28", f"{28 / there:.3g}"]
    assert unlabelled[:3] == ["-", "1", "3"]
    assert total[:3] == ["total", "2", f"{there + 3:g}"]
    assert total[6] == "1.33"
    assert "There is no error bar" in printed
    assert "<th>here/there</th>" in page.read_text()


def test_what_if_scales_what_ways_and_long_computing_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, machine = tmp_path / "ledger.json", tmp_path / "machine.json"
    ledger = pybsp.simulate(main_of_ledger, machine=BSPMachine(2, g=1.0, l=10.0, r=1.0)).ledger
    ledger.save(path)
    ways = {"o_way": {"queue": 8.0}, "g_way": {"queue": 0.5}, "late": {"sending": 16.0}, "after": ((1.0, 0.5),)}
    exchange = BSPMachine(2, g=2.0, l=3.0, r=1.0, **ways)  # type: ignore[arg-type]
    dataclasses.replace(BSPMachine(2, g=7.0, l=7.0, r=1.0), exchange=exchange).save(machine)
    for scale, more in (
        *(([], 20.0), (["o_way=0.5"], 16.0), (["late=0.5"], 16.0)),
        *((["g_way=3"], 28.0), (["o_way=2", "late=3"], 44.0)),
    ):
        options = ["--scale", *scale] if scale else []
        assert command(["predict", str(path), "--machine", str(machine), *options]) == 0
        assert float(rows(capsys.readouterr().out)[0][2]) == pytest.approx(10 + 3 + 16 + more)


def test_valiants_cost_is_the_largest_part() -> None:
    ledger = pybsp.simulate(main_of_ledger, machine=BSPMachine(2, g=1.0, l=10.0, r=1.0)).ledger
    found = predicted(in_order(ledger), BSPMachine(2, g=2.0, l=3.0, r=1.0, cost="max"))
    assert dataclasses.replace(found, labels={}) == Prediction("", 2, 2, 10.0, 2.5, 6.0 + 3.0, 3.0 + 3.0)


def test_valiants_cost_has_what_parts_exchange_before_the_wholes_exchange() -> None:
    machine = BSPMachine(4, g=1e-3, l=5.0, r=1e6, cost="max")

    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(bsp.pid // 2) as part:
            part.work(1e6)
            part.send(1 - part.pid, np.zeros(10))
            part.sync()
        bsp.work(6e5)
        bsp.sync()

    done = pybsp.simulate(main, machine=machine)
    assert done.time == pytest.approx(10.6)  # 5 of the part, 0.6, and 5
    assert done.ledger.predicted == pytest.approx(done.time)
    assert predicted(in_order(done.ledger), machine).time == pytest.approx(done.time)


def test_pictures_of_predictions_are_headed_by_what_they_show() -> None:
    found = [Prediction("", p, 5, 8.0 / p, 1.0, 2.0, 0.5) for p in (1, 2, 4)]
    over_p = ["Time", "Speed-up over p = 1", "Efficiency", "Imbalance of computing (largest over mean)"]
    for several, headings in (found, [*over_p, "What it goes to"]), (found[:1], ["What it goes to"]):
        parts = [*pictures(Predictions(several, MACHINE))]
        assert parts[::2] == [f"<h3>{heading}</h3>" for heading in headings]
        assert all(part.startswith("<svg") for part in parts[1::2])


def test_a_page_of_a_ledgers_prediction_has_its_runs_and_what_is_left_out(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, page = tmp_path / "ledger.json", tmp_path / "page.html"
    pybsp.simulate(main_of_ledger, p=2).ledger.save(ledger)
    assert command(["predict", str(ledger), "--machine", files[1], "--html", str(page)]) == 0
    assert capsys.readouterr().out.startswith(f"written: {page}\n")
    text = page.read_text()
    assert "Prediction of ledger.json" in text
    assert re.findall("<h2>(.*?)</h2>", text) == ["run 1: p = 2 virtual processors"]
    assert re.findall("<td>(items|-|total)</td>", text) == ["items", "-", "total"]
    assert text.count('class="total"') == 1
    assert "Left out: " in text
    assert "<svg" not in text


@pytest.mark.whole
def test_a_page_of_predictions_has_pictures(files: tuple[str, str], tmp_path: Path) -> None:
    program, machine = files
    page = tmp_path / "page.html"
    assert command(["predict", program, "10", "-p", "1", "2", "--machine", machine, "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count("<svg") == 5
    for heading in "Time", "Speed-up over p = 1", "Efficiency", "Imbalance of computing", "What it goes to":
        assert f"<h3>{heading}" in text
    assert "Prediction of program.py" in text
    assert "<script" not in text


def test_what_a_program_does_on_ranks_goes_by_the_machine_that_it_would_go_by_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `pybsp.attach`, of which one rank is there: the file of the machine that is asked about is none of it."""
    program = tmp_path / "program.py"
    program.write_text("import os, pybsp\npybsp.run(lambda bsp: (bsp.machine.l, os.environ['PYBSP_MACHINE']))\n")
    monkeypatch.setenv("PYBSP_MACHINE", "another.json")
    assert forked(lambda: [run.results for run in _runs([str(program)], MACHINE)], "it") == [
        [(1.0, "another.json")] * 4
    ]


def test_where_a_program_fails_for_some_p_there_is_a_table_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, machine = tmp_path / "square.py", tmp_path / "machine.json"
    program.write_text(
        "import math, pybsp\n"
        "def main(bsp):\n"
        "    if math.isqrt(bsp.p) ** 2 != bsp.p: raise ValueError(f'{bsp.p} is no square')\n"
        "    bsp.sync()\n"
        "pybsp.run(main)\n"
    )
    MACHINE.save(machine)
    assert command(["predict", str(program), "-p", "1", "2", "4", "8", "--machine", str(machine)]) == 2
    printed = capsys.readouterr()
    assert [row[0] for row in rows(printed.out)] == ["1", "4"]
    assert [re.findall(r"p = \d: ValueError: \d is no square", line) for line in printed.err.splitlines()] == [
        [f"p = {p}: ValueError: {p} is no square"] for p in (2, 8)
    ]


@pytest.mark.parametrize(
    ("p", "hosts", "ranks"), [(4, (), 4), (2, ("a", "b"), 1), (3, ("a", "b", "a"), 2), (4, ("a", "b"), 4)]
)
def test_libraries_have_as_many_threads_as_on_ranks(
    monkeypatch: pytest.MonkeyPatch, p: int, hosts: tuple[str, ...], ranks: int
) -> None:
    monkeypatch.setattr(process, "allowed_cores", lambda: 8)
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(threads, "limited", lambda *of: limits.append(of))
    threads_of(BSPMachine(p, g=0.0, l=0.0, r=1.0, hosts=hosts))
    assert limits == [(ranks, 8)]


PROGRAMS = {
    "QUIET": "",
    "EXIT": "raise SystemExit(3)",
    "LEAVING": "import pybsp, sys\npybsp.run(lambda bsp: sys.exit(0))\n",
    "LINES": "raise ValueError('bad\\nthing')",
    "KILLED": "import os\nos.kill(os.getpid(), 9)\n",
    "GONE": "import os\nos._exit(3)\n",
    "AFAR": "import pybsp\npybsp.run(lambda bsp: bsp.send(7, 'text'))\n",
}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["PROGRAM", "-p", "2"], "--machine: expected a machine file"),
        (["PROGRAM", "--machine", "MACHINE"], "-p: expected the numbers of processors"),
        (["PROGRAM", "-p", "2", "--machine", "MACHINE", "--scale", "h=2"], "--scale: expected one of g, l, o_msg"),
        (["PROGRAM", "-p", "2", "--machine", "MACHINE", "--scale", "g=nan"], "a factor above 0, got 'g=nan'"),
        (["PROGRAM", "99999", "-p", "2", "--machine", "MACHINE", "--scale", "g=1e308"], "--scale: g=1e308: with these"),
        (["PROGRAM", "-p", "2", "--machine", "MACHINE", "--scale", "r=1e-320"], "--scale: r=1e-320: BSPMachine: r "),
        (["PROGRAM", "-p", "2", "--machine", "PROGRAM"], "machine file .*program.py: "),
        (["nowhere.py", "-p", "2", "--machine", "MACHINE"], "nowhere.py: there is no such file"),
        (["nowhere.json"], "nowhere.json: there is no such file"),
        (["MACHINE", "-p", "2", "--machine", "MACHINE"], "a ledger has its own p"),
        (["MACHINE", "--machine", "MACHINE"], "ledger file .*machine.json: "),
        (["PROGRAM", "x", "-p", "2", "--machine", "MACHINE"], "failed for p = 2: ValueError: invalid literal"),
        (["QUIET", "-p", "2", "--machine", "MACHINE"], "expected a program that calls pybsp.run"),
        (
            ["QUIET", "-p", "2", "--machine", "MACHINE"],
            "of pybsp.logp.run `pybsp run --trace t.json`, then `pybsp report",
        ),
        (
            ["LEAVING", "-p", "2", "--machine", "MACHINE"],
            "for p = 2, or its main has called sys.exit: let main return; ",
        ),
        (["LINES", "-p", "2", "--machine", "MACHINE"], r"LINES: failed for p = 2: ValueError: bad\\nthing; see"),
        (["AFAR", "-p", "2", "--machine", "MACHINE"], "AFAR: failed for p = 2: UsageError: bsp.send: argument dest: "),
        (
            ["PROGRAM", "-p", "2", "--machine", "MACHINE", "--scale", "g=2", "g=3"],
            "--scale: expected g once, got g=2 g=3",
        ),
        (["EXIT", "-p", "2", "--machine", "MACHINE"], "ended with 3 for p = 2"),
        (["KILLED", "-p", "2", "--machine", "MACHINE"], "KILLED: failed for p = 2: its process was killed by SIGKILL"),
        (["GONE", "-p", "2", "--machine", "MACHINE"], "GONE: failed for p = 2: its process ended with exit status 3"),
        (
            ["PROGRAM", "1", "-p", "2", "--machine", "ALONE"],
            "ALONE: measured with p = 1, where nothing is sent, so it ",
        ),
        (
            ["PROGRAM", "1", "-p", "2", "--machine", "MACHINE", "--html", "/nowhere/x"],
            "--html: expected a file that can be",
        ),
    ],
)
def test_what_is_wrong_is_named(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    named = {"PROGRAM": files[0], "MACHINE": files[1]}
    for name, text in PROGRAMS.items():
        named[name] = str(tmp_path / name)
        (tmp_path / name).write_text(text)
    named["ALONE"] = str(tmp_path / "ALONE")
    pybsp.BSPMachine(p=1, g=0.0, l=1e-6, r=1e9).save(named["ALONE"])
    assert command(["predict", *(named.get(option, option) for option in options)]) == 2
    assert re.search(f"pybsp predict: .*{said}", capsys.readouterr().err)


def test_what_parts_exchange_is_predicted_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(0) as part:
            for _ in range(3):
                part.work(1e9)
                part.send((part.pid + 1) % part.p, np.zeros(10))
                part.sync()
        bsp.sync()

    here = BSPMachine(2, g=1.0, l=10.0, r=1e9)
    ledger = pybsp.simulate(main, machine=here).ledger
    there = BSPMachine(2, g=2.0, l=5.0, r=1e9)
    for records in (ledger, _read_again(ledger, tmp_path)):
        found = predicted(in_order(records), there, faster=2.0)
        assert found.computing == pytest.approx(1.5)
        assert found.exchange == pytest.approx(2 * 5.0 + 3 * (2.0 * 10 + 5.0))
        assert found.latency == pytest.approx(5 * 5.0)


def test_what_parts_do_after_the_last_superstep_is_reported_and_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, ledger, machine = tmp_path / "program.py", tmp_path / "l.json", str(tmp_path / "machine.json")
    block = "bsp.work(1e9)\n            bsp.send((bsp.pid + 1) % bsp.p, bytes(80))\n            bsp.sync()"
    loop = f"    with bsp.split(0) as bsp:\n        for _ in range(3):\n            {block}\n"
    program.write_text(f"import pybsp\ndef main(bsp):\n{loop}pybsp.run(main)\n")
    BSPMachine(2, g=1e3, l=1e4, r=1e6).save(machine)
    assert command(["simulate", "-p", "2", "--machine", machine, "--ledger", str(ledger), str(program)]) == 0
    capsys.readouterr()
    assert command(["report", str(ledger)]) == 0
    expected = "3 supersteps of their own after the last superstep of the whole, which no record and no sum contains: "
    assert (
        f"{expected}computing 3000 s, exchange 6e+04 s, predicted 6e+04 s; h = 30 words, M = 60"
        in capsys.readouterr().out
    )
    assert command(["predict", str(ledger), "--machine", machine, "--scale", "l=2"]) == 0
    found = {row[0]: row[2:] for row in rows(capsys.readouterr().out)}
    assert found["(after the last)"][:3] == ["9.3e+04", "-", "6.3e+04"]  # computing 3e3: it is in the ledger once
    assert found["total"][0] == "1.13e+05"  # and 20 of the split
    assert command(["predict", str(program), "-p", "2", "--machine", machine]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert row[2] == "7e+04"  # computing as it was here: nothing
    assert row[-2:] == ["42.9 %", "57.1 %"]


def test_parts_that_exchange_and_compute_nothing_after_the_last_superstep_are_in_the_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(0) as part:
            part.sync()

    here = BSPMachine(2, g=1.0, l=10.0, r=1.0)
    ledger, machine = str(tmp_path / "l.json"), str(tmp_path / "machine.json")
    pybsp.simulate(main, machine=here).ledger.save(ledger)
    here.save(machine)
    assert command(["predict", ledger, "--machine", machine]) == 0
    found = {row[0]: row[2:5:2] for row in rows(capsys.readouterr().out)}
    assert found["(after the last)"] == ["10", "10"]
    assert found["total"][0] == found["total"][1]


def test_what_is_computed_after_the_last_superstep_is_reported_and_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        bsp.work(300.0 * bsp.pid)

    here = BSPMachine(3, g=1.0, l=10.0, r=10.0)
    run = in_file(pybsp.simulate(main, machine=here).ledger)
    ledger, machine = str(tmp_path / "l.json"), str(tmp_path / "machine.json")
    append_run(ledger, run, first=True)
    here.save(machine)
    assert command(["report", ledger]) == 0
    assert "After the last superstep: computing 60 s (mean 30 s), which no sum contains." in capsys.readouterr().out
    assert command(["predict", ledger, "--machine", machine, "--scale", "r=2"]) == 0
    printed = capsys.readouterr().out
    found = {row[0]: row[2:] for row in rows(printed)}
    assert found["(after the last)"][:5] == ["30", "-", "60", "2", "2"]
    assert found["total"][:3] == ["40", "-", "70"]
    assert "older files" not in printed
    append_run(ledger, {name: value for name, value in run.items() if name != "after"}, first=True)
    assert command(["predict", ledger, "--machine", machine]) == 0
    assert "Left out, too: what was computed after the last superstep" in capsys.readouterr().out


@pytest.mark.parametrize("parts", [True, False])
def test_what_is_not_known_of_unlike_parts_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: bool
) -> None:
    program, ledger, machine = tmp_path / "program.py", tmp_path / "l.json", str(tmp_path / "machine.json")
    block = "with bsp.split(bsp.pid) as part: part.sync()" if parts else "bsp.sync()"
    program.write_text(f"import pybsp\ndef main(bsp):\n    {block}\n    bsp.sync()\npybsp.run(main)\n")
    MACHINE.save(machine)
    assert command(["simulate", "-p", "2", "--ledger", str(ledger), str(program)]) == 0
    capsys.readouterr()
    for target in ([str(program), "-p", "2"], [str(ledger)]):
        assert command(["predict", *target, "--machine", machine]) == 0
        assert ("which part of the machine (bsp.split) takes longest" in capsys.readouterr().out) == parts


def test_a_ledger_is_known_by_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine, ledger = str(tmp_path / "machine.json"), tmp_path / "rich.ledger"
    MACHINE.save(machine)
    pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger.save(ledger)
    for text in (ledger.read_text(), json.dumps(json.loads(ledger.read_text()), indent=2)):
        ledger.write_text(text)
        assert command(["predict", str(ledger), "--machine", machine]) == 0
        assert "run 1: p = 2 virtual processors" in capsys.readouterr().out
        assert command(["predict", str(ledger), "-p", "2", "--machine", machine]) == 2
        assert f"{ledger}: a ledger has its own p, and no arguments" in capsys.readouterr().err
    program = tmp_path / "program.py"  # one that speaks of them is none
    program.write_text('"""Reads a "pybsp-ledger"."""\nimport pybsp\npybsp.run(lambda bsp: bsp.sync())\n')
    assert command(["predict", str(program), "-p", "2", "--machine", machine]) == 0


def _read_again(ledger: pybsp.Ledger, folder: Path) -> Supersteps:
    ledger.save(folder / "l.json")
    records = read(folder / "l.json")["runs"][0]["supersteps"]
    assert isinstance(records, Supersteps)
    return records


def test_the_error_bar_is_that_of_the_parameters_that_predict_the_exchange(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, machine = files
    exchange = BSPMachine(4, g=1e-3, l=1.0, r=1e9, error_median=0.01, error_p95=0.02)
    dataclasses.replace(MACHINE, exchange=exchange).save(machine)
    assert command(["predict", program, "0", "-p", "2", "--machine", machine]) == 0
    printed = capsys.readouterr().out
    assert "+- is 2 % of the exchange" in printed
    assert "half of them within 1 %" in printed
    assert float(rows(printed)[0][3]) == pytest.approx(0.02 * 2.0, rel=0.05)
    dataclasses.replace(MACHINE, exchange=exchange, cost="max").save(machine)  # which its own parameters predict
    assert command(["predict", program, "0", "-p", "2", "--machine", machine]) == 0
    assert "+- is 20 % of the exchange" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{p}", "{1*p}", "{p*1}", "{p * 1}", "{1 * p}"])
def test_an_argument_goes_with_p_on_either_side(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    program, machine = files
    assert command(["predict", program, text, "-p", "4", "--machine", machine]) == 0
    printed = capsys.readouterr().out
    assert "weak scaling" in printed
    assert float(rows(printed)[0][2]) == pytest.approx(2 + 0.25 + 0.004, abs=0.1)


@pytest.mark.fast
@pytest.mark.parametrize("text", ["{p/2}", "{1.5*p}", "{p+1}", "{2*p*3+p}", "{p p}", "{1e3*p}", "{p*1e3}", "{1_000*p}"])
def test_a_formula_of_p_that_is_none_is_an_error(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    program, machine = files
    assert command(["predict", program, text, "-p", "4", "--machine", machine]) == 2
    assert f"argument '{text}': expected {{p}}, {{100*p}} or {{p*100}}" in capsys.readouterr().err


SMALL = """
import time
import numpy as np
import pybsp
from pybsp import collectives
def main(bsp):
    big, huge, small = np.zeros(1 << 15), np.zeros((1 << 19) + 1), np.zeros(4)
    with bsp.label("small"):
        collectives.allreduce(bsp, 1.0, np.add)
        collectives.broadcast(bsp, small)
        collectives.allgather(bsp, small)
        bsp.sync()  # the program's own supersteps are none
    dates = small.astype("M8[s]")
    with bsp.label("small, no numbers"):
        collectives.allreduce(bsp, (1.0, bsp.pid), min)
        collectives.reduce(bsp, np.array(1.0), np.add)
        collectives.prefix(bsp, dates, np.maximum)
        collectives.broadcast(bsp, dates)
        collectives.allgather(bsp, dates.astype("U19"))
        collectives.broadcast(bsp, small.astype("i4,f8"))
        collectives.gather(bsp, small.astype("i4,f8"))
    with bsp.label("large"):
        collectives.allreduce(bsp, huge, np.add, degree=2)
        collectives.broadcast(bsp, huge, degree=2)
        collectives.allgather(bsp, huge)
        collectives.gather(bsp, huge)
    with bsp.label("beside records"):
        collectives.allreduce(bsp, big, np.add, degree=2)
        collectives.allgather(bsp, big)
        collectives.gather(bsp, big)
    with bsp.label("through a pipe"):
        collectives.broadcast(bsp, value=huge)
        collectives.broadcast(bsp, value=big)
        collectives.broadcast(bsp, value=big.astype("M8[s]"))
        collectives.broadcast(bsp, value=big.astype("i4,f8"))
        bsp.sync()
    with bsp.label("no array"):
        collectives.broadcast(bsp, "x" * 300_000)
    with bsp.label("started"):
        ticket = collectives.allreduce.start(bsp, 1.0, np.add)
        bsp.sync()
        ticket.finish()
    grid = bsp.grid(1, bsp.p)
    with bsp.label("group"):
        collectives.allreduce(grid.row, 1.0, np.add)
        collectives.allgather(grid.row, small)
        collectives.total_exchange(grid.row, [small] * bsp.p)
        collectives.gather_blocks(grid.row, small)
        collectives.exclusive_prefix(grid.row, 1.0, np.add)
        collectives.allreduce(grid.row, (1.0, bsp.pid), max)
        collectives.reduce_scatter(grid.row, small, np.add)
        collectives.argmax(grid.row, small)
        collectives.argmin(grid.row, small)
        collectives.top_k(grid.row, small, 2)
        collectives.segmented_prefix(grid.row, small, small > 0, np.add)
    with bsp.label("in blocks, on a group"):
        collectives.sort(grid.row, small)
        collectives.histogram(grid.row, small)
    with bsp.label("large, on a group"):
        collectives.allreduce(grid.row, big, np.add)
        collectives.reduce_scatter(grid.row, np.append(big, big), np.add)
        collectives.broadcast(grid.row, big)
        collectives.allgather(grid.row, big)
        collectives.gather(grid.row, big if bsp.pid else small, root=0)
    with bsp.split(0) as part, part.label("part"):
        collectives.allreduce(part, 1.0, np.add)
    bsp.sync()
    end = time.perf_counter() + 0.02 * (bsp.pid == 1)
    while time.perf_counter() < end:
        pass  # after the last superstep
pybsp.run(main)
"""


def ways_of(records: Sequence[Record]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(one.label, named(one.ways), named(one.parts.ways) if one.parts else ()) for one in records]


def records_of(source: Path, machine: BSPMachine) -> list[Record]:
    """What the prediction of a program is made of."""
    return forked(lambda: [record for run in _runs([str(source)], machine) for record in run.ledger], str(source))


def test_small_collectives_go_the_way_that_ranks_of_the_machines_node_have(tmp_path: Path) -> None:
    source, machine, ledger = tmp_path / "small.py", tmp_path / "m.json", tmp_path / "l.json"
    source.write_text(SMALL)
    MACHINE.save(machine)
    line = [sys.executable, "-m", "pybsp", "run", "-n", "2", "--ledger", str(ledger)]
    found = []
    for shared in ("", "0"):
        ended_well(run([*line, "--machine", str(machine), str(source)], PYBSP_SHARED=shared))
        (of_run,) = read(ledger)["runs"]
        found.append(ways_of(of_run["supersteps"]))
        longest, mean = of_run["after"]
        assert longest >= 0.02
        assert mean < 0.9 * longest  # the other has waited as the run ends, which is no computing
    on_ranks, by_messages = found
    here = dataclasses.replace(MACHINE, p=2)
    virtual = records_of(source, dataclasses.replace(here, hosts=("a", "a")))
    assert ways_of(virtual) == on_ranks
    assert ("small", ("record",), ()) in on_ranks
    assert ("through a pipe", ("record",), ()) in on_ranks
    assert ("small, no numbers", ("record",), ()) in on_ranks
    assert ("large", ("collective",), ()) in on_ranks
    assert ("beside records", ("record",), ()) in on_ranks
    apart = records_of(source, dataclasses.replace(here, hosts=("a", "b")))
    assert ways_of(apart) == by_messages
    assert ("small", ("record",), ()) in by_messages
    assert ("through a pipe", ("record",), ()) not in by_messages
    by_board = BSPMachine(2, g=0.0, l=1.0, r=1.0, o_msg=64.0)
    assert predicted(in_order(virtual), by_board).exchange < predicted(in_order(apart), by_board).exchange


@pytest.mark.whole
@pytest.mark.parametrize("wish", ["0", "1"])
def test_they_go_as_they_do_on_hosts_with_several_processors(tmp_path: Path, wish: str) -> None:
    source, ledger = tmp_path / "small.py", tmp_path / "l.json"
    source.write_text(SMALL)
    line = [sys.executable, "-m", "pybsp", "run", "-n", "3", "--ledger", str(ledger), str(source)]
    ended_well(run(line, **pretending(2, wish)))
    there = dataclasses.replace(MACHINE, p=3, hosts=("a", "a", "b"))
    found = ways_of(records_of(source, there))
    assert found == ways_of(read(ledger)["runs"][-1]["supersteps"])
    assert ("small", ("record",), ()) in found


def test_a_ledger_predicts_by_how_long_others_waited() -> None:
    log = Log()
    log.note(0, 0.0, 0.0, 12.0, 0, 0, 0, 0, 0, 0, 0)
    table, other, third = log.table(0, 1), log.table(0, 1), log.table(0, 1)
    table[:, SECONDS], other[:, SECONDS], third[:, SECONDS] = 9.0, 3.0, 0.0
    log.put([combine([table, other, third])])
    log.names.append("")
    alone = BSPMachine(3, g=0.0, l=1.0, r=1.0, late=(("empty", 100.0),), after=((10.0, 75.0, 1.0, 1.0, 1.0),))
    waited = 7.5 / 75  # of 6 and 9 the mean
    ledger = Ledger(BSPMachine(3, g=0.0, l=1.0, r=1.0, exchange=alone), log)
    late = 100 * waited
    assert ledger[0].exchange_predicted == pytest.approx(1 + late)
    assert predicted(in_order(ledger), ledger.machine).exchange == pytest.approx(1 + late)  # type: ignore[arg-type]
    faster = predicted(in_order(ledger), ledger.machine, 2.0)  # type: ignore[arg-type]
    assert faster.exchange == pytest.approx(1 + late / 2)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        # As files of before pybsp 0.4 have it: 0.3 of late, at most 100 us.
        ((), [1e-6, 1e-6, 1e-6, 13e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1.01e-4]),
        (
            (("record", 2e-6), ("mail", 3e-6), ("queue", 5e-6)),
            [3e-6, 4e-6, 1e-6, 6e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6],
        ),
    ],
    ids=["not measured", "measured"],
)
def test_where_a_run_uses_a_way_for_the_first_time_it_costs_more(
    first: tuple[tuple[str, float], ...], expected: list[float]
) -> None:
    log = Log()
    rows = [(0, way) for way in (BY_RECORD, BY_MAIL, BY_MAIL, BY_MAIL | BY_QUEUE, BY_QUEUE, BY_RECORD)]
    rows += [(1, way) for way in (0, BY_RECORD, BY_QUEUE, BY_QUEUE, BY_PUT)]
    for label, ways in rows:
        log.note(label, 0.0, 0.0, 10.0, 1, 1, 1, 1, 0, 0, ways)
    log.names += ["", "other"]
    for begin, end in ((0, 3), (3, len(rows))):  # what was combined before counts too
        log.put([combine([log.table(begin, end)])])
    late = ("empty", 8e-5), ("sending", 2e-5), ("queue", 4e-5), ("put", 1.0)
    alone = BSPMachine(2, g=0.0, l=1e-6, r=1.0, late=late, first=first, after=((1.0, 1.0, 1.0, 1.0, 1.0),))
    ledger = Ledger(BSPMachine(2, g=0.0, l=1.0, r=1.0, exchange=alone), log)
    assert [record.exchange_predicted for record in ledger] == pytest.approx(expected)
    assert [ledger[number].exchange_predicted for number in range(len(rows))] == pytest.approx(expected)
    assert predicted(in_order(ledger), ledger.machine).exchange == pytest.approx(sum(expected))  # type: ignore[arg-type]


def test_what_other_supersteps_compute_between_two_of_a_way_counts_half() -> None:
    log = Log()
    for number, ways in enumerate((BY_PUT, BY_RECORD, BY_RECORD, BY_PUT, BY_PUT | BY_QUEUE)):
        log.note(number, 0.0, 0.0, 10.0, 1, 1, 1, 1, 0, 0, ways)
    log.names += ["a", "b", "c", "d", "e"]
    table = log.table(0, 5)
    table[:, SECONDS] = 1e-4, 2e-4, 3e-4, 1e-4, 1e-4
    for begin, end in ((0, 2), (2, 5)):
        log.put([combine([table[begin:end], table[begin:end]])])
    late = ("put", 1.0), ("queue", 1.0)
    alone = BSPMachine(2, g=0.0, l=0.0, r=1.0, late=late, after=((1.0, 1.0, 1.0, 1.0, 1.0),))
    ledger = Ledger(BSPMachine(2, g=0.0, l=1.0, r=1.0, exchange=alone), log)
    expected = [2e-4, 0.0, 0.0, 3e-4, 2e-4]  # at first 1e-4 more
    assert [record.exchange_predicted for record in ledger] == pytest.approx(expected)
    assert predicted(in_order(ledger), ledger.machine).exchange == pytest.approx(sum(expected))  # type: ignore[arg-type]
    faster = predicted(in_order(ledger), ledger.machine, 2.0)  # type: ignore[arg-type]
    assert faster.exchange == pytest.approx(1.5e-4 + 1.5e-4 + 1.5e-4)


@pytest.mark.parametrize(("seconds", "late"), [(0.0, 0.0), (2.0, 2.0)])
def test_exchanges_of_parts_are_late_by_what_parts_compute_alone(seconds: float, late: float) -> None:
    machine = BSPMachine(2, g=0.0, l=1.0, r=1.0, late=(("put", 1.0),), after=((1.0, 1.0, 1.0, 1.0, 1.0),))
    parts = PartTotals(2, work=0.0, h=2, messages=2, M=4, predicted=0.0, measured=0.0, seconds=seconds, ways=BY_PUT)
    found = predicted([], machine, parts_after=[parts])
    assert (found.exchange, found.latency) == pytest.approx((2.0 + late, 2.0))


def test_indices_of_patterns_that_are_made_cost_by_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log()
    for ways in (BY_PUT, MAKING, BY_PUT | MAKING):
        log.note(0, 0.0, 0.0, 10.0, 1, 1, 1, 1, 0, 0, ways)
    log.names.append("")
    log.put([combine([log.table(0, 3)])])
    log.riding.update({1: {INDICES: 8 * 20}, 2: {INDICES: 8 * 60}})
    alone = BSPMachine(2, g=0.0, l=1.0, r=1.0, g_way=(("put", 100.0), ("making", 0.5)))
    machine = BSPMachine(2, g=0.0, l=1.0, r=1.0, exchange=alone)
    ledger = Ledger(machine, log)
    assert [record.exchange_predicted for record in ledger] == [101, 1 + 0.5 * 10, 101 + 0.5 * 30]
    assert predicted(in_order(ledger, ledger.index_bytes), machine).exchange == 101 + 6 + 116
    assert of_runs([ledger, ledger], machine, 1.0).exchange == 2 * (101 + 6 + 116)
    ledger.save(tmp_path / "ledger.json")
    machine.save(tmp_path / "machine.json")
    assert command(["predict", str(tmp_path / "ledger.json"), "--machine", str(tmp_path / "machine.json")]) == 0
    assert float(rows(capsys.readouterr().out)[-1][2]) == pytest.approx(223)


def test_without_a_machine_file_it_says_where_those_are_that_runs_have_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.json"
    path.write_text('{"format": "pybsp-ledger", "version": 2, "runs": []}')
    monkeypatch.setattr(machine_cache, "folder", lambda: tmp_path / "machines")
    assert command(["predict", str(path)]) == 2
    assert "measured here" not in capsys.readouterr().err
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "one.json").write_text("{}")
    assert command(["predict", str(path)]) == 2
    assert f"measured here are in {tmp_path / 'machines'}" in capsys.readouterr().err


def test_a_ledger_without_a_machine_file_goes_by_its_own_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    path, machine = tmp_path / "ledger.json", tmp_path / "machine.json"
    exchange = BSPMachine(2, g=2.0, l=3.0, r=1.0, o_msg=4.0, o_way={"queue": 8.0}, first={"mail": 1.0})  # type: ignore[arg-type]
    here = dataclasses.replace(MACHINE, p=2, r=1.0, exchange=exchange)
    here.save(machine)
    ledger = pybsp.simulate(main_of_ledger, machine=here).ledger
    assert BSPMachine.of_json(json.loads(json.dumps(here.as_json())), 2, "") == here
    ledger.save(path)
    found = []
    for options in ([], ["--machine", str(machine)]):
        assert command(["predict", str(path), "--scale", "g=0.5", *options]) == 0
        found.append(rows(capsys.readouterr().out))
    assert found[0] == found[1]
    append_run(path, in_file(pybsp.simulate(main_of_ledger, p=2).ledger), first=False)
    assert command(["predict", str(path), "--scale", "g=0.5"]) == 2  # a run has another one
    assert "--machine: expected a machine file" in capsys.readouterr().err


@pytest.mark.fast
@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        ((), {"g": None}, r"runs\[0\]\.machine: expected an object of g, l, r, got one without g"),
        ((), {"l": None}, r"runs\[0\]\.machine: expected an object of g, l, r, got one without l"),
        ((), {"o_way": {"raven": 1.0}}, r"runs\[0\]\.machine: BSPMachine: o_way must be finite seconds .* by name"),
        ((), {"after": [[2.0, 1.0], [1.0, 1.0]]}, r"runs\[0\]\.machine: BSPMachine: after must be rows"),
        (("exchange",), {"g": None}, r"runs\[0\]\.machine\.exchange: expected an object of g, l, r, got one without g"),
        (("exchange",), {"late": 1}, r"runs\[0\]\.machine\.exchange\.late: expected an object, got 1"),
        (("exchange",), {"exchange": 1}, r"runs\[0\]\.machine\.exchange\.exchange: expected an object of g, l, r"),
    ],
)
def test_a_damaged_machine_of_a_ledger_is_an_error_that_names_file_and_field(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[str, ...],
    change: dict[str, object],
    said: str,
) -> None:
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    path = tmp_path / "ledger.json"
    here = dataclasses.replace(MACHINE, p=2, exchange=BSPMachine(2, g=2.0, l=3.0, r=1.0))
    whole = in_file(pybsp.simulate(lambda bsp: bsp.sync(), machine=here).ledger)
    machine = whole["machine"]
    for name in place:
        machine = machine[name]
    machine.update(change)
    for name, value in change.items():
        if value is None:
            del machine[name]
    append_run(path, whole, first=True)
    assert command(["predict", str(path)]) == 2
    assert re.search(rf"ledger file .*ledger\.json: {said}", capsys.readouterr().err)
    with pytest.raises(pybsp.UsageError, match=rf"ledger file .*ledger\.json: {said}"):
        pybsp.Ledger.load(path)


def test_a_file_of_a_ledgers_name_that_is_none_is_told_before_a_machine_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    path = tmp_path / "ledger.json"
    path.write_text("")
    assert command(["predict", str(path)]) == 2
    assert f"ledger file {path}: is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("of_ledger", [True, False])
def test_a_prediction_leaves_out_columns_until_it_fits_into_a_terminal_and_cuts_no_figure(
    files: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    of_ledger: bool,
) -> None:
    path = tmp_path / "ledger.json"
    pybsp.simulate(main_of_ledger, p=2).ledger.save(path)
    arguments = [str(path)] if of_ledger else [files[0], "1000", "-p", "2"]

    def lines(width: str) -> list[str]:
        monkeypatch.setenv("COLUMNS", width)
        assert command(["predict", *arguments, "--machine", files[1]]) == 0
        return [
            line for line in capsys.readouterr().out.splitlines() if line[0] in "┏┃│" or line.startswith("Left out of")
        ]

    whole = lines("")
    assert len(whole[0]) > 80
    *narrow, left_out = lines("80")
    assert max(map(len, narrow)) <= 80
    assert "…" not in "".join(narrow)
    assert left_out == f"Left out of 80 columns: supersteps, {left_out.split(', ', 1)[1]}"
    assert left_out.endswith(f"; COLUMNS={len(whole[0])} has all.")
    if of_ledger:  # a program's times are others each time
        assert lines(str(len(whole[0]))) == whole
        for row, fewer in zip(rows("\n".join(whole)), rows("\n".join(narrow)), strict=True):
            assert {*fewer} <= {*row}


def test_a_ledger_without_runs_is_told_as_by_a_report(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.json"
    path.write_text('{"format": "pybsp-ledger", "version": 2, "runs": []}')
    assert command(["predict", str(path), "--machine", files[1]]) == 0
    assert capsys.readouterr().out == "No BSP run is in it.\n"
