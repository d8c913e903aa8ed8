"""The simulated LogP machine: times worked out by hand, waiting, failures, payloads, and what must not interfere."""

from __future__ import annotations

import array
import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import LogPMachine
from pybsp.errors import DeadlockError, ProcessorError, UnreceivedError, UsageError
from pybsp.logp import Goal, Message, Processor, Simulation, check, simulate
from pybsp.logp.engine import Engine, SimulatedProcessor
from pybsp.logp.operations import RECV, SEND, Operation
from pybsp.logp.schedule import NAMES, Schedule

SCHEDULES = (*NAMES, "random")
MACHINES = [  # L, o, G
    (8, 2, 3),
    (8, 0, 3),  # no overhead
    (8, 3, 3),  # an overhead of the gap
    (5, 1, 5),  # capacity 1
    (4, 2, 2),
    (2, 0, 2),  # the smallest of all
    (60, 1, 2),  # capacity 30
]


def each_machine(p: int) -> list[LogPMachine]:
    return [LogPMachine(p, *parameters) for parameters in MACHINES]


def receive(proc: Processor, count: int) -> list[Any]:
    return [proc.recv().payload for _ in range(count)]


# Times


@pytest.mark.parametrize("machine", each_machine(2), ids=str)
def test_a_message_takes_two_overheads_and_the_latency(machine: LogPMachine) -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            proc.send(1, "x")
        else:
            assert proc.recv() == Message(0, "x")
        return proc.time

    L, o = machine.L, machine.o
    assert simulate(program, machine=machine).results == [o, 2 * o + L]
    assert simulate(program, machine=machine, schedule="earliest").results == [o, 2 * o + 1]


@pytest.mark.parametrize("machine", each_machine(2), ids=str)
def test_ping_pong_takes_twice_two_overheads_and_the_latency(machine: LogPMachine) -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.send(1, None)
            proc.recv()
        else:
            proc.recv()
            proc.send(0, None)

    done = simulate(program, machine=machine)
    assert done.time == 2 * (2 * machine.o + machine.L)
    assert done.busy.tolist() == [2 * machine.o] * 2
    assert done.finished.tolist() == [done.time, done.time - machine.o - machine.L]


@pytest.mark.parametrize("machine", each_machine(6), ids=str)
@pytest.mark.parametrize("h", [1, 2, 7])
def test_an_h_relation_of_senders_and_receivers_takes_2o_and_a_gap_each_and_the_latency(
    machine: LogPMachine, h: int
) -> None:
    def program(proc: Processor) -> None:
        for k in range(h):
            if proc.pid < 3:
                proc.send(3 + (proc.pid + k) % 3, k)
            else:
                proc.recv()

    done = simulate(program, machine=machine)
    assert done.time == 2 * machine.o + machine.G * (h - 1) + machine.L
    assert done.stalled == 0
    assert done.in_transit.tolist() == [0] * 3 + [min(h, machine.capacity)] * 3


def test_a_broadcast_on_the_optimal_tree_takes_24_steps_on_the_machine_of_the_literature() -> None:
    """P = 8, L = 6, g = 4, o = 2: figure 3 of *LogP: Towards a Realistic Model of Parallel Computation*."""
    children = {0: (1, 2, 3, 4), 1: (5, 6), 2: (7,)}

    def program(proc: Processor) -> int:
        if proc.pid != 0:
            proc.recv()
        received = proc.time
        for child in children.get(proc.pid, ()):
            proc.send(child, "datum")
        return received

    done = simulate(program, machine=LogPMachine(8, L=6, o=2, G=4))
    assert done.results == [0, 10, 14, 18, 22, 20, 24, 24]
    assert done.time == 24


def test_a_hot_spot_stalls_its_senders_as_the_stalling_rule_says() -> None:
    """L = 4, G = 2: two in transit. Submitted are four in step 1; steps 1, 1, 4 and 5 accept them."""

    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            return [(proc.recv().source, proc.time) for _ in range(4)]
        proc.send(0, None)
        counted[proc.pid] = proc.stalls, proc.stalled_seconds
        return proc.time

    counted: dict[int, tuple[int, float]] = {}
    done = simulate(program, machine=LogPMachine(5, L=4, o=1, G=2, step=0.5))
    assert counted == {1: (0, 0), 2: (0, 0), 3: (1, 1.5), 4: (1, 2.0)}
    assert done.trace.source.tolist() == [1, 2, 3, 4]
    assert done.trace.submission.tolist() == [1, 1, 1, 1]
    assert done.trace.acceptance.tolist() == [1, 1, 4, 5]
    assert done.trace.delivery.tolist() == [5, 4, 8, 9]
    assert done.trace.acquisition.tolist() == [7, 5, 9, 11]
    assert done.results == [[(2, 5), (1, 7), (3, 9), (4, 11)], 1, 1, 4, 5]
    assert done.stalls.tolist() == [0, 0, 0, 3, 4]
    assert (done.time, done.stalled, done.max_in_transit) == (11, 7, 2)
    assert done.busy.tolist() == [4, 1, 1, 1, 1]
    assert done.idle.tolist() == [7, 10, 10, 7, 6]
    last_in = simulate(program, machine=LogPMachine(5, L=4, o=1, G=2), schedule="adversary")
    assert last_in.trace.acceptance.tolist() == [4, 5, 1, 1] or last_in.trace.acceptance.tolist() == [5, 4, 1, 1]


