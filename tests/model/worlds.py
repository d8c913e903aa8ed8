"""The worlds that are explored, and what must hold where all ranks have ended."""

from __future__ import annotations

import gc
from functools import partial

from .machine import CELLS, Cells, Explored, Memory, Program, Ranks, explore
from .protocol import Rank, World

TWO, THREE = ((0, 1),), ((0, 1, 2),)
ALONE_2, ALONE_3 = ((0,), (1,)), ((0,), (1,), (2,))
TWICE_A_PART = (((0, 1), 1), 1, ((0, 1), 1), 1)

# Small enough for every run of the tests; `larger` has no such limit.
QUICK = {
    "board": World(2, (3,), ("quiet", "data"), TWO, keeps=2),
    "board, for itself": World(2, (3,), ("mail", "own"), TWO),
    "board, long kept": World(2, (4,), ("data",), TWO, ages=2),
    "board, begin and end": World(2, (2,), ("data", "data+"), TWO, keeps=1),
    "board, by message": World(2, (2,), ("send", "quiet"), TWO, keeps=1),
    "board, full": World(2, (2,), ("laid", "late"), TWO, keeps=1),
    "board, shown": World(2, (3,), ("show", "quiet"), TWO),
    "board, shown and lent": World(2, (2,), ("show", "data"), TWO, keeps=1),
    "board of three, shown": World(3, (2,), ("show",), THREE),
    "board of three": World(3, (1,), ("quiet", "data", "note"), THREE, keeps=1),
    "board of three, three exchanges": World(3, (3,), ("data",), THREE, keeps=1),
    "parts": World(2, TWICE_A_PART, ("data",), TWO),
    "parts of three": World(3, (1, ((0, 1), 1), 1, ((1, 2), 1)), ("mail",), THREE),
    "leader": World(2, (2,), ("quiet", "data"), TWO, led=True),
    "leader of three": World(3, (1,), ("quiet", "data"), THREE, led=True),
    "messages": World(2, (3,), ("data", "mail"), ALONE_2),
    "messages, long manifests": World(2, (2,), ("quiet", "laid"), ALONE_2),
    "messages of three": World(3, (2,), ("mail",), ALONE_3),
    "board and messages": World(3, (2,), ("mail",), ((0, 1), (2,))),
    "broken board": World(2, (2,), ("data",), TWO, raises=1, raisers=(0,)),
    "broken board, by message": World(2, (1,), ("send",), TWO, raises=1),
    "broken board of three": World(3, (1,), ("mail",), THREE, raises=1, raisers=(0,)),
    "broken board, shown": World(2, (2,), ("show",), TWO, raises=1),
    "broken messages": World(2, (1,), ("mail", "data"), ALONE_2, raises=1, raisers=(0,)),
    "broken messages, long manifests": World(2, (1,), ("laid",), ALONE_2, raises=1),
    "broken twice": World(2, (1,), ("mail",), ALONE_2, raises=2),
    "lost": World(3, (1,), ("mail",), THREE, raises=1, lost=True),
}


def larger(ranks: int, exchanges: int, says: tuple[str, ...], raises: int) -> dict[str, World]:
    """The same kinds of world, of so many ranks and exchanges."""
    together, alone = (tuple(range(ranks)),), tuple((rank,) for rank in range(ranks))
    script: tuple[object, ...] = (exchanges,)
    some = tuple(range(ranks - 1)) if ranks > 2 else (0, 1)
    found = {
        "board": World(ranks, script, says, together, keeps=exchanges),
        "parts": World(
            ranks, (1, (some, exchanges - 1), 1, ((ranks - 2, ranks - 1), exchanges - 1), 1), says, together
        ),
    }
    if sent := tuple(what for what in says if what != "show"):  # records are shown where all are on one board
        found["leader"] = World(ranks, script, sent, together, led=True)
        found["messages"] = World(ranks, script, sent, alone)
        if ranks > 2:
            found["board and messages"] = World(ranks, script, sent, (some, (ranks - 1,)))
    if raises:
        found |= {f"broken {name}": world._replace(raises=raises) for name, world in found.items()}
    return found


def explored(world: World, rank: type[Rank] = Rank, limit: int | None = None, cells: int = CELLS) -> Explored:
    """Explore the ranks of a world.

    Args:
        rank: what they do; of a mutant, another class.
        limit: states, at most.
        cells: of the memory, at most.
    """
    memory = Memory(cells)
    programs = [partial(_program, rank, world, memory, own) for own in range(world.p)]
    collects = gc.isenabled()
    gc.disable()  # all that is made is kept: looking through it again and again takes a fifth of the time
    try:
        return explore(Ranks(memory, programs, world.raises, partial(_left_over, world)), limit)
    finally:
        if collects:
            gc.enable()


def _program(rank: type[Rank], world: World, memory: Memory, own: int) -> Program:
    return rank(world, memory, own).program()


def _left_over(world: World, memory: Memory, cells: Cells) -> str:
    """No message or receive is left; but for notices of a rank that never came."""
    left = [memory.name(cell) for cell, _ in memory.channels if cells[cell] and cells[cell] != (0, ())]
    if not world.lost:
        left += [memory.name(cell) for name, cell in memory.names.items() if name[0] == "control" and cells[cell]]
    return f"at the end there is something left in {left}" if left else ""
