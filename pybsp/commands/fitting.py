"""Tables that fit into a terminal: columns for which there is no room are left out, and named below, not cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

WIDTH = 240  # of lines where nothing bounds it
_LABEL = 24  # of a label's in a narrow table


def fitted(
    cells: Mapping[str, Sequence[str]], width: int, least_telling: Sequence[str], option: str = "", sums: bool = True
) -> Iterator[Table | Text]:
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
        yield _table(cells, False, sums)
        return
    shown, widths, out = dict(cells), _widths(cells, True), []
    for name in least_telling:
        if name in shown and sum(widths[one] for one in shown) + 1 > width:
            out.append(name)
            del shown[name]
    yield _table(shown, True, sums)
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
