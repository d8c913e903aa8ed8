"""What goes to one destination with the next sync: the data, a record for each thing in it, and what it counts."""

from __future__ import annotations

from typing import Any

from ..transport.memory import NOTHING, BufferPool, Growing


class Outgoing(Growing):
    """Messages, puts or requests for one processor."""

    __slots__ = ("packed", "records", "runs", "words")

    def __init__(self, pool: BufferPool) -> None:
        self._pool, self.array, self.used = pool, NOTHING, 0  # as Growing's: one is made for each destination again
        self.records: list[tuple[Any, ...]] = []
        self.words = self.packed = 0  # of packed mail, which is one record, all messages but one
        self.runs: tuple[list[Any], ...] = ()  # numbers sent one after the other: a record each, of as many messages


def words_of(size: int) -> int:
    """Words of 8 bytes that `size` bytes count."""
    return (size + 7) >> 3
