"""Registered arrays: `x.put` and `x.get` reach into what other processors own.

Calls are checked here; what they say is copied at the call, and travels by accesses.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from ..errors import BoundsError, TicketError, UsageError, argument_error, brief, describe, usage_error
from ..ground.convert import as_array, span, to_integers, what
from ..ground.copying import copy
from ..ground.instead import hinting
from ..ground.public import Public, special
from ..messages.mail import SHORT
from ..messages.outgoing import words_of
from ..rides.shown import ELSEWHERE
from ..transport import Bytes
from .indices import regular, store

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine
    from .pattern import Pattern


@hinting("ticket")
class Ticket(Public):
    """What a get will bring: `value` after the next sync, read-only, valid until the sync after it.

    Examples:
        >>> def main(bsp):
        ...     x = bsp.array(2)
        ...     x.local[:] = bsp.pid
        ...     bsp.sync()
        ...     ticket = x.get((bsp.pid + 1) % bsp.p)
        ...     bsp.sync()
        ...     return ticket.value.tolist()
        >>> pybsp.simulate(main, p=2).results
        [[1.0, 1.0], [0.0, 0.0]]
    """

    __slots__ = ("_called_in", "_shape", "_value", "array", "into", "number")
    _public = ("value",)
    operation: ClassVar[str] = "array.get"  # what it is the ticket of

    def __init__(self, array: Array, shape: tuple[int, ...], into: NDArray[Any] | None = None) -> None:
        self.array, self._shape, self.into = array, shape, into  # into: where the value goes; None: nowhere else
        self._called_in = len(array._superstep.account.log)  # the number of a superstep
        self.number = 0  # of the get among those of the superstep
        self._value: NDArray[Any] | None = None

    @property
    def form(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and the dtype that the value has."""
        return self._shape, self.array.local.dtype

    def fill(self, data: Bytes, at: int) -> int:
        """The value has arrived, at that place of the data, which is read-only; returns its bytes."""
        self._value = value = np.ndarray(self._shape, self.array.local.dtype, data, at)
        return value.nbytes

    def give(self, value: NDArray[Any]) -> bool:
        """This is the value; returns whether it has gone into an array of the program's."""
        into = self.into
        if into is None:
            value.flags.writeable = False
            self._value = value
            return False
        if not np.may_share_memory(value, into):
            self.require_writeable()
            into[...] = value
        self._value = into
        return True

    def require_writeable(self) -> None:
        """Refuse an array for the value that could be written to at the call, and cannot be any more."""
        if self.into is not None and not self.into.flags.writeable:
            raise UsageError(
                f"{self.operation}: argument into, of the call in {describe(self._called_in, '')}: expected an array "
                "that can be written to until the sync, got one that is read-only since the call (as a room is that "
                "goes out with this sync); give it an array of its own"
            )

    @property
    def value(self) -> NDArray[Any]:
        """The values that the get has brought.

        Raises:
            TicketError: it is read before the sync that brings them.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.register(np.arange(3) + bsp.pid)
            ...     bsp.sync()
            ...     ticket = x.get(0, at=2)
            ...     bsp.sync()
            ...     return int(ticket.value)
            >>> pybsp.simulate(main, p=2).results
            [2, 2]
        """
        if self._value is None:
            raise TicketError(
                f"ticket.value: the get was called in {describe(self._called_in, '')}; its value is there after the "
                "sync that ends this superstep; call bsp.sync() first"
            )
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """What numpy takes a ticket for: its value."""
        return np.array(self.value, dtype, copy=copy)

    def __repr__(self) -> str:
        if self._value is not None:
            shape = " x ".join(map(str, self._value.shape))
            return f"<ticket: {f'array of {shape} ' if shape else ''}{self._value.dtype}>"
        gate = self.array._gate
        state = f"no value: the {gate.of} has {gate.over}" if gate.over else "there after the next bsp.sync()"
        return f"<ticket: {state}>"


