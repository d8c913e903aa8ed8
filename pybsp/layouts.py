"""Layouts: which processor owns which item of an array, and where it keeps it. Pure index maps, without communication.

    Block           consecutive items, equally many on each processor, or of given sizes
    Cyclic          item i belongs to processor i mod p
    BlockCyclic     blocks of equal size are dealt out like single items

An array of several axes is laid out over a processor grid with as many: its axes one by one, each over the processors
of that axis of the grid. Processors are numbered by rows: pid = row * columns + column.

All maps take arrays of indices, and loop over none of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BoundsError, argument_error, brief
from .ground.convert import span, to_integers
from .ground.instead import hinting
from .ground.public import special

__all__ = ["Block", "BlockCyclic", "Cyclic", "Layout"]


def __dir__() -> list[str]:
    return [*__all__, *special(globals())]


Ints = NDArray[np.intp]
Index = slice | Ints
_INTP = np.dtype(np.intp)
SHOWN = 8  # sizes that a layout's text has
FAR = 1 << 63  # the first number that is none of 64 bits


@dataclass(frozen=True)
class _Dealt:
    """One axis of n items in blocks of equal size, dealt out to the parts."""

    n: int
    parts: int
    block: int

    @property
    def strided(self) -> bool:
        """Whether item i belongs to part i mod parts."""
        return self.block == 1

    @property
    def whole(self) -> bool:
        """Whether each part is a single block."""
        return self.block * self.parts >= self.n

    def owner(self, index: Ints) -> Ints:
        return index // self.block % self.parts if self.block > 1 else index % self.parts

    def local(self, index: Ints) -> Ints:
        if self.block == 1:
            return index // self.parts
        if self.whole:  # the product below may be no number of 64 bits
            return index % self.block
        return index // (self.block * self.parts) * self.block + index % self.block

    def places(self, index: Ints) -> tuple[Ints, Ints]:
        local = self.local(index)
        if self.block == 1:  # a remainder takes three times as long as a product
            return index - local * self.parts, local
        return self.owner(index), local

    def to_global(self, part: Ints, local: Ints) -> Ints:
        return (local // self.block * self.parts + part) * self.block + local % self.block

    @cached_property
    def sizes(self) -> Ints:
        rounds, rest = divmod(self.n, self.block * self.parts)
        sizes = np.full(self.parts, rounds * self.block)
        whole, last = divmod(rest, self.block)
        sizes[:whole] += self.block
        sizes[whole : whole + 1] += last
        return sizes

    def size(self, part: int) -> int:
        rounds, rest = divmod(self.n, self.block * self.parts)
        return rounds * self.block + min(max(rest - part * self.block, 0), self.block)

    def begin(self, part: int) -> int:
        """Where a part begins, which is a single block."""
        return min(part * self.block, self.n)

    def part(self, part: int) -> Index:
        if self.block == 1:
            return slice(min(part, self.n), self.n, self.parts)
        if self.whole:
            return slice(self.begin(part), self.begin(part + 1))
        return self.to_global(np.intp(part), np.arange(self.sizes[part]))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Cut:
    """One axis of n items in a block for each part: part k begins at k*n div parts, or sizes are given."""

    n: int
    parts: int
    given: tuple[int, ...] | None
    strided, whole = False, True

    @cached_property
    def begins(self) -> Ints:
        if self.given is None:
            # k*n div parts, where k*n may be no number of 64 bits.
            each, rest = divmod(self.n, self.parts)
            parts = np.arange(self.parts + 1)
            return parts * each + parts * rest // self.parts
        return np.append(0, np.cumsum(self.given, dtype=np.intp))

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.begins)

    def owner(self, index: Ints) -> Ints:
        if self.given is None and self.n * self.parts < FAR:
            return ((index + 1) * self.parts - 1) // max(self.n, 1)
        return np.searchsorted(self.begins, index, "right") - 1

    def local(self, index: Ints) -> Ints:
        return self.places(index)[1]

    def places(self, index: Ints) -> tuple[Ints, Ints]:
        owner = self.owner(index)
        return owner, index - self.begins[owner]

    def to_global(self, part: Ints, local: Ints) -> Ints:
        found: Ints = self.begins[part] + local
        return found

    def size(self, part: int) -> int:
        return int(self.begins[part + 1] - self.begins[part])

    def begin(self, part: int) -> int:
        return int(self.begins[part])

    def part(self, part: int) -> Index:
        return slice(self.begin(part), self.begin(part + 1))


Axis = _Cut | _Dealt


@hinting("layout")
class Layout:
    """Which processor owns which item of an array of `shape`; made as a `Block`, `Cyclic` or `BlockCyclic`.

    Two layouts are equal where they say the same in the same words, and where blocks of one item are dealt out: then
    `BlockCyclic` is `Cyclic`. An index is an int or integers where the array has one axis, and a tuple with
    one of these for each axis where it has several; negative ones count from no end.

    Attributes:
        shape: of the array, a tuple.
        grid: of the processors, one number for each axis.
        p: processors, the product of these.

    Examples:
        >>> from pybsp.layouts import Block, Cyclic
        >>> layout = Cyclic(10, 4)
        >>> layout.owner([0, 1, 5]), layout.local([0, 1, 5])
        (array([0, 1, 1]), array([0, 0, 1]))
        >>> layout.sizes, layout.to_global(1, [0, 1, 2])
        (array([3, 3, 2, 2]), array([1, 5, 9]))
        >>> matrix = Block((4, 6), grid=(2, 3))
        >>> matrix.p, matrix.local_shape(5), matrix.part(5)
        (6, (2, 2), (slice(2, 4, None), slice(4, 6, None)))
        >>> matrix.owner((3, 4)), matrix.local((3, 4))
        (np.int64(5), (np.int64(1), np.int64(0)))
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    p: int
    _text: str
    _axes: tuple[Axis, ...]

    def _build(self, shape: Any, grid: Any, axis: Callable[[int, int, int], Axis]) -> None:
        """What all layouts have; axis: makes one, of its items, its processors, and its number."""
        name = type(self).__name__
        self.shape = _numbers(name, "shape", shape, 0)
        self.grid = _numbers(name, "grid", grid, 1)
        if len(self.shape) != len(self.grid):
            expected = f"as many numbers as shape {self.shape} has axes, {len(self.shape)}"
            raise argument_error(name, "grid", expected, brief(grid))
        self.p = math.prod(self.grid)
        self._axes = tuple(axis(n, q, k) for k, (n, q) in enumerate(zip(self.shape, self.grid, strict=True)))

    def owner(self, indices: Any) -> Ints:
        """The processors that own these items.

        Args:
            indices: of one axis, integers of any shape; of several, a tuple with integers for each, which broadcast.

        Returns:
            pids, of the shape of the indices.

        Raises:
            BoundsError: an index outside of the array.
            UsageError: no integers, or not one for each axis.
        """
        return self._owner(self._checked("layout.owner", indices))

    def local(self, indices: Any) -> Any:
        """Where their owners keep these items: indices of the owner's part, in the form that `indices` have.

        Args:
            indices: as of `owner`.

        Raises:
            BoundsError, UsageError: as `owner`.
        """
        return self._local(self._checked("layout.local", indices))

    def places(self, indices: Any) -> tuple[Ints, Any]:
        """`owner` and `local` of these items, in less time than one after the other.

        Args:
            indices: as of `owner`.

        Raises:
            BoundsError, UsageError: as `owner`.

        Examples:
            >>> from pybsp.layouts import Cyclic
            >>> pids, numbers = Cyclic(10, 3).places([0, 4, 9])
            >>> pids.tolist(), numbers.tolist()
            ([0, 1, 0], [0, 1, 3])
        """
        return self._places(self._checked("layout.places", indices))

    def _places(self, indices: Sequence[Ints]) -> tuple[Ints, Any]:
        if len(indices) == 1:
            return self._axes[0].places(indices[0])
        return self._owner(indices), self._local(indices)

    def _owner(self, indices: Sequence[Ints]) -> Ints:
        found: Any = None
        for axis, parts, index in zip(self._axes, self.grid, indices, strict=True):
            of_axis = axis.owner(index)
            found = of_axis if found is None else found * parts + of_axis
        return np.intp(found) if np.ndim(found) == 0 else found  # type: ignore[return-value]

    def _local(self, indices: Sequence[Ints]) -> Any:
        found = [axis.local(index) for axis, index in zip(self._axes, indices, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)

    def to_global(self, pid: Any, local: Any) -> Any:
        """The indices of what processors keep at these places: the inverse of `owner` and `local` together.

        Args:
            pid: a processor, or several: an array that broadcasts with `local`.
            local: indices of their parts, in the form of global ones.

        Raises:
            BoundsError: an index outside of a processor's part.
            UsageError: no integers, or no such processor.
        """
        pids = _integers("layout.to_global", "pid", pid)
        if pids.size and not 0 <= pids.min() <= pids.max() < self.p:
            raise argument_error("layout.to_global", "pid", f"processors from 0 to {self.p - 1}", pid)
        found = []
        for axis, part, index in zip(
            self._axes,
            np.unravel_index(pids, self.grid),
            self._separate("layout.to_global", "local", local),
            strict=True,
        ):
            if index.size and pids.size and not ((index >= 0) & (index < axis.sizes[part])).all():
                raise BoundsError(
                    f"layout.to_global: argument local: expected indices of what the processors own in {self}, got "
                    f"{brief(local)}; `layout.local_shape(pid)` says how much that is"
                )
            found.append(axis.to_global(part, index))
        return found[0] if len(found) == 1 else tuple(found)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many items each processor owns, shape (p,)."""
        found = np.ones(1, np.int64)
        for axis in self._axes:
            found = np.multiply.outer(found, axis.sizes).ravel()
        return found

    def local_shape(self, pid: int) -> tuple[int, ...]:
        """The shape of a processor's part; a processor beyond p - 1 owns nothing.

        Raises:
            UsageError: no processor.
        """
        place = self._place("local_shape", pid)
        if place is None:
            return (0,) * len(self.shape)
        return tuple(axis.size(k) for axis, k in zip(self._axes, place, strict=True))

    def part(self, pid: int) -> tuple[Any, ...]:
        """What a processor owns, as an index of the whole array: `whole[layout.part(pid)]`, in the order of its part.

        Of slices where these say it, so that it is a view then.

        Raises:
            UsageError: no processor.
        """
        return self._part("part", pid)

    def _part(self, name: str, pid: Any) -> tuple[Any, ...]:
        """`part`, for the method of this name."""
        place = self._place(name, pid)
        if place is None:
            return (slice(0, 0),) * len(self.shape)
        found = [axis.part(k) for axis, k in zip(self._axes, place, strict=True)]
        if len(found) == 1 or all(isinstance(one, slice) for one in found):
            return tuple(found)
        return np.ix_(*(np.arange(n)[one] for n, one in zip(self.shape, found, strict=True)))

    def beside(self, pid: int, width: int = 1) -> tuple[tuple[Ints, ...], Any]:
        """The items beside a processor's block, which a stencil needs: those that differ from it on one axis alone.

        Args:
            pid: the processor, whose part is a block.
            width: how far from the block they are, at most.

        Returns:
            (places, indices): where they belong in an array that is wider than the part by `width` on each side, as an
                index of it; and their global indices.

        Raises:
            UsageError: no processor, or one whose part is no block of neighbouring items; a width below 0.

        Examples:
            >>> from pybsp.layouts import Block
            >>> places, indices = Block((4, 4), (2, 2)).beside(1)
            >>> indices
            (array([0, 1, 2, 2]), array([1, 1, 2, 3]))
            >>> framed = np.zeros((4, 4), int)
            >>> framed[places] = 1
            >>> framed
            array([[0, 0, 0, 0],
                   [1, 0, 0, 0],
                   [1, 0, 0, 0],
                   [0, 1, 1, 0]])
        """
        width, *others = _numbers("layout.beside", "width", width, 0)
        if others:
            raise argument_error("layout.beside", "width", "a whole number, the same on each axis", (width, *others))
        parts = self._part("beside", pid)
        if not all(isinstance(part, slice) and part.step in (None, 1) for part in parts):
            raise argument_error("layout.beside", "pid", "one whose part is a block", f"{pid} of {self}")
        frame = np.ix_(*(np.arange(part.start - width, part.stop + width) for part in parts))
        outside: Any = 0
        inside: Any = all(self.local_shape(pid))  # beside nothing there is nothing
        for axis, part, n in zip(frame, parts, self.shape, strict=True):
            outside = outside + ((axis < part.start) | (axis >= part.stop))
            inside = inside & (axis >= 0) & (axis < n)
        places = np.nonzero((outside == 1) & inside)
        found = tuple(axis.ravel()[place] for axis, place in zip(frame, places, strict=True))
        return places, found if len(found) > 1 else found[0]

    def _place(self, name: str, pid: Any) -> tuple[int, ...] | None:
        """A processor's place in the grid; None beyond it."""
        try:
            number = operator.index(pid)
        except TypeError:
            number = -1
        if number < 0:
            raise argument_error(f"layout.{name}", "pid", "a processor, 0 or more", brief(pid))
        if number >= self.p:
            return None
        place = []
        for parts in reversed(self.grid):
            number, k = divmod(number, parts)
            place.append(k)
        return tuple(reversed(place))

    def _checked(self, operation: str, indices: Any, first: int = 0) -> Sequence[Ints]:
        """Indices of each axis, all within the array; first: -1 where negative ones count from the end."""
        if type(indices) is int and len(self.shape) == 1 and 0 <= indices < self.shape[0]:
            return [np.intp(indices)]  # type: ignore[list-item]  # as below, in a tenth of the time
        if (  # in half of it
            type(indices) is np.ndarray
            and len(self.shape) == 1
            and indices.dtype == _INTP
            and indices.size
            and 0 <= indices.item(indices.view(np.uint64).argmax()) < self.shape[0]
        ):
            return [indices]
        found = self._separate(operation, "indices", indices)
        for k, index in enumerate(found):
            n = self.shape[k]
            # As unsigned numbers negative ones are huge: one pass tells, and argmax takes less time than max.
            if index.size and not 0 <= index.item(index.view(np.uint64).argmax()) < n:
                if not first * n <= index.min() <= index.max() < n:
                    expected = f"indices from {first * n} to {n - 1}" if n else "no indices, as there are no items"
                    raise BoundsError(
                        f"{operation}: argument indices: expected {expected}"
                        f"{f' on axis {k}' if len(found) > 1 else ''}, got {span(index.min(), index.max())}; "
                        f"{self} has shape {self.shape}"
                    )
                found[k] = np.where(index < 0, index + n, index)
        return found

    def _separate(self, operation: str, argument: str, indices: Any) -> list[Ints]:
        """Indices of each axis."""
        if len(self.shape) == 1 and not isinstance(indices, tuple):
            return [_integers(operation, argument, indices)]
        if not isinstance(indices, tuple) or len(indices) != len(self.shape):
            expected = f"a tuple with integers for each of {len(self.shape)} axes"
            raise argument_error(operation, argument, expected, f"{type(indices).__name__} {brief(indices)}")
        found = [_integers(operation, argument, one) for one in indices]
        try:
            np.broadcast_shapes(*(one.shape for one in found))
        except ValueError:
            shapes = ", ".join(str(one.shape) for one in found)
            expected = "integers for each axis that broadcast with each other"
            way_out = "np.ix_ makes such of a set of rows and one of columns"
            raise argument_error(operation, argument, expected, f"shapes {shapes}", way_out) from None
        return found

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._axes == other._axes

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._axes)

    def __getstate__(self) -> dict[str, Any]:
        # Before Python 3.12 None has another hash in each process, and with it what it is part of.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}


