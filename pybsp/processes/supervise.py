"""A command that is waited for, with all the processes that it leaves behind, as if it ran in place of this process."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

ROUNDS = 100  # of killing children and theirs
STRAGGLERS = 10.0  # seconds that processes get to end in after a command that failed
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # from its keys: to all processes in its foreground

_PARENT_DEATH_SIGNAL, _CHILD_SUBREAPER = 1, 36  # of prctl, on Linux


def supervise(
    command: Sequence[str], translate: Callable[[int], int] = int, begun: Callable[[], object] | None = None
) -> int:
    """Run a command to its end; Linux only.

    Signals that are sent to this process go on to the command, which is told to end (SIGTERM) if this process is
    killed. When the command has failed, what it has started is waited for as well, but no longer than STRAGGLERS
    seconds: daemons may stay.

    Args:
        command: program and arguments.
        translate: from a signal that has come to the one that goes on, unless the terminal has sent it to all.
        begun: called when it has been started.

    Returns:
        Its exit status; 128 + n if signal n ended it.

    Raises:
        OSError: it cannot be started.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_CHILD_SUBREAPER, 1)  # orphans below this process become its children
    # Killed outright, prterun and srun would leave ranks behind that compute.
    job = subprocess.Popen(command, preexec_fn=partial(die_with_parent, libc))

    def forward(number: int, frame: FrameType | None) -> None:
        translated = translate(number)
        if not (number in OF_TERMINAL and in_foreground()):
            job.send_signal(translated)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    if begun is not None:
        begun()
    status = job.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    if status:
        wait_for_children(STRAGGLERS)
    return status if status >= 0 else 128 - status


def die_with_parent(libc: ctypes.CDLL) -> None:
    """Have this process told to end (SIGTERM) when the one that has started it does; Linux only."""
    libc.prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))


def in_foreground() -> bool:
    """Whether this process is in the foreground of its terminal, whose keys then reach the command without help."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def end_children() -> None:
    """Kill what is left of a job that has died, before another one starts; Linux only."""
    for _ in range(ROUNDS):
        children: list[int] = []
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text().split())
        if not children:
            return
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for_children(0.1)  # theirs are ours then


def wait_for_children(seconds: float) -> None:
    """Until there are none, or so much time has passed."""
    until = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
