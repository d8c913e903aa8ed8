"""Supersteps before a program's first, in which each way of data is used: no program waits for its first use.

What has never run takes three to five times as long as what has: its pages are not there, its objects are not made, and
Python has not yet adapted it. Of an exchange, which is a few hundred lines, that is 0.1 ms and more, and no figure of a
machine knows in which superstep of a program it happens. So all processors go through these lines together, on a
machine of their own: no ledger has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from ..bsp import BSP
from ..lazy import of_programs
from ..ledger.account import Account
from ..machines.bsp import BSPMachine
from ..supersteps.superstep import SuperstepEngine
from ..transport.media.near import Near
from ..transport.medium import MPITransport
from ..transport.router import Direct

TIMES = 3  # some 2 ms each; ten times are no better
WORDS = 200  # of a message: it lies in shared memory, and not on the board as a number does

_done: set[str] = set()  # what was rehearsed in this process


def near_enough(transport: MPITransport) -> bool:
    """Whether all processors share memory and have a core each."""
    return isinstance(transport, Near) and 1 < transport.p <= transport.cores[transport.pid]


def engine_aside(transport: MPITransport) -> SuperstepEngine:
    """One beside the program's: no ledger has its supersteps."""
    return SuperstepEngine(transport, Direct(transport), Account(transport), checked=False)


def due(transport: MPITransport) -> Sequence[str]:
    """The packages that a run on these processors is to rehearse: each once in a process.

    Only where all share memory and have a core each: elsewhere an exchange takes longer, whatever code it is.
    """
    if not near_enough(transport):
        return ()
    found = [package for package in (__package__, *of_programs()) if package not in _done]
    return [package for package in found if find_spec(".rehearsal", package) is not None]


def rehearse(packages: Sequence[str], transport: MPITransport, machine: BSPMachine) -> None:
    """Go through what programs do with these packages; all processors alike."""
    if not packages:
        return
    bsp = BSP(engine_aside(transport), machine)
    parts: list[Callable[[BSP], None]] = [import_module(".rehearsal", package).of_program for package in packages]
    for _ in range(TIMES):
        for part in parts:
            part(bsp)
    _done.update(packages)


def of_program(bsp: BSP) -> None:
    """Each way of a program's own data."""
    dest, values, places = (bsp.pid + 1) % bsp.p, np.zeros(WORDS), np.arange(WORDS)
    dests = np.full(WORDS, dest)
    array, queue = bsp.array(WORDS), bsp.queue(np.float64)
    bsp.sync()
    pattern = array.pattern(dests, places)
    for payload in 0.0, values, "text":
        bsp.send(dest, payload)
    bsp.sync()
    array.put(dest, values)
    queue.send(dests, values)
    bsp.sync()
    array.get(dest)
    bsp.sync()
    pattern.get()
    bsp.sync()
    pattern.put(values, np.add)
    bsp.sync()
    for one in pattern, array, queue:
        one.free()
    bsp.sync()
