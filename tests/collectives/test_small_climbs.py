"""Operators on two numbers are numpy's, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf, nan

import numpy as np
import pytest

from pybsp.collectives import small_climbs

NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.5, inf, -inf, nan)


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [(small_climbs.larger, np.maximum), (small_climbs.smaller, np.minimum)],
    ids=["larger", "smaller"],
)
def test_the_larger_and_the_smaller_of_two_floats_are_numpys(
    ours: Callable[[float, float], float], numpys: np.ufunc
) -> None:
    for a, b in product(NUMBERS, repeat=2):
        assert np.float64(ours(a, b)).tobytes() == np.float64(numpys(a, b)).tobytes(), (a, b)
