"""Exclusive prefix of long arrays by blocks: case 1 of 2D-PREFIX (prefix_2d.py), whose sums go one processor further.

Processor q has block q of all arrays but the last one's, makes their prefix sums, and sends each to who it lies before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from .matrix_rows import cuts_of
from .plan import Plan, Step, joined
from .prefix_2d import accumulated
from .primitive import Call, Operator, own_result, sources


@lru_cache(maxsize=32)
def plan(p: int, n: int) -> Plan:
    """Who sends which of n items, at least p, to whom."""
    if p == 1:
        return joined(p, ())
    cuts = cuts_of(n, p)
    mine, owner = np.repeat(np.arange(p), p), np.tile(np.arange(p), p)
    first, last = cuts[owner], cuts[owner + 1]
    up, down = mine < p - 1, mine > 0
    work = int(np.diff(cuts).max()) * (p - 2)
    summed = Step.of(mine[up], owner[up], first[up], last[up])
    return joined(p, (summed, Step.of(owner[down], mine[down], first[down], last[down], work=work)))


@lru_cache(maxsize=1024)
def counted(p: int, n: int, words: float) -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, for items of so many words, without making it."""
    if p == 1:
        return ()
    items = np.diff(cuts_of(n, p))
    block = -(-items * round(8 * words) // 8)
    # Of p - 1 arrays each owner gets and sends its blocks, but what it has, or is for it.
    came, sent = (block * (p - 2 + (np.arange(p) == whole)) for whole in (p - 1, 0))
    out, into = (int(block.sum() - some.min()) for some in (block[:-1], block[1:]))
    work = int(items.max()) * (p - 2) * words
    return (
        Superstep(out, int(came.max()), p - 1, int(came.sum()), 0.0, p - 1),
        Superstep(int(sent.max()), into, p - 1, int(sent.sum()), work, p - 1),
    )


def cost(machine: Machine, n: int, words: float) -> Cost:
    """What it costs for n items of so many words."""
    return Cost(machine, counted(machine.p, n, words))


def run(call: Call, value: NDArray[Any], op: Operator, words: float) -> Supersteps[NDArray[Any] | None]:
    """Run it with an array of one axis, whose items have so many words; None on processor 0."""
    bsp = call.bsp
    p, pid = bsp.p, bsp.pid
    if p == 1:
        return None
    routed, back = plan(p, value.size)
    first, last = (int(cut) for cut in cuts_of(value.size, p)[pid : pid + 2])
    # 1. Block q goes to processor q.
    for dest, begin, end in routed.sends(pid):
        call.send(dest, value[begin:end])
    letters = yield from call.sync(sources(routed.receives(pid)))
    # 2. It makes the prefix sums of what came, and of its own.
    parts = [letter.payload for letter in letters]
    if pid < p - 1:
        parts.insert(pid, value[first:last])
    sums = call.own(lambda: accumulated(parts, op), "op")
    bsp.work((last - first) * (p - 2) * words)
    # 3. The sum up to a processor goes to the next one.
    for dest, _, _ in back.sends(pid):
        call.send(dest, sums[dest - 1])
    own = own_result(sums[pid - 1]) if pid else None  # the first is what arrived, and ends with the next sync
    letters = yield from call.sync(sources(back.receives(pid)))
    if pid == 0:
        return None
    pieces = [letter.payload for letter in letters]
    pieces.insert(pid, own)
    return np.concatenate(pieces)
