"""Sorting whose result is divided equally: a sample sort, and a move of what lies on the wrong side of a border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import argument_error
from ..ground.convert import what
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import balanced
from .arguments import flag
from .blocks import row_kind
from .plan import Plan, joined
from .primitive import Call, primitive
from .regular_sampling import Keys, most
from .sample_sort import checked, table
from .sample_sort import cost_of as cost_of_sorting
from .sample_sort import plan_of as plan_of_sorting
from .sample_sort import run as run_sorting
from .values import checked_out, placed

NAME = "balanced_sort"


def plan(p: int, counts: ArrayLike) -> Plan:
    """Who sends what to whom: samples, keys, sizes (item 0), and keys again (items: places in what is sorted so far).

    Args:
        p: processors.
        counts: keys that go from processor i to j in the sample sort, shape (p, p), those that stay included.
    """
    return plan_of(NAME, p, counts)


def plan_of(name: str, p: int, counts: ArrayLike) -> Plan:
    """`plan`, for the primitive of this name."""
    sorted_by = plan_of_sorting(name, p, counts)
    into = table(f"{name}.plan", counts).sum(0)
    return joined(p, (*sorted_by, *balanced.plan(into)))


def cost(
    machine: Machine,
    keys: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    itemsize: int = 8,
    values: int | None = None,
) -> Cost:
    """What it costs: exactly if the counts are given, else the supersteps exactly, and no less h, M, messages and work.

    Args:
        machine: by which seconds are counted.
        keys: on each processor, a number or shape (p,). Unneeded with counts.
        counts: keys that go from processor i to j in the sample sort, shape (p, p), those that stay included.
        itemsize: bytes of a key.
        values: bytes of a value; None where no values go with the keys.

    Raises:
        UsageError: neither keys nor counts, or what they cannot be.
    """
    moved = [itemsize] if values is None else [itemsize, values]
    sorting = cost_of_sorting(NAME, machine, keys, counts, itemsize, values)
    return with_division(machine, sorting, keys, counts, moved)


def with_division(
    machine: Machine,
    sorting: Cost,
    keys: ArrayLike | None,
    counts: ArrayLike | None,
    itemsizes: Sequence[int],
    numbers: int = 1,
) -> Cost:
    """The cost of a sample sort, and of what divides the columns of these bytes a row equally behind it."""
    if counts is not None:
        return sorting + balanced.cost(machine, np.asarray(counts, np.int64).sum(0), itemsizes, numbers)
    sizes = np.broadcast_to(np.asarray(keys, np.int64), (machine.p,))
    return sorting + balanced.bound(machine, int(sizes.sum()), most(machine.p, sizes), itemsizes, numbers)


@primitive(cost, plan)
def balanced_sort(
    bsp: BSP,
    keys: Any,
    values: Any = None,
    stable: bool = False,
    *,
    out: NDArray[Any] | tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> Supersteps[Any]:
    """Sort the keys of all processors, and divide them equally; collective.

    `sample_sort` in two supersteps more; it is enough where it does not matter how many keys lie where.

    Args:
        bsp: the processor.
        keys: shape (n,), where n may differ from processor to processor and be 0; they are left as they are. Any dtype
            that numpy sorts, in its order (NaN and NaT last), and objects that compare with <. The dtype is equal on
            all processors, empty blocks included; strings may differ in length.
        values: None, or what goes with the keys: shape (n, ...) of any dtype, which is equal on all processors.
        stable: whether equal keys stay in order: by processor, then as they were there. Equal on all processors.
        out: keyword only: an array for the keys, of their shape here and of a dtype that they can be cast to; where
            values go with them, two arrays, for keys and values. None: new ones.

    Returns:
        Of all N keys, sorted, those from pid*N div p up to (pid+1)*N div p; or (keys, values). Arrays of its own.

    Raises:
        UsageError: keys or values of a wrong shape; keys that do not compare; dtypes, shapes of values, or stable
            differ; values on some processors only; what cannot be pickled.

    BSP cost: four supersteps; none where p = 1: the two of `sample_sort`, one of h = p - 1 in which all learn how many
    keys lie where, and one in which a processor sends at most what it had, and gets at most ceil(N/p) keys.
    `balanced_sort.cost` has it exactly for given counts of keys, else as a bound.

    Source: as `sample_sort`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     return collectives.balanced_sort(bsp, [[9, 1, 1], [5], [7, 0]][bsp.pid]).tolist()
        >>> pybsp.simulate(main, p=3).results
        [[0, 1], [1, 5], [7, 9]]
    """
    block, carried = checked(keys, values, NAME)
    stable = flag(NAME, "stable", stable)
    agreed = "None" if carried is None else row_kind(carried)
    call = Call(bsp, NAME, keys=key_kind(block), values=agreed, stable=stable)
    outs = _outs(out, 1 if carried is None else 2)
    call.ends(4)
    merged, carried, _ = yield from run_sorting(call, block, carried, stable)
    columns = [merged] if carried is None else [merged, carried]
    sizes = (yield from balanced.gathered(call, [len(columns[0])]))[:, 0]
    columns = yield from balanced.run(call, columns, sizes)
    columns = [placed(NAME, column, one) for column, one in zip(columns, outs, strict=True)]
    return columns[0] if carried is None else (columns[0], columns[1])


def _outs(out: Any, columns: int) -> list[Any]:
    """The argument out, for each column; a UsageError where it is not one array for each."""
    if out is not None and columns > 1 and not (type(out) in (tuple, list) and len(out) == columns):
        raise argument_error(NAME, "out", "two arrays, for keys and values", what(out))
    outs = [out] if columns == 1 else [None] * columns if out is None else [*out]
    for one in outs:
        checked_out(NAME, one)
    return outs


def key_kind(block: Keys) -> str:
    """The dtype of keys, as processors compare it: strings may differ in length."""
    return {"U": "str", "S": "bytes"}.get(block.dtype.kind) or str(block.dtype)