@hinting("x")
class Array(Public):
    """An array of which each processor owns `local`; made by `bsp.array` on all processors alike.

    put and get work from the sync after the one that made it until the sync after `free`.

    Examples:
        >>> def main(bsp):
        ...     x = bsp.array(bsp.pid + 1)  # parts may differ in size
        ...     bsp.sync()  # from now on it may be put to and got from
        ...     x.put(bsp.p - 1, bsp.pid, at=bsp.pid)
        ...     bsp.sync()
        ...     x.free()
        ...     bsp.sync()
        ...     return x.shapes, x.local.tolist()
        >>> pybsp.simulate(main, p=3).results[2]
        ([(1,), (2,), (3,)], [0.0, 1.0, 2.0])
    """

    _public: ClassVar[tuple[str, ...]] = ("local", "shapes", "put", "get", "pattern", "free")
    _by_index = ""  # what takes other numbers than those of processors, in words

    def __init__(self, superstep: SuperstepEngine, number: int, local: NDArray[Any], created: str) -> None:
        self._superstep, self._gate, self.number = superstep, superstep.gate, number
        self._local, self._created = local, created
        self._shapes: list[tuple[int, ...]] | None = None  # of all processors, known from the next sync
        self._shape: tuple[int, ...] | None = None  # of these, that of this one
        self._there: list[NDArray[Any] | None] = []  # the parts of others that lie where this processor sees them
        self._freed = self._gone = False  # whether `free` was called, and whether that has taken effect

    @property
    def local(self) -> NDArray[Any]:
        """This processor's part: always the same object, written by puts at a sync.

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.array(3).local.tolist(), p=2).results
            [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        """
        return self._local

    @local.setter
    def local(self, values: Any) -> None:
        if values is not self._local:  # as after `x.local += 1`, which has written to it
            way_out = "write to it (x.local[...] = values), or begin with an array of the program's own (bsp.register)"
            raise usage_error("array.local", "to stay the array that it is", "another in its place", way_out)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """What numpy asks for, which would take this for an object else."""
        expected = "an array of numpy's"
        way_out = "x.get(pid) brings another's, with the next sync"
        raise usage_error(f"{self!r}", expected, "one of all processors: x.local is this one's part", way_out)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each processor's part, by pid.

        Raises:
            UsageError: before the sync after the array was made.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array((bsp.pid, 2))
            ...     bsp.sync()
            ...     return x.shapes
            >>> pybsp.simulate(main, p=2).results[0]
            [(0, 2), (1, 2)]
        """
        if self._shapes is None:
            raise UsageError(self._early("array.shapes"))
        return list(self._shapes)

    def put(self, dest: SupportsIndex, values: Any, at: Any = None) -> None:
        """Write values into processor dest's part at the next sync; they are copied now.

        Args:
            dest: the processor that owns what is written.
            values: what casts to the array's dtype (`same_kind`, as numpy has it: a text that is too long is cut, and a
                number too large for a float is infinite) and broadcasts to the indexed shape.
            at: None (all of it), a basic index, integer arrays, or a tuple with one of these per axis.

        Raises:
            UsageError: a wrong dest, values that do not fit, use before the array is registered or after it was freed.
            BoundsError: an index, or a slice's end, outside of processor dest's part.

        BSP cost: one message of ceil(bytes / 8) words.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array(6, dtype=np.int64)
            ...     bsp.sync()
            ...     x.put(0, [bsp.pid] * 2, at=slice(2 * bsp.pid, 2 * bsp.pid + 2))
            ...     x.put(1, bsp.pid, at=np.array([0, 5]))  # of overlapping puts the last one counts
            ...     bsp.sync()
            ...     return x.local.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0, 0, 1, 1, 2, 2], [2, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0]]
        """
        dest = self._processor(dest, "array.put", "dest")
        if type(at) is list:
            at = _numbers(at)
        assert self._shapes is not None
        found = regular(at, self._shapes[dest])
        shape, first, step = found if found is not None else (self._irregular(dest, at, "array.put"), 0, 0)
        items = as_array(values, self._local.dtype, "array.put")
        try:
            items = np.broadcast_to(items, shape) if items.shape != shape else items
        except ValueError:
            expected = f"shape {shape}, as at={show(at)} has on processor {dest}, or what broadcasts to it"
            raise argument_error("array.put", "values", expected, items.shape) from None
        size = items.dtype.itemsize * items.size
        if not size:
            return  # legal, and nothing to do
        accesses = self._superstep.accesses
        if step and size <= SHORT and accesses.put_run(dest, self.number, first, step, items, size):
            return
        out = accesses.put(dest)
        if isinstance(at, np.ndarray):
            out.expect(8 * at.size + size)
        stored = store(at, out)
        offset = out.reserve(size)
        # The one copy of a put.
        copy(items, np.ndarray(shape, items.dtype, out.array, offset))
        out.words += words_of(size)
        out.records.append((self.number, stored, offset, shape))

    def get(self, source: SupportsIndex, at: Any = None, into: NDArray[Any] | None = None) -> Ticket:
        """Ask for values of processor source's part, as they are when the superstep ends.

        Args:
            source: the processor that owns what is read.
            at: as in `put`.
            into: an array of the shape that `at` selects, to which the values are written at the sync (before puts
                are, and by source, then by call); its dtype is the array's, or one to which that casts (`same_kind`).

        Returns:
            a ticket; `ticket.value` is the array after the next sync, or `into`.

        Raises:
            UsageError, BoundsError: as `put`.

        BSP cost: one message of ceil(bytes / 8) words, counted at its source; the request counts none.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array(4, dtype=np.int64)
            ...     x.local[:] = 10 * bsp.pid + np.arange(4)
            ...     bsp.sync()
            ...     mine = np.zeros(4)
            ...     last, two = x.get(0, at=-1), x.get(1, at=[2, 0], into=mine[1:3])
            ...     bsp.sync()
            ...     return last.value.item(), mine.tolist()
            >>> pybsp.simulate(main, p=2).results
            [(3, [0.0, 12.0, 10.0, 0.0]), (3, [0.0, 12.0, 10.0, 0.0])]
        """
        source = self._processor(source, "array.get", "source")
        if type(at) is list:
            at = _numbers(at)
        shape = self._check_index(source, at, "array.get")
        ticket = Ticket(self, shape, None if into is None else self.checked_into("array.get", into, shape))
        self._ask(source, ticket, shape, at)
        return ticket

    def _ask(self, source: int, ticket: Ticket, shape: tuple[int, ...], at: Any) -> None:
        """Ask for what `at` selects of source's part, of that shape."""
        there = self._there[source] if self._there else None
        accesses = self._superstep.accessing()
        if there is None:
            accesses.get(source, ticket, self.number, at)
        else:
            accesses.get_there(source, ticket, shape, there, at)

    def __getitem__(self, pid: SupportsIndex) -> Remote:
        """Processor pid's part: `x[pid][2:5] = values` is a put, `x[pid][2:5].get()` a get."""
        if type(pid) is not int or not 0 <= pid < self._gate.limit:
            pid = self._number(pid)
        return Remote(self, pid)

    def __setitem__(self, pid: SupportsIndex, values: Any) -> None:
        """`x[pid] = values`: a put of all of it."""
        self[pid].put(values)

    __iter__ = None  # it is no sequence: without this Python would ask for one processor after the other

    def pattern(self, owners: Any, at: Any) -> Pattern:
        """Settle once which items this processor gets, or puts to, in later supersteps; collective.

        It can be used from the next sync on, with which the indices travel: `pattern.get()`, `pattern.put(values)`.

        Args:
            owners: the processors that own the items: an int, or integers of any shape.
            at: which items of theirs: integers, or, of an array with several axes, a tuple with integers for each,
                which broadcast with owners. Where owners is an int: what `put` takes.

        Returns:
            A pattern whose values have the shape that owners and at broadcast to; of one owner that which `at` selects.

        Raises:
            UsageError: a wrong owner, or an `at` that is none; use before the array is registered or after it was
                freed.
            BoundsError: an index outside of its owner's part.
            SyncError: at the sync: not all processors made the same patterns.

        BSP cost: none; the indices count no words, as `pattern.index_bytes` says how many bytes they are.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array(2, np.int64)
            ...     bsp.sync()
            ...     pattern = x.pattern(np.arange(bsp.p), bsp.pid % 2)  # an item of each processor
            ...     bsp.sync()
            ...     pattern.put(10 + bsp.pid, np.add)
            ...     bsp.sync()
            ...     return x.local.tolist(), pattern.cost(bsp.machine, "put").h
            >>> pybsp.simulate(main, p=3).results
            [([22, 11], 2), ([22, 11], 2), ([22, 11], 2)]
        """
        self._gate.check("array.pattern")
        self.check("array.pattern")
        assert self._shapes is not None
        if isinstance(owners, (int, np.integer)) and not isinstance(owners, bool):
            owner = self._processor(owners, "array.pattern", "owners")
            shape = self._check_index(owner, at, "array.pattern")
            of_owner = self._shapes[owner]
            items = np.arange(math.prod(of_owner)).reshape(of_owner)[() if at is None else plain(at)].reshape(-1)
            return self._superstep.patterns.make(self, np.full(items.size, owner), items, shape)
        target, *axes = self._checked_places(owners, at)
        items = np.zeros(target.size, np.int64)
        owners, which = np.unique(target, return_inverse=True)
        shapes = [self._shapes[owner] for owner in owners]
        for owner, shape in zip(owners, shapes, strict=True):
            if len(shape) != len(axes):
                raise UsageError(
                    f"array.pattern: argument at: expected integers for each of {len(shape)} axes, which processor "
                    f"{owner}'s part, of shape {shape}, has (in a tuple where there are several), got {show(at)}; "
                    "where parts have unlike numbers of axes: one owner, an int, per pattern"
                )
        dims = np.array(shapes, np.int64).reshape(owners.size, len(axes))
        for k, axis in enumerate(axes):
            of_owner = dims[which.ravel(), k]
            index = axis.ravel()
            if index.size and not ((index >= -of_owner) & (index < of_owner)).all():
                wrong = int(((index < -of_owner) | (index >= of_owner)).argmax())
                number = np.broadcast_to(at[k] if isinstance(at, tuple) else at, target.shape).flat[wrong]
                raise self._outside("array.pattern", at, int(target.flat[wrong]), f"index {number} on axis {k}")
            items = items * of_owner + np.where(index < 0, index + of_owner, index)
        return self._superstep.patterns.make(self, target.ravel(), items, target.shape)

    def _checked_places(self, owners: Any, at: Any) -> list[NDArray[np.int64]]:
        """Owners, and indices for each axis, of one shape."""
        found = []
        for argument, given in [("owners", owners), *(("at", one) for one in (at if isinstance(at, tuple) else (at,)))]:
            try:
                array = np.asarray(given)
            except ValueError:
                array = np.empty((), object)  # ragged: refused below
            if not array.size and array is not given:
                array = array.astype(np.int64)  # of no dtype of its own
            if array.dtype.kind not in "iu":
                expected = "an int or integers"
                raise argument_error("array.pattern", argument, expected, what(given), "with slices: one owner, an int")
            if array.dtype == np.uint64:  # larger ones would wrap to negative ones
                array = np.minimum(array, np.uint64(LARGEST_INDEX))
            found.append(array.astype(np.int64, copy=False))
        try:
            found = list(np.broadcast_arrays(*found))
        except ValueError as error:
            raise UsageError(
                f"array.pattern: argument at: expected what broadcasts with owners of shape {found[0].shape} ({error})"
            ) from None
        target = found[0]
        if target.size and not 0 <= target.min() <= target.max() < self._gate.limit:
            wrong = target[(target < 0) | (target >= self._gate.limit)]
            raise self._gate.refusal("array.pattern", "owners", int(wrong[0]))
        return found

    def free(self) -> None:
        """Give the array up on all processors alike; takes effect at the next sync.

        Raises:
            UsageError: it was freed before.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array(4)
            ...     bsp.sync()
            ...     x.free()
            ...     bsp.sync()
            ...     x.put(0, 1.0)
            >>> try:
            ...     pybsp.simulate(main, p=1)
            ... except pybsp.UsageError as error:
            ...     print("was freed" in str(error))
            True
        """
        self._gate.check("array.free")
        if self._freed:
            raise UsageError(f"array.free: the array made at {self._created} is freed already")
        self._freed = True
        self._superstep.registering().free(self, "free of array")

    @property
    def kind(self) -> str:
        """What is equal on all processors, in words."""
        return str(self._local.dtype)

    def accept(self, declared: list[tuple[tuple[int, ...], int]], arrays: dict[int, Array]) -> None:
        """All processors have made it, with these shapes, at these places: it is one of the arrays now."""
        self._shapes = [shape for shape, _ in declared]
        self._shape = self._shapes[self._superstep.pid]
        shown = self._superstep.shown
        if shown is not None:
            self._there = [
                None if place == ELSEWHERE else np.ndarray(shape, self._local.dtype, part, place)
                for (shape, place), part in zip(declared, shown.parts, strict=True)
            ]
        arrays[self.number] = self

    def leave(self) -> None:
        """All processors have freed it, and what was put to it until then has been written."""
        self._gone = True
        self._superstep.patterns.drop_all(self)

    def check(self, operation: str) -> None:
        """Refuse what may not be done with it now."""
        if self._shapes is None:
            raise UsageError(self._early(operation))
        if self._gone:
            raise UsageError(f"{operation}: the array made at {self._created} was freed; make another")
        if not self.whole():
            raise UsageError(f"{operation}: {self.resized()}")

    def whole(self) -> bool:
        """Whether this processor's part has the shape that all know."""
        return self._local.shape == self._shape

    def resized(self) -> str:
        """That it is not, in words."""
        return (
            f"the array made at {self._created}: expected array.local to have shape {self._shape}, with which it was "
            f"registered, got {self._local.shape}; make another array instead of resizing it"
        )

    def locked(self) -> str:
        """That puts cannot be written, where that is so."""
        return (
            f"the array made at {self._created}: expected array.local to be writeable, got one whose "
            f"flags.writeable is False, on processor {self._superstep.pid}; what is put to stays writeable"
        ) * (not self._local.flags.writeable)

    def checked_into(self, operation: str, into: Any, shape: tuple[int, ...]) -> NDArray[Any] | None:
        """An argument into: None, or an array that can be written to, of that shape."""
        if into is None:
            return None
        if not isinstance(into, np.ndarray) or into.shape != shape or not into.flags.writeable:
            got = what(into) + ", read-only" * (isinstance(into, np.ndarray) and not into.flags.writeable)
            raise argument_error(operation, "into", f"a numpy array of shape {shape} that can be written to", got)
        if not np.can_cast(self._local.dtype, into.dtype, "same_kind"):
            raise argument_error(operation, "into", f"{self._local.dtype}, or what it casts to (same_kind)", into.dtype)
        found: NDArray[Any] = into
        return found

    def _number(self, pid: Any) -> int:
        """The processor of `x[pid]`, where that is no plain int in range."""
        self._gate.check("x[pid]")
        if isinstance(pid, np.integer) and 0 <= pid < self._gate.limit:
            return int(pid)
        expected = f"a processor's number first, from 0 to {self._gate.limit - 1}, as in x[pid][2:5]"
        way_out = f"this processor's own part is x.local, as in x.local[2:5]{self._by_index}"
        raise usage_error("x[...]", expected, show(pid), way_out)

    def _processor(self, pid: Any, operation: str, argument: str) -> int:
        if type(pid) is not int or not 0 <= pid < self._gate.limit:
            pid = self._gate.processor(operation, argument, pid)
        if self._shapes is None or self._gone:
            self.check(operation)
        return int(pid)

    def _early(self, operation: str) -> str:
        return (
            f"{operation}: the array made at {self._created} is not registered yet: that takes effect at the next "
            "sync; call bsp.sync() first (array.local may be used at once)"
        )

    def _check_index(self, pid: int, at: Any, operation: str) -> tuple[int, ...]:
        """The shape that `at` selects on processor pid; raises where it reaches outside."""
        assert self._shapes is not None
        found = regular(at, self._shapes[pid])
        return found[0] if found is not None else self._irregular(pid, at, operation)

    def _irregular(self, pid: int, at: Any, operation: str) -> tuple[int, ...]:
        """The same, where `at` is not `regular`."""
        assert self._shapes is not None
        shape = self._shapes[pid]
        if isinstance(at, np.ndarray) and at.ndim == 1 and len(shape) == 1 and at.dtype.kind in "iu":
            # As unsigned numbers negative ones are huge: one pass tells where there are none.
            if at.size == 0 or (at.dtype == np.int64 and at.view(np.uint64).max() < shape[0]):
                return (at.size,)
            if at.min() >= -shape[0] and at.max() < shape[0]:
                return (at.size,)
            raise self._outside(operation, at, pid, span(at.min(), at.max()))
        if type(at) is int and len(shape) == 1:
            raise self._outside(operation, at, pid, f"index {brief(at)}")
        check_index(f"{operation}: argument at", at, shape, lambda why: self._outside(operation, at, pid, why))
        try:
            # An array of the remote shape that takes no memory: numpy itself says what the index selects.
            selected: NDArray[Any] = np.broadcast_to(np.empty((), bool), shape)[plain(at)]
            return selected.shape
        except IndexError as error:
            raise self._outside(operation, at, pid, str(error)) from None

    def _outside(self, operation: str, at: Any, pid: int, why: str) -> BoundsError:
        assert self._shapes is not None
        return BoundsError(
            f"{operation}: argument at: expected an index within shape {self._shapes[pid]}, processor {pid}'s "
            f"part of the array made at {self._created}, got {show(at)} ({why}); `array.shapes` has all shapes"
        )

    def __repr__(self) -> str:
        if self._gone:
            return f"<freed array of {self.kind}, made at {self._created}>"
        return f"<array of {self.kind}, shape {self._local.shape} here, made at {self._created}>"


