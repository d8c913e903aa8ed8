"""Typed queues: fine-grained items, sent as whole arrays.

`queue.send(dests, values)` copies the items in the order of their destinations to where they leave from (a counting
sort; of many items for few processors a look for each); what arrives is one array. No Python statement is run per item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..arrays.pattern import charged, check_machine
from ..arrays.places import Places, as_places, by_group, count_of
from ..compiled import core
from ..errors import UsageError, argument_error, where
from ..ground.chunk import clock
from ..ground.convert import as_array, to_integers, what
from ..ground.copying import copy
from ..ground.instead import hinting
from ..ground.public import Public
from ..machines.cost import Cost, Machine
from ..messages.outgoing import words_of
from ..messages.poison import poison
from ..transport import JOINED, LEDGER, Bytes, Parcel, Section, new_tuple
from ..transport.memory import NOTHING
from ..transport.neighbours import INLINE_DATA_NEAR
from ..transport.wire import PLAIN_HEADER, PLAIN_MOST, plain_text
from ..ways import BY_QUEUE
from .gate import Gate
from .participant import Participant, Texts

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

_INT = 1 << 53  # integers up to it fit wherever a word does
FEW_SINGLE = 4  # items sent one at a time that are looked at one by one
_INT64 = np.dtype(np.int64)
# Bytes of items that the compiled core deals out in one call, at most; where all that it deals is little, more of them;
# and by a pattern, where numpy need not sort.
DEALT, DEALT_IN_ALL, DEALT_BY_PATTERN = 1 << 13, 1 << 16, 1 << 14
_deal = None if core is None else core.deal
FEW, MANY = 16, 1000  # processors, and items, for which looking for each destination's items beats sorting


@hinting("queue")
class Queue(Public, Participant):
    """Items of one dtype; made by `bsp.queue` on all processors alike, and usable at once, until `free`.

    Attributes:
        dtype: of the items.

    Examples:
        >>> def main(bsp):
        ...     queue = bsp.queue(np.int64)
        ...     if bsp.pid == 0:
        ...         queue.send([1, 0, 1], [10, 20, 30])
        ...     bsp.sync()
        ...     return queue.sources.tolist(), queue.values.tolist()
        >>> pybsp.simulate(main, p=2).results
        [([0], [20]), ([0, 0], [10, 30])]
    """

    _public = ("dtype", "send", "pattern", "values", "sources", "free")

    def __init__(self, superstep: SuperstepEngine, number: int, dtype: np.dtype[Any], created: str) -> None:
        self.number, self.dtype, self._created = number, dtype, created
        self._p, self._pool, self._checked = superstep.p, superstep.pool, superstep.checked
        self._own, self._stream, self._itemsize = superstep.pid, JOINED + number, dtype.itemsize
        self._superstep, self._gate, self._participants = superstep, superstep.gate, superstep.participants
        self._words = words_of(dtype.itemsize)
        self._texts: Texts = {}  # of few items, that go out before all others; nothing is in `_out` then
        self._head = bytes(plain_text(self._stream, None, 0, 1, 0, ()))
        # For each destination, in the order of sending: memory, and how much of it is filled.
        self._out: dict[int, tuple[Bytes, int]] = {}
        self._single: tuple[list[int], list[Any]] = ([], [])
        self._sort_type = np.uint8 if self._p <= 1 << 8 else np.uint16 if self._p <= 1 << 16 else np.intp
        # Which Python numbers always cast: floats; integers that are not too large.
        self._floats = dtype.kind in "fc"
        self._ints = dtype.kind in "ifc" and dtype.itemsize >= 8
        self._joined: Bytes | None = None
        self._free = False  # whether `free` was called
        self._left = False  # whether that has taken effect: nothing can be sent
        self._gone = False  # whether what arrived with that sync is no longer there either
        self._clear()

    def send(self, dests: Any, values: Any) -> None:
        """Send items to processors; they are copied now and arrive with the next sync.

        Args:
            dests: an int, or integers of shape (m,).
            values: of the queue's dtype (or cast to it, `same_kind`): a scalar, or shape (m,). A scalar goes to each
                of several dests; several values go to one dest.

        Raises:
            UsageError: a dest outside of 0..p-1, or values whose shape or dtype does not fit. Nothing is sent then.

        BSP cost: ceil(itemsize / 8) words an item; all that the queue sends to one processor in a superstep is one
        message. The ledger counts the items beside (o_item).

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue(np.float64)
            ...     queue.send(0, bsp.pid)  # one item to one processor
            ...     queue.send(0, [0.25, 0.5])  # several to one
            ...     queue.send([1, 2], 7.0)  # one to several
            ...     bsp.sync()
            ...     return queue.values.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0.0, 0.25, 0.5, 1.0, 0.25, 0.5, 2.0, 0.25, 0.5], [7.0, 7.0, 7.0], [7.0, 7.0, 7.0]]
        """
        if type(dests) is not int:
            if type(dests) is np.ndarray and type(values) is np.ndarray and dests.ndim == 1 and dests.dtype == _INT64:
                items = values if values.dtype == self.dtype else as_array(values, self.dtype, "queue.send")
                if items.shape == dests.shape and self._dealt(dests, items):
                    return
            self._send_arrays(dests, values)
            return
        if not 0 <= dests < self._gate.limit:
            raise self._gate.refusal("queue.send", "dests", dests)
        kind = type(values)
        if (kind is float and self._floats) or (kind is int and self._ints and -_INT <= values <= _INT):
            self._single[0].append(dests)  # cast with all others, later
            self._single[1].append(values)
        else:
            items = as_array(values, self.dtype, "queue.send")
            if items.ndim > 1:
                raise self._misfit("(m,)", items)
            if not items.size:
                return  # legal, and nothing to do
            if items.ndim == 0:
                self._single[0].append(dests)
                # All but what a number became may be the program's own memory, which it may change.
                self._single[1].append(items if kind in (int, float) else items.copy())
            else:
                self._flush_single()
                self._place(dests, items)
        self._participants[self] = None

    def _dealt(self, dests: NDArray[np.int64], items: NDArray[Any]) -> bool:
        """Send as many items as there are destinations, where these are few; whether that was so, and all was right."""
        size = items.nbytes
        if (
            0 < size <= DEALT_IN_ALL
            and (size <= DEALT or size + sum(map(len, self._texts.values())) <= DEALT_IN_ALL)
            and _deal is not None
            and not self._out
            and not self._single[0]
            and _deal(self._texts, dests, items, self._head, self._words, self._gate.limit)
        ):
            self._participants[self] = None
            return True
        return False

    def _deal_single(self) -> None:
        """Likewise of items sent one at a time, where these are few; they stay where that cannot be."""
        dests, values = self._single
        if _deal is not None and len(dests) * self._itemsize <= DEALT:
            to, items = np.array(dests, np.int64), np.array(values, self.dtype)
            if _deal(self._texts, to, items, self._head, self._words, self._p):
                self._single = ([], [])

    def pattern(self, dests: Any) -> QueuePattern:
        """Destinations that stay: `pattern.send(values)` sends an item to each, without looking at them again.

        What arrives is in `values` as always, and at the same places each time: what belongs to an item by its place,
        as a vertex or a row, can be sent once.

        Args:
            dests: integers of shape (m,).

        Raises:
            UsageError: a dest outside of 0..p-1, or no integers.

        BSP cost: none.

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue(np.float64)
            ...     pattern = queue.pattern([1, 0, 1])
            ...     for k in range(2):
            ...         pattern.send(np.arange(3.0) + 10 * bsp.pid + 100 * k)
            ...         bsp.sync()
            ...     return queue.values.tolist()
            >>> pybsp.simulate(main, p=2).results
            [[101.0, 111.0], [100.0, 102.0, 110.0, 112.0]]
        """
        self._gate.check("queue.pattern")
        try:
            target = np.asarray(dests)
        except ValueError:
            target = np.empty((0, 0))  # ragged: refused below
        if target.shape == (0,):
            target = target.astype(np.intp)
        if target.dtype.kind not in "iu" or target.ndim != 1:
            raise argument_error("queue.pattern", "dests", "integers of shape (m,)", what(dests), to_integers(dests))
        if target.size and not _below(target, self._p):
            raise self._gate.refusal("queue.pattern", "dests", int(target[(target < 0) | (target >= self._p)][0]))
        places = [(dest, as_places(chosen)) for dest, chosen in by_group(target)]
        return QueuePattern(self, target.astype(np.int64), places, where())

    @property
    def p(self) -> int:
        """The processors that there are."""
        return self._p

    def tell(self, counts: Sequence[tuple[int, int]]) -> Sequence[Sequence[tuple[int, int]]]:
        """Tell all processors where this one's items go, and how many; what each tells. Collective, no superstep."""
        self._gate.check("pattern.cost")
        engine, entered = self._superstep, clock()
        note = (counts, [("cost of a pattern of queue of", str(self.dtype), None, where())], None)
        found = engine.agreement.settle(engine.meet(LEDGER, note, {}), LEDGER, "asked for pattern.cost")
        assert found is not None
        engine.account.leave_out(entered)
        return found.own

    def send_pattern(self, values: Any, dests: NDArray[np.int64], places: Sequence[tuple[int, Places]]) -> None:
        """Send values by a pattern: to each destination what is at these places."""
        self._gate.check("pattern.send")
        count, items = dests.size, as_array(values, self.dtype, "pattern.send")
        if items.shape not in ((), (count,)):
            raise UsageError(
                f"pattern.send: argument values: expected a scalar or shape ({count},), as the pattern's dests have, "
                f"got shape {items.shape}"
            )
        if not count:
            return  # legal, and nothing to do
        few = count * self._itemsize <= DEALT_BY_PATTERN
        if few and self._dealt(dests, items.repeat(count) if items.ndim == 0 else items):
            return
        self._flush_single()
        for dest, chosen in places:
            if items.ndim == 0:
                self._room(dest, count_of(chosen))[:] = items
            elif isinstance(chosen, slice):
                self._place(dest, items[chosen])
            else:
                self._place(dest, items, chosen)
        self._participants[self] = None

    def free(self) -> None:
        """Give the queue up on all processors alike; takes effect at the next sync, and is compared there.

        What was sent before that sync arrives with it, and can be read until the sync after it, as always.

        Raises:
            UsageError: it is freed already.

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue(np.int64)
            ...     queue.send(0, bsp.pid)
            ...     queue.free()
            ...     bsp.sync()  # what was sent arrives with it
            ...     return queue.values.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0, 1, 2], [], []]
        """
        if self._free:
            raise UsageError(f"queue.free: the queue made at {self._created} is freed already")
        self._gate.check("queue.free")
        self._free = True
        self._superstep.registering().free(self, "free of queue")

    def leave(self) -> None:
        """All processors have freed it: from now on nothing can be sent.

        It gets a gate of its own, which is closed: so `send` asks none but its gate, and live queues take no more time.
        """
        self._left = True
        self._gate = Gate(self._p)
        self._gate.close(f"the queue made at {self._created} was freed; make another")

    def _misfit(self, expected: str, items: NDArray[Any]) -> UsageError:
        return UsageError(
            f"queue.send: argument values: expected a scalar or shape {expected} as dests has, got shape {items.shape}"
        )

    def _send_arrays(self, dests: Any, values: Any) -> None:
        gate = self._gate
        try:
            target = np.asarray(dests)
        except ValueError:
            target = np.empty((0, 0))  # ragged: refused below
        if target.size == 0 and target.ndim == 1:
            target = target.astype(np.intp)
        if target.dtype.kind not in "iu" or target.ndim > 1:
            expected = "an int or integers of shape (m,)"
            raise argument_error("queue.send", "dests", expected, what(dests), to_integers(dests))
        items = as_array(values, self.dtype, "queue.send")
        if items.ndim > 1 or (items.ndim == 1 and target.ndim == 1 and items.shape != target.shape):
            raise self._misfit(str(target.shape or "(m,)"), items)
        if target.size and not _below(target, gate.limit):
            wrong = target.ravel()[(target.ravel() < 0) | (target.ravel() >= gate.limit)]
            raise gate.refusal("queue.send", "dests", int(wrong[0]))
        if gate.limit == 0:
            raise gate.refusal("queue.send", "dests", dests)
        if not target.size or not items.size:
            return  # legal, and nothing to do
        if target.ndim:
            if items.ndim == 0:
                items = np.broadcast_to(items, target.shape)
            if items.nbytes <= DEALT and self._dealt(target.astype(np.int64), np.ascontiguousarray(items)):
                return
        self._flush_single()
        if target.ndim == 0:
            self._place(int(target), items.reshape(-1))
        else:
            self._deal(target, items)
        self._participants[self] = None

    def _deal(self, target: NDArray[Any], items: NDArray[Any]) -> None:
        """Copy items, each to what goes to its destination: the one copy of sending."""
        p, key = self._p, target.astype(self._sort_type)
        if p <= FEW and target.size >= MANY:
            # A look at all for each of few destinations takes a tenth of the time of sorting.
            for dest in range(p):
                (chosen,) = (key == dest).nonzero()
                if chosen.size:
                    self._place(dest, items, chosen)
            return
        # A stable counting sort: numpy sorts small unsigned integers by radix.
        size = self.dtype.itemsize
        data = self._pool.take(size * target.size)
        items.take(key.argsort(kind="stable"), out=data.view(self.dtype), mode="clip")  # mode: see `_place`
        counts = np.bincount(target.astype(np.intp, copy=False), minlength=p)
        filled = counts.nonzero()[0]
        begin = 0
        for dest, count in zip(filled.tolist(), counts[filled].tolist(), strict=True):
            end = begin + size * count
            if dest in self._out:
                self._room(dest, count)[:] = data[begin:end].view(self.dtype)
            else:
                self._out[dest] = data[begin:end], end - begin
            begin = end

    def _place(self, dest: int, items: NDArray[Any], chosen: NDArray[np.intp] | None = None) -> None:
        """Copy items (those chosen) to what goes to dest: the one copy of sending."""
        if chosen is None:
            copy(items, self._room(dest, items.size))
        else:
            items.take(chosen, out=self._room(dest, chosen.size), mode="clip")  # the default mode would copy twice

    def _room(self, dest: int, count: int) -> NDArray[Any]:
        """Where so many items more go that leave for dest: behind those that do, as all leave in one piece."""
        there, used = self._out.get(dest, (NOTHING, 0))
        end = used + count * self.dtype.itemsize
        if end > there.size:
            # Twice the size: all copies together cost no more than what is written.
            larger = self._pool.take(max(end, 2 * there.size))
            larger[:used] = there[:used]
            there = larger
        self._out[dest] = there, end
        return there[used:end].view(self.dtype)

    def _flush_single(self) -> None:
        """Items sent one at a time, as one array, and what was dealt; keeps the order of calls."""
        if self._texts:
            texts, self._texts = self._texts, {}
            for dest, text in texts.items():
                self._place(dest, np.frombuffer(text, self.dtype, -1, PLAIN_HEADER))
        dests, values = self._single
        if dests:
            self._single = ([], [])
            self._deal(np.array(dests), np.array(values, self.dtype))

    def sent(self) -> Sequence[str]:
        return ("queue.send",) if self._out or self._single[0] or self._texts else ()

    def _few(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """By destination, a few items sent one at a time: numpy would take more time than a look at each."""
        dests, values = self._single
        for dest in dict.fromkeys(dests):
            yield dest, np.array([value for to, value in zip(dests, values, strict=True) if to == dest], self.dtype)

    def _section(self, data: Bytes) -> Section:
        count = data.size // self._itemsize
        section: Section = new_tuple(Section, (None, count * self._words, count, data))
        return section

    def pack(self, parcels: dict[int, Parcel]) -> None:
        if not self._out and not self._texts and len(self._single[0]) <= FEW_SINGLE:
            for dest, items in self._few():
                parcels.setdefault(dest, {})[self._stream] = self._section(items.view(np.uint8))
            self._single = ([], [])
            return
        if self._single[0]:
            self._flush_single()
        for dest, text in self._texts.items():
            data = np.frombuffer(text, np.uint8, -1, PLAIN_HEADER)
            if data.size > INLINE_DATA_NEAR:  # it is read where it lies, by those who can
                whole = self._pool.take(data.size)
                whole[:] = data
                data = whole
            parcels.setdefault(dest, {})[self._stream] = self._section(data)
        self._texts = {}
        for dest, (data, used) in self._out.items():
            parcels.setdefault(dest, {})[self._stream] = self._section(data[:used])
        self._out = {}

    def lay(self, texts: Texts, own: Parcel) -> tuple[int, int] | None:
        if not self._out and self._single[0]:
            self._deal_single()
        going, stream, single = self._texts, self._stream, len(self._single[0])
        if single and not (going or self._out) and single <= FEW_SINGLE:
            going = {
                dest: plain_text(stream, None, items.size * self._words, 1, items.size, (items,))
                for dest, items in self._few()
            }
        elif single:
            self._flush_single()
            going = self._texts
        if self._out:
            going = {}
            for dest, (data, used) in self._out.items():
                if dest == self._own:
                    own[stream] = self._section(data[:used])
                    continue
                if used > PLAIN_MOST:
                    return None
                count = used // self._itemsize
                going[dest] = plain_text(stream, None, count * self._words, 1, count, (data[:used],))
        items = 0
        for dest, text in going.items():
            size = len(text) - PLAIN_HEADER
            if size > PLAIN_MOST:
                return None
            if dest == self._own:
                own[stream] = self._section(np.frombuffer(text, np.uint8, -1, PLAIN_HEADER))
            else:
                texts[dest] = text
                items += size // self._itemsize
        return items, BY_QUEUE if going or stream in own else 0

    def laid(self) -> None:
        self._texts, self._out = {}, {}
        if self._single[0]:
            self._single = ([], [])
        self.forget()

    def forget(self) -> None:
        self._gone = self._left
        self._clear()

    def _clear(self) -> None:
        if self._joined is not None and self._checked:
            poison(self._joined, [self._joined.view(self.dtype)])  # views that were kept
        self._arrived: Sequence[tuple[int, Section]] = ()
        self._joined = None
        self._values: NDArray[Any] | None = None
        self._sources: NDArray[np.intp] | None = None

    @property
    def arrived(self) -> Sequence[tuple[int, Section]]:
        """What came with the last sync, by source."""
        return self._arrived

    def move(self) -> None:
        if self._joined is None:
            self._arrived = [(source, section.copied()) for source, section in self._arrived]
            self._values = None

    def deliver(self, arrived: list[tuple[int, Section]], joined: Bytes | None) -> None:
        """Take what came with a sync."""
        self._clear()
        self._arrived, self._joined = arrived, joined

    @property
    def values(self) -> NDArray[Any]:
        """The items that arrived with the last sync, shape (n,): ordered by source, then by send. Read-only.

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue()
            ...     queue.send(0, bsp.pid / 2)
            ...     bsp.sync()
            ...     return queue.values.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0.0, 0.5, 1.0], [], []]
        """
        if self._values is None:
            self._check_there("queue.values")
            pieces = [section.data for _, section in self._arrived if section.data is not None]
            if self._joined is None and len(pieces) > 1:
                # Each source's array is where it was handed over, or in shared memory: joining them is the one copy.
                self._joined = np.concatenate(pieces)
            whole = self._joined if self._joined is not None else pieces[0] if pieces else NOTHING
            self._values = whole.view(self.dtype)
            self._values.flags.writeable = False
        return self._values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """What numpy takes a queue for: the items that arrived."""
        return np.array(self.values, dtype, copy=copy)

    @property
    def sources(self) -> NDArray[np.intp]:
        """The sender of each item, shape (n,).

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue()
            ...     queue.send(0, bsp.pid / 2)
            ...     bsp.sync()
            ...     return queue.sources.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0, 1, 2], [], []]
        """
        if self._sources is None:
            self._check_there("queue.sources")
            self._sources = np.repeat(
                np.array([source for source, _ in self._arrived], np.intp),
                np.array([section.messages for _, section in self._arrived], np.intp),
            )
            self._sources.flags.writeable = False
        return self._sources

    def __len__(self) -> int:
        """Items that arrived with the last sync."""
        self._check_there("len(queue)")
        return sum(section.messages for _, section in self._arrived)

    def _check_there(self, operation: str) -> None:
        if self._gone:
            self._gate.check(operation)

    def __repr__(self) -> str:
        if self._left:
            return f"<freed queue of {self.dtype}>"
        size = sum(used for _, used in self._out.values())
        size += sum(len(text) - PLAIN_HEADER for text in self._texts.values())
        going = size // self._itemsize + len(self._single[0])
        to_send = f", {going} to send" if going and not self._gate.over else ""
        return f"<queue of {self.dtype}: {len(self)} items arrived{to_send}>"


class QueuePattern(Public):
    """Destinations that stay, of items of a queue; made by `Queue.pattern`.

    Examples:
        >>> def main(bsp):
        ...     queue = bsp.queue(np.int64)
        ...     to_all = queue.pattern(np.arange(bsp.p))
        ...     to_all.send(10 * bsp.pid + np.arange(bsp.p))
        ...     queue.send(0, -1)  # beside it
        ...     bsp.sync()
        ...     to_all.free()
        ...     return queue.values.tolist()
        >>> pybsp.simulate(main, p=2).results
        [[0, -1, 10, -1], [1, 11]]
    """

    __slots__ = ("_created", "_dests", "_freed", "_places", "_queue")
    _public = ("send", "cost", "free")

    def __init__(
        self, queue: Queue, dests: NDArray[np.int64], places: Sequence[tuple[int, Places]], created: str
    ) -> None:
        self._queue, self._dests, self._places, self._created = queue, dests, places, created
        self._freed = False

    def send(self, values: Any) -> None:
        """Send an item to each destination; they are copied now and arrive with the next sync.

        Args:
            values: of the queue's dtype (or cast to it, `same_kind`): shape (m,), or a scalar for all.

        Raises:
            UsageError: values that do not fit; the pattern or its queue was freed.

        BSP cost: `cost(machine)` where all processors send.
        """
        if self._freed:
            self._refuse("pattern.send")
        self._queue.send_pattern(values, self._dests, self._places)

    def cost(self, machine: Machine) -> Cost:
        """What the superstep costs in which all processors send by their patterns, exactly; the same on all.

        Collective, and no superstep: a pattern of a queue is a processor's own, so all tell what theirs are.

        Args:
            machine: its p is that of the processors.

        Raises:
            UsageError: the pattern was freed; a machine of another p.

        Examples:
            >>> def main(bsp):
            ...     pattern = bsp.queue(np.float64).pattern([0] * bsp.pid)
            ...     cost = pattern.cost(bsp.machine)
            ...     pattern.free()
            ...     return cost.h, cost[0].messages, cost[0].items
            >>> pybsp.simulate(main, p=3).results
            [(3, 2, 3), (3, 2, 3), (3, 2, 3)]
        """
        if self._freed:
            self._refuse("pattern.cost")
        queue = self._queue
        check_machine(machine, queue.p)
        counts = [(dest, count_of(places)) for dest, places in self._places]
        found = [(pid, dest, count) for pid, of_one in enumerate(queue.tell(counts)) for dest, count in of_one]
        source, dest, count = np.array(found, np.int64).reshape(-1, 3).T
        step = charged(source, dest, count * words_of(queue.dtype.itemsize))
        items = charged(source, dest, count)
        return Cost(machine, [step._replace(items=items.h)])

    def free(self) -> None:
        """Give the pattern up, on this processor and at once; what was sent by it arrives.

        Raises:
            UsageError: it is freed already.
        """
        if self._freed:
            raise UsageError(f"pattern.free: the pattern made at {self._created} is freed already")
        self._freed, self._places = True, ()

    def _refuse(self, operation: str) -> NoReturn:
        raise UsageError(f"{operation}: the pattern made at {self._created} was freed; make another")

    def __repr__(self) -> str:
        if self._freed:
            return f"<freed pattern of {self._queue!r}>"
        return f"<pattern of {self._dests.size} items of {self._queue!r}>"


def _below(target: NDArray[Any], limit: int) -> bool:
    """Whether all are from 0 to below the limit."""
    if target.dtype == np.int64:  # as unsigned numbers negative ones are huge: one pass tells; see `Layout._checked`
        return bool(0 <= target.item(target.view(np.uint64).argmax()) < limit)
    return bool(target.min() >= 0 and target.max() < limit)
