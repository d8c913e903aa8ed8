"""What all primitives share: how they carry their cost and plan, and how their supersteps refuse what does not fit.

Every message says which call it belongs to (pybsp/rides/ride.py). Where a receiver finds another call than its own, or
nothing where something must come, all say what they called. So processors that were given different arguments end with
an error that names the primitive and the argument, and none is left waiting.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from inspect import signature
from types import FunctionType
from typing import (
    Any,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
)

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import AbortError, UsageError
from ..ground.convert import few, what
from ..ground.pickles import unpickled
from ..groups.group import Grid, Group
from ..groups.shown import GroupShown
from ..layouts import Layout
from ..machines.cost import Cost
from ..parts.part import Split
from ..rides.ride import Letter, Ride, Supersteps
from .arguments import check_machine
from .arguments import integer as integer
from .arguments import item_words as item_words
from .operators import operator_name
from .plan import Plan, Step

Arguments = ParamSpec("Arguments")
CostArguments = ParamSpec("CostArguments")
PlanArguments = ParamSpec("PlanArguments")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Operator = Callable[[Any, Any], Any]
Order = Literal["any", "fixed"]  # how values are combined: as is cheapest, or along the tree of fixed_order.py
ORDERS = get_args(Order)
Processors = BSP | Group  # a processor of a machine, or in a group of them: what a primitive calls `bsp`
Parts = Sequence[tuple[int, Any]]  # values to combine, in the order of pids, each with a processor whose it is
Fold = Callable[[Parts, Operator], Any]


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


PLAIN_NUMBERS = frozenset({bool, int, float, complex})
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
            mine = [_copied(one) for one in args]  # the program goes on with its arrays
            others: Any = {key: one if key == "out" else _copied(one) for key, one in kwargs.items()}
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
    """The argument bsp of a primitive.

    Raises:
        UsageError: it is neither a processor nor a group.
    """
    if not isinstance(given, (BSP, Group)):
        way_out = "; of a grid take grid.row or grid.column" if isinstance(given, Grid) else ""
        if isinstance(given, Split):
            way_out = "; enter the part by `with part as machine:`, and give machine"
        raise UsageError(
            f"{name}: argument bsp: expected the processor, which the program gets, or one of its groups, got "
            f"{what(given)}{way_out}"
        )


@contextmanager
def _refusing(name: str, what: str) -> Iterator[None]:
    """Where a primitive's cost, or plan, refuses arguments in its own name, those too that another one refuses for it.

    Raises:
        UsageError: it does; sizes that are too large for numpy.
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


_LEAST = {"p": 1, "degree": 2, "levels": 1, "k": 0}  # of arguments of plans


def _check_plan(name: str, given: dict[str, Any]) -> None:
    """The arguments that several plans have, as Python's numbers; plans that are remembered take what has a hash alone.

    Raises:
        UsageError: one that is no such number, or no order.
    """
    for argument, least in _LEAST.items():
        if argument in given:
            given[argument] = integer(name, argument, given[argument], least)
    if "root" in given and "p" in given:
        given["root"] = processor(name, "root", given["root"], given["p"])
    if "order" in given:
        checked_order(name, given["order"])


_UNCHANGING = (type(None), bool, int, float, complex, str, bytes, np.generic, Layout)


def _copied(argument: Any) -> Any:
    """An argument of a collective that the program may change while it rides.

    Of an object the copy is what others would get of it: its pickle's. Functions stay.
    """
    if isinstance(argument, _UNCHANGING) or callable(argument):
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
        """What a function of the user gives; its exceptions name the primitive and the argument.

        Raises:
            UsageError: the function raised.
        """
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


# -- arguments ----------------------------------------------------------------------------------------------------


def processor(name: str, argument: str, value: Any, p: int) -> int:
    """An argument that is a processor."""
    return integer(name, argument, value, 0, p - 1, "a processor")


def root_of(name: str, root: Any, bsp: Processors) -> int:
    """The argument root, a processor; on a group a number of it."""
    if not isinstance(bsp, Group):
        return processor(name, "root", root, bsp.p)
    try:
        return integer(name, "root", root, 0, bsp.p - 1, "a number of the group")
    except UsageError as error:
        raise UsageError(f"{error}; its processors are {few(bsp.members)}") from None


def flag(name: str, argument: str, value: Any) -> bool:
    """An argument that is true or false, as Python takes it.

    Raises:
        UsageError: it is neither, as an array of several.
    """
    try:
        return bool(value)
    except Exception as error:
        raise UsageError(f"{name}: argument {argument}: expected True or False, got {what(value)} ({error})") from None


