"""A job that is started again, when it has died, until it is done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .notice import ENDED

KILLED = 128 + signal.SIGKILL  # the status of a job of which a rank was
# What ends ranks that are killed, or that crash, by number: from 6 on, as programs end with small ones of their own.
SIGNALS = frozenset((signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM))


def counted(folders: Sequence[Path]) -> frozenset[str]:
    """The checkpoints that count in some folders: those that have a manifest, of all runs."""
    found: set[str] = set()
    for folder in folders:
        with suppress(OSError):
            found.update(str(one.parent) for one in folder.glob("run-*/*/manifest.json"))
    return frozenset(found)


def until_done(job: Callable[[], int], stopped: Callable[[], bool], folders: Sequence[Path], restarts: int) -> int:
    """Run a job until it ends well, or has died too often; returns its status.

    One that a signal has ended is started again. So is one that has ended with an error of its own, but only while each
    start gets further than the one before: it would end so for ever else, and this ends with the first of these errors.

    Args:
        job: runs it, and returns its status.
        stopped: whether this process was told to end.
        folders: of its checkpoints.
        restarts: how often it may be started again, at most.
    """
    first, before = 0, counted(folders)
    for left in range(restarts, -1, -1):
        status = job()
        if status in (0, ENDED) or stopped():
            return status
        after = counted(folders)
        if after - before:
            first = 0
        elif first and not killed(status):
            _print(f"died of an error twice without a checkpoint between; it is not started again (status {first})")
            return first
        if not killed(status):
            first = first or status
        before = after
        if left:
            _print(f"the job died (status {status}); started again, {left - 1} more times at most")
    _print(f"the job died (status {status}), and has been started again {restarts} times")
    return first or status


def killed(status: int) -> bool:
    """Whether a launcher's status says that a signal has ended a rank: 128 and more, or, of MPICH, its number."""
    return status > 128 or status in SIGNALS


def _print(text: str) -> None:
    print(f"pybsp run: {text}", file=sys.stderr, flush=True)
