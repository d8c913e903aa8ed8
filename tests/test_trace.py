"""`--trace`: each processor's own supersteps in Chrome's form, and who sent how much to whom."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.cli import main as command
from pybsp.ledger import chrome
from pybsp.ledger import trace as traces
from pybsp.ledger.account import Account
from pybsp.ledger.ledger_file import read
from pybsp.ledger.log import Log
from pybsp.machines.bsp import BSPMachine
from pybsp.supersteps.superstep import SuperstepEngine
from pybsp.transport.router import Direct
from pybsp.transport.virtual import Scheduler, VirtualMeeting, VirtualTransport

from .costs import in_file
from .launching import Program, ended_well, python, run

ROOT = Path(__file__).parent.parent
MACHINE = BSPMachine(3, g=1e-8, l=1e-5, r=1e9)


def program(bsp: pybsp.BSP) -> None:
    """Processor k sends k + 1 words to the next one, three times; all reduce; all get from processor 0."""
    for _ in range(3):
        with bsp.superstep("ring"):
            bsp.work(1e4 * (bsp.pid + 1))
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(bsp.pid + 1))
    assert len(bsp.ledger) == 3  # from here on rows are combined
    with bsp.label("norm"):
        collectives.allreduce(bsp, np.ones(3), np.add)
    x = bsp.array(10)
    bsp.sync()
    ticket = x.get(0)
    with bsp.superstep("get"):
        pass
    assert ticket.value.size == 10


def simulated(tmp_path: Path, supersteps: str = "program", p: int = 3) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events of a trace and the run of its ledger."""
    source, trace, ledger = (tmp_path / name for name in ("program.py", "trace.json", "ledger.json"))
    MACHINE.save(tmp_path / "machine.json")
    source.write_text(f"import pybsp\nfrom tests.test_trace import {supersteps} as main\npybsp.run(main)\n")
    options = ["--trace", str(trace), "--ledger", str(ledger), "--machine", str(tmp_path / "machine.json")]
    assert command(["simulate", "-p", str(p), *options, str(source)]) == 0
    return json.loads(trace.read_text())["traceEvents"], read(ledger)["runs"][0]


def slices(events: list[dict[str, Any]], category: str, processor: int) -> list[dict[str, Any]]:
    return [e for e in events if e["ph"] == "X" and e["cat"] == category and e["tid"] == processor]


def test_a_trace_has_each_processors_own_supersteps(tmp_path: Path) -> None:
    events, run = simulated(tmp_path)
    labels = [record.label for record in run["supersteps"]]
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == [f"processor {k}" for k in range(3)]
    for pid in range(3):
        found = slices(events, "superstep", pid)
        assert [e["name"] for e in found] == [label or "superstep" for label in labels]
        assert [e["args"]["words out"] for e in found[:3]] == [pid + 1] * 3
        assert [e["args"]["words in"] for e in found[:3]] == [(pid - 1) % 3 + 1] * 3
        assert [e["dur"] for e in slices(events, "computing", pid)[:3]] == [
            10.0 * (pid + 1)
        ] * 3  # us, before combining
        assert [e["dur"] for e in slices(events, "waiting", pid)[:3]] == [10.0 * (2 - pid)] * 3 * (pid < 2)
        assert [e["dur"] for e in slices(events, "exchange", pid)[:3]] == [pytest.approx(10.03)] * 3
        assert {e["name"] for e in slices(events, "collective", pid)} == {"allreduce"}
        assert sum(e["dur"] for e in found) == pytest.approx(1e6 * run["supersteps"].total.measured)
        for one, next_one in pairwise(found):
            assert one["ts"] + one["dur"] == pytest.approx(next_one["ts"])


