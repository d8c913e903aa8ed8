"""Which rank has ended first, and without a word: killed, crashed, or by an `os._exit` that nobody saw.

`pybsp run` listens at a socket of this host, and each of its ranks joins there as it imports pybsp. One that ends by
itself takes leave first, and so does one that ends the job. Where none has ended the job, and the first end of all came
without leave, it is that of a rank that something has killed: a launcher ends the others when it has noticed, and says
little or nothing of whom.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import threading
import time
from contextlib import suppress

from ..ground import settings
from . import process

JOINING = 1.0  # seconds, at most
HIGH = 512  # a file's number, at least
LEAVE, END, BEFORE = b".", b"!", b"-"  # a rank ends; it ends the job; this process is about to become the rank
BACKLOG = 1024
ENDING = 1.0  # seconds in which the ends of all ranks of a job that is over are heard
NEVER = float("inf")

# -- in a rank ---------------------------------------------------------------------------------------------------------

_joined: list[socket.socket] = []


def join() -> None:
    """Let `pybsp run` see when this rank ends, where it has started it."""
    name = os.environ.get(settings.ATTENDANCE)
    if not name or not process.takes_part():
        return
    with suppress(OSError, AttributeError):  # of another host, or over
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(JOINING)
        try:
            line.connect(f"\0{name}")
            line.sendall(f"{process.launched()[1]} {os.getpid()}\n".encode())
        except OSError:
            line.close()
            raise
        with suppress(OSError):  # fewer files may be open
            line = socket.socket(fileno=_moved(line))
        _joined.append(line)
        os.register_at_fork(after_in_child=line.close)  # which may live longer
        process.at_end(take_leave)  # after what programs do at their end


def _moved(line: socket.socket) -> int:
    """The line under a high number.

    Linux closes the files of a process that ends from the highest on. A launcher hears of the end by one of them, a
    low one, and ends the others at once: they are not to be heard of before this one.
    """
    number = fcntl.fcntl(line, fcntl.F_DUPFD_CLOEXEC, HIGH)
    line.close()
    return number


def take_leave(how: bytes = LEAVE) -> None:
    """This rank is about to end, to end the job, having printed why if there is a reason, or to become another one."""
    for line in _joined:
        with suppress(OSError):
            line.send(how)


# -- in `pybsp run` ----------------------------------------------------------------------------------------------------


class Attendance:
    """Listens to the ranks that are started in its block.

    Args:
        ranks: how many these are.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._listening: socket.socket | None = None
        self._over, self._wake = socket.socketpair()
        self._heard: dict[socket.socket, bytes] = {}
        self._ended: list[socket.socket] = []  # those whose ranks have ended, in that order
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Attendance:
        name, line = f"pybsp run {os.getpid()} {time.monotonic_ns()}", socket.socket(socket.AF_UNIX)
        try:
            line.bind(f"\0{name}")
            line.listen(BACKLOG)
        except OSError:  # where there are no such names no rank is known
            line.close()
        else:
            self._listening = line
            os.environ[settings.ATTENDANCE] = name
        return self

    def listen(self) -> None:
        """Once the launcher has been started, as it is forked where there are no threads; ranks wait in a queue."""
        if self._listening is not None:
            self._thread = threading.Thread(
                target=self._listen, args=(self._listening,), name="pybsp attendance", daemon=True
            )
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        os.environ.pop(settings.ATTENDANCE, None)
        self._wake.close()
        if self._thread is not None:
            self._thread.join()
        for one in (self._over, *self._heard, *filter(None, [self._listening])):
            one.close()

    def _listen(self, listening: socket.socket) -> None:
        until = NEVER  # the job is over, and its ranks have so long to be so too
        with selectors.EpollSelector() as selector:
            for one in (listening, self._over):
                selector.register(one, selectors.EVENT_READ)
            while until == NEVER or (len(self._ended) < len(self._heard) and time.monotonic() < until):
                # Linux hands over what has come since the last time in the order in which it came.
                for key, _ in selector.select(None if until == NEVER else ENDING):
                    line = key.fileobj
                    assert isinstance(line, socket.socket)
                    if line is listening:
                        self._accept(line, selector)
                    elif line is self._over:
                        selector.unregister(line)
                        until = time.monotonic() + ENDING
                    elif not self._hear(line):
                        selector.unregister(line)
                        self._ended.append(line)

    def _accept(self, listening: socket.socket, selector: selectors.BaseSelector) -> None:
        """A rank joins; none any more where too many files are open."""
        try:
            rank, _ = listening.accept()
        except OSError:
            selector.unregister(listening)
            return
        selector.register(rank, selectors.EVENT_READ)
        self._heard[rank] = b""

    def _hear(self, line: socket.socket) -> bool:
        """Take what a rank has sent; whether it is still there."""
        try:
            while heard := line.recv(64, socket.MSG_DONTWAIT):
                self._heard[line] += heard
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def first_gone(self) -> str:
        """The rank that ended before all others, and without leave, in words; after the block. Empty: none is known."""
        # Which line is a rank's: the last one of a process, where it has executed another program that joined too.
        lines = {heard.split(b"\n")[0]: line for line, heard in self._heard.items() if BEFORE not in heard}
        ended = [line for line in self._ended if line in lines.values()]
        if len(lines) < self._ranks or not ended or LEAVE in self._heard[ended[0]]:
            return ""
        if any(END in heard for heard in self._heard.values()):
            return ""
        rank, number = self._heard[ended[0]].decode().split()
        return (
            f"processor {rank} (process {number}) was the first to end, by no exit of Python's: killed, as the system "
            "does where memory runs out, crashed, or by os._exit"
        )
