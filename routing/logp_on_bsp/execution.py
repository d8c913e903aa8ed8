"""The LogP execution that the BSP processors have realised, put together from what each knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...logp.engine import Simulation
from ...logp.trace import Trace
from ...machines.logp import LogPMachine


class Part(NamedTuple):
    """What one processor knows of an execution.

    finished, busy, stalls: when its program ended, and how many steps it was busy and stalled.
    messages: to it: source, submission, acceptance, delivery and acquisition, shape (n, 5).
    """

    machine: LogPMachine
    finished: int
    busy: int
    stalls: int
    messages: NDArray[np.int64]


def put_together(outcomes: Sequence[tuple[Any, Part]]) -> Simulation:
    """See `pybsp.routing.logp_on_bsp.execution`."""
    parts = [part for _, part in outcomes]
    dest = np.repeat(np.arange(len(parts)), [len(part.messages) for part in parts])
    source, submission, *rest = np.concatenate([part.messages for part in parts]).T
    order = np.lexsort((source, submission))
    columns = (source, dest, submission, *rest)
    trace = Trace(parts[0].machine, *(column[order] for column in (*columns, np.ones_like(source))))
    finished, busy, stalls = np.array([(part.finished, part.busy, part.stalls) for part in parts], np.int64).T
    time = int(finished.max())
    idle = time - busy - stalls
    return Simulation([result for result, _ in outcomes], time, finished, busy, stalls, idle, trace.in_transit(), trace)
