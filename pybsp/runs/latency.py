"""What an exchange of nothing takes as a run begins: its ledger's predictions go by that, and not by the file's.

How far apart the cores are decides it, and on a virtual machine nobody but its host knows that: it moves the virtual
ones, and within minutes an exchange of nothing takes three times as long, or a third (0.13 and 0.42 us, two processors
of an AMD EPYC VM). A machine file is of one such state. So processors that share memory, and have a core each, look
before the program's first superstep, in some of nothing, on an engine of their own: no ledger has them.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ledger.combining import exchange_ledger
from ..ledger.log import MEASURED, SECONDS
from ..machines.bsp import BSPMachine, overlaps
from ..transport.medium import MPITransport
from .rehearsal import engine_aside, near_enough

SUPERSTEPS = 200  # 0.3 ms
OWN_TURN = 4.0  # times as long as a tenth of them take at most: in none that is longer had each a core
FARTHEST = 8.0  # times as long as by the file, or as short: of what is more the distance is no reason


class Latency(NamedTuple):
    """Seconds of an exchange of nothing: as the run began, and by its machine file."""

    now: float
    file: float


def look(transport: MPITransport, machine: BSPMachine) -> Latency | None:
    """Both; None where processors meet elsewhere, or the machine is another, or does not know exchanges alone.

    Collective: all get the same, bit for bit.
    """
    alone = machine.exchange
    if alone is None or not machine.calibrated or overlaps(machine):
        return None
    if not near_enough(transport) or machine.elsewhere(transport.hosts) is not None:
        return None
    engine = engine_aside(transport)
    for _ in range(SUPERSTEPS):
        engine.sync()
    exchange_ledger(engine, machine)
    rows = engine.account.log.table(0)
    now = typical(rows[:, MEASURED] - rows[:, SECONDS])
    return Latency(now, alone.l) if alone.l / FARTHEST < now < alone.l * FARTHEST else None


def typical(exchanges: NDArray[np.float64]) -> float:
    """Seconds of an exchange in which nobody had to wait for a turn on a core, of those that were found."""
    ascending = np.sort(exchanges)  # np.quantile and np.median load numpy.ma, which takes longer than the supersteps
    found = ascending[ascending <= OWN_TURN * ascending[len(ascending) // 10]]
    return float(found[[(len(found) - 1) // 2, len(found) // 2]].mean())


def as_now(machine: BSPMachine, latency: Latency | None) -> BSPMachine:
    """The machine of a run that has found so much: what plans are chosen by, supersteps as a whole, stays the same."""
    if latency is None or machine.exchange is None:
        return machine
    return dataclasses.replace(machine, exchange=machine.exchange.with_latency(latency.now))
