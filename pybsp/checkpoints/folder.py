"""The checkpoints of one run in a folder.

    DIR/run-0/000012/3.part          what processor 3 has saved
    DIR/run-0/000012/manifest.json   renamed to be there when all parts are on disk: from then on the checkpoint counts
    DIR/run-0/jobs                   a random id of each job that has gone on here, in the folder that all see
    DIR/lock                         locked by the job that uses DIR; LOCAL/lock-HOST of a folder that a host has
    DIR/end-1234abcd                 by which `pybsp run` gives its job notice (notice.py)

A program's runs are numbered from 0; the checkpoints of each count on from one job to the next. A folder of one host
may have checkpoints of jobs with another shared folder, which are known by these ids.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
import zlib
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import CheckpointError
from ..ground.files import replacing
from .part import SavedPart, Written, read, sync

FORMAT, VERSION = "pybsp-checkpoint", 1
FULL = (errno.ENOSPC, errno.EDQUOT)  # there is no room


class Manifest(NamedTuple):
    """What a checkpoint consists of.

    program: that has written it.
    job: the id of its job.
    superstep: that goes on.
    parts: by processor.
    """

    program: str
    job: str
    superstep: int
    parts: Sequence[Written]


_locks: dict[Path, int] = {}  # file descriptors of the files that this process has locked


class Folder:
    """The checkpoints of one run in one folder.

    Args:
        root: as the user has named it.
        run: its number in the program.
    """

    def __init__(self, root: Path, run: int) -> None:
        self.root, self.path = root, root / f"run-{run}"

    def prepare(self) -> None:
        """Be there, and be writable; else a CheckpointError."""
        probe = self.path / f".probe-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CheckpointError(
                f"the folder for checkpoints, {self.root}: expected one that can be written, got: "
                f"{error.strerror or error}; name another"
            ) from None

    def begin_job(self) -> Sequence[str]:
        """Another job goes on here, with an id of its own; those of all, its own the last.

        Where the disk is full its id is not written: what it saves in folders of its hosts is no later job's.

        Raises:
            CheckpointError: it cannot be written.
        """
        path, own = self.path / "jobs", os.urandom(8).hex()
        before: list[str] = []
        try:
            with path.open("a+", encoding="ascii", errors="replace") as file:
                file.seek(0)
                before = file.read().split()
                file.write(f"\n{own}")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if error.errno in FULL:
                return [*before, own]
            raise CheckpointError(
                f"bsp.restore: {path}: expected a file that can be written, got: {error.strerror or error}; make room, "
                "or name another folder"
            ) from None
        return [*before, own]

    def place(self, number: int) -> Path:
        return self.path / f"{number:06}"

    def part(self, number: int, pid: int) -> Path:
        return self.place(number) / f"{pid}.part"

    def make(self, number: int) -> None:
        """Make the folder of a checkpoint; what another job has left in it goes when it is written over."""
        self.place(number).mkdir(parents=True, exist_ok=True)

    def numbers(self) -> list[int]:
        """All that were begun, ascending."""
        with suppress(OSError):
            return sorted(int(name) for name in os.listdir(self.path) if name.isascii() and name.isdigit())
        return []

    def counted(self) -> list[int]:
        """Those that have a manifest, ascending."""
        return [number for number in self.numbers() if (self.place(number) / "manifest.json").exists()]

    def foreign(self, jobs: Container[str]) -> list[int]:
        """Those that count, and are of none of these jobs, ascending."""
        found = []
        for number in self.counted():
            with suppress(CheckpointError):  # whose a damaged one is nobody knows: it stays, and is refused when read
                if self.manifest(number).job not in jobs:
                    found.append(number)
        return found

    def remove(self, numbers: Iterable[int]) -> None:
        """Take some away."""
        for number in numbers:
            with suppress(OSError):
                (self.place(number) / "manifest.json").unlink()  # first: the rest does not count any more
            shutil.rmtree(self.place(number), ignore_errors=True)

    def commit(self, number: int, manifest: Manifest) -> None:
        """From now on the checkpoint counts; all its parts here are on disk. An OSError where it cannot be written."""
        place = self.place(number)
        sync(place)  # the names of the parts
        content: Any = {"format": FORMAT, "version": VERSION, **manifest._asdict()}
        text = json.dumps(content)
        with replacing(place / "manifest.json") as file:
            json.dump({"crc": zlib.crc32(text.encode()), "manifest": content}, file)
        sync(place)
        sync(self.path)

    def manifest(self, number: int) -> Manifest:
        """What a checkpoint consists of; a CheckpointError where it is missing or damaged."""
        path = self.place(number) / "manifest.json"
        try:
            found = json.loads(path.read_bytes())
            content = found["manifest"]
            if zlib.crc32(json.dumps(content).encode()) != found["crc"]:
                raise ValueError("it does not have its checksum")
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"version {content['version']} of {content['format']}, expected {VERSION}")
            parts = [Written(*part) for part in content["parts"]]
            return Manifest(content["program"], content["job"], content["superstep"], parts)
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path}: it is damaged ({error})") from None

    def read(self, number: int, pid: int) -> SavedPart:
        """A processor's part of a checkpoint; a CheckpointError where it is missing or damaged."""
        parts = self.manifest(number).parts
        if pid >= len(parts):
            raise CheckpointError(f"{self.place(number)}: it has no part of processor {pid}")
        return read(self.part(number, pid), parts[pid])

    def prune(self, keep: int, damaged: Container[int] = ()) -> None:
        """Take away all but the last ones that count and are not damaged, and what was begun before those."""
        counted = [number for number in self.counted() if number not in damaged][-keep:]
        self.remove(number for number in self.numbers() if counted and number < counted[-1] and number not in counted)


def lock(root: Path, wait: float, host: str = "") -> None:
    """Lock a folder for this job, until its process ends.

    Args:
        wait: seconds for another job, which may be about to end.
        host: whose folder it is; "": all see it.

    Raises:
        CheckpointError: another job has it.
    """
    path = root / (f"lock-{host}" if host else "lock")
    if path in _locks:
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CheckpointError(
            f"{path}: expected a file that can be written, got: {error.strerror or error}; remove it, or name another "
            "folder"
        ) from None
    until = time.monotonic() + wait
    while path not in _locks:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _locks[path] = descriptor
        except BlockingIOError:  # noqa: PERF203
            if time.monotonic() > until:
                os.close(descriptor)
                raise CheckpointError(
                    f"the folder for checkpoints, {root}, is in use by another job; wait for its end, or name another"
                ) from None
            time.sleep(0.05)
        except OSError:
            _locks[path] = descriptor  # a file system without locks
