"""Communication primitives, written against the public BSP interface alone; one algorithm a file.

Each is a collective function of a `pybsp.BSP`, and carries `cost(machine, words, ...)`, what it costs, exactly, and
`plan(p, ...)`, who sends what to whom in each superstep. It is made of supersteps: nothing may be
pending when it is called, and what was in the inbox and the queues before is gone after it, as after any sync.

    broadcast, broadcast_items          one value, or many words (2D-BCAST), from one processor to all
    reduce, allreduce                   values of all processors combined, on one or on all
    prefix, prefix_2d                   prefix sums of one value a processor, or of many (2D-PREFIX)
                                        of these four, order="fixed" gives bits that depend on p alone: fixed_order.py
    sort                                one key or a block a processor, by whichever of these costs least:
    bitonic_sort, sample_sort           for few keys a processor; for many
    duplicate                           copies of items, balanced over the processors (DUPLICATE)
    scatter, gather, allgather, total_exchange      one superstep each
    algorithms.py, blocks.py, broadcast_groups.py   where several algorithms do one job, it is chosen by exact cost, or
                                        by name: algorithm="2d"
    counted/        what plans are charged for, in closed form
    ebsp/           the algorithms of the E-BSP paper
    baselines/      what the papers argue against
    plan.py, primitive.py       what all of them are made of; tree.py, groups.py, prefix_trees.py: who is above whom
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .allgather import allgather
    from .allreduce import allreduce
    from .bitonic_sort import bitonic_sort
    from .broadcast import broadcast
    from .broadcast_items import broadcast_items
    from .duplicate import duplicate
    from .gather import gather
    from .plan import Plan, Step
    from .prefix import prefix
    from .prefix_2d import prefix_2d
    from .reduce import reduce
    from .sample_sort import sample_sort
    from .scatter import scatter
    from .sort import sort
    from .total_exchange import total_exchange

__all__ = [
    "Plan",
    "Step",
    "allgather",
    "allreduce",
    "bitonic_sort",
    "broadcast",
    "broadcast_items",
    "duplicate",
    "gather",
    "prefix",
    "prefix_2d",
    "reduce",
    "sample_sort",
    "scatter",
    "sort",
    "total_exchange",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".allgather": ("allgather",),
            ".allreduce": ("allreduce",),
            ".bitonic_sort": ("bitonic_sort",),
            ".broadcast": ("broadcast",),
            ".broadcast_items": ("broadcast_items",),
            ".duplicate": ("duplicate",),
            ".gather": ("gather",),
            ".plan": (
                "Plan",
                "Step",
            ),
            ".prefix": ("prefix",),
            ".prefix_2d": ("prefix_2d",),
            ".reduce": ("reduce",),
            ".sample_sort": ("sample_sort",),
            ".scatter": ("scatter",),
            ".sort": ("sort",),
            ".total_exchange": ("total_exchange",),
        },
        of_programs=True,
    )
