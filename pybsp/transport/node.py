"""The ranks of a communicator that are on one node: their window, and the boards that are in use there."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ground import settings
from ..ground.announcing import announce
from .board import Board
from .window import Window
from .wire import NO_BOARD

if TYPE_CHECKING:
    from mpi4py import MPI

    from .waiting import Waiter


def same_node(comm: MPI.Intracomm) -> MPI.Comm:
    """The ranks that can share memory with this one; collective."""
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)


class Node:
    """The ranks of a communicator that are on this node, with their window.

    Attributes:
        places: of each such rank of the communicator, its rank in the window.
    """

    def __init__(self, window: Window, places: Mapping[int, int], processes: tuple[int, ...]) -> None:
        self.window, self.places, self._processes = window, places, processes
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
            processes = tuple(MPI.Group.Translate_ranks(here.group, None, MPI.COMM_WORLD.group))
            _free_left(here, processes)
            try:
                window = Window(here, here.size < comm.size)  # type: ignore[arg-type]
            except (MemoryError, MPI.Exception) as error:
                if here.rank == 0 and settings.text(settings.SHARED) != "0":
                    announce(
                        f"pybsp: the ranks of {MPI.Get_processor_name()} send each other messages, as shared memory is "
                        f"not to be had ({str(error).strip().splitlines()[0]})"
                    )
                return None
            return cls(window, {rank: place for place, rank in enumerate(ranks)}, processes)
        finally:
            here.Free()

    def board(
        self, ranks: Sequence[int], own: int, context: int, number: int, parent: Board | None, waiter: Waiter
    ) -> Board:
        """The board of some of the ranks, for a context; `number` as `Board` has it."""
        places = [self.places[rank] for rank in ranks]
        board = Board(self.window, places, ranks.index(own), context, number, parent, waiter)
        self._boards[context] = board
        return board

    def number(self, context: int) -> int:
        """The number of this rank's last exchange in a context; its board exists from now on; NO_BOARD: it cannot."""
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
        """Collective. The memory stays where somebody still refers to data in it: also its sender to what it sent.

        It does so until these processes meet on a window again, and nobody does.
        """
        board = self._boards[0]
        self._boards.clear()
        board.forget()
        used = self.window.pool.used() or board.reads()
        # A window is freed by all of its ranks or none: what one refers to may lie in another one's part. The last
        # exchange on its board tells, as its kind: 0 where nobody refers to anything.
        if used:
            gc.collect()  # a machine and its queues and arrays refer to each other
            used = self.window.pool.used() or board.reads()
        if board.meet(int(used)) and not used:
            self.window.free()
        else:
            _left.setdefault(self._processes, []).append((self.window, [board]))


Leaving = tuple[Window, list[Board]]  # a window that is not used any more, and the boards whose data may still be read


def _free_unused(left: Sequence[Leaving | None], comm: MPI.Comm) -> list[Leaving | None]:
    """Free the windows that no rank refers to; returns the others. Collective; None on a node without a window."""
    from mpi4py import MPI

    in_use = np.array([one is not None and (one[0].pool.used() or any(b.reads() for b in one[1])) for one in left])
    comm.Allreduce(MPI.IN_PLACE, in_use, MPI.LOR)
    for one, stays in zip(left, in_use.tolist(), strict=True):
        if one is not None and not stays:
            one[0].free()
    return [one for one, stays in zip(left, in_use.tolist(), strict=True) if stays]


_left: dict[tuple[int, ...], list[Leaving | None]] = {}  # what was not freed, by ranks: a list is alike on these


def _free_left(here: MPI.Comm, processes: tuple[int, ...]) -> None:
    """Free the windows that these processes have left behind, and none of them needs any more; collective."""
    from mpi4py import MPI

    # Ranks that are none of the world's have no numbers there: what they leave stays.
    if processes in _left and MPI.UNDEFINED not in processes:
        _left[processes] = _free_unused(_left[processes], here)
        if not _left[processes]:
            del _left[processes]


_abandoned: list[Leaving | None] = []  # by revocation


def abandon(node: Node | None, comm: MPI.Intracomm) -> None:
    """What used a node's boards was revoked; collective over a communicator of all ranks.

    The memory stays where somebody still refers to data in it, until this is called again and nobody does.
    """
    _abandoned.append(None if node is None else node.give_up())
    gc.collect()  # a machine and its queues and arrays refer to each other
    _abandoned[:] = _free_unused(_abandoned, comm)
