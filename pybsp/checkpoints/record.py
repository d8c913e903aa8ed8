"""What one processor got in each exchange, on disk, from the checkpoint on that its job went on from; and read again.

DIR/run-0/record/3.record    pickles, one after the other, each behind its bytes, its CRC and a CRC of these two: a
                             `RecordHeader`, what each exchange brought, and, where the program called `bsp.restore`, a
                             `Restored`
DIR/run-0/record/3.part      the part of the checkpoint that it went on from
"""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import CheckpointError
from ..ground.announcing import announce
from ..ground.files import is_own
from ..machines.bsp import BSPMachine
from ..transport import FREE, KIND, SAVE, Arrival, Charge, Parcels, Section, Transport
from ..transport.router import Router
from .part import SavedPart, Written, copy, read

_OF_EXCHANGE = 5  # what is recorded of one: kinds, notes, parcels, joined, and the kind of this processor's own
_FRAME, _CHECK = struct.Struct("<QI"), struct.Struct("<I")  # bytes, CRC; CRC of these two


class RecordHeader(NamedTuple):
    """What was recorded, and how.

    program: `sys.argv`; folder: where it ran; machine: the one in force, by which collectives choose; nodes: of each
        processor a number, equal for those that have one clock; none in older records.
    """

    program: Sequence[str]
    folder: str
    pid: int
    p: int
    checked: bool
    machine: BSPMachine
    nodes: Sequence[int] = ()


class Restored(NamedTuple):
    """What `bsp.restore` has read: the part beside the record; None where it gave its default."""

    part: Written | None


class Recorder:
    """Writes the record of a processor; none of the others, which only do as it does.

    Args:
        folder: of the record.
        header: None on a processor that is not recorded.
    """

    def __init__(self, folder: Path, header: RecordHeader | None) -> None:
        self._header = header
        self._file: BinaryIO | None = None
        self._restoring = True  # of exchanges about checkpoints only the one with which `restore` begins counts
        if header is not None:
            self._path = folder / f"{header.pid}.record"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                place = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._end(error)
                return
            self._file = open(place, "wb", buffering=0)  # noqa: SIM115
            self._write(header)

    def _write(self, what: Any) -> None:
        if self._file is None:
            return
        content = pickle.dumps(what, 5)
        frame = _FRAME.pack(len(content), zlib.crc32(content))
        left = memoryview(b"".join((frame, _CHECK.pack(zlib.crc32(frame)), content)))
        whole = self._file.tell()
        try:
            while left:  # Linux writes 2 GiB at a time
                left = left[self._file.write(left) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(whole)  # what is cut off would take room
            self._end(error)

    def _end(self, error: OSError) -> None:
        """The record cannot go on: the program does, without it."""
        assert self._header is not None
        announce(
            f"pybsp: the record of processor {self._header.pid} ends here: {self._path}: {error.strerror or error}; "
            "the program goes on"
        )
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None

    def brought(self, kind: int, arrival: Arrival) -> None:
        """An exchange has brought this."""
        if self._file is not None and (kind & KIND != SAVE or self._restoring):
            if kind & KIND == SAVE:
                self._restoring = False
            parcels = [
                (source, {stream: tuple(one) for stream, one in parcel.items()}) for source, parcel in arrival[2]
            ]
            self._write((arrival.kinds, arrival.notes, parcels, dict(arrival.joined), kind & KIND))

    def restored(self, part: SavedPart | None) -> None:
        """`bsp.restore` has read this part."""
        if self._file is not None:
            if part is not None:
                beside = self._path.with_suffix(".part")
                try:
                    copy(Path(part.name), beside)
                except OSError as error:
                    with suppress(OSError):
                        beside.unlink()  # it would take room
                    self._end(error)
            self._write(Restored(None if part is None else part.written))


class RecordingRouter:
    """A router that does what another one does, and has what it brings recorded.

    Args:
        router: the other one.
        recorder: of this processor.
    """

    def __init__(self, router: Router, recorder: Recorder) -> None:
        self.name, self.meets_to_close = router.name, router.meets_to_close
        self._router, self._recorder = router, recorder

    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        arrival = self._router.route(kind, note, parcels, charge, grace)
        self._recorder.brought(kind, arrival)
        return arrival

    def part(self, transport: Transport, members: Sequence[int]) -> RecordingRouter:
        return RecordingRouter(self._router.part(transport, members), self._recorder)

    def close(self) -> None:
        self._router.close()


class RecordReader:
    """The record of a processor, read from its beginning on.

    Raises:
        CheckpointError: there is none, it is not this user's own, or it is damaged.
    """

    def __init__(self, folder: Path, pid: int) -> None:
        self.path = folder / f"{pid}.record"
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise CheckpointError(
                f"{self.path}: {error.strerror or error}; record a job with pybsp run --record {pid}"
            ) from None
        if not is_own(os.fstat(file.fileno())):
            raise CheckpointError(f"{self.path}: expected a file of this user's own: it holds pickles")
        self._read = self._all(file, self.path)
        header = next(self._read, None)
        if not isinstance(header, RecordHeader):
            raise CheckpointError(f"{self.path}: expected a record, got a file without its beginning")
        self.header = header

    def close(self) -> None:
        """Nothing more is read."""
        self._read.close()

    @staticmethod
    def _all(file: BinaryIO, path: Path) -> Generator[Any, None, None]:
        """What it consists of; what is cut off at its end is left out, as where its rank was killed."""
        with file:
            while len(frame := file.read(_FRAME.size + _CHECK.size)) == _FRAME.size + _CHECK.size:
                size, expected = _FRAME.unpack_from(frame)
                if zlib.crc32(frame[: _FRAME.size]) != _CHECK.unpack_from(frame, _FRAME.size)[0]:
                    raise _damaged(path)
                content = file.read(size)
                if len(content) < size:
                    return
                if zlib.crc32(content) != expected:
                    raise _damaged(path)
                yield pickle.loads(content)

    def arrival(self, kind: int, where: Callable[[], str]) -> Arrival:
        """What the next exchange brought, of this kind, else a CheckpointError; `where` says which one it is."""
        found = next(self._read, None)
        if found is None:
            raise CheckpointError(
                f"the record ends in {where()}: the job had got no further, or could not write its record"
            )
        if not isinstance(found, tuple) or len(found) != _OF_EXCHANGE or found[-1] != kind & KIND:
            raise CheckpointError(
                f"{self.path}: in {where()} the program does something else than it did when it was recorded: it has "
                "changed since, or its arguments, its surroundings or pybsp have; record the job again"
            )
        kinds, notes, parcels, joined, _ = found
        return Arrival(
            kinds,
            notes,
            [(source, {stream: Section(*one) for stream, one in parcel.items()}) for source, parcel in parcels],
            joined,
        )

    def part(self) -> SavedPart | None:
        """The part that `bsp.restore` read."""
        found = next(self._read, None)
        if not isinstance(found, Restored):
            raise CheckpointError(f"{self.path}: bsp.restore was not called there, or the record ends")
        return None if found.part is None else read(self.path.with_suffix(".part"), found.part)


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path}: it is damaged (it does not have its checksum); record the job again")