def test_what_a_ledger_keeps_of_a_trace_has_all_words_by_label_from_each_to_each(tmp_path: Path) -> None:
    _, run = simulated(tmp_path)
    trace = run["trace"]
    words = {(trace["labels"][kind], a, b): count for kind, a, b, count in trace["words"]}
    assert {place: words[place] for place in words if place[0] == "ring"} == {
        ("ring", k, (k + 1) % 3): 3 * (k + 1) for k in range(3)
    }
    assert {place: words[place] for place in words if place[0] == "get"} == {("get", 0, 1): 10, ("get", 0, 2): 10}
    assert sum(words.values()) == run["supersteps"].total.M
    assert np.sum(trace["sent"]) == pytest.approx(run["supersteps"].total.M, rel=1e-3)
    total = run["supersteps"].total
    assert trace["seconds"] == pytest.approx(total.measured)
    spent = np.array([trace[name] for name in ("computing", "waiting", "exchange")])
    assert spent.sum(axis=(0, 2)) == pytest.approx([total.measured] * 3, rel=1e-3)
    assert np.sum(trace["computing"]) == pytest.approx(3 * total.seconds_mean, rel=1e-3)
    first = [trace["labels"][row[0]] for row in trace["kinds"]]
    assert first == ["ring"] * 3


def many(bsp: pybsp.BSP) -> None:
    for step in range(100):
        with bsp.superstep(f"label {step}"):
            bsp.send((bsp.pid + 1) % bsp.p, 1.0)


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "SPANS", 10)
    monkeypatch.setattr(traces, "LANES", 3)
    monkeypatch.setattr(traces, "_SENT", 20)
    events, run = simulated(tmp_path, "many", 5)
    found = slices(events, "superstep", 4)
    assert len(found) == 15  # of seven supersteps each
    assert found[-1]["args"]["supersteps"] == "98 to 99"
    assert sum(e["args"]["words out"] for e in found) == 100
    trace = run["trace"]
    assert (trace["p"], trace["lane"], len(trace["computing"])) == (5, 2, 3)
    assert len(trace["labels"]) == traces.KINDS + 1
    assert sum(count for *_, count in trace["words"]) == 500 == np.rint(np.sum(trace["sent"]))
    by_label = Counter[str]()
    for kind, *_, count in trace["words"]:
        by_label[trace["labels"][kind]] += count
    assert sorted(by_label.values())[:-1] == [5] * (len(by_label) - 1)  # a ring's words
    assert by_label.most_common(1)[0][0] == traces.OTHERS


def long_label(bsp: pybsp.BSP) -> None:
    for _ in range(10):
        with bsp.superstep("x" * 1000):
            pass


def test_each_slice_has_the_beginning_of_a_long_label(tmp_path: Path) -> None:
    events, run = simulated(tmp_path, "long_label")
    assert {e["name"] for e in slices(events, "superstep", 0)} == {"x" * traces.LONGEST}
    assert run["trace"]["labels"][0] == "x" * traces.LONGEST


def two_labels(bsp: pybsp.BSP) -> None:
    for step in range(48):
        with bsp.superstep("cheap"):
            pass
        with bsp.superstep(("dear", "dearest")[step // 24]):
            bsp.work(1e6)


def test_of_several_supersteps_the_dearest_label_names_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "SPANS", 10)
    events, run = simulated(tmp_path, "two_labels")
    found = slices(events, "superstep", 0)
    assert len(found) == 16  # of six supersteps each, of which the first is a cheap one
    assert [e["name"] for e in found] == ["dear"] * 8 + ["dearest"] * 8
    assert {run["trace"]["labels"][kind] for row in run["trace"]["kinds"] for kind in row} == {"dear", "dearest"}


def quiet_and_talking(bsp: pybsp.BSP) -> None:
    for step in range(2 * traces.KINDS):
        with bsp.superstep(f"computes {step}"):
            bsp.work(1e6)
    with bsp.superstep("talks"):
        bsp.send((bsp.pid + 1) % bsp.p, 1.0)


def test_a_label_that_takes_little_time_is_told_apart_where_it_sends_most(tmp_path: Path) -> None:
    trace = simulated(tmp_path, "quiet_and_talking")[1]["trace"]
    assert len(trace["labels"]) == traces.KINDS + 1
    assert {trace["labels"][kind] for kind, *_ in trace["words"]} == {"talks"}


RESTARTED = """
import numpy as np, pybsp
def main(bsp):
    state = bsp.restore({"step": 0})
    begun = state["step"]
    for step in range(begun, 6):
        with bsp.superstep("ring"):
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(100))
        state["step"] = step + 1
        bsp.checkpoint(state)
        if step == 3 and not begun:
            raise SystemExit(9)
pybsp.run(main, checkpoint="saved", every=1)
"""


@pytest.mark.whole
@pytest.mark.parametrize("traced", [True, False])
def test_a_run_that_goes_on_from_a_checkpoint_has_the_words_of_before_where_that_had_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(RESTARTED)
    files = ["--trace", "trace.json", "--ledger", "ledger.json"]
    line = ["-m", "pybsp", "simulate", "-p", "2", "program.py"]
    assert run(python(*line[:-1], *files * traced, line[-1])).code == 9
    assert ended_well(run(python(*line[:-1], *files, line[-1]))) == ""
    found = read("ledger.json")["runs"][0]
    assert found["supersteps"].total.M == 1200
    assert sum(count for *_, count in found["trace"]["words"]) == (1200 if traced else 600)
    assert command(["report", "ledger.json", "--html", "page.html"]) == 0
    said = "600 more words, of 1200, came before a checkpoint of a run without a trace"
    assert (said in Path("page.html").read_text()) == (not traced)


def test_runs_beyond_a_bound_are_counted_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "SPANS_OF_FILE", 50)
    source, trace = tmp_path / "program.py", tmp_path / "trace.json"
    source.write_text("import pybsp\nfor _ in range(3): pybsp.run(lambda bsp: [bsp.sync() for _ in range(10)])\n")
    assert command(["simulate", "-p", "2", "--trace", str(trace), str(source)]) == 0
    content = json.loads(trace.read_text())
    assert content["otherData"] | {"pybsp": ""} == {"pybsp": "", "runs": 3, "runs left out": 1}
    found = slices(content["traceEvents"], "superstep", 0)
    assert [e["pid"] for e in found] == [1] * 10 + [2] * 10
    assert found[10]["ts"] == pytest.approx(found[9]["ts"] + found[9]["dur"])


