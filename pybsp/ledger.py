"""The ledger: a record for each superstep of what it cost, beside what was predicted.

Computing, waiting and exchange are kept apart, each as measured. The exchange is what a machine predicts; of computing
it says what the charged work would take, beside what was measured.

Each processor keeps a log of its own supersteps, 88 bytes each, without talking to the others. Only when the ledger
is asked for are the logs combined, into maxima over the processors, which take the place of each one's own figures: it
stays at 88 bytes a superstep. Records are made from these rows when they are looked at.
"""

from __future__ import annotations

import csv
import datetime
import json
import math
import os
import platform
import struct
import sys
import types
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TextIO, overload

import numpy as np
from numpy.typing import NDArray

from . import settings
from ._version import __version__
from .decoding import (
    MisfitError,
    any_text,
    decode,
    each,
    fields,
    flag,
    number,
    one_of,
    optional,
    read_json,
    table,
    untouched,
    versioned,
    whole,
)
from .errors import UsageError
from .files import replacing
from .machine import NO_KINDS, BSPMachine, EBSPMachine, charged
from .ways import firsts

NOTHING_KNOWN: Mapping[str, Sequence[float]] = types.MappingProxyType({})  # of where a run was

FORMAT = "pybsp-ledger"
UNITS = {"work": "flop", **dict.fromkeys(("h", "h_out", "h_in", "M"), "words of 8 bytes"), "all times": "s"}
VERSION = 2


class PartTotals(NamedTuple):
    """What parts did in a superstep of the whole: the sums of a processor's, maximum over the processors.

    supersteps: of parts.
    work: flop charged in them.
    h: words, of each superstep the largest that a processor of the part sent or received.
    messages: likewise.
    M: words that all processors of the part sent.
    predicted: seconds: computing as in `seconds`, each exchange by the machine in force, with as many processors as
        the part has.
    measured: seconds.
    seconds: of computing, of each superstep the largest of the part.
    items: of queues, as messages.
    ways: in which data went, as of a `Record`.

    Examples:
        >>> def main(bsp):
        ...     with bsp.split(bsp.pid % 2) as part:
        ...         for _ in range(3):
        ...             part.send(0, np.zeros(10))
        ...             part.sync()
        ...     bsp.sync()
        >>> machine = pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)
        >>> totals = pybsp.simulate(main, machine=machine).ledger.parts[1]
        >>> totals.supersteps, totals.h, totals.messages, totals.M
        (3, 30, 3, 30)
        >>> f"{totals.exchange:.3g} s, predicted {totals.exchange_predicted:.3g}"
        '3.03e-05 s, predicted 3.03e-05'
    """

    supersteps: int
    work: float
    h: int
    messages: int
    M: int
    predicted: float
    measured: float
    seconds: float = 0.0
    items: int = 0
    ways: int = 0

    @property
    def exchange(self) -> float:
        """Seconds of the exchanges as measured: those of all of it, less computing."""
        return self.measured - self.seconds

    @property
    def exchange_predicted(self) -> float:
        """Seconds of the exchanges by the machine in force."""
        return self.predicted - self.seconds

    def in_short(self) -> dict[str, float]:
        """The figures of a trace's superstep, by name."""
        names = ("supersteps", "h", "M", "seconds", "exchange", "exchange_predicted")
        return {name: getattr(self, name) for name in names}

    def plus(self, other: PartTotals) -> PartTotals:
        """The sums of both."""
        both: list[Any] = [a + b for a, b in zip(self, other, strict=True)]
        return PartTotals(*both)._replace(ways=self.ways | other.ways)


NO_PARTS: Mapping[int, PartTotals] = types.MappingProxyType({})


class Record(NamedTuple):
    """One superstep, or the sums of several.

    label: as given to `bsp.superstep`, or "".
    work: flop charged by `bsp.work`, maximum over processors.
    seconds: of computing, maximum over processors (virtual processors: work / r, unless measured); that in parts of
        the machine too, whose exchanges are in `exchange` and `exchange_predicted`.
    messages: that one processor sends or receives, maximum over processors; what a queue sends to one destination is
        one message.
    h_out, h_in: words that one processor sends, and receives, maximum over processors.
    h: the larger of the two.
    M: words that all processors send.
    predicted: seconds of all of it: computing as in `seconds`, exchange by the machine in force.
    measured: seconds from the last sync to the end of this one, maximum over processors.
    items: of queues, that one processor sends or receives, maximum over processors.
    seconds_mean: of computing, mean over processors.
    exchange_predicted: seconds that the exchange takes by the machine in force: g*h + l, and what messages and items
        cost; of Valiant's cost, what it takes beyond computing.
    charged: seconds that `work` takes by the machine's r, and by its rates of some kinds; 0 where none was charged.
    ways: in which its data went, a bit for each of `pybsp.ways.WAYS`; of sums, those of any.
    supersteps: how many these are the sums of; 1 but in `Ledger.total` and `Ledger.totals`.
    parts: what parts of the machine did in it (`bsp.split`), None where that is nothing; of single supersteps also in
        `Ledger.parts`.

    Examples:
        >>> def main(bsp):
        ...     bsp.work(1e6 * bsp.pid)
        ...     bsp.send(0, np.zeros(100))
        ...     bsp.sync()
        >>> machine = pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)
        >>> (record,) = pybsp.simulate(main, machine=machine).ledger
        >>> record.work, record.h_out, record.h_in, record.h, record.M, record.messages, record.items
        (3000000.0, 100, 300, 300, 300, 3, 0)
        >>> f"{record.seconds:.4f} s, mean {record.seconds_mean:.4f}, by r {record.charged:.4f}, {record.waiting:.4f}"
        '0.0030 s, mean 0.0015, by r 0.0030, 0.0015'
        >>> f"exchange {record.exchange:.6f} s, predicted {record.exchange_predicted:.6f}; {record.imbalance:.1f}"
        'exchange 0.000013 s, predicted 0.000013; 2.0'
    """

    label: str
    work: float
    seconds: float
    messages: int
    h_out: int
    h_in: int
    h: int
    M: int
    predicted: float
    measured: float
    items: int = 0
    seconds_mean: float = 0.0
    exchange_predicted: float = 0.0
    charged: float = 0.0
    ways: int = 0
    supersteps: int = 1
    parts: PartTotals | None = None

    @property
    def exchange(self) -> float:
        """Seconds of the exchange as measured: those of the superstep, less the largest computing."""
        return self.measured - self.seconds

    @property
    def waiting(self) -> float:
        """Seconds that a processor waits for the one that computes longest, mean over processors."""
        return self.seconds - self.seconds_mean

    @property
    def imbalance(self) -> float:
        """The largest computing over the mean: 1 where all compute alike."""
        return self.seconds / self.seconds_mean if self.seconds_mean else 1.0

    def to_dict(self) -> dict[str, Any]:
        """All figures by name, those that follow from others too; `parts` where there are any.

        Examples:
            >>> (record,) = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger
            >>> list(record.to_dict())[-4:]
            ['supersteps', 'exchange', 'waiting', 'imbalance']
        """
        return {
            **{name: getattr(self, name) for name in (*Record._fields[:-1], *DERIVED)},
            **({} if self.parts is None else {"parts": self.parts._asdict()}),
        }


