"""Where the least of an array in blocks lies: each processor's candidate is a record, and the better one goes on."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import UsageError
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import records
from .arguments import integer
from .blocks import block_of
from .operators import Operator, of_argument
from .primitive import NOT_SMALL, Call

Which = Literal["argmin", "argmax"]


def cost(name: str, machine: Machine, n: int, itemsize: int) -> Cost:
    """What it costs, for blocks of at most n elements of so many bytes."""
    n = integer(name, "n", n, 0)
    itemsize = integer(name, "itemsize", itemsize, 0)
    return Cost(machine, (), n) + records.cost(machine, itemsize + 16)  # an element, its index, and how many there are


def at_once(bsp: BSP, which: Which, array: Any) -> Any:
    """`run` of a plain call that is one superstep; else `NOT_SMALL`."""
    block = block_of(which, "array", array)
    if not records.is_at_once(bsp, _fields(block.dtype).itemsize):
        return NOT_SMALL
    own = _candidate(bsp, which, block)
    bsp.work(block.size)
    return _found(which, records.at_once(bsp, which, {"array": block.dtype}, own, _better(which, block.dtype)))


def run(bsp: BSP, which: Which, array: Any) -> Supersteps[tuple[Any, int]]:
    """The first of the extreme elements, and its index in all blocks one after the other.

    Raises:
        UsageError: no array, or one without axes; dtypes differ; no processor has an element.
    """
    block = block_of(which, "array", array)
    call = Call(bsp, which, array=block.dtype)
    # 1. The candidate of this block.
    own = _candidate(bsp, which, block)
    bsp.work(block.size)
    # 2. Of two candidates the one that numpy would choose goes on.
    return _found(which, (yield from records.run(call, own, _better(which, block.dtype))))


def _candidate(bsp: BSP, which: Which, block: NDArray[Any]) -> NDArray[Any]:
    """The extreme element of a block, its index, and how many elements there are: none in an empty one."""
    own = np.zeros(1, _fields(block.dtype))
    # Of a dtype without an order an empty block is as wrong as any: all processors raise.
    some = block if block.size else np.zeros(1, block.dtype)
    index = int(of_argument(which, "array", partial(_first_of(which), some)))
    if block.size:
        own[0] = (block.reshape(-1)[index], index, block.size)
    return own


@lru_cache(maxsize=64)
def _fields(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype([("value", dtype), ("index", np.int64), ("size", np.int64)])


def _first_of(which: Which) -> Any:
    return np.argmin if which == "argmin" else np.argmax


@lru_cache(maxsize=64)
def _better(which: Which, dtype: np.dtype[Any]) -> Operator:
    """Of two candidates the better one, as one of both blocks."""
    first_of, greatest = _first_of(which), which == "argmax"
    plain = dtype.kind in "biuf" and dtype.itemsize <= 8

    def better(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        (value, _, size), (other, index, others) = left.item(), right.item()
        if not size or not others:
            return left if size else right
        # A NaN wins, and of equal ones the first.
        if plain:  # numpy would take five times as long for two
            later = bool(other > value if greatest else other < value) or (other != other and value == value)
        else:
            later = bool(first_of(np.concatenate((left["value"], right["value"]))))
        found = (right if later else left).copy()
        if later:
            found["index"] = size + index
        found["size"] = size + others
        return found

    return better


def _found(which: Which, best: NDArray[Any]) -> tuple[Any, int]:
    if not best["size"][0]:
        raise UsageError(f"{which}: argument array: expected an element on one processor at least, got none on any")
    return best["value"][0], int(best["index"][0])
