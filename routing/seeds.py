"""Seeds of what is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import argument_error, brief

Seed = int | Sequence[int] | np.random.Generator


def generator(operation: str, seed: Seed) -> np.random.Generator:
    """What `numpy.random.default_rng` makes of a seed, or the generator that it is; else a UsageError."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        expected = "a whole number of at least 0, some of them, or a numpy.random.Generator"
        raise argument_error(operation, "seed", expected, brief(seed)) from error
