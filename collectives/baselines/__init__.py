"""What the papers argue against, for comparison; one algorithm a file."""

from .bitonic_sort_few import bitonic_sort_few
from .broadcast_one_at_a_time import broadcast_one_at_a_time
from .prefix_pipelined import prefix_pipelined

__all__ = ["bitonic_sort_few", "broadcast_one_at_a_time", "prefix_pipelined"]
