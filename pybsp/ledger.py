"""The ledger: a record for each superstep of what it cost, beside what was predicted.

Each processor keeps a log of its own supersteps, 80 bytes each, without talking to the others. Only when the ledger
is asked for are the logs combined, into maxima over the processors.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ._version import __version__
from .errors import UsageError
from .machine import BSPMachine, EBSPMachine

FORMAT = "pybsp-ledger"
VERSION = 1


class Record(NamedTuple):
    """One superstep.

    label: as given to `bsp.superstep`, or "".
    work: flop charged by `bsp.work`, maximum over processors.
    seconds: of computing, maximum over processors (virtual processors: work / r, unless measured).
    messages: that one processor sends or receives, maximum over processors; what a queue sends to one destination is
        one message.
    h_out, h_in: words that one processor sends, and receives, maximum over processors.
    h: the larger of the two.
    M: words that all processors send.
    predicted: seconds by the machine in force, with w from `work` where any was charged, else from `seconds`.
    measured: seconds from the last sync to the end of this one, maximum over processors.
    items: of queues, that one processor sends or receives, maximum over processors.
    """

    label: str
    work: float
    seconds: float
    messages: int
    h_out: int
    h_in: int
    h: int
    M: int
    predicted: float
    measured: float
    items: int = 0


_pack_row = struct.Struct("=10d").pack_into  # of a log


class Log:
    """What one processor notes of its supersteps.

    Attributes:
        numbers: the open chunk: flat rows of `COLUMNS` numbers, of which those up to `end` are filled; zeros beyond.
            Counts are exact up to 2^53.
    """

    COLUMNS = 10  # label, work, seconds, measured; words, messages and items of queues, each out and in
    CHUNK = 1024 * COLUMNS

    def __init__(self) -> None:
        self._full: list[memoryview[float]] = []
        self._open()
        self.labels: dict[str, int] = {"": 0}

    def _open(self) -> None:
        self.numbers = memoryview(bytearray(8 * self.CHUNK)).cast("d")
        self.end = 0
        self._memory = self.numbers.obj

    def note(
        self,
        label: float,
        work: float,
        seconds: float,
        measured: float,
        words_out: int,
        words_in: int,
        messages_out: int,
        messages_in: int,
        items_out: int,
        items_in: int,
    ) -> None:
        """A superstep."""
        at = self.end
        _pack_row(
            self._memory,
            8 * at,
            label,
            work,
            seconds,
            measured,
            words_out,
            words_in,
            messages_out,
            messages_in,
            items_out,
            items_in,
        )
        self.end = at = at + self.COLUMNS
        if at == self.CHUNK:
            self.turn()

    def turn(self) -> None:
        """The open chunk is full: begin another."""
        self._full.append(self.numbers)
        self._open()

    def __len__(self) -> int:
        return len(self._full) * (self.CHUNK // self.COLUMNS) + self.end // self.COLUMNS

    def table(self, first: int = 0) -> NDArray[np.float64]:
        """The rows from `first` on, shape (supersteps, 10): a copy."""
        skip, rest = divmod(first * self.COLUMNS, self.CHUNK)
        pieces = [*self._full, self.numbers[: self.end]][skip:]
        whole = np.concatenate([np.asarray(piece) for piece in pieces] or [np.empty(0)])
        return whole[rest:].reshape(-1, self.COLUMNS)


class Ledger(Sequence[Record]):
    """The records of all supersteps so far, combined over the processors.

    machine: whose parameters the predictions are made from.
    virtual: whether the times are virtual.
    """

    def __init__(
        self, machine: BSPMachine | EBSPMachine, records: Sequence[Record] = (), virtual: bool = False
    ) -> None:
        self.machine = machine
        self.virtual = virtual
        self._records = list(records)

    @classmethod
    def combine(
        cls,
        machine: BSPMachine | EBSPMachine,
        tables: Sequence[NDArray[np.float64]],
        labels: Sequence[str],
        virtual: bool,
    ) -> Ledger:
        """The ledger from the tables of all processors, which have equal shapes.

        On virtual processors `seconds` is what the clock took for computing, work and parts included; on MPI ranks
        the work that a program charges is what a prediction is to be made from.
        """
        most = np.array(tables[0])
        total = np.array(tables[0][:, 4])
        for table in tables[1:]:
            np.maximum(most, table, out=most)
            total += table[:, 4]
        names = [labels[int(k)] for k in tables[0][:, 0]]
        records = []
        for name, row, words in zip(names, most.tolist(), total.tolist(), strict=True):
            _, work, seconds, measured, *traffic = row
            out, into, messages_out, messages_in, items_out, items_in = map(int, traffic)
            h, messages, items = max(out, into), max(messages_out, messages_in), max(items_out, items_in)
            computing = work / machine.r if work and not virtual else seconds
            predicted = machine.elapsed(computing, h, messages, words, items)
            records.append(Record(name, work, seconds, messages, out, into, h, int(words), predicted, measured, items))
        return cls(machine, records, virtual)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self._records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    @property
    def predicted(self) -> float:
        """Seconds of all supersteps as predicted."""
        return sum(record.predicted for record in self)

    @property
    def measured(self) -> float:
        """Seconds of all supersteps as measured (each superstep's slowest processor)."""
        return sum(record.measured for record in self)

    @property
    def h(self) -> int:
        """Words: the sum of h over the supersteps."""
        return sum(record.h for record in self)

    def __repr__(self) -> str:
        return f"<ledger: {len(self)} supersteps, h = {self.h} words in all>"

    def as_json(self, hosts: Sequence[str], router: str) -> dict[str, Any]:
        """The ledger of one run, with what one needs to know about where it was taken."""
        machine = self.machine
        return {
            "p": machine.p,
            "machine": machine.as_json(),
            "router": router,
            "virtual": self.virtual,
            "hosts": list(hosts),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(self.virtual),
            "units": {"work": "flop", "seconds": "s", "h": "words of 8 bytes", "predicted": "s", "measured": "s"},
            "supersteps": [record._asdict() for record in self],
        }


def versions(virtual: bool) -> dict[str, str]:
    """Versions of what took part in a run."""
    found = {"pybsp": __version__, "python": platform.python_version(), "numpy": np.__version__}
    if not virtual:
        import mpi4py
        from mpi4py import MPI

        found["mpi4py"] = mpi4py.__version__
        found["mpi"] = " ".join(MPI.Get_library_version().strip("\x00 \n").split("\n")[0].split())
    return found


def append_run(path: str | os.PathLike[str], run: dict[str, Any], first: bool) -> None:
    """Add a run to a ledger file; the first run of a job begins the file anew."""
    file = Path(path)
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION, "runs": []} if first else read(file)
    content["runs"].append(run)
    file.write_text(json.dumps(content, indent=1) + "\n")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a ledger file; records of before items of queues were counted apart have none.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        content = json.loads(Path(path).read_text())
    except OSError as error:
        raise UsageError(f"ledger file {path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UsageError(f"ledger file {path}: is not JSON ({error})") from error
    if (
        not isinstance(content, dict)
        or content.get("format") != FORMAT
        or content.get("version") != VERSION
        or "runs" not in content
    ):
        raise UsageError(
            f'ledger file {path}: expected "format": "{FORMAT}" and "version": {VERSION}; write one with '
            "`pybsp run --ledger FILE` or `pybsp simulate --ledger FILE`"
        )
    for run in content["runs"]:
        for record in run["supersteps"]:
            record.setdefault("items", 0)
    return content