class Block(Layout):
    """Consecutive items: processor i of an axis with n items and q processors owns those from i*n div q.

    Args:
        shape: items, a number of at least 0; or a tuple of these, one for each axis.
        grid: processors, at least 1; or a tuple of these, one for each axis.
        sizes: items of each processor, which add up to n; of several axes a tuple with these for each. None: sizes that
            differ by at most one, the blocks of `collectives.scatter_blocks`.

    Raises:
        UsageError: numbers that are none, or too small; another number of axes; sizes that do not add up.

    Examples:
        >>> from pybsp.layouts import Block
        >>> Block(10, 4).sizes, Block(10, 4).owner([0, 4, 9])
        (array([2, 3, 2, 3]), array([0, 1, 3]))
        >>> Block(10, 3, sizes=[7, 0, 3]).owner([6, 7])
        array([0, 2])
    """

    def __init__(self, shape: int | tuple[int, ...], grid: int | tuple[int, ...], sizes: Any = None) -> None:
        several = len(shape) if isinstance(shape, (tuple, list)) else 0
        axes = () if sizes is None else tuple(sizes) if several else (sizes,)
        if sizes is not None and (len(axes) != max(several, 1) or (several and not all(np.ndim(one) for one in axes))):
            raise argument_error("Block", "sizes", "the sizes of each axis, in a tuple", brief(sizes))

        def axis(n: int, q: int, k: int) -> _Cut:
            return _Cut(n, q, None if sizes is None else _sizes(axes[k], n, q))

        self._build(shape, grid, axis)
        text = "" if sizes is None else f", sizes={', '.join(_shortened(one) for one in self._axes)}"
        self._text = f"Block({_shown(self.shape)}, {_shown(self.grid)}{text})"


