"""Sorting on LogP (*BSP vs LogP*, section 4.2): r keys in 0..p on each of p processors, by steps known in advance.

networks.py    sorting networks for any p
steps.py       merge-split, and the relations of columnsort
schemes.py     which steps sort, what they take, which to choose; sort
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....lazy import lazy

if TYPE_CHECKING:
    from .schemes import SortingScheme as SortingScheme
    from .schemes import choose as choose
    from .schemes import sort as sort

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".schemes": ("SortingScheme", "choose", "sort"),
        },
    )
