"""Histogram of the values of all processors, on all of them."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import argument_error, brief
from ..ground.convert import no_mask, what
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from . import records
from .allreduce import choose, supersteps
from .allreduce import cost as cost_of_reduction
from .allreduce import run as run_reduction
from .arguments import flag, integer, numbers
from .blocks import block_of
from .one_superstep import at_once, folded, is_at_once
from .operators import of_argument
from .plan import Plan
from .primitive import NOT_SMALL, Call, primitive
from .values import checked_out, placed

NAME = "histogram"
# Up to these bins, and ends of a range, are not looked at.
MANY, LARGEST = 1 << 16, 1e300


def plan(p: int, degree: int) -> Plan:
    """Who sends what it knows of its group (item 0) to whom, as in `allreduce`.

    Once for the extremes, where these are looked for, and once for the counts; those of many bins go by blocks, as
    `allreduce.plan` says, by blocks.
    """
    return records.plan(p, degree)


def cost(
    machine: Machine, n: int = 0, bins: int = 10, itemsize: int = 8, searched: bool = True, weight: int = 8
) -> Cost:
    """What it costs, exactly.

    Args:
        machine: its p is that of the processors.
        n: values of the largest block.
        bins: their number.
        itemsize: bytes of a value.
        searched: whether the extremes are looked for: neither edges nor a range are given.
        weight: bytes of a weight, where there are weights.
    """
    n, bins = integer("histogram.cost", "n", n, 0), integer("histogram.cost", "bins", bins, 1)
    itemsize, weight = (
        integer("histogram.cost", argument, size, 1) for argument, size in (("itemsize", itemsize), ("weight", weight))
    )
    pass_over = Cost(machine, (), n)
    counting = pass_over + cost_of_reduction(machine, bins * weight / 8, items=bins)
    if not flag("histogram.cost", "searched", searched):
        return counting
    return pass_over + records.cost(machine, 2 * itemsize + 1) + counting  # two values, and whether there are any


def _small(
    bsp: BSP,
    values: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    weights: Any = None,
    density: bool = False,
    *,
    out: NDArray[Any] | None = None,
) -> Any:
    given = _Given.of(values, bins, range, weights, density)
    how, by = given.way(bsp)
    if how != "trees":
        return NOT_SMALL
    scheme = records.plan(bsp.p, by)
    if not is_at_once(bsp, scheme):
        return NOT_SMALL
    checked_out(NAME, out)
    limits, agreed = given.limits, given.agreed
    if given.searched:
        if not records.is_at_once(bsp, _fields(given.block.dtype).itemsize):
            return NOT_SMALL
        limits = _limits(records.at_once(bsp, NAME, agreed, _extremes(bsp, given.block), _wider))
    counts, edges = _counted(bsp, given, limits)
    came = at_once(bsp, NAME, agreed, scheme, counts)
    counts = folded(bsp, NAME, came, counts, np.add, records.words(counts.nbytes))
    return given.result(counts, edges, out)


@primitive(cost, plan, _small, groups=False)
def histogram(
    bsp: BSP,
    values: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    weights: Any = None,
    density: bool = False,
    *,
    out: NDArray[Any] | None = None,
) -> Supersteps[tuple[NDArray[Any], NDArray[Any]]]:
    """Count how many of the values of all processors lie in each bin; collective.

    Args:
        bsp: the processor.
        values: shape (n, ...), of numbers; n may differ from processor to processor and be 0. The dtype is equal on all
            processors, empty blocks included.
        bins: how many of equal width; or their edges, an increasing array of shape (bins + 1,). Equal on all
            processors.
        range: (least, greatest): where bins of equal width begin and end; None: at the least and the greatest value of
            all. Equal on all processors.
        weights: None, or what a value counts, of the shape of the values; the dtype is equal on all processors.
        density: whether to divide by the sum of the counts and by the widths; NaN where nothing counts. Equal on all
            processors.
        out: keyword only: an array for the counts, of their shape and of a dtype that they can be cast to. None: a new
            one.

    Returns:
        (counts, edges), as `np.histogram` gives them for the values of all processors: counts int64, with weights of
        their dtype, with density float64, shape (bins,); edges shape (bins + 1,). Equal on all processors, arrays of
        their own.

    Raises:
        UsageError: values, bins, range or weights that np.histogram refuses; names of rules for bins, as "auto";
            dtypes, bins, range or density differ; values of which the extremes are not finite, without a range.

    BSP cost: an `allreduce` of the extremes, ceil((2*itemsize + 1) / 8) words in trees, unless edges or a range are
    given; one of the counts; and n flop before each. `histogram.cost` has it exactly.

    Source: reductions of all (*Communication primitives for BSP computers*, section 3).

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     counts, edges = collectives.histogram(bsp, np.arange(4) + 4 * bsp.pid, bins=3)
        ...     return counts.tolist(), edges.tolist()
        >>> pybsp.simulate(main, p=4).results[0]
        ([5, 5, 6], [0.0, 5.0, 10.0, 15.0])
    """
    given = _Given.of(values, bins, range, weights, density)
    call = Call(bsp, NAME, **given.agreed)
    checked_out(NAME, out)
    limits = given.limits
    # 1. The extremes of all values, where nothing says what the bins are.
    if given.searched:
        given = given.copied()  # the caller may change them meanwhile
        own = _extremes(bsp, given.block)
        limits = _limits((yield from records.run(call, own, _wider, last=False)))
    # 2. The counts of each processor, and of all.
    counts, edges = _counted(bsp, given, limits)
    chosen = given.way(bsp)
    call.ends(supersteps(bsp.p, chosen, counts.size))
    counts = yield from run_reduction(call, counts, np.add, chosen, records.words(counts.nbytes))
    return given.result(counts, edges, out)


class _Given(NamedTuple):
    """The arguments, checked.

    block, weights: of one axis.
    bins: how many, or their edges.
    limits: the least and the greatest, where they are given.
    """

    block: NDArray[Any]
    bins: Any
    limits: tuple[Any, Any] | None
    weights: NDArray[Any] | None
    density: bool

    @classmethod
    def of(cls, values: Any, bins: Any, limits: Any, weights: Any, density: Any) -> _Given:
        block = block_of(NAME, "values", values).reshape(-1)
        if block.dtype.kind not in "biuf":
            raise argument_error(NAME, "values", "real numbers", what(block))
        if block.dtype.kind == "b":
            block = block.astype(np.uint8)
        heavy = None
        if weights is not None:
            heavy = block_of(NAME, "weights", weights).reshape(-1)
            if heavy.shape != block.shape or heavy.dtype.kind not in "biufc":
                raise argument_error(NAME, "weights", f"a number for each of the {block.size} values", what(heavy))
        return cls(block, *_checked(bins, limits), heavy, flag(NAME, "density", density))

    @property
    def agreed(self) -> dict[str, Any]:
        """Those that are equal on all processors."""
        return {
            "values": self.block.dtype,
            "bins": self.bins if isinstance(self.bins, int) else f"edges {crc32(self.bins.tobytes()):08x}",
            "range": self.limits,
            "weights": None if self.weights is None else self.weights.dtype,
            "density": self.density,
        }

    @property
    def searched(self) -> bool:
        """Whether the extremes are looked for."""
        return isinstance(self.bins, int) and self.limits is None

    def copied(self) -> _Given:
        return self._replace(block=self.block.copy(), weights=None if self.weights is None else self.weights.copy())

    def way(self, bsp: BSP) -> Any:
        """How counts are added up."""
        count = self.bins if isinstance(self.bins, int) else self.bins.size - 1
        size = 8 if self.weights is None else self.weights.dtype.itemsize
        return choose(bsp.machine, count * size / 8, count)

    def result(
        self, counts: NDArray[Any], edges: NDArray[Any], out: NDArray[Any] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Of the counts of all."""
        if self.density:
            with np.errstate(invalid="ignore", divide="ignore"):  # of nothing it is NaN
                counts = counts / np.array(np.diff(edges), float) / counts.sum()  # of float64, whatever the edges are
        return placed(NAME, counts, out), edges


