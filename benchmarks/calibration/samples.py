"""Raw samples: what was timed, one row a sample, on disk as they come.

A raw file is CSV. Its first line is a comment with what was known when it was begun (JSON: p, hosts, placement, seed,
versions, timer, options); later comment lines are events, as the end of a launch. Everything in a machine file is
computed from such a file alone, so that `pybsp calibrate --from` gives the same bits again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

from pybsp.errors import UsageError
from pybsp.ground.decoding import (
    Decoder,
    MisfitError,
    anything,
    decode,
    each,
    fields,
    number,
    one_of,
    parse,
    read_text,
    shown,
    table,
    text,
    versioned,
    whole,
)

from .placement import about

FORMAT = "pybsp-samples"
VERSION = 2  # since 0.4: other waits before exchanges than in files of before
Key = TypeVar("Key")
EXCHANGE = "exchange"  # where a point is of which the exchange alone counts


class Point(NamedTuple):
    """What is timed.

    Words are of 8 bytes; a message's words are ceil(bytes / 8), as the ledger counts them. h_out, h_in, busiest and
    items are maxima over the processors, by count and not by formula.

    Args:
        experiment: "rate" (computing), "bsp" (supersteps that g, l and o_msg are fitted from), "unbalanced" (for
            E-BSP), "held-out" (supersteps that nothing is fitted from), "class" (within and between nodes), "queue"
            (many items through a queue), "way" and "after" (exchanges by the way of data, and after computing; with
            "held-out-way" and "held-out-after"), "first" (of "way", those after others were visited), "repeat"
            (reference points again and again, for drift), "logp" (the LogP and LogGP signature).
        pattern: the kernel ("axpy", "dot", "matmul", "sort"), the pattern of messages ("exchange", "permutation",
            "sparse", "shift", "many-to-one", ...), or of a LogP quantity ("round-trip", "train", "receive", "eager",
            "burst").
        layer: "bsp", "logp" (our LogP layer), "raw" (mpi4py), or "" where none takes part.
        where: "" (all processors alike), "intra" (within nodes), "inter" (between nodes, one processor on each),
            "inter-all" (between nodes, all processors), "exchange" (the exchange alone, as the ledger has it: without
            what it takes to send and to read).
        size: bytes of one message; of the working set for a kernel.
        messages: of the busiest processor in the pattern's own terms (m); of a train (n); senders of a burst (k).
        delay: seconds between two sends of a train; that a receiver sleeps; of computing before an exchange.
        h_out, h_in: words that one processor sends, and receives, at most.
        M: words in all.
        busiest: messages that one processor sends or receives, at most; what goes to another through a queue is one.
        work: flop of one operation, by each processor.
        items: of queues, that one processor sends or receives, at most.
    """

    experiment: str
    pattern: str
    layer: str = ""
    where: str = ""
    size: int = 0
    messages: int = 0
    delay: float = 0.0
    h_out: int = 0
    h_in: int = 0
    M: int = 0
    busiest: int = 0
    work: float = 0.0
    items: int = 0

    @property
    def h(self) -> int:
        """Words: the larger of h_out and h_in."""
        return max(self.h_out, self.h_in)

    @property
    def short(self) -> tuple[str, str, str, str, int, int]:
        """As events name it: experiment, pattern, layer, where, size, messages."""
        return self[:6]

    @property
    def uneven(self) -> bool:
        """Whether some processors may only send in a superstep of it, and run ahead of those that receive.

        Its sample is what it takes beyond an empty superstep, which has to wait for them.
        """
        return self.pattern in ("sparse", "many-to-one", "scatter", "few") or self.pattern.startswith("senders-")


class Sample(NamedTuple):
    """One sample of a point.

    Args:
        point: what was timed.
        launch: number of the launch (mpiexec) that it belongs to, from 0.
        batch: number of the visit to this point in its launch, from 0; samples of one follow right after one another.
        repeats: operations in this sample.
        seconds: of one operation: the sample's time / repeats.
        at: seconds from the begin of the launch to the begin of the sample.
        pid: the processor that it is of (a kernel's rate), -1 for a time of all.
    """

    point: Point
    launch: int
    batch: int
    repeats: int
    seconds: float
    at: float
    pid: int = -1


def grouped(samples: Iterable[Sample], key: Callable[[Sample], Key]) -> dict[Key, list[Sample]]:
    """Samples by a key, in the order in which they come."""
    found: dict[Key, list[Sample]] = {}
    for sample in samples:
        found.setdefault(key(sample), []).append(sample)
    return found


COLUMNS = (*Point._fields, *Sample._fields[1:])
_WHOLE = {"size", "messages", "h_out", "h_in", "M", "busiest", "items", "launch", "batch", "repeats", "pid"}
_REAL = {"delay", "work", "seconds", "at"}


@dataclass
class Raw:
    """What a raw file holds.

    Args:
        about: what was known when it was begun; see `harness`.
        samples: in the order in which they came.
        events: later comment lines, {"event": "launch" | "ended" | "interrupted" | ..., ...}; see `harness`.
        exchanges: samples of exchanges alone, each beside that of its superstep.
        missing: what is wrong with the file (cut in the middle), in words, "" if nothing.
    """

    about: dict[str, Any]
    samples: list[Sample] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    missing: str = ""
    exchanges: list[Sample] = field(default_factory=list)


class Writer:
    """Appends to a raw file; every batch is on disk when `write` returns."""

    def __init__(self, path: str | os.PathLike[str], about: dict[str, Any] | None) -> None:
        """Begin a file (`about` given), or go on with one that is there (None); a cut last line is taken away.

        Raises:
            UsageError: it cannot be written; where it was to begin there is none.
        """
        self.path = Path(path)
        try:
            self._file: TextIO = self.path.open("r+" if about is None else "a")
            self._lock()
            whole = self.path.read_bytes().rfind(b"\n") + 1 if about is None else 0
            self._file.truncate(whole)
            self._file.seek(whole)
        except OSError as error:
            raise UsageError(f"raw samples {path}: cannot be written ({error.strerror})") from None
        if about is not None:
            self._begin(about)

    def _lock(self) -> None:
        """Nobody else writes the file now, where its file system knows locks; a UsageError where somebody does."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UsageError(
                f"raw samples {self.path}: another calibration writes them now: name another file (-o), or wait for it"
            ) from None
        except OSError:
            pass

    def _begin(self, about: dict[str, Any]) -> None:
        try:
            self._append(_comment_line({"format": FORMAT, "version": VERSION, **about}) + ",".join(COLUMNS) + "\n", "")
        except UsageError:
            self.close()
            self.path.unlink(missing_ok=True)
            raise

    def write(self, samples: Iterable[Sample]) -> None:
        """Append samples; a UsageError where they cannot be written."""
        self._append("".join(",".join(map(str, (*s.point, *s[1:]))) + "\n" for s in samples))

    def event(self, event: str, **more: Any) -> None:
        """Append a comment line; raises what `write` does."""
        self._append(_comment_line({"event": event, **more}))

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # of what could not be written, which has been said
            self._file.close()

    def _append(self, text: str, hint: str = "; make room, then --resume goes on with what it holds") -> None:
        try:
            self._file.write(text)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"raw samples {self.path}: cannot be written ({error.strerror}){hint}") from None


