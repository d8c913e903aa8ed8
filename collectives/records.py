"""Reducing records to all: what several algorithms make of `allreduce`, under their own names.

A record is a structured array of shape (1,), of which op works on the fields together.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ..cost import Cost, Machine
from ..rides import Supersteps
from .allreduce import choose, plan, supersteps
from .allreduce import cost as cost_of_reduction
from .allreduce import run as run_reduction
from .primitive import Call, Operator

__all__ = ["cost", "plan", "run", "words"]


def words(nbytes: int) -> int:
    """Words of a record of so many bytes."""
    return -(-nbytes // 8)


def cost(machine: Machine, nbytes: int) -> Cost:
    """What it costs, exactly, for records of so many bytes."""
    return cost_of_reduction(machine, words(nbytes))


def run(call: Call, record: NDArray[Any], op: Operator, last: bool = True) -> Supersteps[NDArray[Any]]:
    """The records of all processors combined, in the order of pids.

    Args:
        last: whether the function is over then.
    """
    size = words(record.nbytes)
    choice = choose(call.bsp.machine, size)
    if last:
        call.ends(supersteps(call.bsp.p, choice))
    combined: NDArray[Any] = yield from run_reduction(call, record, op, choice, size)
    return combined
