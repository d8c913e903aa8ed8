"""Where the least element of an array in blocks lies."""

from __future__ import annotations

from typing import Any

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import extremes, records
from .plan import Plan
from .primitive import primitive


def plan(p: int, degree: int) -> Plan:
    """Who sends the candidate of its group (item 0) to whom, as in `allreduce`."""
    return records.plan(p, degree)


def cost(machine: Machine, n: int = 0, itemsize: int = 8) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        n: elements of the largest block.
        itemsize: bytes of an element.
    """
    return extremes.cost("argmin.cost", machine, n, itemsize)


def _small(bsp: BSP, array: Any) -> Any:
    return extremes.at_once(bsp, "argmin", array)


@primitive(cost, plan, _small)
def argmin(bsp: BSP, array: Any) -> Supersteps[tuple[Any, int]]:
    """The smallest of all elements, and where it is; collective.

    Args:
        bsp: the processor.
        array: shape (n, ...), a block: those of all processors, one after the other by pid, are the array that is
            looked through; n may differ from processor to processor and be 0. The dtype is equal on all processors,
            empty blocks included.

    Returns:
        (value, index), equal on all processors: what numpy's `argmin` says of the whole array - the first of equal
        elements, the first NaN or NaT where there is one, and of more than one axis the index in the flattened array.
        The value is a numpy scalar.

    Raises:
        UsageError: no array, or one without axes; dtypes differ; objects; no processor has an element.

    BSP cost: an `allreduce` of ceil(itemsize / 8) + 2 words, in trees, and n flop before it. `argmin.cost` has it
    exactly.

    Source: a reduction (*Communication primitives for BSP computers*, section 3) of records; MPI's MINLOC.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     value, index = collectives.argmin(bsp, [[7, 5], [3, 8], [9, 3]][bsp.pid])
        ...     return int(value), index
        >>> pybsp.simulate(main, p=3).results[0]
        (3, 2)
    """
    return (yield from extremes.run(bsp, "argmin", array))
