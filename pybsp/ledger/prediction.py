"""What supersteps would take on a machine: computing as it was measured, exchanges by the machine's parameters."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, argument_error, brief
from ..machines.bsp import BSPMachine, index_words, others_waited, overlaps
from ..machines.in_force import resized
from ..machines.machine_file import is_rate, require_machine
from ..ways import Used
from .records import AFTER, PartTotals, Record

if TYPE_CHECKING:
    from .ledger import Ledger

NO_BYTES: Mapping[int, int] = types.MappingProxyType({})


@dataclass(frozen=True)
class Prediction:
    """What a program takes, or its supersteps of a label: `pybsp.predict` and `Ledger.predict` give it.

    label: of the supersteps; "" of all.
    p: processors.
    supersteps: their number.
    computing, waiting: seconds: the busiest processor's in each superstep, and what that is above the mean.
    exchange: seconds, the latency included.
    latency: seconds of it that supersteps take in which nothing is sent.
    error: seconds that 95 of 100 exchanges were nearer by, of those that nothing of the machine was fitted from; None
        where the machine does not know.
    labels: the prediction of each label, in the order in which they first come; `(after the last)` is what is computed
        after the last superstep, in no superstep.
    in_parts: whether parts of the machine (`bsp.split`) had supersteps: of those in one superstep the largest of each
        count is priced.

    Examples:
        >>> def main(bsp):
        ...     with bsp.superstep("total"):
        ...         bsp.work(1e6)
        ...         bsp.send(0, np.zeros(1000))
        >>> ledger = pybsp.simulate(main, machine=pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)).ledger
        >>> found = ledger.predict(pybsp.BSPMachine(p=4, g=1e-6, l=1e-3, r=1e9))
        >>> found
        <prediction: p = 4, 1 superstep, 0.005 s: 20 % computing, 60 % exchange, 20 % latency>
        >>> found.time, found.computing, found.exchange, found.latency, list(found.labels)
        (0.005, 0.001, 0.004, 0.001, ['total'])
        >>> found.imbalance, [round(part, 3) for part in found.parts]
        (1.0, [0.2, 0.6, 0.2])
    """

    label: str
    p: int
    supersteps: int
    computing: float
    waiting: float
    exchange: float
    latency: float
    error: float | None = None
    labels: Mapping[str, Prediction] = field(default_factory=dict)
    in_parts: bool = False

    @property
    def time(self) -> float:
        """Seconds of all."""
        return self.computing + self.exchange

    @property
    def imbalance(self) -> float:
        """The largest computing over the mean."""
        mean = self.computing - self.waiting
        return self.computing / mean if mean > 0 else 1.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """Of the time: computing, exchange beyond latency, latency."""
        whole = self.time or 1.0
        return self.computing / whole, (self.exchange - self.latency) / whole, self.latency / whole

    @property
    def bar(self) -> str:
        """The error, as text."""
        return "-" if self.error is None else f"{self.error:.2g}"

    def to_dict(self) -> dict[str, Any]:
        """The prediction as plain data, without its labels.

        Examples:
            >>> ledger = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger
            >>> list(ledger.predict(pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)).to_dict())[:5]
            ['label', 'p', 'supersteps', 'time', 'computing']
        """
        names = ("label", "p", "supersteps", "time", "computing", "waiting", "exchange", "latency", "error")
        return {name: getattr(self, name) for name in (*names, "imbalance", "in_parts")}

    def __repr__(self) -> str:
        of_label = f" of {self.label!r}" if self.label else ""
        count = f"{self.supersteps} superstep{'s' * (self.supersteps != 1)}"
        parts = zip(self.parts, ("computing", "exchange", "latency"), strict=True)
        shares = ", ".join(f"{100 * part:.3g} % {name}" for part, name in parts)
        return f"<prediction{of_label}: p = {self.p}, {count}, {self.time:.4g} s: {shares}>"

    def _repr_html_(self) -> str:
        from .prediction_pictures import of_prediction  # a notebook alone needs it

        return of_prediction(self)


class Predictions(Sequence[Prediction]):
    """What a program takes with several numbers of processors: `pybsp.predict` gives it, ascending by p.

    machine: whose parameters say what exchanges take.
    weak: whether the input grows with p.

    Examples:
        >>> def main(bsp):
        ...     bsp.work(1e6 / bsp.p)
        ...     bsp.sync()
        >>> machine = pybsp.BSPMachine(p=4, g=1e-8, l=1e-4, r=1e9)
        >>> found = pybsp.predict(main, p=[1, 2, 10], machine=machine, measure=False)
        >>> found.speedup.round(2).tolist(), found.efficiency.round(2).tolist(), found[-1].time
        ([1.0, 1.67, 5.0], [1.0, 0.83, 0.5], 0.0002)
    """

    def __init__(self, found: Iterable[Prediction], machine: BSPMachine, weak: bool = False) -> None:
        self._found, self.machine, self.weak = tuple(found), machine, weak

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> Predictions: ...
    def __getitem__(self, index: int | slice) -> Prediction | Predictions:
        if isinstance(index, slice):
            return Predictions(self._found[index], self.machine, self.weak)
        return self._found[index]

    def _each(self, of: Callable[[Prediction], float]) -> NDArray[np.float64]:
        return np.array([of(one) for one in self], np.float64)

    @property
    def p(self) -> NDArray[np.int64]:
        """The numbers of processors."""
        return np.array([one.p for one in self], np.int64)

    @property
    def time(self) -> NDArray[np.float64]:
        """Seconds of each."""
        return self._each(lambda one: one.time)

    @property
    def speedup(self) -> NDArray[np.float64]:
        """How many times as fast each is as the first; of weak scaling as much in the same time counts p times."""
        time, p = self.time, self.p
        more = p / p[:1] if self.weak else np.ones(len(p))
        with np.errstate(invalid="ignore"):  # of what takes longer than any number of seconds
            return np.divide(time[:1], time, out=np.ones(len(p)), where=time > 0) * more

    @property
    def efficiency(self) -> NDArray[np.float64]:
        """The speed-up, over as many times as there are processors of the first."""
        p = self.p
        return self.speedup * p[:1] / p

    def to_dict(self) -> dict[str, Any]:
        """The predictions as plain data: a list of each figure, which `pandas.DataFrame` takes as it is.

        Examples:
            >>> machine = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)
            >>> found = pybsp.predict(lambda bsp: bsp.sync(), p=[2, 4], machine=machine, measure=False).to_dict()
            >>> found["p"], found["time"], found["speedup"]
            ([2, 4], [1e-05, 1e-05], [1.0, 1.0])
        """
        rows = [one.to_dict() for one in self]
        columns = {name: [row[name] for row in rows] for name in (*rows[0],) if name != "label"} if rows else {}
        return {**columns, "speedup": self.speedup.tolist(), "efficiency": self.efficiency.tolist()}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """What stands above the columns of a table, and its rows, as text."""
        head = ["p", "supersteps", "time [s]", "+- [s]", f"speed-up over p = {self[0].p}" if self else "speed-up"]
        head += ["efficiency", "imbalance", "computing", "exchange", "latency"]
        rows = [
            [
                *(f"{one.p}", f"{one.supersteps}", f"{one.time:.4g}", one.bar),
                *(f"{speedup:.4g}", f"{100 * efficiency:.3g} %", f"{one.imbalance:.3g}"),
                *(f"{100 * part:.3g} %" for part in one.parts),
            ]
            for one, speedup, efficiency in zip(self, self.speedup, self.efficiency, strict=True)
        ]
        return head, rows

    def __str__(self) -> str:
        head, rows = self.table()
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in (head, *rows)]
        return "\n".join(map("  ".join, lines))

    def __repr__(self) -> str:
        of_all = ", ".join(map(str, self.p[:8])) + ", ..." * (len(self) > 8)
        return f"<predictions: p = {of_all or 'none'}>"

    def _repr_html_(self) -> str:
        from .prediction_pictures import of_predictions  # a notebook alone needs it

        return of_predictions(self)


def by(machine: BSPMachine) -> BSPMachine:
    """The machine whose parameters predict exchanges; see `_exchange`."""
    return machine if machine.exchange is None or overlaps(machine) else machine.exchange


def of_ledger(operation: str, ledger: Ledger, machine: BSPMachine, faster: float) -> Prediction:
    """What the run of a ledger takes on a machine, of which p is no matter; an operation asks for it."""
    require_machine(operation, machine, BSPMachine)
    require_exchange(f"{operation}: argument machine", machine)
    require_factor(operation, faster)
    return of_runs([ledger], resized(machine, ledger.machine.p), faster)


def require_factor(operation: str, faster: Any) -> None:
    """Refuse an argument `faster` that is none."""
    if not is_rate(faster):
        raise argument_error(operation, "faster", "a finite number above 0", brief(faster))


def require_exchange(called: str, machine: BSPMachine) -> None:
    """Refuse, with a UsageError, a machine that was measured where nothing is sent."""
    alone = by(machine)
    if machine.calibrated and machine.p == 1 and alone.g == alone.o_msg == 0.0:
        raise UsageError(
            f"{called}: measured with p = 1, where nothing is sent, so it has no g: expected one of more processors; "
            "`pybsp calibrate -n 2 -o machine.json` writes a file of it"
        )


def of_runs(ledgers: Sequence[Ledger], machine: BSPMachine, faster: float) -> Prediction:
    """What runs, one after the other, take on a machine of as many processors, by their ledgers."""
    parts_after = [ledger.parts_after for ledger in ledgers if ledger.parts_after is not None]
    longest, mean = (sum(ledger.after[k] for ledger in ledgers) for k in (0, 1))
    begins = accumulate((len(ledger) for ledger in ledgers), initial=0)
    indices = {
        k + n: size for k, ledger in zip(begins, ledgers, strict=False) for n, size in ledger.index_bytes.items()
    }
    records = in_order((record for ledger in ledgers for record in ledger), indices)
    return predicted(records, machine, faster, (longest, mean), parts_after)


class InRun(NamedTuple):
    """A superstep among those of its run.

    since, fresh: as of `Used.since`.
    indices: bytes of those of patterns that were made in it.
    """

    record: Record
    since: float
    fresh: int
    indices: int


def in_order(records: Iterable[Record], index_bytes: Mapping[int, int] = NO_BYTES) -> list[InRun]:
    """The records of a run, each with what else its prediction needs.

    Args:
        records: all of them.
        index_bytes: by the number of a record, as `Ledger.index_bytes`.
    """
    of_all, numbers = list(records), dict[str, int]()
    labels = [numbers.setdefault(one.label, len(numbers)) for one in of_all]
    counted = [(one.h, one.messages, one.seconds, label) for one, label in zip(of_all, labels, strict=True)]
    columns = np.array(counted, np.float64).reshape(-1, 4).T
    since, fresh = Used().since(np.array([one.ways for one in of_all], np.int64), *columns)
    indices = [index_bytes.get(number, 0) for number in range(len(of_all))]
    return [*map(InRun, of_all, since.tolist(), fresh.tolist(), indices)]


def predicted(
    records: Sequence[InRun],
    machine: BSPMachine,
    faster: float = 1.0,
    after: tuple[float, float] = (0.0, 0.0),
    parts_after: Sequence[PartTotals] = (),
) -> Prediction:
    """What supersteps take on a machine, all of them and label by label.

    Args:
        records: as `in_order` gives them: their computing, words, messages and items count.
        machine: has as many processors as they are of.
        faster: so many times as fast is its computing.
        after: seconds of computing after the last of them: the longest, and the mean.
        parts_after: what parts did after the last of them; their computing is in `after`.
    """
    alone = machine.p == 1  # it exchanges nothing, and waits for nobody
    priced_by = BSPMachine(p=1, g=0.0, l=0.0, r=machine.r) if alone else machine
    sums: dict[str, _Sums] = {}
    for one in records:
        sums.setdefault(one.record.label, _Sums()).add(*_of_superstep(one, priced_by, faster))
    if after[0] or parts_after:
        longest, mean = after
        exchange, latency = _of_parts(parts_after, priced_by, faster)
        label = AFTER
        while label in sums:  # the program has such a label
            label = f"({label})"
        sums[label] = _Sums(0, longest / faster, (longest - mean) / faster, exchange, latency)
    labels = {label: one.as_prediction(label, machine) for label, one in sums.items()}
    whole = _Sums()
    for of_label in sums.values():
        whole.add(*vars(of_label).values())
    in_parts = any(one.record.parts is not None and one.record.parts.supersteps for one in records)
    in_parts = in_parts or any(one.supersteps for one in parts_after)
    return dataclasses.replace(whole.as_prediction("", machine), labels=labels, in_parts=in_parts)


@dataclass
class _Sums:
    """Those of `Prediction`, so far."""

    supersteps: int = 0
    computing: float = 0.0
    waiting: float = 0.0
    exchange: float = 0.0
    latency: float = 0.0

    def add(self, supersteps: int, computing: float, waiting: float, exchange: float, latency: float) -> None:
        self.supersteps += supersteps
        self.computing += computing
        self.waiting += waiting
        self.exchange += exchange
        self.latency += latency

    def as_prediction(self, label: str, machine: BSPMachine) -> Prediction:
        share = by(machine).error_p95
        error = None if share is None else share * self.exchange
        return Prediction(label, machine.p, **vars(self), error=error)


def _of_superstep(one: InRun, machine: BSPMachine, faster: float) -> tuple[int, float, float, float, float]:
    """The figures of a superstep, as `_Sums` has them."""
    record, since, fresh, indices = one
    computing = record.seconds / faster
    of_parts, latency = _of_parts(() if record.parts is None else (record.parts,), machine, faster)
    before = computing + of_parts if overlaps(machine) else computing
    # What parts compute no processor may have computed alone: nothing says how long others waited for the whole.
    mean = computing if record.parts is not None else record.seconds_mean / faster
    waited = others_waited(computing, mean, machine.p)
    exchange = of_parts + _exchange(record, machine, before, since / faster, fresh, 1, waited, indices)
    return 1, computing, record.waiting / faster, exchange, min(latency + machine.exchanging(0.0), exchange)


def _of_parts(parts: Iterable[PartTotals], machine: BSPMachine, faster: float) -> tuple[float, float]:
    """Seconds that the exchanges of parts take, as if all were alike, and all members: the ledger has their sums.

    Beside them those of which are latency.
    """
    whole = latency = 0.0
    for one in parts:
        number = one.supersteps
        if number:
            exchange = number * _exchange(one, machine, one.seconds / faster / number, 0.0, 0, number, 0.0)
            whole, latency = whole + exchange, latency + min(number * machine.exchanging(0.0), exchange)
    return whole, latency


def _exchange(
    counts: Record | PartTotals,
    machine: BSPMachine,
    computing: float = 0.0,
    since: float = 0.0,
    fresh: int = 0,
    supersteps: int = 1,
    waiting: float | None = None,
    indices: int = 0,
) -> float:
    """Seconds that an exchange takes: each of so many supersteps, of which these are the counts."""
    h, messages, words, items = (count / supersteps for count in (counts.h, counts.messages, counts.M, counts.items))
    if overlaps(machine):
        return machine.elapsed(computing, h, messages, words, items) - computing
    of_each = index_words(indices, machine.p)
    return machine.exchanging(h, messages, words, items, counts.ways, computing, since, fresh, waiting, of_each)
