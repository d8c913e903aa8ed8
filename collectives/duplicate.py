"""DUPLICATE(P): copies of items, balanced over processors (*Communication primitives for BSP computers*, section 5)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..cost import Cost, Machine, Superstep
from ..errors import UsageError
from . import tree
from .broadcast_items import plan as plan_spread
from .counted.broadcast_items import counted as counted_spread
from .plan import Plan, Step, joined
from .primitive import Call, fan_out, integer, item_words, no_mask, own_argument, packed, primitive, sources

Counts = NDArray[np.int64]
Records = NDArray[Any]  # shape (n,), fields "item" and "copies": each an item that is to be copied so many times
MOST = 2**62  # copies in all


class ItemType(NamedTuple):
    """What the items are; equal on all processors that have any.

    listed: whether they came as a list. pid: of a processor that has such items.
    """

    listed: bool
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pid: int

    def __str__(self) -> str:
        return "a list" if self.listed else f"an array of {self.dtype}, items of shape {self.shape},"

    @property
    def record(self) -> np.dtype[Any]:
        """Of an item and its copies: 9 bytes or more, as a set has 2 words or more."""
        item = np.dtype((self.dtype, self.shape))
        return np.dtype([("item", item), ("copies", np.int64), *([] if item.itemsize else [("padding", np.uint8)])])


class Interval(NamedTuple):
    """The processors first, ..., first + width - 1, which share a set S_i, of so many bytes."""

    first: int
    width: int
    nbytes: int


class Share(NamedTuple):
    """The copies number first to last - 1, which go to dest; of each processor where these are arrays."""

    dest: Any
    first: Any
    last: Any


# -- who sends what to whom ---------------------------------------------------------------------------------------


def shares(first: Any, last: Any, block: int) -> tuple[Share, Share, Share]:
    """Where copies number first to last - 1 go: to l_i, to l_i + 1 (the set S_i), and to r_i; some may be empty."""
    left = first // block  # l_i
    right = np.maximum(last - 1, first) // block  # r_i
    begin = np.minimum((left + 1) * block, last)
    end = np.maximum(right * block, begin)
    return Share(left, first, begin), Share(left + 1, begin, end), Share(right, end, last)


def cut(ends: Counts, first: Any, last: Any) -> tuple[Any, Any]:
    """From which item to before which are copies number first to last - 1; those of item j end before ends[j]."""
    begin = np.searchsorted(ends, first, "right")
    return begin, np.where(np.less(first, last), np.searchsorted(ends, last, "left") + 1, begin)


@lru_cache(maxsize=32)
def _plan_prefix(p: int, degree: int) -> tuple[Step, ...]:
    """Step (2): prefix sums from both ends, so that all know the total as well.

    In superstep t a processor knows the sums of the d^t processors that end, and that begin, with itself. It sends the
    one to those d^t, 2d^t, ..., (d-1)d^t above, and the other to those as far below.
    """
    here = np.arange(p)[:, None]
    steps = []
    for level in range(tree.height(p, degree)):
        offsets = degree**level * np.arange(1, _fan(p, degree, level) + 1)
        there = here + np.concatenate([-offsets, offsets])
        inside = (there >= 0) & (there < p)
        steps.append(Step.of(np.broadcast_to(here, there.shape)[inside], there[inside]))
    return tuple(steps)


@lru_cache(maxsize=1024)
def _counted_prefix(p: int, degree: int) -> tuple[Superstep, ...]:
    """What the supersteps of `_plan_prefix` are charged for, without making it; w: additions after the superstep."""
    steps = []
    for level in range(tree.height(p, degree)):
        sent = _sent_at(p, degree, level)
        most = int(sent.max())
        steps.append(Superstep(most, most, most, int(sent.sum()), float(most), _fan(p, degree, level) * degree**level))
    return tuple(steps)


def _sent_at(p: int, degree: int, level: int) -> Counts:
    """Messages that each processor sends, and receives, in superstep `level` of step (2)."""
    here, fan, stride = np.arange(p), _fan(p, degree, level), degree**level
    sent: Counts = np.minimum(fan, here // stride) + np.minimum(fan, (p - 1 - here) // stride)
    return sent


def _fan(p: int, degree: int, level: int) -> int:
    """To how many processors above one sends at most."""
    return int(min(degree - 1, (p - 1) // degree**level))


def _levels(p: int, degree: int) -> int:
    """Supersteps of step (3)iii: none, or two and the trees of the widest interval; S_i has at least 2 words."""
    widest = p - 2
    return 2 + tree.height(-(-widest // 2), degree) if widest > 1 else 0


def _slots(steps: Sequence[Any], levels: int) -> Iterator[tuple[int, Any]]:
    """In which superstep of (3)iii each of an interval's own is: its last in the last, as all end together."""
    yield from enumerate(steps[:-1])
    if steps:
        yield levels - 1, steps[-1]


