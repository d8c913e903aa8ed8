"""`_check` of a trace: every invariant can fail, is named, and is judged as by loops over all steps."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from pybsp import LogPMachine, logp
from pybsp.benchmarks.studies.logp_simulator import interpret, random_program, random_programs
from pybsp.errors import DeadlockError, UnreceivedError
from pybsp.logp import Simulation, Trace, simulate

FIELDS = ("source", "dest", "submission", "acceptance", "delivery", "acquisition")


def trace_of(rows: Sequence[Sequence[int]], machine: LogPMachine) -> Trace:
    """A trace whose rows are messages: the fields in order."""
    columns = [*np.array(rows, np.int64).reshape(-1, 6).T, np.ones(len(rows), np.int64)]
    return Trace(machine, *columns)


def rows_of(trace: Trace) -> list[list[int]]:
    return [list(row) for row in zip(*(getattr(trace, name).tolist() for name in FIELDS), strict=True)]


MACHINE = LogPMachine(4, L=6, o=1, G=3)  # two in transit to a processor

GOOD = [
    # source, dest, submission, acceptance, delivery, acquisition
    [1, 0, 1, 1, 7, 11],
    [2, 0, 1, 1, 6, 8],
    [3, 0, 1, 6, 12, 14],
    [1, 2, 4, 4, 5, 6],
    [1, 2, 7, 7, 13, 14],
]

BROKEN = [  # message, what changes there, which invariant
    (0, {"dest": 1}, "source and dest are different processors"),
    (0, {"source": 4}, "source and dest are different processors"),
    (0, {"source": -1}, "source and dest are different processors"),
    (0, {"dest": 4}, "dest is a processor"),
    (0, {"dest": -1}, "dest is a processor"),
    (0, {"submission": 0}, "a message is prepared in o steps, from time 0 on"),
    (0, {"submission": 2}, "acceptance is not before submission"),
    (3, {"acceptance": -1}, "what is delivered was accepted, what is acquired delivered"),
    (3, {"delivery": -1}, "what is delivered was accepted, what is acquired delivered"),
    (3, {"delivery": 4}, "delivery is 1 to L steps after acceptance"),
    (0, {"delivery": 8}, "delivery is 1 to L steps after acceptance"),
    (0, {"delivery": -1, "acquisition": -1}, "what is accepted is delivered, unless the execution is cut off"),
    (3, {"acquisition": 5}, "acquisition ends o steps after delivery or later"),
    (3, {"submission": 3, "acceptance": 3}, "submissions of a processor are G apart"),
    (1, {"acquisition": 10}, "acquisitions of a processor are G apart"),
    (1, {"delivery": 7}, "a processor is delivered one message a step"),
    (0, {"acquisition": 17}, "messages are acquired in the order of delivery"),
    (3, {"acquisition": -1}, "messages are acquired in the order of delivery"),
    (2, {"dest": 2, "delivery": 8, "acquisition": 10}, "a message waits only while dest has ceil(L/G) in transit"),
    (2, {"acceptance": 7}, "a message waits only while dest has ceil(L/G) in transit"),
    (2, {"acceptance": 5, "delivery": 11}, "at most ceil(L/G) messages are in transit to a destination"),
]


def test_a_good_trace_is_held_good() -> None:
    trace = trace_of(GOOD, MACHINE)
    trace._check()
    logp._check(trace)
    assert trace.in_transit().tolist() == [2, 0, 1, 0]
    assert (len(trace), trace.p) == (5, 4)


@pytest.mark.fast
@pytest.mark.parametrize(("message", "changes", "invariant"), BROKEN, ids=str)
def test_every_invariant_can_fail_and_is_named(message: int, changes: dict[str, int], invariant: str) -> None:
    rows = [list(row) for row in GOOD]
    for name, value in changes.items():
        rows[message][FIELDS.index(name)] = value
    with pytest.raises(AssertionError) as caught:
        trace_of(rows, MACHINE)._check()
    assert str(caught.value).startswith(invariant)
    assert str(caught.value).endswith("(L = 6, o = 1, G = 3)")


@pytest.mark.parametrize(
    ("rows", "machine", "invariant"),
    [
        ([[1, 3, 1, 1, 2, 3], [1, 2, 4, 4, 5, 6], [0, 1, 2, 2, 3, 4]], MACHINE, "a processor does one thing at a time"),
        (
            [[0, 3, 1, 1, 7, 11], [2, 3, 1, 1, 6, 8], [1, 3, 1, 6, 12, 14], [0, 1, 4, 4, 5, 6]],
            MACHINE,
            "a processor does one thing at a time",
        ),
        (
            [[0, 2, 0, 0, 2, 2], [1, 2, 0, 2, 4, 4], [1, 0, 2, 2, 3, 3]],
            LogPMachine(3, L=2, o=0, G=2),
            "an output register holds one message",
        ),
    ],
    ids=["acquired during a preparation", "acquired during a stall", "submitted in the step of an acceptance"],
)
def test_invariants_of_a_processor_can_fail(rows: list[list[int]], machine: LogPMachine, invariant: str) -> None:
    with pytest.raises(AssertionError) as caught:
        trace_of(rows, machine)._check()
    assert str(caught.value).startswith(invariant)
    # A step later it would have been right.
    *others, (source, dest, *times) = rows
    trace_of([*others, [source, dest, *(time + 1 for time in times)]], machine)._check()


def test_every_invariant_of_check_is_among_those_that_were_seen_to_fail() -> None:
    named = re.findall(
        r"_(?:require|check_spacing)\(\s*\"([^\"]+)\"|what = \"([^\"]+)\"", inspect.getsource(Trace._check)
    )
    invariants = {first or second for first, second in named}
    assert len(invariants) == 16
    seen = {invariant for _, _, invariant in BROKEN} | {
        "a processor does one thing at a time",
        "an output register holds one message",
    }
    assert all(any(invariant.startswith(name) for name in seen) for invariant in invariants), invariants - seen


def test_a_trace_that_is_cut_off_is_good() -> None:
    late = [[3, 1, 13, 13, -1, -1], [2, 1, 14, 14, 15, -1], [1, 3, 14, 14, -1, -1]]
    trace_of([*GOOD[:4], *late], MACHINE)._check()
    waiting = [[3, 1, 12, 12, -1, -1], [2, 1, 12, 12, -1, -1], [1, 3, 12, -1, -1, -1], [0, 1, 15, -1, -1, -1]]
    with pytest.raises(AssertionError, match="a message waits only while"):
        trace_of([*GOOD[:4], *waiting], MACHINE)._check()
    trace_of([*GOOD[:4], *waiting[:2], waiting[3]], MACHINE)._check()
    trace_of([], MACHINE)._check()


def admissible(trace: Trace) -> bool:
    """By loops over messages, processors and steps, straight from the model."""
    machine = trace.machine
    p, L, o, G = machine.p, machine.L, machine.o, machine.G
    rows = rows_of(trace)
    over = max((max(row[2:]) for row in rows), default=0)
    never = over + L + 1
    for source, dest, submitted, accepted, delivered, acquired in rows:
        if not (0 <= source < p and 0 <= dest < p and source != dest and submitted >= o):
            return False
        if accepted < 0:
            if delivered >= 0 or acquired >= 0:
                return False
        elif accepted < submitted:
            return False
        elif delivered < 0:
            if acquired >= 0 or over > accepted + L:
                return False
        elif not accepted + 1 <= delivered <= accepted + L or 0 <= acquired < delivered + o:
            return False
    for pid in range(p):
        sent = sorted([row[2], never if row[3] < 0 else row[3]] for row in rows if row[0] == pid)
        got = sorted([row[4], never if row[5] < 0 else row[5]] for row in rows if row[1] == pid and row[4] >= 0)
        for (s, a), (next_s, _) in itertools.pairwise(sent):
            if next_s < s + G or next_s <= a:
                return False
        for (d, q), (next_d, next_q) in itertools.pairwise(got):
            if next_d == d or not (q + G <= next_q or next_q == never):
                return False
        acquired_at = [q for _, q in got if q < never]
        busy = Counter(t for s, _ in sent for t in range(s - o, s))
        busy += Counter(t for s, a in sent for t in range(s, a))
        busy += Counter(t for q in acquired_at for t in range(q - o, q))
        if any(count > 1 for count in busy.values()):
            return False
        if o == 0 and any(s < q < a for s, a in sent for q in acquired_at):
            return False
    for t in range(over + 1):
        for dest in range(p):
            there = sum(r[1] == dest and 0 <= r[3] <= t and (r[4] < 0 or t < r[4]) for r in rows)
            waits = any(r[1] == dest and r[2] <= t and (r[3] < 0 or t < r[3]) for r in rows)
            if there > machine.capacity or (waits and there < machine.capacity):
                return False
    return True


def broken_invariant(trace: Trace) -> str | None:
    try:
        trace._check()
    except AssertionError as error:
        return str(error).split(":")[0]
    return None


def executions(count: int) -> list[Simulation]:
    simulations: list[Simulation] = []
    seed = 0
    while len(simulations) < count:
        machine, programs, starts = random_program(seed)
        seed += 1
        schedule = ("latest", "earliest", "random", "adversary")[seed % 4]
        try:
            done = simulate(interpret, machine=machine, schedule=schedule, seed=seed, starts=starts, args=(programs,))
        except (DeadlockError, UnreceivedError):
            continue
        if len(done.trace) > 1:
            simulations.append(done)
    return simulations


def test_a_trace_that_was_changed_is_judged_as_by_loops_over_all_steps() -> None:
    draw = random.Random(1)
    named: Counter[str] = Counter()
    for done in executions(60):
        assert admissible(done.trace)
        done._check()
        for _ in range(15):
            rows = rows_of(done.trace)
            row, kind = draw.choice(rows), draw.randrange(6)
            if kind < 2:
                row[draw.randrange(2, 6)] += draw.choice((-2, -1, 1, 2))
            elif kind == 2:  # all from some time on
                first, by = draw.randrange(2, 6), draw.choice((-2, -1, 1, 2))
                row[first:] = [value + by for value in row[first:]]
            elif kind == 3:
                row[draw.randrange(3, 6) :] = [-1] * (6 - draw.randrange(3, 6))
                row += [-1] * (6 - len(row))
                del row[6:]
            elif kind == 4:
                other, field = draw.choice(rows), draw.randrange(6)
                row[field], other[field] = other[field], row[field]
            else:
                row[draw.randrange(2)] = draw.randrange(-1, done.machine.p + 1)
            changed = trace_of(rows, done.machine)
            broken = broken_invariant(changed)
            named[broken or "good"] += 1
            assert admissible(changed) == (broken is None), (broken, rows, done.machine)
    assert named["good"] > 20
    assert len(named) >= 14, named


@pytest.mark.fast
@pytest.mark.parametrize("field", ["busy", "idle", "stalls", "in_transit"])
def test_a_simulation_that_counted_wrongly_is_found_out(field: str) -> None:
    (done,) = executions(1)
    wrong = getattr(done, field).copy()
    wrong[:] = -1
    with pytest.raises(AssertionError, match=r"wrongly|longer than the execution"):
        dataclasses.replace(done, **{field: wrong})._check()


@pytest.mark.whole
def test_the_random_programs_of_the_benchmark_hold_every_invariant() -> None:
    seen = random_programs(200, first=10**6)
    assert seen["ended"] > 150
    assert seen["stalled"] > 50
    assert seen["DeadlockError"] > 0
