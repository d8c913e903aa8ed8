"""Schedules: what decides where the model leaves a choice.

A LogP program has many executions, since the model does not say when within L steps of its acceptance a message is
delivered, nor in which order a congested destination's messages are accepted (*BSP vs LogP*, section 2.2). A schedule
decides both. Its decisions for one destination do not depend on what happens at others, so that programs on disjoint
sets of processors do not disturb one another.

    latest       each message as late as admissible; accepted first in, first out
    earliest     each as early as admissible
    random       by a seed, which also picks the kind of delays; any order
    adversary    bursts: messages wait for one another and arrive as late as admissible, in consecutive steps; accepted
                 last in, first out

Every execution that `check` looks at has a seed: those of the random ones are at least 0, -1, -2 and -3 are latest,
earliest and adversary, and those below -3 spell out each choice.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence, Set

from ..errors import UsageError, brief
from ..machines.logp import LogPMachine
from .arguments import SCHEDULES as SCHEDULES
from .arguments import whole


class Schedule:
    """The choice `latest`, and the base of all others.

    The simulator calls `begin` once, then `delivery` for each accepted message and `acceptances` where fewer messages
    may be accepted than wait. A wrong answer is an error there.

    Examples:
        >>> class Half(pybsp.logp.Schedule):  # half the latency, where that step is free
        ...     def delivery(self, source, dest, accepted, taken):
        ...         step = accepted + self.L // 2
        ...         return super().delivery(source, dest, accepted, taken) if step in taken else step
        >>> def program(proc):
        ...     return proc.send(0, "text") if proc.pid else proc.recv() and proc.time
        >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4)
        >>> [pybsp.logp.simulate(program, machine=machine, schedule=how).results[0] for how in ("latest", Half())]
        [18, 10]
    """

    def begin(self, machine: LogPMachine) -> None:
        """A simulation begins; what overrides this calls it, too.

        Examples:
            >>> schedule = pybsp.logp.Schedule()
            >>> schedule.begin(pybsp.LogPMachine(p=2, L=16, o=1, G=4))
            >>> schedule.L
            16
        """
        self.L = machine.L

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        """When a message is delivered: a step from accepted + 1 to accepted + L that is not taken.

        Args:
            source, dest: its processors.
            accepted: when the medium accepted it; of a long message (LogGP) when its last word had left.
            taken: steps at which other messages in transit will be delivered to dest; not to be changed.

        Examples:
            >>> schedule = pybsp.logp.Schedule()
            >>> schedule.begin(pybsp.LogPMachine(p=2, L=16, o=1, G=4))
            >>> schedule.delivery(source=1, dest=0, accepted=100, taken={116})
            115
        """
        step = accepted + self.L
        while step in taken:
            step -= 1
        return step

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        """Which messages are accepted, in what order: `room` different indices into `waiting`.

        Args:
            dest: the congested destination.
            waiting: the sources of the messages submitted to it, in order of submission.
            room: how many may be accepted; fewer than wait.

        Examples:
            >>> list(pybsp.logp.Schedule().acceptances(dest=0, waiting=[3, 1, 2], room=2))
            [0, 1]
        """
        return range(room)


class Earliest(Schedule):
    """Each message as early as admissible; first in, first out."""

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        step = accepted + 1
        while step in taken:
            step += 1
        return step


class Random(Schedule):
    """Any order, any delay; the seed decides, for each destination apart.

    Uniform delays seldom show what goes wrong, so the seed also picks the kind of delays:

    0   uniform in 1..L
    1   1 or L
    2   one for each pair of processors
    3   L from some processors, 1 from the others
    4   each message before those that are in transit already, where that can be
    5   L, and seldom less
    6   1, and seldom more

    and the order in which messages are accepted: any, or that of ranks drawn once for the sources.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def begin(self, machine: LogPMachine) -> None:
        super().begin(machine)
        self._draws: dict[int, random.Random] = {}
        self._delays: dict[tuple[int, int], int] = {}
        self._ranks: dict[int, float] = {}
        self._kind = self.seed % 7
        self._ranked = self.seed // 7 % 2 == 1

    def _draw(self, dest: int) -> random.Random:
        draw = self._draws.get(dest)
        if draw is None:
            draw = self._draws[dest] = random.Random(f"{self.seed} {dest}")
        return draw

    def _rank(self, source: int) -> float:
        """The rank of a source, from 0 to 1, at all destinations."""
        rank = self._ranks.get(source)
        if rank is None:
            rank = self._ranks[source] = random.Random(f"{self.seed} from {source}").random()
        return rank

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        draw, kind, L = self._draw(dest).random, self._kind, self.L
        if kind == 0:
            delay = 1 + int(draw() * L)
        elif kind == 1:
            delay = 1 if draw() < 0.5 else L
        elif kind == 2:
            delay = self._delays.get((source, dest), 0)
            if not delay:
                delay = self._delays[source, dest] = 1 + int(draw() * L)
        elif kind == 3:
            delay = L if self._rank(source) < 0.5 else 1
        elif kind == 4:
            delay = max(1, min(min(taken, default=accepted + L + 1) - 1 - accepted, L))
        else:
            delay = 1 + int(draw() * L) if draw() < 0.1 else L if kind == 5 else 1
        step = accepted + delay
        return _near(step, accepted, L, taken) if step in taken else step

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        if self._ranked:
            return sorted(range(len(waiting)), key=lambda k: self._rank(waiting[k]))[:room]
        return self._draw(dest).sample(range(len(waiting)), room)


