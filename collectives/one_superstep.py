"""What the primitives of one superstep share: each message is one value, from who has it to who gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cost import Cost, Machine
from ..errors import UsageError
from ..rides import Supersteps
from .plan import Plan, Step
from .primitive import Call, item_words, own_result, sources, unpacked

Words = NDArray[np.int64]


def run(call: Call, plan: Plan, pid: int, payload: Callable[[int], Any]) -> Supersteps[dict[int, Any]]:
    """Send what the plan says; returns the values that came, by source.

    Args:
        payload: what goes to a destination, as `packed` makes it. All of it is made before anything is sent.
    """
    came: dict[int, Any] = {}
    for step in plan:  # none where p = 1
        payloads = [(dest, payload(dest)) for dest, _, _ in step.sends(pid)]
        for dest, packed in payloads:
            call.send(dest, packed)
        letters = yield from call.sync(sources(step.receives(pid)))
        came = {letter.source: own_result(unpacked(letter.payload)) for letter in letters}
    return came


def one_for_each(name: str, values: Any, p: int) -> Any:
    """The argument values: p of them.

    Raises:
        UsageError: it is no sequence, or of another length.
    """
    got = type(values).__name__
    if isinstance(values, np.ndarray) and values.ndim:
        got = f"an array of shape {values.shape}"
        fits = len(values) == p
    elif isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        got = f"a {got} of {len(values)}"
        fits = len(values) == p
    else:
        fits = False
        if isinstance(values, (Mapping, Set)):
            got += ", which has no order"
    if not fits:
        raise UsageError(
            f"{name}: argument values: expected a sequence or an array of {p} values, one for each processor, "
            f"got {got}; give None to a processor that has nothing to get"
        )
    return values


def word_counts(name: str, words: ArrayLike, shape: tuple[int, ...], argument: str = "words") -> Words:
    """The argument of a cost function that counts words: one number for all values, or an array of this shape.

    Raises:
        UsageError: another shape, or no whole numbers of at least 0.
    """
    given = np.asarray(words)
    if given.dtype.kind not in "iu" or given.shape not in ((), shape) or (given.size and given.min() < 0):
        raise UsageError(
            f"{name}: argument {argument}: expected a whole number of at least 0, or an array of them of shape "
            f"{shape}, got {words!r:.60}"
        )
    return np.broadcast_to(given.astype(np.int64), shape)


def block_words(name: str, counts: ArrayLike, shape: tuple[int, ...], words: float) -> Words:
    """Words of blocks of so many rows, each of so many words; the arguments counts and words of a cost function.

    Raises:
        UsageError: no counts of this shape, no words.
    """
    rows, each = word_counts(name, counts, shape, "counts"), round(8 * item_words(name, "words", words))
    return -(-rows * each // 8)


def priced(machine: Machine, plan: Plan, words: Callable[[Step], Words]) -> Cost:
    """What the plan costs with so many words in each message."""
    return Cost(machine, [step.counted(words(step)) for step in plan])
