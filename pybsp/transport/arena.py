"""A processor's arena in shared memory: a program's data is packed where its destinations read it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from ctypes import addressof, c_char
from functools import partial
from weakref import ref

import numpy as np

from ..ground import settings
from ..ground.announcing import announce
from ..processes import process
from .memory import BufferPool, Bytes, first_free, in_use
from .populating import populate
from .wire import BY_MESSAGE

SMALLEST = 1 << 10  # bytes of the smallest buffers; less is copied into the manifest
RECENT = 8  # buffers of a size that are looked through for one that is used again
BEGINS = 1 << 18  # bytes of an arena that are there when it begins: a program's first messages wait for no pages
GROWS = 1 << 16  # bytes that an arena is populated by beyond what is needed: a page takes 0.5 to 2 us, used or not
UNKNOWN = 1 << 40  # bytes that are free where the system does not say


def free_bytes() -> int:
    """Free bytes of shared memory. A page touched beyond them ends the process, so this has to be asked before."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return UNKNOWN  # not a system that has it there: nothing is known
    return found.f_bavail * found.f_frsize


def _say_full() -> None:
    """Once on a node, where nobody has asked for so little shared memory."""
    if not settings.text(settings.SHARED) and process.speaks("shared memory is full"):
        announce(
            f"pybsp: the shared memory of {socket.gethostname()} is full ({free_bytes() >> 20} MiB of /dev/shm are "
            "free): what its processors send and has no room there goes by messages, which takes longer; see "
            "`df /dev/shm`"
        )


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
        self._free: dict[int, list[tuple[int, int]]] = {}  # by bits: extents that nobody refers to, where they lie
        self._places: dict[int, int] = {}  # by id of a buffer
        self._watched: dict[int, tuple[int, object]] = {}  # of those that stay longer: extent, weak reference
        self._gone: dict[int, object] = {}  # of those, that nobody refers to: at any moment, in any thread
        self._populated = begin  # up to here pages are there
        self._full = False  # it could not grow, once
        self._populate([min(begin + BEGINS, end)])

    def take(self, size: int) -> Bytes:
        if size < SMALLEST:
            return np.empty(size, np.uint8)
        bits = (size - 1).bit_length()
        recent = self._recent.setdefault(bits, [])
        # What was sent is in `Lent` until nobody reads it: a free buffer is one that no processor refers to.
        buffer = first_free(recent, size)
        if buffer is None:
            buffer = self._another(size, bits, recent)
            if buffer is None:
                buffer = super().take(size)  # first, as no memory at all may have room for so much
                if not self._full:
                    self._full = True
                    _say_full()
                return buffer
        return buffer[:size]

    def _another(self, size: int, bits: int, recent: list[Bytes]) -> Bytes | None:
        # In sixteenths of a power of two: little is left over, and what is given back fits again.
        step = max(SMALLEST, 1 << max(bits - 4, 0))
        extent, at = (size + step - 1) & -step, -1
        self._take_back()
        for k, (there, place) in enumerate(self._free.get(bits, ())):
            if there >= size:
                extent, at = there, place
                del self._free[bits][k]
                break
        if at < 0 and (at := self._grow(extent, bits)) < 0:
            return None
        buffer: Bytes = np.ndarray(extent, np.uint8, self._part, at)
        self._take_back()  # since the first time a buffer may have gone whose id this one has
        self._places[id(buffer)] = at
        recent.append(buffer)
        if len(recent) > RECENT:
            old = recent.pop(0)
            self._watched[id(old)] = old.size, ref(old, partial(self._gone.__setitem__, id(old)))
        return buffer

    def _take_back(self) -> None:
        # One by one: a weak reference may add to it at any moment, in any thread, also in the middle of this.
        while self._gone:
            key, _ = self._gone.popitem()
            extent, _ = self._watched.pop(key)
            self._free.setdefault((extent - 1).bit_length(), []).append((extent, self._places.pop(key)))

    def used(self) -> bool:
        """Whether somebody here refers to any of it."""
        self._take_back()
        return bool(self._watched) or any(in_use(recent) for recent in self._recent.values())

    def place(self, data: Bytes) -> int:
        """Where data lies in the part; BY_MESSAGE if it does not."""
        if self._gone:
            self._take_back()  # what is there now may have the id of a buffer that has gone
        # A part of a buffer has it as its base, and keeps it: so its id is no other's as long as data is there.
        if id(data.base) not in self._places:
            return BY_MESSAGE
        if data.flags.writeable:  # in a fifth of the time
            return addressof(c_char.from_buffer(data)) - self._address  # type: ignore[arg-type]
        return int(data.__array_interface__["data"][0]) - self._address

    def begins(self, data: Bytes) -> int:
        if self._gone:
            self._take_back()
        return self._places.get(id(data.base), BY_MESSAGE)  # as in `place`

    def _grow(self, extent: int, bits: int) -> int:
        """A place for so many bytes in a gap, or in what is given back; -1 where there is none."""
        self._merge([bits])
        at = self._cut(extent)
        if at < 0:
            self._merge({*self._free, *self._recent})
            at = self._cut(extent)
        end = at + extent
        if at < 0 or end <= self._populated or self._populate([end + GROWS, end]):
            return at
        self._free.setdefault(bits, []).append((extent, at))
        self._merge([bits])
        return -1

    def _populate(self, ends: Sequence[int]) -> bool:
        """Make the pages up to the first of these ends for which there is room, if there is one."""
        # Asked before a page is touched, which the system grants only then. Others of this window may be about to do as
        # this one, so there has to be as much for each.
        if free_bytes() >= (ends[-1] - self._populated) * self._sharers:
            for end in ends:
                if populate(self._part[self._populated : end]):
                    self._populated = min(end, len(self._part))
                    return True
        return False

    def _cut(self, extent: int) -> int:
        for k, (begin, end) in enumerate(self._gaps):
            if end - begin >= extent:
                if begin + extent < end:
                    self._gaps[k] = begin + extent, end
                else:
                    del self._gaps[k]
                return begin
        return -1

    def _merge(self, sizes: Iterable[int]) -> None:
        """Make gaps of the extents of these sizes, in bits, that nobody refers to."""
        for bits in sizes:
            recent = self._recent.get(bits, [])
            while (buffer := first_free(recent)) is not None:
                recent[:] = [other for other in recent if other is not buffer]
                self._free.setdefault(bits, []).append((buffer.size, self._places.pop(id(buffer))))
        given = [(at, at + extent) for bits in sizes for extent, at in self._free.pop(bits, ())]
        if not given:
            return
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(self._gaps + given):
            if merged and merged[-1][1] == begin:
                merged[-1] = merged[-1][0], end
            else:
                merged.append((begin, end))
        self._gaps = merged
