"""`pybsp run --progress`: how far a run is, on stderr: superstep, label, and the time left where the program says it.

A thread of processor 0 looks now and then at what that processor notes anyway; the supersteps themselves do nothing for
it. A program says how many supersteps there will be by `with bsp.expect(supersteps=...)`; the outermost block counts.
While the processor is in a part of the machine the part's superstep follows.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TextIO

from ..errors import harmless
from ..ground.chunk import clock
from ..ledger.log import Counts
from . import threads

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

# What PYBSP_PROGRESS says: whether stderr ends on a terminal, where the line is written over.
TERMINAL, LINES = "terminal", "lines"
EVERY = {TERMINAL: 0.5, LINES: 5.0}  # seconds between two looks
_OVER = "\r\x1b[K"
# A terminal cuts what is longer than a line then: what went on below it would not be written over.
_CUT, _UNCUT = "\x1b[?7l", "\x1b[?7h"


class Progress:
    """Shows how far a run is, until it is left.

    Args:
        machine: of processor 0.
        how: `TERMINAL` or `LINES`.
        file: where it is written.
    """

    def __init__(self, machine: SuperstepEngine, how: str, file: TextIO | None = None) -> None:
        self._machine, self._over = machine, how == TERMINAL
        self._file = file or sys.stderr
        self._period = EVERY[how]
        self._began = clock()
        self._end = threading.Event()
        self._thread = threads.beside(self._go_on, "pybsp progress")
        self._thread.start()

    def _go_on(self) -> None:
        while not self._end.wait(self._period):
            self._write(self.text(clock()))

    def text(self, now: float) -> str:
        """`3.2 s, some 18.1 s left: superstep 120 (20 of 200) "iterate"`: where processor 0 is, times first.

        Args:
            now: by `clock`.
        """
        machine: SuperstepEngine | None = self._machine
        places: list[str] = []
        blocks: list[Counts] = []
        while machine is not None:
            account = machine.account
            block = account.log.expecting
            place = f"superstep {len(account.log)}"
            if block is not None and block.most:
                blocks.append(block)
                place += f" ({block.done} of {block.most:.0f})"
            places.append(place + f' "{account.label}"' * bool(account.label))
            machine = machine.part
        left = _left(blocks[0], now) if blocks else ""
        return f"{now - self._began:.1f} s{left}: {', in a part: '.join(places)}"

    def _write(self, text: str) -> None:
        shown = f"pybsp: {harmless(text)}"
        self._file.write(f"{_OVER}{_CUT}{shown}{_UNCUT}" if self._over else f"{shown}\n")
        self._file.flush()

    def end(self) -> None:
        """The run has ended: a line that was written over goes."""
        self._end.set()
        self._thread.join()
        if self._over:
            self._file.write(_OVER)
            self._file.flush()


def _left(block: Counts, now: float) -> str:
    """How long what is left of a block takes, by its speed since it began; empty while unknown."""
    (since, before), done = block.since, block.done
    if done == before or block.most is None:
        return ""
    return f", some {max(block.most - done, 0) * (now - since) / (done - before):.1f} s left"
