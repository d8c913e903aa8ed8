"""What a failing processor says of itself, and the error that the others raise."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import ProcessorError, SyncError, describe
from .outcome import outcome


class Failure(NamedTuple):
    """What a failing processor says of itself; superstep -1: there are none."""

    superstep: int
    label: str
    primary: bool  # False where it fails because another processor of a part did
    summary: str
    ends: bool = False  # outside of any run: its process ends

    @property
    def exits(self) -> bool:
        """Whether it asked Python to exit, which then prints no traceback."""
        return self.summary.startswith("SystemExit")


def killed(error: BaseException | None) -> bool:
    """Whether the virtual machine is being taken down around this processor."""
    return type(error).__name__ == "GreenletExit"


def failure_of(error: BaseException, superstep: int, label: str) -> Failure:
    """What to tell the others about an exception."""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    return Failure(superstep, label, not isinstance(error, (ProcessorError, SyncError)), summary)


def culprit(notes: Sequence[Any]) -> int:
    """The lowest pid that failed of itself, else the lowest that failed."""
    failed = [pid for pid, note in enumerate(notes) if isinstance(note, Failure)]
    return next((pid for pid in failed if notes[pid].primary), failed[0])


def processor_error(notes: Sequence[Any]) -> ProcessorError:
    """The error of the processors that did not fail."""
    pid = culprit(notes)
    failure: Failure = notes[pid]
    place = "" if failure.superstep < 0 else f" in {describe(failure.superstep, failure.label)}"
    if failure.ends:
        place = " outside of a run"
    text = f"processor {pid} failed{place}: {failure.summary}"
    error = ProcessorError(text, pid, max(failure.superstep, 0), failure.label)
    outcome(error).silent = failure.exits
    return error
