"""Processors of one node meet in shared memory: a window of MPI-3 that all read, and each writes its own part of.

A processor's part holds, for each context (see `Transport.subset`), its *board*: what it does in this exchange and in
the last; and a heap, in which a program's data is packed where its destinations read it. So data is copied once on a
node, and received by knowing where it lies.

    board   status      (parity): of exchanges with even and with odd numbers
            release     of a leader (aggregated.py): as a status, when all may go on; where a text for all lies; bytes
            holds       (parity, node peer): which exchanges' data this processor still reads (lending.py)
            slots       (parity, node peer): where the manifest for it begins; a tag, which is the exchange's number and
                        whether there is one; bytes; behind those, one for what goes to other nodes
            room        (parity): manifests, and small data that goes along with them; the text of a release

Two of each are enough: whoever enters exchange k + 2 has seen all others in k + 1, where they were done with reading
what exchange k had brought. Data may be read for longer, as it is not copied: a receiver that still refers to some of
it says so, and its sender does not use that memory again.

Whoever says or sends anything in an exchange writes a tag for every other processor of the board, so that none can
take what is missing for nothing: a tag with another number is an error there (DeliveryError).

A status is the exchange's number, above what the processor is doing and whether it says or sends anything. Numbers of a
context only grow, also from one part of the processors to the next that uses the context: a part begins at the largest
number that any of its members has used there.

Memory model: data is written before the status, and read after it. `Win.Sync` is the barrier between the two on both
sides; it wants an epoch, which `Lock_all` opens for good. Processors of the x86 family keep this order by themselves
(of different words only a store and a later load change places), and Python changes none: it is left out there.

A page of shared memory for which there is no room ends the process that touches it (SIGBUS). So a board is populated
when it is first used, and the heap as it grows, by a call that fails instead (populating.py); the pages beyond stay
free. Where a board cannot be had, those who would meet there send messages.

Source of the window: Hoefler et al., *MPI + MPI: a new hybrid approach to parallel programming with MPI plus shared
memory* (2013).
"""

from __future__ import annotations

import atexit
import gc
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from ctypes import addressof, c_char
from functools import partial
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from .. import process, settings
from ..errors import DeliveryError, UsageError
from . import KINDS
from .lending import Held, Lent
from .memory import ALIGN, BufferPool, Bytes, held, referred_to, unheld
from .populating import populate
from .waiting import Waiter

if TYPE_CHECKING:
    from mpi4py import MPI

CONTEXTS = 32  # boards of a processor; a part that is split off deeper meets by messages
ASIDE = 1 << 11  # bytes of the heap's distance from a page: numpy puts large arrays at its begin, and copies to the
# same place in a page take a tenth more time (loads there wait for stores)
ROOM = 1 << 15  # bytes of a board's room, each parity
SMALLEST = 1 << 10  # bytes of the smallest buffers of a heap; less is copied along with the manifest
SOON = 4  # exchanges that data is kept for, at most, before it is watched
RECENT = 8  # buffers of a size that are looked through for one that is used again
GROWS = 1 << 20  # bytes that a heap is populated by beyond what is wanted
LARGEST = 1 << 40  # bytes of a part, at most
SHARE = 0.45  # of the free shared memory, that the parts of a node's processors may fill

NO_BOARD = -1  # instead of the number of an exchange there: there is no room for it
WEAK = platform.machine().lower() not in ("x86_64", "amd64", "i686", "i386")  # may change the order of loads and stores
SOMETHING, HOLDS = 1 << 8, 1 << 9  # flags of a status, above the kind
NUMBER = 16  # bits that the exchange's number is shifted by, above a status
TURNS = 100  # that others get on the core before waiting goes on as in waiting.py
SLOT = 3  # words: place, tag, bytes
BY_MESSAGE, WITH_MANIFEST = -1, -2  # where a manifest, or data, lies if not in a part