def test_ranks_keep_their_own_and_processor_0_writes_it(tmp_path: Path) -> None:
    source, trace, ledger = (tmp_path / name for name in ("program.py", "trace.json", "ledger.json"))
    source.write_text("import pybsp\nfrom tests.test_trace import program\npybsp.run(program)\n")
    files = ["--trace", str(trace), "--ledger", str(ledger)]
    ended_well(run([sys.executable, "-m", "pybsp", "run", "-n", "3", *files, str(source)], PYTHONPATH=str(ROOT)))
    events, (found,) = json.loads(trace.read_text())["traceEvents"], read(ledger)["runs"]
    for pid in range(3):
        own = slices(events, "superstep", pid)
        assert [e["name"] for e in own] == [record.label or "superstep" for record in found["supersteps"]]
        assert [e["args"]["words out"] for e in own[:3]] == [pid + 1] * 3
    kept = found["trace"]
    ring = {(a, b): count for kind, a, b, count in kept["words"] if kept["labels"][kind] == "ring"}
    assert ring == {(k, (k + 1) % 3): 3 * (k + 1) for k in range(3)}


def test_words_of_collectives_and_gets_on_ranks_are_all_there_from_each_to_each(
    program: Program, tmp_path: Path
) -> None:
    """Also of what processors read in each other's records and memory, where nothing is sent."""
    ledger = tmp_path / "ledger.json"
    path = program("""
        import numpy as np, pybsp
        from pybsp import collectives

        def main(bsp):
            grid = bsp.grid(2, 2)
            x = bsp.array(100)
            bsp.sync()
            for _ in range(2):
                collectives.allreduce(bsp, 1.0, np.add, degree=4)
                collectives.prefix(bsp, np.arange(5), np.add)
                collectives.broadcast(bsp, 2.0 if bsp.pid == 1 else None, 1)
                collectives.broadcast(bsp, np.ones((2, 3)) if bsp.pid == 2 else None, 2)
                collectives.broadcast(bsp, "text" if bsp.pid == 0 else None)
                collectives.allgather(bsp, bsp.pid)
                with bsp.label("rows"):
                    collectives.allreduce(grid.row, 1.0, np.add)
                with bsp.label("long"):
                    collectives.allreduce(bsp, 1 << 1_200_000, max, degree=4)
            ticket = x.get((bsp.pid + 1) % bsp.p, slice(0, 7))
            with bsp.superstep("get"):
                pass
            return ticket.value

        pybsp.run(main)
    """)
    options = ["--ledger", str(ledger), "--trace", str(tmp_path / "trace.json")]
    ended_well(run([*python("-m"), "pybsp", "run", "-n", "4", *options, str(path)]))
    (found,) = read(ledger)["runs"]
    words = {(found["trace"]["labels"][kind], a, b): count for kind, a, b, count in found["trace"]["words"]}
    assert sum(words.values()) == found["supersteps"].total.M
    assert {place: words[place] for place in words if place[0] == "get"} == {
        ("get", (k + 1) % 4, k): 7 for k in range(4)
    }
    assert {place: words[place] for place in words if place[0] == "rows"} == {("rows", k, k ^ 1): 2 for k in range(4)}
    from_each_to_each = {("allreduce", a, b): 2 for a in range(4) for b in range(4) if a != b}
    assert {place: words[place] for place in words if place[0] == "allreduce"} == from_each_to_each