@pytest.mark.parametrize(("L", "G"), [(12, 3), (12, 4), (12, 12), (12, 2)])
def test_where_senders_stall_the_medium_delivers_one_a_gap(L: int, G: int) -> None:
    """The highest rate that the bandwidth allows (section 2.2): capacity messages every L steps, for L a multiple."""
    senders, each = 40, 5

    def program(proc: Processor) -> None:
        if proc.pid == 0:
            receive(proc, senders * each)
        else:
            for k in range(each):
                proc.send(0, k)

    machine = LogPMachine(senders + 1, L=L, o=1, G=G)
    done = simulate(program, machine=machine)
    done._check()
    delivered = np.sort(done.trace.delivery)
    first = 1 + L - machine.capacity + 1  # latest delivers what it accepts together in the last steps that it may
    assert delivered[0] == first
    assert (delivered[machine.capacity :] - delivered[: -machine.capacity] == L).all()
    assert done.time <= 1 + L + G * senders * each + 1
    assert done.stalls[0] == 0
    assert (done.stalls[1:] > 0).sum() >= senders - machine.capacity


def test_after_a_stall_the_register_is_free_one_step_after_the_acceptance() -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            receive(proc, 4)
        else:
            for k in range(2):
                proc.send(0, k)

    done = simulate(program, machine=LogPMachine(3, L=2, o=0, G=2))  # capacity 1
    trace = done.trace
    assert trace.source.tolist() == [1, 2, 1, 2]
    assert trace.submission.tolist() == [0, 0, 2, 3]
    assert trace.acceptance.tolist() == [0, 2, 4, 6]
    done._check()


def test_gaps_keep_submissions_apart_and_acquisitions_apart_but_not_one_from_the_other() -> None:
    def program(proc: Processor) -> Any:
        times = []
        for _ in range(3):
            proc.send(1 - proc.pid, None)
            times.append(proc.time)
        for _ in range(3):
            proc.recv()
            times.append(proc.time)
        return times

    done = simulate(program, machine=LogPMachine(2, L=8, o=1, G=4), schedule="earliest")
    # Submitted at 1, 5 and 9; acquisitions begin when the last is accepted, with four steps between beginnings.
    assert done.results == [[1, 5, 9, 10, 14, 18]] * 2
    assert done.busy.tolist() == [6, 6]
    # With two overheads in a gap both go on at the same time.
    both = simulate(lambda proc: [(proc.send(1 - proc.pid, 0), proc.recv()) for _ in range(3)] and proc.time, 2)
    machine = both.machine
    assert both.results == [3 * (2 * machine.o + machine.L)] * 2


def test_compute_takes_its_steps_and_needs_a_whole_number() -> None:
    def program(proc: Processor) -> Any:
        proc.compute(0)
        proc.compute(np.int64(5))  # type: ignore[arg-type]
        for wrong in (-1, 1.0, True, "3", None):
            with pytest.raises(UsageError, match=r"proc\.compute: argument steps: expected a whole number"):
                proc.compute(wrong)  # type: ignore[arg-type]
        return proc.time

    done = simulate(program, 3)
    assert done.results == [5, 5, 5]
    assert done.busy.tolist() == [5, 5, 5]
    assert type(done.results[0]) is int


def test_an_execution_of_two_to_the_63_steps_is_an_error() -> None:
    def one(proc: Processor) -> Any:
        return proc.send(0, np.zeros(100)) if proc.pid else proc.recv()

    def late(proc: Processor) -> Any:
        return proc.recv(until=2**63 - 1)

    words = LogPMachine(2, L=16, o=1, G=4, step=1e-15, G_word=1e6)
    endless = LogPMachine(2, L=16, o=1, G=4, step=1e-290, G_word=1e300)
    assert simulate(late, p=2).time == 2**63 - 1
    calls: list[Callable[[], Any]] = [
        lambda: simulate(lambda proc: [proc.compute(2**62) for _ in range(3)], p=2),
        lambda: simulate(lambda proc: proc.compute(1), p=2, starts=[2**63 - 1, 0]),
        lambda: simulate(lambda proc: (late(proc), proc.compute(1)), p=2),
        lambda: simulate(one, machine=words),
        lambda: simulate(one, machine=endless),
        lambda: Goal([[Operation(RECV, 10**12, 1)], [Operation(SEND, 10**12, 0)]]).simulate(words),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=r"^pybsp\.logp: the execution takes 2\^63 steps or more: .* step longer"):
            call()


def test_poll_takes_a_step_without_a_message_and_the_overhead_with_one() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            proc.send(1, "x")
            return None
        empty = 0
        while (message := proc.poll()) is None:
            empty += 1
        return empty, message.payload, proc.time

    machine = LogPMachine(2, L=7, o=2, G=3)
    done = simulate(program, machine=machine)
    # Delivered at 9: the polls that begin in steps 0 to 8 find nothing.
    assert done.results[1] == (9, "x", 11)
    assert done.busy[1] == 11
    assert simulate(program, machine=machine, schedule="earliest").results[1] == (3, "x", 5)


