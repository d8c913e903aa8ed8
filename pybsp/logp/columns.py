"""A schedule's operations as columns, without an object for each; and the compiled loops over them (goal.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..compiled import goal as compiled
from ..errors import UsageError, argument_error, brief
from ..machines.logp import LogPMachine
from .engine import Simulation
from .operations import ANY, CALC, RECV, SEND, Channel, Operation, channels_to, receiving
from .schedule import Adversary, Earliest, Schedule
from .trace import Times, Trace
from .words import streaming

_KINDS: tuple[type[Schedule], ...] = (Schedule, Earliest, Adversary)  # as goal.c numbers them
_MOST_STEPS = 1 << 31  # of a parameter of the machine, so that times are counted in 64 bits
_MOST_BITS = 1 << 31  # where deliveries are noted, one for each step and destination


@dataclass(frozen=True, eq=False, repr=False)
class Columns(Sequence[Sequence[Operation]]):
    """The operations of each processor: `columns[pid]` has them as a list.

    Args:
        begins: where each processor's begin, and the end of the last's; shape (p + 1,).
        kinds, sizes, peers, tags: of all operations; see `Operation`.
        waiters, waited, at_begin: of all waits who waits for whom, by numbers among all operations, in order of the
            waiters; and whether for its begin (irequires).
    """

    begins: Times
    kinds: NDArray[np.uint8]
    sizes: Times
    peers: NDArray[np.int32]
    tags: Times
    waiters: NDArray[np.int32]
    waited: NDArray[np.int32]
    at_begin: NDArray[np.uint8]

    @classmethod
    def read(cls, text: bytes) -> Columns | None:
        """What a GOAL file has, of which all comes to its end; None where that is not so, or nothing was compiled."""
        module = compiled()
        if module is None or (found := module.read(text)) is None:
            return None
        types = ("i8", "u1", "i8", "i4", "i8", "i4", "i4", "u1")
        arrays: list[Any] = [np.frombuffer(each, kind) for each, kind in zip(found, types, strict=True)]
        waiters = arrays[5]
        if (waiters[1:] < waiters[:-1]).any():
            order = np.argsort(waiters, kind="stable")
            arrays[5:] = [np.ascontiguousarray(each[order]) for each in arrays[5:]]
        columns = cls(*arrays)
        return columns if not columns._ambiguous and columns.end else None

    @classmethod
    def of(cls, lists: Sequence[Sequence[Operation]]) -> Columns:
        """The columns of lists; a UsageError where an operation is none that can be."""
        if isinstance(lists, Columns):
            return lists
        all_listed = isinstance(lists, (list, tuple)) and all(isinstance(one, (list, tuple)) for one in lists)
        if not lists or not all_listed or not all(isinstance(each, Operation) for one in lists for each in one):
            expected = "a list of Operations for each processor, of one at least"
            raise argument_error("pybsp.logp.Goal", "lists", expected, brief(lists, 80))
        begins = np.cumsum([0, *map(len, lists)])
        rows: list[tuple[int, int, int, int]] = []
        waits: list[tuple[int, int, int]] = []
        for pid, operations in enumerate(lists):
            first = len(rows)
            for number, one in enumerate(operations):
                rows.append(one[:4])
                if one.requires or one.irequires:
                    for others, at_begin in ((one.requires, 0), (one.irequires, 1)):
                        waits += ((first + number, first + other, at_begin) for other in others)
                least = ANY if one.kind == RECV else 0
                peer = one.peer != pid and least <= one.peer < len(lists)
                fits = one.kind == CALC or (one.kind in (SEND, RECV) and peer)
                within = all(0 <= other < len(operations) for other in (*one.requires, *one.irequires))
                if not fits or not within or not 0 <= one.size < 1 << 63 or not least <= one.tag < 1 << 63:
                    raise UsageError(
                        f"pybsp.logp.Goal: argument lists: expected operations with numbers of at least 0, of another "
                        f"processor below {len(lists)}, and of operations of the same one, got {tuple(one)} as number "
                        f"{number} of processor {pid}"
                    )
        table, between = np.array(rows, np.int64).reshape(-1, 4), np.array(waits, np.int64).reshape(-1, 3)
        kinds, sizes, peers, tags = (
            np.ascontiguousarray(column, kind) for column, kind in zip(table.T, ("u1", "i8", "i4", "i8"), strict=True)
        )
        waiters, waited, at_begin_of = (
            np.ascontiguousarray(column, kind) for column, kind in zip(between.T, ("i4", "i4", "u1"), strict=True)
        )
        columns = cls(begins, kinds, sizes, peers, tags, waiters, waited, at_begin_of)
        if columns._ambiguous:
            raise UsageError(
                "pybsp.logp.Goal: argument lists: expected each message to be received by RECVs of one source and one "
                "tag alone, which may be ANY, got some by more: which it would be is not the model's to say"
            )
        return columns

    def __len__(self) -> int:
        return len(self.begins) - 1

    @overload
    def __getitem__(self, index: int) -> Sequence[Operation]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Operation]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[Any]:
        pids = range(len(self))[index]
        return self._list(pids) if isinstance(pids, int) else [self._list(pid) for pid in pids]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Columns):
            return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"<operations of {len(self)} processors>"

    @property
    def _waits(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
        return self.waiters, self.waited, self.at_begin

    def _list(self, pid: int) -> list[Operation]:
        first, end = self.begins[pid : pid + 2].tolist()
        begin, last = np.searchsorted(self.waiters, (first, end)).tolist()
        requires: dict[tuple[int, int], list[int]] = {}
        for waiter, waited, at_begin in zip(*(each[begin:last].tolist() for each in self._waits), strict=True):
            requires.setdefault((waiter - first, at_begin), []).append(waited - first)
        columns = (each[first:end].tolist() for each in (self.kinds, self.sizes, self.peers, self.tags))
        return [
            Operation(kind, size, peer, tag, tuple(requires.get((number, 0), ())), tuple(requires.get((number, 1), ())))
            for number, (kind, size, peer, tag) in enumerate(zip(*columns, strict=True))
        ]

    @cached_property
    def channels(self) -> tuple[NDArray[np.int32], int]:
        """Of each message the number of its (source, dest, tag); and how many there are. For the compiled loops."""
        if self._numbers_with_any is not None:
            numbers, _ = self._numbers_with_any
            return numbers, int(numbers.max(initial=-1)) + 1
        module, channel = compiled(), np.zeros(len(self.kinds), np.int32)
        assert module is not None
        return channel, module.channels(self.begins, self.kinds, self.peers, self.tags, channel)

    @cached_property
    def end(self) -> bool:
        """Whether all is known to come to its end; no if nothing was compiled that knows it."""
        module = compiled()
        return module is not None and bool(module.ends(self.kinds, self.sizes, *self.channels, *self._waits))

    @property
    def _ambiguous(self) -> bool:
        """Whether a message may come by two channels to its destination."""
        return self._numbers_with_any is not None and self._numbers_with_any[1]

    @cached_property
    def _numbers_with_any(self) -> tuple[NDArray[np.int32], bool] | None:
        """The channels of operations some of which receive from ANY source, or with ANY tag; and if they are ambiguous.
        None where there are no such."""
        if min(self.peers.min(initial=0), self.tags.min(initial=0)) > ANY:
            return None
        lists, numbers = list(self), np.zeros(len(self.kinds), np.int32)
        to, channels, ambiguous = list(map(channels_to, lists)), dict[tuple[int, Channel], int](), False
        for pid, operations in enumerate(lists):
            for place, one in enumerate(operations, self.begins[pid]):
                if one.kind == RECV:
                    channel = pid, (one.peer, one.tag)
                elif one.kind == SEND:
                    found = receiving(to[one.peer], pid, one.tag) or [(pid, one.tag)]
                    channel, ambiguous = (one.peer, found[0]), ambiguous or len(found) > 1
                else:
                    continue
                numbers[place] = channels.setdefault(channel, len(channels))
        return numbers, ambiguous

    def play(self, machine: LogPMachine, schedule: Schedule) -> Simulation | None:
        """What the engine gives for these operations, bit for bit; None where nothing was compiled for that."""
        module = compiled()
        if module is None or type(schedule) not in _KINDS or len(self.kinds) >= 1 << 31:
            return None
        sends = self.kinds == SEND
        streams, furthest = np.empty(0, np.int64), 0
        if machine.G_word:
            counts, which = np.unique(_words(self.sizes[sends]), return_inverse=True)
            steps = [streaming(machine, count) for count in counts.tolist()]
            furthest = max(steps, default=0)
            if furthest >= _MOST_STEPS:
                return None
            streams = np.zeros(len(self.kinds), np.int64)
            streams[sends] = np.array(steps, np.int64)[which]
        p, parameters = len(self), (machine.L, machine.o, machine.G)
        if max(parameters) >= _MOST_STEPS or p * (2 * (furthest + machine.L) + 64) > _MOST_BITS:
            return None
        trace = [np.empty(int(np.count_nonzero(sends)), np.int64) for _ in range(6)]
        finished, busy, stalled, most = of_processors = [np.zeros(p, np.int64) for _ in range(4)]
        channel, channels = self.channels
        operations = (self.begins, self.kinds, self.sizes, self.peers, channel, channels, *self._waits)
        model = (*parameters, machine.capacity, machine.step, _KINDS.index(type(schedule)))
        count = module.play(operations, streams, furthest, model, tuple(trace), tuple(of_processors))
        if count is None:
            return None
        source, operation, submission, acceptance, delivery, acquisition = (each[:count] for each in trace)
        sizes = _words(self.sizes[operation])
        time = int(finished.max(initial=0))
        dest = self.peers[operation].astype(np.int64)
        played = Trace(machine, source, dest, submission, acceptance, delivery, acquisition, sizes)
        return Simulation([None] * p, time, finished, busy, stalled, time - busy - stalled, most, played)


def _words(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words of messages of so many bytes, at least 1."""
    found: NDArray[np.int64] = np.maximum(1, ((sizes - 1) >> 3) + 1)
    return found
