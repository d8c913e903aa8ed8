"""The greenlet of a program, and its end where the program itself would wait for ever."""

from __future__ import annotations

import contextlib
from typing import NoReturn

import greenlet

# What a program calls of its processor after the end of an execution raises GreenletExit, so that `finally` clauses run
# and end. One that catches even that, and calls again and again, is left where it is after so many.
EXITS = 100

_left_behind: list[ProgramTask] = []  # a greenlet that is collected while it waits would run once more


class ProgramTask(greenlet.greenlet):
    """Runs a program's processor."""

    _exits = 0

    def end(self) -> None:
        """End the program, from outside, where it waits. What it raises then is not what went wrong."""
        with contextlib.suppress(Exception, SystemExit):
            self.throw(greenlet.GreenletExit)
        if not self.dead:
            _left_behind.append(self)

    def exit(self) -> NoReturn:
        """End the program from inside: it has called something, and its execution is over."""
        self._exits += 1
        while self._exits > EXITS:
            assert self.parent is not None
            self.parent.switch()
        raise greenlet.GreenletExit