@pytest.mark.whole
def test_words_of_what_begin_sends_are_counted(program: Program, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    path = program("""
        import pybsp
        def main(bsp):
            bsp.send(1 - bsp.pid, bytes(80))
            bsp.begin()
            bsp.end()
        pybsp.run(main)
    """)
    options = ["--ledger", str(ledger), "--trace", str(tmp_path / "trace.json")]
    ended_well(run([*python("-m"), "pybsp", "run", "-n", "2", *options, str(path)]))
    assert read(ledger)["runs"][0]["trace"]["words"] == [[0, 0, 1, 10], [0, 1, 0, 10]]


def test_a_place_that_cannot_be_written_is_an_error_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "program.py"
    source.write_text("raise AssertionError")
    assert command(["simulate", "-p", "2", "--trace", str(tmp_path / "no" / "trace.json"), str(source)]) == 2
    assert "--trace: expected a file that can be written" in capsys.readouterr().err


def test_nothing_is_kept_where_nobody_asks() -> None:
    transport = VirtualTransport(VirtualMeeting(1, Scheduler(), MACHINE, 0.0), 0)
    router = Direct(transport)
    engine = SuperstepEngine(transport, router, Account(transport), checked=False)
    assert engine.tracer is None
    assert type(engine.account.log) is Log


WITH_PARTS = """
import time
import numpy as np
import pybsp
def main(bsp):
    halves = bsp.split(0)
    with halves as part:
        for _ in range(3):
            part.send((part.pid + 1) % part.p, np.zeros(20000))
            time.sleep(0.05 * (part.pid == 0))
            part.sync()
    bsp.sync()
pybsp.run(main)
"""


@pytest.mark.whole
@pytest.mark.parametrize("command_line", [["simulate", "-p"], ["run", "-n"]])
def test_report_page_and_trace_show_what_parts_did(
    program: Program, tmp_path: Path, command_line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, trace, page, machine = (tmp_path / name for name in ("l.json", "t.json", "p.html", "m.json"))
    BSPMachine(2, g=1e-8, l=1e-5, r=1e9).save(machine)
    line = [sys.executable, "-m", "pybsp", *command_line, "2", "--ledger", str(ledger), "--trace", str(trace)]
    ended_well(run([*line, "--machine", str(machine), str(program(WITH_PARTS))]))
    record = read(ledger)["runs"][0]["supersteps"][1]
    assert (record.parts.supersteps, record.parts.h) == (3, 60000)
    assert 3e-4 < record.parts.exchange_predicted < record.exchange_predicted  # 3 * 20000 * 1e-8 and latencies
    if command_line[0] == "run":  # it waits for processor 0
        assert 0.15 <= record.seconds <= record.measured
    for pid in range(2):
        found = [
            e["args"]["parts"]["h"]
            for e in slices(json.loads(trace.read_text())["traceEvents"], "superstep", pid)
            if "parts" in e["args"]
        ]
        assert found == [60000]
    capsys.readouterr()
    assert command(["report", str(ledger), "--html", str(page)]) == 0
    assert command(["report", str(ledger)]) == 0
    for text in (page.read_text(), capsys.readouterr().out):
        assert "parts of the machine: 3 supersteps of their own in 1 superstep of the whole" in text


def test_damaged_parts_of_a_ledger_are_errors_that_name_file_and_field(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.split(0) as part:
            part.sync()
        bsp.sync()

    whole = in_file(pybsp.simulate(main, p=2).ledger)
    path = tmp_path / "l.json"
    good = json.loads(json.dumps(whole))["parts"]["1"]
    for parts, wrong in (
        ({"x": good}, "parts: expected the number of a superstep, below 2, got x"),
        ({"2": good}, "parts: expected the number of a superstep, below 2, got 2"),
        ({"1": 1}, "parts.1: expected an object of "),
        ({"1": {**good, "measured": -1.0}}, "parts.1.measured: expected a finite number of at least 0"),
        ({"1": {**good, "h": 0.5}}, "parts.1.h: expected a whole number"),
    ):
        path.write_text(json.dumps({"format": "pybsp-ledger", "version": 2, "runs": [{**whole, "parts": parts}]}))
        with pytest.raises(pybsp.UsageError, match=re.escape(f"l.json: runs[0].{wrong}")):
            read(path)
    del good["seconds"], good["items"], good["ways"]  # as earlier files are
    path.write_text(json.dumps({"format": "pybsp-ledger", "version": 2, "runs": [{**whole, "parts": {"1": good}}]}))
    assert read(path)["runs"][0]["supersteps"][1].parts.seconds == 0


def test_a_record_whose_h_is_not_the_larger_of_out_and_in_is_an_error(tmp_path: Path) -> None:
    whole = in_file(pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger)
    whole["supersteps"][0]["h"] = 5
    path = tmp_path / "l.json"
    path.write_text(json.dumps({"format": "pybsp-ledger", "version": 2, "runs": [whole]}))
    with pytest.raises(pybsp.UsageError, match=r"supersteps\[0\].h: expected the larger of h_out and h_in, 0, got 5"):
        read(path)


@pytest.mark.parametrize(
    ("calibrated", "said"), [(True, ', 0.09 s by w/r, which "by w/r" has not'), (False, ', which "w" has not')]
)
def test_a_report_says_what_work_of_parts_its_column_of_work_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], calibrated: bool, said: str
) -> None:
    def main(bsp: pybsp.BSP, flops: float) -> None:
        with bsp.split(bsp.pid) as part:
            part.work(flops, kind="sort")
            part.sync()
        bsp.work(1000)
        bsp.sync()

    machine = BSPMachine(2, g=1e-8, l=1e-5, r=1e9, rates=(("sort", 1e8),), calibrated=calibrated)
    for flops in 9e6, 0.0:
        pybsp.simulate(main, flops, machine=machine).ledger.save(tmp_path / "l.json")
        assert command(["report", str(tmp_path / "l.json")]) == 0
        printed = capsys.readouterr().out
        assert f" {'by w/r' if calibrated else 'w'} [" in printed
        assert (f"; charged in them: 9e+06 flop{said}\n" in printed) == (flops > 0)


def test_a_report_says_what_work_of_each_kind_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for _ in range(2):
            bsp.work(1000, kind="sort")
            bsp.sync()

    machine = BSPMachine(2, g=1e-8, l=1e-5, r=1e9, rates=(("sort", 1e6),))
    whole, path = in_file(pybsp.simulate(main, machine=machine).ledger), tmp_path / "l.json"
    path.write_text(json.dumps({"format": "pybsp-ledger", "version": 2, "runs": [whole]}))
    assert command(["report", str(path)]) == 0
    assert "work by kind: sort 2000 flop, 0.002 s by w/r" in capsys.readouterr().out
    for kinds, wrong in (
        ({"7": {"sort": 1.0}}, "kinds: expected the number of a superstep, below 2, got 7"),
        ({"1": {"sort": -1.0}}, "kinds.1.sort: expected a finite number of at least 0"),
        ({"1": 3}, "kinds.1: expected an object"),
    ):
        path.write_text(json.dumps({"format": "pybsp-ledger", "version": 2, "runs": [{**whole, "kinds": kinds}]}))
        assert command(["report", str(path)]) == 2
        assert f"l.json: runs[0].{wrong}" in capsys.readouterr().err
    whole["virtual"], whole["machine"]["exchange"] = False, {**whole["machine"], "rates": "fast"}
    path.write_text(json.dumps({"format": "pybsp-ledger", "version": 2, "runs": [whole]}))
    assert command(["report", str(path)]) == 2
    assert "l.json: runs[0].machine.exchange.rates: expected an object, got 'fast'" in capsys.readouterr().err
