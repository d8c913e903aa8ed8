"""Records: what a superstep cost, beside what was predicted, or the sums of several."""

from __future__ import annotations

import types
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..ground.convert import indices_of
from ..ground.instead import hinting
from ..ways import named


def _in_short(figures: dict[str, Any], *first: str) -> str:
    """These first, and whatever else is not zero."""
    shown = {name: figures[name] for name in first} | {name: one for name, one in figures.items() if one}
    return ", ".join(f"{k}={one:.4g}" if isinstance(one, float) else f"{k}={one!r}" for k, one in shown.items())


class PartTotals(NamedTuple):
    """What parts did in a superstep of the whole: the sums of a processor's, maximum over the processors.

    What parts of a part did is among it: their computing and exchanges, as in a record, are in those of its superstep.

    supersteps: of parts.
    work: flop charged in them, of each superstep the largest of the part.
    h: words, of each superstep the largest that a processor of the part sent or received.
    messages: likewise.
    M: words that all processors of the part sent.
    predicted: seconds: computing as in `seconds`, each exchange by the machine in force, with as many processors as
        the part has.
    measured: seconds.
    seconds: of computing, of each superstep the largest of the part.
    items: of queues, as messages.
    ways: in which data went, as of a `Record`.
    charged: seconds that the charged work takes, as of a `Record`; 0 in files of pybsp 0.4 and before.

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
    charged: float = 0.0

    def __repr__(self) -> str:
        return f"PartTotals({_in_short({**self._asdict(), 'ways': named(self.ways)}, 'supersteps', 'h', 'seconds')})"

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


NOTHING = PartTotals(0, 0.0, 0, 0, 0, 0.0, 0.0)
NO_PARTS: Mapping[int, PartTotals] = types.MappingProxyType({})


@hinting("record")
class Record(NamedTuple):
    """One superstep, or the sums of several.

    label: as given to `bsp.superstep`, or "".
    work: flop charged by `bsp.work`, maximum over processors; what is charged in parts of the machine is in `parts`.
    seconds: of computing, maximum over processors (virtual processors: work / r, unless measured); that in parts of
        the machine too, whose exchanges are in `exchange` and `exchange_predicted`. On ranks from when the last has
        ended the superstep before until the last has computed, by processor 0's clock.
    messages: that one processor sends or receives, maximum over processors; what a queue sends to one destination is
        one message.
    h_out, h_in: words that one processor sends, and receives, maximum over processors.
    h: the larger of the two.
    M: words that all processors send.
    predicted: seconds of all of it: computing as in `seconds`, exchange by the machine in force.
    measured: seconds from the last sync to the end of this one: on ranks from when the last has ended the former until
        the last has ended this, so that sums are the time that went by; else the maximum over processors.
    items: of queues, that one processor sends or receives, maximum over processors.
    seconds_mean: of computing, mean over processors; on ranks of what each computes, up to `seconds`.
    exchange_predicted: seconds that the exchange takes by the machine in force: g*h + l, and what messages and items
        cost; of Valiant's cost, what it takes beyond computing.
    charged: seconds that a processor's charged work takes by the machine's r, and by its rates of some kinds, maximum
        over processors; 0 where none was charged. What was charged in parts of the machine is in `parts`.
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

    def __repr__(self) -> str:
        shown = {**self._asdict(), "ways": named(self.ways), "supersteps": self.supersteps > 1 and self.supersteps}
        return f"Record({_in_short(shown, 'label', 'h', 'seconds')})"

    @property
    def exchange(self) -> float:
        """Seconds of the exchange as measured: those of the superstep, less those of computing."""
        return self.measured - self.seconds

    @property
    def waiting(self) -> float:
        """Seconds that a processor waits for the one that computes longest, mean over processors."""
        return self.seconds - self.seconds_mean

    @property
    def imbalance(self) -> float:
        """Computing over its mean: 1 where all compute alike."""
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


TOTAL, AFTER, NONE = "total", "(after the last)", "-"  # in tables: sums, what is after the last superstep, no label


