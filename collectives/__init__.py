"""Communication primitives, written against the public BSP interface alone; one algorithm a file.

Each is a collective function of a `pybsp.BSP`, and carries `cost(machine, words, ...)`, what it costs, exactly, and
`plan(p, ...)`, who sends what to whom in each superstep. A plain call takes supersteps of its own, in which nothing
else travels: what the program has sent waits for its next sync, and what has arrived for it stays. `start(bsp, ...)`
returns a ticket at once, and the collective rides in the supersteps of the program.

    broadcast, broadcast_items          one value, or many words (2D-BCAST), from one processor to all
    reduce, allreduce                   values of all processors combined, on one or on all
    prefix, prefix_2d                   prefix sums of one value a processor, or of many (2D-PREFIX)
                                        of these four, order="fixed" gives bits that depend on p alone: fixed_order.py
    exclusive_prefix, segmented_prefix  what lies before a processor; sums that begin anew at flags
    reduce_scatter                      each processor gets a block of the sum
    sort                                one key or a block a processor, by whichever of these costs least:
    bitonic_sort, sample_sort           for few keys a processor; for many
    balanced_sort, argsort              what is sorted, or the indices that sort it, divided equally
    unique, group_by                    distinct keys; the values of equal ones combined
    redistribute                        an array laid out another way (pybsp/layouts.py): transposes, FFTs
    argmin, argmax, top_k, histogram    of an array that is divided among processors
    random_permutation                  a random order of n numbers, divided equally
    duplicate                           copies of items, balanced over the processors (DUPLICATE)
    scatter, gather, allgather, total_exchange      one superstep each; scatter_blocks, gather_blocks, allgather_blocks
                                        and total_exchange_blocks: of blocks of one array, of any lengths
    algorithms.py, by_blocks.py, broadcast_groups.py    where several algorithms do one job, it is chosen by exact cost,
                                        or by name: algorithm="2d"
    small_climbs.py, small_spreads.py, shown_values.py      small values, where all processors show each other records;
                                        record_layouts.py: as they lie there
    counted/        what plans are charged for, in closed form
    ebsp/           the algorithms of the E-BSP paper
    baselines/      what the papers argue against
    plan.py, primitive.py       what all of them are made of; tree.py, groups.py, prefix_trees.py: who is above whom
    arguments.py, operators.py, values.py       arguments, checked, of primitives, costs and plans; operator_names.py:
                                        what processors compare of an operator
    rehearsal.py    what all processors go through before a run
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from . import baselines as baselines
    from . import ebsp as ebsp
    from .allgather import allgather as allgather
    from .allgather_blocks import allgather_blocks as allgather_blocks
    from .allreduce import allreduce as allreduce
    from .argmax import argmax as argmax
    from .argmin import argmin as argmin
    from .argsort import argsort as argsort
    from .balanced_sort import balanced_sort as balanced_sort
    from .bitonic_sort import bitonic_sort as bitonic_sort
    from .broadcast import broadcast as broadcast
    from .broadcast_items import broadcast_items as broadcast_items
    from .duplicate import duplicate as duplicate
    from .exclusive_prefix import exclusive_prefix as exclusive_prefix
    from .gather import gather as gather
    from .gather_blocks import gather_blocks as gather_blocks
    from .group_by import group_by as group_by
    from .histogram import histogram as histogram
    from .plan import Plan as Plan
    from .plan import Step as Step
    from .plan import together as together
    from .prefix import prefix as prefix
    from .prefix_2d import prefix_2d as prefix_2d
    from .random_permutation import random_permutation as random_permutation
    from .redistribute import redistribute as redistribute
    from .reduce import reduce as reduce
    from .reduce_scatter import reduce_scatter as reduce_scatter
    from .sample_sort import sample_sort as sample_sort
    from .scatter import scatter as scatter
    from .scatter_blocks import scatter_blocks as scatter_blocks
    from .segmented_prefix import segmented_prefix as segmented_prefix
    from .sort import sort as sort
    from .top_k import top_k as top_k
    from .total_exchange import total_exchange as total_exchange
    from .total_exchange_blocks import total_exchange_blocks as total_exchange_blocks
    from .unique import unique as unique

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".baselines": (),
            ".ebsp": (),
            ".allgather": ("allgather",),
            ".allgather_blocks": ("allgather_blocks",),
            ".allreduce": ("allreduce",),
            ".argmax": ("argmax",),
            ".argmin": ("argmin",),
            ".argsort": ("argsort",),
            ".balanced_sort": ("balanced_sort",),
            ".bitonic_sort": ("bitonic_sort",),
            ".broadcast": ("broadcast",),
            ".broadcast_items": ("broadcast_items",),
            ".duplicate": ("duplicate",),
            ".exclusive_prefix": ("exclusive_prefix",),
            ".gather": ("gather",),
            ".gather_blocks": ("gather_blocks",),
            ".group_by": ("group_by",),
            ".histogram": ("histogram",),
            ".plan": ("Plan", "Step", "together"),
            ".prefix": ("prefix",),
            ".prefix_2d": ("prefix_2d",),
            ".random_permutation": ("random_permutation",),
            ".redistribute": ("redistribute",),
            ".reduce": ("reduce",),
            ".reduce_scatter": ("reduce_scatter",),
            ".sample_sort": ("sample_sort",),
            ".scatter": ("scatter",),
            ".scatter_blocks": ("scatter_blocks",),
            ".segmented_prefix": ("segmented_prefix",),
            ".sort": ("sort",),
            ".top_k": ("top_k",),
            ".total_exchange": ("total_exchange",),
            ".total_exchange_blocks": ("total_exchange_blocks",),
            ".unique": ("unique",),
        },
        of_programs=True,
        by_name=("baselines", "ebsp"),
    )
