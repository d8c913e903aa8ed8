"""Tables as the docs have them: Markdown, a line for each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

BAR = " | "  # between cells


def table(title: str, head: str, rows: Iterable[str]) -> Table:
    """A table; numbers are set to the right.

    Args:
        title: above it.
        head: the columns' names, with " | " between them.
        rows: as many cells each, with " | " between them.

    Raises:
        ValueError: a row has more or fewer cells than the head.
    """
    names = head.split(BAR)
    lines = [row.split(BAR) for row in rows]
    found = Table(title=title, box=box.MARKDOWN, title_justify="left")
    for name, column in zip(names, zip(*lines, strict=True) if lines else [()] * len(names), strict=True):
        numbers = all(not cell or cell.lstrip("-+<>~")[:1].isdigit() for cell in column)
        found.add_column(name, justify="right" if numbers else "left")
    for line in lines:
        found.add_row(*map(Text, line))  # not markup: cells may have brackets
    return found


def cells(values: Iterable[object], form: str = "") -> str:
    """Several cells of one form: `cells(ratios, ".2f")`."""
    return BAR.join(format(value, form) for value in values)


def spread(samples: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.float64]], unit: float = 1.0) -> str:
    """The median of samples, and their 5th to 95th percentile, in a unit: "3.1 (2.9 to 4)"."""
    low, median, high = np.percentile(samples, (5, 50, 95)) / unit
    return f"{median:.4g} ({low:.4g} to {high:.4g})"
