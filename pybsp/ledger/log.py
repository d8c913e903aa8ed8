"""The log: what one processor counts of its own supersteps, a row of 88 bytes each; how those of all are combined."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import describe
from ..ground.chunk import COLUMNS, Chunk, clock
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..machines.in_force import NO_KINDS, charged
from ..ways import Used

# The columns of a processor's rows.
LABEL, WORK, SECONDS, MEASURED, WORDS_OUT, WORDS_IN, MESSAGES_OUT, MESSAGES_IN, ITEMS_OUT, ITEMS_IN, WAYS = range(11)
# Of combined rows these are others.
MESSAGES, ITEMS, WORDS, MEAN = MESSAGES_OUT, MESSAGES_IN, ITEMS_OUT, ITEMS_IN

_pack_row = Struct(f"={COLUMNS}d").pack_into
_GATHERED = 1 << 16  # rows that a processor is sent to combine at a time: 5 MiB
_COMBINING = 64  # processors that combine, at most: of very many, each would have a few rows


class Counts:
    """What one processor counts of its own supersteps, from some superstep on, and of those in parts of the machine.

    first: that superstep.
    most: supersteps that the program expects from there on; None: it has not said.
    since: when that began, by `clock`, and how many were done then: some, where it goes on from a checkpoint.
    supersteps, h, messages, work: the sums so far; h and messages of the larger of out and in.
    largest: of these by name, the most that one superstep had, and which that was, in words.
    """

    def __init__(self, log: Log, most: float | None = None) -> None:
        self._log, self.first, self.most = log, len(log), most
        self.supersteps = self.h = self.messages = 0
        self.work = 0.0
        self.largest: dict[str, tuple[float, str]] = {}
        self._part: Counts | None = None  # in the part that is in use
        self._in_parts = 0  # supersteps, in those that were left
        self.begin()
        log.counting.append(self)
        if log.part is not None:
            self.enter(log.part)

    def begin(self) -> None:
        """Count the supersteps that end from now on, and what is charged from now on."""
        self._next, self._before = len(self._log), self._log.work
        self.since = clock(), self.done

    @property
    def done(self) -> int:
        """Supersteps until now."""
        part = self._part  # another thread may ask
        return len(self._log) - self.first + self._in_parts + (part.done if part is not None else 0)

    def update(self) -> None:
        """Count the supersteps that have ended meanwhile."""
        rows = self._log.table(self._next)
        if not len(rows):
            return
        work = rows[:, WORK]
        work[0] -= self._before
        self._before = 0.0
        h = np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN])
        messages = np.maximum(rows[:, MESSAGES_OUT], rows[:, MESSAGES_IN])
        labels = [*self._log.labels]
        for name, of_each in (("h", h), ("messages", messages), ("work", work)):
            at = int(of_each.argmax())
            self._note_largest(name, float(of_each[at]), describe(self._next + at, labels[int(rows[at, LABEL])]))
        self._next += len(rows)
        self.supersteps += len(rows)
        self.h += int(h.sum())
        self.messages += int(messages.sum())
        self.work += float(work.sum())

    def _note_largest(self, name: str, count: float, place: str) -> None:
        if count > self.largest.get(name, (0.0, ""))[0]:
            self.largest[name] = count, place

    def enter(self, part: Log) -> None:
        """A part of the machine is in use from now on."""
        self._part = Counts(part)

    def leave(self) -> None:
        """The part that is in use, if any, is so no longer."""
        part, self._part = self._part, None
        if part is None:
            return
        part.end()
        self._in_parts += part.supersteps
        self.supersteps += part.supersteps
        self.h += part.h
        self.messages += part.messages
        self.work += part.work
        for name, (count, place) in part.largest.items():
            self._note_largest(name, count, f"{place} of a part, in {self._log.going_on}")

    def end(self) -> None:
        """Count what there still is, and what is charged to the superstep that goes on; then no more."""
        self.leave()
        self.update()
        unended = self._log.work - self._before
        self.work += unended
        self._note_largest("work", unended, self._log.going_on)
        self._log.counting.remove(self)


Spans = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]  # seconds, shape (supersteps,) each
Kinds = dict[int, dict[str, float]]  # flop by kind of work, by row
Charges = dict[int, tuple[float, float]]  # seconds of charged work, and flop of no kind, by row: of each the maximum
Rode = tuple[int, dict[str, int], str]  # what `Log.rode` was given, and in which row
INDICES = ""  # in the place of a name there: bytes of indices, which count no words


class Log(Chunk):
    """What one processor notes of its supersteps, and, once the ledger was asked for, what all did in them.

    Attributes:
        numbers: the open chunk: flat rows of `COLUMNS` numbers (LABEL, WORK, ...), of which those up to `end` are
            filled; zeros beyond. Counts are exact up to 2^53.
        labels: this processor's labels, numbered as they came.
        combined: supersteps, from the first on, whose rows are no longer this processor's: those of all processors
            have taken their place, in the form of `combine`, and never change again.
        names: the labels in the combined rows, by number.
        counting: what is being counted of this processor's own supersteps, the outermost first.
        part: the log of the part of the machine that is in use; None: none is.
        checkpoints: the fields of a `Checkpoint`, of each.
        riding: of the combined rows, by their number, words that rode in them, by the name of what did.
        kinds: of the combined rows, by their number, flop by kind of work, of each the maximum over processors.
        charges: of the combined rows with work of some kinds, by their number, seconds by the machine's rates and flop
            of no kind, of each the maximum over processors.
        since: of each combined row, as of `Used.since`.
        fresh: likewise, of those that use a way for the first time, by their number.
        after: seconds of computing after the combined rows: the longest of the processors, and their mean.
    """

    ROWS = 1024  # of a chunk
    CHUNK = ROWS * COLUMNS  # numbers of one

    def __init__(self) -> None:
        super().__init__()
        self._full: list[memoryview[float]] = []
        self._open()
        self.labels: dict[str, int] = {"": 0}
        self.combined = 0
        self.names: list[str] = []
        self.counting: list[Counts] = []
        self.part: Log | None = None
        self.after = (0.0, 0.0)
        self.checkpoints: list[tuple[int, int, float]] = []
        self.riding: dict[int, dict[str, int]] = {}
        # Of this processor, not yet in `riding`: rows from one to before another, in which alike rode. A loop has one.
        self._rode: list[tuple[int, int, dict[str, int], str]] = []
        self._away: dict[int, float] = {}  # by row, seconds that are still to be taken off its computing
        self._kinds: dict[int, dict[str, float]] = {}  # of this processor, not yet in `kinds`
        self.kinds: dict[int, dict[str, float]] = {}
        self.charges: Charges = {}
        self.since, self.fresh, self._used = array("f"), dict[int, int](), Used()
        # See `begin_at`: in which rows, ascending, and when. A part that is entered again and again has many.
        self._begun, self._instants = array("q"), array("d")

    def _open(self) -> None:
        self.memory, self.end = bytearray(8 * self.CHUNK), 0
        self.numbers = memoryview(self.memory).cast("d")

    def note(
        self,
        label: float,
        work: float,
        seconds: float,
        measured: float,
        words_out: int,
        words_in: int,
        messages_out: int,
        messages_in: int,
        items_out: int,
        items_in: int,
        ways: int,
    ) -> None:
        """A superstep."""
        at = self.end
        _pack_row(
            self.memory,
            8 * at,
            label,
            work,
            seconds,
            measured,
            words_out,
            words_in,
            messages_out,
            messages_in,
            items_out,
            items_in,
            ways,
        )
        self.end = at = at + COLUMNS
        if at == self.CHUNK:
            self.turn()

    def note_kind(self, kind: str, flops: float) -> None:
        """So much of the work of the superstep that goes on is of that kind."""
        of_row = self._kinds.setdefault(len(self), {})
        of_row[kind] = of_row.get(kind, 0.0) + flops

    @property
    def kinds_now(self) -> Mapping[str, float]:
        """Flop by kind, of the superstep that goes on."""
        return self._kinds.get(len(self), NO_KINDS)

    def take_kinds(self) -> Mapping[str, float]:
        """Flop by kind, of the superstep that goes on: they are no longer noted."""
        return self._kinds.pop(len(self), NO_KINDS)

    def fresh_kinds(self, last: int) -> Kinds:
        """Flop by kind, in the rows before `last` that are not combined yet; asked for once."""
        return {row: self._kinds.pop(row) for row in [*self._kinds] if row < last}

    def kinds_since(self, first: int) -> tuple[Kinds, dict[int, float]]:
        """By number from `first` on: flop by kind of a row; of a combined one with kinds seconds of charged work."""
        if not self._kinds and not self.charges:
            return {}, {}
        rows = range(first, len(self))
        kinds = {row - first: self._kinds[row] for row in rows if row in self._kinds}
        return kinds, {row - first: self.charges[row][0] for row in rows if row in self.charges}

    def note_away(self, seconds: float) -> None:
        """So long was this processor in exchanges of parts, in the superstep that goes on: that is no computing."""
        if seconds > 0:
            self._away[len(self)] = self._away.get(len(self), 0.0) + seconds

    def begin_at(self, instant: float) -> None:
        """The superstep that goes on began then, by this processor's clock, and not when the last one ended."""
        self.left = instant
        if self._begun and self._begun[-1] == len(self):
            self._instants[-1] = instant
        else:
            self._begun.append(len(self))
            self._instants.append(instant)

    def begins(self, first: int, last: int) -> NDArray[np.float64]:
        """When the supersteps from `first` to before `last` began, which are not combined, by this processor's clock.

        NaN where that is not known: before what a checkpoint has brought back another process had another clock.
        """
        # Of what is left out between supersteps (`begin_at`) only what comes last before these counts, and what comes
        # among them: a part that is entered again and again asks for a few rows each time.
        known = max(bisect_right(self._begun, first) - 1, 0)
        rows = self._begun[known : bisect_left(self._begun, last)]
        start = min(first, rows[0]) if rows else first
        begins = np.zeros(last - start + 1)
        measured = [np.empty(0), *(piece[:, MEASURED] for piece in self.pieces(start, last))]
        np.cumsum(np.concatenate(measured), out=begins[1:])
        instants = self._instants[known : known + len(rows)]
        if len(rows) == 1 and rows[0] == start:
            begins += instants[0]
        else:
            places = np.array(rows, np.int64) - start
            between = np.array(instants) - begins[places]
            begins += np.repeat((np.nan, *between), np.diff(places, prepend=0, append=len(begins)))
        return begins[first - start : -1]

    def timed(self, first: int, virtual: bool = False) -> NDArray[np.float64]:
        """The rows from `first` on, each with when it began, or NaN, shape (supersteps, COLUMNS + 1): a copy.

        Args:
            first: number of a superstep.
            virtual: whether time is: then it is not known when they began.
        """
        last = len(self)
        rows = np.full((last - first, COLUMNS + 1), np.nan)
        at = 0
        for piece in self.pieces(first, last):
            rows[at : at + len(piece), :COLUMNS] = piece
            at += len(piece)
        if not virtual:
            known = max(first, self.combined)
            rows[known - first :, COLUMNS] = self.begins(known, last)
        return rows

    @property
    def away(self) -> float:
        """Seconds that the superstep that goes on has been in exchanges of parts."""
        return self._away.get(len(self), 0.0)

    def forget_away(self) -> None:
        """What the superstep that goes on has been in exchanges of parts is no longer noted."""
        self._away.pop(len(self), None)

    def _take_off(self) -> None:
        """The seconds away are no longer in the rows of supersteps that have ended."""
        for row in [row for row in self._away if row < len(self)]:
            number, at = divmod(row, self.ROWS)
            chunk = self._full[number] if number < len(self._full) else self.numbers
            at = at * COLUMNS + SECONDS
            chunk[at] = max(chunk[at] - self._away.pop(row), 0.0)

    def turn(self) -> None:
        """The open chunk is full: begin another."""
        self._full.append(self.numbers)
        self._open()

    def __len__(self) -> int:
        return len(self._full) * self.ROWS + self.end // COLUMNS

    @property
    def going_on(self) -> str:
        """The superstep that goes on, in words."""
        return describe(len(self), [*self.labels][int(self.label_number)])

    @contextmanager
    def counted(self, most: float | None = None) -> Iterator[Counts]:
        """What this processor counts in the block, whether or not the ledger is asked for; all of it when it is left.

        Args:
            most: supersteps that are expected in it.
        """
        counts = Counts(self, most)
        try:
            yield counts
        finally:
            counts.end()

    def enter(self, part: Log) -> None:
        """A part of the machine is in use from now on."""
        self.part = part
        for counts in self.counting:
            counts.enter(part)

    def leave(self) -> None:
        """The part is in use no longer; what was charged there after its last superstep is in this one's already."""
        self.part = None
        for counts in self.counting:
            counts.leave()

    @property
    def expecting(self) -> Counts | None:
        """The outermost block of those that the program is in whose number of supersteps it has said."""
        return next((counts for counts in self.counting if counts.most is not None), None)

    def pieces(self, first: int, last: int) -> Iterator[NDArray[np.float64]]:
        """The rows from `first` to before `last` where they are, chunk by chunk: arrays of shape (some, COLUMNS)."""
        if self._away:
            self._take_off()
        while first < last:
            number, row = divmod(first, self.ROWS)
            chunk = self._full[number] if number < len(self._full) else self.numbers
            piece = np.asarray(chunk).reshape(self.ROWS, COLUMNS)[row : row + last - first]
            yield piece
            first += len(piece)

    def table(self, first: int, last: int | None = None) -> NDArray[np.float64]:
        """The rows from `first` to before `last` (None: to the end), shape (supersteps, COLUMNS): a copy."""
        pieces = list(self.pieces(first, len(self) if last is None else last))
        return np.concatenate(pieces) if pieces else np.empty((0, COLUMNS))

    def as_saved(self) -> dict[str, Any]:
        """All of it as plain data, from which `resume` goes on."""
        return {
            "rows": self.table(0),
            "labels": list(self.labels),
            "combined": self.combined,
            "names": list(self.names),
            "checkpoints": list(self.checkpoints),
            "riding": self.riding,
            "rode": self._rides_before(len(self) + 1),
            "away": self.away,
            "kinds": (self._kinds, self.kinds),
            "charges": self.charges,
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Be what was saved; what was noted here until now goes."""
        self._full.clear()
        self._away.clear()
        self._open()
        for row in saved["rows"].tolist():
            self.note(*row)
        self.labels.clear()
        self.labels.update((label, number) for number, label in enumerate(saved["labels"]))
        self.combined, self.names, self.checkpoints = saved["combined"], saved["names"], saved["checkpoints"]
        self.since, self.fresh, self._used = array("f"), {}, Used()
        self._note_since(self.table(0, self.combined))
        self.riding, self._rode = saved["riding"], []
        for row, words, own in saved["rode"]:
            self._ride(row, words, own)
        self.note_away(saved.get("away", 0.0))
        self._kinds, self.kinds = saved.get("kinds", ({}, {}))
        self.charges = saved.get("charges", {})
        self._begun, self._instants = array("q"), array("d")
        for counts in self.counting:
            counts.begin()

    def fresh_labels(self, last: int) -> list[str]:
        """The labels, not yet among `names`, of the rows before `last` that are not combined yet."""
        most = max((int(piece[:, LABEL].max()) for piece in self.pieces(self.combined, last)), default=-1)
        return list(islice(self.labels, len(self.names), most + 1))

    def rode(self, words: dict[str, int], own: str = "") -> None:
        """In the superstep that has just ended so many words rode, by the name of what did.

        Args:
            own: what the superstep is of: where nothing else rode on any processor, nothing is said of it.
        """
        self._ride(len(self) - 1, words, own)

    def note_indices(self, size: int) -> None:
        """With the superstep that goes on indices of patterns go to others, of so many bytes."""
        self._ride(len(self), {INDICES: size}, "")

    def _ride(self, row: int, words: dict[str, int], own: str) -> None:
        if self._rode:
            first, end, alike, of = self._rode[-1]
            if end == row and alike == words and of == own:
                self._rode[-1] = first, row + 1, alike, own
                return
        self._rode.append((row, row + 1, words, own))

    def _rides_before(self, last: int) -> list[Rode]:
        """What rode in the rows before `last` that are not combined yet."""
        return [(row, words, own) for first, end, words, own in self._rode for row in range(first, min(end, last))]

    def fresh_rides(self, last: int) -> list[Rode]:
        """What rode in the rows before `last` that are not combined yet: number and words; asked for once."""
        fresh = self._rides_before(last)
        self._rode = [(max(first, last), end, words, own) for first, end, words, own in self._rode if end > last]
        return fresh

    def put_after(self, of_all: Sequence[float]) -> None:
        """Seconds that each processor has computed since the last superstep, whose row is combined."""
        self.after = max(of_all), sum(of_all) / len(of_all)

    def put_kinds(self, of_all: Iterable[Kinds]) -> None:
        """Flop by kind in some rows, of each processor."""
        for of_one in of_all:
            for row, kinds in of_one.items():
                most = self.kinds.setdefault(row, {})
                for kind, flops in kinds.items():
                    most[kind] = max(most.get(kind, 0.0), flops)

    def words_in_all(self, first: int, last: int) -> dict[int, int]:
        """The words of all processors in the rows from `first` to before `last` that are combined, by number."""
        combined = self.table(first, min(last, self.combined))
        return dict(enumerate(combined[:, WORDS].astype(np.int64).tolist(), first))

    def update_counts(self) -> None:
        """What is being counted is counted so far: rows may be combined from now on."""
        for counts in self.counting:
            counts.update()

    def _note_since(self, rows: NDArray[np.float64]) -> None:
        """These are the next combined rows."""
        ways, h = rows[:, WAYS].astype(np.int64), np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN])
        since, fresh = self._used.since(ways, h, rows[:, MESSAGES], rows[:, SECONDS], rows[:, LABEL])
        at = np.flatnonzero(fresh)
        self.fresh.update(zip((len(self.since) + at).tolist(), fresh[at].tolist(), strict=True))
        self.since.frombytes(since.astype(np.float32).tobytes())

    def _go_on_at(self, last: int) -> None:
        """The rows before `last` will no longer say when that one began."""
        if self._begun and last > self.combined:
            ended = float(self.begins(last - 1, last)[0] + self.table(last - 1, last)[0, MEASURED])
            gone = bisect_left(self._begun, last)
            self._begun, self._instants = self._begun[gone:], self._instants[gone:]
            if not self._begun or self._begun[0] > last:
                self._begun.insert(0, last)
                self._instants.insert(0, ended)

    def put(self, combined: Iterable[NDArray[np.float64]]) -> None:
        """Take the combined rows of the next supersteps, in order, in place of this processor's own."""
        for rows in combined:
            self._note_since(rows)
            self._go_on_at(self.combined + len(rows))
            at = 0
            for piece in self.pieces(self.combined, self.combined + len(rows)):
                piece[:] = rows[at : at + len(piece)]
                at += len(piece)
            self.combined += len(rows)


def ridden(of_all: Iterable[Rode], in_all: Callable[[], Mapping[int, int]] = dict) -> dict[int, dict[str, int]]:
    """What rode in some rows on all processors, by the number of the row: words by the name of what did.

    Args:
        of_all: what they have noted. Who has shown a record, and seen nothing but records, has noted nothing (where
            there are groups, or several hosts): its words are those of the function that the superstep is of.
        in_all: the words of all in each row, where they are known.
    """
    found: dict[int, dict[str, int]] = {}
    alone: dict[int, bool] = {}  # of groups, each may be in a call of another primitive
    of: dict[int, str] = {}  # what the superstep is of, where all that noted anything say the same
    for row, words, own in of_all:
        total = found.setdefault(row, {})
        for name, count in words.items():
            total[name] = total.get(name, 0) + count
        alone[row] = alone.get(row, True) and words.keys() <= ({own} if own else set())
        of[row] = own if of.get(row, own) == own else ""
    beside = {row: own for row, own in of.items() if own and not alone[row]}
    words_in_all = in_all() if beside else {}
    for row in beside.keys() & words_in_all.keys():
        own, total = beside[row], found[row]
        if rest := words_in_all[row] - sum(count for name, count in total.items() if name not in (own, INDICES)):
            total[own] = rest
    shared: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}  # most rows are alike
    return {row: shared.setdefault(tuple(total.items()), total) for row, total in found.items() if not alone[row]}


