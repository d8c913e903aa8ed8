"""What the parts of a machine did (part.py), in the ledger of the whole: totals by superstep.

Each processor keeps the rows of its stays in parts. When the ledger is asked for, the first processor of each part
combines those of its stays, as the rows of the whole are combined, and all learn the sums. Of a part in a part they are
combined first: its computing and its time are in the rows of the part around it, its words and messages are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ground.chunk import COLUMNS, clock
from ..ledger.combining import ASKING, clocks_ahead
from ..ledger.ledger import priced
from ..ledger.log import ITEMS, MEASURED, MESSAGES, WAYS, WORDS, WORDS_IN, WORDS_OUT, WORK, Kinds, charges, combine
from ..ledger.records import NO_PARTS, NOTHING, PartTotals
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..machines.in_force import resized
from ..transport import LEDGER, REPLIES, Parcel, Section

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

Rows = NDArray[np.float64]


Found = list[tuple[int, tuple[int, ...], PartTotals]]  # superstep of the whole, members of the part, what it did


class Stay(NamedTuple):
    """A stay of this processor in a part.

    superstep: of the whole; of a stay in a part of a part, the number of the row there.
    members: of the part, by their pids among all processors.
    rows: of the log, each with when it began, shape (supersteps, COLUMNS + 1); NaN where that is not known.
    combined: how many of them, the first ones, are those of all members.
    inner: stays in parts of the part, in their order.
    kinds: flop by kind of work, by number of the row: of those that are not combined.
    charged: seconds that charged work takes where some is of a kind, likewise: of those that are.
    """

    superstep: int
    members: tuple[int, ...]
    rows: Rows
    combined: int
    inner: tuple[Stay, ...] = ()
    kinds: Kinds = {}  # noqa: RUF012 - it is never changed
    charged: Mapping[int, float] = {}


class Stays:
    """The stays of a processor in the parts of a machine.

    Attributes:
        all: in their order.
        totals: of what was combined, by superstep.
        lasting: of what was combined, what is of the superstep that lasts, on all processors: there may be more of it.
    """

    def __init__(self) -> None:
        self.all: list[Stay] = []
        self.totals: dict[int, PartTotals] = {}
        self.lasting: Found = []
        self._reported = 0

    def fresh(self) -> Sequence[Stay]:
        """Those that are not combined yet; they are from now on."""
        fresh, self._reported = self.all[self._reported :], len(self.all)
        return fresh

    def as_saved(self) -> dict[str, Any]:
        """All of it as plain data, which `of_saved` reads."""
        totals = {superstep: tuple(one) for superstep, one in self.totals.items()}
        lasting = [(superstep, members, tuple(one)) for superstep, members, one in self.lasting]
        return {"all": [*map(_plain, self.all)], "totals": totals, "lasting": lasting, "asked": self._reported}

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any]) -> Stays:
        """What was saved."""
        stays = cls()
        stays.all = [*map(_of_plain, saved["all"])]
        stays.totals = {superstep: PartTotals(*one) for superstep, one in saved["totals"].items()}
        for superstep, members, one in saved.get("lasting", ()):  # which older checkpoints have not
            stays.lasting.append((superstep, tuple(members), PartTotals(*one)))
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
        done, of_part = of_all[0].combined, resized(machine, len(members))
        rows = np.concatenate((of_all[0].rows[:done, :COLUMNS], combine(stay.rows[done:] for stay in of_all)))
        inner = [stay.inner for stay in of_all]
        within = largest(sums(inner, of_part, virtual)) if any(inner) else NO_PARTS
        kinds = [stay.kinds for stay in of_all]
        fresh = charges([stay.rows[done:] for stay in of_all], kinds, done, machine) if any(kinds) else {}
        charged = {**of_all[0].charged, **{row: seconds for row, (seconds, _) in fresh.items()}}
        found.append((superstep, members, _totals(rows, charged, within, of_part, virtual)))
    return found


def _totals(
    rows: Rows,
    charged: Mapping[int, float],
    within: Mapping[int, PartTotals],
    machine: BSPMachine | EBSPMachine,
    virtual: bool,
) -> PartTotals:
    """The sums of a part's rows, and of what parts of it did in these; `charged`: seconds where work has kinds."""
    works = rows[:, WORK].tolist()
    h, ways = np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN]), rows[:, WAYS].astype(int)
    of_each = [priced(machine, virtual, row, within.get(number)) for number, row in enumerate(rows.tolist())]
    computing, exchange = (sum((seconds[k] for seconds in of_each), 0.0) for k in (0, 1))
    totals = PartTotals(
        len(rows),
        sum(works),
        int(h.sum()),
        int(rows[:, MESSAGES].sum()),
        int(rows[:, WORDS].sum()),
        computing + exchange,
        float(rows[:, MEASURED].sum()),
        computing,
        int(rows[:, ITEMS].sum()),
        int(np.bitwise_or.reduce(ways, initial=0)),
        sum((charged.get(number, work / machine.r) for number, work in enumerate(works)), 0.0),
    )
    counts = (one._replace(predicted=0.0, measured=0.0, seconds=0.0) for one in within.values())
    return reduce(PartTotals.plus, counts, totals)


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
    stays, what = engine.account.stays, ASKING
    if stays is None:  # nothing was split, which all know
        return {}
    entered = clock()
    number = {pid: number for number, pid in enumerate(engine.agreement.members or range(engine.p))}
    for_each: defaultdict[int, list[Stay]] = defaultdict(list)
    for stay in stays.fresh():
        for_each[number[stay.members[0]]].append(stay)
    if engine.account.ahead is None:  # no superstep has ended yet, or they have one clock
        engine.account.ahead = clocks_ahead(engine)
    ahead = 0.0 if engine.account.ahead is None else engine.account.ahead[engine.pid]
    parcels = {dest: _parcel(of_one, ahead) for dest, of_one in for_each.items()}
    arrival = engine.meet(LEDGER, None, parcels)
    engine.settle(arrival, LEDGER, what)
    # The first member's own come first: rows that are combined already are the same on all.
    of_all = sorted(arrival.parcels, key=lambda one: one[0] != engine.pid)
    mine = sums([_stays(parcel) for _, parcel in of_all], machine, engine.account.virtual)
    notes = engine.settle(engine.meet(LEDGER, (mine, None, None), {}), LEDGER, what)
    assert notes is not None
    found = [*stays.lasting, *(one for of_one in notes for one in of_one)]
    stays.totals.update(largest(found))
    stays.lasting = [one for one in found if one[0] == engine.account.superstep]
    engine.account.leave_out(entered)
    return stays.totals


