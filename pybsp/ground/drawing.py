"""Pictures as SVG text, to stand in a page of HTML: stacked bars, points and lines on axes, linear or logarithmic.

All text is escaped here, and numbers are the only other thing that gets in. What is drawn is bounded by the size of the
picture, not by how much there is to show: callers bin, points share cells.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 66, 26, 10, 36
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f", "#bab0ac")
SHADES = ("#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b")
_NAMES = 12  # fewer than these have room side by side
_CELL = 4  # points of a picture that are nearer than this are drawn as one


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, logarithmic or not, with a name.

    Of what is counted, number n lies from n to n + 1, and its tick is in the middle; `each` names all, in place of n.
    """

    low: float
    high: float
    name: str
    log: bool = False
    counts: bool = False
    each: tuple[str, ...] = ()

    @classmethod
    def over(cls, values: NDArray[np.float64], name: str, log: bool = False) -> Axis:
        """An axis on which these values, above 0 where it is logarithmic, have room; a linear one begins at 0."""
        values = values[np.isfinite(values) & (values > 0)]
        high = float(values.max()) if len(values) else 1.0
        if not log:
            return cls(0.0, high, name)
        low = float(values.min()) if len(values) else 0.1
        # Where ten times as little, or as much, is a number still.
        first, last = max(-307, math.floor(math.log10(low))), max(-306, math.ceil(math.log10(high) + 1e-9))
        return cls(10.0**first, 10.0 ** min(308, last), name, True)

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
        if span < 1e-307:  # ticks between would be no numbers
            return [self.low]
        power = 10.0 ** math.floor(math.log10(span / 2.5))
        step = next((digit * power for digit in (1, 2, 5, 10) if span / (digit * power) <= 2.5), 10 * power)
        if self.counts:
            step = 1.0 if len(self.each) in range(1, _NAMES) else max(1.0, step)
        last = math.ceil(self.high / step) - 1 if self.counts else math.floor(self.high / step)
        return [n * step for n in range(math.ceil(self.low / step), last + 1)]

    def marks(self, digits: int) -> list[tuple[str, float]]:
        """The ticks as text, of that many digits, and where they lie on the axis."""
        ticks = self.ticks()
        texts = [self.each[int(tick)] if self.each else f"{tick:.{digits}g}" for tick in ticks]
        return list(zip(texts, self.at(np.array(ticks) + 0.5 * self.counts).tolist(), strict=True))


def bars(
    layers: NDArray[np.float64],
    names: Sequence[str],
    along: Axis,
    up: str,
    hints: Sequence[str],
    colours: Sequence[str] = COLOURS,
) -> str:
    """Stacked bars side by side.

    Args:
        layers: heights, shape (names, bars).
        names: of the layers.
        along: the axis below, from the left of the first bar to the right of the last.
        up: the name of the axis that goes up.
        hints: the text of each bar where the mouse is on it.
        colours: of the layers.
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
    for colour, line in zip(colours, y, strict=False):
        shape = "".join(
            f"M{x:.1f} {bottom:.1f}V{top:.1f}h{wide:.2f}V{bottom:.1f}z"
            for x, top, bottom in zip(edges, line, below, strict=False)
            if bottom - top >= 0.05
        )
        parts.append(f'<path d="{shape}" fill="{colour}"/>' if shape else "")
        below = line
    parts += [
        f'<rect x="{x:.1f}" y="{TOP}" width="{wide:.2f}" height="{HEIGHT - TOP - BOTTOM}" fill="transparent">'
        f"<title>{html.escape(hint)}</title></rect>"
        for x, hint in zip(edges, hints, strict=False)
    ]
    return _picture(parts, along, axis) + legend(names, colours)


def points(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    kinds: NDArray[np.int64],
    names: Sequence[str],
    across: str,
    up: str,
    colours: Sequence[str] = COLOURS,
) -> str:
    """Points on logarithmic axes of the same extent, with the line on which both are equal.

    Args:
        x, y: above 0, shape (points,).
        kinds: of each point the number of its name. Of points in one place the last counts.
        names: of the kinds.
        across, up: names of the axes.
        colours: of the kinds.
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
    for kind, colour in zip(range(len(names)), colours, strict=False):
        shape = "".join(f"M{_CELL * a} {_CELL * b}h0" for (a, b), found in cells.items() if found == kind)
        if shape:
            parts.append(f'<path d="{shape}" stroke="{colour}" stroke-width="6" stroke-linecap="round"/>')
    return _picture(parts, both, Axis(both.low, both.high, up, True)) + legend(names, colours)


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
    return _picture(parts, along, up) + legend(names)


