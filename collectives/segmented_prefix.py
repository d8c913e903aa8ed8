"""Segmented prefix: prefix sums that begin anew at flags, over the blocks of all processors."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import UsageError, argument_error, brief
from ..ground.convert import what
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import item_words
from .blocks import block_of, row_kind, row_words
from .exclusive_prefix import choose, last_works
from .exclusive_prefix import cost as cost_of_prefix
from .exclusive_prefix import run as run_prefix
from .exclusive_prefix import trees as plan_of_prefix
from .one_superstep import at_once, is_at_once, word_counts
from .operators import Operator, applied, check_operator, elementwise
from .plan import Plan
from .primitive import NOT_SMALL, Call, primitive
from .values import checked_out, is_number, placed, room

NAME = "segmented_prefix"
SHORT = 32  # segments up to this length are summed side by side


def plan(p: int, degree: int) -> Plan:
    """Who sends the sum of the last segment up to itself (item 0) to whom, as in `exclusive_prefix`."""
    return plan_of_prefix(p, degree)


def record_words(words: float) -> int:
    """Words of what processors tell each other: a sum, whether a segment begins, and whether there is anything."""
    return -(-(round(8 * words) + 2) // 8)


def cost(machine: Machine, n: ArrayLike = 1, words: float = 1) -> Cost:
    """What it costs, exactly, where op takes a flop a word.

    Args:
        machine: its p is that of the processors.
        n: elements of every block, or of each, shape (p,); 1 for numbers.
        words: of an element: bytes / 8, so that it may be no whole number.
    """
    p, words = machine.p, item_words("segmented_prefix.cost", "words", words)
    local, size = word_counts("segmented_prefix.cost", n, (p,), "n") * words, record_words(words)
    pass_over = Cost(machine, (), float(local.max()))
    trees = pass_over + cost_of_prefix(machine, size)
    if p == 1:
        return trees + pass_over
    # Who combines most is not who has the largest block.
    return Cost(machine, trees, float((last_works(p, choose(machine, size)) * size + local).max()))


def _small(bsp: BSP, values: Any, flags: Any, op: np.ufunc, *, out: NDArray[Any] | None = None) -> Any:
    block, marks, given = _checked(values, flags, op)
    size = record_words(row_words(block))
    scheme = plan_of_prefix(bsp.p, choose(bsp.machine, size))
    if not is_at_once(bsp, scheme):
        return NOT_SMALL
    checked_out(NAME, out)
    sums, head, own = _begun(bsp, block, marks, op, out)
    agreed = {"values": row_kind(block), "op": check_operator(NAME, op)}
    came = [one.view(own.dtype) for one in at_once(bsp, NAME, agreed, scheme, own.view(np.uint8))]
    if came:
        before = applied(NAME, reduce, _behind(op), came)
        bsp.work((len(came) - 1) * size)
        _put_in_front(bsp, before, head, op)
    bsp.work(len(block) * row_words(block))
    return placed(NAME, given(sums), out)


@primitive(cost, plan, _small)
def segmented_prefix(
    bsp: BSP, values: Any, flags: Any, op: np.ufunc, *, out: NDArray[Any] | None = None
) -> Supersteps[Any]:
    """The inclusive prefix sums of each segment of the values of all processors; collective.

    Args:
        bsp: the processor.
        values: a number on each processor, or a block of shape (n, ...), where n may differ from processor to processor
            and be 0: the blocks, one after the other by pid, are cut into segments. Dtype and shape of an element are
            equal on all processors, empty blocks included.
        flags: bool, one for each element, shape (n,), or one for a number: where a segment begins. The first element of
            all begins one with or without a flag.
        op: an associative numpy ufunc of two arguments whose results have the dtype of the values, as np.add or
            np.maximum; it need not be commutative. Equal on all processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to.
            It may be the values. None: a new one.

    Returns:
        For each element the sum, by op, of those of its segment up to itself: an array of one's own of the shape and
        dtype of the values, or a number of the type of the value.

    Raises:
        UsageError: no such values, flags or op; op's name, or dtype and shape of an element differ.

    BSP cost: an `exclusive_prefix` of ceil((8*words + 2) / 8) words, for elements of so many words, and n*words flop
    before and after it. `segmented_prefix.cost` has it exactly.

    Source: Blelloch, *Prefix sums and their applications* (1990), section 1.5: pairs of a flag and a sum have an
    associative operator. It goes by `exclusive_prefix`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     flags = np.arange(3) == bsp.pid  # a segment begins at the elements 0, 4 and 8
        ...     return collectives.segmented_prefix(bsp, np.ones(3, int), flags, np.add).tolist()
        >>> pybsp.simulate(main, p=3).results
        [[1, 2, 3], [4, 1, 2], [3, 4, 1]]
    """
    block, marks, given = _checked(values, flags, op)
    call = Call(bsp, NAME, values=row_kind(block), op=check_operator(NAME, op))
    checked_out(NAME, out)
    sums, head, own = _begun(bsp, block, marks, op, out)
    size = record_words(row_words(block))
    degree = choose(bsp.machine, size)
    call.takes(len(plan_of_prefix(bsp.p, degree)))
    before = yield from run_prefix(call, own, _behind(op), degree, size)
    _put_in_front(bsp, before, head, op)
    bsp.work(len(block) * row_words(block))
    return placed(NAME, given(sums), out)


def _begun(
    bsp: BSP, block: NDArray[Any], marks: NDArray[np.bool_], op: np.ufunc, out: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The prefix sums of a block as if nothing were before it; those up to its first flag; what goes to others."""
    n = len(block)
    sums = applied(NAME, partial(_accumulated, op=op, out=out), block, marks)
    begins = bool(marks.any())
    bsp.work(n * row_words(block))
    fields: list[Any] = [("sum", block.dtype, block.shape[1:]), ("begins", np.bool_), ("some", np.bool_)]
    own = np.zeros(1, fields)
    if n:
        own[0] = (sums[-1], begins, True)
    return sums, sums[: int(marks.argmax()) if begins else n], own


