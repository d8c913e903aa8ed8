"""What the papers argue against, for comparison; one algorithm a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .bitonic_sort_few import bitonic_sort_few as bitonic_sort_few
    from .broadcast_one_at_a_time import broadcast_one_at_a_time as broadcast_one_at_a_time
    from .prefix_pipelined import prefix_pipelined as prefix_pipelined

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".bitonic_sort_few": ("bitonic_sort_few",),
            ".broadcast_one_at_a_time": ("broadcast_one_at_a_time",),
            ".prefix_pipelined": ("prefix_pipelined",),
        },
        of_programs=True,
    )
