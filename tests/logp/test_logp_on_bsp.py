"""LogP programs on a BSP machine: what is realised is an execution of the model, within the cost of Theorem 1."""

from __future__ import annotations

import functools
import itertools
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import BSPMachine, LogPMachine, logp
from pybsp.collectives import allreduce
from pybsp.logp import Processor
from pybsp.routing import logp_on_bsp
from pybsp.routing.logp_on_bsp import control, stalling

from ..tiers import some
from .random_programs import replayed, wanderer

SIZES = (1, 2, 3, 5, 7, 8, 13)
MACHINES = [(2, 0, 2), (3, 1, 2), (4, 2, 2), (5, 3, 3), (4, 1, 3), (7, 1, 3), (12, 2, 4), (13, 4, 4), (31, 2, 3)]


def bsp_machine(p: int, g: float = 2.0, l: float = 20.0) -> BSPMachine:  # noqa: E741
    """A machine whose unit of time is that of an operation."""
    return BSPMachine(p=p, g=g, l=l, r=1.0)


@st.composite
def machines(draw: st.DrawFn, most: int = 9) -> LogPMachine:
    G = draw(st.integers(2, 7))
    L = draw(st.one_of(st.integers(G, 2 * G + 1), st.integers(G, 6 * G)))
    return LogPMachine(draw(st.integers(1, most)), L, draw(st.integers(0, G)), G)


def is_stalling(label: str) -> bool:
    return label != "logp cycle"


# -- executions ---------------------------------------------------------------------------------------------------


@settings(max_examples=some(60), deadline=None)
@given(
    machine=machines(),
    seed=st.integers(0, 10**6),
    messages=st.sampled_from((0, 1, 3, 7)),
    spread=st.sampled_from((0, 2, 10, 50)),
    stalls=st.sampled_from((None, True)),
)
def test_an_execution_is_admissible_and_replays_in_the_simulator(
    machine: LogPMachine, seed: int, messages: int, spread: int, stalls: bool | None
) -> None:
    program = logp_on_bsp(wanderer, machine, stalls=stalls, trace=True)
    there = bsp_machine(machine.p)
    ran = pybsp.simulate(program, seed, messages, spread, machine=there)
    here = logp_on_bsp.execution(ran.results)
    here._check()
    again = replayed(here, wanderer, machine, seed, messages, spread)
    assert here.results == again.results
    for field in ("finished", "busy", "stalls", "idle", "in_transit"):
        np.testing.assert_array_equal(getattr(here, field), getattr(again, field), field)
    stalled = any(is_stalling(record.label) for record in ran.ledger)
    assert stalled or not here.stalled
    if stalls is True or not stalled:
        assert ran.time <= logp_on_bsp.seconds(there, machine, here.time, stalls=stalled)


def ring(proc: Processor, rounds: int) -> int:
    """A token a processor goes round, and each adds to it; messages of a pair may overtake each other."""
    tokens = {0: proc.pid}
    for step in range(rounds if proc.p > 1 else 0):
        proc.send((proc.pid + 1) % proc.p, (step + 1, tokens[step]))
        while step + 1 not in tokens:
            message = proc.recv()
            assert message is not None
            number, token = message.payload
            tokens[number] = token + number
        proc.compute(tokens[step + 1] % 3)
    return tokens[max(tokens)]


def staggered(proc: Processor) -> list[tuple[int, Any]]:
    """All to all, each to the next ones in turn; an admissible execution does not stall as long as they keep step."""
    for step in range(1, proc.p):
        proc.send((proc.pid + step) % proc.p, (proc.pid, step))
    return sorted((message.source, message.payload) for _ in range(proc.p - 1) if (message := proc.recv()))


def many_to_one(proc: Processor, each: int) -> list[int]:
    if proc.pid:
        for number in range(each):
            proc.send(0, proc.pid * each + number)
        return []
    return sorted(message.payload for _ in range(each * (proc.p - 1)) if (message := proc.recv()))


@pytest.mark.whole
@pytest.mark.parametrize(("p", "stalls"), [*((p, None) for p in SIZES), *((p, True) for p in SIZES[:5])])
def test_results_are_those_of_any_execution(p: int, stalls: bool | None) -> None:
    for L, o, G in MACHINES[::3]:
        machine = LogPMachine(p, L, o, G)
        for program, arguments in ((ring, (4,)), (staggered, ()), (many_to_one, (2,))):
            main = logp_on_bsp(program, machine, stalls=stalls)
            results = pybsp.simulate(main, *arguments, p=p).results
            assert results == logp.simulate(program, p, machine, "random", args=arguments).results