def _comment_line(content: dict[str, Any]) -> str:
    return f"# {json.dumps(content)}\n"


def read(path: str | os.PathLike[str]) -> Raw:
    """Read a raw file; of one that was cut in the middle, what is whole.

    Raises:
        UsageError: it cannot be read, is no raw file, is of a version that this pybsp does not know, or a whole line of
            it holds what cannot be; the text says in which line and field.
    """
    origin = f"raw samples {path}"
    lines = read_text(path, "raw samples").split("\n")
    if lines[0].startswith("{"):
        raise UsageError(f"{origin}: is a machine file, or other JSON: expected the samples (.csv) that were beside it")
    last = lines.pop()  # "" in a whole file
    content = parse(lines[0].lstrip("# "), f"{origin}: line 1") if lines else None
    first = versioned(content, f"{origin}: line 1", FORMAT, VERSION, "calibrate again")
    del first["format"], first["version"]
    raw = Raw(decode(first, f"{origin}: line 1", about))
    if len(lines) < 2 or lines[1].split(",") != list(COLUMNS):
        raise UsageError(f"{origin}: expected the columns {','.join(COLUMNS)} in its second line")
    for k, line in enumerate(lines[2:], 3):
        place = f"{origin}: line {k}"
        if line.startswith("#"):
            raw.events.append(decode(parse(line.lstrip("# "), place), place, _EVENT))
        else:
            sample = decode(line, place, _sample)
            (raw.exchanges if sample.point.where == EXCHANGE else raw.samples).append(sample)
    if last:
        raw.missing = f"{path} is cut: its last line could not be read; {len(raw.samples)} samples are whole"
    return raw


def _key(value: Any) -> list[Any]:
    """The decoder of a point in an event: [experiment, pattern, layer, where, size, messages]."""
    row = each(anything, least=6, most=6)(value)
    names = Point._fields[:6]
    return list(fields({name: _FORMS[name] for name in names})(dict(zip(names, row, strict=True))).values())


def _sample(line: str) -> Sample:
    """The decoder of a line of samples."""
    row = line.split(",")  # no field ever holds a comma or a quote
    if len(row) != len(COLUMNS):
        raise MisfitError(f"{len(COLUMNS)} fields", str(len(row)))
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    for names, kind in ((_WHOLE, int), (_REAL, float)):
        for name in names:
            with suppress(ValueError):
                values[name] = kind(values[name])  # else the form refuses the text
    values = _FIELDS(values)
    found = [values[name] for name in COLUMNS]
    point = Point(*found[: len(Point._fields)])
    if point.experiment != "logp" and not point.uneven:  # only what is a difference of two times may be below 0
        _TIME(values)
    return Sample(point, *found[len(Point._fields) :])


_LONGEST = 1e9  # seconds, 30 years: nothing that was timed took longer
_FORMS: dict[str, Decoder] = {
    **dict.fromkeys(("experiment", "pattern"), text),
    "layer": one_of("bsp", "logp", "raw", ""),
    "where": one_of("", "intra", "inter", "inter-all", EXCHANGE),
    **dict.fromkeys(_WHOLE, whole()),
    "repeats": whole(1),
    "pid": whole(-1),
    **dict.fromkeys(_REAL, number(most=_LONGEST)),
    "work": number(),
}
_FIELDS = fields({**_FORMS, "seconds": number(-_LONGEST, _LONGEST)})
_TIME = fields(_FORMS)


def _trips(value: Any) -> Any:
    """The decoder of a pilot's round trips: where -> bytes -> seconds."""
    found = table(table(number(most=_LONGEST)))(value)
    for sizes in found.values():
        for size in sizes:
            if not (size.isascii() and size.isdigit()) or len(size) > 15:
                raise MisfitError("sizes in bytes", shown(size))
    return found


_EVENT = fields(
    {"event": text},
    {"slow": each(_key), "points": each(_key), "trips-raw": _trips, "trips-logp": _trips},
    others=anything,
)
