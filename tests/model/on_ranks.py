"""The program of test_in_step.py, for real ranks: plays scripts on a transport of shared memory, and prints what each
rank did to the boards.

python on_ranks.py SCRIPTS: a list of scripts in JSON. A script is a list of supersteps, each being
[members, [what each rank says], [whether it drops what it has received before]]; a superstep that is not of all is a
part's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from mpi4py import MPI

from pybsp.transport import GETS, MAIL, PUTS, RIDES, SYNC, Arrival, Parcel, Section
from pybsp.transport.media.near import Near
from pybsp.transport.medium import MPITransport
from pybsp.transport.mpi import duplicate
from pybsp.transport.neighbours import INLINE_DATA_NEAR

from .accesses import Access, watch

Superstep = tuple[list[int], list[str], list[bool]]
_LARGE = 2 * INLINE_DATA_NEAR  # bytes: read where they lie


def played(script: Sequence[Superstep], record: list[Access]) -> list[Access]:
    """What this rank does."""
    whole = duplicate(MPI.COMM_WORLD, "the model")
    record.clear()
    kept: list[Any] = []
    own = whole.pid
    for members, steps in groupby(script, lambda superstep: superstep[0]):
        if own not in members:
            continue
        part = whole if len(members) == whole.p else whole.subset(members, 1)
        for _, says, drops in steps:
            if drops[own]:
                kept.clear()
            kept += _exchange(part, says[own])
        if part is not whole:
            part.free()
    done = record[:]
    kept.clear()
    whole.free()
    return done


def _exchange(transport: MPITransport, says: str) -> list[Any]:
    """Say that; returns the large data that was received."""
    what, begins = says.rstrip("+"), says.endswith("+")
    to = (transport.pid + 1) % transport.p
    note, parcels = None, {}
    if what == "show":
        board = transport.board
        assert isinstance(transport, Near)
        assert board is not None
        at = board.shown()[1][board.number + 1 & 1]
        board._own_part[at : at + 8] = bytes(8)
        arrival = transport.show(RIDES)
        return [] if arrival is None else _large(transport, arrival)
    if what == "note":
        note = "to all"
    elif what == "own":
        parcels[transport.pid] = {MAIL: Section([], 0, 0, None)}
    elif what == "mail":
        parcels[to] = {MAIL: Section([], 0, 0, None)}
    elif what == "data":
        data = transport.pool.take(_LARGE)
        data[:] = 1
        parcel: Parcel = {PUTS: Section([], 0, 0, data), GETS: Section([], 0, 0, None)}
        parcels[to] = parcel
        del data, parcel
    return _large(
        transport, transport.post(SYNC, note, parcels)() if begins else transport.exchange(SYNC, note, parcels)
    )


def _large(transport: MPITransport, arrival: Arrival) -> list[Any]:
    """The data that was received, where it lies."""
    return [
        np.frombuffer(section.data, np.uint8)
        for source, parcel in arrival.parcels
        if source != transport.pid
        for section in parcel.values()
        if section.data is not None
    ]


def main() -> None:
    record: list[Access] = []
    watch(record.append)
    done = [played(script, record) for script in json.loads(sys.argv[1])]
    found = MPI.COMM_WORLD.gather(done)
    if found is not None:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
