"""Group by: the values of equal keys of all processors combined."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import UsageError, brief
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import grouping
from .balanced_sort import key_kind
from .blocks import row_kind
from .operators import check_operator, elementwise
from .plan import Plan
from .primitive import Call, primitive
from .regular_sampling import Keys
from .sample_sort import checked


def plan(p: int, counts: ArrayLike) -> Plan:
    """Who sends what to whom: samples (items of the sender's), then keys (items: places in the sender's sorted ones).

    Args:
        p: processors.
        counts: distinct keys of processor i that go to j, shape (p, p), those that stay included.
    """
    return grouping.plan("group_by", p, counts)


def cost(
    machine: Machine, keys: ArrayLike, counts: ArrayLike | None = None, itemsize: int = 8, values: int = 8
) -> Cost:
    """What it costs: exactly if the counts are given, else the supersteps exactly, and no less h, M, messages and work.

    Args:
        machine: by which seconds are counted.
        keys: on each processor, a number or shape (p,).
        counts: distinct keys of processor i that go to j, shape (p, p), those that stay included.
        itemsize: bytes of a key.
        values: bytes of what the values of a key are combined to.
    """
    return grouping.cost("group_by", machine, keys, counts, itemsize, values)


@primitive(cost, plan)
def group_by(bsp: BSP, keys: Any, values: Any, op: np.ufunc) -> Supersteps[tuple[Keys, NDArray[Any]]]:
    """Combine the values of equal keys over all processors; collective.

    Args:
        bsp: the processor.
        keys: shape (n,), where n may differ from processor to processor and be 0. Any dtype that numpy sorts,
            structures for keys of several parts included; objects must compare with <. The dtype is equal on all
            processors, empty blocks included; strings may differ in length.
        values: shape (n, ...), one for each key; dtype and shape of a value are equal on all processors.
        op: an associative numpy ufunc of two arguments, as np.add or np.maximum. Values are combined in the order in
            which they lie: by processor, then as they are there. Equal on all processors.

    Returns:
        (keys, values): this processor's part of the distinct keys in order, and of each what ``op.reduce`` makes of its
        values (of small integers np.add makes larger ones, as np.sum does). One part after the other by pid they are
        the whole. NaNs are one key, but in structures. How long a part is depends on the keys: of p blocks of n
        distinct ones at most 2*n + p - 1. Bits of floating-point sums depend on how keys are divided among processors.

    Raises:
        UsageError: keys or values of a wrong shape, or that do not compare; op is no such ufunc, or raised; dtypes,
            shape of a value, or op differ; what cannot be pickled.

    BSP cost: as that of `sample_sort` for the distinct keys of each processor, with what their values are combined to;
    the first sort is of all n keys. `group_by.cost` has it exactly for given counts of keys, else as a bound.

    Source: sorting by regular sampling (as `sample_sort`), where equal keys stay together; values are combined before
    they travel, as by the combiner of Dean and Ghemawat, *MapReduce* (2004), section 4.3.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     words, years = [(["b", "a"], [7, 3]), (["a"], [5]), (["c", "b"], [1, 9])][bsp.pid]
        ...     keys, latest = collectives.group_by(bsp, words, years, np.maximum)
        ...     return dict(zip(keys.tolist(), latest.tolist()))
        >>> pybsp.simulate(main, p=3).results
        [{'a': 5}, {}, {'b': 9, 'c': 1}]
    """
    name = check_operator("group_by", op)
    if not elementwise(op):
        raise UsageError(f"group_by: argument op: expected a numpy ufunc of two arguments, as np.add, got {brief(op)}")
    if values is None:
        raise UsageError("group_by: argument values: expected one for each key, got None; unique needs none")
    block, carried = checked(keys, values, "group_by")
    assert carried is not None
    call = Call(bsp, "group_by", keys=key_kind(block), values=row_kind(carried), op=name)
    grouped = yield from grouping.run(call, block, carried, op)
    assert grouped.values is not None
    return grouped.keys, grouped.values
