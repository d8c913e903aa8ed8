"""The order of all keys: global indices, sorted by key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import balanced
from .balanced_sort import key_kind, with_division
from .balanced_sort import plan_of as plan_of_sorting
from .plan import Plan
from .primitive import Call, primitive
from .sample_sort import checked
from .sample_sort import cost_of as cost_of_sorting
from .sample_sort import run as run_sorting
from .values import checked_out, placed

NAME = "argsort"
PLACES = 40  # bits of a key's place on its processor


def plan(p: int, counts: ArrayLike) -> Plan:
    """Who sends what to whom: samples, keys, sizes (item 0), and indices (items: places in what is sorted so far).

    Args:
        p: processors.
        counts: keys that go from processor i to j in the sample sort, shape (p, p), those that stay included.
    """
    return plan_of_sorting(NAME, p, counts)


def cost(machine: Machine, keys: ArrayLike | None = None, counts: ArrayLike | None = None, itemsize: int = 8) -> Cost:
    """What it costs: exactly if the counts are given, else the supersteps exactly, and no less h, M, messages and work.

    Args:
        machine: by which seconds are counted.
        keys: on each processor, a number or shape (p,). Unneeded with counts.
        counts: keys that go from processor i to j in the sample sort, shape (p, p), those that stay included.
        itemsize: bytes of a key.

    Raises:
        UsageError: neither keys nor counts, or what they cannot be.
    """
    sorting = cost_of_sorting(NAME, machine, keys, counts, itemsize, 8)
    return with_division(machine, sorting, keys, counts, [8], numbers=2)


@primitive(cost, plan)
def argsort(bsp: BSP, keys: Any, *, out: NDArray[Any] | None = None) -> Supersteps[NDArray[np.int64]]:
    """The indices that sort the keys of all processors, divided equally; stable; collective.

    Args:
        bsp: the processor.
        keys: shape (n,), a block: those of all processors, one after the other by pid, are the array that is sorted; n
            may differ from processor to processor and be 0. Any dtype that numpy sorts, in its order (NaN and NaT
            last), and objects that compare with <. The dtype is equal on all processors, empty blocks included; strings
            may differ in length.
        out: keyword only: an array for the result, of its shape and of a dtype that it can be cast to. None: a new one.

    Returns:
        Of ``np.argsort(all_keys, kind="stable")``, N indices of the whole array, those from pid*N div p up to
        (pid+1)*N div p: int64.

    Raises:
        UsageError: keys of a wrong shape, or that do not compare; dtypes differ; what cannot be pickled.

    BSP cost: four supersteps; none where p = 1: the two of `sample_sort` of keys with values of a word, one of h = 2 *
    (p-1) in which all learn how many keys lay and lie where, and one in which a processor sends at most the indices
    that it had, and gets at most ceil(N/p). `argsort.cost` has it exactly for given counts of keys, else as a bound.

    Source: as `sample_sort`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.argsort(bsp, [[9, 1, 1], [5], [7, 0]][bsp.pid]).tolist()
        >>> pybsp.simulate(main, p=3).results
        [[5, 1], [2, 3], [4, 0]]
    """
    block, _ = checked(keys, None, NAME)
    call = Call(bsp, NAME, keys=key_kind(block))
    checked_out(NAME, out)
    # 1. Each key goes with its processor and its place there.
    call.ends(4)
    here = (bsp.pid << PLACES) + np.arange(len(block))
    _, origins, _ = yield from run_sorting(call, block, here, stable=True)
    assert origins is not None
    # 2. How many keys lay before each processor's makes indices of them.
    sizes = yield from balanced.gathered(call, [len(block), len(origins)])
    starts = np.cumsum(sizes[:, 0]) - sizes[:, 0]
    indices = starts[origins >> PLACES] + (origins & ((1 << PLACES) - 1))
    # 3. They are divided equally.
    mine: NDArray[np.int64] = placed(NAME, (yield from balanced.run(call, [indices], sizes[:, 1]))[0], out)
    return mine