def numbers(given: Any) -> NDArray[Any]:
    """An argument as the array that it makes; of what makes none, as lists of several lengths, one of an object.

    So who asks for its dtype refuses that too.
    """
    try:
        return np.asarray(given)
    except ValueError:
        return np.asarray(None)


def of_python(number: Any) -> Any:
    """One of numpy's integers as Python's: which of them a processor gives must not decide how a call goes."""
    return int(number) if isinstance(number, np.integer) else number


def fan_out(name: str, degree: Any) -> int | None:
    """The argument degree: None, or at least 2."""
    return None if degree is None else integer(name, "degree", degree, 2)


def checked_order(name: str, order: Any) -> Order:
    """The argument order.

    Raises:
        UsageError: there is none of that name.
    """
    known: Order = order
    if not (isinstance(order, str) and order in ORDERS):
        raise UsageError(f'{name}: argument order: expected "any" or "fixed", got {order!r:.60}')
    return known


def elementwise(op: Any) -> bool:
    """Whether op is a binary numpy ufunc that works on arrays element by element (np.matmul does not)."""
    return isinstance(op, np.ufunc) and op.signature is None and op.nin == 2 and op.nout == 1


# What combines two values as those of numpy combine all of a sequence.
_OF_TWO = {
    "sum": "np.add",
    "prod": "np.multiply",
    "max": "np.maximum",
    "amax": "np.maximum",
    "min": "np.minimum",
    "amin": "np.minimum",
    "any": "np.logical_or",
    "all": "np.logical_and",
    "nanmax": "np.fmax",
    "nanmin": "np.fmin",
}


def _takes_an_axis(op: Any) -> bool:
    """Whether it is a function of numpy, no ufunc, whose second argument is an axis."""
    if isinstance(op, np.ufunc) or getattr(op, "__module__", None) != "numpy":
        return False
    try:
        arguments = list(signature(op).parameters)
    except (TypeError, ValueError):  # functions in C have no signature in earlier numpys
        return op in (np.concatenate, np.packbits, np.unpackbits)
    return arguments[1:2] == ["axis"]


def check_operator(name: str, op: Any) -> str:
    """Refuse what is no binary operator; returns what it is called, by which processors compare theirs.

    Raises:
        UsageError: it cannot be called, is a ufunc of another arity, or takes one sequence, as `sum` and `np.max`, and
            then where to begin, or an axis: of two values it makes something else than meant, often silently.
    """
    if op is sum or _takes_an_axis(op):
        raise UsageError(
            f"{name}: argument op: expected an associative function of two values, got {op.__module__}.{op.__name__}, "
            f"which takes one sequence; use {_OF_TWO.get(op.__name__, 'one of two values, as np.add')}"
        )
    if not callable(op) or (isinstance(op, np.ufunc) and (op.nin, op.nout) != (2, 1)):
        raise UsageError(
            f"{name}: argument op: expected an associative function of two values, as np.add or max, got {op!r:.60}"
        )
    return operator_name(op)


def sequence(name: str, argument: str, value: Any) -> list[Any]:
    """An argument that is a sequence of items.

    Raises:
        UsageError: it is not.
    """
    try:
        return list(value)
    except TypeError:
        raise UsageError(
            f"{name}: argument {argument}: expected a sequence of items, got {type(value).__name__}"
        ) from None


# -- values -------------------------------------------------------------------------------------------------------


class Descriptor(NamedTuple):
    """How a value travels: the word for what it is, and the words that it counts.

    kind: "number", "object", or an array's dtype and shape; equal on all processors where all have one.
    words: of 8 bytes; of an object 1, as its pickle differs from processor to processor.
    """

    kind: str
    words: int


def descriptor(value: Any) -> Descriptor:
    """The descriptor of a value that all processors have one of."""
    if is_array(value):
        return _of_array(value.dtype, value.shape)
    return Descriptor("number" if is_number(value) else "object", 1)


