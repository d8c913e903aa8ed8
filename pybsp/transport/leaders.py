"""What the processors of one node have for another node goes as one message, and what they do as well.

Each node has a *leader*, the first of its processors on the board (board.py). With r processors a node it takes r^2
messages from one node to another if each sends a head to each; aggregated it is one.

    1. All of a node enter their board as ever: that is how they know of each other. Beside it lies what each has for
       processors of other nodes: the manifests, sorted by node.
    2. The leader, when all are there, sends one message to each other leader: what the processors of its node do, and
       their manifests for that node. Where all do the same and have nothing for it, that is a word.
    3. The leader waits for the messages of the other leaders, lays them down in shared memory as they are, and lets the
       others go on. They read what they find for them. If all processors did the same and nobody said anything, there
       is nothing to read.

Records (host_pads.py) take the same way: they lie on the board, ahead of the manifests there, and go to all leaders.

Data that is not inline travels from rank to rank, as it does without this, while all that goes
on. A node without shared memory is as many groups of one processor each, its own leader.

Those that wait for their leader still call MPI now and then: data that they sent moves on only if they do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DeliveryError
from . import wire
from .wire import (
    BY_MESSAGE,
    EPOCH_MASK,
    KIND_AND_FLAGS,
    LEADER_STRIDE,
    LEADER_TEXTS,
    LEADERS,
    MOST,
    NO_MESSAGE,
    SHOWN,
    SHOWS,
    WORD,
)

if TYPE_CHECKING:
    from .board import Board
    from .flight import InFlight
    from .waiting import Waiter


class Leaders:
    """The exchanges of one transport with other nodes, as one processor sees them. `open` makes the requests.

    Args:
        ranks, pid, context: of the transport.
        groups: as `Placement` has them.
        board: of this processor's node; None where it is alone.
        flight: the transport's messages; these are among them.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        pid: int,
        context: int,
        groups: Sequence[Sequence[int]],
        board: Board | None,
        flight: InFlight,
    ) -> None:
        from mpi4py import MPI

        self._ranks, self._context, self._groups, self._board, self._flight = ranks, context, groups, board, flight
        self._byte, self._startall, self._testall = MPI.BYTE, MPI.Prequest.Startall, MPI.Request.Testall
        n = len(groups)
        self._group = next(g for g, members in enumerate(groups) if pid in members)
        self._place = groups[self._group].index(pid)
        self._near = [ranks[d] for d in groups[self._group]]
        # Each begins with the next one, so that not all send to the same one at once.
        self._others = [(self._group + k) % n for k in range(1, n)]
        self._leaders = [ranks[members[0]] for members in groups]
        self.receiving: list[Any] = []
        self._short: dict[int, Any] = {}
        # Of a leader, by group: a word, and what follows it.
        self._bytes_in = memoryview(bytearray(0 if self._place else n * MOST))
        self._words_in, self._words_out = self._bytes_in.cast("q"), memoryview(array("q", bytes(WORD * n)))
        self.number = 0  # of the last exchange
        if board is not None:
            board.speak_outside()
        self._steps: Iterator[None] = iter(())
        self._kind = 0
        self._status = 0  # on the board, if this processor says nothing; else -1
        self._outgoing = b""  # to other nodes
        self._record: memoryview | None = None  # that this processor shows
        self._quiet = False
        self._text: bytes | memoryview = b""  # of the release

    def open(self) -> None:
        from mpi4py import MPI

        comm, tag = self._flight.comm, wire.tag(self._context, LEADERS)
        for g in () if self._place else self._others:
            into = self._bytes_in[g * MOST : (g + 1) * MOST]
            self.receiving.append(comm.Recv_init([into, MOST, MPI.BYTE], self._leaders[g], tag))
            self._short[g] = comm.Send_init([self._words_out[g : g + 1], WORD, MPI.BYTE], self._leaders[g], tag)

    # -- an exchange -------------------------------------------------------------------------------------------------

    def meet(self, kind: int, waiter: Waiter) -> bool:
        """An exchange in which this processor says nothing.

        Returns:
            Whether all did the same, and nobody said anything.
        """
        self._status = kind if self._board is None else self._board.enter_quiet(kind)
        self._record = None
        self._begin(kind, b"")
        self.wait(waiter)
        return self._quiet

    def show(
        self, kind: int, record: memoryview, rows: Sequence[memoryview], table: NDArray[np.uint8], waiter: Waiter
    ) -> bool:
        """An exchange in which each shows all others a record, and this processor says nothing else.

        Args:
            rows, table: as of `wire.read_records`; get the records of other nodes.

        Returns:
            Whether all processors of other nodes do so.
        """
        self.enter(kind, b"", {}, [], [], record)
        self.wait(waiter)
        if self._flight.leaving:
            self._flight.let_go(waiter)
        return wire.read_records(self._text, self._groups, self._group, kind, rows, table)

    def enter(
        self,
        kind: int,
        note: bytes,
        manifests: Mapping[int, bytes],
        texts: Sequence[tuple[int, bytes]],
        data: list[Any],
        record: memoryview | None = None,
    ) -> list[tuple[int, bytes]]:
        """Begin an exchange; `wait` ends it.

        Args:
            note: for all processors that no manifest is for; empty: nothing.
            manifests: by processor of another node.
            texts, data: as `Board.enter` has them, and what that returns is returned.
            record: that this processor shows; None: none.
        """
        self._status, self._record = -1, record
        outgoing = wire.outgoing(note, manifests, self._groups, self._others) if note or manifests else b""
        late: list[tuple[int, bytes]] = []
        if self._board is not None:
            # The slot behind those of the board's processors is for other nodes; the leader has its own at hand.
            outside = [(len(self._near), outgoing)] if outgoing and self._place else []
            if record is None:
                late = self._board.enter(kind, [*texts, *outside], data)
            else:
                late = self._board.enter_with(record, kind, [*texts, *outside], data)
            if late and late[-1][0] == len(self._near):
                late.pop()
                self._send(outgoing, self._near[:1])
        self._begin(kind, outgoing)
        return late

    def _begin(self, kind: int, outgoing: bytes) -> None:
        self._kind, self._outgoing, self._flight.posted = kind, outgoing, 0
        self.number = self.number + 1 & EPOCH_MASK
        self._steps = self._follow() if self._place else self._lead()

    def wait(self, waiter: Waiter, deadline: float | None = None) -> bool:
        """Wait for all others; False if the deadline (of `time.perf_counter`) came first."""
        return self._over() or waiter.until(self._over, None, deadline)

    def _over(self, _: object = None) -> bool:
        """Whether the exchange is; does what can be done now."""
        return next(self._steps, self) is self

    def _follow(self) -> Iterator[None]:
        board, status = self._board, self._status
        assert board is not None
        while not board.led():
            self._poke()
            yield
        # Nobody enters an exchange before all of its node have entered the last one, as their leader waits for them: so
        # what a board has two of is safe as it is without leaders.
        board.finish()
        word, at, size = board.release
        self._quiet = word == status
        if self._quiet:
            return
        self._text = memoryview(bytearray(size)) if at == BY_MESSAGE else board.text(0, at, size)
        if at == BY_MESSAGE:
            yield from self._receive([(self._near[0], self._text)])

    def _lead(self) -> Iterator[None]:
        testall, board = self._testall, self._board
        # 1. Those of this node, and what they have for others.
        kinds = [self._kind]
        quiet = self._status >= 0
        texts: dict[int, bytes | memoryview] = {0: self._outgoing} if self._outgoing else {}
        records = {} if self._record is None else {0: self._record}
        if board is not None:
            while not board.here():
                self._poke()
                yield
            board.finish()
            kinds = [word & KIND_AND_FLAGS for word in board.words]
            quiet = quiet and board.words.count(self._status) == len(kinds)
            late: list[tuple[int, memoryview]] = []
            if not quiet:
                records.update((k, board.record(k)) for k, word in enumerate(board.words) if word & SHOWS)
                for k, at, size in board.manifests(outside=True):
                    if at == BY_MESSAGE:
                        texts[k] = place = memoryview(bytearray(size))
                        late.append((self._near[k], place))
                    else:
                        texts[k] = board.text(k, at, size)
            yield from self._receive(late)
        # 2. A message to each other leader, and one from each.
        # A leader is at most one exchange ahead of another: it has got that one's message of the last exchange. What it
        # sends then cannot overtake what it has sent before, to the same one with the same tag.
        requests = self.receiving + self._send_out(kinds, texts, records)
        self._startall(requests)
        while not testall(requests):
            yield
        header = wire.head(self._kind, self.number)
        self._words_in[self._group * LEADER_STRIDE] = header
        heads = self._words_in[::LEADER_STRIDE].tolist()
        self._quiet = quiet and heads.count(header) == len(heads)
        if self._quiet:
            if board is not None:
                board.let_go(None)
            return
        bodies: list[bytes | memoryview] = []
        late = []
        for g, head in enumerate(heads):
            _, number, size = wire.parts_of(head)
            if number != self.number:
                raise DeliveryError(
                    f"in exchange {self.number} the leader of a node got what that of node {g} had said in exchange "
                    f"{number}"
                )
            if size > MOST - WORD:
                bodies.append(place := memoryview(bytearray(size)))
                late.append((self._leaders[g], place))
            elif size:
                bodies.append(self._bytes_in[g * MOST + WORD : g * MOST + WORD + size])
        yield from self._receive(late)
        # 3. The others of this node go on.
        text = self._text = wire.release_text(heads, bodies)
        if board is not None and not board.let_go(text):
            self._send(text, self._near[1:])
            self._flight.posted += len(text) * (len(self._near) - 1)

    def _send(self, text: bytes, ranks: Sequence[int], use: int = LEADER_TEXTS) -> None:
        """Send a text to some, in one step of the interpreter each (flight.py)."""
        flight, tag = self._flight, wire.tag(self._context, use)
        for chunk in wire.chunks(text):
            flight.leaving.extend(map(flight.comm.Isend, repeat([chunk, len(chunk), self._byte]), ranks, repeat(tag)))

    def _receive(self, places: Sequence[tuple[int, memoryview]]) -> Iterator[None]:
        """Receive texts, by rank, into places of their sizes; a DeliveryError where one of another size has come."""
        if not places:
            return
        flight = self._flight
        flight.receive(places, LEADER_TEXTS)
        statuses = flight.statuses()
        while not self._testall(flight.arriving, statuses):
            yield
        flight.check(statuses)

    def _send_out(
        self, kinds: list[int], texts: Mapping[int, bytes | memoryview], records: Mapping[int, memoryview]
    ) -> list[Any]:
        """Messages to the other leaders; returns requests, still to be started, of those that are only a word.

        Args:
            kinds: what the processors of this node do.
            texts: what they have for other nodes, where they have anything.
            records: what they show, where they do.
        """
        alike = kinds.count(kinds[0]) == len(kinds)
        tables = {k: wire.chunk_table(text, len(self._groups)) for k, text in texts.items()}
        ahead = {k: wire.shown(record) for k, record in records.items()}
        marked = [kind | SHOWN if k in ahead else kind for k, kind in enumerate(kinds)] if ahead else kinds
        body = b""
        words = []
        for g in self._others:
            if tables or not body:  # else it is the same for all
                sizes = [0] * len(kinds)
                chunks: list[bytes | memoryview] = []
                for k in sorted({*tables, *ahead}):
                    if k in ahead:
                        sizes[k] = len(ahead[k])
                        chunks.append(ahead[k])
                    begin, end = tables[k][2 * g : 2 * g + 2] if k in tables else (0, 0)
                    if begin < end:
                        sizes[k] += end - begin
                        chunks.append(texts[k][begin:end])
                if alike and not chunks:
                    self._words_out[g] = wire.head(kinds[0], self.number)
                    words.append(self._short[g])
                    continue
                body = wire.body(marked, sizes, chunks)
            self._flight.posted += len(body)
            self._words_out[g] = wire.head(kinds[0], self.number, len(body))
            if len(body) <= MOST - WORD:
                self._send(bytes(self._words_out[g : g + 1]) + body, [self._leaders[g]], LEADERS)
            else:
                words.append(self._short[g])
                self._send(body, [self._leaders[g]])
        return words

    def _poke(self) -> None:
        """Let MPI move on what was sent before; nothing has the tag that is asked for."""
        self._flight.comm.Iprobe(self._leaders[self._others[0]], wire.tag(self._context, NO_MESSAGE))

    def read(self, kinds: list[int], rows: Sequence[memoryview]) -> dict[int, memoryview]:
        """The manifests for this processor from other nodes, by source; puts in what those do, and show."""
        if self._quiet:
            return {}
        return wire.read_release(self._text, self._groups, self._group, self._place, kinds, rows)

    # -- its requests ------------------------------------------------------------------------------------------------

    def awaited(self) -> list[int]:
        """Ranks of the nodes that this leader waits for."""
        silent = [g for g, one in zip(self._others, self.receiving, strict=False) if not one.Get_status()]
        return [self._ranks[d] for g in silent for d in self._groups[g]]

    def awaited_leader(self) -> int | None:
        """The rank of this node's leader, where it is to say that the exchange is over."""
        if not self._place or self._board is None or self._board.led():
            return None
        return self._near[0]

    @property
    def sending(self) -> list[Any]:
        return list(self._short.values())

    def see_off(self, waiter: Waiter) -> None:
        """Nothing is left of an exchange that is over: it has waited for all of them."""

    def free(self) -> None:
        while self.receiving:
            self.receiving.pop().Free()
        while self._short:
            self._short.popitem()[1].Free()