def _behind(op: np.ufunc) -> Operator:
    """What processors tell each other, combined."""

    def behind(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        if not left["some"][0] or not right["some"][0]:
            return left if left["some"][0] else right
        if right["begins"][0]:
            return right
        both = left.copy()
        both["sum"] = op(left["sum"], right["sum"])
        return both

    return behind


def _put_in_front(bsp: BSP, before: NDArray[Any] | None, head: NDArray[Any], op: np.ufunc) -> None:
    """What the segment that goes on here has before is put in front of its sums."""
    if before is not None and before["some"][0]:
        head[...] = applied(NAME, op, before["sum"], head)


def _checked(values: Any, flags: Any, op: Any) -> tuple[NDArray[Any], NDArray[np.bool_], Any]:
    """The arguments as arrays, else a UsageError; and what makes of the result what the user gave."""
    check_operator(NAME, op)
    if not elementwise(op):
        raise argument_error(NAME, "op", "a numpy ufunc of two arguments, as np.add", brief(op))

    alone = is_number(values)
    kind = type(values)
    if alone:
        values, flags = np.array([values]), np.array([flags])
    block = block_of(NAME, "values", values)
    if not block.dtype.isnative:  # as op makes them
        block = block.astype(block.dtype.newbyteorder("="))
    marks = block_of(NAME, "flags", flags)
    if marks.shape == (0,):  # of no dtype of its own
        marks = marks.astype(np.bool_)
    if marks.dtype != np.bool_ or marks.shape != block.shape[:1]:
        expected = f"bool, one for each of the {len(block)} elements along the first axis"
        raise argument_error(NAME, "flags", expected, what(marks))
    try:
        dtype = op(block[:0], block[:0]).dtype
    except Exception as error:
        raise UsageError(f"{NAME}: argument op: raised {type(error).__name__}: {error}") from error
    if dtype != block.dtype:
        expected = f"one that keeps the dtype of the values, {block.dtype}"
        way_out = "convert the values with .astype first"
        raise argument_error(NAME, "op", expected, f"{op.__name__}, which makes {dtype}", way_out)

    def given(sums: NDArray[Any]) -> Any:
        if not alone:
            return sums
        return sums[0] if issubclass(kind, np.generic) else sums[0].item()

    return block, marks, given


def _accumulated(
    block: NDArray[Any], marks: NDArray[np.bool_], *, op: np.ufunc, out: NDArray[Any] | None
) -> NDArray[Any]:
    """The prefix sums of each segment of a block, from left to right."""
    sums = room(out, block.shape, block.dtype)
    sums[...] = block
    starts = np.union1d(np.flatnonzero(marks), np.zeros(min(1, len(block)), np.int64))
    lengths = np.diff(np.append(starts, len(block)))
    # Many short segments go element by element, all at once; a long one by itself.
    short = lengths <= SHORT
    at, left = starts[short], lengths[short]
    for place in range(1, int(left.max(initial=0))):
        at = at[left > place]
        left = left[left > place]
        sums[at + place] = op(sums[at + place - 1], sums[at + place])
    for first, last in zip(starts[~short].tolist(), (starts + lengths)[~short].tolist(), strict=True):
        part = sums[first:last]
        op.accumulate(part, axis=0, dtype=type(part.dtype), out=part)  # its class: numpy refuses one with a unit
    return sums