def _plain(stay: Stay) -> tuple[Any, ...]:
    """A stay as plain data."""
    return (*stay[:4], tuple(map(_plain, stay.inner)), *stay[5:])


def _of_plain(saved: Sequence[Any]) -> Stay:
    """The stay; in older checkpoints none has others in it, or kinds of work. When its rows began is by a clock that is
    no more.
    """
    superstep, members, rows, combined, inner, *kinds = saved if len(saved) > 4 else (*saved, ())
    rows = np.column_stack((rows[:, :COLUMNS], np.full(len(rows), np.nan)))
    return Stay(superstep, tuple(members), rows, combined, tuple(map(_of_plain, inner)), *kinds)


def _parcel(stays: Sequence[Stay], ahead: float) -> Parcel:
    """Stays as what is sent: plain data, which counts nothing.

    Args:
        stays: of this processor.
        ahead: seconds by which its clock is ahead of that by which the rows sent begin.
    """
    described: Any = [*map(_described, stays)]
    rows = np.concatenate([*_rows(stays)])
    rows[:, COLUMNS] -= ahead
    data = rows.reshape(-1).view(np.uint8)
    return {REPLIES: Section(described, 0, 0, data if data.size else None)}


def _described(stay: Stay) -> tuple[Any, ...]:
    return stay.superstep, stay.members, len(stay.rows), stay.combined, [*map(_described, stay.inner)], *stay[5:]


def _rows(stays: Iterable[Stay]) -> Iterator[Rows]:
    """The rows of each, then of those in it: in the order in which `_stays` takes them."""
    for stay in stays:
        yield stay.rows
        yield from _rows(stay.inner)


def _stays(parcel: Parcel) -> list[Stay]:
    section = parcel[REPLIES]
    data = np.empty(0, np.uint8) if section.data is None else section.data
    table, first = data.view(np.float64).reshape(-1, COLUMNS + 1), 0

    def read(described: Iterable[Any]) -> Iterator[Stay]:
        nonlocal first
        for superstep, members, rows, combined, inner, *kinds in described:
            first += rows
            yield Stay(superstep, tuple(members), table[first - rows : first], combined, tuple(read(inner)), *kinds)

    return [*read(section.descriptors)]
