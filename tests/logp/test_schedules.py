"""Schedules: what each decides, that all are admissible, and how a wrong one of a user's is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.errors import UsageError
from pybsp.logp import Processor, Schedule, Simulation, simulate
from pybsp.logp.schedule import NAMES, SCHEDULES, Choices, of_seed, schedule_of

MACHINE = LogPMachine(8, L=12, o=1, G=3)  # four in transit to a processor


def to_one(proc: Processor, each: int = 3) -> Any:
    """All others send to processor 0 as soon as they can; what it received, in order."""
    if proc.pid == 0:
        return [proc.recv() for _ in range(each * (proc.p - 1))]
    for k in range(each):
        proc.send(0, (proc.pid, k))
    return None


def many(proc: Processor) -> Any:
    """Random destinations; all is received that comes in time."""
    draw = random.Random(proc.pid)
    for k in range(10):
        proc.send((proc.pid + 1 + draw.randrange(proc.p - 1)) % proc.p, k)
    while proc.recv(until=1000):
        pass


def delays(done: Simulation) -> list[int]:
    return (done.trace.delivery - done.trace.acceptance).tolist()  # type: ignore[no-any-return]


def spaced(proc: Processor) -> None:
    """Twenty messages to 1, no two of which can be in transit together."""
    for k in range(20):
        if proc.pid == 0:
            proc.compute(20)
            proc.send(1, k)
        elif proc.pid == 1:
            proc.recv()


def test_latest_delivers_after_L_and_what_is_accepted_together_in_the_steps_before() -> None:
    assert delays(simulate(spaced, machine=MACHINE)) == [12] * 20
    done = simulate(to_one, machine=MACHINE, args=(1,))
    assert done.trace.acceptance.tolist() == [1, 1, 1, 1, 10, 11, 12]
    assert done.trace.delivery.tolist() == [13, 12, 11, 10, 22, 23, 24]


def test_earliest_delivers_in_the_next_step_that_is_free() -> None:
    assert delays(simulate(spaced, machine=MACHINE, schedule="earliest")) == [1] * 20
    done = simulate(to_one, machine=MACHINE, schedule="earliest", args=(1,))
    assert done.trace.acceptance.tolist() == [1, 1, 1, 1, 2, 3, 4]
    assert done.trace.delivery.tolist() == [2, 3, 4, 5, 6, 7, 8]


def test_adversary_delivers_in_bursts_as_late_as_admissible_and_accepts_the_last_first() -> None:
    def one_after_the_other(proc: Processor) -> None:
        if proc.pid == 0:
            for _ in range(4):
                proc.recv()
        elif proc.pid < 5:
            proc.compute(2 * proc.pid)
            proc.send(0, None)

    done = simulate(one_after_the_other, machine=MACHINE, schedule="adversary")
    assert done.trace.acceptance.tolist() == [3, 5, 7, 9]
    assert done.trace.delivery.tolist() == [15, 16, 17, 18]
    stalling = simulate(to_one, machine=MACHINE, schedule="adversary", args=(1,))
    # Six wait in step 1, of which the last submitted, those of the highest pids, are accepted first.
    accepted = dict(zip(stalling.trace.source.tolist(), stalling.trace.acceptance.tolist(), strict=True))
    assert [pid for pid in accepted if accepted[pid] == 1] == [4, 5, 6, 7]
    assert accepted[3] < accepted[2] < accepted[1]


@pytest.mark.parametrize(
    ("kind", "admits"),
    [
        (0, lambda delays: len(set(delays)) > 6),
        (1, lambda delays: set(delays) == {1, 12}),
        (2, lambda delays: len(set(delays)) == 1),
        (3, lambda delays: set(delays) in ({1}, {12})),
        (4, lambda delays: set(delays) == {12}),
        (5, lambda delays: delays.count(12) > 12 and len(set(delays)) > 1),
        (6, lambda delays: delays.count(1) > 12 and len(set(delays)) > 1),
    ],
)
def test_random_has_seven_kinds_of_delays(kind: int, admits: Any) -> None:
    seen = [delays(simulate(spaced, machine=MACHINE, schedule="random", seed=kind + 7 * k)) for k in range(6)]
    assert sum(map(admits, seen)) >= 4
    assert len(set(map(tuple, seen))) > (kind != 4)


def test_random_of_kind_4_lets_messages_overtake() -> None:
    machine = LogPMachine(2, L=40, o=1, G=4)

    def program(proc: Processor) -> Any:
        if proc.pid == 0:
            for k in range(8):
                proc.send(1, k)
            return None
        return [proc.recv().payload for _ in range(8)]

    assert simulate(program, machine=machine, schedule="random", seed=4).results[1] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_random_accepts_in_any_order_or_by_ranks_of_the_sources() -> None:
    def order(seed: int) -> list[int]:
        trace = simulate(to_one, machine=MACHINE, schedule="random", seed=seed).trace
        return trace.source[np.argsort(trace.acceptance, kind="stable")].tolist()  # type: ignore[no-any-return]

    assert len({tuple(order(seed)) for seed in range(14)}) >= 12
    # By ranks the one that is preferred sends all its messages before another sends its second.
    assert any(order(seed)[:9].count(source) == 3 for seed in range(7, 14) for source in range(1, 8))


def test_negative_seeds_are_the_named_schedules_and_then_spelled_out_choices() -> None:
    def same(first: Simulation, second: Simulation) -> bool:
        return bool((first.trace.delivery == second.trace.delivery).all()) and first.results == second.results

    for k, name in enumerate(NAMES):
        named = simulate(to_one, machine=MACHINE, schedule=name)
        assert same(named, simulate(to_one, machine=MACHINE, schedule="random", seed=-1 - k))
    assert same(simulate(to_one, machine=MACHINE), simulate(to_one, machine=MACHINE, schedule=Choices(0)))
    assert isinstance(of_seed(-4), Choices)
    seen = {str(simulate(to_one, machine=MACHINE, schedule="random", seed=-seed).results) for seed in range(4, 24)}
    assert len(seen) == 20


def test_digits_of_choices_are_free_steps_from_the_latest_on() -> None:
    draw = random.Random(0)
    for _ in range(200):
        L, accepted = draw.randrange(1, 12), draw.randrange(50)
        taken = set(draw.sample(range(accepted - 5, accepted + L + 5), draw.randrange(L + 5)))
        free = [step for step in range(accepted + L, accepted, -1) if step not in taken]
        for digit, step in enumerate(free):
            choices = Choices(digit + 7 * len(free))
            choices.begin(LogPMachine(2, L=L, o=0, G=1))
            assert choices.delivery(1, 0, accepted, taken) == step, (L, accepted, taken, digit)
            assert (choices.radices, choices.rest) == ([len(free)], 7)


def test_choices_of_a_step_do_not_go_through_all_steps() -> None:
    class Taken(set[int]):
        def __contains__(self, step: object) -> bool:
            raise AssertionError("asked for one step after the other")

    choices = Choices(5)
    choices.begin(LogPMachine(2, L=1 << 53, o=0, G=2))
    assert choices.delivery(1, 0, 100, Taken({(1 << 53) + 100, (1 << 53) + 94})) == (1 << 53) + 93


def test_each_name_is_one_of_a_schedule() -> None:
    assert set(SCHEDULES) == {*NAMES, "random"}
    assert len({type(schedule_of(name, 0, "")) for name in SCHEDULES}) == len(SCHEDULES)


def test_where_a_step_is_taken_a_functions_message_comes_at_the_nearest_free_one() -> None:
    machine = LogPMachine(5, L=6, o=0, G=2)

    def three(proc: Processor) -> None:  # all accepted at the same step
        if proc.pid in (1, 2, 3):
            proc.send(0, None)
        if proc.pid == 0:
            for _ in range(3):
                proc.recv()

    def delays(delay: int) -> list[int]:
        trace = simulate(three, machine=machine, schedule=lambda source, dest, accepted: delay).trace
        return sorted((trace.delivery - trace.acceptance).tolist())

    assert delays(2) == [2, 3, 4]
    assert delays(5) == [4, 5, 6]  # L = 6: what would come later comes before
    assert delays(6) == [4, 5, 6]


@pytest.mark.parametrize("seed", [*range(14), -1, -2, -3, -4, -1000, -(10**40)])
@pytest.mark.parametrize("parameters", [(12, 1, 3), (5, 0, 5), (2, 2, 2), (40, 1, 2)])
def test_every_schedule_is_admissible(seed: int, parameters: tuple[int, int, int]) -> None:
    machine = LogPMachine(6, *parameters)
    for program in (to_one, many):
        simulate(program, machine=machine, schedule="random", seed=seed)._check()


def test_a_function_of_source_dest_and_time_gives_the_delay() -> None:
    seen: list[tuple[int, int, int]] = []

    def delay(source: int, dest: int, accepted: int) -> Any:
        seen.append((source, dest, accepted))
        return np.int64(7)

    done = simulate(spaced, machine=MACHINE, schedule=delay)
    assert delays(done) == [7] * 20
    assert [accepted for _, _, accepted in seen] == done.trace.acceptance.tolist()
    assert {pair[:2] for pair in seen} == {(0, 1)}
    # Where a step is taken: the next that is free, or else the last before.
    assert sorted(simulate(to_one, machine=MACHINE, schedule=delay, args=(1,)).trace.delivery[:4]) == [8, 9, 10, 11]
    late = simulate(to_one, machine=MACHINE, schedule=lambda source, dest, accepted: 12, args=(1,))
    assert late.trace.delivery[:4].tolist() == [13, 12, 11, 10]


@pytest.mark.fast
@pytest.mark.parametrize("wrong", [0, 13, -1, 1.0, None, "3", True])
def test_a_function_that_gives_no_admissible_delay_is_refused(wrong: Any) -> None:
    text = r"pybsp\.logp\.simulate: argument schedule: expected its function to give whole steps from 1 to L = 12, got "
    with pytest.raises(UsageError, match=text + r".* for a message from 1 to 0 accepted at 1"):
        simulate(to_one, machine=MACHINE, schedule=lambda source, dest, accepted: wrong)


@pytest.mark.parametrize("kind", [np.asarray, list, tuple])
def test_a_schedule_may_answer_with_numpy_integers(kind: Any) -> None:
    class Numpy(Schedule):
        def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> Any:
            return np.int64(super().delivery(source, dest, accepted, taken))

        def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Any:
            return kind(np.arange(room))

    trace, plain = simulate(to_one, machine=MACHINE, schedule=Numpy()).trace, simulate(to_one, machine=MACHINE).trace
    assert trace.delivery.tolist() == plain.delivery.tolist()


class Mine(Schedule):
    """Gives what it is told."""

    def __init__(self, step: Any = None, indices: Any = None) -> None:
        self.step, self.indices = step, indices

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        if self.step is None:
            return super().delivery(source, dest, accepted, taken)
        return self.step(accepted)  # type: ignore[no-any-return]

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        return super().acceptances(dest, waiting, room) if self.indices is None else self.indices


@pytest.mark.fast
@pytest.mark.parametrize(
    ("step", "text"),
    [
        (lambda accepted: accepted, "accepted at 1, got 1"),
        (lambda accepted: accepted + 13, "accepted at 1, got 14"),
        (lambda accepted: float(accepted + 2), "accepted at 1, got 3.0"),
        (lambda accepted: None, "accepted at 1, got None"),
        (lambda accepted: 13, "accepted at 1, got 13, which is taken"),
    ],
)
def test_a_schedule_with_a_wrong_delivery_is_named(step: Any, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate(to_one, machine=MACHINE, schedule=Mine(step))
    assert str(caught.value).startswith(
        "Mine.delivery: expected a free step from 2 to 13 for a message from processor "
    )
    assert str(caught.value).endswith(text)


@pytest.mark.fast
@pytest.mark.parametrize(
    "indices",
    [
        (),
        (0, 1, 2),
        (0, 1, 2, 2),
        (0, 1, 2, 7),
        (0, 1, 2, -1),
        (0, 1, 2, 3, 4),
        7,
        None,
        (0, 1, 2, 3.0),
        (0, True, 2, 3),
    ],
)
def test_a_schedule_with_wrong_acceptances_is_named(indices: Any) -> None:
    class Wrong(Mine):
        def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
            return indices  # type: ignore[no-any-return]

    with pytest.raises(UsageError, match=r"Wrong\.acceptances: expected 4 different indices below 7, got "):
        simulate(to_one, machine=MACHINE, schedule=Wrong())
    for out_of_range in (range(1, 5), range(4), range(6, 2, -1), [6, 0, 3, 1]):
        with pytest.raises(UsageError, match=r"Mine\.acceptances: expected 1 different"):
            simulate(to_one, machine=MACHINE, schedule=Mine(indices=out_of_range))
    with pytest.raises(UsageError, match=r"expected 4 different indices below 7, got range\(4, 8\)"):
        simulate(to_one, machine=MACHINE, schedule=Mine(indices=range(4, 8)))


def test_a_schedule_sees_who_waits_in_order_of_submission() -> None:
    seen: list[tuple[int, list[int], int]] = []

    class Watching(Schedule):
        def begin(self, machine: LogPMachine) -> None:
            super().begin(machine)
            assert machine == MACHINE

        def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
            assert waiting[:2] == [waiting[0], waiting[1]]
            seen.append((dest, list(waiting), room))
            return [len(waiting) - 1, *range(room - 1)]

    simulate(to_one, machine=MACHINE, schedule=Watching(), args=(1,))._check()
    assert seen == [(0, [1, 2, 3, 4, 5, 6, 7], 4), (0, [4, 5, 6], 1), (0, [4, 5], 1)]


def test_a_schedule_sees_the_steps_of_the_deliveries_to_come() -> None:
    most = 0

    class Watching(Schedule):
        def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
            nonlocal most
            assert all(accepted < step <= accepted + MACHINE.L for step in taken)
            most = max(most, len(taken))
            return super().delivery(source, dest, accepted, taken)

    simulate(many, machine=MACHINE, schedule=Watching())
    simulate(to_one, machine=MACHINE, schedule=Watching())
    assert most == MACHINE.capacity - 1


def test_a_schedule_may_be_used_again() -> None:
    for name in range(-5, 8):
        schedule = of_seed(name)
        first, second = (simulate(to_one, machine=MACHINE, schedule=schedule) for _ in range(2))
        assert first.results == second.results
