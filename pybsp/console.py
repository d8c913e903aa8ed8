"""Where commands print tables. It takes rich along: imported by commands alone."""

from __future__ import annotations

from rich.console import Console


class TableConsole(Console):
    """Standard output, for tables.

    Args:
        width: of lines in a file or a pipe, where nothing is to be cut.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if not self.is_terminal:
            self.width = width

    def on_broken_pipe(self) -> None:
        """It is left to the command what its status is when its reader has seen enough."""
        raise BrokenPipeError
