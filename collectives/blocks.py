"""Arrays in blocks: what the primitives share that take rows of one array on each processor.

The blocks of all processors, one after the other in the order of pids, are one array, which lies nowhere. A *row* is an
item of its first axis, a number where it has one axis only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import argument_error, brief
from ..ground.convert import no_mask, what
from ..rides.ride import Letter
from .arguments import numbers
from .one_superstep import Exchange, exchange_of
from .plan import Plan
from .primitive import NOT_SMALL, remember
from .values import placed, room, unpacked

Ints = NDArray[np.int64]

FEW_COUNTS = 64  # that Python adds up in less time than numpy


def block_of(name: str, argument: str, given: Any, objects: bool = False) -> NDArray[Any]:
    """An argument that is a block: an array, or what makes one.

    Args:
        name: of the primitive.
        argument: its name.
        given: by the user.
        objects: whether its items may be Python objects.

    Raises:
        UsageError: it makes none, has a mask, no axes, or objects.
    """
    if type(given) is np.ndarray and given.ndim and (objects or not given.dtype.hasobject):
        return given
    no_mask(name, argument, given)
    expected = "an array of shape (n, ...)"
    try:
        block = np.asarray(given)
    except Exception as error:
        raise argument_error(name, argument, expected, f"{what(given)} ({error})") from None
    if block.ndim == 0:
        got, way_out = what(block), "np.array([value]) makes one of a number"
        if block.dtype.hasobject:  # which numpy makes of what has no order or no items
            got, way_out = what(given), "list(values) makes one of a set or a generator, np.empty(0, dtype) has no rows"
        raise argument_error(name, argument, expected, got, way_out)
    if block.dtype.hasobject and not objects:
        raise argument_error(name, argument, f"{expected} of plain data", what(block), "convert with .astype")
    return block


def row_kind(block: NDArray[Any]) -> str:
    """Dtype and shape of a row, as processors compare them."""
    return _kind(block.dtype, block.shape[1:])


@lru_cache(maxsize=1024)
def _kind(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    # Kept: numpy takes microseconds to name a dtype.
    return f"{dtype} rows of shape {shape}" if shape else str(dtype)


def row_words(block: NDArray[Any]) -> float:
    """Words of a row: bytes / 8, so that it may be no whole number."""
    return block.dtype.itemsize * int(np.prod(block.shape[1:], dtype=np.int64)) / 8


def even_cuts(p: int, n: int) -> Ints:
    """Where n rows are cut into p blocks whose sizes differ by at most one: block i begins at i*n div p."""
    return np.arange(p + 1) * n // p


def begins(n: int, parts: int) -> Ints:
    """Where n things are cut into parts of which the first ones have one more; shape (parts + 1,)."""
    part = np.arange(parts + 1, dtype=np.int64)
    return part * (n // parts) + np.minimum(part, n % parts)


def given_cuts(name: str, counts: ArrayLike | None, p: int, n: int) -> Ints:
    """Where n rows are cut into blocks of so many: the argument counts; None: into equal ones.

    Raises:
        UsageError: they are not p whole numbers of at least 0, or of another sum.
    """
    if counts is None:
        return even_cuts(p, n)
    no_mask(name, "counts", counts)
    sizes = numbers(counts)
    if sizes.shape == (0,):  # of no dtype of its own
        sizes = sizes.astype(np.int64)
    if sizes.shape != (p,) or sizes.dtype.kind not in "iu" or sizes.min() < 0 or sizes.sum() != n:
        expected = f"{p} whole numbers of at least 0, the rows of each block, {n} in all"
        raise argument_error(name, "counts", expected, brief(counts))
    return np.append(0, np.cumsum(sizes, dtype=np.int64))


def cut_at(name: str, counts: ArrayLike | None, p: int, n: int) -> list[int]:
    """`given_cuts` as a list: most often of so few that numpy would take five times as long."""
    if counts is None:
        return [i * n // p for i in range(p + 1)]
    if p <= FEW_COUNTS:
        few: Any = counts.tolist() if type(counts) is np.ndarray and counts.dtype.kind in "iu" else counts
        if type(few) in (list, tuple) and len(few) == p and all(type(one) is int and one >= 0 for one in few):
            found = [0, *accumulate(few)]
            if found[-1] == n:
                return found
    cuts: list[int] = given_cuts(name, counts, p, n).tolist()
    return cuts


def cut(name: str, block: NDArray[Any], counts: ArrayLike | None, p: int) -> list[NDArray[Any]]:
    """The blocks of an array, of so many rows, the argument counts (None: equal ones), as `given_cuts` has it."""
    if counts is None:
        blocks = []
        for rows in _even_rows(p, len(block)):
            blocks.append(block[rows])  # noqa: PERF401 - to begin a comprehension takes as long as two blocks
        return blocks
    return [block[first:last] for first, last in pairwise(cut_at(name, counts, p, len(block)))]


@lru_cache(maxsize=64)
def _even_rows(p: int, n: int) -> list[slice]:
    return [slice(first, last) for first, last in pairwise(even_cuts(p, n).tolist())]


def exchange_of_blocks(
    bsp: BSP, key: tuple[Any, ...], agreed: Mapping[str, Any], scheme: Plan, each: bool = False
) -> Exchange:
    """`exchange_of` of blocks, which takes and returns arrays.

    Args:
        key: begins with the name of the primitive, dtype and shape of a row.
    """
    name, dtype, *_ = key
    if not dtype.hasobject:
        return exchange_of(bsp, key, name, agreed, scheme, each)
    exchange = exchange_of(bsp, key, name, agreed, scheme, each, "array")

    def exchange_objects(blocks: Any) -> Any:
        came = exchange(blocks)
        return came if came is NOT_SMALL else [unpacked(one) for one in came]

    return remember(bsp, key, exchange_objects)


def blocks_of(letters: Sequence[Letter]) -> list[NDArray[Any]]:
    """The blocks that came, which `packed` has made what they are sent as."""
    return [unpacked(letter.payload) for letter in letters]


@lru_cache(maxsize=64)
def _array_of(rows: tuple[int, ...]) -> Ints:
    # Kept: numpy takes longer to make an array of a sequence than to copy one.
    return np.array(rows)


def in_one(
    came: list[NDArray[Any]], own: NDArray[Any], pid: int, name: str, out: NDArray[Any] | None
) -> tuple[NDArray[Any], Ints]:
    """The blocks that came and the own one as one array, in the order of pids, and the rows of each.

    Args:
        came: those from all other processors, in the order of pids, in a list that nobody else needs.
        own: the block of this processor, which has the others' dtype and shape of a row.
        pid: of this processor.
        name: of the primitive.
        out: where the array goes; None: a new one.
    """
    came.insert(pid, own)
    rows = tuple(map(len, came))
    if out is None:
        return np.ascontiguousarray(np.concatenate(came, dtype=own.dtype)), _array_of(rows).copy()
    array = room(out, (sum(rows), *own.shape[1:]), own.dtype)
    if np.may_share_memory(array, own):
        came[pid] = own.copy()  # what comes before it goes over it
    return placed(name, np.concatenate(came, out=array), out), _array_of(rows).copy()
