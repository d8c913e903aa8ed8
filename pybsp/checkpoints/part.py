"""What one processor saves: a file of raw blocks, an index of JSON behind them, and a trailer that says where that is.

    magic                                 12 bytes
    blocks                                each from a multiple of 64 bytes on; large ones from a page on
    index                                 JSON: the tree, and of each block its place, bytes and checksum
    trailer                               place, bytes and CRC of the index; CRC of these; magic

The manifest has the bytes of the file and the CRC of its index; so each bit that is read is under a checksum.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import CheckpointError
from ..ground.files import is_own
from ..transport import Bytes

_MAGIC = b"pybsp-part1\n"
_TRAILER = struct.Struct("<QQII12s")  # place, bytes, CRC, CRC of these three, magic
_ALIGN, _PAGE = 64, 4096  # bytes
_PIECE = 1 << 20  # bytes that are summed and written at a time, while they are in a cache
_ROW = 512  # words that are summed to one


class Written(NamedTuple):
    """A part as its manifest has it."""

    bytes: int
    crc: int


NOTHING = Written(0, 0)


class SavedPart:
    """A part that was read, and found whole; its blocks are memory of the file, copied where they are written to."""

    def __init__(self, tree: Any, blocks: Sequence[Bytes], own: bool, name: str, written: Written = NOTHING) -> None:
        self.tree, self.blocks, self.own, self.name, self.written = tree, blocks, own, name, written


def checksum(data: Bytes, found: int = 0) -> int:
    """A checksum of bytes, going on from that of those before them, which were a multiple of 4096.

    Words of 8 bytes are added up in rows, modulo 2^64, and the sums are under a CRC: any bit that differs changes it,
    and it takes a tenth of the time that a CRC of all would take.
    """
    words = data[: data.size & -8].view(np.uint64)
    rows = words[: words.size // _ROW * _ROW].reshape(-1, _ROW)
    found = zlib.crc32(np.add.reduce(rows, axis=1, dtype=np.uint64).data, found)
    rest = data[rows.size * 8 :]
    return zlib.crc32(rest.data, found) if rest.size else found


def write(path: Path, tree: Any, blocks: Sequence[Bytes]) -> Written:
    """Write a part, which is in the system's memory then, not on disk; an OSError where it cannot be written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(_MAGIC)
        at, places = len(_MAGIC), []
        for block in blocks:
            align = _PAGE if block.size >= _PAGE else _ALIGN
            gap = -at % align
            _write(file.fileno(), memoryview(bytes(gap)))
            at += gap
            crc = 0
            for first in range(0, block.size, _PIECE):
                piece = block[first : first + _PIECE]
                crc = checksum(piece, crc)
                _write(file.fileno(), piece.data)
            places.append((at, block.size, crc))
            at += block.size
        index = json.dumps({"tree": tree, "blocks": places}, separators=(",", ":")).encode()
        crc = zlib.crc32(index)
        end = struct.pack("<QQI", at, len(index), crc)
        _write(file.fileno(), memoryview(index + end + struct.pack("<I", zlib.crc32(end)) + _MAGIC))
    return Written(at + len(index) + _TRAILER.size, crc)


def _write(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def sync(path: Path) -> None:
    """Have a file, or a folder, on disk; an OSError where it cannot be."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy(source: Path, target: Path) -> None:
    """Have a copy of a file on disk; one that is the file itself is left as it is. An OSError where it cannot be."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=0) as out, source.open("rb", buffering=0) as file:
        if os.path.sameopenfile(file.fileno(), out.fileno()):
            os.fsync(out.fileno())
            return
        out.truncate()
        size = at = os.fstat(file.fileno()).st_size
        while at > 0:
            sent = os.sendfile(out.fileno(), file.fileno(), None, min(at, 1 << 24))
            if not sent:
                raise OSError(f"{source} was cut off at {size - at} of {size} bytes")
            at -= sent
        os.fsync(out.fileno())


def read(path: Path, written: Written) -> SavedPart:
    """Read a part, and check all of it; a CheckpointError, with its name, where it is missing or damaged."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if about.st_size != written.bytes or about.st_size < len(_MAGIC) + _TRAILER.size:
                raise CheckpointError(f"{path}: expected {written.bytes} bytes, got {about.st_size}")
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from None
    place, size, crc, of_these, magic = _TRAILER.unpack(memory[-_TRAILER.size :])
    index = memory[place : place + size]
    if (
        magic != _MAGIC
        or memory[: len(_MAGIC)] != _MAGIC
        or zlib.crc32(struct.pack("<QQI", place, size, crc)) != of_these
        or crc != written.crc
        or zlib.crc32(index) != crc
    ):
        raise CheckpointError(f"{path}: it is damaged (its index does not have its checksum)")
    about_blocks = json.loads(index)
    blocks: list[Bytes] = []
    for number, (at, length, crc) in enumerate(about_blocks["blocks"]):
        block: Bytes = np.ndarray(length, np.uint8, memory, at)
        found = 0
        for first in range(0, length, _PIECE):
            found = checksum(block[first : first + _PIECE], found)
        if found != crc:
            raise CheckpointError(f"{path}: it is damaged (block {number} does not have its checksum)")
        blocks.append(block)
    return SavedPart(about_blocks["tree"], blocks, is_own(about), str(path), written)