@lru_cache(maxsize=1024)
def _of_array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Descriptor:
    # Kept: numpy takes microseconds to name a dtype.
    return Descriptor(f"{dtype}{list(shape)}", -(-dtype.itemsize * math.prod(shape) // 8))


def is_array(value: Any) -> bool:
    """Whether it travels as an array: of plain data, and of no subclass, whose other data would be lost.

    Nor of `np.record`s, which numpy takes for other records of these fields wherever it compares dtypes.
    """
    return type(value) is np.ndarray and not value.dtype.hasobject and value.dtype.type is not np.record


def is_number(value: Any) -> bool:
    """Whether it travels as one word."""
    return type(value) in (int, float, complex, bool) or (
        isinstance(value, np.generic) and value.dtype.kind in "biufcmM"
    )


def packed(value: Any, name: str, argument: str = "value") -> Any:
    """A value as it is sent: numbers and arrays as they are, an object as its pickle.

    An object is pickled here rather than by `bsp.send`, so that arrays in it arrive as its own and not as views that
    end with the next sync.

    Raises:
        UsageError: it cannot be pickled.
    """
    if is_array(value) or is_number(value):
        return value
    try:
        return pickle.dumps(value, 5)
    except Exception as error:
        raise UsageError(
            f"{name}: argument {argument}: expected something that can be pickled, got {type(value).__name__} ({error})"
        ) from error


def unpacked(payload: Any) -> Any:
    """What `packed` packed; an array is a view that ends with the next sync."""
    return unpickled(payload) if isinstance(payload, bytes) else payload


def own_result(value: Any) -> Any:
    """A value that outlives the next sync: an array that is a view of what arrived is copied."""
    if isinstance(value, np.ndarray) and not (value.flags.owndata and value.flags.writeable):
        return value.copy()
    return value


def own_argument(value: Any) -> Any:
    """An argument that outlives the next sync: a read-only array, which may be what arrived, is copied."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def taken(value: Any, name: str, argument: str = "value") -> Any:
    """An argument that is worked on after the next sync: `own_argument`; of an object, a copy, as it may hold views.

    Raises:
        UsageError: an object that cannot be pickled.
    """
    return own_argument(value) if is_number(value) or is_array(value) else unpacked(packed(value, name, argument))


def alone(op: Operator, value: Any) -> Any:
    """A result that op has had no part in: under a ufunc a number of numpy's, as it is where op made it."""
    if isinstance(op, np.ufunc) and type(value) in PLAIN_NUMBERS:
        if type(value) is float:
            return np.float64(value)
        number: Any = np.asarray(value)[()]
        return number if isinstance(number, np.generic) else value  # an int of more than 64 bits stays
    return value


def detached(result: Any, value: Any) -> Any:
    """A result that is not the caller's array itself."""
    return result.copy() if result is value and isinstance(value, np.ndarray) else result


def checked_out(name: str, out: Any) -> None:
    """The argument out.

    Raises:
        UsageError: it is no array that can be written to.
    """
    if out is not None and not (type(out) is np.ndarray and out.flags.writeable):
        got = "a read-only one" if type(out) is np.ndarray else f"{type(out).__name__}"
        raise UsageError(f"{name}: argument out: expected an array that can be written to, got {got}")


def room(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Where a result of that form can be made: out, where it has it; else a new array, for `placed` to copy."""
    if out is not None and out.shape == shape and out.dtype == dtype and out.flags.c_contiguous:
        return cast("NDArray[Any]", out)
    return np.empty(shape, dtype)


def placed(name: str, result: Any, out: Any) -> Any:
    """A result in the array out, where one was given.

    Raises:
        UsageError: it is no array, has another shape, or a dtype that out's cannot hold.
    """
    if out is None or result is out:
        return result
    if not (
        isinstance(result, np.ndarray)
        and result.shape == out.shape
        and np.can_cast(result.dtype, out.dtype, "same_kind")
    ):
        got = f"{result.dtype}{list(result.shape)}" if isinstance(result, np.ndarray) else type(result).__name__
        raise UsageError(
            f"{name}: argument out: expected an array of the result's shape, and of a dtype that it can be cast to; "
            f"got {out.dtype}{list(out.shape)} for {got}"
        )
    out[...] = result
    return out


def of_argument(name: str, argument: str, share: Callable[[], Result]) -> Result:
    """What a function gives that works on an argument, or is one.

    Raises:
        UsageError: the function raised.
    """
    try:
        return share()
    except Exception as error:
        raise UsageError(f"{name}: argument {argument}: {raised(error)}") from error


def applied(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """What a function of the user's makes of two things.

    Raises:
        UsageError: the function raised.
    """
    try:
        return function(a, b)
    except AbortError:
        raise
    except Exception as error:
        raise UsageError(f"{name}: argument op: {raised(error)}") from error


def raised(error: Exception) -> str:
    """What a function of the user's raised, in words, and the way out where that is known."""
    read_only = isinstance(error, ValueError) and "read-only" in str(error)
    way = "; it gets what it must not change: let it return a new value" if read_only else ""
    return f"raised {type(error).__name__}: {error}{way}"


def in_turn(parts: Parts, op: Operator) -> Any:
    """Combine values one after the other."""
    total = parts[0][1]
    for _, part in parts[1:]:
        total = op(total, part)
    return total


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
