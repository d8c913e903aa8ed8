"""Arguments, checked, of primitives, of their plans and of their costs alike."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import argument_error
from ..ground.convert import what

MOST_WORDS = 1 << 53  # of an item or a value: as far as a float counts, and their sums are counted in 64 bits


def integer(name: str, argument: str, value: Any, least: int, most: int | None = None, what: str = "") -> int:
    """An argument that is a whole number in a range; else a UsageError."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        upto = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise argument_error(name, argument, f"{what or 'a whole number'} {upto}", f"{value!r:.60}")
    return number


def item_words(name: str, argument: str, value: Any) -> float:
    """An argument that is a number of words: bytes / 8, so that it may be no whole number; else a UsageError."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not good or not 0 <= value <= MOST_WORDS:
        raise argument_error(name, argument, "words, a number of at least 0 and at most 2^53", f"{value!r:.60}")
    return value if isinstance(value, int) else float(value)


def in_range(counts: NDArray[Any]) -> bool:
    """Whether all are at least 0, and words as many as can be counted."""
    return bool(not counts.size or (counts.min() >= 0 and counts.max() <= MOST_WORDS))


def check_machine(name: str, machine: Any) -> None:
    """The argument machine of a cost; a UsageError where it prices no supersteps."""
    if not callable(getattr(machine, "predict", None)):
        raise argument_error(name, "machine", "one, as bsp.machine or pybsp.BSPMachine(...)", what(machine))
