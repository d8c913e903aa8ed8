"""Messages between hosts, counted: the sparse exchange as it is, among so many processors in this process.

A communicator that delivers at once stands in for MPI's; the processors take turns. In a direct exchange a head goes to
each other processor, whatever is sent: p - 1.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from pybsp.transport import SYNC
from pybsp.transport.sparse import SparseExchange

Box = deque[tuple[int, bytes, "_Request"]]


class _Request:
    def __init__(self, done: bool) -> None:
        self.done = done


class _Receive:
    def __init__(self, box: Box, into: Any) -> None:
        self._box, self._into, self._come = box, into, False

    @property
    def done(self) -> bool:
        if not self._come and self._box:
            self._into.cast("B")[:] = self._box.popleft()[1]
            self._come = True
        return self._come


class _MatchedMessage(NamedTuple):
    data: bytes
    request: _Request

    def Recv(self, spec: Sequence[Any]) -> None:
        spec[0][:] = self.data
        self.request.done = True


class _Status:
    source, size = 0, 0

    def Get_source(self) -> int:
        return self.source

    def Get_count(self, _: object) -> int:
        return self.size


class _Network:
    def __init__(self) -> None:
        self.boxes: dict[tuple[int, int, int], Box] = defaultdict(deque)
        self.sent: dict[int, int] = defaultdict(int)


class _Comm:
    """What `SparseExchange` uses of a communicator."""

    def __init__(self, network: _Network, rank: int) -> None:
        self._network, self._rank = network, rank

    def _send(self, spec: Sequence[Any], dest: int, tag: int, done: bool) -> _Request:
        self._network.sent[self._rank] += 1
        request = _Request(done)
        source = self._rank if done else -1  # heads are received from any source
        self._network.boxes[dest, source, tag].append((self._rank, bytes(spec[0]), request))
        return request

    def Issend(self, spec: Sequence[Any], dest: int, tag: int) -> _Request:
        return self._send(spec, dest, tag, done=False)

    def Isend(self, spec: Sequence[Any], dest: int, tag: int) -> _Request:
        return self._send(spec, dest, tag, done=True)

    def Irecv(self, spec: Sequence[Any], source: int, tag: int) -> _Receive:
        return _Receive(self._network.boxes[self._rank, source, tag], spec[0])

    def Improbe(self, _: int, tag: int, status: _Status) -> _MatchedMessage | None:
        box = self._network.boxes[self._rank, -1, tag]
        if not box:
            return None
        status.source, data, request = box.popleft()
        status.size = len(data)
        return _MatchedMessage(data, request)


def _all_done(requests: Sequence[_Request | _Receive]) -> bool:
    return all(request.done for request in requests)


def exchanged(network: _Network, heads: Sequence[dict[int, bytes]], kinds: Sequence[int]) -> list[SparseExchange]:
    """The exchange, over, of each processor, with these heads and kinds of theirs."""
    ranks, exchanges = list(range(len(kinds))), []
    for pid, kind in enumerate(kinds):
        comm: Any = _Comm(network, pid)
        exchange = SparseExchange(comm, ranks, pid, (0, 1), 1, heads[pid], {}, kind)
        exchange._status, exchange._testall = _Status(), _all_done  # type: ignore[assignment]
        exchange.post()
        exchanges.append(exchange)
    left = exchanges
    while left:
        left = [exchange for exchange in left if not exchange.over()]
    return exchanges


def kinds_and_flags(kinds: Sequence[int]) -> list[tuple[int, int, int]]:
    """What each processor finds that all do: the least kind, the largest, and the flags of all."""
    exchanges = exchanged(_Network(), [{}] * len(kinds), kinds)
    return [(one.least, one.most, one.flags) for one in exchanges]


def messages(p: int, partners: int) -> int:
    """That a processor sends at most, in a sparse exchange in which each has something for so many others.

    Raises:
        RuntimeError: not everything arrived.
    """
    network = _Network()
    heads = [{(pid + 1 + k) % p: b"head of %d" % pid for k in range(partners)} for pid in range(p)]
    for pid, exchange in enumerate(exchanged(network, heads, [SYNC] * p)):
        if sorted(exchange.arrived) != sorted((pid - 1 - k) % p for k in range(partners)):
            raise RuntimeError(f"sparse exchange among {p}: to {pid} came something from {sorted(exchange.arrived)}")
    return max(network.sent.values(), default=0)
