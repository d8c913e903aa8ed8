"""Arrays with global indices: a layout says which processor owns an item, so that a program need not.

What they say becomes puts, gets and patterns of arrays, one for each owner.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BoundsError, argument_error
from ..ground.convert import as_array
from ..layouts import Ints, Layout, places_in_array
from ..transport import Bytes
from .array import Array, Ticket, check_index, plain, show
from .boxes import Box, boxes
from .places import as_places, by_group

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine
    from .pattern import Pattern


class GlobalArray(Array):
    """An array that is laid out over the processors; made by `bsp.array(layout)` and `bsp.register(local, layout)`.

    It is an `Array` too: `local`, put, get and the others work by processor as they do there.

    Attributes:
        layout: which processor owns which item, equal on all.

    Examples:
        >>> from pybsp.layouts import Cyclic
        >>> def main(bsp):
        ...     x = bsp.array(Cyclic(7, bsp.p), dtype=np.int64)
        ...     (mine,) = x.layout.part(bsp.pid)
        ...     x.local[:] = np.arange(7)[mine] ** 2
        ...     bsp.sync()
        ...     ticket = x.global_get([6, 0, 3])
        ...     bsp.sync()
        ...     if bsp.pid == 0:
        ...         x.global_put(slice(5, 7), [-5, -6])
        ...     bsp.sync()
        ...     return ticket.value.tolist(), x.local.tolist()
        >>> pybsp.simulate(main, p=2).results
        [([36, 0, 9], [0, 4, 16, -6]), ([36, 0, 9], [1, 9, -5])]
    """

    _public = (*Array._public, "layout", "global_get", "global_put", "global_pattern")
    _by_index = "; by the layout's numbers: x.global_put(indices, values), x.global_get(indices)"

    def __init__(
        self, superstep: SuperstepEngine, number: int, local: NDArray[Any], created: str, layout: Layout
    ) -> None:
        super().__init__(superstep, number, local, created)
        self.layout = layout

    @property
    def kind(self) -> str:
        return f"{super().kind} in {self.layout}"

    def global_get(self, indices: Any, into: NDArray[Any] | None = None) -> Ticket:
        """Ask for items by their global indices, as they are when the superstep ends.

        Args:
            indices: None (all of it), a basic index, integers of any shape, or a tuple with one of these per axis; as
                in numpy, integers broadcast, negative ones count from the end, and axes that are not named are whole.
            into: as of `Array.get`; it is written to in the turn of the last processor that owns some of the items.

        Returns:
            A ticket; `ticket.value`, of the shape of the indices, is there after the next sync.

        Raises:
            BoundsError: an index, or a slice's end, outside of the array.
            UsageError: as `Array.get`.

        BSP cost: one message of ceil(bytes / 8) words from each owner, counted at its source.
        """
        shape, form, pieces = self._pieces("array.global_get", indices)
        whole = _Whole(self, shape, self.checked_into("array.global_get", into, shape))
        if whole.into is not None and len(pieces) == 1 and pieces[0].shape == shape:  # it comes where it belongs
            self._ask(pieces[0].owner, whole, shape, pieces[0].at)
            return whole
        values = np.empty(form, self._local.dtype)
        if not pieces:
            whole.give(values.reshape(shape))
        left = [len(pieces)]
        for owner, where, at, of_piece in pieces:
            self._ask(owner, _Piece(whole, of_piece, values, where, left), of_piece, at)
        return whole

    def global_put(self, indices: Any, values: Any) -> None:
        """Write items by their global indices at the next sync; the values are copied now.

        Args:
            indices: as of `global_get`; of equal ones the last value counts.
            values: what casts to the array's dtype (`same_kind`) and broadcasts to the shape of the indices.

        Raises:
            BoundsError: an index, or a slice's end, outside of the array.
            UsageError: as `Array.put`.

        BSP cost: one message of ceil(bytes / 8) words to each owner.
        """
        shape, form, pieces = self._pieces("array.global_put", indices)
        items = as_array(values, self._local.dtype, "array.global_put")
        try:
            items = np.broadcast_to(items, shape).reshape(form)
        except ValueError:
            expected = f"shape {shape}, as the indices have, or what broadcasts to it"
            raise argument_error("array.global_put", "values", expected, items.shape) from None
        for owner, where, at, _ in pieces:
            self.put(owner, items[where], at=at)

    def global_pattern(self, indices: Any) -> Pattern:
        """`Array.pattern` by global indices: collective; also before the sync that makes the array usable.

        Args:
            indices: as of `global_get`; other ones on each processor.

        Raises:
            BoundsError: an index, or a slice's end, outside of the array.
            UsageError, SyncError: as `Array.pattern`.

        BSP cost: none.

        Examples:
            >>> from pybsp.layouts import Block
            >>> def main(bsp):
            ...     x = bsp.array(Block(6, bsp.p))
            ...     x.local[:] = np.arange(6)[x.layout.part(bsp.pid)]
            ...     ends = x.global_pattern([0, 5])
            ...     bsp.sync()
            ...     ticket = ends.get()
            ...     bsp.sync()
            ...     return ticket.value.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0.0, 5.0], [0.0, 5.0], [0.0, 5.0]]
        """
        self._gate.check("array.global_pattern")
        if self._shapes is not None:  # until then its layout says where everything is
            self.check("array.global_pattern")
        owners, items = self._places("array.global_pattern", indices)
        if isinstance(items, tuple):
            number: Any = 0
            for axis, lengths in zip(items, self._lengths.T, strict=True):
                number = number * lengths[owners] + axis
            items = number
        return self._superstep.patterns.make(self, owners.ravel(), np.asarray(items, np.int64).ravel(), owners.shape)

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """Of each processor's part, shape (p of the layout, axes)."""
        return np.array([self.layout.local_shape(pid) for pid in range(self.layout.p)], np.int64)

    def _places(self, operation: str, indices: Any) -> tuple[Ints, Any]:
        """The owners of items, and where they have them."""
        shape = self.layout.shape
        parts = indices if isinstance(indices, tuple) else (indices,)
        if len(parts) < len(shape) or any(
            part is None or part is Ellipsis or isinstance(part, slice) for part in parts
        ):

            def outside(why: str) -> BoundsError:
                return BoundsError(
                    f"{operation}: argument indices: expected an index within shape {shape} of {self.layout}, got "
                    f"{show(indices)} ({why})"
                )

            check_index(f"{operation}: argument indices", indices, shape, outside)
            try:
                indices = _selected(indices, shape)
            except IndexError as error:
                raise outside(str(error)) from None
        owners, local = places_in_array(operation, self.layout, indices)
        return np.asarray(owners), local

    def _pieces(self, operation: str, indices: Any) -> tuple[tuple[int, ...], tuple[int, ...], list[Box]]:
        """The shape of the indices; that of an array of all items, in which pieces are; and what each owner has."""
        self._gate.check(operation)
        self.check(operation)
        axes = self._plain(indices)
        if axes is not None:
            found = boxes(self.layout, axes)
            if found is not None:
                return found[0], *found
        owners, local = self._places(operation, indices)
        owner_of, *places = np.broadcast_arrays(owners, *local) if isinstance(local, tuple) else (owners, local)
        places = [axis.ravel() for axis in places]
        pieces = []
        for owner, chosen in by_group(owner_of.ravel()):
            at: Any = tuple(axis[chosen] for axis in places)
            pieces.append(Box(owner, as_places(chosen), at if len(at) > 1 else as_places(at[0]), (chosen.size,)))
        return owners.shape, (owners.size,), pieces

    def _plain(self, indices: Any) -> list[int | slice] | None:
        """Of each axis an int, or an ascending slice, within the array; None of other indices."""
        shape = self.layout.shape
        parts: list[Any] = list(indices) if isinstance(indices, tuple) else [Ellipsis if indices is None else indices]
        if not all(part is Ellipsis or isinstance(part, (slice, int, np.integer)) for part in parts):
            return None
        if Ellipsis not in parts:
            parts.append(Ellipsis)
        k = parts.index(Ellipsis)
        parts[k : k + 1] = [slice(None)] * (len(shape) + 1 - len(parts))
        return parts if len(parts) == len(shape) and all(map(_within, parts, shape)) else None


