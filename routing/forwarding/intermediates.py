"""Random intermediate processors: a pure function, so that whoever asks gets the same.

They are the outputs of splitmix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014),
a stream for each processor and superstep: a numpy generator would take longer to make than a small superstep.
"""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def intermediates(
    q: int, seed: int, superstep: int, sources: NDArray[np.int64], numbers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The processor, 0 to q - 1, that each packet goes by: uniform, and independent of all others.

    Args:
        q: intermediate processors, below 2^32.
        seed, superstep: any; equal on all processors.
        sources: of the packets, shape (m,).
        numbers: of the packets at their sources, shape (m,).
    """
    key = np.uint64(random.Random(f"{seed} {superstep}").getrandbits(64))
    streams = _mixed(key + sources.astype(np.uint64) * _GOLDEN)
    drawn = _mixed(streams + numbers.astype(np.uint64) * _GOLDEN)
    return ((drawn >> np.uint64(32)) * np.uint64(q) >> np.uint64(32)).astype(np.int64)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = z + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
