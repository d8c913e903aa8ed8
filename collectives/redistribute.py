"""Redistribution: an array that is laid out one way over the processors, laid out another way."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays.array import Array
from ..arrays.places import Places, as_places, by_group
from ..bsp import BSP
from ..errors import UsageError, argument_error
from ..ground.convert import no_mask, what
from ..layouts import Layout, common, fitting, owned, owners_by_axis
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import item_words
from .plan import Plan, Step, joined
from .primitive import Call, primitive
from .values import checked_out, placed, room

CACHED = 16  # pairs of layouts whose index maps a processor keeps


class _Overlap(NamedTuple):
    """What a processor has in common with another one: an index of its own part."""

    other: int
    index: Any


class _Maps(NamedTuple):
    """What a processor does.

    own, new: shapes of its parts.
    stays: whether it keeps all it has, as all do.
    leaving, coming: for whom what is, and from whom; sources: of the latter, all others.
    """

    own: tuple[int, ...]
    new: tuple[int, ...]
    stays: bool
    leaving: list[_Overlap]
    coming: list[_Overlap]
    sources: list[int]

    @classmethod
    def of(cls, from_layout: Layout, to_layout: Layout, pid: int, p: int) -> _Maps:
        shapes = from_layout.local_shape(pid), to_layout.local_shape(pid)
        if p == 1 or from_layout == to_layout:
            return cls(*shapes, True, [], [], [])
        coming = _pieces(to_layout, from_layout, pid)
        sources = [piece.other for piece in coming if piece.other != pid]
        return cls(*shapes, False, _pieces(from_layout, to_layout, pid), coming, sources)


@lru_cache(maxsize=64)
def _step(from_layout: Layout, to_layout: Layout) -> Step:
    counts = common(from_layout, to_layout)
    sources, destinations = counts.nonzero()
    return Step.of(sources, destinations, 0, counts[sources, destinations])


def plan(p: int, from_layout: Layout, to_layout: Layout) -> Plan:
    """Who sends how many items to whom (items: of the message)."""
    name = "redistribute.plan"
    _fitting(name, from_layout, to_layout, p)
    return joined(p, () if p == 1 or from_layout == to_layout else (_step(from_layout, to_layout),))


def cost(machine: Machine, from_layout: Layout, to_layout: Layout, words: float = 1) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        from_layout, to_layout: of the array.
        words: of an item: bytes / 8, so that it may be no whole number.
    """
    _fitting("redistribute.cost", from_layout, to_layout, machine.p)
    return plan(machine.p, from_layout, to_layout).cost(machine, item_words("redistribute.cost", "words", words))