class Choices(Schedule):
    """Each choice by its number: the digits of one whole number, the first choice's the lowest.

    The digit of a choice among n is below n. 0 everywhere is `latest`, and every execution has such a number. (Which
    digit is whose depends on all destinations, unlike the choices of other schedules.)

    Attributes:
        radices: after an execution: how many alternatives each choice had.
        rest: the digits that were left.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def begin(self, machine: LogPMachine) -> None:
        super().begin(machine)
        self.rest = self.number
        self.radices: list[int] = []

    def _choose(self, n: int) -> int:
        self.radices.append(n)
        self.rest, digit = divmod(self.rest, n)
        return digit

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        within = sorted((step for step in taken if accepted < step <= accepted + self.L), reverse=True)
        step = accepted + self.L - self._choose(self.L - len(within))
        for other in within:  # the digit counts free steps alone
            if other >= step:
                step -= 1
        return step

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        # The order of those that are chosen makes no difference: any step of delivery can be chosen for each.
        digit = self._choose(math.comb(len(waiting), room))
        return next(itertools.islice(itertools.combinations(range(len(waiting)), room), digit, None))


class Adversary(Schedule):
    """Bursts, as late as admissible; last in, first out.

    The first message to a destination arrives after L steps. Those accepted until then arrive in the steps right
    behind it, or before it if that would be too late for them.
    """

    def begin(self, machine: LogPMachine) -> None:
        super().begin(machine)
        self._bursts: dict[int, tuple[int, int]] = {}  # dest: the first step of the burst to come, and the last

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        first, last = self._bursts.get(dest, (0, 0))
        step = last + 1
        if not (accepted < first and step <= accepted + self.L and step not in taken):
            step = super().delivery(source, dest, accepted, taken)
            if accepted >= first:
                first = step
        self._bursts[dest] = first, max(last, step)
        return step

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        return range(len(waiting) - 1, len(waiting) - 1 - room, -1)


class Delays(Schedule):
    """A user's function: `delay(source, dest, accepted)` gives the steps from acceptance to delivery, 1 to L.

    Where another message is delivered at that step, the nearest free step after it is taken, else before it.
    Accepted first in, first out.
    """

    def __init__(self, delay: Callable[[int, int, int], int]) -> None:
        self._delay = delay

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        answer = self._delay(source, dest, accepted)
        delay = whole(answer)
        if delay is None or not 1 <= delay <= self.L:
            raise UsageError(
                f"pybsp.logp.simulate: argument schedule: expected its function to give whole steps from 1 to L = "
                f"{self.L}, got {answer!r} for a message from {source} to {dest} accepted at {accepted}"
            )
        return _near(accepted + delay, accepted, self.L, taken)


def _near(step: int, accepted: int, L: int, taken: Set[int]) -> int:
    """The first free step from `step` on that is admissible, else the last before it."""
    for later in range(step, accepted + L + 1):
        if later not in taken:
            return later
    while step in taken:
        step -= 1
    return step


_NAMED = {"latest": Schedule, "earliest": Earliest, "adversary": Adversary}
NAMES = tuple(_NAMED)  # that of the seed -1, -2, -3


def schedule_of(schedule: str | Schedule | Callable[[int, int, int], int], seed: int, operation: str) -> Schedule:
    """The schedule that an argument means; a UsageError where there is none of that name, or the seed is no number."""
    number = whole(seed)
    if number is None:
        raise UsageError(f"{operation}: argument seed: expected a whole number, got {brief(seed)}")
    if isinstance(schedule, Schedule):
        return schedule
    if isinstance(schedule, str) and schedule == "random":
        return of_seed(number)
    if isinstance(schedule, str) and schedule in _NAMED:
        return _NAMED[schedule]()
    if callable(schedule) and not isinstance(schedule, type):  # a class makes objects, and no delays
        return Delays(schedule)
    got = repr(schedule)
    if isinstance(schedule, type) and issubclass(schedule, Schedule):
        got = f"the class {schedule.__name__}; make one: {schedule.__name__}()"
    raise UsageError(
        f"{operation}: argument schedule: expected {', '.join(map(repr, _NAMED))}, 'random', a pybsp.logp.Schedule or "
        f"a function of (source, dest, accepted) that gives a delay, got {got}"
    )


def of_seed(seed: int) -> Schedule:
    """The schedule of a seed: random, or, below 0, a named one or given choices."""
    if seed >= 0:
        return Random(seed)
    return _NAMED[NAMES[-1 - seed]]() if seed >= -len(NAMES) else Choices(-1 - len(NAMES) - seed)


def seed_of(number: int) -> int:
    """The seed of given choices."""
    return -1 - len(NAMES) - number
