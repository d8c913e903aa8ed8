"""The clocks of several hosts against processor 0's: it asks one of each, host by host (ground/clocks.py)."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..ground.clocks import ROUNDS, Clock, offset
from . import wire
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI

Host = TypeVar("Host", bound=Hashable)


class Asked(Protocol):
    """What asks and answers: a transport of MPI ranks."""

    @property
    def pid(self) -> int:
        """Of this processor."""

    @property
    def waiter(self) -> Waiter:
        """How it waits."""

    def channel(self, use: int) -> tuple[MPI.Intracomm, list[int], int]:
        """For messages outside of exchanges: a communicator, the ranks by pid, and the tag of a use (wire.py)."""


def clocks(transport: Asked, hosts: Sequence[Host]) -> dict[Host, Clock]:
    """Of each host but processor 0's its clock against that one's; on processor 0. Collective.

    Processor 0 asks the first one of each other host, one host after the other.

    Args:
        transport: of the processors.
        hosts: of each processor, what tells its host, whose processors have one clock, that of `time.perf_counter`.
    """
    found: dict[Host, Clock] = {}
    for host in dict.fromkeys(hosts):
        leader = hosts.index(host)
        if host != hosts[0]:
            if transport.pid == 0:
                found[host] = _ask(transport, leader)
            elif transport.pid == leader:
                _answer(transport)
    return found


def _ask(transport: Asked, pid: int) -> Clock:
    asked, stamp, answered = np.empty((3, ROUNDS))
    for number in range(ROUNDS):
        asked[number] = time.perf_counter()
        _pass(transport, pid, np.zeros(1), True)
        _pass(transport, pid, stamp[number : number + 1], False)
        answered[number] = time.perf_counter()
    return offset(asked, stamp, answered)


def _answer(transport: Asked) -> None:
    question = np.empty(1)
    for _ in range(ROUNDS):
        _pass(transport, 0, question, False)
        _pass(transport, 0, np.array([time.perf_counter()]), True)


def _pass(transport: Asked, pid: int, number: NDArray[np.float64], sends: bool) -> None:
    comm, ranks, tag = transport.channel(wire.CLOCKS)
    request = (comm.Isend if sends else comm.Irecv)(number, ranks[pid], tag)
    if not request.Test():
        transport.waiter.until(type(request).Test, request)
