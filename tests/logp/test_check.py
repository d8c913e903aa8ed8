"""`check`: finds what differs between executions and replays it, tells stalls apart, and proves small programs."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.errors import DeadlockError, ProcessorError, UnreceivedError, UsageError
from pybsp.logp import Check, Processor, Schedule, check, simulate
from pybsp.logp.checking import _following
from pybsp.logp.differences import difference
from pybsp.logp.schedule import Choices

MACHINE = LogPMachine(6, L=12, o=1, G=3)  # four in transit to a processor

Program = Callable[..., Any]


def gather(proc: Processor) -> Any:
    """Whoever comes first: wrong."""
    if proc.pid:
        proc.send(0, proc.pid)
        return None
    return [proc.recv().payload for _ in range(proc.p - 1)]


def gather_in_order(proc: Processor) -> Any:
    got = gather(proc)
    return None if got is None else sorted(got)


def overtaken(proc: Processor) -> Any:
    """Takes messages of one pair to arrive in order."""
    if proc.pid == 0:
        for k in range(3):
            proc.send(1, k)
    return [proc.recv().payload for _ in range(3)] if proc.pid == 1 else None


def impatient(proc: Processor) -> Any:
    """Waits a step less than a message may take."""
    if proc.pid == 0:
        proc.send(1, "x")
    elif proc.pid == 1:
        in_time = proc.recv(until=2 * proc.machine.o + proc.machine.L - 2)
        if in_time is None:
            proc.recv()
        return in_time is not None
    return None


def only_when_early(proc: Processor) -> Any:
    """Fails where a message arrives in the first step that it may."""
    if proc.pid == 0:
        proc.send(1, "x")
    elif proc.pid == 1:
        proc.recv()
        if proc.time == 2 * proc.machine.o + 1:
            raise LookupError("too early")
    return None


def second_phase(proc: Processor) -> Any:
    """Two phases without telling them apart: a fast processor's second message comes before a slow one's first."""
    if proc.pid == 0:
        return [sorted(proc.recv().payload for _ in range(proc.p - 1)) for _ in range(2)]
    for phase in range(2):
        proc.send(0, phase)
        proc.compute(20 if proc.pid % 2 else 2)
    return None


def one_among_many(proc: Processor) -> Any:
    """Wrong where the tenth message alone is late."""
    if proc.pid == 0:
        for k in range(20):
            proc.send(1, k)  # submitted at 41k + 1
            proc.compute(40)
        return None
    late = []
    for _ in range(20):
        k = proc.recv().payload
        if proc.time > 41 * k + 8:
            late.append(k)
    return late == [9]


def waits_for_a_late_one(proc: Processor) -> Any:
    """Deadlocks where the message of 1 comes before that of 2."""
    if proc.pid in (1, 2):
        proc.compute(4 * (2 - proc.pid))
        proc.send(0, proc.pid)
    elif proc.pid == 0 and proc.recv().payload == 1:
        proc.recv()
        proc.recv()
    elif proc.pid == 0:
        proc.recv()


def leaves_one(proc: Processor) -> Any:
    """A message is left where it is late."""
    if proc.pid == 0:
        proc.send(1, None)
    elif proc.pid == 1:
        proc.recv(until=8)


WRONG: list[tuple[Program, type[Exception] | None]] = [
    (gather, None),
    (overtaken, None),
    (impatient, None),
    (second_phase, None),
    (only_when_early, LookupError),
    (waits_for_a_late_one, DeadlockError),
    (leaves_one, UnreceivedError),
]


@pytest.mark.parametrize(("program", "error"), WRONG)
@pytest.mark.parametrize("p", [3, 6, 20])
@pytest.mark.parametrize("seed", [0, 1000])
def test_what_differs_is_found_and_replayed_by_its_seed(
    program: Program, error: type[Exception] | None, p: int, seed: int
) -> None:
    found = check(program, p, MACHINE, seed=seed)
    assert not found.ok
    assert found.executions <= 200
    assert found.seed is not None
    assert found.schedule is not None
    for schedule in ("random", found.schedule):

        def replay(schedule: str = schedule) -> Any:
            assert found.seed is not None
            return simulate(program, p, MACHINE, schedule, seed=found.seed)

        if error is None:
            assert found.error is None
            assert replay().results != found.results
        else:
            assert type(found.error) is error
            with pytest.raises(error) as caught:
                replay()
            assert caught.value.args == found.error.args
    assert found.difference in str(found)
    assert f"seed={found.seed}" in str(found)


@pytest.mark.whole
@pytest.mark.parametrize("p", [1, 2, 3, 5, 30])
def test_a_right_program_is_ok_even_where_it_stalls_and_the_stall_is_replayed(p: int) -> None:
    found = check(gather_in_order, p, MACHINE)
    assert found.ok
    assert (found.seed, found.schedule, found.difference, found.error) == (None, None, "", None)
    assert found.results == simulate(gather_in_order, p, MACHINE).results
    assert found.stall_free == (p - 1 <= MACHINE.capacity)
    if not found.stall_free:
        assert found.stalling_seed is not None
        assert simulate(gather_in_order, p, MACHINE, "random", seed=found.stalling_seed).stalled > 0


@pytest.mark.whole
def test_what_is_rare_is_found_with_more_executions() -> None:
    found = check(one_among_many, 2, MACHINE, 2000)
    assert not found.ok
    assert 200 < found.executions <= 2000
    assert simulate(one_among_many, 2, MACHINE, "random", seed=found.seed or 0).results == [None, True]


def test_stalls_are_found_that_neither_latest_nor_earliest_shows() -> None:
    def program(proc: Processor) -> None:
        """An early request is answered early; the answer meets another message if that one is late."""
        if proc.pid == 0:
            proc.send(1, proc.recv().payload)  # submitted two steps after the delivery
        elif proc.pid == 1:
            proc.recv()
            proc.recv()
        else:
            proc.compute(proc.pid - 2)
            proc.send({2: 0, 3: 1}[proc.pid], None)

    machine = LogPMachine(4, L=6, o=1, G=6)  # one in transit
    for schedule in ("latest", "earliest"):
        assert simulate(program, machine=machine, schedule=schedule).stalled == 0
    found = check(program, machine=machine)
    assert found.ok
    assert not found.stall_free
    assert found.stalling_seed is not None
    assert simulate(program, machine=machine, schedule="random", seed=found.stalling_seed).stalled > 0


def test_ok_and_stall_free_are_independent() -> None:
    few, many = LogPMachine(3, 12, 1, 3), LogPMachine(9, 12, 1, 3)
    seen = {
        (found.ok, found.stall_free)
        for found in (
            check(program, machine=machine) for program in (gather, gather_in_order) for machine in (few, many)
        )
    }
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


def test_a_failing_execution_that_stalls_is_not_stall_free() -> None:
    def program(proc: Processor) -> None:
        if proc.pid:
            proc.send(0, None)
        elif proc.recv(until=1000) is not None:
            raise LookupError

    found = check(program, 8, MACHINE)
    assert not found.ok
    assert not found.stall_free
    assert isinstance(found.error, LookupError)
    assert found.executions == 1


def test_a_program_that_fails_always_is_not_ok_and_its_error_is_kept() -> None:
    found = check(lambda proc: 1 // 0, 3)
    assert not found.ok
    assert found.stall_free
    assert found.results is None
    assert isinstance(found.error, ZeroDivisionError)
    assert (found.seed, found.schedule) == (-1, "latest")
    assert str(found).startswith("the only execution: one failed (schedule='latest', seed=-1): ZeroDivisionError: ")


def test_interrupts_pass_through() -> None:
    def program(proc: Processor) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(program, 3)


@pytest.mark.parametrize("status", [None, 0, 3])
def test_an_exit_is_a_failure_of_its_execution(status: Any) -> None:
    """Also where all processors make it: an execution without results."""

    def when_early(proc: Processor) -> None:
        if proc.pid == 0:
            proc.send(1, None)
        elif proc.pid == 1:
            proc.recv()
            if proc.time < MACHINE.L:
                sys.exit(status)

    text = r"pybsp\.logp: processor {} called sys\.exit" + (" with status 3" if status else "") + " at time {}"
    found = check(lambda proc: sys.exit(status), 3)
    assert isinstance(found.error, ProcessorError)
    assert re.fullmatch(text.format(0, 0), str(found.error))
    assert (found.ok, found.results, found.executions) == (False, None, 1)
    found = check(when_early, 3, MACHINE)
    assert isinstance(found.error, ProcessorError)
    assert re.fullmatch(text.format(1, r"\d+"), str(found.error))
    assert (found.ok, found.results, found.error.pid) == (False, [None] * 3, 1)
    assert isinstance(found.error.__cause__, SystemExit)


def test_numpy_integers_are_numbers() -> None:
    given: Any = {"p": np.int64(6), "executions": np.int32(7), "seed": np.uint8(50)}
    found = check(gather, machine=MACHINE, **given)
    assert found == check(gather, 6, MACHINE, 7, seed=50)
    assert type(found.seed) is int
    with pytest.raises(UsageError, match="argument executions: expected a whole number of at least 1, got True"):
        check(gather, 6, MACHINE, True)


# How many executions, and which


def test_executions_are_the_named_schedules_and_then_the_seeds_from_the_first_on() -> None:
    seen: list[Any] = []

    def program(proc: Processor) -> None:
        if proc.pid == 0:
            assert proc.time == 0  # so no orders of receiving are run
            seen.append([proc.recv().source for _ in range(20)])
        elif proc.pid <= 4:
            for _ in range(5):
                proc.send(0, None)

    found = check(program, 5, MACHINE, 9, seed=50)
    assert (found.ok, found.executions, found.exhaustive) == (True, 9, False)
    executed, seen[:] = list(seen), []
    for schedule, seed in (("latest", 0), ("earliest", 0), ("adversary", 0), *(("random", 50 + k) for k in range(6))):
        simulate(program, 5, MACHINE, schedule, seed=seed)
    assert executed == seen


def test_no_more_executions_are_made_than_were_asked_for() -> None:
    executed = 0

    def program(proc: Processor) -> None:
        nonlocal executed
        if proc.pid == 0:
            assert proc.time == 0  # so no orders of receiving are run
            executed += 1
        gather_in_order(proc)

    for executions in (1, 2, 5, 30):
        executed = 0
        assert check(program, 6, MACHINE, executions).executions == executed == executions


def test_all_executions_of_a_small_program_are_made_each_once() -> None:
    """Two messages to one processor, submitted together: any two different steps of L."""
    seen: list[Any] = []

    def program(proc: Processor) -> None:
        if proc.pid:
            proc.send(0, proc.pid)
        else:
            first = proc.recv()
            seen.append((first.source, proc.time))
            second = proc.recv()
            seen[-1] += (second.source, proc.time)

    machine = LogPMachine(3, L=6, o=0, G=2)
    found = check(program, machine=machine)
    assert found.exhaustive
    assert found.ok
    assert found.executions == len(seen) == 6 * 5
    assert str(found) == "all 30 executions: equal results; none stalled"
    expected = {
        (1 + (a > b), min(a, b), 2 - (a > b), max(min(a, b) + 2, a, b))
        for a, b in itertools.permutations(range(1, 7), 2)
    }
    assert set(seen) == expected
    assert not check(program, machine=machine, executions=29).exhaustive
    assert check(program, machine=machine, executions=30).exhaustive


def test_all_orders_of_acceptance_are_made() -> None:
    """Three messages at a destination with room for one: each in turn, at every delay."""
    seen: set[tuple[int, ...]] = set()

    def program(proc: Processor) -> None:
        if proc.pid:
            proc.send(0, proc.pid)
        else:
            seen.add(tuple(proc.recv().source for _ in range(3)))

    found = check(program, machine=LogPMachine(4, L=2, o=0, G=2))
    assert found.exhaustive
    assert found.executions == math.factorial(3) * 2**3
    assert seen == set(itertools.permutations((1, 2, 3)))


def test_a_program_without_messages_has_one_execution() -> None:
    found = check(lambda proc: proc.compute(3), 4, executions=1)
    assert (found.executions, found.exhaustive, found.ok) == (1, True, True)
    assert str(found) == "the only execution: equal results; none stalled"


def test_executions_that_grow_after_the_first_are_cut_off_at_their_number() -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.send(1, None)
        elif proc.pid == 1:
            proc.recv()
            if proc.time < 2 * proc.machine.o + proc.machine.L:  # not in the first execution
                for _ in range(5):
                    proc.send(2, None)
        else:
            while proc.recv(until=500) is not None:
                pass

    found = check(program, 3, MACHINE, 40)
    assert (found.ok, found.executions, found.exhaustive) == (True, 40, False)


def test_following_goes_through_all_digits() -> None:
    radices = (3, 1, 2, 4)
    seen = []
    number: int | None = 0
    while number is not None:
        seen.append(number)
        number = _following(number, radices)
    assert sorted(seen) == list(range(24))


def test_choices_tell_what_is_left() -> None:
    choices = Choices(30 * 7 + 5)
    simulate(gather, 3, LogPMachine(3, L=6, o=0, G=2), choices)
    assert choices.radices == [6, 5]
    assert choices.rest == 7


# What is equal


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclasses.dataclass
class Record:
    value: Any


class Ambiguous:
    """Whose == gives no truth value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    __hash__ = None  # type: ignore[assignment]


