"""The checkpoints of one run in a folder.

    DIR/run-0/000012/3.part          what processor 3 has saved
    DIR/run-0/000012/manifest.json   renamed to be there when all parts are on disk: from then on the checkpoint counts
    DIR/lock                         held by the job that uses DIR
    DIR/end                          the job that uses DIR is to save and end

A program's runs are numbered from 0; the checkpoints of each count on from one job to the next.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import CheckpointError
from ..files import replacing
from .part import Part, Written, read, sync

FORMAT, VERSION = "pybsp-checkpoint", 1


class Manifest(NamedTuple):
    """What a checkpoint consists of.

    program: that has written it.
    superstep: that goes on.
    parts: by processor.
    """

    program: str
    superstep: int
    parts: Sequence[Written]


def tell_to_end(root: Path, told: bool = True) -> None:
    """Tell the job that uses a folder to save and end, or take that back."""
    with suppress(OSError):
        if told:
            (root / "end").touch()
        else:
            (root / "end").unlink()


class Folder:
    """The checkpoints of one run in one folder.

    Args:
        root: as the user has named it.
        run: its number in the program.
    """

    def __init__(self, root: Path, run: int) -> None:
        self.root, self.path = root, root / f"run-{run}"

    def prepare(self) -> None:
        """Be there, and be writable.

        Raises:
            CheckpointError: it cannot be.
        """
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

    def told_to_end(self) -> bool:
        """Whether the job is."""
        return (self.root / "end").exists()

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
            return sorted(int(name) for name in os.listdir(self.path) if name.isdigit())
        return []

    def counted(self) -> list[int]:
        """Those that have a manifest, ascending."""
        return [number for number in self.numbers() if (self.place(number) / "manifest.json").exists()]

    def commit(self, number: int, manifest: Manifest) -> None:
        """From now on the checkpoint counts. All its parts here are on disk.

        Raises:
            OSError: it cannot be written.
        """
        place = self.place(number)
        sync(place)  # the names of the parts
        content: Any = {"format": FORMAT, "version": VERSION, **manifest._asdict()}
        text = json.dumps(content)
        with replacing(place / "manifest.json") as file:
            json.dump({"crc": zlib.crc32(text.encode()), "manifest": content}, file)
        sync(place)
        sync(self.path)

    def manifest(self, number: int) -> Manifest:
        """What a checkpoint consists of.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        path = self.place(number) / "manifest.json"
        try:
            found = json.loads(path.read_bytes())
            content = found["manifest"]
            if zlib.crc32(json.dumps(content).encode()) != found["crc"]:
                raise ValueError("it does not have its checksum")
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"version {content['version']} of {content['format']}, expected {VERSION}")
            parts = [Written(*part) for part in content["parts"]]
            return Manifest(content["program"], content["superstep"], parts)
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path}: it is damaged ({error})") from None

    def read(self, number: int, pid: int) -> Part:
        """A processor's part of a checkpoint.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        parts = self.manifest(number).parts
        if pid >= len(parts):
            raise CheckpointError(f"{self.place(number)}: it has no part of processor {pid}")
        return read(self.part(number, pid), parts[pid])

    def prune(self, keep: int) -> None:
        """Take away all but the last ones that count, and what was begun before those."""
        counted = self.counted()[-keep:]
        for number in self.numbers():
            if counted and number < counted[-1] and number not in counted:
                shutil.rmtree(self.place(number), ignore_errors=True)


def lock(root: Path, wait: float) -> int:
    """Hold a folder for this job, until its process ends.

    Args:
        wait: seconds for another job, which may be about to end.

    Returns:
        A file descriptor.

    Raises:
        CheckpointError: another job holds it.
    """
    descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:  # noqa: PERF203
            if time.monotonic() > until:
                os.close(descriptor)
                raise CheckpointError(
                    f"the folder for checkpoints, {root}, is in use by another job; wait for its end, or name another"
                ) from None
            time.sleep(0.05)
        except OSError:
            return descriptor  # a file system without locks
