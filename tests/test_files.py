"""Damaged files: each is refused with what was expected where, or read and reported; none ends in a traceback."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import subprocess
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import pybsp
from pybsp import BSPMachine, EBSPMachine, LogPMachine, UsageError
from pybsp.benchmarks.calibration import machine_file, plots, samples
from pybsp.benchmarks.calibration import report as calibration_report
from pybsp.benchmarks.calibration.analysis import analyse
from pybsp.cli import main as command
from pybsp.commands.table import report
from pybsp.ground.files import replacing, require_different
from pybsp.ledger import chrome
from pybsp.ledger.ledger_file import append_run, read
from pybsp.ledger.recording import LedgerFile
from pybsp.ledger.records import of_file
from pybsp.machines.machine_file import replace_file

from .calibration import example
from .costs import in_file
from .launching import python, run
from .tiers import some

DEEP = "[" * 10**5 + "]" * 10**5
LONG = "1" + "0" * 5000  # more digits than Python turns into a number
VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 1.5, -0.5, 10**15, 10**25, 10**400, -(10**400), 1e-320, 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, "", "x", "1", "nan", "\x1b[31mred\x1b[0m", "[bold]x[/bold]", "a\nb\r", "\ud800"),
    *("\u202e", "\x9b2J", [], {}, [[]], [None], {"x": 1}, [1, 2], ["a"] * 50, "@deep@", "@long@", "@-long@"),
]
HELP = re.compile(
    "is not JSON|(expected|must hold|must be) .*, got |version .* is not known here|has no part|it holds|"
    "expected (a JSON object|a first line|the columns)"
)
CONTROL = re.compile(r"[^\n\x20-\x7e\xa0-\ud7ff\ue000-\uffff]")


def places(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in JSON, itself excepted."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inside:
        yield (*place, key)
        yield from places(value, (*place, key))


def mutated(content: Any, rng: random.Random) -> bytes:
    """A file of JSON with one or two things wrong, or only odd, with it."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 2))):
        # By depth, so that the few fields at the top have their share.
        depths: dict[int, list[tuple[Any, ...]]] = {}
        for place in places(content):
            depths.setdefault(len(place), []).append(place)
        if not depths:
            break
        *way, key = rng.choice(depths[rng.choice(sorted(depths))])
        at = content
        for step in way:
            at = at[step]
        kind = rng.randrange(8)
        if kind == 0:
            del at[key]
        elif kind == 1 and isinstance(at, dict):
            at[rng.choice(["extra", "\x1b[2J", "[bold]"])] = rng.choice(VALUES)
        elif kind == 2 and isinstance(at, list):
            at.insert(key, copy.deepcopy(at[key]))
        elif kind == 3:
            at[key] = [at[key]]
        else:
            at[key] = copy.deepcopy(rng.choice(VALUES))
    text = json.dumps(content)
    for token, raw in (("@deep@", DEEP), ("@long@", LONG), ("@-long@", f"-{LONG}")):
        text = text.replace(f'"{token}"', raw)
    return damaged(text.encode(), rng) if rng.random() < 0.15 else text.encode()


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The bytes of a file, cut or changed."""
    at = rng.randrange(len(content))
    return rng.choice(
        [
            content[:at],
            content[:at] + b"\xff" + content[at:],
            content[:at] + b"\x00" * 9 + content[at + 9 :],
            content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
            content + content,
            b"\xef\xbb\xbf" + content,
            DEEP.encode(),
            b"",
        ]
    )


def survives(path: Path, content: bytes, use: Callable[[Path], str]) -> str | None:
    """Use a file of that content: None if it is accepted, else why it is refused, which must help."""
    path.write_bytes(content)
    try:
        printed = use(path)
    except UsageError as error:
        text = str(error)
        assert str(path) in text
        assert HELP.search(text), text
        assert not CONTROL.search(text), text
        return text
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} from {content[:3000]!r}") from error
    assert not CONTROL.search(printed), printed
    return None


def printed_by(parts: list[Any]) -> str:
    out = Console(file=StringIO(), width=140)
    for part in parts:
        out.print(part, highlight=False)
    assert isinstance(out.file, StringIO)
    return out.file.getvalue()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A ledger of two runs."""

    def main(bsp: pybsp.BSP, n: int) -> None:
        for k in range(n):
            with bsp.superstep(f"step {k % 2}"):
                bsp.work(k)
                bsp.send(0, k)

    path = tmp_path_factory.mktemp("ledger") / "ledger.json"
    segments = ((0.0, 1e-5, 1e-6, 1e-9), (64.0, 1e-4, 1e-6, 2e-9))
    for machine in (BSPMachine(2, 1e-9, 1e-5, 1e9, segments=segments, error_p95=0.2), EBSPMachine(2, 1.0, 1.0, 1.0)):
        run = in_file(pybsp.simulate(main, 2, machine=machine).ledger)
        run["checkpoints"] = [{"superstep": 1, "bytes": 100, "seconds": 0.5}]
        append_run(path, run, first=isinstance(machine, BSPMachine))
    return json.loads(path.read_text())


