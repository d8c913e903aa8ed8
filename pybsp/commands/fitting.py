"""Tables that fit into a terminal: columns for which there is no room are left out, and named below, not cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

WIDTH = 240  # of lines where nothing bounds it
_LABEL = 24  # of a label's in a narrow table
MANY = 200  # rows, of which rich makes each in a millisecond


def fitted(
    cells: Mapping[str, Sequence[str]], width: int, least_telling: Sequence[str], option: str = "", sums: bool = True
) -> Iterator[RenderableType]:
    """The table of these columns, and what it leaves out to fit.

    Args:
        cells: by what stands above them; that of labels is named "label".
        width: columns of text that there is room for; 0: any.
        least_telling: what is left out, this first.
        option: a command that leaves out nothing.
        sums: whether the last line is of them.
    """
    needed = sum(_widths(cells, False).values()) + 1
    if not width or needed <= width:
        yield _FittedTable(cells, False, sums)
        return
    shown, widths, out = dict(cells), _widths(cells, True), []
    for name in least_telling:
        if name in shown and sum(widths[one] for one in shown) + 1 > width:
            out.append(name)
            del shown[name]
    yield _FittedTable(shown, True, sums)
    if out:
        way_out = f"`{option}`, or COLUMNS={needed}," if option else f"COLUMNS={needed}"
        yield Text(f"Left out of {width} columns: {', '.join(out)}; {way_out} has all.")


def _head(name: str, narrow: bool) -> str:
    """What stands above a column, in two lines where the table is narrow."""
    if not narrow:
        return name
    for before, part in ((" [", "\n["), ("/m", "/\nm"), ("/p", "/\np"), (" over", "\nover")):
        name = name.replace(before, part)
    return name


def _widths(cells: Mapping[str, Sequence[str]], narrow: bool) -> dict[str, int]:
    """Of each column, with a line and blanks around it."""
    found = {
        name: 3 + max(map(cell_len, (*_head(name, narrow).split("\n"), *column))) for name, column in cells.items()
    }
    return {**found, "label": min(found["label"], _LABEL + 3)} if narrow and "label" in found else found


class _FittedTable:
    """A table. Of many rows rich makes the head and the end, and each row by itself is a line of text here: that takes
    a twentieth of the time. Not where a cell takes several lines, or there is too little room: that is for rich to say.
    """

    def __init__(self, cells: Mapping[str, Sequence[str]], narrow: bool, sums: bool) -> None:
        self._cells, self._narrow, self._sums = cells, narrow, sums

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        cells, narrow, end = self._cells, self._narrow, int(self._sums)
        rows = list(zip(*cells.values(), strict=True))
        widths = _widths(cells, narrow)
        widest = {name: max(column, key=cell_len) for name, column in cells.items()}
        if (
            len(rows) <= MANY
            or sum(widths.values()) + 1 > options.max_width
            or any(cell_len(cell) > widths[name] - 3 for name, cell in widest.items())
            or not all(map(str.isprintable, chain(*rows)))
        ):
            yield _table(cells, narrow, self._sums)
            return
        # As wide as the whole: one row, with the widest of each column, and the last one.
        short = {name: [widest[name], *column[len(rows) - end :]] for name, column in cells.items()}
        lines = console.render_lines(_table(short, narrow, self._sums), options, pad=False)
        before = 2 + max(_head(name, narrow).count("\n") + 1 for name in cells)
        for line in lines[:before]:
            yield from (*line, Segment.line())
        bar = HEAVY_HEAD.substitute(options, safe=console.safe_box).mid_vertical
        for row in rows[: len(rows) - end]:
            aligned = []
            for (name, width), cell in zip(widths.items(), row, strict=True):
                blanks = " " * (width - 3 - cell_len(cell))
                aligned.append(cell + blanks if name == "label" else blanks + cell)
            yield Segment(f"{bar} {f' {bar} '.join(aligned)} {bar}\n")
        for line in lines[before + 1 :]:
            yield from (*line, Segment.line())


def _table(cells: Mapping[str, Sequence[str]], narrow: bool, sums: bool) -> Table:
    table = Table()
    for name in cells:  # as text: a unit in brackets is no markup
        label = name == "label"
        table.add_column(
            Text(_head(name, narrow)),
            justify="left" if label else "right",
            max_width=_LABEL if label and narrow else None,
        )
    rows = list(zip(*cells.values(), strict=True))
    for number, row in enumerate(rows, 1):
        if sums and number == len(rows):
            table.add_section()
        table.add_row(*map(Text, row))
    return table
