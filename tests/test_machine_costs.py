"""What supersteps cost on a machine: w + g*h + l, Valiant's max, E-BSP; costs that add; files that hold both."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pybsp
from pybsp import BSPMachine, Cost, EBSPMachine, LogPMachine, UsageError
from pybsp.benchmarks.calibration.patterns import waited
from pybsp.collectives import broadcast, prefix
from pybsp.commands.table import report
from pybsp.ledger.ledger import Ledger
from pybsp.ledger.ledger_file import append_run, read
from pybsp.ledger.log import Log, combine
from pybsp.machines.bsp import others_waited
from pybsp.machines.cost import Superstep
from pybsp.machines.in_force import for_p, machine_in_force
from pybsp.ways import (
    BY_COLLECTIVE,
    BY_GET,
    BY_MAIL,
    BY_NOTE,
    BY_PATTERN,
    BY_PUT,
    BY_QUEUE,
    BY_RECORD,
    WAY,
    Used,
    named,
    with_lent,
)

from .costs import in_file

pytestmark = pytest.mark.fast  # all of their many cases, which take a millisecond each

FIGURES = st.floats(0, 1e6)


@given(FIGURES, FIGURES, FIGURES, FIGURES, st.integers(0, 1000))
def test_the_sum_is_between_one_and_three_times_valiants_maximum(
    g: float, latency: float, w: float, h: float, messages: int
) -> None:
    added = BSPMachine(4, g, latency, 2.0).time(w, h, messages)
    valiant = BSPMachine(4, g, latency, 2.0, cost="max").time(w, h, messages)
    assert valiant == max(w / 2, g * h, latency)
    assert added == pytest.approx(w / 2 + g * h + latency)
    assert valiant <= added * (1 + 1e-12) <= 3 * valiant * (1 + 1e-9)


@pytest.mark.parametrize(
    ("machine", "price", "sizes", "argument"),
    [
        (BSPMachine.nominal(4), "time", {"w": 2**2000, "h": 1}, "w"),
        (BSPMachine.nominal(4), "time", {"w": 1, "h": 2**2000}, "h"),
        (BSPMachine.nominal(4), "elapsed", {"computing": 1.0, "h": 1, "messages": 2**2000}, "messages"),
        (BSPMachine.nominal(4), "exchanging", {"h": 2**2000}, "h"),
        (BSPMachine.nominal(4), "predict", {"step": Superstep(1, 1, 2**2000, 1)}, "step"),
        (EBSPMachine(4, 1.0, 1.0, 1.0), "time", {"M": 1, "k1": 2**2000, "k2": 1}, "k1"),
        (EBSPMachine(4, 1.0, 1.0, 1.0), "predict", {"step": Superstep(2**2000, 1, 1, 1)}, "step"),
        (EBSPMachine.mesh(4), "time", {"M": 1, "k1": 1, "k2": 1, "locality": 2**2000}, "locality"),
    ],
)
def test_a_size_that_no_float_can_be_is_refused_by_its_name(
    machine: Any, price: str, sizes: dict[str, Any], argument: str
) -> None:
    text = f"{type(machine).__name__}.{price}: argument {argument}: expected none beyond what a float can be, got "
    with pytest.raises(UsageError, match="^" + re.escape(text)):
        getattr(machine, price)(**sizes)
    with pytest.raises(UsageError, match="^" + re.escape(text)):
        getattr(machine, price)(*sizes.values())


def test_a_mesh_prices_relations_whose_product_no_float_can_be() -> None:
    assert EBSPMachine.mesh(4).time(1, 2**600, 2**600) == 2.0**600 * math.sqrt(3) + 2


def test_overhead_of_messages_counts_with_communication() -> None:
    assert BSPMachine(4, 1.0, 5.0, 1.0, o_msg=2.0, cost="max").time(3, 4, 2) == 8.0
    assert BSPMachine(4, 1.0, 5.0, 1.0, o_msg=2.0).time(3, 4, 2) == 3 + 4 + 4 + 5
    assert BSPMachine(4, 1.0, 5.0, 2.0, cost="max").elapsed(9.0, 1) == 9.0


def test_items_of_queues_count_with_communication() -> None:
    m = BSPMachine(4, 1.0, 5.0, 1.0, o_msg=2.0, o_item=0.5)
    assert m.time(3, 4, 2, 6) == 3 + 4 + 4 + 3 + 5
    assert m.predict(Superstep(4, 1, 2, 4, 3.0, items=6)) == 19
    assert dataclasses.replace(m, cost="max").time(3, 4, 2, 6) == 11
    assert Superstep(4, 1, 2, 4, 3.0, items=6).times(2) == Superstep(8, 2, 2, 8, 6.0, items=6)
    unbalanced = EBSPMachine(4, 1.0, 2.0, 5.0, 1.0, o_msg=2.0, o_item=0.5)
    assert unbalanced.predict(Superstep(4, 1, 2, 8, 3.0, items=6)) == 3 + 2 + 8 + 4 + 3 + 5
    assert unbalanced.time(8, 4, 1, w=3, messages=2, items=6) == 25
    for kind in (BSPMachine, EBSPMachine):
        with pytest.raises(UsageError, match="o_item must be finite and at least 0"):
            kind(4, 1.0, 2.0, 5.0, o_item=-1.0)


def test_what_an_ebsp_machine_is_not_told_costs_nothing_and_a_flop_a_nanosecond() -> None:
    assert EBSPMachine(4, 1.0, 2.0, 5.0).predict(Superstep(4, 1, 2, 8, 3e9, items=6)) == 3 + 2 + 8 + 5


def test_virtual_time_and_predictions_run_by_valiants_maximum() -> None:
    m = BSPMachine(3, 1.0, 10.0, 1.0, cost="max")

    def main(bsp: pybsp.BSP) -> None:
        bsp.work(7)
        bsp.send((bsp.pid + 1) % 3, np.ones(4))
        bsp.sync()
        bsp.work(50 * bsp.pid)
        bsp.sync()
        bsp.send(0, np.ones(20))
        bsp.sync()

    simulation = pybsp.simulate(main, machine=m)
    assert [record.predicted for record in simulation.ledger] == [10.0, 100.0, 40.0]  # 0 itself receives 2 * 20
    assert simulation.time == 150.0


@pytest.mark.parametrize("cost", ["", "MAX", None, 1, np.arange(2)])
def test_another_form_of_cost_is_refused(cost: Any) -> None:
    with pytest.raises(UsageError, match=r"BSPMachine: cost must be \"sum\" .* or \"max\""):
        BSPMachine(1, 1.0, 1.0, 1.0, cost=cost)


def test_an_e_bsp_machine_charges_for_words_in_all_and_at_most() -> None:
    m = EBSPMachine(8, g1=2.0, g2=3.0, s=5.0, r=10.0)
    assert m.time(16, 4, 6) == 2 * 16 / 8 + 3 * 6 + 5
    assert m.time(16, 6, 4, locality=1, w=20) == 2 * 16 / 8 + 3 * 6 + 5 + 2
    assert m.predict(Superstep(4, 6, 9, 16, 20.0, 1)) == m.time(16, 4, 6, 1, 20)


def test_an_e_bsp_machine_without_distance_between_words_is_a_bsp_machine() -> None:
    step = Superstep(7, 3, 2, 11, 4.0, 2)
    assert EBSPMachine(5, 0.0, 1.5, 9.0, 2.0).predict(step) == BSPMachine(5, 1.5, 9.0, 2.0).predict(step)


def test_a_linear_array_takes_the_least_of_words_and_distance() -> None:
    m = EBSPMachine.linear_array(10)
    assert m.time(100, 3, 5, 4) == 3 * 4 + 8
    assert m.time(6, 3, 5, 4) == 6 + 8
    assert m.time(100, 3, 5) == 3 * 9 + 8
    assert m.time(0, 0, 0) == 8
    assert EBSPMachine.linear_array(1).time(0, 0, 0) == 0


def test_a_mesh_takes_the_least_of_two_ways() -> None:
    m = EBSPMachine.mesh(16)
    assert m.time(100, 1, 4, 15) == math.sqrt(1 * 4 * 16)
    assert m.time(100, 4, 4, 1) == 4 * 1 + 4
    assert m.time(100, 4, 4) == min(16, 4 * math.sqrt(15) + 4)


def test_on_a_mesh_an_empty_superstep_takes_what_the_lightest_other_one_does() -> None:
    m = EBSPMachine.mesh(16)
    assert m.time(0, 0, 0) == m.time(0, 0, 0, 0) == m.predict(Superstep(0, 0, 0, 0)) == 4
    assert m.time(1, 1, 1) == m.time(16, 1, 1, 15) == 4
    assert m.time(0, 0, 0, w=3.0) == 3 + 4
    assert EBSPMachine.mesh(1).time(0, 0, 0) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"p": 0}, "p must be a whole number"),
        ({"p": 2.0}, "p must be a whole number"),
        ({"p": True}, "p must be a whole number"),
        ({"g1": -1.0}, "g1 must be finite and at least 0"),
        ({"g2": math.nan}, "g2 must be finite"),
        ({"s": math.inf}, "s must be finite"),
        ({"r": 0.0}, "r must be finite and above 0"),
        ({"r": 1e-320}, "r must be finite and above 0 .*, and 1/r finite"),
        ({"s": "1"}, "s must be a number"),
        ({"g1": True}, "g1 must be a number"),
        ({"network": "ring"}, "network must be"),
        ({"network": None}, "network must be"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=f"EBSPMachine: {said}"):
        EBSPMachine(**{"p": 2, "g1": 1.0, "g2": 1.0, "s": 1.0, **change})


class Size(IntEnum):
    TWO = 2


NUMPYS: dict[str, Any] = {
    "p": np.int64(4),
    "g": np.float32(0.5),
    "l": np.int32(2),
    "r": np.longdouble(3),
    "segments": np.array([[0, 1, 2, 3]]),
    "late": {"empty": np.float32(0.25)},
    "after": [(np.float32(0.5), np.int64(1))],
    "rates": {"sort": np.uint8(7)},
}
PYTHONS: dict[str, Any] = {
    "p": 4,
    "g": 0.5,
    "l": 2,
    "r": 3.0,
    "segments": [[0, 1, 2, 3]],
    "late": {"empty": 0.25},
    "after": [(0.5, 1)],
    "rates": {"sort": 7},
}


@pytest.mark.parametrize(
    ("machine", "of_numpy", "of_python"),
    [
        (BSPMachine, NUMPYS, PYTHONS),
        (
            EBSPMachine,
            {"p": Size.TWO, "g1": np.float32(1), "g2": 1, "s": np.int64(1)},
            {"p": 2, "g1": 1.0, "g2": 1, "s": 1},
        ),
        (
            LogPMachine,
            {"p": np.int8(4), "L": np.uint8(12), "o": 1, "G": np.int64(2)},
            {"p": 4, "L": 12, "o": 1, "G": 2},
        ),
    ],
)
def test_numbers_of_numpy_are_pythons(machine: Any, of_numpy: Any, of_python: Any, tmp_path: Path) -> None:
    made, expected = machine(**of_numpy), machine(**of_python)
    assert repr(made) == repr(expected)
    made.save(tmp_path / "machine.json")
    assert machine.load(tmp_path / "machine.json") == expected


def test_a_machine_file_holds_both_parts(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    bsp = BSPMachine(4, 1e-9, 1e-5, 2e9, 1e-7, cost="max")
    ebsp = EBSPMachine(4, 1e-9, 2e-9, 3e-6, 2e9, "mesh")
    for order in ((bsp, ebsp), (ebsp, bsp)):
        path.unlink(missing_ok=True)
        for part in order:
            part.save(path)
        assert (BSPMachine.load(path), EBSPMachine.load(path)) == (bsp, ebsp)
    BSPMachine(9, 1.0, 1.0, 1.0).save(path)
    assert BSPMachine.load(path) == BSPMachine(9, 1.0, 1.0, 1.0)
    assert EBSPMachine.load(path) == ebsp
    assert set(json.loads(path.read_text())) == {"format", "version", "bsp", "ebsp"}


def test_a_part_that_is_missing_or_wrong_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    BSPMachine.nominal(3).save(path)
    with pytest.raises(UsageError, match=r"EBSPMachine.load: .* has no part 'ebsp'; it holds .*bsp"):
        EBSPMachine.load(path)
    content = json.loads(path.read_text())
    for part, said in (
        ({"p": 2, "g1": 1.0}, "must hold"),
        ({"p": 2, "g1": 1.0, "g2": 1.0, "s": 1.0, "x": 1}, "must hold"),
        ({"p": 2, "g1": "1", "g2": 1.0, "s": 1.0}, "ebsp.g1: expected a finite number of at least 0, got '1'"),
        ([], "machine.json: ebsp: expected an object of p, g1, .*, got a list of 0"),
        (None, "machine.json: ebsp: expected an object of p, g1, .*, got null"),
    ):
        path.write_text(json.dumps({**content, "ebsp": part}))
        with pytest.raises(UsageError, match=said):
            EBSPMachine.load(path)
        assert BSPMachine.load(path) == BSPMachine.nominal(3)
    path.write_text(json.dumps({**content, "bsp": {"p": 2, "g": 1.0, "l": 1.0, "r": 1.0, "cost": "other"}}))
    with pytest.raises(UsageError, match=r'bsp.cost: expected "sum" or "max", got .other.'):
        BSPMachine.load(path)


def test_virtual_time_and_predictions_run_by_an_e_bsp_machine() -> None:
    m = EBSPMachine(4, g1=2.0, g2=3.0, s=5.0, r=10.0, o_msg=0.5)

    def main(bsp: pybsp.BSP) -> None:
        bsp.work(20)
        if bsp.pid == 0:
            for dest in range(1, 4):
                bsp.send(dest, np.ones(8))
        bsp.sync()
        x = bsp.array(6)
        bsp.sync()
        if bsp.pid == 1:
            x.get(0, at=slice(0, 6))
        bsp.sync()

    simulation = pybsp.simulate(main, machine=m)
    scatter = 20 / 10 + 2 * 24 / 4 + 3 * 24 + 0.5 * 3 + 5
    one_get = 2 * 6 / 4 + 3 * 6 + 0.5 + 5
    assert [record.predicted for record in simulation.ledger] == [scatter, 5.0, one_get]
    assert [record.measured for record in simulation.ledger] == [scatter, 5.0, one_get]
    assert simulation.time == scatter + 5 + one_get
    assert m.predict(Superstep(24, 8, 3, 24, 20.0)) == scatter
    assert simulation.ledger.machine is m


def test_virtual_time_does_not_run_by_a_machine_whose_costs_depend_on_distance() -> None:
    with pytest.raises(UsageError, match="expected an EBSPMachine without a network, got 'mesh'"):
        pybsp.simulate(lambda bsp: None, machine=EBSPMachine.mesh(4))


@pytest.mark.parametrize(
    ("operation", "start", "kinds"),
    [
        ("pybsp.run", lambda _, machine: machine_in_force(machine, 2, "pybsp.run"), "a pybsp.BSPMachine"),
        ("pybsp.simulate", pybsp.simulate, "a pybsp.BSPMachine or a pybsp.EBSPMachine"),
        ("pybsp.simulate", partial(pybsp.simulate, p=2), "a pybsp.BSPMachine or a pybsp.EBSPMachine"),
        ("pybsp.logp.simulate", pybsp.logp.simulate, "a pybsp.LogPMachine"),
    ],
)
def test_what_is_no_machine_is_refused_and_a_file_is_to_be_read_first(
    operation: str, start: Callable[..., Any], kinds: str
) -> None:
    for machine, got in ("m.json", "'m.json'; read a file by pybsp.(BSP|LogP)Machine.load"), (5, "int"):
        with pytest.raises(UsageError, match=f"^{operation}: argument machine: expected {kinds}, got {got}$"):
            start(lambda _: None, machine=machine)


def test_a_logp_machine_is_not_made_of_an_e_bsp_machine() -> None:
    with pytest.raises(UsageError, match=r"from_bsp: expected a pybsp.BSPMachine, got EBSPMachine"):
        pybsp.LogPMachine.from_bsp(EBSPMachine(2, 1.0, 1.0, 1.0))


SEGMENTED = BSPMachine(
    4, 2.0, 10.0, 1.0, 5.0, segments=((0, 10.0, 5.0, 4.0), (16, 20.0, 6.0, 3.0), (64, 30.0, 7.0, 2.0))
)


def test_a_superstep_costs_what_the_segment_of_its_mean_message_says() -> None:
    assert SEGMENTED.elapsed(0, 15, 1) == 10 + 5 + 4 * 15
    assert SEGMENTED.elapsed(0, 31, 2) == 10 + 5 * 2 + 4 * 31  # a mean of 15.5 words
    assert SEGMENTED.elapsed(0, 16, 1) == 20 + 6 + 3 * 16
    assert SEGMENTED.time(7, 6400, 100) == 7 + 30 + 7 * 100 + 2 * 6400
    assert SEGMENTED.predict(Superstep(63, 10, 1, 63)) == 20 + 6 + 3 * 63


def test_where_nothing_is_sent_or_in_unknown_messages_no_segment_counts() -> None:
    assert SEGMENTED.elapsed(3, 0) == 13
    assert SEGMENTED.elapsed(0, 0, 4) == 10 + 5 * 4
    assert SEGMENTED.elapsed(0, 15) == 10 + 2 * 15


@pytest.mark.parametrize(
    "rows",
    [
        ((1, 1.0, 1.0, 1.0),),
        ((0, 1.0, 1.0, 1.0), (0, 1.0, 1.0, 1.0)),
        ((0, 1.0, 1.0, 1.0), (8, 1.0, 1.0, 1.0), (4, 1.0, 1.0, 1.0)),
        ((0, 1.0, 1.0),),
        ((0, -1.0, 1.0, 1.0),),
        ((0, 1.0, math.inf, 1.0),),
        ((0, "1", 1.0, 1.0),),
        (1.0,),
        "rows",
        None,
    ],
)
def test_segments_that_are_none_are_refused(rows: Any) -> None:
    with pytest.raises(UsageError, match=r"BSPMachine: segments must be rows .* the first from 0 words on"):
        BSPMachine(1, 1.0, 1.0, 1.0, segments=rows)


@pytest.mark.parametrize("kind", [BSPMachine, EBSPMachine])
@pytest.mark.parametrize("error", [-0.1, math.nan, math.inf, "5 %"])
def test_errors_that_are_none_are_refused(kind: Any, error: Any) -> None:
    with pytest.raises(UsageError, match=r"error_p95 must be a relative error of at least 0 or None"):
        kind(1, 1.0, 1.0, 1.0, error_p95=error)


def test_a_file_keeps_segments_errors_and_message_costs(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    made = dataclasses.replace(SEGMENTED, error_median=0.03, error_p95=0.2, o_item=2e-8)
    unbalanced = EBSPMachine(4, 1.0, 2.0, 3.0, 4.0, o_msg=0.25, error_median=0.1, error_p95=0.4, o_item=3e-8)
    made.save(path)
    unbalanced.save(path)
    assert BSPMachine.load(path) == made
    assert hash(BSPMachine.load(path)) == hash(made)
    assert EBSPMachine.load(path) == unbalanced


def test_a_cost_carries_the_error_of_predictions() -> None:
    cost = Cost(dataclasses.replace(SEGMENTED, error_median=0.034, error_p95=0.2), [Superstep(64, 64, 1, 64)])
    assert repr(cost).endswith("165 s (+- 3.4 %)>")


def test_a_file_with_a_part_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    BSPMachine.nominal(2).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantum": {}}))
    with pytest.raises(UsageError, match=r"it holds \['quantum'\], which this pybsp does not know"):
        BSPMachine.load(path)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ([], "placement: expected an object that may have hosts, nodes, got a list of 0"),
        ({"hosts": "a"}, "placement.hosts: expected a list, got 'a'"),
        ({"hosts": [1, 2]}, r"placement.hosts\[0\]: expected text"),
        ({"hosts": ["a"]}, "bsp.p and placement.hosts: expected a host for each processor, got p = 2 and 1 hosts"),
        ({"hosts": ["a", "a"], "racks": [0, 0]}, "placement: expected an object .* got one that has racks"),
    ],
)
def test_a_file_with_a_wrong_placement_is_refused(tmp_path: Path, placement: Any, said: str) -> None:
    path = tmp_path / "machine.json"
    BSPMachine.nominal(2).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "placement": placement}))
    with pytest.raises(UsageError, match=f"machine file {path}: {said}"):
        BSPMachine.load(path)


def test_another_placement_is_told_from_the_one_that_was_measured() -> None:
    m = dataclasses.replace(BSPMachine.nominal(4), hosts=("a", "a", "b", "b"))
    assert m == BSPMachine.nominal(4)
    assert m.elsewhere(["a", "a", "b", "b"]) is None
    assert m.elsewhere(["b", "b", "a", "a"]) is None
    assert m.elsewhere(["c", "c", "a", "a"]) is None
    other = m.elsewhere(["a", "b", "a", "b"])
    assert other is not None
    assert "measured with the processors on 2 hosts (0, 0, 1, 1), this run has them on 2 hosts (0, 1, 0, 1)" in other
    assert "one host" in str(m.elsewhere(["a"] * 4))
    assert "measured on a, b, this run is on c, d" in str(m.elsewhere(["c", "c", "d", "d"]))
    assert m.elsewhere(["a"] * 8) is None  # another p has its own warning
    assert BSPMachine.nominal(4).elsewhere(["a", "b", "c", "d"]) is None


def test_a_report_has_the_error_bar_of_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = dataclasses.replace(BSPMachine(2, 1.0, 10.0, 1.0), error_median=0.1, error_p95=0.5)
    for machine, bars in ((m, True), (BSPMachine(2, 1.0, 10.0, 1.0), False), (EBSPMachine(2, 1.0, 1.0, 8.0), False)):
        ledger = pybsp.simulate(lambda bsp: bsp.sync(), machine=machine).ledger
        path = tmp_path / "ledger.json"
        ledger.save(path)
        assert report(str(path), every=False) == 0
        printed = capsys.readouterr().out
        assert ("+- p95 [s]" in printed) == bars
        if bars:
            assert re.search(r"│ +10 │ +10 │ +1 │ +5 │ +1 │", printed)  # exchange, predicted, +- both, their ratio
    assert "g1 = 1 s/word, g2 = 1 s/word, s = 8 s" in printed


def test_a_report_has_a_column_of_items_where_a_queue_was_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP, queued: bool) -> None:
        if queued:
            bsp.queue().send(1 - bsp.pid, np.ones(30))
        bsp.sync()

    path = tmp_path / "ledger.json"
    for queued in (True, False):
        ledger = pybsp.simulate(main, queued, machine=BSPMachine(2, 1.0, 10.0, 1.0, o_item=0.5)).ledger
        ledger.save(path)
        assert report(str(path), every=True) == 0
        printed = capsys.readouterr().out
        assert "o_item = 0.5 s" in printed
        assert ("items" in printed) == queued
        if queued:
            assert re.search(r"│ +30 │ +60 │ +1 │ +30 │.*│ +55 │ +55 │", printed)  # h, M, messages, items; exchange


def test_a_report_has_a_line_for_each_label_or_for_each_superstep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for label in "aba":
            with bsp.superstep(label):
                bsp.send(0, 1.0)

    path = tmp_path / "ledger.json"
    pybsp.simulate(main, p=2).ledger.save(path)
    lines = {False: [("2", "a"), ("1", "b"), ("3", "total")]}
    lines[True] = [("0", "a"), ("1", "b"), ("2", "a"), ("3", "total")]
    for every, expected in lines.items():
        assert report(str(path), every) == 0
        assert re.findall(r"^│ +(\d+) │ (\w+)", capsys.readouterr().out, re.MULTILINE) == expected


def test_a_report_has_no_prediction_by_a_machine_that_nobody_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.work(5)
        bsp.sync()

    path = tmp_path / "ledger.json"
    for virtual in (True, False):
        run = in_file(pybsp.simulate(main, p=2).ledger)
        append_run(path, {**run, "virtual": virtual}, first=True)
        assert report(str(path), every=False) == 0
        printed = capsys.readouterr().out
        assert "predicted" not in printed
        assert "nominal" not in printed
        assert ("`pybsp run --calibrate` measures" in printed) != virtual
        assert ("g = 1e-09 s/word" in printed) == virtual  # by which the clock ran
        assert "w [flop]" in printed


def test_a_report_begins_with_how_well_the_exchange_was_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.work(30 * bsp.pid)
        bsp.send(0, np.zeros(100))
        bsp.sync()

    path = tmp_path / "ledger.json"
    run = in_file(pybsp.simulate(main, machine=BSPMachine(2, 1.0, 10.0, 2.0)).ledger)
    run["supersteps"][0].update(measured=15.0 + 220.0, charged=12.0)
    append_run(path, run, first=True)
    assert report(str(path), every=False) == 0
    _, headline, *table = capsys.readouterr().out.splitlines()
    assert headline == (
        "exchange predicted/measured: 0.5 (110 s predicted); computing 15 s (imbalance 2: 7.5 s of waiting), "
        "exchange 220 s"
    )
    assert re.search(r"│ +15 │ +12 │ +2 │ +7.5 │ +220 │ +110 │ +0.5 │", table[3])  # computing, by w/r, ...


EXCHANGING = BSPMachine(2, g=0.5, l=4.0, r=2.0, o_msg=0.25, o_item=0.125, segments=((0, 5.0, 0.5, 0.25),))


def test_a_ledger_of_ranks_predicts_by_the_exchange_alone_and_costs_by_whole_supersteps() -> None:
    machine = dataclasses.replace(BSPMachine(2, 1.0, 10.0, 2.0), exchange=EXCHANGING)
    assert machine.exchanging(h=8, messages=2, items=8) == 5 + 0.5 * 2 + 0.25 * 8 + 0.125 * 8
    assert machine.exchanging(h=0) == 4
    assert machine.elapsed(0.0, 8, 2) == BSPMachine(2, 1.0, 10.0, 2.0).exchanging(8, 2) == 18

    def main(bsp: pybsp.BSP) -> None:
        bsp.send(1 - bsp.pid, np.zeros(8))
        bsp.sync()

    done = pybsp.simulate(main, machine=machine)
    assert [record.exchange_predicted for record in done.ledger] == [18]  # the clock runs by whole supersteps
    (record,) = Ledger(machine, _log(), virtual=False)
    assert record.exchange_predicted == 5 + 0.5 + 0.25 * 8
    assert record.predicted == record.seconds + record.exchange_predicted


def _log() -> Log:
    """Of a superstep with 8 words in a message, after 3 s of computing on a processor and 1 s on the other."""
    log = Log()
    rows = [np.array([[0.0, 0, seconds, 20, 8, 8, 1, 1, 0, 0, BY_MAIL]]) for seconds in (3.0, 1.0)]
    log.note(*rows[0][0].tolist())
    log.names.append("")
    log.put([combine(rows)])
    return log


NO_EXCHANGE = ("fast", BSPMachine(3, 1.0, 1.0, 1.0), dataclasses.replace(EXCHANGING, exchange=EXCHANGING))


@pytest.mark.parametrize("exchange", NO_EXCHANGE)
def test_an_exchange_that_is_no_machine_of_the_same_p_is_an_error(exchange: Any) -> None:
    with pytest.raises(UsageError, match="BSPMachine: exchange must be a BSPMachine of p = 2"):
        BSPMachine(2, 1.0, 1.0, 1.0, exchange=exchange)


def test_a_machine_file_keeps_the_exchange_and_refuses_a_wrong_one_by_its_field(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    machine = dataclasses.replace(BSPMachine(2, 1.0, 10.0, 2.0), exchange=EXCHANGING)
    machine.save(path)
    assert BSPMachine.load(path) == machine
    text = path.read_text()
    for old, new, field in (("0.125", "NaN", "o_item"), ("0.5,", "-1,", "g"), ('"l": 4.0', '"l": "4"', "l")):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(UsageError, match=rf"machine file {path}: bsp.exchange.{field}: expected a finite number"):
            BSPMachine.load(path)
    path.write_text(text.replace('"l": 4.0', '"l": 4.0, "late": {"raven": 1.0}', 1))
    with pytest.raises(UsageError, match=f"machine file {path}: bsp.exchange: BSPMachine: late must be"):
        BSPMachine.load(path)
    found, warning = for_p(machine, 4, "it")
    assert found.exchange is not None
    assert (found.exchange.p, found.exchange.g, warning is None) == (4, 0.5, False)


def test_a_machine_of_another_p_is_a_warning_that_names_file_and_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "machine.json"
    BSPMachine(2, 1.0, 10.0, 2.0).save(path)
    monkeypatch.setenv("PYBSP_MACHINE", str(path))
    found, warning = machine_in_force(None, 4, "pybsp.run")
    assert found.p == 4
    assert warning == (
        f"machine file {path}: bsp.p: expected 4, as this run has, got 2: its predictions are for another machine"
    )
    assert machine_in_force(None, 2, "pybsp.run")[1] is None


def test_costs_add_one_after_the_other() -> None:
    m = BSPMachine(2, 1.0, 10.0, 2.0)
    one = Cost(m, [Superstep(1, 2, 1, 3, 4.0)], after=6)
    two = Cost(m, [Superstep(5, 5, 2, 5), Superstep(0, 0, 0, 0, 8.0)], after=2)
    both = one + two
    assert list(both) == [Superstep(1, 2, 1, 3, 4.0), Superstep(5, 5, 2, 5, 6.0), Superstep(0, 0, 0, 0, 8.0)]
    assert (both.supersteps, both.h, both.M, both.messages, both.w, both.after) == (3, 7, 8, 3, 20.0, 2)
    assert both.seconds == one.seconds + two.seconds == 7 + 30 + 10
    assert list(one + Cost(m)) == list(one)
    assert (one + Cost(m, after=1)).after == 7
    assert (Cost(m, after=5) + one)[0].w == 9
    assert ((one + one) + two).seconds == (one + (one + two)).seconds
    assert (len(one), one[0], one[:1], next(reversed(two)).w) == (1, one[0], (one[0],), 8.0)
    assert one[0].h == 2


def test_work_left_over_is_hidden_by_valiants_maximum_in_what_follows() -> None:
    m = BSPMachine(2, 1.0, 10.0, 1.0, cost="max")
    one = Cost(m, [Superstep(3, 3, 1, 3)], after=6)
    assert one.seconds == 16
    assert (one + one).seconds == 26


def test_a_cost_says_what_it_is() -> None:
    m = BSPMachine(2, 1.0, 10.0, 2.0)
    assert repr(Cost(m, [Superstep(1, 2, 1, 3, 4.0)], 6)) == (
        "<cost: 1 supersteps, h = 2 words, M = 3 words, 1 messages, w = 10 flop, 17 s>"
    )
    assert Cost(m).seconds == 0
    assert repr(Cost(m)) == "<cost: 0 supersteps, h = 0 words, M = 0 words, 0 messages, w = 0 flop, 0 s>"


def test_collectives_have_a_cost_on_every_machine() -> None:
    for m in (
        BSPMachine(16, 1.0, 16.0, 1.0, cost="max"),
        EBSPMachine(16, 1.0, 1.0, 16.0),
        EBSPMachine.linear_array(16),
        EBSPMachine.mesh(16),
    ):
        for words in (1, 5, 100):
            assert 0 < broadcast.cost(m, words).seconds <= broadcast.cost(m, words, 2).seconds
            assert 0 < prefix.cost(m, words).seconds <= prefix.cost(m, words, 2).seconds
            assert broadcast.cost(m, words).machine is m


def test_pending_says_what_was_sent_since_the_last_sync() -> None:
    def main(bsp: pybsp.BSP) -> list[str]:
        said = [bsp.pending]
        array, queue = bsp.array(2), bsp.queue()
        said.append(bsp.pending)
        bsp.sync()
        for send in (
            lambda: bsp.send(0, 1),
            lambda: queue.send(0, 1.0),
            lambda: array.put(0, 1.0, at=0),
            lambda: array.get(0, at=0),
        ):
            send()
            said.append(bsp.pending)
        bsp.sync()
        said.append(bsp.pending)
        bsp.send(0, 2)
        broadcast(bsp, 1)
        assert bsp.pending == "bsp.send"  # a collective leaves it to the program's own sync
        bsp.sync()
        return said

    for said in pybsp.simulate(main, p=2).results:
        assert said[:2] == ["", ""]
        assert said[-1] == ""
        assert ["bsp.send" in said[2], "queue.send" in said[3], "put" in said[4], "get" in said[5]] == [True] * 4


WAYS_COST = BSPMachine(
    2,
    0.5,
    3.0,
    1.0,
    o_msg=1.0,
    o_way={"queue": 7.0, "get": 20.0, "further": 2.0},  # type: ignore[arg-type]
    g_way={"put": 0.25},  # type: ignore[arg-type]
    late={"empty": 10.0, "sending": 40.0, "queue": 60.0},  # type: ignore[arg-type]
    after=((1.0, 0.5, 0.09, 0.01, 0.04), (100.0, 50.0, 1.0, 1.0, 1.0)),
)

ONE_ROW = ((1.0, 1.0, 1.0, 1.0, 1.0),)


def test_an_exchange_costs_by_the_ways_of_its_data_and_more_after_computing() -> None:
    assert WAYS_COST.exchanging(4, 2) == WAYS_COST.exchanging(4, 2, ways=BY_MAIL) == 2 + 2 + 3
    assert WAYS_COST.exchanging(4, 2, ways=BY_QUEUE) == 7 + 7
    assert WAYS_COST.exchanging(4, 2, ways=BY_MAIL | BY_QUEUE) == 7 + 7
    assert WAYS_COST.exchanging(4, 2, ways=BY_GET | BY_QUEUE) == 7 + 7 + 20 + 2
    assert WAYS_COST.exchanging(4, 2, ways=BY_PUT) == 7 + 1
    assert WAYS_COST.exchanging(4, 2, ways=BY_PUT | BY_NOTE) == 7 + 1
    assert WAYS_COST.exchanging(4, 2, ways=BY_PUT | BY_MAIL) == 7 + 0.5  # half of the words by each
    assert WAYS_COST.exchanging(4, 2, ways=BY_RECORD) == 3  # no message goes, and words are read when it is over
    for hosts, seconds in ((("one", "one"), 3), (("one", "two"), 3 + 2)):  # in heads, between hosts
        assert dataclasses.replace(WAYS_COST, hosts=hosts).exchanging(4, 2, ways=BY_RECORD) == seconds
    for computing, waiting, empty, sending, of_ways in (
        (100.0, 50.0, 1.0, 1.0, 1.0),
        (1e9, 1e9, 1.0, 1.0, 2.0),
        (10.0, 5.0, 0.3, 0.1, 0.2),
        (0.1, 0.05, 0.03 * 0.9, 0.001, 0.04 / 5),
        (100.0, 0.5, 0.09, 0.6**0.5, 1.0),  # all compute as long: what sends has code that is as cold after 0.3 of it
        (1.0, 50.0, 1.0, 0.01, 0.04),  # who waits for longer than others before so much computing adds nothing to that
        (100.0, 0.0, 0.0, 0.6**0.5, 1.0),
    ):
        expected = 14 + 40 * sending + 60 * of_ways
        assert WAYS_COST.exchanging(4, 2, 0, 0, BY_QUEUE, computing, waiting=waiting) == pytest.approx(expected)
        for way in (0, BY_RECORD):
            expected = 3 + 10 * empty
            assert WAYS_COST.exchanging(0, 0, 0, 0, way, computing, waiting=waiting) == pytest.approx(expected)
    assert WAYS_COST.exchanging(0, computing=10.0) == WAYS_COST.exchanging(0, computing=10.0, waiting=3.0)
    assert WAYS_COST.time(0, 4, 2) == 7  # what costs and choices are by knows no ways
    assert named(BY_MAIL | BY_QUEUE) == ("mail", "queue")


def test_an_exchange_of_nothing_is_late_by_how_waits_end_on_one_host() -> None:
    rows = ((1e-4, 3e-5, 0.01, 0.5, 0.5), (3e-4, 9e-5, 0.02, 0.6, 0.6), (1e-3, 3e-4, 0.3, 0.7, 0.7))
    machine = BSPMachine(
        2,
        0.0,
        0.0,
        1.0,
        late=(("empty", 1.0),),
        after=(*rows, (5e-3, 4e-3, 0.8, 0.8, 0.8), (6e-2, 3e-2, 1.0, 1.0, 1.0)),
    )
    by_waiting = {9e-5: 0.02, 1.4e-4: 0.02, 1.6e-4: 0.3, 1.1e-3: 0.3, 1.3e-3: 0.8, 4e-3: 0.8, 1.0: 1.0}
    for waiting, share in by_waiting.items():
        assert machine.exchanging(0, computing=2 * waiting, waiting=waiting) == pytest.approx(share)
    assert machine.exchanging(0, computing=1e-4, waiting=1.5e-5) < 0.01
    apart = dataclasses.replace(machine, hosts=("one", "two"))
    assert 0.02 < apart.exchanging(0, computing=4e-4, waiting=1.6e-4) < 0.3


@pytest.mark.parametrize("p", [2, 3, 8])
def test_where_a_calibration_has_measured_what_sends_the_shares_are_its_own(p: int) -> None:
    rows = tuple((c, waited(c, p), 0.1, share, 0.1) for c, share in ((1e-4, 0.2), (3e-4, 0.4), (1e-3, 0.8)))
    machine = BSPMachine(p, 0.0, 0.0, 1.0, late=(("sending", 1.0),), after=rows)
    for c, wait, _, share, _ in rows:
        assert machine.exchanging(1, 1, ways=BY_MAIL, computing=c, waiting=wait) == pytest.approx(share)
        assert machine.exchanging(1, 1, ways=BY_MAIL, computing=c, waiting=0.0) == pytest.approx(share)


def test_below_one_row_shares_are_in_proportion() -> None:
    machine = BSPMachine(2, 0.0, 0.0, 1.0, late=(("queue", 8.0),), after=((2.0, 1.0, 0.5, 0.5, 0.5),))
    assert [machine.exchanging(1, 1, ways=BY_QUEUE, computing=c) for c in (0.0, 0.5, 1.0, 2.0, 9.0)] == [0, 1, 2, 4, 4]


def test_ways_and_long_computing_are_in_machine_files(tmp_path: Path) -> None:
    machine = BSPMachine(2, 1.0, 1.0, 1.0, exchange=WAYS_COST)
    machine.save(tmp_path / "machine.json")
    assert BSPMachine.load(tmp_path / "machine.json") == machine
    assert hash(machine)


def test_rows_of_two_have_one_share_for_all(tmp_path: Path) -> None:
    """As machine files had them once."""
    machine = BSPMachine(2, 1.0, 1.0, 1.0, after=((1.0, 0.5), (2.0, 1.0)))  # type: ignore[arg-type]
    assert machine.after == ((1.0, 0.5, 0.5, 0.5, 0.5), (2.0, 1.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize("row", [[1.0], [1.0, 0.5, 0.5, 0.5, 0.5, 0.5]], ids=len)
def test_a_row_of_a_machine_file_that_has_another_length_is_named(row: list[float], tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    BSPMachine(2, 1.0, 1.0, 1.0, after=ONE_ROW).save(path)
    content = json.loads(path.read_text())
    content["bsp"]["after"] = [row]
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=rf"machine\.json: bsp\.after\[0\]: expected .*, got .*{len(row)}"):
        BSPMachine.load(path)


@pytest.mark.parametrize(("p", "waited"), [(1, 0.0), (2, 6.0), (4, 4.0)])
def test_others_wait_for_the_one_that_computes_longest_and_it_for_nobody(p: int, waited: float) -> None:
    assert others_waited(10.0, 7.0, p) == waited


def test_a_nominal_machine_has_round_figures_and_hosts_are_not_shown() -> None:
    machine = BSPMachine.nominal(3)
    assert (machine.p, machine.g, machine.l, machine.r, machine.calibrated) == (3, 1e-9, 1e-5, 1e9, False)
    assert repr(dataclasses.replace(machine, hosts=("a", "a", "b"))) == repr(machine)


def test_rows_of_four_do_not_say_how_long_others_waited() -> None:
    rows = (4e-2, 0.5, 0.6, 0.7), (6e-2, 1.0, 1.0, 1.0)
    machine = BSPMachine(2, 1.0, 1.0, 1.0, after=rows)  # type: ignore[arg-type]
    assert [row[1] for row in machine.after] == pytest.approx([1.2e-2, 3e-2])
    assert [(row[0], *row[2:]) for row in machine.after] == [*rows]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"o_way": {"pigeon": 1.0}}, "o_way must be .* of record, mail, .*pigeon"),
        ({"g_way": {"lent": 1.0}}, "g_way must be .* of mail, put, .*lent"),
        ({"late": {"mail": -1.0}}, "late must be finite seconds of at least 0"),
        ({"after": ((2.0, 0.5), (1.0, 1.0))}, "after must be rows"),
        ({"after": ((1.0, 1.5),)}, "after must be rows"),
        ({"after": ((1.0, 0.5, 0.5, 0.5), (2.0, 0.6, 0.6, 0.4))}, "after must be rows"),
        ({"after": ((1.0, 0.5, 0.5),)}, "after must be rows"),
        ({"after": ((1.0, 0.5, 0.5, 0.5, 0.5), (2.0, 0.5, 0.6, 0.6, 0.6))}, "after must be rows"),  # no longer waits
        *(({"after": (row,)}, "after must be rows") for row in ((), ("a", 0.5), (None, 0.5), "ab", (10**400, 0.5))),
        *(({"after": ((1.0, 0.5, *shares),)}, "after must be rows") for shares in ((2, 1, 1), (1, 2, 1), (1, 1, 2))),
        ({"first": {"empty": 1.0}}, "first must be .* of record, mail, .*empty"),
    ],
)
def test_what_no_way_can_cost_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        BSPMachine(2, 1.0, 1.0, 1.0, **wrong)


def test_a_ledger_says_in_which_ways_data_went_and_reads_files_that_do_not(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> None:
        other = (bsp.pid + 1) % bsp.p
        x, q = bsp.array(4), bsp.queue()
        bsp.sync()
        pattern = x.pattern(np.full(4, other), np.arange(4))
        bsp.sync()
        calls: list[Callable[[], object]] = [
            lambda: None,
            lambda: bsp.send(other, 1),
            lambda: x.put(other, 1.0),
            lambda: x.get(other),
            lambda: q.send(other, 1.0),
            lambda: pattern.get(),
        ]
        for call in calls:
            call()
            bsp.sync()
        bsp.send(other, 1)
        pybsp.collectives.allreduce.start(bsp, 1, np.add)
        bsp.sync()

    ledger = pybsp.simulate(main, p=2).ledger
    assert [named(record.ways) for record in ledger] == [
        ("agreement",),
        ("agreement", "making"),
        (),
        ("mail",),
        ("put",),
        ("get",),
        ("queue",),
        ("pattern",),
        ("mail", "note"),
    ]
    assert len(named(ledger.total.ways)) == 8  # all but records, and messages of collectives
    run = in_file(ledger)
    for record in run["supersteps"]:
        del record["ways"]
    append_run(tmp_path / "ledger.json", run, first=True)
    (found,) = read(tmp_path / "ledger.json")["runs"]
    assert found["supersteps"].total.ways == 0


def test_items_that_are_read_where_they_lie_cost_nothing_in_the_exchange() -> None:
    machine = BSPMachine(2, g=0.0, l=1.0, r=1.0, o_item=0.5)
    most = 120 * 1024 // 8
    assert machine.exchanging(most, 1, items=10, ways=BY_QUEUE) == 6
    assert machine.exchanging(most + 1, 1, items=10, ways=BY_QUEUE) == 1
    assert machine.exchanging(most + 1, 2, items=10, ways=BY_QUEUE) == 6
    assert machine.exchanging(most + 1, 1, items=10, ways=BY_QUEUE | BY_MAIL) == 6  # whose words nothing says
    of_hosts = dataclasses.replace(machine, hosts=("a", "b"))
    assert of_hosts.exchanging(most + 1, 1, items=10, ways=BY_QUEUE) == 6


def test_a_ledger_file_has_all_parameters() -> None:
    found = WAYS_COST.as_json()
    fields = {field.name for field in dataclasses.fields(WAYS_COST)}
    assert fields - found.keys() == {"p", "hosts", "rates", "own_p", "busy"}
    assert found["g_way"] == {"put": 0.25}
    there = dataclasses.replace(WAYS_COST, own_p=7, busy=True)
    assert there.as_json() == {**found, "p": 7, "busy": True}
    assert (there, repr(there), there.as_part()) == (WAYS_COST, repr(WAYS_COST), WAYS_COST.as_part())


@pytest.mark.parametrize("own_p", [-1, 2.0, True, 2**53])
def test_processors_that_figures_cannot_be_of_are_refused(own_p: Any) -> None:
    for make in (lambda: BSPMachine(2, 0.0, 0.0, 1.0, own_p=own_p), lambda: EBSPMachine(2, 0.0, 0.0, 0.0, own_p=own_p)):
        with pytest.raises(UsageError, match=r"Machine: own_p must be a whole number from 0 to"):
            make()


def test_long_messages_that_are_read_where_they_lie_have_costs_of_their_own() -> None:
    machine = BSPMachine(
        2, g=0.0, l=1.0, r=1.0, o_way=(("lent", 2.0),), first=(("lent", 4.0),), late=(("lent", 8.0),), after=ONE_ROW
    )
    most = 120 * 1024 / 8
    for words, messages, ways, costs in (
        (most, 1, BY_MAIL, False),
        (most + 1, 1, BY_MAIL, True),
        (2 * most, 2, BY_MAIL, False),
        (2 * most + 1, 2, BY_MAIL | BY_QUEUE, True),
        (most, 1, BY_QUEUE, False),
        *((2 * most, 1, way, True) for way in (BY_QUEUE, BY_PATTERN, BY_COLLECTIVE)),
        *((2 * most, 1, way, False) for way in (BY_PUT, BY_GET, BY_RECORD)),
        (2 * most, 0, BY_MAIL, False),
    ):
        assert machine.exchanging(words, messages, ways=ways) == 1 + 2 * costs
        assert machine.exchanging(words, messages, ways=ways, fresh=with_lent(ways, words, messages)) == 1 + 6 * costs
        assert machine.exchanging(words, messages, ways=ways, computing=1.0, waiting=0.0) == 1 + 10 * costs


def test_further_ways_cost_beside_a_get_and_a_note_is_none() -> None:
    machine = BSPMachine(2, g=0.0, l=0.0, r=1.0, o_way=(("put", 10.0), ("get", 20.0), ("note", 3.0), ("further", 5.0)))
    measured = dataclasses.replace(machine, o_way=(*machine.o_way, ("beside", 1.0)))

    def seconds(*names: str) -> float:
        return machine.exchanging(0, ways=sum(WAY[name] for name in names))

    assert [seconds("mail"), seconds("note"), seconds("mail", "note")] == [0, 3, 3]
    assert [seconds("put", "note"), seconds("put", "get"), seconds("put", "get", "note")] == [13, 35, 38]
    assert [seconds("mail", "put", "note"), seconds("mail", "get", "put")] == [13, 40]
    machine = measured
    assert [seconds("note"), seconds("mail", "note"), seconds("get", "note")] == [3, 3, 23]
    assert [seconds(name, "note") for name in ("put", "queue", "pattern")] == [11, 1, 1]


def test_of_ways_in_one_exchange_the_dearest_counts_where_their_code_is_cold() -> None:
    each = (("put", 10.0), ("queue", 7.0), ("note", 3.0), ("get", 20.0), ("agreement", 50.0), ("making", 100.0))
    machine = BSPMachine(2, g=0.0, l=0.0, r=1.0, late=each, first=each, after=ONE_ROW)

    for names, expected in (
        (("queue", "note"), 7),
        (("put", "queue", "note"), 10),
        (("put", "get"), 30),
        (("queue", "agreement", "making"), 157),
        (("mail",), 0),
    ):
        ways = sum(WAY[name] for name in names)
        assert machine.exchanging(0, ways=ways, computing=1.0) == expected
        assert machine.exchanging(0, ways=ways, fresh=ways) == expected


@pytest.mark.parametrize(
    ("computing", "since", "driven"),
    [
        (3e-4, 3e-4, 3e-4),
        (3e-4, 5e-4, 3e-4),  # half of it is less
        (3e-4, 8e-4, 4e-4),
        (3e-4, 1.0, 2e-3),
        (3e-3, 1.0, 3e-3),
    ],
)
def test_what_was_computed_since_a_way_was_used_counts_half_and_2_ms_at_most(
    computing: float, since: float, driven: float
) -> None:
    late, first = (("put", 1.0), ("queue", 2.0), ("get", 4.0)), (("put", 6e-4), ("get", 5e-4))
    machine = BSPMachine(2, g=0.0, l=0.0, r=1.0, late=late, first=first, after=ONE_ROW)

    def seconds(ways: int, fresh: int = 0) -> float:
        return machine.exchanging(0, ways=ways, computing=computing, since=since, fresh=fresh)

    assert seconds(BY_PUT) == pytest.approx(driven)
    assert seconds(BY_PUT | BY_QUEUE | BY_GET) == pytest.approx(2 * driven + 4 * driven)
    # What is used for the first time takes its first on top of what its own computing adds; the others as ever.
    assert seconds(BY_PUT, BY_PUT) == pytest.approx(computing + 6e-4)
    assert seconds(BY_QUEUE | BY_GET, BY_QUEUE) == pytest.approx(2 * computing + 4 * driven)
    assert seconds(BY_QUEUE | BY_GET, BY_GET) == pytest.approx(2 * driven + 4 * computing + 5e-4)


def test_what_ways_add_grows_on_after_longer_computing_than_was_measured() -> None:
    after = ((1e-2, 1e-2, 0.1, 0.2, 0.25), (4e-2, 4e-2, 0.2, 0.4, 0.5))
    machine = BSPMachine(2, g=0.0, l=0.0, r=1.0, late=(("sending", 1e-3), ("put", 1.0)), after=after)
    late = 1e-3 * 0.4  # which does not

    def seconds(computing: float) -> float:
        return machine.exchanging(0, ways=BY_PUT, computing=computing, waiting=1.0)

    assert [seconds(computing) for computing in (4e-2, 16e-2, 64e-2, 3.0)] == pytest.approx(
        [late + share for share in (0.5, 1.0, 2.0, 2.0)]
    )


def test_notes_take_what_collectives_do_by_a_machine_that_does_not_know_them() -> None:
    late, after = (("collective", 4.0),), ((1.0, 1.0, 1.0, 1.0, 1.0),)
    before = BSPMachine(2, 0.0, 0.0, 2.0, o_way=(("collective", 3.0),), late=late, after=after)
    assert [before.exchanging(0, ways=WAY["note"], computing=one) for one in (0.0, 1.0)] == [3.0, 7.0]
    now = dataclasses.replace(before, o_way=(*before.o_way, ("note", 1.0)))
    assert [now.exchanging(0, ways=WAY["note"], computing=one) for one in (0.0, 1.0)] == [1.0, 5.0]


def test_rates_by_kind_are_kept_in_a_machine_file_and_wrong_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    machine = BSPMachine(2, 1.0, 10.0, 2.0, rates={"sort": 4.0})  # type: ignore[arg-type]
    machine.save(path)
    assert BSPMachine.load(path) == machine
    assert hash(machine) == hash(BSPMachine.load(path))
    for wrong in {"sort": 0.0}, {"sort": 1e-320}, {"sort": float("inf")}, {"": 1.0}, {3: 1.0}:
        with pytest.raises(UsageError, match="BSPMachine: rates must be finite flop/s above 0 by kind of work"):
            BSPMachine(2, 1.0, 10.0, 2.0, rates=wrong)  # type: ignore[arg-type]
    good = path.read_text()
    path.write_text(good.replace("4.0", "-4.0"))
    with pytest.raises(UsageError, match=r"machine.json: bsp.rates.sort: expected a finite number above 0"):
        BSPMachine.load(path)
    path.write_text(good.replace("4.0", "1e-320"))
    with pytest.raises(UsageError, match=r"machine.json: bsp.rates.sort: expected a number above 0 whose inverse is"):
        BSPMachine.load(path)


@pytest.mark.parametrize("machine", [BSPMachine(2, 1.0, 1.0, 3.5), EBSPMachine(2, 1.0, 1.0, 1.0, 3.5)], ids=str)
def test_a_rate_of_which_one_takes_no_number_of_seconds_is_refused(
    tmp_path: Path, machine: BSPMachine | EBSPMachine
) -> None:
    path, ledger = tmp_path / "machine.json", tmp_path / "ledger.json"
    machine.save(path)
    path.write_text(path.read_text().replace("3.5", "1e-320"))
    with pytest.raises(UsageError, match=r"r: expected a number above 0 whose inverse is finite, got "):
        type(machine).load(path)
    pybsp.simulate(lambda bsp: bsp.sync(), machine=machine).ledger.save(ledger)
    ledger.write_text(ledger.read_text().replace("3.5", "1e-320"))
    with pytest.raises(UsageError, match=r"machine\.r: expected a number above 0 whose inverse is finite, got "):
        read(ledger)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rates", 5), ("rates", [1]), ("rates", "ab"), ("o_way", 3), ("o_way", None), ("g_way", 3), ("late", [1, 2])),
        *(("after", 5), ("after", [1]), ("hosts", 5), ("hosts", "node7"), ("hosts", (1, 2))),
        *(("calibrated", "no"), ("calibrated", None), ("calibrated", 1)),
    ],
)
def test_figures_of_another_form_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"BSPMachine: {name} must be .*, got {re.escape(repr(value))}"):
        BSPMachine(4, 1e-6, 1e-3, 1e8, **{name: value})


@pytest.mark.parametrize("kind", [BSPMachine, EBSPMachine, pybsp.LogPMachine])
@pytest.mark.parametrize("path", [None, 5, b"machine.json"])
def test_a_machine_file_of_no_path_is_refused(kind: Any, path: Any) -> None:
    with pytest.raises(UsageError, match=rf"{kind.__name__}.load: argument path: expected that of a machine file, got"):
        kind.load(path)


def test_a_machine_of_given_figures_is_calibrated_and_the_nominal_one_is_not() -> None:
    given: list[Any] = [BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9), LogPMachine(p=2, L=16, o=1, G=4)]
    assert [machine.calibrated for machine in (*given, BSPMachine.nominal(2), LogPMachine.nominal(2))] == [
        True, True, False, False,
    ]  # fmt: skip


def test_collectives_are_used_for_the_first_time_under_each_label() -> None:
    labels, zeros = np.array([0.0, 0.0, 1.0, 0.0, 1.0, 2.0]), np.zeros(6)
    put, collective = BY_PUT, BY_COLLECTIVE
    used = Used()
    ways = np.array([put | collective, collective, put | collective, put, collective, collective])
    since, fresh = used.since(ways, zeros, zeros, zeros + 1.0, labels)
    assert fresh.tolist() == [put | collective, 0, collective, 0, 0, collective]
    assert since.tolist() == [0, 1, 2, 1, 2, 0]  # where it is used for the first time it does not count
    later = used.since(ways[:2], zeros[:2], zeros[:2], zeros[:2], np.array([1.0, 3.0]))[1]
    assert later.tolist() == [0, collective]


def test_of_labels_that_a_loop_makes_the_first_16_are_new_to_collectives() -> None:
    used, zeros, ways = Used(), np.zeros(12), np.full(12, BY_COLLECTIVE)
    found = [used.since(ways, zeros, zeros, zeros, np.arange(12.0) + begin)[1] for begin in (0.0, 10.0)]
    assert [np.flatnonzero(fresh).tolist() for fresh in found] == [[*range(12)], [2, 3, 4, 5]]
