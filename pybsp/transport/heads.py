"""Heads: one small message from each processor to each other one, in every exchange, by persistent requests.

That takes half the time of an Alltoall, and one latency instead of log p of them. A head says what the sender is doing,
and how long its manifest is, which lies behind that where it fits (wire.py). A head of more than HEAD bytes is sent by
no persistent request: its memory is used for nothing else, so that the next exchange need not wait until it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import byteorder
from typing import TYPE_CHECKING, Any

from ..errors import DeliveryError
from . import MAIL, Parcels, Section, new_tuple, wire
from .memory import Bytes
from .wire import (
    BYTES_SHIFT,
    EPOCH_MASK,
    EPOCH_SHIFT,
    HEAD,
    HEADER_MASK,
    HEADS,
    KIND_AND_FLAGS,
    LONGEST_HEAD,
    MAIL_ALONE,
    MANIFEST_BEHIND_HEAD,
    MANIFEST_IN_HEAD,
    MANIFESTS,
    SHOWN,
    STRIDE,
    WORD,
    Arrived,
    loads,
)

if TYPE_CHECKING:
    from .flight import InFlight
    from .waiting import Waiter

Here = Callable[[Any], bool]  # of what a waiter hands it


class Heads:
    """The heads of one transport, as one processor sees them. `open` makes the requests.

    Args:
        flight: the messages of the transport; long heads are among them.
        ranks, pid, context: of the transport.
        peers: to whom they go, and from whom they come; the first sends come first.

    Attributes:
        number: of the last exchange.
        parts: by processor, where its head comes; that of this one, and of those that come by a board, has the record
            alone (host_pads.py).
    """

    def __init__(self, flight: InFlight, ranks: Sequence[int], pid: int, context: int, peers: Sequence[int]) -> None:
        from mpi4py import MPI

        self._flight, self._ranks, self._pid, self._context, self.peers = flight, ranks, pid, context, peers
        self._startall, self._testall = MPI.Prequest.Startall, MPI.Request.Testall
        # One place for each processor; that of this one has its own word, to be compared with the others.
        self._bytes_in, self._bytes_out = (memoryview(bytearray(len(ranks) * size)) for size in (LONGEST_HEAD, HEAD))
        self.parts = [self._bytes_in[d * LONGEST_HEAD : (d + 1) * LONGEST_HEAD] for d in range(len(ranks))]
        self._words_in, self._words_out = self._bytes_in.cast("q"), self._bytes_out.cast("q")
        self._at = range(0, len(ranks) * HEAD // WORD, HEAD // WORD)  # in the words that go out
        self.receiving: list[Any] = []
        self._short: dict[int, Any] = {}  # sends of a word alone, by processor
        self._long: dict[int, Any] = {}  # of a word and a manifest
        self._showing: list[Any] = []  # of a word and this processor's record, to all: of the place that is its own
        self._shown = self._bytes_out[pid * HEAD : (pid + 1) * HEAD]
        self._all_short: list[Any] = []
        self._quiet: list[Any] = []  # what an exchange starts in which this processor says nothing
        self._out: list[Any] = []  # sends of the last exchange: others have them, and nobody waited for the word of it
        self._connected = False
        self.number = 0

    def open(self) -> None:
        from mpi4py import MPI

        comm, tag = self._flight.comm, wire.tag(self._context, HEADS)
        for d in self.peers:
            out = self._bytes_out[d * HEAD : (d + 1) * HEAD]
            self.receiving.append(comm.Recv_init([self.parts[d], LONGEST_HEAD, MPI.BYTE], self._ranks[d], tag))
            # Two sends of the same memory, of which an exchange starts one: the word alone, or a manifest behind it.
            self._short[d] = comm.Send_init([out, WORD, MPI.BYTE], self._ranks[d], tag)
            self._long[d] = comm.Send_init([out, HEAD, MPI.BYTE], self._ranks[d], tag)
            self._showing.append(comm.Send_init([self._shown, HEAD, MPI.BYTE], self._ranks[d], tag))
        self._all_short = list(self._short.values())
        self._quiet = self.receiving + self._all_short

    # -- an exchange -------------------------------------------------------------------------------------------------

    def meet(self, kind: int, waiter: Waiter) -> bool:
        """An exchange in which this processor says nothing.

        Returns:
            Whether all did the same, and nobody said anything.
        """
        testall = self._testall
        # The words are written again below: what reads them has to be complete.
        if self._out and not testall(self._out):  # as `see_off`
            waiter.until(testall, self._out)
        number = self.number = self.number + 1 & EPOCH_MASK
        word, words = kind | number << EPOCH_SHIFT, self._words_out
        for at in self._at:
            words[at] = word
        self._words_in[self._pid * STRIDE] = word
        self._out = self._all_short
        # The receives are posted only now: what was received in the last exchange has been read. A head of the next
        # exchange that comes before waits in MPI; it cannot overtake this exchange's, with the same tag.
        self._startall(self._quiet)
        # Only for what others send: testing those requests alone takes half the time.
        if not testall(self.receiving):
            waiter.until(testall, self.receiving)
        self.let_go(waiter)
        return self._words_in[::STRIDE].tolist().count(word) == len(self._ranks)

    def show(self, kind: int, size: int, waiter: Waiter, here: Here | None = None) -> bool:
        """An exchange in which each shows all others a record (host_pads.py); whether all did, and said no more.

        Args:
            size: of this processor's head.
            here: whether all others have come, where some are met elsewhere; None: all are peers.
        """
        if size <= HEAD:
            self._start_showing(kind, waiter)
        else:
            self._flight.posted = 0
            self.send_showing(kind, size, [b""] * len(self.peers), False, waiter)
        arrived: Here = self._testall if here is None else here
        if not arrived(self.receiving):
            waiter.until(arrived, self.receiving)
        self.let_go(waiter)
        if self._flight.leaving:
            self._flight.let_go(waiter)
        return self._alike()

    def _start_showing(self, kind: int, waiter: Waiter) -> None:
        self.see_off(waiter)  # as `meet`
        number = self.number = self.number + 1 & EPOCH_MASK
        self._words_in[self._pid * STRIDE] = kind | number << EPOCH_SHIFT | SHOWN
        self._shown[:] = self.parts[self._pid][:HEAD]  # copied, as the next record may be written before this has left
        self._out = self._showing
        self._startall(self.receiving + self._showing)

    def _alike(self) -> bool:
        """Whether the heads of all peers have this processor's word."""
        words = self._words_in[::STRIDE].tolist()
        return words.count(words[self._pid]) == len(self.peers) + 1  # others have no head, and the word 0

    def send_showing(self, kind: int, size: int, manifests: Sequence[bytes], has_own: bool, waiter: Waiter) -> None:
        """`send`, where this processor shows a record too: heads go from memory of their own, manifests as messages.

        Args:
            size: bytes of that head.
        """
        self.see_off(waiter)
        number = self.number = self.number + 1 & EPOCH_MASK
        header = kind | number << EPOCH_SHIFT | SHOWN
        record = bytes(self.parts[self._pid][WORD:size])
        heads = [
            (self._ranks[d], (header | len(manifest) << BYTES_SHIFT).to_bytes(WORD, byteorder) + record)
            for d, manifest in zip(self.peers, manifests, strict=True)
        ]
        self._words_in[self._pid * STRIDE] = header | has_own << BYTES_SHIFT
        self._startall(self.receiving)
        self._flight.send(heads, HEADS)
        self._flight.send(
            [(self._ranks[d], text) for d, text in zip(self.peers, manifests, strict=True) if text], MANIFESTS
        )

    def describe(self, note: object, parcels: Parcels, inline: int) -> tuple[list[bytes], list[tuple[int, Bytes]]]:
        """The manifest for each of the peers, and data by rank that goes as messages.

        Args:
            inline: bytes of data, at most, that are inline in a manifest.
        """
        plain = b"" if note is None else wire.note_to_all(note)
        manifests: list[bytes] = []
        messages: list[tuple[int, Bytes]] = []
        late: list[Bytes] = []
        for d in self.peers:
            sent = parcels.get(d)
            if sent is None:
                manifests.append(plain)
                continue
            manifests.append(wire.manifest(note, sent, inline, late))
            if late:
                messages += [(self._ranks[d], data) for data in late]
                late.clear()
        return manifests, messages

    def send(self, kind: int, manifests: Sequence[bytes], has_own: bool, waiter: Waiter) -> None:
        """Begin an exchange.

        Args:
            manifests: for each of the peers; empty: none.
            has_own: whether this processor has anything for itself, or for all.
        """
        # The heads of the last exchange lie in the memory that is written below: they have to be complete.
        self.see_off(waiter)
        number = self.number = self.number + 1 & EPOCH_MASK
        # 16 bits of a number are enough: it takes a head of all to leave an exchange, so nobody is two ahead.
        header = kind | number << EPOCH_SHIFT
        heads = []
        whole: list[tuple[int, bytes]] = []  # heads that are longer than those of requests
        behind: list[tuple[int, bytes]] = []  # manifests that are longer than any head
        for d, manifest in zip(self.peers, manifests, strict=True):
            size, at = len(manifest), d * HEAD
            word = header | size << BYTES_SHIFT
            if MANIFEST_IN_HEAD < size <= MANIFEST_BEHIND_HEAD:
                whole.append((self._ranks[d], word.to_bytes(WORD, byteorder) + manifest))
                continue
            self._words_out[at // WORD] = word
            if not size:
                heads.append(self._short[d])
            elif size <= MANIFEST_IN_HEAD:
                self._bytes_out[at + WORD : at + WORD + size] = manifest
                heads.append(self._long[d])
            else:
                heads.append(self._short[d])
                behind.append((self._ranks[d], manifest))
        self._words_in[self._pid * STRIDE] = header | has_own << BYTES_SHIFT
        self._out = heads
        # Receives are posted only now (see `meet`), and before the sends: what comes at once finds its memory.
        self._startall(self.receiving + heads)
        self._flight.send(whole, HEADS)
        # What is longest goes behind all heads, which everybody waits for; without waiting.
        self._flight.send(behind, MANIFESTS)

    def here(self, _: object = None) -> bool:
        """Whether the heads of all others have come."""
        return bool(self._testall(self.receiving))

    def let_go(self, waiter: Waiter) -> None:
        """Do not wait until heads have left, except for the first ones, which open connections."""
        if self._testall(self._out):
            self._out = []
        elif not self._connected:
            self.see_off(waiter)
        self._connected = True

    def see_off(self, waiter: Waiter) -> None:
        """Wait until heads have left, before the next exchange writes in their memory."""
        if self._out and not self._testall(self._out):
            waiter.until(self._testall, self._out)

    def mail_alone(self, kind: int) -> Arrived | None:
        """The fast path where all do the same, and what they send is mail in their heads; else None."""
        arrived: Arrived = []
        header = kind | self.number << EPOCH_SHIFT
        for s, word in enumerate(self._words_in[::STRIDE].tolist()):
            # Another kind, a flag, or another exchange: `read` tells which. (With a record the size is too large.)
            if word & HEADER_MASK != header:
                return None
            size = word >> BYTES_SHIFT
            if size and s != self._pid:
                if size > MANIFEST_BEHIND_HEAD:
                    return None
                at = s * LONGEST_HEAD + WORD
                # Read at once: the next exchange receives into this memory.
                found = loads(self._bytes_in[at : at + size])
                if len(found) != MAIL_ALONE:
                    return None
                arrived.append((s, {MAIL: new_tuple(Section, found)}))
        return arrived

    def read(self, kinds: list[int], manifests: dict[int, memoryview], late: list[tuple[int, int]]) -> None:
        """Read the heads.

        Args:
            kinds: by processor; gets what the peers do.
            manifests: by source; gets those that are here.
            late: gets source and bytes of those that come as messages.

        Raises:
            DeliveryError: a head is of another exchange.
        """
        for s in self.peers:
            word = self._words_in[s * STRIDE]
            # Heads from one processor stay in order, with one tag: another exchange's head here is a defect.
            if word >> EPOCH_SHIFT & EPOCH_MASK != self.number:
                raise DeliveryError(
                    f"in exchange {self.number} processor {self._pid} got what processor {s} had said in exchange "
                    f"{word >> EPOCH_SHIFT & EPOCH_MASK}"
                )
            kinds[s] = word & KIND_AND_FLAGS
            size = (word & ~SHOWN) >> BYTES_SHIFT
            if size > (0 if word & SHOWN else MANIFEST_BEHIND_HEAD):
                late.append((s, size))
            elif size:
                # Not copied: it is read before the next exchange posts the receives again.
                manifests[s] = self.parts[s][WORD : WORD + size]

    # -- its requests ------------------------------------------------------------------------------------------------

    def awaited(self) -> list[int]:
        """The peers whose heads have not come."""
        return [d for d, one in zip(self.peers, self.receiving, strict=False) if not one.Get_status()]

    @property
    def sending(self) -> list[Any]:
        return [*self._short.values(), *self._long.values(), *self._showing]

    def free(self) -> None:
        # Taken out before it is freed, so that none is freed twice where an exception comes in between.
        for listed in (self.receiving, self._showing):
            while listed:
                listed.pop().Free()
        for requests in (self._short, self._long):
            while requests:
                requests.popitem()[1].Free()
