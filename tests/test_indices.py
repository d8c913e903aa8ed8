"""Indices of arrays: what is found without numpy is what numpy finds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pybsp.arrays.indices import regular


def indices(size: int, steps: tuple[int | None, ...]) -> list[Any]:
    """Of one axis: all ints, and slices with these steps and all ends."""
    ends = [None, *range(-size, size + 1)]
    return [*range(-size, size), *(slice(*one) for one in product(ends, ends, steps))]


@pytest.mark.parametrize("shape", [(5,), (1,), (0,), (2, 3), (3, 2), (3, 1), (1, 3), (2, 0)])
def test_ints_and_ascending_slices_select_what_numpy_has_and_where_it_lies(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    of_axes = [indices(size, (None, 2) if len(shape) == 1 else (None,)) for size in shape]
    for at in [(), *product(*of_axes[:1]), *(product(*of_axes) if len(shape) > 1 else ())]:
        selected = np.asarray(array[at])
        found = regular(at, shape)
        assert found is not None, at
        of_selected, first, step = found
        assert of_selected == selected.shape, at
        items = selected.ravel()
        if step:
            assert array.ravel()[first : first + step * items.size : step].tolist() == items.tolist(), at
        elif items.size:
            assert len(set(np.diff(items).tolist())) > 1, at


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (None, ((2, 3, 4), 0, 1)),
        ((slice(None), 1), ((2, 4), 4, 0)),
        ((slice(None), slice(1, 2), slice(0, None, 2)), ((2, 1, 2), 4, 0)),
        ((1, slice(None), -1), ((3,), 15, 4)),
        ((slice(None), -1, 2), ((2,), 10, 12)),
        ((np.int64(1), slice(np.int64(1), None)), ((2, 4), 16, 1)),
        *((at, None) for at in ([0], np.arange(2), True, (0, None), ..., 1.0, np.int8(1), (0, 0, 0, 0))),
        *((at, None) for at in (2, -3, slice(0, 3), slice(None, None, -1), slice(None, None, 0), slice(0.0, 1))),
    ],
)
def test_of_three_axes_and_of_other_indices(at: Any, expected: Any) -> None:
    assert regular(at, (2, 3, 4)) == expected
