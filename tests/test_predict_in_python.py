"""`pybsp.predict` and `Ledger.predict`: what `pybsp predict` does, in a program or a notebook."""

from __future__ import annotations

import gc
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.cli import main as command
from pybsp.ledger import prediction_pictures
from pybsp.ledger.pictures import ROWS, more_labels
from pybsp.ledger.prediction import Prediction, Predictions
from pybsp.machines.bsp import BSPMachine
from pybsp.runs import simulation

from .test_predict import rows

MACHINE = BSPMachine(4, g=1e-3, l=1.0, r=1e9, o_msg=0.25, o_item=0.125, error_median=0.05, error_p95=0.2)


def ring(bsp: pybsp.BSP, n: int) -> None:
    with bsp.superstep("ring"):
        bsp.work(8e9 / bsp.p)
        bsp.send((bsp.pid + 1) % bsp.p, np.zeros(n))
    bsp.sync()


def test_a_program_is_predicted_for_each_p_by_the_work_that_it_charges() -> None:
    found = pybsp.predict(ring, 1000, p=[4, 1, 2, 4], machine=MACHINE, measure=False)
    assert found.p.tolist() == [1, 2, 4]
    assert found.time.tolist() == pytest.approx([8.0, 4 + 3.25, 2 + 3.25])
    assert found.speedup.tolist() == pytest.approx([1.0, 8 / 7.25, 8 / 5.25])
    assert found.efficiency.tolist() == pytest.approx([1.0, 4 / 7.25, 2 / 5.25])
    last = found[-1]
    assert (last.supersteps, last.computing, last.exchange, last.latency) == pytest.approx((2, 2.0, 3.25, 2.0))
    assert (last.label, last.waiting, last.imbalance) == ("", 0.0, 1.0)
    assert last.error == pytest.approx(0.65)
    assert {label: one.time for label, one in last.labels.items()} == pytest.approx({"ring": 2 + 2.25, "": 1.0})
    assert found[1:].p.tolist() == [2, 4]
    assert found[1:].speedup.tolist() == pytest.approx([1.0, 7.25 / 5.25])


def test_a_single_p_is_a_number() -> None:
    (one,) = pybsp.predict(ring, 1000, p=np.int64(2), machine=MACHINE, measure=False)
    assert one.p == 2


def test_weak_scaling_counts_as_much_in_the_same_time_as_a_speedup_of_p() -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.work(1e9)
        bsp.sync()

    found = pybsp.predict(main, p=[1, 2, 8], machine=MACHINE, measure=False, weak=True)
    assert found.time.tolist() == pytest.approx([1.0, 2.0, 2.0])
    assert found.speedup.tolist() == pytest.approx([1.0, 1.0, 4.0])
    assert found.efficiency.tolist() == pytest.approx([1.0, 0.5, 0.5])


def test_computing_is_what_it_takes_here_but_for_what_is_done_once() -> None:
    executed: list[int] = []

    def main(bsp: pybsp.BSP) -> None:
        if not executed:
            time.sleep(0.2)  # as an import
        executed.append(bsp.p)
        time.sleep(0.004 / bsp.p)
        bsp.sync()

    whole, half = (pybsp.predict(main, p=[1, 2], machine=MACHINE, faster=faster) for faster in (1.0, 2.0))
    assert executed == [1, 1, 2, 2] * 2
    # Less than is slept, as the time that a thread waits for a core is told by another clock.
    assert 0.003 <= whole[0].computing < 0.1
    assert 0.0015 <= half[0].computing < 0.05
    assert 0.0015 <= whole[1].computing < 0.1


def test_nothing_of_it_stays() -> None:
    def fails(bsp: pybsp.BSP) -> None:
        assert not gc.isenabled()
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        pybsp.predict(fails, p=[2], machine=MACHINE)
    assert simulation.options() is None
    assert gc.isenabled()


