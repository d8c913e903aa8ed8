"""The distinct keys of all processors, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..bsp import BSP
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import grouping
from .arguments import flag
from .balanced_sort import key_kind
from .plan import Plan
from .primitive import Call, primitive
from .sample_sort import checked


def plan(p: int, counts: ArrayLike, return_inverse: bool = False) -> Plan:
    """Who sends what to whom: samples (items of the sender's), then keys (items: places in the sender's sorted ones).

    Args:
        p: processors.
        counts: distinct keys of processor i that go to j, shape (p, p), those that stay included.
        return_inverse: as given to `unique`: then indices go back (items: places among the keys that came to the
            sender, by their sources).
    """
    return grouping.plan("unique", p, counts, flag("unique.plan", "return_inverse", return_inverse))


def cost(
    machine: Machine,
    keys: ArrayLike,
    counts: ArrayLike | None = None,
    itemsize: int = 8,
    return_counts: bool = False,
    return_inverse: bool = False,
) -> Cost:
    """What it costs: exactly if the counts are given, else the supersteps exactly, and no less h, M, messages and work.

    Args:
        machine: by which seconds are counted.
        keys: on each processor, a number or shape (p,).
        counts: distinct keys of processor i that go to j, shape (p, p), those that stay included.
        itemsize: bytes of a key.
        return_counts, return_inverse: as given to `unique`.
    """
    values = 8 if flag("unique.cost", "return_counts", return_counts) else None
    indexed = flag("unique.cost", "return_inverse", return_inverse)
    return grouping.cost("unique", machine, keys, counts, itemsize, values, indexed)


@primitive(cost, plan)
def unique(bsp: BSP, keys: Any, return_counts: bool = False, return_inverse: bool = False) -> Supersteps[Any]:
    """The distinct keys of all processors, in order; collective.

    Args:
        bsp: the processor.
        keys: shape (n,), where n may differ from processor to processor and be 0. Any dtype that numpy sorts,
            structures for keys of several parts included; objects must compare with <. The dtype is equal on all
            processors, empty blocks included; strings may differ in length.
        return_counts: whether to count how often each is there. Equal on all processors.
        return_inverse: whether to say where this processor's keys are among the distinct ones. Equal on all processors.

    Returns:
        This processor's part of what `np.unique` makes of the keys of all, or (keys, counts), counts int64: one part
        after the other by pid they are the whole. NaNs are one key, but in structures. How long a part is depends on
        the keys: of p blocks of n distinct ones at most 2*n + p - 1. With return_inverse (keys, inverse), or (keys,
        inverse, counts), as by numpy: inverse is int64 of shape (n,), the index in the whole of each key that this
        processor gave, which numbers names from 0 on.

    Raises:
        UsageError: keys of a wrong shape, or that do not compare; dtypes, return_counts or return_inverse differ; what
            cannot be pickled.

    BSP cost: as that of `sample_sort` for the distinct keys of each processor, with values of a word where they are
    counted; the first sort is of all n keys. The inverse takes one superstep more, in which a processor gets a word for
    each of its distinct keys, and sends one for each that came to it. `unique.cost` has it exactly for given counts of
    keys, else as a bound.

    Source: sorting by regular sampling (as `sample_sort`), where equal keys stay together.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     keys, counts = collectives.unique(bsp, list(["tea", "at", "a", "tea"][bsp.pid]), return_counts=True)
        ...     return keys.tolist(), counts.tolist()
        >>> pybsp.simulate(main, p=4).results
        [([], []), (['a'], [4]), (['e'], [2]), (['t'], [3])]
        >>> def numbered(bsp):
        ...     _, numbers = collectives.unique(bsp, [["pear", "fig"], ["fig", "apple"]][bsp.pid], return_inverse=True)
        ...     return numbers.tolist()
        >>> pybsp.simulate(numbered, p=2).results
        [[2, 1], [1, 0]]
    """
    block, _ = checked(keys, None, "unique")
    counted = flag("unique", "return_counts", return_counts)
    indexed = flag("unique", "return_inverse", return_inverse)
    call = Call(bsp, "unique", keys=key_kind(block), return_counts=counted, return_inverse=indexed)
    found = yield from grouping.run(call, block, None, np.add, counted, indexed)
    results = [found.keys, *[found.indices] * indexed, *[found.values] * counted]
    return tuple(results) if len(results) > 1 else found.keys
