"""The argument `algorithm` of functions that choose among several: one by its name, or None, the cheapest.

The cheapest is that of the least exact cost; what goes in pieces is charged for putting them together besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError, argument_error, brief
from ..machines.cost import Cost, Machine
from .operators import elementwise
from .values import is_array


def named(name: str, algorithm: Any, known: Sequence[str]) -> str | None:
    """The argument algorithm; a UsageError where there is none of that name."""
    if algorithm is None or (isinstance(algorithm, str) and algorithm in known):
        return algorithm
    there_are = ", ".join(f'"{one}"' for one in known)
    raise argument_error(name, "algorithm", f"None, the cheapest, or {there_are}", brief(algorithm))


def only_trees(name: str, algorithm: str | None, degree: int | None) -> str | None:
    """Which algorithm is asked for, where a degree asks for trees; a UsageError where that one has none."""
    if degree is None or algorithm == "trees":
        return algorithm
    if algorithm is not None:
        raise argument_error(name, "degree", f'None with algorithm="{algorithm}", which has no trees', degree)
    return "trees"


def items_of(value: Any, op: Any) -> int:
    """Items of a value that op takes one by one; 0: it takes it whole."""
    return value.size if is_array(value) and elementwise(op) else 0


def trees_or_blocks(
    name: str,
    algorithm: Any,
    known: Sequence[str],
    degree: int | None,
    items: int,
    p: int,
    value: str,
    op: Any = np.add,
) -> str | None:
    """Which of these algorithms is asked for, of which only "trees" takes a degree, and "blocks" cuts values.

    Args:
        name: of the function, for the error.
        algorithm: the argument.
        known: the names that there are.
        degree: of the trees; alone it asks for these.
        items: of the value; 0: it is no array under a ufunc.
        p: processors.
        value: what it is, in a word.
        op: by which values are combined.

    Raises:
        UsageError: there is none of that name, it has no trees, or it cannot cut the value.
    """
    requested = only_trees(name, named(name, algorithm, known), degree)
    if requested == "blocks":
        divisible(name, requested, items, p, value, op)
    return requested


def divisible(name: str, algorithm: str, items: int, least: int, value: str, op: Any = np.add) -> None:
    """Refuse an algorithm that cuts values where this one cannot be cut into so many parts.

    Args:
        name: of the primitive.
        algorithm: its name.
        items: of the value; 0: it is no array under a ufunc.
        least: items that the algorithm needs.
        value: what it is, in a word.
        op: by which values are combined.

    Raises:
        UsageError: an op that takes values whole, or too few items.
    """
    if not elementwise(op):
        raise UsageError(
            f'{name}: argument op: expected a numpy ufunc, as np.add, with algorithm="{algorithm}", which cuts values; '
            f"got {brief(op)}; leave the choice to {name} (None)"
        )
    if items < least:
        raise UsageError(
            f'{name}: argument algorithm: "{algorithm}" cuts values, and needs arrays of at '
            f"least {least} items, got {value} of {items} that can be cut; leave the choice to {name} (None)"
        )


def joining(machine: Machine, words: float) -> float:
    """Seconds in which a value of so many words is put together from pieces: a flop a word.

    BSP does not charge for copies, so it is no part of a cost. But two processors, who save nothing else by pieces than
    half the operations, lose by them wherever memory is what limits both.
    """
    return words / machine.r


def cheapest(
    machine: Machine,
    words: float,
    degrees: Iterable[int],
    trees: Callable[[int], Cost],
    blocks: Callable[[], Cost] | None,
) -> tuple[str, int]:
    """What costs least for a value of so many words: ("trees", degree), or ("blocks", 0), which join it besides.

    Args:
        machine: which it is for.
        words: of the value.
        degrees: that trees may have, ascending.
        trees: what they cost by their degree.
        blocks: what these cost; None: the value is not to be cut.
    """
    seconds, degree = min((trees(degree).seconds, degree) for degree in degrees)
    if blocks is not None and blocks().seconds + joining(machine, words) < seconds:
        return "blocks", 0
    return "trees", degree