def _numbers(at: list[Any]) -> Any:
    """A list of ints as an array, once for all that look at it; another list as it is, which is refused by its name."""
    try:
        found = np.asarray(at)
    except (ValueError, OverflowError):
        return at
    return found if found.dtype.kind in "iu" else at


LARGEST_INDEX = (1 << 63) - 1  # of numpy


def check_index(argument: str, at: Any, shape: tuple[int, ...], outside: Callable[[str], BoundsError]) -> None:
    """Refuse an index that numpy would take for something else, and slices whose ends are outside of that shape.

    Args:
        argument: with its operation, for errors.
        outside: makes the error, of why.
    """
    parts = at if isinstance(at, tuple) else (at,)
    for k, part in enumerate(parts):
        if part is Ellipsis:  # as many whole axes as the others leave
            named = sum(q is not None and q is not Ellipsis for q in parts)
            parts = (*parts[:k], *[slice(None)] * (len(shape) - named), *parts[k + 1 :])
            break
    axes = iter(range(len(shape)))
    for part in parts:
        if isinstance(part, slice):
            axis = next(axes, None)
            ends = (part.start, part.stop)
            if part.step == 0 or not all(q is None or isinstance(q, (int, np.integer)) for q in (*ends, part.step)):
                raise usage_error(argument, "a slice of ints whose step is not 0", show(part))
            if axis is not None:
                for end in ends:
                    if end is not None and not -shape[axis] <= end <= shape[axis]:
                        raise outside(f"the slice's end {brief(int(end))} on axis {axis}")
        elif isinstance(part, (list, np.ndarray)):
            try:
                array = np.asarray(part)
            except ValueError:
                raise usage_error(argument, "integers of one shape", show(part)) from None
            if array.dtype.kind not in "iu" and (array.size or array is part):  # [] is an index
                expected = "None, ints, slices or integer arrays"
                mask = "turn a mask into indices with np.nonzero"
                raise usage_error(argument, expected, what(array), mask if array.dtype == bool else to_integers(part))
            if array.dtype == np.uint64 and array.size and array.max() > LARGEST_INDEX:
                raise outside(f"the index {array.max()}")
            next(axes, None)
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            if not -LARGEST_INDEX <= part <= LARGEST_INDEX:
                raise outside(f"the index {brief(int(part))}")
            next(axes, None)
        elif part is not None and part is not Ellipsis:
            raise usage_error(argument, "None, ints, slices or integer arrays", what(part), to_integers(part))


