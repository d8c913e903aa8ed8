"""GOAL schedules: traces as files, files simulated, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine, logp
from pybsp.errors import UsageError
from pybsp.logp import Goal, Processor, columns, simulate
from pybsp.logp.operations import ANY, CALC, RECV, SEND, Operation

from .random_programs import Replay, wanderer

MACHINES = [
    LogPMachine(5, L=12, o=1, G=3, step=1e-6),
    LogPMachine(4, L=4, o=4, G=4, step=1e-9),  # one in transit
    LogPMachine(3, L=40, o=0, G=5, step=1e-3),
    LogPMachine(4, L=12, o=1, G=3, step=1e-6, G_word=0.4e-6),
]
COLUMNS = ("source", "dest", "submission", "acceptance", "delivery", "acquisition", "words")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 200), marks=pytest.mark.whole)])
def test_the_schedule_of_a_trace_has_the_same_times(machine: LogPMachine, seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        # A replay knows nothing of long messages.
        named = "latest" if machine.G_word else None
        trace = simulate(wanderer, machine.p, machine, named or "random", seed=seed, args=(seed, 6, 30)).trace
        goal = Goal.of(trace)
        goal.save(tmp_path / "a.goal")
        assert Goal.load(tmp_path / "a.goal") == goal
        again = goal.simulate(machine, named or Replay(trace))
        again._check()
        for name in COLUMNS:
            assert np.array_equal(getattr(again.trace, name), getattr(trace, name)), (seed, name)


def test_without_overheads_what_was_over_first_comes_first() -> None:
    """What processor 1 sends at 2 answers what it acquired then."""

    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.send(1, "go")
            proc.send(2, "y")
        else:
            proc.recv()
            if proc.pid == 1:
                proc.send(2, "x")
            else:
                proc.recv()

    machine = LogPMachine(3, L=2, o=0, G=2, step=1e-6)
    trace = simulate(program, machine=machine).trace
    assert trace.acquisition.tolist() == [2, 4, 6]
    assert Goal.of(trace).simulate(machine).trace.acquisition.tolist() == [2, 4, 6]


def read(tmp_path: Path, text: str) -> Goal:
    (tmp_path / "a.goal").write_text(text)
    return Goal.load(tmp_path / "a.goal")


def test_computing_ends_before_2_to_the_62_steps_or_asks_for_longer_ones(tmp_path: Path) -> None:
    goal = read(tmp_path, f"num_ranks 1\nrank 0 {{\na: calc {1 << 60}\n}}\n")
    for step in (2**-2 * 1e-9, 2**-3 * 1e-9):
        with pytest.raises(
            UsageError, match=r"operation 1 of rank 0 .* would end at 2\*\*62 steps or later.*longer step"
        ):
            goal.simulate(LogPMachine(1, L=2, o=0, G=2, step=step))
    assert goal.simulate(LogPMachine(1, L=2, o=0, G=2, step=2**-1 * 1e-9)).time == 1 << 61


def test_what_is_not_required_may_come_first(tmp_path: Path) -> None:
    goal = read(
        tmp_path,
        """num_ranks 3  # a comment
        rank 0 {
        a: recv 8b from 1 tag 1 cpu 0 nic 0
        b: recv 8b from 2
        c: calc 100
        d: calc 10
        c requires a
        d requires b
        }
        rank 2 {
        x: send 8b to 0
        }
        rank 1 {
        x: calc 40
        y: send 8b to 0 tag 1
        y requires x
        }
        """,
    )
    run = goal.simulate(LogPMachine(3, L=16, o=1, G=4, step=1e-9))
    # Both receives have begun; that of 2 comes at 17, and 10 steps of work; that of 1 at 57, and 100.
    assert run.trace.acquisition.tolist() == [18, 58]
    assert run.finished.tolist() == [158, 41, 1]
    assert run.busy.tolist() == [112, 41, 1]


def test_an_operation_may_wait_for_the_beginning_of_another(tmp_path: Path) -> None:
    """The send goes when the receive has begun, which its answer ends."""
    text = """num_ranks 2
    rank 0 {
    a: calc 5
    b: recv 8b from 1
    c: send 8b to 1
    b requires a
    c irequires b
    }
    rank 1 {
    a: recv 8b from 0
    b: send 8b to 0
    b requires a
    }
    """
    machine = LogPMachine(2, L=16, o=1, G=4, step=1e-9)
    assert read(tmp_path, text).simulate(machine).finished.tolist() == [5 + 2 * 18, 5 + 19]
    with pytest.raises(UsageError, match=r"a\.goal, line 4: the operation waits for itself"):
        read(tmp_path, text.replace("c irequires b", "c requires b"))


def test_a_message_may_come_before_its_receive(tmp_path: Path) -> None:
    """Tags tell messages apart: the second is acquired first, and waits there."""
    goal = read(
        tmp_path,
        """num_ranks 2
        rank 0 {
        a: send 8b to 1 tag 2
        b: send 8b to 1 tag 1
        b requires a
        }
        rank 1 {
        a: recv 8b from 0 tag 1
        b: recv 8b from 0 tag 2
        c: calc 3
        b requires a
        c requires b
        }
        """,
    )
    run = goal.simulate(LogPMachine(2, L=16, o=1, G=4, step=1e-9))
    assert run.trace.acquisition.tolist() == [18, 22]
    assert run.time == 25


BAD = [
    ("", 1, "ends before num_ranks"),
    ("rank 0 {\n}\n", 1, "expected num_ranks"),
    ("num_ranks 0\n", 1, "at least 1"),
    ("num_ranks 1\nrank 1 {\n}\n", 2, "another N below 1"),
    ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", 4, "another N below 1"),
    ("num_ranks 1\nrank 0 {\na: calc 1\n", 3, "before the '}' of a rank"),
    ("num_ranks 2\nrank 0 {\n}\n", 3, "without rank 1 of 2"),
    ("num_ranks 1\nrank 0 {\na: calc -1\n}\n", 3, "expected calc, send"),
    ("num_ranks 1\nrank 0 {\na: calc 1\na: calc 2\n}\n", 4, "the label 'a'"),
    ("num_ranks 1\nrank 0 {\na: calc 1\na requires b\n}\n", 4, "no operation of this rank has the label 'b'"),
    ("num_ranks 1\nrank 0 {\na: calc 1\nb irequires a\n}\n", 4, "no operation of this rank has the label 'b'"),
    ("num_ranks 1\nrank 0 {\na: calc 1\na requires a\n}\n", 3, "waits for itself"),
    ("num_ranks 1\nrank 0 {\nc: calc 1\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n", 4, "waits for itself"),
    ("num_ranks 2\nrank 0 {\na: send 8b from 1\n}\n", 3, "expected 'to' after 'send'"),
    ("num_ranks 2\nrank 0 {\na: send 8b to 2\n}\nrank 1 {\n}\n", 3, "expected another rank below 2, got 2"),
    ("num_ranks 2\nrank 0 {\na: send 8b to 0\n}\nrank 1 {\n}\n", 3, "expected another rank below 2, got 0"),
    ("num_ranks 2\nrank 0 {\na: send 8b to 1\n}\nrank 1 {\n}\n", 3, "go 1 messages, and 0 are received"),
    (
        "num_ranks 2\nrank 0 {\na: send 8b to 1\n}\nrank 1 {\nb: recv 8b from 0 tag 1\n}\n",
        3,
        "with tag 0 go 1 messages, and 0",
    ),
    (
        "num_ranks 2\nrank 0 {\na: recv 8b from 1\nb: send 8b to 1\nb requires a\n}\n"
        "rank 1 {\na: recv 8b from 0\nb: send 8b to 0\nb requires a\n}\n",
        3,
        "by way of what it requires, or of messages",
    ),
    ("num_ranks 1\n/* no end\nrank 0 {\n}\n", 2, "the comment that begins here has no end"),
    ("num_ranks 2\nrank 0 {\nsend 8b to -1\n}\nrank 1 {\n}\n", 3, "expected another rank below 2, got -1"),
    ("num_ranks 2\nrank 0 {\nsend 8b to 1 tag -1\n}\nrank 1 {\n}\n", 3, "expected a send with a tag of at least 0"),
    (
        "num_ranks 2\nrank 0 {\nsend 8b to 1\nsend 8b to 1 tag 1\n}\n"
        "rank 1 {\nrecv 8b from 0\nrecv 8b from -1 tag -1\n}\n",
        8,
        "the message of line 3 may be for this receive, or for 'from 0 tag 0'",
    ),
    (
        "num_ranks 2\nrank 0 {\nsend 8b to 1\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from -1\n}\n",
        3,
        "from any rank to 1 with tag 0 go 2 messages, and 1 are received",
    ),
    (
        "num_ranks 2\nrank 0 {\nsend 16b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n",
        3,
        "16 bytes go to rank 1, whose receives",
    ),
    ("num_ranks 1\nrank 0 {\ncalc 4611686018427387904\n}\n", 3, "to compute for less than 2**62 ns"),
    (
        "num_ranks 1\nrank 0 {\ncalc 4611686018427387903\ncalc 1\n}\n",
        4,
        "for less than 2**62 ns, got 4611686018427387904 by this line",
    ),
    (
        f"num_ranks 1\nrank 0 {{\nsend {'1' * 5000}b to 0\n}}\n",
        3,
        "expected a line of at most 4000 characters, got 5011",
    ),
    (  # what waits for a circle is in none
        "num_ranks 2\nrank 0 {\na: recv 8b from 1\n}\n"
        "rank 1 {\na: send 8b to 0\nb: calc 1\nc: calc 1\na requires b\nb requires c\nc requires b\n}\n",
        7,
        "or of messages: line 7, line 8",
    ),
]


@pytest.mark.fast
@pytest.mark.parametrize(("text", "line", "error"), BAD)
def test_what_is_wrong_with_a_file_is_named_with_its_line(text: str, line: int, error: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"pybsp.logp.Goal.load: {tmp_path / 'a.goal'}, line {line}: ")
    assert error in str(caught.value)


def test_a_trace_that_was_cut_off_has_no_schedule() -> None:
    none = np.full(1, -1)
    one = np.ones(1, np.int64)
    trace = logp.Trace(LogPMachine(2, 16, 1, 4), one, 0 * one, one, one, none, none, one)
    with pytest.raises(UsageError, match="expected messages that were all acquired"):
        Goal.of(trace)


def test_steps_shorter_than_a_nanosecond_have_no_schedule() -> None:
    trace = simulate(lambda proc: proc.compute(3), machine=LogPMachine(2, 16, 1, 4, step=0.5e-9)).trace
    with pytest.raises(UsageError, match=r"Goal\.of: argument trace: .* step of at least 1e-09 s.*, got 5e-10 s"):
        Goal.of(trace)


@pytest.mark.parametrize("wrong", [None, "x", simulate(lambda proc: None, 1)], ids=["none", "text", "simulation"])
def test_what_is_no_trace_has_no_schedule(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"Goal\.of: argument trace: expected a pybsp\.logp\.Trace or Timeline"):
        Goal.of(wrong)


@pytest.mark.parametrize("wrong", [None, True, np.int64(1)], ids=["none", "true", "number"])
def test_what_is_no_path_is_no_file(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"Goal\.load: argument path: expected that of a GOAL file, got"):
        Goal.load(wrong)
    with pytest.raises(UsageError, match=r"LogPMachine\.save: argument path: expected that of a machine file, got"):
        LogPMachine(2, 16, 1, 4).save(wrong)


def test_arguments_are_those_of_simulate(tmp_path: Path) -> None:
    def program(proc: Processor) -> Any:
        return proc.send(0, 1.0) if proc.pid else proc.recv()

    goal = Goal.of(simulate(program, 2).trace)
    for given in ({"machine": 3}, {"schedule": "late"}, {"machine": LogPMachine(2, L=8, o=1, G=1)}):
        with pytest.raises(UsageError, match=r"^pybsp\.logp\.Goal\.simulate: "):
            goal.simulate(**given)


def test_what_loggopsim_reads_is_read(tmp_path: Path) -> None:
    goal = read(
        tmp_path,
        """/* comments, of lines
        and round them */
        num_ranks 2 // two
        rank 0 {
        calc 5 // without a label
        send 8 b to 1 tag 3
        a: send 8b to 1 /* a label */ tag 3
        }
        rank 1 {
        recv 8b from -1 tag 3
        calc: recv 16b from -1 tag 3
        a: calc 10 # /* neither begin nor end
        a requires calc
        }
        """,
    )
    assert [str(one) for one in goal.lists[1]] == ["recv 8b from -1 tag 3", "recv 16b from -1 tag 3", "calc 10"]
    assert goal.lists[1][2].requires == (1,)
    goal.save(tmp_path / "again.goal")
    assert Goal.load(tmp_path / "again.goal") == goal
    assert goal.simulate(LogPMachine(2, L=16, o=1, G=4, step=1e-9)).time == 37


def test_receives_from_any_rank_take_messages_as_they_come(tmp_path: Path) -> None:
    """In the order of their sources or against it: each of the two goes on with its own work."""
    text = """num_ranks 3
    rank 0 {
    a: recv 8b from -1 tag -1
    b: recv 8b from -1 tag -1
    c: calc 100
    c requires a
    b requires c
    }
    rank 1 {
    a: calc 40
    b: send 8b to 0 tag 1
    b requires a
    }
    rank 2 {
    send 8b to 0 tag 2
    }
    """
    trace = read(tmp_path, text).simulate(LogPMachine(3, L=16, o=1, G=4, step=1e-9)).trace
    assert (trace.source.tolist(), trace.acquisition.tolist()) == ([2, 1], [18, 119])


def test_a_step_so_short_that_times_cannot_be_counted_is_an_error(tmp_path: Path) -> None:
    goal = read(tmp_path, "num_ranks 1\nrank 0 {\ncalc 1\ncalc 1000000000000\n}\n")
    with pytest.raises(UsageError, match=r"operation 2 of rank 0 \(calc 1000000000000\) would end at 2\*\*62 steps"):
        goal.simulate(LogPMachine(1, L=16, o=1, G=4, step=1e-18))


@pytest.mark.parametrize("built", [True, False])
def test_lists_that_have_no_end_are_refused(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not built:
        monkeypatch.setattr(columns, "compiled", lambda: None)
    wrong: list[tuple[list[list[Operation]], str]] = [
        ([[Operation(RECV, 8, 1)], []], "operation 1 of rank 0: from rank 1 to 0 with tag 0 go 0 messages, and 1 are"),
        ([[Operation(SEND, 8, 1)], []], "operation 1 of rank 0: from rank 0 to 1 with tag 0 go 1 messages, and 0 are"),
        ([[Operation(CALC, 1), Operation(CALC, 1, requires=(1,))]], "operation 2 of rank 0: the operation waits for"),
        (
            [
                [Operation(RECV, 8, 1), Operation(SEND, 8, 1, requires=(0,))],
                [Operation(RECV, 8, 0), Operation(SEND, 8, 0, requires=(0,))],
            ],
            "or of messages: operation 1 of rank 0, operation 2 of rank 0, operation 1 of rank 1, operation 2 of rank",
        ),
    ]
    for lists, error in wrong:
        for given in (lists, columns.Columns.of(lists)):
            with pytest.raises(UsageError, match=rf"^pybsp\.logp\.Goal\.simulate: .*{error}"):
                Goal(given).simulate(LogPMachine(len(lists), L=16, o=1, G=4))


@pytest.mark.fast
@pytest.mark.parametrize("lists", [[], 3, [[1], [2]], [3], [(0, 5)], "calc"])
def test_lists_that_are_none_are_refused(lists: Any) -> None:
    with pytest.raises(UsageError, match="argument lists: expected a list of Operations for each processor"):
        Goal(lists).simulate(MACHINES[0])


def test_receives_of_several_kinds_for_one_message_are_refused_in_lists_too() -> None:
    goal = Goal([[Operation(SEND, 8, 1)], [Operation(RECV, 8, 0), Operation(RECV, 8, ANY)]])
    with pytest.raises(UsageError, match="argument lists: expected each message to be received by RECVs of one source"):
        goal.simulate(LogPMachine(2, L=16, o=1, G=4))