class Cyclic(Layout):
    """Item i of an axis belongs to processor i mod q of that axis.

    Args:
        shape: as of `Block`.
        grid: as of `Block`.

    Raises:
        UsageError: numbers that are none, or too small; another number of axes.

    Examples:
        >>> from pybsp.layouts import Cyclic
        >>> Cyclic(10, 4).part(1), Cyclic((3, 3), (2, 2)).sizes
        ((slice(1, 10, 4),), array([4, 2, 2, 1]))
    """

    def __init__(self, shape: int | tuple[int, ...], grid: int | tuple[int, ...]) -> None:
        self._build(shape, grid, lambda n, q, k: _Dealt(n, q, 1))
        self._text = f"Cyclic({_shown(self.shape)}, {_shown(self.grid)})"


class BlockCyclic(Layout):
    """Blocks of equal size are dealt out: item i of an axis belongs to processor (i div block) mod q of that axis.

    Args:
        shape: as of `Block`.
        grid: as of `Block`.
        block: items of a block, at least 1; or a tuple of these, one for each axis.

    Raises:
        UsageError: numbers that are none, or too small; another number of axes.

    Source: ScaLAPACK's distribution of matrices, with both source processors 0.

    Examples:
        >>> from pybsp.layouts import BlockCyclic
        >>> layout = BlockCyclic(10, 2, block=3)
        >>> layout.owner(np.arange(10)), layout.part(0)
        (array([0, 0, 0, 1, 1, 1, 0, 0, 0, 1]), (array([0, 1, 2, 6, 7, 8]),))
    """

    def __init__(self, shape: int | tuple[int, ...], grid: int | tuple[int, ...], block: int | tuple[int, ...]) -> None:
        blocks = _numbers("BlockCyclic", "block", block, 1)
        axes = len(shape) if isinstance(shape, (tuple, list)) else 1
        if len(blocks) == 1:
            blocks *= axes
        if len(blocks) != axes:
            raise argument_error("BlockCyclic", "block", "a number, or one for each axis", brief(block))
        self._build(shape, grid, lambda n, q, k: _Dealt(n, q, blocks[k]))
        # Equal layouts have one text, by which processors compare theirs.
        name, dealt = ("Cyclic", "") if set(blocks) == {1} else ("BlockCyclic", f", {_shown(blocks)}")
        self._text = f"{name}({_shown(self.shape)}, {_shown(self.grid)}{dealt})"


