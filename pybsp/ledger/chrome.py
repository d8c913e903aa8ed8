"""A trace as a file in Chrome's trace form, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A run is a process there, a processor a thread. A superstep is a slice with its label; a collective's lies within, and
below that computing, waiting for the slowest processor, and the exchange. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from .._version import __version__
from ..errors import UsageError
from ..ground import settings
from ..ground.announcing import announce
from ..ground.files import replacing
from .recording import acknowledge
from .trace import LONGEST, SPANS, Trace

SPANS_OF_FILE = 4 * SPANS  # of all runs of a job; what comes later is counted only
_PARTS = ("computing", "waiting", "exchange")
FORMAT, VERSION = "pybsp-trace", 1  # of the file; Perfetto looks at traceEvents alone


class LogPRun(Protocol):
    """What there is of a LogP run."""

    @property
    def spans(self) -> int:
        """Operations of it."""

    @property
    def seconds(self) -> float:
        """From its begin to its end."""

    def encoded(self) -> str:
        """A line of JSON."""

    def events(self, run: int, begin: int) -> Iterator[dict[str, Any]]:
        """The events of the run of that number, which begins at that nanosecond."""


class TraceFile:
    """The trace file of the runs of this process: written anew, whole, with each."""

    def __init__(self) -> None:
        self._events: list[str] = []  # of each run
        self._logp: list[str] = []
        self._runs = self._spans = self._left_out = 0
        self._end = 0  # nanoseconds, of the last run

    def add(self, path: str, trace: Trace, title: str) -> None:
        """Add a BSP run, or say on stderr why not: the run's result is worth more than its trace."""
        self._runs += 1
        if self._has_room(trace.counts.shape[1] * trace.p):
            self._events.append(_lines(_events(trace, self._runs, title, self._end)))
            self._end += round(1e9 * trace.seconds)
        self._write(path)

    def add_logp(self, path: str, run: LogPRun) -> None:
        """Add a LogP run, likewise: its events, and what `pybsp report` reads of it."""
        self._runs += 1
        if self._has_room(run.spans):
            self._logp.append(run.encoded())
            self._events.append(_lines(run.events(self._runs, self._end)))
            self._end += round(1e9 * run.seconds)
        self._write(path)

    def _has_room(self, spans: int) -> bool:
        """Whether so many more are to be kept; the first run is."""
        if self._runs > 1 and self._spans + spans > SPANS_OF_FILE:
            self._left_out += 1
            return False
        self._spans += spans
        return True

    def _write(self, path: str) -> None:
        acknowledge(settings.TRACE_WRITTEN)
        other = {"pybsp": __version__, "runs": self._runs, "runs left out": self._left_out}
        head = f'{{"format": "{FORMAT}", "version": {VERSION}, "displayTimeUnit": "ns", '
        head += f'"otherData": {json.dumps(other)}, "logp": [\n'
        try:
            with replacing(path) as file:
                file.write(head)
                file.writelines(_with_commas(self._logp))
                file.write('\n], "traceEvents": [\n')
                file.writelines(_with_commas(self._events))
                file.write("\n]}\n")
        except (OSError, UsageError) as error:
            announce(
                f"pybsp: the trace of this run could not be written to {path} ({error}); the program goes on with its "
                "result"
            )


def _events(trace: Trace, run: int, title: str, begin: int) -> Iterator[dict[str, Any]]:
    """The events of a run that begins at that nanosecond."""
    yield {"ph": "M", "name": "process_name", "pid": run, "args": {"name": f"run {run}: {title}"}}
    for pid in range(trace.p):
        yield {"ph": "M", "name": "thread_name", "pid": run, "tid": pid, "args": {"name": f"processor {pid}"}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": run, "tid": pid, "args": {"sort_index": pid}}
    for pid in range(trace.p):
        parts = np.rint(1e9 * np.stack([getattr(trace, name)[pid] for name in _PARTS], axis=1)).astype(np.int64)
        at = begin
        for span, (pieces, counts) in enumerate(zip(parts.tolist(), trace.counts[pid].tolist(), strict=True)):
            yield from _superstep(trace, run, pid, span, at, pieces, counts)
            at += sum(pieces)


def _superstep(
    trace: Trace, run: int, pid: int, span: int, at: int, pieces: Sequence[int], counts: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """The slices of one superstep of one processor, or of several that go together."""
    first, last = span * trace.size, min((span + 1) * trace.size, trace.supersteps) - 1
    args: dict[str, Any] = {"superstep": first} if first == last else {"supersteps": f"{first} to {last}"}
    args |= dict(zip(("words out", "words in", "messages out"), map(int, counts), strict=True))
    if trace.size == 1 and span in trace.riding:
        args["riding"] = trace.riding[span]
    if trace.size == 1 and span in trace.parts:
        args["parts"] = trace.parts[span]
    label = trace.labels[span]

    def piece(name: str, category: str, begin: int, length: int, **more: Any) -> dict[str, Any]:
        name, ts, dur = name[:LONGEST], begin / 1e3, length / 1e3
        return {"ph": "X", "name": name, "cat": category, "pid": run, "tid": pid, "ts": ts, "dur": dur, **more}

    yield piece(label or "superstep", "superstep", at, sum(pieces), args=args)
    collective = trace.collectives.get(span)
    if collective is not None and collective != label:
        yield piece(collective, "collective", at, sum(pieces))
    for name, length in zip(_PARTS, pieces, strict=True):
        if length:
            yield piece(name, name, at, length)
        at += length


trace_file = TraceFile()

_encoded = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def _lines(events: Iterable[dict[str, Any]]) -> str:
    return ",\n".join(map(_encoded, events))


def _with_commas(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f",\n{line}" if number else line
