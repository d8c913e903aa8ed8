"""What all primitives share: how they carry their cost and plan, and how their supersteps refuse what does not fit.

Every message says which call it belongs to (pybsp/rides/ride.py). Where a receiver finds another call than its own, or
nothing where something must come, all say what they called. So processors that were given different arguments end with
an error that names the primitive and the argument, and none is left waiting.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from types import FunctionType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from ..bsp import BSP
from ..errors import UsageError, argument_error
from ..ground.convert import what
from ..groups.group import Grid, Group
from ..groups.shown import GroupShown
from ..layouts import Layout
from ..machines.cost import Cost
from ..parts.part import Split
from ..processes.process import MOST_PROCESSORS
from ..rides.ride import Letter, Ride, Supersteps
from .arguments import Processors, check_machine, checked_order, integer, processor
from .operators import Fold, Operator, guarded, in_turn, of_argument
from .plan import Plan, Step
from .values import own_result, packed, unpacked

Arguments = ParamSpec("Arguments")
CostArguments = ParamSpec("CostArguments")
PlanArguments = ParamSpec("PlanArguments")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Primitive(Protocol[Arguments, Result_co, CostArguments, PlanArguments]):
    """A collective function with its cost and its plan beside it."""

    __name__: str

    def __call__(self, bsp: Processors, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result_co:
        """Run it, in supersteps of its own; collective."""

    def start(self, bsp: Processors, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Ride[Result_co]:
        """Start it: it rides in the program's supersteps, and the ticket has its result when it is done; collective."""

    def steps(self, bsp: Processors, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Supersteps[Result_co]:
        """It as a part of another function that rides: `result = yield from ...`."""

    def cost(self, *args: CostArguments.args, **kwargs: CostArguments.kwargs) -> Cost:
        """What it costs on a machine."""

    def plan(self, *args: PlanArguments.args, **kwargs: PlanArguments.kwargs) -> Plan:
        """Who sends what to whom."""


NOT_SMALL: Final[Any] = object()  # instead of a result: it is to ride
NOTHING: Final[Any] = object()  # instead of a value: there is none
REMEMBERED = 256  # prepared calls of a processor
FEW = 8  # functions of one code that they are of: those that are made for each call hold what their closures do


# Makes a call that looks for what is prepared, in the fewest steps, of what is called where it finds nothing.
Quick = Callable[[Callable[..., Any]], Callable[..., Any]]


def primitive(
    cost: Callable[CostArguments, Cost],
    plan: Callable[PlanArguments, Plan],
    small: Callable[..., Any] | None = None,
    riding: Callable[..., Ride[Any] | None] | None = None,
    pipes: Callable[..., bool] | None = None,
    quick: Quick | None = None,
    quick_start: Quick | None = None,
    groups: bool = True,
) -> Callable[
    [Callable[Concatenate[BSP, Arguments], Supersteps[Result]]],
    Primitive[Arguments, Result, CostArguments, PlanArguments],
]:
    """Make a primitive of a function that rides, with its cost and its plan as attributes.

    Args:
        small: the shorter way of plain calls with small values (small_*.py), with the same arguments; or `NOT_SMALL`.
        riding: that of started ones, and of plain ones elsewhere (riding.py); or None.
        pipes: whether small also takes an array that has no room in a record, as it goes through a pipe: asked where it
            is sent, of all arguments; None: never.
        quick, quick_start: for plain calls, and started ones; None: there is none.
        groups: whether small takes groups too: not where it may be several supersteps, as others may have fewer.
    """

    def carry(
        steps: Callable[Concatenate[BSP, Arguments], Supersteps[Result]],
    ) -> Primitive[Arguments, Result, CostArguments, PlanArguments]:
        name = steps.__name__
        as_given = {place for place, one in enumerate(steps.__code__.co_varnames[1:]) if one in AS_GIVEN}
        for short in (small, riding):
            if short is not None:
                short.__qualname__ = name  # of which Python speaks where an argument is missing

        @wraps(steps)
        def collective(bsp: Processors, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if small is not None:
                try:
                    shown = bsp.shown
                except AttributeError:
                    _check_processor(name, bsp)
                    raise
                if shown is not None:
                    # One or two arguments, as most calls have, are handed on in half the time without `*`.
                    found: Result
                    if isinstance(shown, GroupShown):
                        found = shown.to_the_end(name, small, bsp, *args, **kwargs) if groups else NOT_SMALL
                    elif kwargs or not 0 < len(args) < 3:
                        found = small(bsp, *args, **kwargs)
                    else:
                        found = small(bsp, args[0], args[1]) if len(args) == 2 else small(bsp, args[0])
                    if found is not NOT_SMALL:
                        return found
                elif bsp.as_shown is not None and not bsp.as_shown.now and (groups or isinstance(bsp, BSP)):
                    with bsp.as_shown.calling(None if pipes is None else pipes(bsp, *args, **kwargs)):
                        return collective(bsp, *args, **kwargs)
            elif type(bsp) is not BSP:
                _check_processor(name, bsp)
            if riding is not None and bsp.p > 1 and isinstance(bsp, BSP):  # on a group it has supersteps of its own
                ticket = riding(bsp, *args, **kwargs)
                if ticket is not None:
                    return cast("Result", ticket.finish())
            return bsp.carry_out(name, steps(cast("BSP", bsp), *args, **kwargs))

        def start(bsp: Processors, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Ride[Result]:
            if type(bsp) is not BSP:
                _check_processor(name, bsp)
            if riding is not None and bsp.p > 1:
                ticket = riding(bsp, *args, **kwargs)
                if ticket is not None:
                    return ticket
            # The program goes on with its arrays.
            mine: Any = [one if place in as_given else _copied(one) for place, one in enumerate(args)]
            others: Any = {key: one if key in AS_GIVEN else _copied(one) for key, one in kwargs.items()}
            return bsp.ride(name, steps(cast("BSP", bsp), *mine, **others))

        @wraps(cost)
        def cost_of(*args: CostArguments.args, **kwargs: CostArguments.kwargs) -> Cost:
            check_machine(f"{name}.cost", args[0] if args else kwargs.get("machine"))
            with _refusing(name, "cost"):
                return cost(*args, **kwargs)

        takes = signature(plan)

        @wraps(plan)
        def plan_of(*args: PlanArguments.args, **kwargs: PlanArguments.kwargs) -> Plan:
            given = takes.bind_partial(*args, **kwargs)
            _check_plan(f"{name}.plan", given.arguments)
            with _refusing(name, "plan"):
                return plan(*given.args, **given.kwargs)

        result = steps.__annotations__["return"].removeprefix("Supersteps[").removesuffix("]")
        entry = collective if quick is None else wraps(steps)(quick(collective))
        begin: Any = start if quick_start is None else quick_start(start)
        _as_if(entry, steps, result)
        _as_if(begin, steps, f"Ride[{result}]")
        begin.__name__, begin.__qualname__, begin.__module__ = "start", f"{name}.start", steps.__module__
        begin.__doc__ = _START.format(name=name)
        vars(entry).update(cost=cost_of, plan=plan_of, start=begin, steps=steps)
        return cast("Primitive[Arguments, Result, CostArguments, PlanArguments]", entry)

    return carry


_START = """Start `{name}`: it rides in the program's supersteps, beside its messages; collective.

Args: as of `{name}`; they are copied now.

Returns:
    a ticket (`pybsp.Ride`): `ticket.value` is the result when `ticket.done`; `ticket.finish()` goes on until then.
"""


def _as_if(function: Any, steps: Callable[..., Any], result: str) -> None:
    """`inspect.signature` of the function, and `help`, have the arguments of `steps` and that result.

    They read them where they are asked for, from a function of the same code that nobody calls: so it costs an import
    nothing.
    """
    shown = FunctionType(steps.__code__, steps.__globals__, steps.__name__, steps.__defaults__, steps.__closure__)
    shown.__kwdefaults__ = steps.__kwdefaults__
    shown.__annotations__ = {**steps.__annotations__, "return": result}
    function.__annotations__, function.__wrapped__ = shown.__annotations__, shown


def _check_processor(name: str, given: Any) -> None:
    """The argument bsp of a primitive; a UsageError where it is neither a processor nor a group."""
    if not isinstance(given, (BSP, Group)):
        way_out = "; of a grid take grid.row or grid.column" if isinstance(given, Grid) else ""
        if isinstance(given, Split):
            way_out = "; enter the part by `with part as machine:`, and give machine"
        expected = "the processor, which the program gets, or one of its groups"
        raise argument_error(name, "bsp", expected, f"{what(given)}{way_out}")


@contextmanager
def _refusing(name: str, what: str) -> Iterator[None]:
    """Where a primitive's cost, or plan, refuses arguments in its own name, those too that another one refuses for it,
    and sizes that are too large for numpy or for memory, with a UsageError.
    """
    called = f"{name}.{what}"
    try:
        yield
    except UsageError as error:
        text = str(error)
        if text.startswith(called):
            raise
        raise UsageError(f"{called}: {text.removeprefix(f'{name}.plan: ').removeprefix('plan.cost: ')}") from None
    except OverflowError as error:
        raise UsageError(f"{called}: expected sizes that are numbers of 64 bits, got larger ones ({error})") from None
    except MemoryError as error:
        got = f"larger ones{f' ({error})' * bool(str(error))}"
        raise UsageError(f"{called}: expected sizes for which there is memory, got {got}") from None


# Of arguments of plans, the least and the most.
_RANGES = {"p": (1, MOST_PROCESSORS), "degree": (2, None), "levels": (1, None), "k": (0, None)}


def _check_plan(name: str, given: dict[str, Any]) -> None:
    """The arguments that several plans have, as Python's numbers; plans that are remembered take what has a hash alone.

    Raises:
        UsageError: one that is no such number, or no order.
    """
    for argument, (least, most) in _RANGES.items():
        if argument in given:
            given[argument] = integer(name, argument, given[argument], least, most)
    if "root" in given and "p" in given:
        given["root"] = processor(name, "root", given["root"], given["p"])
    if "order" in given:
        checked_order(name, given["order"])


AS_GIVEN = frozenset({"op", "f", "out"})  # arguments that are called, and the array for the result: never copied
_UNCHANGING = (type(None), bool, int, float, complex, str, bytes, np.generic, Layout)


def _copied(argument: Any) -> Any:
    """An argument of a collective that the program may change while it rides.

    Of an object the copy is what others would get of it: its pickle's.
    """
    if isinstance(argument, _UNCHANGING):
        return argument
    if isinstance(argument, np.ndarray) and not argument.dtype.hasobject:
        return argument.copy()
    if type(argument) in (list, tuple):
        return type(argument)(map(_copied, argument))
    try:
        return np.array(argument).data if isinstance(argument, memoryview) else pickle.loads(pickle.dumps(argument, 5))
    except Exception:
        if _can_be_pickled(argument):
            raise  # of a signal's handler, in between
        return argument  # where it is sent it is refused by its name


def _can_be_pickled(argument: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(argument, 5))
    except Exception:
        return False
    return True


class Call:
    """One call of a primitive on this processor: its messages, and its supersteps.

    Args:
        bsp: the processor.
        name: the primitive's.
        order: where it has that argument, which is compared too; "any" adds nothing to a message.
        **agreed: arguments that must be equal on all processors; they are compared with each message.
    """

    def __init__(self, bsp: BSP, name: str, order: str | None = None, **agreed: Any) -> None:
        if order is not None:
            agreed["order"] = order
        self.bsp, self.name, self._agreed = bsp, name, agreed
        self._stream = bsp.stream(name, **agreed)
        self.send = self._stream.send  # to a processor, data, and perhaps a note that counts no words
        self.send_all = self._stream.send_all  # to some of them the same
        self.alike = self._stream.alike  # what all make of the same data
        self.takes = self._stream.takes  # so many supersteps in all, where that is known
        self.follows = self._stream.follows  # or another processor knows
        self.compare = self._stream.compare  # where no message goes between some of them

    def ends(self, more: int) -> None:
        """The function is over after so many more supersteps; none where p = 1."""
        self.takes(self._stream.superstep + more if self.bsp.p > 1 else 0)

    def sync(self, expected: Sequence[int] | None = None) -> Supersteps[list[Letter]]:
        """End the superstep.

        Args:
            expected: the processors that one message each must come from, in order; None: whoever has something.

        Raises:
            UsageError: one that is missing, or one too many.
        """
        yield
        letters = self._stream.arrived
        if expected is not None:
            self.expect(letters, expected)
        return letters

    def expect(self, letters: Sequence[Letter], expected: Sequence[int]) -> None:
        """Refuse letters that do not come from these processors, one each."""
        came = [letter.source for letter in letters]
        if came == expected:
            return
        odd = sorted(set(expected).symmetric_difference(came)) or came
        (own, other), awaited, came = (pids_of(self.bsp, some) for some in ([self.bsp.pid, odd[0]], expected, came))
        self._stream.differ(
            f"{self.name}: processor {own} expected messages from {shortened(awaited)} and got them from "
            f"{shortened(came)}: processor {other} has called it with other arguments than this one "
            f"({', '.join(f'{k}={v}' for k, v in self._agreed.items())}), in another superstep, or not at all; all "
            "processors must call it together, and with equal arguments"
        )

    def differ(self, complaint: str) -> NoReturn:
        """What arrived cannot be: all processors say what they called, and get the error.

        Raises:
            UsageError: the argument that differs; the complaint where all called the same.
        """
        self._stream.differ(f"{self.name}: {complaint}")

    def own(self, share: Callable[[], Result], argument: str) -> Result:
        """What a function of the user gives; a UsageError with primitive and argument where it raises."""
        return of_argument(self.name, argument, share)


def pids_of(bsp: Processors, numbers: Iterable[int]) -> list[int]:
    """The pids in the machine, by which errors name processors: a group has numbers of its own."""
    return [bsp.members[number] for number in numbers] if isinstance(bsp, Group) else [*numbers]


def shortened(pids: Sequence[int]) -> str:
    """Some processors, in words."""
    if not len(pids):
        return "none"
    return ", ".join(str(pid) for pid in pids[:8]) + (f", ... ({len(pids)} in all)" if len(pids) > 8 else "")


def remember(bsp: Processors, key: Any, prepared: Result) -> Result:
    """Keep what a call is made of that depends on its arguments alone, and need not be worked out again."""
    if len(bsp.prepared) >= REMEMBERED:
        bsp.prepared.clear()
    function, code = _function(key)
    if code is not None:
        # Functions of that code, each with the keys that it is in.
        alike: dict[int, tuple[Any, list[Any]]] = bsp.prepared.setdefault(code, {})
        if id(function) not in alike and len(alike) >= FEW:
            for _, keys in alike.values():
                for other in keys:
                    bsp.prepared.pop(other, None)
            alike.clear()
        alike.setdefault(id(function), (function, []))[1].append(key)
    bsp.prepared[key] = prepared
    return prepared


def _function(key: Any) -> tuple[Any, Any]:
    """The function among the arguments of a prepared call, and its code; None where there is none."""
    for part in key:
        code = getattr(getattr(part, "func", part), "__code__", None)  # func: of a functools.partial
        if code is not None:
            return part, code
    return None, None


def combined(
    call: Call, letters: Sequence[Letter], value: Any, op: Operator, words: float, fold: Fold = in_turn
) -> Any:
    """The values that came and the own one, combined in the order of pids; charges a flop a word for each use of op.

    Args:
        value: the own one; `NOTHING`: there is none.
    """
    parts = [(letter.source, unpacked(letter.payload)) for letter in letters]
    place = sum(source < call.bsp.pid for source, _ in parts)
    own = value
    if isinstance(value, np.ndarray):
        own = value.view()
        own.flags.writeable = False  # an op that works in place would change the caller's
    if own is not NOTHING:
        parts.insert(place, (call.bsp.pid, own))
    one = parts[0][1]
    op = guarded(call.bsp.notes.gate, op)

    total = call.own(partial(fold, parts, op), "op")
    call.bsp.work((len(parts) - 1) * words)
    if isinstance(one, np.ndarray) and one.ndim == 0 and isinstance(total, np.generic):
        total = np.array(total)  # numpy's operators make numbers of arrays without axes
    return own_result(total)  # an op may give back what it was given


def climbed(
    call: Call, trees: Iterable[Step], value: Any, op: Operator, words: float, fold: Fold = in_turn
) -> Supersteps[Any]:
    """What a processor's value becomes as sums go up trees, in the supersteps of a plan."""
    pid = call.bsp.pid
    for step in trees:
        # 1. The sum that is here goes to the processors above, in one tree or in several.
        if sends := step.sends(pid):
            call.send_all([dest for dest, _, _ in sends], packed(value, call.name))
        # 2. What comes is combined with it in the order of pids, which is that of the groups whose sums they are.
        if letters := (yield from call.sync(sources(step.receives(pid)))):
            value = combined(call, letters, value, op, words, fold)
    return value


def sources(received: Iterable[tuple[int, int, int]]) -> list[int]:
    """The processors of what `Step.receives` lists."""
    return [source for source, _, _ in received]