def lanes(
    parts: Sequence[NDArray[np.float64]],
    names: Sequence[str],
    along: Axis,
    up: str,
    ends: int,
    colours: Sequence[str] = COLOURS,
) -> str:
    """A lane for each processor from the top down, with shares of each bin of time in colours that fill it.

    Args:
        parts: of each name, of each lane and bin what it has of it, from 0 to 1 in all; shape (lanes, bins).
        names: of what is shared.
        along: the axis below.
        up: the name of the axis that goes down.
        ends: what it ends with: the number of processors.
        colours: of what is shared.
    """
    rows, bins = parts[0].shape
    high = min(600, max(HEIGHT, TOP + BOTTOM + 8 * rows))
    wide, tall = (WIDTH - LEFT - RIGHT) / bins, (high - TOP - BOTTOM) / rows
    tops = TOP + tall * np.arange(rows)
    found = []
    below = np.zeros((rows, bins))
    for colour, part in zip(colours, parts, strict=False):
        shape = []
        for row, top in enumerate(tops.tolist()):
            gap = 0.1 * tall
            # Neighbours alike are one: most of a picture often is.
            heights = np.rint(10 * (tall - gap) * np.stack([below[row], part[row]])).astype(int)
            changes = np.flatnonzero(np.any(np.diff(heights, axis=1) != 0, axis=0)) + 1
            for first, last in zip([0, *changes.tolist()], [*changes.tolist(), bins], strict=True):
                start, size = heights[:, first].tolist()
                if size:
                    x, length = LEFT + wide * first, wide * (last - first)
                    shape.append(f"M{x:.1f} {top + start / 10:.1f}h{length:.1f}v{size / 10:.1f}h-{length:.1f}z")
        found.append(f'<path d="{"".join(shape)}" fill="{colour}"/>' if shape else "")
        below = below + part
    return _picture(found, along, Axis(0, ends, up, counts=True), high=high, down=True) + legend(names, colours)


def shades(cells: NDArray[np.float64], along: Axis, up: Axis, side: int = 0) -> str:
    """Cells, from the top down, the darker the more: white is nothing, and each shade is the same factor.

    Args:
        cells: shape (rows, columns), at least 0.
        along, up: the axes; the second goes down.
        side: of a square picture; 0: as wide as others.
    """
    rows, columns = cells.shape
    width, high = (side, side) if side else (WIDTH, min(600, max(HEIGHT, TOP + BOTTOM + 8 * rows)))
    wide, tall = (width - LEFT - RIGHT) / columns, (high - TOP - BOTTOM) / rows
    least, most = (float(cells[cells > 0].min()), float(cells.max())) if (cells > 0).any() else (1.0, 1.0)
    # What differs little looks alike: a shade is at least a factor of 1.3.
    lowest = min(math.log(least), math.log(most) - len(SHADES) * math.log(1.3))
    place = (np.log(np.where(cells > 0, cells, most)) - lowest) / (math.log(most) - lowest)
    kinds = np.where(cells > 0, 1 + np.minimum((place * len(SHADES)).astype(int), len(SHADES) - 1), 0)
    found = []
    for number, colour in enumerate(SHADES, 1):
        shape = []
        for row in np.flatnonzero((kinds == number).any(axis=1)).tolist():
            edges = np.flatnonzero(np.diff(np.concatenate([[False], kinds[row] == number, [False]])))
            y = TOP + tall * row
            for first, last in edges.reshape(-1, 2).tolist():
                length = wide * (last - first)
                shape.append(f"M{LEFT + wide * first:.1f} {y:.1f}h{length:.1f}v{tall:.2f}h-{length:.1f}z")
        found.append(f'<path d="{"".join(shape)}" fill="{colour}"/>' if shape else "")
    shades = f"white: none; lightest: {least:.3g}, darkest: {most:.3g}" if (cells > 0).any() else "none"
    return _picture(found, along, up, width, high, down=True) + f'<div class="legend"><span>{shades}</span></div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], last: bool = False) -> str:
    """A table of text; its last row is one of sums, or not."""
    lines = [f"<tr>{''.join(f'<th>{html.escape(name)}</th>' for name in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    if last:
        lines[-1] = lines[-1].replace("<tr>", '<tr class="total">', 1)
    return f'<div class="table"><table>{"".join(lines)}</table></div>'


def legend(names: Sequence[str], colours: Sequence[str] = COLOURS) -> str:
    """The names beside their colours."""
    if names == [""]:
        return ""
    found = "".join(
        f'<span><i style="background:{colour}"></i>{html.escape(name)}</span> '
        for colour, name in zip(colours, names, strict=False)
    )
    return f'<div class="legend">{found}</div>'


def _picture(
    parts: Sequence[str], along: Axis, up: Axis, width: int = WIDTH, high: int = HEIGHT, down: bool = False
) -> str:
    """The picture of these parts, between its axes; the second goes up, or down."""
    whole, wide, high = high, width - LEFT - RIGHT, high - TOP - BOTTOM
    ground = whole - BOTTOM
    axes = []
    for tick, place in up.marks(3):
        y = TOP + high * (place if down else 1 - place)
        axes.append("" if up.counts else f'<path d="M{LEFT} {y:.1f}h{wide}" class="grid"/>')
        axes.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{html.escape(tick)}</text>')
    for tick, place in along.marks(6):
        x = LEFT + wide * place
        axes.append(f'<text x="{x:.1f}" y="{ground + 14}" text-anchor="middle">{html.escape(tick)}</text>')
    upright = f"translate(12 {TOP + high / 2}) rotate(-90)"
    names = (
        f'<text x="{LEFT + wide / 2}" y="{whole - 6}" text-anchor="middle">{html.escape(along.name)}</text>'
        f'<text transform="{upright}" text-anchor="middle">{html.escape(up.name)}</text>'
    )
    frame = f'<path d="M{LEFT} {TOP}V{ground}H{width - RIGHT}" stroke="#888" fill="none"/>'
    style = "<style>.grid{stroke:#ddd;fill:none}text{font:11px sans-serif;fill:#444}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" role="img">{style}'
        f"{''.join(axes)}{''.join(parts)}{frame}{names}</svg>"
    )
