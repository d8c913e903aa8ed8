"""Objects between the process that starts ranks and these: a pickle on a socket, large buffers in memory that both map.

Functions, and what a notebook defines, go by value (cloudpickle). A buffer of LARGE bytes or more, as of a numpy array,
goes out of band: on one host its sender copies it into memory whose file the receiver maps, copy on write, so that what
a rank writes into an array is its own; to another host it goes through the socket. What is mapped has no name in any
file system: it is gone with the processes.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import select
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import process

if TYPE_CHECKING:
    from ..ground.by_value import Classes

LARGE = 1 << 16  # bytes of a buffer that goes out of band
_ALIGNED = 64  # bytes, of buffers in an arena
_DIVIDED = 1 << 22  # bytes for each of two threads, at least
_LAST = 200  # the least number of a file that is to be closed last
_HANDSHAKE = 10  # seconds that a process gets to show that it has the key


class Parcel(NamedTuple):
    """An object, pickled.

    text: the pickle, without the buffers that go out of band.
    buffers: these, of bytes.
    """

    text: bytes
    buffers: Sequence[memoryview] = ()


def pickled(value: Any, classes: Classes | None = None) -> Parcel:
    """An object as a parcel, which refers to its large buffers.

    Args:
        classes: gets those that the parcel has by value, by module and name. It may be the object's last part.

    Raises:
        Exception: it cannot be pickled: whatever its classes raise.
    """
    from ..ground import by_value

    buffers: list[memoryview] = []

    def within(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LARGE:
            return True
        buffers.append(raw)
        return False

    return Parcel(by_value.dumps(value, within, {} if classes is None else classes), buffers)


class Arena:
    """Memory that other processes of this host can map, by its file."""

    def __init__(self, size: int) -> None:
        self.size = size
        if hasattr(os, "memfd_create"):
            self.file = os.memfd_create("pybsp", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as unnamed:
                self.file = os.dup(unnamed.fileno())
        os.ftruncate(self.file, size)
        self._memory = mmap.mmap(self.file, size)

    def put(self, buffers: Sequence[memoryview]) -> None:
        """Copy buffers into it, from its beginning on."""
        with memoryview(self._memory) as memory:
            for (begin, end), buffer in zip(spans([len(one) for one in buffers]), buffers, strict=True):
                _copy(memory[begin:end], buffer)

    def free(self) -> None:
        """Those that have mapped it keep it."""
        self._memory.close()
        os.close(self.file)


def _copy(to: memoryview, data: memoryview) -> None:
    """Copy bytes; many of them in two threads, as one core moves less than memory gives."""
    half = len(data) // 2
    if half < _DIVIDED or process.allowed_cores() == 1:
        to[:] = data
        return
    dest, source = np.frombuffer(to, np.uint8), np.frombuffer(data, np.uint8)
    other = threading.Thread(target=np.copyto, args=(dest[half:], source[half:]))
    other.start()
    np.copyto(dest[:half], source[:half])
    other.join()


def spans(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Where buffers of these sizes begin and end in an arena."""
    found, at = [], 0
    for size in sizes:
        found.append((at, at + size))
        at += -(-size // _ALIGNED) * _ALIGNED
    return found


class Received:
    """A parcel that has come: `load` makes the object, `release` gives the memory back."""

    def __init__(self, text: bytes, buffers: Sequence[memoryview], mapped: mmap.mmap | None) -> None:
        self._text, self._buffers, self._mapped = text, buffers, mapped

    def load(self, loads: Callable[..., Any] = pickle.loads) -> Any:
        """The object. May be called once.

        Args:
            loads: makes it, of the pickle and its buffers.
        """
        buffers, self._buffers = self._buffers, ()
        return loads(self._text, buffers=buffers)

    def release(self) -> bool:
        """Give the memory back; False where something still refers to it, which then keeps it."""
        self._buffers = ()
        if self._mapped is not None:
            try:
                self._mapped.close()
            except BufferError:
                return False
        return True


class _Head(NamedTuple):
    """What goes before a parcel: sizes of its buffers, and which are read-only; bytes of the arena that holds them, 0
    where they follow on the socket; whether its file comes now."""

    about: Any
    sizes: tuple[int, ...]
    fixed: tuple[bool, ...]
    arena: int
    file: bool


def _last(file: int) -> int:
    """A duplicate by a number that is higher than those that a process begins with.

    What a process that ends has closed last Linux gives back first: so the other end learns of that before the launcher
    does, which then ends the others, and would be told of one of these.
    """
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _LAST)
    except OSError:  # so many are not allowed
        return os.dup(file)


