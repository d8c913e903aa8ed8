"""`pybsp run --trace` of LogP programs, and `pybsp report` of what it writes: measured beside predicted."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from pybsp import BSPMachine, LogPMachine
from pybsp.cli import main as command
from pybsp.commands import logp_report
from pybsp.errors import UsageError
from pybsp.ledger.chrome import TraceFile
from pybsp.logp import Processor, Timeline, predict, simulate
from pybsp.logp.traced_run import TracedRun

from .launching import Program, ended_well, python, run
from .test_files import mutated
from .test_page import TAGS, Page
from .tiers import some

MACHINE = LogPMachine(4, L=16, o=1, G=4, step=1e-6)


def gather(proc: Processor, each: int = 3) -> None:
    proc.compute(10 * proc.pid)
    for number in range(each * (proc.p - 1)):
        if not proc.pid:
            proc.recv()
        elif number < each:
            proc.send(0, [0.5] * 20)


def traced(machine: LogPMachine = MACHINE, virtual: bool = False, each: int = 3) -> TracedRun:
    """A run as if it had been measured."""
    timeline = Timeline.of(simulate(gather, machine=machine, args=(each,)))
    return TracedRun(
        timeline, "per-pair", virtual, ["<b>host</b>"] * machine.p, "today", {"pybsp": "1"}, predict(timeline)
    )


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    TraceFile().add_logp(str(path), traced())
    return path


def test_a_file_has_the_timeline_bit_for_bit(trace: Path) -> None:
    (found,) = logp_report.read(str(trace))
    original = traced()
    for name in ("first", "kinds", "peers", "words", "begun", "ready", "ended", "stalled", "started", "finished"):
        assert getattr(found.timeline, name).tolist() == getattr(original.timeline, name).tolist(), name
    assert (found.timeline.machine, found.capacity, found.virtual) == (MACHINE, "per-pair", False)
    assert found.predicted is not None
    assert found.predicted.seconds == found.timeline.seconds


def test_further_words_of_long_messages_are_gap_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    original = traced(dataclasses.replace(MACHINE, G_word=1e-6), virtual=True)
    TraceFile().add_logp(str(path), original)
    (found,) = logp_report.read(str(path))
    for part, seconds in original.timeline.spent().items():
        assert found.timeline.spent()[part].tolist() == seconds.tolist(), part


def test_what_was_simulated_is_not_called_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    TraceFile().add_logp(str(path), traced(virtual=True))
    assert command(["report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "simulated/predicted 1 (error 0.0%): simulated" in text
    assert "Cells are simulated / predicted." in text
    assert "measured" not in text


@pytest.mark.fast
@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("paced", [False, True])
def test_ranks_that_kept_gaps_are_said_to_have_had_pace(virtual: bool, paced: bool) -> None:
    run = traced(virtual=virtual)
    run = dataclasses.replace(run, timeline=dataclasses.replace(run.timeline, paced=paced))
    assert (", with pace; " in logp_report.title(1, run)) == (paced and not virtual)


def test_times_of_more_than_a_hundred_days_are_read_bit_for_bit(tmp_path: Path) -> None:
    long = dataclasses.replace(MACHINE, step=7e7)  # seconds; together the processors' are beyond 2^63 ns
    path = tmp_path / "trace.json"
    TraceFile().add_logp(str(path), traced(long, virtual=True))
    (found,) = logp_report.read(str(path))
    original = traced(long).timeline
    assert original.finished.min() > 1 << 55
    for name in ("begun", "ready", "ended", "started", "finished", "work"):
        assert getattr(found.timeline, name).tolist() == getattr(original, name).tolist(), name


def test_perfetto_gets_measured_and_predicted_with_all_messages(trace: Path) -> None:
    content = json.loads(trace.read_text())
    assert (content["format"], content["version"]) == ("pybsp-trace", 1)
    events = content["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(names.values()) == ["run 1, measured: p = 4 on <b>host</b>", "run 1, predicted"]
    measured, predicted = names
    for pid in names:
        own = [e for e in events if e["pid"] == pid]
        operations = [e for e in own if e.get("cat") == "operation"]
        assert [e["name"] for e in operations if e["tid"] == 1] == ["send to 0"] * 3
        assert len([e for e in operations if e["name"].startswith("receive")]) == 9
        flows = {kind: [e["id"] for e in own if e["ph"] == kind] for kind in "sf"}
        assert sorted(flows["s"]) == sorted(flows["f"])
        assert len(set(flows["s"])) == 9
        for e in operations:  # what it goes to lies within
            inside = [
                i
                for i in own
                if i["ph"] == "X"
                and i["tid"] == e["tid"]
                and i["cat"] != "operation"
                and e["ts"] - 1e-6 <= i["ts"]
                and i["ts"] + i["dur"] <= e["ts"] + e["dur"] + 1e-6
            ]
            assert sum(i["dur"] for i in inside) == pytest.approx(e["dur"])
    assert measured != predicted


def test_the_table_has_measured_beside_predicted(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", str(trace)]) == 0
    text = capsys.readouterr().out
    assert "run 1: p = 4 MPI ranks on <b>host</b>, today, capacity per-pair (4)" in text
    assert "measured/predicted 1 (error 0.0%)" in text
    assert "9 messages of" in text
    for head in ("sent", "acquired", "words sent", "computing [s]", "o [s]", "G [s]", "stalled [s]", "waiting [s]"):
        assert head in text
    rows = [line for line in text.splitlines() if line.startswith("│")]
    assert len(rows) == 5
    assert "9e-06 / 9e-06" in rows[0]  # o of the nine that it acquired


def test_on_a_terminal_columns_are_left_out_and_no_figure_is_cut(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(*options: str, width: str = "") -> list[str]:
        monkeypatch.setenv("COLUMNS", width)
        assert command(["report", *options, str(trace)]) == 0
        return [
            line for line in capsys.readouterr().out.splitlines() if line[0] in "┏┃│" or line.startswith("Left out of")
        ]

    whole = lines()
    *narrow, left_out = lines(width="80")
    assert max(map(len, narrow)) <= 80 < len(whole[0])
    assert "…" not in "".join(narrow)
    assert "9e-06 / 9e-06" in whole[2]
    assert "9e-06 / 9e-06" not in narrow[3]  # o
    assert "words sent" not in "".join(narrow)
    assert left_out.startswith("Left out of 80 columns: words sent, acquired, sent, ")
    assert left_out.endswith(f"; `pybsp report --wide`, or COLUMNS={len(whole[0])}, has all.")
    assert lines("--wide", width="80") == lines(width=str(len(whole[0]))) == whole


def test_messages_that_are_not_in_it_are_said(trace: Path) -> None:
    (whole,) = logp_report.read(str(trace))
    assert not any("not in it" in note for note in logp_report.notes(whole))
    cut = dataclasses.replace(whole.timeline, left_out=7)
    found = list(logp_report.notes(dataclasses.replace(whole, timeline=cut)))
    assert found[0].startswith("7 more messages are not in it")


def test_another_machine_predicts_another_time(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LogPMachine(8, L=1600, o=1, G=4, step=1e-6).save(tmp_path / "machine.json")
    assert command(["report", str(trace), "--machine", str(tmp_path / "machine.json")]) == 0
    text = capsys.readouterr().out
    assert "L = 0.0016 s" in text
    assert "measured/predicted 0.0" in text


def test_a_run_without_a_machine_file_is_not_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    TraceFile().add_logp(str(path), traced(LogPMachine.nominal(3)))
    assert command(["report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "no machine file" in text
    assert "There is no machine to predict by: --machine FILE" in text
    assert " / " not in text


def test_a_run_that_its_machine_does_not_predict_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file, run = tmp_path / "trace.json", TraceFile(), traced()
    odd = dataclasses.replace(run.timeline, machine=dataclasses.replace(MACHINE, L=3))
    file.add_logp(str(path), dataclasses.replace(run, timeline=odd, predicted=None))
    file.add_logp(str(path), run)
    assert command(["report", str(path)]) == 0
    first, second = capsys.readouterr().out.split("run 2: ")
    assert "L = 3e-06 s, o = 1e-06 s, G = 4e-06 s; pybsp 1" in first
    assert "There is no prediction (pybsp.logp.predict: machine: max{2, o} <= G <= L does not hold: G = 4 is" in first
    assert "is above L = 3" in first
    assert "--machine FILE takes another machine" in first
    assert "measured/predicted" not in first
    assert "measured/predicted 1 (error 0.0%)" in second
    assert command(["report", str(path), "--html", str(tmp_path / "report.html")]) == 0
    assert "There is no prediction" in (tmp_path / "report.html").read_text()
    odd.machine.save(tmp_path / "odd.json")
    assert command(["report", str(path), "--machine", str(tmp_path / "odd.json")]) == 2
    assert "logp[0]: pybsp.logp.predict: machine: max{2, o} <= G <= L" in capsys.readouterr().err


def test_the_page_has_both_timelines_and_no_markup_of_others(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert command(["report", str(trace), "--html", str(out)]) == 0
    found = Page(out)
    assert {tag for tag, _ in found.tags} <= TAGS
    assert "<b>host</b>" in found.text
    for text in ("Timeline by processor, measured", "Timeline by processor, predicted", "Time by processor"):
        assert text in found.text, text
    assert found.count("svg") == 2
    assert command(["report", str(trace), "--html", str(tmp_path / "no" / "page.html")]) == 2


def test_more_processors_than_rows_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    TraceFile().add_logp(str(path), traced(LogPMachine(130, L=16, o=1, G=4, step=1e-6), each=1))
    assert command(["report", str(path)]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert len(rows) == 44 + 1
    assert "129 to 129" in rows[-2]
    assert command(["report", str(path), "--html", str(tmp_path / "page.html")]) == 0
    assert "processor (lanes of 3)" in (tmp_path / "page.html").read_text()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"took": [float("nan")]},
            r"logp\[0\]\.took\[0\]: expected a whole number of at least 0 and at most \d+, got nan",
        ),
        ({"ready": [1, 2]}, r"logp\[0\]\.ready: expected a list of 18, as operations says, got one of 2"),
        ({"peers": [0] * 18}, r"logp\[0\]\.peers: expected other processors below 4"),
        ({"peers": [-2] * 9 + [1] * 9}, r"logp\[0\]\.peers: expected "),
        ({"operations": [18]}, r"logp\[0\]\.operations: expected a list of p = 4, got one of 1"),
        ({"took": [1 << 62] * 18}, r"logp\[0\]\.finished: expected times after the last operations"),
        ({"work": [1 << 54, 1 << 70, 0, 0]}, r"logp\[0\]\.work\[1\]: expected a whole number of .* and at most 4611"),
        ({"left out": 1 << 54}, r"logp\[0\]\.left out: expected a whole number of .* and at most 2\^53, got 180"),
        ({"finished": [0] * 4}, r"logp\[0\]\.finished: expected times after the last operations"),
        ({"machine": {"L": 1}}, r"logp\[0\]\.machine: expected an object of L, o, G, step, got one without o, G, step"),
        ({"capacity": "none"}, r'logp\[0\]\.capacity: expected "global" or "window" or "per-pair", got \'none\''),
        ({"p": 0}, r"logp\[0\]\.p: expected a whole number of at least 1"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_file_and_field(trace: Path, change: dict[str, Any], said: str) -> None:
    content = json.loads(trace.read_text())
    content["logp"][0].update(change)
    trace.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=rf"trace file .*trace\.json: {said}"):
        logp_report.read(str(trace))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"format": "pybsp-trace", "version": 2, "logp": []}',
            "version 2 is not known here; this pybsp reads version 1",
        ),
        ('{"format": "pybsp-trace", "version": 1, "logp": []}', "it has no LogP run; of BSP runs"),
        ('{"format": "pybsp-trace", "version": 1}', "expected an object of format, version, logp"),
        ('{"format": "pybsp-trace", "version": 1, "logp": [', "trace.json"),
    ],
)
def test_files_of_other_versions_and_halves_are_refused(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert command(["report", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_damaged_files_are_refused_or_shown(trace: Path, tmp_path: Path) -> None:
    content, rng = json.loads(trace.read_text()), random.Random(5)
    content["traceEvents"] = []
    shown = 0
    for _ in range(some(300)):
        trace.write_bytes(mutated(content, rng))
        try:
            shown += logp_report.report(str(trace), None) == 0
        except UsageError:
            continue
    assert shown


@pytest.mark.parametrize("words", ["show", "export --format simgrid", "compare", "predict"])
def test_other_commands_say_that_report_shows_a_trace(
    trace: Path, tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.json"
    BSPMachine.nominal(4).save(machine)
    more = {"compare": [str(machine)], "predict": ["--machine", str(machine)]}
    assert command([*words.split(), str(trace), *more.get(words, [])]) == 2
    assert "got 'pybsp-trace'; `pybsp report` shows such a file" in capsys.readouterr().err


def test_what_report_takes(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", str(trace), str(trace)]) == 2
    assert "expected one trace file, got" in capsys.readouterr().err
    assert command(["report", str(tmp_path / "ledger.json"), "--machine", "m.json"]) == 2
    assert f"{tmp_path / 'ledger.json'}: cannot be read (No such file or directory)" in capsys.readouterr().err
    (tmp_path / "ledger.json").write_text("{}")
    assert command(["report", str(tmp_path / "ledger.json"), "--machine", "m.json"]) == 2
    err = capsys.readouterr().err
    assert "--machine: expected a file of LogP runs" in err
    assert f"{tmp_path / 'ledger.json'} is none" in err


def test_runs_that_are_more_than_a_file_holds_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybsp.ledger.chrome.SPANS_OF_FILE", 40)
    path, file = tmp_path / "trace.json", TraceFile()
    for _ in range(4):
        file.add_logp(str(path), traced())
    content = json.loads(path.read_text())
    assert (len(content["logp"]), content["otherData"]["runs"], content["otherData"]["runs left out"]) == (2, 4, 2)


def test_of_many_operations_the_first_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybsp.logp.traced_run.SLICES", 5)
    found = [e for e in traced().events(1, 0) if e.get("cat") == "operation" and e["pid"] == 1]
    begun = sorted(traced().timeline.begun.tolist())[:5]
    assert sorted(round(1e3 * e["ts"]) for e in found) == begun


PROGRAM = """
    from pybsp import logp
    def program(proc):
        if proc.pid:
            return proc.send(0, proc.pid)
        return sum(proc.recv().payload for _ in range(proc.p - 1))
    for _ in range(2):
        logp.run(program)
