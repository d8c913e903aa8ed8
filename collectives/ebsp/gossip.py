"""All-to-all broadcast by pipelining along the processors (*The E-BSP model*, section 4)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...bsp import BSP
from ...machines.cost import Cost, Machine
from ...rides.ride import Supersteps
from ..one_superstep import priced, word_counts
from ..plan import Plan, Step, joined
from ..primitive import Call, primitive, sources
from ..values import own_argument, own_result, packed, unpacked


@lru_cache(maxsize=16)
def plan(p: int) -> Plan:
    """Who sends which block to whom; block j is the value of processor j."""
    # 1. Forward: in superstep i processor j sends block j - i to processor j + 1.
    forward = [Step.of(j := np.arange(i, p - 1), j + 1, j - i, j - i + 1) for i in range(p - 1)]
    # 2. Backward: in superstep i processor j sends block j + i to processor j - 1.
    backward = [Step.of(j := np.arange(1, p - i), j - 1, j + i, j + i + 1) for i in range(p - 1)]
    return joined(p, forward + backward)


def cost(machine: Machine, words: ArrayLike = 1) -> Cost:
    """What it costs, exactly, for so many words a processor, or for those of each processor, shape (p,)."""
    counts = word_counts("gossip.cost", words, (machine.p,))
    return priced(machine, plan(machine.p), lambda step: counts[step.first])


@primitive(cost, plan)
def gossip(bsp: BSP, value: Any) -> Supersteps[list[Any]]:
    """Give all processors the values of all, by messages between neighbours alone; collective.

    Args:
        bsp: the processor.
        value: a number, an array, or any picklable object; they may differ in all from processor to processor.

    Returns:
        The p values by pid: the own object (of a read-only array a copy), and values of one's own, which may be
        written to.

    Raises:
        UsageError: a value that cannot be pickled.

    BSP cost: 2*(p - 1) supersteps, each with locality 1 and h at most the words of the largest value; `gossip.cost` has
    it exactly.

    Source: *The E-BSP model*, section 4, Theorem 7.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> pybsp.simulate(lambda bsp: ebsp.gossip(bsp, bsp.pid), p=4).results[2]
        [0, 1, 2, 3]
    """
    call = Call(bsp, "gossip")
    pid = bsp.pid
    blocks: list[Any] = [None] * bsp.p
    value = own_argument(value)  # it is sent again in the second stage
    blocks[pid] = packed(value, "gossip")
    call.takes(len(plan(bsp.p)))
    for step in plan(bsp.p):
        for dest, block, _ in step.sends(pid):
            call.send(dest, blocks[block])
        due = step.receives(pid)
        letters = yield from call.sync(sources(due))
        for letter, (_, block, _) in zip(letters, due, strict=True):
            blocks[block] = own_result(letter.payload)
    values = [unpacked(block) for block in blocks]
    values[pid] = value
    return values