def in_table(label: str) -> str:
    """A label as tables have it: in quotes where it looks like one of the names that they have of their own."""
    return f'"{label}"' if label.strip('"') in (TOTAL, AFTER, NONE) else label or NONE


DERIVED = ("exchange", "waiting", "imbalance")  # figures of a `Record` that follow from its fields


class Records(Sequence[Record]):
    """Records, each of which is made when it is asked for."""

    @abstractmethod
    def _at(self, number: int) -> Record:
        """The record of this number, from 0 to len - 1."""

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        try:
            chosen = range(len(self))[index]
        except IndexError:
            there = indices_of(len(self), "superstep", "there is none")
            raise IndexError(f"ledger[{index}]: expected {there}") from None
        except TypeError:
            expected = "the number of a superstep, or a slice; ledger.totals() has the sums of each label"
            raise TypeError(f"ledger[{index!r:.60}]: expected {expected}") from None
        if isinstance(chosen, range):
            return [self[number] for number in chosen]
        return self._at(chosen)


CIRCUMSTANCES = ("cores", "threads", "load")  # of each processor's host, in a file; threads that its libraries take
# Figures of one superstep, as a ledger file has them.
STORED: tuple[str, ...] = Record._fields[1:-2]
COUNTS = ("messages", "h_out", "h_in", "h", "M", "items", "ways")  # those that are whole
_counted = [name in COUNTS for name in STORED]
_WAYS = 1 + STORED.index("ways")  # the column


class Supersteps(Records):
    """The records of a run, in a ledger file or of a ledger: 120 bytes of each, and its label once.

    names: the labels, in the order in which they first come.
    parts: what parts did, by the number of the record.
    columns: of `numbers`.
    """

    columns = ("label", *STORED)

    def __init__(self, records: Iterable[Record] = (), parts: Mapping[int, PartTotals] = NO_PARTS) -> None:
        self._numbers = array("d")
        self._labels: dict[str, int] = {}
        self.names: list[str] = []
        self.parts = parts
        for record in records:
            self.add(record.label, record[1:-2])

    def add(self, label: str, figures: Iterable[float]) -> None:
        """Take the figures of one superstep, as `STORED`."""
        number = self._labels.setdefault(label, len(self.names))
        if number == len(self.names):
            self.names.append(label)
        self._numbers.append(number)
        self._numbers.extend(figures)

    def numbers(self) -> NDArray[np.float64]:
        """Rows of a label's number and the figures that a `Record` has of a superstep, shape (supersteps, 15)."""
        return np.frombuffer(self._numbers).reshape(-1, 1 + len(STORED))

    def __len__(self) -> int:
        return len(self._numbers) // (1 + len(STORED))

    def _at(self, number: int) -> Record:
        width = 1 + len(STORED)
        label, *figures = self._numbers[number * width : (number + 1) * width]
        return _sum_record(self.names[int(label)], figures, 1, self.parts.get(number))

    @property
    def total(self) -> Record:
        """The sums of all; see `Ledger.total`."""
        with np.errstate(over="ignore"):
            sums = self.numbers().sum(axis=0)
        sums[_WAYS] = np.bitwise_or.reduce(self.numbers()[:, _WAYS].astype(np.int64), initial=0)
        return _sum_record(TOTAL, sums[1:].tolist(), len(self), _sum(self.parts.values()))

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
    """The record of these figures, which are as `STORED`."""
    found = (int(figure) if count else figure for figure, count in zip(figures, _counted, strict=True))
    return Record._make((label, *found, supersteps, parts))


def _sum(parts: Iterable[PartTotals]) -> PartTotals | None:
    """The sums of what parts did in some supersteps; None where that is nothing."""
    all_parts = list(parts)
    return reduce(PartTotals.plus, all_parts) if all_parts else None


def of_file(record: Record) -> dict[str, Any]:
    """A record as a ledger file has it."""
    return {name: getattr(record, name) for name in ("label", *STORED)}
