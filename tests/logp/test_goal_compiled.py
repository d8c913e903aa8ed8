"""What reads GOAL schedules and simulates them, compiled, gives what its twins in Python give, bit for bit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp import LogPMachine, compiled
from pybsp.benchmarks.studies import goal_schedules
from pybsp.errors import UsageError
from pybsp.logp import Goal, Schedule, Simulation, columns, simulate
from pybsp.logp.goal import played
from pybsp.logp.operations import ANY, CALC, RECV, SEND, Operation

from ..tiers import some
from .random_programs import wanderer
from .test_goal import BAD, COLUMNS, MACHINES

pytestmark = pytest.mark.skipif(compiled.goal() is None, reason="nothing was built: no compiler")


def twin(function: Callable[[], Any]) -> Any:
    """What it gives without what was compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "compiled", lambda: None)
        return function()


def loaded(path: Path) -> object:
    """What a file has, or what is wrong with it."""
    try:
        return list(Goal.load(path).lists)
    except UsageError as error:
        return str(error)


def same(one: Simulation, other: Simulation) -> None:
    """Equal in all, types included."""
    assert (one.results, one.time, one.machine) == (other.results, other.time, other.machine)
    for name in ("finished", "busy", "stalls", "idle", "in_transit"):
        assert getattr(one, name).dtype == getattr(other, name).dtype
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in COLUMNS:
        assert getattr(one.trace, name).dtype == getattr(other.trace, name).dtype
        assert np.array_equal(getattr(one.trace, name), getattr(other.trace, name)), name


def both(goal: Goal, machine: LogPMachine) -> None:
    """Compiled, by the engine, and by the engine under a schedule that it does not know."""
    operations = columns.Columns.of(goal.lists)
    for schedule in columns._KINDS:
        fast = operations.play(machine, schedule())
        assert fast is not None
        same(fast, played(operations, machine, schedule()))
        same(fast, twin(partial(played, operations, machine, schedule())))

    class Mine(Schedule):
        """`latest`, as a user's."""

    same(played(operations, machine, Schedule()), played(operations, machine, Mine()))


@st.composite
def schedules(draw: st.DrawFn, mixed: bool = False) -> list[list[Operation]]:
    """Operations of a few processors, in any order, that wait for others, for themselves and for messages; `mixed`:
    where messages may be for receives of several kinds, too."""
    p = draw(st.integers(1, 5))
    lists: list[list[Operation]] = [[] for _ in range(p)]
    for _ in range(draw(st.integers(0, 25))):
        source = draw(st.integers(0, p - 1))
        size, tag = draw(st.integers(0, 60)), draw(st.integers(0, 2))
        if p == 1 or draw(st.integers(0, 4)) == 0:
            lists[source].append(Operation(CALC, 5 * size))
            continue
        dest = (source + draw(st.integers(1, p - 1))) % p
        if draw(st.integers(0, 2)):
            dest = 0 if source else dest
        lists[source].append(Operation(SEND, size, dest, tag))
        if draw(st.integers(0, 19)):
            lists[dest].insert(draw(st.integers(0, len(lists[dest]))), Operation(RECV, size, source, tag))
    backwards = draw(st.booleans())
    for operations in lists:
        for number, one in enumerate(operations):
            some_of = st.lists(st.integers(0, len(operations) - 1), max_size=2)
            waits = [
                tuple(
                    other for other in draw(some_of) if other < number or (backwards and draw(st.integers(0, 9)) == 0)
                )
                for _ in range(2)
            ]
            operations[number] = one._replace(requires=waits[0], irequires=waits[1])
        receives = draw(st.sampled_from(["as they are", "as they are", "any source", "any tag", "any", "some"]))
        for number, one in enumerate(operations):
            # All of a processor alike, so that each message comes by one channel; or some alone, which may be wrong.
            if one.kind == RECV and (receives != "some" or (mixed and number % 2)):
                peer = ANY if receives in ("any source", "any", "some") else one.peer
                tag = ANY if receives in ("any tag", "any") else one.tag
                operations[number] = one._replace(peer=peer, tag=tag)
    return lists


