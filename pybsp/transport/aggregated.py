"""What the processors of one node have for another node goes as one message, and what they do as well.

Each node has a *leader*, the first of its processors on the board (shared.py). With r processors a node it takes r^2
messages from one node to another if each sends a head to each; aggregated it is one.

    1. All of a node enter their board as ever: that is how they know of each other. Beside it lies what each has for
       processors of other nodes: the manifests, sorted by node.
    2. The leader, when all are there, sends one message to each other leader: what the processors of its node do, and
       their manifests for that node. Where all do the same and have nothing for it, that is a word.
    3. The leader waits for the messages of the other leaders, lays them down in shared memory as they are, and lets the
       others go on. They read what they find for them. If all processors did the same and nobody said anything, there
       is nothing to read.

Data that does not go along with its manifest travels from rank to rank, as it does without this, while all that goes
on. A node without shared memory is as many groups of one processor each, its own leader.

Memory is used again when all have read it. What is laid down at a release lies in the leader's room of that exchange's
parity, behind its own manifests. It is written over when the leader enters the exchange after the next; then the next
one was over, which all had entered, having read this. The words of a release need no second copy: the leader writes the
next only when all have entered the next exchange, so they have read this one. And what the board has two of is safe as
it was: nobody enters an exchange before all of its node have entered the last one, since the leader waits for them.

Those that wait for their leader still call MPI now and then: data that they sent moves on only if they do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import settings
from ..errors import DeliveryError, UsageError
from . import KINDS, LENGTH, NUMBER, NUMBERS
from .shared import BY_MESSAGE, Board, Node
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI

MOST = 1 << 13  # bytes of a message from leader to leader; what is longer follows in another one
STRIDE = MOST // 8
SAVED = 6  # messages that a processor has to save; docs/studies/figures.md has what that comes from
CHUNK = 1 << 30  # bytes of one MPI message
EVERYONE = -1  # of a node, but for those that have a manifest of their own


def wanted() -> bool | None:
    """PYBSP_AGGREGATE: whether messages between nodes are aggregated; None: where that pays."""
    text = settings.text(settings.AGGREGATE)
    if text not in ("", "0", "1"):
        raise UsageError(
            f"PYBSP_AGGREGATE: expected 1 for one message from node to node, or 0 for one from each rank to each, "
            f"got {text!r}"
        )
    return None if not text else text == "1"


def pays(sizes: Sequence[int]) -> bool:
    """Whether aggregated messages take less time; same on all processors.

    A leader, as any other, sends so many messages less as the other nodes have processors beside their leaders; that
    has to be worth a second meeting on the board.

    Args:
        sizes: of the groups.
    """
    return sum(sizes) - len(sizes) - (max(sizes) - 1) >= SAVED


class Layout(NamedTuple):
    """Where the ranks of a communicator are; same on all of them.

    nodes: the node of each rank.
    wish: what PYBSP_AGGREGATE says: 0, if any rank has that.
    """

    nodes: Sequence[int]
    wish: bool | None

    @classmethod
    def of(cls, comm: MPI.Intracomm, node: Node | None) -> Layout:
        """Collective."""
        found = comm.allgather((comm.rank if node is None else min(node.places), wanted()))
        wishes = {wish for _, wish in found}
        return cls([number for number, _ in found], next((w for w in (False, True) if w in wishes), None))

    def groups(self, ranks: Sequence[int]) -> list[list[int]]:
        """The processors of each node, for the ranks of a transport; none where their messages are not aggregated."""
        found: dict[int, list[int]] = {}
        for pid, rank in enumerate(ranks):
            found.setdefault(self.nodes[rank], []).append(pid)
        groups = list(found.values())
        if self.wish is False or not 1 < len(groups) < len(ranks):
            return []
        return groups if self.wish or pays([len(members) for members in groups]) else []


class Aggregated:
    """The exchanges of one transport with other nodes, as one processor sees them.

    Args:
        comm, ranks, pid: of the transport.
        groups: as `Layout` has them.
        board: of this processor's node; None where it is alone.
        tag: the first of three.

    Attributes:
        sends: requests of what may still be leaving.
        posted: bytes of it.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        ranks: Sequence[int],
        pid: int,
        groups: Sequence[Sequence[int]],
        board: Board | None,
        tag: int,
    ) -> None:
        from mpi4py import MPI

        self._comm, self._ranks, self._groups, self._board, self._tag = comm, ranks, groups, board, tag
        self._byte, self._startall, self._testall = MPI.BYTE, MPI.Prequest.Startall, MPI.Request.Testall
        self._new_status = MPI.Status
        n = len(groups)
        self._group = next(g for g, members in enumerate(groups) if pid in members)
        self._place = groups[self._group].index(pid)
        self._near = [ranks[d] for d in groups[self._group]]
        # Each begins with the next one, so that not all send to the same one at once.
        self._others = [(self._group + k) % n for k in range(1, n)]
        self._leaders = [ranks[members[0]] for members in groups]
        self._receives: list[Any] = []
        self._short: dict[int, Any] = {}
        if self._place == 0:
            # By group: a word, which is a kind and the bytes that follow; and those.
            self._bytes_in = memoryview(bytearray(n * MOST))
            self._words_in, self._words_out = self._bytes_in.cast("q"), memoryview(array("q", bytes(8 * n)))
            for g in self._others:
                into = self._bytes_in[g * MOST : (g + 1) * MOST]
                self._receives.append(comm.Recv_init([into, MOST, MPI.BYTE], self._leaders[g], tag))
                self._short[g] = comm.Send_init([self._words_out[g : g + 1], 8, MPI.BYTE], self._leaders[g], tag)
        self.sends: list[Any] = []
        self.posted = 0
        self._arriving: list[Any] = []
        self._number = 0  # of the last exchange
        if board is not None:
            board.speak_outside()
        self._steps: Iterator[None] = iter(())
        self._kind = 0
        self._status = 0  # on the board, if this processor says nothing; else -1
        self._said = b""  # to other nodes
        self._quiet = False
        self._text: bytes | memoryview = b""  # of the release

    # -- an exchange -------------------------------------------------------------------------------------------------

    def meet(self, kind: int, waiter: Waiter) -> bool:
        """An exchange in which this processor says nothing.

        Returns:
            Whether all did the same, and nobody said anything.
        """
        self._status = kind if self._board is None else self._board.say(kind)
        self._begin(kind, b"", [])
        self.wait(waiter)
        return self._quiet

    def enter(
        self,
        kind: int,
        note: bytes,
        manifests: Mapping[int, bytes],
        texts: Sequence[tuple[int, bytes]],
        data: list[Any],
        sends: list[Any],
    ) -> list[tuple[int, bytes]]:
        """Begin an exchange; `wait` ends it.

        Args:
            note: for all processors that no manifest is for; empty: nothing.
            manifests: by processor of another node.
            texts, data: as `Board.enter` has them, and what that returns is returned.
            sends: gets the requests of what may still be leaving.
        """
        self._status = -1
        said = self._packed(note, manifests) if note or manifests else b""
        late: list[tuple[int, bytes]] = []
        if self._board is not None:
            outside = [(len(self._near), said)] if said and self._place else []
            late = self._board.enter(kind, [*texts, *outside], data)
            if late and late[-1][0] == len(self._near):
                late.pop()
                self._post(sends, said, self._near[:1])
        self._begin(kind, said, sends)
        return late

    def _begin(self, kind: int, said: bytes, sends: list[Any]) -> None:
        self._kind, self._said, self.sends, self.posted = kind, said, sends, 0
        self._number = self._number + 1 & NUMBERS
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
        words = [self._kind]
        quiet = self._status >= 0
        texts: dict[int, bytes | memoryview] = {0: self._said} if self._said else {}
        if board is not None:
            while not board.here():
                self._poke()
                yield
            board.finish()
            words = [word & KINDS for word in board.words]
            quiet = quiet and board.words.count(self._status) == len(words)
            late: list[tuple[int, memoryview]] = []
            if not quiet:
                for k, at, size in board.manifests(outside=True):
                    if at == BY_MESSAGE:
                        texts[k] = place = memoryview(bytearray(size))
                        late.append((self._near[k], place))
                    else:
                        texts[k] = board.text(k, at, size)
            yield from self._receive(late)
        # 2. A message to each other leader, and one from each.
        requests = self._receives + self._send_out(words, texts)
        self._startall(requests)
        while not testall(requests):
            yield
        said = self._kind | self._number << NUMBER
        self._words_in[self._group * STRIDE] = said
        heads = self._words_in[::STRIDE].tolist()
        self._quiet = quiet and heads.count(said) == len(heads)
        if self._quiet:
            if board is not None:
                board.let_go(None)
            return
        parts: list[bytes | memoryview] = [pack(f"{len(heads)}q", *heads)]
        late = []
        for g, head in enumerate(heads):
            if head >> NUMBER & NUMBERS != self._number:
                raise DeliveryError(
                    f"in exchange {self._number} the leader of a node got what that of node {g} had said in exchange "
                    f"{head >> NUMBER & NUMBERS}"
                )
            size = head >> LENGTH
            if size > MOST - 8:
                parts.append(place := memoryview(bytearray(size)))
                late.append((self._leaders[g], place))
            elif size:
                parts.append(self._bytes_in[g * MOST + 8 : g * MOST + 8 + size])
        yield from self._receive(late)
        # 3. The others of this node go on.
        text = self._text = b"".join(parts)
        if board is not None and not board.let_go(text):
            self._post(self.sends, text, self._near[1:])
            self.posted += len(text) * (len(self._near) - 1)

    def _post(self, sends: list[Any], text: bytes, ranks: Sequence[int], tag: int = 1) -> None:
        """Send a text to some, in one step of the interpreter each (see mpi.py)."""
        for at in range(0, len(text), CHUNK):
            chunk = memoryview(text)[at : at + CHUNK]
            sends.extend(map(self._comm.Isend, repeat([chunk, len(chunk), self._byte]), ranks, repeat(self._tag + tag)))

    def _receive(self, places: Sequence[tuple[int, memoryview]]) -> Iterator[None]:
        """Receive texts, by rank, into places of their sizes.

        Raises:
            DeliveryError: one of another size has come.
        """
        if not places:
            return
        chunks = [(rank, text[at : at + CHUNK]) for rank, text in places for at in range(0, len(text), CHUNK)]
        sizes = [len(chunk) for _, chunk in chunks]
        specs = [[chunk, len(chunk), self._byte] for _, chunk in chunks]
        self._arriving.extend(map(self._comm.Irecv, specs, [rank for rank, _ in chunks], repeat(self._tag + 1)))
        statuses = [self._new_status() for _ in chunks]
        while not self._testall(self._arriving, statuses):
            yield
        self._arriving = []
        if (got := [status.Get_count(self._byte) for status in statuses]) != sizes:
            raise DeliveryError(f"between nodes messages of {sizes} bytes were to come, and {got} did")

    def _send_out(self, kinds: list[int], texts: Mapping[int, bytes | memoryview]) -> list[Any]:
        """Messages to the other leaders; returns requests, still to be started, of those that are only a word.

        Args:
            kinds: what the processors of this node do.
            texts: what they have for other nodes, where they have anything.
        """
        n = len(self._groups)
        alike = kinds.count(kinds[0]) == len(kinds)
        tables = {k: unpack_from(f"{2 * n}q", text) for k, text in texts.items()}
        words = []
        for g in self._others:
            sizes, chunks = [0] * len(kinds), []
            for k, table in tables.items():
                begin, end = table[2 * g : 2 * g + 2]
                if begin < end:
                    sizes[k] = end - begin
                    chunks.append(texts[k][begin:end])
            self._words_out[g] = kinds[0] | self._number << NUMBER
            if alike and not chunks:
                words.append(self._short[g])
                continue
            each = [kind | size << LENGTH for kind, size in zip(kinds, sizes, strict=True)]
            body = b"".join([pack(f"{len(each)}q", *each), *chunks])
            self.posted += len(body)
            self._words_out[g] |= len(body) << LENGTH
            if len(body) <= MOST - 8:
                message = bytes(self._words_out[g : g + 1]) + body
                self._post(self.sends, message, [self._leaders[g]], tag=0)
            else:
                words.append(self._short[g])
                self._post(self.sends, body, [self._leaders[g]])
        return words

    def _poke(self) -> None:
        """Let MPI move on what was sent before; nothing has the tag that is asked for."""
        self._comm.Iprobe(self._leaders[self._others[0]], self._tag + 2)

    # -- texts -------------------------------------------------------------------------------------------------------

    def _packed(self, note: bytes, manifests: Mapping[int, bytes]) -> bytes:
        """What this processor has for other nodes: where the chunk for each group begins and ends, and those.

        A chunk: how many manifests there are; of each, for whom in the group and how many bytes; the manifests.
        """
        groups = self._groups
        table = [0] * (2 * len(groups))
        at = first = 8 * len(table)
        chunks = []
        shared = 0  # where the chunk ends that only has the note
        if note:
            chunks = [pack("3q", 1, EVERYONE, len(note)), note]
            shared = at = first + 24 + len(note)
        for g in self._others:
            members = groups[g]
            entries = [(k, manifests[d]) for k, d in enumerate(members) if d in manifests]
            if not entries:
                table[2 * g : 2 * g + 2] = (first, shared) if note else (0, 0)
                continue
            if note and len(entries) < len(members):
                entries.append((EVERYONE, note))
            numbers = [len(entries)]
            for k, manifest in entries:
                numbers += k, len(manifest)
            chunk = b"".join([pack(f"{len(numbers)}q", *numbers), *(manifest for _, manifest in entries)])
            chunks.append(chunk)
            table[2 * g : 2 * g + 2] = at, at + len(chunk)
            at += len(chunk)
        return b"".join([pack(f"{len(table)}q", *table), *chunks])

    def read(self, kinds: list[int]) -> dict[int, memoryview]:
        """The manifests for this processor from other nodes, by source; puts in what those do."""
        manifests: dict[int, memoryview] = {}
        if self._quiet:
            return manifests
        text = memoryview(self._text)
        heads = unpack_from(f"{len(self._groups)}q", text)
        at = 8 * len(heads)
        for g, members in enumerate(self._groups):
            head = heads[g]
            if g == self._group:
                continue
            if not head >> LENGTH:
                for s in members:
                    kinds[s] = head & KINDS
                continue
            words = unpack_from(f"{len(members)}q", text, at)
            at += 8 * len(words)
            for s, word in zip(members, words, strict=True):
                kinds[s] = word & KINDS
                if word >> LENGTH:
                    manifest = _found(text, at, self._place)
                    if manifest is not None:
                        manifests[s] = manifest
                    at += word >> LENGTH
        return manifests

    def awaited(self) -> list[int]:
        """Ranks of the nodes that this leader waits for."""
        silent = [g for g, one in zip(self._others, self._receives, strict=False) if not one.Get_status()]
        return [self._ranks[d] for g in silent for d in self._groups[g]]

    @property
    def receiving(self) -> list[Any]:
        """Requests of receives."""
        return [*self._receives, *self._arriving]

    @property
    def sending(self) -> list[Any]:
        """Requests of sends."""
        return [*self._short.values(), *self.sends]

    def free(self) -> None:
        while self._receives:
            self._receives.pop().Free()
        while self._short:
            self._short.popitem()[1].Free()


def _found(text: memoryview, at: int, place: int) -> memoryview | None:
    """A processor's manifest in a chunk."""
    (count,) = unpack_from("q", text, at)
    entries = unpack_from(f"{2 * count}q", text, at + 8)
    at += 8 + 16 * count
    for k in range(0, 2 * count, 2):
        size = entries[k + 1]
        if entries[k] in (place, EVERYONE):  # everyone comes last
            return text[at : at + size]
        at += size
    return None