class Remote(NDArrayOperatorsMixin):
    """A processor's part of an array, to be indexed: made by `x[pid]`.

    Examples:
        >>> def main(bsp):
        ...     x = bsp.array(6, np.int64)
        ...     bsp.sync()
        ...     x[1][2:5] = 10 * bsp.pid + np.arange(3)  # x.put(1, ..., at=slice(2, 5))
        ...     bsp.sync()
        ...     ticket = x[1][2:4].get()  # x.get(1, at=slice(2, 4))
        ...     bsp.sync()
        ...     return ticket.value.tolist()
        >>> pybsp.simulate(main, p=2).results
        [[10, 11], [10, 11]]
    """

    __slots__ = ("_array", "_at", "_pid")

    def __init__(self, array: Array, pid: SupportsIndex, at: Any = None) -> None:
        self._array, self._pid, self._at = array, pid, at

    def __getitem__(self, at: Any) -> Remote:
        if self._at is not None:
            way_out = "give all of it at once, a tuple for several axes"
            raise usage_error("x[pid][...]", "one index", f"another one behind {show(self._at)}", way_out)
        return Remote(self._array, self._pid, (None,) if at is None else at)  # a new axis, and not all of it

    def __setitem__(self, at: Any, values: Any) -> None:
        self[at].put(values)

    def __dir__(self) -> list[str]:
        """As of `Public`, which numpy's stubs let no class with its operators be."""
        return [*special(super().__dir__()), "put", "get"]

    def _refuse(self, *_: Any, **given: Any) -> NoReturn:
        """What numpy and all operators ask for, which would take this for an object else."""
        in_place = any(one is self for one in given.get("out", ()))
        way_out = "; to combine values with what is there: x.pattern(pid, at), and then its put(values, np.add)"
        raise UsageError(
            f"{self!r}: expected an array of numpy's, got another processor's memory: ticket = x[pid][...].get() asks "
            f"for it, and ticket.value is there after the next bsp.sync(){way_out * in_place}"
        )

    __array__ = __array_ufunc__ = __bool__ = __iter__ = _refuse

    def put(self, values: Any) -> None:
        """`Array.put` to these items."""
        self._array.put(self._pid, values, at=self._at)

    def get(self, into: NDArray[Any] | None = None) -> Ticket:
        """`Array.get` of these items."""
        return self._array.get(self._pid, at=self._at, into=into)

    def __repr__(self) -> str:
        return f"<{'all' if self._at is None else show(self._at)} of processor {self._pid}'s part of {self._array!r}>"


def plain(at: Any) -> Any:
    """An index that numpy takes as it is: empty lists become integer arrays."""
    if isinstance(at, tuple):
        return tuple(plain(part) for part in at)
    return np.asarray(at, np.intp) if isinstance(at, list) else at


def show(at: Any) -> str:
    return what(at) if isinstance(at, np.ndarray) else brief(at, 80)
