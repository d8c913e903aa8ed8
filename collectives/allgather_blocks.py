"""Allgather of blocks: all processors get the blocks of all as one array."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .allgather import cost as cost_of_values
from .allgather import plan as plan_of_values
from .blocks import Ints, block_of, blocks_of, exchange_of_blocks, in_one, row_kind
from .one_superstep import block_words
from .plan import Plan
from .primitive import NOT_SMALL, Call, primitive, sources
from .values import checked_out, packed


def plan(p: int) -> Plan:
    """Processor i sends its block (item i) to all others."""
    return plan_of_values(p)


def cost(machine: Machine, counts: ArrayLike = 1, words: float = 1) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        counts: rows of every block, or of each, shape (p,).
        words: of a row: bytes / 8, so that it may be no whole number.
    """
    return cost_of_values(machine, block_words("allgather_blocks.cost", counts, (machine.p,), words))


def _small(bsp: BSP, array: Any, *, out: NDArray[Any] | None = None) -> Any:
    name = "allgather_blocks"
    block = block_of(name, "array", array, objects=True)
    checked_out(name, out)
    key = name, block.dtype, block.shape[1:]
    exchange = bsp.prepared.get(key) or exchange_of_blocks(bsp, key, {"array": row_kind(block)}, plan(bsp.p))
    came = exchange(block)
    return came if came is NOT_SMALL else in_one(came, block, bsp.pid, name, out)


@primitive(cost, plan, _small)
def allgather_blocks(bsp: BSP, array: Any, *, out: NDArray[Any] | None = None) -> Supersteps[tuple[NDArray[Any], Ints]]:
    """Give all processors the blocks of all, as one array; collective.

    `allgather` for arrays that belong together, of any lengths: MPI's Allgatherv, where nobody has to know the lengths.

    Args:
        bsp: the processor.
        array: shape (n, ...), where n may differ from processor to processor and be 0. Dtype and shape of a row are
            equal on all processors, empty blocks included.
        out: keyword only: an array for the blocks, of their shape and of a dtype that they can be cast to, if one
            knows how many rows come. None: a new one.

    Returns:
        (array, counts): all blocks one after the other by pid, in an array of one's own or in out, and the rows of
            each, int64 of shape (p,).

    Raises:
        UsageError: no array, or one without axes; dtype or shape of a row differ.

    BSP cost: one superstep with h <= (p-1) * words of the largest block; nothing where p = 1.

    Source: as `allgather`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     array, counts = collectives.allgather_blocks(bsp, np.full(bsp.pid, 10 * bsp.pid))
        ...     return array.tolist(), counts.tolist()
        >>> pybsp.simulate(main, p=3).results[0]
        ([10, 20, 20], [0, 1, 2])
    """
    block = block_of("allgather_blocks", "array", array, objects=True)
    call = Call(bsp, "allgather_blocks", array=row_kind(block))
    checked_out(call.name, out)
    call.ends(1)
    # 1. All send their blocks to all others.
    came: list[NDArray[Any]] = []
    for step in plan(bsp.p):
        parcel = packed(block, call.name, "array")
        block = block.copy()  # the caller may change it once it is sent
        call.send_all([dest for dest, _, _ in step.sends(bsp.pid)], parcel)
        came = blocks_of((yield from call.sync(sources(step.receives(bsp.pid)))))
    return in_one(came, block, bsp.pid, call.name, out)
