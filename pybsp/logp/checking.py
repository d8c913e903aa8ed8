"""`check`: many executions of a LogP program. Are their results equal, and does none stall?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UsageError
from ..machine import LogPMachine
from .arguments import whole
from .engine import Engine, SimulatedProcessor, exit_error
from .orders import Orders
from .processor import Program
from .schedule import NAMES, Choices, of_seed
from .simulation import call, machine_of


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
        orders: how many orders of receiving were run, to prove that; 0 where there was no need to.
        seed: of the first execution whose results differed from the first one's, or that failed; None if `ok`.
        schedule: the name of its schedule; None if `ok`.
        difference: what differed there; "" if `ok`.
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
        return f"{text}: {equal}; {stalls}"


def check(
    program: Program,
    p: int | None = None,
    machine: LogPMachine | None = None,
    executions: int = 200,
    *,
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
        executions: how many to make at most; and how many orders of receiving to run beside them.
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
    machine = machine_of(program, p, machine, operation)
    numbers = []
    for name, value, least in (("executions", executions, 1), ("seed", seed, 0)):
        number = whole(value)
        if number is None or number < least:
            raise UsageError(
                f"{operation}: argument {name}: expected a whole number of at least {least}, got {value!r}"
            )
        numbers.append(number)
    executions, seed = numbers
    exploration = _Exploration(machine, functools.partial(call, program, args, kwargs or {}), executions)
    complete = exploration.all()
    if not complete:
        named = range(-2, -1 - len(NAMES), -1)
        exploration.sample(named)
        exploration.prove()
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
        self._orders = Orders(machine, self._bodies, most)

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
            if isinstance(outcome, Exception):
                self._error = outcome
                difference: str | None = f"{type(outcome).__name__}: {outcome}"
            else:
                assert isinstance(self._first, list)
                difference = _difference_of_results(self._first, outcome)
            if difference is not None:
                self._seed, self._difference = seed, difference

    def all(self) -> bool:
        """Every execution, the first being `latest`; only that one where they seem to be too many."""
        number: int | None = 0
        while number is not None:
            choices = Choices(number)
            self.execute(-1 - len(NAMES) - number if number else -1, choices)
            if number == 0 and _product(choices.radices, self._most) > self._most:
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

    def prove(self) -> None:
        """All orders of receiving, if nothing has differed yet: as long as they are equal, and do not look at time."""
        if self._seed is not None:
            return
        assert isinstance(self._first, list)
        try:
            for results in self._orders:
                if _difference_of_results(self._first, results) is not None:
                    break
        except Exception:  # it looks at time, or what fails may be no execution in time
            return

    def found(self, complete: bool) -> Check:
        seed = self._seed
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
            proved=seed is None and (complete or self._orders.complete),
            orders=self._orders.count,
        )


def _without_exits(body: Callable[[Any], Any], proc: SimulatedProcessor) -> Any:
    """A processor that calls sys.exit has no result, whatever the others do: it fails."""
    try:
        return body(proc)
    except SystemExit as error:
        raise exit_error(proc, error) from error


def _difference_of_results(first: list[Any], other: list[Any]) -> str | None:
    parts = (_difference(a, b, f"processor {pid}") for pid, (a, b) in enumerate(zip(first, other, strict=True)))
    return next(filter(None, parts), None)


def _product(radices: Sequence[int], most: int) -> int:
    """The product, exact as long as it is not above most."""
    product = 1
    for radix in radices:
        product *= radix
        if product > most:
            break
    return product


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


def _difference(first: Any, other: Any, place: str, seen: frozenset[tuple[int, int]] = frozenset()) -> str | None:
    """Where two results are not equal, in words; None where they are."""
    if first is other or (id(first), id(other)) in seen:
        return None
    if type(first) is not type(other):
        return f"{place}: {type(first).__name__}, then {type(other).__name__}"
    seen |= {(id(first), id(other))}
    parts: Iterable[tuple[str, Any, Any]]
    if isinstance(first, (np.ndarray, np.generic)):
        return _difference_of_arrays(np.asarray(first), np.asarray(other), place, seen)
    if isinstance(first, (list, tuple)):
        if len(first) != len(other):
            return f"{place}: {len(first)} items, then {len(other)}"
        parts = ((f"[{k}]", a, b) for k, (a, b) in enumerate(zip(first, other, strict=True)))
    elif isinstance(first, dict):
        if first.keys() != other.keys():
            return f"{place}: keys {list(first)!r:.80}, then {list(other)!r:.80}"
        parts = ((f"[{key!r}]", value, other[key]) for key, value in first.items())
    elif isinstance(first, (float, complex)):
        return None if first == other or (first != first and other != other) else f"{place}: {first!r}, then {other!r}"
    elif isinstance(first, BaseException):
        parts = (("", first.args, other.args),)
    else:
        if _compare_equal(first, other):
            return None
        attributes = _attributes(first)
        if not attributes or attributes.keys() != _attributes(other).keys():
            return f"{place}: {first!r:.80}, then {other!r:.80}"
        parts = ((f".{name}", value, getattr(other, name)) for name, value in attributes.items())
    return next(filter(None, (_difference(a, b, place + part, seen) for part, a, b in parts)), None)


def _difference_of_arrays(first: Any, other: Any, place: str, seen: frozenset[tuple[int, int]]) -> str | None:
    if first.dtype != other.dtype or first.shape != other.shape:
        return f"{place}: {first.dtype}{first.shape}, then {other.dtype}{other.shape}"
    if first.dtype.names is not None:
        fields = ((f"[{name!r}]", first[name], other[name]) for name in first.dtype.names)
        return next(filter(None, (_difference_of_arrays(a, b, place + part, seen) for part, a, b in fields)), None)
    if first.dtype.hasobject:
        return _difference(first.tolist(), other.tolist(), place, seen)
    if np.array_equal(first, other, equal_nan=first.dtype.kind in "fcmM"):
        return None
    return f"{place}: {np.array2string(first, threshold=8)}, then {np.array2string(other, threshold=8)}"


def _compare_equal(first: Any, other: Any) -> bool:
    try:
        return bool(first == other)
    except Exception:  # of an == that gives no truth value
        return False


def _attributes(thing: Any) -> dict[str, Any]:
    slots = (name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ()))
    found = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    found.update(getattr(thing, "__dict__", {}))
    return found
