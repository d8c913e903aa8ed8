"""A random permutation in one superstep: how many indices go where is drawn by all alike, which ones by each alone.

Each processor sends the next one a message even where that has no index, so that n and seed, which come with every
message, are compared all around.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine, Superstep
from ..rides.ride import Supersteps
from .arguments import integer
from .blocks import Ints, even_cuts
from .plan import Plan, Step, joined
from .primitive import Call, pids_of, primitive
from .values import checked_out, placed

NAME = "random_permutation"
MOST = 10**9 - 1  # as numpy draws hypergeometric numbers of fewer items


def plan(p: int, n: int, seed: int) -> Plan:
    """Who sends how many indices to whom: places in the sender's shuffled block (the items)."""
    p, n, seed = _checked("random_permutation.plan", p, n, seed)
    return _plan(p, n, seed)


@lru_cache(maxsize=8)
def _plan(p: int, n: int, seed: int) -> Plan:
    if p == 1:
        return joined(p, ())
    counts = np.array([dealt(p, pid, n, seed) for pid in range(p)])
    last = np.cumsum(counts, axis=1)
    each = np.arange(p)
    moves = counts > 0
    moves[each, (each + 1) % p] = True
    here, there = np.nonzero(moves)
    return joined(p, [Step.of(here, there, (last - counts)[here, there], last[here, there])])


def _checked(name: str, p: int, n: int, seed: int) -> tuple[int, int, int]:
    """The arguments."""
    return integer(name, "p", p, 1), integer(name, "n", n, 0, MOST), integer(name, "seed", seed, 0)


def cost(machine: Machine, n: int, seed: int | None = None) -> Cost:
    """What it costs: exactly with the seed; without one the superstep exactly, and no less h, M and messages.

    Args:
        machine: its p is that of the processors.
        n: indices.
        seed: as given to `random_permutation`.
    """
    p, n, _ = _checked("random_permutation.cost", machine.p, n, 0 if seed is None else seed)
    largest = -(-n // p)
    if p == 1:
        return Cost(machine, (), largest)
    if seed is None:
        moved = Superstep(largest, largest, min(p - 1, largest + 1), n, largest, p - 1)
    else:
        moved = plan(p, n, seed)[0].counted()._replace(w=largest)
    return Cost(machine, (moved,), largest)


@primitive(cost, plan)
def random_permutation(
    bsp: BSP, n: int, seed: int, *, out: NDArray[Any] | None = None
) -> Supersteps[NDArray[np.int64]]:
    """A random order of the numbers 0 to n - 1, divided equally; collective.

    Every one of the n! orders is equally likely, as far as numpy's generator goes.

    Args:
        bsp: the processor.
        n: how many, 0 to 10^9 - 1. Equal on all processors.
        seed: a whole number of at least 0. Equal on all processors.
        out: keyword only: an array for the result, of its shape and of a dtype that it can be cast to. None: a new one.

    Returns:
        The numbers at the places from pid*n div p up to (pid+1)*n div p, int64. They depend on n, the seed, p, and on
        the stream of numpy's default generator, which new versions of numpy may change; on nothing else.

    Raises:
        UsageError: n or seed are no such numbers, or differ.

    BSP cost: one superstep with h <= ceil(n/p), where each processor sends a message to the next one, if only an empty
    one; none where p = 1. ceil(n/p) flop before and after it. Beside that, each processor draws about 2*p numbers.
    `random_permutation.cost` has it exactly for a seed, else as a bound.

    Source: Sanders, *Random permutations on distributed, external and hierarchical memory* (1998): shuffle, deal,
    shuffle. The numbers dealt are drawn as a table whose sums are those of the blocks, as Gustedt, *Efficient sampling
    of random permutations* (2008), has them, so that nothing has to be balanced afterwards. Each processor draws only
    what its own row of the table takes, by halves: how many of the upper half of the rows go where, and so on.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.random_permutation(bsp, 10, seed=1)
        >>> parts = pybsp.simulate(main, p=3).results
        >>> [len(part) for part in parts], sorted(np.concatenate(parts).tolist())
        ([3, 3, 4], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    p, n, seed = _checked(NAME, bsp.p, n, seed)
    pid = bsp.pid
    call = Call(bsp, NAME, n=n, seed=seed)
    checked_out(NAME, out)
    cuts = even_cuts(p, n)
    # One stream of numbers for each processor; another one than those that deal.
    random = np.random.default_rng([seed, 1, pid])

    # 1. The block is shuffled, and its parts go to the others.
    mine = np.arange(cuts[pid], cuts[pid + 1])
    random.shuffle(mine)
    bsp.work(mine.size)
    if p == 1:
        return cast("Ints", placed(NAME, mine, out))
    counts = dealt(p, pid, n, seed).tolist()
    parts = np.split(mine, np.cumsum(counts)[:-1])
    before, behind = (pid - 1) % p, (pid + 1) % p
    for dest, part in enumerate(parts):
        if dest == behind or (dest != pid and part.size):
            call.send(dest, part)
    call.ends(1)
    letters = yield from call.sync()
    call.expect([letter for letter in letters if letter.source == before], [before])

    # 2. What came, and what stayed, is shuffled.
    found = np.concatenate([parts[pid], *(letter.payload for letter in letters)])
    if found.size != cuts[pid + 1] - cuts[pid]:
        (own,) = pids_of(bsp, [pid])
        call.differ(
            f"processor {own} expected {cuts[pid + 1] - cuts[pid]} numbers, and got {found.size}: the others drew "
            "other ones; versions of numpy must be equal on all processors"
        )
    random.shuffle(found)
    bsp.work(found.size)
    return cast("Ints", placed(NAME, found, out))


def dealt(p: int, pid: int, n: int, seed: int) -> Ints:
    """How many indices a processor sends to each: its row of a random table whose sums are those of the blocks."""
    cuts = even_cuts(p, n)
    first, last, node = 0, p, 1
    left = np.diff(cuts)  # what the rows from first to last - 1 have for each processor
    while last - first > 1:
        middle = (first + last) // 2
        random = np.random.default_rng([seed, 0, node])
        upper = random.multivariate_hypergeometric(left, cuts[last] - cuts[middle], method="marginals")
        if pid >= middle:
            first, left, node = middle, upper, 2 * node + 1
        else:
            last, left, node = middle, left - upper, 2 * node
    return left