def test_damaged_ledgers_are_refused_or_reported(
    ledger: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def use(path: Path) -> str:
        capsys.readouterr()
        assert report(str(path), every=rng.random() < 0.5) == 0
        return capsys.readouterr().out

    rng = random.Random(13)
    ends = [survives(tmp_path / "ledger.json", mutated(ledger, rng), use) for _ in range(some(1000))]
    assert 0.1 < fmean(end is None for end in ends) < 0.8  # both happen


def test_what_a_later_version_adds_to_a_ledger_is_passed_over(ledger: Any, tmp_path: Path) -> None:
    path, later = tmp_path / "ledger.json", json.loads(json.dumps(ledger))
    run = later["runs"][0]
    for one in (later, run, run["machine"], run["supersteps"][0], run["checkpoints"][0]):
        one["of a later version"] = 1
    path.write_text(json.dumps(later))
    assert read(path)["runs"][0]["supersteps"].total == read_again(ledger, tmp_path)["runs"][0]["supersteps"].total


@pytest.mark.fast
@pytest.mark.parametrize("number", ["", "-1", "1.0", "\u00b2", "4", "9" * 5000])
@pytest.mark.parametrize(
    ("field", "one"), [("kinds", {"sort": 1.0}), ("index_bytes", 8), ("riding", {"allreduce": 1})], ids=str
)
def test_what_is_of_no_superstep_of_its_run_is_refused(
    ledger: Any, tmp_path: Path, field: str, one: Any, number: str
) -> None:
    changed = copy.deepcopy(ledger)
    changed["runs"][1][field] = {"1": one, number: one}
    count = len(changed["runs"][1]["supersteps"])
    (tmp_path / "ledger.json").write_text(json.dumps(changed))
    expected = rf"runs\[1\]\.{field}: expected the number of a superstep, below {count}, got {number:.20}$"
    with pytest.raises(UsageError, match=expected):
        read(tmp_path / "ledger.json")


def test_a_field_of_a_ledgers_machine_that_cannot_be_is_refused_wherever_it_is_read(
    ledger: Any, tmp_path: Path
) -> None:
    path, runs = tmp_path / "ledger.json", [{**copy.deepcopy(run), "supersteps": []} for run in ledger["runs"]]
    exchange = BSPMachine(2, g=2.0, l=3.0, r=1.0, late={"empty": 1.0}, after=((1.0, 1.0),))  # type: ignore[arg-type]
    runs[0]["machine"]["exchange"] = exchange.as_json()
    places = [(0, ()), (0, ("exchange",)), (1, ())]
    for number, within in places:
        machine = runs[number]["machine"]
        for name in within:
            machine = machine[name]
        for field, before in machine.items():
            for value in "x", None, [[-1]], {"mail": -1}:
                if value is None and field in ("error_median", "error_p95", "exchange"):
                    continue  # there is none
                machine[field] = value
                path.unlink(missing_ok=True)  # a file that is there takes longer to write
                path.write_text(json.dumps({**ledger, "runs": runs}))
                place = ".".join([f"ledger file {path}: runs[{number}].machine", *within, field])
                with pytest.raises(UsageError, match=rf"^{re.escape(place)}[^ ]*: expected "):
                    read(path)
            machine[field] = before
    path.write_text(json.dumps({**ledger, "runs": runs}))
    assert report(str(path), every=False) == 0


def read_again(content: Any, folder: Path) -> Any:
    """What a file of that content says."""
    path = folder / "as it is.json"
    path.write_text(json.dumps(content))
    return read(path)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", '[1, {"x y": NaN}]', "[" * 400 + "1e999" + "]" * 400])
def test_no_number_is_missed_where_nothing_reads_it(ledger: Any, tmp_path: Path, value: str) -> None:
    path = tmp_path / "ledger.json"
    text = json.dumps(ledger)
    path.write_text(text.replace('"runs": [{', f'"runs": [{{"of another version": {value}, ', 1))
    with pytest.raises(UsageError, match=r"runs\[0\]\.of another version.*: expected a finite number, got"):
        read(path)


def test_damaged_machine_files_are_refused_or_used(tmp_path: Path) -> None:
    def use(path: Path) -> str:
        kind = rng.randrange(4)
        if kind < 3:
            machine = (BSPMachine, EBSPMachine, LogPMachine)[kind].load(path)
            if isinstance(machine, BSPMachine):
                machine.elsewhere(["here"] * machine.p if machine.p < 100 else [])
            elif isinstance(machine, LogPMachine):
                assert machine.capacity >= 1
            return ""
        return printed_by(calibration_report.tables(machine_file.read(path)))

    path, rng = tmp_path / "machine.json", random.Random(5)
    machine_file.write(example.calibration(), path)
    EBSPMachine(4, 1e-9, 1e-9, 1e-5).save(path)
    LogPMachine(4, 16, 1, 4, step=1e-6, intervals={"L": (1e-6, 2e-6)}).save(path)
    whole = json.loads(path.read_text())
    short = {name: part for name, part in whole.items() if name != "calibration"}
    ends = [survives(path, mutated(whole if n % 2 else short, rng), use) for n in range(some(400))]
    assert 0.15 < fmean(end is None for end in ends) < 0.85


FIELDS = [
    "",
    "x",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1",
    "1.5",
    "1e400",
    "1e300",
    "-1e-9",
    "1" * 30,
    LONG,
    "\x1b[2J",
    "1_0",
]


def test_damaged_raw_files_are_refused_or_analysed(tmp_path: Path) -> None:
    def use(path: Path) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy: what overflows is no worse than what is not known
            calibration = analyse(samples.read(path))
        machine_file.write(calibration, tmp_path / "again.json")
        machine_file.read(tmp_path / "again.json")
        return printed_by(calibration_report.tables(calibration))

    path, rng = tmp_path / "machine.csv", random.Random(7)
    raw = example.raw()
    writer = samples.Writer(path, {**raw.about, "cores": [1] * 4, "load": [0.1, 0.2], "budget": None})
    writer.event("pilot", slow=[["bsp", "exchange", "bsp", "", 8, 1]])
    writer.event("not-converged", points=[["logp", "train", "raw", "", 8, 1]])
    writer.write(sample for sample in raw.samples if sample.launch == 0 and sample.batch < 2)
    writer.event("finished")
    writer.close()
    whole = path.read_text().splitlines(keepends=True)

    def changed() -> bytes:
        lines = list(whole)
        kind = rng.randrange(8)
        if kind == 0:
            return damaged("".join(lines).encode(), rng)
        if kind in (1, 2):  # a comment
            at = rng.choice([n for n, line in enumerate(lines) if line.startswith("#")] + [0])
            lines[at] = "# " + mutated(json.loads(lines[at][2:]), rng).decode(errors="replace") + "\n"
        elif kind == 3:  # lines twice, gone, in another order
            at = rng.randrange(2, len(lines))
            lines[at : at + rng.randrange(9)] = [lines[at]] * rng.randrange(3)
        else:  # a field, of one sample or of many
            names = lines[1].strip().split(",")
            field, value = rng.randrange(len(names)), rng.choice(FIELDS)
            for at in rng.sample(range(2, len(lines)), rng.choice((1, 1, 20))):
                if not lines[at].startswith("#"):
                    row = lines[at].rstrip("\n").split(",")
                    row[field] = value
                    lines[at] = ",".join(row) + "\n"
        return "".join(lines).encode()

    ends = [survives(path, changed(), use) for _ in range(some(120))]
    assert 0.08 < fmean(end is None for end in ends) < 0.92


def test_what_a_terminal_would_obey_is_shown_as_text(
    ledger: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.json"
    run = copy.deepcopy(ledger["runs"][0])
    run["p"], run["hosts"] = 3, ["[red]here[/red]", "\x1b[31mthere", "\ud800\u202e"]
    run.update(cores=[2] * 3, threads=[1] * 3, load=[0.5] * 3)
    run["supersteps"][0]["label"] = "[bold]\x1b]0;title\x07[/]"
    append_run(path, run, first=True)
    for every in (False, True):
        assert report(str(path), every) == 0
        printed = capsys.readouterr().out
        assert "[red]here[/red]" in printed
        assert "\\x1b[31mthere" in printed
        assert "\\ud800\\u202e" in printed
        assert "[bold]\\x1b]0;title\\x07[/]" in printed
        assert not CONTROL.search(printed)


def held(path: Path) -> list[dict[str, Any]]:
    """The runs of a ledger file, as they were given."""
    return [{**run, "supersteps": [of_file(record) for record in run["supersteps"]]} for run in read(path)["runs"]]


@pytest.mark.parametrize("field", ["hosts", "cores", "threads"])
def test_a_list_that_has_not_one_of_each_processor_is_refused(ledger: Any, tmp_path: Path, field: str) -> None:
    run = ledger["runs"][0]
    one = "here" if field == "hosts" else 1
    for number in run["p"] - 1, run["p"] + 1:
        with pytest.raises(UsageError, match=rf"runs\[0\]\.{field}: expected a list of p = {run['p']}"):
            read_again({**ledger, "runs": [{**run, field: [one] * number}]}, tmp_path)


def test_runs_are_added_to_a_ledger_file_one_by_one(ledger: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    long = {**ledger["runs"][0], "supersteps": ledger["runs"][0]["supersteps"] * 2000}  # several blocks of the file
    runs = [long, ledger["runs"][1], {**ledger["runs"][1], "supersteps": []}]
    for n, one in enumerate(runs):
        append_run(path, {**one, "supersteps": iter(one["supersteps"])}, first=n == 0)
        assert held(path) == runs[: n + 1]
    append_run(path, runs[1], first=True)
    assert held(path) == [runs[1]]
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    assert held(path) == [runs[1]]
    with pytest.raises(UsageError, match=f"ledger file {path}: somebody has changed it"):
        append_run(path, runs[1], first=False)


def test_a_long_ledger_is_read_in_memory_for_a_line_beside_what_comes_of_it(ledger: Any, tmp_path: Path) -> None:
    path, run = tmp_path / "ledger.json", ledger["runs"][0]
    for first in (True, False):
        append_run(path, {**run, "supersteps": run["supersteps"] * 200}, first)
    read(path)  # what a process does once is done
    tracemalloc.start()
    found = read(path)
    stays, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found["runs"]) == 2
    assert most - stays < path.stat().st_size / 4


def test_what_is_beyond_all_numbers_is_the_largest_in_a_ledger_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"

    def main(bsp: pybsp.BSP) -> None:
        bsp.work(1e300, kind="much")
        bsp.sync()

    slow = pybsp.BSPMachine(p=2, g=0.0, l=0.0, r=1e-300)  # so the time is infinite
    found = pybsp.simulate(main, machine=slow).ledger
    LedgerFile().add(str(path), found)
    (record,) = read(path)["runs"][0]["supersteps"]
    assert (record.work, record.predicted) == (1e300, 1.7976931348623157e308)


def test_a_ledger_that_a_program_saves_is_one_for_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9, calibrated=True)

    def main(bsp: pybsp.BSP) -> None:
        with bsp.superstep("ring"):
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(100))

    path, page = tmp_path / "ledger.json", tmp_path / "page.html"
    pybsp.simulate(main, machine=machine).ledger.save(path)
    machine.save(tmp_path / "machine.json")
    assert command(["report", str(path)]) == 0
    assert "ring" in capsys.readouterr().out
    assert command(["report", str(path), "--html", str(page)]) == 0
    assert "ring" in page.read_text()
    assert command(["predict", str(path), "--machine", str(tmp_path / "machine.json")]) == 0
    assert "ring" in capsys.readouterr().out
    append_run(path, in_file(pybsp.simulate(main, machine=machine).ledger), first=False)
    assert [ledger[0].label for ledger in pybsp.Ledger.load(path)] == ["ring", "ring"]
    with pytest.raises(UsageError, match=r"ledger file .*machine\.json: .*format"):
        pybsp.Ledger.load(tmp_path / "machine.json")


