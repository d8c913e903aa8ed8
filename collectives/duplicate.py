"""DUPLICATE(P): copies of items, balanced over processors (*Communication primitives for BSP computers*, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import UsageError
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import duplicate_shares, tree
from .arguments import fan_out, flag, integer
from .broadcast_items import plan as plan_spread
from .counted.duplicate import bound, counted, one_item
from .duplicate_items import (
    MOST,
    ItemType,
    Records,
    agreed,
    checked_lists,
    decoded,
    encoded,
    given_back,
    opened,
    record_bytes,
    taken,
)
from .duplicate_shares import Share, plan_prefix, shares, slots, spreading
from .plan import Plan, Step
from .primitive import Call, primitive, sources


class Interval(NamedTuple):
    """The processors first, ..., first + width - 1, which share a set S_i, of so many bytes."""

    first: int
    width: int
    nbytes: int


class Delivered(NamedTuple):
    """What a processor has behind step (3)ii: S_i as bytes, if it is the first of an interval, and other records.

    pieces: (source, records).
    """

    interval: Interval | None
    data: NDArray[np.uint8]
    pieces: list[tuple[int, Records]]


def plan(p: int, copies: Any, degree: int = 2, words: float = 1) -> Plan:
    """Who sends which words to whom, where processor i has items to be copied copies[i] times, of so many words each.

    A message's items are words: sums in step (2), words of items and copies after it.
    """
    name = "duplicate.plan"
    return duplicate_shares.plan(p, checked_lists(name, p, copies), degree, record_bytes(name, words))


def choose(machine: Machine) -> int:
    """The degree that costs least for one item with as many copies as processors; larger sets of items need it less."""
    return min(tree.degrees(machine.p), key=lambda degree: Cost(machine, *one_item(machine.p, degree)).seconds)


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
    nbytes = record_bytes(name, words)
    chosen = given or choose(machine)
    if copies is not None:
        return Cost(machine, *counted(machine.p, checked_lists(name, machine.p, copies), chosen, nbytes))
    if items is None or total is None:
        raise UsageError(f"{name}: argument copies: expected p arrays, or numbers as items and total, got neither")
    most = integer(name, "items", items, 0), integer(name, "total", total, 0, MOST)
    return bound(machine, nbytes, *most, chosen)


@primitive(cost, plan)
def duplicate(bsp: BSP, items: Any, copies: Any, expand: bool = True, degree: int | None = None) -> Supersteps[Any]:
    """Make copies of items, and give all processors equally many of them; collective.

    The copies of all items are numbered by processor, then by index of the item. With M copies in all, processor q gets
    those number q*b to (q+1)*b - 1, where b = ceil(M/p): no processor gets more, the last ones may get fewer, or none.

    Args:
        bsp: the processor.
        items: this processor's n: an array of shape (n, ...), or a list (or tuple) of picklable objects. On all
            processors that have items, arrays of equal dtype and item shape, or lists; where there are none, any empty
            one. Where there are none at all, the copies are what processor 0 gives.
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

    Source: *Communication primitives for BSP computers*, section 5, algorithm DUPLICATE(P), in the order of figure 4:
    copies stay in order, where the text would begin the set S_i with a processor's first item.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.duplicate(bsp, ["a", "b"] if bsp.pid == 0 else [], [5, 1] if bsp.pid == 0 else [])
        >>> pybsp.simulate(main, p=3).results
        [['a', 'a'], ['a', 'a'], ['a', 'b']]
    """
    given = fan_out("duplicate", degree)
    expand = flag("duplicate", "expand", expand)
    call = Call(bsp, "duplicate", degree=given)
    own, n, records = opened(items, copies, bsp.p, bsp.pid)
    by = given or choose(bsp.machine)
    call.ends(len(plan_prefix(bsp.p, by)) + 1 + spreading(bsp.p, by))
    item_type, found = yield from run(call, own, n, records, by)
    return given_back(found, item_type, expand)


def run(call: Call, own: ItemType, n: int, records: Records, degree: int) -> Supersteps[tuple[ItemType, Records]]:
    """The paper's steps, on records of those n items that are copied at all; returns this processor's copies."""
    bsp = call.bsp
    # (1) M_i.
    copies = int(records["copies"].sum())
    bsp.work(n)
    # (2) l_i, r_i and M/P, from the number of this processor's first copy, and M. M/P is rounded up: what the last
    # processors lack is the paper's dummy item.
    before, total, item_type = yield from _numbered(call, copies, own, degree)
    to_l, to_s, to_r = shares(before, before + copies, max(1, -(-total // bsp.p)))
    # (3)i. S_i, the copies for l_i+1, ..., r_i-1. As in figure 4 it begins where the share of l_i ends.
    ends = before + np.cumsum(records["copies"])
    for_l, s_i, for_r = (taken(records, ends, share) for share in (to_l, to_s, to_r))
    bsp.work(len(for_l) + len(s_i) + len(for_r))
    if bsp.p == 1:
        return item_type, for_l
    # (3)ii. S_i goes to l_i+1. (4) The others go to l_i and r_i; they are known by now, so in the same superstep.
    sent = [(to_l, for_l), (to_s, s_i), (to_r, for_r)]
    delivered = yield from _sent(call, sent, Interval(int(to_s.dest), int(to_r.dest) - int(to_s.dest), 0), item_type)
    # (3)iii. l_i+1 broadcasts S_i to l_i+1, ..., r_i-1. (3)iv. The value l_i+1 rides beside the items.
    interval, data = yield from _spread(call, delivered.interval, delivered.data, degree)
    # (3)v. Each takes what is destined for it. All its copies are of one processor.
    if interval is not None:
        return item_type, _destined(call, interval, decoded(data, item_type))
    # Elsewhere the copies are what came, by the processors' order.
    pieces = [piece for _, piece in sorted(delivered.pieces, key=lambda piece: piece[0])]
    return item_type, np.concatenate([np.empty(0, item_type.record), *pieces], dtype=item_type.record)


def _numbered(call: Call, ours: int, item_type: ItemType, degree: int) -> Supersteps[tuple[int, int, ItemType]]:
    """The sum of the processors below, that of all, and the type of all items, which rides beside the sums."""
    pid = call.bsp.pid
    upto = downto = ours  # sums of the d^t processors that end, and begin, with this one
    for step in plan_prefix(call.bsp.p, degree):
        for dest, _, _ in step.sends(pid):
            call.send(dest, upto if dest > pid else downto, (item_type,))
        letters = yield from call.sync(sources(step.receives(pid)))
        for letter in letters:
            item_type = agreed(call.bsp, item_type, letter.note[0])
            if letter.source < pid:
                upto += letter.payload
            else:
                downto += letter.payload
        call.bsp.work(len(letters))
    return upto - ours, upto + downto - ours, item_type


def _sent(
    call: Call, sent: Sequence[tuple[Share, Records]], between: Interval, item_type: ItemType
) -> Supersteps[Delivered]:
    """One superstep: the shares of this processor's copies go where they belong, that of `between` with a note."""
    pid = call.bsp.pid
    interval, data = None, np.empty(0, np.uint8)
    pieces: list[tuple[int, Records]] = []
    for number, (share, records) in enumerate(sent):
        if len(records):
            dest, payload = int(share.dest), encoded(records)
            note = between._replace(nbytes=payload.size) if number == 1 else None
            if dest != pid:
                call.send(dest, payload, note)
            elif note is None:
                pieces.append((pid, records))
            else:
                interval, data = note, payload
    letters = yield from call.sync()
    for letter in letters:
        if letter.note is None:
            pieces.append((letter.source, decoded(letter.payload, item_type)))
        else:
            interval, data = letter.note, letter.payload.copy()
    return Delivered(interval, data, pieces)


def _spread(
    call: Call, interval: Interval | None, data: NDArray[np.uint8], degree: int
) -> Supersteps[tuple[Interval | None, NDArray[np.uint8]]]:
    """2D-BCAST of the bytes of S_i in its interval, in all intervals at once; who is in none just syncs.

    Only the first processor of an interval knows of it; the others learn it, and so what to do, from the first message.
    """
    levels = spreading(call.bsp.p, degree)
    plans = None if interval is None else _plan_interval(interval, levels, degree)
    for superstep in range(levels):
        if interval is not None and plans is not None and superstep in plans:
            for dest, first, last in plans[superstep].sends(call.bsp.pid - interval.first):
                call.send(interval.first + dest, data[8 * first : 8 * last], interval)
        letters = yield from call.sync()
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
    return dict(slots(plan_spread(interval.width, -(-interval.nbytes // 8), degree), levels))


def _destined(call: Call, interval: Interval, whole: Records) -> Records:
    """Of S_i, the copies of a processor of its interval."""
    call.bsp.work(len(whole))
    ends = np.cumsum(whole["copies"])
    block = int(ends[-1]) // interval.width
    place = call.bsp.pid - interval.first
    return taken(whole, ends, Share(call.bsp.pid, place * block, (place + 1) * block))
