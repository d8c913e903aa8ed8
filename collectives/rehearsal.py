"""What is rehearsed of collectives before a run (pybsp/runs/rehearsal.py): records, and messages."""

from __future__ import annotations

import numpy as np

from ..bsp import BSP
from .allgather_blocks import allgather_blocks
from .allreduce import allreduce
from .broadcast import broadcast
from .gather_blocks import gather_blocks

LARGE = 1 << 13  # words that no record has room for


def of_program(bsp: BSP) -> None:
    """Each way in which a collective's data goes."""
    values = np.zeros(bsp.p)
    allreduce(bsp, 0.0, np.add)
    broadcast(bsp, values)
    gather_blocks(bsp, np.zeros(LARGE))
    allgather_blocks.start(bsp, values)
    bsp.sync()
