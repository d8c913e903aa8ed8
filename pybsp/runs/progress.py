"""`pybsp run --progress`: how far a run is, on stderr: superstep, label, and the time left where the program says it.

A thread of processor 0 looks now and then at what that processor notes anyway; the supersteps themselves do nothing for
it. A program says how many supersteps there will be by `with bsp.expect(supersteps=...)`; the outermost block counts.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

from ..ground.decoding import harmless
from ..ledger.account import Account
from ..ledger.log import Counts
from . import threads

# What PYBSP_PROGRESS says: whether stderr ends on a terminal, where the line is written over.
TERMINAL, LINES = "terminal", "lines"
EVERY = {TERMINAL: 0.5, LINES: 5.0}  # seconds between two looks
_OVER = "\r\x1b[K"


class Progress:
    """Shows how far a run is, until it is left.

    Args:
        account: of processor 0.
        how: `TERMINAL` or `LINES`.
        file: where it is written.
    """

    def __init__(self, account: Account, how: str, file: TextIO | None = None) -> None:
        self._account, self._over = account, how == TERMINAL
        self._file = file or sys.stderr
        self._period = EVERY[how]
        self._began = time.monotonic()
        self._block: tuple[Counts | None, float, int] = None, 0.0, 0  # that was seen last, when, and how far it was
        self._end = threading.Event()
        self._thread = threads.beside(self._go_on, "pybsp progress")
        self._thread.start()

    def _go_on(self) -> None:
        while not self._end.wait(self._period):
            self._write(self.text(time.monotonic()))

    def text(self, now: float) -> str:
        """`superstep 120 (20 of 200) "iterate", 3.2 s; some 18.1 s left`: where processor 0 is.

        Args:
            now: by `time.monotonic`.
        """
        account = self._account
        ended, label, block = len(account.log), account.label, account.log.expecting
        text = f"superstep {ended}"
        left = ""
        if block is not None and block.most:
            done = ended - block.first
            if self._block[0] is not block:
                self._block = block, now, done
            _, since, before = self._block
            text += f" ({done} of {block.most:.0f})"
            if done > before:
                left = f"; some {max(block.most - done, 0) * (now - since) / (done - before):.1f} s left"
        return text + f' "{label}"' * bool(label) + f", {now - self._began:.1f} s{left}"

    def _write(self, text: str) -> None:
        shown = f"pybsp: {harmless(text)}"
        self._file.write(f"{_OVER}{shown}" if self._over else f"{shown}\n")
        self._file.flush()

    def end(self) -> None:
        """The run has ended: a line that was written over goes."""
        self._end.set()
        self._thread.join()
        if self._over:
            self._file.write(_OVER)
            self._file.flush()