class _Counted(NamedTuple):
    """What depends on the copies.

    moved: messages of steps (3)ii and (4), and the work before them. intervals: (first, width, words of S_i). after:
    work of step (3)v.
    """

    moved: Step
    intervals: list[tuple[int, int, int]]
    after: float


def _count(p: int, copies: Sequence[Counts], degree: int, nbytes: int) -> _Counted:
    """Steps (3) and (4) for records of so many bytes."""
    levels = tree.height(p, degree)
    added = _sent_at(p, degree, levels - 1) if levels else np.zeros(p, np.int64)  # the last sums of step (2)
    first, last, block = _numbered(copies)
    flat = np.concatenate(copies)
    ends = np.cumsum(flat[flat > 0])
    parts = shares(first, last, block)
    sizes = []
    for part in parts:
        begin, end = cut(ends, part.first, part.last)
        sizes.append(end - begin)
    sent = [size > 0 for size in sizes]
    moved = Step.of(
        np.concatenate([np.flatnonzero(there) for there in sent]),
        np.concatenate([part.dest[there] for part, there in zip(parts, sent, strict=True)]),
        0,
        np.concatenate([-(-size[there] * nbytes // 8) for size, there in zip(sizes, sent, strict=True)]),
        work=float((sum(sizes) + added).max()),
    )
    middle, size, owners = parts[1], sizes[1], np.flatnonzero(sent[1])
    widths = (middle.last - middle.first) // block
    intervals = [(int(middle.dest[i]), int(widths[i]), -(-int(size[i]) * nbytes // 8)) for i in owners]
    return _Counted(moved, intervals, float(size.max()))


def _numbered(copies: Sequence[Counts]) -> tuple[Counts, Counts, int]:
    """The number of each processor's first copy, that after its last, and ceil(M/P)."""
    last = np.cumsum([int(own.sum()) for own in copies])
    total = int(last[-1])
    return np.concatenate([[0], last[:-1]]), last, max(1, -(-total // len(copies)))


def plan(p: int, copies: Any, degree: int = 2, words: float = 1) -> Plan:
    """Who sends which words to whom, where processor i has items to be copied copies[i] times, of so many words each.

    A message's items are words: sums in step (2), words of items and copies after it.
    """
    lists = _checked_lists("duplicate.plan", p, copies)
    counts = _count(p, lists, degree, _nbytes("duplicate.plan", words))
    before = _worked(p, degree, max(map(len, lists)))
    if p == 1:
        return joined(p, (), before[0] + counts.moved.work)
    spread: list[list[Step]] = [[] for _ in range(_levels(p, degree))]
    for first, width, size in counts.intervals:
        for slot, step in _slots(plan_spread(width, size, degree), len(spread)):
            spread[slot].append(Step(step.sources + first, step.destinations + first, step.first, step.last))
    prefix = [replace(step, work=work) for step, work in zip(_plan_prefix(p, degree), before, strict=True)]
    return joined(p, [*prefix, counts.moved, *map(_side_by_side, spread)], counts.after)


def _side_by_side(steps: Sequence[Step]) -> Step:
    """One superstep of all intervals."""
    empty = np.empty(0, np.int32)
    return Step.of(
        np.concatenate([empty, *(step.sources for step in steps)]),
        np.concatenate([empty, *(step.destinations for step in steps)]),
        np.concatenate([empty, *(step.first for step in steps)]),
        np.concatenate([empty, *(step.last for step in steps)]),
    )


def _worked(p: int, degree: int, items: int) -> list[float]:
    """Work before the syncs of step (2): that of step (1), then the additions. On one processor, that of step (1)."""
    return [float(items), *(step.w for step in _counted_prefix(p, degree)[:-1])]


# -- costs --------------------------------------------------------------------------------------------------------


def counted(p: int, copies: Sequence[Counts], degree: int, nbytes: int) -> tuple[tuple[Superstep, ...], float]:
    """What the supersteps of `plan` are charged for, and the work after them, without its messages: up to p^2."""
    counts = _count(p, copies, degree, nbytes)
    before = _worked(p, degree, max(map(len, copies)))
    if p == 1:
        return (), before[0] + counts.moved.work
    spread: list[list[Superstep]] = [[] for _ in range(_levels(p, degree))]
    for _, width, size in counts.intervals:
        for slot, step in _slots(counted_spread(width, size, degree), len(spread)):
            spread[slot].append(step)
    prefix = [step._replace(w=work) for step, work in zip(_counted_prefix(p, degree), before, strict=True)]
    return (*prefix, counts.moved.counted(1), *map(_at_once, spread)), counts.after


def _at_once(steps: Sequence[Superstep]) -> Superstep:
    """One superstep of all intervals, which have no processor in common."""
    return Superstep(
        max((step.h_out for step in steps), default=0),
        max((step.h_in for step in steps), default=0),
        max((step.messages for step in steps), default=0),
        sum(step.M for step in steps),
        0.0,
        max((step.locality for step in steps), default=0),
    )


@lru_cache(maxsize=256)
def _one_item(p: int, degree: int) -> tuple[tuple[Superstep, ...], float]:
    """What the degree is chosen by: one item of one word on processor 0, of which all get one copy."""
    none = np.empty(0, np.int64)
    return counted(p, [np.array([p]), *[none] * (p - 1)], degree, 16)


def choose(machine: Machine) -> int:
    """The degree that costs least for one item with as many copies as processors; larger sets of items need it less."""
    return min(tree.degrees(machine.p), key=lambda degree: Cost(machine, *_one_item(machine.p, degree)).seconds)


def cost(
    machine: Machine,
    words: float = 1,
    copies: Any = None,
    items: int | None = None,
    total: int | None = None,
    degree: int | None = None,
) -> Cost:
    """What it costs: exactly where the copies are given, else exact supersteps and an upper bound on all else.

    Args:
        machine: its p is that of the processors.
        words: of an item: bytes / 8, so that it may be no whole number. A message holds the number of copies beside
            each item, in one word more. The pickles of objects have sizes of their own: for them only the supersteps
            are exact.
        copies: p arrays, one for each processor, as `duplicate` gets them.
        items: without copies: a processor has at most so many.
        total: without copies: M, the copies in all.
        degree: of the trees; None: what `duplicate` would choose.

    Raises:
        UsageError: neither copies nor items and total are given, or one that cannot be.
    """
    name = "duplicate.cost"
    given = fan_out(name, degree)
    nbytes = _nbytes(name, words)
    chosen = given or choose(machine)
    if copies is not None:
        return Cost(machine, *counted(machine.p, _checked_lists(name, machine.p, copies), chosen, nbytes))
    if items is None or total is None:
        raise UsageError(f"{name}: argument copies: expected p arrays, or numbers as items and total, got neither")
    most = integer(name, "items", items, 0), integer(name, "total", total, 0, MOST)
    return _bound(machine, nbytes, *most, chosen)


def _bound(machine: Machine, nbytes: int, items: int, total: int, degree: int) -> Cost:
    """At most so much for any copies."""
    p = machine.p
    in_set = min(items, total)  # records of S_i
    in_all = min(items + 2, total)  # of processor i, two of which were split
    before = _worked(p, degree, items)
    if p == 1:
        return Cost(machine, (), before[0] + in_all)
    prefix = _counted_prefix(p, degree)
    size = -(-in_set * nbytes // 8)
    block = -(-total // p)
    alone = -(-nbytes // 8)  # a record in a message of its own
    # Three messages, of which two may be filled up to a word; each record that comes is a copy or more, or S_i comes.
    out, into = (-(-in_all * nbytes // 8) + 2) * (total > 0), max(block * alone, size)
    messages = min(p - 1, max(min(3, total), block))
    moved = Superstep(out, into, messages, min(p * in_all, total) * alone, prefix[-1].w + in_all, p - 1)
    steps = [*(step._replace(w=work) for step, work in zip(prefix, before, strict=True)), moved]
    if levels := _levels(p, degree):
        widest = p - 2
        dealt = Superstep(size, size, min(size, widest), min(p // 2, total) * size, 0.0, p - 1)
        fan = min(degree, -(-widest // 2)) - 1 if size else 0
        level = Superstep(fan, min(fan, 1), fan, min(widest, widest * fan), 0.0, p - 1)
        exchanged = Superstep(2 * size, size, 2 * min(size, widest), widest * size, 0.0, p - 1)
        steps += [dealt, *[level] * (levels - 2), exchanged]
    return Cost(machine, steps, float(in_set))


# -- arguments ----------------------------------------------------------------------------------------------------


def _nbytes(name: str, words: float) -> int:
    """Bytes of a record whose item has so many words."""
    return max(round(8 * item_words(name, "words", words)), 1) + 8


def _checked_lists(name: str, p: int, copies: Any) -> list[Counts]:
    """The copies of all processors."""
    if not isinstance(copies, (list, tuple, np.ndarray)) or len(copies) != p:
        got = f"{len(copies)} of them" if hasattr(copies, "__len__") else type(copies).__name__
        raise UsageError(f"{name}: argument copies: expected one array for each of the {p} processors, got {got}")
    return [_counts(name, own, p) for own in copies]


def _counts(name: str, copies: Any, p: int, n: int | None = None) -> Counts:
    """The argument copies of one processor; n: what they must be as many as.

    Raises:
        UsageError: they are not.
    """
    expected = f"{name}: argument copies: expected a whole number of at least 0 for each item"
    counts: NDArray[Any]
    try:
        counts = np.asarray(copies)
    except ValueError as error:  # rows of different lengths
        raise UsageError(f"{expected}, got {copies!r:.60}") from error
    if n is not None and counts.shape != (n,):
        raise UsageError(f"{expected}, of which there are {n}, got shape {counts.shape}; np.full(n, k) makes k of each")
    if counts.ndim != 1 or (counts.size and counts.dtype.kind not in "iu"):
        hint = "; copies.astype(int) makes whole numbers of them" if counts.dtype.kind == "f" else ""
        raise UsageError(f"{expected}, got {counts.dtype} of shape {counts.shape}{hint}")
    if counts.size and counts.min() < 0:
        raise UsageError(f"{expected}, got {counts.min()} for item {counts.argmin()}")
    # In doubles, as a sum of 64 bits may overflow.
    if counts.sum(dtype=np.float64) > MOST // p:
        raise UsageError(f"{expected}, at most 2^62/p on a processor, got {counts.sum(dtype=np.float64):g}")
    return counts.astype(np.int64)


def _opened(items: Any, copies: Any, p: int, pid: int) -> tuple[ItemType, int, Records]:
    """The type of the items, how many there are, and the records of those that are copied at all.

    Raises:
        UsageError: items or copies are not what they must be.
    """
    if not isinstance(items, (list, tuple, np.ndarray)) or (isinstance(items, np.ndarray) and not items.ndim):
        got = "an array of no axis" if isinstance(items, np.ndarray) else type(items).__name__
        raise UsageError(f"duplicate: argument items: expected an array of shape (n, ...) or a list, got {got}")
    no_mask("duplicate", "items", items)
    counts = _counts("duplicate", copies, p, len(items))
    if isinstance(items, np.ndarray):
        column, item_type = items, ItemType(False, items.dtype, items.shape[1:], pid)
    else:
        column = np.fromiter(map(own_argument, items), object, len(items))
        item_type = ItemType(True, np.dtype(object), (), pid)
    copied = np.flatnonzero(counts)
    try:
        records = np.empty(copied.size, item_type.record)
    except TypeError as error:
        raise UsageError(
            f"duplicate: argument items: {error}; items.astype(object) can be copied, and travels as pickles"
        ) from error
    records["item"], records["copies"] = column[copied], counts[copied]
    return item_type, len(items), records


def _agreed(mine: ItemType | None, theirs: ItemType | None) -> ItemType | None:
    """The type that all items have.

    Raises:
        UsageError: two types.
    """
    if mine is None or theirs is None:
        return mine or theirs
    if mine[:-1] != theirs[:-1]:
        one, other = sorted((mine, theirs), key=lambda item_type: item_type.pid)
        raise UsageError(
            f"duplicate: argument items: expected the same on all processors that have items, got {one} on processor "
            f"{one.pid} and {other} on processor {other.pid}; convert them first, as by items.astype"
        )
    return min(mine, theirs, key=lambda item_type: item_type.pid)


# -- the algorithm ------------------------------------------------------------------------------------------------


@primitive(cost, plan)
def duplicate(bsp: BSP, items: Any, copies: Any, expand: bool = True, degree: int | None = None) -> Any:
    """Make copies of items, and give all processors equally many of them; collective.

    The copies of all items are numbered by processor, then by index of the item. With M copies in all, processor q gets
    those number q*b to (q+1)*b - 1, where b = ceil(M/p): no processor gets more, the last ones may get fewer, or none.

    Args:
        bsp: the processor.
        items: this processor's n: an array of shape (n, ...), or a list (or tuple) of picklable objects. On all
            processors that have items, arrays of equal dtype and item shape, or lists; where there are none, any empty
            one.
        copies: n whole numbers of at least 0: how many of each item. At most 2^62 in all.
        expand: False: each item once, beside the number of its copies. It need not be equal on all processors.
        degree: d of the trees, at least 2. None: the cheapest on `bsp.machine` for one item of which all get a copy.
            Equal on all processors.

    Returns:
        This processor's copies, in order: an array of shape (m, ...), or a list, in which copies of one item are one
        object. With expand=False (items, counts), each item once and how many of it: counts has dtype int64, and none
        is 0. The arrays are the caller's own; of objects, those that stayed on their processor are the ones that it
        gave.

    Raises:
        UsageError: copies that are negative, no whole numbers, or not as many as items; items that are neither array
            nor list, differ in dtype or shape, or cannot be pickled; a degree that is below 2, or differs.

    BSP cost: with d = L/g, for N items equally distributed: O(g*(N + M)/p + L*log(p)/log(L/g)), however the copies are
    distributed. The number of supersteps depends on p and d alone: ceil(log_d p) for step 2, one for steps 3ii and 4,
    and for p > 3 another 2 + ceil(log_d ceil((p-2)/2)) for step 3iii. `duplicate.cost` has it exactly when it is given
    the copies. Work: an operation for each item in steps 1, 3i, 3v and 4, and for each addition in step 2.

    Source: *Communication primitives for BSP computers*, section 5, algorithm DUPLICATE(P).

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.duplicate(bsp, ["a", "b"] if bsp.pid == 0 else [], [5, 1] if bsp.pid == 0 else [])
        >>> pybsp.simulate(main, p=3).results
        [['a', 'a'], ['a', 'a'], ['a', 'b']]
    """
    given = fan_out("duplicate", degree)
    call = Call(bsp, "duplicate", degree=given)
    p, pid = bsp.p, bsp.pid
    chosen = given or choose(bsp.machine)
    own, n, records = _opened(items, copies, p, pid)
    # (1) M_i.
    counts = records["copies"]
    ours = int(counts.sum())
    bsp.work(n)
    # (2) The number of this processor's first copy, and M; from these l_i, r_i and M/P. That is rounded up: what the
    # last processors lack is the paper's dummy item.
    before, total, item_type = _prefix(call, ours, own if n else None, chosen)
    item_type = item_type or own
    ends = before + np.cumsum(counts)
    parts = shares(before, before + ours, max(1, -(-total // p)))
    # (3)i, (4) This processor's copies are split between l_i, l_i+1 to r_i-1, and r_i. S_i begins where the share of
    # l_i ends, rather than with the first item, so that the copies stay in order.
    left, middle, right = (_taken(records, ends, part) for part in parts)
    bsp.work(len(left) + len(middle) + len(right))
    if p == 1:
        return _given_back(left, item_type, expand)
    # (3)ii The items of S_i go to l_i+1. (4) Those for l_i and r_i are known by now, and go in the same superstep.
    interval, data = None, np.empty(0, np.uint8)
    pieces: list[tuple[int, Records]] = []
    for part, part_records in zip(parts, (left, middle, right), strict=True):
        if len(part_records):
            dest, encoded, note = int(part.dest), _encoded(part_records), None
            if part is parts[1]:
                note = Interval(dest, int(parts[2].dest) - dest, encoded.size)
            if dest != pid:
                call.send(dest, encoded, note)
            elif note is None:
                pieces.append((pid, part_records))
            else:
                interval, data = note, encoded
    for letter in call.sync():
        if letter.note is None:
            pieces.append((letter.source, _decoded(letter.payload, item_type)))
        else:
            interval, data = letter.note, letter.payload.copy()
    # (3)iii l_i+1 broadcasts S_i to l_i+1, ..., r_i-1. (3)iv The value l_i+1 rides beside the items.
    interval, data = _spread(call, interval, data, chosen)
    # (3)v Each takes what is destined for it.
    if interval is not None:
        whole = _decoded(data, item_type)
        bsp.work(len(whole))
        ends = np.cumsum(whole["copies"])
        block = int(ends[-1]) // interval.width
        place = pid - interval.first
        return _given_back(_taken(whole, ends, Share(pid, place * block, (place + 1) * block)), item_type, expand)
    # Elsewhere the copies are what came, by the processors' order.
    pieces.sort(key=lambda piece: piece[0])
    none = np.empty(0, item_type.record)
    return _given_back(
        np.concatenate([none, *(piece for _, piece in pieces)], dtype=item_type.record), item_type, expand
    )


def _prefix(call: Call, ours: int, item_type: ItemType | None, degree: int) -> tuple[int, int, ItemType | None]:
    """The sum of the processors below, that of all, and the type of all items, which rides beside the sums."""
    pid = call.bsp.pid
    upto = downto = ours  # sums of the d^t processors that end, and begin, with this one
    for step in _plan_prefix(call.bsp.p, degree):
        for dest, _, _ in step.sends(pid):
            call.send(dest, upto if dest > pid else downto, (item_type,))
        letters = call.sync(sources(step.receives(pid)))
        for letter in letters:
            item_type = _agreed(item_type, letter.note[0])
            if letter.source < pid:
                upto += letter.payload
            else:
                downto += letter.payload
        call.bsp.work(len(letters))
    return upto - ours, upto + downto - ours, item_type


def _spread(
    call: Call, interval: Interval | None, data: NDArray[np.uint8], degree: int
) -> tuple[Interval | None, NDArray[np.uint8]]:
    """2D-BCAST of the bytes of S_i in its interval, in all intervals at once; who is in none just syncs.

    Only the first processor of an interval knows of it; the others learn it, and so what to do, from the first message.
    """
    levels = _levels(call.bsp.p, degree)
    plans = None if interval is None else _plan_interval(interval, levels, degree)
    for superstep in range(levels):
        if interval is not None and plans is not None and superstep in plans:
            for dest, first, last in plans[superstep].sends(call.bsp.pid - interval.first):
                call.send(interval.first + dest, data[8 * first : 8 * last], interval)
        letters = call.sync()
        if letters and interval is None:
            interval = letters[0].note
            plans = _plan_interval(interval, levels, degree)
            data = np.empty(interval.nbytes, np.uint8)
        if interval is not None and plans is not None and superstep in plans:
            due = plans[superstep].receives(call.bsp.pid - interval.first)
            call.expect(letters, [interval.first + source for source in sources(due)])
            for letter, (_, first, last) in zip(letters, due, strict=True):
                data[8 * first : 8 * last] = letter.payload
    return interval, data


def _plan_interval(interval: Interval, levels: int, degree: int) -> dict[int, Step]:
    """What an interval does in which superstep of (3)iii; its processors count from its first."""
    return dict(_slots(plan_spread(interval.width, -(-interval.nbytes // 8), degree), levels))


def _taken(records: Records, ends: Counts, share: Share) -> Records:
    """The records of a share of the copies; the outer ones are split where others have a part of them."""
    begin, end = cut(ends, share.first, share.last)
    part: Records = records[int(begin) : int(end)].copy()
    part["copies"] = np.diff(np.minimum(ends[int(begin) : int(end)], share.last), prepend=share.first)
    return part


def _encoded(records: Records) -> NDArray[np.uint8]:
    """Records as bytes; of objects, a pickle."""
    if records.dtype.hasobject:
        return np.frombuffer(packed(records, "duplicate", "items"), np.uint8)
    return records.view(np.uint8)


def _decoded(data: NDArray[np.uint8], item_type: ItemType) -> Records:
    """What `_encoded` made bytes of, in memory of its own."""
    dtype = item_type.record
    records: Records = pickle.loads(data.tobytes()) if dtype.hasobject else data.view(dtype).copy()
    return records


def _given_back(records: Records, item_type: ItemType, expand: bool) -> Any:
    """Records as the caller gave items: each so many times, or beside its number of copies."""
    counts: Counts = np.ascontiguousarray(records["copies"])
    column = np.repeat(records["item"], counts, axis=0) if expand else records["item"].copy()
    found = column.tolist() if item_type.listed else column
    return found if expand else (found, counts)