def _within(part: Any, n: int) -> bool:
    """Whether it is an int, or an ascending slice, within so many items."""
    if not isinstance(part, slice):
        return not isinstance(part, bool) and part is not Ellipsis and bool(-n <= part < n)
    ends, step = (part.start, part.stop), part.step
    ascends = step is None or (isinstance(step, (int, np.integer)) and step > 0)
    return bool(ascends) and all(end is None or (isinstance(end, (int, np.integer)) and -n <= end <= n) for end in ends)


def _selected(indices: Any, shape: tuple[int, ...]) -> tuple[Ints, ...]:
    """The numbers, on each axis, of the items that an index selects in an array of that shape.

    Raises:
        IndexError: it reaches outside, or names more axes.

    Examples:
        >>> from pybsp.arrays.global_array import _selected
        >>> rows, columns = _selected((slice(5, 1, -2), [-1, 2]), (9, 4))
        >>> rows.tolist(), columns.tolist()
        ([[5, 5], [3, 3]], [[3, 2], [3, 2]])
    """
    parts = list(indices) if isinstance(indices, tuple) else [Ellipsis if indices is None else indices]
    named = sum(part is not None and part is not Ellipsis for part in parts)
    if named > len(shape):
        raise IndexError(f"it has indices of {named} axes")
    if Ellipsis not in [part for part in parts if not isinstance(part, np.ndarray)]:
        parts.append(Ellipsis)
    # Only what is named is numbered: the axes are as long as what is selected on them, and `inner` selects it there.
    numbers: list[Ints] = []
    inner: list[Any] = []
    for part in parts:
        axis = len(numbers)
        if part is Ellipsis:
            whole = shape[axis : axis + len(shape) - named]
            numbers += map(np.arange, whole)
            inner.append(part)
        elif part is None:
            inner.append(part)
        elif isinstance(part, slice):
            numbers.append(np.arange(*part.indices(shape[axis])))
            inner.append(slice(None))
        else:
            chosen = np.asarray(plain(part)).astype(np.int64, copy=False)
            if chosen.size and not -shape[axis] <= chosen.min() <= chosen.max() < shape[axis]:
                raise IndexError(f"index {chosen.max() if chosen.min() >= 0 else chosen.min()} on axis {axis}")
            numbers.append(np.where(chosen < 0, chosen + shape[axis], chosen).ravel())
            inner.append(np.arange(chosen.size).reshape(chosen.shape) if np.ndim(part) else 0)
    lengths = [one.size for one in numbers]
    # Each axis in an array of the shape of all, which takes no memory: numpy itself says what is selected.
    return tuple(np.broadcast_to(one, lengths)[tuple(inner)] for one in np.ix_(*numbers))


class _Whole(Ticket):
    """What items by their global indices come in."""

    __slots__ = ()
    operation = "array.global_get"


class _Piece(Ticket):
    """What one owner brings of a ticket's value, which is whole with the last of them."""

    __slots__ = ("_left", "_places", "_values", "_whole")

    def __init__(
        self, whole: Ticket, shape: tuple[int, ...], values: NDArray[Any], places: Any, left: list[int]
    ) -> None:
        super().__init__(whole.array, shape, whole.into)  # into: so that its turn comes by source and call
        self._whole, self._values, self._places, self._left = whole, values, places, left

    def fill(self, data: Bytes, at: int) -> int:
        piece: NDArray[Any] = np.ndarray(*self.form, data, at)
        self.give(piece)
        return piece.nbytes

    def give(self, value: NDArray[Any]) -> bool:
        self._values[self._places] = value
        self._left[0] -= 1
        return not self._left[0] and self._whole.give(self._values.reshape(self._whole.form[0]))
