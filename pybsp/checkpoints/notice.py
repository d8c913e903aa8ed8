"""A signal that says that the job is to end soon: SIGTERM, as schedulers send it, or SIGUSR2, which launchers pass on.

The next call of `bsp.checkpoint` tells the others, and the first after the superstep that goes on then saves and ends.
A notice outlives a run: what comes after the last checkpoint of one ends the program in the next run that saves.

Launchers kill the ranks where they get SIGTERM. So `pybsp run`, which starts the launcher, leaves a notice for
processor 0 in a file instead.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR2)
ENDED = 128 + signal.SIGTERM  # the status of a job that was told to end, and has saved

_come: set[int] = set()  # signals; each of them is a notice once, and then does what it always did
_listeners: dict[Callable[[], None], None] = {}


def listen(warn: Callable[[], None]) -> None:
    """Call `warn` when a signal comes, or has come in an earlier run, until `leave`.

    Not for signals that the program has a handler for, nor in other threads than the main one.
    """
    _listeners[warn] = None
    if _come:
        warn()
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if number not in _come and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _handle)


def leave(warn: Callable[[], None]) -> None:
    """Call `warn` no more; where nobody listens the signals do what they always did."""
    _listeners.pop(warn, None)
    if not _listeners and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is _handle:
                signal.signal(number, signal.SIG_DFL)


def _handle(number: int, frame: FrameType | None) -> None:
    _come.add(number)
    signal.signal(number, signal.SIG_DFL)
    for warn in list(_listeners):
        warn()


class NoticeFile:
    """The file of a job through which `pybsp run` gives processor 0 notice.

    It is there, and empty, while processor 0 heeds it; with anything in it the job is to end. Another one beside it is
    there once all have saved, and the job ends.

    Args:
        path: in the folder that all see, with a name of this job's own; None: nobody gives notice by a file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._answer = None if path is None else path.with_name(f"{path.name}-saved")

    def heed(self) -> None:
        """Processor 0 heeds it from now on."""
        if self.path is not None:
            with suppress(OSError):
                self.path.touch()

    def ignore(self) -> None:
        """Processor 0 does no longer; a notice that has come stays."""
        if self.path is None:
            return
        with suppress(OSError), self.path.open("rb") as file:
            self.path.unlink()
            if os.fstat(file.fileno()).st_size:
                self.path.write_text("end")

    def has_come(self) -> bool:
        """Whether the job is to end."""
        with suppress(OSError):
            return self.path is not None and self.path.stat().st_size > 0
        return False

    def give(self) -> bool:
        """Give notice; whether somebody heeds it."""
        with suppress(OSError):
            if self.path is not None:
                with self.path.open("r+b") as file:  # where it is there
                    file.write(b"end")
                return True
        return False

    def answer(self) -> None:
        """All have saved, and the job ends."""
        if self._answer is not None:
            with suppress(OSError):
                self._answer.touch()

    def answered(self) -> bool:
        """Whether the job has ended so; also where nobody could tell."""
        return self._answer is None or self._answer.exists()

    def remove(self) -> None:
        """The job has ended."""
        for file in filter(None, (self.path, self._answer)):
            with suppress(OSError):  # it is not there, or nor is its folder
                file.unlink()

    def remove_others(self) -> None:
        """Take away what jobs have left that used the folder before, and were killed."""
        if self.path is not None:
            for other in self.path.parent.glob("end-*"):
                if other not in (self.path, self._answer):
                    with suppress(OSError):
                        other.unlink()


def new_file(folder: Path) -> Path:
    """The path of a notice file for another job with checkpoints there."""
    return folder / f"end-{os.urandom(4).hex()}"
