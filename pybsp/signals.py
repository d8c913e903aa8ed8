"""A signal that makes a rank print where it is: PYBSP_REPORT_SIGNAL, SIGUSR1 if that is not set.

The stacks of all threads are printed at once, also of a rank that is stuck in a library (faulthandler prints from the
signal's handler, without Python); the processor's number, its superstep and line follow when Python gets to it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from .errors import UsageError, place_of
from .watch import running

DEFAULT = "SIGUSR1"
NONE = ("0", "none")

_installed: int | None = None


def wanted() -> int | None:
    """The signal; None: none."""
    text = os.environ.get("PYBSP_REPORT_SIGNAL", "") or DEFAULT
    if text.lower() in NONE:
        return None
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    number = int(text) if text.isdigit() else getattr(signal, name, -1)
    with suppress(ValueError):
        found = signal.Signals(number)
        if found not in (signal.SIGKILL, signal.SIGSTOP):
            return found
    raise UsageError(f"PYBSP_REPORT_SIGNAL: expected a signal, as SIGUSR1, or none, got {text!r}")


def install() -> None:
    """Print when the signal comes, from now on; not where the program has a handler for it, nor in other threads."""
    global _installed
    number = wanted()
    if number is None or number == _installed or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(number) is not signal.SIG_DFL or _caught(number):
        return
    try:
        file = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        file = 2
    signal.signal(number, _say)
    faulthandler.register(number, file=file, all_threads=True, chain=True)
    _installed = number


def _caught(number: int) -> bool:
    """Whether a library has set a handler, of which Python does not know."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> number - 1 & 1)
    return False


def _say(number: int, frame: FrameType | None) -> None:
    """Say which processor this is, and where."""
    name, place = "", ""
    if running:
        watch = running[-1]
        name, place = f"processor {watch.pid} of {watch.p}, ", watch.place(frame)
    elif frame is not None:
        place = f"between runs, at {place_of(frame)}"
    text = f"pybsp: {name}process {os.getpid()}: {place}\n"
    with suppress(OSError):
        os.write(2, text.encode())  # sys.stderr may be in the middle of something