def test_poll_of_a_message_that_is_there_waits_for_the_gap() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid != 2:
            proc.send(2, proc.pid)
            return None
        proc.compute(20)
        return [(proc.poll().payload, proc.time) for _ in range(2)], proc.poll()  # type: ignore[union-attr]

    assert simulate(program, machine=LogPMachine(3, L=9, o=1, G=4)).results[2] == ([(1, 21), (0, 25)], None)


def delivered_at(*steps: int) -> Callable[[int, int, int], int]:
    """A schedule that delivers what processor k sends at steps[k]."""
    return lambda source, dest, accepted: steps[source] - accepted


@pytest.mark.parametrize(
    ("until", "time"),
    [(3, 3), (9, 9), (10, 11), (11, 11), (50, 11), (None, 11)],
    ids=["long before", "a step before", "in its step", "a step after", "long after", "for ever"],
)
def test_recv_until_gives_none_if_no_acquisition_could_begin_by_then(until: int | None, time: int) -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            proc.send(1, "x")
            return None
        got = proc.recv(until)
        at = proc.time
        if got is None:
            proc.recv()
        return got is not None, at, proc.time

    machine = LogPMachine(2, L=12, o=1, G=3)
    got, at, ended = simulate(program, machine=machine, schedule=delivered_at(10)).results[1]
    assert got == (until is None or until >= 10)
    assert at == time
    assert ended == 11


def test_recv_until_counts_the_gap() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid < 2:
            proc.send(2, proc.pid)
            return None
        proc.recv()  # begins at 5
        # The second is there from 6 on; its acquisition can begin at 9.
        return (
            [proc.time]
            + [(proc.recv(until=until) is not None, proc.time) for until in (6, 8)]
            + [(proc.recv(until=9) is not None, proc.time)]
        )

    machine = LogPMachine(3, L=12, o=1, G=4)
    done = simulate(program, machine=machine, schedule=delivered_at(5, 6))
    assert done.results[2] == [6, (False, 6), (False, 8), (True, 10)]


def test_recv_until_a_time_that_has_passed_takes_no_time_unless_something_is_there() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid < 2:
            proc.send(2, proc.pid)
            return None
        seen = []
        for wait in (2, 3, 0, 0):
            proc.compute(wait)
            seen.append((proc.recv(until=proc.time - 1) is not None, proc.time))
        return seen

    machine = LogPMachine(3, L=12, o=1, G=4)
    # Both are there at 5: the first is acquired at once, the second after the gap.
    done = simulate(program, machine=machine, schedule=delivered_at(4, 5))
    assert done.results[2] == [(False, 2), (True, 6), (True, 10), (False, 10)]
    with pytest.raises(UsageError, match=r"proc\.recv: argument until: expected a whole number of steps, got 1\.5"):
        simulate(lambda proc: proc.recv(until=1.5), 1)
    with pytest.raises(
        UsageError, match=r"proc\.compute: argument \w+: expected a whole number of steps.*, below 2\^63"
    ):
        simulate(lambda proc: proc.compute(10**30), 1)


def test_a_wake_of_a_wait_that_is_over_does_not_end_a_later_one() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            for at in (3, 30):
                proc.compute(at - proc.time)
                proc.send(1, at)
            return None
        return [(proc.recv(until=10), proc.time), (proc.recv(), proc.time), (proc.recv(until=12), proc.time)]

    machine = LogPMachine(2, L=4, o=0, G=2)
    first, second, third = simulate(program, machine=machine).results[1]
    assert first == (Message(0, 3), 7)
    assert second == (Message(0, 30), 34)
    assert third == (None, 34)


def test_messages_are_received_in_the_order_of_delivery_not_of_sending() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            for k in range(4):
                proc.send(1, k)
            return None
        return receive(proc, 4)

    machine = LogPMachine(2, L=40, o=0, G=2)
    delays = {0: 39, 2: 30, 4: 20, 6: 10}  # by time of acceptance
    done = simulate(program, machine=machine, schedule=lambda source, dest, accepted: delays[accepted])
    assert done.results[1] == [3, 2, 1, 0]


def test_processors_begin_at_their_starts() -> None:
    def program(proc: Processor) -> Any:
        began = proc.time
        proc.send((proc.pid + 1) % 3, began)
        return began, receive(proc, 1), proc.time

    machine = LogPMachine(3, L=6, o=2, G=3)
    done = simulate(program, machine=machine, starts=[0, 100, 7])
    assert done.results == [(0, [7], 17), (100, [0], 104), (7, [100], 110)]
    assert (done.busy + done.stalls + done.idle).tolist() == [110, 10, 103]
    done._check()
    for wrong in ([0, 1], [0, -1, 0], [0, 0.5, 0]):
        with pytest.raises(UsageError, match=r"argument starts: expected 3 times of at least 0"):
            simulate(program, machine=machine, starts=wrong)  # type: ignore[arg-type]


def test_one_processor_alone() -> None:
    done = simulate(lambda proc: (proc.p, proc.pid, proc.compute(3), proc.poll(), proc.recv(until=9), proc.time), 1)
    assert done.results == [(1, 0, None, None, None, 9)]
    assert (done.time, len(done.trace), done.stalled, done.max_in_transit) == (9, 0, 0, 0)
    done._check()
    assert simulate(lambda proc: None, 5).time == 0


