"""Scatter of blocks: the root cuts an array into one block for each processor."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import UsageError
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import processor, root_of
from .blocks import block_of, cut
from .one_superstep import block_words, exchange_at, owned, run
from .plan import Plan
from .primitive import NOT_SMALL, Call, pids_of, primitive
from .scatter import cost as cost_of_values
from .scatter import plan as plan_of_values
from .values import checked_out, packed, placed


def plan(p: int, root: int = 0) -> Plan:
    """The root sends block i (item i) to processor i."""
    return plan_of_values(p, root)


def cost(machine: Machine, counts: ArrayLike = 1, words: float = 1, root: int = 0) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        counts: rows of every block, or of each, shape (p,).
        words: of a row: bytes / 8, so that it may be no whole number.
        root: whose array.
    """
    root = processor("scatter_blocks.cost", "root", root, machine.p)
    return cost_of_values(machine, block_words("scatter_blocks.cost", counts, (machine.p,), words), root)


def _small(
    bsp: BSP,
    array: Any = None,
    counts: ArrayLike | None = None,
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
) -> Any:
    name = "scatter_blocks"
    root, exchange = exchange_at(bsp, name, root, plan, True, "array")
    checked_out(name, out)
    blocks = _cut(bsp, array, counts) if bsp.pid == root else []
    came = exchange(blocks)
    if came is NOT_SMALL:
        return came
    return placed(name, blocks[root].copy() if bsp.pid == root else owned(came)[0], out)


def _cut(bsp: BSP, array: Any, counts: ArrayLike | None) -> list[NDArray[Any]]:
    """The blocks of the root's array."""
    if array is None:
        (own,) = pids_of(bsp, [bsp.pid])
        raise UsageError(f"scatter_blocks: argument array: expected an array on the root, processor {own}, got None")
    whole = block_of("scatter_blocks", "array", array, objects=True)
    return cut("scatter_blocks", whole, counts, bsp.p)


@primitive(cost, plan, _small)
def scatter_blocks(
    bsp: BSP,
    array: Any = None,
    counts: ArrayLike | None = None,
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
) -> Supersteps[NDArray[Any]]:
    """Give each processor its block of the root's array; collective.

    `scatter` for one array that is cut: MPI's Scatterv, where only the root knows the lengths.

    Args:
        bsp: the processor.
        array: root only (ignored elsewhere): shape (n, ...), of any dtype.
        counts: root only (ignored elsewhere): rows of each block, p whole numbers whose sum is n; None: equal blocks,
            of which block i begins at row i*n div p.
        root: whose array; equal on all processors.
        out: keyword only: an array for this processor's block, of its shape and of a dtype that it can be cast to.
            None: a new one.

    Returns:
        Block i on processor i, shape (counts[i], ...): an array of its own.

    Raises:
        UsageError: root is no processor, or differs; no array, or one without axes; counts that do not fit it.

    BSP cost: one superstep with h = the words of all blocks but the root's own; nothing where p = 1.

    Source: as `scatter`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     array = np.arange(7) if bsp.pid == 0 else None
        ...     equal, given = (collectives.scatter_blocks(bsp, array, counts) for counts in (None, [4, 0, 3]))
        ...     return equal.tolist(), given.tolist()
        >>> pybsp.simulate(main, p=3).results
        [([0, 1], [0, 1, 2, 3]), ([2, 3], []), ([4, 5, 6], [4, 5, 6])]
    """
    root = root_of("scatter_blocks", root, bsp)
    call = Call(bsp, "scatter_blocks", root=root)
    checked_out(call.name, out)
    call.ends(1)
    blocks: list[NDArray[Any]] = []
    if bsp.pid == root:
        blocks = _cut(bsp, array, counts)
        own = blocks[root].copy()
    # 1. The root sends each processor its block.
    came = yield from run(call, plan(bsp.p, root), bsp.pid, lambda dest: packed(blocks[dest], call.name, "array"))
    mine: NDArray[Any] = placed(call.name, own if bsp.pid == root else came[0], out)
    return mine