def spans(
    begins: NDArray[np.float64],
    seconds: NDArray[np.float64],
    measured: NDArray[np.float64],
    ahead: Sequence[float] | None = None,
) -> Spans:
    """What supersteps took, by one clock: computing, all, and the mean of what each computed.

    They go from when the last processor has ended the superstep before until the last one has computed, and ended this.
    By the largest of each one's own seconds, who ends one late would count twice: it took long, and then others wait.
    What one computes before that counts in the exchange before; to the mean it counts, up to the largest: who has begun
    early, and computes as long as others, is no more idle than they are. (Seconds in parts, and between `begin` and
    `end`, are no computing: with these nobody has computed later than it says.)

    Args:
        begins: when they began on each processor, shape (p, supersteps); NaN where one does not know it: there each
            one's own seconds count.
        seconds, measured: of computing and in all, on each.
        ahead: seconds by which each one's clock is ahead of the first one's; None: they have one clock.
    """
    if ahead is not None:
        begins = by_one_clock(begins, seconds, measured, ahead)
    begin = begins.max(axis=0)
    known, computed = np.isfinite(begin), begins + seconds - begin
    largest = np.where(known, computed.max(axis=0), seconds.max(axis=0))
    whole = np.where(known, (begins + measured).max(axis=0) - begin, measured.max(axis=0))
    return largest, whole, np.minimum(seconds, largest).mean(axis=0)


