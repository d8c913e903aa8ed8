"""Reduction by blocks: each processor gets a block of the sum (after *Communication primitives*, section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..ground.chunk import pack_counts
from ..ground.copying import record
from ..ground.short_records import HEAD
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from ..rides.shown import Shown
from ..ways import BY_RECORD
from . import fixed_order
from .arguments import Order, checked_order, integer, item_words
from .blocks import block_of, cut_at, given_cuts, row_words
from .one_superstep import at_once, folded, is_at_once
from .operators import Fold, Operator, applied, check_operator, elementwise, guarded, in_turn
from .plan import Plan, Step, joined
from .primitive import NOT_SMALL, Call, combined, primitive, remember, sources
from .record_layouts import AN_ARRAY
from .values import checked_out, descriptor, is_array, own_argument, own_result, placed


def plan(p: int, n: int, counts: ArrayLike | None = None) -> Plan:
    """Block j of the n rows (the items) goes to processor j, where it has any, and is combined there.

    Args:
        p: processors.
        n: rows.
        counts: of each block, shape (p,); None: equal ones.
    """
    return _checked_plan("reduce_scatter.plan", p, n, counts)


def _checked_plan(name: str, p: int, n: int, counts: ArrayLike | None) -> Plan:
    """`plan`, for the function of this name."""
    n = integer(name, "n", n, 0)
    return _plan(p, tuple(given_cuts(name, counts, p, n).tolist()))


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
    name = "reduce_scatter.cost"
    return _checked_plan(name, machine.p, n, counts).cost(machine, item_words(name, "words", words))


class PreparedRows(NamedTuple):
    """What a plain call with equal blocks is made of that depends on its arguments alone.

    words: of the block of this processor.
    shown: the whole of it, where the arrays have room in records.
    """

    agreed: dict[str, Any]
    plan: Plan
    cuts: list[int]
    fold: Fold
    words: float
    shown: Callable[[NDArray[Any]], NDArray[Any]] | None


def _prepare(bsp: BSP, array: NDArray[Any], op: Operator, order: Order) -> PreparedRows:
    name, p, pid = check_operator("reduce_scatter", op, array), bsp.p, bsp.pid
    op, cuts = guarded(bsp.notes.gate, op), cut_at("reduce_scatter", None, p, len(array))
    agreed = {
        "array": descriptor(array).kind,
        "op": name,
        "counts": None,
        "order": checked_order("reduce_scatter", order),
    }
    words, fold, shown = (cuts[pid + 1] - cuts[pid]) * row_words(array), fixed_order.fold(p, order), None
    records = None if p == 1 else bsp.shown
    if records is not None and array.dtype.kind in "biufc" and 0 < array.nbytes <= records.most - HEAD.size:
        shown = _by_records(records, agreed, _plan(p, tuple(cuts)).steps[0], op, cuts, fold, words, array)
    return PreparedRows(agreed, _plan(p, tuple(cuts)), cuts, fold, words, shown)


def _by_records(
    shown: Shown,
    agreed: dict[str, Any],
    step: Step,
    op: Operator,
    cuts: list[int],
    fold: Fold,
    words: float,
    like: NDArray[Any],
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Each shows its array, of the dtype and shape of one like all of them, and reads its block of the others."""
    name, pid = "reduce_scatter", shown.pid
    arguments = {key: str(one) for key, one in agreed.items()}
    of_call, label = shown.signature(name, arguments), shown.label(name)
    first, last = cuts[pid], cuts[pid + 1]
    sends, others = step.sends(pid), sources(step.receives(pid))
    row = row_words(like)
    out = sum(math.ceil((end - begin) * row) for _, begin, end in sends)
    counts = pack_counts(out, len(others) * math.ceil(words), len(sends), len(others), BY_RECORD)
    arrays = [[np.ndarray(like.shape, like.dtype, part, at + HEAD.size) for part in shown.parts] for at in shown.places]
    mine = [of_all[pid] for of_all in arrays]
    theirs = [[(k, of_all[k][first:last]) for k in others] for of_all in arrays]
    for block in (block for of_all in theirs for _, block in of_all):
        block.flags.writeable = False
    whose, place = tuple(others), sum(k < pid for k in others)
    plain = elementwise(op) and fold is in_turn  # it changes nothing, and makes an array that is nobody else's

    def exchange(array: NDArray[Any]) -> NDArray[Any]:
        sign, parity = shown.begin(name, arguments, of_call), shown.parity(HEAD.size + array.nbytes)
        record(array, mine[parity])
        shown.show_record(name, label, sign, counts, AN_ARRAY, whose, None, AN_ARRAY)
        own, came = array[first:last], theirs[parity]
        if plain and len(came) <= 1:
            other = came[0][1] if came else own  # nothing, of the dtype that op makes
            found = applied(name, op, own, other) if place == 0 else applied(name, op, other, own)
        elif came:
            own.flags.writeable = False  # an op that works in place would change the caller's
            found = applied(name, fold, [*came[:place], (pid, own), *came[place:]], op)
        else:
            found = applied(name, op, own, own) if elementwise(op) else own
        shown.log.work += len(came) * words
        return cast("NDArray[Any]", own_result(found))

    return exchange


