"""What the parts of a machine did (parts.py), in the ledger of the whole: totals by superstep.

Each processor keeps the rows of its stays in parts. When the ledger is asked for, the first processor of each part
combines those of its stays, as the rows of the whole are combined, and all learn the sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .account import clock
from .ledger import COLUMNS, ITEMS, MEASURED, MESSAGES, SECONDS, WORDS, WORDS_IN, WORDS_OUT, WORK, combine
from .machine import BSPMachine, EBSPMachine, resized
from .transport import LEDGER, REPLIES, Parcel, Section

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

Rows = NDArray[np.float64]


class PartTotals(NamedTuple):
    """What parts did in a superstep of the whole: the sums of a processor's, maximum over the processors.

    supersteps: of parts.
    work: flop charged in them.
    h: words, of each superstep the largest that a processor of the part sent or received.
    messages: likewise.
    M: words that all processors of the part sent.
    predicted: seconds, each superstep by the machine in force, with as many processors as the part has.
    measured: seconds; they are a part of those of computing in the record of the whole.

    Examples:
        >>> def main(bsp):
        ...     with bsp.split(bsp.pid % 2) as part:
        ...         for _ in range(3):
        ...             part.send(0, np.zeros(10))
        ...             part.sync()
        ...     bsp.sync()
        >>> totals = pybsp.simulate(main, p=4).ledger.parts[1]
        >>> totals.supersteps, totals.h, totals.messages, totals.M
        (3, 30, 3, 30)
    """

    supersteps: int
    work: float
    h: int
    messages: int
    M: int
    predicted: float
    measured: float


NOTHING = PartTotals(0, 0.0, 0, 0, 0, 0.0, 0.0)
Found = list[tuple[int, tuple[int, ...], PartTotals]]  # superstep of the whole, members of the part, what it did


class Stay(NamedTuple):
    """A stay of this processor in a part.

    superstep: of the whole.
    members: of the part, by their pids among all processors.
    rows: of the log, shape (supersteps, COLUMNS).
    combined: how many of them, the first ones, are those of all members.
    """

    superstep: int
    members: tuple[int, ...]
    rows: Rows
    combined: int


class Stays:
    """The stays of a processor in the parts of a machine.

    Attributes:
        all: in their order.
        totals: of what was combined, by superstep.
    """

    def __init__(self) -> None:
        self.all: list[Stay] = []
        self.totals: dict[int, PartTotals] = {}
        self._reported = 0

    def fresh(self) -> Sequence[Stay]:
        """Those that are not combined yet; they are from now on."""
        fresh, self._reported = self.all[self._reported :], len(self.all)
        return fresh

    def as_saved(self) -> dict[str, Any]:
        """All of it as plain data, which `of_saved` reads."""
        totals = {superstep: tuple(one) for superstep, one in self.totals.items()}
        return {"all": [tuple(stay) for stay in self.all], "totals": totals, "asked": self._reported}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> Stays:
        """What was saved."""
        stays = cls()
        stays.all = [Stay(*one) for one in saved["all"]]
        stays.totals = {superstep: PartTotals(*one) for superstep, one in saved["totals"].items()}
        stays._reported = saved["asked"]
        return stays


def sums(stays: Iterable[Sequence[Stay]], machine: BSPMachine | EBSPMachine) -> Found:
    """What parts did in each of some stays, from those of all their members, the first member's first."""
    together: defaultdict[tuple[int, tuple[int, ...], int], list[Stay]] = defaultdict(list)
    for of_one in stays:
        times: defaultdict[tuple[int, tuple[int, ...]], int] = defaultdict(int)
        for stay in of_one:
            key = stay.superstep, stay.members
            together[(*key, times[key])].append(stay)
            times[key] += 1
    found: Found = []
    for (superstep, members, _), of_all in together.items():
        done = of_all[0].combined
        rows = np.concatenate((of_all[0].rows[:done], combine(stay.rows[done:] for stay in of_all)))
        found.append((superstep, members, _totals(rows, resized(machine, len(members)))))
    return found


def _totals(rows: Rows, machine: BSPMachine | EBSPMachine) -> PartTotals:
    h = np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN])
    counted = zip(rows[:, SECONDS], h, rows[:, MESSAGES], rows[:, WORDS], rows[:, ITEMS], strict=True)
    return PartTotals(
        len(rows),
        float(rows[:, WORK].sum()),
        int(h.sum()),
        int(rows[:, MESSAGES].sum()),
        int(rows[:, WORDS].sum()),
        float(sum(machine.elapsed(*map(float, one)) for one in counted)),
        float(rows[:, MEASURED].sum()),
    )


def largest(found: Iterable[tuple[int, tuple[int, ...], PartTotals]]) -> Mapping[int, PartTotals]:
    """By superstep: the sums of each processor, and of these the largest."""
    of_each: defaultdict[int, defaultdict[int, PartTotals]] = defaultdict(lambda: defaultdict(lambda: NOTHING))
    for superstep, members, totals in found:
        for pid in members:
            before = of_each[superstep][pid]
            both: list[Any] = [a + b for a, b in zip(before, totals, strict=True)]
            of_each[superstep][pid] = PartTotals(*both)
    return {
        superstep: PartTotals(*(max(column) for column in zip(*totals.values(), strict=True)))
        for superstep, totals in of_each.items()
    }


def exchange_totals(engine: SuperstepEngine, machine: BSPMachine | EBSPMachine) -> Mapping[int, PartTotals]:
    """Combine what parts did since this was last called; the totals so far. Collective."""
    stays, what = engine.account.stays, "asked for bsp.ledger"
    if stays is None:  # nothing was split, which all know
        return {}
    entered = clock()
    number = {pid: number for number, pid in enumerate(engine.agreement.members or range(engine.p))}
    for_each: defaultdict[int, list[Stay]] = defaultdict(list)
    for stay in stays.fresh():
        for_each[number[stay.members[0]]].append(stay)
    parcels = {dest: _parcel(of_one) for dest, of_one in for_each.items()}
    arrival = engine.meet(LEDGER, None, parcels)
    engine.settle(arrival, LEDGER, what)
    # The first member's own come first: rows that are combined already are the same on all.
    of_all = sorted(arrival.parcels, key=lambda one: one[0] != engine.pid)
    mine = sums([_stays(parcel) for _, parcel in of_all], machine)
    notes = engine.settle(engine.meet(LEDGER, (mine, None, None), {}), LEDGER, what)
    assert notes is not None
    stays.totals.update(largest(one for of_one in notes for one in of_one))
    engine.account.left += clock() - entered
    return stays.totals


def _parcel(stays: Sequence[Stay]) -> Parcel:
    """Stays as what is sent: plain data, which counts nothing."""
    described: Any = [(stay.superstep, stay.members, len(stay.rows), stay.combined) for stay in stays]
    data = np.concatenate([stay.rows for stay in stays]).reshape(-1).view(np.uint8)
    return {REPLIES: Section(described, 0, 0, data if data.size else None)}


def _stays(parcel: Parcel) -> list[Stay]:
    section, first, found = parcel[REPLIES], 0, []
    data = np.empty(0, np.uint8) if section.data is None else section.data
    table = data.view(np.float64).reshape(-1, COLUMNS)
    for superstep, members, rows, combined in section.descriptors:
        found.append(Stay(superstep, tuple(members), table[first : first + rows], combined))
        first += rows
    return found
