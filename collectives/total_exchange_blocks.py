"""Total exchange of blocks: each processor cuts an array into one block for each other one."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .blocks import Ints, block_of, blocks_of, cut, exchange_of_blocks, in_one, row_kind
from .one_superstep import block_words
from .plan import Plan
from .primitive import NOT_SMALL, Call, primitive, sources
from .total_exchange import cost as cost_of_values
from .total_exchange import plan as plan_of_values
from .values import checked_out, packed


def plan(p: int) -> Plan:
    """Processor i sends its block j (item j of its own) to processor j."""
    return plan_of_values(p)


def cost(machine: Machine, counts: ArrayLike = 1, words: float = 1) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        counts: rows of every block, or of that from i to j, shape (p, p).
        words: of a row: bytes / 8, so that it may be no whole number.
    """
    p = machine.p
    return cost_of_values(machine, block_words("total_exchange_blocks.cost", counts, (p, p), words))


def _small(bsp: BSP, array: Any, counts: ArrayLike | None = None, *, out: NDArray[Any] | None = None) -> Any:
    name = "total_exchange_blocks"
    block = block_of(name, "array", array, objects=True)
    blocks = cut(name, block, counts, bsp.p)
    checked_out(name, out)
    key = name, block.dtype, block.shape[1:]
    exchange = bsp.prepared.get(key) or exchange_of_blocks(bsp, key, {"array": row_kind(block)}, plan(bsp.p), each=True)
    came = exchange(blocks)
    return came if came is NOT_SMALL else in_one(came, blocks[bsp.pid], bsp.pid, name, out)


@primitive(cost, plan, _small)
def total_exchange_blocks(
    bsp: BSP, array: Any, counts: ArrayLike | None = None, *, out: NDArray[Any] | None = None
) -> Supersteps[tuple[NDArray[Any], Ints]]:
    """Send each processor a block of this one's array, and get its blocks as one array; collective.

    `total_exchange` for one array that is cut: MPI's Alltoallv, where nobody has to know what is coming.

    Args:
        bsp: the processor.
        array: shape (n, ...), where n may differ from processor to processor and be 0. Dtype and shape of a row are
            equal on all processors, empty arrays included.
        counts: rows for each processor, p whole numbers whose sum is n; None: equal blocks, of which block i begins at
            row i*n div p. They may differ from processor to processor.
        out: keyword only: an array for the blocks, of their shape and of a dtype that they can be cast to, if one
            knows how many rows come. None: a new one.

    Returns:
        (array, counts): the blocks that came one after the other by source, in an array of one's own, and the rows of
            each, int64 of shape (p,).

    Raises:
        UsageError: no array, or one without axes; dtype or shape of a row differ; counts that do not fit the array.

    BSP cost: one superstep with h = the largest number of words that one processor sends to, or gets from, the others;
    nothing where p = 1. Empty blocks are sent too: they say that there is nothing.

    Source: as `total_exchange`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     array, counts = collectives.total_exchange_blocks(bsp, 10 * bsp.pid + np.arange(3), [2, 0, 1])
        ...     return array.tolist(), counts.tolist()
        >>> pybsp.simulate(main, p=3).results
        [([0, 1, 10, 11, 20, 21], [2, 2, 2]), ([], [0, 0, 0]), ([2, 12, 22], [1, 1, 1])]
    """
    block = block_of("total_exchange_blocks", "array", array, objects=True)
    blocks = cut("total_exchange_blocks", block, counts, bsp.p)
    call = Call(bsp, "total_exchange_blocks", array=row_kind(block))
    checked_out(call.name, out)
    call.ends(1)
    own = blocks[bsp.pid]
    # 1. All send each other their blocks.
    came: list[NDArray[Any]] = []
    for step in plan(bsp.p):
        for dest, _, _ in step.sends(bsp.pid):
            call.send(dest, packed(blocks[dest], call.name, "array"))
        own = own.copy()  # the caller may change it once it is sent
        came = blocks_of((yield from call.sync(sources(step.receives(bsp.pid)))))
    return in_one(came, own, bsp.pid, call.name, out)
