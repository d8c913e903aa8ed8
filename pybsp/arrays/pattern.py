"""Patterns of arrays: who needs what of whom is settled once, then values travel alone (inspector and executor).

When a pattern is made, each processor's indices travel to the owners, with the next sync. From then on an owner knows
what it is asked for, and whoever asked knows what comes: each exchange carries, for each neighbour, one piece of values
without a word on where they belong.

    get     all processors call it in one superstep. Each owner gathers what it is asked for as the superstep ends, and
            sends it with the sync itself: no requests, and no second exchange. What a processor asks an owner for
            several times comes once
    put     each processor by itself. Its values are gathered by owner at the call, and written, or combined with what
            is there, at the sync: after the puts of arrays, by source, then by call

Where indices are regular they are slices, so that a piece is gathered and written at the speed of a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, argument_error, brief, usage_error, where
from ..ground.chunk import clock
from ..ground.convert import as_array, what
from ..ground.public import Public
from ..machines.cost import Cost, Machine, Superstep
from ..messages.outgoing import words_of
from ..messages.poison import poison
from ..supersteps.participant import Participant, Texts
from ..transport import INDICES, PATTERNED, Parcel, Section, new_tuple
from ..transport.memory import NOTHING, BufferPool, Bytes
from ..transport.wire import PLAIN_MOST, plain_text
from ..ways import BY_PATTERN
from .array import Array, Ticket
from .places import Places, among, as_places, by_group, count_of, distinct, take, taken

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

Asks = Sequence[tuple[int, Places, NDArray[np.int64]]]  # owner, which of the values, and which of the owner's items
Spread = tuple[list[int], NDArray[np.intp]]  # see `spread_of`
_PLAIN = "="  # in the place of an operator's name: the value itself is written


class Pattern(Public, Participant):
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
        ...     pattern.free()
        ...     bsp.sync()
        ...     return ticket.value.tolist(), x.local.tolist(), pattern.shape, pattern.served, pattern.index_bytes
        >>> pybsp.simulate(main, p=2).results[0]
        ([12.0, 10.0, 1.0], [100.0, 101.0, 102.0], (3,), 3, 16)
    """

    _public = ("array", "shape", "index_bytes", "get", "put", "cost", "served", "free")

    def __init__(
        self,
        engine: SuperstepEngine,
        array: Array,
        shape: tuple[int, ...],
        asks: Asks,
        created: str,
        spread: Spread | None,
    ) -> None:
        self.array, self.shape, self.number = array, shape, engine.registrations.next_array()
        self._engine, self._gate, self._pool = engine, engine.gate, engine.pool
        self._participants, self._awaited = engine.participants, engine.patterns.awaited
        self._created, self._dtype, self._own = created, array.local.dtype, engine.pid
        self._ready = self._freed = False
        self._operators: dict[Any, str] = {}  # that fit, and their names
        # Who sends what: owner or asker, the places of its values here or of its items, bytes, and words.
        self._asks = [(owner, places, *self._size(indices.size)) for owner, places, indices in asks]
        self._serves: list[tuple[int, Places, int, int]] = []
        self._requested, self._served = {owner: places for owner, places, _ in asks}, dict[int, Places]()
        # Of each owner, how many items; and, where some are asked for several times, where each value is in what comes.
        self._items: list[int]
        self._spread: NDArray[np.intp] | None
        self._items, self._spread = spread or ([indices.size for _, _, indices in asks], None)
        self.index_bytes = sum(indices.nbytes for owner, _, indices in asks if owner != engine.pid)
        self.stream = PATTERNED - 2 * self.number  # of gets; that of puts is the next one
        # Whether all values come from one processor, in their order.
        self._one_piece = len(asks) == 1 and isinstance(asks[0][1], slice) and self._spread is None
        self._declared: Sequence[bytes] | None = None
        # Puts that are out: the operator, and a piece for each owner. Of a get: its ticket; whether it has gone out;
        # where the values go, and who has sent some.
        self._puts: list[tuple[str, list[Bytes]]] = []
        self._ticket: Ticket | None = None
        self._out = False
        self._result: NDArray[Any] | None = None
        self._came: list[int] = []
        self._pieces: list[NDArray[Any]] = []  # that came, where they are yet to be spread

    def _size(self, count: int) -> tuple[int, int]:
        """Bytes and words of so many values."""
        size = count * self._dtype.itemsize
        return size, words_of(size)

    # -- what a program calls -----------------------------------------------------------------------------------------

    def get(self, into: NDArray[Any] | None = None) -> Ticket:
        """Ask for the values, as they are at their owners when the superstep ends; all processors call it in it.

        Where an owner ends it by `bsp.begin` and `bsp.end` they are read at `begin`.

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

        BSP cost: `cost(machine, "get")`: one message of ceil(bytes / 8) words from each owner, each item once; nothing
        is sent to ask.
        """
        array = self.array
        if not (self._ready and self._gate.limit and array.whole()):
            self._check("pattern.get")
        if self._ticket is not None:
            way_out = "use the first one's ticket, or call bsp.sync() first"
            raise usage_error("pattern.get", "one get of a pattern in a superstep", "a second one", way_out)
        into = None if into is None else array.checked_into("pattern.get", into, self.shape)
        ticket = self._ticket = _Got(array, self.shape, into)
        self._participants[self] = None
        return ticket

    def put(self, values: Any, op: np.ufunc | None = None) -> None:
        """Write values at their owners at the next sync, or combine them with what is there; they are copied now.

        What all processors put is written by source, then by call (calls of one pattern together), after what
        `array.put` writes; gets read before. A processor that puts nothing changes nothing.

        Args:
            values: what casts to the array's dtype (`same_kind`) and broadcasts to the pattern's shape.
            op: a ufunc of numpy's own with two arguments: what is there becomes `op(what is there, value)`, for one
                value after the other. None: the value itself, of several for one place the last.

        Raises:
            UsageError: as `get`; values or op that do not fit.

        BSP cost: `cost(machine, "put")`: one message of ceil(bytes / 8) words to each owner.
        """
        if not (self._ready and self._gate.limit and self.array.whole()):
            self._check("pattern.put")
        items = as_array(values, self._dtype, "pattern.put")
        if items.shape != self.shape:
            try:
                items = np.broadcast_to(items, self.shape)
            except ValueError:
                expected = f"shape {self.shape}, the pattern's, or what broadcasts to it"
                raise argument_error("pattern.put", "values", expected, items.shape) from None
        kind = _PLAIN if op is None else self._operator(op)
        if items.ndim != 1:
            items = items.reshape(-1)
        pieces = []
        for _, places, size, _ in self._asks:
            data = self._pool.take(size)
            take(items, places, data.view(self._dtype))
            pieces.append(data)
        if not self._puts:
            self._participants.pop(self, None)  # a get has no place among the puts
        self._puts.append((kind, pieces))
        self._participants[self] = None

    def cost(self, machine: Machine, operation: Literal["get", "put"] = "get") -> Cost:
        """What the superstep of a get, or of a put by all processors, costs on a machine, exactly; the same on all.

        Args:
            machine: its p is that of the processors.
            operation: "get" or "put".

        Raises:
            UsageError: before the sync after the pattern was made; another operation; a machine of another p.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array(4)
            ...     bsp.sync()
            ...     pattern = x.pattern((bsp.pid + 1) % bsp.p, [0, 3])
            ...     bsp.sync()
            ...     return pattern.cost(bsp.machine).h
            >>> pybsp.simulate(main, p=3).results
            [2, 2, 2]
        """
        if not (isinstance(operation, str) and operation in ("get", "put")):
            raise argument_error("pattern.cost", "operation", '"get" or "put"', brief(operation))
        if self._declared is None:
            raise UsageError(self._early("pattern.cost"))
        p = len(self._declared)
        check_machine(machine, p)
        rows = [np.frombuffer(row, np.int64).reshape(-1, 3) for row in self._declared]
        asker = np.repeat(np.arange(p), [len(row) for row in rows])
        owner, values, items = np.concatenate(rows).T
        if operation == "get":
            return Cost(machine, [charged(owner, asker, -(-items * self._dtype.itemsize // 8))])
        return Cost(machine, [charged(asker, owner, -(-values * self._dtype.itemsize // 8))])

    @property
    def served(self) -> int:
        """Values, of all processors, that are items of this one: a put by all brings so many here."""
        return sum(map(count_of, self._served.values()))

    def free(self) -> None:
        """Give the pattern up on all processors alike; takes effect at the next sync. Freeing its array does so too.

        Raises:
            UsageError: it is freed already.
        """
        self._gate.check("pattern.free")
        if self._freed:
            raise UsageError(f"pattern.free: the pattern made at {self._created} is freed already")
        self._freed = True
        self._engine.registering().free(self, "free of pattern")

    # -- registration -------------------------------------------------------------------------------------------------

    @property
    def once(self) -> bool:
        """Whether an item that is asked for several times comes once by a get."""
        return self._spread is not None

    @property
    def declared(self) -> bytes:
        """Whom this processor asks, for how many values and items: what all get to know."""
        counts = zip(self._requested.items(), self._items, strict=True)
        return np.array([(owner, count_of(places), items) for (owner, places), items in counts], np.int64).tobytes()

    def accept(self, declared: Sequence[bytes], arrays: dict[int, Array]) -> None:
        """All processors have made it; what each has declared, by pid."""
        self._declared = declared

    def serve(self, source: int, indices: NDArray[np.int64], once: bool) -> None:
        """A processor will ask this one for these items; they come by source.

        Args:
            once: whether each comes once, ascending, by a get.
        """
        places = self._served[source] = as_places(indices)
        if once:
            places = as_places(distinct(indices, self.array.local.size))
        self._serves.append((source, places, *self._size(count_of(places))))

    def leave(self) -> None:
        """All processors have freed it, or its array."""
        self._ready, self._freed = False, True
        self._engine.patterns.drop(self)

    # -- supersteps ---------------------------------------------------------------------------------------------------

    def sent(self) -> Sequence[str]:
        return ["pattern.put"] * bool(self._puts) + ["pattern.get"] * (self._ticket is not None)

    def pack(self, parcels: dict[int, Parcel]) -> None:
        if self._puts:
            self._pack_puts(parcels)
        ticket = self._ticket
        if ticket is None:
            return
        if not self.array.whole():
            raise UsageError(f"pattern.get: {self.array.resized()}")
        items, stream = self.array.local.reshape(-1), self.stream
        for dest, places, size, words in self._serves:
            data = self._pool.take(size)
            take(items, places, data.view(self._dtype))
            parcels.setdefault(dest, {})[stream] = new_tuple(Section, (None, words, 1, data))
        self._await()

    def _await(self) -> None:
        """The values are about to come."""
        assert self._ticket is not None
        self._ticket.require_writeable()
        into, self._result = self._ticket.into, None
        self._out, self._came, self._pieces = True, [], []
        if (
            type(into) is np.ndarray  # a matrix has two axes always, and a mask is lifted by an assignment
            and (self._spread is None or into.dtype == self._dtype)
            and np.may_share_memory(flat := into.reshape(-1), into)
        ):
            self._result = flat
        elif into is not None or not self._one_piece or self._engine.checked:
            room = self._engine.patterns.results.take(math.prod(self.shape) * self._dtype.itemsize)
            self._result = room.view(self._dtype)
        self._awaited.append(self)

    def _pack_puts(self, parcels: dict[int, Parcel]) -> None:
        puts, self._puts = self._puts, []
        kinds = tuple(kind for kind, _ in puts)
        for k, (owner, _, _, words) in enumerate(self._asks):
            pieces = [of_owner[k] for _, of_owner in puts]
            data = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            section = new_tuple(Section, (kinds, words * len(kinds), len(kinds), data))
            parcels.setdefault(owner, {})[self.stream - 1] = section

    def lay(self, texts: Texts, own: Parcel) -> tuple[int, int] | None:
        if self._puts:
            return self._lay_puts(texts, own)
        if self._ticket is None or not self.array.whole():
            return None
        items, stream = self.array.local.reshape(-1), self.stream
        mine = None
        for asker, places, size, words in self._serves:
            if asker == self._own:
                mine = places, size, words  # gathered once it is known that the others' parts are short
                continue
            if not 0 < size <= PLAIN_MOST:
                return None
            texts[asker] = plain_text(stream, None, words, 1, 1, (taken(items, places),))
        if mine is not None:
            places, size, words = mine
            if size <= PLAIN_MOST:
                data = taken(items, places).view(np.uint8)
            else:
                data = self._pool.take(size)
                take(items, places, data.view(self._dtype))
            own[stream] = new_tuple(Section, (None, words, 1, data))
        return 0, BY_PATTERN if self._serves else 0

    def _lay_puts(self, texts: Texts, own: Parcel) -> tuple[int, int] | None:
        if self._ticket is not None or len(self._puts) > 1:
            return None
        ((kind, pieces),) = self._puts
        stream, kinds = self.stream - 1, (kind,)
        for (owner, _, size, words), data in zip(self._asks, pieces, strict=True):
            if owner == self._own:
                own[stream] = new_tuple(Section, (kinds, words, 1, data))
                continue
            if not 0 < size <= PLAIN_MOST:
                return None
            texts[owner] = plain_text(stream, kinds, words, 1, 1, (data,))
        return 0, BY_PATTERN if pieces else 0

    def laid(self) -> None:
        if self._puts:
            self._puts = []
        else:
            self._await()

    def bring(self, source: int, data: Bytes) -> bool:
        """What an owner sends for a get; False where this processor does not wait for it."""
        if not self._out:
            return False
        self._came.append(source)
        values = data.view(self._dtype)
        if self._spread is not None:
            self._pieces.append(values)
        elif self._result is None:
            self._result = values  # read where it lies
        else:
            self._result[self._requested[source]] = values
        return True

    def complete(self) -> int:
        """The superstep has ended: the pattern is there, or its get's values are; returns a processor that did not send
        any, or -1.
        """
        ticket, result = self._ticket, self._result
        if not self._out:
            self._ready = True
            return -1
        if len(self._came) != len(self._asks):
            return next(owner for owner, *_ in self._asks if owner not in self._came)
        self._out, self._ticket, self._result = False, None, None
        assert ticket is not None
        assert result is not None
        if self._spread is not None:
            pieces, self._pieces = self._pieces, []
            take(pieces[0] if len(pieces) == 1 else np.concatenate(pieces), self._spread, result)
        program_has_it = ticket.give(result.reshape(self.shape))
        if self._engine.checked and not program_has_it:
            self._engine.patterns.to_poison.append(result)
            self._participants[self._engine.patterns] = None  # until it is forgotten
        return -1

    def write(self, source: int, kinds: Sequence[str], data: Bytes) -> None:
        """Write what a processor has put, by one or more calls."""
        items, places = self.array.local.reshape(-1), self._served[source]
        if not items.flags.writeable:  # `op.at` writes nevertheless
            raise UsageError(f"pattern.put: {self.array.locked()}")
        rounds = [data] if len(kinds) == 1 else np.split(data, len(kinds))
        for kind, piece in zip(kinds, rounds, strict=True):
            values = piece.view(self._dtype)
            op: np.ufunc | None = None if kind == _PLAIN else getattr(np, kind)
            try:
                if op is None:
                    items[places] = values
                    continue
                if isinstance(places, slice):
                    there = items[places]
                    op(there, values, out=there, casting="same_kind")
                else:
                    op.at(items, places, values)  # one after the other, also where places are equal
            except (ValueError, ArithmeticError, Warning) as error:  # a warning, where those are errors
                if op is None:
                    raise
                raise UsageError(
                    f"pattern.put: argument op: np.{kind} raised {type(error).__name__}: {error} (on processor "
                    f"{self._engine.pid}, of values that processor {source} put by the pattern made at {self._created})"
                ) from error

    def _operator(self, op: np.ufunc) -> str:
        """The name of a ufunc that combines values, by which all processors know it; else a UsageError."""
        if isinstance(op, np.ufunc) and op in self._operators:
            return self._operators[op]
        name = str(getattr(op, "__name__", ""))
        if getattr(np, name, None) is not op or not isinstance(op, np.ufunc) or (op.nin, op.nout) != (2, 1):
            expected = "None, or a ufunc of numpy's own with two arguments, as np.add"
            way_out = "other functions: put to an array of the owner's, and combine there"
            raise argument_error("pattern.put", "op", expected, brief(op), way_out)
        there = np.ones(1, self._dtype)
        try:
            op(there, there, out=there, casting="same_kind")
            op.at(there, [0], there)
        except (TypeError, ValueError) as error:
            expected = f"one that makes {self._dtype} of two {self._dtype}"
            raise argument_error("pattern.put", "op", expected, f"np.{name} ({error})") from None
        self._operators[op] = name
        return name

    def _check(self, operation: str) -> None:
        """Refuse what cannot be executed now."""
        self._gate.check(operation)
        self.array.check(operation)
        if self._freed and not self._ready:
            raise UsageError(f"{operation}: the pattern made at {self._created} was freed; make another")
        if not self._ready:
            raise UsageError(self._early(operation))

    def _early(self, operation: str) -> str:
        return (
            f"{operation}: the pattern made at {self._created} is not there yet: that takes effect at the next sync; "
            "call bsp.sync() first"
        )

    def __repr__(self) -> str:
        freed = "freed " * (self._freed and not self._ready)
        return f"<{freed}pattern of {self.shape} items of {self.array!r}, made at {self._created}>"


class _Got(Ticket):
    """What a pattern's get brings."""

    __slots__ = ()
    operation = "pattern.get"


def spread_of(owners: NDArray[np.intp], items: NDArray[np.int64]) -> Spread | None:
    """Of items, some of which are asked for several times, what each owner sends; None where there are none.

    Returns:
        How many items each owner that is asked sends, by owner; and where each value is among all that they send.
    """
    if not items.size:
        return None
    most = int(items.max()) + 1
    found = among(owners * most + items, most * (int(owners.max()) + 1))
    if found is None:
        return None
    counts = np.bincount(found[0] // most)
    return counts[counts > 0].tolist(), found[1]


def check_machine(machine: Any, p: int) -> None:
    """The argument machine of a pattern's cost; a UsageError where it is none of p processors."""
    found = getattr(machine, "p", None)
    if found != p or not hasattr(machine, "predict"):
        expected = f"one of p = {p}, the number of processors, as bsp.machine"
        raise argument_error("pattern.cost", "machine", expected, what(machine) if found is None else f"p = {found}")


def charged(source: NDArray[np.int64], dest: NDArray[np.int64], words: NDArray[np.int64]) -> Superstep:
    """What a superstep is charged for with messages of so many words from and to processors; own ones count nothing."""
    far = source != dest
    source, dest, words = source[far], dest[far], words[far]
    if not words.size:
        return Superstep(0, 0, 0, 0)
    out, into = np.bincount(source, words), np.bincount(dest, words)
    messages = max(np.bincount(source).max(), np.bincount(dest).max())
    locality = np.abs(source - dest).max()
    return Superstep(int(out.max()), int(into.max()), int(messages), int(words.sum()), 0.0, int(locality))


class Patterns(Participant):
    """The patterns of one processor: their making, and what arrives for them.

    Attributes:
        awaited: patterns that were made, or whose get went out, with the sync that goes on.
        results: memory for what gets bring.
        to_poison: when checked, values that are to be poisoned.
    """

    __slots__ = ("_by_stream", "_engine", "_new", "_since", "awaited", "results", "to_poison")

    def __init__(self, engine: SuperstepEngine) -> None:
        self._engine = engine
        self._by_stream: dict[int, Pattern] = {}  # by that of their gets
        self._new: list[tuple[Pattern, Asks]] = []
        self.results = BufferPool()
        self.to_poison: list[NDArray[Any]] = []
        self.awaited: list[Pattern] = []
        self._since = 0.0

    def since(self) -> float:
        """When they began with what the superstep has brought, which may be spread to many places, or be combined: that
        is the computing of what follows, as to gather is that of what goes before. 0: they had nothing to do. Asked for
        once.
        """
        since, self._since = self._since, 0.0
        return since

    def make(self, array: Array, owners: NDArray[np.intp], items: NDArray[np.int64], shape: tuple[int, ...]) -> Pattern:
        """Make a pattern; all processors alike.

        Args:
            owners: of the items, shape (m,); checked, as items.
            items: their numbers in their owners' parts.
            shape: of the values, m in all.
        """
        line = where()
        asks = [(owner, as_places(chosen), items[chosen]) for owner, chosen in by_group(owners)]
        pattern = Pattern(self._engine, array, shape, asks, line, spread_of(owners, items))
        self._by_stream[pattern.stream] = pattern
        self._engine.registering().add_pattern(pattern, line)
        self._new.append((pattern, asks))
        self._engine.participants[self] = None
        return pattern

    def end(self, engine: SuperstepEngine) -> None:
        """The machine has ended: another engine, where nothing can be called, is in its place."""
        self._engine, self._new, self.awaited = engine, [], []
        self._by_stream.clear()

    def drop(self, pattern: Pattern) -> None:
        """A pattern is gone."""
        self._by_stream.pop(pattern.stream, None)

    def drop_all(self, array: Array) -> None:
        """An array is gone, and its patterns with it."""
        for pattern in [one for one in self._by_stream.values() if one.array is array]:
            pattern.leave()

    def pack(self, parcels: dict[int, Parcel]) -> None:
        going: dict[int, list[tuple[int, bool, NDArray[np.int64]]]] = {}
        for pattern, asks in self._new:
            for owner, _, items in asks:
                going.setdefault(owner, []).append((pattern.stream, pattern.once, items))
            self.awaited.append(pattern)
        self._new = []
        away = sum(items.nbytes for dest, lists in going.items() if dest != self._engine.pid for *_, items in lists)
        if away:
            self._engine.account.log.note_indices(away)
        for dest, lists in going.items():
            found = np.concatenate([items for *_, items in lists])
            counts = [(stream, once, items.size) for stream, once, items in lists]
            parcels.setdefault(dest, {})[INDICES] = Section(counts, 0, 0, found.view(np.uint8))

    def bring(self, arrived: Sequence[tuple[int, int, Section]]) -> None:
        """What arrived, (source, stream, section) by source: new patterns, and what was got; puts come after it."""
        self._since = clock()
        for source, stream, (descriptors, _, _, data) in arrived:
            if stream == INDICES:
                items = (NOTHING if data is None else data).view(np.int64)
                for of, once, count in descriptors:
                    pattern = self._by_stream[of]
                    if not pattern.array.whole():
                        self._differ(f"array.pattern: {pattern.array.resized()} (on processor {self._engine.pid})")
                    pattern.serve(source, items[:count], once)
                    items = items[count:]
            elif not stream & 1 and not self._by_stream[stream].bring(source, NOTHING if data is None else data):
                self._unasked(source)

    def take_alike(self, stream: int, sections: Sequence[tuple[int, Section]]) -> None:
        """`bring` or `write`, of one stream by source; `complete` comes after all that is brought."""
        self._since = self._since or clock()
        if stream & 1:  # as in `write`
            if self.awaited:
                self.complete()
            self.write([(source, stream, section) for source, section in sections])
            return
        bring = self._by_stream[stream].bring
        for source, section in sections:
            if not bring(source, NOTHING if section[3] is None else section[3]):
                self._unasked(source)

    def _unasked(self, source: int) -> NoReturn:
        self._differ(
            f"pattern.get: processor {source} called it and processor {self._engine.pid}, to which it sends values, "
            "did not; all processors call it in the same superstep"
        )

    def write(self, arrived: Sequence[tuple[int, int, Section]]) -> None:
        """What was put; the same."""
        for source, stream, (descriptors, _, _, data) in arrived:
            if stream != INDICES and stream & 1:  # even numbers are those of gets
                pattern = self._by_stream[stream + 1]
                if not pattern.array.whole():
                    self._differ(f"pattern.put: {pattern.array.resized()} (on processor {self._engine.pid})")
                pattern.write(source, descriptors, NOTHING if data is None else data)

    def complete(self) -> None:
        """All that was got has come, before puts are written: the program may get into what is put to."""
        self._since = self._since or clock()
        for pattern in self.awaited:
            missing = pattern.complete()
            if missing >= 0:
                self._differ(
                    f"pattern.get: processor {self._engine.pid} called it and processor {missing}, which has values "
                    "for it, did not; all processors call it in the same superstep"
                )
        self.awaited.clear()

    def forget(self) -> None:
        for values in self.to_poison:
            poison(values.view(np.uint8), [values])
        self.to_poison.clear()

    def _differ(self, complaint: str) -> NoReturn:
        self._engine.agreement.differ(complaint)
