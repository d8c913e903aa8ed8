"""What these print, and write to files: tables, curves, and figures as JSON."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from rich import box
from rich.table import Table


def load_pyplot() -> Any:
    """matplotlib's, drawing into files; without it the script ends here."""
    try:
        importlib.import_module("matplotlib").use("agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        sys.exit("--plot needs matplotlib: pip install 'pybsp[plot]'")


def markdown_table(title: str, *columns: str) -> Table:
    """A table as the docs have it, without rows."""
    table = Table(title=title, box=box.MARKDOWN, title_justify="left")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def plain(value: Any) -> Any:
    """Tuples with names, as JSON objects."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value
