"""What the LogP signature is measured on: raw mpi4py, our LogP layer on MPI ranks, or a simulated LogP machine.

One interface, so that a measurement is written once. What is timed are the callables of `sender`, `receiver` and
`probed`, with everything prepared beforehand: mpi4py's own methods, or those of a LogP processor.

Between measurements processors wait politely (`hear`): with MPI's blocking calls those that take no part would take
the cores from those that do. What is timed waits as a program would: in Recv, or in `proc.recv`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pybsp.logp.processor import Message, Processor
from pybsp.transport.waiting import Waiter

from .sampling import Timer, timer

if TYPE_CHECKING:
    from mpi4py import MPI

WORD = 8
NAP = 150e-6  # seconds: a sleep ends so much before the moment, as the system prolongs it; the rest is spun
_DATA, _VALUE = 1, 2  # tags
Action = Callable[[], object]


class Layer(Protocol):
    """Messages of a size, between processors that all run the same measurement.

    Messages of one pair of processors arrive in order. A callable of a sender, and one of a receiver on the other side,
    make one message.

    Attributes:
        name: "raw" or "logp".
        p, pid: processors, and this one.
        nodes: node number of each processor, equal on all.
        timer: of `clock`.
    """

    name: str
    p: int
    pid: int
    nodes: tuple[int, ...]
    timer: Timer

    def clock(self) -> float:
        """Seconds; the clocks of processors need not agree (see clock.py)."""

    def wait_until(self, moment: float) -> None:
        """Let time pass, up to a moment of `clock`, without a look at messages."""

    def sender(self, dest: int, size: int) -> Action:
        """What sends one message of so many bytes, and returns when its buffer may be used again."""

    def receiver(self, source: int, size: int) -> Action:
        """What waits for one message, and receives it."""

    def probed(self, source: int, size: int) -> Callable[[], float]:
        """What looks until a message is there, and then receives it: the seconds of the latter alone."""

    def train_sender(self, dest: int, size: int, messages: int) -> Action:
        """What sends so many messages, one right after another."""

    def train_receiver(self, source: int, size: int, messages: int) -> tuple[Action, Action]:
        """What gets ready for a train, and what receives it."""

    def tell(self, dest: int, value: Any) -> None:
        """Send a small Python value."""

    def hear(self, source: int) -> Any:
        """Wait, politely, for what a processor tells."""


class RawLayer:
    """mpi4py's own methods on buffers: Send and Recv; Isend and Irecv for trains.

    A train is nonblocking: with Send each message above the eager limit would wait for the receiver's answer, and the
    gap would be a round trip. The receives are posted before the train comes, as a program does that expects it.

    Args:
        comm: used for nothing else meanwhile; not freed here.
        nodes: node number of each rank; None: all on one.
    """

    name = "raw"

    def __init__(self, comm: MPI.Intracomm, nodes: Sequence[int] | None = None) -> None:
        from mpi4py import MPI

        self._comm, self._byte, self._waitall = comm, MPI.BYTE, MPI.Request.Waitall
        self.p, self.pid = comm.size, comm.rank
        self.nodes = tuple(nodes) if nodes is not None else (0,) * self.p
        self.clock = time.perf_counter
        self.timer = timer(self.clock)
        self._waiter = Waiter()
        self._out, self._in = np.empty(0, np.uint8), np.empty(0, np.uint8)

    def wait_until(self, moment: float) -> None:
        _sleep_until(moment)

    def sender(self, dest: int, size: int) -> Action:
        return partial(self._comm.Send, [self._filled(size), size, self._byte], dest, _DATA)

    def receiver(self, source: int, size: int) -> Action:
        return partial(self._comm.Recv, [self._room(size), size, self._byte], source, _DATA)

    def probed(self, source: int, size: int) -> Callable[[], float]:
        clock, receive = self.clock, self.receiver(source, size)
        probe = partial(self._comm.Iprobe, source, _DATA)

        def receive_seen() -> float:
            while not probe():
                pass
            start = clock()
            receive()
            return clock() - start

        return receive_seen

    def train_sender(self, dest: int, size: int, messages: int) -> Action:
        isend, waitall = self._comm.Isend, self._waitall
        what, each = [self._filled(size), size, self._byte], range(messages)

        def send() -> None:
            waitall([isend(what, dest, _DATA) for _ in each])

        return send

    def train_receiver(self, source: int, size: int, messages: int) -> tuple[Action, Action]:
        irecv, waitall, room = self._comm.Irecv, self._waitall, self._room(size * messages)
        parts = [[room[at : at + size], size, self._byte] for at in range(0, size * messages, size)]
        posted: list[MPI.Request] = []

        def post() -> None:
            posted[:] = [irecv(part, source, _DATA) for part in parts]

        return post, partial(waitall, posted)

    def tell(self, dest: int, value: Any) -> None:
        self._comm.send(value, dest, _VALUE)

    def hear(self, source: int) -> Any:
        here = partial(self._comm.iprobe, source)
        if not here(_VALUE):
            self._waiter.until(here, _VALUE)
        return self._comm.recv(source=source, tag=_VALUE)

    def _filled(self, size: int) -> Any:
        """Something to send; what was there before has been sent."""
        if self._out.size < size:
            self._out = np.ones(size, np.uint8)
        return self._out[:size]

    def _room(self, size: int) -> Any:
        """Room for what comes, in memory that has been touched."""
        if self._in.size < size:
            self._in = np.ones(size, np.uint8)
        return self._in[:size]


class LogPLayer:
    """A LogP processor: an MPI rank's, or a simulated one's, whose time is virtual.

    The messages of a simulated machine have no size. Its schedule must keep those of a pair in order, as "latest" does.

    Args:
        proc: the program's.
        nodes: node number of each processor; None: all on one.
    """

    name = "logp"

    def __init__(self, proc: Processor, nodes: Sequence[int] | None = None) -> None:
        self._proc, self._step = proc, proc.machine.step
        self.p, self.pid = proc.p, proc.pid
        self.nodes = tuple(nodes) if nodes is not None else (0,) * self.p
        self.clock: Callable[[], float] = self._steps if proc.timed else time.perf_counter
        self.timer = Timer(0.0, 0.0) if proc.timed else timer(self.clock)
        self._heard: dict[int, deque[Any]] = {}

    def wait_until(self, moment: float) -> None:
        if self._proc.timed:
            self._proc.compute(max(0, round(moment / self._step) - self._proc.time))
        else:
            _sleep_until(moment)

    def sender(self, dest: int, size: int) -> Action:
        return partial(self._proc.send, dest, self._payload(size))

    def receiver(self, source: int, size: int) -> Action:
        return self._proc.recv  # nobody else sends while two processors measure

    def probed(self, source: int, size: int) -> Callable[[], float]:
        clock, poll = self.clock, self._proc.poll

        def receive_seen() -> float:
            while True:
                start = clock()
                if poll() is not None:  # looks, and receives what is there
                    return clock() - start

        return receive_seen

    def train_sender(self, dest: int, size: int, messages: int) -> Action:
        send, payload, each = self._proc.send, self._payload(size), range(messages)

        def send_all() -> None:
            for _ in each:
                send(dest, payload)

        return send_all

    def train_receiver(self, source: int, size: int, messages: int) -> tuple[Action, Action]:
        recv, each = self._proc.recv, range(messages)

        def receive_all() -> None:
            for _ in each:
                recv()

        return nothing, receive_all

    def tell(self, dest: int, value: Any) -> None:
        self._proc.send(dest, (value,))

    def hear(self, source: int) -> Any:
        heard = self._heard.get(source)
        while not heard:
            message: Message = self._proc.recv()
            if message.source == source:
                return message.payload[0]
            # Of one that is ahead: what a measurement found goes to one processor after another.
            self._heard.setdefault(message.source, deque()).append(message.payload[0])
        return heard.popleft()

    def _steps(self) -> float:
        return self._proc.time * self._step

    def _payload(self, size: int) -> Any:
        return 1.0 if size <= WORD else np.ones(-(-size // WORD))


def nothing() -> None:
    """What a processor does to get ready where nothing is to be done."""


def _sleep_until(moment: float) -> None:
    """Sleep, and spin at the end.

    A receiver spins in Recv meanwhile: where hosts share two cores (a cluster emulator), a sender that spins as well
    leaves none for the network between them.
    """
    clock = time.perf_counter
    left = moment - clock()
    if left > 2 * NAP:
        time.sleep(left - NAP)
    while clock() < moment:
        pass