def test_small_collectives_are_predicted_as_ranks_have_them() -> None:
    """Shown in memory of the host: what is sent that way has no message."""

    def main(bsp: pybsp.BSP) -> None:
        collectives.allreduce(bsp, 1.0, np.add)

    exchange = BSPMachine(4, g=0.0, l=1.0, r=1e9, o_msg=100.0, o_way=(("collective", 7.0),))
    one_host = BSPMachine(4, g=0.0, l=1.0, r=1e9, exchange=exchange, hosts=("a",) * 4)
    (found,) = pybsp.predict(main, p=[4], machine=one_host, measure=False)
    ledger = pybsp.simulate(main, machine=one_host).ledger
    assert found.exchange < 100 < ledger.predict(one_host).exchange
    (routed,) = pybsp.predict(main, p=4, machine=one_host, measure=False, router="two-phase")
    assert routed.exchange > 100, "routers have messages alone"


def test_the_machine_is_that_of_the_setting_if_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MACHINE.save(tmp_path / "machine.json")
    monkeypatch.setenv("PYBSP_MACHINE", str(tmp_path / "machine.json"))
    found = pybsp.predict(ring, 1000, p=4, measure=False)
    assert found.machine == MACHINE
    assert found.time.tolist() == pytest.approx([5.25])


def test_a_ledger_is_predicted_on_another_machine_as_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for label in "there", "back", "there":
            with bsp.superstep(label):
                bsp.work(1e9)
                bsp.send((bsp.pid + 1) % bsp.p, np.zeros(100))
        with bsp.superstep("parts"), bsp.split(bsp.pid % 2) as part:
            part.sync()
        bsp.work(5e8)

    ledger = pybsp.simulate(main, machine=BSPMachine(4, g=1e-2, l=5.0, r=1e9)).ledger
    found = ledger.predict(BSPMachine(64, g=1e-3, l=1.0, r=1e9, error_median=0.05, error_p95=0.2), faster=2)
    assert (found.p, found.supersteps, found.in_parts) == (4, 5, True)
    assert found.computing == pytest.approx(1.75)
    expected = {"there": 1.0 + 2.2, "back": 0.5 + 1.1, "parts": 3.0, "(after the last)": 0.25}
    assert {label: one.time for label, one in found.labels.items()} == pytest.approx(expected)
    assert found.time == pytest.approx(sum(expected.values()))
    assert found.labels["there"].error == pytest.approx(0.2 * 2.2)

    ledger.save(tmp_path / "ledger.json")
    there = BSPMachine(4, g=1e-3, l=1.0, r=1e9)
    there.save(tmp_path / "machine.json")
    files = [str(tmp_path / "ledger.json"), "--machine", str(tmp_path / "machine.json")]
    assert command(["predict", *files, "--scale", "r=2"]) == 0
    printed = rows(capsys.readouterr().out)
    again = ledger.predict(there, faster=2)
    assert {row[0]: float(row[2]) for row in printed} == pytest.approx(
        {**{label: one.time for label, one in again.labels.items()}, "total": again.time}, rel=1e-3
    )


def test_a_prediction_says_what_its_time_goes_to() -> None:
    one = Prediction("ring", 4, 1, computing=3.0, waiting=1.0, exchange=6.0, latency=2.0)
    assert (one.time, one.imbalance) == (9.0, 1.5)
    assert one.parts == pytest.approx((3 / 9, 4 / 9, 2 / 9))
    assert (one.bar, one.in_parts, one.labels) == ("-", False, {})
    shares = "33.3 % computing, 44.4 % exchange, 22.2 % latency"
    assert repr(one) == f"<prediction of 'ring': p = 4, 1 superstep, 9 s: {shares}>"
    nothing = Prediction("", 2, 0, 0.0, 0.0, 0.0, 0.0, error=0.1234)
    assert (nothing.imbalance, nothing.parts, nothing.bar) == (1.0, (0.0, 0.0, 0.0), "0.12")
    assert repr(nothing).startswith("<prediction: p = 2, 0 supersteps, 0 s: 0 % computing")


