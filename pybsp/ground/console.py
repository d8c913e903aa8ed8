"""Where commands print tables. It takes rich along: imported by commands alone."""

from __future__ import annotations

import os

from rich.console import Console, RenderableType
from rich.text import Text


class TableConsole(Console):
    """Standard output, for tables.

    Args:
        width: of lines in a file or a pipe, where nothing is to be cut.
        wide: whether lines are as long on a terminal too.
        heeds: whether COLUMNS says how wide a file or a pipe is.

    Attributes:
        room: columns of text of a terminal, or that are asked for; 0: nothing bounds them.
    """

    def __init__(self, width: int, wide: bool = False, heeds: bool = True) -> None:
        super().__init__()
        if not wide and (self.is_terminal or (heeds and os.environ.get("COLUMNS", "").isdigit())):
            self.room = self.width
        else:
            self.room, self.width = 0, width

    def put(self, part: RenderableType) -> None:
        """Print a table, or a line of text of any length."""
        self.print(part, highlight=False, soft_wrap=isinstance(part, Text))

    def on_broken_pipe(self) -> None:
        """It is left to the command what its status is when its reader has seen enough."""
        raise BrokenPipeError
