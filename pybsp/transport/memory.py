"""Buffers that are used again when nobody holds on to them, and buffers that grow while they are filled.

Fresh memory costs a page fault for every 4 KiB, which for large messages is more than copying them. So large buffers
are kept and used again as soon as no array or memoryview refers to them, which the reference count tells.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

ALIGN = 16  # of everything inside a buffer: enough for any numpy dtype
SMALL = 1 << 16  # below this the allocator's own recycling is as good
KEEP = 64  # buffers kept of each size class

POISON = 0xA5  # fills, in checked mode, what is no longer valid

NOTHING: Bytes = np.empty(0, np.uint8)
NOTHING.flags.writeable = False  # shared by all: what is written to is never this


def aligned(size: int) -> int:
    """The size rounded up to the alignment."""
    return (size + ALIGN - 1) & -ALIGN


def _references(buffer: Bytes) -> int:
    return sys.getrefcount(buffer)


def _count_unheld() -> int:
    kept = deque([np.empty(1, np.uint8)])
    return next(_references(buffer) for buffer in kept)


_UNHELD = _count_unheld()  # references of a buffer that only a pool holds, seen from a loop over the pool


def unheld(kept: Iterable[Bytes], size: int = 0) -> Bytes | None:
    """The first buffer of at least so many bytes to which nobody but this collection refers."""
    return next((buffer for buffer in kept if _references(buffer) <= _UNHELD and buffer.size >= size), None)


def held(kept: Iterable[Bytes]) -> bool:
    """Whether anybody but this collection refers to any of its buffers."""
    return any(_references(buffer) > _UNHELD for buffer in kept)


def referred_to(data: list[tuple[int, int, Bytes]]) -> list[tuple[int, int, Bytes]]:
    """Those whose data something beside this list refers to."""
    return [entry for entry in data if _references(entry[2]) > _LISTED]


def _count_listed() -> int:
    entry = (0, 0, np.empty(1, np.uint8))
    return _references(entry[2])


_LISTED = _count_listed()  # references of data that only such an entry holds


class BufferPool:
    """Recycles large buffers by size class (powers of two)."""

    def __init__(self) -> None:
        self._classes: dict[int, deque[Bytes]] = {}

    def take(self, size: int) -> Bytes:
        """A writable buffer of exactly `size` bytes whose content is undefined and which nobody else reads."""
        if size < SMALL:
            return np.empty(size, np.uint8)
        bits = (size - 1).bit_length()
        kept = self._classes.get(bits)
        if kept is None:
            # A buffer that falls out of the full deque belongs to its holders alone.
            kept = self._classes[bits] = deque(maxlen=KEEP)
        free = unheld(kept)
        if free is not None:
            return free[:size]
        fresh = np.empty(1 << bits, np.uint8)  # pages that are never touched cost nothing
        kept.append(fresh)
        return fresh[:size]

    def place(self, data: Bytes) -> int:
        """Where in shared memory data lies; -1: nowhere there."""
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
        larger = self._pool.take(max(aligned(end), 2 * self.array.size, 256))
        # A copy, but only until the buffer has found its size.
        larger[: self.used] = self.array[: self.used]
        self.array = larger

    def reserve(self, size: int, exact: bool = False) -> int:
        """Make room for `size` bytes and return their offset: aligned, or right behind what is there if `exact`."""
        offset = self.used if exact else aligned(self.used)
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
            self.array[offset : self.used] = np.frombuffer(data, np.uint8)
        return offset

    def filled(self) -> Bytes:
        """A view of what is filled so far, padded to the alignment."""
        return self.array[: aligned(self.used)]
