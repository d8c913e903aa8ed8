"""Pictures of pages: what is drawn lies between the axes."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from pybsp.ground.drawing import BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, bars, lanes, lines, points


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


def places(picture: str) -> list[tuple[str, float, float]]:
    """The texts of a picture that are not turned, and where they stand."""
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', picture)
    return [(text, float(x), float(y)) for x, y, text in found]


def test_a_processor_is_named_in_the_middle_of_its_lane_and_none_that_is_not_there() -> None:
    picture = lanes([np.ones((3, 4))], ["one"], Axis(0, 0.5, "seconds"), "processor", 3)
    names = [(text, y) for text, x, y in places(picture) if x < LEFT]
    assert [text for text, _ in names] == ["0", "1", "2"]
    tall = (HEIGHT - TOP - BOTTOM) / 3
    middles = [TOP + tall * (pid + 0.5) for pid in range(3)]
    assert np.allclose([y - 4 for _, y in names], middles, atol=0.1)  # 4: half of a digit's height


def test_bars_stand_side_by_side_from_the_one_end_of_their_axis_to_the_other_and_on_each_other() -> None:
    picture = bars(np.array([[1.0, 2.0], [3.0, 1.0]]), ["one", "two"], Axis(0, 2, "x"), "y", ["a", "b"])
    wide, high = (WIDTH - LEFT - RIGHT) / 2, (HEIGHT - TOP - BOTTOM) / 4
    found = np.array(re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)h([\d.]+)V", picture), float)
    base = HEIGHT - BOTTOM
    at = [(LEFT, 0, 1), (LEFT + wide, 0, 2), (LEFT, 1, 4), (LEFT + wide, 2, 3)]
    assert np.allclose(found, [(x, base - high * low, base - high * top, wide) for x, low, top in at], atol=0.1)


def test_bars_of_what_is_counted_are_named_in_their_middle() -> None:
    each = ("1", "4", "16", "64", "256", "1024")
    picture = bars(np.ones((1, 6)), ["one"], Axis(0, 6, "p", counts=True, each=each), "part", each)
    found = {text: x for text, x, y in places(picture) if x > LEFT and text != "p"}
    assert list(found) == list(each)
    wide = (WIDTH - LEFT - RIGHT) / 6
    assert np.allclose(list(found.values()), [LEFT + wide * (n + 0.5) for n in range(6)], atol=0.1)


@pytest.mark.parametrize("names", [[""], ["one"], ["one", "two", "a < b"]])
def test_what_has_a_name_has_it_beside_the_colour_it_is_drawn_in(names: list[str]) -> None:
    n = len(names)
    x, each = np.arange(1.0, n + 1), np.arange(n)
    along, up = Axis(0, n + 1, "x"), Axis(0, n + 1, "y")
    pictures = [
        bars(np.ones((n, 4)), names, along, "y", [""] * 4),
        points(x, x, each, names, "x", "y"),
        lines(x, [x + k for k in range(n)], names, along, up),
        lanes([np.full((1, 4), 1 / n)] * n, names, along, "y", 1),
    ]
    for picture in pictures:
        shown = re.findall(r'<i style="background:([^"]+)"></i>([^<]*)</span>', picture)
        assert [html.unescape(name) for _, name in shown] == [name for name in names if name]
        drawn = re.findall(r'(?:fill|stroke)="(#[^"]+)"', picture)
        assert all(colour in drawn for colour, _ in shown)
        assert tuple(colour for colour, _ in shown) == COLOURS[: len(shown)]