@primitive(cost, plan)
def redistribute(
    bsp: BSP, array: Any, from_layout: Layout, to_layout: Layout, *, out: NDArray[Any] | None = None
) -> Supersteps[NDArray[Any]]:
    """Lay an array out another way over the processors; collective.

    A transpose of a matrix in rows is this, from `Block((n, m), (p, 1))` to `Block((n, m), (1, p))`.

    Args:
        bsp: the processor.
        array: this processor's part by `from_layout`, shape `from_layout.local_shape(bsp.pid)`, of plain data. It may
            have more axes than the layout, behind those of it: then an item is a row. Dtype and shape of a row are
            equal on all processors, empty arrays included.
        from_layout: of at most p processors, equal on all (`pybsp.layouts`).
        to_layout: likewise, of an array of the same shape.
        out: keyword only: an array for the result, of its shape and of a dtype that it can be cast to. None: a new one.

    Returns:
        This processor's part by `to_layout`, an array of one's own.

    Raises:
        UsageError: no layouts, of other shapes, or of more processors than there are; an array that is no such part;
            arguments that differ.

    BSP cost: one superstep in which each item whose owner changes goes there: for n items from blocks to p processors
    dealt out cyclically h = n/p * (1 - 1/p); `redistribute.cost` has it exactly. Nothing where p = 1, or the layouts
    are equal.

    Source: R. H. Bisseling, Parallel Scientific Computation, sections 3.4 and 3.5.

    Examples:
        >>> from pybsp import collectives
        >>> from pybsp.layouts import Block, Cyclic
        >>> block, cyclic = Block(7, 3), Cyclic(7, 3)
        >>> def main(bsp):
        ...     mine = np.arange(7)[block.part(bsp.pid)]
        ...     return collectives.redistribute(bsp, mine, block, cyclic).tolist()
        >>> pybsp.simulate(main, p=3).results
        [[0, 3, 6], [1, 4], [2, 5]]
        >>> collectives.redistribute.cost(pybsp.BSPMachine.nominal(3), block, cyclic).h
        2
    """
    pid, name = bsp.pid, "redistribute"
    cache, key = bsp.prepared.setdefault(name, {}), (from_layout, to_layout)
    try:
        maps = cache.get(key)
    except TypeError:  # what cannot be hashed is no layout
        maps = None
    if maps is None:
        _fitting(name, from_layout, to_layout, bsp.p)
        if len(cache) >= CACHED:
            del cache[next(iter(cache))]
        maps = cache[key] = _Maps.of(from_layout, to_layout, pid, bsp.p)
    rows = len(maps.own)
    if isinstance(array, np.ndarray) and type(array) is not np.ndarray:
        no_mask(name, "array", array)
        array = np.asarray(array)
    if type(array) is not np.ndarray or array.dtype.hasobject or array.shape[:rows] != maps.own:
        raise UsageError(
            f"redistribute: argument array: expected a numpy array of plain data of shape {maps.own}, that of "
            f"processor {pid}'s part of {from_layout}, or with more axes behind, got {what(array)}"
            + "; x.local is that of an array of the machine"
            * isinstance(array, Array)
        )
    row = array.shape[rows:]
    call = Call(bsp, name, from_layout=from_layout, to_layout=to_layout, array=_kind(array.dtype, row))
    checked_out(name, out)
    if bsp.p > 1 and not maps.sources and all(piece.other == pid for piece in maps.leaving):
        call.compare()
    if maps.stays:
        kept: NDArray[Any] = np.array(array) if out is None else placed(name, array, out)
        return kept
    call.takes(1)
    # 1. Each processor sends each other one the items that are to be its.
    result = room(out, maps.new + row, array.dtype)
    for piece in maps.leaving:
        chosen = array[piece.index]
        if piece.other == pid:
            mine = chosen.copy()  # the caller may change it once the others are sent
        else:
            call.send(piece.other, chosen)
    letters = iter((yield from call.sync(maps.sources)))
    for piece in maps.coming:
        result[piece.index] = mine if piece.other == pid else next(letters).payload
    found: NDArray[Any] = placed(name, result, out)
    return found


@lru_cache(maxsize=64)
def _kind(dtype: np.dtype[Any], row: tuple[int, ...]) -> str:
    """Items in words; kept, as numpy takes microseconds to name a dtype."""
    return f"{dtype} items of shape {row}" if row else str(dtype)


def _fitting(name: str, from_layout: Any, to_layout: Any, p: int) -> None:
    """Refuse layouts that do not fit the processors, or each other, with a UsageError."""
    one, other = fitting(name, "from_layout", from_layout, p), fitting(name, "to_layout", to_layout, p)
    if one.shape != other.shape:
        raise argument_error(name, "to_layout", f"a layout of shape {one.shape}, that of from_layout", other)


def _pieces(layout: Layout, other: Layout, pid: int) -> list[_Overlap]:
    """What a processor's part by a layout has in common with those of all processors by another one, by pid.

    On each axis the items that two parts have in common are in the same order in both, so nothing but the items need be
    sent.
    """
    # For each axis: which row, column, ... of the other grid has which of this part's items.
    by_axis = [by_group(owners) for owners in owners_by_axis(other, owned(layout, pid))]
    found: list[tuple[int, tuple[Places, ...]]] = [(0, ())]
    for parts, groups in zip(other.grid, by_axis, strict=True):
        found = [(pid * parts + k, (*places, as_places(at))) for pid, places in found for k, at in groups]
    return [_Overlap(pid, _index(places)) for pid, places in found]


def _index(places: tuple[Places, ...]) -> Any:
    """The index of what is in these places on each axis."""
    if len(places) == 1 or all(isinstance(one, slice) for one in places):
        return places
    return np.ix_(*(np.arange(one.stop)[one] if isinstance(one, slice) else one for one in places))
