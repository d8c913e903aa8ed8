"""How the ledger comes about: the logs of all processors are combined, when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..ground.chunk import COLUMNS, clock
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..messages.agreement import once
from ..transport import LEDGER, REPLIES, Parcel, Section
from .log import Charges, charges, combine, ridden, shares

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

ASKING = "asked for bsp.ledger (as all must, also where one prints it)"  # what a processor does here, in words


def exchange_ledger(
    superstep: SuperstepEngine,
    machine: BSPMachine | EBSPMachine,
    everybody: bool = True,
    after: float | None = None,
) -> None:
    """Combine what the log has new, in rounds of a bounded size: in each, processors combine a share of the rows.

    Args:
        superstep: of this processor.
        machine: by whose rates of work.
        everybody: whether all get what was combined, or processor 0 alone.
        after: seconds of computing here after the last superstep; None: until now.
    """
    entered = clock()
    log, what = superstep.account.log, ASKING
    first = log.combined
    after = superstep.account.after() if after is None else after
    log.update_counts()
    # Before the rounds: what is combined takes the place of own rows, and where processor 0 alone gets it, of its own.
    virtual = superstep.transport.one_clock is None
    begins, start = None if virtual else log.begins(log.combined, len(log)), first
    while True:
        round_ = shares(first, len(log), superstep.p)
        last = round_[-1][1] if round_ else first
        # Notes have the layout that they have in a sync: see `agreement.look_through`.
        labels = log.fresh_labels(last) if superstep.pid == 0 else []
        rides, kinds = log.fresh_rides(last), log.fresh_kinds(last)
        note = (labels, rides, kinds, after), None, None
        tables = [log.table(*share) for share in round_]
        if begins is not None:
            tables = [
                np.column_stack((table, begins[begin - start : end - start]))
                for table, (begin, end) in zip(tables, round_, strict=True)
            ]
        rows = {dest: _parcel(table) for dest, table in enumerate(tables)}
        arrival = superstep.meet(LEDGER, note, rows)
        notes = superstep.settle(arrival, LEDGER, what)
        assert notes is not None
        log.names += notes[0][0]
        of_each, of_all = notes, [of_one[2] for of_one in notes]
        log.put_kinds(of_all)
        log.put_after([of_one[3] for of_one in notes])
        if not round_:
            break
        if first == start:
            superstep.account.ahead = clocks_ahead(superstep)
        mine: dict[int, Parcel] = {}
        found: Charges = {}
        if superstep.pid < len(round_):
            begin, end = round_[superstep.pid]
            tables = [*_tables(arrival.parcels, end - begin)]
            if any(of_all):
                found = charges(tables, [of_all[source] for source, _ in arrival.parcels], begin, machine)
            mine = dict.fromkeys(
                range(superstep.p if everybody else 1), _parcel(combine(tables, superstep.account.ahead))
            )
        arrival = superstep.meet(LEDGER, (found, None, None) if found else None, mine)
        notes = superstep.settle(arrival, LEDGER, what)
        for one in notes or ():
            log.charges.update(one or {})
        log.put(_tables(arrival.parcels))
        log.riding.update(_ridden(of_each, partial(log.words_in_all, first, last)))
        first = last
        if first == len(log):
            break
    superstep.account.leave_out(entered)


def clocks_ahead(superstep: SuperstepEngine) -> list[float] | None:
    """Seconds by which each processor's clock is ahead of processor 0's; None where they have one. Collective."""
    transport = superstep.transport
    if transport.one_clock is not False:  # of virtual time there are none
        return None
    found = transport.clocks()
    notes = superstep.settle(superstep.meet(LEDGER, (found, None, None), {}), LEDGER, ASKING)
    assert notes is not None
    ahead: list[float] = notes[0]
    return ahead


@once
def _ridden(notes: Sequence[Any], in_all: Callable[[], Mapping[int, int]]) -> dict[int, dict[str, int]]:
    """What rode, of the notes of all; `in_all`: as of `ridden`."""
    return ridden((one for of_one in notes for one in of_one[1]), in_all)


def _parcel(table: NDArray[np.float64]) -> Parcel:
    """Rows of a log as what is sent: plain data, which counts nothing."""
    return {REPLIES: Section(None, 0, 0, table.reshape(-1).view(np.uint8))}


def _tables(parcels: Iterable[tuple[int, Parcel]], rows: int = -1) -> Iterable[NDArray[np.float64]]:
    """Rows that came: so many from each, which may have more than COLUMNS, or else rows of as many."""
    for _, parcel in parcels:
        data = parcel[REPLIES].data
        assert data is not None
        yield data.view(np.float64).reshape(rows, COLUMNS if rows < 0 else -1)
