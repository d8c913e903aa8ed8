"""The processors of a transport on this node, on their board: what they get there, and what they left there."""

from __future__ import annotations

from collections.abc import Sequence

from . import Parcels, wire
from .board import Board
from .memory import BufferPool, Bytes
from .wire import BORROWS, BY_MESSAGE, KIND_AND_FLAGS, SHOWS, STATUS_EPOCH_SHIFT, WORD

# Bytes of data, at most, that are inline in a manifest on a node: more is packed where it is read.
INLINE_DATA_NEAR = 1 << 14

FLAGS = (1 << STATUS_EPOCH_SHIFT) - 1 & ~BORROWS  # those of a status, but that something is still read

Texts = list[tuple[int, bytes]]  # (place on the board, manifest)
Messages = list[tuple[int, Bytes]]  # (rank, data)


class Neighbours:
    """The neighbours of one processor, itself among them.

    Args:
        board: theirs.
        ranks, pid: of the transport.
        near: these processors, by their places on the board.
        pool: buffers in this processor's part.

    Attributes:
        places: of all processors of the transport; -1: on another node.
    """

    def __init__(self, board: Board, ranks: Sequence[int], pid: int, near: Sequence[int], pool: BufferPool) -> None:
        self.board, self.near, self.pool = board, near, pool
        self.places = [-1] * len(ranks)
        for k, d in enumerate(near):
            self.places[d] = k
        self._ranks, self._pid, self._place = ranks, pid, pool.place

    def describe(self, note: object, parcels: Parcels) -> tuple[Texts, list[Bytes], Messages]:
        """What this processor has for them: manifests, data that lies in shared memory, data that does not."""
        texts: Texts = []
        shared: list[Bytes] = []
        messages: Messages = []
        late: list[Bytes] = []
        own, place, places = self._pid, self._place, self.places
        if note is not None:
            plain = wire.note_to_all(note)
            texts = [(k, plain) for k, d in enumerate(self.near) if d != own and d not in parcels]
        for d, parcel in parcels.items():
            k = places[d]
            if k >= 0 and d != own:
                texts.append((k, wire.manifest(note, parcel, INLINE_DATA_NEAR, late, place, shared)))
                if late:
                    messages += [(self._ranks[d], data) for data in late]
                    late.clear()
        return texts, shared, messages

    def by_rank(self, texts: Texts) -> list[tuple[int, bytes]]:
        """Manifests that have to go as messages, with the ranks of their destinations."""
        return [(self._ranks[self.near[k]], text) for k, text in texts]

    def read(self, kinds: list[int], manifests: dict[int, memoryview], late: list[tuple[int, int]]) -> bool:
        """What they say, with all of them here.

        Args:
            kinds: by processor; gets what they do.
            manifests: by source; gets those that are here.
            late: gets source and bytes of those that come as messages.

        Returns:
            Whether some show a record.
        """
        near, board, flags = self.near, self.board, 0
        # The words that `Board.finish` has copied, not the statuses themselves: who has left this exchange may have
        # written the one of the next already.
        for k, word in enumerate(board.words):
            kinds[near[k]] = word & KIND_AND_FLAGS
            flags |= word
        for k, at, size in board.manifests():
            if at == BY_MESSAGE:
                late.append((near[k], size))
            else:  # where it lies; it stays there until this processor has entered the next exchange
                manifests[near[k]] = board.text(k, at, size)
        return flags & SHOWS != 0

    def records(self, kind: int, rows: Sequence[memoryview]) -> bool:
        """Copy the records of this exchange, those by `Board.enter_with`, into rows, by processor (host_pads.py).

        Returns:
            Whether all show one in an exchange of that kind, and say nothing else.
        """
        board, alike = self.board, True
        for k, (d, word) in enumerate(zip(self.near, board.words, strict=True)):
            alike &= word & FLAGS == kind | SHOWS
            if word & SHOWS and d != self._pid:
                # Copied: rows are of one parity, and what lies on the board is written over in two exchanges.
                record = board.record(k)
                rows[d][WORD : WORD + len(record)] = record
        return alike

    def awaited(self) -> list[int]:
        """The neighbours that have not entered the exchange."""
        return [self.near[k] for k in self.board.behind()]
