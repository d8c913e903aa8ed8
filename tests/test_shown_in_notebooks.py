"""What a notebook shows of ledgers, simulations, machines, costs and plans: tables and pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.collectives.plan import joined
from pybsp.ledger import pictures

MACHINE = pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)
TAGS = {
    "p",
    "b",
    "div",
    "h3",
    "table",
    "tr",
    "th",
    "td",
    "svg",
    "style",
    "path",
    "text",
    "rect",
    "title",
    "span",
    "i",
    "code",
}


class Shown(HTMLParser):
    """The tags of what is shown, its text, and the rows of its tables."""

    def __init__(self, thing: Any) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._cell = False
        self.feed(thing._repr_html_())
        assert set(self.tags) <= TAGS

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._cell = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        if self._cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data


def program(bsp: pybsp.BSP) -> None:
    for label in ("<script>", "there", "<script>"):
        with bsp.superstep(label):
            bsp.work(1e4)
            bsp.send(0, np.zeros(25))


@pytest.mark.parametrize("more", [0, 1])
def test_a_table_has_the_dearest_labels_and_says_how_many_more_there_are(more: int) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for number in range(pictures.ROWS + more):
            with bsp.superstep(f"label {number}"):
                bsp.work(number + 1)

    shown = Shown(pybsp.simulate(main, p=1, machine=pybsp.BSPMachine(1, 0.0, 0.0, 1.0)).ledger)
    assert len(shown.rows) == 2 + pictures.ROWS
    assert {row[0] for row in shown.rows} >= {f"label {number}" for number in range(more, pictures.ROWS + more)}
    assert ("1 more labels are in the total" in shown.text) == (more == 1)
    assert ("more labels" in shown.text) == (more == 1)


@pytest.mark.parametrize(
    "of",
    [lambda s: s, lambda s: s.ledger, lambda s: pybsp.Execution(s.results, s.ledger)],
    ids=["simulation", "ledger", "execution"],
)
def test_a_ledger_is_a_table_by_label_and_pictures(of: Callable[[pybsp.Simulation], Any]) -> None:
    simulation = pybsp.simulate(program, machine=MACHINE)
    shown = Shown(of(simulation))
    assert [row[:4] for row in shown.rows] == [
        ["label", "supersteps", "h [words]", "M [words]"],
        ["<script>", "2", "150", "150"],
        ["there", "1", "75", "75"],
        ["total", "3", "225", "225"],
    ]
    assert shown.tags.count("svg") == 4
    assert ("4 virtual processors, 6.225e-05 virtual seconds" in shown.text) == (of(simulation) is simulation)
    assert ("4 MPI ranks" in shown.text) == isinstance(of(simulation), pybsp.Execution)
    assert Shown(pybsp.simulate(lambda bsp: None, p=2).ledger).rows == []


@pytest.mark.parametrize(
    ("machine", "row", "pictures"),
    [
        (MACHINE, ["g", "1e-08", "s/word"], 1),
        (pybsp.EBSPMachine(p=4, g1=2e-8, g2=1e-8, s=1e-5), ["g1", "2e-08", "s/word"], 1),
        (pybsp.EBSPMachine.mesh(16), ["network", "mesh", ""], 1),
        (pybsp.LogPMachine(p=8, L=16, o=1, G=4), ["L", "16", "steps"], 0),
        (pybsp.BSPMachine(p=4, g=0, l=0, r=1), ["r", "1", "flop/s"], 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_machine_is_a_table_of_parameters_with_units(machine: Any, row: list[str], pictures: int) -> None:
    shown = Shown(machine)
    assert row in shown.rows
    assert shown.tags.count("svg") == pictures


def test_a_cost_is_a_table_of_supersteps_with_their_sum() -> None:
    cost = collectives.broadcast.cost(MACHINE, words=1000)
    shown = Shown(cost)
    assert [row[2] for row in shown.rows] == ["h [words]", *(str(step.h) for step in cost), str(cost.h)]
    assert shown.rows[-1][-1] == f"{cost.seconds:.4g}"
    many = Shown(sum([cost] * 100))
    assert len(many.rows) == 1 + 50 + 1 + 1
    assert Shown(pybsp.Cost(MACHINE, after=5e9)).rows[1] == ["after", "5e+09", "", "", "", "", "5"]


def test_a_cost_says_all_of_each_superstep_what_comes_after_and_the_sum() -> None:
    cost = collectives.allreduce.cost(MACHINE, words=3, degree=2)
    assert Shown(cost).rows == [
        ["superstep", "w [flop]", "h [words]", "M [words]", "messages", "items", "seconds"],
        ["0", "0", "3", "12", "1", "0", "1.003e-05"],
        ["1", "3", "3", "12", "1", "0", "1.003e-05"],
        ["after", "3", "", "", "", "", "3e-09"],
        ["total", "6", "6", "24", "2", "0", "2.007e-05"],
    ]
    last = cost._repr_html_().rpartition("<tr")[2]
    assert last.startswith(' class="total"')
    steps = pybsp.Cost(MACHINE, list(cost) * 25)
    assert [row[0] for row in Shown(steps).rows[-2:]] == ["49", "total"]
    assert [row[0] for row in Shown(steps + pybsp.Cost(MACHINE, [cost[0]])).rows[-3:]] == ["49", "...", "total"]


def test_a_plan_says_all_of_each_superstep_and_four_of_its_messages() -> None:
    shown = Shown(collectives.broadcast_items.plan(5, k=9))
    to_all = ", ".join(f"0 -> {pid}: items 0 to 1" for pid in range(1, 5))
    assert shown.rows == [
        ["superstep", "messages", "h [items]", "operations", "from -> to: items"],
        ["0", "4", "7", "0", "0 -> 1: items 2 to 3, 0 -> 2: items 4 to 5, 0 -> 3: items 6 to 7, 0 -> 4: item 8"],
        ["1", "16", "8", "0", f"{to_all}, ..."],
    ]
    assert shown.text.startswith("2 supersteps on 5 processors")
    assert [f"superstep {number}" in shown.text for number in range(3)] == [True, True, False]
    assert shown.text.count("lightest: 1, darkest: 2") == 2
    assert [row[3] for row in Shown(collectives.prefix.plan(5)).rows[1:]] == ["0", "1", "1"]


@pytest.mark.parametrize(("number", "rows", "drawn"), [(50, 51, 6), (51, 52, 6)])
def test_of_a_long_plan_the_first_supersteps_are_shown(number: int, rows: int, drawn: int) -> None:
    step = collectives.broadcast.plan(2)[0]
    shown = Shown(joined(2, [step] * number))
    assert (len(shown.rows), shown.tags.count("svg")) == (rows, drawn)
    assert (shown.rows[-1] == ["...", "", "", "", ""]) == (number > 50)
    for p, few in ((64, 1), (65, 0)):
        assert Shown(collectives.broadcast.plan(p, degree=p)).tags.count("svg") == few


def test_a_plan_is_a_table_and_who_sends_to_whom() -> None:
    plan = collectives.broadcast.plan(4, degree=2)
    shown = Shown(plan)
    assert [row[4] for row in shown.rows[1:]] == ["0 -> 2: item 0", "0 -> 1: item 0, 2 -> 3: item 0"]
    assert shown.tags.count("svg") == 2
    assert re.findall(r">(\d+)</text>", plan._repr_html_()) == ["0", "1", "2", "3"] * 4  # from and to, of both
    assert Shown(collectives.broadcast.plan(100)).tags.count("svg") == 0


def test_a_simulation_says_what_was_computed_after_the_last_superstep() -> None:
    def main(bsp: pybsp.BSP, flops: float) -> None:
        bsp.sync()
        bsp.work(flops)

    said = "1e-05 virtual seconds and 0.001 of computing after the last superstep"
    assert said in Shown(pybsp.simulate(main, 1e6, machine=MACHINE)).text
    assert "computing after" not in Shown(pybsp.simulate(main, 0, machine=MACHINE)).text
    on_network = pybsp.simulate(main, 7, p=4, network="hypercube")
    assert f"{on_network.time:g} steps and 7 of computing after" in Shown(on_network).text


def test_a_logp_picture_is_of_when_each_processor_did_what() -> None:
    def main(proc: Any) -> None:
        if proc.pid == 0:
            proc.compute(10)
            proc.send(1, "x")
        else:
            proc.recv()

    machine = pybsp.LogPMachine(p=2, L=16, o=2, G=4, step=1e-6)
    simulation = pybsp.logp.simulate(main, machine=machine)
    timeline = pybsp.logp.Timeline.of(simulation)
    assert "2 processors, 30 steps" in Shown(simulation).text
    assert "timeline: 1 messages of 2 processors, 3e-05 s" in Shown(timeline).text
    # In pictures that begin at 66, and have 548 for the 30 steps: computing, o of both, waiting.
    assert _begun(timeline) == [round(66 + 548 * step / 30, 1) for step in (0, 10, 28, 0)]
    # Busy, both; idle, after 12 steps that one was busy, and 2 of the other.
    assert _begun(simulation) == [round(66 + 548 * step / 30, 1) for step in (0, 0, 12, 2)]


def _begun(thing: Any) -> list[float]:
    """Where the rectangles of what is drawn begin, by colour and processor."""
    return [float(x) for x in re.findall(r"M([0-9.]+) [0-9.]+h", thing._repr_html_())]


def test_a_logp_simulation_is_what_each_processor_did() -> None:
    def sums(proc: Any) -> None:
        if proc.pid:
            proc.send(0, 1)
        else:
            for _ in range(proc.p - 1):
                proc.recv()

    for p in (4, 130):
        shown = Shown(pybsp.logp.simulate(sums, machine=pybsp.LogPMachine(p=p, L=16, o=1, G=4)))
        assert shown.tags.count("svg") == 1
        assert f"simulation: {p} processors" in shown.text
        assert "stalled" in shown.text