def _counted(bsp: BSP, given: _Given, limits: tuple[Any, Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The counts of this processor, and the edges of the bins."""
    counts, edges = of_argument(NAME, "values", partial(_count, given, limits))
    bsp.work(given.block.size)
    return counts, edges


def _count(given: _Given, limits: tuple[Any, Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        return np.histogram(given.block, given.bins, limits, weights=given.weights)
    except ValueError:
        if limits is None or np.isfinite(limits).all() or not np.isfinite(given.block).all():
            raise
        # An extreme that is not finite is another's, who says so: this one goes on until it hears of that.
        return np.histogram(given.block, given.bins, (0, 1), weights=given.weights)


def _checked(bins: Any, limits: Any) -> tuple[Any, tuple[Any, Any] | None]:
    """The arguments bins and range: a number or edges, and None or two numbers; else a UsageError."""
    if type(bins) is int and 0 < bins <= MANY and (limits is None or _are_limits(limits)):
        return bins, limits  # np.histogram takes them: to ask it takes longer than to count
    if isinstance(bins, str):
        raise argument_error(NAME, "bins", "how many, or their edges", f"the name of a rule, {brief(bins)}")
    no_mask(NAME, "bins", bins)
    limits = None if limits is None else tuple(limits) if numbers(limits).ndim == 1 else limits
    try:
        edges = np.histogram_bin_edges(np.empty(0), bins, limits)
    except Exception as error:
        given = f"bins={brief(bins)}" + ("" if limits is None else f", range={brief(limits)}")
        argument = "bins" if limits is None else "range"
        raise argument_error(NAME, argument, "what np.histogram takes", f"{given} ({error})") from None
    # A copy: numpy returns the user's own array of edges.
    return (np.array(edges) if np.ndim(bins) else int(bins)), (limits if np.ndim(bins) == 0 else None)


def _are_limits(limits: Any) -> bool:
    """Whether this is a range of floats or ints of Python's, as most are."""
    return (
        type(limits) is tuple
        and len(limits) == 2
        and all(type(end) in (float, int) and -LARGEST <= end <= LARGEST for end in limits)
        and limits[0] <= limits[1]
    )


@lru_cache(maxsize=64)
def _fields(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype([("least", dtype), ("greatest", dtype), ("some", np.bool_)])


def _extremes(bsp: BSP, block: NDArray[Any]) -> NDArray[Any]:
    """The least and the greatest value of a block."""
    own = np.zeros(1, _fields(block.dtype))
    if block.size:
        own[0] = (block.min(), block.max(), True)
    bsp.work(block.size)
    return own


def _wider(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """The least and the greatest of two blocks."""
    if not left["some"][0] or not right["some"][0]:
        return left if left["some"][0] else right
    both = left.copy()
    both["least"] = np.minimum(left["least"], right["least"])
    both["greatest"] = np.maximum(left["greatest"], right["greatest"])
    return both


def _limits(found: NDArray[Any]) -> tuple[Any, Any]:
    """Those of all values; 0 and 1 where there are none, as np.histogram has it."""
    return (found["least"][0], found["greatest"][0]) if found["some"][0] else (0, 1)