def test_a_file_that_cannot_be_written_whole_is_left_as_it_was(
    ledger: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def records() -> Iterator[dict[str, Any]]:
        yield from ledger["runs"][0]["supersteps"]
        raise OSError(28, "No space left on device")

    path = tmp_path / "ledger.json"
    append_run(path, ledger["runs"][0], first=True)
    path.chmod(0o640)
    before = path.read_bytes()
    for first in (True, False):
        with pytest.raises(OSError, match="No space left"):
            append_run(path, {**ledger["runs"][0], "supersteps": records()}, first)
        assert path.read_bytes() == before
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace_file(path, {"x": [1.0] * 10000, "y": math.nan})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["ledger.json"]
    append_run(path, ledger["runs"][1], first=False)
    assert path.stat().st_mode & 0o777 == 0o640
    nowhere = str(tmp_path / "absent" / "ledger.json")
    simulated = pybsp.simulate(lambda bsp: bsp.sync(), p=2)
    LedgerFile().add(nowhere, simulated.ledger)
    assert not Path(nowhere).exists()
    said = capsys.readouterr().err
    assert f"the ledger of this run could not be written to {nowhere}" in said
    assert "No such file" in said


def test_a_link_and_a_device_stay_what_they_are(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "file")
    for text in ("one", "two"):
        with replacing(link) as file:
            file.write(text)
        assert link.is_symlink()
        assert (tmp_path / "file").read_text() == text
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe) as file:
        file.write("three")
    assert os.read(end, 99) == b"three"
    os.close(end)
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "pipe"]


