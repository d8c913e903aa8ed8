"""Bits of many numbers at a time."""

from __future__ import annotations

import numpy as np

from .graph import Ints


def bit_length(x: Ints) -> Ints:
    """How many bits each of these numbers below 2^53 has, leading zeros not counted."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)
