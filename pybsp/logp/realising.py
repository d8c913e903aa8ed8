"""An order of receiving as an execution in time: a schedule that delivers in it, where the machine admits that."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence, Set
from typing import Any

from ..machines.logp import LogPMachine
from .engine import Engine
from .schedule import Schedule, seed_of
from .timeless import Name, Order

SEED_BITS = 14_000  # more digits than these have Python does not print


class InadmissibleError(Exception):
    """A message can no more be delivered in its place."""


class InOrder(Schedule):
    """Delivers to each processor in a given order, and what is not in that after it.

    A message is delivered so late that those before it may still come, and so early that those behind it may that are
    submitted at the same time.

    Args:
        order: of each processor.
        attempt: 0 is as above; 1 as early as can be; others draw from the steps that seem to be admissible.
    """

    def __init__(self, order: Order, attempt: int = 0) -> None:
        self._places: list[dict[Name, int]] = [{name: k for k, name in enumerate(names)} for names in order]
        self._attempt, self._random = attempt, random.Random(attempt)

    def begin(self, machine: LogPMachine) -> None:
        super().begin(machine)
        self._capacity = machine.capacity
        self._sent = [0] * machine.p
        self._deliveries: list[dict[int, int]] = [{} for _ in range(machine.p)]  # by their places
        self._choices: list[tuple[int, int]] = []  # as those of `Choices`: which, of how many

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        places, others = self._places[dest], self._deliveries[dest]
        place = places.get((source, self._sent[source]), len(places))
        self._sent[source] += 1
        least = accepted + 1 + sum(k not in others for k in range(place))
        most = accepted + self.L
        for other, step in others.items():
            if other < place:
                least = max(least, step + place - other)
            else:
                most = min(most, step - other + place)
        free = [step for step in range(accepted + self.L, accepted, -1) if step not in taken]
        fitting = [k for k, step in enumerate(free) if least <= step <= most]
        if not fitting:
            raise InadmissibleError
        if self._attempt == 0:
            behind = sum(k not in others for k in range(place + 1, len(places)))
            reserved = min(behind, self._capacity - 1) if most == accepted + self.L else 0
            k = fitting[min(reserved, len(fitting) - 1)]
        else:
            k = fitting[-1] if self._attempt == 1 else self._random.choice(fitting)
        if place < len(places):
            others[place] = free[k]
        self._choices.append((k, len(free)))
        return free[k]

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        places = self._places[dest]
        by_place = sorted(
            range(len(waiting)), key=lambda k: places.get((waiting[k], self._sent[waiting[k]]), len(places))
        )
        chosen = sorted(by_place[:room])
        self._choices.append((_rank(chosen, len(waiting)), math.comb(len(waiting), room)))
        return chosen

    @property
    def seed(self) -> int:
        """What replays the execution."""
        number = 0
        for choice, radix in reversed(self._choices):
            number = number * radix + choice
        return seed_of(number)


def _rank(chosen: Sequence[int], n: int) -> int:
    """The number of a combination below n among those of its size, in the order of itertools.combinations."""
    rank, least = 0, 0
    for k, one in enumerate(chosen):
        rank += sum(math.comb(n - 1 - other, len(chosen) - 1 - k) for other in range(least, one))
        least = one + 1
    return rank


def realised(machine: LogPMachine, bodies: Sequence[Callable[[Any], Any]], order: Order, attempts: int) -> int | None:
    """The seed of an execution with that order of receiving; None where so many attempts have found none, or too long a
    seed."""
    for attempt in range(attempts):
        schedule = InOrder(order, attempt)
        try:
            Engine(machine, schedule).run(bodies)
        except InadmissibleError:
            continue
        except Exception:  # is the outcome in that order
            pass
        seed = schedule.seed
        return seed if seed.bit_length() <= SEED_BITS else None
    return None
