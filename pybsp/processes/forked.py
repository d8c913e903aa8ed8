"""A call in a process of its own, forked from this one: what it imports, changes and leaves behind ends with it."""

from __future__ import annotations

import atexit
import ctypes
import io
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import IO, Any, NoReturn, TypeVar

from ..errors import BSPError, UsageError
from .supervise import die_with_parent, in_foreground

Result = TypeVar("Result")


def forked(act: Callable[[], Result], what: str) -> Result:
    """Make a call in a child of this process, and wait for it.

    Args:
        act: what it gives is pickled, no more than numbers and texts.
        what: it does, for the error.

    Raises:
        BSPError, KeyboardInterrupt: what the call raised.
        UsageError: its process has ended before it did.
    """
    with tempfile.TemporaryFile() as answer:
        for stream in sys.stdout, sys.stderr:
            stream.flush()  # else the child would write it again
        child = os.fork()
        if child == 0:
            _answer(act, answer)
        _wait(child, what)
        answer.seek(0)
        found = pickle.load(answer)
    if isinstance(found, BaseException):
        raise found
    return found  # type: ignore[no-any-return]


def _answer(act: Callable[[], object], answer: IO[bytes]) -> NoReturn:
    """In the child: write what the call gives, and end."""
    status = 1
    try:
        atexit._clear()  # what the parent has registered is the parent's
        if sys.platform == "linux":
            die_with_parent(ctypes.CDLL(None))
        try:
            found = act()
        except (BSPError, KeyboardInterrupt) as error:
            found = error
        atexit._run_exitfuncs()
        pickle.dump(found, answer)
        answer.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):  # closed by the program
            sys.stderr.flush()
        os._exit(status)


def _wait(child: int, what: str) -> None:
    """Until the child has ended; Ctrl-C is for it, and it says what becomes of that."""

    def forward(number: int, frame: FrameType | None) -> None:
        if not in_foreground():
            os.kill(child, number)

    before = signal.signal(signal.SIGINT, forward)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        signal.signal(signal.SIGINT, before)
    code = os.waitstatus_to_exitcode(status)
    if code:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        raise UsageError(f"{what}: its process {how}")


class RepeatedInput(io.RawIOBase):
    """Standard input from its beginning, in each process that is forked: what one has read the next one reads again.

    No further than they read: an input that never ends keeps nobody waiting who does not read it.
    """

    def __init__(self) -> None:
        self._before = tempfile.TemporaryFile()  # noqa: SIM115
        self._at = 0

    def close(self) -> None:
        self._before.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = os.pread(self._before.fileno(), len(buffer), self._at)
        if not found:
            found = os.read(0, len(buffer))
            os.pwrite(self._before.fileno(), found, self._at)
        self._at += len(found)
        buffer[: len(found)] = found
        return len(found)
