"""`pybsp report --html`: one page that needs nothing else, bounded; what programs say is text in it, and no markup."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.cli import main as command
from pybsp.collectives import allreduce, prefix
from pybsp.commands import page
from pybsp.commands.table import notes, placed
from pybsp.errors import UsageError
from pybsp.ledger.ledger_file import append_run, read
from pybsp.ledger.pictures import ROWS, traced
from pybsp.ledger.records import Supersteps
from pybsp.ledger.trace import BINS, KINDS, LANES
from pybsp.machines.bsp import BSPMachine

from .costs import in_file
from .test_files import mutated
from .tiers import some

EVIL = "</style><script>alert(1)</script><img src=x onerror='alert(2)'>\"&"
MACHINE = BSPMachine(4, g=1e-8, l=1e-5, r=1e9, calibrated=True)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "section", "span", "i"),
    *("table", "tr", "td", "th", "svg", "path", "rect", "text", "figure", "figcaption"),
}


class Page(HTMLParser):
    """What a page has: its tags with attributes, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)


def program(bsp: pybsp.BSP) -> None:
    for step in range(6):
        with bsp.superstep(EVIL if step == 3 else "even" if step % 2 == 0 else "odd"):
            bsp.work(1e4 * (1 + bsp.pid))
            bsp.send((bsp.pid + 1) % bsp.p, np.zeros(50))


