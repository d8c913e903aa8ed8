"""The ledger: a record for each superstep of what it cost, beside what was predicted.

Each processor keeps a log of its own supersteps, 80 bytes each, without talking to the others. Only when the ledger
is asked for are the logs combined, into maxima over the processors, which take the place of each one's own figures: it
stays at 80 bytes a superstep. Records are made from these rows when they are looked at.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import struct
import sys
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TextIO, overload

import numpy as np
from numpy.typing import NDArray

from ._version import __version__
from .decoding import (
    MisfitError,
    any_text,
    decode,
    each,
    fields,
    flag,
    number,
    one_of,
    optional,
    read_json,
    table,
    untouched,
    versioned,
    whole,
)
from .errors import UsageError
from .files import replacing
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

    Examples:
        >>> def main(bsp):
        ...     bsp.work(1e6)
        ...     bsp.send(0, np.zeros(100))
        ...     bsp.sync()
        >>> machine = pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)
        >>> (record,) = pybsp.simulate(main, machine=machine).ledger
        >>> record.work, record.h_out, record.h_in, record.h, record.M, record.messages, record.items
        (1000000.0, 100, 300, 300, 300, 3, 0)
        >>> f"{record.predicted:.6f} {record.measured:.6f} {record.seconds:.6f}", record.label
        ('0.001013 0.001013 0.001000', '')
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


class Checkpoint(NamedTuple):
    """What a checkpoint has cost.

    superstep: that went on.
    bytes: on disk, of all processors.
    seconds: that the program waited for it, maximum over processors; they are in no record.
    """

    superstep: int
    bytes: int
    seconds: float


# The columns of a processor's rows.
LABEL, WORK, SECONDS, MEASURED, WORDS_OUT, WORDS_IN, MESSAGES_OUT, MESSAGES_IN, ITEMS_OUT, ITEMS_IN = range(10)
COLUMNS = 10
# Of combined rows these are others; the last is not used.
MESSAGES, ITEMS, WORDS = MESSAGES_OUT, MESSAGES_IN, ITEMS_OUT

pack_row = struct.Struct(f"={COLUMNS}d").pack_into  # of a log
_GATHERED = 1 << 16  # rows that a processor is sent to combine at a time: 5 MiB
_COMBINING = 64  # processors that combine, at most: of very many, each would have a few rows


class Counts:
    """What one processor counts of its own supersteps, from some superstep on.

    supersteps, h, messages, work: the sums so far; h and messages of the larger of out and in.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.begin()
        self.supersteps = self.h = self.messages = 0
        self.work = 0.0

    def begin(self) -> None:
        """Count the supersteps that end from now on."""
        self._next = len(self._log)

    def update(self) -> None:
        """Count the supersteps that have ended meanwhile."""
        rows = self._log.table(self._next)
        self._next += len(rows)
        self.supersteps += len(rows)
        self.h += int(np.maximum(rows[:, WORDS_OUT], rows[:, WORDS_IN]).sum())
        self.messages += int(np.maximum(rows[:, MESSAGES_OUT], rows[:, MESSAGES_IN]).sum())
        self.work += float(rows[:, WORK].sum())


