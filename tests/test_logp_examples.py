"""The LogP examples agree with a sequential result wherever they run, and take the steps that their docstrings say."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pybsp
from examples.logp import all_to_all, broadcast, many_to_one, ring, stencil, summation
from pybsp import LogPMachine
from pybsp.benchmarks.studies import bsp_and_logp
from pybsp.logp import Processor, Simulation, _check, simulate
from pybsp.routing import logp_on_bsp

from .launching import mpiexec, python, run

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "logp"
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 64)
MACHINES = [  # L, o, G: capacity 1 and more, o = 0, o = G, G below 2o, L that G divides and not
    (16, 1, 4),
    (7, 2, 3),
    (8, 0, 2),
    (5, 5, 5),
    (12, 4, 12),
    (10, 3, 5),
    (2, 2, 2),
    (30, 3, 4),
    (100, 2, 3),
]
EXECUTIONS = [("latest", 0), ("earliest", 0), ("adversary", 0), ("random", 0), ("random", 1), ("random", 2)]
LATEST = EXECUTIONS[0]


class Example(NamedTuple):
    """A program, its arguments for p processors, and its time where every message takes L."""

    program: Callable[..., object]
    arguments: Callable[[int], tuple[Any, ...]]
    time: Callable[..., int]


STALL_FREE = {
    "broadcast": Example(broadcast.main, lambda p: (), broadcast.time),
    "summation": Example(summation.main, lambda p: (200,), summation.time),
    "summation of few": Example(summation.main, lambda p: (p // 2,), summation.time),
    "all_to_all": Example(all_to_all.main, lambda p: (), all_to_all.time),
    "ring": Example(ring.main, lambda p: (), ring.time),
}


def execution(program: Callable[..., object], machine: LogPMachine, chosen: tuple[str, int], *args: Any) -> Simulation:
    schedule, seed = chosen
    simulation = simulate(program, machine=machine, schedule=schedule, seed=seed, args=args)
    _check(simulation.trace)
    return simulation


def machines(p: int) -> list[LogPMachine]:
    return [LogPMachine(p, *parameters) for parameters in MACHINES]


@pytest.fixture(autouse=True)
def _printed(capsys: pytest.CaptureFixture[str]) -> None:
    """What examples print is not shown."""


# -- their times --------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("name", STALL_FREE)
def test_takes_the_steps_it_predicts_and_never_stalls(name: str, p: int) -> None:
    program, arguments, time = STALL_FREE[name]
    for machine in machines(p):
        predicted = time(machine, *arguments(p))
        for chosen in EXECUTIONS:
            simulation = execution(program, machine, chosen, *arguments(p))
            assert simulation.stalled == 0
            assert simulation.time <= predicted
            if chosen == LATEST:
                assert simulation.time == predicted


@cache
def informed(steps: int, hop: int, gap: int) -> int:
    """The most processors that can have a value after so many steps, from one."""
    if steps < 0:
        return 0
    return 1 + sum(informed(later, hop, gap) for later in range(steps - hop, -1, -gap))


@pytest.mark.parametrize("p", SIZES)
def test_no_broadcast_is_faster(p: int) -> None:
    for machine in machines(p):
        steps, hop = broadcast.time(machine), 2 * machine.o + machine.L
        assert informed(steps, hop, machine.G) >= p
        assert p == 1 or informed(steps - 1, hop, machine.G) < p


@pytest.mark.parametrize("root", [0, 1, 4])
def test_broadcast_from_any_root(root: int) -> None:
    def program(proc: Processor) -> object:
        return broadcast.broadcast(proc, "value" if proc.pid == root else None, root)

    assert execution(program, LogPMachine.nominal(5), LATEST).results == ["value"] * 5


@cache
def summed(steps: int, p: int, L: int, o: int, G: int) -> int:
    """The most numbers that p processors can sum in so many steps, over all trees and divisions of the processors."""

    @cache
    def children(due: int, others: int) -> int:
        """The most that is gained by children, of which the last is due then, with so many processors."""
        if due < 0 or others == 0:
            return 0
        shares = range(others + 1)
        return max(
            (summed(due, share, L, o, G) - (o + 1) if share else 0) + children(due - max(G, o + 1), others - share)
            for share in shares
        )

    return steps + 1 + children(steps - (2 * o + L + 1), p - 1)


@pytest.mark.parametrize("parameters", [(4, 1, 2), (2, 2, 2), (3, 0, 2), (6, 2, 3), (5, 1, 4)])
def test_no_summation_has_more_numbers(parameters: tuple[int, int, int]) -> None:
    for p in (1, 2, 3, 5, 6):
        machine = LogPMachine(p, *parameters)
        for steps in range(30):
            assert summation.most(machine, steps) == summed(steps, p, *parameters)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 57, 200, 1001])
@pytest.mark.parametrize("p", [1, 2, 7, 16])
def test_summation_takes_the_fewest_steps_that_suffice(n: int, p: int) -> None:
    for machine in machines(p):
        steps = summation.time(machine, n)
        assert summation.most(machine, steps) >= n
        assert steps == 0 or summation.most(machine, steps - 1) < n
        items = [item for part in summation.parts(machine, n) for item in part.items]
        assert items == list(range(n))


@pytest.mark.parametrize("p", [2, 3, 7, 16, 31])
def test_summation_takes_the_same_time_in_every_execution(p: int) -> None:
    for machine in machines(p):
        times = {execution(summation.main, machine, chosen, 200).time for chosen in EXECUTIONS}
        assert times == {summation.time(machine, 200)}


@pytest.mark.parametrize("p", SIZES)
def test_stencil_takes_the_steps_it_predicts(p: int) -> None:
    for machine in machines(p):
        for n in (p, 2 * p, 5 * p, max(1, p // 2)):
            simulation = execution(stencil.main, machine, LATEST, n, 4)
            assert simulation.stalled == 0
            assert simulation.time == stencil.time(machine, n, 4)
        uneven = execution(stencil.main, machine, LATEST, 3 * p + 1, 4)
        assert uneven.time <= stencil.time(machine, 3 * p + 1, 4)


@pytest.mark.whole
@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_stencil_never_stalls_with_a_capacity_of_two_or_of_four_and_more(p: int) -> None:
    parameters = [(20, 1, 10), (10, 3, 5), (16, 1, 4), (8, 0, 2), (40, 2, 8), (100, 2, 3)]
    for machine in (LogPMachine(p, *each) for each in parameters):
        assert machine.capacity == 2 or machine.capacity >= 4
        for n in (p, 3 * p + 1):
            for chosen in [*EXECUTIONS, *(("random", seed) for seed in range(3, 20))]:
                simulation = execution(stencil.main, machine, chosen, n, 5)
                assert simulation.stalled == 0
                assert simulation.max_in_transit <= 4


# -- stalling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [3, 8, 31])
def test_all_to_all_in_the_obvious_order_stalls_and_takes_no_less(p: int) -> None:
    for machine in machines(p):
        simulation = execution(all_to_all.main, machine, LATEST, True)
        if p - 1 > machine.capacity:
            assert simulation.stalled > 0
            assert simulation.max_in_transit == machine.capacity
            assert simulation.time >= all_to_all.time(machine)


@pytest.mark.whole
@pytest.mark.parametrize("messages", [0, 1, 3])
@pytest.mark.parametrize("p", SIZES)
def test_many_to_one_keeps_its_bounds_in_every_execution(p: int, messages: int) -> None:
    for machine in machines(p):
        least, most = many_to_one.bounds(machine, messages)
        for chosen in EXECUTIONS:
            simulation = execution(many_to_one.main, machine, chosen, messages)
            assert least <= simulation.time <= most


@pytest.mark.parametrize("p", [2, 3, 8, 31])
def test_many_to_one_acquires_one_a_gap(p: int) -> None:
    for machine in machines(p):
        simulation = execution(many_to_one.main, machine, LATEST, 3)
        assert set(np.diff(np.sort(simulation.trace.acquisition))) == {machine.G}


def test_many_to_one_stalls_where_more_are_sent_than_the_capacity() -> None:
    for machine in machines(31):
        simulation = execution(many_to_one.main, machine, LATEST, 3)
        assert simulation.max_in_transit == min(machine.capacity, 90)
        assert (simulation.stalled > 0) == (machine.capacity < 90)
        assert simulation.stalls[0] == 0


def test_many_to_one_prints_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    machine = LogPMachine(6, L=16, o=1, G=4)
    many_to_one.show(machine, 4)
    printed = capsys.readouterr().out
    simulation = simulate(many_to_one.many_to_one, machine=machine, args=(4,))
    rows = [
        [int(cell) for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line[2:12].strip().isdigit()
    ]
    assert [row[0] for row in rows] == list(range(6))
    assert [row[1:] for row in rows] == np.transpose([simulation.busy, simulation.idle, simulation.stalls]).tolist()
    assert {sum(row[1:]) for row in rows} <= {simulation.time}
    assert "the hot spot acquired one every 4.00 steps" in printed


# -- wherever they run --------------------------------------------------------------------------------------------

NAMES = ("all_to_all", "broadcast", "many_to_one", "ring", "stencil", "summation")


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NAMES)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("example", "name", "wrong"),
    [
        (stencil, "sequential", lambda n, steps: np.ones(n)),
        (summation, "most", lambda machine, steps: steps + 1),
        (broadcast, "broadcast", lambda proc, value: proc.pid),
        (ring, "ring", lambda proc, value: []),
        (all_to_all, "staggered", lambda proc, values: values),
        (many_to_one, "many_to_one", lambda proc, messages: [1]),
    ],
)
def test_a_wrong_result_is_an_error(example: Any, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, name, wrong)
    with pytest.raises(ArithmeticError, match="differs from"):
        simulate(example.main, p=3)


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_sequential_result(name: str) -> None:
    ways = ([*mpiexec(3), sys.executable], [sys.executable, "-m", "pybsp", "simulate", "-p", "7"])
    for way in ways:
        ended = run([*way, str(EXAMPLES / f"{name}.py")], PYBSP_MACHINE="")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.count("agree") == 1


@pytest.mark.whole
@pytest.mark.fast("2")
@pytest.mark.parametrize("p", [1, 2, 4, 5, 8])
def test_all_run_on_ranks(p: int, tmp_path: Path) -> None:
    program = tmp_path / "all.py"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(EXAMPLES)!r})\nimport pybsp\n"
        + "".join(f"import {name}\npybsp.logp.run({name}.main)\n" for name in NAMES)
        + "pybsp.logp.run(all_to_all.main, in_order=True)\npybsp.logp.run(stencil.main, n=3, steps=2)\n"
        + "pybsp.logp.run(summation.main, n=0)\n"
        + "pybsp.logp.run(all_to_all.main, pace=True)\npybsp.logp.run(summation.main, pace=True)\n"
    )
    ended = run([*mpiexec(p), *python(program)], PYBSP_MACHINE="")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("agree") == len(NAMES) + 5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [1, 3, 8])
def test_agrees_on_a_bsp_machine(name: str, p: int) -> None:
    program = importlib.import_module(f"examples.logp.{name}").main
    machine = LogPMachine(p, L=16, o=1, G=4)
    stalls = None if name == "many_to_one" else False
    realised = pybsp.simulate(logp_on_bsp(program, machine, stalls=stalls, trace=True), p=p)
    execution = logp_on_bsp.execution(realised.results)
    _check(execution.trace)
    for here, there in zip(execution.results, simulate(program, machine=machine).results, strict=True):
        np.testing.assert_array_equal(here, there)


@pytest.mark.whole
def test_machine_in_force_decides_the_tree(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    LogPMachine(8, L=30, o=3, G=4).save(file)
    command = [sys.executable, "-m", "pybsp", "simulate", "-p", "8", str(EXAMPLES / "broadcast.py")]
    ended = run(command, PYBSP_MACHINE=str(file))
    assert ended.code == 0, ended.err
    time = broadcast.time(LogPMachine(8, L=30, o=3, G=4))
    assert f"predicted: {time} steps; the last heard at step {time}\n" in ended.out


# -- the comparison, and the docs ---------------------------------------------------------------------------------


def test_comparison_keeps_its_bounds_and_writes_its_points(tmp_path: Path) -> None:
    file = tmp_path / "points.json"
    ended = run(python("-m", "pybsp.benchmarks.studies.bsp_and_logp", "--quick", "--output", str(file)))
    assert ended.code == 0, ended.err
    points = json.loads(file.read_text())["points"]
    assert {point["simulation"] for point in points} == set(bsp_and_logp.SIMULATIONS)
    assert all(0 < point["simulated"] <= point["predicted"] for point in points if point["certain"])
    for axis in bsp_and_logp.AXES:
        assert f"Slowdown over {axis}, simulated (bound)" in ended.out


@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize("h", [1, 5])
def test_relations_of_the_comparison_have_their_degree(p: int, h: int) -> None:
    dests = bsp_and_logp.relation(p, h)
    assert (np.bincount(dests.ravel(), minlength=p) == h).all()
    assert (dests != np.arange(p)[:, None]).all()
