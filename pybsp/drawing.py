"""Pictures as SVG text, to stand in a page of HTML: stacked bars, points and lines on axes, linear or logarithmic.

All text is escaped here, and numbers are the only other thing that gets in. What is drawn is bounded by the size of the
picture, not by how much there is to show: callers bin, points share cells.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 10, 36
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f", "#bab0ac")
_CELL = 4  # points of a picture that are nearer than this are drawn as one


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, logarithmic or not, with a name."""

    low: float
    high: float
    name: str
    log: bool = False

    @classmethod
    def over(cls, values: NDArray[np.float64], name: str, log: bool = False) -> Axis:
        """An axis on which these values, above 0 where it is logarithmic, have room; a linear one begins at 0."""
        values = values[np.isfinite(values) & (values > 0)]
        high = float(values.max()) if len(values) else 1.0
        if not log:
            return cls(0.0, high, name)
        low = float(values.min()) if len(values) else 0.1
        return cls(
            10.0 ** math.floor(math.log10(low)), 10.0 ** min(308, math.ceil(math.log10(high) + 1e-9)), name, True
        )

    def at(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where the values lie on the axis, from 0 to 1."""
        if self.log:
            first, last = math.log10(self.low), math.log10(self.high)
            return np.clip((np.log10(values) - first) / ((last - first) or 1.0), 0.0, 1.0)
        # Halves: of figures near the largest number a difference would be endless.
        return np.clip((values / 2 - self.low / 2) / ((self.high / 2 - self.low / 2) or 1.0), 0.0, 1.0)

    def ticks(self) -> list[float]:
        """About five round numbers on the axis."""
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1, max(1, (last - first) // 5))]
        span = self.high / 2 - self.low / 2
        if span <= 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(span / 2.5))
        step = next((digit * power for digit in (1, 2, 5, 10) if span / (digit * power) <= 2.5), 10 * power)
        return [n * step for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def bars(
    layers: NDArray[np.float64], names: Sequence[str], along: Axis, up: str, hints: Sequence[str], last: int
) -> str:
    """Stacked bars side by side.

    Args:
        layers: heights, shape (names, bars).
        names: of the layers.
        along: the axis below, from the left of the first bar to the right of the last.
        up: the name of the axis that goes up.
        hints: what is said of each bar where the mouse is on it.
        last: of the colours the last layer has this one.
    """
    with np.errstate(over="ignore"):
        tops = np.cumsum(layers, axis=0)
    tops = np.nan_to_num(tops, posinf=np.finfo(float).max)
    axis = Axis.over(tops[-1], up)
    y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - axis.at(tops))
    edges = np.linspace(LEFT, WIDTH - RIGHT, layers.shape[1] + 1)
    wide = edges[1] - edges[0]
    parts = []
    below = np.full(layers.shape[1], float(HEIGHT - BOTTOM))
    for number, line in enumerate(y):
        shape = "".join(
            f"M{x:.1f} {bottom:.1f}V{top:.1f}h{wide:.2f}V{bottom:.1f}z"
            for x, top, bottom in zip(edges, line, below, strict=False)
            if bottom - top >= 0.05
        )
        colour = COLOURS[last if number == len(names) - 1 else number]
        parts.append(f'<path d="{shape}" fill="{colour}"/>' if shape else "")
        below = line
    parts += [
        f'<rect x="{x:.1f}" y="{TOP}" width="{wide:.2f}" height="{HEIGHT - TOP - BOTTOM}" fill="transparent">'
        f"<title>{html.escape(hint)}</title></rect>"
        for x, hint in zip(edges, hints, strict=False)
    ]
    return _picture(parts, along, axis) + legend(names, last)


def points(
    x: NDArray[np.float64], y: NDArray[np.float64], kinds: NDArray[np.int64], names: Sequence[str], across: str, up: str
) -> str:
    """Points on logarithmic axes of the same extent, with the line on which both are equal.

    Args:
        x, y: above 0, shape (points,).
        kinds: of each point the number of its name. Of points in one place the last counts.
        names: of the kinds.
        across, up: names of the axes.
    """
    both = Axis.over(np.concatenate([x, y]), across, log=True)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    cells = {
        place: kind
        for *place_of, kind in zip(
            np.rint((LEFT + wide * both.at(x)) / _CELL).astype(int).tolist(),
            np.rint((TOP + high * (1 - both.at(y))) / _CELL).astype(int).tolist(),
            kinds.tolist(),
            strict=True,
        )
        for place in [tuple(place_of)]
    }
    parts = [f'<path d="M{LEFT} {HEIGHT - BOTTOM}L{WIDTH - RIGHT} {TOP}" class="grid" stroke-dasharray="4 3"/>']
    for kind in range(len(names)):
        shape = "".join(f"M{_CELL * a} {_CELL * b}h0" for (a, b), found in cells.items() if found == kind)
        if shape:
            parts.append(f'<path d="{shape}" stroke="{COLOURS[kind]}" stroke-width="6" stroke-linecap="round"/>')
    return _picture(parts, both, Axis(both.low, both.high, up, True)) + legend(names, len(names) - 1)


def lines(
    x: NDArray[np.float64], values: Sequence[NDArray[np.float64]], names: Sequence[str], along: Axis, up: Axis
) -> str:
    """Lines through points, one for each name."""
    across = LEFT + (WIDTH - LEFT - RIGHT) * along.at(x)
    parts = []
    for number, line in enumerate(values):
        heights = TOP + (HEIGHT - TOP - BOTTOM) * (1 - up.at(np.nan_to_num(line, posinf=np.finfo(float).max)))
        shape = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, heights, strict=True))
        parts.append(
            f'<path d="M{shape}h0" stroke="{COLOURS[number]}" stroke-width="2" fill="none" stroke-linecap="round"/>'
        )
    return _picture(parts, along, up) + legend(names, len(names) - 1)


def legend(names: Sequence[str], last: int) -> str:
    """The names beside their colours."""
    if names == [""]:
        return ""
    found = "".join(
        f'<span><i style="background:{COLOURS[last if number == len(names) - 1 else number]}"></i>'
        f"{html.escape(name)}</span> "
        for number, name in enumerate(names)
    )
    return f'<div class="legend">{found}</div>'


def _picture(parts: Sequence[str], along: Axis, up: Axis) -> str:
    """The picture of these parts, between its axes."""
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    ground = HEIGHT - BOTTOM
    axes = []
    for tick, place in zip(up.ticks(), up.at(np.asarray(up.ticks())), strict=True):
        y = TOP + high * (1 - place)
        axes.append(f'<path d="M{LEFT} {y:.1f}h{wide}" class="grid"/>')
        axes.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    for tick, place in zip(along.ticks(), along.at(np.asarray(along.ticks())), strict=True):
        x = LEFT + wide * place
        axes.append(f'<text x="{x:.1f}" y="{ground + 14}" text-anchor="middle">{tick:.6g}</text>')
    upright = f"translate(12 {TOP + high / 2}) rotate(-90)"
    names = (
        f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(along.name)}</text>'
        f'<text transform="{upright}" text-anchor="middle">{html.escape(up.name)}</text>'
    )
    frame = f'<path d="M{LEFT} {TOP}V{ground}H{WIDTH - RIGHT}" stroke="#888" fill="none"/>'
    style = "<style>.grid{stroke:#ddd;fill:none}text{font:11px sans-serif;fill:#444}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{style}'
        f"{''.join(axes)}{''.join(parts)}{frame}{names}</svg>"
    )
