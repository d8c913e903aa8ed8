"""What a LogP program sees of its processor, on every machine that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, overload

from ..machines.logp import LogPMachine


class Message(NamedTuple):
    """A received message.

    An array is read-only. So is one in another object, such as a tuple, but for those that pickle copies: arrays that
    are not contiguous, of objects, or of times.

    Examples:
        >>> def program(proc):
        ...     if proc.pid == 1:
        ...         proc.send(0, "text")
        ...         return None
        ...     return proc.recv()
        >>> pybsp.logp.simulate(program, p=2).results[0]
        Message(source=1, payload='text')
    """

    source: int
    payload: Any


class Processor(Protocol):
    """One processor of a LogP machine: of a simulated one, an MPI rank, or one that a BSP processor simulates.

    One thread at a time may call it, and no signal's handler: where two calls overlap, messages may be lost.

    Attributes:
        p: processors.
        pid: this one, 0 to p - 1.
        machine: the parameters, equal on all processors.
        timed: whether the machine keeps the model's times: simulated ones do. MPI ranks do not, as nothing bounds a
            message's delay there (`pace=True` keeps gaps and overheads, no more). Where it is False, `time` is this
            processor's own clock, and that time has passed says nothing of what has arrived.
        stalls: messages of this processor that have stalled.
        stalled_seconds: how long they did: steps times `machine.step`; on MPI ranks by the clock.

    Examples:
        >>> def program(proc):
        ...     if proc.pid == 1:
        ...         proc.compute(5)
        ...         proc.send(0, proc.p)
        ...     else:
        ...         proc.recv()
        ...     return proc.time, proc.stalls, proc.stalled_seconds, proc.poll()
        >>> pybsp.logp.simulate(program, machine=pybsp.LogPMachine(p=2, L=16, o=1, G=4)).results
        [(23, 0, 0.0, None), (6, 0, 0.0, None)]
    """

    p: int
    pid: int
    machine: LogPMachine
    timed: bool
    stalls: int

    @property
    def stalled_seconds(self) -> float:
        """How long sends of this processor stalled: steps times `machine.step`; on MPI ranks by the clock."""

    @property
    def time(self) -> int:
        """Steps since the program began; the clocks of a simulated machine agree, those of MPI ranks need not.

        Examples:
            >>> def program(proc):
            ...     proc.compute(7)
            ...     return proc.time
            >>> pybsp.logp.simulate(program, p=2).results
            [7, 7]
        """

    def send(self, dest: int, payload: Any) -> None:
        """Submit a message, copied now; returns when the medium has accepted it.

        o steps to prepare it, G at least between two submissions, and a stall while dest has capacity messages in
        transit. Messages of one pair of processors arrive in any order in a simulated machine, in order on MPI ranks.
        On a simulated machine with G_word a message of k words keeps the port for (k - 1) G_word more, and takes that
        much longer; the processor is busy for o alone (LogGP).

        Args:
            dest: another processor.
            payload: numpy array, buffer, number, or any picklable object, as in BSP.

        Raises:
            UsageError: no such processor, itself, or something that cannot be pickled. Nothing is sent then.

        Examples:
            >>> def program(proc):
            ...     if proc.pid == 1:
            ...         proc.send(0, np.arange(3))
            ...         return proc.time  # o steps
            ...     return proc.recv().payload.tolist()
            >>> pybsp.logp.simulate(program, machine=pybsp.LogPMachine(p=2, L=16, o=2, G=4)).results
            [[0, 1, 2], 2]
        """

    @overload
    def recv(self) -> Message: ...

    @overload
    def recv(self, until: int | None) -> Message | None: ...

    def recv(self, until: int | None = None) -> Message | None:
        """Acquire the message that arrived first of those not yet acquired; waits for one.

        o steps, and G at least between two acquisitions.

        Args:
            until: a time. None is returned then, if no acquisition could begin at or before it. A time that has
                passed returns at once, without a message only if none is there. Without it, recv waits for ever.

        Raises:
            DeadlockError: no message can ever come: all processors wait or have ended, and none is in transit.
        """

    def poll(self) -> Message | None:
        """Acquire a message if one has arrived (o steps, after the gap); else None, after one step.

        Examples:
            >>> def program(proc):
            ...     if proc.pid == 1:
            ...         return proc.send(0, "text")
            ...     tries = 1
            ...     while proc.poll() is None:
            ...         tries += 1
            ...     return tries
            >>> pybsp.logp.simulate(program, machine=pybsp.LogPMachine(p=2, L=16, o=1, G=4)).results[0]
            18
        """

    def compute(self, steps: int) -> None:
        """Work locally for so many steps, at least 0.

        Examples:
            >>> def program(proc):
            ...     proc.compute(100 * proc.pid)
            ...     return proc.time
            >>> pybsp.logp.simulate(program, p=3).results
            [0, 100, 200]
        """


Program = Callable[..., Any]  # program(proc, *args, **kwargs) on every processor
