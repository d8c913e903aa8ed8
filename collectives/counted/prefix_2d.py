"""2D-PREFIX (prefix_2d.py)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...machines.cost import Superstep
from ..arguments import Order
from ..blocks import even_cuts
from ..matrix_rows import busiest, owned_by, row_operations, rows_of
from .prefix_trees import counted as counted_trees


@lru_cache(maxsize=1024)
def counted(p: int, k: int, degree: int, words: float, order: Order = "any") -> tuple[Superstep, ...]:
    """What the supersteps of `plan` are charged for, without making it."""
    size = round(8 * words)
    if p == 1:
        return ()
    if k == 0:
        return (Superstep(0, 0, 1, 0, 0.0, p - 1),)
    if k >= p:
        rows = np.diff(even_cuts(p, k))
        block = -(-rows * size // 8)
        out, into, total = int(block.sum() - block.min()), int(block.max()) * (p - 1), int(block.sum()) * (p - 1)
        flop = int(rows.max()) * row_operations(p, order) * words
        return Superstep(out, into, p - 1, total, 0.0, p - 1), Superstep(into, out, p - 1, total, flop, p - 1)
    each = -(-size // 8)
    _, sizes = rows_of(p, k)
    _, first, last = owned_by(p, k)
    here = np.arange(p)
    own = (first <= here) & (here < last)  # an element that stays where it is
    out, into = k - int(own.min()), int((last - first - own).max())
    total = (k * p - int(own.sum())) * each
    work, added = busiest(p, k, degree)
    first_level, *others = counted_trees(tuple(sizes.tolist()), degree, words)
    trees = [first_level._replace(w=work * words)]
    trees += [step._replace(w=step.w + words * (level > 1)) for level, step in enumerate(others, 1)]
    messages = max(out, into)
    return (
        Superstep(out * each, into * each, messages, total, 0.0, p - 1),
        *trees,
        Superstep(into * each, out * each, messages, total, added * words, p - 1),
    )
