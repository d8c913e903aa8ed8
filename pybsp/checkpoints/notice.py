"""A signal that says that the job is to end soon: SIGTERM, as schedulers send it, or SIGUSR2, which launchers pass on.

The next call of `bsp.checkpoint` tells the others, and the first after the superstep that goes on then saves and ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR2)


@contextmanager
def noticed(warn: Callable[[], None]) -> Iterator[None]:
    """Call `warn` when a signal comes in the block, once; the second one does what it always did.

    Not for signals that the program has a handler for, nor in other threads than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        warn()

    for number in ours:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is handle:
                signal.signal(number, signal.SIG_DFL)