def test_what_is_computed_after_the_last_superstep_has_a_mean_too() -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        bsp.work(1e9 * bsp.pid)

    after = pybsp.simulate(main, machine=MACHINE).ledger.predict(MACHINE, faster=2).labels["(after the last)"]
    assert (after.supersteps, after.computing, after.waiting, after.exchange) == pytest.approx((0, 1.5, 0.75, 0.0))


def of_times(*times: float) -> Predictions:
    """Predictions of so many seconds of computing, with p = 1, 2, ..."""
    return Predictions([Prediction("", p, 1, time, 0.0, 0.0, 0.0) for p, time in enumerate(times, 1)], MACHINE)


def test_speedups_are_those_of_times_below_a_second_of_none_and_of_more_than_there_are_numbers_for() -> None:
    assert of_times(0.5, 0.25, 0.0).speedup.tolist() == [1.0, 2.0, 1.0]
    assert np.isnan(of_times(np.inf, np.inf).speedup).all()


def test_predictions_of_none_of_one_and_of_many_p_have_a_text_and_plain_data() -> None:
    none, one, many = (of_times(*[1.0] * number) for number in (0, 1, 9))
    assert [repr(found) for found in (none, many[:8], many)] == [
        "<predictions: p = none>",
        "<predictions: p = 1, 2, 3, 4, 5, 6, 7, 8>",
        "<predictions: p = 1, 2, 3, 4, 5, 6, 7, 8, ...>",
    ]
    assert "speed-up over p = 3" in str(many[2:])
    assert " over" not in str(none)
    assert none.to_dict() == {"speedup": [], "efficiency": []}
    assert (one.to_dict()["p"], one.to_dict()["time"], "label" in one.to_dict()) == ([1], [1.0], False)
    assert none._repr_html_().count("<svg") == 0


def test_a_prediction_is_plain_data_text_and_a_table_in_a_notebook() -> None:
    found = pybsp.predict(ring, 1000, p=[2, 4], machine=MACHINE, measure=False)
    plain = json.loads(json.dumps(found.to_dict()))
    assert {len(column) for column in plain.values()} == {2}
    assert plain["p"] == [2, 4]
    assert plain["error"] == pytest.approx([0.65, 0.65])
    assert plain["efficiency"] == pytest.approx([1.0, 7.25 / 5.25 / 2])
    head, *lines = str(found).splitlines()
    assert head.split("  ")[0].strip() == "p"
    assert [line.split()[:3] for line in lines] == [["2", "2", "7.25"], ["4", "2", "5.25"]]
    assert len({*map(len, (head, *lines))}) == 1
    assert repr(found) == "<predictions: p = 2, 4>"
    page = found._repr_html_()
    assert page.count("<svg") == 5
    assert "Speed-up over p = 2" in page
    assert "the same input for each p" in page
    one = found[1]._repr_html_()
    assert all(text in one for text in ("<td>ring</td>", "<td>total</td>", "p = 4: 5.25 s predicted"))
    assert one.count("<tr") == 1 + 2 + 1