def _small(
    bsp: BSP,
    array: Any,
    op: Operator,
    counts: ArrayLike | None = None,
    order: Order = "any",
    *,
    out: NDArray[Any] | None = None,
) -> Any:
    name = "reduce_scatter"
    if counts is not None:
        return NOT_SMALL
    if not is_array(array) or not array.ndim:
        array = block_of(name, "array", array)
    key = (name, op, order, array.dtype, array.shape)
    try:
        found: PreparedRows | None = bsp.prepared.get(key)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return NOT_SMALL
    if found is None:
        found = remember(bsp, key, _prepare(bsp, array, op, order))
    if not is_at_once(bsp, found.plan):
        return NOT_SMALL
    checked_out(name, out)
    if found.shown is not None:
        return placed(name, found.shown(array), out)
    cuts, pid = found.cuts, bsp.pid
    blocks = [array[first:last] for first, last in pairwise(cuts)]
    came = at_once(bsp, name, found.agreed, found.plan, blocks, each=True)
    mine = blocks[pid]
    if came:
        mine = folded(bsp, name, came, mine, guarded(bsp.notes.gate, op), found.words, found.fold)
    elif elementwise(op):
        mine = applied(name, op, mine, mine)  # nothing, of the dtype that op makes
    return placed(name, own_result(mine), out)


@primitive(cost, plan, _small)
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
    whole = block_of("reduce_scatter", "array", array)
    name = check_operator("reduce_scatter", op, whole)
    order = checked_order("reduce_scatter", order)
    cuts = cut_at("reduce_scatter", counts, bsp.p, len(whole))
    given = None if counts is None else np.diff(cuts).tolist()
    call = Call(bsp, "reduce_scatter", order, array=descriptor(whole).kind, op=name, counts=given)
    checked_out("reduce_scatter", out)
    call.ends(1)
    if bsp.p > 1 and not len(whole):
        call.compare()
    mine: NDArray[Any] = placed("reduce_scatter", (yield from run(call, whole, op, tuple(cuts), order)), out)
    return mine


def run(
    call: Call, array: NDArray[Any], op: Operator, cuts: tuple[int, ...], order: Order = "any"
) -> Supersteps[NDArray[Any]]:
    """Run it with blocks that are cut there."""
    p, pid = call.bsp.p, call.bsp.pid
    mine = own_argument(array[cuts[pid] : cuts[pid + 1]])
    # 1. Block j goes to processor j, which combines the p blocks.
    for step in _plan(p, cuts):
        for dest, first, last in step.sends(pid):
            call.send(dest, array[first:last])
        letters = yield from call.sync(sources(step.receives(pid)))
        if letters:
            mine = combined(call, letters, mine, op, len(mine) * row_words(mine), fixed_order.fold(p, order))
        elif elementwise(op):
            mine = call.own(partial(op, mine, mine), "op")  # nothing, of the dtype that op makes
    return cast("NDArray[Any]", own_result(mine))
