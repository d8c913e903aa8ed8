"""Where commands print tables. It takes rich along: imported by commands alone."""

from __future__ import annotations

import os

from rich.console import Console


class TableConsole(Console):
    """Standard output, for tables.

    Args:
        width: of lines in a file or a pipe, where nothing is to be cut.
        heeds: whether COLUMNS says what it is there too.

    Attributes:
        bounded: whether the width is of a terminal, or asked for.
    """

    def __init__(self, width: int, heeds: bool = False) -> None:
        super().__init__()
        self.bounded = self.is_terminal or (heeds and os.environ.get("COLUMNS", "").isdigit())
        if not self.bounded:
            self.width = width

    def on_broken_pipe(self) -> None:
        """It is left to the command what its status is when its reader has seen enough."""
        raise BrokenPipeError
