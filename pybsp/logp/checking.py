"""`check`: many executions of a LogP program. Are their results equal, and does none stall?"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ..errors import argument_error, brief
from ..ground.convert import check_program
from ..machines.logp import LogPMachine
from .arguments import whole
from .differences import difference_of_results
from .engine import Engine, SimulatedProcessor, exit_error
from .local_orders import LocalOrders
from .orders import Orders
from .processor import Program
from .realising import realised
from .schedule import NAMES, Choices, of_seed, seed_of
from .simulation import body_of, machine_of
from .timeless import Order, TimelessExecution, TimeLookedAtError

ATTEMPTS = 8  # to execute an order of receiving


@dataclass(frozen=True)
class Check:
    """What `check` found.

    `simulate(program, p, machine, schedule="random", seed=check.seed)` replays the execution that differed, and so does
    `schedule=check.schedule` with that seed.

    Attributes:
        ok: whether all executions ended well, with equal results.
        stall_free: whether none stalled; independent of `ok`.
        executions: how many were made; none more once one had differed and one had stalled.
        exhaustive: whether these were all that the model admits: then both answers are proved.
        proved: whether equal results are: `exhaustive`, or by all orders of receiving. What is not proved was sampled.
        orders: how many orders of receiving were run, to prove that; 0 where there was no need to, or the program looks
            at time. Where every processor does the same in all its orders, these add up, else they multiply.
        differing_order: an order whose results differ, but of which no execution was found, as the machine may not
            admit it: of each processor the messages that it acquires, by their sources and how many those had sent
            before. None where there is none, or not `ok`.
        seed: of the first execution whose results differed from the first one's, or that failed; None if `ok`.
        schedule: the name of its schedule; None if `ok`.
        difference: what differed there, or in `differing_order`; "" where nothing did.
        error: what that execution raised; None if it ended well, or `ok`.
        stalling_seed: of the first execution that stalled; None if `stall_free`.
        results: of the first execution, by pid; None if it failed.

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
        >>> found = pybsp.logp.check(program, machine=machine, executions=20)
        >>> found.ok, found.stall_free, found.executions, found.exhaustive
        (True, True, 20, False)
        >>> found.proved, found.orders  # three messages in any order
        (True, 6)
        >>> found.seed, found.schedule, found.difference, found.error, found.stalling_seed
        (None, None, '', None, None)
        >>> found.results
        [14, None, None, None]
    """

    ok: bool
    stall_free: bool
    executions: int
    exhaustive: bool
    seed: int | None
    schedule: str | None
    difference: str
    error: Exception | None
    stalling_seed: int | None
    results: list[Any] | None
    proved: bool
    orders: int
    differing_order: list[list[tuple[int, int]]] | None = None

    def __str__(self) -> str:
        if self.exhaustive:
            text = f"all {self.executions} executions" if self.executions > 1 else "the only execution"
        else:
            text = f"{self.executions} execution{'s' if self.executions > 1 else ''} sampled"
        if self.ok:
            equal = "equal results"
        else:
            how = "failed" if self.error is not None else "differed"
            equal = f"one {how} (schedule={self.schedule!r}, seed={self.seed}): {self.difference}"
        stalls = "none stalled" if self.stall_free else f'one stalled (schedule="random", seed={self.stalling_seed})'
        if self.proved and not self.exhaustive:
            orders = f"all {self.orders} orders" if self.orders > 1 else "the only order"
            return f"{orders} of receiving: {equal}; {text}: {stalls}"
        text = f"{text}: {equal}; {stalls}"
        if not self.ok or not self.orders or self.exhaustive:
            return text
        tried = f"{self.orders} order{'s' if self.orders > 1 else ''} of receiving tried, not all"
        if self.differing_order is None:
            return f"{text}; {tried}: equal results"
        return f"{text}; {tried}: one differs, of which no execution was found: {self.difference}"


def check(
    program: Program,
    p: int | None = None,
    machine: LogPMachine | None = None,
    executions: int = 200,
    *,
    orders: int = 20_000,
    seed: int = 0,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Check:
    """Explore the executions of a program: has it equal results in all, and does none stall?

    The schedules `latest`, `earliest` and `adversary` first, then random ones. A program with so few messages that it
    has no more than `executions` executions is executed in every way that the model admits: then the answer is a proof.
    A program that fails in an execution has no result there and is not `ok`, even if it fails in all; to call sys.exit
    is to fail, with ProcessorError.

    Args:
        program, p, machine, args, kwargs: as in `simulate`. All executions are given the same args: a program must
            not change them.
        executions: how many to make at most; one more, where an order of receiving is found in which they differ.
        orders: how many orders of receiving to run at most, to prove equal results of a program that does not look at
            time; 0 for none. Where there are more, `executions` of them are tried.
        seed: of the first random execution; those that follow have the seeds that follow.

    Results are equal if they are of the same types and have the same values; NaN is equal to NaN. Other objects are
    equal if they say so or if their attributes are, exceptions if type and arguments are.

    Raises:
        UsageError: wrong arguments; a machine without max{2, o} <= G <= L.

    Source: *BSP vs LogP*, section 2.2; Flanagan, Godefroid, *Dynamic partial-order reduction* (POPL 2005).

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
        >>> print(pybsp.logp.check(program, machine=machine, executions=20))
        all 6 orders of receiving: equal results; 20 executions sampled: none stalled
        >>> def first(proc):
        ...     if proc.pid > 0:
        ...         return proc.send(0, proc.pid)
        ...     return [proc.recv().source for _ in range(proc.p - 1)][0]
        >>> pybsp.logp.check(first, machine=machine).ok  # who comes first is the schedule's choice
        False
    """
    operation = "pybsp.logp.check"
    check_program(operation, "program", program, "LogP processor")
    machine = machine_of(p, machine, operation)
    numbers = []
    for name, value, least in (("executions", executions, 1), ("orders", orders, 0), ("seed", seed, 0)):
        number = whole(value)
        if number is None or number < least:
            raise argument_error(operation, name, f"a whole number of at least {least}", brief(value))
        numbers.append(number)
    executions, orders, seed = numbers
    exploration = _Exploration(machine, body_of(program, args, kwargs, operation), executions)
    complete = exploration.all()
    if not complete:
        named = range(-2, -1 - len(NAMES), -1)
        exploration.sample(named)
        exploration.prove(orders)
        exploration.sample(range(seed, seed + executions))
    return exploration.found(complete)


class _Exploration:
    """Executions of a program, made until both answers are known, or their number is reached."""

    def __init__(self, machine: LogPMachine, body: Callable[[Any], Any], most: int) -> None:
        self._machine, self._most = machine, most
        self._bodies = [functools.partial(_without_exits, body)] * machine.p
        self._executions = 0
        self._first: list[Any] | Exception | None = None
        self._seed: int | None = None
        self._difference = ""
        self._error: Exception | None = None
        self._stalling_seed: int | None = None
        self._explored: LocalOrders | Orders | None = None
        self._differing_order: Order | None = None

    @property
    def over(self) -> bool:
        return self._executions >= self._most or (self._seed is not None and self._stalling_seed is not None)

    def execute(self, seed: int, choices: Choices | None = None) -> None:
        engine = Engine(self._machine, choices or of_seed(seed))
        outcome: list[Any] | Exception
        try:
            outcome = engine.run(self._bodies).results
        except Exception as error:
            outcome = error
        self._executions += 1
        if self._stalling_seed is None and engine.stalled:
            self._stalling_seed = seed
        if self._first is None:
            self._first = outcome
        if self._seed is None:
            difference = _difference_of_outcomes(self._first, outcome)
            if difference is not None:
                self._seed, self._difference, self._differing_order = seed, difference, None
                self._error = outcome if isinstance(outcome, Exception) else None

    def all(self) -> bool:
        """Every execution, the first being `latest`; only that one where they seem to be too many."""
        number: int | None = 0
        while number is not None:
            choices = Choices(number)
            self.execute(seed_of(number) if number else -1, choices)
            leaves = accumulate(choices.radices, operator.mul)  # so many executions at least, choice by choice
            if number == 0 and any(count > self._most for count in leaves):
                return False
            number = _following(number, choices.radices)
            if number is not None and self.over:
                return False
        return True

    def sample(self, seeds: Iterable[int]) -> None:
        """The executions of these seeds, as long as there is something to find out."""
        for seed in seeds:
            if self.over:
                break
            self.execute(seed)

    def prove(self, most: int) -> None:
        """All orders of receiving, or so many, if nothing has differed yet; those that differ as executions."""
        if self._seed is not None or not most:
            return
        assert isinstance(self._first, list)
        attempts = self._most
        try:
            for order, outcome in self._orders(most):
                difference = _difference_of_outcomes(self._first, outcome)
                if difference is None:
                    continue
                if self._differing_order is None:
                    self._differing_order, self._difference = order, difference
                seed = realised(self._machine, self._bodies, order, min(ATTEMPTS, attempts))
                attempts -= ATTEMPTS
                if seed is not None:
                    self.execute(seed)
                if self._seed is not None or attempts <= 0:
                    return
        except TimeLookedAtError:
            return

    def _orders(self, most: int) -> Iterator[tuple[Order, list[Any] | Exception]]:
        """Orders of receiving, each with its results, or what it raised."""
        execution = TimelessExecution(self._machine, [[] for _ in self._bodies])
        try:
            results = execution.run(self._bodies)
        except TimeLookedAtError:
            raise
        except Exception:
            most = min(most, self._most)  # found again below
        else:
            local = self._explored = LocalOrders(self._machine, self._bodies, execution, results, most, self._most)
            yield from local
            if local.local:
                return
            if local.largest > most:
                most = min(most, self._most)
        self._explored = Orders(self._machine, self._bodies, most)
        yield from self._explored

    def found(self, complete: bool) -> Check:
        seed, explored = self._seed, self._explored
        schedule = None if seed is None else NAMES[-1 - seed] if -len(NAMES) <= seed < 0 else "random"
        results = None if isinstance(self._first, Exception) else self._first
        return Check(
            ok=seed is None,
            stall_free=self._stalling_seed is None,
            executions=self._executions,
            exhaustive=complete,
            seed=seed,
            schedule=schedule,
            difference=self._difference,
            error=self._error,
            stalling_seed=self._stalling_seed,
            results=results,
            proved=seed is None
            and (complete or (explored is not None and explored.complete and self._differing_order is None)),
            orders=0 if explored is None else explored.count,
            differing_order=self._differing_order,
        )


def _difference_of_outcomes(first: list[Any] | Exception, other: list[Any] | Exception) -> str | None:
    """What is wrong with an execution, if the first one is right; None where nothing is."""
    if isinstance(other, Exception):
        return f"{type(other).__name__}: {other}"
    assert isinstance(first, list)
    return difference_of_results(first, other)


def _without_exits(body: Callable[[Any], Any], proc: SimulatedProcessor) -> Any:
    """A processor that calls sys.exit has no result, whatever the others do: it fails."""
    try:
        return body(proc)
    except SystemExit as error:
        raise exit_error(proc, error) from error


def _following(number: int, radices: Sequence[int]) -> int | None:
    """The number of the next `Choices`, depth first: the last choice that has another alternative takes it."""
    digits: list[int] = []
    for radix in radices:
        number, digit = divmod(number, radix)
        digits.append(digit)
    while digits and digits[-1] + 1 == radices[len(digits) - 1]:
        digits.pop()
    if not digits:
        return None
    digits[-1] += 1
    for radix, digit in zip(reversed(radices[: len(digits)]), reversed(digits), strict=True):
        number = number * radix + digit
    return number
