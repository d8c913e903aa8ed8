"""Whether this process is a notebook's, and what it shows there while ranks run."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

from ..errors import harmless

_warned = False

_FIRST = 1.0  # seconds that a run takes before anything is shown of it
_EVERY = 0.5  # seconds between two changes of what is shown


def in_notebook() -> bool:
    """Whether this process is an IPython kernel, which shows what a cell prints in a page."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def alone(operation: str) -> str | None:
    """What to say, once, of a run that has one processor since this process is a notebook's."""
    global _warned
    if _warned or not in_notebook():
        return None
    _warned = True
    return (
        f"{operation}: one processor, as no launcher has started this notebook; pybsp.start_ranks(main, n=4) starts "
        "ranks, and pybsp.simulate(main, p=4) virtual processors"
    )


class CellProgress:
    """A line in a notebook's cell: how far the processors are, of a run that takes long; nothing elsewhere."""

    def __init__(self, p: int) -> None:
        self._p, self._began, self._shown = p, time.monotonic(), 0.0
        self._places: dict[int, tuple[int, str]] = {}
        self._display: Any = None

    def at(self, pid: int, superstep: int, label: str) -> None:
        """A processor is in a superstep."""
        self._places[pid] = superstep, label

    def show(self) -> None:
        """Show it, if it is time to."""
        now = time.monotonic()
        if now < max(self._began + _FIRST, self._shown + _EVERY) or not in_notebook():
            return
        self._shown = now
        self._update(self.text(now - self._began))

    def text(self, seconds: float) -> str:
        """`4 processors, 3.5 s, superstep 12 to 13 ("exchange")`."""
        text = f"{self._p} processors, {seconds:.1f} s"
        if self._places:
            (first, label), (last, _) = min(self._places.values()), max(self._places.values())
            text += f", superstep {first}{f' to {last}' * (last > first)}{f' ({harmless(label)})' * bool(label)}"
        return text

    def end(self) -> None:
        """The run has ended: what was shown goes."""
        if self._display is not None:
            self._update("")

    def _update(self, text: str) -> None:
        content = {"text/plain": text}
        if self._display is None:
            self._display = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)
