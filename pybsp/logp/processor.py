"""What a LogP program sees of its processor, on every machine that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, overload

from ..machine import LogPMachine


class Message(NamedTuple):
    """A received message; arrays are read-only."""

    source: int
    payload: Any


class Processor(Protocol):
    """One processor of a LogP machine: of a simulated one, an MPI rank, or one that a BSP processor simulates.

    Attributes:
        p: processors.
        pid: this one, 0 to p - 1.
        machine: the parameters, equal on all processors.
        timed: whether the machine keeps the model's times: simulated ones do. MPI ranks do not, as nothing bounds a
            message's delay there (`pace=True` keeps gaps and overheads, no more). Where it is False, `time` is this
            processor's own clock, and that time has passed says nothing of what has arrived.
        stalls: messages of this processor that have stalled.
        stalled_seconds: how long they did: steps times `machine.step`; on MPI ranks by the clock.
    """

    p: int
    pid: int
    machine: LogPMachine
    timed: bool
    stalls: int

    @property
    def stalled_seconds(self) -> float: ...

    @property
    def time(self) -> int:
        """Steps since the program began; the clocks of a simulated machine agree, those of MPI ranks need not."""

    def send(self, dest: int, payload: Any) -> None:
        """Submit a message, copied now; returns when the medium has accepted it.

        o steps to prepare it, G at least between two submissions, and a stall while dest has capacity messages in
        transit. Messages of one pair of processors arrive in any order in a simulated machine, in order on MPI ranks.

        Args:
            dest: another processor.
            payload: numpy array, buffer, number, or any picklable object, as in BSP.

        Raises:
            UsageError: no such processor, itself, or something that cannot be pickled. Nothing is sent then.
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
        """Acquire a message if one has arrived (o steps, after the gap); else None, after one step."""

    def compute(self, steps: int) -> None:
        """Work locally for so many steps, at least 0."""


Program = Callable[..., Any]  # program(proc, *args, **kwargs) on every processor
