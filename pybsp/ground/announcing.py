"""What pybsp says beside a program's own output: on standard error, whatever has become of that.

A program may have put a file in the place of sys.stderr or sys.stdout, whose disk is full, or have closed them: that
costs words, and neither a result nor the end of a job.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from functools import cache
from typing import TextIO


def announce(text: str) -> None:
    """Print lines to standard error, or where they cannot be written there, to that which the process began with."""
    for stream in (sys.stderr, sys.__stderr__):
        if stream is not None:  # print takes None for standard output
            with suppress(Exception):
                print(text, file=stream, flush=True)
                return


@cache
def announce_once(text: str) -> None:
    """As `announce`, of what is the same in each of a program's runs: a process says it once."""
    announce(text)


def announce_error(error: BaseException) -> None:
    """Print an exception with its traceback."""
    announce("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip("\n"))


def flush() -> bool:
    """Let what was printed leave the process; whether standard error takes words."""
    _flushed(sys.stdout)
    return _flushed(sys.stderr)


def _flushed(stream: TextIO) -> bool:
    try:
        stream.flush()
    except Exception:  # None, closed, or of a full disk
        return False
    return True