VALUES: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 1,
    lambda: True,
    lambda: 1.0,
    lambda: 2.0,
    lambda: math.nan,
    lambda: complex(math.nan, 1),
    lambda: "1",
    lambda: b"1",
    lambda: (1,),
    lambda: [1],
    lambda: [1, 2],
    lambda: [[math.nan], "a"],
    lambda: {1},
    lambda: {1: [2]},
    lambda: {1: [3]},
    lambda: {2: [2]},
    lambda: np.int64(1),
    lambda: np.float64(1),
    lambda: np.float64(math.nan),
    lambda: np.array(1),
    lambda: np.array([1]),
    lambda: np.array([1], np.int32),
    lambda: np.array([[1]]),
    lambda: np.array([1, 2]),
    lambda: np.array([1.0, math.nan]),
    lambda: np.array([math.nan, 1.0]),
    lambda: np.array(["NaT", "2020-01-01"], "M8[D]"),
    lambda: np.array([(1, math.nan)], [("a", int), ("b", float)]),
    lambda: np.array([(2, math.nan)], [("a", int), ("b", float)]),
    lambda: np.array([{"a": np.arange(2)}, None], object),
    lambda: np.array([{"a": np.arange(3)}, None], object),
    lambda: np.array(["x"]),
    lambda: Plain(1),
    lambda: Plain(np.arange(2)),
    lambda: Slotted([math.nan]),
    lambda: Slotted(2),
    lambda: Record(np.arange(2)),
    lambda: Record(math.nan),
    lambda: Ambiguous(1),
    lambda: Ambiguous(2),
    lambda: ValueError("a"),
    lambda: ValueError("b"),
    lambda: KeyError("a"),
    lambda: int,
    lambda: range(3),
    lambda: memoryview(b"12"),
]


