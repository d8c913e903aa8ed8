"""Many ranges of numbers as one array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def ranges(begin: Ints, count: Ints) -> Ints:
    """`count[i]` numbers from `begin[i]` on, for all i behind each other."""
    ends = count.cumsum(dtype=np.int64)
    return np.arange(int(count.sum())) - np.repeat(ends - count - begin, count)