@lru_cache(maxsize=64)
def common(one: Layout, other: Layout) -> NDArray[np.int64]:
    """How many items processor s owns by one layout and processor d by the other: shape (p, p of the other).

    The layouts have one shape.
    """
    found = np.ones((1, 1), np.int64)
    for a, b in zip(one._axes, other._axes, strict=True):
        found = np.kron(found, _common(a, b))
    found.flags.writeable = False
    return found


def _common(a: Axis, b: Axis) -> NDArray[np.int64]:
    """`common` of an axis, without a look at each item where there is a shorter way."""
    if isinstance(a, _Cut):
        return np.diff(_before(b, a.begins), axis=0)
    if isinstance(b, _Cut):
        return _common(b, a).T
    # What is dealt out by both begins again after so many items.
    period = math.lcm(a.block * a.parts, b.block * b.parts)
    times, rest = divmod(a.n, period)
    counts = _dealt_common(a, b, rest)
    return counts + times * _dealt_common(a, b, period) if times else counts


def _dealt_common(a: _Dealt, b: _Dealt, n: int) -> NDArray[np.int64]:
    """`common` of the first n items of an axis that both deal out."""
    if a.block < b.block:
        return _dealt_common(b, a, n).T
    counts = np.zeros((a.parts, b.parts), np.int64)
    if a.block > b.parts:  # to count all that b owns of each block of a takes less time than a look at its items
        step = a.block * max(_AT_ONCE // b.parts, 1)
        for first in range(0, n, step):
            end = min(first + step, n)
            edges = np.append(np.arange(first, end, a.block), end)
            np.add.at(counts, edges[:-1] // a.block % a.parts, np.diff(_before(b, edges), axis=0))
        return counts
    for first in range(0, n, _AT_ONCE):
        index = np.arange(first, min(first + _AT_ONCE, n))
        counts += np.bincount(a.owner(index) * b.parts + b.owner(index), minlength=counts.size).reshape(counts.shape)
    return counts


def _before(axis: Axis, index: Ints) -> NDArray[np.int64]:
    """How many of the items before each index each part owns, shape (indices, parts)."""
    of_each = index[:, None]
    if isinstance(axis, _Cut):
        counts: NDArray[np.int64] = np.clip(of_each - axis.begins[:-1], 0, axis.sizes)
        return counts
    found = np.zeros((index.size, axis.parts), np.int64)
    dealt = min(axis.parts, -(-axis.n // axis.block))  # parts that own something: no product is beyond n
    period = axis.block * axis.parts
    rounds, rest = divmod(of_each, period) if period < axis.n else (0, of_each)
    found[:, :dealt] = rounds * axis.block + np.clip(rest - np.arange(dealt) * axis.block, 0, axis.block)
    return found


_AT_ONCE = 1 << 20  # indices, where all of an axis are gone through


def owned(layout: Layout, pid: int) -> list[Ints]:
    """The indices of each axis that a processor owns, ascending."""
    place = layout._place("part", pid)
    if place is None:
        return [np.arange(0)] * len(layout.shape)
    return [
        np.arange(axis.n)[index] if isinstance(index := axis.part(k), slice) else index
        for axis, k in zip(layout._axes, place, strict=True)
    ]


def places_in_array(operation: str, layout: Layout, indices: Any) -> tuple[Ints, Any]:
    """`layout.places` for an operation on an array: negative indices count from the end."""
    return layout._places(layout._checked(operation, indices, first=-1))


def owners_by_axis(layout: Layout, indices: Sequence[Ints]) -> list[Ints]:
    """For each axis the row, column, ... of the grid that owns these indices of it."""
    return [axis.owner(index) for axis, index in zip(layout._axes, indices, strict=True)]


def as_saved(layout: Layout) -> list[Any]:
    """A layout as plain data, which `of_saved` reads."""
    details: list[Any] = [axis.given if isinstance(axis, _Cut) else axis.block for axis in layout._axes]
    return [type(layout).__name__, layout.shape, layout.grid, details]


def of_saved(saved: Sequence[Any]) -> Layout:
    """What was saved."""
    name, shape, grid, details = saved
    whole, over = tuple(shape), tuple(grid)
    if name == "Block":
        return Block(whole, over, None if None in details else tuple(details))
    return Cyclic(whole, over) if name == "Cyclic" else BlockCyclic(whole, over, tuple(details))


def _numbers(name: str, argument: str, given: Any, least: int) -> tuple[int, ...]:
    """An argument that is a whole number of at least so much, or a tuple of them."""
    found: tuple[int, ...] = ()
    try:
        if not isinstance(given, (bool, np.bool_)):
            found = tuple(operator.index(one) for one in (given if isinstance(given, (tuple, list)) else (given,)))
    except TypeError:
        found = ()
    far = max(found, default=0) >= FAR
    if not found or min(found) < least or far:
        below = " and below 2^63" * far
        expected = f"a whole number of at least {least}{below}, or a tuple of them"
        raise argument_error(name, argument, expected, brief(given))
    return found


def _sizes(given: Any, n: int, parts: int) -> tuple[int, ...]:
    """The argument sizes, for an axis."""
    sizes = _array(given)
    numbers = sizes.shape == (parts,) and sizes.dtype.kind in "iu" and sizes.min() >= 0
    if not numbers or sum(sizes.tolist()) != n:  # of Python's numbers, which have no end
        expected = f"{parts} whole numbers of at least 0, the items of each processor, {n} in all"
        raise argument_error("Block", "sizes", expected, brief(given))
    return tuple(sizes.tolist())


def _array(given: Any) -> NDArray[Any]:
    """What numpy makes of an argument: of what is ragged an array without axes."""
    try:
        return np.asarray(given)
    except ValueError:
        return np.empty((), object)


def _integers(operation: str, argument: str, given: Any) -> Ints:
    """An argument that is an integer or integers."""
    found = _array(given)
    if not found.size and not isinstance(given, np.ndarray):
        found = found.astype(np.intp)  # of no dtype of its own
    far = found.dtype == np.uint64 or (found.dtype == object and all(isinstance(one, int) for one in found.flat))
    if far and found.size and (found.max() >= FAR or found.min() < -FAR):
        worst = found.max() if found.max() >= FAR else found.min()
        raise BoundsError(f"{operation}: argument {argument}: expected integers below 2^63, got {brief(int(worst))}")
    if found.dtype.kind not in "iu":
        expected = "an int or integers of 64 bits"
        got = f"{type(given).__name__} {brief(given)}"
        mask = "np.flatnonzero(mask) makes such of a mask" if found.ndim else ""
        raise argument_error(operation, argument, expected, got, mask if found.dtype == bool else to_integers(given))
    return found.astype(np.intp, copy=False)


def _shown(numbers: Sequence[int]) -> str:
    return str(numbers[0] if len(numbers) == 1 else tuple(numbers))


def _shortened(axis: Any) -> str:
    """Sizes in words: equal texts are equal sizes."""
    sizes = axis.given
    if len(sizes) <= SHOWN:
        return str(list(sizes))
    digest = blake2b(repr(sizes).encode(), digest_size=6).hexdigest()
    return f"[{', '.join(map(str, sizes[:SHOWN]))}, ... ({len(sizes)} in all, {digest})]"


def fitting(operation: str, argument: str, layout: Any, p: int) -> Layout:
    """An argument that is a layout for at most so many processors; a UsageError where it is none, or has more."""
    if not isinstance(layout, Layout):
        expected = "a layout, as pybsp.layouts.Block(n, p)"
        raise argument_error(operation, argument, expected, f"{type(layout).__name__} {brief(layout)}")
    if layout.p > p:
        expected = f"a layout of at most {p} processors, as many as there are"
        way_out = f"make it with p = {p}, or run on more processors"
        raise argument_error(operation, argument, expected, f"{layout}, which is of {layout.p}", way_out)
    return layout