def test_a_simulation_is_shown_in_a_line() -> None:
    done = simulate(relay, machine=LogPMachine(3, L=8, o=1, G=4))
    assert repr(done) == "<simulation: 3 processors, 10 steps, stalled 0, 3 messages, at most 1 in transit to one>"
    assert repr(done.trace) == "<trace: 3 messages of 3 processors>"


def test_what_a_program_sees_of_its_processor() -> None:
    machine = LogPMachine(3, 8, 1, 2)
    done = simulate(lambda proc: (proc.p, proc.pid, proc.machine is machine, proc.timed, proc.time), machine=machine)
    assert done.results == [(3, pid, True, True, 0) for pid in range(3)]
    assert done.machine is machine


def test_arguments_go_to_every_processor() -> None:
    done = simulate(lambda proc, a, *, b: (proc.pid, a, b), 2, args=(1,), kwargs={"b": 2})
    assert done.results == [(0, 1, 2), (1, 1, 2)]


@pytest.mark.whole
def test_a_hundred_thousand_messages_to_one_processor() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            return len(receive(proc, 99_900))
        for k in range(300):
            proc.send(0, k)
        return None

    done = simulate(program, machine=LogPMachine(334, L=20, o=1, G=4))
    assert done.results[0] == 99_900
    assert done.max_in_transit == 5
    assert done.stalled > 10**7
    done._check()


# Deadlocks, messages that nobody receives, failures


@pytest.mark.fast
@pytest.mark.parametrize(
    ("p", "waiting", "text"),
    [
        (1, {0}, "processor 0 (since time 0) waits in recv for messages that nobody will send: it has no others, and"),
        (2, {1}, "processor 1 (since time 2) waits in recv for messages that nobody will send: the other one has end"),
        (2, {0, 1}, "processors 0 (since time 0) and 1 (since time 2) wait in recv for messages that nobody will sen"),
        (3, {0, 1, 2}, "since time 4) wait in recv for messages that nobody will send: all processors wait, and noth"),
        (4, {1, 3}, "processors 1 (since time 2) and 3 (since time 6) wait in recv for messages that nobody will sen"),
        (4, {1, 3}, "all others have ended, and nothing is in transit"),
        (30, set(range(30)), "(since time 18) and 20 more wait in recv"),
    ],
)
def test_waiting_for_ever_is_an_error_that_names_who_waits_and_what_the_others_did(
    p: int, waiting: set[int], text: str
) -> None:
    def program(proc: Processor) -> None:
        if proc.pid in waiting:
            proc.compute(2 * proc.pid)
            proc.recv()

    with pytest.raises(DeadlockError) as caught:
        simulate(program, p)
    assert text in str(caught.value)


def test_a_deadlock_says_what_lies_unreceived() -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.send(2, "to the wrong one")
        elif proc.pid == 1:
            proc.recv()

    with pytest.raises(DeadlockError, match=r"processor 1 .*messages that were not received: 1 to processor 2$"):
        simulate(program, 3)


def test_messages_that_nobody_receives_are_an_error_that_names_for_whom() -> None:
    def program(proc: Processor) -> None:
        if proc.pid < 2:
            for _ in range(2 + proc.pid):
                proc.send(2 + proc.pid, None)
        elif proc.pid == 2:
            proc.recv()

    with pytest.raises(UnreceivedError, match=r"4 messages were not received: 1 to processor 2 and 3 to processor 3;"):
        simulate(program, 4)


def test_what_a_program_raises_is_raised_with_a_note_of_where() -> None:
    def program(proc: Processor) -> None:
        proc.compute(7)
        if proc.pid == 2:
            raise KeyError("mine")
        proc.recv()

    with pytest.raises(KeyError, match="mine") as caught:
        simulate(program, 4)
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["(on processor 2 of 4 of the LogP machine, time 7)"]


def test_of_several_failures_the_first_in_time_is_raised() -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.compute(100)
            raise ValueError("late")
        if proc.pid == 1:
            proc.send(2, None)
        if proc.pid == 2:
            proc.recv()  # ends at 18
            raise ValueError("early")

    for schedule in SCHEDULES:
        with pytest.raises(ValueError, match="early"):
            simulate(program, 3, schedule=schedule)


def test_sys_exit_ends_the_simulation_and_is_no_success() -> None:
    def leave(proc: Processor, status: Any) -> None:
        if proc.pid == 1:
            sys.exit(status)
        proc.recv()

    with pytest.raises(SystemExit, match="3"):
        simulate(leave, 3, args=(3,))
    for status in (None, 0):
        with pytest.raises(ProcessorError, match=r"processor 1 called sys\.exit at time 0") as caught:
            simulate(leave, 3, args=(status,))
        assert caught.value.pid == 1
    with pytest.raises(SystemExit):
        simulate(lambda proc: sys.exit(), 1)