class Window:
    """The shared memory of the ranks of one node, as one of them sees it.

    Args:
        among_others: whether the job has other nodes.

    Attributes:
        parts: of each rank, as bytes; its own is the one it writes.
        words: the same as words.
        pool: buffers in its own part.
        sync: the memory barrier.
    """

    def __init__(self, comm: MPI.Intracomm, among_others: bool = False) -> None:
        from mpi4py import MPI

        self.size, self.rank = comm.size, comm.rank
        self.board = _board_bytes(comm.size)
        available = _free_bytes()
        most = min(wanted(), int(available * SHARE) // comm.size) & -(1 << 12)
        least = comm.allreduce(most, MPI.MIN)  # all or none
        if least < CONTEXTS * self.board:
            raise MemoryError(
                f"{available >> 20} MiB are free, for {comm.size} processors, and PYBSP_SHARED is "
                f"{settings.text(settings.SHARED) or 'not set'}"
            )
        # Pages that nobody touches cost nothing, so the part is as large as it may ever be.
        self._window = MPI.Win.Allocate_shared(least, 1, comm=comm)
        self._window.Lock_all(MPI.MODE_NOCHECK)
        self.sync = self._window.Sync
        self.parts = [
            memoryview(self._window.Shared_query(rank)[0]).cast("B")  # type: ignore[arg-type]
            for rank in range(comm.size)
        ]
        self.words = [part.cast("q") for part in self.parts]
        heap = CONTEXTS * self.board + ASIDE
        mine = self.parts[self.rank]
        # The boards of parts are made when they are first used, but where other nodes would have to know of a failure.
        self._boards = CONTEXTS if among_others else 1
        here = self._make(0, self._boards)
        # All or none; and nobody looks at a board before its zeros are there.
        if not comm.allreduce(here, MPI.LAND):
            self._window.Unlock_all()
            self._window.Free()
            room = self._boards * self.board
            raise MemoryError(f"it has no room for {room >> 10} KiB of each of {comm.size} processors")
        self.pool = SharedPool(mine, heap, least, comm.size)
        if among_others:
            _among_others.append(self)

    def make_board(self, context: int) -> bool:
        """This rank's part of the board of a context is there from now on; False where there is no room for it."""
        if context >= self._boards:
            if not self._make(self._boards, context + 1):
                return False
            self._boards = context + 1
        return True

    def _make(self, first: int, end: int) -> bool:
        memory = self.parts[self.rank][first * self.board : end * self.board]
        if not populate(memory):
            return False
        head = self.board - 2 * ROOM
        for at in range(0, len(memory), self.board):
            memory[at : at + head] = bytes(head)  # MPI does not promise zeros
        return True

    def free(self) -> None:
        """Collective. Nobody may read what lies there any more."""
        if self in _among_others:
            _among_others.remove(self)
        self._window.Unlock_all()
        self._window.Free()


_among_others: list[Window] = []  # those that are there


def _free_windows() -> None:
    """MPI between hosts cannot be finalized while there is a window: free those in which data is still held."""
    module = sys.modules.get("mpi4py.MPI")
    if process.takes_part() and module is not None and module.Is_initialized() and not module.Is_finalized():
        for window in _among_others[:]:
            window.free()


atexit.register(_free_windows)  # at import, so that it comes after what a program has registered


def _board_bytes(size: int) -> int:
    return (5 * 8 + 2 * size * 8 + 2 * (size + 1) * SLOT * 8 + 63 & -64) + 2 * ROOM


def same_node(comm: MPI.Intracomm) -> MPI.Comm:
    """The ranks that can share memory with this one; collective."""
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)


def wanted() -> int:
    """Bytes of a rank's part, at most: PYBSP_SHARED."""
    text = settings.text(settings.SHARED)
    if text and not text.isdigit():
        raise UsageError(
            f"PYBSP_SHARED: expected a number of bytes, of each rank's shared memory, or 0 for none, got {text!r}"
        )
    return int(text) if text else LARGEST


