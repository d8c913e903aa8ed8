"""A run predicts its exchanges by what one of nothing takes when it begins, where its cores are near or far."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pybsp.commands.table import notes
from pybsp.ground.chunk import COLUMNS
from pybsp.ledger.log import MEASURED, SECONDS
from pybsp.ledger.records import Supersteps
from pybsp.machines.bsp import BSPMachine
from pybsp.runs import latency
from pybsp.runs.latency import Latency, as_now, look, typical
from pybsp.ways import BY_MAIL, BY_PUT

from .launching import ended_well, mpiexec, python, run

ALONE = BSPMachine(p=2, g=1e-9, l=2e-7, r=1e9, o_msg=1e-7, g_way=(("put", 4e-10), ("making", 3e-9)))
MACHINE = BSPMachine(p=2, g=3e-9, l=1e-6, r=1e9, exchange=ALONE)

PROGRAM = """
import sys
import pybsp
from pybsp.machines.bsp import BSPMachine
from pybsp.processes import process
from pybsp.runs import latency

process.affinity = lambda: 3
latency.FARTHEST, router = float(sys.argv[1]), sys.argv[2]
alone = BSPMachine(p=2, g=1e-6, l=1.0, r=1e9)
machine = BSPMachine(p=2, g=1e-6, l=2.0, r=1e9, exchange=alone, hosts=sys.argv[3:])

def main(bsp):
    for _ in range(20):
        bsp.sync()
    predicted = {record.exchange_predicted for record in bsp.ledger}
    bsp.send(0, (bsp.machine.l, bsp.machine.exchange.l, predicted))
    bsp.sync()
    return [message.payload for message in bsp.inbox]

found = pybsp.run(main, machine=machine, router=router)
if found:
    print(found)
"""


def ran(
    folder: Path, monkeypatch: pytest.MonkeyPatch, farthest: float, router: str = "direct", *hosts: str
) -> tuple[list[tuple[float, float, set[float]]], dict[str, float] | None]:
    """Of both processors: the machine's latency as a whole, and of exchanges, and what its ledger predicts; and what
    the ledger file has of it.
    """
    program, ledger = folder / "program.py", folder / "ledger.json"
    program.write_text(PROGRAM)
    monkeypatch.setenv("PYBSP_LEDGER", str(ledger))
    found = eval(ended_well(run([*mpiexec(2), *python(program), str(farthest), router, *hosts])))
    (of_run,) = json.loads(ledger.read_text())["runs"]
    return found, of_run.get("latency")


def test_a_run_predicts_exchanges_by_what_one_takes_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (of_one, of_other), latency = ran(tmp_path, monkeypatch, np.inf)
    assert of_one == of_other
    whole, alone, predicted = of_one
    assert whole == 2.0  # by which plans are chosen
    assert 0 < alone < 1.0
    assert predicted == {alone}
    assert latency == {"now": alone, "file": 1.0}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("farthest", "router", "hosts"),
    [(8.0, "direct", ()), (np.inf, "direct", ("elsewhere",) * 2), (np.inf, "two-phase", ())],
)
def test_it_does_not_where_distance_is_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, farthest: float, router: str, hosts: tuple[str, ...]
) -> None:
    assert ran(tmp_path, monkeypatch, farthest, router, *hosts) == ([(2.0, 1.0, {1.0})] * 2, None)


def test_exchanges_in_which_one_waits_for_a_turn_on_a_core_do_not_count() -> None:
    together = np.linspace(3e-7, 5e-7, 41)
    assert typical(together) == pytest.approx(4e-7)
    assert typical(np.concatenate((np.full(59, 1e-4), together))) == pytest.approx(4e-7)


@pytest.mark.parametrize(
    "machine",
    [
        ALONE,
        BSPMachine(2, 1e-9, 1e-6, 1e9, calibrated=False, exchange=ALONE),
        BSPMachine(2, 1e-9, 1e-6, 1e9, cost="max", exchange=ALONE),
    ],
    ids=["knows no exchanges alone", "not calibrated", "overlaps"],
)
def test_of_another_machine_nobody_looks(monkeypatch: pytest.MonkeyPatch, machine: BSPMachine) -> None:
    monkeypatch.delattr(latency, "near_enough")
    assert look(None, machine) is None  # type: ignore[arg-type]


@pytest.mark.fast
@pytest.mark.parametrize(("now", "counts"), [(2.4e-8, False), (2.6e-8, True), (1.5e-6, True), (1.7e-6, False)])
def test_an_exchange_of_nothing_that_takes_eight_times_as_long_or_an_eighth_is_not_for_distance(
    monkeypatch: pytest.MonkeyPatch, now: float, counts: bool
) -> None:
    rows = np.zeros((3, COLUMNS))
    rows[:, SECONDS], rows[:, MEASURED] = 1.0, 1.0 + now
    synced: list[int] = []
    log = SimpleNamespace(table=lambda first: rows[first:])
    engine = SimpleNamespace(account=SimpleNamespace(log=log), sync=lambda: synced.append(1))
    monkeypatch.setattr(latency, "near_enough", lambda _: True)
    monkeypatch.setattr(latency, "engine_aside", lambda _: engine)
    monkeypatch.setattr(latency, "exchange_ledger", lambda *_: None)
    found = look(SimpleNamespace(hosts=("here",) * 2), MACHINE)  # type: ignore[arg-type]
    assert found is None if not counts else found is not None
    if found is not None:
        assert found == pytest.approx((now, 2e-7), rel=1e-6)
    assert len(synced) == latency.SUPERSTEPS


def test_a_word_takes_as_much_longer_as_an_exchange_of_nothing() -> None:
    later = as_now(MACHINE, Latency(6e-7, 2e-7))
    assert later.time(w=0, h=10) == MACHINE.time(w=0, h=10)
    for h, ways, of_words in (0, 0, 0.0), (100, BY_MAIL, 1e-7), (100, BY_PUT, 1.4e-7):
        more = later.exchanging(h, 3, ways=ways) - MACHINE.exchanging(h, 3, ways=ways)
        assert more == pytest.approx(4e-7 + 2 * of_words)
    making = [machine.exchanging(0, indices=10) - machine.exchanging(0) for machine in (MACHINE, later)]
    assert making == pytest.approx([3e-8, 3e-8])


def test_what_is_less_than_nothing_is_nothing() -> None:
    machine = BSPMachine(p=2, g=1e-9, l=4e-7, r=1e9, segments=((0, 1e-7, 0, 1e-9), (5, 8e-7, 0, 0)))
    assert [row[1] for row in machine.with_latency(1e-7).segments] == pytest.approx([0, 5e-7])
    assert BSPMachine(p=2, g=1e-9, l=0, r=1e9).with_latency(1e-7).g == 1e-9


@pytest.mark.fast
@pytest.mark.parametrize(("now", "lines"), [(4.1e-7, 1), (1.5e-7, 1), (1.1e-7, 1), (1.4e-7, 0)])
def test_the_report_says_that_cores_were_nearer_or_farther(now: float, lines: int) -> None:
    of_run = {"hosts": ["here"] * 2, "latency": {"now": now, "file": 1.3e-7}, "supersteps": Supersteps()}
    found = [
        line
        for line in notes({**of_run, "machine": MACHINE.as_json(), "virtual": False})
        if "an exchange of nothing" in line
    ]
    assert len(found) == lines
    assert all(f"took {1e6 * now:.2g} us when the run began, and 0.13 us when" in line for line in found)
