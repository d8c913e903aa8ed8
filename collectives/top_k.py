"""The k greatest values of all processors, or the k least, on all of them."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import records
from .arguments import flag, integer
from .blocks import block_of
from .operators import Operator, of_argument
from .plan import Plan
from .primitive import NOT_SMALL, Call, primitive
from .sample_sort import sorting
from .values import checked_out, placed

NAME = "top_k"
_MOST = (1 << 31) - 1  # bytes of the values that numpy takes for one item, as they travel


def plan(p: int, degree: int) -> Plan:
    """Who sends the k greatest, or least, of its group (item 0) to whom, as in `allreduce`."""
    return records.plan(p, degree)


def cost(machine: Machine, k: int, n: int = 0, itemsize: int = 8) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        k: how many.
        n: values of the largest block.
        itemsize: bytes of a value.
    """
    k, n = integer("top_k.cost", "k", k, 0), integer("top_k.cost", "n", n, 0)
    itemsize = integer("top_k.cost", "itemsize", itemsize, 0)
    # Processors tell each other k values, and how many of them there are.
    return Cost(machine, (), n + sorting(min(k, n))) + records.cost(machine, k * itemsize + 8)


def _small(bsp: BSP, values: Any, k: int, largest: bool = True, *, out: NDArray[Any] | None = None) -> Any:
    block, k, largest = _checked(values, k, largest)
    if not records.is_at_once(bsp, _fields(block.dtype, k).itemsize):
        return NOT_SMALL
    checked_out(NAME, out)
    own = _own(bsp, block, k, largest)
    found = records.at_once(bsp, NAME, _agreed(block, k, largest), own, _first_of(k, largest))
    return placed(NAME, _of_list(found), out)


@primitive(cost, plan, _small)
def top_k(
    bsp: BSP, values: Any, k: int, largest: bool = True, *, out: NDArray[Any] | None = None
) -> Supersteps[NDArray[Any]]:
    """The k greatest of the values of all processors, the greatest first, or the k least, the least; collective.

    Args:
        bsp: the processor.
        values: shape (n, ...), where n may differ from processor to processor and be 0; of any dtype that numpy sorts
            but objects, in its order (NaN and NaT are the greatest). The dtype is equal on all processors, empty blocks
            included.
        k: how many, 0 or more. Equal on all processors.
        largest: whether the greatest; else the least. Equal on all processors.
        out: keyword only: an array for the result, of its shape and of a dtype that it can be cast to. None: a new one.

    Returns:
        ``np.sort(all_values)[::-1][:k]``, or ``np.sort(all_values)[:k]``, equal on all processors: k values, or all
        where there are fewer. An array of its own.

    Raises:
        UsageError: values that are no such array; k is no such number, or differs; dtypes or largest differ.

    BSP cost: an `allreduce` of ceil(k*itemsize / 8) + 1 words, in trees, whatever the blocks hold, and n + k*log2(k)
    flop before it. `top_k.cost` has it exactly.

    Source: a reduction (*Communication primitives for BSP computers*, section 3) of sorted lists of k; of two, the k
    first of both go on.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.top_k(bsp, [[3, 9, 4], [2], [8, 9, 1]][bsp.pid], k=3).tolist()
        >>> pybsp.simulate(main, p=3).results[0]
        [9, 9, 8]
        >>> pybsp.simulate(lambda bsp: collectives.top_k(bsp, [bsp.pid, 7], 3, largest=False).tolist(), p=3).results[0]
        [0, 1, 2]
    """
    block, k, largest = _checked(values, k, largest)
    call = Call(bsp, NAME, **_agreed(block, k, largest))
    checked_out(NAME, out)
    own = _own(bsp, block, k, largest)
    found = yield from records.run(call, own, _first_of(k, largest))
    first: NDArray[Any] = placed(NAME, _of_list(found), out)
    return first


def _checked(values: Any, k: Any, largest: Any) -> tuple[NDArray[Any], int, bool]:
    """The arguments: a block of one axis, how many, and which end."""
    k = integer(NAME, "k", k, 0)
    block = block_of(NAME, "values", values).reshape(-1)
    k = integer(NAME, "k", k, 0, _MOST // max(block.dtype.itemsize, 1), f"a whole number, for {block.dtype},")
    return block, k, flag(NAME, "largest", largest)


def _agreed(block: NDArray[Any], k: int, largest: bool) -> dict[str, Any]:
    """The arguments that are equal on all processors."""
    return {"values": block.dtype, "k": k, "largest": largest}


@lru_cache(maxsize=64)
def _fields(dtype: np.dtype[Any], k: int) -> np.dtype[Any]:
    """A list of up to k values, as it travels."""
    return np.dtype([("size", np.int64), ("values", dtype, (k,))])


def _own(bsp: BSP, block: NDArray[Any], k: int, largest: bool) -> NDArray[Any]:
    """1. The k first of this block: the greatest or the least."""
    own = np.zeros(1, _fields(block.dtype, k))
    first = of_argument(NAME, "values", partial(_first, block, k, largest))
    own["size"], own["values"][0, : first.size] = first.size, first
    bsp.work(block.size + sorting(first.size))
    return own


def _first(some: NDArray[Any], k: int, largest: bool) -> NDArray[Any]:
    if 0 < k < some.size:
        some = np.partition(some, some.size - k)[some.size - k :] if largest else np.partition(some, k - 1)[:k]
    return np.sort(some)[:: -1 if largest else 1][:k]


@lru_cache(maxsize=64)
def _first_of(k: int, largest: bool) -> Operator:
    """2. Of two such lists, the k first of both."""

    def together(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        some = np.concatenate([part["values"][0, : part["size"][0]] for part in (left, right)])
        found = _first(some, k, largest)
        both = np.zeros_like(left)
        both["size"], both["values"][0, : found.size] = found.size, found
        return both

    return together


def _of_list(found: NDArray[Any]) -> NDArray[Any]:
    first: NDArray[Any] = found["values"][0, : found["size"][0]].copy()
    return first
