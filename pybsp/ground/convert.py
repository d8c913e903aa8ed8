"""Arguments, checked: values as arrays of a dtype, by the casting that queues and puts allow; numbers; programs."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import UsageError, argument_error, brief
from ..processes.process import MOST_PROCESSORS


def as_array(values: Any, dtype: np.dtype[Any], operation: str) -> NDArray[Any]:
    """The values as an array of the dtype; arrays cast by `same_kind`, Python integers to any number that holds them.

    Raises:
        UsageError: the values do not cast, or are masked.
    """
    if type(values) is np.ndarray:
        if values.dtype == dtype:
            return values
    elif isinstance(values, np.ndarray):
        no_mask(operation, "values", values)
    try:
        array = _cast(values, dtype)
        if array.dtype == dtype:
            return array
        # numpy takes a unit of time from the values where the dtype has none.
        got, way_out = f"{array.dtype}, which has a unit", f'give what gets them a unit of time, as "{dtype.kind}8[s]"'
    except (TypeError, ValueError, OverflowError) as error:
        got, way_out = f"{what(values)} ({error})", "convert with .astype, or use that dtype from the start"
    # To name a dtype takes microseconds.
    raise argument_error(operation, "values", f"{dtype} or what casts to it (same_kind)", got, way_out)


def _cast(values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    if isinstance(values, (np.ndarray, np.generic)):
        array = np.asarray(values)
        return array if array.dtype == dtype else array.astype(dtype, casting="same_kind")
    if type(values) is int and dtype.kind in "iufc":
        return np.asarray(values, dtype)
    array = np.asarray(values) if dtype.names is None else np.asarray(values, dtype)
    if array.dtype == dtype:
        return array
    if array.size == 0 or (array.dtype.kind in "iu" and dtype.kind in "iufc"):
        return np.asarray(values, dtype)
    if array.dtype == object and dtype.kind in "fc" and all(type(one) in (int, float) for one in array.flat):
        return np.asarray(values, dtype)  # ints of more than 64 bits
    return array.astype(dtype, casting="same_kind")


def no_mask(operation: str, argument: str, value: Any) -> None:
    """Refuse a masked array, whose mask would be lost, with a UsageError."""
    if isinstance(value, np.ma.MaskedArray):
        way_out = "use .compressed() to leave out what is masked, or .filled()"
        raise argument_error(operation, argument, "an array without a mask", "a masked one", way_out)


def whole(value: Any) -> int | None:
    """A Python int of any type of whole numbers, numpy's included; None of all else. True is no number."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def is_whole(value: object, least: float = -math.inf) -> bool:
    """Whether it is an int, or an integer of numpy's, of at least so much; True is none, nor what `whole` makes one."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def integer(name: str, argument: str, value: Any, least: int, most: int | None = None, kind: str = "") -> int:
    """An argument that is a whole number in a range; else a UsageError."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        upto = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise argument_error(name, argument, f"{kind or 'a whole number'} {upto}", brief(value))
    return number


def flag(name: str, argument: str, value: Any) -> bool:
    """An argument that is true or false, as Python takes it; else a UsageError, as of an array of several."""
    try:
        return bool(value)
    except Exception as error:
        raise argument_error(name, argument, "True or False", f"{what(value)} ({error})") from None


def plain_dtype(operation: str, dtype: DTypeLike, argument: str = "dtype") -> np.dtype[Any]:
    """An argument that is a dtype, of anything but objects; else a UsageError."""
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise argument_error(operation, argument, "a numpy dtype", f"{brief(dtype)} ({error})") from None
    if found.hasobject:
        expected = "plain data"
        way_out = "send objects with bsp.send"
        raise argument_error(
            operation, argument, expected, f"{brief(dtype, 80)}, whose items are Python objects", way_out
        )
    return found


def processors(operation: str, given: Any) -> int:
    """The argument p: how many processors there are to be; a UsageError where it is no number of them."""
    number = whole(given)
    if number is None or not 1 <= number <= MOST_PROCESSORS:
        raise argument_error(operation, "p", f"a whole number from 1 to {MOST_PROCESSORS}", brief(given, 40))
    return number


def what(thing: Any) -> str:
    """A short description of an argument for an error."""
    if isinstance(thing, np.ndarray):
        of_class = "" if type(thing) is np.ndarray else f"{type(thing).__name__} of "
        return f"{of_class}{thing.dtype} of shape {thing.shape}"
    return f"{type(thing).__name__} {brief(thing)}"


def to_integers(given: Any) -> str:
    """The way out where whole numbers were expected, and this, no mask, was given; empty where none is near."""
    if isinstance(given, (set, frozenset, range)) or hasattr(given, "__next__"):
        return "list(...) makes such of a set, a range or a generator"
    try:
        found = np.asarray(given)
    except ValueError:  # of several lengths
        return ""
    if found.dtype.kind in "fO" and found.ndim:
        return ".astype(np.int64) makes such of an array"
    return "int(...) makes one of a float" if found.dtype.kind == "f" else ""


def few(pids: Sequence[int]) -> str:
    """Processors for an error."""
    return ", ".join(map(str, pids[:16])) + ", ..." * (len(pids) > 16) if pids else "none"


def span(low: int, high: int) -> str:
    """Indices between these, in words."""
    return f"index {low}" if low == high else f"indices from {low} to {high}"


def indices_of(count: int, thing: str, none: str) -> str:
    """Which indices so many things have, in words; `none`: that there is none."""
    if not count:
        return f"a {thing}, but {none}"
    return f"an index from {-count} to {count - 1}, of {count} {thing}{'s' * (count > 1)}"


def check_program(operation: str, argument: str, program: Any, of: str = "BSP machine") -> None:
    """The argument that is the program.

    Raises:
        UsageError: it is no function, or one that takes no machine, or one whose call runs nothing of it, but makes a
            coroutine or a generator.
    """
    expected = f"{operation}: argument {argument}: expected a function of a {of}"
    if not callable(program):
        raise UsageError(f"{expected}, got {brief(program)}")
    name = getattr(program, "__qualname__", program)
    call = type(program).__call__
    called = call if inspect.isfunction(call) else program  # of an object of a class of one's own, what that says
    if inspect.iscoroutinefunction(called):
        raise UsageError(f"{expected}, got an async one, {name}, which runs nothing when it is called; use def")
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise UsageError(f"{expected}, got a generator, {name}, which runs nothing when it is called: it has a yield")
    try:
        inspect.signature(program, follow_wrapped=False).bind_partial(None)  # a decorator may hand on other arguments
    except ValueError:
        pass  # nothing is known of it
    except TypeError:
        raise UsageError(f"{expected}, which it gets as its first argument, got {name}, which takes none") from None