class Line:
    """One end of a connection over which parcels go.

    Args:
        connected: a stream socket, which the line takes.
        near: whether files can go through it: both ends are on one host.
    """

    def __init__(self, connected: socket.socket, near: bool) -> None:
        if not near:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.near, self._socket = near, connected
        self._connection = Connection(_last(connected.fileno()))
        self._sent: Arena | None = None  # whose file the other end has
        self._file = -1  # of the arena of the other end
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._connection.fileno()

    def prove(self, key: bytes, first: bool) -> None:
        """Show the other end that this one has the key, and see that it has it; one of both is first.

        Raises:
            multiprocessing.AuthenticationError: it has not.
            OSError, EOFError: it does not answer.
        """
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _HANDSHAKE, 0))
        for step in (deliver_challenge, answer_challenge) if first else (answer_challenge, deliver_challenge):
            step(self._connection, key)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))

    def send(self, about: Any, parcel: Parcel | None = None, arena: Arena | None = None) -> None:
        """Send something small, by pickle, and with it a parcel.

        Args:
            arena: into which its buffers were put; not read where the other end is on another host.
        """
        with self._sending:
            text, buffers = parcel if parcel is not None else (b"", ())
            shared = arena if self.near and buffers else None
            news = shared is not None and shared is not self._sent
            sizes, fixed = tuple(map(len, buffers)), tuple(one.readonly for one in buffers)
            head = _Head(about, sizes, fixed, shared.size if shared else 0, news)
            self._connection.send_bytes(pickle.dumps((head, text)))
            if shared is None:
                for buffer in buffers:
                    self._connection.send_bytes(buffer)
            elif news:
                socket.send_fds(self._socket, [b"f"], [shared.file])
                self._sent = shared

    def receive(self) -> tuple[Any, Received]:
        """What was sent, waited for without a processor; an EOFError or OSError where the other end is gone."""
        head, text = pickle.loads(self._connection.recv_bytes())
        mapped, buffers = None, []
        if head.file:
            if self._file >= 0:
                os.close(self._file)
            _, (self._file,), _, _ = socket.recv_fds(self._socket, 1, 1)
            os.set_inheritable(self._file, False)
        if head.arena:
            mapped = mmap.mmap(self._file, head.arena, access=mmap.ACCESS_COPY)
            memory = memoryview(mapped)
            buffers = [memory[begin:end] for begin, end in spans(head.sizes)]
        else:
            for size in head.sizes:
                data = bytearray(size)
                self._connection.recv_bytes_into(data)
                buffers.append(memoryview(data))
        buffers = [one.toreadonly() if fixed else one for one, fixed in zip(buffers, head.fixed, strict=True)]
        return head.about, Received(text, buffers, mapped)

    def hung_up(self, seconds: float | None) -> bool:
        """Whether the other end is gone; waits for that so long, None: for ever."""
        hung = select.poll()
        hung.register(self.fileno(), getattr(select, "POLLRDHUP", 0))
        return bool(hung.poll(None if seconds is None else 1000 * seconds))

    def become(self, file: int) -> None:
        """Let a file of this process, by its number, be this end, in place of the line."""
        os.dup2(self.fileno(), file)
        self._socket.close()
        self._connection.close()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.leave()

    def leave(self) -> None:
        """Close the files of this process alone: a child that was forked leaves the line to its parent."""
        self._socket.close()
        self._connection.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Sender:
    """Sends parcels whose buffers share one arena, which is used again as soon as nobody needs what was in it."""

    def __init__(self) -> None:
        self._arena: Arena | None = None

    def put(self, parcel: Parcel) -> Arena | None:
        """The arena that holds the buffers of a parcel now; None where there are none."""
        needed = max((end for _, end in spans([len(one) for one in parcel.buffers])), default=0)
        if not needed:
            return None
        if self._arena is not None and self._arena.size < needed:
            self.forget()
        if self._arena is None:
            self._arena = Arena(needed)
        self._arena.put(parcel.buffers)
        return self._arena

    def forget(self) -> None:
        """Somebody still uses what is in the arena: the next parcel gets another one."""
        if self._arena is not None:
            self._arena.free()
            self._arena = None


class Rendezvous:
    """Where processes meet the one that has started them: on this host, and, if asked for, from others.

    Args:
        far: whether processes of other hosts come too.

    Attributes:
        key: that they must show.
        address: for `connect`, as a text.
    """

    def __init__(self, far: bool) -> None:
        self.key = os.urandom(24)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if os.uname().sysname == "Linux":  # a name in no file system, which is gone with this process
            path = f"\0pybsp {os.getpid()} {os.urandom(8).hex()}"
        else:
            self._folder = tempfile.TemporaryDirectory()
            path = os.path.join(self._folder.name, "ranks")
        self._listening = [(socket.socket(socket.AF_UNIX), True)]
        self._listening[0][0].bind(path)
        port = 0
        if far:
            tcp = socket.create_server(("", 0))
            port = tcp.getsockname()[1]
            self._listening.append((tcp, False))
        for one, _ in self._listening:
            one.listen(1024)
            one.setblocking(False)
        self.address = " ".join([path.encode().hex(), socket.gethostname(), str(port), self.key.hex()])

    def files(self) -> list[int]:
        """Those that become readable when somebody comes."""
        return [one.fileno() for one, _ in self._listening]

    def accept(self) -> Line | None:
        """The line of one that has come; None where nobody has, or one without the key."""
        for listening, near in self._listening:
            with suppress(BlockingIOError):
                connected, _ = listening.accept()
                connected.setblocking(True)
                line = Line(connected, near)
                try:
                    line.prove(self.key, first=True)
                except (OSError, EOFError, ValueError, RuntimeError, AuthenticationError):
                    line.close()
                    return None
                return line
        return None

    def close(self) -> None:
        for one, _ in self._listening:
            one.close()
        if self._folder is not None:
            self._folder.cleanup()


def connect(address: str) -> Callable[[], Line]:
    """How to reach a meeting: what is called for each line.

    Raises (when called):
        OSError: it cannot be reached.
    """
    path, host, port, key = address.split(" ")

    def line() -> Line:
        near = socket.socket(socket.AF_UNIX)
        try:
            near.connect(bytes.fromhex(path))
            found = Line(near, near=True)
        except OSError:
            near.close()
            if port == "0":
                raise
            far = socket.create_connection((host, int(port)), timeout=60)
            far.setblocking(True)
            found = Line(far, near=False)
        try:
            found.prove(bytes.fromhex(key), first=False)
        except BaseException:
            found.close()
            raise
        return found

    return line
