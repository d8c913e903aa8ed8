"""2D-PREFIX(k, P): the prefix of each row of a matrix whose columns the processors hold (section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import argument_error
from ..ground.convert import no_mask
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import fixed_order, prefix_fixed, prefix_trees, tree
from .arguments import Order, checked_order, fan_out, integer, item_words
from .blocks import Ints, even_cuts
from .counted.prefix_2d import counted
from .matrix_rows import busiest, owned_by, row_operations, rows_of
from .operators import Operator, check_operator, elementwise, guarded
from .plan import Plan, Step, joined
from .primitive import Call, primitive, sources
from .values import (
    checked_out,
    descriptor,
    detached,
    is_array,
    own_argument,
    own_result,
    packed,
    placed,
    taken,
    unpacked,
)


@lru_cache(maxsize=32)
def plan(p: int, k: int, degree: int = 2, order: Order = "any") -> Plan:
    """Who sends which rows of its column, and of the sums, to whom; `degree` is that of the trees where k < p."""
    k = integer("prefix_2d.plan", "k", k, 0)
    order = checked_order("prefix_2d.plan", order)
    here = np.arange(p)
    if p == 1:
        return joined(p, ())
    if k == 0:
        # Nothing to sum, but each hears from the one below that it has nothing either.
        return joined(p, (Step.of(here, (here + 1) % p, 0, 0),))
    if k >= p:
        return case_1_plan(p, k, order)
    if order == "fixed":
        return prefix_fixed.plan(p, degree, k)
    starts, sizes = rows_of(p, k)
    column, row = np.repeat(here, k), np.tile(np.arange(k), p)
    owner = starts[row] + column * sizes[row] // p
    trees = prefix_trees.plan(tuple(sizes.tolist()), degree)
    work, added = busiest(p, k, degree)
    steps = [Step.of(column, owner, row, row + 1)]
    steps += [
        Step(s.sources, s.destinations, s.first, s.last, s.work + (level > 1) if level else work)
        for level, s in enumerate(trees)
    ]
    steps.append(Step.of(owner, column, row, row + 1, work=added))
    return joined(p, steps, works=_works_of_case_2(p, k, steps[1:-1]))


def _works_of_case_2(p: int, k: int, trees: Sequence[Step]) -> Ints:
    """Operations of each processor before each sync of case 2: see `_case_2`, and `climbed_before`."""
    _, first, last = owned_by(p, k)
    works = np.zeros((len(trees) + 3, p), np.int64)
    works[1] = last - first - 1
    before = np.zeros(p, np.bool_)
    for level, step in enumerate(trees, 1):
        came = np.bincount(step.destinations, minlength=p)
        works[level + 1] = np.where(came, came - 1 + (level < len(trees)) + before, 0)
        before |= came > 0
    works[-2] += np.where(before, last - first, 0)
    return works


def case_1_plan(p: int, k: int, order: Order = "any", further: int = 0) -> Plan:
    """The plan of `case_1`: columns, of which sums are wanted, to the owners of rows; sums to their columns."""
    cuts = even_cuts(p, k)
    column, owner = np.repeat(np.arange(p - further), p), np.tile(np.arange(p), p - further)
    first, last = cuts[owner], cuts[owner + 1]
    work = np.diff(cuts) * row_operations(p - further, order)
    steps = Step.of(column, owner, first, last), Step.of(owner, column + further, first, last, work=int(work.max()))
    return joined(p, steps, works=np.stack([0 * work, work, 0 * work]))


@lru_cache(maxsize=1024)
def choose(machine: Machine, k: int, words: float = 1, order: Order = "any") -> int:
    """The degree of the trees where k < p that costs least."""
    p = machine.p
    if k >= p or k == 0:
        return 2
    if order == "fixed":
        return prefix_fixed.choose(machine, k * words)
    # Rows differ by one in length: what is best for the shorter ones may be so for all.
    degrees = sorted({degree for size in np.unique(rows_of(p, k)[1]) for degree in tree.degrees(int(size))})
    return min(degrees, key=lambda degree: Cost(machine, counted(p, k, degree, words)).seconds)


def cost(machine: Machine, k: int, words: float = 1, degree: int | None = None, order: Order = "any") -> Cost:
    """What 2D-PREFIX costs, exactly, where op keeps the size of an item and takes a flop a word.

    Args:
        machine: its p is that of the processors.
        k: items in a column.
        words: of an item (multiples of 1/8: bytes).
        degree: of the trees, where k < p; None: the cheapest.
        order: "any" or "fixed".
    """
    order = checked_order("prefix_2d.cost", order)
    k, words = integer("prefix_2d.cost", "k", k, 0), item_words("prefix_2d.cost", "words", words)
    chosen = fan_out("prefix_2d.cost", degree) or choose(machine, k, words, order)
    if order == "fixed" and 0 < k < machine.p:
        return prefix_fixed.cost(machine, k * words, chosen)
    return Cost(machine, counted(machine.p, k, chosen, words, order))


@primitive(cost, plan)
def prefix_2d(
    bsp: BSP,
    column: Any,
    op: Operator,
    degree: int | None = None,
    order: Order = "any",
    *,
    out: NDArray[Any] | None = None,
) -> Supersteps[Any]:
    """The inclusive prefix sums of each row of a k x p matrix, of which each processor holds a column; collective.

    Args:
        bsp: the processor.
        column: an array of shape (k, ...), or a list of k objects; k (and an array's dtype and shape) equal on all
            processors.
        op: associative, need not be commutative. A numpy ufunc works on the elements of an array, whatever its shape; a
            function of two values gets the items column[i], one row at a time; it must not change them.
        degree: of the trees, where k < p, at least 2; None: the cheapest on `bsp.machine`. Equal on all processors.
        order: "any": bits of floating-point sums depend on k, on the degree, and on the machine that chooses it.
            "fixed": they depend on p and the values alone (fixed_order.py), and are those of `prefix`. Equal on all
            processors.
        out: keyword only: an array for the result, if that is one, of its shape and of a dtype that it can be cast to.
            It may be the column. None: a new one.

    Returns:
        An array of the column's shape, or a list: item i is that of processor 0 op ... op that of this processor. Of a
        column without elements a copy, as op makes nothing of it.

    Raises:
        UsageError: degree, order, op's name, or dtype and shape differ or are out of range; op raised.

    BSP cost: k >= p: 2 supersteps of h <= ceil(k/p) * (p-1), and as many flop (in items); k < p: two of h < 2k, and a
    prefix over p/k processors; k = 0: one of h = 0. In the fixed order k >= p: about k/2 log2 p
    flop; k < p: a `prefix` of arrays of k items. `prefix_2d.cost` has it exactly.

    Source: *Communication primitives for BSP computers*, section 3, algorithm 2D-PREFIX(k, P), whose fourth superstep,
    a shift of the sums by one processor, is left out: the trees carry the exclusive sums along.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.prefix_2d(bsp, np.array([1, 10]) * (bsp.pid + 1), np.add).tolist()
        >>> pybsp.simulate(main, p=3).results
        [[1, 10], [3, 30], [6, 60]]
    """
    given = fan_out("prefix_2d", degree)
    name = check_operator("prefix_2d", op)
    order = checked_order("prefix_2d", order)
    column = _checked_column(column)
    array = is_array(column)
    kind = descriptor(column).kind if array else f"{len(column)} objects"
    call = Call(bsp, "prefix_2d", order, column=kind, op=name, degree=given)
    checked_out("prefix_2d", out)
    runs = on_runs(op, column)
    taking: Any = own_argument(column) if array else [taken(item, "prefix_2d", "column") for item in column]
    items = taking.reshape(-1) if runs is op else taking
    words = column.nbytes / 8 / len(items) if array and len(items) else 1.0
    chosen = given or choose(bsp.machine, len(items), words, order)
    call.takes(len(plan(bsp.p, len(items), chosen, order)))
    result = yield from run(call, items, guarded(bsp.notes.gate, runs), chosen, words, order)
    if runs is op:
        result = result.reshape(column.shape)
    if array:
        return placed("prefix_2d", result, out)
    result = [detached(mine, item) for mine, item in zip(result, column, strict=True)]
    return placed("prefix_2d", _of_objects(result, column.shape) if isinstance(column, np.ndarray) else result, out)


def _checked_column(column: Any) -> Any:
    """The argument column: one of a subclass of numpy's arrays as an array of plain data, where it is of that.

    Raises:
        UsageError: it is neither an array of items nor a list, or it has a mask.
    """
    if not isinstance(column, (np.ndarray, list, tuple)) or (isinstance(column, np.ndarray) and column.ndim == 0):
        expected = "an array of shape (k, ...) or a list of k objects"
        way_out = "for one value a processor use prefix"
        raise argument_error("prefix_2d", "column", expected, type(column).__name__, way_out)
    no_mask("prefix_2d", "column", column)
    return np.asarray(column) if isinstance(column, np.ndarray) and is_array(np.asarray(column)) else column


def on_runs(op: Operator, column: Any) -> Operator:
    """An operator on runs of items of equal length of a column: arrays along their first axis, or lists."""
    array = is_array(column)
    if array and elementwise(op):
        return op
    if not array and elementwise(op) and isinstance(column, np.ndarray) and column.ndim == 1:
        # As numpy works on an array of objects: of ints one by one it would make some of 64 bits.
        return lambda a, b: list(op(_of_objects(a, (len(a),)), _of_objects(b, (len(b),))))
    if not array:
        return lambda a, b: [op(x, y) for x, y in zip(a, b, strict=True)]

    def stacked(a: Any, b: Any) -> Any:
        a, b = a.view(), b.view()
        a.flags.writeable = b.flags.writeable = False  # an op that works in place would change earlier sums
        return np.stack([op(x, y) for x, y in zip(a, b, strict=True)])

    return stacked


def _of_objects(items: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of objects, of the shape that a column had."""
    found = np.empty(shape, object)
    for i, item in enumerate(items):  # numpy would take items that are sequences apart
        found[i] = item
    return found


def run(call: Call, column: Any, op: Operator, degree: int, words: float, order: Order = "any") -> Supersteps[Any]:
    """Run it on a column of k items of so many words; op works on runs of items."""
    bsp, k = call.bsp, len(column)
    if bsp.p == 1:
        return column.copy()
    if order == "fixed" and 0 < k < bsp.p:
        return detached((yield from prefix_fixed.run(call, column, op, degree, k * words)), column)
    scheme = plan(bsp.p, k, degree, order)
    if k == 0:
        for dest, _, _ in scheme[0].sends(bsp.pid):
            call.send(dest, b"")
        yield from call.sync(sources(scheme[0].receives(bsp.pid)))
        return column.copy()
    if k >= bsp.p:
        return (yield from case_1(call, scheme, column, op, words, order))
    return (yield from _case_2(call, scheme, column, op, words))


def case_1(
    call: Call, scheme: Plan, column: Any, op: Operator, words: float, order: Order = "any", further: int = 0
) -> Supersteps[Any]:
    """At least p items: whose prefix sums go so many columns further (exclusive_blocks.py); None where none comes."""
    bsp = call.bsp
    p, pid, k = bsp.p, bsp.pid, len(column)
    first, last = (int(cut) for cut in even_cuts(p, k)[pid : pid + 2])
    # (1)i. The rows of processor q go there.
    for dest, begin, end in scheme[0].sends(pid):
        call.send(dest, packed(column[begin:end], call.name))
    letters = yield from call.sync(sources(scheme[0].receives(pid)))
    # (1)ii. A prefix on every row that is here.
    parts = [unpacked(letter.payload) for letter in letters]
    if pid + further < p:
        parts.insert(pid, column[first:last])
    sums = call.own(lambda: (accumulated if order == "any" else _accumulated_fixed)(parts, op), "op")
    bsp.work((last - first) * row_operations(p - further, order) * words)
    # (1)iii. The sums go back to their columns.
    for dest, _, _ in scheme[1].sends(pid):
        call.send(dest, packed(sums[dest - further], call.name))
    if 0 < further == pid:
        sums[0] = own_result(sums[0])  # which arrived, and ends with the next sync
    letters = yield from call.sync(sources(scheme[1].receives(pid)))
    if pid < further:
        return None
    pieces = [unpacked(letter.payload) for letter in letters]
    pieces.insert(pid, sums[pid - further])  # the rows of processor q are in front of those of q + 1
    return _joined(pieces)


def _case_2(call: Call, scheme: Plan, column: Any, op: Operator, words: float) -> Supersteps[Any]:
    bsp = call.bsp
    p, pid, k = bsp.p, bsp.pid, len(column)
    row, first, last = (int(of_all[pid]) for of_all in owned_by(p, k))
    routed, *trees, back = scheme
    # (2)i. Each item goes to the processor that holds its part of its row.
    for dest, r, _ in routed.sends(pid):
        call.send(dest, packed(column[r : r + 1], call.name))
    letters = yield from call.sync(sources(routed.receives(pid)))
    # (2)ii. A prefix on what is here.
    parts = [unpacked(letter.payload) for letter in letters]
    if first <= pid < last:
        parts.insert(pid - first, column[row : row + 1])
    sums = call.own(lambda: accumulated(parts, op), "op")
    sums[0] = own_result(sums[0])  # which may be what arrived, and ends with the next sync
    bsp.work((len(parts) - 1) * words)
    # (2)iii. A prefix of the last sums over the processors of a row; (2)iv. of those below this one.
    before = yield from climbed_before(call, trees, sums[-1], op, words)
    # (2)v. It is put in front of each sum here.
    if before is not None:
        sums = call.own(lambda: _behind(before, sums, op), "op")
        bsp.work(len(sums) * words)
    # (2)vi. The sums go to their columns.
    for dest, _, _ in back.sends(pid):
        call.send(dest, packed(sums[dest - first], call.name))
    letters = yield from call.sync(sources(back.receives(pid)))
    pieces = [unpacked(letter.payload) for letter in letters]
    if first <= pid < last:
        pieces.insert(row, sums[pid - first])  # successive processors have successive rows
    return _joined(pieces)


def climbed_before(call: Call, trees: Sequence[Step], total: Any, op: Operator, words: float) -> Supersteps[Any]:
    """What is before this processor's total in the sums that go up the trees; None: nothing.

    In the paper the inclusive sums go one processor up behind the trees (step iv), in a superstep. Here each processor
    carries the exclusive one along, which takes an operation a level: what comes is put in front of both sums.
    """
    pid, before, op = call.bsp.pid, None, guarded(call.bsp.notes.gate, op)
    bare = isinstance(total, np.ndarray) and total.ndim == 0

    def combined(function: Callable[[], Any]) -> Any:
        found = call.own(function, "op")
        # numpy's operators make numbers of arrays without axes, and a number is one word, whatever its dtype.
        return np.array(found) if bare and isinstance(found, np.generic) else found

    for step in trees:
        if sends := step.sends(pid):
            payload = packed(total, call.name)
            for dest, _, _ in sends:
                call.send(dest, payload)
        letters = yield from call.sync(sources(step.receives(pid)))
        if not letters:
            continue
        came = [unpacked(letter.payload) for letter in letters]
        ahead = combined(partial(reduce, op, came))
        rising = step is not trees[-1]  # behind the last level nobody needs the inclusive sum
        call.bsp.work((len(came) - 1 + rising + (before is not None)) * words)
        if rising:
            total = own_result(combined(partial(op, ahead, total)))
        before = own_result(ahead if before is None else combined(partial(op, ahead, before)))
    return before


def accumulated(parts: list[Any], op: Operator) -> list[Any]:
    """The prefix sums of runs, of which the first is the first run itself.

    Run by run: `accumulate` would go down the columns of a matrix one by one, in a multiple of the time.
    """
    sums = [parts[0]]
    for part in parts[1:]:
        sums.append(op(sums[-1], part))
    return sums


def _accumulated_fixed(parts: list[Any], op: Operator) -> Any:
    """The same in the fixed order; what it gives may hold the first run itself."""
    if _keeps_dtype(op, parts[0]):
        matrix = np.stack(parts)

        def behind(before: int, first: int, last: int) -> None:
            op(matrix[before], matrix[first:last], out=matrix[first:last])

        fixed_order.accumulate(len(parts), behind)
        return matrix
    sums = list(parts)

    def behind_each(before: int, first: int, last: int) -> None:
        sums[first:last] = [op(sums[before], each) for each in sums[first:last]]

    fixed_order.accumulate(len(parts), behind_each)
    return sums


def _keeps_dtype(op: Operator, part: Any) -> TypeGuard[np.ufunc]:
    """Whether op is a ufunc whose results have the dtype of what it is given."""
    return isinstance(op, np.ufunc) and bool(op(part[:0], part[:0]).dtype == part.dtype)


def _behind(before: Any, sums: list[Any], op: Operator) -> list[Any]:
    """Prefix sums with one more in front."""
    return [op(before, each) for each in sums]


def _joined(pieces: list[Any]) -> Any:
    """Runs behind each other."""
    if isinstance(pieces[0], list):
        return [item for piece in pieces for item in piece]
    return np.concatenate(pieces)
