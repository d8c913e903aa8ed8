"""A signal that makes a rank print where it is: PYBSP_REPORT_SIGNAL, SIGUSR1 if that is not set.

The stacks of all threads are printed at once, also of a rank that is stuck in a library (faulthandler prints from the
signal's handler, without Python); the processor's number, its superstep and line follow when Python gets to it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from ..errors import UsageError, place_of
from ..ground import settings
from .watch import running

NONE = ("0", "none")

stderr: int | None = None  # where to print, in a program that has put something else into the place of file 2
_installed: int | None = None


def configured_signal() -> int | None:
    """The signal; None: none."""
    text = settings.text(settings.REPORT_SIGNAL)
    if text.lower() in NONE:
        return None
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    number = getattr(signal, name, settings.whole(text))
    with suppress(ValueError):
        found = signal.Signals(number)
        if found not in (signal.SIGKILL, signal.SIGSTOP):
            return found
    raise UsageError(f"PYBSP_REPORT_SIGNAL: expected a signal, as SIGUSR1, or none, got {text!r:.60}")


def install() -> None:
    """Print when the signal comes, from now on; not where the program has a handler for it, nor in other threads.

    To be called when MPI is there, so that it does not set its own later.
    """
    global _installed
    number = configured_signal()
    if number is None or number == _installed or threading.current_thread() is not threading.main_thread():
        return
    library = os.path.basename(_set_by(number))
    if signal.getsignal(number) is not signal.SIG_DFL or (library and not library.startswith("libmpi")):
        return
    file = 2 if stderr is None else stderr
    if stderr is None:
        with suppress(AttributeError, OSError, ValueError):
            file = sys.stderr.fileno()
    faulthandler.unregister(number)  # one of the program that MPI has replaced would keep ours from being set
    signal.signal(number, _print_place)
    faulthandler.register(number, file=file, all_threads=True, chain=True)
    _installed = number


def _set_by(number: int) -> str:
    """The file of the library that has set a handler of which Python does not know; empty: there is none.

    MPICH has one for SIGUSR1, of use only under `mpiexec -disable-auto-cleanup`.
    """
    if sys.platform != "linux":
        return ""
    process = ctypes.CDLL(None)
    action = (ctypes.c_void_p * 32)()  # larger than any struct sigaction, which begins with the handler
    if process.sigaction(number, None, action) != 0 or (action[0] or 0) <= 1:  # SIG_DFL, SIG_IGN
        return ""
    found = (ctypes.c_char_p * 4)()  # struct Dl_info, which begins with the file
    process.dladdr.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return os.fsdecode(found[0]) if process.dladdr(action[0], found) and found[0] else "?"


def _print_place(number: int, frame: FrameType | None) -> None:
    """Say which processor this is, and where."""
    name, place = "", ""
    if running:
        watch = running[-1]
        name, place = f"processor {watch.pid} of {watch.p}, ", watch.place(frame)
    elif frame is not None:
        place = f"between runs, at {place_of(frame)}"
    text = f"pybsp: {name}process {os.getpid()}: {place}\n"
    with suppress(OSError):
        write(text)


def write(text: str) -> None:
    """Write to standard error past sys.stderr, which may be in the middle of something."""
    os.write(2 if stderr is None else stderr, text.encode(errors="backslashreplace"))