def by_one_clock(
    begins: NDArray[np.float64],
    seconds: NDArray[np.float64],
    measured: NDArray[np.float64],
    ahead: Sequence[float],
) -> NDArray[np.float64]:
    """When supersteps began, as `spans` has them, by the clock of the first processor.

    Clocks drift, and what is known of them was found when the ledger was asked for. But nobody ends a superstep before
    all have entered its exchange, which bounds what each may be off in a row.

    Args:
        begins: by each one's own clock.
        seconds, measured: as of `spans`.
        ahead: seconds by which each clock is ahead of the first processor's.

    Examples:
        >>> from pybsp.ledger.log import by_one_clock
        >>> begins, seconds, measured = np.array([[5.0], [105.0]]), np.array([[1.0], [2.0]]), np.array([[4.0], [3.0]])
        >>> by_one_clock(begins, seconds, measured, [0, 100]).tolist()
        [[5.0], [5.0]]
        >>> by_one_clock(begins, seconds, measured, [0, 90]).tolist()  # it cannot have entered when the first has ended
        [[5.0], [7.0]]
    """
    begins = begins - np.array(ahead)[:, np.newaxis]
    entered, ended = begins + seconds, begins + measured
    early, late = np.maximum(entered[0] - ended, 0.0), np.maximum(entered - ended[0], 0.0)
    return np.asarray(begins + early - late)