DERIVED = ("exchange", "waiting", "imbalance")  # figures of a `Record` that follow from its fields


class Checkpoint(NamedTuple):
    """What a checkpoint has cost.

    superstep: that went on.
    bytes: on disk, of all processors.
    seconds: that the program waited for it, maximum over processors; they are in no record.
    """

    superstep: int
    bytes: int
    seconds: float


# The columns of a processor's rows.
LABEL, WORK, SECONDS, MEASURED, WORDS_OUT, WORDS_IN, MESSAGES_OUT, MESSAGES_IN, ITEMS_OUT, ITEMS_IN, WAYS = range(11)
COLUMNS = 11
# Of combined rows these are others.
MESSAGES, ITEMS, WORDS, MEAN = MESSAGES_OUT, MESSAGES_IN, ITEMS_OUT, ITEMS_IN

pack_row = struct.Struct(f"={COLUMNS}d").pack_into  # of a log
_GATHERED = 1 << 16  # rows that a processor is sent to combine at a time: 5 MiB
_COMBINING = 64  # processors that combine, at most: of very many, each would have a few rows


class Counts:
    """What one processor counts of its own supersteps, from some superstep on.

    first: that superstep.
    most: supersteps that the program expects from there on; None: it has not said.
    supersteps, h, messages, work: the sums so far; h and messages of the larger of out and in.
    """

    def __init__(self, log: Log, most: float | None = None) -> None:
        self._log, self.first, self.most = log, len(log), most
        self.begin()
        self.supersteps = self.h = self.messages = 0
        self.work = 0.0

    def begin(self) -> None:
        """Count the supersteps that end from now on."""
        self._next = len(self._log)

    def update(self) -> None:
        """Count the supersteps that have ended meanwhile."""
        rows = self._log.table(self._next)
        self._next += len(rows)
        self.supersteps += len(rows)
        self.h += int(np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN]).sum())
        self.messages += int(np.maximum(rows[:, MESSAGES_OUT], rows[:, MESSAGES_IN]).sum())
        self.work += float(rows[:, WORK].sum())


Kinds = dict[int, dict[str, float]]  # flop by kind of work, by row
Rode = tuple[int, dict[str, int], str]  # what `Log.rode` was given, and in which row
_INDICES = ""  # in the place of a name there: bytes of indices, which count no words


