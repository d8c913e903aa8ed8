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

from .chunk import COLUMNS, clock
from .ledger import others_waited, predicted_exchange
from .log import ITEMS, MEAN, MEASURED, MESSAGES, SECONDS, WAYS, WORDS, WORDS_IN, WORDS_OUT, WORK, combine
from .machine import BSPMachine, EBSPMachine, resized
from .records import PartTotals
from .transport import LEDGER, REPLIES, Parcel, Section

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

Rows = NDArray[np.float64]


NOTHING = PartTotals(0, 0.0, 0, 0, 0, 0.0, 0.0)
Found = list[tuple[int, tuple[int, ...], PartTotals]]  # superstep of the whole, members of the part, what it did


class Stay(NamedTuple):
    """A stay of this processor in a part.

    superstep: of the whole.
    members: of the part, by their pids among all processors.
    rows: of the log, each with when it began, shape (supersteps, COLUMNS + 1); NaN where that is not known.
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
        stays.all = [Stay(*one)._replace(rows=_with_begins(one[2])) for one in saved["all"]]
        stays.totals = {superstep: PartTotals(*one) for superstep, one in saved["totals"].items()}
        stays._reported = saved["asked"]
        return stays


def sums(stays: Iterable[Sequence[Stay]], machine: BSPMachine | EBSPMachine, virtual: bool) -> Found:
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
        rows = np.concatenate((of_all[0].rows[:done, :COLUMNS], combine(stay.rows[done:] for stay in of_all)))
        found.append((superstep, members, _totals(rows, resized(machine, len(members)), virtual)))
    return found


def _totals(rows: Rows, machine: BSPMachine | EBSPMachine, virtual: bool) -> PartTotals:
    h, seconds, ways = np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN]), rows[:, SECONDS], rows[:, WAYS].astype(int)
    counted = zip(h, rows[:, MESSAGES], rows[:, WORDS], rows[:, ITEMS], strict=True)
    exchanges = (
        predicted_exchange(
            machine,
            virtual,
            computing,
            tuple(map(float, one)),
            way,
            waiting=others_waited(computing, mean, machine.p),
        )
        for computing, mean, one, way in zip(
            seconds.tolist(), rows[:, MEAN].tolist(), counted, ways.tolist(), strict=True
        )
    )
    return PartTotals(
        len(rows),
        float(rows[:, WORK].sum()),
        int(h.sum()),
        int(rows[:, MESSAGES].sum()),
        int(rows[:, WORDS].sum()),
        float(seconds.sum()) + sum(exchanges),
        float(rows[:, MEASURED].sum()),
        float(seconds.sum()),
        int(rows[:, ITEMS].sum()),
        int(np.bitwise_or.reduce(ways, initial=0)),
    )


def largest(found: Iterable[tuple[int, tuple[int, ...], PartTotals]]) -> Mapping[int, PartTotals]:
    """By superstep: the sums of each processor, and of these the largest; the ways of all."""
    of_each: defaultdict[int, defaultdict[int, PartTotals]] = defaultdict(lambda: defaultdict(lambda: NOTHING))
    ways: defaultdict[int, int] = defaultdict(int)
    for superstep, members, totals in found:
        ways[superstep] |= totals.ways
        for pid in members:
            of_each[superstep][pid] = of_each[superstep][pid].plus(totals)
    return {
        superstep: PartTotals(*(max(column) for column in zip(*totals.values(), strict=True)))._replace(
            ways=ways[superstep]
        )
        for superstep, totals in of_each.items()
    }


def exchange_totals(engine: SuperstepEngine, machine: BSPMachine | EBSPMachine) -> Mapping[int, PartTotals]:
    """Combine what parts did since this was last called; the totals so far. Collective."""
    stays, what = engine.account.stays, "asked for bsp.ledger (as all must, also where one prints it)"
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
    mine = sums([_stays(parcel) for _, parcel in of_all], machine, engine.account.virtual)
    notes = engine.settle(engine.meet(LEDGER, (mine, None, None), {}), LEDGER, what)
    assert notes is not None
    stays.totals.update(largest(one for of_one in notes for one in of_one))
    engine.account.leave_out(entered)
    return stays.totals


def _with_begins(rows: Rows) -> Rows:
    """Rows as a stay has them; in older checkpoints none says when it began."""
    return rows if rows.shape[1] > COLUMNS else np.column_stack((rows, np.full(len(rows), np.nan)))


def _parcel(stays: Sequence[Stay]) -> Parcel:
    """Stays as what is sent: plain data, which counts nothing."""
    described: Any = [(stay.superstep, stay.members, len(stay.rows), stay.combined) for stay in stays]
    data = np.concatenate([stay.rows for stay in stays]).reshape(-1).view(np.uint8)
    return {REPLIES: Section(described, 0, 0, data if data.size else None)}


def _stays(parcel: Parcel) -> list[Stay]:
    section, first, found = parcel[REPLIES], 0, []
    data = np.empty(0, np.uint8) if section.data is None else section.data
    table = data.view(np.float64).reshape(-1, COLUMNS + 1)
    for superstep, members, rows, combined in section.descriptors:
        found.append(Stay(superstep, tuple(members), table[first : first + rows], combined))
        first += rows
    return found
