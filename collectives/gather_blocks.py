"""Gather of blocks: the root gets the blocks of all processors as one array."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import processor, root_of
from .blocks import Ints, block_of, blocks_of, exchange_of_blocks, in_one, row_kind
from .gather import cost as cost_of_values
from .gather import plan as plan_of_values
from .one_superstep import block_words
from .plan import Plan
from .primitive import NOT_SMALL, Call, primitive, sources
from .values import checked_out, packed


def plan(p: int, root: int = 0) -> Plan:
    """Processor i sends its block (item i) to the root."""
    return plan_of_values(p, root)


def cost(machine: Machine, counts: ArrayLike = 1, words: float = 1, root: int = 0) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        counts: rows of every block, or of each, shape (p,).
        words: of a row: bytes / 8, so that it may be no whole number.
        root: who gets them.
    """
    root = processor("gather_blocks.cost", "root", root, machine.p)
    return cost_of_values(machine, block_words("gather_blocks.cost", counts, (machine.p,), words), root)


def _small(bsp: BSP, array: Any, root: int = 0, *, out: NDArray[Any] | None = None) -> Any:
    name = "gather_blocks"
    if type(root) is not int:
        root = root_of(name, root, bsp)
    block = block_of(name, "array", array, objects=True)
    key = name, block.dtype, block.shape[1:], root
    exchange = bsp.prepared.get(key)
    if exchange is None:
        root = root_of(name, root, bsp)
        agreed = {"root": root, "array": row_kind(block)}
        exchange = exchange_of_blocks(bsp, key, agreed, plan(bsp.p, root))
    if bsp.pid == root:
        checked_out(name, out)
    came = exchange(block)
    if came is NOT_SMALL:
        return came
    return in_one(came, block, bsp.pid, name, out) if bsp.pid == root else None


@primitive(cost, plan, _small)
def gather_blocks(
    bsp: BSP, array: Any, root: int = 0, *, out: NDArray[Any] | None = None
) -> Supersteps[tuple[NDArray[Any], Ints] | None]:
    """Give the root the blocks of all processors, as one array; collective.

    `gather` for arrays that belong together, of any lengths: MPI's Gatherv, where nobody has to know the lengths.

    Args:
        bsp: the processor.
        array: shape (n, ...), where n may differ from processor to processor and be 0. Dtype and shape of a row are
            equal on all processors, empty blocks included.
        root: who gets them; equal on all processors.
        out: keyword only; root only (ignored elsewhere): an array for the blocks, of their shape and of a dtype that
            they can be cast to, if the root knows how many rows come. None: a new one.

    Returns:
        On the root (array, counts): all blocks one after the other by pid, in an array of its own, and the rows of
            each, int64 of shape (p,).
        None elsewhere.

    Raises:
        UsageError: root is no processor, or differs; no array, or one without axes; dtype or shape of a row differ.

    BSP cost: one superstep with h = the words of all blocks but the root's own; nothing where p = 1.

    Source: as `gather`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     found = collectives.gather_blocks(bsp, np.full(bsp.pid, 10 * bsp.pid), root=2)
        ...     return found and (found[0].tolist(), found[1].tolist())
        >>> pybsp.simulate(main, p=3).results
        [None, None, ([10, 20, 20], [0, 1, 2])]
    """
    root = root_of("gather_blocks", root, bsp)
    block = block_of("gather_blocks", "array", array, objects=True)
    call = Call(bsp, "gather_blocks", root=root, array=row_kind(block))
    if bsp.pid == root:
        checked_out(call.name, out)
    call.ends(1)
    # 1. All send their blocks to the root.
    came: list[NDArray[Any]] = []
    for step in plan(bsp.p, root):
        if bsp.pid == root:
            block = block.copy()  # the caller may change it meanwhile
        for dest, _, _ in step.sends(bsp.pid):
            call.send(dest, packed(block, call.name, "array"))
        came = blocks_of((yield from call.sync(sources(step.receives(bsp.pid)))))
    return in_one(came, block, bsp.pid, call.name, out) if bsp.pid == root else None