def combine(tables: Iterable[NDArray[np.float64]], ahead: Sequence[float] | None = None) -> NDArray[np.float64]:
    """What all processors did in some supersteps, from the rows of each: those of processor 0 come first.

    Args:
        tables: of each processor, shape (supersteps, COLUMNS), or with a column more: when each began.
        ahead: as of `spans`.

    Returns:
        shape (supersteps, COLUMNS): processor 0's label; the maxima of work, seconds, measured (by one clock: `spans`),
        words out and words in, and of MESSAGES and ITEMS of queues (each of out and in); the WORDS of all; the MEAN of
        seconds; the WAYS that any used.
    """
    of_all = list(tables)
    rest = iter(of_all)
    most = np.array(next(rest)[:, :COLUMNS])
    labels, words, seconds = (most[:, column].copy() for column in (LABEL, WORDS_OUT, SECONDS))
    ways = most[:, WAYS].astype(np.int64)
    p = 1
    for p, other in enumerate(rest, 2):  # noqa: B007 - of how many the mean is
        np.maximum(most, other[:, :COLUMNS], out=most)
        words += other[:, WORDS_OUT]
        seconds += other[:, SECONDS]
        ways |= other[:, WAYS].astype(np.int64)
    mean = seconds / p
    if of_all[0].shape[1] > COLUMNS:
        begins, own, measured = np.stack([table[:, [COLUMNS, SECONDS, MEASURED]].T for table in of_all], axis=1)
        most[:, SECONDS], most[:, MEASURED], mean = spans(begins, own, measured, ahead)
    most[:, LABEL], most[:, WAYS] = labels, ways
    messages = np.maximum(most[:, MESSAGES_OUT], most[:, MESSAGES_IN])
    items = np.maximum(most[:, ITEMS_OUT], most[:, ITEMS_IN])
    most[:, MESSAGES], most[:, ITEMS], most[:, WORDS] = messages, items, words
    # Rounding may not make the mean the larger.
    most[:, MEAN] = np.minimum(mean, most[:, SECONDS])
    return most


