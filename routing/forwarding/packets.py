"""Packets: parcels cut into pieces, held as arrays, so that any number of them moves at once.

A parcel's text is a description of its sections and their data, each aligned to a *cell* of 16 bytes. A packet is some
cells of it. Packets that travel together are one buffer of cells, and a table with a row for each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...transport import Bytes, Parcel, Parcels, Section
from ...transport.memory import ALIGN, BufferPool, aligned
from ..parcels import parcel_of, pieces_of, undelivered
from ..ranges import ranges

CELL = ALIGN
_CELL = np.dtype(np.complex128)  # 16 bytes that numpy copies as they are

# Columns of the table. NUMBER: in its parcel. WORDS: the packet's share of what its parcel counts. GOAL: where it goes
# now.
SOURCE, DEST, NUMBER, CELLS, WORDS, GOAL = range(6)
COLUMNS = 6

Table = NDArray[np.int32]
Ints = NDArray[np.int64]


class Bundle(NamedTuple):
    """Packets that lie behind each other: their table and their cells, as bytes."""

    table: Table
    data: Bytes

    @property
    def words(self) -> int:
        """Of all of them."""
        return int(self.table[:, WORDS].sum())

    def section(self) -> Section:
        """To send them as; see `Packets.receive`."""
        return Section(self.table.tobytes(), self.words, 1, self.data)


class Packets:
    """The packets at a processor.

    Attributes:
        table: a row for each, (n, COLUMNS).
    """

    def __init__(self) -> None:
        self.table: Table = np.empty((0, COLUMNS), np.int32)
        self._blocks: list[NDArray[Any]] = []  # what has been received stays where it is
        self._block = np.empty(0, np.intp)
        self._start = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.table)

    def add(self, table: Table, data: Bytes) -> None:
        """Packets that lie behind each other."""
        cells = table[:, CELLS]
        self.table = np.concatenate((self.table, table))
        self._block = np.concatenate((self._block, np.full(len(table), len(self._blocks), np.intp)))
        self._start = np.concatenate((self._start, _ends(cells) - cells))
        self._blocks.append(data.view(_CELL))

    def receive(self, sections: Sequence[Section], joined: Bytes | None = None) -> None:
        """The packets of bundles, each sent as a section.

        Args:
            joined: the data of all of them in order, where it arrived in one piece.
        """
        if not sections:
            return
        table = np.frombuffer(b"".join([section.descriptors for section in sections]), np.int32).reshape(-1, COLUMNS)
        if joined is None:
            pieces = [section.data for section in sections if section.data is not None]
            joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        self.add(table, joined)

    def keep(self, chosen: NDArray[Any]) -> None:
        """Forget all packets but these (indices or a mask)."""
        self.table, self._block, self._start = self.table[chosen], self._block[chosen], self._start[chosen]

    def bundle(self, chosen: NDArray[np.intp], pool: BufferPool) -> Bundle:
        """These packets (indices), in this order, copied."""
        table = self.table[chosen]
        cells, start, block = table[:, CELLS].astype(np.int64), self._start[chosen], self._block[chosen]
        ends = _ends(cells)
        data = pool.take(int(ends[-1]) * CELL if len(ends) else 0)
        out = data.view(_CELL)
        numbers = np.bincount(block).nonzero()[0].tolist()
        if len(numbers) == 1:
            np.take(self._blocks[numbers[0]], ranges(start, cells), out=out, mode="clip")  # else it copies twice
        else:
            for number in numbers:
                of = block == number
                out[ranges((ends - cells)[of], cells[of])] = self._blocks[number][ranges(start[of], cells[of])]
        return Bundle(table, data)

    def bundles(self, goals: NDArray[np.int32], pool: BufferPool) -> dict[int, Bundle]:
        """All packets by where they go, `goals` of each: one copy, of which each bundle is a part."""
        if not len(self):
            return {}
        order = goals.argsort(kind="stable")
        table, data = self.bundle(order, pool)
        counts = np.bincount(goals)
        found = counts.nonzero()[0]
        rows = counts[found].cumsum()
        cells = _ends(table[:, CELLS])[rows - 1] * CELL
        rows_from, cells_from = [0, *rows.tolist()], [0, *cells.tolist()]
        return {
            dest: Bundle(table[r:r_end], data[c:c_end])
            for dest, (r, r_end), (c, c_end) in zip(
                found.tolist(), itertools.pairwise(rows_from), itertools.pairwise(cells_from), strict=True
            )
        }


def _ends(sizes: NDArray[Any]) -> Ints:
    found: Ints = sizes.cumsum(dtype=np.int64)
    return found


def cut(parcels: Parcels, pid: int, packet: int, pool: BufferPool) -> Packets:
    """The packets of all parcels but the one to this processor itself.

    Args:
        packet: bytes of each, at most.
    """
    found = Packets()
    pieces: list[bytes | Bytes] = []
    dests, cells, words = [], [], []
    for dest, parcel in parcels.items():
        if dest == pid:
            continue
        of_parcel = pieces_of(parcel)
        pieces += of_parcel
        dests.append(dest)
        cells.append(sum(aligned(len(piece)) for piece in of_parcel) // CELL)
        words.append(sum(section.words for section in parcel.values()))
    if not dests:
        return found
    # 1. The texts, behind each other.
    text = pool.take(sum(cells) * CELL)
    at = 0
    for piece in pieces:
        text[at : at + len(piece)] = piece if isinstance(piece, np.ndarray) else np.frombuffer(piece, np.uint8)
        at += aligned(len(piece))
    # 2. Where each is cut.
    most = packet // CELL
    sizes, counted = np.array(cells, np.int64), np.array(words, np.int64)
    packets = -(-sizes // most)
    of = np.repeat(np.arange(len(dests)), packets)
    numbers = np.arange(len(of)) - np.repeat(_ends(packets) - packets, packets)
    begin = numbers * most
    end = np.minimum(begin + most, sizes[of])
    table = np.empty((len(of), COLUMNS), np.int32)
    table[:, SOURCE] = pid
    table[:, DEST] = np.array(dests, np.int32)[of]
    table[:, NUMBER] = numbers
    table[:, CELLS] = end - begin
    # Each packet counts its share of the parcel's words: what is cut counts what it counted whole.
    table[:, WORDS] = end * counted[of] // sizes[of] - begin * counted[of] // sizes[of]
    found.add(table, text)
    return found


def put_together(packets: Packets, pid: int, own: Parcel | None, pool: BufferPool) -> list[tuple[int, Parcel]]:
    """The parcels that all packets here make, in the order of sources; `own` goes from this processor to itself.

    Raises:
        DeliveryError: packets are missing, are here twice, or belong elsewhere.
    """
    arrived = [] if own is None else [(pid, own)]
    if not len(packets):
        return arrived
    table = packets.table
    table, text = packets.bundle(np.lexsort((table[:, NUMBER], table[:, SOURCE])), pool)
    sources, first = np.unique(table[:, SOURCE], return_index=True)
    numbers = np.arange(len(table)) - np.repeat(first, np.diff(first, append=len(table)))
    if (table[:, DEST] != pid).any() or (table[:, NUMBER] != numbers).any():
        raise undelivered(pid, "packets")
    sizes = np.add.reduceat(table[:, CELLS], first, dtype=np.int64) * CELL
    end = 0
    for source, size in zip(sources.tolist(), sizes.tolist(), strict=True):
        start, end = end, end + size
        arrived.append((source, parcel_of(text[start:end], pid)))
    return sorted(arrived, key=lambda pair: pair[0])
