"""What `run(trace=True)` keeps of a processor on an MPI rank: rows of times, of which processor 0 makes a timeline.

Two clock readings for a message where it is sent, one where it arrives, two where it is acquired: 32 bytes for each of
the three. The first `rows_of_each(p)` rows of each kind stay, so that what is kept of a run is bounded, however long
that is; further messages are counted.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..compiled import stamps as compiled
from ..ground.clocks import Clock
from ..machines.logp import LogPMachine
from ..transport import DRAIN, MAIL, Section
from ..transport.clocks import clocks
from ..transport.medium import MPITransport
from .operations import MOST_TIME, RECV, SEND
from .ranks import RankProcessor, TimeNotes
from .timeline import Timeline
from .trace import Times

MOST_ROWS = 1 << 18  # messages of all processors, sent and received
FEWEST = 1024  # of each, however many processors there are


def rows_of_each(p: int) -> int:
    """So many messages sent, and as many received, are kept of each of p processors."""
    return max(FEWEST, MOST_ROWS // p)


class PlainStamps:
    """Rows of four numbers: a time at which something began, one at which it ended, in nanoseconds, and two others.

    What stamps.c has is a twin, and goes by this name for type checkers.

    Attributes:
        count: of all rows, those that are not kept too.
    """

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._limit, self._begun, self._rows = limit, 0, array("q")

    def begin(self) -> None:
        """The next row begins now."""
        self._begun = time.perf_counter_ns()

    def end(self, first: int = 0, second: int = 0, /) -> None:
        """It ends now."""
        if self.count < self._limit:
            self._rows.extend((self._begun, time.perf_counter_ns(), first, second))
        self.count += 1

    def rows(self) -> bytes:
        """Those that are kept, 64 bits for each number."""
        return self._rows.tobytes()


def stamps(limit: int) -> PlainStamps:
    """Rows, of which so many are kept."""
    module = compiled()
    rows: PlainStamps = PlainStamps(limit) if module is None else module.Stamps(limit)
    return rows


class TracedProcessor(RankProcessor):
    """A processor that notes the times of its messages. See `RankProcessor`.

    Attributes:
        work: steps that the program has given to `compute`, 2^62 at most.
    """

    def __init__(
        self, transport: MPITransport, machine: LogPMachine, capacity: str | None = "global", pace: bool = False
    ) -> None:
        super().__init__(transport, machine, capacity, pace)
        limit = rows_of_each(transport.p)
        self.work, self._limit = 0, limit
        self._sends, self._arrivals, self._acquired = stamps(limit), stamps(limit), stamps(limit)
        self._waits = array("q")  # of sends that waited for a credit: which, and how long
        self._notes = TimeNotes(
            self._sends.begin, self._sends.end, self._arrivals.end, self._acquired.begin, self._acquired.end
        )
        self._began = self._ended = 0

    def compute(self, steps: int) -> None:
        super().compute(steps)
        self.work = min(self.work + int(steps), MOST_TIME)  # as much as a trace file holds

    def _stall(self, dest: int) -> None:
        before = self.stalled_seconds + self.credit_seconds
        super()._stall(dest)
        waited = self.stalled_seconds + self.credit_seconds - before
        if waited and self._sends.count < self._limit:
            self._waits.extend((self._sends.count, round(1e9 * waited)))

    # -- what is kept -------------------------------------------------------------------------------------------------

    def begins(self) -> None:
        """The program begins."""
        self._began = time.perf_counter_ns()

    def ends(self) -> None:
        """The program has ended."""
        self._ended = time.perf_counter_ns()

    def section(self) -> Section:
        """What goes to processor 0."""
        counts = [each.count for each in (self._sends, self._arrivals, self._acquired)]
        parts = [each.rows() for each in (self._sends, self._arrivals, self._acquired)]
        descriptors = (self._began, self._ended, self.work, counts, [*map(len, parts)])
        data = np.frombuffer(b"".join((*parts, self._waits.tobytes())), np.uint8)
        return Section(descriptors, 0, 0, data if data.size else None)


# -- clocks ------------------------------------------------------------------------------------------------------------


class Clocks(NamedTuple):
    """Clocks of nodes when a run began and when it ended, and these moments on processor 0's clock, in seconds."""

    began: float
    ended: float
    first: Mapping[int, Clock]
    last: Mapping[int, Clock]

    def common(self, node: int, times: Times) -> Times:
        """Nanoseconds of a node's clock as processor 0's has them: what it is off grows evenly in between."""
        if node not in self.first:
            return times
        first, last = self.first[node].offset, self.last[node].offset
        begin = self.began + first
        rate = (last - first) / max(1e-9, self.ended + last - begin)
        off = 1e9 * first + rate * (times - 1e9 * begin)
        common: Times = times - np.rint(off).astype(np.int64)
        return common

    @property
    def uncertain(self) -> float:
        """Seconds by which the times of two nodes may be off, at most: half of the round trips to both."""
        trips = sorted(max(clock.round_trip, self.last[node].round_trip) for node, clock in self.first.items())
        return sum(trips[-2:]) / 2