class Log:
    """What one processor notes of its supersteps, and, once the ledger was asked for, what all did in them.

    Attributes:
        numbers: the open chunk: flat rows of `COLUMNS` numbers (LABEL, WORK, ...), of which those up to `end` are
            filled; zeros beyond. Counts are exact up to 2^53.
        labels: this processor's labels, numbered as they came.
        combined: supersteps, from the first on, whose rows are no longer this processor's: those of all processors
            have taken their place, in the form of `combine`, and never change again.
        names: the labels in the combined rows, by number.
        checkpoints: the fields of a `Checkpoint`, of each.
    """

    ROWS = 1024  # of a chunk
    CHUNK = ROWS * COLUMNS  # numbers of one

    def __init__(self) -> None:
        self._full: list[memoryview[float]] = []
        self._open()
        self.labels: dict[str, int] = {"": 0}
        self.combined = 0
        self.names: list[str] = []
        self._counting: list[Counts] = []
        self.checkpoints: list[tuple[int, int, float]] = []

    def _open(self) -> None:
        self.numbers = memoryview(bytearray(8 * self.CHUNK)).cast("d")
        self.end = 0
        self.memory = self.numbers.obj

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
        pack_row(
            self.memory,
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
        self.end = at = at + COLUMNS
        if at == self.CHUNK:
            self.turn()

    def turn(self) -> None:
        """The open chunk is full: begin another."""
        self._full.append(self.numbers)
        self._open()

    def __len__(self) -> int:
        return len(self._full) * self.ROWS + self.end // COLUMNS

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """What this processor counts in the block, up to its last `update`, whether or not the ledger is asked for."""
        counts = Counts(self)
        self._counting.append(counts)
        try:
            yield counts
        finally:
            self._counting.remove(counts)

    def pieces(self, first: int, last: int) -> Iterator[NDArray[np.float64]]:
        """The rows from `first` to before `last` where they are, chunk by chunk: arrays of shape (some, 10)."""
        while first < last:
            number, row = divmod(first, self.ROWS)
            chunk = self._full[number] if number < len(self._full) else self.numbers
            piece = np.asarray(chunk).reshape(self.ROWS, COLUMNS)[row : row + last - first]
            yield piece
            first += len(piece)

    def table(self, first: int, last: int | None = None) -> NDArray[np.float64]:
        """The rows from `first` to before `last` (None: to the end), shape (supersteps, 10): a copy."""
        pieces = list(self.pieces(first, len(self) if last is None else last))
        return np.concatenate(pieces) if pieces else np.empty((0, COLUMNS))

    def as_saved(self) -> dict[str, Any]:
        """All of it as plain data, from which `resume` goes on."""
        return {
            "rows": self.table(0),
            "labels": list(self.labels),
            "combined": self.combined,
            "names": list(self.names),
            "checkpoints": list(self.checkpoints),
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Be what was saved; what was noted here until now goes."""
        self._full.clear()
        self._open()
        for row in saved["rows"].tolist():
            self.note(*row)
        self.labels.clear()
        self.labels.update((label, number) for number, label in enumerate(saved["labels"]))
        self.combined, self.names, self.checkpoints = saved["combined"], saved["names"], saved["checkpoints"]
        for counts in self._counting:
            counts.begin()

    def note_checkpoint(self, superstep: int, size: int, seconds: float) -> None:
        """A checkpoint of so many bytes, for which the processors waited so long."""
        self.checkpoints.append((superstep, size, seconds))

    def fresh_labels(self, last: int) -> list[str]:
        """The labels, not yet among `names`, of the rows before `last` that are not combined yet."""
        most = max((int(piece[:, LABEL].max()) for piece in self.pieces(self.combined, last)), default=-1)
        return list(islice(self.labels, len(self.names), most + 1))

    def update_counts(self) -> None:
        """What is being counted is counted so far: rows may be combined from now on."""
        for counts in self._counting:
            counts.update()

    def put(self, combined: Iterable[NDArray[np.float64]]) -> None:
        """Take the combined rows of the next supersteps, in order, in place of this processor's own."""
        for rows in combined:
            at = 0
            for piece in self.pieces(self.combined, self.combined + len(rows)):
                piece[:] = rows[at : at + len(piece)]
                at += len(piece)
            self.combined += len(rows)


def combine(tables: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """What all processors did in some supersteps, from the rows of each: those of processor 0 come first.

    Args:
        tables: of each processor, shape (supersteps, 10).

    Returns:
        shape (supersteps, 10): processor 0's label; the maxima of work, seconds, measured, words out and words in, and
        of MESSAGES and ITEMS of queues (each of out and in); the WORDS of all; nothing.
    """
    rest = iter(tables)
    most = np.array(next(rest))
    labels, words = most[:, LABEL].copy(), most[:, WORDS_OUT].copy()
    for other in rest:
        np.maximum(most, other, out=most)
        words += other[:, WORDS_OUT]
    most[:, LABEL] = labels
    messages = np.maximum(most[:, MESSAGES_OUT], most[:, MESSAGES_IN])
    items = np.maximum(most[:, ITEMS_OUT], most[:, ITEMS_IN])
    most[:, MESSAGES], most[:, ITEMS], most[:, WORDS] = messages, items, words
    most[:, -1] = 0.0
    return most


def shares(first: int, last: int, p: int) -> list[tuple[int, int]]:
    """Which processors combine which of the supersteps from `first` to before `last` in one round.

    Returns:
        of processors 0, 1, ... the first superstep and the one after the last; as many as fit a round, in which nobody
        is sent more than 5 MiB to combine, and about as much of what was combined.
    """
    share = max(1, _GATHERED // p)
    last = min(last, first + min(p, _COMBINING) * share)
    return [(begin, min(begin + share, last)) for begin in range(first, last, share)]


class _Records(Sequence[Record]):
    """Records, each of which is made when it is asked for."""

    @abstractmethod
    def _at(self, number: int) -> Record:
        """The record of this number, from 0 to len - 1."""

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        chosen = range(len(self))[index]
        if isinstance(chosen, range):
            return [self[number] for number in chosen]
        return self._at(chosen)


class Ledger(_Records):
    """The records of all supersteps so far, combined over the processors.

    machine: whose parameters the predictions are made from.
    virtual: whether the times are virtual.
    checkpoints: what they have cost, a `Checkpoint` of each.

    Examples:
        >>> def main(bsp):
        ...     for label in "first", "second":
        ...         with bsp.superstep(label):
        ...             bsp.send(0, bsp.pid)
        >>> ledger = pybsp.simulate(main, machine=pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)).ledger
        >>> ledger
        <ledger: 2 supersteps, h = 6 words in all>
        >>> [record.label for record in ledger], ledger.h
        (['first', 'second'], 6)
        >>> f"{ledger.predicted:.3g} s predicted, {ledger.measured:.3g} s measured"
        '2.01e-05 s predicted, 2.01e-05 s measured'
    """

    def __init__(self, machine: BSPMachine | EBSPMachine, log: Log, virtual: bool = False) -> None:
        """What is combined in a log; what comes to it later changes nothing here."""
        self.machine = machine
        self.virtual = virtual
        self._chunks = list(log.pieces(0, log.combined))  # all but the last of `Log.ROWS` rows
        self._names = log.names  # only ever grows
        self.checkpoints = [Checkpoint(*one) for one in log.checkpoints]

    def __len__(self) -> int:
        return Log.ROWS * (len(self._chunks) - 1) + len(self._chunks[-1]) if self._chunks else 0

    def _at(self, number: int) -> Record:
        chunk, row = divmod(number, Log.ROWS)
        return self._record(self._chunks[chunk][row].tolist())

    def __iter__(self) -> Iterator[Record]:
        for chunk in self._chunks:
            for row in chunk.tolist():
                yield self._record(row)

    def _record(self, row: Sequence[float]) -> Record:
        """The record of a combined row.

        On virtual processors `seconds` is what the clock took for computing, work and parts included; on MPI ranks
        the work that a program charges is what a prediction is to be made from.
        """
        work, h = row[WORK], max(row[WORDS_OUT], row[WORDS_IN])
        computing = work / self.machine.r if work and not self.virtual else row[SECONDS]
        return Record(
            label=self._names[int(row[LABEL])],
            work=work,
            seconds=row[SECONDS],
            messages=int(row[MESSAGES]),
            h_out=int(row[WORDS_OUT]),
            h_in=int(row[WORDS_IN]),
            h=int(h),
            M=int(row[WORDS]),
            predicted=self.machine.elapsed(computing, h, row[MESSAGES], row[WORDS], row[ITEMS]),
            measured=row[MEASURED],
            items=int(row[ITEMS]),
        )

    @property
    def predicted(self) -> float:
        """Seconds of all supersteps as predicted."""
        return sum(record.predicted for record in self)

    @property
    def measured(self) -> float:
        """Seconds of all supersteps as measured (each superstep's slowest processor)."""
        return float(sum(seconds for chunk in self._chunks for seconds in chunk[:, MEASURED].tolist()))

    @property
    def h(self) -> int:
        """Words: the sum of h over the supersteps."""
        return sum(int(np.maximum(chunk[:, WORDS_OUT], chunk[:, WORDS_IN]).sum()) for chunk in self._chunks)

    def __repr__(self) -> str:
        return f"<ledger: {len(self)} supersteps, h = {self.h} words in all>"

    def about(self, hosts: Sequence[str], router: str) -> dict[str, Any]:
        """What one needs to know about where the ledger of a run was taken."""
        machine = self.machine
        return {
            "p": machine.p,
            "machine": machine.as_json(),
            "router": router,
            **({"checkpoints": [one._asdict() for one in self.checkpoints]} if self.checkpoints else {}),
            "virtual": self.virtual,
            "hosts": list(hosts),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(self.virtual),
            "units": {"work": "flop", "seconds": "s", "h": "words of 8 bytes", "predicted": "s", "measured": "s"},
        }

    def as_json(self, hosts: Sequence[str], router: str) -> dict[str, Any]:
        """The ledger of one run, with `about`, as a ledger file has it."""
        return {**self.about(hosts, router), "supersteps": [record._asdict() for record in self]}


def versions(virtual: bool) -> dict[str, str]:
    """Versions of what took part in a run."""
    found = {"pybsp": __version__, "python": platform.python_version(), "numpy": np.__version__}
    if not virtual:
        import mpi4py
        from mpi4py import MPI

        found["mpi4py"] = mpi4py.__version__
        found["mpi"] = " ".join(MPI.Get_library_version().strip("\x00 \n").split("\n")[0].split())
    return found


_COUNT, _FIGURE = whole(), number()
_COUNTS = ("messages", "h_out", "h_in", "h", "M", "items")
_RECORD = fields(
    {
        "label": any_text,
        **dict.fromkeys(("work", "seconds"), _FIGURE),
        **dict.fromkeys(_COUNTS[:-1], _COUNT),
        **dict.fromkeys(("predicted", "measured"), _FIGURE),
    },
    {"items": _COUNT},
    others=untouched,
)
_MACHINE = fields(
    {"calibrated": flag},
    {
        **dict.fromkeys(("g", "l", "r", "g1", "g2", "s", "o_msg", "o_item"), _FIGURE),
        **dict.fromkeys(("error_median", "error_p95"), optional(_FIGURE)),
    },
    others=untouched,
)


_figures = itemgetter(*Record._fields[1:])


class Supersteps(_Records):
    """The records of a run in a ledger file: 88 bytes of each, and its label once.

    names: the labels, in the order in which they first come.
    """

    def __init__(self) -> None:
        self._numbers = array("d")
        self._labels: dict[str, int] = {}
        self.names: list[str] = []

    def append(self, value: Any) -> None:
        """Take a record as JSON has it.

        Raises:
            MisfitError: it is none.
        """
        found = _RECORD(value)
        found.setdefault("items", 0)
        label = self._labels.setdefault(found["label"], len(self.names))
        if label == len(self.names):
            self.names.append(found["label"])
        self._numbers.append(label)
        self._numbers.extend(_figures(found))

    def numbers(self) -> NDArray[np.float64]:
        """Rows of a label's number and what else a `Record` has, shape (supersteps, 11)."""
        return np.frombuffer(self._numbers).reshape(-1, len(Record._fields))

    def __len__(self) -> int:
        return len(self._numbers) // len(Record._fields)

    def _at(self, number: int) -> Record:
        width = len(Record._fields)
        label, work, seconds, *counts, predicted, measured, items = self._numbers[number * width : (number + 1) * width]
        words = map(int, counts)
        return Record._make((self.names[int(label)], work, seconds, *words, predicted, measured, int(items)))


def _supersteps(value: Any) -> Supersteps:
    """The decoder of all records of a run."""
    if isinstance(value, Supersteps):
        return value
    found = Supersteps()
    each(found.append)(value)
    return found


_RUN = fields(
    {
        "p": whole(1),
        "machine": _MACHINE,
        "router": any_text,
        "virtual": flag,
        "hosts": each(any_text),
        "date": any_text,
        "versions": table(any_text),
        "supersteps": _supersteps,
    },
    others=untouched,
)
_FILE = fields({"format": one_of(FORMAT), "version": one_of(VERSION), "runs": each(_RUN)}, others=untouched)
_HEAD = f'{{"format": "{FORMAT}", "version": {VERSION}, "runs": ['
_TAIL = "\n]}\n"


def append_run(path: str | os.PathLike[str], run: dict[str, Any], first: bool) -> None:
    """Add a run to a ledger file; the first run of a job begins the file anew.

    The file is there whole at any time, as it was or as it will be. Memory for one record is enough: what is there is
    copied, and "supersteps" may be any iterable.

    Raises:
        OSError: it cannot be written.
        UsageError: it is not as this job's runs before have left it.
    """
    with replacing(path) as file:
        if first or not Path(path).is_file():
            file.write(_HEAD)
        else:
            _copy_runs(Path(path), file)
            file.write(",")
        about = {name: value for name, value in run.items() if name != "supersteps"}
        file.write(f'\n{_json(about)[:-1]}, "supersteps": [')
        for number, record in enumerate(run["supersteps"]):
            file.write(f"{',' if number else ''}\n{_json(record)}")
        file.write(f"\n]}}{_TAIL}")


def _copy_runs(path: Path, file: TextIO) -> None:
    """Write a ledger file again without its end."""
    with path.open(encoding="utf-8") as earlier:
        text, rest = earlier.read(len(_HEAD)), ""
        if text == _HEAD:
            while piece := earlier.read(1 << 20):
                file.write(text)
                text = rest + piece
                text, rest = text[: -len(_TAIL)], text[-len(_TAIL) :]
            file.write(text)
    if rest != _TAIL:
        raise UsageError(f"ledger file {path}: somebody has changed it since the last run of this job wrote it")


_encoder = json.JSONEncoder(allow_nan=False)


def _json(content: dict[str, Any]) -> str:
    """JSON, which knows no infinity: a figure beyond all numbers is the largest."""
    try:
        return _encoder.encode(content)
    except ValueError:
        return _encoder.encode(
            {
                name: sys.float_info.max if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in content.items()
            }
        )


def record_run(path: str, ledger: Ledger, hosts: Sequence[str], router: str, first: bool) -> bool:
    """Add a run to a ledger file, or say on stderr why not: the run's result is worth more than its record.

    Returns:
        whether it was added.
    """
    records = (record._asdict() for record in ledger)
    try:
        append_run(path, {**ledger.about(hosts, router), "supersteps": records}, first)
    except (OSError, UsageError) as error:
        print(
            f"pybsp: the ledger of this run could not be written to {path} ({error}); what the file held is as it was, "
            "and the program goes on with its result",
            file=sys.stderr,
        )
        return False
    return True


class Recording:
    """The ledger file that the runs of this process are added to; the first one begins it anew."""

    def __init__(self) -> None:
        self._runs = 0

    def add(self, path: str, ledger: Ledger, hosts: Sequence[str], router: str) -> None:
        """Add a run, as `record_run`."""
        self._runs += record_run(path, ledger, hosts, router, first=self._runs == 0)


def require_place(path: str, name: str) -> None:
    """Refuse a ledger file that cannot be written, before the work that it is to be about.

    Args:
        path: of the file.
        name: what it was given as, for the error.

    Raises:
        UsageError: there is no folder for it that can be written, or it is a folder itself.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        good = not file.is_dir() and os.access(file, os.W_OK)  # a device, a pipe
    else:
        folder = file.resolve().parent
        good = folder.is_dir() and os.access(folder, os.W_OK)
    if not good:
        raise UsageError(f"{name}: expected a file that can be written, got {path}")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a ledger file; records of before items of queues were counted apart have none.

    Raises:
        UsageError: it cannot be read, or is none; the text says what was expected where.
    """
    origin, way_out = (
        f"ledger file {path}",
        "write one with `pybsp run --ledger FILE` or `pybsp simulate --ledger FILE`",
    )
    content = _by_lines(Path(path)) or read_json(path, "ledger file")
    found: dict[str, Any] = decode(versioned(content, origin, FORMAT, VERSION, way_out), origin, _FILE)
    return found


def _by_lines(path: Path) -> dict[str, Any] | None:
    """The content of a file as `append_run` leaves it, a line of which is held at a time; None of any other."""
    runs = []
    with suppress(OSError, ValueError, RecursionError, MisfitError), path.open(encoding="utf-8") as file:
        if file.readline() != f"{_HEAD}\n":
            return None
        more = True
        while more:
            head, records = file.readline(), Supersteps()
            if not head.endswith(', "supersteps": [\n'):
                return None
            while (line := file.readline().rstrip("\n")) not in ("]}", "]},", ""):
                records.append(json.loads(line.removesuffix(",")))
            runs.append({**json.loads(f"{head}]}}"), "supersteps": records})
            more = line == "]},"
        if line == "]}" and f"\n{file.read(9)}" == _TAIL:
            return {"format": FORMAT, "version": VERSION, "runs": runs}
    return None
