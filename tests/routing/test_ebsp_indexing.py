"""Numberings of the mesh: curves, their inverses, and the Peano property of *The E-BSP model*, section 2."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pybsp.errors import RoutingError, UsageError
from pybsp.routing.networks.indexing import INDEXINGS, indexing

SIZES = {
    "row-major": (1, 4, 9, 49, 144),
    "snake": (1, 4, 9, 49, 144),
    "peano": (1, 4, 16, 64, 1024),
    "true peano": (1, 9, 81, 729),
}
CASES = [(name, p) for name in SIZES for p in SIZES[name]]


def furthest(name: str, p: int) -> NDArray[np.int64]:
    """The largest distance of nodes whose numbers differ by d, for d from 0 to p - 1."""
    at = INDEXINGS[name].coordinates(p)
    return np.array([0] + [np.abs(at[d:] - at[:-d]).sum(axis=1).max() for d in range(1, p)])


@pytest.mark.parametrize(("name", "p"), CASES)
def test_every_node_has_a_number_and_numbers_are_the_inverse_of_coordinates(name: str, p: int) -> None:
    coordinates, numbers = INDEXINGS[name].coordinates(p), INDEXINGS[name].numbers(p)
    side = math.isqrt(p)
    assert numbers.shape == (side, side)
    np.testing.assert_array_equal(numbers[tuple(coordinates.T)], np.arange(p))
    np.testing.assert_array_equal(np.sort(numbers, axis=None), np.arange(p))
    np.testing.assert_array_equal(coordinates[0], (0, 0))


@pytest.mark.parametrize(("name", "p"), [case for case in CASES if case[0] != "row-major"])
def test_curves_go_from_neighbour_to_neighbour(name: str, p: int) -> None:
    steps = np.abs(np.diff(INDEXINGS[name].coordinates(p), axis=0)).sum(axis=1)
    assert (steps == 1).all()


def test_small_ones_are_as_drawn() -> None:
    rows = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    snake = [[0, 1, 2], [5, 4, 3], [6, 7, 8]]
    peano = [[0, 5, 6], [1, 4, 7], [2, 3, 8]]
    hilbert = [[0, 1, 14, 15], [3, 2, 13, 12], [4, 7, 8, 11], [5, 6, 9, 10]]
    drawn = (("row-major", rows), ("snake", snake), ("true peano", peano), ("peano", hilbert))
    for name, expected in drawn:
        assert INDEXINGS[name].numbers(len(expected) ** 2).tolist() == expected


def test_quadrants_of_the_peano_scheme_have_consecutive_numbers() -> None:
    numbers = INDEXINGS["peano"].numbers(4**5)
    for level in range(6):
        width = 2**level
        blocks = numbers.reshape(32 // width, width, 32 // width, width).swapaxes(1, 2).reshape(-1, width * width)
        np.testing.assert_array_equal(np.ptp(blocks, axis=1), width * width - 1)


@pytest.mark.parametrize("p", [4**n for n in range(1, 7)])
def test_the_papers_peano_scheme_keeps_distances_below_three_times_the_root(p: int) -> None:
    far, d = furthest("peano", p), np.arange(p)
    assert (far**2 <= 9 * d).all()
    # Nothing less than 3 would do for all p: at d = p/4 the distance is 3*sqrt(d) - 2.
    if p > 4:
        assert far[p // 4] == 3 * math.isqrt(p // 4) - 2


def test_the_true_peano_curve_breaks_the_bound() -> None:
    assert (furthest("true peano", 81) ** 2 <= 9 * np.arange(81)).all()
    far, d = furthest("true peano", 729), np.arange(729)
    broken = np.flatnonzero(far**2 > 9 * d)
    assert (broken[0], far[broken[0]]) == (122, 34)  # 3*sqrt(122) = 33.1
    worst = (far[1:] ** 2 / d[1:]).max()
    assert 9 < worst < 32 / 3  # sqrt(32/3) = 3.266 is the limit for all p


def test_snake_breaks_it_from_side_9_on_but_never_goes_further_than_d() -> None:
    for side in (1, 2, 8, 9, 10, 33):
        far, d = furthest("snake", side * side), np.arange(side * side)
        assert (far <= d).all()
        assert (far**2 > 9 * d).any() == (side >= 9)
        if side >= 9:  # the last of a row, the whole of the next, the first of that after it
            assert far[side + 1] == side + 1


@pytest.mark.parametrize(
    ("name", "p", "error_text"),
    [
        ("row-major", 12, "a square, got 12; 9 and 16 would fit"),
        ("snake", 0, "a square, got 0; 1 would fit"),
        ("peano", 36, "a power of 4, got 36; 16 and 64 would fit"),
        ("true peano", 16, "a power of 9, got 16; 9 and 81 would fit"),
        ("snake", 4.0, "a square, got 4.0"),
    ],
)
def test_a_p_that_does_not_fit_is_told_which_would(name: str, p: int, error_text: str) -> None:
    for ask in (INDEXINGS[name].coordinates, INDEXINGS[name].numbers, INDEXINGS[name].side):
        with pytest.raises(RoutingError, match=f"mesh under {name} indexing: p must be .*{error_text}"):
            ask(p)


def test_another_name_is_told_which_there_are() -> None:
    with pytest.raises(UsageError, match="expected one of row-major, snake, peano, true peano, got 'hilbert'"):
        indexing("hilbert")
