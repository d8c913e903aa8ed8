"""What is being sent is left alone until MPI has said that it is gone, however long that takes.

MPI is asked as ever; but of a send it answers that it is under way, until it has been asked some times. So what a slow
network shows now and then is the rule.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.transport.flight import InFlight
from pybsp.transport.wire import DATA

from .launching import Program, ended_well, ranks

SLOW = """
    import weakref
    import numpy as np, pybsp
    from pybsp import collectives
    from mpi4py import MPI
    from pybsp.transport.wire import PROBE

    LOOKS = 5  # of so many, the last one finds the send gone
    under_way = {}  # by id of a request: a weak reference, its memory, what that held, the looks that are left
    memory = {}  # of a persistent request
    counted = {"started": 0, "sent": 0, "forgotten": 0}

    def leaves(request, buffer):
        number = id(request)
        def forgotten(_):
            counted["forgotten"] += under_way.pop(number, None) is not None
        under_way[number] = [weakref.ref(request, forgotten), buffer, bytes(buffer), LOOKS]

    def bytes_of(message):
        return memoryview(message[0]).cast("B")[: message[1]]

    class Communicator(MPI.Intracomm):
        def Send_init(self, message, dest, tag):
            request = super().Send_init(message, dest, tag)
            memory[id(request)] = bytes_of(message)
            return request

        def Isend(self, message, dest, tag):
            request = super().Isend(message, dest, tag)
            if tag != PROBE:  # of a long wait, on a machine that is busy: it is awaited by itself
                counted["sent"] += 1
                leaves(request, bytes_of(message))
            return request

    class Prequest(MPI.Prequest):
        @staticmethod
        def Startall(requests):
            for request in requests:
                if id(request) in memory:
                    assert id(request) not in under_way, "sent again before it was gone"
                    counted["started"] += 1
                    leaves(request, memory[id(request)])
            Sound.Startall(requests)

    class Request(MPI.Request):
        @staticmethod
        def Testall(requests, statuses=None):
            sends = [under_way[id(request)] for request in requests if id(request) in under_way]
            for send in sends:
                send[3] -= 1
            if any(send[3] > 0 for send in sends) or not sound(requests, statuses):
                return False
            for request, buffer, held, _ in sends:
                assert buffer == held, "written over before it was gone"
                del under_way[id(request())]
            return True

    Sound, sound = MPI.Prequest, MPI.Request.Testall
    MPI.Prequest, MPI.Request = Prequest, Request
    with pybsp.attach(Communicator(MPI.COMM_WORLD)) as bsp:
        p, pid = bsp.p, bsp.pid
        queue = bsp.queue(np.int64)
        for k in range(20):
            bsp.sync()
            for size in (1, 3, 3, 100, 300, 3000, 10_000):  # in heads, along with manifests, alone
                for dest in range(p):
                    bsp.send(dest, np.full(size, 1000 * pid + k))
                queue.send(np.arange(p), np.full(p, k))
                bsp.sync()
                assert [m.payload.tolist() for m in bsp.inbox] == [[1000 * s + k] * size for s in range(p)]
                assert queue.values.tolist() == [k] * p
                for _ in range(2):  # records behind each other: short ones, and some that go from memory of their own
                    assert collectives.allreduce(bsp, pid + k, np.add) == sum(range(k, k + p))
                    of_all = collectives.allreduce(bsp, np.full(size, pid + k), np.add)
                    assert of_all.tolist() == [sum(range(k, k + p))] * size
                    root = k % p
                    assert collectives.broadcast(bsp, np.full(size, pid), root).tolist() == [root] * size
            # A group of one waits for the other one, which has two supersteps' worth of work, and says nothing.
            group = bsp.group([pid] if pid == 0 else range(1, p))
            assert collectives.allreduce(group, np.full(500, pid), np.add).tolist() == [sum(group.members)] * 500
            if k % 10 == 0:
                with bsp.split(pid % 2) as part:
                    part.send(0, k)
                    part.sync()
                    assert [m.payload for m in part.inbox] == ([k] * part.p if part.pid == 0 else [])
    assert counted["started"] > 100 and counted["sent"] > 50 and not counted["forgotten"] and not under_way, counted
    if pid == 0:
        print("left alone")
"""


@pytest.mark.fast("2")
@pytest.mark.parametrize("p", [2, 3])
def test_what_is_being_sent_is_left_alone(program: Program, p: int) -> None:
    assert ended_well(ranks(p, program(SLOW), PYBSP_SHARED="0")) == "left alone\n"


def test_sends_that_are_let_go_are_not_asked_for_with_those_of_later_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[bool] = []
    asked: list[tuple[str, ...]] = []

    def testall(requests: list[str]) -> bool:
        asked.append((*requests,))
        return gone[-1]

    of_mpi = SimpleNamespace(BYTE=None, Request=SimpleNamespace(Testall=testall), Status=None)
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=of_mpi))
    communicator: Any = SimpleNamespace(Isend=lambda message, rank, tag: f"{len(message[0])} bytes to {rank}")
    waiter: Any = SimpleNamespace(briefly=lambda test, requests: test(requests))
    flight = InFlight(communicator, 0, 0, None)
    for each in (False, True):
        gone.append(each)
        asked.clear()
        flight.send([(1, bytes(3)), (2, bytes(5))], DATA)
        flight.let_go(waiter)
        assert {*asked} == {("3 bytes to 1", "5 bytes to 2")}
        assert flight.leaving == []
    assert len(flight.unfinished) == 1  # of the exchange whose sends were under way
