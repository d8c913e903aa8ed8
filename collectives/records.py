"""Reducing records to all: what several algorithms make of `allreduce`, under their own names.

A record is a structured array of shape (1,), of which op works on the fields together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .allreduce import choose, plan, supersteps
from .allreduce import cost as cost_of_reduction
from .allreduce import run as run_reduction
from .one_superstep import at_once as exchanged
from .one_superstep import folded
from .one_superstep import is_at_once as _is_at_once
from .operators import Operator
from .plan import Plan
from .primitive import Call, remember

__all__ = ["at_once", "cost", "is_at_once", "plan", "run", "words"]


def words(nbytes: int) -> int:
    """Words of a record of so many bytes."""
    return -(-nbytes // 8)


def cost(machine: Machine, nbytes: int) -> Cost:
    """What it costs, exactly, for records of so many bytes."""
    return cost_of_reduction(machine, words(nbytes))


def _trees(machine: Machine, nbytes: int) -> Plan:
    how, degree = choose(machine, words(nbytes))
    assert how == "trees"  # op takes records whole
    return plan(machine.p, degree)


def _trees_of(bsp: BSP, nbytes: int) -> Plan:
    key = ("records", nbytes)
    found: Plan | None = bsp.prepared.get(key)
    return remember(bsp, key, _trees(bsp.machine, nbytes)) if found is None else found


def is_at_once(bsp: BSP, nbytes: int) -> bool:
    """Whether `at_once` would carry it out now."""
    return _is_at_once(bsp, _trees_of(bsp, nbytes))


def at_once(bsp: BSP, name: str, agreed: dict[str, Any], record: NDArray[Any], op: Operator) -> Any:
    """`run` of a plain call that is one superstep."""
    raw = record.view(np.uint8)
    came = exchanged(bsp, name, agreed, _trees_of(bsp, record.nbytes), raw)
    return folded(bsp, name, [one.view(record.dtype) for one in came], record, op, words(record.nbytes))


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
