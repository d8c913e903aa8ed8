"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A text file to be written in place of `path`, which it replaces when the block has ended well and all is on disk.

    After an error (a full disk, a folder that cannot be written) `path` is as it was. What is no regular file, as a
    device or a pipe, is written directly.

    Raises:
        OSError: it cannot be written.
    """
    if Path(path).exists() and not Path(path).is_file():
        with Path(path).open("w", encoding="utf-8") as file:
            yield file
        return
    target = Path(os.path.realpath(path))  # a link goes on to be one
    beside = target.with_name(f".pybsp-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            beside.chmod(stat.S_IMODE(target.stat().st_mode))
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