@pytest.mark.parametrize("weak", [False, True])
def test_pictures_have_figures_of_each_p_beside_what_they_would_be_at_best(
    monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    drawn: list[tuple[list[list[float]], list[str], list[str], list[bool]]] = []

    def lines(p: Any, curves: Any, names: Any, along: Any, up: Any) -> str:
        assert p.tolist() == [2, 4, 8]
        drawn.append(([curve.tolist() for curve in curves], names, [along.name, up.name], [along.log, up.log]))
        return "-"

    monkeypatch.setattr(prediction_pictures, "lines", lines)
    found = [Prediction("", p, 1, 3.0, 1.0, 5.0, 1.0) for p in (2, 4, 8)]
    assert [*prediction_pictures.pictures(Predictions(found, MACHINE, weak))][:-2:2] == [
        "<h3>Time</h3>",
        "<h3>Speed-up over p = 2</h3>",
        "<h3>Efficiency</h3>",
        "<h3>Imbalance of computing (largest over mean)</h3>",
    ]
    best = ([8.0] * 3, "that of p = 2") if weak else ([8.0, 4.0, 2.0], "that of p = 2, divided")
    speedup = [1.0, 2.0, 4.0] if weak else [1.0] * 3
    efficiency = [1.0] * 3 if weak else [1.0, 0.5, 0.25]
    assert drawn == [
        ([[8.0] * 3, best[0]], ["predicted", best[1]], ["p", "seconds"], [True, True]),
        ([speedup, [1.0, 2.0, 4.0]], ["predicted", "as many times as processors"], ["p", "speed-up"], [True, True]),
        ([efficiency], [""], ["p", "speed-up a processor"], [True, False]),
        ([[1.5] * 3], [""], ["p", "largest/mean"], [True, False]),
    ]


@pytest.mark.parametrize("times", [(1.0,), (1.0, 0.0)], ids=["one p", "no time"])
def test_of_one_p_or_of_no_time_there_are_only_the_parts(times: tuple[float, ...]) -> None:
    page = of_times(*times)._repr_html_()
    assert re.findall("<h3>(.*?)</h3>", page) == ["What it goes to"]
    assert re.findall("<title>(.*?)</title>", page) == [f"p = {p}: {time:g} s" for p, time in enumerate(times, 1)]


def test_of_many_labels_a_notebook_shows_the_dearest_in_the_order_of_their_times() -> None:
    labels = {f"label {k}": Prediction(f"label {k}", 2, 1, k / 4, 0.0, 0.0, 0.0) for k in range(ROWS + 2)}
    for number, order in (ROWS, range(ROWS)), (ROWS + 2, range(ROWS + 1, 1, -1)):
        of_some = {name: labels[name] for name in list(labels)[:number]}
        shown = Prediction("", 2, number, 9.0, 0.0, 0.0, 0.0, labels=of_some)._repr_html_()
        assert re.findall("<tr[^>]*><td>(.*?)</td>", shown) == [*(f"label {k}" for k in order), "total"]
        assert shown.endswith(f"</div>{more_labels(number - ROWS)}")
    one = Prediction("", 2, 1, 3.0, 0.0, 1.0, 0.0, labels={"a": Prediction("a", 2, 1, 1.0, 0.5, 0.0, 0.0)})
    first, last = (re.findall("<td>(.*?)</td>", row) for row in one._repr_html_().split("<tr")[2:])
    assert first == ["a", "1", "1", "-", "2", "100 %", "0 %", "0 %", "25 %"]
    assert last == ["total", "1", "4", "-", "1", "75 %", "25 %", "0 %", "100 %"]


def test_labels_of_a_program_are_no_markup_in_a_notebook() -> None:
    def main(bsp: pybsp.BSP) -> None:
        with bsp.superstep("<b>"):
            pass

    (one,) = pybsp.predict(main, p=2, machine=MACHINE, measure=False)
    assert "<b>" not in one._repr_html_().replace("<p><b>", "")
    assert "&lt;b&gt;" in one._repr_html_()


def no_machine(bsp: pybsp.BSP) -> None: ...


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"p": []}, "pybsp.predict: argument p: expected at least one number of processors, got []"),
        ({"p": "4"}, "argument p: expected numbers of processors, as [1, 2, 4], got '4'"),
        ({"p": [2, 0]}, "pybsp.predict: argument p: expected"),
        ({"p": 2, "machine": None}, "pybsp.predict: expected machine=, of which the program is predicted"),
        ({"p": 2, "machine": "machine.json"}, "pybsp.BSPMachine.load"),
        ({"p": 2, "machine": BSPMachine(1, g=0.0, l=1e-6, r=1e9)}, "argument machine: measured with p = 1"),
        ({"p": 2, "faster": 0}, "pybsp.predict: argument faster: expected a finite number above 0, got 0"),
        ({"p": 2, "weak": np.zeros(2)}, "pybsp.predict: argument weak"),
        ({"p": 2, "measure": np.zeros(2)}, "pybsp.predict: argument measure"),
        ({"main": 3, "p": 2}, "pybsp.predict: argument main"),
    ],
    ids=["no p", "a text", "p = 0", "no machine", "a path", "measured alone", "not faster", "weak", "measure", "main"],
)
def test_what_it_cannot_predict_is_refused_with_what_was_expected(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(pybsp.UsageError) as caught:
        pybsp.predict(**{"main": no_machine, "machine": MACHINE, **arguments})
    assert error in str(caught.value)


def test_a_machine_file_that_was_measured_alone_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BSPMachine(1, g=0.0, l=1e-6, r=1e9).save(tmp_path / "machine.json")
    monkeypatch.setenv("PYBSP_MACHINE", str(tmp_path / "machine.json"))
    with pytest.raises(pybsp.UsageError, match=r"^machine file .*machine\.json: measured with p = 1"):
        pybsp.predict(no_machine, p=2)


def test_a_keyword_that_the_program_has_too_is_refused() -> None:
    def main(bsp: pybsp.BSP, machine: str = "", timeout: int = 0) -> None:
        assert machine == "mine"
        assert timeout == -1

    with pytest.raises(pybsp.UsageError, match=r"predict: argument machine: expected it to be for pybsp\.predict"):
        pybsp.predict(main, p=2, machine=MACHINE)
    assert pybsp.predict(main, "mine", p=2, machine=MACHINE, measure=False, timeout=-1).p.tolist() == [2]

    def other(bsp: pybsp.BSP, measure: bool = True, weak: bool = False, router: str = "") -> None: ...

    given: dict[str, Any] = {"measure": False, "weak": True, "router": "two-phase"}
    for name, value in given.items():
        with pytest.raises(pybsp.UsageError, match=f"predict: argument {name}: expected it to be for"):
            pybsp.predict(other, p=2, machine=MACHINE, **{name: value})
    assert pybsp.predict(other, p=2, machine=MACHINE)[0].supersteps == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("machine.json",), "Ledger.predict: argument machine"),
        ((BSPMachine(1, g=0.0, l=1e-6, r=1e9),), "Ledger.predict: argument machine: measured with p = 1"),
        ((MACHINE, float("nan")), "Ledger.predict: argument faster: expected a finite number above 0, got nan"),
    ],
    ids=["a path", "measured alone", "nan"],
)
def test_a_ledger_refuses_what_it_cannot_be_predicted_by(arguments: Any, error: str) -> None:
    ledger = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger
    with pytest.raises(pybsp.UsageError) as caught:
        ledger.predict(*arguments)
    assert error in str(caught.value)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("factors", "error"),
    [
        ({"G": 2}, "BSPMachine.scaled: argument G: expected factors of g, l, o_msg"),
        ({"g": 0}, "BSPMachine.scaled: argument g: expected a finite factor above 0, got 0"),
        ({"l": "2"}, "BSPMachine.scaled: argument l: expected a finite factor above 0, got '2'"),
        ({"r": 1e300}, "BSPMachine"),
    ],
)
def test_a_machine_is_scaled_by_factors_of_its_parameters_alone(factors: dict[str, Any], error: str) -> None:
    with pytest.raises(pybsp.UsageError) as caught:
        MACHINE.scaled(**factors)
    assert error in str(caught.value)


def test_a_scaled_machine_has_all_its_tables_scaled() -> None:
    rows = ((0.0, 1.0, 2.0, 3.0), (8.0, 2.0, 3.0, 4.0))
    exchange = BSPMachine(2, g=1.0, l=2.0, r=1.0, segments=rows, o_way=(("put", 3.0),), late=(("put", 4.0),))
    found = BSPMachine(2, g=1.0, l=2.0, r=1.0, exchange=exchange, rates=(("sort", 5.0),)).scaled(
        g=2, l=3, o_msg=5, o_way=7, late=11, r=13
    )
    assert (found.g, found.l, found.r, found.rates) == (2.0, 6.0, 13.0, (("sort", 65.0),))
    alone = found.exchange
    assert alone is not None
    assert alone.segments == ((0.0, 3.0, 10.0, 6.0), (8.0, 6.0, 15.0, 8.0))
    assert (alone.o_way, alone.late) == ((("put", 21.0),), (("put", 44.0),))
