"""Phases keep messages apart, and pipelined sends go at the agreed times, however messages are delivered."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.logp import Message, Processor, simulate
from pybsp.routing.logp.combine_broadcast import combine_broadcast, common_start
from pybsp.routing.logp.phases import Phases, period, wait_until
from pybsp.routing.logp.pipelined import pipelined

SCHEDULES = ("latest", "earliest", "adversary", "random")
# Capacity 1, 2, 3 and more; o = 0, G < 2o, o = G, and a G that does not divide L. With (11, 2, 4) an acquisition may
# begin after the last delivery.
PARAMETERS = [(2, 0, 2), (8, 8, 8), (8, 1, 4), (11, 2, 4), (9, 4, 4), (10, 3, 4), (16, 0, 2), (16, 2, 2), (40, 5, 5)]
Sends = list[list[tuple[int, int, Any]]]  # by processor: (slot, dest, payload)


class Untimed:
    """A processor whose machine keeps no times."""

    timed = False

    def __init__(self, proc: Any) -> None:
        self._proc = proc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._proc, name)


def permutations(p: int, slots: int, seed: int = 0) -> Sends:
    """In each slot a partial permutation; some messages go to their sender."""
    draw = np.random.default_rng((seed, p, slots))
    sends: Sends = [[] for _ in range(p)]
    for slot in range(slots):
        for pid, dest in enumerate(draw.permutation(p).tolist()):
            if draw.random() < 0.8:
                sends[pid].append((slot, dest, (pid, slot)))
    return sends


def expected_by(sends: Sends) -> list[list[Message]]:
    got: list[list[Message]] = [[] for _ in sends]
    for pid, some in enumerate(sends):
        for _, dest, payload in some:
            got[dest].append(Message(pid, payload))
    return [sorted(some) for some in got]


def exchange(proc: Any, sends: Sends, slots: int, known: bool, untimed: bool = False) -> Any:
    phases = Phases(Untimed(proc) if untimed else proc)
    start = common_start(phases)
    others = sum(message.source != proc.pid for message in expected_by(sends)[proc.pid])
    got = pipelined(phases, sends[proc.pid], start, slots, others if known else None)
    ended = proc.time
    total = combine_broadcast(phases, len(got), int.__add__)  # what follows at once
    return sorted(got), start, ended, total


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_messages_go_at_their_times_and_all_arrive_in_time_without_a_stall(
    parameters: tuple[int, int, int], known: bool
) -> None:
    L, o, G = parameters
    for p, slots, schedule in itertools.product((1, 2, 5, 9), (0, 1, 12), SCHEDULES):
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        sends = permutations(p, slots)
        done = simulate(exchange, machine=machine, schedule=schedule, seed=slots, args=(sends, slots, known))
        done._check()
        assert done.stalled == 0
        assert [result[0] for result in done.results] == expected_by(sends)
        assert {result[3] for result in done.results} == {sum(map(len, sends))}
        start = done.results[0][1]
        if slots:
            most = 4 * o + (slots - 1) * period(machine) + L
            assert max(result[2] for result in done.results) <= start - o + most
        submitted = set(zip(done.trace.source.tolist(), done.trace.submission.tolist(), strict=True))
        for pid, some in enumerate(sends):
            for slot, dest, _ in some:
                assert dest == pid or (pid, start + slot * period(machine)) in submitted


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_where_nobody_sends_and_receives_it_takes_two_overheads(parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    p, slots = 8, 12
    machine = LogPMachine(p=p, L=L, o=o, G=G)
    sends: Sends = [
        [(slot, 4 + (pid + slot) % 4, slot) for slot in range(slots)] if pid < 4 else [] for pid in range(p)
    ]
    for schedule, known in itertools.product(SCHEDULES, (True, False)):
        done = simulate(exchange, machine=machine, schedule=schedule, seed=3, args=(sends, slots, known))
        assert done.stalled == 0
        most = 2 * o + (slots - 1) * period(machine) + L
        start = done.results[0][1]
        assert max(result[2] for result in done.results[4:]) <= start - o + most


@pytest.mark.parametrize("known", [True, False])
def test_where_nothing_is_timed_all_arrives_too(known: bool) -> None:
    for p, schedule in itertools.product((1, 2, 5), SCHEDULES):
        sends = permutations(p, 9)
        done = simulate(
            exchange, machine=LogPMachine(p=p, L=8, o=1, G=4), schedule=schedule, args=(sends, 9, known, True)
        )
        assert [result[0] for result in done.results] == expected_by(sends)
        assert {result[1] for result in done.results} == {0}


def test_messages_of_later_phases_are_kept_until_their_phase() -> None:
    def program(proc: Processor) -> list[Any]:
        phases = Phases(proc)
        got: list[Any] = []
        for phase in range(3):
            phases.begin()
            if proc.pid == 0:
                phases.send(2, phase)  # 0 runs ahead: its messages arrive before those of 1
            if proc.pid == 1:
                wait_until(proc, 100 * (phase + 1))
                phases.send(2, phase)
            if proc.pid == 2:
                got.append([phases.recv(), phases.recv()])
        return got

    for schedule in SCHEDULES:
        done = simulate(program, machine=LogPMachine(p=3, L=8, o=1, G=4), schedule=schedule)
        assert done.results[2] == [[Message(0, phase), Message(1, phase)] for phase in range(3)]


def test_messages_of_an_earlier_phase_are_there_by_its_number() -> None:
    def program(proc: Processor) -> Any:
        phases = Phases(proc)
        first = phases.begin()
        if proc.pid == 0:
            phases.send(1, "first")
            phases.begin()
            phases.send(1, "second")
            return None
        phases.begin()
        return phases.recv(), phases.recv(phase=first)

    done = simulate(program, machine=LogPMachine(p=2, L=8, o=1, G=4))
    assert done.results[1] == (Message(0, "second"), Message(0, "first"))


def test_a_time_limit_counts_for_messages_of_the_phase_alone() -> None:
    def program(proc: Processor) -> Any:
        phases = Phases(proc)
        phases.begin()
        if proc.pid == 0:
            phases.begin()
            phases.send(1, "later")
            return None
        missed = phases.recv(50)
        ended = proc.time
        none = phases.poll()
        phases.begin()
        return missed, ended, none, phases.recv()

    done = simulate(program, machine=LogPMachine(p=2, L=8, o=1, G=4))
    assert done.results[1] == (None, 50, None, Message(0, "later"))


def test_the_period_lets_a_processor_send_and_acquire_one_message() -> None:
    assert period(LogPMachine(p=2, L=8, o=1, G=4)) == 4
    assert period(LogPMachine(p=2, L=8, o=3, G=4)) == 6
