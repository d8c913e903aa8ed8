"""Reduction by blocks: each processor gets a block of the sum (after *Communication primitives*, section 3)."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..cost import Cost, Machine
from ..rides import Supersteps
from . import fixed_order
from .blocks import block_of, given_cuts, row_words
from .plan import Plan, Step, joined
from .primitive import (
    Call,
    Operator,
    Order,
    check_operator,
    checked_order,
    checked_out,
    combined,
    descriptor,
    elementwise,
    in_turn,
    integer,
    item_words,
    placed,
    primitive,
    sources,
)


def plan(p: int, n: int, counts: ArrayLike | None = None) -> Plan:
    """Block j of the n rows (the items) goes to processor j, where it has any, and is combined there.

    Args:
        p: processors.
        n: rows.
        counts: of each block, shape (p,); None: equal ones.
    """
    n = integer("reduce_scatter.plan", "n", n, 0)
    return _plan(p, tuple(given_cuts("reduce_scatter.plan", counts, p, n).tolist()))


@lru_cache(maxsize=64)
def _plan(p: int, cuts: tuple[int, ...]) -> Plan:
    if p == 1:
        return joined(p, ())
    first, last = np.array(cuts[:-1]), np.array(cuts[1:])
    here, there = np.repeat(np.arange(p), p), np.tile(np.arange(p), p)
    some = first[there] < last[there]
    step = Step.of(here[some], there[some], first[there][some], last[there][some])
    return joined(p, [step], (p - 1) * int((last - first).max()))


def cost(machine: Machine, n: int, words: float = 1, counts: ArrayLike | None = None) -> Cost:
    """What it costs, exactly, where op keeps the size of a row and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        n: rows.
        words: of a row: bytes / 8, so that it may be no whole number.
        counts: rows of each block, shape (p,); None: equal ones.
    """
    return plan(machine.p, n, counts).cost(machine, item_words("reduce_scatter.cost", "words", words))


@primitive(cost, plan)
def reduce_scatter(
    bsp: BSP,
    array: Any,
    op: Operator,
    counts: ArrayLike | None = None,
    order: Order = "any",
    *,
    out: NDArray[Any] | None = None,
) -> Supersteps[NDArray[Any]]:
    """Combine the arrays of all processors, in the order of pids, and give each processor a block of that; collective.

    Args:
        bsp: the processor.
        array: shape (n, ...); dtype and shape are equal on all processors.
        op: associative, need not be commutative: a numpy ufunc (elementwise), or a function of two arrays that works
            on any rows of them alike, which gets them read-only.
        counts: rows of each block, p whole numbers whose sum is n; None: equal blocks, of which block i begins at row
            i*n div p. Equal on all processors.
        order: "any" or "fixed", as of `allreduce`, whose bits the fixed order gives. Equal on all processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to.
            None: a new one.

    Returns:
        Block pid of array_0 op array_1 op ... op array_{p-1}, shape (counts[pid], ...): an array of its own. With p = 1
        a copy of the array. An empty block has the dtype that a ufunc makes; under a function, that of the array.

    Raises:
        UsageError: no array, or one without axes; counts that do not fit it; order, op's name, counts, or dtype and
            shape differ; op raised.

    BSP cost: one superstep with h <= max(n, p * largest block) rows, and (p-1) * largest block rows of flop; nothing
    where p = 1. `reduce_scatter.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3: the first half of a reduction of many items, as of
    `allreduce` by blocks; MPI's Reduce_scatter.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.reduce_scatter(bsp, np.arange(5) + bsp.pid, np.add).tolist()
        >>> pybsp.simulate(main, p=3).results
        [[3], [6, 9], [12, 15]]
    """
    name = check_operator("reduce_scatter", op)
    order = checked_order("reduce_scatter", order)
    whole = block_of("reduce_scatter", "array", array)
    cuts = given_cuts("reduce_scatter", counts, bsp.p, len(whole)).tolist()
    given = None if counts is None else np.diff(cuts).tolist()
    call = Call(bsp, "reduce_scatter", order, array=descriptor(whole).kind, op=name, counts=given)
    checked_out("reduce_scatter", out)
    call.ends(1)
    mine: NDArray[Any] = placed("reduce_scatter", (yield from run(call, whole, op, tuple(cuts), order)), out)
    return mine


def run(
    call: Call, array: NDArray[Any], op: Operator, cuts: tuple[int, ...], order: Order = "any"
) -> Supersteps[NDArray[Any]]:
    """Run it with blocks that are cut there."""
    p, pid = call.bsp.p, call.bsp.pid
    mine = array[cuts[pid] : cuts[pid + 1]].copy()
    # 1. Block j goes to processor j, which combines the p blocks.
    for step in _plan(p, cuts):
        for dest, first, last in step.sends(pid):
            call.send(dest, array[first:last])
        letters = yield from call.sync(sources(step.receives(pid)))
        if letters:
            fold = in_turn if order == "any" else partial(fixed_order.total, p)
            mine = combined(call, letters, mine, op, len(mine) * row_words(mine), fold)
        elif elementwise(op):
            mine = call.own(partial(op, mine, mine), "op")  # nothing, of the dtype that op makes
    return mine