def trace(p: int, bins: int = BINS, label: str = "even") -> dict[str, Any]:
    """What a ledger file holds of a trace, as large as it gets."""
    lane = -(-p // LANES)
    lanes = -(-p // lane)
    rng = random.Random(0)
    rows = [[rng.random() for _ in range(bins)] for _ in range(lanes)]
    return {
        "p": p,
        "lane": lane,
        "labels": [f"{label} {n}" for n in range(KINDS + 1)],
        "words": [
            [kind, a, b, rng.randrange(1, 10**9)]
            for kind in range(KINDS + 1)
            for a in range(lanes)
            for b in range(lanes)
        ],
        "seconds": 1.0,
        **dict.fromkeys(("computing", "waiting", "exchange", "sent"), rows),
        "kinds": [[rng.randrange(-1, KINDS + 1) for _ in range(bins)] for _ in range(lanes)],
    }


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger file with a trace."""
    path, source = tmp_path / "ledger.json", tmp_path / "program.py"
    BSPMachine(4, g=1e-8, l=1e-5, r=1e9).save(tmp_path / "machine.json")
    source.write_text("import pybsp\nfrom tests.test_page import program\npybsp.run(program)\n")
    options = [
        "--ledger",
        str(path),
        "--trace",
        str(tmp_path / "trace.json"),
        "--machine",
        str(tmp_path / "machine.json"),
    ]
    assert command(["simulate", "-p", "4", *options, str(source)]) == 0
    return path


def test_a_page_needs_nothing_else_and_what_programs_say_is_text_in_it(ledger: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert command(["report", str(ledger), "--html", str(out)]) == 0
    found = Page(out)
    assert {tag for tag, _ in found.tags} <= TAGS
    names = {name for _, attributes in found.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "href", "srcset")]
    assert re.findall(r"https?://[^\"]*", out.read_text()) == ["http://www.w3.org/2000/svg"] * found.count("svg")
    assert "default-src 'none'" in str([a for tag, a in found.tags if tag == "meta"])
    assert EVIL in found.text


def test_a_page_has_pictures_of_all_that_is_kept(ledger: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert command(["report", str(ledger), "--html", str(out)]) == 0
    found = Page(out)
    for text in (
        "Time by superstep and label",
        "Imbalance of computing",
        "Exchange, predicted against measured",
        "Costs by label",
        "Timeline by processor: what it does",
        "Timeline by processor: label",
        "Timeline by processor: words sent",
        "Words from each processor to each",
        "exchange predicted/measured: 1 ",
        "all labels: 1200 words",
        "even: 600 words",
        "Times are virtual",
    ):
        assert text in found.text, text
    assert found.count("svg") == 4 + 3 + 4
    hints = set(re.findall(r"supersteps? \d[^<\n]*", out.read_text()))
    assert {"superstep 0", "superstep 1"} <= hints  # a bin of each
    assert not any("mean" in hint for hint in hints)
    lasting = json.loads(ledger.read_text())
    lasting["runs"][0]["trace"]["seconds"] = 40.0
    ledger.write_text(json.dumps(lasting))
    assert command(["report", str(ledger), "--html", str(out)]) == 0
    ticks = re.findall(r">([\d.]+)</text>", out.read_text())
    assert {"10", "20", "30", "40"} <= {*ticks}  # timelines last as long as the run
    without = json.loads(ledger.read_text())
    del without["runs"][0]["trace"]
    ledger.write_text(json.dumps(without))
    assert command(["report", str(ledger), "--html", str(out)]) == 0
    assert Page(out).count("svg") == 4


def test_the_words_of_all_labels_are_those_of_each_together() -> None:
    one = {**trace(3, 10), "labels": ["all labels"]}
    one["kinds"] = [[0] * 10 for _ in range(3)]
    one["words"] = [[0, a, b, 100 * a + b + 1] for a in range(3) for b in range(3)]
    text = "".join(traced(one, 0, {}))
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    assert len(figures) == 2
    assert figures[0] == figures[1]


def test_two_ledgers_stand_side_by_side_and_three_do_not(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert command(["report", str(ledger), str(ledger), "--html", str(out)]) == 0
    assert capsys.readouterr().out == f"written: {out}\n"
    found = Page(out)
    assert found.count("section") == 2
    assert [out.read_text().count(tag) for tag in ('<div class="beside">', "<div", "</div>")] == [
        1, found.count("div"), found.count("div")
    ]  # fmt: skip
    assert "second/first" in found.text
    assert command(["report", *[str(ledger)] * 3, "--html", str(out)]) == 2
    assert "--html: expected one ledger, or two to stand side by side, got 3" in capsys.readouterr().err
    assert command(["report", str(ledger), "--html", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert f"--html: expected a file that can be written, got {tmp_path}/nowhere" in capsys.readouterr().err


def _ledger_of(path: Path, labels: Sequence[str], more: dict[str, Any] | None = None) -> str:
    """A ledger file of a run whose labels take longer and longer."""

    def main(bsp: pybsp.BSP) -> None:
        for number, label in enumerate(labels, 1):
            with bsp.superstep(label):
                bsp.work(1e6 * number)

    found = pybsp.simulate(main, machine=BSPMachine(2, g=1e-8, l=1e-5, r=1e9)).ledger
    append_run(path, in_file(found) | (more or {}), first=True)
    return str(path)


def test_two_ledgers_are_compared_by_all_labels_of_which_the_dearest_come_first(tmp_path: Path) -> None:
    first = _ledger_of(tmp_path / "first.json", ["both", "only there"])
    second = _ledger_of(tmp_path / "second.json", ["only here", "other", "both"])
    text = page.page(["first", "second"], [read(first)["runs"], read(second)["runs"]])
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text.partition("</table>")[0])
    found = [re.findall(r"<td>(.*?)</td>", row) for row in rows[1:]]
    assert [row[0] for row in found] == ["both", "only there", "other", "only here", "total"]
    assert found[0][-3:] == ["0.00101", "0.00301", "2.98"]
    assert [row[-3:-1] for row in found[1:4]] == [["0.00201", "-"], ["-", "0.00201"], ["-", "0.00101"]]
    assert {row[-1] for row in found[1:4]} == {"-"}
    many = _ledger_of(tmp_path / "many.json", [f"label {n}" for n in range(ROWS)])
    text = page.page(["first", "many"], [read(first)["runs"], read(many)["runs"]])
    assert f"The {ROWS} dearest; 2 more labels are in the total." in text.partition("<section>")[0]


def test_a_label_has_one_colour_in_all_pictures_of_a_page(tmp_path: Path) -> None:
    labels = [f"label {n}" for n in range(6)]
    drawn = trace(2, 10) | {"labels": [*labels[:4], "no time", "other labels"], "words": []}
    drawn["kinds"] = [[0, 1, 2, 3, 4, 5, -1, 0, 0, 0]] * 2
    first = _ledger_of(tmp_path / "first.json", labels, {"trace": drawn})
    second = _ledger_of(tmp_path / "second.json", [*reversed(labels), "another"])
    text = page.page(["first", "second"], [read(first)["runs"], read(second)["runs"]])
    colours: dict[str, set[str]] = {}
    for colour, name in re.findall(r'background:(#\w+)"></i>((?:label|another|other)[^<]*)', text):
        colours.setdefault(name, set()).add(colour)
    assert len(colours) == len({colour for (colour,) in colours.values()}) == 8


@pytest.mark.parametrize("router", ["direct", "two-phase"])
def test_without_a_machine_a_report_says_how_to_measure_it_with_the_runs_router(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], router: str
) -> None:
    path = tmp_path / "ledger.json"
    machine = {"calibrated": False}
    _ledger_of(path, ["x"], {"router": router, "virtual": False, "machine": machine})
    assert command(["report", str(path)]) == 0
    option = " --router two-phase" * (router == "two-phase")
    advice = f"no machine to predict by: `pybsp run --calibrate{option}` measures"
    assert advice in capsys.readouterr().out
    assert command(["report", str(path), "--html", str(tmp_path / "page.html")]) == 0
    assert advice in Page(tmp_path / "page.html").text


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"computing": [[0.0]]}, r"trace\.computing: expected 4 lists of 120, got 1 of \[1\]"),
        (
            {"exchange": [[float("nan")] * BINS] * 4},
            r"trace\.exchange\[0\]\[0\]: expected a finite number of at least 0, got nan",
        ),
        ({"words": [[0, 0, 4, 5]]}, r"trace\.words: expected numbers of labels below 4, of lanes below 4"),
        ({"words": [[0, 0, 1]]}, r"trace\.words\[0\]: expected a list of 4"),
        ({"words": [[0, 0, 1, 5, 6]]}, r"trace\.words\[0\]: expected a list of 4"),
        ({"kinds": []}, r"trace\.computing: expected 4 lists of 0, got 4 of \[120\]"),
        ({"kinds": [[4] * BINS] * 4}, r"trace\.kinds: expected numbers of labels, below 4"),
        ({"labels": []}, r"trace\.labels: expected a list of 1 to inf"),
        ({"lane": 0}, r"trace\.lane: expected a whole number of at least 1"),
        ({"p": 7, "lane": 2}, r"trace\.p: expected p = 4, as its run has, got 7"),
    ],
)
def test_a_damaged_trace_is_an_error_that_names_file_and_field(ledger: Path, change: dict[str, Any], said: str) -> None:
    content = json.loads(ledger.read_text())
    content["runs"][0]["trace"].update(change)
    ledger.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=rf"ledger\.json: .*{said}"):
        page.write([str(ledger)], str(ledger.parent / "page.html"))
    assert not (ledger.parent / "page.html").exists()


def test_damaged_ledgers_are_refused_or_drawn(ledger: Path, tmp_path: Path) -> None:
    whole, rng, out = json.loads(ledger.read_text()), random.Random(3), tmp_path / "page.html"
    drawn = 0
    for _ in range(some(300)):
        ledger.write_bytes(mutated(whole, rng))
        try:
            drawn += page.write([str(ledger)], str(out)) == 0
        except UsageError:
            continue
        assert {tag for tag, _ in Page(out).tags} <= TAGS
    assert drawn


@pytest.mark.parametrize("name", ["seconds", "computing", "exchange", "sent"])
@pytest.mark.parametrize("figure", [5e-324, 1e-323, 1e-310, 1e308])
def test_figures_of_a_trace_at_the_ends_of_all_numbers_are_drawn(
    ledger: Path, tmp_path: Path, name: str, figure: float
) -> None:
    whole, out = json.loads(ledger.read_text()), tmp_path / "page.html"
    kept = whole["runs"][0]["trace"]
    kept[name] = figure if name == "seconds" else [[figure] * BINS] * 4
    ledger.write_text(json.dumps(whole))
    assert page.write([str(ledger)], str(out)) == 0  # a warning would be an error


@pytest.mark.parametrize("name", ["seconds", "seconds_mean", "measured", "exchange_predicted", "charged"])
@pytest.mark.parametrize("figure", [5e-324, 1e-320, 1e-308])
def test_figures_near_the_smallest_number_are_drawn(ledger: Path, tmp_path: Path, name: str, figure: float) -> None:
    whole, out = json.loads(ledger.read_text()), tmp_path / "page.html"
    records = whole["runs"][0]["supersteps"]
    for some_of_them in records[3:4], records:
        for record in some_of_them:
            record[name] = figure
        ledger.write_text(json.dumps(whole))
        assert page.write([str(ledger)], str(out)) == 0


@pytest.mark.parametrize("name", ["seconds", "seconds_mean", "measured", "exchange_predicted", "charged"])
def test_figures_near_the_largest_number_are_drawn(ledger: Path, tmp_path: Path, name: str) -> None:
    whole, out = json.loads(ledger.read_text()), tmp_path / "page.html"
    records = whole["runs"][0]["supersteps"]
    for some_of_them in records[3:4], records[3:5], records:
        for record in some_of_them:
            record[name] = 1e308
        ledger.write_text(json.dumps(whole))
        assert page.write([str(ledger)], str(out)) == 0  # a warning would be an error


def large(path: Path, runs: int, supersteps: int, p: int) -> None:
    """A ledger file of very many supersteps, with the longest labels, that need to be escaped."""
    rng = np.random.default_rng(0)
    for run in range(runs):
        seconds = rng.random((supersteps, 2)).tolist()
        records = (
            {
                **dict.fromkeys(("work", "charged", "predicted"), 1e-3),
                **dict.fromkeys(("messages", "h_out", "h_in", "h", "M", "items"), 10**6),
                **{"label": f"{'<&' * 100}{number % 400}", "seconds": computing, "seconds_mean": 0.8 * computing},
                **{"measured": computing + exchange, "exchange_predicted": 0.5},
            }
            for number, (computing, exchange) in enumerate(seconds)
        )
        about = pybsp.simulate(lambda bsp: None, machine=MACHINE).ledger.about()
        held: dict[str, Any] = {"p": p, "virtual": False, "hosts": [f"<{'h' * 50}>"] * p}
        if run < 2:
            held["trace"] = trace(p, label="<&" * 100)
        append_run(path, {**about, **held, "supersteps": records}, first=run == 0)


@pytest.mark.whole
@pytest.mark.parametrize(("runs", "supersteps", "p"), [(1, 100_000, 64), (9, 300, 300)])
def test_a_page_is_bounded(tmp_path: Path, runs: int, supersteps: int, p: int) -> None:
    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    large(path, runs, supersteps, p)
    both = [str(path)] * (1 if runs == 1 else 2)
    assert page.write(both, str(out)) == 0
    assert out.stat().st_size <= 5e6
    assert ("The pictures of this run's trace are left out" in Page(out).text) == (runs > 1)


@pytest.mark.parametrize("runs", [page.RUNS, page.RUNS + 1])
def test_of_many_runs_the_first_are_drawn_and_a_line_says_so(tmp_path: Path, runs: int) -> None:
    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    large(path, runs, 2, 2)
    assert page.write([str(path)], str(out)) == 0
    assert (f"These are the first {page.RUNS} of {runs} runs" in Page(out).text) == (runs > page.RUNS)


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.whole
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium: apt-get install chromium")
def test_a_browser_draws_the_page_and_runs_nothing(ledger: Path, tmp_path: Path) -> None:
    assert BROWSER is not None
    out, picture = tmp_path / "page.html", tmp_path / "page.png"
    assert command(["report", str(ledger), "--html", str(out)]) == 0
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", out.as_uri()]

    def browse(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(BROWSER), *more, *options], capture_output=True, text=True, timeout=120, check=True)

    drawn = browse("--enable-logging=stderr", "--dump-dom")
    assert "CONSOLE" not in drawn.stderr  # no error of the page, nothing that its policy refused
    there = tmp_path / "dom.html"
    there.write_text(drawn.stdout)
    found = Page(there)
    assert {tag for tag, _ in found.tags} <= TAGS | {"tbody"}
    assert (found.count("svg"), EVIL in found.text) == (Page(out).count("svg"), True)
    browse("--window-size=1200,3000", f"--screenshot={picture}")
    plt = pytest.importorskip("matplotlib.pyplot")
    pixels = np.rint(255 * plt.imread(picture)[:, :, :3]).astype(int).reshape(-1, 3)
    for colour in ((0x4E, 0x79, 0xA7), (0x59, 0xA1, 0x4F), (0x08, 0x30, 0x6B)):  # bars, points, the darkest shade
        assert (pixels == colour).all(axis=1).sum() > 50, colour


def test_a_ledger_of_no_supersteps_is_a_page_too(tmp_path: Path) -> None:
    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    about = pybsp.simulate(lambda bsp: None, p=2).ledger.about()
    append_run(path, {**about, "supersteps": Supersteps()}, first=True)
    assert page.write([str(path)], str(out)) == 0
    assert "run 1: p = 2 virtual processors" in Page(out).text


def test_report_and_page_say_that_a_ledger_has_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    path.write_text('{"format": "pybsp-ledger", "version": 2, "runs": []}')
    assert command(["report", str(path)]) == 0
    assert capsys.readouterr().out == "No BSP run is in it.\n"
    assert command(["report", str(path), "--html", str(out)]) == 0
    assert "No BSP run is in it." in Page(out).text


def test_report_and_page_have_the_same_columns_of_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    for median, p95 in ((None, None), (0.0, 0.0), (0.0, 0.1)):
        machine = BSPMachine(2, g=1e-8, l=1e-5, r=1e9, calibrated=True, error_median=median, error_p95=p95)
        ledger = pybsp.simulate(lambda bsp: bsp.sync(), machine=machine).ledger
        ledger.save(path)
        assert command(["report", str(path), "--html", str(out)]) == 0
        assert command(["report", str(path)]) == 0
        for text in (Page(out).text, capsys.readouterr().out, ledger._repr_html_()):
            for column in "+- median [s]", "+- p95 [s]":
                assert (column in text) == (median is not None)


def test_a_page_says_that_words_within_parts_are_in_no_picture(tmp_path: Path) -> None:
    def in_parts(bsp: pybsp.BSP, words: int) -> None:
        with bsp.split(0) as part:
            part.send(0, np.zeros(words))
            part.sync()
        bsp.sync()

    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    for words in 0, 5:
        run = in_file(pybsp.simulate(in_parts, words, p=2).ledger)
        append_run(path, {**run, "trace": trace(2)}, first=True)
        assert command(["report", str(path), "--html", str(out)]) == 0
        said = "What parts of the machine (bsp.split) sent is in none of these pictures."
        assert (said in Page(out).text) == (words > 0)


def test_figures_of_exchanges_alone_are_named_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    alone = BSPMachine(2, g=0.0, l=1e-6, r=1e9)
    run = in_file(pybsp.simulate(lambda bsp: bsp.sync(), machine=alone).ledger)
    for exchange in None, alone.as_json():
        append_run(path, {**run, "virtual": False, "machine": {**alone.as_json(), "exchange": exchange}}, first=True)
        assert command(["report", str(path), "--html", str(out)]) == 0
        assert command(["report", str(path)]) == 0
        for text in Page(out).text, capsys.readouterr().out:
            assert "g = 0 s/word" in text
            assert ("(g, l and the o's of exchanges alone)" in text) == (exchange is not None)


def test_a_report_says_how_the_ranks_of_each_host_share_its_cores() -> None:
    run = {
        "hosts": ["b", "a", "b", "c", "d", "d", "e", "e"],
        "cores": [1, 4, 1, 0, 2, 2, 2, 2],
        "threads": [1, 8, 1, 1, 2, 2, 1, 1],
        "load": [1.0, 0.5, 1.0, 0.0, 0.25, 0.25, 0.0, 0.0],
    }
    assert list(placed(run)) == [
        "b: 2 ranks on 1 core, 1 thread a rank, load average 1 before; more ranks than cores: they wait for their "
        "turns, which the exchange contains",
        "a: 1 rank on 4 cores, 8 threads a rank, load average 0.5 before",  # of c nothing is known
        "d: 2 ranks on 2 cores, 2 threads a rank, load average 0.25 before; more threads than cores: they wait for "
        "their turns",
        "e: 2 ranks on 2 cores, 1 thread a rank, load average 0 before",
    ]
    assert list(placed({"hosts": ["a", "b"]})) == []


def test_below_the_headline_is_what_its_figures_are_to_be_doubted_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, file = tmp_path / "ledger.json", tmp_path / "page.html", tmp_path / "machine.json"
    BSPMachine(2, g=1e-8, l=1e-5, r=1e9).save(file)
    other = "The machine's figures are of p = 2, and this run has p = 3: they predict another machine."
    before = "The machine was measured while it was busy with other things, which is in its figures; `pybsp run "
    now = "Busy before the run began: a (load average 1.5, 2 cores). What others did is in all that was measured."
    content = json.loads(file.read_text())
    for p, load in (3, 1.5), (2, 1.0):
        file.write_text(json.dumps({**content, "calibration": {"about": {"load": [load], "cores": [4, 2]}}}))
        ledger = pybsp.simulate(lambda bsp: bsp.sync(), p=p, machine=BSPMachine.load(file)).ledger
        ledger.save(path)
        (loaded,) = pybsp.Ledger.load(path)
        run = in_file(loaded)
        assert ("p" in run["machine"], "busy" in run["machine"]) == (p == 3, p == 3)
        there = {"hosts": ["a", "b", "b"][:p], "cores": [2, 4, 4][:p], "threads": [1] * p, "load": [load, 1.5, 1.5][:p]}
        append_run(path, {**run, **there, "virtual": False}, first=True)
        assert command(["report", str(path), "--html", str(out)]) == 0
        assert command(["report", str(path)]) == 0
        printed, shown = capsys.readouterr().out, Page(out).text
        for doubt in other, before, now:
            assert (doubt in shown) == (doubt in "".join(printed.splitlines()[2:6])) == (p == 3)
        for one in ledger, loaded:
            assert (other in one._repr_html_().replace("&#x27;", "'")) == (p == 3)
            assert (before in one._repr_html_()) == (p == 3)


@pytest.mark.parametrize(
    "about",
    [1, {}, {"load": [9.0]}, {"load": [9.0], "cores": [0]}, {"load": "x", "cores": [1]}, {"cores": [1]}],
    ids=str,
)
def test_a_machine_file_that_does_not_say_how_busy_it_was_is_of_no_busy_machine(tmp_path: Path, about: Any) -> None:
    file = tmp_path / "machine.json"
    MACHINE.save(file)
    for calibration in about, {"about": about}:
        file.write_text(json.dumps({**json.loads(file.read_text()), "calibration": calibration}))
        assert not BSPMachine.load(file).busy


def test_a_report_says_how_many_bytes_of_indices_there_were() -> None:
    ledger = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger
    run = {"hosts": [], "machine": {}, "virtual": False, "supersteps": ledger, "index_bytes": {"1": 48, "3": 2400}}
    assert list(notes(run)) == ["Indices of patterns, which count no words: 2,448 bytes, in 2 supersteps."]
    assert list(notes({**run, "index_bytes": {}})) == []


def test_a_ledger_as_plain_data_has_what_its_file_has_beside_the_records() -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.work(10, kind="sort")
        x, ticket = bsp.array(2), allreduce.start(bsp, 1.0, np.add)
        bsp.sync()
        assert ticket.value == bsp.p
        x.pattern(np.array([0]), np.array([1]))
        bsp.sync()
        with bsp.split(0) as part:
            part.sync()

    ledger = pybsp.simulate(main, p=2).ledger
    plain, of_file = ledger.to_dict(), in_file(ledger)
    for name in "kinds", "index_bytes", "riding", "parts_after":
        assert plain[name] == of_file[name] == json.loads(json.dumps(plain))[name]
    assert plain["kinds"] == {"0": {"sort": 10.0}}
    assert plain["parts_after"]["supersteps"] == 1


def test_what_rode_is_in_the_file_the_report_and_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for _ in range(2):
            tickets = [allreduce.start(bsp, np.ones(3), np.add), allreduce.start(bsp, 1.0, np.add)]
            tickets.append(prefix.start(bsp, 1.0, np.add))
            bsp.sync()
            assert all(ticket.done for ticket in tickets)

    path, out = tmp_path / "ledger.json", tmp_path / "page.html"
    found = pybsp.simulate(main, p=2).ledger
    rode = {"0": {"allreduce": 8, "prefix": 1}, "1": {"allreduce": 8, "prefix": 1}}
    assert found.to_dict()["riding"] == rode
    found.save(path)
    assert read(path)["runs"][0]["riding"] == rode
    text = (
        "Riding in the supersteps above, from all processors: allreduce 16 words in 2 supersteps, prefix 2 words in 2"
    )
    assert command(["report", str(path)]) == 0
    assert text in capsys.readouterr().out
    assert page.write([str(path)], str(out)) == 0
    assert text in Page(out).text
    content = json.loads(path.read_text())
    content["runs"][0]["riding"]["0"] = 7
    path.write_text(json.dumps(content))
    assert command(["report", str(path)]) == 2
    assert "riding.0: expected an object" in capsys.readouterr().err


def test_a_report_leaves_out_columns_until_it_fits_into_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        queue = bsp.queue("f8")
        queue.send(0, 1.0)
        bsp.work(1e6)
        bsp.label("a label as long as of a library")
        bsp.sync()

    machine = pybsp.BSPMachine(p=2, g=1e-9, l=1e-6, r=1e9, error_median=0.1, error_p95=0.3)
    path = tmp_path / "ledger.json"
    pybsp.simulate(main, machine=machine).ledger.save(path)

    def tables(*options: str, width: str = "") -> list[str]:
        """The lines of the table, and the one below it where that says what is left out."""
        monkeypatch.setenv("COLUMNS", width)
        assert command(["report", *options, str(path)]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line[0] in "┏┃│L"]

    every = tables()
    assert len(every[0]) > 160
    assert all(name in every[1] for name in ("h [words]", "items", "+- p95 [s]", "predicted/measured"))
    assert tables(width=str(len(every[0]))) == every
    assert tables("--wide", width="80") == every
    for width in (80, 120):
        *narrow, left_out = tables(width=str(width))
        assert max(map(len, narrow)) <= width
        heads = " ".join(narrow[1:3])
        assert all(name in heads for name in ("computing", "exchange", "measured"))
        assert ("imbalance" in heads) == ("imbalance" not in left_out) == (width == 120)
        assert left_out.startswith(f"Left out of {width} columns: +- p95 [s], +- median [s], ")
        assert left_out.endswith(f"; `pybsp report --wide`, or COLUMNS={len(every[0])}, has all.")
