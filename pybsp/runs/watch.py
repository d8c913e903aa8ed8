"""Where each processor is, for the others of its node to read, and for those that wait for it to say.

A processor that computes for ever, is stuck in a library or stopped cannot be asked. So a thread of each wakes up every
few seconds and writes down the superstep and the line in which the program is, in a little memory that the other
processes of the node can open (`memfd_create`, `/proc/PID/fd`): it needs no help of the writer to be read, nor MPI, and
is gone when its processes are. The program itself does nothing for it.

Two copies are written in turns, each with a checksum: whoever reads takes the newest one that is whole.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from struct import Struct
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ..errors import place_of
from ..ground import settings
from ..messages.agreement import pids
from . import threads

if TYPE_CHECKING:
    from ..transport.medium import MPITransport

RECENTLY = 1.0  # seconds since something was written, in which a run that begins leaves it at that
LONGEST = 5.0  # seconds between two looks at where a program is, at most
COPY_BYTES = 1024  # bytes of a copy
NAMED = 8  # processors of which a report says where they are, at most
NEVER = float("inf")

# Where a thread waits for other processors; the second, for the thread that does so (`bsp.end`).
_WAITS = {("pybsp.transport.waiting", "until"), ("pybsp.transport.medium", "complete")}

running: list[Watch] = []  # of this process, those of inner runs last

_HEAD = Struct("=IHd??")  # checksum of what follows, bytes of the text; when, waits and long of a sighting
_CHECKED = 4  # bytes of the head before those that the checksum is of


class Address(NamedTuple):
    """Where to read of a processor. Equal nodes: the processes of one can see those of the other."""

    node: str
    process: int
    started: str
    file: int


NOWHERE = Address("", 0, "", -1)


class Sighting(NamedTuple):
    """Where a processor was last seen.

    when: by `time.monotonic`, which is the same on all of a node.
    waits: whether it waited for others; long: for long.
    """

    text: str
    when: float
    waits: bool
    long: bool


class Watch:
    """Writes down where this processor is, while a run lasts, and reads where others are.

    Made in the thread that the program runs in.

    Args:
        alone: there are no others.

    Attributes:
        address: for the others.
        pid, p: of this processor, once the run has begun.
    """

    def __init__(self, alone: bool) -> None:
        self.pid, self.p = 0, 1
        self._superstep: Callable[[], str] = str
        self._heard: Callable[[], str] = str
        self._transport: MPITransport | None = None
        self._program = threading.get_ident()
        self._turn = 0
        self._writing = threading.Lock()
        self._long: str | None = None  # the superstep in which this processor waits for long
        self.address = NOWHERE if alone else _address(os.getpid())
        self._addresses: Sequence[Address] = ()
        self._hosts: Sequence[str] = ()

    @property
    def in_another_thread(self) -> bool:
        """Whether the run, one of several processors, is in another thread than the one that asks."""
        return self.p > 1 and self._program != threading.get_ident()

    def begin(
        self,
        transport: MPITransport,
        addresses: Sequence[Address],
        hosts: Sequence[str],
        superstep: Callable[[], str],
        heard: Callable[[], str],
        timeout: float | None = None,
    ) -> None:
        """The run has begun: waits that take long are reported, and ended, from now on.

        Args:
            transport: of the run.
            addresses, hosts: of all processors.
            superstep: says in which superstep this processor is; empty: there are none.
            heard: says when those of other nodes, known to be missing, were last heard of.
            timeout: seconds after which a wait ends; None: never.
        """
        self.pid, self.p, self._addresses, self._hosts = transport.pid, transport.p, addresses, hosts
        self._superstep, self._heard = superstep, heard
        running.append(self)
        first, limit = limits(timeout)
        if self.p == 1:
            return
        self._transport = transport
        transport.patience(self, [address.node for address in addresses], first, limit)
        if min(first, limit) == NEVER:
            return
        if self.address.file >= 0:
            if time.monotonic() > _writer.wrote + RECENTLY:
                self._write()
            _writer.write(min(first, limit) / 4)

    def end(self) -> None:
        """The run has ended, or has not begun."""
        if self in running:
            running.remove(self)
        if self._transport is not None:
            # Until the next run begins it is looked whether the others are there, and nothing else.
            self._superstep = self._heard = str
            self._transport.patience(self, [address.node for address in self._addresses], NEVER, NEVER)
            self._transport = None

    def announce(self) -> None:
        """Let others of this node see that this processor waits for long."""
        if self.address.file >= 0:
            self._long = self._superstep()
            self._write()

    def _write(self) -> None:
        frame = sys._current_frames().get(self._program)
        if frame is None:
            return
        try:
            waits = waiting(frame)
            if not waits or self._long != self._superstep():
                self._long = None
            body = self.place(frame).encode(errors="backslashreplace")[: COPY_BYTES - _HEAD.size]
        finally:
            # In the program's thread it is this call's own: a cycle, by which all that the run has would stay.
            del frame
        head = _HEAD.pack(0, len(body), time.monotonic(), waits, self._long is not None)[_CHECKED:]
        record = crc32(head + body).to_bytes(_CHECKED, sys.byteorder) + head + body
        with self._writing:
            _writer.wrote = time.monotonic()
            self._turn = 1 - self._turn
            with suppress(OSError):  # no memory is left: others read an older one
                os.pwrite(self.address.file, record, self._turn * COPY_BYTES)

    def place(self, frame: FrameType | None = None) -> str:
        """`superstep 3 ("exchange"), at program.py:17`: where the program is.

        Args:
            frame: in which it is; None: that of its thread.
        """
        frame = frame or sys._current_frames().get(self._program)
        place = "" if frame is None else f"at {place_of(frame)}"
        del frame  # as in `_write`
        return ", ".join(filter(None, (self._superstep(), place)))

    # -- what it knows of others --------------------------------------------------------------------------------------

    def patient(self, pids: Iterable[int]) -> set[int]:
        """Which of these processors are of this node and were last seen in a long wait."""
        return {pid for pid in pids if (seen := self._waiting(pid)) is not None and seen.long}

    def _waiting(self, pid: int) -> Sighting | None:
        """The last sighting of a processor of this node, where it waits."""
        seen = self._read(self._addresses[pid])
        return seen if seen is not None and seen.waits and not _state(self._addresses[pid]) else None

    def ended(self) -> list[int]:
        """The processors of this node that have no process any more."""
        return [pid for pid, address in enumerate(self._addresses) if self._here(pid) and _is_gone(address)]

    def late(self) -> list[int]:
        """The processes of this node's other processors that were not seen waiting, and go on."""
        found = []
        for pid, address in enumerate(self._addresses):
            if pid != self.pid and self._here(pid) and not _state(address) and self._waiting(pid) is None:
                found.append(address.process)
        return found

    def describe(self, waited: float, absent: Sequence[int]) -> str:
        """What this processor waits for, in words.

        Args:
            waited: seconds.
            absent: who has not come, as far as is known.
        """
        place = self.place()
        text = f"processor {self.pid} has waited {waited:.0f} s{' in ' * bool(place)}{place}"
        if absent:
            text += f", for {pids(absent)}"
        named = list(absent)
        if all(map(self._waiting, absent)):
            # Those wait themselves, or nobody is known to be missing: say who of this node does not wait.
            here = [pid for pid in range(len(self._addresses)) if self._here(pid) and pid not in (self.pid, *absent)]
            named += [pid for pid in here if self._waiting(pid) is None]
        text += "".join(f"; {self._whereabouts(pid)}" for pid in named[:NAMED])
        return text + f"; and {len(named) - NAMED} more" * (len(named) > NAMED)

    def _here(self, pid: int) -> bool:
        return self._addresses[pid].node == self.address.node

    def _whereabouts(self, pid: int) -> str:
        """Where a processor is, or when it was last heard of."""
        address = self._addresses[pid]
        if not self._here(pid):
            return f"processor {pid} (host {self._hosts[pid]}) {self._heard()}"
        state = _state(address)
        text = f"processor {pid} (this node, process {address.process}{', ' * bool(state)}{state})"
        seen = self._read(address)
        if seen is None:
            return f"{text}, of which nothing is known"
        ago = max(time.monotonic() - seen.when, 0.0)
        return f"{text} was seen {ago:.0f} s ago{', waiting' * seen.waits}{' in ' * bool(seen.text)}{seen.text}"

    def _read(self, address: Address) -> Sighting | None:
        """The newest sighting of a processor of this node that can be read."""
        if address.node != self.address.node or address.file < 0:
            return None
        found: list[Sighting] = []
        try:
            # What has this number may be anything: the program may have closed ours.
            file = os.open(f"/proc/{address.process}/fd/{address.file}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            for turn in (0, 1):
                with suppress(OSError):
                    record = os.pread(file, COPY_BYTES, turn * COPY_BYTES)
                    if len(record) >= _HEAD.size:
                        checksum, size, when, waits, long = _HEAD.unpack_from(record)
                        end = _HEAD.size + size
                        if checksum == crc32(record[_CHECKED:end]):
                            text = record[_HEAD.size : end].decode(errors="replace")
                            found.append(Sighting(text, when, waits, long))
        finally:
            os.close(file)
        return max(found, key=lambda one: one.when, default=None)


class _PlaceWriter:
    """The thread that writes down where this process is; from one run to the next, as to start it takes long."""

    def __init__(self) -> None:
        self.wrote = -RECENTLY  # by `time.monotonic`, the last time
        self._period = LONGEST
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, period: float) -> None:
        """Write at least every so many seconds, from now on."""
        if period < self._period:
            self._period = period
            self._hurry.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threads.beside(self._go_on, "pybsp watch")
            self._thread.start()

    def _go_on(self) -> None:
        while True:
            self._hurry.wait(self._period)
            self._hurry.clear()
            for watch in running[-1:]:
                watch._write()