@pytest.mark.parametrize("status", [None, 0, 3, "bad input"])
def test_sys_exit_of_all_processors_is_the_end_that_they_ask_for_as_in_bsp(status: Any) -> None:
    def leave(proc: Processor, but: int) -> None:
        proc.compute(10 * proc.pid)
        if proc.pid != but:
            sys.exit(status)

    def leave_bsp(bsp: pybsp.BSP) -> None:
        sys.exit(status)

    for run in (lambda: simulate(leave, 4, args=(-1,)), lambda: pybsp.simulate(leave_bsp, p=4)):
        with pytest.raises(SystemExit) as caught:
            run()
        assert caught.value.code == status
    if not status:
        with pytest.raises(ProcessorError, match=r"processor 1 called sys\.exit at time 10"):
            simulate(leave, 4, args=(0,))


def test_a_failure_before_an_exit_in_time_is_raised() -> None:
    def program(proc: Processor, status: int) -> None:
        proc.compute(100 - 10 * proc.pid)
        if proc.pid == 0:
            sys.exit(status)
        raise ValueError(f"of {proc.pid}")

    for status in (0, 3):
        with pytest.raises(ValueError, match="of 2"):
            simulate(program, 3, args=(status,))


def test_a_keyboard_interrupt_passes_through() -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 1:
            raise KeyboardInterrupt
        proc.recv()

    with pytest.raises(KeyboardInterrupt):
        simulate(program, 3)


def test_processors_that_are_left_are_ended_with_their_finally_clauses() -> None:
    ended = []

    def program(proc: Processor) -> None:
        try:
            if proc.pid == 3:
                proc.compute(50)
                raise LookupError
            proc.recv()
        finally:
            ended.append(proc.pid)
            if proc.pid == 0:
                proc.send(1, "too late")  # ends it here
            elif proc.pid == 1:
                raise ValueError("in finally")
            proc.compute(1)

    with pytest.raises(LookupError):
        simulate(program, 4)
    assert sorted(ended) == [0, 1, 2, 3]


