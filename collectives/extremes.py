"""Where the least of an array in blocks lies: each processor's candidate is a record, and the better one goes on."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..cost import Cost, Machine
from ..errors import UsageError
from ..rides import Supersteps
from . import records
from .blocks import block_of
from .primitive import Call, integer

Which = Literal["argmin", "argmax"]


def cost(name: str, machine: Machine, n: int, itemsize: int) -> Cost:
    """What it costs, for blocks of at most n elements of so many bytes."""
    n = integer(name, "n", n, 0)
    itemsize = integer(name, "itemsize", itemsize, 0)
    return Cost(machine, (), n) + records.cost(machine, itemsize + 16)  # an element, its index, and how many there are


def run(bsp: BSP, which: Which, array: Any) -> Supersteps[tuple[Any, int]]:
    """The first of the extreme elements, and its index in all blocks one after the other.

    Raises:
        UsageError: no array, or one without axes; dtypes differ; no processor has an element.
    """
    block = block_of(which, "array", array)
    call = Call(bsp, which, array=block.dtype)
    first_of = np.argmin if which == "argmin" else np.argmax

    # 1. The candidate of this block.
    fields: list[Any] = [("value", block.dtype), ("index", np.int64), ("size", np.int64)]
    own = np.zeros(1, fields)
    if block.size:
        index = call.own(lambda: int(first_of(block)), "array")
        own[0] = (block.reshape(-1)[index], index, block.size)
    bsp.work(block.size)

    # 2. Of two candidates the one that numpy would choose goes on, so a NaN wins, and of equal ones the first.
    def better(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        if not left["size"][0] or not right["size"][0]:
            return left if left["size"][0] else right
        both = np.concatenate((left, right))
        both["index"][1] += both["size"][0]
        chosen = int(first_of(both["value"]))
        both["size"][chosen] = both["size"].sum()
        return both[chosen : chosen + 1]

    found = yield from records.run(call, own, better)
    if not found["size"][0]:
        raise UsageError(f"{which}: argument array: expected an element on one processor at least, got none on any")
    return found["value"][0], int(found["index"][0])
