"""A LogP run as a trace file has it: its timeline, and where it was; and as slices for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ..ground.decoding import (
    LARGEST,
    MisfitError,
    any_text,
    each,
    fields,
    flag,
    number,
    one_of,
    optional,
    table,
    untouched,
    whole,
)
from ..machines.logp import LogPMachine
from .arguments import CAPACITIES
from .operations import MOST_TIME, RECV, SEND
from .timeline import Timeline, paired

SLICES = 48_000  # operations of a run that are drawn
PREDICTED = 1_000_000  # and the number of the run: what was predicted, among processes


@dataclass(frozen=True)
class TracedRun:
    """A run in a trace file.

    Args:
        timeline: what was measured; where it is virtual, what the model did.
        capacity: how it was kept.
        virtual: whether the machine was simulated.
        hosts: of each processor.
        date, versions: as in a ledger.
        predicted: what the model says; None where there is no machine to predict by. It is not in the file.
        unpredicted: why there is none, where there is a machine; "" else.
    """

    timeline: Timeline
    capacity: str | None
    virtual: bool
    hosts: Sequence[str]
    date: str
    versions: Mapping[str, str]
    predicted: Timeline | None = None
    unpredicted: str = ""

    @property
    def kind(self) -> str:
        """What its times are."""
        return "simulated" if self.virtual else "measured"

    @property
    def spans(self) -> int:
        """Operations of it."""
        return len(self.timeline)

    @property
    def seconds(self) -> float:
        """Of the longer one."""
        return max(self.timeline.seconds, 0.0 if self.predicted is None else self.predicted.seconds)

    def events(self, run: int, begin: int) -> Iterator[dict[str, Any]]:
        """In Chrome's trace form: what was measured is one process there, what was predicted another."""
        hosts = "virtual processors" if self.virtual else f"on {', '.join(sorted(set(self.hosts)))}"
        yield from slices(self.timeline, run, f"run {run}, {self.kind}: p = {self.timeline.p} {hosts}", begin)
        if self.predicted is not None:
            yield from slices(self.predicted, PREDICTED + run, f"run {run}, predicted", begin)

    def encoded(self) -> str:
        """A line of JSON. Of the operations' times it has what is computed before each, and how long each took."""
        t = self.timeline
        machine = {name: getattr(t.machine, name) for name in ("L", "o", "G", "step", "G_word", "calibrated")}
        content = {
            "p": t.p,
            "machine": machine,
            "capacity": self.capacity,
            "paced": t.paced,
            "virtual": self.virtual,
            "hosts": list(self.hosts),
            "date": self.date,
            "versions": self.versions,
            "uncertain": t.uncertain,
            "left out": t.left_out,
            "started": t.started.tolist(),
            "finished": t.finished.tolist(),
            "work": t.work.tolist(),
            "operations": np.diff(t.first).tolist(),
            "peers": np.where(t.kinds == SEND, t.peers, -1 - t.peers).tolist(),
            "words": t.words.tolist(),
            "computing": t.computing.tolist(),
            "took": (t.ended - t.begun).tolist(),
            "ready": (t.ready - t.begun).tolist(),
        }
        return json.dumps(content, allow_nan=False, separators=(",", ":"))


_STEPS, _TIME = whole(1), whole(most=MOST_TIME)
_MACHINE = fields(
    {"L": _STEPS, "o": whole(), "G": _STEPS, "step": number(above=True)},
    {"G_word": optional(number()), "calibrated": flag},
)
_COLUMNS = {
    "peers": whole(-LARGEST),
    "words": whole(),
    "computing": _TIME,
    "took": _TIME,
    "ready": whole(-MOST_TIME, MOST_TIME),
}
_OF_PROCESSORS = {"started": _TIME, "finished": _TIME, "work": _TIME, "operations": whole(), "hosts": any_text}
_FIELDS = fields(
    {
        "p": whole(1),
        "machine": _MACHINE,
        "capacity": optional(one_of(*(name for name in CAPACITIES if name is not None))),
        "paced": flag,
        "virtual": flag,
        "date": any_text,
        "versions": table(any_text),
        "uncertain": number(),
        "left out": whole(),
        **{name: each(decoder) for name, decoder in {**_OF_PROCESSORS, **_COLUMNS}.items()},
    },
    others=untouched,
)


