"""Operators, the user's functions of two values: checked and applied."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from types import BuiltinFunctionType
from typing import Any, TypeVar

import numpy as np

from ..errors import AbortError, UsageError, argument_error, brief
from ..supersteps.gate import Gate
from .operator_names import operator_name

Result = TypeVar("Result")
Operator = Callable[[Any, Any], Any]
Parts = Sequence[tuple[int, Any]]  # values to combine, in the order of pids, each with a processor whose it is
Fold = Callable[[Parts, Operator], Any]


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

# What changes its first value and returns nothing, and what returns the two as one.
_IN_PLACE = (
    *((list.append, "operator.add"), (list.extend, "operator.add"), (set.add, "set.union")),
    *((set.update, "set.union"), (dict.update, "operator.or_"), (Counter.update, "operator.add")),
)


def _takes_an_axis(op: Any) -> bool:
    """Whether it is a function of numpy, no ufunc, whose second argument is an axis."""
    if isinstance(op, np.ufunc) or getattr(op, "__module__", None) != "numpy":
        return False
    try:
        arguments = list(signature(op).parameters)
    except (TypeError, ValueError):  # functions in C have no signature in earlier numpys
        return op in (np.concatenate, np.packbits, np.unpackbits)
    return arguments[1:2] == ["axis"]


def check_operator(name: str, op: Any, value: Any = None) -> str:
    """Refuse what is no binary operator of such values; returns what it is called, by which processors compare theirs.

    Raises:
        UsageError: it cannot be called, is a ufunc of another arity, returns nothing, as `list.extend`, or takes one
            sequence, as `sum` and `np.max`, and then where to begin, or an axis: of two values it makes something else
            than meant, often silently. Or it is Python's max or min, of arrays: it compares none, unless there is only
            one.
    """
    if (op is max or op is min) and isinstance(value, np.ndarray) and value.size != 1:
        got, way_out = f"{op.__name__}, which compares whole arrays", f"use {_OF_TWO[op.__name__]}"
        raise argument_error(name, "op", "an associative function of two arrays", got, way_out)
    if op is sum or _takes_an_axis(op):
        expected = "an associative function of two values"
        way_out = f"use {_OF_TWO.get(op.__name__, 'one of two values, as np.add')}"
        raise argument_error(name, "op", expected, f"{op.__module__}.{op.__name__}, which takes one sequence", way_out)
    instead = next((other for one, other in _IN_PLACE if op is one), "")
    if instead:
        expected, got = "an associative function of two values", f"{op.__qualname__}, which returns None"
        raise argument_error(name, "op", expected, got, f"use {instead}")
    if not callable(op) or (isinstance(op, np.ufunc) and (op.nin, op.nout) != (2, 1)):
        raise argument_error(name, "op", "an associative function of two values, as np.add or max", brief(op))
    return operator_name(op)


_CHANGEABLE = frozenset({list, set, dict, bytearray, deque, Counter})  # whose methods that change them return None
_WITHIN = "called within an op, which combines two values and calls nothing of the machine"


def guarded(gate: Gate, op: Operator, of_objects: bool = True) -> Operator:
    """The op, while which runs nothing of the machine can be called; numpy's and Python's own call nothing.

    Of lists and the like it may not return None where it has changed its first value, as `a.extend(b)` does.
    """
    if isinstance(op, (np.ufunc, BuiltinFunctionType)):
        return op
    closed = gate.closed_during(op, _WITHIN)
    return partial(_unchanging, closed) if of_objects else closed


def _unchanging(op: Operator, a: Any, b: Any) -> Any:
    if type(a) not in _CHANGEABLE:
        return op(a, b)
    before = len(a)
    result = op(a, b)
    if result is None and len(a) != before:
        raise TypeError(f"it has changed the {type(a).__name__} that it got, and returned None")
    return result


def of_argument(name: str, argument: str, share: Callable[[], Result]) -> Result:
    """What a function gives that works on an argument, or is one; a UsageError where it raises."""
    try:
        return share()
    except Exception as error:
        raise UsageError(f"{name}: argument {argument}: {_raised(argument, error)}") from error


def applied(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """What a function of the user's makes of two things; a UsageError where it raises."""
    try:
        return function(a, b)
    except AbortError:
        raise
    except Exception as error:
        raise UsageError(f"{name}: argument op: {_raised('op', error)}") from error


def _raised(argument: str, error: Exception) -> str:
    """What a function of the user's raised, in words, and the way out where that is known."""
    way = ""
    if isinstance(error, ValueError) and "read-only" in str(error):
        way = "; it gets what it must not change: let it return a new value"
    elif argument == "op" and ("NoneType" in str(error) or "returned None" in str(error)):
        way = "; if op has returned None, let it return what it combines"
    elif argument == "op" and "truth value of an array" in str(error):
        way = "; np.maximum, np.minimum, np.logical_and, np.logical_or and np.where work on arrays item by item"
    return f"raised {type(error).__name__}: {error}{way}"


def in_turn(parts: Parts, op: Operator) -> Any:
    """Combine values one after the other."""
    total = parts[0][1]
    for _, part in parts[1:]:
        total = op(total, part)
    return total