@pytest.mark.timeout(60)
def test_a_program_that_catches_everything_is_left_behind(capfd: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []

    def stubborn(proc: Processor) -> None:
        try:
            while True:
                try:
                    proc.recv() if proc.pid < 2 else proc.send((proc.pid + 1) % 4, None)
                except:  # noqa: E722, PERF203
                    continue
        finally:
            ended.append(proc.pid)

    def impatient(proc: Processor) -> None:
        if proc.pid == 3:
            proc.compute(100)
            raise KeyError("mine")
        stubborn(proc)

    with pytest.raises(DeadlockError):
        simulate(stubborn, 2)
    with pytest.raises(KeyError, match="mine"):
        simulate(impatient, 4)
    assert simulate(lambda proc: proc.pid, 4).results == [0, 1, 2, 3]
    gc.collect()
    assert ended == []
    assert capfd.readouterr().err == ""


def test_finally_clauses_that_wait_or_exit_do_not_keep_those_around_them_from_ending() -> None:
    ended: list[Any] = []

    def program(proc: Processor) -> None:
        try:
            try:
                proc.recv()
            finally:
                if proc.pid == 0:
                    sys.exit(3)
                proc.compute(5)
                proc.send(0, "bye")
                ended.append("not reached")
        finally:
            ended.append(proc.pid)

    with pytest.raises(DeadlockError) as caught:
        simulate(program, 3)
    assert ended == [0, 1, 2]
    assert "since time 5" not in str(caught.value)


def test_numpy_integers_are_numbers() -> None:
    machine = LogPMachine(3, L=8, o=1, G=4)
    for starts in ((5, 0, 7), np.array([5, 0, 7]), [np.uint8(5), 0, np.int32(7)]):
        given: Any = {"p": np.int64(3), "seed": np.int32(4), "starts": starts}
        done = simulate(relay, machine=machine, schedule="random", **given)
        again = simulate(relay, 3, machine, "random", seed=4, starts=[5, 0, 7])
        assert done.trace.delivery.tolist() == again.trace.delivery.tolist()
        assert (done.machine, done.time, type(done.machine.p)) == (machine, again.time, int)
    for wrong in ((5, 0), (5, 0, -1), (5, 0, True), (5, 0, 1.0), np.zeros(3), 3, (0, 0, 2**70)):
        with pytest.raises(UsageError, match="argument starts: expected 3 times of at least 0, got "):
            simulate(relay, machine=machine, starts=wrong)  # type: ignore[arg-type]


def test_an_error_that_a_program_catches_is_its_own_business() -> None:
    def program(proc: Processor) -> Any:
        for wrong in (proc.pid, -1, 2, 1.0, None, True, np.int64(7)):
            expected = r"proc\.send: argument dest: expected another processor, from 0 to 1"
            with pytest.raises(UsageError, match=expected) as raised:
                proc.send(wrong, None)  # type: ignore[arg-type]
            assert ("keep what is for this processor in a variable" in str(raised.value)) == (wrong is proc.pid)
        with pytest.raises(UsageError, match=r"proc\.send: argument payload: expected something that can be pickled"):
            proc.send(1 - proc.pid, lambda: None)
        proc.send(np.int32(1 - proc.pid), "x")  # type: ignore[arg-type]
        return proc.time, proc.recv()

    done = simulate(program, machine=LogPMachine(2, L=8, o=1, G=4))
    assert done.results == [(1, (1, "x")), (1, (0, "x"))]
    assert done.busy.tolist() == [2, 2]


class Generating:
    """A program that is an object; it runs nothing."""

    def __call__(self, proc: Processor) -> Any:
        yield proc.pid

    def __repr__(self) -> str:
        return "generating"


class Asynchronous(Generating):
    """Likewise."""

    async def __call__(self, proc: Processor) -> Any:
        return proc.pid


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"program": 3}, "argument program: expected a function of a LogP processor, got 3"),
        (
            {"program": Generating()},
            "got a generator, generating, which runs nothing when it is called: it has a yield",
        ),
        ({"program": Asynchronous()}, "got an async one, generating, which runs nothing when it is called; use def"),
        ({"p": 0}, "argument p: expected a whole number from 1 to 2147483647, got 0"),
        ({"p": 1 << 70}, "argument p: expected a whole number from 1 to 2147483647, got 1180591620717411303424"),
        ({"p": True}, "argument p: expected a whole number"),
        ({"p": 2.0}, "argument p: expected a whole number"),
        ({"p": None}, "expected p, the number of processors, or machine"),
        ({"machine": pybsp.BSPMachine(2, 1.0, 1.0, 1.0)}, "argument machine: expected a pybsp.LogPMachine, got BSPMac"),
        ({"machine": LogPMachine(2, L=8, o=1, G=1)}, "max{2, o} <= G <= L does not hold: G = 1 is below 2"),
        ({"machine": LogPMachine(2, L=8, o=4, G=3)}, "G = 3 is below o = 4"),
        ({"machine": LogPMachine(2, L=3, o=1, G=4)}, "G = 4 is above L = 3"),
        ({"schedule": "soonest"}, "argument schedule: expected 'latest', 'earliest', 'adversary', 'random', a pybsp"),
        ({"schedule": 7}, "argument schedule"),
        ({"schedule": np.arange(3)}, "argument schedule"),
        ({"schedule": pybsp.logp.Schedule}, "gives a delay, got the class Schedule; make one: Schedule()"),
        ({"schedule": type}, "gives a delay, got <class 'type'>"),
        ({"args": 5}, "argument args: expected a sequence of the program's arguments, got 5"),
        ({"args": np.array(3)}, "argument args: expected a sequence of the program's arguments, got array(3)"),
        ({"kwargs": [1]}, "argument kwargs: expected a mapping from names of arguments, or None, got [1]"),
        ({"kwargs": {1: 2}}, "argument kwargs: expected a mapping from names of arguments, or None, got {1: 2}"),
        ({"starts": np.array(3)}, "argument starts: expected 2 times of at least 0, got array(3)"),
        ({"schedule": "random", "seed": 1.5}, "argument seed: expected a whole number, got 1.5"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    given = {"program": lambda proc: None, "p": 2, **arguments}
    with pytest.raises(UsageError) as caught:
        simulate(given.pop("program"), given.pop("p"), **given)
    assert str(caught.value).startswith("pybsp.logp.simulate: ")
    assert text in str(caught.value)


def test_the_machine_is_the_argument_else_the_file_in_force_else_nominal(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYBSP_MACHINE", raising=False)
    assert simulate(lambda proc: None, 3).machine == LogPMachine.nominal(3)
    assert not simulate(lambda proc: None, 3).machine.calibrated
    LogPMachine(6, L=9, o=1, G=4, step=2.0).save(tmp_path / "machine.json")
    monkeypatch.setenv("PYBSP_MACHINE", str(tmp_path / "machine.json"))
    found = simulate(lambda proc: None).machine
    assert (found.p, found.L, found.o, found.G) == (6, 9, 1, 4)
    assert simulate(lambda proc: None, 3).machine.p == 3
    assert simulate(lambda proc: None, machine=LogPMachine(2, 8, 1, 2)).machine == LogPMachine(2, 8, 1, 2)
    assert simulate(lambda proc: None, 5, LogPMachine(2, 8, 1, 2)).machine == LogPMachine(5, 8, 1, 2)
    # A file with other parts only: the nominal machine.
    pybsp.BSPMachine(4, 1e-9, 1e-6, 1e9).save(tmp_path / "bsp.json")
    monkeypatch.setenv("PYBSP_MACHINE", str(tmp_path / "bsp.json"))
    assert simulate(lambda proc: None, 3).machine == LogPMachine.nominal(3)


# Simulations inside of others


def relay(proc: Processor) -> Any:
    proc.send((proc.pid + 1) % proc.p, proc.pid)
    return receive(proc, 1)


def test_a_program_may_simulate_inside() -> None:
    def outer(proc: Processor) -> Any:
        before = proc.time
        inner = simulate(relay, 4).results
        proc.send((proc.pid + 1) % proc.p, inner)
        assert before == 0
        return receive(proc, 1), simulate(lambda innermost: simulate(relay, 2).results, 2).results

    expected = [[3], [0], [1], [2]]
    assert simulate(outer, 3).results == [([expected], [[[1], [0]]] * 2)] * 3


def test_a_failure_inside_a_simulation_inside_is_an_ordinary_one() -> None:
    def outer(proc: Processor) -> str:
        with pytest.raises(DeadlockError):
            simulate(lambda inner: inner.recv(), 3)
        with pytest.raises(ZeroDivisionError):
            simulate(lambda inner: inner.pid == 1 and 1 // 0, 3)
        relay(proc)
        return "well"

    assert simulate(outer, 3).results == ["well"] * 3


def test_bsp_processors_may_simulate_and_sync_inside_of_logp_programs() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        sums: list[int] = []

        def program(proc: Processor) -> Any:
            got = relay(proc)
            if proc.pid == 1:
                bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
                bsp.sync()
                sums.extend(m.payload for m in bsp.inbox)
            return got

        return simulate(program, 3).results, sums

    done = pybsp.simulate(main, p=4)
    assert done.results == [([[2], [0], [1]], [(pid - 1) % 4]) for pid in range(4)]


def test_only_its_own_program_may_use_a_processor() -> None:
    all_processors: dict[int, Processor] = {}

    def other(proc: Processor) -> Any:
        all_processors[proc.pid] = proc
        if proc.pid == 0:
            proc.compute(5)
            proc.poll()
            with pytest.raises(UsageError, match=r"proc\.send: called outside of the program of processor 1"):
                all_processors[1].send(0, None)
            with pytest.raises(UsageError, match=r"proc\.recv: called outside of the program of processor 1"):
                all_processors[1].recv()
            with pytest.raises(UsageError, match=r"proc\.poll: called outside of the program of processor 1"):
                all_processors[1].poll()
            with pytest.raises(UsageError, match=r"proc\.compute: called outside of the program of processor 1"):
                all_processors[1].compute(5)
            for call in (
                all_processors[2].recv,
                all_processors[2].poll,
                lambda: all_processors[2].recv(until=0),
                lambda: all_processors[2].recv(until=900),
            ):
                with pytest.raises(UsageError, match=r"called outside of the program of processor 2"):
                    call()  # what has been delivered there is not its own
            proc.send(2, "go")
        elif proc.pid == 1:
            proc.send(2, "early")
        elif proc.pid == 2:
            proc.compute(1)
            return [proc.recv().payload for _ in range(2)], proc.time
        return None

    def inside(proc: Processor) -> None:
        with pytest.raises(UsageError, match=r"proc\.send: called outside of the program of processor 0"):
            simulate(lambda inner: proc.send(1, None), 1)

    results = simulate(other, machine=LogPMachine(3, L=8, o=1, G=4), schedule="earliest").results
    assert results == [None, None, (["early", "go"], 9)]
    with pytest.raises(UsageError, match=r"called outside of the program of processor 0: .*or after its end"):
        all_processors[0].send(1, None)
    simulate(lambda proc: inside(proc) if proc.pid == 0 else None, 2)


# What must not interfere, and what must repeat


def busy_half(proc: Processor, members: range, seed: int, messages: int) -> Any:
    """All to all with random order and polls, in a subset; what was received, and when."""
    draw = np.random.default_rng((seed, proc.pid))
    others = [pid for pid in members if pid != proc.pid]
    seen: list[Any] = []
    for k in range(messages):
        dest = others[0] if draw.random() < 0.5 else others[int(draw.integers(len(others)))]
        proc.send(dest, (proc.pid, k))
        if draw.random() < 0.5:
            seen.append((proc.poll(), proc.time))
        proc.compute(int(draw.integers(4)))
    while (message := proc.recv(until=2000)) is not None:
        seen.append((message, proc.time))
    return seen


def part(done: Simulation, members: range) -> list[list[int]]:
    trace = done.trace
    mine = np.isin(trace.source, members)
    return [
        column[mine].tolist()
        for column in (
            trace.source,
            trace.dest,
            trace.submission,
            trace.acceptance,
            trace.delivery,
            trace.acquisition,
        )
    ]


@pytest.mark.whole
@pytest.mark.parametrize("schedule", [*SCHEDULES, lambda source, dest, accepted: 1 + (source + accepted) % 9])
@pytest.mark.parametrize("seed", range(8))
def test_programs_on_disjoint_processors_do_not_disturb_one_another(schedule: Any, seed: int) -> None:
    left, right = range(4), range(4, 10)

    def program(proc: Processor, other: int) -> Any:
        if proc.pid in left:
            return busy_half(proc, left, 1, 12)
        return busy_half(proc, right, other, 15 * (other > 0)) if other >= 0 else None

    runs = [
        simulate(program, machine=LogPMachine(10, L=9, o=1, G=9), schedule=schedule, seed=seed, args=(other,))
        for other in (-1, 0, 1, 2)
    ]
    assert runs[0].stalled > 0
    for done in runs:
        done._check()
        assert part(done, left) == part(runs[0], left)
        assert done.results[:4] == runs[0].results[:4]
    assert part(runs[2], right) != part(runs[3], right)


@pytest.mark.whole
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_same_seed_gives_the_same_execution(schedule: str) -> None:
    members = range(6)

    def once(seed: int) -> tuple[Any, Any]:
        done = simulate(
            busy_half, machine=LogPMachine(6, L=9, o=1, G=3), schedule=schedule, seed=seed, args=(members, 5, 20)
        )
        return part(done, members), done.results

    for seed in range(14):
        assert once(seed) == once(seed)
    assert len({str(once(seed)) for seed in range(14)}) == (14 if schedule == "random" else 1)


# Payloads

ODD_ARRAYS: list[np.ndarray[Any, Any]] = [
    np.arange(6)[::2],
    np.arange(12).reshape(3, 4).T,
    np.broadcast_to(np.arange(3), (2, 3)),
    np.zeros(2, "M8[s]"),
    np.zeros(2, [("a", "i1"), ("b", "f8")]),
    np.array([{"a": 1}, None], dtype=object),
    np.empty((0, 4)),
]

PAYLOADS = [
    None,
    True,
    5,
    2.5,
    3j,
    "text",
    b"bytes",
    (1, ("two", None)),
    [1, [2]],
    {"a": {1, 2}},
    np.float32(2.5),
    np.datetime64("2020-01-01"),
    np.arange(6),
    np.arange(12).reshape(3, 4)[:, ::2],  # a view
    np.asfortranarray(np.ones((2, 3))),
    np.array(3.0),
    np.empty((0, 4)),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.arange(3, dtype=">i4"),
    np.array(["x", "yz"]),
    np.array([{"a": 1}, None], dtype=object),
    np.ma.masked_array([1, 2], [True, False]),
    (7, np.arange(3)),
    (7, (8, np.arange(3))),
    *((0, odd) for odd in ODD_ARRAYS),
    [np.arange(3), "x"],
    bytearray(b"buffer"),
    memoryview(b"view"),
    array.array("d", [1.0, 2.0]),
    ValueError("as a payload"),
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: repr(payload)[:40].partition(" at 0x")[0])
def test_payloads_arrive_as_in_bsp(payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.send(1 - bsp.pid, payload)
        bsp.sync()
        return described(bsp.inbox[0].payload)

    def program(proc: Processor) -> Any:
        proc.send(1 - proc.pid, payload)
        return described(receive(proc, 1)[0])

    assert simulate(program, 2).results == pybsp.simulate(main, p=2).results


def described(thing: Any) -> Any:
    """Type, value, and for arrays all that a program can rely on."""
    if isinstance(thing, np.ndarray):
        return type(thing), thing.dtype, thing.shape, thing.tolist(), thing.flags.writeable
    if isinstance(thing, memoryview):
        return thing.format, thing.shape, thing.tolist(), thing.readonly
    if isinstance(thing, (tuple, list)):
        return type(thing), [described(item) for item in thing]
    if isinstance(thing, dict):
        return {key: described(value) for key, value in thing.items()}
    return type(thing), repr(thing)


def test_payloads_are_copied_at_the_call_and_arrays_are_read_only() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            array_, inside, list_ = np.zeros(3), np.zeros(3), [0]
            record = np.zeros(1, [("a", "f8")])[0]
            proc.send(1, record)
            record["a"] = 9
            proc.send(1, array_)
            proc.send(1, (1, inside))
            proc.send(1, list_)
            proc.send(1, {"a": inside})
            array_[:] = inside[:] = list_[0] = 9
            return None
        record, first, (_, second), third, fourth = receive(proc, 5)
        assert record["a"] == 0
        for got in (first, second, fourth["a"]):
            assert not got.any()
            with pytest.raises(ValueError, match="read-only"):
                got[0] = 1
        third.append(1)  # an object of its own
        return third

    assert simulate(program, machine=LogPMachine(2, L=8, o=1, G=8)).results[1] == [0, 1]


class Unreadable:
    """Can be sent, and not be read where it arrives."""

    def __reduce__(self) -> Any:
        return int, ("three",)


@pytest.mark.fast
@pytest.mark.parametrize("payload", [Unreadable(), [Unreadable()], (1, Unreadable()), np.array([Unreadable()])])
def test_what_cannot_be_read_is_an_error_of_its_receiver(payload: Any) -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.send(1, payload)
        else:
            with pytest.raises(ValueError, match="invalid literal for int"):
                proc.recv()

    def timed(proc: Processor) -> int:
        program(proc)
        return proc.time

    assert simulate(timed, machine=LogPMachine(2, L=8, o=1, G=4)).results == [1, 10]
    assert check(program, 2).ok


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take no notes")
@pytest.mark.parametrize("payload", [Unreadable(), [Unreadable()]])
def test_what_cannot_be_read_says_so_and_names_no_other_sender(payload: Any) -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 1:
            proc.send(0, payload)
        elif proc.pid == 0:
            proc.recv()

    with pytest.raises(ValueError, match="invalid literal for int") as caught:
        simulate(program, machine=LogPMachine(2, L=8, o=1, G=4))
    assert vars(caught.value)["__notes__"][0].startswith("(unpickling what was sent;")


def test_what_two_processors_receive_is_not_shared() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            same = [0]
            proc.send(1, same)
            proc.send(2, same)
            return same
        (got,) = receive(proc, 1)
        got.append(proc.pid)
        return got

    assert simulate(program, 3).results == [[0], [0, 1], [0, 2]]


def test_what_a_step_has_brought_is_not_kept_when_it_is_over() -> None:
    """All payloads that ever were under way are in its events."""
    engine = Engine(LogPMachine(2, L=8, o=2, G=3), Schedule())

    def program(proc: SimulatedProcessor) -> int:
        for k in range(50):
            proc.send(1 - proc.pid, k)
            proc.recv()
        return len(engine._agenda)

    found = engine.run([program, program]).results
    assert max(found) <= 4
    assert not engine._agenda