def charges(
    tables: Sequence[NDArray[np.float64]], kinds: Sequence[Kinds], first: int, machine: BSPMachine | EBSPMachine
) -> Charges:
    """What charged work takes in the rows in which any of it is of a kind: the maxima of others fit no one processor.

    Args:
        tables: of each processor, the rows from number `first` on.
        kinds: of each processor.
        machine: whose rates count.
    """
    found = {}
    for row in {row for of_one in kinds for row in of_one if 0 <= row - first < len(tables[0])}:
        works = [float(table[row - first, WORK]) for table in tables]
        of_each = [(work, of_one.get(row, NO_KINDS)) for work, of_one in zip(works, kinds, strict=True)]
        plain = max(work - sum(flops.values()) for work, flops in of_each)
        found[row] = max(charged(machine, work, flops) for work, flops in of_each), plain
    return found


def shares(first: int, last: int, p: int) -> list[tuple[int, int]]:
    """Which processors combine which of the supersteps from `first` to before `last` in one round.

    Returns:
        of processors 0, 1, ... the first superstep and the one after the last; as many as fit a round, in which nobody
        is sent more than 5 MiB to combine, and about as much of what was combined.
    """
    share = max(1, _GATHERED // p)
    last = min(last, first + min(p, _COMBINING) * share)
    return [(begin, min(begin + share, last)) for begin in range(first, last, share)]