@pytest.fixture
def folder(ledger: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the call, with a file of each kind."""
    monkeypatch.chdir(tmp_path)
    append_run(tmp_path / "ledger.json", ledger["runs"][0], first=True)
    machine_file.write(example.calibration(), tmp_path / "machine.json")
    for name in ("machine.csv", "other.csv"):
        writer = samples.Writer(tmp_path / name, example.raw().about)
        writer.write(example.raw().samples)
        writer.close()
    (tmp_path / "program.py").write_text("import pybsp\npybsp.run(lambda bsp: bsp.sync())\n")
    (tmp_path / "link.json").symlink_to("ledger.json")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "one", "other"),
    [
        ("calibrate --from machine.csv -o new.json --trace machine.csv", "--trace", "--from"),
        ("calibrate --from other.csv -o machine.json --trace machine.csv", "--trace", "the raw samples beside -o"),
        ("calibrate -o new.json --trace new.csv", "--trace", "the raw samples beside -o"),
        ("calibrate --from other.csv -o new.json --trace new.json", "--trace", "-o"),
        ("run -n 1 --ledger new.json --trace new.json program.py", "--trace", "--ledger"),
        ("run -n 1 --trace program.py program.py", "--trace", "the program"),
        ("simulate -p 1 --ledger new.json --trace ./new.json program.py", "--trace", "--ledger"),
        ("simulate -p 1 --machine machine.json --ledger machine.json program.py", "--ledger", "--machine"),
        ("report ledger.json --html ledger.json", "--html", "the ledger ledger.json"),
        ("report ledger.json link.json --html link.json", "--html", "the ledger ledger.json"),
        ("predict ledger.json --machine machine.json --html ledger.json", "--html", "what is predicted"),
        ("predict ledger.json --machine machine.json --html machine.json", "--html", "--machine"),
        ("export machine.json --format bspbench -o machine.json", "-o", "the machine file"),
        ("export machine.json --format bspbench -o machine.csv", "-o", "the raw samples beside it"),
    ],
)
def test_a_file_that_is_read_or_written_under_another_name_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, one: str, other: str
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert command(arguments.split()) == 2
    said = capsys.readouterr().err
    assert f" {one}: expected another file than that of {other}, which writing would destroy, got " in said
    assert said.endswith("; give it a name of its own\n")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("option", ["--ledger", "--trace"])
@pytest.mark.parametrize("how", ["run -n 1", "simulate -p 1"])
def test_a_machine_file_that_a_variable_names_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str, option: str
) -> None:
    before = (folder / "machine.json").read_bytes()
    monkeypatch.setenv("PYBSP_MACHINE", "machine.json")
    assert command(f"{how} {option} machine.json program.py".split()) == 2
    expected = f" {option}: expected another file than that of environment variable PYBSP_MACHINE, which writing "
    assert expected in capsys.readouterr().err
    assert (folder / "machine.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("report INPUT", "ledger file"),
        ("report trace.json --machine INPUT", "machine file"),
        ("report ledger.json INPUT --html page.html", "ledger file"),
        ("simulate -p 1 --machine INPUT program.py", "machine file"),
        ("predict ledger.json --machine INPUT", "machine file"),
        ("show INPUT", "machine file"),
    ],
)
def test_what_can_be_read_but_once_or_has_no_end_is_refused_as_input(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, name: str
) -> None:
    (folder / "trace.json").write_text(f'{{"format": "{chrome.FORMAT}"}}')
    reads, writes = os.pipe()
    os.close(writes)
    for place, kind in ((f"/dev/fd/{reads}", "a pipe"), (os.devnull, "a device")):
        assert command([place if word == "INPUT" else word for word in arguments.split()]) == 2
        expected = f"{name} {place}: expected a regular file, got {kind}; it is read more than once: save it first"
        assert capsys.readouterr().err == f"pybsp {arguments.split()[0]}: {expected}\n"
    os.close(reads)


def test_what_a_device_takes_destroys_nothing(folder: Path) -> None:
    require_different([("--ledger", os.devnull), ("--trace", os.devnull)], [("--machine", os.devnull)])
    assert command(["report", "ledger.json", "ledger.json", "--html", os.devnull]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            f"{how} {option} EMPTY program.py"
            for how in ("run -n 1", "simulate -p 1")
            for option in ("--ledger", "--trace")
        ),
        "report ledger.json --html EMPTY",
        "predict ledger.json --machine machine.json --html EMPTY",
        "calibrate -n 1 -o machine.json --trace EMPTY",
        "calibrate -n 1 -o EMPTY",
    ],
)
def test_an_empty_name_of_a_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    assert command([word.replace("EMPTY", "") for word in arguments.split()]) == 2
    assert ": expected a file that can be written, got ''" in capsys.readouterr().err


@pytest.mark.whole
@pytest.mark.parametrize(
    "arguments", ["export machine.json --format bspbench -o exported", "show machine.json --plot page.svg"]
)
def test_what_an_export_or_a_page_of_plots_would_replace_stays_where_the_disk_is_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    monkeypatch.setattr(plots, "draw", lambda calibration, raw: Figure())
    good = folder / arguments.split()[-1]
    good.write_text("good")
    before = set(folder.iterdir())
    assert command(arguments.split()) == 2
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert good.read_text() == "good"
    assert set(folder.iterdir()) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        "report ledger.json",
        "show machine.json",
        "export machine.json --format bspbench",
        "run -n 1 --explain program.py",
        "--version",
        "run --help",
    ],
)
@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
def test_where_standard_output_is_full_a_line_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, unbuffered: bool
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1" if unbuffered else "")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            python("-m", "pybsp", *arguments.split()), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if "standard output" in line or "Error" in line]
    assert line.endswith(": standard output cannot be written (No space left on device)")


MAIN = """
import os, sys
from pybsp.cli import main
output, commands = os.dup(1), sys.argv[1:]
for arguments in commands:
    sys.stdout.flush()  # what is left goes nowhere
    os.dup2(output, 1)
    print(main(arguments.split()), file=sys.stderr)
"""


@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
def test_a_reader_that_has_seen_enough_is_no_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: bool
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1" if unbuffered else "")
    (folder / "logp.py").write_text("import pybsp\npybsp.logp.run(lambda proc: None)\n")
    commands = ["simulate -p 1 --trace trace.json logp.py", "report ledger.json", "report trace.json"]
    commands += ["predict ledger.json --machine machine.json", "show machine.json", "--version"]
    reads, writes = os.pipe()
    os.close(reads)
    ended = subprocess.run(python("-c", MAIN, *commands), stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)
    assert (ended.stderr.split(), ended.returncode) == (["0"] * len(commands), 0)


def test_where_standard_output_is_closed_what_is_printed_is_lost_and_no_file_gets_it(folder: Path) -> None:
    (folder / "program.py").write_text("import pybsp\npybsp.run(lambda bsp: bsp.sync())\nprint('ended')\n")
    commands = ["run -n 1 --ledger new.json program.py", "report new.json"]
    commands += ["predict program.py -p 1 --machine machine.json"]
    main = "import sys; from pybsp.cli import main; sys.exit([main(one.split()) for one in sys.argv[1:]] != [0] * 3)"
    assert run(["sh", "-c", 'exec "$@" >&-', "sh", *python("-c", main, *commands)]) == (0, "", "")
    assert len(read(folder / "new.json")["runs"]) == 1


def test_what_the_encoding_of_standard_output_lacks_is_printed_as_an_escape(folder: Path) -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.superstep("\u00fc"):
            pass

    pybsp.simulate(main, p=1).ledger.save(folder / "umlaut.json")
    (folder / "\u00fc.py").touch()
    commands = ["report umlaut.json", "predict umlaut.json --machine machine.json", "run --explain \u00fc.py"]
    ended = run(python("-c", MAIN, *commands), PYTHONIOENCODING="ascii")
    assert ended.code == 0, ended
    assert ended.out.count("\\xfc") == len(commands)


@pytest.mark.parametrize(
    "arguments",
    [
        "run -n 1 FOLDER/program.py",
        "predict FOLDER/program.py -p 1 --machine FOLDER/machine.json",
        "calibrate -n 1",
        "show FOLDER/machine.json --plot page.svg",
        "report FOLDER/ledger.json --html page.html",
    ],
)
def test_a_command_whose_folder_is_gone_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    assert command(arguments.replace("FOLDER", str(folder)).split()) == 2
    assert ": the folder that this was started in is gone: cd to one that is there\n" in capsys.readouterr().err
