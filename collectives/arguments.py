"""Arguments, checked, of primitives, of their plans and of their costs alike."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import UsageError, argument_error, brief
from ..ground.convert import few, what
from ..ground.convert import flag as flag
from ..ground.convert import integer as integer
from ..ground.convert import plain_dtype as plain_dtype
from ..groups.group import Group

Order = Literal["any", "fixed"]  # how values are combined: as is cheapest, or along the tree of fixed_order.py
ORDERS = get_args(Order)
Processors = BSP | Group  # a processor of a machine, or in a group of them: what a primitive calls `bsp`
MOST_REPEATS = 1 << 24  # times that something with supersteps of its own is done: plans and costs list them all
MOST_WORDS = 1 << 53  # of an item or a value: as far as a float counts, and their sums are counted in 64 bits


def item_words(name: str, argument: str, value: Any) -> float:
    """An argument that is a number of words: bytes / 8, so that it may be no whole number; else a UsageError."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not good or not 0 <= value <= MOST_WORDS:
        raise argument_error(name, argument, "words, a number of at least 0 and at most 2^53", brief(value))
    return value if isinstance(value, int) else float(value)


def repeats(name: str, argument: str, value: Any) -> int:
    """An argument of a plan or a cost: how often something is done that takes supersteps; else a UsageError."""
    return integer(name, argument, value, 0, MOST_REPEATS)


def in_range(counts: NDArray[Any]) -> bool:
    """Whether all are at least 0, and words as many as can be counted."""
    return bool(not counts.size or (counts.min() >= 0 and counts.max() <= MOST_WORDS))


def check_machine(name: str, machine: Any) -> None:
    """The argument machine of a cost; a UsageError where it prices no supersteps."""
    if not callable(getattr(machine, "predict", None)):
        raise argument_error(name, "machine", "one, as bsp.machine or pybsp.BSPMachine(...)", what(machine))


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
    """The argument order; a UsageError where there is none of that name."""
    known: Order = order
    if not (isinstance(order, str) and order in ORDERS):
        raise argument_error(name, "order", '"any" or "fixed"', brief(order))
    return known


def sequence(name: str, argument: str, value: Any) -> list[Any]:
    """An argument that is a sequence of items; else a UsageError."""
    try:
        return list(value)
    except TypeError:
        raise argument_error(name, argument, "a sequence of items", type(value).__name__) from None