"""


def test_the_command_writes_a_trace_of_each_run_that_report_shows(program: Program, tmp_path: Path) -> None:
    path, trace, machine = program(PROGRAM), tmp_path / "trace.json", tmp_path / "machine.json"
    LogPMachine(3, L=400, o=20, G=40, step=1e-7).save(machine)
    options = ["--trace", str(trace), "--machine", str(machine)]
    ended_well(run([*python("-m"), "pybsp", "run", "-n", "3", *options, str(path)]))
    runs = logp_report.read(str(trace))
    assert [(one.timeline.p, one.timeline.sent.tolist(), one.virtual) for one in runs] == [(3, [0, 1, 1], False)] * 2
    assert all(one.predicted is not None for one in runs)
    assert "run 2: p = 3 MPI ranks" in ended_well(run([*python("-m"), "pybsp", "report", str(trace)]))


def test_a_simulated_program_has_a_trace_too(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, trace, machine = program(PROGRAM), tmp_path / "trace.json", tmp_path / "machine.json"
    MACHINE.save(machine)
    options = ["--trace", str(trace), "--machine", str(machine)]
    ended_well(run([sys.executable, "-m", "pybsp", "simulate", "-p", "4", *options, str(path)]))
    assert command(["report", str(trace)]) == 0
    text = capsys.readouterr().out
    assert "p = 4 virtual processors" in text
    assert "Times are virtual" in text
    assert [one.timeline.seconds for one in logp_report.read(str(trace))] == [pytest.approx(24e-6)] * 2


def test_run_on_a_simulated_machine_says_what_it_warns_of_on_ranks(program: Program) -> None:
    path = program(
        """
        import pybsp
        machines = pybsp.LogPMachine(3, L=8, o=1, G=1), pybsp.LogPMachine(5, L=16, o=1, G=4)
        for machine in machines:
            try:
                print(pybsp.logp.run(lambda proc: proc.p, machine=machine))
            except pybsp.UsageError as error:
                print(error)
        """
    )
    ended = run([sys.executable, "-m", "pybsp", "simulate", "-p", "3", str(path)])
    error, result = ended_well(ended).splitlines()[:2]
    assert error.startswith("pybsp.logp.run: on a simulated machine: machine: max{2, o} <= G <= L does not hold")
    assert result == "3"
    assert "pybsp: the argument machine is for p = 5, this run has p = 3" in ended.err
