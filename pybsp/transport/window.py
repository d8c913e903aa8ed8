"""The shared memory of the ranks of one node: a window of MPI-3 that all read, and each writes its own part of.

A part holds a board for each context (board.py), and behind them an arena (arena.py); wire.py says where.

`Win.Sync` wants an epoch, which `Lock_all` opens for good.

A page of shared memory for which there is no room ends the process that touches it (SIGBUS). So a board is populated
when it is first used, and the arena as it grows, by a call that fails instead (populating.py); the pages beyond stay
free. Where a board cannot be had, those who would meet there send messages.

Source of the window: Hoefler et al., *MPI + MPI: a new hybrid approach to parallel programming with MPI plus shared
memory* (2013).
"""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING

from ..errors import usage_error
from ..ground import settings
from ..processes import process
from .arena import SharedPool, free_bytes
from .populating import populate
from .wire import AREA, CONTEXTS, board_bytes

if TYPE_CHECKING:
    from mpi4py import MPI


ASIDE = 1 << 11  # bytes of the arena's distance from a page: numpy puts large arrays at its begin, and copies to the
# same place in a page take a tenth more time (loads there wait for stores)
LARGEST = 1 << 40  # bytes of a part, at most
SHARE = 0.45  # of the free shared memory, that the parts of a node's processors may fill


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
        self.board = board_bytes(comm.size)
        available = free_bytes()
        most = min(configured_bytes(), int(available * SHARE) // comm.size) & -(1 << 12)
        least = comm.allreduce(most, MPI.MIN)  # all or none
        if least < CONTEXTS * self.board:
            raise MemoryError(
                f"{available >> 20} MiB are free, for {comm.size} processors, and PYBSP_SHARED is "
                f"{settings.text(settings.SHARED) or 'not set'}"
            )
        # Pages that nobody touches cost nothing, so the part is as large as it may ever be.
        self._window = MPI.Win.Allocate_shared(least, 1, comm=comm)
        # One epoch for good: all access is by loads and stores, and nobody asks for another lock.
        self._window.Lock_all(MPI.MODE_NOCHECK)
        self.sync = self._window.Sync
        # Each writes its own part alone, and reads those of all: no two ever write the same word.
        self.parts = [
            memoryview(self._window.Shared_query(rank)[0]).cast("B")  # type: ignore[arg-type]
            for rank in range(comm.size)
        ]
        self.words = [part.cast("q") for part in self.parts]
        arena = CONTEXTS * self.board + ASIDE
        mine = self.parts[self.rank]
        # The boards of parts are made when they are first used, but where other nodes would have to know of a failure.
        self._boards = CONTEXTS if among_others else 1
        here = self._make(0, self._boards)
        # All or none; and nobody looks at a board before its zeros are there: a number of 0 is that of no exchange.
        if not comm.allreduce(here, MPI.LAND):
            self._window.Unlock_all()
            self._window.Free()
            needed = self._boards * self.board
            raise MemoryError(f"it has no room for {needed >> 10} KiB of each of {comm.size} processors")
        self.pool = SharedPool(mine, arena, least, comm.size)
        if among_others:
            _among_others.append(self)

    def make_board(self, context: int) -> bool:
        """This rank's part of the board of a context is there from now on; False where there is no room for it."""
        # A board stays, as contexts are used again; those below it are made with it.
        if context >= self._boards:
            if not self._make(self._boards, context + 1):
                return False
            self._boards = context + 1
        return True

    def _make(self, first: int, end: int) -> bool:
        memory = self.parts[self.rank][first * self.board : end * self.board]
        if not populate(memory):
            return False
        head = self.board - 2 * AREA
        # The areas at the end of a board need no zeros: slots say what of them there is to read.
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


def free_windows() -> None:
    """MPI between hosts cannot be finalized while there is a window: free those in which data is still held."""
    module = sys.modules.get("mpi4py.MPI")
    if process.takes_part() and module is not None and module.Is_initialized() and not module.Is_finalized():
        for window in _among_others[:]:
            window.free()


atexit.register(free_windows)  # at import, so that it comes after what a program has registered


def configured_bytes() -> int:
    """Bytes of a rank's part, at most: PYBSP_SHARED."""
    text = settings.text(settings.SHARED)
    size = settings.whole(text) if text else LARGEST
    if size < 0:
        expected = "a number of bytes, of each rank's shared memory, or 0 for none"
        raise usage_error("PYBSP_SHARED", expected, f"{text!r:.60}")
    return size
