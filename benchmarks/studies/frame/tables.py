"""Tables as the docs have them: Markdown, a line for each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

BAR = " | "  # between cells
FORM = re.compile(r"(.*?)(?: ?\[(.*)\])?")  # a column's name, and the form of its cells


def table(title: str, head: str, rows: Iterable[str | Sequence[object]]) -> Table:
    """A table; numbers are set to the right.

    Args:
        title: above it.
        head: the columns' names, with " | " between them, each with the form of its cells where these are no text:
            "p | median [.2f]".
        rows: as many cells each: values (None: an empty cell), or a text with " | " between them.

    Raises:
        ValueError: a row has more or fewer cells than the head.
    """
    columns = [FORM.fullmatch(column) for column in head.split(BAR)]
    names, forms = zip(*(column.groups("") for column in columns if column), strict=True)
    lines = [row.split(BAR) if isinstance(row, str) else _formed(row, forms) for row in rows]
    found = Table(title=title, box=box.MARKDOWN, title_justify="left")
    for name, column in zip(names, zip(*lines, strict=True) if lines else [()] * len(names), strict=True):
        numbers = all(not cell or cell.lstrip("-+<>~")[:1].isdigit() for cell in column)
        found.add_column(name, justify="right" if numbers else "left")
    for line in lines:
        found.add_row(*map(Text, line))  # not markup: cells may have brackets
    return found


def columns(head: str) -> list[str]:
    """The names of a table's columns; one that comes again with that before it: "first: predicted"."""
    names = [FORM.sub(r"\1", column) for column in head.split(BAR)]
    return [name if names.count(name) == 1 else f"{names[k - 1]}: {name}" for k, name in enumerate(names)]


def _formed(row: Sequence[object], forms: Sequence[str]) -> list[str]:
    pairs = zip(row, forms, strict=True)
    return ["" if value is None else value if isinstance(value, str) else format(value, form) for value, form in pairs]


def cells(values: Iterable[object], form: str = "") -> str:
    """Several cells of one form: `cells(ratios, ".2f")`."""
    return BAR.join(format(value, form) for value in values)


def heads(names: Iterable[object], form: str) -> str:
    """Several columns of one form, for the head of a table: `heads(ORDERS, ".2f")`."""
    return BAR.join(f"{name} [{form}]" for name in names)


def bounded(estimate: Sequence[float], unit: float = 1.0) -> str:
    """A figure and the ends of its interval, in a unit: "3.1 (2.9 to 4)"."""
    value, low, high = (figure / unit for figure in estimate)
    return f"{value:.4g} ({low:.4g} to {high:.4g})"


def spread(samples: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.float64]], unit: float = 1.0) -> str:
    """The median of samples, and their 5th to 95th percentile, in a unit: "3.1 (2.9 to 4)"."""
    return bounded(np.percentile(samples, (50, 5, 95)).tolist(), unit)
