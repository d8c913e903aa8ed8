"""The clocks of several nodes against processor 0's: it asks one of each, node by node (ground/clocks.py)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..ground.clocks import ROUNDS, Clock, offset
from . import wire
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI


class Asked(Protocol):
    """What asks and answers: a transport of MPI ranks."""

    @property
    def pid(self) -> int:
        """Of this processor."""

    @property
    def nodes(self) -> list[int]:
        """Of each processor what tells its node, whose processors have one clock, that of `time.perf_counter`."""

    @property
    def waiter(self) -> Waiter:
        """How it waits."""

    def channel(self, use: int) -> tuple[MPI.Intracomm, list[int], int]:
        """For messages outside of exchanges: a communicator, the ranks by pid, and the tag of a use (wire.py)."""


def clocks(transport: Asked) -> dict[int, Clock]:
    """Of each node but processor 0's its clock against that one's; on processor 0. Collective.

    Processor 0 asks the first one of each other node, one node after the other. Nodes are what shares memory: names of
    hosts may be alike where clocks are not.
    """
    found: dict[int, Clock] = {}
    nodes = transport.nodes
    for node in dict.fromkeys(nodes):
        leader = nodes.index(node)
        if node != nodes[0]:
            if transport.pid == 0:
                found[node] = _ask(transport, leader)
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
