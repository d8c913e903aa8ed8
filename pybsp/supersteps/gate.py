"""Whether a processor's machine may be used now, and which processors there are to name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..errors import BSPError, UsageError, brief, where
from ..processes.process import keep_from_children

Result = TypeVar("Result")


class Gate:
    """Open while the processors 0 to p - 1 may be named; closed while nothing may be called.

    Whatever names a processor asks for `0 <= dest < gate.limit` itself, as that is all in one comparison, and comes
    here with what does not pass.

    Args:
        p: processors.
        of: what may be called or not, for errors: a run, or a part of a machine.

    Attributes:
        limit: numbers below it are processors; 0 where the gate is closed.
        failed: the error that all processors know of; nothing opens the gate any more.
        misused: what the program has done wrong in a call that could not raise, in words; nor does then.
        over: "ended" or "failed", where no more supersteps come; for reprs.
    """

    __slots__ = ("__weakref__", "_p", "_why", "failed", "limit", "misused", "of", "over")

    def __init__(self, p: int, of: str = "run") -> None:
        self._p = self.limit = p
        self.of = of
        self._why = self.misused = self.over = ""
        self.failed: BSPError | None = None
        keep_from_children(self)

    def open(self) -> None:
        """The machine may be used again, unless all know that it has failed."""
        if self.failed is None and not self.misused:
            self.limit, self.over = self._p, ""

    def close(self, why: str, over: str = "") -> None:
        """Nothing may be called from now on; `why` says so after the operation's name."""
        self.limit, self._why, self.over = 0, why, over

    def closed_during(self, function: Callable[[Any, Any], Result], why: str) -> Callable[[Any, Any], Result]:
        """A function of two values, while which runs nothing may be called; `why`: as of `close`."""

        def within(a: Any, b: Any) -> Result:
            limit = self.limit
            self.limit, self._why = 0, why
            try:
                return function(a, b)
            finally:
                self.limit = limit

        return within

    def fail(self, error: BSPError) -> None:
        """All processors know of this error: nothing more is exchanged."""
        self.failed = error
        self.close(f"the {self.of} has failed: {error}", "failed")

    def refuse(self, why: str) -> None:
        """Nothing may be called in this process, whatever opens the gate in the rank."""
        self.misused = why
        self.close(why, "ended")

    def unentered(self, call: str) -> None:
        """A block was dropped before it was entered: its call has done nothing, on the line that goes on."""
        if self.over or self.failed is not None:
            return  # nothing depends on it any more
        line = where()
        place = "" if line.startswith(f"{__file__}:") else f" at {line}"  # the program's function has ended
        self.misused = f"{call}{place}: expected a block, without which it does nothing; write `with {call}:`"
        self.close(self.misused)

    def check(self, operation: str) -> None:
        """Raise UsageError where nothing may be called now."""
        if not self.limit:
            raise UsageError(f"{operation}: {self._why}") from self.failed

    def processor(self, operation: str, argument: str, pid: Any) -> int:
        """A processor's number that is no plain int in range: an integer of numpy, or an error."""
        if isinstance(pid, np.integer) and 0 <= pid < self.limit:
            return int(pid)
        raise self.refusal(operation, argument, pid)

    def refusal(self, operation: str, argument: str, pid: Any) -> UsageError:
        """The error for a processor that there is none of; raised here where nothing may be called now."""
        self.check(operation)
        return UsageError(
            f"{operation}: argument {argument}: expected a processor from 0 to {self._p - 1}, got {brief(pid)}"
        )
