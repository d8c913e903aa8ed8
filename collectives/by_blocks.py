"""Reduction by blocks: an array is cut into p blocks, and processor j combines the p blocks number j.

Where an operator works on items one by one it halves the words of trees, and divides their work by p: all processors
combine at once. What is combined then goes to all, or to a root.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..rides.ride import Supersteps
from .blocks import even_cuts
from .operators import Fold, Operator
from .plan import Plan, Step, joined
from .primitive import Call, combined, sources
from .values import room


@lru_cache(maxsize=64)
def plan(p: int, k: int, root: int | None = None) -> Plan:
    """Who sends which of the k items to whom, and the root gets the result, or all do (None): two supersteps."""
    if p == 1:
        return joined(p, ())
    ends = even_cuts(p, k)
    here, there = np.repeat(np.arange(p), p), np.tile(np.arange(p), p)
    out = Step.of(here, there, ends[there], ends[there + 1])
    going = slice(None) if root is None else here == root
    here, there = here[going], there[going]
    work = (p - 1) * int(np.diff(ends).max())
    back = Step.of(there, here, ends[there], ends[there + 1], work)
    return joined(p, (out, back))


def run(
    call: Call, value: Any, op: Operator, words: float, fold: Fold, root: int | None = None, out: Any = None
) -> Supersteps[Any]:
    """Combine arrays of at least p items of so many words, in `out` if it fits; None where the root alone has it."""
    p, pid = call.bsp.p, call.bsp.pid
    if p == 1:
        return value
    scatter, back = plan(p, value.size, root)
    flat = value.reshape(-1)
    first, last = (int(end) for end in even_cuts(p, value.size)[pid : pid + 2])
    # 1. Block j goes to processor j, which combines the p blocks.
    for dest, begin, end in scatter.sends(pid):
        call.send(dest, flat[begin:end])
    letters = yield from call.sync(sources(scatter.receives(pid)))
    mine = combined(call, letters, flat[first:last], op, (last - first) * words, fold)
    # 2. The sum of a block goes to all, or to the root.
    call.send_all([dest for dest, _, _ in back.sends(pid)], mine)
    due = back.receives(pid)
    letters = yield from call.sync(sources(due))
    if root not in (None, pid):
        return None
    result = room(out, value.shape, mine.dtype)
    into = result.reshape(-1)
    into[first:last] = mine
    for letter, (_, begin, end) in zip(letters, due, strict=True):
        into[begin:end] = letter.payload
    return result
