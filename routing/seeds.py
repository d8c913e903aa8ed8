"""Seeds of what is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import UsageError

Seed = int | Sequence[int] | np.random.Generator


def generator(operation: str, seed: Seed) -> np.random.Generator:
    """What `numpy.random.default_rng` makes of a seed; a generator is used as it is.

    Raises:
        UsageError: no seed.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{operation}: argument seed: expected a whole number of at least 0, some of them, or a "
            f"numpy.random.Generator, got {seed!r:.60}"
        ) from error