machines = st.builds(
    lambda G, o, further, word: (max(G + further, 1), min(o, G), G, word),
    st.integers(2, 6),
    st.integers(0, 6),
    st.one_of(st.integers(0, 30), st.integers(0, 400)),
    st.sampled_from([None, 0.4, 7.3, 90.0]),
)


@given(lists=schedules(), machine=machines)
@settings(max_examples=some(200), deadline=None)
def test_schedules_have_the_same_executions(
    lists: list[list[Operation]], machine: tuple[int, int, int, float | None]
) -> None:
    """Those that do not come to their end, too."""
    L, o, G, word = machine
    both(Goal(lists), LogPMachine(len(lists), L, o, G, step=1e-9, G_word=None if word is None else word * 1e-9))


@given(lists=schedules(mixed=True), order=st.randoms(use_true_random=False))
@settings(max_examples=some(120), deadline=None)
def test_files_are_read_the_same(lists: list[list[Operation]], order: Any) -> None:
    """Whatever the order of ranks and lines is; and those that have no end are wrong by the same line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.goal")
        Goal(lists).save(path)
        assert loaded(path) == twin(lambda: loaded(path))
        head, *blocks = path.read_text().split("\nrank ")
        order.shuffle(blocks)
        text = head
        for block in blocks:
            first, *lines, end = block.rstrip("\n").split("\n")
            order.shuffle(lines)  # labels before their operations; who waits, in any order
            blanks = ["", "  # } a comment: send", "\t", "// }", "/* {\n} // */", "/*/ # */ calc 3"]
            text += "\n".join(["", f"rank {first}", *lines[:3], order.choice(blanks), *lines[3:], end])
        path.write_bytes(text.replace("\n", order.choice(["\n", "\r\n", "\r"])).encode())
        assert loaded(path) == twin(lambda: loaded(path))


@pytest.mark.fast
@pytest.mark.parametrize("text", [text for text, _, _ in BAD])
def test_what_is_wrong_is_found_by_both(text: str) -> None:
    assert columns.Columns.read(text.encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        "a:calc 1",
        "a : calc 1 cpu 2 nic 3",
        "a: calc 1 nic 3",
        "a: calc 007# seven",
        "a: calc 9223372036854775807",
        "a: calc 9223372036854775808",
        "a: calc 1 nic 3 cpu 2",
        "a: calc 1 cpu",
        "a: calc1",
        "a: calc 1b",
        "calc 1",
        "requires: calc 1",
        "é: calc 1",
        "a: calc 1 tag 2",
        "a calc 1",
        ": calc 1",
        "a: calc ١",
        "a:\x1fcalc\v1",
        "a: calc 1 # é",
        "long_label_1: calc 1\nlong_label_2: calc 1\nlong_label_2 requires long_label_1",
        "a: calc 1\nb: calc 1\nb  irequires\ta",
        "a: calc 1\nb: calc 1\nb requires",
        "a: calc 1\nb: calc 1\nb requires a a",
        "a: calc 1\0",
        "a: send 8 to 1",
        "a: send 8b to",
        "calc 1 // one",
        "calc 1 / one",
        "a: /**/calc/**/1",
        "a: ca/**/lc 1",
        "/* calc 1\n*/ calc 2",
        "/*/ calc 1",
        "calc 1 */",
        "// /* é\ncalc 1",
        "calc:calc 1\ncalc requires calc",
        "send 8 b  to 1\n}\nrank 1 {\nrecv 8b from -1 tag 0",
        "send 8b to 1 tag 4\n}\nrank 1 {\nrecv 8b from 0 tag -1 cpu 1",
        "send 8b to 1 tag 4\n}\nrank 1 {\nrecv 8b from -12",
        "send 8b to 1 tag 4\n}\nrank 1 {\nrecv 8b from -1tag 4",
        "send 8b to 1 tag 4\n}\nrank 1 {\nrecv 7b from 0 tag 4",
        "send 8b to 1 tag 4\n}\nrank 1 {\nrecv 9b from 0 tag 4",
        "send 8b to 1\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\nrecv 8b from -1",
        "calc 4611686018427387903",
        "calc 4611686018427387904",
        "calc 4611686018427387903\ncalc 1",
        "} # end\nrank 1 {",
        "} }",
    ],
)
def test_lines_are_read_the_same(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.goal"
    second = "" if "rank 1" in line else "rank 1 {\n}"
    path.write_text(f"\n# a schedule\n num_ranks  2 # of two\n\nrank 0{{\n{line}\n}}\n{second}", encoding="utf-8")
    assert loaded(path) == twin(lambda: loaded(path))


@pytest.mark.parametrize("machine", MACHINES)
def test_traces_of_programs_are_read_and_simulated_compiled(machine: LogPMachine, tmp_path: Path) -> None:
    for seed in range(some(40) // 4):
        goal = Goal.of(simulate(wanderer, machine.p, machine, "earliest", seed=seed, args=(seed, 9, 30)).trace)
        goal.save(tmp_path / "a.goal")
        loaded = Goal.load(tmp_path / "a.goal")
        assert isinstance(loaded.lists, columns.Columns)
        assert loaded == goal
        assert repr(loaded) == repr(goal)
        both(loaded, machine)


@pytest.mark.whole
def test_many_labels_messages_and_steps_far_apart() -> None:
    """More than the first sizes of tables, of the wheel, and of the heap of what happens later."""
    p, each = 70, 60
    lists = [
        [
            one
            for k in range(each)
            for one in (
                Operation(CALC, (pid * 7919 + k * 104729) % 300_000, requires=(3 * k - 1,) if k else ()),
                Operation(SEND, 8 * (k % 5 + 1), (pid + 1 + k % (p - 1)) % p, k, requires=(3 * k,)),
                Operation(RECV, 8, (pid - 1 - k % (p - 1)) % p, k, requires=(3 * k + 1,)),
            )
        ]
        for pid in range(p)
    ]
    both(Goal(lists), LogPMachine(p, L=300, o=2, G=7, step=1e-9))
    both(Goal(lists), LogPMachine(p, L=30, o=0, G=10, step=1e-9, G_word=3e-8))


@pytest.mark.parametrize(
    "machine",
    [
        LogPMachine(2, L=1 << 40, o=1, G=4, step=1e-9),
        LogPMachine(2, L=1 << 30, o=1, G=1 << 29, step=1e-9),
        LogPMachine(2, L=16, o=1, G=4, step=1e-290),
        LogPMachine(2, L=16, o=1, G=4, step=1e-9, G_word=1e9),
    ],
)
def test_times_that_are_too_large_go_on_with_the_engine(machine: LogPMachine) -> None:
    goal = Goal([[Operation(CALC, 0), Operation(SEND, 80, 1, requires=(0,))], [Operation(RECV, 80, 0)]])
    assert goal.simulate(machine).time == twin(lambda: goal.simulate(machine)).time


def test_operations_that_cannot_be_are_named() -> None:
    wrong = [
        Operation(SEND, 8, 2),
        Operation(SEND, 8, 0),
        Operation(3, 8, 1),
        Operation(CALC, -1),
        Operation(CALC, 1 << 63),
        Operation(CALC, 1, requires=(1,)),
        Operation(CALC, 1, irequires=(-1,)),
    ]
    for one in wrong:
        goal = Goal([[one], []])
        for how in (lambda run: run(), twin):
            with pytest.raises(UsageError, match=r"argument lists: .* as number 0 of processor 0"):
                how(goal.simulate)


@pytest.mark.whole
def test_the_study_compares_a_program_with_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["goal_schedules", "--quick", "--rounds", "1"])
    goal_schedules.main()  # which fails where they differ
    assert "one hot spot" in capsys.readouterr().out