_writer = _PlaceWriter()


def limits(timeout: float | None) -> tuple[float, float]:
    """Seconds of a wait after which it is reported, and after which it ends."""
    return settings.seconds(settings.WARN_AFTER) or NEVER, NEVER if timeout is None else timeout


def waiting(frame: FrameType | None) -> bool:
    """Whether a frame is inside a wait for other processors."""
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _WAITS:
            return True
        frame = frame.f_back
    return False


@cache
def _address(process: int) -> Address:
    """The address of this process, whose number that is."""
    file = -1
    with suppress(AttributeError, OSError):  # not a system that has it
        file = os.memfd_create("pybsp", os.MFD_CLOEXEC)
    return Address(_node(), process, _stat(process)[1], file)


def _node() -> str:
    """Equal where processes can see each other."""
    parts = [os.uname().nodename]
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
        with open("/proc/sys/kernel/random/boot_id") as file:
            parts.append(file.read().strip())
    return " ".join(parts)


def _stat(process: int) -> tuple[str, str]:
    """State of a process (R, S, T, ...), and when it was started; empty where there is none."""
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def _state(address: Address) -> str:
    """What is the matter with the process of a processor of this node; empty: nothing."""
    state, started = _stat(address.process)
    if started != address.started or state in ("Z", "X"):
        return "has ended" if address.started else ""
    return {"T": "stopped", "t": "stopped by a debugger"}.get(state, "")


def _is_gone(address: Address) -> bool:
    """Whether a process of this node has ended; not where nothing can be read, as with too many open files."""
    state, started = _stat(address.process)
    if state:
        return bool(address.started) and (started != address.started or state in ("Z", "X"))
    try:
        os.kill(address.process, 0)
    except ProcessLookupError:
        return bool(address.started)
    except OSError:
        pass
    return False
