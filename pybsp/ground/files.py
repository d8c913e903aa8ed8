"""Files that are written whole or not at all, and over no other one that a command was given."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from ..errors import UsageError, usage_error


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


@contextmanager
def writing(path: str | os.PathLike[str], what: str) -> Iterator[TextIO]:
    """`replacing`, of a file that is `what` it is in errors ("machine file machine.json"); else a UsageError."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{what}: cannot be written ({error.strerror})") from error


def path_of(operation: str, path: Any, whose: str) -> Path:
    """The argument path, else a UsageError; `whose` it is, for that: "a machine file"."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"{operation}: argument path: expected that of {whose}, got {path!r:.80}")
    return Path(path)


def is_own(about: os.stat_result) -> bool:
    """Whether a file is this user's own, and no other may write to it: a pickle in it can have any code run."""
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


_IRREGULAR = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def require_regular(path: str | os.PathLike[str], name: str) -> None:
    """Refuse to read what gives what it holds once, as a pipe, or without end, as a device.

    Args:
        path: of the file.
        name: what it is, for the error: "ledger file".

    Raises:
        UsageError: it is no regular file; of a folder, and where there is nothing, opening says so.
    """
    with suppress(OSError):
        kind = _IRREGULAR.get(stat.S_IFMT(os.stat(path).st_mode))
        if kind is not None:
            raise usage_error(f"{name} {path}", "a regular file", kind, "it is read more than once: save it first")


def working_folder() -> Path:
    """That of this process; a UsageError where it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the folder that this was started in is gone: cd to one that is there") from None


def require_place(path: str, name: str) -> None:
    """Refuse a file that cannot be written, before the work that it is to be about.

    Args:
        path: of the file.
        name: what it was given as, for the error.

    Raises:
        UsageError: there is no folder for it that can be written, or it is a folder itself, or this one is gone.
    """
    file = Path(path)
    if not path:
        good, why = False, ""
    elif file.is_dir():
        good, why = False, "it is a folder: name a file in it"
    elif file.exists() and not file.is_file():
        good, why = os.access(file, os.W_OK), "it may not be written to"  # a device, a pipe
    else:
        folder = (working_folder() / file).resolve().parent
        good = folder.is_dir() and os.access(folder, os.W_OK)
        why = f"files may not be made in {folder}" if folder.is_dir() else f"there is no folder {folder}: make it first"
    if not good:
        raise usage_error(name, "a file that can be written", path or repr(path), why)


def require_different(outputs: Iterable[tuple[str, str | None]], inputs: Iterable[tuple[str, str | None]] = ()) -> None:
    """Refuse a file to be written that is another one to be written, or one to be read, before anything is written.

    Args:
        outputs: what each was given as, and its path; None and "": there is none.
        inputs: so, too, what is read.

    Raises:
        UsageError: two are the same file, links followed. What is no regular file, as a device, takes all.
    """
    seen: dict[str, str] = {}
    for name, path in inputs:
        if path:
            seen.setdefault(os.path.realpath(path), name)
    for name, path in outputs:
        if not path or (Path(path).exists() and not Path(path).is_file()):
            continue
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            expected = f"another file than that of {other}, which writing would destroy"
            raise usage_error(name, expected, path, "give it a name of its own")


def require_outputs(outputs: Sequence[tuple[str, str | None]], inputs: Iterable[tuple[str, str | None]] = ()) -> None:
    """`require_place` of what is to be written, which may be an empty name, and `require_different` of all."""
    for name, path in outputs:
        if path is not None:
            require_place(path, name)
    require_different(outputs, inputs)