# -- on processor 0 ----------------------------------------------------------------------------------------------------


def gather(
    processor: TracedProcessor, transport: MPITransport, began: float, first: Mapping[int, Clock]
) -> Timeline | None:
    """The timeline of a run that has ended, on processor 0; None on others. Collective.

    Args:
        processor: this one.
        transport: the ranks.
        began: when `first` was found, by `time.perf_counter`.
        first: the clocks then.
    """
    last, ended = clocks(transport), time.perf_counter()
    arrival = transport.exchange(DRAIN, None, {0: {MAIL: processor.section()}})
    if transport.pid:
        return None
    of_all = [parcel[MAIL] for _, parcel in sorted(arrival.parcels, key=lambda one: one[0])]
    return timeline(processor.machine, of_all, transport.nodes, Clocks(began, ended, first, last), processor.paced)


def timeline(
    machine: LogPMachine, of_all: Sequence[Section], nodes: Sequence[int], clocks: Clocks, paced: bool
) -> Timeline:
    """What the processors have kept, on one axis of time."""
    tables, spans, sent = [], [], 0
    until = None  # the first time from which on not all is kept
    for pid, (section, node) in enumerate(zip(of_all, nodes, strict=True)):
        began, ended, work, counts, sizes = section.descriptors
        data = np.empty(0, np.int64) if section.data is None else np.array(section.data).view(np.int64)
        ends = np.cumsum(sizes) // 8
        sends, arrivals, acquired = (part.reshape(-1, 4) for part in np.split(data[: ends[-1]], ends[:-1]))
        waits = data[ends[-1] :].reshape(-1, 2)
        stalled = np.zeros(len(sends), np.int64)
        stalled[waits[:, 0]] = waits[:, 1]
        submission = sends[:, 1] - np.minimum(stalled, sends[:, 1] - sends[:, 0])
        arrivals = arrivals[: len(acquired)]  # in the order in which they are acquired
        table = np.concatenate(
            (
                np.stack((sends[:, 2], sends[:, 0] * 0 + 1, sends[:, 0], submission, sends[:, 1]), axis=1),
                np.stack((arrivals[:, 2], arrivals[:, 3], acquired[:, 0], arrivals[:, 1], acquired[:, 1]), axis=1),
            )
        )
        table[:, 2:] = clocks.common(node, table[:, 2:])
        kinds = np.repeat(np.array((SEND, RECV)), (len(sends), len(acquired)))
        for kind, count in ((SEND, counts[0]), (RECV, counts[2])):
            of_kind = table[kinds == kind]
            if len(of_kind) < count:
                last = int(of_kind[-1, -1])
                until = last if until is None else min(until, last)
        order = np.argsort(table[:, 2], kind="stable")
        tables.append(np.column_stack((np.full(len(table), pid), kinds, table))[order])
        spans.append((*clocks.common(node, np.array((began, ended))).tolist(), work))
        sent += counts[0]
    return Timeline.of_rows(
        machine, np.concatenate(tables), np.array(spans, np.int64), sent, until, clocks.uncertain, paced
    )