def _free_bytes() -> int:
    """Of shared memory. Beyond them a touched page ends the process, so that the system has to be asked before."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return LARGEST  # not a system that has it there: nothing is known
    return found.f_bavail * found.f_frsize


class Node:
    """The ranks of a communicator that are on this node, with their window.

    Attributes:
        places: of each such rank of the communicator, its rank in the window.
    """

    def __init__(self, window: Window, places: Mapping[int, int]) -> None:
        self.window, self.places = window, places
        self._boards: dict[int, Board] = {}  # by context, the last one

    @classmethod
    def of(cls, comm: MPI.Intracomm) -> Node | None:
        """Collective. None where the rank is alone on its node, or shared memory is not to be had (which is said)."""
        from mpi4py import MPI

        here = same_node(comm)
        try:
            if here.size == 1:
                return None
            ranks = MPI.Group.Translate_ranks(here.group, None, comm.group)
            try:
                window = Window(here, here.size < comm.size)  # type: ignore[arg-type]
            except (MemoryError, MPI.Exception) as error:
                if here.rank == 0 and settings.text(settings.SHARED) != "0":
                    print(
                        f"pybsp: the ranks of {MPI.Get_processor_name()} send each other messages, as shared memory is "
                        f"not to be had ({str(error).strip().splitlines()[0]})",
                        file=sys.stderr,
                    )
                return None
            return cls(window, {rank: place for place, rank in enumerate(ranks)})
        finally:
            here.Free()

    def board(
        self, ranks: Sequence[int], own: int, context: int, number: int, parent: Board | None, waiter: Waiter
    ) -> Board:
        """The board of some of the ranks, for a context; `number` as `Board` has it."""
        places = [self.places[rank] for rank in ranks]
        made = Board(self.window, places, ranks.index(own), context, number, parent, waiter)
        self._boards[context] = made
        return made

    def number(self, context: int) -> int:
        """Of the last exchange of this rank in a context, whose board is there from now on; NO_BOARD: it cannot be."""
        board = self._boards.get(context)
        if board is not None:
            return board.number
        return 0 if self.window.make_board(context) else NO_BOARD

    def give_up(self) -> tuple[Window, list[Board]]:
        """Nothing is sent here any more: the window, and the boards whose data may still be read."""
        boards = list(self._boards.values())
        for board in boards:
            board.forget()
        return self.window, boards

    def free(self) -> None:
        """Collective. The memory stays where somebody still refers to data in it: also its sender to what it sent."""
        board = self._boards[0]
        self._boards.clear()
        board.forget()
        used = self.window.pool.used()
        if used or board.reads():
            gc.collect()  # a machine and its queues and arrays refer to each other
            used = self.window.pool.used()
        if board.meet(int(used)) and not used:
            self.window.free()


_abandoned: list[tuple[Window, list[Board]] | None] = []  # by revocation; None on a node without a window


def abandon(node: Node | None, comm: MPI.Intracomm) -> None:
    """What used a node's boards was revoked; collective over a communicator of all ranks.

    The memory stays where somebody still refers to data in it, until this is called again and nobody does.
    """
    from mpi4py import MPI

    _abandoned.append(None if node is None else node.give_up())
    gc.collect()  # a machine and its queues and arrays refer to each other
    used = [one is not None and (one[0].pool.used() or any(board.reads() for board in one[1])) for one in _abandoned]
    in_use = np.array(used)
    comm.Allreduce(MPI.IN_PLACE, in_use, MPI.LOR)
    for one, stays in zip(_abandoned, in_use.tolist(), strict=True):
        if one is not None and not stays:
            one[0].free()
    _abandoned[:] = [one for one, stays in zip(_abandoned, in_use.tolist(), strict=True) if stays]


class SharedPool(BufferPool):
    """Buffers in this processor's part of the window; where it is full, of its own memory.

    A buffer is used again when nobody here refers to it: what has been sent the board refers to for as long as
    anybody reads it. The reference counts of a few tell; for what stays longer a weak reference does, so that buffers
    that are kept cost nothing.
    """

    def __init__(self, part: memoryview, begin: int, end: int, sharers: int = 1) -> None:
        super().__init__()
        self._part, self._sharers = part, sharers
        self._address = addressof(c_char.from_buffer(part))
        self._gaps = [(begin, end)]  # ascending, none next to each other
        self._recent: dict[int, list[Bytes]] = {}  # by bits, the last ones
        self._free: dict[int, list[tuple[int, int]]] = {}  # by bits: rooms that nobody refers to, where they lie
        self._places: dict[int, int] = {}  # by id of a buffer
        self._watched: dict[int, tuple[int, object]] = {}  # of those that stay longer: room, weak reference
        self._gone: dict[int, object] = {}  # of those, that nobody refers to: at any moment, in any thread
        self._populated = begin  # up to here pages are there

    def take(self, size: int) -> Bytes:
        if size < SMALLEST:
            return np.empty(size, np.uint8)
        bits = (size - 1).bit_length()
        recent = self._recent.setdefault(bits, [])
        buffer = unheld(recent, size)
        if buffer is None:
            buffer = self._another(size, bits, recent)
            if buffer is None:
                return super().take(size)
        return buffer[:size]

    def _another(self, size: int, bits: int, recent: list[Bytes]) -> Bytes | None:
        # In sixteenths of a power of two: little is left over, and what is given back fits again.
        step = max(SMALLEST, 1 << max(bits - 4, 0))
        room, at = (size + step - 1) & -step, -1
        self._take_back()
        for k, (there, place) in enumerate(self._free.get(bits, ())):
            if there >= size:
                room, at = there, place
                del self._free[bits][k]
                break
        if at < 0 and (at := self._grow(room, bits)) < 0:
            return None
        buffer: Bytes = np.ndarray(room, np.uint8, self._part, at)
        self._places[id(buffer)] = at
        recent.append(buffer)
        if len(recent) > RECENT:
            old = recent.pop(0)
            self._watched[id(old)] = old.size, ref(old, partial(self._gone.__setitem__, id(old)))
        return buffer

    def _take_back(self) -> None:
        while self._gone:
            key, _ = self._gone.popitem()
            room, _ = self._watched.pop(key)
            self._free.setdefault((room - 1).bit_length(), []).append((room, self._places.pop(key)))

    def used(self) -> bool:
        """Whether somebody here refers to any of it."""
        self._take_back()
        return bool(self._watched) or any(held(recent) for recent in self._recent.values())

    def place(self, data: Bytes) -> int:
        """Where data lies in the part; BY_MESSAGE if it does not."""
        if self._gone:
            self._take_back()  # what is there now may have the id of a buffer that has gone
        if id(data.base) not in self._places:
            return BY_MESSAGE
        if data.flags.writeable:  # in a fifth of the time
            return addressof(c_char.from_buffer(data)) - self._address  # type: ignore[arg-type]
        return int(data.__array_interface__["data"][0]) - self._address

    def _grow(self, room: int, bits: int) -> int:
        """A place for so many bytes in a gap, or in what is given back; -1 where there is none."""
        self._merge([bits])
        at = self._cut(room)
        if at < 0:
            self._merge({*self._free, *self._recent})
            at = self._cut(room)
        end = at + room
        if at < 0 or end <= self._populated:
            return at
        # Others of this window may be about to do as this one.
        if _free_bytes() >= room * self._sharers:
            for more in (end + GROWS, end):
                if populate(self._part[self._populated : more]):
                    self._populated = min(more, len(self._part))
                    return at
        self._free.setdefault(bits, []).append((room, at))
        self._merge([bits])
        return -1

    def _cut(self, room: int) -> int:
        for k, (begin, end) in enumerate(self._gaps):
            if end - begin >= room:
                if begin + room < end:
                    self._gaps[k] = begin + room, end
                else:
                    del self._gaps[k]
                return begin
        return -1

    def _merge(self, sizes: Iterable[int]) -> None:
        """Make gaps of the rooms of these sizes, in bits, that nobody refers to."""
        for bits in sizes:
            recent = self._recent.get(bits, [])
            while (buffer := unheld(recent)) is not None:
                recent[:] = [other for other in recent if other is not buffer]
                self._free.setdefault(bits, []).append((buffer.size, self._places.pop(id(buffer))))
        given = [(at, at + room) for bits in sizes for room, at in self._free.pop(bits, ())]
        if not given:
            return
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(self._gaps + given):
            if merged and merged[-1][1] == begin:
                merged[-1] = merged[-1][0], end
            else:
                merged.append((begin, end))
        self._gaps = merged


class Board:
    """Where the processors of one node that share a transport meet, as one of them sees it.

    Args:
        window: of the node.
        ranks: in the window, of those processors that are on this node.
        own: which of them this one is.
        context: of the transport.
        number: of the last exchange; of all the same, and no less than any of them has used in this context.
        parent: the board of the processors that these are a part of.
        waiter: how this one waits.

    Attributes:
        words: what each of them was doing in the last exchange that was not quiet, with flags.
        release: the leader's words for that; the first processor of the board is the leader, where they have one.
    """

    def __init__(
        self,
        window: Window,
        ranks: Sequence[int],
        own: int,
        context: int,
        number: int,
        parent: Board | None,
        waiter: Waiter,
    ) -> None:
        size = window.size
        first = window.board // 8 * context
        self.number = number
        self._window, self._own, self._parent, self._waiter = window, own, parent, waiter
        self._ranks = list(ranks)
        self.words = [0] * len(ranks)
        self._parts = [window.parts[rank] for rank in ranks]
        self._others = [k for k in range(len(ranks)) if k != own]
        of = [window.words[rank] for rank in ranks]
        self._status = [words[first : first + 2] for words in of]
        self._mine = self._status[own]
        self._theirs = [self._status[k] for k in self._others]
        first += 2
        self.release = of[0][first : first + 3]
        first += 3
        self._holds = [[words[first + k * size : first + (k + 1) * size] for k in (0, 1)] for words in of]
        first += 2 * size
        size = (size + 1) * SLOT
        self._slots = [[words[first + k * size : first + (k + 1) * size] for k in (0, 1)] for words in of]
        self._own_part, self._own_slots = self._parts[own], self._slots[own]
        self._tags = [SLOT * k + 1 for k in self._others]
        self._neighbours = [(k, self._status[k], self._slots[k], self._parts[k]) for k in self._others]
        self._rooms = [window.board * (context + 1) - (2 - k) * ROOM for k in (0, 1)]
        self._free = 0  # where this exchange's room has nothing yet
        self._fence = window.sync if WEAK else None
        self._lent, self._held = Lent(), Held(len(ranks))
        self._lending, self._holding = self._lent.data, self._held.entries  # empty, in most exchanges
        self._nobody = [0] * len(ranks)
        self._got: list[tuple[int, int, Bytes]] = []  # number, whose, data of the last few exchanges

    def speak_outside(self) -> None:
        """There are other nodes, for which this processor may have something."""
        self._tags.append(SLOT * len(self._ranks) + 1)

    def meet(self, kind: int) -> bool:
        """An exchange in which this processor says nothing.

        Returns:
            Whether all did the same, and nobody said anything.
        """
        number = self.number = self.number + 1
        word = number << NUMBER | kind
        parity = number & 1
        quiet = True
        if (self._got or self._holding) and (flag := self._say_held(parity)):
            word, quiet = word | flag, False
        if self._fence:
            self._fence()
        self._mine[parity] = word
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] != word:
                tries -= 1
                if not tries:
                    quiet = False
                    break
        if not quiet:
            self.wait()
            if word & HOLDS or any(status[parity] != word for status in self._theirs):
                self.finish()
                return False
        if self._fence:
            self._fence()
        if self._lending:
            self._lent.clear()
        return True

    def enter(self, kind: int, manifests: Sequence[tuple[int, bytes]], data: list[Bytes]) -> list[tuple[int, bytes]]:
        """Say what this processor does, and hand over manifests.

        Args:
            manifests: (for which processor of the board, text); the number after the last is for other nodes.
            data: that the manifests refer to in this processor's part.

        Returns:
            The manifests that have to go as messages, since there was no room.
        """
        number = self.number = self.number + 1
        parity = number & 1
        slots, at = self._own_slots[parity], self._rooms[parity]
        end = at + ROOM
        part = self._own_part
        late = []
        last, last_at = None, 0
        tag = number << 1
        if len(manifests) < len(self._tags):  # else each gets one below
            for at_tag in self._tags:
                slots[at_tag] = tag
        for k, manifest in manifests:
            size = len(manifest)
            if manifest is last and last_at != BY_MESSAGE:  # a note to all
                place = last_at
            elif at + size <= end:
                place = at
                part[at : at + size] = manifest
                at += size + ALIGN - 1 & -ALIGN
            else:
                place = self._lay(manifest, data)
                if place == BY_MESSAGE:
                    late.append((k, manifest))
            last, last_at = manifest, place
            slots[SLOT * k] = place
            slots[SLOT * k + 1] = tag | 1
            slots[SLOT * k + 2] = size
        if data:
            self._lent.lend(number, data)
        self._free = at
        word = number << NUMBER | kind | SOMETHING  # as `_say` does
        if self._got or self._holding:
            word |= self._say_held(parity)
        if self._fence:
            self._fence()
        self._mine[parity] = word
        return late

    def say(self, kind: int) -> int:
        """Enter an exchange in which this processor says nothing; returns its status."""
        self.number += 1
        self._free = self._rooms[self.number & 1]
        return self._say(kind)

    def let_go(self, text: bytes | None) -> bool:
        """As the leader, with all others here: let them go on.

        Args:
            text: for all; None where all did the same and nobody said anything: then they see this one's status.

        Returns:
            False if the text has to go as messages, since there was no room.
        """
        place, release = 0, self.release
        word = self._mine[self.number & 1]
        if text is not None:
            word |= SOMETHING
            size, place = len(text), self._free
            if size <= self._rooms[self.number & 1] + ROOM - place:
                self._parts[self._own][place : place + size] = text
            else:
                data: list[Bytes] = []
                place = self._lay(text, data)
                if data:
                    self._lent.lend(self.number, data)
            release[1], release[2] = place, size
        if self._fence:
            self._fence()
        release[0] = word
        return place != BY_MESSAGE

    def wait(self, deadline: float | None = None) -> bool:
        """Wait for all others; False if the deadline (of `time.perf_counter`) came first."""
        here, turn = self.here, os.sched_yield
        if self._waiter.tries == 1:
            # More ranks than cores: the others need this core, one look for each turn of theirs is enough.
            for _ in range(TURNS):
                if here():
                    return True
                turn()
        return here() or self._waiter.until(here, None, deadline)

    def gather(self, kind: int) -> list[tuple[int, memoryview]] | None:
        """Wait for all others; the short way on, where all do the same and nothing comes by message.

        Returns:
            (from whom, manifest); or None: `finish` and `manifests` say more.
        """
        number = self.number
        parity, least, own = number & 1, number << NUMBER, SLOT * self._own
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] < least:
                tries -= 1
                if not tries:
                    self.wait()
                    break
        if self._fence:
            self._fence()
        found = []
        reading = 1
        for k, status, slots_of, part in self._neighbours:
            word = status[parity]
            if word & KINDS != kind:
                return None
            if word & SOMETHING:
                slots = slots_of[parity]
                tag = slots[own + 1]
                if tag >> 1 != number:
                    raise self._undelivered(k, tag >> 1)
                if tag & 1:
                    at = slots[own]
                    if at < 0:
                        return None
                    found.append((k, part[at : at + slots[own + 2]]))
            if word & HOLDS:
                reading |= self._holds[k][parity][self._own]
        if self._lending:
            self._lent.release(number, reading)
        return found

    def here(self, _: object = None) -> bool:
        """Whether all others have entered the exchange."""
        parity, least = self.number & 1, self.number << NUMBER
        for status in self._theirs:
            tries = self._waiter.tries
            while status[parity] < least:
                tries -= 1
                if not tries:
                    return False
        return True

    def behind(self) -> list[int]:
        """Those that have not entered the exchange."""
        parity, least = self.number & 1, self.number << NUMBER
        return [k for k in self._others if self._status[k][parity] < least]

    def led(self) -> bool:
        """Whether the leader has let this processor go on."""
        least, release = self.number << NUMBER, self.release
        tries = self._waiter.tries
        while release[0] < least:
            tries -= 1
            if not tries:
                return False
        return True

    def finish(self) -> None:
        """All others are here: what was read by all is used again."""
        if self._fence:
            self._fence()
        parity = self.number & 1
        self.words = [status[parity] for status in self._status]
        if not self._lending:
            return
        reading = 1
        for k in self._others:
            if self.words[k] & HOLDS:
                reading |= self._holds[k][parity][self._own]
        self._lent.release(self.number, reading)

    def manifests(self, outside: bool = False) -> list[tuple[int, int, int]]:
        """Those that there are for this processor: from whom, where they lie in its part, or BY_MESSAGE; and bytes.

        Args:
            outside: instead what there is for other nodes.

        Raises:
            DeliveryError: somebody says something, and does not say to this one what.
        """
        parity, own = self.number & 1, SLOT * (len(self._ranks) if outside else self._own)
        found = []
        for k in self._others:
            if self.words[k] & SOMETHING:
                slots = self._slots[k][parity]
                tag = slots[own + 1]
                if tag >> 1 != self.number:
                    raise self._undelivered(k, tag >> 1)
                if tag & 1:
                    found.append((k, slots[own], slots[own + 2]))
        return found

    def _undelivered(self, k: int, number: int) -> DeliveryError:
        return DeliveryError(
            f"in exchange {self.number} on a node processor {self._own} of its board found what processor {k} had said "
            f"in exchange {number}"
        )

    def text(self, k: int, at: int, size: int) -> memoryview:
        """Bytes of a processor's part."""
        return self._parts[k][at : at + size]

    def read(self, k: int, at: int, size: int) -> Bytes:
        """Data in a processor's part, as it lies there."""
        data: Bytes = np.ndarray(size, np.uint8, self._parts[k], at)
        self._got.append((self.number, k, data))
        return data

    def forget(self) -> None:
        """Nothing is sent any more: what was is its readers' to keep."""
        self._lent.clear()

    def reads(self) -> bool:
        """Whether somebody here refers to data that others sent."""
        self._hold(self.number + SOON)
        self._held.words(self.number)
        return bool(self._holding)

    def _hold(self, number: int) -> None:
        """Forget what is no longer referred to; what is for longer than a few exchanges is watched from now on.

        Most data is not: to look at its reference count takes less time than to watch it.
        """
        late = number - SOON
        recent = []
        for entry in referred_to(self._got):
            if entry[0] > late:
                recent.append(entry)
            else:
                self._held.hold(entry[1], entry[0], entry[2])
        self._got = recent

    def retire(self) -> None:
        """The part has ended: what may still be read of it is from now on the parent's."""
        parent = self._parent
        if parent is None:
            return
        # In the order of exchanges, as what is held has to be: what comes from here counts as of the parent's last one.
        self._hold(self.number + SOON)
        parent._hold(parent.number + SOON)
        if self._lending:
            parent._lent.lend(parent.number, self._lent.clear())
        self._held.hand_over(parent._held, parent.number, [parent._ranks.index(rank) for rank in self._ranks])

    def _say(self, what: int) -> int:
        word = self.number << NUMBER | what
        parity = self.number & 1
        if self._got or self._holding:
            word |= self._say_held(parity)
        if self._fence:
            self._fence()
        self._mine[parity] = word
        return word

    def _lay(self, text: bytes, data: list[Bytes]) -> int:
        """Put a text that the room has no place for in a buffer, which is added to `data`; returns where it lies."""
        buffer = self._window.pool.take(len(text))
        place = self._window.pool.place(buffer)
        if place != BY_MESSAGE:
            buffer[:] = np.frombuffer(text, np.uint8)
            data.append(buffer)
        return place

    def _say_held(self, parity: int) -> int:
        """Say of whose data which is still referred to here; returns the flag that says so, or 0."""
        number = self.number
        if self._got:
            self._hold(number)
        words = self._held.words(number) if self._holding else self._nobody
        if not self._got and not self._holding:
            return 0
        row = list(words)
        for sent, k, _ in self._got:
            row[k] |= 1 << number - sent
        holds = self._holds[self._own][parity]
        for k, word in enumerate(row):
            holds[k] = word
        return HOLDS
