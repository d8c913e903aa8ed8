"""Sorting on LogP (*BSP vs LogP*, section 4.2): r keys in 0..p on each of p processors, by steps known in advance.

networks.py    sorting networks for any p
steps.py       merge-split, and the relations of columnsort
plans.py       which steps sort, what they take, which to choose; sort
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....lazy import lazy

if TYPE_CHECKING:
    from .plans import Plan, choose, sort

__all__ = [
    "Plan",
    "choose",
    "sort",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".plans": (
                "Plan",
                "choose",
                "sort",
            ),
        },
    )