class Log:
    """What one processor notes of its supersteps, and, once the ledger was asked for, what all did in them.

    Attributes:
        numbers: the open chunk: flat rows of `COLUMNS` numbers (LABEL, WORK, ...), of which those up to `end` are
            filled; zeros beyond. Counts are exact up to 2^53.
        labels: this processor's labels, numbered as they came.
        combined: supersteps, from the first on, whose rows are no longer this processor's: those of all processors
            have taken their place, in the form of `combine`, and never change again.
        names: the labels in the combined rows, by number.
        checkpoints: the fields of a `Checkpoint`, of each.
        riding: of the combined rows, by their number, words that rode in them, by the name of what did.
        kinds: of the combined rows, by their number, flop by kind of work, of each the maximum over processors.
        firsts: numbers of the combined rows that use a way which none before has used.
    """

    ROWS = 1024  # of a chunk
    CHUNK = ROWS * COLUMNS  # numbers of one

    def __init__(self) -> None:
        self._full: list[memoryview[float]] = []
        self._open()
        self.labels: dict[str, int] = {"": 0}
        self.combined = 0
        self.names: list[str] = []
        self._counting: list[Counts] = []
        self.checkpoints: list[tuple[int, int, float]] = []
        self.riding: dict[int, dict[str, int]] = {}
        self._rode: list[Rode] = []  # of this processor, not yet in `riding`
        self._away: dict[int, float] = {}  # by row, seconds that are still to be taken off its computing
        self._kinds: dict[int, dict[str, float]] = {}  # of this processor, not yet in `kinds`
        self.kinds: dict[int, dict[str, float]] = {}
        self.firsts: set[int] = set()
        self._used = 0  # ways, in the combined rows

    def _open(self) -> None:
        self.numbers = memoryview(bytearray(8 * self.CHUNK)).cast("d")
        self.end = 0
        self.memory = self.numbers.obj

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
        pack_row(
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

    def note_away(self, seconds: float) -> None:
        """So long was this processor in exchanges of parts, in the superstep that goes on: that is no computing."""
        if seconds > 0:
            self._away[len(self)] = self._away.get(len(self), 0.0) + seconds

    def take_away(self) -> float:
        """Seconds that the superstep that goes on has been in exchanges of parts: they are no longer noted."""
        return self._away.pop(len(self), 0.0)

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

    @contextmanager
    def counting(self, most: float | None = None) -> Iterator[Counts]:
        """What this processor counts in the block, up to its last `update`, whether or not the ledger is asked for.

        Args:
            most: supersteps that are expected in it.
        """
        counts = Counts(self, most)
        self._counting.append(counts)
        try:
            yield counts
        finally:
            self._counting.remove(counts)

    @property
    def expecting(self) -> Counts | None:
        """The outermost block of those that the program is in whose number of supersteps it has said."""
        return next((counts for counts in self._counting if counts.most is not None), None)

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
            "rode": self._rode,
            "away": self._away.get(len(self), 0.0),
            "kinds": (self._kinds, self.kinds),
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Be what was saved; what was noted here until now goes."""
        self._full.clear()
        self._open()
        for row in saved["rows"].tolist():
            self.note(*row)
        self.labels.clear()
        self.labels.update((label, number) for number, label in enumerate(saved["labels"]))
        self.combined, self.names, self.checkpoints = saved["combined"], saved["names"], saved["checkpoints"]
        self._used, self.firsts = 0, set()
        self._note_firsts(self.table(0, self.combined), 0)
        self.riding, self._rode = saved["riding"], saved["rode"]
        self._away.clear()
        self.note_away(saved.get("away", 0.0))
        self._kinds, self.kinds = saved.get("kinds", ({}, {}))
        for counts in self._counting:
            counts.begin()

    def note_checkpoint(self, superstep: int, size: int, seconds: float) -> None:
        """A checkpoint of so many bytes, for which the processors waited so long."""
        self.checkpoints.append((superstep, size, seconds))

    def fresh_labels(self, last: int) -> list[str]:
        """The labels, not yet among `names`, of the rows before `last` that are not combined yet."""
        most = max((int(piece[:, LABEL].max()) for piece in self.pieces(self.combined, last)), default=-1)
        return list(islice(self.labels, len(self.names), most + 1))

    def rode(self, words: dict[str, int], own: str = "") -> None:
        """In the superstep that has just ended so many words rode, by the name of what did.

        Args:
            own: what the superstep is of: where nothing else rode on any processor, nothing is said of it.
        """
        self._rode.append((len(self) - 1, words, own))

    def note_indices(self, size: int) -> None:
        """With the superstep that goes on indices of patterns go to others, of so many bytes."""
        self._rode.append((len(self), {_INDICES: size}, ""))

    def fresh_rides(self, last: int) -> list[Rode]:
        """What rode in the rows before `last` that are not combined yet: number and words; asked for once."""
        fresh = [one for one in self._rode if one[0] < last]
        self._rode = self._rode[len(fresh) :]
        return fresh

    def put_kinds(self, of_all: Iterable[Kinds]) -> None:
        """Flop by kind in some rows, of each processor."""
        for of_one in of_all:
            for row, kinds in of_one.items():
                most = self.kinds.setdefault(row, {})
                for kind, flops in kinds.items():
                    most[kind] = max(most.get(kind, 0.0), flops)

    def put_rides(self, words: Mapping[int, dict[str, int]]) -> None:
        """What rode in some rows, on all processors: see `ridden`."""
        self.riding.update(words)

    def update_counts(self) -> None:
        """What is being counted is counted so far: rows may be combined from now on."""
        for counts in self._counting:
            counts.update()

    def _note_firsts(self, rows: NDArray[np.float64], first: int) -> None:
        """These combined rows are those from `first` on."""
        ways = rows[:, WAYS].astype(np.int64)
        self.firsts.update((first + np.flatnonzero(firsts(ways, self._used))).tolist())
        self._used |= int(np.bitwise_or.reduce(ways, initial=0))

    def put(self, combined: Iterable[NDArray[np.float64]]) -> None:
        """Take the combined rows of the next supersteps, in order, in place of this processor's own."""
        for rows in combined:
            self._note_firsts(rows, self.combined)
            at = 0
            for piece in self.pieces(self.combined, self.combined + len(rows)):
                piece[:] = rows[at : at + len(piece)]
                at += len(piece)
            self.combined += len(rows)


def ridden(of_all: Iterable[Rode]) -> dict[int, dict[str, int]]:
    """What rode in some rows on all processors, by the number of the row: words by the name of what did."""
    found: dict[int, dict[str, int]] = {}
    alone: dict[int, str] = {}
    for row, words, own in of_all:
        total = found.setdefault(row, {})
        for name, count in words.items():
            total[name] = total.get(name, 0) + count
        if own:
            alone[row] = own
    for row, own in alone.items():
        if found[row].keys() <= {own}:
            del found[row]
    return found


def combine(tables: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """What all processors did in some supersteps, from the rows of each: those of processor 0 come first.

    Args:
        tables: of each processor, shape (supersteps, COLUMNS).

    Returns:
        shape (supersteps, COLUMNS): processor 0's label; the maxima of work, seconds, measured, words out and words in,
        and of MESSAGES and ITEMS of queues (each of out and in); the WORDS of all; the MEAN of seconds; the WAYS that
        any used.
    """
    rest = iter(tables)
    most = np.array(next(rest))
    labels, words, seconds = (most[:, column].copy() for column in (LABEL, WORDS_OUT, SECONDS))
    ways = most[:, WAYS].astype(np.int64)
    p = 1
    for p, other in enumerate(rest, 2):  # noqa: B007 - of how many the mean is
        np.maximum(most, other, out=most)
        words += other[:, WORDS_OUT]
        seconds += other[:, SECONDS]
        ways |= other[:, WAYS].astype(np.int64)
    most[:, LABEL], most[:, WAYS] = labels, ways
    messages = np.maximum(most[:, MESSAGES_OUT], most[:, MESSAGES_IN])
    items = np.maximum(most[:, ITEMS_OUT], most[:, ITEMS_IN])
    most[:, MESSAGES], most[:, ITEMS], most[:, WORDS] = messages, items, words
    # Rounding may not make the mean the larger.
    most[:, MEAN] = np.minimum(seconds / p, most[:, SECONDS])
    return most


def shares(first: int, last: int, p: int) -> list[tuple[int, int]]:
    """Which processors combine which of the supersteps from `first` to before `last` in one round.

    Returns:
        of processors 0, 1, ... the first superstep and the one after the last; as many as fit a round, in which nobody
        is sent more than 5 MiB to combine, and about as much of what was combined.
    """
    share = max(1, _GATHERED // p)
    last = min(last, first + min(p, _COMBINING) * share)
    return [(begin, min(begin + share, last)) for begin in range(first, last, share)]


class _Records(Sequence[Record]):
    """Records, each of which is made when it is asked for."""

    @abstractmethod
    def _at(self, number: int) -> Record:
        """The record of this number, from 0 to len - 1."""

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        chosen = range(len(self))[index]
        if isinstance(chosen, range):
            return [self[number] for number in chosen]
        return self._at(chosen)


def predicted_exchange(
    machine: BSPMachine | EBSPMachine,
    virtual: bool,
    computing: float,
    counted: tuple[float, ...],
    ways: int,
    first: bool = False,
) -> float:
    """Seconds that the exchange of a superstep takes by a machine.

    Args:
        machine: by which.
        virtual: whether the run's times are.
        computing: seconds of it before the exchange.
        counted: h, messages, M and items.
        ways: in which its data goes.
        first: whether one of them has not been used before.
    """
    if isinstance(machine, BSPMachine) and machine.cost == "max":
        return machine.elapsed(computing, *counted) - computing  # what it adds to computing
    if isinstance(machine, BSPMachine) and machine.exchange is not None and not virtual:
        h, messages, words, items = counted
        return machine.exchanging(h, messages, words, items, ways, computing, first)
    return machine.elapsed(0.0, *counted)


class Ledger(_Records):
    """The records of all supersteps so far, combined over the processors.

    machine: whose parameters the predictions are made from.
    virtual: whether the times are virtual.
    checkpoints: what they have cost, a `Checkpoint` of each.
    riding: words that rode in its supersteps (`ticket = collectives.allreduce.start(...)`), of all processors, by the
        number of the record and the name of the collective. They are among the record's words.
    index_bytes: of the indices of patterns that were made in its supersteps, of all processors, by the number of the
        record. They travel once, and count no words.
    parts: what the parts of the machine did in its supersteps (`bsp.split`): `PartTotals` by the number of the record.
    kinds: flop by kind of work (`bsp.work(flops, kind="sort")`), of each the maximum over processors, by the number of
        the record; they are among the record's work.

    Examples:
        >>> def main(bsp):
        ...     for label in "first", "second":
        ...         with bsp.superstep(label):
        ...             bsp.send(0, bsp.pid)
        >>> ledger = pybsp.simulate(main, machine=pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)).ledger
        >>> ledger
        <ledger: 2 supersteps, h = 6 words in all>
        >>> [record.label for record in ledger], ledger.h
        (['first', 'second'], 6)
        >>> f"{ledger.predicted:.3g} s predicted, {ledger.measured:.3g} s measured"
        '2.01e-05 s predicted, 2.01e-05 s measured'
    """

    def __init__(
        self,
        machine: BSPMachine | EBSPMachine,
        log: Log,
        virtual: bool = False,
        parts: Mapping[int, PartTotals] = NO_PARTS,
    ) -> None:
        """What is combined in a log; what comes to it later changes nothing here."""
        self.machine = machine
        self.parts = dict(parts)
        self.index_bytes = {number: words[_INDICES] for number, words in log.riding.items() if _INDICES in words}
        named = {number: {name: words for name, words in of.items() if name} for number, of in log.riding.items()}
        self.riding: Mapping[int, Mapping[str, int]] = {number: words for number, words in named.items() if words}
        self.kinds: Mapping[int, Mapping[str, float]] = {number: dict(flops) for number, flops in log.kinds.items()}
        self.virtual = virtual
        self._chunks = list(log.pieces(0, log.combined))  # all but the last of `Log.ROWS` rows
        self._names = log.names  # only ever grows
        self._firsts = log.firsts  # only ever grows
        self.checkpoints = [Checkpoint(*one) for one in log.checkpoints]

    def __len__(self) -> int:
        return Log.ROWS * (len(self._chunks) - 1) + len(self._chunks[-1]) if self._chunks else 0

    def _at(self, number: int) -> Record:
        chunk, row = divmod(number, Log.ROWS)
        return self._record(number, self._chunks[chunk][row].tolist())

    def __iter__(self) -> Iterator[Record]:
        number = 0
        for chunk in self._chunks:
            for row in chunk.tolist():
                yield self._record(number, row)
                number += 1

    def _record(self, number: int, row: Sequence[float]) -> Record:
        """The record of a combined row, which has that number."""
        parts = self.parts.get(number)
        work, computing = row[WORK], row[SECONDS]
        h = max(row[WORDS_OUT], row[WORDS_IN])
        counted, ways = (h, row[MESSAGES], row[WORDS], row[ITEMS]), int(row[WAYS])
        first = number in self._firsts
        exchange = predicted_exchange(self.machine, self.virtual, computing, counted, ways, first)
        if parts is not None:
            # Of supersteps of parts in which one after the other computes longest no processor has computed it all.
            computing = max(computing, parts.seconds)
            exchange += parts.exchange_predicted
        return Record(
            label=self._names[int(row[LABEL])],
            work=work,
            seconds=computing,
            messages=int(row[MESSAGES]),
            h_out=int(row[WORDS_OUT]),
            h_in=int(row[WORDS_IN]),
            h=int(h),
            M=int(row[WORDS]),
            predicted=computing + exchange,
            measured=row[MEASURED],
            items=int(row[ITEMS]),
            seconds_mean=row[MEAN],
            exchange_predicted=exchange,
            charged=charged(self.machine, work, self.kinds.get(number, NO_KINDS)),
            ways=ways,
            parts=parts,
        )

    @property
    def total(self) -> Record:
        """The sums over all supersteps, as a record whose label is "total".

        Examples:
            >>> machine = pybsp.BSPMachine(p=3, g=1e-8, l=1e-5, r=1e9)
            >>> total = pybsp.simulate(lambda bsp: bsp.sync(), machine=machine).ledger.total
            >>> total.label, total.supersteps, total.exchange, total.exchange_predicted
            ('total', 1, 1e-05, 1e-05)
        """
        return Supersteps(self).total

    def totals(self) -> list[Record]:
        """The sums over the supersteps of each label, in the order in which the labels first come.

        Examples:
            >>> def main(bsp):
            ...     for label in "there", "back", "there":
            ...         with bsp.superstep(label):
            ...             bsp.send(0, bsp.pid)
            >>> [(total.label, total.supersteps, total.M) for total in pybsp.simulate(main, p=4).ledger.totals()]
            [('there', 2, 6), ('back', 1, 3)]
        """
        return Supersteps(self).totals()

    def to_dict(self) -> dict[str, Any]:
        """The ledger as plain data: p, the machine, each superstep, the sums by label and of all (`Record.to_dict`).

        And `riding`, where anything rode.

        Examples:
            >>> found = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger.to_dict()
            >>> list(found), found["total"]["supersteps"]
            (['p', 'machine', 'virtual', 'units', 'supersteps', 'labels', 'total'], 1)
        """
        rows = Supersteps(self)
        return {
            "p": self.machine.p,
            "machine": self.machine.as_json(),
            "virtual": self.virtual,
            "units": UNITS,
            "supersteps": [record.to_dict() for record in self],
            "labels": [record.to_dict() for record in rows.totals()],
            "total": rows.total.to_dict(),
            **self._ridden(),
        }

    def _ridden(self) -> dict[str, Any]:
        """`riding` as an entry of plain data, where anything rode."""
        return {"riding": {str(number): dict(words) for number, words in self.riding.items()}} if self.riding else {}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line of comma-separated values for each superstep, below a line of the names; as `Record.to_dict`,
        without `parts`.

        Only the processor that calls it writes.

        Raises:
            UsageError: the file cannot be written.

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger.to_csv("ledger.csv")
            >>> with open("ledger.csv") as file:
            ...     file.readline().split(",")[:3]
            ['label', 'work', 'seconds']
        """
        try:
            with replacing(path) as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerow((*Record._fields[:-1], *DERIVED))
                for record in self:
                    # Half a character of UTF-16, which a label may have, is none of UTF-8.
                    label = record.label.encode(errors="backslashreplace").decode()
                    table.writerow(record._replace(label=label, parts=None).to_dict().values())
        except OSError as error:
            raise UsageError(f"Ledger.to_csv: {path}: cannot be written ({error.strerror})") from error

    @property
    def rates(self) -> dict[str, float]:
        """Flop/s by kind of work, as this run has measured them in the supersteps that charged that kind alone.

        The busiest processor's flop, over its seconds of computing: what a machine's `rates` are to be made of.

        Examples:
            >>> def main(bsp):
            ...     for kind in "sort", "count":
            ...         bsp.work(1000, kind=kind)
            ...         bsp.sync()
            >>> machine = pybsp.BSPMachine(p=2, g=0, l=0, r=1e6, rates={"sort": 2000})
            >>> {kind: round(rate) for kind, rate in pybsp.simulate(main, machine=machine).ledger.rates.items()}
            {'sort': 2000, 'count': 1000000}
        """
        sums: dict[str, tuple[float, float]] = {}
        for row, kinds in self.kinds.items():
            record = self[row]
            ((kind, flops), *others) = kinds.items()
            if not others and flops == record.work and record.seconds > 0:
                before = sums.get(kind, (0.0, 0.0))
                sums[kind] = before[0] + flops, before[1] + record.seconds
        return {kind: flops / seconds for kind, (flops, seconds) in sums.items()}

    @property
    def predicted(self) -> float:
        """Seconds of all supersteps as predicted: computing as measured, exchange by the machine in force."""
        return sum(record.predicted for record in self)

    @property
    def measured(self) -> float:
        """Seconds of all supersteps as measured (each superstep's slowest processor)."""
        return float(sum(seconds for chunk in self._chunks for seconds in chunk[:, MEASURED].tolist()))

    @property
    def h(self) -> int:
        """Words: the sum of h over the supersteps."""
        return sum(int(np.maximum(chunk[:, WORDS_OUT], chunk[:, WORDS_IN]).sum()) for chunk in self._chunks)

    def __repr__(self) -> str:
        return f"<ledger: {len(self)} supersteps, h = {self.h} words in all>"

    def _repr_html_(self) -> str:
        from .pictures import of_ledger  # a notebook alone needs it

        return of_ledger(Supersteps(self), self.machine.as_json(), self.virtual)

    def about(
        self, hosts: Sequence[str], router: str, circumstances: Mapping[str, Sequence[float]] = NOTHING_KNOWN
    ) -> dict[str, Any]:
        """What one needs to know about where the ledger of a run was taken.

        Args:
            hosts: of each processor.
            router: its name.
            circumstances: of each processor its host's cores and load, and its threads, as CIRCUMSTANCES has them.
        """
        machine = self.machine
        return {
            "p": machine.p,
            "machine": machine.as_json(),
            "router": router,
            **({"checkpoints": [one._asdict() for one in self.checkpoints]} if self.checkpoints else {}),
            **({"kinds": {number: dict(one) for number, one in self.kinds.items()}} if self.kinds else {}),
            **({"index_bytes": self.index_bytes} if self.index_bytes else {}),
            **({"parts": {number: one._asdict() for number, one in self.parts.items()}} if self.parts else {}),
            **self._ridden(),
            "virtual": self.virtual,
            "hosts": list(hosts),
            **circumstances,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(self.virtual),
            "units": UNITS,
        }

    def as_json(self, hosts: Sequence[str], router: str) -> dict[str, Any]:
        """The ledger of one run, with `about`, as a ledger file has it."""
        return {**self.about(hosts, router), "supersteps": [of_file(record) for record in self]}


def of_file(record: Record) -> dict[str, Any]:
    """A record as a ledger file has it."""
    return {name: getattr(record, name) for name in ("label", *_STORED)}


def versions(virtual: bool) -> dict[str, str]:
    """Versions of what took part in a run."""
    found = {"pybsp": __version__, "python": platform.python_version(), "numpy": np.__version__}
    if not virtual:
        import mpi4py
        from mpi4py import MPI

        found["mpi4py"] = mpi4py.__version__
        found["mpi"] = mpi_library(MPI.Get_library_version())
    return found


def mpi_library(version: str) -> str:
    """The MPI library in a line, from what it says of its version."""
    return " ".join(version.strip("\x00 \n").split("\n")[0].split())


_COUNT, _FIGURE = whole(), number()
_COUNTS = ("messages", "h_out", "h_in", "h", "M", "items")
_LATER = {"ways": 0}  # fields that earlier files have not
_SECONDS = ("seconds", "predicted", "measured", "seconds_mean", "exchange_predicted", "charged")
_RECORD = fields(
    {"label": any_text, "work": _FIGURE, **dict.fromkeys(_COUNTS, _COUNT), **dict.fromkeys(_SECONDS, _FIGURE)},
    dict.fromkeys(_LATER, _COUNT),
    others=untouched,
)
_PARAMETERS = {
    **dict.fromkeys(("g", "l", "g1", "g2", "s", "o_msg", "o_item"), _FIGURE),
    "r": number(above=True),
    **dict.fromkeys(("error_median", "error_p95"), optional(_FIGURE)),
}
_MACHINE = fields(
    {"calibrated": flag},
    {
        **_PARAMETERS,
        "exchange": optional(fields({}, _PARAMETERS, others=untouched)),
        "rates": table(number(above=True)),
    },
    others=untouched,
)


_STORED: tuple[str, ...] = Record._fields[1:-2]  # figures of one superstep
_figures = itemgetter(*_STORED)
_whole = [name in (*_COUNTS, *_LATER) for name in _STORED]
_WAYS = 1 + _STORED.index("ways")  # the column


class Supersteps(_Records):
    """The records of a run, in a ledger file or of a ledger: 120 bytes of each, and its label once.

    names: the labels, in the order in which they first come.
    parts: what parts did, by the number of the record.
    columns: of `numbers`.
    """

    columns = ("label", *_STORED)

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._numbers = array("d")
        self._labels: dict[str, int] = {}
        self.names: list[str] = []
        self.parts: Mapping[int, PartTotals] = records.parts if isinstance(records, Ledger) else NO_PARTS
        for record in records:
            self._add(record.label, record[1:-2])

    def append(self, value: Any) -> None:
        """Take a record as JSON has it.

        Raises:
            MisfitError: it is none.
        """
        found = {**_LATER, **_RECORD(value)}
        if found["h"] != max(found["h_out"], found["h_in"]):
            misfit = MisfitError(f"the larger of h_out and h_in, {max(found['h_out'], found['h_in'])}", f"{found['h']}")
            misfit.steps.append(".h")
            raise misfit
        self._add(found["label"], _figures(found))

    def _add(self, label: str, figures: Iterable[float]) -> None:
        number = self._labels.setdefault(label, len(self.names))
        if number == len(self.names):
            self.names.append(label)
        self._numbers.append(number)
        self._numbers.extend(figures)

    def numbers(self) -> NDArray[np.float64]:
        """Rows of a label's number and the figures that a `Record` has of a superstep, shape (supersteps, 15)."""
        return np.frombuffer(self._numbers).reshape(-1, 1 + len(_STORED))

    def __len__(self) -> int:
        return len(self._numbers) // (1 + len(_STORED))

    def _at(self, number: int) -> Record:
        width = 1 + len(_STORED)
        label, *figures = self._numbers[number * width : (number + 1) * width]
        return _sum_record(self.names[int(label)], figures, 1, self.parts.get(number))

    @property
    def total(self) -> Record:
        """The sums of all; see `Ledger.total`."""
        with np.errstate(over="ignore"):
            sums = self.numbers().sum(axis=0)
        sums[_WAYS] = np.bitwise_or.reduce(self.numbers()[:, _WAYS].astype(np.int64), initial=0)
        return _sum_record("total", sums[1:].tolist(), len(self), _sum(self.parts.values()))

    def totals(self) -> list[Record]:
        """The sums by label; see `Ledger.totals`."""
        rows = self.numbers()
        labels, count = rows[:, 0].astype(np.int64), len(self.names)
        sums = np.stack([np.bincount(labels, column, count) for column in rows.T[1:]], axis=1)
        ways = np.zeros(count, np.int64)
        np.bitwise_or.at(ways, labels, rows[:, _WAYS].astype(np.int64))
        sums[:, _WAYS - 1] = ways
        of_each = np.bincount(labels, minlength=count).tolist()
        parts: list[list[PartTotals]] = [[] for _ in range(count)]
        for at, one in self.parts.items():
            parts[labels[at]].append(one)
        return list(map(_sum_record, self.names, sums.tolist(), of_each, map(_sum, parts)))


def _sum_record(label: str, figures: Iterable[float], supersteps: int, parts: PartTotals | None) -> Record:
    """The record of these figures, which are as `_STORED`."""
    found = (int(figure) if count else figure for figure, count in zip(figures, _whole, strict=True))
    return Record._make((label, *found, supersteps, parts))


def _sum(parts: Iterable[PartTotals]) -> PartTotals | None:
    """The sums of what parts did in some supersteps; None where that is nothing."""
    all_parts = list(parts)
    return reduce(PartTotals.plus, all_parts) if all_parts else None


def _supersteps(value: Any) -> Supersteps:
    """The decoder of all records of a run."""
    if isinstance(value, Supersteps):
        return value
    found = Supersteps()
    each(found.append)(value)
    return found


_OF_EACH = {"hosts": each(any_text), "cores": each(whole(1)), "threads": each(whole(1)), "load": each(number())}
_OF_LANES = ("computing", "waiting", "exchange", "sent")
_TRACE = fields(
    {
        "p": whole(1),
        "lane": whole(1),
        "labels": each(any_text, least=1),
        "words": each(each(_COUNT, least=4, most=4)),
        "seconds": _FIGURE,
        **dict.fromkeys(_OF_LANES, each(each(_FIGURE, least=1))),
        "kinds": each(each(whole(-1), least=1)),
    },
    others=untouched,
)


def _trace(value: Any) -> dict[str, Any]:
    """The decoder of what `trace.Trace.summary` says."""
    found: dict[str, Any] = _TRACE(value)
    lanes, labels, bins = (
        -(-found["p"] // found["lane"]),
        len(found["labels"]),
        len(found["kinds"][0:1] and found["kinds"][0]),
    )
    for name in (*_OF_LANES, "kinds"):
        got = sorted({len(row) for row in found[name]})
        if len(found[name]) != lanes or got != [bins]:
            misfit = MisfitError(f"{lanes} lists of {bins}", f"{len(found[name])} of {got}")
            misfit.steps.append(f".{name}")
            raise misfit
    below = labels, lanes, lanes
    if any(number >= most for row in found["words"] for number, most in zip(row, below, strict=False)):
        misfit = MisfitError(f"numbers of labels below {labels}, of lanes below {lanes}", "a larger one")
        misfit.steps.append(".words")
        raise misfit
    if any(kind >= labels for row in found["kinds"] for kind in row):
        misfit = MisfitError(f"numbers of labels, below {labels}", "a larger one")
        misfit.steps.append(".kinds")
        raise misfit
    return found


_CHECKPOINTS = each(fields({"superstep": whole(), "bytes": _COUNT, "seconds": _FIGURE}, others=untouched))
_PARTS_OF_ONE = fields(
    {"work": _FIGURE, "predicted": _FIGURE, "measured": _FIGURE}
    | dict.fromkeys(("supersteps", "h", "messages", "M"), _COUNT),
    {"seconds": _FIGURE, "items": _COUNT, "ways": _COUNT},  # which earlier files have not
)


def _parts_of_one(value: Any) -> PartTotals:
    """The decoder of what parts did in a superstep."""
    return PartTotals(**_PARTS_OF_ONE(value))


CIRCUMSTANCES = ("cores", "threads", "load")  # of each processor's host; threads that its libraries take
_FIELDS = fields(
    {
        "p": whole(1),
        "machine": _MACHINE,
        "router": any_text,
        "virtual": flag,
        "hosts": _OF_EACH["hosts"],
        "date": any_text,
        "versions": table(any_text),
        "supersteps": _supersteps,
    },
    {
        **{name: _OF_EACH[name] for name in CIRCUMSTANCES},
        "trace": _trace,
        "checkpoints": _CHECKPOINTS,
        "parts": table(_parts_of_one),
        "kinds": table(table(_FIGURE)),
        "index_bytes": table(whole()),
        "riding": table(table(_COUNT)),
    },
    others=untouched,
)


def _run(value: Any) -> dict[str, Any]:
    """The decoder of a run."""
    found: dict[str, Any] = _FIELDS(value)
    for name in _OF_EACH:
        if name in found and len(found[name]) != found["p"]:
            misfit = MisfitError(f"a list of p = {found['p']}, one of each processor", f"a list of {len(found[name])}")
            misfit.steps.append(f".{name}")
            raise misfit
    count = len(found["supersteps"])
    for field in "parts", "kinds":
        for name in found.get(field, ()):
            if not (name.isascii() and name.isdigit() and len(name) < 20 and int(name) < count):
                misfit = MisfitError(f"the number of a superstep, below {count}", f"{name:.20}")
                misfit.steps.append(f".{field}")
                raise misfit
    found["supersteps"].parts = {int(name): one for name, one in found.get("parts", {}).items()}
    return found


_FILE = fields({"format": one_of(FORMAT), "version": one_of(VERSION), "runs": each(_run)}, others=untouched)
_HEAD = f'{{"format": "{FORMAT}", "version": {VERSION}, "runs": ['
_TAIL = "\n]}\n"


def append_run(path: str | os.PathLike[str], run: dict[str, Any], first: bool) -> None:
    """Add a run to a ledger file; the first run of a job begins the file anew.

    The file is there whole at any time, as it was or as it will be. Memory for one record is enough: what is there is
    copied, and "supersteps" may be any iterable.

    Raises:
        OSError: it cannot be written.
        UsageError: it is not as this job's runs before have left it.
    """
    with replacing(path) as file:
        if first or not Path(path).is_file():
            file.write(_HEAD)
        else:
            _copy_runs(Path(path), file)
            file.write(",")
        about = {name: value for name, value in run.items() if name != "supersteps"}
        file.write(f'\n{_json(about)[:-1]}, "supersteps": [')
        for number, record in enumerate(run["supersteps"]):
            file.write(f"{',' if number else ''}\n{_json(record)}")
        file.write(f"\n]}}{_TAIL}")


def _copy_runs(path: Path, file: TextIO) -> None:
    """Write a ledger file again without its end."""
    with path.open(encoding="utf-8") as earlier:
        text, rest = earlier.read(len(_HEAD)), ""
        if text == _HEAD:
            while piece := earlier.read(1 << 20):
                file.write(text)
                text = rest + piece
                text, rest = text[: -len(_TAIL)], text[-len(_TAIL) :]
            file.write(text)
    if rest != _TAIL:
        raise UsageError(f"ledger file {path}: somebody has changed it since the last run of this job wrote it")


_encoder = json.JSONEncoder(allow_nan=False)


def _json(content: dict[str, Any]) -> str:
    """JSON, which knows no infinity: a figure beyond all numbers is the largest."""
    try:
        return _encoder.encode(content)
    except ValueError:
        return _encoder.encode(_numbers(content))


def _numbers(content: Any) -> Any:
    """The same content, whose figures are numbers."""
    if isinstance(content, dict):
        return {name: _numbers(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_numbers(value) for value in content]
    return sys.float_info.max if isinstance(content, float) and not math.isfinite(content) else content


def record_run(
    path: str,
    ledger: Ledger,
    hosts: Sequence[str],
    router: str,
    first: bool,
    circumstances: Mapping[str, Sequence[float]] = NOTHING_KNOWN,
) -> bool:
    """Add a run to a ledger file, or say on stderr why not: the run's result is worth more than its record.

    Returns:
        whether it was added.
    """
    records = (of_file(record) for record in ledger)
    acknowledge()
    try:
        append_run(path, {**ledger.about(hosts, router, circumstances), "supersteps": records}, first)
    except (OSError, UsageError) as error:
        print(
            f"pybsp: the ledger of this run could not be written to {path} ({error}); what the file held is as it was, "
            "and the program goes on with its result",
            file=sys.stderr,
        )
        return False
    return True


class LedgerFile:
    """The ledger file that the runs of this process are added to; the first one begins it anew."""

    def __init__(self) -> None:
        self._runs = 0

    def add(
        self,
        path: str,
        ledger: Ledger,
        hosts: Sequence[str],
        router: str,
        circumstances: Mapping[str, Sequence[float]] = NOTHING_KNOWN,
    ) -> None:
        """Add a run, as `record_run`."""
        self._runs += record_run(path, ledger, hosts, router, self._runs == 0, circumstances)


def acknowledge() -> None:
    """Let the command that has asked for a ledger know that a run writes it, or has said why not."""
    receipt = settings.text(settings.RECEIPT)
    if receipt:
        with suppress(OSError):
            Path(receipt).touch()


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a ledger file.

    Raises:
        UsageError: it cannot be read, or is none; the text says what was expected where.
    """
    origin, way_out = (
        f"ledger file {path}",
        "write one with `pybsp run --ledger FILE` or `pybsp simulate --ledger FILE`",
    )
    content = _by_lines(Path(path)) or read_json(path, "ledger file")
    found: dict[str, Any] = decode(versioned(content, origin, FORMAT, VERSION, way_out), origin, _FILE)
    return found


def _by_lines(path: Path) -> dict[str, Any] | None:
    """The content of a file as `append_run` leaves it, a line of which is held at a time; None of any other."""
    runs = []
    with suppress(OSError, ValueError, RecursionError, MisfitError), path.open(encoding="utf-8") as file:
        if file.readline() != f"{_HEAD}\n":
            return None
        more = True
        while more:
            head, records = file.readline(), Supersteps()
            if not head.endswith(', "supersteps": [\n'):
                return None
            while (line := file.readline().rstrip("\n")) not in ("]}", "]},", ""):
                records.append(json.loads(line.removesuffix(",")))
            runs.append({**json.loads(f"{head}]}}"), "supersteps": records})
            more = line == "]},"
        if line == "]}" and f"\n{file.read(9)}" == _TAIL:
            return {"format": FORMAT, "version": VERSION, "runs": runs}
    return None
