"""Dividing rows equally: a superstep in which all learn how many there are, and one in which rows move.

Rows stay in their order. Block j of N rows, those from j*N div p up to (j+1)*N div p, goes to processor j.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .allgather import cost as allgather_cost
from .allgather import plan as allgather_plan
from .blocks import Ints, even_cuts
from .plan import Plan, Step, joined
from .primitive import Call
from .values import packed, unpacked


def moves(sizes: Ints) -> Step:
    """Who sends what to whom: rows (items: places in the sender's block) of blocks of these sizes, shape (p,)."""
    last = np.cumsum(sizes)
    first, cuts = last - sizes, even_cuts(len(sizes), int(sizes.sum()))
    begin = np.maximum(first[:, None], cuts[None, :-1])
    end = np.minimum(last[:, None], cuts[None, 1:])
    here, there = np.nonzero(begin < end)
    return Step.of(here, there, (begin - first[:, None])[here, there], (end - first[:, None])[here, there])


@lru_cache(maxsize=64)
def _moves(sizes: tuple[int, ...]) -> Step:
    """`moves`; cached, as all virtual processors ask for the same."""
    return moves(np.array(sizes, np.int64))


def plan(sizes: Ints) -> Plan:
    """The superstep of the sizes (item 0: those of the sender), and that of `moves`."""
    p = len(sizes)
    return allgather_plan(p) if p == 1 else joined(p, (allgather_plan(p)[0], moves(sizes)))


def cost(machine: Machine, sizes: Ints, itemsizes: Sequence[int], numbers: int = 1) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        sizes: rows on each processor, shape (p,).
        itemsizes: bytes of a row, of each column.
        numbers: that each processor sends to all.
    """
    if machine.p == 1:
        return Cost(machine)
    step = moves(sizes)
    rows = (step.last - step.first).astype(np.int64)
    moved = step.counted(sum(-(-rows * size // 8) for size in itemsizes) + np.zeros(len(step), np.int64))
    moved = moved._replace(messages=moved.messages * len(itemsizes))
    return allgather_cost(machine, numbers) + Cost(machine, (moved,))


def bound(machine: Machine, total: int, largest: int, itemsizes: Sequence[int], numbers: int = 1) -> Cost:
    """What it costs at most, for so many rows in all and on the processor that has most."""
    p = machine.p
    if p == 1:
        return Cost(machine)

    # Every message may be rounded up to whole words; without rows there is no message.
    def words(rows: int, messages: int) -> int:
        return sum(-(-rows * size // 8) + (min(messages, rows) if size % 8 else 0) for size in itemsizes)

    agreement = allgather_cost(machine, numbers)
    moved = agreement[0]._replace(
        h_out=words(min(largest, total), p - 1),
        h_in=words(-(-total // p), p - 1),
        messages=(p - 1) * len(itemsizes),
        M=words(total, p * (p - 1)),
    )
    return agreement + Cost(machine, (moved,))


def gathered(call: Call, numbers: Sequence[int]) -> Supersteps[Ints]:
    """The numbers of all processors, shape (p, len(numbers))."""
    p, pid = call.bsp.p, call.bsp.pid
    table = np.empty((p, len(numbers)), np.int64)
    table[pid] = numbers
    if p > 1:
        others = [dest for dest in range(p) if dest != pid]
        for dest in others:
            call.send(dest, table[pid])
        for letter in (yield from call.sync(others)):
            table[letter.source] = letter.payload
    return table


def run(call: Call, columns: Sequence[NDArray[Any]], sizes: Ints) -> Supersteps[list[NDArray[Any]]]:
    """The columns of rows, divided equally; sizes: rows on each processor, shape (p,)."""
    p, pid = call.bsp.p, call.bsp.pid
    if p == 1:
        return [*columns]
    step = _moves(tuple(sizes.tolist()))
    for dest, first, last in step.sends(pid):
        for column in columns:
            call.send(dest, packed(column[first:last], call.name, "keys"))
    due = [source for source, _, _ in step.receives(pid) for _ in columns]
    letters = yield from call.sync(due)
    # What stays is in its place between what came from below and from above.
    begin = int(sizes[:pid].sum())
    cuts = even_cuts(p, int(sizes.sum()))
    stays = slice(max(0, int(cuts[pid]) - begin), max(0, int(cuts[pid + 1]) - begin))
    below = sum(source < pid for source in due)
    found = []
    for place, column in enumerate(columns):
        pieces = [unpacked(letter.payload) for letter in letters[place :: len(columns)]]
        pieces.insert(below // len(columns), column[stays])
        found.append(np.concatenate(pieces, dtype=column.dtype))
    return found