def run_of(value: Any) -> TracedRun:
    """The decoder of a run in a trace file."""
    found: dict[str, Any] = _FIELDS(value)
    p, count = found["p"], sum(found["operations"])
    for name in _OF_PROCESSORS:
        if len(found[name]) != p:
            raise MisfitError(f"a list of p = {p}", f"one of {len(found[name])}", f".{name}")
    for name in _COLUMNS:
        if len(found[name]) != count:
            raise MisfitError(f"a list of {count}, as operations says", f"one of {len(found[name])}", f".{name}")
    ends = [0, *accumulate(found["operations"])]
    for start, finished, low, high in zip(found["started"], found["finished"], ends, ends[1:], strict=False):
        if start + sum(found["computing"][low:high]) + sum(found["took"][low:high]) > finished:
            raise MisfitError("times after the last operations", "an earlier one", ".finished")
    arrays = {name: np.array(found[name], np.int64) for name in (*_COLUMNS, *_OF_PROCESSORS) if name != "hosts"}
    first = np.array(ends)
    pids = np.repeat(np.arange(p), arrays["operations"])
    kinds = np.where(arrays["peers"] >= 0, SEND, RECV)
    peers = np.where(arrays["peers"] >= 0, arrays["peers"], -1 - arrays["peers"])
    if ((peers >= p) | (peers == pids)).any():
        raise MisfitError(f"other processors below {p}", "the same, or one above", ".peers")
    if not paired(pids, kinds, peers).all():
        raise MisfitError("as many messages sent as acquired between two processors", "others", ".peers")
    steps = np.cumsum(arrays["computing"] + arrays["took"])  # of all together: what overflows cancels out again
    before = np.concatenate(([0], steps))[first[:-1]]
    ended = steps + np.repeat(arrays["started"] - before, arrays["operations"])
    begun = ended - arrays["took"]
    machine, ready = LogPMachine(p, **found["machine"]), begun + arrays["ready"]
    of_processors = arrays["started"], arrays["finished"], arrays["work"]
    about = found["paced"], found["uncertain"], found["left out"], found["virtual"]
    of_operations = kinds, peers, arrays["words"], begun, ready, ended
    timeline = Timeline.of_columns(machine, first, *of_operations, *of_processors, *about)
    return TracedRun(timeline, found["capacity"], found["virtual"], found["hosts"], found["date"], found["versions"])


def slices(timeline: Timeline, run: int, title: str, begin: int) -> Iterator[dict[str, Any]]:
    """The events of a timeline for Chrome's trace form.

    Args:
        timeline: whose.
        run: the process there.
        title: its name.
        begin: the nanosecond at which it begins.
    """
    t = timeline
    yield {"ph": "M", "name": "process_name", "pid": run, "args": {"name": title}}
    for pid in range(t.p):
        yield {"ph": "M", "name": "thread_name", "pid": run, "tid": pid, "args": {"name": f"processor {pid}"}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": run, "tid": pid, "args": {"sort_index": pid}}
    drawn = np.sort(np.argsort(t.begun, kind="stable")[:SLICES])
    sends, receives = t.pairs()
    message = np.empty(len(t), np.int64)
    message[sends] = message[receives] = np.arange(len(sends))
    overhead = t.ended - t.begun - t.gap - t.stalled - t.waiting
    columns = (t.pids, t.kinds, t.peers, t.words, t.begun, t.ended, t.waiting, t.gap, overhead, t.stalled, message)
    for pid, kind, peer, words, at, ended, *pieces, which in zip(
        *(column[drawn].tolist() for column in columns), strict=True
    ):
        place = {"pid": run, "tid": pid}
        name = f"{'send to' if kind == SEND else 'receive from'} {peer}"
        yield _slice(name, "operation", begin + at, ended - at, place, args={"words": words})
        flow = {"name": "message", "cat": "message", "id": f"{run}.{which}", **place}
        yield (
            {"ph": "s", "ts": (begin + at) / 1e3, **flow}
            if kind == SEND
            else {"ph": "f", "bp": "e", "ts": (begin + ended) / 1e3, **flow}
        )
        start = begin + at
        for part, length in zip(("waiting", "G", "o", "stalled"), pieces, strict=True):
            if length > 0:
                yield _slice(part, part, start, length, place)
            start += length


def _slice(name: str, category: str, begin: int, length: int, place: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": category, **place, "ts": begin / 1e3, "dur": length / 1e3, **more}
