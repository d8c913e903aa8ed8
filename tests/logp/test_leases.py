"""Credits granted ahead (pybsp/logp/leases.py): never more than there are, and whoever wants one gets it.

Processors here are the protocol alone, on channels that keep the order of each pair; everything else may come in any
order.
"""

from __future__ import annotations

import random
from collections import deque
from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from pybsp.logp.leases import GRANTS, LEAVE, RECALL, REQUEST, Leases

DATA = 0


class One:
    """A processor that sends to these destinations, one after the other."""

    def __init__(self, world: World, pid: int, p: int, capacity: int, program: list[int]) -> None:
        self.pid, self.program, self.world = pid, deque(program), world
        self.sent, self.given, self.arrived, self.announced = [0] * p, [0] * p, [0] * p, [0] * p
        self.incomplete: dict[int, int] = {}  # messages of a source whose data has not come
        self.leases = Leases(capacity, self.arrived, self.announced, self.given, self.sent, partial(self.post))

    def post(self, dest: int, kind: int, number: int) -> None:
        self.announced[dest] = head = self.leases.allowed[dest]
        self.world.channels[self.pid, dest].append((kind, head, number))

    def may_act(self) -> bool:
        return bool(self.program) and (self.leases.needs < 0 or self.leases.has_credit(self.program[0]))

    def act(self) -> None:
        dest = self.program[0]
        if self.leases.has_credit(dest):
            self.leases.needs = -1
            self.program.popleft()
            self.post(dest, DATA, 0)
            self.sent[dest] += 1
        else:
            self.leases.needs = dest
            self.leases.ask(dest)

    def take(self, source: int, late: bool) -> None:
        kind, head, number = self.world.channels[source, self.pid].popleft()
        self.given[source] = head
        if kind == DATA:
            if late or self.incomplete.get(source):
                self.incomplete[source] = self.incomplete.get(source, 0) + 1
            else:
                self.arrive(source)
        elif kind == REQUEST:
            self.leases.asked(source)
        elif kind == LEAVE:
            self.leases.gone(source, number)
        elif kind == RECALL:
            self.leases.recalled(source)
        else:
            assert kind in GRANTS
            self.leases.granted(source, kind, number)

    def arrive(self, source: int) -> None:
        self.arrived[source] += 1
        self.leases.came(source)

    def complete(self, source: int) -> None:
        self.incomplete[source] -= 1
        self.arrive(source)


class World:
    """All processors, and what is on its way; every step is checked."""

    def __init__(self, capacity: int, programs: list[list[int]]) -> None:
        p = len(programs)
        self.capacity = capacity
        self.channels: dict[tuple[int, int], deque[tuple[int, int, int]]] = {
            (a, b): deque() for a in range(p) for b in range(p) if a != b
        }
        self.ones = [One(self, pid, p, capacity, program) for pid, program in enumerate(programs)]

    def steps(self, late: bool) -> list[tuple[Any, ...]]:
        """What can happen next."""
        found: list[tuple[Any, ...]] = [("act", one.pid) for one in self.ones if one.may_act()]
        for (source, dest), channel in self.channels.items():
            if channel:
                found += [("take", dest, source, False)] + [("take", dest, source, True)] * late
        for one in self.ones:
            found += [("complete", one.pid, source) for source, count in one.incomplete.items() if count]
        return found

    def do(self, step: tuple[Any, ...]) -> None:
        name, pid, *rest = step
        getattr(self.ones[pid], name)(*rest)
        self.check()

    def check(self) -> None:
        for one in self.ones:
            flying = sum(other.sent[one.pid] for other in self.ones) - sum(one.arrived)
            assert flying <= one.leases.out <= self.capacity

    def over(self) -> None:
        """Nothing can happen any more: everything is sent, and has arrived."""
        for one in self.ones:
            assert not one.program
            assert sum(other.sent[one.pid] for other in self.ones) == sum(one.arrived)

    def key(self) -> tuple[Any, ...]:
        return (
            tuple(tuple(channel) for channel in self.channels.values()),
            *(
                (
                    tuple(one.program),
                    tuple(one.sent),
                    tuple(one.given),
                    tuple(one.arrived),
                    tuple(one.announced),
                    tuple(
                        tuple(value)
                        if isinstance(value, (list, dict))
                        else frozenset(value)
                        if isinstance(value, set)
                        else value
                        for name, value in sorted(vars(one.leases).items())
                        if isinstance(value, (list, dict, set, int)) and name != "most"
                    ),
                )
                for one in self.ones
            ),
        )


@pytest.mark.fast("one credit")
@pytest.mark.parametrize(
    ("capacity", "programs"),
    [
        pytest.param(1, [[], [0, 0], [0, 0]], id="one credit"),
        pytest.param(2, [[], [0, 0, 0], [0, 0]], id="two credits"),
        pytest.param(1, [[1], [0, 2], [0]], id="to each other"),
        pytest.param(2, [[], [0], [0], [0]], id="fewer credits than senders"),
    ],
)
def test_in_all_orders_nobody_exceeds_the_capacity_or_waits_for_ever(capacity: int, programs: list[list[int]]) -> None:
    seen, left = set(), [World(capacity, programs)]
    while left:
        world = left.pop()
        steps = world.steps(late=False)
        if not steps:
            world.over()
        for step in steps:
            following = deepcopy(world)
            following.do(step)
            if (key := following.key()) not in seen:
                seen.add(key)
                left.append(following)
    assert len(seen) > 100


@pytest.mark.parametrize("seed", range(40))
def test_in_random_orders_too_with_more_processors_and_with_data_that_comes_late(seed: int) -> None:
    chance = random.Random(seed)
    p, capacity = chance.randint(3, 9), chance.randint(1, 7)
    hot = chance.random()
    programs = []
    for pid in range(p):
        others = [other for other in range(p) if other != pid]
        few = chance.randint(0, 60)
        programs.append([others[0] if chance.random() < hot else chance.choice(others) for _ in range(few)])
    world = World(capacity, programs)
    slow = set(chance.sample(range(p), chance.randint(0, p - 1)))  # these mostly do nothing
    while steps := world.steps(late=True):
        quick = [step for step in steps if step[1] not in slow]
        world.do(chance.choice(quick if quick and chance.random() < 0.9 else steps))
    world.over()


def test_a_lone_sender_gets_all_credits_and_two_share_them() -> None:
    world = World(6, [[], [0] * 100, [0] * 100])
    sender, other = world.ones[1:]
    sender.act()
    while not sender.leases.has_credit(0):
        world.do(next(step for step in world.steps(late=False) if step[0] == "take"))
    while sender.leases.has_credit(0):
        sender.act()
    assert sender.sent[0] == 6
    chance = random.Random(0)
    while world.ones[0].arrived[2] < 50:  # in turns
        steps = world.steps(late=False)
        world.do(chance.choice(steps))
    assert other.sent[0] <= sender.sent[0] + 6
    assert sender.sent[0] < 80
