"""Buffers that are used again when nothing refers to them, and buffers that grow while they are filled.

Fresh memory costs a page fault for every 4 KiB, which for large messages is more than copying them. So large buffers
are kept and used again as soon as no array or memoryview refers to them, which the reference count tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from sys import getrefcount

import numpy as np
from numpy.typing import NDArray

from ..ground.copying import copy

Bytes = NDArray[np.uint8]

ALIGN = 16  # of everything inside a buffer: enough for any numpy dtype
SMALL = 1 << 16  # below this the allocator's own recycling is as good
KEEP = 64  # buffers of each size class, at most

NOTHING: Bytes = np.empty(0, np.uint8)
NOTHING.flags.writeable = False  # shared by all: what is written to is never this


def aligned(size: int) -> int:
    """The size rounded up to the alignment."""
    return (size + ALIGN - 1) & -ALIGN


def first_free(buffers: Iterable[Bytes], size: int = 0) -> Bytes | None:
    """The first buffer of at least so many bytes to which nobody but this collection refers."""
    for buffer in buffers:
        # Every view of it, and every request that sends or receives it, refers to the buffer: with none, nobody reads
        # or writes it any more.
        if getrefcount(buffer) <= _FREE and buffer.size >= size:
            return buffer
    return None


def in_use(buffers: Iterable[Bytes]) -> bool:
    """Whether anybody but this collection refers to any of its buffers."""
    for buffer in buffers:  # noqa: SIM110 - a generator's references are others
        if getrefcount(buffer) > _FREE:
            return True
    return False


def _counted(buffers: Iterable[Bytes]) -> int:
    for buffer in buffers:
        return getrefcount(buffer)
    raise ValueError


_FREE = _counted(deque([np.empty(1, np.uint8)]))  # references of a buffer that only a collection refers to


def referred_to(data: list[tuple[int, int, Bytes]]) -> list[tuple[int, int, Bytes]]:
    """The entries whose data something beside this list refers to."""
    return [entry for entry in data if getrefcount(entry[2]) > _LISTED]


def _count_listed() -> int:
    data = [(0, 0, np.empty(1, np.uint8))]
    return next(getrefcount(entry[2]) for entry in data)


_LISTED = _count_listed()  # references of data that only such an entry refers to


class BufferPool:
    """Recycles large buffers by size class (powers of two)."""

    def __init__(self) -> None:
        self._classes: dict[int, deque[Bytes]] = {}

    def take(self, size: int) -> Bytes:
        """A writable buffer of exactly `size` bytes whose content is undefined and which nobody else reads."""
        if size < SMALL:
            return np.empty(size, np.uint8)
        bits = (size - 1).bit_length()
        buffers = self._classes.get(bits)
        if buffers is None:
            # A buffer that falls out of the full deque belongs to its holders alone.
            buffers = self._classes[bits] = deque(maxlen=KEEP)
        free = first_free(buffers)
        if free is not None:
            return free[:size]
        fresh = np.empty(1 << bits, np.uint8)  # pages that are never touched cost nothing
        buffers.append(fresh)
        return fresh[:size]

    def place(self, data: Bytes) -> int:
        """Where in shared memory data lies; -1: nowhere there."""
        return -1

    def begins(self, data: Bytes) -> int:
        """`place` of what `take` has returned, in less time."""
        return -1


class Growing:
    """A buffer that is filled from the front, and moves to a larger one when it is full."""

    __slots__ = ("_pool", "array", "used")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self.array = NOTHING
        self.used = 0

    def expect(self, size: int) -> None:
        """Make room for `size` bytes in some pieces, so that the buffer moves once at most."""
        end = aligned(self.used) + aligned(size) + ALIGN
        if end > self.array.size:
            self._move(end)

    def _move(self, end: int) -> None:
        # Twice the size: all copies together cost no more than what is written.
        larger = self._pool.take(max(end + ALIGN - 1 & -ALIGN, 2 * self.array.size, 256))
        if self.used:  # a copy, but only until the buffer has found its size
            larger[: self.used] = self.array[: self.used]
        self.array = larger

    def reserve(self, size: int) -> int:
        """Make room for `size` bytes and return their offset, which is aligned."""
        offset = (self.used + ALIGN - 1) & -ALIGN
        end = offset + size
        if end > self.array.size:
            self._move(end)
        self.used = end
        return offset

    def append(self, data: bytes | memoryview | Bytes) -> int:
        """Copy bytes to the end, aligned; returns their offset."""
        size = len(data)
        offset = self.reserve(size)
        if size:
            copy(np.frombuffer(data, np.uint8), self.array[offset : self.used])
        return offset

    def filled(self) -> Bytes:
        """A view of what is filled so far, padded to the alignment."""
        return self.array[: aligned(self.used)]