EXAMPLES = Path(__file__).parents[2] / "examples" / "logp"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
@pytest.mark.parametrize("p", [1, 4, 7])
def test_the_examples_run(name: str, p: int) -> None:
    program = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    machine = LogPMachine(p, 9, 1, 3)
    checked = logp.check(program, p, machine, executions=20)
    assert checked.ok
    ran = pybsp.simulate(logp_on_bsp(program, machine), p=p)
    np.testing.assert_equal(ran.results, checked.results)
    if checked.stall_free:
        assert {record.label for record in ran.ledger} == {"logp cycle"}


def test_logp_on_bsp_on_logp() -> None:
    program, machine = logp_on_bsp(many_to_one, LogPMachine(4, 8, 1, 3)), BSPMachine.nominal(4)
    routed = pybsp.simulate(program, 3, machine=machine, router="logp-sorted")
    assert routed.results == pybsp.simulate(program, 3, machine=machine).results


@pytest.mark.parametrize(("L", "o", "G"), MACHINES)
def test_a_burst_of_the_capacity_is_delivered_in_the_first_steps_of_the_next_cycle(L: int, o: int, G: int) -> None:
    machine = LogPMachine(-(-L // G) + 1, L, o, G)
    cycle = -(-L // 2)

    def burst(proc: Processor) -> None:
        if proc.pid:
            proc.compute(2 * cycle)  # so that it is submitted at the beginning of a cycle where o is a multiple of it
            proc.send(0, None)
        else:
            for _ in range(proc.p - 1):
                proc.recv()

    ran = pybsp.simulate(logp_on_bsp(burst, machine, trace=True, stalls=False), p=machine.p)
    execution = logp_on_bsp.execution(ran.results)
    execution._check()
    first = ((2 * cycle + o) // cycle + 1) * cycle
    assert execution.trace.delivery.tolist() == list(range(first, first + machine.capacity))
    assert execution.max_in_transit == machine.capacity


# -- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("L", "o", "G"), MACHINES)
@pytest.mark.parametrize("p", SIZES[1::2])
def test_theorem_1(p: int, L: int, o: int, G: int) -> None:
    machine = LogPMachine(p, L, o, G)
    for g, l in ((0, 0), (0, 4 * L), (4 * G, 0), (G, L)):  # noqa: E741
        there = bsp_machine(p, g, l)
        ran = pybsp.simulate(logp_on_bsp(ring, machine, trace=True, stalls=False), 6, machine=there)
        execution = logp_on_bsp.execution(ran.results)
        execution._check()
        bound = logp_on_bsp.seconds(there, machine, execution.time)
        assert ran.time <= bound
        cycle, arity = -(-L // 2), max(2, machine.capacity)
        tail = cycle * (2 * control.height(p, arity) + 2)
        assert bound <= logp_on_bsp.CONSTANT * (1 + g / G + l / L) * (execution.time + tail)
        assert len(ran.ledger) <= (execution.time + tail) // cycle
        for record in ran.ledger:
            assert record.h <= machine.capacity + arity
            assert record.work <= cycle


@pytest.mark.parametrize(("L", "o", "G"), MACHINES)
@pytest.mark.parametrize("p", [2, 5, 8])
def test_programs_that_stall_cost_a_sort_and_a_prefix_a_cycle(p: int, L: int, o: int, G: int) -> None:
    machine, there = LogPMachine(p, L, o, G), bsp_machine(p)
    ran = pybsp.simulate(logp_on_bsp(many_to_one, machine, trace=True, stalls=True), 3, machine=there)
    execution = logp_on_bsp.execution(ran.results)
    execution._check()
    assert ran.time <= logp_on_bsp.seconds(there, machine, execution.time, stalls=True)
    assert 4 * stalling.epoch_length(machine) >= L
    # A cycle in which a message waits is one of the epoch's, superstep by superstep.
    cost = stalling.cost(there, machine)
    cycle = (len(cost) - 1) // (stalling.epoch_length(machine) // stalling.cycle_length(machine))
    labels = [record.label for record in ran.ledger]
    sorts = [k for k in range(1, len(labels)) if labels[k] == "bitonic_sort" != labels[k - 1]]
    assert sorts
    first = len(allreduce.cost(there, 1))
    for begin in sorts:
        for record, step in zip(ran.ledger[begin - first : begin - first + cycle], cost[:cycle], strict=True):
            assert record.h <= step.h
            assert record.messages <= step.messages
            assert record.work <= step.w


@pytest.mark.parametrize(("stalls", "label", "cycle"), [(None, "logp cycle", 5), (True, "logp stalling cycle", 3)])
def test_a_cycle_of_one_processor_alone_is_a_superstep(stalls: bool | None, label: str, cycle: int) -> None:
    machine = LogPMachine(1, L=9, o=1, G=3)
    ran = pybsp.simulate(logp_on_bsp(lambda proc: proc.compute(30), machine, stalls=stalls), machine=bsp_machine(1))
    ended = 30 // cycle
    assert {record.label for record in ran.ledger} == {label}
    assert [record.work for record in ran.ledger][:ended] == [cycle] * ended
    assert ended < len(ran.ledger) <= ended + 3  # the end is agreed on


# -- programs that stall ------------------------------------------------------------------------------------------


def test_a_program_that_stalls_is_run_again_and_stalls_as_the_rule_has_it() -> None:
    machine = LogPMachine(6, L=8, o=1, G=4)
    ran = pybsp.simulate(logp_on_bsp(many_to_one, machine, trace=True), 4, p=6)
    execution = logp_on_bsp.execution(ran.results)
    execution._check()
    assert execution.stalled > 0
    assert execution.max_in_transit == machine.capacity
    labels = [record.label for record in ran.ledger]
    assert labels[0] == "logp cycle"
    assert is_stalling(labels[-1])


def test_a_program_sees_its_stalls() -> None:
    def program(proc: Processor) -> tuple[int, float]:
        many_to_one(proc, 4)
        return proc.stalls, proc.stalled_seconds

    ran = pybsp.simulate(logp_on_bsp(program, LogPMachine(6, L=8, o=1, G=4, step=0.5), trace=True), p=6)
    execution = logp_on_bsp.execution(ran.results)
    trace = execution.trace
    stalled = np.bincount(trace.source[trace.acceptance > trace.submission], minlength=6)
    assert stalled.sum() > 0
    expected = [(int(count), 0.5 * int(steps)) for count, steps in zip(stalled, execution.stalls, strict=True)]
    assert execution.results == expected


def test_stalls_can_be_forbidden() -> None:
    machine = LogPMachine(6, L=8, o=1, G=4)
    with pytest.raises(pybsp.UsageError, match=r"5 messages were in transit to processor 0 at time 1, and .* = 2 may"):
        pybsp.simulate(logp_on_bsp(many_to_one, machine, stalls=False), 4, p=6)


def hasty(proc: Processor) -> int:
    """1 and 2 both send to 0, which can take one, and tell 3 when that was accepted."""
    if proc.pid in (1, 2):
        proc.send(0, None)
        accepted = proc.time
        proc.compute(20 * proc.pid)
        proc.send(3, accepted)
    if proc.pid == 0:
        proc.recv(), proc.recv()
    if proc.pid == 3:
        times = {message.payload for _ in range(2) if (message := proc.recv())}
        if len(times) == 1:
            raise ArithmeticError("both were accepted at once")
    return proc.pid


def test_an_error_in_an_execution_that_is_thrown_away_does_not_escape() -> None:
    machine = LogPMachine(4, L=4, o=0, G=4)
    assert machine.capacity == 1
    assert pybsp.simulate(logp_on_bsp(hasty, machine), p=4).results == [0, 1, 2, 3]


def test_a_stall_at_once_beats_an_error_at_once() -> None:
    # The failure is one edge from the root, the stall is noticed at a leaf of the tree, in the same cycle.
    p = 16
    runs = []

    def program(proc: Processor) -> None:
        if proc.pid == 0:
            runs.append(proc.time)
            if len(runs) == 1:
                raise ArithmeticError("in the first run only")
        if proc.pid in (1, 2):
            proc.send(p - 1, None)
        if proc.pid == p - 1:
            proc.recv(), proc.recv()

    pybsp.simulate(logp_on_bsp(program, LogPMachine(p, L=4, o=0, G=4)), p=p)
    assert len(runs) == 2


# -- ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("stalls", [None, True])
def test_a_deadlock_is_found_and_names_who_waits(p: int, stalls: bool | None) -> None:
    def program(proc: Processor) -> None:
        if proc.p > 1 and proc.pid == 0:
            proc.compute(50)
            proc.send(proc.p - 1, None)
        elif proc.p > 1 and proc.pid == proc.p - 1:
            proc.recv()
        if proc.pid % 3 == 0:
            proc.recv()

    match = (
        "processors? " + "(, | and )".join(rf"{pid} \(since time \d+\)" for pid in range(0, p, 3)) + " waits? in recv"
    )
    with pytest.raises(pybsp.DeadlockError, match=match):
        pybsp.simulate(logp_on_bsp(program, LogPMachine(p, 9, 1, 3), stalls=stalls), p=p)


@pytest.mark.whole
@pytest.mark.parametrize("stalls", [None, True])
def test_waiting_long_is_no_deadlock(stalls: bool | None) -> None:
    def relay(proc: Processor) -> int:
        if proc.pid:
            proc.recv()
        proc.compute(100)  # all others wait, for many more cycles than the tree is high
        if proc.pid + 1 < proc.p:
            proc.send(proc.pid + 1, None)
        return proc.time

    p, machine = 9, LogPMachine(9, 6, 1, 3)
    times = pybsp.simulate(logp_on_bsp(relay, machine, stalls=stalls), p=p).results
    assert times == sorted(times)
    assert times[-1] > 100 * p


@pytest.mark.whole
def test_the_others_may_end_long_before() -> None:
    def program(proc: Processor) -> int:
        if proc.pid == 0:
            proc.compute(500)
            proc.send(proc.p - 1, 7)
        elif proc.pid == proc.p - 1:
            message = proc.recv()
            assert message is not None
            return int(message.payload)
        return 0

    for stalls in (None, True):
        main = logp_on_bsp(program, LogPMachine(7, 6, 1, 3), stalls=stalls)
        assert pybsp.simulate(main, p=7).results == [0] * 6 + [7]


@pytest.mark.parametrize("stalls", [None, True])
def test_messages_that_nobody_receives(stalls: bool | None) -> None:
    def program(proc: Processor) -> None:
        if proc.pid in (1, 2):
            proc.send(4, None)
            proc.compute(30)
            proc.send(0, None)
        if proc.pid == 4:
            proc.recv()

    with pytest.raises(
        pybsp.UnreceivedError, match="3 messages were not received: 2 to processor 0 and 1 to processor 4"
    ):
        pybsp.simulate(logp_on_bsp(program, LogPMachine(5, 9, 1, 3), stalls=stalls), p=5)


def test_a_failing_program_says_where() -> None:
    def program(proc: Processor) -> None:
        proc.compute(10)
        if proc.pid == 2:
            raise KeyError("mine")
        proc.recv()

    with pytest.raises(KeyError, match="mine") as caught:
        pybsp.simulate(logp_on_bsp(program, LogPMachine(4, 9, 1, 3)), p=4)
    if sys.version_info >= (3, 11):  # before, exceptions take no notes
        assert "(on processor 2 of 4 of the LogP machine, time 10)" in caught.value.__notes__


def test_finally_runs_when_a_program_is_given_up() -> None:
    left = []

    def program(proc: Processor) -> None:
        try:
            proc.recv()
        finally:
            left.append(proc.pid)

    with pytest.raises(pybsp.DeadlockError):
        pybsp.simulate(logp_on_bsp(program, LogPMachine(3, 9, 1, 3)), p=3)
    assert sorted(left) == [0, 1, 2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stalls", [None, True])
def test_a_program_that_catches_everything_is_left_behind(stalls: bool | None) -> None:
    ended: list[int] = []

    def stubborn(proc: Processor) -> None:
        try:
            while True:
                try:
                    proc.recv()
                except:  # noqa: E722, PERF203
                    continue
        finally:
            ended.append(proc.pid)

    main = logp_on_bsp(stubborn, LogPMachine(3, 9, 1, 3), stalls=stalls)
    with pytest.raises(pybsp.DeadlockError):
        pybsp.simulate(main, p=3)
    assert ended == []


def test_what_a_program_does_after_its_end_has_no_effect() -> None:
    ended: list[int] = []

    def program(proc: Processor) -> None:
        if proc.pid == 1:
            raise KeyError("mine")
        try:
            try:
                proc.recv()
            finally:
                proc.send((proc.pid + 1) % proc.p, "bye")
        finally:
            ended.append(proc.pid)
            raise ArithmeticError("of a finally")

    def main(bsp: pybsp.BSP) -> Any:
        try:
            logp_on_bsp(program, LogPMachine(3, 9, 1, 3))(bsp)
        finally:
            found.append(bsp.pending)

    found: list[str] = []
    with pytest.raises(KeyError, match="mine"):
        pybsp.simulate(main, p=3)
    assert sorted(ended) == [0, 2]
    assert found == [""] * 3


def test_a_processor_is_its_own_programs_alone() -> None:
    others: dict[int, Processor] = {}

    def program(proc: Processor) -> None:
        others[proc.pid] = proc
        proc.compute(20)
        if proc.pid == 0:
            other = others[1]
            for call in (other.recv, other.poll, lambda: other.compute(0), lambda: other.send(0, None)):
                with pytest.raises(pybsp.UsageError, match="outside of the program of processor 1"):
                    call()

    pybsp.simulate(logp_on_bsp(program, LogPMachine(2, 9, 1, 3)), p=2)
    with pytest.raises(pybsp.UsageError, match="outside of the program of processor 0"):
        others[0].recv()


def test_a_report_fits_in_a_word() -> None:
    for state, failed, stalled in itertools.product(control.State, (False, True), (False, True)):
        for left, last in ((0, 0), (2**31 - 1, 2**27 - 1), (-(2**31), 5), (-1, 0)):
            report = control.SubtreeReport(state, failed, stalled, left, last)
            assert control.SubtreeReport.of(report.word) == report
            assert -(2**63) <= report.word < 2**63


# -- the processor ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stalls", [None, True])
def test_payloads_are_copied_and_kept(stalls: bool | None) -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            changed: list[Any] = [np.arange(4), [1, np.ones(2)]]
            for payload in changed:
                proc.send(1, payload)
                payload[0] = -1
            for other in (b"bytes", memoryview(b"view"), 2.5, None, np.float32(1.5)):
                proc.send(1, other)
        else:
            payloads = []
            for _ in range(7):
                proc.compute(40)  # later than they were delivered
                message = proc.recv()
                assert message is not None
                payloads.append(message.payload)
            return payloads
        return None

    main = logp_on_bsp(program, LogPMachine(2, 6, 1, 3), stalls=stalls)
    got = pybsp.simulate(main, p=2, checked=True).results[1]
    np.testing.assert_array_equal(got[0], np.arange(4))
    assert not got[0].flags.writeable
    assert got[1][0] == 1
    np.testing.assert_array_equal(got[1][1], np.ones(2))
    assert got[2] == b"bytes"
    assert bytes(got[3]) == b"view"
    assert got[4:] == [2.5, None, np.float32(1.5)]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda proc: proc.send(proc.pid, 1), r"proc.send: argument dest: expected another processor"),
        (lambda proc: proc.send(-1, 1), r"proc.send: argument dest"),
        (lambda proc: proc.send(9, 1), r"proc.send: argument dest"),
        (lambda proc: proc.send(1 - proc.pid, lambda: 0), r"proc.send: argument payload"),
        (lambda proc: proc.compute(-1), r"proc.compute: argument steps"),
        (lambda proc: proc.recv(until=1.5), r"proc.recv: argument until"),
    ],
)
def test_wrong_arguments_cost_no_time(call: Any, match: str) -> None:
    def program(proc: Processor) -> int:
        with pytest.raises(pybsp.UsageError, match=match):
            call(proc)
        return proc.time

    assert pybsp.simulate(logp_on_bsp(program, LogPMachine(2, 6, 1, 3)), p=2).results == [0, 0]


# -- machines -----------------------------------------------------------------------------------------------------


def parameters(proc: Processor) -> tuple[int, int, int, int]:
    machine = proc.machine
    assert proc.timed
    return machine.p, machine.L, machine.o, machine.G


def test_the_machine_has_the_processors_of_the_bsp_machine() -> None:
    assert pybsp.simulate(logp_on_bsp(parameters, LogPMachine(64, 9, 1, 3)), p=3).results == [(3, 9, 1, 3)] * 3


def test_without_a_machine_it_is_that_of_the_file_or_of_the_bsp_machine(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    there = BSPMachine(p=3, g=2e-9, l=1e-7, r=1e9)
    machine_of = LogPMachine.from_bsp(there)
    assert (
        pybsp.simulate(logp_on_bsp(parameters), machine=there).results
        == [(3, machine_of.L, machine_of.o, machine_of.G)] * 3
    )
    LogPMachine(8, 30, 2, 5).save(tmp_path / "machine.json")
    monkeypatch.setenv("PYBSP_MACHINE", str(tmp_path / "machine.json"))
    assert pybsp.simulate(logp_on_bsp(parameters), machine=there).results == [(3, 30, 2, 5)] * 3


class Unreadable:
    """What its receiver cannot read, as an error says that can be sent, or that cannot."""

    def __init__(self, sendable: bool) -> None:
        self.sendable = sendable

    def __reduce__(self) -> tuple[Any, tuple[bool]]:
        return refuse, (self.sendable,)


class OfTwo(Exception):  # noqa: N818
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def refuse(sendable: bool) -> None:
    raise ValueError("cannot be read") if sendable else OfTwo(1, 2)


@pytest.mark.parametrize("stalls", [None, True])
def test_what_cannot_be_read_is_an_error_of_its_receiver(stalls: bool | None) -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 1:
            for payload in (Unreadable(True), [Unreadable(True)], Unreadable(False), "last"):
                proc.send(0, payload)
            return "sent"
        found = []
        for _ in range(3):
            with pytest.raises(Exception, match=r"cannot be read|1 and 2") as caught:
                proc.recv()
            found.append(str(caught.value))
        return [*found, proc.recv().payload]

    machine = LogPMachine(p=2, L=16, o=1, G=4)
    expected = [["cannot be read", "cannot be read", "OfTwo: 1 and 2", "last"], "sent"]
    assert pybsp.simulate(logp_on_bsp(program, machine, stalls=stalls), p=2).results == expected
    alone = logp.simulate(program, machine=machine).results
    assert alone == [["cannot be read", "cannot be read", "1 and 2", "last"], "sent"]


def generating(proc: Processor) -> Any:
    yield proc.pid


@pytest.mark.parametrize("trace", [False, True], ids=["no parts", "not all"])
def test_an_execution_is_made_of_the_parts_of_all_processors(trace: bool) -> None:
    outcomes = pybsp.simulate(logp_on_bsp(parameters, LogPMachine(3, 9, 1, 3), trace=trace), p=3).results
    with pytest.raises(pybsp.UsageError, match=r"argument outcomes: expected \(result, part\) of each processor"):
        logp_on_bsp.execution(outcomes[1:])


def test_the_program_of_the_bsp_machine_has_the_name_of_that_of_the_logp_machine() -> None:
    assert logp_on_bsp(parameters).__name__ == "parameters"
    assert logp_on_bsp(functools.partial(parameters)).__name__ == "program"


def test_wrong_use() -> None:
    with pytest.raises(pybsp.UsageError, match="argument program"):
        logp_on_bsp(3)  # type: ignore[arg-type]
    with pytest.raises(pybsp.UsageError, match=r"argument program: .*, got a generator, .*, which runs nothing"):
        logp_on_bsp(generating)
    with pytest.raises(pybsp.UsageError, match="argument machine"):
        logp_on_bsp(parameters, BSPMachine.nominal(2))  # type: ignore[arg-type]
    for wrong in ("yes", 1, 0, 1.0):
        with pytest.raises(pybsp.UsageError, match=f"argument stalls: expected None, False or True, got {wrong!r}"):
            logp_on_bsp(parameters, stalls=wrong)  # type: ignore[arg-type]
    for trace in ("no", 1, None, np.arange(2)):
        with pytest.raises(pybsp.UsageError, match="argument trace: expected True or False, got "):
            logp_on_bsp(parameters, trace=trace)  # type: ignore[arg-type]
    with pytest.raises(pybsp.UsageError, match="expected its processor as the first argument, got SimulatedProcessor"):
        pybsp.logp.simulate(logp_on_bsp(lambda proc: None), p=2)
    with pytest.raises(pybsp.UsageError, match=r"max\{2, o\} <= G <= L does not hold"):
        pybsp.simulate(logp_on_bsp(parameters, LogPMachine(2, 3, 1, 4)), p=2)

    def late(bsp: pybsp.BSP) -> None:
        bsp.send(0, 1)
        logp_on_bsp(parameters, LogPMachine(2, 9, 1, 3))(bsp)

    with pytest.raises(pybsp.UsageError, match=r"sent before \(bsp.send\)"):
        pybsp.simulate(late, p=2)
