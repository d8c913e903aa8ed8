"""Pictures of pages: what is drawn lies between the axes."""

from __future__ import annotations

import re

import numpy as np

from pybsp.ground.drawing import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, lines


def test_a_grid_goes_from_one_axis_to_the_end_of_the_other_and_points_lie_on_it() -> None:
    x, heights = np.array([0.0, 5.0, 10.0]), np.array([0.0, 1.0, 2.0])
    picture = lines(x, [heights], ["one"], Axis(0, 10, "x"), Axis(0, 2, "y"))
    grid = {
        (float(left), float(wide)) for left, wide in re.findall(r'd="M([\d.]+) [\d.]+h([\d.]+)" class="grid"', picture)
    }
    assert grid == {(LEFT, WIDTH - LEFT - RIGHT)}
    first, *_, last = re.search(r'd="M([\d. L]+)h0"', picture)[1].split("L")  # type: ignore[index]
    assert float(first.split()[0]) == LEFT
    assert [float(one) for one in last.split()] == [WIDTH - RIGHT, TOP]
    assert float(first.split()[1]) < HEIGHT