@pytest.mark.parametrize("k", range(len(VALUES)))
def test_values_are_equal_to_themselves_made_again_and_to_no_other(k: int) -> None:
    assert difference(VALUES[k](), VALUES[k](), "x") is None
    for j, other in enumerate(VALUES):
        if j != k:
            assert difference(VALUES[k](), other(), "x") is not None, (VALUES[k](), other())


def test_a_difference_says_where() -> None:
    assert difference([1, {"a": (2, 3)}], [1, {"a": (2, 4)}], "processor 0") == "processor 0[1]['a'][1]: 3, then 4"
    assert difference(Plain([1]), Plain([2]), "x") == "x.value[0]: 1, then 2"
    assert difference([1], [1, 2], "x") == "x: 1 items, then 2"
    assert difference(1, 1.0, "x") == "x: int, then float"
    assert difference(np.zeros(3), np.zeros(4), "x") == "x: float64(3,), then float64(4,)"


def test_results_that_contain_themselves_are_compared() -> None:
    def loop(value: int) -> list[Any]:
        endless: list[Any] = [value]
        endless.append(endless)
        return endless

    assert difference(loop(1), loop(1), "x") is None
    assert difference(loop(1), loop(2), "x") is not None


# Arguments


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"executions": 0}, "argument executions: expected a whole number of at least 1, got 0"),
        ({"executions": 2.0}, "argument executions"),
        ({"seed": -1}, "argument seed: expected a whole number of at least 0, got -1"),
        ({"program": None}, "argument program"),
        ({"p": 0}, "argument p"),
        ({"machine": LogPMachine(2, L=8, o=1, G=1)}, "max{2, o} <= G <= L does not hold"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], text: str) -> None:
    given = {"program": gather, "p": 2, **arguments}
    with pytest.raises(UsageError) as caught:
        check(**given)
    assert str(caught.value).startswith("pybsp.logp.check: ")
    assert text in str(caught.value)


def test_arguments_go_to_the_program() -> None:
    found: Check = check(lambda proc, a, *, b: (proc.pid, a, b), 2, args=(1,), kwargs={"b": 2})
    assert found.results == [(0, 1, 2), (1, 1, 2)]


def test_a_schedule_of_a_users_own_needs_no_check() -> None:
    assert simulate(gather, 3, MACHINE, Schedule()).results == check(gather, 3, MACHINE).results
