"""Patterns of arrays: who needs what of whom is settled once, then values travel alone (inspector and executor).

When a pattern is made, each processor's indices travel to the owners, with the next sync. From then on an owner knows
what it is asked for, and whoever asked knows what comes: each exchange carries, for each neighbour, one piece of values
without a word on where they belong.

    get     all processors call it in one superstep. Each owner gathers what it is asked for as the superstep ends, and
            sends it with the sync itself: no requests, and no second exchange
    put     each processor by itself. Its values are gathered by owner at the call, and written, or combined with what
            is there, at the sync: after the puts of arrays, by source, then by call

Where indices are regular they are slices, so that a piece is gathered and written at the speed of a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, Ticket
from .convert import as_array
from .cost import Cost, Machine, Superstep
from .errors import UsageError, where
from .outgoing import Outgoing, words_of
from .participant import Participant
from .places import Places, as_places, by_group, take
from .poison import poison
from .transport import PATTERNS, Parcel, Section
from .transport.memory import NOTHING, BufferPool

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

# What a record says of a piece: (number of the pattern, one of these or the name of an operator, where the piece
# begins, its items).
_INDICES, _GET, _PUT = 0, 1, 2
Asks = Sequence[tuple[int, Places, NDArray[np.int64]]]  # owner, which of the values, and which of the owner's items


class Pattern:
    """Who needs which items of whom; made by `Array.pattern` on all processors alike, and usable from the next sync on.

    Attributes:
        array: the items' array.
        shape: of the values, this processor's.
        index_bytes: of the indices that went from this processor to others, once, when the pattern was made. They count
            no words.

    Examples:
        >>> def main(bsp):
        ...     x = bsp.array(3)
        ...     x.local[:] = 10 * bsp.pid + np.arange(3)
        ...     bsp.sync()
        ...     right = (bsp.pid + 1) % bsp.p
        ...     pattern = x.pattern([right, right, bsp.pid], [2, 0, 1])
        ...     bsp.sync()
        ...     ticket = pattern.get()
        ...     bsp.sync()
        ...     pattern.put(100.0, np.add)
        ...     bsp.sync()
        ...     return ticket.value.tolist(), x.local.tolist(), pattern.shape, pattern.index_bytes
        >>> pybsp.simulate(main, p=2).results
        [([12.0, 10.0, 1.0], [100.0, 101.0, 102.0], (3,), 16), ([2.0, 0.0, 11.0], [110.0, 111.0, 112.0], (3,), 16)]
    """

    def __init__(self, patterns: Patterns, array: Array, shape: tuple[int, ...], asks: Asks, created: str) -> None:
        self.array, self.shape, self.number = array, shape, patterns.next_number()
        self._patterns, self._created = patterns, created
        self._dtype = array.local.dtype
        self._ready = self._freed = self._gone = False
        self._operators: dict[Any, str] = {}  # that fit, and their names
        # Whom this processor asks, for which of its values; and who asks it, for which of its items.
        self.asks = {owner: (places, indices.size) for owner, places, indices in asks}
        self.serves: dict[int, tuple[Places, int]] = {}
        self.index_bytes = sum(indices.nbytes for owner, _, indices in asks if owner != patterns.pid)
        self._told: Sequence[bytes] | None = None
        self._repeated: dict[int, bool] = {}
        # Of a get that is out: its ticket; whether it has gone out; where the values go; and who is still to send some.
        self._ticket: Ticket | None = None
        self.out = False
        self._result: NDArray[Any] | None = None
        self._due: set[int] = set()

    # -- what a program calls -----------------------------------------------------------------------------------------

    def get(self, into: NDArray[Any] | None = None) -> Ticket:
        """Ask for the values, as they are at their owners when the superstep ends; all processors call it in it.

        Args:
            into: an array of the pattern's shape, to which the values are written at the sync; `ticket.value` is it.
                Its dtype is the array's, or one to which that casts (`same_kind`). None: `ticket.value` is an array of
                the pattern's shape, read-only, valid until the sync after the next.

        Returns:
            A ticket; `ticket.value` is there after the next sync.

        Raises:
            UsageError: the pattern was made since the last sync, or freed, or its array was, or that has another size
                now; a second get in one superstep; an `into` that does not fit. At the sync, on all processors: one of
                those that it has to do with did not call it.

        BSP cost: `cost(machine, "get")`: one message of ceil(bytes / 8) words from each owner; nothing is sent to ask.
        """
        self._check("pattern.get")
        if self._ticket is not None:
            raise UsageError(
                "pattern.get: expected one get of a pattern in a superstep, got a second one; use the first one's "
                "ticket, or call bsp.sync() first"
            )
        ticket = self._ticket = Ticket(self.array, self.shape, self.array.checked_into("pattern.get", into, self.shape))
        self._patterns.get(self)
        return ticket

    def put(self, values: Any, op: np.ufunc | None = None) -> None:
        """Write values at their owners at the next sync, or combine them with what is there; they are copied now.

        What all processors put is written by source, then by call, after what `array.put` writes; gets read before. A
        processor that puts nothing changes nothing.

        Args:
            values: what casts to the array's dtype (`same_kind`) and broadcasts to the pattern's shape.
            op: a ufunc of numpy's own with two arguments: what is there becomes `op(what is there, value)`, for one
                value after the other. None: the value itself, of several for one place the last.

        Raises:
            UsageError: as `get`; values or op that do not fit.

        BSP cost: `cost(machine, "put")`: one message of ceil(bytes / 8) words to each owner.
        """
        self._check("pattern.put")
        items = as_array(values, self._dtype, "pattern.put")
        if items.shape != self.shape:
            try:
                items = np.broadcast_to(items, self.shape)
            except ValueError:
                raise UsageError(
                    f"pattern.put: argument values: expected shape {self.shape}, the pattern's, or what broadcasts to "
                    f"it, got {items.shape}"
                ) from None
        kind = _PUT if op is None else self._operators.get(op) or self._operator(op)
        self._patterns.put(self, kind, items.reshape(-1))

    def cost(self, machine: Machine, operation: Literal["get", "put"] = "get") -> Cost:
        """What the superstep of a get, or of a put by all processors, costs on a machine, exactly; the same on all.

        Args:
            machine: its p is that of the processors.
            operation: "get" or "put".

        Raises:
            UsageError: before the sync after the pattern was made; another operation.
        """
        if operation not in ("get", "put"):
            raise UsageError(f'pattern.cost: argument operation: expected "get" or "put", got {operation!r:.60}')
        if self._told is None:
            raise UsageError(self._early("pattern.cost"))
        step = self._counted
        return Cost(machine, [step if operation == "get" else step._replace(h_out=step.h_in, h_in=step.h_out)])

    def free(self) -> None:
        """Give the pattern up on all processors alike; takes effect at the next sync. Freeing its array does so too.

        Raises:
            UsageError: it is freed already.
        """
        self._patterns.check("pattern.free")
        if self._freed:
            raise UsageError(f"pattern.free: the pattern made at {self._created} is freed already")
        self._freed = True
        self._patterns.free(self)

    # -- what Patterns calls ------------------------------------------------------------------------------------------

    @property
    def told(self) -> bytes:
        """Whom this processor asks, for how many items: what all get to know."""
        return np.array([(owner, count) for owner, (_, count) in self.asks.items()], np.int64).tobytes()

    def accept(self, told: Sequence[bytes], arrays: dict[int, Array]) -> None:
        """All processors have made it; what each has told, by pid."""
        self._told = told

    def leave(self) -> None:
        """All processors have freed it, or its array."""
        self._gone = True
        self._patterns.drop(self.number)

    def expect(self, pool: BufferPool, checked: bool) -> None:
        """A get has gone out: the values are about to come."""
        ticket = self._ticket
        assert ticket is not None
        self.out, self._due, self._result = True, set(self.asks), None
        if ticket.into is not None and np.may_share_memory(flat := ticket.into.reshape(-1), ticket.into):
            self._result = flat
        elif checked or ticket.into is not None or not self._in_one_piece():
            size = math.prod(self.shape)
            self._result = np.ndarray(size, self._dtype, pool.take(size * self._dtype.itemsize))

    def _in_one_piece(self) -> bool:
        """Whether all values come from one processor, in their order."""
        return len(self.asks) == 1 and all(isinstance(places, slice) for places, _ in self.asks.values())

    def bring(self, source: int, piece: NDArray[Any]) -> bool:
        """Values that an owner sends; False where none are waited for."""
        if not self.out or source not in self._due:
            return False
        self._due.remove(source)
        if self._result is None:
            self._result = piece  # read where it lies
        else:
            self._result[self.asks[source][0]] = piece
        return True

    def complete(self) -> NDArray[Any] | None:
        """The superstep has ended: the pattern is there, or its get's values are; returns what holds these, of its own.

        None where that is the program's.
        """
        ticket, result = self._ticket, self._result
        if not self.out or self._due:
            self._ready = True
            return None
        self.out, self._ticket, self._result = False, None, None
        assert ticket is not None
        assert result is not None
        value = result.reshape(self.shape)
        return None if ticket.give(value) else result

    @property
    def due(self) -> Sequence[int]:
        """Who is still to send something for a get."""
        return sorted(self._due) if self.out else ()

    def write(self, source: int, piece: NDArray[Any], kind: int | str) -> bool:
        """Write what a processor has put; False where the array has another size than it had."""
        if not self.array.whole():
            return False
        items = self.array.local.reshape(-1)
        places, _ = self.serves[source]
        if isinstance(kind, int):
            items[places] = piece
            return True
        op: np.ufunc = getattr(np, kind)
        if isinstance(places, slice):
            there = items[places]
            op(there, piece, out=there, casting="same_kind")
        elif self._repeats(source, places):
            op.at(items, places, piece)
        else:
            items[places] = op(items[places], piece)
        return True

    def _repeats(self, source: int, places: NDArray[np.intp]) -> bool:
        """Whether a processor puts several values in one place."""
        found = self._repeated.get(source)
        if found is None:
            found = self._repeated[source] = np.unique(places).size < places.size
        return found

    def _operator(self, op: np.ufunc) -> str:
        """The name of a ufunc by which values can be combined, which all processors know it by.

        Raises:
            UsageError: it is none.
        """
        name = str(getattr(op, "__name__", ""))
        if getattr(np, name, None) is not op or not isinstance(op, np.ufunc) or (op.nin, op.nout) != (2, 1):
            raise UsageError(
                f"pattern.put: argument op: expected None, or a ufunc of numpy's own with two arguments, as np.add, "
                f"got {op!r:.60}; other functions: put to an array of the owner's, and combine there"
            )
        there = np.ones(1, self._dtype)
        try:
            op(there, there, out=there, casting="same_kind")
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"pattern.put: argument op: expected one that makes {self._dtype} of two {self._dtype}, got np.{name} "
                f"({error})"
            ) from None
        self._operators[op] = name
        return name

    @cached_property
    def _counted(self) -> Superstep:
        """What a get is charged for."""
        assert self._told is not None
        rows = [np.frombuffer(told, np.int64).reshape(-1, 2) for told in self._told]
        dest = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        source, count = np.concatenate(rows).T
        far = source != dest
        source, dest, count = source[far], dest[far], count[far]
        if not count.size:
            return Superstep(0, 0, 0, 0)
        words = -(-count * self._dtype.itemsize // 8)
        out, into = np.bincount(source, words), np.bincount(dest, words)
        messages = max(np.bincount(source).max(), np.bincount(dest).max())
        locality = np.abs(source - dest).max()
        return Superstep(int(out.max()), int(into.max()), int(messages), int(words.sum()), 0.0, int(locality))

    def _check(self, operation: str) -> None:
        """Refuse what cannot be executed now."""
        self._patterns.check(operation)
        self.array.check(operation)
        if self._gone:
            raise UsageError(f"{operation}: the pattern made at {self._created} was freed; make another")
        if not self._ready:
            raise UsageError(self._early(operation))

    def _early(self, operation: str) -> str:
        return (
            f"{operation}: the pattern made at {self._created} is not there yet: that takes effect at the next sync; "
            "call bsp.sync() first"
        )

    def __repr__(self) -> str:
        return f"<pattern of {self.shape} items of {self.array!r}, made at {self._created}>"


class Patterns(Participant):
    """The patterns of one processor, and what goes out and arrives for them.

    Attributes:
        awaited: patterns that were made, or whose get went out, with the sync that goes on.
    """

    __slots__ = ("_by_number", "_engine", "_gets", "_kept", "_new", "_out", "_results", "awaited", "pid")

    def __init__(self, engine: SuperstepEngine) -> None:
        self._engine, self.pid = engine, engine.pid
        self._by_number: dict[int, Pattern] = {}
        self._new: list[tuple[Pattern, Asks]] = []
        self._gets: list[Pattern] = []
        self._out: dict[int, Outgoing] = {}
        self._results = BufferPool()
        self._kept: list[NDArray[Any]] = []  # when checked: values that are to be poisoned
        self.awaited: list[Pattern] = []

    def make(self, array: Array, owners: NDArray[np.intp], items: NDArray[np.int64], shape: tuple[int, ...]) -> Pattern:
        """Make a pattern; all processors alike.

        Args:
            owners: of the items, shape (m,); checked, as items.
            items: their numbers in their owners' parts.
            shape: of the values, m in all.
        """
        line = where()
        asks = [(owner, as_places(chosen), items[chosen]) for owner, chosen in by_group(owners)]
        pattern = Pattern(self, array, shape, asks, line)
        self._by_number[pattern.number] = pattern
        self._engine.registering().add_pattern(pattern, line)
        self._new.append((pattern, asks))
        self._engine.participants[self] = None
        return pattern

    def next_number(self) -> int:
        """The number of the next pattern: arrays and patterns are counted together."""
        return self._engine.registrations.next_array()

    def check(self, operation: str) -> None:
        """Refuse what may not be called now."""
        self._engine.gate.check(operation)

    def free(self, pattern: Pattern) -> None:
        """All processors free it, at this line."""
        self._engine.registering().free(pattern, "free of pattern")

    def drop(self, number: int) -> None:
        """A pattern is gone."""
        self._by_number.pop(number, None)

    def drop_all(self, array: Array) -> None:
        """An array is gone, and its patterns with it."""
        for pattern in [one for one in self._by_number.values() if one.array is array]:
            pattern.leave()

    # -- what goes out ------------------------------------------------------------------------------------------------

    def _piece(self, dest: int, record: tuple[int, int | str], count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Room for a piece that goes out."""
        out = self._out.get(dest)
        if out is None:
            out = self._out[dest] = Outgoing(self._engine.pool)
        size = count * dtype.itemsize
        offset = out.reserve(size)
        out.records.append((*record, offset, count))
        if record[1] != _INDICES:
            out.words += words_of(size)
        return np.ndarray(count, dtype, out.array, offset)

    def put(self, pattern: Pattern, kind: int | str, values: NDArray[Any]) -> None:
        """Copy what is put, shape (m,)."""
        record = (pattern.number, kind)
        for owner, (places, count) in pattern.asks.items():
            take(values, places, self._piece(owner, record, count, values.dtype))
        self._engine.participants[self] = None

    def get(self, pattern: Pattern) -> None:
        """A get goes out with the next sync."""
        self._gets.append(pattern)
        self._engine.participants[self] = None

    def sent(self) -> Sequence[str]:
        return ["pattern.put"] * bool(self._out) + ["pattern.get"] * bool(self._gets)

    def pack(self, parcels: dict[int, Parcel]) -> None:
        for pattern, asks in self._new:
            for owner, _, items in asks:
                self._piece(owner, (pattern.number, _INDICES), items.size, items.dtype)[...] = items
            self.awaited.append(pattern)
        for pattern in self._gets:
            items, record = pattern.array.local.reshape(-1), (pattern.number, _GET)
            for source, (places, count) in pattern.serves.items():
                take(items, places, self._piece(source, record, count, items.dtype))
            pattern.expect(self._results, self._engine.checked)
            self.awaited.append(pattern)
        self._new, self._gets = [], []
        for dest, out in self._out.items():
            messages = sum(record[1] != _INDICES for record in out.records)
            parcels.setdefault(dest, {})[PATTERNS] = Section(out.records, out.words, messages, out.filled())
        self._out = {}

    # -- what arrives -------------------------------------------------------------------------------------------------

    def deliver(self, arrived: Sequence[tuple[int, Section]]) -> None:
        """What arrived: by source."""
        for source, section in arrived:
            data = NOTHING if section.data is None else section.data
            for number, kind, offset, count in section.descriptors:
                pattern = self._by_number[number]
                if kind == _INDICES:
                    items: NDArray[np.int64] = np.ndarray(count, np.int64, data, offset)
                    pattern.serves[source] = as_places(items), count
                    continue
                piece: NDArray[Any] = np.ndarray(count, pattern.array.local.dtype, data, offset)
                if kind != _GET:
                    if not pattern.write(source, piece, kind):
                        self._differ(f"pattern.put: {pattern.array.resized()} on processor {self.pid}")
                else:
                    piece.flags.writeable = False
                    if not pattern.bring(source, piece):
                        self._differ(
                            f"pattern.get: processor {source} called it and processor {self.pid}, to which it sends "
                            "values, did not; all processors call it in the same superstep"
                        )

    def complete(self) -> None:
        """The superstep has ended, and what came was delivered."""
        awaited, self.awaited = self.awaited, []
        for pattern in awaited:
            if pattern.due:
                self._differ(
                    f"pattern.get: processor {self.pid} called it and processor {pattern.due[0]}, which has values for "
                    "it, did not; all processors call it in the same superstep"
                )
            own = pattern.complete()
            if own is not None and self._engine.checked:
                self._kept.append(own)
                self._engine.participants[self] = None  # until it is forgotten

    def forget(self) -> None:
        for values in self._kept:
            poison(values.view(np.uint8), [values])
        self._kept = []

    def _differ(self, complaint: str) -> NoReturn:
        self._engine.agreement.differ(complaint)
